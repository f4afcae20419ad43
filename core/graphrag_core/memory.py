"""Memory in long work: not looked through in vain, and given back afterwards."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any


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


@contextmanager
def uncollected() -> Iterator[None]:
    """Hold off Python's search for cycles, for a batch.

    What indexing makes has none, and is so much that looking through it takes a seventh of
    the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
