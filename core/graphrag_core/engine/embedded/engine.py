"""``EmbeddedEngine``: SQLite records with FAISS, tantivy and graph indexes, in a folder or in memory.

A change is committed in one SQLite transaction (:meth:`EmbeddedEngine.write`) and then applied to the search indexes,
both in background threads: ingestion prepares the next batch meanwhile.

The commit is the one point at which a change becomes valid. Whatever is raised before it, nothing has changed. Whatever
is raised after it, the records have the change: a read compares the generation of the search indexes with that of the
records, and applies what they lack before it answers. So every read sees one committed generation that is complete in
all indexes, also after an interrupt at any point.
"""

import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from typing_extensions import Self

from graphrag_core import forks
from graphrag_core.engine.analysis import TERM_BYTES, is_packed
from graphrag_core.engine.embedded.attributes import AttributeColumns
from graphrag_core.engine.embedded.background import Task
from graphrag_core.engine.embedded.files import Folder
from graphrag_core.engine.embedded.recent import View
from graphrag_core.engine.embedded.records import ADD_ACCESSES, Records
from graphrag_core.engine.embedded.search_indexes import PATIENCE, SearchIndexes
from graphrag_core.engine.embedded.writer import Batch, write
from graphrag_core.engine.graph.snapshot import StoreSnapshot
from graphrag_core.engine.graph.sparse import Flags, kept_rows, spans
from graphrag_core.engine.rows import TOKEN_BYTES, Accesses, Row, check_expected, damaged
from graphrag_core.engine.store import OPENING, Store
from graphrag_core.engine.tables import SqlEngine, Tables, chunk_of, parts_of
from graphrag_core.errors import DamagedIndex, GraphRAGError, InputError, NotAnIndex, StorageError
from graphrag_core.filters import Filter, unknown_keys
from graphrag_core.key_sets import among, best, ranges
from graphrag_core.model import Chunk, FileMark, Stats, Verification
from graphrag_core.ports import Keys, Kind, Matrix, ParsedDocument, Ranking, Scores

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

_TURN = 0.05  # seconds for which a reader waits for each one before it
_READING = (
    "an index cannot be changed while the same thread reads it: leave the snapshot first. If a query of this thread "
    "was interrupted, close the index and open it again"
)
_AHEAD = 4  # times as many names are searched as are wanted in a large scope
_LARGE_SCOPE = 0.125  # of all chunks
_ATTEMPTS = 3  # of a read to bring the search indexes to the generation of the records
_WRONG_NUMBERS = (IndexError, ValueError, ArithmeticError, MemoryError, DamagedIndex)  # positions that a file has
_TOGETHER = 4  # transactions that are applied to the search indexes at once: a commit of tantivy is expensive
_LEAST_TOGETHER = 64  # chunks in them, or as many small transactions
_CREATION = 5.0  # seconds that a reader waits for a process that is creating the index
_BURST = 5.0  # seconds: changes that follow a publication so quickly are published together
_LATER = 0.5, 2.0  # seconds, least and most, after which a change of a burst is published if nobody reads it before

_KINDS = {"chunks": "chunks", "facts": "facts", "entities": "names"}


