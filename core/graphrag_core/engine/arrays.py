"""The arrays of an index: columns that grow, sparse tables, counters, and the base file that is mapped into memory.

All values here are immutable for their readers. A column is a mapped base and a tail in memory. The tail is appended to
in place, behind the length that a column remembers: an append that was interrupted leaves nothing. Tables whose rows
get entries later (:class:`Inverse`) are a base and a few immutable parts, which are merged while one is less than twice
as long as the next. What is read does not depend on how the rows lie in base, tail and parts.
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.ma  # which np.unique imports when it is first called: a child of a fork would wait for that thread
import numpy.typing as npt

from graphrag_core.key_sets import distinct, ranges

Array = npt.NDArray[Any]
Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Arrays = Mapping[str, Array]
Remap = Callable[[Array], Array]

_LEAST_ROOM = 64
_RATIO = 2  # a part is at least this many times as long as the next
_MAGIC = b"HGRbase2"
_FOOTER = struct.Struct("<QI8s")  # length and checksum of the table of contents, and what the file is
_ALIGNED = 64  # bytes
_ROWS = 20_000  # rows that are written at once
_HEAD = struct.Struct("<I")


def offsets(counts: Array) -> Numbers:
    """Return where rows of some lengths start, and where the last one ends."""
    return np.concatenate([np.zeros(1, np.int64), counts.cumsum(dtype=np.int64)])


def _batches(rows: Array) -> Iterator[Array]:
    return (rows[start : start + _ROWS] for start in range(0, len(rows), _ROWS))


class Column:
    """A column: the values of the base, then those of the tail. ``nbytes`` is what the tail holds in memory."""

    __slots__ = ("_buffer", "base", "tail")

    def __init__(self, base: Array, buffer: Array | None = None, size: int = 0) -> None:
        self.base = base
        self._buffer = np.empty((0, *base.shape[1:]), base.dtype) if buffer is None else buffer
        self.tail = self._buffer[:size]

    def __len__(self) -> int:
        return len(self.base) + len(self.tail)

    @property
    def nbytes(self) -> int:
        return int(self._buffer.nbytes)

    def appended(self, values: Array) -> Column:
        """Return the column with more values. Only the newest column of a buffer may be appended to."""
        size = len(self.tail) + len(values)
        buffer = self._buffer
        if size > len(buffer):
            room = max(size + size // 2, _LEAST_ROOM)
            buffer = np.empty((room, *buffer.shape[1:]), buffer.dtype)
            buffer[: len(self.tail)] = self.tail
        buffer[len(self.tail) : size] = values
        return Column(self.base, buffer, size)

    def take(self, at: Array) -> Array:
        """Return the values at some positions."""
        first = len(self.base)
        if len(self.tail) == 0:
            return self.base.take(at, axis=0)
        new = np.flatnonzero(at >= first)
        if len(new) == len(at):
            return self.tail.take(at - first, axis=0)
        found = self.base.take(at, axis=0, mode="clip")
        found[new] = self.tail.take(at[new] - first, axis=0)
        return found

    def all(self) -> Array:
        """Return all values; a copy if there is a tail."""
        return np.concatenate([self.base, self.tail]) if len(self.tail) else self.base

    def find(self, keys: Array) -> Numbers:
        """Return the positions of keys in an ascending column; -1 for those that it lacks."""
        place = self.base.searchsorted(keys)
        if len(self.tail):
            is_new = keys >= self.tail[0]
            place[is_new] = len(self.base) + self.tail.searchsorted(keys[is_new])
        found = np.flatnonzero(place < len(self))
        there = np.zeros(len(keys), np.bool_)
        there[found] = self.take(place[found]) == keys[found]
        return np.where(there, place, -1)

    def write(self, base: BaseWriter, name: str, rows: Numbers, remap: Remap | None = None) -> None:
        """Write the values at some positions, which a function may map to others."""
        base.put(name, self.base, (_mapped(self.take(own), remap) for own in _batches(rows)))


def _mapped(values: Array, remap: Remap | None) -> Array:
    return values if remap is None else remap(values)


class Forward:
    """Sparse rows in the order of their owners: where each row starts, and one or more columns of values."""

    __slots__ = ("starts", "values")

    def __init__(self, starts: Column, *values: Column) -> None:
        self.starts, self.values = starts, values

    @classmethod
    def opened(cls, arrays: Arrays, name: str, types: Sequence[npt.DTypeLike]) -> Forward:
        """Read the table that :meth:`write` wrote; return an empty one if it is missing."""
        columns = (Column(arrays.get(f"{name}.{at}", np.empty(0, dtype))) for at, dtype in enumerate(types))
        return cls(Column(arrays.get(f"{name}.starts", np.zeros(1, np.int64))), *columns)

    @property
    def nbytes(self) -> int:
        return self.starts.nbytes + sum(column.nbytes for column in self.values)

    def appended(self, counts: Array, *values: Array) -> Forward:
        """Return the table with more rows, given their lengths and their values one row after the other."""
        size = (self.starts.tail if len(self.starts.tail) else self.starts.base)[-1]
        columns = (column.appended(own) for column, own in zip(self.values, values, strict=True))
        return Forward(self.starts.appended(size + counts.cumsum(dtype=np.int64)), *columns)

    def locate(self, rows: Array) -> tuple[Numbers, Numbers]:
        """Return where rows start in the values, and how long they are."""
        starts = self.starts.take(rows)
        return starts, self.starts.take(rows + 1) - starts

    def gather(self, rows: Array, which: int = 0) -> tuple[Numbers, Array]:
        """Return the lengths of rows, and their values one row after the other."""
        starts = self.starts.take(rows)
        counts = self.starts.take(rows + 1) - starts
        return counts, self.values[which].take(ranges(starts, counts))

    def write(self, base: BaseWriter, name: str, rows: Numbers, remap: Remap | None = None) -> None:
        """Write some rows. A function maps the values of the first column."""
        base.put(f"{name}.starts", offsets(self.locate(rows)[1]))
        for number, column in enumerate(self.values):
            own = remap if number == 0 else None
            pieces = (_mapped(self.gather(part, number)[1], own) for part in _batches(rows))
            base.put(f"{name}.{number}", column.base, pieces)


class Part(NamedTuple):
    """Some rows of an inverse table, never changed: ascending keys, where each row starts, and the values.

    Without ``keys`` there is a row for each number from 0 on.
    """

    keys: Array | None
    starts: Numbers
    values: tuple[Array, ...]

    @classmethod
    def of(cls, owners: Array, *values: Array) -> Part:
        """Return the part of pairs of a row and its values. The values of a row keep their order."""
        order = np.argsort(owners, kind="stable")
        ascending = owners[order]
        first = np.flatnonzero(np.concatenate([ascending[:1] == ascending[:1], ascending[1:] != ascending[:-1]]))
        return cls(ascending[first], np.append(first, len(owners)), tuple(own[order] for own in values))

    @property
    def size(self) -> int:
        return len(self.values[0])

    def locate(self, rows: Array) -> tuple[Numbers, Numbers]:
        """Return where rows start in the values, and how long they are: 0 for rows that are not there."""
        last = len(self.starts) - 2
        if last < 0 or len(rows) == 0:
            return np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        at = np.minimum(rows if self.keys is None else self.keys.searchsorted(rows), last)
        starts = self.starts.take(at)
        known = rows <= last if self.keys is None else self.keys[at] == rows
        return starts, (self.starts.take(at + 1) - starts) * known

    def row_keys(self) -> Array:
        """Return the keys of all rows."""
        return np.arange(len(self.starts) - 1) if self.keys is None else self.keys


class Inverse:
    """Rows that get entries later: a base, and parts of falling size."""

    __slots__ = ("parts",)

    def __init__(self, *parts: Part) -> None:
        self.parts = parts

    @classmethod
    def opened(cls, arrays: Arrays, name: str, keys: npt.DTypeLike | None, types: Sequence[npt.DTypeLike]) -> Inverse:
        """Read the table that :meth:`write` wrote; return an empty one if it is missing."""
        values = tuple(arrays.get(f"{name}.{at}", np.empty(0, dtype)) for at, dtype in enumerate(types))
        own = None if keys is None else arrays.get(f"{name}.keys", np.empty(0, keys))
        return cls(Part(own, arrays.get(f"{name}.starts", np.zeros(1, np.int64)), values))

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for part in self.parts[1:] for array in (part.starts, *part.values))

    def appended(self, part: Part) -> Inverse:
        """Return the table with the entries of one more part."""
        if part.size == 0:
            return self
        tail = [*self.parts[1:], part]
        first = _first_to_merge([own.size for own in tail])
        if first < len(tail) - 1:
            merged = Inverse(*tail[first:])
            keys = distinct(*(own.row_keys() for own in merged.parts))
            columns = [merged.gather(keys, which) for which in range(len(part.values))]
            tail[first:] = [Part(keys, offsets(columns[0][0]), tuple(values for _, values in columns))]
        return Inverse(self.parts[0], *tail)

    def gather(self, rows: Array, which: int = 0) -> tuple[Numbers, Array]:
        """Return the lengths of rows, and their values one row after the other."""
        found = []
        for part in self.parts:
            starts, counts = part.locate(rows)
            if counts.any():
                found.append((part.values[which], starts, counts))
        if not found:
            return np.zeros(len(rows), np.int64), self.parts[0].values[which][:0]
        if len(found) == 1:
            ((values, starts, counts),) = found
            return counts, values.take(ranges(starts, counts))
        total = np.sum([counts for _, _, counts in found], axis=0)
        at, merged = total.cumsum() - total, np.empty(int(total.sum()), found[0][0].dtype)
        for values, starts, counts in found:
            merged[ranges(at, counts)] = values.take(ranges(starts, counts))
            at += counts
        return total, merged

    def write(self, base: BaseWriter, name: str, keep: Remap, remap: Remap, rows: Numbers | None = None) -> None:
        """Write the entries of which ``keep`` returns true, mapped to other numbers; their other values stay.

        With ``rows`` these rows are written, in this order. Else rows are keys, and those that have no entry go.
        """
        keys = distinct(*(part.row_keys() for part in self.parts)) if rows is None else rows
        lengths = list[Numbers]()

        def pieces(number: int) -> Iterator[Array]:
            for own in _batches(keys):
                counts, values = self.gather(own)
                kept = keep(values)
                if number == 0:
                    lengths.append(np.bincount(np.arange(len(own)).repeat(counts)[kept], minlength=len(own)))
                    yield remap(values[kept])
                else:
                    yield self.gather(own, number)[1][kept]

        for number, like in enumerate(self.parts[0].values):
            base.put(f"{name}.{number}", like, pieces(number))
        every = np.concatenate([np.empty(0, np.int64), *lengths])
        if rows is None:
            base.put(f"{name}.keys", keys[every > 0])
            every = every[every > 0]
        base.put(f"{name}.starts", offsets(every))


def _first_to_merge(sizes: Sequence[int]) -> int:
    """Return the index of the first part to merge: each merged part is less than twice as long as all after it."""
    first, size = len(sizes) - 1, sizes[-1]
    while first and sizes[first - 1] < _RATIO * size:
        first -= 1
        size += sizes[first]
    return first


class Counters:
    """Sums by number: those of the base, and changes in parts."""

    __slots__ = ("parts", "sums")

    def __init__(self, sums: Array, parts: tuple[tuple[Array, Array], ...] = ()) -> None:
        self.sums, self.parts = sums, parts

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for part in self.parts for array in part)

    def added(self, numbers: Array, changes: Array) -> Counters:
        """Return the sums after some changes. Numbers may repeat."""
        if len(numbers) == 0:
            return self
        tail = [*self.parts, (numbers, changes)]
        first = _first_to_merge([len(own) for own, _ in tail])
        own, place = np.unique(np.concatenate([part[0] for part in tail[first:]]), return_inverse=True)
        total = np.zeros((len(own), *changes.shape[1:]), self.sums.dtype)
        np.add.at(total, place, np.concatenate([part[1] for part in tail[first:]]))
        return Counters(self.sums, (*tail[:first], (own, total)))

    def take(self, numbers: Array, column: int | None = None) -> Array:
        """Return the sums of some numbers, all or those of one column."""
        part = slice(None) if column is None else column
        sums = self.sums[..., part]
        if not self.parts and numbers.max(initial=-1) < len(sums):
            return np.asarray(sums.take(numbers, axis=0))
        found = np.zeros((len(numbers), *sums.shape[1:]), sums.dtype)
        old = numbers < len(sums)
        found[old] = sums.take(numbers[old], axis=0)
        for own, changes in self.parts:
            at = np.minimum(own.searchsorted(numbers), len(own) - 1)
            has = own[at] == numbers
            found[has] += changes[at[has]][..., part]
        return found


# -- packed arrays, and the base file


def pack(arrays: Arrays) -> bytes:
    """Return arrays as bytes."""
    head = json.dumps([(name, array.dtype.str, array.shape) for name, array in arrays.items()]).encode()
    return b"".join([_HEAD.pack(len(head)), head, *(np.ascontiguousarray(array).data for array in arrays.values())])


def unpack(data: bytes) -> dict[str, Array]:
    """Return the arrays that :func:`pack` packed: not copies."""
    (length,) = _HEAD.unpack_from(data)
    found, at = {}, _HEAD.size + length
    for name, dtype, shape in json.loads(data[_HEAD.size : at]):
        found[name] = np.frombuffer(data, dtype, int(np.prod(shape)), at).reshape(shape)
        at += found[name].nbytes
    return found


class BaseWriter:
    """Writes arrays to a file, one after the other, each with a checksum. :func:`map_base` reads them."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._at = file, 0
        self._contents: dict[str, tuple[str, list[int], int, int, int]] = {}

    @property
    def checksums(self) -> dict[str, int]:
        """The checksum of each array."""
        return {name: checksum for name, (*_, checksum) in self._contents.items()}

    def put(self, name: str, like: Array, pieces: Iterable[Array] | None = None) -> None:
        """Write an array, or pieces of one that has the type and the width of another."""
        padding = -self._at % _ALIGNED
        self._file.write(bytes(padding))
        self._at += padding
        start, checksum = self._at, 0
        for piece in [like] if pieces is None else pieces:
            if piece.size:
                data = np.ascontiguousarray(piece, like.dtype).reshape(-1).view(np.uint8)
                checksum = zlib.crc32(data.data, checksum)
                self._file.write(data.data)
                self._at += len(data)
        self._contents[name] = like.dtype.str, [*like.shape[1:]], start, self._at - start, checksum

    def finish(self, **meta: Any) -> None:
        """Write the table of contents."""
        head = json.dumps([meta, self._contents]).encode()
        self._file.write(head + _FOOTER.pack(len(head), zlib.crc32(head), _MAGIC))
        self._file.flush()


def map_base(source: Path | bytes, *, check: bool = True) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return what was given to :meth:`BaseWriter.finish`, and the arrays of a base: mapped, with checksums compared.

    Without ``check`` only the table of contents is compared with its checksum. Raises ``ValueError`` if the base is
    damaged, ``OSError`` if it cannot be read.
    """
    if isinstance(source, bytes):
        data: Any = source
    else:
        with source.open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if len(data) < _FOOTER.size:
        raise ValueError("it is too short")
    length, checksum, magic = _FOOTER.unpack(data[-_FOOTER.size :])
    head = data[max(len(data) - _FOOTER.size - length, 0) : len(data) - _FOOTER.size]
    if magic != _MAGIC or zlib.crc32(head) != checksum:
        raise ValueError("its table of contents is damaged")
    meta, contents = json.loads(head)
    raw, found = np.frombuffer(data, np.uint8), {}
    for name, (dtype, shape, start, size, expected) in contents.items():
        part = raw[start : start + size]
        if check and zlib.crc32(part.data) != expected:
            raise ValueError(f"the checksum of {name!r} differs")
        found[name] = part.view(dtype).reshape(-1, *shape)
    return meta, found
