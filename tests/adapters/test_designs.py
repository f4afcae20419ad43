"""The published designs (documents 000 to 004) through both adapters."""

from __future__ import annotations

import pytest
import seeds_000
from confident import ANSWER, CONFIDENCE, PASSAGES, QUESTION, RELATIONS, ROUNDING, SUBJECTS, Cosines

from graphrag_core import Document, Fact, GraphRetriever, KnowledgeExtractor, KnowledgeIndex
from graphrag_core.designs import CONFIDENT, DESIGNS, HYBRID, RESEARCH
from graphrag_core.errors import EmbedderMismatch
from graphrag_core.research import research_documents
from graphrag_core.strategies import Gate
from graphrag_core.testing import FixedExtractor, HashEmbedder

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
FOUND_RELATIONS = {"cites": 1, "implements": 1, "introduces": 1, "relates_to": 1}


@pytest.mark.parametrize("name", DESIGNS)
def test_each_design_returns_through_the_adapter_what_the_core_returns(framework, name):
    design, options = DESIGNS[name].replace(**{"gate.min_score": 0.0}), {"count_access": False}
    with KnowledgeIndex(HashEmbedder(), extractor=KnowledgeExtractor(), chunker=None, embed_names=True) as index:
        index.add(seeds_000.DOCUMENTS)
        expected = GraphRetriever(index, design).retrieve(seeds_000.QUESTION, **options)
        context = expected.context()
    settings = {"extractor": KnowledgeExtractor(), "settings": design, "embed_names": True}
    with framework.build(seeds_000.DOCUMENTS, **settings) as retriever:
        found = framework.retrieve(framework.changed(retriever, add_metadata=["score"]), seeds_000.QUESTION, **options)
        assert framework.ids(found) == [hit.chunk.id for hit in expected.hits] != []
        assert framework.scores(found) == pytest.approx([hit.score for hit in expected.hits], abs=1e-6)
        assert retriever.search(seeds_000.QUESTION, **options).context() == context


class TestHybrid:
    """Document 000, and the expansion queries of 002."""

    @pytest.fixture
    def hybrid(self, framework):
        settings = {"extractor": KnowledgeExtractor(), "settings": HYBRID, "k": 2}
        with framework.build(seeds_000.DOCUMENTS, **settings) as retriever:
            yield retriever

    def test_the_tool_writes_both_and_without_the_graph_no_entities(self, framework, hybrid):
        tool = framework.tool(hybrid, style="both", max_tokens=2_000)
        assert seeds_000.BLOCK in tool.call(query=seeds_000.QUESTION, min_graph_score=0.0)[0]
        plain, _ = tool.call(query=seeds_000.QUESTION, use_graph=False)
        assert "Knowledge Graph" not in plain
        assert "Related Entities" not in plain


class TestConfident:
    """Document 001, on the example that is worked out in ``confident``."""

    @pytest.fixture
    def confident(self, framework):
        facts = {
            name: [Fact((subject, other), f"{subject} {relation} {other}", relation, strength)]
            for name, (subject, relation, other, strength) in RELATIONS.items()
        }
        settings = {"settings": CONFIDENT, "extractor": FixedExtractor(facts, SUBJECTS), "embed_names": False}
        documents = [Document(name, text) for name, text in PASSAGES.items()]
        with framework.build(documents, Cosines(), **settings) as retriever:
            yield retriever

    async def test_the_retrieval_of_the_document(self, framework, confident):
        confident = framework.changed(confident, add_metadata=("score", "graphrag"))
        for found in (framework.retrieve(confident, QUESTION), await framework.aretrieve(confident, QUESTION)):
            assert framework.ids(found) == list(ANSWER)
            assert framework.scores(found) == pytest.approx(list(ANSWER.values()), abs=ROUNDING)
            details = framework.metadata(found, "graphrag")
            assert [one["origin"] for one in details] == ["plain", "plain", "graph", "graph"]
            assert (details[2]["entity"], details[2]["hops"]) == ("OAuth Provider", 1)
            assert details[0]["counts"] == {"plain": 2, "graph": 2}
            assert details[0]["confidence"] == pytest.approx(CONFIDENCE, abs=ROUNDING)

    def test_the_memory_tool_says_what_to_do(self, framework, confident):
        tool = framework.tool(confident, include_relationships=True, include_sources=False)
        content, _ = tool.call(query=QUESTION)
        assert "## Relationships" in content
        assert f"[Score: 0.88]\n{PASSAGES['auth']}" in content
        # "x": 0.003 + 0.15 + 0.35 = 0.503, the graph is skipped as there is no entity, with enough confidence.
        assert "Note:" not in tool.call(query="x")[0]
        strict = framework.changed(confident, gate=Gate(min_score=0.95, min_confidence=0.5))
        content, found = framework.tool(strict).call(query="x")
        assert content == (
            "Nothing was found. No passage has the similarity 0.95 that min_score asks for, the nearest has 0.88: "
            "lower min_score, or ask in other words."
        )
        assert found == []
        unsure = framework.changed(confident, gate=Gate(min_confidence=0.9))
        assert (
            framework.tool(unsure)
            .call(query="x")[0]
            .endswith(
                "Note: the confidence is low, 0.50: name something that the index knows, ask in a whole sentence, "
                "or lower min_confidence."
            )
        )


class TestResearch:
    """Document 004."""

    @pytest.fixture(params=[None, HashEmbedder()], ids=["without embedder", "with embedder"])
    def retriever(self, framework, request):
        with framework.build([], request.param) as retriever:
            yield retriever

    def test_findings_as_documents_have_their_facts_too(self, framework, retriever):
        framework.add(retriever, research_documents(FINDINGS))
        assert retriever.index.stats().relations == FOUND_RELATIONS
        system = framework.over(retriever.index, k=10, settings=RESEARCH)
        # 1 for the concept, 0.5 for the citation
        expected = [("arxiv:2501.03236", 1.0), ("arxiv:2404.16130", 0.5)]
        result = system.search("Which papers cite it? semantic memory")
        assert (result.method, [(hit.chunk.id, hit.score) for hit in result]) == ("graph", expected)


def test_an_index_without_vectors(framework, tmp_path):
    documents = [
        Document("a", "The Ledger Tool delegates to the Copper Kettle."),
        Document("b", "The Copper Kettle speaks to Quill."),
    ]
    with framework.build(documents, None, path=tmp_path / "kb") as retriever:
        assert framework.ids(framework.retrieve(retriever, "Ledger Tool vendor")) == ["a", "b"]
        assert retriever.search("Ledger Tool").fallback == ""
    with framework.load(tmp_path / "kb", None) as retriever:
        assert framework.ids(framework.retrieve(retriever, "Quill"))[0] == "b"
    with pytest.raises(EmbedderMismatch, match="without an embedder"):
        framework.load(tmp_path / "kb", HashEmbedder())
