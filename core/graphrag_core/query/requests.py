"""``Request``: what a question waits for outside of the index, and how a question with requests is run.

A question runs as a generator of requests (``GraphRetriever.steps``), so that one pipeline serves plain calls and
event loops: :func:`run_now` does what is requested, :func:`run_awaiting` awaits it. No snapshot of the index is open
while a question waits for a request.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from graphrag_core.result import Result


@dataclass(frozen=True)
class Request:
    """Work outside of the index: embedding the question, or scoring passages.

    Parameters
    ----------
    run
        Does it in the calling thread.
    arun
        Does it on the event loop; None if ``run`` in a thread is all there is.
    key
        What the result depends on, besides the text of the question.
    """

    run: Callable[[], Any]
    arun: Callable[[], Awaitable[Any]] | None = None
    key: Hashable = None


Steps: TypeAlias = Generator[Request, Any, Result]
"""A running question: yields requests, takes what they returned, returns the result."""


async def run_awaiting(steps: Steps) -> Result:
    """Run a question in a thread; what can be awaited is awaited on the event loop."""
    import asyncio  # noqa: PLC0415 - slow to import

    step: Callable[[], Request] | None = None
    while True:
        reached: Request | Result = await asyncio.to_thread(run_now, steps, step, awaits=True)
        if isinstance(reached, Result):
            return reached
        try:
            step = partial(steps.send, await reached.arun())  # type: ignore[misc]
        except Exception as error:  # noqa: BLE001 - the question handles or raises it
            step = partial(steps.throw, error)


def run_now(steps: Steps, step: Callable[[], Request] | None = None, *, awaits: bool = False) -> Any:
    """Run a question in this thread to its result.

    Parameters
    ----------
    steps
        The question.
    step
        Continues it; None starts it.
    awaits
        True returns at the first request that can be awaited.
    """
    try:
        request = next(steps) if step is None else step()
        while request.arun is None or not awaits:
            try:
                value = request.run()
            except Exception as error:  # noqa: BLE001 - the question handles or raises it
                request = steps.throw(error)
            else:
                request = steps.send(value)
    except StopIteration as end:
        return end.value
    return request
