"""Papers that introduce the concepts of a question, and what these cite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphrag_core.deadline import check_deadline
from graphrag_core.errors import check_integer
from graphrag_core.ports import Keys, Ranking
from graphrag_core.query.fusion import ReciprocalRank
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.related_entities import MAX_EDGES
from graphrag_core.query.strategies.strategy import GraphStrategy

_MAX_FACTS = 30


@dataclass(frozen=True, kw_only=True)
class CitationGraph(GraphStrategy):
    """Returns papers that introduce the concepts of the question, and what these cite, with a passage of each.

    A paper gets 1 for each concept of the question that it introduces, and 1 / 2^(hop - 1) for each citation from a
    paper found before: 0.5 on the second hop. A paper that the question names gets 1, and so does one that cites it.
    Made for research findings
    (:meth:`KnowledgeIndex.add_research_findings <graphrag_core.KnowledgeIndex.add_research_findings>`).

    Parameters
    ----------
    depth
        How far to go: 1 for the papers that introduce a concept, 2 for what these cite, and so on.
    concepts
        The relations from a paper to a concept.
    relations
        The relations that count as a citation, followed from the first entity of a fact to the second.
    """

    fusion = ReciprocalRank(weights={"vector": 0.5, "graph": 0.5})

    depth: int = 2
    concepts: tuple[str, ...] = ("introduces", "relates_to")
    relations: tuple[str, ...] = ("cites",)

    def __post_init__(self) -> None:
        check_integer(self.depth, "depth")

    def expand(self, query: Query, text_ranking: Ranking, k: int) -> Expansion:  # noqa: ARG002
        """Return a passage of each paper that concepts and citations lead to, best first."""
        relevance: defaultdict[int, float] = defaultdict(float)
        is_paper = query.snapshot.are_subjects(query.entities)
        relevance.update(dict.fromkeys(query.entities[is_paper].tolist(), 1.0))
        relations = (*self.concepts, *self.relations)
        facts = self._follow(query, query.entities, relations, relevance, 1.0, outgoing=False)
        papers, visited = [*relevance], {*relevance}
        for hop in range(2, self.depth + 1):
            cited: defaultdict[int, float] = defaultdict(float)
            share = 0.5 ** (hop - 1)
            facts += self._follow(query, np.array(papers, np.int64), self.relations, cited, share, outgoing=True)
            for paper, score in cited.items():
                relevance[paper] += score
            papers = [paper for paper in cited if paper not in visited]
            visited.update(papers)
        chunks, scores = query.best_first(_passages(query, relevance))
        chunks, scores = chunks[:k], scores[:k]
        return Expansion(chunks, scores, scores / scores.max(initial=1), np.array(facts[:_MAX_FACTS], np.int64))

    def _follow(
        self,
        query: Query,
        start: Keys,
        relations: Sequence[str],
        found: dict[int, float],
        share: float,
        *,
        outgoing: bool,
    ) -> list[int]:
        """Add a share for each relation from, or else to, some entities to what it leads to; return the facts."""
        graph = query.surroundings(start, relations=relations, limit=MAX_EDGES)
        keys, edges, ends, facts = graph.vs["key"], graph.es["fact"], graph.get_edgelist(), list[int]()
        for entity, vertex in zip(start.tolist(), np.searchsorted(keys, start).tolist(), strict=True):
            check_deadline()
            fact_of = {sum(ends[edge]) - vertex: edges[edge] for edge in graph.incident(vertex)}
            own = query.snapshot.outgoing_facts(entity, np.array(sorted({*fact_of.values()}), np.int64))[0]
            for other, fact in fact_of.items():
                if (fact in own) is outgoing and other != vertex:
                    found[keys[other]] += share
                    facts.append(fact)
        return facts


def _passages(query: Query, relevance: Mapping[int, float]) -> dict[int, float]:
    """Return the passage of each paper that is most similar to the question, with the relevance of the paper."""
    snapshot, papers = query.snapshot, np.array([*relevance], np.int64)
    about = snapshot.neighbours(papers, to="chunks")
    owners, chunks = papers.repeat(about.counts)[about.is_about], about.targets[about.is_about]
    similarity = snapshot.similarities("chunks", chunks, query.vector)
    best: dict[int, int] = {}
    scores: defaultdict[int, float] = defaultdict(float)
    seen: set[tuple[int, int]] = set()
    documents = snapshot.documents_of(chunks)
    for at in query.order("chunks", chunks, similarity).tolist():
        document, owner = int(documents[at]), int(owners[at])
        chunk = best.setdefault(document, int(chunks[at]))
        if (document, owner) not in seen:  # a paper may have two names
            seen.add((document, owner))
            scores[chunk] += relevance[owner]
    return scores
