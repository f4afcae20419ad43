"""Passages of the concepts that a question names, and what these passages cite."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphrag_core.deadline import check_deadline
from graphrag_core.errors import check_integer
from graphrag_core.key_sets import distinct
from graphrag_core.ports import Ranking, Snapshot
from graphrag_core.query.fusion import ReciprocalRank
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.related_entities import MAX_EDGES
from graphrag_core.query.strategies.strategy import GraphStrategy

if TYPE_CHECKING:
    from igraph import Graph

_MAX_FACTS = 30


@dataclass(frozen=True, kw_only=True)
class CitationGraph(GraphStrategy):
    """Returns the passages that mention the question's entities, and those that their subjects cite.

    A passage gets 1 for each entity of the question that it mentions, and 1 / 2^(hop - 1) for each citation from a
    passage found before: 0.5 on the second hop. Made for research findings
    (:meth:`KnowledgeIndex.add_research_findings <graphrag_core.KnowledgeIndex.add_research_findings>`), where
    papers mention the concepts they introduce and cite each other.

    Parameters
    ----------
    depth
        How far to go: 1 for the passages that mention an entity, 2 for what these cite, and so on.
    relations
        The relations that count as a citation, followed from the first entity of a fact to the second.
    """

    fusion = ReciprocalRank(weights={"vector": 0.5, "graph": 0.5})

    depth: int = 2
    relations: tuple[str, ...] = ("cites",)

    def __post_init__(self) -> None:
        check_integer(self.depth, "depth")

    def expand(self, query: Query, text_ranking: Ranking, k: int) -> Expansion:  # noqa: ARG002
        """Return the passages that concepts and citations lead to, best first."""
        snapshot = query.snapshot
        relevance: defaultdict[int, float] = defaultdict(float)
        for chunk in snapshot.neighbours(query.entities, to="chunks").targets.tolist():
            relevance[chunk] += 1.0
        edges = snapshot.mentions(np.array(list(relevance), np.int64))
        papers = distinct(edges.targets[edges.is_about])
        graph = query.surroundings(papers, hops=self.depth - 1, relations=self.relations, limit=MAX_EDGES)
        keys, visited, facts = graph.vs["key"], set(papers.tolist()), list[int]()
        for hop in range(2, self.depth + 1):
            cited = {paper: _cited(snapshot, graph, keys.index(paper)) for paper in papers.tolist()}
            targets = [target for found in cited.values() for target in found]
            facts += [fact for found in cited.values() for fact in found.values()]
            about = snapshot.neighbours(np.array(targets, np.int64), to="chunks")
            for chunk in about.targets[about.is_about].tolist():
                relevance[chunk] += 0.5 ** (hop - 1)
            papers = np.array(sorted({*targets} - visited), np.int64)
            visited.update(papers.tolist())
        chunks, scores = query.best_first(relevance)
        chunks, scores = chunks[:k], scores[:k]
        return Expansion(chunks, scores, scores / scores.max(initial=1), np.array(facts[:_MAX_FACTS], np.int64))


def _cited(snapshot: Snapshot, graph: Graph, paper: int) -> dict[int, int]:
    """Return the papers that a paper, given by its vertex, cites, each once, and the fact that says so."""
    check_deadline()
    edges, keys = graph.es[graph.incident(paper)], graph.vs["key"]
    outgoing = snapshot.outgoing_facts(keys[paper], np.array(sorted({*edges["fact"]}), np.int64))[0]
    cited: dict[int, int] = {}
    for edge in sorted(edges, key=lambda edge: edge["fact"]):
        if edge["fact"] in outgoing and edge.source != edge.target:
            cited.setdefault(keys[sum(edge.tuple) - paper], edge["fact"])
    return cited
