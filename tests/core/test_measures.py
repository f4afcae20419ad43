"""Measures: values worked out by hand, and equal to ir-measures on random rankings where it is installed."""

from __future__ import annotations

import random

import pytest

from graphrag_apps.compare import Measure, permutation_p
from graphrag_core.errors import InputError

PAIRS = {"R": "recall", "nDCG": "ndcg", "RR": "mrr"}


def reference(name, k, ranked, gold):
    """The value of ir-measures for one question. Its run has scores: here each rank has a lower one."""
    ir_measures = pytest.importorskip("ir_measures", reason="ir-measures is not installed: no wheel for Linux on ARM")
    measure = ir_measures.parse_measure(f"{name}@{k}")
    qrels = [ir_measures.Qrel("q", document, 1) for document in gold]
    run = [ir_measures.ScoredDoc("q", document, 1 / rank) for rank, document in enumerate(ranked, 1)]
    return ir_measures.calc_aggregate([measure], qrels, run)[measure]


@pytest.mark.parametrize("name", PAIRS)
def test_a_measure_equals_that_of_ir_measures(name):
    chance = random.Random(name)
    for _ in range(25):
        documents = [f"d{number}" for number in range(chance.randint(1, 15))]
        ranked = chance.sample(documents, chance.randint(1, len(documents)))
        gold = chance.sample([*documents, "missing", "elsewhere"], chance.randint(1, 3))
        ranks = [rank for rank, document in enumerate(ranked, 1) if document in gold]
        k = chance.choice([1, 3, 5, 10])
        assert Measure(PAIRS[name], k)(ranks, len(gold)) == pytest.approx(reference(name, k, ranked, gold))


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        # Of three gold items two are found, at ranks 2 and 4.
        ("recall@1", 0), ("recall@2", 1 / 3), ("recall@4", 2 / 3), ("recall@10", 2 / 3),
        ("mrr@1", 0), ("mrr@2", 1 / 2), ("mrr@10", 1 / 2),
        # log2(3) = 1.5849625 and log2(5) = 2.3219281. Best is 1 + 1 / 1.5849625 + 1 / 2 = 2.1309298.
        ("ndcg@1", 0),
        ("ndcg@2", 0.3868528),   # (1 / 1.5849625) / (1 + 1 / 1.5849625)
        ("ndcg@3", 0.2960819),   # (1 / 1.5849625) / 2.1309298
        ("ndcg@4", 0.4981892),   # (1 / 1.5849625 + 1 / 2.3219281) / 2.1309298
        ("all@4", 0),
    ],
)  # fmt: skip
def test_a_measure_is_its_formula_worked_out_by_hand(measure, value):
    assert Measure.parse(measure)([2, 4], 3) == pytest.approx(value, abs=1e-7)


def test_every_gold_item_must_be_found():
    assert [Measure("all", k)([1, 3], 2) for k in (1, 2, 3)] == [0, 0, 1]


def test_measures_are_parsed():
    assert Measure.parse("nDCG@10") == Measure("ndcg", 10)
    assert Measure.parse(str(Measure("all", 5))) == Measure("all", 5)
    for wrong in ("recall", "recall@0", "luck@5"):
        with pytest.raises(InputError, match="no measure is named"):
            Measure.parse(wrong)


def test_the_permutation_test_is_that_of_all_signs():
    # Of the 8 combinations of signs of 1, 2 and 3, the sum is at least 4 or at most -4 for +++, -++, --- and +--.
    assert permutation_p([-1, 2, 3]) == 4 / 8
    assert permutation_p([1, 2, 3]) == 2 / 8
    assert permutation_p([0, 0]) == 1
    assert permutation_p([]) == 1
