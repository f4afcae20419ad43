"""What a strategy stands on: one generation of the index, as far as a scope lets it be seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from graphrag_core.accesses import Accesses
from graphrag_core.derived import Derived
from graphrag_core.embedding import Embedding
from graphrag_core.errors import EmbedderError
from graphrag_core.ports import Keys, Matrix, Scores
from graphrag_core.stores.records import Records
from graphrag_core.stores.view import GraphView

Ranking = tuple[Keys, Scores]
"""Keys and scores, best first."""

VECTOR_SHARE = 0.6
"""How much vectors count where they are blended with keywords."""


@dataclass(frozen=True)
class Ground:
    """A question and what may be seen of the index.

    ``allowed`` are the chunk keys in scope, None for all; ``view`` is the graph of those
    chunks alone. ``vector`` is None when no embedding could be had.
    """

    question: str
    vector: Matrix | None
    derived: Derived
    records: Records
    view: GraphView
    allowed: Keys | None
    entities: Sequence[int] = ()
    embedding: Embedding | None = None
    accesses: Accesses = field(default_factory=Accesses)

    def near(self, kind: str, k: int) -> Ranking:
        """Return the chunks or facts nearest to the question."""
        if self.vector is None:
            return _nothing()
        ((keys, scores),) = self.derived.vectors[kind].search(self.vector[None, :], k, self._allowed(kind))
        return keys, scores

    def near_each(self, texts: Sequence[str], k: int) -> tuple[list[Ranking], str]:
        """Return for each of some texts the chunks nearest to it; all are embedded and searched at once.

        Without an embedding each is searched by its words; if the embedder failed, the second value says so.
        """
        problem = ""
        if texts and self.vector is not None and self.embedding is not None:
            try:
                vectors = self.embedding.documents(texts, ["the question"] * len(texts))
                return self.derived.vectors["chunks"].search(vectors, k, self.allowed), ""
            except EmbedderError as error:
                problem = f"expansion queries were searched by their words: {error}"
        return [self._matching("chunks", text, k) for text in texts], problem

    def matching(self, kind: str, k: int) -> Ranking:
        """Return the chunks or facts that match the question's words."""
        return self._matching(kind, self.question, k)

    def _matching(self, kind: str, text: str, k: int) -> Ranking:
        keys, scores = self.derived.keywords[kind].search(text, k, self._allowed(kind))
        known = among(keys, self.view.chunk_keys if kind == "chunks" else self.view.fact_keys)
        return keys[known], scores[known]

    def blended(self, kind: str, near: Ranking, matching: Ranking) -> Ranking:
        """Return both kinds of search as one ranking, each score as a share of its best."""
        if self.vector is None or len(near[0]) == 0:
            return _ordered(matching[0], _share(matching[1]))
        keys = np.union1d(near[0], matching[0])
        cosine = self.derived.vectors[kind].get(keys) @ self.vector
        words = np.zeros(len(keys), np.float32)
        words[np.searchsorted(keys, matching[0])] = matching[1]
        return _ordered(keys, VECTOR_SHARE * _share(cosine) + (1 - VECTOR_SHARE) * _share(words))

    def best(self, kind: str, ranking: Ranking, count: int) -> Ranking:
        """Return the first of a ranking; ties that ``count`` would cut through are broken by id."""
        keys, scores = ranking
        if len(keys) <= count or scores[count - 1] > scores[count]:
            return keys[:count], scores[:count]
        tied = scores >= scores[count - 1]
        keys, scores = keys[tied], scores[tied]
        if kind == "chunks":
            order = np.lexsort((self.derived.places(keys), -scores))[:count]
        else:
            facts = np.searchsorted(self.view.fact_keys, keys)
            order = np.lexsort((facts, self.derived.places(self.view.chunk_keys[self.view.fact_chunk[facts]]), -scores))
            order = order[:count]
        return keys[order], scores[order]

    def in_order(self, keys: Keys, *criteria: Scores) -> npt.NDArray[np.int64]:
        """Return the order of chunks by some criteria, the highest first; what ties in all goes by id."""
        columns: list[npt.NDArray[Any]] = [self.derived.places(keys), *(-criterion for criterion in reversed(criteria))]
        return np.lexsort(columns)

    def facts_in_order(self, facts: Keys, *criteria: Scores) -> Keys:
        """Return facts (positions) by some criteria, the highest first; ties by chunk id and place there."""
        columns: list[npt.NDArray[Any]] = [
            facts,
            self.derived.places(self.view.chunk_keys[self.view.fact_chunk[facts]]),
        ]
        return facts[np.lexsort([*columns, *(-criterion for criterion in reversed(criteria))])]

    def cosine(self, keys: Keys) -> npt.NDArray[np.float32]:
        """Return the similarity of chunks to the question, 0 when there is no embedding."""
        if self.vector is None or len(keys) == 0:
            return np.zeros(len(keys), np.float32)
        similarity: npt.NDArray[np.float32] = self.derived.vectors["chunks"].get(keys) @ self.vector
        return similarity

    def _allowed(self, kind: str) -> Keys | None:
        if self.allowed is None:
            return None
        return self.allowed if kind == "chunks" else self.view.fact_keys


def among(keys: Keys, ascending: Keys) -> npt.NDArray[np.bool_]:
    """Return which keys are among some others, which must be in ascending order."""
    if len(ascending) == 0:
        return np.zeros(len(keys), np.bool_)
    at = np.searchsorted(ascending, keys)
    there: npt.NDArray[np.bool_] = ascending[np.minimum(at, len(ascending) - 1)] == keys
    return there


def _share(scores: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    positive = np.maximum(scores, 0)
    best = positive.max(initial=0)
    return positive / best if best > 0 else positive


def _ordered(keys: Keys, scores: Scores) -> Ranking:
    order = np.lexsort((keys, -scores))
    return keys[order], scores[order]


def _nothing() -> Ranking:
    return np.empty(0, np.int64), np.empty(0, np.float32)
