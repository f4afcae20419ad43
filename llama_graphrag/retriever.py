"""``GraphRAGRetriever``: the core's index and retriever behind LlamaIndex's ``BaseRetriever``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager
from llama_index.core.chat_engine import CondensePlusContextChatEngine, CondenseQuestionChatEngine, ContextChatEngine
from llama_index.core.chat_engine.types import BaseChatEngine, ChatMode
from llama_index.core.graph_stores.types import PropertyGraphStore
from llama_index.core.indices.base import BaseIndex
from llama_index.core.indices.property_graph import PropertyGraphIndex
from llama_index.core.indices.vector_store.base import VectorStoreIndex
from llama_index.core.ingestion import run_transformations
from llama_index.core.llms import LLM
from llama_index.core.node_parser import NodeParser
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import (
    BaseNode,
    Document,
    IndexNode,
    MetadataMode,
    NodeWithScore,
    QueryBundle,
    QueryType,
    TransformComponent,
)
from llama_index.core.settings import Settings
from llama_index.core.storage.docstore.types import RefDocInfo
from llama_index.core.vector_stores.types import MetadataFilters
from typing_extensions import Self

import graphrag_core
from graphrag_core import (
    Added,
    Answer,
    Cache,
    Calibration,
    Combined,
    Gate,
    GraphRetriever,
    KnowledgeExtractor,
    KnowledgeIndex,
    LLMExtractor,
    Recogniser,
    Result,
    Router,
    ScoreReranker,
    SearchSettings,
    SentenceExtractor,
)
from graphrag_core.engine.address import shown
from graphrag_core.errors import EmbedderError, InputError, NotAnIndex
from graphrag_core.filters import DOCUMENT_ID, Filter, parse_all
from graphrag_core.ingest.edges import ID, Edge, Edges, parse_edges
from graphrag_core.ingest.remembered import Time
from graphrag_core.ports import Embedder, Extractor
from graphrag_core.query.ask import MAX_TOKENS
from graphrag_core.query.coverage import Reranker
from graphrag_core.query.external_rerank import search_awaiting, search_now
from graphrag_core.query.fusion import Fusion
from graphrag_core.query.query import OnEmbedderError
from graphrag_core.query.rerank import PassageScores
from graphrag_core.query.settings import Method
from graphrag_core.query.strategies import GraphStrategy
from llama_graphrag.embedding import EmbedModel, LlamaEmbedder, check_vectors, embedder_errors, to_embedder
from llama_graphrag.events import GraphRAGInsertEvent, GraphRAGRetrievalEvent, dispatcher
from llama_graphrag.filters import checked_ids, ids_where, to_where
from llama_graphrag.llm import count_tokens, to_chat_model
from llama_graphrag.nodes import (
    SOURCE,
    default_embedding_text,
    embedding_text,
    has_knowledge,
    is_node,
    knowledge_of,
    metadata_of,
    source_hash,
    source_of,
    to_documents,
    to_nodes,
    with_document_hashes,
    with_stable_ids,
)
from llama_graphrag.rerank import to_reranker
from llama_graphrag.sources import ReadNodes, read_property_graph, read_vector_index

_log = logging.getLogger(__name__)
_NAMED = 5  # nodes without content that a warning names
_OF_CALL: ContextVar[Mapping[str, Any]] = ContextVar("settings", default={})  # noqa: B039 - never changed
_T = TypeVar("_T")


class _Setting(Generic[_T]):
    """A setting of the core's retriever as an attribute: checked when it is set, and used by the next query."""

    def __init__(self, name: str = "") -> None:
        self._name = name

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = self._name or name

    def __get__(self, retriever: Any, owner: type | None = None) -> _T:
        core = None if retriever is None else retriever._core  # noqa: SLF001 - its own
        parts = () if core is None else (core, core.settings.plan, core.settings)
        found: Any = next((getattr(part, self._name) for part in parts if hasattr(part, self._name)), self)
        value: _T = found
        return value

    def __set__(self, retriever: Any, value: _T) -> None:
        core = retriever._core  # noqa: SLF001 - its own
        settings, others = core.settings, {"cache": core.cache, "refresh_every": core.refresh_every}
        if self._name in others:
            others[self._name] = value
        else:
            chosen = getattr(SearchSettings(), self._name) if value is None else to_reranker(value)
            settings = replace(settings, **{self._name: chosen})
        retriever._core = GraphRetriever(core.index, settings, **others)  # noqa: SLF001 - its own


