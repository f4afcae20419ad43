"""The rows of an index in PostgreSQL, and the transaction of a snapshot with its scope and the nodes it has seen."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.graph.snapshot import Name
from graphrag_core.engine.postgres.database import Connection, Cursor, Database, DriverError, RawCursor, matrix
from graphrag_core.engine.postgres.schema import FACT_BITS
from graphrag_core.engine.postgres.seen import Numbering, Seen, groups
from graphrag_core.engine.rows import Row
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
_MOST_SENT = 1 << 20  # bytes of a mask that is sent with a statement; beyond, the rows are chosen here

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

        Without a mask, since it would be too large, the condition holds for every chunk: use :meth:`sees` as well.
        """
        chosen = self.hidden if self.inside is None else self.inside
        first, last = (int(chosen[0]), int(chosen[-1])) if len(chosen) else (0, 0)
        if self.is_everything or (last - first) // 8 > _MOST_SENT:
            return {"mask": None, "first": 0, "last": 0}
        seen = np.full(last - first + 3, self.inside is None, np.bool_)
        if self.inside is not None:
            seen[self.inside - (first - 1)] = True
        if len(self.hidden):
            inside = (self.hidden >= first) & (self.hidden <= last)
            seen[self.hidden[inside] - (first - 1)] = False
        mask = np.packbits(seen, bitorder="little").tobytes()  # the order of get_bit
        return {"mask": mask, "first": first - 1, "last": last - first + 2}


EVERYTHING = Scope(None, _NONE)


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
    """The rows of one index among those of a database. ``execute`` runs a statement and returns its rows."""

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

    def count(self, table: str) -> int:
        return int(self.rows(f"SELECT {table} FROM indexes WHERE id = {self.index}")[0][0])

    def unpack_names(self, stored: Sequence[int]) -> list[int]:
        return list(stored)

    def stored(self, ids: Sequence[str]) -> dict[str, str]:
        found = f"SELECT d.id, d.digest FROM {rows_of('documents', 'd', 'id', 'ids', 'text')}"
        return {row[0]: row[1] for row in self.rows(found, {"index": self.index, "ids": self.array(storable(ids))})}

    @property
    def facts_of_documents(self) -> str:
        """Each document, chunk and fact is looked up: the planner would read those of all documents."""
        rows = (
            f"CROSS JOIN LATERAL (SELECT * FROM {{0}} {{1}} WHERE {{1}}.index = {self.index} AND {{2}} OFFSET 0) {{1}}"
        )
        return " ".join([
            "unnest(%s::text[]) AS wanted(id)", rows.format("documents", "d", "d.id = wanted.id"),
            rows.format("chunks", "c", "c.document = d.key"), rows.format("facts", "f", self.holds), "WHERE true",
        ])  # fmt: skip

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
            "SELECT m.chunk, m.name, m.subject FROM mentions m "
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

        Numbers are in a column of their own.
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

    def in_scope(self, scope: Filter) -> tuple[Keys, tuple[str, ...]]:
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
            return self.in_scope(marked)
        return np.sort(_received(packed, np.dtype(np.int64))), unknown_keys(scope)

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

_GIVEN: Statement = {"w": ("SELECT unnest(%(keys)s::bigint[]) AS key", {})}
_FACT: Columns = {"key": np.int64, "weight": np.float64, "statement": np.int64}
_VECTOR: Columns = {"key": np.int64, "vector": None}


def _entities_of(table: str) -> tuple[str, Columns]:
    """Return the rows of the entities of a table."""
    sql = (
        "SELECT n.number, n.chunks, n.subjects > 0 AS subject, n.is_address "
        f"FROM (SELECT DISTINCT entity FROM {table}) t {one_row('entities', 'n', 'n.number = t.entity')}"
    )
    return sql, {"number": np.int64, "chunks": np.int64, "subject": np.bool_, "is_address": np.bool_}


def _names_of(entities: str) -> tuple[str, Columns]:
    """Return the names of entities, with their spelling."""
    sql = (
        f"SELECT t.entity, y.name, z.surface, z.spelling FROM ({entities}) t CROSS JOIN LATERAL (SELECT number "
        "FROM spellings WHERE index = %(index)s AND entity = t.entity OFFSET 0) s CROSS JOIN LATERAL (SELECT name "
        "FROM name_uses WHERE index = %(index)s AND spelling = s.number AND named OFFSET 0) y "
        + one_row("names", "z", "z.key = y.name")
    )
    return sql, {"entity": np.int64, "name": np.int64, "surface": object, "spelling": np.int64}


