"""The "confident retriever" (seed 001): its examples and formulas, with values worked out by hand."""

from __future__ import annotations

import json
import math

import pytest
from confident import ANSWER, CONFIDENCE, PASSAGES, QUESTION, RELATIONS, ROUNDING, SUBJECTS, Cosines

from graphrag_core import Document, Fact, GraphRetriever, KnowledgeExtractor, KnowledgeIndex
from graphrag_core.designs import CONFIDENT
from graphrag_core.errors import InputError
from graphrag_core.strategies import (
    ExpansionQueries,
    Gate,
    Neighbourhood,
    OwnScores,
    PageRank,
    Recogniser,
    RelatedEntities,
    SpreadingActivation,
)
from graphrag_core.testing import CHAIN, FixedExtractor, HashEmbedder


def triple(subject: str, relation: str, target: str, strength: float) -> Fact:
    return Fact((subject, target), f"{subject} {relation} {target}", relation, strength)


FACTS = {name: [triple(*relation)] for name, relation in RELATIONS.items()}


@pytest.fixture
def told():
    with KnowledgeIndex(Cosines(), extractor=FixedExtractor(FACTS, SUBJECTS), embed_names=False) as index:
        index.add([Document(name, text) for name, text in PASSAGES.items()])
        yield index


STRATEGIES = [
    PageRank(),
    Neighbourhood(),
    ExpansionQueries(hits=6),
    SpreadingActivation(),
    RelatedEntities(),
]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda strategy: type(strategy).__name__)
def test_the_threshold_is_the_strength_of_the_relation_for_every_strategy(told, strategy):
    # Strength 2 / 10 = 0.2 < 0.3 is left out: "store" states it. 5 / 10 and 8 / 10 are kept.
    retriever = GraphRetriever(told, graph=strategy, gate=Gate(), method="graph", k=6)
    found = {hit.chunk.id for hit in retriever.retrieve(QUESTION, **{"gate.min_graph_score": 0.3})}
    assert {"auth", "login"} <= found
    assert not found & {"store", "redis"}
    assert {"store"} <= {hit.chunk.id for hit in retriever.retrieve(QUESTION, **{"gate.min_graph_score": 0.2})}
    # 5 / 10 is not below 0.5, but below 0.51.
    assert "login" in {hit.chunk.id for hit in retriever.retrieve(QUESTION, **{"gate.min_graph_score": 0.5})}
    assert "login" not in {hit.chunk.id for hit in retriever.retrieve(QUESTION, **{"gate.min_graph_score": 0.51})}


def test_a_triple_with_the_weight_of_a_sentence_has_strength_three():
    facts = {"a": [triple("Alpha", "knows", "Bravo", 3)], "b": [triple("Alpha", "knows", "Charlie", 9)]}
    with KnowledgeIndex(HashEmbedder(), extractor=FixedExtractor(facts)) as index:
        index.add([Document("a", "Some words."), Document("b", "Other text.")])
        retriever = GraphRetriever(index, method="graph")
        assert {hit.chunk.id for hit in retriever.retrieve("Alpha", **{"gate.min_graph_score": 0.3})} == {"a", "b"}
        assert {hit.chunk.id for hit in retriever.retrieve("Alpha", **{"gate.min_graph_score": 0.31})} == {"b"}


def test_without_stated_strengths_the_threshold_is_relative():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(CHAIN)
        lax = GraphRetriever(index, method="graph", k=9).retrieve("Auth Service", **{"gate.min_graph_score": 0.0})
        strict = GraphRetriever(index, method="graph", k=9).retrieve("Auth Service", **{"gate.min_graph_score": 1.0})
        assert 0 < len(strict) < len(lax), "PageRank's best passage has strength 1, its worst 0"


def test_ready_knowledge_keeps_its_strengths():
    known = {
        "a": {"entities": [], "relations": [{"source": "A1", "type": "uses", "target": "B1", "strength": 2}]},
        "b": {"entities": [], "relations": [{"source": "A1", "type": "uses", "target": "B2", "weight": "7.5"}]},
        "c": [("A1", "uses", "B3", 4), ("A1", "uses", "B4")],
    }
    with KnowledgeIndex(HashEmbedder(), extractor=KnowledgeExtractor(knowledge=known)) as index:
        index.add([Document(name, f"Text {name}.") for name in known])
        weights = {fact.entities[1]: fact.weight for fact in index.graph.facts("A1")}
    assert weights == {"b1": 2.0, "b2": 7.5, "b3": 4.0, "b4": 10.0}


