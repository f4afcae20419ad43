"""Which candidates are names: decided by how their source uses them.

A source is a document, or the pieces of one that an application cut before adding them. "Session" is a name in a
source that has it inside a sentence at least as often as "session". Where the uses say nothing, as for the label of a
table, the dictionary decides. A heading is a name if the text speaks of it; otherwise the names in it are. Names of
several words are found in lower case too. A short form that the source introduces is the long name elsewhere in it:
"Bruce" after "Bruce Perens", "ACL" after "access control list (ACL)". Other sources never change a decision.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate, chain, compress
from operator import attrgetter
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from graphrag_core.extract.subjects import Subjects
from graphrag_core.model import ADAPTER_KEY, Chunk
from graphrag_core.text import CJK, FUNCTION, normalise, title_names
from graphrag_core.text.mentions import NameMatch, code_names, find_names, outside
from graphrag_core.text.sentences import Prose
from graphrag_core.text.words import COMMON_NOUNS, OPENERS, VERBS, is_ordinary

Instead = dict[str, tuple[str, ...]]
"""What candidates stand for: other names, or none."""

_SOURCE_KEYS = ("source", "file_path", "url")
_POSITION_KEYS = frozenset({"start_index", "page", "page_label", "page_number", ADAPTER_KEY})
_WORD_OR_GAP = re.compile(r"([^\W_]+)")
_SUBJECT_VERB = re.compile(
    r"(?:['’]s|,)?\s+(?:is|was|has|had|does|did|will|can|became|began|won|joined|says?|said|wrote|uses?|provides?"
    r"|supports?|owns?|leads?|runs?|handles?|stores?|sends?|issues?)\b"
)
_INFLECTED = re.compile(r"(?:ing|ed|ly|able|ible|ions?|ments?|ness|i[sz]es?|ers|ors|i[ct]y|ous|al|ic|less|ful|ive)$")
_SENTENCE = re.compile(  # as a heading
    r"^(?:[a-z]+ing|how|what|when|where|why|which|who|if|to|do|use)\b|\b(?:is|are|was|do|does|not|can|should|your|you)\b"
    r"|(?:\S+\s+){6}",
    re.IGNORECASE,
)
_LINKING = frozenset("the a an in on at to for".split())
_CONTINUES = frozenset(",;'’/-&")
_CAPITALS_FACTOR = 3  # a word in capitals is a name unless it is that many times as frequent in lower case
_SHORT = 2  # chunks of a source that may not have room for a second use of a name
_LONGEST_PHRASE = 5  # words of a name that is found in lower case
_CJK_NAME = re.compile(f"[{CJK}]{{3,}}")
_CODE_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_HAS_CASE_OR_JOINT = re.compile(r"[_.]|[a-z][A-Z]")
_MOST_CODE_NAMES = 20
_NUMBERED = re.compile(r"(.*[^\W\d_]{3})[0-9]{1,2}|[0-9]{1,2} .+")
_UNNUMBERED_WORD = re.compile(r"[^\W_][\w.-]*(?<![\d.-])(?!\w)")
_PARTICLES = frozenset("van von de der den da di del la le bin ibn al".split())
_PART = re.compile(r"[^\W\d_]{2,}(?:['’-][^\W\d_]+)?")
_SHORTEST = 3  # characters
_MOST_WORDS = 4
_PERSON = re.compile(r"\b(?:[Hh]e|[Ss]he|[Hh]is|[Hh]er|[Hh]im|[Ww]ho)\b")
_IS = re.compile(r"\b([^\W\d_a-z][\w'’-]+) (?:is|was|has|had|did|does|will|would)\b")
_ADDRESSED = re.compile(
    r"([^\W\d_a-z][\w'’-]+)(?: [^\W\d_a-z][\w.'’-]*){1,3} <[^<>@\s]+@"
)  # Ada Lovelace <ada@example.org>
_ACTS = re.compile(
    r"\b([^\W\d_a-z][\w'’-]+),? (?:(?:has|had|will|also|already|later|then|would) )?(?:said|says|asks?|asked|wrote"
    r"|writes|thinks?|thought|wants?|wanted|knows?|knew|works?|worked|prefers?|speaks?|spoke|offers|offered|suggests?"
    r"|suggested|agreed|agrees|accepts|accepted|joined|joins|left|met|told|called|visited|studied|explained|proposed"
    r"|decided|reported|reports|signed|died|married|taught|retired|lives|lived|checks|checked|manages|managed|leads|led"
    r"|tested|plans|talks|talked|approves|approved|negotiates|presented|founded|orders|ordered|attended)\b"
)
_GREETED = re.compile(r"\b(?:Dear|Hello|Hi) ([^\W\d_a-z][\w'’-]+)")
# A person is not written "the Bruce" or "in Bruce". A place, a people, a company or a product often is.
_NO_PERSON = re.compile(r"\b(?:[Ii]n|[Aa]t|[Nn]ear|[Tt]he|[Aa]n?|[Aa]cross|[Ww]ithin|[Uu]sing)\s+([^\W\d_][\w'’-]*)")
_LOWER = re.compile(r"(?<![\w.@/<-])[^\W\d_A-Z][^\W_]*(?=[\s,;:!?)]|\.\s|\Z)")  # not in an address


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
    """A chunk with its candidates.

    Attributes
    ----------
    found
        The names that may be in the prose. A word that only the start of a sentence capitalises is not certain.
    literals
        The names in inline code.
    aliases
        The short forms that the chunk introduces, and their long names.
    """

    chunk: Chunk
    subjects: Subjects
    prose: Prose
    found: list[NameMatch]
    literals: list[NameMatch]
    aliases: list[tuple[str, str]]


class SourceNames:
    """The names of a source."""

    def __init__(self, readings: Sequence[Reading]) -> None:
        candidates = [match for reading in readings for match in reading.found]
        certain = Counter([name for name, _, _, is_certain in candidates if is_certain])
        named = (name for reading in readings for name in reading.subjects.names())
        subjects = dict.fromkeys(name for name in named if name[0] != "→")  # in order: results must not vary
        stated = _stated(readings)
        texts = [reading.prose.text for reading in readings]
        self._is_short = len(readings) <= _SHORT
        self._inside = _names_inside(readings)
        words = self._ordinary_words({*subjects, *[match[0] for match in candidates]}, texts)
        self._instead: Instead = dict.fromkeys(words - stated, ())
        shorter = _without_openers(readings, certain, self._inside)
        self._instead |= {name: rest for name, rest in shorter.items() if name not in subjects}
        self._instead |= self._in_headings(subjects.keys() - stated - certain.keys(), texts)
        self._instead |= _footnotes(readings)
        self._instead |= _long_forms(readings) | self._full_names(readings)
        self._candidates, self._readings = (*certain, *subjects), readings
        self._phrases = _Phrases(name for name in self._candidates if name not in self._instead)

    @cached_property
    def _known(self) -> set[str]:
        """The normalised names."""
        literals = (match.name for reading in self._readings for match in reading.literals)
        return {normalise(name) for name in (*self._candidates, *literals) if name not in self._instead}

    def _ordinary_words(self, names: Collection[str], texts: Sequence[str]) -> set[str]:
        """Return the single words that are not names, as the source has them in lower case more often."""
        words = {name for name in names if name.isalpha() and len(name) > 1 and (name[1:].islower() or name.isupper())}
        lower = {word.lower() for word in words}
        self._lower = Counter(filter(lower.__contains__, chain.from_iterable(map(_single_words, texts))))
        ordinary = set()
        for word in words:
            count, inside = self._lower[word.lower()], self._inside[word]
            if word.isupper():
                is_ordinary_word = count > _CAPITALS_FACTOR * inside
            else:
                is_ordinary_word = count > inside if count or inside else is_ordinary(word.lower())
            if is_ordinary_word:
                ordinary.add(word)
        return ordinary

    def _in_headings(self, headings: Collection[str], texts: Sequence[str]) -> Instead:
        """Return the names in headings that are sentences and that the text does not have.

        "Stopping the Exim daemon on Solaris" is not a name, but "Exim" and "Solaris" are.
        """
        headings = [heading for heading in headings if " " in heading and _SENTENCE.search(heading)]
        if not headings:
            return {}
        words = f" {' '.join(chain.from_iterable(_words_and_gaps(text)[1::2] for text in texts))} ".lower()
        names: Instead = {}
        for heading in headings:
            if f" {normalise(heading)} " not in words:
                inner = [match.name for match in find_names(heading, {0}) if match.certain and match.name != heading]
                names[heading] = tuple(name for name in inner if self._inside[name] or code_names(name) == (name,))
        return names

    def of(self, name: str) -> tuple[str, ...]:
        """Return the names that a candidate stands for: mostly itself."""
        return self._instead.get(name, (name,))

    def subjects(self, subjects: Subjects) -> Subjects:
        """Return the names of what a chunk is about."""
        if not self._instead:
            return subjects
        headings = ((start, self._all(names)) for start, names in subjects.headings)
        terms = ((block, self._all(names)) for block, names in subjects.terms)
        return subjects._replace(
            title=self._all(subjects.title),
            headings=tuple(pair for pair in headings if pair[1]),
            terms=tuple(pair for pair in terms if pair[1]),
        )

    def _all(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(other for name in names for other in self._instead.get(name, (name,))))

    def matches(self, reading: Reading) -> list[NameMatch]:
        """Return the names in the prose of a chunk."""
        text, starts = reading.prose.text, reading.prose.starts
        introduced = {short for short, _ in reading.aliases}
        matches = []
        for match in reading.found:
            name, start, end, is_certain = match
            if is_certain or self._inside[name] or (start in starts and self._opens(text, match)):
                names = None if name in introduced else self._instead.get(name)
                if names is None:
                    matches.append(match)
                else:
                    matches += [NameMatch(other, start, end) for other in names]
        if phrases := list(self._phrases.find(text)):
            phrases = outside(phrases, sorted((match.start, match.end) for match in matches))
            return sorted([*matches, *phrases], key=attrgetter("start"))
        return matches

    def code_mentions(self, reading: Reading) -> Iterator[str]:
        """Yield the identifiers of a chunk's code blocks that are names elsewhere in the source."""
        text, seen = reading.chunk.text, set[str]()
        blocks = [text[mark.start : mark.end] for mark in reading.chunk.marks if mark.kind == "code"]
        identifiers = (identifier for block in blocks for identifier in _CODE_IDENTIFIER.findall(block))
        for identifier in filter(_HAS_CASE_OR_JOINT.search, identifiers):
            for name in code_names(identifier):
                norm = normalise(name)
                if norm in self._known and norm not in seen and len(seen) < _MOST_CODE_NAMES:
                    seen.add(norm)
                    yield name

    def _opens(self, text: str, match: NameMatch) -> bool:
        """Return whether a word that the source only has at the start of sentences is a name."""
        lower = match.name.lower()
        if self._lower[lower] or is_ordinary(lower) or lower in VERBS:
            return False
        if self._is_short and _INFLECTED.search(lower) is None:
            return True
        return _SUBJECT_VERB.match(text, match.end) is not None

    def _full_names(self, readings: Sequence[Reading]) -> Instead:
        """Return the full names of persons that a word of their name stands for: "Bruce" after "Bruce Perens".

        The word is the first or last one of one name alone, which the source has before, and the text uses it as the
        name of a person.
        """
        names: list[str] = []
        for reading in readings:
            names += [name for name in reading.subjects.names() if name[0] != "→"]
            names += [name for name, _, _, is_certain in reading.found if is_certain]
        full = _ends_of_names(self._all(names))
        if len(readings) == 1:  # there a surname alone links the document with others on the person
            full = {word: name for word, name in full.items() if name.startswith(f"{word} ")}
        return _persons(full, [reading.chunk.text for reading in readings]) if full else {}


