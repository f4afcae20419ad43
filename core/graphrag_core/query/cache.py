"""Results that were asked for a moment ago."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from copy import deepcopy
from dataclasses import replace

from graphrag_core.errors import InputError
from graphrag_core.query.result import Result


class Cache:
    """Remembers results for a while; the oldest go first.

    A retriever asks it with everything a result depends on: the question, the settings, the
    scope, and the generation of the index. So nothing is stale after an add or a delete, and
    nothing crosses scopes. Safe to share by threads.

    Parameters
    ----------
    seconds
        How long a result is good for.
    entries
        How many are kept.
    clock
        What tells the time, in seconds.
    """

    def __init__(
        self, *, seconds: float = 60.0, entries: int = 1_024, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if seconds <= 0 or entries < 1:
            raise InputError("a cache keeps at least one entry for some time: pass cache=None for no cache")
        self.seconds = seconds
        self.entries = entries
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[float, Result]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Hashable) -> Result | None:
        """Return what was kept under a key, if it is still good."""
        with self._lock:
            until, result = self._kept.get(key, (0.0, None))
            if result is not None and self._clock() >= until:
                del self._kept[key]
                return None
        return None if result is None else _copied(result)

    def put(self, key: Hashable, result: Result) -> None:
        """Keep a result."""
        own = _copied(result)
        with self._lock:
            self._kept[key] = (self._clock() + self.seconds, own)
            self._kept.move_to_end(key)
            while len(self._kept) > self.entries:
                self._kept.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()


def _copied(result: Result) -> Result:
    """Return a result that shares nothing a caller could change."""
    hits = [
        replace(hit, channels=dict(hit.channels), chunk=replace(hit.chunk, metadata=deepcopy(dict(hit.chunk.metadata))))
        for hit in result.hits
    ]
    return replace(result, hits=tuple(hits), known=dict(result.known))
