"""The graph inside a scope, read through a mask: nothing is built for a scope.

Whether a heading is generic is decided from all documents. Everything else is decided inside the scope: a spelling
exists only if a chunk in scope mentions it, spellings are one entity by the aliases that chunks in scope
state, and edges, counts and totals are those of the chunks and facts in scope.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.graph.change import MENTION, MOST_LINKED, NONE, SUBJECT, rounded
from graphrag_core.engine.graph.edits import GraphEdits, Shown, edited
from graphrag_core.engine.graph.live import in_all, most_mentioned, strongest, unique_pairs, with_links
from graphrag_core.engine.graph.names import resolve, unambiguous
from graphrag_core.engine.graph.sparse import Flags, Growing, Numbers, Pairs, ranges
from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Adjacency, Keys, Kind, Scores

Weighted = tuple[Numbers, Keys, npt.NDArray[np.float32]]
"""Rows of a sparse matrix as the places of their owners, in order, with values and weights."""


_WEIGHT_BITS = 3  # of the weights of mentions
_MOST_WEIGHT = (1 << _WEIGHT_BITS) - 1


class Uses(Protocol):
    """How the chunks in a scope use spellings: what an engine brings for :class:`ScopedGraph`.

    Spellings have numbers from ``first_entity`` on; an entity has the number of the spelling that represents it. What
    is returned for several has the place of each in the order given first. Doubtful is a spelling that may not exist
    in scope.
    """

    first_entity: int

    @property
    def node_limit(self) -> int: ...
    def find(self, hashes: Sequence[int]) -> dict[int, int]: ...
    def hashes(self, spellings: Keys) -> Keys: ...
    def places(self, nodes: Keys) -> Keys: ...
    def of_names(self, names: Keys) -> Keys: ...
    def are_addresses(self, spellings: Keys) -> Flags: ...
    def chunks_of(self, spellings: Keys) -> tuple[Numbers, Keys, Flags]: ...
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
        self._mentions = ReadRows()  # of chunks and of entities

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

    def _read_chunks(self, entities: Keys) -> Weighted:
        """Return the chunks of entities and the weights of the edges."""
        member_of, spellings = self._members(entities)
        owner, chunks, about = self._uses.chunks_of(spellings)
        return each_once(member_of[owner], chunks, np.where(about, SUBJECT, MENTION).astype(np.float32))

    def _read_mentions(self, nodes: Keys) -> None:
        """Read the mentions of the nodes of which they were not read yet."""
        chunks = self._mentions.missing(nodes[nodes < self.first_entity], self.node_limit)
        if len(chunks):
            self._mentions.add(chunks, *self._mentioned_in(chunks))
        entities = self._mentions.missing(nodes[nodes >= self.first_entity], self.node_limit)
        if len(entities):
            self._mentions.add(entities, *self._read_chunks(entities))

    def _exist(self, entities: Keys) -> Flags:
        """Return which entities a chunk in scope mentions; an address is there if a chunk is about it."""
        counts, is_subject = self.counts(entities)
        there = np.where(self.are_addresses(entities), is_subject, counts > 0)
        return there & ~among(entities, self._deleted) if len(self._deleted) else there

    def _entities(self, owner: Numbers, spellings: Keys, doubtful: Flags) -> tuple[Numbers, Keys, Flags]:
        """Return the entities of spellings without those that do not exist: place, entity, and which rows they were."""
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
        edges = self.walk(entities)
        return edges.counts, edges.totals > edges.counts * MENTION

    def _mentioned_in(self, chunks: Keys) -> Weighted:
        """Return the entities in chunks and the weights of the edges."""
        owner, spellings, subject, doubtful = self._uses.in_chunks(chunks)
        owner, entities, kept = self._entities(owner, spellings, doubtful)
        return each_once(owner, entities, np.where(subject[kept], SUBJECT, MENTION).astype(np.float32))

    def subjects(self, chunks: Keys) -> Pairs:
        """Return the entities that chunks are about: how many each has, and which."""
        return self.about(chunks)

    def about(self, entities: Keys) -> Pairs:
        """Return the chunks whose subject each entity is: how many, and which."""
        counts, chunks, weights, _ = self.walk(entities)
        about = weights == SUBJECT
        owner = np.arange(len(entities)).repeat(counts)[about]
        return np.bincount(owner, minlength=len(entities)), chunks[about]

    def _held_in(self, facts: Keys) -> Pairs:
        """Return the entities that facts hold, also those of hidden facts: the place of the fact, and the entity."""
        owner, entities, _ = self._entities(*self._uses.in_facts(facts))
        return unique_pairs(owner, entities)

    def hidden(self, facts: Keys) -> Flags:
        """Return which facts no query may see: edges with an end outside, and deleted relations."""
        found = np.zeros(len(facts), np.bool_)
        if self.has_edits and len(facts):
            found = self._hides(facts, np.bincount(self._held_in(facts)[0], minlength=len(facts)))
        return found

    def _hides(self, facts: Keys, counts: Keys) -> Flags:
        return self._uses.hidden(facts) | (self._uses.are_edges(facts) & (counts < 2))

    def entities_of(self, facts: Keys) -> Pairs:
        """Return the entities that facts hold: how many each has, and which."""
        owner, entities = self._held_in(facts)
        counts = np.bincount(owner, minlength=len(facts))
        if self.has_edits and len(facts):
            hidden = self._hides(facts, counts)
            entities, counts = entities[~np.repeat(hidden, counts)], np.where(hidden, 0, counts)
        return counts, entities

    def chunks_of_facts(self, facts: Keys) -> Keys:
        """Return the chunk of each fact."""
        return self._uses.chunks_of_facts(facts)

    def _facts_of(self, entities: Keys) -> Pairs:
        """Return the facts that hold entities, in order: the place of the entity, and the fact."""
        member_of, spellings = self._members(entities)
        owner, facts = self._uses.facts_of(spellings)
        owner, facts = unique_pairs(member_of[owner], facts)
        if self.has_edits:
            kept = ~self.hidden(facts)
            owner, facts = owner[kept], facts[kept]
        return owner, facts

    def facts_of(self, entities: Keys, limit: int | None = None) -> Pairs:
        """Return the facts that hold each entity, in order, so many at most: how many, and which."""
        owner, facts = self._facts_of(entities)
        counts = np.bincount(owner, minlength=len(entities))
        if limit is not None:
            place = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
            facts, counts = facts[place < limit], np.minimum(counts, limit)
        return counts, facts

    def joint_facts(self, entities: Keys, limit: int | None = None) -> Keys:
        """Return the facts that hold all entities, in order."""
        return in_all(*self.facts_of(entities, limit))

    def _links(self, entities: Keys) -> tuple[Numbers, Keys, npt.NDArray[np.float64]]:
        """Return the links of entities: the place of the entity, the other one, and the weight."""
        owner, facts = self._facts_of(entities)
        every = distinct(facts)
        sizes, held = self.entities_of(every)
        at = every.searchsorted(facts)
        wanted = sizes[at]
        if wanted.max(initial=0) > MOST_LINKED:
            wanted[wanted > MOST_LINKED] = 0
        owner = owner.repeat(wanted)
        other = held[ranges((sizes.cumsum() - sizes)[at], wanted)]
        strength = (self._uses.weights(facts) / 10).astype(np.float32).astype(np.float64)
        related = other != entities[owner]
        bits = self.node_limit.bit_length()
        codes, place = np.unique((owner[related] << bits) | other[related], return_inverse=True)
        sums = np.bincount(place, strength.repeat(wanted)[related], len(codes)).astype(np.float64)
        codes, sums = codes[rounded(sums) != 0], sums[rounded(sums) != 0]
        return codes >> bits, codes & ((1 << bits) - 1), sums

    def edges(self, nodes: Keys, to: Kind | None = None, limit: int | None = None) -> Adjacency:
        """Return the edges of nodes."""
        found = self.walk(nodes)
        entities = np.flatnonzero(nodes >= self.first_entity)
        if to != "chunks" and len(entities):
            owner, others, sums = self._links(nodes[entities])
            found = with_links(found, entities[owner], others, sums)
        places = None if limit is None else self._uses.places(found.targets)
        return strongest(found, self.first_entity, to, limit, places)

    def degrees(self, nodes: Keys, most: npt.NDArray[np.float64] | None = None) -> Scores:  # noqa: ARG002
        """Return the number of mentions of each node."""
        self._read_mentions(nodes)
        return self._mentions.counts(nodes).astype(np.float32)

    def walk(self, nodes: Keys) -> Adjacency:
        """Return the mentions of nodes. Those that were read are kept."""
        self._read_mentions(nodes)
        counts, targets, weights = self._mentions.gather(nodes)
        totals = np.bincount(np.arange(len(nodes)).repeat(counts), weights, len(nodes))
        return Adjacency(counts, targets, weights, totals.astype(np.float32))

    def top(self, count: int) -> Keys:
        """Return the entities that the most chunks mention, most first. Takes time in proportion to the scope."""
        found = distinct(self._representing(self._uses.every_spelling()))
        return most_mentioned(self, found[self._exist(found)], count)


class ReadRows:
    """Rows of nodes that were read, so that none is read twice."""

    def __init__(self) -> None:
        self._place = np.zeros(0, np.int32)  # of the row of a node, counted from 1; 0 if it was not read
        self._starts, self._counts = Growing(np.zeros(1, np.int64)), Growing(np.zeros(1, np.int64))
        self._values, self._weights = Growing(np.empty(0, np.int64)), Growing(np.empty(0, np.float32))

    def have(self, nodes: Keys, limit: int) -> Flags:
        """Return which nodes were read. All nodes are below ``limit``."""
        if limit > len(self._place):
            before, self._place = self._place, np.zeros(limit, np.int32)
            self._place[: len(before)] = before
        return self._place[nodes] > 0

    def missing(self, nodes: Keys, limit: int) -> Keys:
        """Return the nodes that were not read, each once and in order."""
        return distinct(nodes[~self.have(nodes, limit)])

    def add(self, nodes: Keys, owner: Numbers, values: Keys, weights: npt.NDArray[np.float32]) -> None:
        """Add the rows of nodes; ``owner`` are places of nodes, in order."""
        counts = np.bincount(owner, minlength=len(nodes))
        self._place[nodes] = np.arange(len(self._counts), len(self._counts) + len(nodes))
        self._starts.append(len(self._values) + counts.cumsum() - counts)
        self._counts.append(counts)
        self._values.append(values)
        self._weights.append(weights)

    def counts(self, nodes: Keys) -> Keys:
        """Return the lengths of the rows of nodes."""
        return self._counts.values[self._place[nodes]]

    def gather(self, nodes: Keys) -> tuple[Keys, Keys, npt.NDArray[np.float32]]:
        """Return the rows of nodes: their lengths, values and weights."""
        place = self._place[nodes]
        counts = self._counts.values[place]
        at = ranges(self._starts.values[place], counts)
        return counts, self._values.values[at], self._weights.values[at]


def each_once(owner: Numbers, values: Keys, weights: npt.NDArray[np.float32]) -> Weighted:
    """Return pairs of an owner and a value once, in order, with the largest weight, which is a small number."""
    bits = int(values.max(initial=0)).bit_length()
    lowest = _MOST_WEIGHT - weights.astype(np.int64)  # sorts the largest weight first
    codes = np.sort(((owner << bits) | values) << _WEIGHT_BITS | lowest)
    pairs = codes >> _WEIGHT_BITS
    first = np.ones(len(codes), np.bool_)
    np.not_equal(pairs[1:], pairs[:-1], out=first[1:])
    pairs, codes = pairs[first], codes[first]
    return pairs >> bits, pairs & ((1 << bits) - 1), (_MOST_WEIGHT - (codes & _MOST_WEIGHT)).astype(np.float32)
