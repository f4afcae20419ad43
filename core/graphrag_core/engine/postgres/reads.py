"""The rows of an index in PostgreSQL, and the transaction of a snapshot with its scope and the nodes it has seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.graph.counters import MENTION, MOST_TITLES, SUBJECT
from graphrag_core.engine.graph.snapshot import MOST_COUNTED
from graphrag_core.engine.postgres.cache import Cache
from graphrag_core.engine.postgres.database import Connection, Cursor, Database, DriverError, RawCursor, matrix
from graphrag_core.engine.postgres.schema import FACT_BITS
from graphrag_core.engine.rows import Name, Row
from graphrag_core.engine.tables import Query, Tables, mark_missing, storable
from graphrag_core.errors import DatabaseError
from graphrag_core.filters import Condition, Filter, unknown_keys
from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Keys, Matrix
from graphrag_core.text import hash64, normalise

VECTORS = {"chunks": "chunk_vectors", "facts": "fact_vectors", "names": "name_vectors"}
"""The tables of vectors, by kind."""

_NONE: Keys = np.empty(0, np.int64)
_FEW = 8  # times as many chunks as documents that match: up to which they are looked up one by one
_PARAMETER = re.compile(r"%\((\w+)\)s")

SEES = "(%(mask)s::bytea IS NULL OR get_bit(%(mask)s, least(greatest({} - %(first)s, 0), %(last)s)) = 1)"
"""The condition that the snapshot sees a chunk, whose key replaces the braces; :meth:`Scope.mask` is passed with it."""


@dataclass(frozen=True)
class Scope:
    """The chunks that a snapshot sees.

    Attributes
    ----------
    inside
        The keys of the chunks that the caller's filter selects, in ascending order; None for all.
    hidden
        The keys of chunks that no query may see, in ascending order.
    """

    inside: Keys | None
    hidden: Keys

    @property
    def is_everything(self) -> bool:
        """Whether the snapshot sees all chunks."""
        return self.inside is None and len(self.hidden) == 0

    @property
    def chunks(self) -> Keys | None:
        """The keys of the chunks that the snapshot sees; None for all but the hidden ones."""
        if self.inside is None or len(self.hidden) == 0:
            return self.inside
        return np.setdiff1d(self.inside, self.hidden, assume_unique=True)

    def sees(self, chunks: Keys) -> npt.NDArray[np.bool_]:
        """Return which chunks the snapshot sees."""
        seen = np.ones(len(chunks), np.bool_) if self.inside is None else among(chunks, self.inside)
        return seen & ~among(chunks, self.hidden) if len(self.hidden) else seen

    @cached_property
    def mask(self) -> dict[str, Any]:
        """The parameters of :data:`SEES`: a bit for each key of a span, and before and after it one for all others.

        Without a mask the condition holds for every chunk.
        """
        chosen = self.hidden if self.inside is None else self.inside
        first, last = (int(chosen[0]), int(chosen[-1])) if len(chosen) else (0, 0)
        if self.is_everything:
            return {"mask": None, "first": 0, "last": 0}
        seen = np.full(last - first + 3, self.inside is None, np.bool_)
        if self.inside is not None:
            seen[self.inside - (first - 1)] = True
        if len(self.hidden):
            inside = (self.hidden >= first) & (self.hidden <= last)
            seen[self.hidden[inside] - (first - 1)] = False
        mask = np.packbits(seen, bitorder="little").tobytes()  # the order of get_bit
        return {"mask": mask, "first": first - 1, "last": last - first + 2}


def one_row(table: str, alias: str, condition: str) -> str:
    """Return a join with the one row of a table that has a key.

    The planner cannot read the table in another order: it may have no statistics of a new index.
    """
    where = f"{alias}.index = %(index)s AND {condition}"
    return f"CROSS JOIN LATERAL (SELECT * FROM {table} {alias} WHERE {where} LIMIT 1) {alias}"


def rows_of(table: str, alias: str, column: str, keys: str, kind: str = "bigint") -> str:
    """Return a join with the rows of a table whose column has one of some keys, the parameter of that name.

    Each key is looked up. ``column = ANY(keys)`` compares each row of the index with each key once the server has a
    generic plan of the statement.
    """
    given = f"(SELECT DISTINCT unnest(%({keys})s::{kind}[]) AS key) {alias}_key"
    rows = f"SELECT * FROM {table} WHERE index = %(index)s AND {column} = {alias}_key.key OFFSET 0"
    return f"{given} CROSS JOIN LATERAL ({rows}) {alias}"


class PostgresTables(Tables):
    """The rows of one index in a database. ``execute`` runs a statement and returns its rows."""

    mark = "%s"
    listed = "= ANY(%s)"
    wanted = "unnest(%s::bigint[]) AS wanted(value) JOIN"
    listed_texts = "= ANY(%s::text[])"
    text = "c.text"
    ordinal = f"f.key & {(1 << FACT_BITS) - 1}"
    order = "position"
    holds = f"f.key >= c.key << {FACT_BITS} AND f.key < (c.key + 1) << {FACT_BITS}"
    wide = "n.surface ~ '^[^→].*[^ -~]'"

    def __init__(self, index: int, execute: Callable[..., list[Row]]) -> None:
        super().__init__()
        self.index = index
        self.own = {alias: f"{alias}.index = {index} AND " for alias in "acdfmntv"}
        self._execute = execute

    @classmethod
    def of(cls, cursor: Cursor, index: int) -> PostgresTables:
        """Return the rows of an index as the transaction of a cursor sees them."""
        return cls(index, lambda sql, parameters: cursor.execute(sql, parameters).fetchall())

    def rows(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[Row]:
        return self._execute(sql, parameters)

    def keys(self, sql: str, parameters: Sequence[Any] = ()) -> Keys:
        return np.array(self.rows(f"SELECT array_agg(t.key) FROM ({sql}) AS t(key)", parameters)[0][0] or (), np.int64)

    def array(self, values: Iterable[Any]) -> Any:
        if isinstance(values, np.ndarray):
            return values
        listed = list(values)
        return listed if listed and isinstance(listed[0], str) else np.array(listed, np.int64)

    def columns(self, sql: str, *types: npt.DTypeLike, **parameters: Any) -> tuple[Any, ...]:
        """Return the columns of a statement's rows, none of which is null, as arrays: numbers and truth values.

        They come as one row of arrays in binary form, so that Python does not see the single values. ``%(index)s`` is
        the index.
        """
        names = [f"c{at}" for at in range(len(types))]
        chosen = ", ".join(map(_aggregated, names, types))
        row = self._one_row(f"SELECT {chosen} FROM ({sql}) AS t({', '.join(names)})", parameters)
        return tuple(map(_array, row, types))

    def read(self, tables: Statement, **parameters: Any) -> dict[str, dict[str, Any]]:
        """Return the columns of several tables, each of which may use those before it, in one statement.

        Numbers are arrays, vectors (None) and others are lists.
        """
        sql = _of_tables(tuple((name, query, *columns.items()) for name, (query, columns) in tables.items()))
        values = iter(self._one_row(sql, parameters))
        return {
            name: {column: _array(next(values), kind) for column, kind in columns.items()}
            for name, (_, columns) in tables.items()
        }

    def _one_row(self, sql: str, parameters: dict[str, Any]) -> Row:
        return self.rows(sql, {"index": self.index, **parameters})[0]

    def count(self, table: str) -> int:
        return int(self.rows(f"SELECT {table} FROM indexes WHERE id = {self.index}")[0][0])

    def unpack_names(self, stored: Sequence[int]) -> list[int]:
        return list(stored)

    def stored(self, ids: Sequence[str]) -> dict[str, str]:
        found = f"SELECT d.id, d.digest FROM {rows_of('documents', 'd', 'id', 'ids', 'text')}"
        return {row[0]: row[1] for row in self.rows(found, {"index": self.index, "ids": self.array(storable(ids))})}

    @property
    def facts_of_documents(self) -> str:
        """Each document, chunk and fact is looked up: the planner would read all documents."""
        row = "CROSS JOIN LATERAL (SELECT * FROM {0} {1} WHERE {1}.index = {2} AND {3} OFFSET 0) {1}"
        document, chunk = "d.id = wanted.id", "c.document = d.key"
        tables = (("documents", "d", document), ("chunks", "c", chunk), ("facts", "f", self.holds))
        joined = " ".join(row.format(table, alias, self.index, where) for table, alias, where in tables)
        return f"unnest(%s::text[]) AS wanted(id) {joined} WHERE true"

    def chunks_of_documents(self, ids: Sequence[str]) -> Keys:
        """Return the keys of the chunks of documents, given by id, in ascending order."""
        found = (
            f"SELECT c.key FROM {rows_of('documents', 'd', 'id', 'ids', 'text')} CROSS JOIN LATERAL "
            "(SELECT key FROM chunks WHERE index = %(index)s AND document = d.key OFFSET 0) c"
        )
        rows = self.rows(found, {"index": self.index, "ids": self.array(storable(ids))})
        return np.array(sorted(row[0] for row in rows), np.int64)

    def mentions(self, chunks: Keys) -> list[Any]:
        return self.rows(
            "SELECT m.chunk, m.name, m.position < c.subjects FROM mentions m "
            f"JOIN chunks c ON {self.own['c']}c.key = m.chunk "
            f"WHERE {self.own['m']}m.chunk = ANY(%s) ORDER BY m.chunk, m.position",
            (chunks,),
        )

    def name_keys(self, names: Sequence[str]) -> dict[str, int]:
        wanted = {name: hash64(name) for name in names}
        rows = self.rows(
            f"SELECT n.key FROM {rows_of('names', 'n', 'key', 'keys')}",
            {"index": self.index, "keys": np.array([*wanted.values()], np.int64)},
        )
        known = {row[0] for row in rows}
        return {name: key for name, key in wanted.items() if key in known}

    def vectors_of(self, kind: str, owners: Keys) -> dict[int, Matrix]:
        of_owner = self.holds.replace("f.", "v.") if kind == "facts" else "v.key = c.key"
        rows = self.rows(
            f"SELECT v.key, v.vector FROM unnest(%s::bigint[]) AS c(key) JOIN {VECTORS[kind]} v ON {of_owner} "
            f"WHERE {self.own['v']}true",
            (owners,),
        )
        return dict(zip((row[0] for row in rows), matrix([row[1] for row in rows]), strict=True))

    def attribute_condition(self, condition: Condition, operator: str) -> Query:
        """Return the condition that an attribute has one of the values of a filter, or compares with one.

        Numbers are in a separate column.
        """
        numbers = [Decimal(value) for kind, value in condition.values if kind == "number"]
        texts = [(kind, self.stored_value(kind, value)) for kind, value in condition.values if kind != "number"]
        if operator and numbers:
            return f"number {operator} %s::numeric", [*numbers]
        if operator:
            return f"kind = %s AND value {operator} %s", [*texts[0]]
        if not texts:
            return "number = ANY(%s::numeric[])", [numbers]
        kinds, values = [kind for kind, _ in texts], [value for _, value in texts]
        if not numbers and len({*kinds}) == 1:
            return "kind = %s AND value = ANY(%s::text[])", [kinds[0], values]
        sql = "(number = ANY(%s::numeric[]) OR (kind, value) IN (SELECT * FROM unnest(%s::text[], %s::text[])))"
        return sql, [numbers, kinds, values]

    def chunks_in(self, scope: Filter) -> tuple[Keys, tuple[str, ...]]:
        """Return the keys of the chunks whose documents match a filter, in ascending order, and its unknown keys.

        With one statement, unless some keys are unknown. The chunks of a few documents are looked up. Of many, the
        documents of all chunks are looked at.
        """
        exists, names = self.known_keys(scope)
        sql, parameters = self.filter_sql(scope)
        chunk, share = f"SELECT c.key FROM chunks c WHERE {self.own['c']}", f"(SELECT count(*) FROM matching) * {_FEW}"
        size = f"(SELECT i.chunks FROM indexes i WHERE i.id = {self.index})"
        *known, packed = self.rows(
            f"WITH matching(document) AS MATERIALIZED ({sql}) "
            f"SELECT {''.join(f'{one}, ' for one in exists)}(SELECT array_send(array_agg(t.key)) FROM ("
            "SELECT x.key FROM (SELECT DISTINCT m.document FROM matching m) m "
            f"CROSS JOIN LATERAL ({chunk}c.document = m.document OFFSET 0) x WHERE {share} <= {size} UNION ALL "
            f"{chunk}(c.document IN (SELECT m.document FROM matching m)) IS TRUE AND {share} > {size}) t)",
            [*parameters, *names],
        )[0]
        marked = mark_missing(scope, names, known)
        if marked is not scope:
            return self.chunks_in(marked)
        return np.sort(_array(packed, np.int64)), unknown_keys(scope)

    def attributes(self, documents: Sequence[int]) -> list[Row]:
        rows = self.rows(
            "SELECT a.document, a.name, a.kind, a.value, a.number FROM attributes a "
            f"WHERE {self.own['a']}a.document = ANY(%s)",
            (self.array(documents),),
        )
        return [(*row[:3], row[4] if row[2] == "number" else row[3]) for row in rows]

    @staticmethod
    def stored_value(kind: str, value: Any) -> Any:
        """Return the value of an attribute as it is stored: numbers as such, all others as text."""
        if kind == "number":
            return value
        return str(value).lower() if isinstance(value, bool) else str(value)


Columns = Mapping[str, npt.DTypeLike | None]
Statement = Mapping[str, tuple[str, Columns]]
"""Statements of one ``WITH`` by name, and the columns of each that are read; None is the type of vectors."""

GIVEN: Statement = {"w": ("SELECT unnest(%(keys)s::bigint[]) AS key", {})}
_FACT: Columns = {"key": np.int64, "weight": np.float64, "statement": np.int64}
_VECTOR: Columns = {"key": np.int64, "vector": None}


_UNDER = "(e.headings + (e.titled > 0)::int)"
_GENERIC = f"{_UNDER} >= {MOST_TITLES} AND e.passages - e.subjects < {_UNDER} AND e.triples = 0 AND NOT e.is_address"
"""See :func:`~graphrag_core.engine.graph.counters.exist`."""

_GENERIC_IDS = (
    f"SELECT e.id FROM entities e WHERE e.index = %(index)s AND e.headings >= {MOST_TITLES - 1} AND {_GENERIC}"
)
"""The entities that are generic headings; the first condition is the condition of an index of the table."""

_LINKED_SHARE = f"""
SELECT avg(EXISTS (SELECT FROM mentions m CROSS JOIN LATERAL (
    SELECT FROM entities e WHERE e.index = m.index AND e.id = m.entity AND e.subjects > 0 AND NOT ({_GENERIC}) LIMIT 1
) e WHERE m.index = c.index AND m.chunk = c.key AND m.weight = {MENTION})::int)::double precision
FROM (SELECT index, key FROM chunks WHERE index = %(index)s ORDER BY sample LIMIT %(most)s) c
"""
_SAMPLE = 1_000  # chunks from which the share of linked ones is estimated

USES = "WHERE index = %(index)s AND entity = {} AND weight > 0"
"""The condition that a row is one of the mentions of an entity, whose id replaces the braces."""
_SCOPED = f"{USES} AND {SEES.format('chunk')}"


def _any(rows: str) -> str:
    """Return the condition that there are some rows.

    They are looked up. For ``EXISTS`` the server would read the rows of all entities if it estimates few.
    """
    return f"(SELECT count(*) FROM (SELECT FROM {rows} LIMIT 1) AS one) > 0"


def _entity_rows(given: str, in_scope: bool) -> tuple[str, Columns]:
    """Return a statement for what is kept of entities, whose ids are in the column ``id`` of a query."""
    passages, subject, there, more = "e.passages", "e.subjects > 0", "true", ""
    if in_scope:
        few = f"SELECT FROM mentions {_SCOPED.format('e.id')} LIMIT {MOST_COUNTED}"
        about = _any(f"mentions {_SCOPED.format('e.id')} AND weight = {SUBJECT}")
        more = f"CROSS JOIN LATERAL (SELECT (SELECT count(*) FROM ({few}) few) AS passages, {about} AS subject) s"
        passages, subject = "s.passages", "s.subject"
        there = "CASE WHEN e.is_address THEN s.subject ELSE s.passages > 0 END"
    exists = f"CASE WHEN e.is_address THEN e.subjects > 0 ELSE e.passages > 0 AND NOT ({_GENERIC}) END"
    sql = (
        f"SELECT e.id, {passages} AS passages, {subject} AS subject, e.is_address, {exists} AND {there} AS there "
        f"FROM (SELECT DISTINCT id FROM ({given}) g) t {one_row('entities', 'e', 'e.id = t.id')} {more}"
    )
    columns: Columns = {
        "id": np.int64, "passages": np.int64, "subject": np.bool_, "is_address": np.bool_, "there": np.bool_,
    }  # fmt: skip
    return sql, columns


def rows_in(given: str, table: str, condition: str, columns: Iterable[str], which: str = "OFFSET 0") -> str:
    """Return the rows of a table that belong to each given row."""
    rows = f"SELECT {', '.join(columns)} FROM {table} WHERE index = %(index)s AND {condition} {which}"
    return f"SELECT x.* FROM {given} CROSS JOIN LATERAL ({rows}) x"


def _names_of(entities: str, in_scope: bool, has_aliases: bool) -> Statement:
    """Return the names of entities, and what chunks say of them.

    In a scope a name that is not the only one of its entity counts if a chunk in scope writes it.
    """
    written = ""
    if in_scope or has_aliases:
        seen = f"AND {SEES.format('chunk')}" if in_scope else ""
        own = _any(f"mentions WHERE index = %(index)s AND entity = t.entity AND name = z.key {seen}")
        written = f" WHERE z.several = 1 OR {own}"
    names = "SELECT key, surface, spelling, count(*) OVER () AS several FROM names WHERE index = %(index)s AND "
    found = "spelling = t.entity OFFSET 0"
    if has_aliases:
        found = (
            "key = ANY(ARRAY(SELECT key FROM names WHERE index = %(index)s AND spelling = t.entity UNION SELECT name "
            "FROM mentions WHERE index = %(index)s AND entity = t.entity AND is_alias)) OFFSET 0"
        )
        written = f" WHERE {own}"
    sql = (
        f"SELECT t.entity, z.key AS name, z.surface, z.spelling FROM ({entities}) t CROSS JOIN LATERAL "
        f"({names}{found}) z{written}"
    )
    return {
        "u": (sql, {"entity": np.int64, "name": np.int64, "surface": object, "spelling": np.int64}),
        "k": (rows_in("u", "claims", "name = u.name", _CLAIM), _CLAIM),
    }


MENTION_COLUMNS: Columns = {
    "chunk": np.int64, "position": np.int64, "entity": np.int64, "weight": np.int16, "is_address": np.bool_,
}  # fmt: skip
_FACT_EDGE: Columns = {"fact": np.int64, "entity": np.int64, "is_address": np.bool_}
_CLAIM: Columns = {"name": np.int64, "type": object, "description": object, "chunk": np.int64}
IN_CHUNK = f"key >= w.key << {FACT_BITS} AND key < (w.key + 1) << {FACT_BITS}"
_CHUNK_TABLES: Statement = {
    **GIVEN,
    "c": (
        "SELECT n.key, n.id, n.document, n.terms, coalesce(n.fact_terms, ''::bytea) AS fact_terms, "
        "coalesce(n.tokens, ''::bytea) AS tokens FROM w " + one_row("chunks", "n", "n.key = w.key"),
        {"key": np.int64, "id": object, "document": np.int64, "terms": object, "fact_terms": object, "tokens": object},
    ),
    "v": (
        "SELECT n.key, n.vector FROM unnest(%(vectors)s::bigint[]) t(key) "
        + one_row("chunk_vectors", "n", "n.key = t.key"),
        _VECTOR,
    ),
    "f": (rows_in("w", "facts", IN_CHUNK, _FACT), _FACT),
}
_FACT_TABLES: Statement = {
    **GIVEN,
    "f": (f"SELECT n.key, n.weight, n.statement FROM w {one_row('facts', 'n', 'n.key = w.key')}", _FACT),
    "v": (f"SELECT n.key, n.vector FROM w {one_row('fact_vectors', 'n', 'n.key = w.key')}", _VECTOR),
}


@cache
def _chunk_graph(in_scope: bool, has_aliases: bool) -> Statement:
    """Return what is read of the graph with chunks: mentions, entities, and the names of subjects."""
    return {
        **GIVEN,
        "e": (rows_in("w", "mentions", "chunk = w.key AND weight > 0", MENTION_COLUMNS), MENTION_COLUMNS),
        "n": _entity_rows("SELECT entity AS id FROM e", in_scope),
        **_names_of(f"SELECT DISTINCT entity FROM e WHERE weight = {SUBJECT}", in_scope, has_aliases),
    }


@cache
def _entity_tables(in_scope: bool, has_aliases: bool) -> Statement:
    names = _names_of("SELECT id AS entity FROM n WHERE there", in_scope, has_aliases)
    return {**GIVEN, "n": _entity_rows("SELECT key AS id FROM w", in_scope), **names}


def addresses_of(table: str, in_scope: bool) -> tuple[str, Columns]:
    """Return the addresses in a table that exist: some chunk in scope is about them."""
    about = "entities e WHERE e.index = %(index)s AND e.id = t.entity AND e.subjects > 0"
    if in_scope:
        about = f"mentions {_SCOPED.format('t.entity')} AND weight = {SUBJECT}"
    return f"SELECT t.entity FROM (SELECT DISTINCT entity FROM {table} WHERE is_address) t WHERE {_any(about)}", {
        "entity": np.int64
    }


@cache
def _fact_graph(in_scope: bool) -> Statement:
    return {
        **GIVEN,
        "x": (rows_in("w", "fact_entities", "fact = w.key", _FACT_EDGE), _FACT_EDGE),
        "a": addresses_of("x", in_scope),
        "n": _entity_rows("SELECT entity AS id FROM x", in_scope),
    }


@cache
def _called(in_scope: bool, has_aliases: bool) -> Statement:
    """Return the entities that have an id as a name, and their names."""
    own = "SELECT w.key AS number, w.key AS entity FROM w"
    if has_aliases:
        seen = f"AND {SEES.format('m.chunk')}" if in_scope else ""
        own += (
            " UNION SELECT w.key, m.entity FROM w CROSS JOIN LATERAL (SELECT key FROM names WHERE index = %(index)s "
            "AND spelling = w.key OFFSET 0) s CROSS JOIN LATERAL (SELECT entity, chunk FROM mentions "
            f"WHERE index = %(index)s AND name = s.key AND is_alias OFFSET 0) m WHERE true {seen}"
        )
    return {
        **GIVEN,
        "s": (own, {"number": np.int64, "entity": np.int64}),
        "n": _entity_rows("SELECT entity AS id FROM s", in_scope),
        **_names_of("SELECT id AS entity FROM n WHERE there", in_scope, has_aliases),
    }


@cache
def _facts_of(in_scope: bool, limited: bool) -> Statement:
    """Return the facts of entities, and what is read of facts."""
    seen = f"AND {SEES.format(f'(fact >> {FACT_BITS})')}" if in_scope else ""
    own = "ORDER BY fact LIMIT %(limit)s" if limited else "OFFSET 0"
    return {
        **GIVEN,
        "o": (rows_in("w", "fact_entities", f"entity = w.key {seen}", _FACT_EDGE, own), _FACT_EDGE),
        "d": ("SELECT DISTINCT fact AS key FROM o ORDER BY 1", {}),
        "f": (f"SELECT n.key, n.weight, n.statement FROM d {one_row('facts', 'n', 'n.key = d.key')}", _FACT),
        "x": (rows_in("d", "fact_entities", "fact = d.key", _FACT_EDGE), _FACT_EDGE),
        "a": addresses_of("x", in_scope),
    }


class Transaction(PostgresTables):
    """A transaction that sees one generation of an index, restricted to a scope.

    ``state`` has the generation, the counts of chunks and facts, the lengths of all texts in tokens, the number of
    deleted chunks in postings, whether there are vectors of chunks, facts and names, explicit edges and aliases, and
    the edits of the graph.

    Attributes
    ----------
    generic
        The ids of entities that are generic headings, in ascending order.
    linked_share
        Returns the share of chunks that mention the subject of another chunk.
    cache
        What questions with this scope have read.
    unknown_keys
        The keys of the scope's filter that no document has.
    """

    generic: Keys
    linked_share: Callable[[], float]
    unknown_keys: tuple[str, ...] = ()

    def __init__(self, database: Database, connection: Connection, index: int, state: Row | None) -> None:
        super().__init__(index, self._run)
        if state is None:
            raise DatabaseError(f"{database.shown}: the index was deleted from the database: open it again")
        self.database = database
        self.connection = connection
        self.generation, self.statistics_count, self.fact_count, self.lengths, self.has_dead = state[:5]
        self.has_vectors: dict[str, bool] = dict(zip(VECTORS, state[5:8], strict=True))
        self.has_edges, self.has_aliases, self.edits = state[8:]
        self.dead = _NONE
        self.restrict(Scope(None, _NONE))

    def restrict(self, scope: Scope) -> None:
        """See the chunks of a scope only."""
        self.scope, self.in_scope = scope, not scope.is_everything
        self.chunk_count = self.statistics_count if scope.inside is None else len(scope.inside)
        if len(scope.hidden):
            inside = scope.inside
            self.chunk_count -= len(scope.hidden) if inside is None else int(among(scope.hidden, inside).sum())

    def use(self, cache: Cache) -> None:
        """Use what was read of this generation and this scope, and add to it."""
        self.cache = cache
        self._names = cache.name_rows

    def _run(self, sql: str, parameters: Any) -> list[Row]:
        try:
            with self.connection.cursor(binary=True) as cursor:
                return cursor.execute(sql, parameters).fetchall()
        except DriverError as error:
            raise self.database.translated(error) from error

    def read_generic(self) -> Keys:
        """Read the entities that are generic headings."""
        generic: Keys = np.sort(self.columns(_GENERIC_IDS, np.int64)[0])
        return generic

    def read_linked_share(self) -> float:
        """Read the share of chunks that mention the subject of another chunk, estimated from a sample."""
        return float(self.rows(_LINKED_SHARE, {"index": self.index, "most": _SAMPLE})[0][0] or 0)

    # -- what questions ask about, read in one statement unless it was read

    def see_chunks(self, keys: Keys) -> None:
        """Read chunks, given by key, with their vectors and facts."""
        cache = self.cache
        missing = np.array([key for key in distinct(keys).tolist() if key not in cache.facts_in], np.int64)
        if len(missing) == 0:
            return
        without = np.array([key for key in missing.tolist() if key not in cache.vectors], np.int64)
        found = self.read(_CHUNK_TABLES, keys=missing, vectors=without)
        chunks, vectors, facts = found["c"], found["v"], found["f"]
        read = chunks["key"].tolist()
        terms = zip(chunks["terms"], chunks["fact_terms"], chunks["tokens"], strict=True)
        cache.ids.update(zip(read, chunks["id"], strict=True))
        cache.documents.update(zip(read, chunks["document"].tolist(), strict=True))
        cache.terms.update(zip(read, terms, strict=True))
        cache.vectors.update(zip(vectors["key"].tolist(), vectors["vector"], strict=True))
        self._keep_facts(facts)
        of_chunk = np.sort(facts["key"])
        first, last = (of_chunk.searchsorted(key << FACT_BITS) for key in (missing, missing + 1))
        for key, start, end in zip(missing.tolist(), first.tolist(), last.tolist(), strict=True):
            cache.facts_in[key] = of_chunk[start:end]

    def see_mentions(self, chunks: Keys) -> None:
        """Read the mentions of chunks, given by number in ascending order, their entities, and names of subjects."""
        found = self.read(_chunk_graph(self.in_scope, self.has_aliases), keys=self.cache.numbering.chunks(chunks))
        rows, entities = found["e"], found["n"]
        self._keep_names(found["u"], found["k"], distinct(rows["entity"][rows["weight"] == SUBJECT]))
        self.cache.keep_entities(*entities.values())
        there = among(rows["entity"], np.sort(entities["id"][entities["there"]]))
        self.keep_mentions(chunks, {name: column[there] for name, column in rows.items()})

    def keep_mentions(self, chunks: Keys, rows: Mapping[str, Any]) -> None:
        """Keep the mentions of chunks, given by number in ascending order."""
        cache = self.cache
        owner = cache.numbering.of_chunks(rows["chunk"])
        order = np.lexsort((rows["position"], owner))
        inside = order[among(owner[order], chunks)]
        at, weights = chunks.searchsorted(owner[inside]), rows["weight"][inside].astype(np.float32)
        totals = np.bincount(at, weights, len(chunks)).astype(np.float32)
        targets = cache.numbering.of_entities(rows["entity"][inside])
        cache.degrees.set(chunks, np.bincount(at, minlength=len(chunks)))
        cache.edges.add(chunks, at, targets, weights, totals)

    def see_facts(self, facts: Keys) -> None:
        """Read facts with their vectors."""
        cache = self.cache
        missing = np.array([fact for fact in distinct(facts).tolist() if fact not in cache.fact_vectors], np.int64)
        if len(missing) == 0:
            return
        found = self.read(_FACT_TABLES, keys=missing)
        self._keep_facts(found["f"])
        vectors = dict.fromkeys(missing.tolist(), np.empty(0, np.float32))
        vectors.update(zip(found["v"]["key"].tolist(), found["v"]["vector"], strict=True))
        cache.fact_vectors.update(vectors)

    def see_fact_entities(self, facts: Keys) -> None:
        """Read the entities of facts."""
        if len(missing := self.cache.fact_entities.missing(facts)):
            found = self.read(_fact_graph(self.in_scope), keys=missing)
            self.cache.keep_entities(*found["n"].values())
            self._keep_fact_entities(missing, found)

    def see_facts_of(self, entities: Keys, limit: int | None) -> dict[str, Any]:
        """Return the facts of entities, given by id, with the entity; all or some of each. They are read with it."""
        tables = _facts_of(self.in_scope, limit is not None)
        found = self.read(tables, keys=distinct(entities), limit=limit)
        self._keep_facts(found["f"])
        self._keep_fact_entities(distinct(found["f"]["key"]), found)
        return found["o"]

    def see_ids(self, ids: Sequence[int]) -> None:
        """Read the entities that have ids as a name, and the names of these."""
        known = self.cache.found
        if missing := [number for number in ids if number not in known]:
            found = self.read(_called(self.in_scope, self.has_aliases), keys=np.array(missing, np.int64))
            self.cache.keep_entities(*found["n"].values())
            there = np.sort(found["n"]["id"][found["n"]["there"]])
            self._keep_names(found["u"], found["k"], there)
            own: dict[int, list[int]] = {number: [] for number in missing}
            number, entity = found["s"]["number"], found["s"]["entity"]
            order = np.lexsort((entity, entity != number))
            order = order[among(entity[order], there)]
            numbers = self.cache.numbering.of_entities(entity[order]).tolist()
            for one, node in zip(number[order].tolist(), numbers, strict=True):
                own[one].append(node)
            known.update(own)

    def see_entities(self, ids: Keys) -> None:
        """Read entities, given by id, and their names. Of those that are not there, nothing exists."""
        found = self.read(_entity_tables(self.in_scope, self.has_aliases), keys=ids)
        self.cache.keep_entities(*found["n"].values())
        unknown = ids[~among(ids, np.sort(found["n"]["id"]))]
        none = np.zeros(len(unknown), np.bool_)
        self.cache.keep_entities(unknown, none.astype(np.int64), none, none, none)
        self._keep_names(found["u"], found["k"], np.sort(ids))

    def _keep_fact_entities(self, facts: Keys, found: Mapping[str, Any]) -> None:
        fact, ids, is_address = found["x"].values()
        there = ~among(ids, self.generic) & (~is_address | among(ids, np.sort(found["a"]["entity"])))
        entities, order = self.cache.numbering.of_entities(ids), np.argsort(ids, kind="stable")
        self.cache.exists.set(entities, there)
        self.cache.is_address.set(entities, is_address)
        self.cache.fact_entities.add(facts, fact[order], entities[order])

    def _keep_facts(self, rows: Mapping[str, Any]) -> None:
        columns = zip(rows["weight"].tolist(), rows["statement"].tolist(), strict=True)
        self.cache.columns.update(zip(rows["key"].tolist(), columns, strict=True))

    def _keep_names(self, rows: Mapping[str, Any], claimed: Mapping[str, Any], entities: Keys) -> None:
        """Keep the names of entities, given by id, all of which were read."""
        names, known, claims = rows["name"].tolist(), self.cache.name_rows, dict[int, list[tuple[int, str, str]]]()
        claims.update((name, []) for name in names)
        seen = self.scope.sees(claimed["chunk"]).tolist()
        for name, kind, description, is_seen in zip(
            claimed["name"].tolist(), claimed["type"], claimed["description"], seen, strict=True
        ):
            if is_seen:
                claims[name].append((name, kind, description))
        self.cache.claims.update(claims)
        for name, surface, spelling in zip(names, rows["surface"], rows["spelling"].tolist(), strict=True):
            if name not in known:
                known[name] = Name(surface, normalise(surface), spelling)
        numbers = np.sort(self.cache.numbering.of_entities(entities))
        order = np.argsort(rows["name"], kind="stable")
        owners = self.cache.numbering.of_entities(rows["entity"][order])
        self.cache.names.add(numbers, owners, rows["name"][order])

    def _one_row(self, sql: str, parameters: dict[str, Any]) -> Row:
        """Return the only row of a statement. The driver would read a long text again each time."""
        parameters = {"index": self.index, **self.scope.mask, **parameters}
        sent, names = _numbered(sql)
        try:
            with RawCursor(self.connection) as cursor:
                (row,) = cursor.execute(sent, [parameters[name] for name in names], binary=True).fetchall()
        except DriverError as error:
            raise self.database.translated(error) from error
        return row

    def rows_unsorted(self, settings: Mapping[str, str], sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        """Return the rows of a vector search. ``settings`` configure an approximate index; empty: search exactly.

        With them sorting is disabled for this statement: the planner would sort all vectors instead of using a new
        index, of which it has no statistics.
        """
        if not settings:
            return self.rows(sql, parameters)
        set_all = "SELECT set_config(n, v, true) FROM unnest(%s::text[], %s::text[]) AS t(n, v)"
        try:
            with self.connection.pipeline(), self.connection.cursor(binary=True) as cursor:
                cursor.execute(set_all, ([*settings, "enable_sort"], [*settings.values(), "off"]))
                rows: list[Row] = cursor.execute(sql, parameters).fetchall()
                cursor.execute("SET LOCAL enable_sort = on")
        except DriverError as error:
            raise self.database.translated(error) from error
        return rows


@lru_cache(maxsize=200)
def _of_tables(tables: tuple[tuple[Any, ...], ...]) -> str:
    """Return a statement that reads columns of tables, each of which has a name, a query, and columns with types."""
    given = ", ".join(f"{name} AS MATERIALIZED ({sql})" for name, sql, *_ in tables)
    rows = (
        f"(SELECT {', '.join(_aggregated(column, kind) for column, kind in columns)} FROM {name}) AS {name}_"
        for name, _, *columns in tables
        if columns
    )
    return f"WITH {given} SELECT * FROM {', '.join(rows)}"


@lru_cache(maxsize=500)
def _numbered(sql: str) -> tuple[bytes, list[str]]:
    """Return a statement with the server's marks of parameters, ``$1`` and so on, and the names of the parameters."""
    names = list(dict.fromkeys(_PARAMETER.findall(sql)))
    return _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", sql).encode(), names


