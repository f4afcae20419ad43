"""``ScoreReranker``: lets a function, such as a cross-encoder, score the best passages and order them by score."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from graphrag_core.errors import InputError, RerankerError, check_integer
from graphrag_core.model import Chunk
from graphrag_core.ports import Keys, Ranking
from graphrag_core.query.linear import Linear
from graphrag_core.query.query import Query
from graphrag_core.query.requests import Request
from graphrag_core.query.reranker import Reranked, Reranker

PassageScores = Callable[[str, Sequence[Chunk]], Iterable[float | None]]
"""Scores passages for a question: one number for each, higher is better, or None to drop the passage."""


_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class ScoreReranker(Reranker):
    """Orders the best passages of another reranker by the scores of a function.

    The score of a hit is the function's score. Passages with equal scores keep their order. If the function drops a
    passage, the passages that it has not seen are dropped too, as they are worse. What the other reranker explains
    (its trust in the graph, links) is kept. Without the graph (``use_graph=False``, or because of the gate) the best
    passages of plain search are scored.

    Results are cached if the function can be hashed: it must return the same scores for the same passages. An
    exception that it raises is not caught.

    Parameters
    ----------
    score
        Takes the question and a list of :class:`~graphrag_core.Chunk`, best first, without copies. Returns one number
        for each, higher is better, or None to drop the passage. If it has a coroutine method ``ascore`` with the same
        arguments, the async methods of the adapters await that.
    passages
        How many passages are scored, and at least as many as the query returns. Up to this number, a larger ``k``
        adds hits and leaves the first ones as they are.
    first
        Orders the passages before; :class:`~graphrag_core.strategies.Linear` by default.

    Raises
    ------
    RerankerError
        In a query: the function did not return one finite number or None for each passage.

    Examples
    --------
    >>> from graphrag_core import Document, GraphRetriever, KnowledgeIndex
    >>> from graphrag_core.testing import HashEmbedder
    >>> index = KnowledgeIndex(HashEmbedder())
    >>> _ = index.add([Document("a", "Ada Lovelace wrote notes."), Document("b", "Ada Lovelace wrote.")])
    >>> shortest = ScoreReranker(lambda question, chunks: [-len(chunk.text) for chunk in chunks])
    >>> [(hit.chunk.id, hit.score) for hit in GraphRetriever(index, reranker=shortest).retrieve("Ada Lovelace")]
    [('b', -19.0), ('a', -25.0)]
    """

    score: PassageScores
    passages: int = 20
    first: Reranker = field(default_factory=Linear)

    def __post_init__(self) -> None:
        if isinstance(self.score, type) or not callable(self.score):
            raise InputError(f"{self.score!r} cannot score passages: pass a function score(question, chunks)")
        check_integer(self.passages, "passages")
        if not isinstance(self.first, Reranker):
            raise InputError(f"{self.first!r} is not a reranker: first needs an object of a subclass of Reranker")

    def rerank(self, query: Query, plain: Ranking, graph: Ranking) -> Reranked:
        """Return the ranking of the first reranker with its best passages ordered by score."""
        ranked = self.first.rerank(query, plain, graph)
        shown, request = self.candidates(query, ranked)
        return self.order(ranked, shown, request.run())

    def candidates(self, query: Query, ranked: Reranked) -> tuple[Keys, Request]:
        """Return the best chunks of a ranking without copies, and the request for their scores."""
        (shown, _), _ = query.without_copies((ranked.keys, ranked.scores), max(self.passages, query.settings.k))
        chunks = query.snapshot.chunks(shown)
        ascore: Any = getattr(self.score, "ascore", None)

        def run() -> list[float | None]:
            return self._checked(chunks, self.score(query.text, chunks) if chunks else ())

        async def arun() -> list[float | None]:
            return self._checked(chunks, await ascore(query.text, chunks) if chunks else ())

        key = id(self), tuple((chunk.id, chunk.text) for chunk in chunks)
        return shown, Request(run, arun if ascore is not None else None, key)

    def order(self, ranked: Reranked, shown: Keys, scores: Sequence[float | None]) -> Reranked:
        """Return a ranking with the chunks that were scored first, ordered by score."""
        kept = [place for place, score in enumerate(scores) if score is not None]
        values = np.array([scores[place] for place in kept], np.float64)
        order = np.argsort(-values, kind="stable")
        keys, values = shown[kept][order], values[order]
        if len(kept) == len(shown):
            rest = ranked.keys[~np.isin(ranked.keys, shown)]  # below the lowest score
            below = (values[-1] if len(values) else 0.0) - np.arange(1, len(rest) + 1) / (len(rest) + 1)
            keys, values = np.concatenate([keys, rest]), np.concatenate([values, below])
        return replace(ranked, keys=keys, scores=values.astype(np.float32))

    def _checked(self, chunks: list[Chunk], returned: Iterable[float | None]) -> list[float | None]:
        """Return the scores of chunks, each a number that can be stored, or None."""
        name = getattr(self.score, "__qualname__", type(self.score).__qualname__)
        try:
            scores = list(returned)
        except TypeError as error:
            raise RerankerError(f"{name} returned {returned!r:.80}: return one score for each passage") from error
        if len(scores) != len(chunks):
            raise RerankerError(f"{name} returned {len(scores)} scores for {len(chunks)} passages: return one for each")
        checked: list[float | None] = []
        for chunk, value in zip(chunks, scores, strict=True):
            try:
                number = None if value is None else float(value)
            except (TypeError, ValueError, OverflowError):
                number = np.nan
            if number is not None and not abs(number) <= _LARGEST:
                raise RerankerError(
                    f"{name} returned {value!r:.80} for {chunk.id!r}: return a finite number, or None to drop the "
                    "passage"
                )
            checked.append(number)
        return checked
