"""``GraphRAGRetriever``: the core behind LangChain's retriever interface."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import LangSmithRetrieverParams
from langchain_core.runnables.config import run_in_executor
from pydantic import PrivateAttr
from typing_extensions import override

from graphrag_core import Gate, GraphRetriever, Recogniser
from langchain_graphrag.documents import Found
from langchain_graphrag.embedder import Ready, at_hand
from langchain_graphrag.store import Indexed

_PARTS = ("graph", "fusion", "gate", "recogniser", "candidates")


class GraphRAGRetriever(Indexed):
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
        ``"hybrid"``, ``"vector"``, ``"keyword"`` or ``"graph"``.
    filter
        Which documents can be seen at all. A filter given with a call narrows it further.
    graph, fusion, gate, recogniser, candidates
        As for :class:`graphrag_core.GraphRetriever`; None takes the core's own.

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
    filter: Mapping[str, Any] | None = None
    graph: Any = None
    fusion: Any = None
    gate: Gate | None = None
    recogniser: Recogniser | None = None
    candidates: int = 100

    _core: tuple[tuple[Any, ...], GraphRetriever] | None = PrivateAttr(None)

    @override
    def model_post_init(self, context: Any, /) -> None:
        super().model_post_init(context)
        GraphRetriever(self.index, k=self.k, method=self.method)  # type: ignore[arg-type]
        self._retriever()

    @override
    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        method: str | None = None,
        filter: Mapping[str, Any] | None = None,
        use_graph: bool = True,
        min_graph_score: float | None = None,
    ) -> list[Document]:
        return self._find(query, None, k, method, filter, use_graph, min_graph_score)

    @override
    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        method: str | None = None,
        filter: Mapping[str, Any] | None = None,
        use_graph: bool = True,
        min_graph_score: float | None = None,
    ) -> list[Document]:
        embeds = (method or self.method) != "keyword"
        ready = await self._embedder.ask(query) if embeds and self._embedder else None
        return await run_in_executor(None, self._find, query, ready, k, method, filter, use_graph, min_graph_score)

    def _find(
        self,
        query: str,
        ready: Ready | None,
        k: int | None,
        method: str | None,
        filter: Mapping[str, Any] | None,
        use_graph: bool,
        min_graph_score: float | None,
    ) -> Found:
        filters = [one for one in (self.filter, filter) if one is not None]
        where = filters[0] if len(filters) == 1 else {"and": filters} if filters else None
        settings: dict[str, Any] = {} if min_graph_score is None else {"min_graph_score": min_graph_score}
        with at_hand(ready):
            result = self._retriever().retrieve(
                query,
                k=self.k if k is None else k,
                method=method or self.method,  # type: ignore[arg-type]
                where=where,
                use_graph=use_graph,
                **settings,
            )
        return Found(result)

    def _retriever(self) -> GraphRetriever:
        """Return the core's retriever; a new one when a field was changed."""
        parts = tuple(getattr(self, name) for name in _PARTS)
        if self._core is None or self._core[0] != parts:
            self._core = (parts, GraphRetriever(self.index, **dict(zip(_PARTS, parts, strict=True))))
        return self._core[1]

    @override
    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        params = super()._get_ls_params(**kwargs)
        if self.index.embedding is not None:
            source = self._embedder.embeddings if self._embedder else self.index.embedding.embedder
            params["ls_embedding_provider"] = type(source).__name__
            params["ls_embedding_model"] = self.index.embedding.identity
        return params
