"""How far a mean over questions can be believed: confidence intervals and p-values by resampling."""

from functools import lru_cache
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
    return _interval(np.ascontiguousarray(values, np.float64).tobytes(), resamples, seed)


@lru_cache(maxsize=128)
def _interval(values: bytes, resamples: int, seed: int) -> Interval:
    """Return the interval of float64 values; cached, as a report needs the same ones for its table, page and JSON."""
    means = resampled_means(np.frombuffer(values, np.float64), resamples=resamples, seed=seed)
    low, high = np.percentile(means, (2.5, 97.5))
    return Interval(float(low), float(high))


_EXACT = 14  # differences of which all combinations of signs are enumerated


def permutation_p(differences: npt.ArrayLike, *, resamples: int = RESAMPLES, seed: int = 0) -> float:
    """Return the two-sided p-value of paired differences, by a permutation test of their mean.

    If two methods are equally good, the sign of each difference is as likely as the opposite one. The p-value is the
    share of all combinations of signs with a mean at least as far from 0. For up to 14 differences other than 0 all
    combinations are enumerated; for more, ``resamples`` combinations are drawn.

    >>> permutation_p([0.5, 0.5, 0.5, 0.5, 0.5, 0.0])
    0.0625
    """
    values = np.asarray(differences, np.float64)
    values = values[values != 0]
    count = len(values)
    if count == 0:
        return 1.0
    least = abs(values.sum()) - 1e-9 * np.abs(values).sum()
    if count <= _EXACT:
        signs = 1 - 2 * ((np.arange(1 << count)[:, None] >> np.arange(count)) & 1)
        return float(np.mean(np.abs(signs @ values) >= least))
    random = np.random.default_rng(seed)
    extreme = 0
    step = max(1, _BLOCK // count)
    for start in range(0, resamples, step):
        signs = 1 - 2 * random.integers(2, size=(min(step, resamples - start), count))
        extreme += int(np.count_nonzero(np.abs(signs @ values) >= least))
    return (extreme + 1) / (resamples + 1)
