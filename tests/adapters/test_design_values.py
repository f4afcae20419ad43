"""Values of the five designs, worked out by hand from their documents, in the core and through both adapters."""

from __future__ import annotations

import hashlib
import time
from contextlib import contextmanager
from importlib import import_module

import numpy as np
import pytest

from graphrag_core import (
    Document,
    Fact,
    GraphRetriever,
    KnowledgeExtractor,
    KnowledgeIndex,
    SentenceExtractor,
)
from graphrag_core.designs import CONFIDENT, HYBRID, KG2RAG, MEMORY, RESEARCH
from graphrag_core.errors import InputError
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


def test_a_fact_of_a_document_is_staged_and_ages_with_it(build, monkeypatch):
    facts = {"a": [Fact(("Boat", "Mast"), "Boat has Mast", "has", confidence=0.8)]}
    with build(MEMORY, facts, embedder=Cosines({"Boat": 0.9}), embed_names=True) as retriever:
        # 0.8 · 1.5 (file) · 1.0 (staged) = 1.2 in the first week; three weeks later 1.2 · 0.95^2 = 1.083.
        later = time.time() + 3 * 7 * 24 * 3600
        assert retriever.search("What is on board?", count_access=False).hits[0].score == pytest.approx(1.2)
        monkeypatch.setattr("graphrag_core.query.strategies.activation.time.time", lambda: later)
        assert retriever.search("Is it on board?", count_access=False).hits[0].score == pytest.approx(1.083, abs=1e-4)


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
        bm25 = next(hit for hit in result if hit.chunk.id == "auth").channels["keyword"].score
        quality = bm25 / (1 + bm25)
        # 0.3 · 46/100 + 0.3 · 1 + 0.4 · BM25 / (1 + BM25); Session Store, strength 8: 0.8 · the confidence.
        confidence = 0.138 + 0.3 + 0.4 * quality
        assert result.confidence == pytest.approx(confidence, abs=1e-6)
        scores = {hit.chunk.id: hit.score for hit in result}
        assert scores == pytest.approx({"auth": quality, "store": 0.8 * confidence}, abs=1e-6)
        kinds = {one["content"]: one["source"]["type"] for one in result.to_dict()["chunks"]}
        assert kinds == {texts["auth"]: "vector", "Sessions.": "graph"}


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
    off = CONFIDENT.replace(**{"gate.enabled": False, "gate.min_confidence": 0.0})
    with build(off, facts, texts, Cosines({texts["auth"]: 0.845})) as retriever:
        result = retriever.search(CLEAR)
        # 0.138 + 0.3 + 0.4 · 0.845 = 0.776; with use_graph=False, enabled: false of the document, 0.5 and no entity.
        assert result.confidence == pytest.approx(0.776, abs=ROUNDING)
        assert [entity.name for entity in result.entities] == ["Auth Service"]
        assert (ids(result), result.expansion_skipped) == (["auth"], "the graph was skipped: gate.enabled is false")
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


@pytest.mark.parametrize("settings", [HYBRID, CONFIDENT, KG2RAG])
def test_where_relations_are_stated_sentences_are_none(build, settings):
    sentence = Fact(("Auth Service", "Lunch Menu"), "Both are here.", weight=SENTENCE_WEIGHT)
    facts = {"a": [sentence, triple("Auth Service", "uses", "Session Store", 8)]}
    facts |= {"b": [triple("Session Store", "is", "Red")], "c": [triple("Lunch Menu", "is", "Green")]}
    settings = settings.replace(**{"k": 1, "gate.min_score": 0.0})
    with build(settings, facts, {"a": "one"}, Cosines({"one": 0.9})) as retriever:
        result = retriever.search(CLEAR)
        assert "stated relations" not in result.fallback
        if settings.graph == KG2RAG.graph:
            assert {hit.graph_expansion for hit in result} <= {"Auth Service Session Store", "Auth Service Red"}
        else:
            assert set(ids(result)) == {"a", "b"}
        followed = retriever.search(CLEAR, **{"graph.stated": False, "k": 9})
        assert "c" in ids(followed)
    with build(settings, {"a": [sentence], "c": facts["c"][:0]}, {"a": "one"}, Cosines({"one": 0.9})) as retriever:
        assert "the index has no stated relations" in retriever.search(CLEAR).fallback


