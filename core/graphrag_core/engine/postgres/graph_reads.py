"""What a snapshot reads of the graph: from the derived tables, or in a scope from a view in memory.

Both give the same answers in keys: a chunk's, a fact's, and for an entity the spelling that represents it.
:class:`GraphReads` turns the keys of chunks and entities into the numbers of the snapshot, and describes entities.

In a scope all names, aliases and counts outside of it do not exist, so nothing stored about them can be used. The
rows of the chunks in scope are loaded, and a view is built from them as the embedded engine does. Rows never change, so
a view is good as long as the scope has the same chunks; the last few are kept.
"""

from __future__ import annotations

import hashlib
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.embedded.snapshot import edge_label, openings, strongest
from graphrag_core.engine.graph.build import GraphView, Index, Pairs, build_view
from graphrag_core.engine.graph.edits import GraphEdits, Shown
from graphrag_core.engine.postgres.graph import (
    EDITS,
    columns,
    graph_settings,
    graph_tables,
    one_row,
    read_rows,
    similar_names,
)
from graphrag_core.engine.postgres.reads import Reads
from graphrag_core.engine.postgres.schema import FACT_BITS
from graphrag_core.engine.rows import unpack_headings
from graphrag_core.errors import DatabaseError
from graphrag_core.model import Chunk, Entity
from graphrag_core.ports import Adjacency, FactRows, Keys, Kind, Scores
from graphrag_core.text import EDGE, hash64, label, normalise, plain_runs

Flags = npt.NDArray[np.bool_]

MOST_IN_SCOPE = 200_000
"""Chunks of a scope whose graph is built in memory. A query in a larger scope is refused."""

_OPENING = 200  # characters of a chunk in which the name that it opens with is looked for
_MAX_DESCRIPTIONS = 8  # of one entity
_TOP_CANDIDATES = 3  # for each entity wanted, since numbers are left out
_MOST_COUNTED = 100_000  # facts of an entity
_WALK_HOPS = 2  # of forward push that one statement goes ahead
_MOST_VIEWS, _MOST_BYTES = 16, 1 << 29  # views of scopes that are kept
_EDGE = hash64(EDGE)
_NONE: Index = np.empty(0, np.int64)
_AS_IS = Shown()


class Edges(NamedTuple):
    """Edges of some nodes, one node after the other, by key: see :class:`~graphrag_core.ports.Adjacency`.

    ``to_chunk`` says which targets are chunks; ``known`` are entities among them, how many chunks mention each, and
    whether it is a subject, as far as that is known.
    """

    counts: Keys
    to_chunk: Flags
    targets: Keys
    weights: Scores
    totals: Scores
    degrees: Scores
    known: tuple[Keys, Keys, Flags] | None = None


class Walk(NamedTuple):
    """What forward push is about to do: the masses of some nodes, and the share of a mass that moves on.

    A node moves its mass on if there is more than ``least`` of it for each of its neighbours.
    """

    masses: npt.NDArray[np.float64]
    damping: float
    least: float


class NameRow(NamedTuple):
    """A name of an entity, with one of the claims about it; the claim's chunk is None if there is none."""

    entity: int
    key: int
    surface: str
    spelling: int
    uses: int
    chunk: int | None
    type: str | None
    description: str | None


class _Graph(Protocol):
    """What :class:`GraphReads` asks: all in keys."""

    linked_share: float
    has_hidden: bool

    def count_entities(self) -> int: ...
    def hidden(self, facts: Keys) -> Flags: ...
    def of_spellings(self, spellings: Keys) -> dict[int, int]: ...
    def of_names(self, names: Keys) -> dict[int, tuple[int, bool]]: ...
    def counts(self, entities: Keys) -> tuple[Keys, Flags, Flags]: ...
    def names(self, entities: Keys) -> list[NameRow]: ...
    def subjects(self, chunks: Keys) -> tuple[Pairs, Scores, Scores]: ...
    def degrees(self, entities: Keys) -> Scores: ...
    def about(self, entities: Keys) -> Pairs: ...
    def edges(self, nodes: Keys, is_chunk: Flags, to: Kind | None, limit: int | None) -> Edges: ...
    def facts_of(self, entities: Keys, *, joint: bool, limit: int | None) -> Keys: ...
    def fact_rows(self, facts: Keys) -> tuple[Scores, Keys, Keys]: ...
    def fact_copies(self, facts: Keys) -> dict[int, list[int]]: ...
    def top(self, count: int) -> Keys: ...
    def shown(self) -> tuple[Mapping[int, Shown], Mapping[int, int]]: ...


