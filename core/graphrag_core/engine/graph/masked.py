"""The graph of the chunks in a scope, in memory: the rows of the live graph through a mask.

A row of the live graph has what is in scope among it, except where the scope decides something else: spellings that are
one entity here or there, and addresses that no chunk in scope is about. These few are read as
:class:`~graphrag_core.engine.graph.scoped.ScopedGraph` reads all of them, from the uses of spellings.
"""

# ruff: noqa: SLF001 - this is a part of the live graph

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.graph.change import MENTION, SUBJECT
from graphrag_core.engine.graph.edits import GraphEdits
from graphrag_core.engine.graph.live import LiveGraph, unique_pairs
from graphrag_core.engine.graph.scoped import ScopedGraph, Weighted, each_once
from graphrag_core.engine.graph.sparse import Flags, Numbers, Pairs, spans
from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Keys, Scores

_AHEAD = 2  # times as many chunks of an entity are looked at as would be enough, since some are not in scope
_FEW = 8
_MISSING, _APART, _GROUPED = 1, 2, 4
"""States of a spelling: an address that no chunk in scope is about; one with others in scope or in the whole graph; and
that in the whole graph."""


class MaskedGraph(ScopedGraph):
    """The graph of the chunks in a scope, of an index without edits.

    Parameters
    ----------
    graph
        The graph of all chunks.
    visible
        Whether each chunk is in scope, by key.
    """

    def __init__(self, graph: LiveGraph, visible: Flags) -> None:
        uses = LiveUses(graph, visible)
        super().__init__(uses, graph.linked_share, GraphEdits(), has_edits=False)
        self._graph = graph
        self._visible = visible
        self._visible_row: Flags = visible[graph._tables["chunks"]["key"]]
        self._slots, self._nodes = uses.slots, uses.nodes
        self._special = graph.in_scopes(_Special)
        self._groups = self._special.groups
        self._state = self._special.states(visible)
        self._degrees = np.zeros(self.node_limit, np.float32)  # of nodes, as far as they were counted
        self._entity: Numbers | None = None  # the spelling that represents each; None if all represent themselves
        members, representatives = (self._slots(part) for part in self._merged)
        if len(members):
            self._entity = np.arange(self.node_limit - self.first_entity)
            self._entity[members] = representatives
            self._state[members] |= _APART

    def _spellings_of(self, slots: Numbers) -> Pairs:
        """Return the spellings of entities, which are given by spelling: the place of the entity, and the spelling."""
        if self._entity is None:
            return np.arange(len(slots)), slots
        place, nodes = self._members(self._nodes(slots))
        return place, self._slots(nodes)

    # -- rows of the live graph, of which those of groups are replaced by those of their spellings

    def _read_chunks(self, entities: Keys) -> Weighted:
        slots = self._slots(entities)
        state = self._state[slots]
        counts, chunks, weights = self._graph._entity_chunks.gather(slots)
        seen = self._visible_row[chunks]
        if state.any():
            if (state & _APART).any():
                return self._chunks_of_several(*self._spellings_of(slots))
            seen &= (state == 0).repeat(counts)
        owner = np.arange(len(slots)).repeat(counts)[seen]
        return owner, self._graph._chunk_positions(chunks[seen]), weights[seen]

    def _chunks_of_several(self, place: Numbers, slots: Numbers) -> Weighted:
        """Return the chunks of entities, given by the place of the entity and the spelling."""
        counts, chunks, weights = self._graph._entity_chunks.gather(slots)
        state, owner = self._state[slots], place.repeat(counts)
        grouped = state & _GROUPED > 0
        if grouped.any():
            alone = ~grouped.repeat(counts)
            at, own, weight = self._groups.chunks_of(slots[grouped])
            owner = np.concatenate([owner[alone], place[grouped][at]])
            chunks, weights = np.concatenate([chunks[alone], own]), np.concatenate([weights[alone], weight])
        seen = self._visible_row[chunks]
        seen &= ~among(owner, np.sort(place[state & _MISSING > 0]))
        return each_once(owner[seen], self._graph._chunk_positions(chunks[seen]), weights[seen])

    def _facts_of(self, entities: Keys) -> Pairs:
        slots = place = self._slots(entities)
        is_apart = (self._state[slots] & _APART).any()
        if is_apart:
            place, slots = self._spellings_of(slots)
        counts, facts, _ = self._graph._entity_facts.gather(slots)
        owner = np.arange(len(slots)).repeat(counts)
        if is_apart and (grouped := self._state[slots] & _GROUPED > 0).any():
            alone = ~grouped[owner]
            at, own = self._groups.facts_of(slots[grouped])
            owner = np.concatenate([owner[alone], np.flatnonzero(grouped)[at]])
            facts = np.concatenate([facts[alone], own])
        seen = self._visible[self._graph._tables["facts"]["chunk"][facts]]
        owner, facts = owner[seen], facts[seen]
        if self._graph._fact_position is not None:
            facts = self._graph._fact_position[facts]
        return unique_pairs(place[owner], facts) if is_apart else (owner, facts)

    def _held_in(self, facts: Keys) -> Pairs:
        rows = facts if self._graph._facts is None else self._graph._facts[facts]
        counts, slots, _ = self._graph._fact_entities.gather(rows)
        owner = np.arange(len(facts)).repeat(counts)
        state = self._state[slots]
        if state.any():
            is_apart = (state & _APART).any()
            if (grouped := state & _GROUPED > 0).any():
                at, own = self._groups.held_in(rows)
                owner, slots = np.concatenate([owner[~grouped], at]), np.concatenate([slots[~grouped], own])
                state = self._state[slots]
            there = state & _MISSING == 0
            owner, slots = owner[there], slots[there]
            if is_apart:
                entities = slots if self._entity is None else self._entity[slots]
                return unique_pairs(owner, self._nodes(entities))
        return owner, self._nodes(slots)

    def _mentioned_in(self, chunks: Keys) -> Weighted:
        rows = self._graph._chunk_rows(chunks)
        counts, slots, weights = self._graph._chunk_entities.gather(rows)
        owner = np.arange(len(chunks)).repeat(counts)
        state = self._state[slots]
        if state.any():
            is_apart = (state & _APART).any()
            if (grouped := state & _GROUPED > 0).any():
                at, own, weight = self._groups.mentioned_in(rows)
                owner, slots = np.concatenate([owner[~grouped], at]), np.concatenate([slots[~grouped], own])
                weights, state = np.concatenate([weights[~grouped], weight]), self._state[slots]
            there = state & _MISSING == 0
            owner, slots, weights = owner[there], slots[there], weights[there]
            if is_apart:
                entities = slots if self._entity is None else self._entity[slots]
                return each_once(owner, self._nodes(entities), weights)
        return owner, self._nodes(slots), weights

    def names(self, entities: Keys) -> Pairs:
        """Return the names of entities in scope that chunks in scope write. One of which there is no other is."""
        graph, slots = self._graph, self._slots(entities)
        counts, names, _ = graph._names_of.gather(slots)
        valid, _ = graph.valid(names, slots.repeat(counts))
        owner, names = np.arange(len(slots)).repeat(counts)[valid], names[valid]
        counts = np.bincount(owner, minlength=len(slots))
        several = (counts != 1) | (self._state[slots] > 0)
        if not several.any():
            return counts, graph.name_keys[names]
        alone = ~several[owner]
        of_several, others = super().names(entities[several])
        counts[several] = of_several
        owner = np.concatenate([owner[alone], np.flatnonzero(several).repeat(of_several)])
        found = np.concatenate([graph.name_keys[names[alone]], others])
        return counts, found[np.argsort(owner, kind="stable")]

    def degrees(self, nodes: Keys, most: npt.NDArray[np.float64] | None = None) -> Scores:
        """Return the number of mentions of each node. Those of which it is enough to know fewer are not read."""
        if most is None:
            return super().degrees(nodes)
        found = self._degrees[nodes]
        if not (few := found < most).any():
            return found
        read = self._mentions.have(nodes, self.node_limit)
        found[read] = self._mentions.counts(nodes[read])
        unread = few & ~read
        is_chunk = nodes < self.first_entity
        chunks = np.flatnonzero(unread & is_chunk)
        found[chunks] = self._special.in_chunks[self._graph._chunk_rows(nodes[chunks])]
        entities = np.flatnonzero(unread & ~is_chunk)
        slots = self._slots(nodes[entities])
        plain = self._state[slots] == 0
        entities, slots = entities[plain], slots[plain]
        if len(entities):
            limits = (_AHEAD * most[entities]).astype(np.int64) + _FEW
            counts, chunks, _ = self._graph._entity_chunks.gather(slots, limits)
            seen = np.arange(len(slots)).repeat(counts)[self._visible_row[chunks]]
            found[entities] = np.bincount(seen, minlength=len(slots))
        rest = np.flatnonzero(unread & (found < most))
        if len(rest):
            found[rest] = super().degrees(nodes[rest])
        self._degrees[nodes] = found
        return found


