"""``PostgresEngine``: an index in a PostgreSQL database, which many processes on many machines read and write.

A write is one transaction (see :mod:`~graphrag_core.engine.postgres.writer`). A snapshot is one transaction that sees
the newest generation and changes nothing, so readers never wait for writers.
"""

import base64
import json
import logging
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np
from typing_extensions import Self

from graphrag_core import forks
from graphrag_core.engine.filter_sql import check_keys, filter_sql, parts_of, postgres, postgres_text
from graphrag_core.engine.graph.snapshot import StoreSnapshot
from graphrag_core.engine.postgres import graph, keywords, writer
from graphrag_core.engine.postgres.database import Connection, Database, DriverError, Row, matrix
from graphrag_core.engine.postgres.reads import EVERYTHING, Scope, Transaction
from graphrag_core.engine.postgres.schema import FACT_BITS, TABLES
from graphrag_core.engine.postgres.snapshot import CHUNK, PostgresReads
from graphrag_core.engine.rows import (
    FACT_COLUMNS,
    Accesses,
    DocumentTables,
    chunk_of,
    document_of,
    fact_search_text,
    keyword_fields,
    metadata_problems,
    statistics,
    text_of_fact,
    unpack_headings,
)
from graphrag_core.errors import DatabaseError, GraphRAGError, IndexClosed, InputError, ReadOnlyIndex
from graphrag_core.filters import Filter
from graphrag_core.model import Chunk, Document, Stats, Verification
from graphrag_core.ports import Keys, Matrix, ParsedDocument
from graphrag_core.text import hash64, normalise

_log = logging.getLogger(__name__)

APPROXIMATE_FROM = 100_000
"""Vectors of a kind from which on an HNSW index replaces exact search."""

_PATIENCE = "60s"  # to wait for transactions that began before an HNSW index
_PAGE = 500
_MOST_SCOPES = 16  # scopes whose chunks are kept in memory
_STATE = """
SELECT i.generation, i.chunks, i.facts, i.lengths, i.dead,
    EXISTS (SELECT FROM chunk_vectors v WHERE v.index = i.id), EXISTS (SELECT FROM fact_vectors v WHERE v.index = i.id),
    EXISTS (SELECT FROM name_vectors v WHERE v.index = i.id)
FROM indexes i WHERE i.id = %s
"""
_VECTOR_TABLES = {"chunks": "chunk_vectors", "facts": "fact_vectors", "entities": "name_vectors"}


