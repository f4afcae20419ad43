"""Passages of the entities around those that the question names."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import log2

import numpy as np

from graphrag_core.deadline import check_deadline
from graphrag_core.errors import check_integer
from graphrag_core.key_sets import among
from graphrag_core.ports import Keys, Ranking
from graphrag_core.query.fusion import Fusion, Weighted
from graphrag_core.query.paths import stated_facts
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.strategies.strategy import GraphStrategy

_MAX_FACTS = 30
_WEIGHTED = Weighted()


@dataclass(frozen=True, kw_only=True)
class Neighbourhood(GraphStrategy):
    """Returns the passages of entities that are linked to the question's entities.

    Each entity of the question is followed on its own, so that two of them that are linked lead to each
    other's passages. A passage gets the score of the best entity in it:
    weight / 10 · 1 / 2^(hop - 1) · (0.7 + 0.3 · min(log2(mentions + 1) / 5, 1)).

    Parameters
    ----------
    hops
        How far to go, 1 to 3.
    relation_types
        Follow only facts of these relations; None follows all, also sentences.
    max_chunks
        How many passages the graph may add to the first ``k`` of plain search. Those that plain search has
        already are scored without limit.
    strongest
        True weighs a link by the strongest relation between two entities, and by a sentence only where no relation
        is stated. By default a link weighs the sum of all its facts, at most 10.
    most_neighbours
        How many of an entity's strongest links are followed; None for all.
    fusion
        How its scores are joined with the scores of plain search.
    """

    hops: int = 1
    relation_types: tuple[str, ...] | None = None
    max_chunks: int = 4
    strongest: bool = False
    most_neighbours: int | None = 50
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
        reached = [
            link
            for seed in query.entities.tolist()
            for link in linked_entities(
                query, seed, self.hops, self.most_neighbours, self.relation_types, strongest=self.strongest
            )
        ]
        if not reached:
            return Expansion(nothing=self._no_links(query))
        mentions = snapshot.entity_counts(np.array([entity for entity, _, _ in reached], np.int64))
        best: dict[int, float] = {}
        for (entity, hop, weight), count in zip(reached, mentions.tolist(), strict=True):
            best[entity] = max(best.get(entity, 0.0), self.score(weight, hop, count))
        entities = np.array(list(best), np.int64)
        edges = snapshot.neighbours(entities, to="chunks")
        chunks, position = np.unique(edges.targets, return_inverse=True)
        scores = np.zeros(len(chunks), np.float32)
        np.maximum.at(scores, position, np.repeat(np.array(list(best.values()), np.float32), edges.counts))
        # Among passages with the same score, those most similar to the question are chosen.
        similarity = snapshot.similarities("chunks", chunks, query.vector)
        order = query.order("chunks", chunks, scores, similarity)
        had = np.isin(chunks[order], text_ranking[0][: query.settings.k if query.settings.method == "hybrid" else 0])
        order = order[had | (np.cumsum(~had) <= self.max_chunks)]
        return Expansion(chunks[order], scores[order], scores[order], self._facts(query, entities))

    def _no_links(self, query: Query) -> str:
        """Return why no entity was reached; empty if the question names none."""
        if not len(query.entities):
            return ""
        kind = f" by {', '.join(self.relation_types)}" if self.relation_types else ""
        names = ", ".join(entity.name for entity in query.snapshot.entities(query.entities))
        return f"{names} is linked to no entity{kind}"

    def _facts(self, query: Query, entities: Keys) -> Keys:
        """Return facts that join a named entity with another one; two named entities first, then by weight."""
        snapshot, named = query.snapshot, np.sort(query.entities)
        facts = snapshot.facts_of(named, relations=self.relation_types)
        rows = snapshot.fact_rows(facts)
        fact = np.repeat(np.arange(len(facts)), rows.counts)
        is_named = np.isin(rows.entities, named)
        in_both = np.bincount(fact[is_named], minlength=len(facts))
        joining = np.bincount(fact[is_named | np.isin(rows.entities, entities)], minlength=len(facts)) > 1
        facts, in_both, weights = facts[joining], in_both[joining], rows.weights[joining]
        order = query.order("facts", facts, (in_both > 1).astype(np.float32), weights)[:_MAX_FACTS]
        return facts[order]


def linked_entities(
    query: Query, seed: int, hops: int, limit: int | None, relations: tuple[str, ...] | None = None,
    *, min_weight: float = 0.0, strongest: bool = False,
) -> Iterator[tuple[int, int, float]]:  # fmt: skip
    """Yield the entities around an entity in breadth-first order: entity, hop and link weight (0 to 10).

    Each entity comes once, at its nearest hop, with the weight of the strongest link to it. Only the ``limit``
    strongest links of an entity are followed, and none below ``min_weight``. ``strongest``: see :class:`Neighbourhood`.
    """
    frontier, seen = [seed], {seed}
    for hop in range(1, hops + 1):
        check_deadline()
        weights: dict[int, float] = {}
        for other, weight in _links(query, frontier, limit, relations, strongest=strongest):
            if other not in seen and weight >= min_weight:
                weights[other] = max(weights.get(other, 0.0), weight)
        seen.update(weights)
        frontier = sorted(weights, key=lambda entity: (-weights[entity], entity))
        yield from ((entity, hop, weights[entity]) for entity in frontier)


def _links(
    query: Query, entities: list[int], limit: int | None, relations: tuple[str, ...] | None, *, strongest: bool
) -> Iterator[tuple[int, float]]:
    """Yield the strongest links of each entity: target and weight (0 to 10)."""
    snapshot, nodes = query.snapshot, np.array(entities, np.int64)
    if relations is None and not strongest:
        edges = snapshot.neighbours(nodes, to="entities", limit=limit)
        for target, weight in zip(edges.targets.tolist(), edges.weights.tolist(), strict=True):
            yield target, min(round(10 * weight, 4), 10.0)
        return
    facts = snapshot.facts_of(nodes, relations=relations)
    stated = among(facts, stated_facts(query, facts)) if strongest else np.ones(len(facts), np.bool_)
    rows = snapshot.fact_rows(facts)
    links: dict[int, dict[int, float]] = {entity: {} for entity in entities}
    by_sentence: dict[int, dict[int, float]] = {entity: {} for entity in entities}
    end = 0
    for count, weight, is_stated in zip(rows.counts.tolist(), rows.weights.tolist(), stated.tolist(), strict=True):
        entities_of_fact = rows.entities[end : end + count].tolist()
        end += count
        for entity in links.keys() & set(entities_of_fact):
            weights = links[entity] if is_stated else by_sentence[entity]
            for other in entities_of_fact:
                if other != entity:
                    before = weights.get(other, 0.0)
                    weights[other] = max(before, weight) if strongest else min(before + weight, 10.0)
    for entity, weights in links.items():
        joined = {**by_sentence[entity], **weights}
        yield from sorted(joined.items(), key=lambda link: (-link[1], link[0]))[:limit]
