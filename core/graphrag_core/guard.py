"""Many readers or one writer, among the threads of a process."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_OWNERS = itertools.count(1)  # that are no threads


class Guard:
    """Lets readers in together and a writer in alone; a waiting writer goes before new readers.

    A thread that is reading may read again inside, and the one that is writing may do both.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._readers: dict[int, int] = {}
        self._writer: int | None = None
        self._depth = 0
        self._waiting = 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold off writers."""
        me = threading.get_ident()
        with self._condition:
            inside = me == self._writer or me in self._readers
            self._condition.wait_for(lambda: inside or (self._writer is None and not self._waiting))
            self._readers[me] = self._readers.get(me, 0) + 1
        try:
            yield
        finally:
            with self._condition:
                self._readers[me] -= 1
                if not self._readers[me]:
                    del self._readers[me]
                self._condition.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold off everybody else."""
        self._enter(threading.get_ident())
        try:
            yield
        finally:
            self._leave()

    def take(self) -> Callable[[], None]:
        """Hold off everybody else until what is returned is called, in whichever thread."""
        self._enter(-next(_OWNERS))
        return self._leave

    def _enter(self, owner: int) -> None:
        with self._condition:
            if threading.get_ident() in self._readers and self._writer != owner:
                raise RuntimeError("an index cannot be changed from inside one of its own queries")
            self._waiting += 1
            try:
                self._condition.wait_for(lambda: self._writer == owner or (self._writer is None and not self._readers))
            finally:
                self._waiting -= 1
            self._writer = owner
            self._depth += 1

    def _leave(self) -> None:
        with self._condition:
            self._depth -= 1
            if not self._depth:
                self._writer = None
            self._condition.notify_all()
