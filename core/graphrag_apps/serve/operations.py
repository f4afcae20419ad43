"""What the servers do: plain functions of what is served, the filter of the caller and typed parameters.

They return JSON-compatible values. Nothing of documents outside the filter is returned, counted or changed.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import islice, zip_longest
from typing import Any

from graphrag_apps.ask import AnswerStream, answer_from
from graphrag_apps.config import search_settings
from graphrag_apps.serve.errors import Refused
from graphrag_apps.serve.gateway import Gateway
from graphrag_apps.serve.keys import Key
from graphrag_core.errors import IdTaken, InputError
from graphrag_core.filters import DOCUMENT_ID, Filter, parse_all
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.remembered import Time, visible
from graphrag_core.model import Chunk, Document, Entity, Fact
from graphrag_core.result import Result

_ALL = 1 << 40
_PASSAGE_ID = re.compile(r"#\d+$")
_MAX_NUMBER = 100_000  # of a setting in a request


# -- questions


def retrieve(
    gateway: Gateway,
    scope: Filter | None,
    question: str,
    *,
    design: str | None = None,
    numbers: Mapping[str, Any] | None = None,
    history: Sequence[str] | None = None,
    as_of: Time | None = None,
    **options: Any,
) -> Result:
    """Return the result of a question.

    Parameters
    ----------
    gateway, scope
        What is served, and the filter.
    question
        The question.
    design
        The name of a published design, in place of the settings of the retriever.
    numbers
        Fields of parts of the settings by their paths, such as ``{"gate.min_score": 0.3}``.
    history, as_of
        As in :meth:`GraphRetriever.retrieve <graphrag_core.GraphRetriever.retrieve>`.
    options
        Fields of :class:`~graphrag_core.SearchSettings`; None counts as not given.
    """
    gateway.check_question(question)
    settings = gateway.retriever.settings if design is None else search_settings(design)
    settings = settings.replace(**options, **_checked(numbers or {}))
    if settings.k > gateway.limits.k:
        raise InputError(f"k is {settings.k}: at most {gateway.limits.k} passages are returned")
    return gateway.retriever.retrieve(question, where=scope, history=history, as_of=as_of, settings=settings)


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
        "gate": result.gate,
        "advice": result.advice,
        "fallback": result.fallback,
        "confidence": result.confidence,
        "expansion_skipped": result.expansion_skipped,
        "counts": result.counts,
        "uncovered": list(result.uncovered),
        "hits": [hit.to_dict() for hit in result.hits],
        "entities": [_entity(one) for one in result.entities],
        "facts": [_fact(one) for one in result.facts],
    }


def ask(
    gateway: Gateway, scope: Filter | None, question: str, *, answer_threshold: float | None = None, **options: Any
) -> AnswerStream:
    """Return the answer to a question, which is written while it is read; parameters as of :func:`retrieve`."""
    result = retrieve(gateway, scope, question, **options)
    return answer_from(result, gateway.llm, answer_threshold=answer_threshold)


# -- documents


def documents(index: KnowledgeIndex, scope: Filter | None, *, after: str = "", limit: int = 100) -> dict[str, Any]:
    """Return a page of documents in order of id, and the id after which the next page begins; None for the last."""
    later = parse_all(scope, {DOCUMENT_ID: {"gt": after}}) if after else scope
    found = list(islice(index.documents(where=later), limit + 1))
    page = found[:limit]
    return {"documents": [_document(one) for one in page], "next": page[-1].id if len(found) > limit else None}


def document(index: KnowledgeIndex, scope: Filter | None, document_id: str) -> dict[str, Any]:
    """Return a document; raise ``Refused`` if there is none within the filter."""
    if document_id not in _inside(index, scope, [document_id]):
        raise Refused(404, f"there is no document {document_id!r}")
    found = index.get(document_id)
    if found is None:
        raise Refused(404, f"there is no document {document_id!r}")
    return _document(found)


def add(index: KnowledgeIndex, key: Key, given: Iterable[Document]) -> dict[str, Any]:
    """Add or replace documents, all or none, with the fields that the key's filter demands.

    Raises
    ------
    Refused
        An id belongs to a document outside the filter, or could be that of a passage of one.
    """
    new = [Document(one.id, one.text, one.title, key.stamp(one.metadata, one.id)) for one in given]
    if key.restricted:
        own = _inside(index, key.where, [one.id for one in new])
        for one in new:
            if one.id not in own and (_PASSAGE_ID.search(one.id) or one.id in index):
                raise _taken(one.id)
    try:
        report = index.add(new)
    except IdTaken as error:  # it names the document, or one of its passages
        taken = str(error.document_id)
        raise _taken(next((one.id for one in new if taken.startswith(f"{one.id}#")), taken)) from error
    return {**asdict(report), "problems": dict(report.problems)}


def delete(index: KnowledgeIndex, scope: Filter | None, document_id: str) -> dict[str, Any]:
    """Delete a document; raise ``Refused`` if there is none within the filter."""
    if not (_inside(index, scope, [document_id]) and index.delete(document_id)):
        raise Refused(404, f"there is no document {document_id!r}")
    return {"deleted": 1}


def remember(
    index: KnowledgeIndex, key: Key, subject: str, relation: str, object: str, *,  # noqa: A002 - the usual word
    metadata: Mapping[str, Any] | None = None, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """Store a fact with the fields that the key's filter demands; parameters as of ``index.memory.remember``."""
    fact = index.memory.remember(subject, relation, object, metadata=key.stamp(metadata or {}), **more)
    return {**_fact(fact), "id": fact.chunk_id}


