"""How texts become terms, for keyword search and for the terms that are stored with each chunk.

Words are lower-cased, folded to ASCII and stemmed; Chinese and Japanese become character bigrams. An
identifier is indexed by its parts and as a whole: ``CELERY_BROKER_URL``, ``celery.brokerUrl`` and
``celery-broker-url`` have the terms ``celeri``, ``broker``, ``url`` and ``celerybrokerurl``.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from zlib import crc32

import numpy as np
import numpy.typing as npt
import tantivy

from graphrag_core.text import segment

_MASK = 0xFFFFFF
_LONGEST = 60  # characters of a term; longer ones are left out
_STOPWORDS = frozenset(
    (
        "a an and are as at be but by did do does for from had has have how in into is it its not of on or such "
        "that the their then there these they this to was were what when where which who whom whose why will with"
    ).split()
)
_JOINED = re.compile(r"[^\W_]+(?:[_./:-]{1,2}[^\W_]+)+")
_CAMEL = re.compile(r"[^\W_]*[a-z][A-Z][^\W_]*|[A-Z]{2,}[a-z][^\W_]*")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_JOINTS = re.compile(r"[_./:-]+")
_QUOTED = re.compile(r'"([^"]{3,200})"|“([^”]{3,200})”|„([^“”]{3,200})[“”]|「([^」]{2,200})」|《([^》]{2,200})》')


def analyzer() -> tantivy.TextAnalyzer:
    """Return the analyzer that every keyword index uses."""
    build = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for step in (
        tantivy.Filter.remove_long(_LONGEST),
        tantivy.Filter.lowercase(),
        tantivy.Filter.ascii_fold(),
        tantivy.Filter.stemmer("english"),
    ):
        build = build.filter(step)
    return build.build()


_ANALYZER = analyzer()


def prepare(text: str) -> str:
    r"""Return a text whose words the analyzer can take: with bigrams, and with its identifiers' other forms at the end.

    The order of the words stays, so that phrases are found.

    >>> prepare("Set brokerUrl or broker_url.")
    'Set brokerUrl or broker_url.\nbroker Url brokerurl'
    """
    spaced = text if text.isascii() else segment(text)
    more = " ".join(dict.fromkeys(_other_forms(text)))
    return f"{spaced}\n{more}" if more else spaced


def _other_forms(text: str) -> Iterator[str]:
    """Yield the parts of camel-case words, and identifiers with punctuation as one word."""
    for word in dict.fromkeys(text.split()):
        if word.isalpha() and (word.islower() or word.istitle()):
            continue
        for camel in _CAMEL.findall(word):
            yield from _HUMP.split(camel)
        for identifier in _JOINED.findall(word):
            whole = _JOINTS.sub("", identifier)
            if len(whole) <= _LONGEST:
                yield whole.lower()


def terms(text: str) -> list[str]:
    """Return the terms of a text, each once, stop words included."""
    return list(dict.fromkeys(_ANALYZER.analyze(prepare(text))))


def content_terms(text: str) -> list[str]:
    """Return the terms of a text, each once, without stop words."""
    return [term for term in terms(text) if term not in _STOPWORDS]


def phrases(text: str) -> list[list[str]]:
    """Return the quoted phrases of a question, each as a list of terms. A single word is not a phrase."""
    quoted = ("".join(match) for match in _QUOTED.findall(text))
    found = [_ANALYZER.analyze(segment(phrase)) for phrase in quoted]
    return [phrase for phrase in found if len(phrase) > 1]


def pack_terms(text: str) -> bytes:
    """Return the packed 24-bit hashes of a text's terms, without stop words.

    About one lookup in 160,000 is a false positive.
    """
    found = np.array([term_hash(term) for term in content_terms(text)], "<u4")
    return np.unique(found & _MASK).view(np.uint8).reshape(-1, 4)[:, :3].tobytes()


@lru_cache(maxsize=65_536)
def term_hash(term: str) -> int:
    """Return a 32-bit hash of a term. It is the same on every machine and in every version."""
    return crc32(term.encode("utf-8"))


def contained(packed: Sequence[bytes], wanted: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return which of the wanted terms each packed list of hashes has."""
    sizes = np.fromiter(map(len, packed), np.int64, len(packed)) // 3
    owners = np.repeat(np.arange(len(packed)), sizes)
    found = np.zeros((len(packed), len(wanted)), np.bool_)
    places = np.frombuffer(b"".join(packed), np.uint8).reshape(-1, 3).astype(np.uint32)
    everything = places[:, 0] | places[:, 1] << 8 | places[:, 2] << 16
    for column, term in enumerate(wanted):
        found[owners[everything == (term_hash(term) & _MASK)], column] = True
    return found
