"""Facts that are stated directly, without a document. Each is stored as a small document.

The document's text is the fact in words, its metadata the scope that the caller gave, and under the key
``graphrag_fact`` the fact itself. So a remembered fact is stored, searched, filtered, copied to another index and
deleted like any document, and whatever the index's extractor is, it is read from the metadata.

A rejected fact, and one that is not valid at the time of a query, is hidden by a filter on that metadata, as if it
were outside the query's scope: :func:`visible`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime, timezone
from typing import TYPE_CHECKING, Any, get_args

from graphrag_core.errors import InputError
from graphrag_core.filters import Filter, Group, Hidden, Internal, Value, json_value
from graphrag_core.model import Chunk, Document, Extraction, Fact, FactSource, FactStatus, Mention
from graphrag_core.text import fingerprint, normalise

if TYPE_CHECKING:
    from graphrag_core.engine.engine import IndexEngine

Time = float | str | date
"""Seconds since the epoch, a date, or an ISO 8601 text such as "2024-05-01". Without a time zone: UTC."""

FACT_KEY = "graphrag_fact"
"""The metadata key of a remembered fact."""

SETTING = "hides_facts"
"""The setting of an index that has, or had, facts that may have to be hidden. Without it, no query looks for them."""

STATUSES: tuple[str, ...] = get_args(FactStatus)
SOURCES: tuple[str, ...] = get_args(FactSource)

_FIRST, _LAST = -62_135_596_800, 253_402_300_800  # the years 1 to 9999
_LONGEST = 300  # characters of a name
_TEXTS = ("subject", "relation", "object", "source", "status")
_TIMES = ("created", "valid_from", "valid_to")


def to_document(fact: Fact, metadata: Mapping[str, Any], salt: str = "") -> Document:
    """Return a fact as a document with some metadata.

    Its ``chunk_id``, if it has one, is the document's id. Else the id is a hash with the salt of the index.
    """
    subject, target = fact.entities[0], fact.value or fact.entities[1]
    stored: dict[str, Any] = {
        "subject": subject, "relation": fact.relation, "object": target,
        "about": about_key(subject, fact.relation),
    }  # fmt: skip
    if fact.value:
        stored["literal"] = True
    stored |= {"confidence": fact.confidence, "source": fact.source, "status": fact.status}
    stored |= {name: time for name in _TIMES if (time := getattr(fact, name)) is not None}
    document_id = fact.chunk_id
    if not document_id:
        scope = json.dumps(dict(metadata), sort_keys=True)
        document_id = "fact:" + fingerprint([salt, triple_of(fact), str(fact.valid_from), scope])[:16]
    return Document(document_id, fact.text, metadata={**metadata, FACT_KEY: stored})


def to_fact(document: Document | Chunk) -> Fact:
    """Return the fact of a document that :func:`to_document` made; raise ``InputError`` if it has no valid one."""
    stored = document.metadata[FACT_KEY]
    if not isinstance(stored, Mapping) or not all(isinstance(stored.get(name), str) for name in _TEXTS):
        raise InputError(f"metadata[{FACT_KEY!r}] must have the texts {', '.join(_TEXTS)}: use index.memory.remember")
    document_id = document.document_id if isinstance(document, Chunk) else document.id
    span = 0, len(document.text)
    return replace(make_fact(stored), text=document.text, span=span, id=f"{document_id}/0", chunk_id=document_id)


def make_fact(stored: Mapping[str, Any]) -> Fact:
    """Return a fact after checking all parts of it. ``stored`` has the keys of :func:`to_document`."""
    literal, confidence = bool(stored.get("literal")), stored.get("confidence", 1.0)
    subject, relation = _part(stored, "subject"), _part(stored, "relation", is_name=False)
    target = _part(stored, "object", is_name=not literal)
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or not 0 <= confidence <= 1:
        raise InputError(f"the confidence is {confidence!r}: use a number from 0 to 1")
    if stored["source"] not in SOURCES:
        raise InputError(f"unknown source {stored['source']!r}: use one of {', '.join(SOURCES)}")
    check_status(stored["status"])
    created, start, end = (None if (time := stored.get(name)) is None else seconds(time, name) for name in _TIMES)
    if start is not None and end is not None and start > end:
        validity = f"valid_from is {stored['valid_from']!r}, valid_to {stored['valid_to']!r}"
        raise InputError(f"the fact ends before it begins: {validity}")
    text = f"{subject} {relation.replace('_', ' ')} {target}"
    return Fact(
        (subject,) if literal else (subject, target), text, relation, confidence=float(confidence),
        source=stored["source"], status=stored["status"], value=target if literal else "", created=created,
        valid_from=start, valid_to=end,
    )  # fmt: skip


def _part(stored: Mapping[str, Any], name: str, *, is_name: bool = True) -> str:
    """Return a part of a triple in one line; raise unless it is a text, and if it must be one, a name."""
    text = stored[name]
    joined = " ".join(text.split()) if isinstance(text, str) else ""
    if not joined:
        raise InputError(f"the {name} of a fact is {text!r}: it must be a text that is not blank")
    if is_name and (not normalise(joined) or len(joined) > _LONGEST):
        hint = "; pass literal=True for a value that is not an entity" if name == "object" else ""
        raise InputError(
            f"the {name} {joined!r:.80} is not a name of an entity: it needs a letter or digit, and at most "
            f"{_LONGEST} characters{hint}"
        )
    return joined


def extract(chunk: Chunk) -> Extraction:
    """Return the fact of a remembered document's chunk; nothing of a rejected one."""
    fact = to_fact(chunk)
    if fact.status == "rejected":
        return Extraction()
    about, *others = fact.entities
    mentions = (Mention(about, subject=True), *(Mention(name) for name in others if name != about))
    return Extraction(mentions, (fact,))


