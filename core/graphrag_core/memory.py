"""Giving memory back to the system after long work."""

from __future__ import annotations

import ctypes
import sys
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
