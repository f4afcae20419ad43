"""Keyword search (BM25) over postings in tables.

Terms, fields, weights, phrases and quantised lengths are the same as in :mod:`graphrag_core.engine.postings`,
so that scores agree up to rounding.

A write adds one segment: for each field and term the keys of its texts, how often each has the term, and the quantised
length of each. Segments of about the same size are merged when there are many. A deletion notes the dead chunks;
readers ignore them, in the statistics too, until the segments are purged.
"""

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from graphrag_core.engine import analysis
from graphrag_core.engine.postgres.database import copy_rows
from graphrag_core.engine.postgres.reads import Transaction
from graphrag_core.engine.postgres.schema import FACT_BITS, column_types
from graphrag_core.engine.rows import FIELDS, Texts, keyword_fields
from graphrag_core.engine.tables import unpack_headings
from graphrag_core.key_sets import among, best
from graphrag_core.ports import Keys, Ranking
from graphrag_core.text import hash64
from graphrag_core.text.markup import plain

FACTS = 0
"""The field of facts. The fields of chunks follow, body first."""
BODY = 1
_WEIGHTS = list(FIELDS.values())
_CHUNK_FIELDS = list(range(BODY, BODY + len(_WEIGHTS)))
_PHRASE = 1.0
_K1, _B = 1.2, 0.75
_MOST_TERMS = 256
_MOST_COUNTED = 0xFFFF  # occurrences of a term in a text
_MOST_PHRASES = 5_000  # chunks that are read for one phrase
_DENSE = 16  # times the number of keys: up to this range they are summed in an array
_MERGED = 16  # segments of about the same size that are merged
_LARGEST = 20_000  # texts of a segment that is still merged with others
_MOST_DEAD = 1_000  # deleted chunks above which segments are purged,
_DEAD_SHARE = 0.05  # if they are this share of all

Postings = tuple[Keys, npt.NDArray[np.uint16], npt.NDArray[np.uint8]]
"""Keys of texts, how often each has a term, and the quantised length of each."""


def _lengths() -> npt.NDArray[np.int64]:
    """Return the length of a text, in tokens, for each 8-bit code: exact up to 40, then to four significant bits."""
    exact = 24
    codes = np.arange(256 - exact)
    shift = np.maximum((codes >> 3) - 1, 0)
    values = np.where(codes < 8, codes, (codes & 7 | 8) << shift)
    return np.concatenate([np.arange(exact), exact + values])


_LENGTHS = _lengths()


def norm(length: int) -> int:
    """Return the quantised length of a text of ``length`` tokens.

    >>> [norm(length) for length in (0, 40, 41, 42, 1000)]
    [0, 40, 40, 41, 87]
    """
    return int(np.searchsorted(_LENGTHS, length, "right")) - 1


@lru_cache(maxsize=65_536)
def term_number(term: str) -> int:
    """Return the number under which a term is stored."""
    return hash64(term)


