"""Keep an index in sync with files: add new ones, replace changed ones, delete missing ones."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from graphrag_apps.documents.catalogue import Catalogue, CatalogueEntry
from graphrag_apps.documents.load import FORMATS, MAX_BYTES, file_documents
from graphrag_apps.documents.walk import File, Problem, as_paths, folder_of, is_second_path, walk_files
from graphrag_core.index import KnowledgeIndex
from graphrag_core.model import Added, Document

_DELETED_AT_ONCE = 10_000  # documents
_READERS_VERSION = "3"  # increase when readers return other documents for the same bytes


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
        return walk_files(self.paths, follow_links=self.follow_links)

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
    catalogue: Catalogue,
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
    run = SyncRun(index, catalogue, source, on_progress, on_problem)
    return run.finish(index.add(run.documents()), keep_missing=keep_missing)


@dataclass
class SyncRun:
    """One pass over the files: :func:`sync_files`, and :mod:`graphrag_apps.bulk`, where other processes read them."""

    index: KnowledgeIndex
    catalogue: Catalogue
    source: FileSource
    on_progress: Callable[[Progress], None]
    on_problem: Callable[[Problem], None]
    report: SyncReport = field(default_factory=SyncReport)
    progress: Progress = field(default_factory=Progress)
    unwritten: float = 0  # bytes whose documents were read, but may not be written yet
    waiting: int = 0  # files that were read, but may not be written yet
    read: list[tuple[CatalogueEntry, str]] = field(default_factory=list)  # completely; with their digests
    shrunk: list[tuple[CatalogueEntry, str]] = field(default_factory=list)  # indexed; stale documents to delete
    shared: set[str] = field(default_factory=set)  # documents that other files may have, too, and that were read

    def documents(self) -> Iterator[Document]:
        """Yield new and changed documents. Each is in the catalogue before its batch is indexed."""
        for file in self.files():
            if (changed := self.register(file)) is not None:
                yield from self._file_documents(file, *changed)
        self.catalogue.commit()

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

    def register(self, file: File) -> tuple[CatalogueEntry, str, int] | None:
        """Return the entry of a new or changed file, its hash and how many rows it has; None for an unchanged one."""
        entry = self.catalogue.register(file)
        digest, rows = self.source.scan(file)
        if _is_indexed(self.index, self.catalogue, entry, digest):
            self.report.unchanged += len(self.catalogue.documents(entry))
            self._advance(skipped=max(file.size, 1))
            return None
        self.catalogue.set_digest(entry, "")
        return entry, digest, rows

    def _file_documents(self, file: File, entry: CatalogueEntry, digest: str, rows: int) -> Iterator[Document]:
        size = max(file.size, 1)
        complete, empty, left = True, False, float(size)
        for item in file_documents(replace(file, name=entry.name), self.source.metadata, self.source.max_bytes):
            if isinstance(item, Problem):
                complete, empty = complete and item.empty, empty or item.empty
                self.add_problem(item)
                continue
            self.catalogue.add_document(entry, item.id)
            if not item.id.startswith(entry.name):
                if item.id in self.shared:
                    continue
                self.shared.add(item.id)
            # A table's rows share its bytes. Of other files with many documents, the text's length is the estimate.
            share = min(size / rows if rows > 1 else size if item.id == entry.name else len(item.text), left)
            self.unwritten, left = self.unwritten + share, left - share
            at_end_of_batch = self.index.pipeline.limit.ends_with(item)
            if at_end_of_batch:
                self.catalogue.commit()
            yield item
            if at_end_of_batch:  # the index asked for the next document, so the batch is written
                self.mark_read_files()
        if left == size:  # it had no document
            self._advance(skipped=size)
        else:
            self.unwritten += left
            self.waiting += 1
        if complete:
            # Without a digest, it is reported in every run.
            self.read.append((entry, "" if empty else digest))

    def _advance(self, *, skipped: int = 0) -> None:
        """Report progress: a file was skipped, or all documents read so far are written."""
        done = self.progress
        if skipped:
            self.progress = replace(done, files=done.files + 1, skipped=done.skipped + skipped)
        else:
            self.progress = replace(done, files=done.files + self.waiting, indexed=done.indexed + self.unwritten)
            self.unwritten, self.waiting = 0, 0
        self.on_progress(self.progress)

    def mark_read_files(self) -> None:
        """Mark the files read so far as indexed."""
        self._advance()
        for entry, digest in self.read:
            if self.catalogue.documents(entry, stale=True):
                self.shrunk.append((entry, digest))
            else:
                self.catalogue.set_digest(entry, digest)
        self.catalogue.commit()
        self.read.clear()

    def finish(self, added: Added, *, keep_missing: bool) -> SyncReport:
        """Delete what is no longer in the files, after everything else is indexed, and return the report."""
        self.mark_read_files()
        self._delete_stale()
        if not keep_missing:
            self._delete_missing()
        report = self.report
        report.added, report.changed, report.incomplete = added.added, added.replaced, added.problems
        report.unchanged += added.unchanged
        return report

    def _delete_stale(self) -> None:
        """Delete rows that are no longer in their files."""
        stale = {entry: self.catalogue.documents(entry, stale=True) for entry, _ in self.shrunk}
        self._delete(stale)
        for entry, digest in self.shrunk:
            self.catalogue.remove_from_file(entry, stale[entry])
            self.catalogue.set_digest(entry, digest)
        self.catalogue.commit()

    def _delete_missing(self) -> None:
        """Delete the documents of files that no longer exist, together: each deletion writes the search indexes."""
        gone: dict[CatalogueEntry, list[str]] = {}
        places = [place for place in map(folder_of, self.source.paths) if place]
        for folder, matches in places:
            if not os.path.isdir(folder):  # its drive may be unplugged
                continue
            for entry in self.catalogue.missing_files(str(folder)):
                path = Path(entry.path)
                if os.path.lexists(path) and not is_second_path(path, places):
                    continue
                if matches is None or matches.fullmatch(path.relative_to(folder).as_posix()):
                    gone[entry] = self.catalogue.documents(entry)
        self._delete(gone)
        for entry in gone:
            self.catalogue.remove_file(entry)
        self.catalogue.commit()

    def _delete(self, lost: Mapping[CatalogueEntry, list[str]]) -> None:
        """Delete documents that files have lost, unless another file has them."""
        left = self.catalogue.shared_documents() if lost else {}
        for entry, documents in lost.items():
            for document_id in documents:
                left.setdefault(document_id, {entry.key}).discard(entry.key)
        document_ids = [document_id for document_id, files in left.items() if not files]
        for start in range(0, len(document_ids), _DELETED_AT_ONCE):
            self.report.removed += self.index.delete(document_ids[start : start + _DELETED_AT_ONCE])

    def add_problem(self, problem: Problem) -> None:
        """Report a file, folder or row that was skipped."""
        self.report.problems.append(problem)
        self.on_problem(problem)


def _is_indexed(index: KnowledgeIndex, catalogue: Catalogue, entry: CatalogueEntry, digest: str) -> bool:
    return bool(digest) and entry.digest == digest and not index.incomplete(catalogue.documents(entry))
