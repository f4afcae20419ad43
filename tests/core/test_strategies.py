"""The graph strategies, with numbers worked out by hand from the documents that describe them."""

from __future__ import annotations

import time
from math import log2, log10

import pytest

from graphrag_core import Document, Fact, GraphRetriever, KnowledgeIndex
from graphrag_core.designs import MEMORY
from graphrag_core.query.query import Query
from graphrag_core.query.strategies.activation import WEEK
from graphrag_core.strategies import (
    ExpansionQueries,
    Gate,
    Neighbourhood,
    Recogniser,
    Relevance,
    SpreadingActivation,
    Weighted,
)
from graphrag_core.testing import FixedExtractor, HashEmbedder


def triple(subject: str, relation: str, target: str, **settings) -> Fact:
    return Fact((subject, target), f"{subject} {relation} {target}", relation, **settings)


SERVICES = {
    "auth": [triple("Auth Service", "depends_on", "OAuth Provider", weight=8.0)],
    "login": [triple("Auth Service", "part_of", "Login Flow", weight=5.0)],
    "google": [triple("OAuth Provider", "implements", "Google OAuth", weight=9.0)],
    "store": [triple("Auth Service", "uses", "Session Store", weight=2.0)],
}


@pytest.fixture
def told():
    """Each document holds one fact; every entity's number of mentions can be counted by eye."""
    with KnowledgeIndex(HashEmbedder(), extractor=FixedExtractor(SERVICES)) as index:
        index.add([Document(name, f"Passage about {name}.") for name in SERVICES])
        yield index


def query_on(index: KnowledgeIndex, question: str) -> Query:
    """What the pipeline passes to a strategy for a question."""
    vector = index.embedding.query(question)
    with index.engine.snapshot() as snapshot:
        return Query(question, snapshot, vector, Recogniser().recognise(question, vector, snapshot), index.embedding)


def strengths(index, strategy, question="Auth Service"):
    retriever = GraphRetriever(index, graph=strategy, method="graph")
    return {hit.chunk.id: hit.channels["graph"].score for hit in retriever.retrieve(question).hits}


def boost(mentions: int) -> float:
    return 0.7 + 0.3 * min(log2(mentions + 1) / 5, 1)


def test_a_neighbour_scores_by_weight_hop_and_mentions():
    # weight 8, one hop, 31 mentions: 0.8 * 1 * (0.7 + 0.3 * 5/5) = 0.8
    assert Neighbourhood().score(8, 1, 31) == pytest.approx(0.8)
    # weight 8, two hops, 31 mentions: half of it; three hops: a quarter
    assert Neighbourhood().score(8, 2, 31) == pytest.approx(0.4)
    assert Neighbourhood().score(8, 3, 31) == pytest.approx(0.2)
    # weight 10, one hop, one mention: 0.7 + 0.3 * log2(2)/5 = 0.76
    assert Neighbourhood().score(10, 1, 1) == pytest.approx(0.76)
    # more than 31 mentions boost no further
    assert Neighbourhood().score(10, 1, 10_000) == pytest.approx(1.0)


def test_the_neighbourhood_has_the_defaults_of_its_source():
    strategy = Neighbourhood()
    assert (strategy.hops, strategy.max_chunks) == (1, 4)
    assert isinstance(strategy.fusion, Weighted)
    assert (strategy.fusion.alpha, strategy.fusion.beta) == (0.7, 0.3)


def test_passages_of_one_hop_neighbours_are_found_and_scored(told):
    # OAuth Provider: weight 8, in 2 passages; Login Flow: weight 5, in 1; Session Store: weight 2.
    expected = {"auth": 0.8 * boost(2), "google": 0.8 * boost(2), "login": 0.5 * boost(1)}
    assert strengths(told, Neighbourhood()) == pytest.approx({**expected, "store": 0.2 * boost(1)})


def test_two_hops_count_half(told):
    found = strengths(told, Neighbourhood(hops=2))
    # Google OAuth: weight 9 over the second hop, in 1 passage; but "google" also holds OAuth Provider, one hop away.
    assert found["google"] == pytest.approx(max(0.8 * boost(2), 0.9 * 0.5 * boost(1)))
    deep = Neighbourhood(hops=2, relation_types=("depends_on", "implements"))
    assert set(strengths(told, deep)) == {"auth", "google"}


