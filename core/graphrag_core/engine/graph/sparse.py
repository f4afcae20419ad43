"""The data structures of the graph in memory: growing arrays, and sparse rows to which indices are appended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.rows import damaged
from graphrag_core.key_sets import ranges

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Pairs = tuple[Numbers, Numbers]

S = TypeVar("S")
T = TypeVar("T")

_NO_INDICES = np.empty(0, np.int32)


class Growing:
    """An array to which values are appended, in amortised constant time for each value.

    ``values`` is not a copy, and valid until the next change. ``size`` is the number of values if the array has room
    for more behind them.
    """

    def __init__(self, values: Array, size: int | None = None) -> None:
        self._buffer = values
        self.values = values[:size]

    def append(self, values: Array | Sequence[Any]) -> None:
        """Add values at the end."""
        start = len(self.values)
        self.extend(len(values))
        self.values[start:] = values

    def extend(self, count: int, fill: Any = 0) -> None:
        """Add one value several times."""
        start, size, buffer = len(self.values), len(self.values) + count, self._buffer
        if size > len(buffer):
            buffer = np.empty((size + (size >> 2) + 16, *buffer.shape[1:]), buffer.dtype)
            buffer[:start] = self.values
        buffer[start:size] = fill
        self._buffer, self.values = buffer, buffer[:size]

    @property
    def nbytes(self) -> int:
        return in_memory(self._buffer)


class Rows:
    """The rows of a sparse matrix, each in one piece of a shared buffer with room to grow.

    Appending to a row takes time in proportion to what is appended. A row that outgrows its room moves to the end of
    the buffer and gets half as much again.

    Parameters
    ----------
    counts, indices
        The length of each row, and the rows one after the other.
    """

    def __init__(self, counts: Growing | None = None, indices: Growing | None = None) -> None:
        self.counts = counts or Growing(_NO_INDICES)
        self.indices = indices or Growing(_NO_INDICES)
        lengths = self.counts.values.astype(np.int64)
        self._starts = Growing(lengths.cumsum() - lengths)
        self._room: Growing | None = None  # capacity of each row; None while rows are exactly full

    @classmethod
    def of(cls, owners: Array, indices: Array, rows: int) -> Rows:
        """Return the rows of pairs of a row and an index. The indices of a row keep their order."""
        counts = np.bincount(owners, minlength=rows).astype(np.int32)
        if len(owners) and (np.diff(owners) < 0).any():
            from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import

            # The order of the owners, by a counting sort in linear time.
            pairs = (np.ones(len(owners), np.bool_), owners, np.arange(len(owners) + 1))
            indices = indices[csr_array(pairs, shape=(len(owners), rows)).tocsc().indices]
        return cls(Growing(counts), Growing(indices.astype(np.int32)))

    @property
    def is_packed(self) -> bool:
        """Whether ``indices`` has the rows one after the other, without room between them."""
        return self._room is None

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (self._starts, self.counts, self._room, self.indices) if part is not None)

    def extend(self, rows: int) -> None:
        """Add empty rows up to a number of rows."""
        for part in (self._starts, self.counts, self._room):
            if part is not None:
                part.extend(rows - len(part.values))

    def gather(self, rows: Numbers, limit: int | Numbers | None = None) -> Pairs:
        """Return rows, or their first entries: their lengths, and the indices one row after the other."""
        counts: Numbers = self.counts.values[rows].astype(np.int64)
        if limit is not None:
            counts = np.minimum(counts, limit)
        return counts, self.indices.values[ranges(self._starts.values[rows], counts)].astype(np.int64)

    def append(self, owners: Numbers, indices: Array) -> None:
        """Append ``indices[i]`` to row ``owners[i]``."""
        if len(owners) == 0:
            return
        if len(self.indices.values) == 0:
            vars(self).update(vars(Rows.of(owners, indices, len(self.counts.values))))
            return
        if self._room is None:
            self._room = Growing(self.counts.values.copy())
        order = np.argsort(owners, kind="stable")
        rows, added = np.unique(owners, return_counts=True)
        before = self.counts.values[rows].astype(np.int64)
        if len(moved := np.flatnonzero(before + added > self._room.values[rows])):
            room = (before + added)[moved] * 3 // 2 + 2
            starts = len(self.indices.values) + room.cumsum() - room
            counts, content = self.gather(rows[moved])
            self.indices.extend(int(room.sum()))
            self.indices.values[ranges(starts, counts)] = content
            self._starts.values[rows[moved]] = starts
            self._room.values[rows[moved]] = room
        self.indices.values[ranges(self._starts.values[rows] + before, added)] = indices[order]
        self.counts.values[rows] = before + added


class remembered(Generic[S, T]):  # noqa: N801 - used like a property
    """A property that is computed when it is first read, and kept in the object under its name.

    ``functools.cached_property`` has a lock before Python 3.12: a child of a process that forks while another thread
    computes would wait for it for ever. Here concurrent first readers may each compute the value.
    """

    def __init__(self, function: Callable[[S], T]) -> None:
        self._function = function
        update_wrapper(self, function)  # type: ignore[arg-type]

    def __get__(self, owner: S, _: type) -> T:
        value = vars(owner)[self._function.__name__] = self._function(owner)
        return value


def in_memory(array: Array) -> int:
    """Return the bytes of an array; none for one that is mapped from a file."""
    owner: Any = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return array.nbytes if owner.base is None else 0


def spans(column: Array, keys: Array) -> Pairs:
    """Return the positions of each key in a sorted column, and how often each key occurs."""
    keys = keys.astype(column.dtype)
    starts = np.searchsorted(column, keys, "left")
    counts = np.searchsorted(column, keys, "right") - starts
    return ranges(starts, counts), counts


def rows_of(keys: Numbers, wanted: Numbers) -> Numbers:
    """Return the rows of some keys in a table. Its keys are in ascending order, and all wanted ones are among them."""
    rows = keys.searchsorted(wanted)
    if len(wanted) and (len(keys) == 0 or (keys.take(rows, mode="clip") != wanted).any()):
        raise damaged("a row is missing")
    return rows


def kept_rows(counts: Numbers, kept: Flags) -> Numbers:
    """Return the lengths of rows of which only some entries are kept."""
    return np.bincount(np.arange(len(counts)).repeat(counts)[kept], minlength=len(counts))


def once(owners: Numbers, values: Numbers) -> Flags:
    """Return which pairs of an owner and a value are the first of their kind.

    >>> once(np.array([0, 0, 1, 0]), np.array([5, 6, 5, 5])).tolist()
    [True, True, True, False]
    """
    width = int(values.max(initial=0)) + 1
    first = np.zeros(len(owners), np.bool_)
    first[np.unique(owners * width + values, return_index=True)[1]] = True
    return first