class PostgresEngine:
    """Stores and searches an index in PostgreSQL. Its methods are those of :class:`~graphrag_core.ports.Engine`.

    Parameters
    ----------
    url
        ``postgresql://user@host:port/database?index=NAME``. Several indexes can be in one database; without ``index``
        it is the one called ``default``. Tables and index are created by the first opening for writing, if the role
        may; else run ``hybrid-graphrag db init``.
    read_only
        Never write. The server may be a standby.
    merge_similar
        Cosine similarity of embedded names from which two entities are merged. It is stored with the index.
    exact
        Never search vectors with an HNSW index.

    Raises
    ------
    DatabaseError
        The server cannot be reached, or lacks the extension ``vector``.
    NotAnIndex, UnsupportedFormat
        The tables or the index are missing, or of another release.
    """

    shared = True
    """Other processes may write at the same time."""

    def __init__(
        self, url: str, *, read_only: bool = False, merge_similar: float | None = None, exact: bool = False
    ) -> None:
        self.url = url
        self.read_only = read_only
        self.exact = exact
        self._merge_similar = merge_similar
        self.database = Database(url, read_only=read_only)
        self.path = self.database.shown
        self.index = self.database.open()
        self._dialect = postgres(self.index)
        self.accesses = Accesses()
        self._closed = False
        self._lock = threading.Lock()
        self._seen = -1  # the generation of the last refresh
        self._dead: tuple[int, Keys] = (-1, np.empty(0, np.int64))
        self._scopes: OrderedDict[tuple[int, Filter], Keys] = OrderedDict()  # keys of chunks by generation and filter
        self._approximate: tuple[int, tuple[str, ...]] = (-1, ())
        self._seen = self.generation
        if merge_similar is not None and not read_only:
            similar = str(float(merge_similar))
            if (writer.SIMILAR, similar) not in self._stored_settings():
                writer.write(self.database, self.index, settings={writer.SIMILAR: similar})
        forks.watch(self)

    def _check(self, *, writable: bool = False) -> None:
        if self._closed:
            raise IndexClosed(f"{self.database.shown} was closed: open it again")
        if writable and self.read_only:
            raise ReadOnlyIndex(self.read_only_reason)

    @property
    def read_only_reason(self) -> str:
        """Why the index cannot be changed here, and what to do; empty if it can."""
        return (
            f"{self.database.shown} was opened with read_only=True: open it for writing to change it"
            if self.read_only
            else ""
        )

    # -- writing

    def write(
        self,
        added: Sequence[ParsedDocument] = (),
        removed: Sequence[str] = (),
        *,
        name_vectors: Mapping[str, Matrix] | None = None,
        settings: Mapping[str, str] | None = None,
        expected: Mapping[str, str] | None = None,
    ) -> None:
        """Remove documents by id, add documents and store settings, in one transaction.

        ``expected`` are settings that must still have these values (empty for none): else nothing is written, and
        :class:`~graphrag_core.errors.ChangedMeanwhile` says that another process was faster.
        """
        self._check(writable=True)
        if added and removed and self.accesses.pending:
            self._write_accesses()  # so that a replaced document keeps those of its facts
        writer.write(self.database, self.index, added, removed, name_vectors, settings, expected)
        if added:
            self._analyse()

    def _analyse(self) -> None:
        """Let the server count its tables again when they have doubled: it plans for what it last counted.

        Its own autovacuum comes later, and meanwhile a join of a table that it believes empty takes seconds.
        """
        tables = ", ".join(f"{self.database.address.schema}.{table}" for table in TABLES)
        try:
            counted, present = self.database.rows(
                "SELECT (SELECT greatest(reltuples, 50)::bigint FROM pg_class WHERE oid = 'chunks'::regclass), "
                "(SELECT sum(chunks)::bigint FROM indexes)"
            )[0]
            if present < 2 * counted:
                return
            with self.database.connection() as connection:
                connection.execute("SELECT set_config('client_min_messages', 'error', false)")
                connection.execute(f"ANALYZE {tables}")
        except DatabaseError as error:
            _log.warning("the tables could not be analysed: %s", error)

    def flush(self) -> None:
        self._check()
        if self.read_only:
            return
        if self.accesses.pending:
            self._write_accesses()
        if not self.exact:
            self._index_vectors()

    def _write_accesses(self) -> None:
        """Add access counts to the rows; deleted facts are ignored. Failure is logged only."""
        pending = self.accesses.take()
        try:
            with self.database.transaction() as cursor:
                writer.lock(cursor, self.index)
                writer.add_accesses(cursor, self.index, pending)
        except GraphRAGError as error:
            _log.warning("the access counts of facts could not be written: %s", error)

    def _index_vectors(self) -> None:
        """Create an HNSW index for each kind of which there are many vectors. Writers and readers go on meanwhile."""
        counts = self.database.rows("SELECT chunks, facts FROM indexes WHERE id = %s", (self.index,))[0]
        if max(counts) < APPROXIMATE_FROM:
            return
        partitions = int(self.database.value("SELECT value FROM meta WHERE name = 'partitions'"))
        for kind, table in _VECTOR_TABLES.items():
            if kind in self._indexed_kinds():
                continue
            count = self.database.value(f"SELECT count(*) FROM {table} WHERE index = %s", (self.index,))
            if count < APPROXIMATE_FROM:
                continue
            parts = [table] if partitions == 1 else [f"{table}_{part}" for part in range(partitions)]
            try:
                for part in parts:
                    self._create_hnsw(part)
            except DatabaseError as error:
                _log.warning("the HNSW index of %s was not created, and the next change tries again: %s", kind, error)

    def _create_hnsw(self, table: str) -> None:
        first = f"SELECT vector_dims(vector) FROM {table} WHERE index = %s LIMIT 1"
        found = self.database.rows(first, (self.index,))
        if not found:
            return
        dim, name = int(found[0][0]), f"hnsw_{table}_{self.index}"
        with self.database.connection() as connection:
            if connection.execute("SELECT pg_try_advisory_lock(%s, %s)", (writer.LOCK + 1, self.index)).fetchone() != (
                True,
            ):
                return  # another process creates it
            try:
                valid = connection.execute(
                    "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", (name,)
                ).fetchone()
                if valid == (True,):
                    return
                if valid == (False,):  # of a process that was stopped
                    connection.execute(f"DROP INDEX CONCURRENTLY {name}")
                connection.execute(
                    "SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', %s, false)",
                    (_PATIENCE,),
                )
                connection.execute(
                    f"CREATE INDEX CONCURRENTLY {name} ON {table} USING hnsw "
                    f"((vector::halfvec({dim})) halfvec_ip_ops) WHERE index = {self.index}"
                )
                connection.execute(f"ANALYZE {table}")
            finally:
                connection.execute("RESET statement_timeout")
                connection.execute("RESET lock_timeout")
                connection.execute("SELECT pg_advisory_unlock(%s, %s)", (writer.LOCK + 1, self.index))
        self._approximate = (-1, ())

    def _indexed_kinds(self) -> tuple[str, ...]:
        """Return the kinds of vectors that have an HNSW index."""
        rows = self.database.rows(
            "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND i.indisvalid AND c.relname LIKE %s",
            (self.database.address.schema, f"hnsw_%_{self.index}"),
        )
        names = " ".join(row[0] for row in rows)
        return tuple(kind for kind, table in _VECTOR_TABLES.items() if f"hnsw_{table}_" in names)

    def rebuild(self) -> None:
        self._check(writable=True)

        def run() -> None:
            with self.database.transaction() as cursor:
                writer.lock(cursor, self.index)
                for table in ("postings", "segments", "dead_chunks"):
                    cursor.execute(f"DELETE FROM {table} WHERE index = %s", (self.index,))
                cursor.execute("UPDATE indexes SET dead = 0 WHERE id = %s", (self.index,))

                def rows(sql: str, parameters: Any) -> list[Row]:
                    return cursor.execute(sql, parameters).fetchall()

                for page in _pages_of_texts(rows, self.index):
                    segment = keywords.Segment()
                    for chunk, fields, facts in page:
                        segment.add_chunk(chunk, fields)
                        for fact, text in facts:
                            segment.add(keywords.FACTS, fact, text)
                    first = page[0][0]
                    writer.copy(cursor, "segments", [(self.index, first, len(page))])
                    writer.copy(cursor, "postings", segment.rows(self.index, first))
                    keywords.tidy(cursor, self.index)
                graph.rebuild(cursor, self.index)

        self.database.repeated(run)
        self._dead = (-1, self._dead[1])

    def compact(self) -> bool:
        """Remove what was deleted from the postings, and let the server release the space of deleted rows.

        The tables are vacuumed if the role owns them; the server's own autovacuum does it otherwise.
        """
        self._check(writable=True)

        def run() -> None:
            with self.database.transaction() as cursor:
                writer.lock(cursor, self.index)
                keywords.purge(cursor, self.index)
                rows = cursor.execute("SELECT segment, texts FROM segments WHERE index = %s", (self.index,)).fetchall()
                if len(rows) > 1:
                    keywords.merge(cursor, self.index, [row[0] for row in rows], sum(row[1] for row in rows))

        self.database.repeated(run)
        try:
            tables = self.database.rows(
                "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = %s", (self.database.address.schema,)
            )
            with self.database.connection() as connection:
                for (table,) in tables:
                    connection.execute(f"VACUUM (ANALYZE) {self.database.address.schema}.{table}")
        except DatabaseError as error:
            _log.warning("the tables could not be vacuumed: %s", error)
            return False
        return True

    def refresh(self) -> bool:
        """Return whether anything was written since the last call. Every snapshot sees the newest generation anyway."""
        before, self._seen = self._seen, self.generation
        return self._seen != before

    def close(self) -> None:
        if self._closed:
            return
        try:
            if self.accesses.pending and not self.read_only:
                self._write_accesses()
        finally:
            self._closed = True
            self.database.close()

    def backup(self, path: str | Path) -> NoReturn:
        """Raise an error: a database is backed up with its own programs."""
        raise InputError(
            f"an index in PostgreSQL is not copied to {path}: use pg_dump --schema={self.database.address.schema}, the "
            "snapshots of your provider, or `hybrid-graphrag copy` into a folder"
        )

    # -- reading

    @contextmanager
    def snapshot(self, scope: Filter | None = None) -> Iterator[StoreSnapshot]:
        with self._reads(scope) as reads:
            yield StoreSnapshot(reads)

    @contextmanager
    def _reads(self, scope: Filter | None = None) -> Iterator[PostgresReads]:
        self._check()
        connection, reads = self.database.repeated(lambda: self._begin(scope))
        try:
            yield PostgresReads(reads, self._approximate_kinds(reads))
        finally:
            with suppress(DriverError):
                connection.commit()  # after a rollback the driver would forget all prepared statements
            self.database.pool.putconn(connection)

    def _begin(self, scope: Filter | None) -> tuple[Connection, Transaction]:
        """Begin a transaction that sees one generation, and find what it may see."""
        try:
            connection = self.database.borrow()
        except DatabaseError:
            raise
        except Exception as error:
            raise self.database.translated(error) from error
        try:
            try:
                with connection.pipeline(), connection.cursor(binary=True) as cursor:
                    cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
                    state = cursor.execute(_STATE, (self.index,)).fetchone()
            except DriverError as error:
                raise self.database.translated(error) from error
            generation, chunks, facts, lengths, dead, *has = self._checked(state)
            vectors = dict(zip(_VECTOR_TABLES, has, strict=True))
            nothing = np.empty(0, np.int64)
            reads = Transaction(
                self.database, connection, self.index, generation, chunks, facts, lengths, nothing, EVERYTHING,
                self.accesses, vectors,
            )  # fmt: skip
            if dead:
                reads.dead = self._dead_chunks(reads)
            if scope is not None:
                reads.scope = self._scope(reads, scope)
                reads.__post_init__()
        except BaseException:
            with suppress(DriverError):
                connection.rollback()
            self.database.pool.putconn(connection)
            raise
        return connection, reads

    def _checked(self, state: Row | None) -> Row:
        if state is None:
            raise DatabaseError(f"{self.database.shown}: the index was deleted from the database: open it again")
        return state

    def _dead_chunks(self, reads: Transaction) -> Keys:
        """Return the deleted chunks that postings still have, in ascending order. The last ones are cached."""
        generation, dead = self._dead
        if generation != reads.generation:
            rows = reads.rows("SELECT chunk FROM dead_chunks WHERE index = %s ORDER BY chunk", (self.index,))
            dead = np.array([row[0] for row in rows], np.int64)
            self._dead = reads.generation, dead
        return dead

    def _scope(self, reads: Transaction, scope: Filter) -> Scope:
        chosen, hidden = parts_of(scope)
        inside = None if chosen is None else self._chunks_in(reads, chosen)
        if inside is not None and len(inside) == reads.chunk_count:
            inside = None
        gone = np.empty(0, np.int64) if hidden is None else self._chunks_in(reads, hidden)
        return Scope(inside, gone)

    def _chunks_in(self, reads: Transaction, scope: Filter) -> Keys:
        """Return the keys of the chunks whose documents match a filter, in ascending order. The last are cached."""
        key = reads.generation, scope
        with self._lock:
            if key in self._scopes:
                self._scopes.move_to_end(key)
                return self._scopes[key]
        found = np.empty(0, np.int64)
        if check_keys(reads.rows, scope, self._dialect):
            sql, parameters = filter_sql(scope, self._dialect)
            rows = reads.rows(
                f"SELECT coalesce(array_agg(key), '{{}}') FROM chunks WHERE index = %s AND document IN ({sql})",
                [self.index, *parameters],
            )
            found = np.sort(np.array(rows[0][0], np.int64))
        with self._lock:
            self._scopes[key] = found
            while len(self._scopes) > _MOST_SCOPES:
                self._scopes.popitem(last=False)
        return found

    def _approximate_kinds(self, reads: Transaction) -> tuple[str, ...]:
        if self.exact or max(reads.chunk_count, reads.fact_count) < APPROXIMATE_FROM:
            return ()
        if self._approximate[0] != reads.generation:
            self._approximate = reads.generation, self._indexed_kinds()
        return self._approximate[1]

    def load_blob(self, name: str) -> bytes | None:
        """Return what was stored under a name; None if nothing was."""
        rows = self._rows("SELECT value FROM catalogue_settings WHERE index = %s AND key = %s", f"extra:{name}")
        return base64.b64decode(json.loads(rows[0][0])) if rows else None

    def save_blob(self, name: str, data: bytes | None) -> None:
        """Store what can be computed again; None deletes it, and what is below the name. Not if it is read-only."""
        self._check()
        if self.read_only:
            return
        key = f"extra:{name}"
        with self.database.transaction() as cursor:
            if data is None:
                cursor.execute(
                    "DELETE FROM catalogue_settings WHERE index = %s AND (key = %s OR starts_with(key, %s))",
                    (self.index, key, f"{key}/"),
                )
            else:
                cursor.execute(
                    "INSERT INTO catalogue_settings (index, key, value) VALUES (%s, %s, %s) "
                    "ON CONFLICT (index, key) DO UPDATE SET value = excluded.value",
                    (self.index, key, json.dumps(base64.b64encode(data).decode())),
                )

    @property
    def generation(self) -> int:
        self._check()
        return int(self.database.value("SELECT generation FROM indexes WHERE id = %s", (self.index,)))

    def settings(self) -> dict[str, str]:
        return {name: value for name, value in self._stored_settings() if name != writer.SIMILAR}

    def _stored_settings(self) -> list[Row]:
        return self._rows("SELECT name, value FROM settings WHERE index = %s")

    def _rows(self, sql: str, *parameters: Any) -> list[Row]:
        self._check()
        return self.database.rows(sql, (self.index, *parameters))

    def stored(self, document_ids: Sequence[str]) -> dict[str, str]:
        rows = self._rows(
            "SELECT id, digest FROM documents WHERE index = %s AND id = ANY(%s::text[])",
            _storable(document_ids),
        )
        return dict(rows)

    def new_names(self, names: Iterable[str]) -> list[str]:
        wanted = {name: hash64(name) for name in names}
        rows = self._rows(
            "SELECT key FROM names WHERE index = %s AND key = ANY(%s)", np.array([*wanted.values()], np.int64)
        )
        known = {row[0] for row in rows}
        return [name for name, key in wanted.items() if key not in known]

    @contextmanager
    def _reading(self) -> Iterator[Any]:
        """Run several statements that see one state of the database: yields a function that returns rows."""
        self._check()
        with self.database.snapshot() as cursor:
            yield lambda sql, parameters=(): cursor.execute(sql, parameters).fetchall()

    def document(self, document_id: str) -> Document | None:
        if not _storable([document_id]):
            return None
        found = self._rows("SELECT id, title, metadata, marks FROM documents WHERE index = %s AND id = %s", document_id)
        return document_of(found[0], self.chunks_of(document_id)) if found else None

    def document_ids(self, scope: Filter | None = None) -> Iterator[str]:
        self._check()
        last: str | None = None
        inside, parameters = "", list[Any]()
        if scope is not None:
            if not check_keys(self.database.rows, scope, self._dialect):
                return
            sql, parameters = filter_sql(scope, self._dialect)
            inside = f"AND key IN ({sql})"
        while True:
            after = "" if last is None else "AND id > %s"
            page = self._rows(
                f"SELECT id FROM documents WHERE index = %s {after} {inside} ORDER BY id LIMIT {_PAGE}",
                *(() if last is None else (last,)),
                *parameters,
            )
            if not page:
                return
            yield from (row[0] for row in page)
            last = page[-1][0]

    def chunks_of(self, document_id: str) -> list[Chunk]:
        if not _storable([document_id]):
            return []
        rows = self._rows(f"{CHUNK} WHERE d.index = %s AND d.id = %s ORDER BY c.ordinal", document_id)
        return [chunk_of(row) for row in rows]

    def __len__(self) -> int:
        return int(self._rows("SELECT documents FROM indexes WHERE id = %s")[0][0])

    def parsed(self, document_ids: Sequence[str], *, accesses: bool = False) -> list[ParsedDocument]:
        def read() -> list[ParsedDocument]:
            with self._reading() as rows:
                return [
                    document
                    for start in range(0, len(document_ids), _PAGE)
                    for document in _tables(rows, self.index, document_ids[start : start + _PAGE]).parsed(
                        document_ids[start : start + _PAGE], accesses=accesses
                    )
                ]

        return self.database.repeated(read)

    def name_vectors(self, names: Sequence[str]) -> dict[str, Matrix]:
        wanted = {hash64(name): name for name in names}
        rows = self._rows(
            "SELECT key, vector FROM name_vectors WHERE index = %s AND key = ANY(%s)", np.array([*wanted], np.int64)
        )
        return {wanted[row[0]]: vector for row, vector in zip(rows, matrix([row[1] for row in rows]), strict=True)}

    def stats(self) -> Stats:
        settings = self.settings()
        with self._reads() as reads:
            snapshot = StoreSnapshot(reads)
            documents, chunks, facts = reads.rows(
                "SELECT documents, chunks, facts FROM indexes WHERE id = %s", (self.index,)
            )[0]
            hidden = reads.rows("SELECT count(*) FROM hidden_facts WHERE index = %s", (self.index,))[0][0]
            relations: dict[str, int] = dict(
                cast(
                    "Any",
                    reads.rows(
                        "SELECT f.relation, count(*) FROM facts f LEFT JOIN hidden_facts h ON h.index = f.index AND "
                        "h.fact = f.key WHERE f.index = %s AND f.relation IS NOT NULL AND h.fact IS NULL "
                        "GROUP BY f.relation ORDER BY 2 DESC, 1",
                        (self.index,),
                    ),
                )
            )
            vectors = {
                kind.replace("entities", "names"): int(
                    reads.rows(f"SELECT count(*) FROM {table} WHERE index = %s", (self.index,))[0][0]
                )
                for kind, table in _VECTOR_TABLES.items()
            }
            size = reads.rows(
                "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
                "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'",
                (self.database.address.schema,),
            )[0][0]
            return statistics(
                snapshot,
                settings,
                relations,
                documents=documents,
                chunks=chunks,
                entities=reads.count_entities(),
                facts=facts - hidden,
                vectors=vectors,
                bytes_on_disk=size,
                bytes_in_memory=0,
            )

    # -- checking

    def verify(self) -> Verification:
        self._check()
        try:
            with self.database.snapshot() as cursor:

                def rows(sql: str, parameters: Any) -> list[Row]:
                    return cursor.execute(sql, parameters).fetchall()

                problems = [*_record_problems(rows, self.index), *_posting_problems(rows, self.index)]
                problems += graph.problems(cursor, self.index)
        except GraphRAGError as error:
            problems = [str(error)]
        return Verification(tuple(problems))

    def __repr__(self) -> str:
        return f"<PostgresEngine {self.database.shown}{', closed' if self._closed else ''}>"

    # -- other processes

    def __reduce__(self) -> tuple[Any, ...]:
        self._check()
        return _open, (self.url, self.read_only, self._merge_similar, self.exact)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return cast("Self", _open(*self.__reduce__()[1]))

    def after_fork_in_child(self) -> None:
        """Leave the connections to the parent, and open others when they are needed."""
        if self._closed:
            return
        forks.leak(self.database.pool, self.database)
        self._lock = threading.Lock()
        self.accesses = Accesses()
        self.database = Database(self.url, read_only=self.read_only)
        self.database.open_later()


