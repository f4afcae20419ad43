"""``GraphStrategy``: the interface of graph strategies, and how most of them follow relations.

Relations are followed on the igraph graph of :meth:`Query.surroundings <graphrag_core.query.query.Query.surroundings>`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphrag_core.ports import Keys, Ranking, Scores
from graphrag_core.query.fusion import Fusion, Gate, ReciprocalRank
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.recognise import Recogniser
from graphrag_core.query.rerank import Reranker

if TYPE_CHECKING:
    from igraph import Graph

MAX_EDGES = 50_000
"""The maximum number of edges around a question that the strategies of the five designs read."""

_MAX_FACTS = 30


class GraphStrategy(ABC):
    """How the graph is searched. A subclass is a frozen dataclass whose fields are its settings.

    Attributes
    ----------
    fusion
        Joins its ranking with plain search, unless the settings have another one.
    reranker
        Orders the passages, if the settings have the default reranker and fusion; None for none.
    gate, recogniser
        Apply unless the settings have others; None for the defaults.
    applies_min_graph_score
        Whether :meth:`expand` leaves out what is weaker than ``min_graph_score`` of the gate. Otherwise the pipeline
        does, by the strengths of stated relations.
    """

    fusion: Fusion = ReciprocalRank()
    reranker: Reranker | None = None
    gate: Gate | None = None
    recogniser: Recogniser | None = None
    applies_min_graph_score: bool = False

    @abstractmethod
    def expand(self, query: Query, text_ranking: Ranking, k: int) -> Expansion:
        """Return the chunks that the graph leads to from a question; nothing for an empty graph.

        ``text_ranking`` is the blended ranking of vector and keyword search; the caller wants at least ``k`` chunks.
        """


class Related(NamedTuple):
    """An entity, from which seed and over how many relations it was reached, and the weight of the strongest last."""

    seed: int
    entity: int
    hop: int
    weight: float


def related_entities(graph: Graph, seeds: Sequence[int], hops: int) -> Iterator[Related]:
    """Yield the entities around each seed, breadth-first: each once for a seed, at its nearest hop.

    Two entities are related by the strongest relation that someone stated, by a sentence only without one. Of a hop the
    most strongly related entities come first.
    """
    keys, ends = np.array(graph.vs["key"], np.int64), np.array(graph.get_edgelist(), np.int64).reshape(-1, 2)
    weights = np.array(graph.es["weight"], np.float64)
    pairs = np.sort(ends, axis=1) @ np.array([len(keys), 1], np.int64)
    strongest = np.unique(pairs, return_index=True)[1]  # the strongest relation of two entities comes first
    links, weights = np.concatenate([ends[strongest], ends[strongest, ::-1]]), np.tile(weights[strongest], 2)
    for seed, hop in zip(seeds, np.array(graph.distances(keys.searchsorted(seeds))), strict=True):
        onwards = (hop[links[:, 1]] == hop[links[:, 0]] + 1) & (hop[links[:, 1]] <= hops)
        best = np.zeros(len(keys))
        np.maximum.at(best, links[onwards, 1], weights[onwards])
        reached = np.unique(links[onwards, 1])
        for vertex in reached[np.lexsort((keys[reached], -best[reached], hop[reached]))].tolist():
            yield Related(seed, int(keys[vertex]), int(hop[vertex]), float(best[vertex]))


def joining_facts(query: Query, graph: Graph, least: float = 0.0) -> Keys:
    """Return facts that join an entity of the question with another; two of the question first, then by weight."""
    named = {vertex for vertex, key in enumerate(graph.vs["key"]) if key in set(query.entities.tolist())}
    both: dict[int, tuple[float, float]] = {}
    for fact, weight, ends in zip(graph.es["fact"], graph.es["weight"], graph.get_edgelist(), strict=True):
        if weight >= least and ends[0] != ends[1] and not named.isdisjoint(ends):
            both[fact] = max(both.get(fact, (0.0, 0.0)), (float(named.issuperset(ends)), weight))
    facts, columns = np.array([*both], np.int64), np.array([*both.values()], np.float32).reshape(-1, 2)
    return facts[query.order(facts, *columns.T, of_facts=True)[:_MAX_FACTS]]


def stated_strengths(query: Query, chunks: Keys) -> Scores:
    """Return for each chunk the strength / 10 of the strongest stated relation that leads to one of its entities.

    Relations are followed over two hops from the question's entities. NaN for a chunk that none leads to.
    """
    graph = query.surroundings(hops=2, limit=MAX_EDGES)
    graph.delete_edges([edge for edge, stated in enumerate(graph.es["stated"]) if not stated])
    strength_of: dict[int, float] = {}
    for related in related_entities(graph, query.entities.tolist(), 2):
        strength_of[related.entity] = max(related.weight / 10, strength_of.get(related.entity, 0.0))
    edges = query.snapshot.neighbours(chunks, to="entities")
    strengths = np.full(len(chunks), np.nan, np.float32)
    values = np.array([strength_of.get(entity, np.nan) for entity in edges.targets.tolist()], np.float32)
    np.fmax.at(strengths, np.repeat(np.arange(len(chunks)), edges.counts), values)
    return strengths
