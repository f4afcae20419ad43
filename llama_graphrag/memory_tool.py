"""``memory_search_tool`` and ``memory_tools``: the retriever and its index as tools for agents."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import FunctionTool
from llama_index.core.vector_stores.types import MetadataFilters
from typing_extensions import Unpack

from graphrag_core import Result
from graphrag_core.filters import Where, parse_all
from graphrag_core.model import FactSource
from graphrag_core.query import memory_tool
from llama_graphrag.filters import ids_where, to_where
from llama_graphrag.models import count_tokens
from llama_graphrag.nodes import to_nodes
from llama_graphrag.retriever import GraphRAGRetriever


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
    return_direct: bool = False,
    where: Where | None = None,
    filters: MetadataFilters | None = None,
    node_ids: Sequence[str] | None = None,
    doc_ids: Sequence[str] | None = None,
    **context: Unpack[memory_tool.ContextArguments],
) -> FunctionTool:
    """Return a tool that lets an agent search a retriever's index.

    The tool takes ``query``, ``max_results``, ``use_graph`` and ``min_graph_score``. The ``content`` of its
    output is the context, the ``raw_output`` the nodes with their scores.

    Parameters
    ----------
    retriever
        The retriever to search. Its filters apply to every call of the agent.
    name, description
        Shown to the model.
    return_direct
        Whether the context is the agent's final answer.
    where, filters, node_ids, doc_ids
        Narrow the retriever's filters; ``where`` has the form of :mod:`graphrag_core.filters`.
    context
        Arguments of :meth:`graphrag_core.Result.context`.
    """
    signature(Result.context).bind(None, **context)
    where = parse_all(where, to_where(filters), *ids_where(node_ids, doc_ids))  # read once

    def to_memories(result: Result) -> Memories:
        return Memories(to_nodes(result, retriever.add_metadata), memory_tool.to_content(result, context, count_tokens))

    def search(query: str, **arguments: Any) -> Memories:
        result = retriever.search(query, where=where, **memory_tool.search_settings(arguments))
        return to_memories(result)

    async def asearch(query: str, **arguments: Any) -> Memories:
        result = await retriever.asearch(query, where=where, **memory_tool.search_settings(arguments))
        return await asyncio.to_thread(to_memories, result)

    tool = memory_tool.Tool(name, description, memory_tool.SEARCH_ARGUMENTS, search)
    return _to_tool(tool, async_fn=asearch, return_direct=return_direct, callback=str)


def memory_tools(
    retriever: GraphRAGRetriever,
    *,
    metadata: Mapping[str, Any] | None = None,
    source: FactSource = "conversation",
    **settings: Any,
) -> list[FunctionTool]:
    """Return the tools of a memory: ``memory_search``, and tools that remember, confirm, reject and forget facts.

    Facts that the agent remembers are staged until they are confirmed. The tools change remembered facts of their scope
    alone, and no node. ``settings`` as for :func:`memory_search_tool`.

    Parameters
    ----------
    metadata
        The scope of the facts, such as ``{"user": "ada"}``: facts of other scopes are neither found nor changed. By
        default what the retriever's filters ask for; one that is restricted by ``node_ids`` or ``doc_ids`` needs it.
    source
        The source of the facts that the agent remembers.
    """
    writer = memory_tool.MemoryWriter.of(retriever.index, metadata, retriever.scope, source)
    search = memory_search_tool(retriever, where=writer.searched, **settings)
    return [search, *map(_to_tool, writer.tools())]


def _to_tool(tool: memory_tool.Tool, **more: Any) -> FunctionTool:
    schema = memory_tool.arguments_model(tool.name, tool.arguments)
    return FunctionTool.from_defaults(
        fn=tool.run, name=tool.name, description=tool.description, fn_schema=schema, **more
    )
