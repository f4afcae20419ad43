"""How texts become terms, for keyword search and for the terms that are stored with each chunk.

Words are lower-cased, folded to ASCII and stemmed; Chinese and Japanese become character bigrams. An
identifier is indexed by its parts and as a whole: ``CELERY_BROKER_URL``, ``celery.brokerUrl`` and
``celery-broker-url`` have the terms ``celeri``, ``broker``, ``url`` and ``celerybrokerurl``.
"""

import re
import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, repeat
from zlib import crc32

import numpy as np
import numpy.typing as npt
import tantivy

from graphrag_core.ports import Keys
from graphrag_core.text import segment
from graphrag_core.text.words import KEYWORD_STOP_WORDS

_MASK = 0xFFFFFF
TERM_BYTES = 3  # of a stored hash
_MOST_BITS = 4_096  # terms of a chunk up to which a fact has a bit for each; beyond, facts list their terms
_LISTED = b"\xff\xff\xff"  # stands first in the terms of facts that are lists
_LONGEST = 60  # characters of a term; longer ones are left out
_MOST_CACHED = 65_536  # words
# Each starts where a run of letters starts: a search inside a run of n letters would take n steps for each of them.
_JOINED = re.compile(r"(?<![^\W_])[^\W_]+(?:[_./:-]{1,2}[^\W_]+)+")
_CAMEL = re.compile(r"(?<![^\W_])[^\W_]*[a-z][A-Z][^\W_]*|(?<![A-Z])[A-Z]{2,}[a-z][^\W_]*")
# What every word with other forms has, to the word's end.
_HINT = re.compile(r"[_./:A-Z-](?:(?<=[^A-Z])(?<=[^\W_].)[_./:-]?[^\W_]|(?<=[A-Z])(?:(?<=[a-z].)|(?=[A-Z][a-z])))\S*")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_PUNCTUATION = "\"'()[],.;:!?"
_JOINTS = re.compile(r"[_./:-]+")
_QUOTED = re.compile(r'"([^"]{3,200})"|“([^”]{3,200})”|„([^“”]{3,200})[“”]|「([^」]{2,200})」|《([^》]{2,200})》')


def analyzer(without: Iterable[str] = ()) -> tantivy.TextAnalyzer:
    """Return the analyzer that every keyword index uses, or one that leaves some words out before it stems."""
    build = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for step in (
        tantivy.Filter.remove_long(_LONGEST),
        tantivy.Filter.lowercase(),
        tantivy.Filter.ascii_fold(),
        tantivy.Filter.custom_stopword([*without]),
        tantivy.Filter.stemmer("english"),
    ):
        build = build.filter(step)
    return build.build()


_ANALYZER = analyzer()
_CONTENT_ANALYZER = analyzer(KEYWORD_STOP_WORDS)  # "does" has the stem "doe"


def prepare(text: str) -> str:
    r"""Return a text whose words the analyzer can take: with bigrams, and with its identifiers' other forms at the end.

    The order of the words stays, so that phrases are found.

    >>> prepare("Set brokerUrl or broker_url.")
    'Set brokerUrl or broker_url.\nbroker Url brokerurl'
    """
    spaced = text if text.isascii() else segment(text)
    forms: dict[str, None] = {}
    done = 0
    for hint in _HINT.finditer(text):
        start = text.rfind(" ", done, hint.start()) + 1 or done
        done = hint.end()
        for word in text[start:done].split():
            forms |= dict.fromkeys(_forms_of_short(word) if len(word) <= _LONGEST else _forms_of(word))
    return f"{spaced}\n{' '.join(forms)}" if forms else spaced


def _forms_of(word: str) -> tuple[str, ...]:
    """Return the parts of a camel-case word, and an identifier with punctuation as one word."""
    parts = [part for camel in _CAMEL.findall(word) for part in _HUMP.split(camel)]
    wholes = (_JOINTS.sub("", identifier).lower() for identifier in _JOINED.findall(word))
    return (*parts, *(whole for whole in wholes if len(whole) <= _LONGEST))


_forms_of_short = lru_cache(maxsize=_MOST_CACHED)(_forms_of)  # the same words are in many texts


def tokens(text: str) -> list[str]:
    """Return the terms of a text in the order in which an index has them, stop words included."""
    found: list[str] = _ANALYZER.analyze(prepare(text))
    return found


def terms(text: str) -> list[str]:
    """Return the terms of a text, each once, stop words included."""
    return list(dict.fromkeys(tokens(text)))


@lru_cache(maxsize=4_096)  # the stages of a question ask for its terms again, and many questions have the same words
def content_terms(text: str) -> tuple[str, ...]:
    """Return the terms of a text, each once, without stop words and words such as "being", whose stem is one."""
    found = dict.fromkeys(_CONTENT_ANALYZER.analyze(prepare(text)))
    return tuple(term for term in found if term not in KEYWORD_STOP_WORDS)


