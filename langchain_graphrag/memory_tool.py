"""``create_memory_search_tool`` and ``create_memory_tools``: the retriever and its index as tools for agents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from typing import Any, cast

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.runnables.config import RunnableConfig, run_in_executor
from langchain_core.tools import StructuredTool, ToolException
from typing_extensions import Unpack

from graphrag_core import Result
from graphrag_core.context.escape import one_line
from graphrag_core.errors import InputError
from graphrag_core.filters import Filter, Where, parse_all
from graphrag_core.model import FactSource
from graphrag_core.query import memory_tool
from graphrag_core.query.per_request import OfRequest
from langchain_graphrag.documents import to_documents
from langchain_graphrag.request import current_request
from langchain_graphrag.retriever import GraphRAGRetriever, atraced_search, traced_search


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
    return _search_tool(retriever, memory_tool.where_for(filter), name, description, **context)


def _search_tool(
    retriever: GraphRAGRetriever,
    where_of: Callable[[Any], Filter | None],
    name: str = memory_tool.NAME,
    description: str = memory_tool.DESCRIPTION,
    **context: Any,
) -> StructuredTool:
    signature(Result.context).bind(None, **context)

    def to_output(result: Result) -> tuple[str, list[Document]]:
        content = memory_tool.to_content(result, cast("memory_tool.ContextArguments", context))
        return content, [*to_documents(result, retriever.add_metadata)]

    def search(
        where: Filter | None, query: str, callbacks: Callbacks = None, **arguments: Any
    ) -> tuple[str, list[Document]]:
        settings = memory_tool.search_settings(arguments)
        result = traced_search(retriever, query, callbacks, filter=where, **settings)
        return to_output(result)

    async def asearch(
        query: str, config: RunnableConfig, callbacks: Callbacks = None, **arguments: Any
    ) -> tuple[str, list[Document]]:
        where, settings = where_of(current_request(config)), memory_tool.search_settings(arguments)
        with _reported_errors():
            result = await atraced_search(retriever, query, callbacks, filter=where, **settings)
            return await run_in_executor(None, to_output, result)

    tool = memory_tool.Tool(name, description, memory_tool.SEARCH_ARGUMENTS, search)
    return _to_tool(tool, where_of, coroutine=asearch, response_format="content_and_artifact")


def create_memory_tools(
    retriever: GraphRAGRetriever,
    *,
    metadata: Mapping[str, Any] | OfRequest | None = None,
    source: FactSource = "conversation",
    filter: Where | OfRequest | None = None,  # noqa: A002 - LangChain's word
    **settings: Any,
) -> list[StructuredTool]:
    """Return the tools of a memory: ``memory_search``, and tools that remember, confirm, reject and forget facts.

    Facts that the agent remembers are staged until they are confirmed. The tools change remembered facts of their scope
    alone, and no document. ``filter`` and ``settings`` as for :func:`create_memory_search_tool`.

    Parameters
    ----------
    metadata
        The scope of the facts, such as ``{"user": "ada"}``, or a function of the request: facts of other scopes are
        neither found nor changed. By default what the retriever's filters ask for. Documents are restricted by
        the filters alone.
    source
        The source of the facts that the agent remembers.
    """
    writer_of = memory_tool.writer_for(retriever.index, metadata, retriever.scope, source)
    where_of = memory_tool.where_for(filter)
    search = _search_tool(retriever, lambda one: parse_all(where_of(one), writer_of(one).searched), **settings)
    return [search, *(_to_tool(tool, writer_of) for tool in memory_tool.WRITING_TOOLS)]


def _to_tool(tool: memory_tool.Tool, scope_of: Callable[[Any], Any], **more: Any) -> StructuredTool:
    def run(config: RunnableConfig, **arguments: Any) -> Any:
        scope = scope_of(current_request(config))  # what it raises ends the run
        with _reported_errors():
            return tool.run(scope, **arguments)

    return StructuredTool(
        name=tool.name,
        description=tool.description,
        func=run,
        args_schema=memory_tool.arguments_model(tool.name, tool.arguments),
        handle_tool_error=True,
        handle_validation_error=True,
        **more,
    )


@contextmanager
def _reported_errors() -> Iterator[None]:
    """Report invalid input to the agent instead of ending its run."""
    try:
        yield
    except InputError as error:
        raise ToolException(one_line(str(error))) from error
