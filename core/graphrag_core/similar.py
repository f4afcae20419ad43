"""Names that mean nearly the same, by their vectors."""

from __future__ import annotations

import numpy as np

from graphrag_core.ports import Keys, VectorStore

_NEIGHBOURS = 8
_PAGE = 1_000


def similar_names(vectors: VectorStore, least: float) -> tuple[Keys, Keys]:
    """Return pairs of name keys whose cosine is at least ``least``, the smaller key first.

    Each name is compared with its eight nearest.
    """
    keys = vectors.keys
    first: list[Keys] = []
    second: list[Keys] = []
    for start in range(0, len(keys), _PAGE):
        page = keys[start : start + _PAGE]
        for key, (near, scores) in zip(page, vectors.search(vectors.get(page), _NEIGHBOURS + 1), strict=True):
            close = near[(scores >= least) & (near != key)]
            first.append(np.minimum(key, close))
            second.append(np.maximum(key, close))
    empty = np.empty(0, np.int64)
    return np.concatenate([empty, *first]), np.concatenate([empty, *second])
