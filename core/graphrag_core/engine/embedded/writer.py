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
from graphrag_core.engine.embedded.records import (
    CHECKSUM,
    GRAPH_COLUMNS,
    LISTED,
    Records,
    definitions,
    graph_name,
    meta_checksum,
)
from graphrag_core.engine.embedded.schema import (
    KINDS,
    Change,
    Row,
    deflate,
    document_checksums,
    pack,
    pack_digest,
    unpack,
    unpack_digest,
)
from graphrag_core.engine.rows import (
    LETTERS,
    SOURCES,
    STATUSES,
    Texts,
    derived_columns,
    keyword_fields,
    pack_headings,
    pack_marks,
    without_markup,
)
from graphrag_core.errors import DocumentError, ExtractionError
from graphrag_core.filters import attributes
from graphrag_core.model import Chunk, Document, Extraction, Fact, Mention
from graphrag_core.ports import Keys, Matrix, ParsedDocument
from graphrag_core.text import fact_text, hash64, label, normalise

_NO_VECTORS = np.empty((0, 0), np.float32)
_MAX_PARAMETERS = 999  # of a statement, in every SQLite
_TEXT = 5  # the place of the text in a row of chunks or facts
_GRAPH_WIDTH = GRAPH_COLUMNS["chunks"].count(",") + 1
_ADD_USES = "UPDATE names SET uses = uses + ? WHERE key = ?"

Statement = tuple[str, str, bytes, str]
"""What a document states: its id, the text of a sentence, or names, relation and value of a triple."""


class Batch(NamedTuple):
    """A change, with the added rows, texts and vectors in memory, so that they are not read back.

    ``rows`` are those of the tables names, chunks, facts and aliases; ``texts`` are the
    fields of chunks and facts for keyword search.
    """

    change: Change
    rows: Mapping[str, Sequence[Row]]
    texts: Mapping[str, Sequence[tuple[int, Texts]]]
    vectors: Mapping[str, tuple[Keys, Matrix]]


def write(
    records: Records,
    added: Sequence[ParsedDocument],
    removed: Sequence[str],
    name_vectors: Mapping[str, Matrix],
    settings: Mapping[str, str],
) -> Batch:
    """Remove documents by id, add documents and store settings, in one transaction."""
    if removed:
        records.note_deletion()
    with records.transaction() as db:
        meta = dict(db.execute("SELECT name, value FROM meta").fetchall())
        before = int(meta.get("generation", 0))
        first = {what: int(meta.get(f"next_{what}", 0)) for what in ("document", "chunk", "fact", "name")}
        gone = {kind: np.empty(0, np.int64) for kind in KINDS}
        accesses = _accesses(db, removed, added) if removed and added else {}
        released = _delete(db, removed, gone) if removed else []

        uses = Counter(chain.from_iterable(names for document in added for names in document.names))
        known = records.name_keys(uses)
        rows = _Rows(before + 1, dict(first), dict(known))
        rows.add_names(uses, name_vectors)
        for document in added:
            rows.add_document(document)
        if accesses:
            rows.keep_accesses(accesses)
        vectors = rows.encode_vectors()
        db.executemany(_ADD_USES, [(uses[name], key) for name, key in known.items()])
        chunks = rows.tables["chunks"]
        stored_chunks = [(*row[:_TEXT], deflate(row[_TEXT]), *row[_TEXT + 1 :]) for row in chunks]
        texts = {row[0]: row[_TEXT] for row in chunks}
        stored_facts = [_stored_fact(row, texts[row[1]]) for row in rows.tables["facts"]]
        for table, table_rows in (rows.tables | {"chunks": stored_chunks, "facts": stored_facts}).items():
            try:
                _insert(db, table, table_rows)
            except (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError, OverflowError) as error:
                raise _collision(db, error, rows.tables, first) from error
        if released:
            gone["names"] = _delete_unused(db, released)
        if added:
            _insert(db, "checksums", rows.checksums(stored_chunks, stored_facts))

        spans = {kind: (first[kind[:-1]], rows.next[kind[:-1]]) for kind in KINDS}
        packed = (keys.astype("<i8").tobytes() for keys in gone.values())
        journal = (before + 1, *chain.from_iterable(spans.values()), *packed)
        db.execute(f"INSERT INTO journal VALUES ({', '.join('?' * len(journal))})", journal)
        following = {f"next_{what}": str(key) for what, key in rows.next.items()}
        stored = {"generation": str(before + 1), **following, **settings}
        stored[CHECKSUM] = meta_checksum({**meta, **stored}, definitions(db))
        db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", stored.items())
    graph_rows: dict[str, Sequence[Row]] = {table: rows.tables[table] for table in GRAPH_COLUMNS}
    graph_rows["names"] = [graph_name(*row) for row in rows.tables["names"]]
    graph_rows["chunks"] = [row[:_GRAPH_WIDTH] for row in chunks]
    return Batch(Change(before, before + 1, spans, gone), graph_rows, rows.texts, vectors)


