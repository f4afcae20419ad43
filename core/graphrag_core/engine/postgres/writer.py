"""Writing documents: the rows of a batch, in one transaction.

Rows of chunks and facts are copied first, while other writers do the same. Then the transaction takes the lock of the
index, and what depends on other writers happens one after the other: conflicts of ids are found, replaced documents
deleted, names and uses of entities counted, and the generation counted up. The lock is released by the commit. No row
is waited for before the lock is held, so writers cannot wait for each other in a circle.
"""

import json
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence
from decimal import Decimal
from zlib import crc32

import numpy as np

from graphrag_core.engine.codes import decode, encode
from graphrag_core.engine.graph.counters import MENTION, SUBJECT, Mentions
from graphrag_core.engine.postgres import keywords
from graphrag_core.engine.postgres.counting import Counts, read_counts, store_counts
from graphrag_core.engine.postgres.database import Cursor, Database, Halfvec, copy_rows, lock, may_repeat
from graphrag_core.engine.postgres.reads import PostgresTables, rows_of
from graphrag_core.engine.postgres.schema import BLOCK, FACT_BITS, OF_CHUNK, OF_FACT, column_types
from graphrag_core.engine.rows import (
    ADDRESS,
    ChunkRows,
    FactRow,
    Row,
    check_expected,
    check_unique,
    chunk_rows,
    document_row,
    kept_accesses,
    statement_number,
)
from graphrag_core.errors import (
    ChangedMeanwhile,
    DatabaseError,
    DocumentError,
    EmbedderMismatch,
    ExtractionError,
    GraphRAGError,
)
from graphrag_core.filters import attributes
from graphrag_core.ports import Keys, Matrix, ParsedDocument
from graphrag_core.text import hash64, normalise, title_names, unwrap

EMBEDS = "embeds"
"""The setting that says what is embedded besides chunks."""

EMBEDDER = "embedder"
"""The setting with the embedder that built the index."""

NEXT_GENERATION = "greatest(generation + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)"
"""The generation of a change of the row of ``indexes``: its time in microseconds.

No other state of the index has it, even if a backup was restored or a standby that lacked the last changes was promoted
meanwhile: what a process keeps of a generation stays true.
"""

_KEPT_COMMITS = 1_000


def write(
    database: Database,
    index: int,
    added: Sequence[ParsedDocument] = (),
    removed: Sequence[str] = (),
    name_vectors: Mapping[str, Matrix] | None = None,
    settings: Mapping[str, str] | None = None,
    expected: Mapping[str, str] | None = None,
) -> None:
    """Remove documents by id, add documents and store settings, in one transaction.

    A lost connection is repaired and the transaction repeated, unless it was committed: that is looked up.
    """
    batch = Batch(index, reserve(database, sum(len(parsed.chunks) for parsed in added)), added, name_vectors)
    removed = list(dict.fromkeys(removed))

    def was_committed() -> bool:
        with database.transaction() as cursor:
            lock(cursor, index)  # whoever held it has committed or not
            wanted = (index, batch.number)
            row = cursor.execute("SELECT 1 FROM commits WHERE index = %s AND batch = %s", wanted).fetchone()
            return row is not None

    def attempt() -> None:
        committing = False
        try:
            with database.transaction() as cursor:
                _write(cursor, batch, removed, dict(settings or {}), expected or {})
                committing = True
        except GraphRAGError as error:
            if not (committing and may_repeat(error) and database.repeated(was_committed)):
                raise

    database.repeated(attempt)