def test_vector_hits_below_min_score_are_left_out(told):
    retriever = GraphRetriever(told, method="vector", k=6)
    assert len(retriever.retrieve(QUESTION)) == 6
    assert [hit.chunk.id for hit in retriever.retrieve(QUESTION, **{"gate.min_score": 0.7})] == ["auth", "lunch"]
    # 0.75 is not below 0.75.
    assert [hit.chunk.id for hit in retriever.retrieve(QUESTION, **{"gate.min_score": 0.75})] == ["auth", "lunch"]
    assert len(GraphRetriever(told, method="vector", k=6, gate=Gate(min_score=0.7)).retrieve(QUESTION)) == 2
    with pytest.raises(InputError, match=r"gate\.min_score is 7"):
        retriever.retrieve(QUESTION, **{"gate.min_score": 7})


def test_confidence_counts_the_best_hit_that_min_score_allows(told):
    gate = Gate(min_score=0.7, weigh_by_confidence=True)
    # 32 characters: 0.3 · 0.32 = 0.096; an entity: 0.3; the best hit 0.875: 0.4 · 0.875 = 0.35. Sum 0.746.
    assert GraphRetriever(told, gate=gate).retrieve(QUESTION).confidence == pytest.approx(0.746, abs=ROUNDING)
    # No hit from 0.95 on: 0.096 + 0.3 + 0 = 0.396.
    least = {"gate.min_score": 0.95}
    assert GraphRetriever(told, gate=gate).retrieve(QUESTION, **least).confidence == pytest.approx(0.396, abs=ROUNDING)
    assert GraphRetriever(told).retrieve(QUESTION, **least).confidence is None, "the gate does not use it"


def test_the_defaults_of_the_design_are_one_setting_away(told):
    assert CONFIDENT.gate == Gate(
        min_confidence=0.5, min_graph_score=0.3, needs_entity=True, min_score=0.7, weigh_by_confidence=True
    )
    retriever = GraphRetriever(told, settings=CONFIDENT).settings.resolved
    assert (retriever.k, retriever.gate) == (5, CONFIDENT.gate)
    assert (retriever.graph.hops, retriever.graph.max_chunks) == (1, 4)
    assert retriever.fusion == OwnScores(max_chunks=None, same_start=100)
    assert retriever.recogniser == Recogniser(phrases=5, nearest=0)
    own = GraphRetriever(told, settings=CONFIDENT, gate=Gate(), recogniser=Recogniser()).settings
    assert (own.gate, own.recogniser) == (Gate(), Recogniser())


def test_the_retrieval_of_the_document_step_by_step(told):
    """mergeResults: vector hits keep their score, the graph's have strength / 10 · confidence, sorted by score."""
    result = GraphRetriever(told, settings=CONFIDENT).retrieve(QUESTION)
    assert [hit.chunk.id for hit in result] == list(ANSWER)
    assert [hit.score for hit in result] == pytest.approx(list(ANSWER.values()), abs=ROUNDING)
    assert [hit.origin for hit in result] == ["plain", "plain", "graph", "graph"]
    assert result.counts == {"plain": 2, "graph": 2}
    assert [(hit.entity.text, hit.hops) for hit in result.hits[2:]] == [("OAuth Provider", 1), ("Login Flow", 1)]
    assert result.confidence == pytest.approx(CONFIDENCE, abs=ROUNDING)
    assert (result.expansion_skipped, result.advice) == ("", "")


def test_the_graph_is_skipped_where_the_confidence_is_low_or_no_entity_is_named(told):
    retriever = GraphRetriever(told, settings=CONFIDENT)
    # "Auth Service": 12 characters: 0.036 + 0.3 + 0.35 = 0.686, so the graph runs; without hits 0.336.
    assert retriever.retrieve("Auth Service").confidence == pytest.approx(0.686, abs=ROUNDING)
    low = retriever.retrieve("Auth Service", **{"gate.min_score": 0.95, "gate.min_confidence": 0.5})
    assert low.confidence == pytest.approx(0.336, abs=ROUNDING)
    assert "confidence 0.34 is below 0.50" in low.expansion_skipped
    assert not low.hits
    # No entity: 33 characters, 0.099 + 0.15 + 0.35 = 0.599.
    unnamed = retriever.retrieve("what is everything all about then")
    assert unnamed.confidence == pytest.approx(0.599, abs=ROUNDING)
    assert "names no known entity" in unnamed.expansion_skipped
    assert [hit.chunk.id for hit in unnamed] == ["auth", "lunch"]


