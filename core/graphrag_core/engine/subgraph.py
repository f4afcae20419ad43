"""A part of the graph as an ``igraph.Graph``, for algorithms that this library does not have."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Keys, Snapshot

if TYPE_CHECKING:
    from igraph import Graph

_Edge = tuple[int, int, float, str, str]  # two vertices, weight, relation and fact

_MAX_READ = 20_000  # facts of one entity
_SUBJECT = 5.0  # the least weight of the edge from a chunk to its subject


def subgraph(snapshot: Snapshot, entities: Keys, chunks: Keys, hops: int, limit: int) -> Graph:
    """Return what lies around some entities and chunks as an undirected graph.

    Facts are followed from the entities, and from those that the chunks mention, hop by hop. The graph has the
    passages that state these facts, too. The strongest edges are kept, of equal ones those of the first fact by id.
    The same documents give the same graph in every engine, but for the keys.

    Parameters
    ----------
    snapshot
        What is read; a scope restricts all of it.
    entities, chunks
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
    frontier = seen = distinct(entities, snapshot.neighbours(chunks, to="entities").targets)
    fact_of: dict[tuple[int, int], int] = {}  # the strongest fact of each pair
    passages, weight_of = chunks, dict[int, float]()
    for _ in range(hops):
        facts = snapshot.facts_of(frontier, limit=_MAX_READ)
        strongest_first = np.lexsort((snapshot.id_order("facts", facts), -snapshot.fact_rows(facts).weights))
        rows = snapshot.fact_rows(facts[strongest_first])
        ends = np.cumsum(rows.counts).tolist()
        used = []
        for at, (fact, end, count) in enumerate(zip(rows.keys.tolist(), ends, rows.counts.tolist(), strict=True)):
            if len(fact_of) >= limit // 2:
                break
            used.append(at)
            weight_of[fact] = float(rows.weights[at])
            for pair in combinations(dict.fromkeys(rows.entities[end - count : end].tolist()), 2):
                if pair not in fact_of and pair[::-1] not in fact_of:
                    fact_of[pair] = fact
        passages = distinct(passages, rows.chunks[used])
        reached = distinct(np.array([end for pair in fact_of for end in pair], np.int64))
        frontier = reached[~among(reached, seen)]
        seen = distinct(seen, frontier)
        if len(fact_of) >= limit // 2 or len(frontier) == 0:
            break
    return _build(snapshot, seen, passages, fact_of, weight_of, limit)


def _build(
    snapshot: Snapshot,
    entities: Keys,
    chunks: Keys,
    fact_of: dict[tuple[int, int], int],
    weight_of: dict[int, float],
    limit: int,
) -> Graph:
    import igraph  # noqa: PLC0415 - imports matplotlib if that is installed, which takes long

    named = sorted(zip([e.name for e in snapshot.entities(entities)], entities.tolist(), strict=True))
    listed = sorted(zip([chunk.id for chunk in snapshot.chunks(chunks)], chunks.tolist(), strict=True))
    vertices = [*(("entity", *one) for one in named), *(("passage", *one) for one in listed)]
    place = {key: at for at, (_, _, key) in enumerate(vertices)}  # chunks and entities have different keys
    known = dict(zip(weight_of, snapshot.facts(np.array([*weight_of], np.int64)), strict=True))
    edges: list[_Edge] = []
    for pair, key in fact_of.items():
        first, second = sorted(place[entity] for entity in pair)
        edges.append((first, second, weight_of[key], known[key].relation, known[key].id))
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
