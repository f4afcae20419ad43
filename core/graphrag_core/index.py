"""``KnowledgeIndex``: the write side. Add, replace and delete documents; look things up by id and name."""

from __future__ import annotations

import json
import logging
import math
import pickle
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from copy import deepcopy
from dataclasses import asdict, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm
from typing_extensions import Self

from graphrag_core import forks
from graphrag_core.communities import Communities
from graphrag_core.engine.address import is_address, is_url, shown
from graphrag_core.engine.embedded import EmbeddedEngine
from graphrag_core.engine.embedded.files import Folder
from graphrag_core.engine.shortest_path import shortest_path
from graphrag_core.errors import ChangedMeanwhile, EmbedderMismatch, InputError, ReadOnlyIndex
from graphrag_core.extract import SentenceExtractor
from graphrag_core.filters import Condition, Filter, Group, Where, optional, parse
from graphrag_core.ingest import told_facts
from graphrag_core.ingest.chunker import Chunker
from graphrag_core.ingest.edges import SETTING as EDGES
from graphrag_core.ingest.edges import UNFINISHED, Edge, Edges, parse_edges, stored_edges, to_setting
from graphrag_core.ingest.embedding import CheckedEmbedder
from graphrag_core.ingest.pipeline import NO_EMBEDDER, Embeds, Pipeline, clean_name
from graphrag_core.ingest.told_facts import Time
from graphrag_core.llm import as_chat_model
from graphrag_core.model import (
    Added,
    Chunk,
    Community,
    Document,
    Edit,
    EditAction,
    Entity,
    Estimate,
    Fact,
    FactSource,
    FactStatus,
    GraphPath,
    Stats,
    Verification,
)
from graphrag_core.ports import Embedder, Engine, Extractor, Keys, Snapshot, is_shared
from graphrag_core.research import research_documents
from graphrag_core.text import REFERS_TO, normalise

_log = logging.getLogger(__name__)

