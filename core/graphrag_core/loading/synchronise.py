"""An index kept in step with files: what is new, changed or gone, and nothing else."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphrag_core.index import KnowledgeIndex
from graphrag_core.loading.catalogue import Catalogue, Entry
from graphrag_core.loading.load import documents_of
from graphrag_core.loading.pattern import is_pattern, split_pattern, to_regex
from graphrag_core.loading.read import FORMATS, LARGEST
from graphrag_core.loading.walk import File, Problem, walk
from graphrag_core.model import Document

_READERS = "1"  # changes when readers make other documents of the same bytes


@dataclass(frozen=True)
class Source:
    """Files to index and how they are read.

    ``reading`` stands for the settings that make other entities or passages of the same
    file, so that a change of them reads files again.
    """

    paths: tuple[str, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    largest: int = LARGEST
    reading: str = ""

    def digest(self, file: File) -> str:
        """Return what changes when the bytes of a file, or how they are read, change."""
        digest = hashlib.blake2b(digest_size=16)
        about = [_READERS, self.reading, json.dumps(dict(self.metadata), sort_keys=True)]
        digest.update("\x00".join(about).encode())
        with file.path.open("rb") as opened:
            while block := opened.read(1 << 20):
                digest.update(block)
        return digest.hexdigest()


@dataclass
class Synchronised:
    """What a run did, in documents; ``other_formats`` counts files that no reader is for."""

    added: int = 0
    changed: int = 0
    removed: int = 0
    unchanged: int = 0
    files: int = 0
    problems: list[Problem] = field(default_factory=list)
    unread: Mapping[str, str] = field(default_factory=dict)
    other_formats: Counter[str] = field(default_factory=Counter)


def synchronise(
    index: KnowledgeIndex,
    catalogue: Catalogue,
    source: Source,
    *,
    keep_missing: bool = False,
    on_file: Callable[[File], None] = lambda _: None,
    on_problem: Callable[[Problem], None] = lambda _: None,
) -> Synchronised:
    """Add what is new, replace what changed and delete what is gone.

    A file that cannot be read any more keeps what was indexed of it; one that is gone from a
    folder or pattern that is still there loses it, unless ``keep_missing``. Whatever stops a
    run, what was done stays and the next one does the rest.
    """
    run = _Run(index, catalogue, source, on_file, on_problem)
    added = index.add(run.documents())
    run.finish()
    run.report.added, run.report.changed = added.added, added.replaced
    run.report.unchanged += added.unchanged
    run.report.unread = added.problems
    if not keep_missing:
        run.remove_gone()
    return run.report


def changed_documents(index: KnowledgeIndex, catalogue: Catalogue, source: Source) -> Iterator[Document]:
    """Yield the documents of files that are new or changed, without indexing them."""
    for found in walk(source.paths):
        if isinstance(found, File) and found.suffix in FORMATS:
            entry = catalogue.claim(found)
            if not _is_done(index, catalogue, entry, _digest(source, found)):
                for item in documents_of(found, entry.name, source.metadata, source.largest):
                    if isinstance(item, Document):
                        yield item


class _Run:
    """One pass over the files."""

    def __init__(
        self,
        index: KnowledgeIndex,
        catalogue: Catalogue,
        source: Source,
        on_file: Callable[[File], None],
        on_problem: Callable[[Problem], None],
    ) -> None:
        self.report = Synchronised()
        self._index = index
        self._catalogue = catalogue
        self._source = source
        self._on_file = on_file
        self._on_problem = on_problem
        self._read: list[tuple[Entry, str]] = []  # read to the end, and perhaps not indexed yet
        self._shrunk: list[tuple[Entry, str]] = []
        self._given = 0

    def documents(self) -> Iterator[Document]:
        """Yield what has to be indexed, keeping the catalogue one step ahead of the index."""
        for found in walk(self._source.paths):
            if isinstance(found, Problem):
                self._left_out(found)
            elif found.suffix not in FORMATS and not found.asked:
                self.report.other_formats[found.suffix or found.path.name] += 1
            else:
                yield from self._file(found)
                self.report.files += 1
                self._on_file(found)
        self._catalogue.commit()

    def _file(self, file: File) -> Iterator[Document]:
        entry = self._catalogue.claim(file)
        digest = _digest(self._source, file)
        if _is_done(self._index, self._catalogue, entry, digest):
            self.report.unchanged += len(self._catalogue.documents(entry))
            return
        self._catalogue.begin(entry)
        whole, empty = True, False
        for item in documents_of(file, entry.name, self._source.metadata, self._source.largest):
            if isinstance(item, Problem):
                whole, empty = whole and item.empty, empty or item.empty
                self._left_out(item)
                continue
            self._catalogue.expect(entry, item.id)
            self._given += 1
            at_end_of_batch = self._given % self._index.batch_size == 0
            if at_end_of_batch:
                self._catalogue.commit()
            yield item
            if at_end_of_batch:  # asked for more: the batch is in
                self._settle()
        if whole:
            self._read.append((entry, "" if empty else digest))  # what is empty is said every time

    def _settle(self) -> None:
        """Take note that everything read so far is in the index."""
        for entry, digest in self._read:
            if self._catalogue.leftover(entry):
                self._shrunk.append((entry, digest))
            else:
                self._catalogue.done(entry, digest)
        self._read.clear()
        self._catalogue.commit()

    def finish(self) -> None:
        """Delete rows that files have lost, once everything else is in."""
        self._settle()
        for entry, digest in self._shrunk:
            left = self._catalogue.leftover(entry)
            self.report.removed += self._index.delete(left)
            self._catalogue.forget(left)
            self._catalogue.done(entry, digest)
        self._catalogue.commit()

    def remove_gone(self) -> None:
        """Delete the documents of files that are not there any more."""
        for folder, matches in _scopes(self._source.paths):
            for entry, path in self._catalogue.unmet(folder):
                name = Path(path).relative_to(folder).as_posix()
                if not os.path.lexists(path) and (matches is None or matches.fullmatch(name)):
                    self.report.removed += self._index.delete(self._catalogue.documents(entry))
                    self._catalogue.remove(entry)
        self._catalogue.commit()

    def _left_out(self, problem: Problem) -> None:
        self.report.problems.append(problem)
        self._on_problem(problem)


def _scopes(paths: Iterable[str]) -> Iterator[tuple[str, Any]]:
    """Yield the folders whose files may be found missing; a folder that is itself missing may be unplugged."""
    for path in paths:
        if os.path.isdir(path):
            yield str(Path(path).absolute()), None
        elif not os.path.lexists(path) and is_pattern(path):
            base, rest = split_pattern(path)
            if os.path.isdir(base or "."):
                yield str(Path(base or ".").absolute()), to_regex(rest)


def _digest(source: Source, file: File) -> str:
    try:
        return source.digest(file)
    except OSError:
        return ""  # whoever reads it will say why


def _is_done(index: KnowledgeIndex, catalogue: Catalogue, entry: Entry, digest: str) -> bool:
    if not digest or entry.digest != digest:
        return False
    ids = catalogue.documents(entry)
    known = index.records.known(ids)
    # A document without a digest is there, but an extractor could not read all of it.
    return all(document_id in known and known[document_id][1] for document_id in ids)