def _persons(full_names: Mapping[str, str], texts: Sequence[str]) -> Instead:
    """Return the words that texts use as the name of a person, with their full names."""

    def words(*patterns: re.Pattern[str]) -> set[str]:
        return {word for text in texts for pattern in patterns for word in pattern.findall(text)}

    has_person = any(map(_PERSON.search, texts))
    acting = words(_ACTS, _ADDRESSED, _GREETED) | (words(_IS) if has_person else set())
    persons: Instead = {
        word: (name,)
        for word, name in full_names.items()
        if word in acting or (has_person and not name.startswith(f"{word} "))
    }
    if not persons:
        return {}
    others, lower = words(_NO_PERSON), words(_LOWER)
    for word, (name,) in [*persons.items()]:
        first, *_, last = name.lower().split()
        if word in others or not lower.isdisjoint((first, last)):
            del persons[word]
    return persons


def _stated(readings: Sequence[Reading]) -> set[str]:
    """Return the titles, except those that are the name of a file, and the defined terms."""
    titles = (reading.subjects.title for reading in readings if not _is_file_name(reading.chunk))
    return set().union(*titles, *(names for reading in readings for _, names in reading.subjects.terms))


def _is_file_name(chunk: Chunk) -> bool:
    """Return whether a chunk has the name of its file as title."""
    places = (chunk.metadata.get(key) for key in ("file_name", "filename", *_SOURCE_KEYS))
    stems = (PurePosixPath(place.replace("\\", "/")).stem for place in places if isinstance(place, str))
    return any(normalise(stem) == normalise(chunk.title) for stem in stems)


