"""Whether the graph helps: scores by hand, and verdicts that do not claim more than was seen."""

from __future__ import annotations

import pytest

from graphrag_apps.compare import (
    METHODS,
    Answered,
    Question,
    Report,
    bootstrap_interval,
    compare,
)
from graphrag_core import GraphRetriever
from graphrag_core.errors import InputError


def report(*recalls, k=5):
    """A report of questions with four gold documents, of which each way found some."""
    gold = ("a", "b", "c", "d")
    answered = []
    for plain, hybrid in recalls:
        found = dict.fromkeys(METHODS, gold[:plain])
        answered.append(Answered(Question("?", gold), {**found, "hybrid": gold[:hybrid]}))
    return Report(k, tuple(answered))


@pytest.mark.parametrize(
    ("better", "worse", "p_value"),
    [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 2 / 32), (6, 0, 2 / 64), (9, 1, 22 / 1024), (3, 3, 1.0)],
)
def test_the_p_value_is_that_of_a_two_sided_sign_test(better, worse, p_value):
    assert report(*[(1, 2)] * better, *[(2, 1)] * worse, (2, 2)).difference().p_value == pytest.approx(p_value)


def test_a_verdict_claims_no_more_than_was_seen():
    assert (
        report((2, 2), (1, 1)).verdict == "The graph makes no difference to vectors and keywords on these 2 questions."
    )
    assert report(*[(1, 2)] * 5).verdict.startswith("The graph looks better, which may be chance: recall@5 +25 points")
    assert report((1, 2), (2, 1)).verdict.startswith("These questions show no difference: recall@5 +0 points")
    assert report(*[(1, 2)] * 6).verdict == (
        "The graph helps: recall@5 +25 points (95 % interval +25 to +25), more found on 6 of 6 questions, less on 0."
    )
    assert report(*[(2, 1)] * 6).verdict.startswith("The graph does not help: recall@5 -25 points")
    assert Report(5).verdict == "There are no questions."


def test_every_method_is_asked_and_documents_count_once(services):
    found = compare(
        GraphRetriever(services),
        [Question("Who runs the OAuth Provider?", ("oauth",))],
        k=2,
    )
    (answer,) = found.answered
    assert set(answer.found) == set(METHODS)
    assert all(len(documents) == len(set(documents)) <= 2 for documents in answer.found.values())
    assert found.mean("hybrid", "recall@2").value == 1


def test_intervals_are_those_of_the_binomial_distribution():
    # The sum of a bootstrap sample of ones and zeros is binomial: n = 100, p = 0.3 has 2.5 % and 97.5 % quantiles 21
    # and 39.
    low, high = bootstrap_interval([1.0] * 30 + [0.0] * 70)
    assert low == pytest.approx(0.21, abs=0.011)
    assert high == pytest.approx(0.39, abs=0.011)
    assert bootstrap_interval([1.0] * 30 + [0.0] * 70) == (low, high)
    assert bootstrap_interval([0.5]) == (0.5, 0.5)
    with pytest.raises(InputError, match="at least one question"):
        bootstrap_interval([])
