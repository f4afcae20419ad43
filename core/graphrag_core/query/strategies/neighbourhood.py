"""Passages of the entities around those that the question names."""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

import numpy as np

from graphrag_core.errors import check_integer
from graphrag_core.ports import Ranking
from graphrag_core.query.fusion import Fusion, Weighted
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.strategies.strategy import MAX_EDGES, GraphStrategy, joining_facts, related_entities

_WEIGHTED = Weighted()


@dataclass(frozen=True, kw_only=True)
class Neighbourhood(GraphStrategy):
    """Returns the passages of entities that are linked to the question's entities.

    Each entity of the question is followed on its own, so that two of them that are linked lead to each
    other's passages. A passage gets the score of the best entity in it:
    weight / 10 · 1 / 2^(hop - 1) · (0.7 + 0.3 · min(log2(mentions + 1) / 5, 1)). The weight of a link is the weight of
    the strongest relation between two entities, and of a sentence only where no relation is stated.

    Parameters
    ----------
    hops
        How far to go, 1 to 3.
    relation_types
        Follow only facts of these relations; None follows all, also sentences.
    max_chunks
        How many passages the graph may add to the first ``k`` of plain search. Those that plain search has
        already are scored without limit.
    most_neighbours
        How many entities, the most strongly related ones, are followed from each; None for all.
    stated
        True follows relations that someone stated, and sentences only where the index has no others.
    fusion
        How its scores are joined with the scores of plain search.
    """

    hops: int = 1
    relation_types: tuple[str, ...] | None = None
    max_chunks: int = 4
    most_neighbours: int | None = 50
    stated: bool = False
    fusion: Fusion = _WEIGHTED

    def __post_init__(self) -> None:
        check_integer(self.hops, "hops", most=3)

    def score(self, weight: float, hop: int, mentions: int) -> float:
        """Return the score of an entity by its link's weight (0 to 10), its hop and its mentions.

        >>> round(Neighbourhood().score(8, 2, 31), 2)
        0.4
        """
        boost = min(log2(mentions + 1) / 5, 1)
        return weight / 10 * 0.5 ** (hop - 1) * (0.7 + 0.3 * boost)

    def expand(self, query: Query, text_ranking: Ranking, k: int) -> Expansion:  # noqa: ARG002
        """Return the passages of neighbours, best first; up to ``max_chunks`` that plain search lacks."""
        snapshot = query.snapshot
        graph = query.surroundings(
            hops=self.hops,
            relations=self.relation_types,
            most_neighbours=self.most_neighbours,
            limit=MAX_EDGES,
            stated=self.stated,
        )
        reached = [*related_entities(graph, query.entities.tolist(), self.hops)]
        if not reached:
            return Expansion(nothing=self._no_links(query))
        mentions = snapshot.entity_counts(np.array([related.entity for related in reached], np.int64))
        best: dict[int, float] = {}
        for related, count in zip(reached, mentions.tolist(), strict=True):
            score = self.score(related.weight, related.hop, count)
            best[related.entity] = max(best.get(related.entity, 0.0), score)
        entities = np.array(list(best), np.int64)
        edges = snapshot.neighbours(entities, to="chunks")
        chunks, position = np.unique(edges.targets, return_inverse=True)
        scores = np.zeros(len(chunks), np.float32)
        np.maximum.at(scores, position, np.repeat(np.array(list(best.values()), np.float32), edges.counts))
        # Among passages with the same score, those most similar to the question are chosen.
        similarity = snapshot.cosines(chunks, query.vector)
        order = query.order(chunks, scores, similarity)
        had = np.isin(chunks[order], text_ranking[0][: query.k if query.is_hybrid else 0])
        order = order[had | (np.cumsum(~had) <= self.max_chunks)]
        facts = joining_facts(query, graph)
        return Expansion(chunks[order], scores[order], scores[order], facts)

    def _no_links(self, query: Query) -> str:
        """Return why no entity was reached; empty if the question names none."""
        if not len(query.entities):
            return ""
        kind = f" by {', '.join(self.relation_types)}" if self.relation_types else ""
        names = ", ".join(entity.name for entity in query.snapshot.entities(query.entities))
        return f"{names} is linked to no entity{kind}"
