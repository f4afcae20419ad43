"""The design of the hybrid retriever: its formulas, defaults and formats, with values worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from seeds_000 import BLOCK, CREATES, DOCUMENTS, QUESTION

from graphrag_core import Document, Fact, GraphRetriever, KnowledgeExtractor, KnowledgeIndex
from graphrag_core.context.relations import inverse
from graphrag_core.designs import HYBRID
from graphrag_core.errors import InputError
from graphrag_core.strategies import (
    Additive,
    ContextFormat,
    ExpansionQueries,
    Linear,
    Neighbourhood,
    PageRank,
    ReciprocalRank,
    Recogniser,
    SpreadingActivation,
    Weighted,
)
from graphrag_core.testing import CHAIN, FixedExtractor, FusionSuite, HashEmbedder, StrategySuite

PUBLISHED = ContextFormat(published=True)


def triple(subject: str, relation: str, target: str, weight: float) -> Fact:
    return Fact((subject, target), f"{subject} {relation} {target}", relation, weight=weight)


def make(facts: dict[str, list[Fact]], texts: dict[str, str] | None = None) -> KnowledgeIndex:
    index = KnowledgeIndex(HashEmbedder(), extractor=FixedExtractor(facts))
    index.add([Document(name, (texts or {}).get(name, f"Passage about {name}.")) for name in facts])
    return index


def graph_scores(result) -> dict[str, float]:
    return {hit.chunk.id: hit.channels["graph"].score for hit in result.hits if "graph" in hit.channels}


@pytest.fixture
def shown():
    """The knowledge graph of the design's example."""
    with KnowledgeIndex(HashEmbedder(), extractor=KnowledgeExtractor()) as index:
        index.add(DOCUMENTS)
        yield index


# -- phase 2: names in the question


def test_names_of_one_to_three_words_are_looked_up_and_at_most_five_returned():
    names = ["Alpha", "Bravo", "Charlie", "Delta", "Echo", "Foxtrot"]
    facts = {"one": [triple(name, "is", "Long Name Of Five Words", 5) for name in names]}
    with KnowledgeIndex(HashEmbedder(), extractor=FixedExtractor(facts), embed_names=False) as index:
        index.add([Document("one", "Nothing.")])
        question = "What joins Alpha, Bravo, Charlie, Delta, Echo, Foxtrot?"

        def found(recogniser, question):
            result = GraphRetriever(index, recogniser=recogniser).retrieve(question)
            return [entity.name for entity in result.entities]

        assert found(Recogniser(), question) == names
        assert found(HYBRID.recogniser, question) == names[:5]
        assert found(Recogniser(), "the Long Name Of Five Words") == ["Long Name Of Five Words"]
        assert found(HYBRID.recogniser, "the Long Name Of Five Words") == []


def test_without_a_name_the_three_nearest_names_from_075_on_are_taken():
    published = HYBRID.recogniser
    assert (published.nearest, published.least_similarity, published.most_words, published.most) == (3, 0.75, 3, 5)
    facts = {"one": [triple("Auth Service", "uses", "Session Store", 5)]}
    with KnowledgeIndex(HashEmbedder(), extractor=FixedExtractor(facts), embed_names=True) as index:
        index.add([Document("one", "Nothing.")])
        # "service auth" has the words of "Auth Service" in another order: the same hashed vector, cosine 1.
        result = GraphRetriever(index, recogniser=published).retrieve("service auth")
        assert [entity.name for entity in result.entities] == ["Auth Service"]


# -- phase 3: scores


@pytest.mark.parametrize(
    ("weight", "hop", "mentions", "expected"),
    [
        # 8/10 · 1 · (0.7 + 0.3 · log2(3)/5) = 0.8 · (0.7 + 0.3 · 0.316993) = 0.8 · 0.795098 = 0.636078
        (8, 1, 2, 0.636078),
        # two hops 0.5x, three hops 0.25x
        (8, 2, 2, 0.318039),
        (8, 3, 2, 0.159020),
        # a sentence: 3/10 · (0.7 + 0.3 · log2(2)/5) = 0.3 · 0.76 = 0.228
        (3, 1, 1, 0.228),
        # 31 mentions: log2(32)/5 = 1, the boost is full; more do not count
        (10, 1, 31, 1.0),
        (10, 1, 1_000, 1.0),
    ],
)
def test_the_score_is_that_of_the_design(weight, hop, mentions, expected):
    assert Neighbourhood().score(weight, hop, mentions) == pytest.approx(expected, abs=1e-6)


