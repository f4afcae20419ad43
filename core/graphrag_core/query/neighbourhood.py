"""What lies around the question's entities, by hops, weights and mentions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import log2
from typing import ClassVar

import numpy as np

from graphrag_core.errors import InputError
from graphrag_core.ports import Keys
from graphrag_core.query.fuse import Fusion, Weighted
from graphrag_core.query.ground import Ground, Ranking
from graphrag_core.query.strategy import Expansion

Reached = tuple[int, int, float]
"""An entity, the hop it was reached at, and the weight (0 to 10) of the link to it."""


@dataclass(frozen=True, kw_only=True)
class Neighbourhood:
    """Brings the passages of entities that are linked to those the question names.

    A passage scores as the best entity in it:
    weight / 10 · 1 / 2^(hop - 1) · (0.7 + 0.3 · min(log2(mentions + 1) / 5, 1)).

    Parameters
    ----------
    hops
        How far to go, 1 to 3.
    relation_types
        Follow facts of these relations alone; None follows all, sentences too.
    max_chunks
        How many passages the graph may bring.
    min_graph_score
        What scores less is left out. A single sentence (weight 3) that joins two entities
        stays below 0.3: lower it for an index without triples, or let repetition count.
    most_neighbours
        How many of an entity's strongest links are followed.
    """

    fusion: ClassVar[Fusion] = Weighted()

    hops: int = 1
    relation_types: tuple[str, ...] | None = None
    max_chunks: int = 4
    min_graph_score: float = 0.3
    most_neighbours: int = 50

    def __post_init__(self) -> None:
        if not 1 <= self.hops <= 3:
            raise InputError(f"hops is {self.hops}: go 1, 2 or 3 hops")

    def score(self, weight: float, hop: int, mentions: int) -> float:
        """Return the score of an entity by its link's weight (0 to 10), its hop and its mentions.

        >>> round(Neighbourhood().score(8, 2, 31), 2)
        0.4
        """
        boost = min(log2(mentions + 1) / 5, 1)
        return weight / 10 * 0.5 ** (hop - 1) * (0.7 + 0.3 * boost)

    def expand(self, ground: Ground, plain: Ranking, k: int) -> Expansion:  # noqa: ARG002
        """Return up to ``max_chunks`` passages, best first."""
        view = ground.view
        best: dict[int, float] = {}
        facts: list[Keys] = []
        for entity, hop, weight in reach(ground, self.hops, self.most_neighbours, self.relation_types):
            score = self.score(weight, hop, int(view.entity_chunks[entity]))
            if score < self.min_graph_score:
                continue
            facts.append(view.facts_of(entity))
            for chunk in view.chunks_with(entity).tolist():
                best[chunk] = max(best.get(chunk, 0.0), score)
        if not best:
            return Expansion()
        chunks, scores = np.array(list(best), np.int64), np.array(list(best.values()), np.float32)
        keys = view.chunk_keys[chunks]
        # Of passages that score the same, those that resemble the question are chosen.
        order = ground.in_order(keys, scores, ground.cosine(keys))[: self.max_chunks]
        joining = np.intersect1d(np.concatenate(facts), _all_facts(ground))
        strongest = ground.facts_in_order(joining, view.fact_weight[joining])[:30]
        return Expansion(keys[order], scores[order], scores[order], view.fact_keys[strongest])


def reach(
    ground: Ground, hops: int, most: int, relations: tuple[str, ...] | None = None, least: float = 0.0
) -> Iterator[Reached]:
    """Yield the entities around those a question names, nearest first, each once.

    Links that weigh less than ``least`` are not followed.
    """
    seen = set(ground.entities)
    frontier = list(ground.entities)
    for hop in range(1, hops + 1):
        found: dict[int, float] = {}
        for entity in frontier:
            for other, weight in _links(ground, entity, relations, most):
                if other not in seen and weight >= least:
                    found[other] = max(found.get(other, 0.0), weight)
        seen.update(found)
        frontier = sorted(found, key=lambda entity: (-found[entity], entity))
        yield from ((entity, hop, found[entity]) for entity in frontier)


def _links(ground: Ground, entity: int, relations: tuple[str, ...] | None, most: int) -> list[tuple[int, float]]:
    view = ground.view
    if relations is None:
        others, weights = view.linked(entity)
        strongest = np.lexsort((others, -weights))[:most]
        pairs = zip(others[strongest].tolist(), (10 * weights[strongest]).tolist(), strict=True)
        return [(other, min(round(weight, 4), 10.0)) for other, weight in pairs]
    total: dict[int, float] = {}
    for fact in _of_relations(ground, view.facts_of(entity), relations).tolist():
        for other in view.entities_in(fact).tolist():
            if other != entity:
                total[other] = min(total.get(other, 0.0) + float(view.fact_weight[fact]), 10.0)
    return sorted(total.items(), key=lambda pair: (-pair[1], pair[0]))[:most]


def _of_relations(ground: Ground, facts: Keys, relations: tuple[str, ...]) -> Keys:
    keys = ground.view.fact_keys[facts]
    rows = ground.records.rows(
        "SELECT key FROM facts WHERE key IN (SELECT value FROM json_each(?)) "
        "AND relation IN (SELECT value FROM json_each(?))",
        (json.dumps(keys.tolist()), json.dumps(relations)),
    )
    return facts[np.isin(keys, [row[0] for row in rows])]


def _all_facts(ground: Ground) -> Keys:
    return np.unique(np.concatenate([ground.view.facts_of(entity) for entity in ground.entities]))