def phrases(text: str) -> list[list[str]]:
    """Return the quoted phrases of a question, each as a list of terms. A single word is not a phrase."""
    quoted = ("".join(match) for match in _QUOTED.findall(text))
    found = [_ANALYZER.analyze(segment(phrase)) for phrase in quoted]
    return [phrase for phrase in found if len(phrase) > 1]


def hashes(text: str) -> set[int]:
    """Return the 24-bit hashes of a text's terms, without stop words."""
    words = map(str.strip, text.split(), repeat(_PUNCTUATION))  # which changes no term
    return set(chain.from_iterable(map(_HASHES.__getitem__, words)))


class _Hashes(dict[str, tuple[int, ...]]):
    """The hashes of the terms of words: the same words are in many texts. Long words are not kept."""

    def __missing__(self, word: str) -> tuple[int, ...]:
        is_plain = word.isascii() and word.isalnum() and _HINT.search(word) is None
        terms = _CONTENT_ANALYZER.analyze(word if is_plain else prepare(word))
        found = tuple({crc32(term.encode("utf-8")) & _MASK for term in terms if term not in KEYWORD_STOP_WORDS})
        if len(word) <= _LONGEST:
            if len(self) >= _MOST_CACHED:
                self.clear()
            self[word] = found
        return found


_HASHES = _Hashes()


def terms_of_names(norms: Sequence[str]) -> tuple[Keys, npt.NDArray[np.uint32]]:
    """Return the positions of normalised names, and the 24-bit hashes of their terms, without stop words."""
    found = [sorted(hashes(norm)) for norm in norms]
    counts = np.fromiter(map(len, found), np.int64, len(found))
    numbers = np.fromiter(chain.from_iterable(found), np.uint32, int(counts.sum()))
    return np.arange(len(found)).repeat(counts), numbers


def matched(numbers: npt.NDArray[np.uint32], wanted: Sequence[str]) -> Keys:
    """Return for each hash the position of the wanted term that has it; -1 for none."""
    if len(wanted) == 0:
        return np.full(len(numbers), -1, np.int64)
    own = np.array([crc32(term.encode("utf-8")) & _MASK for term in wanted], np.uint32)
    order = own.argsort()
    at = np.minimum(own[order].searchsorted(numbers), len(own) - 1)
    return np.where(own[order[at]] == numbers, order[at], -1)


def pack_terms(text: str, facts: Sequence[str]) -> tuple[bytes, bytes | None]:
    """Return the packed hashes of a chunk's terms, and which of them each of its facts has.

    The second are the terms of facts that the chunk lacks (their number, and their hashes), then one bit for each
    term of the chunk and each of these, for each fact; None without facts. About one lookup in 160,000 is a false
    positive.

    For a long chunk the bits would take facts times terms. There the second are the number 2**24 - 1, the terms that
    the chunk lacks as above, how many terms each fact has (the number of facts, then theirs), and their places.
    """
    of_facts = [hashes(fact) for fact in facts]
    at, rest, found = 0, [], set[int]()
    for fact, numbers in zip(facts, of_facts, strict=True):  # most facts are sentences of the chunk
        start = text.find(fact, at)
        end = start + len(fact)
        if start >= 0 and text[start - 1 : start].strip() == text[end : end + 1].strip() == "":
            rest.append(text[at:start])
            found |= numbers
            at = end
    own = sorted(found | hashes(" ".join((*rest, text[at:]))))
    packed = _pack(own)
    if not facts:
        return packed, None
    more = sorted(set().union(*of_facts).difference(own))
    if len(own) + len(more) > _MOST_BITS:
        place = {number: at for at, number in enumerate([*own, *more])}
        held = [sorted(place[number] for number in fact) for fact in of_facts]
        counts = [len(held), *map(len, held)]
        return packed, _LISTED + _pack([len(more), *more, *counts, *chain.from_iterable(held)])
    bit = {number: 1 << at for at, number in enumerate([*own, *more])}
    width = (len(bit) + 7) // 8
    bits = [sum(map(bit.__getitem__, held)).to_bytes(width, "little") for held in of_facts]
    return packed, b"".join([_pack([len(more), *more]), *bits])


