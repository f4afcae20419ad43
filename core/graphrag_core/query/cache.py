"""A cache of recent results."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from copy import deepcopy
from dataclasses import replace

from graphrag_core.errors import InputError
from graphrag_core.result import Result


class Cache:
    """A least-recently-written cache with expiry.

    The retriever's key has everything a result depends on: the question, the settings, the parsed
    filter and the generation of the index. Results are never stale after an add or a delete and never
    cross scopes. Thread-safe.

    Parameters
    ----------
    seconds
        How long a result is kept.
    entries
        The maximum number of results.
    clock
        Returns the time in seconds.
    """

    def __init__(
        self, *, seconds: float = 60.0, entries: int = 1_024, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if seconds <= 0 or entries < 1:
            raise InputError("seconds must be positive and entries at least 1: pass cache=None to disable the cache")
        self.seconds = seconds
        self.entries = entries
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: OrderedDict[Hashable, tuple[float, Result]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> Result | None:
        """Return the result of a key, unless it has expired."""
        with self._lock:
            until, result = self._entries.get(key, (0.0, None))
            if result is not None and self._clock() >= until:
                del self._entries[key]
                return None
        return None if result is None else _copied(result)

    def put(self, key: Hashable, result: Result) -> None:
        """Store a result."""
        stored = _copied(result)
        with self._lock:
            self._entries[key] = (self._clock() + self.seconds, stored)
            self._entries.move_to_end(key)
            while len(self._entries) > self.entries:
                self._entries.popitem(last=False)

    def clear(self) -> None:
        """Remove all results."""
        with self._lock:
            self._entries.clear()


def _copied(result: Result) -> Result:
    """Return a copy that shares no mutable value."""
    hits = [
        replace(hit, channels=dict(hit.channels), chunk=replace(hit.chunk, metadata=deepcopy(dict(hit.chunk.metadata))))
        for hit in result.hits
    ]
    return replace(result, hits=tuple(hits), known=dict(result.known))
