"""Spreading activation: facts around the entities nearest to a question, and the passages that state them."""

import time
from dataclasses import dataclass, field, replace
from math import log10

import numpy as np
import numpy.typing as npt

from graphrag_core.key_sets import distinct
from graphrag_core.model import Fact
from graphrag_core.ports import Keys, Ranking
from graphrag_core.query.fusion import ReciprocalRank
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.strategies.strategy import MAX_EDGES, GraphStrategy

WEEK = 7 * 24 * 60 * 60.0

_SOURCES = (("user_edit", 2.0), ("file", 1.5), ("system", 1.2), ("conversation", 1.0))
_MAX_MATCHED = 50  # facts that share words with the question
_NEAREST = 5  # passages through which the graph is entered where names are not embedded


@dataclass(frozen=True, kw_only=True)
class Relevance:
    """The relevance of a fact: confidence · source · decay · usage · status.

    Parameters
    ----------
    sources
        The weight of each source; 1 for a source that is not listed.
    grace, weekly
        After ``grace`` weeks without access, a fact is multiplied by ``weekly`` every week.
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
        ...                    status="confirmed", last_accessed=0.0, access_count=9)
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
class SpreadingActivation(GraphStrategy):
    """Starts at the entities whose names are nearest to the question and follows facts breadth-first.

    A triple is followed from its subject, a sentence from every entity in it. Facts are ranked by
    :class:`Relevance`, passages by their best fact. Each fact that is read counts as accessed.

    If the index embeds no names, it starts at the entities that the question names, or else at the entities of the
    nearest passages; if the question has no embedding, at entities whose names share words with it.

    Parameters
    ----------
    anchors
        How many entities to start at.
    hops
        How many times to continue from the entities that the facts lead to.
    max_facts, facts_per_entity
        The maximum number of facts in all, and per entity, most confident first.
    relevance
        How facts are scored.
    """

    fusion = ReciprocalRank()

    anchors: int = 3
    hops: int = 2
    max_facts: int = 30
    facts_per_entity: int = 10
    relevance: Relevance = field(default_factory=Relevance)

    def expand(self, query: Query, text_ranking: Ranking, k: int) -> Expansion:  # noqa: ARG002
        """Return the passages of the activated facts, best first."""
        now = time.time()
        anchors, remark = self._anchors(query)
        facts = self._spread(query, anchors)
        scores = {key: self.relevance.score(fact, now) for key, fact in facts.items()}
        ranked = np.array(sorted(facts, key=lambda key: -scores[key]), np.int64)  # stable: reached first stays first
        if query.counts_access:
            query.snapshot.record_access(ranked, now)
        best: dict[int, float] = {}
        for key, chunk in zip(ranked.tolist(), query.snapshot.fact_rows(ranked).chunks.tolist(), strict=True):
            best.setdefault(chunk, scores[key])
        chunks, values = query.best_first(best)
        strength, ids = values / values.max(initial=1e-9), tuple(facts[key].id for key in ranked.tolist())
        return Expansion(chunks, values, strength, ranked, remark=remark, ranked_facts=ids)

    def _anchors(self, query: Query) -> tuple[Keys, str]:
        """Return the entities to start at, and a remark if they were not found by their names."""
        snapshot = query.snapshot
        if query.vector is not None and snapshot.has_name_vectors:
            return snapshot.nearest_entities(query.vector, self.anchors)[0], ""
        if query.vector is None:
            others = self._named_alike(query)
            return np.array([*dict.fromkeys([*query.entities.tolist(), *others])][: self.anchors], np.int64), ""
        if len(query.entities) or not snapshot.has_entities:
            return query.entities[: self.anchors], ""
        ((chunks, scores),) = snapshot.nearest(query.vector[None, :], _NEAREST)
        chunks = chunks[query.order(chunks, scores)][:_NEAREST]
        # Of each passage its subjects first, then what it mentions least often elsewhere.
        edges = snapshot.neighbours(chunks, to="entities")
        mentions = snapshot.entity_counts(edges.targets)
        owners = np.repeat(np.arange(len(chunks)), edges.counts)
        ids = np.array([entity.id for entity in snapshot.entities(edges.targets)], np.str_)
        order = np.lexsort((ids, mentions, -edges.weights, owners))
        found = [*dict.fromkeys(edges.targets[order].tolist())][: self.anchors]
        remark = "names are not embedded: the graph was entered through the passages nearest to the question"
        return np.array(found, np.int64), remark if found else ""

    def _named_alike(self, query: Query) -> list[int]:
        """Return entities of the first passages whose names share words with the question, most shared first."""
        snapshot, terms = query.snapshot, query.snapshot.terms(query.text)
        chunks, _ = snapshot.keywords(query.text, _MAX_MATCHED)
        entities = np.array([*dict.fromkeys(snapshot.neighbours(chunks, to="entities").targets.tolist())], np.int64)
        shared = snapshot.in_names(entities, terms).sum(axis=1) if terms else np.zeros(len(entities))
        order = np.argsort(-shared, kind="stable")
        return [int(entities[at]) for at in order if shared[at] > 0]

    def _spread(self, query: Query, anchors: Keys) -> dict[int, Fact]:
        """Return the activated facts by key, in the order in which they are reached."""
        facts: dict[int, float] = {}
        visited, frontier = set[int](), anchors.tolist()
        for _ in range(self.hops):
            reached: list[int] = []
            for entity in frontier:
                if entity not in visited and len(facts) < self.max_facts:
                    visited.add(entity)
                    outgoing, since = self._outgoing(query, entity)
                    facts.update(zip(outgoing.tolist(), since.tolist(), strict=True))
                    reached += query.snapshot.fact_rows(outgoing).entities.tolist()
            frontier = reached
        chosen = [*facts][: self.max_facts]
        read = query.snapshot.facts(np.array(chosen, np.int64))
        return {key: replace(fact, last_accessed=facts[key]) for key, fact in zip(chosen, read, strict=True)}

    def _outgoing(self, query: Query, entity: int) -> tuple[Keys, npt.NDArray[np.float64]]:
        """Return the most confident facts that start at an entity, and the time from which each ages.

        Ties are broken by the similarity to the question. Only the graph around this entity is read: of the graph
        around all of them, most is beyond ``max_facts``.
        """
        around = query.surroundings(np.array([entity]), limit=MAX_EDGES)
        facts, confidence, since = query.snapshot.outgoing_facts(
            entity, distinct(np.array(around.es["fact"], np.int64))
        )
        similarity = query.snapshot.fact_cosines(facts, query.vector)
        order = query.order(facts, confidence, similarity, of_facts=True)[: self.facts_per_entity]
        return facts[order], since[order]
