"""A node postprocessor that adds facts of the graph."""

from __future__ import annotations

from typing import Any

from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import BaseNode, MetadataMode, NodeWithScore, QueryBundle

from graphrag_core.context.notes import graph_notes
from llama_graphrag.models import count_tokens

NOTE = "knowledge_graph"
"""The metadata key of what the graph adds to a node. The LLM sees it, the embedding does not."""


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
