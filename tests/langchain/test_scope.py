"""Nothing that a retriever with a filter returns or changes is outside of it."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document

from graphrag_core.errors import InputError
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import (
    GraphRAGRetriever,
    create_memory_search_tool,
)

TENANTS = ("acme", "umbrella")


@pytest.fixture
def documents():
    return [
        Document(id=f"{tenant}-{number}", page_content=f"Keyring {number} of {tenant}.", metadata={"tenant": tenant})
        for tenant in TENANTS
        for number in range(3)
    ]


@pytest.fixture
def everything(documents):
    with GraphRAGRetriever.from_documents(documents, HashEmbedder()) as retriever:
        yield retriever


def tenants(documents):
    return {document.metadata["tenant"] for document in documents}


async def test_a_filter_is_read_when_it_is_set(everything):
    where = {"and": [{"tenant": {"nin": ["umbrella"]}}]}
    mine = GraphRAGRetriever(index=everything.index, filter=where, k=6)
    assigned, bound = everything.model_copy(update={"filter": where, "k": 6}), everything.bind(filter=where, k=6)
    tool = create_memory_search_tool(everything, filter=where)
    where["and"][0]["tenant"]["nin"].clear()
    for retriever in (mine, assigned, bound, mine.model_copy(update={"k": 5}), mine.model_copy()):
        assert tenants(retriever.invoke("Keyring")) == {"acme"}
        assert tenants(await retriever.ainvoke("Keyring")) == {"acme"}
    assert "umbrella" not in tool.invoke({"query": "Keyring", "max_results": 6})


def test_documents_outside_of_the_filter_are_neither_returned_nor_deleted(everything):
    mine = GraphRAGRetriever(index=everything.index, filter={"tenant": "acme"})
    ids = ["umbrella-0", "acme-1", "nobody", "umbrella-1#0", "acme-1"]
    assert [document.id for document in mine.get(ids)] == ["acme-1"]
    assert mine.delete(["umbrella-0", "umbrella-1"])["num_deleted"] == 0
    assert len(everything.index) == 6
    assert len(everything.get(["umbrella-0", "acme-0"])) == 2
    assert mine.delete(["acme-0", "umbrella-0"])["succeeded"] == ["acme-0"]


def test_from_vectorstore_takes_a_vector_store():
    wrong = pytest.raises(InputError, match="takes a LangChain VectorStore, not GraphRAGRetriever")
    with GraphRAGRetriever.from_documents([], None) as retriever, wrong:
        GraphRAGRetriever.from_vectorstore(retriever)
