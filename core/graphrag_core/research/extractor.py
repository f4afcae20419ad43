"""``FindingsExtractor``: typed entities and facts from the metadata of research documents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphrag_core.model import Chunk, Extraction, Fact, Mention
from graphrag_core.text import normalise

# Metadata key: relation, type of the other entity (empty: that of the document), weight, and the fact's text.
_RELATIONS = {
    "authors": ("authored_by", "person", 8.0, "{subject} was written by {other}."),
    "cites": ("cites", "paper", 8.0, "{subject} cites {other}."),
    "implements": ("implements", "paper", 9.0, "{subject} implements {other}."),
    "concepts": ("introduces", "concept", 8.0, "{subject} introduces {other}."),
    "topics": ("relates_to", "concept", 5.0, "{subject} is about {other}."),
    "related": ("relates_to", "", 5.0, "{subject} is related to {other}."),
    "language": ("written_in", "language", 4.0, "{subject} is written in {other}."),
    "venue": ("published_in", "venue", 3.0, "{subject} was published in {other}."),
}


@dataclass(frozen=True, kw_only=True)
class FindingsExtractor:
    """Extract authors, citations, concepts and other relations of papers and projects.

    It returns nothing for chunks of other documents, so it can be combined with other
    extractors: ``Combined(SentenceExtractor(), FindingsExtractor())``.

    >>> chunk = Chunk("1", "1", "…", "MAGMA", metadata={"finding": "paper", "cites": ["GraphRAG"]})
    >>> FindingsExtractor().extract([chunk])[0].facts[0].text
    'MAGMA cites GraphRAG.'
    """

    identity: str = "findings 1"

    def extract(self, chunks: Sequence[Chunk]) -> list[Extraction]:
        """Return one extraction for each chunk, in order."""
        return [_extract(chunk) if chunk.metadata.get("finding") else Extraction() for chunk in chunks]


def _extract(chunk: Chunk) -> Extraction:
    kind = str(chunk.metadata["finding"])
    mentions = [Mention(chunk.title, kind, aliases=_aliases(chunk, kind), subject=True)]
    facts: list[Fact] = []
    if chunk.ordinal == 0:  # once per document, not per chunk
        for key, (relation, other_kind, weight, phrase) in _relations(kind).items():
            for other in _names(chunk, key):
                mentions.append(Mention(other, other_kind or kind))
                text = phrase.format(subject=chunk.title, other=other)
                facts.append(Fact((chunk.title, other), text, relation=relation, weight=weight))
    return Extraction(tuple(dict.fromkeys(mentions)), tuple(dict.fromkeys(facts)))


def _relations(kind: str) -> dict[str, tuple[str, str, float, str]]:
    # A paper introduces a concept; a project only relates to it.
    return _RELATIONS if kind == "paper" else {**_RELATIONS, "concepts": _RELATIONS["topics"]}


def _names(chunk: Chunk, key: str) -> list[str]:
    value = chunk.metadata.get(key)
    listed = value if isinstance(value, (list, tuple)) else [value]
    own = normalise(chunk.title)
    return [name for name in listed if isinstance(name, str) and normalise(name) not in ("", own)]


def _aliases(chunk: Chunk, kind: str) -> tuple[str, ...]:
    """Return a paper's arXiv id, or a project's name without its owner."""
    other = chunk.metadata.get("arxiv_id") if kind == "paper" else chunk.title.rpartition("/")[2]
    return (other,) if isinstance(other, str) and normalise(other) not in ("", normalise(chunk.title)) else ()