class _Rows:
    """Collects the rows of a batch by table, the searchable texts by key, and keys and vectors by kind."""

    def __init__(self, generation: int, following: dict[str, int], names: dict[str, int]) -> None:
        self.generation = generation
        self.next = following
        self.names = names
        self.now = time.time()
        self.tables: defaultdict[str, list[Row]] = defaultdict(list)
        self.texts: dict[str, list[tuple[int, Texts]]] = {"chunks": [], "facts": []}
        self.chunk_names: list[tuple[str, ...]] = []
        self.vectors: dict[str, tuple[list[Keys], list[Matrix]]] = {kind: ([], []) for kind in KINDS}

    def add_names(self, uses: Mapping[str, int], vectors: Mapping[str, Matrix]) -> None:
        """Add the names that are not stored yet."""
        embedded = []
        for name, count in uses.items():
            if name not in self.names:
                key = self.names[name] = self.next["name"]
                self.next["name"] += 1
                norm = normalise(name)
                self.tables["names"].append((key, name, hash64(norm), count))
                if name in vectors:
                    embedded.append(name)
        if embedded:
            self.vectors["names"][0].append(np.array([self.names[name] for name in embedded], np.int64))
            self.vectors["names"][1].append(np.array([vectors[name] for name in embedded], np.float32))

    def add_document(self, parsed: ParsedDocument) -> None:
        """Add a document with its chunks, facts, vectors and filterable metadata."""
        document = parsed.document
        key, chunk_key, fact_key = (self.next[what] for what in ("document", "chunk", "fact"))
        self.next["document"] += 1
        heading = parsed.chunks[0].title
        self.tables["documents"].append((
            key, document.id, document.title, b"" if heading == document.title else heading, parsed.metadata,
            pack_digest(parsed.digest), self.generation, self.now, pack_marks(document.marks),
        ))  # fmt: skip
        if document.metadata:
            own = dict.fromkeys((name, *value, key) for name, value in attributes(document.metadata))
            self.tables["attributes"].extend(own)
        for chunk, extraction, names in zip(parsed.chunks, parsed.extractions, parsed.names, strict=True):
            self._add_chunk(key, heading, chunk, extraction, names)
        if parsed.chunk_vectors is not None:
            self.vectors["chunks"][0].append(np.arange(chunk_key, self.next["chunk"]))
            self.vectors["chunks"][1].append(parsed.chunk_vectors)
        if parsed.fact_vectors is not None and self.next["fact"] > fact_key:
            self.vectors["facts"][0].append(np.arange(fact_key, self.next["fact"]))
            self.vectors["facts"][1].append(parsed.fact_vectors)

    def keep_accesses(self, accesses: Mapping[Statement, list[tuple[float, int]]]) -> None:
        """Restore the access counts of facts whose document was replaced and which it still states."""
        ids = {row[0]: row[1] for row in self.tables["documents"]}
        chunks = {row[0]: (ids[row[2]], row[_TEXT]) for row in self.tables["chunks"]}
        for at, row in enumerate(self.tables["facts"]):
            document, text = chunks[row[1]]
            said = text[row[3] : row[4]].replace("\n", " ") if row[_TEXT] is None else row[_TEXT]
            if found := accesses.get(_statement(document, said, row[6], row[7], row[12])):
                last, count = found.pop(0)
                last = max(last, row[14]) if row[14] is not None else last
                self.tables["facts"][at] = (*row[:14], last, count + row[15], *row[16:])

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

    def checksums(self, chunks: Sequence[Row], facts: Sequence[Row]) -> list[Row]:
        """Return rows of checksums. ``chunks`` and ``facts`` are rows as they are stored."""
        tables = self.tables
        others = chain(tables["claims"], tables["aliases"])
        vectors = chain(tables["chunk_vectors"], tables["fact_vectors"])
        named = zip(chunks, self.chunk_names, strict=True)
        found = document_checksums(tables["documents"], named, facts, others, cast("Any", vectors))
        return list(found.items())

    def _add_chunk(
        self, document: int, heading: str, chunk: Chunk, extraction: Extraction, names: Mapping[str, bool]
    ) -> None:
        """Add a chunk with its facts, aliases and the types and descriptions of its entities."""
        known, tables, texts, text = self.names, self.tables, self.texts, chunk.text
        key, fact_key = self.next["chunk"], self.next["fact"]
        own = [known[name] for name in names]
        subjects = [name for name, is_subject in names.items() if is_subject]
        fields = keyword_fields(heading, chunk.headings, subjects, text)
        texts["chunks"].append((key, fields))
        self.chunk_names.append((*names,))
        called = label(heading, chunk.headings)
        tables["chunks"].append((
            key, chunk.id, document, chunk.ordinal, chunk.start, text, len(subjects), pack(own),
            pack_headings(chunk.headings), chunk.page,
            *derived_columns(called, text, fields[0], [fact.text for fact in extraction.facts]),
        ))  # fmt: skip
        for mention in extraction.mentions:
            if (mention.type or mention.description) and mention.name in known:
                tables["claims"].append((key, known[mention.name], mention.type, mention.description))
            for alias in mention.aliases:
                if alias in known and mention.name in known:
                    tables["aliases"].append((key, known[alias], known[mention.name]))
        for ordinal, fact in enumerate(extraction.facts):
            held = [known[name] for name in fact.entities if name in known]
            if not fact.relation:  # a triple may have the same entity at both ends
                held = [*dict.fromkeys(held)]
            start, stop = fact.span or (None, None)
            is_slice = start is not None and text[start:stop].replace("\n", " ") == fact.text
            tables["facts"].append((
                fact_key, key, ordinal, start, stop, None if is_slice else fact.text, pack(held),
                fact.relation or None, fact.weight, fact.confidence, LETTERS.get(fact.source, fact.source),
                LETTERS.get(fact.status, fact.status), fact.value or None,
                fact.created, fact.last_accessed, fact.access_count, fact.valid_from, fact.valid_to,
            ))  # fmt: skip
            text_of_fact = fact_text(called, fact.text, fact.relation, (*fact.entities, fact.value))
            texts["facts"].append((fact_key, (text_of_fact,)))
            fact_key += 1
        self.next["chunk"], self.next["fact"] = key + 1, fact_key


