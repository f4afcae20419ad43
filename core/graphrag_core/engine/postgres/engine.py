"""``PostgresEngine``: an index in a PostgreSQL database, which many processes on many machines read and write.

A write is one transaction (see :mod:`~graphrag_core.engine.postgres.writer`). A snapshot is one transaction that sees
the newest generation and changes nothing, so readers never wait for writers.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import numpy as np

from graphrag_core import forks
from graphrag_core.engine.graph.memory import MemoryGraph
from graphrag_core.engine.graph.snapshot import StoreSnapshot
from graphrag_core.engine.postgres import counting, keywords, writer
from graphrag_core.engine.postgres.cache import Cache
from graphrag_core.engine.postgres.database import LOCK, Connection, Database, DriverError, lock
from graphrag_core.engine.postgres.reads import VECTORS, PostgresTables, Scope, Transaction
from graphrag_core.engine.postgres.schema import FACT_BITS, TABLES
from graphrag_core.engine.postgres.store import PostgresStore
from graphrag_core.engine.postgres.walk import SMALL_SCOPE, read_scope
from graphrag_core.engine.rows import Accesses, Row
from graphrag_core.engine.tables import SqlEngine, Tables, parts_of
from graphrag_core.errors import DatabaseError, GraphRAGError, InputError
from graphrag_core.filters import Filter
from graphrag_core.model import FileMark, Stats, Verification
from graphrag_core.ports import Keys, Matrix, ParsedDocument
from graphrag_core.text import EDGE, hash64

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

APPROXIMATE_FROM = 100_000
"""The number of vectors of a kind from which an HNSW index replaces exact search."""

_PATIENCE = "60s"  # to wait for transactions that began before an HNSW index was created
_PAGE = 500  # texts of a segment
_MOST_SCOPES = 16  # whose rows are kept in memory
_MOST_KEPT = 20  # values of generations that are kept: chunks of scopes, and four more
_SMALL_SHARE, _FEW_CHUNKS = 8, 500  # a scope is small with an eighth of the chunks, or with this number
_STATE = """
SELECT i.generation, i.chunks, i.facts, i.lengths, i.dead,
    EXISTS (SELECT FROM chunk_vectors v WHERE v.index = i.id), EXISTS (SELECT FROM fact_vectors v WHERE v.index = i.id),
    EXISTS (SELECT FROM name_vectors v WHERE v.index = i.id),
    EXISTS (SELECT FROM fact_entities x WHERE x.index = i.id AND x.entity = %s),
    EXISTS (SELECT FROM mentions m WHERE m.index = i.id AND m.is_alias),
    coalesce((SELECT s.value FROM settings s WHERE s.index = i.id AND s.name = 'edits'), '')