class _Special:
    """The spellings of which a row of the live graph does not say enough for a scope.

    Attributes
    ----------
    groups
        The rows of those that are one with others in the whole graph.
    in_chunks
        How many entities a chunk has at least, in every scope that has it, by its row of the table.
    """

    def __init__(self, graph: LiveGraph) -> None:
        """Find the chunks that are about addresses."""
        table, entity = graph._tables["mentions"], graph._entity.values
        self._state = np.where(graph._is_place.values, _MISSING, 0).astype(np.int8)
        owner, rows = graph._of_spellings(graph._mentions_of, addresses := np.flatnonzero(self._state))
        used = table["subject"][rows] & graph._named.values[graph._at("names", table["name"][rows])]
        self._chunk, self._slot = table["chunk"][rows[used]], addresses[owner[used]]
        moved = np.flatnonzero((entity >= 0) & (entity != np.arange(len(entity))))
        self.groups = _Groups(graph, distinct(moved, entity[moved]))
        self._state[self.groups.members] |= _APART | _GROUPED
        self.in_chunks = self._least(graph)

    def _least(self, graph: LiveGraph) -> Numbers:
        aliases = graph._tables["aliases"]
        named = (graph._spelling.values[graph._at("names", aliases[end])] for end in ("short", "long"))
        plain = self._state == 0
        plain[distinct(*named, *graph.similar)] = False  # in some scope they may be one with others
        counts, slots, _ = graph._chunk_entities.gather(np.arange(graph._sizes["chunks"]))
        return np.bincount(np.arange(len(counts)).repeat(counts)[plain[slots]], minlength=len(counts))

    def states(self, visible: Flags) -> npt.NDArray[np.int8]:
        """Return the state of each spelling in a scope."""
        state = self._state.copy()
        state[self._slot[visible[self._chunk]]] &= ~_MISSING
        return state


