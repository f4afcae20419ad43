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
from graphrag_core.engine.postgres.reads import Columns, Statement, Transaction, one_row, rows_of
from graphrag_core.engine.postgres.seen import Edges, groups
from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Adjacency, Keys, Kind, Scores

PUSH_DEGREE = 5_000
"""The number of edges of one node that a walk gets, the strongest."""

_NO_EDGES = NONE, np.empty(0, np.float32), np.float32(0)
_OF_CHUNK, _TO_CHUNK, _LINK = range(3)  # kinds of edges

_NODES: Statement = {
    "c": (
        "SELECT n.chunk AS key, n.degree, n.total::double precision, n.degree < t.most AS is_read "
        "FROM unnest(%(chunks)s::bigint[], %(chunks_most)s::double precision[]) AS t(key, most) "
        + one_row("chunk_nodes", "n", "n.chunk = t.key"),
        {"key": np.int64, "degree": np.int64, "total": np.float64, "is_read": np.bool_},
    ),
    "n": (
        "SELECT n.number AS key, n.chunks AS degree, n.chunks + 5::double precision * n.subjects AS total, "
        "n.chunks < t.most AS is_read "
        "FROM unnest(%(entities)s::bigint[], %(entities_most)s::double precision[]) AS t(key, most) "
        + one_row("entities", "n", "n.number = t.key"),
        {"key": np.int64, "degree": np.int64, "total": np.float64, "is_read": np.bool_},
    ),
}
"""The nodes of a statement, chunks and entities: key, number of mentions, their weight, and whether edges are read."""

_EDGES = {
    _OF_CHUNK: ("c", "entity", "chunk_entities", "chunk"),
    _TO_CHUNK: ("n", "chunk", "chunk_entities", "entity"),
    _LINK: ("n", "other", "links", "entity"),
}
"""The kinds of edges: nodes, target, table and column of the node."""