def read_documents(records: Records, ids: Sequence[str], *, accesses: bool = False) -> list[ParsedDocument]:
    """Return documents as :func:`write` got them, with their vectors.

    Without ``accesses`` those of facts are left out: :func:`write` takes them over when it replaces a document.
    """
    found = map(records.document, ids)
    return [_read_document(records, document, accesses=accesses) for document in found if document is not None]


def _read_document(records: Records, document: Document, *, accesses: bool) -> ParsedDocument:
    document_id = document.id
    key, metadata, digest = records.rows("SELECT key, metadata, digest FROM documents WHERE id = ?", (document_id,))[0]
    chunks = records.rows("SELECT key, subjects, names FROM chunks WHERE document = ? ORDER BY ordinal", (key,))
    span = chunks[0][0], chunks[-1][0] + 1  # a document's chunks, and their facts, have consecutive keys
    facts: defaultdict[int, list[Row]] = defaultdict(list)
    sql = (
        "SELECT f.key, f.chunk, f.names, said(f.text, c.text, f.start, f.stop), f.relation, f.weight, f.confidence, "
        "f.source, f.status, f.value, f.created, f.last_accessed, f.access_count, f.start, f.stop, f.valid_from, "
        "f.valid_to FROM facts f JOIN chunks c ON c.key = f.chunk WHERE c.document = ? ORDER BY f.key"
    )
    fact_rows = records.rows(sql, (key,))
    for row in fact_rows:
        facts[row[1]].append(row)
    claims = records.rows("SELECT * FROM claims WHERE chunk >= ? AND chunk < ? ORDER BY rowid", span)
    aliases = records.rows("SELECT * FROM aliases WHERE chunk >= ? AND chunk < ? ORDER BY rowid", span)
    used = unpack(b"".join(row[-1] for row in chunks)).tolist() + unpack(b"".join(row[2] for row in fact_rows)).tolist()
    surface = {number: name.surface for number, name in records.names(sorted({*used})).items()}
    extractions, names = [], []
    for chunk, subjects, packed in chunks:
        own = [surface[name] for name in unpack(packed).tolist()]
        names.append({name: at < subjects for at, name in enumerate(own)})
        mentions = [Mention(surface[name], kind, said) for one, name, kind, said in claims if one == chunk]
        mentions += [Mention(surface[long], aliases=(surface[short],)) for one, short, long in aliases if one == chunk]
        extractions.append(Extraction(tuple(mentions), tuple(_fact(row, surface, accesses) for row in facts[chunk])))
    vectors: dict[str, Matrix | None] = {}
    spans = {"chunks": span, "facts": (fact_rows[0][0], fact_rows[-1][0] + 1) if fact_rows else (0, 0)}
    for kind, of_kind in spans.items():
        pages = [matrix for _, matrix in records.vectors(kind, of_kind)]
        vectors[kind] = np.concatenate(pages) if pages else None
    if vectors["facts"] is None and vectors["chunks"] is not None and not fact_rows:
        vectors["facts"] = np.empty((0, vectors["chunks"].shape[1]), np.float32)
    return ParsedDocument(
        document, metadata, unpack_digest(digest), records.chunks_of(document_id), extractions, names,
        vectors["chunks"], vectors["facts"],
    )  # fmt: skip


