"""What LlamaIndex applications rely on: errors, filters of a call, settings changed later, metadata, subclasses."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters
from llama_support import QUESTION, ids

from graphrag_core.errors import EmbedderError, FilterError
from graphrag_core.testing import HashEmbedder
from llama_graphrag import GraphRAGRetriever, LocalEmbedding


def only(key, value, operator=FilterOperator.EQ) -> MetadataFilters:
    return MetadataFilters(filters=[MetadataFilter(key=key, value=value, operator=operator)])


# -- filters of a call


def test_filters_of_a_call_narrow_those_of_the_retriever(retriever):
    everything = set(ids(retriever.retrieve(QUESTION)))
    assert everything == {"auth", "oauth", "keyring", "lunch", "secret"}
    retriever = GraphRAGRetriever(retriever.index, filters=only("tenant", "acme"))
    calls = [
        ({"filters": only("tenant", "umbrella")}, set()),
        ({"filters": only("year", 2021)}, None),
        ({"node_ids": ["secret", "auth"]}, {"auth"}),
        ({"doc_ids": ["umbrella.md"]}, set()),
        ({"doc_ids": ["acme.md", "umbrella.md"], "node_ids": ["auth", "lunch"]}, {"auth", "lunch"}),
        ({"where": {"tenant": "umbrella"}}, set()),
        ({"node_ids": []}, set()),
        ({}, everything - {"secret"}),
    ]
    for settings, expected in calls:
        found = set(ids(retriever.retrieve(QUESTION, **settings)))
        assert found == set(ids(asyncio.run(retriever.aretrieve(QUESTION, **settings))))
        assert found == {hit.chunk.id for hit in retriever.search(QUESTION, **settings)}
        assert found == {hit.chunk.id for hit in asyncio.run(retriever.asearch(QUESTION, **settings))}
        assert "secret" not in found
        if expected is not None:
            assert found == expected, settings


def test_ids_are_parameters(nodes, model):
    retriever = GraphRAGRetriever.from_nodes(nodes, model, node_ids=["auth", "secret"], doc_ids=["acme.md"])
    assert ids(retriever.retrieve(QUESTION)) == ["auth"]
    retriever = GraphRAGRetriever(retriever.index, doc_ids=["acme.md"])
    assert len(retriever.retrieve(QUESTION)) == 4
    assert retriever.retrieve(QUESTION, k=1) != retriever.retrieve(QUESTION)
    for wrong in ("auth", 7, [7]):
        with pytest.raises(FilterError, match="node_ids"):
            GraphRAGRetriever(retriever.index, node_ids=wrong)
        with pytest.raises(FilterError, match="doc_ids"):
            retriever.retrieve(QUESTION, doc_ids=wrong)
    with pytest.raises(FilterError, match="where="):
        retriever.retrieve(QUESTION, filters={"tenant": "acme"})


# -- subclasses of the embedding


class Instructed(LocalEmbedding):
    def _get_query_embedding(self, query):
        return super()._get_query_embedding(f"Represent the query: {query}")


def test_a_subclass_of_the_local_embedding_is_honoured(nodes, tmp_path):
    class Seen(HashEmbedder):
        def __init__(self):
            super().__init__()
            self.seen = []

        def embed_query(self, text):
            self.seen.append(text)
            return super().embed_query(text)

    inner = Seen()
    with GraphRAGRetriever.from_nodes(nodes, Instructed(inner), path=tmp_path / "kb") as retriever:
        retriever.retrieve(QUESTION)
        asyncio.run(retriever.aretrieve("Where is Keyring?"))
        assert all(text.startswith("Represent the query: ") for text in inner.seen)
        assert len(inner.seen) == 2
        assert "Instructed" in retriever.index.embedding.identity
    with pytest.raises(EmbedderError, match="Instructed"):
        GraphRAGRetriever.from_persist_dir(tmp_path / "kb", LocalEmbedding(inner))
