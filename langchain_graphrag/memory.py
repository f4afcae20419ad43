"""``memory_search``: the retriever as a tool that an agent calls."""

from __future__ import annotations

from langchain_core.callbacks import Callbacks
from langchain_core.tools import StructuredTool, ToolException
from pydantic import BaseModel, Field

from graphrag_core.errors import InputError
from graphrag_core.query import memory
from graphrag_core.query.context import Style
from langchain_graphrag.documents import Found
from langchain_graphrag.retriever import GraphRAGRetriever


class MemorySearch(BaseModel):
    """What an agent may ask for."""

    query: str = Field(description=memory.QUERY)
    max_results: int = Field(memory.MAX_RESULTS, ge=1, le=100, description=memory.HOW_MANY)
    use_graph: bool = Field(default=True, description=memory.WITH_GRAPH)
    min_graph_score: float = Field(memory.MIN_GRAPH_SCORE, ge=0, le=1, description=memory.HOW_STRONG)


def create_memory_search_tool(
    retriever: GraphRAGRetriever,
    *,
    name: str = memory.NAME,
    description: str = memory.DESCRIPTION,
    max_tokens: int = memory.MAX_TOKENS,
    style: Style = "passages",
) -> StructuredTool:
    """Return a tool with which an agent searches a retriever's index.

    The tool takes ``query``, ``max_results``, ``use_graph`` and ``min_graph_score``. Its content
    is the formatted context, its artifact the documents.
    What an agent asks wrongly is told to the agent and does not end its run.

    Parameters
    ----------
    retriever
        What to search. Its ``filter`` holds whatever the agent asks, so a retriever of one
        tenant makes a tool of one tenant.
    name, description
        What the model reads.
    max_tokens, style
        Of the context, as :meth:`graphrag_core.Result.context` takes them.
    """
    if not isinstance(retriever, GraphRAGRetriever):
        raise InputError(f"a GraphRAGRetriever is needed, not {type(retriever).__qualname__}")

    def content(found: object) -> str:
        if not isinstance(found, Found) or not found:
            return memory.NOTHING
        return str(found.result.context(max_tokens=max_tokens, style=style))

    def search(
        query: str,
        max_results: int = memory.MAX_RESULTS,
        use_graph: bool = True,
        min_graph_score: float = memory.MIN_GRAPH_SCORE,
        callbacks: Callbacks = None,
    ) -> tuple[str, list[object]]:
        settings = {"k": max_results, "use_graph": use_graph, "min_graph_score": min_graph_score}
        try:
            found = retriever.invoke(query, {"callbacks": callbacks}, **settings)
        except InputError as error:
            raise ToolException(str(error)) from error
        return content(found), [*found]

    async def asearch(
        query: str,
        max_results: int = memory.MAX_RESULTS,
        use_graph: bool = True,
        min_graph_score: float = memory.MIN_GRAPH_SCORE,
        callbacks: Callbacks = None,
    ) -> tuple[str, list[object]]:
        settings = {"k": max_results, "use_graph": use_graph, "min_graph_score": min_graph_score}
        try:
            found = await retriever.ainvoke(query, {"callbacks": callbacks}, **settings)
        except InputError as error:
            raise ToolException(str(error)) from error
        return content(found), [*found]

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
