"""When the graph is trusted (``Gate``), and how its ranking and that of plain search become one (fusions)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np

from graphrag_core.ports import Ranking

Lead = Literal["graph", "both", "plain"]
"""Which ranking leads: the graph's; plain search's first few, then the graph's; plain search's."""


class Fusion(Protocol):
    """Joins two rankings.

    ``lead`` is the gate's decision. A fusion that uses it says so with a class attribute
    ``heeds_lead = True``.
    """

    def fuse(self, plain: Ranking, graph: Ranking, *, lead: Lead) -> Ranking:
        """Return all chunks of both rankings, each once, with scores that fall with the rank.

        The scores of both rankings lie between 0 and 1. Ties need no care: the pipeline breaks
        them by id.
        """


@dataclass(frozen=True, kw_only=True)
class Anchored:
    """The graph's ranking leads where it can be trusted; otherwise plain search's first results stay on top.

    Parameters
    ----------
    anchors
        How many of plain search's best results stay on top if the graph does not lead.
    """

    anchors: int = 3

    heeds_lead: ClassVar[bool] = True

    def fuse(self, plain: Ranking, graph: Ranking, *, lead: Lead) -> Ranking:
        """Return all chunks of both rankings, each once, best first; the score is 1 / rank."""
        pinned = plain[0][: {"graph": 0, "both": self.anchors, "plain": len(plain[0])}[lead]]
        merged = np.concatenate([pinned, graph[0], plain[0]])
        _, first = np.unique(merged, return_index=True)
        keys = merged[np.sort(first)]
        return keys, (1 / np.arange(1, len(keys) + 1)).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class Weighted:
    """alpha · plain score + beta · graph score, both from 0 to 1; 0 for a chunk that a ranking lacks.

    >>> round(Weighted().score(0.9, 0.5), 2)
    0.78
    """

    alpha: float = 0.7
    beta: float = 0.3

    def score(self, plain: float, graph: float) -> float:
        """Return the score of a chunk by its two scores."""
        return self.alpha * plain + self.beta * graph

    def fuse(self, plain: Ranking, graph: Ranking, *, lead: Lead) -> Ranking:  # noqa: ARG002
        """Return all chunks of both rankings, each once, best first."""
        scores = [dict(zip(keys.tolist(), values.tolist(), strict=True)) for keys, values in (plain, graph)]
        return _ranking({key: self.score(*(part.get(key, 0.0) for part in scores)) for key in scores[0] | scores[1]})


@dataclass(frozen=True, kw_only=True)
class ReciprocalRank:
    """Reciprocal rank fusion: the sum of weight / (k + rank) over both rankings, ranks counted from 1.

    >>> fusion = ReciprocalRank(plain_weight=0.5, graph_weight=0.5)
    >>> round(fusion.score(1, 3), 4)
    0.0161

    References
    ----------
    G. V. Cormack, C. L. A. Clarke, S. Büttcher: Reciprocal Rank Fusion outperforms Condorcet (2009).
    """

    k: float = 60.0
    plain_weight: float = 1.0
    graph_weight: float = 1.0

    def score(self, plain_rank: int | None, graph_rank: int | None) -> float:
        """Return the score of a chunk by its ranks, None where it has none."""
        pairs = ((self.plain_weight, plain_rank), (self.graph_weight, graph_rank))
        return sum(weight / (self.k + rank) for weight, rank in pairs if rank is not None)

    def fuse(self, plain: Ranking, graph: Ranking, *, lead: Lead) -> Ranking:  # noqa: ARG002
        """Return all chunks of both rankings, each once, best first."""
        ranks = [{int(key): rank for rank, key in enumerate(keys, 1)} for keys, _ in (plain, graph)]
        return _ranking({key: self.score(ranks[0].get(key), ranks[1].get(key)) for key in ranks[0] | ranks[1]})


def _ranking(scores: Mapping[int, float]) -> Ranking:
    keys = sorted(scores, key=lambda key: (-scores[key], key))
    return np.array(keys, np.int64), np.array([scores[key] for key in keys], np.float32)


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Decides whether the graph runs, whether it leads, and how weak its passages may be.

    By default it only changes the order: as many passages are returned as were requested.

    Parameters
    ----------
    min_confidence
        The graph does not run below this confidence. 0 always lets it run; :meth:`strict` uses 0.5.
    min_graph_score
        Passages that the graph finds with a lower strength (0 to 1) are left to plain search;
        :meth:`strict` uses 0.3. A strategy's own threshold applies as well.
    needs_entity
        True skips the graph if the question names no known entity.
    least_bridged
        The share of passages that must mention the subject of another passage for the graph to
        add to the first results where it does not lead. Where titles are not mentioned elsewhere,
        as in abstracts of papers, there are no links to follow.
    """

    min_confidence: float = 0.0
    min_graph_score: float = 0.0
    needs_entity: bool = False
    least_bridged: float = 0.1

    @classmethod
    def strict(cls) -> Gate:
        """Return a gate that prefers to skip the graph rather than to add noise."""
        return cls(min_confidence=0.5, min_graph_score=0.3, needs_entity=True)

    def skipped(self, confidence: float, entities: int) -> str:
        """Return why the graph must not run; empty if it may."""
        if confidence < self.min_confidence:
            return f"the graph was skipped: confidence {confidence:.2f} is below {self.min_confidence:.2f}"
        if self.needs_entity and not entities:
            return "the graph was skipped: the question names no known entity"
        return ""

    def lead(self, *, names_subject: bool, bridged: float) -> tuple[Lead, str]:
        """Return which ranking leads, and why if it is not the graph's."""
        if names_subject:
            return "graph", ""
        if bridged >= self.least_bridged:
            return "both", "plain search leads: the question does not name the subject of any passage"
        return "plain", "plain search leads: hardly any passage mentions the subject of another"


def confidence(question: str, entities: int, best_similarity: float) -> float:
    """Return 0.3 · specificity + 0.3 · recognition + 0.4 · similarity of the best vector hit.

    Specificity is the length in characters divided by 100, at most 1. Recognition is 1 if the
    question names an entity, otherwise 0.5.

    >>> round(confidence("x" * 50, 1, 0.8), 2)
    0.77
    """
    specificity = min(len(question) / 100, 1.0)
    recognition = 1.0 if entities else 0.5
    return 0.3 * specificity + 0.3 * recognition + 0.4 * max(0.0, min(best_similarity, 1.0))
