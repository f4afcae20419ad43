"""Known names that come again in lower case, or alone at the start of a sentence.

"The auth service" is a mention once some document writes "Auth Service", whichever of the
two was added first. So this is not decided while a document is read: each sentence keeps
the hashes of its lower-case word pairs, each name the hashes of the pairs it is made of,
and a sentence mentions a name if it has all of the name's pairs.

Every sentence of every document comes through here, so words are found and hashed in
arrays of bytes, a batch at a time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from graphrag_core.ingest.words import FUNCTION

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

_END = "\x00"  # no stored text has it
_WORD = re.compile(rf"[^\W_]+|{_END}")
_LONGEST_ECHO = 5

_IS_WORD = np.array([chr(c).isalnum() and c < 128 for c in range(256)])
_FACTOR = 0x9E3779B97F4A7C15
_POWERS = np.array([pow(_FACTOR, i + 1, 1 << 64) for i in range(256)], np.uint64)


def name_grams(norms: Sequence[str]) -> tuple[Numbers, Numbers]:
    """Return pairs of a normalised name's position and a number.

    A sentence mentions a name if it has all of the name's numbers. A pair of words is a
    number above 2**31, a single word, which is only looked for at the start of a sentence,
    one below.
    """
    words: list[str] = []
    names, sizes = [], []
    for at, norm in enumerate(norms):
        own = norm.split(" ")
        if len(own) == 1:
            usable = len(norm) > 2 and norm.isalpha()
        else:
            usable = len(own) <= _LONGEST_ECHO and FUNCTION.isdisjoint(own)
        if usable:
            words += own
            names.append(at)
            sizes.append(len(own))
    code, size = _codes(words), np.array(sizes, np.int64)
    name = np.repeat(np.array(names, np.int64), size)
    alone = np.repeat(size, size) == 1
    pair = np.flatnonzero(name[:-1] == name[1:])
    owner = name[np.concatenate([np.flatnonzero(alone), pair])]
    return owner, np.concatenate([code[alone], code[pair] << 31 | code[pair + 1]])


def sentence_grams(sentences: Sequence[str]) -> tuple[Numbers, Numbers]:
    """Return pairs of a sentence's position and a number.

    >>> def mentions(name, *sentences):
    ...     return set(name_grams([name])[1].tolist()) <= set(sentence_grams(sentences)[1].tolist())
    >>> mentions("auth service", "Ask the auth service first.")
    True
    >>> mentions("redis", "Redis keeps the sessions."), mentions("redis", "They keep it in redis.")
    (True, False)
    """
    plain = [at for at, sentence in enumerate(sentences) if sentence.isascii()]
    if len(plain) == len(sentences):
        return _read(*_ascii_words(sentences))
    others = sorted(set(range(len(sentences))).difference(plain))
    parts = []
    for positions, words in ((plain, _ascii_words), (others, _any_words)):
        sentence, gram = _read(*words([sentences[at] for at in positions]))
        parts.append((np.array(positions, np.int64)[sentence], gram))
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _read(sentence: Numbers, code: Numbers, first: Numbers, opening: Numbers) -> tuple[Numbers, Numbers]:
    """Return the grams of words: their sentences, their codes, the sentences with an opening word, and its code."""
    pair = np.flatnonzero((code[:-1] > 0) & (code[1:] > 0) & (sentence[:-1] == sentence[1:]))
    grams = code[pair] << 31 | code[pair + 1]
    return np.concatenate([sentence[pair], first]), np.concatenate([grams, opening])


def _ascii_words(sentences: Sequence[str]) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    data = np.frombuffer((_END + _END.join(sentences) + _END).encode(), np.uint8)
    inside = _IS_WORD[data]
    edges = np.flatnonzero(inside[1:] != inside[:-1]) + 1
    start, length = edges[::2], edges[1::2] - edges[::2]
    sentence = np.cumsum(data == 0)[start] - 1
    initial = data[start]
    code = _usable(_hashes(data, start, length), (initial >= ord("a")) & (initial <= ord("z")))
    opens = np.flatnonzero((np.diff(sentence, prepend=-1) > 0) & (initial >= ord("A")) & (initial <= ord("Z")))
    lower = np.where((data >= ord("A")) & (data <= ord("Z")), data | 0x20, data).astype(np.uint8)
    opening = _usable(_hashes(lower, start[opens], length[opens]), np.ones(len(opens), np.bool_))
    return sentence, code, sentence[opens][opening > 0], opening[opening > 0]


def _any_words(sentences: Sequence[str]) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    words = _WORD.findall(_END + _END.join(sentences))
    ends = np.array([word == _END for word in words], np.bool_)
    sentence = np.cumsum(ends) - 1
    usable = np.array([word[0].islower() and word not in FUNCTION for word in words], np.bool_)
    opens = [
        i
        for i in (np.flatnonzero(ends[:-1]) + 1).tolist()
        if words[i][0].isupper() and words[i].casefold() not in FUNCTION
    ]
    opening = _codes([words[i].casefold() for i in opens])
    return sentence, np.where(usable, _codes(words), 0), sentence[opens], opening


def _codes(words: Sequence[str]) -> Numbers:
    """Return 31 bits for each word, never 0."""
    data = [word.encode("utf-8", "surrogatepass") for word in words]
    length = np.fromiter(map(len, data), np.int64, len(data))
    return _folded(_hashes(np.frombuffer(b"".join(data), np.uint8), np.cumsum(length) - length, length))


def _hashes(data: Bytes, start: Numbers, length: Numbers) -> npt.NDArray[np.uint64]:
    """Return 64 bits for each piece of the data: its bytes, each times a power of its place, summed."""
    if len(start) == 0:
        return np.empty(0, np.uint64)
    before = np.cumsum(length) - length
    place = np.arange(int(length.sum())) - np.repeat(before, length)
    product = data[place + np.repeat(start, length)] * _POWERS[place & 255]
    return np.add.reduceat(product, before, dtype=np.uint64)


def _folded(hashes: npt.NDArray[np.uint64]) -> Numbers:
    mixed = (hashes ^ (hashes >> np.uint64(29))) * np.uint64(_FACTOR)
    return (mixed >> np.uint64(33)).astype(np.int64) | 1


def _usable(hashes: npt.NDArray[np.uint64], candidate: Flags) -> Numbers:
    """Return the code of each word, 0 for one that no lower-case name is made of."""
    nearest = np.minimum(np.searchsorted(_FUNCTION, hashes), len(_FUNCTION) - 1)
    return np.where(candidate & (_FUNCTION[nearest] != hashes), _folded(hashes), 0)


def _function_words() -> npt.NDArray[np.uint64]:
    data = [word.encode() for word in FUNCTION]
    length = np.array([len(word) for word in data])
    return np.sort(_hashes(np.frombuffer(b"".join(data), np.uint8), np.cumsum(length) - length, length))


_FUNCTION = _function_words()
