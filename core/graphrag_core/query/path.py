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
        at = np.searchsorted(linked, inside).clip(max=max(len(linked) - 1, 0))
        both = inside[linked[at] == inside] if len(linked) else inside[:0]
        if len(both):
            strength = weight[np.searchsorted(linked, both)] * view.rarity[both]
            strongest = int(np.argmax(strength))
            if best is None or strength[strongest] > best[0]:
                best = (float(strength[strongest]), entity, int(both[strongest]))
    if best is None:
        return ()
    _, start, end = best
    joining = np.intersect1d(view.facts_of(start), view.facts_of(end), assume_unique=True)
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
