"""How texts become terms, for keyword search and for the terms that are stored with each chunk.

Words are lower-cased, folded to ASCII and stemmed; Chinese and Japanese become character bigrams. An
identifier is indexed by its parts and as a whole: ``CELERY_BROKER_URL``, ``celery.brokerUrl`` and
``celery-broker-url`` have the terms ``celeri``, ``broker``, ``url`` and ``celerybrokerurl``.
"""

import re
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


def matched(numbers: npt.NDArray[np.uint32], wanted: Sequence[str]) -> tuple[Keys, Keys]:
    """Return the positions of the hashes that wanted terms have, and the position of the term of each."""
    own = np.array([crc32(term.encode("utf-8")) & _MASK for term in wanted], np.uint32)
    order = own.argsort(kind="stable")
    own = own[order]
    may_match = np.zeros(1 << 16, np.bool_)  # by the first bits of a hash: nearly all are of other terms
    may_match[own >> 8] = True
    at = np.flatnonzero(may_match.take(numbers >> 8))
    place = np.minimum(own.searchsorted(numbers[at]), len(own) - 1)
    same = own[place] == numbers[at] if len(own) else np.zeros(0, np.bool_)
    return at[same], order[place[same]]
