"""``GraphRAGRetriever``: the core behind LangChain's retriever interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import LangSmithRetrieverParams
from langchain_core.runnables.config import run_in_executor
from pydantic import Field
from typing_extensions import override

from graphrag_core import Cache, Gate, GraphRetriever, Recogniser, Router
from graphrag_core.handed import Ready, at_hand
from langchain_graphrag.documents import Found
from langchain_graphrag.making import Made

Filter = Mapping[str, Any]
_FIELDS = ("k", "method", "graph", "fusion", "gate", "recogniser", "router", "candidates", "cache")


class GraphRAGRetriever(Made):
    """Finds documents by vector, keyword and knowledge graph together, and says why.

    Made with :meth:`from_documents`, :meth:`from_texts`, :meth:`from_graph_documents` or
    :meth:`load`; made directly, it searches an ``index`` that exists. Safe to use from many
    threads and tasks at once: each answer sees the documents of one moment.

    Parameters
    ----------
    index
        What is searched.
    k
        How many documents come back, where there are as many.
    method
        ``"hybrid"``, ``"vector"``, ``"keyword"``, ``"graph"`` or ``"agentic"``.
    filter
        Which documents can be seen at all. A filter given with a call narrows it further.
    graph, fusion, gate, recogniser, router, candidates
        As for :class:`graphrag_core.GraphRetriever`; None takes the core's own.
    cache
        What remembers results, one of its own unless given; None or False for no cache.

    Notes
    -----
    ``invoke``, ``ainvoke``, ``batch`` and ``abatch`` take ``k``, ``method``, ``filter``,
    ``use_graph`` and ``min_graph_score``. A filter is a mapping from metadata keys to values or
    operators (:mod:`graphrag_core.where`): ``{"tenant": "acme", "year": {"$gte": 2020}}``.

    A document comes back with the id and metadata it was put in with, its score in
    ``metadata["score"]`` and everything else that is known of it in ``metadata["graphrag"]``.
    Where its own metadata has one of these two keys, that value stands in
    ``metadata["graphrag"]["own"]``; ``filter`` and :meth:`get` see it in its place. Adding a
    document that was found takes off what was added.

    With a ``chunker`` what comes back is a passage: its id is ``"<document id>#<number>"``, and
    ``metadata["graphrag"]["document_id"]`` has the id that :meth:`delete` and :meth:`get` take.
    """

    k: int = 5
    method: str = "hybrid"
    filter: Filter | None = None
    graph: Any = None
    fusion: Any = None
    gate: Gate | None = None
    recogniser: Recogniser | None = None
    router: Router | None = None
    candidates: int = 100
    cache: Cache | bool | None = Field(default_factory=Cache)

    @override
    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        if isinstance(self.cache, bool):
            self.cache = Cache() if self.cache else None
        self._retriever()  # a setting that cannot be used is told here, not with the first question

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
    ) -> list[Document]:
        return self._find(query, None, self._asked(k, method, filter, use_graph, min_graph_score))

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
    ) -> list[Document]:
        embeds = (method or self.method) != "keyword"
        ready = await self._embedder.ask(query) if embeds and self._embedder else None
        asked = self._asked(k, method, filter, use_graph, min_graph_score)
        return await run_in_executor(None, self._find, query, ready, asked)

    def _asked(
        self, k: int | None, method: str | None, narrower: Filter | None, use_graph: bool, min_graph_score: float | None
    ) -> dict[str, Any]:
        filters = [one for one in (self.filter, narrower) if one is not None]
        where = filters[0] if len(filters) == 1 else {"and": filters} if filters else None
        return {
            "k": k,
            "method": method,
            "where": where,
            "use_graph": use_graph,
            "min_graph_score": min_graph_score,
        }

    def _find(self, query: str, ready: Ready | None, asked: Mapping[str, Any]) -> Found:
        with at_hand(ready):
            return Found(self._retriever().retrieve(query, **asked))

    def _retriever(self) -> GraphRetriever:
        """Return the core's retriever as the fields are now; the cache is all that it keeps."""
        return GraphRetriever(self.index, **{name: getattr(self, name) for name in _FIELDS})

    @override
    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        if self.index.embedding is not None:
            source = self._embedder.embeddings if self._embedder else self.index.embedding.embedder
            params["ls_embedding_provider"] = type(source).__name__
            params["ls_embedding_model"] = self.index.embedding.identity
        return params