def test_relation_types_choose_what_is_followed(told):
    assert set(strengths(told, Neighbourhood(relation_types=("part_of",)))) == {"login"}
    retriever = GraphRetriever(told, graph=Neighbourhood(relation_types=("eats",)), method="graph")
    result = retriever.retrieve("Auth Service")
    assert result.hits == ()
    assert "Auth Service is linked to no entity by eats" in result.advice


def test_weighted_fusion_adds_and_never_removes(told):
    plain = GraphRetriever(told).retrieve("Auth Service", use_graph=False, k=10)
    both = GraphRetriever(told, graph=Neighbourhood()).retrieve("Auth Service", k=10)
    assert {hit.chunk.id for hit in plain.hits} <= {hit.chunk.id for hit in both.hits}


@pytest.mark.parametrize("strategy", [ExpansionQueries(), Neighbourhood(), SpreadingActivation()])
def test_an_empty_graph_gives_nothing_and_plain_search_answers(strategy):
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add([Document("a", "nothing here is a name.")])
        assert len(strategy.expand(query_on(index, "what is here?"), None, 5).keys) == 0
        assert [hit.chunk.id for hit in GraphRetriever(index, graph=strategy).retrieve("what is here?").hits] == ["a"]


# -- spreading activation

NOW = 1_700_000_000.0


def fact(**settings) -> Fact:
    return Fact(("User", "Dark Mode"), "User prefers Dark Mode", "prefers", **{"confidence": 0.8, **settings})


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        # confidence 0.8, user edit 2.0, fresh, never used, confirmed 1.2
        ({"source": "user_edit", "last_accessed": NOW, "status": "confirmed"}, 0.8 * 2.0 * 1.2),
        ({"source": "file", "last_accessed": NOW, "status": "confirmed"}, 0.8 * 1.5 * 1.2),
        ({"source": "system", "last_accessed": NOW, "status": "staged"}, 0.8 * 1.2),
        ({"source": "conversation", "last_accessed": NOW, "status": "staged"}, 0.8),
        ({"source": "hearsay", "last_accessed": NOW, "status": "staged"}, 0.8),
        # exactly a week is still grace; three weeks are two of decay: 0.95 ** 2 = 0.9025
        ({"source": "conversation", "last_accessed": NOW - WEEK, "status": "staged"}, 0.8),
        ({"source": "conversation", "last_accessed": NOW - 3 * WEEK, "status": "staged"}, 0.8 * 0.9025),
        # nine accesses: 1 + log10(10) * 0.5 = 1.5; ninety-nine: 2
        ({"source": "conversation", "last_accessed": NOW, "status": "staged", "access_count": 9}, 0.8 * 1.5),
        ({"source": "conversation", "last_accessed": NOW, "status": "staged", "access_count": 99}, 0.8 * 2),
        # never read: counts from its creation
        ({"source": "conversation", "created": NOW - 2 * WEEK, "status": "staged"}, 0.8 * 0.95),
    ],
)
def test_relevance_is_weighed_as_written(settings, expected):
    assert Relevance().score(fact(**settings), NOW) == pytest.approx(expected)


def test_activation_has_the_defaults_of_its_source():
    strategy = SpreadingActivation()
    assert (strategy.anchors, strategy.hops, strategy.max_facts, strategy.facts_per_entity) == (3, 2, 30, 10)


JACQ = {
    "project": [triple("JACQ Project", "uses", "DuckDB", confidence=0.9, source="user_edit")],
    "user": [triple("User", "works_on", "JACQ Project", confidence=1.0, source="conversation")],
    "duck": [triple("DuckDB", "supports", "Vector Search", confidence=0.7, source="file", status="staged")],
    "deep": [triple("Vector Search", "needs", "VSS Extension", confidence=1.0)],
}


@pytest.fixture
def jacq():
    with KnowledgeIndex(HashEmbedder(), extractor=FixedExtractor(JACQ), embed_names=True) as index:
        index.add([Document(name, f"Note {name}.") for name in JACQ])
        yield index


def test_activation_follows_facts_from_their_subject_two_hops_far(jacq):
    found = strengths(jacq, SpreadingActivation(anchors=1), "JACQ Project")
    assert set(found) == {"project", "duck"}, "not what points at the anchor, not the third hop"
    assert found["project"] == pytest.approx(0.9 * 2.0)
    assert found["duck"] == pytest.approx(0.7 * 1.5 * 1.0)
    assert set(strengths(jacq, SpreadingActivation(anchors=1, hops=3), "JACQ Project")) == {"project", "duck", "deep"}


