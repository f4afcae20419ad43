"""The reason for each hit: the words of the question that it adds, and its link to a better hit."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from graphrag_apps.demo import sample_documents
from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.strategies import Gate, Linear, PageRank, ReciprocalRank, Recogniser, Reranker, Weighted
from graphrag_core.testing import HashEmbedder

SERVICES = [
    Document("ledger", "The Ledger is written by the Tariff Engine. The Tariff Engine belongs to Ada Stone.", "Ledger"),
    Document("tariff", "The Tariff Engine computes prices for companies every night.", "Tariff Engine"),
    Document("ada", "Ada Stone lives in Kiel and studied oceanography.", "Ada Stone"),
    Document("harbour", "A harbour has cranes.", "Harbour"),
]


def ask(documents, question, k=5, **settings):
    with KnowledgeIndex(HashEmbedder(), progress=False) as index:
        index.add(documents)
        return GraphRetriever(index, **settings).retrieve(question, k=k, explain=True)


def by_id(result):
    return {hit.chunk.document_id: hit for hit in result.hits}


def test_words_are_shown_as_the_question_writes_them_and_once():
    result = ask(SERVICES, "Which companies get prices from the engine that writes the Ledger?", k=2)
    assert [hit.chunk.id for hit in result.hits] == ["tariff", "ledger"]
    assert result.hits[0].covers == result.hits[0].words == ("companies", "prices", "engine")
    assert result.hits[1].words == ("engine", "Ledger")
    assert result.hits[1].covers == ("Ledger",)
    assert result.uncovered == ("get", "writes")


def test_every_word_is_new_in_the_first_hit_that_contains_it():
    with KnowledgeIndex(HashEmbedder(), progress=False) as index:
        index.add(sample_documents())
        for question in (
            "Who owns the vendor of the OAuth Provider?",
            "Where did the author of the decision study oceanography?",
        ):
            result = GraphRetriever(index, k=30).retrieve(question)
            seen: set[str] = set()
            for hit in result.hits:
                assert set(hit.covers) == set(hit.words) - seen
                assert all(word in question for word in hit.words)
                seen |= set(hit.words)
            assert not seen.intersection(result.uncovered)
            scores = [hit.score for hit in result.hits]
            assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("k", [2, 3, 10])
def test_a_link_leads_to_a_shown_hit_above_through_an_entity_of_both(k):
    with KnowledgeIndex(HashEmbedder(), progress=False) as index:
        index.add(sample_documents())
        linked = 0
        for question in ("Who is the boss of the author of ADR-019?", "Which team keeps the contract with Keyring?"):
            result = GraphRetriever(index).retrieve(question, k=k)
            for rank, hit in enumerate(result.hits, 1):
                if hit.link:
                    linked += 1
                    other = result.hits[hit.link.rank - 1]
                    assert hit.link.rank < rank
                    assert hit.link.chunk_id == other.chunk.id
                    assert hit.link.entity_id in result.known
                    for chunk in (hit.chunk, other.chunk):
                        assert hit.link.entity.casefold() in f"{chunk.title}\n{chunk.text}".casefold()
        assert linked


def test_a_link_says_which_of_the_two_is_about_the_entity():
    hits = by_id(ask(SERVICES, "Who wrote the Ledger?", k=3))
    link = hits["tariff"].link
    assert (link.rank, link.chunk_id, link.entity, link.kind) == (1, "ledger", "Tariff Engine", "about")
    hits = by_id(ask(SERVICES, "When does the Tariff Engine compute prices for companies?", k=3))
    link = hits["ledger"].link
    assert (link.chunk_id, link.entity, link.kind) == ("tariff", "Tariff Engine", "mentions")


def test_a_section_that_is_linked_to_is_shown_by_its_label():
    documents = [
        Document("guide", "# Guide\n\nWhen a job is lost, look at [the limits](limits.md#time-limits)."),
        Document(
            "limits",
            "# Limits\n\nAll of them.\n\n## Time limits\n\nAn hour, then the worker gives up.\n\n## Size\n\nOne.",
        ),
        Document("pools", "# Pools\n\nA pool of processes grows with the load of the machine."),
    ]
    result = ask(documents, "What do I do when a job is lost?", k=5, reranker=Linear())
    links = [hit.link for hit in result.hits if hit.link]
    assert links
    assert not any(link.entity.startswith("→") or link.entity_id.startswith("→") for link in links)


def test_chinese_and_identifiers_are_words_and_possessive_endings_are_not():
    documents = [
        Document("tokyo", "东京大学在东京。"),
        Document("head", "校长是藤井辉夫。"),
        Document("broker", "Set the broker url of Ada's worker."),
        Document("config", "brokerUrl is a setting."),
    ]
    result = ask(documents, "东京大学的校长")
    hits = by_id(result)
    assert hits["tokyo"].covers == ("东京大学",)
    assert hits["head"].covers == ("校长",)
    assert result.uncovered == ("的",)
    result = ask(documents, "Ada's broker_url?")
    hits = by_id(result)
    assert "s" not in [word for hit in result.hits for word in hit.words]
    assert hits["config"].words == ("broker_url",)
    assert hits["broker"].words == ("Ada", "broker_url")


def test_what_decided_is_told_in_words_and_its_numbers_in_the_details():
    named = ask(SERVICES, "Ledger")
    assert named.decided == "the graph led: the question names Ledger; links between passages moved passages, too"
    assert named.gate == "trust 1.00: 100% of the question consists of rare names that the graph knows"
    vague = ask(SERVICES, "Who studied at night?")
    assert vague.decided == (
        "vector and keyword search led, links between passages and the graph moved passages: "
        "the question names nothing rare that the graph knows"
    )
    assert vague.gate.startswith("trust 0.00: 0% of the question")
    for result in (named, vague):
        assert result.expansion_skipped == ""
        assert result.confidence is None
        assert result.decided in result.explain()
        assert result.decided[1:] in result.html()
        assert result.gate not in result.explain() + result.html()
        details = result.details(result.hits[0])
        assert (details["decided"], details["gate"]) == (result.decided, result.gate)
        assert "confidence" not in details


def test_names_that_many_passages_mention_or_that_are_a_small_part_do_not_decide():
    documents = [Document(f"note-{n}", f"On day {n} the team met Lumen Works in room {n}.") for n in range(24)]
    assert ask(documents, "Lumen Works?").decided.endswith(
        ": the question names Lumen Works, rare names are only 8% of it"
    )
    long = "Which of all companies in northern Europe still sends printed invoices for every login through Ledger?"
    decided = ask(SERVICES, long).decided
    assert decided.startswith("vector and keyword search decided alone")
    assert ": the question names Ledger, rare names are only " in decided


def test_at_most_three_names_are_said_to_decide():
    names = ("Alpha Works", "Bravo Works", "Carol Works", "Delta Works", "Echo Works")
    documents = [Document(name, f"{name} is a company.", name) for name in names]
    decided = ask(documents, f"{', '.join(names)}?", k=5).decided
    assert decided == "the graph led: the question names Alpha Works, Bravo Works, Carol Works and 2 more"


WROTE = "the question names Ledger"


@pytest.mark.parametrize(
    ("settings", "decided"),
    [
        ({"use_graph": False}, "vector and keyword search alone: the graph was not used"),
        ({"method": "vector"}, "vector search alone"),
        ({"method": "keyword"}, "keyword search alone"),
        ({"method": "graph"}, f"the graph alone: {WROTE}"),
        ({"reranker": False}, f"ReciprocalRank joined vector and keyword search with the graph: {WROTE}"),
        (
            {"reranker": lambda _, texts: [len(text) for text in texts]},
            "the reranker ordered what vector search, keyword search and the graph found",
        ),
        (
            {"reranker": lambda _, texts: [len(text) for text in texts], "use_graph": False},
            "the reranker ordered what vector search and keyword search found",
        ),
        ({"fusion": Weighted()}, f"Weighted joined vector and keyword search with the graph: {WROTE}"),
        (
            {"fusion": ReciprocalRank(weights={"vector": 0.5, "graph": 0.5})},
            f"ReciprocalRank joined vector search with the graph: {WROTE}",
        ),
        (
            {"fusion": ReciprocalRank(weights={"vector": 0.5, "keyword": 0.5})},
            "vector and keyword search alone: the fusion gives the graph no weight",
        ),
        ({"gate": Gate(min_confidence=1.0)}, "vector and keyword search alone: confidence 0."),
        (
            {"gate": Gate(needs_entity=True), "recogniser": Recogniser(most=0)},
            "vector and keyword search alone: the question names no known entity",
        ),
    ],
)
def test_every_method_fusion_and_reranker_says_what_decided(settings, decided):
    assert ask(SERVICES, "Who wrote the Ledger?", **settings).decided.startswith(decided)


def test_a_search_that_was_not_possible_is_said():
    class Down(HashEmbedder):
        def embed_query(self, text):
            raise OSError("no route to host")

    with KnowledgeIndex(Down(), progress=False) as index:
        index.add(SERVICES)
        retriever = GraphRetriever(index, on_embedder_error="keyword")
        assert retriever.retrieve("Who studied oceanography?", method="vector").decided == (
            "keyword search alone: the embedder failed"
        )
        plain = retriever.retrieve("Who studied oceanography?", use_graph=False)
        assert plain.decided == "keyword search alone: the embedder failed, the graph was not used"
        assert retriever.retrieve("Who studied the Ledger?").decided == "the graph led: the question names Ledger"
        assert retriever.retrieve("Ledger", where={"tenant": "none"}).decided == "no passage was found"
        assert retriever.retrieve("").decided == "nothing was searched: the question is empty"
    with KnowledgeIndex(progress=False) as index:
        index.add(SERVICES)
        found = GraphRetriever(index).retrieve("Who studied at night?", use_graph=False)
        assert found.decided == "keyword search alone: the index has no vectors, the graph was not used"


@pytest.mark.parametrize(
    ("question", "uncovered"),
    [
        ("What is the capital of Peru?", ("capital", "Peru")),
        ("Why does the Ledger not run, and who can I ask about it?", ("run", "ask")),
        ("Which US company did they mention?", ("US", "mention")),
    ],
)
def test_function_words_are_not_missing(question, uncovered):
    assert ask(SERVICES, question).uncovered == uncovered


@pytest.mark.parametrize(
    "settings",
    [{"reranker": False}, {"fusion": Weighted()}, {"method": "vector"}, {"method": "graph"}, {"method": "keyword"}],
)
def test_without_the_reranker_nothing_is_said(settings):
    result = ask(SERVICES, "Who wrote the Ledger?", **settings)
    assert result.hits
    assert (result.gate, result.uncovered) == ("", ())
    assert all((hit.words, hit.covers, hit.link) == ((), (), None) for hit in result.hits)
    assert "of the question" not in result.explain()
    assert 'class="words"' not in result.html()
    assert 'class="coverage"' not in result.html()
    assert "line link" not in result.html()


def test_a_cached_result_has_the_same_reasons():
    with KnowledgeIndex(HashEmbedder(), progress=False) as index:
        index.add(SERVICES)
        retriever = GraphRetriever(index)
        first, cached = (retriever.retrieve("Who wrote the Ledger?") for _ in range(2))
        assert "cache" in cached.trace.stages
        assert replace(cached, trace=first.trace) == first
        assert json.loads(json.dumps(cached.details(cached.hits[1]))) == first.details(first.hits[1])


def test_reordering_the_ranking_keeps_the_reasons_true():
    class Reversed(Reranker):
        def rerank(self, query, plain, graph):
            ranked = Linear().rerank(query, plain, graph)
            return replace(ranked, keys=ranked.keys[::-1].copy())

    result = ask(SERVICES, "Who wrote the Ledger?", reranker=Reversed(), cache=False)
    seen: set[str] = set()
    for rank, hit in enumerate(result.hits, 1):
        assert set(hit.covers) == set(hit.words) - seen
        seen |= set(hit.words)
        assert hit.link is None or hit.link.rank < rank
    assert any(hit.link for hit in result.hits)


def test_a_path_and_a_link_through_the_same_entity_are_told_once():
    result = ask(SERVICES, "Who wrote the Ledger?", graph=PageRank())
    hit = by_id(result)["tariff"]
    assert hit.path[-2].id == hit.link.entity_id
    lines = result.explain().splitlines()
    assert [line for line in lines if "Tariff Engine (mentioned in passage 1) → this passage" in line]
    assert not [line for line in lines if "which passage 1 mentions" in line and "Tariff Engine" in line]


def test_reasons_do_not_depend_on_the_order_in_which_documents_were_added():
    question = "Which team keeps the contract with the vendor of the OAuth Provider?"
    told = []
    for documents in (list(sample_documents()), list(reversed(list(sample_documents())))):
        result = ask(documents, question, k=10)
        told.append([(hit.chunk.id, hit.words, hit.covers, hit.link) for hit in result.hits])
    assert told[0] == told[1]
