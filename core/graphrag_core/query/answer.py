"""From a question on its ground to a result: search, expand, fuse, explain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphrag_core.model import Chunk
from graphrag_core.query.clock import Clock
from graphrag_core.query.fuse import Fusion, Lead
from graphrag_core.query.gate import VECTOR_ONLY, Gate, confidence
from graphrag_core.query.ground import Ground, Ranking
from graphrag_core.query.hit import Channel, Hit
from graphrag_core.query.path import Way, Ways, describe
from graphrag_core.query.result import Result
from graphrag_core.query.route import Channelled
from graphrag_core.query.strategy import Expansion, GraphStrategy
from graphrag_core.query.surroundings import choose_facts, read_surroundings
from graphrag_core.text import normalise


@dataclass(frozen=True)
class Plan:
    """How one question is to be answered."""

    k: int
    method: Channelled
    use_graph: bool
    candidates: int
    strategy: GraphStrategy
    fusion: Fusion
    gate: Gate
    route: str = ""
    fallback: str = ""

    @property
    def wants_graph(self) -> bool:
        """Whether the graph is to be asked."""
        return self.use_graph and self.method in ("hybrid", "graph")


@dataclass(frozen=True)
class Found:
    """What the channels brought: plain search as one ranking, each channel's own, the graph's whole."""

    plain: Ranking
    channels: dict[str, Ranking]
    expansion: Expansion
    lead: Lead = "graph"
    confidence: float = VECTOR_ONLY
    skipped: str = ""

    @property
    def graph(self) -> Ranking:
        """The graph's chunks with strengths from 0 to 1, as fusions want them."""
        return self.expansion.keys, self.expansion.strengths


def answer(ground: Ground, plan: Plan, clock: Clock) -> Result:
    """Run the stages that a plan asks for."""
    count = max(plan.candidates, plan.k)
    with clock.stage("search"):
        channels, plain = _search(ground, plan.method, count)
    with clock.stage("expand"):
        found = _expand(ground, plan, channels, plain, count)
    with clock.stage("fuse"):
        chosen, ranks, fallback = _fuse(ground, plan, found)
    with clock.stage("explain"):
        return _explain(ground, plan, found, chosen, ranks, fallback)


def _search(ground: Ground, method: Channelled, count: int) -> tuple[dict[str, Ranking], Ranking]:
    """Return each plain channel's ranking and the one they make together."""
    channels: dict[str, Ranking] = {}
    if method != "keyword" and ground.vector is not None:
        channels["vector"] = ground.near("chunks", count)
    if method != "vector" or ground.vector is None:
        channels["keyword"] = ground.matching("chunks", count)
    if len(channels) == 1 and method in ("vector", "keyword"):
        return channels, next(iter(channels.values()))
    nothing = (np.empty(0, np.int64), np.empty(0, np.float32))
    return channels, ground.blended("chunks", channels.get("vector", nothing), channels.get("keyword", nothing))


def _expand(ground: Ground, plan: Plan, channels: dict[str, Ranking], plain: Ranking, count: int) -> Found:
    """Ask the graph, if it is to be asked, and decide how far to follow it."""
    if not plan.wants_graph:
        return Found(plain, channels, Expansion(), skipped="" if plan.use_graph else "the graph was not asked")
    nearest = channels["vector"][1] if "vector" in channels else np.empty(0, np.float32)
    trust = confidence(ground.question, len(ground.entities), float(nearest.max(initial=0)))
    skipped = plan.gate.skipped(trust, len(ground.entities))
    if skipped:
        return Found(plain, channels, Expansion(), "plain", trust, skipped)
    expansion = plan.strategy.expand(ground, plain, count)
    if plan.gate.min_graph_score > 0:
        expansion = expansion.at_least(plan.gate.min_graph_score)
    lead: Lead = "graph"
    if plan.method == "hybrid":
        names_subject = bool(ground.view.is_subject[list(ground.entities)].any())
        lead, skipped = plan.gate.lead(names_subject=names_subject, bridged=ground.view.bridged)
    return Found(plain, {**channels, "graph": expansion.ranking}, expansion, lead, trust, skipped)


