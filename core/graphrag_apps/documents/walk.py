"""Find the files of folders, paths and glob patterns, one at a time, without listing folders into memory."""

import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from stat import S_ISREG
from typing import TypeAlias

from graphrag_core.errors import InputError
from graphrag_core.index import KnowledgeIndex

# Sphinx copies the sources of its pages into "_sources": every passage would be there twice.
_SKIPPED_NAMES = {"node_modules", "__pycache__", "site-packages", "bower_components", "venv", "_sources"}
_WILDCARD = re.compile(r"[*?\[]")

Place: TypeAlias = tuple[Path, re.Pattern[str] | None]
"""A folder, and what the paths of its files relative to it must match."""


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


def as_paths(paths: str | Path | Iterable[str | Path]) -> tuple[str, ...]:
    """Return one path or several as a tuple; the characters of a string are not paths.

    >>> as_paths("docs"), as_paths(["docs", "notes.md"])
    (('docs',), ('docs', 'notes.md'))
    """
    try:
        given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        names = [os.fspath(path) for path in given]
    except TypeError as error:
        raise InputError(f"{paths!r:.80} is not a path: pass a str or a Path, or a list of them") from error
    if not all(isinstance(path, str) and path for path in names):
        raise InputError(f"{paths!r:.80} has a path that is empty or bytes: pass a str or a Path for each")
    return tuple(names)


def walk_files(
    paths: str | Path | Iterable[str | Path], *, follow_links: bool = False, formats: Collection[str] | None = None
) -> Iterator[File | Problem]:
    """Yield the files of folders (recursively), paths and glob patterns, each file once.

    Hidden files, caches, version control and index folders are skipped unless given by
    their own path. A symbolic link to a file that is yielded itself is skipped; others within a folder are followed,
    and cycles end. One that leads out of the folder is followed with ``follow_links`` alone: otherwise whoever may
    write to the folder could have any file indexed. It is yielded as a :class:`Problem`, as is whatever cannot be
    opened. A link to a file is none if ``formats``, the extensions that are read, are given and do not have its own.
    """
    given = as_paths(paths)
    seen: set[tuple[int, int]] = set()  # devices and inodes
    places = [place for place in map(folder_of, given) if place]
    for path in given:
        place = folder_of(path)
        items: Iterable[tuple[File, os.stat_result] | Problem]
        if place:
            items = _walk_folder(*place, places, follow_links, formats)
        elif os.path.lexists(path):
            items = _file(Path(path).absolute(), Path(path).name, explicit=True)
        else:
            items = [Problem(_printable(path), "no such file or folder")]
        is_empty = True
        for item in items:
            if isinstance(item, Problem):
                yield item
                continue
            is_empty = False
            file, stat = item
            if (stat.st_dev, stat.st_ino) not in seen:
                yield file
            if len(given) > 1:  # they may overlap
                seen.add((stat.st_dev, stat.st_ino))
        if place and place[1] is not None and is_empty:
            yield Problem(_printable(path), "no file matches this pattern")


def folder_of(path: str) -> Place | None:
    """Return a folder, or the folder of a glob pattern and what its files must match; None for a single file."""
    if os.path.isdir(path):
        return Path(path).absolute(), None
    return split_pattern(path) if is_pattern(path) and not os.path.lexists(path) else None


def is_pattern(path: str) -> bool:
    """Whether a path has a wildcard."""
    return _WILDCARD.search(path) is not None


def is_skipped(name: str) -> bool:
    """Whether a file or folder of this name is left out: hidden ones, caches, and locks of office programs."""
    return name.startswith((".", "~$")) or name in _SKIPPED_NAMES


