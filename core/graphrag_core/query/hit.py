"""What was found, one piece at a time: stations of a path, channels, passages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from graphrag_core.model import Chunk

StepKind = Literal["question", "entity", "fact", "chunk"]
Origin = Literal["plain", "graph"]


@dataclass(frozen=True, slots=True)
class Step:
    """A station of a path: what kind of thing, its id, and how a person reads it."""

    kind: StepKind
    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Channel:
    """What one channel said of a passage.

    ``rank`` counts from 1, ``score`` is the channel's own (cosine, BM25, the graph
    strategy's), ``share`` is its part in all that speaks for the passage, in proportion to
    1 / rank: the shares of a hit add up to 1.
    """

    rank: int
    score: float
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that answers, with where it was found.

    ``score`` falls with the rank: the cosine of the vector method, BM25 of the keyword
    method, strength (0 to 1) of the graph method, and the fusion's own of the hybrid one,
    which for ``Anchored`` is 1 / rank. ``channels`` holds the channels that found the passage,
    ``path`` the strongest way from the question to it through the graph, empty if there is
    none. ``origin`` is ``"graph"`` for a passage that the graph brought: alone, or with a
    query of its own (:class:`~graphrag_core.ExpansionQueries`), which ``graph_expansion`` has.
    """

    chunk: Chunk
    score: float
    channels: Mapping[str, Channel] = field(default_factory=dict)
    path: tuple[Step, ...] = ()
    origin: Origin = "plain"
    graph_expansion: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """How long each stage took, in milliseconds, in order."""

    stages: Mapping[str, float] = field(default_factory=dict)

    @property
    def total(self) -> float:
        """All stages together."""
        return sum(self.stages.values())
