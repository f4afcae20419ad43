"""The records: documents, chunks, names, facts and their embeddings in SQLite."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphrag_core import where as scope
from graphrag_core.errors import FilterError
from graphrag_core.model import Chunk, Document, Fact
from graphrag_core.ports import Keys, Matrix
from graphrag_core.stores.change import Span, no_keys, unpack
from graphrag_core.stores.database import Database
from graphrag_core.text import chunk_text, fact_id, fact_text

_CHUNK = """
SELECT c.id, d.id, c.text, d.heading, c.ordinal, c.start, d.metadata, c.key
FROM chunks c JOIN documents d ON d.key = c.document
"""
# A sentence is not stored again: it is read from its chunk, hard-wrapped lines joined.
_FACT_TEXT = "coalesce(f.text, replace(substr(c.text, f.start + 1, f.stop - f.start), char(10), ' '))"
_FACT = f"""
SELECT f.key, f.names, {_FACT_TEXT}, f.relation, f.weight,
       f.confidence, f.source, f.status, f.value, f.created, f.last_accessed, f.access_count,
       f.start, f.stop, c.id, f.ordinal, d.heading
FROM facts f JOIN chunks c ON c.key = f.chunk JOIN documents d ON d.key = c.document
"""
_MANY = 500


class Name(NamedTuple):
    """A spelling, its normal form, the number of its entity, and how many chunks use it."""

    surface: str
    norm: str
    entity: int
    uses: int


class Records(Database):
    """Documents, chunks, facts and names, by id and by key."""

    def known(self, ids: Sequence[str]) -> dict[str, tuple[int, str, int]]:
        """Return key, digest and generation of the documents that are there, whoever is writing."""
        sql = "SELECT id, key, digest, generation FROM documents WHERE id IN (SELECT value FROM json_each(?))"
        rows = self.rows_meanwhile(sql, (json.dumps(ids),))
        return {row[0]: (row[1], row[2], row[3]) for row in rows}

    def document_ids(self) -> Iterator[str]:
        """Yield all document ids, in order of id."""
        last: str | None = None
        while True:
            rows = self.rows(
                "SELECT id FROM documents WHERE ? IS NULL OR id > ? ORDER BY id LIMIT ?", (last, last, _MANY)
            )
            yield from (row[0] for row in rows)
            if len(rows) < _MANY:
                return
            last = rows[-1][0]

    def document(self, document_id: str) -> Document | None:
        """Return a document put together from its chunks."""
        with self.lock:
            return self._document(document_id)

    def _document(self, document_id: str) -> Document | None:
        found = self.rows("SELECT key, title, metadata FROM documents WHERE id = ?", (document_id,))
        if not found:
            return None
        key, title, metadata = found[0]
        text = ""
        for start, piece in self.rows("SELECT start, text FROM chunks WHERE document = ? ORDER BY ordinal", (key,)):
            text += piece[len(text) - start :]
        return Document(document_id, text, title, json.loads(metadata))

    def in_scope(self, where: Mapping[str, Any]) -> Keys:
        """Return the keys of the chunks whose documents fulfil a filter, ascending."""
        tree = scope.parse(where)
        if not self.rows("SELECT 1 FROM documents LIMIT 1"):
            return no_keys()
        for name in scope.keys(tree):
            if not self.rows("SELECT 1 FROM attributes WHERE name = ? LIMIT 1", (name,)):
                known = [row[0] for row in self.rows("SELECT DISTINCT name FROM attributes ORDER BY name LIMIT 20")]
                raise FilterError(f"no document has metadata {name!r}; keys there are: {', '.join(known) or 'none'}")
        sql, parameters = scope.to_sql(tree)
        return self._keys(f"SELECT key FROM chunks WHERE document IN ({sql}) ORDER BY key", parameters)

    # -- chunks, facts and names by key

    def chunk_keys(self, span: Span) -> Keys:
        """Return the chunk keys in a span, ascending."""
        return self._keys("SELECT key FROM chunks WHERE key >= ? AND key < ? ORDER BY key", span)

    def chunk_keys_by_id(self) -> Keys:
        """Return the keys of all chunks, in the order of their ids."""
        return self._keys("SELECT key FROM chunks ORDER BY id", ())

    def fact_keys(self, span: Span) -> Keys:
        """Return the fact keys in a span, ascending."""
        return self._keys("SELECT key FROM facts WHERE key >= ? AND key < ? ORDER BY key", span)

    def chunks(self, keys: Sequence[int] | Keys) -> list[Chunk]:
        """Return chunks in the order of their keys as given."""
        rows = {row[-1]: row for row in self._by_key(_CHUNK, "c", keys)}
        return [_chunk(rows[int(key)]) for key in keys]

    def chunk_ids(self, keys: Sequence[int] | Keys) -> list[str]:
        """Return the ids of chunks in the order of their keys as given."""
        ids = dict(self._by_key("SELECT c.key, c.id FROM chunks c", "c", keys))
        return [ids[int(key)] for key in keys]

    def chunks_of(self, document_id: str) -> list[Chunk]:
        """Return a document's chunks, in order."""
        return [_chunk(row) for row in self.rows(f"{_CHUNK} WHERE d.id = ? ORDER BY c.ordinal", (document_id,))]

    def chunk_texts(self, span: Span) -> Iterator[tuple[int, str]]:
        """Yield key and searchable text of the chunks in a span, ascending."""
        sql = "SELECT c.key, d.heading, c.text FROM chunks c JOIN documents d ON d.key = c.document"
        for key, title, text in self.pages(sql, "c.key", span):
            yield key, chunk_text(title, text)

    def fact_texts(self, span: Span) -> Iterator[tuple[int, str]]:
        """Yield key and searchable text of the facts in a span, ascending."""
        sql = (
            f"SELECT f.key, d.heading, {_FACT_TEXT}, f.relation, f.names, f.value "
            "FROM facts f JOIN chunks c ON c.key = f.chunk JOIN documents d ON d.key = c.document"
        )
        for key, title, text, relation, names, value in self.pages(sql, "f.key", span):
            ends = [*self.surfaces(unpack(names)), value or ""] if relation else []
            yield key, fact_text(title, text, relation or "", ends)

    def surfaces(self, names: Sequence[int] | Keys) -> list[str]:
        """Return names as written, in the order of their keys as given."""
        found = dict(self._by_key("SELECT n.key, n.surface FROM names n", "n", names))
        return [found[int(name)] for name in names]

    def names(self, keys: Sequence[int] | Keys) -> dict[int, Name]:
        """Return names by key."""
        found = self._by_key("SELECT n.key, n.surface, n.norm, n.entity, n.uses FROM names n", "n", keys)
        return {row[0]: Name(*row[1:]) for row in found}

    def facts(self, keys: Sequence[int] | Keys, names: Mapping[int, Name] | None = None) -> list[Fact]:
        """Return facts in the order of their keys as given, with entities as ids.

        ``names`` saves reading them: all that the facts hold, by key.
        """
        rows = {row[0]: row for row in self._by_key(_FACT, "f", keys)}
        if names is None:
            names = self.names(np.unique(np.concatenate([unpack(row[1]) for row in rows.values()] or [no_keys()])))
        return [_fact(rows[int(key)], names) for key in keys]

    def vectors(self, kind: str, span: Span, dim: int) -> Iterator[tuple[Keys, Matrix]]:
        """Yield keys and vectors of chunks, facts or names in a span, in pages."""
        if kind == "facts":
            keys = self.fact_keys(span)
            sql = (
                "SELECT v.chunk, v.vectors FROM fact_vectors v "
                "WHERE v.chunk IN (SELECT chunk FROM facts WHERE key >= ? AND key < ?) ORDER BY v.chunk"
            )
            at = 0
            with self.lock:
                cursor = self._db.execute(sql, span)
                while page := cursor.fetchmany(_MANY):
                    vectors = _matrix([row[1] for row in page], dim)
                    yield keys[at : at + len(vectors)], vectors
                    at += len(vectors)
            return
        table, column = ("chunk_vectors", "chunk") if kind == "chunks" else ("name_vectors", "name")
        sql = f"SELECT {column}, vector FROM {table}"
        rows = self.pages(sql, column, span)
        for page in _paged(rows):
            yield np.array([row[0] for row in page], np.int64), _matrix([row[1] for row in page], dim)

    def vectors_by_text(self, documents: Sequence[int], dim: int) -> dict[str, Matrix]:
        """Return the vectors of some documents' chunks and facts under their searchable texts."""
        found: dict[str, Matrix] = {}
        for document in documents:
            spans = {
                "chunks": "SELECT min(key), max(key) + 1 FROM chunks WHERE document = ?",
                "facts": "SELECT min(f.key), max(f.key) + 1 FROM facts f JOIN chunks c ON c.key = f.chunk "
                "WHERE c.document = ?",
            }
            for kind, sql in spans.items():
                span = self.rows(sql, (document,))[0]
                if span[0] is None:
                    continue
                texts = dict(self.chunk_texts(span) if kind == "chunks" else self.fact_texts(span))
                for keys, vectors in self.vectors(kind, span, dim):
                    found.update((texts[key], vector) for key, vector in zip(keys.tolist(), vectors, strict=True))
        return found

    def _keys(self, sql: str, parameters: Sequence[Any]) -> Keys:
        with self.lock, self._explaining():
            return np.fromiter((row[0] for row in self._db.execute(sql, parameters)), np.int64)

    def _by_key(self, sql: str, table: str, keys: Sequence[int] | Keys) -> list[tuple[Any, ...]]:
        wanted = json.dumps([int(key) for key in keys])
        return self.rows(f"{sql} WHERE {table}.key IN (SELECT value FROM json_each(?))", (wanted,))


