"""``index.memory``: facts that a user or an agent states, instead of a document."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from graphrag_core.errors import ChangedMeanwhile, InputError
from graphrag_core.filters import Internal, Where, parse, parse_all
from graphrag_core.ingest import remembered
from graphrag_core.ingest.pipeline import Pipeline
from graphrag_core.ingest.remembered import FACT_KEY, Time
from graphrag_core.model import Document, Fact, FactSource, FactStatus
from graphrag_core.text import normalise


class Memory:
    """The remembered facts of an index: ``index.memory``.

    A remembered fact is stored as a document: it is searched, filtered, deleted and copied like one.

    Examples
    --------
    >>> from graphrag_core import KnowledgeIndex
    >>> index = KnowledgeIndex()
    >>> fact = index.memory.remember("Ada", "prefers", "dark mode", literal=True)
    >>> [fact.text for fact in index.memory.facts(subject="ada")]
    ['Ada prefers dark mode']
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._engine = pipeline.engine

    def remember(
        self,
        subject: str,
        relation: str,
        object: str,  # noqa: A002 - the usual word
        *,
        literal: bool = False,
        source: FactSource = "user_edit",
        confidence: float = 1.0,
        status: FactStatus | None = None,
        metadata: Mapping[str, Any] | None = None,
        valid_from: Time | None = None,
        valid_to: Time | None = None,
        supersedes: bool = False,
    ) -> Fact:
        """Store a fact and return it. A fact that was remembered before in the same scope is updated.

        Parameters
        ----------
        subject, relation, object
            The triple. Subject and object are entities.
        literal
            True if the object is a value ("dark mode") and no entity.
        source, confidence
            Where the fact comes from and how certain it is, from 0 to 1: what
            :class:`~graphrag_core.strategies.Relevance` weighs.
        status
            ``"staged"``, ``"confirmed"`` or ``"rejected"``. By default a known fact keeps its status, also
            ``"rejected"``; a new fact is confirmed if the user states it (``source="user_edit"``), else staged.
        metadata
            The scope, such as ``{"user": "ada"}``, for ``where``. The same triple in another scope is another fact.
        valid_from, valid_to
            When it is valid: from the first until just before the second. A date, "2024-05-01", a datetime, or
            seconds since the epoch. ``as_of`` of a query selects by them.
        supersedes
            Whether it replaces the remembered facts of the same scope, subject and relation with another object that
            are valid when it begins. They end at its ``valid_from``, by default now. A rejected fact replaces nothing.

        Raises
        ------
        InputError
            A part of the fact cannot be used.
        """
        now, scope = time.time(), remembered.check_scope(metadata or {})
        if not isinstance(supersedes, bool):
            raise InputError(f"supersedes is {supersedes!r:.80}: pass True or False")
        default: FactStatus = "confirmed" if source == "user_edit" else "staged"
        fact = remembered.make_fact({
            "subject": subject, "relation": relation, "object": object, "literal": literal, "source": source,
            "confidence": confidence, "status": default if status is None else status, "created": now,
            "valid_from": valid_from, "valid_to": valid_to,
        })  # fmt: skip
        with self._pipeline.writing():
            known, triple = self._known(fact, scope), remembered.triple_of(fact)
            fact = _updated(fact, [one for one in known if remembered.triple_of(one) == triple], status, now)
            begins = now if fact.valid_from is None else fact.valid_from
            ended = _rivals(known, triple, begins) if supersedes and fact.status != "rejected" else []
            changed = [replace(fact, valid_from=begins) if ended else fact]
            changed += [replace(one, valid_to=begins) for one in ended]
            added = [remembered.to_document(one, scope, self._salt()) for one in changed]
            self._pipeline.add(added)
        return remembered.to_fact(added[0])

    def _known(self, fact: Fact, scope: Mapping[str, Any]) -> list[Fact]:
        """Return the facts of exactly this scope with a fact's subject and relation, oldest first."""
        about = remembered.about_key(fact.entities[0], fact.relation)
        documents = self.documents(remembered.condition("about", "eq", ("text", about)))
        known = [remembered.to_fact(one) for one in documents if remembered.scope_of(one) == scope]
        starts = {one.id: -math.inf if one.valid_from is None else one.valid_from for one in known}
        return sorted(known, key=lambda one: (starts[one.id], one.created or 0.0))

    def _salt(self) -> str:
        """Return the random salt of the index, which is created with its first use.

        It is hashed with the content of which an id is made, so that nobody can test by an id whether it is stored.
        """
        if "salt" not in self._engine.settings():
            with suppress(ChangedMeanwhile):  # another process was faster
                self._engine.write(settings={"salt": secrets.token_hex(16)}, expected={"salt": ""})
        return self._engine.settings()["salt"]

    def confirm(self, fact: str | Fact, *, where: Where | None = None) -> Fact:
        """Confirm a remembered fact, also a rejected one; return it.

        ``fact`` is a fact or its id, ``where`` a filter that it has to match, such as the user's scope. Raises
        ``InputError`` if there is no such fact, or if it was extracted from a document.
        """
        return self._set_status(fact, "confirmed", where)

    def reject(self, fact: str | Fact, *, where: Where | None = None) -> Fact:
        """Reject a remembered fact: it stays rejected when it is remembered again, and no query finds it."""
        return self._set_status(fact, "rejected", where)

    def forget(
        self,
        facts: str | Fact | Iterable[str | Fact] | None = None,
        *,
        subject: str | None = None,
        relation: str | None = None,
        where: Where | None = None,
    ) -> int:
        """Delete remembered facts; return how many. All or nothing, and as exact as ``KnowledgeIndex.delete``.

        Parameters
        ----------
        facts
            Facts or ids. Without them, all remembered facts that match the rest.
        subject, relation, where
            Only facts of this subject and relation, in any spelling or case, that match this filter.
        """
        if facts is None and subject is None and relation is None and where is None:
            raise InputError(
                "forget needs facts, a subject, a relation or a filter; where={} matches every remembered fact"
            )
        with self._pipeline.writing():
            known = {fact.chunk_id for fact in self.facts(subject=subject, relation=relation, where=where)}
            if facts is not None:
                known &= set(map(_document_id, [facts] if isinstance(facts, (str, Fact)) else facts))
            return self._pipeline.delete(sorted(known))

    def facts(
        self,
        *,
        subject: str | None = None,
        relation: str | None = None,
        status: FactStatus | None = None,
        where: Where | None = None,
        as_of: Time | None = None,
    ) -> list[Fact]:
        """Return the remembered facts, oldest first, also rejected ones and ones that are no longer valid.

        Only facts of this subject and relation (in any spelling or case), status, metadata (``where``) and of the time
        ``as_of`` are returned, if these are given.
        """
        if status is not None:
            remembered.check_status(status)
        moment = None if as_of is None else remembered.seconds(as_of, "as_of")
        subject, relation = normalise(subject or ""), normalise(relation or "")
        facts = [
            fact for fact in map(remembered.to_fact, self.documents(where))
            if subject in ("", normalise(fact.entities[0])) and relation in ("", normalise(fact.relation))
            and status in (None, fact.status) and (moment is None or _is_valid(fact, moment))
        ]  # fmt: skip
        return sorted(facts, key=lambda fact: (fact.created or 0.0, fact.id))

    def documents(self, where: Where | None = None) -> Iterator[Document]:
        """Yield the documents in which the facts are stored."""
        ids = list(self._engine.document_ids(parse_all(Internal(f"{FACT_KEY}.subject", "exists", ()), where)))
        return (document for document in map(self._engine.document, ids) if document is not None)

    def _set_status(self, fact: str | Fact, status: FactStatus, where: Where | None) -> Fact:
        document_id = _document_id(fact)
        with self._pipeline.writing():
            document = self._engine.document(document_id)
            if where is not None and document_id not in self._engine.document_ids(parse(where)):
                document = None
            if document is None or FACT_KEY not in document.metadata:
                if document is not None or "/" in document_id:
                    raise InputError(
                        f"the fact {document_id!r} was extracted from a document: edit or delete the document, or "
                        "state the fact with remember"
                    )
                raise InputError(f"there is no fact {document_id!r} in this scope: use an id that remember returned")
            changed = replace(remembered.to_fact(document), status=status)
            changed_document = remembered.to_document(changed, remembered.scope_of(document))
            self._pipeline.add([changed_document])
        return remembered.to_fact(changed_document)