def reserve(database: Database, count: int) -> list[int]:
    """Return ``count`` new keys of chunks, in ascending order."""
    if count == 0:
        return []
    blocks = -(-count // BLOCK)
    rows = database.rows("SELECT nextval('chunk_keys') FROM generate_series(1, %s)", (blocks,))
    return [int(row[0]) + at for row in rows for at in range(BLOCK)][:count]


class Batch:
    """The rows of documents, by table."""

    def __init__(
        self,
        index: int,
        keys: Sequence[int],
        documents: Sequence[ParsedDocument],
        name_vectors: Mapping[str, Matrix] | None,
    ) -> None:
        self.index = index
        self.number = secrets.randbits(62)  # of the commit
        self.documents = documents
        self.now = time.time()
        self.chunks = np.array(keys, np.int64)
        self.name_vectors = name_vectors
        self.tables: defaultdict[str, list[Row]] = defaultdict(list)
        self.segment = keywords.Segment()
        self.lengths = np.zeros(5, np.int64)
        self.uses = Counter(name for parsed in documents for names in parsed.names for name in names)
        self.names = {name: (hash64(name), hash64(normalise(name))) for name in self.uses}  # key, and id of the name
        self._mentioned: list[tuple[int, int, int, bool, bool, bool]] = []  # see Mentions
        self._in_triples: list[int] = []
        following = iter(keys)
        for parsed in documents:
            self._add_document(parsed, [next(following) for _ in parsed.chunks])
        if len(self.chunks):
            segment = int(self.chunks[0])
            self.tables["segments"].append((index, segment, self.segment.texts))
            self.tables["postings"] = self.segment.rows(index, segment)

    def counts(self) -> Counts:
        """Return how the documents use entities."""
        columns = [*zip(*self._mentioned, strict=True)] or [()] * 6
        document, chunk, entity = (np.array(column, np.int64) for column in columns[:3])
        subject, in_title, is_address = (np.array(column, np.bool_) for column in columns[3:])
        mentions = Mentions(document, chunk, entity, subject, in_title, is_address)
        return Counts(mentions, np.array(self._in_triples, np.int64))

    def _add_document(self, parsed: ParsedDocument, keys: Sequence[int]) -> None:
        document, index = parsed.document, self.index
        self.tables["documents"].append((index, *document_row(keys[0], parsed, 0, self.now)))
        for name, (kind, value) in dict.fromkeys(attributes(document.metadata)) if document.metadata else ():
            number = Decimal(value) if kind == "number" else None
            text = None if kind == "number" else PostgresTables.stored_value(kind, value)
            self.tables["attributes"].append((index, name, kind, text, number, keys[0]))
        facts: list[int] = []
        chunks = [*chunk_rows(parsed, self.names)]
        longs = self._longs(chunks)
        title = {hash64(normalise(name)) for name in title_names(parsed.chunks[0].title)}
        for key, rows in zip(keys, chunks, strict=True):
            if len(rows.facts) >> FACT_BITS:
                raise DocumentError(document.id, f"a chunk has more than {1 << FACT_BITS} facts: cut smaller chunks")
            self._add_chunk(key, keys[0], rows, longs)
            self._add_mentions(key, keys[0], rows, longs, title)
            facts += range(key << FACT_BITS, (key << FACT_BITS) + len(rows.facts))
        for owner, owners, vectors in (("chunk", keys, parsed.chunk_vectors), ("fact", facts, parsed.fact_vectors)):
            if vectors is not None and len(owners):
                values = Halfvec.rows(stored(f"{owner}s", vectors))
                self.tables[f"{owner}_vectors"] += [(index, *row) for row in zip(owners, values, strict=True)]

    def _longs(self, chunks: Sequence[ChunkRows]) -> dict[str, int]:
        """Return the entities that short names stand for in a document which gives each one long name.

        A name that is itself short for another one in the document is not a long name.
        """
        found: defaultdict[str, set[int]] = defaultdict(set)
        for short, long in (pair for rows in chunks for pair in rows.aliases):
            if self.names[long][1] != self.names[short][1]:
                found[short].add(self.names[long][1])
        alone = {short: next(iter(longs)) for short, longs in found.items() if len(longs) == 1}
        shorts = {self.names[short][1] for short in alone}
        return {short: long for short, long in alone.items() if long not in shorts}

    def _add_chunk(self, key: int, document: int, rows: ChunkRows, longs: Mapping[str, int]) -> None:
        index, tables, known, chunk = self.index, self.tables, self.names, rows.chunk
        lengths = self.segment.add_chunk(key, rows.fields)
        whole = unwrap(chunk.text)
        lengths.append(
            sum(self._add_fact((key << FACT_BITS) + at, key, whole, fact, longs) for at, fact in enumerate(rows.facts))
        )
        self.lengths += lengths
        tables["chunks"].append((
            index, key, chunk.id, document, chunk.ordinal, chunk.start, chunk.text, rows.subjects, rows.headings,
            chunk.page, rows.terms, rows.fact_terms, rows.tokens, len(rows.facts), lengths,
            crc32(chunk.id.encode("utf-8", "surrogatepass")),
        ))  # fmt: skip
        for name, kind, description in rows.claims:
            tables["claims"].append((index, key, len(tables["claims"]), known[name][0], kind, description))
        for short, long in rows.aliases:
            tables["aliases"].append((index, key, len(tables["aliases"]), known[short][0], known[long][0]))

    def _add_mentions(
        self, key: int, document: int, rows: ChunkRows, longs: Mapping[str, int], title: Container[int]
    ) -> None:
        """Add the names of a chunk, with their entities."""
        seen = set[int]()
        for position, (name, is_subject) in enumerate(rows.names.items()):
            name_key, name_id = self.names[name]
            entity = longs.get(name, name_id)
            weight = 0 if entity in seen else SUBJECT if is_subject else MENTION
            in_title, is_address = entity in title, name.startswith(ADDRESS)
            self.tables["mentions"].append((
                self.index, key, position, name_key, entity, weight, in_title, is_address, entity != name_id,
            ))  # fmt: skip
            if weight:
                self._mentioned.append((document, key, entity, is_subject, in_title, is_address))
            seen.add(entity)

    def _add_fact(self, key: int, chunk: int, whole: str, fact: FactRow, longs: Mapping[str, int]) -> int:
        """Add a fact; ``whole`` is the text of its chunk without line breaks. Return the number of its tokens."""
        text = whole[fact.start : fact.stop] if fact.text is None else fact.text
        relation, names = fact.columns[0], [self.names[name][0] for name in fact.names]
        self.tables["facts"].append((
            self.index, key, chunk, fact.start, fact.stop, None if fact.is_plain else fact.text, fact.is_plain, names,
            *fact.columns, statement_number(text, relation, np.array(names, "<i8").tobytes()),
        ))  # fmt: skip
        entities = {longs.get(name, self.names[name][1]): name.startswith(ADDRESS) for name in fact.names}
        self.tables["fact_entities"] += [(self.index, key, *entity) for entity in entities.items()]
        if relation is not None:
            self._in_triples += entities
        return self.segment.add(keywords.FACTS, key, fact.search_text)


def stored(kind: str, vectors: Matrix) -> Matrix:
    """Return vectors as an index in a folder stores them, so that both engines compare the same numbers."""
    vectors = np.ascontiguousarray(vectors, np.float32)
    return decode(kind, encode(kind, vectors), vectors.shape[1])


# -- the transaction


def copy(cursor: Cursor, table: str, rows: Sequence[Row]) -> None:
    """Add rows to a table."""
    if not rows:
        return
    try:
        copy_rows(cursor, table, rows, column_types(table))
    except (ValueError, TypeError, OverflowError) as error:
        raise ExtractionError(f"an extractor returned a value that cannot be stored ({error})") from error


def _write(
    cursor: Cursor,
    batch: Batch,
    removed: Sequence[str],
    settings: dict[str, str],
    expected: Mapping[str, str],
) -> None:
    index, tables = batch.index, batch.tables
    for table, rows in tables.items():
        if table != "documents":  # which have the generation
            copy(cursor, table, rows)
    lock(cursor, index)
    row = cursor.execute(f"SELECT {NEXT_GENERATION} FROM indexes WHERE id = %s", (index,)).fetchone()
    if row is None:
        raise DatabaseError("the index was deleted from the database meanwhile: open it again to create it")
    generation = int(row[0])
    _check_settings(cursor, index, settings, expected)
    ids = [row[2] for row in tables["documents"]]
    counts, unused, stored = batch.counts(), list[int](), PostgresTables.of(cursor, index)
    if removed and len(gone := stored.chunks_of_documents(removed)):
        replaced = sorted(set(removed).intersection(ids))
        if before := list(stored.accesses(replaced)) if replaced else []:
            facts = (row[1] for row in tables["facts"])
            add_accesses(cursor, index, kept_accesses(before, facts, batch.documents, batch.names))
        counts.add(read_counts(cursor, index, gone), -1)
        unused = _delete(cursor, index, gone)
    _check_ids(cursor, batch, ids)
    copy(cursor, "documents", [(*row[:7], generation, *row[8:]) for row in tables["documents"]])
    _add_names(cursor, batch)
    if unused:
        _delete_names(cursor, index, unused)
    if settings:
        cursor.execute(
            "INSERT INTO settings SELECT %s, * FROM unnest(%s::text[], %s::text[]) "
            "ON CONFLICT (index, name) DO UPDATE SET value = excluded.value",
            (index, list(settings), list(settings.values())),
        )
    cursor.execute(
        "UPDATE indexes SET generation = %s, documents = documents + %s, chunks = chunks + %s, facts = facts + %s, "
        "lengths = ARRAY(SELECT a + b FROM unnest(lengths, %s::bigint[]) WITH ORDINALITY t(a, b, n) ORDER BY n) "
        "WHERE id = %s",
        (generation, len(ids), len(batch.chunks), len(tables["facts"]), batch.lengths, index),
    )
    cursor.execute("INSERT INTO commits VALUES (%s, %s, %s)", (index, batch.number, generation))
    if batch.number % 100 == 0:
        cursor.execute(
            "DELETE FROM commits WHERE index = %(index)s AND generation < (SELECT generation FROM commits "
            "WHERE index = %(index)s ORDER BY generation DESC OFFSET %(kept)s LIMIT 1)",
            {"index": index, "kept": _KEPT_COMMITS},
        )
    store_counts(cursor, index, counts)
    keywords.tidy(cursor, index)


def _check_settings(cursor: Cursor, index: int, settings: dict[str, str], expected: Mapping[str, str]) -> None:
    """Raise if another process has stored other settings meanwhile."""
    names = [*expected, *(name for name in (EMBEDDER,) if name in settings)]
    if not names:
        return
    rows = cursor.execute("SELECT name, value FROM settings WHERE index = %s AND name = ANY(%s)", (index, names))
    stored: dict[str, str] = dict(rows.fetchall())
    check_expected(stored, expected)
    if (found := stored.get(EMBEDDER)) and settings.get(EMBEDDER, found) != found:
        raise EmbedderMismatch(
            f"another process has begun to build the index with {found}, not with {settings[EMBEDDER]}: open it with "
            "that embedder, or choose another index"
        )


def _delete(cursor: Cursor, index: int, chunks: Keys) -> list[int]:
    """Delete chunks with their documents, facts and all that refers to them; return the names without a use."""
    ((count, facts, documents, lengths),) = cursor.execute(
        "SELECT count(*), sum(facts), array_agg(DISTINCT document), "
        "ARRAY[sum(lengths[1]), sum(lengths[2]), sum(lengths[3]), sum(lengths[4]), sum(lengths[5])]::bigint[] "
        "FROM chunks WHERE index = %s AND key = ANY(%s)",
        (index, chunks),
    ).fetchall()
    for table, column in OF_FACT.items():
        cursor.execute(
            f"DELETE FROM {table} f USING unnest(%s::bigint[]) AS c(chunk) "
            f"WHERE f.index = %s AND f.{column} >= c.chunk << {FACT_BITS} "
            f"AND f.{column} < (c.chunk + 1) << {FACT_BITS}",
            (chunks, index),
        )
    cursor.execute(
        "WITH used AS (SELECT name, count(*) AS uses FROM mentions WHERE index = %s AND chunk = ANY(%s) GROUP BY name) "
        "UPDATE names n SET uses = n.uses - used.uses FROM used WHERE n.index = %s AND n.key = used.name "
        "RETURNING n.key, n.uses",
        (index, chunks, index),
    )
    unused = [row[0] for row in cursor.fetchall() if row[1] <= 0]
    of_document = {"documents": "key", "attributes": "document"}
    for columns, owners in ((OF_CHUNK, chunks), (of_document, documents)):
        for table, column in columns.items():
            cursor.execute(f"DELETE FROM {table} WHERE index = %s AND {column} = ANY(%s)", (index, owners))
    cursor.execute("INSERT INTO dead_chunks SELECT %s, unnest(%s::bigint[])", (index, chunks))
    cursor.execute(
        "UPDATE indexes SET documents = documents - %s, chunks = chunks - %s, facts = facts - %s, dead = dead + %s, "
        "lengths = ARRAY(SELECT a - b FROM unnest(lengths, %s::bigint[]) WITH ORDINALITY t(a, b, n) ORDER BY n) "
        "WHERE id = %s",
        (len(documents), count, int(facts), len(chunks), lengths, index),
    )
    return unused


def _delete_names(cursor: Cursor, index: int, unused: Sequence[int]) -> None:
    """Delete the names that no chunk mentions any more. Call it after the names of the batch were counted."""
    names = np.array(unused, np.int64)
    cursor.execute("DELETE FROM names WHERE index = %s AND key = ANY(%s) AND uses <= 0 RETURNING key", (index, names))
    gone = np.array([row[0] for row in cursor.fetchall()], np.int64)
    cursor.execute("DELETE FROM name_vectors WHERE index = %s AND key = ANY(%s)", (index, gone))


def _check_ids(cursor: Cursor, batch: Batch, ids: Sequence[str]) -> None:
    """Raise an error that names the document whose id, or whose chunk's id, is taken."""
    if not ids:
        return
    taken = cursor.execute(
        f"SELECT d.id FROM {rows_of('documents', 'd', 'id', 'ids', 'text')}", {"index": batch.index, "ids": list(ids)}
    )
    check_unique(ids, (row[0] for row in taken.fetchall()))
    chunk_ids = [row[2] for row in batch.tables["chunks"]]
    taken = cursor.execute(
        f"SELECT c.id, c.key FROM {rows_of('chunks', 'c', 'id', 'ids', 'text')}",
        {"index": batch.index, "ids": chunk_ids},
    )
    own = set(batch.chunks.tolist())
    check_unique(chunk_ids, (row[0] for row in taken.fetchall() if row[1] not in own), of_chunks=True)


def _add_names(cursor: Cursor, batch: Batch) -> None:
    """Count the uses of names, and add those that are new with their vectors."""
    if not batch.names:
        return
    names = sorted((key, name, name_id) for name, (key, name_id) in batch.names.items())
    surfaces, uses = [name for _, name, _ in names], [batch.uses[name] for _, name, _ in names]
    keys, name_ids = (np.array([row[at] for row in names], np.int64) for at in (0, 2))
    addresses = np.array([name.startswith(ADDRESS) for name in surfaces], np.bool_)
    rows = cursor.execute(
        "INSERT INTO names AS n SELECT %s, k, s, e, a, u FROM "
        "unnest(%s::bigint[], %s::text[], %s::bigint[], %s::boolean[], %s::bigint[]) AS t(k, s, e, a, u) "
        "ON CONFLICT (index, key) DO UPDATE SET uses = n.uses + excluded.uses RETURNING n.key, n.uses, n.surface",
        (batch.index, keys, surfaces, name_ids, addresses, np.array(uses, np.int64)),
    ).fetchall()
    stored = {key: (count, surface) for key, count, surface in rows}
    new: dict[str, int] = {}
    for key, name, count in zip(keys.tolist(), surfaces, uses, strict=True):
        total, surface = stored[key]
        if surface != name:
            raise DatabaseError(f"the names {name!r} and {surface!r} have the same hash: rename one of them")
        if total == count:
            new[name] = key
    if new and batch.name_vectors is not None:
        _add_name_vectors(cursor, batch, new, batch.name_vectors)


def _add_name_vectors(cursor: Cursor, batch: Batch, new: Mapping[str, int], vectors: Mapping[str, Matrix]) -> None:
    """Store the vectors of new names, given with their keys. Raise if one is missing that others need."""
    _check_vectors(cursor, batch, {key: name for name, key in new.items() if name not in vectors})
    embedded = {key: vectors[name] for name, key in new.items() if name in vectors}
    if embedded:
        values = Halfvec.rows(stored("names", np.array([*embedded.values()], np.float32)))
        cursor.execute(
            "INSERT INTO name_vectors SELECT %s, k, v FROM unnest(%s::bigint[], %b) AS t(k, v) ON CONFLICT DO NOTHING",
            (batch.index, np.array([*embedded], np.int64), values),
        )


def _check_vectors(cursor: Cursor, batch: Batch, names: Mapping[int, str]) -> None:
    """Raise if names lack a vector that the writer did not compute, as they were stored when it asked."""
    needed = {key: name for key, name in names.items() if not name.startswith(ADDRESS)}
    if not needed:
        return
    row = cursor.execute("SELECT value FROM settings WHERE index = %s AND name = %s", (batch.index, EMBEDS)).fetchone()
    if row is None or not json.loads(row[0]).get("names"):
        return
    rows = cursor.execute(
        "SELECT key FROM name_vectors WHERE index = %s AND key = ANY(%s)", (batch.index, np.array([*needed], np.int64))
    )
    missing = needed.keys() - {row[0] for row in rows.fetchall()}
    if missing:
        raise ChangedMeanwhile(
            f"{len(missing)} names were deleted by another process meanwhile: embed them and write again",
            [needed[key] for key in sorted(missing)],
        )


def add_accesses(cursor: Cursor, index: int, accesses: Mapping[int, tuple[int, float]]) -> None:
    """Add access counts to facts, given by key; deleted facts are ignored."""
    counts, lasts = ([pair[at] for pair in accesses.values()] for at in (0, 1))
    cursor.execute(
        "UPDATE facts f SET access_count = f.access_count + t.c, "
        "last_accessed = greatest(coalesce(f.last_accessed, 0), t.l) "
        "FROM unnest(%s::bigint[], %s::bigint[], %s::float8[]) AS t(k, c, l) WHERE f.index = %s AND f.key = t.k",
        (list(accesses), counts, lasts, index),
    )
