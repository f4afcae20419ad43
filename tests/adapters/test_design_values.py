"""Values of the five designs, worked out by hand from their documents, in the core and through both adapters."""

from __future__ import annotations

import hashlib
from contextlib import contextmanager
from importlib import import_module

import igraph
import numpy as np
import pytest

from graphrag_core import Document, Fact, GraphRetriever, KnowledgeIndex, SearchSettings
from graphrag_core.designs import CONFIDENT, HYBRID, KG2RAG, MEMORY, RESEARCH
from graphrag_core.model import SENTENCE_WEIGHT
from graphrag_core.testing import FixedExtractor, HashEmbedder

ROUNDING = 0.003  # of stored vectors
NEEDED = {"langchain": "langchain_core", "llama": "llama_index.core"}


class Cosines:
    """Embeds a text as the cosine that is stated for it, 0 without one; a question has the cosine 1 to itself."""

    identity = "cosines"

    def __init__(self, cosines: dict[str, float]) -> None:
        self.cosines, self.is_broken = cosines, False

    def embed_documents(self, texts):
        vectors = np.zeros((len(texts), 40))
        for vector, text in zip(vectors, texts, strict=True):
            cosine = self.cosines.get(text, 0.0)
            vector[0] = cosine
            vector[2 + hashlib.sha256(text.encode()).digest()[0] % 38] = np.sqrt(1 - cosine**2)
        return vectors.tolist()

    def embed_query(self, text):
        if self.is_broken:
            raise ConnectionError("no server")
        return [1.0, *[0.0] * 39]


def triple(subject: str, relation: str, target: str, weight: float = 5.0, **more) -> Fact:
    return Fact((subject, target), f"{subject} {relation} {target}", relation, weight, **more)


@pytest.fixture(params=["core", *NEEDED])
def build(request):
    """Return a function that builds an index and yields a retriever with ``search``, which returns the core's result.

    Documents are given by their text, and the facts that the extractor finds in each.
    """
    if request.param != "core":
        pytest.importorskip(NEEDED[request.param])

    @contextmanager
    def open_index(settings, facts, texts=None, embedder=None, **options):
        texts = {name: f"Passage {name}." for name in facts} | (texts or {})
        documents = [Document(name, text) for name, text in texts.items()]
        embedder, options = embedder or HashEmbedder(), {"extractor": FixedExtractor(facts), **options}
        if request.param == "core":
            with KnowledgeIndex(embedder, **options) as index:
                index.add(documents)
                retriever = GraphRetriever(index, settings)
                retriever.search = retriever.retrieve
                yield retriever
        else:
            framework = import_module(f"on_{request.param}")
            with framework.build(documents, embedder, settings=settings, **options) as retriever:
                yield retriever

    return open_index


def ids(result) -> list[str]:
    return [hit.chunk.id for hit in result]


# -- 003


BOAT = {
    "a": [triple("Boat", "has", "Mast", confidence=0.8, source="conversation", status="staged")],
    "b": [triple("Boat", "has", "Hull", confidence=0.9, source="file", status="staged")],
    "c": [triple("Anchor", "on", "Chain", confidence=0.5, source="system", status="staged")],
    "d": [triple("Mast", "holds", "Rope", confidence=1.0, source="user_edit", status="staged")],
    "e": [triple("Fish", "near", "Boat", confidence=1.0, source="user_edit", status="confirmed")],
}
# The anchors are the three nearest names. Fish is no anchor, and its fact leads to Boat, not from it.
ANCHORS = {"Boat": 0.9, "Anchor": 0.8, "Chain": 0.7}
# Confidence · weight of the source: 1.0 · 2.0 = 2.0, 0.9 · 1.5 = 1.35, 0.8 · 1.0 = 0.8, 0.5 · 1.2 = 0.6.
ACTIVATED = ["Mast holds Rope", "Boat has Hull", "Boat has Mast", "Anchor on Chain"]
NARRATIVE = """### 💡 CONTEXT: Mast
- holds: Rope

### 💡 CONTEXT: Boat
- has: Hull
- has: Mast

### 💡 CONTEXT: Anchor
- on: Chain"""


