"""``Evidence``: what was seen while a question was answered, as values that need the index no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from graphrag_core.model import Chunk, Entity
from graphrag_core.ports import Keys, Ranking
from graphrag_core.query.plan import Plan
from graphrag_core.query.query import Carried, Expansion
from graphrag_core.query.reasons import Reasons
from graphrag_core.query.rerank import SCORED, Reranked
from graphrag_core.query.settings import ResolvedSettings
from graphrag_core.result import Signal

NO_EXPANSION = Expansion()
NOTHING: Ranking = (np.empty(0, np.int64), np.empty(0, np.float32))


class PlainSearch(NamedTuple):
    """The rankings of vector and keyword search, and their weighted mean.

    ``similarity`` is the score of the first passage: its cosine, or 1 for the best of keyword search in place of
    vectors. ``nearest`` is the largest cosine, also of a passage that ``min_score`` leaves out.
    """

    channels: Mapping[str, Ranking]
    ranking: Ranking
    similarity: float
    nearest: float | None


class GraphSearch(NamedTuple):
    """What the graph found.

    ``why`` says why it did not run. ``ranking`` has the passages of the expansion with strengths from 0 to 1, or with
    the strategy's own scores for the graph method. ``found`` is their number before the gate left weak ones out.
    """

    expansion: Expansion = NO_EXPANSION
    why: str = ""
    confidence: float | None = None
    ran: bool = False
    ranking: Ranking = NOTHING
    found: int = 0


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What was seen while a question was answered.

    Attributes
    ----------
    plan, settings
        The question and its settings.
    plain, graph, ranked
        What the steps of the search returned.
    kept
        The passages that may be shown; None for the first ``k`` of the ranking.
    passages, entities
        By key: the passages that may be shown or scored, and every entity that is named with them.
    named, carried
        The entities that the question names, and after them those of the conversation.
    state
        The generation that the question saw, its token, and what says whether keys are the same.
    unknown_keys
        The keys of the filter that no document has.
    has_vector, has_chunks, has_entities, has_vectors
        Whether the question has a vector; and what the index has, within the scope.
    missing, failed
        What was unavailable, and whether the embedder failed.
    reasons, hits, best_score
        Of the hits: what explains them, their number, and the best score before ``score_threshold``.
    """

    plan: Plan
    settings: ResolvedSettings
    plain: PlainSearch
    graph: GraphSearch
    ranked: Reranked
    kept: Keys | None
    passages: Mapping[int, Chunk]
    entities: Mapping[int, Entity]
    named: Keys
    carried: Carried
    state: tuple[int, str, object]
    unknown_keys: tuple[str, ...]
    has_vector: bool
    has_chunks: bool
    has_entities: bool
    has_vectors: bool
    missing: tuple[str, ...]
    failed: bool
    reasons: Reasons | None = None
    hits: int = 0
    best_score: float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the entities that the question itself names."""
        own = self.named[: len(self.named) - len(self.carried.entities)]
        return tuple(self.entities[key].name for key in own.tolist())

    @property
    def moved(self) -> list[tuple[Signal, ...]]:
        """The signals that moved each hit up."""
        return [()] * self.hits if self.reasons is None else self.reasons.moved()

    @property
    def to_score(self) -> list[Chunk]:
        """The passages that a function has to score."""
        return [self.passages[key] for key in self.ranked.keys[: max(SCORED, self.settings.k)].tolist()]
