"""The query pipeline: embed → search → recognise → expand → rerank or fuse → explain."""

import logging
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from weakref import WeakSet

import numpy as np

from graphrag_core.errors import EmbedderError
from graphrag_core.filters import Filter
from graphrag_core.ingest.embedding import CheckedEmbedder
from graphrag_core.model import Chunk, Entity, Fact
from graphrag_core.ports import Engine, Keys, Matrix, Ranking, Snapshot
from graphrag_core.query.coverage import Reranker
from graphrag_core.query.fusion import Fusion, Gate, Lead, confidence
from graphrag_core.query.paths import EntityPath, choose_facts, find_paths, paths_from_passages
from graphrag_core.query.query import Expansion, GraphStrategy, Query
from graphrag_core.query.reasons import Reason, Reasons
from graphrag_core.query.recognise import Recogniser
from graphrag_core.query.rerank import ScoreReranker
from graphrag_core.query.routing import TargetMethod
from graphrag_core.result import CONFIDENCE_WITHOUT_GRAPH, Channel, Hit, Link, Origin, Result, Step, Trace
from graphrag_core.text import label, normalise

_log = logging.getLogger(__name__)
_WORD = re.compile(r"\w")
_LOGGED: WeakSet[Engine] = WeakSet()  # engines whose graph was reported to have little to follow
_MAX_COPIES = 100  # listed for a hit
_FOUND_BY_PLAIN = 10  # a passage that plain search ranks so high can be the start of a path


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
    reranker: Reranker | None
    gate: Gate
    route: str = ""


@dataclass(frozen=True)
class Expanded:
    """What the graph contributed.

    ``lead`` is the gate's decision, ``skipped`` why the graph does not lead or did not run, ``gate`` why it leads.
    """

    expansion: Expansion = field(default_factory=Expansion)
    lead: Lead = "graph"
    confidence: float = CONFIDENCE_WITHOUT_GRAPH
    skipped: str = ""
    ran: bool = False
    linked: Ranking = field(default_factory=lambda: (np.empty(0, np.int64), np.empty(0, np.float32)))
    gate: str = ""
    reasons: Reasons | None = None


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
        query = Query(question, snapshot, vector, embedder=embedder, k=plan.k)
        with _timed(stages, "search"):
            channels, plain = _search(query, plan)
        with _timed(stages, "recognise"):
            entities = plan.recogniser.recognise(question, vector, snapshot, plain[0])
            query = replace(query, entities=entities)
            if scope is None and plan.use_graph and plan.method in ("hybrid", "graph"):
                _log_unlinked(engine, snapshot, plan)
        with _timed(stages, "expand"):
            expanded = _expand(query, plan, channels, plain)
        with _timed(stages, "rerank" if _is_reranked(plan, expanded) else "fuse"):
            ranking, expanded, remark = _fuse(query, plan, plain, expanded)
        with _timed(stages, "explain"):
            ranking, copies = _without_copies(query, ranking, plan.k)
            reasons, uncovered = _reasons(query, ranking[0], expanded)
            hits, facts, known = _explain(query, plan, ranking, copies, channels, expanded, reasons)
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
            gate=expanded.gate,
            uncovered=uncovered,
            fallback="; ".join(filter(None, (problem, expanded.expansion.remark, remark))),
            trace=Trace(stages),
        )
        return result, snapshot.generation


