"""``memory_search_tool`` and ``memory_tools``: the retriever and its index as tools for agents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llama_index.core.bridge.pydantic import BaseModel, Field
from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import FunctionTool
from llama_index.core.vector_stores.types import MetadataFilters

from graphrag_core import Result
from graphrag_core.context import Style
from graphrag_core.filters import Where, parse_all
from graphrag_core.model import FactSource
from graphrag_core.query import memory_tool
from llama_graphrag.filters import ids_where, to_where
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


class Remember(BaseModel):
    """The arguments of the tool that stores a fact."""

    subject: str = Field(description=memory_tool.SUBJECT_HELP)
    relation: str = Field(description=memory_tool.RELATION_HELP)
    object: str = Field(description=memory_tool.OBJECT_HELP)
    literal: bool = Field(default=False, description=memory_tool.LITERAL_HELP)
    supersedes: bool = Field(default=False, description=memory_tool.SUPERSEDES_HELP)
    valid_from: str | None = Field(None, description=memory_tool.VALID_FROM_HELP)
    valid_to: str | None = Field(None, description=memory_tool.VALID_TO_HELP)
    confidence: float = Field(1.0, ge=0, le=1, description=memory_tool.CONFIDENCE_HELP)


class FactId(BaseModel):
    """The argument of the tools that change a fact."""

    fact_id: str = Field(description=memory_tool.FACT_ID_HELP)


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
    include_relationships: bool | None = None,
    include_sources: bool = True,
    return_direct: bool = False,
    where: Where | None = None,
    filters: MetadataFilters | None = None,
    node_ids: Sequence[str] | None = None,
    doc_ids: Sequence[str] | None = None,
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
    max_tokens, style, include_relationships, include_sources
        Passed to :meth:`graphrag_core.Result.context`.
    return_direct
        Whether the context is the agent's final answer.
    where
        A filter in the form of :mod:`graphrag_core.filters` that narrows the retriever's filters.
    filters, node_ids, doc_ids
        Narrow the retriever's own, too.
    """
    scope = {"where": parse_all(where, to_where(filters), *ids_where(node_ids, doc_ids))}  # read once

    def to_memories(result: Result) -> Memories:
        context = memory_tool.to_content(
            result,
            max_tokens=max_tokens,
            style=style,
            include_relationships=include_relationships,
            include_sources=include_sources,
        )
        return Memories(to_nodes(result), context)

    def search(
        query: str,
        max_results: int = memory_tool.MAX_RESULTS,
        use_graph: bool = True,
        min_graph_score: float = memory_tool.MIN_GRAPH_SCORE,
    ) -> Memories:
        settings = {"k": max_results, "use_graph": use_graph, "min_graph_score": min_graph_score, **scope}
        return to_memories(retriever.search(query, **settings))

    async def asearch(
        query: str,
        max_results: int = memory_tool.MAX_RESULTS,
        use_graph: bool = True,
        min_graph_score: float = memory_tool.MIN_GRAPH_SCORE,
    ) -> Memories:
        settings = {"k": max_results, "use_graph": use_graph, "min_graph_score": min_graph_score, **scope}
        result = await retriever.asearch(query, **settings)
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


def memory_tools(
    retriever: GraphRAGRetriever,
    *,
    metadata: Mapping[str, Any] | None = None,
    source: FactSource = "conversation",
    **settings: Any,
) -> list[FunctionTool]:
    """Return the tools of a memory: ``memory_search``, and tools that remember, confirm, reject and forget facts.

    Facts that the agent remembers are staged until they are confirmed. The tools change told facts of their scope
    alone, and no node.

    Parameters
    ----------
    retriever
        The retriever to search, and whose index is written. Its filters apply to every search.
    metadata
        The scope of the facts, such as ``{"user": "ada"}``: facts of other scopes are neither found nor changed. By
        default what the retriever's filters ask for; one that is restricted by ``node_ids`` or ``doc_ids`` needs it.
    source
        The source of the facts that the agent remembers.
    settings
        Those of :func:`memory_search_tool`.
    """
    writer = memory_tool.MemoryWriter.of(retriever.index, metadata, retriever.scope, source)
    search = memory_search_tool(retriever, where=writer.searched, **settings)

    def tool(name: str, description: str, function: Callable[..., str], schema: type[BaseModel]) -> FunctionTool:
        return FunctionTool.from_defaults(fn=function, name=name, description=description, fn_schema=schema)

    return [
        search,
        tool(memory_tool.REMEMBER, memory_tool.REMEMBER_DESCRIPTION, writer.remember, Remember),
        tool(memory_tool.CONFIRM, memory_tool.CONFIRM_DESCRIPTION, writer.confirm, FactId),
        tool(memory_tool.REJECT, memory_tool.REJECT_DESCRIPTION, writer.reject, FactId),
        tool(memory_tool.FORGET, memory_tool.FORGET_DESCRIPTION, writer.forget, FactId),
    ]
