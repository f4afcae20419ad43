"""The graph of an index in PostgreSQL: which chunks mention which entities, and which facts hold them.

A round of a walk is one statement, restricted to the scope by a mask of chunks that is sent with it. Of a small scope
all rows are read at once, and it is walked in memory. Keys of chunks and ids of entities become numbers here, see
:class:`~graphrag_core.engine.postgres.cache.Numbering`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.graph.counters import MENTION, SUBJECT
from graphrag_core.engine.graph.memory import GraphRows, MemoryGraph
from graphrag_core.engine.graph.sparse import Flags, Pairs
from graphrag_core.engine.postgres.cache import Lists, Values
from graphrag_core.engine.postgres.reads import (
    GIVEN,
    IN_CHUNK,
    MENTION_COLUMNS,
    SEES,
    USES,
    Columns,
    Statement,
    Transaction,
    addresses_of,
    one_row,
    rows_in,
    rows_of,
)
from graphrag_core.engine.postgres.schema import FACT_BITS
from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Adjacency, Keys, Scores
from graphrag_core.text import EDGE, hash64

SMALL_SCOPE = 6_000
"""Chunks up to which a scope is read at once and walked in memory."""

PUSH_DEGREE = 5_000
"""The number of mentions of one node that a walk gets, the strongest."""

_EDGE = hash64(EDGE)
_UNLIMITED = 1 << 40
_NONE: Keys = np.empty(0, np.int64)
_FEW, _SCOPED = USES, f"{USES} AND {SEES.format('chunk')}"


@cache
def _round(in_scope: bool) -> Statement:
    """Return a statement for one round of a walk.

    ``e`` are the mentions of chunks, ``a`` the addresses among them that exist. ``n`` are entities with their counters,
    ``x`` the chunks of those that have fewer than ``most``: all, or the strongest. In a scope nothing is known of an
    entity before its chunks are read: there ``x`` has as many as decide.
    """
    count, read, limit, rows = "e.passages, e.subjects", " WHERE n.passages < n.most", f"{PUSH_DEGREE}", _FEW
    if in_scope:
        count, read, limit, rows = "0 AS passages, 0 AS subjects", "", f"least(n.most, {PUSH_DEGREE})", _SCOPED
    strongest = f"SELECT chunk, weight FROM mentions {rows.format('n.id')} ORDER BY weight DESC, chunk LIMIT {limit}"
    chunks = "unnest(%(chunks)s::bigint[]) w(key)"
    return {
        "e": (rows_in(chunks, "mentions", "chunk = w.key AND weight > 0", MENTION_COLUMNS), MENTION_COLUMNS),
        "a": addresses_of("e", in_scope),
        "n": (
            f"SELECT t.id, t.most, {count} FROM unnest(%(entities)s::bigint[], %(most)s::bigint[]) AS t(id, most) "
            + one_row("entities", "e", "e.id = t.id"),
            {"id": np.int64, "passages": np.int64, "subjects": np.int64},
        ),
        "x": (
            f"SELECT n.id, y.* FROM n CROSS JOIN LATERAL ({strongest}) y{read}",
            {"id": np.int64, "chunk": np.int64, "weight": np.int16},
        ),
    }


class TableGraph:
    """The graph of all chunks, or of those in a scope: see :class:`~graphrag_core.engine.store.StoreGraph`."""

    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction
        self._cache = transaction.cache
        self._numbering = transaction.cache.numbering
        self._in_scope = transaction.in_scope
        self.first_entity, self.has_edges = self._numbering.first_entity, transaction.has_edges

    @property
    def node_limit(self) -> int:
        return self._numbering.node_limit

    # -- entities

    def find(self, ids: Sequence[int]) -> dict[int, list[int]]:
        self._transaction.see_ids(ids)
        return {number: own for number in ids if (own := self._cache.found[number])}

    def ids(self, entities: Keys) -> Keys:
        return self._numbering.entities(entities)

    def are_addresses(self, entities: Keys) -> Flags:
        return self._known(self._cache.is_address, entities) > 0

    def counts(self, entities: Keys) -> tuple[Keys, Flags]:
        return self._known(self._cache.passages, entities).astype(np.int64), self._cache.is_subject.of(entities) > 0

    def passages(self, entities: Keys, most: int) -> Keys:  # noqa: ARG002 - counted when the index is written
        return self.counts(entities)[0]

    def _known(self, values: Values, entities: Keys) -> Scores:
        """Return values of entities; read what is not cached."""
        if len(missing := distinct(entities[values.of(entities) < 0])):
            self._transaction.see_entities(self._numbering.entities(missing))
        return values.of(entities)

    def names(self, entities: Keys) -> Pairs:
        if len(missing := self._cache.names.missing(entities)):
            self._transaction.see_entities(self._numbering.entities(missing))
        return self._cache.names.get(entities)

    def uses(self, names: Keys) -> Keys:
        rows = "(SELECT count(*) FROM mentions m WHERE m.index = %(index)s AND {} AND m.name = n.key "
        rows += f"AND {SEES.format('m.chunk')})"
        uses = f"{rows.format('m.entity = n.spelling')} + {rows.format('m.is_alias')}"
        key, found = self._transaction.columns(
            f"SELECT n.key, {uses if self._in_scope else 'n.uses'} FROM {rows_of('names', 'n', 'key', 'names')} "
            "ORDER BY n.key",
            np.int64, np.int64, names=distinct(names),
        )  # fmt: skip
        counts: Keys = found[np.searchsorted(key, names)]
        return counts

    def top(self, count: int) -> Keys:
        generic = self._transaction.generic
        sql = "SELECT id FROM entities WHERE index = %(index)s AND NOT is_address ORDER BY passages DESC, id"
        if self._in_scope:
            sql = (
                f"SELECT entity FROM mentions WHERE index = %(index)s AND weight > 0 AND NOT is_address AND "
                f"{SEES.format('chunk')} GROUP BY entity ORDER BY count(*) DESC, entity"
            )
        (found,) = self._transaction.columns(
            f"{sql} LIMIT %(count)s", np.int64, count=min(count + len(generic), 1 << 62)
        )
        return self._numbering.of_entities(found[~among(found, generic)][:count])

    # -- edges

    def walk(self, nodes: Keys) -> Adjacency:
        missing = self._cache.edges.missing(nodes)
        if len(missing) and missing[-1] < self.first_entity:
            self._transaction.see_mentions(missing)
        else:
            self._read(missing, None)
        return Adjacency(*self._cache.edges.gather(nodes))

    def degrees(self, nodes: Keys, most: npt.NDArray[np.float64] | None = None) -> Scores:
        """Return the degree of each node. The mentions of nodes with a degree below ``most`` are read, too."""
        known = self._cache.degrees.of(nodes)
        wanted = np.full(len(nodes), np.inf) if most is None else most
        few = known < wanted
        missing = self._cache.edges.missing(nodes[few])
        if len(missing):
            order = np.argsort(nodes[few])
            self._read(missing, np.ceil(wanted[few][order[nodes[few][order].searchsorted(missing)]]))
        return self._cache.degrees.of(nodes)  # again: another thread may have read them meanwhile

    def _read(self, nodes: Keys, most: npt.NDArray[np.float64] | None) -> None:
        """Read the mentions of nodes, which were not read yet, in ascending order. Degrees are kept.

        Of an entity with at least ``most``, none are read.
        """
        if len(nodes) == 0:
            return
        numbering, first = self._numbering, nodes.searchsorted(self.first_entity)
        chunks, entities = nodes[:first], nodes[first:]
        limits = np.full(len(entities), _UNLIMITED) if most is None else np.minimum(most[first:], _UNLIMITED)
        limits = limits.astype(np.int64)
        found = self._transaction.read(
            _round(self._in_scope), chunks=numbering.chunks(chunks), entities=numbering.entities(entities),
            most=limits,
        )  # fmt: skip
        rows = found["e"]
        gone = among(rows["entity"], self._transaction.generic)
        gone |= rows["is_address"] & ~among(rows["entity"], np.sort(found["a"]["entity"]))
        self._transaction.keep_mentions(chunks, {name: column[~gone] for name, column in rows.items()})

        ids, chunk, weight = found["x"].values()
        owner = numbering.of_entities(ids)
        order = np.lexsort((chunk, -weight, owner))
        owner, chunk, weight = owner[order], chunk[order], weight[order].astype(np.float32)
        counters = {name: np.zeros(len(entities), np.int64) for name in ("passages", "subjects")}
        known = entities.searchsorted(numbering.of_entities(found["n"]["id"]))
        at = entities.searchsorted(owner)
        for name, values in counters.items():
            values[known] = found["n"][name]
        if self._in_scope:
            counters = {
                "passages": np.bincount(at, minlength=len(entities)),
                "subjects": np.bincount(at, weight == SUBJECT, len(entities)).astype(np.int64),
            }
        self._cache.degrees.set(entities, counters["passages"])
        few = counters["passages"] < limits
        totals = (counters["passages"] * MENTION + counters["subjects"] * (SUBJECT - MENTION)).astype(np.float32)
        kept, place = few[at], few.cumsum() - 1
        self._cache.edges.add(
            entities[few], place[at[kept]], numbering.of_chunks(chunk[kept]), weight[kept], totals[few]
        )

    # -- facts

    def are_edges(self, facts: Keys) -> Flags:
        (found,) = self._transaction.columns(
            f"SELECT x.fact FROM {rows_of('fact_entities', 'x', 'fact', 'facts')} WHERE x.entity = %(edge)s",
            np.int64, facts=facts, edge=_EDGE,
        )  # fmt: skip
        return among(facts, np.sort(found))

    def are_triples(self, facts: Keys) -> Flags:
        (found,) = self._transaction.columns(
            f"SELECT f.key FROM {rows_of('facts', 'f', 'key', 'facts')} WHERE f.relation IS NOT NULL",
            np.int64, facts=facts,
        )  # fmt: skip
        return among(facts, np.sort(found))

    def every_edge(self) -> Keys:
        (facts,) = self._transaction.columns(
            "SELECT fact FROM fact_entities WHERE index = %(index)s AND entity = %(edge)s ORDER BY fact",
            np.int64, edge=_EDGE,
        )  # fmt: skip
        return facts[self._transaction.scope.sees(facts >> FACT_BITS)]  # type: ignore[no-any-return]

    def entities_of(self, facts: Keys) -> Pairs:
        self._transaction.see_fact_entities(facts)
        counts, entities = self._cache.fact_entities.get(facts)
        kept = self._known(self._cache.exists, entities) > 0
        owner = np.arange(len(facts)).repeat(counts)[kept]
        return np.bincount(owner, minlength=len(facts)), entities[kept]

    def facts_of(self, entities: Keys, limit: int | None = None) -> Pairs:
        known = self._cache.facts_of if limit is None else Lists()
        if len(missing := known.missing(entities)):
            found = self._transaction.see_facts_of(self._numbering.entities(missing), limit)
            owners, order = self._numbering.of_entities(found["entity"]), np.argsort(found["fact"])
            known.add(missing, owners[order], found["fact"][order])
        return known.get(entities)


_CHUNK: Columns = {"key": np.int64, "document": np.int64}
_MENTION: Columns = {"chunk": np.int64, "position": np.int64, "name": np.int64, "weight": np.int16}
_ALIAS: Columns = {"chunk": np.int64, "short": np.int64, "long": np.int64}
_SCOPE_ROWS: Statement = {
    **GIVEN,
    "c": (f"{rows_in('w', 'chunks', 'key = w.key', _CHUNK)} ORDER BY key", _CHUNK),
    "m": (rows_in("w", "mentions", "chunk = w.key", _MENTION), _MENTION),
    "s": (
        "SELECT n.key, n.spelling, n.is_address FROM (SELECT DISTINCT name FROM m) t "
        + one_row("names", "n", "n.key = t.name"),
        {"key": np.int64, "spelling": np.int64, "is_address": np.bool_},
    ),
    "f": (
        rows_in("w", "facts", IN_CHUNK, ("key", "weight", "names", "relation IS NOT NULL AS triple")),
        {"key": np.int64, "weight": np.float64, "triple": np.bool_},
    ),
    "h": (
        "SELECT f.key AS fact, u.name FROM f CROSS JOIN LATERAL unnest(f.names) WITH ORDINALITY u(name, position)",
        {"fact": np.int64, "name": np.int64},
    ),
    "a": (rows_in("w", "aliases", "chunk = w.key", _ALIAS), _ALIAS),
}
"""All rows of the chunks of a small scope."""


def read_scope(transaction: Transaction, chunks: Keys) -> MemoryGraph:
    """Read the graph of the chunks of a small scope."""
    graph = MemoryGraph()
    graph.add(_graph_rows(transaction.read(_SCOPE_ROWS, keys=chunks)))
    graph.hide(transaction.generic)  # decided from all documents
    return graph


def _graph_rows(found: dict[str, dict[str, Any]]) -> GraphRows:
    chunks, names, facts = found["c"], found["s"], found["f"]
    order = np.argsort(names["key"])
    key, spelling, is_address = (names[column][order] for column in ("key", "spelling", "is_address"))
    mentions = found["m"]
    order = np.lexsort((mentions["position"], mentions["chunk"]))
    chunk, name, weight = (mentions[column][order] for column in ("chunk", "name", "weight"))
    fact_order = np.argsort(facts["key"])
    fact = facts["key"][fact_order]
    held = found["h"]
    order = np.argsort(held["fact"], kind="stable")
    owner, holds = held["fact"][order], held["name"][order]
    named = among(holds, key)
    aliases = found["a"]
    both = among(aliases["short"], key) & among(aliases["long"], key)
    return GraphRows(
        chunks["key"], np.unique(chunks["document"], return_inverse=True)[1],
        np.zeros(len(chunks["key"]), np.uint32), key, spelling, is_address,
        (_NONE, np.empty(0, np.uint32)), (_NONE, _NONE),
        (chunks["key"].searchsorted(chunk), name, weight == SUBJECT),
        (
            fact, fact >> FACT_BITS, facts["weight"][fact_order].astype(np.float32), facts["triple"][fact_order],
            np.zeros(len(fact), np.uint32),
        ),
        (fact.searchsorted(owner[named]), holds[named]),
        (chunks["key"].searchsorted(aliases["chunk"][both]), aliases["short"][both], aliases["long"][both]),
    )  # fmt: skip
