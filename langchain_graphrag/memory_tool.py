"""``create_memory_search_tool``: the retriever as a tool for agents."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from inspect import signature
from typing import Any, NamedTuple

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.runnables.config import RunnableConfig, ensure_config, run_in_executor
from langchain_core.tools import StructuredTool, ToolException
from typing_extensions import Unpack

from graphrag_core import Result
from graphrag_core.context.escape import one_line
from graphrag_core.errors import InputError
from graphrag_core.filters import Where
from graphrag_core.query import memory_tool
from graphrag_core.query.memory_tool import OfRequest, per_request
from langchain_graphrag.retriever import GraphRAGRetriever


class AgentRequest(NamedTuple):
    """What a function for ``filter`` gets: the request that an agent serves.

    Attributes
    ----------
    context
        ``context`` of the call of the agent, as in LangGraph's ``Runtime``. None if the call has none.
    config
        The ``RunnableConfig`` of the call.
    """

    context: Any
    config: RunnableConfig


def create_memory_search_tool(
    retriever: GraphRAGRetriever,
    *,
    name: str = memory_tool.NAME,
    description: str = memory_tool.DESCRIPTION,
    filter: Where | OfRequest | None = None,  # noqa: A002 - LangChain's word
    **context: Unpack[memory_tool.ContextArguments],
) -> StructuredTool:
    """Return a tool that lets an agent search a retriever's index.

    The tool takes ``query``, ``max_results``, ``use_graph`` and ``min_graph_score``. Its content is the context, its
    artifact the list of documents. Invalid arguments are reported to the agent and do not end its run.

    Parameters
    ----------
    retriever
        The retriever to search. Its filters apply to every call of the agent.
    name, description
        Shown to the model.
    filter
        Narrows the retriever's filters. A function of the request if one agent serves all users, as for
        :class:`~langchain_graphrag.agents.RetrieveMiddleware`.
    context
        Arguments of :meth:`graphrag_core.Result.context`.
    """
    if not isinstance(retriever, GraphRAGRetriever):
        raise InputError(f"expected a GraphRAGRetriever, got {type(retriever).__qualname__}")
    signature(Result.context).bind(None, **context)
    where_of = per_request(filter, "filter of the memory search tool")

    def settings_of(config: RunnableConfig, arguments: dict[str, Any]) -> dict[str, Any]:
        where = where_of(_current_request(config))  # what it raises ends the run
        return {"filter": where, **memory_tool.search_settings(arguments, retriever.settings)}

    def to_output(found: Any) -> tuple[str, list[Document]]:
        return memory_tool.to_content(found.result, context), [*found]

    def search(
        query: str, config: RunnableConfig, callbacks: Callbacks = None, **arguments: Any
    ) -> tuple[str, list[Document]]:
        settings = settings_of(config, arguments)
        with _reported_errors():
            return to_output(retriever.invoke(query, {"callbacks": callbacks}, **settings))

    async def asearch(
        query: str, config: RunnableConfig, callbacks: Callbacks = None, **arguments: Any
    ) -> tuple[str, list[Document]]:
        settings = settings_of(config, arguments)
        with _reported_errors():
            found = await retriever.ainvoke(query, {"callbacks": callbacks}, **settings)
            return await run_in_executor(None, to_output, found)

    return StructuredTool(
        name=name,
        description=description,
        func=search,
        coroutine=asearch,
        args_schema=memory_tool.search_arguments(),
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=True,
    )


def _current_request(config: RunnableConfig) -> AgentRequest:
    """Return the request in which a tool is called; ``config`` is the one that LangChain passed."""
    context = None
    if langgraph := sys.modules.get("langgraph.runtime"):  # without it nothing runs in LangGraph
        with suppress(AttributeError, KeyError, RuntimeError):  # this call does not
            context = langgraph.get_runtime().context
    return AgentRequest(context, ensure_config(config))


@contextmanager
def _reported_errors() -> Iterator[None]:
    """Report invalid input to the agent instead of ending its run."""
    try:
        yield
    except InputError as error:
        raise ToolException(one_line(str(error))) from error
