"""The retrieval system (document 004) behind LlamaIndex's retriever."""

from __future__ import annotations

import pytest
from llama_index.core.schema import Document, TextNode
from llama_support import Hashed

from graphrag_core.designs import RESEARCH
from graphrag_core.errors import EmbedderMismatch
from graphrag_core.research import research_documents
from graphrag_core.strategies import ReciprocalRank
from llama_graphrag import GraphRAGRetriever

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


@pytest.fixture(params=[False, Hashed()], ids=["without embedder", "with embedder"])
def embed_model(request):
    return request.param


@pytest.fixture
def retriever(embed_model):
    with GraphRAGRetriever.from_nodes([], embed_model) as retriever:
        yield retriever


def test_findings_have_their_facts(retriever):
    assert retriever.index.add_research_findings(FINDINGS).added == 3
    assert retriever.index.stats().relations == RELATIONS
    assert retriever.index.graph.entity("arXiv") is None
    assert retriever.retrieve("MAGMA Memory")[0].node_id == "arxiv:2501.03236"


async def test_findings_are_added_in_a_coroutine(retriever):
    retriever.index.add_research_findings(FINDINGS)
    assert retriever.index.stats().relations == RELATIONS
    found = await retriever.aretrieve("MAGMA Memory")
    assert found[0].node_id == "arxiv:2501.03236"


def test_findings_as_documents_have_their_facts_too(embed_model):
    documents = [Document(id_=d.id, text=d.text, metadata=dict(d.metadata)) for d in research_documents(FINDINGS)]
    with GraphRAGRetriever.from_documents(documents, embed_model) as retriever:
        assert retriever.index.stats().relations == RELATIONS
        assert retriever.index.graph.entity("Year") is None


def test_the_published_system(retriever):
    retriever.index.add_research_findings(FINDINGS)
    system = GraphRAGRetriever(retriever.index, method="agentic", similarity_top_k=10, settings=RESEARCH)
    result = system.search("Which papers cite it? semantic memory")
    assert result.method == "graph"
    # 1 for the concept, 0.5 for the citation
    scores = [(hit.chunk.id, hit.channels["graph"].score) for hit in result]
    assert scores == [("arxiv:2501.03236", 1.0), ("arxiv:2404.16130", 0.5)]
    # hybrid: first in the graph and first in vector or keyword search, 0.5/61 + 0.5/61 = 1/61
    first = system.search("MAGMA Memory", method="hybrid").hits[0]
    assert (first.chunk.id, first.score) == ("arxiv:2501.03236", pytest.approx(1 / 61, abs=1e-7))


def test_rankings_are_weighed_one_by_one(retriever):
    retriever.index.add_research_findings(FINDINGS)
    weighed = GraphRAGRetriever(retriever.index, fusion=ReciprocalRank(weights={"keyword": 1.0}))
    by_keyword = retriever.search("MAGMA Memory", method="keyword")
    assert [node.node_id for node in weighed.retrieve("MAGMA Memory")] == [hit.chunk.id for hit in by_keyword]


def test_an_index_without_vectors(tmp_path):
    nodes = [
        TextNode(id_="a", text="The Ledger Tool delegates to the Copper Kettle.", embedding=[1.0, 0.0]),
        TextNode(id_="b", text="The Copper Kettle speaks to Quill."),
    ]
    with GraphRAGRetriever.from_nodes(nodes, False, path=tmp_path / "kb") as retriever:
        assert [node.node_id for node in retriever.retrieve("Ledger Tool vendor")] == ["a", "b"]
        assert retriever.search("Ledger Tool").fallback == ""
    with GraphRAGRetriever.from_persist_dir(tmp_path / "kb", False) as retriever:
        assert retriever.retrieve("Quill")[0].node_id == "b"
    with pytest.raises(EmbedderMismatch, match="without an embedder"):
        GraphRAGRetriever.from_persist_dir(tmp_path / "kb", Hashed())


async def test_an_index_without_vectors_in_a_coroutine():
    with GraphRAGRetriever.from_nodes([], embed_model=False) as retriever:
        await retriever.ainsert_nodes([TextNode(id_="a", text="Ada Lovelace wrote to Charles Babbage.")])
        assert [node.node_id for node in await retriever.aretrieve("Ada Lovelace")] == ["a"]
