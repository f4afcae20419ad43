"""Memory in long work: not looked through in vain, and given back afterwards."""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from functools import lru_cache
from types import TracebackType
from typing import Any

from typing_extensions import Self

_SECONDS = 5.0  # from one look for cycles to the next


@lru_cache(maxsize=1)
def _trim() -> Any:
    try:
        return ctypes.CDLL("libc.so.6").malloc_trim if sys.platform == "linux" else None
    except (OSError, AttributeError):  # another C library than glibc
        return None


def give_back() -> None:
    """Return freed memory to the system where the C library can; else do nothing.

    Indexing frees most of what it takes, but in pieces that glibc keeps: a third of the
    process after 100,000 passages.
    """
    if (trim := _trim()) is not None:
        trim(0)


class Uncollected:
    """Holds off Python's search for cycles during long work.

    What indexing makes has none, and is so much that looking through it takes a seventh of
    the time. What others make meanwhile may have some: between steps, every few seconds, it looks.
    """

    def __enter__(self) -> Self:
        self._was_on = gc.isenabled()
        self._looked = time.monotonic()
        gc.disable()
        return self

    def step(self) -> None:
        """Look for cycles if it is time; to be called between steps of the work."""
        if self._was_on and time.monotonic() - self._looked > _SECONDS:
            gc.collect(1)
            self._looked = time.monotonic()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._was_on:
            gc.enable()