@pytest.mark.parametrize("is_changed", [False, True], ids=["unchanged", "another fact is told"])
def test_the_facts_are_those_that_activation_reached_in_order_of_relevance(build, is_changed):
    with build(MEMORY, BOAT, embedder=Cosines(ANCHORS), embed_names=True) as retriever:
        result = retriever.search("What is on board?")
        if is_changed:
            retriever.index.memory.remember("Moon", "has", "Crater")
        assert [fact.text for fact in result.facts] == ACTIVATED
        assert result.context(style="narrative") == NARRATIVE
        # A passage has the relevance of its best fact.
        assert {hit.chunk.id: hit.score for hit in result} == pytest.approx({"d": 2.0, "b": 1.35, "a": 0.8, "c": 0.6})


def test_a_fact_that_is_forgotten_meanwhile_is_not_shown(build):
    with build(MEMORY, {}, embedder=Cosines({"Boat": 0.9}), embed_names=True) as retriever:
        kept = retriever.index.memory.remember("Boat", "has", "Mast")
        gone = retriever.index.memory.remember("Boat", "has", "Hull")
        result = retriever.search("What is on board?")
        retriever.index.memory.forget(gone.chunk_id)
        assert [fact.text for fact in result.facts] == [kept.text]


def test_without_facts_the_memory_returns_nothing(build):
    with build(MEMORY, {}, {"a": "a text without names", "b": "another one"}, embed_names=True) as retriever:
        result = retriever.search("a text")
        assert ids(result) == []
        assert "the graph is empty" in result.advice


# -- 001

CLEAR = "What does the Auth Service use for its logins?"  # 46 characters


def test_keyword_search_takes_the_place_of_vector_search_in_the_confidence(build):
    facts = {
        "auth": [triple("Auth Service", "uses", "Session Store", 8)],
        "store": [triple("Session Store", "is", "Red")],
    }
    texts = {"auth": "The Auth Service does logins.", "store": "Sessions."}
    embedder = Cosines({})
    with build(CONFIDENT, facts, texts, embedder) as retriever:
        embedder.is_broken = True
        result = retriever.search(CLEAR)
        # 0.3 · 46/100 + 0.3 · 1 + 0.4 · 1, the best of keyword search: 0.138 + 0.3 + 0.4.
        assert result.confidence == pytest.approx(0.838, abs=1e-6)
        assert result.graph_ran
        # Session Store, strength 8: 0.8 · 0.838.
        assert {hit.chunk.id: hit.score for hit in result} == pytest.approx({"auth": 1.0, "store": 0.6704}, abs=1e-4)


START = "The same hundred characters stand at the beginning of both passages, which differ only after that. Then "


def test_passages_that_begin_alike_are_one_if_the_graph_ran_and_found_no_strong_relation(build):
    facts = {"a": [triple("Auth Service", "uses", "Session Store", 2)]}
    texts = {"a": f"{START}logins are described.", "b": f"{START}lunch was served in the garden at noon by a cook."}
    embedder = Cosines({texts["a"]: 0.95, texts["b"]: 0.9})
    with build(CONFIDENT, facts, texts, embedder) as retriever:
        assert ids(retriever.search(CLEAR)) == ["a"]
        # Without an entity the graph is skipped, and the vector hits are returned as they are.
        assert ids(retriever.search("what is used for the logins of this thing?")) == ["a", "b"]


def test_without_the_graph_expansion_the_entities_and_the_confidence_are_those_of_the_question(build):
    facts = {"auth": [triple("Auth Service", "uses", "Session Store", 8)]}
    texts = {"auth": "The Auth Service does logins.", "store": "Sessions."}
    off = CONFIDENT.replace(**{"gate.min_confidence": 1.0})
    with build(off, facts, texts, Cosines({texts["auth"]: 0.845})) as retriever:
        result = retriever.search(CLEAR)
        # 0.138 + 0.3 + 0.4 · 0.845 = 0.776; with use_graph=False, enabled: false of the document, 0.5 and no entity.
        assert result.confidence == pytest.approx(0.776, abs=ROUNDING)
        assert [entity.name for entity in result.entities] == ["Auth Service"]
        assert ids(result) == ["auth"]
        plain = retriever.search(CLEAR, use_graph=False)
        assert (plain.confidence, plain.entities) == (0.5, ())


def test_a_phrase_names_at_most_five_entities(build):
    names = ["Lindqvist", *(f"{first} Lindqvist" for first in ("Mara", "Nils", "Ola", "Per", "Rut", "Siv"))]
    facts = {name: [triple(name, "runs", f"Shop {at}")] for at, name in enumerate(names)}
    with build(CONFIDENT, facts) as retriever:
        found = [entity.name for entity in retriever.search("Where does Lindqvist work?").entities]
    assert len(found) == 5
    assert found[0] == "Lindqvist"
    assert set(found) <= set(names)


