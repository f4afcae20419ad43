"""From a question on its ground to a result: search, expand, fuse, explain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from graphrag_core.model import Entity
from graphrag_core.ports import Keys
from graphrag_core.query.channels import Found, expand, search
from graphrag_core.query.clock import Clock
from graphrag_core.query.ground import Ground, Ranking
from graphrag_core.query.hit import Channel, Hit
from graphrag_core.query.path import Way, Ways, describe
from graphrag_core.query.plan import Plan
from graphrag_core.query.result import Result
from graphrag_core.query.surroundings import choose_facts, read_surroundings
from graphrag_core.text import normalise


@dataclass(frozen=True)
class Fused:
    """The chosen chunks with their scores, the rank and score that each channel gives them, and a remark."""

    keys: list[int]
    scores: list[float]
    ranks: Mapping[str, Mapping[int, tuple[int, float]]]
    remark: str = ""


def answer(ground: Ground, plan: Plan, clock: Clock) -> Result:
    """Run the stages that a plan asks for."""
    count = max(plan.candidates, plan.k)
    with clock.stage("search"):
        channels, plain = search(ground, plan.method, count)
    with clock.stage("expand"):
        found = expand(ground, plan, channels, plain, count)
    with clock.stage("fuse"):
        fused = _fuse(ground, plan, found)
    with clock.stage("explain"):
        return _explain(ground, plan, found, fused)


def _fuse(ground: Ground, plan: Plan, found: Found) -> Fused:
    numbers = _Numbers(ground, [found.plain, found.graph, *found.channels.values()])
    plain, graph = numbers.sorted(found.plain), numbers.of(found.graph)
    channels, remark = dict(found.channels), ""
    ranking = plain
    if len(graph[0]):
        alone = plan.method == "graph"
        ranking = graph if alone else plan.fusion.fuse(plain, graph, lead=found.lead)
        channels = {"graph": channels["graph"]} if alone else channels
    elif plan.method == "graph" and not found.skipped:
        remark = "the graph leads nowhere from here: plain search answers"
    chosen, scores = np.asarray(ranking[0][: plan.k]), np.asarray(ranking[1][: plan.k]).tolist()
    ranks = {
        name: numbers.ranks(numbers.of(own) if name == "graph" else numbers.sorted(own), chosen)
        for name, own in channels.items()
    }
    return Fused(numbers.keys(chosen), scores, ranks, remark)


class _Numbers:
    """Chunks of some rankings, numbered in the order of their ids, by which ties break."""

    def __init__(self, ground: Ground, rankings: list[Ranking]) -> None:
        self._keys = np.unique(np.concatenate([ranking[0] for ranking in rankings]))
        by_id = np.argsort(ground.derived.places(self._keys))
        self._by_id = self._keys[by_id]
        self._number = np.empty_like(by_id)
        self._number[by_id] = np.arange(len(by_id))

    def of(self, ranking: Ranking) -> Ranking:
        """Return a ranking in numbers."""
        return self._number[np.searchsorted(self._keys, ranking[0])], ranking[1]

    def sorted(self, ranking: Ranking) -> Ranking:
        """Return a ranking in numbers, its ties in order."""
        numbers, scores = self.of(ranking)
        order = np.lexsort((numbers, -scores))
        return numbers[order], scores[order]

    def ranks(self, ranking: Ranking, chosen: Keys) -> dict[int, tuple[int, float]]:
        """Return rank and score in a ranking, by key, of those of the chosen that it has."""
        numbers, scores = ranking
        rank = np.zeros(len(self._keys), np.int64)
        rank[numbers] = np.arange(1, len(numbers) + 1)
        there = chosen[rank[chosen] > 0]
        at = rank[there]
        return dict(zip(self.keys(there), zip(at.tolist(), scores[at - 1].tolist(), strict=True), strict=True))

    def keys(self, numbers: Keys) -> list[int]:
        """Return the keys of numbers."""
        keys: list[int] = self._by_id[numbers].tolist()
        return keys


def _explain(ground: Ground, plan: Plan, found: Found, fused: Fused) -> Result:
    view = ground.view
    with_graph = "graph" in found.channels
    positions = np.searchsorted(view.chunk_keys, fused.keys).tolist()
    ways: list[Way] = Ways(ground, positions).all() if with_graph else [()] * len(positions)
    facts_at = choose_facts(ground, ways, found.expansion.facts, positions) if with_graph else []
    facts, entities = read_surroundings(ground, facts_at, [*ground.entities, *(e for way in ways for e in way[::2])])
    by_position = dict(zip(facts_at, facts, strict=True))
    hits = []
    for chunk, key, score, way in zip(ground.records.chunks(fused.keys), fused.keys, fused.scores, ways, strict=True):
        channels = _shared({name: ranks[key] for name, ranks in fused.ranks.items() if key in ranks})
        query = found.expansion.queries.get(key, "")
        by_graph = bool(query) or set(channels) == {"graph"}
        path = describe(ground.question, chunk, way, by_position, entities)
        hits.append(Hit(chunk, score, channels, path, "graph" if by_graph else "plain", query))
    return Result(
        question=ground.question,
        method=plan.method,
        hits=tuple(hits),
        entities=tuple(entities[position] for position in ground.entities),
        confidence=found.confidence,
        facts=facts,
        known=_by_name(entities.values()),
        route=plan.route,
        expansion_skipped=found.skipped,
        fallback="; ".join(filter(None, (plan.fallback, found.expansion.remark, fused.remark))),
    )


def _shared(ranks: Mapping[str, tuple[int, float]]) -> dict[str, Channel]:
    """Return channels with their shares, in proportion to 1 / rank."""
    whole = sum(1 / rank for rank, _ in ranks.values())
    return {name: Channel(rank, score, 1 / rank / whole) for name, (rank, score) in ranks.items()}


def _by_name(entities: Iterable[Entity]) -> dict[str, Entity]:
    """Return entities under their ids and under those of their aliases, as facts may have either."""
    return {name: entity for entity in entities for name in (*map(normalise, entity.aliases), entity.id)}
