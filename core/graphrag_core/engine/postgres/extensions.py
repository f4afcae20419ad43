"""Searching with extensions of the server: BM25 with pg_textsearch, nearest neighbours with vectorscale.

An address asks for them: ``?keywords=pg_textsearch&vectors=vectorscale``. Each needs a column that the shared tables do
not have, so an index gets a table of its own for each: ``bm25_3`` has the terms of each chunk of the index 3, as
:mod:`graphrag_core.engine.analysis` finds them and separated by spaces, and ``diskann_3`` the vectors as the type
``vector(n)``. Every writer keeps the tables that exist in step, whatever its address says, while it holds the lock of
the index. A row in ``meta`` with the name of such a table says that it is complete and indexed. A snapshot that does
not see this row, or may not read the table, searches without the extension.

pg_textsearch collects new texts in the memory of the server, from where neither a standby gets them nor a server that
has crashed. Each write therefore ends with a spill into the files of the index, and a standby searches without it.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_core.deadline import check_deadline
from graphrag_core.engine import analysis
from graphrag_core.engine.postgres.database import (
    EXTENSIONS,
    LOCK,
    Connection,
    Cursor,
    Database,
    copy_rows,
    lock,
)
from graphrag_core.engine.postgres.keywords import BODY, FACTS, Keywords, query_terms, term_number
from graphrag_core.engine.postgres.reads import SEES, PostgresTables, Transaction, rows_of
from graphrag_core.engine.rows import Texts
from graphrag_core.errors import DatabaseError
from graphrag_core.key_sets import among, best
from graphrag_core.ports import Keys, Ranking
from graphrag_core.text import hash64

_log = logging.getLogger(__name__)

READY = (
    "ARRAY(SELECT m.name FROM meta m WHERE m.name IN "
    "(CASE WHEN NOT pg_is_in_recovery() THEN 'bm25_' || i.id END, 'diskann_' || i.id) "
    "AND to_regclass(m.name || '_index') IS NOT NULL AND has_table_privilege(to_regclass(m.name), 'SELECT'))"
)
"""The tables of extensions that the index of a row ``i`` has and that the role may read."""

_PREFIXES = {"keywords": "bm25", "vectors": "diskann"}  # of the tables, by parameter
_COLUMNS = {"keywords": "text", "vectors": "vector"}
_INSTALL = {
    "pg_textsearch": "install pg_textsearch (for PostgreSQL 17 and newer), add it to shared_preload_libraries and "
    "restart the server, then run CREATE EXTENSION pg_textsearch in the database",
    "vectorscale": "install pgvectorscale, then run CREATE EXTENSION vectorscale in the database",
}
_SPILL = (
    "SELECT bm25_spill_index(c.relname::text) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
    "WHERE c.oid = to_regclass(%s) AND i.indisvalid"
)
_PATIENCE = "60s"  # to wait for transactions that began before an index was created
_PAGE = 1_000  # chunks that are added while no other writer works
_LONGEST_TEXT = 300_000  # characters of a chunk's terms: the server refuses texts of about a million
_MORE = 16  # chunks read besides those wanted
_FEW = 1_000  # chunks in scope up to which the score of each is computed
_SMALL = 32_768  # bytes of the keys of a term in a segment up to which dead chunks are looked for among them


class State(NamedTuple):
    """Whether the server has an extension: the versions that are created in the database and that can be created."""

    parameter: str
    extension: str
    created: str | None
    available: str | None

    @property
    def advice(self) -> str:
        """What to do to get the extension."""
        if self.available:
            return f"let an administrator run CREATE EXTENSION {self.extension} CASCADE in the database"
        return _INSTALL[self.extension]


def states(connection: Connection) -> list[State]:
    """Return which of the extensions the server has."""
    rows = connection.execute(
        "SELECT n, (SELECT extversion FROM pg_extension WHERE extname = n), "
        "(SELECT default_version FROM pg_available_extensions WHERE name = n) FROM unnest(%s::text[]) n",
        ([*EXTENSIONS.values()],),
    ).fetchall()
    found = {row[0]: row[1:] for row in rows}
    return [State(parameter, name, *found[name]) for parameter, name in EXTENSIONS.items()]


def check(database: Database) -> None:
    """Raise an error if the server lacks an extension that the address asks for."""
    if not database.address.extensions:
        return
    with database.connect() as connection:
        for state in states(connection):
            if state.parameter in database.address.extensions and state.created is None:
                raise DatabaseError(
                    f"{database.shown} asks for {state.parameter}={state.extension}, which the database lacks: "
                    f"{state.advice}, or leave it out of the address"
                )


# -- the tables


def table_of(parameter: str, index: int) -> str:
    """Return the name of the table that an extension uses for an index."""
    return f"{_PREFIXES[parameter]}_{index}"


def is_ready(database: Database, index: int, parameter: str) -> bool:
    """Return whether an extension can be used for an index."""
    rows = database.rows(f"SELECT {READY} FROM indexes i WHERE i.id = %s", (index,))
    return bool(rows) and table_of(parameter, index) in rows[0][0]


@contextmanager
def building(database: Database, index: int) -> Iterator[Connection | None]:
    """Yield a connection on which an index of the server may be built for long; None if another process builds one."""
    with database.connection() as connection:
        own = LOCK + 1, index
        if connection.execute("SELECT pg_try_advisory_lock(%s, %s)", own).fetchone() != (True,):
            yield None
            return
        try:
            connection.execute(
                "SELECT set_config('statement_timeout', '0', false), set_config('lock_timeout', %s, false)",
                (_PATIENCE,),
            )
            yield connection
        finally:
            connection.execute("RESET statement_timeout")
            connection.execute("RESET lock_timeout")
            connection.execute("SELECT pg_advisory_unlock(%s, %s)", own)


def create_index(connection: Connection, name: str, definition: str) -> None:
    """Create an index of the server unless it is there. Readers and writers go on meanwhile."""
    valid = connection.execute("SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", (name,)).fetchone()
    if valid == (True,):
        return
    if valid == (False,):  # of a process that was stopped
        connection.execute(f"DROP INDEX CONCURRENTLY {name}")
    connection.execute(f"CREATE INDEX CONCURRENTLY {name} ON {definition}")


def create(database: Database, index: int, parameter: str) -> None:
    """Create the table of an extension and its index, unless they are there. Readers and writers go on meanwhile.

    A failure is logged: the search works without the extension.
    """
    if parameter not in database.address.extensions or is_ready(database, index, parameter):
        return
    try:
        with building(database, index) as connection:
            if connection is not None:
                _create(connection, index, parameter)
    except DatabaseError as error:
        _log.warning(
            "the index of %s was not created, and the next change tries again: %s", EXTENSIONS[parameter], error
        )


def _create(connection: Connection, index: int, parameter: str) -> None:
    source = "chunks" if parameter == "keywords" else "chunk_vectors"
    kind = "text"
    if parameter == "vectors":
        row = connection.execute(
            "SELECT vector_dims(vector) FROM chunk_vectors WHERE index = %s LIMIT 1", (index,)
        ).fetchone()
        kind = f"vector({row[0] if row else 0})"
    name = table_of(parameter, index)
    with connection.transaction(), connection.cursor(binary=True) as cursor:
        lock(cursor, index)  # whoever writes later sees the table
        if cursor.execute("SELECT to_regclass(%s)", (name,)).fetchone() == (None,):
            columns = f"index integer NOT NULL, key bigint PRIMARY KEY, {_COLUMNS[parameter]} {kind} NOT NULL"
            cursor.execute(f"CREATE TABLE {name} ({columns})")
            _protect(cursor, name, index)
    missing = (
        f"SELECT s.key FROM {source} s WHERE s.index = %s AND s.key > %s "
        f"AND NOT EXISTS (SELECT FROM {name} t WHERE t.key = s.key) ORDER BY s.key LIMIT {_PAGE}"
    )
    last, rows = -1, list[tuple[int]]()
    while last < 0 or rows:
        with connection.transaction(), connection.cursor(binary=True) as cursor:
            lock(cursor, index)  # nothing is deleted meanwhile
            rows = cursor.execute(missing, (index, last)).fetchall()
            keys = np.array([row[0] for row in rows], np.int64)
            _add(cursor, index, parameter, keys)
            last = int(keys[-1]) if len(keys) else 0
    column = "text) WITH (text_config = 'pg_catalog.simple'" if parameter == "keywords" else "vector vector_ip_ops"
    create_index(connection, f"{name}_index", f"{name} USING {_PREFIXES[parameter]} ({column})")
    if parameter == "keywords":
        connection.execute(_SPILL, (f"{name}_index",))  # what was written while it was built
    connection.execute(f"ANALYZE {name}")
    connection.execute("INSERT INTO meta VALUES (%s, 'ready') ON CONFLICT DO NOTHING", (name,))


def _protect(cursor: Cursor, name: str, index: int) -> None:
    """Give the roles that may use the table of chunks the same rights, for the index that they see."""
    granted = cursor.execute(
        "SELECT string_agg(a.privilege_type, ', '), CASE a.grantee WHEN 0 THEN 'PUBLIC' "
        "ELSE quote_ident(pg_get_userbyid(a.grantee)) END FROM pg_class c, aclexplode(c.relacl) a "
        "WHERE c.oid = 'chunks'::regclass GROUP BY a.grantee"
    ).fetchall()
    for privileges, role in granted:
        cursor.execute(f"GRANT {privileges} ON {name} TO {role}")
    secured = cursor.execute("SELECT relrowsecurity FROM pg_class WHERE oid = 'chunks'::regclass").fetchone()
    if secured == (True,):
        cursor.execute(f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY")
        cursor.execute(f"CREATE POLICY own_index ON {name} USING (EXISTS (SELECT FROM indexes i WHERE i.id = {index}))")


def _present(cursor: Cursor, index: int) -> list[str]:
    """Return the parameters whose tables an index has, complete or not."""
    names = {table_of(parameter, index): parameter for parameter in EXTENSIONS}
    rows = cursor.execute(
        "SELECT n FROM unnest(%s::text[]) n WHERE to_regclass(n) IS NOT NULL ORDER BY n", ([*names],)
    ).fetchall()
    return [names[row[0]] for row in rows]


def update(cursor: Cursor, index: int, added: Keys, removed: Keys) -> None:
    """Add and remove chunks, given by key, in the extension tables of an index. The caller holds its lock."""
    for parameter in _present(cursor, index) if len(added) or len(removed) else ():
        if len(removed):
            cursor.execute(f"DELETE FROM {table_of(parameter, index)} WHERE key = ANY(%s)", (removed,))
        _add(cursor, index, parameter, added)
        if parameter == "keywords":
            cursor.execute(_SPILL, (f"{table_of(parameter, index)}_index",))


def rebuild(cursor: Cursor, index: int) -> None:
    """Drop the tables that an index has, for :func:`create`. Those of another owner are filled again.

    The caller holds the lock of the index.
    """
    for parameter in _present(cursor, index):
        name = table_of(parameter, index)
        owned = cursor.execute(
            "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(%s)", (name,)
        ).fetchone()
        if owned == (True,):
            cursor.execute(f"DROP TABLE {name}")
            cursor.execute("DELETE FROM meta WHERE name = %s", (name,))
            continue
        cursor.execute(f"DELETE FROM {name}")
        keys = PostgresTables.of(cursor, index).keys(f"SELECT key FROM chunks WHERE index = {index} ORDER BY key")
        for start in range(0, len(keys), _PAGE):
            _add(cursor, index, parameter, keys[start : start + _PAGE])


def _add(cursor: Cursor, index: int, parameter: str, chunks: Keys) -> None:
    """Add chunks, given by key in ascending order, to the table of an extension."""
    if len(chunks) == 0:
        return
    name = table_of(parameter, index)
    if parameter == "vectors":
        cursor.execute(
            f"INSERT INTO {name} SELECT v.index, v.key, v.vector FROM {rows_of('chunk_vectors', 'v', 'key', 'keys')}",
            {"index": index, "keys": chunks},
        )
        return
    span = int(chunks[0]), int(chunks[-1]) + 1
    wanted = set(chunks.tolist())  # others of the span belong to writers that add them
    rows = [
        (index, key, _terms(fields))
        for key, fields, _ in PostgresTables.of(cursor, index).keyword_texts(span, only="chunks")
        if key in wanted
    ]
    copy_rows(cursor, name, rows, ["integer", "bigint", "text"])


def _terms(fields: Texts) -> str:
    """Return the terms by which a chunk is found: of its title twice, and of its body, which has title and headings.

    There is one score for all fields: a term of the title has more weight since it occurs more often.
    """
    body, title = (analysis.tokens(field) for field in fields[:2])
    text = " ".join([*title, *title, *body])
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT].rpartition(" ")[0]


def problems(cursor: Cursor, index: int) -> Iterator[str]:
    """Yield what in the tables of an index is not as in the tables that they are made from."""
    for parameter in _present(cursor, index):
        name = table_of(parameter, index)
        if not cursor.execute("SELECT 1 FROM meta WHERE name = %s", (name,)).fetchone():
            continue  # not complete, and not used
        if parameter == "vectors":
            (wrong,) = cursor.execute(
                f"SELECT count(*) FROM (SELECT * FROM chunk_vectors WHERE index = %s) v FULL JOIN {name} t "
                "ON t.key = v.key WHERE v.vector::vector IS DISTINCT FROM t.vector",
                (index,),
            ).fetchall()[0]
        else:
            stored = {key: hash64(text) for key, text in cursor.execute(f"SELECT key, text FROM {name}")}
            texts = PostgresTables.of(cursor, index).keyword_texts(only="chunks")
            wrong = sum(stored.pop(key, None) != hash64(_terms(fields)) for key, fields, _ in texts) + len(stored)
        if wrong:
            yield f"{EXTENSIONS[parameter]}: {wrong} chunks are not as in {name}"


# -- search


def used(database: Database, index: int, ready: Sequence[str], chunks: int) -> frozenset[str]:
    """Return the parameters whose extensions a snapshot uses; ``ready`` are the tables that it can read."""
    asked = database.address.extensions
    found = frozenset(parameter for parameter in asked if table_of(parameter, index) in ready)
    if "keywords" in asked - found and chunks:
        _say_once(
            f"{database.shown}: keywords are searched without pg_textsearch: this is a standby, or this role may not "
            "read its index, or a role that may create tables has yet to write with this address"
        )
    return found


@cache
def _say_once(message: str) -> None:
    _log.warning(message)


def vector_settings(visited: int) -> dict[str, str]:
    """Return the settings of a statement that finds the nearest neighbours and compares so many vectors."""
    return {"diskann.query_search_list_size": str(visited), "diskann.query_rescore": str(visited)}


class ServerKeywords(Keywords):
    """Keyword search in a snapshot, of chunks with pg_textsearch. Facts are searched as without it."""

    _fields = (FACTS,)

    def search(self, kind: str, text: str, k: int) -> Ranking:
        """Return the best ``k`` keys with a positive score, best first, and what ties with the last."""
        if kind == "facts":
            return super().search(kind, text, k)
        terms = " ".join(query_terms(text))
        if not terms or k < 1:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        chunks = self._reads.scope.chunks
        if chunks is not None and len(chunks) <= _FEW:
            return best(*self._scores(terms, chunks), k)
        wanted = k + _MORE
        while True:
            check_deadline()
            keys, scores, is_all = self._first(terms, wanted)
            # All ties with the last one are wanted, and in a scope that is chosen here enough of it.
            if is_all or (len(keys) >= k and scores[-1] < scores[k - 1]):
                return best(keys, scores, k)
            wanted *= 4

    def _first(self, terms: str, count: int) -> tuple[Keys, npt.NDArray[np.float32], bool]:
        """Return the best chunks in scope and their scores, best first, and whether there are no more."""
        reads = self._reads
        score = f"text <@> to_bm25query(%(terms)s, '{self._name}_index')"
        inside = "" if reads.scope.is_everything else f"WHERE {SEES.format('key')} "
        keys, scores = reads.columns(
            f"SELECT key, -({score}) FROM {self._name} {inside}ORDER BY {score} LIMIT %(count)s",
            np.int64, np.float64, terms=terms, count=count, **(reads.scope.mask if inside else {}),
        )  # fmt: skip
        found = (scores > 0) & reads.scope.sees(keys)
        return keys[found], scores[found].astype(np.float32), len(keys) < count

    def _scores(self, terms: str, chunks: Keys) -> tuple[Keys, npt.NDArray[np.float32]]:
        """Return those of some chunks, given by key, that have one of the terms, and their scores."""
        keys, scores = self._reads.columns(
            f"SELECT t.key, -(t.text <@> to_bm25query(%(terms)s, '{self._name}_index')) "
            f"FROM {rows_of(self._name, 't', 'key', 'chunks')}",
            np.int64, np.float64, terms=terms, chunks=chunks,
        )  # fmt: skip
        return keys[scores > 0], scores[scores > 0].astype(np.float32)

    @property
    def _name(self) -> str:
        return table_of("keywords", self._reads.index)

    def counts(self, terms: Sequence[str]) -> Keys:
        """Return how many chunks of all documents have each term in their body.

        Keys are read only of small segments, to leave out dead chunks: those of a large one are counted until they are
        purged.
        """
        numbers = np.array([*map(term_number, terms)], np.int64)
        is_small = f"octet_length(p.keys) <= {_SMALL if self._reads.has_dead else -1}"
        rows = self._reads.rows(
            f"SELECT t.term, coalesce(sum(octet_length(p.keys)) FILTER (WHERE NOT {is_small}), 0)::bigint / 8, "
            f"string_agg(p.keys, '') FILTER (WHERE {is_small}) FROM unnest(%s::bigint[]) t(term) "
            f"CROSS JOIN LATERAL (SELECT keys FROM postings WHERE index = %s AND field = {BODY} AND term = t.term "
            "OFFSET 0) p GROUP BY t.term",
            (numbers, self._reads.index),
        )
        dead = self._reads.dead
        counts = {
            term: count + int((~among(np.frombuffer(keys or b"", "<i8"), dead)).sum()) for term, count, keys in rows
        }
        found = np.array([counts.get(number, 0) for number in numbers.tolist()], np.int64)
        return np.minimum(found, self._reads.statistics_count)


def keywords_of(transaction: Transaction) -> Keywords:
    """Return the keyword search of a snapshot."""
    return ServerKeywords(transaction) if "keywords" in transaction.extensions else Keywords(transaction)