class GraphReads:
    """The methods of a snapshot that read the graph. Keys are numbers of ``reads.numbering``, facts their real keys."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._numbering = reads.numbering
        self._made: _Graph | None = None
        self._entities: dict[int, Entity] = {}
        self._edits: tuple[Mapping[int, Shown], Mapping[int, int]] | None = None
        # What was read so far: the stages of a query ask for the same again.
        self._counts: dict[int, tuple[int, bool]] = {}  # of entities: chunks, and whether it is a subject
        self._names: dict[int, list[NameRow]] = {}
        self._spelt: dict[int, int | None] = {}  # the entities of spellings
        self._rows: dict[int, tuple[np.float32, Keys]] = {}  # of facts: weight and entities
        self._chunk_edges: dict[int, tuple[Keys, Scores, Scores, np.float32]] = {}

    @property
    def _graph(self) -> _Graph:
        if self._made is None:
            self._made = _TableGraph(self._reads) if self._reads.scope.is_everything else _ViewGraph(self._reads)
        return self._made

    @property
    def _shown(self) -> Mapping[int, Shown]:
        return self._edited()[0]

    def _edited(self) -> tuple[Mapping[int, Shown], Mapping[int, int]]:
        """Return what edits show of entities, and the entities of names that no document writes."""
        if self._edits is None:
            self._edits = self._graph.shown()
        return self._edits

    @property
    def linked_share(self) -> float:
        """See the port."""
        return self._graph.linked_share

    def count_entities(self) -> int:
        """Return the number of entities that are neither addresses nor numbers, for the statistics of the index."""
        rows = self._reads.rows(
            "SELECT DISTINCT spelling FROM names WHERE index = %s AND surface !~ '[^0-9]'", (self._reads.index,)
        )
        known = self._graph.of_spellings(np.array([row[0] for row in rows], np.int64)) if rows else {}
        return self._graph.count_entities() - sum(spelling == entity for spelling, entity in known.items())

    def hidden(self, facts: Keys) -> Flags:
        """Return which facts no query may see: of edges that lead nowhere, and of deleted relations."""
        return self._graph.hidden(facts)

    # -- names

    def find_entities(self, names: Iterable[str]) -> dict[str, int]:
        """See the port."""
        by_number = {hash64(name): name for name in names if name[:1] != "→"}  # no question names an address
        if not by_number:
            return {}
        if missing := [number for number in by_number if number not in self._spelt]:
            known = self._graph.of_spellings(np.array(missing, np.int64))
            self._spelt.update((number, known.get(number)) for number in missing)
        found = {number: entity for number in by_number if (entity := self._spelt[number]) is not None}
        found.update((number, entity) for number, entity in self._edited()[1].items() if number in by_number)
        numbers = self._numbering.of_entities(np.array([*found.values()], np.int64)).tolist()
        return {by_number[number]: at for number, at in zip(found, numbers, strict=True)}

    def _names_of(self, entities: Sequence[int]) -> dict[int, list[NameRow]]:
        """Return the names of entities, given by the spelling that represents each."""
        if missing := [entity for entity in dict.fromkeys(entities) if entity not in self._names]:
            read: dict[int, list[NameRow]] = {entity: [] for entity in missing}
            for row in self._graph.names(np.array(missing, np.int64)):
                read[row.entity].append(row)
            self._names.update(read)
        return {entity: self._names[entity] for entity in entities}

    def entities_of_names(self, names: Keys) -> Keys:
        """Return the entity of each name, given by key, as its number; -1 for a name that is none.

        Entities that are addresses of sections have none either.
        """
        known = {name: entity for name, (entity, address) in self._graph.of_names(names).items() if not address}
        there = np.array([name in known for name in names.tolist()], np.bool_)
        found = np.full(len(names), -1, np.int64)
        own = [known[name] for name in names[there].tolist()] if len(names) else []
        found[there] = self._numbering.of_entities(np.array(own, np.int64))
        return found

    def names_of(self, entities: Keys) -> list[list[tuple[int, str]]]:
        """Return for each entity key and surface of its names in scope."""
        numbers = self._numbering.entities(entities).tolist()
        groups = self._names_of(numbers)
        return [[*{row.key: row.surface for row in groups[number]}.items()] for number in numbers]

    def shown_names(self, entities: Keys) -> list[str | None]:
        """Return for each entity the name that an edit gives it; None for none."""
        return [self._shown.get(one, _AS_IS).name for one in self._numbering.entities(entities).tolist()]

    def spellings(self, entity: int) -> list[str]:
        """Return the normalised names of an entity that documents write, the one that represents it first."""
        numbers = self._numbering.entities(np.array([entity]))
        norms = {normalise(row.surface) for row in self._names_of(numbers.tolist())[int(numbers[0])]}
        return [norm for norm in sorted(norms, key=lambda norm: (hash64(norm) != numbers[0], norm)) if norm[:1] != "→"]

    def called(self, names: Keys) -> dict[int, tuple[str, str]]:
        """Return what facts call the entities of names, by the name's key: the entity's id, and its name.

        Edits and the labels of sections are taken into account. Names that are no entity's are left out.
        """
        known = self._graph.of_names(names)
        rows = self._reads.rows(
            "SELECT key, surface FROM names WHERE index = %s AND key = ANY(%s)",
            (self._reads.index, np.array([*known], np.int64)),
        )
        labels = self._labels(np.unique(np.array([one for one, address in known.values() if address], np.int64)))
        found = {}
        for key, surface in rows:
            entity = known[key][0]
            called = labels.get(entity) or self._shown.get(entity, _AS_IS).name or surface
            found[key] = normalise(called) or called, called
        return found

    # -- edges

    def entity_counts(self, entities: Keys) -> tuple[Keys, Flags]:
        """See the port."""
        numbers = self._numbering.entities(entities).tolist()
        if missing := [one for one in dict.fromkeys(numbers) if one not in self._counts]:
            chunks, subject, _ = self._graph.counts(np.array(missing, np.int64))
            self._counts.update(zip(missing, zip(chunks.tolist(), subject.tolist(), strict=True), strict=True))
        found = [self._counts[one] for one in numbers]
        return np.array([count for count, _ in found], np.int64), np.array([about for _, about in found], np.bool_)

    def subjects(self, chunks: Keys) -> Adjacency:
        """See the port."""
        keys = self._numbering.chunks(chunks)
        (counts, entities), totals, degrees = self._graph.subjects(keys)
        targets = self._numbering.of_entities(entities)
        without = np.flatnonzero(counts == 0)
        if len(without):
            texts = self._reads.rows(
                f"SELECT key, left(text, {_OPENING}) FROM chunks WHERE index = %s AND key = ANY(%s)",
                (self._reads.index, np.unique(keys[without])),
            )
            text_of = {row[0]: row[1] for row in texts}
            names = [openings(text_of[key]) for key in keys[without].tolist()]
            known = self.find_entities({name for own in names for name in own})
            owners, found = np.repeat(np.arange(len(chunks)), counts).tolist(), targets.tolist()
            for at, own in zip(without.tolist(), names, strict=True):
                if name := next((name for name in own if name in known), None):
                    owners.append(at)
                    found.append(known[name])
            if len(found) > len(targets):
                order = np.argsort(owners, kind="stable")
                counts, targets = np.bincount(owners, minlength=len(chunks)), np.array(found, np.int64)[order]
                degrees = self._graph.degrees(self._numbering.entities(targets))
        return Adjacency(counts, targets, np.ones(len(targets), np.float32), totals, degrees)

    def neighbours(self, nodes: Keys, to: Kind | None = None, limit: int | None = None) -> Adjacency:
        """See the port."""
        return self._numbered(self._edges(*self._keys(nodes), to, limit))

    def surroundings(self, nodes: Keys, walk: Walk, limit: int | None) -> tuple[Keys, Adjacency]:
        """See the port."""
        graph = self._graph
        if not isinstance(graph, _TableGraph):
            return nodes, self.neighbours(nodes, limit=limit)
        keys, is_chunk, found = graph.surroundings(*self._keys(nodes), walk, limit)
        return self._numbers(keys, is_chunk), self._numbered(self._noted(found))

    def _keys(self, nodes: Keys) -> tuple[Keys, Flags]:
        """Return the keys of nodes, and which are chunks."""
        is_chunk = nodes < self._numbering.first_entity
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

    def _numbered(self, edges: Edges) -> Adjacency:
        targets = self._numbers(edges.targets, edges.to_chunk)
        return Adjacency(edges.counts, targets, edges.weights, edges.totals, edges.degrees)

    def _edges(self, keys: Keys, is_chunk: Flags, to: Kind | None, limit: int | None) -> Edges:
        """Return the edges of nodes. Those of chunks are read once."""
        if limit is not None or to == "chunks" or not is_chunk.all() or len(keys) == 0:
            return self._noted(self._graph.edges(keys, is_chunk, to, limit))
        wanted = keys.tolist()
        if missing := [key for key in dict.fromkeys(wanted) if key not in self._chunk_edges]:
            found = self._noted(
                self._graph.edges(np.array(missing, np.int64), np.ones(len(missing), np.bool_), None, None)
            )
            ends = np.cumsum(found.counts)[:-1]
            parts = (np.split(column, ends) for column in (found.targets, found.weights, found.degrees))
            self._chunk_edges.update(zip(missing, zip(*parts, found.totals, strict=True), strict=True))
        rows = [self._chunk_edges[key] for key in wanted]
        counts = np.array([len(row[0]) for row in rows], np.int64)
        targets, weights, degrees = (np.concatenate([row[at] for row in rows]) for at in range(3))
        totals = np.array([row[3] for row in rows], np.float32)
        return Edges(counts, np.zeros(len(targets), np.bool_), targets, weights, totals, degrees)

    def _noted(self, edges: Edges) -> Edges:
        """Keep what edges say about the entities that they lead to."""
        if edges.known is not None:
            number, chunks, subject = (column.tolist() for column in edges.known)
            self._counts.update(zip(number, zip(chunks, subject, strict=True), strict=True))
        return edges

    # -- facts

    def facts_of(
        self,
        entities: Keys,
        *,
        joint: bool = False,
        relations: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Keys:
        """See the port."""
        facts = self._graph.facts_of(self._numbering.entities(entities), joint=joint, limit=limit)
        if relations is None or len(facts) == 0:
            return facts
        rows = self._reads.rows(
            "SELECT key FROM facts WHERE index = %s AND key = ANY(%s) AND relation = ANY(%s) ORDER BY key",
            (self._reads.index, facts, list(relations)),
        )
        return np.array([row[0] for row in rows], np.int64)

    def fact_copies(self, facts: Keys) -> list[Keys]:
        """Return for each fact the others that say the same, in order of key."""
        found = self._graph.fact_copies(facts)
        return [np.array(found.get(fact, ()), np.int64) for fact in facts.tolist()]

    def outgoing_facts(self, entity: int, limit: int) -> tuple[Keys, Scores, npt.NDArray[np.float64]]:
        """See the port."""
        numbers = self._numbering.entities(np.array([entity]))
        facts = self._graph.facts_of(numbers, joint=False, limit=None)
        own = sorted({row.key for row in self._names_of(numbers.tolist())[int(numbers[0])]})
        rows = self._reads.rows(
            "SELECT key, confidence, accessed FROM (SELECT f.key, f.confidence, "
            "coalesce(f.last_accessed, f.created, d.added) AS accessed, f.relation, f.names FROM facts f "
            "JOIN chunks c ON c.index = f.index AND c.key = f.chunk "
            "JOIN documents d ON d.index = c.index AND d.key = c.document WHERE f.index = %s AND f.key = ANY(%s) "
            "ORDER BY f.weight::real DESC, c.id, f.key LIMIT %s) AS strongest "
            "WHERE relation IS NULL OR names[1] = ANY(%s) OR names[array_length(names, 1)] = %s ORDER BY key",
            (self._reads.index, facts, limit, np.array(own, np.int64), _EDGE),
        )
        pending = self._reads.accesses.pending
        accessed = [pending[row[0]][1] if row[0] in pending else row[2] for row in rows]
        keys = np.array([row[0] for row in rows], np.int64)
        return keys, np.array([row[1] for row in rows], np.float32), np.array(accessed, np.float64)

    def fact_rows(self, facts: Keys) -> FactRows:
        """See the port."""
        wanted = facts.tolist()
        if missing := [fact for fact in dict.fromkeys(wanted) if fact not in self._rows]:
            weight, count, entity = self._graph.fact_rows(np.array(missing, np.int64))
            own = np.split(entity, np.cumsum(count)[:-1])
            self._rows.update(zip(missing, zip(weight, own, strict=True), strict=True))
        rows = [self._rows[fact] for fact in wanted]
        weights = np.array([row[0] for row in rows], np.float32)
        counts = np.array([len(row[1]) for row in rows], np.int64)
        entities = np.concatenate([row[1] for row in rows]) if rows else _NONE
        chunks = self._numbering.of_chunks(facts >> FACT_BITS)
        return FactRows(facts, chunks, weights, counts, self._numbering.of_entities(entities))

    # -- entities

    def top_entities(self, count: int) -> Keys:
        """See the port."""
        found = self._graph.top(_TOP_CANDIDATES * count)
        return self._numbering.of_entities(self._without_numbers(found)[:count])

    def _without_numbers(self, found: Keys) -> Keys:
        """Return entities without numbers such as years, which are in every text."""
        rows = self._reads.rows(
            "SELECT spelling, key FROM names WHERE index = %s AND spelling = ANY(%s) AND surface !~ '[^0-9]'",
            (self._reads.index, found),
        )
        inside = self._graph.of_names(np.array([row[1] for row in rows], np.int64)) if rows else {}
        known = inside.keys()
        numbers = np.array([row[0] for row in rows if row[1] in known], np.int64)
        return found[~np.isin(found, numbers)]

    def search_names(self, start: str, inside: str) -> Keys:
        """See the port."""
        runs = plain_runs(f"{start} {inside}")
        plain = "false" if runs is None else " AND ".join(["position(%s in lower(surface)) > 0"] * len(runs)) or "true"
        rows = self._reads.rows(
            f"SELECT key, surface FROM names WHERE index = %s AND (({plain}) OR surface ~ '^[^→].*[^ -~]')",
            (self._reads.index, *(runs or ())),
        )
        keys = [key for key, surface in rows if (name := normalise(surface)).startswith(start) and inside in name]
        known = self._graph.of_names(np.array(sorted(keys), np.int64)).values()
        renamed = [entity for entity, shown in self._edited()[0].items() if shown.name is not None]
        found = np.unique(np.array([*(entity for entity, address in known if not address), *renamed], np.int64))
        if len(found) == 0:
            return found
        order = np.lexsort((found, -self._graph.counts(found)[0]))
        return self._numbering.of_entities(self._without_numbers(found[order]))

    def entities(self, keys: Keys) -> list[Entity]:
        """See the port."""
        numbers = self._numbering.entities(keys).tolist()
        if missing := [number for number in dict.fromkeys(numbers) if number not in self._entities]:
            read = self._read_entities(np.array(missing, np.int64))
            self._entities.update(
                (at, self._shown.get(at, _AS_IS).applied(entity)) for at, entity in zip(missing, read, strict=True)
            )
        return [self._entities[number] for number in numbers]

    def _read_entities(self, numbers: Keys) -> list[Entity]:
        groups: dict[int, dict[int, NameRow]] = {}
        claims: dict[int, list[tuple[str, str]]] = {}
        for number, rows in self._names_of(numbers.tolist()).items():
            groups[number] = {row.key: row for row in rows}
            claims[number] = [(row.type or "", row.description or "") for row in rows if row.chunk is not None]
        counts, _, addresses = self._graph.counts(numbers)
        labels = self._labels(numbers[addresses])
        things = self._things(labels)
        found = []
        for number, mentions in zip(numbers.tolist(), counts.tolist(), strict=True):
            if number in labels:
                called = labels[number]
                found.append(things.get(called) or Entity(normalise(called) or called, called, mentions=mentions))
                continue
            names = sorted(groups[number].values(), key=lambda row: (-row.uses, row.surface))
            own = next(row for row in names if row.spelling == number)
            said = claims.get(number, [])
            types = Counter(kind for kind, _ in said if kind)
            descriptions = sorted({description for _, description in said if description})
            found.append(
                Entity(
                    id=normalise(own.surface),
                    name=own.surface,
                    type=min((-count, kind) for kind, count in types.items())[1] if types else "",
                    description=" ".join(descriptions[:_MAX_DESCRIPTIONS]),
                    aliases=tuple(sorted({row.surface for row in names} - {own.surface})),
                    mentions=mentions,
                )
            )
        return found

    def _labels(self, addresses: Keys) -> dict[int, str]:
        """Return the labels of the sections that addresses lead to."""
        if len(addresses) == 0:
            return {}
        owner, chunk = self._graph.about(addresses)
        rows = self._reads.rows(
            "SELECT t.address, c.id, d.id, left(c.text, 4000), coalesce(d.heading, d.title), c.headings "
            "FROM (SELECT t.address, c.key, row_number() OVER (PARTITION BY t.address ORDER BY c.id) AS first, "
            "row_number() OVER (PARTITION BY t.address ORDER BY c.id DESC) AS last "
            "FROM unnest(%s::bigint[], %s::bigint[]) t(address, chunk) "
            "JOIN chunks c ON c.index = %s AND c.key = t.chunk) t "
            "JOIN chunks c ON c.index = %s AND c.key = t.key "
            "JOIN documents d ON d.index = c.index AND d.key = c.document "
            "WHERE first = 1 OR last = 1 ORDER BY t.address, c.id",
            (owner, chunk, self._reads.index, self._reads.index),
        )
        ends: dict[int, list[Chunk]] = {}
        for address, chunk_id, document_id, text, title, headings in rows:
            ends.setdefault(address, []).append(
                Chunk(chunk_id, document_id, text, title, headings=unpack_headings(headings))
            )
        labels = {address: label(own[0].title, own[0].headings) or own[0].document_id for address, own in ends.items()}
        if self._graph.has_hidden:  # there are explicit edges
            for address, names in self._names_of(addresses.tolist()).items():
                if names and names[0].surface.startswith(EDGE) and address in labels:
                    labels[address] = edge_label(names[0].surface, ends[address][0], ends[address][-1])
        return labels

    def _things(self, labels: Mapping[int, str]) -> dict[str, Entity]:
        """Return the entities that sections are about, by the label of the section; none for many sections."""
        norms = {called: normalise(called) for called in labels.values()}
        known = self.find_entities(set(norms.values())) if norms else {}
        named = [called for called, norm in norms.items() if norm in known]
        found = self.entities(np.array([known[norms[called]] for called in named], np.int64)) if named else []
        return dict(zip(named, found, strict=True))


_OF_CHUNK, _TO_CHUNK, _LINK, _ENTITY_TARGET, _CHUNK_TARGET, _CHUNK_NODE, _ENTITY_NODE = range(7)  # kinds of rows


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


class _TableGraph:
    """The graph of all chunks, read from the derived tables."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        rows = reads.rows("SELECT chunks, leading_chunks, is_plain FROM graph_state WHERE index = %s", (reads.index,))
        chunks, leading, is_plain = rows[0] if rows else (0, 0, True)
        self.linked_share = leading / chunks if chunks else 0.0
        self.has_hidden = not is_plain

    def _columns(self, sql: str, *types: npt.DTypeLike, **parameters: Any) -> tuple[Any, ...]:
        return columns(self._reads.rows, sql, {"index": self._reads.index, **parameters}, *types)

    def count_entities(self) -> int:
        """Count the entities that are no addresses."""
        sql = "SELECT count(*) FROM entities WHERE index = %s AND NOT is_address"
        return int(self._reads.rows(sql, (self._reads.index,))[0][0])

    def hidden(self, facts: Keys) -> Flags:
        """Return which facts are hidden."""
        if not self.has_hidden or len(facts) == 0:
            return np.zeros(len(facts), np.bool_)
        (found,) = self._columns(
            "SELECT fact FROM hidden_facts WHERE index = %(index)s AND fact = ANY(%(facts)s)", np.int64, facts=facts
        )
        return np.isin(facts, found)

    def of_spellings(self, spellings: Keys) -> dict[int, int]:
        """Return the entities of spellings."""
        number, entity = self._columns(
            "SELECT number, entity FROM spellings WHERE index = %(index)s AND number = ANY(%(spellings)s) "
            "AND entity IS NOT NULL",
            np.int64, np.int64, spellings=spellings,
        )  # fmt: skip
        return dict(zip(number.tolist(), entity.tolist(), strict=True))

    def of_names(self, names: Keys) -> dict[int, tuple[int, bool]]:
        """Return the entities of names, and whether each is an address."""
        if len(names) == 0:
            return {}
        name, entity, address = self._columns(
            "SELECT n.key, s.entity, e.is_address FROM names n "
            f"{one_row('name_uses', 'u', 'u.spelling = n.spelling AND u.name = n.key')} "
            f"{one_row('spellings', 's', 's.number = n.spelling')} {one_row('entities', 'e', 'e.number = s.entity')} "
            "WHERE n.index = %(index)s AND n.key = ANY(%(names)s) AND u.named > 0",
            np.int64, np.int64, np.bool_, names=names,
        )  # fmt: skip
        return dict(zip(name.tolist(), zip(entity.tolist(), address.tolist(), strict=True), strict=True))

    def counts(self, entities: Keys) -> tuple[Keys, Flags, Flags]:
        """Return how many chunks mention entities, and whether each is a subject and an address."""
        number, *found = self._columns(
            "SELECT number, chunks, subjects > 0, is_address FROM entities "
            "WHERE index = %(index)s AND number = ANY(%(entities)s) ORDER BY number",
            np.int64, np.int64, np.bool_, np.bool_, entities=np.unique(entities),
        )  # fmt: skip
        place = np.searchsorted(number, entities)
        return found[0][place], found[1][place], found[2][place]

    def names(self, entities: Keys) -> list[NameRow]:
        """Return the names of entities, with what chunks claim about them."""
        rows = self._reads.rows(
            "SELECT s.entity, n.key, n.surface, n.spelling, n.uses, c.chunk, c.type, c.description FROM spellings s "
            "CROSS JOIN LATERAL (SELECT name FROM name_uses WHERE index = %(index)s AND spelling = s.number "
            f"AND named > 0 OFFSET 0) u {one_row('names', 'n', 'n.key = u.name')} "
            "LEFT JOIN LATERAL (SELECT * FROM claims WHERE index = %(index)s AND spelling = n.spelling "
            "AND name = n.key OFFSET 0) c ON true "
            "WHERE s.index = %(index)s AND s.entity = ANY(%(entities)s) ORDER BY n.key, c.chunk, c.position",
            {"index": self._reads.index, "entities": np.unique(entities)},
        )
        return [NameRow(*row) for row in rows]

    def subjects(self, chunks: Keys) -> tuple[Pairs, Scores, Scores]:
        """Return the subjects of chunks: how many, and which; the total weight of each chunk, and their degrees."""
        at, is_total, value, degree = self._columns(
            "WITH wanted AS (SELECT chunk, at FROM unnest(%(chunks)s::bigint[]) WITH ORDINALITY t(chunk, at)) "
            "SELECT w.at - 1 AS at, true, n.total::bigint AS value, 0 FROM wanted w "
            f"{one_row('chunk_nodes', 'n', 'n.chunk = w.chunk')} "
            "UNION ALL SELECT w.at - 1, false, x.entity, e.chunks + e.links FROM wanted w "
            "CROSS JOIN LATERAL (SELECT entity FROM chunk_entities WHERE index = %(index)s AND chunk = w.chunk "
            f"AND weight > 1 OFFSET 0) x {one_row('entities', 'e', 'e.number = x.entity')} ORDER BY at, value",
            np.int64, np.bool_, np.int64, np.float32, chunks=chunks,
        )  # fmt: skip
        totals = np.zeros(len(chunks), np.float32)
        totals[at[is_total]] = value[is_total]
        about = np.bincount(at[~is_total], minlength=len(chunks)), value[~is_total]
        return about, totals, degree[~is_total]

    def degrees(self, entities: Keys) -> Scores:
        """Return the number of neighbours of entities."""
        number, degree = self._columns(
            "SELECT number, chunks + links FROM entities WHERE index = %(index)s AND number = ANY(%(entities)s) "
            "ORDER BY number",
            np.int64, np.float32, entities=np.unique(entities),
        )  # fmt: skip
        found: Scores = degree[np.searchsorted(number, entities)]
        return found

    def about(self, entities: Keys) -> Pairs:
        """Return entities and the chunks whose subjects they are."""
        return self._columns(
            "SELECT entity, chunk FROM chunk_entities WHERE index = %(index)s AND entity = ANY(%(entities)s) "
            "AND weight > 1",
            np.int64, np.int64, entities=entities,
        )  # fmt: skip

    def edges(self, nodes: Keys, is_chunk: Flags, to: Kind | None, limit: int | None) -> Edges:
        """Return the edges of nodes."""
        keys, are_chunks, found = self._read_edges(nodes, is_chunk, np.zeros(len(nodes)), _edges_sql(to, limit), limit)
        first = len(keys) - int(are_chunks.sum())
        rows = np.where(
            is_chunk, first + np.searchsorted(keys[first:], nodes), np.searchsorted(keys[:first], nodes)
        )  # a node may be there twice
        counts = found.counts[rows]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        at = np.repeat((np.cumsum(found.counts) - found.counts)[rows], counts) + within
        columns = (column[at] for column in (found.to_chunk, found.targets, found.weights, found.degrees))
        to_chunk, targets, weights, degrees = columns
        return Edges(counts, to_chunk, targets, weights, found.totals[rows], degrees, found.known)

    def surroundings(self, nodes: Keys, is_chunk: Flags, walk: Walk, limit: int | None) -> tuple[Keys, Flags, Edges]:
        """Return nodes and those that the walk is likely to reach, which of them are chunks, and the edges of all."""
        sql = _edges_sql(None, limit, _WALK_HOPS)
        return self._read_edges(
            nodes, is_chunk, walk.damping * walk.masses, sql, limit, damping=walk.damping, least=walk.least
        )

    def _read_edges(
        self,
        nodes: Keys,
        is_chunk: Flags,
        moved: npt.NDArray[np.float64],
        sql: str,
        limit: int | None,
        **settings: float,
    ) -> tuple[Keys, Flags, Edges]:
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
        edges = Edges(
            counts, to_chunk[order], target[order], weight[order].astype(np.float32),
            np.round(totals, 6).astype(np.float32), degrees[edge][order].astype(np.float32),
            (key[known], uses >> 1, uses & 1 > 0),
        )  # fmt: skip
        return np.concatenate([entities, chunks]), np.arange(len(totals)) >= first, edges

    def facts_of(self, entities: Keys, *, joint: bool, limit: int | None) -> Keys:
        """Return the facts that hold any entity, or all, in order of key."""
        wanted, several = np.unique(entities), joint and len(entities) > 1
        if several and limit is None:
            sql = (
                "SELECT a.fact FROM fact_entities a WHERE a.index = %(index)s AND a.entity = ("
                "SELECT number FROM entities WHERE index = %(index)s AND number = ANY(%(entities)s) "
                "ORDER BY chunks, number LIMIT 1) AND (SELECT count(*) FROM fact_entities b WHERE b.index = a.index "
                "AND b.fact = a.fact AND b.entity = ANY(%(entities)s)) = %(count)s ORDER BY a.fact"
            )
        else:
            own = " OFFSET 0" if limit is None else " ORDER BY fact LIMIT %(limit)s"
            sql = (
                "SELECT f.fact FROM unnest(%(entities)s::bigint[]) t(entity) CROSS JOIN LATERAL (SELECT fact "
                f"FROM fact_entities x WHERE x.index = %(index)s AND x.entity = t.entity{own}) f "
                f"GROUP BY f.fact HAVING count(*) >= %(least)s ORDER BY f.fact"
            )
        (facts,) = self._columns(
            sql, np.int64, entities=wanted, limit=limit, count=len(wanted), least=len(wanted) if several else 1
        )
        return facts  # type: ignore[no-any-return]

    def fact_rows(self, facts: Keys) -> tuple[Scores, Keys, Keys]:
        """Return the weights of facts, and their entities: how many, and which."""
        at, is_weight, entity, weight = self._columns(
            "WITH wanted AS (SELECT fact, at FROM unnest(%(facts)s::bigint[]) WITH ORDINALITY t(fact, at)) "
            "SELECT w.at - 1 AS at, true, 0::bigint AS entity, f.weight FROM wanted w "
            f"{one_row('facts', 'f', 'f.key = w.fact')} "
            "UNION ALL SELECT w.at - 1, false, x.entity, 0 FROM wanted w CROSS JOIN LATERAL "
            "(SELECT entity FROM fact_entities WHERE index = %(index)s AND fact = w.fact OFFSET 0) x "
            "ORDER BY at, entity",
            np.int64, np.bool_, np.int64, np.float64, facts=facts,
        )  # fmt: skip
        weights = np.zeros(len(facts), np.float32)
        weights[at[is_weight]] = weight[is_weight]
        return weights, np.bincount(at[~is_weight], minlength=len(facts)), entity[~is_weight]

    def fact_copies(self, facts: Keys) -> dict[int, list[int]]:
        """Return the duplicates of facts, by key. Only facts about the rarest entity of a fact are compared with it."""
        fact, other = self._columns(
            "SELECT w.fact, o.key FROM unnest(%(facts)s::bigint[]) w(fact) "
            f"{one_row('facts', 'f', 'f.key = w.fact')} CROSS JOIN LATERAL (SELECT x.entity, "
            "(SELECT count(*) FROM (SELECT FROM fact_entities y WHERE y.index = x.index AND y.entity = x.entity "
            "LIMIT %(most)s) c) AS uses FROM fact_entities x WHERE x.index = %(index)s AND x.fact = w.fact "
            "ORDER BY uses, x.entity LIMIT 1) r CROSS JOIN LATERAL (SELECT fact FROM fact_entities "
            f"WHERE index = %(index)s AND entity = r.entity OFFSET 0) y {one_row('facts', 'o', 'o.key = y.fact')} "
            "WHERE o.statement = f.statement AND o.key <> f.key ORDER BY 1, 2",
            np.int64, np.int64, facts=np.unique(facts), most=_MOST_COUNTED,
        )  # fmt: skip
        found: dict[int, list[int]] = {}
        for one, copy in zip(fact.tolist(), other.tolist(), strict=True):
            found.setdefault(one, []).append(copy)
        return found

    def top(self, count: int) -> Keys:
        """Return the entities that the most chunks mention."""
        (found,) = self._columns(
            "SELECT number FROM entities WHERE index = %(index)s AND NOT is_address ORDER BY chunks DESC, number "
            "LIMIT %(count)s",
            np.int64, count=min(count, 1 << 62),
        )  # fmt: skip
        return found  # type: ignore[no-any-return]

    def shown(self) -> tuple[Mapping[int, Shown], Mapping[int, int]]:
        """Return what edits show of entities, and the entities of names that no document writes."""
        if not self.has_hidden:
            return {}, {}
        rows = self._reads.rows("SELECT value FROM settings WHERE index = %s AND name = %s", (self._reads.index, EDITS))
        changes = GraphEdits(rows[0][0] if rows else "").shown()
        numbers = sorted({number for own, _ in changes for number in own})
        known = self.of_spellings(np.array(numbers, np.int64)) if numbers else {}
        shown: dict[int, Shown] = {}
        new_names: dict[int, int] = {}
        for own, change in changes:
            entity = next((known[number] for number in own if number in known), None)
            if entity is None:
                continue
            before = shown.get(entity, _AS_IS)
            shown[entity] = Shown(*(old if new is None else new for old, new in zip(before, change, strict=True)))
            if change.name:
                new_names[hash64(normalise(change.name))] = entity
        return shown, new_names


