"""Keyword search: BM25 over postings in arrays.

A posting list has the passages that have a term in a field, ascending, and how often. The score of a passage is the sum
over terms and fields of ``weight * idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / average))``, with the lengths
quantised as tantivy and Lucene do. Frequencies count the living passages of all documents, whatever the scope.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_core.deadline import check_deadline
from graphrag_core.engine import analysis
from graphrag_core.engine.arrays import Array, Column, Flags, Inverse, Numbers
from graphrag_core.engine.rows import FIELDS
from graphrag_core.key_sets import among, best, distinct, ranges
from graphrag_core.ports import Keys, Ranking
from graphrag_core.text import hash64

PRUNED_FROM = 100_000
"""Postings of a question from which on MaxScore decides which of them are read."""

FIELD_BITS = 2
_WEIGHTS = np.array([*FIELDS.values()])
_K1, _B = 1.2, 0.75
_MOST_TERMS = 256
_MOST_PHRASES = 5_000  # passages that are read for one phrase
_SLACK = 1e-9  # more than two ways to add up the same scores differ

Values = npt.NDArray[np.float64]


def _lengths() -> Numbers:
    """Return the length of a text, in tokens, for each 8-bit code: exact up to 40, then to four significant bits."""
    exact = 24
    codes = np.arange(256 - exact)
    values = np.where(codes < 8, codes, (codes & 7 | 8) << np.maximum((codes >> 3) - 1, 0))
    return np.concatenate([np.arange(exact), exact + values])


_LENGTHS = _lengths()


def quantised(lengths: Array) -> npt.NDArray[np.uint8]:
    """Return the codes of lengths.

    >>> quantised(np.array([0, 40, 41, 42, 1000])).tolist()
    [0, 40, 40, 41, 87]
    """
    return (np.searchsorted(_LENGTHS, lengths, "right") - 1).astype(np.uint8)


class _Lists(NamedTuple):
    """Posting lists of one part of the table: the passages, how often each has the term, and their lengths' codes.

    ``starts`` and ``counts`` say where the list of each term and field is.
    """

    passages: Array
    numbers: Array
    codes: Array
    first: int
    starts: Numbers
    counts: Numbers

    def of(self, which: int) -> Array:
        """Return the passages of a list."""
        return self.passages[self.starts[which] : self.starts[which] + self.counts[which]]


class Postings:
    """The posting lists of a view: by term and field the passages, and how often each has the term."""

    def __init__(self, table: Inverse, lengths: Column, totals: Numbers, alive: Flags | None, size: int) -> None:
        self._table, self._lengths, self._alive, self._size = table, lengths, alive, size
        self._dead = np.empty(0, np.int64) if alive is None else np.flatnonzero(~alive)
        averages = [float(np.float32(total) / np.float32(max(size, 1))) or 1.0 for total in totals.tolist()]
        self._factors = np.array([_K1 * (1 - _B + _B * _LENGTHS / average) for average in averages]).ravel()

    def search(self, text: str, k: int, visible: Flags | None, bodies: Callable[[Keys], list[str]]) -> Ranking:
        """Return the best ``k`` passages with a positive score, best first, and what ties with the last.

        ``visible`` restricts what is found, not what is counted. ``bodies`` returns the texts of passages, in which
        quoted phrases are looked for.
        """
        terms = (analysis.content_terms(text) or analysis.terms(text))[:_MOST_TERMS]
        if not terms or k < 1 or self._size == 0:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        mask = self._alive if visible is None else visible
        fields = np.array([term_key(term) for term in terms], np.int64)[:, None] + np.arange(len(FIELDS))
        keys, scores = self._scored(fields.ravel(), k, mask)
        for phrase in analysis.phrases(text):
            more = self._phrase(phrase, mask, bodies)
            keys, place = np.unique(np.concatenate([keys, more[0]]), return_inverse=True)
            scores = np.bincount(place, np.concatenate([scores, more[1]]), len(keys)).astype(np.float64, copy=False)
        return best(keys, scores.astype(np.float32), k)

    def counts(self, terms: Sequence[str], visible: Flags | None) -> Keys:
        """Return how many passages have each term in their body, 0 for a term that no visible one has."""
        lists, counts = self._lists(np.array([term_key(term) for term in terms], np.int64))
        if visible is not None:
            for at in np.flatnonzero(counts).tolist():
                counts[at] *= any(visible[part.of(at)].any() for part in lists)
        return counts

    # -- scores

    def _lists(self, keys: Numbers) -> tuple[list[_Lists], Numbers]:
        """Return the posting lists of some terms and fields, and how many living passages each has."""
        found, lengths, frequencies = [], self._lengths, np.zeros(len(keys), np.int64)
        for at, part in enumerate(self._table.parts):
            starts, counts = part.locate(keys)
            if counts.any():
                codes = (lengths.base if at == 0 else lengths.tail).reshape(-1)
                passages, numbers = part.values
                own = _Lists(passages, numbers, codes, 0 if at == 0 else len(lengths.base), starts, counts)
                found.append(own)
                frequencies += counts
                for which in np.flatnonzero(counts).tolist() if len(self._dead) else ():
                    few, many = sorted((own.of(which), self._dead), key=len)
                    frequencies[which] -= np.count_nonzero(among(few.astype(many.dtype), many))
        return found, frequencies

    def _weights(self, keys: Numbers, frequencies: Numbers) -> Values:
        idf = np.log(1 + (self._size - frequencies + 0.5) / (frequencies + 0.5))
        weights: Values = _WEIGHTS[keys & ((1 << FIELD_BITS) - 1)] * (1 + _K1) * idf
        return weights

    def _scored(self, keys: Numbers, k: int, mask: Flags | None) -> tuple[Keys, Values]:
        lists, frequencies = self._lists(keys)
        weights = self._weights(keys, frequencies)
        total = sum(int(part.counts.sum()) for part in lists)
        if total >= PRUNED_FROM and (candidates := self._candidates(keys, lists, weights, k, mask)) is not None:
            return self._of_candidates(keys, lists, weights, candidates)
        passages, scores = self._postings(keys, lists, weights, np.arange(len(keys)))
        found = np.bincount(passages, scores, len(self._lengths)).astype(np.float64, copy=False)
        if mask is not None:
            found *= mask
        there = np.flatnonzero(found)
        return there, found[there]

    def _postings(
        self, keys: Numbers, lists: Sequence[_Lists], weights: Values, which: Numbers
    ) -> tuple[Numbers, Values]:
        """Return the passages of some lists, and what each adds to the score; a passage's in the order of keys."""
        passages, scores = [np.empty(0, np.int64)], [np.empty(0)]
        for part in lists:
            counts = part.counts[which]
            at = ranges(part.starts[which], counts)
            own = part.passages.take(at).astype(np.int64)
            passages.append(own)
            scores.append(self._values(part, at, own, which.repeat(counts), keys, weights))
        return np.concatenate(passages), np.concatenate(scores)

    def _values(
        self, part: _Lists, at: Numbers, passages: Numbers, which: Numbers, keys: Numbers, weights: Values
    ) -> Values:
        """Return the scores of postings, given their positions, and which list each is in."""
        fields = keys[which] & ((1 << FIELD_BITS) - 1)
        codes = part.codes.take((passages - part.first) * len(FIELDS) + fields)
        numbers = part.numbers.take(at).astype(np.float64)
        scores: Values = weights[which] * numbers / (numbers + self._factors.take(fields * len(_LENGTHS) + codes))
        return scores

    def _candidates(
        self, keys: Numbers, lists: Sequence[_Lists], weights: Values, k: int, mask: Flags | None
    ) -> Keys | None:
        """Return the passages that may be among the best ``k`` (MaxScore); None if all lists must be read.

        Lists are read from the greatest weight on. When a passage that is in none of those read cannot reach the score
        that ``k`` passages have already, the rest is looked up for the others alone.
        """
        order = np.argsort(-weights, kind="stable")
        order = order[np.sum([part.counts for part in lists], axis=0)[order] > 0]
        rest = weights[order][::-1].cumsum()[::-1]  # what the lists from each on can add at most
        total = np.zeros(len(self._lengths))
        for at in range(len(order)):
            check_deadline()
            passages, scores = self._postings(keys, lists, weights, order[at : at + 1])
            np.add.at(total, passages, scores)
            if at + 1 == len(order):
                return None
            seen = total if mask is None else total * mask
            if at >= 1 and np.count_nonzero(seen) > k:
                least = np.partition(seen, len(seen) - k)[len(seen) - k]
                if least > rest[at + 1] + _SLACK:
                    return np.flatnonzero(seen >= least - rest[at + 1] - _SLACK)
        return None

    def _of_candidates(
        self, keys: Numbers, lists: Sequence[_Lists], weights: Values, candidates: Keys
    ) -> tuple[Keys, Values]:
        """Return the scores of some passages, added up as if all lists were read."""
        place, scores = [], []
        for part in lists:
            for which in np.flatnonzero(part.counts).tolist():
                start, count = int(part.starts[which]), int(part.counts[which])
                own = part.of(which)
                at = np.minimum(own.searchsorted(candidates.astype(own.dtype)), count - 1)
                has = np.flatnonzero(own[at] == candidates)
                place.append(has)
                scores.append(
                    self._values(part, start + at[has], candidates[has], np.full(len(has), which), keys, weights)
                )
        found = np.bincount(np.concatenate(place), np.concatenate(scores), len(candidates))
        return candidates, found.astype(np.float64, copy=False)

    # -- phrases

    def _phrase(
        self, phrase: Sequence[str], mask: Flags | None, bodies: Callable[[Keys], list[str]]
    ) -> tuple[Keys, Values]:
        """Return the passages that have a phrase in their body, and its score in each."""
        keys = np.array([term_key(term) for term in dict.fromkeys(phrase)], np.int64)
        lists, frequencies = self._lists(keys)
        common = np.empty(0, np.int64)
        if lists and frequencies.all():
            for place, at in enumerate(np.argsort(frequencies).tolist()):
                own = distinct(*(part.of(at).astype(np.int64) for part in lists))
                common = common[among(common, own)] if place else own
        if mask is not None:
            common = common[mask[common]]
        common = common[:_MOST_PHRASES]
        texts = [analysis.tokens(text) for text in bodies(common)] if len(common) else []
        width, wanted = len(phrase), [*phrase]
        counted = [sum(own[at : at + width] == wanted for at in range(len(own) - width + 1)) for own in texts]
        numbers = np.array(counted, np.float64)
        common, numbers = common[numbers > 0], numbers[numbers > 0]
        factors = self._factors.take(self._lengths.take(common)[:, 0])
        by_term = dict(zip(keys.tolist(), self._weights(keys, frequencies).tolist(), strict=True))
        weight = sum(by_term[term_key(term)] for term in phrase)
        return common, weight * numbers / (numbers + factors)


@lru_cache(maxsize=262_144)
def term_key(term: str) -> int:
    """Return the key of a term in the first field; those of the other fields follow."""
    return hash64(term) >> FIELD_BITS << FIELD_BITS
