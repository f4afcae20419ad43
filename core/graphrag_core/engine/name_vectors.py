"""``NameVectors``: the vectors of names, which are read from the rows when the first question needs them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from graphrag_core.engine.arrays import Flags
from graphrag_core.engine.records import Records
from graphrag_core.engine.vectors import Vectors
from graphrag_core.key_sets import best
from graphrag_core.ports import Keys, Matrix, Ranking

_AHEAD = 4  # times as many names are searched if too few of those found are in scope


class NameVectors:
    """The vectors of all names, by the key of the name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: Keys = np.empty(0, np.int64)
        self._vectors = Vectors(0)

    def nearest(self, records: Records, vector: Matrix, k: int, is_written: Callable[[Keys], Flags]) -> Ranking:
        """Return the ``k`` names nearest to a vector, of those that are written."""
        keys, store = self._current(records)
        while True:
            ((at, scores),) = store.search(vector, k, None)
            kept = is_written(keys[at])
            if k >= len(keys) or np.count_nonzero(kept) >= k:
                return best(keys[at[kept]], scores[kept], k)
            k *= _AHEAD

    def _current(self, records: Records) -> tuple[Keys, Vectors]:
        """Return the keys of all names that have or had a vector, and the vectors."""
        with self._lock:
            last = int(self._keys[-1]) if len(self._keys) else -1
            keys, vectors = records.all_name_vectors(last)
            if len(keys):
                self._vectors = self._vectors.appended(vectors, len(self._keys), len(keys))
                self._keys = np.concatenate([self._keys, keys])
            return self._keys, self._vectors
