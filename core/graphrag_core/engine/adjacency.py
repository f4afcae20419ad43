"""The graph that a question reads: mentions and facts in both directions, within a scope.

Nodes are numbers: passages first, then entities in the order of their ids, so that nothing depends on the order in
which documents came. What is counted of an entity is a sum over documents, so a document
that comes or goes never changes what is stored of another. Whether an entity exists is decided when it is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.arrays import Array, Flags, Numbers
from graphrag_core.key_sets import among, distinct, ranges
from graphrag_core.ports import Adjacency, Keys, Scores
from graphrag_core.text import EDGE, hash64

if TYPE_CHECKING:
    from graphrag_core.engine.view import View

Pairs = tuple[Numbers, Numbers]
"""The number of values of each row, and the values."""

EDGE_ID = hash64(EDGE)
"""The id of the entity that every explicit edge holds."""

COUNTERS = ("passages", "subjects", "titled", "headings", "triples")
"""The passages that mention an entity, and those that are about it; the documents that have it in their title; under
how many titles of documents it is a heading; and the triples that hold it."""

_MOST_TITLES = 4  # a heading under this many titles is generic, unless the text mentions it
_WEIGHTS = np.array([1, 6], np.float32)  # of a mention, and of what the passage is about
_AHEAD, _FEW = 2, 8  # to find whether a node has enough mentions, this many times as many are read, and a few

SUBJECT, IN_TITLE, AGAIN = 1, 2, 4
"""Flags of a mention: the passage is about it; the title of its document names it; an earlier name has its entity."""

NAME_BITS, PASSAGE_BITS = 3, 2
"""Bits of the flags in a mention of a passage, and in a passage of an entity, which has no ``AGAIN``."""


def usage(
    document: Numbers, passage: Numbers, entity: Numbers, flags: Array, is_address: Flags, in_triples: Numbers
) -> tuple[Numbers, Numbers]:
    """Count how documents use entities, given all their mentions, each entity once in a passage.

    ``in_triples`` are the entities of their triples, each once for each triple. Returns the entities, ascending, and a
    row of ``COUNTERS`` for each. The title of a passage is its first subject that is not an address.
    """
    ids = distinct(entity, in_triples)
    at, size = ids.searchsorted(entity), len(ids)
    subject, in_title = flags & SUBJECT > 0, flags & IN_TITLE > 0
    titled = np.flatnonzero(in_title)
    headed = np.flatnonzero(subject & ~is_address)
    heading, owner = at[headed], passage[headed]
    opens = np.ones(len(headed), np.bool_)
    opens[1:] = owner[1:] != owner[:-1]
    title = heading[opens][opens.cumsum() - 1] if len(headed) else heading
    below = (heading != title) & ~in_title[headed]
    _, pair = np.unique(heading[below] * size + title[below], return_inverse=True)
    counts = (
        at, at[subject], at[titled[once(document[titled], at[titled])]],
        heading[below][once(document[headed][below], pair)], ids.searchsorted(in_triples),
    )  # fmt: skip
    return ids, np.array([np.bincount(own, minlength=size) for own in counts], np.int64).reshape(len(counts), size).T


def exist(counters: Array, is_address: Flags) -> Flags:
    """Return which entities exist for questions, given a row of counters for each.

    - An address exists if some passage has it as its subject.
    - A heading does not if it stands under many titles and the text hardly speaks of it, unless a triple holds it.
    """
    passages, subjects, titled, headings, triples = counters.T
    under = headings + (titled > 0)
    generic = (under >= _MOST_TITLES) & (passages - subjects < under) & (triples == 0)
    found: Flags = np.where(is_address, subjects > 0, (passages > 0) & ~generic)
    return found


def once(owners: Numbers, values: Numbers) -> Flags:
    """Return which pairs of an owner and a value are the first of their kind.

    >>> once(np.array([0, 0, 1, 0]), np.array([5, 6, 5, 5])).tolist()
    [True, True, True, False]
    """
    width = int(values.max(initial=0)) + 1
    first = np.zeros(len(owners), np.bool_)
    first[np.unique(owners * width + values, return_index=True)[1]] = True
    return first


def kept_rows(counts: Numbers, kept: Flags) -> Numbers:
    """Return the lengths of rows of which only some entries are kept."""
    return np.bincount(np.arange(len(counts)).repeat(counts)[kept], minlength=len(counts))


class Graph:
    """The graph of a view, or of a scope: entities that do not exist there are left out.

    Parameters
    ----------
    view
        The generation that is read.
    seen
        Which passages are in scope; None for all that were not deleted.
    """

    def __init__(self, view: View, seen: Flags | None) -> None:
        self._view, self._in_scope = view, seen is not None
        self._seen = view.alive if seen is None else seen
        self._all_there = seen is None and view.dead == 0
        self.first_entity = len(view["passage"])
        self.node_limit = self.first_entity + len(view["entity"])
        self.has_edges = len(view.edge_facts()) > 0
        self._exists = view.exists
        if seen is not None and (addresses := np.flatnonzero(view["entity_address"].all())).size:
            exists = view.exists.copy()
            counts, codes = view.inverse["entity_passages"].gather(addresses)
            exists[addresses] = kept_rows(counts, (codes & SUBJECT > 0) & seen[codes >> PASSAGE_BITS]) > 0
            self._exists = exists
        self._all_exist = bool(self._exists.all())
        self._degrees: npt.NDArray[np.float32] | None = None  # of nodes, and 1 more; -n if at least n were counted

    def _nodes(self, entities: Numbers) -> Keys:
        """Return the nodes of entities, which are given by their numbers in the view."""
        return self._view.ranks(entities) + self.first_entity

    def _own(self, nodes: Keys) -> Numbers:
        """Return the numbers in the view of entities, which are given as nodes."""
        return self._view.entities_at(nodes - self.first_entity)

    # -- entities

    def find(self, ids: Sequence[int]) -> dict[int, list[int]]:
        """Return for each id the entities with that name: the entity of the id, and the ones it is an alias of."""
        wanted = np.array(ids, np.int64)
        entities = self._view.entities_of(wanted)
        known = np.flatnonzero(entities >= 0)
        own = entities[known]
        seen = self._exists[own]
        if self._in_scope:
            seen = seen & (self.degrees(self._nodes(own), np.ones(len(own))) > 0)
        pairs = zip(known[seen].tolist(), self._nodes(own[seen]).tolist(), strict=True)
        found = {ids[at]: [node] for at, node in pairs}
        counts, names = self._view.inverse["alias_names"].gather(wanted)
        if len(names):
            for at, node in self._aliases(counts, names.astype(np.int64)):
                nodes = found.setdefault(ids[at], [])
                nodes += [node] if node not in nodes else []
        return found

    def _aliases(self, counts: Numbers, names: Numbers) -> list[tuple[int, int]]:
        """Return the positions of ids, and the entities of which names in scope are aliases, in the order of ids."""
        owners, entities = np.arange(len(counts)).repeat(counts), self._view["name_entity"].take(names)
        kept = self._exists[entities]
        kept[kept] = self._written(names[kept], entities[kept])
        owners, entities = owners[kept], entities[kept].astype(np.int64)
        order = np.lexsort((self._view["entity"].take(entities), owners))
        return [*zip(owners[order].tolist(), self._nodes(entities[order]).tolist(), strict=True)]

    def ids(self, entities: Keys) -> Keys:
        """Return the ids of entities."""
        return self._view["entity"].take(self._own(entities))

    def are_addresses(self, entities: Keys) -> Flags:
        """Return whether each entity is the address of a section."""
        return self._view["entity_address"].take(self._own(entities))

    def counts(self, entities: Keys) -> tuple[Keys, Flags]:
        """Return how many passages mention each entity, and whether it is the subject of any."""
        if self._in_scope:
            edges = self.walk(entities)
            return edges.counts, edges.totals > edges.counts
        counters = self._view.counters.take(self._own(entities))
        return counters[:, 0].astype(np.int64), counters[:, 1] > 0

    def passages(self, entities: Keys, most: int) -> Keys:
        """Count the passages that mention each entity. Counting may stop at ``most``."""
        if not self._in_scope:
            return self.counts(entities)[0]
        return self.degrees(entities, np.full(len(entities), float(most))).astype(np.int64)

    def names(self, entities: Keys) -> Pairs:
        """Return the names of entities that passages in scope write: how many each has, and their keys."""
        own = self._own(entities)
        counts, names = self._view.inverse["entity_names"].gather(own)
        if not self._all_there:
            several = (counts > 1).repeat(counts)
            kept = ~several
            kept[several] = self._written(names[several], own.repeat(counts)[several])
            counts, names = kept_rows(counts, kept), names[kept]
        return counts, self._view["name"].take(names).astype(np.int64)

    def _written(self, names: Array, entities: Array) -> Flags:
        """Return which names a passage in scope writes for an entity."""
        if not self._in_scope:
            return self._view.uses.take(names) > 0
        return self._uses_in_scope(names, entities) > 0

    def _uses_in_scope(self, names: Array, entities: Array) -> Numbers:
        """Return how many passages in scope write each name of an entity."""
        own = distinct(entities)
        _, codes = self._view.inverse["entity_passages"].gather(own)
        passages = distinct(codes >> PASSAGE_BITS)
        _, written = self._view.forward["mention"].gather(passages[self._seen[passages]])
        ascending = np.sort(written >> NAME_BITS)
        return ascending.searchsorted(names, "right") - ascending.searchsorted(names, "left")

    def uses(self, names: Keys) -> Keys:
        """Return how many passages in scope write each name, given by key."""
        numbers = self._view["name"].find(names)
        if not self._in_scope:
            return self._view.uses.take(numbers).astype(np.int64)
        return self._uses_in_scope(numbers, self._view["name_entity"].take(numbers))

    def top(self, count: int) -> Keys:
        """Return the entities that the most passages mention, most first, without addresses."""
        view = self._view
        things = self._exists & ~view["entity_address"].all()
        if self._in_scope:
            entities = self.walk(np.flatnonzero(self._seen)).targets
            uses = np.bincount(self._own(entities), minlength=len(things))
        else:
            uses = view.counters.take(np.arange(len(things)))[:, 0]
        found = np.flatnonzero(things & (uses > 0))
        found = found[np.lexsort((view["entity"].take(found), -uses[found]))[:count]]
        return self._nodes(found)

    # -- mentions

    def walk(self, nodes: Keys) -> Adjacency:
        """Return the mentions of nodes: the entities of passages, and the passages of entities."""
        is_entity = nodes >= self.first_entity
        if not is_entity.any():
            counts, targets, weights = self._entities_of_passages(nodes)
        elif is_entity.all():
            counts, targets, weights = self._passages_of_entities(self._own(nodes))
        else:
            own = self._entities_of_passages(nodes[~is_entity])
            others = self._passages_of_entities(self._own(nodes[is_entity]))
            counts = np.empty(len(nodes), np.int64)
            counts[~is_entity], counts[is_entity] = own[0], others[0]
            starts, size = counts.cumsum() - counts, int(counts.sum())
            targets, weights = np.empty(size, np.int64), np.empty(size, np.float32)
            for which, (_, found, own_weights) in ((~is_entity, own), (is_entity, others)):
                at = ranges(starts[which], counts[which])
                targets[at], weights[at] = found, own_weights
        totals = np.bincount(np.arange(len(nodes)).repeat(counts), weights, len(nodes)).astype(np.float32)
        return Adjacency(counts, targets, weights, totals)

    def _entities_of_passages(self, passages: Keys) -> tuple[Numbers, Keys, Scores]:
        counts, codes = self._view.forward["mention"].gather(passages)
        entities = self._view["name_entity"].take(codes >> NAME_BITS)
        kept = codes & AGAIN == 0
        if not self._all_exist:
            kept &= self._exists.take(entities)
        if not self._all_there:
            kept &= self._seen.take(passages).repeat(counts)
        if not kept.all():
            counts, codes, entities = kept_rows(counts, kept), codes[kept], entities[kept]
        return counts, self._nodes(entities.astype(np.int64)), _WEIGHTS.take(codes & SUBJECT)

    def _passages_of_entities(self, entities: Numbers, limit: Numbers | None = None) -> tuple[Numbers, Keys, Scores]:
        counts, codes = self._view.inverse["entity_passages"].gather(entities, limit)
        passages = (codes >> PASSAGE_BITS).astype(np.int64)
        if not self._all_there and not (kept := self._seen.take(passages)).all():
            counts, codes, passages = kept_rows(counts, kept), codes[kept], passages[kept]
        return counts, passages, _WEIGHTS.take(codes & SUBJECT)

    def degrees(self, nodes: Keys, most: npt.NDArray[np.float64] | None = None) -> Scores:
        """Return the number of mentions of each node. Counting may stop at ``most``."""
        if self._degrees is None:
            self._degrees = np.zeros(self.node_limit, np.float32)
        known = self._degrees.take(nodes)
        found = np.where(known > 0, known - 1, -known)
        unread = np.flatnonzero((known <= 0) & (found < (np.inf if most is None else most)))
        is_entity = nodes[unread] >= self.first_entity
        if most is not None:
            ahead = unread[is_entity]
            limits = (_AHEAD * most[ahead]).astype(np.int64) + _FEW
            own = self._own(nodes[ahead])
            many = self._view.inverse["entity_passages"].counts(own) > limits
            ahead = ahead[many]
            found[ahead] = self._passages_of_entities(own[many], limits[many])[0]
            known[ahead] = -found[ahead]
            is_done = np.zeros(len(nodes), np.bool_)
            is_done[ahead[found[ahead] >= most[ahead]]] = True
            unread = unread[~is_done[unread]]
        counted = self.walk(nodes[unread]).counts
        found[unread] = counted
        known[unread] = counted + 1
        self._degrees[nodes] = known
        return found.astype(np.float32)

    # -- facts

    def are_edges(self, facts: Keys) -> Flags:
        """Return which facts are explicit edges."""
        return among(facts, self._view.edge_facts())

    def are_triples(self, facts: Keys) -> Flags:
        """Return which facts have a relation."""
        return self._view["fact_triple"].take(facts)

    def every_edge(self) -> Keys:
        """Return all explicit edges in scope."""
        facts = self._view.edge_facts()
        return facts[self._seen[self._view["fact_passage"].take(facts)]]

    def entities_of(self, facts: Keys) -> Pairs:
        """Return the entities that facts hold: how many each has, and which."""
        counts, entities = self._view.forward["fact_entity"].gather(facts)
        if not self._all_exist and not (kept := self._exists.take(entities)).all():
            counts, entities = kept_rows(counts, kept), entities[kept]
        return counts, self._nodes(entities.astype(np.int64))

    def facts_of(self, entities: Keys, limit: int | None = None) -> Pairs:
        """Return the first ``limit`` facts that hold each entity: how many, and which."""
        first = None if limit is None or not self._all_there else np.full(len(entities), limit)
        counts, facts = self._view.inverse["entity_facts"].gather(self._own(entities), first)
        if self._all_there:
            return counts, facts.astype(np.int64)
        kept = self._seen[self._view["fact_passage"].take(facts)]
        counts, facts = kept_rows(counts, kept), facts[kept]
        if limit is not None:
            place = np.arange(len(facts)) - (counts.cumsum() - counts).repeat(counts)
            counts, facts = np.minimum(counts, limit), facts[place < limit]
        return counts, facts.astype(np.int64)