def check_scope(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a remembered fact as it will be read back."""
    if not isinstance(metadata, Mapping) or FACT_KEY in metadata:
        raise InputError(
            f"the metadata must be a mapping such as {{'user': 'ada'}} without the reserved key {FACT_KEY!r}"
        )
    try:
        return dict(json_value(dict(metadata), "metadata"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"the metadata cannot be stored: {error}") from error


def scope_of(document: Document) -> dict[str, Any]:
    """Return the metadata of a remembered fact without the fact."""
    return {name: value for name, value in document.metadata.items() if name != FACT_KEY}


def about_key(subject: str, relation: str) -> str:
    """Return what is the same for all facts of a subject and a relation."""
    return fingerprint([normalise(subject), normalise(relation)])[:16]


def triple_of(fact: Fact) -> str:
    """Return a key that is equal for facts whose triples differ only in spelling."""
    target = fact.value or fact.entities[1]
    return fingerprint([normalise(fact.entities[0]), normalise(fact.relation), normalise(target) or target])[:16]


def check_status(status: object) -> None:
    """Raise :class:`InputError` unless a status is one of those that a fact can have."""
    if status not in STATUSES:
        raise InputError(f"unknown status {status!r}: use one of {', '.join(STATUSES)}")


def seconds(time: Time, name: str) -> float:
    """Return a time in seconds since the epoch; ``name`` is the argument's.

    >>> seconds("2024-05-01", "as_of"), seconds("2024-05-01T02:00:00+02:00", "as_of")
    (1714521600.0, 1714521600.0)
    """
    parsed: object = time
    if isinstance(time, str):
        try:
            parsed = datetime.fromisoformat(time.strip().replace("Z", "+00:00"))
        except ValueError:
            parsed = None
    elif isinstance(time, date) and not isinstance(time, datetime):
        parsed = datetime(time.year, time.month, time.day, tzinfo=timezone.utc)
    if isinstance(parsed, datetime):
        return (parsed if parsed.tzinfo else parsed.replace(tzinfo=timezone.utc)).timestamp()
    if isinstance(parsed, (int, float)) and not isinstance(parsed, bool) and _FIRST <= parsed < _LAST:
        return float(parsed)
    raise InputError(f"{name} is {time!r}: use a date such as '2024-05-01', a datetime, or seconds since the epoch")


# -- what a query may see


def may_hide(document: Document) -> bool:
    """Return whether a document is a remembered fact that may have to be hidden from a query."""
    stored = document.metadata.get(FACT_KEY, {})
    return stored.get("status") == "rejected" or "valid_from" in stored or "valid_to" in stored


def visible(engine: IndexEngine, scope: Filter | None, at: float) -> Filter | None:
    """Return a scope without the facts that are rejected, or not valid at a time.

    A fact is valid from ``valid_from`` on and until just before ``valid_to``.
    """
    return visible_by(engine.settings(), scope, at)


def visible_by(settings: Mapping[str, str], scope: Filter | None, at: float) -> Filter | None:
    """Return the same as :func:`visible`, given the settings of the index."""
    if SETTING not in settings:
        return scope
    invalid = (
        condition("status", "eq", ("text", "rejected")),
        condition("valid_from", "gt", ("number", at)),
        condition("valid_to", "lte", ("number", at)),
    )
    hidden = Group(all=False, parts=invalid)
    return Hidden(hidden) if scope is None else Group(all=True, parts=(scope, Hidden(hidden)))


def changes_between(engine: IndexEngine, start: float, end: float) -> bool:
    """Return whether the validity of any fact begins or ends in the interval ``(start, end]``."""
    if end <= start or SETTING not in engine.settings():
        return False
    changes = tuple(
        Group(all=True, parts=(condition(name, "gt", ("number", start)), condition(name, "lte", ("number", end))))
        for name in ("valid_from", "valid_to")
    )
    return next(iter(engine.document_ids(Group(all=False, parts=changes))), None) is not None


def condition(name: str, operator: str, value: Value) -> Filter:
    """Return a condition on a remembered fact."""
    return Internal(f"{FACT_KEY}.{name}", operator, (value,))