class EmbeddedEngine(SqlEngine):
    """Stores and searches an index within this process. See :class:`~graphrag_core.ports.Engine`.

    Parameters
    ----------
    path
        The folder, created if absent; None keeps the index in memory. An index whose last
        writer crashed is recovered.
    read_only
        One process may write while many read. A read-only engine sees one generation until
        :meth:`refresh`.

    Raises
    ------
    IndexLocked
        Another process, or another engine of this process, is writing.
    NotAnIndex, UnsupportedFormat, DiskError
        The folder cannot be used.
    """

    shared = False

    def __init__(self, path: str | Path | None = None, *, read_only: bool = False) -> None:
        self.path = None if path is None else Path(path)
        self.read_only = read_only
        self._folder = None if self.path is None else Folder(self.path)
        self._closed = False
        self._released = False  # everything that close releases
        self._process = os.getpid()
        self._copied = False
        self._opening = threading.Lock()
        self._one_writer = threading.RLock()
        self._lock = ReadWriteLock()
        self._committing: Task | None = None
        self._publishing: Task | None = None
        self._unpublished: list[Batch] = []
        self._flushing = False  # whether a caller waits until everything is published
        self._published = -math.inf  # when, by the monotonic clock
        self._later = _LATER[0]
        self._timer: threading.Timer | None = None  # publishes the changes of a burst
        self.accesses = Accesses()
        with ExitStack() as undo:
            self._file_lock = None
            if self._folder is not None and read_only:
                if not self._folder.records.is_file():
                    raise NotAnIndex(f"{path} holds no index: check the path, or open it for writing first")
            elif self._folder is not None:
                self._folder.create()
                self._file_lock = self._folder.lock()
                undo.callback(self._file_lock.release)
            self.records = self._open_records()
            undo.callback(self.records.close)
            self.indexes = SearchIndexes(self.records, self._folder)
            try:
                self.indexes.load()
                self.indexes.sync()
            except _WRONG_NUMBERS as error:
                self._check_files(error)
                raise
            forks.watch(self)
            undo.pop_all()

    def _open_records(self) -> Records:
        """Open the records. A reader waits for a process that is creating the index."""
        path = self._folder.records if self._folder else None
        end = time.monotonic() + _CREATION
        while True:
            try:
                return Records(path, read_only=self.read_only)
            except NotAnIndex as error:
                if not self.read_only or self._folder is None or not self._folder.has_writer():
                    raise
                if time.monotonic() > end:
                    raise NotAnIndex(f"{self.path} is being created by another process: try again") from error
                time.sleep(_CREATION / 100)

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

        The transaction runs in a background thread, so that the caller can prepare the next
        batch meanwhile. Reads wait for it. What went wrong in it is raised by the next call of
        this method or of :meth:`flush`, and nothing of the batch is stored then.
        """
        self._check(writable=True)
        with self._one_writer:
            if self._lock.is_reading():
                raise RuntimeError(_READING)
            self._finish_commit()
            self._check(writable=True)
            if expected:
                check_expected(self.records.settings(), expected)
            committing = Task(partial(self._commit, added, removed, name_vectors or {}, settings or {}))
            self._committing = committing
            try:
                committing.begin()
            except BaseException:
                if committing.cancel():  # so that the interrupt is raised, and not that there was one
                    self._committing = None
                raise

    def mark_files(self, marks: Mapping[str, FileMark]) -> None:
        self._check(writable=True)
        with self._one_writer:
            self._finish_commit()
            self.records.mark_files(marks)

    def _commit(
        self, added: Sequence[ParsedDocument], removed: Sequence[str], name_vectors: Mapping[str, Matrix],
        settings: Mapping[str, str],
    ) -> None:  # fmt: skip
        publishing = self._publishing
        if publishing is not None and len(self._unpublished) + 1 >= _TOGETHER:
            publishing.finish()
        with self._lock.writing(self):
            if added and removed:
                self._write_accesses()  # so that a replaced document keeps the accesses of its facts
            self._unpublished.append(write(self.records, added, removed, name_vectors, settings))
            if self._flushing:  # so that readers wait for the lock once, not twice
                Task(self._sync).run()  # it is committed: what goes wrong here is raised by the next read
        if self._are_many():
            self._publishing = Task(self._publish)
            self._publishing.begin()

    def _publish(self) -> None:
        """Apply the changes of transactions to the search indexes. If that fails, the next read does it."""
        with self._lock.writing(self):
            self._sync()

    def _finish_commit(self) -> None:
        """Wait for the transaction in the background. Raise what went wrong in it."""
        committing = self._committing
        if committing is not None:
            committing.finish()
            self._committing = None
            committing.result()

    def _sync(self) -> None:
        start = time.monotonic()
        batches, self._unpublished = self._unpublished, []
        self.indexes.sync(batches)
        self._published = time.monotonic()
        self._later = min(max(4 * (self._published - start), _LATER[0]), _LATER[1])  # a fifth of the time at most

    def _are_many(self) -> bool:
        """Return whether the changes that are not published are worth a commit of the keyword indexes."""
        spans = [batch.change.added["chunks"] for batch in self._unpublished]
        return len(spans) >= _TOGETHER and sum(max(last - first, 1) for first, last in spans) >= _LEAST_TOGETHER

    def _publish_later(self) -> None:
        """Publish soon, in another thread, so that readers in other processes see it."""
        if self._unpublished and (self._timer is None or not self._timer.is_alive()):
            self._timer = threading.Timer(self._later, self._publish_burst)
            try:
                self._timer.start()
            except RuntimeError:  # the process has no more threads
                self._publish_burst()

    def _publish_burst(self) -> None:
        self._timer = None
        try:
            with self._lock.writing():
                if not self._closed:
                    self._make_current()
        except Exception as error:  # noqa: BLE001 - nobody to raise it to: the next read tries again and raises it
            _log.warning("a change could not be published yet: %s", error)

    def _settle(self) -> None:
        """Wait for the background threads. Raise what went wrong in a transaction."""
        try:
            self._finish_commit()
        finally:
            if self._publishing is not None:
                self._publishing.finish()
                self._publishing = None

    def flush(self) -> None:
        with self._one_writer:
            self._check()
            is_burst = time.monotonic() - self._published < _BURST and not self._are_many()
            self._flushing = self._publishing is None and not is_burst
            try:
                self._settle()
            finally:
                self._flushing = False
            if is_burst:  # committed, and so confirmed; the next read publishes it, or a timer
                self.records.shorten_log()
                self._publish_later()
                return
            with self.reading() as indexes:  # publishes what is not yet
                self._write_accesses()
                indexes.save_if_worthwhile()
                self.records.shorten_log()

    def _add_accesses(self, accesses: Mapping[int, tuple[int, float]]) -> None:
        with self.records.transaction() as db:
            db.executemany(ADD_ACCESSES, [(count, last, fact) for fact, (count, last) in accesses.items()])

    def rebuild(self) -> None:
        with self._writing():
            self.indexes.rebuild()
            self.indexes.save()

    def compact(self) -> bool:
        """Return whether it finished: readers of other processes keep old pages in the write-ahead log."""
        with self._writing():
            emptied = self.records.truncate_log()  # the rest writes to the log, but no deleted text
            self.indexes.purge_tombstones()
            self.indexes.save()
            self.indexes.close()  # waits until tantivy has deleted the files of old segments
            if emptied:  # else the log would grow by the whole database
                self.records.rows("VACUUM")
            return self.records.truncate_log() or emptied

    def refresh(self) -> bool:
        self._check()
        if self.read_only and self.indexes.complete and self.records.newest() == self.indexes.generation:
            self.records.leave_log()
            return False
        until = time.monotonic() + PATIENCE
        while True:
            while not self.indexes.can_follow() and time.monotonic() < until:
                time.sleep(0.02)  # and without the lock, so that other threads read what there was
            with self._one_writer, self._lock.writing():
                if self.indexes.can_follow() or time.monotonic() >= until:
                    before = self.indexes.generation
                    self.indexes.sync()
                    return self.indexes.generation != before

    def close(self) -> None:
        with self._one_writer:
            if self._released or self._inherited:
                self._closed = True
                return
            if self._timer is not None:
                self._timer.cancel()
            try:
                if not self._closed:  # else an earlier call was interrupted
                    self._settle()
                    with self.reading() as indexes:
                        self._write_accesses()
                        if not self.read_only:
                            indexes.save_at_end()
            finally:
                with self._lock.writing(), ExitStack() as released:
                    self._closed = True
                    if self._file_lock is not None:
                        released.callback(self._file_lock.release)
                    released.callback(self.records.close)
                    self.indexes.release()
                self._released = True

    def backup(self, path: str | Path) -> None:
        """Copy the records of the last commit into a new folder, also while another thread or process writes.

        Opening the folder builds the search indexes from the records.
        """
        self._check()
        folder = Folder(Path(path))
        if folder.path.exists() and (not folder.path.is_dir() or any(folder.path.iterdir())):
            raise InputError(f"{path} exists and is not empty: choose a new folder for the backup")
        folder.replace_whole(lambda new: self.records.copy_to(new.records))

    # -- reading

    @contextmanager
    def snapshot(self, scope: Filter | None = None) -> Iterator[StoreSnapshot]:
        with self.reading() as indexes:
            yield StoreSnapshot(EmbeddedStore(indexes, self.records, self.accesses, scope))

    @contextmanager
    def reading(self) -> Iterator[SearchIndexes]:
        """Hold one complete generation, after publishing what was committed; writers wait. Private to the engine."""
        with ExitStack() as held:
            held.enter_context(self._lock.reading())
            self._check()
            try:
                if not self.indexes.is_current():
                    held.close()
                    with self._lock.writing():
                        self._check()
                        self._make_current()
                        held.enter_context(self._lock.reading())
                yield self.indexes
            except _WRONG_NUMBERS as error:
                self._check_files(error)
                raise

    def _make_current(self) -> None:
        """Apply to the search indexes what the records have and they lack; build them again if that fails."""
        for attempt in range(_ATTEMPTS):
            if self.indexes.is_current():
                return
            if attempt > 1:
                self.indexes.discard()
            self._sync()
        if not self.indexes.is_current():
            raise StorageError(
                f"the search indexes of {self.path or 'the index'} and its records differ after {_ATTEMPTS} attempts "
                "to repair them: close the index and open it again"
            )

    def _check_files(self, error: Exception) -> None:
        """Raise an error that says so if another one may come from large files that are damaged and not checked yet."""
        if path := self.indexes.damaged_file():
            raise StorageError(f"{path} is damaged and is built again from the records: retry") from error

    @property
    def generation(self) -> int:
        if self._closed or self._inherited:
            self._check()  # and no lock: what was committed counts, whether it is published or not
        if batches := self._unpublished:
            return batches[-1].change.generation
        generation = self.indexes.generation
        return generation if self.indexes.complete else self.records.generation

    def settings(self) -> dict[str, str]:
        self._check()
        return self.records.settings()

    def stored(self, document_ids: Sequence[str]) -> dict[str, str]:
        self._check()
        return self.records.stored(document_ids)

    def new_names(self, names: Iterable[str]) -> list[str]:
        self._check()
        if (committing := self._committing) is not None:
            committing.finish()  # but not until it is published
        return self.records.new_names(names)

    def _read(self, read: Callable[[Tables], _T]) -> _T:
        with self.reading():
            return read(self.records)

    def stats(self) -> Stats:
        with self.reading() as indexes:
            value = self.records.value
            in_memory = value("PRAGMA page_count") * value("PRAGMA page_size") if self._folder is None else 0
            snapshot = StoreSnapshot(EmbeddedStore(indexes, self.records, self.accesses, None))
            return self._statistics(
                snapshot,
                self.records,
                entities=len(snapshot.top_entities(snapshot.node_limit)),
                vectors={kind: self.records.vector_count(kind) for kind in indexes.vectors},
                bytes_on_disk=self._folder.size() if self._folder else 0,
                bytes_in_memory=indexes.nbytes + in_memory,
            )

    def verify(self) -> Verification:
        self._check()
        try:
            with self.reading() as indexes:
                return Verification((*self.records.problems(), *indexes.problems()))
        except (GraphRAGError, OSError) as error:
            return Verification((*self.records.problems(), str(error)))

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the index alone, after all writes."""
        with self._one_writer:
            self._check(writable=True)
            self._settle()
            with self._lock.writing(), self.reading():
                yield

    # -- other processes

    @property
    def read_only_reason(self) -> str:
        """Why the index cannot be changed here, and what to do; empty if it can."""
        if not self.read_only:
            return ""
        if self._copied:
            return f"this is a copy of the index in {self.path}, which only reads: write with the original, or open it"
        if self._process == os.getpid():
            return f"{self.path} was opened with read_only=True: open it for writing to change it"
        opened = f"was opened in process {self._process}, and this is process {os.getpid()}, which was forked from it"
        if self.path is None:
            return f"the index in memory {opened}: a change here would be lost, so make it in that process"
        return f"{self.path} {opened}: write in that process, or close it there and open it here"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            raise InputError(
                "an index in memory cannot be pickled: keep it in a folder (KnowledgeIndex.open(path), or path=...), "
                "which every process opens for itself"
            )
        if self._closed:
            self._check()
        return _open_copy, (self.path.resolve(),)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self if self.path is None else super().__deepcopy__(memo)

    def after_fork_in_child(self) -> None:
        """Become a reader. What is in a folder is opened again by the first read."""
        if self._closed:
            return
        others_were_inside = self._lock.after_fork_in_child()
        self.read_only = True
        self._opening, self._one_writer = threading.Lock(), threading.RLock()
        half_applied = bool(self._unpublished) or not self.indexes.complete
        self._committing = self._publishing = self._timer = None
        self._unpublished = []
        pending, self.accesses = self.accesses.pending, Accesses()
        if self.path is None:
            self.accesses.pending = dict(pending)
        self._inherited = self.path is not None or others_were_inside or half_applied
        if self._file_lock is not None:
            forks.close_copies(self._file_lock.lock_file)
            forks.leak(self._file_lock)  # which would release the parent's lock
            self._file_lock = None

    def _reopen(self) -> None:
        """Open the folder in a process that inherited the index, or build the indexes in memory again."""
        with self._opening:
            if not self._inherited:
                return
            records = self.records if self._folder is None else Records(self._folder.records, read_only=True)
            indexes = SearchIndexes(records, self._folder)
            indexes.load()
            indexes.sync()
            self.records, self.indexes = records, indexes
            self._inherited = False


