"""Writing documents to the records: the rows of a batch, in one transaction."""

import json
import sqlite3
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, cast

import numpy as np

from graphrag_core.engine.codes import decode, encode
from graphrag_core.engine.embedded.records import ADD_ACCESSES, CHECKSUM, GRAPH_COLUMNS, LISTED, Records, meta_checksum
from graphrag_core.engine.embedded.schema import KINDS, Change, deflate, document_checksums, pack, unpack
from graphrag_core.engine.rows import Row, Texts, check_unique, chunk_rows, document_row, kept_accesses
from graphrag_core.errors import ExtractionError
from graphrag_core.filters import attributes
from graphrag_core.ports import Keys, Matrix, ParsedDocument
from graphrag_core.text import hash64, normalise

_NO_VECTORS = np.empty((0, 0), np.float32)
_MAX_PARAMETERS = 999  # of a statement, in every SQLite
_TEXT = 5  # the place of the text in a row of chunks or facts
_GRAPH_WIDTH = 8  # columns of chunks that the graph is built from
_ADD_USES = "UPDATE names SET uses = uses + ? WHERE key = ?"


class Batch(NamedTuple):
    """A change, with the added rows, texts and vectors in memory, so that they are not read back.

    ``rows`` are rows of the tables names, chunks, facts and aliases; ``texts`` are the fields of chunks and facts for
    keyword search.
    """

    change: Change
    rows: Mapping[str, Sequence[Row]]
    texts: Mapping[str, Sequence[tuple[int, Texts]]]
    vectors: Mapping[str, tuple[Keys, Matrix]]


def write(
    records: Records, added: Sequence[ParsedDocument], removed: Sequence[str],
    name_vectors: Mapping[str, Matrix], settings: Mapping[str, str],
) -> Batch:  # fmt: skip
    """Remove documents by id, add documents and store settings, in one transaction."""
    records.has_deleted_text |= bool(removed)  # in the write-ahead log
    with records.transaction() as db:
        meta = dict(db.execute("SELECT name, value FROM meta").fetchall())
        replaced = sorted({parsed.document.id for parsed in added}.intersection(removed))
        accesses = list(records.accesses(replaced)) if replaced else []
        gone = {kind: np.empty(0, np.int64) for kind in KINDS}
        released = _delete(records, db, removed, gone) if removed else []
        rows = _Rows(meta, name_vectors)
        db.executemany(_ADD_USES, rows.add_names(records, added))
        for parsed in added:
            rows.add_document(parsed)
        vectors = rows.encode_vectors()
        _insert(db, rows.stored(), rows.first)
        if accesses:
            kept = kept_accesses(accesses, range(rows.first["fact"], rows.next["fact"]), added, rows.names)
            db.executemany(ADD_ACCESSES, [(count, last, fact) for fact, (count, last) in kept.items()])
        if released:
            gone["names"] = _delete_unused(db, released)
        spans = {kind: (rows.first[kind[:-1]], rows.next[kind[:-1]]) for kind in KINDS}
        change = Change(rows.generation - 1, rows.generation, spans, gone)
        _store_change(db, change, meta, {f"next_{what}": str(key) for what, key in rows.next.items()} | dict(settings))
    return Batch(change, rows.graph_rows(), rows.texts, vectors)


