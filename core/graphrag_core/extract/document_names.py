"""Names that the chunks of a document tell about each other.

Identifiers in code that are names in the text, numbers of footnotes that are no part of a name ("platforms80",
"4 Calling"), and short forms of names that the document introduces in full ("Bruce" after "Bruce Perens").
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from graphrag_core.model import Chunk, Extraction, Mention
from graphrag_core.text import normalise, title_names
from graphrag_core.text.mentions import code_names
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


def with_document_names(chunks: Sequence[Chunk], extractions: list[Extraction]) -> list[Extraction]:
    """Return the extractions of a document's chunks with the names that only the whole document shows."""
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