def test_the_published_defaults():
    assert (HYBRID.graph.hops, HYBRID.graph.max_chunks, HYBRID.resolved.gate.min_graph_score) == (1, 4, 0.0)
    assert isinstance(HYBRID.fusion, Additive)
    assert HYBRID.fusion.fusion == Weighted(alpha=0.7, beta=0.3, relative_scores=False)
    # 0.7 · 0.9 + 0.3 · 0.5 = 0.63 + 0.15
    assert HYBRID.fusion.fusion.score(0.9, 0.5) == pytest.approx(0.78)


def test_it_works_on_sentences_out_of_the_box():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(CHAIN)
        result = GraphRetriever(index, graph=Neighbourhood()).retrieve("What is the Auth Service?", k=4)
    # One sentence joins Auth Service and OAuth Provider: weight 3. OAuth Provider is in auth and oauth:
    # 0.3 · (0.7 + 0.3 · log2(3)/5) = 0.3 · 0.795098 = 0.238529
    assert graph_scores(result) == pytest.approx({"auth": 0.238529, "oauth": 0.238529}, abs=1e-6)
    assert result.expansion_skipped == ""


ALPHA = {
    "alpha": [triple("Alpha", "depends_on", "Bravo", 8)],
    "bravo": [triple("Bravo", "uses", "Charlie", 2)],
}


@pytest.mark.parametrize("question", ["Alpha and Bravo", "Alpha"])
def test_two_named_entities_lead_to_each_others_passages(question):
    with make(ALPHA) as index:
        result = GraphRetriever(index, graph=Neighbourhood()).retrieve(question)
    # Bravo: weight 8 from Alpha, in 2 passages: 0.636 (above). Naming Bravo as well must not lose it.
    assert graph_scores(result)["bravo"] == pytest.approx(0.636078, abs=1e-6)


@pytest.mark.parametrize("strategy", [Neighbourhood(), PageRank(), ExpansionQueries()])
def test_what_joins_the_questions_own_entities_comes_first(strategy):
    others = {f"other{i}": [triple("Alpha", "touches", f"Thing {i}", 10)] for i in range(40)}
    with make({**others, **ALPHA}) as index:
        result = GraphRetriever(index, graph=strategy, context=PUBLISHED).retrieve("Alpha and Bravo", explain=True)
    assert result.facts[0].text == "Alpha depends_on Bravo", "weaker than 40 others, but it joins what was named"
    context = result.context(2_000)
    related = [line for line in context.splitlines() if line.startswith("Related: ")]
    assert related[0].startswith("Related: Bravo (depends_on, weight: 8)")
    assert related[1].startswith("Related: Alpha (depended_on_by, weight: 8)")
    relationships = [line for line in context.splitlines() if line.startswith("- ")]
    assert relationships[0] == '- Alpha -> Bravo: "depends_on" (strength: 8)'


def test_a_name_that_is_repeated_in_a_passage_counts_once():
    facts = {"alpha": [triple("Alpha", "depends_on", "Bravo", 8)], "bravo": []}
    extractor = FixedExtractor(facts, {"bravo": "Bravo"})
    with KnowledgeIndex(HashEmbedder(), extractor=extractor, embed_names=False) as index:
        index.add([Document("alpha", "One."), Document("bravo", "Bravo, Bravo and Bravo.")])
        result = GraphRetriever(index, HYBRID).retrieve("Alpha")
    # Bravo is in two passages: 0.8 · (0.7 + 0.3 · log2(3)/5) = 0.636078, as above, and not in four.
    assert graph_scores(result)["bravo"] == pytest.approx(0.636078, abs=1e-6)


