"""The data structures of the graph in memory: growing arrays, and sparse rows that can be changed one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from graphrag_core.key_sets import among, distinct

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Pairs = tuple[Numbers, Numbers]
Tables = Mapping[str, Mapping[str, Array]]
"""Arrays by table and column."""

_MOST_AT_ONCE = 1_000_000  # entries of rows that are copied together


class Growing:
    """An array to which values are appended, in amortised constant time for each value.

    ``size`` is the number of values if the array has room for more behind them.
    """

    def __init__(self, values: Array, size: int | None = None) -> None:
        self._buffer = values
        self._size = len(values) if size is None else size

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> Array:
        """All values: not a copy, and valid until the next change."""
        return self._buffer[: self._size]

    def append(self, values: Array | Sequence[Any]) -> None:
        """Add values at the end."""
        start = self._size
        self.extend(len(values))
        self._buffer[start : self._size] = values

    def extend(self, count: int, fill: Any = 0) -> None:
        """Add one value several times."""
        start, self._size = self._size, self._size + count
        if self._size > len(self._buffer):
            room = self._size + (self._size >> 2) + 16
            buffer = np.empty((room, *self._buffer.shape[1:]), self._buffer.dtype)
            buffer[:start] = self._buffer[:start]
            self._buffer = buffer
        self._buffer[start : self._size] = fill

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        return in_memory(self._buffer)


class Rows:
    """The rows of a sparse matrix, each in one piece of a shared buffer with room to grow.

    Appending to a row takes time in proportion to what is appended, changing it in any other way in proportion to the
    row. A row that outgrows its room moves to the end of the buffer and gets half as much again.
    """

    def __init__(self, owners: Numbers, indices: Array, rows: int, data: Array | None = None) -> None:
        """Make the rows of pairs of a row and an index. Those of a row keep their order."""
        self._fill(owners, indices, rows, data)

    def _fill(self, owners: Numbers, indices: Array, rows: int, data: Array | None) -> None:
        if len(owners) and (np.diff(owners) < 0).any():
            order = _order(owners, rows)
            indices, data = indices[order], None if data is None else data[order]
        counts = np.bincount(owners, minlength=rows).astype(np.int32) if len(owners) else np.zeros(rows, np.int32)
        starts = np.cumsum(counts, dtype=np.int64) - counts if len(owners) else np.zeros(rows, np.int64)
        self._starts, self._counts = Growing(starts), Growing(counts)
        self._room: Growing | None = None  # of each row, until one is changed that of its entries
        self._indices = Growing(indices.astype(np.int32))
        self._data = None if data is None else Growing(data)

    @classmethod
    def of(cls, starts: Growing, counts: Growing, indices: Growing, data: Growing | None = None) -> Rows:
        """Return rows of which :meth:`packed` returned these arrays."""
        rows = cls(np.empty(0, np.int64), np.empty(0, np.int64), 0)
        rows._starts, rows._counts, rows._indices, rows._data = starts, counts, indices, data
        return rows

    def packed(self, rows: Numbers | None = None, place: Array | None = None) -> dict[str, Array]:
        """Return all rows or some, one after the other without room between them, as arrays.

        ``place`` has the number that replaces each index. Those without one (-1) are left out.
        """
        if rows is None and place is None and self._room is None:
            data = None if self._data is None else self._data.values
            return _named(self._starts.values, self._counts.values, self._indices.values, data)
        rows = np.arange(len(self._counts)) if rows is None else rows
        counts = self._counts.values[rows].copy()
        ends = np.cumsum(counts, dtype=np.int64)
        parts, values = [np.empty(0, np.int32)], [] if self._data is None else [self._data.values[:0]]
        bounds = [*np.searchsorted(ends, np.arange(0, int(ends[-1]) if len(ends) else 0, _MOST_AT_ONCE)), len(rows)]
        for first, last in pairwise(bounds):
            sizes, indices, data = self.gather(rows[first:last])
            if place is not None:
                indices = place[indices]
                kept = indices >= 0
                if not kept.all():
                    owners = np.repeat(np.arange(first, last), sizes)[kept]
                    counts[first:last] = np.bincount(owners - first, minlength=last - first)
                    indices, data = indices[kept], data[kept]
            parts.append(indices.astype(np.int32))
            if self._data is not None:
                values.append(data)
        return _named(
            np.cumsum(counts, dtype=np.int64) - counts, counts, np.concatenate(parts),
            np.concatenate(values) if values else None,
        )  # fmt: skip

    def _rooms(self) -> Array:
        """Return how many entries each row has room for."""
        if self._room is None:
            self._room = Growing(self._counts.values.copy())
        return self._room.values

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        parts = (self._starts, self._counts, self._room, self._indices, self._data)
        return sum(part.nbytes for part in parts if part is not None)

    @property
    def counts(self) -> Numbers:
        """The length of each row."""
        return self._counts.values

    def __len__(self) -> int:
        return len(self._indices)

    def extend(self, rows: int) -> None:
        """Add empty rows, so that there are so many in all."""
        if len(self._counts) == 0:  # memory that is not written takes none
            self._starts, self._counts = Growing(np.zeros(rows, np.int64)), Growing(np.zeros(rows, np.int32))
        for part in (self._starts, self._counts, self._room):
            if part is not None:
                part.extend(rows - len(part))

    def gather(self, rows: Numbers, limit: int | Numbers | None = None) -> tuple[Numbers, Numbers, Array]:
        """Return rows, or their first entries: their lengths, indices and values (the indices if there are none)."""
        counts: Numbers = self._counts.values[rows].astype(np.int64)
        if limit is not None:
            counts = np.minimum(counts, limit)
        at = ranges(self._starts.values[rows], counts)
        indices = self._indices.values[at].astype(np.int64)
        return counts, indices, indices if self._data is None else self._data.values[at]

    def replace(self, rows: Numbers, counts: Numbers, indices: Array, data: Array | None = None) -> None:
        """Give rows, each named once, other content."""
        self._make_room(rows, counts)
        at = ranges(self._starts.values[rows], counts)
        self._indices.values[at] = indices
        if self._data is not None:
            self._data.values[at] = data
        self._counts.values[rows] = counts

    def append(self, owners: Numbers, indices: Array, data: Array | None = None) -> None:
        """Add pairs of a row and an index at the ends of the rows."""
        if len(owners) == 0:
            return
        if len(self._indices) == 0:
            self._fill(owners, indices, len(self._counts), data)
            return
        order = np.argsort(owners, kind="stable")
        rows, added = np.unique(owners, return_counts=True)
        before = self._counts.values[rows]
        moved = rows[before + added > self._rooms()[rows]]
        if len(moved):
            counts, content, values = self.gather(moved)
            wanted = counts + added[np.searchsorted(rows, moved)]
            self._make_room(moved, wanted)
            at = ranges(self._starts.values[moved], counts)
            self._indices.values[at] = content
            if self._data is not None:
                self._data.values[at] = values
        at = ranges(self._starts.values[rows] + before, added)
        self._indices.values[at] = indices[order]
        if self._data is not None and data is not None:
            self._data.values[at] = data[order]
        self._counts.values[rows] = before + added

    def splice(
        self,
        removed: tuple[Numbers, Numbers],
        added: tuple[Numbers, Numbers],
        data: Array | None = None,
        order_of: Array | None = None,
    ) -> None:
        """Remove and add pairs of a row and an index, in rows that are in ascending order and stay so.

        ``order_of`` has a number for each index by which the rows are ordered instead.
        """
        if len(self._indices) == 0:
            self._fill_ordered(*added, data, order_of)
            return
        rows = distinct(removed[0], added[0])
        if len(rows) == 0:
            return
        if len(removed[0]) == 0 and order_of is None:
            counts, starts = self._counts.values[rows].astype(np.int64), self._starts.values[rows]
            last = np.full(len(rows), -1, np.int64)
            last[counts > 0] = self._indices.values[(starts + counts - 1)[counts > 0]]
            order = np.lexsort((added[1], added[0]))
            owners, indices = added[0][order], added[1][order]
            if (indices > last[np.searchsorted(rows, owners)]).all():
                self.append(owners, indices, None if data is None else data[order])
                return
        counts, indices, values = self.gather(rows)
        owners = np.repeat(np.arange(len(rows)), counts)
        width = 1 + max((int(part.max()) for part in (indices, removed[1], added[1]) if len(part)), default=0)
        kept = ~among(owners * width + indices, np.sort(np.searchsorted(rows, removed[0]) * width + removed[1]))
        owners = np.concatenate([owners[kept], np.searchsorted(rows, added[0])])
        indices = np.concatenate([indices[kept], added[1]])
        order = np.lexsort((indices if order_of is None else order_of[indices], owners))
        if self._data is not None and data is not None:
            values = np.concatenate([values[kept], data])[order]
        self.replace(rows, np.bincount(owners, minlength=len(rows)), indices[order], values)

    def _fill_ordered(self, owners: Numbers, indices: Array, data: Array | None, order_of: Array | None) -> None:
        """Fill empty rows with pairs, which are sorted if they are in no order that gives ordered rows."""
        key = indices if order_of is None else order_of[indices]
        by_owner = (owners[1:] > owners[:-1]) | (owners[1:] == owners[:-1]) & (key[1:] > key[:-1])
        if not by_owner.all() and not (key[1:] >= key[:-1]).all():
            order = np.lexsort((key, owners))
            owners, indices, data = owners[order], indices[order], None if data is None else data[order]
        self._fill(owners, indices, len(self._counts), data)

    def _make_room(self, rows: Numbers, counts: Numbers) -> None:
        """Move the rows that have no room for so many to the end of the buffer. Their content is lost."""
        small = counts > self._rooms()[rows]
        if not small.any():
            return
        room = counts[small] + (counts[small] >> 1) + 2
        ends = np.cumsum(room) + len(self._indices)
        self._starts.values[rows[small]] = ends - room
        self._rooms()[rows[small]] = room
        self._indices.extend(int(room.sum()))
        if self._data is not None:
            self._data.extend(int(room.sum()))


def _named(starts: Array, counts: Array, indices: Array, data: Array | None) -> dict[str, Array]:
    found = {"starts": starts, "counts": counts, "indices": indices}
    return found if data is None else {**found, "data": data}


def in_memory(array: Array) -> int:
    """Return the bytes of an array; none for one that is mapped from a file."""
    owner: Any = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return array.nbytes if owner.base is None else 0


def _order(numbers: Array, limit: int) -> Array:
    """Return the order of numbers below a limit, equal ones in theirs. A counting sort takes linear time.

    >>> _order(np.array([2, 0, 2, 1]), 3).tolist()
    [1, 3, 0, 2]
    """
    count = len(numbers)
    one_per_row = csr_array((np.ones(count, np.bool_), numbers, np.arange(count + 1)), shape=(count, limit))
    order: Array = one_per_row.tocsc().indices
    return order


def ranges(starts: Array, counts: Array) -> Numbers:
    """Return the numbers from each start on, so many, one range after the other.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    if len(counts) == 1:
        return np.arange(int(starts[0]), int(starts[0] + counts[0]))
    found: Numbers = (starts - counts.cumsum() + counts).repeat(counts)
    found += np.arange(len(found))
    return found


def spans(column: Array, keys: Array) -> tuple[Numbers, Numbers]:
    """Return the places of the rows that have each key, and how many each has, in a sorted column."""
    keys = keys.astype(column.dtype)
    starts = np.searchsorted(column, keys, "left")
    counts = np.searchsorted(column, keys, "right") - starts
    return ranges(starts, counts), counts
