"""The retrieval system (document 004) behind LangChain's retriever."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document

from graphrag_core.designs import RESEARCH
from graphrag_core.errors import EmbedderMismatch
from graphrag_core.research import research_documents
from graphrag_core.strategies import ReciprocalRank
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever

FINDINGS = {
    "academic_papers": [
        {"arxiv_id": "2501.03236", "title": "MAGMA Memory", "abstract": "A memory of four graphs.",
         "concepts": ["semantic memory"], "citations": ["2404.16130"], "year": 2025},
        {"arxiv_id": "2404.16130", "title": "From Local to Global", "abstract": "Communities."},
    ],
    "github_projects": [
        {"name": "langchain-ai/langgraph", "description": "Agents.", "topics": ["orchestration"],
         "papers": ["2501.03236"]},
    ],
}  # fmt: skip
RELATIONS = {"cites": 1, "implements": 1, "introduces": 1, "relates_to": 1}


@pytest.fixture(params=[None, HashEmbedder()], ids=["without embedder", "with embedder"])
def retriever(request):
    with GraphRAGRetriever.from_documents([], request.param) as retriever:
        yield retriever


def test_findings_have_their_facts(retriever):
    ids = ["arxiv:2501.03236", "arxiv:2404.16130", "project:langchain-ai/langgraph"]
    assert retriever.index.add_research_findings(FINDINGS).added == len(ids)
    assert [document.id for document in retriever.get(ids)] == ids
    assert retriever.index.stats().relations == RELATIONS
    assert retriever.index.graph.entity("arXiv") is None
    assert retriever.index.graph.entity("2501.03236").name == "MAGMA Memory"


async def test_findings_are_found_in_a_coroutine(retriever):
    retriever.index.add_research_findings(FINDINGS)
    found = await retriever.ainvoke("orchestration patterns", method="agentic")
    assert found[0].id == "project:langchain-ai/langgraph"


def test_findings_as_documents_have_their_facts_too(retriever):
    documents = [
        Document(id=d.id, page_content=d.text, metadata=dict(d.metadata)) for d in research_documents(FINDINGS)
    ]
    retriever.add_documents(documents)
    assert retriever.index.stats().relations == RELATIONS
    assert retriever.index.graph.entity("Year") is None


def test_the_published_system(retriever):
    retriever.index.add_research_findings(FINDINGS)
    system = GraphRAGRetriever(index=retriever.index, method="agentic", k=10, settings=RESEARCH)
    results = system.search("Which papers cite it? semantic memory")
    assert results.method == "graph"
    # 1 for the concept, 0.5 for the citation; strengths are divided by the best
    assert [(one.chunk.id, one.score) for one in results] == [
        ("arxiv:2501.03236", 1.0),
        ("arxiv:2404.16130", 0.5),
    ]
    # hybrid: first in the graph and first in vector or keyword search, 0.5/61 + 0.5/61 = 1/61
    first = system.search("MAGMA Memory", method="hybrid").hits[0]
    assert first.chunk.id == "arxiv:2501.03236"
    assert first.score == pytest.approx(1 / 61, abs=1e-7)


def test_rankings_are_weighed_one_by_one(retriever):
    retriever.index.add_research_findings(FINDINGS)
    fusion = ReciprocalRank(weights={"keyword": 1.0})
    only = retriever.model_copy(update={"fusion": fusion}).invoke("MAGMA Memory")
    by_keyword = retriever.invoke("MAGMA Memory", method="keyword")
    assert [one.id for one in only] == [one.id for one in by_keyword]


def test_an_index_without_vectors(tmp_path):
    texts = ["The Ledger Tool delegates to the Copper Kettle.", "The Copper Kettle speaks to Quill."]
    with GraphRAGRetriever.from_texts(texts, None, ids=["a", "b"], path=tmp_path / "kb") as retriever:
        assert [one.id for one in retriever.invoke("Ledger Tool vendor")] == ["a", "b"]
        assert retriever.search("Ledger Tool").fallback == ""
    with GraphRAGRetriever.load(tmp_path / "kb", None) as retriever:
        assert retriever.invoke("Quill")[0].id == "b"
    with pytest.raises(EmbedderMismatch, match="without an embedder"):
        GraphRAGRetriever.load(tmp_path / "kb", HashEmbedder())


async def test_an_index_without_vectors_in_a_coroutine():
    with await GraphRAGRetriever.afrom_texts(["Ada Lovelace wrote to Charles Babbage."], None, ids=["a"]) as retriever:
        assert [one.id for one in await retriever.ainvoke("Ada Lovelace")] == ["a"]
