"""Passages of the entities that a relation joins to those that the question names, by the relation's strength."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from graphrag_core.errors import check_integer
from graphrag_core.ports import Ranking
from graphrag_core.query.fusion import Fusion, Gate, OwnScores
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.recognise import Recogniser
from graphrag_core.query.strategies.strategy import MAX_EDGES, GraphStrategy, Related, joining_facts, related_entities

_NOTHING = Related(0, 0, 0, 0.0)
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
    stated
        True follows relations that someone stated, and sentences only where the index has no others.
    fusion, gate, recogniser
        Apply unless the retriever is given others. Relations whose strength / 10 is below the ``min_graph_score`` of
        the gate, 0.3, are not followed. A sentence that holds two entities has 0.3.
    """

    applies_min_graph_score = True

    hops: int = 1
    max_chunks: int = 4
    stated: bool = False
    fusion: Fusion = _OWN_SCORES
    gate: Gate | None = _GATE
    recogniser: Recogniser | None = None

    def __post_init__(self) -> None:
        check_integer(self.hops, "hops", most=3)

    def expand(self, query: Query, text_ranking: Ranking, k: int) -> Expansion:  # noqa: ARG002
        """Return the passages of related entities, strongest relation first."""
        least = round(query.min_graph_score, 6)
        graph = query.surroundings(hops=self.hops, limit=MAX_EDGES, stated=self.stated)
        reached = [*related_entities(graph, query.entities.tolist(), self.hops)]
        if reached and max(related.weight for related in reached) < 10 * least:
            most = max(related.weight for related in reached) / 10
            return Expansion(nothing=f"every relation is below {least:g}, the strongest has {most:.2f}")
        strongest: dict[int, Related] = {}
        for related in reached:
            if related.weight >= 10 * least and related.weight > strongest.get(related.entity, _NOTHING).weight:
                strongest[related.entity] = related
        scores: dict[int, float] = {}
        via: dict[int, tuple[int, int]] = {}
        for related, chunk in self._passages(query, [*strongest.values()]):
            if related.weight / 10 > scores.get(chunk, 0.0):
                scores[chunk], via[chunk] = related.weight / 10, (related.entity, related.hop)
        keys, values = query.best_first(scores)
        return Expansion(keys, values, values, joining_facts(query, graph, 10 * least), via=via)

    def _passages(self, query: Query, entities: Sequence[Related]) -> Iterator[tuple[Related, int]]:
        """Yield the passages of each entity that are most similar to the question."""
        edges = query.snapshot.neighbours(np.array([related.entity for related in entities], np.int64), to="chunks")
        chunks, at = np.unique(edges.targets, return_inverse=True)
        similarity = query.snapshot.cosines(chunks, query.vector)[at]
        owners = np.arange(len(entities), dtype=np.float32).repeat(edges.counts)
        order = query.order(edges.targets, -owners, similarity)
        places = np.arange(len(order)) - (edges.counts.cumsum() - edges.counts).repeat(edges.counts)
        for edge in order[places < self.max_chunks].tolist():
            yield entities[int(owners[edge])], int(edges.targets[edge])
