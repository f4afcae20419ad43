"""The event of a question for LlamaIndex's instrumentation, in addition to the framework's."""

from __future__ import annotations

import llama_index.core.instrumentation as instrument
from llama_index.core.instrumentation.events import BaseEvent

from graphrag_core import Result

_dispatcher = instrument.get_dispatcher(__name__)


class GraphRAGRetrievalEvent(BaseEvent):
    """How a question was answered. ``stages`` are milliseconds, ``confidence`` is None if the gate does not use it."""

    question: str
    method: str
    route: str
    decided: str
    confidence: float | None
    entities: list[str]
    skipped: str
    fallback: str
    node_ids: list[str]
    stages: dict[str, float]

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex uses for the class."""
        return "GraphRAGRetrievalEvent"


def report(result: Result) -> Result:
    """Dispatch the event of a result, and return the result."""
    same = ("question", "method", "route", "decided", "confidence", "fallback")
    event = GraphRAGRetrievalEvent(
        **{name: getattr(result, name) for name in same},
        entities=[entity.name for entity in result.entities],
        skipped=result.expansion_skipped,
        node_ids=[hit.chunk.id for hit in result.hits],
        stages=dict(result.trace.stages),
    )
    _dispatcher.event(event)
    return result