def _names_inside(readings: Sequence[Reading]) -> Counter[str]:
    """Count how often names are inside a sentence: a word, a number or a comma precedes them."""
    inside: Counter[str] = Counter()
    for reading in readings:
        text, starts = reading.prose.text, reading.prose.starts
        for name, start, _, is_certain in reading.found:
            if is_certain and start not in starts:
                before = text[max(start - 2, 0) : start].rstrip()[-1:]
                if before.isalnum() or before in _CONTINUES:
                    inside[name] += 1
    return inside


def _without_openers(readings: Sequence[Reading], certain: Counter[str], inside: Counter[str]) -> Instead:
    """Return names that only open sentences without the ordinary word that opens them.

    "Review the PR", and "Tap Bixby Key" in a source that has "Bixby Key" inside a sentence.
    """
    opening: Counter[str] = Counter()
    for reading in readings:
        starts = reading.prose.starts
        opening.update([name for name, start, _, _ in reading.found if start in starts and " " in name])
    shorter: Instead = {}
    for name, count in opening.items():
        first, *words = name.split(" ")
        if count < certain[name] or not is_ordinary(first.lower()):
            continue
        if words[0] in _LINKING or inside[" ".join(words)]:
            while words and words[0].islower():
                del words[0]
            shorter[name] = (" ".join(words),) if words else ()
    return shorter


