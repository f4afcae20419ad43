"""The ``memory_search`` tool."""

from __future__ import annotations

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document

from graphrag_core import GraphRetriever
from graphrag_core.errors import InputError
from graphrag_core.testing import CHAIN_QUESTION as QUESTION
from langchain_graphrag import GraphRAGRetriever, create_memory_search_tool


def call(**arguments):
    return {"name": "memory_search", "args": arguments, "id": "1", "type": "tool_call"}


@pytest.fixture
def tool(retriever):
    return create_memory_search_tool(retriever)


def test_is_described_for_a_model(tool):
    assert tool.name == "memory_search"
    properties = tool.tool_call_schema.model_json_schema()["properties"]
    assert {name: field.get("default") for name, field in properties.items()} == {
        "query": None,
        "max_results": 10,
        "use_graph": True,
        "min_graph_score": 0.3,
    }
    assert all(field["description"] for field in properties.values())


async def test_gives_the_context_and_the_documents(tool, retriever):
    result = GraphRetriever(retriever.index).retrieve(QUESTION, k=10, **{"gate.min_graph_score": 0.3})
    for message in (tool.invoke(call(query=QUESTION)), await tool.ainvoke(call(query=QUESTION))):
        assert message.content == str(result.context(max_tokens=1_000, style="passages"))
        assert [document.id for document in message.artifact] == [hit.chunk.id for hit in result.hits]
        assert all(isinstance(document, Document) for document in message.artifact)
        assert type(message.artifact) is list


def test_called_as_a_function_gives_the_context(tool):
    assert "OAuth Provider" in tool.invoke({"query": QUESTION})


async def test_passes_on_what_the_agent_asks_for(retriever):
    tool = create_memory_search_tool(retriever.model_copy(update={"add_metadata": ["graphrag"]}))
    for message in (
        tool.invoke(call(query=QUESTION, max_results=2, use_graph=False)),
        await tool.ainvoke(call(query=QUESTION, max_results=2, use_graph=False)),
    ):
        assert len(message.artifact) == 2
        details = message.artifact[0].metadata["graphrag"]
        assert details["expansion_skipped"] == "the graph was not used"
    strict = tool.invoke(call(query=QUESTION, min_graph_score=1.0)).artifact
    lax = tool.invoke(call(query=QUESTION, min_graph_score=0.0)).artifact
    assert sum("graph" in d.metadata["graphrag"]["channels"] for d in strict) < sum(
        "graph" in d.metadata["graphrag"]["channels"] for d in lax
    )


def test_says_when_there_is_nothing(retriever):
    mine = GraphRAGRetriever(index=retriever.index, filter={"tenant": "nobody"})
    message = create_memory_search_tool(mine).invoke(call(query=QUESTION))
    assert message.content == "Nothing was found. No document matches the filter: check its keys and values."
    assert message.artifact == []


def test_stays_in_the_retrievers_scope(retriever):
    mine = GraphRAGRetriever(index=retriever.index, filter={"tenant": "acme"})
    message = create_memory_search_tool(mine).invoke(call(query="Who runs the OAuth Provider of Umbrella?"))
    assert "Wesker" not in message.content
    assert "secret" not in [document.id for document in message.artifact]


def test_takes_another_name_style_and_budget(retriever):
    tool = create_memory_search_tool(retriever, name="look", description="Looks.", style="graph", max_tokens=60)
    assert (tool.name, tool.description) == ("look", "Looks.")
    found = GraphRetriever(retriever.index).retrieve(QUESTION, k=10, **{"gate.min_graph_score": 0.3})
    assert tool.invoke({"query": QUESTION}) == str(found.context(max_tokens=60, style="graph"))


def test_needs_our_retriever():
    with pytest.raises(InputError, match="expected a GraphRAGRetriever, got str"):
        create_memory_search_tool("kb")


async def test_is_traced_with_the_search_inside(tool):
    class Listens(BaseCallbackHandler):
        def __init__(self):
            self.tools, self.searches = [], []

        def on_tool_start(self, serialized, text, *, run_id, **kwargs):
            self.tools.append(run_id)

        def on_retriever_start(self, serialized, query, *, parent_run_id=None, tags=None, **kwargs):
            self.searches.append((parent_run_id, tags))

    for run in ("invoke", "ainvoke"):
        listens = Listens()
        config = {"callbacks": [listens], "tags": ["call"]}
        if run == "invoke":
            tool.invoke(call(query=QUESTION), config)
        else:
            await tool.ainvoke(call(query=QUESTION), config)
        assert listens.searches == [(listens.tools[0], ["call"])]
