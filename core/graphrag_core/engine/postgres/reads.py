"""What all reads of a snapshot share: its transaction, its scope, and the numbers of the nodes it has seen."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.postgres.database import Connection, Cursor, Database, DriverError, Row
from graphrag_core.engine.rows import Accesses
from graphrag_core.errors import DatabaseError
from graphrag_core.ports import Keys

MOST_NUMBERED = 1 << 22
"""Chunks that one snapshot can number. A query that reaches more is refused."""

_NONE: Keys = np.empty(0, np.int64)


@dataclass(frozen=True)
class Scope:
    """The chunks that a snapshot sees.

    Attributes
    ----------
    inside
        The keys of the chunks that the caller's filter selects, in ascending order; None for all.
    hidden
        The keys of chunks that no query may see, in ascending order.
    """

    inside: Keys | None
    hidden: Keys

    @property
    def is_everything(self) -> bool:
        """Whether the snapshot sees all chunks."""
        return self.inside is None and len(self.hidden) == 0

    @property
    def chunks(self) -> Keys | None:
        """The keys of the chunks that the snapshot sees; None for all but the hidden ones."""
        if self.inside is None or len(self.hidden) == 0:
            return self.inside
        return np.setdiff1d(self.inside, self.hidden, assume_unique=True)

    def sees(self, chunks: Keys) -> npt.NDArray[np.bool_]:
        """Return which chunks the snapshot sees."""
        seen = np.ones(len(chunks), np.bool_) if self.inside is None else is_in(chunks, self.inside)
        return seen & ~is_in(chunks, self.hidden) if len(self.hidden) else seen


EVERYTHING = Scope(None, _NONE)


def is_in(keys: Keys, ordered: Keys) -> npt.NDArray[np.bool_]:
    """Return which keys are among some in ascending order."""
    if len(ordered) == 0:
        return np.zeros(len(keys), np.bool_)
    found: npt.NDArray[np.bool_] = ordered[np.minimum(np.searchsorted(ordered, keys), len(ordered) - 1)] == keys
    return found


class Numbering:
    """Gives the nodes of a snapshot small numbers, in the order in which it sees them.

    Chunks are numbered from 0, entities from ``first_entity``. Facts keep their keys.
    """

    def __init__(self, chunk_count: int) -> None:
        self.first_entity = min(chunk_count, MOST_NUMBERED)
        self._chunks, self._entities = _Numbers(), _Numbers()
        self._lock = threading.Lock()

    @property
    def node_limit(self) -> int:
        """All numbers given so far are below this one."""
        return self.first_entity + self._entities.count

    def of_chunks(self, keys: Keys) -> Keys:
        """Return the numbers of chunks, given by key."""
        with self._lock:
            numbers = self._chunks.numbers(keys)
        if self._chunks.count > self.first_entity:
            raise DatabaseError(
                f"the query reached more than {self.first_entity:,} passages: ask for less, or narrow it with a filter"
            )
        return numbers

    def seen_chunks(self, most: int) -> Keys:
        """Return the keys of so many chunks at most that were numbered last."""
        count = self._chunks.count
        return self._chunks.keys(np.arange(max(count - most, 0), count))

    def chunks(self, numbers: Keys) -> Keys:
        """Return the keys of chunks, given by number."""
        return self._chunks.keys(numbers)

    def of_entities(self, spellings: Keys) -> Keys:
        """Return the numbers of entities, given by the spelling that represents each."""
        with self._lock:
            return self.first_entity + self._entities.numbers(spellings)

    def entities(self, numbers: Keys) -> Keys:
        """Return the spellings that represent entities, given by number."""
        return self._entities.keys(np.asarray(numbers, np.int64) - self.first_entity)


class _Numbers:
    """Numbers from 0 for keys, in the order in which they come."""

    def __init__(self) -> None:
        self.count = 0
        self._by_number = np.empty(64, np.int64)
        self._ordered, self._numbers = np.empty(0, np.int64), np.empty(0, np.int64)

    def numbers(self, keys: Keys) -> Keys:
        keys = np.asarray(keys, np.int64)
        if len(keys) == 0:
            return keys
        new = keys[~is_in(keys, self._ordered)]
        if len(new):
            new = new[np.sort(np.unique(new, return_index=True)[1])]
            while self.count + len(new) > len(self._by_number):
                self._by_number = np.concatenate([self._by_number, np.empty_like(self._by_number)])
            self._by_number[self.count : self.count + len(new)] = new
            self.count += len(new)
            everything = self._by_number[: self.count]
            self._numbers = np.argsort(everything, kind="stable")
            self._ordered = everything[self._numbers]
        return self._numbers[np.searchsorted(self._ordered, keys)]

    def keys(self, numbers: Keys) -> Keys:
        return self._by_number[numbers]


@dataclass
class Transaction:
    """A transaction that sees one generation of an index, restricted to a scope."""

    database: Database
    connection: Connection
    index: int
    generation: int
    chunk_count: int
    fact_count: int
    lengths: Sequence[int]
    dead: Keys
    scope: Scope
    accesses: Accesses
    vectors: Mapping[str, bool]
    numbering: Numbering = field(init=False)

    def __post_init__(self) -> None:
        self.statistics_count = self.chunk_count
        if self.scope.inside is not None:
            self.chunk_count = len(self.scope.inside)
        if len(self.scope.hidden):
            hidden = self.scope.hidden
            gone = len(hidden) if self.scope.inside is None else int(is_in(hidden, self.scope.inside).sum())
            self.chunk_count -= gone
        self.numbering = Numbering(self.chunk_count)

    def rows(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[Row]:
        """Return the rows of a statement. Safe to call from many threads."""
        with self.cursor() as cursor:
            return cursor.execute(sql, parameters).fetchall()

    def columns(self, sql: str, *types: npt.DTypeLike, **parameters: Any) -> tuple[Any, ...]:
        """Return the columns of a statement's rows as arrays. ``%(index)s`` is the index."""
        return columns(self.rows, sql, {"index": self.index, **parameters}, *types)

    @contextmanager
    def cursor(self) -> Iterator[Cursor]:
        """Yield a cursor of the transaction. Errors of the driver are raised as those of this library."""
        try:
            with self.connection.cursor(binary=True) as cursor:
                yield cursor
        except DriverError as error:
            raise self.database.translated(error) from error

    def rows_with(self, settings: Mapping[str, str], sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        """Return the rows of a statement that is planned with some settings of the server."""
        set_all = "SELECT set_config(n, v, true) FROM unnest(%s::text[], %s::text[]) AS t(n, v)"
        before = "SELECT n, current_setting(n, true) FROM unnest(%s::text[]) AS n"
        try:
            with self.connection.pipeline(), self.connection.cursor(binary=True) as cursor:
                found = cursor.execute(before, (list(settings),)).fetchall()
                cursor.execute(set_all, (list(settings), list(settings.values())))
                rows: list[Row] = cursor.execute(sql, parameters).fetchall()
                cursor.execute(set_all, ([row[0] for row in found], [row[1] for row in found]))
        except DriverError as error:
            raise self.database.translated(error) from error
        return rows


def columns(
    rows: Callable[..., Sequence[Sequence[Any]]], sql: str, parameters: Any, *types: npt.DTypeLike
) -> tuple[Any, ...]:
    """Return the columns of a query's rows, none of which is null, as arrays: numbers and truth values.

    They come as one row of arrays in binary form, so that Python does not see the single values.

    Parameters
    ----------
    rows
        Executes a statement with parameters and returns the rows.
    """
    names = [f"c{at}" for at in range(len(types))]
    chosen = ", ".join(
        f"array_send(array_agg({name}::{_sent(kind)[0]}))" for name, kind in zip(names, types, strict=True)
    )
    (row,) = rows(f"SELECT {chosen} FROM ({sql}) AS t({', '.join(names)})", parameters)
    return tuple(_received(data, np.dtype(kind)) for data, kind in zip(row, types, strict=True))


_SENT = {"i": ("bigint", ">i8"), "f": ("double precision", ">f8"), "b": ("boolean", "?")}


def _sent(kind: npt.DTypeLike) -> tuple[str, str]:
    """Return the type in which the server sends the values of a column, and that in which they are received."""
    return ("smallint", ">i2") if kind == np.int16 else _SENT[np.dtype(kind).kind]


def _received(data: bytes | None, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the values of an array that ``array_send`` wrote: 20 bytes, then the size and the value of each."""
    if data is None:
        return np.empty(0, kind)
    layout = np.dtype([("size", ">i4"), ("value", _sent(kind)[1])])
    return np.frombuffer(data, layout, offset=20)["value"].astype(kind)