class _Groups:
    """The rows of the spellings that are one with others in the whole graph. A scope may take them apart.

    Chunks and facts are rows of the tables.
    """

    def __init__(self, graph: LiveGraph, members: Numbers) -> None:
        self.members = members
        everything = np.zeros(graph.key_limit, np.bool_)
        everything[graph.chunk_keys] = True
        uses = LiveUses(graph, everything)
        spellings = uses.nodes(members)
        owner, chunks, subject = uses.chunks_of(spellings)
        weights = np.where(subject, SUBJECT, MENTION).astype(np.float32)
        self._owner, chunks, self._weights = each_once(owner, chunks, weights)
        self._owner_of_fact, facts = unique_pairs(*uses.facts_of(spellings))
        self._chunks, self._facts = graph._chunk_rows(chunks), facts if graph._facts is None else graph._facts[facts]
        self._by_chunk = np.argsort(self._chunks, kind="stable")
        self._by_fact = np.argsort(self._facts, kind="stable")

    def chunks_of(self, slots: Numbers) -> Weighted:
        """Return the chunks of spellings: the place of the spelling, the chunk, and the weight."""
        at, counts = spans(self._owner, self.members.searchsorted(slots))
        return np.arange(len(slots)).repeat(counts), self._chunks[at], self._weights[at]

    def facts_of(self, slots: Numbers) -> Pairs:
        """Return the facts of spellings: the place of the spelling, and the fact."""
        at, counts = spans(self._owner_of_fact, self.members.searchsorted(slots))
        return np.arange(len(slots)).repeat(counts), self._facts[at]

    def mentioned_in(self, chunks: Numbers) -> Weighted:
        """Return the spellings in chunks: the place of the chunk, the spelling, and the weight."""
        at, counts = spans(self._chunks[self._by_chunk], chunks)
        at = self._by_chunk[at]
        return np.arange(len(chunks)).repeat(counts), self.members[self._owner[at]], self._weights[at]

    def held_in(self, facts: Numbers) -> Pairs:
        """Return the spellings in facts: the place of the fact, and the spelling."""
        at, counts = spans(self._facts[self._by_fact], facts)
        return np.arange(len(facts)).repeat(counts), self.members[self._owner_of_fact[self._by_fact[at]]]


