"""A function as the reranker."""

from __future__ import annotations

import pytest

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import RerankerError
from graphrag_core.strategies import Gate
from graphrag_core.testing import CHAIN, CHAIN_QUESTION, HashEmbedder

NOTES = [Document(f"note-{i:02}", f"Harbour note {i}: the crane {'moves slowly ' * i}today.") for i in range(60)]


@pytest.fixture
def chain():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(CHAIN)
        yield index


@pytest.fixture(scope="module")
def notes():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(NOTES)
        yield index


def ids(result) -> list[str]:
    return [hit.chunk.id for hit in result]


def text_of(chunk) -> str:
    """What a function reads of a passage: its title and its text."""
    return f"{chunk.title}\n{chunk.text}" if chunk.title else chunk.text


def by_length(question, texts):
    """The shortest text first."""
    return [-len(text) for text in texts]


class TestAFunction:
    def test_orders_the_passages_and_its_score_is_the_hits(self, chain):
        result = GraphRetriever(chain, reranker=by_length).retrieve(CHAIN_QUESTION, k=3)
        expected = by_length("", [text_of(hit.chunk) for hit in GraphRetriever(chain).retrieve(CHAIN_QUESTION, k=5)])
        assert [hit.score for hit in result] == sorted(expected, reverse=True)[:3]
        assert [hit.score for hit in result] == by_length("", [text_of(hit.chunk) for hit in result])

    def test_sees_the_first_rerankers_order_and_more_than_are_returned(self, notes):
        seen = []

        def record(question, texts):
            seen.append((question, texts))
            return range(len(texts), 0, -1)

        question = "Where does the crane of the harbour move?"
        expected = GraphRetriever(notes, k=55).retrieve(question).hits
        for k, count in ((5, 50), (50, 50), (55, 55)):
            found = GraphRetriever(notes, reranker=record).retrieve(question, k=k)
            assert seen.pop() == (question, [text_of(hit.chunk) for hit in expected[:count]])
            assert ids(found) == [hit.chunk.id for hit in expected[:k]]

    def test_drops_what_it_scores_none_and_what_it_has_not_seen(self, notes):
        def two(question, texts):
            return [1.0 if place in (3, 5) else None for place in range(len(texts))]

        order = ids(GraphRetriever(notes).retrieve("crane today", k=20))
        assert ids(GraphRetriever(notes, reranker=two).retrieve("crane today", k=9)) == [order[3], order[5]]
        assert len(GraphRetriever(notes, reranker=lambda q, c: [None] * len(c)).retrieve("crane today")) == 0

    def test_scores_plain_search_where_the_graph_is_not_used(self, chain):
        for retriever, settings in (
            (GraphRetriever(chain, reranker=by_length), {"use_graph": False}),
            (GraphRetriever(chain, reranker=by_length, gate=Gate(min_confidence=1.0)), {}),
        ):
            result = retriever.retrieve("Where is lunch served?", k=2, **settings)
            assert [hit.score for hit in result] == by_length("", [text_of(hit.chunk) for hit in result])
            assert result.expansion_skipped
        by_words = GraphRetriever(chain, reranker=by_length, method="keyword").retrieve("Where is lunch served?")
        assert ids(by_words) == ["lunch"], "the other methods have their own order"

    def test_sees_nothing_outside_the_filter(self, chain):
        seen = set()

        def record(question, texts):
            seen.update(texts)
            return [0] * len(texts)

        GraphRetriever(chain, reranker=record).retrieve("Umbrella", where={"tenant": "acme"})
        assert seen == {text_of(one) for one in CHAIN if one.metadata["tenant"] == "acme"}

    def test_errors_are_raised_as_they_are(self, chain):
        def fails(question, texts):
            raise ConnectionError("no route")

        with pytest.raises(ConnectionError, match="no route"):
            GraphRetriever(chain, reranker=fails).retrieve("lunch")

    @pytest.mark.parametrize("wrong", [[1.0], [float("nan")] * 5, [1e300] * 5, ["high"] * 5, [[1], [2], [3], [4], [5]]])
    def test_wrong_scores_are_refused(self, chain, wrong):
        def scorer(question, texts):
            return wrong

        with pytest.raises(RerankerError, match="scorer returned"):
            GraphRetriever(chain, reranker=scorer).retrieve("lunch")