def _open(url: str, read_only: bool, merge_similar: float | None, exact: bool) -> PostgresEngine:
    """Open the engine of a pickle or of a copy. Both may write: so may many processes."""
    return PostgresEngine(url, read_only=read_only, merge_similar=merge_similar, exact=exact)


def _storable(texts: Iterable[str]) -> list[str]:
    """Return the texts that a database can store."""
    return [text for text in texts if "\x00" not in text and text.encode("utf-8", "replace").decode() == text]


def _surfaces(rows: Any, index: int, names: Iterable[int]) -> dict[int, str]:
    wanted = np.array(sorted(set(names)), np.int64)
    if len(wanted) == 0:
        return {}
    return dict(rows("SELECT key, surface FROM names WHERE index = %s AND key = ANY(%s)", (index, wanted)))


def _tables(rows: Any, index: int, document_ids: Sequence[str]) -> DocumentTables:
    """Return the rows of documents; one statement for each table."""
    ids = (index, _storable(document_ids))
    documents = rows(
        "SELECT id, title, metadata, marks, digest FROM documents WHERE index = %s AND id = ANY(%s::text[])", ids
    )
    chunks = rows(f"{CHUNK} WHERE d.index = %s AND d.id = ANY(%s::text[]) ORDER BY c.key", ids)
    keys = np.array([row[0] for row in chunks], np.int64)
    mentions, claims, aliases = (
        rows(f"SELECT chunk, {columns} FROM {table} WHERE index = %s AND chunk = ANY(%s) ORDER BY chunk, position",
             (index, keys))
        for table, columns in (
            ("mentions", "name, subject"), ("claims", "name, type, description"), ("aliases", "short, long"),
        )
    )  # fmt: skip
    texts = {row[0]: row[3] for row in chunks}
    facts = [
        (chunk, key, names, text_of_fact(own, is_plain, texts[chunk], columns[0], columns[1]), *columns)
        for chunk, key, names, own, is_plain, *columns in rows(
            f"SELECT f.chunk, f.key, f.names, f.text, f.is_plain, {FACT_COLUMNS} FROM facts f, "
            f"unnest(%s::bigint[]) AS c(key) WHERE f.index = %s AND f.key >= c.key << {FACT_BITS} "
            f"AND f.key < (c.key + 1) << {FACT_BITS} ORDER BY f.key",
            (keys, index),
        )
    ]
    surfaces = _surfaces(rows, index, {row[1] for row in mentions}.union(*(row[2] for row in facts)))
    vectors = []
    for table, owners in (("chunk_vectors", keys), ("fact_vectors", np.array([row[1] for row in facts], np.int64))):
        found = rows(f"SELECT key, vector FROM {table} WHERE index = %s AND key = ANY(%s)", (index, owners))
        vectors.append(dict(zip((row[0] for row in found), matrix([row[1] for row in found]), strict=True)))
    return DocumentTables(documents, chunks, mentions, claims, aliases, facts, surfaces, *vectors)


