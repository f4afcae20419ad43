"""Numbers of footnotes on the pages of a PDF file: the end of "platforms80", the start of "4 Calling"."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from graphrag_core.model import Chunk, Extraction

_NUMBERED = re.compile(r"(.*[^\W\d_]{3})[0-9]{1,2}|[0-9]{1,2} .+")
_WORD = re.compile(r"[^\W_][\w.-]*(?<![\d.-])(?!\w)")


def without_footnotes(chunks: Sequence[Chunk], extractions: list[Extraction]) -> list[Extraction]:
    """Return the extractions of a document's chunks without the words that have the number of a footnote.

    They are the names of documents with pages that one chunk alone mentions, if the document has the word itself.
    """
    if all(chunk.page is None for chunk in chunks):
        return extractions
    counts = Counter(mention.name for extraction in extractions for mention in extraction.mentions)
    once = {name: found[1] for name, n in counts.items() if n == 1 and (found := _NUMBERED.fullmatch(name))}
    if not once:
        return extractions
    words = {word for chunk in chunks for word in _WORD.findall(chunk.text)}
    noted = {name for name, word in once.items() if word is None or word.rpartition(" ")[2] in words}
    return [_without(extraction, noted) for extraction in extractions] if noted else extractions


def _without(extraction: Extraction, names: set[str]) -> Extraction:
    if not any(mention.name in names for mention in extraction.mentions):
        return extraction
    facts = [
        replace(fact, entities=tuple(name for name in fact.entities if name not in names))
        if not names.isdisjoint(fact.entities)
        else fact
        for fact in extraction.facts
    ]
    kept = [mention for mention in extraction.mentions if mention.name not in names]
    return replace(extraction, mentions=tuple(kept), facts=tuple(facts))