class _ViewGraph:
    """The graph of the chunks in a scope, from a view in memory."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._view = view = _VIEWS.get(reads)
        self.linked_share = view.bridged
        self.has_hidden = view.hidden is not None
        self._first = len(view.chunk_keys)

    def count_entities(self) -> int:
        """Count the entities that are no addresses."""
        return int((~self._view.is_address).sum())

    def _entities(self, entities: Keys) -> Index:
        """Return the positions of entities."""
        return np.searchsorted(self._view.entity_ids, entities)

    def hidden(self, facts: Keys) -> Flags:
        """Return which facts are hidden."""
        if self._view.hidden is None:
            return np.zeros(len(facts), np.bool_)
        found: Flags = self._view.hidden[np.searchsorted(self._view.fact_keys, facts)]
        return found

    def of_spellings(self, spellings: Keys) -> dict[int, int]:
        """Return the entities of spellings."""
        rows = self._reads.rows(
            "SELECT spelling, key FROM names WHERE index = %s AND spelling = ANY(%s)", (self._reads.index, spellings)
        )
        known = self.of_names(np.array([row[1] for row in rows], np.int64))
        return {spelling: known[key][0] for spelling, key in rows if key in known}

    def of_names(self, names: Keys) -> dict[int, tuple[int, bool]]:
        """Return the entities of names, and whether each is an address."""
        known = self._view.name_keys
        if len(known) == 0 or len(names) == 0:
            return {}
        place = np.minimum(np.searchsorted(known, names), len(known) - 1)
        entity = np.where(known[place] == names, self._view.name_entity[place], -1)
        there = entity >= 0
        rows = zip(
            self._view.entity_ids[entity[there]].tolist(), self._view.is_address[entity[there]].tolist(), strict=True
        )
        return dict(zip(names[there].tolist(), rows, strict=True))

    def counts(self, entities: Keys) -> tuple[Keys, Flags, Flags]:
        """Return how many chunks mention entities, and whether each is a subject and an address."""
        at = self._entities(entities)
        return self._view.chunk_counts(at), self._view.are_subjects(at), self._view.are_addresses(at)

    def names(self, entities: Keys) -> list[NameRow]:
        """Return the names of entities, with what chunks in scope claim about them."""
        counts, names = self._view.names_of(self._entities(entities))
        keys = self._view.name_keys[names].tolist()
        owner = dict(zip(keys, np.repeat(entities, counts).tolist(), strict=True))
        uses = self._view.name_uses
        used = {} if uses is None else dict(zip(keys, uses[names].tolist(), strict=True))
        rows = self._reads.rows(
            "SELECT n.key, n.surface, n.spelling, c.chunk, c.type, c.description FROM names n "
            "LEFT JOIN claims c ON c.index = n.index AND c.spelling = n.spelling AND c.name = n.key "
            "WHERE n.index = %s AND n.key = ANY(%s) ORDER BY n.key, c.chunk, c.position",
            (self._reads.index, np.array(keys, np.int64)),
        )
        inside = self._reads.scope.sees(np.array([-1 if row[3] is None else row[3] for row in rows], np.int64))
        return [
            NameRow(owner[key], key, surface, spelling, used.get(key, 0), *(claim if seen else (None, None, None)))
            for (key, surface, spelling, *claim), seen in zip(rows, inside.tolist(), strict=True)
        ]

    def subjects(self, chunks: Keys) -> tuple[Pairs, Scores, Scores]:
        """Return the subjects of chunks: how many, and which; the total weight of each chunk, and their degrees."""
        at = np.searchsorted(self._view.chunk_keys, chunks)
        counts, entities = self._view.subjects_of(at)
        degrees = self._view.degrees_of(self._first + entities)
        return (counts, self._view.entity_ids[entities]), self._view.totals_of(at), degrees

    def degrees(self, entities: Keys) -> Scores:
        """Return the number of neighbours of entities."""
        return self._view.degrees_of(self._first + self._entities(entities))

    def about(self, entities: Keys) -> Pairs:
        """Return entities and the chunks whose subjects they are."""
        counts, chunks = self._view.chunks_about(self._entities(entities))
        return np.repeat(entities, counts), self._view.chunk_keys[chunks]

    def edges(self, nodes: Keys, is_chunk: Flags, to: Kind | None, limit: int | None) -> Edges:
        """Return the edges of nodes."""
        view = self._view
        at = np.where(is_chunk, np.searchsorted(view.chunk_keys, nodes), self._first + self._entities(nodes))
        counts, targets, weights = view.neighbours(at)
        counts, targets, weights = strongest(counts, targets, weights, self._first, to, limit)
        to_chunk = targets < self._first
        keys = np.empty(len(targets), np.int64)
        keys[to_chunk] = view.chunk_keys[targets[to_chunk]]
        keys[~to_chunk] = view.entity_ids[targets[~to_chunk] - self._first]
        return Edges(counts, to_chunk, keys, weights, view.totals_of(at), view.degrees_of(targets))

    def facts_of(self, entities: Keys, *, joint: bool, limit: int | None) -> Keys:
        """Return the facts that hold any entity, or all, in order of key."""
        counts, found = self._view.facts_of(self._entities(np.unique(entities)), limit)
        facts, uses = np.unique(found, return_counts=True)
        return self._view.fact_keys[facts[uses >= (len(counts) if joint else 1)]]

    def fact_rows(self, facts: Keys) -> tuple[Scores, Keys, Keys]:
        """Return the weights of facts, and their entities: how many, and which."""
        at = np.searchsorted(self._view.fact_keys, facts)
        counts, entities = self._view.entities_of(at)
        return self._view.fact_weight[at], counts, self._view.entity_ids[entities]

    def fact_copies(self, facts: Keys) -> dict[int, list[int]]:
        """Return the duplicates of facts, by key. Only facts about the rarest entity of a fact are compared with it."""
        view, copies = self._view, {}
        for fact, at in zip(facts.tolist(), np.searchsorted(view.fact_keys, facts).tolist(), strict=True):
            counts, found = view.facts_of(view.entities_of(np.array([at]))[1])
            near = min(np.split(found, counts.cumsum()[:-1]), key=len)
            same = near[(view.fact_statement[near] == view.fact_statement[at]) & (near != at)]
            copies[fact] = view.fact_keys[same].tolist()
        return copies

    def top(self, count: int) -> Keys:
        """Return the entities that the most chunks mention."""
        things = np.flatnonzero(~self._view.is_address)
        order = np.lexsort((self._view.entity_ids[things], -self._view.chunk_counts(things)))
        return self._view.entity_ids[things[order[:count]]]

    def shown(self) -> tuple[Mapping[int, Shown], Mapping[int, int]]:
        """Return what edits show of entities, and the entities of names that no document writes."""
        ids = self._view.entity_ids
        shown = {int(ids[at]): change for at, change in self._view.shown.items()}
        return shown, {number: int(ids[at]) for number, at in self._view.new_names.items()}


class _Views:
    """The last views of scopes. Safe to use from many threads."""

    def __init__(self) -> None:
        self._views: OrderedDict[bytes, GraphView] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, reads: Reads) -> GraphView:
        """Return the view of the chunks in scope."""
        chunks = reads.scope.chunks
        if chunks is None:
            hidden = reads.scope.hidden
            every = reads.rows("SELECT key FROM chunks WHERE index = %s ORDER BY key", (reads.index,))
            chunks = np.setdiff1d(np.array([row[0] for row in every], np.int64), hidden)
        if len(chunks) > MOST_IN_SCOPE:
            raise DatabaseError(
                f"the filter selects {len(chunks):,} passages, and the graph of a scope is built in memory for up to "
                f"{MOST_IN_SCOPE:,}: narrow the filter, query with use_graph=False, or give each tenant an index of "
                "its own (index=... in the address)"
            )
        with reads.cursor() as cursor:
            edits, least = graph_settings(cursor, reads.index)
            key = hashlib.blake2b(chunks.tobytes())
            key.update(repr((reads.database.address, reads.index, edits.text, least)).encode())
            with self._lock:
                found = self._views.get(key.digest())
                if found is not None:
                    self._views.move_to_end(key.digest())
                    return found
            rows = read_rows(cursor, reads.index, chunks, lower=False)
            names = np.unique(rows.mentions[1])
            spellings = np.unique(rows.mentions[2])
            cursor.execute(
                "SELECT spelling, gram FROM name_grams WHERE index = %s AND spelling = ANY(%s)",
                (reads.index, spellings),
            )
            grams = np.array(cursor.fetchall(), np.int64).reshape(-1, 2)
            pairs = (_NONE, _NONE) if least is None else similar_names(cursor, reads.index, least, names)
            view = build_view(graph_tables(rows, (grams[:, 0], grams[:, 1])), pairs, edits)
        used = np.bincount(np.searchsorted(view.name_keys, rows.mentions[1]), minlength=len(view.name_keys))
        view = replace(view, name_uses=used)
        with self._lock:
            self._views[key.digest()] = view
            while len(self._views) > 1 and (
                len(self._views) > _MOST_VIEWS or sum(one.nbytes for one in self._views.values()) > _MOST_BYTES
            ):
                self._views.popitem(last=False)
        return view


_VIEWS = _Views()
