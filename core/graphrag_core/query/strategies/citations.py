"""Papers that introduce the concepts of a question, and what these cite."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphrag_core.deadline import check_deadline
from graphrag_core.errors import check_integer
from graphrag_core.key_sets import distinct
from graphrag_core.ports import Ranking
from graphrag_core.query.fusion import ReciprocalRank
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.strategies.strategy import MAX_EDGES, GraphStrategy

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
        edges = query.snapshot.walk(query.entities)
        named = query.entities[edges.totals > edges.counts]  # some passage is about it
        relevance = defaultdict(float, dict.fromkeys(named.tolist(), 1.0))
        papers, facts = _joined(query, query.entities.tolist(), (*self.concepts, *self.relations), outgoing=False)
        for paper in papers:
            relevance[paper] += 1.0
        papers = [*relevance]
        for hop in range(2, self.depth + 1):
            cited, more = _joined(query, papers, self.relations, outgoing=True)
            papers = [paper for paper in dict.fromkeys(cited) if paper not in relevance]
            for paper in cited:
                relevance[paper] += 0.5 ** (hop - 1)
            facts += more
        chunks, scores = query.best_first(_passages(query, relevance))
        chunks, scores = chunks[:k], scores[:k]
        return Expansion(chunks, scores, scores / scores.max(initial=1), np.array(facts[:_MAX_FACTS], np.int64))


def _joined(
    query: Query, entities: Sequence[int], relations: Sequence[str], *, outgoing: bool
) -> tuple[list[int], list[int]]:
    """Return where relations of some entities lead to, or else come from, once for each entity; and the facts."""
    graph = query.surroundings(np.array(entities, np.int64), relations=relations, limit=MAX_EDGES)
    keys, others, facts = graph.vs["key"], list[int](), list[int]()
    for entity, vertex in zip(entities, np.searchsorted(keys, entities).tolist(), strict=True):
        check_deadline()
        edges = graph.es[graph.incident(vertex)]
        own = query.snapshot.outgoing_facts(entity, distinct(np.array(edges["fact"], np.int64)))[0].tolist()
        edges = edges.select(fact_in={*own}) if outgoing else edges.select(fact_notin={*own})
        others += [keys[end] for end in {end for edge in edges for end in edge.tuple} - {vertex}]
        facts += edges["fact"]
    return others, facts


def _passages(query: Query, relevance: Mapping[int, float]) -> dict[int, float]:
    """Return the passage of each paper that is most similar to the question, with the relevance of the paper."""
    snapshot, papers = query.snapshot, np.array([*relevance], np.int64)
    about = snapshot.neighbours(papers, to="chunks")
    owners, chunks = papers.repeat(about.counts)[about.is_about], about.targets[about.is_about]
    similarity = snapshot.cosines(chunks, query.vector)
    best: dict[int, int] = {}
    scores: defaultdict[int, float] = defaultdict(float)
    seen: set[tuple[int, int]] = set()
    documents = snapshot.documents_of(chunks)
    for at in query.order(chunks, similarity).tolist():
        document, owner = int(documents[at]), int(owners[at])
        chunk = best.setdefault(document, int(chunks[at]))
        if (document, owner) not in seen:  # a paper may have two names
            seen.add((document, owner))
            scores[chunk] += relevance[owner]
    return scores
