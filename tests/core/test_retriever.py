"""Questions, answered by vector, keyword and graph together."""

from __future__ import annotations

import numpy as np
import pytest

from graphrag_core import Document, Extraction, GraphRetriever, KnowledgeIndex, Mention
from graphrag_core.errors import FilterError, InputError
from graphrag_core.query.fusion import confidence
from graphrag_core.strategies import (
    Gate,
    Neighbourhood,
    PageRank,
    ReciprocalRank,
    Recogniser,
    Weighted,
)
from graphrag_core.testing import CHAIN, HashEmbedder


@pytest.fixture
def chain():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(CHAIN)
        yield GraphRetriever(index)


def ids(result) -> list[str]:
    return [hit.chunk.id for hit in result.hits]


def test_the_graph_finds_what_shares_no_word_with_the_question(chain):
    question = "Where does the vendor behind the Auth Service sit?"
    assert "keyring" in ids(chain.retrieve(question, k=3, where={"tenant": "acme"}))
    assert "keyring" not in ids(chain.retrieve(question, k=3, method="keyword", where={"tenant": "acme"}))


def test_a_hit_says_which_channels_found_it_and_by_which_path(chain):
    result = chain.retrieve("What does the Auth Service need?", k=4)
    by_id = {hit.chunk.id: hit for hit in result.hits}
    assert by_id["auth"].channels["vector"].rank == 1
    assert {"vector", "keyword", "graph"} <= set(by_id["auth"].channels) <= {"vector", "keyword", "graph"}
    assert [step.kind for step in by_id["auth"].path] == ["question", "entity", "chunk"]
    assert [step.kind for step in by_id["oauth"].path] == ["question", "entity", "fact", "entity", "chunk"]
    scores = [hit.score for hit in result.hits]
    assert scores == sorted(scores, reverse=True)
    assert [entity.name for entity in result.entities] == ["Auth Service"]
    assert list(result.trace.stages) == ["embed", "search", "recognise", "expand", "rerank", "hits"]
    assert "Auth Service" in result.explain()


def test_k_is_given_where_k_exist(chain):
    for method in ("hybrid", "vector"):
        assert len(chain.retrieve("Auth Service", k=3, method=method).hits) == 3
        assert len(chain.retrieve("Auth Service", k=100, method=method).hits) == 5


def test_the_scope_holds_at_every_hop(chain):
    for method in ("hybrid", "graph", "keyword", "vector"):
        result = chain.retrieve(
            "Who runs the OAuth Provider of Umbrella?", k=10, method=method, where={"tenant": "acme"}
        )
        assert "secret" not in ids(result)
        assert "Umbrella" not in {entity.name for entity in result.entities}
        assert not any("Wesker" in step.text or "Umbrella" in step.text for hit in result.hits for step in hit.path[1:])


def test_without_the_graph_it_is_plain_search(chain):
    result = chain.retrieve("What does the Auth Service need?", use_graph=False)
    assert result.expansion_skipped == "the graph was not used"
    assert result.confidence is None
    assert all("graph" not in hit.channels and not hit.path for hit in result.hits)


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        (None, {}), (b"x", {}), (7, {}), ("x" * 100_001, {}),
        ("x", {"k": 0}), ("x", {"k": -1}), ("x", {"k": 2.5}), ("x", {"k": True}),
        ("x", {"method": "magic"}), ("x", {"where": {"colour": {"like": "red"}}}), ("a \ud800 b", {}),
        ("x", {"gate.min_graph_score": 2}), ("x", {"gate.min_graph_score": float("nan")}), ("x", {"embedding": "abc"}),
    ],
)  # fmt: skip
def test_bad_questions_are_refused(chain, arguments, settings):
    with pytest.raises((InputError, FilterError)):
        chain.retrieve(arguments, **settings)


@pytest.mark.parametrize(
    "question",
    [
        "x" * 100_000,
        ("中文" * 99 + "，") * 500,
        '"a" ' * 25_000,
        "\x00\x07\x1b[31m",
        "😀",
        "?",
        "🏴" * 1_000,
        "the of and",
        "東京は？" * 50,
    ],
)
def test_strange_questions_are_answered(chain, question):
    assert len(chain.retrieve(question, method="vector").hits) <= 5
    chain.retrieve(question)