def _open_copy(path: Path) -> Any:
    """Open the folder of an engine that was pickled or copied. The copy is a reader: there is one writer."""
    engine = EmbeddedEngine(path, read_only=True)
    engine._copied = True  # noqa: SLF001 - of this module
    return engine


class EmbeddedStore(Store):
    """Reads of one generation on SQLite, FAISS, tantivy and the graph in memory.

    Chunks and facts have the numbers of the graph, which become record keys only here.
    """

    tables: Records

    def __init__(self, indexes: SearchIndexes, records: Records, accesses: Accesses, scope: Filter | None) -> None:
        graph, id_places, self._recent = indexes.current_graph()
        self.tables = self._records = records
        self.accesses, self.numbering, self._all = accesses, graph, graph
        self._vectors, self._keywords = indexes.vectors, indexes.keywords
        self.generation, self.edits = indexes.generation, records.meta.get("edits", "")
        self.names = records.names
        self.id_places = id_places.__getitem__
        self.fact_places, self.linked_share = graph.fact_places, lambda: graph.linked_share
        self.chunk_keys, self.chunk_numbers = graph["chunks.key"].__getitem__, graph["chunks.key"].searchsorted
        self.fact_keys, self.fact_numbers = graph["facts.key"].__getitem__, graph["facts.key"].searchsorted
        self.statistics_count = len(graph) - graph.removed
        self._view = view = self._view_of(scope, indexes.attributes)
        self.graph, self.entities = view.graph, view.entities
        self.chunk_count, self.unknown_keys = view.chunk_count, view.unknown_keys
        self.sees = None if view.seen is None else view.visible["chunks"].__getitem__

    def _view_of(self, scope: Filter | None, attributes: AttributeColumns) -> View:
        """Return what questions with this scope share. What is hidden depends on the time, and rarely changes."""
        chosen, hidden = parts_of(scope)
        gone = np.flatnonzero(attributes.matches(hidden)) if hidden is not None else np.empty(0, np.int64)
        return self._recent.view((chosen, gone.tobytes()), partial(self._new_view, chosen, gone, attributes))

    def _new_view(self, chosen: Filter | None, gone: Keys, attributes: AttributeColumns) -> View:
        """Look up which chunks match a filter and are not of hidden documents."""
        graph, documents, unknown = self._all, self._all["chunks.document"], tuple[str, ...]()
        seen = graph.there.copy()
        if chosen is not None:
            chosen = self._records.marked(chosen)
            unknown = unknown_keys(chosen)
            seen &= attributes.matches(chosen)[documents]
        if len(gone):
            seen &= ~among(documents, gone)
        if np.count_nonzero(seen) == self.statistics_count:
            return View(graph, None, unknown)
        view = View(graph, seen, unknown)
        view.visible["chunks"] = self._flags_by_key("chunks", seen)
        return view

    def _flags_by_key(self, kind: str, flags: Flags) -> Flags:
        """Return flags by key instead of the place of the key. Keys are in ascending order."""
        keys, limit = self._all[f"{kind}.key"], self.tables.everything().added[kind][1]
        if len(keys) == limit:
            return flags
        by_key = np.zeros(limit, np.bool_)
        by_key[keys] = flags
        return by_key

    # -- rankings

    def _inside(self, kind: str) -> Flags | None:
        """Return which chunks, facts or names are in scope, by key; None if all are."""
        seen, visible = self._view.seen, self._view.visible
        if seen is not None and kind not in visible:
            graph = self._all
            if kind == "facts":
                inside = seen[graph["facts.chunk"]]
            else:
                counts, chunks = graph.rows["name_chunks"].gather(np.arange(len(graph["names.key"])))
                inside = kept_rows(counts, seen[chunks]) > 0
            visible[kind] = self._flags_by_key(kind, inside)
        return visible.get(kind)

    def has(self, kind: Kind, *, vectors: bool = False) -> bool:
        if vectors:
            return len(self._vectors[_KINDS[kind]].keys) > 0
        graph, exists = self._all, True
        if kind == "entities":
            exists = bool(graph.everything[graph.first_entity :].any())
        elif kind == "facts":
            facts = graph["facts.chunk"]
            exists = len(facts) > 0 and (graph.removed == 0 or bool(graph.there[facts].any()))
        return self.chunk_count > 0 and exists

    def nearest(self, kind: str, vectors: Matrix, k: int) -> list[Ranking]:
        if kind == "names":
            return self._nearest_names(vectors, k)
        rankings = self._vectors[kind].search(vectors, k, self._inside(kind))
        number = self.chunk_numbers if kind == "chunks" else self.fact_numbers
        return [(number(keys), scores) for keys, scores in rankings]

    def _nearest_names(self, vectors: Matrix, k: int) -> list[Ranking]:
        """Return for each vector the best ``k`` names. In a large scope more are searched, and those in it chosen."""
        store, wanted = self._vectors["names"], _AHEAD * k
        if len(store.keys) == 0:
            return store.search(vectors, k)
        if self.sees is None or self.chunk_count < _LARGE_SCOPE * self.statistics_count or not store.exact:
            return store.search(vectors, k, self._inside("names"))
        while True:
            rankings = []
            for keys, scores in store.search(vectors, wanted):
                seen = self.graph.uses(keys) > 0
                rankings.append(best(keys[seen], scores[seen], k))
            if wanted >= len(store.keys) or all(len(keys) >= k for keys, _ in rankings):
                return rankings
            wanted *= _AHEAD

    def keywords(self, kind: str, text: str, k: int) -> Ranking:
        keys, scores = self._keywords[kind].search(text, k, self._inside(kind))
        known = self._all[f"{kind}.key"]
        there = among(keys, known)  # the keyword index may have some that are gone
        return known.searchsorted(keys[there]), scores[there]

    def term_counts(self, terms: Sequence[str]) -> Keys:
        return self._keywords["chunks"].counts(terms, self._inside("chunks"))

    def similarities(self, kind: str, keys: Keys, vector: Matrix) -> Scores:
        known = self._all[f"{kind}.key"]
        # Row by row: a matrix product rounds a row differently by its position.
        scores: Scores = np.vecdot(self._vectors[kind].get(known[keys]), vector)
        return scores

    # -- rows

    def chunks(self, chunks: Keys) -> list[Chunk]:
        return [chunk_of(row) for row in self._recent.chunks.read(self.chunk_keys(chunks).tolist(), self._read_chunks)]

    def _read_chunks(self, keys: Sequence[int]) -> list[Row]:
        rows = self._rows_of(self.tables.chunk_columns, "chunks c", keys, "JOIN documents d ON d.key = c.document")
        return [row[1:] for row in rows]

    def chunk_terms(self, chunks: Keys) -> list[tuple[bytes, bytes, bytes]]:
        return self._recent.terms.read(self.chunk_keys(chunks).tolist(), self._read_terms)

    def _read_terms(self, keys: Sequence[int]) -> list[tuple[bytes, bytes, bytes]]:
        rows = self._rows_of("c.terms, c.fact_terms, c.tokens", "chunks c", keys)
        _, counts = spans(self._all["facts.chunk"], self.chunk_numbers(np.array(keys)))
        found = [(terms, facts or b"", tokens or b"") for _, terms, facts, tokens in rows]
        for (terms, facts, tokens), count in zip(found, counts.tolist(), strict=True):
            if len(terms) % TERM_BYTES or not is_packed(terms, facts or None, count):
                raise damaged("the terms of a chunk cannot be decoded")
            if len(tokens) % TOKEN_BYTES:
                raise damaged("the tokens of a chunk cannot be decoded")
        return found

    def documents_of(self, chunks: Keys) -> Keys:
        return self._all["chunks.document"][chunks].astype(np.int64)

    def claims(self, names: Sequence[int]) -> list[tuple[int, str, str]]:
        known = self._records.has_claims  # of a generation
        if known[0] != self.generation:
            exists = bool(self._records.value("SELECT EXISTS (SELECT 1 FROM claims)"))
            known = self._records.has_claims = self.generation, exists
        return super().claims(names) if known[1] else []

    def facts_of_chunks(self, chunks: Keys) -> tuple[Keys, Keys, Keys]:
        facts, counts = spans(self._all["facts.chunk"], chunks)
        return counts, facts, ranges(np.zeros_like(counts), counts)

    def openings(self, chunks: Keys) -> list[str]:
        return self._recent.openings.read(self.chunk_keys(chunks).tolist(), self._read_openings)

    def _read_openings(self, keys: Sequence[int]) -> list[str]:
        return self.texts(self.chunk_numbers(np.array(keys)), OPENING)

    def name_terms(self, names: Keys) -> tuple[Keys, npt.NDArray[np.uint32]]:
        counts, terms = self._all.rows["name_terms"].gather(self._all["names.key"].searchsorted(names))
        return counts, terms.astype(np.uint32)

    def fact_columns(self, facts: Keys) -> tuple[Scores, Keys]:
        return self._all["facts.weight"][facts], self._all["facts.statement"][facts]


