"""The score of a hit of the hybrid method: how likely the passage belongs to the answer, from 0 to 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from graphrag_core.key_sets import among
from graphrag_core.ports import Keys, Scores
from graphrag_core.query.query import Query, word_weights
from graphrag_core.text import FUNCTION
from graphrag_core.text.words import WORD_OR_IDENTIFIER

Signals = npt.NDArray[np.float64]
"""One row for each hit, one column for each field of :class:`Calibration`."""

_BACKGROUND = 1000  # passages added to the count when words are weighed: in a small index all words are rare
_TOGETHER = 5  # the passages that are looked at together, whatever k is
HIGHEST = 0.87
"""The highest probability: of passages that have all words of a question, some are not right."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Logistic regression from what is known about a hit to the probability that it belongs to the answer.

    The probability is at most 0.87. It does not depend on ``k``, nor on the embedding model, whose similarities mean
    something else for each model. It never rises with the rank. The defaults were fitted by ``make bench-calibration``
    on questions of which a part has no answer in the index; :func:`graphrag_apps.compare.fit_calibration` fits them
    to others.

    Parameters
    ----------
    base
        The constant.
    rank
        The logarithm of the rank, counted from 1.
    words
        The share of the question's words in the passage. Rare words weigh more, function words nothing.
    new_words
        The same, of words that no better passage has.
    together
        The same, in the first five passages together.
    missing_names
        The share of the words that are names, in capitals or capitalised, and in none of the first five passages.
    trust
        How far the graph decided the order (:attr:`Reranked.trust <graphrag_core.strategies.Reranked>`).
    link
        Whether the passage is linked to a better one (:attr:`Hit.link <graphrag_core.Hit>`).
    without_graph
        Whether the graph was not searched: there is no trust or link then.
    """

    base: float = -4.25
    rank: float = -1.05
    words: float = 2.15
    new_words: float = 4.0
    together: float = 1.15
    missing_names: float = -3.7
    trust: float = 1.4
    link: float = 0.8
    without_graph: float = 0.9

    def scores(self, signals: Signals) -> Scores:
        """Return a probability for each hit; each is lower than the one before."""
        if len(signals) == 0:
            return np.empty(0, np.float32)
        weights = np.array([getattr(self, name) for name in _FIELDS])
        probability = HIGHEST / (1 + np.exp(-signals @ weights))
        falling: Scores = np.minimum.accumulate(probability).astype(np.float32)
        return falling * (1 - np.float32(1e-6) * np.arange(len(signals), dtype=np.float32))


_FIELDS = tuple(field.name for field in fields(Calibration))


def signals_of(
    query: Query,
    ranking: Keys,
    shown: Keys,
    *,
    trust: float | None,
    linked: Sequence[bool],
) -> Signals:
    """Return what is known about the chunks shown, which are the best of a ranking without copies.

    ``trust`` is None if the graph was not searched.
    """
    first = ranking[:_TOGETHER]
    first_word, *others = WORD_OR_IDENTIFIER.findall(query.text) or [""]
    words = [word for word in (first_word, *others) if word.lower() not in FUNCTION]
    terms = query.snapshot.terms(" ".join(words) or query.text)
    weights = word_weights(query.snapshot.term_counts(terms).clip(1), query.snapshot.statistics_count + _BACKGROUND)
    further = [key for key in first.tolist() if key not in shown]  # copies of passages that are shown
    found = query.snapshot.terms_in("chunks", np.concatenate([shown, np.array(further, np.int64)]), terms)
    own, in_first = found[: len(shown)], found[among(np.append(shown, further), np.sort(first))].any(axis=0)
    new = own.copy()
    new[1:] &= ~np.logical_or.accumulate(own, axis=0)[:-1]
    names = {term for word in others if word[:1].isupper() for term in query.snapshot.terms(word)}
    is_missing = np.array([term in names for term in terms], np.bool_) & ~in_first
    signals = np.empty((len(shown), len(_FIELDS)))
    signals[:] = 1, 0, 0, 0, in_first @ weights, is_missing @ weights, trust or 0.0, 0, trust is None
    signals[:, 1] = np.log(np.arange(1, len(shown) + 1))
    signals[:, 2], signals[:, 3], signals[:, 7] = own @ weights, new @ weights, linked
    return signals