def test_an_empty_index_and_an_empty_graph_answer_with_what_there_is():
    with KnowledgeIndex(HashEmbedder()) as index:
        assert GraphRetriever(index).retrieve("Anything?").hits == ()
        index.add([Document("1", "nothing here is a name."), Document("2", "nor here.")])
        result = GraphRetriever(index).retrieve("what is here?", k=2)
        assert len(result.hits) == 2


def test_confidence_is_weighed_as_written():
    assert confidence("x" * 100, 1, 1.0) == pytest.approx(0.3 + 0.3 + 0.4)
    assert confidence("x" * 40, 0, 0.5) == pytest.approx(0.3 * 0.4 + 0.3 * 0.5 + 0.4 * 0.5)
    assert confidence("x" * 500, 3, 0.0) == pytest.approx(0.6)


def test_the_gate_can_leave_the_graph_out(chain):
    strict = GraphRetriever(chain.index, gate=Gate(min_confidence=1.0))
    result = strict.retrieve("Auth Service?")
    assert "below 1.00" in result.expansion_skipped
    assert all("graph" not in hit.channels for hit in result.hits)


PLAIN = (np.array([1, 2, 3, 4]), np.array([1.0, 0.8, 0.6, 0.2], np.float32))
GRAPH = (np.array([9, 3, 1]), np.array([1.0, 0.5, 0.1], np.float32))


def test_fusions_by_hand():
    # 1: 0.7 + 0.03; 2: 0.56; 3: 0.42 + 0.15 = 0.57; 9: 0.3; 4: 0.14
    assert Weighted().fuse(PLAIN, GRAPH)[0].tolist() == [1, 3, 2, 9, 4]
    assert Weighted(alpha=0.0, beta=1.0).fuse(PLAIN, GRAPH)[0].tolist() == [9, 3, 1, 2, 4]
    # 1: 1/61 + 1/63; 3: 1/63 + 1/62; 9: 1/61; 2: 1/62; 4: 1/64
    assert ReciprocalRank().fuse(PLAIN, GRAPH)[0].tolist() == [1, 3, 9, 2, 4]
    assert ReciprocalRank(graph_weight=3).fuse(PLAIN, GRAPH)[0].tolist() == [3, 1, 9, 2, 4]


def test_fused_scores_fall_with_the_rank_and_are_the_formulas():
    keys, scores = Weighted().fuse(PLAIN, GRAPH)
    assert dict(zip(keys.tolist(), scores.tolist(), strict=True)) == pytest.approx(
        {1: 0.73, 3: 0.57, 2: 0.56, 9: 0.3, 4: 0.14}
    )
    keys, scores = ReciprocalRank().fuse(PLAIN, GRAPH)
    assert scores[0] == pytest.approx(1 / 61 + 1 / 63)


@pytest.mark.parametrize("fusion", [Weighted(), ReciprocalRank()])
def test_a_fusion_loses_nothing_that_plain_search_found(fusion):
    assert set(fusion.fuse(PLAIN, GRAPH)[0].tolist()) == {1, 2, 3, 4, 9}


def test_the_local_walk_agrees_with_the_whole_one(services):
    services.add([Document(f"n{i}", f"Service{i % 7}A met Service{i % 11}B and Service{i % 5}C.") for i in range(200)])
    whole = GraphRetriever(services, graph=PageRank(tolerance=0))
    local = GraphRetriever(services, graph=PageRank())
    for question in ("Auth Service?", "Service1A and Service2B"):
        first, second = (ids(r.retrieve(question, method="graph", k=10)) for r in (whole, local))
        assert len(set(first) & set(second)) >= 0.9 * len(first) > 3


