"""The strongest path from a question through the graph to each hit, and the facts that support the answer."""

from collections.abc import Sequence

import igraph
import numpy as np
import numpy.typing as npt

from graphrag_core.ports import Keys, Scores
from graphrag_core.query.query import Query

EntityPath = tuple[int, ...]
"""Alternating keys: an entity that the question names, a fact, an entity, and so on. The passage mentions the last."""

_MAX_BETWEEN = 16  # entities that a path of two links may pass through
_MAX_FACTS = 10
_MAX_SCANNED = 5_000  # facts of one entity
_HOP = 1_000.0  # the cost of a hop exceeds that of any weak link: fewer hops always win


def find_paths(query: Query, chunks: Keys) -> list[EntityPath]:
    """Return for each chunk the strongest path from an entity that the question names; empty if there is none.

    A chunk that mentions a named entity is reached directly, the rarest entity first; others over
    one link or two. The strength of a link is its weight divided by the square root of how many
    chunks mention its target; a path is as strong as the product of its links. Each link is
    represented by the strongest fact that holds both ends. Dijkstra's algorithm runs in igraph, on the
    links around the question that can be part of such a path.
    """
    if len(query.entities) == 0 or len(chunks) == 0:
        return [()] * len(chunks)
    mentioned = query.snapshot.neighbours(chunks, to="entities")
    starts, ends, costs = _links_around(query, np.unique(mentioned.targets))
    entities = np.unique(np.concatenate([query.entities, starts, ends]))
    inside = _among(mentioned.targets, entities)
    holders, owners = mentioned.targets[inside], np.repeat(np.arange(len(chunks)), mentioned.counts)[inside]
    mentions, _ = query.snapshot.entity_counts(holders)
    # Vertex 0 is the question; then come the entities and the chunks.
    first_chunk = 1 + len(entities)
    sources = np.concatenate([np.zeros(len(query.entities), np.int64), 1 + np.searchsorted(entities, starts),
                              1 + np.searchsorted(entities, holders)])  # fmt: skip
    targets = np.concatenate([1 + np.searchsorted(entities, query.entities), 1 + np.searchsorted(entities, ends),
                              first_chunk + owners])  # fmt: skip
    weights = np.concatenate([np.zeros(len(query.entities)), costs, 1e-6 * mentions])
    graph = igraph.Graph(first_chunk + len(chunks), np.column_stack([sources, targets]).tolist(), directed=True)
    reachable = sorted(vertex for vertex in graph.subcomponent(0, mode="out") if vertex >= first_chunk)
    routes = graph.get_shortest_paths(0, to=reachable, weights=weights.tolist(), mode="out") if reachable else []
    paths: list[EntityPath] = [()] * len(chunks)
    strongest: dict[tuple[int, int], int] = {}  # fact of each link
    for vertex, route in zip(reachable, routes, strict=True):
        path = entities[np.array(route[1:-1]) - 1].tolist()
        for at in range(len(path) - 1, 0, -1):
            link = path[at - 1], path[at]
            if link not in strongest:
                facts = query.snapshot.facts_of(np.array(link), joint=True)
                if len(facts) > 1:
                    facts = facts[query.order("facts", facts, query.snapshot.fact_rows(facts).weights)]
                strongest[link] = int(facts[0])
            path.insert(at, strongest[link])
        paths[vertex - first_chunk] = tuple(path)
    return paths


def _links_around(query: Query, wanted: Keys) -> tuple[Keys, Keys, Scores]:
    """Return start, end and cost of the links that can lead from the question's entities to wanted ones.

    From the question's entities: links to wanted entities and the strongest of all. From where these
    lead: links to wanted entities.
    """
    starts: list[Keys] = []
    ends: list[Keys] = []
    strengths: list[Scores] = []
    entities = query.entities
    for hop in (1, 2):
        edges = query.snapshot.neighbours(entities, to="entities")
        mentions, _ = query.snapshot.entity_counts(edges.targets)
        strength = edges.weights / np.sqrt(mentions.clip(1))
        kept = _among(edges.targets, wanted)
        if hop == 1:
            strongest = np.argsort(-strength, kind="stable")[:_MAX_BETWEEN]
            kept[strongest] = True
        else:
            kept &= ~_among(edges.targets, np.sort(query.entities))
        starts.append(np.repeat(entities, edges.counts)[kept])
        ends.append(edges.targets[kept])
        strengths.append(strength[kept])
        if hop == 1:
            entities = np.unique(edges.targets[strongest])
    costs = (_HOP - np.log(np.maximum(np.concatenate(strengths), 1e-12))).astype(np.float32)
    return np.concatenate(starts), np.concatenate(ends), costs


def _among(keys: Keys, ascending: Keys) -> npt.NDArray[np.bool_]:
    """Return which keys are among others in ascending order; faster than ``np.isin``."""
    if len(ascending) == 0:
        return np.zeros(len(keys), np.bool_)
    found: npt.NDArray[np.bool_] = ascending[np.minimum(np.searchsorted(ascending, keys), len(ascending) - 1)] == keys
    return found


def choose_facts(query: Query, paths: Sequence[EntityPath], chunks: Keys, followed: Keys) -> Keys:
    """Return the facts that support an answer, most important first.

    For each hit the facts on its path and, for the first few, one that the passage itself states about
    the last entity of the path; then those that the strategy followed; then facts about the question's
    entities, those stated in a hit before others and strong ones before weak ones.
    """
    chosen: dict[int, None] = {}
    for path, chunk in zip(paths, chunks.tolist(), strict=True):
        chosen.update(dict.fromkeys(path[1::2]))
        if len(path) > 1 and len(chosen) < _MAX_FACTS // 2:
            stated = query.snapshot.facts_of(np.array(path[-1:]))
            chosen.update(dict.fromkeys(stated[query.snapshot.fact_rows(stated).chunks == chunk][:1].tolist()))
    on_paths = len(chosen)
    chosen.update(dict.fromkeys(followed.tolist()))
    around = query.snapshot.facts_of(query.entities, limit=_MAX_SCANNED)
    rows = query.snapshot.fact_rows(around)
    order = query.order("facts", around, _among(rows.chunks, np.sort(chunks)).astype(np.float32), rows.weights)
    chosen.update(dict.fromkeys(around[order[:_MAX_FACTS]].tolist()))
    return np.array(list(chosen)[: max(_MAX_FACTS, len(followed), on_paths)], np.int64)
