"""What can be drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from graphrag_core.model import Entity, Fact
from graphrag_core.query.hit import Hit, Trace


class Answer(Protocol):
    """Anything with the attributes of a :class:`~graphrag_core.query.result.Result`."""

    @property
    def question(self) -> str:
        """In words."""

    @property
    def method(self) -> str:
        """The method that ran."""

    @property
    def hits(self) -> Sequence[Hit]:
        """Best first."""

    @property
    def entities(self) -> Sequence[Entity]:
        """What the question names."""

    @property
    def confidence(self) -> float:
        """From 0 to 1."""

    @property
    def facts(self) -> Sequence[Fact]:
        """The most telling first."""

    @property
    def known(self) -> Mapping[str, Entity]:
        """Entities by id."""

    @property
    def route(self) -> str:
        """Why this method was chosen, or nothing."""

    @property
    def expansion_skipped(self) -> str:
        """Why the graph did not lead or did not run, or nothing."""

    @property
    def fallback(self) -> str:
        """What had to be done without, or nothing."""

    @property
    def trace(self) -> Trace:
        """How long it took."""
