"""The graph memory through the LlamaIndex adapter."""

from __future__ import annotations

import pytest
from llama_index.core.schema import MetadataMode, TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

from graphrag_core.designs import MEMORY
from graphrag_core.errors import InputError
from graphrag_core.testing import HashEmbedder
from llama_graphrag import GraphRAGRetriever, memory_tools

ADA = {"user": "ada"}


@pytest.fixture
def memory():
    filters = MetadataFilters(filters=[MetadataFilter(key="user", value="ada")])
    note = TextNode(id_="note", text="An unrelated note.", metadata=ADA)
    with GraphRAGRetriever.from_nodes(
        [note], HashEmbedder(), embed_names=True, filters=filters, graph=MEMORY.graph,
        method="graph",
    ) as retriever:  # fmt: skip
        yield retriever


def test_the_tools_write_and_read_one_memory(memory):
    tools = {tool.metadata.name: tool for tool in memory_tools(memory)}
    assert list(tools) == ["memory_search", "memory_remember", "memory_confirm", "memory_reject", "memory_forget"]
    said = tools["memory_remember"].call(subject="User", relation="prefers", object="Green Tea").content
    (fact,) = memory.index.memory.facts()
    assert said == f"Remembered (staged): User prefers Green Tea ({fact.chunk_id})"
    assert (fact.source, memory.index.get(fact.chunk_id).metadata["user"]) == ("conversation", "ada")
    assert fact.chunk_id in tools["memory_search"].call(query="What does the User prefer?").content
    assert tools["memory_confirm"].call(fact_id=fact.chunk_id).content == "Confirmed: User prefers Green Tea"
    assert memory.index.memory.facts(status="confirmed")
    assert tools["memory_reject"].call(fact_id=fact.id).content == "Rejected: User prefers Green Tea"
    assert "Green Tea" not in tools["memory_search"].call(query="What does the User prefer?").content
    assert tools["memory_forget"].call(fact_id=fact.chunk_id).content == f"Forgotten: {fact.chunk_id}"
    assert memory.index.memory.facts() == []


async def test_the_tools_keep_to_their_scope(memory):
    theirs = memory.index.memory.remember("User", "prefers", "Coffee", metadata={"user": "bob"})
    tools = {tool.metadata.name: tool for tool in memory_tools(memory)}
    for name in ("memory_confirm", "memory_reject", "memory_forget"):
        with pytest.raises(InputError, match="there is no fact"):
            await tools[name].acall(fact_id=theirs.chunk_id)
    assert [fact.status for fact in memory.index.memory.facts()] == ["confirmed"]


async def test_a_query_can_be_asked_as_of_a_time(memory):
    memory.index.memory.remember("Ada", "works_at", "Acme", valid_from="2019-01-01", metadata=ADA)
    memory.index.memory.remember("Ada", "works_at", "Globex", valid_from="2022-01-01", supersedes=True, metadata=ADA)
    assert memory.search("Ada", as_of="2020-01-01").hits[0].chunk.text == "Ada works at Acme"
    assert memory.retrieve("Ada")[0].text == "Ada works at Globex"
    then = GraphRAGRetriever(memory.index, memory.settings, filters=memory.filters, as_of="2020-01-01")
    (found,) = await then.aretrieve("Ada")
    assert found.text == "Ada works at Acme"
    assert "graphrag_fact" not in found.node.get_content(MetadataMode.LLM), "the record is not for the model"


async def test_warming_counts_no_access(memory):
    memory.index.memory.remember("User", "prefers", "Green Tea", metadata=ADA)
    assert memory.warm(["User"]) == 1
    assert memory.warm(1, background=True).result(120) == 1
    assert await memory.awarm(["User"]) == 1
    assert [fact.access_count for fact in memory.index.graph.facts("User")] == [0]
    assert list(memory.search("user").trace.stages) == ["cache"]
    assert [fact.access_count for fact in memory.index.graph.facts("User")] == [1]
