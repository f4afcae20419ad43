"""Which candidates are names: decided by how their source uses them.

A source is a document, or the pieces of one that an application cut before adding them. "Session" is a name in a source
that writes it inside a sentence more often than "session". Where the uses say nothing, as for the label of a table, the
dictionary decides. Names of several words and defined terms are found in lower case too; a short form that the source
introduces ("Bruce" after "Bruce Perens", "ACL" after "access control list (ACL)") is the long name elsewhere in it.
Other sources never change the decision.
"""

import json
import os
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from operator import attrgetter
from typing import Any, NamedTuple

from graphrag_core.extract.prose import Prose
from graphrag_core.extract.subjects import Subjects
from graphrag_core.model import Chunk, Extraction, Mention
from graphrag_core.text import CJK, FUNCTION, normalise, title_names
from graphrag_core.text.dictionary import is_ordinary
from graphrag_core.text.mentions import NameMatch, code_names, find_aliases
from graphrag_core.text.words import COMMON_NOUNS, OPENERS, VERBS

_CODE_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_HAS_CASE_OR_JOINT = re.compile(r"[_.]|[a-z][A-Z]")
_MOST_CODE_NAMES = 20
_NUMBERED = re.compile(r"(.*[^\W\d_]{3})[0-9]{1,2}|[0-9]{1,2} .+")
_WORD = re.compile(r"[^\W_][\w.-]*(?<![\d.-])(?!\w)")
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


_LOWER_WORD = re.compile(r"\b[^\W\d_A-Z][^\W_]*")
_ANY_WORD = re.compile(r"[^\W_]+")
_SUBJECT_VERB = re.compile(
    r"(?:['’]s|,)?\s+(?:is|was|has|had|does|did|will|can|became|began|won|joined|says?|said|wrote|uses?|provides?"
    r"|supports?|owns?|leads?|runs?|handles?|stores?|sends?|issues?)\b"
)
_LINKING = frozenset("the a an in on at to for".split())
_CAPITALS_FACTOR = 3  # a word in capitals is a name unless it is that many times as frequent in lower case
_MOST_PHRASE = 5  # words of a name that is found in lower case
_CJK_NAME = re.compile(f"[{CJK}]{{3,}}")


class Reading(NamedTuple):
    """A chunk with its candidates: what it is about, its prose, and the names that may be in it."""

    chunk: Chunk
    subjects: Subjects
    prose: Prose
    found: list[NameMatch]


