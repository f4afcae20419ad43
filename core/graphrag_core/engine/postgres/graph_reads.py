"""The edges of an index in PostgreSQL: of all chunks from the derived tables, in a scope from the uses of spellings.

Keys of chunks and hashes of spellings become numbers here, see
:class:`~graphrag_core.engine.postgres.reads.Numbering`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.graph.change import NONE
from graphrag_core.engine.graph.edits import GraphEdits, Shown, edited
from graphrag_core.engine.graph.sparse import Flags, Pairs
from graphrag_core.engine.postgres.reads import Transaction, one_row, rows_of
from graphrag_core.engine.postgres.seen import Edges, groups
from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Adjacency, Keys, Kind, Scores

PUSH_ROUNDS, PUSH_DEGREE = 8, 5_000
"""How often a walk may ask for edges, and the number of edges of one node that it gets, the strongest."""

_WALK_HOPS = 2  # of a walk that one statement goes ahead
_AHEAD = 0.7  # of the mass with which a node goes on: from which on its edges are read ahead of time
_NO_EDGES = NONE, np.empty(0, np.float32), np.float32(0)


_OF_CHUNK, _TO_CHUNK, _LINK, _TARGET, _CHUNK, _ENTITY, _PUSHED_CHUNK, _PUSHED_ENTITY = range(8)  # kinds of rows


@cache
def _edges_sql(to: Kind | None, limit: int | None, hops: int = 0) -> str:
    """Return a statement for the edges of nodes, and of those that forward push reaches from them in some hops.

    Its rows are a kind, a key, another number and a value: for an edge the node, the target and the weight; for a node
    its degree and its total weight. Without hops there is a row for each entity that an edge leads to, with the number
    of its chunks and whether it is a subject. With hops there is a row for each node that has more than the least mass,
    even if its degree is too large to push it. Only nodes with more edges than the limit sort them.
    """
    kinds = [
        (_OF_CHUNK, "chunks", "entity", "chunk_entities", "chunk", "degree"),
        (_TO_CHUNK, "entities", "chunk", "chunk_entities", "entity", "chunks"),
        (_LINK, "entities", "other", "links", "entity", "links"),
    ]
    if to is not None:
        kinds = [one for one in kinds if (one[0] == _TO_CHUNK) == (to == "chunks")]

    def edges(hop: int) -> str:
        parts = []
        for kind, nodes, target, table, column, size in kinds:
            few = "" if limit is None else f" AND w.{size} <= %(limit)s"
            strongest = f"ORDER BY weight DESC, {target} LIMIT %(limit)s"
            parts += [
                f"SELECT {kind}, w.key, x.* FROM {nodes}_{hop} w CROSS JOIN LATERAL (SELECT {target}, "
                f"weight::double precision, w.rate * weight FROM {table} WHERE index = %(index)s AND {column} = w.key "
                f"{own}) x WHERE w.is_pushed{which}"
                for own, which in (("OFFSET 0", few), (strongest, f" AND w.{size} > %(limit)s"))[
                    : 1 + (limit is not None)
                ]
            ]
        return f"edges_{hop}(kind, key, target, weight, flow) AS MATERIALIZED ({' UNION ALL '.join(parts)})"

    def nodes(hop: int, name: str, given: str, is_pushed: str) -> str:
        """Return the nodes whose keys and masses are given, and the mass that each unit of weight takes along."""
        table, key, degree, sizes, total = _NODES[name]
        return (
            f"{name}_{hop}(key, total, degree, {sizes}rate, is_pushed) AS MATERIALIZED (SELECT n.{key}, {total}, "
            f"{degree}, {sizes}%(damping)s * t.mass / greatest({total}, 1e-12), {is_pushed.format(degree)} "
            f"FROM {given} t {one_row(table, 'n', f'n.{key} = t.key')})"
        )

    given = "unnest(%({0})s::bigint[], %({0}_mass)s::double precision[]) AS t(key, mass)"
    is_pushed = "t.mass > %(first)s * {}" if hops else "true"
    found = [nodes(0, name, f"(SELECT * FROM {given.format(name)})", is_pushed) for name in _NODES] + [edges(0)]
    for hop in range(1, hops + 2 if hops else 1):
        for name in _NODES:
            pushed = " UNION ALL ".join(f"SELECT key FROM {name}_{at} WHERE is_pushed" for at in range(hop))
            reached = (
                f"(SELECT target AS key, sum(flow) AS mass FROM edges_{hop - 1} WHERE target NOT IN ({pushed}) "
                f"AND kind {'=' if name == 'chunks' else '<>'} {_TO_CHUNK} GROUP BY 1 HAVING sum(flow) > %(least)s)"
            )
            found.append(nodes(hop, name, reached, "t.mass > %(least)s * {}" if hop <= hops else "false"))
        found += [edges(hop)] if hop <= hops else []
    rows = [f"SELECT kind, key, target, weight FROM edges_{hop}" for hop in range(hops + 1)]
    for name, kind, pushed_kind in (("chunks", _CHUNK, _PUSHED_CHUNK), ("entities", _ENTITY, _PUSHED_ENTITY)):
        rows += [
            f"SELECT CASE WHEN is_pushed THEN {pushed_kind} ELSE {kind} END, key, degree, total FROM {name}_{hop}"
            for hop in range(hops + 2 if hops else 1)
        ]
    if not hops:
        targets = f"(SELECT DISTINCT target AS key FROM edges_0 WHERE kind <> {_TO_CHUNK})"
        entity = one_row("entities", "n", "n.number = t.key")
        rows.append(f"SELECT {_TARGET}, n.number, n.chunks, (n.subjects > 0)::int FROM {targets} t {entity}")
    return f"WITH {', '.join(found)} {' UNION ALL '.join(rows)}"


_NODES = {
    "chunks": ("chunk_nodes", "chunk", "n.degree", "", "n.total::double precision"),
    "entities": (
        "entities",
        "number",
        "(n.chunks + n.links)",
        "chunks, links, ",
        "(n.chunks + 5 * n.subjects + n.link_total)",
    ),
}
"""The tables of nodes: name, key, number of edges, columns with the number of edges of each kind, total weight."""


class TableGraph:
    """The graph of all chunks: see :class:`~graphrag_core.engine.graph.snapshot.GraphReads`."""

    def __init__(self, transaction: Transaction, linked_share: float, edits: GraphEdits, *, has_edits: bool) -> None:
        self._transaction = transaction
        self._numbering = transaction.numbering
        self._edits = edits
        self.linked_share = linked_share
        self.has_edits = has_edits
        self.first_entity = transaction.numbering.first_entity
        self._seen = seen = transaction.seen
        self._spelt, self._counts, self._addresses = seen.spelt, seen.counts, seen.addresses
        self._facts, self._degrees = seen.fact_entities, seen.degrees
        self._rounds = PUSH_ROUNDS
        self._pushing = (0.0, 0.0)  # the damping and the least mass of the last walk

    def _columns(self, sql: str, *types: npt.DTypeLike, **parameters: Any) -> tuple[Any, ...]:
        return self._transaction.columns(sql, *types, **parameters)

    @property
    def node_limit(self) -> int:
        return self._numbering.node_limit

    @cached_property
    def edits(self) -> tuple[Mapping[int, Shown], Mapping[int, int]]:
        return edited(self._edits, self.find)

    def hidden(self, facts: Keys) -> Flags:
        if not self.has_edits or len(facts) == 0:
            return np.zeros(len(facts), np.bool_)
        (found,) = self._columns(
            "SELECT fact FROM hidden_facts WHERE index = %(index)s AND fact = ANY(%(facts)s)", np.int64, facts=facts
        )
        return np.isin(facts, found)

    # -- names

    def find(self, spellings: Sequence[int]) -> dict[int, int]:
        if missing := [number for number in spellings if number not in self._spelt]:
            number, entity = self._columns(
                "SELECT number, entity FROM spellings WHERE index = %(index)s AND number = ANY(%(spellings)s) "
                "AND entity IS NOT NULL",
                np.int64, np.int64, spellings=np.array(missing, np.int64),
            )  # fmt: skip
            found = dict.fromkeys(missing, -1)
            found.update(zip(number.tolist(), self._numbering.of_entities(entity).tolist(), strict=True))
            self._spelt.update(found)
        return {number: self._spelt[number] for number in spellings if self._spelt[number] >= 0}

    def of_names(self, names: Keys) -> Keys:
        found = np.full(len(names), -1, np.int64)
        if len(names) == 0:
            return found
        name, entity, address = self._columns(
            "SELECT n.key, s.entity, e.is_address FROM names n "
            f"{one_row('name_uses', 'u', 'u.spelling = n.spelling AND u.name = n.key')} "
            f"{one_row('spellings', 's', 's.number = n.spelling')} {one_row('entities', 'e', 'e.number = s.entity')} "
            "WHERE n.index = %(index)s AND n.key = ANY(%(names)s) AND u.named > 0 ORDER BY n.key",
            np.int64, np.int64, np.bool_, names=names,
        )  # fmt: skip
        entity = self._numbering.of_entities(entity)
        self._addresses.update(zip(entity.tolist(), address.tolist(), strict=True))
        known = among(names, name)
        found[known] = entity[np.searchsorted(name, names[known])]
        return found

    def names(self, entities: Keys) -> Pairs:
        self._transaction.see_names(entities)
        return _joined([self._seen.names[entity] for entity in entities.tolist()])

    def uses(self, names: Keys) -> Keys:
        key, uses = self._columns(
            "SELECT key, uses FROM names WHERE index = %(index)s AND key = ANY(%(names)s) ORDER BY key",
            np.int64, np.int64, names=distinct(names),
        )  # fmt: skip
        found: Keys = uses[np.searchsorted(key, names)]
        return found

    def ids(self, entities: Keys) -> Keys:
        return self._numbering.entities(entities)

    def are_addresses(self, entities: Keys) -> Flags:
        self._read_entities([one for one in entities.tolist() if one not in self._addresses])
        return np.array([self._addresses[one] for one in entities.tolist()], np.bool_)

    def counts(self, entities: Keys) -> tuple[Keys, Flags]:
        self._read_entities([one for one in entities.tolist() if one not in self._counts])
        found = [self._counts[one] for one in entities.tolist()]
        return np.array([count for count, _ in found], np.int64), np.array([about for _, about in found], np.bool_)

    def _read_entities(self, missing: Sequence[int]) -> None:
        if missing:
            self._seen.keep_entities(*self._columns(
                "SELECT number, chunks, subjects > 0, is_address, chunks + links FROM entities "
                "WHERE index = %(index)s AND number = ANY(%(entities)s)",
                np.int64, np.int64, np.bool_, np.bool_, np.int64,
                entities=distinct(self._numbering.entities(np.array(missing, np.int64))),
            ))  # fmt: skip

    # -- chunks and facts

    def subjects(self, chunks: Keys) -> Pairs:
        rows = self._edges_of_chunks(chunks)
        return _joined([targets[weights > 1] for targets, weights, _ in rows])

    def about(self, entities: Keys) -> Pairs:
        entity, chunk = self._columns(
            "SELECT entity, chunk FROM chunk_entities WHERE index = %(index)s AND entity = ANY(%(entities)s) "
            "AND weight > 1 ORDER BY chunk",
            np.int64, np.int64, entities=self._numbering.entities(entities),
        )  # fmt: skip
        found = _grouped(entities.tolist(), self._numbering.of_entities(entity), self._numbering.of_chunks(chunk))
        return _joined([found[one] for one in entities.tolist()])

    def entities_of(self, facts: Keys) -> Pairs:
        if missing := [fact for fact in dict.fromkeys(facts.tolist()) if fact not in self._facts]:
            fact, entity = self._columns(
                f"SELECT x.fact, x.entity FROM {rows_of('fact_entities', 'x', 'fact', 'facts')}",
                np.int64, np.int64, facts=np.array(missing, np.int64),
            )  # fmt: skip
            self._transaction.keep_fact_entities(np.array(missing, np.int64), fact, entity)
        return _joined([self._facts[fact] for fact in facts.tolist()])

    def facts_of(self, entities: Keys, limit: int | None = None) -> Pairs:
        known = self._seen.facts_of if limit is None else {}
        if missing := [entity for entity in dict.fromkeys(entities.tolist()) if entity not in known]:
            keys = self._numbering.entities(np.array(missing, np.int64))
            owners, facts = self._transaction.see_facts_of(keys, limit)
            order = np.lexsort((facts, owners))
            known.update(_grouped(missing, self._numbering.of_entities(owners[order]), facts[order]))
        return _joined([known[entity] for entity in entities.tolist()])

    def joint_facts(self, entities: Keys, limit: int | None = None) -> Keys:
        wanted = distinct(self._numbering.entities(entities))
        (facts,) = self._columns(
            "SELECT a.fact FROM fact_entities a WHERE a.index = %(index)s AND a.entity = ("
            "SELECT number FROM entities WHERE index = %(index)s AND number = ANY(%(entities)s) "
            "ORDER BY chunks, number LIMIT 1) AND (SELECT count(*) FROM fact_entities b WHERE b.index = a.index "
            "AND b.fact = a.fact AND b.entity = ANY(%(entities)s)) = %(count)s ORDER BY a.fact LIMIT %(limit)s",
            np.int64, entities=wanted, count=len(wanted), limit=limit,
        )  # fmt: skip
        return facts  # type: ignore[no-any-return]

    def top(self, count: int) -> Keys:
        (found,) = self._columns(
            "SELECT number FROM entities WHERE index = %(index)s AND NOT is_address ORDER BY chunks DESC, number "
            "LIMIT %(count)s",
            np.int64, count=min(count, 1 << 62),
        )  # fmt: skip
        return self._numbering.of_entities(found)

    # -- edges

    def edges(self, nodes: Keys, to: Kind | None = None, limit: int | None = None) -> Adjacency:
        if limit is None and to != "chunks" and len(nodes) and nodes.max() < self.first_entity:
            return _adjacency(self._edges_of_chunks(nodes))
        rows = self._read_edges(nodes, np.zeros(len(nodes)), _edges_sql(to, limit), limit)
        return _adjacency([rows.get(node, _NO_EDGES) for node in nodes.tolist()])

    def _edges_of_chunks(self, chunks: Keys) -> list[Edges]:
        self._transaction.see_chunks(self._numbering.chunks(chunks))
        return [self._seen.chunk_edges.get(chunk, _NO_EDGES) for chunk in chunks.tolist()]

    def walk(self, nodes: Keys, masses: npt.NDArray[np.float64], damping: float, least: float) -> Adjacency:
        """Return the edges of nodes. Those that the walk is likely to reach are read with them, a few times."""
        self._pushing = damping, least
        self._walk(nodes, masses, 0.0)
        return _adjacency([self._seen.walked.get(node, _NO_EDGES) for node in nodes.tolist()])

    def degrees(self, nodes: Keys, most: npt.NDArray[np.float64] | None = None) -> Scores:
        """Return the number of neighbours of each node. Edges of those with fewer than ``most`` are read with them."""
        least = self._pushing[1]
        if most is not None and least > 0:
            few = self._degrees.of(nodes) < most
            self._walk(nodes[few], (most[few] - 1) * least, least)
        found = self._degrees.of(nodes)
        if len(found) == 0 or found.min() >= 0:
            return found
        missing = nodes[found < 0].tolist()
        self._read_entities([node for node in missing if node >= self.first_entity])
        if chunks := [node for node in missing if node < self.first_entity]:
            chunk, degree = self._columns(
                "SELECT chunk, degree FROM chunk_nodes WHERE index = %(index)s AND chunk = ANY(%(chunks)s)",
                np.int64, np.int64, chunks=self._numbering.chunks(np.array(chunks, np.int64)),
            )  # fmt: skip
            self._degrees.set(self._numbering.of_chunks(chunk), degree)
        return self._degrees.of(nodes)

    def _walk(self, nodes: Keys, masses: npt.NDArray[np.float64], least: float) -> None:
        """Read the edges of nodes whose mass is above ``least`` for each neighbour, and of those that follow."""
        missing = np.array([node not in self._seen.walked for node in nodes.tolist()], np.bool_)
        if missing.any() and self._rounds > 0:
            self._rounds -= 1
            damping, least_ahead = self._pushing[0], _AHEAD * self._pushing[1]
            sql = _edges_sql(None, PUSH_DEGREE, _WALK_HOPS)
            read = self._read_edges(
                nodes[missing], masses[missing], sql, PUSH_DEGREE, damping=damping, first=least, least=least_ahead
            )
            self._seen.walked.update(read)
            self._seen.edge_count += sum(len(targets) for targets, _, _ in read.values())

    def _read_edges(
        self,
        nodes: Keys,
        masses: npt.NDArray[np.float64],
        sql: str,
        limit: int | None = None,
        **settings: float,
    ) -> dict[int, Edges]:
        """Return targets, weights and total weight of the nodes of a statement of :func:`_edges_sql`, by number.

        What the statement says about the degrees of nodes and about targets is kept.
        """
        numbering, first = self._numbering, self.first_entity
        given: dict[str, Any] = {}
        for name, which, keys in (
            ("chunks", nodes < first, numbering.chunks),
            ("entities", nodes >= first, numbering.entities),
        ):
            own, place = np.unique(keys(nodes[which]), return_inverse=True)
            given |= {
                name: own,
                f"{name}_mass": np.bincount(place, masses[which], len(own)) if len(own) else np.empty(0),
            }
        kind, key, other, value = self._columns(
            sql, np.int16, np.int64, np.int64, np.float64, **given, limit=limit, **{"damping": 0.0, **settings}
        )
        numbers = np.empty(len(kind), np.int64)
        is_chunk = np.isin(kind, (_OF_CHUNK, _CHUNK, _PUSHED_CHUNK))
        numbers[is_chunk] = numbering.of_chunks(key[is_chunk])
        numbers[~is_chunk] = numbering.of_entities(key[~is_chunk])
        target = kind == _TARGET
        self._counts.update(
            zip(numbers[target].tolist(), zip(other[target].tolist(), value[target] > 0, strict=True), strict=True)
        )
        node, pushed = kind > _TARGET, kind > _ENTITY
        self._degrees.set(numbers[node], other[node])
        edge = kind < _TARGET
        owners, weights, to_chunk = numbers[edge], value[edge].astype(np.float32), kind[edge] == _TO_CHUNK
        ends, keys = np.empty(len(owners), np.int64), other[edge]
        ends[to_chunk], ends[~to_chunk] = numbering.of_chunks(keys[to_chunk]), numbering.of_entities(keys[~to_chunk])
        # Chunks first; of a node with too many edges, the strongest.
        order = np.lexsort((keys, ~to_chunk, owners) if limit is None else (keys, ~to_chunk, -value[edge], owners))
        rows = dict.fromkeys(numbers[pushed].tolist(), (NONE, _NO_EDGES[1]))
        targets, strengths = ends[order], weights[order]
        for owner, start, end in groups(owners[order]):
            last = end if limit is None else min(end, start + limit)
            rows[owner] = targets[start:last], strengths[start:last]
        totals = np.round(value[pushed], 6).astype(np.float32)
        return {one: (*rows[one], total) for one, total in zip(numbers[pushed].tolist(), totals, strict=True)}


def _grouped(keys: Sequence[int], owners: Keys, values: Keys) -> dict[int, Keys]:
    """Return for each key the values whose owner it is, in their order."""
    order = np.argsort(owners, kind="stable")
    values, found = values[order], dict.fromkeys(keys, NONE)
    found.update((owner, values[start:end]) for owner, start, end in groups(owners[order]))
    return found


def _joined(rows: Sequence[Keys]) -> Pairs:
    """Return how many values each row has, and all of them."""
    return np.array([len(row) for row in rows], np.int64), np.concatenate([NONE, *rows])


def _adjacency(rows: Sequence[tuple[Keys, Scores, np.float32]]) -> Adjacency:
    """Return the edges of nodes from targets, weights and total of each."""
    counts, targets = _joined([row[0] for row in rows])
    weights = np.concatenate([np.empty(0, np.float32), *(row[1] for row in rows)])
    return Adjacency(counts, targets, weights, np.array([row[2] for row in rows], np.float32))