def test_entities_that_share_a_sentence_are_related_with_strength_three(build):
    sentence = Fact(("Auth Service", "Session Store"), "Both are here.", weight=SENTENCE_WEIGHT)
    facts = {"a": [sentence], "b": [triple("Session Store", "is", "Red")]}
    texts = {"a": "one", "b": "two"}
    with build(CONFIDENT, facts, texts, Cosines({"one": 0.9})) as retriever:
        # 0.138 + 0.3 + 0.4 · 0.9 = 0.798; a passage of Session Store has 3/10 · 0.798.
        scores = {hit.chunk.id: hit.score for hit in retriever.search(CLEAR)}
        assert scores == pytest.approx({"a": 0.9, "b": 0.2394}, abs=ROUNDING)
    with build(KG2RAG, facts, texts) as retriever:
        assert "Auth Service Session Store" in {hit.graph_expansion for hit in retriever.search("Auth Service")}


# -- 002


@pytest.mark.parametrize(("least", "is_found"), [(5.0, False), (4.0, True)])
def test_parallel_relations_are_not_added_up(build, least, is_found):
    facts = {"a": [triple("Alpha", "needs", "Bravo", 4), triple("Alpha", "calls", "Bravo", 3)]}
    with build(KG2RAG.replace(**{"graph.min_weight": least}), facts) as retriever:
        queries = {hit.graph_expansion for hit in retriever.search("Alpha")}
    assert ("Alpha Bravo" in queries) is is_found


# -- 004


FINDINGS = {
    "academic_papers": [
        {"arxiv_id": "2401.00001", "title": "Paper A", "concepts": ["red ink", "blue ink"],
         "citations": ["2401.00002", "2401.00004"]},
        {"arxiv_id": "2401.00002", "title": "Paper B", "concepts": ["red ink"], "citations": ["2401.00004"]},
        {"arxiv_id": "2401.00003", "title": "Paper C", "concepts": ["blue ink"]},
        {"arxiv_id": "2401.00004", "title": "Paper D", "concepts": ["green ink"]},
    ]
}  # fmt: skip
# 1 for each concept, 0.5 for each citation: A 1 + 1, B 1 + 0.5 (by A), C 1, D 0.5 + 0.5 (by A and B).
RELEVANCE = {"arxiv:2401.00001": 2.0, "arxiv:2401.00002": 1.5, "arxiv:2401.00003": 1.0, "arxiv:2401.00004": 1.0}


def test_the_graph_method_shows_the_scores_of_the_graph_and_nothing_else(build):
    with build(RESEARCH, {}) as retriever:
        retriever.index.add_research_findings(FINDINGS)
        result = retriever.search("red ink and blue ink", method="graph")
        assert {hit.chunk.id: hit.score for hit in result} == RELEVANCE
        assert ids(result)[:2] == ["arxiv:2401.00001", "arxiv:2401.00002"]
        nothing = retriever.search("who cites the weather?")
        assert nothing.method == "graph"
        assert ids(nothing) == []
        assert "the question names no known entity" in nothing.advice


@pytest.mark.parametrize("reference", ["2401.00002", "arXiv:2401.00002", "2401.00002v1", "arXiv:2401.00002v3",
                                       "https://arxiv.org/abs/2401.00002v1"])  # fmt: skip
@pytest.mark.parametrize("is_first", [True, False], ids=["cited paper first", "citing paper first"])
def test_a_paper_that_another_file_cites_by_its_arxiv_id_is_found(build, reference, is_first):
    citing = {"academic_papers": [{"title": "Paper A", "concepts": ["red ink"], "citations": [reference]}]}
    cited = {"academic_papers": [{"arxiv_id": "2401.00002", "title": "Paper B"}]}
    with build(RESEARCH, {}) as retriever:
        for findings in (cited, citing) if is_first else (citing, cited):
            retriever.index.add_research_findings(findings)
        result = retriever.search("who cites red ink?", method="graph")
        # 1 for the concept, 0.5 for the citation.
        assert {hit.chunk.id: hit.score for hit in result} == {"paper:paper-a": 1.0, "arxiv:2401.00002": 0.5}


# -- the context


def parallel_relations():
    relations = [triple("Auth Service", "depends_on", "Session Store", weight) for weight in (4, 3)]
    return {"auth": relations, "store": [triple("Session Store", "is", "Red")]}