def test_a_path_goes_over_two_facts_where_one_does_not_reach():
    documents = [
        Document("a", "Alpha Desk reports to Beta Board.", "Alpha Desk"),
        Document("b", "Beta Board answers to Gamma Group.", "Beta Board"),
        Document("c", "Gamma Group sits in Oslo.", "Gamma Group"),
        Document("d", "Nothing of this.", "Delta"),
    ]
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(documents)
        hits = {hit.chunk.id: hit for hit in GraphRetriever(index, method="graph").retrieve("Alpha Desk", k=4).hits}
        assert [step.text for step in hits["c"].path] == [
            "Alpha Desk", "Alpha Desk", "Alpha Desk reports to Beta Board.", "Beta Board",
            "Beta Board answers to Gamma Group.", "Gamma Group", "Gamma Group",
        ]  # fmt: skip
        assert [step.text for step in hits["b"].path[1:]] == [
            "Alpha Desk",
            documents[0].text,
            "Beta Board",
            "Beta Board",
        ]


def test_a_score_is_in_the_scale_of_what_ranked(chain):
    for method in ("vector", "keyword"):
        hits = chain.retrieve("Auth Service", method=method).hits
        assert [hit.score for hit in hits] == [hit.channels[method].score for hit in hits]


def test_thresholds_that_leave_nothing_say_so(chain):
    strict = GraphRetriever(chain.index, gate=Gate(min_graph_score=1.0), graph=Neighbourhood())
    assert "weaker than 1" in strict.retrieve("Auth Service").expansion_skipped
    assert Gate.strict() == Gate(min_confidence=0.5, min_graph_score=0.3, needs_entity=True)


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("OpenAI的总部在哪里？", "openai"),
        ("OpenAI公司在哪里？", "openai公司"),
        ("中华人民共和国国家发展和改革委员会在哪里？", "中华人民共和国国家发展和改革委员会"),
        ("「东京」是什么？", "东京"),
        ("What does 'keyring' do?", "keyring"),
        ("what is `keyring` for?", "keyring"),
    ],
)
def test_names_are_recognised_between_chinese_characters_and_in_quotes(question, named):
    names = ["OpenAI", "OpenAI公司", "中华人民共和国国家发展和改革委员会", "东京", "Keyring"]
    if named == "openai":
        names.remove("OpenAI公司")

    class Named:
        def extract(self, chunks):
            return [Extraction((Mention(chunk.title),)) for chunk in chunks]

    with KnowledgeIndex(HashEmbedder(), extractor=Named()) as index:
        index.add([Document(str(i), f"{name}.", name) for i, name in enumerate(names)])
        assert named in [entity.id for entity in GraphRetriever(index).retrieve(question).entities]


def test_without_a_name_near_ones_are_found_by_their_vectors():
    class Synonyms(HashEmbedder):
        def embed_documents(self, texts):
            return super().embed_documents(["login" if text == "Auth Service" else text for text in texts])

    with KnowledgeIndex(Synonyms(), embed_names=True) as index:
        index.add(CHAIN)
        assert [e.name for e in GraphRetriever(index).retrieve("login").entities] == ["Auth Service"]
        far = Recogniser(least_similarity=1.01)
        assert GraphRetriever(index, recogniser=far).retrieve("login").entities == ()
    assert (Recogniser().nearest, Recogniser().least_similarity) == (3, 0.75)


def test_stages_become_spans_if_the_application_uses_opentelemetry(monkeypatch):
    trace = pytest.importorskip("opentelemetry.trace")
    sdk = pytest.importorskip("opentelemetry.sdk.trace")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter").InMemorySpanExporter()
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(memory))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add([Document("a", "The Auth Service calls the Keyring.")])
        GraphRetriever(index).retrieve("Who calls the Keyring?", where={"__id__": "a"}, k=3)
    spans = {span.name: span for span in memory.get_finished_spans()}
    assert {"graphrag.add", "graphrag.write", "graphrag.retrieve", "graphrag.embed", "graphrag.search"} <= spans.keys()
    asked = spans["graphrag.retrieve"]
    assert spans["graphrag.search"].parent.span_id == asked.context.span_id
    assert asked.attributes["graphrag.hits"] == 1
    assert asked.attributes["graphrag.filtered"] is True
    assert asked.start_time <= spans["graphrag.search"].start_time <= asked.end_time
    assert spans["graphrag.add"].attributes["graphrag.documents"] == 1
