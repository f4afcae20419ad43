"""Rerankers of frameworks return passages instead of scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from graphrag_core.errors import RerankerError

Scores = list[float | None]


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
