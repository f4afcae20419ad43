"""``GraphRAGRetriever``: the core's index and retriever behind LlamaIndex's ``BaseRetriever``."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.callbacks import CallbackManager
from llama_index.core.graph_stores.types import PropertyGraphStore
from llama_index.core.indices.vector_store.base import VectorStoreIndex
from llama_index.core.ingestion import run_transformations
from llama_index.core.llms import LLM
from llama_index.core.postprocessor.types import BaseNodePostprocessor
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
from llama_index.core.vector_stores.types import MetadataFilters
from typing_extensions import Self

import graphrag_core
from graphrag_core import (
    Added,
    Combined,
    Gate,
    GraphRetriever,
    KnowledgeExtractor,
    KnowledgeIndex,
    LLMExtractor,
    Result,
    ScoreReranker,
    SentenceExtractor,
)
from graphrag_core.errors import EmbedderError, NotAnIndex
from graphrag_core.ingest.told_facts import Time
from graphrag_core.ports import Embedder, Extractor
from graphrag_core.query.coverage import Reranker
from graphrag_core.query.fusion import Fusion
from graphrag_core.query.rerank import PassageScores
from graphrag_core.query.strategies import GraphStrategy
from graphrag_core.retriever import Method
from llama_graphrag.embedding import EmbedModel, LlamaEmbedder, check_vectors, embedder_errors, to_embedder
from llama_graphrag.events import GraphRAGInsertEvent, GraphRAGRetrievalEvent, dispatcher
from llama_graphrag.filters import to_where
from llama_graphrag.nodes import (
    SOURCE,
    default_embedding_text,
    embedding_text,
    has_knowledge,
    is_node,
    knowledge_of,
    to_documents,
    to_nodes,
    with_stable_ids,
)
from llama_graphrag.rerank import arun_search, run_search, to_reranker
from llama_graphrag.sources import read_property_graph, read_vector_index

_log = logging.getLogger(__name__)


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
    method, graph, fusion, gate
        Settings of :class:`~graphrag_core.GraphRetriever`.
    reranker
        True for the core's default, False for none, a reranker of the core such as ``CrossEncoder(folder)``, or a
        LlamaIndex ``BaseNodePostprocessor`` such as ``SentenceTransformerRerank``
        (:func:`~llama_graphrag.postprocessor_reranker`).
    use_graph
        False searches by vector and keyword only.
    as_of
        Answer with the facts that were valid at this time; by default now.
    callback_manager, object_map, objects, verbose
        As for every LlamaIndex retriever.
    settings
        Further settings of :class:`~graphrag_core.GraphRetriever`, such as ``cache``, ``vector_weight``,
        ``text_weight`` and ``inverses``.

    It is safe to use from many threads and tasks at once. In a coroutine await ``aretrieve``,
    :meth:`ainsert_nodes` and :meth:`adelete_nodes`: they do not block the event loop.
    """

    def __init__(
        self,
        index: KnowledgeIndex,
        *,
        similarity_top_k: int = 5,
        filters: MetadataFilters | None = None,
        method: Method = "hybrid",
        graph: GraphStrategy | None = None,
        fusion: Fusion | None = None,
        gate: Gate | None = None,
        reranker: Reranker | PassageScores | BaseNodePostprocessor | bool = True,
        use_graph: bool = True,
        as_of: Time | None = None,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(callback_manager, object_map, objects, verbose)
        self._core = GraphRetriever(
            index,
            method=method,
            k=similarity_top_k,
            graph=graph,
            fusion=fusion,
            gate=gate,
            reranker=to_reranker(reranker),
            **settings,
        )
        self.filters = filters
        self.use_graph = use_graph
        self.as_of = as_of

    @property
    def index(self) -> KnowledgeIndex:
        """The core's index."""
        return self._core.index

    @property
    def similarity_top_k(self) -> int:
        """The number of nodes to return."""
        return self._core.k

    @similarity_top_k.setter
    def similarity_top_k(self, count: int) -> None:
        self._core.k = count

    @property
    def filters(self) -> MetadataFilters | None:
        """The filters of every query."""
        return self._filters

    @filters.setter
    def filters(self, filters: MetadataFilters | None) -> None:
        to_where(filters)  # raises now instead of in the next query
        self._filters = filters

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
        copies = [document.model_copy(update={"metadata": dict(document.metadata)}) for document in documents]
        steps = Settings.transformations if transformations is None else transformations
        nodes = with_stable_ids(run_transformations(copies, steps, show_progress=show_progress))
        retriever = cls.from_nodes(nodes, embed_model, show_progress=show_progress, **settings)
        retriever.drop_stale(nodes)
        return retriever

    @classmethod
    def from_nodes(
        cls,
        nodes: Iterable[BaseNode],
        embed_model: EmbedModel | None = None,
        *,
        path: str | Path | None = None,
        llm: LLM | None = None,
        extractor: Extractor | None = None,
        embed_facts: bool | None = None,
        embed_names: bool | None = None,
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
        path
            A folder for the index; None keeps it in memory.
        llm
            Extracts entities and relations, in addition to the extraction without a model.
        extractor, embed_facts, embed_names
            Settings of :class:`~graphrag_core.KnowledgeIndex`.
        show_progress
            Whether to show progress bars.
        settings
            Parameters of the class: ``similarity_top_k``, ``filters``, ``method``, ...
        """
        index = _open_index(
            to_embedder(embed_model),
            path,
            llm,
            extractor,
            progress=show_progress,
            embed_facts=embed_facts,
            embed_names=embed_names,
        )
        try:
            retriever = cls(index, **settings)
            retriever.insert_nodes(nodes)
        except BaseException:
            index.close()
            raise
        return retriever

    @classmethod
    def from_index(cls, index: VectorStoreIndex, embed_model: EmbedModel | None = None, **settings: Any) -> Self:
        """Index the nodes of an existing ``VectorStoreIndex``.

        Embeddings are reused if the vector store returns them (``SimpleVectorStore``, and stores
        whose nodes include them); other nodes are embedded. A log message and
        :class:`~llama_graphrag.GraphRAGInsertEvent` say how many.

        Parameters
        ----------
        index
            It is not changed. Nodes inserted into it later have to be inserted here too.
        embed_model
            Defaults to the embedding model of the index.
        settings
            As for :meth:`from_nodes`.
        """
        model = index._embed_model if embed_model is None else embed_model  # noqa: SLF001 - it has no public name
        settings.setdefault("object_map", dict(index._object_map))  # noqa: SLF001 - as above
        return cls.from_nodes(read_vector_index(index), model, **settings)

    @classmethod
    def from_property_graph(
        cls, store: PropertyGraphStore, embed_model: EmbedModel | None = None, **settings: Any
    ) -> Self:
        """Index an existing property graph: text nodes, entities with types and descriptions, and relations.

        Parameters
        ----------
        store
            Any ``PropertyGraphStore``; it is not changed.
        embed_model, settings
            As for :meth:`from_nodes`.
        """
        return cls.from_nodes(read_property_graph(store), embed_model, **settings)

    @classmethod
    def from_persist_dir(
        cls,
        path: str | Path,
        embed_model: EmbedModel | None = None,
        *,
        read_only: bool = False,
        llm: LLM | None = None,
        extractor: Extractor | None = None,
        show_progress: bool = False,
        **settings: Any,
    ) -> Self:
        """Open the index in a folder.

        Parameters
        ----------
        path
            A folder filled with ``path=...``, or by the core or its command line.
        embed_model
            The embedding model that built the index; False if it has no vectors.
        read_only
            True if another process writes.
        llm, extractor, show_progress
            For nodes inserted from now on.
        settings
            Parameters of the class.
        """
        if not KnowledgeIndex.exists(path):
            raise NotAnIndex(f"there is no index in {path}: create one with from_documents(..., path={str(path)!r})")
        embedder = to_embedder(embed_model)
        index = _open_index(embedder, path, llm, extractor, progress=show_progress, read_only=read_only)
        try:
            return cls(index, **settings)
        except BaseException:
            index.close()
            raise

    # -- queries

    def search(self, query: QueryType, **settings: Any) -> Result:
        """Return the core's result: hits with paths, facts, entities, ``context()``, ``explain()``.

        Parameters
        ----------
        query
            A question, or a bundle; its ``embedding`` and ``embedding_strs`` are used.
        settings
            ``k``, ``method``, ``use_graph``, ``min_graph_score``, ``min_score``, ``min_confidence`` and ``as_of`` to
            override the retriever's; ``where``, which narrows its filters; and ``count_access``.
        """
        bundle = QueryBundle(query) if isinstance(query, str) else query
        embedding: Any = bundle.embedding
        model = self._query_model(bundle, settings)
        if model is not None and bundle.custom_embedding_strs:  # otherwise the core embeds the question
            try:
                embedding = self._checked(model.get_agg_embedding_from_queries(list(bundle.embedding_strs)))
            except Exception as error:  # noqa: BLE001 - the core falls back to keywords
                embedding = error
        return self._report(run_search(lambda: self._retrieve_core(bundle, embedding, settings)))

    async def asearch(self, query: QueryType, **settings: Any) -> Result:
        """Async version of :meth:`search`; the query is embedded on the event loop."""
        bundle = QueryBundle(query) if isinstance(query, str) else query
        embedding: Any = bundle.embedding
        model = self._query_model(bundle, settings)
        if model is not None:
            try:
                embedding = self._checked(await model.aget_agg_embedding_from_queries(list(bundle.embedding_strs)))
            except Exception as error:  # noqa: BLE001 - the core falls back to keywords
                embedding = error
        elif embedding is None and isinstance(self._core.reranker, ScoreReranker):  # the search may run twice
            embedding = await asyncio.to_thread(self._embed_question, bundle.query_str, settings)
        search = partial(asyncio.to_thread, self._retrieve_core, bundle, embedding, settings)
        return self._report(await arun_search(search))

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return to_nodes(self.search(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(to_nodes, await self.asearch(query_bundle))

    def _embed_question(self, question: str, settings: Mapping[str, Any]) -> Any:
        """Return the vector of a question, the exception if there is none, or None if none is needed."""
        if self.index.embedding is None or (settings.get("method") or self._core.method) == "keyword":
            return None
        try:
            return self.index.embedding.query(question)
        except EmbedderError as error:
            return error

    def _query_model(self, bundle: QueryBundle, settings: Mapping[str, Any]) -> BaseEmbedding | None:
        """Return the LlamaIndex model if the query has to be embedded with one."""
        if bundle.embedding is not None or (settings.get("method") or self._core.method) == "keyword":
            return None
        embedder = self.index.embedding.embedder if self.index.embedding else None
        return embedder.model if isinstance(embedder, LlamaEmbedder) else None

    def _checked(self, vector: Any) -> Any:
        return vector if self.index.embedding is None else check_vectors(self.index.embedding, [vector], 1)[0]

    def _retrieve_core(self, bundle: QueryBundle, embedding: Any, settings: Mapping[str, Any]) -> Result:
        defaults = {"use_graph": self.use_graph, "as_of": self.as_of}
        filters = [one for one in (to_where(self.filters), settings.get("where")) if one is not None]
        where = {"and": filters} if len(filters) > 1 else filters[0] if filters else None
        return self._core.retrieve(bundle.query_str, embedding=embedding, **{**defaults, **settings, "where": where})

    def warm(self, questions: Iterable[str] | int = 10, *, background: bool = False) -> int | Future[int]:
        """Run questions in advance to fill the cache, with the retriever's settings; return how many.

        Parameters
        ----------
        questions
            An integer uses the names of that many of the most frequent entities. No access of a fact is counted.
        background
            True runs them in a thread and returns a ``Future`` of the number.
        """
        settings = {"where": to_where(self.filters), "use_graph": self.use_graph, "as_of": self.as_of}
        return self._core.warm(questions, background=background, **settings)

    async def awarm(self, questions: Iterable[str]) -> int:
        """Run questions in advance as ``aretrieve`` would, which embeds them by another way; return how many."""
        return len([await self.asearch(question, count_access=False) for question in questions])

    def _report(self, result: Result) -> Result:
        if result.fallback:
            _log.warning("%s", result.fallback)
        dispatcher.event(GraphRAGRetrievalEvent.from_result(result))
        return result

    # -- nodes

    def insert_nodes(self, nodes: Iterable[BaseNode]) -> GraphRAGInsertEvent:
        """Add nodes and replace those with a known id; unchanged nodes are skipped. Return the counts."""
        batch = _prepare(self.index, self._register_objects(nodes))
        event = _insert(self.index, batch, _embed(self.index, batch.custom_texts()))
        dispatcher.event(event)
        return event

    async def ainsert_nodes(self, nodes: Iterable[BaseNode]) -> GraphRAGInsertEvent:
        """Async version of :meth:`insert_nodes`; awaits the embedding model if it has its own coroutines."""
        batch = await asyncio.to_thread(_prepare, self.index, self._register_objects(nodes))
        embedder = self.index.embedding.embedder if self.index.embedding else None
        if isinstance(embedder, LlamaEmbedder) and embedder.has_coroutines:
            texts = await asyncio.to_thread(_texts_to_embed, self.index, batch)
            embeddings = await _aembed(self.index, embedder.model, texts)
        else:
            embeddings = await asyncio.to_thread(_embed, self.index, batch.custom_texts())
        event = await asyncio.to_thread(_insert, self.index, batch, embeddings)
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

    def delete_nodes(self, node_ids: Iterable[str]) -> int:
        """Delete nodes with their entities and facts; return how many existed."""
        return self.index.delete(list(node_ids))

    async def adelete_nodes(self, node_ids: Iterable[str]) -> int:
        """Async version of :meth:`delete_nodes`."""
        return await asyncio.to_thread(self.delete_nodes, list(node_ids))

    def delete_ref_doc(self, ref_doc_id: str) -> int:
        """Delete all nodes of a source document; return how many there were."""
        return self.index.delete(self._nodes_of(ref_doc_id))

    async def adelete_ref_doc(self, ref_doc_id: str) -> int:
        """Async version of :meth:`delete_ref_doc`."""
        return await asyncio.to_thread(self.delete_ref_doc, ref_doc_id)

    def drop_stale(self, nodes: Sequence[BaseNode]) -> int:
        """Delete other nodes of the same source documents, left from earlier versions; return how many."""
        kept = {node.node_id for node in nodes}
        sources = {node.ref_doc_id for node in nodes if node.ref_doc_id}
        stale = [node_id for source in sources for node_id in self._nodes_of(source) if node_id not in kept]
        return self.index.delete(stale) if stale else 0

    def _nodes_of(self, ref_doc_id: str) -> list[str]:
        ids = self.index.document_ids(where={SOURCE: {"exists": True, "eq": ref_doc_id}})
        document = self.index.get(ref_doc_id)
        if document is not None and not is_node(document):  # the index was filled without LlamaIndex
            ids.append(ref_doc_id)
        return ids

    def close(self) -> None:
        """Save the index and release its locks and files."""
        self.index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


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
    vectors: dict[str, list[float]]  # embeddings that came with nodes, by node id
    custom: dict[str, str]  # by node id, texts to embed that are more than title and text

    def custom_texts(self) -> list[str]:
        return list(dict.fromkeys(self.custom.values()))


def _prepare(index: KnowledgeIndex, nodes: list[BaseNode]) -> _Batch:
    """Convert nodes; skip empty ones."""
    filled = [node for node in nodes if node.get_content(MetadataMode.EMBED).strip()]
    if len(filled) < len(nodes):
        _log.warning("%d nodes without content were skipped", len(nodes) - len(filled))
    documents = to_documents(filled)
    vectors: dict[str, list[float]] = {}
    if index.embedding is not None:  # otherwise the index has no vectors
        vectors = {node.node_id: node.embedding for node in filled if node.embedding is not None}
    custom: dict[str, str] = {}
    for node, document in zip(filled, documents, strict=True):
        text = embedding_text(node, document)
        if document.id in vectors or text == default_embedding_text(document):
            continue
        if index.get(document.id) != document:
            custom[document.id] = text
    return _Batch(filled, documents, vectors, custom)


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


async def _aembed(index: KnowledgeIndex, model: BaseEmbedding, texts: list[str]) -> dict[str, Any]:
    """Return the vectors of texts, by text, computed on the event loop."""
    if not texts or index.embedding is None:
        return {}
    with embedder_errors(index.embedding, texts):
        vectors = await model.aget_text_embedding_batch(texts)
    return dict(zip(texts, check_vectors(index.embedding, vectors, len(texts)), strict=True))


def _insert(index: KnowledgeIndex, batch: _Batch, embeddings: Mapping[str, Any]) -> GraphRAGInsertEvent:
    """Add a batch to the index, with the vectors of its nodes and those in ``embeddings`` (by text)."""
    custom = {node_id: embeddings[text] for node_id, text in batch.custom.items() if text in embeddings}
    added = index.add(batch.documents, vectors={**batch.vectors, **custom}, embeddings=embeddings)
    reused, count = len(batch.vectors), len(batch.nodes)
    _log.info("%d nodes: %d with their own embedding, %d to be embedded", count, reused, count - reused)
    return GraphRAGInsertEvent.from_added(added, reused, sum(map(has_knowledge, batch.nodes)))
