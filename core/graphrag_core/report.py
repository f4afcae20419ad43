"""What the index says of its work and of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Added:
    """What a call of ``add`` did, in documents.

    ``problems`` goes from a document's id to what an extractor could not read in it; the
    document is there, and will be read again when it is next added.
    """

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    problems: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: Added) -> Added:
        return Added(
            self.added + other.added,
            self.replaced + other.replaced,
            self.unchanged + other.unchanged,
            {**self.problems, **other.problems},
        )


@dataclass(frozen=True, slots=True)
class Estimate:
    """What adding documents would cost: texts and tokens to embed, prompt tokens to pay for.

    Facts and names are counted whether or not the index embeds them, so that the price of
    ``embed_facts=True`` and ``embed_names=True`` is plain before it is paid.
    """

    documents: int = 0
    chunks: int = 0
    chunk_tokens: int = 0
    facts: int = 0
    fact_tokens: int = 0
    names: int = 0
    name_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Stats:
    """How large an index is. ``bytes_in_memory`` leaves out what the system caches of files."""

    documents: int
    chunks: int
    entities: int
    facts: int
    relations: Mapping[str, int]
    vectors: Mapping[str, int]
    dim: int
    embedder: str
    generation: int
    bytes_on_disk: int
    bytes_in_memory: int
    top_entities: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        rows = [
            ("documents", f"{self.documents:,}"),
            ("chunks", f"{self.chunks:,}"),
            ("entities", f"{self.entities:,}"),
            ("facts", f"{self.facts:,}"),
            ("relation types", f"{len(self.relations):,}"),
            ("vectors", ", ".join(f"{count:,} {kind}" for kind, count in self.vectors.items()) + f" × {self.dim}"),
            ("embedder", self.embedder or "none yet"),
            ("on disk", _bytes(self.bytes_on_disk)),
            ("in memory", _bytes(self.bytes_in_memory)),
            ("top entities", ", ".join(f"{name} ({count})" for name, count in self.top_entities) or "none"),
        ]
        return "\n".join(f"{name:<15}{value}" for name, value in rows)


@dataclass(frozen=True, slots=True)
class Verification:
    """What ``verify`` found. True when there is nothing wrong."""

    problems: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return not self.problems

    def __str__(self) -> str:
        return "\n".join(self.problems) or "records, vectors, keywords and graph agree"


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
