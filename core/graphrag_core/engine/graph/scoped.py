"""The graph inside a scope, read through a mask: nothing is built for a scope.

Whether a spelling is a name is decided from all documents. Everything else is decided inside the scope: a spelling
exists only if a chunk in scope mentions it as a name, spellings are one entity by the aliases that chunks in scope
state, and edges, counts and totals are those of the chunks and facts in scope.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.graph.change import MENTION, MOST_LINKED, NONE, SUBJECT
from graphrag_core.engine.graph.edits import GraphEdits, Shown, edited
from graphrag_core.engine.graph.live import in_all, most_mentioned, strongest, unique_pairs
from graphrag_core.engine.graph.names import resolve, unambiguous
from graphrag_core.engine.graph.sparse import Flags, Numbers, Pairs, ranges
from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Adjacency, Keys, Kind


class Uses(Protocol):
    """How the chunks in a scope use spellings: what an engine brings for :class:`ScopedGraph`.

    Spellings have numbers from ``first_entity`` on; an entity has the number of the spelling that represents it. What
    is returned for several has the place of each in the order given first. Doubtful is a spelling that no chunk in
    scope may have as a name.
    """

    first_entity: int

    @property
    def node_limit(self) -> int: ...
    def find(self, hashes: Sequence[int]) -> dict[int, int]: ...
    def hashes(self, spellings: Keys) -> Keys: ...
    def places(self, nodes: Keys) -> Keys: ...
    def of_names(self, names: Keys) -> Keys: ...
    def are_addresses(self, spellings: Keys) -> Flags: ...
    def chunks_of(self, spellings: Keys) -> tuple[Numbers, Keys, Flags, Flags]: ...
    def names_of(self, spellings: Keys) -> tuple[Numbers, Keys, Keys]: ...
    def facts_of(self, spellings: Keys) -> Pairs: ...
    def in_chunks(self, chunks: Keys) -> tuple[Numbers, Keys, Flags, Flags]: ...
    def in_facts(self, facts: Keys) -> tuple[Numbers, Keys, Flags]: ...
    def aliases(self) -> Pairs: ...
    def similar(self) -> Pairs: ...
    def every_spelling(self) -> Keys: ...
    def chunks_of_facts(self, facts: Keys) -> Keys: ...
    def weights(self, facts: Keys) -> npt.NDArray[np.float32]: ...
    def hidden(self, facts: Keys) -> Flags: ...
    def are_edges(self, facts: Keys) -> Flags: ...


class ScopedGraph:
    """The graph of the chunks in a scope. Its reads are those of :class:`~graphrag_core.engine.graph.live.LiveGraph`.

    Parameters
    ----------
    uses
        How the chunks in scope use spellings.
    linked_share
        That of all chunks: whether the graph is worth following is decided from all documents.
    edits
        The edits of the index.
    """

    def __init__(self, uses: Uses, linked_share: float, edits: GraphEdits, *, has_edits: bool) -> None:
        self._uses = uses
        self.linked_share = linked_share
        self.has_edits = has_edits
        self.first_entity = uses.first_entity
        self._edits = edits
        self._known: dict[int, tuple[Keys, npt.NDArray[np.float32]]] = {}  # chunks and weights of entities
        self._edges: dict[int, tuple[Keys, npt.NDArray[np.float32]]] = {}  # of nodes

    @property
    def node_limit(self) -> int:
        """All numbers of chunks and entities so far are below this one."""
        return self._uses.node_limit

    # -- which spellings are one entity

    @cached_property
    def _merged(self) -> tuple[Keys, Keys]:
        """The spellings that are one entity with others, ascending, and the spelling that represents each."""
        short, long = self._uses.aliases()
        first, second = self._uses.similar()
        groups = []
        for hashes in self._edits.groups() if self._edits.text else ():
            known = self._uses.find(hashes)
            groups.append([known[number] for number in hashes if number in known])
        for group in groups:
            first, second = np.append(first, group[:-1]), np.append(second, group[1:])
        spellings = distinct(short, long, first.astype(np.int64), second.astype(np.int64))
        if len(spellings) == 0:
            return NONE, NONE
        owner, *_ = self._uses.names_of(spellings)
        mentions = np.bincount(owner, minlength=len(spellings))

        def places(one: Keys, other: Keys) -> Pairs:
            ends = np.searchsorted(spellings, one), np.searchsorted(spellings, other)
            both = (mentions[ends[0]] > 0) & (mentions[ends[1]] > 0)
            return ends[0][both], ends[1][both]

        found = resolve(
            unambiguous(*places(short, long)), places(first, second), mentions, self._uses.hashes(spellings)
        )
        for group in groups:
            inside = [at for at in np.searchsorted(spellings, group).tolist() if mentions[at] > 0]
            if len(inside) > 1:
                found[found == found[inside[0]]] = inside[0]
        moved = np.isin(found, found[found != np.arange(len(found))])
        return spellings[moved], spellings[found[moved]]

    @cached_property
    def _deleted(self) -> Keys:
        """The entities that were deleted."""
        if not self._edits.text:
            return NONE
        found = self._uses.find(self._edits.deleted()).values()
        return distinct(self._representing(np.array([*found], np.int64)))

    def _representing(self, spellings: Keys) -> Keys:
        """Return the spelling that represents the entity of each spelling."""
        members, representatives = self._merged
        if len(members) == 0 or len(spellings) == 0:
            return spellings
        at = np.minimum(np.searchsorted(members, spellings), len(members) - 1)
        return np.where(members[at] == spellings, representatives[at], spellings)

    def _members(self, entities: Keys) -> Pairs:
        """Return the spellings of entities: the place of the entity, and the spelling."""
        members, representatives = self._merged
        if len(members) == 0 or not among(entities, distinct(representatives)).any():
            return np.arange(len(entities)), entities
        order = np.argsort(representatives, kind="stable")
        start = np.searchsorted(representatives[order], entities, "left")
        count = np.searchsorted(representatives[order], entities, "right") - start
        alone = np.flatnonzero(count == 0)
        owner = np.concatenate([np.repeat(np.arange(len(entities)), count), alone])
        return owner, np.concatenate([members[order][ranges(start, count)], entities[alone]])

    # -- which spellings exist

    def _read_chunks(self, entities: Keys) -> None:
        """Read the chunks of entities that were not read yet."""
        missing = np.array([one for one in distinct(entities).tolist() if one not in self._known], np.int64)
        if len(missing) == 0:
            return
        member_of, spellings = self._members(missing)
        owner, chunks, about, in_lower = self._uses.chunks_of(spellings)
        owners = member_of[owner]
        named = np.zeros(len(missing), np.bool_)
        named[owners[~in_lower]] = True
        kept = named[owners]  # a spelling that no chunk in scope has as a name does not exist
        owners, chunks, about = owners[kept], chunks[kept], about[kept]
        order = np.lexsort((~about, chunks, owners))
        owners, chunks, about = owners[order], chunks[order], about[order]
        first = np.r_[True, (np.diff(owners) != 0) | (np.diff(chunks) != 0)][: len(owners)]
        owners, chunks = owners[first], chunks[first]
        weights = np.where(about[first], SUBJECT, MENTION).astype(np.float32)
        ends = np.cumsum(np.bincount(owners, minlength=len(missing)))[:-1]
        parts = zip(np.split(chunks, ends), np.split(weights, ends), strict=True)
        self._known.update(zip(missing.tolist(), parts, strict=True))

    def _exist(self, entities: Keys) -> Flags:
        """Return which entities a chunk in scope mentions as a name; an address is there if a chunk is about it."""
        counts, is_subject = self.counts(entities)
        there = np.where(self.are_addresses(entities), is_subject, counts > 0)
        return there & ~among(entities, self._deleted) if len(self._deleted) else there

    def _entities(self, owner: Numbers, spellings: Keys, doubtful: Flags) -> tuple[Numbers, Keys, Flags]:
        """Return the entities of spellings without those that do not exist: place, entity, and which rows they were.

        ``doubtful`` are those that a chunk in scope may have in lower case only.
        """
        entities = self._representing(spellings)
        kept = np.ones(len(entities), np.bool_)
        if len(self._deleted):
            doubtful = np.ones(len(entities), np.bool_)
        if doubtful.any():
            kept[doubtful] = self._exist(entities[doubtful])
        return owner[kept], entities[kept], kept

    # -- what a query reads

    @cached_property
    def edits(self) -> tuple[Mapping[int, Shown], Mapping[int, int]]:
        """What is shown of edited entities, and the entities of names that no document writes, by hash."""
        return edited(self._edits, self.find)

    def find(self, spellings: Sequence[int]) -> dict[int, int]:
        """Return the entities of spellings, given by hash; those that do not exist are left out."""
        numbers = self._uses.find(spellings)
        entities = self._representing(np.array([*numbers.values()], np.int64))
        found = zip(numbers, entities.tolist(), self._exist(entities).tolist(), strict=True)
        return {number: entity for number, entity, exists in found if exists}

    def of_names(self, names: Keys) -> Keys:
        """Return the entities of names, given by key; -1 for one that is no name in scope."""
        found = self._uses.of_names(names)
        known = np.flatnonzero(found >= 0)
        found[known] = self._representing(found[known])
        found[known[~self._exist(found[known])]] = -1
        return found

    def names(self, entities: Keys) -> Pairs:
        """Return the names of entities that chunks in scope write: how many each has, and their keys."""
        member_of, spellings = self._members(entities)
        owner, _, names = self._uses.names_of(spellings)
        owner, names = unique_pairs(member_of[owner], names)
        return np.bincount(owner, minlength=len(entities)), names

    def uses(self, names: Keys) -> Keys:
        """Return how many chunks in scope mention each name, given by key."""
        spellings = self._uses.of_names(names)
        _, chunks, found = self._uses.names_of(distinct(spellings[spellings >= 0]))
        keys, counts = np.unique(unique_pairs(found, chunks)[0], return_counts=True)
        if len(keys) == 0:
            return np.zeros(len(names), np.int64)
        at = np.minimum(np.searchsorted(keys, names), len(keys) - 1)
        return np.where(keys[at] == names, counts[at], 0)

    def ids(self, entities: Keys) -> Keys:
        """Return the hash of the spelling that represents each entity."""
        return self._uses.hashes(entities)

    def are_addresses(self, entities: Keys) -> Flags:
        """Return whether each entity is the address of a section."""
        return self._uses.are_addresses(entities)

    def counts(self, entities: Keys) -> tuple[Keys, Flags]:
        """Return how many chunks mention each entity, and whether it is the subject of any."""
        self._read_chunks(entities)
        rows = [self._known[one] for one in entities.tolist()]
        subject = np.array([bool((weights == SUBJECT).any()) for _, weights in rows], np.bool_)
        return np.array([len(chunks) for chunks, _ in rows], np.int64), subject

    def _in_chunks(self, chunks: Keys) -> tuple[Keys, Keys, npt.NDArray[np.float32]]:
        """Return the entities in chunks: how many each has, which, and the weights of the edges."""
        owner, spellings, subject, in_lower = self._uses.in_chunks(chunks)
        owner, entities, kept = self._entities(owner, spellings, in_lower)
        order = np.lexsort((~subject[kept], entities, owner))
        owner, entities, subject = owner[order], entities[order], subject[kept][order]
        first = np.r_[True, (np.diff(owner) != 0) | (np.diff(entities) != 0)][: len(owner)]
        weights = np.where(subject[first], SUBJECT, MENTION).astype(np.float32)
        return np.bincount(owner[first], minlength=len(chunks)), entities[first], weights

    def subjects(self, chunks: Keys) -> Pairs:
        """Return the entities that chunks are about: how many each has, and which."""
        counts, entities, weights = self._in_chunks(chunks)
        about = weights == SUBJECT
        return np.bincount(np.repeat(np.arange(len(chunks)), counts)[about], minlength=len(chunks)), entities[about]

    def about(self, entities: Keys) -> Pairs:
        """Return the chunks whose subject each entity is: how many, and which."""
        self._read_chunks(entities)
        found = [chunks[weights == SUBJECT] for chunks, weights in (self._known[one] for one in entities.tolist())]
        return np.array([len(own) for own in found], np.int64), np.concatenate([NONE, *found])

    def _stated_in(self, facts: Keys) -> Pairs:
        """Return the entities that facts hold, also those of hidden facts: how many each has, and which."""
        owner, entities, _ = self._entities(*self._uses.in_facts(facts))
        width = self.node_limit
        owner, entities = np.divmod(distinct(owner * width + entities), max(width, 1))
        return np.bincount(owner, minlength=len(facts)), entities

    def hidden(self, facts: Keys) -> Flags:
        """Return which facts no query may see: edges with an end outside, and deleted relations."""
        found = np.zeros(len(facts), np.bool_)
        if self.has_edits and len(facts):
            found = self._hides(facts, self._stated_in(facts)[0])
        return found

    def _hides(self, facts: Keys, counts: Keys) -> Flags:
        return self._uses.hidden(facts) | (self._uses.are_edges(facts) & (counts < 2))

    def entities_of(self, facts: Keys) -> Pairs:
        """Return the entities that facts hold: how many each has, and which."""
        counts, entities = self._stated_in(facts)
        if self.has_edits and len(facts):
            hidden = self._hides(facts, counts)
            entities, counts = entities[~np.repeat(hidden, counts)], np.where(hidden, 0, counts)
        return counts, entities

    def chunks_of_facts(self, facts: Keys) -> Keys:
        """Return the chunk of each fact."""
        return self._uses.chunks_of_facts(facts)

    def facts_of(self, entities: Keys, limit: int | None = None) -> Pairs:
        """Return the facts that hold each entity, in order, so many at most: how many, and which."""
        member_of, spellings = self._members(entities)
        owner, facts = self._uses.facts_of(spellings)
        owner, facts = unique_pairs(member_of[owner], facts)
        if self.has_edits:
            kept = ~self.hidden(facts)
            owner, facts = owner[kept], facts[kept]
        counts = np.bincount(owner, minlength=len(entities))
        if limit is not None:
            place = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
            facts, counts = facts[place < limit], np.minimum(counts, limit)
        return counts, facts

    def joint_facts(self, entities: Keys, limit: int | None = None) -> Keys:
        """Return the facts that hold all entities, in order."""
        return in_all(*self.facts_of(entities, limit))

    def _links(self, entities: Keys) -> tuple[Numbers, Keys, npt.NDArray[np.float32]]:
        """Return the links of entities: the place of the entity, the other one, and the weight."""
        counts, facts = self.facts_of(entities)
        every = distinct(facts)
        sizes, held = self.entities_of(every)
        starts = np.cumsum(sizes) - sizes
        at = np.searchsorted(every, facts)
        wanted = np.where(sizes[at] <= MOST_LINKED, sizes[at], 0)
        owner = np.repeat(np.repeat(np.arange(len(entities)), counts), wanted)
        other = held[ranges(starts[at], wanted)]
        strength = (self._uses.weights(facts) / 10).astype(np.float32).astype(np.float64)
        weight = np.repeat(strength, wanted)
        related = other != entities[owner]
        width = max(self.node_limit, 1)
        codes, place = np.unique(owner[related] * width + other[related], return_inverse=True)
        sums = np.round(np.bincount(place, weight[related], len(codes)), 6)
        owner, other = np.divmod(codes[sums != 0], width)
        return owner, other, sums[sums != 0].astype(np.float32)

    def _read_edges(self, nodes: Keys) -> None:
        missing = np.array([one for one in dict.fromkeys(nodes.tolist()) if one not in self._edges], np.int64)
        if len(missing) == 0:
            return
        is_chunk = missing < self.first_entity
        if is_chunk.any():
            counts, targets, weights = self._in_chunks(missing[is_chunk])
            ends = np.cumsum(counts)[:-1]
            parts = zip(np.split(targets, ends), np.split(weights, ends), strict=True)
            self._edges.update(zip(missing[is_chunk].tolist(), parts, strict=True))
        entities = missing[~is_chunk]
        if len(entities):
            self._read_chunks(entities)
            owner, others, weights = self._links(entities)
            ends = np.cumsum(np.bincount(owner, minlength=len(entities)))[:-1]
            links = zip(np.split(others, ends), np.split(weights, ends), strict=True)
            for entity, (other, weight) in zip(entities.tolist(), links, strict=True):
                chunks, own = self._known[entity]
                self._edges[entity] = np.concatenate([chunks, other]), np.concatenate([own, weight])

    def edges(self, nodes: Keys, to: Kind | None = None, limit: int | None = None) -> Adjacency:
        """Return the edges of nodes."""
        self._read_edges(nodes)
        rows = [self._edges[one] for one in nodes.tolist()]
        counts = np.array([len(targets) for targets, _ in rows], np.int64)
        targets = np.concatenate([NONE, *(targets for targets, _ in rows)])
        weights = np.concatenate([np.empty(0, np.float32), *(weights for _, weights in rows)])
        sums = np.bincount(np.repeat(np.arange(len(rows)), counts), weights, len(rows))
        every = Adjacency(counts, targets, weights, np.round(sums, 6).astype(np.float32))
        places = None if limit is None else self._uses.places(targets)
        return strongest(every, self.first_entity, to, limit, places)

    def degrees(self, nodes: Keys) -> npt.NDArray[np.float32]:
        """Return the number of neighbours of each node."""
        self._read_edges(nodes)
        return np.array([len(self._edges[one][0]) for one in nodes.tolist()], np.float32)

    def walk(self, nodes: Keys, masses: npt.NDArray[np.float64], damping: float, least: float) -> Adjacency:  # noqa: ARG002
        """Return the edges of nodes, for a walk that goes on from them."""
        return self.edges(nodes)

    def top(self, count: int) -> Keys:
        """Return the entities that the most chunks mention, most first. Takes time in proportion to the scope."""
        found = distinct(self._representing(self._uses.every_spelling()))
        return most_mentioned(self, found[self._exist(found)], count)
