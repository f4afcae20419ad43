"""Writing to the records: whole documents in, whole documents out, one generation a time."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from graphrag_core.errors import DocumentError, ExtractionError
from graphrag_core.model import Chunk, Document, Extraction, Fact
from graphrag_core.ports import Keys, Matrix
from graphrag_core.stores.change import Change, Span, no_keys, pack, unpack
from graphrag_core.stores.records import Records
from graphrag_core.text import hash64, normalise
from graphrag_core.where import attributes

_LONGEST_NAME = 300


@dataclass(frozen=True, slots=True)
class Entry:
    """A document with everything that was made of it.

    ``names`` are those of each chunk, as :func:`names_of` gives them; fact vectors lie in the order of the facts.
    """

    document: Document
    digest: str
    chunks: Sequence[Chunk]
    extractions: Sequence[Extraction]
    names: Sequence[Mapping[str, bool]]
    chunk_vectors: Matrix | None
    fact_vectors: Matrix | None


def storable(text: str) -> str:
    """Return a text that an extractor made up without what SQLite cannot hold."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.encode("utf-8", "ignore").decode("utf-8").replace("\x00", "")


@lru_cache(maxsize=8_192)
def clean_name(name: str) -> str:
    r"""Return a name as it is stored, or nothing if it has no letter or digit.

    >>> clean_name("  Auth\n Service "), clean_name("--")
    ('Auth Service', '')
    """
    name = " ".join(storable(name).split())[:_LONGEST_NAME]
    return name if normalise(name) else ""


def names_of(extraction: Extraction) -> dict[str, bool]:
    """Return the names an extraction speaks of, subjects first and marked true."""
    names: dict[str, bool] = {}
    for mention in extraction.mentions:
        if mention.subject and (name := clean_name(mention.name)):
            names[name] = True
    others = [n for m in extraction.mentions for n in (m.name, *m.aliases)]
    others += [n for fact in extraction.facts for n in fact.entities]
    for other in others:
        if other not in names and (name := clean_name(other)):
            names.setdefault(name, False)
    return names


def unknown_names(records: Records, names: Iterable[str]) -> list[str]:
    """Return the names that the records do not have, in order."""
    wanted = list(dict.fromkeys(names))
    known = _name_keys(records, wanted)
    return [name for name in wanted if name not in known]


def write(
    records: Records,
    entries: Sequence[Entry] = (),
    gone: Sequence[int] = (),
    name_vectors: Mapping[str, Matrix] | None = None,
    notes: Mapping[str, str] | None = None,
) -> Change:
    """Take documents out, by key, put documents in and note settings; return what that changed."""
    with records.writing() as db:
        generation = records.generation + 1
        chunks_gone, facts_gone, released = _remove(db, gone)
        batch = _Batch(records, db, generation, name_vectors or {})
        for entry in entries:
            batch.add(entry)
        batch.flush()
        names_gone = _drop_unused(db, released)
        change = Change(
            generation, batch.span("chunk"), batch.span("fact"), batch.span("name"), chunks_gone, facts_gone, names_gone
        )
        db.execute(f"INSERT INTO journal VALUES ({', '.join('?' * 10)})", change.row())
        records.set_meta(generation=str(generation), **(notes or {}))
        return change


def _remove(db: sqlite3.Connection, documents: Sequence[int]) -> tuple[Keys, Keys, Counter[int]]:
    if not documents:
        return no_keys(), no_keys(), Counter()
    wanted = (json.dumps(list(documents)),)
    inside = "IN (SELECT value FROM json_each(?))"
    chunks = db.execute(f"SELECT key, names FROM chunks WHERE document {inside} ORDER BY key", wanted).fetchall()
    facts = db.execute(
        f"SELECT key FROM facts WHERE chunk IN (SELECT key FROM chunks WHERE document {inside}) ORDER BY key", wanted
    ).fetchall()
    released = Counter(unpack(b"".join(row[1] for row in chunks)).tolist())
    db.execute(f"DELETE FROM documents WHERE key {inside}", wanted)
    db.executemany("UPDATE names SET uses = uses - ? WHERE key = ?", ((n, key) for key, n in released.items()))
    gone = np.array([row[0] for row in chunks], np.int64), np.array([row[0] for row in facts], np.int64)
    return *gone, released


def _drop_unused(db: sqlite3.Connection, released: Iterable[int]) -> Keys:
    wanted = (json.dumps(list(released)),)
    unused = "uses <= 0 AND key IN (SELECT value FROM json_each(?))"
    rows = db.execute(f"SELECT key FROM names WHERE {unused} ORDER BY key", wanted).fetchall()
    db.execute(f"DELETE FROM names WHERE {unused}", wanted)
    return np.array([row[0] for row in rows], np.int64)


def _name_keys(records: Records, names: Sequence[str]) -> dict[str, int]:
    sql = "SELECT surface, key FROM names WHERE surface IN (SELECT value FROM json_each(?))"
    return dict(records.rows(sql, (json.dumps(names),)))


