"""How far a mean over questions can be believed: confidence intervals and p-values by resampling."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_core.errors import InputError

RESAMPLES = 10_000
_BLOCK = 4_000_000  # resampled questions held in memory at a time


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


def bootstrap_interval(values: npt.ArrayLike) -> Interval:
    """Return the 95 % percentile interval of the mean of some values, one for each question.

    Give differences between two methods on the same questions for a paired interval. The same values give the same
    interval.

    >>> bootstrap_interval([0.5, 0.5, 0.5])
    Interval(low=0.5, high=0.5)
    """
    return _interval(np.ascontiguousarray(values, np.float64).tobytes())


@lru_cache(maxsize=128)
def _interval(values: bytes) -> Interval:
    """Return the interval of float64 values; cached, as a report needs the same ones for its table, page and JSON."""
    rows = np.frombuffer(values, np.float64)
    if len(rows) == 0:
        raise InputError("an interval needs at least one question")
    if len(rows) == 1:
        return Interval(float(rows[0]), float(rows[0]))
    from scipy import stats  # noqa: PLC0415 - slow to import

    interval = stats.bootstrap(
        (rows,),
        np.mean,
        n_resamples=RESAMPLES,
        batch=max(1, _BLOCK // len(rows)),
        method="percentile",
        random_state=np.random.default_rng(0),
    ).confidence_interval
    return Interval(float(interval.low), float(interval.high))


def permutation_p(differences: npt.ArrayLike) -> float:
    """Return the two-sided p-value of paired differences, by a permutation test of their mean.

    If two methods are equally good, the sign of each difference is as likely as the opposite one. The p-value is the
    share of all combinations of signs with a mean at least as far from 0. For up to 13 differences other than 0 all
    combinations are enumerated; for more, 10,000 are drawn.

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