def _footnotes(readings: Sequence[Reading]) -> Instead:
    """Return the words that have the number of a footnote, in documents with pages.

    One chunk alone mentions them, and the document has the word without the number.
    """
    if all(reading.chunk.page is None for reading in readings):
        return {}
    counts = Counter(name for reading in readings for name in {match.name for match in reading.found})
    numbered = {name: found[1] for name, n in counts.items() if n == 1 and (found := _NUMBERED.fullmatch(name))}
    words = {word for reading in readings for word in _UNNUMBERED_WORD.findall(reading.chunk.text)} if numbered else ()
    return {name: () for name, word in numbered.items() if word is None or word.rpartition(" ")[2] in words}


def _long_forms(readings: Sequence[Reading]) -> Instead:
    """Return the long name of each short form that the source introduces once."""
    longs: dict[str, dict[str, str]] = {}
    for short, long in (pair for reading in readings for pair in reading.aliases):
        longs.setdefault(short, {}).setdefault(normalise(long), long)
    return {short: tuple(names.values()) for short, names in longs.items() if len(names) == 1}


@lru_cache(maxsize=64)  # the texts of a source are asked for up to three times
def _words_and_gaps(text: str) -> list[str]:
    """Return the words of a text and what is between them, in turn; the first and the last are gaps."""
    return _WORD_OR_GAP.split(text)


