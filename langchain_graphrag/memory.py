"""``memory_search``: the retriever as a tool that an agent calls."""

from __future__ import annotations

from langchain_core.callbacks import Callbacks
from langchain_core.tools import StructuredTool, ToolException
from pydantic import BaseModel, Field

from graphrag_core.errors import InputError
from graphrag_core.query.context import Style
from langchain_graphrag.documents import Found
from langchain_graphrag.retriever import GraphRAGRetriever

_DESCRIPTION = (
    "Search memory and the knowledge graph for relevant information. "
    "Returns the passages that answer best, also those that only the graph leads to."
)
_NOTHING = "Nothing was found."


class MemorySearch(BaseModel):
    """What an agent may ask for."""

    query: str = Field(description="What to look for, in words; names help.")
    max_results: int = Field(10, ge=1, le=100, description="How many passages to return at most.")
    use_graph: bool = Field(default=True, description="Whether to follow the knowledge graph.")
    min_graph_score: float = Field(
        0.3, ge=0, le=1, description="Leave out what only the graph found with less than this score, from 0 to 1."
    )


def create_memory_search_tool(
    retriever: GraphRAGRetriever,
    *,
    name: str = "memory_search",
    description: str = _DESCRIPTION,
    max_tokens: int = 1_000,
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
            return _NOTHING
        return str(found.result.context(max_tokens=max_tokens, style=style))

    def search(
        query: str,
        max_results: int = 10,
        use_graph: bool = True,
        min_graph_score: float = 0.3,
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
        max_results: int = 10,
        use_graph: bool = True,
        min_graph_score: float = 0.3,
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
