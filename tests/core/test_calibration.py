"""Scores of hits: probabilities that fall with the rank, do not depend on k, and can be cut off."""

from __future__ import annotations

from itertools import pairwise
from math import exp, log

import numpy as np
import pytest

from graphrag_apps.compare import Question, fit_calibration, judge_hits, reliability, scores_of
from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import InputError
from graphrag_core.query.calibration import HIGHEST
from graphrag_core.strategies import Anchored, Calibration, Coverage, ReciprocalRank, Weighted
from graphrag_core.testing import HashEmbedder

DOCUMENTS = [
    Document("auth", "The Auth Service delegates the login to the OAuth Provider.", "Auth Service"),
    Document("oauth", "The OAuth Provider keeps its secrets in Keyring.", "OAuth Provider"),
    Document("keyring", "Keyring runs in Iceland.", "Keyring"),
    *(Document(f"menu{day}", f"Soup number {day} is served with bread.", f"Menu {day}") for day in range(12)),
]
QUESTION = "Where does the OAuth Provider keep its secrets?"
UNRELATED = "What is the capital of Mongolia?"


@pytest.fixture(scope="module")
def index():
    with KnowledgeIndex(HashEmbedder()) as index:
        index.add(DOCUMENTS)
        yield index


@pytest.mark.parametrize("settings", [{}, {"use_graph": False}], ids=["graph", "plain"])
def test_scores_are_between_0_and_1_and_fall_with_the_rank(index, settings):
    for question in (QUESTION, UNRELATED, "Keyring", "?", "soup"):
        scores = [hit.score for hit in GraphRetriever(index, k=15).retrieve(question, **settings).hits]
        assert scores
        assert all(0 < score < 1 for score in scores)
        assert all(one > other for one, other in pairwise(scores))


def test_a_score_does_not_depend_on_k(index):
    retriever = GraphRetriever(index, cache=False)
    whole = [(hit.chunk.id, hit.score) for hit in retriever.retrieve(QUESTION, k=12).hits]
    for k in (1, 2, 5, 9):
        assert [(hit.chunk.id, hit.score) for hit in retriever.retrieve(QUESTION, k=k).hits] == whole[:k]


def test_a_question_without_an_answer_has_low_scores(index):
    retriever = GraphRetriever(index)
    assert retriever.retrieve(QUESTION).hits[0].score > 0.8
    assert retriever.retrieve(UNRELATED).hits[0].score < 0.3


def test_the_score_is_the_logistic_function_of_the_signals(index):
    """A question of two words of equal weight, of which the only passage has one, without the graph."""
    with KnowledgeIndex(HashEmbedder()) as small:
        small.add([Document("a", "zebra")])
        weights = Calibration()
        (hit,) = GraphRetriever(small).retrieve("zebra", use_graph=False).hits
        # All words of the question, all of them new: 1 for words, new_words and together; the logarithm of 1 is 0.
        total = weights.base + weights.words + weights.new_words + weights.together + weights.without_graph
        assert hit.score == pytest.approx(HIGHEST / (1 + exp(-total)), abs=1e-6)
        small.add([Document("b", "zebra crossing")])
        hits = GraphRetriever(small).retrieve("zebra", use_graph=False, k=2).hits
        # The second passage has the word, but no new one.
        total = weights.base + weights.rank * log(2) + weights.words + weights.together + weights.without_graph
        assert hits[1].score == pytest.approx(HIGHEST / (1 + exp(-total)), abs=1e-5)


def test_fusions_and_methods_with_their_own_scores_keep_them(index):
    for method in ("vector", "keyword"):
        with_default, without = (
            [(hit.chunk.id, hit.score) for hit in GraphRetriever(index, method=method, reranker=one).retrieve(QUESTION)]
            for one in (Coverage(), Coverage(calibration=None))
        )
        assert with_default == without
    assert Weighted().calibration is ReciprocalRank().calibration is None
    by_rank = GraphRetriever(index, fusion=Anchored(calibration=None)).retrieve(QUESTION).hits
    assert [hit.score for hit in by_rank[:3]] == pytest.approx([1, 1 / 2, 1 / 3])


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


