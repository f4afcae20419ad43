"""Rows that questions have read: the same passages and entities answer many questions."""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")

_MOST = 10_000  # rows; with more, the next read starts with none


class RecentRows(Generic[T]):
    """Rows that were read, by key.

    >>> rows = RecentRows[str]()
    >>> rows.read([7, 3], lambda keys: [f"chunk {key}" for key in keys])
    ['chunk 7', 'chunk 3']
    >>> rows.read([3], lambda keys: [])
    ['chunk 3']
    """

    def __init__(self) -> None:
        self._rows: dict[int, T] = {}

    def read(self, keys: Sequence[int], fetch: Callable[[Sequence[int]], Sequence[T]]) -> list[T]:
        """Return rows; ``fetch`` returns those that were not read before, in the order of its keys."""
        rows = self._rows  # another thread may start with an empty one
        if missing := [key for key in dict.fromkeys(keys) if key not in rows]:
            if len(rows) + len(missing) > _MOST:
                known = {key: rows[key] for key in keys if key in rows}
                self._rows = rows = known
            rows.update(zip(missing, fetch(missing), strict=True))
        return [rows[key] for key in keys]
