"""Rerankers of frameworks: they return passages instead of scores, and some have to be awaited.

A query runs in a thread and cannot await anything. :func:`search_awaiting` lets it stop where it needs scores, awaits
them on the event loop, and runs it again with them. No thread waits for the event loop, so any number of queries can
run at once, and no snapshot of the index stays open meanwhile.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np

from graphrag_core.errors import RerankerError
from graphrag_core.model import Chunk

Scores = list[float | None]
_T = TypeVar("_T")
_awaited: ContextVar[dict[Hashable, Scores] | None] = ContextVar("awaited", default=None)  # None: cannot await


class _MissingScores(Exception):
    """Raised inside of a query in a thread: the event loop has to compute these scores first."""

    def __init__(self, key: Hashable, compute: Callable[[], Awaitable[Scores]]) -> None:
        super().__init__("the scores have to be awaited")
        self.key = key
        self.compute = compute


def search_now(search: Callable[[], _T]) -> _T:
    """Run a search whose reranker must not be awaited."""
    token = _awaited.set(None)
    try:
        return search()
    finally:
        _awaited.reset(token)


async def search_awaiting(search: Callable[[], Awaitable[_T]]) -> _T:
    """Run a search in a thread whose reranker may have to be awaited. ``search`` must keep context variables."""
    awaited: dict[Hashable, Scores] = {}
    token = _awaited.set(awaited)
    try:
        while True:
            try:
                return await search()
            except _MissingScores as scores:
                missing = scores
            awaited[missing.key] = await missing.compute()
    finally:
        _awaited.reset(token)


def run_reranker(
    reranker: object,
    question: str,
    chunks: Sequence[Chunk],
    run: Callable[[], _T],
    arun: Callable[[], Awaitable[_T]] | None,
    scores: Callable[[_T], Scores],
) -> Scores:
    """Return the scores of what a reranker returns. Inside :func:`search_awaiting` its coroutine is awaited.

    Parameters
    ----------
    reranker, question, chunks
        What is run, and on what.
    run, arun
        Run it now, and on the event loop; None if it has no coroutine of its own.
    scores
        Returns the scores of what it returns.
    """
    awaited = _awaited.get()
    if arun is None or awaited is None:
        return scores(run())
    key = (id(reranker), question, tuple((chunk.id, chunk.text) for chunk in chunks))
    if key not in awaited:

        async def compute() -> Scores:
            return scores(await arun())

        raise _MissingScores(key, compute)
    return awaited[key]


class Returned(NamedTuple):
    """A passage that a reranker returned, with the reranker's own score if there is one."""

    id: str
    text: str
    score: float | None


def scores_of_returned(
    returned: Iterable[Returned], texts: Mapping[str, str], reranker: object, instead: str
) -> Scores:
    """Return scores that put passages into the order in which a reranker returned them, and drop the others.

    They are the reranker's own scores if none is higher than the one before; otherwise 1 / rank.

    Parameters
    ----------
    returned
        What the reranker returned.
    texts
        The texts of the passages that it was given, by id.
    reranker
        For the error message.
    instead
        What to do with a reranker that changes passages.

    Raises
    ------
    RerankerError
        A passage was not among those given, or its text was changed.
    """
    places = {name: place for place, name in enumerate(texts)}
    given: dict[int, float | None] = {}  # a passage that is returned again is ignored
    for name, text, score in returned:
        if texts.get(name) != text:
            problem = f"changed the text of {name!r}" if name in texts else "returned a passage that it was not given"
            raise RerankerError(
                f"{type(reranker).__qualname__} {problem}: a reranker may only order and drop passages. {instead}"
            )
        given.setdefault(places[name], score)
    values = [score for score in given.values() if score is not None and np.isfinite(score)]
    if len(values) < len(given) or any(one < other for one, other in pairwise(values)):
        values = [1 / rank for rank in range(1, len(given) + 1)]
    scores: Scores = [None] * len(texts)
    below = np.inf
    for place, value in zip(given, values, strict=True):
        below = min(float(value), float(np.nextafter(below, -np.inf)))  # equal scores would not keep the order
        scores[place] = below
    return scores