def test_the_format_of_the_context_is_that_of_the_design(build):
    texts = {"auth": "The Auth Service does logins.", "store": "Sessions are kept."}
    for settings, style in ((HYBRID, "both"), (CONFIDENT, "passages"), (MEMORY, "narrative")):
        cosines = Cosines({texts["auth"]: 0.9, "Auth Service": 0.8})
        with build(settings, parallel_relations(), texts, cosines, embed_names=True) as retriever:
            context = retriever.search(CLEAR).context()
            assert context.style == style
            assert ("## Knowledge Graph Context" in context) is (settings is HYBRID)
            assert ("CONTEXT: Auth Service" in context) is (settings is MEMORY)
            # A call and the settings replace it.
            assert retriever.search(CLEAR, **{"context.style": "graph"}).context().style == "graph"
            assert retriever.search(CLEAR).context(style="passages").style == "passages"


def test_the_printed_weight_is_the_one_that_scores(build):
    texts = {"auth": "The Auth Service does logins.", "store": "Sessions are kept."}
    with build(HYBRID, parallel_relations(), texts, Cosines({})) as retriever:
        result = retriever.search(CLEAR)
        # The strongest of two relations, 4: 0.4 · 1 · (0.7 + 0.3 · log2(2 + 1) / 5), as two passages mention the store.
        assert result.hits[-1].channels["graph"].score == pytest.approx(0.4 * (0.7 + 0.3 * np.log2(3) / 5), abs=1e-6)
        assert "Related: Session Store (depends_on, weight: 4)" in result.context()


# -- the memory tool


@pytest.fixture(params=NEEDED)
def framework(request):
    pytest.importorskip(NEEDED[request.param])
    return import_module(f"on_{request.param}")


def test_the_tool_has_no_threshold_that_the_design_does_not_have(framework):
    # 0.3 · 1 · (0.7 + 0.3 · log2(1 + 1) / 5) = 0.228 is below 0.3, the threshold of document 001.
    facts = {"auth": [triple("Auth Service", "uses", "Session Store", 3)]}
    documents = [Document("auth", "The Auth Service does logins."), Document("store", "Sessions. Session Store.")]
    options = {"extractor": FixedExtractor(facts), "settings": HYBRID, "k": 1}
    with framework.build(documents, HashEmbedder(), **options) as retriever:
        plain = framework.ids(framework.retrieve(retriever, CLEAR, use_graph=False))
        _, found = framework.tool(retriever).call(query=CLEAR, max_results=1)
        assert framework.ids(found) == framework.ids(framework.retrieve(retriever, CLEAR))
        assert set(plain) <= set(framework.ids(found))
    old = triple("Boat", "has", "Mast", confidence=0.146, source="file", status="staged")  # 0.146 · 1.5 = 0.219
    facts = {"a": [old], "b": [triple("Boat", "has", "Hull", confidence=0.9, source="file", status="staged")]}
    documents = [Document(name, f"Passage {name}.") for name in facts]
    options = {"extractor": FixedExtractor(facts), "settings": MEMORY, "embed_names": True}
    with framework.build(documents, Cosines({"Boat": 0.9}), **options) as retriever:
        content, found = framework.tool(retriever).call(query="What is on board?")
        assert framework.ids(found) == ["b", "a"]
        assert content == "### 💡 CONTEXT: Boat\n- has: Hull\n- has: Mast"


# -- the graph


@pytest.mark.parametrize("settings", [HYBRID, CONFIDENT, KG2RAG, MEMORY, RESEARCH, SearchSettings()])
def test_the_designs_follow_relations_on_igraph_and_a_default_question_builds_none(build, settings, monkeypatch):
    built = []

    class Counting(igraph.Graph):
        def __init__(self, *arguments, **keywords):
            built.append(arguments)
            super().__init__(*arguments, **keywords)

    monkeypatch.setattr(igraph, "Graph", Counting)
    facts = {"a": [triple("Alpha", "needs", "Bravo", 8)], "b": [triple("Bravo", "cites", "Charlie", 8)]}
    texts = {"a": "one", "b": "two"}
    with build(settings, facts, texts, Cosines({"one": 0.9, "Alpha": 0.9}), embed_names=True) as retriever:
        method = {"method": "graph"} if settings is RESEARCH else {}
        assert retriever.search("What does Alpha need, and who needs Alpha in return?", **method).hits
    assert (len(built) > 0) is (settings != SearchSettings())
