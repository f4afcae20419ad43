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
Nodes = npt.NDArray[np.int64]


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
    fact_weight: float = 0.5
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
        nodes, shares, facts = self._seeds(ground, plain)
        if len(nodes) == 0:
            return Expansion()
        best, weight = self._walk(view, nodes, shares)
        count = max(self.candidates, k)
        if len(best) > count:  # with everything that ties with the last
            enough = weight >= np.partition(weight, -count)[-count]
            best, weight = best[enough], weight[enough]
        keys = view.chunk_keys[best]
        # Rounded, so that passages that are alike tie whatever the order of the sums.
        scores = np.round(np.log(weight + 1e-9) + ground.cosine(keys), 4)
        order = ground.in_order(keys, scores)[:count]
        return Expansion(keys[order], scores[order].astype(np.float32), facts=facts)

    def _seeds(self, ground: Ground, plain: Ranking) -> tuple[Nodes, Weights, Keys]:
        """Return the nodes to start at, some more than once, their weights, and the facts among them."""
        view = ground.view
        chunks = len(view.chunk_keys)
        named = np.array(ground.entities, np.int64)
        near, matching = ground.near("facts", self.candidates), ground.matching("facts", self.candidates)
        facts = ground.best("facts", ground.blended("facts", near, matching), self.facts)
        entities, weights = _entities_of(view, facts)
        keys, scores = ground.best("chunks", plain, self.passages)
        classes = [
            (chunks + named, view.rarity[named], self.entity_weight),
            (chunks + entities, weights, self.fact_weight),
            (np.searchsorted(view.chunk_keys, keys), scores, self.passage_weight),
        ]
        sown = [(nodes, of * (share / of.sum())) for nodes, of, share in classes if of.sum() > 0]
        if not sown:
            return np.empty(0, np.int64), np.empty(0, np.float32), facts[0]
        seeds = np.concatenate([of for _, of in sown])
        return np.concatenate([nodes for nodes, _ in sown]), (seeds / seeds.sum()).astype(np.float32), facts[0]

    def _walk(self, view: GraphView, nodes: Nodes, shares: Weights) -> tuple[Nodes, Weights]:
        """Return the chunks that the walk reaches, by position, and how much of it each holds."""
        step, chunks = view.transition, len(view.chunk_keys)
        settled: Weights = np.zeros(step.shape[0], np.float32)
        moving: Weights = np.zeros(step.shape[0], np.float32)
        np.add.at(moving, nodes, shares)
        if self.tolerance <= 0:
            seeds = weight = moving
            for _ in range(self.iterations):
                weight = (1 - self.damping) * seeds + self.damping * (step.T @ weight)
            reached = np.flatnonzero(weight[:chunks])
            return reached, weight[reached]
        # What is near is all that is touched: nothing below goes through the whole graph.
        latest = np.empty(step.shape[0], np.int64)
        active = _once(nodes, latest)
        seen = [active]
        for _ in range(self.iterations):
            held = moving[active]
            settled[active] += (1 - self.damping) * held
            moving[active] = 0
            targets, received = _neighbours(step, active, np.float32(self.damping) * held)
            np.add.at(moving, targets, received)
            seen.append(targets)
            active = _once(targets[moving[targets] > self.tolerance * view.fanout[targets]], latest)
            if len(active) == 0:
                break
        reached = np.concatenate(seen)
        reached = _once(reached[reached < chunks], latest)
        weight = settled[reached] + (1 - self.damping) * moving[reached]
        return reached[weight > 0], weight[weight > 0]


def _once(nodes: Nodes, latest: Nodes) -> Nodes:
    """Return nodes without repetition; ``latest`` is room for a number for every node there is."""
    turns = np.arange(len(nodes))
    latest[nodes] = turns
    once: Nodes = nodes[latest[nodes] == turns]
    return once


def _neighbours(step: csr_array, nodes: Nodes, held: Weights) -> tuple[Nodes, Weights]:
    """Return the neighbours of nodes, one after the other, and what each receives of what the nodes held."""
    starts = step.indptr[nodes].astype(np.int64)
    counts = step.indptr[nodes + 1] - starts
    ends = counts.cumsum()
    at = np.arange(ends[-1])
    at += (starts - ends + counts).repeat(counts)
    # What NumPy indexes by is 64 bits wide: to widen here is to do it once.
    return step.indices[at].astype(np.int64), step.data[at] * held.repeat(counts)


def _entities_of(view: GraphView, facts: Ranking) -> tuple[Nodes, Weights]:
    """Return the entities of facts, one fact after the other, with weights: many share what one has alone."""
    inside = [view.entities_in(fact) for fact in np.searchsorted(view.fact_keys, facts[0]).tolist()]
    counts = np.array([len(entities) for entities in inside], np.int64)
    entities = np.concatenate([*inside, np.empty(0, np.int64)]).astype(np.int64)
    score = np.repeat(facts[1] / np.sqrt(counts.clip(1)), counts)
    return entities, (score * view.rarity[entities]).astype(np.float32)
