"""Spreading activation: facts around the entities nearest to a question, and the passages that state them."""

import time
from dataclasses import dataclass, field, replace
from math import log10
from typing import ClassVar

import numpy as np

from graphrag_core.model import Fact
from graphrag_core.ports import Keys, Ranking
from graphrag_core.query.fusion import Fusion, ReciprocalRank
from graphrag_core.query.query import Expansion, Query

WEEK = 7 * 24 * 60 * 60.0

_SOURCES = (("user_edit", 2.0), ("file", 1.5), ("system", 1.2), ("conversation", 1.0))
_MAX_SCANNED = 2_000  # facts of one entity


@dataclass(frozen=True, kw_only=True)
class Relevance:
    """The relevance of a fact: confidence · source · decay · usage · status.

    Parameters
    ----------
    sources
        The weight of each source; 1 for a source that is not listed.
    grace, weekly
        A fact loses nothing for ``grace`` weeks after its last access; then it is multiplied by
        ``weekly`` every week.
    usage
        How much each tenfold increase of accesses adds.
    confirmed
        The weight of a confirmed fact; a staged one has 1.
    """

    sources: tuple[tuple[str, float], ...] = _SOURCES
    grace: float = 1.0
    weekly: float = 0.95
    usage: float = 0.5
    confirmed: float = 1.2

    def score(self, fact: Fact, now: float) -> float:
        """Return the relevance of a fact at a time in seconds since the epoch.

        A fact that was never accessed ages from its creation.

        >>> three_weeks = Fact(("User",), "prefers dark mode", confidence=0.8, source="user_edit",
        ...                    last_accessed=0.0, access_count=9)
        >>> round(Relevance().score(three_weeks, 3 * WEEK), 4)
        2.5992
        """
        since = fact.last_accessed if fact.last_accessed is not None else fact.created
        weeks = 0.0 if since is None else (now - since) / WEEK
        decay = self.weekly ** (weeks - self.grace) if weeks > self.grace else 1.0
        usage = 1 + log10(fact.access_count + 1) * self.usage
        status = self.confirmed if fact.status == "confirmed" else 1.0
        return fact.confidence * dict(self.sources).get(fact.source, 1.0) * decay * usage * status


@dataclass(frozen=True, kw_only=True)
class SpreadingActivation:
    """Starts at the entities whose names are nearest to the question and follows facts breadth-first.

    A triple is followed from its subject, a sentence from every entity in it. Facts are ranked by
    :class:`Relevance`, passages by their best fact. Each fact that is read counts as accessed.

    Parameters
    ----------
    anchors
        How many entities to start at. Without name embeddings, the entities that the question names.
    hops
        How many times to continue from the entities that the facts lead to.
    max_facts, facts_per_entity
        The maximum number of facts in all, and per entity, most confident first.
    relevance
        How facts are scored.
    """

    fusion: ClassVar[Fusion] = ReciprocalRank()

    anchors: int = 3
    hops: int = 2
    max_facts: int = 30
    facts_per_entity: int = 10
    relevance: Relevance = field(default_factory=Relevance)

    def expand(self, query: Query, plain: Ranking, k: int) -> Expansion:  # noqa: ARG002
        """Return the passages of the activated facts, best first."""
        now = time.time()
        facts = self._spread(query)
        scores = {key: self.relevance.score(fact, now) for key, fact in facts.items()}
        ranked = np.array(sorted(facts, key=lambda key: -scores[key]), np.int64)  # stable: reached first stays first
        query.snapshot.record_access(ranked, now)
        best: dict[int, float] = {}
        for key, chunk in zip(ranked.tolist(), query.snapshot.fact_rows(ranked).chunks.tolist(), strict=True):
            best.setdefault(chunk, scores[key])
        chunks, values = np.array(list(best), np.int64), np.array(list(best.values()), np.float32)
        similarity = query.snapshot.similarities("chunks", chunks, query.vector)
        order = query.order("chunks", chunks, values, similarity)
        strength = values[order] / values.max(initial=1e-9)
        return Expansion(chunks[order], values[order], strength, ranked)

    def starts(self, query: Query) -> Keys:
        """Return the entities to start at."""
        if query.vector is None or not query.snapshot.has("entities", vectors=True):
            return query.entities[: self.anchors]
        return query.by_vector("entities", self.anchors)[0][: self.anchors]

    def _spread(self, query: Query) -> dict[int, Fact]:
        """Return the activated facts by key, in the order in which they were reached."""
        found: dict[int, Fact] = {}
        visited: set[int] = set()
        frontier = self.starts(query).tolist()
        for _ in range(self.hops):
            if len(found) >= self.max_facts:
                break
            following: list[int] = []
            for entity in frontier:
                if entity not in visited:
                    visited.add(entity)
                    facts = self._facts_of(query, entity)
                    for key, fact in facts.items():
                        found.setdefault(key, fact)
                    following += query.snapshot.fact_rows(np.array(list(facts), np.int64)).entities.tolist()
            frontier = following
        return dict(list(found.items())[: self.max_facts])

    def _facts_of(self, query: Query, entity: int) -> dict[int, Fact]:
        """Return the most confident facts that start at an entity; ties by similarity to the question."""
        keys, confidence, accessed = query.snapshot.outgoing_facts(entity, _MAX_SCANNED)
        similarity = query.snapshot.similarities("facts", keys, query.vector)
        order = query.order("facts", keys, confidence, similarity)[: self.facts_per_entity]
        facts = zip(keys[order].tolist(), query.snapshot.facts(keys[order]), accessed[order].tolist(), strict=True)
        return {key: replace(fact, last_accessed=since) for key, fact, since in facts}
