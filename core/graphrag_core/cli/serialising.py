"""Values as JSON, one object a line when piped, for other programs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from graphrag_core import Hit, Result, Stats


def print_json(value: Any) -> None:
    """Print a value: indented on a terminal, in one line elsewhere."""
    indent = 2 if sys.stdout.isatty() else None
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=str)
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding) + "\n")


def result_to_dict(result: Result) -> dict[str, Any]:
    """Return everything a result says."""
    return {
        "question": result.question,
        "method": result.method,
        "route": result.route,
        "confidence": round(result.confidence, 4),
        "expansion_skipped": result.expansion_skipped,
        "fallback": result.fallback,
        "entities": [asdict(entity) for entity in result.entities],
        "hits": [_hit_to_dict(rank, hit) for rank, hit in enumerate(result.hits, 1)],
        "facts": [
            {
                "entities": fact.entities,
                "relation": fact.relation,
                "text": fact.text,
                "weight": fact.weight,
                "chunk": fact.chunk_id,
            }
            for fact in result.facts
        ],
        "milliseconds": {name: round(ms, 3) for name, ms in result.trace.stages.items()},
    }


def _hit_to_dict(rank: int, hit: Hit) -> dict[str, Any]:
    return {
        "rank": rank,
        "id": hit.chunk.id,
        "document": hit.chunk.document_id,
        "title": hit.chunk.title,
        "text": hit.chunk.text,
        "score": hit.score,
        "origin": hit.origin,
        "channels": {name: asdict(channel) for name, channel in hit.channels.items()},
        "path": [asdict(step) for step in hit.path],
        "metadata": dict(hit.chunk.metadata),
    }


def stats_to_dict(stats: Stats) -> dict[str, Any]:
    """Return everything stats say."""
    return {**asdict(stats), "top_entities": [{"name": name, "mentions": count} for name, count in stats.top_entities]}
