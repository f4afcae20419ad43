"""The edges of an index in PostgreSQL: of all chunks from the derived tables, in a scope from the uses of spellings.

Keys of chunks and hashes of spellings become numbers here, see
:class:`~graphrag_core.engine.postgres.reads.Numbering`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.graph.change import NONE
from graphrag_core.engine.graph.edits import GraphEdits, Shown, edited
from graphrag_core.engine.graph.sparse import Flags, Pairs
from graphrag_core.engine.postgres.graph import one_row
from graphrag_core.engine.postgres.reads import Transaction
from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Adjacency, Keys, Kind, Scores

PUSH_ROUNDS, PUSH_DEGREE = 8, 5_000
"""How often a walk may ask for edges, and the number of edges of one node that it gets, the strongest."""

_WALK_HOPS = 2  # of a walk that one statement goes ahead
_AHEAD = 0.7  # of the mass with which a node goes on: from which on its edges are read ahead of time
_NO_EDGES = NONE, np.empty(0, np.float32), np.float32(0)


class _Edges(NamedTuple):
    """Edges of some nodes, one node after the other, by key.

    ``to_chunk`` says which targets are chunks; ``known`` are entities among them, how many chunks mention each, and
    whether it is a subject.
    """

    counts: Keys
    to_chunk: Flags
    targets: Keys
    weights: Scores
    totals: Scores
    degrees: Scores
    known: tuple[Keys, Keys, Flags]


_OF_CHUNK, _TO_CHUNK, _LINK, _ENTITY_TARGET, _CHUNK_TARGET, _CHUNK_NODE, _ENTITY_NODE = range(7)  # kinds of rows


@cache
def _edges_sql(to: Kind | None, limit: int | None, hops: int = 0) -> str:
    """Return a statement for the edges of nodes, and of those that forward push reaches from them in some hops.

    Its rows are a kind, a key, another number and a value: for an edge the node, the target and the weight; for a
    target its degree and what is known about it; for a node its total weight. A target is looked up once, however many
    edges lead to it. Only nodes with more edges than the limit sort them.
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
            few = "" if limit is None else f" WHERE w.{size} <= %(limit)s"
            many = f" WHERE w.{size} > %(limit)s"
            strongest = f"ORDER BY weight DESC, {target} LIMIT %(limit)s"
            parts += [
                f"SELECT {kind}, w.key, x.* FROM {nodes}_{hop} w CROSS JOIN LATERAL (SELECT {target}, "
                f"weight::double precision, w.rate * weight FROM {table} WHERE index = %(index)s AND {column} = w.key "
                f"{own}) x{which}"
                for own, which in (("OFFSET 0", few), (strongest, many))[: 1 if limit is None else 2]
            ]
        return " UNION ALL ".join(parts)

    of_chunk = "n.chunk, n.total::double precision, n.degree, {} / greatest(n.total, 1e-12)"
    of_entity = "n.number, {total}, n.chunks, n.links, {{}} / greatest({total}, 1e-12)".format(
        total="(n.chunks + 5 * n.subjects + n.link_total)"
    )
    chunk, entity = one_row("chunk_nodes", "n", "n.chunk = t.key"), one_row("entities", "n", "n.number = t.key")
    unnested = "unnest(%({0})s::bigint[], %({1})s::double precision[]) t(key, moved)"
    chunks = f"SELECT {of_chunk.format('t.moved')} FROM {unnested.format('chunks', 'chunk_moves')} {chunk}"
    entities = f"SELECT {of_entity.format('t.moved')} FROM {unnested.format('entities', 'entity_moves')} {entity}"
    found = [
        f"chunks_0(key, total, degree, rate) AS MATERIALIZED ({chunks})",
        f"entities_0(key, total, chunks, links, rate) AS MATERIALIZED ({entities})",
        f"edges_0(kind, key, target, weight, flow) AS MATERIALIZED ({edges(0)})",
    ]
    for hop in range(hops):
        rate, after = "%(damping)s * t.flow", hop + 1
        new = "".join(f" AND t.key NOT IN (SELECT key FROM {{0}}_{before})" for before in range(after))
        active = "WHERE {} t.is_entity AND t.flow > %(least)s AND t.flow > %(least)s * ({})"
        chosen_chunks = active.format("NOT", "n.degree") + new.format("chunks")
        chosen_entities = active.format("", "n.chunks + n.links") + new.format("entities")
        flows = f"SELECT kind <> {_TO_CHUNK}, target, sum(flow) FROM edges_{hop} GROUP BY 1, 2"
        chunks = f"SELECT {of_chunk.format(rate)} FROM reached_{hop} t {chunk} {chosen_chunks}"
        entities = f"SELECT {of_entity.format(rate)} FROM reached_{hop} t {entity} {chosen_entities}"
        found += [
            f"reached_{hop}(is_entity, key, flow) AS MATERIALIZED ({flows})",
            f"chunks_{after}(key, total, degree, rate) AS MATERIALIZED ({chunks})",
            f"entities_{after}(key, total, chunks, links, rate) AS MATERIALIZED ({entities})",
            f"edges_{after}(kind, key, target, weight, flow) AS MATERIALIZED ({edges(after)})",
        ]
    columns_of = {"edges": "kind, key, target, weight", "chunks": "key, total", "entities": "key, total"}
    every = {
        name: " UNION ALL ".join(f"SELECT {own} FROM {name}_{hop}" for hop in range(hops + 1))
        for name, own in columns_of.items()
    }
    return (
        f"WITH {', '.join(found)}, edges AS MATERIALIZED ({every['edges']}) SELECT * FROM edges "
        f"UNION ALL SELECT {_ENTITY_TARGET}, n.number, n.chunks + n.links, 2 * n.chunks + (n.subjects > 0)::int "
        f"FROM (SELECT DISTINCT target AS key FROM edges WHERE kind <> {_TO_CHUNK}) t {entity} "
        f"UNION ALL SELECT {_CHUNK_TARGET}, n.chunk, n.degree, 0 "
        f"FROM (SELECT DISTINCT target AS key FROM edges WHERE kind = {_TO_CHUNK}) t {chunk} "
        f"UNION ALL SELECT {_CHUNK_NODE}, key, 0, total FROM ({every['chunks']}) t "
        f"UNION ALL SELECT {_ENTITY_NODE}, key, 0, total FROM ({every['entities']}) t"
    )


