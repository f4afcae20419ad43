"""What a pickled LlamaIndex retriever keeps."""

from __future__ import annotations

import pickle

import pytest
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.schema import TextNode
from llama_index.core.vector_stores import MetadataFilter, MetadataFilters

from graphrag_core.errors import ReadOnlyIndex
from graphrag_core.testing import HashEmbedder
from llama_graphrag import GraphRAGRetriever

QUESTION = "Who runs the OAuth Provider?"


def nodes() -> list[TextNode]:
    return [
        TextNode(text="The Auth Service delegates to the OAuth Provider.", id_="auth", metadata={"team": "a"}),
        TextNode(text="The OAuth Provider is run by Mara Lindqvist.", id_="oauth", metadata={"team": "b"}),
    ]


@pytest.mark.parametrize("embedding", [HashEmbedder(), MockEmbedding(8)], ids=["core", "llama"])
def test_a_pickled_retriever_with_an_llm_keeps_its_settings(tmp_path, embedding):
    filters = MetadataFilters(filters=[MetadataFilter(key="team", value="b")])
    settings = {"similarity_top_k": 1, "filters": filters, "refresh_every": 5, "llm": MockLLM()}
    with (
        GraphRAGRetriever.from_nodes(nodes(), embedding, path=tmp_path / "kb", **settings) as retriever,
        pickle.loads(pickle.dumps(retriever)) as copied,
    ):
        assert copied.similarity_top_k == 1
        assert copied.filters == filters
        assert copied.retrieve(QUESTION) == retriever.retrieve(QUESTION)
        with pytest.raises(ReadOnlyIndex, match="open it for writing"):
            copied.insert_nodes([TextNode(text="Something new.", id_="new")])
