"""The strongest way from a question through the graph to a passage."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graphrag_core.model import Chunk, Entity, Fact
from graphrag_core.query.ground import Ground
from graphrag_core.query.hit import Step

Way = tuple[int, ...]
"""Positions: an entity; or an entity, a fact and an entity. The last is in the passage."""

Path = tuple[Step, ...]
"""The same in words, from the question to the passage."""


def find_way(ground: Ground, chunk: int) -> Way:
    """Return how one of the question's entities leads to a chunk (by position), empty if none does.

    Directly when the chunk mentions the entity; else over the heaviest link to an entity the
    chunk mentions, with the strongest fact that makes the link.
    """
    view = ground.view
    inside = view.entities_of(chunk)
    direct = [entity for entity in ground.entities if entity in inside]
    if direct:
        return (min(direct, key=lambda entity: (int(view.entity_chunks[entity]), entity)),)
    best: tuple[float, int, int] | None = None
    for entity in ground.entities:
        linked, weight = view.linked(entity)
        for other in np.flatnonzero(np.isin(linked, inside)).tolist():
            strength = float(weight[other]) / float(view.entity_chunks[linked[other]]) ** 0.5
            if best is None or strength > best[0]:
                best = (strength, entity, int(linked[other]))
    if best is None:
        return ()
    _, start, end = best
    joining = np.intersect1d(view.facts_of(start), view.facts_of(end))
    fact = joining[np.argmax(view.fact_weight[joining])]
    return start, int(fact), end


def describe(question: str, chunk: Chunk, way: Way, facts: Mapping[int, Fact], entities: Mapping[int, Entity]) -> Path:
    """Return a way to a chunk in words."""
    if not way:
        return ()
    steps = [Step("question", "", question)]
    for i, position in enumerate(way):
        if i == 1:
            steps.append(Step("fact", facts[position].id, facts[position].text))
        else:
            steps.append(Step("entity", entities[position].id, entities[position].name))
    return (*steps, Step("chunk", chunk.id, chunk.title or chunk.id))
