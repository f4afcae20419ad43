"""Measures of a ranking, such as ``recall@5``, and how far their mean over questions can be believed.

The tests check each measure against ``ir-measures``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_core.errors import InputError

RESAMPLES = 10_000
_BLOCK = 4_000_000  # resampled questions held in memory at a time


def _discounted(ranks: Sequence[int]) -> float:
    return sum(1 / math.log2(rank + 1) for rank in ranks)


MEASURES: Mapping[str, Callable[[Sequence[int], int, int], float]] = {
    "recall": lambda ranks, gold, _: len(ranks) / gold,
    "all": lambda ranks, gold, _: float(len(ranks) == gold),
    "ndcg": lambda ranks, gold, k: min(1.0, _discounted(ranks) / _discounted(range(1, min(gold, k) + 1))),
    "mrr": lambda ranks, _gold, _k: 1 / min(ranks, default=math.inf),
}
"""Functions of the ranks up to ``k`` at which gold items are found first, their number, and ``k``.

``recall`` is the share of the gold items that are found; ``all`` is 1 if every one is, which a multi-hop answer needs;
``ndcg`` is like recall, with ``1 / log2(rank + 1)`` for each, at most 1 also where a passage has several quotes;
``mrr`` is 1 / rank of the first one.
"""


@dataclass(frozen=True, slots=True)
class Measure:
    """A number from 0 to 1 for the first ``k`` results; higher is better.

    >>> str(Measure.parse("nDCG@10")), Measure("recall", 2)([1, 4], 2)
    ('ndcg@10', 0.5)
    """

    name: str
    k: int

    def __str__(self) -> str:
        return f"{self.name}@{self.k}"

    def __call__(self, ranks: Sequence[int], gold: int) -> float:
        """Return the measure of a question, of which ``gold`` items are found first at some ranks, from 1."""
        return MEASURES[self.name]([rank for rank in ranks if rank <= self.k], gold, self.k)

    @classmethod
    def parse(cls, text: str | Measure) -> Measure:
        """Return the measure that a text names. Raise ``InputError`` if there is none."""
        if isinstance(text, Measure):
            return text
        form = re.fullmatch(r"([a-z]+)@([1-9]\d*)", str(text).lower())
        if form is None or form[1] not in MEASURES:
            names = ", ".join(f"{name}@K" for name in MEASURES)
            raise InputError(f"no measure is named {text!r}: use one of {names}, such as recall@5")
        return cls(form[1], int(form[2]))


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


def bootstrap_interval(values: npt.ArrayLike) -> Interval:
    """Return the 95 % percentile interval of the mean of some values, one for each question.

    Differences between two methods on the same questions give a paired interval.

    >>> bootstrap_interval([0.5, 0.5, 0.5])
    Interval(low=0.5, high=0.5)
    """
    rows = np.asarray(values, np.float64)
    if len(rows) == 0:
        raise InputError("an interval needs at least one question")
    if len(rows) == 1:
        return Interval(float(rows[0]), float(rows[0]))
    from scipy import stats  # noqa: PLC0415 - slow to import

    batch, generator = max(1, _BLOCK // len(rows)), np.random.default_rng(0)
    found = stats.bootstrap(
        (rows,), np.mean, n_resamples=RESAMPLES, batch=batch, method="percentile", random_state=generator
    )
    return Interval(float(found.confidence_interval.low), float(found.confidence_interval.high))


def permutation_p(differences: npt.ArrayLike) -> float:
    """Return the two-sided p-value of paired differences, by a permutation test of their mean.

    It is the share of all combinations of signs with a mean at least as far from 0. For up to 13 differences other
    than 0 all combinations are enumerated; for more, 10,000 are drawn.

    >>> permutation_p([0.5, 0.5, 0.5, 0.5, 0.5, 0.0])
    0.0625
    """
    values = np.asarray(differences, np.float64)
    values = values[values != 0]
    if len(values) < 2:
        return 1.0
    from scipy import stats  # noqa: PLC0415 - slow to import

    result = stats.permutation_test(
        (values,),
        np.mean,
        permutation_type="samples",
        vectorized=True,
        n_resamples=RESAMPLES,
        batch=max(1, _BLOCK // len(values)),
        random_state=np.random.default_rng(0),
    )
    return float(result.pvalue)
