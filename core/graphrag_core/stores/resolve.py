"""Which names are one entity, decided anew from the rows there are, so that nothing is ever merged for good."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

Index = npt.NDArray[np.int64]
Pairs = tuple[Index, Index]


def resolve(size: int, aliases: Pairs, similar: Pairs, weight: Index, ids: Index) -> Index:
    """Return for each of ``size`` entities the one that stands for it.

    A short name stands for its long one if no chunk gives it another: "AMA", the medical
    and the marketing association, stays itself. Of a group the long name represents; of
    several, or of none, the one with the most weight, then with the smallest id.
    """
    itself = np.arange(size, dtype=np.int64)
    short, long = _unambiguous(size, *aliases)
    if len(short) + len(similar[0]) == 0:
        return itself
    ends = np.concatenate([short, similar[0]]), np.concatenate([long, similar[1]])
    graph = coo_array((np.ones(len(ends[0])), ends), shape=(size, size))
    count, group = connected_components(graph, directed=False)
    is_short = np.zeros(size, np.bool_)
    is_short[short] = True
    order = np.lexsort((ids, -weight, is_short, group))
    first = np.flatnonzero(np.r_[True, np.diff(group[order]) > 0])
    representative = np.empty(count, np.int64)
    representative[group[order[first]]] = order[first]
    standing: Index = representative[group]
    return standing


def _unambiguous(size: int, short: Index, long: Index) -> Pairs:
    pairs = np.unique(short[short != long] * size + long[short != long])
    short, long = np.divmod(pairs, size) if size else (pairs, pairs)
    alone = np.bincount(short, minlength=size)[short] == 1 if len(short) else np.empty(0, np.bool_)
    return short[alone], long[alone]
