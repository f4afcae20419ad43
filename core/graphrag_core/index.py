"""``KnowledgeIndex``: add, replace, delete and look up documents. ``index.memory`` and ``index.graph`` do the rest."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from graphrag_core.engine.address import is_address, is_url, shown
from graphrag_core.errors import InputError, check_integer
from graphrag_core.filters import Where, parse_all
from graphrag_core.graph import KnowledgeGraph
from graphrag_core.ingest.chunker import Chunker
from graphrag_core.ingest.edges import Edge, Edges, parse_edges
from graphrag_core.ingest.embedding import CheckedEmbedder
from graphrag_core.ingest.pipeline import Pipeline
from graphrag_core.memory import Memory
from graphrag_core.model import Added, Chunk, Document, Stats, Verification
from graphrag_core.ports import Embedder, Extractor
from graphrag_core.research import research_documents

if TYPE_CHECKING:
    from graphrag_core.engine.engine import IndexEngine

_log = logging.getLogger(__name__)

_CHUNKER = Chunker()


class KnowledgeIndex:
    """An index of documents: their chunks, entities and facts.

    Parameters
    ----------
    embedder
        Anything with ``embed_documents(list[str])`` and ``embed_query(str)``. Without one the index has no vectors and
        serves keyword and graph search. An index that was built with an embedder can be opened without it, to inspect
        it, delete documents and search by keyword and graph.
    chunker
        How documents are cut into chunks; None keeps every document whole.
    extractor
        How entities and facts are extracted from chunks; the default needs no model.
    embed_names
        Whether the names of entities are embedded, so that a question that names no entity finds similar names. Some
        published designs need it; otherwise it makes the index larger and recall no better, so it is off by default.
    batch_size
        The number of documents in a transaction. A list of at most this length is added completely or not at
        all; a longer one batch by batch. Of an iterator, long documents make smaller batches.
    progress
        True or False to force progress bars; None shows them on a terminal.
    edges
        Metadata fields that link documents, in addition to their texts: ``[("author", "author"), ("links", "id")]``
        links documents of the same author, and a document to the documents whose ids it lists under ``links``. The
        first field is of the source, the second of the target; values may be lists; ``"id"`` or ``"$id"`` is the
        document's id, and its metadata ``id``; nested keys are written with dots; ``"author"`` is short for the pair.
        Stored with the index: None takes the stored edges; a filled index cannot get other ones.
    engine
        What stores and searches the index; by default one in memory. Use
        :meth:`open` for one in a folder.

    Notes
    -----
    An index is safe to use from many threads. A process that was forked from this one can read it and not write it. A
    pickle or a deep copy of an index in a folder opens the folder for reading; a deep copy of an index in memory is the
    index itself, and it cannot be pickled.
    """

    def __init__(
        self,
        embedder: Embedder | None = None,
        *,
        chunker: Chunker | None = _CHUNKER,
        extractor: Extractor | None = None,
        embed_names: bool | None = None,
        batch_size: int = 1_000,
        progress: bool | None = None,
        edges: Edges | None = None,
        engine: IndexEngine | None = None,
    ) -> None:
        check_integer(batch_size, "batch_size")
        self.embedding = None if embedder is None else CheckedEmbedder(embedder)
        self.engine: IndexEngine = open_engine(None) if engine is None else engine
        if self.embedding is not None and self.embedding.has_tokens:
            self.engine.embed_tokens = self.embedding.embed_tokens
        self.path, self.batch_size = self.engine.path, batch_size
        self._copied: dict[str, Any] = {
            "chunker": chunker, "extractor": extractor, "batch_size": batch_size, "progress": progress,
        }  # fmt: skip
        pairs = None if edges is None else parse_edges(edges)
        self.pipeline = Pipeline(self.engine, self.embedding, embed_names=embed_names, edges=pairs, **self._copied)
        self.memory = Memory(self.pipeline)
        """The facts that were stated with :meth:`Memory.remember <graphrag_core.memory.Memory.remember>`."""
        self.graph = KnowledgeGraph(self.pipeline, self.memory)
        """Entities, relations, communities and edits of the graph."""

    @classmethod
    def open(
        cls,
        path: str | Path,
        embedder: Embedder | None = None,
        *,
        read_only: bool = False,
        **settings: Any,
    ) -> KnowledgeIndex:
        """Open the index in a folder, or in a PostgreSQL database. It is created if absent.

        Parameters
        ----------
        path
            The folder, in which one process writes; an index whose last writer crashed is recovered. Or
            ``postgresql://user@host/database?index=NAME``, where many processes read and write (extra ``postgres``).
        embedder
            The embedder that built the index.
        read_only
            One process may write while many read. Every query sees what was committed when it began.
        settings
            As for the class.

        Raises
        ------
        IndexLocked
            Another process or object is writing.
        EmbedderMismatch
            The index was built with another embedder.
        NotAnIndex, DamagedIndex, UnsupportedFormat, DiskError, DatabaseError
            The folder or the database cannot be used.
        """
        engine = open_engine(path, read_only=read_only)
        try:
            return cls(embedder, engine=engine, **settings)
        except BaseException:
            engine.close()
            raise

    @property
    def read_only(self) -> bool:
        """Whether the index can only be read: it was opened so, or inherited or copied from another process."""
        return self.engine.read_only

    def __reduce__(self) -> tuple[Any, ...]:
        embedder, settings = None if self.embedding is None else self.embedding.embedder, dict(self._copied)
        if isinstance(problem := _pickling_problem(embedder), TypeError):  # a lambda may do: cloudpickle takes it
            raise InputError(
                f"the embedder {embedder!r:.80} cannot be pickled ({problem}): define its __getstate__, or open the "
                "index in the other process with KnowledgeIndex.open(path, embedder, read_only=True)"
            ) from problem
        if _pickling_problem(settings["extractor"]) is not None:  # such as a client of an LLM: a copy extracts nothing
            del settings["extractor"]
        path, read_only = self.engine.place()
        return partial(type(self).open, path, embedder, read_only=read_only, **settings), ()

    def __deepcopy__(self, memo: dict[int, Any]) -> KnowledgeIndex:
        if self.path is None:
            return self
        path, read_only = self.engine.place()
        embedder = None if self.embedding is None else self.embedding.embedder
        return self.open(path, embedder, read_only=read_only, **self._copied)

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Return whether a folder, or a PostgreSQL database, holds an index."""
        from graphrag_core.engine.connect import exists  # noqa: PLC0415 - see open_engine

        return exists(path)

    # -- writing

    def add(
        self,
        documents: Iterable[Document],
        *,
        vectors: Mapping[str, Sequence[float]] | None = None,
        embeddings: Mapping[str, Sequence[float]] | None = None,
    ) -> Added:
        """Add documents; replace those whose id exists with other content.

        Unchanged documents are skipped. Any iterable will do, also one of millions of documents: a few batches are in
        memory at a time.

        Parameters
        ----------
        vectors
            Vectors by document id, computed by the index's embedder: such a document is not embedded again. It must
            be a single chunk, as with ``chunker=None``. Other ids are ignored. The mapping may be filled while the
            documents are read: the vectors of a batch are looked up after its last document.
        embeddings
            Vectors by text, for the texts that :meth:`to_embed` returned. Other texts are embedded by the index's
            embedder.

        Raises
        ------
        DocumentError
            A document cannot be indexed; nothing of its batch was added.
        EmbedderError
            The embedder failed; nothing of the batch was added.
        """
        if isinstance(documents, Document):
            raise InputError("add takes an iterable of documents: add([document])")
        # The mapping as it is: it may be filled while the documents are read.
        return self.pipeline.add(documents, {} if vectors is None else vectors, embeddings or {})

    def add_research_findings(self, findings: Any) -> Added:
        """Add the papers and projects of research findings as documents with typed entities and facts.

        Parameters
        ----------
        findings
            ``{"academic_papers": [...], "github_projects": [...]}``, one of the two, or a list of such objects
            (:func:`graphrag_core.research.research_documents`). Anything else raises ``InputError``.

        Examples
        --------
        >>> index = KnowledgeIndex()
        >>> paper = {"arxiv_id": "2501.03236", "title": "MAGMA Memory", "abstract": "A memory of four graphs."}
        >>> index.add_research_findings({"academic_papers": [paper]}).added
        1
        >>> index.graph.entity("2501.03236").name
        'MAGMA Memory'
        """
        return self.add(research_documents(findings))

    def delete(self, document_ids: str | Iterable[str]) -> int:
        """Delete documents with their chunks and facts, all or nothing; return how many existed.

        No query finds them and the records do not contain their text; :meth:`erase` removes the last traces from the
        search indexes.
        """
        return self.pipeline.delete([document_ids] if isinstance(document_ids, str) else list(document_ids))

    def rebuild(self) -> Added:
        """Split all documents and extract from them again, then build the search indexes again.

        Use it after an upgrade, or for another chunker or extractor. Only passages and names that are new are embedded.
        Remembered facts, explicit edges, edits of the graph and access counts are kept.
        Each batch is one transaction: after an interrupt the index is valid, and the next call finishes.

        Returns
        -------
        Added
            ``replaced`` is the number of documents that were extracted again. ``problems`` maps the ids of documents
            whose extraction failed to the reason; they keep their entities and facts.

        Raises
        ------
        InputError
            The index was opened without its embedder.
        ReadOnlyIndex
            The index cannot be written.
        """
        with self.pipeline.writing():
            report = self.pipeline.rebuild()
            self.engine.rebuild()
        return report

    def erase(self) -> bool:
        """Purge deleted documents from the files, the write-ahead log included, and free the disk space.

        Returns
        -------
        bool
            False if a reader in the middle of a query keeps deleted text in the write-ahead log, and the space was not
            released: repeat the call.
        """
        with self.engine.lock:
            done = self.engine.erase()
        if not done:
            _log.warning("%s: a reader keeps deleted text in the write-ahead log: repeat the call", self.path)
        return done

    def backup(self, path: str | Path) -> None:
        """Write a copy of the index to a new folder, also while documents are added or another process writes.

        The copy has everything that was committed when the call began. To restore it, open the folder, or put it in
        the place of the damaged one: the first opening for writing builds the search indexes, and nothing is embedded.
        Copying the files of an index that is open does not give a usable copy.

        Raises
        ------
        InputError
            The folder ``path`` exists and is not empty.
        DamagedIndex, DiskError
            The records are damaged, or the copy cannot be written.
        """
        self.engine.backup(path)

    def refresh(self) -> bool:
        """Read the settings of the index again; return whether anything was written since the last call."""
        changed = self.engine.refresh()
        if changed:
            self.pipeline.read_settings()
        return changed

    def close(self) -> None:
        """Save the search indexes and release locks and files. Closing twice does nothing."""
        with self.engine.lock:
            self.engine.close()

    # -- documents

    def get(self, document_id: str) -> Document | None:
        """Return a document, or None."""
        return self.engine.document(document_id)

    def documents(self, *, where: Where | None = None) -> Iterator[Document]:
        """Yield the documents that match a filter in order of id, one at a time; all without a filter."""
        ids = self.engine.document_ids(parse_all(where))
        return (document for document_id in ids if (document := self.engine.document(document_id)) is not None)

    def document_ids(self, where: Where | None = None) -> list[str]:
        """Return the ids of the documents that match a filter, in order of id."""
        return list(self.engine.document_ids(parse_all(where)))

    def __len__(self) -> int:
        return len(self.engine)

    def __contains__(self, document_id: object) -> bool:
        return isinstance(document_id, str) and bool(self.engine.stored([document_id]))

    def chunks(self, document_id: str) -> list[Chunk]:
        """Return a document's chunks, in order."""
        return self.engine.chunks_of(document_id)

    # -- the whole index

    def to_embed(self, documents: Iterable[Document], vectors: Collection[str] = ()) -> list[str]:
        """Return the texts that adding documents would embed, each once. Nothing is embedded or written.

        Compute their vectors in any way, such as on an event loop, and pass them to :meth:`add` as ``embeddings``.
        Unchanged documents, stored vectors, and documents whose ids are in ``vectors`` need no embedding.
        """
        return self.pipeline.to_embed(documents, vectors)

    def stats(self) -> Stats:
        """Return the size of the index and its most frequent entities."""
        return self.engine.stats()

    def verify(self) -> Verification:
        """Compare records, vectors, keywords and graph with each other and with their checksums; list problems."""
        return self.engine.verify()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<KnowledgeIndex {self.engine!r}>"

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The metadata fields that link documents: pairs of a source field and a target field."""
        return self.pipeline.edges


def open_engine(path: str | Path | None, *, read_only: bool = False) -> IndexEngine:
    """Open the engine for a folder, for the address of a database, or in memory."""
    from graphrag_core.engine.engine import IndexEngine  # noqa: PLC0415 - FAISS, tantivy and scipy take long to import

    if isinstance(path, str) and is_url(path) and not is_address(path):
        raise InputError(
            f"{shown(path)} is neither a folder nor an address of PostgreSQL (postgresql://user@host/database)"
        )
    if isinstance(path, Path) and path.parts[:1] in (("postgresql:",), ("postgres:",)):
        raise InputError("the address of a database must be a str: a Path changes it")
    return IndexEngine(path, read_only=read_only)


def _pickling_problem(value: Any) -> Exception | None:
    """Return why pickle refuses a value: a ``TypeError`` for what no pickler takes, such as a lock or a connection."""
    try:
        pickle.dumps(value, 5, buffer_callback=lambda _: None)
    except Exception as error:  # noqa: BLE001 - __reduce__ of a foreign class may raise anything
        return error
    return None
