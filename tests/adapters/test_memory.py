"""The graph memory (document 003) and the memory search tool through both adapters."""

from __future__ import annotations

import pytest

from graphrag_core import Document, GraphRetriever
from graphrag_core.designs import MEMORY
from graphrag_core.testing import CHAIN_QUESTION as QUESTION

ADA = {"user": "ada"}


@pytest.fixture
def memory(framework):
    settings = {"embed_names": True, "graph": MEMORY.graph, "method": "graph", **framework.where(**ADA)}
    with framework.build([Document("note", "An unrelated note.", "", ADA)], **settings) as retriever:
        yield retriever


async def test_a_query_can_be_asked_as_of_a_time(framework, memory):
    memory.index.memory.remember("Ada", "works_at", "Acme", valid_from="2019-01-01", metadata=ADA)
    memory.index.memory.remember("Ada", "works_at", "Globex", valid_from="2022-01-01", supersedes=True, metadata=ADA)
    assert framework.texts(framework.retrieve(memory, "Ada", as_of="2020-01-01"))[0] == "Ada works at Acme"
    assert framework.texts(await framework.aretrieve(memory, "Ada", as_of="2020-01-01"))[0] == "Ada works at Acme"
    assert framework.texts(framework.retrieve(memory, "Ada"))[0] == "Ada works at Globex"


# -- the search tool


def test_the_search_tool_is_described_for_a_model(framework, retriever):
    fields = framework.tool(retriever).schema()["properties"]
    assert {name: field.get("default") for name, field in fields.items()} == {
        "query": None,
        "max_results": 10,
        "use_graph": True,
        "min_graph_score": None,
    }
    assert all(field["description"] for field in fields.values())
    assert "strength" in fields["min_graph_score"]["description"]


async def test_the_search_tool_gives_the_context_and_the_results(framework, retriever):
    for settings, asked in (({}, {}), ({"max_results": 2, "use_graph": False}, {"k": 2, "use_graph": False})):
        result = GraphRetriever(retriever.index).retrieve(QUESTION, **{"k": 10, **asked})
        tool = framework.tool(retriever)
        for content, found in (tool.call(query=QUESTION, **settings), await tool.acall(query=QUESTION, **settings)):
            assert content == str(result.context(max_tokens=1_000, style="passages"))
            assert framework.ids(found) == [hit.chunk.id for hit in result.hits]
