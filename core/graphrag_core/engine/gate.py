"""``Gate``: readers and writers of an index in memory, whose rows have one state."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

_READING = (
    "an index in memory cannot be changed while the same thread reads it: leave the snapshot first. If a query of this "
    "thread was interrupted, close the index and open it again"
)


class Gate:
    """Lets readers of an index in memory finish before a write. A thread that reads may read again inside."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers: dict[int, int] = {}  # snapshots by thread
        self._writer: int | None = None
        self._depth = 0

    @contextmanager
    def reading(self, *, wait: bool) -> Iterator[None]:
        """Count a reader. Without ``wait`` nothing waits for it."""
        if not wait:
            yield
            return
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._writer in (None, me) or me in self._readers)
            self._readers[me] = self._readers.get(me, 0) + 1
        try:
            yield
        finally:
            with self._changed:
                self._readers[me] -= 1
                if not self._readers[me]:
                    del self._readers[me]
                self._changed.notify_all()

    @contextmanager
    def writing(self, *, alone: bool) -> Iterator[None]:
        """Wait for the readers of other threads, and let new ones wait."""
        if not alone:
            yield
            return
        me = threading.get_ident()
        with self._changed:
            if me in self._readers and self._writer != me:
                raise RuntimeError(_READING)
            self._changed.wait_for(lambda: self._writer in (None, me))
            self._writer, self._depth = me, self._depth + 1
        try:
            with self._changed:
                self._changed.wait_for(lambda: not self._readers.keys() - {me})
            yield
        finally:
            with self._changed:
                self._depth -= 1
                if not self._depth:
                    self._writer = None
                self._changed.notify_all()
