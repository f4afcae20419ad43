"""How far passages contain the words of a question: by the vectors of the embedder's tokens, or else by stems."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from graphrag_core.ports import Keys, Matrix
from graphrag_core.query.query import Query

Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

_WORD = re.compile(r"\w+(?:[-_.:/]\w+)*")
_MOST_TOKENS = 65_536  # of a vocabulary
_MOST_PRODUCTS = 200_000  # in one matrix product: from 262,144 on OpenBLAS wakes its threads, which spin


@dataclass(frozen=True)
class QuestionWords:
    """The words of a question, and how far passages contain each.

    A word that is one token of the embedder counts by its similarity to the nearest token of a passage. A word of
    several tokens is rare, and its pieces mean little: it counts by its stems, and so does every word without token
    vectors.

    Attributes
    ----------
    weights
        The weight of each word: the largest of its terms.
    by_terms
        One row for each term of the question, one column for each word: its share in the word.
    places, vectors
        The words that are one token, and their vectors.
    """

    weights: Values
    by_terms: Values
    places: npt.NDArray[np.int64]
    vectors: Matrix | None

    @classmethod
    def of(cls, query: Query, terms: Sequence[str], weights: Values) -> QuestionWords:
        """Return the words of a question that has these terms with these weights."""
        embedder = query.embedder
        if embedder is None or not embedder.has_tokens or query.vector is None:
            return cls(weights, np.eye(len(terms)), np.empty(0, np.int64), None)
        row_of = {term: row for row, term in enumerate(terms)}
        words: dict[tuple[int, ...], str] = {}
        for word in _WORD.findall(query.expected_words):
            rows = tuple(row_of[term] for term in query.snapshot.terms(word) if term in row_of)
            if rows:
                words.setdefault(rows, word)
        by_terms = np.zeros((len(terms), len(words)))
        for column, rows in enumerate(words):
            by_terms[list(rows), column] = 1 / len(rows)
        tokens = embedder.token_ids(list(words.values()))
        places = np.array([place for place, ids in enumerate(tokens) if len(ids) == 1], np.int64)
        vectors = embedder.token_vectors(np.array([tokens[place][0] for place in places], np.int64))
        return cls(np.array([weights[list(rows)].max() for rows in words]), by_terms, places, vectors)

    def weighed(self, covered: Flags) -> Values:
        """Return the weights, normalised to sum 1, where a word that no passage in ``covered`` contains weighs nothing.

        ``covered`` says which passages contain which terms.
        """
        weights = np.where(covered.any(axis=0) @ self.by_terms > 0, self.weights, 0)
        normalised: Values = weights / max(float(weights.sum()), 1e-9)
        return normalised

    def matches(self, query: Query, keys: Keys, covered: Flags) -> Values:
        """Return how far chunks contain each word, from 0 to 1. ``covered`` says which contain which terms."""
        values: Values = covered @ self.by_terms
        if self.vectors is None or len(self.places) == 0 or query.embedder is None:
            return values
        counts, ids = query.snapshot.tokens(keys)
        rows = np.flatnonzero(counts)
        if len(rows) == 0:
            return values
        # The tokens of all chunks, each once: numbered by a table, which is faster than sorting.
        is_used = np.zeros(_MOST_TOKENS, np.bool_)
        is_used[ids] = True
        used = np.flatnonzero(is_used)
        place_of = np.empty(_MOST_TOKENS, np.int64)
        place_of[used] = np.arange(len(used))
        similar = _products(self.vectors, query.embedder.token_vectors(used)).clip(0, 1)[:, place_of[ids]]
        starts = np.concatenate([[0], np.cumsum(counts[rows])[:-1]])
        values[np.ix_(rows, self.places)] = np.maximum.reduceat(similar, starts, axis=1).T
        return values


def _products(vectors: Matrix, others: Matrix) -> Matrix:
    """Return the inner product of each vector with each other, computed on one thread."""
    size = max(1, _MOST_PRODUCTS // vectors.size)
    parts = [vectors @ others[start : start + size].T for start in range(0, len(others), size)]
    return np.concatenate(parts, axis=1)
