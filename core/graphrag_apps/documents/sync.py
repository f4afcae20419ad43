"""Keep an index in sync with files: add new ones, replace changed ones, delete missing ones.

The index stores with each document the file that it was read from and a hash of the file
(:class:`~graphrag_core.model.FileMark`), so that a later run reads only files that are new, changed or incomplete.
"""

import hashlib
import json
import os
import platform
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from graphrag_apps.documents.load import FORMATS, MAX_BYTES, file_documents
from graphrag_apps.documents.walk import File, Problem, as_paths, folder_of, is_second_path, walk_files
from graphrag_core.index import KnowledgeIndex
from graphrag_core.model import Added, Document, FileMark

_DELETED_AT_ONCE = 10_000  # documents
_READERS_VERSION = "4"  # increase when readers return other documents for the same bytes


@dataclass(frozen=True)
class FileSource:
    """Files to index, and how to read them.

    ``pipeline`` identifies the chunker and the extractor: when it changes, files are read again. ``follow_links`` is
    for :func:`walk_files`.
    """

    paths: tuple[str, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    max_bytes: int = MAX_BYTES
    pipeline: str = ""
    follow_links: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", as_paths(self.paths))

    def walk(self) -> Iterator[File | Problem]:
        """Yield the files, and what cannot be read."""
        return walk_files(self.paths, follow_links=self.follow_links, formats=FORMATS)

    def scan(self, file: File) -> tuple[str, int]:
        """Return a hash of a file's bytes and of the settings it is read with, and its rows: 1 if it is not a table.

        The hash is empty if the file cannot be opened.
        """
        digest = hashlib.blake2b(digest_size=16)
        settings = [_READERS_VERSION, self.pipeline, json.dumps(dict(self.metadata), sort_keys=True)]
        digest.update("\x00".join(settings).encode())
        kind = FORMATS.get(file.suffix, "")
        rows, quotes = 0, 0
        try:
            with file.path.open("rb") as opened:
                while block := opened.read(1 << 20):
                    digest.update(block)
                    if kind == "jsonl":
                        rows += block.count(b"\n")
                    elif kind == "csv":  # a line break between quotes does not end a row
                        parts = block.split(b'"')
                        rows += sum(part.count(b"\n") for part in parts[quotes % 2 :: 2])
                        quotes += len(parts) - 1
        except OSError:
            return "", 1  # the reader reports the error
        return digest.hexdigest(), max(rows, 1)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far :func:`sync_files` has come: files, and bytes of files.

    ``files`` counts completed files. ``indexed`` are the bytes whose documents are written to the index, ``skipped``
    the bytes of unchanged and unreadable files, which cost nothing.
    """

    files: int = 0
    indexed: float = 0
    skipped: int = 0


@dataclass
class SyncReport:
    """What :func:`sync_files` did.

    Counts are documents, except ``files`` and ``other_formats`` (files without a reader, by
    extension). ``incomplete`` maps ids to the reason why extraction failed in part.
    """

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    files: int = 0
    problems: list[Problem] = field(default_factory=list)
    incomplete: Mapping[str, str] = field(default_factory=dict)
    other_formats: Counter[str] = field(default_factory=Counter)


def sync_files(
    index: KnowledgeIndex,
    source: FileSource,
    *,
    keep_missing: bool = False,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_problem: Callable[[Problem], None] = lambda _: None,
) -> SyncReport:
    """Add new documents, replace changed ones and delete the documents of missing files.

    If a file can no longer be read, its documents stay. If it is missing from a folder or
    pattern that still exists, they are deleted, unless ``keep_missing``. An interrupted run
    keeps what it has done, also the first part of a large file, and the next one continues.

    ``on_progress`` is called when a batch is written and when a file is skipped.
    """
    run = SyncRun(index, source, on_progress, on_problem)
    return run.finish(index.add(run.documents()), keep_missing=keep_missing)


class IndexedFile(NamedTuple):
    """A file that documents of an index were read from.

    ``place`` is what the index stores of it: the name of the machine, empty in a folder, which may move to another
    machine, then its path. ``name`` begins the ids of its documents; it is empty if they have ids of their own, as
    research findings have. ``version`` is empty if not all documents are there.
    """

    place: str
    path: str
    name: str
    documents: int
    version: str


def indexed_files(index: KnowledgeIndex) -> list[IndexedFile]:
    """Return the files of an index, in order of path."""
    files = []
    for place, document_id, documents, version in index.engine.files():
        path = place.partition(":")[2]
        whole = Path(path).as_posix()
        parts = document_id.split("#")
        starts = ("#".join(parts[:end]) for end in range(len(parts), 0, -1))
        name = next((start for start in starts if f"/{whole}".endswith(f"/{start}")), "")
        files.append(IndexedFile(place, path, name, documents, version))
    return files


class Changed(NamedTuple):
    """A file to read, with the name that begins the ids of its documents, and how the index marks them."""

    file: File
    mark: FileMark
    rows: int


def read_marked(changed: Changed, metadata: Mapping[str, Any], max_bytes: int) -> Iterator[Document | Problem]:
    """Yield the documents of a file with its mark, the last one with their number, and what was skipped.

    If anything was skipped, or documents may be in other files, too, no number is there: the next run reads it again.
    """
    file, mark, _ = changed
    last: Document | None = None
    count, is_whole = 0, True
    for item in file_documents(file, metadata, max_bytes):
        if isinstance(item, Problem):
            is_whole = False
            yield item
            continue
        if last is not None:
            yield last
        last, count = replace(item, file=mark), count + 1
        is_whole = is_whole and item.id.startswith(file.name)
    if last is not None:
        yield replace(last, file=mark._replace(version=f"{mark.version}:{count}")) if is_whole else last


class _Before(NamedTuple):
    """The documents of a file before it was read as another version, and where it was: elsewhere if it was moved."""

    place: str
    version: str
    documents: Mapping[str, str]


class SyncRun:
    """One pass over the files: :func:`sync_files`, and :mod:`graphrag_apps.bulk`, where other processes read them."""

    def __init__(
        self,
        index: KnowledgeIndex,
        source: FileSource,
        on_progress: Callable[[Progress], None],
        on_problem: Callable[[Problem], None],
    ) -> None:
        self.index, self.source = index, source
        self.on_progress, self.on_problem = on_progress, on_problem
        self.report, self.progress = SyncReport(), Progress()
        self.unwritten = 0.0  # bytes whose documents were read, but may not be written yet
        self.waiting = 0  # files that were read, but may not be written yet
        self._machine = platform.node().replace(":", "") if index.engine.shared else ""
        self._known = {file.path: file for file in indexed_files(index)}
        self._owners = {file.name: file for file in self._known.values() if file.name}
        self._found: set[str] = set()  # paths
        self._before: dict[str, _Before] = {}  # of files that were known, by their place now
        self._shared: set[str] = set()  # documents that other files may have, too, and that were read

    def documents(self) -> Iterator[Document]:
        """Yield new and changed documents."""
        for file in self.files():
            if (changed := self.register(file)) is not None:
                yield from self._file_documents(changed)

    def files(self) -> Iterator[File]:
        """Yield the files that can be read; report the others."""
        for file in self.source.walk():
            if isinstance(file, Problem):
                self.add_problem(file)
            elif file.suffix not in FORMATS and not file.explicit:
                self.report.other_formats[file.suffix or file.path.name] += 1
            else:
                yield file
                self.report.files += 1

    def register(self, file: File) -> Changed | None:
        """Return a file that has to be read because it is new or has changed; None for an unchanged one."""
        path = str(file.path)
        self._found.add(path)
        known = self._known.get(path)
        version, rows = self.source.scan(file)
        if known is not None and version and known.version == version:
            self.report.unchanged += known.documents
            self._advance(skipped=max(file.size, 1))
            return None
        place = f"{self._machine}:{path}" if known is None else known.place
        if known is not None:
            self._remember(known, place, version)
        return Changed(replace(file, name=self._name(file, known, version)), FileMark(place, version), rows)

    def _remember(self, known: IndexedFile, place: str, version: str) -> None:
        self._before[place] = _Before(known.place, version, self.index.engine.documents_of_file(known.place))

    def _name(self, file: File, known: IndexedFile | None, version: str) -> str:
        """Return the name of a file, with which the ids of its documents begin. It never changes.

        It is the path relative to the given folder, or a longer path if another file has that name already. A file
        that was moved keeps its name.
        """
        if known is not None and known.name:
            return known.name
        here = f"{self._machine}:{file.path}"
        parent = file.path.as_posix().removesuffix(f"/{file.name}").rpartition("/")[2]
        for name in (file.name, f"{parent}/{file.name}"):
            owner = self._owners.get(name)
            if owner is not None:
                if not owner.place.startswith(f"{self._machine}:") or Path(owner.path).exists():
                    continue
                self._remember(owner, here, version)
            self._owners[name] = IndexedFile(here, str(file.path), name, 0, "")
            return name
        return file.path.as_posix()

    def _file_documents(self, changed: Changed) -> Iterator[Document]:
        file, _, rows = changed
        size = max(file.size, 1)
        left = float(size)
        for item in read_marked(changed, self.source.metadata, self.source.max_bytes):
            if isinstance(item, Problem):
                self.add_problem(item, changed)
                continue
            if not item.id.startswith(file.name):
                if item.id in self._shared:
                    continue
                self._shared.add(item.id)
            # A table's rows share its bytes. Of other files with many documents, the text's length is the estimate.
            share = min(size / rows if rows > 1 else size if item.id == file.name else len(item.text), left)
            self.unwritten, left = self.unwritten + share, left - share
            written = self.index.pipeline.finished
            yield item
            if self.index.pipeline.finished > written:  # the document was the last of a batch
                self._advance()
        if left == size:  # it had no document
            self._advance(skipped=size)
        else:
            self.unwritten += left
            self.waiting += 1

    def _advance(self, *, skipped: int = 0) -> None:
        """Report progress: a file was skipped, or all documents read so far are written."""
        done = self.progress
        if skipped:
            self.progress = replace(done, files=done.files + 1, skipped=done.skipped + skipped)
        else:
            self.progress = replace(done, files=done.files + self.waiting, indexed=done.indexed + self.unwritten)
            self.unwritten, self.waiting = 0, 0
        self.on_progress(self.progress)

    def add_written(self, size: int) -> None:
        """Report a file whose documents other processes have written."""
        self.unwritten, self.waiting = float(size), 1
        self._advance()

    def finish(self, added: Added, *, keep_missing: bool) -> SyncReport:
        """Delete what is no longer in the files, after everything else is indexed, and return the report."""
        self._advance()
        self._delete([document_id for place in self._before for document_id in self._lost(place)])
        if not keep_missing:
            missing = (self.index.engine.documents_of_file(file.place) for file in self._missing())
            self._delete([document_id for documents in missing for document_id in documents])
        report = self.report
        report.added, report.changed, report.incomplete = added.added, added.replaced, added.problems
        report.unchanged += added.unchanged
        return report

    def _lost(self, place: str) -> Iterator[str]:
        """Yield the documents that a file has lost: nobody has marked them again since it was read."""
        source, version, before = self._before[place]
        now = self.index.engine.documents_of_file(source)
        for document_id, mark in before.items():
            is_read = source == place and mark.partition(":")[0] == version
            if now.get(document_id) == mark and not is_read:
                yield document_id

    def _missing(self) -> Iterator[IndexedFile]:
        """Yield the files that no longer exist, of folders that do: the drive of others may be unplugged."""
        places = [place for place in map(folder_of, self.source.paths) if place and os.path.isdir(place[0])]
        for file in self._known.values():
            path = Path(file.path)
            if file.path in self._found or (os.path.lexists(path) and not is_second_path(path, places)):
                continue
            for folder, matches in places:
                inside = path.is_relative_to(folder)
                if inside and (matches is None or matches.fullmatch(path.relative_to(folder).as_posix())):
                    yield file
                    break

    def _delete(self, document_ids: Sequence[str]) -> None:
        for start in range(0, len(document_ids), _DELETED_AT_ONCE):
            self.report.removed += self.index.delete(document_ids[start : start + _DELETED_AT_ONCE])

    def add_problem(self, problem: Problem, changed: Changed | None = None) -> None:
        """Report a file, folder or row that was skipped. The documents of a file that cannot be read whole stay."""
        self.report.problems.append(problem)
        self.on_problem(problem)
        if changed is not None and not problem.empty:
            self._before.pop(changed.mark.path, None)