def test_facts_of_other_relations_are_not_followed():
    with make(ALPHA) as index:
        strategy = Neighbourhood(relation_types=("uses",))
        result = GraphRetriever(index, graph=strategy, method="graph").retrieve("Alpha and Bravo")
        assert set(graph_scores(result)) == {"bravo"}


# -- the final merge

HUB = {f"n{i}": [triple("Hub", "has", f"Part {i}", 10 - i)] for i in range(9)}


def hub(texts: dict[str, str] | None = None) -> KnowledgeIndex:
    """Nine passages of which each holds one link of the hub; the first is the strongest."""
    return make(HUB, texts)


def test_max_chunks_counts_what_the_graph_adds():
    # Plain search finds the words in n0, n1 and n2, which also have the strongest links.
    with hub({f"n{i}": f"Hub spokes and wheels, number {i}." for i in range(3)}) as index:
        strategy = Neighbourhood(max_chunks=2)
        retriever = GraphRetriever(index, graph=strategy)
        plain = retriever.retrieve("Hub spokes and wheels", k=3, use_graph=False)
        assert {hit.chunk.id for hit in plain.hits} == {"n0", "n1", "n2"}
        result = retriever.retrieve("Hub spokes and wheels", k=9)
        assert len(graph_scores(result)) == 9, "with k=9 plain search has them all"
        scored = graph_scores(retriever.retrieve("Hub spokes and wheels", k=3))
        assert set(scored) == {"n0", "n1", "n2"}
        additive = GraphRetriever(index, graph=replace(strategy, fusion=Additive(max_chunks=None)))
        # Three of plain search, and the two strongest others: n3 (weight 7) and n4 (weight 6).
        hits = additive.retrieve("Hub spokes and wheels", k=3).hits
        assert {hit.chunk.id for hit in hits} == {"n0", "n1", "n2", "n3", "n4"}


@pytest.mark.parametrize("inner", [Weighted(alpha=0.01, beta=1), ReciprocalRank(graph_weight=100)])
def test_an_additive_result_has_everything_that_plain_search_returns(inner):
    texts = {**{f"n{i}": "Nothing alike." + " x" * i for i in range(9)}, "n8": "Hub spokes.", "n7": "Hub spokes here."}
    with hub(texts) as index:
        for k in (1, 2, 3):
            plain = GraphRetriever(index).retrieve("Hub spokes", k=k, use_graph=False)
            cut = GraphRetriever(index, graph=Neighbourhood(), fusion=inner).retrieve("Hub spokes", k=k)
            both = GraphRetriever(index, graph=Neighbourhood(), fusion=Additive(fusion=inner)).retrieve(
                "Hub spokes", k=k
            )
            assert len(cut.hits) == k
            assert {hit.chunk.id for hit in plain.hits} <= {hit.chunk.id for hit in both.hits}
            assert len(both.hits) == k + 4
            assert [hit.score for hit in both.hits] == sorted((hit.score for hit in both.hits), reverse=True)


def test_the_limit_of_an_additive_result_and_its_scores():
    with hub() as index:
        few = GraphRetriever(index, graph=Neighbourhood(), fusion=Additive(max_chunks=1))
        assert len(few.retrieve("Hub", k=2).hits) == 3
        assert len(few.retrieve("Hub", k=2, use_graph=False).hits) == 2
        assert len(few.retrieve("Hub", k=2, method="graph").hits) == 2
        published = GraphRetriever(index, HYBRID)
        plain = {hit.chunk.id: hit.score for hit in published.retrieve("Hub", k=9, use_graph=False).hits}
        hits = published.retrieve("Hub", k=2).hits
        assert len(hits) == 2 + 4
        for hit in hits:
            graph = hit.channels["graph"].score if "graph" in hit.channels else 0.0
            # combined_score = alpha · hybrid_score + beta · graph_proximity_score, 0.7 and 0.3
            assert hit.score == pytest.approx(0.7 * plain[hit.chunk.id] + 0.3 * graph, abs=1e-6)
        # n0: "Part 0" is linked with weight 10 and in one passage: 1 · (0.7 + 0.3 · 1/5) = 0.76
        assert graph_scores(published.retrieve("Hub", k=2))["n0"] == pytest.approx(0.76)


