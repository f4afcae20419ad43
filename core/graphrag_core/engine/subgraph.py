"""A part of the graph with names and passages as an ``igraph.Graph``, for users."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphrag_core.engine.relations import Relations
from graphrag_core.key_sets import distinct
from graphrag_core.ports import Keys

if TYPE_CHECKING:
    from igraph import Graph

    from graphrag_core.engine.snapshot import Snapshot

_Edge = tuple[int, int, float, str, str]  # two vertices, weight, relation and fact

_SUBJECT = 5.0  # the least weight of the edge from a chunk to its subject


def subgraph(snapshot: Snapshot, entities: Keys, hops: int, limit: int) -> Graph:
    """Return what lies around some entities as an undirected graph with names.

    Facts are followed from the entities hop by hop. The graph has the passages that state these facts, too. The
    strongest edges are kept, of equal ones those of the first fact by id. The same documents give the same graph in
    every engine, but for the keys.

    Parameters
    ----------
    snapshot
        What is read; a scope restricts all of it.
    entities
        Where to start.
    hops
        How many facts to follow.
    limit
        The maximum number of edges, of which at most half are between entities.

    Returns
    -------
    igraph.Graph
        Vertices have ``kind`` (``"entity"`` or ``"passage"``), ``key`` and ``name``, the id of a passage. They are
        sorted by kind and name. An edge between entities has the ``weight`` (1 to 10), the ``relation`` and the id of
        the strongest ``fact`` that joins them. One from a passage to an entity has the weight 1, or 6 to its subject;
        the relation is ``"mentions"`` or ``"about"``.
    """
    around = Relations(snapshot, entities)
    pairs: dict[tuple[int, int], tuple[int, float]] = {}  # the strongest fact of each pair, and its weight
    for _ in range(hops):
        around.grow()
        sources, targets, facts, weights, _ = (column.tolist() for column in around.edges)
        for source, target, fact, weight in zip(sources, targets, facts, weights, strict=True):
            pair = min(source, target), max(source, target)
            if source != target and len(pairs) < limit // 2 and weight > pairs.get(pair, (0, 0.0))[1]:
                pairs[pair] = fact, weight
        if len(pairs) >= limit // 2:
            break
    chunks = distinct(snapshot.fact_rows(np.array([fact for fact, _ in pairs.values()], np.int64)).chunks)
    seen = distinct(entities, np.array([*pairs], np.int64).ravel())
    return _build(snapshot, seen, chunks, pairs, limit)


def _build(
    snapshot: Snapshot, entities: Keys, chunks: Keys, pairs: dict[tuple[int, int], tuple[int, float]], limit: int
) -> Graph:
    import igraph  # noqa: PLC0415 - imports matplotlib if that is installed, which takes long

    named = sorted(zip([e.name for e in snapshot.entities(entities)], entities.tolist(), strict=True))
    listed = sorted(zip([chunk.id for chunk in snapshot.chunks(chunks)], chunks.tolist(), strict=True))
    vertices = [*(("entity", *one) for one in named), *(("passage", *one) for one in listed)]
    place = {key: at for at, (_, _, key) in enumerate(vertices)}  # chunks and entities have different keys
    facts = snapshot.facts(np.array([fact for fact, _ in pairs.values()], np.int64))
    edges: list[_Edge] = []
    for pair, (_, weight), fact in zip(pairs, pairs.values(), facts, strict=True):
        first, second = sorted(place[entity] for entity in pair)
        edges.append((first, second, weight, fact.relation, fact.id))
    adjacent = snapshot.neighbours(chunks, to="entities")
    owners = np.repeat(chunks, adjacent.counts).tolist()
    mentions: list[_Edge] = [  # entities have lower numbers than passages
        (place[entity], place[chunk], float(weight), "about" if weight > _SUBJECT else "mentions", "")
        for chunk, entity, weight in zip(owners, adjacent.targets.tolist(), adjacent.weights.tolist(), strict=True)
        if entity in place
    ]
    mentions.sort(key=lambda edge: (-edge[2], edge))
    edges = sorted([*edges, *mentions[: max(limit - len(edges), 0)]])
    kinds, names, keys = ([*column] for column in zip(*vertices, strict=True)) if vertices else ([], [], [])
    columns = [*zip(*edges, strict=True)] or [(), (), (), (), ()]
    return igraph.Graph(
        len(vertices),
        [*zip(*columns[:2], strict=True)],
        vertex_attrs={"kind": kinds, "key": keys, "name": names},
        edge_attrs={"weight": [*columns[2]], "relation": [*columns[3]], "fact": [*columns[4]]},
    )
