"""Passages of the entities around those that the question names."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import log2
from typing import ClassVar

import numpy as np

from graphrag_core.errors import InputError
from graphrag_core.ports import Ranking, Snapshot
from graphrag_core.query.fusion import Fusion, Weighted
from graphrag_core.query.query import Expansion, Query

_MAX_FACTS = 30


@dataclass(frozen=True, kw_only=True)
class Neighbourhood:
    """Returns the passages of entities that are linked to the question's entities.

    A passage gets the score of the best entity in it:
    weight / 10 · 1 / 2^(hop - 1) · (0.7 + 0.3 · min(log2(mentions + 1) / 5, 1)).

    Parameters
    ----------
    hops
        How far to go, 1 to 3.
    relation_types
        Follow only facts of these relations; None follows all, also sentences.
    max_chunks
        How many passages the graph may add.
    min_graph_score
        Lower scores are left out. A single sentence (weight 3) that links two entities scores
        below 0.3: lower this for an index without triples.
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
            raise InputError(f"hops is {self.hops}: use 1, 2 or 3")

    def score(self, weight: float, hop: int, mentions: int) -> float:
        """Return the score of an entity by its link's weight (0 to 10), its hop and its mentions.

        >>> round(Neighbourhood().score(8, 2, 31), 2)
        0.4
        """
        boost = min(log2(mentions + 1) / 5, 1)
        return weight / 10 * 0.5 ** (hop - 1) * (0.7 + 0.3 * boost)

    def expand(self, query: Query, plain: Ranking, k: int) -> Expansion:  # noqa: ARG002
        """Return up to ``max_chunks`` passages, best first."""
        snapshot = query.snapshot
        seeds = query.entities.tolist()
        reached = list(linked_entities(snapshot, seeds, self.hops, self.most_neighbours, self.relation_types))
        mentions, _ = snapshot.entity_counts(np.array([entity for entity, _, _ in reached], np.int64))
        scored = [
            (entity, score)
            for (entity, hop, weight), count in zip(reached, mentions.tolist(), strict=True)
            if (score := self.score(weight, hop, count)) >= self.min_graph_score
        ]
        if not scored:
            return Expansion()
        entities = np.array([entity for entity, _ in scored], np.int64)
        edges = snapshot.neighbours(entities, to="chunks")
        chunks, position = np.unique(edges.targets, return_inverse=True)
        scores = np.zeros(len(chunks), np.float32)
        np.maximum.at(scores, position, np.repeat(np.array([s for _, s in scored], np.float32), edges.counts))
        # Among passages with the same score, those most similar to the question are chosen.
        similarity = snapshot.similarities("chunks", chunks, query.vector)
        order = query.order("chunks", chunks, scores, similarity)[: self.max_chunks]
        joining = np.intersect1d(snapshot.facts_of(entities), snapshot.facts_of(query.entities))
        strongest = query.order("facts", joining, snapshot.fact_rows(joining).weights)[:_MAX_FACTS]
        return Expansion(chunks[order], scores[order], scores[order], joining[strongest])


def linked_entities(
    snapshot: Snapshot,
    seeds: Iterable[int],
    hops: int,
    limit: int,
    relations: tuple[str, ...] | None = None,
    min_weight: float = 0.0,
) -> Iterator[tuple[int, int, float]]:
    """Yield the entities around some seeds in breadth-first order: entity, hop and link weight (0 to 10).

    Each entity comes once, at its nearest hop, with the weight of the strongest link to it. Only the
    ``limit`` strongest links of an entity are followed, and none below ``min_weight``.
    """
    frontier = list(seeds)
    seen = set(frontier)
    for hop in range(1, hops + 1):
        found: dict[int, float] = {}
        for other, weight in _links(snapshot, frontier, limit, relations):
            if other not in seen and weight >= min_weight:
                found[other] = max(found.get(other, 0.0), weight)
        seen.update(found)
        frontier = sorted(found, key=lambda entity: (-found[entity], entity))
        yield from ((entity, hop, found[entity]) for entity in frontier)


def _links(
    snapshot: Snapshot, entities: list[int], limit: int, relations: tuple[str, ...] | None
) -> Iterator[tuple[int, float]]:
    """Yield the strongest links of each entity: target and weight (0 to 10)."""
    nodes = np.array(entities, np.int64)
    if relations is None:
        edges = snapshot.neighbours(nodes, to="entities", limit=limit)
        for target, weight in zip(edges.targets.tolist(), edges.weights.tolist(), strict=True):
            yield target, min(round(10 * weight, 4), 10.0)
        return
    rows = snapshot.fact_rows(snapshot.facts_of(nodes, relations=relations))
    totals: dict[int, dict[int, float]] = {entity: defaultdict(float) for entity in entities}
    end = 0
    for count, weight in zip(rows.counts.tolist(), rows.weights.tolist(), strict=True):
        held = rows.entities[end : end + count].tolist()
        end += count
        for entity in totals.keys() & set(held):
            for other in held:
                if other != entity:
                    totals[entity][other] = min(totals[entity][other] + weight, 10.0)
    for links in totals.values():
        yield from sorted(links.items(), key=lambda link: (-link[1], link[0]))[:limit]
