"""``GraphRAGRetriever``: the core's index and retriever behind LangChain's interfaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing.base import DeleteResponse, DocumentIndex, UpsertResponse
from langchain_core.retrievers import LangSmithRetrieverParams
from langchain_core.runnables.config import run_in_executor
from pydantic import ConfigDict, Field, PrivateAttr, field_validator
from typing_extensions import Self, override

import graphrag_core
from graphrag_core import (
    Cache,
    Gate,
    GraphRetriever,
    KnowledgeIndex,
    Recogniser,
    Router,
    ScoreReranker,
    SentenceExtractor,
)
from graphrag_core.errors import EmbedderError, InputError, NotAnIndex
from graphrag_core.ingest.embedding import identity_of
from graphrag_core.ingest.told_facts import Time
from graphrag_core.ports import Embedder
from graphrag_core.research import research_documents
from langchain_graphrag.documents import RetrievedDocuments, from_core_document, from_texts, to_core_documents
from langchain_graphrag.extraction import StoredKnowledgeExtractor, from_graph_documents, llm_extractor
from langchain_graphrag.rerank import arun_search, run_search, to_reranker

Filter = Mapping[str, Any]
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
)


class GraphRAGRetriever(DocumentIndex):
    """Retrieves documents by vector, keyword and knowledge graph, with the reason for each.

    Create one with :meth:`from_documents`, :meth:`from_texts`, :meth:`from_graph_documents` or
    :meth:`load`, or pass an existing ``index``. It is safe to use from many threads and tasks
    at once; each query sees one consistent state of the index. It is also a LangChain
    ``DocumentIndex``, so ``langchain_core.indexing.index`` can sync it with a source.

    Parameters
    ----------
    index
        The index to search.
    k
        The number of documents to return.
    method
        ``"hybrid"``, ``"vector"``, ``"keyword"``, ``"graph"`` or ``"agentic"``.
    filter
        Restricts every query to matching documents. A filter passed with a call narrows it further.
    graph, fusion, gate, recogniser, router, candidates, vector_weight, text_weight, inverses
        Settings of :class:`graphrag_core.GraphRetriever`; None for the core's defaults.
    reranker
        True for the core's default, False for none, a reranker of the core such as ``CrossEncoder(folder)``, or a
        LangChain ``BaseDocumentCompressor`` such as ``CrossEncoderReranker``
        (:func:`~langchain_graphrag.compressor_reranker`).
    cache
        Caches results; by default each retriever has its own. None or False for no cache.

    Notes
    -----
    ``invoke``, ``ainvoke``, ``batch`` and ``abatch`` take ``k``, ``method``, ``filter``,
    ``use_graph``, ``min_graph_score``, ``min_score``, ``min_confidence``, ``as_of`` and ``count_access``. A filter
    maps metadata keys to values or operators: ``{"tenant": "acme", "year": {"$gte": 2020}}``.

    A document is returned with the id and the metadata it was added with, its score in
    ``metadata["score"]`` and everything else about the hit in ``metadata["graphrag"]``. If its
    own metadata uses one of these two keys, that value is in ``metadata["graphrag"]["own"]``;
    ``filter`` and :meth:`get` see it in its original place. When a retrieved document is added
    again, these additions are removed first.

    With a ``chunker``, passages are returned: their id is ``"<document id>#<number>"``, and
    ``metadata["graphrag"]["document_id"]`` is the id for :meth:`delete` and :meth:`get`.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    index: KnowledgeIndex
    k: int = 5
    method: str = "hybrid"
    filter: Filter | None = None
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

    _core: GraphRetriever = PrivateAttr()
    _reusable_filter: Any = PrivateAttr(default=None)  # ``filter`` without one-shot iterables

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
        if name in _CORE_FIELDS:  # raises before anything is changed
            super().__setattr__("_core", self._make_core(**{name: value}))
        elif name == "filter":
            super().__setattr__("_reusable_filter", _with_lists(value))
        super().__setattr__(name, value)

    @override
    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some fields changed; it searches the same index."""
        copied = super().model_copy(update=update, deep=deep)
        copied._configure()  # noqa: SLF001 - pydantic updates fields of a copy without assigning them
        return copied

    def _configure(self) -> None:
        self._core = self._make_core()
        self._reusable_filter = _with_lists(self.filter)

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
            They are not split unless a ``chunker`` is given. A document without an id gets one
            from its content.
        embedding
            Any LangChain ``Embeddings``, or an embedder of the core such as ``WordLlama()``. None for an
            index without vectors, which serves keyword and graph search and needs no model.
        path
            A folder for the index. It is created if absent; an existing index is extended.
            None keeps the index in memory.
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
        return cls._from_core_documents(from_graph_documents(graph_documents), embedding, path, None, settings)

    @classmethod
    def load(
        cls, path: str | Path, embedding: Embedder | None, *, llm: Any = None, read_only: bool = False, **settings: Any
    ) -> Self:
        """Return a retriever for the index in a folder.

        Parameters
        ----------
        path
            The folder.
        embedding
            The embedding model that built the index; another one is refused. None if it has no vectors.
        llm, settings
            As for :meth:`from_documents`; ``chunker``, ``extractor`` and ``llm`` apply to
            documents added from now on.
        read_only
            One process may write while any number read. A reader sees new documents after
            ``index.refresh()``.
        """
        if not KnowledgeIndex.exists(path):
            raise NotAnIndex(f"there is no index in {path}: check the path, or use from_documents(..., path=...)")
        return cls._open(embedding, path, llm, {"read_only": read_only, **settings})

    @classmethod
    def _open(cls, embedding: Any, path: str | Path | None, llm: Any, settings: Mapping[str, Any]) -> Self:
        if embedding is not None and not isinstance(embedding, Embedder):
            kind = type(embedding).__qualname__
            raise InputError(f"{kind} is not an embedding model: it needs embed_documents and embed_query")
        fields = {name: value for name, value in settings.items() if name in cls.model_fields}
        options = {"chunker": None, **{name: value for name, value in settings.items() if name not in fields}}
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
            retriever.index.add(documents)
        except BaseException:
            retriever.close()
            raise
        return retriever

    # -- documents

    def add_documents(self, documents: Iterable[Document]) -> list[str]:
        """Add documents, replace those with a known id, and return the ids of all."""
        converted = to_core_documents(documents)
        self.index.add(converted)
        return [document.id for document in converted]

    async def aadd_documents(self, documents: Iterable[Document]) -> list[str]:
        """Async version of :meth:`add_documents`; awaits the embedding model if it has its own coroutine."""
        return await self._aadd(await run_in_executor(None, to_core_documents, documents))

    async def _aadd(self, documents: Sequence[graphrag_core.Document]) -> list[str]:
        size = self.index.batch_size
        for batch in (documents[start : start + size] for start in range(0, len(documents), size)):
            embeddings = await self._aembed(batch) if self._has_coroutine("aembed_documents") else None
            await run_in_executor(None, self.index.add, batch, embeddings=embeddings)
        return [document.id for document in documents]

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
        """Add the sources of graph documents with their nodes and relationships; return their ids."""
        converted = from_graph_documents(graph_documents)
        self.index.add(converted)
        return [document.id for document in converted]

    @override
    def upsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
        """Add or replace documents, for LangChain's indexing API."""
        return UpsertResponse(succeeded=self.add_documents(items), failed=[])

    @override
    async def aupsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
        """Async version of :meth:`upsert`."""
        return UpsertResponse(succeeded=await self.aadd_documents(items), failed=[])

    @override
    def delete(self, ids: str | Iterable[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Delete documents with their entities and facts; unknown ids are ignored."""
        if ids is None:
            raise InputError("pass the ids of the documents to delete: delete(ids)")
        wanted = [ids] if isinstance(ids, str) else list(ids)
        known = [document_id for document_id in dict.fromkeys(wanted) if document_id in self.index]
        return DeleteResponse(num_deleted=self.index.delete(known), succeeded=known, num_failed=0, failed=[])

    @override
    async def adelete(self, ids: str | Iterable[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Async version of :meth:`delete`."""
        return await run_in_executor(None, self.delete, ids)

    @override
    def get(self, ids: Sequence[str], /, **kwargs: Any) -> list[Document]:
        """Return documents as they were added; unknown ids are ignored."""
        stored = (self.index.get(document_id) for document_id in dict.fromkeys(ids))
        return [from_core_document(document) for document in stored if document is not None]

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
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        method: str | None = None,
        filter: Filter | None = None,
        use_graph: bool = True,
        min_graph_score: float | None = None,
        min_score: float | None = None,
        min_confidence: float | None = None,
        as_of: Time | None = None,
        count_access: bool = True,
    ) -> list[Document]:
        thresholds = {"min_graph_score": min_graph_score, "min_score": min_score, "min_confidence": min_confidence}
        time = {"as_of": as_of, "count_access": count_access}
        search = partial(self._search, query, k, method, filter, use_graph, thresholds, **time)
        return run_search(search, run_manager.get_child())

    @override
    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        method: str | None = None,
        filter: Filter | None = None,
        use_graph: bool = True,
        min_graph_score: float | None = None,
        min_score: float | None = None,
        min_confidence: float | None = None,
        as_of: Time | None = None,
        count_access: bool = True,
    ) -> list[Document]:
        embedding = None
        if (method or self.method) != "keyword":
            if self._has_coroutine("aembed_query"):
                embedding = await self._aembed_query(query)
            elif isinstance(self._core.reranker, ScoreReranker):  # the search may run twice
                embedding = await run_in_executor(None, self._embed_query, query)
        thresholds = {"min_graph_score": min_graph_score, "min_score": min_score, "min_confidence": min_confidence}
        time = {"as_of": as_of, "count_access": count_access}
        search = partial(self._search, query, k, method, filter, use_graph, thresholds, embedding, **time)
        sync_callbacks = run_manager.get_sync().get_child()
        return await arun_search(lambda: run_in_executor(None, search), run_manager.get_child(), sync_callbacks)

    def _search(
        self,
        query: str,
        k: int | None,
        method: Any,
        call_filter: Filter | None,
        use_graph: bool,
        thresholds: Mapping[str, Any],
        embedding: Any = None,
        **time: Any,
    ) -> RetrievedDocuments:
        filters = [one for one in (self._reusable_filter, call_filter) if one is not None]
        where = {"and": filters} if len(filters) > 1 else filters[0] if filters else None
        return RetrievedDocuments(
            self._core.retrieve(
                query,
                k=k,
                method=method,
                where=where,
                use_graph=use_graph,
                embedding=embedding,
                **thresholds,
                **time,
            )
        )

    def warm(self, questions: Iterable[str] | int = 10, *, background: bool = False) -> int | Future[int]:
        """Run questions in advance to fill the cache, with the retriever's filter; return how many.

        Parameters
        ----------
        questions
            An integer uses the names of that many of the most frequent entities. No access of a fact is counted.
        background
            True runs them in a thread and returns a ``Future`` of the number.
        """
        return self._core.warm(questions, background=background, where=self._reusable_filter)

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

    async def _aembed(self, documents: Sequence[graphrag_core.Document]) -> dict[str, Any]:
        """Return vectors for the texts that adding documents would embed."""
        texts = await run_in_executor(None, self.index.to_embed, documents)
        if not texts:
            return {}
        try:
            vectors = await self._embeddings.aembed_documents(texts)
            return dict(zip(texts, vectors, strict=True))
        except Exception as error:
            kind, name = type(error).__name__, type(self._embeddings).__qualname__
            raise EmbedderError(
                f"{name} raised {kind} on {len(texts)} texts, the first of document {documents[0].id!r}: {error}"
            ) from error

    def _embed_query(self, query: str) -> Any:
        """Return the query's vector, or the exception if there is none."""
        try:
            return self.index.embedding.query(query) if self.index.embedding else None
        except EmbedderError as error:
            return error

    async def _aembed_query(self, query: str) -> Any:
        """Return the query's vector, or the exception if there is none that the index can use."""
        dim = self.index.embedding.dim if self.index.embedding else None
        try:
            vector = np.asarray(await self._embeddings.aembed_query(query), np.float32)
        except Exception as error:  # noqa: BLE001 - the core falls back to keywords
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


def _with_lists(condition: Any) -> Any:
    """Copy a filter with lists for iterables: a generator would be empty, and match all, in the second query."""
    if isinstance(condition, Mapping):
        return {key: _with_lists(value) for key, value in condition.items()}
    if isinstance(condition, Iterable) and not isinstance(condition, (str, bytes)):
        return [_with_lists(value) for value in condition]
    return condition
