"""What a question gets back: passages, with the reason for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from graphrag_core.model import Chunk, Entity

StepKind = Literal["question", "entity", "fact", "chunk"]


@dataclass(frozen=True, slots=True)
class Step:
    """A station of a path: what kind of thing, its id, and how a person reads it."""

    kind: StepKind
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Channel:
    """What one channel said of a passage: its rank there, from 1, and its own score."""

    rank: int
    score: float


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that answers, with where it was found.

    ``score`` falls with the rank and means nothing across questions. ``channels`` holds the
    channels that found the passage, ``path`` the strongest way from the question to it
    through the graph, empty if there is none.
    """

    chunk: Chunk
    score: float
    channels: Mapping[str, Channel] = field(default_factory=dict)
    path: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True)
class Trace:
    """How long each stage took, in milliseconds, in order."""

    stages: Mapping[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """All stages together."""
        return sum(self.stages.values())


@dataclass(frozen=True, slots=True)
class Result:
    """The passages for a question, best first, and how they were found.

    Attributes
    ----------
    method
        The method that ran.
    entities
        What the question names, as far as the scope knows it.
    confidence
        How far the graph can be trusted with this question, from 0 to 1.
    expansion_skipped
        Why the graph did not lead or did not run, in words; empty if it did.
    fallback
        What had to be done without, in words; empty if nothing.
    """

    question: str
    method: str
    hits: tuple[Hit, ...] = ()
    entities: tuple[Entity, ...] = ()
    confidence: float = 0.5
    expansion_skipped: str = ""
    fallback: str = ""
    trace: Trace = field(default_factory=Trace)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    def __len__(self) -> int:
        return len(self.hits)

    def explain(self) -> str:
        """Return for a person what was found, by which channel and along which path."""
        named = ", ".join(entity.name for entity in self.entities) or "nothing the index knows"
        lines = [f"{self.question}", f"  names {named}; method {self.method}, confidence {self.confidence:.2f}"]
        lines += [f"  {remark}" for remark in (self.expansion_skipped, self.fallback) if remark]
        for rank, hit in enumerate(self.hits, 1):
            found = ", ".join(f"{name} #{channel.rank} ({channel.score:.3g})" for name, channel in hit.channels.items())
            lines.append(f"{rank:>3}. {hit.chunk.title or hit.chunk.id}  [{hit.score:.3f}]  {found}")
            if hit.path:
                lines.append(f"     {' → '.join(step.text for step in hit.path[1:])}")
        stages = ", ".join(f"{name} {ms:.1f}" for name, ms in self.trace.stages.items())
        return "\n".join([*lines, f"  {self.trace.total:.1f} ms: {stages}"])
