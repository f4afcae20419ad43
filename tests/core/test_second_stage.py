"""The default second stage: what it adds up, what it says, and the scores of hits."""

from __future__ import annotations

from itertools import pairwise
from math import exp, log

import numpy as np
import pytest

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import InputError
from graphrag_core.strategies import Linear, PageRank, ReciprocalRank, Reranked, Reranker, Weighted
from graphrag_core.testing import CHAIN, HashEmbedder

DOCUMENTS = [
    Document("auth", "The Auth Service delegates the login to the OAuth Provider.", "Auth Service"),
    Document("oauth", "The OAuth Provider keeps its secrets in Keyring.", "OAuth Provider"),
    Document("keyring", "Keyring runs in Iceland.", "Keyring"),
    *(Document(f"menu{day}", f"Soup number {day} is served with bread.", f"Menu {day}") for day in range(70)),
]
QUESTION = "Where does the OAuth Provider keep its secrets?"
UNRELATED = "What is the capital of Mongolia?"


@pytest.fixture(scope="module")
def index():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(DOCUMENTS)
        yield index


def ids(result) -> list[str]:
    return [hit.chunk.document_id for hit in result.hits]


# -- the order


def test_the_graph_leads_by_its_share_of_rare_names():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(CHAIN)
        named = GraphRetriever(index).retrieve("Auth Service")
        assert named.trust.startswith("trust 1.00: 100% of the question consists of rare names")
        vague = GraphRetriever(index).retrieve("Which company sends invoices for logins in the north of Europe?")
        assert vague.trust.startswith("trust 0.00: 0% of the question consists of rare names")


def test_a_name_whose_words_are_everywhere_is_not_rare():
    """Two passages mention the File Menu; "file" and "menu" are in 60: the trust is 2 / sqrt(2 * 60) / 0.25."""
    pages = [Document(f"page{n}", f"Press {n}: a file in a menu of colour {n}.") for n in range(58)]
    pages += [Document("a", "Ask Ada to open the File Menu."), Document("b", "Ada closes the File Menu.")]
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(pages)
        result = GraphRetriever(index).retrieve("File Menu")
        assert result.trust.startswith(f"trust {2 / (2 * 60) ** 0.5 / 0.25:.2f}: 18% of the question")


def test_words_that_no_better_passage_has_move_a_passage_and_explain_names_them():
    pages = [Document(f"sort{n}", "Sort a table by its column. Sort the table again.") for n in range(3)]
    pages.append(Document("case", "A sort of the table is stable unless the locale differs."))
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(pages)
        question = "sort table column, sort column table again, locale"
        weights = {"graph": 0, "vector": 0, "similar": 0, "link": 0}
        first = GraphRetriever(index, reranker=Linear(**weights, cover=0), cache=False).retrieve(question, k=4)
        result = GraphRetriever(index, reranker=Linear(**weights, cover=5), cache=False).retrieve(question, k=4)
        assert (ids(first)[-1], ids(result)[0]) == ("case", "case")
        assert [hit.moved for hit in result.hits] == [("words",), (), (), ()]
        assert "the words of the question moved passages" in result.decided
        assert "moved up: contains 'sort', 'table', 'locale'" in result.explain()


def test_a_larger_k_adds_hits_and_leaves_the_first_as_they_are(index):
    retriever = GraphRetriever(index, cache=False)
    for settings in ({}, {"use_graph": False}):
        whole = [(hit.chunk.id, hit.score) for hit in retriever.retrieve(QUESTION, k=73, **settings).hits]
        assert len(whole) == len(DOCUMENTS)
        for k in (1, 5, 50, 60):
            hits = retriever.retrieve(QUESTION, k=k, **settings).hits
            assert [(hit.chunk.id, hit.score) for hit in hits] == whole[:k]


def test_a_chosen_fusion_or_strategy_decides_alone(index):
    assert GraphRetriever(index).settings.resolved.reranker == Linear()
    assert GraphRetriever(index, fusion=Weighted()).settings.resolved.reranker is False
    assert GraphRetriever(index, graph=PageRank(), reranker=False).settings.resolved.reranker is False