class TableGraph:
    """The graph of all chunks: see :class:`~graphrag_core.engine.graph.snapshot.GraphReads`."""

    def __init__(self, transaction: Transaction, linked_share: float, edits: GraphEdits, *, has_edits: bool) -> None:
        self._transaction = transaction
        self._numbering = transaction.numbering
        self._edits = edits
        self.linked_share = linked_share
        self.has_edits = has_edits
        self.first_entity = transaction.numbering.first_entity
        # What was read so far: the stages of a query ask for the same again.
        self._spelt: dict[int, int] = {}  # the entities of spellings, -1 for none
        self._counts: dict[int, tuple[int, bool]] = {}  # of entities: chunks, and whether it is a subject
        self._addresses: dict[int, bool] = {}
        self._names: dict[int, Keys] = {}
        self._facts: dict[int, Keys] = {}  # the entities of facts
        self._degrees: dict[int, float] = {}
        self._chunk_edges: dict[int, tuple[Keys, Scores, np.float32]] = {}
        self._walked: dict[int, tuple[Keys, Scores, np.float32]] = {}
        self._rounds = PUSH_ROUNDS

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
            self._spelt.update(dict.fromkeys(missing, -1))
            self._spelt.update(zip(number.tolist(), self._numbering.of_entities(entity).tolist(), strict=True))
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
        if missing := [entity for entity in dict.fromkeys(entities.tolist()) if entity not in self._names]:
            numbers = np.array(missing, np.int64)
            entity, name = self._columns(
                "SELECT s.entity, u.name FROM spellings s CROSS JOIN LATERAL (SELECT name FROM name_uses "
                "WHERE index = %(index)s AND spelling = s.number AND named > 0 OFFSET 0) u "
                "WHERE s.index = %(index)s AND s.entity = ANY(%(entities)s) ORDER BY s.entity, u.name",
                np.int64, np.int64, entities=distinct(self._numbering.entities(numbers)),
            )  # fmt: skip
            self._names.update(_grouped(missing, self._numbering.of_entities(entity), name))
        return _joined([self._names[entity] for entity in entities.tolist()])

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
        if not missing:
            return
        number, chunks, subject, address, degree = self._columns(
            "SELECT number, chunks, subjects > 0, is_address, chunks + links FROM entities "
            "WHERE index = %(index)s AND number = ANY(%(entities)s)",
            np.int64, np.int64, np.bool_, np.bool_, np.float64,
            entities=distinct(self._numbering.entities(np.array(missing, np.int64))),
        )  # fmt: skip
        found = self._numbering.of_entities(number).tolist()
        self._counts.update(zip(found, zip(chunks.tolist(), subject.tolist(), strict=True), strict=True))
        self._addresses.update(zip(found, address.tolist(), strict=True))
        self._degrees.update(zip(found, degree.tolist(), strict=True))

    # -- chunks and facts

    def subjects(self, chunks: Keys) -> Pairs:
        at, entity = self._columns(
            "SELECT w.at - 1 AS at, x.entity FROM unnest(%(chunks)s::bigint[]) WITH ORDINALITY w(chunk, at) "
            "CROSS JOIN LATERAL (SELECT entity FROM chunk_entities WHERE index = %(index)s AND chunk = w.chunk "
            "AND weight > 1 OFFSET 0) x ORDER BY at, x.entity",
            np.int64, np.int64, chunks=self._numbering.chunks(chunks),
        )  # fmt: skip
        return np.bincount(at, minlength=len(chunks)), self._numbering.of_entities(entity)

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
                "SELECT w.fact, x.entity FROM unnest(%(facts)s::bigint[]) w(fact) CROSS JOIN LATERAL "
                "(SELECT entity FROM fact_entities WHERE index = %(index)s AND fact = w.fact OFFSET 0) x "
                "ORDER BY w.fact, x.entity",
                np.int64, np.int64, facts=np.array(missing, np.int64),
            )  # fmt: skip
            self._facts.update(_grouped(missing, fact, self._numbering.of_entities(entity)))
        return _joined([self._facts[fact] for fact in facts.tolist()])

    def facts_of(self, entities: Keys, limit: int | None = None) -> Pairs:
        own = "OFFSET 0" if limit is None else "ORDER BY fact LIMIT %(limit)s"
        at, fact = self._columns(
            "SELECT t.at - 1 AS at, f.fact FROM unnest(%(entities)s::bigint[]) WITH ORDINALITY t(entity, at) "
            "CROSS JOIN LATERAL (SELECT fact FROM fact_entities x WHERE x.index = %(index)s AND x.entity = t.entity "
            f"{own}) f ORDER BY at, f.fact",
            np.int64, np.int64, entities=self._numbering.entities(entities), limit=limit,
        )  # fmt: skip
        return np.bincount(at, minlength=len(entities)), fact

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
        keys, is_chunk = self._keys(nodes)
        if limit is not None or to == "chunks" or not is_chunk.all() or len(nodes) == 0:
            own, are_chunks, found = self._read_edges(keys, is_chunk, np.zeros(len(keys)), _edges_sql(to, limit), limit)
            rows = dict(self._rows(own, are_chunks, found))
            return _adjacency([rows.get(node, _NO_EDGES) for node in nodes.tolist()])
        if missing := [node for node in dict.fromkeys(nodes.tolist()) if node not in self._chunk_edges]:
            keys, is_chunk = self._keys(np.array(missing, np.int64))
            read = self._read_edges(keys, is_chunk, np.zeros(len(keys)), _edges_sql(None, None), None)
            self._chunk_edges.update(self._rows(*read))
        return _adjacency([self._chunk_edges.get(node, _NO_EDGES) for node in nodes.tolist()])

    def walk(self, nodes: Keys, masses: npt.NDArray[np.float64], damping: float, least: float) -> Adjacency:
        """Return the edges of nodes. Those that the walk is likely to reach are read with them, a few times."""
        missing = np.array([node not in self._walked for node in nodes.tolist()], np.bool_)
        if missing.any() and self._rounds > 0:
            self._rounds -= 1
            keys, is_chunk = self._keys(nodes[missing])
            sql = _edges_sql(None, PUSH_DEGREE, _WALK_HOPS)
            read = self._read_edges(
                keys, is_chunk, damping * masses[missing], sql, PUSH_DEGREE, damping=damping, least=_AHEAD * least
            )
            self._walked.update(self._rows(*read))
        return _adjacency([self._walked.get(node, _NO_EDGES) for node in nodes.tolist()])

    def degrees(self, nodes: Keys, most: npt.NDArray[np.float64] | None = None) -> Scores:  # noqa: ARG002
        missing = [node for node in nodes.tolist() if node not in self._degrees]
        self._read_entities([node for node in missing if node >= self.first_entity])
        if chunks := [node for node in missing if node < self.first_entity]:
            chunk, degree = self._columns(
                "SELECT chunk, degree FROM chunk_nodes WHERE index = %(index)s AND chunk = ANY(%(chunks)s)",
                np.int64, np.float64, chunks=self._numbering.chunks(np.array(chunks, np.int64)),
            )  # fmt: skip
            self._degrees.update(zip(self._numbering.of_chunks(chunk).tolist(), degree.tolist(), strict=True))
        return np.array([self._degrees[node] for node in nodes.tolist()], np.float32)

    def _keys(self, nodes: Keys) -> tuple[Keys, Flags]:
        """Return the keys of nodes, and which are chunks."""
        is_chunk = nodes < self.first_entity
        keys = np.empty(len(nodes), np.int64)
        keys[is_chunk] = self._numbering.chunks(nodes[is_chunk])
        keys[~is_chunk] = self._numbering.entities(nodes[~is_chunk])
        return keys, is_chunk

    def _numbers(self, keys: Keys, is_chunk: Flags) -> Keys:
        """Return the numbers of nodes, given by key."""
        nodes = np.empty(len(keys), np.int64)
        nodes[is_chunk] = self._numbering.of_chunks(keys[is_chunk])
        nodes[~is_chunk] = self._numbering.of_entities(keys[~is_chunk])
        return nodes

    def _rows(self, keys: Keys, is_chunk: Flags, edges: _Edges) -> list[tuple[int, tuple[Keys, Scores, np.float32]]]:
        """Return for each node its number, and targets, weights and total; what edges say about targets is kept."""
        if len(keys) == 0:
            return []
        number, chunks, subject = edges.known
        known = self._numbering.of_entities(number).tolist()
        self._counts.update(zip(known, zip(chunks.tolist(), subject.tolist(), strict=True), strict=True))
        targets = self._numbers(edges.targets, edges.to_chunk)
        self._degrees.update(zip(targets.tolist(), edges.degrees.tolist(), strict=True))
        ends = np.cumsum(edges.counts)[:-1]
        parts = zip(np.split(targets, ends), np.split(edges.weights, ends), edges.totals, strict=True)
        return list(zip(self._numbers(keys, is_chunk).tolist(), parts, strict=True))

    def _read_edges(
        self,
        nodes: Keys,
        is_chunk: Flags,
        moved: npt.NDArray[np.float64],
        sql: str,
        limit: int | None,
        **settings: float,
    ) -> tuple[Keys, Flags, _Edges]:
        """Return the nodes and edges of a statement of :func:`_edges_sql`: entities, then chunks, each once, by key."""
        given = [np.unique(nodes[which], return_inverse=True) for which in (is_chunk, ~is_chunk)]
        masses = [
            np.bincount(place, moved[which], len(own)) if len(own) else np.empty(0)
            for (own, place), which in zip(given, (is_chunk, ~is_chunk), strict=True)
        ]
        (chunks, _), (entities, _) = given
        kind, key, target, value = self._columns(
            sql, np.int16, np.int64, np.int64, np.float64, chunks=chunks, chunk_moves=masses[0], entities=entities,
            entity_moves=masses[1], limit=limit, **settings,
        )  # fmt: skip
        chunk, entity = (kind == _CHUNK_NODE), (kind == _ENTITY_NODE)
        entities, chunks = np.union1d(entities, key[entity]), np.union1d(chunks, key[chunk])
        first = len(entities)
        totals = np.zeros(first + len(chunks))
        totals[np.searchsorted(entities, key[entity])] = value[entity]
        totals[first + np.searchsorted(chunks, key[chunk])] = value[chunk]
        known = kind == _ENTITY_TARGET
        uses = value[known].astype(np.int64)
        edge = kind < _ENTITY_TARGET
        degrees = np.zeros(len(kind))
        for which, about in ((edge & (kind != _TO_CHUNK), known), (kind == _TO_CHUNK, kind == _CHUNK_TARGET)):
            order = np.argsort(key[about])
            own, degree = key[about][order], target[about][order]
            if len(own) == 0:
                edge &= ~which
                continue
            place = np.minimum(np.searchsorted(own, target[which]), len(own) - 1)
            degrees[which] = np.where(own[place] == target[which], degree[place], -1)
        edge &= degrees >= 0
        weight, target, to_chunk = value[edge], target[edge], kind[edge] == _TO_CHUNK
        owner, of_chunk = key[edge], kind[edge] == _OF_CHUNK
        row = np.where(of_chunk, first + np.searchsorted(chunks, owner), np.searchsorted(entities, owner))
        order = np.lexsort((target, ~to_chunk, row) if limit is None else (target, ~to_chunk, -weight, row))
        counts = np.bincount(row, minlength=len(totals))
        if limit is not None:  # of chunks and entities together
            place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
            order, counts = order[place < limit], np.minimum(counts, limit)
        edges = _Edges(
            counts, to_chunk[order], target[order], weight[order].astype(np.float32),
            np.round(totals, 6).astype(np.float32), degrees[edge][order].astype(np.float32),
            (key[known], uses >> 1, uses & 1 > 0),
        )  # fmt: skip
        return np.concatenate([entities, chunks]), np.arange(len(totals)) >= first, edges


def _grouped(keys: Sequence[int], owners: Keys, values: Keys) -> dict[int, Keys]:
    """Return for each key the values whose owner it is, in their order."""
    order = np.argsort(owners, kind="stable")
    known, starts = np.unique(owners[order], return_index=True)
    parts = np.split(values[order], starts[1:])
    found = dict.fromkeys(keys, NONE)
    found.update(zip(known.tolist(), parts, strict=False))
    return found


def _joined(rows: Sequence[Keys]) -> Pairs:
    """Return how many values each row has, and all of them."""
    return np.array([len(row) for row in rows], np.int64), np.concatenate([NONE, *rows])


def _adjacency(rows: Sequence[tuple[Keys, Scores, np.float32]]) -> Adjacency:
    """Return the edges of nodes from targets, weights and total of each."""
    counts, targets = _joined([row[0] for row in rows])
    weights = np.concatenate([np.empty(0, np.float32), *(row[1] for row in rows)])
    return Adjacency(counts, targets, weights, np.array([row[2] for row in rows], np.float32))
