"""The strongest way from a question through the graph to a passage."""

from __future__ import annotations

import numpy as np

from graphrag_core.entities import read_entities
from graphrag_core.model import Chunk
from graphrag_core.query.ground import Ground
from graphrag_core.query.hit import Step
from graphrag_core.stores.records import Records

Way = tuple[int, ...]
"""Positions: an entity; or an entity, a fact and an entity. The last is in the passage."""


def find_way(ground: Ground, chunk: int) -> Way:
    """Return how one of the question's entities leads to a chunk (by position), empty if none does.

    Directly when the chunk mentions the entity; else over the heaviest link to an entity the
    chunk mentions, with the strongest fact that makes the link.
    """
    view = ground.view
    inside = view.mentions.indices[view.mentions.indptr[chunk] : view.mentions.indptr[chunk + 1]]
    direct = [entity for entity in ground.entities if entity in inside]
    if direct:
        return (min(direct, key=lambda entity: (int(view.entity_chunks[entity]), entity)),)
    best: tuple[float, int, int] | None = None
    for entity in ground.entities:
        row = slice(view.links.indptr[entity], view.links.indptr[entity + 1])
        linked, weight = view.links.indices[row], view.links.data[row]
        for other in np.flatnonzero(np.isin(linked, inside)).tolist():
            strength = float(weight[other]) / float(view.entity_chunks[linked[other]]) ** 0.5
            if best is None or strength > best[0]:
                best = (strength, entity, int(linked[other]))
    if best is None:
        return ()
    _, start, end = best
    joining = np.intersect1d(_facts_of(ground, start), _facts_of(ground, end))
    fact = joining[np.argmax(view.fact_weight[joining])]
    return start, int(fact), end


def describe(ground: Ground, records: Records, ways: list[tuple[Chunk, Way]]) -> dict[str, tuple[Step, ...]]:
    """Return the ways to chunks in words, by chunk id."""
    view = ground.view
    entities = {position for _, way in ways for position in way[::2]}
    facts = {way[1] for _, way in ways if len(way) == 3}
    names = _names(ground, records, entities)
    texts = dict(zip(facts, records.facts(view.fact_keys[list(facts)]), strict=True))
    described = {}
    for chunk, way in ways:
        if not way:
            continue
        steps = [Step("question", "", ground.question)]
        for i, position in enumerate(way):
            if i == 1:
                steps.append(Step("fact", texts[position].id, texts[position].text))
            else:
                steps.append(Step("entity", *names[position]))
        described[chunk.id] = (*steps, Step("chunk", chunk.id, chunk.title or chunk.id))
    return described


def _facts_of(ground: Ground, entity: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    by_entity = ground.view.facts_by_entity
    facts: np.ndarray[tuple[int], np.dtype[np.int32]]
    facts = by_entity.indices[by_entity.indptr[entity] : by_entity.indptr[entity + 1]]
    return facts


def _names(ground: Ground, records: Records, entities: set[int]) -> dict[int, tuple[str, str]]:
    wanted = sorted(entities)
    return {p: (e.id, e.name) for p, e in zip(wanted, read_entities(ground.view, records, wanted), strict=True)}
