"""``KnowledgeIndex``: one transaction over the records and the three search structures."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

from typing_extensions import Self

from graphrag_core.accesses import Accesses
from graphrag_core.addition import Addition, Given
from graphrag_core.derived import Derived, Engines
from graphrag_core.embedding import Embedding
from graphrag_core.errors import IndexClosed, InputError, NotAnIndex, ReadOnlyIndex
from graphrag_core.folder import Folder
from graphrag_core.guard import Guard
from graphrag_core.ingest.chunk import Chunker
from graphrag_core.ingest.extract import SentenceExtractor
from graphrag_core.inspection import measure, verify
from graphrag_core.intake import Intake, Read, check
from graphrag_core.line import Line
from graphrag_core.lookup import Lookup
from graphrag_core.memory import uncollected
from graphrag_core.model import Document
from graphrag_core.ports import Embedder, Extractor
from graphrag_core.progress import Progress
from graphrag_core.report import Added, Estimate, Stats, Verification
from graphrag_core.settings import agree, to_note
from graphrag_core.stores.records import Records
from graphrag_core.stores.writer import write

_CHUNKER = Chunker()
_ENGINES = Engines()


class KnowledgeIndex(Lookup):
    """Documents, indexed: add, replace, delete, and search what they say and mention.

    Parameters
    ----------
    embedder
        Anything with ``embed_documents(list[str])`` and ``embed_query(str)``. An index that
        exists can be opened without one, to look, delete and search by keyword.
    chunker
        How documents are cut; None keeps every document whole.
    extractor
        How chunks are read; the default needs no model.
    embed_facts
        Whether facts are embedded as well as found by keyword, which is worth a few points
        where questions paraphrase and costs about three times the embedding of the chunks.
        By default on for an embedder that runs in this process (``WordLlama``, ``Onnx``), off
        for others, which may be paid for; :meth:`estimate` shows the cost. Fixed when the
        index is made.
    embed_names
        The same for the names of entities, by which a question that names none finds some.
        By default on where an embedding costs next to nothing (``WordLlama``).
    merge_similar
        Cosine from which two entity names are taken for one entity, such as 0.95; needs
        ``embed_names``. Off by default.
    batch_size
        How many documents are written at once. A call of up to this many is all or nothing;
        a longer one is so batch by batch.
    progress
        True or False to force progress bars; None shows them on a terminal only.
    engines
        What the search structures are made with.

    Made directly, an index lives in memory; :meth:`open` keeps it in a folder. It is safe to
    use from many threads.

    Examples
    --------
    >>> from graphrag_core.testing import HashEmbedder
    >>> index = KnowledgeIndex(HashEmbedder())
    >>> index.add([Document("auth", "The Auth Service delegates to the OAuth Provider.")]).added
    1
    >>> index.entity("auth service").name
    'Auth Service'
    """

    def __init__(
        self,
        embedder: Embedder | None = None,
        *,
        chunker: Chunker | None = _CHUNKER,
        extractor: Extractor | None = None,
        embed_facts: bool | None = None,
        embed_names: bool | None = None,
        merge_similar: float | None = None,
        batch_size: int = 1_000,
        progress: bool | None = None,
        engines: Engines = _ENGINES,
        _folder: Folder | None = None,
        _read_only: bool = False,
    ) -> None:
        if batch_size < 1:
            raise InputError(f"batch_size is {batch_size}: take at least 1")
        self.path = _folder.path if _folder else None
        self.read_only = _read_only
        self.batch_size = batch_size
        self.merge_similar = merge_similar
        self._progress = progress
        self._engines = engines
        self._folder = _folder
        self._guard = Guard()
        self._one_writer = threading.RLock()
        self._closed = False
        self.accesses = Accesses()
        self._lock = _folder.lock() if _folder and not _read_only else None
        with ExitStack() as undo:
            if self._lock:
                undo.callback(self._lock.release)
            self._records = Records(_folder.records if _folder else None, read_only=_read_only)
            undo.callback(self._records.close)
            self.embedding = None if embedder is None else Embedding(embedder)
            self._embeds = agree(self._records, self.embedding, embed_facts, embed_names, self.path)
            self._intake = Intake(chunker, extractor or SentenceExtractor(), self.embedding, self._embeds)
            self._derived = self._derive()
            undo.pop_all()

    @classmethod
    def open(
        cls, path: str | Path, embedder: Embedder | None = None, *, read_only: bool = False, **settings: Any
    ) -> KnowledgeIndex:
        """Open the index in a folder, which is made if absent.

        Parameters
        ----------
        path
            The folder. Its index is brought up to date with its records if a process died
            in the middle of writing.
        embedder
            The embedder that built the index.
        read_only
            One process may write while many read. A reader sees one generation, whole,
            until it calls :meth:`refresh`.
        settings
            As for the class.

        Raises
        ------
        IndexLocked
            Another process, or object, is writing.
        EmbedderMismatch
            The index was built with another embedder.
        NotAnIndex, UnsupportedFormat, DiskError
            The folder cannot be used.
        """
        folder = Folder(Path(path))
        if not read_only:
            folder.create()
        elif not folder.records.is_file():
            raise NotAnIndex(f"{path} holds no index to read: open it for writing once, or mend the path")
        return cls(embedder, _folder=folder, _read_only=read_only, **settings)

    # -- writing

    def add(self, documents: Iterable[Document], *, vectors: Given = None) -> Added:
        """Add documents; replace those whose id is there with other content.

        A document that is there unchanged costs nothing. Any iterable does, also one of
        millions: memory holds a batch at a time.

        Parameters
        ----------
        documents
            What to add.
        vectors
            From a document's id to its vector, where the index's own embedder made one before:
            such a document is not embedded again. It must stay whole, as it does with
            ``chunker=None``. Vectors of other documents are passed over.

        Raises
        ------
        DocumentError
            A document cannot be indexed; nothing of its batch was.
        EmbedderError
            The embedder failed; nothing of the batch was indexed.
        """
        if isinstance(documents, Document):
            raise InputError("add takes an iterable of documents: add([document])")
        with self._one_writer:
            return self._add(documents, vectors)

    def _add(self, documents: Iterable[Document], vectors: Given) -> Added:
        self._check_writable()
        done = Added()
        total = len(documents) if isinstance(documents, Sequence) else None
        source = iter(documents)
        try:
            with (
                Line(self._records, lambda: self._derived, self._guard) as line,
                Progress("indexing", "documents", total, self._progress) as bar,
            ):
                began = self._records.generation
                call = Addition(self._records, self._intake, line, began, self.batch_size, vectors, self._write_alone)
                while batch := list(islice(source, self.batch_size)):
                    with uncollected():  # but not while the caller makes the documents
                        done += call.take(batch)
                    bar.advance(len(batch))
        finally:  # whole batches stay, whatever stopped the rest
            self._publish()
        self._derived.save_if_worthwhile()
        self.accesses.write(self._records)
        return done

    def delete(self, document_ids: str | Iterable[str]) -> int:
        """Delete documents with everything that was read in them; return how many were there.

        All or nothing. When this returns no query finds any of it, and the records hold
        none of its text; :meth:`compact` clears the last traces from the search files too.
        """
        with self._one_writer:
            return self._delete(document_ids)

    def _delete(self, document_ids: str | Iterable[str]) -> int:
        self._check_writable()
        ids = [document_ids] if isinstance(document_ids, str) else list(document_ids)
        keys = [key for key, _, _ in self._records.known(ids).values()]
        if keys:
            with self._guard.writing():
                write(self._records, gone=keys)
                self._publish()
            self.accesses.write(self._records)
            self._records.truncate_log()
        return len(keys)

    def rebuild(self) -> None:
        """Make the search structures anew from the records; nothing is embedded again."""
        self._check_writable()
        with self._one_writer, self._guard.writing():
            self._derived.rebuild()
            self._derived.save()

    def compact(self) -> None:
        """Clear every trace of deleted documents from the files, and give back their space."""
        self._check_writable()
        with self._one_writer, self._guard.writing():
            self._derived.postings.clear_ghosts(all_of_them=True)
            self._derived.save()
            self._records.rows("VACUUM")
            self._records.truncate_log()

    def refresh(self) -> bool:
        """Let a reader see what was written since; return whether anything was."""
        self._check_open()
        before = self._derived.generation
        with self._guard.writing():
            self._records.refresh()
            agree(self._records, self.embedding, None, None, self.path)
            if int(self._records.meta("dim", "0")) not in (0, self._derived.dim):
                self._derived = self._derive()
            self._derived.catch_up()
        return self._derived.generation != before

    # -- looking at the whole

    def estimate(self, documents: Iterable[Document]) -> Estimate:
        """Return what adding documents would cost to embed, without embedding anything."""
        return self._intake.estimate(documents)

    def to_embed(self, documents: Iterable[Document]) -> list[str]:
        """Return the texts that adding documents would have embedded, each once; nothing is written.

        For a caller that embeds in its own way, such as on an event loop, before it adds.
        Documents that are there unchanged and passages whose vector is kept cost nothing.
        """
        self._check_open()
        batch = list(documents)
        for document in batch:
            check(document)
        changed, replaced = self._intake.changed(batch, self._records.known([document.id for document in batch]))
        kept = self._records.vectors_by_text(replaced, self._derived.dim)
        return self._intake.texts(self._intake.read(changed), kept, self._records)

    def stats(self) -> Stats:
        """Return how large the index is and what it speaks of most."""
        with self.reading() as derived:
            return measure(self._records, derived, self._folder)

    def verify(self) -> Verification:
        """Compare records, vectors, keywords and graph with each other, completely.

        Waits for an ``add`` that is under way in another thread.
        """
        self._check_open()
        if not self.read_only:
            with self._one_writer:
                if self._derived.generation != self._records.generation:
                    self._publish()
        with self.reading() as derived:
            return verify(self._records, derived)

    @contextmanager
    def reading(self) -> Iterator[Derived]:
        """Hold one generation of everything while a query runs; writers wait."""
        self._check_open()
        if not self._derived.whole:  # something stopped the last change half-way
            self._publish()
        with self._guard.reading():
            self._check_open()
            yield self._derived

    def close(self) -> None:
        """Save the search structures and give back locks and files. Closing twice does nothing."""
        with self._one_writer, self._guard.writing():
            if self._closed:
                return
            try:
                if not self.read_only:
                    self.accesses.write(self._records)
                    self._derived.save()
            finally:
                self._closed = True
                self._derived.close()
                try:
                    self._records.close()
                finally:
                    if self._lock:
                        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        where = "in memory" if self.path is None else str(self.path)
        return f"<KnowledgeIndex {where}{', closed' if self._closed else ''}>"

    # -- inside

    def _write_alone(self, read: list[Read], replaced: list[int], given: Given) -> None:
        kept = self._records.vectors_by_text(replaced, self._derived.dim) if replaced else {}
        # The first batch tells the dimension, but only once it is written.
        embedding = self.embedding.copy() if self.embedding else None
        intake = replace(self._intake, embedding=embedding)
        entries = intake.embed(read, kept, given)
        names = intake.name_vectors(read, self._records)
        first = embedding is not None and not self._records.meta("dim")
        notes = to_note(embedding, self._embeds) if first and embedding else {}
        with self._guard.writing():
            write(self._records, entries, replaced, names, notes)
            if first and embedding and self.embedding:
                self.embedding.dim = embedding.dim
                self._derived.close()
                self._derived = self._derive()
            else:
                self._publish()

    def _publish(self) -> None:
        """Let queries see what was written."""
        with self._guard.writing():
            self._derived.catch_up()
            self._derived.postings.clear_ghosts()

    def _derive(self) -> Derived:
        dim = int(self._records.meta("dim", "0")) or 1
        derived = Derived(self._records, self._folder, dim, self._engines, self.merge_similar)
        if self._folder and not self.read_only:
            self._folder.tidy()
        derived.load()
        derived.catch_up()
        if not self.read_only:
            derived.postings.clear_ghosts()
        return derived

    def _check_open(self) -> None:
        if self._closed:
            raise IndexClosed(f"{self!r}: open it again with KnowledgeIndex.open")

    def _check_writable(self) -> None:
        self._check_open()
        if self.read_only:
            raise ReadOnlyIndex(f"{self.path} was opened with read_only=True: open it for writing to change it")
