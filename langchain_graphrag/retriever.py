"""``GraphRAGRetriever``: the core's index and retriever behind LangChain's interfaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing.base import DeleteResponse, DocumentIndex, UpsertResponse
from langchain_core.messages import BaseMessage
from langchain_core.retrievers import LangSmithRetrieverParams
from langchain_core.runnables import (
    ConfigurableFieldSpec,
    Runnable,
    RunnableBinding,
    RunnableConfig,
    RunnableSerializable,
)
from langchain_core.runnables.config import run_in_executor
from langchain_core.runnables.configurable import RunnableConfigurableFields
from langchain_core.runnables.utils import AnyConfigurableField
from langchain_core.vectorstores import VectorStore
from pydantic import ConfigDict, Field, PrivateAttr
from typing_extensions import Self, Unpack, override

import graphrag_core
from graphrag_core import Cache, GraphRetriever, KnowledgeIndex, SearchSettings
from graphrag_core.adapter import (
    AdapterRetriever,
    Options,
    changed_settings,
    checked_names,
    closed_on_error,
    open_index,
    overrides,
    to_history,
)
from graphrag_core.errors import InputError, unknown_name
from graphrag_core.filters import Filter, Where, parse_all
from graphrag_core.ports import Embedder
from graphrag_core.query.plan import Plan
from langchain_graphrag.documents import (
    LongDocumentChunker,
    from_texts,
    message_text,
    to_core_documents,
    to_document,
    to_documents,
    with_vectors,
)
from langchain_graphrag.rerank import CALLBACKS, compressor_reranker, diverse
from langchain_graphrag.stores import ReadRows, copy_store, embedding_of, store_rows

_SETTINGS = SearchSettings.__dataclass_fields__
_FILTERS = ("filter", "where")  # arguments that narrow the scope
_SEARCH_TYPES = ("similarity", "mmr", "similarity_score_threshold")


class RetrieverOptions(Options, total=False):
    """Keywords of the constructors of :class:`GraphRAGRetriever`."""

    search_kwargs: dict[str, Any]
    name: str | None
    tags: list[str] | None
    metadata: dict[str, Any] | None


class NewOptions(RetrieverOptions, total=False):
    """Keywords of the constructors that create an index."""

    path: str | Path | None


class GraphRAGRetriever(AdapterRetriever, DocumentIndex):
    """Retrieves documents by vector, keyword and knowledge graph, with the reason for each.

    Create one with :meth:`from_documents` or another constructor, or pass an existing ``index``. It is safe to use from
    many threads and tasks at once. It is a LangChain ``DocumentIndex``, so ``langchain_core.indexing.index`` can sync
    it with a source.

    Parameters
    ----------
    index
        The index to search.
    settings
        The settings of every question (:class:`graphrag_core.SearchSettings`). Its fields are keywords too:
        ``GraphRAGRetriever(index=index, k=10, method="keyword")``. ``reranker`` may be a LangChain
        ``BaseDocumentCompressor`` (:func:`~langchain_graphrag.compressor_reranker`).
        To change settings, make another retriever of the same index: ``retriever.model_copy(update={"k": 10})``.
    filter
        Restricts every query, :meth:`get` and :meth:`delete` to matching documents. Filters narrow: one of a call, of
        ``search_kwargs``, :meth:`with_filter`, :meth:`bind`, :meth:`model_copy` or a configuration is joined to it by
        AND. It is read once: changing the mapping later has no effect.
    search_type
        ``"similarity"``, ``"mmr"`` for diverse documents (maximal marginal relevance), or
        ``"similarity_score_threshold"``, which needs a ``score_threshold`` in ``search_kwargs``.
    search_kwargs
        Settings of every call, as LangChain's vector store retrievers have them: ``k``, ``filter``, ``fetch_k`` and
        ``lambda_mult`` (for ``"mmr"``), and the others that ``invoke`` takes. They override ``settings``, and a call
        overrides them. A filter among them becomes part of ``filter``.
    add_metadata
        What is added to the metadata of a retrieved document, unless it has such a key itself: ``"section"``,
        ``"page"``, ``"document_id"``, ``"score"``, ``"channels"``, ``"path"`` and ``"graphrag"`` (everything).
    cache, refresh_every
        As for :class:`graphrag_core.GraphRetriever`.

    Notes
    -----
    ``invoke``, ``ainvoke``, ``batch`` and ``abatch`` take the fields of ``settings``, the arguments of
    :meth:`graphrag_core.GraphRetriever.retrieve` (``as_of``, ``count_access``, and ``history``, also of
    LangChain messages), ``filter``, ``search_type``, ``fetch_k`` and ``lambda_mult``. A filter
    maps metadata keys to values or operators: ``{"tenant": "acme", "year": {"$gte": 2020}}``.

    A document is returned with its id, its metadata, and what ``add_metadata`` names. One of more than 512 tokens is
    split into passages, unless ``chunker=None``. Their id is ``"<document id>#<number>"``, and
    ``metadata["document_id"]`` is the id for :meth:`delete` and :meth:`get`.

    A retriever with a ``path`` can be pickled and deep-copied, as :class:`graphrag_core.KnowledgeIndex` says.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    index: KnowledgeIndex = Field(frozen=True)
    settings: Any = Field(default_factory=SearchSettings, frozen=True, repr=False)
    filter: Any = Field(default=None, frozen=True)
    search_type: str = Field(default="similarity", frozen=True)
    search_kwargs: dict[str, Any] = Field(default_factory=dict, frozen=True)
    add_metadata: tuple[str, ...] = Field(default=("section", "page"), frozen=True)
    cache: Cache | None = Field(default=None, frozen=True)
    refresh_every: float | None = Field(default=None, frozen=True)

    _core: GraphRetriever = PrivateAttr()

    def __init__(self, **fields: Any) -> None:
        given = {name: fields.pop(name) for name in type(self).model_fields if name in fields}
        kwargs = dict(given.get("search_kwargs") or {})
        given["filter"] = parse_all(given.get("filter"), _take_filter(kwargs))  # read once
        given["search_kwargs"] = {name: value for name, value in kwargs.items() if value is not None}
        given["add_metadata"] = checked_names(given.get("add_metadata", ("section", "page")))
        settings, cache = given.get("settings") or SearchSettings(), given.get("cache", True)
        fields["reranker"] = _to_reranker(fields.get("reranker"))
        index: Any = given.get("index")  # checked below
        core = GraphRetriever(index, settings, cache=cache, refresh_every=given.get("refresh_every"), **fields)
        super().__init__(**{**given, "settings": core.settings, "cache": core.cache})
        self._core = core
        self._plan("", {})  # raises now instead of in the first query

    @override
    def __repr_args__(self) -> Any:
        shown = {name: value for name, value in super().__repr_args__() if name != "cache" and value != {}}
        no_cache = {"cache": None} if self.cache is None else {}
        return list({**shown, **no_cache, **changed_settings(self.settings)}.items())

    @override
    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other parameters, such as ``k``, of the same index; a filter narrows this one's."""
        if not update:
            return super().model_copy(deep=deep)
        fields = {name: getattr(self, name) for name in type(self).model_fields} | dict(update)
        copied = type(self)(**{**fields, "filter": parse_all(self.scope, update.get("filter"))})
        return deepcopy(copied) if deep else copied

    @override
    def copy(self, **options: Any) -> Self:
        """Return :meth:`model_copy`: the older name of Pydantic."""
        if parts := options.keys() - {"update", "deep"}:
            raise InputError(f"a copy has no part of a retriever: remove {', '.join(sorted(parts))}")
        return self.model_copy(**options)

    def with_filter(self, filter: Where | None) -> Self:  # noqa: A002 - LangChain's word
        """Return this retriever restricted further, such as to a tenant; it shares the index and the cache."""
        return self.model_copy(update={"filter": filter})

    @override
    def bind(self, **kwargs: Any) -> Runnable[str, list[Document]]:
        """Return this retriever with arguments of each call, as LangChain's ``Runnable`` does; a filter narrows it."""
        return _BoundRetriever(bound=self.with_filter(_take_filter(kwargs)), kwargs=kwargs)

    @override
    def configurable_fields(self, **kwargs: AnyConfigurableField) -> RunnableSerializable[str, list[Document]]:
        """Let the configuration of a call set parameters and fields of ``settings``; a filter narrows the retriever's.

        ``retriever.configurable_fields(k=ConfigurableField(id="k"))`` takes ``k`` from
        ``invoke(query, {"configurable": {"k": 2}})``.
        """
        known = [*type(self).model_fields, *_SETTINGS]
        for name in kwargs:
            if name not in known:
                raise InputError(unknown_name(name, known, "configurable field"))
        return _ConfigurableRetriever(default=self, fields=kwargs)

    # -- constructors

    @classmethod
    def from_documents(
        cls, documents: Iterable[Document], embedding: Embedder | None, **settings: Unpack[NewOptions]
    ) -> Self:
        """Index documents and return a retriever for them.

        With an embedding model that is awaited, start from no documents and await :meth:`aadd_documents`.

        Parameters
        ----------
        documents
            Long documents are split into passages; ``chunker=None`` keeps them whole. A document without an id gets one
            from its content. One without text is skipped.
        embedding
            Any LangChain ``Embeddings``, or an embedder of the core such as ``WordLlama()``. None for an
            index without vectors.
        settings
            Parameters of this class (``settings``, ``k``, ``filter``, ``tags``, ...) and settings of
            :class:`graphrag_core.KnowledgeIndex` (``chunker``, ``extractor``, ``embed_names``, ...). ``path`` is a
            folder or a database for the index (:meth:`graphrag_core.KnowledgeIndex.open`), which is extended if it
            exists; without it the index is in memory. ``llm`` is a chat model that extracts entities and relations
            from every passage, too (:func:`~langchain_graphrag.llm_extractor` has its settings).
        """
        retriever = cls._open(embedding, **settings)
        with closed_on_error(retriever):
            retriever.add_documents(documents)
        return retriever

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: Embedder | None,
        metadatas: Iterable[Mapping[str, Any]] | None = None,
        ids: Iterable[str] | None = None,
        **settings: Unpack[NewOptions],
    ) -> Self:
        """Index texts and return a retriever for them; ``settings`` as for :meth:`from_documents`."""
        return cls.from_documents(from_texts(texts, metadatas, ids), embedding, **settings)

    @classmethod
    def from_graph_documents(
        cls, graph_documents: Iterable[Any], embedding: Embedder | None, **settings: Unpack[NewOptions]
    ) -> Self:
        """Index the sources of graph documents with their nodes and relationships.

        Takes what LangChain's ``LLMGraphTransformer`` returns: objects with ``nodes``, ``relationships`` and
        ``source``. Each node becomes a typed entity and each relationship a fact of its source, in addition to what is
        extracted from the text. The sources are not split. ``settings`` as for :meth:`from_documents`.
        """
        retriever = cls._open(embedding, **_unsplit(settings))
        with closed_on_error(retriever):
            retriever.add_graph_documents(graph_documents)
        return retriever

    @classmethod
    def from_vectorstore(
        cls,
        store: VectorStore,
        embedding: Embedder | None = None,
        *,
        where: Any = None,
        ids: Iterable[Any] | None = None,
        read: ReadRows | None = None,
        remove_missing: bool = False,
        **settings: Unpack[NewOptions],
    ) -> Self:
        """Return a retriever for the documents of a vector store, with the vectors that the store has.

        Reads Chroma, FAISS, Qdrant, PGVector, PGVectorStore and InMemoryVectorStore. No document is embedded
        again or split, and the store is not changed. Called again with the same ``path``, it adds what changed.

        Parameters
        ----------
        store
            The store.
        embedding
            The model that computed the vectors; by default the store's own. It embeds the questions: a wrong dimension
            is reported by the first one.
        where, ids
            What is read, by default all: a filter in the store's own language (docs/stores.md), or ids.
        read
            A function for other stores. It gets the store and yields ``(id, text, metadata, vector)`` for each
            document; without a vector (None) the text is embedded.
        remove_missing
            True deletes documents from the index that were not read, except remembered facts.
        settings
            As for :meth:`from_documents`. ``batch_size`` (1,000) is also the size of a request to the store,
            and ``progress`` forces a progress bar, or none; by default a terminal shows one.
        """
        if not isinstance(store, VectorStore):
            raise InputError(f"from_vectorstore takes a LangChain VectorStore, not {type(store).__qualname__}")
        model = embedding_of(store) if embedding is None else embedding
        rows = store_rows(store, where, ids, read, settings.get("batch_size", 1_000))
        retriever = cls._open(model, **_unsplit(settings))
        with closed_on_error(retriever):
            copy_store(retriever.index, rows, remove_missing=remove_missing)
        return retriever

    @classmethod
    def load(cls, path: str | Path, embedding: Embedder | None, **settings: Unpack[RetrieverOptions]) -> Self:
        """Return a retriever for the index in a folder, or at the address of a PostgreSQL database.

        ``embedding`` is the model that built the index; another one is refused. None if it has no vectors. ``settings``
        as for :meth:`from_documents`; ``chunker``, ``extractor`` and ``llm`` apply to documents added from now on. And
        ``read_only``, True if another process writes (:meth:`graphrag_core.KnowledgeIndex.open`).
        """
        return cls._open(embedding, path, must_exist=True, **settings)

    @classmethod
    def _open(
        cls, embedding: Any, path: Any = None, *, must_exist: bool = False, llm: Any = None, **settings: Any
    ) -> Self:
        """Return a retriever of the index in a folder, or of a new one in memory."""
        from langchain_graphrag.extraction import StoredKnowledgeExtractor, llm_extractor  # noqa: PLC0415 - slow

        extractor = settings.get("extractor")
        if llm is not None and extractor is not None:
            raise InputError("pass either llm or extractor: extractor=llm_extractor(llm, ...) has both")
        settings["extractor"] = StoredKnowledgeExtractor(extractor if llm is None else llm_extractor(llm))
        settings.setdefault("chunker", LongDocumentChunker())
        index, fields = open_index(embedding, path, settings, must_exist=must_exist)
        with closed_on_error(index):
            return cls(index=index, **fields)

    # -- documents

    def add_documents(
        self,
        documents: Iterable[Document],
        *,
        ids: Iterable[str | None] | None = None,
        embeddings: Iterable[Any] | None = None,
    ) -> list[str]:
        """Add documents, replace those with a known id, and return the ids of those added.

        A document without text is skipped, and an earlier version of it deleted, with a warning in the log. ``ids``
        replace ``Document.id``. ``embeddings`` are vectors computed by the retriever's embedding model, or None for a
        document to embed: one with a vector is not embedded again and must not be split by a ``chunker``.
        """
        core, vectors = with_vectors(documents, ids, embeddings)
        self._add(core, vectors=vectors)
        return _filled_ids(core)

    async def aadd_documents(
        self, documents: Iterable[Document], *, ids: Any = None, embeddings: Any = None
    ) -> list[str]:
        """Async version of :meth:`add_documents`; awaits the embedding model if it has its own coroutine."""
        model = self._embeddings
        embed = model.aembed_documents if overrides(model, Embeddings, "aembed_documents") else None
        core, vectors = await run_in_executor(None, with_vectors, documents, ids, embeddings)
        await self._aadd(core, vectors, embed)
        return _filled_ids(core)

    def add_graph_documents(self, graph_documents: Iterable[Any]) -> list[str]:
        """Add the sources of graph documents with their nodes and relationships, not split; return their ids."""
        from langchain_graphrag.extraction import from_graph_documents  # noqa: PLC0415 - slow to import

        documents = from_graph_documents(graph_documents)
        self._add(documents)
        return _filled_ids(documents)

    @override
    def upsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
        """Add or replace documents, for LangChain's indexing API; those without text are among ``failed``."""
        return _upserted(items, self.add_documents(items))

    @override
    async def aupsert(self, items: Sequence[Document], /, **kwargs: Any) -> UpsertResponse:
        """Async version of :meth:`upsert`."""
        return _upserted(items, await self.aadd_documents(items))

    @override
    def delete(self, ids: str | Iterable[str] | None = None, **kwargs: Any) -> DeleteResponse:
        """Delete documents with their entities and facts; unknown ids, and those outside of ``filter``, are ignored."""
        if ids is None:
            raise InputError("pass the ids of the documents to delete: delete(ids)")
        known = self._in_scope([ids] if isinstance(ids, str) else list(ids))
        return DeleteResponse(num_deleted=self.index.delete(known), succeeded=known, num_failed=0, failed=[])

    @override
    def get(self, ids: Sequence[str], /, **kwargs: Any) -> list[Document]:
        """Return documents as they were added; unknown ids, and those outside of the :attr:`scope`, are ignored."""
        wanted = [ids] if isinstance(ids, str) else ids
        stored = (self.index.get(document_id) for document_id in self._in_scope(wanted))
        return [to_document(document) for document in stored if document is not None]

    @property
    def _embeddings(self) -> Any:
        """The embedding model of the index as the user passed it, or None."""
        return self.index.embedding and self.index.embedding.embedder

    # -- queries

    @property
    def scope(self) -> Filter | None:
        """What restricts every query; None if nothing does."""
        return parse_all(self.filter, *(self.search_kwargs.get(name) for name in _FILTERS))

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **settings: Any
    ) -> list[Document]:
        token = CALLBACKS.set(run_manager.get_child())
        try:
            result = self.search(query, **{"explain": self._explains, **settings})
        finally:
            CALLBACKS.reset(token)
        return to_documents(result, self.add_metadata)

    @override
    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **settings: Any
    ) -> list[Document]:
        token = CALLBACKS.set(run_manager.get_child())
        try:
            result = await self.asearch(query, **{"explain": self._explains, **settings})
        finally:
            CALLBACKS.reset(token)
        return await run_in_executor(None, to_documents, result, self.add_metadata)

    def _plan(self, query: str, given: Mapping[str, Any]) -> Plan:
        merged: dict[str, Any] = {"search_type": self.search_type, **self.search_kwargs}
        merged |= {name: value for name, value in given.items() if value is not None}
        where = parse_all(self.scope, *(given.get(name) for name in _FILTERS))
        _take_filter(merged)
        merged["history"] = to_history(merged.get("history"), BaseMessage, message_text)
        merged["reranker"] = _to_reranker(merged.get("reranker"))
        kind, fetch_k = merged.pop("search_type"), merged.pop("fetch_k", 20)
        lambda_mult = merged.pop("lambda_mult", 0.5)
        if kind not in _SEARCH_TYPES:
            raise InputError(f"unknown search_type {kind!r}: use {', '.join(_SEARCH_TYPES)}")
        if kind == "similarity_score_threshold" and "score_threshold" not in merged:
            raise InputError("search_type='similarity_score_threshold' needs search_kwargs={'score_threshold': ...}")
        merged |= {"settings": merged.get("settings") or self.settings, "where": where}
        plan = self._core.plan(query, **merged)
        embedding, model = self.index.embedding, self._embeddings
        if embedding is not None and "embedding" not in merged and overrides(model, Embeddings, "aembed_query"):

            async def aembed() -> Any:
                return embedding.checked_query(await model.aembed_query(query))

            plan = replace(plan, aembed=aembed)
        return diverse(plan, self.index, fetch_k=fetch_k, lambda_mult=lambda_mult) if kind == "mmr" else plan

    @override
    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        if self.index.embedding is not None:
            params["ls_embedding_provider"] = type(self._embeddings).__name__
            params["ls_embedding_model"] = self.index.embedding.identity
        return params