# -- what search indexes are derived from


def _pages_of_texts(rows: Any, index: int) -> Iterator[list[tuple[int, tuple[str, ...], list[tuple[int, str]]]]]:
    """Yield chunks with the fields of keyword search, and the searchable texts of their facts, in pages."""
    last = -1
    while True:
        page = rows(
            "SELECT c.key, coalesce(d.heading, d.title), c.headings, c.text FROM chunks c "
            "JOIN documents d ON d.index = c.index AND d.key = c.document "
            f"WHERE c.index = %s AND c.key > %s ORDER BY c.key LIMIT {_PAGE}",
            (index, last),
        )
        if not page:
            return
        keys = np.array([row[0] for row in page], np.int64)
        subjects: defaultdict[int, list[str]] = defaultdict(list)
        for chunk, surface in rows(
            "SELECT m.chunk, n.surface FROM mentions m JOIN names n ON n.index = m.index AND n.key = m.name "
            "WHERE m.index = %s AND m.chunk = ANY(%s) AND m.subject ORDER BY m.chunk, m.position",
            (index, keys),
        ):
            subjects[chunk].append(surface)
        facts = rows(
            "SELECT key, text, is_plain, start, stop, relation, names, value FROM facts WHERE index = %s "
            f"AND key >= %s::bigint << {FACT_BITS} AND key < (%s::bigint + 1) << {FACT_BITS} ORDER BY key",
            (index, int(keys[0]), int(keys[-1])),
        )
        surfaces = _surfaces(rows, index, (name for row in facts if row[5] for name in row[6]))
        of_chunk: defaultdict[int, list[Row]] = defaultdict(list)
        for row in facts:
            of_chunk[row[0] >> FACT_BITS].append(row)
        found = []
        for chunk, title, packed, text in page:
            texts = []
            for key, own, is_plain, start, stop, relation, names, value in of_chunk[chunk]:
                ends = [surfaces.get(name, "") for name in names] if relation else []
                sentence = text_of_fact(own, is_plain, text, start, stop)
                texts.append((key, fact_search_text(title, packed, sentence, relation, ends, value)))
            found.append((chunk, keyword_fields(title, unpack_headings(packed), subjects[chunk], text), texts))
        yield found
        last = page[-1][0]


