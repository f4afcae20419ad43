"""What a context is made of, and made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from graphrag_core.model import Entity, Fact
from graphrag_core.query.hit import Hit


@dataclass(frozen=True)
class Material:
    """What a result knows, as far as a context tells it."""

    entities: Sequence[Entity]
    known: Mapping[str, Entity]
    facts: Sequence[Fact]
    hits: Sequence[Hit]

    def name(self, entity: str) -> str:
        """Return how an entity is called."""
        return self.known[entity].name if entity in self.known else entity

    def entity_id(self, entity: str) -> str:
        """Return the id that stands for an entity, whatever its spelling in a fact."""
        return self.known[entity].id if entity in self.known else entity


@dataclass(frozen=True)
class Source:
    """Something a context speaks of, so that an answer can cite it."""

    kind: Literal["chunk", "entity", "fact"]
    id: str
    name: str = ""


@dataclass(frozen=True)
class Item:
    """A piece of a context that is there whole or not at all.

    ``slot`` says which part of the text it belongs to; items of one slot stand in the order
    in which they were chosen. Without a ``required`` one there is no context. ``cuts`` are
    the places, ascending, at which ``cut`` can shorten it when nothing else was chosen yet.
    """

    slot: tuple[int, ...]
    text: str
    sources: tuple[Source, ...] = ()
    required: bool = False
    cuts: tuple[int, ...] = ()
    cut: Callable[[int], str] | None = None


@dataclass(frozen=True)
class Draft:
    """The items of a context, the most useful first, and how chosen ones become text."""

    items: Sequence[Item]
    render: Callable[[Sequence[Item]], str]


def fact_source(fact: Fact) -> tuple[Source, ...]:
    """Return a fact, and the chunk it was read in, as sources."""
    return (Source("fact", fact.id, fact.relation), Source("chunk", fact.chunk_id))