@contextmanager
def _timed(stages: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    stages[name] = (time.perf_counter() - start) * 1000


def _log_unlinked(engine: Engine, snapshot: Snapshot, plan: Plan) -> None:
    """Log once for each engine that its passages give the graph little to follow."""
    share, least = snapshot.linked_share, plan.gate.least_bridged
    if engine not in _LOGGED and snapshot.has("chunks") and share < least:
        _LOGGED.add(engine)
        _log.info(
            "the passages of this index hardly mention each other's subjects (linked share %.2f, below %.2f): "
            "the graph has little to follow; titles, headings and links give it more",
            share,
            least,
        )


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
    if plan.method == "hybrid" and plan.reranker is None and getattr(plan.fusion, "heeds_lead", False):
        _, is_subject = query.snapshot.entity_counts(query.entities)
        lead, why = plan.gate.lead(names_subject=bool(is_subject.any()), bridged=query.snapshot.linked_share)
        why += _unmatched_names(query)
    if len(expansion.keys) and not len(strong.keys):
        why = f"the graph was skipped: all its passages are weaker than {plan.gate.min_graph_score:g}"
    return Expanded(strong, lead, trust, why, ran=True)


def _unmatched_names(query: Query) -> str:
    """Return a hint if names could not be matched by similarity."""
    has = query.snapshot.has
    if len(query.entities) or not has("entities") or has("entities", vectors=True):
        return ""
    return " (names are not embedded and could not be matched by similarity: embed_names=True)"


def _is_reranked(plan: Plan, expanded: Expanded) -> bool:
    return plan.reranker is not None and plan.method == "hybrid" and expanded.ran


def _fuse(query: Query, plan: Plan, plain: Ranking, expanded: Expanded) -> tuple[Ranking, Expanded, str]:
    """Return the final ranking, what the graph contributed to it, and a remark if the graph found nothing."""
    expansion = expanded.expansion
    keys, scores = plain
    remark = ""
    if len(expansion.keys) and plan.method == "graph":
        keys, scores = expansion.keys, expansion.strengths
    elif plan.reranker is not None and _is_reranked(plan, expanded):
        reranked = plan.reranker.rerank(query, plain, (expansion.keys, expansion.strengths))
        keys, scores = reranked.keys, reranked.scores
        lead: Lead = "plain" if reranked.remark else "graph"
        why = reranked.remark + (_unmatched_names(query) if reranked.remark else "")
        expanded = replace(
            expanded,
            lead=lead,
            skipped=why,
            linked=reranked.linked,
            gate="" if why else reranked.gate,
            reasons=reranked.reasons,
        )
    elif len(expansion.keys):
        fused = plan.fusion.fuse(plain, (expansion.keys, expansion.strengths), lead=expanded.lead)
        keys, scores = np.asarray(fused[0], np.int64), np.asarray(fused[1])
        order = query.order("chunks", keys, scores)
        keys, scores = keys[order], scores[order]
    elif plan.method == "graph" and not expanded.skipped:
        remark = "the graph leads to no passage: plain search answers"
    elif isinstance(plan.reranker, ScoreReranker) and plan.method == "hybrid":
        keys, scores = plan.reranker.rerank_plain(query, plain)
    return (keys, scores), expanded, remark


def _without_copies(query: Query, ranking: Ranking, k: int) -> tuple[Ranking, list[Keys]]:
    """Return the first ``k`` chunks that are not copies of a better one, and the copies of each."""
    keys, scores = ranking
    places: list[int] = []
    copies: list[Keys] = []
    gone: set[int] = set()
    waiting = keys.tolist()
    start = 0
    while start < len(waiting) and len(places) < k:
        asked = list(islice((at for at in range(start, len(waiting)) if waiting[at] not in gone), k - len(places)))
        for place, found in zip(asked, query.snapshot.copies("chunks", keys[asked]), strict=True):
            start = place + 1
            if waiting[place] not in gone:
                places.append(place)
                copies.append(found)
                gone.update(found.tolist())
        if not asked:
            break
    return (keys[places], scores[places]), copies


def _paths(query: Query, keys: Keys, channels: dict[str, Ranking], expanded: Expanded) -> list[EntityPath]:
    """Return the path to each passage; none where plain search ranks a passage higher than the graph does.

    A passage that mentions an entity of the question always has its path. One that the graph found without
    a path from the question may have one from a passage that plain search found.
    """
    by_plain, by_graph = [found for found, _ in channels.values()], [expanded.expansion.keys, expanded.linked[0]]
    last = 1 + max(map(len, (*by_plain, *by_graph)))
    plain, graph = np.full(len(keys), last), np.full(len(keys), last)
    for ranks, found in [*((plain, found) for found in by_plain), *((graph, found) for found in by_graph)]:
        hits, places = np.nonzero(keys[:, None] == found[None, :])
        ranks[hits] = np.minimum(ranks[hits], places + 1)
    leads = ((graph <= plain) & (graph < last)).tolist()
    paths = [
        path if len(path) == 1 or leading else () for path, leading in zip(find_paths(query, keys), leads, strict=True)
    ]
    wanted = [leading and not path for path, leading in zip(paths, leads, strict=True)]
    others = paths_from_passages(query, keys, keys[plain <= _FOUND_BY_PLAIN], wanted)
    return [path or other for path, other in zip(paths, others, strict=True)]


def _reasons(query: Query, shown: Keys, expanded: Expanded) -> tuple[list[Reason], tuple[str, ...]]:
    """Return the reason for each chunk shown, and the words of the question that none covers; empty if unknown."""
    if expanded.reasons is None:
        return [Reason((), (), None)] * len(shown), ()
    return expanded.reasons.of(query.text, query.snapshot, shown)


def _explain(
    query: Query,
    plan: Plan,
    ranking: Ranking,
    copies: list[Keys],
    channels: dict[str, Ranking],
    expanded: Expanded,
    reasons: list[Reason],
) -> tuple[tuple[Hit, ...], tuple[Fact, ...], dict[int, Entity]]:
    """Return the hits with channels, paths and links, the supporting facts, and all entities in them by key."""
    snapshot, expansion = query.snapshot, expanded.expansion
    keys, scores = ranking
    if expanded.ran:
        paths = _paths(query, keys, channels if plan.method != "graph" else {}, expanded)
    else:
        paths = [()] * len(keys)
    fact_keys = choose_facts(query, paths, keys, expansion.facts) if expanded.ran else expansion.facts
    on_paths = [key for path in paths for key in path[::2] if key >= snapshot.first_entity]
    entity_keys = np.unique(np.concatenate([
        snapshot.fact_rows(fact_keys).entities, query.entities, np.array(on_paths, np.int64),
        np.array([reason.link.entity for reason in reasons if reason.link], np.int64),
    ]))  # fmt: skip
    known = dict(zip(entity_keys.tolist(), snapshot.entities(entity_keys), strict=True))
    facts = dict(zip(fact_keys.tolist(), snapshot.facts(fact_keys), strict=True))
    if expanded.ran:
        graph = {"graph": (expansion.keys, expansion.scores), "links": expanded.linked}
        channels = graph if plan.method == "graph" and len(expansion.keys) else {**channels, **graph}
    found_by: list[dict[str, tuple[int, float]]] = [{} for _ in keys]
    for name, (found, own) in channels.items():
        for hit, place in np.argwhere(keys[:, None] == found[None, :]).tolist():
            found_by[hit][name] = (place + 1, float(own[place]))
    hits = []
    chunk_of = dict(zip(keys.tolist(), snapshot.chunks(keys), strict=True))
    ids = [chunk.id for chunk in chunk_of.values()]
    rows = zip(chunk_of.items(), scores.tolist(), paths, found_by, copies, reasons, strict=True)
    for (chunk_key, chunk), score, path, ranks, others, reason in rows:
        total = sum(1 / rank for rank, _ in ranks.values())
        shares = {name: Channel(rank, own, 1 / rank / total) for name, (rank, own) in ranks.items()}
        steps = [
            Step("fact", facts[step].id, facts[step].text)
            if at % 2
            else Step("entity", known[step].id, known[step].name)
            if step in known
            else _chunk_step(chunk_of[step])
            for at, step in enumerate(path)
        ]
        if path:
            steps = [Step("question", "", query.text), *steps, _chunk_step(chunk)]
        generated = expansion.queries.get(chunk_key, "")
        by_graph = bool(generated) or (bool(shares) and set(shares) <= {"graph", "links"})
        origin: Origin = "graph" if by_graph else "plain"
        same = tuple(copy.id for copy in snapshot.chunks(others[:_MAX_COPIES]))
        link = None
        if reason.link:
            place, entity, kind, followed = reason.link
            link = Link(place + 1, ids[place], known[entity].id, known[entity].name, kind, followed)
        hits.append(Hit(chunk, score, shares, tuple(steps), origin, generated, same, reason.words, reason.covers, link))
    return tuple(hits), tuple(facts.values()), known


def _chunk_step(chunk: Chunk) -> Step:
    return Step("chunk", chunk.id, label(chunk.title, chunk.headings) or chunk.id)