_SENT = {"i": ("bigint", ">i8"), "f": ("double precision", ">f8"), "b": ("boolean", "?")}


def _sent(kind: npt.DTypeLike) -> tuple[str, str]:
    """Return the type in which the server sends the values of a column, and that in which they are received."""
    return ("smallint", ">i2") if kind == np.int16 else _SENT[np.dtype(kind).kind]


def _aggregated(column: str, kind: npt.DTypeLike | None) -> str:
    """Return a column as one value, for :func:`_array`."""
    if kind is object:
        return f"array_agg({column})"
    return f"array_send(array_agg({column if kind is None else f'{column}::{_sent(kind)[0]}'}))"


def _array(data: Any, kind: npt.DTypeLike | None) -> Any:
    """Return the values of a column that :func:`_aggregated` reads.

    ``array_send`` writes 20 bytes, then the size and the value of each element.
    """
    if kind is object:
        return data or []
    if data is None:
        return [] if kind is None else np.empty(0, kind)
    if kind is not None:
        layout = np.dtype([("size", ">i4"), ("value", _sent(kind)[1])])
        return np.frombuffer(data, layout, offset=20)["value"].astype(kind)
    dim = int.from_bytes(data[24:26], "big")
    layout = np.dtype([("size", ">i4"), ("dim", ">i2"), ("unused", ">i2"), ("vector", ">f2", (dim,))])
    return list(np.frombuffer(data, layout, offset=20)["vector"].astype(np.float32))
