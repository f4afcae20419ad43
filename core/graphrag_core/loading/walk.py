"""Which files a folder, a path or a pattern means, one at a time: nothing is listed into memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from graphrag_core.loading.pattern import is_pattern, split_pattern, to_regex

_JUNK = {"node_modules", "__pycache__", "site-packages", "bower_components", "venv"}
_INDEX = "records.sqlite"  # a folder with this inside is an index, not something to index


@dataclass(frozen=True, slots=True)
class File:
    """A file that was found: where it is, its name under the path that was given, its size in bytes.

    ``asked`` says that it was given by its own path rather than met in a folder.
    """

    path: Path
    name: str
    size: int
    asked: bool = False

    @property
    def suffix(self) -> str:
        """The end of the name that tells the format."""
        return self.path.suffix.lower()


@dataclass(frozen=True, slots=True)
class Problem:
    """A file, folder or row that was left out, and why. ``empty`` marks a file that says nothing."""

    path: str
    reason: str
    empty: bool = False

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


def walk(paths: Iterable[str | Path]) -> Iterator[File | Problem]:
    """Yield the files of folders (with their subfolders), paths and patterns, each file once.

    Hidden files, caches, version control and the folders of indexes are passed over unless
    they are asked for by name. Links are followed, in circles only once. What cannot be
    looked into comes as a :class:`Problem`.
    """
    given = [os.fspath(path) for path in paths]
    seen = _Seen(several=len(given) > 1)
    for path in given:
        if os.path.isdir(path):
            yield from _folder(Path(path).absolute(), seen)
        elif os.path.lexists(path):
            yield from _single(Path(path).absolute(), seen)
        elif is_pattern(path):
            yield from _pattern(path, seen)
        else:
            yield Problem(path, "there is no such file or folder")


class _Seen:
    """How many files were met and, if paths may overlap, which: by device and number on it."""

    def __init__(self, *, several: bool) -> None:
        self.met = 0
        self.files: set[tuple[int, int]] | None = set() if several else None

    def file(self, stat: os.stat_result) -> bool:
        self.met += 1
        return self.files is None or _new(self.files, stat)


def _new(known: set[tuple[int, int]], stat: os.stat_result) -> bool:
    key = (stat.st_dev, stat.st_ino)
    if key in known:
        return False
    known.add(key)
    return True


def _single(path: Path, seen: _Seen) -> Iterator[File | Problem]:
    try:
        stat = path.stat()
    except OSError as error:
        yield Problem(str(path), _why(error))
        return
    if seen.file(stat):
        yield File(path, path.name, stat.st_size, asked=True)


def _pattern(pattern: str, seen: _Seen) -> Iterator[File | Problem]:
    base, rest = split_pattern(pattern)
    matches = to_regex(rest)
    before = seen.met
    if os.path.isdir(base or "."):
        yield from _folder(Path(base or ".").absolute(), seen, matches)
    if seen.met == before:
        yield Problem(pattern, "no file matches this pattern")


def _folder(root: Path, seen: _Seen, matches: re.Pattern[str] | None = None) -> Iterator[File | Problem]:
    waiting = [root]
    walked: set[tuple[int, int]] = set()
    while waiting:
        folder = waiting.pop()
        try:
            if not _new(walked, folder.stat()):
                continue
            with os.scandir(folder) as entries:
                for entry in entries:
                    if _junk(entry.name):
                        continue
                    if entry.is_dir():
                        if not os.path.isfile(os.path.join(entry.path, _INDEX)):
                            waiting.append(Path(entry.path))
                        continue
                    name = Path(entry.path).relative_to(root).as_posix()
                    if matches is None or matches.fullmatch(name):
                        yield from _entry(entry, name, seen)
        except OSError as error:
            yield Problem(str(folder), _why(error))


def _entry(entry: os.DirEntry[str], name: str, seen: _Seen) -> Iterator[File | Problem]:
    try:
        stat = entry.stat()
    except OSError as error:
        yield Problem(entry.path, _why(error))
        return
    if entry.is_file() and seen.file(stat):  # neither a pipe nor a socket
        yield File(Path(entry.path), name, stat.st_size)


def _junk(name: str) -> bool:
    return name.startswith((".", "~$")) or name in _JUNK


def _why(error: OSError) -> str:
    return f"cannot be opened ({error.strerror or error})"
