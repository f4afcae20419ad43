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

from graphrag_core.extract.names import NO_NAMES, NameMatch, outside
from graphrag_core.extract.subjects import Subjects
from graphrag_core.model import ADAPTER_KEY, Chunk
from graphrag_core.text import CJK, FUNCTION, normalise
from graphrag_core.text.sentences import Prose
from graphrag_core.text.words import WORD_OR_IDENTIFIER, is_ordinary

_SOURCE_KEYS = ("source", "file_path", "url")
_POSITION_KEYS = frozenset({"start_index", "page", "page_label", "page_number", ADAPTER_KEY})
_SUBJECT_VERB = re.compile(
    r"(?:['’]s|,)?\s+(?:is|was|has|had|does|did|will|can|became|began|won|joined|says?|said|wrote|uses?|provides?"
    r"|supports?|owns?|leads?|runs?|handles?|stores?|sends?|issues?)\b"
)
_INFLECTED = re.compile(r"(?:ing|ed|ly|able|ible|ions?|ments?|ness|i[sz]es?|ers|ors|i[ct]y|ous|al|ic|less|ful|ive)$")
_NUMBERED = re.compile(r"([a-z]{3,})[0-9]{1,2}[a-z]?")
_CJK_NAME = re.compile(f"[{CJK}]{{3,}}")
_MAX_PHRASE = 5  # words of a name that is found in lower case


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
        self._is_short = len(readings) <= 2  # there may not be room for a second use of a name
        self._words = Counter(chain.from_iterable(WORD_OR_IDENTIFIER.findall(one.prose.text) for one in readings))
        self._inside: Counter[str] = Counter()  # uses inside a sentence
        names = dict.fromkeys(name for one in readings for name in one.subjects.names() if name[0] != "→")
        certain: dict[str, None] = {}  # in order: results must not vary
        for _, _, prose, found, _ in readings:
            for name, start, _, is_certain in found:
                if is_certain:
                    certain[name] = None
                    self._inside[name] += start not in prose.starts and _is_inside(prose.text, start)
        stated = {name for one in readings for name in _stated(one)}
        candidates = {*names, *(match.name for one in readings for match in one.found)}
        self._no_names = {name for name in candidates - stated if self._is_ordinary(name)}
        self._phrases: dict[tuple[str, ...], list[str]] = {}
        self._lengths: dict[str, dict[int, None]] = {}  # of the phrases that begin with a word
        self._cjk: list[str] = []
        self._add_phrases(dict.fromkeys((*certain, *names)))

    def _add_phrases(self, names: Iterable[str]) -> None:
        """Remember names of several words, and Chinese and Japanese ones."""
        for name in names:
            if not name.isalnum() and name not in self._no_names:
                words = tuple(normalise(name).split(" "))
                if 2 <= len(words) <= _MAX_PHRASE and FUNCTION.isdisjoint(words) and min(map(len, words)) > 1:
                    self._phrases.setdefault(words, []).append(name)
                    self._lengths.setdefault(words[0], {})[len(words)] = None
            elif not name.isascii() and _CJK_NAME.fullmatch(name):
                self._cjk.append(name)

    def _is_ordinary(self, name: str) -> bool:
        """Return whether a single word is not a name, as the source has it in lower case more often."""
        if numbered := _NUMBERED.fullmatch(name):  # once, with the number of a footnote
            return self._words[name] == 1 and (numbered[1] in self._words or is_ordinary(numbered[1]))
        if not name.isalpha() or len(name) < 2 or not (name[1:].islower() or name.isupper()):
            return False
        count, inside = self._words[name.lower()], self._inside[name]
        if name.isupper():  # a name unless it is that many times as frequent in lower case
            return count > 3 * inside
        return count > inside if count or inside else is_ordinary(name.lower())

    def subjects(self, subjects: Subjects) -> Subjects:
        """Return the names of what a chunk is about."""

        def of(names: Iterable[str]) -> tuple[str, ...]:
            return tuple(name for name in names if name not in self._no_names)

        return subjects._replace(
            title=of(subjects.title),
            headings=tuple((start, kept) for start, names in subjects.headings if (kept := of(names))),
            terms=tuple((block, kept) for block, names in subjects.terms if (kept := of(names))),
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
        if phrases := [*self._phrases_in(text)]:
            matches += outside(phrases, sorted((match.start, match.end) for match in matches))
        return matches

    def _opens(self, text: str, match: NameMatch) -> bool:
        """Return whether a word that the source only has at the start of sentences is a name."""
        lower = match.name.lower()
        if self._words[lower] or is_ordinary(lower) or lower in NO_NAMES:
            return False
        if self._is_short and _INFLECTED.search(lower) is None:
            return True
        return _SUBJECT_VERB.match(text, match.end) is not None

    def _phrases_in(self, text: str) -> Iterator[NameMatch]:
        """Yield names of several words in any case: their words, with one character between them. And Chinese ones."""
        words = [*map(str.lower, WORD_OR_IDENTIFIER.findall(text))] if self._phrases else []
        spans: list[tuple[int, int]] = []
        for at in compress(range(len(words)), map(self._lengths.__contains__, words)):
            for length in self._lengths[words[at]]:
                phrase = tuple(words[at : at + length])
                if len(phrase) == length and phrase in self._phrases:
                    spans = spans or [match.span() for match in WORD_OR_IDENTIFIER.finditer(text)]
                    start, end = spans[at][0], spans[at + length - 1][1]
                    if end - start == sum(map(len, phrase)) + length - 1:
                        yield from (NameMatch(name, start, end) for name in self._phrases[phrase])
        for name in self._cjk:
            yield from (NameMatch(name, *match.span()) for match in re.finditer(name, text))


def _is_inside(text: str, start: int) -> bool:
    """Return whether a name is inside a sentence: a word, a number, a comma or a bracket is before it."""
    before = text[max(start - 2, 0) : start].rstrip()[-1:]
    return not before or before.isalnum() or before in ",;'’/-&"


def _stated(reading: Reading) -> Iterator[str]:
    """Yield the title, except if it is the name of a file, and the defined terms."""
    paths = (reading.chunk.metadata.get(key) for key in ("file_name", *_SOURCE_KEYS))
    if normalise(reading.chunk.title) not in {
        normalise(PurePath(path).stem) for path in paths if isinstance(path, str)
    }:
        yield from reading.subjects.title
    for _, names in reading.subjects.terms:
        yield from names
