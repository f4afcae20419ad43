"""``KnowledgeIndex``: the write side. Add, replace and delete documents; look things up by id and name."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import Self

from graphrag_core.engine.embedded import EmbeddedEngine
from graphrag_core.engine.embedded.files import Folder
from graphrag_core.errors import EmbedderMismatch, InputError, ReadOnlyIndex
from graphrag_core.extract import SentenceExtractor
from graphrag_core.filters import Condition, Filter, Group, Where, optional, parse
from graphrag_core.ingest import told_facts
from graphrag_core.ingest.chunker import Chunker
from graphrag_core.ingest.embedding import CheckedEmbedder
from graphrag_core.ingest.pipeline import NO_EMBEDDER, Embeds, Pipeline
from graphrag_core.ingest.told_facts import Time
from graphrag_core.model import (
    Added,
    Chunk,
    Document,
    Entity,
    Estimate,
    Fact,
    FactSource,
    FactStatus,
    Stats,
    Verification,
)
from graphrag_core.ports import Embedder, Engine, Extractor, Keys, Snapshot
from graphrag_core.research import research_documents
from graphrag_core.text import normalise

_CHUNKER = Chunker()


class KnowledgeIndex:
    """An index of documents: their chunks, entities and facts.

    Parameters
    ----------
    embedder
        Anything with ``embed_documents(list[str])`` and ``embed_query(str)``. Without one the index has no
        vectors and serves keyword and graph search; it needs no model. An index that was built with an
        embedder can be opened without it, to inspect it, delete documents and search by keyword and graph.
    chunker
        How documents are cut into chunks; None keeps every document whole.
    extractor
        How entities and facts are extracted from chunks; the default needs no model.
    embed_facts
        Whether facts are embedded as well as indexed by keyword. This improves recall by a few
        points where questions paraphrase, and costs about three times as much as embedding the
        chunks. By default on for an embedder that runs in this process (``WordLlama``,
        ``Onnx``) and off for others, which may cost money; :meth:`estimate` returns the cost.
        Fixed when the first documents are added.
    embed_names
        The same for the names of entities, by which a question that names no entity finds
        some. By default on if the cost of embedding is negligible (``WordLlama``).
    merge_similar
        Cosine similarity from which two entity names are merged into one entity, such as 0.95;
        needs ``embed_names``. Off by default.
    batch_size
        The number of documents in a transaction. A list of up to this many is added completely or not
        at all; a longer one is so batch by batch. Of an iterator, long documents make smaller batches.
    progress
        True or False to force progress bars; None shows them on a terminal.
    engine
        What stores and searches the index; by default an embedded engine in memory. Use
        :meth:`open` for one in a folder.

    An index is safe to use from many threads.
    """

    def __init__(
        self,
        embedder: Embedder | None = None,
        *,
        chunker: Chunker | None = _CHUNKER,
        extractor: Extractor | None = None,
        embed_facts: bool | None = None,
        embed_names: bool | None = None,
        merge_similar: float | None = None,
        batch_size: int = 1_000,
        progress: bool | None = None,
        engine: Engine | None = None,
    ) -> None:
        if batch_size < 1:
            raise InputError(f"batch_size is {batch_size}: it must be at least 1")
        if engine is not None and merge_similar is not None:
            raise InputError("merge_similar is a setting of the engine: pass it to the engine")
        self.embedding = None if embedder is None else CheckedEmbedder(embedder)
        self.engine: Engine = EmbeddedEngine(merge_similar=merge_similar) if engine is None else engine
        self.path: Path | None = getattr(self.engine, "path", None)
        self.read_only = bool(getattr(self.engine, "read_only", False))
        self.batch_size = batch_size
        self._one_writer = threading.RLock()
        self.pipeline = Pipeline(
            self.engine,
            chunker=chunker,
            extractor=extractor or SentenceExtractor(),
            embedder=self.embedding,
            embeds=self._check_settings(embed_facts, embed_names),
            batch_size=batch_size,
            progress=progress,
        )

    @classmethod
    def open(
        cls,
        path: str | Path,
        embedder: Embedder | None = None,
        *,
        read_only: bool = False,
        merge_similar: float | None = None,
        **settings: Any,
    ) -> KnowledgeIndex:
        """Open the index in a folder, which is created if absent.

        Parameters
        ----------
        path
            The folder. An index whose last writer crashed is recovered.
        embedder
            The embedder that built the index.
        read_only
            One process may write while many read. A reader sees one complete generation until
            it calls :meth:`refresh`.
        merge_similar, settings
            As for the class.

        Raises
        ------
        IndexLocked
            Another process or object is writing.
        EmbedderMismatch
            The index was built with another embedder.
        NotAnIndex, UnsupportedFormat, DiskError
            The folder cannot be used.
        """
        engine = EmbeddedEngine(path, read_only=read_only, merge_similar=merge_similar)
        try:
            return cls(embedder, engine=engine, **settings)
        except BaseException:
            engine.close()
            raise

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Return whether a folder holds an index."""
        return Folder(Path(path)).records.is_file()

    # -- writing

    def add(
        self,
        documents: Iterable[Document],
        *,
        vectors: Mapping[str, Sequence[float]] | None = None,
        embeddings: Mapping[str, Sequence[float]] | None = None,
    ) -> Added:
        """Add documents; replace those whose id exists with other content.

        Unchanged documents are skipped. Any iterable will do, also one of millions of documents:
        a few batches are in memory at a time.

        Parameters
        ----------
        documents
            What to add.
        vectors
            Vectors by document id, computed by the index's embedder: such a document is not
            embedded again. It must be a single chunk, as with ``chunker=None``. Ids of other
            documents are ignored.
        embeddings
            Vectors by text, for the texts that :meth:`to_embed` returned, computed before the
            call, such as on an event loop. Missing texts are embedded by the index's embedder.

        Raises
        ------
        DocumentError
            A document cannot be indexed; nothing of its batch was added.
        EmbedderError
            The embedder failed; nothing of the batch was added.
        """
        if isinstance(documents, Document):
            raise InputError("add takes an iterable of documents: add([document])")
        if self.read_only:
            raise ReadOnlyIndex(f"{self.path} was opened with read_only=True: open it for writing to add documents")
        with self._one_writer:
            return self.pipeline.add(documents, vectors or {}, embeddings or {})

    def add_research_findings(self, findings: Any) -> Added:
        """Add the papers and projects of research findings as documents with typed entities and facts.

        Parameters
        ----------
        findings
            ``{"academic_papers": [...], "github_projects": [...]}``, one of the two, or a list of such
            objects (:func:`graphrag_core.research.research_documents`).

        Raises
        ------
        InputError
            These are no research findings.

        Examples
        --------
        >>> index = KnowledgeIndex()
        >>> paper = {"arxiv_id": "2501.03236", "title": "MAGMA Memory", "abstract": "A memory of four graphs."}
        >>> index.add_research_findings({"academic_papers": [paper]}).added
        1
        >>> index.entity("2501.03236").name
        'MAGMA Memory'
        """
        return self.add(research_documents(findings))

    def delete(self, document_ids: str | Iterable[str]) -> int:
        """Delete documents with their chunks and facts; return how many existed.

        All or nothing. When this returns no query finds them and the records do not contain
        their text; :meth:`compact` removes the last traces from the search indexes.
        """
        if self.read_only:
            raise ReadOnlyIndex(f"{self.path} was opened with read_only=True: open it for writing to delete documents")
        with self._one_writer:
            ids = [document_ids] if isinstance(document_ids, str) else list(document_ids)
            existing = list(self.engine.stored(ids))
            if existing:
                self.engine.write(removed=existing)
                self.engine.flush()
            return len(existing)

    def rebuild(self) -> None:
        """Build the search indexes again from the records; nothing is embedded."""
        with self._one_writer:
            self.engine.rebuild()

    def compact(self) -> None:
        """Remove all traces of deleted documents from the files and release their space."""
        with self._one_writer:
            self.engine.compact()

    def refresh(self) -> bool:
        """Let a read-only index see what was written since; return whether anything was."""
        changed = self.engine.refresh()
        if changed:
            self.pipeline.embeds = self._check_settings(None, None)
        return changed

    def close(self) -> None:
        """Save the search indexes and release locks and files. Closing twice does nothing."""
        with self._one_writer:
            self.engine.close()

    # -- facts that are told

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
        supersedes: bool | str | Fact | Iterable[str | Fact] = False,
    ) -> Fact:
        """Store a fact that was told, and return it. A fact that was told before in the same scope is updated.

        A told fact is stored as a document: it is searched, filtered and deleted like one, and copied with
        :meth:`documents` and :meth:`add`.

        Parameters
        ----------
        subject, relation, object
            The triple. Subject and object are entities.
        literal
            True if the object is a value ("dark mode") and no entity.
        source, confidence
            Where the fact comes from and how certain it is, from 0 to 1: what
            :class:`~graphrag_core.Relevance` weighs.
        status
            ``"staged"``, ``"confirmed"`` or ``"rejected"``. By default the status that the fact has; of a new fact
            confirmed if the user told it (``source="user_edit"``), else staged. So a fact that was rejected stays
            so when it is heard again.
        metadata
            The scope, such as ``{"user": "ada"}``, for ``where``. The same triple in another scope is another fact.
        valid_from, valid_to
            When it is valid: from the first until just before the second. A date, "2024-05-01", a datetime, or
            seconds since the epoch. ``as_of`` of a query selects by them.
        supersedes
            Facts of the same scope that this one replaces, by id, or True for all told facts of the same subject
            and relation with another object that are valid when this one begins. They end where this one begins: at
            ``valid_from``, by default now. A rejected fact supersedes nothing.

        Raises
        ------
        InputError
            A part of the fact cannot be used, or there is no fact to supersede with such an id.
        """
        now, scope = time.time(), told_facts.check_scope(metadata or {})
        if status is not None:
            told_facts.check_status(status)
        start = None if valid_from is None else told_facts.seconds(valid_from, "valid_from")
        fact = told_facts.make_fact(
            subject, relation, object, literal=literal, source=source, confidence=confidence,
            status=status or ("confirmed" if source == "user_edit" else "staged"),
            valid_from=valid_from, valid_to=valid_to, created=now,
        )  # fmt: skip
        with self._one_writer:
            told = self._told_as(scope, "triple", told_facts.triple_key(subject, relation, object))
            same = [known for known in told if (_is_valid(known, now) if start is None else known.valid_from == start)]
            if same:
                known = same[-1]
                spelling = known if bool(known.value) == literal else fact  # as it was told first
                fact = replace(
                    spelling, confidence=fact.confidence, source=fact.source, status=status or known.status,
                    created=known.created, valid_from=known.valid_from,
                    valid_to=known.valid_to if valid_to is None else fact.valid_to, chunk_id=known.chunk_id,
                )  # fmt: skip
            elif told and start is None and valid_to is None:  # true again
                fact = replace(fact, valid_from=now, status=status or told[-1].status)
            superseded = [] if fact.status == "rejected" else self._superseded(fact, supersedes, scope, now)
            if superseded and fact.valid_from is None:
                fact = replace(fact, valid_from=now)
            changed = [told_facts.to_document(fact, scope)]
            for known in superseded:
                end = max(_start(known), _start(fact))
                if known.valid_to is None or known.valid_to > end:
                    changed.append(told_facts.to_document(replace(known, valid_to=end), scope))
            self.add(changed)
        return told_facts.to_fact(changed[0])

    def _superseded(
        self, fact: Fact, supersedes: bool | str | Fact | Iterable[str | Fact], scope: dict[str, Any], now: float
    ) -> list[Fact]:
        """Return the facts that a fact supersedes, all of them of its scope."""
        if not isinstance(supersedes, bool):
            listed = [supersedes] if isinstance(supersedes, (str, Fact)) else list(supersedes)
            for one in listed:
                document = self.get(_told_id(one))
                if document is not None and told_facts.scope_of(document) != scope:
                    raise _unknown_fact(document.id)
            facts = [self._told(one, None) for one in listed]
            return [known for known in facts if known.chunk_id != fact.chunk_id]
        if not supersedes:
            return []
        begins = now if fact.valid_from is None else fact.valid_from
        own = told_facts.triple_of(fact)
        return [
            known
            for known in self._told_as(scope, "about", told_facts.about_key(fact.entities[0], fact.relation))
            if told_facts.triple_of(known) != own and known.status != "rejected" and _is_valid(known, begins)
        ]

    def confirm(self, fact: str | Fact, *, where: Where | None = None) -> Fact:
        """Confirm a told fact, also one that was rejected; return it.

        Parameters
        ----------
        fact
            The fact or its id, as :meth:`remember` and queries return it.
        where
            A filter that the fact has to match, such as the user's scope.

        Raises
        ------
        InputError
            There is no such fact, or it was not told but extracted from a document.
        """
        return self._set_status(fact, "confirmed", where)

    def reject(self, fact: str | Fact, *, where: Where | None = None) -> Fact:
        """Reject a told fact: it is kept, so that it stays rejected when it is told again, and no query finds it.

        Parameters are those of :meth:`confirm`.
        """
        return self._set_status(fact, "rejected", where)

    def forget(
        self,
        facts: str | Fact | Iterable[str | Fact] | None = None,
        *,
        subject: str | None = None,
        relation: str | None = None,
        where: Where | None = None,
    ) -> int:
        """Delete told facts; return how many. All or nothing, and as exact as :meth:`delete`.

        Parameters
        ----------
        facts
            Facts or ids. Without them, all told facts that match the rest.
        subject, relation
            Restrict them to facts of this subject and relation, in any spelling or case.
        where
            A filter that they have to match, such as ``{"user": "ada"}``.
        """
        if facts is None and subject is None and relation is None and where is None:
            raise InputError("forget needs facts, a subject, a relation or a filter; where={} matches every told fact")
        with self._one_writer:
            if subject is None and relation is None:
                known = set(self.engine.document_ids(_told_filter(where)))
            else:
                known = {fact.chunk_id for fact in self.remembered(subject=subject, relation=relation, where=where)}
            if facts is not None:
                known &= {_told_id(fact) for fact in ([facts] if isinstance(facts, (str, Fact)) else facts)}
            return self.delete(sorted(known)) if known else 0

    def remembered(
        self,
        *,
        subject: str | None = None,
        relation: str | None = None,
        status: FactStatus | None = None,
        where: Where | None = None,
        as_of: Time | None = None,
    ) -> list[Fact]:
        """Return the told facts, oldest first: also those that are rejected or no longer valid.

        Parameters
        ----------
        subject, relation, status
            Restrict them, names in any spelling or case.
        where
            A filter on their metadata.
        as_of
            Only facts that were valid at this time.
        """
        if status is not None:
            told_facts.check_status(status)
        at = None if as_of is None else told_facts.seconds(as_of, "as_of")
        wanted = normalise(subject or ""), normalise(relation or "")
        facts = [told_facts.to_fact(document) for document in self._documents(_told_filter(where))]
        return sorted(
            (
                fact for fact in facts
                if wanted[0] in ("", normalise(fact.entities[0])) and wanted[1] in ("", normalise(fact.relation))
                and status in (None, fact.status) and (at is None or _is_valid(fact, at))
            ),
            key=lambda fact: (fact.created or 0.0, fact.id),
        )  # fmt: skip

    def _set_status(self, fact: str | Fact, status: FactStatus, where: Where | None) -> Fact:
        with self._one_writer:
            known = self._told(fact, where)
            document = told_facts.to_document(replace(known, status=status), self._scope_of(known))
            self.add([document])
        return told_facts.to_fact(document)

    def _told(self, fact: str | Fact, where: Where | None) -> Fact:
        """Return a told fact by id. Raise if there is none in the scope."""
        document_id = _told_id(fact)
        document = self.get(document_id)
        if document is not None and where is not None:
            inside = document_id in self.engine.document_ids(optional(parse(where)))
            document = document if inside else None
        if document is not None and told_facts.KEY in document.metadata:
            return told_facts.to_fact(document)
        if document is not None or "/" in document_id:
            raise InputError(
                f"the fact {document_id!r} was not told but extracted from a document: edit or delete the document, "
                "or tell the fact with remember"
            )
        raise _unknown_fact(document_id)

    def _told_as(self, scope: Mapping[str, Any], key: str, value: str) -> list[Fact]:
        """Return the told facts of exactly this scope whose key has a value, oldest first."""
        stored = f"{told_facts.KEY}.{key}"
        told = Group(all=True, parts=(Condition(stored, "exists", ()), Condition(stored, "eq", (("text", value),))))
        found = [
            told_facts.to_fact(document) for document in self._documents(told) if told_facts.scope_of(document) == scope
        ]
        return sorted(found, key=lambda fact: (_start(fact), fact.created or 0.0))

    def _scope_of(self, fact: Fact) -> dict[str, Any]:
        document = self.get(fact.chunk_id)
        return told_facts.scope_of(document) if document else {}

    def _documents(self, scope: Filter) -> Iterator[Document]:
        for document_id in list(self.engine.document_ids(scope)):
            if (document := self.engine.document(document_id)) is not None:
                yield document

    # -- documents

    def get(self, document_id: str) -> Document | None:
        """Return a document as it was added, or None."""
        return self.engine.document(document_id)

    def documents(self) -> Iterator[Document]:
        """Yield all documents in order of id, one at a time."""
        for document_id in self.engine.document_ids():
            if (document := self.engine.document(document_id)) is not None:
                yield document

    def document_ids(self, where: Where | None = None) -> list[str]:
        """Return the ids of the documents that match a filter, in order of id.

        Raises
        ------
        FilterError
            The filter is malformed, or has a key that no document has.
        """
        return list(self.engine.document_ids(None if where is None else parse(where)))

    def incomplete(self, document_ids: Iterable[str]) -> list[str]:
        """Return those ids that are not in the index, or whose extraction failed in part."""
        ids = list(document_ids)
        stored = self.engine.stored(ids)
        return [document_id for document_id in ids if document_id not in stored or not stored[document_id].digest]

    def __len__(self) -> int:
        return len(self.engine)

    def __contains__(self, document_id: object) -> bool:
        return isinstance(document_id, str) and bool(self.engine.stored([document_id]))

    def chunks(self, document_id: str) -> list[Chunk]:
        """Return a document's chunks, in order."""
        return self.engine.chunks_of(document_id)

    # -- entities and facts

    def entity(self, name: str) -> Entity | None:
        """Return the entity of a name, in any spelling or case, or None."""
        with self._snapshot() as snapshot:
            keys = _entity_keys(snapshot, name)
            return snapshot.entities(keys)[0] if len(keys) else None

    def facts(self, name: str) -> list[Fact]:
        """Return the facts that hold an entity, in order of id."""
        with self._snapshot() as snapshot:
            return sorted(snapshot.facts(snapshot.facts_of(_entity_keys(snapshot, name))), key=lambda fact: fact.id)

    def related(self, name: str) -> list[tuple[Entity, float]]:
        """Return the entities that share a fact with an entity, and the weights of the edges, strongest first."""
        with self._snapshot() as snapshot:
            keys = _entity_keys(snapshot, name)
            edges = snapshot.neighbours(keys, to="entities")
            own = {entity.id for entity in snapshot.entities(keys)}
            found: dict[str, tuple[Entity, float]] = {}
            for entity, weight in zip(snapshot.entities(edges.targets), edges.weights.tolist(), strict=True):
                if entity.id not in own:  # a section and what it is about are one
                    found[entity.id] = entity, max(weight, found.get(entity.id, (entity, 0.0))[1])
            return sorted(found.values(), key=lambda pair: (-pair[1], pair[0].id))

    def _snapshot(self) -> AbstractContextManager[Snapshot]:
        """Open a snapshot of what is valid now."""
        return self.engine.snapshot(told_facts.visible(self.engine, None, time.time()))

    # -- the whole index

    def estimate(self, documents: Iterable[Document]) -> Estimate:
        """Return what adding documents would cost to embed, without embedding anything."""
        return self.pipeline.estimate(documents)

    def to_embed(self, documents: Iterable[Document]) -> list[str]:
        """Return the texts that adding documents would embed, each once. Nothing is embedded or written.

        Compute their vectors in any way and pass them to :meth:`add` as ``embeddings``. Unchanged
        documents, and chunks and facts whose vector is stored, need no embedding.
        """
        return self.pipeline.to_embed(documents)

    def stats(self) -> Stats:
        """Return the size of the index and its most frequent entities."""
        return self.engine.stats()

    def verify(self) -> Verification:
        """Compare records, vectors, keywords and graph with each other, completely."""
        return self.engine.verify()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<KnowledgeIndex {self.engine!r}>"

    # -- settings

    def _check_settings(self, facts: bool | None, names: bool | None) -> Embeds:
        """Check the settings against those stored with the index, or choose them for a new one."""
        stored, embedding, name = self.engine.settings(), self.embedding, self.path or "the index"
        built_with = stored.get("embedder", "")
        if embedding is None and (facts or names):
            raise InputError("embed_facts and embed_names need an embedder: pass one, or leave them out")
        if embedding is not None:
            if built_with == NO_EMBEDDER:
                raise EmbedderMismatch(
                    f"{name} was built without an embedder and has no vectors: "
                    "open it without one, or index the documents again into another folder"
                )
            if built_with and built_with != embedding.identity:
                raise EmbedderMismatch(
                    f"{name} was built with {built_with}, not with {embedding.identity}: "
                    "open it with that embedder, or index the documents again into another folder"
                )
            embedding.dim = int(stored.get("dim", "0")) or None
        if not built_with:
            negligible = embedding is not None and embedding.embedded
            local = embedding is not None and embedding.local
            return Embeds(facts=local if facts is None else facts, names=negligible if names is None else names)
        embeds = Embeds(**json.loads(stored["embeds"]))
        for setting, asked, value in (("facts", facts, embeds.facts), ("names", names, embeds.names)):
            if asked is not None and asked != value:
                raise InputError(
                    f"{name} was built with embed_{setting}={value}: leave the setting out, "
                    "or index the documents again into another folder"
                )
        return embeds