def split_pattern(pattern: str) -> tuple[Path, re.Pattern[str]]:
    """Split a glob pattern into its folder and a regular expression for whole paths relative to it.

    Only ``**`` matches across folders.

    >>> folder, matches = split_pattern("docs/team/**/*.md")
    >>> folder.name, bool(matches.fullmatch("a/b/c.md")), bool(split_pattern("*.md")[1].fullmatch("a/c.md"))
    ('team', True, False)
    """
    parts = PurePath(pattern).parts
    first = next(i for i, part in enumerate(parts) if is_pattern(part))
    wildcards = {"**/": r"(?:[^/]+/)*", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    out = []
    for token in re.findall(r"\*\*/|\*\*|\*|\?|\[!?[^\]]+\]|.", "/".join(parts[first:]), re.DOTALL):
        if len(token) > 2 and token[0] == "[":
            out.append(f"[{'^' if token[1] == '!' else ''}{re.escape(token.strip('[]!')).replace(chr(92) + '-', '-')}]")
        else:
            out.append(wildcards.get(token, re.escape(token)))
    try:
        return Path(*parts[:first]).absolute(), re.compile("".join(out))
    except re.error as error:
        raise InputError(f"{pattern!r} is not a pattern ({error}): use *, ?, ** and [a-z]") from error


def _file(path: Path, name: str, *, explicit: bool) -> Iterator[tuple[File, os.stat_result] | Problem]:
    try:
        str(path).encode()
        stat = path.stat()
    except UnicodeEncodeError:
        yield Problem(_printable(path), "its name is not valid UTF-8: rename it")
        return
    except (OSError, ValueError) as error:
        if not explicit and path.is_symlink():  # a broken link: an error if a file of its format would be read
            yield File(path, name, 1), path.lstat()
        else:
            yield _cannot_open(path, error)
        return
    if S_ISREG(stat.st_mode):
        yield File(path, name, stat.st_size, explicit), stat
    elif explicit:  # folders may hold pipes and sockets
        yield Problem(_printable(path), "not a regular file")


def _walk_folder(
    root: Path, matches: re.Pattern[str] | None, places: Sequence[Place], follow_links: bool,
    formats: Collection[str] | None,
) -> Iterator[tuple[File, os.stat_result] | Problem]:  # fmt: skip
    """Yield the files of a folder. ``places`` has all given folders: links may lead into these."""
    pending = [(root, False)] if os.path.isdir(root) else []
    visited: set[tuple[int, int, bool]] = set()  # a link may give a folder a name that the pattern matches
    while pending:
        folder, is_linked = pending.pop()
        try:
            stat = folder.stat()
            if (stat.st_dev, stat.st_ino, is_linked) in visited:
                continue
            visited.add((stat.st_dev, stat.st_ino, is_linked))
            with os.scandir(folder) as entries:
                for entry in entries:
                    path = Path(entry.path)
                    leads_by_link = is_linked or entry.is_symlink()
                    if is_skipped(entry.name) or (leads_by_link and is_second_path(path, places)):
                        continue
                    if not follow_links and _leads_out(entry, places, formats):
                        reason = "a link that leads out of the folder: follow_links (--follow-links) reads it"
                        yield Problem(_printable(path), reason)
                    elif _is_folder(entry):
                        if not KnowledgeIndex.exists(path):
                            pending.append((path, leads_by_link))
                    elif matches is None or matches.fullmatch(path.relative_to(root).as_posix()):
                        yield from _file(path, path.relative_to(root).as_posix(), explicit=False)
        except OSError as error:
            yield _cannot_open(folder, error)


def _leads_out(entry: os.DirEntry[str], places: Sequence[Place], formats: Collection[str] | None) -> bool:
    """Return whether an entry is a link out of the given folders to a folder, or to a file that would be read.

    A broken link is reported when it is opened.
    """
    is_read = formats is None or Path(entry.name).suffix.lower() in formats or _is_folder(entry)
    if not is_read or not entry.is_symlink():
        return False
    target = Path(os.path.realpath(entry.path))
    return target.exists() and not any(target.is_relative_to(os.path.realpath(folder)) for folder, _ in places)


def is_second_path(path: Path, places: Sequence[Place]) -> bool:
    """Return whether a path leads by links to a file or folder that is found in the given folders by its own path.

    Hidden files are not found, and a file with another extension may be of another format.
    """
    target = Path(os.path.realpath(path))
    if target.suffix.lower() != path.suffix.lower() and not target.is_dir():
        return False
    for folder, matches in places:
        real = os.path.realpath(folder)
        if target.is_relative_to(real):
            name = target.relative_to(real)
            is_found = not any(map(is_skipped, name.parts)) and (matches is None or matches.fullmatch(name.as_posix()))
            if is_found and folder / name != path and target.exists():
                return True
    return False


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a symbolic link to itself
        return False


def _cannot_open(path: Path, error: OSError | ValueError) -> Problem:
    return Problem(_printable(path), f"cannot be opened ({getattr(error, 'strerror', None) or error})")


def _printable(path: Path | str) -> str:
    """Return a path that can be printed: bytes that are not UTF-8 are replaced."""
    return os.fsencode(path).decode("utf-8", "replace")
