"""LlamaIndex's node postprocessors (``SentenceTransformerRerank``, ``LLMRerank``) as rerankers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle

from graphrag_core import Chunk
from graphrag_core.adapter import overrides
from graphrag_core.errors import InputError
from graphrag_core.query.coverage import Reranker
from graphrag_core.query.external_rerank import Returned, Scores, scores_of_returned
from graphrag_core.strategies import Coverage, ScoreReranker
from llama_graphrag.nodes import stored_node


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
        Orders the nodes before; :class:`graphrag_core.strategies.Coverage` by default.
    """
    if not isinstance(postprocessor, BaseNodePostprocessor):
        raise InputError(f"{postprocessor!r:.80} is not a node postprocessor: pass a LlamaIndex BaseNodePostprocessor")
    return ScoreReranker(_PostprocessorScores(postprocessor), passages, first or Coverage())


def to_reranker(reranker: Any) -> Any:
    """Return a postprocessor as a reranker of the core, and everything else as it is."""
    return postprocessor_reranker(reranker) if isinstance(reranker, BaseNodePostprocessor) else reranker


@dataclass(frozen=True)
class _PostprocessorScores:
    """Scores passages by the order in which a postprocessor returns them. Hashable if the postprocessor is."""

    postprocessor: BaseNodePostprocessor

    def __call__(self, question: str, chunks: Sequence[Chunk]) -> Scores:
        nodes, texts = _nodes(chunks)
        return self._scores(texts, self.postprocessor.postprocess_nodes(nodes, query_bundle=QueryBundle(question)))

    @property
    def ascore(self) -> Callable[[str, Sequence[Chunk]], Awaitable[Scores]] | None:
        """Awaits the postprocessor, if it has a coroutine."""
        names = ("apostprocess_nodes", "_apostprocess_nodes")
        return self._ascore if overrides(self.postprocessor, BaseNodePostprocessor, *names) else None

    async def _ascore(self, question: str, chunks: Sequence[Chunk]) -> Scores:
        nodes, texts = _nodes(chunks)
        ordered = await self.postprocessor.apostprocess_nodes(nodes, query_bundle=QueryBundle(question))
        return self._scores(texts, ordered)

    def _scores(self, texts: Mapping[str, str], nodes: Sequence[NodeWithScore]) -> Scores:
        returned = [
            Returned(
                node.node_id,
                node.node.get_content(MetadataMode.NONE),
                None if node.score is None else float(node.score),
            )
            for node in nodes
        ]
        kind = type(self.postprocessor).__qualname__
        instead = (
            "Pass it to a query engine instead: "
            f"RetrieverQueryEngine.from_args(retriever, node_postprocessors=[{kind}(...)])"
        )
        return scores_of_returned(returned, texts, self.postprocessor, instead)


def _nodes(chunks: Sequence[Chunk]) -> tuple[list[NodeWithScore], dict[str, str]]:
    """Return passages as nodes, and their texts by id."""
    nodes = [NodeWithScore(node=stored_node(chunk), score=1 / rank) for rank, chunk in enumerate(chunks, 1)]
    return nodes, {node.node_id: node.node.get_content(MetadataMode.NONE) for node in nodes}
