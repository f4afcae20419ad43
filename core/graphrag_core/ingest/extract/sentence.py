"""The default extractor: every sentence is a fact, every name in it an entity. No model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from graphrag_core.ingest.mentions import Found, find_aliases, find_names
from graphrag_core.model import Chunk, Extraction, Fact, Mention
from graphrag_core.text import sentences, title_names, unwrap

_MOST_NAMES = 4_096  # remembered

_LETTER = re.compile(r"[^\W_]")


@dataclass(frozen=True, kw_only=True)
class SentenceExtractor:
    """Reads a chunk's names and sentences.

    The chunk's title is its subject and counts as named in every sentence, so that a
    sentence which says "it was founded in 1911" still joins its subject to 1911.

    >>> chunk = Chunk("1", "1", "It delegates to the OAuth Provider.", title="Auth Service")
    >>> SentenceExtractor().extract([chunk])[0].facts[0].entities
    ('Auth Service', 'OAuth Provider')
    """

    identity: str = "sentences 2"

    def extract(self, chunks: Sequence[Chunk]) -> list[Extraction]:
        """Return one extraction for each chunk, in order."""
        return [_read(chunk) for chunk in chunks]


def _read(chunk: Chunk) -> Extraction:
    text = unwrap(chunk.text)
    spans = sentences(text)
    found = find_names(text, {start for start, _ in spans})
    certain = [name for name in found if name.certain]
    subjects = title_names(chunk.title) if chunk.title else ()
    facts = []
    at = 0
    for i, (start, end) in enumerate(spans):
        begin = at
        stop = spans[i + 1][0] if i + 1 < len(spans) else len(text)
        while at < len(certain) and certain[at].start < stop:
            at += 1
        names = [name.name for name in certain[begin:at]]
        sentence = text[start:end]
        # Neither a rule or a row of dots, nor a heading, which states nothing.
        heading = sentence[0] == "#" or sentence.strip("=*_~ \t") == chunk.title
        if (names or _LETTER.search(sentence)) and not heading:
            entities = tuple(dict.fromkeys((*subjects, *names)))
            facts.append(Fact.of_sentence(entities, sentence, (start, end)))
    return Extraction(_mentions(text, subjects, found, certain), tuple(facts))


def _mentions(text: str, subjects: tuple[str, ...], found: list[Found], certain: list[Found]) -> tuple[Mention, ...]:
    pairs = find_aliases(text, found)
    if not pairs:
        names = dict.fromkeys(name.name for name in certain)
        return *map(_subject, subjects), *map(_mention, names)
    aliases: dict[str, list[str]] = {}
    for short, long in pairs:
        aliases.setdefault(long, []).append(short)
    mentions = [Mention(name, aliases=tuple(aliases.pop(name, ())), subject=True) for name in subjects]
    names = dict.fromkeys((*(name.name for name in certain), *aliases))
    mentions.extend(Mention(name, aliases=tuple(aliases.get(name, ()))) for name in names)
    return tuple(mentions)


# The same names come again and again, and a frozen value can be shared.


@lru_cache(maxsize=_MOST_NAMES)
def _mention(name: str) -> Mention:
    return Mention(name)


@lru_cache(maxsize=_MOST_NAMES)
def _subject(name: str) -> Mention:
    return Mention(name, subject=True)