def test_negative_cosines_keep_their_order(build):
    cosines = {"one": -0.2, "two": -0.6, "three": -0.4}
    for settings in (HYBRID, KG2RAG):
        with build(
            settings, {}, {name[0] + str(at): name for at, name in enumerate(cosines)}, Cosines(cosines)
        ) as retriever:
            result = retriever.search("zzz")
            assert [hit.chunk.text for hit in result] == ["one", "three", "two"]
            if settings is HYBRID:  # 0.7 · 0.6 · cosine
                scores = [hit.score for hit in result]
                assert scores == pytest.approx([-0.084, -0.168, -0.252], abs=ROUNDING)


def test_types_of_relations_are_set_by_their_path(build):
    facts = {"a": [triple("Auth Service", "uses", "Red")], "b": [triple("Auth Service", "owns", "Blue")],
             "c": [triple("Auth Service", "eats", "Green")]}  # fmt: skip
    with build(HYBRID, facts) as retriever:
        for given in ("uses,owns", ["uses", "owns"], ("uses", "owns")):
            result = retriever.search("Auth Service", **{"graph.relation_types": given})
            assert {hit.chunk.id for hit in result if "graph" in hit.channels} == {"a", "b"}
        with pytest.raises(InputError, match="use names, such as 'uses' or 'uses,owns'"):
            retriever.search("Auth Service", **{"graph.relation_types": 5})


# -- 002


@pytest.mark.parametrize(("least", "is_found"), [(5.0, False), (4.0, True)])
def test_parallel_relations_are_not_added_up(build, least, is_found):
    facts = {"a": [triple("Alpha", "needs", "Bravo", 4), triple("Alpha", "calls", "Bravo", 3)]}
    with build(KG2RAG.replace(**{"graph.min_weight": least}), facts) as retriever:
        queries = {hit.graph_expansion for hit in retriever.search("Alpha")}
    assert ("Alpha Bravo" in queries) is is_found


def test_the_query_of_a_passage_is_in_its_metadata_and_in_the_report(framework):
    facts = {"a": [triple("Alpha", "needs", "Bravo", 8)]}
    options = {"extractor": FixedExtractor(facts), "settings": KG2RAG}
    with framework.build([Document("a", "Alpha Bravo.")], HashEmbedder(), **options) as retriever:
        found = framework.retrieve(retriever, "Alpha")
        assert framework.metadata(found, "origin") == ["graph"]
        assert framework.metadata(found, "graph_expansion") == ["Alpha Bravo"]
        assert "by the query 'Alpha Bravo'" in retriever.search("Alpha").explain()


def test_stated_relations_of_the_metadata_are_neither_embedded_nor_shown(framework):
    known = {"entities": [], "relations": [{"source": "Alpha", "type": "uses", "target": "Bravo"}]}
    seen = []

    class Seeing(HashEmbedder):
        def embed_documents(self, texts):
            seen.extend(texts)
            return super().embed_documents(texts)

    with framework.build([Document("a", "Some text.", "", {"knowledge": known})], Seeing()) as retriever:
        found = framework.retrieve(retriever, "text")
        assert not any("Bravo" in text for text in seen)
        assert framework.metadata(found, "knowledge") == [known]
        assert not any("Bravo" in one.get_content(metadata_mode="llm") for one in found if hasattr(one, "node"))


# -- 004


def test_a_concept_counts_through_introduces_and_a_long_paper_is_one_row(build):
    body = " ".join(f"Sentence {at} of it speaks of red ink." for at in range(300))
    long = {"arxiv_id": "2401.00001", "title": "Paper A", "abstract": body, "concepts": ["red ink"]}
    other = {"arxiv_id": "2401.00002", "title": "Paper B", "abstract": "It only mentions Red Ink."}
    with build(RESEARCH, {}, extractor=SentenceExtractor()) as retriever:
        retriever.index.add_research_findings({"academic_papers": [long, other]})
        result = retriever.search("red ink", method="graph")
        assert len(retriever.index) == 2
        assert {hit.chunk.document_id: hit.score for hit in result} == {"arxiv:2401.00001": 1.0}
        assert len(result.hits) == 1
        metadata = retriever.search("who cites red ink?").to_dict()["metadata"]
        assert (metadata["method"], metadata["route"].split("'")[1]) == ("graph", "citation")


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


REFUNDS = "# Refunds\n\nWithin 30 days.\n\n\nUnused\n======\n- Keep the   bill."


