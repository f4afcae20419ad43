"""The query pipeline: embed → recognise → search → expand → fuse → explain."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from graphrag_core.errors import EmbedderError
from graphrag_core.filters import Filter
from graphrag_core.ingest.embedding import CheckedEmbedder
from graphrag_core.model import Entity, Fact
from graphrag_core.ports import Engine, Matrix, Ranking
from graphrag_core.query.fusion import CONFIDENCE_WITHOUT_GRAPH, Fusion, Gate, Lead, confidence
from graphrag_core.query.paths import choose_facts, find_paths
from graphrag_core.query.query import Expansion, GraphStrategy, Query
from graphrag_core.query.recognise import Recogniser
from graphrag_core.query.routing import TargetMethod
from graphrag_core.result import Channel, Hit, Result, Step, Trace
from graphrag_core.text import normalise

_WORD = re.compile(r"\w")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of one query: those of the retriever and of the call together."""

    k: int
    method: TargetMethod
    use_graph: bool
    candidates: int
    recogniser: Recogniser
    strategy: GraphStrategy
    fusion: Fusion
    gate: Gate
    route: str = ""


@dataclass(frozen=True)
class Expanded:
    """What the graph contributed.

    ``lead`` is the gate's decision, ``skipped`` why the graph does not lead or did not run.
    """

    expansion: Expansion = field(default_factory=Expansion)
    lead: Lead = "graph"
    confidence: float = CONFIDENCE_WITHOUT_GRAPH
    skipped: str = ""
    ran: bool = False


def answer(
    engine: Engine,
    embedder: CheckedEmbedder | None,
    question: str,
    plan: Plan,
    scope: Filter | None = None,
    given: Matrix | Exception | None = None,
) -> tuple[Result, int]:
    """Run the query pipeline; return the result and the generation of the index it comes from.

    ``given`` is the question's vector or the error that embedding it raised, if it was embedded before.
    """
    stages: dict[str, float] = {}
    with _timed(stages, "embed"):
        vector, problem = _embed(embedder, question, plan, given)
    with engine.snapshot(scope) as snapshot:
        with _timed(stages, "recognise"):
            entities = plan.recogniser.recognise(question, vector, snapshot)
            query = Query(question, snapshot, vector, entities, embedder)
        with _timed(stages, "search"):
            channels, plain = _search(query, plan)
        with _timed(stages, "expand"):
            expanded = _expand(query, plan, channels, plain)
        with _timed(stages, "fuse"):
            ranking, remark = _fuse(query, plan, plain, expanded)
        with _timed(stages, "explain"):
            hits, facts, known = _explain(query, plan, ranking, channels, expanded)
        result = Result(
            question=question,
            method=plan.method,
            hits=hits,
            entities=tuple(known[entity] for entity in entities.tolist()),
            confidence=expanded.confidence,
            facts=facts,
            # A fact may hold an entity's own id or that of one of its aliases.
            known={name: entity for entity in known.values() for name in (*map(normalise, entity.aliases), entity.id)},
            route=plan.route,
            expansion_skipped=expanded.skipped,
            fallback="; ".join(filter(None, (problem, expanded.expansion.remark, remark))),
            trace=Trace(stages),
        )
        return result, snapshot.generation


