"""Queries made of what the graph says belongs together: "{seed} {neighbour}"."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from graphrag_core.entities import read_entities
from graphrag_core.query.fuse import Fusion, ReciprocalRank
from graphrag_core.query.ground import Ground, Ranking
from graphrag_core.query.neighbourhood import reach
from graphrag_core.query.strategy import Expansion

Query = tuple[str, float]
"""What to search for, and how near the pair is: 1 / (1 + hops)."""


@dataclass(frozen=True, kw_only=True)
class ExpansionQueries:
    """Searches for pairs of an entity that the question names and one that the graph puts near it.

    All pairs are embedded in one call and searched in one. What they find is joined by rank,
    nearer pairs counting more, and each passage says which query brought it.

    Parameters
    ----------
    depth
        How many hops away a neighbour may be.
    min_weight
        Links that weigh less, on the scale of 1 to 10, are not followed.
    hits
        How many passages each query brings.
    most_queries, most_neighbours
        At most so many pairs, and so many of an entity's strongest links.
    """

    fusion: ClassVar[Fusion] = ReciprocalRank()

    depth: int = 2
    min_weight: float = 0.0
    hits: int = 3
    most_queries: int = 20
    most_neighbours: int = 10

    def expand(self, ground: Ground, plain: Ranking, k: int) -> Expansion:  # noqa: ARG002
        """Return the passages that the queries find, best first; nothing for an empty graph."""
        queries = self.queries(ground)
        found, remark = ground.near_each([text for text, _ in queries], self.hits)
        total: dict[int, float] = {}
        best: dict[int, Query] = {}
        for (text, proximity), ranking in zip(queries, found, strict=True):
            keys, _ = ground.best("chunks", ranking, self.hits)
            for rank, key in enumerate(keys.tolist(), 1):
                part = proximity / (60 + rank)
                total[key] = total.get(key, 0.0) + part
                best[key] = max(best.get(key, ("", 0.0)), (text, part), key=lambda query: query[1])
        keys, scores = np.array(list(total), np.int64), np.array(list(total.values()), np.float32)
        order = ground.in_order(keys, scores)
        texts = {key: text for key, (text, _) in best.items()}
        strength = scores[order] / scores.max(initial=1e-9)
        return Expansion(keys[order], scores[order], strength, queries=texts, remark=remark)

    def queries(self, ground: Ground) -> list[Query]:
        """Return the queries with their proximity, the nearest first, then the seeds by themselves.

        A pair comes once, whichever of the two was the seed.
        """
        pairs: dict[frozenset[int], tuple[float, float, int, int]] = {}
        for seed in ground.entities:
            alone = replace(ground, entities=[seed])
            for other, hop, weight in reach(alone, self.depth, self.most_neighbours, least=self.min_weight):
                pair = (1 / (1 + hop), weight, seed, other)
                pairs[frozenset((seed, other))] = max(pairs.get(frozenset((seed, other)), pair), pair)
        wanted = sorted({*ground.entities, *(entity for pair in pairs for entity in pair)})
        read = read_entities(ground.view, ground.records, wanted)
        names = {position: entity.name for position, entity in zip(wanted, read, strict=True)}
        nearest = sorted(pairs.values(), key=lambda pair: (-pair[0], -pair[1], names[pair[2]], names[pair[3]]))
        chosen = [(f"{names[seed]} {names[other]}", near) for near, _, seed, other in nearest[: self.most_queries]]
        least = min((near for _, near in chosen), default=1.0)
        return [*chosen, *((names[seed], least) for seed in ground.entities)]
