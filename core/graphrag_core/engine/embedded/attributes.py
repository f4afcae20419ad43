"""Metadata in columns: which documents match a filter, answered in memory.

A column has the values of a key in ascending order, and the documents that have each. It is read from the records by
the first filter that has the key. Keys of documents and chunks count upwards and their rows never change, so that later
filters read new documents only. Documents that are gone stay in a column until it is read again: no chunk is theirs.
"""

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, groupby, repeat
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from graphrag_core.deadline import check_deadline
from graphrag_core.engine.embedded.records import Records
from graphrag_core.engine.graph.sparse import Flags, remembered
from graphrag_core.engine.rows import damaged
from graphrag_core.errors import FilterError
from graphrag_core.filters import DOCUMENT_ID, Condition, Filter, Not, Unknown
from graphrag_core.key_sets import ranges
from graphrag_core.ports import Keys

_FEW = 1_000  # documents that a column may lack, which are read again after each change
_SMALL = 32  # and the part of it
_MANY = 200  # values of a list that are looked up one by one


class AttributeColumns:
    """Answers filters from columns. Safe to use from many threads, while nothing is written."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._reading = threading.Lock()
        self._columns: dict[str, _Column] = {}

    def matches(self, scope: Filter) -> Flags:
        """Return which documents match a filter, by key."""
        with self._reading:
            try:
                return self._matching(scope)
            except RecursionError as error:
                raise FilterError("the filter is nested too deeply: combine values with in") from error

    @property
    def _limit(self) -> int:
        """The keys of all documents are below this one."""
        return int(self._records.meta.get("next_document", "0"))

    def _matching(self, scope: Filter) -> Flags:
        """Return which documents match a filter, by key."""
        if isinstance(scope, Condition):
            matches = np.zeros(self._limit, np.bool_)
            for values in () if isinstance(scope, Unknown) else self._column(scope.key).parts:
                for documents in _matching(values, scope):
                    matches[documents] = True
            return matches
        if isinstance(scope, Not):
            return ~self._matching(scope.part)
        matches = np.full(self._limit, scope.all, np.bool_)
        for part in scope.parts:
            check_deadline()
            if scope.all:
                matches &= self._matching(part)
            else:
                matches |= self._matching(part)
        return matches

    def _column(self, name: str) -> "_Column":
        column, count = self._columns.get(name), self._limit
        if column is None or count - column.main > max(_FEW, column.main // _SMALL):
            column = _Column(count, count, (self._read(name, 0),))
        elif column.limit < count:
            column = _Column(column.main, count, (column.parts[0], self._read(name, column.main)))
        self._columns[name] = column
        return column

    def _read(self, name: str, first: int) -> "dict[str, _Kind]":
        """Read the values of documents from a key on."""
        if name == DOCUMENT_ID:
            rows = self._records.rows(
                "SELECT 'text', id, 1, CAST(key AS TEXT) FROM documents WHERE key >= ? ORDER BY id", (first,)
            )
        else:
            named, parameters = ("+name = ? AND document >= ?", (name, first)) if first else ("name = ?", (name,))
            rows = self._records.rows(  # all documents of a value in one row: SQLite makes it faster than we read rows
                f"SELECT kind, value, count(*), group_concat(document) FROM attributes WHERE {named} "
                "GROUP BY kind, value ORDER BY kind, value",
                parameters,
            )
        return {kind: _Kind.of(list(own), self._limit) for kind, own in groupby(rows, itemgetter(0))}

    def problems(self) -> Iterator[str]:
        """Yield what differs from the records."""
        there = set(self._records.keys("SELECT key FROM documents").tolist())
        for name in [*self._columns]:
            kept = {row for row in self._column(name).rows() if row[2] in there}
            if kept != {*_Column(0, 0, (self._read(name, 0),)).rows()}:
                yield f"attributes: {name!r} differs from the records"


@dataclass(frozen=True)
class _Kind:
    """The values of one kind, ascending, and the documents that have each, from the value's place in ``starts`` on."""

    values: list[Any]
    starts: Keys
    documents: Keys

    @classmethod
    def of(cls, rows: list[tuple[Any, ...]], limit: int) -> "_Kind":
        """Return rows of kind, value, and number and keys of documents, in the order of values.

        Keys below ``limit`` were given to documents.
        """
        _, values, counts, keys = zip(*rows, strict=True)
        starts = np.concatenate([[0], np.cumsum(counts)])
        documents = np.fromstring(",".join(keys), np.int64, sep=",")
        if len(documents) != starts[-1] or not 0 <= documents.min() <= documents.max() < limit:
            raise damaged("a row has the key of another table")
        return cls([*values], starts, documents)

    def having(self, values: list[Any]) -> Keys:
        """Return the documents that have one of some values."""
        if len(values) > _MANY:
            places = self._places
            rows = [places[value] for value in values if value in places]
        else:
            own, size = self.values, len(self.values)
            near = ((bisect_left(own, value), value) for value in values)
            rows = [at for at, value in near if at < size and own[at] == value]
        at = np.array(rows, np.int64)
        return self.documents[ranges(self.starts[at], self.starts[at + 1] - self.starts[at])]

    @remembered
    def _places(self) -> dict[Any, int]:
        """The place of each value, for long lists of values."""
        return {value: at for at, value in enumerate(self.values)}

    def compared(self, operator: str, value: Any) -> Keys:
        """Return the documents with a value greater than one, or less."""
        place = (bisect_left if operator in ("gte", "lt") else bisect_right)(self.values, value)
        start = self.starts[place]
        return self.documents[start:] if operator in ("gt", "gte") else self.documents[:start]


_Values = dict[str, _Kind]


def _matching(values: _Values, condition: Condition) -> Iterator[Keys]:
    """Yield documents that match a condition."""
    if condition.operator == "exists":
        yield from (kind.documents for kind in values.values())
    elif condition.operator in ("eq", "in"):
        for name, kind in values.items():
            yield kind.having([value for kind_name, value in condition.values if kind_name == name])
    else:
        ((name, value),) = condition.values
        if name in values:
            yield values[name].compared(condition.operator, value)


class _Column(NamedTuple):
    """The values of a key by kind: of the documents below a key, and of those below another one."""

    main: int
    limit: int
    parts: tuple[_Values, ...]

    def rows(self) -> Iterator[tuple[str, Any, int]]:
        """Yield kind, value and document of all."""
        for name, kind in chain.from_iterable(part.items() for part in self.parts):
            values = chain.from_iterable(map(repeat, kind.values, np.diff(kind.starts).tolist()))
            yield from zip(repeat(name), values, kind.documents.tolist(), strict=False)
