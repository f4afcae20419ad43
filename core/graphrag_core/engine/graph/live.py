"""The graph of an index in memory: all that queries read, and the derived tables that a change needs.

Chunks, facts and names are numbered by their row in the tables, spellings as they come; an entity has the number of the
spelling that represents it. Queries see positions without gaps: chunks and facts in the order of keys, entities in that
of their ids. So a graph that was changed gives the same results as one that is built from the remaining rows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.graph.change import (
    COUNTS,
    MENTION,
    NONE,
    SUBJECT,
    EntityCounts,
    GraphRows,
    Members,
    Merges,
    Names,
    Spellings,
    apply,
    link_weights,
    relate,
    rounded,
)
from graphrag_core.engine.graph.edits import GraphEdits, Shown, edited
from graphrag_core.engine.graph.sparse import (
    Array,
    Flags,
    Growing,
    Numbers,
    Pairs,
    Rows,
    Tables,
    spans,
)
from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Adjacency, Keys, Kind, Scores
from graphrag_core.text import EDGE, hash64

_T = TypeVar("_T")
_EDGE = hash64(EDGE)
_MOST_ADJACENT = 4_000_000  # edges that are put together for queries: 32 MB
_MOST_SPARSE = 8  # times the number of keys: up to this largest key a lookup table is worth its memory


_COLUMNS = {
    "spellings": (
        "entity", "counts", "titles", "mention_count", "is_place", "entity_counts", "is_address", "rank",
    ),
    "names": ("spelling", "named", "name_counts"),
    "chunks": ("foreign",),
}  # fmt: skip
_ROWS = {
    "names_of": ("spellings", "names"), "mentions_of": ("spellings", "mentions"),
    "held_of": ("spellings", "fact_names"), "aliases_of": ("spellings", "aliases"),
    "linked_facts": ("spellings", "facts"), "headings": ("spellings", "spellings"),
    "fact_linked": ("facts", "spellings"), "fact_entities": ("facts", "spellings"),
    "entity_facts": ("spellings", "facts"), "chunk_entities": ("chunks", "spellings"),
    "entity_chunks": ("spellings", "chunks"), "links": ("spellings", "spellings"),
}  # fmt: skip
_PARTS = ("starts", "counts", "indices", "data")  # of Rows


class LiveGraph:
    """The graph of all chunks in memory. It is updated with each change of the tables.

    Queries see numbers: chunks and facts have those of their keys in ascending order, entities those that follow the
    chunks, in the order of their ids. The tables must be in the order of their keys. Not safe to read while it changes.
    It is a :class:`~graphrag_core.engine.graph.change.GraphStore`.

    Attributes
    ----------
    chunk_keys, fact_keys, name_keys
        The keys of chunks and facts by number, and of all names.
    fact_weight, fact_statement
        Of facts, by number.
    entity_ids
        The hashes of the spellings that represent entities, in the order of their numbers.
    first_entity, node_limit
        The number of the first entity, and one above all numbers of chunks and entities.
    edits
        What is shown of edited entities, and the entities of names that no document writes, by hash.
    linked_share
        See the port.
    similar
        Pairs of spellings whose vectors are so similar that they are one entity.
    """

    def __init__(self, tables: Tables) -> None:
        """Make a graph that has nothing of the tables yet; see :meth:`build` and :meth:`load`."""
        self._tables = tables
        self._sizes = dict.fromkeys(tables, 0)
        self.similar: Pairs = (NONE, NONE)
        self._hidden: Flags | None = None  # which facts no query may see
        self._edge_facts: Keys = NONE
        self.edits: tuple[Mapping[int, Shown], Mapping[int, int]] = {}, {}
        self._new_spellings = dict[int, int]()
        self._know(Growing(NONE))
        # Of spellings:
        self._entity = Growing(NONE)
        self._counts = Growing(np.empty((0, len(COUNTS)), np.int32))
        self._titles, self._mention_count = (Growing(np.empty(0, np.int32)) for _ in range(2))
        self._is_place = Growing(np.empty(0, np.bool_))
        self._alias_of: dict[int, int] = {}
        self._shorts_of: defaultdict[int, set[int]] = defaultdict(set)  # the other way round
        self._merged: defaultdict[int, set[int]] = defaultdict(set)  # the other spellings of an entity
        self._have_several: Numbers = NONE  # the entities that have some, in order
        # Of entities, by the spelling that represents each: chunks and subjects.
        self._entity_counts = Growing(np.empty((0, 2), np.int32))
        self._is_address, self._rank = Growing(np.empty(0, np.bool_)), Growing(NONE)
        self._entities: Numbers = NONE
        # Of names, chunks and facts:
        self._spelling, self._named = Growing(NONE), Growing(np.empty(0, np.bool_))
        self._name_there, self._name_counts = Growing(np.empty(0, np.bool_)), Growing(np.empty((0, 2), np.int32))
        self._chunk_there, self._foreign = Growing(np.empty(0, np.bool_)), Growing(np.empty(0, np.int32))
        self._fact_there = Growing(np.empty(0, np.bool_))
        # From spellings to names, to rows of mentions, facts and aliases, and to titles:
        self._names_of, self._mentions_of, self._held_of, self._aliases_of = (Rows(NONE, NONE, 0) for _ in range(4))
        self._linked_facts = Rows(NONE, NONE, 0)
        self._headings = Rows(NONE, NONE, 0, np.empty(0, np.int32))
        # From facts and chunks, and back:
        self._fact_linked, self._fact_entities, self._entity_facts = (Rows(NONE, NONE, 0) for _ in range(3))
        self._chunk_entities, self._entity_chunks = (Rows(NONE, NONE, 0, np.empty(0, np.float32)) for _ in range(2))
        self._links = Rows(NONE, NONE, 0, np.empty(0))

    def _know(self, hashes: Growing) -> None:
        """Start with spellings, which are in the order of their hashes."""
        self._hash, self._known = hashes, hashes.values[: len(hashes)]
        self._ordered, self._spelling_place = np.arange(len(hashes)), NONE  # see spelling_order

    @classmethod
    def build(cls, tables: Tables, similar: Pairs = (NONE, NONE), edits: GraphEdits | None = None) -> LiveGraph:
        """Build the graph from all rows of the tables.

        ``similar`` are pairs of keys of names whose vectors are so similar that they are merged into one entity.
        """
        graph, edits = cls(tables), edits or GraphEdits()
        graph._know(Growing(np.unique(tables["names"]["entity"])))
        graph._grow()
        graph._edge_facts = graph._facts_holding([_EDGE])
        first, second = (graph._at("names", end) for end in similar)
        pairs = first, second, graph._spelling.values[first], graph._spelling.values[second]
        merges = Merges(
            pairs, [graph._known_slots(group) for group in edits.groups()], graph._known_slots(edits.deleted())
        ) if edits.text else Merges(pairs)  # fmt: skip
        apply(graph, graph._rows(np.arange(graph._sizes["chunks"])), merges=merges)
        valid = graph.valid(first, pairs[2]), graph.valid(second, pairs[3])
        both = valid[0][0] & valid[0][1] & valid[1][0] & valid[1][1]
        graph.similar = pairs[2][both], pairs[3][both]
        graph._number()
        if len(graph._edge_facts):
            graph._link_titles()
        graph._hide(edits)
        graph.show(edits)
        graph._edges_read = graph._edge_count
        return graph

    @classmethod
    def load(cls, tables: Tables, state: Mapping[str, Growing]) -> LiveGraph:
        """Return the graph of tables of which :meth:`state` returned these arrays. They are read when they are used."""
        graph = cls(tables)
        graph._sizes = {table: len(next(iter(columns.values()))) for table, columns in tables.items()}
        sizes = {**graph._sizes, "spellings": len(state["hash"])}
        graph._know(state["hash"])
        for kind, columns in _COLUMNS.items():
            for name in columns:
                if len(state[name]) != sizes[kind]:
                    raise ValueError(f"{name} has {len(state[name])} rows for {sizes[kind]} {kind}")
                setattr(graph, f"_{name}", state[name])
        for name, (kind, _) in _ROWS.items():
            empty = getattr(graph, f"_{name}")
            parts = {part: state[f"{name}.{part}"] for part in _PARTS if f"{name}.{part}" in state}
            if parts:
                setattr(graph, f"_{name}", Rows.of(**parts))
            else:
                empty.extend(sizes[kind])
        for table, there in (("names", "name"), ("chunks", "chunk"), ("facts", "fact")):
            setattr(graph, f"_{there}_there", Growing(np.ones(sizes[table], np.bool_)))
        for short, long in zip(*(state[f"aliases.{end}"].values.tolist() for end in ("short", "long")), strict=True):
            graph._alias_of[short] = long
            graph._shorts_of[long].add(short)
        entity, own = graph._entity.values, np.arange(len(graph._hash))
        for one in np.flatnonzero((entity >= 0) & (entity != own)).tolist():
            graph._merged[int(entity[one])].add(one)
        graph._have_several = np.array(sorted(graph._merged), np.int64)
        graph._entities = np.flatnonzero(entity == own)
        graph.similar = state["similar.first"].values, state["similar.second"].values
        graph._edge_facts = graph._facts_holding([_EDGE])
        hidden = state["hidden"].values
        if len(graph._edge_facts) or len(hidden):
            graph._hidden = np.zeros(sizes["facts"], np.bool_)
            graph._hidden[hidden] = True
        graph._number()
        graph._edges_read = graph._edge_count
        return graph

    def state(self, kept: Mapping[str, Numbers | None]) -> dict[str, Array]:
        """Return what :meth:`load` needs besides the tables without removed rows.

        ``kept`` are the rows of each table that it has then, in order; None for all. Chunks, facts and names are
        numbered by their places among them, spellings in the order of their hashes.
        """
        names = kept["names"]
        slots = distinct(self._spelling.values if names is None else self._spelling.values[names])
        slots = slots[np.argsort(self._hash.values[slots], kind="stable")]
        as_is = len(slots) == len(self._hash) and not self._new_spellings
        rows: dict[str, Numbers | None] = {**kept, "spellings": None if as_is else slots}
        places = {kind: None if those is None else _places(those, self._count(kind)) for kind, those in rows.items()}

        def placed(kind: str, numbers: Array) -> Array:
            place = places[kind]
            return numbers if place is None else place[numbers]

        found: dict[str, Array] = {"hash": self._hash.values[slots]}
        for kind, columns in _COLUMNS.items():
            for name in columns:
                values = getattr(self, f"_{name}").values
                found[name] = values if rows[kind] is None else values[rows[kind]]
        found["entity"] = np.where(found["entity"] < 0, -1, placed("spellings", found["entity"]))
        found["spelling"] = placed("spellings", found["spelling"])
        for name, (kind, to) in _ROWS.items():
            if len(part := getattr(self, f"_{name}")):
                packed = part.packed(rows[kind], places[to])
                found |= {f"{name}.{key}": array for key, array in packed.items()}
        aliases = np.array(sorted(self._alias_of.items()), np.int64).reshape(-1, 2)
        return {
            **found,
            "aliases.short": placed("spellings", aliases[:, 0]),
            "aliases.long": placed("spellings", aliases[:, 1]),
            "hidden": NONE if self._hidden is None else placed("facts", np.flatnonzero(self._hidden)),
            "similar.first": placed("spellings", self.similar[0]),
            "similar.second": placed("spellings", self.similar[1]),
        }

    def _count(self, kind: str) -> int:
        return len(self._hash) if kind == "spellings" else self._sizes[kind]

    def arrays(self) -> dict[str, Array]:
        """Return what is decided and derived, in one form for all graphs of the same rows.

        Chunks, facts and names are numbered by their places among those that are there, spellings in the order of
        their hashes.
        """
        chunks, facts, names = (
            np.flatnonzero(there.values) for there in (self._chunk_there, self._fact_there, self._name_there)
        )
        slots = distinct(self._spelling.values[names])
        slots = slots[np.argsort(self._hash.values[slots])]
        place = np.full(len(self._hash) + 1, -1, np.int64)  # the last for none
        place[slots] = np.arange(len(slots))

        def pairs(rows: Rows, owners: Numbers) -> Array:
            counts, found, values = rows.gather(owners)
            parts = np.repeat(np.arange(len(owners)), counts), place[found], values.astype(np.int64)
            order = np.lexsort((parts[1], parts[0]))
            return np.array([part[order] for part in parts])

        of_spellings = {"counts": self._counts, "titles": self._titles, "mentions": self._mention_count}
        found = {name: part.values[slots] for name, part in of_spellings.items()}
        found |= {"named": self._named.values[names], "name_counts": self._name_counts.values[names]}
        aliases = sorted((int(place[one]), int(place[other])) for one, other in self._alias_of.items())
        return {
            **found,
            "entity": place[self._entity.values[slots]],
            "headings": pairs(self._headings, slots),
            "aliases": np.array(aliases, np.int64).reshape(len(aliases), 2).T,
            "linked": pairs(self._fact_linked, facts)[:2],
            "fact_entities": pairs(self._fact_entities, facts)[:2],
            "chunk_entities": pairs(self._chunk_entities, chunks),
            "hidden": NONE if self._hidden is None else np.flatnonzero(self._hidden[facts]),
            "similar": np.array([place[end] for end in self.similar]),
        }

    def _link_titles(self) -> None:
        """Let the facts of explicit edges hold the title of the document that they lead to."""
        edges = self._at("facts", self._edge_facts)
        owner, spelling = self._stated_in(edges)
        title = self._titles_of_addresses()[spelling]
        linked = self._is_place.values[spelling] & (title >= 0)
        facts, spelling = edges[owner[linked]], title[linked]
        self._fact_linked.append(facts, spelling)
        self._linked_facts.append(spelling, facts)
        relate(self, edges)

    def _titles_of_addresses(self) -> Numbers:
        """Return for each address the spelling that is the title of its chunks and of no others; -1 for none."""
        chunk, spelling, subject = self._mentioned(np.arange(self._sizes["chunks"]))
        is_address, size = self._is_place.values, len(self._hash)
        rows = np.flatnonzero(subject & ~is_address[spelling])
        titled, first = np.unique(chunk[rows], return_index=True)
        title = np.full(self._sizes["chunks"], -1, np.int64)
        title[titled] = spelling[rows[first]]
        uses = np.bincount(title[titled], minlength=size)
        rows = np.flatnonzero(subject & is_address[spelling])
        lowest, highest = np.full(size, size), np.full(size, -1)
        np.minimum.at(lowest, spelling[rows], title[chunk[rows]])
        np.maximum.at(highest, spelling[rows], title[chunk[rows]])
        count = np.bincount(spelling[rows], minlength=size)
        alone = (lowest == highest) & (highest >= 0)
        alone[alone] = uses[highest[alone]] == count[alone]
        found: Numbers = np.where(alone, highest, -1)
        return found

    def _hide(self, edits: GraphEdits) -> None:
        """Hide the facts of deleted relations, of triples that lack an end, and of edges to what is not there."""
        gone = NONE
        if edits.text:
            lacking = self._facts_holding(edits.deleted())
            lacking = lacking[self._tables["facts"]["triple"][self._at("facts", lacking)]]
            gone = distinct(edits.hidden(self), lacking)
        if len(self._edge_facts) + len(gone) == 0:
            return
        keys = self._tables["facts"]["key"]
        self._hidden = among(keys, self._edge_facts) & (self._fact_entities.counts < 2) | among(keys, gone)
        relate(self, np.flatnonzero(self._hidden))

    def _known_slots(self, hashes: Sequence[int]) -> list[int]:
        slots = self.slots(hashes)
        found: list[int] = slots[slots >= 0].tolist()
        return found

    def _facts_holding(self, hashes: Sequence[int]) -> Keys:
        """Return the keys of the facts that hold spellings, given by hash, in order."""
        _, rows = self._of_spellings(self._held_of, np.array(self._known_slots(hashes), np.int64))
        return distinct(self._tables["fact_names"]["fact"][rows].astype(np.int64))

    def show(self, edits: GraphEdits) -> None:
        """Show what edits say of entities."""
        self.edits = edited(edits, self.find)

    def attach(self, tables: Tables) -> None:
        """Follow tables to which rows were appended since."""
        self._tables = tables

    def _number(self) -> None:
        """Compute the positions of chunks, facts and entities that queries see."""
        chunks, facts = (
            slice(None) if there.values.all() else np.flatnonzero(there.values)
            for there in (self._chunk_there, self._fact_there)
        )
        self._chunks, self._facts = (None if isinstance(rows, slice) else rows for rows in (chunks, facts))
        self._chunk_position = None if self._chunks is None else np.cumsum(self._chunk_there.values) - 1
        self._fact_position = None if self._facts is None else np.cumsum(self._fact_there.values) - 1
        self.chunk_keys: Keys = self._tables["chunks"]["key"][chunks]
        self.fact_keys: Keys = self._tables["facts"]["key"][facts]
        self.fact_weight = self._tables["facts"]["weight"][facts]
        self.fact_statement = self._tables["facts"]["statement"][facts]
        self.name_keys: Keys = self._tables["names"]["key"]
        self.first_entity, self.node_limit = len(self.chunk_keys), len(self.chunk_keys) + len(self._entities)
        self.entity_ids: Numbers = self._hash.values[self._entities]
        self._rank.values[self._entities] = np.arange(len(self._entities))
        self._adjacency: tuple[Rows, npt.NDArray[np.float32]] | None = None  # all mentions and totals, by position
        self._edges_read = 0
        self._scopes: Any = None  # see in_scopes
        self._edge_count = 2 * int(self._chunk_entities.counts.sum())
        self.linked_share = float((self._foreign.values[chunks] > 0).mean()) if len(self.chunk_keys) else 0.0

    # -- what a query reads: see GraphReads

    @property
    def key_limit(self) -> int:
        """The keys of all chunks, also of removed ones that the tables still have, are below this number."""
        keys = self._tables["chunks"]["key"]
        return int(keys[-1]) + 1 if len(keys) else 0

    @property
    def has_edits(self) -> bool:
        """Whether there are explicit edges or deleted relations."""
        return self._hidden is not None

    def hidden(self, facts: Keys) -> Flags:
        """Return which facts no query may see."""
        if self._hidden is None:
            return np.zeros(len(facts), np.bool_)
        return self._hidden[facts if self._facts is None else self._facts[facts]]

    def find(self, spellings: Sequence[int]) -> dict[int, int]:
        """Return the entities of spellings, given by hash; those that are no names are left out."""
        slots = self.slots(spellings)
        known = np.flatnonzero(slots >= 0)
        entities = self._entity.values[slots[known]]
        known, entities = known[entities >= 0], entities[entities >= 0]
        numbers = (self.first_entity + self._rank.values[entities]).tolist()
        return {spellings[at]: number for at, number in zip(known.tolist(), numbers, strict=True)}

    def slots(self, hashes: Sequence[int]) -> Numbers:
        """Return the numbers of the spellings with some hashes; -1 for those that are not there."""
        wanted = np.array(hashes, np.int64)
        if len(self._known) == 0:
            return np.array([self._new_spellings.get(number, -1) for number in hashes], np.int64)
        at = np.minimum(np.searchsorted(self._known, wanted), len(self._known) - 1)
        found = np.where(self._known[at] == wanted, at, -1)
        if self._new_spellings:
            for place in np.flatnonzero(found < 0).tolist():
                found[place] = self._new_spellings.get(hashes[place], -1)
        return found

    def of_names(self, names: Keys) -> Keys:
        """Return the entities of names, given by key; -1 for one that is no name."""
        if len(self.name_keys) == 0 or len(names) == 0:
            return np.full(len(names), -1, np.int64)
        at = np.minimum(np.searchsorted(self.name_keys, names), len(self.name_keys) - 1)
        entity = self._entity.values[self._spelling.values[at]]
        valid, alive = self.valid(at, self._spelling.values[at])
        found = (self.name_keys[at] == names) & valid & alive
        return np.where(found, self.first_entity + self._rank.values[entity], -1)

    def names(self, entities: Keys) -> Pairs:
        """Return the names of entities: how many each has, and their keys."""
        counts, rows = self._names_in(self._slots(entities))
        return counts, self.name_keys[rows]

    def name_terms(self, names: Keys) -> tuple[Keys, npt.NDArray[np.uint32]]:
        """Return the terms of names, given by key, as hashes: how many each has, and which."""
        table = self._tables["name_terms"]
        rows, counts = spans(table["name"], names)
        return counts, table["term"][rows]

    def _names_in(self, entities: Numbers) -> Pairs:
        """Return the names of entities, given by spelling: how many each has, and their rows."""
        counts, names, _ = self._names_of.gather(entities)
        several = np.flatnonzero(among(entities, self._have_several)).tolist()
        if several:
            owner = np.arange(len(entities)).repeat(counts)
            of_merged, others = np.array([(at, one) for at in several for one in self._merged[int(entities[at])]]).T
            at, more = self._of_spellings(self._names_of, others)
            owner, names = np.concatenate([owner, of_merged[at]]), np.concatenate([names, more])
            order = np.lexsort((names, owner))
            counts, names = np.bincount(owner, minlength=len(entities)), names[order]
        valid, alive = self.valid(names, self._spelling.values[names])
        if not (kept := valid & alive).all():
            counts, names = _counted(counts, kept), names[kept]
        return counts, names

    def ids(self, entities: Keys) -> Keys:
        """Return the hash of the spelling that represents each entity."""
        return self.entity_ids[entities - self.first_entity]

    def are_addresses(self, entities: Keys) -> Flags:
        """Return whether each entity is the address of a section."""
        return self._is_address.values[self._slots(entities)]

    def counts(self, entities: Keys) -> tuple[Keys, Flags]:
        """Return how many chunks mention each entity, and whether it is the subject of any."""
        slots = self._slots(entities)
        counts = self._entity_counts.values[slots]
        return counts[:, 0].astype(np.int64), counts[:, 1] > 0

    def subjects(self, chunks: Keys) -> Pairs:
        """Return the entities that chunks are about: how many each has, and which."""
        counts, entities, weights = self._chunk_entities.gather(self._chunk_rows(chunks))
        subject = weights == SUBJECT
        return _counted(counts, subject), self.first_entity + self._rank.values[entities[subject]]

    def about(self, entities: Keys) -> Pairs:
        """Return the chunks whose subject each entity is: how many, and which."""
        counts, chunks, weights = self._entity_chunks.gather(self._slots(entities))
        subject = weights == SUBJECT
        return _counted(counts, subject), self._chunk_positions(chunks[subject])

    def chunks_of_facts(self, facts: Keys) -> Keys:
        """Return the chunk of each fact."""
        rows = facts if self._facts is None else self._facts[facts]
        return np.searchsorted(self.chunk_keys, self._tables["facts"]["chunk"][rows])

    def fact_places(self, facts: Keys) -> Pairs:
        """Return the chunk of each fact, and its place in the chunk. The facts of a chunk have consecutive keys."""
        rows = facts if self._facts is None else self._facts[facts]
        table = self._tables["facts"]
        chunks = table["chunk"][rows]
        first = table["key"][np.searchsorted(table["chunk"], chunks)]
        return np.searchsorted(self.chunk_keys, chunks), table["key"][rows] - first

    def facts_of_chunks(self, chunks: Keys) -> Keys:
        """Return the facts of chunks."""
        _, facts = self._facts_in(self._chunk_rows(chunks))
        return facts if self._fact_position is None else self._fact_position[facts]

    def facts_in(self, chunks: Flags, limit: int) -> Flags:
        """Return which facts are those of some chunks, both by key. Keys of facts are below ``limit``."""
        table = self._tables["facts"]
        return by_key(table["key"], chunks[table["chunk"]], limit)

    def are_named(self, names: Keys, chunks: Flags) -> Flags:
        """Return which names, given by key, some chunks mention, which are flags by key."""
        table = self._tables["mentions"]
        owner, rows = self._of_spellings(self._mentions_of, self._spelling.values[self._at("names", names)])
        used = chunks[table["chunk"][rows]] & (table["name"][rows] == names[owner])
        found = np.zeros(len(names), np.bool_)
        found[owner[used]] = True
        return found

    def names_in(self, chunks: Flags, limit: int) -> Flags:
        """Return which names some chunks mention, both by key. Keys of names are below ``limit``."""
        table = self._tables["mentions"]
        found = np.zeros(limit, np.bool_)
        found[table["name"][spans(table["chunk"], np.flatnonzero(chunks))[0]]] = True
        return found

    def entities_of(self, facts: Keys) -> Pairs:
        """Return the entities that facts hold: how many each has, and which."""
        counts, entities, _ = self._fact_entities.gather(facts if self._facts is None else self._facts[facts])
        return counts, self.first_entity + self._rank.values[entities]

    def facts_of(self, entities: Keys, limit: int | None = None) -> Pairs:
        """Return the facts that hold each entity, in order, so many at most: how many, and which."""
        counts, facts, _ = self._entity_facts.gather(self._slots(entities), limit)
        return counts, facts if self._fact_position is None else self._fact_position[facts]

    def joint_facts(self, entities: Keys, limit: int | None = None) -> Keys:
        """Return the facts that hold all entities, in order."""
        return in_all(*self.facts_of(entities, limit))

    def edges(self, nodes: Keys, to: Kind | None = None, limit: int | None = None) -> Adjacency:
        """Return the edges of nodes."""
        found = self.walk(nodes)
        entities = np.flatnonzero(nodes >= self.first_entity)
        if to != "chunks" and len(entities):
            counts, others, sums = self._links.gather(self._slots(nodes[entities]))
            found = with_links(found, entities.repeat(counts), self.first_entity + self._rank.values[others], sums)
        return strongest(found, self.first_entity, to, limit)

    def walk(self, nodes: Keys) -> Adjacency:
        """Return the mentions of nodes.

        Those of all are put together for queries: of a new graph at once, of one that changed when so many were read
        that it pays.
        """
        if self._adjacency is None:
            edges = self._read_mentions(nodes)
            self._edges_read += len(edges.targets)
            if self._edges_read < self._edge_count or self._edge_count > _MOST_ADJACENT:
                return edges
            every = self._read_mentions(np.arange(self.node_limit))
            owners = np.repeat(np.arange(self.node_limit), every.counts)
            self._adjacency = Rows(owners, every.targets, self.node_limit, every.weights), every.totals
            return edges
        rows, totals = self._adjacency
        return Adjacency(*rows.gather(nodes), totals[nodes])

    def _read_mentions(self, nodes: Keys) -> Adjacency:
        is_chunk = nodes < self.first_entity
        entities = self._slots(nodes[~is_chunk])
        of_chunks = self._chunk_entities.gather(self._chunk_rows(nodes[is_chunk]))
        of_entities = self._entity_chunks.gather(entities)
        counts = np.empty(len(nodes), np.int64)
        counts[is_chunk], counts[~is_chunk] = of_chunks[0], of_entities[0]
        is_of_chunk = is_chunk.repeat(counts)
        targets, weights = np.empty(len(is_of_chunk), np.int64), np.empty(len(is_of_chunk), np.float32)
        targets[is_of_chunk] = self.first_entity + self._rank.values[of_chunks[1]]
        targets[~is_of_chunk] = self._chunk_positions(of_entities[1])
        weights[is_of_chunk], weights[~is_of_chunk] = of_chunks[2], of_entities[2]
        totals = np.bincount(np.arange(len(nodes)).repeat(counts), weights, len(nodes)).astype(np.float32)
        return Adjacency(counts, targets, weights, totals)

    def degrees(self, nodes: Keys, most: npt.NDArray[np.float64] | None = None) -> Scores:  # noqa: ARG002 - they are known
        """Return the number of mentions of each node."""
        degrees, is_chunk = np.empty(len(nodes), np.float32), nodes < self.first_entity
        degrees[is_chunk] = self._chunk_entities.counts[self._chunk_rows(nodes[is_chunk])]
        degrees[~is_chunk] = self._entity_chunks.counts[self._slots(nodes[~is_chunk])]
        return degrees

    def in_scopes(self, make: Callable[[LiveGraph], _T]) -> _T:
        """Return what every scope of this state needs, made by the first."""
        if self._scopes is None:
            self._scopes = make(self)  # another reader may do the same
        found: _T = self._scopes
        return found

    def spelling_order(self) -> tuple[Numbers, Numbers]:
        """Return all spellings in the order of their hashes, and the place of each in this order."""
        order, known = self._ordered, len(self._ordered)
        if known < len(self._hash) or len(self._spelling_place) != len(self._hash):
            new = np.arange(known, len(self._hash))
            new = new[np.argsort(self._hash.values[new])]
            places = np.searchsorted(self._hash.values[order], self._hash.values[new])
            order = np.insert(order, places, new)
            place = np.empty(len(order), np.int64)
            place[order] = np.arange(len(order))
            self._ordered, self._spelling_place = order, place  # another reader may do the same
            return order, place
        return order, self._spelling_place

    def uses(self, names: Keys) -> Keys:
        """Return how many chunks mention each name, given by key."""
        found: Keys = self._name_counts.values[self._at("names", names), 0].astype(np.int64)
        return found

    def top(self, count: int) -> Keys:
        """Return the entities that the most chunks mention, most first, without addresses."""
        return most_mentioned(self, np.arange(self.first_entity, self.node_limit), count)

    def _slots(self, entities: Keys) -> Numbers:
        return self._entities[entities - self.first_entity]

    def _chunk_rows(self, chunks: Keys) -> Numbers:
        return chunks if self._chunks is None else self._chunks[chunks]

    def _chunk_positions(self, rows: Numbers) -> Numbers:
        return rows if self._chunk_position is None else self._chunk_position[rows]

    @property
    def nbytes(self) -> int:
        """Bytes held in memory, without the tables."""
        parts = [part for part in vars(self).values() if isinstance(part, Growing | Rows)]
        return sum(part.nbytes for part in parts)

    # -- following the tables

    def update(self, removed_chunks: Keys, removed_names: Keys) -> None:
        """Follow the tables, to which rows were appended, and of which the rows of some chunks and names are void."""
        gone = np.sort(self._at("chunks", removed_chunks))
        known = self._sizes["chunks"]
        removed = self._rows(gone[gone < known])
        self._grow()
        self._chunk_there.values[gone] = False
        self._fact_there.values[spans(self._tables["facts"]["chunk"], np.sort(removed_chunks))[0]] = False
        self._name_there.values[self._at("names", removed_names)] = False
        apply(self, self._rows(known + np.flatnonzero(self._chunk_there.values[known:])), removed)
        self._number()

    def _grow(self) -> None:
        """Make room for the rows that were appended to the tables, and find what uses each spelling."""
        tables, before = self._tables, self._sizes
        self._sizes = {table: len(next(iter(columns.values()))) for table, columns in tables.items()}
        chunks, facts, names = (self._sizes[table] for table in ("chunks", "facts", "names"))
        new = np.arange(before["names"], names)
        self._spelling.append(self._new_slots(tables["names"]["entity"][new]))
        self._name_there.extend(len(new), fill=True)
        self._chunk_there.extend(chunks - before["chunks"], fill=True)
        self._fact_there.extend(facts - before["facts"], fill=True)
        spellings = len(self._hash)
        for size, parts in (
            (names, (self._named, self._name_counts)),
            (chunks, (self._foreign,)),
            (
                spellings,
                (
                    self._counts, self._titles, self._mention_count, self._is_place, self._entity_counts,
                    self._is_address,
                ),
            ),
        ):  # fmt: skip
            for part in parts:
                part.extend(size - len(part))
        for part in (self._entity, self._rank):
            part.extend(spellings - len(part), -1)
        for rows in (
            self._names_of, self._mentions_of, self._held_of, self._aliases_of, self._linked_facts, self._headings,
            self._entity_facts, self._entity_chunks, self._links,
        ):  # fmt: skip
            rows.extend(spellings)
        for rows in (self._fact_linked, self._fact_entities):
            rows.extend(facts)
        self._chunk_entities.extend(chunks)
        spelling = self._spelling.values
        self._names_of.append(spelling[new], new)
        self._is_place.values[spelling[new][tables["names"]["is_address"][new]]] = True
        for rows, table, columns in (
            (self._mentions_of, "mentions", ("name",)),
            (self._held_of, "fact_names", ("name",)),
            (self._aliases_of, "aliases", ("short", "long")),
        ):
            new = np.arange(before[table], self._sizes[table])
            for column in columns:
                rows.append(spelling[self._at("names", tables[table][column][new])], new)

    def _new_slots(self, hashes: Numbers) -> Numbers:
        """Return the numbers of the spellings with some hashes; new ones get the next."""
        at = np.minimum(np.searchsorted(self._known, hashes), max(len(self._known) - 1, 0))
        is_new = self._known[at] != hashes if len(self._known) else np.ones(len(hashes), np.bool_)
        for place in np.flatnonzero(is_new).tolist():
            number = int(hashes[place])
            if (slot := self._new_spellings.get(number, -1)) < 0:
                slot = self._new_spellings[number] = len(self._hash)
                self._hash.append([number])
            at[place] = slot
        return at

    def _rows(self, chunks: Numbers) -> GraphRows:
        """Return the rows of chunks."""
        tables, keys = self._tables, self._tables["chunks"]["key"][chunks]
        rows, counts = spans(tables["mentions"]["chunk"], keys)
        name = self._at("names", tables["mentions"]["name"][rows])
        mentions = (
            np.repeat(chunks, counts), name, self._spelling.values[name], tables["names"]["is_address"][name],
            tables["mentions"]["subject"][rows],
        )  # fmt: skip
        facts, counts = spans(tables["facts"]["chunk"], keys)
        chunk, fact_keys = np.repeat(chunks, counts), tables["facts"]["key"][facts]
        rows, counts = spans(tables["fact_names"]["fact"], fact_keys)
        name = self._at("names", tables["fact_names"]["name"][rows])
        held = np.repeat(facts, counts), name, self._spelling.values[name]
        rows = np.flatnonzero(among(tables["aliases"]["chunk"], keys))
        return GraphRows(
            chunks, mentions, (facts, chunk, tables["facts"]["weight"][facts], tables["facts"]["triple"][facts]), held,
            self._alias_ends(rows),
        )  # fmt: skip

    def _alias_ends(self, rows: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Return the short and the long names of aliases, and their spellings."""
        short, long = (self._at("names", self._tables["aliases"][end][rows]) for end in ("short", "long"))
        return short, long, self._spelling.values[short], self._spelling.values[long]

    # -- the store of a change, see GraphStore

    def headings(self, spelling: Numbers, title: Numbers) -> Numbers:
        """Return how many chunks under titles have spellings as headings."""
        return _values(self._headings, spelling, title).astype(np.int64)

    def set_headings(self, spelling: Numbers, title: Numbers, chunks: Numbers) -> None:
        """Store how many chunks under titles have spellings as headings."""
        kept = chunks > 0
        self._headings.splice((spelling, title), (spelling[kept], title[kept]), chunks[kept].astype(np.int32))

    def spellings(self, spellings: Numbers) -> Spellings:
        """Return what is known of spellings."""
        entity = self._entity.values[spellings]
        return Spellings(
            self._counts.values[spellings].T.astype(np.int64), self._titles.values[spellings].astype(np.int64),
            entity >= 0, np.maximum(entity, 0),
            {one: self._alias_of[one] for one in self._alias_of.keys() & set(spellings.tolist())}
            if self._alias_of else {},
        )  # fmt: skip

    def set_spellings(
        self,
        spellings: Numbers,
        found: Spellings,
        mentions: Numbers,
        there: Flags,  # noqa: ARG002 - the counts of one without names are kept
        others: Members,
    ) -> None:
        """Store what is known of spellings."""
        self._counts.values[spellings] = found.counts.T
        self._titles.values[spellings] = found.titles
        self._mention_count.values[spellings] = mentions
        aliases = dict(zip(others.spelling, others.alias_of, strict=True))
        if self._alias_of:
            aliases |= dict.fromkeys(self._alias_of.keys() & set(spellings.tolist()))
        for short, long in {**aliases, **found.alias_of}.items():
            if (before := self._alias_of.pop(short, None)) is not None:
                self._shorts_of[before].discard(short)
            if long is not None:
                self._alias_of[short] = long
                self._shorts_of[long].add(short)
        numbers = np.concatenate([spellings, np.array(others.spelling, np.int64)])
        entity = np.concatenate(
            [np.where(found.alive, found.entity, -1), [-1 if one is None else one for one in others.entity]]
        ).astype(np.int64)
        before = self._entity.values[numbers]
        self._entity.values[numbers] = entity
        moved = np.flatnonzero((before != entity) & (((before >= 0) & (before != numbers)) | (entity != numbers)))
        for one, was, now in zip(*(column[moved].tolist() for column in (numbers, before, entity)), strict=True):
            if was not in (-1, one):
                self._merged[was].discard(one)
            if now not in (-1, one):
                self._merged[now].add(one)
        if len(moved):
            self._have_several = np.array(sorted(one for one, others_ in self._merged.items() if others_), np.int64)

    def hashes(self, spellings: Numbers) -> Numbers:
        """Return the hashes of spellings."""
        return self._hash.values[spellings]

    def names_of(self, spellings: Numbers) -> Names:
        """Return the names of spellings."""
        _, names = self._of_spellings(self._names_of, spellings)
        names = names[self._name_counts.values[names, 0] > 0]
        return Names(
            names, self._spelling.values[names], self._tables["names"]["is_address"][names],
            self._name_counts.values[names].T.astype(np.int64), self._named.values[names],
        )  # fmt: skip

    def set_names(self, names: Names, unused: Names) -> None:
        """Store how names are used and what they are."""
        self._name_counts.values[names.name] = names.counts.T
        self._named.values[names.name] = names.named
        self._name_counts.values[unused.name] = 0

    def aliases(self, ends: Numbers, shorts: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Return the aliases of short spellings, see the protocol."""
        rows = distinct(self._aliases_of.gather(ends)[1])
        shorts = distinct(shorts, self._alias_ends(rows)[2])
        rows = distinct(self._aliases_of.gather(shorts)[1])
        rows = rows[self._chunk_there.values[self._at("chunks", self._tables["aliases"]["chunk"][rows])]]
        found = self._alias_ends(rows)
        own = among(found[2], shorts)
        return found[0][own], found[1][own], found[2][own], found[3][own]

    def valid(self, names: Numbers, spellings: Numbers) -> tuple[Flags, Flags]:
        """Return which names are an entity's, and which of their spellings are names so far."""
        named = self._named.values[names] & (self._name_counts.values[names, 0] > 0)
        return named, self._entity.values[spellings] >= 0

    def members(self, ahead: Sequence[int], longs: Sequence[int]) -> Members:
        """Return what is known of spellings, and of those that stand for one of the long names."""
        shorts = (self._shorts_of[long] for long in longs if long in self._shorts_of)
        found = sorted({*ahead}.union(*shorts))
        numbers = np.array(found, np.int64)
        return Members(
            found, [self._alias_of.get(one) for one in found], self._mention_count.values[numbers].tolist(),
            [None if one < 0 else one for one in self._entity.values[numbers].tolist()],
        )  # fmt: skip

    def users(self, spellings: Numbers) -> Pairs:
        """Return the chunks and facts that use spellings."""
        rows = self._mentions_of.gather(spellings)[1]
        chunks = distinct(self._at("chunks", self._tables["mentions"]["chunk"][rows]))
        facts = distinct(self._at("facts", self._tables["fact_names"]["fact"][self._held_of.gather(spellings)[1]]))
        return chunks[self._chunk_there.values[chunks]], facts[self._fact_there.values[facts]]

    def fact_uses(self, facts: Numbers) -> Pairs:
        """Return facts and the entities they hold."""
        if self._hidden is not None:
            facts = facts[~self._hidden[facts]]
        owner, spelling = self._stated_in(facts)
        entity = self._entity.values[spelling]
        size = max(len(self._hash), 1)
        owner, entity = np.divmod(distinct(owner[entity >= 0] * size + entity[entity >= 0]), size)
        return facts[owner], entity

    def chunk_uses(self, chunks: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Return chunks, the entities they mention, and the weights."""
        owner, spelling, subject = self._mentioned(chunks)
        size, entity = max(len(self._hash), 1), self._entity.values[spelling]
        codes, alive = owner * size + entity, entity >= 0
        once = distinct(codes[alive])
        about = among(once, np.sort(codes[subject & alive]))
        owner, entity = np.divmod(once, size)
        return chunks[owner], entity, np.where(about, SUBJECT, MENTION)

    def fact_entities(self, facts: Numbers) -> Pairs:
        """Return facts and the entities that are stored for them."""
        counts, entities, _ = self._fact_entities.gather(facts)
        return np.repeat(facts, counts), entities

    def set_fact_entities(self, gone: Pairs, came: Pairs) -> None:
        """Take entities from facts and give them others."""
        self._fact_entities.splice(gone, came, order_of=self._hash.values)
        self._entity_facts.splice(gone[::-1], came[::-1])

    def weights(self, facts: Numbers) -> npt.NDArray[np.float32]:
        """Return the weights of facts."""
        found: npt.NDArray[np.float32] = self._tables["facts"]["weight"][facts]
        return found

    def links(self, entities: Numbers, others: Numbers) -> npt.NDArray[np.float64]:
        """Return the weights of links."""
        return _values(self._links, entities, others)

    def set_links(self, entities: Numbers, others: Numbers, sums: npt.NDArray[np.float64]) -> None:
        """Store the weights of links."""
        kept = rounded(sums) != 0
        self._links.splice((entities, others), (entities[kept], others[kept]), sums[kept], self._hash.values)

    def chunk_entities(self, chunks: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Return chunks, and the entities and weights that are stored for them."""
        counts, entities, weights = self._chunk_entities.gather(chunks)
        return np.repeat(chunks, counts), entities, weights.astype(np.int64)

    def set_chunk_entities(
        self, gone: tuple[Numbers, Numbers, Numbers], came: tuple[Numbers, Numbers, Numbers]
    ) -> None:
        """Take entities from chunks and give them others."""
        weights = came[2].astype(np.float32)
        self._chunk_entities.splice(gone[:2], came[:2], weights, self._hash.values)
        self._entity_chunks.splice(gone[1::-1], came[1::-1], weights)

    def entities(self, entities: Numbers) -> tuple[Flags, EntityCounts]:
        """Return whether entities are known, and what was counted."""
        counts = self._entity_counts.values[entities].T.astype(np.int64)
        return self._rank.values[entities] >= 0, EntityCounts(*counts)

    def set_entities(self, entities: Numbers, counts: EntityCounts) -> None:
        """Store what was counted for entities. Those that represent no spelling are removed."""
        self._entity_counts.values[entities] = np.array(counts).T
        self._is_address.values[entities] = self._have_addresses(entities)
        there = self._entity.values[entities] == entities
        known = self._rank.values[entities] >= 0
        old, new = entities[known & ~there], entities[there & ~known]
        if len(old):
            self._entities = np.delete(self._entities, self._rank.values[old])
            self._rank.values[old] = -1
        if len(new):
            new = new[np.argsort(self._hash.values[new])]
            places = np.searchsorted(self._hash.values[self._entities], self._hash.values[new])
            self._entities = np.insert(self._entities, places, new)
            self._rank.values[new] = 0  # until they are numbered

    def _have_addresses(self, entities: Numbers) -> Flags:
        """Return which entities have a name that is the address of a section."""
        counts, names = self._names_in(entities)
        return _counted(counts, self._tables["names"]["is_address"][names]) > 0

    def mentioning(self, entities: Numbers) -> Pairs:
        """Return the places of entities, and the chunks that mention them and are not about them."""
        counts, chunks, weights = self._entity_chunks.gather(entities)
        mention = weights == MENTION
        return np.repeat(np.arange(len(entities)), counts)[mention], chunks[mention]

    def set_nodes(self, chunks: Numbers, nodes: tuple[Numbers, Numbers, Numbers], removed: Numbers) -> None:
        """Store how many entities of chunks are subjects of other chunks only."""
        self._foreign.values[chunks] = nodes[2]
        self._foreign.values[removed] = 0

    def add_foreign(self, chunks: Numbers, change: Numbers) -> None:
        """Add to the number of entities that are subjects of other chunks only."""
        self._foreign.values[chunks] += change.astype(np.int32)

    # -- rows of chunks, facts and entities

    def _mentioned(self, chunks: Numbers) -> tuple[Numbers, Numbers, Flags]:
        """Return what chunks mention as a name: the place of the chunk, the spelling, and whether it is a subject."""
        rows, counts = spans(self._tables["mentions"]["chunk"], self._tables["chunks"]["key"][chunks])
        subject = self._tables["mentions"]["subject"][rows]
        names = self._at("names", self._tables["mentions"]["name"][rows])
        kept = self._named.values[names]
        owner = np.repeat(np.arange(len(chunks)), counts)
        return owner[kept], self._spelling.values[names[kept]], subject[kept]

    def _facts_in(self, chunks: Numbers) -> Pairs:
        """Return the facts of chunks: how many each has, and which."""
        facts, counts = spans(self._tables["facts"]["chunk"], self._tables["chunks"]["key"][chunks])
        return counts, facts

    def _stated_in(self, facts: Numbers) -> Pairs:
        """Return the names that facts hold: the place of the fact, and the spelling."""
        rows, counts = spans(self._tables["fact_names"]["fact"], self._tables["facts"]["key"][facts])
        owner = np.repeat(np.arange(len(facts)), counts)
        names = self._at("names", self._tables["fact_names"]["name"][rows])
        kept = self._named.values[names]
        linked, linked_spelling, _ = self._fact_linked.gather(facts)
        return (
            np.concatenate([owner[kept], np.repeat(np.arange(len(facts)), linked)]),
            np.concatenate([self._spelling.values[names[kept]], linked_spelling]),
        )

    def _of_spellings(self, rows: Rows, spellings: Numbers) -> Pairs:
        """Return the uses of spellings: for each the position of its spelling, and its row."""
        counts, found, _ = rows.gather(spellings)
        return np.repeat(np.arange(len(spellings)), counts), found

    def _at(self, table: str, keys: Array) -> Numbers:
        """Return the rows of the chunks, facts or names with some keys."""
        column = self._tables[table]["key"]
        if len(keys) > len(column) > 0 and column[0] >= 0 and column[-1] < _MOST_SPARSE * len(column):
            places = np.zeros(int(column[-1]) + 1, np.int64)
            places[column] = np.arange(len(column))
            return places[keys]
        return np.searchsorted(column, keys.astype(column.dtype))


def derived_counts(
    arrays: Mapping[str, Array], weights: npt.NDArray[np.float32], chunks: int
) -> tuple[tuple[Numbers, Numbers, npt.NDArray[np.float64]], tuple[Numbers, Numbers, Numbers], EntityCounts]:
    """Return what follows from the entities of chunks and facts in :meth:`LiveGraph.arrays`.

    Links; degree, total and number of foreign subjects of chunks; and what was counted for entities, by spelling.
    """
    spellings = len(arrays["entity"])
    entities, first, second, sums = link_weights(np.arange(len(weights)), weights, tuple(arrays["fact_entities"]))
    kept = rounded(sums) != 0
    first, second, sums = entities[first[kept]], entities[second[kept]], sums[kept]
    chunk, entity, weight = arrays["chunk_entities"]
    subjects = np.bincount(entity[weight == SUBJECT], minlength=spellings)
    foreign = (weight == MENTION) & (subjects[entity] > 0)
    return (
        (first, second, sums),
        (
            np.bincount(chunk, minlength=chunks), np.bincount(chunk, weight, chunks).astype(np.int64),
            np.bincount(chunk[foreign], minlength=chunks),
        ),
        EntityCounts(np.bincount(entity, minlength=spellings), subjects),
    )  # fmt: skip


def by_key(keys: Keys, flags: Flags, limit: int) -> Flags:
    """Return flags by key instead of the place of the key. Keys are in ascending order and below ``limit``."""
    if len(keys) == limit:
        return flags
    found = np.zeros(limit, np.bool_)
    found[keys] = flags
    return found


def unique_pairs(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> Pairs:
    """Return different pairs of numbers once, in order."""
    bits = int(second.max(initial=0)).bit_length()
    if int(first.max(initial=0)).bit_length() + bits < 63 and min(first.min(initial=0), second.min(initial=0)) >= 0:
        codes = distinct((first.astype(np.int64) << bits) | second)  # sorting one array is much faster
        return codes >> bits, codes & ((1 << bits) - 1)
    order = np.lexsort((second, first))
    first, second = first[order].astype(np.int64), second[order].astype(np.int64)
    new = np.r_[True, (np.diff(first) != 0) | (np.diff(second) != 0)][: len(first)]
    return first[new], second[new]


def _counted(counts: Numbers, which: Flags) -> Numbers:
    """Return how many entries of each row are some that are wanted, given the lengths of the rows."""
    return np.bincount(np.repeat(np.arange(len(counts)), counts)[which], minlength=len(counts))


def _places(kept: Numbers, count: int) -> Numbers:
    """Return for each of so many rows its place among those that are kept, and -1 for the others."""
    place = np.full(count, -1, np.int64)
    place[kept] = np.arange(len(kept))
    return place


def _values(rows: Rows, owners: Numbers, indices: Numbers) -> Array:
    """Return the values of pairs of a row and an index; 0 for those that are not there."""
    if len(owners) == 0 or not rows.counts.any():
        return np.zeros(len(owners))
    every = distinct(owners)
    counts, known, values = rows.gather(every)
    if len(known) == 0:
        return np.zeros(len(owners))
    width = 1 + max(int(known.max()), int(indices.max()))
    codes = np.repeat(np.arange(len(every)), counts) * width + known
    order = np.argsort(codes)
    wanted = np.searchsorted(every, owners) * width + indices
    at = np.minimum(np.searchsorted(codes[order], wanted), len(codes) - 1)
    return np.where(codes[order][at] == wanted, values[order[at]], 0)


def in_all(counts: Keys, values: Keys) -> Keys:
    """Return the values that all rows have, given the lengths of the rows, which are in order."""
    rows = sorted(np.split(values, np.cumsum(counts)[:-1]), key=len)
    found = rows[0]
    for row in rows[1:]:  # look the few up in the many
        found = found[among(found, row)]
    return found


def with_links(mentions: Adjacency, owner: Numbers, others: Keys, sums: npt.NDArray[np.float64]) -> Adjacency:
    """Return the mentions of nodes, and after those of each its links: the place of the node, the other end, weight."""
    owners = np.concatenate([np.arange(len(mentions.counts)).repeat(mentions.counts), owner])
    order = np.argsort(owners, kind="stable")
    targets, weights = np.concatenate([mentions.targets, others]), np.concatenate([mentions.weights, rounded(sums)])
    counts = np.bincount(owners, minlength=len(mentions.counts))
    return Adjacency(counts, targets[order], weights[order], mentions.totals)


def strongest(
    edges: Adjacency, first_entity: int, to: Kind | None, limit: int | None, places: Keys | None = None
) -> Adjacency:
    """Return edges restricted to chunks or entities, and with ``limit`` the strongest of each node.

    Of equal ones the first by ``places``, which are those of the targets, or by number.
    """
    counts, targets, weights, totals = edges
    places = targets if places is None else places
    if to is not None and not (kept := (targets < first_entity) == (to == "chunks")).all():
        owners = np.repeat(np.arange(len(counts)), counts)[kept]
        counts, targets, weights = np.bincount(owners, minlength=len(counts)), targets[kept], weights[kept]
        places = places[kept]
    if limit is not None and len(counts) and counts.max() > 0:
        owners = np.repeat(np.arange(len(counts)), counts)
        order = np.lexsort((places, -weights, owners))
        place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        order = order[place < limit]
        counts, targets, weights = np.minimum(counts, limit), targets[order], weights[order]
    return Adjacency(counts, targets, weights, totals)


class _Counted(Protocol):
    def counts(self, entities: Keys) -> tuple[Keys, Flags]: ...
    def ids(self, entities: Keys) -> Keys: ...
    def are_addresses(self, entities: Keys) -> Flags: ...


def most_mentioned(graph: _Counted, entities: Keys, count: int) -> Keys:
    """Return the entities that the most chunks mention, most first, without addresses."""
    things = entities[~graph.are_addresses(entities)]
    return things[np.lexsort((graph.ids(things), -graph.counts(things)[0]))[:count]]