def _fact(row: Row, surface: Mapping[int, str], accesses: bool) -> Fact:
    _, _, names, text, relation, weight, confidence, source, status, value, created, last, count, *rest = row
    start, stop, valid_from, valid_to = rest
    return Fact(
        tuple(surface[name] for name in unpack(names).tolist()), text, relation or "", weight, confidence,
        cast("Any", SOURCES.get(source, source)), cast("Any", STATUSES.get(status, status)),
        value or "", created, last if accesses or not count else None, count if accesses else 0,
        None if start is None else (start, stop), valid_from=valid_from, valid_to=valid_to,
    )  # fmt: skip


def _statement(document: str, text: str, names: bytes, relation: str | None, value: str | None) -> Statement:
    return (document, "", names, f"{relation}\x00{value or ''}") if relation else (document, text, b"", "")


def _accesses(
    db: sqlite3.Connection, removed: Sequence[str], added: Sequence[ParsedDocument]
) -> dict[Statement, list[tuple[float, int]]]:
    """Return last access and access count of the facts of replaced documents, by document, text, names and relation."""
    kept = {document.document.id for document in added}.intersection(removed)
    rows = db.execute(
        "SELECT d.id, said(f.text, c.text, f.start, f.stop), f.names, f.relation, f.value, f.last_accessed, "
        "f.access_count FROM documents d JOIN chunks c ON c.document = d.key JOIN facts f ON f.chunk = c.key "
        f"WHERE d.id {LISTED} AND f.access_count > 0 ORDER BY f.key",
        (json.dumps(sorted(kept)),),
    ).fetchall()
    accesses: dict[Statement, list[tuple[float, int]]] = {}
    for *statement, last, count in rows:
        accesses.setdefault(_statement(*statement), []).append((last, count))
    return accesses


