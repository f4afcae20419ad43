"""What the retriever tells LlamaIndex's instrumentation, beside the framework's own events."""

from __future__ import annotations

import llama_index.core.instrumentation as instrument
from llama_index.core.instrumentation.events import BaseEvent

from graphrag_core import Added, Result

dispatcher = instrument.get_dispatcher(__name__)


class GraphRAGRetrievalEvent(BaseEvent):
    """How a question was answered. ``stages`` holds milliseconds."""

    question: str
    method: str
    route: str
    confidence: float
    entities: list[str]
    skipped: str
    fallback: str
    node_ids: list[str]
    stages: dict[str, float]

    @classmethod
    def class_name(cls) -> str:
        """Return the name LlamaIndex knows the class by."""
        return "GraphRAGRetrievalEvent"

    @classmethod
    def of(cls, result: Result) -> GraphRAGRetrievalEvent:
        """Return the event for a result."""
        return cls(
            question=result.question,
            method=result.method,
            route=result.route,
            confidence=result.confidence,
            entities=[entity.name for entity in result.entities],
            skipped=result.expansion_skipped,
            fallback=result.fallback,
            node_ids=[hit.chunk.id for hit in result.hits],
            stages=dict(result.trace.stages),
        )


class GraphRAGInsertEvent(BaseEvent):
    """What became of nodes that were inserted.

    ``reused`` nodes came with an embedding, which was taken; ``with_knowledge`` with entities
    and relations that an extractor had read.
    """

    added: int
    replaced: int
    unchanged: int
    reused: int
    with_knowledge: int
    problems: dict[str, str]

    @classmethod
    def class_name(cls) -> str:
        """Return the name LlamaIndex knows the class by."""
        return "GraphRAGInsertEvent"

    @classmethod
    def of(cls, added: Added, reused: int, with_knowledge: int) -> GraphRAGInsertEvent:
        """Return the event for an addition."""
        return cls(
            added=added.added,
            replaced=added.replaced,
            unchanged=added.unchanged,
            reused=reused,
            with_knowledge=with_knowledge,
            problems=dict(added.problems),
        )