def test_activation_stops_at_its_limits(jacq):
    assert len(strengths(jacq, SpreadingActivation(anchors=1, max_facts=1), "JACQ Project")) == 1
    many = {"hub": [triple("Hub", "has", f"Part {i}", confidence=i / 20) for i in range(20)]}
    with KnowledgeIndex(HashEmbedder(), extractor=FixedExtractor(many), embed_names=True) as index:
        index.add([Document("hub", "Hub.")])
        query = query_on(index, "Hub")
        facts = query.snapshot.facts(SpreadingActivation(anchors=1, hops=1).expand(query, None, 5).facts)
        assert len(facts) == 10
        assert min(f.confidence for f in facts) == pytest.approx(10 / 20), "the most confident ones"


def test_no_more_than_thirty_facts_are_returned():
    # The ten most confident of the hub, and ten of each of the things that these lead to: the document returns 110.
    facts = {name: [triple(name, "has", f"{name} {i}", confidence=1 - i / 100) for i in range(20)]
             for name in ("Hub", *(f"Hub {i}" for i in range(10)))}  # fmt: skip
    with KnowledgeIndex(HashEmbedder(), extractor=FixedExtractor(facts), embed_names=True) as index:
        index.add([Document(name, "Text.") for name in facts])
        found = GraphRetriever(index, MEMORY.replace(**{"graph.anchors": 1})).retrieve("Hub").facts
    assert {fact.text for fact in found} == {
        f"{name} has {name} {i}" for name in ("Hub", "Hub 0", "Hub 1") for i in range(10)
    }
    assert len(found) == 30


def test_a_sentence_is_followed_from_every_entity_in_it():
    sentence = Fact(("Mast", "Boat"), "A mast is on the boat.", weight=3.0)
    facts = {"a": [sentence], "b": [triple("Mast", "holds", "Rope"), triple("Fish", "sees", "Boat")]}
    with KnowledgeIndex(HashEmbedder(), extractor=FixedExtractor(facts), embed_names=True) as index:
        index.add([Document(name, f"Note {name}.") for name in facts])
        found = GraphRetriever(index, MEMORY.replace(**{"graph.anchors": 1})).retrieve("Boat").facts
    # From Boat along the sentence to Mast; a triple that leads to Boat is not followed.
    assert {fact.text for fact in found} == {sentence.text, "Mast holds Rope"}


def test_reading_a_fact_counts_and_the_count_is_kept(tmp_path):
    with KnowledgeIndex.open(
        tmp_path / "kb", HashEmbedder(), extractor=FixedExtractor(JACQ), embed_names=True
    ) as index:
        index.add([Document(name, f"Note {name}.") for name in JACQ])
        generation = index.engine.generation
        retriever = GraphRetriever(index, graph=SpreadingActivation(anchors=1), method="graph", cache=None)
        before = time.time()
        retriever.retrieve("JACQ Project")
        second = {hit.chunk.id: hit.channels["graph"].score for hit in retriever.retrieve("JACQ Project").hits}
        # Read once before: 1 + log10(2) * 0.5
        assert second["duck"] == pytest.approx(0.7 * 1.5 * (1 + log10(2) * 0.5))
        assert index.engine.generation == generation, "reading changes nothing that is searched"
    with KnowledgeIndex.open(tmp_path / "kb", HashEmbedder(), extractor=FixedExtractor(JACQ)) as index:
        (kept,) = [f for f in index.graph.facts("DuckDB") if f.relation == "supports"]
        assert kept.access_count == 2
        assert kept.last_accessed >= before
        assert index.verify()


def test_the_gate_leaves_weak_graph_results_to_plain_search(told):
    strategy = Neighbourhood()
    assert "store" in strengths(told, strategy)
    strict = GraphRetriever(told, graph=strategy, gate=Gate(min_graph_score=0.3), method="graph")
    assert {hit.chunk.id for hit in strict.retrieve("Auth Service").hits} == {"auth", "google", "login"}
    # The relation to Login Flow has strength 5: 5 / 10 is not below 0.5, but below 0.6.
    retriever = GraphRetriever(told, graph=strategy, method="graph")
    for least, found in ((0.5, {"auth", "google", "login"}), (0.6, {"auth", "google"})):
        asked = retriever.retrieve("Auth Service", **{"gate.min_graph_score": least})
        assert {hit.chunk.id for hit in asked.hits} == found


def test_the_gate_can_insist_on_an_entity(told):
    result = GraphRetriever(told, gate=Gate(needs_entity=True)).retrieve("what is going on?")
    assert "names no known entity" in result.expansion_skipped
    assert all("graph" not in hit.channels for hit in result.hits)