class SourceNames:
    """The names of a source."""

    def __init__(self, readings: Sequence[Reading]) -> None:
        self._titles = {name for reading in readings for name in reading.subjects.title}
        certain: Counter[str] = Counter()
        opening_runs: Counter[str] = Counter()
        self._inside: Counter[str] = Counter()
        for reading in readings:
            starts, text = {sentence.start for sentence in reading.prose.sentences}, reading.prose.text
            for match in reading.found:
                if match.certain:
                    certain[match.name] += 1
                    self._inside[match.name] += match.start not in starts and _in_sentence(text, match.start)
                    if match.start in starts and " " in match.name:
                        opening_runs[match.name] += 1
        subjects = {name for reading in readings for name in reading.subjects.names() if name[0] != "→"}
        elsewhere = {*subjects, *(name for name, count in certain.items() if count > opening_runs[name])}
        self._shorter = {name: _without_opener(name) for name in opening_runs if name not in elsewhere}
        opening = {match.name for reading in readings for match in reading.found if not match.certain}
        words = {name for name in (*certain, *subjects, *opening) if is_word(name)}
        wanted = {word.lower() for word in words}
        texts = [reading.prose.text for reading in readings]
        self._lower = Counter(word for text in texts for word in _LOWER_WORD.findall(text) if word in wanted)
        self._dropped = {word for word in words if not self._is_name(word)} - self._titles
        self._certain = certain
        if os.environ.get("H1"):
            spoken = " ".join(" ".join(_ANY_WORD.findall(text.lower())) for text in texts)
            spoken = f" {spoken} "
            for name in subjects - self._titles:
                words_ = name.split()
                if len(words_) > 1 and name not in certain and all(is_ordinary(w.lower()) or w.lower() in FUNCTION for w in _ANY_WORD.findall(name)) and f" {normalise(name)} " not in spoken:
                    self._dropped.add(name)
        names = {name for name in (*certain, *subjects) if name not in self._dropped and name not in self._shorter}
        self._phrases: dict[str, list[tuple[str, ...]]] = {}
        self._names: dict[tuple[str, ...], str] = {}
        for name in names:
            words_ = tuple(normalise(name).split())
            if 2 <= len(words_) <= _MOST_PHRASE and FUNCTION.isdisjoint(words_) and min(map(len, words_)) > 1 and words_ not in self._names:
                self._names[words_] = name
                self._phrases.setdefault(words_[0], []).append(words_)
        self._cjk = [name for name in names if not name.isascii() and _CJK_NAME.fullmatch(name)]

    def _is_name(self, word: str) -> bool:
        lower, inside = self._lower[word.lower()], self._inside[word]
        if word.isupper():
            return lower <= _CAPITALS_FACTOR * inside or lower == 0
        if lower or inside:
            return lower <= inside
        return not is_ordinary(word.lower())

    def has(self, name: str) -> bool:
        """Return whether a name that an extractor is certain of is one in this source."""
        return name not in self._dropped

    def subjects(self, subjects: Subjects) -> Subjects:
        """Return the subjects of a chunk without those that are no names."""
        if not self._dropped:
            return subjects
        headings = ((at, tuple(filter(self.has, names))) for at, names in subjects.headings)
        terms = ((block, tuple(filter(self.has, names))) for block, names in subjects.terms)
        return subjects._replace(
            headings=tuple(pair for pair in headings if pair[1]), terms=tuple(pair for pair in terms if pair[1])
        )

    def aliases(self, reading: Reading) -> list[tuple[str, str]]:
        """Return the short names that a chunk introduces, and the long ones."""
        pairs = find_aliases(reading.prose.text, reading.found)
        return [(short, long) for short, long in pairs]

    def matches(self, reading: Reading) -> list[NameMatch]:
        """Return the names in the prose of a chunk."""
        text = reading.prose.text
        found = [match for match in reading.found if match.name not in self._dropped and (match.certain or self._confirms(text, match))]
        if self._shorter:
            found = [NameMatch(short, m.end - len(short), m.end) if (short := self._shorter.get(m.name)) is not None else m for m in found]
            found = [m for m in found if m.name and not (is_word(m.name) and m.name in self._dropped)]
        return self._with_lower_case(text, found)

    def _confirms(self, text: str, match: NameMatch) -> bool:
        if self._inside[match.name]:
            return True
        return not self._lower[match.name.lower()] and not is_ordinary(match.name.lower()) and _SUBJECT_VERB.match(text, match.end) is not None

    def _with_lower_case(self, text: str, found: list[NameMatch]) -> list[NameMatch]:
        more = []
        if self._phrases:
            lower = text.lower() if len(text.lower()) == len(text) else text
            words = [(match.group(), match.start(), match.end()) for match in _ANY_WORD.finditer(lower)]
            for at, (word, start, _) in enumerate(words):
                for phrase in self._phrases.get(word, ()):
                    end = at + len(phrase)
                    if tuple(one for one, _, _ in words[at:end]) == phrase and len(text[start:words[end - 1][2]]) <= sum(map(len, phrase)) + len(phrase) - 1:
                        more.append(NameMatch(self._names[phrase], start, words[end - 1][2]))
        for name in self._cjk:
            at = text.find(name)
            while at >= 0:
                more.append(NameMatch(name, at, at + len(name)))
                at = text.find(name, at + len(name))
        if not more:
            return found
        taken = sorted((match.start, match.end) for match in found)
        begins, ends = [start for start, _ in taken], [-1, *accumulate((end for _, end in taken), max)]
        more = [m for m in more if m.end > ends[bisect_right(begins, m.start)]]
        return sorted([*found, *more], key=attrgetter("start"))


_SOURCE_KEYS = ("source", "file_path", "url")
_POSITION_KEYS = frozenset({"start_index", "page", "page_label", "page_number", "chunk_index", "loc", "_source"})