def _posting_problems(rows: Any, index: int) -> Iterator[str]:
    """Yield the chunks whose postings are not those of their texts, and wrong statistics."""
    expected: dict[int, int] = {}
    lengths = np.zeros(5, np.int64)
    for page in _pages_of_texts(rows, index):
        segment = keywords.Segment()
        for chunk, fields, facts in page:
            own = segment.add_chunk(chunk, fields)
            lengths += [*own, sum(segment.add(keywords.FACTS, key, text) for key, text in facts)]
        _add_sums(expected, ((row[1], row[2], row[4], row[5], row[6]) for row in segment.rows(index, 0)))
    dead = {row[0] for row in rows("SELECT chunk FROM dead_chunks WHERE index = %s", (index,))}
    stored: dict[int, int] = {}
    for (segment_key,) in rows("SELECT segment FROM segments WHERE index = %s", (index,)):
        _add_sums(
            stored,
            rows(
                "SELECT field, term, keys, counts, norms FROM postings WHERE index = %s AND segment = %s",
                (index, segment_key),
            ),
        )
    wrong = [
        chunk
        for chunk in expected.keys() | stored.keys()
        if chunk not in dead and expected.get(chunk) != stored.get(chunk)
    ]
    if wrong:
        yield f"keywords: {len(wrong)} chunks have other postings than their texts, such as key {min(wrong)}"
    (row,) = rows("SELECT lengths FROM indexes WHERE id = %s", (index,))
    if list(row[0]) != lengths.tolist():
        yield f"keywords: the texts are {lengths.tolist()} tokens long, but counted as {list(row[0])}"


