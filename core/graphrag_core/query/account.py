"""A hit as plain data, for a framework's metadata."""

from __future__ import annotations

from typing import Any

from graphrag_core.query.hit import Hit
from graphrag_core.query.result import Result


def account(result: Result, hit: Hit) -> dict[str, Any]:
    """Return everything a hit knows besides its text, metadata and score, as JSON can hold it.

    What holds for the whole result, such as the method that ran, is told with every hit, as
    frameworks hand hits on one by one. Built anew on each call: the caller may keep it.
    """
    chunk = hit.chunk
    return {
        "document_id": chunk.document_id,
        "title": chunk.title,
        "ordinal": chunk.ordinal,
        "start": chunk.start,
        "origin": hit.origin,
        "graph_expansion": hit.graph_expansion,
        "channels": {
            name: {"rank": channel.rank, "score": channel.score, "share": channel.share}
            for name, channel in hit.channels.items()
        },
        "path": [{"kind": step.kind, "id": step.id, "text": step.text} for step in hit.path],
        "entities": [entity.name for entity in result.entities],
        "method": result.method,
        "confidence": result.confidence,
        "route": result.route,
        "expansion_skipped": result.expansion_skipped,
        "fallback": result.fallback,
    }