def sources(chunks: Sequence[Chunk]) -> list[list[int]]:
    """Return the places of the chunks of each source, in order."""
    found: dict[Any, list[int]] = {}
    for place, chunk in enumerate(chunks):
        found.setdefault(_source(chunk), []).append(place)
    return list(found.values())


def _source(chunk: Chunk) -> str:
    stored = chunk.metadata.get("__graphrag__")
    source = stored.get("source") if isinstance(stored, Mapping) else next((v for k in _SOURCE_KEYS if (v := chunk.metadata.get(k))), None)
    if not isinstance(source, str) or source == chunk.document_id:
        return chunk.document_id
    rest = {key: value for key, value in chunk.metadata.items() if key not in _POSITION_KEYS and key != "__graphrag__"}
    return f"{source}\0{json.dumps(rest, sort_keys=True, default=str)}"


def _without_opener(name: str) -> str:
    """Return a name without an ordinary word that opens a sentence, and the small words after it: "Review the PR"."""
    first, *words = name.split(" ")
    if words[0] not in _LINKING or not first[1:].islower() or not is_ordinary(first.lower()):
        return name
    while words and words[0].islower():
        del words[0]
    return " ".join(words)


def _in_sentence(text: str, at: int) -> bool:
    """Return whether a word continues a sentence: a word, a number or a comma precedes it."""
    before = text[max(at - 2, 0) : at].rstrip()[-1:]
    return before.isalnum() or before in {",", ";", "'", "’", "/", "-", "&"}


def is_word(name: str) -> bool:
    """Return whether a name is one word as any text may have it: "Session", "session", "SELECT"."""
    return name.isalpha() and (name[1:].islower() or name.isupper()) and len(name) > 1



def with_document_names(readings: Sequence[Reading], extractions: list[Extraction]) -> list[Extraction]:
    """Return the extractions of a source's chunks with the names that only the whole source shows."""
    chunks = [reading.chunk for reading in readings]
    extractions = _with_long_names(readings, extractions)
    if any(mark.kind == "code" for chunk in chunks for mark in chunk.marks):
        known = {normalise(mention.name) for extraction in extractions for mention in extraction.mentions}
        extractions = [_with_code(chunk, e, known) for chunk, e in zip(chunks, extractions, strict=True)]
    if any(chunk.page is not None for chunk in chunks):
        extractions = _without_footnotes(chunks, extractions)
    # A word is the short form of a person's name if it is the first or last word of one name alone, which the document
    # mentions before, and if the text uses it as the name of a person.
    full = _full_names(extractions)
    if len(chunks) == 1:  # there a surname alone links the document with others on the person
        full = {word: name for word, name in full.items() if _is_first(word, name)}
    if not full:
        return extractions
    texts = [chunk.text for chunk in chunks]
    others = {word for text in texts for word in _NO_PERSON.findall(text)}
    full = {word: name for word, name in full.items() if word not in others}
    if full:
        acting = {word for text in texts for pattern in (_ACTS, _ADDRESSED, _GREETED) for word in pattern.findall(text)}
        of_person = any(map(_PERSON.search, texts))
        acting |= {word for text in texts for word in _IS.findall(text)} if of_person else set()
        full = {
            word: name for word, name in full.items() if word in acting or (of_person and not _is_first(word, name))
        }
    if full:
        lower = {word for text in texts for word in _LOWER.findall(text)}
        full = {word: name for word, name in full.items() if lower.isdisjoint(_ends(name))}
    return [_renamed(extraction, full) for extraction in extractions] if full else extractions


def _with_long_names(readings: Sequence[Reading], extractions: list[Extraction]) -> list[Extraction]:
    """Return the extractions with the long name for each short form, but for the chunks that introduce it."""
    introduced = [find_aliases(reading.prose.text, reading.found) for reading in readings]
    longs: dict[str, set[str]] = {}
    for short, long in (pair for pairs in introduced for pair in pairs):
        longs.setdefault(short, set()).add(long)
    full = {short: next(iter(long)) for short, long in longs.items() if len({normalise(one) for one in long}) == 1}
    if not full:
        return extractions
    return [
        _renamed(extraction, {short: long for short, long in full.items() if (short, long) not in pairs})
        for extraction, pairs in zip(extractions, introduced, strict=True)
    ]


