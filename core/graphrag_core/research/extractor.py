"""Typed entities and facts out of the metadata that research documents carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphrag_core.model import Chunk, Extraction, Fact, Mention
from graphrag_core.text import normalise

# Metadata key: relation, type of what it names (empty: the same as the document's), weight, and how a person says it.
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
    """Reads papers and projects: who wrote what, what cites, introduces, implements or relates to what.

    A chunk of any other document has nothing for it, so that it can stand beside other
    extractors: ``Combined(SentenceExtractor(), FindingsExtractor())``.

    >>> chunk = Chunk("1", "1", "…", "MAGMA", metadata={"finding": "paper", "cites": ["GraphRAG"]})
    >>> FindingsExtractor().extract([chunk])[0].facts[0].text
    'MAGMA cites GraphRAG.'
    """

    identity: str = "findings 1"

    def extract(self, chunks: Sequence[Chunk]) -> list[Extraction]:
        """Return one extraction for each chunk, in order."""
        return [_read(chunk) if chunk.metadata.get("finding") else Extraction() for chunk in chunks]


def _read(chunk: Chunk) -> Extraction:
    kind = str(chunk.metadata["finding"])
    mentions = [Mention(chunk.title, kind, aliases=_aliases(chunk, kind), subject=True)]
    facts: list[Fact] = []
    if chunk.ordinal == 0:  # once for each document, however many passages it has
        for key, (relation, other_kind, weight, phrase) in _relations(kind).items():
            for other in _names(chunk, key):
                mentions.append(Mention(other, other_kind or kind))
                text = phrase.format(subject=chunk.title, other=other)
                facts.append(Fact((chunk.title, other), text, relation=relation, weight=weight))
    return Extraction(tuple(dict.fromkeys(mentions)), tuple(dict.fromkeys(facts)))


def _relations(kind: str) -> dict[str, tuple[str, str, float, str]]:
    # A project has concepts in common with papers; it is the paper that introduces them.
    return _RELATIONS if kind == "paper" else {**_RELATIONS, "concepts": _RELATIONS["topics"]}


def _names(chunk: Chunk, key: str) -> list[str]:
    value = chunk.metadata.get(key)
    listed = value if isinstance(value, (list, tuple)) else [value]
    own = normalise(chunk.title)
    return [name for name in listed if isinstance(name, str) and normalise(name) not in ("", own)]


def _aliases(chunk: Chunk, kind: str) -> tuple[str, ...]:
    """Return the other names of a finding: a paper's arXiv id, a project's name without its owner."""
    other = chunk.metadata.get("arxiv_id") if kind == "paper" else chunk.title.rpartition("/")[2]
    return (other,) if isinstance(other, str) and normalise(other) not in ("", normalise(chunk.title)) else ()
