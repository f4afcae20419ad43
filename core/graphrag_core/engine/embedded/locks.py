"""A read/write lock for the threads of a process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ReadWriteLock:
    """Many readers or one writer.

    Nobody starves: a waiting writer goes before new readers, the readers that waited for a
    writer go before the next one, and a writer lets other writers go before its next turn. A
    thread that reads may read again inside, and one that writes may do both.
    """

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._readers: dict[int, int] = {}  # depth by thread
        self._writer: object = None
        self._last_writer: object = None
        self._depth = 0
        self._waiting_writers = 0
        self._waiting_readers = 0
        self._admitted = 0  # readers that waited for the last writer

    @property
    def contended(self) -> bool:
        """Whether a reader or a writer waits."""
        return bool(self._waiting_readers or self._waiting_writers)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold the lock as a reader."""
        me = threading.get_ident()
        with self._condition:
            if me != self._writer and me not in self._readers:
                self._waiting_readers += 1
                try:
                    self._condition.wait_for(
                        lambda: self._writer is None and (not self._waiting_writers or self._admitted)
                    )
                finally:
                    self._waiting_readers -= 1
                    self._admitted = max(self._admitted - 1, 0)
                    self._condition.notify_all()
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
        """Hold the lock as the writer."""
        self.acquire(threading.get_ident())
        try:
            yield
        finally:
            self.release()

    def acquire(self, owner: object) -> None:
        """Acquire the lock as the writer: a thread, or anything that lets another thread release it."""
        with self._condition:
            if threading.get_ident() in self._readers and self._writer != owner:
                raise RuntimeError("an index cannot be changed while the same thread reads it")
            self._waiting_writers += 1
            try:
                self._condition.wait_for(
                    lambda: (
                        self._writer == owner
                        or (
                            self._writer is None
                            and not self._readers
                            and not self._admitted
                            and (self._last_writer != owner or self._waiting_writers == 1)
                        )
                    )
                )
            finally:
                self._waiting_writers -= 1
                self._condition.notify_all()
            self._writer = self._last_writer = owner
            self._depth += 1

    def release(self) -> None:
        """Release the writer's lock."""
        with self._condition:
            self._depth -= 1
            if not self._depth:
                self._writer = None
                self._admitted = self._waiting_readers
            self._condition.notify_all()
