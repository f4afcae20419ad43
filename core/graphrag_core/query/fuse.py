"""Rankings into one. Fusions are pure, keyed by chunk, and never lose what plain search found.

The keys that a fusion is given stand in the order of the chunks' ids, so that breaking ties
by key breaks them by id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

import numpy as np

from graphrag_core.ports import Keys
from graphrag_core.query.ground import Ranking

Lead = Literal["graph", "both", "plain"]
"""Which ranking the gate trusts: the graph's; plain search's best, then the graph's; plain search's."""


@dataclass(frozen=True, kw_only=True)
class Anchored:
    """The graph's ranking leads where it can be trusted; else plain search's first ones stay on top.

    Parameters
    ----------
    anchors
        How many of plain search's best stay on top when the graph does not lead but may add.
    """

    anchors: int = 3

    heeds_lead: ClassVar[bool] = True

    def fuse(self, plain: Ranking, graph: Ranking, *, lead: Lead) -> Ranking:
        """Return all chunks of both rankings, each once, best first; the score is 1 / rank."""
        pinned = plain[0][: {"graph": 0, "both": self.anchors, "plain": len(plain[0])}[lead]]
        keys = _first_come(pinned, graph[0], plain[0])
        return keys, (1 / np.arange(1, len(keys) + 1)).astype(np.float32)


@dataclass(frozen=True, kw_only=True)
class Weighted:
    """alpha · plain score + beta · graph score, both from 0 to 1; a chunk that one lacks counts 0 there.

    >>> round(Weighted().score(0.9, 0.5), 2)
    0.78
    """

    alpha: float = 0.7
    beta: float = 0.3

    def score(self, plain: float, graph: float) -> float:
        """Return the score of a chunk by its two scores."""
        return self.alpha * plain + self.beta * graph

    def fuse(self, plain: Ranking, graph: Ranking, *, lead: Lead) -> Ranking:  # noqa: ARG002
        """Return all chunks of both rankings, each once, best first, with their scores."""
        scores = [dict(zip(keys.tolist(), values.tolist(), strict=True)) for keys, values in (plain, graph)]
        return _sorted({key: self.score(*(part.get(key, 0.0) for part in scores)) for key in scores[0] | scores[1]})


@dataclass(frozen=True, kw_only=True)
class ReciprocalRank:
    """The sum of weight / (k + rank) over the rankings, ranks counted from 1.

    >>> fusion = ReciprocalRank(plain_weight=0.5, graph_weight=0.5)
    >>> round(fusion.score(1, 3), 4)
    0.0161
    """

    k: float = 60.0
    plain_weight: float = 1.0
    graph_weight: float = 1.0

    def score(self, plain_rank: int | None, graph_rank: int | None) -> float:
        """Return the score of a chunk by its ranks, None where it has none."""
        pairs = ((self.plain_weight, plain_rank), (self.graph_weight, graph_rank))
        return sum(weight / (self.k + rank) for weight, rank in pairs if rank is not None)

    def fuse(self, plain: Ranking, graph: Ranking, *, lead: Lead) -> Ranking:  # noqa: ARG002
        """Return all chunks of both rankings, each once, best first, with their scores."""
        ranks = [{int(key): rank for rank, key in enumerate(keys, 1)} for keys, _ in (plain, graph)]
        scores = {key: self.score(ranks[0].get(key), ranks[1].get(key)) for key in ranks[0].keys() | ranks[1].keys()}
        return _sorted(scores)


class Fusion(Protocol):
    """How two rankings become one.

    ``lead`` is the gate's word on which to trust; a fusion that heeds it says so in a class
    attribute ``heeds_lead``.
    """

    def fuse(self, plain: Ranking, graph: Ranking, *, lead: Lead) -> Ranking:
        """Return all chunks of both rankings, each once, best first.

        Plain scores lie between 0 and 1, graph scores too.
        """


def _first_come(*rankings: Keys) -> Keys:
    merged = np.concatenate(rankings)
    _, first = np.unique(merged, return_index=True)
    return merged[np.sort(first)]


def _sorted(scores: Mapping[int, float]) -> Ranking:
    keys = sorted(scores, key=lambda key: (-scores[key], key))
    return np.array(keys, np.int64), np.array([scores[key] for key in keys], np.float32)
