"""``GraphRAGRetriever``: the core's index and retriever behind LlamaIndex's ``BaseRetriever``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.callbacks import CallbackManager
from llama_index.core.graph_stores.types import PropertyGraphStore
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.property_graph import PropertyGraphIndex
from llama_index.core.indices.vector_store.base import VectorStoreIndex
from llama_index.core.llms import LLM
from llama_index.core.memory import BaseMemory
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import (
    BaseNode,
    Document,
    IndexNode,
    NodeWithScore,
    QueryBundle,
    QueryType,
    TransformComponent,
)
from llama_index.core.vector_stores.types import MetadataFilters
from typing_extensions import Self, Unpack

from graphrag_core import GraphRetriever, KnowledgeIndex, SearchSettings, extract
from graphrag_core.adapter import (
    EXPLAINED,
    AdapterRetriever,
    IndexOptions,
    RetrieverOptions,
    SearchOptions,
    checked_names,
    closed_on_error,
    open_index,
    to_history,
    with_keywords,
)
from graphrag_core.errors import InputError
from graphrag_core.filters import Filter, parse_all
from graphrag_core.ingest.edges import ID, Edge, Edges, parse_edges
from graphrag_core.ingest.remembered import Time
from graphrag_core.model import Added
from graphrag_core.query.plan import Plan
from llama_graphrag.filters import take_scope, to_where
from llama_graphrag.models import EmbedModel, LlamaEmbedder, message_text, to_embedder
from llama_graphrag.nodes import (
    SOURCE,
    embedding_text,
    is_node,
    knowledge_of,
    split,
    to_documents,
    to_nodes,
)
from llama_graphrag.sources import ReadNodes, read_property_graph, read_vector_index
from llama_graphrag.vector_store import GraphRAGVectorStore

_log = logging.getLogger(__name__)
_OF_CALL: ContextVar[Mapping[str, Any]] = ContextVar("settings", default={})  # noqa: B039 - never changed


class RetrieverFields(RetrieverOptions, total=False):
    """Keywords of :class:`GraphRAGRetriever`."""

    similarity_top_k: int | None
    filters: MetadataFilters | None
    node_ids: Sequence[str] | None
    doc_ids: Sequence[str] | None
    as_of: Time | None
    transformations: Sequence[TransformComponent] | None
    callback_manager: CallbackManager | None
    object_map: dict[str, Any] | None
    objects: list[IndexNode] | None
    verbose: bool


class Options(RetrieverFields, IndexOptions, total=False):
    """Keywords of its constructors."""

    show_progress: bool


class NewOptions(Options, total=False):
    """Keywords of the constructors that create an index."""

    path: str | Path | None
    remove_missing: bool


class GraphRAGRetriever(AdapterRetriever, BaseRetriever):
    """Retrieves nodes by vector, keyword and knowledge graph, as they were inserted; :meth:`search` says everything.

    Parameters
    ----------
    index
        The index to search; :meth:`from_documents` and the other constructors create one.
    settings
        The settings of every question (:class:`graphrag_core.SearchSettings`).
    similarity_top_k
        The number of nodes to return: the field ``k`` of ``settings``.
    filters
        Restricts every query to matching nodes, at every hop through the graph.
    node_ids, doc_ids
        Restrict every query to these nodes, or to nodes of these source documents.
    as_of
        Answer with the facts that were valid at this time; by default now.
    transformations
        Split documents into nodes in :meth:`insert` and :meth:`update_ref_doc`; by default
        ``Settings.transformations``.
    add_metadata
        What is added to the metadata of a retrieved node, unless it has such a key itself: ``"section"``, ``"page"``,
        ``"document_id"``, ``"score"``, ``"channels"``, ``"path"`` and ``"graphrag"`` (everything). The LLM and the
        embedding see the first three only.
    cache, callback_manager, object_map, objects, verbose
        As for :class:`graphrag_core.GraphRetriever`, and for every LlamaIndex retriever.
    fields
        Fields of ``settings``: ``method``, ``graph``, ``use_graph``, ...

    Notes
    -----
    Settings can be read and not assigned: make another retriever of the same index with :meth:`with_settings`. Filters
    narrow: those of a call and of :meth:`with_filters` are joined to those of the retriever by AND. It is safe to use
    from many threads and tasks at once. In a coroutine await ``aretrieve`` and :meth:`ainsert_nodes`: they do not
    block the event loop, and await the embedding model if it has its own coroutines. A retriever with a ``path`` can be
    pickled and deep-copied, as :class:`graphrag_core.KnowledgeIndex` says.
    """

    @with_keywords
    def __init__(
        self, index: KnowledgeIndex, settings: SearchSettings | None = None, **fields: Unpack[RetrieverFields]
    ) -> None:
        others: dict[str, Any] = {**fields}
        own = ("callback_manager", "object_map", "objects", "verbose")
        super().__init__(**{name: others.pop(name) for name in own if name in others})
        self._filters = others.get("filters")
        self._scope = take_scope(others)  # read once
        self._as_of = others.pop("as_of", None)
        self._memory: BaseMemory | None = None
        self.transformations = others.pop("transformations", None)
        self.add_metadata = checked_names(others.pop("add_metadata", ("section", "page")))
        self._core = GraphRetriever(index, settings or SearchSettings(), **_core_settings(others))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.index!r}, {self.settings!r}, filters={self._filters!r})"

    @property
    def index(self) -> KnowledgeIndex:
        """The core's index."""
        return self._core.index

    @property
    def settings(self) -> SearchSettings:
        """The settings of every question."""
        return self._core.settings

    @property
    def similarity_top_k(self) -> int:
        """The number of nodes to return."""
        return self.settings.k

    @property
    def filters(self) -> MetadataFilters | None:
        """The filters of every query."""
        filters: MetadataFilters | None = self._filters
        return filters

    @property
    def scope(self) -> Filter | None:
        """The filter of every query, of ``filters``, ``node_ids`` and ``doc_ids``, in the core's form."""
        return self._scope

    # -- constructors

    @classmethod
    @with_keywords
    def from_documents(
        cls, documents: Sequence[Document], embed_model: EmbedModel | None = None, **settings: Unpack[NewOptions]
    ) -> Self:
        """Split documents into nodes and index them.

        Parameters
        ----------
        documents
            LlamaIndex documents; they are not changed.
        embed_model
            A LlamaIndex embedding model, or an object with ``embed_documents`` and ``embed_query``. Defaults to
            ``Settings.embed_model``. False for an index without vectors, for keyword and graph search. With a model
            that is awaited, start from no nodes and await :meth:`ainsert_nodes`.
        settings
            As for :meth:`from_nodes`, and ``transformations``, by default ``Settings.transformations``. Entities and
            relations found by an extractor among them are added to the graph.
        """
        nodes = split(documents, settings.get("transformations"), settings.get("show_progress"))
        retriever = cls.from_nodes(nodes, embed_model, **settings)
        retriever.drop_stale(nodes)
        return retriever

    @classmethod
    @with_keywords
    def from_nodes(
        cls, nodes: Iterable[BaseNode], embed_model: EmbedModel | None = None, **settings: Unpack[NewOptions]
    ) -> Self:
        """Index nodes without splitting them.

        Parameters
        ----------
        nodes
            Their embeddings are reused. Entities and relations in their metadata
            (``KG_NODES_KEY``, ``KG_RELATIONS_KEY``) are added to the graph.
        embed_model
            As for :meth:`from_documents`.
        settings
            Parameters of the class (``similarity_top_k``, ``filters``, ...) and of
            :class:`~graphrag_core.KnowledgeIndex` (``extractor``, ``edges``, ...; an id in ``edges`` belongs to a node,
            or to the document it was cut from). ``llm`` extracts entities and relations besides the extraction without
            a model. ``show_progress`` shows progress bars. ``path`` is a folder or a database; without it the index is
            in memory. Unchanged nodes are skipped, so calling this again updates an index. ``remove_missing=True``
            deletes its nodes that are not among ``nodes``; what was added without LlamaIndex stays.
        """
        remove_missing = settings.pop("remove_missing", False)
        retriever = cls._open(embed_model, **settings)
        with closed_on_error(retriever):
            nodes = list(nodes)
            retriever.insert_nodes(nodes)
            if remove_missing:
                kept, index = {node.node_id for node in nodes}, retriever.index
                missing = [one.id for one in index.documents() if is_node(one) and one.id not in kept]
                _log.info("nodes deleted because they are gone from the source: %d", index.delete(missing))
        return retriever

    @classmethod
    @with_keywords
    def from_index(
        cls,
        index: VectorStoreIndex,
        embed_model: EmbedModel | None = None,
        *,
        read: ReadNodes | None = None,
        **settings: Unpack[NewOptions],
    ) -> Self:
        """Index the nodes of an existing ``VectorStoreIndex``, which is not changed.

        Simple, Chroma, Qdrant, FAISS and PGVector stores are read, with their embeddings; for another one ``read`` gets
        the index and returns its nodes with their embeddings. Nodes without one are embedded; the log says how many.
        ``embed_model`` defaults to that of the index, which must be the one that filled the store; ``settings`` as for
        :meth:`from_nodes`. The same call with the same ``path`` takes over later changes.
        """
        return cls.from_nodes(read_vector_index(index, read), **_like(index, embed_model, settings))

    @classmethod
    @with_keywords
    def from_property_graph(
        cls,
        store: PropertyGraphStore | PropertyGraphIndex,
        embed_model: EmbedModel | None = None,
        **settings: Unpack[NewOptions],
    ) -> Self:
        """Index an existing property graph: text nodes, entities with types and descriptions, and relations.

        The store is not changed. Embeddings of its text nodes are reused. ``embed_model`` defaults to the model of the
        index, then to ``Settings.embed_model``; ``settings`` as for :meth:`from_nodes`.
        """
        return cls.from_nodes(read_property_graph(store), **_like(store, embed_model, settings))

    @classmethod
    @with_keywords
    def from_persist_dir(
        cls, path: str | Path, embed_model: EmbedModel | None = None, **settings: Unpack[Options]
    ) -> Self:
        """Open the index in a folder filled by any part of the library, or at the address of a PostgreSQL database.

        ``embed_model`` is the model that built the index; False if it has no vectors. ``settings`` as for
        :meth:`from_nodes`, for nodes inserted from now on; without ``edges`` the index keeps its own. And
        ``read_only``, True if another process writes (:meth:`graphrag_core.KnowledgeIndex.open`).
        """
        return cls._open(embed_model, path, must_exist=True, **settings)

    @classmethod
    def _open(
        cls,
        embed_model: EmbedModel | None,
        path: str | Path | None = None,
        *,
        must_exist: bool = False,
        llm: LLM | None = None,
        show_progress: bool = False,
        **settings: Any,
    ) -> Self:
        """Return a retriever of the index in a folder, or of a new one in memory, that does not split nodes."""
        if settings.get("chunker") is not None:
            raise InputError("nodes are not split again: remove chunker, and pass transformations to from_documents")
        stored = extract.KnowledgeExtractor(knowledge=knowledge_of)
        extractors = [settings.get("extractor") or extract.SentenceExtractor(), stored]
        if llm is not None:
            name = llm.metadata.model_name
            found = extract.LLMExtractor(lambda text: llm.complete(text).text, model=name, progress=show_progress)
            extractors.append(found)
        settings |= {"chunker": None, "extractor": extract.Combined(*extractors)}
        settings |= {"edges": _node_edges(settings.get("edges")), "progress": show_progress}
        index, fields = open_index(to_embedder(embed_model), path, settings, must_exist=must_exist)
        with closed_on_error(index):
            return cls(index, **fields)

    # -- other interfaces

    def with_filters(self, filters: MetadataFilters | None) -> Self:
        """Return this retriever restricted further, such as to a tenant; it shares the index and the cache."""
        narrowed = copy(self)
        if filters is not None:
            both = filters if self._filters is None else MetadataFilters(filters=[self._filters, filters])
            narrowed._filters, narrowed._scope = both, parse_all(self._scope, to_where(filters))  # noqa: SLF001
        return narrowed

    def with_settings(self, **settings: Any) -> Self:
        """Return this retriever with other settings: ``similarity_top_k``, ``method``, ... Its filters stay."""
        changed, core = copy(self), self._core
        shared: dict[str, Any] = {"cache": core.cache}
        changed._core = GraphRetriever(core.index, core.settings, **shared, **_core_settings(settings))  # noqa: SLF001
        return changed

    def with_memory(self, memory: BaseMemory) -> Self:
        """Return this retriever for one conversation: ``retrieve`` has the messages of a memory as ``history``.

        For a chat engine: ``ContextChatEngine.from_defaults(retriever.with_memory(memory), memory=memory)``.
        """
        bound = copy(self)
        bound._memory = memory  # noqa: SLF001
        return bound

    def as_vector_store(self) -> GraphRAGVectorStore:
        """Return a LlamaIndex vector store over the same index, such as for an ``IngestionPipeline``."""
        return GraphRAGVectorStore(self)

    def as_query_engine(self, llm: LLM | None = None, **settings: Any) -> RetrieverQueryEngine:
        """Return a query engine over this retriever; ``settings`` go to ``RetrieverQueryEngine.from_args``."""
        return RetrieverQueryEngine.from_args(self, llm=llm, **settings)

    # -- queries

    @with_keywords
    def retrieve(self, str_or_query_bundle: QueryType, **settings: Unpack[SearchOptions]) -> list[NodeWithScore]:
        """Return the nodes for a query, best first; ``settings`` as for :meth:`search`, for this call alone."""
        token = _OF_CALL.set({**settings})
        try:
            return super().retrieve(str_or_query_bundle)
        finally:
            _OF_CALL.reset(token)

    @with_keywords
    async def aretrieve(self, str_or_query_bundle: QueryType, **settings: Unpack[SearchOptions]) -> list[NodeWithScore]:
        """Async version of :meth:`retrieve`."""
        token = _OF_CALL.set({**settings})
        try:
            return await super().aretrieve(str_or_query_bundle)
        finally:
            _OF_CALL.reset(token)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        history = None if self._memory is None else self._memory.get_all()
        result = self.search(
            query_bundle,
            **{"explain": not EXPLAINED.isdisjoint(self.add_metadata), "history": history, **_OF_CALL.get()},
        )
        return to_nodes(result, self.add_metadata)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        history = None if self._memory is None else await self._memory.aget_all()
        result = await self.asearch(
            query_bundle,
            **{"explain": not EXPLAINED.isdisjoint(self.add_metadata), "history": history, **_OF_CALL.get()},
        )
        return await asyncio.to_thread(to_nodes, result, self.add_metadata)

    def _plan(self, query: QueryType, given: Mapping[str, Any], *, awaits: bool = False) -> Plan:
        bundle = QueryBundle(query) if isinstance(query, str) else query
        settings = {"as_of": self._as_of, **given, "embedding": bundle.embedding}
        settings = _core_settings(settings) if "similarity_top_k" in settings else settings
        settings["where"] = parse_all(self._scope, take_scope(settings))
        if settings.get("history") is not None:
            settings["history"] = to_history(settings["history"], ChatMessage, message_text)
        plan, embedding = self._core.plan(bundle.query_str, **settings), self._core.index.embedding
        if bundle.embedding is not None or embedding is None or not isinstance(embedding.embedder, LlamaEmbedder):
            return plan
        model, texts = embedding.embedder.model, bundle.embedding_strs

        async def aembed() -> Any:
            return embedding.checked_query(await model.aget_agg_embedding_from_queries(texts))

        def embed() -> Any:  # the mean of texts in place of the question
            return embedding.checked_query(model.get_agg_embedding_from_queries(texts))

        if bundle.custom_embedding_strs and "".join(texts).strip():
            plan = replace(plan, embed=embed, key=(plan.key, *texts))
        return replace(plan, aembed=aembed) if awaits else plan

    # -- nodes

    def insert_nodes(self, nodes: Iterable[BaseNode], **_: Any) -> Added:
        """Add nodes and replace those with a known id; unchanged nodes are skipped. Return the counts."""
        documents, vectors, texts = self._prepared(nodes)
        if texts:
            owners = {text: name for name, text in texts.items()}
            embedded = self.index.embedding.documents(owners)  # type: ignore[union-attr]
            vectors |= {name: embedded[text] for name, text in texts.items()}
        return self._add(documents, vectors=vectors)

    async def ainsert_nodes(self, nodes: Iterable[BaseNode], **_: Any) -> Added:
        """Async version of :meth:`insert_nodes`; awaits the embedding model if it has its own coroutines."""
        embedder = self.index.embedding and self.index.embedding.embedder
        if not isinstance(embedder, LlamaEmbedder) or not embedder.has_coroutines:
            return await asyncio.to_thread(self.insert_nodes, nodes)
        embed = embedder.model.aget_text_embedding_batch
        documents, vectors, texts = await asyncio.to_thread(self._prepared, nodes)
        embedded = await self._aembed(list(dict.fromkeys(texts.values())), embed)
        vectors |= {name: embedded[text] for name, text in texts.items()}
        return await self._aadd(documents, vectors, embed)

    def _prepared(self, nodes: Iterable[BaseNode]) -> tuple[list[Any], dict[str, Any], dict[str, str]]:
        """Return nodes as documents; by id the embeddings that they have, and texts to embed in place of the core's.

        Objects of index nodes are registered for retrieval, as LlamaIndex does.
        """
        nodes = list(nodes)
        documents, vectors, texts = to_documents(nodes), dict[str, Any](), dict[str, str]()
        for node, document in zip(nodes, documents, strict=True):
            if isinstance(node, IndexNode) and node.obj is not None:
                self.object_map[node.index_id] = node.obj
            if self.index.embedding is None or not document.text.strip():
                continue
            if node.embedding is not None:
                vectors[document.id] = node.embedding
            elif (text := embedding_text(node, document)) is not None and self.index.get(document.id) != document:
                texts[document.id] = text
        _log.info("%d nodes: %d with their own embedding", len(nodes), len(vectors))
        return documents, vectors, texts

    def delete_nodes(self, node_ids: Iterable[str], delete_from_docstore: bool = True) -> int:  # noqa: ARG002
        """Delete nodes with their entities and facts; return how many existed within the retriever's filters."""
        return self.index.delete(self._in_scope(node_ids))

    # -- documents: the methods of a LlamaIndex index. Keywords that have no effect here are accepted.

    def update_ref_doc(self, document: Document, **_: Any) -> Added:
        """Split a document into nodes and add them, or replace the nodes of the same document; return the counts.

        Unchanged nodes are skipped.
        """
        nodes = split([document], self.transformations)
        added = self.insert_nodes(nodes)
        self.drop_stale(nodes, document.id_)
        return added

    insert = update_ref_doc

    def delete_ref_doc(self, ref_doc_id: str, delete_from_docstore: bool = True) -> int:  # noqa: ARG002
        """Delete all nodes of a source document; return how many there were within the retriever's filters."""
        return self.index.delete(self._in_scope(self._nodes_of(ref_doc_id)))

    def drop_stale(self, nodes: Sequence[BaseNode], *ref_doc_ids: str) -> int:
        """Delete other nodes of the same source documents, left from earlier versions; return how many.

        ``ref_doc_ids`` are further source documents, of which these are all nodes.
        """
        kept, sources = {node.node_id for node in nodes}, {*ref_doc_ids, *(node.ref_doc_id for node in nodes)}
        node_ids = (node_id for source in sources if source for node_id in self._nodes_of(source))
        return self.index.delete([node_id for node_id in node_ids if node_id not in kept])

    def _nodes_of(self, ref_doc_id: str) -> list[str]:
        ids = self.index.document_ids(where={SOURCE: ref_doc_id})
        document = self.index.get(ref_doc_id)
        if document is not None and not is_node(document):  # the index was filled without LlamaIndex
            ids.append(ref_doc_id)
        return ids


def _core_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the names of LlamaIndex as those of the core."""
    settings = {**given}
    if (top_k := settings.pop("similarity_top_k", None)) is not None:
        if settings.get("k") is not None:
            raise InputError("k and similarity_top_k are the same setting: pass one of them")
        settings["k"] = top_k
    return settings


def _like(index: object, embed_model: EmbedModel | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the model, the objects and the transformations of an existing index as defaults."""
    defaults: dict[str, Any] = {}
    if isinstance(index, BaseIndex):  # these have no public names
        defaults = {"object_map": dict(index._object_map), "transformations": index._transformations}  # noqa: SLF001
        embed_model = getattr(index, "_embed_model", None) if embed_model is None else embed_model
    return {**defaults, **settings, "embed_model": embed_model}


def _node_edges(edges: Edges | None) -> list[Edge] | None:
    """Return edges for an index of nodes: one that leads to an id also leads to the source document of a node."""
    if edges is None:
        return None
    pairs = parse_edges(edges)
    return [*pairs, *((source, SOURCE) for source, target in pairs if target == ID)]
