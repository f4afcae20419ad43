"""Node postprocessors of LlamaIndex (``LLMRerank``) as rerankers, and a postprocessor that adds facts of the graph."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle

from graphrag_core import Chunk
from graphrag_core.adapter import overrides
from graphrag_core.context.notes import graph_notes
from graphrag_core.errors import InputError
from graphrag_core.query.external_rerank import Returned, Scores, scores_of_returned
from graphrag_core.query.linear import Linear
from graphrag_core.query.rerank import ScoreReranker
from graphrag_core.query.reranker import Reranker
from llama_graphrag.models import count_tokens
from llama_graphrag.nodes import stored_node

NOTE = "knowledge_graph"
"""The metadata key of what the graph adds to a node. The LLM sees it, the embedding does not."""


def postprocessor_reranker(
    postprocessor: BaseNodePostprocessor, *, passages: int = 20, first: Reranker | None = None
) -> ScoreReranker:
    """Return a reranker that orders the best nodes with a LlamaIndex postprocessor.

    ``GraphRAGRetriever(..., reranker=postprocessor)`` does the same with the defaults. ``passages`` and ``first`` are
    those of :class:`graphrag_core.strategies.ScoreReranker`. The postprocessor gets nodes with 1 / rank as score. Nodes
    that it leaves out or has not seen are dropped, so set its ``top_n`` to at least ``similarity_top_k``. A node has
    the score of the postprocessor if it falls with the rank, otherwise 1 / rank. A postprocessor that changes texts or
    adds nodes cannot order nodes: pass it to a query engine as ``node_postprocessors=[...]``. ``aretrieve`` awaits the
    postprocessor's own coroutine; without one, the plain method runs in a thread.
    """
    if not isinstance(postprocessor, BaseNodePostprocessor):
        raise InputError(f"{postprocessor!r:.80} is not a node postprocessor: pass a LlamaIndex BaseNodePostprocessor")
    return ScoreReranker(_PostprocessorScores(postprocessor), passages, first or Linear())


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
        returned = [Returned(hit.node_id, hit.node.get_content(MetadataMode.NONE), hit.score) for hit in nodes]
        kind = type(self.postprocessor).__qualname__
        engine = f"RetrieverQueryEngine.from_args(retriever, node_postprocessors=[{kind}(...)])"
        return scores_of_returned(returned, texts, self.postprocessor, f"Pass it to a query engine instead: {engine}")


def _nodes(chunks: Sequence[Chunk]) -> tuple[list[NodeWithScore], dict[str, str]]:
    """Return passages as nodes, and their texts by id."""
    nodes = [NodeWithScore(node=stored_node(chunk), score=1 / rank) for rank, chunk in enumerate(chunks, 1)]
    return nodes, {node.node_id: node.node.get_content(MetadataMode.NONE) for node in nodes}


class GraphContextPostprocessor(BaseNodePostprocessor):
    """Adds the facts and paths that lead to retrieved nodes to what the LLM sees of them, within a token budget.

    Pass it as one of the ``node_postprocessors`` of a query engine or chat engine, and ``add_metadata=["graphrag"]`` to
    the retriever. Every fact is added once, to the first node that has it, under ``metadata["knowledge_graph"]``. The
    nodes that come in are not changed.

    Parameters
    ----------
    max_tokens
        The budget of all additions together.
    retriever
        Looks up facts for nodes without ``metadata["graphrag"]``: those that join two names which the nodes mention,
        within the retriever's filters. Without it such nodes are returned as they are.
    tokenizer
        Counts tokens, as for :meth:`graphrag_core.Result.context`; by default with LlamaIndex's tokenizer.
    """

    max_tokens: int = 300
    retriever: Any = None
    tokenizer: Any = None

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex knows the class."""
        return "GraphContextPostprocessor"

    def _postprocess_nodes(
        self,
        nodes: list[NodeWithScore],
        query_bundle: QueryBundle | None = None,  # noqa: ARG002 - LlamaIndex passes it
    ) -> list[NodeWithScore]:
        passages = [(hit.node.get_content(MetadataMode.NONE), hit.node.metadata.get("graphrag")) for hit in nodes]
        about = None if self.retriever is None else self.retriever.facts_about
        tokenizer = self.tokenizer or count_tokens
        notes = graph_notes(passages, max_tokens=self.max_tokens, tokenizer=tokenizer, facts_about=about)
        return [_with_note(hit.node, note, hit.score) if note else hit for hit, note in zip(nodes, notes, strict=True)]


def _with_note(node: BaseNode, note: str, score: float | None) -> NodeWithScore:
    hidden = [*node.excluded_embed_metadata_keys, NOTE]
    update = {"metadata": {**node.metadata, NOTE: f"\n{note}"}, "excluded_embed_metadata_keys": hidden}
    return NodeWithScore(node=node.model_copy(update=update), score=score)
