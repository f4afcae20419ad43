"""``GraphRAGRetriever``: the core's index and retriever behind LangChain's interfaces."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing.base import DeleteResponse, DocumentIndex, UpsertResponse
from langchain_core.retrievers import LangSmithRetrieverParams
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore
from pydantic import ConfigDict, Field, PrivateAttr, field_validator
from typing_extensions import Self, override

import graphrag_core
from graphrag_core import (
    Answer,
    Cache,
    Calibration,
    Gate,
    GraphRetriever,
    KnowledgeIndex,
    Recogniser,
    Router,
    ScoreReranker,
    SentenceExtractor,
    filters,
)
from graphrag_core.engine.address import shown
from graphrag_core.errors import EmbedderError, InputError, NotAnIndex
from graphrag_core.filters import DOCUMENT_ID, parse_all
from graphrag_core.ingest.embedding import embedder_error, identity_of
from graphrag_core.ports import Embedder
from graphrag_core.query.ask import MAX_TOKENS
from graphrag_core.query.external_rerank import search_awaiting, search_now
from graphrag_core.research import research_documents
from langchain_graphrag.documents import (
    LongDocumentChunker,
    RetrievedDocuments,
    from_core_document,
    from_texts,
    to_core_documents,
)
from langchain_graphrag.extraction import StoredKnowledgeExtractor, from_graph_documents, llm_extractor
from langchain_graphrag.llm import to_chat_model
from langchain_graphrag.rerank import compressor_callbacks, to_reranker
from langchain_graphrag.search import Search, most_diverse
from langchain_graphrag.stores import Row, copy_store, embedding_of, read_documents, with_ids_and_vectors

if TYPE_CHECKING:
    from langchain_graphrag.vectorstore import GraphRAGVectorStore

Filter = filters.Where
_log = logging.getLogger(__name__)
_NAMED = 5  # blank documents that a warning names
_CORE_FIELDS = (
    "index",
    "k",
    "method",
    "graph",
    "fusion",
    "reranker",
    "gate",
    "recogniser",
    "router",
    "candidates",
    "cache",
    "vector_weight",
    "text_weight",
    "inverses",
    "calibration",
    "score_threshold",
    "refresh_every",
    "on_embedder_error",
)
_REQUIRED: Any = object()


class GraphRAGRetriever(DocumentIndex):
    """Retrieves documents by vector, keyword and knowledge graph, with the reason for each.

    Create one with :meth:`from_documents`, :meth:`from_texts`, :meth:`from_vectorstore`,
    :meth:`from_graph_documents` or :meth:`load`, or pass an existing ``index``. It is safe to use
    from many threads and tasks at once; each query sees one consistent state of the index. It is also a LangChain
    ``DocumentIndex``, so ``langchain_core.indexing.index`` can sync it with a source.

    Parameters
    ----------
    index
        The index to search.
    k
        The number of documents to return.
    method
        ``"hybrid"``, ``"vector"``, ``"keyword"``, ``"graph"``, ``"global"`` or ``"agentic"``.
    filter
        Restricts every query to matching documents, and :meth:`get` and :meth:`delete` too. A filter passed with a call
        narrows it further. It is copied when it is set: change ``retriever.filter``, not the mapping that was passed.
    search_type
        ``"similarity"``, ``"mmr"`` for diverse documents (maximal marginal relevance), or
        ``"similarity_score_threshold"``, which needs a ``score_threshold`` in ``search_kwargs``.
    search_kwargs
        Settings of every call, as LangChain's vector store retrievers have them: ``k``, ``filter``,
        ``score_threshold``, ``fetch_k`` and ``lambda_mult`` (for ``"mmr"``), and the others that ``invoke`` takes. They
        override the fields of this class, and a call overrides them. Filters never override, they narrow.
    graph, fusion, gate, recogniser, router, candidates, vector_weight, text_weight, inverses, calibration
        Settings of :class:`graphrag_core.GraphRetriever`; None for the core's defaults.
    reranker
        True for the core's default, False for none, a reranker of the core such as ``CrossEncoder(folder)``, or a
        LangChain ``BaseDocumentCompressor`` such as ``CrossEncoderReranker``
        (:func:`~langchain_graphrag.compressor_reranker`).
    score_threshold
        Documents with a lower score are left out, so that a query can return none. The score of the default hybrid
        method is the probability that a document belongs to the answer, from 0 to 1.
    cache
        Caches results; by default each retriever has its own. None or False for no cache.
    refresh_every
        For an index that another process writes (``read_only=True``): look for new documents before a query if so many
        seconds passed since the last time. None for :meth:`refresh` only.
    on_embedder_error
        ``"raise"``: if the question cannot be embedded, ``invoke`` raises :class:`graphrag_core.errors.EmbedderError`,
        which is also of the type that the embedding model raised. So ``with_retry``, ``with_fallbacks`` and their
        exception types work with either. ``"keyword"`` searches by keyword and graph instead, and logs a warning.

    Notes
    -----
    ``invoke``, ``ainvoke``, ``batch`` and ``abatch`` take ``k``, ``method``, ``filter``,
    ``use_graph``, ``score_threshold``, ``min_graph_score``, ``min_score``, ``min_confidence``, ``as_of``,
    ``count_access``, ``seed_entities``, ``exclude``, ``search_type``, ``fetch_k`` and ``lambda_mult``. A filter maps
    metadata keys to values or operators: ``{"tenant": "acme", "year": {"$gte": 2020}}``.

    A document is returned with the id and the metadata it was added with, its score in
    ``metadata["score"]`` and everything else about the hit in ``metadata["graphrag"]``. If its
    own metadata uses one of these two keys, that value is in ``metadata["graphrag"]["own"]``;
    ``filter`` and :meth:`get` see it in its original place. When a retrieved document is added
    again, these additions are removed first. They are reached by key; ``==``, iteration and JSON
    leave them out, so that documents of the same passage are equal whichever queries found them.

    A document of more than 512 tokens is split into passages, unless ``chunker=None``. Their id is
    ``"<document id>#<number>"``, and ``metadata["graphrag"]["document_id"]`` is the id for
    :meth:`delete` and :meth:`get`. A shorter document is one passage with its own id.

    Nothing is found for a blank query, and documents without text are skipped, each with a warning in the log.

    A retriever with a ``path`` can be pickled and deep-copied: the copy opens the folder for reading. A forked process
    reads the index that it inherited, and cannot write it. Of an index in PostgreSQL a copy and a forked process open
    connections of their own, and may write.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    index: KnowledgeIndex
    k: int = 5
    method: str = "hybrid"
    filter: Any = None
    search_type: str = "similarity"
    search_kwargs: dict[str, Any] = Field(default_factory=dict)
    graph: Any = None
    fusion: Any = None
    reranker: Any = True
    gate: Gate | None = None
    recogniser: Recogniser | None = None
    router: Router | None = None
    candidates: int = 100
    cache: Cache | bool | None = Field(default_factory=Cache)
    vector_weight: float = 0.6
    text_weight: float = 0.4
    inverses: Mapping[str, str] | None = None
    calibration: Calibration | bool = True
    score_threshold: float | None = None
    refresh_every: float | None = None
    on_embedder_error: Literal["raise", "keyword"] = "raise"

    _core: GraphRetriever = PrivateAttr()

    @field_validator("cache", mode="before")
    @classmethod
    def _cache_from_flag(cls, cache: Any) -> Any:
        return (Cache() if cache else None) if isinstance(cache, bool) else cache

    @override
    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        self._configure()

    @override
    def __setattr__(self, name: str, value: Any) -> None:
        if name == "cache":
            value = self._cache_from_flag(value)
        if name in _CORE_FIELDS:  # raises before anything is changed
            super().__setattr__("_core", self._make_core(**{name: value}))
        elif name == "filter":
            value = _with_lists(value)
            parse_all(value)  # raises if it is malformed
        elif name in ("search_type", "search_kwargs"):
            value = _with_lists(value)
            kwargs = {"search_type": self.search_type, "search_kwargs": self.search_kwargs, name: value}
            Search.of(self.k, **kwargs, asked={})
        super().__setattr__(name, value)

    @override
    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some fields changed; it searches the same index."""
        copied = super().model_copy(update=update, deep=deep)
        copied._configure()  # noqa: SLF001 - pydantic updates fields of a copy without assigning them
        return copied

    def _configure(self) -> None:
        self._core = self._make_core()
        self.filter = self.filter  # assigning validates and copies
        self.search_kwargs = self.search_kwargs

    def _make_core(self, **changed: Any) -> GraphRetriever:
        settings = {**{name: getattr(self, name) for name in _CORE_FIELDS}, **changed}
        return GraphRetriever(**{**settings, "reranker": to_reranker(settings["reranker"])})

    # -- constructors

    @classmethod
    def from_documents(
        cls,
        documents: Iterable[Document],
        embedding: Embedder | None,
        *,
        path: str | Path | None = None,
        llm: Any = None,
        **settings: Any,
    ) -> Self:
        """Index documents and return a retriever for them.

        Parameters
        ----------
        documents
            Those of more than 512 tokens are split into passages; ``chunker=None`` keeps them whole, and another
            :class:`graphrag_core.Chunker` splits them in another way. A document without an id gets one
            from its content. One without text is skipped.
        embedding
            Any LangChain ``Embeddings``, or an embedder of the core such as ``WordLlama()``. None for an
            index without vectors, which serves keyword and graph search and needs no model.
        path
            A folder for the index, or an address such as ``postgresql://user@host/database?index=NAME``. It is
            created if absent; an existing index is extended. None keeps the index in memory.
            ``persist_directory`` is another name for it.
        llm
            A chat model that extracts entities and relations from every passage, in addition
            to the extraction without a model. Use :func:`~langchain_graphrag.llm_extractor`
            for its settings.
        settings
            Fields of this class (``k``, ``method``, ``fusion``, ``tags``, ...) and settings of
            :class:`graphrag_core.KnowledgeIndex` (``chunker``, ``extractor``, ``embed_facts``, ...).
        """
        return cls._from_core_documents(to_core_documents(documents), embedding, path, llm, settings)

    @classmethod
    async def afrom_documents(
        cls,
        documents: Iterable[Document],
        embedding: Embedder | None,
        *,
        path: str | Path | None = None,
        llm: Any = None,
        **settings: Any,
    ) -> Self:
        """Async version of :meth:`from_documents`."""
        retriever = await run_in_executor(None, cls._open, embedding, path, llm, settings)
        try:
            await retriever.aadd_documents(documents)
        except BaseException:
            retriever.close()
            raise
        return retriever

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: Embedder | None,
        metadatas: Iterable[Mapping[str, Any]] | None = None,
        ids: Iterable[str] | None = None,
        **settings: Any,
    ) -> Self:
        """Index texts and return a retriever for them; ``settings`` as for :meth:`from_documents`."""
        return cls.from_documents(from_texts(texts, metadatas, ids), embedding, **settings)

    @classmethod
    async def afrom_texts(
        cls,
        texts: Iterable[str],
        embedding: Embedder | None,
        metadatas: Iterable[Mapping[str, Any]] | None = None,
        ids: Iterable[str] | None = None,
        **settings: Any,
    ) -> Self:
        """Async version of :meth:`from_texts`."""
        return await cls.afrom_documents(from_texts(texts, metadatas, ids), embedding, **settings)

    @classmethod
    def from_graph_documents(
        cls,
        graph_documents: Iterable[Any],
        embedding: Embedder | None,
        *,
        path: str | Path | None = None,
        **settings: Any,
    ) -> Self:
        """Index the sources of graph documents with their nodes and relationships.

        Takes what LangChain's ``LLMGraphTransformer`` returns. Each node becomes a typed entity
        and each relationship a fact of its source, in addition to what is extracted from the text.

        Parameters
        ----------
        graph_documents
            Objects with ``nodes``, ``relationships`` and ``source``. The sources are not split.
        embedding, path, settings
            As for :meth:`from_documents`.
        """
        if settings.get("chunker") is not None:
            raise InputError("relationships of a graph document belong to its whole source: remove chunker")
        settings = {**settings, "chunker": None}
        return cls._from_core_documents(from_graph_documents(graph_documents), embedding, path, None, settings)

    @classmethod
    async def afrom_graph_documents(
        cls,
        graph_documents: Iterable[Any],
        embedding: Embedder | None,
        *,
        path: str | Path | None = None,
        **settings: Any,
    ) -> Self:
        """Async version of :meth:`from_graph_documents`."""
        made = await run_in_executor(None, partial(cls.from_graph_documents, (), embedding, path=path, **settings))
        try:
            await made.aadd_graph_documents(graph_documents)
        except BaseException:
            made.close()
            raise
        return made

    @classmethod
    def from_vectorstore(
        cls,
        store: VectorStore,
        embedding: Embedder | None = None,
        *,
        path: str | Path | None = None,
        where: Any = None,
        ids: Iterable[Any] | None = None,
        documents: Iterable[Document] | None = None,
        read: Callable[[Any], Iterable[Row]] | None = None,
        remove_missing: bool = False,
        check_embedding: bool = False,
        batch_size: int = 1_000,
        show_progress: bool | None = None,
        llm: Any = None,
        **settings: Any,
    ) -> Self:
        """Return a retriever for the documents of a vector store, with the vectors that the store has.

        Reads Chroma, FAISS, Qdrant, PGVector, PGVectorStore and InMemoryVectorStore. No document is embedded
        again, and the store is not changed. Documents are not split. Called again with the same ``path``, it adds
        what is new, replaces what has changed and skips the rest.

        An embedding model of the core that runs in this process, such as ``WordLlama``, embeds facts and names too.
        With ``embed_facts=False, embed_names=False`` nothing at all is embedded; this is the default for other models.

        Parameters
        ----------
        store
            The store.
        embedding
            The model that computed the vectors of the store; by default the store's own. Questions are embedded
            with it.
        path
            As for :meth:`from_documents`.
        where
            Restricts what is read, in the store's own filter language (:func:`~langchain_graphrag.read_store`).
        ids
            The documents to read; by default all.
        documents
            The documents of a store that cannot be read. They are embedded again.
        read
            A function for other stores. It gets the store and yields ``(id, text, metadata, vector)`` for each
            document; without a vector (None) the text is embedded.
        remove_missing
            True deletes documents from the index that were not read, except remembered facts.
        check_embedding
            True embeds one text and compares it with its vector, to find out if ``embedding`` is another model. By
            default a wrong dimension is reported by the first question.
        batch_size
            The number of documents in a request to the store, and in a transaction of the index.
        show_progress
            True or False to force a progress bar; None shows it on a terminal.
        llm, settings
            As for :meth:`from_documents`.

        Raises
        ------
        InputError
            The store cannot list its documents, or has no embedding model.
        EmbedderMismatch
            The vectors are not from this embedding model, or the index in ``path`` is not.
        """
        if settings.get("chunker") is not None:
            raise InputError("a vector of the store belongs to a whole document: remove chunker")
        model = embedding_of(store) if embedding is None else embedding
        stored = read_documents(store, where=where, ids=ids, documents=documents, read=read, batch_size=batch_size)
        options = {"batch_size": batch_size, "progress": show_progress, **settings, "chunker": None}
        retriever = cls._open(model, path, llm, options)
        try:
            copy_store(retriever.index, stored, remove_missing=remove_missing, check_embedding=check_embedding)
        except BaseException:
            retriever.close()
            raise
        return retriever

    @classmethod
    async def afrom_vectorstore(cls, store: VectorStore, embedding: Embedder | None = None, **settings: Any) -> Self:
        """Async version of :meth:`from_vectorstore`; the store is read in a thread."""
        return await run_in_executor(None, partial(cls.from_vectorstore, store, embedding, **settings))

    @classmethod
    def load(
        cls,
        path: str | Path | None = None,
        embedding: Embedder | None = _REQUIRED,
        *,
        persist_directory: str | Path | None = None,
        llm: Any = None,
        read_only: bool = False,
        **settings: Any,
    ) -> Self:
        """Return a retriever for the index in a folder or in PostgreSQL.

        Parameters
        ----------
        path, persist_directory
            The folder, or the address of a database, under either name.
        embedding
            The embedding model that built the index; another one is refused. None if it has no vectors.
        llm, settings
            As for :meth:`from_documents`; ``chunker``, ``extractor`` and ``llm`` apply to
            documents added from now on.
        read_only
            One process may write while any number read. A reader sees new documents after
            :meth:`refresh`, or by itself with ``refresh_every``.
        """
        folder = _one_folder(path, persist_directory)
        if folder is None or embedding is _REQUIRED:
            raise InputError("load needs the folder and the embedding model: load(path, embedding)")
        if not KnowledgeIndex.exists(folder):
            raise NotAnIndex(
                f"there is no index in {shown(folder)}: check the path, or use from_documents(..., path=...)"
            )
        return cls._open(embedding, folder, llm, {"read_only": read_only, **settings})

    @classmethod
    async def aload(
        cls, path: str | Path | None = None, embedding: Embedder | None = _REQUIRED, **settings: Any
    ) -> Self:
        """Async version of :meth:`load`."""
        return await run_in_executor(None, partial(cls.load, path, embedding, **settings))

    @classmethod
    def load_local(
        cls,
        folder_path: str | Path,
        embeddings: Embedder | None,
        *,
        allow_dangerous_deserialization: bool = False,  # noqa: ARG003 - no pickle is read
        **settings: Any,
    ) -> Self:
        """Return a retriever for the index in a folder: :meth:`load` under the name that FAISS stores have.

        ``allow_dangerous_deserialization`` has no effect: an index contains no pickle.
        """
        return cls.load(folder_path, embeddings, **settings)

    @classmethod
    async def aload_local(cls, folder_path: str | Path, embeddings: Embedder | None, **settings: Any) -> Self:
        """Async version of :meth:`load_local`."""
        return await run_in_executor(None, partial(cls.load_local, folder_path, embeddings, **settings))

    @classmethod
    def _open(cls, embedding: Any, path: str | Path | None, llm: Any, settings: Mapping[str, Any]) -> Self:
        if embedding is not None and not isinstance(embedding, Embedder):
            kind = type(embedding).__qualname__
            raise InputError(f"{kind} is not an embedding model: it needs embed_documents and embed_query")
        path = _one_folder(path, settings.get("persist_directory"))
        settings = {name: value for name, value in settings.items() if name != "persist_directory"}
        fields = {name: value for name, value in settings.items() if name in cls.model_fields}
        options = {name: value for name, value in settings.items() if name not in fields}
        options.setdefault("chunker", LongDocumentChunker())
        extractor = options.get("extractor")
        if llm is not None:
            if extractor is not None:
                raise InputError("pass either llm or extractor: extractor=llm_extractor(llm, ...) has both")
            extractor = llm_extractor(llm)
        options["extractor"] = StoredKnowledgeExtractor(extractor or SentenceExtractor())
        embedder = _CachedEmbeddings(embedding) if hasattr(embedding, "underlying_embeddings") else embedding
        index = KnowledgeIndex(embedder, **options) if path is None else KnowledgeIndex.open(path, embedder, **options)
        try:
            return cls(index=index, **fields)
        except BaseException:
            index.close()
            raise

    @classmethod
    def _from_core_documents(
        cls,
        documents: Sequence[graphrag_core.Document],
        embedding: Embedder | None,
        path: str | Path | None,
        llm: Any,
        settings: Mapping[str, Any],
    ) -> Self:
        retriever = cls._open(embedding, path, llm, settings)
        try:
            retriever._add(documents)  # noqa: SLF001 - our own
        except BaseException:
            retriever.close()
            raise
        return retriever

    # -- documents

    def add_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str | None] | None = None,
        embeddings: Iterable[Any] | None = None,
    ) -> list[str]:
        """Add documents, replace those with a known id, and return the ids of those added.

        A document without text is skipped, with a warning in the log. If its id is known, the earlier version is
        deleted.

        Parameters
        ----------
        documents
            What to add.
        ids
            Their ids, in place of ``Document.id``.
        embeddings
            Their vectors, computed by the retriever's embedding model: such a document is not embedded again and
            must not be split by a ``chunker``. None in place of a vector has the document embedded.
        """
        return self._add(*with_ids_and_vectors(documents, ids, embeddings))

    def _add(self, documents: Sequence[graphrag_core.Document], vectors: Mapping[str, Any] | None = None) -> list[str]:
        filled, blank = _without_blank(documents)
        self.index.add(filled, vectors=vectors)
        self._drop(blank)
        return [document.id for document in filled]

    def _drop(self, blank: Sequence[graphrag_core.Document]) -> None:
        """Delete earlier versions of documents that have no text any more, and log what was skipped."""
        if not blank:
            return
        deleted = self.index.delete([document.id for document in blank])
        named = ", ".join(_name(document) for document in blank[:_NAMED])
        more = f" and {len(blank) - _NAMED} more" if len(blank) > _NAMED else ""
        gone = f"; earlier versions of {deleted} of them were deleted" if deleted else ""
        _log.warning("%d documents without text were skipped: %s%s%s", len(blank), named, more, gone)

    async def aadd_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str | None] | None = None,
        embeddings: Iterable[Any] | None = None,
    ) -> list[str]:
        """Async version of :meth:`add_documents`; awaits the embedding model if it has its own coroutine."""
        return await self._aadd(*await run_in_executor(None, with_ids_and_vectors, documents, ids, embeddings))

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Iterable[Mapping[str, Any]] | None = None,
        ids: Iterable[str] | None = None,
        embeddings: Iterable[Any] | None = None,
    ) -> list[str]:
        """Add texts, replace those with a known id, and return the ids of all; see :meth:`add_documents`."""
        return self.add_documents(from_texts(texts, metadatas, ids), embeddings=embeddings)

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: Iterable[Mapping[str, Any]] | None = None,
        ids: Iterable[str] | None = None,
        embeddings: Iterable[Any] | None = None,
    ) -> list[str]:
        """Async version of :meth:`add_texts`."""
        return await self.aadd_documents(from_texts(texts, metadatas, ids), embeddings=embeddings)

    async def _aadd(
        self, documents: Sequence[graphrag_core.Document], vectors: Mapping[str, Any] | None = None
    ) -> list[str]:
        filled, blank = _without_blank(documents)
        size, given = self.index.batch_size, vectors or {}
        for batch in (filled[start : start + size] for start in range(0, len(filled), size)):
            embeddings = await self._aembed(batch, given) if self._has_coroutine("aembed_documents") else None
            await run_in_executor(None, self.index.add, batch, vectors=given, embeddings=embeddings)
        await run_in_executor(None, self._drop, blank)
        return [document.id for document in filled]

    def add_research_findings(self, findings: Any) -> list[str]:
        """Add papers and projects as documents with typed entities and facts; return their ids.

        ``findings`` is ``{"academic_papers": [...], "github_projects": [...]}``, or a list of such objects.
        """
        documents = research_documents(findings)
        self.index.add(documents)
        return [document.id for document in documents]

    async def aadd_research_findings(self, findings: Any) -> list[str]:
        """Async version of :meth:`add_research_findings`."""
        return await self._aadd(await run_in_executor(None, research_documents, findings))

    def add_graph_documents(self, graph_documents: Iterable[Any]) -> list[str]:
        """Add the sources of graph documents with their nodes and relationships; return their ids.

        The sources are not split, unless the retriever was given a chunker.
        """
        return self._add(from_graph_documents(graph_documents))

    async def aadd_graph_documents(self, graph_documents: Iterable[Any]) -> list[str]:
        """Async version of :meth:`add_graph_documents`."""
        return await self._aadd(await run_in_executor(None, from_graph_documents, graph_documents))

    @override
    def upsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
        """Add or replace documents, for LangChain's indexing API; those without text are among ``failed``."""
        documents = to_core_documents(items)
        return _upserted(documents, self._add(documents))

    @override
    async def aupsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
        """Async version of :meth:`upsert`."""
        documents = await run_in_executor(None, to_core_documents, items)
        return _upserted(documents, await self._aadd(documents))

    @override
    def delete(self, ids: str | Iterable[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Delete documents with their entities and facts; unknown ids, and those outside of ``filter``, are ignored."""
        if ids is None:
            raise InputError("pass the ids of the documents to delete: delete(ids)")
        known = self._in_scope([ids] if isinstance(ids, str) else list(ids))
        return DeleteResponse(num_deleted=self.index.delete(known), succeeded=known, num_failed=0, failed=[])

    @override
    async def adelete(self, ids: str | Iterable[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Async version of :meth:`delete`."""
        return await run_in_executor(None, self.delete, ids)

    @override
    def get(self, ids: Sequence[str], /, **kwargs: Any) -> list[Document]:
        """Return documents as they were added; unknown ids, and those outside of the :attr:`scope`, are ignored."""
        wanted = [ids] if isinstance(ids, str) else ids
        stored = (self.index.get(document_id) for document_id in self._in_scope(wanted))
        return [from_core_document(document) for document in stored if document is not None]

    def _in_scope(self, ids: Iterable[str]) -> list[str]:
        """Return the ids of documents that exist and match the retriever's filters, in the order given."""
        wanted = list(dict.fromkeys(ids))
        scope = self.scope
        if scope is None:
            return [document_id for document_id in wanted if document_id in self.index]
        found = set(self.index.document_ids(parse_all(scope, {DOCUMENT_ID: {"in": wanted}})))
        return [document_id for document_id in wanted if document_id in found]

    def refresh(self) -> bool:
        """Let a read-only retriever see what another process wrote since; return whether anything was."""
        return self._core.refresh()

    async def arefresh(self) -> bool:
        """Async version of :meth:`refresh`."""
        return await run_in_executor(None, self.refresh)

    def close(self) -> None:
        """Save and close the index. Closing twice does nothing."""
        self.index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # -- queries

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, filter: Filter | None = None, **settings: Any
    ) -> list[Document]:
        with compressor_callbacks(run_manager.get_child()):
            return search_now(partial(self._search, query, parse_all(filter), settings))

    @override
    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        filter: Filter | None = None,
        **settings: Any,
    ) -> list[Document]:
        scope = parse_all(filter)  # once: a reranker may run the search again
        embedding = await self._aquery_vector(query, settings)
        search = partial(self._search, query, scope, settings, embedding)
        with compressor_callbacks(run_manager.get_sync().get_child(), run_manager.get_child()):
            return await search_awaiting(lambda: run_in_executor(None, search))

    def _search(
        self, query: str, call_filter: Filter | None, settings: Mapping[str, Any], embedding: Any = None
    ) -> RetrievedDocuments:
        where = parse_all(self.scope, call_filter)
        search = Search.of(self.k, self.search_type, self.search_kwargs, settings)
        result = self._core.retrieve(query, where=where, embedding=embedding, **search.core)
        if search.lambda_mult is not None:
            result = most_diverse(self.index, result, search.k, search.lambda_mult)
        return RetrievedDocuments(result)

    def ask(
        self,
        question: str,
        llm: Any = None,
        *,
        filter: Filter | None = None,  # noqa: A002 - LangChain's word
        max_tokens: int = MAX_TOKENS,
        **settings: Any,
    ) -> Answer:
        """Answer a question from the documents, with numbered citations.

        Parameters
        ----------
        question
            The question.
        llm
            A LangChain chat model, LLM or chain; or what :meth:`graphrag_core.GraphRetriever.ask` takes, such as
            ``"http://localhost:11434/v1/llama3.1"``. Without one, the answer consists of sentences of the documents.
        filter
            Narrows the retriever's filter.
        max_tokens
            The budget of the passages in the prompt.
        settings
            Those of ``invoke``: ``k``, ``method``, ``seed_entities``, ...

        Returns
        -------
        graphrag_core.Answer
            The text, and the passages that it cites.
        """
        scope = parse_all(filter)
        result = search_now(partial(self._search, question, scope, settings)).result
        where = parse_all(self.scope, scope)
        with self._core.answer_from(result, to_chat_model(llm), where=where, max_tokens=max_tokens) as stream:
            return stream.answer

    async def aask(
        self,
        question: str,
        llm: Any = None,
        *,
        filter: Filter | None = None,  # noqa: A002 - LangChain's word
        max_tokens: int = MAX_TOKENS,
        **settings: Any,
    ) -> Answer:
        """Async version of :meth:`ask`: embeds on the event loop, and reads the model in a thread.

        Cancelling it ends the answer of the model at its next piece.
        """
        scope = parse_all(filter)
        embedding = await self._aquery_vector(question, settings)
        search = partial(self._search, question, scope, settings, embedding)
        found = await search_awaiting(lambda: run_in_executor(None, search))
        where = parse_all(self.scope, scope)
        stream = self._core.answer_from(found.result, to_chat_model(llm), where=where, max_tokens=max_tokens)
        with stream:
            return await run_in_executor(None, lambda: stream.answer)

    @property
    def scope(self) -> Filter | None:
        """What restricts every query: ``filter``, and the filter in ``search_kwargs``; None if nothing does."""
        if "filter" in self.search_kwargs:
            self.search_kwargs["filter"] = _with_lists(self.search_kwargs["filter"])  # it may have been put there since
        return parse_all(self.filter, self.search_kwargs.get("filter"))

    def as_vectorstore(self) -> GraphRAGVectorStore:
        """Return a LangChain ``VectorStore`` over the same index, for what asks for one.

        Such are ``ParentDocumentRetriever``, ``SelfQueryRetriever`` and ``as_retriever(search_type="mmr")``. Its
        searches use this retriever's method, filter and settings.
        """
        from langchain_graphrag.vectorstore import GraphRAGVectorStore  # noqa: PLC0415 - it imports this module

        return GraphRAGVectorStore(self)

    def facts_about(self, texts: Iterable[str]) -> list[str]:
        """Return facts that join two names in some texts, within the retriever's :attr:`scope`."""
        return [fact.text for fact in self._core.facts_about(texts, where=self.scope)]

    def warm(self, questions: Iterable[str] | int = 10, *, background: bool = False) -> int | Future[int]:
        """Run questions in advance to fill the cache, within the retriever's :attr:`scope`; return how many.

        Parameters
        ----------
        questions
            An integer uses the names of that many of the most frequent entities. No access of a fact is counted.
        background
            True runs them in a thread and returns a ``Future`` of the number.
        """
        return self._core.warm(questions, background=background, where=self.scope)

    async def awarm(self, questions: Iterable[str]) -> int:
        """Run questions in advance as :meth:`ainvoke` would, which may embed them by another way; return how many."""
        return len([await self.ainvoke(question, count_access=False) for question in questions])

    @override
    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        if self.index.embedding is not None:
            params["ls_embedding_provider"] = type(self._embeddings).__name__
            params["ls_embedding_model"] = self.index.embedding.identity
        return params

    # -- embeddings on the event loop

    @property
    def _embeddings(self) -> Any:
        """The embedding model as the user passed it, or None."""
        embedder = self.index.embedding.embedder if self.index.embedding else None
        return embedder.embeddings if isinstance(embedder, _CachedEmbeddings) else embedder

    def _has_coroutine(self, method: str) -> bool:
        """Whether the embedding model implements a coroutine; LangChain's default uses a thread."""
        implemented = getattr(type(self._embeddings), method, None)
        return implemented is not None and implemented is not getattr(Embeddings, method)

    async def _aembed(self, documents: Sequence[graphrag_core.Document], vectors: Mapping[str, Any]) -> dict[str, Any]:
        """Return vectors for the texts that adding documents, with vectors for some, would embed."""
        texts = await run_in_executor(None, self.index.to_embed, documents, vectors)
        if not texts:
            return {}
        try:
            vectors = await self._embeddings.aembed_documents(texts)
            return dict(zip(texts, vectors, strict=True))
        except Exception as error:
            kind, name = type(error).__name__, type(self._embeddings).__qualname__
            raise embedder_error(
                f"{name} raised {kind} on {len(texts)} texts, the first of document {documents[0].id!r}: {error}", error
            ) from error

    def _embed_query(self, query: str) -> Any:
        """Return the query's vector, or the exception if there is none."""
        try:
            return self.index.embedding.query(query) if self.index.embedding else None
        except EmbedderError as error:
            return error

    async def _aquery_vector(self, query: str, settings: Mapping[str, Any]) -> Any:
        """Return the vector of a search's query or the exception; None if the search needs none, or embeds itself."""
        method = settings.get("method") or self.search_kwargs.get("method") or self.method
        if method == "keyword" or (isinstance(query, str) and not query.strip()):
            return None
        if self._has_coroutine("aembed_query"):
            return await self._aembed_query(query)
        if isinstance(self._core.settings.reranker, ScoreReranker):  # the search may run twice
            return await run_in_executor(None, self._embed_query, query)
        return None

    async def _aembed_query(self, query: str) -> Any:
        """Return the query's vector, or the exception if there is none that the index can use."""
        dim = self.index.embedding.dim if self.index.embedding else None
        try:
            vector = np.asarray(await self._embeddings.aembed_query(query), np.float32)
        except Exception as error:  # noqa: BLE001 - the core raises it, or falls back to keywords
            return error
        if vector.ndim != 1 or vector.size != (dim or vector.size) or not np.isfinite(vector).all():
            return EmbedderError(
                f"expected {dim or 'some'} finite numbers, got a vector of dimension {vector.size}: "
                "use the embedding model that built the index"
            )
        return vector


