"""The data structures of the graph in memory: growing arrays, and sparse rows to which indices are appended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from graphrag_core.engine.rows import damaged

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Pairs = tuple[Numbers, Numbers]

S = TypeVar("S")
T = TypeVar("T")

_NO_INDICES = np.empty(0, np.int32)


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
        start, size, buffer = self._size, self._size + count, self._buffer
        if size > len(buffer):
            buffer = np.empty((size + (size >> 2) + 16, *buffer.shape[1:]), buffer.dtype)
            buffer[:start] = self._buffer[:start]
        buffer[start:size] = fill
        self._buffer = buffer  # before the size: other threads read meanwhile
        self._size = size

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
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
        self._counts = Growing(_NO_INDICES) if counts is None else counts
        self._indices = Growing(_NO_INDICES) if indices is None else indices
        lengths = self._counts.values.astype(np.int64)
        self._starts = Growing(lengths.cumsum() - lengths)
        self._room: Growing | None = None  # of each row; None while each has that of its entries

    @classmethod
    def of(cls, owners: Array, indices: Array, rows: int) -> Rows:
        """Return the rows of pairs of a row and an index. Those of a row keep their order."""
        counts = np.bincount(owners, minlength=rows).astype(np.int32)
        if len(owners) and (np.diff(owners) < 0).any():
            indices = indices[_order(owners, rows)]
        return cls(Growing(counts), Growing(indices.astype(np.int32)))

    @property
    def counts(self) -> Array:
        """The length of each row."""
        return self._counts.values

    @property
    def is_packed(self) -> bool:
        """Whether the rows follow each other without room between them."""
        return self._room is None

    @property
    def indices(self) -> Array:
        """The rows one after the other, if they are packed."""
        return self._indices.values

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        return sum(part.nbytes for part in (self._starts, self._counts, self._room, self._indices) if part is not None)

    def extend(self, rows: int) -> None:
        """Add empty rows, so that there are so many in all."""
        for part in (self._starts, self._counts, self._room):
            if part is not None:
                part.extend(rows - len(part))

    def gather(self, rows: Numbers, limit: int | Numbers | None = None) -> Pairs:
        """Return rows, or their first entries: their lengths, and the indices one row after the other."""
        counts: Numbers = self._counts.values[rows].astype(np.int64)
        if limit is not None:
            counts = np.minimum(counts, limit)
        return counts, self._indices.values[ranges(self._starts.values[rows], counts)].astype(np.int64)

    def append(self, owners: Numbers, indices: Array) -> None:
        """Add pairs of a row and an index at the ends of the rows."""
        if len(owners) == 0:
            return
        if len(self._indices) == 0:
            vars(self).update(vars(Rows.of(owners, indices, len(self._counts))))
            return
        if self._room is None:
            self._room = Growing(self._counts.values.copy())
        order = np.argsort(owners, kind="stable")
        rows, added = np.unique(owners, return_counts=True)
        before = self._counts.values[rows].astype(np.int64)
        if len(moved := np.flatnonzero(before + added > self._room.values[rows])):
            room = (before + added)[moved] * 3 // 2 + 2
            starts = len(self._indices) + room.cumsum() - room
            counts, content = self.gather(rows[moved])
            self._indices.extend(int(room.sum()))
            self._indices.values[ranges(starts, counts)] = content
            self._starts.values[rows[moved]] = starts
            self._room.values[rows[moved]] = room
        self._indices.values[ranges(self._starts.values[rows] + before, added)] = indices[order]
        self._counts.values[rows] = before + added


def remembered(function: Callable[[S], T]) -> Callable[[S], T]:
    """Compute a property when it is first read, and keep it in the object under its name.

    ``functools.cached_property`` has a lock before Python 3.12: a child of a process that forks while another thread
    computes would wait for it for ever. Without it threads that come together compute it once each.
    """
    name = function.__name__

    @wraps(function)
    def read(owner: S) -> T:
        own = vars(owner)
        if name not in own:
            own[name] = function(owner)
        found: T = own[name]
        return found

    return read


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


def spans(column: Array, keys: Array) -> Pairs:
    """Return the places of the rows that have each key, and how many each has, in a sorted column."""
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