def _updated(fact: Fact, stored: Sequence[Fact], status: FactStatus | None, now: float) -> Fact:
    """Return a fact as an update of the last of the ``stored`` ones, of the same triple, that is valid then."""
    start = fact.valid_from
    same = [known for known in stored if (_is_valid(known, now) if start is None else known.valid_from == start)]
    if same:
        known = same[-1]
        spelling = known if bool(known.value) == bool(fact.value) else fact  # the first spelling is kept
        return replace(
            spelling, confidence=fact.confidence, source=fact.source, status=status or known.status,
            created=known.created, valid_from=known.valid_from,
            valid_to=known.valid_to if fact.valid_to is None else fact.valid_to, chunk_id=known.chunk_id,
        )  # fmt: skip
    if stored and start is None and fact.valid_to is None:  # true again
        return replace(fact, valid_from=now, status=status or stored[-1].status)
    return fact


def _rivals(known: Iterable[Fact], triple: str, at: float) -> list[Fact]:
    """Return the facts with another triple that are valid at a time."""
    others = (one for one in known if remembered.triple_of(one) != triple and one.status != "rejected")
    return [one for one in others if _is_valid(one, at)]


def _document_id(fact: str | Fact) -> str:
    """Return the id of a fact's document. The id of a fact ends with its number in the document."""
    document_id = fact.chunk_id or fact.id if isinstance(fact, Fact) else fact
    if not isinstance(document_id, str) or not document_id:
        raise InputError(f"{fact!r:.80} is not a fact: pass a fact or its id")
    return document_id.removesuffix("/0")


def _is_valid(fact: Fact, at: float) -> bool:
    return (fact.valid_from is None or fact.valid_from <= at) and (fact.valid_to is None or at < fact.valid_to)
