"""The reason for each hit: the words of the question that it adds, and its link to a better hit."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from graphrag_apps.demo import sample_documents
from graphrag_core import Document, GraphRetriever, KnowledgeIndex
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


def test_a_cached_result_has_the_same_reasons():
    with KnowledgeIndex(HashEmbedder(), progress=False) as index:
        index.add(SERVICES)
        retriever = GraphRetriever(index)
        first, cached = (retriever.retrieve("Who wrote the Ledger?") for _ in range(2))
        assert "cache" in cached.trace.stages
        assert replace(cached, trace=first.trace) == first
        assert json.loads(json.dumps(cached.details(cached.hits[1]))) == first.details(first.hits[1])


def test_reasons_do_not_depend_on_the_order_in_which_documents_were_added():
    question = "Which team keeps the contract with the vendor of the OAuth Provider?"
    told = []
    for documents in (list(sample_documents()), list(reversed(list(sample_documents())))):
        result = ask(documents, question, k=10)
        told.append([(hit.chunk.id, hit.words, hit.covers, hit.link) for hit in result.hits])
    assert told[0] == told[1]
