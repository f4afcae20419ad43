"""``memory_search_tool``: the retriever as a tool for agents."""

from __future__ import annotations

import asyncio

from llama_index.core.bridge.pydantic import BaseModel, Field
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import FunctionTool

from graphrag_core import Result
from graphrag_core.context import Style
from graphrag_core.query import memory_tool
from llama_graphrag.nodes import to_nodes
from llama_graphrag.retriever import GraphRAGRetriever


class MemorySearch(BaseModel):
    """The arguments of the tool."""

    query: str = Field(description=memory_tool.QUERY_HELP)
    max_results: int = Field(memory_tool.MAX_RESULTS, ge=1, le=100, description=memory_tool.MAX_RESULTS_HELP)
    use_graph: bool = Field(default=True, description=memory_tool.USE_GRAPH_HELP)
    min_graph_score: float = Field(
        memory_tool.MIN_GRAPH_SCORE, ge=0, le=1, description=memory_tool.MIN_GRAPH_SCORE_HELP
    )


class Memories(list[NodeWithScore]):
    """The retrieved nodes; converted to a string, the context for the model."""

    def __init__(self, nodes: list[NodeWithScore], context: str) -> None:
        super().__init__(nodes)
        self.context = context

    def __str__(self) -> str:
        return self.context


def memory_search_tool(
    retriever: GraphRAGRetriever,
    *,
    name: str = memory_tool.NAME,
    description: str = memory_tool.DESCRIPTION,
    max_tokens: int = memory_tool.MAX_TOKENS,
    style: Style = "passages",
    return_direct: bool = False,
) -> FunctionTool:
    """Return a tool that lets an agent search a retriever's index.

    The tool takes ``query``, ``max_results``, ``use_graph`` and ``min_graph_score``. The
    ``content`` of its output is the context, the ``raw_output`` the nodes with their scores.

    Parameters
    ----------
    retriever
        The retriever to search. Its filters apply to every call of the agent, so a retriever
        restricted to a tenant makes a tool restricted to that tenant.
    name, description
        Shown to the model.
    max_tokens, style
        Passed to :meth:`graphrag_core.Result.context`.
    return_direct
        Whether the context is the agent's final answer.
    """

    def to_memories(result: Result) -> Memories:
        context = result.context(max_tokens=max_tokens, style=style) if result.hits else memory_tool.NOTHING_FOUND
        return Memories(to_nodes(result), str(context))

    def search(
        query: str,
        max_results: int = memory_tool.MAX_RESULTS,
        use_graph: bool = True,
        min_graph_score: float = memory_tool.MIN_GRAPH_SCORE,
    ) -> Memories:
        result = retriever.search(query, k=max_results, use_graph=use_graph, min_graph_score=min_graph_score)
        return to_memories(result)

    async def asearch(
        query: str,
        max_results: int = memory_tool.MAX_RESULTS,
        use_graph: bool = True,
        min_graph_score: float = memory_tool.MIN_GRAPH_SCORE,
    ) -> Memories:
        result = await retriever.asearch(query, k=max_results, use_graph=use_graph, min_graph_score=min_graph_score)
        return await asyncio.to_thread(to_memories, result)

    return FunctionTool.from_defaults(
        fn=search,
        async_fn=asearch,
        name=name,
        description=description,
        fn_schema=MemorySearch,
        return_direct=return_direct,
        callback=str,
    )