def test_without_the_graph_only_vector_search_answers_with_confidence_one_half(told):
    result = GraphRetriever(told, settings=CONFIDENT).retrieve(QUESTION, use_graph=False)
    assert [hit.chunk.id for hit in result] == ["auth", "lunch"]
    assert [hit.score for hit in result] == pytest.approx([0.875, 0.75], abs=ROUNDING)
    assert result.confidence == 0.5
    assert result.counts == {"plain": 2, "graph": 0}


def test_at_most_four_passages_of_each_related_entity():
    facts = {"0": [triple("Alpha", "has", "Bravo", 9)], "1": [triple("Alpha", "has", "Charlie", 6)]}
    subjects = {f"b{i}": "Bravo" for i in range(6)} | {f"c{i}": "Charlie" for i in range(6)}
    with KnowledgeIndex(Cosines(), extractor=FixedExtractor(facts, subjects), embed_names=False) as index:
        index.add([Document(name, f"Text {name} cos 0.{9 - int(name[-1])}0.") for name in [*facts, *subjects]])
        hits = GraphRetriever(index, graph=RelatedEntities(), gate=Gate(), method="graph", k=99).retrieve("Alpha")
        found = [(hit.chunk.id, round(hit.score, 2)) for hit in hits]
    # The four most similar of each: "0" (cosine 0.9) and b0 to b2 of Bravo; "1" (0.8), c0 and c1 to c2 of Charlie.
    assert found == [
        ("0", 0.9), ("b0", 0.9), ("b1", 0.9), ("b2", 0.9), ("c0", 0.6), ("1", 0.6), ("c1", 0.6), ("c2", 0.6),
    ]  # fmt: skip


def test_passages_that_begin_alike_count_as_one():
    start = "The same one hundred characters at the start of a passage do not make two passages of it in a result, "
    assert len(start) > 100
    texts = {
        "vector": f"{start} cos 0.8125, seen by the vector search as it is nearest to the question that was asked.",
        "graph": f"{start} cos 0.125, and something else entirely follows: boats, trees, mountains, rivers, oceans.",
    }
    facts = {"graph": [triple("Auth Service", "depends_on", "OAuth Provider", 8)]}
    with KnowledgeIndex(Cosines(), extractor=FixedExtractor(facts), embed_names=False) as index:
        index.add([Document(name, text) for name, text in texts.items()])
        result = GraphRetriever(index, settings=CONFIDENT).retrieve(QUESTION)
        assert [hit.chunk.id for hit in result] == ["vector"], "the vector hit is kept"
        both = GraphRetriever(index, settings=CONFIDENT, fusion=OwnScores(same_start=0)).retrieve(QUESTION)
        assert [hit.chunk.id for hit in both] == ["vector", "graph"]


def test_strengths_are_weighed_by_the_confidence_with_any_fusion(told):
    plain = GraphRetriever(told, graph=Neighbourhood(), gate=Gate(), method="graph").retrieve(QUESTION)
    weighed = GraphRetriever(told, graph=Neighbourhood(), gate=Gate(weigh_by_confidence=True), method="graph")
    scores = {hit.chunk.id: hit.score for hit in weighed.retrieve(QUESTION)}
    assert scores == {hit.chunk.id: pytest.approx(hit.score * 0.746, abs=ROUNDING) for hit in plain}


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("Who is Lindqvist?", {"Mara Lindqvist"}),  # a capitalised part of a name
        ('what of "oauth"?', {"OAuth Provider"}),  # a quoted one
        ("Who runs the OAuth Provider?", {"OAuth Provider"}),
        ("who is lindqvist?", set()),  # neither
    ],
)
def test_phrases_name_entities_by_a_part_of_their_name(services, question, named):
    result = GraphRetriever(services, recogniser=CONFIDENT.recogniser).retrieve(question)
    assert {entity.name for entity in result.entities} >= named
    assert named or not result.entities
    assert GraphRetriever(services).retrieve("Who is Lindqvist?").entities == ()


