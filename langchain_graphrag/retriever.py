"""``GraphRAGRetriever``: the core's index and retriever behind LangChain's interfaces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import BaseDocumentCompressor, Document
from langchain_core.embeddings import Embeddings
from langchain_core.indexing.base import DeleteResponse, DocumentIndex, UpsertResponse
from langchain_core.messages import BaseMessage
from langchain_core.runnables import Runnable, RunnableBinding
from langchain_core.runnables.config import run_in_executor
from langchain_core.vectorstores import VectorStore
from pydantic import ConfigDict, Field, PrivateAttr
from typing_extensions import Self, Unpack, override

from graphrag_core import Cache, Chunker, GraphRetriever, KnowledgeIndex, SearchSettings
from graphrag_core.adapter import (
    EXPLAINED,
    AdapterRetriever,
    IndexOptions,
    RetrieverOptions,
    checked_names,
    closed_on_error,
    open_index,
    overrides,
    to_history,
    with_keywords,
)
from graphrag_core.errors import InputError
from graphrag_core.filters import Filter, Where, parse_all
from graphrag_core.ports import Embedder
from graphrag_core.query.plan import Plan
from langchain_graphrag.documents import message_text, to_core_document, to_core_documents, to_document, to_documents
from langchain_graphrag.rerank import compressor_reranker
from langchain_graphrag.stores import ReadRows, copy_store, store_rows


class RetrieverFields(RetrieverOptions, total=False):
    """Keywords of :class:`GraphRAGRetriever`."""

    settings: SearchSettings | None
    filter: Where | None
    name: str | None
    tags: list[str] | None
    metadata: dict[str, Any] | None


class Options(RetrieverFields, IndexOptions, total=False):
    """Keywords of its constructors."""


class NewOptions(Options, total=False):
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
        :meth:`with_filter`, :meth:`bind` or :meth:`model_copy` is joined to it by AND. It is read once: changing the
        mapping later has no effect.
    add_metadata
        What is added to the metadata of a retrieved document, unless it has such a key itself: ``"section"``,
        ``"page"``, ``"document_id"``, ``"score"``, ``"channels"``, ``"path"`` and ``"graphrag"`` (everything).
    cache
        As for :class:`graphrag_core.GraphRetriever`.

    Notes
    -----
    ``invoke``, ``ainvoke``, ``batch`` and ``abatch`` take the fields of ``settings``, the arguments of
    :meth:`graphrag_core.GraphRetriever.retrieve` (``as_of``, ``count_access``, and ``history``, also of
    LangChain messages) and ``filter``. A filter maps metadata keys to values or operators:
    ``{"tenant": "acme", "year": {"$gte": 2020}}``.

    A document is returned with its id, its metadata, and what ``add_metadata`` names. One of more than 512 tokens is
    split into passages, unless ``chunker=None``. Their id is ``"<document id>#<number>"``, and
    ``metadata["document_id"]`` is the id for :meth:`delete` and :meth:`get`.

    A retriever with a ``path`` can be pickled and deep-copied, as :class:`graphrag_core.KnowledgeIndex` says.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    index: KnowledgeIndex = Field(frozen=True)
    settings: Any = Field(default_factory=SearchSettings, frozen=True)
    filter: Any = Field(default=None, frozen=True)
    add_metadata: tuple[str, ...] = Field(default=("section", "page"), frozen=True)
    cache: Cache | None = Field(default=None, frozen=True, repr=False)

    _core: GraphRetriever = PrivateAttr()

    @with_keywords
    def __init__(self, *, index: KnowledgeIndex, **fields: Unpack[RetrieverFields]) -> None:
        others: dict[str, Any] = {**fields}
        given = {name: others.pop(name) for name in type(self).model_fields if name in others}
        given["filter"] = parse_all(given.get("filter"))  # read once
        given["add_metadata"] = checked_names(given.get("add_metadata", ("section", "page")))
        if isinstance(reranker := others.get("reranker"), BaseDocumentCompressor):
            others["reranker"] = compressor_reranker(reranker)
        core = GraphRetriever(
            index, given.get("settings") or SearchSettings(), cache=given.get("cache", True), **others
        )
        super().__init__(**{**given, "index": index, "settings": core.settings, "cache": core.cache})
        self._core = core

    @override
    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other parameters, such as ``k``, of the same index; a filter narrows this one's."""
        if not update:
            return super().model_copy(deep=deep)
        fields = {name: getattr(self, name) for name in type(self).model_fields} | dict(update)
        copied = type(self)(**{**fields, "filter": parse_all(self.filter, update.get("filter"))})
        return deepcopy(copied) if deep else copied

    @override
    def copy(self, **options: Any) -> Self:
        """Return :meth:`model_copy`: the older name of Pydantic."""
        return self.model_copy(**options)

    def with_filter(self, filter: Where | None) -> Self:  # noqa: A002 - LangChain's word
        """Return this retriever restricted further, such as to a tenant; it shares the index and the cache."""
        return self.model_copy(update={"filter": filter})

    @override
    def bind(self, **kwargs: Any) -> Runnable[str, list[Document]]:
        """Return this retriever with arguments of each call, as LangChain's ``Runnable`` does; a filter narrows it."""
        return _BoundRetriever(bound=self.with_filter(_take_filter(kwargs)), kwargs=kwargs)

    @override
    def configurable_fields(self, **kwargs: Any) -> Any:
        """Raise: LangChain's would replace a filter in place of narrowing it."""
        raise InputError(f"pass {', '.join(kwargs)} with the call: retriever.invoke(question, k=2, filter=...)")

    # -- constructors

    @classmethod
    @with_keywords
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
    @with_keywords
    def from_vectorstore(
        cls,
        store: VectorStore,
        embedding: Embedder | None = None,
        *,
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
        read
            A function for other stores. It gets the store and yields ``(id, text, metadata, vector)`` for each
            document; without a vector (None) the text is embedded.
        remove_missing
            True deletes documents from the index that were not read, except remembered facts.
        settings
            As for :meth:`from_documents`. ``progress`` forces a progress bar, or none; by default a terminal shows one.
        """
        if not isinstance(store, VectorStore):
            raise InputError(f"from_vectorstore takes a LangChain VectorStore, not {type(store).__qualname__}")
        if settings.get("chunker") is not None:
            raise InputError("vectors belong to whole documents: remove chunker")
        if (model := store.embeddings if embedding is None else embedding) is None:
            kind = type(store).__qualname__
            raise InputError(f"{kind} has no embedding model: pass embedding=..., the one that computed its vectors")
        rows = store_rows(store, read)
        settings["chunker"] = None
        retriever = cls._open(model, **settings)
        with closed_on_error(retriever):
            copy_store(retriever.index, rows, remove_missing=remove_missing)
        return retriever

    @classmethod
    @with_keywords
    def load(cls, path: str | Path, embedding: Embedder | None, **settings: Unpack[Options]) -> Self:
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
        if llm is not None:
            from langchain_graphrag.extraction import llm_extractor  # noqa: PLC0415 - slow to import

            if settings.get("extractor") is not None:
                raise InputError("pass either llm or extractor: extractor=llm_extractor(llm, ...) has both")
            settings["extractor"] = llm_extractor(llm)
        settings.setdefault("chunker", Chunker(long_only=True))
        index, fields = open_index(embedding, path, settings, must_exist=must_exist)
        with closed_on_error(index):
            return cls(index=index, **fields)

    # -- documents

    def add_documents(self, documents: Iterable[Document], *, embeddings: Iterable[Any] | None = None) -> list[str]:
        """Add documents, replace those with a known id, and return the ids of those added.

        A document without text is skipped, and an earlier version of it deleted, with a warning in the log.
        ``embeddings`` are vectors computed by the retriever's embedding model, or None for a document to embed: one
        with a vector is not embedded again and must not be split by a ``chunker``.
        """
        core, vectors = to_core_documents(documents, embeddings)
        self._add(core, vectors=vectors)
        return [document.id for document in core if document.text.strip()]

    async def aadd_documents(
        self, documents: Iterable[Document], *, embeddings: Iterable[Any] | None = None
    ) -> list[str]:
        """Async version of :meth:`add_documents`; awaits the embedding model if it has its own coroutine."""
        model: Any = self.index.embedding and self.index.embedding.embedder
        embed = model.aembed_documents if overrides(model, Embeddings, "aembed_documents") else None
        core, vectors = await run_in_executor(None, to_core_documents, documents, embeddings)
        await self._aadd(core, vectors, embed)
        return [document.id for document in core if document.text.strip()]

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

    # -- queries

    @property
    def scope(self) -> Filter | None:
        """What restricts every query; None if nothing does."""
        scope: Filter | None = self.filter  # parsed by the constructor
        return scope

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **settings: Any
    ) -> list[Document]:
        explain = not EXPLAINED.isdisjoint(self.add_metadata)
        return to_documents(self.search(query, **{"explain": explain, **settings}), self.add_metadata)

    @override
    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **settings: Any
    ) -> list[Document]:
        explain = not EXPLAINED.isdisjoint(self.add_metadata)
        result = await self.asearch(query, **{"explain": explain, **settings})
        return await run_in_executor(None, to_documents, result, self.add_metadata)

    def _plan(self, query: str, given: Mapping[str, Any], *, awaits: bool = False) -> Plan:
        settings = {name: value for name, value in given.items() if value is not None}
        settings["where"] = parse_all(self.filter, settings.pop("filter", None), settings.get("where"))
        if "history" in settings:
            settings["history"] = to_history(settings["history"], BaseMessage, message_text)
        if isinstance(reranker := settings.get("reranker"), BaseDocumentCompressor):
            settings["reranker"] = compressor_reranker(reranker)
        plan, embedding = self._core.plan(query, **settings), self.index.embedding
        if not awaits or embedding is None or "embedding" in settings:
            return plan
        model: Any = embedding.embedder

        async def aembed() -> Any:
            return embedding.checked_query(await model.aembed_query(query))

        return replace(plan, aembed=aembed) if overrides(model, Embeddings, "aembed_query") else plan


class _BoundRetriever(RunnableBinding[str, list[Document]]):
    """A retriever with arguments of each call. A filter that is bound later narrows those bound before."""

    @override
    def bind(self, **kwargs: Any) -> Runnable[str, list[Document]]:
        narrowed = self
        if isinstance(self.bound, GraphRAGRetriever):  # after with_retry it is LangChain's
            narrowed = self.model_copy(update={"bound": self.bound.with_filter(_take_filter(kwargs))})
        return super(_BoundRetriever, narrowed).bind(**kwargs)


def _take_filter(arguments: dict[str, Any]) -> Filter | None:
    """Remove the filters from arguments, and return what matches all of them."""
    return parse_all(arguments.pop("filter", None), arguments.pop("where", None))


def _upserted(items: Iterable[Document], added: list[str]) -> UpsertResponse:
    failed = [document.id for document in map(to_core_document, items) if not document.text.strip()]
    return UpsertResponse(succeeded=added, failed=failed)