class _Rows:
    """Collects the rows of a batch by table, the searchable texts by key, and keys and vectors by kind."""

    def __init__(self, meta: Mapping[str, str], name_vectors: Mapping[str, Matrix]) -> None:
        self.generation = int(meta.get("generation", 0)) + 1
        self.first = {what: int(meta.get(f"next_{what}", 0)) for what in ("document", "chunk", "fact", "name")}
        self.next = dict(self.first)
        self.names: dict[str, int] = {}
        self.norms: dict[str, str] = {}
        self.now = time.time()
        self.tables: defaultdict[str, list[Row]] = defaultdict(list)
        self.texts: dict[str, list[tuple[int, Texts]]] = {"chunks": [], "facts": []}
        self.chunk_names: list[tuple[str, ...]] = []
        self.vectors: dict[str, tuple[list[Keys], list[Matrix]]] = {kind: ([], []) for kind in KINDS}
        self.name_vectors = name_vectors

    def add_names(self, records: Records, added: Sequence[ParsedDocument]) -> list[tuple[int, int]]:
        """Add the names of documents that do not exist yet; return how often the others are used, and their keys."""
        uses = Counter(chain.from_iterable(names for parsed in added for names in parsed.names))
        self.norms = {name: normalise(name) for name in uses}
        spellings = {name: hash64(norm) for name, norm in self.norms.items()}
        known = records.keys_of_names(spellings)
        new = [name for name in uses if name not in known]
        first, self.next["name"] = self.next["name"], self.next["name"] + len(new)
        names = self.names = known | dict(zip(new, range(first, first + len(new)), strict=True))
        self.tables["names"] = [(names[name], name, spellings[name], uses[name]) for name in new]
        if embedded := [name for name in new if name in self.name_vectors]:
            self.vectors["names"][0].append(np.array([names[name] for name in embedded], np.int64))
            self.vectors["names"][1].append(np.array([self.name_vectors[name] for name in embedded], np.float32))
        return [(uses[name], key) for name, key in known.items()]

    def add_document(self, parsed: ParsedDocument) -> None:
        """Add a document with its chunks, facts, vectors and filterable metadata."""
        known, tables = self.names, self.tables
        key, chunk_key, fact_key = (self.next[what] for what in ("document", "chunk", "fact"))
        chunks, facts = chunk_key, fact_key
        tables["documents"].append(document_row(key, parsed, self.generation, self.now))
        if metadata := parsed.document.metadata:
            tables["attributes"] += dict.fromkeys((name, *value, key) for name, value in attributes(metadata))
        for rows in chunk_rows(parsed, known):
            chunk = rows.chunk
            self.texts["chunks"].append((chunk_key, rows.fields))
            self.chunk_names.append((*rows.names,))
            tables["chunks"].append((
                chunk_key, chunk.id, key, chunk.ordinal, chunk.start, chunk.text, rows.subjects,
                pack([known[name] for name in rows.names]), rows.headings, chunk.page, rows.terms,
                rows.fact_terms, rows.tokens,
            ))  # fmt: skip
            tables["claims"] += [(chunk_key, known[name], *claim) for name, *claim in rows.claims]
            tables["aliases"] += [(chunk_key, known[short], known[long]) for short, long in rows.aliases]
            for ordinal, fact in enumerate(rows.facts):
                names = pack([known[name] for name in fact.names])
                tables["facts"].append((
                    fact_key, chunk_key, ordinal, fact.start, fact.stop, fact.text, names, *fact.columns,
                    int(fact.is_plain),
                ))  # fmt: skip
                self.texts["facts"].append((fact_key, (fact.search_text,)))
                fact_key += 1
            chunk_key += 1
        self.next |= {"document": key + 1, "chunk": chunk_key, "fact": fact_key}
        for kind, first, last, vectors in (
            ("chunks", chunks, chunk_key, parsed.chunk_vectors),
            ("facts", facts, fact_key, parsed.fact_vectors),
        ):
            if vectors is not None and last > first:
                self.vectors[kind][0].append(np.arange(first, last))
                self.vectors[kind][1].append(vectors)

    def encode_vectors(self) -> dict[str, tuple[Keys, Matrix]]:
        """Add the rows of all vectors; return keys and vectors by kind, as they will be read back."""
        encoded: dict[str, tuple[Keys, Matrix]] = {}
        for kind, (keys, matrices) in self.vectors.items():
            if not keys:
                encoded[kind] = np.empty(0, np.int64), _NO_VECTORS
                continue
            numbers, vectors = np.concatenate(keys), np.concatenate(matrices)
            codes = encode(kind, vectors)
            encoded[kind] = numbers, decode(kind, codes, vectors.shape[1])
            if kind == "facts":  # in one row for each chunk
                facts, chunks = (np.array([row[at] for row in self.tables["facts"]], np.int64) for at in (0, 1))
                chunks = chunks[np.searchsorted(facts, numbers)]
                numbers, starts = np.unique(chunks, return_index=True)
                rows = [part.tobytes() for part in np.split(codes, starts[1:])]
            else:
                rows = [row.tobytes() for row in codes]
            self.tables[f"{kind.removesuffix('s')}_vectors"] += zip(numbers.tolist(), rows, strict=True)
        return encoded

    def stored(self) -> dict[str, Sequence[Row]]:
        """Return the rows as they are stored, with the checksums: chunks compressed, facts without a known text."""
        tables: dict[str, Sequence[Row]] = dict(self.tables)
        if not tables.get("documents"):
            return tables
        chunks = [(*row[:_TEXT], deflate(row[_TEXT]), *row[_TEXT + 1 :]) for row in self.tables["chunks"]]
        facts = [(*row[:_TEXT], None, *row[_TEXT + 1 :]) if row[-1] else row for row in self.tables["facts"]]
        others = chain(self.tables["claims"], self.tables["aliases"])
        vectors = chain(self.tables["chunk_vectors"], self.tables["fact_vectors"])
        named = zip(chunks, self.chunk_names, strict=True)
        checksums = document_checksums(tables["documents"], named, facts, others, cast("Any", vectors))
        return tables | {"chunks": chunks, "facts": facts, "checksums": list(checksums.items())}

    def graph_rows(self) -> dict[str, Sequence[Row]]:
        """Return the rows that the graph is built from, by table: see :func:`graph_rows`."""
        rows: dict[str, Sequence[Row]] = {table: self.tables[table] for table in GRAPH_COLUMNS}
        rows["names"] = [(*row[:2], self.norms[row[1]], *row[2:]) for row in self.tables["names"]]
        titles = {row[0]: row[2] if row[3] is None else row[3] for row in self.tables["documents"]}
        rows["chunks"] = [(*row[:_GRAPH_WIDTH], titles[row[2]]) for row in self.tables["chunks"]]
        return rows