class Segment:
    """The postings of the texts of one write. ``texts`` counts the chunks, ``first`` is the key of the first one."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], tuple[list[int], list[int], list[int]]] = {}
        self.texts, self.first = 0, -1

    def add(self, field: int, key: int, text: str) -> int:
        """Add a text; return the number of its tokens."""
        if not text:
            return 0
        tokens = analysis.tokens(text)
        length = norm(len(tokens))
        for term, count in Counter(tokens).items():
            keys, counts, norms = self._rows.setdefault((field, term_number(term)), ([], [], []))
            keys.append(key)
            counts.append(min(count, _MOST_COUNTED))
            norms.append(length)
        return len(tokens)

    def add_chunk(self, key: int, texts: Texts) -> list[int]:
        """Add the fields of a chunk; return the number of tokens in each."""
        self.first = key if self.texts == 0 else self.first
        self.texts += 1
        return [self.add(BODY + at, key, text) for at, text in enumerate(texts)]

    def rows(self, index: int, segment: int) -> list[tuple[Any, ...]]:
        """Return rows of the table postings."""
        return [
            (index, field, term, segment, np.array(keys, "<i8").tobytes(), np.array(counts, "<u2").tobytes(),
             bytes(norms))
            for (field, term), (keys, counts, norms) in self._rows.items()
        ]  # fmt: skip


# -- search


class Keywords:
    """Keyword search in a snapshot. Postings are read once for each term."""

    def __init__(self, reads: Transaction) -> None:
        self._reads = reads
        self._read: dict[tuple[int, int], Postings] = {}  # of live texts, by field and term

    def search(self, kind: str, text: str, k: int) -> Ranking:
        """Return the best ``k`` keys with a positive score, best first, and what ties with the last."""
        terms = (analysis.content_terms(text) or analysis.terms(text))[:_MOST_TERMS]
        reads = self._reads
        size = reads.fact_count if kind == "facts" else reads.statistics_count
        if not terms or size == 0 or k < 1:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        fields = [FACTS] if kind == "facts" else _CHUNK_FIELDS
        phrases = analysis.phrases(text) if kind != "facts" else []
        self._load([*terms, *(term for phrase in phrases for term in phrase)])
        parts = []  # keys and scores of each field and term
        for field in fields:
            factors = self._length_factors(field, size)
            weight = _WEIGHTS[max(field - BODY, 0)] * (1 + _K1)
            for term in terms:
                keys, counts, norms = self._read[field, term_number(term)]
                parts.append((keys, weight * _idf(len(keys), size) * (counts / (counts + factors[norms]))))
        parts += [self._phrase(phrase, size) for phrase in phrases]
        found, total = _summed(*map(np.concatenate, zip(*parts, strict=True)))
        if not self._reads.scope.is_everything:
            seen = self._reads.scope.sees(found >> FACT_BITS if kind == "facts" else found)
            found, total = found[seen], total[seen]
        return best(found, total.astype(np.float32), k)

    def counts(self, terms: Sequence[str]) -> Keys:
        """Return how many chunks of all documents have each term in their body, 0 for a term that none in scope has."""
        self._load(terms)
        postings = [self._read[BODY, term_number(term)][0] for term in terms]
        return np.array([len(keys) if self._reads.scope.sees(keys).any() else 0 for keys in postings], np.int64)

    def _length_factors(self, field: int, size: int) -> npt.NDArray[np.float64]:
        """Return for each quantised length what BM25 adds to the frequency of a term."""
        lengths = self._reads.lengths
        average = float(np.float32(lengths[4 if field == FACTS else field - BODY]) / np.float32(size))
        relative = _LENGTHS / average if average else np.zeros(len(_LENGTHS))
        return np.asarray(_K1 * (1 - _B + _B * relative), np.float64)

    def _load(self, terms: Sequence[str]) -> None:
        """Read the postings of terms that are missing, in one statement: the facts are searched after the chunks."""
        numbers = dict.fromkeys(map(term_number, terms))
        fields = [FACTS, *_CHUNK_FIELDS]
        missing = [number for number in numbers if (FACTS, number) not in self._read]
        if not missing:
            return
        rows = self._reads.rows(
            "SELECT p.field, p.term, p.keys, p.counts, p.norms FROM unnest(%s::smallint[]) f(field) "
            "CROSS JOIN unnest(%s::bigint[]) t(term) CROSS JOIN LATERAL (SELECT * FROM postings "
            "WHERE index = %s AND field = f.field AND term = t.term OFFSET 0) p",
            (fields, np.array(missing, np.int64), self._reads.index),
        )
        parts: dict[tuple[int, int], list[list[bytes]]] = {(f, number): [] for f in fields for number in missing}
        for field, term, *columns in rows:
            parts[field, term].append(columns)
        for (field, number), segments in parts.items():
            packed = [b"".join(columns) for columns in zip(*segments, strict=True)] or [b"", b"", b""]
            keys, counts = np.frombuffer(packed[0], "<i8"), np.frombuffer(packed[1], "<u2")
            norms = np.frombuffer(packed[2], np.uint8)
            if len(self._reads.dead):
                live = ~among(keys >> FACT_BITS if field == FACTS else keys, self._reads.dead)
                keys, counts, norms = keys[live], counts[live], norms[live]
            self._read[field, number] = keys, counts, norms

    def _phrase(self, phrase: Sequence[str], size: int) -> tuple[Keys, npt.NDArray[np.float64]]:
        """Return the chunks that have a phrase in their body, and what it adds to their scores.

        Postings have no positions: the chunks that have all its terms are read.
        """
        postings = [self._read[BODY, term_number(term)] for term in phrase]
        rarest = min(postings, key=lambda one: len(one[0]))
        common = rarest[0]
        for own, _, _ in postings:
            common = common[np.isin(common, own)]
        common = common[self._reads.scope.sees(common)][:_MOST_PHRASES]
        occurrences = {key: _occurrences(analysis.tokens(text), phrase) for key, text in self._bodies(common)}
        occurrences = {key: count for key, count in occurrences.items() if count}
        keys, frequency = np.array([*occurrences], np.int64), np.array([*occurrences.values()], np.float64)
        order = np.argsort(rarest[0], kind="stable")
        norms = rarest[2][order[np.searchsorted(rarest[0][order], keys)]] if len(keys) else np.empty(0, np.uint8)
        idf = sum(_idf(len(own), size) for own, _, _ in postings)
        factors = self._length_factors(BODY, size)
        return keys, _PHRASE * (1 + _K1) * idf * (frequency / (frequency + factors[norms]))

    def _bodies(self, chunks: Keys) -> list[tuple[int, str]]:
        if len(chunks) == 0:
            return []
        rows = self._reads.rows(
            "SELECT c.key, coalesce(d.heading, d.title), c.headings, c.text FROM chunks c "
            "JOIN documents d ON d.index = c.index AND d.key = c.document WHERE c.index = %s AND c.key = ANY(%s)",
            (self._reads.index, np.unique(chunks)),
        )
        return [
            (key, keyword_fields(title, unpack_headings(above), (), plain(text))[0]) for key, title, above, text in rows
        ]


def _idf(holding: int, size: int) -> float:
    """Return the weight of a term that ``holding`` of all texts have."""
    return math.log(1 + (size - holding + 0.5) / (holding + 0.5))


def _summed(keys: Keys, scores: npt.NDArray[np.float64]) -> tuple[Keys, npt.NDArray[np.float64]]:
    if len(keys) == 0:
        return keys, scores
    first, last = int(keys.min()), int(keys.max())
    if last - first < _DENSE * len(keys):
        total = np.asarray(np.bincount(keys - first, scores, last - first + 1), np.float64)
        there = np.flatnonzero(total)
        return there + first, total[there]
    distinct, place = np.unique(keys, return_inverse=True)
    return distinct, np.asarray(np.bincount(place, scores, len(distinct)), np.float64)


def _occurrences(tokens: Sequence[str], phrase: Sequence[str]) -> int:
    width, first, wanted = len(phrase), phrase[0], list(phrase)
    return sum(tokens[at : at + width] == wanted for at, token in enumerate(tokens) if token == first)


# -- segments


def tidy(cursor: Any, index: int) -> None:
    """Merge segments of about the same size if there are many, and purge many dead chunks. Not for two at a time."""
    levels: dict[int, list[tuple[int, int]]] = {}
    for segment, texts in cursor.execute(
        "SELECT segment, texts FROM segments WHERE index = %s AND texts < %s ORDER BY segment", (index, _LARGEST)
    ).fetchall():
        levels.setdefault(int(math.log(max(texts, 1), _MERGED)), []).append((segment, texts))
    for same in levels.values():
        if len(same) >= _MERGED:
            merge(cursor, index, [segment for segment, _ in same], sum(texts for _, texts in same))
    row = cursor.execute("SELECT dead, chunks FROM indexes WHERE id = %s", (index,)).fetchone()
    if row[0] > max(_MOST_DEAD, _DEAD_SHARE * row[1]):
        purge(cursor, index)


def merge(cursor: Any, index: int, segments: Sequence[int], texts: int) -> None:
    """Make one segment of some."""
    old, new = np.array(segments, np.int64), min(segments)
    cursor.execute(
        "WITH old AS (DELETE FROM postings WHERE index = %s AND segment = ANY(%s) RETURNING *) "
        "INSERT INTO postings SELECT index, field, term, %s, string_agg(keys, '' ORDER BY segment), "
        "string_agg(counts, '' ORDER BY segment), string_agg(norms, '' ORDER BY segment) "
        "FROM old GROUP BY index, field, term",
        (index, old, new),
    )
    cursor.execute("DELETE FROM segments WHERE index = %s AND segment = ANY(%s)", (index, old))
    cursor.execute("INSERT INTO segments VALUES (%s, %s, %s)", (index, new, texts))


def purge(cursor: Any, index: int) -> None:
    """Remove all dead chunks from the postings. Called by one writer at a time."""
    cursor.execute("SELECT chunk FROM dead_chunks WHERE index = %s ORDER BY chunk", (index,))
    dead = np.array([row[0] for row in cursor.fetchall()], np.int64)
    if len(dead) == 0:
        return
    for (segment,) in cursor.execute("DELETE FROM segments WHERE index = %s RETURNING segment", (index,)).fetchall():
        rows = cursor.execute(
            "DELETE FROM postings WHERE index = %s AND segment = %s RETURNING field, term, keys, counts, norms",
            (index, segment),
        ).fetchall()
        kept, texts = [], set[int]()
        for field, term, packed, counts, norms in rows:
            keys = np.frombuffer(packed, "<i8")
            chunks = keys >> FACT_BITS if field == FACTS else keys
            live = ~among(chunks, dead)
            texts.update(chunks[live].tolist())
            columns = keys, np.frombuffer(counts, "<u2"), np.frombuffer(norms, np.uint8)
            if live.any():
                kept.append((index, field, term, segment, *(column[live].tobytes() for column in columns)))
        if kept:
            copy_rows(cursor, "postings", kept, column_types("postings"))
            cursor.execute("INSERT INTO segments VALUES (%s, %s, %s)", (index, segment, len(texts)))
    cursor.execute("DELETE FROM dead_chunks WHERE index = %s", (index,))
    cursor.execute("UPDATE indexes SET dead = 0 WHERE id = %s", (index,))
