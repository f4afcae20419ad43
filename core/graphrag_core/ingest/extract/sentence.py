"""The default extractor: every sentence is a fact, every name in it an entity. No model."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from graphrag_core.ingest.mentions import Found, find_aliases, find_names
from graphrag_core.model import Chunk, Extraction, Fact, Mention
from graphrag_core.text import sentences, title_names, unwrap

SENTENCE_WEIGHT = 3.0

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

    identity: str = "sentences 1"

    def extract(self, chunks: Sequence[Chunk]) -> list[Extraction]:
        """Return one extraction for each chunk, in order."""
        return [_read(chunk) for chunk in chunks]


def _read(chunk: Chunk) -> Extraction:
    text = unwrap(chunk.text)
    spans = sentences(text)
    starts = [start for start, _ in spans]
    found = find_names(text, set(starts))
    subjects = title_names(chunk.title) if chunk.title else ()
    named: list[list[str]] = [[] for _ in spans]
    for name in found:
        if name.certain and starts:
            named[max(bisect_right(starts, name.start) - 1, 0)].append(name.name)
    facts = tuple(
        Fact(tuple(dict.fromkeys((*subjects, *names))), text[start:end], weight=SENTENCE_WEIGHT, span=(start, end))
        for (start, end), names in zip(spans, named, strict=True)
        if _says_something(text[start:end], chunk.title)
    )
    return Extraction(_mentions(text, subjects, found), facts)


def _says_something(sentence: str, title: str) -> bool:
    """Tell a sentence from a rule, a row of dots, or the title come again as a heading."""
    return sentence.strip("#=*_~ \t") != title and _LETTER.search(sentence) is not None


def _mentions(text: str, subjects: tuple[str, ...], found: list[Found]) -> tuple[Mention, ...]:
    aliases: dict[str, list[str]] = {}
    for short, long in find_aliases(text, found):
        aliases.setdefault(long, []).append(short)
    mentions = [Mention(name, aliases=tuple(aliases.pop(name, ())), subject=True) for name in subjects]
    names = dict.fromkeys((*(f.name for f in found if f.certain), *aliases))
    mentions.extend(Mention(name, aliases=tuple(aliases.get(name, ()))) for name in names)
    return tuple(mentions)
