"""``memory_search_tool``: the retriever as a tool for agents."""

from __future__ import annotations

import asyncio
from inspect import signature
from typing import Any

from llama_index.core.schema import NodeWithScore
from llama_index.core.tools import FunctionTool
from llama_index.core.workflow import Context
from typing_extensions import Unpack

from graphrag_core import Result
from graphrag_core.errors import InputError
from graphrag_core.filters import Where
from graphrag_core.query import memory_tool
from graphrag_core.query.memory_tool import OfRequest, per_request
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
    where: Where | OfRequest | None = None,
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
    where
        Narrows the retriever's filters (:mod:`graphrag_core.filters`); for those of LlamaIndex pass
        ``retriever.with_filters(...)``. If one agent serves all users, a function of the state of the run:
        ``where=lambda state: {"user": state["user"]}``, after ``await context.store.set("user", "ada")`` for the
        ``Context`` of the run. If it returns no filter, an empty one, or one with an empty value, the tool reports an
        error, and nothing is searched.
    context
        Arguments of :meth:`graphrag_core.Result.context`.
    """
    signature(Result.context).bind(None, **context)
    where_of = per_request(where, "filter of the memory search tool")

    def settings_of(state: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"where": where_of(state), **memory_tool.search_settings(arguments, retriever.settings)}

    def to_memories(result: Result) -> Memories:
        return Memories(to_nodes(result, retriever.add_metadata), memory_tool.to_content(result, context))

    def search(query: str, **arguments: Any) -> Memories:
        return to_memories(retriever.search(query, **settings_of(None, arguments)))

    async def asearch(query: str, state: Any = None, **arguments: Any) -> Memories:
        result = await retriever.asearch(query, **settings_of(state, arguments))
        return await asyncio.to_thread(to_memories, result)

    async def asearch_in_context(query: str, ctx: Context | None = None, **arguments: Any) -> Memories:
        if not isinstance(ctx, Context):
            raise InputError(f"{name} is for one user: call it in an agent, which passes the context of the run")
        return await asearch(query, await ctx.store.get_state(), **arguments)

    asearch_in_context.__annotations__["ctx"] = Context  # which LlamaIndex looks for, and not for its name
    needs_context = callable(where)
    return FunctionTool.from_defaults(
        fn=None if needs_context else search,
        async_fn=asearch_in_context if needs_context else asearch,
        name=name,
        description=description,
        fn_schema=memory_tool.search_arguments(),
        callback=str,
    )
