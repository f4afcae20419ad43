"""Which chunks have equal or nearly equal texts: licences, generated pages, repeated notes.

A chunk's three signatures are stored with it. Each is a hash of four minimum hashes of its word triples (MinHash with
locality-sensitive hashing, Broder 1997). Two texts that share nine tenths of their triples have a signature in common
with a probability of 96 %; those that do are compared. Short texts are copies only if they are equal.

Texts made from one template differ in few words, and these are the answer: a number, a name, "request" for "response".
So a text is a copy of another only if the other has all its words, except articles and lines of copyright.
Texts in two formats, such as PDF and HTML, differ in ligatures, hyphens and section numbers: these do not count.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from zlib import crc32

import numpy as np
import numpy.typing as npt

from graphrag_core.text import segment
from graphrag_core.text.markup import plain
from graphrag_core.text.names import unify
from graphrag_core.text.words import NEAR_DUPLICATE_STOP_WORDS, WORD

_LEAST_SHARED = 0.9  # the share of word triples that two copies have in common
_FEWEST_WORDS = 24
_MOST_COMPARED = 100  # different texts, to find the copies of one chunk
_BANDS, _ROWS = 3, 4
_HYPHENATION = re.compile(r"\u00ad\s*|(?<=[a-z])[-‐]\r?\n[ \t]*(?=[a-z])")
_SECTION_NUMBER = re.compile(r"\s*(?:\d+|[A-Z])\.(?:\d+\.?)*\s+(?=[^\W\d_])")
_PRINTED_REFERENCE = re.compile(
    r"\b(?:section|chapter|appendix)\s+[\dA-Z.]+\s+\[([^\[\]]{1,200})\],\s+page\s+\d+", re.IGNORECASE
)
_NEGATIONS = frozenset("not no nor never none without cannot t".split())  # "t" of "don't"
_COPYRIGHT = re.compile(r"^[^\w\n]*(?:copyright|\(c\)|©).*$", re.IGNORECASE | re.MULTILINE)
_random = np.random.default_rng(20_261)
_FACTORS = _random.integers(1, 2**63, (_BANDS * _ROWS, 1), dtype=np.uint64) | np.uint64(1)
_OFFSETS = _random.integers(0, 2**63, (_BANDS * _ROWS, 1), dtype=np.uint64)
_PLACES = _random.integers(1, 2**63, 3, dtype=np.uint64) | np.uint64(1)


def signatures(label: str, text: str) -> tuple[int, int, int]:
    """Return three numbers of which copies have at least one in common. The label counts for short texts only."""
    words = _words(text)
    if len(words) < _FEWEST_WORDS:
        whole = _signed(crc32("\0".join((label, *words)).encode("utf-8", "surrogatepass")))
        return whole, whole, whole
    least = np.minimum.reduce(_triples(words) * _FACTORS + _OFFSETS, axis=1).astype("<u8").tobytes()
    size = len(least) // _BANDS
    first, second, third = (_signed(crc32(least[at : at + size])) for at in range(0, len(least), size))
    return first, second, third


def _signed(number: int) -> int:
    """Return a 32-bit number in the range that SQLite stores in 4 bytes."""
    return number - (number >> 31 << 32)


def find_copies(
    wanted: Iterable[int], signatures_of: Mapping[int, Sequence[int]], texts: Mapping[int, str]
) -> dict[int, set[int]]:
    """Return the copies of each wanted chunk, by key.

    Parameters
    ----------
    wanted
        The chunks whose copies are looked for.
    signatures_of, texts
        The signatures and the texts of these, and of all chunks that share a signature with one of them.
    """
    bands: dict[tuple[int, int], dict[str, list[int]]] = {}  # the chunks by band, signature and text
    for key, own in signatures_of.items():
        for band in enumerate(own):
            bands.setdefault(band, {}).setdefault(texts[key], []).append(key)
    found: dict[tuple[str, tuple[int, ...]], list[int]] = {}  # copies are mostly equal: each is compared once
    copies: dict[int, set[int]] = {}
    for key in wanted:
        text, own = texts[key], tuple(signatures_of[key])
        if (text, own) not in found:
            near: dict[str, list[int]] = {}
            for band in enumerate(own):
                near.update(bands[band])
            equal = near.pop(text)
            if len(near) > _MOST_COMPARED:  # rows of a table or a log
                near = {}
            others = [other for words, keys in near.items() if _is_plain_copy(words, text) for other in keys]
            found[text, own] = [*equal, *others]
        copies[key] = set(found[text, own]) - {key}
    return copies


@lru_cache(maxsize=1_024)  # the same passages answer many questions
def _is_plain_copy(text: str, other: str) -> bool:
    return is_copy(plain(text), plain(other))


def is_copy(text: str, other: str) -> bool:
    """Return whether a text says nothing that another, nearly equal one does not say.

    >>> text = " ".join(["Version 5.6 was released after", *(f"word{n}" for n in range(80))])
    >>> is_copy(text.upper(), text), is_copy(text, f"{text} by Mara"), is_copy(f"{text} by Mara", text)
    (True, True, False)
    >>> is_copy(text, text.replace("5.6", "5.7")), is_copy(text, text.replace("was", "was not"))
    (False, False)
    """
    if text == other:
        return True
    numbers = _SECTION_NUMBER.match(text), _SECTION_NUMBER.match(other)
    if None in numbers:  # else they differ as versions do
        text, other = (
            one[number.end() :] if number else one for one, number in zip((text, other), numbers, strict=True)
        )
    words, others = _words(text), _words(other)
    words, others = _hyphenated_as(words, set(others)), _hyphenated_as(others, set(words))
    if words == others or min(len(words), len(others)) < _FEWEST_WORDS:
        return words == others
    own, more = Counter(words), Counter(others)
    if not (own - more).keys() <= NEAR_DUPLICATE_STOP_WORDS or not (more - own).keys().isdisjoint(_NEGATIONS):
        return False
    triples, other_triples = np.unique(_triples(words)), np.unique(_triples(others))
    shared = len(np.intersect1d(triples, other_triples, assume_unique=True))
    return shared >= _LEAST_SHARED * (len(triples) + len(other_triples) - shared)


def _words(text: str) -> list[str]:
    """Return the words of a text; of a long one without lines of copyright."""
    if not text.isascii():
        text = unify(text)
    if "-\n" in text or "-\r" in text or not (text.isascii() or {"\u00ad", "‐"}.isdisjoint(text)):
        text = _HYPHENATION.sub("", text)
    if "]," in text:
        text = _PRINTED_REFERENCE.sub(r"\1", text)
    lower = segment(text).lower()
    words = WORD.findall(lower)
    hinted = "copyr" in lower or "(c)" in lower or "©" in lower
    if len(words) < _FEWEST_WORDS or not hinted or not _COPYRIGHT.search(text):
        return words
    others = WORD.findall(segment(_COPYRIGHT.sub("", text)).lower())
    return words if len(others) < _FEWEST_WORDS else others


def _hyphenated_as(words: list[str], known: set[str]) -> list[str]:
    """Return words with those joined that another text has as one: "command", "line" and "commandline"."""
    joined: list[str] = []
    is_joined = False
    for word in words:
        whole = joined[-1] + word if joined and not is_joined else ""
        is_joined = whole in known and whole.isalpha()
        joined[-1 if is_joined else len(joined) :] = [whole if is_joined else word]
    return joined


def _triples(words: list[str]) -> npt.NDArray[np.uint64]:
    hashes = np.fromiter(map(crc32, "\n".join(words).encode("utf-8").split(b"\n")), np.uint64, len(words))
    found: npt.NDArray[np.uint64] = hashes[:-2] * _PLACES[0] + hashes[1:-1] * _PLACES[1] + hashes[2:] * _PLACES[2]
    return found
