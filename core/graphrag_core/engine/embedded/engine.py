"""``EmbeddedEngine``: SQLite records with FAISS, tantivy and graph indexes, in a folder or in memory.

Every change takes one path: :meth:`EmbeddedEngine.write` commits one SQLite transaction, which
returns a change, and the change is applied to the search indexes. Both run in background threads,
so that ingestion prepares the next batch meanwhile: a batch is committed while the ones before
it are applied, a few at once. The write lock is held meanwhile, and a read that finds changes
which are not applied applies them first, so that every read sees a committed generation that is
complete in all indexes.
"""

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import Self

from graphrag_core import forks
from graphrag_core.engine.embedded.files import Folder
from graphrag_core.engine.embedded.records import Accesses, Records
from graphrag_core.engine.embedded.search_indexes import SearchIndexes
from graphrag_core.engine.embedded.snapshot import EmbeddedSnapshot
from graphrag_core.engine.embedded.writer import Batch, read_documents, write
from graphrag_core.errors import IndexClosed, InputError, NotAnIndex, ReadOnlyIndex
from graphrag_core.filters import Filter, Not
from graphrag_core.model import Chunk, Document, Stats, Verification
from graphrag_core.ports import Keys, Matrix, ParsedDocument, StoredDocument
from graphrag_core.text import normalise

_TOP = 5  # entities in the statistics
_TOGETHER = 4  # transactions that are applied to the search indexes at once: a commit of tantivy is expensive


