"""The graph memory through the LangChain adapter."""

from __future__ import annotations

import pytest
from langchain_core.embeddings import Embeddings

from graphrag_core.designs import MEMORY
from graphrag_core.errors import InputError
from graphrag_core.strategies import SpreadingActivation
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever, create_memory_search_tool, create_memory_tools

ADA = {"user": "ada"}


@pytest.fixture
def memory():
    with GraphRAGRetriever.from_texts(
        ["An unrelated note."], HashEmbedder(), metadatas=[ADA], embed_names=True, filter=ADA,
        graph=MEMORY.graph, method="graph",
    ) as retriever:  # fmt: skip
        yield retriever


def test_the_tools_write_and_read_one_memory(memory):
    tools = {tool.name: tool for tool in create_memory_tools(memory)}
    assert list(tools) == ["memory_search", "memory_remember", "memory_confirm", "memory_reject", "memory_forget"]
    schema = tools["memory_remember"].tool_call_schema.model_json_schema()
    assert schema["required"] == ["subject", "relation", "object"]
    assert all(field["description"] for field in schema["properties"].values())
    said = tools["memory_remember"].invoke({"subject": "User", "relation": "prefers", "object": "Green Tea"})
    (fact,) = memory.index.memory.facts()
    assert said == f"Remembered (staged): User prefers Green Tea ({fact.chunk_id})"
    assert (fact.source, memory.index.get(fact.chunk_id).metadata["user"]) == ("conversation", "ada")
    assert fact.chunk_id in tools["memory_search"].invoke({"query": "What does the User prefer?"})
    assert tools["memory_confirm"].invoke({"fact_id": fact.chunk_id}) == "Confirmed: User prefers Green Tea"
    assert memory.index.memory.facts(status="confirmed")
    assert tools["memory_reject"].invoke({"fact_id": fact.id}) == "Rejected: User prefers Green Tea"
    assert "Green Tea" not in tools["memory_search"].invoke({"query": "What does the User prefer?"})
    again = tools["memory_remember"].invoke({"subject": "User", "relation": "prefers", "object": "Green Tea"})
    assert again.startswith("Not remembered, as it was rejected before")
    assert tools["memory_forget"].invoke({"fact_id": fact.chunk_id}) == f"Forgotten: {fact.chunk_id}"
    assert memory.index.memory.facts() == []


async def test_the_tools_keep_to_their_scope_and_report_mistakes(memory):
    theirs = memory.index.memory.remember("User", "prefers", "Coffee", metadata={"user": "bob"})
    tools = {tool.name: tool for tool in create_memory_tools(memory, metadata=ADA)}
    for name in ("memory_confirm", "memory_reject", "memory_forget"):
        assert "there is no fact" in await tools[name].ainvoke({"fact_id": theirs.chunk_id})
    assert "2024-05-01" in tools["memory_remember"].invoke(
        {"subject": "User", "relation": "moved", "object": "Lund", "valid_from": "soon"}
    )
    assert [fact.id for fact in memory.index.memory.facts(status="confirmed")] == [theirs.id]
    memory = memory.model_copy(update={"filter": {"user": {"in": ["ada", "bob"]}}})
    with pytest.raises(InputError, match="metadata="):
        create_memory_tools(memory)


async def test_a_query_can_be_asked_as_of_a_time(memory):
    memory.index.memory.remember("Ada", "works_at", "Acme", valid_from="2019-01-01", metadata=ADA)
    memory.index.memory.remember("Ada", "works_at", "Globex", valid_from="2022-01-01", supersedes=True, metadata=ADA)
    assert memory.invoke("Ada", as_of="2020-01-01")[0].page_content == "Ada works at Acme"
    assert (await memory.ainvoke("Ada", as_of="2020-01-01"))[0].page_content == "Ada works at Acme"
    assert memory.invoke("Ada")[0].page_content == "Ada works at Globex"


class AsyncEmbeddings(Embeddings):
    """A model with a coroutine of its own."""

    def __init__(self) -> None:
        self.model = HashEmbedder()

    def embed_documents(self, texts):
        return [list(map(float, vector)) for vector in self.model.embed_documents(texts)]

    def embed_query(self, text):
        return list(map(float, self.model.embed_query(text)))

    async def aembed_query(self, text):
        return self.embed_query(text)


async def test_warming_counts_no_access():
    with GraphRAGRetriever.from_texts(
        ["x"], AsyncEmbeddings(), embed_names=True, graph=SpreadingActivation(), method="graph"
    ) as retriever:
        retriever.index.memory.remember("User", "prefers", "Green Tea")
        assert retriever.warm(["User"]) == 1
        assert retriever.warm(1, background=True).result(120) == 1
        assert await retriever.awarm(["User"]) == 1
        assert [fact.access_count for fact in retriever.index.graph.facts("User")] == [0]
        assert list(retriever.search("User").trace.stages) == ["cache"]
        assert list((await retriever.asearch("user")).trace.stages) == ["cache"]
        assert [fact.access_count for fact in retriever.index.graph.facts("User")] == [1]


def test_the_agent_is_told_what_the_least_graph_score_compares():
    schema = create_memory_search_tool(GraphRAGRetriever.from_texts(["Ada."], HashEmbedder())).args
    assert "strength" in schema["min_graph_score"]["description"]
