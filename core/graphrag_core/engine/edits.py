"""Edits of the graph: renamed, merged and deleted entities, and hidden relations.

The records stay unchanged. The edits are a setting of the index, a list of :class:`~graphrag_core.Edit` as JSON, and
are applied to each read: entities are mapped before and after it. So they hold for documents that come later, and
undoing one leaves no trace. An entity is referred to by normalised names that documents write, which no edit changes.

Explicit edges (:mod:`graphrag_core.ingest.edges`) are read here, too: the fact of an edge holds the title of the
document that it leads to, and is hidden while that document is not there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphrag_core.engine.arrays import Flags, Numbers
from graphrag_core.engine.counters import Pairs, kept_rows, once
from graphrag_core.engine.scope import Scope
from graphrag_core.key_sets import among, distinct, ranges
from graphrag_core.lazy import computed_once
from graphrag_core.model import Fact
from graphrag_core.ports import Adjacency, Keys
from graphrag_core.text import hash64, normalise

MENTION_WEIGHT, SUBJECT_WEIGHT = 1, 6
"""The weights of the edges between a chunk and what it mentions, or what it is about."""

FactReader = Callable[[Keys], Sequence[tuple[Sequence[int], Fact]]]
"""Returns the ids of the entities that facts name, in order, and the facts."""

_NONE: Keys = np.empty(0, np.int64)


class EditedGraph:
    """A :class:`~graphrag_core.engine.scope.Scope` with edits and explicit edges applied.

    A merged entity has the number of the one that represents it. ``read`` reads facts.
    """

    def __init__(self, graph: Scope, edits: str, read: FactReader) -> None:
        self._graph = graph
        self._edits: list[dict[str, Any]] = json.loads(edits)["edits"] if edits else []
        self._read = read
        self.first_entity, self.has_edges = graph.first_entity, graph.has_edges
        self.ids, self.are_addresses, self.uses = graph.ids, graph.are_addresses, graph.uses
        self.are_triples = graph.are_triples

    def _details(self, *actions: str) -> list[dict[str, Any]]:
        return [edit["details"] for edit in self._edits if edit["action"] in actions]

    # -- which entities are one

    @computed_once
    def _merged(self) -> tuple[Keys, Keys]:
        """The entities that are one with others, ascending, and the one that represents each."""
        groups = []
        for details in self._details("rename", "merge"):
            norms = [*details.get("into", ()), *details["of"]]  # first the one that represents the others
            if details.get("name"):  # a new name is one with the old: documents may come to write it
                norms.append(normalise(details["name"]))
            groups.append([hash64(norm) for norm in dict.fromkeys(norms)])
        known = self._graph.find(sorted({name_id for group in groups for name_id in group}))
        representative: dict[int, int] = {}
        for group in groups:
            entities = dict.fromkeys(entity for name_id in group for entity in known.get(name_id, ()))
            if len(entities) > 1:
                old = {representative.get(entity, entity) for entity in entities}
                members = {entity for entity, other in representative.items() if other in old} | {*entities} | old
                representative |= dict.fromkeys(members, next(iter(entities)))
        ascending = sorted(representative)
        return np.array(ascending, np.int64), np.array([representative[entity] for entity in ascending], np.int64)

    @computed_once
    def _deleted_entities(self) -> Keys:
        """The entities that edits deleted, without those that are merged with them."""
        ids = [hash64(norm) for details in self._details("delete_entity") for norm in details["of"]]
        found = self._graph.find(ids) if ids else {}
        return np.array([entity for entities in found.values() for entity in entities], np.int64)

    @computed_once
    def _deleted(self) -> Keys:
        """The entities that edits deleted, as they are represented, ascending."""
        return distinct(self._representing(self._deleted_entities))

    def _representing(self, entities: Keys) -> Keys:
        """Return the entity that represents each."""
        members, representatives = self._merged
        inside = among(entities, members)
        if not inside.any():
            return entities
        found = entities.copy()
        found[inside] = representatives[np.searchsorted(members, entities[inside])]
        return found

    def _members(self, entities: Keys) -> Pairs:
        """Return the entities that are one with each."""
        members, representatives = self._merged
        order = np.argsort(representatives, kind="stable")
        start = np.searchsorted(representatives[order], entities, "left")
        count = np.searchsorted(representatives[order], entities, "right") - start
        alone = count == 0
        found = np.empty(int(count.sum() + alone.sum()), np.int64)
        counts = np.where(alone, 1, count)
        ends = counts.cumsum()
        found[ends[alone] - 1] = entities[alone]
        found[ranges((ends - counts)[~alone], count[~alone])] = members[order][ranges(start, count)]
        return counts, found

    def _mapped(self, counts: Numbers, entities: Keys) -> tuple[Numbers, Keys, Flags]:
        """Return rows of entities after edits, each once: their lengths, the entities, and which were kept."""
        entities = self._representing(entities)
        kept = ~among(entities, self._deleted)
        owner = np.arange(len(counts)).repeat(counts)
        kept[kept] = once(owner[kept], entities[kept])
        return kept_rows(counts, kept), entities[kept], kept

    @computed_once
    def new_names(self) -> tuple[dict[int, str], dict[int, int]]:
        """The new names of entities, and by name id the entity of each name that an edit introduced."""
        changes = []
        for details in self._details("rename", "merge"):
            ids = [hash64(norm) for norm in (*details.get("into", ()), *details["of"])]
            changes.append((ids, details["name"]))
        known = self.find(sorted({name_id for ids, _ in changes for name_id in ids}))
        names: dict[int, str] = {}
        introduced: dict[int, int] = {}
        for ids, name in changes:
            entity = next((known[name_id][0] for name_id in ids if name_id in known), None)
            if entity is not None:
                names[entity] = name  # later edits count more
                introduced[hash64(normalise(name))] = entity
        return names, introduced

    def find(self, ids: Sequence[int]) -> dict[int, list[int]]:
        found = {}
        for name_id, entities in self._graph.find(ids).items():
            own = self._representing(np.array(entities, np.int64))
            if len(own := own[~among(own, self._deleted)]):
                found[name_id] = list(dict.fromkeys(own.tolist()))
        return found

    def names(self, entities: Keys) -> Pairs:
        counts, members = self._members(entities)
        sizes, names = self._graph.names(members)
        return np.bincount(np.arange(len(counts)).repeat(counts), sizes, len(counts)).astype(np.int64), names

    def entity_counts(self, entities: Keys) -> Keys:
        counts = self._graph.entity_counts(entities)
        if (several := among(entities, self._merged[0])).any():
            counts[several] = self.walk(entities[several]).counts
        return counts

    def top(self, count: int) -> Keys:
        members, representatives = self._merged
        found = self._graph.top(min(count + len(members) + len(self._deleted), 1 << 40))
        found = distinct(self._representing(found), representatives)
        found = found[~among(found, self._deleted) & ~self.are_addresses(found)]
        return found[np.lexsort((self.ids(found), -self.entity_counts(found)))[:count]]

    # -- edges

    def walk(self, nodes: Keys) -> Adjacency:
        is_chunk = nodes < self.first_entity
        counts, members = self._members(nodes)
        edges = self._graph.walk(members)
        owner = np.arange(len(nodes)).repeat(counts).repeat(edges.counts)
        targets = edges.targets.copy()
        of_chunk = is_chunk[owner]
        targets[of_chunk] = self._representing(targets[of_chunk])
        order = np.lexsort((-edges.weights, owner)) if len(members) > len(nodes) else np.arange(len(owner))
        owner, targets, weights = owner[order], targets[order], edges.weights[order]
        kept = ~among(targets, self._deleted)
        kept[kept] = once(owner[kept], targets[kept])
        owner, targets, weights = owner[kept], targets[kept], weights[kept]
        return Adjacency(np.bincount(owner, minlength=len(nodes)), targets, weights)

    def degrees(self, nodes: Keys) -> Keys:
        found = self._graph.degrees(nodes)
        if (several := among(nodes, self._merged[0])).any():
            found[several] = self.walk(nodes[several]).counts
        return found

    # -- facts

    @computed_once
    def _gone(self) -> Keys:
        """The facts of deleted relations, and the triples that hold a deleted entity, ascending."""
        holding = self._facts_of_members(distinct(self._deleted_entities))
        gone = [holding[self._graph.are_triples(holding)]] if len(holding) else [_NONE]
        relations = self._details("delete_relation")
        known = self.find(sorted({hash64(end) for details in relations for end in details["ends"]}))
        for details in relations:
            first, last = (known.get(hash64(details["ends"][at]), []) for at in (0, -1))
            facts, others = (self._facts_of_members(np.array(end, np.int64)) for end in (first, last))
            facts = facts[among(facts, others)]
            rows = self._read(facts) if len(facts) else []
            is_gone = [self._is_deleted(details, set(first), names, fact) for names, fact in rows]
            gone.append(facts[np.array(is_gone, np.bool_)])
        return distinct(*gone)

    def _facts_of_members(self, entities: Keys) -> Keys:
        """Return the facts that hold any of some entities or an entity that is one with them, ascending."""
        return distinct(self._graph.facts_of(self._members(entities)[1])[1]) if len(entities) else _NONE

    def _is_deleted(self, details: dict[str, Any], first: set[int], names: Sequence[int], fact: Fact) -> bool:
        """Return whether a fact between the ends of a deleted relation is that relation. ``first`` are its subjects."""
        if normalise(fact.relation) != normalise(details["relation"]):
            return False
        if not details["relation"]:
            return fact.text.casefold().split() == str(details["text"]).casefold().split()
        known = self.find(names)
        subject = next((known[name] for name in names if name in known), [])
        return not first.isdisjoint(subject) and normalise(fact.value) == normalise(details.get("value", ""))

    def hidden(self, facts: Keys) -> Flags:
        """Return which facts no question may see: those that edits deleted, and edges that lead nowhere."""
        found = among(facts, self._gone)
        if self.has_edges and (edges := self._graph.are_edges(facts)).any():
            found[edges] |= self._held(facts[edges])[0] < 2
        return found

    def every_hidden(self) -> Keys:
        """Return all facts that no question may see."""
        edges = self._graph.every_edge() if self.has_edges else _NONE
        return distinct(self._gone, edges[self.hidden(edges)])

    def _held(self, facts: Keys) -> Pairs:
        """Return the entities that facts hold, hidden facts too, with the titles that edges lead to."""
        counts, entities, _ = self._mapped(*self._graph.entities_of(facts))
        if not self.has_edges or not (edges := self._graph.are_edges(facts)).any():
            return counts, entities
        owner = np.arange(len(facts)).repeat(counts)
        addresses = np.flatnonzero(edges[owner] & self.are_addresses(entities))
        titles = self._titles_of(entities[addresses])
        owner = np.concatenate([owner, owner[addresses][titles >= 0]])
        entities = np.concatenate([entities, titles[titles >= 0]])
        order = np.argsort(owner, kind="stable")
        owner, entities = owner[order], entities[order]
        first = once(owner, entities)
        return np.bincount(owner[first], minlength=len(facts)), entities[first]

    def entities_of(self, facts: Keys) -> Pairs:
        """Return the entities that facts hold; none of a hidden fact."""
        counts, entities = self._held(facts)
        if not (gone := self.hidden(facts)).any():
            return counts, entities
        return np.where(gone, 0, counts), entities[~gone.repeat(counts)]

    def facts_of(self, entities: Keys, limit: int | None = None) -> Pairs:
        counts, members = self._members(entities)
        owner = np.arange(len(entities)).repeat(counts)
        if self.has_edges:  # an edge that leads to a document holds its title
            of, addresses = self._addresses_of(entities)
            owner, members = np.concatenate([owner, of]), np.concatenate([members, addresses])
        sizes, facts = self._graph.facts_of(members)
        is_edge = np.arange(len(members)).repeat(sizes) >= counts.sum()
        owner = owner.repeat(sizes)
        kept = ~self.hidden(facts)
        kept[is_edge] &= self._graph.are_edges(facts[is_edge]) if self.has_edges else False
        owner, facts = owner[kept], facts[kept]
        order = np.lexsort((facts, owner))
        owner, facts = owner[order], facts[order]
        first = once(owner, facts)
        owner, facts = owner[first], facts[first]
        sizes = np.bincount(owner, minlength=len(entities))
        if limit is not None:
            place = np.arange(len(facts)) - (sizes.cumsum() - sizes).repeat(sizes)
            sizes, facts = np.minimum(sizes, limit), facts[place < limit]
        return sizes, facts

    # -- the titles that explicit edges lead to

    def _titles(self, chunks: Keys) -> Keys:
        """Return the title of each chunk: its first subject that is not an address; -1 if it has none."""
        edges = self._graph.walk(chunks)
        owner = np.arange(len(chunks)).repeat(edges.counts)
        rows = np.flatnonzero(edges.weights == SUBJECT_WEIGHT)
        rows = rows[~self.are_addresses(edges.targets[rows])]
        owners, first = np.unique(owner[rows], return_index=True)
        found = np.full(len(chunks), -1, np.int64)
        found[owners] = self._representing(edges.targets[rows[first]])
        return found

    def _about(self, entities: Keys) -> Pairs:
        """Return the chunks that are about entities: the position of the entity, and the chunk."""
        edges = self._graph.walk(entities)
        about = edges.weights == SUBJECT_WEIGHT
        return np.arange(len(entities)).repeat(edges.counts)[about], edges.targets[about]

    def _titles_of(self, addresses: Keys) -> Keys:
        """Return for each address the title of its chunks, if no others have this title; else -1."""
        owner, chunks = self._about(addresses)
        title = self._titles(chunks)
        count = np.bincount(owner, minlength=len(addresses))
        lowest, highest = np.full(len(addresses), np.iinfo(np.int64).max), np.full(len(addresses), -1)
        np.minimum.at(lowest, owner, title)
        np.maximum.at(highest, owner, title)
        found = np.where(lowest == highest, highest, -1)
        known = np.flatnonzero(found >= 0)
        of, titled = self._about(found[known])
        uses = kept_rows(np.bincount(of, minlength=len(known)), self._titles(titled) == found[known][of])
        found[known[uses != count[known]]] = -1
        return found

    def _addresses_of(self, titles: Keys) -> Pairs:
        """Return the addresses of the documents with some titles: the position of the title, and the address."""
        owner, chunks = self._about(titles)
        edges = self._graph.walk(chunks)
        of = owner.repeat(edges.counts)
        rows = np.flatnonzero((edges.weights == SUBJECT_WEIGHT) & self.are_addresses(edges.targets))
        of, addresses = of[rows], edges.targets[rows]
        first = once(of, addresses)
        of, addresses = of[first], addresses[first]
        leads = self._titles_of(addresses) == titles[of]
        return of[leads], addresses[leads]
