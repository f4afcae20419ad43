"""Which candidates are names: decided by how their source uses them.

A source is a document, or the pieces of one that an application cut before adding them. "Session" is a name in a
source that has it inside a sentence at least as often as "session". Where the uses say nothing, as for the label of a
table, the dictionary decides. Names of several words are found in lower case too. No other source changes a decision.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, compress
from pathlib import PurePath
from typing import Any, NamedTuple

from graphrag_core.extract.names import NameMatch, outside
from graphrag_core.extract.subjects import Subjects
from graphrag_core.model import ADAPTER_KEY, Chunk
from graphrag_core.text import CJK, FUNCTION, normalise
from graphrag_core.text.sentences import Prose
from graphrag_core.text.words import VERBS, WORD_OR_IDENTIFIER, is_ordinary

_SOURCE_KEYS = ("source", "file_path", "url")
_POSITION_KEYS = frozenset({"start_index", "page", "page_label", "page_number", ADAPTER_KEY})
_SUBJECT_VERB = re.compile(
    r"(?:['’]s|,)?\s+(?:is|was|has|had|does|did|will|can|became|began|won|joined|says?|said|wrote|uses?|provides?"
    r"|supports?|owns?|leads?|runs?|handles?|stores?|sends?|issues?)\b"
)
_INFLECTED = re.compile(r"(?:ing|ed|ly|able|ible|ions?|ments?|ness|i[sz]es?|ers|ors|i[ct]y|ous|al|ic|less|ful|ive)$")
_CONTINUES = frozenset(",;'’/-&")
_CAPITALS_FACTOR = 3  # a word in capitals is a name unless it is that many times as frequent in lower case
_SHORT = 2  # chunks of a source that may not have room for a second use of a name
_LONGEST_PHRASE = 5  # words of a name that is found in lower case
_CJK_NAME = re.compile(f"[{CJK}]{{3,}}")


def sources(chunks: Sequence[Chunk]) -> list[list[int]]:
    """Return the positions of the chunks of each source, in order.

    The pieces of a source have one ``source`` in their metadata (LangChain) or one ``ref_doc_id`` (LlamaIndex), and
    the same other metadata except for their position in it: otherwise a name could be seen across a filter.
    """
    positions: dict[str, list[int]] = {}
    for position, chunk in enumerate(chunks):
        positions.setdefault(source_of(chunk.document_id, chunk.metadata), []).append(position)
    return list(positions.values())


def source_of(document_id: str, metadata: Mapping[str, Any]) -> str:
    """Return a text that is the same for all pieces of a source."""
    source = source_and_rest(metadata)
    return document_id if source is None or source[0] == document_id else json.dumps(source, sort_keys=True)


def source_and_rest(metadata: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """Return the source that metadata names, and the other metadata without the position in it; None without one."""
    stored = metadata.get(ADAPTER_KEY)
    source = stored.get("source") if isinstance(stored, Mapping) else None
    source = source or next(filter(None, map(metadata.get, _SOURCE_KEYS)), None)
    if not isinstance(source, str):
        return None
    return source, {key: value for key, value in metadata.items() if key not in _POSITION_KEYS}


class Reading(NamedTuple):
    """A chunk with its candidates: those in the prose, and the names in inline code (``literals``)."""

    chunk: Chunk
    subjects: Subjects
    prose: Prose
    found: list[NameMatch]
    literals: list[NameMatch]


class SourceNames:
    """The names of a source."""

    def __init__(self, readings: Sequence[Reading]) -> None:
        matches = [match for reading in readings for match in reading.found]
        named = chain.from_iterable(reading.subjects.names() for reading in readings)
        names = dict.fromkeys(name for name in named if name[0] != "→")  # in order: results must not vary
        stated = _stated(readings)
        self._is_short = len(readings) <= _SHORT
        self._inside = _names_inside(readings)
        self._words = Counter(chain.from_iterable(WORD_OR_IDENTIFIER.findall(one.prose.text) for one in readings))
        candidates = {*names, *[match.name for match in matches]}
        self._no_names = {name for name in candidates - stated if self._is_ordinary(name)}
        certain = dict.fromkeys(match.name for match in matches if match.certain)
        self._phrases = _Phrases(name for name in (*certain, *names) if name not in self._no_names)

    def _is_ordinary(self, name: str) -> bool:
        """Return whether a single word is not a name, as the source has it in lower case more often."""
        if not name.isalpha() or len(name) < 2 or not (name[1:].islower() or name.isupper()):
            return False
        count, inside = self._words[name.lower()], self._inside[name]
        if name.isupper():
            return count > _CAPITALS_FACTOR * inside
        return count > inside if count or inside else is_ordinary(name.lower())

    def subjects(self, subjects: Subjects) -> Subjects:
        """Return the names of what a chunk is about."""

        def of(names: Iterable[str]) -> tuple[str, ...]:
            return tuple(name for name in names if name not in self._no_names)

        headings = ((start, of(names)) for start, names in subjects.headings)
        terms = ((block, of(names)) for block, names in subjects.terms)
        return subjects._replace(
            title=of(subjects.title),
            headings=tuple(pair for pair in headings if pair[1]),
            terms=tuple(pair for pair in terms if pair[1]),
        )

    def matches(self, reading: Reading) -> list[NameMatch]:
        """Return the names in the prose of a chunk."""
        text, starts = reading.prose.text, reading.prose.starts
        matches = [
            match
            for match in reading.found
            if match.name not in self._no_names
            and (match.certain or self._inside[match.name] or (match.start in starts and self._opens(text, match)))
        ]
        if phrases := list(self._phrases.find(text)):
            matches += outside(phrases, sorted((match.start, match.end) for match in matches))
        return matches

    def _opens(self, text: str, match: NameMatch) -> bool:
        """Return whether a word that the source only has at the start of sentences is a name."""
        lower = match.name.lower()
        if self._words[lower] or is_ordinary(lower) or lower in VERBS:
            return False
        if self._is_short and _INFLECTED.search(lower) is None:
            return True
        return _SUBJECT_VERB.match(text, match.end) is not None


def _stated(readings: Sequence[Reading]) -> set[str]:
    """Return the titles, except those that are the name of a file, and the defined terms."""
    titles = (one.subjects.title for one in readings if not _is_file_name(one.chunk))
    return set().union(*titles, *(names for one in readings for _, names in one.subjects.terms))


def _is_file_name(chunk: Chunk) -> bool:
    """Return whether a chunk has the name of its file as title, which says nothing of what is a name."""
    places = (chunk.metadata.get(key) for key in ("file_name", *_SOURCE_KEYS))
    return any(normalise(PurePath(place).stem) == normalise(chunk.title) for place in places if isinstance(place, str))


def _names_inside(readings: Sequence[Reading]) -> Counter[str]:
    """Count how often names are inside a sentence: a word, a number or a comma precedes them."""
    inside: Counter[str] = Counter()
    for reading in readings:
        text, starts = reading.prose.text, reading.prose.starts
        for name, start, _, is_certain in reading.found:
            if is_certain and start not in starts:
                before = text[max(start - 2, 0) : start].rstrip()[-1:]
                inside[name] += before.isalnum() or before in _CONTINUES
    return inside


class _Phrases:
    """Names of several words, and Chinese and Japanese ones, to be found in texts in any case."""

    def __init__(self, names: Iterable[str]) -> None:
        self._by_words: dict[tuple[str, ...], list[str]] = {}
        self._lengths: dict[str, dict[int, None]] = {}  # of the names that begin with a word
        self._cjk: list[str] = []
        for name in dict.fromkeys(names):
            if name.isascii() and name.isalnum():
                continue
            words = normalise(name).split(" ")
            if 2 <= len(words) <= _LONGEST_PHRASE and FUNCTION.isdisjoint(words) and min(map(len, words)) > 1:
                self._by_words.setdefault(tuple(words), []).append(name)
                self._lengths.setdefault(words[0], {})[len(words)] = None
            elif not name.isascii() and _CJK_NAME.fullmatch(name):
                self._cjk.append(name)

    def find(self, text: str) -> Iterator[NameMatch]:
        """Yield the names in a text: their words, with one character between them."""
        words = [*map(str.lower, WORD_OR_IDENTIFIER.findall(text))] if self._lengths else []
        found: list[re.Match[str]] = []
        for at in compress(range(len(words)), map(self._lengths.__contains__, words)):
            for length in self._lengths[words[at]]:
                phrase = tuple(words[at : at + length])
                if len(phrase) == length and (names := self._by_words.get(phrase)):
                    found = found or [*WORD_OR_IDENTIFIER.finditer(text)]
                    start, end = found[at].start(), found[at + length - 1].end()
                    if end - start == sum(map(len, phrase)) + length - 1:
                        yield from (NameMatch(name, start, end) for name in names)
        for name in self._cjk:
            at = text.find(name)
            while at >= 0:
                yield NameMatch(name, at, at + len(name))
                at = text.find(name, at + len(name))