class _Batch:
    """Rows gathered table by table, with keys counted on from where the records stand."""

    def __init__(
        self, records: Records, db: sqlite3.Connection, generation: int, name_vectors: Mapping[str, Matrix]
    ) -> None:
        self._records, self._db, self._generation = records, db, generation
        self._name_vectors = name_vectors
        self._first = {what: int(records.meta(f"next_{what}", "0")) for what in ("document", "chunk", "fact", "name")}
        self._next = dict(self._first)
        self._rows: dict[str, list[tuple[Any, ...]]] = {}
        self._entries: list[Entry] = []
        self._keys: dict[str, int] = {}

    def span(self, what: str) -> Span:
        return self._first[what], self._next[what]

    def add(self, entry: Entry) -> None:
        self._entries.append(entry)

    def flush(self) -> None:
        self._intern(Counter(name for entry in self._entries for names in entry.names for name in names))
        for entry in self._entries:
            self._document(entry)
        for table, rows in self._rows.items():
            try:
                self._db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
            except sqlite3.IntegrityError as error:
                raise self._collision(error) from error
        self._records.set_meta(**{f"next_{what}": str(key) for what, key in self._next.items()})

    def _intern(self, uses: Counter[str]) -> None:
        self._keys = _name_keys(self._records, list(uses))
        self._db.executemany(
            "UPDATE names SET uses = uses + ? WHERE key = ?", [(uses[name], key) for name, key in self._keys.items()]
        )
        for name, count in uses.items():
            if name not in self._keys:
                key = self._keys[name] = self._key("name")
                norm = normalise(name)
                self._row("names", key, name, norm, hash64(norm), count)
                if name in self._name_vectors:
                    self._row("name_vectors", key, _blob(self._name_vectors[name]))

    def _document(self, entry: Entry) -> None:
        document = entry.document
        key = self._key("document")
        metadata = json.dumps(dict(document.metadata), ensure_ascii=False)
        heading = entry.chunks[0].title
        self._row(
            "documents",
            key,
            document.id,
            document.title,
            heading,
            metadata,
            entry.digest,
            self._generation,
            time.time(),
        )
        for name, kind, value in dict.fromkeys(attributes(document.metadata)):
            self._row("attributes", name, kind, value, key)
        at = 0
        for i, (chunk, extraction, names) in enumerate(zip(entry.chunks, entry.extractions, entry.names, strict=True)):
            vector = None if entry.chunk_vectors is None else entry.chunk_vectors[i]
            facts = len(extraction.facts)
            vectors = None if entry.fact_vectors is None else entry.fact_vectors[at : at + facts]
            at += facts
            self._chunk(key, chunk, extraction, names, vector, vectors)

    def _chunk(
        self,
        document: int,
        chunk: Chunk,
        extraction: Extraction,
        names: Mapping[str, bool],
        vector: Matrix | None,
        fact_vectors: Matrix | None,
    ) -> None:
        key = self._key("chunk")
        packed = pack([self._keys[name] for name in names])
        subjects = sum(names.values())
        self._row("chunks", key, chunk.id, document, chunk.ordinal, chunk.start, chunk.text, subjects, packed)
        if vector is not None:
            self._row("chunk_vectors", key, _blob(vector))
        if fact_vectors is not None and len(fact_vectors):
            self._row("fact_vectors", key, _blob(fact_vectors))
        for mention in extraction.mentions:
            if not (mention.type or mention.description or mention.aliases):
                continue
            name = self._keys.get(clean_name(mention.name))
            if name is None:
                continue
            if mention.type or mention.description:
                self._row("claims", key, name, storable(mention.type), storable(mention.description))
            for alias in mention.aliases:
                if (short := self._keys.get(clean_name(alias))) is not None:
                    self._row("aliases", key, short, name)
        for ordinal, fact in enumerate(extraction.facts):
            self._fact(key, chunk.text, ordinal, fact)

    def _fact(self, chunk: int, chunk_text: str, ordinal: int, fact: Fact) -> None:
        names = [self._keys[name] for entity in fact.entities if (name := clean_name(entity))]
        if not fact.relation:  # of a triple, both ends are kept even if they are one
            names = list(dict.fromkeys(names))
        start, stop = fact.span or (None, None)
        # A sentence is not stored twice: the schema says how it is read from its chunk.
        is_piece = start is not None and chunk_text[start:stop].replace("\n", " ") == fact.text
        text = None if is_piece else storable(fact.text)
        self._row(
            "facts", self._key("fact"), chunk, ordinal, start, stop, text, pack(names), storable(fact.relation) or None,
            fact.weight, fact.confidence, fact.source, fact.status, storable(fact.value) or None, fact.created,
            fact.last_accessed, fact.access_count,
        )  # fmt: skip

    def _key(self, what: str) -> int:
        key = self._next[what]
        self._next[what] = key + 1
        return key

    def _row(self, table: str, *values: Any) -> None:
        self._rows.setdefault(table, []).append(values)

    def _collision(self, error: sqlite3.IntegrityError) -> Exception:
        """Name the document whose chunk would take the id of another document's."""
        if "chunks.id" not in str(error):
            return ExtractionError(f"an extractor gave a value that cannot be stored ({error})")
        ids = [row[1] for row in self._rows["chunks"]]
        taken = self._records.rows(
            "SELECT id FROM chunks WHERE key < ? AND id IN (SELECT value FROM json_each(?))",
            (self._first["chunk"], json.dumps(ids)),
        )
        twice = [chunk for chunk, count in Counter([*ids, *(row[0] for row in taken)]).items() if count > 1]
        return DocumentError(twice[0], "another document has a passage of this id: give one of them another id")


def _blob(vector: Matrix) -> bytes:
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()