class TestAdditive(FusionSuite):
    def make(self):
        return Additive()


class TestPublished(StrategySuite):
    def make(self):
        return HYBRID.graph


# -- plain search: vector and text weight


def test_a_cosine_moves_by_less_than_eight_bits_round():
    class Random:
        def embed_documents(self, texts):
            return [self.embed_query(text) for text in texts]

        def embed_query(self, text):
            return np.random.default_rng([*text.encode()]).normal(size=256).tolist()

    texts = [f"Text {number}." for number in range(200)]
    vectors = np.array(Random().embed_documents([*texts, "question"]))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = dict(zip(texts, vectors[:-1] @ vectors[-1], strict=True))
    with KnowledgeIndex(Random()) as index:
        index.add([Document(text, text) for text in texts])
        hits = GraphRetriever(index, HYBRID, method="vector", k=200).retrieve("question").hits
    assert {hit.chunk.id: hit.score for hit in hits} == pytest.approx(cosines, abs=0.003)


def test_the_weights_of_plain_search_are_a_setting():
    with make({f"d{i}": [] for i in range(6)}, {"d1": "red fox", "d2": "red fox and red hen", "d3": "a hen"}) as index:

        def scores(**settings):
            hits = GraphRetriever(index, reranker=False, **settings).retrieve("red hen", k=6, use_graph=False).hits
            return {hit.chunk.id: hit.score for hit in hits}, hits

        _, hits = scores()
        cosine = {hit.chunk.id: max(hit.channels["vector"].score, 0) for hit in hits if "vector" in hit.channels}
        bm25 = {hit.chunk.id: hit.channels["keyword"].score for hit in hits if "keyword" in hit.channels}
        for vector in (0.6, 0.75, 0.5):
            found, _ = scores(vector_weight=vector)
            for name, score in found.items():
                by_vector = cosine[name] / max(cosine.values())
                by_text = bm25.get(name, 0) / max(bm25.values())
                expected = vector * by_vector + (1 - vector) * by_text
                assert score == pytest.approx(expected, abs=1e-6)


def test_a_channel_with_weight_zero_is_not_searched():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(CHAIN)
        for weights, left, method in (
            ({"vector_weight": 1}, "vector", "vector"),
            ({"vector_weight": 0}, "keyword", "keyword"),
        ):
            hits = GraphRetriever(index, **weights).retrieve("OAuth Provider", use_graph=False).hits
            alone = GraphRetriever(index, method=method).retrieve("OAuth Provider").hits
            assert [hit.chunk.id for hit in hits] == [hit.chunk.id for hit in alone]
            assert {name for hit in hits for name in hit.channels} == {left}
        for bad in (-1, 1.1, True):
            with pytest.raises(InputError, match="vector_weight"):
                GraphRetriever(index, vector_weight=bad)


# -- why the graph brings nothing


@pytest.mark.parametrize("strategy", [Neighbourhood(), ExpansionQueries(), SpreadingActivation(), PageRank()])
@pytest.mark.parametrize("method", ["hybrid", "graph"])
def test_an_empty_graph_is_named_as_the_reason(strategy, method):
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add([Document("a", "nothing here is a name.")])
        result = GraphRetriever(index, graph=strategy, method=method).retrieve("zebra")
    assert result.expansion_skipped == "the graph adds nothing: no passage mentions a name, the graph is empty"
    assert [hit.chunk.id for hit in result.hits] == (["a"] if method == "hybrid" else [])


@pytest.mark.parametrize("strategy", [Neighbourhood(), ExpansionQueries()])
def test_a_question_without_a_known_entity_is_named_as_the_reason(strategy):
    with KnowledgeIndex(HashEmbedder(), embed_names=False) as index:
        index.add(CHAIN)
        result = GraphRetriever(index, graph=strategy).retrieve("zebra")
    assert result.expansion_skipped == "the graph adds nothing: the question names no known entity"


def test_a_threshold_that_no_passage_reaches_is_named_as_the_reason():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(CHAIN)
        retriever = GraphRetriever(index, graph=Neighbourhood(), **{"gate.min_graph_score": 0.3})
        result = retriever.retrieve("What is the Auth Service?")
        # 0.2385, as worked out above
        assert "all its passages are weaker than 0.3" in result.expansion_skipped
        assert result.hits