FROM indexes i WHERE i.id = %s
"""
_EDGE = hash64(EDGE)


class PostgresEngine(SqlEngine):
    """Stores and searches an index in PostgreSQL. See :class:`~graphrag_core.ports.Engine`.

    Parameters
    ----------
    url
        ``postgresql://user@host:port/database?index=NAME``. Several indexes can be in one database; without ``index``
        it is the one called ``default``. Tables and index are created by the first opening for writing, if the role
        may.
    read_only
        Never write. The server may be a standby.
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
    embed_tokens: Any = None  # vectors of facts are stored, or there are none
    """Other processes may write at the same time."""

    def __init__(self, url: str, *, read_only: bool = False, exact: bool = False) -> None:
        self.url = url
        self.read_only = read_only
        self.exact = exact
        self.database = Database(url, read_only=read_only)
        self.path = self.database.shown
        self.index = self.database.open()
        self.accesses = Accesses()
        self._closed = False
        self._lock = threading.Lock()
        self._seen = -1  # the generation of the last refresh
        self._kept: OrderedDict[tuple[int, Hashable], Any] = OrderedDict()  # values, by generation and what they are
        # What questions have read, by generation and filter; and of small scopes the graph.
        self._caches: OrderedDict[tuple[int, Filter | None], tuple[Cache, MemoryGraph | None]] = OrderedDict()
        self._seen = self.generation
        forks.watch(self)

    @property
    def read_only_reason(self) -> str:
        """Why the index cannot be changed here, and what to do; empty if it can."""
        reason = f"{self.database.shown} was opened with read_only=True: open it for writing to change it"
        return reason if self.read_only else ""

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
        self._check(writable=True)
        if added and removed:
            self._write_accesses()  # so that the facts of a replaced document keep them
        writer.write(self.database, self.index, added, removed, name_vectors, settings, expected)
        if added:
            self._analyse()

    def mark_files(self, marks: Mapping[str, FileMark]) -> None:
        self._check(writable=True)
        columns = list(marks), [mark.path for mark in marks.values()], [mark.version for mark in marks.values()]

        def run() -> None:
            with self.database.transaction() as cursor:
                lock(cursor, self.index)
                cursor.execute(
                    "UPDATE documents d SET file = m.file, version = m.version "
                    "FROM unnest(%s::text[], %s::text[], %s::text[]) AS m(id, file, version) "
                    "WHERE d.index = %s AND d.id = m.id AND (d.file, d.version) IS DISTINCT FROM (m.file, m.version)",
                    (*columns, self.index),
                )

        self.database.repeated(run)

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
        self._write_accesses()
        if not self.exact:
            self._index_vectors()

    def _add_accesses(self, accesses: Mapping[int, tuple[int, float]]) -> None:
        with self.database.transaction() as cursor:
            lock(cursor, self.index)
            writer.add_accesses(cursor, self.index, accesses)

    def _index_vectors(self) -> None:
        """Create an HNSW index for each kind of which there are many vectors. Writers and readers go on meanwhile."""
        counts = self.database.rows("SELECT chunks, facts FROM indexes WHERE id = %s", (self.index,))[0]
        if max(counts) < APPROXIMATE_FROM:
            return
        for kind, table in VECTORS.items():
            if kind == "facts" or kind in self._indexed_kinds():  # facts are compared with a question, never searched
                continue
            count = self.database.value(f"SELECT count(*) FROM {table} WHERE index = %s", (self.index,))
            if count < APPROXIMATE_FROM:
                continue
            try:
                self._create_hnsw(table)
            except DatabaseError as error:
                _log.warning("the HNSW index of %s was not created, and the next change tries again: %s", kind, error)

    def _create_hnsw(self, table: str) -> None:
        first = f"SELECT vector_dims(vector) FROM {table} WHERE index = %s LIMIT 1"
        dims = self.database.rows(first, (self.index,))
        if not dims:
            return
        dim, name = int(dims[0][0]), f"hnsw_{table}_{self.index}"
        definition = f"{table} USING hnsw ((vector::halfvec({dim})) halfvec_ip_ops) WHERE index = {self.index}"
        lock_numbers = LOCK + 1, self.index
        with self.database.connection() as connection:
            if connection.execute("SELECT pg_try_advisory_lock(%s, %s)", lock_numbers).fetchone() != (True,):
                return  # another process creates one
            try:
                connection.execute(
                    "SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', %s, false)",
                    (_PATIENCE,),
                )
                valid = connection.execute(
                    "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", (name,)
                ).fetchone()
                if valid == (False,):  # of a process that was stopped
                    connection.execute(f"DROP INDEX CONCURRENTLY {name}")
                if valid != (True,):
                    connection.execute(f"CREATE INDEX CONCURRENTLY {name} ON {definition}")
                connection.execute(f"ANALYZE {table}")
            finally:
                connection.execute("RESET statement_timeout")
                connection.execute("RESET lock_timeout")
                connection.execute("SELECT pg_advisory_unlock(%s, %s)", lock_numbers)
        with self._lock:
            self._kept.clear()

    def _indexed_kinds(self) -> tuple[str, ...]:
        rows = self.database.rows(
            "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
            "JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE n.nspname = %s AND i.indisvalid AND c.relname LIKE %s",
            (self.database.address.schema, f"hnsw_%_{self.index}"),
        )
        names = " ".join(row[0] for row in rows)
        return tuple(kind for kind, table in VECTORS.items() if f"hnsw_{table}_" in names)

    def rebuild(self) -> None:
        self._check(writable=True)

        def run() -> None:
            with self.database.transaction() as cursor:
                lock(cursor, self.index)
                for table in ("postings", "segments", "dead_chunks", "entities"):
                    cursor.execute(f"DELETE FROM {table} WHERE index = %s", (self.index,))
                # A new generation: no process keeps what it has read of the old tables.
                cursor.execute(
                    f"UPDATE indexes SET dead = 0, generation = {writer.NEXT_GENERATION} WHERE id = %s", (self.index,)
                )
                for segment, _ in _segments(PostgresTables.of(cursor, self.index)):
                    writer.copy(cursor, "segments", [(self.index, segment.first, segment.texts)])
                    writer.copy(cursor, "postings", segment.rows(self.index, segment.first))
                    keywords.tidy(cursor, self.index)
                counting.store_counts(cursor, self.index, counting.count_again(cursor, self.index))

        self.database.repeated(run)
        self.flush()

    def erase(self) -> bool:
        """Remove what was deleted from the postings, and let the server release the space of deleted rows.

        The tables are vacuumed if the role owns them; the server's own autovacuum does it otherwise.
        """
        self._check(writable=True)

        def run() -> None:
            with self.database.transaction() as cursor:
                lock(cursor, self.index)
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
        with self._store(scope) as store:
            yield StoreSnapshot(store)

    @contextmanager
    def _store(self, scope: Filter | None = None) -> Iterator[PostgresStore]:
        self._check()
        store, connection = self.database.repeated(lambda: self._begin(scope))
        try:
            yield store
        finally:
            with suppress(DriverError):
                connection.commit()  # after a rollback the driver would forget all prepared statements
            self.database.pool.putconn(connection)

    def _begin(self, scope: Filter | None) -> tuple[PostgresStore, Connection]:
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
                    state = cursor.execute(_STATE, (_EDGE, self.index)).fetchone()
            except DriverError as error:
                raise self.database.translated(error) from error
            transaction = Transaction(self.database, connection, self.index, state)
            if transaction.has_dead:
                sql = f"SELECT chunk FROM dead_chunks WHERE index = {self.index}"
                transaction.dead = self._keep(transaction, "dead", lambda: np.sort(transaction.keys(sql)))
            approximate: tuple[str, ...] = ()
            if not self.exact and max(transaction.chunk_count, transaction.fact_count) >= APPROXIMATE_FROM:
                approximate = self._keep(transaction, "approximate", self._indexed_kinds)
            if scope is not None:
                transaction.restrict(self._scope(transaction, scope))
            transaction.generic = self._keep(transaction, "generic", transaction.read_generic)
            transaction.linked_share = lambda: self._keep(transaction, "linked", transaction.read_linked_share)
            graph = self._use_cache(transaction, None if transaction.scope.is_everything else scope)
            return PostgresStore(transaction, self.accesses, approximate, graph), connection
        except BaseException:
            with suppress(DriverError):
                connection.rollback()
            self.database.pool.putconn(connection)
            raise

    def _keep(self, transaction: Transaction, what: Hashable, read: Callable[[], _T]) -> _T:
        """Return a value of the generation that a transaction sees. It is read once; the last ones are kept."""
        key = transaction.generation, what
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                value: _T = self._kept[key]
                return value
        value = read()
        with self._lock:
            self._kept[key] = value
            while len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return value

    def _use_cache(self, transaction: Transaction, scope: Filter | None) -> MemoryGraph | None:
        """Let a transaction use what questions with its scope have read. Return the graph of a small scope."""
        key = transaction.generation, scope
        with self._lock:
            cached = self._caches.pop(key, None)
        chunks = transaction.scope.chunks
        if cached is None or cached[0].is_full:
            most = min(SMALL_SCOPE, max(transaction.statistics_count // _SMALL_SHARE, _FEW_CHUNKS))
            graph = None if chunks is None or len(chunks) > most else read_scope(transaction, chunks)
            cached = Cache(transaction.chunk_count), graph
        transaction.use(cached[0])
        with self._lock:
            self._caches[key] = cached
            for old in [other for other in self._caches if other[0] != transaction.generation]:
                del self._caches[old]
            while len(self._caches) > _MOST_SCOPES:
                self._caches.popitem(last=False)
        return cached[1]

    def _scope(self, transaction: Transaction, scope: Filter) -> Scope:
        chosen, hidden = parts_of(scope)
        inside: Keys | None = None
        gone = np.empty(0, np.int64)
        if chosen is not None:
            inside, transaction.unknown_keys = self._keep(transaction, chosen, partial(transaction.chunks_in, chosen))
            inside = None if len(inside) == transaction.chunk_count else inside
        if hidden is not None:
            gone, _ = self._keep(transaction, hidden, partial(transaction.chunks_in, hidden))
        return Scope(inside, gone)

    @property
    def generation(self) -> int:
        self._check()
        return int(self.database.value("SELECT generation FROM indexes WHERE id = %s", (self.index,)))

    def settings(self) -> dict[str, str]:
        self._check()
        return dict(self.database.rows("SELECT name, value FROM settings WHERE index = %s", (self.index,)))

    def stored(self, document_ids: Sequence[str]) -> dict[str, str]:
        self._check()
        return PostgresTables(self.index, self.database.rows).stored(document_ids)

    def new_names(self, names: Iterable[str]) -> list[str]:
        self._check()
        return PostgresTables(self.index, self.database.rows).new_names(names)

    def _read(self, read: Callable[[Tables], _T]) -> _T:
        self._check()

        def run() -> _T:
            with self.database.snapshot() as cursor:
                return read(PostgresTables.of(cursor, self.index))

        return self.database.repeated(run)

    def stats(self) -> Stats:
        with self._store() as store:
            tables = store.tables
            size = tables.rows(
                "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
                "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relkind = 'r'",
                (self.database.address.schema,),
            )[0][0]
            return self._statistics(
                StoreSnapshot(store),
                tables,
                entities=store.count_entities(),
                vectors={
                    kind: tables.rows(f"SELECT count(*) FROM {table} WHERE index = {self.index}")[0][0]
                    for kind, table in VECTORS.items()
                },
                bytes_on_disk=size,
                bytes_in_memory=0,
            )

    # -- checking

    def verify(self) -> Verification:
        self._check()
        try:
            with self.database.snapshot() as cursor:
                tables = PostgresTables.of(cursor, self.index)
                problems = [*_record_problems(tables), *tables.content_problems(), *_posting_problems(tables)]
                problems += counting.problems(cursor, self.index)
        except GraphRAGError as error:
            problems = [str(error)]
        return Verification(tuple(problems))

    # -- other processes

    def __reduce__(self) -> tuple[Any, ...]:
        self._check()
        return partial(PostgresEngine, read_only=self.read_only, exact=self.exact), (self.url,)

    def after_fork_in_child(self) -> None:
        """Leave the connections to the parent, and open others when they are needed."""
        if self._closed:
            return
        forks.leak(self.database.pool, self.database)
        self._lock = threading.Lock()
        self._caches.clear()  # another thread may hold a lock of one
        self.accesses = Accesses()
        self.database = Database(self.url, read_only=self.read_only)
        self.database.pool.open()  # without connecting


def _segments(tables: PostgresTables) -> Iterator[tuple[keywords.Segment, list[int]]]:
    """Yield the postings of all texts, in parts, with the numbers of tokens in each field of chunks and in facts."""
    segment, lengths = keywords.Segment(), np.zeros(5, np.int64)
    for chunk, fields, facts in tables.keyword_texts():
        own = segment.add_chunk(chunk, fields)
        lengths += [*own, sum(segment.add(keywords.FACTS, key, text) for key, text in facts)]
        if segment.texts == _PAGE:
            yield segment, lengths.tolist()
            segment, lengths = keywords.Segment(), np.zeros(5, np.int64)
    if segment.texts:
        yield segment, lengths.tolist()


def _posting_problems(tables: PostgresTables) -> Iterator[str]:
    """Yield wrong statistics, and the chunks whose postings differ from their texts."""
    expected: dict[int, int] = {}
    stored: dict[int, int] = {}
    lengths = np.zeros(5, np.int64)
    for segment, own in _segments(tables):
        lengths += own
        _add_sums(expected, ((*row[1:3], *row[4:]) for row in segment.rows(tables.index, 0)))
    own_rows = f"index = {tables.index}"
    dead = set(tables.keys(f"SELECT chunk FROM dead_chunks WHERE {own_rows}").tolist())
    for key in tables.keys(f"SELECT segment FROM segments WHERE {own_rows}").tolist():
        sql = f"SELECT field, term, keys, counts, norms FROM postings WHERE {own_rows} AND segment = %s"
        _add_sums(stored, tables.rows(sql, (key,)))
    wrong = [
        chunk
        for chunk in expected.keys() | stored.keys()
        if chunk not in dead and expected.get(chunk) != stored.get(chunk)
    ]
    if wrong:
        yield f"keywords: {len(wrong)} chunks have other postings than their texts, such as key {min(wrong)}"
    (row,) = tables.rows(f"SELECT lengths FROM indexes WHERE id = {tables.index}")
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


_COUNTED = {"documents": "documents", "chunks": "chunks", "facts": "facts", "dead": "dead_chunks"}
_WITHOUT = {  # rows that refer to a missing one
    "chunks have no document": "chunks x LEFT JOIN documents y ON y.key = x.document",
    "documents have no chunk": "documents x LEFT JOIN chunks y ON y.key = x.key",
    "facts have no chunk": "facts x LEFT JOIN chunks y ON y.key = x.chunk",
    "mentions have no chunk": "mentions x LEFT JOIN chunks y ON y.key = x.chunk",
    "vectors of chunks have no owner": "chunk_vectors x LEFT JOIN chunks y ON y.key = x.key",
    "vectors of facts have no owner": "fact_vectors x LEFT JOIN facts y ON y.key = x.key",
    "vectors of names have no owner": "name_vectors x LEFT JOIN names y ON y.key = x.key",
}
_PROBLEMS = {
    "documents have the same id": "FROM (SELECT FROM documents WHERE index = %(i)s GROUP BY id HAVING count(*) > 1) t",
    "chunks have the same id": "FROM (SELECT FROM chunks WHERE index = %(i)s GROUP BY id HAVING count(*) > 1) t",
    "chunks have another number of facts than is counted": "FROM chunks c WHERE index = %(i)s AND facts <> "
    f"(SELECT count(*) FROM facts f WHERE f.index = c.index AND {PostgresTables.holds})",
    "names are counted wrongly": "FROM (SELECT key, uses FROM names WHERE index = %(i)s) AS n "
    "FULL JOIN (SELECT name, count(*) AS uses FROM mentions WHERE index = %(i)s GROUP BY name) AS m "
    "ON m.name = n.key WHERE n.uses IS DISTINCT FROM m.uses",
    **{
        what: f"FROM {joined} AND y.index = x.index WHERE x.index = %(i)s AND y.index IS NULL"
        for what, joined in _WITHOUT.items()
    },
}


def _record_problems(tables: PostgresTables) -> Iterator[str]:
    """Yield what is inconsistent within the rows that are not derived from others."""
    for column, table in _COUNTED.items():
        found = tables.rows(f"SELECT count(*) FROM {table} WHERE index = {tables.index}")[0][0]
        if (stored := tables.count(column)) != found:
            yield f"records: there are {found} {table.replace('_', ' ')}, but {stored} are counted"
    for what, sql in _PROBLEMS.items():
        if count := tables.rows(f"SELECT count(*) {sql}", {"i": tables.index})[0][0]:
            yield f"records: {count} {what}"
    for page in tables.pages("SELECT n.key, n.surface FROM names n", "n"):
        wrong = [key for key, surface in page if hash64(surface) != key]
        if wrong:
            yield f"records: {len(wrong)} keys of names are damaged, such as {min(wrong)}"
