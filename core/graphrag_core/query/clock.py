"""How long the stages of a query take."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from graphrag_core.query.hit import Trace


class Clock:
    """Measures stages, one after the other."""

    def __init__(self) -> None:
        self._stages: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Measure what happens inside."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._stages[name] = (time.perf_counter() - start) * 1000

    @property
    def trace(self) -> Trace:
        """What was measured so far."""
        return Trace(dict(self._stages))