def _told_id(fact: str | Fact) -> str:
    """Return the id of a told fact's document. The id of a fact ends with its number in the document."""
    document_id = fact.chunk_id or fact.id if isinstance(fact, Fact) else fact
    if not isinstance(document_id, str) or not document_id:
        raise InputError(f"{fact!r:.80} is no fact: pass a fact or its id")
    return document_id.removesuffix("/0")


def _told_filter(where: Where | None) -> Filter:
    """Return a filter for told facts, and for another filter if one is given."""
    told = Condition(f"{told_facts.KEY}.subject", "exists", ())
    return told if where is None else Group(all=True, parts=(told, optional(parse(where))))


def _unknown_fact(document_id: str) -> InputError:
    return InputError(f"there is no fact {document_id!r} in this scope: use the id that remember or a query returned")


def _start(fact: Fact) -> float:
    return -math.inf if fact.valid_from is None else fact.valid_from


def _is_valid(fact: Fact, at: float) -> bool:
    return (fact.valid_from is None or fact.valid_from <= at) and (fact.valid_to is None or at < fact.valid_to)


def _entity_keys(snapshot: Snapshot, name: str) -> Keys:
    """Return the key of a name's entity; none if it is unknown."""
    return np.array(list(snapshot.find_entities([normalise(name)]).values()), np.int64)
