"""How reliable the scores of hits are: how often hits with a score are right."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Bin(NamedTuple):
    """Hits with a score from ``low`` to ``high``: how many, their mean score, and the share of right ones."""

    low: float
    high: float
    hits: int
    score: float
    share: float


def reliability(scores: npt.ArrayLike, labels: npt.ArrayLike, *, bins: int = 10) -> list[Bin]:
    """Return how often hits were right, by score: reliable scores are as high as the share of right hits.

    >>> [(bin.low, bin.hits, bin.share) for bin in reliability([0.1, 0.15, 0.9], [False, False, True], bins=2)]
    [(0.0, 2, 0.0), (0.5, 1, 1.0)]
    """
    values, right = np.asarray(scores, np.float64), np.asarray(labels, np.bool_)
    bin_of_score = np.minimum((values * bins).astype(int), bins - 1)
    filled = []
    for number in range(bins):
        inside = bin_of_score == number
        if count := int(inside.sum()):
            share = float(right[inside].mean())
            filled.append(Bin(number / bins, (number + 1) / bins, count, float(values[inside].mean()), share))
    return filled
