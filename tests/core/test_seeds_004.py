"""The retrieval system (document 004): values worked out by hand from its formulas, and its own examples."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from graphrag_core import Chunker, Document, Extraction, GraphRetriever, KnowledgeIndex, SentenceExtractor
from graphrag_core.designs import RESEARCH
from graphrag_core.errors import EmbedderMismatch, InputError
from graphrag_core.research import research_documents
from graphrag_core.strategies import (
    CitationGraph,
    Expansion,
    ExpansionQueries,
    GraphStrategy,
    Neighbourhood,
    PageRank,
    ReciprocalRank,
    SpreadingActivation,
)
from graphrag_core.testing import FusionSuite, HashEmbedder, StrategySuite

PAPERS = {
    "academic_papers": [
        {
            "arxiv_id": "2501.00001",
            "title": "Petrel Notes",
            "abstract": "How agents keep what they were told.",
            "authors": ["Ada Chen"],
            "concepts": ["alpha memory"],
            "citations": ["2501.00002"],
            "year": 2025,
        },
        {
            "arxiv_id": "2501.00002",
            "title": "Gannet Notes",
            "abstract": "Many things at once.",
            "citations": ["2501.00004"],
        },
        {
            "arxiv_id": "2501.00003",
            "title": "Heron Notes",
            "abstract": "Two ideas in one.",
            "concepts": ["alpha memory", "beta planning"],
            "citations": ["2501.00001", "2501.00002"],
        },
        {"arxiv_id": "2501.00004", "title": "Osprey Notes", "abstract": "The oldest of them."},
    ]
}
PROJECTS = {
    "github_projects": [
        {
            "name": "langchain-ai/langgraph",
            "description": "Agents as graphs.",
            "topics": ["orchestration"],
            "papers": ["2501.00001"],
        }
    ]
}


@pytest.fixture(params=[None, HashEmbedder()], ids=["without embedder", "with embedder"])
def index(request):
    with KnowledgeIndex(request.param, progress=False) as index:
        index.add_research_findings(PAPERS)
        index.add_research_findings(PROJECTS)
        yield index


def found(result):
    return [hit.chunk.document_id for hit in result.hits]


# -- reciprocal rank fusion


def test_the_worked_example_of_the_document():
    # 0.5 / (60 + 1) + 0.5 / (60 + 3) = 0.0081967 + 0.0079365 = 0.0161332.
    # The document rounds the second term to 0.0081 and the sum to 0.0163; 0.5 / 63 is 0.0079.
    expected = 0.0161332
    assert ReciprocalRank(plain_weight=0.5, graph_weight=0.5).score(1, 3) == pytest.approx(expected, abs=1e-7)
    scores = dict(RESEARCH.fusion.fuse_all({"vector": ["d", "x"], "graph": ["y", "z", "d"]}))
    assert scores["d"] == pytest.approx(expected, abs=1e-7)


def test_any_number_of_rankings_each_with_a_weight():
    # a: 0.4/61 + 0.1/62 = 0.0065574 + 0.0016129 = 0.0081703
    # b: 0.4/62 + 0.3/61 = 0.0064516 + 0.0049180 = 0.0113696
    # c: 0.1/61 + 0.2/61 = 0.0016393 + 0.0032787 = 0.0049180
    # d is in the last one alone, at rank 2: 0.2/62 = 0.0032258
    rankings = [["a", "b"], ["b"], ["c", "a"], ["c", "d"]]
    fused = ReciprocalRank().fuse_all(rankings, [0.4, 0.3, 0.1, 0.2])
    assert [value for value, _ in fused] == ["b", "a", "c", "d"]
    assert [score for _, score in fused] == pytest.approx([0.0113696, 0.0081703, 0.0049180, 0.0032258], abs=1e-7)


def test_rankings_have_weight_one_unless_told_and_k_is_a_setting():
    # k = 0: a 1/1 + 1/2 = 1.5, b 1/2 + 1/1 = 1.5, in the order in which they come
    assert ReciprocalRank(k=0).fuse_all(["ab", "ba"]) == [("a", 1.5), ("b", 1.5)]
    assert ReciprocalRank(k=0).fuse_all([["a", "a", "b"]]) == [("a", 1.0), ("b", 0.5)], "a value counts once"
    assert ReciprocalRank().fuse_all([]) == []


class Angles:
    """One, two and three at 0, 37 and 53 degrees from every question."""

    identity = "angles"
    _vectors: ClassVar = {"one": (1.0, 0.0), "two": (0.8, 0.6), "three": (0.6, 0.8)}

    def embed_documents(self, texts):
        return [next((v for name, v in self._vectors.items() if name in text), (0.0, 1.0)) for text in texts]

    def embed_query(self, text):
        return 1.0, 0.0


@dataclass(frozen=True)
class InThisOrder(GraphStrategy):
    """A graph strategy whose ranking is given."""

    ids: tuple[str, ...]
    fusion = RESEARCH.fusion

    def expand(self, query, plain, k):
        ((keys, _),) = query.snapshot.nearest(query.vector[None], 10)
        key_of = dict(zip((chunk.id for chunk in query.snapshot.chunks(keys)), keys.tolist(), strict=True))
        chosen = np.array([key_of[name] for name in self.ids], np.int64)
        return Expansion(chosen, np.linspace(1, 0.5, len(chosen), dtype=np.float32))


def angled():
    index = KnowledgeIndex(Angles(), progress=False)
    index.add([Document("one", "one"), Document("two", "two words zebra"), Document("three", "three")])
    return index


def test_the_hybrid_method_fuses_vector_and_graph_as_published():
    # vector: one, two, three; graph: three, two, one
    # one and three: 0.5/61 + 0.5/63 = 0.0161332; two: 2 · 0.5/62 = 0.0161290
    with angled() as index:
        result = GraphRetriever(index, graph=InThisOrder(("three", "two", "one"))).retrieve("zebra")
    assert found(result) == ["one", "three", "two"], "ties are broken by id"
    assert [hit.score for hit in result] == pytest.approx([0.0161332, 0.0161332, 0.0161290], abs=1e-7)


def test_a_retriever_fuses_three_rankings_with_a_weight_each():
    # vector: one, two, three; keyword: two; graph: three
    # one: 0.2/61 = 0.0032787; two: 0.2/62 + 0.3/61 = 0.0032258 + 0.0049180 = 0.0081438
    # three: 0.2/63 + 0.5/61 = 0.0031746 + 0.0081967 = 0.0113713
    fusion = ReciprocalRank(weights={"vector": 0.2, "keyword": 0.3, "graph": 0.5})
    with angled() as index:
        retriever = GraphRetriever(index, graph=InThisOrder(("three",)), fusion=fusion)
        result = retriever.retrieve("zebra")
        again = retriever.retrieve("zebra")
        without = retriever.retrieve("zebra", use_graph=False)
    assert found(result) == ["three", "two", "one"]
    assert [hit.score for hit in result] == pytest.approx([0.0113713, 0.0081438, 0.0032787], abs=1e-7)
    assert again.trace.stages.keys() == {"cache"}, "a fusion with weights does not prevent caching"
    # without the graph: two 0.0081438, one 0.0032787, three 0.2/63 = 0.0031746
    assert found(without) == ["two", "one", "three"]
    assert [hit.score for hit in without] == pytest.approx([0.0081438, 0.0032787, 0.0031746], abs=1e-7)


class TestPublishedFusion(FusionSuite):
    def make(self):
        return RESEARCH.fusion


# -- graph retrieval: 1.0 for each concept, 0.5 for each citation


class TestCitationGraph(StrategySuite):
    def make(self):
        return CitationGraph()


def relevance(index, question, **settings):
    retriever = GraphRetriever(index, graph=CitationGraph(**settings), method="graph", cache=None)
    return {hit.chunk.document_id: hit.channels["graph"].score for hit in retriever.retrieve(question)}


def test_concepts_count_one_and_citations_a_half(index):
    # Heron introduces both concepts: 1 + 1 = 2. Petrel introduces one and is cited by Heron: 1 + 0.5 = 1.5.
    # Gannet is cited by Petrel and by Heron: 0.5 + 0.5 = 1. Osprey is cited by Gannet alone, one hop too far.
    question = "alpha memory and beta planning"
    expected = {"arxiv:2501.00003": 2.0, "arxiv:2501.00001": 1.5, "arxiv:2501.00002": 1.0}
    assert relevance(index, question) == expected
    assert list(relevance(index, question)) == list(expected), "best first"


def test_the_depth_is_a_setting(index):
    question = "alpha memory and beta planning"
    assert relevance(index, question, depth=1) == {"arxiv:2501.00003": 2.0, "arxiv:2501.00001": 1.0}
    # the third hop: Osprey is cited by Gannet, 0.5 · 0.5
    assert relevance(index, question, depth=3)["arxiv:2501.00004"] == 0.25
    with pytest.raises(InputError, match="depth is 0"):
        CitationGraph(depth=0)


def test_a_citation_is_followed_from_the_citing_to_the_cited(index):
    # Gannet mentions Osprey, which it cites: 1. Osprey itself: 1, and 0.5 as it is cited by Gannet.
    assert relevance(index, "Osprey Notes") == {"arxiv:2501.00004": 1.5, "arxiv:2501.00002": 1.0}


def test_the_published_graph_search_is_fused_as_published():
    assert CitationGraph.fusion == ReciprocalRank(k=60, weights={"vector": 0.5, "graph": 0.5})
    assert CitationGraph().depth == 2


# -- keyword retrieval: the four use cases of the document


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("Heron Notes", "arxiv:2501.00003"),  # a paper's name
        ("2501.00002", "arxiv:2501.00002"),  # an arXiv id
        ("Ada Chen", "arxiv:2501.00001"),  # an author
        ("langgraph", "project:langchain-ai/langgraph"),  # a framework
    ],
)
def test_exact_terms_are_found_by_keyword(index, question, first):
    assert found(GraphRetriever(index, method="keyword").retrieve(question))[0] == first


# -- routing


@pytest.mark.parametrize(
    ("question", "method", "rule"),
    [
        ("what does it cite", "graph", "citation"),
        ("a reference to it", "graph", "citation"),
        ("an exciter", "graph", "citation"),  # parts of words count in the document
        ("arxiv papers", "vector", "paper"),
        ("paper: MAGMA", "vector", "paper"),
        ("LangGraph vs CrewAI", "hybrid", "comparison"),
        ("compare the two", "hybrid", "comparison"),
        ("an overview", "hybrid", "overview"),
        ("a survey", "hybrid", "overview"),
        ("multi-agent timeout mechanisms", "hybrid", "default"),
        ("2501.03236", "hybrid", "default"),
    ],
)
def test_the_published_rules(question, method, rule):
    route = RESEARCH.router.route(question)
    assert (route.method, route.rule) == (method, rule)


def test_an_id_is_searched_where_it_is_found_first(index):
    # A paper that cites the id four times, in a shorter text, must not come before the paper that has it.
    index.add([
        Document("note", "2501.00002 2501.00002 2501.00002 2501.00002"),
        Document("other", "What is arXiv about? arXiv is about what arXiv is about."),
    ])  # fmt: skip
    retriever = GraphRetriever(index, method="agentic")
    for question in (
        "2501.00002",
        "What is arXiv 2501.00002 about?",
        "What is arXiv:2501.00002v3 about?",
        "Summarise https://arxiv.org/abs/2501.00002.",
        "How does 2501.00002 compare?",
    ):
        result = retriever.retrieve(question)
        assert (result.method, found(result)[0]) == ("keyword", "arxiv:2501.00002"), question
        assert "'identifier'" in result.route


def test_a_citation_question_with_an_id_goes_to_the_graph(index):
    result = GraphRetriever(index, method="agentic", graph=CitationGraph()).retrieve("Which papers cite 2501.00002?")
    assert result.method == "graph"
    assert {"arxiv:2501.00001", "arxiv:2501.00003"} < set(found(result))


# -- findings: documents and extractor go together


class Nothing:
    """An extractor that finds nothing, and shows what it was given."""

    identity = "nothing"

    def __init__(self):
        self.texts = []

    def extract(self, chunks):
        self.texts += [chunk.text for chunk in chunks]
        return [Extraction() for _ in chunks]


@pytest.mark.parametrize(
    "extractor",
    [None, SentenceExtractor(), Nothing()],
    ids=["default", "sentences", "nothing"],
)
@pytest.mark.parametrize("chunker", [Chunker(), None], ids=["chunks", "whole"])
def test_findings_have_their_facts_whatever_the_extractor(extractor, chunker):
    with KnowledgeIndex(extractor=extractor, chunker=chunker, progress=False) as index:
        index.add(research_documents(PAPERS))
        triples = [(fact.relation, *fact.entities) for fact in index.graph.facts("Petrel Notes") if fact.relation]
    assert sorted(triples) == [
        ("authored_by", "petrel notes", "ada chen"),
        ("cites", "heron notes", "petrel notes"),
        ("cites", "petrel notes", "gannet notes"),
        ("introduces", "petrel notes", "alpha memory"),
    ]


def test_labels_are_neither_names_nor_sentences(index):
    for label in ("arXiv", "Year", "By", "Cites", "Concepts", "Topics", "Implements", "2025"):
        assert index.graph.entity(label) is None, label
    entities = {"petrel notes", "gannet notes", "heron notes", "osprey notes", "ada chen", "alpha memory",
                "beta planning", "langchain ai langgraph", "orchestration"}  # fmt: skip
    ids = {f"2501 0000{number}" for number in range(1, 5)}  # by which documents of other calls name a paper
    with index.engine.snapshot() as snapshot:
        assert {entity.id for entity in snapshot.entities(snapshot.top_entities(100))} == entities | ids
    sentences = [fact.text for fact in index.graph.facts("Petrel Notes") if not fact.relation]
    assert sentences == ["How agents keep what they were told."]


def test_labels_stay_in_the_text_and_no_model_reads_them():
    extractor = Nothing()
    long = {"title": "Long", "abstract": "Word. " * 200, "concepts": [f"idea {n}" for n in range(200)], "year": 2024}
    with KnowledgeIndex(extractor=extractor, chunker=Chunker(max_tokens=32, overlap=4), progress=False) as index:
        index.add_research_findings({"academic_papers": [long]})
        assert "Year: 2024." in index.get("paper:long").text
        assert len(index.chunks("paper:long")) > 3
    assert not any("Year" in text or "idea" in text for text in extractor.texts)


def test_indexing_as_in_the_document():
    system = KnowledgeIndex(progress=False)
    system.add_research_findings(
        {"academic_papers": [{"arxiv_id": "2501.03236", "title": "MAGMA Memory", "abstract": "..."}]}
    )
    system.add_research_findings({"github_projects": [{"name": "langchain-ai/langgraph", "description": "..."}]})
    assert system.graph.entity("2501.03236").type == "paper"
    assert system.graph.entity("langchain-ai/langgraph").type == "project"
    with pytest.raises(InputError, match="no research findings"):
        system.add_research_findings({"papers": "none"})


def test_domains_are_joined_whichever_comes_first():
    for order in ((PAPERS, PROJECTS), (PROJECTS, PAPERS)):
        with KnowledgeIndex(progress=False) as graphrag:
            for findings in order:
                graphrag.add_research_findings(findings)
            result = GraphRetriever(graphrag, method="agentic").retrieve("orchestration patterns")
            linked = {entity.name for entity, _ in graphrag.graph.neighbours("langchain-ai/langgraph")}
        assert found(result)[:2] == ["project:langchain-ai/langgraph", "arxiv:2501.00001"]
        assert linked & {"2501.00001", "2501 00001"}  # the id of the paper, which its passage is about, too
        assert (result.method, result.route) == ("hybrid", "routed to hybrid: no rule matched")


def test_findings_added_again_are_unchanged(index):
    assert index.add_research_findings(PAPERS).unchanged == 4
    assert index.verify()


# -- without an embedder


@pytest.mark.parametrize("method", ["hybrid", "keyword", "graph", "agentic"])
@pytest.mark.parametrize(
    "strategy",
    [PageRank(), Neighbourhood(), ExpansionQueries(), SpreadingActivation(), CitationGraph()],
)
def test_every_method_and_strategy_serves_an_index_without_vectors(method, strategy):
    with KnowledgeIndex(progress=False) as index:
        index.add_research_findings(PAPERS)
        result = GraphRetriever(index, method=method, graph=strategy).retrieve("What are the Petrel Notes?")
    assert "arxiv:2501.00001" in found(result)
    assert result.fallback == "", "nothing failed"


def test_the_graph_finds_what_shares_no_word_without_an_embedder():
    with KnowledgeIndex(progress=False) as index:
        index.add([
            Document("ledger", "The Ledger Tool delegates to the Copper Kettle.", "Ledger Tool"),
            Document("kettle", "The Copper Kettle speaks to Quill.", "Copper Kettle"),
        ])  # fmt: skip
        assert found(GraphRetriever(index, method="keyword").retrieve("Ledger Tool vendor")) == ["ledger"]
        result = GraphRetriever(index).retrieve("Ledger Tool vendor")
        assert found(result) == ["ledger", "kettle"]
        assert "vector" not in result.hits[0].channels
        assert (index.stats().embedder, index.stats().dim, sum(index.stats().vectors.values())) == ("none", 0, 0)


def test_vector_search_says_that_keywords_answer():
    with KnowledgeIndex(progress=False) as index:
        index.add_research_findings(PAPERS)
        result = GraphRetriever(index, method="vector").retrieve("Heron Notes")
    assert found(result)[0] == "arxiv:2501.00003"
    assert result.fallback == "the index has no vectors: keyword search answers"


def test_an_index_without_vectors_lives_in_a_folder(tmp_path):
    with KnowledgeIndex.open(tmp_path / "kb", progress=False, batch_size=2) as index:
        assert index.add_research_findings(PAPERS).added == 4
        assert index.to_embed(research_documents(PROJECTS)) == []
    with KnowledgeIndex.open(tmp_path / "kb", progress=False) as index:
        index.add_research_findings(PROJECTS)
        index.delete("arxiv:2501.00004")
        index.rebuild()
        index.erase()
        assert index.verify()
        assert found(GraphRetriever(index).retrieve("orchestration"))[0] == "project:langchain-ai/langgraph"
    with pytest.raises(EmbedderMismatch, match="built without an embedder and has no vectors: open it without one"):
        KnowledgeIndex.open(tmp_path / "kb", HashEmbedder())


def test_vectors_and_their_settings_need_an_embedder():
    with KnowledgeIndex(progress=False) as index:
        with pytest.raises(InputError, match="without an embedder"):
            index.add([Document("a", "Text.")], vectors={"a": [1.0, 0.0]})
        assert len(index) == 0
        assert index.add([Document("a", "Text.")]).added == 1
    with pytest.raises(InputError, match="needs an embedder"):
        KnowledgeIndex(embed_names=True)


def test_the_plain_install_needs_no_model():
    """The optional packages are missing in this process: an index, its queries and its context work."""
    code = """
