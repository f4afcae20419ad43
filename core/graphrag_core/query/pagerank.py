"""Personalised PageRank from what a question names, resembles and finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from graphrag_core.ports import Keys
from graphrag_core.query.fuse import Anchored, Fusion
from graphrag_core.query.ground import Ground, Ranking
from graphrag_core.query.strategy import Expansion
from graphrag_core.stores.view import GraphView

Weights = npt.NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class PageRank:
    """Walks the graph from the question's entities, the best facts' entities and the best passages.

    Each class of seeds is brought to sum 1 before it is weighted, so that many weak seeds
    cannot drown a few good ones. A passage scores ln(PageRank) + cosine.

    Parameters
    ----------
    entity_weight, fact_weight, passage_weight
        The shares of the three classes.
    facts, passages
        How many of the best facts and passages are seeds.
    damping, iterations
        Of the power iteration.
    exact_until
        Up to this many nodes the whole graph is walked; beyond, only ``hops`` around the
        seeds, not through nodes of more than ``most_neighbours``, up to ``most_nodes``.

    Notes
    -----
    Cutting the graph to the neighbourhood of the seeds changes little of the first ten
    passages, as most of the weight stays near where it starts.
    """

    fusion: ClassVar[Fusion] = Anchored()

    entity_weight: float = 1.0
    fact_weight: float = 0.5
    passage_weight: float = 0.1
    facts: int = 3
    passages: int = 10
    damping: float = 0.85
    iterations: int = 15
    candidates: int = 100
    exact_until: int = 100_000
    hops: int = 3
    most_neighbours: int = 200
    most_nodes: int = 20_000

    def expand(self, ground: Ground, plain: Ranking, k: int) -> Expansion:
        """Return the chunks that the graph leads to, best first; nothing for an empty graph."""
        view = ground.view
        seeds, facts = self._seeds(ground, plain)
        if not seeds.any():
            return Expansion()
        weight = self._walk(view, seeds)[: len(view.chunk_keys)]
        count = min(max(self.candidates, k), len(weight))
        best = np.argpartition(-weight, count - 1)[:count]
        best = np.sort(best[weight[best] > 0])
        keys = view.chunk_keys[best]
        scores = np.log(weight[best] + 1e-9) + ground.cosine(keys)
        order = ground.in_order(keys, scores)
        return Expansion(keys[order], scores[order].astype(np.float32), facts=facts)

    def _seeds(self, ground: Ground, plain: Ranking) -> tuple[Weights, Keys]:
        view = ground.view
        chunks = len(view.chunk_keys)
        seeds = np.zeros(chunks + len(view.entity_ids), np.float32)
        rarity = view.entity_chunks.clip(1) ** -0.5
        named = np.zeros(len(view.entity_ids), np.float32)
        for entity in ground.entities:
            named[entity] += rarity[entity]
        seeds[chunks:] += self.entity_weight * _unit(named)
        near, matching = ground.near("facts", self.candidates), ground.matching("facts", self.candidates)
        facts = ground.best("facts", ground.blended("facts", near, matching), self.facts)
        seeds[chunks:] += self.fact_weight * _unit(_entities_of(view, facts, rarity))
        keys, scores = ground.best("chunks", plain, self.passages)
        found = np.zeros(chunks, np.float32)
        found[np.searchsorted(view.chunk_keys, keys)] = scores
        seeds[:chunks] += self.passage_weight * _unit(found)
        return _unit(seeds), facts[0]

    def _walk(self, view: GraphView, seeds: Weights) -> Weights:
        if len(seeds) <= self.exact_until:
            return self._iterate(view.transition, seeds)
        nodes = self._around(view, seeds)
        inside = self._iterate(view.transition[nodes][:, nodes].tocsr(), seeds[nodes])
        weight = np.zeros_like(seeds)
        weight[nodes] = inside
        return weight

    def _iterate(self, transition: csr_array, seeds: Weights) -> Weights:
        weight = seeds
        for _ in range(self.iterations):
            weight = (1 - self.damping) * seeds + self.damping * (transition @ weight)
        return weight

    def _around(self, view: GraphView, seeds: Weights) -> npt.NDArray[np.int64]:
        matrix = view.adjacency
        frontier = np.flatnonzero(seeds)
        seen = frontier
        for _ in range(self.hops):
            degree = matrix.indptr[frontier + 1] - matrix.indptr[frontier]
            frontier = frontier[(degree <= self.most_neighbours) | np.isin(frontier, np.flatnonzero(seeds))]
            rows = [matrix.indices[matrix.indptr[node] : matrix.indptr[node + 1]] for node in frontier]
            reached = np.unique(np.concatenate(rows)) if rows else np.empty(0, np.int64)
            frontier = np.setdiff1d(reached, seen)[: max(self.most_nodes - len(seen), 0)]
            seen = np.union1d(seen, frontier)
            if len(frontier) == 0:
                break
        return seen.astype(np.int64)


def _entities_of(view: GraphView, facts: Ranking, rarity: npt.NDArray[np.float64]) -> Weights:
    """Return a weight for every entity by the facts that hold it."""
    weights = np.zeros(len(view.entity_ids), np.float32)
    for key, score in zip(*facts, strict=True):
        fact = int(np.searchsorted(view.fact_keys, key))
        entities = view.incidence.indices[view.incidence.indptr[fact] : view.incidence.indptr[fact + 1]]
        if len(entities):
            weights[entities] += score * rarity[entities] / len(entities) ** 0.5
    return weights


def _unit(weights: npt.NDArray[np.float32]) -> Weights:
    total = float(weights.sum())
    return (weights / total).astype(np.float32) if total > 0 else weights
