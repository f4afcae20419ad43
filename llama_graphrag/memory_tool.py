"""``memory_search_tool`` and ``memory_tools``: the retriever and its index as tools for agents."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any

from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import FunctionTool
from llama_index.core.vector_stores.types import MetadataFilters
from llama_index.core.workflow import Context
from typing_extensions import Unpack

from graphrag_core import Result
from graphrag_core.errors import InputError
from graphrag_core.filters import Filter, Where, parse_all
from graphrag_core.model import FactSource
from graphrag_core.query import memory_tool
from graphrag_core.query.per_request import OfRequest
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
    where: Where | OfRequest | None = None,
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
        Narrow the retriever's filters; ``where`` has the form of :mod:`graphrag_core.filters`. If one agent serves all
        users, ``where`` is a function of the state of the run: ``where=lambda state: {"user": state["user"]}``, after
        ``await context.store.set("user", "ada")`` for the ``Context`` of the run. If it returns no filter, an empty
        one, or one with an empty value, the tool reports an error, and nothing is searched.
    context
        Arguments of :meth:`graphrag_core.Result.context`.
    """
    where_of = memory_tool.where_for(where, to_where(filters), *ids_where(node_ids, doc_ids))
    return _search_tool(retriever, where_of, callable(where), name, description, return_direct, **context)


def _search_tool(
    retriever: GraphRAGRetriever,
    where_of: Callable[[Any], Filter | None],
    needs_state: bool,
    name: str = memory_tool.NAME,
    description: str = memory_tool.DESCRIPTION,
    return_direct: bool = False,
    **context: Unpack[memory_tool.ContextArguments],
) -> FunctionTool:
    signature(Result.context).bind(None, **context)

    def to_memories(result: Result) -> Memories:
        return Memories(to_nodes(result, retriever.add_metadata), memory_tool.to_content(result, context, count_tokens))

    def search(where: Filter | None, query: str, **arguments: Any) -> Memories:
        result = retriever.search(query, where=where, **memory_tool.search_settings(arguments))
        return to_memories(result)

    async def asearch(where: Filter | None, query: str, **arguments: Any) -> Memories:
        result = await retriever.asearch(query, where=where, **memory_tool.search_settings(arguments))
        return await asyncio.to_thread(to_memories, result)

    tool = memory_tool.Tool(name, description, memory_tool.SEARCH_ARGUMENTS, search)
    return _to_tool(tool, where_of, needs_state, asearch, return_direct=return_direct, callback=str)


def memory_tools(
    retriever: GraphRAGRetriever,
    *,
    metadata: Mapping[str, Any] | OfRequest | None = None,
    source: FactSource = "conversation",
    where: Where | OfRequest | None = None,
    filters: MetadataFilters | None = None,
    node_ids: Sequence[str] | None = None,
    doc_ids: Sequence[str] | None = None,
    **settings: Any,
) -> list[FunctionTool]:
    """Return the tools of a memory: ``memory_search``, and tools that remember, confirm, reject and forget facts.

    Facts that the agent remembers are staged until they are confirmed. The tools change remembered facts of their scope
    alone, and no node. The filters and ``settings`` are those of :func:`memory_search_tool`.

    Parameters
    ----------
    metadata
        The scope of the facts, such as ``{"user": "ada"}``, or a function as for ``where``: facts of other scopes are
        neither found nor changed. By default what the retriever's filters ask for; one that is restricted by
        ``node_ids`` or ``doc_ids`` needs it. Other nodes are restricted by the filters alone.
    source
        The source of the facts that the agent remembers.
    """
    writer_of = memory_tool.writer_for(retriever.index, metadata, retriever.scope, source)
    where_of = memory_tool.where_for(where, to_where(filters), *ids_where(node_ids, doc_ids))
    search = _search_tool(
        retriever,
        lambda state: parse_all(where_of(state), writer_of(state).searched),
        callable(metadata) or callable(where),
        **settings,
    )
    return [search, *(_to_tool(tool, writer_of, callable(metadata)) for tool in memory_tool.WRITING_TOOLS)]


def _to_tool(
    tool: memory_tool.Tool,
    scope_of: Callable[[Any], Any],
    needs_state: bool,
    arun: Callable[..., Awaitable[Any]] | None = None,
    **more: Any,
) -> FunctionTool:
    """Return a tool of the framework. If it needs the state of the run, the agent passes its context."""

    def run(*given: Any, **arguments: Any) -> Any:
        return tool.run(scope_of(None), *given, **arguments)

    arun = arun or partial(asyncio.to_thread, tool.run)

    async def run_awaited(*given: Any, **arguments: Any) -> Any:
        return await arun(scope_of(None), *given, **arguments)

    async def run_in_context(*given: Any, ctx: Context | None = None, **arguments: Any) -> Any:
        if not isinstance(ctx, Context):
            raise InputError(f"{tool.name} is for one user: call it in an agent, which passes the context of the run")
        return await arun(scope_of(await ctx.store.get_state()), *given, **arguments)

    run_in_context.__annotations__["ctx"] = Context  # which LlamaIndex looks for, and not for its name
    functions = {"async_fn": run_in_context} if needs_state else {"fn": run, "async_fn": run_awaited}
    schema = memory_tool.arguments_model(tool.name, tool.arguments)
    return FunctionTool.from_defaults(
        **functions, name=tool.name, description=tool.description, fn_schema=schema, **more
    )