def test_passages_are_written_character_by_character(build):
    facts = {"auth": [triple("Auth Service", "uses", "Session Store", 8)]}
    with build(CONFIDENT, facts, {"auth": REFUNDS}, Cosines({})) as retriever:
        result = retriever.search(CLEAR, **{"gate.min_score": 0.0, "gate.min_confidence": 0.0})
        # Entities without a type are listed, too.
        score = f"[Score: {result.hits[0].score:.2f}]"
        assert result.context() == f"## Related Entities\n\n**Auth Service**\n\n\n---\n\n{score}\n{REFUNDS}\n"


def test_the_passages_are_whole_and_the_block_alone_takes_500_tokens(build):
    texts = {f"p{at}": f"Alpha {at}. {'Words of a passage follow. ' * 60}End {at}." for at in range(9)}
    facts = {name: [triple("Alpha", f"relation_{at}", f"Thing number {at} {other}") for other in range(9)]
             for at, name in enumerate(texts)}  # fmt: skip
    with build(HYBRID, facts, texts) as retriever:
        result = retriever.search("Alpha")
        assert len(result.hits) == 5 + 4
        passages, block = result.context(tokenizer=len).split("\n\n## Knowledge Graph Context")
        assert all(hit.chunk.text in passages for hit in result.hits)
        assert 400 < len("## Knowledge Graph Context" + block) <= 500


def test_related_entities_have_their_descriptions_in_the_block(build):
    knowledge = {"entities": [{"name": "Alpha"}, {"name": "Bravo", "type": "tool", "description": "Turns it."}],
                 "relations": [{"source": "Alpha", "type": "uses", "target": "Bravo", "strength": 8}]}  # fmt: skip
    extractor = KnowledgeExtractor(knowledge={"a": knowledge, "b": {"entities": [{"name": "Bravo"}]}})
    with build(HYBRID, {}, {"a": "One.", "b": "Two."}, extractor=extractor) as retriever:
        context = retriever.search("Alpha").context()
        assert "### Alpha\nRelated: Bravo (uses, weight: 8)\n\n### Bravo (tool)\nDescription: Turns it.\n\n" in context


def test_the_narrative_has_all_thirty_facts_and_names_as_they_are(build):
    facts = {"a": [triple("Boat", "has", f"Part {at} (left, red) of the whole rigging of the old boat")
                   for at in range(30)]}  # fmt: skip
    settings = MEMORY.replace(**{"graph.facts_per_entity": 30})
    with build(settings, facts, embedder=Cosines({"Boat": 0.9}), embed_names=True) as retriever:
        lines = retriever.search("What is on board?").context().splitlines()
    assert lines[0] == "### 💡 CONTEXT: Boat"
    assert sorted(lines[1:]) == sorted(f"- has: {fact.entities[1]}" for fact in facts["a"])


def test_without_sources_only_the_entities_above_the_passages_are_sources(build):
    facts = {
        "auth": [triple("Auth Service", "uses", "Session Store", 8)],
        "store": [triple("Session Store", "is", "Red")],
    }
    texts = {"auth": "The Auth Service does logins.", "store": "Sessions."}
    with build(CONFIDENT, facts, texts, Cosines({texts["auth"]: 0.9})) as retriever:
        result = retriever.search(CLEAR)
        assert len(result.hits) == 2
        assert [source.name for source in result.context(include_sources=False).sources] == ["Auth Service"]
        assert {source.kind for source in result.context().sources} == {"entity", "chunk"}


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


def test_the_tool_of_the_confident_retriever_has_five_hits_with_the_graph_and_ten_without_a_threshold(framework):
    texts = {f"p{at:02}": f"Auth Service, text {at}." for at in range(12)}
    # Eight cosines from 0.75 on, four of 0.5; 0.138 + 0.3 + 0.4 · 0.9 = 0.798, so the graph runs.
    cosines = {text: 0.9 if at == 0 else 0.75 if at < 8 else 0.5 for at, text in enumerate(texts.values())}
    options = {"extractor": FixedExtractor({"p00": [triple("Auth Service", "uses", "Red", 1)]}), "settings": CONFIDENT}
    documents = [Document(name, text) for name, text in texts.items()]
    with framework.build(documents, Cosines(cosines), **options) as retriever:
        tool = framework.tool(retriever)
        assert len(tool.call(query=CLEAR)[1]) == 5
        assert len(tool.call(query=CLEAR, use_graph=False)[1]) == 10
        assert len(tool.call(query=CLEAR, use_graph=False, max_results=12)[1]) == 12
