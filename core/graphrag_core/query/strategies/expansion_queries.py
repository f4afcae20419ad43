"""KG2RAG's expansion queries: "{seed} {neighbour}" pairs from the graph, searched like questions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphrag_core.ports import Ranking
from graphrag_core.query.fusion import ReciprocalRank
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.strategies.strategy import MAX_EDGES, GraphStrategy, related_entities


@dataclass(frozen=True, kw_only=True)
class ExpansionQueries(GraphStrategy):
    """Searches for pairs of an entity that the question names and one of its neighbours in the graph.

    All pairs are embedded as questions and searched in one call. The results are those of the first query, then new
    ones of the second, and so on, with the proximity of the pair, 1 / (1 + hops). Each carries the query that found it.

    Parameters
    ----------
    depth
        The maximum number of hops to a neighbour.
    min_weight
        Relations below this weight (1 to 10) are not followed.
    hits
        How many passages each query returns.
    most_queries, most_neighbours
        The maximum number of pairs, and of related entities that are followed from each; None for all.
    stated
        True follows relations that someone stated, and sentences only where the index has no others.
    same_start
        Of passages that share this number of first characters the best one is kept; 0 keeps all.

    References
    ----------
    X. Zhu et al.: Knowledge Graph-Guided Retrieval Augmented Generation (KG2RAG, 2025).
    """

    fusion = ReciprocalRank()

    depth: int = 2
    min_weight: float = 0.0
    hits: int = 3
    most_queries: int | None = 20
    most_neighbours: int | None = 10
    stated: bool = False
    same_start: int = 0

    def expand(self, query: Query, text_ranking: Ranking, k: int) -> Expansion:  # noqa: ARG002
        """Return the passages that the expansion queries find, best first."""
        queries = self.queries(query)
        found, remark = query.by_vectors_of([text for text, _ in queries], self.hits)
        first: dict[int, tuple[float, str]] = {}
        for (text, proximity), (keys, scores) in zip(queries, found, strict=True):
            for key in keys[query.order(keys, scores)[: self.hits]].tolist():
                first.setdefault(key, (proximity, text))
        kept = query.without_same_start(np.array(list(first), np.int64), self.same_start)
        proximities = np.array([first[key][0] for key in kept.tolist()], np.float32)
        texts = {key: first[key][1] for key in kept.tolist()}
        return Expansion(kept, proximities, proximities, queries=texts, remark=remark)

    def queries(self, query: Query) -> list[tuple[str, float]]:
        """Return the queries with their proximity: pairs, nearest first, then each seed alone.

        A pair comes once, whichever of the two was the seed, with the seed that the question names first.
        """
        seeds = query.entities.tolist()
        graph = query.surroundings(
            hops=self.depth,
            min_weight=self.min_weight,
            most_neighbours=self.most_neighbours,
            limit=MAX_EDGES,
            stated=self.stated,
        )
        pairs: dict[frozenset[int], tuple[float, float, int, int]] = {}
        for seed, other, hop, weight in related_entities(graph, seeds, self.depth):
            pair, key = (1 / (1 + hop), weight, seed, other), frozenset((seed, other))
            if key not in pairs or pair[:2] > pairs[key][:2]:
                pairs[key] = pair
        wanted = sorted({*seeds, *(entity for pair in pairs for entity in pair)})
        entities = query.snapshot.entities(np.array(wanted, np.int64))
        names = {key: entity.name for key, entity in zip(wanted, entities, strict=True)}
        nearest = sorted(pairs.values(), key=lambda pair: (-pair[0], -pair[1], names[pair[2]], names[pair[3]]))
        chosen = [(f"{names[seed]} {names[other]}", near) for near, _, seed, other in nearest[: self.most_queries]]
        lowest = min((near for _, near in chosen), default=1.0)
        return [*chosen, *((names[seed], lowest) for seed in seeds)]
