"""LlamaIndex's node postprocessors (``SentenceTransformerRerank``, ``LLMRerank``) as rerankers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle

from graphrag_core import Chunk, Coverage, ScoreReranker
from graphrag_core.errors import InputError, RerankerError
from graphrag_core.query.coverage import Reranker
from graphrag_core.query.rerank import scores_of_order
from llama_graphrag.nodes import stored_node

_Scores = list[float | None]
_T = TypeVar("_T")


def postprocessor_reranker(
    postprocessor: BaseNodePostprocessor, *, passages: int = 20, first: Reranker | None = None
) -> ScoreReranker:
    """Return a reranker that orders the best nodes with a LlamaIndex postprocessor.

    ``GraphRAGRetriever(..., reranker=postprocessor)`` does the same with the defaults. What the postprocessor returns
    comes first, in its order; what it leaves out is dropped, and so are the nodes that it has not seen. With
    ``top_n=2`` a query returns at most 2 nodes, so set it to at least ``similarity_top_k``. The score of a node is the
    postprocessor's if it falls with the rank, otherwise 1 / rank.

    A postprocessor that changes texts or adds nodes cannot order nodes: pass it to a query engine as
    ``node_postprocessors=[...]``.

    Parameters
    ----------
    postprocessor
        It gets the nodes as they were inserted, best first, with 1 / rank as score, and the query. ``aretrieve`` awaits
        its own coroutine on the event loop; without one, the plain method runs in a thread. An exception that it
        raises is not caught.
    passages
        How many nodes it gets, and at least as many as the query returns.
    first
        Orders the nodes before; :class:`graphrag_core.Coverage` by default.
    """
    if not isinstance(postprocessor, BaseNodePostprocessor):
        raise InputError(f"{postprocessor!r:.80} is not a node postprocessor: pass a LlamaIndex BaseNodePostprocessor")
    return ScoreReranker(_PostprocessorScores(postprocessor), passages, first or Coverage())


def to_reranker(reranker: Any) -> Any:
    """Return a postprocessor as a reranker of the core, and everything else as it is."""
    return postprocessor_reranker(reranker) if isinstance(reranker, BaseNodePostprocessor) else reranker


_awaited: ContextVar[dict[Hashable, _Scores] | None] = ContextVar("awaited", default=None)  # None: cannot await


class _Unscored(Exception):
    """Raised inside of a query in a thread: the event loop has to score these nodes first."""

    def __init__(self, key: Hashable, postprocess: Callable[[], Awaitable[_Scores]]) -> None:
        super().__init__("the scores have to be awaited")
        self.key = key
        self.postprocess = postprocess


def run_search(search: Callable[[], _T]) -> _T:
    """Run a search whose reranker must not be awaited."""
    token = _awaited.set(None)
    try:
        return search()
    finally:
        _awaited.reset(token)


async def arun_search(search: Callable[[], Awaitable[_T]]) -> _T:
    """Run a search in a thread whose reranker may have to be awaited.

    The query stops where it needs scores, which are awaited here, and runs again with them. No thread waits for the
    event loop, so any number of queries can run at once, and no snapshot of the index stays open meanwhile.
    """
    awaited: dict[Hashable, _Scores] = {}
    token = _awaited.set(awaited)
    try:
        while True:
            try:
                return await search()
            except _Unscored as unscored:
                missing = unscored
            awaited[missing.key] = await missing.postprocess()
    finally:
        _awaited.reset(token)


@dataclass(frozen=True)
class _PostprocessorScores:
    """Scores passages by the order in which a postprocessor returns them. Hashable if the postprocessor is."""

    postprocessor: BaseNodePostprocessor

    def __call__(self, question: str, chunks: Sequence[Chunk]) -> _Scores:
        awaited = _awaited.get()
        nodes = [NodeWithScore(node=stored_node(chunk), score=1 / rank) for rank, chunk in enumerate(chunks, 1)]
        texts = {node.node_id: node.node.get_content(MetadataMode.NONE) for node in nodes}
        bundle = QueryBundle(question)
        if awaited is None or not self._has_coroutine:
            return self._scores(texts, self.postprocessor.postprocess_nodes(nodes, query_bundle=bundle))

        async def postprocess() -> _Scores:
            return self._scores(texts, await self.postprocessor.apostprocess_nodes(nodes, query_bundle=bundle))

        key = (id(self.postprocessor), question, tuple((chunk.id, chunk.text) for chunk in chunks))
        if key not in awaited:
            raise _Unscored(key, postprocess)
        return awaited[key]

    @property
    def _has_coroutine(self) -> bool:
        """Whether the postprocessor implements a coroutine; LlamaIndex's default uses a thread."""
        names = ("apostprocess_nodes", "_apostprocess_nodes")
        kind, base = type(self.postprocessor), BaseNodePostprocessor
        return hasattr(base, names[0]) and any(getattr(kind, name) is not getattr(base, name) for name in names)

    def _scores(self, texts: dict[str, str], returned: Sequence[NodeWithScore]) -> _Scores:
        places = {name: place for place, name in enumerate(texts)}
        order = []
        for node in returned:
            if texts.get(node.node_id) != node.node.get_content(MetadataMode.NONE):
                known = node.node_id in texts
                kind = type(self.postprocessor).__qualname__
                problem = f"changed the text of {node.node_id!r}" if known else "returned a node that it was not given"
                raise RerankerError(
                    f"{kind} {problem}: a reranker may only order and drop nodes. Pass it to a query engine instead: "
                    f"RetrieverQueryEngine.from_args(retriever, node_postprocessors=[{kind}(...)])"
                )
            order.append(places[node.node_id])
        own = [None if node.score is None else float(node.score) for node in returned]
        return scores_of_order(order, own, len(texts))
