"""The strongest path from a question through the graph to each hit, and the facts that support the answer."""

import math
from collections.abc import Sequence

import numpy as np

from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Keys, Scores
from graphrag_core.query.query import Query

EntityPath = tuple[int, ...]
"""Alternating keys: an entity that the question names, a fact, an entity, and so on. The passage mentions the last."""

_MAX_BETWEEN = 16  # entities that a path of two links may pass through
_MAX_FACTS = 10
_MAX_JOINING = 3  # facts that join the question's own entities
_MAX_SCANNED = 5_000  # facts of one entity
_SUBJECT = 5.0  # the least weight of the edge from a chunk to its subject
_FEW = 10  # an entity that at most this number of chunks mention is specific in any index
_NO_FACT = -1  # of a link: all facts that hold both ends hold an excluded entity too
_HOP = 1_000.0  # the cost of a hop exceeds the cost of any weak link: fewer hops always win


def find_paths(query: Query, chunks: Keys) -> list[EntityPath]:
    """Return for each chunk the strongest path from an entity that the question names; empty if there is none.

    A chunk that mentions a named entity is reached directly, by the rarest entity first; others over one link or two.
    The strength of a link is its weight divided by the square root of the number of chunks that mention its target;
    the strength of a path is the product. Each link is represented by the strongest fact that holds both ends.

    The entity at the end of a path must be the passage's subject, or be mentioned by few passages, and not be a
    number. Of two links, few passages mention the entity between them, and one of the chunks states the second fact.
    """
    if len(query.entities) == 0 or len(chunks) == 0:
        return [()] * len(chunks)
    import igraph  # noqa: PLC0415 - imports matplotlib if that is installed, which takes long

    mentioned = query.snapshot.neighbours(chunks, to="entities")
    starts, ends, costs = _links_around(query, distinct(mentioned.targets))
    entities = distinct(query.entities, starts, ends)
    inside = np.flatnonzero(among(mentioned.targets, entities))
    mentions = query.snapshot.entity_counts(mentioned.targets[inside])
    named = among(mentioned.targets[inside], np.sort(query.entities))
    telling = named | (mentioned.weights[inside] >= _SUBJECT) | (mentions <= _few(query))
    inside, mentions = inside[telling], mentions[telling]
    holders, owners = mentioned.targets[inside], np.repeat(np.arange(len(chunks)), mentioned.counts)[inside]
    # Vertex 0 is the question; then come the entities and the chunks.
    first_chunk = 1 + len(entities)
    sources = np.concatenate([np.zeros(len(query.entities), np.int64), 1 + np.searchsorted(entities, starts),
                              1 + np.searchsorted(entities, holders)])  # fmt: skip
    targets = np.concatenate([1 + np.searchsorted(entities, query.entities), 1 + np.searchsorted(entities, ends),
                              first_chunk + owners])  # fmt: skip
    weights = np.concatenate([np.zeros(len(query.entities)), costs, 1e-6 * mentions])
    graph = igraph.Graph(first_chunk + len(chunks), np.column_stack([sources, targets]).tolist(), directed=True)
    reached = sorted(vertex for vertex in graph.subcomponent(0, mode="out") if vertex >= first_chunk)
    route_to = dict(zip(reached, graph.get_shortest_paths(0, reached, weights=weights), strict=True))
    paths: list[EntityPath] = []
    strongest: dict[tuple[int, int], int] = {}  # fact of each link
    for vertex in range(first_chunk, graph.vcount()):
        path = [int(entities[entity - 1]) for entity in route_to.get(vertex, ())[1:-1]]
        for at in range(len(path) - 1, 0, -1):
            link = path[at - 1], path[at]
            if link not in strongest:
                facts = query.snapshot.facts_of(np.array(link), joint=True)
                if len(facts) > 1:
                    facts = facts[query.order(facts, query.snapshot.fact_rows(facts).weights, of_facts=True)]
                strongest[link] = int(facts[0]) if len(facts) else _NO_FACT
            path.insert(at, strongest[link])
        paths.append(() if _NO_FACT in path[1::2] else tuple(path))
    return _without_unrelated(query, paths, chunks)


def _few(query: Query) -> float:
    """Return how many chunks may mention an entity for it to be specific."""
    return max(_FEW, math.sqrt(query.snapshot.chunk_count))


