"""Second stages: the interface :class:`Reranker`, and scores by a function, such as a cross-encoder."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrag_core.errors import RerankerError
from graphrag_core.model import Chunk
from graphrag_core.ports import Keys, Ranking, Scores
from graphrag_core.query.query import Query
from graphrag_core.text import chunk_text, label
from graphrag_core.text.markup import plain

if TYPE_CHECKING:
    from graphrag_core.query.reasons import Choice

Given = Iterable[float | None]
ScoreTexts = Callable[[str, list[str]], Given | Awaitable[Given]]
"""Scores texts for a question: one number for each, higher is better, or None to drop the passage.

A coroutine function is awaited. A function may have a coroutine method ``ascore`` with the same arguments, which is
awaited instead where a question is awaited.
"""

SCORED = 50
"""The passages, at least, that a function scores."""

_LARGEST = float(np.finfo(np.float32).max)


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
    terms, choice
        The terms of the question, and what the hits are explained with; None if the reranker does not say.
    """

    keys: Keys
    scores: Scores
    trust: float = 0.0
    share: float = 0.0
    named: Sequence[int] | None = None
    document: str = ""
    terms: Sequence[str] | None = None
    choice: Choice | None = None


class Reranker(ABC):
    """Orders the passages that plain search and the graph found. A frozen dataclass whose fields are its settings.

    ``has_probabilities`` says that the scores are how likely each passage belongs to the answer.
    """

    has_probabilities: bool = False

    @abstractmethod
    def rerank(self, query: Query, plain: Ranking, graph: Ranking) -> Reranked:
        """Return the chunks of both rankings, each once, best first, and others that belong to them."""

    def rerank_plain(self, query: Query, plain: Ranking) -> Reranked:  # noqa: ARG002 - for subclasses
        """Return the ranking of a query for which the graph was not searched; by default as it is."""
        return Reranked(*plain)


def coroutine_of(score: ScoreTexts) -> Callable[[str, list[str]], Awaitable[Given]] | None:
    """Return the coroutine function of a reranker; None if it is a plain function."""
    ascore: Any = getattr(score, "ascore", None)
    is_coroutine = any(map(inspect.iscoroutinefunction, (score, type(score).__call__)))
    return score if ascore is None and is_coroutine else ascore  # type: ignore[return-value]


def scores_of(score: ScoreTexts, question: str, passages: Sequence[Chunk]) -> list[float | None]:
    """Return the scores of passages for a question."""
    texts = _texts(passages)
    returned: Any = score(question, texts) if texts else ()
    if inspect.isawaitable(returned):
        import asyncio  # noqa: PLC0415 - slow to import

        async def scores() -> Given:
            found: Given = await returned
            return found

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            returned = asyncio.run(scores())
        else:
            if inspect.iscoroutine(returned):
                returned.close()
            raise RerankerError(
                f"{_name(score)} is a coroutine function: on an event loop use asearch, ainvoke or aretrieve"
            )
    return _checked(score, len(texts), returned)


async def awaited_scores(score: ScoreTexts, question: str, passages: Sequence[Chunk]) -> list[float | None]:
    """Async version of :func:`scores_of`."""
    import asyncio  # noqa: PLC0415 - slow to import

    if (ascore := coroutine_of(score)) is None:
        return await asyncio.to_thread(scores_of, score, question, passages)
    texts = _texts(passages)
    return _checked(score, len(texts), await ascore(question, texts) if texts else ())


def by_scores(ranked: Reranked, scores: Sequence[float | None]) -> Reranked:
    """Return a ranking with its first chunks, as many as there are scores, ordered by score.

    Equal scores keep the order. If a passage was dropped, those that were not scored are dropped too: they are worse.
    """
    shown, rest = ranked.keys[: len(scores)], ranked.keys[len(scores) :]
    kept = [place for place, score in enumerate(scores) if score is not None]
    values = np.array([scores[place] for place in kept], np.float64)
    order = np.argsort(-values, kind="stable")
    keys, values = shown[kept][order], values[order]
    if len(kept) == len(shown):  # the others follow below the lowest score
        below = (values[-1] if len(values) else 0.0) - np.arange(1, len(rest) + 1) / (len(rest) + 1)
        keys, values = np.concatenate([keys, rest]), np.concatenate([values, below])
    return replace(ranked, keys=keys, scores=values.astype(np.float32))


def _checked(score: ScoreTexts, count: int, returned: Given) -> list[float | None]:
    """Return the scores of passages, each a number that can be stored, or None."""
    name = _name(score)
    try:
        given = list(returned)
    except TypeError as error:
        raise RerankerError(f"{name} returned {returned!r:.80}: return one score for each text") from error
    if len(given) != count:
        raise RerankerError(f"{name} returned {len(given)} scores for {count} texts: return one for each")
    scores: list[float | None] = []
    for one in given:
        try:
            number = None if one is None else float(one)
        except (TypeError, ValueError, OverflowError):
            number = np.nan
        if number is not None and not abs(number) <= _LARGEST:
            raise RerankerError(f"{name} returned {one!r:.80}: return a finite number, or None to drop the passage")
        scores.append(number)
    return scores


def _name(score: ScoreTexts) -> str:
    return getattr(score, "__qualname__", type(score).__qualname__)


def _texts(passages: Sequence[Chunk]) -> list[str]:
    """Return the texts of passages for a model: title and headings before the text, without markup."""
    return [chunk_text(label(chunk.title, chunk.headings), plain(chunk.text)) for chunk in passages]
