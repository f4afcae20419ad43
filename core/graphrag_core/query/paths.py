"""The strongest path from a question through the graph to each hit, and the facts that support the answer."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Keys, Scores
from graphrag_core.query.query import Query

EntityPath = tuple[int, ...]
"""Alternating keys: an entity that the question names, a fact, an entity, and so on. The passage mentions the last.

Instead of a named entity a path may start at a passage that plain search found, which states the first fact.
"""

_MAX_BETWEEN = 16  # entities that a path of two links may pass through
_MAX_FACTS = 10
_MAX_JOINING = 3  # facts that join the question's own entities
_MAX_PAIRS = 10  # linked pairs of these
_MAX_SCANNED = 5_000  # facts of one entity
_MAX_STARTS = 5  # passages that a path may start at
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
    telling = named | _is_specific(query, mentions, mentioned.weights[inside])
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
                    facts = facts[query.order_facts(facts, query.snapshot.fact_rows(facts).weights)]
                strongest[link] = int(facts[0]) if len(facts) else _NO_FACT
            path.insert(at, strongest[link])
        paths.append(() if _NO_FACT in path[1::2] else tuple(path))
    return _without_unrelated(query, paths, chunks)


def paths_from_passages(query: Query, chunks: Keys, starts: Keys, wanted: Sequence[bool]) -> list[EntityPath]:
    """Return for each wanted chunk a path from one of the ``starts``, the passages that plain search found.

    The passage at the start states a fact about an entity; the chunk is about this entity, or is one of
    few that mention it. A start is given by an earlier place in ``chunks``.
    """
    paths: list[EntityPath] = [()] * len(chunks)
    if not any(wanted) or len(starts) == 0:
        return paths
    edges = query.snapshot.neighbours(chunks, to="entities")
    ends = np.cumsum(edges.counts)
    mentions = query.snapshot.entity_counts(edges.targets)
    specific = _is_specific(query, mentions, edges.weights)
    slices = [slice(end - count, end) for end, count in zip(ends.tolist(), edges.counts.tolist(), strict=True)]
    places = {key: place for place, key in enumerate(chunks.tolist())}
    for place, span in enumerate(slices):
        if not wanted[place]:
            continue
        telling = np.flatnonzero(specific[span]) + span.start
        for start in [start for start in starts.tolist() if places.get(start, place) < place][:_MAX_STARTS]:
            other = slices[places[start]]
            # A subject of both, such as the title of their document, leads from neither to the other.
            mentioned = edges.targets[other][edges.weights[other] < _SUBJECT]
            shared = telling[among(edges.targets[telling], np.sort(mentioned))]
            ids = np.array([entity.id for entity in query.snapshot.entities(edges.targets[shared])], np.str_)
            # Subjects first, then the rarest.
            order = np.lexsort([ids, mentions[shared], edges.weights[shared] < _SUBJECT])
            for entity in edges.targets[shared[order]].tolist():
                facts = query.snapshot.facts_of(np.array([entity]), limit=_MAX_SCANNED)
                stated = facts[query.snapshot.fact_rows(facts).chunks == start]
                if len(stated) and not paths[place]:
                    paths[place] = (start, int(stated[0]), entity)
            if paths[place]:
                break
    return _without_unrelated(query, paths, chunks)


def _is_specific(query: Query, mentions: Keys, weights: Scores) -> npt.NDArray[np.bool_]:
    """Return which entities are specific for a chunk: its subjects, and entities that few chunks mention."""
    specific: npt.NDArray[np.bool_] = (weights >= _SUBJECT) | (mentions <= _few(query))
    return specific


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
    entities = query.entities
    first = query.snapshot.neighbours(entities, to="entities")
    strongest = np.argsort(-_strength(query, first.targets, first.weights), kind="stable")[:_MAX_BETWEEN]
    kept = among(first.targets, wanted)
    kept[strongest] = True
    between = distinct(first.targets[strongest])
    second = query.snapshot.neighbours(between, to="entities")
    further = among(second.targets, wanted) & ~among(second.targets, np.sort(entities))
    starts = np.concatenate([np.repeat(entities, first.counts)[kept], np.repeat(between, second.counts)[further]])
    ends = np.concatenate([first.targets[kept], second.targets[further]])
    strengths = _strength(query, ends, np.concatenate([first.weights[kept], second.weights[further]]))
    return starts, ends, (_HOP - np.log(np.maximum(strengths, 1e-12))).astype(np.float32)


def _strength(query: Query, targets: Keys, weights: Scores) -> npt.NDArray[np.float64]:
    """Return the strength of links: the weight divided by the square root of how many chunks mention the target."""
    mentions = query.snapshot.entity_counts(targets)
    strength: npt.NDArray[np.float64] = weights / np.sqrt(mentions.clip(1))
    return strength


def _joining_facts(query: Query, chunks: Keys) -> Keys:
    """Return the strongest facts that hold two entities or more of the question; of equal ones those in a hit."""
    entities = query.entities
    if len(entities) < 2:
        return np.empty(0, np.int64)
    edges = query.snapshot.neighbours(entities, to="entities")
    starts = np.repeat(entities, edges.counts)
    inside = among(edges.targets, np.sort(entities)) & (starts < edges.targets)
    pairs = np.column_stack([starts, edges.targets])[inside][np.argsort(-edges.weights[inside], kind="stable")]
    found = [query.snapshot.facts_of(pair, joint=True) for pair in pairs[:_MAX_PAIRS]]
    if not found:
        return np.empty(0, np.int64)
    facts, pairs_held = np.unique(np.concatenate(found), return_counts=True)
    rows = query.snapshot.fact_rows(facts)
    in_hit = among(rows.chunks, np.sort(chunks)).astype(np.float32)
    return facts[query.order_facts(facts, pairs_held.astype(np.float32), rows.weights, in_hit)[:_MAX_JOINING]]


def choose_facts(query: Query, paths: Sequence[EntityPath], chunks: Keys, followed: Keys) -> Keys:
    """Return the facts that support an answer, most important first.

    Facts that join the question's entities; for each hit the facts on its path and, for the first few, one that the
    passage states about the last entity of the path; facts that the strategy followed; then facts about the question's
    entities, those stated in a hit first, then by strength.
    """
    chosen: dict[int, None] = dict.fromkeys(_joining_facts(query, chunks).tolist())
    stated_until = len(chosen) + _MAX_FACTS // 2
    for path, chunk in zip(paths, chunks.tolist(), strict=True):
        chosen.update(dict.fromkeys(path[1::2]))
        if len(path) > 1 and len(chosen) < stated_until:
            stated = query.snapshot.facts_of(np.array(path[-1:]))
            chosen.update(dict.fromkeys(stated[query.snapshot.fact_rows(stated).chunks == chunk][:1].tolist()))
    on_paths = len(chosen)
    chosen.update(dict.fromkeys(followed.tolist()))
    around = query.snapshot.facts_of(query.entities, limit=_MAX_SCANNED)
    rows = query.snapshot.fact_rows(around)
    order = query.order_facts(around, among(rows.chunks, np.sort(chunks)).astype(np.float32), rows.weights)
    chosen.update(dict.fromkeys(around[order[:_MAX_FACTS]].tolist()))
    return np.array(list(chosen)[: max(_MAX_FACTS, len(followed), on_paths)], np.int64)