def test_a_reranker_can_be_replaced(index):
    class Backwards(Reranker):
        def rerank(self, query, plain, graph):
            keys = np.unique(np.concatenate([plain[0], graph[0]]))[::-1]
            return Reranked(keys, (1 / np.arange(1, len(keys) + 1)).astype(np.float32))

    backwards = GraphRetriever(index, k=100, reranker=Backwards()).retrieve(QUESTION)
    order = [document.id for document in reversed(DOCUMENTS)]
    assert ids(backwards) == sorted(ids(backwards), key=order.index)
    assert not backwards.scores_are_probabilities
    with pytest.raises(InputError, match="subclass of Reranker"):
        GraphRetriever(index, reranker=Linear)


# -- scores


@pytest.mark.parametrize("settings", [{}, {"use_graph": False}], ids=["graph", "plain"])
def test_scores_are_between_0_and_1_and_fall_with_the_rank(index, settings):
    for question in (QUESTION, UNRELATED, "Keyring", "?", "soup"):
        scores = [hit.score for hit in GraphRetriever(index, k=15).retrieve(question, **settings).hits]
        assert scores
        assert all(0 < score <= 1 for score in scores)
        assert all(one > other for one, other in pairwise(scores))


def test_a_question_without_an_answer_has_low_scores(index):
    retriever = GraphRetriever(index)
    assert retriever.retrieve(QUESTION).hits[0].score > 0.6
    assert retriever.retrieve(UNRELATED).hits[0].score < 0.3


def test_the_score_is_the_logistic_function_of_the_sum():
    """One word, in both passages: 1 for its share; the second adds no word. Without the graph its rank is not there."""
    with KnowledgeIndex(HashEmbedder()) as small:
        small.add([Document("a", "zebra"), Document("b", "zebra crossing")])
        linear = Linear(probability=(-1.0, 0.5, -1.5, 1.0, 0.25), graph=0.3, cover=1.2)
        hits = GraphRetriever(small, reranker=linear, use_graph=False).retrieve("zebra").hits
        for rank, (hit, total) in enumerate(zip(hits, (1.3 + 1.2, 1.3 * 10 / 11), strict=True), 1):
            expected = 1 / (1 + exp(1.0 - 0.5 * total + 1.5 * log(rank) - 0.25))
            assert hit.score == pytest.approx(expected, abs=1e-5)


def test_fusions_and_methods_with_their_own_scores_keep_them(index):
    for method in ("vector", "keyword"):
        first, second = (
            [(hit.chunk.id, hit.score) for hit in GraphRetriever(index, method=method, reranker=one).retrieve(QUESTION)]
            for one in (Linear(), False)
        )
        assert first == second
    by_rank = GraphRetriever(index, fusion=ReciprocalRank()).retrieve(QUESTION)
    assert by_rank.hits[0].score == pytest.approx(2 / 61)
    assert not by_rank.scores_are_probabilities


def test_a_threshold_leaves_out_hits_and_says_so(index):
    retriever = GraphRetriever(index, score_threshold=0.5)
    found = retriever.retrieve(QUESTION)
    assert found.hits
    assert all(hit.score >= 0.5 for hit in found.hits)
    assert len(found) < 5
    nothing = retriever.retrieve(UNRELATED)
    assert not nothing.hits
    assert "score_threshold" in nothing.advice
    assert len(retriever.retrieve(UNRELATED, score_threshold=0)) == 5
    assert not retriever.retrieve(UNRELATED).hits  # the cache tells them apart
    assert nothing.context(200) is not None


def test_words_of_the_question_explain_hits_without_the_graph_too(index):
    result = GraphRetriever(index, use_graph=False, cache=False).retrieve(QUESTION, k=2)
    assert set(result.hits[0].words) >= {"OAuth", "Provider", "secrets"}
    assert result.trust == ""