class EmbeddedEngine:
    """Stores and searches an index within this process. Its methods are those of :class:`~graphrag_core.ports.Engine`.

    Parameters
    ----------
    path
        The folder, created if absent; None keeps the index in memory. An index whose last
        writer crashed is recovered.
    read_only
        One process may write while many read. A read-only engine sees one generation until
        :meth:`refresh`.
    merge_similar
        Cosine similarity of embedded names from which two entities are merged.

    Raises
    ------
    IndexLocked
        Another process, or another engine of this process, is writing.
    NotAnIndex, UnsupportedFormat, DiskError
        The folder cannot be used.
    """

    def __init__(
        self, path: str | Path | None = None, *, read_only: bool = False, merge_similar: float | None = None
    ) -> None:
        self.path = None if path is None else Path(path)
        self.read_only = read_only
        self._folder = None if self.path is None else Folder(self.path)
        self._merge_similar = merge_similar
        self._closed = False
        self._process = os.getpid()
        self._inherited = False  # from the process that forked this one, and not opened here yet
        self._copied = False
        self._opening = threading.Lock()
        self._one_writer = threading.RLock()
        self._lock = ReadWriteLock()
        self._threads: ThreadPoolExecutor | None = None
        self._committing: Future[None] | None = None
        self._publishing: Future[None] | None = None
        self._unpublished: list[Batch] = []
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
            self.records = Records(self._folder.records if self._folder else None, read_only=read_only)
            undo.callback(self.records.close)
            if self.records.upgraded and self._folder is not None:
                self._folder.drop_search_indexes()
            self.indexes = SearchIndexes(self.records, self._folder, merge_similar)
            self.indexes.load()
            self.indexes.sync()
            forks.watch(self)
            undo.pop_all()

    # -- writing

    def write(
        self,
        added: Sequence[ParsedDocument] = (),
        removed: Sequence[str] = (),
        *,
        name_vectors: Mapping[str, Matrix] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Remove documents by id, add documents and store settings, in one transaction.

        The transaction runs in a background thread, so that the caller can prepare the next
        batch meanwhile. Reads wait for it. What went wrong in it is raised by the next call of
        this method or of :meth:`flush`, and nothing of the batch is stored then.
        """
        self._check(writable=True)
        with self._one_writer:
            if self._publishing is not None and self._lock.contended:
                wait([self._publishing])  # so that the lock becomes free between two transactions
            committing, self._committing = self._committing, None
            if committing is not None:
                committing.result()
            self._check(writable=True)
            self._threads = self._threads or ThreadPoolExecutor(2, "graphrag-write")
            self._lock.acquire(self)
            try:
                arguments = (added, removed, name_vectors or {}, settings or {})
                self._committing = self._threads.submit(self._commit, *arguments)
            except BaseException:
                self._lock.release()
                raise

    def _commit(
        self,
        added: Sequence[ParsedDocument],
        removed: Sequence[str],
        name_vectors: Mapping[str, Matrix],
        settings: Mapping[str, str],
    ) -> None:
        """Run a transaction; publish when enough of them are committed."""
        try:
            if added and removed and self.accesses.pending:
                self.accesses.write(self.records)  # so that a replaced document keeps those of its facts
            batch = write(self.records, added, removed, name_vectors, settings)
            self._unpublished.append(batch)
            if removed and not added:
                self.records.truncate_log()  # so that no file has the deleted text
            if len(self._unpublished) >= _TOGETHER and self._threads is not None:
                if self._publishing is not None:
                    self._publishing.result()
                self._lock.acquire(self)
                batches, self._unpublished = self._unpublished, []
                try:
                    self._publishing = self._threads.submit(self._publish, batches)
                except RuntimeError:  # no more threads
                    self._publish(batches)
        finally:
            self._lock.release()

    def _publish(self, batches: Sequence[Batch]) -> None:
        """Apply the changes of transactions to the search indexes, and release the lock."""
        try:
            self.indexes.sync(batches)
        finally:
            self._lock.release()

    def _settle(self) -> None:
        """Wait for the background threads. Raise what went wrong in them."""
        running = [future for future in (self._committing, self._publishing) if future is not None]
        wait(running)
        self._committing = self._publishing = None
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None
        for future in running:
            future.result()

    def flush(self) -> None:
        with self._one_writer:
            self._check()
            self._settle()
            with self.reading() as indexes:  # publishes what is not yet
                if self.accesses.pending and not self.read_only:
                    self.accesses.write(self.records)
                indexes.save_if_worthwhile()

    def rebuild(self) -> None:
        with self._writing():
            self.indexes.rebuild()
            self.indexes.save()

    def compact(self) -> None:
        with self._writing():
            self.indexes.purge_tombstones()
            self.indexes.save()
            self.records.rows("VACUUM")
            self.records.truncate_log()

    def refresh(self) -> bool:
        self._check()
        if self.read_only and self.indexes.complete and self.records.newest() == self.indexes.generation:
            return False
        with self._one_writer, self._lock.writing():
            before = self.indexes.generation
            self.indexes.sync()
            return self.indexes.generation != before

    def close(self) -> None:
        with self._one_writer:
            if self._closed or self._inherited:
                self._closed = True
                return
            try:
                self._settle()
                with self.reading() as indexes:
                    if not self.read_only:
                        self.accesses.write(self.records)
                        indexes.save()
            finally:
                with self._lock.writing():
                    self._closed = True
                    self.indexes.close()
                    try:
                        self.records.close()
                    finally:
                        if self._file_lock is not None:
                            self._file_lock.release()

    # -- reading

    @contextmanager
    def snapshot(self, scope: Filter | None = None) -> Iterator[EmbeddedSnapshot]:
        with self.reading() as indexes:
            allowed = self._in_scope(indexes, scope)
            view, id_places = indexes.view_of(allowed)
            yield EmbeddedSnapshot(
                view=view,
                records=self.records,
                vectors=indexes.vectors,
                keywords=indexes.keywords,
                allowed=allowed,
                id_places=id_places,
                accesses=self.accesses,
                generation=indexes.generation,
            )

    def _in_scope(self, indexes: SearchIndexes, scope: Filter | None) -> Keys | None:
        """Return the keys of the chunks that match a filter; None for all."""
        if isinstance(scope, Not):  # mostly a few facts that are hidden
            hidden = self.records.in_scope(scope.part)
            return np.setdiff1d(indexes.chunk_keys, hidden, assume_unique=True) if len(hidden) else None
        return None if scope is None else self.records.in_scope(scope)

    @contextmanager
    def reading(self) -> Iterator[SearchIndexes]:
        """Hold one complete generation, after publishing what was committed; writers wait. Private to the engine."""
        while True:
            with self._lock.reading():
                self._check()
                if self.indexes.complete and not self._unpublished:
                    yield self.indexes
                    return
            with self._lock.writing():
                self._check()
                batches, self._unpublished = self._unpublished, []
                self.indexes.sync(batches)
                del batches  # not held while the caller reads

    @property
    def generation(self) -> int:
        with self.reading() as indexes:
            return indexes.generation

    def settings(self) -> dict[str, str]:
        with self.reading():
            return self.records.settings()

    def stored(self, document_ids: Sequence[str]) -> dict[str, StoredDocument]:
        self._check()
        return self.records.stored(document_ids)

    def new_names(self, names: Iterable[str]) -> list[str]:
        self._check()
        wanted = list(dict.fromkeys(names))
        if self._committing is not None:
            wait([self._committing])  # but not until it is published
        known = self.records.name_keys(wanted)
        return [name for name in wanted if name not in known]

    def stored_vectors(self, document_ids: Sequence[str]) -> dict[str, dict[str, Matrix]]:
        with self.reading():
            return self.records.vectors_by_text(document_ids)

    def document(self, document_id: str) -> Document | None:
        with self.reading():
            return self.records.document(document_id)

    def document_ids(self, scope: Filter | None = None) -> Iterator[str]:
        last: str | None = None
        while True:
            with self.reading():
                page = self.records.document_ids(last, scope)
            if not page:
                return
            yield from page
            last = page[-1]

    def parsed(self, document_ids: Sequence[str]) -> list[ParsedDocument]:
        """Return documents as they were written, with their vectors."""
        with self.reading():
            return read_documents(self.records, document_ids)

    def spellings(self, name: str) -> list[str]:
        """Return the normalised names of a name's entity that documents write; empty if there is none.

        An index refers to an entity by them in the setting ``edits``.
        """
        with self.snapshot() as snapshot:
            found = snapshot.find_entities([normalise(name)])
            return snapshot.spellings(next(iter(found.values()))) if found else []

    def chunks_of(self, document_id: str) -> list[Chunk]:
        with self.reading():
            return self.records.chunks_of(document_id)

    def __len__(self) -> int:
        with self.reading():
            return int(self.records.value("SELECT count(*) FROM documents"))

    def stats(self) -> Stats:
        with self.reading() as indexes, self.snapshot() as snapshot:
            value = self.records.value
            relations = self.records.rows(
                "SELECT relation, count(*) FROM facts WHERE relation IS NOT NULL GROUP BY relation ORDER BY 2 DESC, 1"
            )
            in_memory = value("PRAGMA page_count") * value("PRAGMA page_size") if self._folder is None else 0
            top = snapshot.entities(snapshot.top_entities(_TOP))
            return Stats(
                documents=value("SELECT count(*) FROM documents"),
                chunks=value("SELECT count(*) FROM chunks"),
                entities=int(np.count_nonzero(~indexes.view.is_address)),
                facts=value("SELECT count(*) FROM facts"),
                relations=dict(relations),
                vectors={kind: self.records.vector_count(kind) for kind in indexes.vectors},
                dim=int(self.records.meta("dim", "0")),
                embedder=self.records.meta("embedder"),
                generation=indexes.generation,
                bytes_on_disk=self._folder.size() if self._folder else 0,
                bytes_in_memory=indexes.nbytes + in_memory,
                top_entities=tuple((entity.name, entity.mentions) for entity in top),
            )

    def verify(self) -> Verification:
        with self.reading() as indexes:
            return Verification((*self.records.problems(), *indexes.problems()))

    def __repr__(self) -> str:
        where = "in memory" if self.path is None else str(self.path)
        return f"<EmbeddedEngine {where}{', closed' if self._closed else ''}>"

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the index alone, after all writes."""
        with self._one_writer:
            self._check(writable=True)
            self._settle()
            with self._lock.writing(), self.reading():
                yield

    def _check(self, *, writable: bool = False) -> None:
        if self._closed:
            raise IndexClosed(f"{self.path or 'the index in memory'} was closed: open it again")
        if writable and self.read_only:
            raise ReadOnlyIndex(self.read_only_reason)
        if self._inherited:
            self._reopen()

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
        return _open_copy, (self.path.resolve(), self._merge_similar)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self if self.path is None else _open_copy(*self.__reduce__()[1])

    def after_fork_in_child(self) -> None:
        """Become a reader. What is in a folder is opened again by the first read."""
        if self._closed:
            return
        others_were_inside = self._lock.after_fork_in_child()
        self.read_only = True
        self._opening, self._one_writer = threading.Lock(), threading.RLock()
        half_applied = bool(self._unpublished) or not self.indexes.complete
        self._threads = self._committing = self._publishing = None
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
            indexes = SearchIndexes(records, self._folder, self._merge_similar)
            indexes.load()
            indexes.sync()
            self.records, self.indexes = records, indexes
            self._inherited = False


def _open_copy(path: Path, merge_similar: float | None) -> Any:
    """Open the folder of an engine that was pickled or copied. The copy is a reader: there is one writer."""
    engine = EmbeddedEngine(path, read_only=True, merge_similar=merge_similar)
    engine._copied = True  # noqa: SLF001 - of this module
    return engine


class ReadWriteLock:
    """Many readers or one writer.

    Nobody starves: a waiting writer goes before new readers, the readers that waited for a
    writer go before the next one, and a writer lets other writers go before its next turn. A
    thread that reads may read again inside, and one that writes may do both.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._readers: dict[int, int] = {}  # depth by thread
        self._writer: object = None
        self._last_writer: object = None
        self._depth = 0
        self._waiting_writers = 0
        self._waiting_readers = 0
        self._admitted = 0  # readers that waited for the last writer

    def after_fork_in_child(self) -> bool:
        """Forget all threads but the one that forked; return whether another one held the lock."""
        me = threading.get_ident()
        others = any(reader != me for reader in self._readers) or self._writer not in (None, me)
        self._condition = threading.Condition()
        self._readers = {me: self._readers[me]} if me in self._readers else {}
        if self._writer != me:
            self._writer, self._depth = None, 0
        self._last_writer = None
        self._waiting_writers = self._waiting_readers = self._admitted = 0
        return others

    @property
    def contended(self) -> bool:
        """Whether a reader or a writer waits."""
        return bool(self._waiting_readers or self._waiting_writers)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold the lock as a reader."""
        me = threading.get_ident()
        with self._condition:
            if me != self._writer and me not in self._readers:
                self._waiting_readers += 1
                try:
                    while self._writer is not None or (self._waiting_writers and not self._admitted):
                        self._condition.wait()
                finally:
                    self._waiting_readers -= 1
                    self._admitted = max(self._admitted - 1, 0)
                    self._condition.notify_all()
            self._readers[me] = self._readers.get(me, 0) + 1
        try:
            yield
        finally:
            with self._condition:
                self._readers[me] -= 1
                if not self._readers[me]:
                    del self._readers[me]
                self._condition.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the lock as the writer."""
        self.acquire(threading.get_ident())
        try:
            yield
        finally:
            self.release()

    def acquire(self, owner: object) -> None:
        """Acquire the lock as the writer: a thread, or anything that lets another thread release it."""
        with self._condition:
            if threading.get_ident() in self._readers and self._writer != owner:
                raise RuntimeError("an index cannot be changed while the same thread reads it")
            self._waiting_writers += 1
            try:
                while self._writer != owner and (
                    self._writer is not None
                    or self._readers
                    or self._admitted
                    or (self._last_writer == owner and self._waiting_writers > 1)
                ):
                    self._condition.wait()
            finally:
                self._waiting_writers -= 1
                self._condition.notify_all()
            self._writer = self._last_writer = owner
            self._depth += 1

    def release(self) -> None:
        """Release the writer's lock."""
        with self._condition:
            self._depth -= 1
            if not self._depth:
                self._writer = None
                self._admitted = self._waiting_readers
            self._condition.notify_all()
