"""The shortest path between two entities, by breadth-first search from both ends through a snapshot."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from graphrag_core.deadline import check_deadline
from graphrag_core.model import Fact, GraphPath
from graphrag_core.ports import Keys, Snapshot

_MAX_NODES = 200_000  # entities that are visited before the search ends


@dataclass
class _Side:
    """The entities reached from one end: in ascending order of key, each with its cost and its predecessor."""

    keys: Keys
    costs: npt.NDArray[np.float64]
    before: Keys
    frontier: Keys

    @classmethod
    def start(cls, keys: Keys) -> _Side:
        keys = np.unique(keys)
        return cls(keys, np.zeros(len(keys)), np.full(len(keys), -1, np.int64), keys)

    def places(self, keys: Keys) -> Keys:
        """Return the positions of keys that were reached."""
        return np.searchsorted(self.keys, keys)

    def grow(self, snapshot: Snapshot) -> None:
        """Go one hop further. Of several ways to an entity, keep the cheapest, and of equal ones the lowest key."""
        edges = snapshot.neighbours(self.frontier, to="entities")
        sources = np.repeat(self.frontier, edges.counts)
        new = ~np.isin(edges.targets, self.keys)
        sources, targets, weights = sources[new], edges.targets[new], edges.weights[new]
        # A link to an entity that many passages mention says little: the cost is the logarithm of weight / sqrt(uses).
        strengths = weights / np.sqrt(snapshot.entity_counts(targets).clip(1)) if len(targets) else weights
        costs = self.costs[self.places(sources)] - np.log(np.maximum(strengths, 1e-12))
        best = np.lexsort((sources, costs, targets))
        self.frontier, first = np.unique(targets[best], return_index=True)
        best = best[first]
        keys = np.concatenate([self.keys, self.frontier])
        order = np.argsort(keys, kind="stable")
        self.keys = keys[order]
        self.costs = np.concatenate([self.costs, costs[best]])[order]
        self.before = np.concatenate([self.before, sources[best]])[order]

    def way(self, key: int) -> list[int]:
        """Return the entities from one that was reached back to the end of this side."""
        entities = []
        while key >= 0:
            entities.append(key)
            key = int(self.before[self.places(np.array([key]))[0]])
        return entities


def shortest_path(snapshot: Snapshot, start: Keys, end: Keys, max_hops: int) -> GraphPath | None:
    """Return the path with the fewest facts between two entities, and of several the strongest; None if there is none.

    Parameters
    ----------
    snapshot
        What is searched; a scope restricts the whole path.
    start, end
        The keys of the two entities.
    max_hops
        The largest number of facts. The search also ends after 200,000 entities.
    """
    if len(start) == 0 or len(end) == 0:
        return None
    first, second = _Side.start(start), _Side.start(end)
    hops = 0
    while not (met := np.intersect1d(first.frontier, second.keys)).size:
        check_deadline()
        side = first if len(first.frontier) <= len(second.frontier) else second
        if hops == max_hops or len(side.frontier) == 0 or len(first.keys) + len(second.keys) > _MAX_NODES:
            return None
        side.grow(snapshot)
        hops += 1
        if side is second and (met := np.intersect1d(second.frontier, first.keys)).size:
            break
    costs = first.costs[first.places(met)] + second.costs[second.places(met)]
    middle = int(met[np.lexsort((met, costs))[0]])
    keys = [*reversed(first.way(middle)), *second.way(middle)[1:]]
    return _described(snapshot, keys)


def _described(snapshot: Snapshot, keys: list[int]) -> GraphPath:
    """Return the entities of a path, and for each link the strongest fact that holds both ends."""
    found = snapshot.entities(np.array(keys, np.int64))
    entities, facts = [found[0]], list[Fact]()
    for before, key, entity in zip(keys, keys[1:], found[1:], strict=False):
        if entity.id == entities[-1].id:  # a section and what it is about are one
            continue
        joint = snapshot.facts_of(np.array([before, key]), joint=True)
        weights = snapshot.fact_rows(joint).weights
        best = joint[np.lexsort((snapshot.id_order("facts", joint), -weights))[:1]]
        facts += snapshot.facts(best)
        entities.append(entity)
    return GraphPath(tuple(entities), tuple(facts))