def _rows_in(given: str, table: str, condition: str, columns: Iterable[str], which: str = "OFFSET 0") -> str:
    """Return the rows of a table that belong to each given row."""
    rows = f"SELECT {', '.join(columns)} FROM {table} WHERE index = %(index)s AND {condition} {which}"
    return f"SELECT x.* FROM {given} CROSS JOIN LATERAL ({rows}) x"


_CHUNK_EDGE: Columns = {"chunk": np.int64, "entity": np.int64, "weight": np.int16}
_FACT_EDGE: Columns = {"fact": np.int64, "entity": np.int64}
_CLAIM: Columns = {"name": np.int64, "type": object, "description": object}
_CLAIMS = (_rows_in("u", "claims", "name = u.name", _CLAIM), _CLAIM)
_CHUNK_TABLES: Statement = {
    **_GIVEN,
    "c": (
        "SELECT n.key, n.id, n.terms, coalesce(n.fact_terms, ''::bytea) AS fact_terms FROM w "
        + one_row("chunks", "n", "n.key = w.key"),
        {"key": np.int64, "id": object, "terms": object, "fact_terms": object},
    ),
    "v": (f"SELECT n.key, n.vector FROM w {one_row('chunk_vectors', 'n', 'n.key = w.key')}", _VECTOR),
    "f": (_rows_in("w", "facts", f"key >= w.key << {FACT_BITS} AND key < (w.key + 1) << {FACT_BITS}", _FACT), _FACT),
}
_CHUNK_GRAPH: Statement = {
    "d": (
        f"SELECT n.chunk, n.degree, n.total FROM w {one_row('chunk_nodes', 'n', 'n.chunk = w.key')}",
        {"chunk": np.int64, "degree": np.int64, "total": np.int64},
    ),
    "e": (_rows_in("w", "chunk_entities", "chunk = w.key", _CHUNK_EDGE), _CHUNK_EDGE),
    "n": _entities_of("e"),
    "u": _names_of("SELECT DISTINCT entity FROM e WHERE weight > 1"),
    "k": _CLAIMS,
}
_FACT_TABLES: Statement = {
    **_GIVEN,
    "f": (f"SELECT n.key, n.weight, n.statement FROM w {one_row('facts', 'n', 'n.key = w.key')}", _FACT),
    "c": (
        f"SELECT n.key, n.id FROM (SELECT DISTINCT key >> {FACT_BITS} AS key FROM w) t "
        + one_row("chunks", "n", "n.key = t.key"),
        {"key": np.int64, "id": object},
    ),
    "v": (f"SELECT n.key, n.vector FROM w {one_row('fact_vectors', 'n', 'n.key = w.key')}", _VECTOR),
}
_FACT_GRAPH: Statement = {
    "x": (_rows_in("w", "fact_entities", "fact = w.key", _FACT_EDGE), _FACT_EDGE),
    "n": _entities_of("x"),
}
_NAME_TABLES: Statement = {**_GIVEN, "u": _names_of("SELECT key AS entity FROM w"), "k": _CLAIMS}
_SPELLING_TABLES: Statement = {
    **_GIVEN,
    "s": (
        f"SELECT n.number, n.entity FROM w {one_row('spellings', 'n', 'n.number = w.key AND n.entity IS NOT NULL')}",
        {"number": np.int64, "entity": np.int64},
    ),
    "u": _names_of("SELECT DISTINCT entity FROM s"),
    "k": _CLAIMS,
}


def _facts_of(limited: bool) -> Statement:
    """Return the facts of entities, and what is read of facts."""
    own = "ORDER BY fact LIMIT %(limit)s" if limited else "OFFSET 0"
    return {
        **_GIVEN,
        "o": (_rows_in("w", "fact_entities", "entity = w.key", _FACT_EDGE, own), _FACT_EDGE),
        "d": ("SELECT DISTINCT fact AS key FROM o ORDER BY 1", {}),
        "f": (f"SELECT n.key, n.weight, n.statement FROM d {one_row('facts', 'n', 'n.key = d.key')}", _FACT),
        "x": (_rows_in("d", "fact_entities", "fact = d.key", _FACT_EDGE), _FACT_EDGE),
    }


