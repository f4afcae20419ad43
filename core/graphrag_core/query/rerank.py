"""``ScoreReranker``: lets a function, such as a cross-encoder, score the best passages and orders them by score."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from graphrag_core.errors import RerankerError
from graphrag_core.model import Chunk
from graphrag_core.ports import Ranking
from graphrag_core.query.linear import Linear
from graphrag_core.query.query import Query
from graphrag_core.query.reranker import Reranked, Reranker
from graphrag_core.text import chunk_text, label
from graphrag_core.text.markup import plain

Scores = Iterable[float | None]
ScoreTexts = Callable[[str, list[str]], Scores | Awaitable[Scores]]
"""Scores texts for a question: one number for each, higher is better, or None to drop the passage."""

_SCORED = 50  # passages, at least
_LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class ScoreReranker(Reranker):
    """Orders the best passages of another reranker by the scores of a function, which become the scores of the hits.

    Passages with equal scores keep their order. If the function drops a passage, the passages that it has not seen are
    dropped too, as they are worse. What the other reranker explains (its trust in the graph, links) is kept.

    Parameters
    ----------
    score
        The function, or a coroutine function. It may have a coroutine method ``ascore`` with the same arguments,
        which is awaited instead where a question is awaited.
    first
        Orders the passages before; :class:`~graphrag_core.strategies.Linear` by default.

    Raises
    ------
    RerankerError
        In a query: the function did not return one finite number or None for each passage.
    """

    score: ScoreTexts
    first: Reranker = field(default_factory=Linear)

    @staticmethod
    def depth(k: int) -> int:
        """Return how many passages are scored for a result of ``k``."""
        return max(_SCORED, k)

    @property
    def is_awaited(self) -> bool:
        """Whether :meth:`awaited_scores` awaits a coroutine."""
        return self._coroutine() is not None

    def rerank(self, query: Query, plain: Ranking, graph: Ranking) -> Reranked:
        """Return the ranking of the first reranker with its best passages ordered by score."""
        ranked = self.first.rerank(query, plain, graph)
        first = ranked.keys[: self.depth(query.k)]
        return self.order(ranked, self.scores(query.text, query.snapshot.chunks(first)))

    def scores(self, question: str, passages: Sequence[Chunk]) -> list[float | None]:
        """Return the scores of passages for a question."""
        texts = _texts(passages)
        returned: Any = self.score(question, texts) if texts else ()
        return self._checked(len(texts), self._run(returned) if inspect.isawaitable(returned) else returned)

    async def awaited_scores(self, question: str, passages: Sequence[Chunk]) -> list[float | None]:
        """Return what :meth:`scores` does; a coroutine function is awaited on the event loop."""
        import asyncio  # noqa: PLC0415 - slow to import

        if (ascore := self._coroutine()) is None:
            return await asyncio.to_thread(self.scores, question, passages)
        texts = _texts(passages)
        return self._checked(len(texts), await ascore(question, texts) if texts else ())

    def _coroutine(self) -> Callable[[str, list[str]], Awaitable[Scores]] | None:
        """Return what can be awaited for scores; None for a plain function."""
        ascore: Any = getattr(self.score, "ascore", None)
        is_coroutine = any(map(inspect.iscoroutinefunction, (self.score, type(self.score).__call__)))
        return self.score if ascore is None and is_coroutine else ascore  # type: ignore[return-value]

    def _run(self, returned: Awaitable[Scores]) -> Scores:
        """Return the scores of a coroutine function in a question that is not awaited."""
        import asyncio  # noqa: PLC0415 - slow to import

        async def scores() -> Scores:
            return await returned

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(scores())
        if inspect.iscoroutine(returned):
            returned.close()
        raise RerankerError(f"{self._name} is a coroutine function: on an event loop use asearch, ainvoke or aretrieve")

    def order(self, ranked: Reranked, scores: Sequence[float | None]) -> Reranked:
        """Return a ranking with its first chunks, as many as there are scores, ordered by score."""
        shown, rest = ranked.keys[: len(scores)], ranked.keys[len(scores) :]
        kept = [place for place, score in enumerate(scores) if score is not None]
        values = np.array([scores[place] for place in kept], np.float64)
        order = np.argsort(-values, kind="stable")
        keys, values = shown[kept][order], values[order]
        if len(kept) == len(shown):  # the others follow below the lowest score
            below = (values[-1] if len(values) else 0.0) - np.arange(1, len(rest) + 1) / (len(rest) + 1)
            keys, values = np.concatenate([keys, rest]), np.concatenate([values, below])
        return replace(ranked, keys=keys, scores=values.astype(np.float32))

    @property
    def _name(self) -> str:
        return getattr(self.score, "__qualname__", type(self.score).__qualname__)

    def _checked(self, count: int, returned: Scores) -> list[float | None]:
        """Return the scores of passages, each a number that can be stored, or None."""
        try:
            scores = list(returned)
        except TypeError as error:
            raise RerankerError(f"{self._name} returned {returned!r:.80}: return one score for each text") from error
        if len(scores) != count:
            raise RerankerError(f"{self._name} returned {len(scores)} scores for {count} texts: return one for each")
        return [None if score is None else self._number(score) for score in scores]

    def _number(self, score: Any) -> float:
        try:
            number = float(score)
        except (TypeError, ValueError, OverflowError):
            number = np.nan
        if not abs(number) <= _LARGEST:
            raise RerankerError(
                f"{self._name} returned {score!r:.80}: return a finite number, or None to drop the passage"
            )
        return number


def _texts(passages: Sequence[Chunk]) -> list[str]:
    """Return the texts of passages for a model: title and headings before the text, without markup."""
    return [chunk_text(label(chunk.title, chunk.headings), plain(chunk.text)) for chunk in passages]