def _insert(db: sqlite3.Connection, tables: Mapping[str, Sequence[Row]], first: Mapping[str, int]) -> None:
    """Insert rows, many in one statement: Python's sqlite3 releases and takes the GIL once per statement."""
    for table, rows in tables.items():
        size = _MAX_PARAMETERS // len(rows[0]) if rows else 1
        for start in range(0, len(rows), size):
            page = rows[start : start + size]
            marks = ", ".join([f"({', '.join('?' * len(page[0]))})"] * len(page))
            try:
                db.execute(f"INSERT INTO {table} VALUES {marks}", [*chain.from_iterable(page)])
            except (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError, OverflowError) as error:
                if f"{table}.id" in str(error):  # of a document or a chunk
                    ids = [row[1] for row in rows]
                    old = f"SELECT id FROM {table} WHERE key < ? AND id {LISTED}"
                    taken = db.execute(old, (first[table[:-1]], json.dumps(ids))).fetchall()
                    check_unique(ids, (row[0] for row in taken), of_chunks=table == "chunks")
                raise ExtractionError(f"an extractor returned a value that cannot be stored ({error})") from error


def _store_change(db: sqlite3.Connection, change: Change, meta: Mapping[str, str], settings: Mapping[str, str]) -> None:
    """Add a change to the journal; store settings, the generation, and the checksum of all settings."""
    packed = (keys.astype("<i8").tobytes() for keys in change.removed.values())
    journal = (change.generation, *chain.from_iterable(change.added.values()), *packed)
    db.execute(f"INSERT INTO journal VALUES ({', '.join('?' * len(journal))})", journal)
    changed = {"generation": str(change.generation), **settings}
    changed[CHECKSUM] = meta_checksum(db, {**meta, **changed})
    db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", changed.items())


def _delete(records: Records, db: sqlite3.Connection, ids: Sequence[str], gone: dict[str, Keys]) -> list[int]:
    """Delete documents; put the keys of their chunks and facts into ``gone``, and return the names they used."""
    documents = records.keys(f"SELECT key FROM documents WHERE id {LISTED}", (records.array(ids),))
    wanted = (records.array(documents),)
    chunks = records.rows(f"SELECT key, names FROM chunks WHERE document {LISTED} ORDER BY key", wanted)
    gone["chunks"] = np.array([row[0] for row in chunks], np.int64)
    gone["facts"] = records.keys(
        f"SELECT key FROM facts WHERE chunk IN (SELECT key FROM chunks WHERE document {LISTED}) ORDER BY key", wanted
    )
    db.execute(f"DELETE FROM documents WHERE key {LISTED}", wanted)  # and, by cascade, all rows that refer to them
    released = Counter(unpack(b"".join(row[1] for row in chunks)).tolist())
    db.executemany(_ADD_USES, [(-count, key) for key, count in released.items()])
    return list(released)


def _delete_unused(db: sqlite3.Connection, names: Sequence[int]) -> Keys:
    """Delete the names that no chunk uses any more; return their keys."""
    wanted = (json.dumps(names),)
    unused = f"uses <= 0 AND key {LISTED}"
    rows = db.execute(f"SELECT key FROM names WHERE {unused} ORDER BY key", wanted).fetchall()
    db.execute(f"DELETE FROM names WHERE {unused}", wanted)
    return np.array([row[0] for row in rows], np.int64)
