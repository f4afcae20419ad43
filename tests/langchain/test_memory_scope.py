"""The scope of the memory tools, and the memory with an embedding model that is awaited."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from graphrag_core.errors import InputError
from graphrag_core.strategies import SpreadingActivation
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever, create_memory_tools


def test_the_scope_of_facts_includes_the_filter_in_search_kwargs():
    ada = {"search_kwargs": {"filter": {"user": "ada"}}}
    retriever = GraphRAGRetriever.from_documents([Document("A desk.", metadata={"user": "ada"})], HashEmbedder(), **ada)
    of_bob = retriever.index.memory.remember("Bob Stone", "likes", "Tea", metadata={"user": "bob"})
    search, remember, _, _, forget = create_memory_tools(retriever)
    remember.invoke({"subject": "Ada Brook", "relation": "likes", "object": "Coffee"})
    assert "Coffee" in search.invoke({"query": "What does Ada Brook like?"})
    assert "there is no fact" in forget.invoke({"fact_id": of_bob.chunk_id})


def test_a_filter_that_does_not_name_one_user_needs_the_metadata_of_facts():
    settings = {"filter": {"user": {"in": ["ada", "bob"]}}}
    refused = pytest.raises(InputError, match="metadata=")
    with GraphRAGRetriever.from_texts(["x"], HashEmbedder(), **settings) as retriever, refused:
        create_memory_tools(retriever)


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
