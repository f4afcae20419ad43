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
    damping
        The chance to go on at each step of the walk.
    tolerance
        The walk is pushed outwards from the seeds, and only from nodes that still hold more
        than this for each of their neighbours: its cost follows what is near the question,
        not the size of the graph. 0 walks the whole graph.
    iterations
        How often at the most.

    Notes
    -----
    At the default tolerance nine or ten of the first ten passages are those of the whole
    walk, as most of the weight stays near where it starts.
    """

    fusion: ClassVar[Fusion] = Anchored()

    entity_weight: float = 1.0
    fact_weight: float = 0.45
    passage_weight: float = 0.1
    facts: int = 3
    passages: int = 10
    damping: float = 0.85
    tolerance: float = 4e-5
    iterations: int = 15
    candidates: int = 100

    def expand(self, ground: Ground, plain: Ranking, k: int) -> Expansion:
        """Return the chunks that the graph leads to, best first; nothing for an empty graph."""
        view = ground.view
        seeds, facts = self._seeds(ground, plain)
        if not seeds.any():
            return Expansion()
        weight = self._walk(view, seeds)[: len(view.chunk_keys)]
        best = np.flatnonzero(weight)
        count = max(self.candidates, k)
        if len(best) > count:  # with everything that ties with the last
            best = best[weight[best] >= np.partition(weight[best], -count)[-count]]
        keys = view.chunk_keys[best]
        # Rounded, so that passages that are alike tie whatever the order of the sums.
        scores = np.round(np.log(weight[best] + 1e-9) + ground.cosine(keys), 4)
        order = ground.in_order(keys, scores)[:count]
        return Expansion(keys[order], scores[order].astype(np.float32), facts=facts)

    def _seeds(self, ground: Ground, plain: Ranking) -> tuple[Weights, Keys]:
        view = ground.view
        chunks = len(view.chunk_keys)
        seeds = np.zeros(chunks + len(view.entity_ids), np.float32)
        named = np.array(ground.entities, np.int64)
        _sow(seeds, chunks + named, view.rarity[named], self.entity_weight)
        near, matching = ground.near("facts", self.candidates), ground.matching("facts", self.candidates)
        facts = ground.best("facts", ground.blended("facts", near, matching), self.facts)
        entities, weights = _entities_of(view, facts)
        _sow(seeds, chunks + entities, weights, self.fact_weight)
        keys, scores = ground.best("chunks", plain, self.passages)
        _sow(seeds, np.searchsorted(view.chunk_keys, keys), scores, self.passage_weight)
        total = float(seeds.sum())
        return seeds / total if total > 0 else seeds, facts[0]

    def _walk(self, view: GraphView, seeds: Weights) -> Weights:
        step = view.transition
        if self.tolerance <= 0:
            weight = seeds
            for _ in range(self.iterations):
                weight = (1 - self.damping) * seeds + self.damping * (step.T @ weight)
            return weight
        settled, moving = np.zeros_like(seeds), seeds.copy()
        latest = np.empty(len(seeds), np.int64)
        active = np.flatnonzero(moving)
        for _ in range(self.iterations):
            held = moving[active]
            settled[active] += (1 - self.damping) * held
            moving[active] = 0
            targets, shares = _neighbours(step, active, self.damping * held)
            np.add.at(moving, targets, shares)
            full = targets[moving[targets] > self.tolerance * view.fanout[targets]]
            turns = np.arange(len(full))
            latest[full] = turns
            active = full[latest[full] == turns]  # each once
            if len(active) == 0:
                break
        return settled + (1 - self.damping) * moving


def _neighbours(step: csr_array, nodes: npt.NDArray[np.int64], held: Weights) -> tuple[npt.NDArray[np.int64], Weights]:
    """Return the neighbours of nodes, one after the other, and what each receives of what the nodes held."""
    starts = step.indptr[nodes]
    counts = step.indptr[nodes + 1] - starts
    ends = np.cumsum(counts)
    at = np.arange(ends[-1]) + np.repeat(starts - ends + counts, counts)
    return step.indices[at], step.data[at] * np.repeat(held, counts)


def _sow(seeds: Weights, nodes: npt.NDArray[np.int64], weights: Weights, share: float) -> None:
    """Add a class of seeds that has a share of all, whatever its own sum."""
    total = float(weights.sum())
    if total > 0:
        np.add.at(seeds, nodes, (weights * (share / total)).astype(np.float32))


def _entities_of(view: GraphView, facts: Ranking) -> tuple[npt.NDArray[np.int64], Weights]:
    """Return the entities of facts, one fact after the other, with weights: many share what one has alone."""
    inside = [view.entities_in(fact) for fact in np.searchsorted(view.fact_keys, facts[0]).tolist()]
    counts = np.array([len(entities) for entities in inside], np.int64)
    entities = np.concatenate([*inside, np.empty(0, np.int64)]).astype(np.int64)
    score = np.repeat(facts[1] / np.sqrt(counts.clip(1)), counts)
    return entities, (score * view.rarity[entities]).astype(np.float32)
