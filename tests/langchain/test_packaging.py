"""A folder serves both adapters."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document

from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever


def test_a_folder_of_the_llama_index_adapter_can_be_searched_and_the_other_way_round(tmp_path):
    schema = pytest.importorskip("llama_index.core.schema")
    llama_graphrag = pytest.importorskip("llama_graphrag")
    node = schema.TextNode(id_="auth", text="The Auth Service trusts the OAuth Provider.", metadata={"team": "id"})
    with llama_graphrag.GraphRAGRetriever.from_nodes([node], HashEmbedder(), path=tmp_path / "llama"):
        pass
    with GraphRAGRetriever.load(tmp_path / "llama", HashEmbedder()) as retriever:
        (document,) = retriever.invoke("Auth Service")
        assert (document.id, document.metadata["team"]) == ("auth", "id")
        assert "__graphrag__" not in document.metadata
    document = Document("The OAuth Provider runs.", id="oauth")
    with GraphRAGRetriever.from_documents([document], HashEmbedder(), path=tmp_path / "langchain"):
        pass
    with llama_graphrag.GraphRAGRetriever.from_persist_dir(tmp_path / "langchain", HashEmbedder()) as retriever:
        (found,) = retriever.retrieve("OAuth Provider")
        assert found.node_id == "oauth"
        assert "__graphrag__" not in found.node.metadata