@cache
def _edge_tables(kinds: Sequence[int], *, limited: bool, counted: bool) -> Statement:
    """Return the tables of a statement for the edges of nodes, each with its columns.

    ``x`` has the edges of the nodes that have fewer mentions than ``most``: a node, and its targets and weights as the
    server sends arrays. With a limit there are only the strongest of each kind; nodes with fewer mentions are not
    sorted. ``t`` are the entities that edges lead to, if they are counted.
    """
    parts = []
    for kind in kinds:
        nodes, target, table, column = _EDGES[kind]
        ways = [("OFFSET 0", "")]
        if limited:
            strongest = f"ORDER BY weight DESC, {target} LIMIT %(limit)s"
            ways = [("OFFSET 0", " AND w.degree <= %(limit)s"), (strongest, " AND w.degree > %(limit)s")]
            ways = [(strongest, "")] if kind == _LINK else ways
        for which, condition in ways:
            rows = f"SELECT {target}, weight FROM {table} WHERE index = %(index)s AND {column} = w.key {which}"
            parts.append(
                f"SELECT {kind} AS kind, w.key, y.* FROM {nodes} w CROSS JOIN LATERAL (SELECT array_agg({target}) AS "
                f"targets, array_agg(weight::real) AS weights FROM ({rows}) z) y "
                f"WHERE w.is_read AND y.targets IS NOT NULL{condition}"
            )
    packed: Columns = {"kind": np.int16, "key": np.int64, "targets": bytes, "weights": bytes}
    tables = {**_NODES, "x": (" UNION ALL ".join(parts), packed)}
    if counted:
        targets = f"SELECT DISTINCT unnest(targets) AS key FROM x WHERE kind <> {_TO_CHUNK}"
        tables["t"] = (
            f"SELECT n.number, n.chunks, n.subjects > 0 AS subject FROM ({targets}) t "
            + one_row("entities", "n", "n.number = t.key"),
            {"number": np.int64, "chunks": np.int64, "subject": np.bool_},
        )
    return tables


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
        self._transaction.see_spellings(spellings)
        return {number: self._spelt[number] for number in spellings if self._spelt[number] >= 0}

    def of_names(self, names: Keys) -> Keys:
        found = np.full(len(names), -1, np.int64)
        if len(names) == 0:
            return found
        name, entity, address = self._columns(
            "SELECT n.key, s.entity, e.is_address FROM names n "
            f"{one_row('name_uses', 'u', 'u.spelling = n.spelling AND u.name = n.key')} "
            f"{one_row('spellings', 's', 's.number = n.spelling')} {one_row('entities', 'e', 'e.number = s.entity')} "
            "WHERE n.index = %(index)s AND n.key = ANY(%(names)s) AND u.named ORDER BY n.key",
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
                "SELECT number, chunks, subjects > 0, is_address FROM entities "
                "WHERE index = %(index)s AND number = ANY(%(entities)s)",
                np.int64, np.int64, np.bool_, np.bool_,
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
        kinds = tuple(kind for kind in _EDGES if to is None or (kind == _TO_CHUNK) == (to == "chunks"))
        rows = self._read_edges(nodes, np.full(len(nodes), np.inf), kinds, limit, counted=True)
        return _adjacency([rows.get(node, _NO_EDGES) for node in nodes.tolist()])

    def _edges_of_chunks(self, chunks: Keys) -> list[Edges]:
        self._transaction.see_chunks(self._numbering.chunks(chunks))
        return [self._seen.chunk_edges.get(chunk, _NO_EDGES) for chunk in chunks.tolist()]

    def walk(self, nodes: Keys) -> Adjacency:
        self._walk(nodes, np.full(len(nodes), np.inf))
        return _adjacency([self._seen.walked.get(node, _NO_EDGES) for node in nodes.tolist()])

    def degrees(self, nodes: Keys, most: npt.NDArray[np.float64] | None = None) -> Scores:
        """Return the number of mentions of each node. Those of nodes with fewer than ``most`` are read with them."""
        if most is not None:
            few = self._degrees.of(nodes) < most
            self._walk(nodes[few], most[few])
        found = self._degrees.of(nodes)
        if len(found) == 0 or found.min() >= 0:
            return found
        self._walk(nodes[found < 0], np.zeros(int((found < 0).sum())))
        return self._degrees.of(nodes)

    def _walk(self, nodes: Keys, most: npt.NDArray[np.float64]) -> None:
        """Read the degrees of nodes, and the mentions of those that have fewer than ``most``, unless they were read."""
        missing = np.array([node not in self._seen.walked for node in nodes.tolist()], np.bool_)
        if missing.any():
            read = self._read_edges(nodes[missing], most[missing], (_OF_CHUNK, _TO_CHUNK), PUSH_DEGREE)
            self._seen.walked.update(read)
            self._seen.edge_count += sum(len(targets) for targets, _, _ in read.values())

    def _read_edges(
        self,
        nodes: Keys,
        most: npt.NDArray[np.float64],
        kinds: Sequence[int],
        limit: int | None,
        *,
        counted: bool = False,
    ) -> dict[int, Edges]:
        """Return targets, weights and total weight of the nodes that have fewer mentions than ``most``, by number.

        Degrees are kept, and of the entities that edges lead to the counts, if they are asked for.
        """
        numbering, first = self._numbering, self.first_entity
        given: dict[str, Any] = {"limit": limit}
        for name, which, keys in (
            ("chunks", nodes < first, numbering.chunks),
            ("entities", nodes >= first, numbering.entities),
        ):
            own, place = np.unique(keys(nodes[which]), return_index=True)
            given |= {name: own, f"{name}_most": most[which][place]}
        found = self._transaction.read(_edge_tables(kinds, limited=limit is not None, counted=counted), **given)
        if counted:
            entity, chunks, subject = found["t"].values()
            pairs = zip(chunks.tolist(), subject.tolist(), strict=True)
            self._counts.update(zip(numbering.of_entities(entity).tolist(), pairs, strict=True))
        rows: dict[int, Edges] = {}
        for name, of in (("c", numbering.of_chunks), ("n", numbering.of_entities)):
            key, degree, total, is_read = found[name].values()
            numbers = of(key)
            self._degrees.set(numbers, degree)
            totals = np.round(total[is_read], 6).astype(np.float32)
            rows |= {one: (*_NO_EDGES[:2], total) for one, total in zip(numbers[is_read].tolist(), totals, strict=True)}
        alone = nodes[self._degrees.of(nodes) < 0]  # chunks without a name have no row
        self._degrees.set(alone, np.zeros(len(alone), np.int64))
        rows |= dict.fromkeys(alone.tolist(), _NO_EDGES)
        kind, key, targets, weights = found["x"].values()
        sizes, target_keys = _sent_arrays(targets, ">i8")
        strengths = _sent_arrays(weights, ">f4")[1].astype(np.float32)
        to_chunk = (kind == _TO_CHUNK).repeat(sizes)
        owners = numbering.of_nodes(key, kind == _OF_CHUNK).repeat(sizes)
        ends = numbering.of_nodes(target_keys, to_chunk)
        # Chunks first; of a node with too many edges, the strongest.
        by = (target_keys, ~to_chunk, owners) if limit is None else (target_keys, ~to_chunk, -strengths, owners)
        order = np.lexsort(by)
        ends, strengths = ends[order], strengths[order]
        for owner, start, end in groups(owners[order]):
            last = end if limit is None else min(end, start + limit)
            rows[owner] = ends[start:last], strengths[start:last], rows[owner][2]
        return rows


def _sent_arrays(arrays: Sequence[bytes], kind: str) -> tuple[Keys, npt.NDArray[Any]]:
    """Return the sizes of arrays that the server has sent, and all their values: 20 bytes, then size and value."""
    layout = np.dtype([("size", ">i4"), ("value", kind)])
    values = np.frombuffer(b"".join([one[20:] for one in arrays]), layout)["value"]
    return np.array([(len(one) - 20) // layout.itemsize for one in arrays], np.int64), values


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
