"""``Reranker``: the interface of second stages, and the ranking that they return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphrag_core.ports import Keys, Ranking, Scores
from graphrag_core.query.query import Query

if TYPE_CHECKING:
    from graphrag_core.query.reasons import Candidates


@dataclass(frozen=True)
class Reranked:
    """The final ranking of a query.

    Parameters
    ----------
    keys, scores
        All chunks, best first; the scores fall with the rank.
    trust
        How far the graph decided, from 0 to 1; it led from 0.5 on.
    share
        The share of the question that consists of rare names, which decided the trust.
    named
        The positions of these names in :attr:`Query.entities <graphrag_core.query.query.Query.entities>`; None if the
        reranker does not look at names.
    document
        The document that the question names; empty if it names none.
    candidates
        What the hits are explained with; None if nothing is known.
    """

    keys: Keys
    scores: Scores
    trust: float = 0.0
    share: float = 0.0
    named: Sequence[int] | None = None
    document: str = ""
    candidates: Candidates | None = None


class Reranker(ABC):
    """Orders the passages that plain search and the graph found. A frozen dataclass whose fields are its settings.

    ``has_probabilities`` says that the scores are how likely each passage belongs to the answer.
    """

    has_probabilities: bool = False

    @abstractmethod
    def rerank(self, query: Query, plain: Ranking, graph: Ranking) -> Reranked:
        """Return the chunks of both rankings, each once, best first, and others that belong to them."""

    def rerank_plain(self, query: Query, plain: Ranking) -> Ranking:  # noqa: ARG002 - for subclasses
        """Return the ranking of a query for which the graph was not searched; by default as it is."""
        return plain