class _ConfigurableRetriever(RunnableConfigurableFields[str, list[Document]]):
    """A retriever with parameters, or fields of its ``settings``, that come from the configuration of a call."""

    default: GraphRAGRetriever

    @property
    @override
    def config_specs(self) -> list[ConfigurableFieldSpec]:
        parameters = {name: one for name, one in self.fields.items() if name not in _SETTINGS}
        specs = RunnableConfigurableFields(default=self.default, fields=parameters).config_specs
        for name in self.fields.keys() - parameters:
            one, kind = self.fields[name], _SETTINGS[name].metadata.get("type", Any)
            default = getattr(one, "default", getattr(self.default.settings, name))
            specs.append(ConfigurableFieldSpec(one.id, kind, one.name, one.description, default, one.is_shared))
        return specs

    @override
    def _prepare(self, config: RunnableConfig | None = None) -> tuple[Runnable[str, list[Document]], RunnableConfig]:
        prepared, config = super()._prepare(config)
        retriever = cast("GraphRAGRetriever", prepared)
        if retriever.scope != self.default.scope:  # a filter was replaced
            retriever = retriever.with_filter(self.default.scope)
        return retriever, config

    def with_filter(self, filter: Where | None) -> Self:  # noqa: A002 - LangChain's word
        return self.model_copy(update={"default": self.default.with_filter(filter)})

    @override
    def bind(self, **kwargs: Any) -> Runnable[str, list[Document]]:
        return _BoundRetriever(bound=self.with_filter(_take_filter(kwargs)), kwargs=kwargs)


