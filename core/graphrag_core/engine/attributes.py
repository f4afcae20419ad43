"""Metadata in columns: which documents match a filter, answered in memory.

A column has the values of a key in ascending order, and the documents that have each. It is read from the rows by the
first filter that has the key. Keys of documents count upwards and their rows never change, so that later filters read
new documents only. Documents that are gone stay in a column until it is read again: no passage is theirs.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from graphrag_core.deadline import check_deadline
from graphrag_core.engine.arrays import Flags
from graphrag_core.engine.rows import damaged
from graphrag_core.errors import FilterError
from graphrag_core.filters import Condition, Filter, Not, Unknown
from graphrag_core.key_sets import ranges
from graphrag_core.ports import Keys

_FEW = 1_000  # documents that a column may lack, which are read again after each change
_SMALL = 32  # and the part of it

Reader = Callable[[str, int], list[tuple[str, Any, int, str]]]
"""Returns of a key and the documents from a key on: kind, value, and number and keys of the documents, by value."""


class AttributeColumns:
    """Answers filters from columns. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._columns: dict[str, _Column] = {}

    def matches(self, scope: Filter, count: int, read: Reader) -> Flags:
        """Return which of the first ``count`` documents match a filter, by key."""
        try:
            return self._matching(scope, count, read)
        except RecursionError as error:
            raise FilterError("the filter is nested too deeply: combine values with in") from error

    def _matching(self, scope: Filter, count: int, read: Reader) -> Flags:
        if isinstance(scope, Condition):
            matches = np.zeros(count, np.bool_)
            for values in () if isinstance(scope, Unknown) else self._column(scope.key, count, read).parts:
                for documents in _matching(values, scope):
                    matches[documents[documents < count]] = True
            return matches
        if isinstance(scope, Not):
            return ~self._matching(scope.part, count, read)
        matches = np.full(count, scope.all, np.bool_)
        for part in scope.parts:
            check_deadline()
            if scope.all:
                matches &= self._matching(part, count, read)
            else:
                matches |= self._matching(part, count, read)
        return matches

    def _column(self, name: str, count: int, read: Reader) -> _Column:
        with self._lock:
            column = self._columns.get(name)
            if column is None or count - column.main > max(_FEW, column.main // _SMALL):
                column = _Column(count, count, (_kinds(read(name, 0)),))
            elif column.limit < count:
                column = _Column(column.main, count, (column.parts[0], _kinds(read(name, column.main))))
            self._columns[name] = column
            return column


def _kinds(rows: list[tuple[str, Any, int, str]]) -> dict[str, _Kind]:
    return {kind: _Kind.of([*own]) for kind, own in groupby(rows, itemgetter(0))}


class _Kind(NamedTuple):
    """The values of one kind, ascending, and the documents that have each, from the value's place in ``starts`` on."""

    values: list[Any]
    starts: Keys
    documents: Keys

    @classmethod
    def of(cls, rows: list[tuple[str, Any, int, str]]) -> _Kind:
        _, values, counts, keys = zip(*rows, strict=True)
        starts = np.concatenate([[0], np.cumsum(counts)])
        documents = np.fromstring(",".join(keys), np.int64, sep=",")
        if len(documents) != starts[-1] or documents.min() < 0:
            raise damaged("an attribute has the key of another table")
        return cls([*values], starts, documents)

    def having(self, values: list[Any]) -> Keys:
        """Return the documents that have one of some values."""
        own, size = self.values, len(self.values)
        near = ((bisect_left(own, value), value) for value in values)
        at = np.array([at for at, value in near if at < size and own[at] == value], np.int64)
        return self.documents[ranges(self.starts[at], self.starts[at + 1] - self.starts[at])]

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
