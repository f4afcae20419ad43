"""Arrays of keys as sets, and rankings: faster than the functions of NumPy for the sizes that a query has.

Since version 2.3 ``np.unique`` hashes integers, which takes many times as long as sorting them.
"""

from typing import Any

import numpy as np
import numpy.typing as npt


def distinct(*keys: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the keys of some arrays in ascending order, each once.

    >>> distinct(np.array([7, 3, 7]), np.array([5, 3])).tolist()
    [3, 5, 7]
    """
    ascending = np.sort(keys[0] if len(keys) == 1 else np.concatenate(keys))
    is_first = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=is_first[1:])
    return ascending[is_first]


def among(keys: npt.NDArray[Any], ascending: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Return which keys are among others, which are in ascending order.

    >>> among(np.array([7, 3]), np.array([3, 5])).tolist()
    [False, True]
    """
    if len(ascending) == 0:
        return np.zeros(len(keys), np.bool_)
    place = ascending.searchsorted(keys)
    np.minimum(place, len(ascending) - 1, out=place)
    found: npt.NDArray[np.bool_] = ascending[place] == keys
    return found


def without(keys: npt.NDArray[Any], others: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return keys that are not among others, in ascending order, each once.

    >>> without(np.array([7, 3, 7, 5]), np.array([5])).tolist()
    [3, 7]
    """
    own = distinct(keys)
    return own[~among(own, np.sort(others))] if len(others) else own


def ranges(starts: npt.NDArray[Any], counts: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return a count of numbers from each start on, one range after the other.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    if len(counts) == 1:
        return np.arange(int(starts[0]), int(starts[0] + counts[0]))
    found: npt.NDArray[np.int64] = (starts - counts.cumsum() + counts).repeat(counts)
    found += np.arange(len(found))
    return found


def best(
    keys: npt.NDArray[np.int64], scores: npt.NDArray[np.float32], k: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Return the best ``k`` keys and what ties with the last, by score, then by key.

    >>> [values.tolist() for values in best(np.array([7, 3, 5]), np.array([1, 2, 1], np.float32), 2)]
    [[3, 5, 7], [2.0, 1.0, 1.0]]
    """
    if len(scores) > k:
        kept = scores >= np.partition(scores, len(scores) - k)[len(scores) - k]
        keys, scores = keys[kept], scores[kept]
    order = np.lexsort((keys, -scores))
    return keys[order], scores[order]