class _CachedEmbeddings:
    """Embeddings with a cache (``CacheBackedEmbeddings``) under the identity of the cached model.

    An index built with a model can be opened with a cached version of it, and the other way round.
    """

    def __init__(self, embeddings: Any) -> None:
        model = embeddings.underlying_embeddings
        self.embeddings = embeddings
        self.embed_documents = embeddings.embed_documents
        self.embed_query = embeddings.embed_query
        self.identity = identity_of(model)
        self.embedded = bool(getattr(model, "embedded", False))
        self.local = bool(getattr(model, "local", False))


def _without_blank(
    documents: Sequence[graphrag_core.Document],
) -> tuple[list[graphrag_core.Document], list[graphrag_core.Document]]:
    """Return the documents that have text, and those that have none."""
    filled = [document for document in documents if document.text.strip()]
    return filled, [document for document in documents if not document.text.strip()]


def _name(document: graphrag_core.Document) -> str:
    source, page = document.metadata.get("source"), document.metadata.get("page")
    where = [str(source)] * (source is not None) + [f"page {page}"] * (page is not None)
    return f"{document.id!r} ({', '.join(where)})" if where else repr(document.id)


def _upserted(documents: Sequence[graphrag_core.Document], added: list[str]) -> UpsertResponse:
    return UpsertResponse(succeeded=added, failed=[document.id for document in _without_blank(documents)[1]])


def _with_lists(setting: Any) -> Any:
    """Copy a filter or settings with lists for iterables: a generator would be empty in the second query."""
    if isinstance(setting, Mapping):
        return {key: _with_lists(value) for key, value in setting.items()}
    if isinstance(setting, Iterable) and not isinstance(setting, (str, bytes)):
        return [_with_lists(value) for value in setting]
    return setting


def _one_folder(path: str | Path | None, persist_directory: str | Path | None) -> str | Path | None:
    if path is not None and persist_directory is not None:
        raise InputError("path and persist_directory are two names of one setting: pass one of them")
    return persist_directory if path is None else path
