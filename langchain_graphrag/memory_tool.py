"""``create_memory_search_tool`` and ``create_memory_tools``: the retriever and its index as tools for agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.tools import StructuredTool, ToolException
from pydantic import BaseModel, Field

from graphrag_core.context import Style, one_line
from graphrag_core.errors import InputError
from graphrag_core.filters import parse_all
from graphrag_core.model import FactSource
from graphrag_core.query import memory_tool
from langchain_graphrag.documents import RetrievedDocuments
from langchain_graphrag.retriever import Filter, GraphRAGRetriever


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


def create_memory_search_tool(
    retriever: GraphRAGRetriever,
    *,
    name: str = memory_tool.NAME,
    description: str = memory_tool.DESCRIPTION,
    max_tokens: int = memory_tool.MAX_TOKENS,
    style: Style = "passages",
    include_relationships: bool | None = None,
    include_sources: bool = True,
    filter: Filter | None = None,  # noqa: A002 - LangChain's word
) -> StructuredTool:
    """Return a tool that lets an agent search a retriever's index.

    The tool takes ``query``, ``max_results``, ``use_graph`` and ``min_graph_score``. Its content
    is the formatted context, its artifact the list of documents. Invalid arguments are
    reported to the agent and do not end its run.

    Parameters
    ----------
    retriever
        The retriever to search. Its ``filter``, and that in its ``search_kwargs``, apply to every call of the agent, so
        a retriever restricted to a tenant makes a tool restricted to that tenant.
    name, description
        Shown to the model.
    max_tokens, style, include_relationships, include_sources
        Passed to :meth:`graphrag_core.Result.context`.
    filter
        Narrows the retriever's filter.
    """
    if not isinstance(retriever, GraphRAGRetriever):
        raise InputError(f"expected a GraphRAGRetriever, got {type(retriever).__qualname__}")

    scope = parse_all(filter)  # read once, not by each call
    included = {"include_relationships": include_relationships, "include_sources": include_sources}

    def content_and_artifact(documents: list[Document]) -> tuple[str, list[Document]]:
        if not isinstance(documents, RetrievedDocuments):
            return memory_tool.NOTHING_FOUND, list(documents)
        content = memory_tool.to_content(documents.result, max_tokens=max_tokens, style=style, **included)
        return content, list(documents)

    def search(
        query: str,
        max_results: int = memory_tool.MAX_RESULTS,
        use_graph: bool = True,
        min_graph_score: float = memory_tool.MIN_GRAPH_SCORE,
        callbacks: Callbacks = None,
    ) -> tuple[str, list[Document]]:
        settings = {"k": max_results, "use_graph": use_graph, "min_graph_score": min_graph_score, "filter": scope}
        try:
            return content_and_artifact(retriever.invoke(query, {"callbacks": callbacks}, **settings))
        except InputError as error:
            raise ToolException(one_line(str(error))) from error

    async def asearch(
        query: str,
        max_results: int = memory_tool.MAX_RESULTS,
        use_graph: bool = True,
        min_graph_score: float = memory_tool.MIN_GRAPH_SCORE,
        callbacks: Callbacks = None,
    ) -> tuple[str, list[Document]]:
        settings = {"k": max_results, "use_graph": use_graph, "min_graph_score": min_graph_score, "filter": scope}
        try:
            return content_and_artifact(await retriever.ainvoke(query, {"callbacks": callbacks}, **settings))
        except InputError as error:
            raise ToolException(one_line(str(error))) from error

    return StructuredTool(
        name=name,
        description=description,
        func=search,
        coroutine=asearch,
        args_schema=MemorySearch,
        response_format="content_and_artifact",
        handle_tool_error=True,
        handle_validation_error=True,
    )


def create_memory_tools(
    retriever: GraphRAGRetriever,
    *,
    metadata: Mapping[str, Any] | None = None,
    source: FactSource = "conversation",
    **settings: Any,
) -> list[StructuredTool]:
    """Return the tools of a memory: ``memory_search``, and tools that remember, confirm, reject and forget facts.

    Facts that the agent remembers are staged until they are confirmed. The tools change told facts of their scope
    alone, and no document.

    Parameters
    ----------
    retriever
        The retriever to search, and whose index is written. Its ``filter`` applies to every search.
    metadata
        The scope of the facts, such as ``{"user": "ada"}``: facts of other scopes are neither found nor changed. By
        default what the retriever's filter asks for.
    source
        The source of the facts that the agent remembers.
    settings
        Those of :func:`create_memory_search_tool`.
    """
    writer = memory_tool.MemoryWriter.of(retriever.index, metadata, retriever.scope, source)
    search = create_memory_search_tool(retriever, filter=writer.searched, **settings)

    def tool(name: str, description: str, function: Callable[..., str], schema: type[BaseModel]) -> StructuredTool:
        @wraps(function)
        def run(**arguments: Any) -> str:
            try:
                return function(**arguments)
            except InputError as error:
                raise ToolException(one_line(str(error))) from error

        return StructuredTool(
            name=name,
            description=description,
            func=run,
            args_schema=schema,
            handle_tool_error=True,
            handle_validation_error=True,
        )

    return [
        search,
        tool(memory_tool.REMEMBER, memory_tool.REMEMBER_DESCRIPTION, writer.remember, Remember),
        tool(memory_tool.CONFIRM, memory_tool.CONFIRM_DESCRIPTION, writer.confirm, FactId),
        tool(memory_tool.REJECT, memory_tool.REJECT_DESCRIPTION, writer.reject, FactId),
        tool(memory_tool.FORGET, memory_tool.FORGET_DESCRIPTION, writer.forget, FactId),
    ]
