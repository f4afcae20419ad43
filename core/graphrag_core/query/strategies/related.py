"""Passages of the entities that a relation joins to those that the question names, by the relation's strength."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphrag_core.errors import check_integer
from graphrag_core.ports import Ranking
from graphrag_core.query.fusion import Fusion, Gate, OwnScores
from graphrag_core.query.paths import related_entities
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.recognise import Recogniser
from graphrag_core.query.strategies.strategy import GraphStrategy

_MAX_FACTS = 30
_OWN_SCORES = OwnScores()
_GATE = Gate(min_graph_score=0.3, weigh_by_confidence=True)


@dataclass(frozen=True, kw_only=True)
class RelatedEntities(GraphStrategy):
    """The "confident retriever": a few passages of each related entity, scored by strength / 10 of the relation.

    The ``k`` vector hits keep their cosine similarity; what the graph adds to them has
    strength / 10 · confidence; both are sorted by score (:class:`~graphrag_core.strategies.OwnScores`).

    Parameters
    ----------
    hops
        How far to go, 1 to 3. The strength of the last relation counts.
    max_chunks
        How many passages of each related entity are returned, those most similar to the question.
    fusion, gate, recogniser
        Apply unless the retriever is given others. Relations whose strength / 10 is below the ``min_graph_score`` of
        the gate, 0.3, are not followed. A sentence that holds two entities has 0.3.
    """

    applies_min_graph_score = True

    hops: int = 1
    max_chunks: int = 4
    fusion: Fusion = _OWN_SCORES
    gate: Gate | None = _GATE
    recogniser: Recogniser | None = None

    def __post_init__(self) -> None:
        check_integer(self.hops, "hops", most=3)

    def expand(self, query: Query, text_ranking: Ranking, k: int) -> Expansion:  # noqa: ARG002
        """Return the passages of related entities, strongest relation first."""
        snapshot = query.snapshot
        entities, strengths, hops = related_entities(query, self.hops)
        strong = np.round(strengths, 6) >= round(query.settings.gate.min_graph_score, 6)
        if not strong.any():
            most = f", the strongest has {strengths.max():.2f}" if len(strengths) else ""
            return Expansion(
                nothing=f"every relation is below {query.settings.gate.min_graph_score:g}{most}" if most else ""
            )
        entities, strengths, hops = entities[strong], strengths[strong], hops[strong]
        edges = snapshot.neighbours(entities, to="chunks")
        similarity = snapshot.similarities("chunks", edges.targets, query.vector)
        scores: dict[int, float] = {}
        via: dict[int, tuple[int, int]] = {}
        end = 0
        rows = zip(entities.tolist(), hops.tolist(), strengths.tolist(), edges.counts.tolist(), strict=True)
        for entity, hop, strength, count in rows:
            chunks, near = edges.targets[end : end + count], similarity[end : end + count]
            end += count
            for key in chunks[query.order("chunks", chunks, near)[: self.max_chunks]].tolist():
                if strength > scores.get(key, 0.0):
                    scores[key], via[key] = strength, (entity, hop)
        keys, values = query.best_first(scores)
        facts = np.intersect1d(snapshot.facts_of(entities), snapshot.facts_of(query.entities))
        weights = snapshot.fact_rows(facts).weights
        strong = np.round(weights / 10, 6) >= round(query.settings.gate.min_graph_score, 6)
        facts, weights = facts[strong], weights[strong]
        facts = facts[query.order("facts", facts, weights)[:_MAX_FACTS]]
        return Expansion(keys, values, values, facts, via=via)
