"""A time limit for work in a thread: long work checks it between its steps, and ends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from graphrag_core.errors import DeadlineExceeded

_UNTIL: ContextVar[float | None] = ContextVar("until", default=None)


@contextmanager
def deadline(until: float) -> Iterator[None]:
    """Let :func:`check_deadline` raise in this thread from a time of ``time.monotonic`` on.

    >>> with deadline(time.monotonic() + 60):
    ...     check_deadline()
    """
    token = _UNTIL.set(until)
    try:
        yield
    finally:
        _UNTIL.reset(token)


def check_deadline() -> None:
    """Raise :class:`DeadlineExceeded` if the time limit of this thread has passed."""
    until = _UNTIL.get()
    if until is not None and time.monotonic() > until:
        raise DeadlineExceeded("the time limit has passed: ask for less, or allow more time")
