"""How far passages contain the words of a question: by the vectors of the embedder's tokens, or else by stems."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from graphrag_core.ports import Keys, Matrix
from graphrag_core.query.query import Query, word_weights

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
    """

    terms: list[str]  # the question as keyword search sees it
    term_weights: Values  # their inverse document frequencies, which sum to 1
    weights: Values  # of the words: the largest of their terms
    by_terms: Values  # one row for each term, one column for each word: its share in the word
    places: Keys  # the words that are one token, and their vectors
    vectors: Matrix | None = None

    @classmethod
    def of(cls, query: Query) -> QuestionWords:
        """Return the words of a question."""
        snapshot, embedder = query.snapshot, query.embedder
        terms = snapshot.terms(query.expected_words)
        weights = word_weights(snapshot.term_counts(terms), snapshot.statistics_count)
        if not terms or embedder is None or not embedder.has_tokens or query.vector is None:
            return cls(terms, weights, weights, np.eye(len(terms)), np.empty(0, np.int64))
        row_of = {term: row for row, term in enumerate(terms)}
        words: dict[tuple[int, ...], str] = {}
        for word in _WORD.findall(query.expected_words):
            if rows := tuple(row_of[term] for term in snapshot.terms(word) if term in row_of):
                words.setdefault(rows, word)
        by_terms = np.zeros((len(terms), len(words)))
        for column, rows in enumerate(words):
            by_terms[list(rows), column] = 1 / len(rows)
        tokens = embedder.token_ids(list(words.values()))
        places = np.array([place for place, ids in enumerate(tokens) if len(ids) == 1], np.int64)
        vectors = embedder.token_vectors(np.array([tokens[place][0] for place in places], np.int64))
        largest = np.array([weights[list(rows)].max() for rows in words])
        return cls(terms, weights, largest, by_terms, places, vectors)

    def matches(self, query: Query, keys: Keys, covered: Flags) -> Values:
        """Return how far chunks contain each word, times its weight: one row for each chunk.

        ``covered`` says which chunks contain which terms. A word that none contains weighs nothing; the weights of the
        others sum to 1.
        """
        values = covered @ self.by_terms
        weights = np.where(values.any(axis=0), self.weights, 0)
        if self.vectors is not None and query.embedder is not None and len(self.places):
            counts, ids = query.snapshot.tokens(keys)
            if len(rows := np.flatnonzero(counts)):
                # The tokens of all chunks, each once: numbered by a table, which is faster than sorting.
                place_of = np.full(_MOST_TOKENS, -1, np.int64)
                place_of[ids] = 0
                used = np.flatnonzero(place_of == 0)
                place_of[used] = np.arange(len(used))
                similar = _products(self.vectors, query.embedder.token_vectors(used)).clip(0, 1)[:, place_of[ids]]
                starts = np.concatenate([[0], np.cumsum(counts[rows])[:-1]])
                values[np.ix_(rows, self.places)] = np.maximum.reduceat(similar, starts, axis=1).T
        weighed: Values = values * (weights / max(float(weights.sum()), 1e-9))
        return weighed


def _products(vectors: Matrix, others: Matrix) -> Matrix:
    """Return the inner product of each vector with each other, computed on one thread."""
    size = max(1, _MOST_PRODUCTS // vectors.size)
    parts = [vectors @ others[start : start + size].T for start in range(0, len(others), size)]
    return np.concatenate(parts, axis=1)