def _fuse(ground: Ground, plan: Plan, found: Found) -> tuple[list[int], dict[str, dict[int, tuple[int, float]]], str]:
    """Return the chosen chunk keys, each channel's rank and score by key, and what had to be done without."""
    rankings = [found.plain, found.graph, *found.channels.values()]
    keys = np.unique(np.concatenate([ranking[0] for ranking in rankings]))
    by_id = np.argsort(ground.derived.places(keys), kind="stable")
    label = np.empty(len(keys), np.int64)
    label[by_id] = np.arange(len(keys))

    def labelled(ranking: Ranking) -> Ranking:
        """Return a ranking in numbers that follow the chunks' ids, by which ties of plain search break."""
        labels = label[np.searchsorted(keys, ranking[0])]
        order = np.lexsort((labels, -ranking[1]))
        return labels[order], ranking[1][order]

    plain = labelled(found.plain)
    graph = label[np.searchsorted(keys, found.graph[0])], found.graph[1]
    fallback = plan.fallback
    if plan.method == "graph":
        order = graph[0] if len(graph[0]) else plain[0]
        if not len(graph[0]) and not found.skipped:
            fallback = "; ".join(filter(None, [fallback, "the graph leads nowhere from here: plain search answers"]))
    else:
        order = plan.fusion.fuse(plain, graph, lead=found.lead) if len(graph[0]) else plain[0]
    back = keys[by_id]
    ranks = {}
    for name, ranking in found.channels.items():
        ordered = (graph[0], ranking[1]) if name == "graph" else labelled(ranking)
        pairs = enumerate(zip(back[ordered[0]].tolist(), ordered[1].tolist(), strict=True), 1)
        ranks[name] = {key: (rank, score) for rank, (key, score) in pairs}
    return back[order[: plan.k]].tolist(), ranks, fallback


def _explain(
    ground: Ground,
    plan: Plan,
    found: Found,
    chosen: list[int],
    ranks: dict[str, dict[int, tuple[int, float]]],
    fallback: str,
) -> Result:
    view = ground.view
    with_graph = "graph" in found.channels
    chunks = ground.records.chunks(chosen)
    positions = np.searchsorted(view.chunk_keys, chosen).tolist()
    leading = Ways(ground)
    ways: list[Way] = [leading.to(at) if with_graph else () for at in positions]
    on_paths = [fact for way in ways for fact in way[1::2]]
    facts_at = choose_facts(ground, on_paths, found.expansion.facts, positions) if with_graph else []
    facts, entities = read_surroundings(ground, facts_at, [*ground.entities, *(e for way in ways for e in way[::2])])
    by_position = dict(zip(facts_at, facts, strict=True))
    hits = [
        _hit(chunk, 1 / rank, {name: found_at[key] for name, found_at in ranks.items() if key in found_at},
             describe(ground.question, chunk, way, by_position, entities), found.expansion.queries.get(key, ""))
        for rank, (chunk, key, way) in enumerate(zip(chunks, chosen, ways, strict=True), 1)
    ]  # fmt: skip
    known = {name: entity for entity in entities.values() for name in _names(entity.id, entity.aliases)}
    named = tuple(entities[position] for position in ground.entities)
    return Result(
        ground.question, plan.method, tuple(hits), named, found.confidence, facts, known, plan.route,
        found.skipped, fallback,
    )  # fmt: skip


def _hit(chunk: Chunk, score: float, ranks: dict[str, tuple[int, float]], path: tuple[Any, ...], query: str) -> Hit:
    whole = sum(1 / rank for rank, _ in ranks.values())
    channels = {name: Channel(rank, raw, 1 / rank / whole) for name, (rank, raw) in ranks.items()}
    plain = "vector" in ranks or "keyword" in ranks
    return Hit(chunk, score, channels, path, "plain" if plain else "graph", query)


def _names(entity_id: str, aliases: Iterable[str]) -> list[str]:
    return [entity_id, *map(normalise, aliases)]