import sys
for name in ("wordllama", "onnxruntime", "tokenizers", "openai", "typer", "rich", "llama_index",
             "langchain_core", "networkx", "torch", "sentence_transformers"):
    sys.modules[name] = None
from graphrag_core import GraphRetriever, KnowledgeIndex
index = KnowledgeIndex(progress=False)
index.add_research_findings({"academic_papers": [{"arxiv_id": "2501.03236", "title": "MAGMA Memory", "abstract": "x"}],
                             "github_projects": [{"name": "a/b", "description": "y", "papers": ["2501.03236"]}]})
result = GraphRetriever(index, method="agentic").retrieve("What builds on MAGMA Memory?")
print([hit.chunk.document_id for hit in result], len(result.context(max_tokens=200)) > 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['arxiv:2501.03236', 'project:a/b'] True"


def test_the_hashed_fallback_of_the_document_embeds_without_a_model():
    with KnowledgeIndex(HashEmbedder(), progress=False) as index:
        index.add_research_findings(PAPERS)
        result = GraphRetriever(index, method="vector").retrieve("Two ideas in one")
    assert found(result)[0] == "arxiv:2501.00003"
    assert result.hits[0].channels.keys() == {"vector"}


def test_without_a_passage_of_a_weighted_ranking_the_advice_is_to_weigh_another():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add([Document("a", "Ada Lovelace wrote notes.")])
        by_graph = GraphRetriever(index, fusion=ReciprocalRank(weights={"graph": 1.0}))
        result = by_graph.retrieve("Ada Lovelace", use_graph=False)
        assert not result.hits
        assert "give vector or keyword search a weight" in result.advice
        both = GraphRetriever(index, fusion=RESEARCH.fusion)
        assert "lower min_score" in both.retrieve("What are notes?", use_graph=False, **{"gate.min_score": 1.0}).advice
