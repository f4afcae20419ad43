"""The default extractor: every sentence is a fact, every name in it an entity. ``Combined`` adds others to it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from graphrag_core.errors import ExtractionError
from graphrag_core.model import SENTENCE_WEIGHT, Chunk, Extraction, Fact, Mention
from graphrag_core.ports import Extractor
from graphrag_core.text import sentences, title_names, unwrap
from graphrag_core.text.mentions import find_aliases, find_names

_LETTER = re.compile(r"[^\W_]")

# Names repeat, and a frozen value can be shared. Creating a dataclass takes ten times as long as this lookup.
_mention = lru_cache(maxsize=4_096)(Mention)


@dataclass(frozen=True, kw_only=True)
class SentenceExtractor:
    """Extracts the names and sentences of a chunk.

    The chunk's title is its subject and counts as mentioned in every sentence. So the sentence
    "It was founded in 1911" still connects its subject with 1911.

    >>> chunk = Chunk("1", "1", "It delegates to the OAuth Provider.", title="Auth Service")
    >>> SentenceExtractor().extract([chunk])[0].facts[0].entities
    ('Auth Service', 'OAuth Provider')
    """

    identity: str = "sentences 2"

    def extract(self, chunks: Sequence[Chunk]) -> list[Extraction]:
        """Return one extraction per chunk, in order."""
        return [_extract(chunk) for chunk in chunks]


def _extract(chunk: Chunk) -> Extraction:
    text = unwrap(chunk.text)
    spans = sentences(text)
    found = find_names(text, {start for start, _ in spans})
    names = [match for match in found if match.certain]
    subjects = title_names(chunk.title) if chunk.title else ()
    facts = []
    at = 0
    for i, (start, end) in enumerate(spans):
        begin, stop = at, spans[i + 1][0] if i + 1 < len(spans) else len(text)
        while at < len(names) and names[at].start < stop:
            at += 1
        sentence = text[start:end]
        # Headings state nothing, and a line without letters, such as "-----", is not a sentence.
        is_heading = sentence[0] == "#" or sentence.strip("=*_~ \t") == chunk.title
        if not is_heading and (begin < at or _LETTER.search(sentence)):
            entities = tuple(dict.fromkeys((*subjects, *[match.name for match in names[begin:at]])))
            facts.append(Fact(entities, sentence, weight=SENTENCE_WEIGHT, span=(start, end)))

    aliases: dict[str, list[str]] = {}
    for short, long in find_aliases(text, found):
        aliases.setdefault(long, []).append(short)
    mentions = [Mention(name, aliases=tuple(aliases.pop(name, ())), subject=True) for name in subjects]
    mentions += [
        Mention(name, aliases=tuple(aliases[name])) if name in aliases else _mention(name)
        for name in dict.fromkeys((*[match.name for match in names], *aliases))
    ]
    return Extraction(tuple(mentions), tuple(facts))


class Combined:
    """Runs several extractors on each chunk and keeps the results of all.

    Sentence facts together with an LLM's triples gave the best graph in our measurements:
    ``Combined(SentenceExtractor(), LLMExtractor(complete))``.
    """

    def __init__(self, *extractors: Extractor) -> None:
        self.extractors = extractors

    @property
    def identity(self) -> str:
        """The identities of all extractors."""
        return " + ".join(str(getattr(e, "identity", type(e).__qualname__)) for e in self.extractors)

    def extract(self, chunks: Sequence[Chunk]) -> list[Extraction]:
        """Return one extraction per chunk, in order."""
        results = []
        for extractor in self.extractors:
            result = extractor.extract(chunks)
            if len(result) != len(chunks):
                name = type(extractor).__qualname__
                raise ExtractionError(f"{name} returned {len(result)} extractions for {len(chunks)} chunks")
            results.append(result)
        return [
            Extraction(
                tuple(mention for e in extractions for mention in e.mentions),
                tuple(fact for e in extractions for fact in e.facts),
                "; ".join(e.problem for e in extractions if e.problem),
            )
            for extractions in zip(*results, strict=True)
        ]