class Transaction(PostgresTables):
    """A transaction that sees one generation of an index, restricted to a scope.

    ``state`` has the generation, the counts of chunks and facts, the lengths of all texts in tokens, the number of
    deleted chunks in postings, whether there are vectors of chunks, facts and names, the share of chunks that lead to
    others, and whether the graph was made without edits, merged names and explicit edges.
    """

    unknown_keys: tuple[str, ...] = ()
    """The keys of the scope's filter that no document has."""

    def __init__(self, database: Database, connection: Connection, index: int, state: Row | None) -> None:
        super().__init__(index, self._run)
        if state is None:
            raise DatabaseError(f"{database.shown}: the index was deleted from the database: open it again")
        self.database = database
        self.connection = connection
        self.generation, self.statistics_count, self.fact_count, self.lengths, self.has_dead = state[:5]
        self.has_vectors: dict[str, bool] = dict(zip(VECTORS, state[5:8], strict=True))
        self.linked_share, self.is_plain = state[8:]
        self.dead = _NONE
        self.restrict(EVERYTHING)

    def restrict(self, scope: Scope) -> None:
        """See the chunks of a scope only."""
        self.scope = scope
        self.chunk_count = self.statistics_count if scope.inside is None else len(scope.inside)
        if len(scope.hidden):
            inside = scope.inside
            self.chunk_count -= len(scope.hidden) if inside is None else int(among(scope.hidden, inside).sum())
        self.see(Seen(self.chunk_count))

    def see(self, seen: Seen) -> None:
        """Use what was read of this generation and this scope, and add to it."""
        self.seen = seen
        self._names = seen.name_rows

    @property
    def numbering(self) -> Numbering:
        """The numbers of nodes."""
        return self.seen.numbering

    def _run(self, sql: str, parameters: Any) -> list[Row]:
        with self.cursor() as cursor:
            return cursor.execute(sql, parameters).fetchall()

    def columns(self, sql: str, *types: npt.DTypeLike, **parameters: Any) -> tuple[Any, ...]:
        """Return the columns of a statement's rows as arrays. ``%(index)s`` is the index."""
        row = self._one_row(_as_arrays(sql, types), parameters)
        return tuple(_received(data, np.dtype(kind)) for data, kind in zip(row, types, strict=True))

    def arrays(
        self, tables: str, columns: Mapping[str, Mapping[str, npt.DTypeLike | None]], **parameters: Any
    ) -> dict[str, dict[str, Any]]:
        """Return columns of several tables of one ``WITH``: numbers as arrays, vectors (None) and others as lists."""
        chosen = [(own, column, kind) for own, of in columns.items() for column, kind in of.items()]
        own_rows = (
            f"(SELECT {', '.join(_aggregated(column, kind) for column, kind in of.items())} FROM {own}) AS {own}_"
            for own, of in columns.items()
        )
        row = self._one_row(f"WITH {tables} SELECT * FROM {', '.join(own_rows)}", parameters)
        found: dict[str, dict[str, Any]] = {own: {} for own in columns}
        for (own, column, kind), data in zip(chosen, row, strict=True):
            found[own][column] = _array(data, kind)
        return found

    def see_chunks(self, keys: Keys) -> None:
        """Read what questions ask about chunks, given by key, in one statement, unless it was read."""
        seen, numbering = self.seen, self.numbering
        missing = np.array([key for key in distinct(keys).tolist() if key not in seen.facts_in], np.int64)
        if len(missing) == 0:
            return
        has_graph = self.scope.is_everything
        found = self.read({**_CHUNK_TABLES, **(_CHUNK_GRAPH if has_graph else {})}, keys=missing)
        chunks, vectors, facts = found["c"], found["v"], found["f"]
        ids, terms = chunks["id"], zip(chunks["terms"], chunks["fact_terms"], strict=True)
        seen.ids.update(zip(chunks["key"].tolist(), ids, strict=True))
        seen.terms.update(zip(chunks["key"].tolist(), terms, strict=True))
        seen.vectors.update(zip(vectors["key"].tolist(), vectors["vector"], strict=True))
        self._keep_facts(facts)
        if has_graph:
            self._keep_names(found["u"], found["k"])
            seen.keep_entities(*found["n"].values())
            nodes, edges = found["d"], found["e"]
            numbers = numbering.of_chunks(nodes["chunk"])
            seen.degrees.set(numbers, nodes["degree"])
            order = np.lexsort((edges["entity"], edges["chunk"]))
            own, entities, weights = (column[order] for column in edges.values())
            starts, ends = own.searchsorted(nodes["chunk"]), own.searchsorted(nodes["chunk"], "right")
            entities, weights = numbering.of_entities(entities), weights.astype(np.float32)
            totals = nodes["total"].astype(np.float32)
            for number, start, end, total in zip(numbers.tolist(), starts.tolist(), ends.tolist(), totals, strict=True):
                seen.chunk_edges[number] = entities[start:end], weights[start:end], total
            seen.edge_count += len(own)
        of_chunk = np.sort(facts["key"])
        first, last = (of_chunk.searchsorted(key << FACT_BITS) for key in (missing, missing + 1))
        for key, start, end in zip(missing.tolist(), first.tolist(), last.tolist(), strict=True):
            seen.facts_in[key] = of_chunk[start:end]

    def see_facts(self, facts: Keys) -> None:
        """Read what questions ask about facts in one statement, unless it was read."""
        seen = self.seen
        missing = np.array([fact for fact in distinct(facts).tolist() if fact not in seen.fact_vectors], np.int64)
        if len(missing) == 0:
            return
        has_graph = self.scope.is_everything
        found = self.read({**_FACT_TABLES, **(_FACT_GRAPH if has_graph else {})}, keys=missing)
        self._keep_facts(found["f"])
        seen.ids.update(zip(found["c"]["key"].tolist(), found["c"]["id"], strict=True))
        if has_graph:
            self.keep_fact_entities(missing, *found["x"].values())
            seen.keep_entities(*found["n"].values())
        vectors = dict.fromkeys(missing.tolist(), np.empty(0, np.float32))
        vectors.update(zip(found["v"]["key"].tolist(), found["v"]["vector"], strict=True))
        seen.fact_vectors.update(vectors)

    def see_facts_of(self, entities: Keys, limit: int | None) -> tuple[Keys, Keys]:
        """Return the facts of entities, given by key, with the entity; all or some of each. They are read with it."""
        found = self.read(_facts_of(limit is not None), keys=distinct(entities), limit=limit)
        self._keep_facts(found["f"])
        self.keep_fact_entities(found["f"]["key"], *found["x"].values())
        return found["o"]["entity"], found["o"]["fact"]

    def see_spellings(self, spellings: Sequence[int]) -> None:
        """Read the entities of spellings, and the names of these, in one statement, unless they were read."""
        known = self.seen.spelt
        if missing := [number for number in spellings if number not in known]:
            found = self.read(_SPELLING_TABLES, keys=np.array(missing, np.int64))
            self._keep_names(found["u"], found["k"])
            entities = dict.fromkeys(missing, -1)
            numbers = self.numbering.of_entities(found["s"]["entity"]).tolist()
            entities.update(zip(found["s"]["number"].tolist(), numbers, strict=True))
            known.update(entities)

    def see_names(self, entities: Keys) -> None:
        """Read the names of entities, given by number, in one statement, unless they were read."""
        missing = np.array([one for one in distinct(entities).tolist() if one not in self.seen.names], np.int64)
        if len(missing) == 0:
            return
        found = self.read(_NAME_TABLES, keys=self.numbering.entities(missing))
        self._keep_names(found["u"], found["k"])
        for entity in missing.tolist():
            self.seen.names.setdefault(entity, _NONE)

    def read(self, tables: Statement, **parameters: Any) -> dict[str, dict[str, Any]]:
        """Return the columns of several tables, each of which may use those before it, in one statement.

        Numbers are arrays; vectors (None), arrays as the server sends them (bytes) and others are lists.
        """
        sql = ", ".join(f"{name} AS MATERIALIZED ({own})" for name, (own, _) in tables.items())
        columns = {name: columns for name, (_, columns) in tables.items() if columns}
        return self.arrays(sql, columns, **parameters)

    def keep_fact_entities(self, facts: Keys, owners: Keys, entities: Keys) -> None:
        """Keep the entities of facts, given by key."""
        order = np.lexsort((entities, owners))
        owners, numbers = owners[order], self.numbering.of_entities(entities[order])
        first, last = owners.searchsorted(facts), owners.searchsorted(facts, "right")
        for fact, start, end in zip(facts.tolist(), first.tolist(), last.tolist(), strict=True):
            self.seen.fact_entities[fact] = numbers[start:end]

    def _keep_facts(self, rows: Mapping[str, Any]) -> None:
        columns = zip(rows["weight"].tolist(), rows["statement"].tolist(), strict=True)
        self.seen.columns.update(zip(rows["key"].tolist(), columns, strict=True))

    def _keep_names(self, rows: Mapping[str, Any], claimed: Mapping[str, Any]) -> None:
        names, known, claims = rows["name"].tolist(), self.seen.name_rows, dict[int, list[tuple[int, str, str]]]()
        claims.update((name, []) for name in names)
        for claim in zip(claimed["name"].tolist(), claimed["type"], claimed["description"], strict=True):
            claims[claim[0]].append(claim)
        self.seen.claims.update(claims)
        for name, surface, spelling in zip(names, rows["surface"], rows["spelling"].tolist(), strict=True):
            if name not in known:
                known[name] = Name(surface, normalise(surface), spelling)
        order = np.lexsort((rows["name"], rows["entity"]))
        owners, names = self.numbering.of_entities(rows["entity"][order]), rows["name"][order]
        self.seen.names.update((entity, names[start:end]) for entity, start, end in groups(owners))

    def _one_row(self, sql: str, parameters: dict[str, Any]) -> Row:
        """Return the only row of a statement. The driver would read a long text again each time."""
        parameters["index"] = self.index
        sent, names = _numbered(sql)
        try:
            with RawCursor(self.connection) as cursor:
                (row,) = cursor.execute(sent, [parameters[name] for name in names], binary=True).fetchall()
        except DriverError as error:
            raise self.database.translated(error) from error
        return row

    @contextmanager
    def cursor(self) -> Iterator[Cursor]:
        """Yield a cursor of the transaction. Errors of the driver are raised as those of this library."""
        try:
            with self.connection.cursor(binary=True) as cursor:
                yield cursor
        except DriverError as error:
            raise self.database.translated(error) from error

    def rows_unsorted(self, settings: Mapping[str, str], sql: str, parameters: Mapping[str, Any]) -> list[Row]:
        """Return the rows of a vector search. ``settings`` are those of an approximate index; empty: search exactly.

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


def columns(
    rows: Callable[..., Sequence[Sequence[Any]]], sql: str, parameters: Any, *types: npt.DTypeLike
) -> tuple[Any, ...]:
    """Return the columns of a query's rows, none of which is null, as arrays: numbers and truth values.

    They come as one row of arrays in binary form, so that Python does not see the single values.

    Parameters
    ----------
    rows
        Executes a statement with parameters and returns the rows.
    """
    (row,) = rows(_as_arrays(sql, types), parameters)
    return tuple(_received(data, np.dtype(kind)) for data, kind in zip(row, types, strict=True))


def _as_arrays(sql: str, types: Sequence[npt.DTypeLike]) -> str:
    names = [f"c{at}" for at in range(len(types))]
    chosen = ", ".join(
        f"array_send(array_agg({name}::{_sent(kind)[0]}))" for name, kind in zip(names, types, strict=True)
    )
    return f"SELECT {chosen} FROM ({sql}) AS t({', '.join(names)})"


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
    if kind is object or kind is bytes:
        return f"array_agg({column if kind is object else f'array_send({column})'})"
    return f"array_send(array_agg({column if kind is None else f'{column}::{_sent(kind)[0]}'}))"


def _array(data: Any, kind: npt.DTypeLike | None) -> Any:
    if kind is object or kind is bytes:
        return data or []
    if kind is not None:
        return _received(data, np.dtype(kind))
    if data is None:
        return []
    dim = int.from_bytes(data[24:26], "big")
    layout = np.dtype([("size", ">i4"), ("dim", ">i2"), ("unused", ">i2"), ("vector", ">f2", (dim,))])
    return list(np.frombuffer(data, layout, offset=20)["vector"].astype(np.float32))


def _received(data: bytes | None, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return the values of an array that ``array_send`` wrote: 20 bytes, then the size and the value of each."""
    if data is None:
        return np.empty(0, kind)
    layout = np.dtype([("size", ">i4"), ("value", _sent(kind)[1])])
    return np.frombuffer(data, layout, offset=20)["value"].astype(kind)
