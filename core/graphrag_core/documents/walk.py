"""Find the files of folders, paths and glob patterns, one at a time, without listing folders into memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from graphrag_core.index import KnowledgeIndex

_SKIPPED_NAMES = {"node_modules", "__pycache__", "site-packages", "bower_components", "venv"}
_WILDCARD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class File:
    """A file: its path, its name relative to the given folder, its size in bytes.

    ``explicit`` says that it was given by its own path, not found in a folder.
    """

    path: Path
    name: str
    size: int
    explicit: bool = False

    @property
    def suffix(self) -> str:
        """The extension, in lower case."""
        return self.path.suffix.lower()


@dataclass(frozen=True, slots=True)
class Problem:
    """A file, folder or row that was skipped, and why. ``empty`` marks a file without text."""

    path: str
    reason: str
    empty: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def walk_files(paths: Iterable[str | Path]) -> Iterator[File | Problem]:
    """Yield the files of folders (recursively), paths and glob patterns, each file once.

    Hidden files, caches, version control and index folders are skipped unless given by
    their own path. Symbolic links are followed; cycles end. Whatever cannot be opened is
    yielded as a :class:`Problem`.
    """
    given = [os.fspath(path) for path in paths]
    seen = _Seen(deduplicate=len(given) > 1)
    for path in given:
        if os.path.isdir(path):
            yield from _walk_folder(Path(path).absolute(), seen)
        elif os.path.lexists(path):
            yield from _file(Path(path).absolute(), seen)
        elif is_pattern(path):
            yield from _walk_pattern(path, seen)
        else:
            yield Problem(path, "no such file or folder")


def is_pattern(path: str) -> bool:
    """Whether a path has a wildcard."""
    return _WILDCARD.search(path) is not None


def split_pattern(pattern: str) -> tuple[str, str]:
    """Split a pattern into its folder and the part with wildcards.

    >>> split_pattern("docs/team/*.md"), split_pattern("*.md")
    (('docs/team', '*.md'), ('', '*.md'))
    """
    parts = PurePath(pattern).parts
    first = next(i for i, part in enumerate(parts) if is_pattern(part))
    return (str(PurePath(*parts[:first])) if first else "", "/".join(parts[first:]))


def pattern_to_regex(pattern: str) -> re.Pattern[str]:
    """Translate a glob pattern for whole relative paths. Only ``**`` matches across folders.

    >>> bool(pattern_to_regex("**/*.md").fullmatch("a/b/c.md")), bool(pattern_to_regex("*.md").fullmatch("a/c.md"))
    (True, False)
    """
    wildcards = {"**/": r"(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    out = []
    for token in re.findall(r"\*\*/|\*\*|\*|\?|\[!?[^\]]+\]|.", pattern, re.DOTALL):
        if len(token) > 2 and token[0] == "[":
            out.append(f"[{'^' if token[1] == '!' else ''}{re.escape(token.strip('[]!')).replace(chr(92) + '-', '-')}]")
        else:
            out.append(wildcards.get(token, re.escape(token)))
    return re.compile("".join(out))


class _Seen:
    """Counts files and, if paths may overlap, deduplicates them by device and inode."""

    def __init__(self, *, deduplicate: bool) -> None:
        self.count = 0
        self._inodes: set[tuple[int, int]] | None = set() if deduplicate else None

    def is_new(self, stat: os.stat_result) -> bool:
        self.count += 1
        return self._inodes is None or _add_inode(self._inodes, stat)


def _add_inode(inodes: set[tuple[int, int]], stat: os.stat_result) -> bool:
    """Add a file's inode; return whether it is new."""
    before = len(inodes)
    inodes.add((stat.st_dev, stat.st_ino))
    return len(inodes) > before


def _file(path: Path, seen: _Seen) -> Iterator[File | Problem]:
    try:
        stat = path.stat()
    except OSError as error:
        yield _cannot_open(path, error)
        return
    if seen.is_new(stat):
        yield File(path, path.name, stat.st_size, explicit=True)


def _walk_pattern(pattern: str, seen: _Seen) -> Iterator[File | Problem]:
    base, rest = split_pattern(pattern)
    before = seen.count
    if os.path.isdir(base or "."):
        yield from _walk_folder(Path(base or ".").absolute(), seen, pattern_to_regex(rest))
    if seen.count == before:
        yield Problem(pattern, "no file matches this pattern")


def _walk_folder(root: Path, seen: _Seen, matches: re.Pattern[str] | None = None) -> Iterator[File | Problem]:
    pending = [root]
    visited: set[tuple[int, int]] = set()
    while pending:
        folder = pending.pop()
        try:
            if not _add_inode(visited, folder.stat()):
                continue
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.startswith((".", "~$")) or entry.name in _SKIPPED_NAMES:
                        continue
                    if entry.is_dir():
                        if not KnowledgeIndex.exists(entry.path):
                            pending.append(Path(entry.path))
                        continue
                    name = Path(entry.path).relative_to(root).as_posix()
                    if matches is None or matches.fullmatch(name):
                        yield from _folder_entry(entry, name, seen)
        except OSError as error:
            yield _cannot_open(folder, error)


def _folder_entry(entry: os.DirEntry[str], name: str, seen: _Seen) -> Iterator[File | Problem]:
    try:
        stat = entry.stat()
    except OSError as error:
        yield _cannot_open(entry.path, error)
        return
    if entry.is_file() and seen.is_new(stat):  # skips pipes and sockets
        yield File(Path(entry.path), name, stat.st_size)


def _cannot_open(path: str | Path, error: OSError) -> Problem:
    return Problem(str(path), f"cannot be opened ({error.strerror or error})")
