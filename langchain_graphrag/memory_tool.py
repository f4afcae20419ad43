"""``create_memory_search_tool``: the retriever as a tool for agents."""

from __future__ import annotations

from langchain_core.callbacks import Callbacks
from langchain_core.documents import Document
from langchain_core.tools import StructuredTool, ToolException
from pydantic import BaseModel, Field

from graphrag_core.context import Style
from graphrag_core.errors import InputError
from graphrag_core.query import memory_tool
from langchain_graphrag.documents import RetrievedDocuments
from langchain_graphrag.retriever import GraphRAGRetriever


class MemorySearch(BaseModel):
    """The arguments of the tool."""

    query: str = Field(description=memory_tool.QUERY_HELP)
    max_results: int = Field(memory_tool.MAX_RESULTS, ge=1, le=100, description=memory_tool.MAX_RESULTS_HELP)
    use_graph: bool = Field(default=True, description=memory_tool.USE_GRAPH_HELP)
    min_graph_score: float = Field(
        memory_tool.MIN_GRAPH_SCORE, ge=0, le=1, description=memory_tool.MIN_GRAPH_SCORE_HELP
    )


def create_memory_search_tool(
    retriever: GraphRAGRetriever,
    *,
    name: str = memory_tool.NAME,
    description: str = memory_tool.DESCRIPTION,
    max_tokens: int = memory_tool.MAX_TOKENS,
    style: Style = "passages",
) -> StructuredTool:
    """Return a tool that lets an agent search a retriever's index.

    The tool takes ``query``, ``max_results``, ``use_graph`` and ``min_graph_score``. Its content
    is the formatted context, its artifact the list of documents. Invalid arguments are
    reported to the agent and do not end its run.

    Parameters
    ----------
    retriever
        The retriever to search. Its ``filter`` applies to every call of the agent, so a
        retriever restricted to a tenant makes a tool restricted to that tenant.
    name, description
        Shown to the model.
    max_tokens, style
        Passed to :meth:`graphrag_core.Result.context`.
    """
    if not isinstance(retriever, GraphRAGRetriever):
        raise InputError(f"expected a GraphRAGRetriever, got {type(retriever).__qualname__}")

    def content_and_artifact(documents: list[Document]) -> tuple[str, list[Document]]:
        if not isinstance(documents, RetrievedDocuments) or not documents:
            return memory_tool.NOTHING_FOUND, list(documents)
        return str(documents.result.context(max_tokens=max_tokens, style=style)), list(documents)

    def search(
        query: str,
        max_results: int = memory_tool.MAX_RESULTS,
        use_graph: bool = True,
        min_graph_score: float = memory_tool.MIN_GRAPH_SCORE,
        callbacks: Callbacks = None,
    ) -> tuple[str, list[Document]]:
        settings = {"k": max_results, "use_graph": use_graph, "min_graph_score": min_graph_score}
        try:
            return content_and_artifact(retriever.invoke(query, {"callbacks": callbacks}, **settings))
        except InputError as error:
            raise ToolException(str(error)) from error

    async def asearch(
        query: str,
        max_results: int = memory_tool.MAX_RESULTS,
        use_graph: bool = True,
        min_graph_score: float = memory_tool.MIN_GRAPH_SCORE,
        callbacks: Callbacks = None,
    ) -> tuple[str, list[Document]]:
        settings = {"k": max_results, "use_graph": use_graph, "min_graph_score": min_graph_score}
        try:
            return content_and_artifact(await retriever.ainvoke(query, {"callbacks": callbacks}, **settings))
        except InputError as error:
            raise ToolException(str(error)) from error

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