def _inside(index: KnowledgeIndex, scope: Filter | None, document_ids: Sequence[str]) -> set[str]:
    return set(index.document_ids(parse_all(scope, {DOCUMENT_ID: {"in": list(document_ids)}})))


def _taken(document_id: object) -> Refused:
    return Refused(
        409, f"the id {document_id!r} cannot be used: choose another, such as one that begins with your name"
    )


# -- the graph


def entities(index: KnowledgeIndex, scope: Filter | None, *, prefix: str = "", limit: int = 100) -> dict[str, Any]:
    """Return entities, the most mentioned first."""
    return {"entities": [_entity(one) for one in index.graph.entities(prefix, limit=limit, where=scope)]}


def entity(index: KnowledgeIndex, scope: Filter | None, name: str, *, limit: int = 20) -> dict[str, Any]:
    """Return an entity with its strongest facts and the passages that state them."""
    found, facts = known_entity(index, scope, name), strongest_facts(index, scope, name, limit)
    return {
        "entity": _entity(found),
        "facts": [_fact(fact) for fact in facts],
        "passages": [_passage(chunk) for chunk in passages_of(index, facts)],
    }


def strongest_facts(index: KnowledgeIndex, scope: Filter | None, name: str, limit: int) -> list[Fact]:
    """Return the strongest facts that hold an entity."""
    return sorted(index.graph.facts(name, where=scope), key=lambda fact: (-fact.weight, fact.id))[:limit]


def passages_of(index: KnowledgeIndex, facts: Iterable[Fact]) -> list[Chunk]:
    """Return the passages that state some facts, each once."""
    found = []
    for chunk_id in dict.fromkeys(fact.chunk_id for fact in facts):
        document_id = chunk_id if chunk_id in index else chunk_id.rpartition("#")[0]
        found += [chunk for chunk in index.chunks(document_id) if chunk.id == chunk_id]
    return found


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
    page = [{**_entity(one), "weight": weight} for one, weight in near[offset : offset + limit]]
    return {"entity": _entity(found), "neighbours": page, "total": len(near)}


def path(index: KnowledgeIndex, scope: Filter | None, start: str, end: str, *, max_hops: int = 4) -> dict[str, Any]:
    """Return the shortest chain of facts between two entities."""
    for name in (start, end):
        known_entity(index, scope, name)
    found = index.graph.find_path(start, end, where=scope, max_hops=max_hops)
    if found is None:
        return {"found": False, "entities": [], "facts": []}
    return {
        "found": True,
        "entities": [_entity(one) for one in found.entities],
        "facts": [_fact(one) for one in found.facts],
    }


def communities(index: KnowledgeIndex, scope: Filter | None) -> dict[str, Any]:
    """Return the themes of the collection: groups of entities that are linked with each other, the largest first."""
    return {"communities": [{**asdict(one), "members": list(one.members), "names": list(one.names)}
                            for one in index.graph.communities(where=scope)]}  # fmt: skip


def stats(index: KnowledgeIndex, scope: Filter | None) -> dict[str, Any]:
    """Return the size of an index, or of what is within a filter; then what tells of other documents is None."""
    if scope is None:
        found = index.stats()
        return {**asdict(found), "relations": dict(found.relations), "vectors": dict(found.vectors),
                "top_entities": [list(one) for one in found.top_entities]}  # fmt: skip
    documents_inside = sum(1 for _ in index.document_ids(scope))
    with index.engine.snapshot(visible(index.engine, scope, time.time())) as snapshot:
        keys = snapshot.top_entities(_ALL)
        counts = snapshot.chunk_count, len(keys), len(snapshot.facts_of(keys))
    names = ("chunks", "entities", "facts", "generation", "embedder", "bytes_on_disk")
    return {"documents": documents_inside, **dict(zip_longest(names, counts))}


# -- values


def _document(one: Document) -> dict[str, Any]:
    return {"id": one.id, "title": one.title, "text": one.text, "metadata": dict(one.metadata)}


def _passage(one: Chunk) -> dict[str, Any]:
    fields = ("id", "document_id", "title", "ordinal", "start", "page", "text")
    return {name: getattr(one, name) for name in fields} | {
        "headings": list(one.headings),
        "metadata": dict(one.metadata),
    }


def _entity(one: Entity) -> dict[str, Any]:
    return {**asdict(one), "aliases": list(one.aliases)}


def _fact(one: Fact) -> dict[str, Any]:
    names = ("id", "text", "relation", "value", "weight", "confidence", "source", "status", "chunk_id")
    times = ("created", "valid_from", "valid_to")
    return {name: getattr(one, name) for name in (*names, *times)} | {"entities": list(one.entities)}
