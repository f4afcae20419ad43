"""Short forms of names that a document introduces in full: "Bruce" after "Bruce Perens"."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from graphrag_core.model import Chunk, Extraction, Fact, Mention
from graphrag_core.text import title_names
from graphrag_core.text.words import COMMON_NOUNS, OPENERS, VERBS

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
# A person is not written "the Bruce" or "in Bruce". A place, a people, a company or a product often is.
_NO_PERSON = re.compile(r"\b(?:[Ii]n|[Aa]t|[Nn]ear|[Tt]he|[Aa]n?|[Aa]cross|[Ww]ithin|[Uu]sing)\s+([^\W\d_][\w'’-]*)")
_LOWER = re.compile(r"(?<![\w.@/<-])[^\W\d_A-Z][^\W_]*(?=[\s,;:!?)]|\.\s|\Z)")  # not in an address


def with_full_names(chunks: Sequence[Chunk], extractions: list[Extraction]) -> list[Extraction]:
    """Return the extractions of a document's chunks, with the full name in place of each short form.

    A word is the short form of a person's name if it is the first or last word of one name alone, which the document
    mentions before, and if the text uses it as the name of a person.
    """
    full = _full_names(extractions)
    if len(chunks) == 1:  # there a surname alone links the document with others on the person
        full = {word: name for word, name in full.items() if _is_first(word, name)}
    if not full:
        return extractions
    texts = [chunk.text for chunk in chunks]
    others = {word for text in texts for word in _NO_PERSON.findall(text)}
    full = {word: name for word, name in full.items() if word not in others}
    if full:
        acting = {word for text in texts for pattern in (_ACTS, _ADDRESSED) for word in pattern.findall(text)}
        of_person = any(map(_PERSON.search, texts))
        acting |= {word for text in texts for word in _IS.findall(text)} if of_person else set()
        full = {
            word: name for word, name in full.items() if word in acting or (of_person and not _is_first(word, name))
        }
    if full:
        lower = {word for text in texts for word in _LOWER.findall(text)}
        full = {word: name for word, name in full.items() if lower.isdisjoint(_ends(name))}
    return [_renamed(extraction, full) for extraction in extractions] if full else extractions


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
    held: dict[str, set[tuple[str, str]]] = {}
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
            held.setdefault(word, set()).add((words[0], words[-1]))
            if word in (words[0], words[-1]) and word not in passed and _is_full(words):
                found.setdefault(word, bare)
    return {word: name for word, name in found.items() if len(held[word]) == 1}


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


def _renamed(extraction: Extraction, full: Mapping[str, str]) -> Extraction:
    if not any(mention.name in full for mention in extraction.mentions):
        return extraction
    facts = [_renamed_fact(fact, full) for fact in extraction.facts]
    return replace(extraction, mentions=tuple(_merged(extraction.mentions, full)), facts=tuple(facts))


def _merged(mentions: Sequence[Mention], full: Mapping[str, str]) -> Iterator[Mention]:
    there = {mention.name for mention in mentions}
    for mention in mentions:
        name = full.get(mention.name)
        if name is None:
            yield mention
        elif name not in there:
            there.add(name)
            yield replace(mention, name=name)


def _renamed_fact(fact: Fact, full: Mapping[str, str]) -> Fact:
    if full.keys().isdisjoint(fact.entities):
        return fact
    return replace(fact, entities=tuple(dict.fromkeys(full.get(name, name) for name in fact.entities)))
