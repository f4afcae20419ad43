"""What every graph strategy returns, and what it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

import numpy as np

from graphrag_core.ports import Keys, Scores
from graphrag_core.query.fuse import Fusion
from graphrag_core.query.ground import Ground, Ranking


def _no_keys() -> Keys:
    return np.empty(0, np.int64)


@dataclass(frozen=True)
class Expansion:
    """What a strategy brought from the graph.

    Parameters
    ----------
    keys, scores
        Chunks and the strategy's own scores, best first. Where scores tie, this order stands:
        :meth:`Ground.in_order <graphrag_core.query.ground.Ground.in_order>` breaks ties by id.
    strength
        The same scores as numbers from 0 to 1, which thresholds and weighted fusion use.
        Left out, a score counts as its share of the range of all of them.
    facts
        Keys of the facts that were followed, the most telling first.
    queries
        By chunk, the query that found it, where a strategy searches with queries of its own.
    remark
        What had to be done without, in words.
    """

    keys: Keys = field(default_factory=_no_keys)
    scores: Scores = field(default_factory=lambda: np.empty(0, np.float32))
    strength: Scores | None = None
    facts: Keys = field(default_factory=_no_keys)
    queries: Mapping[int, str] = field(default_factory=dict)
    remark: str = ""

    @property
    def ranking(self) -> Ranking:
        """Chunks with the strategy's scores."""
        return self.keys, self.scores

    @property
    def strengths(self) -> Scores:
        """A number from 0 to 1 for each chunk."""
        return _range_share(self.scores) if self.strength is None else self.strength

    def at_least(self, strength: float) -> Expansion:
        """Return the same without the chunks that are weaker."""
        strong = self.strengths >= strength
        return replace(self, keys=self.keys[strong], scores=self.scores[strong], strength=self.strengths[strong])


class GraphStrategy(Protocol):
    """How the graph is walked: a frozen dataclass whose fields are its settings.

    ``fusion`` is what its ranking is joined to plain search's with when the retriever was
    given none.
    """

    fusion: ClassVar[Fusion]

    def expand(self, ground: Ground, plain: Ranking, k: int) -> Expansion:
        """Return the chunks that the graph leads to from a question; nothing for an empty graph.

        ``plain`` is what vectors and keywords found, ``k`` how many chunks are wanted at
        least where there are as many.
        """


def _range_share(scores: Scores) -> Scores:
    if len(scores) == 0:
        return scores
    low, high = scores.min(), scores.max()
    return (scores - low) / (high - low) if high > low else np.ones_like(scores)
