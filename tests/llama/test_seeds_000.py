"""The designs of the hybrid retriever and of the expansion queries, through LlamaIndex."""

from __future__ import annotations

import pytest
from llama_index.core.schema import TextNode
from llama_support import Hashed, ids
from seeds_000 import BLOCK, DOCUMENTS, QUESTION

from graphrag_core import GraphRetriever, KnowledgeExtractor, KnowledgeIndex
from graphrag_core.designs import HYBRID, KG2RAG
from graphrag_core.strategies import Additive, ContextFormat, Neighbourhood
from graphrag_core.testing import HashEmbedder
from llama_graphrag import GraphRAGRetriever, memory_search_tool


@pytest.fixture
def model():
    return Hashed()


@pytest.fixture
def index(model):
    nodes = [
        TextNode(id_=one.id, text=one.text, metadata=dict(one.metadata), excluded_embed_metadata_keys=["knowledge"])
        for one in DOCUMENTS
    ]
    with GraphRAGRetriever.from_nodes(nodes, model, extractor=KnowledgeExtractor()) as retriever:
        yield retriever.index


@pytest.fixture
def core():
    with KnowledgeIndex(HashEmbedder(), extractor=KnowledgeExtractor(), chunker=None, embed_names=False) as index:
        index.add(DOCUMENTS)
        yield index


PUBLISHED = {"settings": HYBRID}


def test_the_published_settings_return_what_the_core_returns(index, core):
    expected = GraphRetriever(core, k=2, **PUBLISHED).retrieve(QUESTION)
    retriever = GraphRAGRetriever(index, similarity_top_k=2, **PUBLISHED)
    found = retriever.retrieve(QUESTION)
    assert ids(found) == [hit.chunk.id for hit in expected.hits]
    assert [one.score for one in found] == [hit.score for hit in expected.hits]
    # Two of plain search and four that the graph adds.
    assert len(found) == 2 + 4
    assert set(ids(retriever.retrieve(QUESTION, use_graph=False))) <= set(ids(found))


def test_the_context_has_the_passages_and_the_block(index):
    retriever = GraphRAGRetriever(index, **PUBLISHED)
    assert BLOCK in retriever.search(QUESTION).context(2_000, style="both")
    tool = memory_search_tool(retriever, style="both", max_tokens=2_000)
    assert BLOCK in str(tool(query=QUESTION, min_graph_score=0.0))
    plain = str(tool(query=QUESTION, use_graph=False))
    assert "Knowledge Graph" not in plain
    assert "Related Entities" not in plain


def test_weights_inverses_and_additive_fusion_are_settings(index, core):
    for weights in ({"vector_weight": 1}, {"vector_weight": 0}, {"vector_weight": 0.25}):
        retriever = GraphRAGRetriever(index, similarity_top_k=7, use_graph=False, **weights)
        expected = GraphRetriever(core, **weights).retrieve("login pages", use_graph=False, k=7)
        assert ids(retriever.retrieve("login pages")) == [hit.chunk.id for hit in expected.hits]
    retriever = GraphRAGRetriever(index, context=ContextFormat(inverses={"implements": "realised_by"}))
    assert "OAuth Provider (realised_by, weight: 6)" in retriever.search("Google OAuth").context(500)
    additive = GraphRAGRetriever(index, similarity_top_k=2, graph=Neighbourhood(), fusion=Additive(max_chunks=1))
    assert len(additive.retrieve(QUESTION)) == 3


def test_expansion_queries_are_embedded_as_queries(index, model):
    retriever = GraphRAGRetriever(index, settings=KG2RAG, similarity_top_k=7)
    model.asked.clear()
    found = retriever.search(QUESTION)
    ways = {way for way, _ in model.asked}
    assert ways == {"query"}
    assert ("query", "Auth Service OAuth Provider") in model.asked
    expansions = {one.graph_expansion for one in found}
    assert "Auth Service OAuth Provider" in expansions


def test_why_the_graph_adds_nothing(index):
    retriever = GraphRAGRetriever(index, graph=Neighbourhood(relation_types=("eats",)))
    reason = "the graph adds nothing: Auth Service, OAuth Provider is linked to no entity by eats"
    assert retriever.search(QUESTION).expansion_skipped == reason
