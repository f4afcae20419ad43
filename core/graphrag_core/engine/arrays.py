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
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.ma  # which np.unique imports when it is first called: a child of a fork would wait for that thread
import numpy.typing as npt

from graphrag_core.key_sets import among, distinct, ranges

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
_PIECE = 1_000_000  # values that are written at once
_HEAD = struct.Struct("<I")


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
        if first == 0:
            return self.tail.take(at, axis=0)
        new = np.flatnonzero(at >= first)
        if len(new) == len(at):
            return self.tail.take(at - first, axis=0)
        found = self.base.take(at, axis=0, mode="clip")
        if len(new):
            found[new] = self.tail.take(at[new] - first, axis=0)
        return found

    def all(self) -> Array:
        """Return all values; a copy if there is a tail."""
        if len(self.tail) == 0:
            return self.base
        return np.concatenate([self.base, self.tail]) if len(self.base) else self.tail

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

    def pieces(self, kept: Flags | None = None) -> Iterator[Array]:
        """Yield the values one piece after the other, or those that are kept."""
        at = 0
        for part in (self.base, self.tail):
            for start in range(0, len(part), _PIECE):
                piece = part[start : start + _PIECE]
                yield piece if kept is None else piece[kept[at : at + len(piece)]]
                at += len(piece)


class Forward:
    """Sparse rows in the order of their owners: where each row starts, and one or more columns of values."""

    __slots__ = ("starts", "values")

    def __init__(self, starts: Column, *values: Column) -> None:
        self.starts, self.values = starts, values

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def nbytes(self) -> int:
        return self.starts.nbytes + sum(column.nbytes for column in self.values)

    @property
    def size(self) -> int:
        """The number of values of all rows."""
        return int(self.starts.tail[-1] if len(self.starts.tail) else self.starts.base[-1])

    def appended(self, counts: Array, *values: Array) -> Forward:
        """Return the table with more rows, given their lengths and their values one row after the other."""
        ends = self.size + counts.cumsum(dtype=np.int64)
        columns = (column.appended(own) for column, own in zip(self.values, values, strict=True))
        return Forward(self.starts.appended(ends), *columns)

    def locate(self, rows: Array) -> tuple[Numbers, Numbers]:
        """Return where rows start in the values, and how long they are."""
        starts = self.starts.take(rows)
        return starts, self.starts.take(rows + 1) - starts

    def gather(self, rows: Array, which: int = 0) -> tuple[Numbers, Array]:
        """Return the lengths of rows, and their values one row after the other."""
        starts, counts = self.locate(rows)
        return counts, self.values[which].take(ranges(starts, counts))

    def write(self, base: BaseWriter, name: str, kept: Flags | None, remap: Remap | None = None) -> None:
        """Write the rows that are kept. A function maps the values of the first column."""
        starts = self.starts.all()
        counts = np.diff(starts)
        base.put(f"{name}.starts", np.concatenate([[0], np.cumsum(counts if kept is None else counts[kept])]))
        for number, column in enumerate(self.values):
            with base.array(f"{name}.{number}", column.base) as write:
                for first, last in _row_pieces(starts):
                    values = column.take(np.arange(starts[first], starts[last]))
                    if kept is not None:
                        values = values[kept[first:last].repeat(counts[first:last])]
                    write(values if remap is None or number else remap(values))

    @classmethod
    def opened(cls, arrays: Arrays, name: str, columns: int) -> Forward:
        """Return the table that :meth:`write` wrote."""
        return cls(Column(arrays[f"{name}.starts"]), *(Column(arrays[f"{name}.{n}"]) for n in range(columns)))

    @classmethod
    def empty(cls, *types: npt.DTypeLike) -> Forward:
        """Return a table without rows."""
        return cls(Column(np.zeros(1, np.int64)), *(Column(np.empty(0, dtype)) for dtype in types))


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

    @classmethod
    def none(cls, keys: npt.DTypeLike | None, *types: npt.DTypeLike) -> Part:
        """Return a part without rows."""
        return cls(
            None if keys is None else np.empty(0, keys), np.zeros(1, np.int64), tuple(np.empty(0, t) for t in types)
        )

    @property
    def size(self) -> int:
        return len(self.values[0])

    def locate(self, rows: Array) -> tuple[Numbers, Numbers]:
        """Return where rows start in the values, and how long they are: 0 for rows that are not there."""
        last = len(self.starts) - 2
        if last < 0 or len(rows) == 0:
            return np.zeros(len(rows), np.int64), np.zeros(len(rows), np.int64)
        if self.keys is None:
            at, known = np.minimum(rows, last), rows <= last
        else:
            at = np.minimum(self.keys.searchsorted(rows), last)
            known = self.keys[at] == rows
        starts = self.starts.take(at)
        return starts, (self.starts.take(at + 1) - starts) * known

    def row_keys(self) -> Array:
        """Return the keys of all rows."""
        return np.arange(len(self.starts) - 1) if self.keys is None else self.keys