_CHUNKER = Chunker()
_ALL = 1 << 40  # more entities than there are
_ATTEMPTS = 10  # to change a setting that other processes change, too
_EDITS = "edits"  # the setting under which edits of the graph are stored; the engine applies them
_PAGE = 1_000


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
    edges
        Metadata fields that link documents, in addition to what their texts say: ``[("author", "author"),
        ("links", "id")]`` links documents of the same author, and a document to those whose ids it lists under
        ``links``. The first field is the source's, the second the target's; values may be lists; ``"id"`` or
        ``"$id"`` is the document's id, and its metadata ``id``; nested keys are written with dots; ``"author"``
        is short for the pair.
        Stored with the index: None keeps what is stored, other edges replace it. Then the edges of all documents
        are derived again, without extracting or embedding their texts again. An empty list removes them.
    engine
        What stores and searches the index; by default an embedded engine in memory. Use
        :meth:`open` for one in a folder.

    Notes
    -----
    An index is safe to use from many threads. A process that was forked from this one can read it and not write it. A
    pickle or a deep copy of an index in a folder opens the folder for reading; a deep copy of an index in memory is the
    index itself, and it cannot be pickled.
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
        edges: Edges | None = None,
        engine: Engine | None = None,
    ) -> None:
        if batch_size < 1:
            raise InputError(f"batch_size is {batch_size}: it must be at least 1")
        if engine is not None and merge_similar is not None:
            raise InputError("merge_similar is a setting of the engine: pass it to the engine")
        self.embedding = None if embedder is None else CheckedEmbedder(embedder)
        self.engine: Engine = EmbeddedEngine(merge_similar=merge_similar) if engine is None else engine
        self.path: Path | str | None = getattr(self.engine, "path", None)
        self.batch_size = batch_size
        self._one_writer = threading.RLock()
        self.community_store = Communities(self.engine)
        forks.watch(self)
        self.pipeline = Pipeline(
            self.engine,
            chunker=chunker,
            extractor=extractor or SentenceExtractor(),
            embedder=self.embedding,
            embeds=self._check_settings(embed_facts, embed_names),
            batch_size=batch_size,
            progress=progress,
            edges=stored_edges(self.engine.settings()),
        )
        self._set_edges(None if edges is None else parse_edges(edges))

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
        """Open the index in a folder, or in a PostgreSQL database. It is created if absent.

        Parameters
        ----------
        path
            The folder, in which one process writes; an index whose last writer crashed is recovered. Or
            ``postgresql://user@host/database?index=NAME``, where many processes read and write (extra ``postgres``).
        embedder
            The embedder that built the index.
        read_only
            One process may write while many read. A reader of a folder sees one complete generation until
            it calls :meth:`refresh`; in PostgreSQL every query sees the newest.
        merge_similar, settings
            As for the class.

        Raises
        ------
        IndexLocked
            Another process or object is writing.
        EmbedderMismatch
            The index was built with another embedder.
        NotAnIndex, DamagedIndex, UnsupportedFormat, DiskError, DatabaseError
            The folder or the database cannot be used.
        """
        engine: Engine | None = None
        try:
            engine = open_engine(path, read_only=read_only, merge_similar=merge_similar)
            return cls(embedder, engine=engine, **settings)
        except BaseException:
            if engine is not None:
                engine.close()
            raise

    @property
    def read_only(self) -> bool:
        """Whether the index can only be read: it was opened so, or inherited or copied from another process."""
        return bool(getattr(self.engine, "read_only", False))

    def _check_writable(self) -> None:
        if self.read_only:
            unspecific = f"{self.path} was opened with read_only=True: open it for writing to change it"
            raise ReadOnlyIndex(getattr(self.engine, "read_only_reason", "") or unspecific)

    def after_fork_in_child(self) -> None:
        """Replace the lock, which another thread may have held. For :mod:`graphrag_core.forks`."""
        self._one_writer = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        embedder = None if self.embedding is None else self.embedding.embedder
        if isinstance(problem := _pickling_problem(embedder), TypeError):  # a lambda may do: cloudpickle takes it
            raise InputError(
                f"the embedder {embedder!r:.80} cannot be pickled ({problem}): define its __getstate__, or open the "
                "index in the other process with KnowledgeIndex.open(path, embedder, read_only=True)"
            ) from problem
        settings = self._settings()
        if _pickling_problem(settings["extractor"]) is not None:  # such as a client of an LLM: a copy extracts nothing
            del settings["extractor"]
        return _restore, (type(self), embedder, self.engine, settings)

    def __deepcopy__(self, memo: dict[int, Any]) -> KnowledgeIndex:
        engine = deepcopy(self.engine, memo)
        if engine is self.engine:  # in memory
            return self
        return _restore(
            type(self), None if self.embedding is None else self.embedding.embedder, engine, self._settings()
        )

    def _settings(self) -> dict[str, Any]:
        pipeline = self.pipeline
        return {
            "chunker": pipeline.chunker,
            "extractor": pipeline.extractor,
            "batch_size": self.batch_size,
            "progress": pipeline.progress,
        }

    @staticmethod
    def exists(path: str | Path) -> bool:
        """Return whether a folder, or a PostgreSQL database, holds an index."""
        if is_address(path):
            from graphrag_core.engine.postgres.operations import exists  # noqa: PLC0415 - needs the extra postgres

            return exists(str(path))
        return Folder(Path(path)).records.is_file()

    # -- writing

    def add(
        self,
        documents: Iterable[Document],
        *,
        vectors: Mapping[str, Sequence[float]] | None = None,
        embeddings: Mapping[str, Sequence[float]] | None = None,
        progress: bool | None = None,
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
            documents are ignored. The mapping may be filled while the documents are read: the
            vectors of a batch are looked up when its last document was read.
        embeddings
            Vectors by text, for the texts that :meth:`to_embed` returned, computed before the
            call, such as on an event loop. Missing texts are embedded by the index's embedder.
        progress
            Whether this call shows a progress bar; None for the setting of the class.

        Raises
        ------
        DocumentError
            A document cannot be indexed; nothing of its batch was added.
        EmbedderError
            The embedder failed; nothing of the batch was added.
        """
        if isinstance(documents, Document):
            raise InputError("add takes an iterable of documents: add([document])")
        self._check_writable()
        with self._one_writer:
            # The mapping as it is: it may be filled while the documents are read.
            return self.pipeline.add(documents, {} if vectors is None else vectors, embeddings or {}, progress)

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
        self._check_writable()
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

    def compact(self) -> bool:
        """Remove all traces of deleted documents from the files and release their space.

        Returns
        -------
        bool
            False if a reader in another process keeps deleted text in the write-ahead log, and the space was not
            released. Let readers call :meth:`close`, or :meth:`refresh` now and then, and repeat the call.
        """
        with self._one_writer:
            self.community_store.drop()
            done = self.engine.compact() is not False  # other engines return None
        if not done:
            _log.warning("%s: readers keep deleted text in the write-ahead log: let them call close(), or refresh() "
                         "now and then, and call compact() again", self.path)  # fmt: skip
        return done

    def backup(self, path: str | Path) -> None:
        """Write a copy of the index to a new folder, also while documents are added or another process writes.

        The copy has everything that was committed when the call began. To restore it, open the folder, or put it in
        the place of the damaged one: the first opening for writing builds the search indexes, and nothing is embedded.
        Copying the files of an index that is open does not give a usable copy.

        Parameters
        ----------
        path
            A folder that does not exist, or is empty.

        Raises
        ------
        InputError
            The folder exists and is not empty.
        DamagedIndex, DiskError
            The records are damaged, or the copy cannot be written.
        """
        backup = getattr(self.engine, "backup", None)
        if backup is None:
            raise InputError(f"{type(self.engine).__qualname__} has no backup: use that of its database")
        backup(path)

    def refresh(self) -> bool:
        """Let a read-only index see what was written since; return whether anything was."""
        changed = self.engine.refresh()
        if changed:
            self.pipeline.embeds = self._check_settings(None, None)
            self.pipeline.edges = stored_edges(self.engine.settings())
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

    def documents(self, *, where: Where | None = None) -> Iterator[Document]:
        """Yield the documents that match a filter in order of id, one at a time; all without a filter."""
        scope = None if where is None else parse(where)
        return self._all_documents(scope)

    def _all_documents(self, scope: Filter | None) -> Iterator[Document]:
        for document_id in self.engine.document_ids(scope):
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

    def entity(self, name: str, *, where: Where | None = None) -> Entity | None:
        """Return the entity of a name, in any spelling or case, or None.

        ``where`` is a filter: what other documents say is not seen.
        """
        with self._snapshot(where) as snapshot:
            keys = _entity_keys(snapshot, name)
            return snapshot.entities(keys)[0] if len(keys) else None

    def facts(self, name: str, *, where: Where | None = None) -> list[Fact]:
        """Return the facts that hold an entity, in order of id; with ``where``, those of matching documents."""
        with self._snapshot(where) as snapshot:
            return sorted(snapshot.facts(snapshot.facts_of(_entity_keys(snapshot, name))), key=lambda fact: fact.id)

    def related(self, name: str, *, where: Where | None = None) -> list[tuple[Entity, float]]:
        """Return the entities that share a fact with an entity, and the weights of the edges, strongest first.

        ``where`` is a filter: what other documents say is not seen.
        """
        with self._snapshot(where) as snapshot:
            keys = _entity_keys(snapshot, name)
            edges = snapshot.neighbours(keys, to="entities")
            own = {entity.id for entity in snapshot.entities(keys)}
            found: dict[str, tuple[Entity, float]] = {}
            for entity, weight in zip(snapshot.entities(edges.targets), edges.weights.tolist(), strict=True):
                if entity.id not in own:  # a section and what it is about are one
                    found[entity.id] = entity, max(weight, found.get(entity.id, (entity, 0.0))[1])
            return sorted(found.values(), key=lambda pair: (-pair[1], pair[0].id))

    def find_path(self, start: str, end: str, *, where: Where | None = None, max_hops: int = 4) -> GraphPath | None:
        """Return the shortest path between two entities, by the facts that join them; None if there is none.

        Of several paths with the same number of facts, the strongest: links to entities that many passages mention
        are weak.

        Parameters
        ----------
        start, end
            The names of the entities, in any spelling or case.
        where
            A filter: what other documents say is not seen.
        max_hops
            The largest number of facts on the path.

        Examples
        --------
        >>> index = KnowledgeIndex()
        >>> _ = index.add([Document("1", "Ada Lovelace wrote to Charles Babbage."),
        ...                Document("2", "Charles Babbage met Ludwig Moser.")])
        >>> [entity.name for entity in index.find_path("ada lovelace", "Ludwig Moser").entities]
        ['Ada Lovelace', 'Charles Babbage', 'Ludwig Moser']
        """
        if isinstance(max_hops, bool) or not isinstance(max_hops, int) or max_hops < 1:
            raise InputError(f"max_hops is {max_hops!r}: use an integer of at least 1")
        with self._snapshot(where) as snapshot:
            return shortest_path(snapshot, _entity_keys(snapshot, start), _entity_keys(snapshot, end), max_hops)

    def entities(
        self,
        prefix: str = "",
        *,
        type: str | None = None,  # noqa: A002 - the usual word
        contains: str = "",
        min_degree: int = 0,
        limit: int | None = 100,
        where: Where | None = None,
    ) -> list[Entity]:
        """Return entities, the most mentioned first.

        Parameters
        ----------
        prefix
            What a name or alias begins with, in any case.
        type
            Only entities of this type, in any case.
        contains
            What a name or alias contains, in any case.
        min_degree
            Only entities that share facts with at least so many others.
        limit
            At most so many; None for all.
        where
            A filter: what other documents say is not seen.
        """
        found = self.iter_entities(prefix, type=type, contains=contains, min_degree=min_degree, where=where)
        with closing(found):
            return list(islice(found, limit))

    def iter_entities(
        self,
        prefix: str = "",
        *,
        type: str | None = None,  # noqa: A002
        contains: str = "",
        min_degree: int = 0,
        where: Where | None = None,
    ) -> Generator[Entity, None, None]:
        """Yield entities as :meth:`entities` returns them, a page at a time, all from one state of the index."""
        start, inside = normalise(prefix), normalise(contains)
        wanted = None if type is None else type.casefold()
        with self._snapshot(where) as snapshot:
            search = getattr(snapshot, "search_names", None) if start or inside else None
            keys = snapshot.top_entities(_ALL) if search is None else search(start, inside)
            for first in range(0, len(keys), _PAGE):
                page = keys[first : first + _PAGE]
                if min_degree > 0:
                    page = page[snapshot.neighbours(page, to="entities").counts >= min_degree]
                for entity in snapshot.entities(page):
                    names = (entity.id, *map(normalise, entity.aliases)) if start or inside else ("",)
                    if wanted in (None, entity.type.casefold()) and any(
                        name.startswith(start) and inside in name for name in names
                    ):
                        yield entity

    def relations(
        self,
        subject: str | None = None,
        relation: str | None = None,
        object: str | None = None,  # noqa: A002 - the usual word
        *,
        contains: str = "",
        limit: int | None = 100,
        where: Where | None = None,
    ) -> list[Fact]:
        """Return the facts that are triples: subject, relation and object. Those of the most mentioned entities first.

        Links between sections are returned only if ``relation`` is ``"refers_to"``.

        Parameters
        ----------
        subject, relation, object
            Restrict them, names in any spelling or case.
        contains
            What the text of a fact contains, in any case.
        limit
            At most so many; None for all.
        where
            A filter: what other documents say is not seen.
        """
        found = self.iter_facts(subject, relation, object, where=where)
        with closing(found):
            text = contains.casefold()
            others = {""} if normalise(relation or "") == normalise(REFERS_TO) else {"", REFERS_TO}
            triples = (fact for fact in found if fact.relation not in others and text in fact.text.casefold())
            return list(islice(triples, limit))

    def iter_facts(
        self,
        subject: str | None = None,
        relation: str | None = None,
        object: str | None = None,  # noqa: A002
        *,
        where: Where | None = None,
    ) -> Generator[Fact, None, None]:
        """Yield facts, each once, a page at a time, all from one state of the index.

        Parameters are those of :meth:`relations`. Without them, sentences and links between sections are yielded too.
        """
        wanted, seen = normalise(relation or ""), set[int]()
        with self._snapshot(where) as snapshot:
            ends = [None if end is None else _entity_keys(snapshot, end) for end in (subject, object)]
            own = [None if keys is None else {e.id for e in snapshot.entities(keys)} for keys in ends]
            given = [keys for keys in ends if keys is not None]
            keys = given[0] if given else snapshot.top_entities(_ALL)
            for start in range(0, len(keys), _PAGE):
                page = [key for key in snapshot.facts_of(keys[start : start + _PAGE]).tolist() if key not in seen]
                seen.update(page)
                for fact in snapshot.facts(np.array(page, np.int64)):
                    target = fact.entities[1] if len(fact.entities) > 1 else normalise(fact.value)
                    if (
                        wanted in ("", normalise(fact.relation))
                        and (own[0] is None or _is_one_of(snapshot, fact.entities[:1], own[0]))
                        and (own[1] is None or _is_one_of(snapshot, (target,), own[1]))
                    ):
                        yield fact

    # -- communities

    def communities(self, level: int | None = None, *, where: Where | None = None) -> list[Community]:
        """Return the communities of entities, the themes of the collection: broadest first, then by documents.

        They are found by the Leiden algorithm, stored with the index and computed again after it has changed
        (:mod:`graphrag_core.communities`). The same index has the same communities.

        Parameters
        ----------
        level
            0 for the broadest, 1 and 2 for finer ones; None for all levels. A small index has fewer levels.
        where
            A filter: communities of the matching documents alone.
        """
        state = self.community_store.state(None if where is None else parse(where))
        return [one.community for one in state.described.values() if level in (None, one.community.level)]

    def community_of(self, names: Iterable[str], *, level: int = 0, where: Where | None = None) -> dict[str, str]:
        """Return the id of the community of each name, in any spelling or case.

        Names that are unknown, or in no community of three entities, are left out.
        """
        given = list(names)
        state = self.community_store.state(None if where is None else parse(where))
        with self._snapshot(where) as snapshot:
            keys = {name: _entity_keys(snapshot, name) for name in given}
            found = {name: snapshot.entities(key)[0].id for name, key in keys.items() if len(key)}
        paths = state.paths_of(found.values())
        known = zip(found, paths, strict=True)
        return {name: path[level] for name, path in known if level < len(path) and path[level]}

    def summarise_communities(
        self, llm: Any, level: int | None = 0, *, where: Where | None = None, progress: bool | None = None
    ) -> list[Community]:
        """Let a language model describe communities; return those of the level.

        Its descriptions are stored with the index. A community is described again when its names or its central
        sentences have changed.

        Parameters
        ----------
        llm
            As for :meth:`GraphRetriever.ask <graphrag_core.GraphRetriever.ask>`.
        level
            The level to describe; None for all.
        where
            A filter: communities of the matching documents alone.
        progress
            True or False to show or hide the progress bar; None shows it on a terminal only.
        """
        model = as_chat_model(llm)
        bar = partial(
            tqdm,
            desc="Summarising",
            unit=" communities",
            disable=None if progress is None else not progress,
            leave=False,
            dynamic_ncols=True,
        )
        state = self.community_store.summarise(None if where is None else parse(where), level, model, bar)
        return [one.community for one in state.described.values() if level in (None, one.community.level)]

    # -- editing the graph

    def edits(self) -> list[Edit]:
        """Return the edits of the graph that are in force, oldest first."""
        stored = self.engine.settings().get(_EDITS)
        return [Edit(**edit) for edit in json.loads(stored)["edits"]] if stored else []

    def undo(self, number: int) -> Edit:
        """Take back an edit, whatever came after it; return it.

        Raises
        ------
        InputError
            No edit in force has this number.
        """
        with self._writing():
            edits = self.edits()
            edit = next((one for one in edits if one.number == number), None)
            if edit is None:
                known = ", ".join(str(one.number) for one in edits) or "none"
                raise InputError(f"there is no edit {number}: the edits are {known}")
            for document_id, before in edit.details.get("documents", {}).items():
                if before is not None:
                    self.add([Document(document_id, before["text"], before["title"], before["metadata"])])
                elif document_id in self:
                    self.delete(document_id)
            self._store_edits(lambda edits, following: ([one for one in edits if one.number != number], following))
            return edit

    def rename_entity(self, name: str, new_name: str) -> Edit:
        """Give an entity another name. Questions with the old one find it too, and so do documents added later.

        Raises
        ------
        InputError
            There is no such entity, or another one has the new name: merge the two.
        """
        with self._writing():
            old, new_name = self._known_entity(name), _name(new_name)
            other = self.entity(new_name)
            if other is not None and other.id != old.id:
                raise InputError(f"there is an entity {other.name!r}: use merge_entities([{name!r}], {new_name!r})")
            spellings = self._spellings(name)[:1]
            return self._edit("rename", f"renamed {old.name!r} to {new_name!r}", of=spellings, name=new_name)

    def merge_entities(self, names: str | Iterable[str], into: str) -> Edit:
        """Treat several entities as one, with the name ``into``, which may be new. Their names become its aliases.

        Raises
        ------
        InputError
            There is no entity of one of the names, or they are one entity already.
        """
        with self._writing():
            into = _name(into)
            target = self.entity(into)
            merged = [self._known_entity(name) for name in ([names] if isinstance(names, str) else names)]
            merged = [entity for entity in dict.fromkeys(merged) if target is None or entity.id != target.id]
            if len(merged) + (target is not None) < 2:
                raise InputError(f"there is nothing to merge into {into!r}: name at least two different entities")
            of = [self._spellings(entity.name)[0] for entity in merged]
            told = f"merged {', '.join(repr(entity.name) for entity in merged)} into {into!r}"
            own = self._spellings(into)[:1] if target is not None else []
            return self._edit("merge", told, of=of, into=own, name=target.name if target else into)

    def describe_entity(self, name: str, *, type: str | None = None, description: str | None = None) -> Edit:  # noqa: A002
        """Set the type or the description of an entity, instead of what documents say. None leaves one as it is.

        Raises
        ------
        InputError
            There is no such entity, or nothing is given.
        """
        with self._writing():
            if type is None and description is None:
                raise InputError("describe_entity needs a type or a description")
            entity = self._known_entity(name)
            given = {"type": type, "description": description}
            what = ", ".join(f"{key} {value!r}" for key, value in given.items() if value is not None)
            return self._edit("describe", f"described {entity.name!r}: {what}", of=self._spellings(name)[:1], **given)

    def delete_entity(self, name: str) -> Edit:
        """Take an entity out of the graph with its links, also for documents added later. Documents stay as they are.

        Raises
        ------
        InputError
            There is no such entity.
        """
        with self._writing():
            entity = self._known_entity(name)
            return self._edit("delete_entity", f"deleted {entity.name!r}", of=self._spellings(name))

    def delete_relation(self, fact: str | Fact | tuple[str, str, str]) -> Edit:
        """Take a relation out of the graph, wherever documents state it, also in those added later.

        Parameters
        ----------
        fact
            A fact as :meth:`relations`, :meth:`facts` and queries return it, its id, or the triple (subject, relation,
            object). A sentence is taken out wherever it is word by word the same.

        Raises
        ------
        InputError
            There is no such fact.
        """
        with self._writing():
            if isinstance(fact, tuple):
                found = self.relations(*fact, limit=1)
                if not found:
                    raise InputError(f"there is no relation {fact!r}: see relations()")
                fact = found[0]
            elif isinstance(fact, str):
                fact = self._fact_by_id(fact)
            ends = [spellings[0] for end in fact.entities[:2] if (spellings := self._spellings(end))]
            if not ends:
                raise InputError(f"the fact {fact.text!r:.80} holds no entity: edit the document that states it")
            ends = ends if fact.relation else ends[:1]
            details = {"ends": ends, "relation": fact.relation, "value": fact.value, "text": fact.text}
            return self._edit("delete_relation", f"deleted the relation {fact.text!r:.200}", **details)

    def add_entity(
        self,
        name: str,
        *,
        type: str = "",  # noqa: A002
        description: str = "",
        metadata: Mapping[str, Any] | None = None,
    ) -> Edit:
        """Add an entity that no document mentions yet. It is stored as a told fact, see :meth:`remember`.

        Raises
        ------
        InputError
            There is such an entity: :meth:`describe_entity` changes it.
        """
        with self._writing():
            name = _name(name)
            if self.entity(name) is not None:
                raise InputError(f"there is an entity {name!r}: change it with describe_entity")
            said = ": ".join(filter(None, (type, description))) or "entity"
            fact = self.remember(
                name, "is_a" if type or not description else "is", said, literal=True, metadata=metadata
            )
            documents: dict[str, Any] = {fact.chunk_id: None}
            given = {"type": type or None, "description": description or None}
            return self._edit("add_entity", f"added {name!r}", of=[normalise(name)], documents=documents, **given)

    def add_relation(self, subject: str, relation: str, object: str, **told: Any) -> Edit:  # noqa: A002 - the usual word
        """Add a relation between two entities, which need not exist: :meth:`remember`, as an edit that can be undone.

        ``told`` are further parameters of :meth:`remember`.
        """
        with self._writing():
            before = {document.id: document for document in self._documents(_told_filter(None))}
            fact = self.remember(subject, relation, object, **told)
            after = {document.id: document for document in self._documents(_told_filter(None))}
            changed = [key for key, document in after.items() if before.get(key) != document]
            documents = {
                key: None if (old := before.get(key)) is None
                else {"text": old.text, "title": old.title, "metadata": dict(old.metadata)}
                for key in changed
            }  # fmt: skip
            return self._edit("add_relation", f"added {fact.text!r:.200}", documents=documents)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        if self.read_only:
            raise ReadOnlyIndex(f"{self.path} was opened with read_only=True: open it for writing to edit its graph")
        if not hasattr(self.engine, "spellings"):
            raise InputError(f"{type(self.engine).__qualname__} does not support edits of the graph")
        with self._one_writer:
            yield

    def _edit(self, action: EditAction, text: str, /, **details: Any) -> Edit:
        moment = time.time()

        def append(edits: list[Edit], number: int) -> tuple[list[Edit], int]:
            return [*edits, Edit(number, moment, action, text, details)], number + 1

        return self._store_edits(append)[-1]

    def _store_edits(self, change: Callable[[list[Edit], int], tuple[list[Edit], int]]) -> list[Edit]:
        """Store what a function makes of the edits and the next number; once more if another process was faster."""
        for attempt in range(_ATTEMPTS):
            stored = self.engine.settings().get(_EDITS)
            before: dict[str, Any] = json.loads(stored) if stored else {"next": 1, "edits": []}
            edits, following = change([Edit(**edit) for edit in before["edits"]], before["next"])
            rows = [asdict(edit) for edit in edits]
            settings = {_EDITS: json.dumps({"next": following, "edits": rows}, ensure_ascii=False)}
            expected: dict[str, Any] = {"expected": {_EDITS: stored or ""}} if is_shared(self.engine) else {}
            try:
                self.engine.write(settings=settings, **expected)
            except ChangedMeanwhile:
                if attempt == _ATTEMPTS - 1:
                    raise
                continue
            self.engine.flush()
            break
        return edits

    def _known_entity(self, name: str) -> Entity:
        entity = self.entity(name)
        if entity is None:
            raise InputError(f"there is no entity {name!r}: list them with entities()")
        return entity

    def _spellings(self, name: str) -> list[str]:
        """Return the names of an entity as documents write them, normalised, the one that represents it first."""
        found: list[str] = self.engine.spellings(name)  # type: ignore[attr-defined]
        return found

    def _fact_by_id(self, fact_id: str) -> Fact:
        chunk_id, _, _ = fact_id.rpartition("/")
        with self._snapshot() as snapshot:
            keys = snapshot.top_entities(_ALL)
            for start in range(0, len(keys), _PAGE):
                for fact in snapshot.facts(snapshot.facts_of(keys[start : start + _PAGE])):
                    if fact.id == fact_id and fact.chunk_id == chunk_id:
                        return fact
        raise InputError(f"there is no fact {fact_id!r}: use the id that relations(), facts() or a query returned")

    def _snapshot(self, where: Where | None = None) -> AbstractContextManager[Snapshot]:
        """Open a snapshot of what is valid now, within a filter."""
        scope = None if where is None else parse(where)
        return self.engine.snapshot(told_facts.visible(self.engine, scope, time.time()))

    # -- the whole index

    def estimate(self, documents: Iterable[Document]) -> Estimate:
        """Return what adding documents would cost to embed, without embedding anything."""
        return self.pipeline.estimate(documents)

    def to_embed(self, documents: Iterable[Document], vectors: Collection[str] = ()) -> list[str]:
        """Return the texts that adding documents would embed, each once. Nothing is embedded or written.

        Compute their vectors in any way and pass them to :meth:`add` as ``embeddings``. Unchanged
        documents, and chunks and facts whose vector is stored, need no embedding. Nor do the chunks of
        the documents whose ids are in ``vectors``, if the same vectors are passed to :meth:`add`.
        """
        return self.pipeline.to_embed(documents, vectors)

    def stats(self) -> Stats:
        """Return the size of the index and its most frequent entities."""
        return self.engine.stats()

    def verify(self) -> Verification:
        """Compare records, vectors, keywords and graph with each other and with their checksums, completely.

        Damage does not raise an exception: it is a problem of the result.
        """
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

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The metadata fields that link documents: pairs of a source field and a target field."""
        return self.pipeline.edges

    def _set_edges(self, edges: tuple[Edge, ...] | None) -> None:
        """Use some edges; derive those of stored documents again if they have others."""
        settings = self.engine.settings()
        wanted = self.pipeline.edges if edges is None else edges
        if set(wanted) == set(self.pipeline.edges) and (self.read_only or not settings.get(UNFINISHED)):
            return
        if not settings.get("embedder"):  # nothing was added yet
            self.pipeline.edges = wanted
            if self.path is not None and not self.read_only:  # who opens it next may leave them out
                with self._one_writer:
                    self.engine.write(settings={EDGES: to_setting(wanted)})
            return
        if self.read_only:
            raise ReadOnlyIndex(
                f"{self.path} has the edges {list(self.pipeline.edges)}, not {list(wanted)}: leave edges out, or open "
                "it once for writing with these edges, which derives them again"
            )
        with self._one_writer:
            self.pipeline.derive_edges(wanted)


def open_engine(path: str | Path, *, read_only: bool, merge_similar: float | None = None) -> Engine:
    """Open the engine for a folder, or for the address of a database."""
    if is_address(path):
        from graphrag_core.engine.postgres import PostgresEngine  # noqa: PLC0415 - needs the extra postgres

        return PostgresEngine(str(path), read_only=read_only, merge_similar=merge_similar)
    if is_url(path):
        raise InputError(f"{shown(path)} is no folder, and no address of PostgreSQL (postgresql://user@host/database)")
    if isinstance(path, Path) and path.parts[:1] in (("postgresql:",), ("postgres:",)):
        raise InputError("the address of a database must be a str: a Path changes it")
    return EmbeddedEngine(path, read_only=read_only, merge_similar=merge_similar)


def _restore(
    cls: type[KnowledgeIndex], embedder: Embedder | None, engine: Engine, settings: Mapping[str, Any]
) -> KnowledgeIndex:
    """Return a copy of an index that was pickled or deep-copied."""
    try:
        return cls(embedder, engine=engine, **settings)
    except BaseException:
        engine.close()
        raise


class _Nowhere:
    """A file to which pickles are written only to see whether they can be."""

    def write(self, data: Any) -> int:
        return len(data)


def _pickling_problem(value: Any) -> Exception | None:
    """Return why pickle refuses a value: a ``TypeError`` for what no pickler takes, such as a lock or a connection."""
    try:
        pickle.Pickler(_Nowhere(), 5, buffer_callback=lambda _: None).dump(value)
    except Exception as error:  # noqa: BLE001 - __reduce__ of a foreign class may raise anything
        return error
    return None


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


def _name(name: str) -> str:
    """Return the name that a person gave an entity."""
    cleaned = clean_name(name) if isinstance(name, str) else ""
    if not cleaned or cleaned.startswith("→"):
        raise InputError(f"{name!r:.80} is no name of an entity: it needs a letter or digit")
    return cleaned


def _is_one_of(snapshot: Snapshot, ids: Sequence[str], wanted: set[str]) -> bool:
    """Return whether the first of some ids, as a fact holds them, is one of some entities."""
    if not ids:
        return False
    return ids[0] in wanted or any(entity.id in wanted for entity in snapshot.entities(_entity_keys(snapshot, ids[0])))


def _entity_keys(snapshot: Snapshot, name: str) -> Keys:
    """Return the key of a name's entity; none if it is unknown."""
    return np.array(list(snapshot.find_entities([normalise(name)]).values()), np.int64)
