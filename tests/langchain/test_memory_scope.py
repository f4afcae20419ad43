"""The memory tools do not find what was told in another scope."""

from __future__ import annotations

from langchain_core.documents import Document

from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever, create_memory_tools


def test_facts_of_another_scope_are_not_found_even_without_a_filter():
    shared = [Document("The User password policy asks for twelve letters.", id="policy")]
    retriever = GraphRAGRetriever.from_documents(shared, HashEmbedder())
    retriever.index.memory.remember("User", "password_is", "Hunter2", literal=True, metadata={"user": "bob"})
    retriever.index.memory.remember("User", "password_is", "Swordfish", literal=True, metadata={"user": "ada"})
    search = create_memory_tools(retriever, metadata={"user": "ada"})[0]
    answer = search.invoke({"query": "What is the User password?"})
    assert "Swordfish" in answer
    assert "twelve letters" in answer
    assert "Hunter2" not in answer


def test_the_scope_of_facts_includes_the_filter_in_search_kwargs():
    ada = {"search_kwargs": {"filter": {"user": "ada"}}}
    retriever = GraphRAGRetriever.from_documents([Document("A desk.", metadata={"user": "ada"})], HashEmbedder(), **ada)
    of_bob = retriever.index.memory.remember("Bob Stone", "likes", "Tea", metadata={"user": "bob"})
    search, remember, _, _, forget = create_memory_tools(retriever)
    remember.invoke({"subject": "Ada Brook", "relation": "likes", "object": "Coffee"})
    assert "Coffee" in search.invoke({"query": "What does Ada Brook like?"})
    assert "there is no fact" in forget.invoke({"fact_id": of_bob.chunk_id})
