"""The strongest way from a question through the graph to a passage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from graphrag_core.model import Chunk, Entity, Fact
from graphrag_core.ports import Keys
from graphrag_core.query.ground import Ground, among
from graphrag_core.query.hit import Step
from graphrag_core.stores.view import GraphView

Way = tuple[int, ...]
"""Positions by turns: an entity, a fact, an entity, and so on. The last is in the passage."""

Path = tuple[Step, ...]
"""The same in words, from the question to the passage."""

_MOST_BETWEEN = 16  # entities to go on from


@dataclass(frozen=True)
class _Links:
    """The strongest link from some entities to each other one, ordered by where it leads."""

    start: Keys
    end: Keys
    strength: np.ndarray[tuple[int], np.dtype[np.float32]]

    def best(self, ends: Keys) -> int | None:
        """Return the strongest link that leads to one of some entities."""
        if len(self.end) == 0:
            return None
        at = np.minimum(np.searchsorted(self.end, ends), len(self.end) - 1)
        there = at[self.end[at] == ends]
        return int(there[np.argmax(self.strength[there])]) if len(there) else None


class Ways:
    """The ways from the entities that a question names to some chunks, by position."""

    def __init__(self, ground: Ground, chunks: Sequence[int]) -> None:
        self._ground = ground
        self._view: GraphView = ground.view
        self._named = np.unique(np.array(ground.entities, np.int64))
        self._inside = [self._view.entities_of(chunk) for chunk in chunks]

    def all(self) -> list[Way]:
        """Return for each chunk how one of the question's entities leads to it, empty if none does.

        Directly when the chunk mentions the entity; else over the strongest link to an entity
        the chunk mentions; else over two. A link is strong when its facts are and when few
        passages mention where it leads. Of the facts that make it the strongest is told.
        """
        return [self._to(inside) for inside in self._inside]

    def _to(self, inside: Keys) -> Way:
        direct = self._named[among(self._named, inside)]
        if len(direct):
            return (int(direct[np.argmin(self._view.entity_chunks[direct])]),)
        if (near := self._near.best(inside)) is not None:
            return self._told(int(self._near.start[near]), int(self._near.end[near]))
        if (far := self._far.best(inside)) is not None:
            between = int(self._far.start[far])
            before = self._near.best(np.array([between]))
            start = int(self._near.start[before]) if before is not None else between
            return (*self._told(start, between), *self._told(between, int(self._far.end[far]))[1:])
        return ()

    @cached_property
    def _near(self) -> _Links:
        return self._links(self._named)

    @cached_property
    def _far(self) -> _Links:
        """Links that go on from where the strongest of the first ones lead."""
        strongest = np.argsort(-self._near.strength, kind="stable")[:_MOST_BETWEEN]
        between = np.unique(self._near.end[strongest])
        wanted = np.zeros(len(self._view.entity_ids), np.bool_)
        wanted[np.concatenate(self._inside)] = True
        wanted[self._named] = False
        return self._links(between, wanted)

    def _links(self, entities: Keys, wanted: npt.NDArray[np.bool_] | None = None) -> _Links:
        rows = [self._view.linked(entity) for entity in entities.tolist()]
        ends = np.concatenate([row[0] for row in rows] or [np.empty(0, np.int64)])
        weights = np.concatenate([row[1] for row in rows] or [np.empty(0, np.float32)])
        starts = np.repeat(entities, [len(row[0]) for row in rows])
        if wanted is not None:
            kept = wanted[ends]
            starts, ends, weights = starts[kept], ends[kept], weights[kept]
        strength = weights * self._view.rarity[ends]
        if len(rows) > 1:
            order = np.lexsort((starts, -strength, ends))
            order = order[np.diff(ends[order], prepend=-1) > 0]
            starts, ends, strength = starts[order], ends[order], strength[order]
        return _Links(starts, ends, strength)

    def _told(self, start: int, end: int) -> Way:
        view = self._view
        some, others = view.facts_of(start), view.facts_of(end)
        joining = some[among(some, others)] if len(some) < len(others) else others[among(others, some)]
        if len(joining) > 1:
            joining = self._ground.facts_in_order(joining, view.fact_weight[joining])
        return start, int(joining[0]), end


def describe(question: str, chunk: Chunk, way: Way, facts: Mapping[int, Fact], entities: Mapping[int, Entity]) -> Path:
    """Return a way to a chunk in words."""
    if not way:
        return ()
    steps = [Step("question", "", question)]
    for i, position in enumerate(way):
        if i % 2:
            steps.append(Step("fact", facts[position].id, facts[position].text))
        else:
            steps.append(Step("entity", entities[position].id, entities[position].name))
    return (*steps, Step("chunk", chunk.id, chunk.title or chunk.id))