def test_relations_that_are_not_there_are_named_as_the_reason():
    with make(ALPHA) as index:
        result = GraphRetriever(index, graph=Neighbourhood(relation_types=("eats",))).retrieve("Alpha and Bravo")
        assert result.expansion_skipped == "the graph adds nothing: Alpha, Bravo is linked to no entity by eats"


# -- the context formatter


@pytest.mark.parametrize("strategy", [HYBRID.graph, PageRank()])
def test_the_block_is_that_of_the_design(shown, strategy):
    result = GraphRetriever(shown, graph=strategy, context=PUBLISHED).retrieve(QUESTION)
    context = result.context(2_000, style="both")
    assert BLOCK in context
    assert f'- Auth Service -> User Model: "implements" -- {CREATES} (strength: 5)' in context


def test_the_blast_radius_can_be_traced(shown):
    # OAuth Provider -> Auth Service (depends_on) -> Login Flow (part_of), User Model (implements)
    retriever = GraphRetriever(shown, graph=Neighbourhood(hops=2, max_chunks=9), k=9, context=PUBLISHED)
    result = retriever.retrieve("what happens if we change the OAuth provider?")
    scores = graph_scores(result)
    # Auth Service: weight 8, one hop, 1 passage: 0.8 · 0.76 = 0.608.
    # User Model: weight 5, two hops, in 2 passages: 0.5 · 0.5 · (0.7 + 0.3 · log2(3)/5) = 0.25 · 0.795098 = 0.198774
    # Login Flow: weight 4: 0.4 · 0.5 · 0.795098 = 0.159020; Session Store: weight 3: 0.119265
    assert scores["auth-service"] == pytest.approx(0.608)
    assert scores["user-model"] == pytest.approx(0.198774, abs=1e-6)
    assert scores["login-flow"] == pytest.approx(0.159020, abs=1e-6)
    assert scores["session-store"] == pytest.approx(0.119265, abs=1e-6)
    assert "Related: Auth Service (depended_on_by, weight: 8)" in result.context(2_000)


def test_both_holds_the_passages_and_then_the_block(shown):
    result = GraphRetriever(shown, HYBRID).retrieve(QUESTION)
    context = result.context(2_000, style="both", tokenizer=lambda text: len(text.split()))
    passages, block = context.split("## Knowledge Graph Context")
    assert passages.count("[Score: ") == len(result.hits)
    assert "[Score: " not in block
    assert "### Passages" not in block
    assert "## Related Entities" not in context, "the block has them"
    assert context.style == "both"
    assert {source.kind for source in context.sources} == {"chunk", "entity", "fact"}


def test_the_block_takes_500_tokens_and_half_of_the_budget_at_most():
    facts = {f"d{i}": [triple("Alpha", f"relation_{i}", f"Thing number {i}", 5)] for i in range(60)}
    with make(facts, {f"d{i}": f"Alpha again. {'Words of a passage follow. ' * 40}" for i in range(60)}) as index:
        result = GraphRetriever(index, graph=Neighbourhood(max_chunks=60), k=20, context=PUBLISHED).retrieve("Alpha")

        def count(text):
            return len(text.split())

        for budget in (1, 5, 20, 100, 400, 3_000):
            context = result.context(budget, style="both", tokenizer=count)
            assert context.tokens == count(context) <= budget
            block = context[context.index("## Knowledge") :] if "## Knowledge" in context else ""
            assert count(block) <= min(500, budget // 2)
        assert "[Score: " in context
        assert block


def test_without_the_graph_there_is_neither_a_block_nor_related_entities(shown):
    retriever = GraphRetriever(shown)
    for settings in ({"use_graph": False}, {"method": "vector"}, {"method": "keyword"}):
        result = retriever.retrieve("Auth Service tokens", **settings)
        assert not result.graph_ran
        for style in ("graph", "passages", "both", "narrative"):
            context = result.context(1_000, style=style)
            assert context.style == "passages"
            assert "Related Entities" not in context
            assert "Knowledge Graph" not in context
            assert "It issues and validates tokens." in context
    assert "## Related Entities" in retriever.retrieve("Auth Service").context(1_000, style="passages")


# -- relations from the other end


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        ("depends_on", "depended_on_by"),
        ("cited_by", "cites"),
        ("runs_on", "hosts"),
        ("owned_by", "owns"),
        ("used_by", "uses"),
        ("written_by", "writes"),
        ("DEPENDS_ON", "DEPENDED_ON_BY"),
        ("depends on", "depended on by"),
        ("related_to", "related_to"),
        ("orbits", "<- orbits"),
        ("capital", "<- capital"),
        ("has", "<- has"),
    ],
)
def test_an_inverse_is_known_or_the_direction_is_shown(relation, expected):
    assert inverse(relation) == expected