class GraphRAGRetriever(BaseRetriever):
    """Retrieves nodes by vector, keyword and knowledge graph.

    Nodes are returned as they were inserted: the same ids, text, metadata, relationships and
    templates. How a node was found is in ``metadata["graphrag"]``, which is hidden from the
    LLM and from the embedding.

    Parameters
    ----------
    index
        The index to search; :meth:`from_documents` and the other constructors create one.
    similarity_top_k
        The number of nodes to return.
    filters
        Restricts every query to matching nodes, at every hop through the graph.
    node_ids, doc_ids
        Restrict every query to these nodes, or to nodes of these source documents.
    method, graph, fusion, gate, on_embedder_error
        Settings of :class:`~graphrag_core.GraphRetriever`.
    reranker
        True for the core's default, False for none, a reranker of the core such as ``CrossEncoder(folder)``, or a
        LlamaIndex ``BaseNodePostprocessor`` such as ``SentenceTransformerRerank``
        (:func:`~llama_graphrag.postprocessor_reranker`).
    use_graph
        False searches by vector and keyword only.
    as_of
        Answer with the facts that were valid at this time; by default now.
    transformations
        Split documents into nodes in :meth:`insert`, :meth:`update_ref_doc` and :meth:`refresh_ref_docs`; by default
        ``Settings.transformations``.
    callback_manager, object_map, objects, verbose
        As for every LlamaIndex retriever.
    settings
        Further settings of :class:`~graphrag_core.GraphRetriever`, such as ``score_threshold``, ``cache``,
        ``vector_weight``, ``text_weight``, ``inverses`` and ``refresh_every``.

    Notes
    -----
    Each parameter is an attribute that can be read and set. Filters passed with a call narrow those of the retriever.
    If the question cannot be embedded, a query raises :class:`graphrag_core.errors.EmbedderError`, which is also of
    the type that the model raised; ``on_embedder_error="keyword"`` searches by keyword and graph instead and logs a
    warning. Nothing is found for a blank question, which is logged too.

    It is safe to use from many threads and tasks at once. In a coroutine await ``aretrieve``,
    :meth:`ainsert_nodes` and :meth:`adelete_nodes`: they do not block the event loop.

    A retriever with a ``path`` can be pickled and deep-copied: the copy opens the folder for reading. A forked process
    reads the index that it inherited, and cannot write it. Of an index in PostgreSQL a copy and a forked process open
    connections of their own, and may write.
    """

    similarity_top_k = _Setting[int]("k")
    method = _Setting[Method]()
    graph = _Setting[GraphStrategy]()
    fusion = _Setting[Fusion]()
    gate = _Setting[Gate]()
    reranker = _Setting[Any]()
    recogniser = _Setting[Recogniser]()
    router = _Setting[Router]()
    candidates = _Setting[int]()
    cache = _Setting[Cache | None]()
    vector_weight = _Setting[float]()
    text_weight = _Setting[float]()
    inverses = _Setting[Mapping[str, str]]()
    calibration = _Setting[Calibration | None]()
    score_threshold = _Setting[float | None]()
    refresh_every = _Setting[float | None]()
    on_embedder_error = _Setting[OnEmbedderError]()

    def __init__(
        self,
        index: KnowledgeIndex,
        *,
        similarity_top_k: int = 5,
        filters: MetadataFilters | None = None,
        node_ids: Sequence[str] | None = None,
        doc_ids: Sequence[str] | None = None,
        method: Method = "hybrid",
        graph: GraphStrategy | None = None,
        fusion: Fusion | None = None,
        gate: Gate | None = None,
        reranker: Reranker | PassageScores | BaseNodePostprocessor | bool = True,
        use_graph: bool = True,
        as_of: Time | None = None,
        on_embedder_error: OnEmbedderError = "raise",
        transformations: Sequence[TransformComponent] | None = None,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
        **settings: Any,
    ) -> None:
        _refuse_other_names(settings)
        super().__init__(callback_manager, object_map, objects, verbose)
        self.filters = filters
        self.node_ids = node_ids
        self.doc_ids = doc_ids
        self.use_graph = use_graph
        self.as_of = as_of
        self.transformations = transformations
        self._core = GraphRetriever(
            index,
            method=method,
            k=similarity_top_k,
            graph=graph,
            fusion=fusion,
            gate=gate,
            reranker=to_reranker(reranker),
            on_embedder_error=on_embedder_error,
            **settings,
        )

    def __setattr__(self, name: str, value: Any) -> None:
        is_new = "_core" in self.__dict__ and name not in self.__dict__ and not hasattr(type(self), name)
        if is_new and not name.startswith("_") and type(self) is GraphRAGRetriever:
            names = [one for one in (*vars(GraphRAGRetriever), *self.__dict__) if not one.startswith("_")]
            near = get_close_matches(name, names, 1)
            hint = f": did you mean {near[0]!r}?" if near else ""
            raise AttributeError(f"a retriever has no setting {name!r}{hint}")
        if name in ("node_ids", "doc_ids") and value is not None:
            value = checked_ids(name, value)
        super().__setattr__(name, value)

    @property
    def index(self) -> KnowledgeIndex:
        """The core's index."""
        return self._core.index

    @property
    def filters(self) -> MetadataFilters | None:
        """The filters of every query."""
        return self._filters

    @filters.setter
    def filters(self, filters: MetadataFilters | None) -> None:
        to_where(filters)  # raises now instead of in the next query
        self._filters = None if filters is None else filters.model_copy(deep=True)

    # -- constructors

    @classmethod
    def from_documents(
        cls,
        documents: Sequence[Document],
        embed_model: EmbedModel | None = None,
        *,
        transformations: Sequence[TransformComponent] | None = None,
        show_progress: bool = False,
        **settings: Any,
    ) -> Self:
        """Split documents into nodes and index them.

        Parameters
        ----------
        documents
            LlamaIndex documents; they are not changed.
        embed_model
            A LlamaIndex embedding model, or an object with ``embed_documents`` and
            ``embed_query``. Defaults to ``Settings.embed_model``. False for an index without vectors,
            which serves keyword and graph search and needs no model.
        transformations
            Defaults to ``Settings.transformations``, a ``SentenceSplitter``. Entities and
            relations found by an extractor among them are added to the graph.
        show_progress
            Whether to show progress bars.
        settings
            As for :meth:`from_nodes`.
        """
        nodes = _split(documents, transformations, show_progress=show_progress)
        settings = {"transformations": transformations, "show_progress": show_progress, **settings}
        retriever = cls.from_nodes(nodes, embed_model, **settings)
        retriever.drop_stale(nodes)
        return retriever

    @classmethod
    async def afrom_documents(
        cls,
        documents: Sequence[Document],
        embed_model: EmbedModel | None = None,
        *,
        transformations: Sequence[TransformComponent] | None = None,
        show_progress: bool = False,
        **settings: Any,
    ) -> Self:
        """Async version of :meth:`from_documents`; transformations with a coroutine are awaited."""
        nodes = await _asplit(documents, transformations, show_progress=show_progress)
        settings = {"transformations": transformations, "show_progress": show_progress, **settings}
        retriever = await cls.afrom_nodes(nodes, embed_model, **settings)
        await asyncio.to_thread(retriever.drop_stale, nodes)
        return retriever

    @classmethod
    def from_nodes(
        cls,
        nodes: Iterable[BaseNode],
        embed_model: EmbedModel | None = None,
        *,
        path: str | Path | None = None,
        persist_dir: str | Path | None = None,
        llm: LLM | None = None,
        extractor: Extractor | None = None,
        embed_facts: bool | None = None,
        embed_names: bool | None = None,
        remove_missing: bool = False,
        edges: Edges | None = None,
        show_progress: bool = False,
        **settings: Any,
    ) -> Self:
        """Index nodes without splitting them.

        Parameters
        ----------
        nodes
            Their embeddings are reused. Entities and relations in their metadata
            (``KG_NODES_KEY``, ``KG_RELATIONS_KEY``) are added to the graph.
        embed_model
            As for :meth:`from_documents`.
        path, persist_dir
            A folder for the index, or an address such as ``postgresql://user@host/database?index=NAME``, under either
            name; None keeps it in memory. Nodes that it has unchanged are skipped, so calling this again updates it.
        llm
            Extracts entities and relations, in addition to the extraction without a model.
        extractor, embed_facts, embed_names
            Settings of :class:`~graphrag_core.KnowledgeIndex`.
        remove_missing
            True deletes the nodes of the folder that are not among ``nodes``. What was added without
            LlamaIndex, such as remembered facts, stays.
        edges
            Metadata fields that link nodes, such as ``[("author", "author"), ("links", "id")]``
            (:class:`~graphrag_core.KnowledgeIndex`). An id is that of a node, or of the document it was cut from.
        show_progress
            Whether to show progress bars.
        settings
            Parameters of the class: ``similarity_top_k``, ``filters``, ``method``, ...
        """
        retriever = cls._open(
            embed_model,
            _folder(path, persist_dir),
            llm=llm,
            extractor=extractor,
            embed_facts=embed_facts,
            embed_names=embed_names,
            edges=edges,
            show_progress=show_progress,
            **settings,
        )
        try:
            nodes = list(nodes)
            retriever.insert_nodes(nodes)
            if remove_missing:
                retriever.drop_missing(nodes)
        except BaseException:
            retriever.close()
            raise
        return retriever

    @classmethod
    async def afrom_nodes(
        cls,
        nodes: Iterable[BaseNode],
        embed_model: EmbedModel | None = None,
        *,
        path: str | Path | None = None,
        persist_dir: str | Path | None = None,
        remove_missing: bool = False,
        **settings: Any,
    ) -> Self:
        """Async version of :meth:`from_nodes`; awaits the embedding model if it has its own coroutines."""
        folder = _folder(path, persist_dir)
        retriever = await asyncio.to_thread(partial(cls._open, embed_model, folder, **settings))
        try:
            nodes = list(nodes)
            await retriever.ainsert_nodes(nodes)
            if remove_missing:
                await asyncio.to_thread(retriever.drop_missing, nodes)
        except BaseException:
            await asyncio.to_thread(retriever.close)
            raise
        return retriever

    @classmethod
    def from_index(
        cls,
        index: VectorStoreIndex,
        embed_model: EmbedModel | None = None,
        *,
        read: ReadNodes | None = None,
        nodes: Iterable[BaseNode] | None = None,
        node_ids: Iterable[str] | None = None,
        **settings: Any,
    ) -> Self:
        """Index the nodes of an existing ``VectorStoreIndex``, over whatever vector store.

        The embeddings of Simple, Chroma, Qdrant, LanceDB and FAISS stores are reused, and those of other stores
        whose ``get_nodes`` returns them: nothing is embedded again. The docstore may be empty, as after
        ``VectorStoreIndex.from_vector_store(store)``. Nodes without an embedding are embedded. Log messages and
        :class:`~llama_graphrag.GraphRAGInsertEvent` say how many.

        Parameters
        ----------
        index
            It is not changed. To take over later changes, call this again with the same ``path``: unchanged nodes are
            skipped, and with ``remove_missing=True`` deleted ones are deleted.
        embed_model
            Defaults to the embedding model of the index, which must be the one that the store was filled with.
        read
            Reads the nodes of a store that is not among those above: gets the index, returns its nodes with
            their embeddings.
        nodes
            The nodes of the index, if its store cannot list them.
        node_ids
            Only these nodes.
        settings
            As for :meth:`from_nodes`.
        """
        found = read_vector_index(index, read=read, nodes=nodes, node_ids=node_ids)
        return cls.from_nodes(found, _model_of(index, embed_model), **_defaults_of(index, settings))

    @classmethod
    async def afrom_index(
        cls,
        index: VectorStoreIndex,
        embed_model: EmbedModel | None = None,
        *,
        read: ReadNodes | None = None,
        nodes: Iterable[BaseNode] | None = None,
        node_ids: Iterable[str] | None = None,
        **settings: Any,
    ) -> Self:
        """Async version of :meth:`from_index`; the store is read in a thread."""
        reads = partial(read_vector_index, index, read=read, nodes=nodes, node_ids=node_ids)
        found = await asyncio.to_thread(reads)
        return await cls.afrom_nodes(found, _model_of(index, embed_model), **_defaults_of(index, settings))

    @classmethod
    def from_property_graph(
        cls, store: PropertyGraphStore | PropertyGraphIndex, embed_model: EmbedModel | None = None, **settings: Any
    ) -> Self:
        """Index an existing property graph: text nodes, entities with types and descriptions, and relations.

        Parameters
        ----------
        store
            Any ``PropertyGraphStore``, or a ``PropertyGraphIndex``; it is not changed. Embeddings of its text
            nodes are reused.
        embed_model
            Defaults to the embedding model of the index, then to ``Settings.embed_model``.
        settings
            As for :meth:`from_nodes`.
        """
        nodes = read_property_graph(store)
        return cls.from_nodes(nodes, _model_of(store, embed_model), **_defaults_of(store, settings))

    @classmethod
    async def afrom_property_graph(
        cls, store: PropertyGraphStore | PropertyGraphIndex, embed_model: EmbedModel | None = None, **settings: Any
    ) -> Self:
        """Async version of :meth:`from_property_graph`; the graph is read in a thread."""
        nodes = await asyncio.to_thread(read_property_graph, store)
        return await cls.afrom_nodes(nodes, _model_of(store, embed_model), **_defaults_of(store, settings))

    @classmethod
    def from_persist_dir(
        cls,
        path: str | Path | None = None,
        embed_model: EmbedModel | None = None,
        *,
        persist_dir: str | Path | None = None,
        read_only: bool = False,
        llm: LLM | None = None,
        extractor: Extractor | None = None,
        edges: Edges | None = None,
        show_progress: bool = False,
        **settings: Any,
    ) -> Self:
        """Open the index in a folder. :meth:`load` is the same.

        Parameters
        ----------
        path, persist_dir
            A folder filled with ``path=...``, or by the core or its command line, or the address of a database
            (``postgresql://...``), under either name.
        embed_model
            The embedding model that built the index; False if it has no vectors.
        read_only
            True if another process writes. A reader sees new nodes after :meth:`refresh`, or by itself with
            ``refresh_every``.
        llm, extractor, show_progress
            For nodes inserted from now on.
        edges
            As for :meth:`from_nodes`; None keeps those of the index.
        settings
            Parameters of the class.
        """
        folder = _folder(path, persist_dir)
        if folder is None:
            raise TypeError("from_persist_dir() needs the folder of the index: from_persist_dir(path)")
        if not KnowledgeIndex.exists(folder):
            raise NotAnIndex(
                f"there is no index in {shown(folder)}: create one with from_documents(..., path={shown(folder)!r})"
            )
        settings = {"llm": llm, "extractor": extractor, "edges": edges, "show_progress": show_progress, **settings}
        return cls._open(embed_model, folder, read_only=read_only, **settings)

    @classmethod
    def load(cls, path: str | Path | None = None, embed_model: EmbedModel | None = None, **settings: Any) -> Self:
        """Open the index in a folder: another name of :meth:`from_persist_dir`."""
        return cls.from_persist_dir(path, embed_model, **settings)

    @classmethod
    async def afrom_persist_dir(
        cls, path: str | Path | None = None, embed_model: EmbedModel | None = None, **settings: Any
    ) -> Self:
        """Async version of :meth:`from_persist_dir`."""
        return await asyncio.to_thread(partial(cls.from_persist_dir, path, embed_model, **settings))

    @classmethod
    async def aload(
        cls, path: str | Path | None = None, embed_model: EmbedModel | None = None, **settings: Any
    ) -> Self:
        """Async version of :meth:`load`."""
        return await cls.afrom_persist_dir(path, embed_model, **settings)

    @classmethod
    def _open(
        cls,
        embed_model: EmbedModel | None,
        folder: str | Path | None,
        *,
        llm: LLM | None = None,
        extractor: Extractor | None = None,
        embed_facts: bool | None = None,
        embed_names: bool | None = None,
        edges: Edges | None = None,
        show_progress: bool = False,
        read_only: bool = False,
        **settings: Any,
    ) -> Self:
        """Return a retriever over the index in a folder, or over a new one in memory."""
        opened: dict[str, Any] = {"embed_facts": embed_facts, "embed_names": embed_names, "edges": _node_edges(edges)}
        if read_only:
            opened["read_only"] = True
        index = _open_index(to_embedder(embed_model), folder, llm, extractor, progress=show_progress, **opened)
        try:
            return cls(index, **settings)
        except BaseException:
            index.close()
            raise

    # -- engines

    def as_query_engine(self, llm: LLM | None = None, **settings: Any) -> RetrieverQueryEngine:
        """Return a query engine that answers from what this retriever finds.

        Parameters
        ----------
        llm
            Defaults to ``Settings.llm``.
        settings
            Those of ``RetrieverQueryEngine.from_args``: ``node_postprocessors``, ``response_mode``, ``streaming``, ...
        """
        return RetrieverQueryEngine.from_args(self, llm=llm, **settings)

    def as_chat_engine(
        self, chat_mode: str = "condense_plus_context", llm: LLM | None = None, **settings: Any
    ) -> BaseChatEngine:
        """Return a chat engine that answers from what this retriever finds.

        Parameters
        ----------
        chat_mode
            ``"condense_plus_context"`` (also ``"best"``), ``"context"`` or ``"condense_question"``.
        llm
            Defaults to ``Settings.llm``.
        settings
            Those of the engine's ``from_defaults``: ``memory``, ``system_prompt``, ``node_postprocessors``, ...
        """
        mode = chat_mode.value if isinstance(chat_mode, ChatMode) else chat_mode
        if mode in ("condense_plus_context", "best"):
            return CondensePlusContextChatEngine.from_defaults(retriever=self, llm=llm, **settings)
        if mode == "context":
            return ContextChatEngine.from_defaults(retriever=self, llm=llm, **settings)
        if mode == "condense_question":
            return CondenseQuestionChatEngine.from_defaults(query_engine=self.as_query_engine(llm), llm=llm, **settings)
        raise InputError(
            f"chat_mode={mode!r} does not use a retriever, or is unknown: use 'condense_plus_context', 'context' or "
            "'condense_question'"
        )

    # -- queries

    def search(self, query: QueryType, **settings: Any) -> Result:
        """Return the core's result: hits with paths, facts, entities, ``context()``, ``explain()``.

        Parameters
        ----------
        query
            A question, or a bundle; its ``embedding`` and ``embedding_strs`` are used.
        settings
            ``k``, ``method``, ``use_graph``, ``score_threshold``, ``min_graph_score``, ``min_score``,
            ``min_confidence`` and ``as_of`` to override the retriever's; ``filters``, ``node_ids``, ``doc_ids`` and
            ``where`` (a filter in the form of :mod:`graphrag_core.filters`), which narrow its filters; and
            ``count_access``, ``seed_entities`` and ``exclude``.
        """
        settings = self._with_scope(settings)
        bundle = QueryBundle(query) if isinstance(query, str) else query
        embedding: Any = bundle.embedding
        model = self._query_model(bundle, settings)
        if model is not None and bundle.custom_embedding_strs:  # otherwise the core embeds the question
            try:
                embedding = self._checked(model.get_agg_embedding_from_queries(list(bundle.embedding_strs)))
            except Exception as error:  # noqa: BLE001 - the core falls back to keywords
                embedding = error
        return self._report(search_now(lambda: self._retrieve_core(bundle, embedding, settings)))

    async def asearch(self, query: QueryType, **settings: Any) -> Result:
        """Async version of :meth:`search`; the query is embedded on the event loop."""
        settings = self._with_scope(settings)
        bundle = QueryBundle(query) if isinstance(query, str) else query
        embedding: Any = bundle.embedding
        model = self._query_model(bundle, settings)
        if model is not None:
            try:
                embedding = self._checked(await model.aget_agg_embedding_from_queries(list(bundle.embedding_strs)))
            except Exception as error:  # noqa: BLE001 - the core falls back to keywords
                embedding = error
        elif embedding is None and isinstance(self._core.settings.reranker, ScoreReranker):  # the search may run twice
            embedding = await asyncio.to_thread(self._embed_question, bundle.query_str, settings)
        search = partial(asyncio.to_thread, self._retrieve_core, bundle, embedding, settings)
        return self._report(await search_awaiting(search))

    def ask(self, query: QueryType, llm: Any = None, *, max_tokens: int = MAX_TOKENS, **settings: Any) -> Answer:
        """Answer a question from the documents, with numbered citations.

        Parameters
        ----------
        query
            A question, or a bundle.
        llm
            A LlamaIndex LLM; or what :meth:`graphrag_core.GraphRetriever.ask` takes, such as
            ``"http://localhost:11434/v1/llama3.1"``. Without one, the answer consists of sentences of the documents:
            ``Settings.llm`` is not used.
        max_tokens
            The budget of the passages in the prompt.
        settings
            Those of :meth:`search`.

        Returns
        -------
        graphrag_core.Answer
            The text, and the passages that it cites.
        """
        settings["where"] = self._where(settings)  # read once
        result = self.search(query, **settings)
        with self._core.answer_from(
            result, to_chat_model(llm), where=settings["where"], max_tokens=max_tokens, tokenizer=count_tokens
        ) as stream:
            return stream.answer

    async def aask(self, query: QueryType, llm: Any = None, *, max_tokens: int = MAX_TOKENS, **settings: Any) -> Answer:
        """Async version of :meth:`ask`: embeds on the event loop, and reads the model in a thread.

        Cancelling it ends the answer of the model at its next piece.
        """
        settings["where"] = self._where(settings)
        result = await self.asearch(query, **settings)
        stream = self._core.answer_from(
            result, to_chat_model(llm), where=settings["where"], max_tokens=max_tokens, tokenizer=count_tokens
        )
        with stream:
            return await asyncio.to_thread(lambda: stream.answer)

    def retrieve(self, str_or_query_bundle: QueryType, **settings: Any) -> list[NodeWithScore]:
        """Return the nodes for a query, best first; ``settings`` as for :meth:`search`, for this call alone."""
        token = _OF_CALL.set(settings)
        try:
            return super().retrieve(str_or_query_bundle)
        finally:
            _OF_CALL.reset(token)

    async def aretrieve(self, str_or_query_bundle: QueryType, **settings: Any) -> list[NodeWithScore]:
        """Async version of :meth:`retrieve`."""
        token = _OF_CALL.set(settings)
        try:
            return await super().aretrieve(str_or_query_bundle)
        finally:
            _OF_CALL.reset(token)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return to_nodes(self.search(query_bundle, **_OF_CALL.get()))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(to_nodes, await self.asearch(query_bundle, **_OF_CALL.get()))

    def _embed_question(self, question: str, settings: Mapping[str, Any]) -> Any:
        """Return the vector of a question, the exception if there is none, or None if none is needed."""
        if self.index.embedding is None or (settings.get("method") or self._core.settings.method) == "keyword":
            return None
        if not question.strip():
            return None
        try:
            return self.index.embedding.query(question)
        except EmbedderError as error:
            return error

    def _query_model(self, bundle: QueryBundle, settings: Mapping[str, Any]) -> BaseEmbedding | None:
        """Return the LlamaIndex model if the query has to be embedded with one."""
        if bundle.embedding is not None or (settings.get("method") or self._core.settings.method) == "keyword":
            return None
        if not any(text.strip() for text in bundle.embedding_strs):
            return None
        embedder = self.index.embedding.embedder if self.index.embedding else None
        return embedder.model if isinstance(embedder, LlamaEmbedder) else None

    def _checked(self, vector: Any) -> Any:
        return vector if self.index.embedding is None else check_vectors(self.index.embedding, [vector], 1)[0]

    def _retrieve_core(self, bundle: QueryBundle, embedding: Any, settings: Mapping[str, Any]) -> Result:
        """Run a query with settings that :meth:`_with_scope` returned. A reranker may have it run twice."""
        return self._core.retrieve(bundle.query_str, embedding=embedding, **settings)

    def _with_scope(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a query for the core, with one parsed filter."""
        defaults = {"use_graph": self.use_graph, "as_of": self.as_of}
        others = {name: value for name, value in settings.items() if name not in ("filters", "node_ids", "doc_ids")}
        return {**defaults, **others, "where": self._where(settings)}

    def _where(self, settings: Mapping[str, Any]) -> Filter | None:
        """Return the filter of a query: that of the retriever, narrowed by that of the call."""
        return parse_all(
            to_where(self._filters),
            *ids_where(self.node_ids, self.doc_ids),
            to_where(settings.get("filters")),
            *ids_where(settings.get("node_ids"), settings.get("doc_ids")),
            settings.get("where"),
        )

    @property
    def scope(self) -> Filter | None:
        """The filter of every query, of ``filters``, ``node_ids`` and ``doc_ids``, in the core's form."""
        return self._where({})

    def facts_about(self, texts: Iterable[str]) -> list[str]:
        """Return facts that join two names in some texts, within the retriever's filters."""
        return [fact.text for fact in self._core.facts_about(texts, where=self.scope)]

    def warm(self, questions: Iterable[str] | int = 10, *, background: bool = False) -> int | Future[int]:
        """Run questions in advance to fill the cache, with the retriever's settings; return how many.

        Parameters
        ----------
        questions
            An integer uses the names of that many of the most frequent entities. No access of a fact is counted.
        background
            True runs them in a thread and returns a ``Future`` of the number.
        """
        settings = {"where": self._where({}), "use_graph": self.use_graph, "as_of": self.as_of}
        return self._core.warm(questions, background=background, **settings)

    async def awarm(self, questions: Iterable[str]) -> int:
        """Run questions in advance as ``aretrieve`` would, which embeds them by another way; return how many."""
        return len([await self.asearch(question, count_access=False) for question in questions])

    def _report(self, result: Result) -> Result:
        if result.fallback and not result.embedder_failed:  # which the core logs
            _log.warning("%s", result.fallback)
        dispatcher.event(GraphRAGRetrievalEvent.from_result(result))
        return result

    # -- nodes

    def insert_nodes(self, nodes: Iterable[BaseNode], *, show_progress: bool | None = None) -> GraphRAGInsertEvent:
        """Add nodes and replace those with a known id; unchanged nodes are skipped. Return the counts.

        ``show_progress`` is that of the constructor by default.
        """
        batch = _prepare(self.index, self._register_objects(nodes))
        event = _insert(self.index, batch, _embed(self.index, batch.custom_texts()), show_progress)
        dispatcher.event(event)
        return event

    async def ainsert_nodes(
        self, nodes: Iterable[BaseNode], *, show_progress: bool | None = None
    ) -> GraphRAGInsertEvent:
        """Async version of :meth:`insert_nodes`; awaits the embedding model if it has its own coroutines."""
        batch = await asyncio.to_thread(_prepare, self.index, self._register_objects(nodes))
        embedder = self.index.embedding.embedder if self.index.embedding else None
        if isinstance(embedder, LlamaEmbedder) and embedder.has_coroutines:
            texts = await asyncio.to_thread(_texts_to_embed, self.index, batch)
            shown = self.index.pipeline.progress if show_progress is None else show_progress
            embeddings = await _aembed(self.index, embedder.model, texts, show_progress=bool(shown))
        else:
            embeddings = await asyncio.to_thread(_embed, self.index, batch.custom_texts())
        event = await asyncio.to_thread(_insert, self.index, batch, embeddings, show_progress)
        dispatcher.event(event)
        return event

    def add_research_findings(self, findings: Any) -> Added:
        """Add papers and projects as nodes with typed entities and facts; return the counts.

        ``findings`` is ``{"academic_papers": [...], "github_projects": [...]}``, or a list of such objects. A node's
        id is that of the paper or project: ``"arxiv:2501.03236"``, ``"project:langchain-ai/langgraph"``.
        """
        return self.index.add_research_findings(findings)

    async def aadd_research_findings(self, findings: Any) -> Added:
        """Async version of :meth:`add_research_findings`."""
        return await asyncio.to_thread(self.index.add_research_findings, findings)

    def _register_objects(self, nodes: Iterable[BaseNode]) -> list[BaseNode]:
        """Return the nodes as a list; objects of index nodes are registered for retrieval, as LlamaIndex does."""
        nodes = list(nodes)
        for node in nodes:
            if isinstance(node, IndexNode) and node.obj is not None:
                self.object_map[node.index_id] = node.obj
        return nodes

    def delete_nodes(self, node_ids: Iterable[str], delete_from_docstore: bool = True) -> int:  # noqa: ARG002
        """Delete nodes with their entities and facts; return how many existed within the retriever's filters.

        ``delete_from_docstore`` has no effect: nodes, vectors and graph are one index.
        """
        return self.index.delete(self._in_scope(node_ids))

    def _in_scope(self, node_ids: Iterable[str]) -> list[str]:
        """Return the ids that match the retriever's filters."""
        scope, ids = self._where({}), list(node_ids)
        return ids if scope is None else self.index.document_ids(parse_all(scope, {DOCUMENT_ID: {"in": ids}}))

    async def adelete_nodes(self, node_ids: Iterable[str], delete_from_docstore: bool = True) -> int:
        """Async version of :meth:`delete_nodes`."""
        return await asyncio.to_thread(self.delete_nodes, list(node_ids), delete_from_docstore)

    # -- documents: the methods of a LlamaIndex index

    def insert(self, document: Document, *, show_progress: bool | None = None) -> GraphRAGInsertEvent:
        """Split a document into nodes and add them; return the counts.

        If the index has the document, its nodes are replaced, as by :meth:`update_ref_doc`.
        """
        return self._replace([document], show_progress)

    async def ainsert(self, document: Document, *, show_progress: bool | None = None) -> GraphRAGInsertEvent:
        """Async version of :meth:`insert`."""
        return await self._areplace([document], show_progress)

    def update_ref_doc(
        self, document: Document, *, show_progress: bool | None = None, **kwargs: Any
    ) -> GraphRAGInsertEvent:
        """Replace the nodes of a document, or add it; return the counts. Unchanged nodes are skipped.

        ``insert_kwargs`` and ``delete_kwargs``, as an index of LlamaIndex has them, are accepted without effect.
        """
        _check_kwargs("update_ref_doc", kwargs, "insert_kwargs", "delete_kwargs")
        return self._replace([document], show_progress)

    async def aupdate_ref_doc(
        self, document: Document, *, show_progress: bool | None = None, **kwargs: Any
    ) -> GraphRAGInsertEvent:
        """Async version of :meth:`update_ref_doc`."""
        _check_kwargs("aupdate_ref_doc", kwargs, "insert_kwargs", "delete_kwargs")
        return await self._areplace([document], show_progress)

    def refresh_ref_docs(
        self, documents: Sequence[Document], *, show_progress: bool | None = None, **kwargs: Any
    ) -> list[bool]:
        """Add new documents and replace changed ones; return for each document whether it was new or changed.

        A document is compared by LlamaIndex's hash of its text and metadata with the document that its nodes were made
        from. An unchanged one is neither split nor embedded. ``insert_kwargs`` and ``update_kwargs``, as an index of
        LlamaIndex has them, are accepted without effect.
        """
        _check_kwargs("refresh_ref_docs", kwargs, "insert_kwargs", "update_kwargs")
        changed = self._are_changed(documents)
        self._replace([document for document, new in zip(documents, changed, strict=True) if new], show_progress)
        return changed

    async def arefresh_ref_docs(
        self, documents: Sequence[Document], *, show_progress: bool | None = None, **kwargs: Any
    ) -> list[bool]:
        """Async version of :meth:`refresh_ref_docs`."""
        _check_kwargs("arefresh_ref_docs", kwargs, "insert_kwargs", "update_kwargs")
        changed = await asyncio.to_thread(self._are_changed, documents)
        await self._areplace([document for document, new in zip(documents, changed, strict=True) if new], show_progress)
        return changed

    @property
    def ref_doc_info(self) -> dict[str, RefDocInfo]:
        """The source documents within the filters, by id: the ids of their nodes, and the metadata of the first."""
        found: dict[str, RefDocInfo] = {}
        for document_id in self.index.document_ids(self._where({})):
            if (document := self.index.get(document_id)) is None:
                continue
            info = found.setdefault(source_of(document), RefDocInfo())
            info.node_ids.append(document.id)
            info.metadata = info.metadata or metadata_of(document)
        return found

    def delete_ref_doc(self, ref_doc_id: str, delete_from_docstore: bool = True) -> int:  # noqa: ARG002
        """Delete all nodes of a source document; return how many there were within the retriever's filters.

        ``delete_from_docstore`` has no effect: nodes, vectors and graph are one index.
        """
        return self.index.delete(self._in_scope(self._nodes_of(ref_doc_id)))

    async def adelete_ref_doc(self, ref_doc_id: str, delete_from_docstore: bool = True) -> int:
        """Async version of :meth:`delete_ref_doc`."""
        return await asyncio.to_thread(self.delete_ref_doc, ref_doc_id, delete_from_docstore)

    def _replace(self, documents: Sequence[Document], show_progress: bool | None) -> GraphRAGInsertEvent:
        documents = list({document.id_: document for document in documents}.values())  # the last of an id
        shown = bool(self.index.pipeline.progress if show_progress is None else show_progress)
        nodes = _split(documents, self.transformations, show_progress=shown)
        event = self.insert_nodes(nodes, show_progress=show_progress)
        self._drop_others(documents, nodes)
        return event

    async def _areplace(self, documents: Sequence[Document], show_progress: bool | None) -> GraphRAGInsertEvent:
        documents = list({document.id_: document for document in documents}.values())
        shown = bool(self.index.pipeline.progress if show_progress is None else show_progress)
        nodes = await _asplit(documents, self.transformations, show_progress=shown)
        event = await self.ainsert_nodes(nodes, show_progress=show_progress)
        await asyncio.to_thread(self._drop_others, documents, nodes)
        return event

    def _drop_others(self, documents: Sequence[Document], nodes: Sequence[BaseNode]) -> None:
        """Delete the nodes of documents that are not among these."""
        kept = {node.node_id for node in nodes}
        self.index.delete([one for doc in documents for one in self._nodes_of(doc.id_) if one not in kept])

    def _are_changed(self, documents: Sequence[Document]) -> list[bool]:
        changed = []
        hashes: dict[str, str] = {}  # of documents that came before
        for document in documents:
            nodes = self._nodes_of(document.id_)
            known = hashes.get(document.id_)
            if known is None and nodes:
                known = source_hash(self.index.chunks(nodes[0])[0])
            is_blank = not nodes and not document.get_content(MetadataMode.EMBED).strip()
            changed.append(known != document.hash and not is_blank)
            hashes[document.id_] = document.hash
        return changed

    def drop_stale(self, nodes: Sequence[BaseNode]) -> int:
        """Delete other nodes of the same source documents, left from earlier versions; return how many."""
        kept = {node.node_id for node in nodes}
        sources = {node.ref_doc_id for node in nodes if node.ref_doc_id}
        stale = [node_id for source in sources for node_id in self._nodes_of(source) if node_id not in kept]
        return self.index.delete(stale) if stale else 0

    def drop_missing(self, nodes: Iterable[BaseNode]) -> int:
        """Delete all nodes but these; return how many. What was added without LlamaIndex stays."""
        kept = {node.node_id for node in nodes}
        missing = [one.id for one in self.index.documents() if is_node(one) and one.id not in kept]
        if missing:
            _log.info("nodes deleted because they are gone from the source: %d", len(missing))
        return self.index.delete(missing) if missing else 0

    def _nodes_of(self, ref_doc_id: str) -> list[str]:
        ids = self.index.document_ids(where={SOURCE: {"exists": True, "eq": ref_doc_id}})
        document = self.index.get(ref_doc_id)
        if document is not None and not is_node(document):  # the index was filled without LlamaIndex
            ids.append(ref_doc_id)
        return ids

    def refresh(self) -> bool:
        """Let a read-only retriever see what another process wrote since; return whether anything was."""
        return self._core.refresh()

    async def arefresh(self) -> bool:
        """Async version of :meth:`refresh`."""
        return await asyncio.to_thread(self.refresh)

    def close(self) -> None:
        """Save the index and release its locks and files."""
        self.index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


_OTHER_NAMES = {  # of VectorIndexRetriever and of other libraries, and what they are called here
    "vector_store_query_mode": "method='hybrid', 'vector', 'keyword' or 'graph'",
    "mode": "method='hybrid', 'vector', 'keyword' or 'graph'",
    "alpha": "vector_weight= and text_weight=",
    "sparse_top_k": "similarity_top_k=",
    "hybrid_top_k": "similarity_top_k=",
    "top_k": "similarity_top_k=",
    "k": "similarity_top_k=",
    "where": "filters=MetadataFilters(...), or search(question, where=...)",
    "filter": "filters=MetadataFilters(...)",
    "vector_store_kwargs": "the settings of the retriever: the vector store is not asked",
    "storage_context": "path= (or persist_dir=) for a folder, or from_index for an existing store",
    "embed_model": "embed_model= in from_documents and the other constructors",
    "similarity_cutoff": "min_score= in search, or a SimilarityPostprocessor in the query engine",
}


def _refuse_other_names(settings: Mapping[str, Any]) -> None:
    for name in settings:
        if name in _OTHER_NAMES:
            raise TypeError(f"GraphRAGRetriever has no parameter {name!r}: use {_OTHER_NAMES[name]}")


def _check_kwargs(method: str, kwargs: Mapping[str, Any], *known: str) -> None:
    if unknown := kwargs.keys() - set(known):
        raise TypeError(f"{method}() got an unexpected keyword argument {min(unknown)!r}")


def _folder(path: str | Path | None, persist_dir: str | Path | None) -> str | Path | None:
    if path is not None and persist_dir is not None:
        given = f"path={shown(path)!r} and persist_dir={shown(persist_dir)!r}"
        raise TypeError(f"{given} are the same parameter: pass one")
    return persist_dir if path is None else path


def _model_of(index: object, embed_model: EmbedModel | None) -> EmbedModel | None:
    """Return the embedding model of an existing index, unless another is given."""
    return getattr(index, "_embed_model", None) if embed_model is None and isinstance(index, BaseIndex) else embed_model


def _defaults_of(index: object, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with the objects and transformations of an existing index as defaults."""
    defaults: dict[str, Any] = {}
    if isinstance(index, BaseIndex):  # these have no public names
        defaults = {"object_map": dict(index._object_map), "transformations": index._transformations}  # noqa: SLF001
    return {**defaults, **settings}


def _split(
    documents: Sequence[Document], transformations: Sequence[TransformComponent] | None, *, show_progress: bool
) -> list[BaseNode]:
    """Return the nodes of documents, with ids that are the same next time. The documents are not changed."""
    steps = Settings.transformations if transformations is None else transformations
    nodes = run_transformations(_copies(documents), steps, show_progress=show_progress)
    return with_document_hashes(with_stable_ids(nodes), documents)


async def _asplit(
    documents: Sequence[Document], transformations: Sequence[TransformComponent] | None, *, show_progress: bool
) -> list[BaseNode]:
    """Async version of :func:`_split`: a step without a coroutine of its own runs in a thread."""
    nodes: Sequence[BaseNode] = _copies(documents)
    for step in Settings.transformations if transformations is None else transformations:
        if _has_coroutine(step):
            nodes = await step.acall(nodes, show_progress=show_progress)
        else:
            nodes = await asyncio.to_thread(run_transformations, nodes, [step], show_progress=show_progress)
    return with_document_hashes(with_stable_ids(nodes), documents)


def _has_coroutine(step: TransformComponent) -> bool:
    """Return whether a transformation awaits something; LlamaIndex's default coroutines block the event loop."""
    if isinstance(step, BaseEmbedding):
        return LlamaEmbedder(step).has_coroutines
    if isinstance(step, NodeParser) and type(step).acall is NodeParser.acall:
        return type(step)._aparse_nodes is not NodeParser._aparse_nodes  # noqa: SLF001 - it has no public name
    return type(step).acall is not TransformComponent.acall


def _copies(documents: Sequence[Document]) -> list[Document]:
    return [document.model_copy(update={"metadata": dict(document.metadata)}) for document in documents]


def _node_edges(edges: Edges | None) -> list[Edge] | None:
    """Return edges for an index of nodes: one that leads to an id also leads to the source document of a node."""
    if edges is None:
        return None
    pairs = parse_edges(edges)
    return [*pairs, *((source, SOURCE) for source, target in pairs if target == ID)]


def _open_index(
    embedder: Embedder | None,
    path: str | Path | None,
    llm: LLM | None,
    extractor: Extractor | None,
    *,
    progress: bool,
    **settings: Any,
) -> KnowledgeIndex:
    """Open an index that does not split nodes and extracts the knowledge stored with them."""
    extractors: list[Extractor] = [extractor or SentenceExtractor(), KnowledgeExtractor(knowledge=knowledge_of)]
    if llm is not None:
        extractors.append(
            LLMExtractor(lambda prompt: llm.complete(prompt).text, model=llm.metadata.model_name, progress=progress)
        )
    settings = {"chunker": None, "extractor": Combined(*extractors), "progress": progress, **settings}
    return KnowledgeIndex(embedder, **settings) if path is None else KnowledgeIndex.open(path, embedder, **settings)


@dataclass(frozen=True)
class _Batch:
    """Nodes to insert, as documents."""

    nodes: list[BaseNode]
    documents: list[graphrag_core.Document]
    vectors: dict[str, Any]  # embeddings that came with nodes, by node id
    custom: dict[str, str]  # by node id, texts to embed that are more than title and text
    blank: list[str]  # ids of nodes without content

    def custom_texts(self) -> list[str]:
        return list(dict.fromkeys(self.custom.values()))


def _prepare(index: KnowledgeIndex, nodes: list[BaseNode]) -> _Batch:
    """Convert nodes; skip empty ones."""
    filled = [node for node in nodes if node.get_content(MetadataMode.EMBED).strip()]
    blank = [node.node_id for node in nodes if not node.get_content(MetadataMode.EMBED).strip()]
    documents = to_documents(filled)
    vectors: dict[str, Any] = {}
    if index.embedding is not None:  # otherwise the index has no vectors
        vectors = {node.node_id: node.embedding for node in filled if node.embedding is not None}
    custom: dict[str, str] = {}
    for node, document in zip(filled, documents, strict=True):
        text = embedding_text(node, document)
        if document.id in vectors or text == default_embedding_text(document):
            continue
        if index.get(document.id) != document:
            custom[document.id] = text
    return _Batch(filled, documents, vectors, custom, blank)


def _texts_to_embed(index: KnowledgeIndex, batch: _Batch) -> list[str]:
    """Return every text that inserting a batch embeds, once."""
    has_vector = batch.vectors.keys() | batch.custom.keys()
    unused = {default_embedding_text(document) for document in batch.documents if document.id in has_vector}
    unused -= {default_embedding_text(document) for document in batch.documents if document.id not in has_vector}
    others = [text for text in index.to_embed(batch.documents) if text not in unused]
    return list(dict.fromkeys([*batch.custom_texts(), *others]))


def _embed(index: KnowledgeIndex, texts: list[str]) -> dict[str, Any]:
    """Return the vectors of texts, by text."""
    if not texts or index.embedding is None:
        return {}
    with embedder_errors(index.embedding, texts):
        vectors = index.embedding.embedder.embed_documents(texts)
    return dict(zip(texts, check_vectors(index.embedding, vectors, len(texts)), strict=True))


async def _aembed(
    index: KnowledgeIndex, model: BaseEmbedding, texts: list[str], *, show_progress: bool = False
) -> dict[str, Any]:
    """Return the vectors of texts, by text, computed on the event loop."""
    if not texts or index.embedding is None:
        return {}
    with embedder_errors(index.embedding, texts):
        vectors = await model.aget_text_embedding_batch(texts, show_progress=show_progress)
    return dict(zip(texts, check_vectors(index.embedding, vectors, len(texts)), strict=True))


def _insert(
    index: KnowledgeIndex, batch: _Batch, embeddings: Mapping[str, Any], show_progress: bool | None = None
) -> GraphRAGInsertEvent:
    """Add a batch to the index, with the vectors of its nodes and those in ``embeddings`` (by text)."""
    custom = {node_id: embeddings[text] for node_id, text in batch.custom.items() if text in embeddings}
    embedded = _count_to_embed(index, batch)
    vectors = {**batch.vectors, **custom}
    added = index.add(batch.documents, vectors=vectors, embeddings=embeddings, progress=show_progress)
    if batch.blank:
        deleted = index.delete(batch.blank)
        named = ", ".join(map(repr, batch.blank[:_NAMED]))
        more = f" and {len(batch.blank) - _NAMED} more" if len(batch.blank) > _NAMED else ""
        gone = f"; earlier versions of {deleted} of them were deleted" if deleted else ""
        _log.warning("%d nodes without content were skipped: %s%s%s", len(batch.blank), named, more, gone)
    reused, count = len(batch.vectors), len(batch.nodes)
    unchanged = f", {added.unchanged} unchanged" if added.unchanged else ""
    _log.info("%d nodes: %d with their own embedding, %d to be embedded%s", count, reused, embedded, unchanged)
    return GraphRAGInsertEvent.from_added(added, reused, embedded, sum(map(has_knowledge, batch.nodes)))


def _count_to_embed(index: KnowledgeIndex, batch: _Batch) -> int:
    """Return how many nodes of a batch are new or changed and have no embedding of their own."""
    if index.embedding is None:
        return 0
    rest = [document for document in batch.documents if document.id not in batch.vectors]
    stored = index.engine.stored([document.id for document in rest])
    return sum(document.id not in stored or index.get(document.id) != document for document in rest)