def _with_code(chunk: Chunk, extraction: Extraction, known: set[str]) -> Extraction:
    """Return an extraction with the identifiers of code blocks that are names elsewhere in the document."""
    mentioned = {normalise(mention.name) for mention in extraction.mentions}
    found: dict[str, Mention] = {}
    for mark in chunk.marks:
        if mark.kind != "code":
            continue
        for match in _CODE_IDENTIFIER.finditer(chunk.text, mark.start, mark.end):
            for name in code_names(match.group()) if _HAS_CASE_OR_JOINT.search(match.group()) else ():
                norm = normalise(name)
                if norm in known and norm not in mentioned and len(found) < _MOST_CODE_NAMES:
                    found.setdefault(norm, Mention(name))
    return replace(extraction, mentions=(*extraction.mentions, *found.values())) if found else extraction


def _without_footnotes(chunks: Sequence[Chunk], extractions: list[Extraction]) -> list[Extraction]:
    """Return the extractions without the words that have the number of a footnote.

    They are the names of documents with pages that one chunk alone mentions, if the document has the word itself.
    """
    counts = Counter(mention.name for extraction in extractions for mention in extraction.mentions)
    once = {name: found[1] for name, n in counts.items() if n == 1 and (found := _NUMBERED.fullmatch(name))}
    words = {word for chunk in chunks for word in _WORD.findall(chunk.text)} if once else set()
    noted = {name: "" for name, word in once.items() if word is None or word.rpartition(" ")[2] in words}
    return [_renamed(extraction, noted) for extraction in extractions] if noted else extractions


def _is_first(word: str, name: str) -> bool:
    return name.startswith(f"{word} ")


def _ends(name: str) -> tuple[str, str]:
    words = name.lower().split()
    return words[0], words[-1]


def _full_names(extractions: list[Extraction]) -> dict[str, str]:
    """Return for each mentioned word the full name before it, if it is the first or last word of this name alone."""
    names = dict.fromkeys(mention.name for extraction in extractions for mention in extraction.mentions)
    short = {name for name in names if len(name) >= _SHORTEST and _PART.fullmatch(name) and not name.isupper()}
    if not short:
        return {}
    ends: dict[str, set[tuple[str, str]]] = {}
    found: dict[str, str] = {}
    passed: set[str] = set()
    for name in names:
        if name in short:
            passed.add(name)
        if " " not in name or name[0] == "→":
            continue
        bare = title_names(name)[0] if "(" in name else name
        words = bare.split()
        for word in short.intersection(words):
            ends.setdefault(word, set()).add((words[0], words[-1]))
            if word in (words[0], words[-1]) and word not in passed and _is_full(words):
                found.setdefault(word, bare)
    return {word: name for word, name in found.items() if len(ends[word]) == 1}


def _is_full(words: list[str]) -> bool:
    """Return whether some words can be the name of a person."""
    if not 2 <= len(words) <= _MOST_WORDS:
        return False
    ordinary = any(word.lower() in COMMON_NOUNS or word.lower() in OPENERS or word.lower() in VERBS for word in words)
    return not ordinary and all(_is_part(word) for word in words)


def _is_part(word: str) -> bool:
    if word in _PARTICLES:
        return True
    is_initial = len(word) == 2 and word[1] == "."
    return word[0].isupper() and (is_initial or (_PART.fullmatch(word) is not None and not word.isupper()))


def _renamed(extraction: Extraction, names: Mapping[str, str]) -> Extraction:
    """Return an extraction with some names replaced by others, or removed if the other is empty."""
    if all(mention.name not in names for mention in extraction.mentions):
        return extraction
    facts = [
        fact
        if names.keys().isdisjoint(fact.entities)
        else replace(fact, entities=tuple(dict.fromkeys(filter(None, (names.get(e, e) for e in fact.entities)))))
        for fact in extraction.facts
    ]
    there = {mention.name for mention in extraction.mentions}
    mentions = []
    for mention in extraction.mentions:
        name = names.get(mention.name)
        if name is None:
            mentions.append(mention)
        elif name and name not in there:
            there.add(name)
            mentions.append(replace(mention, name=name))
    return replace(extraction, mentions=tuple(mentions), facts=tuple(facts))
