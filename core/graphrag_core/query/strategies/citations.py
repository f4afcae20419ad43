"""Passages of the concepts that a question names, and what these passages cite."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from graphrag_core.deadline import check_deadline
from graphrag_core.errors import check_integer
from graphrag_core.ports import Keys, Ranking, Snapshot
from graphrag_core.query.fusion import ReciprocalRank
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.strategies.strategy import GraphStrategy

_SUBJECT = 5.0  # edges of this weight and more lead from an entity to passages about it
_MAX_FACTS = 30
_MAX_CITATIONS = 1_000  # of a paper


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
        facts: list[int] = []
        edges = snapshot.mentions(np.array(list(relevance), np.int64))
        papers = np.unique(edges.targets[edges.is_about])
        visited = set(papers.tolist())
        for hop in range(2, self.depth + 1):
            cited = list(_citations(snapshot, papers, self.relations))
            for fact, _, passages in cited:
                facts.append(fact)
                for chunk in passages:
                    relevance[chunk] += 0.5 ** (hop - 1)
            papers = np.array(sorted({paper for _, paper, _ in cited} - visited), np.int64)
            visited.update(papers.tolist())
        chunks, scores = query.best_first(relevance)
        chunks, scores = chunks[:k], scores[:k]
        return Expansion(chunks, scores, scores / scores.max(initial=1), np.array(facts[:_MAX_FACTS], np.int64))


def _citations(snapshot: Snapshot, papers: Keys, relations: tuple[str, ...]) -> Iterator[tuple[int, int, list[int]]]:
    """Yield each citation of some papers: the fact, the paper that it leads to, and the passages about that one."""
    pairs: dict[tuple[int, int], int] = {}  # however often a paper says that it cites another, it counts once
    for citing in papers.tolist():
        check_deadline()
        outgoing = snapshot.outgoing_facts(citing, _MAX_CITATIONS)[0]
        either = snapshot.facts_of(np.array([citing], np.int64), relations=relations)
        rows = snapshot.fact_rows(np.intersect1d(outgoing, either))
        facts = np.repeat(rows.keys, rows.counts)
        for fact, other in zip(facts.tolist(), rows.entities.tolist(), strict=True):
            if other != citing:
                pairs.setdefault((citing, other), fact)
    targets = np.array(sorted({other for _, other in pairs}), np.int64)
    edges = snapshot.neighbours(targets, to="chunks")
    about: dict[int, list[int]] = {target: [] for target in targets.tolist()}
    owners = np.repeat(targets, edges.counts).tolist()
    for target, chunk, weight in zip(owners, edges.targets.tolist(), edges.weights.tolist(), strict=True):
        if weight >= _SUBJECT:
            about[target].append(chunk)
    yield from ((fact, other, about[other]) for (_, other), fact in pairs.items())
