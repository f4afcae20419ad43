"""``Evidence``: what was seen while a question was answered, as values that need the index no more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from graphrag_core.model import Chunk, Entity
from graphrag_core.ports import Keys, Ranking
from graphrag_core.query.plan import Plan
from graphrag_core.query.query import Carried, Expansion
from graphrag_core.query.reasons import Reasons
from graphrag_core.query.rerank import SCORED, Reranked
from graphrag_core.query.settings import ResolvedSettings
from graphrag_core.result import Signal

NOTHING: Ranking = (np.empty(0, np.int64), np.empty(0, np.float32))


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What was seen while a question was answered. Each step of a search returns it with what it found.

    Attributes
    ----------
    plan
        The question and its settings.
    missing, failed
        What was unavailable, and whether the embedder failed.
    channels, plain
        The rankings of vector and keyword search by name, and their weighted mean.
    similarity, nearest
        The score of the first passage of plain search, its cosine, or 1 for the best of keyword search in place of
        vectors; and the largest cosine, also of a passage that ``min_score`` leaves out.
    graph_ran, skipped, confidence
        Whether the graph was searched, why it was not, and how far it can be trusted, if the gate asks for that.
    expansion, graph, found
        What the strategy found; the passages of it with strengths from 0 to 1, or with the strategy's own scores for
        the graph method; and their number before the gate left weak ones out.
    ranked, kept
        The ranking, and the passages that may be shown; None for the first ``k`` of the ranking.
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
    reasons, hits, best_score
        Of the hits: what explains them, their number, and the best score before ``score_threshold``.
    """

    plan: Plan
    missing: tuple[str, ...] = ()
    failed: bool = False
    channels: Mapping[str, Ranking] = field(default_factory=dict)
    plain: Ranking = NOTHING
    similarity: float = 0.0
    nearest: float | None = None
    graph_ran: bool = False
    skipped: str = ""
    confidence: float | None = None
    expansion: Expansion = field(default_factory=Expansion)
    graph: Ranking = NOTHING
    found: int = 0
    ranked: Reranked = field(default_factory=lambda: Reranked(*NOTHING))
    kept: Keys | None = None
    passages: Mapping[int, Chunk] = field(default_factory=dict)
    entities: Mapping[int, Entity] = field(default_factory=dict)
    named: Keys = field(default_factory=NOTHING[0].copy)
    carried: Carried = field(default_factory=Carried)
    state: tuple[int, str, object] = (0, "", None)
    unknown_keys: tuple[str, ...] = ()
    has_vector: bool = False
    has_chunks: bool = False
    has_entities: bool = False
    has_vectors: bool = False
    reasons: Reasons | None = None
    hits: int = 0
    best_score: float | None = None

    @property
    def settings(self) -> ResolvedSettings:
        """The settings of the question."""
        return self.plan.settings

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
