"""Keep an index in sync with files: add new ones, replace changed ones, delete missing ones."""

import hashlib
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphrag_core.documents.catalogue import Catalogue, CatalogueEntry
from graphrag_core.documents.load import FORMATS, MAX_BYTES, file_documents
from graphrag_core.documents.walk import File, Problem, is_pattern, split_pattern, walk_files
from graphrag_core.index import KnowledgeIndex
from graphrag_core.model import Document

_READERS_VERSION = "1"  # increase when readers return other documents for the same bytes


@dataclass(frozen=True)
class FileSource:
    """Files to index, and how to read them.

    ``pipeline`` identifies the chunker and the extractor: when it changes, files are read again.
    """

    paths: tuple[str, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    max_bytes: int = MAX_BYTES
    pipeline: str = ""

    def digest(self, file: File) -> str:
        """Hash a file's bytes and the settings it is read with; empty if the file cannot be opened."""
        digest = hashlib.blake2b(digest_size=16)
        settings = [_READERS_VERSION, self.pipeline, json.dumps(dict(self.metadata), sort_keys=True)]
        digest.update("\x00".join(settings).encode())
        try:
            with file.path.open("rb") as opened:
                while block := opened.read(1 << 20):
                    digest.update(block)
        except OSError:
            return ""  # the reader reports the error
        return digest.hexdigest()


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
    on_file: Callable[[File], None] = lambda _: None,
    on_problem: Callable[[Problem], None] = lambda _: None,
) -> SyncReport:
    """Add new documents, replace changed ones and delete those of missing files.

    If a file can no longer be read, its documents stay. If it is missing from a folder or
    pattern that still exists, they are deleted, unless ``keep_missing``. An interrupted run
    keeps what it has done, and the next one continues.
    """
    run = _SyncRun(index, catalogue, source, on_file, on_problem)
    added = index.add(run.documents())
    run.delete_stale()
    if not keep_missing:
        run.delete_missing()
    report = run.report
    report.added, report.changed, report.incomplete = added.added, added.replaced, added.problems
    report.unchanged += added.unchanged
    return report


def changed_documents(index: KnowledgeIndex, catalogue: Catalogue, source: FileSource) -> Iterator[Document]:
    """Yield the documents of new and changed files without indexing them."""
    for found in walk_files(source.paths):
        if isinstance(found, File) and found.suffix in FORMATS:
            entry = catalogue.register(found)
            if not _is_indexed(index, catalogue, entry, source.digest(found)):
                for item in file_documents(found, entry.name, source.metadata, source.max_bytes):
                    if isinstance(item, Document):
                        yield item


@dataclass
class _SyncRun:
    """One pass over the files."""

    index: KnowledgeIndex
    catalogue: Catalogue
    source: FileSource
    on_file: Callable[[File], None]
    on_problem: Callable[[Problem], None]
    report: SyncReport = field(default_factory=SyncReport)
    read: list[tuple[CatalogueEntry, str]] = field(default_factory=list)  # completely, but maybe not indexed yet
    shrunk: list[tuple[CatalogueEntry, str]] = field(default_factory=list)  # indexed; stale documents to delete
    yielded: int = 0

    def documents(self) -> Iterator[Document]:
        """Yield new and changed documents. Each is in the catalogue before its batch is indexed."""
        for found in walk_files(self.source.paths):
            if isinstance(found, Problem):
                self._add_problem(found)
            elif found.suffix not in FORMATS and not found.explicit:
                self.report.other_formats[found.suffix or found.path.name] += 1
            else:
                yield from self._file_documents(found)
                self.report.files += 1
                self.on_file(found)
        self.catalogue.commit()

    def _file_documents(self, file: File) -> Iterator[Document]:
        entry = self.catalogue.register(file)
        digest = self.source.digest(file)
        if _is_indexed(self.index, self.catalogue, entry, digest):
            self.report.unchanged += len(self.catalogue.documents(entry))
            return
        self.catalogue.set_digest(entry, "")
        complete, empty = True, False
        for item in file_documents(file, entry.name, self.source.metadata, self.source.max_bytes):
            if isinstance(item, Problem):
                complete, empty = complete and item.empty, empty or item.empty
                self._add_problem(item)
                continue
            self.catalogue.add_document(entry, item.id)
            self.yielded += 1
            at_end_of_batch = self.yielded % self.index.batch_size == 0
            if at_end_of_batch:
                self.catalogue.commit()
            yield item
            if at_end_of_batch:  # the index asked for the next document, so the batch is written
                self._mark_read_files()
        if complete:
            self.read.append((entry, "" if empty else digest))  # without a digest, it is reported in every run

    def _mark_read_files(self) -> None:
        """Mark the files read so far as indexed."""
        for entry, digest in self.read:
            if self.catalogue.documents(entry, stale=True):
                self.shrunk.append((entry, digest))
            else:
                self.catalogue.set_digest(entry, digest)
        self.read.clear()
        self.catalogue.commit()

    def delete_stale(self) -> None:
        """Delete rows that are no longer in their files, after everything else is indexed."""
        self._mark_read_files()
        for entry, digest in self.shrunk:
            stale = self.catalogue.documents(entry, stale=True)
            self.report.removed += self.index.delete(stale)
            self.catalogue.remove_documents(stale)
            self.catalogue.set_digest(entry, digest)
        self.catalogue.commit()

    def delete_missing(self) -> None:
        """Delete the documents of files that no longer exist."""
        for folder, matches in _existing_folders(self.source.paths):
            for entry, path in self.catalogue.missing_files(folder):
                name = Path(path).relative_to(folder).as_posix()
                if not os.path.lexists(path) and (matches is None or matches.fullmatch(name)):
                    self.report.removed += self.index.delete(self.catalogue.documents(entry))
                    self.catalogue.remove_file(entry)
        self.catalogue.commit()

    def _add_problem(self, problem: Problem) -> None:
        self.report.problems.append(problem)
        self.on_problem(problem)


def _existing_folders(paths: Iterable[str]) -> Iterator[tuple[str, re.Pattern[str] | None]]:
    """Yield folders and patterns in which missing files count as deleted.

    A folder that is itself missing is not among them: its drive may be unplugged.
    """
    for path in paths:
        if os.path.isdir(path):
            yield str(Path(path).absolute()), None
        elif not os.path.lexists(path) and is_pattern(path):
            folder, matches = split_pattern(path)
            if os.path.isdir(folder):
                yield str(folder), matches


def _is_indexed(index: KnowledgeIndex, catalogue: Catalogue, entry: CatalogueEntry, digest: str) -> bool:
    return bool(digest) and entry.digest == digest and not index.incomplete(catalogue.documents(entry))