def merged(parts: Sequence[Part]) -> Part:
    """Return one part of several; the values of later parts follow those of earlier ones."""
    keys = np.unique(np.concatenate([part.row_keys() for part in parts]))
    counts = [part.locate(keys)[1] for part in parts]
    starts = np.concatenate([[0], np.sum(counts, axis=0).cumsum()])
    values = tuple(np.empty(int(starts[-1]), own.dtype) for own in parts[0].values)
    at = starts[:-1].copy()
    for part, count in zip(parts, counts, strict=True):
        to = ranges(at, count)
        for column, own in zip(values, part.values, strict=True):
            column[to] = own
        at += count
    return Part(keys, starts, values)


class Inverse:
    """Rows that get entries later: a base, and parts of falling size."""

    __slots__ = ("parts",)

    def __init__(self, *parts: Part) -> None:
        self.parts = parts

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for part in self.parts[1:] for array in (part.starts, *part.values))

    def appended(self, part: Part) -> Inverse:
        """Return the table with the entries of one more part."""
        if part.size == 0:
            return self
        tail = [*self.parts[1:], part]
        first, size = len(tail) - 1, part.size
        while first and tail[first - 1].size < _RATIO * size:
            first -= 1
            size += tail[first].size
        if first < len(tail) - 1:
            tail[first:] = [merged(tail[first:])]
        return Inverse(self.parts[0], *tail)

    def counts(self, rows: Array) -> Numbers:
        """Return the length of each row."""
        total = self.parts[0].locate(rows)[1]
        for part in self.parts[1:]:
            total = total + part.locate(rows)[1]
        return total

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
        at, merged_values = total.cumsum() - total, np.empty(int(total.sum()), found[0][0].dtype)
        for values, starts, counts in found:
            merged_values[ranges(at, counts)] = values.take(ranges(starts, counts))
            at += counts
        return total, merged_values

    def write(
        self, base: BaseWriter, name: str, keep: Remap | None, remap: Remap | None, rows: Numbers | None = None
    ) -> None:
        """Write the entries of which ``keep`` returns true, mapped to other numbers; their other values stay.

        With ``rows`` these rows are written, in this order. Else rows are keys, and those that have no entry go.
        """
        keys = self._keys(rows)
        sizes, lengths = self.counts(keys), list[Numbers]()
        pieces = [*_row_pieces(np.concatenate([[0], sizes.cumsum()]))]
        for number, own in enumerate(self.parts[0].values):
            with base.array(f"{name}.{number}", own) as write:
                for first, last in pieces:
                    counts, index = self.gather(keys[first:last])
                    values = index if number == 0 else self.gather(keys[first:last], which=number)[1]
                    if keep is not None:
                        is_kept = keep(index)
                        counts = np.bincount(np.arange(len(counts)).repeat(counts)[is_kept], minlength=len(counts))
                        values = values[is_kept]
                    write(values if remap is None or number else remap(values))
                    if number == 0:
                        lengths.append(counts)
        every = np.concatenate([np.empty(0, np.int64), *lengths])
        if rows is None:
            base.put(f"{name}.keys", keys[every > 0])
            every = every[every > 0]
        base.put(f"{name}.starts", np.concatenate([[0], every.cumsum()]))

    def _keys(self, rows: Numbers | None) -> Array:
        if rows is not None:
            return rows
        keys, others = self.parts[0].row_keys(), [part.row_keys() for part in self.parts[1:]]
        if not others:
            return keys
        new = distinct(*others)
        new = new[~among(new, keys)]
        return np.insert(keys, keys.searchsorted(new), new)

    @classmethod
    def opened(cls, arrays: Arrays, name: str, columns: int) -> Inverse:
        """Return the table that :meth:`write` wrote."""
        values = tuple(arrays[f"{name}.{number}"] for number in range(columns))
        return cls(Part(arrays.get(f"{name}.keys"), arrays[f"{name}.starts"], values))


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
        tail, first, size = [*self.parts, (numbers, changes)], len(self.parts), len(numbers)
        while first and len(tail[first - 1][0]) < _RATIO * size:
            first -= 1
            size += len(tail[first][0])
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

    def write(self, base: BaseWriter, name: str, rows: Numbers) -> None:
        """Write the sums of these numbers, in this order."""
        base.put(f"{name}.sums", self.take(rows))

    @classmethod
    def opened(cls, arrays: Arrays, name: str) -> Counters:
        """Return the sums that :meth:`write` wrote."""
        return cls(arrays[f"{name}.sums"])


