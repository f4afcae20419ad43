"""Personalised PageRank from the entities, facts and passages that match a question."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graphrag_core.deadline import check_deadline
from graphrag_core.ports import Keys, Ranking
from graphrag_core.query.linear import Linear, word_weights
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.strategies.strategy import GraphStrategy

if TYPE_CHECKING:
    from graphrag_core.engine.snapshot import Snapshot

Doubles = npt.NDArray[np.float64]
_DISCOVERING = 4  # rounds in which further nodes are pushed; later ones change little
_FROM = 30  # first passages of plain search, of whose facts the best are seeds
_COMPARED = 50  # facts with the most words of the question, of which the cosine is computed, too
_COSINE = 0.6  # the weight of a fact's cosine beside its words


@dataclass(frozen=True, kw_only=True)
class PageRank(GraphStrategy):
    """Ranks passages by personalised PageRank, seeded with the question's entities, facts and passages.

    Each class of seeds is normalised to sum 1 before it is weighted, so that many weak seeds
    cannot outweigh a few good ones. A passage scores ln(PageRank) + cosine.

    Parameters
    ----------
    entity_weight, fact_weight, passage_weight
        The weights of the three classes of seeds.
    carried_weight
        Of a follow-up question, the weight of an entity of the conversation relative to one that the question names,
        and of the passages that were shown before as a fourth class.
    facts, passages
        How many of the best facts and passages are seeds.
    damping
        The probability to continue the walk at each step.
    tolerance
        Forward push stops at nodes whose residual is at most this much per neighbour, so its cost
        depends on the surroundings of the question and not on the size of the graph. 0 visits
        everything that can be reached.
    iterations
        The maximum number of push rounds.
    candidates
        How many passages are returned at least.

    References
    ----------
    R. Andersen, F. Chung, K. Lang: Local Graph Partitioning using PageRank Vectors (2006), for forward push.
    B. J. Gutiérrez et al.: HippoRAG (2024), for personalised PageRank over a knowledge graph.
    """

    reranker = Linear()

    entity_weight: float = 1.0
    fact_weight: float = 0.5
    passage_weight: float = 0.1
    carried_weight: float = 0.5
    facts: int = 3
    passages: int = 10
    damping: float = 0.85
    tolerance: float = 4e-5
    iterations: int = 15
    candidates: int = 60

    def expand(self, query: Query, text_ranking: Ranking, k: int) -> Expansion:
        """Return the chunks with the highest PageRank, best first."""
        facts, scores = self._best_facts(query, text_ranking[0][:_FROM])
        counts, holding = query.snapshot.entities_of(facts)
        entities = np.concatenate([query.entities, holding])
        rarity = query.snapshot.entity_counts(entities).clip(1) ** -0.5
        named, carried = len(query.entities), query.carried
        if len(carried.entities):
            rarity[named - len(carried.entities) : named] *= self.carried_weight * carried.weights
        # The entities of a fact share its score.
        of_facts = np.repeat(scores / np.sqrt(counts.clip(1)), counts) * rarity[named:]
        classes: list[tuple[Keys, npt.NDArray[Any], float]] = [
            (entities[:named], rarity[:named], self.entity_weight),
            (entities[named:], of_facts, self.fact_weight),
            (text_ranking[0][: self.passages], text_ranking[1][: self.passages], self.passage_weight),
            (carried.passages, 1 / np.arange(1, len(carried.passages) + 1), self.carried_weight),
        ]
        seeds = [(nodes, part * (weight / part.sum())) for nodes, part, weight in classes if part.sum() > 0]
        if not seeds:
            return Expansion()
        nodes = np.concatenate([nodes for nodes, _ in seeds])  # may repeat
        weights = np.concatenate([part for _, part in seeds]).astype(np.float64)
        chunks, rank = self._push(query.snapshot, nodes, weights / weights.sum())
        count = max(self.candidates, k)
        if len(chunks) > count:  # keep everything that ties with the last
            kept = rank >= np.partition(rank, -count)[-count]
            chunks, rank = chunks[kept], rank[kept]
        # Rounded, so that equal passages tie whatever the order of the sums.
        similarity = query.snapshot.cosines(chunks, query.vector)
        scores = np.round(np.log(rank + 1e-9) + similarity, 4).astype(np.float32)
        order = query.order(chunks, scores)[:count]
        return Expansion(chunks[order], scores[order], facts=facts)

    def _best_facts(self, query: Query, chunks: Keys) -> Ranking:
        """Return the facts of some chunks that are nearest to the question, by their words and their vectors."""
        snapshot, terms = query.snapshot, query.snapshot.terms(query.text)
        sentences = snapshot.sentences(chunks, terms)
        words = np.vecdot(sentences.of_facts, word_weights(snapshot.term_counts(terms), snapshot.statistics_count))
        kept = np.flatnonzero(words > 0)
        if len(kept) > _COMPARED:
            kept = kept[words[kept] >= np.partition(words[kept], -_COMPARED)[-_COMPARED]]
        kept = kept[snapshot.first_said(sentences.facts[kept])]
        facts, scores = sentences.facts[kept], words[kept] / max(float(words.max(initial=0)), 1e-9)
        cosine = np.maximum(snapshot.fact_cosines(facts, query.vector), 0)
        if cosine.any():
            scores = _COSINE * cosine / float(cosine.max()) + (1 - _COSINE) * scores
        scores = scores.round(6).astype(np.float32)
        order = query.order(facts, scores, of_facts=True)[: self.facts]
        return facts[order], scores[order]

    def _push(self, snapshot: Snapshot, seeds: Keys, weights: Doubles) -> tuple[Keys, Doubles]:
        """Return the chunks that forward push reaches, and their PageRank.

        The edges of a node are read when it is first pushed; from then on it is pushed in every round. In double
        precision: the order of the sums must not show in a rounded score.
        """
        first_entity, tolerance = snapshot.first_entity, self.tolerance
        # For each node its residual, 0 at first; where a list has it; and whether it was pushed.
        residual, last_seen, is_pushed = _scratch(snapshot.node_limit)
        np.add.at(residual, seeds, weights)
        new = _unique(seeds, last_seen)
        nodes, owners, targets, shares, settled = new[:0], new[:0], new[:0], weights[:0], weights[:0]
        for left in range(min(_DISCOVERING, self.iterations - 1), -1, -1):
            check_deadline()
            if len(new):
                new = np.concatenate([new[new < first_entity], new[new >= first_entity]])  # as walk reads them
                edges = snapshot.walk(new)
                own = np.arange(len(new)).repeat(edges.counts)
                per_weight = self.damping / np.maximum(np.bincount(own, edges.weights, len(new)), 1e-12)
                is_pushed[new] = True
                owners, nodes = np.concatenate([owners, own + len(nodes)]), np.concatenate([nodes, new])
                shares = np.concatenate([shares, edges.weights * per_weight[own]])
                targets = np.concatenate([targets, edges.targets])
                settled = np.concatenate([settled, np.zeros(len(new))])
            mass = residual[nodes]
            residual[nodes] = 0
            settled += mass
            np.add.at(residual, targets, shares * mass[owners])
            if left:
                near = targets[residual[targets] > tolerance]
                new = _unique(near[~is_pushed[near]], last_seen)
                new = new[residual[new] > tolerance * snapshot.degrees(new)]
        # From here on the same nodes are pushed: only edges between them matter, and at the end the others.
        last_seen[nodes] = np.arange(len(nodes))
        inside = is_pushed[targets]
        start, end, share = owners[inside], last_seen[targets[inside]], shares[inside]
        mass, pushed = residual[nodes], np.zeros(len(nodes))
        for _ in range(self.iterations - _DISCOVERING - 1):
            pushed += mass
            mass = np.bincount(end, share * mass[start], len(nodes)).astype(np.float64, copy=False)
        outside = ~inside
        residual[nodes] = mass
        np.add.at(residual, targets[outside], shares[outside] * pushed[owners[outside]])
        everything = np.concatenate([nodes, targets])
        reached = _unique(everything[everything < first_entity], last_seen)
        last_seen[reached] = np.arange(len(reached))
        rank, are_chunks = residual[reached], nodes < first_entity
        rank[last_seen[nodes[are_chunks]]] += (settled + pushed)[are_chunks]
        residual[everything] = 0
        is_pushed[nodes] = False
        _SPARE[:] = [(residual, last_seen, is_pushed)]
        return reached[rank > 0], (1 - self.damping) * rank[rank > 0]


Scratch = tuple[Doubles, npt.NDArray[np.int32], npt.NDArray[np.bool_]]
_SPARE: list[Scratch] = []
"""The arrays of the last walk, for the next one: making it takes time in proportion to the graph. At most one."""


def _scratch(size: int) -> Scratch:
    """Return arrays with a place for each node: those of the last walk, unless another thread has them."""
    with suppress(IndexError):
        if len((spare := _SPARE.pop())[0]) >= size:
            return spare
    return np.zeros(size), np.empty(size, np.int32), np.zeros(size, np.bool_)


def _unique(nodes: Keys, scratch: npt.NDArray[np.int32]) -> Keys:
    """Return nodes without duplicates, faster than sorting. ``scratch`` has room for every node."""
    turns = np.arange(len(nodes), dtype=np.int32)
    scratch[nodes] = turns
    unique: Keys = nodes[scratch[nodes] == turns]
    return unique
