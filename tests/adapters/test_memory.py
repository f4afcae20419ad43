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


async def test_warming_counts_no_access(framework, memory):
    memory.index.memory.remember("User", "prefers", "Green Tea", metadata=ADA)
    assert memory.warm(["User"]) == 1
    assert memory.warm(1, background=True).result(120) == 1
    assert [fact.access_count for fact in memory.index.graph.facts("User")] == [0]
    assert list(memory.search("User").trace.stages) == ["cache"]
    assert list((await memory.asearch("User")).trace.stages) == ["cache"]
    assert [fact.access_count for fact in memory.index.graph.facts("User")] == [0]


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


def test_the_search_tool_passes_on_what_the_agent_asks_for(framework, retriever):
    tool = framework.tool(framework.changed(retriever, add_metadata=["graphrag"]))
    _, found = tool.call(query=QUESTION, max_results=2, use_graph=False)
    assert len(found) == 2
    assert framework.metadata(found, "graphrag")[0]["expansion_skipped"] == "the graph was not used"
    strict, lax = (
        sum("graph" in details["channels"] for details in framework.metadata(found, "graphrag"))
        for found in (tool.call(query=QUESTION, min_graph_score=least)[1] for least in (1.0, 0.0))
    )
    assert strict < lax


def test_the_search_tool_stays_in_the_scope_of_the_retriever(framework, retriever):
    mine = framework.changed(retriever, **framework.where(tenant="acme"))
    content, found = framework.tool(mine).call(query="Who runs the OAuth Provider of Umbrella?")
    assert "Wesker" not in content
    assert "secret" not in framework.ids(found)
