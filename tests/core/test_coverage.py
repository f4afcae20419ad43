"""The second stage: trust, coverage, links, bridges and copies."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import InputError
from graphrag_core.query.coverage import Reranker
from graphrag_core.query.recognise import sides
from graphrag_core.strategies import Coverage, PageRank, Reranked, Weighted
from graphrag_core.testing import CHAIN, HashEmbedder

MANUAL = [
    Document(
        "workers",
        "# Workers\n\nA worker that finds a job lost waits before it takes it again. See `visibility_timeout`.",
    ),
    Document(
        "settings", "# Settings\n\n## visibility_timeout\n\nThe number of seconds. One hour unless it is changed."
    ),
    Document(
        "pools", "# Pools\n\nA pool of processes runs the jobs of a worker. It grows with the load of the machine."
    ),
    Document(
        "logging", "# Logging\n\nEach job writes a line into the log of its worker when it starts and when it ends."
    ),
    Document(
        "routing", "# Routing\n\nJobs go to queues by their names. A queue may have many workers that take its jobs."
    ),
]
QUESTION = "How many seconds does a worker wait before it takes a lost job again?"


@pytest.fixture
def manual():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(MANUAL)
        yield index


def ids(result) -> list[str]:
    return [hit.chunk.document_id for hit in result.hits]


def test_what_a_good_passage_names_is_followed(manual):
    result = GraphRetriever(manual, reranker=Coverage(least_linked=0)).retrieve(QUESTION, k=3)
    assert ids(result)[0] == "workers"
    assert "settings" in ids(result)
    (hit,) = [hit for hit in result.hits if hit.chunk.document_id == "settings"]
    assert "links" in hit.channels


def test_trust_is_the_share_of_rare_names_in_the_question():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(CHAIN)
        named = GraphRetriever(index).retrieve("Auth Service")
        assert named.gate.startswith("trust 1.00: 100% of the question consists of rare names")
        vague = GraphRetriever(index).retrieve("Which company sends invoices for logins in the north of Europe?")
        assert vague.gate.startswith("trust 0.00: 0% of the question consists of rare names")


def test_the_scores_fall_with_the_rank_and_every_passage_is_there_once(manual):
    result = GraphRetriever(manual).retrieve(QUESTION, k=20)
    assert sorted(ids(result)) == sorted(document.id for document in MANUAL)
    scores = [hit.score for hit in result.hits]
    assert scores == sorted(scores, reverse=True)


def test_a_chosen_fusion_or_strategy_decides_alone(manual):
    assert GraphRetriever(manual).settings.resolved.reranker == Coverage()
    assert GraphRetriever(manual, fusion=Weighted()).settings.resolved.reranker is False
    assert GraphRetriever(manual, graph=PageRank(), reranker=False).settings.resolved.reranker is False


def test_a_reranker_can_be_replaced(manual):
    class Backwards(Reranker):
        def rerank(self, query, plain, graph):
            keys = np.unique(np.concatenate([plain[0], graph[0]]))[::-1]
            return Reranked(keys, (1 / np.arange(1, len(keys) + 1)).astype(np.float32))

    by_default = ids(GraphRetriever(manual, k=5).retrieve(QUESTION))
    backwards = ids(GraphRetriever(manual, k=5, reranker=Backwards(), cache=False).retrieve(QUESTION))
    assert sorted(backwards) == sorted(by_default)
    assert backwards == [document.id for document in reversed(MANUAL)]
    with pytest.raises(InputError, match="subclass of Reranker"):
        GraphRetriever(manual, reranker=Coverage)


def test_a_question_of_stop_words_gets_plain_search(manual):
    assert len(GraphRetriever(manual).retrieve("what is it?", k=3).hits) == 3


@pytest.mark.parametrize("text", ["Permission is granted to share this text. " * 8, "Tariffs rise."])
@pytest.mark.parametrize("method", ["hybrid", "vector", "keyword"])
def test_what_is_stored_is_what_is_found(text, method):
    """Two documents with equal texts are two passages; a filter selects each."""
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(Document(region, text, metadata={"region": region}) for region in ("north", "south"))
        retriever = GraphRetriever(index, method=method)
        question = "Which text says that permission is granted, and what tariffs do?"
        assert {hit.chunk.metadata["region"] for hit in retriever.retrieve(question)} == {"north", "south"}
        (hit,) = retriever.retrieve(question, where={"region": "south"})
        assert hit.chunk.id == "south"


def test_it_is_logged_once_that_the_graph_has_little_to_follow(caplog):
    with KnowledgeIndex(HashEmbedder()) as index, caplog.at_level(logging.INFO, "graphrag_core"):
        index.add([Document("a", "it rains today"), Document("b", "the sun came out at noon")])
        retriever = GraphRetriever(index, cache=False)
        retriever.retrieve("rain")
        retriever.retrieve("sun")
        assert caplog.text.count("the graph has little to follow") == 1


NOTES = [
    *(Document(f"note-{n}", f"Room {n} has a heater, a lamp and a desk near window {n}.") for n in range(12)),
    Document("row", "Lamp LX-40 | 12 EUR | shelf 7"),
    Document("maker", "Lumen Works makes lamps and heaters.", "Lumen Works"),
    Document("owner", "Nordlicht AG owns Lumen Works since the spring.", "Nordlicht AG"),
]


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        ("What is the difference between room 3 and room 9?", ("room 3", "room 9")),
        ("Who owns Lumen Works compared with Nordlicht AG?", ("Who owns Lumen Works", "Who owns Nordlicht AG")),
    ],
)
def test_the_first_passage_for_each_side_of_a_comparison_is_among_the_first_five(question, parts):
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(NOTES)
        retriever = GraphRetriever(index, cache=False)
        assert sides(question) == parts
        first = [ids(retriever.retrieve(part, use_graph=False, k=1))[0] for part in parts]
        assert set(first) <= set(ids(retriever.retrieve(question, k=5)))


@pytest.mark.parametrize(
    "question",
    ["How do I install and configure the broker?", "What is the setting called, and what is its default?", "Why?", ""],
)
def test_a_question_about_one_thing_has_no_sides(question):
    assert sides(question) is None


def test_plain_search_keeps_its_order_where_it_leaves_nothing_open(manual):
    result = GraphRetriever(manual, cache=False).retrieve("queues of jobs", k=5)
    assert result.decided.startswith("vector and keyword search decided alone: ")
    assert ids(result) == ids(GraphRetriever(manual, cache=False).retrieve("queues of jobs", k=5, use_graph=False))