def _add_sums(sums: dict[int, int], rows: Iterable[Row]) -> None:
    """Add for each chunk a checksum of its postings, which does not depend on their order."""
    for field, term, packed, counts, norms in rows:
        keys = np.frombuffer(packed, "<i8")
        mixed = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= np.frombuffer(counts, "<u2").astype(np.uint64) << np.uint64(8) | np.frombuffer(norms, np.uint8)
        mixed = (mixed ^ mixed >> np.uint64(29)) * np.uint64((term * 2 + 1) & 0xFFFFFFFFFFFFFFFF)
        mixed = (mixed ^ mixed >> np.uint64(32)) * np.uint64(2 * field + 3)
        chunks = keys >> FACT_BITS if field == keywords.FACTS else keys
        for chunk, value in zip(chunks.tolist(), mixed.tolist(), strict=True):
            sums[chunk] = (sums.get(chunk, 0) + value) & 0xFFFFFFFFFFFFFFFF


def _record_problems(rows: Any, index: int) -> Iterator[str]:
    """Yield what is inconsistent within the rows that are not derived from others."""
    counted = rows(
        "SELECT documents, chunks, facts, dead, (SELECT count(*) FROM documents WHERE index = %(i)s), "
        "(SELECT count(*) FROM chunks WHERE index = %(i)s), (SELECT count(*) FROM facts WHERE index = %(i)s), "
        "(SELECT count(*) FROM dead_chunks WHERE index = %(i)s) FROM indexes WHERE id = %(i)s",
        {"i": index},
    )[0]
    for what, stored, found in zip(("documents", "chunks", "facts", "deleted chunks"), counted[:4], counted[4:],
                                   strict=True):  # fmt: skip
        if stored != found:
            yield f"records: there are {found} {what}, but {stored} are counted"
    checks = {
        "documents have the same id": "SELECT count(*) FROM (SELECT FROM documents WHERE index = %(i)s GROUP BY id "
        "HAVING count(*) > 1) AS t",
        "chunks have the same id": "SELECT count(*) FROM (SELECT FROM chunks WHERE index = %(i)s GROUP BY id "
        "HAVING count(*) > 1) AS t",
        "chunks have no document": "SELECT count(*) FROM chunks c WHERE index = %(i)s AND NOT EXISTS "
        "(SELECT FROM documents d WHERE d.index = c.index AND d.key = c.document)",
        "documents have no chunk": "SELECT count(*) FROM documents d WHERE index = %(i)s AND NOT EXISTS "
        "(SELECT FROM chunks c WHERE c.index = d.index AND c.key = d.key)",
        "facts have no chunk": "SELECT count(*) FROM facts f WHERE index = %(i)s AND NOT EXISTS "
        "(SELECT FROM chunks c WHERE c.index = f.index AND c.key = f.chunk)",
        "chunks have another number of facts than is counted": "SELECT count(*) FROM chunks c WHERE index = %(i)s AND "
        f"facts <> (SELECT count(*) FROM facts f WHERE f.index = c.index AND f.key >= c.key << {FACT_BITS} "
        f"AND f.key < (c.key + 1) << {FACT_BITS})",
        "mentions have no chunk": "SELECT count(*) FROM mentions m WHERE index = %(i)s AND NOT EXISTS "
        "(SELECT FROM chunks c WHERE c.index = m.index AND c.key = m.chunk)",
        "vectors have no owner": "SELECT (SELECT count(*) FROM chunk_vectors v WHERE index = %(i)s AND NOT EXISTS "
        "(SELECT FROM chunks c WHERE c.index = v.index AND c.key = v.key)) + "
        "(SELECT count(*) FROM fact_vectors v WHERE index = %(i)s AND NOT EXISTS "
        "(SELECT FROM facts f WHERE f.index = v.index AND f.key = v.key)) + "
        "(SELECT count(*) FROM name_vectors v WHERE index = %(i)s AND NOT EXISTS "
        "(SELECT FROM names n WHERE n.index = v.index AND n.key = v.key))",
        "names are counted wrongly": "SELECT count(*) FROM (SELECT key, uses FROM names WHERE index = %(i)s) AS n "
        "FULL JOIN (SELECT name, count(*) AS uses FROM mentions WHERE index = %(i)s GROUP BY name) AS m "
        "ON m.name = n.key WHERE n.uses IS DISTINCT FROM m.uses",
    }
    for what, sql in checks.items():
        if count := rows(sql, {"i": index})[0][0]:
            yield f"records: {count} {what}"
    last = -1 << 63
    while page := rows(
        f"SELECT key, surface, spelling FROM names WHERE index = %s AND key >= %s ORDER BY key LIMIT {20 * _PAGE}",
        (index, last),
    ):
        wrong = [key for key, surface, spelling in page
                 if hash64(surface) != key or hash64(normalise(surface)) != spelling]  # fmt: skip
        if wrong:
            yield f"records: {len(wrong)} names are damaged, such as key {min(wrong)}"
        last = page[-1][0] + 1
    after = -1
    while page := rows(
        f"SELECT key, id, metadata FROM documents WHERE index = %s AND key > %s ORDER BY key LIMIT {_PAGE}",
        (index, after),
    ):
        stored = rows(
            "SELECT document, name, kind, value, number FROM attributes WHERE index = %s AND document = ANY(%s)",
            (index, np.array([row[0] for row in page], np.int64)),
        )
        attributes = ((*row[:3], row[4] if row[2] == "number" else row[3]) for row in stored)
        yield from metadata_problems(
            page, attributes, lambda kind, value: value if kind == "number" else postgres_text(value)
        )
        after = page[-1][0]