def test_what_the_remaining_hits_lack_is_uncovered(index):
    words = "secrets Iceland bread"
    everything = GraphRetriever(index).retrieve(words)
    first = GraphRetriever(index).retrieve(words, score_threshold=everything.hits[0].score)
    assert 0 < len(first) < 3
    assert set(first.uncovered) > set(everything.uncovered)
    assert all(hit.link is None or hit.link.rank <= len(first) for hit in first.hits)


@pytest.mark.parametrize("value", [-0.1, "high", True, float("nan"), float("inf")])
def test_a_threshold_is_a_number(index, value):
    with pytest.raises(InputError, match="score_threshold"):
        GraphRetriever(index, score_threshold=value)
    with pytest.raises(InputError, match="score_threshold"):
        GraphRetriever(index).retrieve(QUESTION, score_threshold=value)


def test_a_calibration_can_be_replaced_and_is_checked(index):
    certain = Calibration(base=20)
    retriever = GraphRetriever(index, **{"reranker.calibration": certain})
    assert retriever.settings.reranker == Coverage(calibration=certain)
    assert retriever.retrieve(UNRELATED).hits[0].score == pytest.approx(HIGHEST, abs=1e-3)
    with pytest.raises(InputError, match=r"reranker\.calibration is"):
        GraphRetriever(index, **{"reranker.calibration": Calibration})


class TestFitting:
    QUESTIONS = (
        Question(QUESTION, ("oauth",)),
        Question("Who delegates the login?", ("auth",)),
        Question("Where does Keyring run?", ("keyring",)),
        Question("What is served with bread?", tuple(f"menu{day}" for day in range(12))),
        Question(UNRELATED),
        Question("Who won the cup in 1954?"),
    )

    def test_finds_the_weights_that_made_the_labels(self, index):
        judged = judge_hits(GraphRetriever(index), self.QUESTIONS)
        rng = np.random.default_rng(0)
        signals = np.concatenate([judged.signals] * 400)
        signals = signals + np.append(0, np.full(signals.shape[1] - 1, 0.3)) * rng.normal(size=signals.shape)
        truth = np.array([-1, -1, 1, 2, 1, -1, 0.5, 1, 0.3])
        labels = rng.random(len(signals)) < HIGHEST / (1 + np.exp(-signals @ truth))
        fitted = fit_calibration(judged._replace(signals=signals, labels=labels))
        assert np.abs(np.array(list(vars(fitted).values())) - truth).max() < 0.4

    def test_judges_and_scores_as_the_retriever_does(self, index):
        retriever = GraphRetriever(index, k=10)
        judged = judge_hits(retriever, self.QUESTIONS)
        expected = [hit.score for question in self.QUESTIONS for hit in retriever.retrieve(question.text).hits]
        assert scores_of(Calibration(), judged) == pytest.approx(expected, abs=1e-6)
        assert judged.labels.sum() >= 4
        assert not judged.labels[-10:].any()

    def test_counts_right_hits_by_score(self):
        bins = reliability([0.05, 0.15, 0.95, 1.0], [False, True, True, False])
        assert [(part.low, part.hits, part.share) for part in bins] == [(0.0, 1, 0.0), (0.1, 1, 1.0), (0.9, 2, 0.5)]

    def test_needs_right_and_wrong_hits(self, index):
        with pytest.raises(InputError, match="gold"):
            fit_calibration(judge_hits(GraphRetriever(index), [Question(UNRELATED)]))

    def test_needs_the_default_scores(self, index):
        with pytest.raises(InputError, match="default"):
            judge_hits(GraphRetriever(index, fusion=Weighted()), self.QUESTIONS)
