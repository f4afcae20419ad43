"""Asking: from a LlamaIndex query to the core, and from its answer to nodes."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks import CallbackManager
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle, QueryType
from llama_index.core.vector_stores.types import MetadataFilters

from graphrag_core import Gate, GraphRetriever, KnowledgeIndex, Result
from graphrag_core.handed import Ready, at_hand
from graphrag_core.query.fuse import Fusion
from graphrag_core.query.strategy import GraphStrategy
from graphrag_core.retriever import Method
from llama_graphrag.embedding import LlamaEmbedder
from llama_graphrag.events import GraphRAGRetrievalEvent, dispatcher
from llama_graphrag.filters import to_where
from llama_graphrag.nodes import to_nodes

_log = logging.getLogger(__name__)


class Asking(BaseRetriever):
    """The half of :class:`~llama_graphrag.GraphRAGRetriever` that answers."""

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
        use_graph: bool = True,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__(callback_manager, object_map, objects, verbose)
        self._core = GraphRetriever(
            index, method=method, k=similarity_top_k, graph=graph, fusion=fusion, gate=gate, **settings
        )
        self.filters = filters
        self.use_graph = use_graph

    @property
    def index(self) -> KnowledgeIndex:
        """The core's index."""
        return self._core.index

    @property
    def similarity_top_k(self) -> int:
        """How many nodes come back."""
        return self._core.k

    @similarity_top_k.setter
    def similarity_top_k(self, count: int) -> None:
        self._core.k = count

    @property
    def filters(self) -> MetadataFilters | None:
        """Which nodes may be seen."""
        return self._filters

    @filters.setter
    def filters(self, filters: MetadataFilters | None) -> None:
        to_where(filters)  # refuses at once what a query would refuse
        self._filters = filters

    def search(self, query: QueryType, **settings: Any) -> Result:
        """Return the core's whole answer: hits with paths, facts, entities, ``context()``, ``explain()``.

        Parameters
        ----------
        query
            A question, or a bundle whose ``embedding`` or ``embedding_strs`` are honoured.
        settings
            ``k``, ``method``, ``where``, ``use_graph``, ``min_graph_score`` in place of the retriever's own.
        """
        return self._tell(self._ask(_bundled(query), None, settings))

    async def asearch(self, query: QueryType, **settings: Any) -> Result:
        """Return what :meth:`search` does; the question is embedded on the event loop, the rest done off it."""
        bundle, ready = _bundled(query), None
        if (embedder := self._embedder(bundle, settings)) is not None:
            ready = await embedder.ask(bundle)
        return self._tell(await asyncio.to_thread(self._ask, bundle, ready, settings))

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return to_nodes(self.search(query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await asyncio.to_thread(to_nodes, await self.asearch(query_bundle))

    def _ask(self, bundle: QueryBundle, ready: Ready | None, settings: dict[str, Any]) -> Result:
        own = {"where": to_where(self.filters), "use_graph": self.use_graph}
        given: Any = bundle.embedding
        if ready is None and bundle.custom_embedding_strs and (embedder := self._embedder(bundle, settings)):
            ready = embedder.blend(bundle)
        if ready is not None and bundle.custom_embedding_strs:
            given = ready.vector  # another than the question's own, and not to be remembered as that
        with at_hand(ready):
            return self._core.retrieve(bundle.query_str, embedding=given, **{**own, **settings})

    def _embedder(self, bundle: QueryBundle, settings: dict[str, Any]) -> LlamaEmbedder | None:
        """Return what a question has to be embedded with, if it has to be."""
        if bundle.embedding is not None or (settings.get("method") or self._core.method) == "keyword":
            return None
        embedder = self.index.embedding.embedder if self.index.embedding else None
        return embedder if isinstance(embedder, LlamaEmbedder) else None

    def _tell(self, result: Result) -> Result:
        if result.fallback:
            _log.warning("%s", result.fallback)
        dispatcher.event(GraphRAGRetrievalEvent.of(result))
        return result


def _bundled(query: QueryType) -> QueryBundle:
    return QueryBundle(query) if isinstance(query, str) else query
