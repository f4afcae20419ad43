"""``IndexEngine``: rows in SQLite or PostgreSQL, arrays in memory, one transaction for each change.

The commit of a transaction is the one point at which a change becomes valid. Whatever is raised before it, nothing has
changed. What is raised after it does not matter: a read compares the generation of the view with that of the rows, and
applies the segments that the view lacks. A view never changes, so readers do not wait for writers.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial, wraps
from pathlib import Path
from typing import Concatenate, TypeVar

import numpy as np
from typing_extensions import ParamSpec

from graphrag_core import forks
from graphrag_core.deadline import check_deadline
from graphrag_core.engine import checks
from graphrag_core.engine.address import is_address, shown
from graphrag_core.engine.arrays import BaseWriter, map_base
from graphrag_core.engine.attributes import AttributeColumns
from graphrag_core.engine.connect import Database, connect
from graphrag_core.engine.name_vectors import NameVectors
from graphrag_core.engine.reads import EmbedTokens
from graphrag_core.engine.records import INTERNAL, Records
from graphrag_core.engine.rows import Accesses, RowCache, Unstorable, damaged
from graphrag_core.engine.scope import Scoped, marked, matching, scope_of
from graphrag_core.engine.segments import Batch, together
from graphrag_core.engine.snapshot import Snapshot
from graphrag_core.engine.statistics import statistics
from graphrag_core.engine.view import Removal, View
from graphrag_core.errors import ExtractionError, GraphRAGError, IndexClosed, InputError, ReadOnlyIndex
from graphrag_core.filters import Filter
from graphrag_core.model import Stats, Verification
from graphrag_core.ports import Matrix, ParsedDocument

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_P = ParamSpec("_P")

_LEAST_CHANGED, _MOST_CHANGED, _PART = 3_000, 25_000, 4  # passages that came or went, from which on a base is replaced
_BULK = 500  # passages of a write, from which on a base is replaced only when it has doubled
_WRONG_NUMBERS = (OSError, *checks.WRONG_VALUES)  # of a damaged file

_writers: weakref.WeakValueDictionary[Path, IndexEngine] = weakref.WeakValueDictionary()
"""The engines of this process that write, by folder."""


def _of_rows(
    function: Callable[Concatenate[Records, _P], _T],
) -> Callable[Concatenate[IndexEngine, _P], _T]:
    """Return a method of the engine that calls a method of ``Records`` on the current generation."""

    @wraps(function)
    def read(engine: IndexEngine, /, *arguments: _P.args, **named: _P.kwargs) -> _T:
        with engine.reading() as (_, records):
            return function(records, *arguments, **named)

    return read


class IndexEngine:
    """Stores and searches an index: in a folder, at the address of a PostgreSQL database, or in memory.

    One process may write a folder while many read. An engine of this process that writes the same folder is closed.
    """

    embed_tokens: EmbedTokens = None

    def __init__(self, path: str | Path | None = None, *, read_only: bool = False) -> None:
        self._place = path
        self.shared, self.read_only = is_address(path), read_only
        self.path = path if path is None else shown(path) if self.shared else Path(path)
        self._process = os.getpid()
        self._closed, self._released = "", False  # why it cannot be used any more; whether close has ended
        self._replacing: threading.Thread | None = None
        self._written = 0  # passages since the last flush
        self._view = View.empty()
        self._base: Path | None = None  # the file that the view maps, and its name
        self._base_name = ""
        self._renew()
        folder = self.path.resolve() if isinstance(self.path, Path) and not read_only else None
        if folder is not None and (other := _writers.get(folder)) is not None:
            other.close(f"{self.path} was opened for writing again in this process: use the newer object")
        self._database: Database = connect(self._place, read_only=self.read_only)
        try:
            with self.reading():
                pass
        except BaseException:
            self._database.close()
            raise
        self._seen = self._view.generation, self._view.token
        forks.watch(self)
        if folder is not None:
            _writers[folder] = self

    def _renew(self) -> None:
        """Create new locks and empty the caches: another database may have other rows with the same keys."""
        self.lock = threading.RLock()  # of a series of writes, such as an ``add`` of many batches
        self._writing, self._applying = threading.RLock(), threading.RLock()
        self._columns, self._names, self.accesses = AttributeColumns(), NameVectors(), Accesses()

    def _check(self, *, writable: bool = False) -> None:
        if self._closed:
            raise IndexClosed(self._closed)
        if writable and self.read_only:
            raise ReadOnlyIndex(self.read_only_reason)

    @property
    def read_only_reason(self) -> str:
        """Why the index cannot be changed here, and what to do; empty if it can."""
        if not self.read_only:
            return ""
        if self._process == os.getpid():
            return f"{self.path} was opened with read_only=True: open it for writing to change it"
        return (
            f"{self.path or 'the index in memory'} was opened in process {self._process}, and this is process "
            f"{os.getpid()}, which was forked from it: write in that process, or close it there and open it here"
        )

    # -- views

    def _loaded(self, records: Records) -> View:
        """Return the view of the rows' generation: from the base and the segments, or from the rows."""
        checks.check_settings(records)
        self._columns, self._names = AttributeColumns(), NameVectors()
        records.cache = self._database.cache = RowCache()
        self._base, self._base_name = None, ""
        name = records.meta().get("base", "")
        try:
            path, view = None, View.empty()
            if name:
                path, meta, arrays = records.base(name)
                view = View(meta, arrays)
            if (found := self._followed(view, records)) is not None:
                self._base, self._base_name = path, name
                return found
            problem = "its segments are missing"
        except _WRONG_NUMBERS as error:
            problem = f"{type(error).__name__}: {error}"
        _log.warning("%s: the arrays cannot be used (%s): they are built again from the rows", self.path, problem)
        return checks.rebuilt(records)

    def _followed(self, view: View, records: Records) -> View | None:
        """Return the view after the changes that it lacks, as one; None if some of them are gone."""
        generation, token = records.generation()
        if (generation, token) == (view.generation, view.token):
            return view
        rows = records.segments(view.generation)
        tokens = [view.token, *(row.token for row in rows)]
        if not rows or [row.previous for row in rows] != tokens[:-1] or tokens[-1] != token:
            return None
        segments = [row.segment for row in rows if row.segment is not None]
        segment = together(segments) if segments else None
        gone = np.concatenate([row.removal.passages for row in rows])
        removal = Removal(gone, np.sum([row.removal.lengths for row in rows], axis=0))
        vectors = records.vectors(segment["passage"]) if segment is not None and len(segment["passage"]) else None
        return view.after(generation, token, segment, vectors, removal)

    def _current(self, records: Records) -> View:
        """Return the view of a session's generation, or of the newest one if the session is older than the view."""
        view = self._view
        if (view.generation, view.token) == records.generation():
            return view
        with self._applying:
            if self._view.generation > records.generation()[0]:  # the session began before the change of a thread
                records.restart()
            view, found = self._view, None
            # A reader maps a newer base rather than let its own arrays grow.
            if view.token and (not self._is_due() or records.meta().get("base", "") == self._base_name):
                try:
                    found = self._followed(view, records)
                except _WRONG_NUMBERS as error:
                    _log.warning("%s: a change cannot be applied (%s)", self.path, error)
            self._view = found if found is not None else self._loaded(records)
            return self._view

    @contextmanager
    def reading(self) -> Iterator[tuple[View, Records]]:
        """Hold one generation: its arrays, and its rows."""
        self._check()
        with self._database.reading() as records:
            try:
                yield self._current(records), records
            except GraphRAGError:
                raise
            except checks.WRONG_VALUES as error:
                checks.report_damage(records, error)
                raise

    @contextmanager
    def snapshot(self, scope: Scoped = None) -> Iterator[Snapshot]:
        """Open a snapshot of the newest generation, restricted to the documents that match a filter."""
        with self.reading() as (view, records):
            seen = scope_of(view, records, self._columns, scope)
            yield Snapshot(view, records, seen, self._names, self.accesses, self.embed_tokens)

    @property
    def generation(self) -> int:
        """The number of changes the index has seen."""
        return self.state[0]

    @property
    def state(self) -> tuple[int, str]:
        """The number of changes, and the token of the last one, which another index at the same place has not."""
        self._check()
        settings = self._database.settings()
        return int(settings.get("generation", "0")), settings.get("token", "")

    def refresh(self) -> bool:
        """Return whether anything was written since the last call. Every read sees it anyway."""
        before, self._seen = self._seen, self.state
        return self._seen != before

    # -- writing

    def write(
        self,
        added: Sequence[ParsedDocument] = (),
        removed: Sequence[str] = (),
        *,
        name_vectors: Mapping[str, Matrix] | None = None,
        settings: Mapping[str, str] | None = None,
        expected: Mapping[str, str] | None = None,
    ) -> None:
        """Remove documents by id, add documents and store settings, in one transaction.

        The call returns when it is committed, and the documents are found then.
        """
        self._check(writable=True)
        batch = Batch(added)
        with self._writing:
            self._check(writable=True)
            accesses, token = {**self.accesses.pending}, secrets.token_hex(6)
            store = partial(
                Records.store, batch=batch, removed=removed, name_vectors=name_vectors or {}, settings=settings or {},
                expected=expected or {}, accesses=accesses, token=token,
            )  # fmt: skip
            try:
                stored = self._database.write(store)
            except Unstorable as error:
                raise ExtractionError(f"an extractor returned a value that cannot be stored ({error})") from error
            if accesses:
                self.accesses.forget(accesses)
            with self._applying:
                if self._view.token == stored.previous:
                    self._view = self._view.after(
                        stored.generation, token, stored.segment, batch.vectors, stored.removal
                    )
        self._written += len(batch.passages)
        self._database.tidy(has_deleted=len(stored.removal.passages) > 0)
        if self._is_due(is_bulk=len(batch.passages) >= _BULK) and (
            self._replacing is None or not self._replacing.is_alive()
        ):
            self._replacing = threading.Thread(target=self._replace_quietly, name="graphrag-base", daemon=True)
            with suppress(RuntimeError):  # the process has no more threads, or ends
                self._replacing.start()

    def change(self, function: Callable[[Records], object]) -> None:
        """Change rows that are not part of the search arrays, in a transaction."""
        self._check(writable=True)
        with self._writing:
            self._database.write(function)

    def flush(self) -> None:
        """End a series of writes: replace the base now if they were many."""
        self._check()
        written, self._written = self._written, 0
        if written >= _BULK and self._view.changed and written > self._view.base_size / _PART:
            self._join()
            self._replace_quietly()

    # -- the base

    def _is_due(self, *, is_bulk: bool = False) -> bool:
        size = self._view.base_size
        return self._view.changed > max(_LEAST_CHANGED, size if is_bulk else min(size / _PART, _MOST_CHANGED))

    def _replace_quietly(self) -> None:
        try:
            self._replace(wait=False)
        except Exception as error:  # noqa: BLE001 - nobody to raise it to: the next change tries again
            if not self._closed:
                _log.warning("%s: the base could not be replaced yet: %s", self.path, error)

    def _replace(self, *, wait: bool = True) -> None:
        """Write a base from the view, beside readers and writers; then name it in a transaction.

        Without ``wait`` nothing is done if another process does it.
        """
        with self.reading() as (view, records):
            in_order = records.keys_in_order()
        written = self._database.new_base(
            view.generation, lambda file: view.write(BaseWriter(file), in_order), wait=wait
        )
        with written as new:
            if new is None:
                return
            name, source, transaction = new
            meta, arrays = map_base(source)
            with self._writing:
                self._check(writable=True)
                with transaction as records:
                    found = self._followed(View(meta, arrays), records)
                    if found is None:  # another base was written meanwhile
                        raise damaged("the changes after the base are missing")
                    records.set_base(view.generation, name)
                with self._applying:
                    self._view = found
                    self._base, self._base_name = source if isinstance(source, Path) else None, name
                self._database.release(self._base)

    def _join(self) -> None:
        """Wait for the thread that replaces the base. It needs the lock of writers, which must not be held here."""
        if self._replacing is not None and self._replacing is not threading.current_thread():
            self._replacing.join()

    def rebuild(self) -> None:
        """Build the arrays again from the rows, and write a base."""
        self._check(writable=True)
        with self._writing:
            with self.reading() as (_, records):
                found = checks.rebuilt(records)
            with self._applying:
                self._view = found
            self._replace()

    def erase(self) -> bool:
        """Remove all traces of deleted documents from the files; return False if a reader keeps some in the log."""
        self._check(writable=True)
        self._join()
        with self._writing:
            if self._view.changed:
                self._replace()
            self._database.release(self._base)
            return self._database.vacuum()

    def backup(self, path: str | Path) -> None:
        """Copy the rows of the last commit into a new folder, also while another thread or process writes.

        Opening the folder builds the arrays from the rows.
        """
        self._check()
        self._database.copy_to(path)

    # -- other processes

    def after_fork_in_child(self) -> None:
        """Become a reader of a folder or of memory. The arrays are shared."""
        self._renew()
        self._replacing = None
        if self.shared:
            self._process = os.getpid()
        else:
            self.read_only = True

    def place(self) -> tuple[str | Path, bool]:
        """Return where a copy in any process opens the index, and whether it only reads: a folder has one writer."""
        self._check()
        if self._place is None or self.path is None:
            raise InputError(
                "an index in memory cannot be pickled: keep it in a folder (KnowledgeIndex.open(path), or path=...), "
                "which every process opens for itself"
            )
        return (self._place, self.read_only) if self.shared else (Path(self.path).resolve(), True)

    def close(self, reason: str = "") -> None:
        """Write the base if much has changed since, and release locks and files. Closing twice does nothing."""
        if self._released:
            return
        closed = reason or f"{self.path or 'the index in memory'} was closed: open it again"
        if self._process == os.getpid():
            self._join()
            with self._writing:
                try:
                    if not self._closed and not self.read_only:  # else an earlier call was interrupted
                        self._end()
                finally:
                    self._closed = self._closed or closed
                    self._database.close()
        self._closed, self._released = self._closed or closed, True

    def _end(self) -> None:
        """Write the access counts and replace the base if it is due. Errors are only logged."""
        try:
            if self.accesses.pending:
                self.write()
        except GraphRAGError as error:
            _log.warning("the access counts of facts could not be written: %s", error)
        if self.path is not None and self._is_due():
            self._replace_quietly()

    # -- rows

    def read(self, function: Callable[[Records], _T]) -> _T:
        """Return what a function reads from the rows of one generation."""
        with self.reading() as (_, records):
            return function(records)

    def settings(self) -> dict[str, str]:
        """Return the settings that were stored with the index."""
        self._check()
        return {name: value for name, value in self._database.settings().items() if name not in INTERNAL}

    def document_ids(self, scope: Filter | None = None) -> Iterator[str]:
        """Yield the ids of the documents that match a filter, in order of id."""
        after = ""
        while True:
            with self.reading() as (view, records):
                keys = None
                if scope is not None:
                    keys = np.flatnonzero(matching(view, records, self._columns, marked(records, scope)))
                page = records.document_ids(after, keys)
            if not page:
                return
            yield from page
            check_deadline()
            after = page[-1]

    files = _of_rows(Records.files)
    documents_of_file = _of_rows(Records.documents_of_file)
    stored = _of_rows(Records.stored)
    new_names = _of_rows(Records.new_names)
    document = _of_rows(Records.document)
    chunks_of = _of_rows(Records.chunks_of)
    parsed = _of_rows(Records.parsed)
    name_vectors = _of_rows(Records.name_vectors)
    __len__ = _of_rows(Records.__len__)

    def stats(self) -> Stats:
        """Return the size of the index and its most frequent entities."""
        with self.snapshot() as snapshot:
            return statistics(snapshot)

    def verify(self) -> Verification:
        """Compare rows, segments, base and arrays with each other and with their checksums."""
        self._check()
        try:
            with self.reading() as (view, records):
                return Verification(tuple(checks.problems(records, view, self._base)))
        except (GraphRAGError, *_WRONG_NUMBERS) as error:
            return Verification((f"the index cannot be read ({type(error).__name__}: {error})",))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path or 'in memory'}{', closed' if self._closed else ''}>"