def test_the_origin_is_that_of_plain_search_where_it_would_have_returned_the_passage():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(CHAIN)
        question = "Where does the vendor behind the Auth Service sit?"
        plain = {hit.chunk.id for hit in GraphRetriever(index, k=3).retrieve(question, use_graph=False)}
        result = GraphRetriever(index, k=3).retrieve(question)
        for hit in result:
            assert hit.origin == ("plain" if hit.chunk.id in plain else "graph"), "also below 100 passages"
        assert result.counts == {"plain": 2, "graph": 1}, "keyring is added by the graph"
        everything = GraphRetriever(index, k=5).retrieve(question)
        assert everything.counts == {"plain": 5, "graph": 0}, "plain search returns all five"


def test_an_empty_result_says_what_to_do(told, index):
    assert GraphRetriever(index).retrieve("x").advice == "the index is empty: add documents"
    retriever = GraphRetriever(told)
    index.add(CHAIN)
    filtered = GraphRetriever(index).retrieve("x", where={"tenant": "nobody"})
    assert filtered.advice == "no document matches the filter: check its keys and values"
    near = retriever.retrieve("x", method="vector", **{"gate.min_score": 0.95})
    assert "similarity 0.95 that min_score asks for, the nearest has 0.88: lower min_score" in near.advice
    assert near.advice in near.explain()
    words = retriever.retrieve("zebra", method="keyword")
    assert "no passage has a word of the question" in words.advice
    dropped = GraphRetriever(told, reranker=lambda _, chunks: [None] * len(chunks)).retrieve(QUESTION)
    assert "the reranker dropped every passage" in dropped.advice


def test_a_low_confidence_says_what_would_raise_it(told):
    # "zebra": 0.015 + 0.15 + 0.35 = 0.515, which is not low; without vector hits 0.165.
    weighing = GraphRetriever(told, gate=Gate(weigh_by_confidence=True))
    assert "confidence" not in weighing.retrieve("zebra").advice
    low = weighing.retrieve("lunch or zebra", **{"gate.min_score": 0.95})
    # 14 characters: 0.042 + 0.3 (Lunch is an entity) + 0 = 0.342
    assert low.confidence == pytest.approx(0.342, abs=ROUNDING)
    assert low.advice.startswith("the confidence is low, 0.34: ask in a whole sentence, check that the index has")
    assert "min_confidence" not in low.advice
    strict = GraphRetriever(told, gate=Gate.strict()).retrieve("noon then", **{"gate.min_score": 0.95})
    # 9 characters: 0.027 + 0.15 + 0 = 0.177
    assert strict.advice.startswith("the confidence is low, 0.18: name something that the index knows")
    assert strict.advice.endswith(", or lower min_confidence")
    assert strict.details(strict.hits[0])["advice"] == strict.advice
    assert GraphRetriever(told).retrieve("lunch or zebra", **{"gate.min_score": 0.95}).advice == ""


def test_the_result_in_the_form_of_the_document(told):
    found = GraphRetriever(told, settings=CONFIDENT).retrieve(QUESTION).to_dict()
    assert json.loads(json.dumps(found)) == found
    assert list(found) == ["chunks", "graph_context", "confidence", "metadata"]
    vector, _, graph, _ = found["chunks"]
    assert (vector["content"], vector["source"]) == (PASSAGES["auth"], {"type": "vector"})
    assert graph["score"] == pytest.approx(0.5968, abs=ROUNDING)
    source = graph["source"]
    assert (source["type"], source["entity"]["name"], source["hops"]) == ("graph", "OAuth Provider", 1)
    assert [entity["name"] for entity in found["graph_context"]["entities"]] == ["Auth Service"]
    assert {
        "source": "Auth Service", "target": "OAuth Provider", "type": "depends_on",
        "description": "Auth Service depends_on OAuth Provider", "strength": 8.0,
    } in found["graph_context"]["relationships"]  # fmt: skip
    assert found["metadata"] == {
        "vector_results": 2, "graph_results": 2, "entities_recognized": 1, "expansion_skipped": "",
        "method": "hybrid", "route": "",
    }  # fmt: skip
    skipped = GraphRetriever(told, settings=CONFIDENT).retrieve("what is everything all about then").to_dict()
    assert skipped["graph_context"] is None
    assert "names no known entity" in skipped["metadata"]["expansion_skipped"]
    words = GraphRetriever(told, method="keyword").retrieve("Lunch").to_dict()
    assert words["chunks"][0]["source"] == {"type": "keyword"}


