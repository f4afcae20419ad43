"""What the servers do: plain functions of what is served, the filter of the caller and typed parameters.

They return JSON-compatible values. Nothing of documents outside the filter is returned, counted or changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from graphrag_apps.ask import AnswerStream, ask_stream
from graphrag_apps.config import search_settings
from graphrag_apps.serve.errors import Refused
from graphrag_apps.serve.gateway import Gateway
from graphrag_apps.serve.keys import Key
from graphrag_core.errors import InputError
from graphrag_core.filters import Filter
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.remembered import Time
from graphrag_core.model import Chunk, Entity, Fact
from graphrag_core.result import Result

_MAX_NUMBER = 100_000  # of a setting in a request


# -- questions


def retrieve(gateway: Gateway, scope: Filter | None, question: str, **options: Any) -> Result:
    """Return the result of a question; options as of :func:`checked_options`."""
    return gateway.retriever.retrieve(question, where=scope, **checked_options(gateway, question, **options))


def ask(
    gateway: Gateway, scope: Filter | None, question: str, *, answer_threshold: float | None = None, **options: Any
) -> AnswerStream:
    """Return the answer to a question, which is written while it is read; options as of :func:`checked_options`."""
    given = checked_options(gateway, question, **options)
    return ask_stream(gateway.retriever, question, gateway.llm, where=scope, answer_threshold=answer_threshold, **given)


def checked_options(
    gateway: Gateway,
    question: str,
    *,
    design: str | None = None,
    numbers: Mapping[str, Any] | None = None,
    history: Sequence[str] | None = None,
    as_of: Time | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Return arguments of the retriever, within the limits of what is served.

    ``design`` is the name of a published design, in place of the settings of the retriever, ``numbers`` are fields of
    parts of the settings by their paths, such as ``{"gate.min_score": 0.3}``, and ``options`` fields of
    :class:`~graphrag_core.SearchSettings`; None counts as not given.
    """
    gateway.check_question(question)
    settings = gateway.retriever.settings if design is None else search_settings(design)
    settings = settings.replace(**options, **_checked(numbers or {}))
    if settings.k > gateway.limits.k:
        raise InputError(f"k is {settings.k}: at most {gateway.limits.k} passages are returned")
    return {"settings": settings, "history": history, "as_of": as_of}


def _checked(numbers: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings of parts. A caller cannot set how many candidates are searched, nor numbers without a bound."""
    for name, value in numbers.items():
        if "." not in name:
            raise InputError(f"{name!r} cannot be changed by set: it takes numbers of parts, such as 'gate.min_score'")
        if isinstance(value, (int, float)) and not (math.isfinite(value) and abs(value) <= _MAX_NUMBER):
            raise InputError(f"{name} is {value!r:.80}: use a number less than or equal to {_MAX_NUMBER:,}")
    return numbers


def as_json(result: Result) -> dict[str, Any]:
    """Return a result as JSON-compatible values: its hits, entities, facts, and what decided their order."""
    return {
        "question": result.question,
        "method": result.method,
        "route": result.route,
        "decided": result.decided,
        "trust": result.trust,
        "advice": result.advice,
        "fallback": result.fallback,
        "confidence": result.confidence,
        "expansion_skipped": result.expansion_skipped,
        "counts": result.counts,
        "uncovered": list(result.uncovered),
        "hits": [hit.to_dict() for hit in result.hits],
        "entities": [entity_json(one) for one in result.entities],
        "facts": [fact_json(one) for one in result.facts],
    }


# -- facts and the graph


def remember(
    index: KnowledgeIndex, key: Key, subject: str, relation: str, object: str, *,  # noqa: A002 - the usual word
    metadata: Mapping[str, Any] | None = None, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """Store a fact with the fields that the key's filter demands; parameters as of ``index.memory.remember``."""
    fact = index.memory.remember(subject, relation, object, metadata=key.stamp(metadata or {}), **more)
    return {**fact_json(fact), "id": fact.chunk_id}


def entity(index: KnowledgeIndex, scope: Filter | None, name: str, *, limit: int = 20) -> dict[str, Any]:
    """Return an entity with its strongest facts and the passages that state them."""
    found, passages = known_entity(index, scope, name), []
    facts = sorted(index.graph.facts(name, where=scope), key=lambda fact: (-fact.weight, fact.id))[:limit]
    for chunk_id in dict.fromkeys(fact.chunk_id for fact in facts):
        document_id = chunk_id if chunk_id in index else chunk_id.rpartition("#")[0]
        passages += [_passage(chunk) for chunk in index.chunks(document_id) if chunk.id == chunk_id]
    return {"entity": entity_json(found), "facts": [fact_json(fact) for fact in facts], "passages": passages}


def known_entity(index: KnowledgeIndex, scope: Filter | None, name: str) -> Entity:
    """Return an entity; raise ``Refused`` if there is none within the filter."""
    found = index.graph.entity(name, where=scope)
    if found is None:
        raise Refused(404, f"there is no entity {name!r:.200}: search for passages instead, or list entities")
    return found


def neighbours(
    index: KnowledgeIndex, scope: Filter | None, name: str, *, offset: int = 0, limit: int = 24
) -> dict[str, Any]:
    """Return the entities that share a fact with an entity, the strongest link first."""
    found, near = known_entity(index, scope, name), index.graph.neighbours(name, where=scope)
    page = [{**entity_json(one), "weight": weight} for one, weight in near[offset : offset + limit]]
    return {"entity": entity_json(found), "neighbours": page, "total": len(near)}


def path(index: KnowledgeIndex, scope: Filter | None, start: str, end: str, *, max_hops: int = 4) -> dict[str, Any]:
    """Return the shortest chain of facts between two entities."""
    for name in (start, end):
        known_entity(index, scope, name)
    found = index.graph.find_path(start, end, where=scope, max_hops=max_hops)
    if found is None:
        return {"found": False, "entities": [], "facts": []}
    return {
        "found": True,
        "entities": [entity_json(one) for one in found.entities],
        "facts": [fact_json(one) for one in found.facts],
    }


# -- values


def _passage(one: Chunk) -> dict[str, Any]:
    fields = ("id", "document_id", "title", "ordinal", "start", "page", "text")
    return {name: getattr(one, name) for name in fields} | {
        "headings": list(one.headings),
        "metadata": dict(one.metadata),
    }


def entity_json(one: Entity) -> dict[str, Any]:
    """Return an entity as JSON-compatible values."""
    return {**asdict(one), "aliases": list(one.aliases)}


def fact_json(one: Fact) -> dict[str, Any]:
    """Return a fact as JSON-compatible values."""
    names = ("id", "text", "relation", "value", "weight", "confidence", "source", "status", "chunk_id")
    times = ("created", "valid_from", "valid_to")
    return {name: getattr(one, name) for name in (*names, *times)} | {"entities": list(one.entities)}
