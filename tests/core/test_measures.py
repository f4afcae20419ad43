"""Measures: values worked out by hand, and equal to ir-measures on random rankings where it is installed."""

from __future__ import annotations

import random

import pytest

from graphrag_apps.compare import MRR, NDCG, AllGold, Judgement, Measure, Precision, Recall, Success, permutation_p

PAIRS = {"R": Recall, "P": Precision, "nDCG": NDCG, "RR": MRR, "Success": Success}


def reference(name, k, ranked, gold):
    """The value of ir-measures for one question. Its run has scores: here each rank has a lower one."""
    ir_measures = pytest.importorskip("ir_measures", reason="ir-measures is not installed: no wheel for Linux on ARM")
    measure = ir_measures.parse_measure(f"{name}@{k}")
    qrels = [ir_measures.Qrel("q", document, grade) for document, grade in gold.items()]
    run = [ir_measures.ScoredDoc("q", document, 1 / rank) for rank, document in enumerate(ranked, 1)]
    return ir_measures.calc_aggregate([measure], qrels, run)[measure]


@pytest.mark.parametrize("name", PAIRS)
def test_a_measure_equals_that_of_ir_measures(name):
    chance = random.Random(name)
    for _ in range(25):
        documents = [f"d{number}" for number in range(chance.randint(1, 15))]
        ranked = chance.sample(documents, chance.randint(1, len(documents)))
        gold = chance.sample([*documents, "missing", "elsewhere"], chance.randint(1, 3))
        grades = {one: chance.choice([1, 1, 2, 3]) for one in gold}
        k = chance.choice([1, 3, 5, 10])
        value = PAIRS[name](k)(Judgement.of(ranked, grades))
        assert value == pytest.approx(reference(name, k, ranked, grades)), (ranked, grades, k)


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        # Found are a with grade 1 at rank 2, and b with grade 3 at rank 4. Missing is c with grade 2.
        (Recall(1), 0), (Recall(2), 1 / 3), (Recall(4), 2 / 3), (Recall(10), 2 / 3),
        (Precision(1), 0), (Precision(2), 1 / 2), (Precision(4), 2 / 4), (Precision(10), 2 / 10),
        (MRR(1), 0), (MRR(2), 1 / 2), (MRR(10), 1 / 2),
        (Success(1), 0), (Success(2), 1), (Success(10), 1),
        # log2(3) = 1.5849625 and log2(5) = 2.3219281. Best is b, c, a: 3 + 2 / 1.5849625 + 1 / 2 = 4.7618595.
        (NDCG(1), 0),
        (NDCG(2), 0.1480409),   # (1 / 1.5849625) / (3 + 2 / 1.5849625)
        (NDCG(3), 0.1324966),   # (1 / 1.5849625) / 4.7618595
        (NDCG(4), 0.4038253),   # (1 / 1.5849625 + 3 / 2.3219281) / 4.7618595
        (NDCG(10), 0.4038253),
    ],
)  # fmt: skip
def test_a_measure_is_its_formula_worked_out_by_hand(measure, value):
    assert measure(Judgement.of(["x", "a", "y", "b", "z"], {"a": 1, "b": 3, "c": 2})) == pytest.approx(value, abs=1e-7)


def test_every_gold_item_must_be_found():
    judged = Judgement.of(["a", "x", "b"], ["a", "b"])
    assert [AllGold(k)(judged) for k in (1, 2, 3)] == [0, 0, 1]


def test_a_repeated_document_counts_at_its_first_rank():
    judged = Judgement.of(["x", "a", "a", "x", "b"], ["a", "b"])
    assert judged.ranks(10) == {0: 2, 1: 3}


@pytest.mark.parametrize(
    ("text", "measure"),
    [("recall@5", Recall(5)), ("nDCG@10", NDCG(10)), ("MRR@3", MRR(3)), ("precision@1", Precision(1)),
     ("all@5", AllGold(5)), ("success@2", Success(2))],
)  # fmt: skip
def test_measures_are_parsed(text, measure):
    assert Measure.parse(text) == measure
    assert Measure.parse(str(measure)) == measure


def test_the_permutation_test_is_that_of_all_signs():
    # Of the 8 combinations of signs of 1, 2 and 3, the sum is at least 4 or at most -4 for +++, -++, --- and +--.
    assert permutation_p([-1, 2, 3]) == 4 / 8
    assert permutation_p([1, 2, 3]) == 2 / 8
    assert permutation_p([0, 0]) == 1
    assert permutation_p([]) == 1