def _paged(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    page: list[tuple[Any, ...]] = []
    for row in rows:
        page.append(row)
        if len(page) == _MANY:
            yield page
            page = []
    if page:
        yield page


def _matrix(blobs: Sequence[bytes], dim: int) -> Matrix:
    return np.frombuffer(b"".join(blobs), dtype="<f4").reshape(-1, dim).astype(np.float32, copy=False)


def _chunk(row: Sequence[Any]) -> Chunk:
    return Chunk(row[0], row[1], row[2], row[3], row[4], row[5], json.loads(row[6]))


def _fact(row: Sequence[Any], known: Mapping[int, Name]) -> Fact:
    (_, names, text, relation, weight, confidence, source, status, value, created, accessed, count, *place) = row
    start, stop, chunk_id, ordinal, _ = place
    entities = [known[name].norm for name in unpack(names).tolist()]
    return Fact(
        entities=tuple(entities if relation else dict.fromkeys(entities)),
        text=text,
        relation=relation or "",
        weight=weight,
        confidence=confidence,
        source=source,
        status=status,
        value=value or "",
        created=created,
        last_accessed=accessed,
        access_count=count,
        span=None if start is None else (start, stop),
        id=fact_id(chunk_id, ordinal),
        chunk_id=chunk_id,
    )