def _row_pieces(starts: Numbers) -> Iterator[tuple[int, int]]:
    """Yield spans of rows that have a limited number of values together, or are a single row."""
    first, last = 0, len(starts) - 1
    while first < last:
        stop = max(first + 1, int(starts.searchsorted(starts[first] + _PIECE, "right")) - 1)
        stop = min(stop, last)
        yield first, stop
        first = stop


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
        count = int(np.prod(shape))
        found[name] = np.frombuffer(data, dtype, count, at).reshape(shape)
        at += found[name].nbytes
    return found


class BaseWriter:
    """Writes arrays to a file, one after the other, each with a checksum. :func:`map_base` reads them."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._at = file, 0
        self._contents: dict[str, tuple[str, list[int], int, int, int]] = {}

    def put(self, name: str, values: Array) -> None:
        """Write an array."""
        with self.array(name, values) as write:
            write(values)

    def array(self, name: str, like: Array) -> _ArrayWriter:
        """Return a context in which an array is written piece by piece, with type and width of another one."""
        padding = -self._at % _ALIGNED
        self._file.write(bytes(padding))
        self._at += padding
        return _ArrayWriter(self, name, like)

    def write(self, data: Array) -> None:
        """Write bytes."""
        self._file.write(data.data)
        self._at += len(data)

    def finish(self, **meta: Any) -> None:
        """Write the table of contents."""
        head = json.dumps([meta, self._contents]).encode()
        self._file.write(head + _FOOTER.pack(len(head), zlib.crc32(head), _MAGIC))
        self._file.flush()

    def _end(self, name: str, like: Array, start: int, checksum: int) -> None:
        self._contents[name] = (like.dtype.str, [*like.shape[1:]], start, self._at - start, checksum)


class _ArrayWriter:
    """Writes one array of a base."""

    def __init__(self, base: BaseWriter, name: str, like: Array) -> None:
        self._base, self._name, self._like = base, name, like
        self._start, self._checksum = base._at, 0  # noqa: SLF001 - of this module

    def __enter__(self) -> Callable[[Array], None]:
        return self._write

    def __exit__(self, *exception: object) -> None:
        if exception[0] is None:
            self._base._end(self._name, self._like, self._start, self._checksum)  # noqa: SLF001 - of this module

    def _write(self, values: Array) -> None:
        if values.size:
            data = np.ascontiguousarray(values, self._like.dtype).reshape(-1).view(np.uint8)
            self._checksum = zlib.crc32(data.data, self._checksum)
            self._base.write(data)


def map_base(source: Path | bytes, *, check: bool = True) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return what was given to :meth:`BaseWriter.finish`, and the arrays of a base: mapped, with checksums compared.

    Without ``check`` only the table of contents is compared with its checksum.

    Raises
    ------
    ValueError
        The file is damaged.
    OSError
        It cannot be read.
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
