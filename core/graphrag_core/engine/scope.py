"""``Scope``: the passages that questions with one filter see, and the graph of these: mentions and facts, both ways.

Nodes are numbers: passages first, then entities in the order of their ids, so that nothing depends on the order in
which documents came. Whether an entity exists is decided when it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphrag_core.engine.arrays import Array, Flags, Numbers
from graphrag_core.engine.attributes import AttributeColumns
from graphrag_core.engine.counters import AGAIN, NAME_BITS, PASSAGE_BITS, SUBJECT, Pairs, kept_rows
from graphrag_core.engine.records import Records
from graphrag_core.engine.view import View
from graphrag_core.filters import Filter, Group, Hidden, asked_keys, mark_unknown, unknown_keys
from graphrag_core.key_sets import among, distinct, ranges
from graphrag_core.model import Entity
from graphrag_core.ports import Adjacency, Keys, Scores

_WEIGHTS = np.array([1, 6], np.float32)  # of a mention, and of what the passage is about
_MOST_SCOPES = 16  # of a generation, that are kept


Scoped = Filter | None | Callable[[Mapping[str, str]], Filter | None]
"""A filter, or a function that returns it, given the settings of the index."""


class Scope:
    """The passages in scope and their graph. Questions with the same filter share it.

    Parameters
    ----------
    view
        The generation that is read.
    seen
        Which passages are in scope; None for all that were not deleted.
    unknown_keys
        The keys of the filter that no document has.

    Attributes
    ----------
    size
        How many passages are in scope.
    visible
        Which these are; None for every passage of the view.
    filtered
        Which passages the filter lets through; None if it lets all.
    entities
        The entities that were read in this scope.
    """

    new_names: tuple[dict[int, str], dict[int, int]] = ({}, {})
    """The names that edits gave to entities, and the entities of these names by id: none without edits."""

    def __init__(self, view: View, seen: Flags | None, unknown_keys: tuple[str, ...] = ()) -> None:
        self._view, self.unknown_keys, self.filtered = view, unknown_keys, seen
        self._seen = view.alive if seen is None else seen
        self.size = view.size if seen is None else int(np.count_nonzero(seen))
        self.visible = self._seen if seen is not None or view.dead else None
        self.entities: dict[int, Entity] = {}
        self.first_entity = len(view.columns["passage"])
        self.node_limit = self.first_entity + len(view.columns["entity"])
        self.has_edges = len(view.edge_facts) > 0
        self._exists = view.exists
        if seen is not None and (addresses := np.flatnonzero(view.columns["entity_address"].all())).size:
            exists = view.exists.copy()
            counts, codes = view.inverse["entity_passages"].gather(addresses)
            exists[addresses] = kept_rows(counts, (codes & SUBJECT > 0) & seen[codes >> PASSAGE_BITS]) > 0
            self._exists = exists
        self._all_exist = bool(self._exists.all())
        self._counted = np.full(0 if seen is None else len(view.columns["entity"]), -1, np.int32)  # -1: not counted yet

    def _nodes(self, entities: Numbers) -> Keys:
        """Return the nodes of entities, given by their numbers in the view: their places in the order of ids."""
        if len(self._view.newer) == 0:
            return entities + self.first_entity
        first, of_newer = self._view.newer_ranks
        size = len(self._view.columns["entity"].base)
        ranks = entities + first.searchsorted(entities, "right")
        is_new = entities >= size
        ranks[is_new] = of_newer[entities[is_new] - size]
        return ranks + self.first_entity

    def _own(self, nodes: Keys) -> Numbers:
        """Return the numbers in the view of entities, which are given as nodes."""
        ranks, newer = nodes - self.first_entity, self._view.newer
        if len(newer) == 0:
            return ranks
        first = self._view.newer_ranks[0]
        places = first + np.arange(len(first))  # of the newer ones
        at = places.searchsorted(ranks)
        entities = ranks - at
        is_new = places[np.minimum(at, len(places) - 1)] == ranks
        entities[is_new] = newer[at[is_new]]
        return entities

    # -- entities

    def find(self, ids: Sequence[int]) -> dict[int, list[int]]:
        """Return for each id the entities with that name: the entity of the id, and the ones it is an alias of."""
        wanted = np.array(ids, np.int64)
        entities = self._view.entities_of(wanted)
        known = np.flatnonzero(entities >= 0)
        own = entities[known]
        seen = self._exists[own] & (self._counts(own) > 0)
        pairs = zip(known[seen].tolist(), self._nodes(own[seen]).tolist(), strict=True)
        found = {ids[at]: [node] for at, node in pairs}
        counts, names = self._view.inverse["alias_names"].gather(wanted)
        if len(names):  # aliases that are written in scope, in the order of the ids of their entities
            owners, entities = np.arange(len(counts)).repeat(counts), self._view.columns["name_entity"].take(names)
            kept = self._exists[entities]
            kept[kept] = self._uses(names[kept], entities[kept]) > 0
            owners, entities = owners[kept], entities[kept].astype(np.int64)
            order = np.lexsort((self._view.columns["entity"].take(entities), owners))
            for at, node in zip(owners[order].tolist(), self._nodes(entities[order]).tolist(), strict=True):
                nodes = found.setdefault(ids[at], [])
                nodes += [node] if node not in nodes else []
        return found

    def ids(self, entities: Keys) -> Keys:
        """Return the ids of entities."""
        return self._view.columns["entity"].take(self._own(entities))

    def are_addresses(self, entities: Keys) -> Flags:
        """Return whether each entity is the address of a section."""
        return self._view.columns["entity_address"].take(self._own(entities))

    def entity_counts(self, entities: Keys) -> Keys:
        """Return how many passages mention each entity."""
        return self._counts(self._own(entities))

    def _counts(self, entities: Numbers) -> Numbers:
        if self.filtered is None:
            return np.asarray(self._view.counters.take(entities, 0), np.int64)
        found = self._counted.take(entities)
        if len(new := distinct(entities[found < 0])):
            self._counted[new] = self._passages_of_entities(new)[0]
            found = self._counted.take(entities)
        return found.astype(np.int64)

    def names(self, entities: Keys) -> Pairs:
        """Return the names of entities that passages in scope write: how many each has, and which."""
        own = self._own(entities)
        counts, names = self._view.inverse["entity_names"].gather(own)
        if self.visible is not None:
            several = (counts > 1).repeat(counts)
            kept = ~several
            kept[several] = self._uses(names[several], own.repeat(counts)[several]) > 0
            counts, names = kept_rows(counts, kept), names[kept]
        return counts, names.astype(np.int64)

    def _uses(self, names: Array, entities: Array) -> Numbers:
        """Return how many passages in scope write each name of an entity."""
        if self.filtered is None:
            return np.asarray(self._view.uses.take(names), np.int64)
        _, codes = self._view.inverse["entity_passages"].gather(distinct(entities))
        passages = distinct(codes >> PASSAGE_BITS)
        _, written = self._view.forward["mention"].gather(passages[self._seen[passages]])
        ascending = np.sort(written >> NAME_BITS)
        return ascending.searchsorted(names, "right") - ascending.searchsorted(names, "left")

    def uses(self, names: Keys) -> Keys:
        """Return how many passages in scope write each name, given by key."""
        numbers, found = self._view.columns["name"].find(names), np.zeros(len(names), np.int64)
        known = numbers >= 0
        found[known] = self._uses(numbers[known], self._view.columns["name_entity"].take(numbers[known]))
        return found

    def top(self, count: int) -> Keys:
        """Return the entities that the most passages mention, most first, without addresses."""
        view = self._view
        things = self._exists & ~view.columns["entity_address"].all()
        if self.filtered is not None:
            uses = np.bincount(self._own(self.walk(np.flatnonzero(self._seen)).targets), minlength=len(things))
        else:
            uses = view.counters.take(np.arange(len(things)), 0)
        found = np.flatnonzero(things & (uses > 0))
        found = found[np.lexsort((view.columns["entity"].take(found), -uses[found]))[:count]]
        return self._nodes(found)

    # -- mentions

    def walk(self, nodes: Keys) -> Adjacency:
        """Return the mentions of nodes: the entities of passages, and the passages of entities."""
        is_entity = nodes >= self.first_entity
        first = len(nodes) - int(np.count_nonzero(is_entity))
        if not is_entity[first:].all():  # passages first, and then back into the order given
            order = np.argsort(is_entity, kind="stable")
            edges, back = self.walk(nodes[order]), np.argsort(order)
            at = ranges((edges.counts.cumsum() - edges.counts)[back], edges.counts[back])
            return Adjacency(edges.counts[back], edges.targets[at], edges.weights[at])
        if first == 0:
            return Adjacency(*self._passages_of_entities(self._own(nodes)))
        own = self._entities_of_passages(nodes[:first])
        if first == len(nodes):
            return Adjacency(*own)
        others = self._passages_of_entities(self._own(nodes[first:]))
        return Adjacency(
            np.concatenate([own[0], others[0]]), np.concatenate([own[1], others[1]]),
            np.concatenate([own[2], others[2]]),
        )  # fmt: skip

    def _entities_of_passages(self, passages: Keys) -> tuple[Numbers, Keys, Scores]:
        counts, codes = self._view.forward["mention"].gather(passages)
        entities = self._view.columns["name_entity"].take(codes >> NAME_BITS)
        kept = codes & AGAIN == 0
        if not self._all_exist:
            kept &= self._exists.take(entities)
        if self.visible is not None:
            kept &= self._seen.take(passages).repeat(counts)
        if not kept.all():
            counts, codes, entities = kept_rows(counts, kept), codes[kept], entities[kept]
        return counts, self._nodes(entities.astype(np.int64)), _WEIGHTS.take(codes & SUBJECT)

    def _passages_of_entities(self, entities: Numbers) -> tuple[Numbers, Keys, Scores]:
        counts, codes = self._view.inverse["entity_passages"].gather(entities)
        passages = (codes >> PASSAGE_BITS).astype(np.int64)
        if self.visible is not None and not (kept := self._seen.take(passages)).all():
            counts, codes, passages = kept_rows(counts, kept), codes[kept], passages[kept]
        return counts, passages, _WEIGHTS.take(codes & SUBJECT)

    def degrees(self, nodes: Keys) -> Keys:
        """Return the number of mentions of each node; of a passage, with those of names that are one entity."""
        is_entity = nodes >= self.first_entity
        found = np.empty(len(nodes), np.int64)
        found[~is_entity] = self._view.forward["mention"].locate(nodes[~is_entity])[1]
        found[is_entity] = self.entity_counts(nodes[is_entity])
        return found

    # -- facts

    def are_edges(self, facts: Keys) -> Flags:
        """Return which facts are explicit edges."""
        return among(facts, self._view.edge_facts)

    def are_triples(self, facts: Keys) -> Flags:
        """Return which facts have a relation."""
        return self._view.columns["fact_triple"].take(facts)

    def every_edge(self) -> Keys:
        """Return all explicit edges in scope."""
        facts = self._view.edge_facts
        return facts[self._seen[self._view.columns["fact_passage"].take(facts)]]

    def entities_of(self, facts: Keys) -> Pairs:
        """Return the entities that facts hold: how many each has, and which."""
        counts, entities = self._view.forward["fact_entity"].gather(facts)
        if not self._all_exist and not (kept := self._exists.take(entities)).all():
            counts, entities = kept_rows(counts, kept), entities[kept]
        return counts, self._nodes(entities.astype(np.int64))

    def facts_of(self, entities: Keys, limit: int | None = None) -> Pairs:
        """Return the first ``limit`` facts that hold each entity: how many, and which."""
        counts, facts = self._view.inverse["entity_facts"].gather(self._own(entities))
        if self.visible is not None:
            kept = self._seen[self._view.columns["fact_passage"].take(facts)]
            counts, facts = kept_rows(counts, kept), facts[kept]
        if limit is not None and (counts > limit).any():
            place = np.arange(len(facts)) - (counts.cumsum() - counts).repeat(counts)
            counts, facts = np.minimum(counts, limit), facts[place < limit]
        return counts, facts.astype(np.int64)


# -- filters


def scope_of(view: View, records: Records, columns: AttributeColumns, scope: Scoped) -> Scope:
    """Return the scope of a filter. What is hidden from every question depends on the time, and rarely changes."""
    chosen = scope(records.meta()) if callable(scope) else scope
    hidden: Filter | None = None
    if isinstance(chosen, Hidden):
        hidden, chosen = chosen.part, None
    elif isinstance(chosen, Group) and chosen.all and len(chosen.parts) == 2 and isinstance(chosen.parts[1], Hidden):
        hidden, chosen = chosen.parts[1].part, chosen.parts[0]
    gone = np.empty(0, np.int64) if hidden is None else np.flatnonzero(matching(view, records, columns, hidden))
    known: dict[Any, Scope] = view.scopes
    key = chosen, gone.tobytes()
    if (found := known.get(key)) is None:
        documents, unknown = view.columns["passage_document"].all(), tuple[str, ...]()
        seen = view.alive.copy()
        if chosen is not None:
            chosen = marked(records, chosen)
            unknown = unknown_keys(chosen)
            seen &= matching(view, records, columns, chosen)[documents]
        if len(gone):
            seen &= ~among(documents, gone)
        if len(known) >= _MOST_SCOPES:
            known.clear()
        found = known[key] = Scope(view, None if np.count_nonzero(seen) == view.size else seen, unknown)
    return found


def matching(view: View, records: Records, columns: AttributeColumns, chosen: Filter) -> Flags:
    """Return which documents match a filter, by key."""
    documents = view.columns["passage_document"]
    last = documents.tail if len(documents.tail) else documents.base
    return columns.matches(chosen, int(last[-1]) + 1 if len(last) else 0, records.attribute)


def marked(records: Records, chosen: Filter) -> Filter:
    """Return a filter whose comparisons with keys that no document has are marked, so that they match nothing."""
    names = asked_keys(chosen)
    unknown = {*names}.difference(records.metadata_keys(names)) if names else set()
    return mark_unknown(chosen, unknown) if unknown else chosen
