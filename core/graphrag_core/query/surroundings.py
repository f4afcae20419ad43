"""The facts and entities that speak for an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from graphrag_core.entities import read_names_and_entities
from graphrag_core.model import Entity, Fact
from graphrag_core.ports import Keys
from graphrag_core.query.ground import Ground, among
from graphrag_core.query.path import Way

_MOST_FACTS = 10
_MOST_SCANNED = 5_000  # of a hub's facts


def choose_facts(ground: Ground, ways: Sequence[Way], followed: Keys, chunks: Sequence[int]) -> list[int]:
    """Return the positions of the facts that belong to an answer, the most telling first.

    For each hit, best first, those on the way to it and, for the first few, one that it states
    of where the way leads; then those a strategy followed; then those of the question's
    entities: read in a passage that was found before others, and strong before weak.
    """
    view = ground.view
    chosen: dict[int, None] = {}
    for way, chunk in zip(ways, chunks, strict=True):
        chosen.update(dict.fromkeys(way[1::2]))
        if len(way) > 1 and len(chosen) < _MOST_FACTS // 2:
            stated = view.facts_of(way[-1])
            chosen.update(dict.fromkeys(stated[view.fact_chunk[stated] == chunk][:1].tolist()))
    on_paths = len(chosen)
    chosen.update(dict.fromkeys(np.searchsorted(view.fact_keys, followed).tolist()))
    around = [view.facts_of(entity)[:_MOST_SCANNED] for entity in ground.entities]
    if around:
        facts = np.unique(np.concatenate(around)) if len(around) > 1 else around[0]
        found = among(view.fact_chunk[facts], np.unique(chunks))
        best = ground.facts_in_order(facts, found.astype(np.float32), view.fact_weight[facts])[:_MOST_FACTS]
        chosen.update(dict.fromkeys(best.tolist()))
    return list(chosen)[: max(_MOST_FACTS, len(followed), on_paths)]


def read_surroundings(
    ground: Ground, positions: Sequence[int], also: Iterable[int]
) -> tuple[tuple[Fact, ...], Mapping[int, Entity]]:
    """Return facts by position, and every entity that they hold, and some others, by position."""
    view = ground.view
    inside = [view.entities_in(fact) for fact in positions]
    wanted = np.unique(np.concatenate([*inside, np.fromiter(also, np.int64)])).tolist()
    names, entities = read_names_and_entities(view, ground.records, wanted)
    facts = ground.records.facts(view.fact_keys[list(positions)], names) if positions else ()
    return tuple(facts), dict(zip(wanted, entities, strict=True))
