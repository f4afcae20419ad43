"""Facts that a question's nearest entities activate, breadth first, and the passages they stand in."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from graphrag_core.model import Fact
from graphrag_core.ports import Keys
from graphrag_core.query.fuse import Fusion, ReciprocalRank
from graphrag_core.query.ground import Ground, Ranking
from graphrag_core.query.relevance import Relevance
from graphrag_core.query.strategy import Expansion
from graphrag_core.stores.change import pack

_MOST_SCANNED = 2_000


@dataclass(frozen=True, kw_only=True)
class SpreadingActivation:
    """Starts at the entities whose names are nearest to the question and follows facts outwards.

    A triple is followed from its subject, a sentence from each entity in it. Facts are
    ranked by :class:`~graphrag_core.query.relevance.Relevance`, passages by their best
    fact. Reading a fact counts as an access, which is written with the next change of the index.

    Parameters
    ----------
    anchors
        How many entities to start at. Where names are not embedded, what the question
        names is taken.
    hops
        How often to go on from what the facts lead to.
    max_facts, facts_per_entity
        How many facts to read in all, and of one entity, the most confident first.
    relevance
        What a fact is worth.
    """

    fusion: ClassVar[Fusion] = ReciprocalRank()

    anchors: int = 3
    hops: int = 2
    max_facts: int = 30
    facts_per_entity: int = 10
    relevance: Relevance = field(default_factory=Relevance)

    def expand(self, ground: Ground, plain: Ranking, k: int) -> Expansion:  # noqa: ARG002
        """Return the passages of the activated facts, best first."""
        now = time.time()
        facts = self._spread(ground)
        scores = {key: self.relevance.score(fact, now) for key, fact in facts.items()}
        ranked = sorted(facts, key=lambda key: -scores[key])  # stable: what was reached first stays first
        ground.accesses.note(ranked, now)
        best: dict[int, float] = {}
        for key in ranked:
            chunk = int(ground.view.fact_chunk[np.searchsorted(ground.view.fact_keys, key)])
            best.setdefault(chunk, scores[key])
        chunks = np.fromiter(best, np.int64)
        keys, values = ground.view.chunk_keys[chunks], np.fromiter(best.values(), np.float32)
        order = ground.in_order(keys, values, ground.cosine(keys))
        strength = values[order] / values.max(initial=1e-9)
        return Expansion(keys[order], values[order], strength, np.array(ranked, np.int64))

    def starts(self, ground: Ground) -> list[int]:
        """Return the entities to start at."""
        names = ground.derived.vectors["names"]
        if ground.vector is None or len(names.keys) == 0:
            return list(ground.entities)[: self.anchors]
        view = ground.view
        ((keys, scores),) = names.search(ground.vector[None, :], 4 * self.anchors, view.name_keys)
        entities = view.name_entity[np.searchsorted(view.name_keys, keys)]
        return list(dict.fromkeys(entities[np.lexsort((entities, -scores))].tolist()))[: self.anchors]

    def _spread(self, ground: Ground) -> dict[int, Fact]:
        """Return the facts by key, in the order they were reached."""
        found: dict[int, Fact] = {}
        visited: set[int] = set()
        frontier = self.starts(ground)
        for _ in range(self.hops):
            if len(found) >= self.max_facts:
                break
            ahead: list[int] = []
            for entity in frontier:
                if entity in visited:
                    continue
                visited.add(entity)
                for key, fact in self._facts(ground, entity).items():
                    found.setdefault(key, fact)
                    position = int(np.searchsorted(ground.view.fact_keys, key))
                    ahead.extend(other for other in ground.view.entities_in(position).tolist() if other != entity)
            frontier = ahead
        return dict(list(found.items())[: self.max_facts])

    def _facts(self, ground: Ground, entity: int) -> dict[int, Fact]:
        """Return the most confident facts of an entity; of equally confident ones those nearest to the question."""
        view = ground.view
        positions = view.facts_of(entity)
        strongest = ground.facts_in_order(positions, view.fact_weight[positions])[:_MOST_SCANNED]
        order, starts = view.names_by_entity
        spellings = view.name_keys[order[starts[entity] : starts[entity + 1]]]
        rows = _outgoing(ground, view.fact_keys[strongest], spellings)
        since = {row[0]: row[2] for row in rows}
        keys = np.array([row[0] for row in rows], np.int64)
        confidence = np.array([row[1] for row in rows], np.float32)
        found = np.searchsorted(view.fact_keys, keys)
        best = view.fact_keys[
            ground.facts_in_order(found, confidence, _likeness(ground, keys))[: self.facts_per_entity]
        ]
        read = zip(best.tolist(), ground.records.facts(best), strict=True)
        return {key: _with_accesses(fact, since[key], ground.accesses.of(key)) for key, fact in read}


def _outgoing(ground: Ground, facts: Keys, spellings: Keys) -> list[tuple[Any, ...]]:
    """Return key, confidence and age of the facts that start at one of some names."""
    marks = ", ".join("?" * len(spellings))
    return ground.records.rows(
        "SELECT f.key, f.confidence, coalesce(f.last_accessed, f.created, d.added) FROM facts f "
        "JOIN chunks c ON c.key = f.chunk JOIN documents d ON d.key = c.document "
        "WHERE f.key IN (SELECT value FROM json_each(?)) AND f.status IN ('staged', 'confirmed') "
        f"AND (f.relation IS NULL OR substr(f.names, 1, 8) IN ({marks}))",
        (json.dumps(facts.tolist()), *(pack([name]) for name in spellings.tolist())),
    )


def _likeness(ground: Ground, facts: Keys) -> np.ndarray[Any, np.dtype[np.float32]]:
    vectors = ground.derived.vectors["facts"]
    if ground.vector is None or len(facts) == 0 or len(vectors.keys) == 0:
        return np.zeros(len(facts), np.float32)
    likeness: np.ndarray[Any, np.dtype[np.float32]] = vectors.get(facts) @ ground.vector
    return likeness


def _with_accesses(fact: Fact, since: float, pending: tuple[int, float | None]) -> Fact:
    count, last = pending
    return replace(fact, access_count=fact.access_count + count, last_accessed=since if last is None else last)
