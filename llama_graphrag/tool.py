"""``memory_search``: the retriever as a tool for LlamaIndex agents."""

from __future__ import annotations

from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import FunctionTool

from graphrag_core import Result
from llama_graphrag.nodes import to_nodes
from llama_graphrag.retriever import GraphRAGRetriever

_DESCRIPTION = (
    "Search memory and the knowledge graph for what is relevant to a question. "
    "Returns passages with the entities and relations that connect them."
)


class Memories(list[NodeWithScore]):
    """The nodes that were found; as a text, the context to give a model."""

    def __init__(self, nodes: list[NodeWithScore], context: str) -> None:
        super().__init__(nodes)
        self.context = context

    def __str__(self) -> str:
        return self.context


def memory_search_tool(
    retriever: GraphRAGRetriever,
    *,
    name: str = "memory_search",
    description: str = _DESCRIPTION,
    max_tokens: int = 2_000,
    return_direct: bool = False,
) -> FunctionTool:
    """Return a tool that an agent can search a retriever's memory with.

    Parameters
    ----------
    retriever
        What to search. Its filters hold: an agent cannot see past them.
    name, description
        What the agent's model is told.
    max_tokens
        How long the context may be.
    return_direct
        Whether the context is the agent's answer.

    The tool takes ``query``, ``max_results``, ``use_graph`` and ``min_graph_score``. Its
    output's ``content`` is the context, its ``raw_output`` the nodes with their scores.
    """

    def memories(result: Result) -> Memories:
        return Memories(to_nodes(result), str(result.context(max_tokens=max_tokens)))

    def memory_search(
        query: str, max_results: int = 10, use_graph: bool = True, min_graph_score: float = 0.3
    ) -> Memories:
        found = retriever.search(query, k=max_results, use_graph=use_graph, min_graph_score=min_graph_score)
        return memories(found)

    async def amemory_search(
        query: str, max_results: int = 10, use_graph: bool = True, min_graph_score: float = 0.3
    ) -> Memories:
        found = await retriever.asearch(query, k=max_results, use_graph=use_graph, min_graph_score=min_graph_score)
        return memories(found)

    return FunctionTool.from_defaults(
        fn=memory_search,
        async_fn=amemory_search,
        name=name,
        description=description,
        return_direct=return_direct,
        callback=str,
    )