def test_the_users_own_inverses_come_first():
    facts = {"one": [triple("Reactor", "feeds", "Turbine", 9)], "two": [triple("Turbine", "runs_on", "Steam", 5)]}
    with make(facts) as index:
        own = {"feeds": "fed_by", "runs_on": "drives"}
        retriever = GraphRetriever(index, context=ContextFormat(inverses=own, published=True))
        assert "Related: Reactor (fed_by, weight: 9)" in retriever.retrieve("Turbine").context(500)
        assert "Related: Turbine (drives, weight: 5)" in retriever.retrieve("Steam").context(500)
        assert "Reactor (<- feeds, weight: 9)" in GraphRetriever(index, context=PUBLISHED).retrieve("Turbine").context(
            500
        )
        assert retriever.retrieve("Turbine").context_format.inverses == tuple(own.items())


# -- plain search loses nothing, whatever else is set


def _town_index():
    index = KnowledgeIndex(HashEmbedder())
    index.add(
        [
            Document("auth", "The Auth Service delegates sign-in to the OAuth Provider.", "Auth Service"),
            Document("oauth", "The OAuth Provider connects to Keyring.", "OAuth Provider"),
            Document("key", "Keyring is run by Mara Lindqvist in Oslo.", "Keyring"),
            Document("mara", "Mara Lindqvist was born in Bergen.", "Mara Lindqvist"),
            Document("bergen", "Bergen is a town in Norway with rain.", "Bergen"),
            Document("oslo", "Oslo is the capital of Norway.", "Oslo"),
            Document("lunch", "Lunch is served at noon.", "Lunch"),
        ]
    )
    return index


def test_additive_weighs_each_ranking_of_the_fusion_inside():
    weights = {"vector": 0.5, "keyword": 0.2, "graph": 0.3}
    retriever = GraphRetriever(_town_index(), fusion=Additive(max_chunks=2, fusion=ReciprocalRank(weights=weights)))
    hits = retriever.retrieve("What does the Auth Service need?", k=2).hits
    assert len(hits) == 4  # 2 of plain search and 2 of the graph
    for hit in hits:
        by_hand = sum(weights[name] / (60 + channel.rank) for name, channel in hit.channels.items() if name in weights)
        assert hit.score == pytest.approx(by_hand, abs=1e-6)
    with pytest.raises(InputError, match="'links'"):
        GraphRetriever(_town_index(), fusion=Additive(fusion=ReciprocalRank(weights={"links": 1.0})))


@pytest.mark.parametrize("question", ["What does the Auth Service need?", "nothing here"])
@pytest.mark.parametrize("reranker", [False, Linear()])
@pytest.mark.parametrize("fusion", [Weighted(), ReciprocalRank(weights={"graph": 1.0})])
def test_additive_keeps_plain_search_with_any_fusion_and_reranker(question, reranker, fusion):
    index = _town_index()
    plain = GraphRetriever(index, reranker=False).retrieve(question, k=3, use_graph=False)
    found = GraphRetriever(index, fusion=Additive(fusion=fusion), reranker=reranker).retrieve(question, k=3)
    assert {hit.chunk.id for hit in plain} <= {hit.chunk.id for hit in found}
    scores = [hit.score for hit in found]
    assert scores == sorted(scores, reverse=True)