KNOWN = {
    "auth": {
        "entities": [{"name": "Auth Service", "type": "concept", "description": "Issues tokens."}],
        "relations": [{"source": "Auth Service", "type": "depends_on", "target": "OAuth Provider", "strength": 8}],
    },
    "oauth": {"entities": [{"name": "OAuth Provider", "type": "tool"}], "relations": []},
}


@pytest.fixture
def answered():
    """Two passages: one found by vector search, one added by the graph."""
    with KnowledgeIndex(Cosines(), extractor=KnowledgeExtractor(knowledge=KNOWN), embed_names=False) as index:
        index.add([Document(name, PASSAGES[name], metadata={}) for name in ("auth", "oauth")])
        yield GraphRetriever(index, settings=CONFIDENT).retrieve(QUESTION)


def test_the_context_of_the_document(answered):
    """ContextFormatter: entities with types and descriptions, passages with scores, separated by rules."""
    context = answered.context(style="passages")
    assert context == "\n---\n\n".join(
        [
            "## Related Entities\n\n**Auth Service** (concept)\n\nIssues tokens.\n\n",
            f"[Score: 0.88]\n{PASSAGES['auth']}\n",
            f"[Score: 0.60]\n{PASSAGES['oauth']}\n",
        ]
    )
    # Rough count of the document: a token for four characters.
    counted = answered.context(4_000, style="passages", tokenizer=lambda text: math.ceil(len(text) / 4))
    assert counted.tokens == math.ceil(len(counted) / 4)


def test_sources_are_those_of_chunks_and_of_the_entity_that_the_graph_followed(answered):
    cited = answered.context(4_000, style="passages")
    assert {(source.kind, source.id) for source in cited.sources} == {
        ("entity", "auth service"), ("chunk", "auth"), ("chunk", "oauth"), ("entity", "oauth provider"),
    }  # fmt: skip
    plain = answered.context(4_000, style="passages", include_sources=False)
    assert {source.kind for source in plain.sources} == {"entity"}
    for style in ("graph", "both"):
        assert "chunk" in {source.kind for source in answered.context(style=style).sources}
        assert {source.kind for source in answered.context(style=style, include_sources=False).sources} == {"entity"}


def test_relationships_are_listed_on_demand(answered):
    line = '- Auth Service -> OAuth Provider: "depends_on" (strength: 8)'
    assert line in answered.context(style="graph")
    assert line not in answered.context(style="graph", include_relationships=False)
    assert "Related: OAuth" not in answered.context(style="graph", include_relationships=False)
    assert line not in answered.context(style="both", include_relationships=False)
    assert line not in answered.context(style="passages")
    listed = answered.context(style="passages", include_relationships=True)
    assert f"\n---\n\n## Relationships\n\n{line}\n\n\n---\n\n[Score: 0.88]" in listed
    assert listed.index("## Related Entities") < listed.index("## Relationships")


def test_the_strategy_refuses_more_than_three_hops_and_follows_two():
    with pytest.raises(InputError, match="hops is 4"):
        RelatedEntities(hops=4)
    facts = {"a": [triple("Alpha", "to", "Bravo", 2)], "b": [triple("Bravo", "to", "Charlie", 9)]}
    with KnowledgeIndex(Cosines(), extractor=FixedExtractor(facts, {"c": "Charlie"}), embed_names=False) as index:
        index.add([Document(name, f"Text {name}.") for name in "abc"])

        def scores(**settings):
            retriever = GraphRetriever(
                index, graph=RelatedEntities(**settings), gate=Gate(min_graph_score=0.3), method="graph"
            )
            result = retriever.retrieve("Alpha")
            return {hit.chunk.id: round(hit.score, 2) for hit in result if "graph" in hit.channels}

        # One hop: Bravo, 2 / 10 < 0.3. Two hops: Charlie by its own relation, 9 / 10, as the design has it.
        assert scores() == {}
        assert scores(hops=2) == {"b": 0.9, "c": 0.9}


def test_nothing_strong_enough_is_told(told):
    result = GraphRetriever(told, graph=RelatedEntities(), gate=Gate(min_graph_score=0.9)).retrieve(QUESTION)
    assert result.expansion_skipped == "the graph adds nothing: every relation is below 0.9, the strongest has 0.80"