class _BoundRetriever(RunnableBinding[str, list[Document]]):
    """A retriever with arguments of each call. A filter that is bound later narrows those bound before."""

    @override
    def bind(self, **kwargs: Any) -> Runnable[str, list[Document]]:
        narrowed = self
        if isinstance(self.bound, (GraphRAGRetriever, _ConfigurableRetriever)):  # after with_retry it is LangChain's
            narrowed = self.model_copy(update={"bound": self.bound.with_filter(_take_filter(kwargs))})
        return super(_BoundRetriever, narrowed).bind(**kwargs)


def _take_filter(arguments: dict[str, Any]) -> Filter | None:
    """Remove the filters from arguments, and return what matches all of them."""
    return parse_all(*(arguments.pop(name, None) for name in _FILTERS))


def _to_reranker(reranker: Any) -> Any:
    """Return a compressor as a reranker of the core, and everything else as it is."""
    return compressor_reranker(reranker) if isinstance(reranker, BaseDocumentCompressor) else reranker


def _unsplit(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings for documents that must not be split."""
    if settings.get("chunker") is not None:
        raise InputError("vectors and relationships belong to a whole document: remove chunker")
    return {**settings, "chunker": None}


def _filled_ids(documents: Iterable[graphrag_core.Document]) -> list[str]:
    """Return the ids of the documents that have a text."""
    return [document.id for document in documents if document.text.strip()]


def _upserted(items: Iterable[Document], added: list[str]) -> UpsertResponse:
    failed = [document.id for document in to_core_documents(items) if not document.text.strip()]
    return UpsertResponse(succeeded=added, failed=failed)