def _single_words(text: str) -> list[str]:
    """Return the words of a text, without those that an underscore joins to the word before."""
    pieces = _words_and_gaps(text)
    if "_" not in text:
        return pieces[1::2]
    return [word for gap, word in zip(pieces[::2], pieces[1::2], strict=False) if gap[-1:] != "_"]


class _Phrases:
    """Names of several words, and Chinese and Japanese ones, to be found in texts in any case."""

    def __init__(self, names: Iterable[str]) -> None:
        self._by_first: dict[str, list[tuple[list[str], str]]] = {}
        self._cjk: list[str] = []
        for name in dict.fromkeys(names):
            if name.isascii() and name.isalnum():
                continue
            words = normalise(name).split(" ")
            if 2 <= len(words) <= _LONGEST_PHRASE and FUNCTION.isdisjoint(words) and min(map(len, words)) > 1:
                self._by_first.setdefault(words[0], []).append((words, name))
            elif not name.isascii() and _CJK_NAME.fullmatch(name):
                self._cjk.append(name)

    def find(self, text: str) -> Iterator[NameMatch]:
        """Yield the names in a text: their words, with one character between them."""
        if self._by_first and len(text.lower()) == len(text):
            pieces = _words_and_gaps(text)
            words = [*map(str.lower, pieces[1::2])]
            ends: list[int] = []
            for at in compress(range(len(words)), map(self._by_first.__contains__, words)):
                for phrase, name in self._by_first[words[at]]:
                    last = at + len(phrase)
                    if words[at:last] == phrase and all(len(gap) == 1 for gap in pieces[2 * at + 2 : 2 * last : 2]):
                        ends = ends or [*accumulate(map(len, pieces))]
                        yield NameMatch(name, ends[2 * at], ends[2 * last - 1])
        for name in self._cjk:
            at = text.find(name)
            while at >= 0:
                yield NameMatch(name, at, at + len(name))
                at = text.find(name, at + len(name))


def _ends_of_names(names: Sequence[str]) -> dict[str, str]:
    """Return for each word among names the full name before it, if it is the first or last word of this name alone."""
    single = [name for name in names if " " not in name and len(name) >= _SHORTEST and not name.isupper()]
    short = {name for name in single if name.isalpha() or _PART.fullmatch(name)}
    ends: dict[str, set[tuple[str, str]]] = defaultdict(set)
    full_names: dict[str, str] = {}
    passed: set[str] = set()
    for name in names if short else ():
        passed.add(name)
        if " " not in name:
            continue
        bare = title_names(name)[0] if "(" in name else name
        words = bare.split()
        for word in short.intersection(words):
            ends[word].add((words[0], words[-1]))
            if word in (words[0], words[-1]) and word not in passed and _is_full(words):
                full_names.setdefault(word, bare)
    return {word: name for word, name in full_names.items() if len(ends[word]) == 1}


def _is_full(words: list[str]) -> bool:
    """Return whether some words can be the full name of a person."""
    if not 2 <= len(words) <= _MOST_WORDS:
        return False
    lower = {word.lower() for word in words}
    return all(map(_is_part, words)) and all(map(lower.isdisjoint, (COMMON_NOUNS, OPENERS, VERBS)))


def _is_part(word: str) -> bool:
    if word in _PARTICLES:
        return True
    is_initial = len(word) == 2 and word[1] == "."
    return word[0].isupper() and (is_initial or (_PART.fullmatch(word) is not None and not word.isupper()))
