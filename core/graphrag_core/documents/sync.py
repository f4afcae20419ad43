"""Keep an index in sync with files: add new ones, replace changed ones, delete missing ones."""

from __future__ import annotations

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
from graphrag_core.documents.walk import File, Problem, is_pattern, pattern_to_regex, split_pattern, walk_files
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
    run.finish()
    run.report.added, run.report.changed = added.added, added.replaced
    run.report.unchanged += added.unchanged
    run.report.incomplete = added.problems
    if not keep_missing:
        run.delete_missing()
    return run.report


def changed_documents(index: KnowledgeIndex, catalogue: Catalogue, source: FileSource) -> Iterator[Document]:
    """Yield the documents of new and changed files without indexing them."""
    for found in walk_files(source.paths):
        if isinstance(found, File) and found.suffix in FORMATS:
            entry = catalogue.register(found)
            if not _is_indexed(index, catalogue, entry, source.digest(found)):
                for item in file_documents(found, entry.name, source.metadata, source.max_bytes):
                    if isinstance(item, Document):
                        yield item


class _SyncRun:
    """One pass over the files."""

    def __init__(
        self,
        index: KnowledgeIndex,
        catalogue: Catalogue,
        source: FileSource,
        on_file: Callable[[File], None],
        on_problem: Callable[[Problem], None],
    ) -> None:
        self.report = SyncReport()
        self._index = index
        self._catalogue = catalogue
        self._source = source
        self._on_file = on_file
        self._on_problem = on_problem
        self._read: list[tuple[CatalogueEntry, str]] = []  # read completely, but maybe not indexed yet
        self._shrunk: list[tuple[CatalogueEntry, str]] = []  # indexed, but with stale documents to delete
        self._yielded = 0

    def documents(self) -> Iterator[Document]:
        """Yield new and changed documents. Each is in the catalogue before its batch is indexed."""
        for found in walk_files(self._source.paths):
            if isinstance(found, Problem):
                self._add_problem(found)
            elif found.suffix not in FORMATS and not found.explicit:
                self.report.other_formats[found.suffix or found.path.name] += 1
            else:
                yield from self._file_documents(found)
                self.report.files += 1
                self._on_file(found)
        self._catalogue.commit()

    def _file_documents(self, file: File) -> Iterator[Document]:
        entry = self._catalogue.register(file)
        digest = self._source.digest(file)
        if _is_indexed(self._index, self._catalogue, entry, digest):
            self.report.unchanged += len(self._catalogue.documents(entry))
            return
        self._catalogue.set_digest(entry, "")
        complete, empty = True, False
        for item in file_documents(file, entry.name, self._source.metadata, self._source.max_bytes):
            if isinstance(item, Problem):
                complete, empty = complete and item.empty, empty or item.empty
                self._add_problem(item)
                continue
            self._catalogue.add_document(entry, item.id)
            self._yielded += 1
            at_end_of_batch = self._yielded % self._index.batch_size == 0
            if at_end_of_batch:
                self._catalogue.commit()
            yield item
            if at_end_of_batch:  # the index asked for the next document, so the batch is written
                self._mark_read_files()
        if complete:
            self._read.append((entry, "" if empty else digest))  # without a digest, it is reported in every run

    def _mark_read_files(self) -> None:
        """Mark the files read so far as indexed."""
        for entry, digest in self._read:
            if self._catalogue.stale_documents(entry):
                self._shrunk.append((entry, digest))
            else:
                self._catalogue.set_digest(entry, digest)
        self._read.clear()
        self._catalogue.commit()

    def finish(self) -> None:
        """Delete rows that are no longer in their files, after everything else is indexed."""
        self._mark_read_files()
        for entry, digest in self._shrunk:
            stale = self._catalogue.stale_documents(entry)
            self.report.removed += self._index.delete(stale)
            self._catalogue.remove_documents(stale)
            self._catalogue.set_digest(entry, digest)
        self._catalogue.commit()

    def delete_missing(self) -> None:
        """Delete the documents of files that no longer exist."""
        for folder, matches in _existing_folders(self._source.paths):
            for entry, path in self._catalogue.missing_files(folder):
                name = Path(path).relative_to(folder).as_posix()
                if not os.path.lexists(path) and (matches is None or matches.fullmatch(name)):
                    self.report.removed += self._index.delete(self._catalogue.documents(entry))
                    self._catalogue.remove_file(entry)
        self._catalogue.commit()

    def _add_problem(self, problem: Problem) -> None:
        self.report.problems.append(problem)
        self._on_problem(problem)


def _existing_folders(paths: Iterable[str]) -> Iterator[tuple[str, re.Pattern[str] | None]]:
    """Yield folders and patterns in which missing files count as deleted.

    A folder that is itself missing is not among them: its drive may be unplugged.
    """
    for path in paths:
        if os.path.isdir(path):
            yield str(Path(path).absolute()), None
        elif not os.path.lexists(path) and is_pattern(path):
            base, rest = split_pattern(path)
            if os.path.isdir(base or "."):
                yield str(Path(base or ".").absolute()), pattern_to_regex(rest)


def _is_indexed(index: KnowledgeIndex, catalogue: Catalogue, entry: CatalogueEntry, digest: str) -> bool:
    return bool(digest) and entry.digest == digest and not index.incomplete(catalogue.documents(entry))
