"""The designs of the hybrid retriever and of the expansion queries, through LangChain."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from seeds_000 import BLOCK, DOCUMENTS, QUESTION

from graphrag_core import GraphRetriever, KnowledgeExtractor, KnowledgeIndex
from graphrag_core.designs import HYBRID, KG2RAG
from graphrag_core.errors import InputError
from graphrag_core.strategies import Additive, ContextFormat, Neighbourhood
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever, create_memory_search_tool


@pytest.fixture
def retriever():
    documents = [Document(id=one.id, page_content=one.text, metadata=dict(one.metadata)) for one in DOCUMENTS]
    with GraphRAGRetriever.from_documents(
        documents,
        HashEmbedder(),
        extractor=KnowledgeExtractor(),
        settings=HYBRID,
        k=2,
    ) as retriever:
        yield retriever


@pytest.fixture
def core():
    with KnowledgeIndex(HashEmbedder(), extractor=KnowledgeExtractor(), chunker=None, embed_names=False) as index:
        index.add(DOCUMENTS)
        yield index


def ids(documents) -> list[str]:
    return [document.id for document in documents]


def test_the_published_settings_return_what_the_core_returns(retriever, core):
    expected = GraphRetriever(core, HYBRID, k=2).retrieve(QUESTION)
    found = retriever.invoke(QUESTION)
    assert ids(found) == [hit.chunk.id for hit in expected.hits]
    assert [hit.score for hit in retriever.search(QUESTION)] == [hit.score for hit in expected.hits]
    # Two of plain search and four that the graph adds.
    assert len(found) == 2 + 4
    plain = retriever.invoke(QUESTION, use_graph=False)
    assert len(plain) == 2
    assert set(ids(plain)) <= set(ids(found))


def test_the_context_has_the_passages_and_the_block(retriever):
    context = retriever.search(QUESTION).context(2_000, style="both")
    assert BLOCK in context
    assert context.startswith("[Score: ")


def test_the_tool_writes_both_and_without_the_graph_no_entities(retriever):
    tool = create_memory_search_tool(retriever, style="both", max_tokens=2_000)
    assert BLOCK in tool.invoke({"query": QUESTION, "min_graph_score": 0.0})
    plain = tool.invoke({"query": QUESTION, "use_graph": False})
    assert "Knowledge Graph" not in plain
    assert "Related Entities" not in plain


def test_weights_and_inverses_are_fields(retriever, core):
    for weights in ({"vector_weight": 1.0}, {"vector_weight": 0.0}, {"vector_weight": 0.25}):
        copied = retriever.model_copy(update=weights)
        expected = GraphRetriever(core, **weights).retrieve("login pages", use_graph=False, k=7)
        assert ids(copied.invoke("login pages", use_graph=False, k=7)) == [hit.chunk.id for hit in expected.hits]
    retriever = retriever.model_copy(update={"context": ContextFormat(inverses={"implements": "realised_by"})})
    assert "OAuth Provider (realised_by, weight: 6)" in retriever.search("Google OAuth").context(500)
    with pytest.raises(InputError, match="vector_weight is 2"):
        retriever.model_copy(update={"vector_weight": 2.0})


def test_additive_fusion_and_expansion_queries(retriever):
    assert len(retriever.invoke(QUESTION, fusion=Additive(max_chunks=1))) == 3
    retriever = retriever.model_copy(update={"graph": KG2RAG.graph, "vector_weight": 1.0})
    hits = retriever.search(QUESTION, k=7)
    assert any(hit.graph_expansion == "Auth Service OAuth Provider" for hit in hits)
    assert not any("keyword" in hit.channels for hit in hits)


def test_why_the_graph_adds_nothing(retriever):
    retriever = retriever.model_copy(update={"graph": Neighbourhood(relation_types=("eats",))})
    reason = "the graph adds nothing: Auth Service, OAuth Provider is linked to no entity by eats"
    assert retriever.search(QUESTION).expansion_skipped == reason
