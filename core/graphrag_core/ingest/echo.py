"""Known names that come again in lower case, or alone at the start of a sentence.

"The auth service" is a mention once some document writes "Auth Service", whichever of the
two was added first. So this is not decided while a document is read: each sentence keeps
the hashes of its lower-case word pairs, each name the hashes of the pairs it is made of,
and a sentence mentions a name if it has all of the name's pairs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from zlib import crc32

import numpy as np
import numpy.typing as npt

from graphrag_core.ingest.words import FUNCTION

Numbers = npt.NDArray[np.int64]

_END = "\x00"  # no stored text has it
_WORD = re.compile(rf"[^\W_]+|{_END}")
_LONGEST_ECHO = 5
_MOST_REMEMBERED = 200_000


class _Codes(dict[str, int]):
    """From a word to its number: 0 for one that no lower-case name is made of."""

    def __missing__(self, word: str) -> int:
        usable = word[0].islower() and word not in FUNCTION
        code = self[word] = _code(word) if usable else 0
        return code


def _code(word: str) -> int:
    return crc32(word.encode("utf-8", "surrogatepass")) >> 1 | 1  # 31 bits, never 0


def name_grams(norm: str) -> set[int]:
    """Return the numbers that a sentence must have, all of them, to mention a normalised name.

    A pair of words is a number above 2**31, a single word, which is only looked for at the
    start of a sentence, one below.
    """
    words = norm.split(" ")
    if len(words) == 1:
        return {_code(norm)} if len(norm) > 2 and norm.isalpha() else set()
    if len(words) > _LONGEST_ECHO or not FUNCTION.isdisjoint(words):
        return set()
    return {_code(a) << 31 | _code(b) for a, b in pairwise(words)}


class EchoReader:
    """Reads the numbers of many sentences at once; remembers words between calls.

    >>> def mentions(name, *sentences):
    ...     grams = EchoReader().grams(sentences)[1]
    ...     return name_grams(name) <= set(grams.tolist())
    >>> mentions("auth service", "Ask the auth service first.")
    True
    >>> mentions("redis", "Redis keeps the sessions."), mentions("redis", "They keep it in redis.")
    (True, False)
    """

    def __init__(self) -> None:
        self._codes = _Codes()

    def grams(self, sentences: Sequence[str]) -> tuple[Numbers, Numbers]:
        """Return pairs of a sentence's position and a number."""
        if len(self._codes) > _MOST_REMEMBERED:
            self._codes.clear()
        self._codes[_END] = 0
        words = _WORD.findall(_END + _END.join(sentences))
        code = np.fromiter(map(self._codes.__getitem__, words), np.int64, len(words))
        ends = np.array([word == _END for word in words], np.bool_)
        sentence = np.cumsum(ends) - 1
        pair = np.flatnonzero((code[:-1] > 0) & (code[1:] > 0))
        first = [
            (i, _code(words[i].casefold()))
            for i in (np.flatnonzero(ends[:-1]) + 1).tolist()
            if words[i][0].isupper() and words[i].casefold() not in FUNCTION
        ]
        at = np.concatenate([pair, np.array([i for i, _ in first], np.int64)])
        gram = np.concatenate([code[pair] << 31 | code[pair + 1], np.array([g for _, g in first], np.int64)])
        return sentence[at], gram