def _stored_fact(row: Row, text: str) -> Row:
    """Return a row of facts without a text that its chunk's text has."""
    start, stop, own = row[3:6]
    if own is None or start is None or without_markup(text, start, stop) != own:
        return row
    return (*row[:5], b"", *row[6:])


def _insert(db: sqlite3.Connection, table: str, rows: Sequence[Row]) -> None:
    """Insert rows, many in one statement: Python's sqlite3 releases and takes the GIL once per statement."""
    size = _MAX_PARAMETERS // len(rows[0]) if rows else 1
    for start in range(0, len(rows), size):
        page = rows[start : start + size]
        marks = ", ".join([f"({', '.join('?' * len(page[0]))})"] * len(page))
        db.execute(f"INSERT INTO {table} VALUES {marks}", [*chain.from_iterable(page)])


def _delete(db: sqlite3.Connection, ids: Sequence[str], gone: dict[str, Keys]) -> list[int]:
    """Delete documents; put the keys of their chunks and facts into ``gone``, and return the names they used."""
    documents = db.execute(f"SELECT key FROM documents WHERE id {LISTED}", (json.dumps(ids),)).fetchall()
    wanted = (json.dumps([row[0] for row in documents]),)
    chunks = db.execute(f"SELECT key, names FROM chunks WHERE document {LISTED} ORDER BY key", wanted).fetchall()
    facts = db.execute(
        f"SELECT key FROM facts WHERE chunk IN (SELECT key FROM chunks WHERE document {LISTED}) ORDER BY key", wanted
    ).fetchall()
    db.execute(f"DELETE FROM documents WHERE key {LISTED}", wanted)  # and, by cascade, all rows that refer to them
    gone["chunks"] = np.array([row[0] for row in chunks], np.int64)
    gone["facts"] = np.array([row[0] for row in facts], np.int64)
    released = Counter(unpack(b"".join(row[1] for row in chunks)).tolist())
    db.executemany(_ADD_USES, [(-count, key) for key, count in released.items()])
    return list(released)


def _delete_unused(db: sqlite3.Connection, names: Sequence[int]) -> Keys:
    """Delete those of some names that no chunk uses any more; return their keys."""
    wanted = (json.dumps(names),)
    unused = f"uses <= 0 AND key {LISTED}"
    rows = db.execute(f"SELECT key FROM names WHERE {unused} ORDER BY key", wanted).fetchall()
    db.execute(f"DELETE FROM names WHERE {unused}", wanted)
    return np.array([row[0] for row in rows], np.int64)


def _collision(
    db: sqlite3.Connection, error: Exception, tables: Mapping[str, Sequence[Row]], first: Mapping[str, int]
) -> Exception:
    """Return an error that names the document whose id, or whose chunk's id, is taken."""
    table = next((table for table in ("documents", "chunks") if f"{table}.id" in str(error)), None)
    if table is None:
        return ExtractionError(f"an extractor returned a value that cannot be stored ({error})")
    ids = [row[1] for row in tables[table]]
    taken = db.execute(f"SELECT id FROM {table} WHERE key < ? AND id {LISTED}", (first[table[:-1]], json.dumps(ids)))
    twice = [one for one, count in Counter([*ids, *(row[0] for row in taken)]).items() if count > 1]
    if table == "documents":
        return DocumentError(twice[0], "is already stored: remove it in the same write")
    return DocumentError(twice[0], "another document has a chunk of this id: change one of the two ids")