class LiveUses:
    """How the chunks in a scope use spellings: see :class:`~graphrag_core.engine.graph.scoped.Uses`.

    Parameters
    ----------
    graph
        The graph of all chunks.
    visible
        Whether each chunk is in scope, by key.
    """

    def __init__(self, graph: LiveGraph, visible: Flags) -> None:
        self._graph = graph
        self._tables = graph._tables
        self._visible = visible
        self._order, self._place = graph.spelling_order()
        self.first_entity = graph.first_entity
        self.node_limit = graph.first_entity + len(self._order)

    def slots(self, nodes: Keys) -> Numbers:
        """Return where the graph has the spellings of nodes."""
        return self._order[nodes - self.first_entity]

    def nodes(self, slots: Numbers) -> Keys:
        """Return the nodes of spellings."""
        return self.first_entity + self._place[slots]

    def find(self, hashes: Sequence[int]) -> dict[int, int]:
        """Return the spellings with some hashes."""
        slots = self._graph.slots(hashes)
        known = np.flatnonzero(slots >= 0)
        nodes = self.nodes(slots[known]).tolist()
        return {hashes[at]: node for at, node in zip(known.tolist(), nodes, strict=True)}

    def hashes(self, spellings: Keys) -> Keys:
        """Return the hashes of spellings."""
        return self._graph._hash.values[self.slots(spellings)]

    def places(self, nodes: Keys) -> Keys:
        """Return numbers that sort chunks by key, then spellings by hash."""
        return nodes

    def of_names(self, names: Keys) -> Keys:
        """Return the spelling of each name, given by key; -1 for one that is no name."""
        graph, keys = self._graph, self._graph.name_keys
        at = np.minimum(np.searchsorted(keys, names), max(len(keys) - 1, 0))
        if len(keys) == 0 or len(names) == 0:
            return np.full(len(names), -1, np.int64)
        is_name = (keys[at] == names) & graph._named.values[at]
        return np.where(is_name, self.nodes(graph._spelling.values[at]), -1)

    def _mentions(self, spellings: Keys) -> Pairs:
        """Return the mentions of spellings as a name: the place of the spelling, and the row."""
        graph, table = self._graph, self._tables["mentions"]
        owner, rows = graph._of_spellings(graph._mentions_of, self.slots(spellings))
        seen = self._visible[table["chunk"][rows]]
        owner, rows = owner[seen], rows[seen]
        kept = graph._named.values[graph._at("names", table["name"][rows])]
        return owner[kept], rows[kept]

    def chunks_of(self, spellings: Keys) -> tuple[Numbers, Keys, Flags]:
        """Return the chunks that use spellings: the place of the spelling, chunk, and whether it is a subject.

        A chunk may be there several times.
        """
        table = self._tables["mentions"]
        owner, rows = self._mentions(spellings)
        return owner, np.searchsorted(self._graph.chunk_keys, table["chunk"][rows]), table["subject"][rows]

    def names_of(self, spellings: Keys) -> tuple[Numbers, Keys, Keys]:
        """Return the mentions of spellings as a name: the place of the spelling, chunk and name."""
        table = self._tables["mentions"]
        owner, rows = self._mentions(spellings)
        chunks = np.searchsorted(self._graph.chunk_keys, table["chunk"][rows])
        return owner, chunks, table["name"][rows].astype(np.int64)

    def facts_of(self, spellings: Keys) -> Pairs:
        """Return the facts that hold spellings: the place of the spelling, and the fact."""
        graph, slots = self._graph, self.slots(spellings)
        owner, rows = graph._of_spellings(graph._held_of, slots)
        facts = graph._at("facts", self._tables["fact_names"]["fact"][rows])
        seen = self._visible[self._tables["facts"]["chunk"][facts]]
        owner, rows, facts = owner[seen], rows[seen], facts[seen]
        names = graph._at("names", self._tables["fact_names"]["name"][rows])
        kept = graph._named.values[names]
        linked = graph._of_spellings(graph._linked_facts, slots)
        seen = self._visible[self._tables["facts"]["chunk"][linked[1]]]
        owners = np.concatenate([owner[kept], linked[0][seen]])
        facts = np.concatenate([facts[kept], linked[1][seen]])
        position = graph._fact_position
        return owners, facts if position is None else position[facts]

    def in_chunks(self, chunks: Keys) -> tuple[Numbers, Keys, Flags, Flags]:
        """Return the spellings in chunks: the place of the chunk, spelling, whether a subject, and whether doubtful."""
        graph, rows = self._graph, self._graph._chunk_rows(chunks)
        owner, spelling, subject = graph._mentioned(rows)
        return owner, self.nodes(spelling), subject, graph._is_place.values[spelling]

    def in_facts(self, facts: Keys) -> tuple[Numbers, Keys, Flags]:
        """Return the spellings that facts hold: the place of the fact, spelling, and whether it may not exist."""
        graph = self._graph
        rows = facts if graph._facts is None else graph._facts[facts]
        owners, spellings = graph._stated_in(rows)
        doubtful = graph._is_place.values[spellings]
        if graph.has_edits:  # the title of what an edge leads to
            doubtful[:] = True
        return owners, self.nodes(spellings), doubtful

    def aliases(self) -> Pairs:
        """Return the short and the long spellings of aliases that chunks in scope state."""
        graph, table = self._graph, self._tables["aliases"]
        rows = np.flatnonzero(self._visible[table["chunk"]])
        ends = [graph._at("names", table[end][rows]) for end in ("short", "long")]
        named = [graph._named.values[end] for end in ends]
        both = named[0] & named[1]
        short, long = (self.nodes(graph._spelling.values[end[both]]) for end in ends)
        return short, long

    def similar(self) -> Pairs:
        """Return the spellings whose vectors are so similar that they are one entity."""
        first, second = self._graph.similar
        return self.nodes(first), self.nodes(second)

    def are_addresses(self, spellings: Keys) -> Flags:
        """Return which spellings are addresses of sections."""
        return self._graph._is_place.values[self.slots(spellings)]

    def hidden(self, facts: Keys) -> Flags:
        """Return which facts no query may see in any scope."""
        return self._graph.hidden(facts)

    def are_edges(self, facts: Keys) -> Flags:
        """Return which facts are explicit edges."""
        return among(self._graph.fact_keys[facts], self._graph._edge_facts)

    def every_spelling(self) -> Keys:
        """Return all spellings in the chunks of the scope."""
        chunks = np.flatnonzero(self._visible[self._graph.chunk_keys])
        _, spellings, _, _ = self.in_chunks(chunks)
        return distinct(spellings)

    def chunks_of_facts(self, facts: Keys) -> Keys:
        """Return the chunk of each fact."""
        return self._graph.chunks_of_facts(facts)

    def weights(self, facts: Keys) -> npt.NDArray[np.float32]:
        """Return the weight of each fact."""
        return self._graph.fact_weight[facts]
