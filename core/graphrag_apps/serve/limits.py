"""What a server may use: its limits, bounded pools of threads, rate limits, and answers that wait for their clients."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from graphrag_apps.serve.errors import TooLarge, TooManyRequests, Unavailable
from graphrag_core.errors import InputError, check_number

_T = TypeVar("_T")
_MAX_WAITING = 1_000_000  # characters of an answer that wait for a slow client
_MOST_COUNTED = 10_000  # names whose requests are counted


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one request, one key and all requests together may use.

    Parameters
    ----------
    body_bytes, unread_bytes
        The size of a request's body, and of all bodies together that have not arrived whole, at least ``body_bytes``.
        Of more, the largest is refused with status 503.
    question
        The length of a question, in characters.
    k
        The number of passages; also of entities and documents, times ten.
    workers
        How many threads search. By default the number of CPUs and two more, at most 8.
    waiting
        How many requests wait for a thread before others are refused with status 503.
    answers
        How many answers of a language model are written at once.
    seconds
        How long a request may wait and run.
    answer_seconds, write_seconds
        The same for an answer of a language model and for a change of documents.
    requests_per_minute
        The rate limit of a key that has none; None for no limit.
    connections, connections_per_address, receive_seconds
        How many connections may wait until a request has arrived whole or until an answer is taken, of all clients and
        of one address, and how long: headers and body together, or a part of an answer. Of more, the one that has
        waited longest is closed.
    """

    body_bytes: int = 10_000_000
    unread_bytes: int = 64_000_000
    question: int = 10_000
    k: int = 100
    workers: int = min(8, (os.cpu_count() or 2) + 2)
    waiting: int = 500
    answers: int = 64
    seconds: float = 30.0
    answer_seconds: float = 300.0
    write_seconds: float = 300.0
    requests_per_minute: float | None = None
    connections: int = 500
    connections_per_address: int = 400
    receive_seconds: float = 30.0

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if value is None and limit.default is None:
                continue
            if check_number(value, f"the limit {limit.name}") == 0 and limit.name != "waiting":
                raise InputError(f"the limit {limit.name} is 0: use a larger number")


def closing() -> Unavailable:
    """Return the error of a request to a server that is closing."""
    return Unavailable("the server is closing: try again later", retry_after=5)


class ThreadPool:
    """Threads, and a queue of limited length. A job that is cancelled while it waits does not run."""

    def __init__(self, name: str, workers: int, waiting: int) -> None:
        self._most = workers + waiting
        self._lock = threading.Lock()
        self._closed = False
        self._jobs: set[Future[Any]] = set()  # that run or wait
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix=f"graphrag-{name}")

    @property
    def jobs(self) -> int:
        """How many jobs run or wait."""
        return len(self._jobs)

    def submit(self, function: Callable[[], _T]) -> Future[_T]:
        """Run a function when a thread is free. Raises :class:`Unavailable` if too many functions wait."""
        with self._lock:
            if self._closed:
                raise closing()
            if len(self._jobs) >= self._most:
                raise Unavailable("the server is busy: try again in a moment", retry_after=1)
            future = self._threads.submit(function)
            self._jobs.add(future)
        future.add_done_callback(self._jobs.discard)
        return future

    def close(self) -> None:
        """Cancel waiting jobs, and wait for running ones."""
        with self._lock:
            self._closed = True
        self._threads.shutdown(wait=True, cancel_futures=True)


class RateLimits:
    """A token bucket for each name, of those that were counted last."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._left: dict[str, tuple[float, float]] = {}

    def count(self, name: str, per_minute: float, refusal: str = "this key may send {:g} requests per minute") -> None:
        """Count a request, or raise :class:`TooManyRequests` with a message."""
        most = max(1.0, per_minute)
        with self._lock:
            now = self._clock()
            left, before = self._left.pop(name, (most, now))
            left = min(most, left + (now - before) * per_minute / 60)
            allowed = left >= 1
            self._left[name] = (left - 1 if allowed else left, now)
            if len(self._left) > _MOST_COUNTED:
                del self._left[next(iter(self._left))]
        if not allowed:
            wait = (1 - left) * 60 / per_minute
            raise TooManyRequests(f"{refusal.format(per_minute)}: wait", retry_after=wait)


class WaitingAnswer:
    """An answer that a thread reads from a language model, and that waits in a queue for its client."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.pieces: asyncio.Queue[Any] = asyncio.Queue()
        self.stream: Any = None
        self._stopped = threading.Event()
        self._waiting = 0  # characters in the queue, by the thread's count
        self._thread: threading.Thread | None = None

    def start(self, ended: Callable[[], None]) -> None:
        """Read the language model in a thread; call a function when the thread ends."""
        # A daemon: a language model that does not answer must not keep the process from ending.
        self._thread = threading.Thread(target=self._read, args=(ended,), name="graphrag-answer", daemon=True)
        self._thread.start()

    def _read(self, ended: Callable[[], None]) -> None:
        try:
            for piece in self.stream:
                self._waiting += len(piece)
                if self._stopped.is_set() or self._waiting > _MAX_WAITING:
                    break
                self.put(piece)
            else:
                self.put(self.stream.answer)
                return
            self.put(TooLarge(f"the answer has more than {_MAX_WAITING:,} characters"))
        except BaseException as error:  # noqa: BLE001 - whoever waits for the answer gets it
            self.put(error)
        finally:
            with suppress(Exception):
                self.stream.close()
            ended()

    def put(self, piece: Any) -> None:
        """Hand something to the client, from any thread."""
        with suppress(RuntimeError):  # the event loop is closed
            self.loop.call_soon_threadsafe(self.pieces.put_nowait, piece)

    def stop(self) -> None:
        """Stop the language model: at once if it is not being read, else with its next piece."""
        self._stopped.set()
        if self.stream is not None:
            with suppress(Exception):  # ValueError while the thread reads it
                self.stream.close()
