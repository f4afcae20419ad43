"""Relations: facts as edges between entities, read hop by hop from keys alone, as an ``igraph.Graph``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_core.deadline import check_deadline
from graphrag_core.key_sets import among, distinct, ranges
from graphrag_core.model import SENTENCE_WEIGHT
from graphrag_core.ports import FactRows, Keys, Scores

if TYPE_CHECKING:
    from igraph import Graph

    from graphrag_core.engine.snapshot import Snapshot

MENTION = -1
"""The ``fact`` of an edge between a passage and an entity that it mentions."""

_MOST_RELATED = 64  # entities of a fact; a fact with more is a list, which does not relate each to each
_MAX_READ = 20_000  # facts of one entity
_STATED = 100.0  # more than any weight: a stated weight comes before a sentence


class Edges(NamedTuple):
    """Edges as columns: their ends, the fact of each, its weight (1 to 10), and whether someone stated the weight.

    The weight of a sentence is not stated. A fact of one entity, whose object is a value, is a loop.
    """

    sources: Keys
    targets: Keys
    facts: Keys
    weights: Scores
    stated: npt.NDArray[np.bool_]

    def chosen(self, which: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> Edges:
        """Return some of the edges, by a mask or by their positions."""
        columns: Any = (column[which] for column in self)
        return Edges(*columns)

    def joined(self, others: Edges) -> Edges:
        """Return these edges, then others."""
        columns: Any = zip(self, others, strict=True)
        return Edges(*map(np.concatenate, columns))


class Relations:
    """The relations around some entities. Each call of :meth:`grow` follows facts one hop further.

    It begins at entities, and at those that ``passages`` mention. ``relations`` restricts it to triples of these,
    ``min_weight`` to facts of this weight, ``most_neighbours`` to the most strongly related entities of each,
    ``stated`` leaves sentences out. ``limit`` is the maximum number of edges: the strongest of a hop are kept, and
    ``is_complete`` is False if there are more. ``entities`` are all that were reached, ``frontier`` those of the last
    hop. ``edges`` are in order of hops, of each hop the strongest first: a stated weight before a sentence.
    """

    def __init__(
        self, snapshot: Snapshot, start: Keys, *, passages: Keys | None = None, relations: Sequence[str] | None = None,
        min_weight: float = 0.0, most_neighbours: int | None = None, limit: int | None = None, stated: bool = False,
    ) -> None:  # fmt: skip
        self._snapshot, self._relations, self._limit, self._stated = snapshot, relations, limit, stated
        self._min_weight, self._most_neighbours = min_weight, most_neighbours
        self.is_complete = True
        self.passages = start[:0] if passages is None else distinct(passages)
        mentions = snapshot.neighbours(self.passages, to="entities")
        count = len(mentions.targets)
        self.edges = Edges(
            self.passages.repeat(mentions.counts), mentions.targets, np.full(count, MENTION), mentions.weights,
            np.ones(count, np.bool_),
        )  # fmt: skip
        self.entities = self.frontier = distinct(start, mentions.targets)

    def grow(self) -> None:
        """Read the facts of the entities that the last hop reached."""
        check_deadline()
        edges = self._strongest_first(self._of_frontier())
        if self._limit is not None and len(self.edges.facts) + len(edges.facts) > self._limit:
            edges = edges.chosen(np.arange(max(self._limit - len(self.edges.facts), 0)))
            self.is_complete = False
        self.edges = self.edges.joined(edges)
        reached = distinct(edges.sources, edges.targets)
        self.frontier = reached[~among(reached, self.entities)]
        self.entities = distinct(self.entities, self.frontier)

    def _of_frontier(self) -> Edges:
        """Return the edges from the entities of the frontier that no earlier hop has returned."""
        rows, is_stated = self._facts()
        fact = np.arange(len(rows.keys)).repeat(rows.counts)
        followed = (
            (rows.counts <= _MOST_RELATED) & (rows.weights >= self._min_weight) & (is_stated | (not self._stated))
        )
        starts = np.flatnonzero(among(rows.entities, self.frontier) & followed[fact])
        fact = fact[starts]
        counts = rows.counts[fact]
        sources = rows.entities[starts].repeat(counts)
        targets = rows.entities[ranges((rows.counts.cumsum() - rows.counts)[fact], counts)]
        fact = fact.repeat(counts)
        edges = Edges(sources, targets, rows.keys[fact], rows.weights[fact], is_stated[fact])
        edges = edges.chosen((sources != targets) | (rows.counts[fact] == 1))
        if self._most_neighbours is not None:
            edges = edges.chosen(_nearest(edges, self._most_neighbours))
        before = self.entities[~among(self.entities, self.frontier)]
        twice = among(edges.targets, self.frontier) & (edges.targets < edges.sources)
        return edges.chosen(~twice & ~among(edges.targets, before))

    def _facts(self) -> tuple[FactRows, npt.NDArray[np.bool_]]:
        """Return the facts of the frontier, and which weights are stated; if there are too many, the strongest."""
        snapshot = self._snapshot
        facts = snapshot.facts_of(self.frontier, relations=self._relations, limit=_MAX_READ)
        room = len(facts) if self._limit is None else max(self._limit - len(self.edges.facts), 0)
        while True:
            rows = snapshot.fact_rows(facts)
            is_stated = (rows.weights != SENTENCE_WEIGHT) | snapshot.are_triples(facts)
            if len(facts) <= room:  # each has an edge or more
                return rows, is_stated
            self.is_complete = False
            strengths = rows.weights + _STATED * is_stated
            facts = facts[np.lexsort((snapshot.fact_order(facts), -strengths))[:room]]

    def _strongest_first(self, edges: Edges) -> Edges:
        strengths = edges.weights + _STATED * edges.stated
        return edges.chosen(np.lexsort((self._snapshot.fact_order(edges.facts), -strengths)))

    def graph(self) -> Graph:
        """Return the graph: vertices have a ``key``, edges ``fact`` (-1 for a mention), ``weight`` and ``stated``."""
        import igraph  # noqa: PLC0415 - imports matplotlib if that is installed, which takes long

        keys = distinct(self.passages, self.entities)
        sources, targets = keys.searchsorted(self.edges.sources), keys.searchsorted(self.edges.targets)
        return igraph.Graph(
            len(keys),
            zip(sources.tolist(), targets.tolist(), strict=True),
            vertex_attrs={"key": keys.tolist()},
            edge_attrs={
                "fact": self.edges.facts.tolist(),
                "weight": self.edges.weights.tolist(),
                "stated": self.edges.stated.tolist(),
            },
        )


def _nearest(edges: Edges, most: int) -> npt.NDArray[np.bool_]:
    """Return which edges lead to one of the ``most`` entities that are most strongly related to their source."""
    order = np.lexsort((edges.targets, -(edges.weights + _STATED * edges.stated), edges.sources))
    pairs = np.column_stack([edges.sources, edges.targets])
    neighbours: dict[int, dict[int, None]] = {}
    for source, target in pairs[order].tolist():
        known = neighbours.setdefault(source, {})
        if len(known) < most:
            known[target] = None
    return np.array([target in neighbours[source] for source, target in pairs.tolist()], np.bool_)