@contextmanager
def _timed(stages: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    stages[name] = (time.perf_counter() - start) * 1000


def _embed(
    embedder: CheckedEmbedder | None, question: str, plan: Plan, given: Matrix | Exception | None
) -> tuple[Matrix | None, str]:
    """Return the question's vector, or None and why there is none."""
    vector: Matrix | None = None
    problem = ""
    if plan.method == "keyword":
        pass
    elif isinstance(given, Exception):
        problem = str(given)
        if embedder is not None and embedder.identity not in problem:
            problem = f"{embedder.identity}: {type(given).__name__}: {given}"
    elif given is not None:
        vector = given
    elif embedder is None:
        problem = "the index has no embedder"
    else:
        try:
            vector = embedder.query(question)
        except EmbedderError as error:
            problem = str(error)
    problems = [f"the question could not be embedded, keyword search only: {problem}"] if problem else []
    if not _WORD.search(question):
        problems.append("the question has no words: the order of the passages is arbitrary")
    return vector, "; ".join(problems)


def _search(query: Query, plan: Plan) -> tuple[dict[str, Ranking], Ranking]:
    """Return the ranking of each plain channel, and both blended into one."""
    count = max(plan.candidates, plan.k)
    found: dict[str, Ranking] = {}
    if plan.method != "keyword" and query.vector is not None:
        found["vector"] = query.by_vector("chunks", count)
    if plan.method != "vector" or query.vector is None:
        found["keyword"] = query.snapshot.search_keywords("chunks", query.text, count)
    channels = {}
    for name, (keys, scores) in found.items():
        order = query.order("chunks", keys, scores)
        channels[name] = keys[order], scores[order]
    if len(channels) == 1 and plan.method in ("vector", "keyword"):
        return channels, next(iter(channels.values()))
    nothing = np.empty(0, np.int64), np.empty(0, np.float32)
    return channels, query.blend("chunks", channels.get("vector", nothing), channels.get("keyword", nothing))


def _expand(query: Query, plan: Plan, channels: dict[str, Ranking], plain: Ranking) -> Expanded:
    """Run the graph strategy, unless the gate or the call forbids it, and decide which ranking leads."""
    if not plan.use_graph or plan.method not in ("hybrid", "graph"):
        return Expanded(skipped="" if plan.use_graph else "the graph was not used")
    similarity = float(channels["vector"][1].max(initial=0)) if "vector" in channels else 0.0
    trust = confidence(query.text, len(query.entities), similarity)
    if skipped := plan.gate.skipped(trust, len(query.entities)):
        return Expanded(lead="plain", confidence=trust, skipped=skipped)
    expansion = plan.strategy.expand(query, plain, max(plan.candidates, plan.k))
    strong = expansion.at_least(plan.gate.min_graph_score) if plan.gate.min_graph_score > 0 else expansion
    lead: Lead = "graph"
    why = ""
    if plan.method == "hybrid" and getattr(plan.fusion, "heeds_lead", False):
        _, is_subject = query.snapshot.entity_counts(query.entities)
        lead, why = plan.gate.lead(names_subject=bool(is_subject.any()), bridged=query.snapshot.linked_share)
        if (
            not len(query.entities)
            and query.snapshot.has("entities")
            and not query.snapshot.has("entities", vectors=True)
        ):
            why += " (names are not embedded and could not be matched by similarity: embed_names=True)"
    if len(expansion.keys) and not len(strong.keys):
        why = f"the graph was skipped: all its passages are weaker than {plan.gate.min_graph_score:g}"
    return Expanded(strong, lead, trust, why, ran=True)


def _fuse(query: Query, plan: Plan, plain: Ranking, expanded: Expanded) -> tuple[Ranking, str]:
    """Return the final ranking, and a remark if the graph found nothing."""
    expansion = expanded.expansion
    keys, scores = plain
    remark = ""
    if len(expansion.keys) and plan.method == "graph":
        keys, scores = expansion.keys, expansion.strengths
    elif len(expansion.keys):
        fused = plan.fusion.fuse(plain, (expansion.keys, expansion.strengths), lead=expanded.lead)
        keys, scores = np.asarray(fused[0], np.int64), np.asarray(fused[1])
        order = query.order("chunks", keys, scores)
        keys, scores = keys[order], scores[order]
    elif plan.method == "graph" and not expanded.skipped:
        remark = "the graph leads to no passage: plain search answers"
    return (keys[: plan.k], scores[: plan.k]), remark


def _explain(
    query: Query, plan: Plan, ranking: Ranking, channels: dict[str, Ranking], expanded: Expanded
) -> tuple[tuple[Hit, ...], tuple[Fact, ...], dict[int, Entity]]:
    """Return the hits with channels and paths, the supporting facts, and all entities in them by key."""
    snapshot, expansion = query.snapshot, expanded.expansion
    keys, scores = ranking
    paths = find_paths(query, keys) if expanded.ran else [()] * len(keys)
    fact_keys = choose_facts(query, paths, keys, expansion.facts) if expanded.ran else expansion.facts
    on_paths = [entity for path in paths for entity in path[::2]]
    entity_keys = np.unique(np.concatenate([
        snapshot.fact_rows(fact_keys).entities, query.entities, np.array(on_paths, np.int64)
    ]))  # fmt: skip
    known = dict(zip(entity_keys.tolist(), snapshot.entities(entity_keys), strict=True))
    facts = dict(zip(fact_keys.tolist(), snapshot.facts(fact_keys), strict=True))
    if expanded.ran:
        graph = {"graph": (expansion.keys, expansion.scores)}
        channels = graph if plan.method == "graph" and len(expansion.keys) else {**channels, **graph}
    found_by: list[dict[str, tuple[int, float]]] = [{} for _ in keys]
    for name, (found, own) in channels.items():
        for hit, place in np.argwhere(keys[:, None] == found[None, :]).tolist():
            found_by[hit][name] = (place + 1, float(own[place]))
    hits = []
    rows = zip(keys.tolist(), snapshot.chunks(keys), scores.tolist(), paths, found_by, strict=True)
    for chunk_key, chunk, score, path, ranks in rows:
        total = sum(1 / rank for rank, _ in ranks.values())
        shares = {name: Channel(rank, own, 1 / rank / total) for name, (rank, own) in ranks.items()}
        steps = [
            Step("fact", facts[step].id, facts[step].text)
            if at % 2
            else Step("entity", known[step].id, known[step].name)
            for at, step in enumerate(path)
        ]
        if path:
            steps = [Step("question", "", query.text), *steps, Step("chunk", chunk.id, chunk.title or chunk.id)]
        generated = expansion.queries.get(chunk_key, "")
        by_graph = bool(generated) or set(shares) == {"graph"}
        hits.append(Hit(chunk, score, shares, tuple(steps), "graph" if by_graph else "plain", generated))
    return tuple(hits), tuple(facts.values()), known
