"""The shortest path between two entities: relations are read from both ends until they meet; igraph finds the path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphrag_core.engine.relations import Relations
from graphrag_core.key_sets import among, distinct
from graphrag_core.model import Fact, GraphPath
from graphrag_core.ports import Keys

if TYPE_CHECKING:
    from graphrag_core.engine.snapshot import Snapshot

_MAX_NODES = 200_000  # entities that are visited before the search ends
_HOP = 1_000.0  # the cost of a hop exceeds the cost of any weak link: fewer hops always win


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
    first, second = Relations(snapshot, start), Relations(snapshot, end)
    for _ in range(max_hops):
        if among(first.entities, second.entities).any():
            break
        side = min(first, second, key=lambda side: len(side.frontier))
        if len(side.frontier) == 0 or len(first.entities) + len(second.entities) > _MAX_NODES:
            return None
        side.grow()
    if not among(first.entities, second.entities).any():
        return None
    return _described(snapshot, _cheapest(snapshot, first, second, start, end))


def _cheapest(snapshot: Snapshot, first: Relations, second: Relations, start: Keys, end: Keys) -> list[int]:
    """Return the entities on the cheapest path from a start to an end.

    The strength of a link is the sum of its facts' weights. A link to an entity that many passages mention says little:
    it is divided by the square root of the mentions.
    """
    import igraph  # noqa: PLC0415 - imports matplotlib if that is installed, which takes long

    edges, keys = first.edges.joined(second.edges), distinct(first.entities, second.entities)
    size = len(keys)
    ends = keys.searchsorted(np.sort(np.column_stack([edges.sources, edges.targets]), axis=1))
    link_of = ends[:, 0] * size + ends[:, 1]
    order = np.lexsort((edges.facts, link_of))
    once = np.append(True, (np.diff(link_of[order]) != 0) | (np.diff(edges.facts[order]) != 0))[: len(order)]
    order = order[once]  # a fact may be read from both ends
    links, link = np.unique(link_of[order], return_inverse=True)
    strengths = np.bincount(link, edges.weights[order] / 10, len(links))
    mentions = np.log(snapshot.entity_counts(keys).clip(1)) / 4  # for both ends of a link
    costs = _HOP - np.log(strengths.clip(1e-12)) + mentions[links // size] + mentions[links % size]
    # Two more vertices join all starts and all ends.
    starts, targets = keys.searchsorted(distinct(start)), keys.searchsorted(distinct(end))
    extra = [*((size, vertex) for vertex in starts.tolist()), *((size + 1, vertex) for vertex in targets.tolist())]
    graph = igraph.Graph(size + 2, [*zip((links // size).tolist(), (links % size).tolist(), strict=True), *extra])
    route = graph.get_shortest_path(size, size + 1, weights=[*costs.tolist(), *[0.0] * len(extra)])
    return [int(keys[vertex]) for vertex in route[1:-1]]


def _described(snapshot: Snapshot, keys: list[int]) -> GraphPath:
    """Return the entities of a path, and for each link the strongest fact that holds both ends."""
    found = snapshot.entities(np.array(keys, np.int64))
    entities, facts = [found[0]], list[Fact]()
    for before, key, entity in zip(keys, keys[1:], found[1:], strict=False):
        if entity.id == entities[-1].id:  # a section and what it is about are one
            continue
        joint = snapshot.facts_of(np.array([before, key]), joint=True)
        weights = snapshot.fact_rows(joint).weights
        best = joint[np.lexsort((snapshot.fact_order(joint), -weights))[:1]]
        facts += snapshot.facts(best)
        entities.append(entity)
    return GraphPath(tuple(entities), tuple(facts))
