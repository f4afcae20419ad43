"""``memory_search``: the retriever as a tool that an agent calls."""

from __future__ import annotations

import asyncio

from llama_index.core.bridge.pydantic import BaseModel, Field
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import FunctionTool

from graphrag_core import Result
from graphrag_core.query import memory
from graphrag_core.query.context import Style
from llama_graphrag.nodes import to_nodes
from llama_graphrag.retriever import GraphRAGRetriever


class MemorySearch(BaseModel):
    """What an agent may ask for."""

    query: str = Field(description=memory.QUERY)
    max_results: int = Field(memory.MAX_RESULTS, ge=1, le=100, description=memory.HOW_MANY)
    use_graph: bool = Field(default=True, description=memory.WITH_GRAPH)
    min_graph_score: float = Field(memory.MIN_GRAPH_SCORE, ge=0, le=1, description=memory.HOW_STRONG)


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
    name: str = memory.NAME,
    description: str = memory.DESCRIPTION,
    max_tokens: int = memory.MAX_TOKENS,
    style: Style = "passages",
    return_direct: bool = False,
) -> FunctionTool:
    """Return a tool with which an agent searches a retriever's index.

    The tool takes ``query``, ``max_results``, ``use_graph`` and ``min_graph_score``. Its
    output's ``content`` is the context, its ``raw_output`` the nodes with their scores.

    Parameters
    ----------
    retriever
        What to search. Its filters hold whatever the agent asks, so a retriever of one tenant
        makes a tool of one tenant.
    name, description
        What the model reads.
    max_tokens, style
        Of the context, as :meth:`graphrag_core.Result.context` takes them.
    return_direct
        Whether the context is the agent's answer.
    """

    def remember(result: Result) -> Memories:
        context = result.context(max_tokens=max_tokens, style=style) if result.hits else memory.NOTHING
        return Memories(to_nodes(result), str(context))

    def search(
        query: str,
        max_results: int = memory.MAX_RESULTS,
        use_graph: bool = True,
        min_graph_score: float = memory.MIN_GRAPH_SCORE,
    ) -> Memories:
        found = retriever.search(query, k=max_results, use_graph=use_graph, min_graph_score=min_graph_score)
        return remember(found)

    async def asearch(
        query: str,
        max_results: int = memory.MAX_RESULTS,
        use_graph: bool = True,
        min_graph_score: float = memory.MIN_GRAPH_SCORE,
    ) -> Memories:
        found = await retriever.asearch(query, k=max_results, use_graph=use_graph, min_graph_score=min_graph_score)
        return await asyncio.to_thread(remember, found)

    return FunctionTool.from_defaults(
        fn=search,
        async_fn=asearch,
        name=name,
        description=description,
        fn_schema=MemorySearch,
        return_direct=return_direct,
        callback=str,
    )
