"""Confidence intervals of means over questions, by resampling the questions."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_core.errors import InputError

RESAMPLES = 10_000
_BLOCK = 4_000_000  # drawn questions held in memory at a time


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


def resampled_means(values: npt.ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> npt.NDArray[np.float64]:
    """Return the means of bootstrap samples: as many questions as there are, drawn with replacement.

    Parameters
    ----------
    values
        One row for each question. Further columns are drawn together, so that they stay paired.
    resamples
        The number of samples.
    seed
        Values with the same number of questions and the same seed get the same samples.

    Returns
    -------
    numpy.ndarray
        One row for each sample.

    Raises
    ------
    InputError
        If there is no question.
    """
    rows = np.asarray(values, np.float64)
    count = len(rows)
    if count == 0:
        raise InputError("an interval needs at least one question")
    random = np.random.default_rng(seed)
    means = np.empty((resamples, *rows.shape[1:]))
    step = max(1, _BLOCK // count)
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        drawn = random.integers(count, size=(size, count)) + count * np.arange(size)[:, None]
        times = np.bincount(drawn.ravel(), minlength=size * count).reshape(size, count)
        means[start : start + size] = times @ rows / count
    return means


def bootstrap_interval(values: npt.ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> Interval:
    """Return the 95 % percentile interval of the mean of some values, one for each question.

    Give differences between two methods on the same questions for a paired interval.

    >>> bootstrap_interval([0.5, 0.5, 0.5])
    Interval(low=0.5, high=0.5)
    """
    low, high = np.percentile(resampled_means(values, resamples=resamples, seed=seed), (2.5, 97.5))
    return Interval(float(low), float(high))
