"""The stages of a question or a write: how long each took, as OpenTelemetry spans if the application uses those.

An application that sets up OpenTelemetry has imported its API. Otherwise nothing is imported, and nothing is sent.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from itertools import pairwise

from graphrag_core.deadline import check_deadline

_PREFIX = "graphrag."


class Stages:
    """Measures successive stages, the first from a time of ``perf_counter`` on. A time limit is checked at each end.

    >>> stages = Stages()
    >>> stages.end("embed")
    >>> list(stages.milliseconds())
    ['embed']
    """

    def __init__(self) -> None:
        self._ended: list[tuple[str, float]] = [("", time.perf_counter())]

    def end(self, stage: str) -> None:
        """Note that a stage has ended. Raises :class:`DeadlineExceeded` if the time limit of this thread has passed."""
        self._ended.append((stage, time.perf_counter()))
        check_deadline()

    def milliseconds(self) -> dict[str, float]:
        """Return how long each stage took, in all if it ran more than once."""
        taken: dict[str, float] = {}
        for (_, start), (stage, end) in pairwise(self._ended):
            taken[stage] = taken.get(stage, 0.0) + (end - start) * 1000
        return taken

    def emit(self, name: str, attributes: Mapping[str, str | int | float | bool]) -> None:
        """Emit a span for all stages, with attributes, and within it one for each stage."""
        api = sys.modules.get("opentelemetry.trace")
        if api is None:
            return
        tracer = api.get_tracer("hybrid-graphrag")
        offset = time.time_ns() - int(time.perf_counter() * 1e9)
        times = [offset + int(at * 1e9) for _, at in self._ended]
        span = tracer.start_span(_PREFIX + name, start_time=times[0])
        if span.is_recording():
            span.set_attributes({_PREFIX + key: value for key, value in attributes.items()})
            inside = api.set_span_in_context(span)
            for (start, end), (stage, _) in zip(pairwise(times), self._ended[1:], strict=True):
                tracer.start_span(_PREFIX + stage, context=inside, start_time=start).end(end)
        span.end(times[-1])