class TermTable:
    """Which of the wanted terms chunks and their facts contain.

    ``packed`` has what :func:`pack_terms` returned for each chunk, and its token ids, which are not read here.
    ``contained`` has one row for each chunk, one column for each term.
    """

    def __init__(self, packed: Sequence[tuple[bytes, bytes, bytes]], wanted: Sequence[str]) -> None:
        lists, bits, own = [], [], []
        self._listed: dict[int, tuple[Keys, Keys]] = {}  # of long chunks: ends and places of facts' terms
        for at, (terms, facts, _) in enumerate(packed):
            own.append(len(terms) // TERM_BYTES)
            if facts[:TERM_BYTES] == _LISTED:
                more, ends, places = _unpack_lists(facts)
                self._listed[at] = ends, places
                lists.append(terms + more)
                bits.append(b"")
                continue
            end = TERM_BYTES * (1 + int.from_bytes(facts[:TERM_BYTES], "little"))
            lists.append(terms + facts[TERM_BYTES:end] if end > TERM_BYTES else terms)
            bits.append(facts[end:])
        self._widths = (np.array([len(terms) for terms in lists], np.int64) // TERM_BYTES + 7) // 8
        sizes = np.array([len(of_facts) for of_facts in bits], np.int64)
        self._bits, self._starts = np.frombuffer(b"".join(bits), np.uint8), sizes.cumsum() - sizes
        self._places = term_places(lists, wanted)
        self.contained = (self._places >= 0) & (self._places < np.array(own, np.int64)[:, None])

    def of_facts(self, chunks: Keys, ordinals: Keys) -> npt.NDArray[np.bool_]:
        """Return which terms facts contain. A fact is given by the position of its chunk and its number in it."""
        place = self._places[chunks]
        there = place >= 0
        found = np.zeros(place.shape, np.bool_)
        for i in np.flatnonzero(np.isin(chunks, list(self._listed))).tolist() if self._listed else ():
            ends, places = self._listed[int(chunks[i])]
            number = int(ordinals[i])
            found[i] = there[i] & np.isin(place[i], places[ends[number] : ends[number + 1]])
            there[i] = False
        at = there.nonzero()
        place, starts = place[at], self._starts[chunks] + ordinals * self._widths[chunks]
        found[at] = self._bits[starts[at[0]] + (place >> 3)] >> (place & 7) & 1
        return found


def is_packed(terms: bytes, facts: bytes | None, count: int) -> bool:
    """Return whether :func:`pack_terms` may have returned these for a chunk with ``count`` facts."""
    if facts is None:
        return count == 0
    if facts[:TERM_BYTES] == _LISTED:
        if len(facts) % TERM_BYTES:
            return False
        _, ends, places = _unpack_lists(facts)
        return len(ends) == count + 1 and int(ends[-1]) == len(places)
    more = int.from_bytes(facts[:TERM_BYTES], "little")
    return len(facts) == TERM_BYTES * (1 + more) + count * ((len(terms) // TERM_BYTES + more + 7) // 8)


def _unpack_lists(facts: bytes) -> tuple[bytes, Keys, Keys]:
    """Return the packed terms that a chunk lacks, where each fact's terms begin and end, and the places of all."""
    start = 2 * TERM_BYTES + TERM_BYTES * int.from_bytes(facts[TERM_BYTES : 2 * TERM_BYTES], "little")
    low, middle, high = np.frombuffer(facts[start:], np.uint8).reshape(-1, TERM_BYTES).astype(np.int64).T
    numbers = low | middle << 8 | high << 16
    count = int(numbers[0]) if len(numbers) else 0
    return facts[2 * TERM_BYTES : start], np.concatenate([[0], np.cumsum(numbers[1 : count + 1])]), numbers[count + 1 :]


def term_places(packed: Sequence[bytes], wanted: Sequence[str]) -> Keys:
    """Return the position of each wanted term in each packed list of hashes; -1 if it is not there."""
    sizes = np.fromiter(map(len, packed), np.int64, len(packed)) // TERM_BYTES
    starts = np.cumsum(sizes) - sizes
    found = np.full((len(packed), len(wanted)), -1, np.int64)
    numbers = np.array([crc32(term.encode("utf-8")) & _MASK for term in wanted], np.uint32)
    everything = np.frombuffer(b"".join(packed), np.uint8).reshape(-1, TERM_BYTES)
    # Most hashes differ in their first byte already.
    begins = np.zeros(256, np.bool_)
    begins[numbers & 0xFF] = True
    at = np.flatnonzero(begins[everything[:, 0]])
    low, middle, high = everything[at].astype(np.uint32).T
    hit, column = np.nonzero((low | middle << 8 | high << 16)[:, None] == numbers)
    at = at[hit]
    owner = np.searchsorted(starts, at, "right") - 1
    found[owner, column] = at - starts[owner]
    return found


def _pack(numbers: Sequence[int]) -> bytes:
    packed = bytearray(struct.pack(f"<{len(numbers)}I", *numbers))
    del packed[TERM_BYTES::4]
    return bytes(packed)
