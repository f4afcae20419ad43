"""The memory tools do not find what was told in another scope, and filters of a call narrow those of the retriever."""

from __future__ import annotations

import pytest
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from graphrag_core.errors import InputError
from graphrag_core.testing import HashEmbedder
from llama_graphrag import GraphRAGRetriever, LocalEmbedding, memory_tools


def make(**settings: object) -> GraphRAGRetriever:
    nodes = [
        TextNode(id_="policy", text="The User password policy asks for twelve letters.", metadata={"user": "ada"}),
        TextNode(id_="other", text="The User password policy of Bob is another one.", metadata={"user": "bob"}),
    ]
    return GraphRAGRetriever.from_nodes(nodes, LocalEmbedding(embedder=HashEmbedder()), **settings)


def test_a_filter_of_a_call_narrows_those_of_the_retriever():
    acme = MetadataFilters(filters=[MetadataFilter(key="user", value="ada")])
    retriever = make(filters=acme)
    assert [hit.chunk.id for hit in retriever.search("User password", where={"user": "bob"})] == []
    assert [hit.chunk.id for hit in retriever.search("User password", where={"user": "ada"})] == ["policy"]


def test_tools_of_a_retriever_restricted_by_ids_need_a_scope():
    retriever = make(node_ids=["policy"])
    with pytest.raises(InputError, match="metadata"):
        memory_tools(retriever)
    retriever.index.memory.remember("User", "password_is", "Hunter2", literal=True, metadata={"user": "bob"})
    assert "Hunter2" not in str(memory_tools(retriever, metadata={"user": "ada"})[0].call(query="User password"))