class ReadWriteLock:
    """Many readers or one writer, admitted in the order in which they came: nobody starves.

    Readers take turns where each needs less than 50 ms, as most questions do: two at once take the GIL from each other
    some hundred times, which costs a quarter of the throughput. A reader that needs longer, since it may be waiting for
    something, does not hold up the others.

    A thread that reads may read again inside, and one that writes may do both. A writer may be several threads with one
    owner. An interrupt while a thread enters, waits or leaves never leaves the lock held.
    """

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._turn = threading.Lock()
        self._queue: dict[_Entry, None] = {}  # readers that wait for their turn
        self._inside: dict[_Entry, None] = {}
        self._waiting: dict[_Entry, None] = {}  # first come, first served

    def after_fork_in_child(self) -> bool:
        """Forget all threads but the one that forked; return whether another one held the lock."""
        me, inside = threading.get_ident(), [*self._inside]
        self._mutex, self._turn, self._queue = threading.Lock(), threading.Lock(), {}
        for entry in inside:
            entry.has_turn = False
        self._inside = {entry: None for entry in inside if entry.owner in (None, me) and entry.thread == me}
        self._waiting = {}
        return len(self._inside) < len(inside)

    def is_reading(self) -> bool:
        """Whether this thread holds the lock as a reader only, and would wait for itself as a writer."""
        with self._mutex:
            mine = [entry.owner for entry in self._inside if entry.thread == threading.get_ident()]
        return bool(mine) and all(owner is None for owner in mine)

    def writing(self, owner: object = None) -> AbstractContextManager[None]:
        """Hold the lock as the writer: this thread, or an owner that several threads share."""
        return self.reading(threading.get_ident() if owner is None else owner)

    @contextmanager
    def reading(self, owner: object = None) -> Iterator[None]:
        """Hold the lock as a reader, or as the writer if there is an owner."""
        entry = _Entry(owner)
        try:
            try:
                if owner is not None and self.is_reading():
                    raise RuntimeError(_READING)
                with self._mutex:
                    is_again = any(other.thread == entry.thread for other in self._inside)
                if owner is None and not is_again:
                    self._queue[entry] = None
                    entry.has_turn = self._turn.acquire(timeout=_TURN * len(self._queue))
                    self._queue.pop(entry, None)
                with self._mutex:
                    (self._inside if is_again else self._waiting)[entry] = None
                    self._admit()
                    admitted = entry.admitted = None if entry in self._inside else threading.Event()
                if admitted is not None:
                    admitted.wait()
                yield
            finally:
                self._leave(entry)
        except BaseException:
            self._leave(entry)  # if an interrupt came while leaving
            raise

    def _leave(self, entry: "_Entry") -> None:
        self._queue.pop(entry, None)
        if entry.has_turn:
            entry.has_turn = False
            self._turn.release()
        with self._mutex:
            self._waiting.pop(entry, None)
            self._inside.pop(entry, None)
            self._admit()

    def _admit(self) -> None:
        """Admit those who have waited longest: readers while only readers are inside, or one writer."""
        for entry in [*self._waiting]:
            if any(other.owner != entry.owner for other in self._inside):
                return
            self._inside[entry] = None
            if entry.admitted is not None:
                entry.admitted.set()
            del self._waiting[entry]


@dataclass(eq=False, slots=True)
class _Entry:
    """A thread that holds or waits for the lock. ``owner`` is None for a reader."""

    owner: object
    has_turn: bool = False
    thread: int = field(default_factory=threading.get_ident)
    admitted: threading.Event | None = None  # None if it need not wait