def _without_unrelated(query: Query, paths: list[EntityPath], chunks: Keys) -> list[EntityPath]:
    """Drop paths through a number, and of two links if they pass a frequent entity or a fact of another passage."""
    passed = np.array(sorted({entity for path in paths for entity in path[2::2]}), np.int64)
    if len(passed) == 0:
        return paths
    mentions = query.snapshot.entity_counts(passed)
    names = zip(passed.tolist(), query.snapshot.entities(passed), strict=True)
    numbers = {key for key, entity in names if not any(character.isalpha() for character in entity.name)}
    frequent = set(passed[mentions > _few(query)].tolist())
    second = np.array(sorted({path[3] for path in paths if len(path) > 3}), np.int64)
    elsewhere = set(second[~among(query.snapshot.fact_rows(second).chunks, np.sort(chunks))].tolist())
    return [
        ()
        if numbers.intersection(path[2::2]) or (len(path) > 3 and (path[2] in frequent or path[3] in elsewhere))
        else path
        for path in paths
    ]


def _links_around(query: Query, wanted: Keys) -> tuple[Keys, Keys, Scores]:
    """Return start, end and cost of the links that can lead from the question's entities to wanted ones.

    From the question's entities: links to wanted entities and the strongest of all. From where these
    lead: links to wanted entities.
    """
    entities, snapshot = query.entities, query.snapshot
    first = snapshot.neighbours(entities, to="entities")
    # The strength of a link is its weight divided by the square root of how many chunks mention the target.
    strength = first.weights / np.sqrt(snapshot.entity_counts(first.targets).clip(1))
    strongest = np.argsort(-strength, kind="stable")[:_MAX_BETWEEN]
    kept = among(first.targets, wanted)
    kept[strongest] = True
    between = distinct(first.targets[strongest])
    second = snapshot.neighbours(between, to="entities")
    further = among(second.targets, wanted) & ~among(second.targets, np.sort(entities))
    starts = np.concatenate([np.repeat(entities, first.counts)[kept], np.repeat(between, second.counts)[further]])
    ends = np.concatenate([first.targets[kept], second.targets[further]])
    weights = np.concatenate([first.weights[kept], second.weights[further]])
    strength = weights / np.sqrt(snapshot.entity_counts(ends).clip(1))
    return starts, ends, (_HOP - np.log(np.maximum(strength, 1e-12))).astype(np.float32)


def choose_facts(query: Query, paths: Sequence[EntityPath], chunks: Keys, followed: Keys) -> Keys:
    """Return the facts that support an answer, most important first.

    The strongest facts that join the question's entities; for each hit the facts on its path and, for the first few,
    one that the passage states about the last entity of the path; facts that the strategy followed; then facts about
    the question's entities, those stated in a hit first, then by strength.
    """
    snapshot = query.snapshot
    rows = snapshot.fact_rows(snapshot.facts_of(query.entities, limit=_MAX_SCANNED))
    holds = np.repeat(np.arange(len(rows.keys)), rows.counts)[among(rows.entities, np.sort(query.entities))]
    held = np.bincount(holds, minlength=len(rows.keys)).astype(np.float32)
    in_hit = among(rows.chunks, np.sort(chunks)).astype(np.float32)
    joining = query.order(rows.keys, held, rows.weights, in_hit, of_facts=True)
    chosen = dict.fromkeys(rows.keys[joining[held[joining] > 1][:_MAX_JOINING]].tolist())
    stated_until = len(chosen) + _MAX_FACTS // 2
    for path, chunk in zip(paths, chunks.tolist(), strict=True):
        chosen.update(dict.fromkeys(path[1::2]))
        if len(path) > 1 and len(chosen) < stated_until:
            stated = snapshot.facts_of(np.array(path[-1:]))
            chosen.update(dict.fromkeys(stated[snapshot.fact_rows(stated).chunks == chunk][:1].tolist()))
    on_paths = len(chosen)
    around = query.order(rows.keys, in_hit, rows.weights, of_facts=True)[:_MAX_FACTS]
    chosen.update(dict.fromkeys([*followed.tolist(), *rows.keys[around].tolist()]))
    return np.array(list(chosen)[: max(_MAX_FACTS, len(followed), on_paths)], np.int64)
