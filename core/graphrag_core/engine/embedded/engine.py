"""``EmbeddedEngine``: SQLite records with FAISS, tantivy and graph indexes, in a folder or in memory.

Every change takes one path: :meth:`EmbeddedEngine.write` commits one SQLite transaction, which
returns a change, and the change is applied to the search indexes. Both run in background threads,
so that ingestion prepares the next batch meanwhile: a batch is committed while the ones before
it are applied, a few at once. The write lock is held meanwhile, and a read that finds changes
which are not applied applies them first, so that every read sees a committed generation that is
complete in all indexes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from pathlib import Path

from graphrag_core.engine.embedded.files import Folder
from graphrag_core.engine.embedded.locks import ReadWriteLock
from graphrag_core.engine.embedded.records import Accesses, Records
from graphrag_core.engine.embedded.search_indexes import SearchIndexes
from graphrag_core.engine.embedded.snapshot import EmbeddedSnapshot
from graphrag_core.engine.embedded.writer import Batch, write
from graphrag_core.errors import IndexClosed, NotAnIndex, ReadOnlyIndex
from graphrag_core.filters import Filter
from graphrag_core.model import Chunk, Document, Stats, Verification
from graphrag_core.ports import Matrix, ParsedDocument, Snapshot, StoredDocument

_TOP = 5  # entities in the statistics
_TOGETHER = 4  # transactions that are applied to the search indexes at once: a commit of tantivy is expensive


class EmbeddedEngine:
    """Stores and searches an index within this process.

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
        self._closed = False
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
            self.indexes = SearchIndexes(self.records, self._folder, merge_similar)
            self.indexes.load()
            self.indexes.sync()
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
        with self._one_writer:
            if self._lock.contended and self._publishing is not None:
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
        """Wait until everything written is committed and can be searched. Raise what went wrong."""
        with self._one_writer:
            self._check()
            self._settle()
            with self.reading() as indexes:  # publishes what is not yet
                if self.accesses.pending and not self.read_only:
                    self.accesses.write(self.records)
                indexes.save_if_worthwhile()

    def rebuild(self) -> None:
        """Build the search indexes again from the records, without embedding anything."""
        with self._writing():
            self.indexes.rebuild()
            self.indexes.save()

    def compact(self) -> None:
        """Remove all traces of deleted documents from the files and release their space."""
        with self._writing():
            self.indexes.clear_ghosts()
            self.indexes.save()
            self.records.rows("VACUUM")
            self.records.truncate_log()

    def refresh(self) -> bool:
        """Let a read-only engine see what was written since; return whether anything was."""
        self._check()
        with self._one_writer, self._lock.writing():
            before = self.indexes.generation
            self.indexes.sync()
            return self.indexes.generation != before

    def close(self) -> None:
        """Save the search indexes and release locks and files. Closing twice does nothing."""
        with self._one_writer:
            if self._closed:
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
    def snapshot(self, scope: Filter | None = None) -> Iterator[Snapshot]:
        """Open a snapshot of the newest generation, restricted to the documents that match a filter."""
        with self.reading() as indexes:
            allowed = None if scope is None else self.records.in_scope(scope)
            yield EmbeddedSnapshot(
                view=indexes.view_of(allowed),
                records=self.records,
                vectors=indexes.vectors,
                keywords=indexes.keywords,
                allowed=allowed,
                id_places=indexes.id_places,
                accesses=self.accesses,
                generation=indexes.generation,
            )

    @contextmanager
    def reading(self) -> Iterator[SearchIndexes]:
        """Hold one complete generation; writers wait. Private to the engine."""
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

    @property
    def generation(self) -> int:
        """The number of changes the index has seen."""
        with self.reading() as indexes:
            return indexes.generation

    def settings(self) -> dict[str, str]:
        """Return the settings that were stored with the index."""
        with self.reading():
            return self.records.settings()

    def stored(self, document_ids: Sequence[str]) -> dict[str, StoredDocument]:
        """Return what is known of the documents that exist, by id. Does not wait for a running write."""
        self._check()
        return self.records.stored(document_ids)

    def new_names(self, names: Iterable[str]) -> list[str]:
        """Return the names that no stored chunk mentions yet, each once."""
        self._check()
        wanted = list(dict.fromkeys(names))
        if self._committing is not None:
            wait([self._committing])  # but not until it is published
        known = self.records.name_keys(wanted)
        return [name for name in wanted if name not in known]

    def stored_vectors(self, document_ids: Sequence[str]) -> dict[str, Matrix]:
        """Return the vectors of some documents' chunks and facts by the text that was embedded."""
        with self.reading():
            return self.records.vectors_by_text(document_ids)

    def document(self, document_id: str) -> Document | None:
        """Return a document as it was added."""
        with self.reading():
            return self.records.document(document_id)

    def document_ids(self, scope: Filter | None = None) -> Iterator[str]:
        """Yield the ids of the documents that match a filter, in order of id."""
        last: str | None = None
        while True:
            with self.reading():
                page = self.records.document_ids(last, scope)
            if not page:
                return
            yield from page
            last = page[-1]

    def chunks_of(self, document_id: str) -> list[Chunk]:
        """Return a document's chunks, in order."""
        with self.reading():
            return self.records.chunks_of(document_id)

    def __len__(self) -> int:
        with self.reading():
            return int(self.records.value("SELECT count(*) FROM documents"))

    def stats(self) -> Stats:
        """Return the size of the index and its most frequent entities."""
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
                entities=len(indexes.view.entity_ids),
                facts=value("SELECT count(*) FROM facts"),
                relations=dict(relations),
                vectors={kind: len(store.keys) for kind, store in indexes.vectors.items()},
                dim=int(self.records.meta("dim", "0")),
                embedder=self.records.meta("embedder"),
                generation=indexes.generation,
                bytes_on_disk=self._folder.size() if self._folder else 0,
                bytes_in_memory=indexes.nbytes + in_memory,
                top_entities=tuple((entity.name, entity.mentions) for entity in top),
            )

    def verify(self) -> Verification:
        """Compare the records with every search index."""
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
            raise ReadOnlyIndex(f"{self.path} was opened with read_only=True: open it for writing to change it")
