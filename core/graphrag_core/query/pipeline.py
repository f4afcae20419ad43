"""The query pipeline: embed → search → recognise → expand → rerank or fuse → hits. Explanations are computed later."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from weakref import WeakSet

import numpy as np

from graphrag_core.communities import State
from graphrag_core.errors import DatabaseError, EmbedderError
from graphrag_core.filters import Filter
from graphrag_core.ingest.embedding import CheckedEmbedder, question_error
from graphrag_core.ingest.pipeline import NO_EMBEDDER
from graphrag_core.key_sets import among
from graphrag_core.model import Entity
from graphrag_core.ports import Engine, Keys, Matrix, Ranking, Snapshot
from graphrag_core.query import global_search
from graphrag_core.query.calibration import signals_of
from graphrag_core.query.coverage import Reranked
from graphrag_core.query.explanation import GRAPH_CHANNELS, Explainer
from graphrag_core.query.fusion import Gate, Lead, confidence, how_to_raise
from graphrag_core.query.paths import stated_strengths
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.reasons import LinkReason
from graphrag_core.query.routing import with_bare_ids
from graphrag_core.query.settings import Plan
from graphrag_core.query.steering import seed_keys, without_documents, without_entities
from graphrag_core.result import (
    CONFIDENCE_WITHOUT_GRAPH,
    Channel,
    Explanation,
    Hit,
    LazyExplanation,
    Result,
    Step,
    Trace,
)

_log = logging.getLogger(__name__)
_WORD = re.compile(r"\w")
_LOGGED: WeakSet[Engine] = WeakSet()  # engines whose graph was reported to have little to follow
_MAX_COPIES = 100  # listed for a hit
_ATTEMPTS = 3  # at a question whose connection to a database is lost
_MAX_UNNAMED = 5  # names of ``exclude`` that are listed
_EMBEDDER_FAILED = "the embedder failed, so this is not the full answer: ask again when it works"
_NOT_EMBEDDED = "the question could not be embedded, keyword search only"
_NOTHING: Ranking = (np.empty(0, np.int64), np.empty(0, np.float32))
_NO_EXPANSION = Expansion()


@dataclass(frozen=True, kw_only=True)
class Question:
    """What is asked of an index.

    Parameters
    ----------
    engine, embedder
        The index, and its embedder.
    text, plan
        The question and its settings.
    scope
        What the question may see, without hidden facts.
    embedding
        The question's vector or the error that embedding it raised, if it was embedded before.
    uncounted
        Collects the facts that are read, instead of counting accesses.
    explain
        Whether the result is explained at once.
    """

    engine: Engine
    embedder: CheckedEmbedder | None
    text: str
    plan: Plan
    scope: Filter | None = None
    embedding: Matrix | Exception | None = None
    uncounted: list[Keys] | None = None
    explain: bool = False


@dataclass(frozen=True)
class GraphDecision:
    """What the graph found, and whether it leads.

    ``lead`` is the gate's decision, ``skipped`` why the graph does not lead or did not run, ``ranking`` the chunks of
    the expansion with strengths from 0 to 1.
    """

    expansion: Expansion = _NO_EXPANSION
    lead: Lead = "graph"
    confidence: float = CONFIDENCE_WITHOUT_GRAPH
    skipped: str = ""
    ran: bool = False
    ranking: Ranking = _NOTHING


class _Stopwatch(dict[str, float]):
    """Milliseconds by stage; a stage ends when it is called by name."""

    def __init__(self) -> None:
        self._start = time.perf_counter()

    def __call__(self, stage: str) -> None:
        now = time.perf_counter()
        self[stage], self._start = (now - self._start) * 1000, now


def run_search(question: Question) -> Result:
    """Run the query pipeline. If the connection to a database is lost, the question is asked again."""
    for _ in range(_ATTEMPTS - 1):
        try:
            return _run_once(question)
        except DatabaseError as error:
            if not error.lost:
                raise
            _log.info("the question is asked again: %s", error)
            if question.uncounted is not None:
                question.uncounted.clear()
    return _run_once(question)


def _run_once(question: Question) -> Result:
    """Run the query pipeline on one snapshot."""
    plan, stage = question.plan, _Stopwatch()
    vector, problem, failures = _embed(question)
    stage("embed")
    inside, seeds = question.scope, _NOTHING[0]
    remarks: tuple[str, ...] = ()
    if plan.exclude:
        inside = without_documents(question.engine, question.scope, plan.exclude)[0]
    with question.engine.snapshot(inside) as whole:
        snapshot = whole
        if plan.exclude or plan.seeds:
            snapshot, seeds, remarks = _steer(question, whole)
        query = Query(
            question.text,
            snapshot,
            vector,
            _NOTHING[0],
            best=_NOTHING[0],
            embedder=question.embedder,
            k=plan.k,
            method=plan.method,
            vector_weight=plan.vector_weight,
            text_weight=plan.text_weight,
            uncounted=question.uncounted,
            on_embedder_error=plan.on_embedder_error,
            failures=failures,
        )
        channels, plain = _search(query, plan)
        stage("search")
        query = _recognise(query, plan, channels, plain, seeds)
        if question.scope is None and plan.use_graph and plan.method in ("hybrid", "graph"):
            _log_unlinked(question.engine, snapshot, plan)
        stage("recognise")
        graph = _expand(query, plan, channels, plain)
        stage("expand")
        ranked, remark = _rank(query, plan, channels, plain, graph)
        stage("rerank" if plan.reranker and plan.method == "hybrid" and graph.ran else "fuse")
        ranking, copies, links, best_score = _select(query, plan, plain, graph, ranked)
        entity_of = graph.expansion.via
        via_keys = sorted({entity_of[key][0] for key in ranking[0].tolist() if key in entity_of})
        via = dict(zip(via_keys, snapshot.entities(np.array(via_keys, np.int64)), strict=True)) if via_keys else {}
        hits = _hits(query, plan, plain, graph, ranked, ranking, copies, channels, via)
        entities = tuple(snapshot.entities(query.entities))
        skipped = graph.skipped or (ranked.remark + _unmatched_names(query) if ranked.remark else "")
        similarity = float(channels["vector"][1].max(initial=0)) if "vector" in channels else 0.0
        advise = partial(_advice, question.text, plan, len(entities), similarity, graph.confidence)
        if not hits:
            advise = partial(_advice_on_nothing, query, plan, channels, best_score, scoped=question.scope is not None)
        explainer = Explainer(
            engine=question.engine,
            scope=inside,
            exclude=plan.exclude,
            generation=snapshot.generation,
            question=question.text,
            method=plan.method,
            graph_ran=graph.ran,
            followed=graph.expansion.facts,
            ranks_facts=graph.expansion.ranks_facts,
            chunk_ids=[hit.chunk.id for hit in hits],
            channels=[hit.channels for hit in hits],
            links=links,
            entities=entities,
            others=[*via.values(), *(link.entity for link in links if link)],
            terms=None if ranked.reasons is None else ranked.reasons.terms,
            advise=partial(_joined, advise, _EMBEDDER_FAILED if failures else "", *remarks),
        )
        at_once = question.explain or not hits
        explanation = LazyExplanation.of(explainer.explain(snapshot)) if at_once else LazyExplanation(explainer)
        stage("explain" if at_once else "hits")
        return Result(
            question=question.text,
            method=plan.method,
            hits=tuple(replace(hit, explanation=explanation) for hit in hits),
            entities=entities,
            confidence=graph.confidence,
            route=plan.route,
            expansion_skipped=skipped,
            gate="" if skipped else ranked.gate,
            fallback="; ".join(filter(None, (problem, graph.expansion.remark, remark))),
            trace=Trace(dict(stage)),
            graph_ran=graph.ran,
            inverses=dict(plan.inverses),
            embedder_failed=bool(failures),
            generation=snapshot.generation,
            explanation=explanation,
        )


def run_global_search(question: Question, state: State) -> Result:
    """Answer a question about the whole collection with its communities.

    ``state`` are the communities of the scope. The result has no hits if there are none.
    """
    plan, stage = question.plan, _Stopwatch()
    vector, problem, failures = _embed(question)
    stage("embed")
    inside = without_documents(question.engine, question.scope, plan.exclude)[0]
    with question.engine.snapshot(inside) as whole:
        snapshot, seeds, remarks = _steer(question, whole)
        query = Query(question.text, snapshot, vector, embedder=question.embedder, k=plan.k, method=plan.method)
        found = _NOTHING
        if len(seeds):
            edges = snapshot.neighbours(seeds, to="chunks", limit=plan.candidates)
            found = edges.targets, edges.weights
        elif global_search.is_specific(query):
            _, found = _search(query, plan)
        stage("search")
        chosen, matching, why = global_search.choose(query, found[0], found[1].tolist(), state)
        stage("communities")
        generation = snapshot.generation
    hits = global_search.to_hits(global_search.passages(question.engine, inside, state, chosen, matching, plan.k))
    stage("hits")
    advice = "" if hits else "the documents name too few entities for themes: use the hybrid method"
    notes = (_EMBEDDER_FAILED if failures else "", advice, *remarks)
    return Result(
        question=question.text,
        method=plan.method,
        hits=hits,
        route=plan.route,
        gate=why,
        fallback=problem,
        trace=Trace(dict(stage)),
        graph_ran=False,
        inverses=dict(plan.inverses),
        embedder_failed=bool(failures),
        communities=tuple(chosen) if hits else (),
        generation=generation,
        explanation=LazyExplanation.of(Explanation(advice="; ".join(filter(None, notes)))),
    )


# -- the steps


def _embed(question: Question) -> tuple[Matrix | None, str, list[str]]:
    """Return the question's vector, or None and why there is none, and how the embedder failed if it did."""
    vector, problems, failures = question.embedding, [], []
    if question.plan.method == "keyword":
        vector = None
    elif vector is None and question.embedder is not None:
        try:
            vector = question.embedder.query(question.text)
        except EmbedderError as error:
            vector = error
    elif vector is None and question.engine.settings().get("embedder", NO_EMBEDDER) != NO_EMBEDDER:
        problems = [f"{_NOT_EMBEDDED}: the index was opened without its embedder"]
    elif vector is None and question.plan.method == "vector":
        problems = ["the index has no vectors: keyword search answers"]
    if isinstance(vector, Exception):
        problems = failures = [_embedding_failed(question, vector)]
        vector = None
    if question.text.strip() and not _WORD.search(question.text):
        problems = [*problems, "the question has no words: the order of the passages is arbitrary"]
    return vector, "; ".join(problems), failures


def _embedding_failed(question: Question, failure: Exception) -> str:
    """Return that the embedder failed and how, with its name; raise it if the settings say so."""
    problem, embedder = str(failure), question.embedder
    if embedder is not None and embedder.identity not in problem:
        problem = f"{embedder.identity} raised {type(failure).__name__} on a question: {failure}"
    if question.plan.on_embedder_error == "raise":
        raised = question_error(problem, failure)
        raise raised from raised.__cause__
    return f"{_NOT_EMBEDDED}: {problem}"


def _steer(question: Question, whole: Snapshot) -> tuple[Snapshot, Keys, tuple[str, ...]]:
    """Return the snapshot without excluded entities, the seed entities, and which names were of no use."""
    plan = question.plan
    _, excluded = without_documents(question.engine, question.scope, plan.exclude)
    snapshot, unnamed = without_entities(whole, plan.exclude, excluded) if plan.exclude else (whole, [])
    seeds, unused = seed_keys(
        snapshot, plan.seeds, partial(question.engine.snapshot, question.scope) if plan.exclude else None
    )
    remarks = []
    if unnamed:
        remarks.append(f"exclude: no entity or document is named {', '.join(map(repr, unnamed[:_MAX_UNNAMED]))}")
    if unused:
        names = ", ".join(map(repr, unused[:_MAX_UNNAMED]))
        remarks.append(f"seed_entities: {names} left out, since exclude names it or all documents that mention it")
    return snapshot, seeds, tuple(remarks)


def _search(query: Query, plan: Plan) -> tuple[dict[str, Ranking], Ranking]:
    """Run vector and keyword search; return the ranking of each, and their weighted mean."""
    count = max(plan.candidates, plan.k)
    found: dict[str, Ranking] = {}
    by_vector = query.vector is not None and (plan.vector_weight > 0 or plan.method == "vector")
    if plan.method != "keyword" and by_vector:
        keys, scores = query.by_vector("chunks", count)
        similar = np.round(scores, 6) >= plan.gate.min_score if plan.gate.min_score > 0 else slice(None)
        found["vector"] = keys[similar], scores[similar]
    by_vector_alone = plan.method == "vector" or not plan.fusion.uses_keywords
    if plan.method == "keyword" or not by_vector or (not by_vector_alone and plan.text_weight > 0):
        found["keyword"] = query.snapshot.search_keywords("chunks", with_bare_ids(query.text), count)
    channels = {}
    for name, (keys, scores) in found.items():
        order = query.order("chunks", keys, scores)
        channels[name] = keys[order], scores[order]
    if len(channels) == 1 and (plan.method in ("vector", "keyword") or (by_vector and by_vector_alone)):
        return channels, next(iter(channels.values()))
    return channels, query.blend("chunks", channels.get("vector", _NOTHING), channels.get("keyword", _NOTHING))


def _recognise(query: Query, plan: Plan, channels: Mapping[str, Ranking], plain: Ranking, seeds: Keys) -> Query:
    """Return the query with the entities that it names and the best chunks of plain search."""
    firsts = [keys[:2] for keys, _ in channels.values()]
    agreed = [firsts[0][np.isin(firsts[0], firsts[1])]] if len(firsts) > 1 else []
    best = np.concatenate([*(keys[:1] for keys in firsts), *agreed])
    entities = plan.recogniser.recognise(query.text, query.vector, query.snapshot, plain[0])
    if len(seeds):
        entities = np.concatenate([seeds, entities[~among(entities, np.sort(seeds))]])
    return replace(query, entities=entities, best=best)


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


def _expand(query: Query, plan: Plan, channels: Mapping[str, Ranking], plain: Ranking) -> GraphDecision:
    """Run the graph strategy, unless the gate or the call forbids it, and decide which ranking leads."""
    if not plan.use_graph or plan.method not in ("hybrid", "graph"):
        return GraphDecision(skipped="" if plan.use_graph else "the graph was not used")
    similarity = float(channels["vector"][1].max(initial=0)) if "vector" in channels else 0.0
    trust = confidence(query.text, len(query.entities), similarity)
    if skipped := plan.gate.skipped(trust, len(query.entities)):
        return GraphDecision(lead="plain", confidence=trust, skipped=skipped)
    expansion = plan.graph.expand(query, plain, max(plan.candidates, plan.k))
    strong = _strong_enough(query, plan.gate, expansion) if plan.gate.min_graph_score > 0 else expansion
    if plan.gate.weigh_by_confidence:
        strong = replace(strong, strength=strong.strengths * np.float32(trust))
    lead: Lead = "graph"
    why = ""
    if plan.method == "hybrid" and plan.reranker is None and plan.fusion.heeds_lead:
        _, is_subject = query.snapshot.entity_counts(query.entities)
        lead, why = plan.gate.lead(names_subject=bool(is_subject.any()), bridged=query.snapshot.linked_share)
        why += _unmatched_names(query)
    if len(expansion.keys) and not len(strong.keys):
        why = (
            f"the graph was skipped: all its passages are weaker than {plan.gate.min_graph_score:g}: "
            "lower min_graph_score to see them"
        )
    elif not len(expansion.keys):
        why = _why_nothing(query, expansion)
    return GraphDecision(strong, lead, trust, why, ran=True, ranking=(strong.keys, strong.strengths))


def _strong_enough(query: Query, gate: Gate, expansion: Expansion) -> Expansion:
    """Return the expansion without the chunks that are weaker than the gate allows.

    The strength is that of the relation that leads to a chunk, and the strategy's own where none was stated.
    """
    if not len(expansion.keys):
        return expansion
    stated = stated_strengths(query, expansion.keys)
    strengths = np.where(np.isnan(stated), expansion.strengths, stated)
    return expansion.only(np.round(strengths, 6) >= round(gate.min_graph_score, 6))


def _rank(
    query: Query, plan: Plan, channels: Mapping[str, Ranking], plain: Ranking, graph: GraphDecision
) -> tuple[Reranked, str]:
    """Return the final ranking, and a remark if the graph found nothing."""
    if plan.method != "hybrid":
        if len(graph.expansion.keys):
            return Reranked(*graph.ranking, trust=0.0), ""
        remark = "the graph leads to no passage: plain search answers" if graph.ran else ""
        return Reranked(*plain, trust=0.0), remark
    if plan.reranker is not None:
        if graph.ran:
            return plan.reranker.rerank(query, plain, graph.ranking), ""
        return Reranked(*plan.reranker.rerank_plain(query, plain), trust=0.0), ""
    keys, scores = plan.fusion.fuse_query(query, channels, plain, graph.ranking, lead=graph.lead)
    keys, scores = np.asarray(keys, np.int64), np.asarray(scores)
    order = query.order("chunks", keys, scores)
    return Reranked(keys[order], scores[order], trust=0.0), ""


def _select(
    query: Query, plan: Plan, plain: Ranking, graph: GraphDecision, ranked: Reranked
) -> tuple[Ranking, list[Keys], list[LinkReason | None], float]:
    """Return the chunks of the result with their final scores, copies and links, and the best score before a limit."""
    ranking = ranked.keys, ranked.scores
    if plan.method == "hybrid":
        (keys, scores), copies = plan.fusion.select(query, plain, graph.ranking, ranking)
    else:
        (keys, scores), copies = query.without_copies(ranking, plan.k)
    links: list[LinkReason | None] = [None] * len(keys)
    if ranked.reasons is not None:
        links = ranked.reasons.links_of(query.snapshot, keys)
    is_calibrated = plan.method == "hybrid" and (plan.reranker or plan.fusion).scores_are_ranks
    if plan.calibration is not None and is_calibrated and len(keys):
        linked = [link is not None for link in links]
        trust = ranked.trust if graph.ran else None
        scores = plan.calibration.scores(signals_of(query, ranked.keys, keys, trust=trust, linked=linked))
    best_score = float(scores.max(initial=0))
    if plan.score_threshold is not None:
        kept = int((np.round(scores, 6) >= round(plan.score_threshold, 6)).sum())
        keys, scores, copies, links = keys[:kept], scores[:kept], copies[:kept], links[:kept]
    return (keys, scores), copies, links, best_score


def _hits(
    query: Query,
    plan: Plan,
    plain: Ranking,
    graph: GraphDecision,
    ranked: Reranked,
    ranking: Ranking,
    copies: Sequence[Keys],
    channels: Mapping[str, Ranking],
    via: Mapping[int, Entity],
) -> list[Hit]:
    """Return the hits, without explanation. ``via`` are the entities through which the strategy found chunks."""
    snapshot, expansion = query.snapshot, graph.expansion
    keys, scores = ranking
    if graph.ran:
        by_graph = {"graph": (expansion.keys, expansion.scores), "links": ranked.linked}
        channels = by_graph if plan.method == "graph" and len(expansion.keys) else {**channels, **by_graph}
    found_by: list[dict[str, tuple[int, float]]] = [{} for _ in keys]
    for name, (found, own) in channels.items():
        for hit, place in np.argwhere(keys[:, None] == found[None, :]).tolist():
            found_by[hit][name] = (place + 1, float(own[place]))
    returned_by_plain = _returned_by_plain(query, plan, plain, keys, found_by)
    hits = []
    rows = zip(keys.tolist(), snapshot.chunks(keys), scores.tolist(), found_by, copies, strict=True)
    for key, chunk, score, ranks, others in rows:
        total = sum(1 / rank for rank, _ in ranks.values())
        generated = expansion.queries.get(key, "")
        is_of_graph = not GRAPH_CHANNELS.isdisjoint(ranks) and key not in returned_by_plain
        entity, hop = expansion.via.get(key, (None, 0)) if generated or is_of_graph else (None, 0)
        hits.append(
            Hit(
                chunk,
                score,
                {name: Channel(rank, own, 1 / rank / total) for name, (rank, own) in ranks.items()},
                "graph" if generated or is_of_graph else "plain",
                generated,
                tuple(copy.id for copy in snapshot.chunks(others[:_MAX_COPIES])) if len(others) else (),
                None if entity is None else (Step("entity", via[entity].id, via[entity].name), hop),
            )
        )
    return hits


def _returned_by_plain(
    query: Query, plan: Plan, plain: Ranking, keys: Keys, found_by: Sequence[Mapping[str, object]]
) -> set[int]:
    """Return the chunks that plain search alone would have returned, as far as the graph found them too."""
    if plan.method == "graph":
        return set()
    first = set(plain[0][: plan.k].tolist())
    found = zip(keys.tolist(), found_by, strict=True)
    if not {key for key, names in found if not GRAPH_CHANNELS.isdisjoint(names)} <= first:
        first = set(query.without_copies(plain, plan.k)[0][0].tolist())  # without copies it gets further down
    return first


# -- remarks


def _why_nothing(query: Query, expansion: Expansion) -> str:
    """Return why a strategy found no passage."""
    if not query.snapshot.has("entities"):
        reason = "no passage mentions a name, the graph is empty"
    elif expansion.nothing:
        reason = expansion.nothing
    elif not len(query.entities):
        reason = "the question names no known entity" + _unmatched_names(query)
    else:
        names = ", ".join(entity.name for entity in query.snapshot.entities(query.entities))
        reason = f"no link leads from {names} to a passage"
    return f"the graph adds nothing: {reason}"


def _unmatched_names(query: Query) -> str:
    """Return a hint if names could not be matched by similarity."""
    has = query.snapshot.has
    if len(query.entities) or query.vector is None or not has("entities") or has("entities", vectors=True):
        return ""
    return " (names are not embedded and could not be matched by similarity: embed_names=True)"


def _advice(text: str, plan: Plan, entities: int, best_similarity: float, trust: float) -> str:
    """Return what the caller can do about a low confidence in the graph; empty if it is not low or does not matter."""
    least = max(plan.gate.min_confidence, CONFIDENCE_WITHOUT_GRAPH)
    if not plan.use_graph or plan.method not in ("hybrid", "graph") or trust >= least:
        return ""
    actions = how_to_raise(text, entities, best_similarity)
    lower = ", or lower min_confidence" if trust < plan.gate.min_confidence else ""
    return f"the confidence is low, {trust:.2f}: {actions}{lower}"


def _advice_on_nothing(
    query: Query, plan: Plan, channels: Mapping[str, Ranking], best_score: float, *, scoped: bool
) -> str:
    """Return what the caller can do about an empty result."""
    if not query.snapshot.has("chunks"):
        return (
            "no document matches the filter: check its keys and values"
            if scoped
            else "the index is empty: add documents"
        )
    if plan.score_threshold is not None and best_score > 0:
        return (
            f"no passage has the score {plan.score_threshold:.2f} that score_threshold asks for, "
            f"the best has {best_score:.2f}: lower score_threshold, or ask in other words"
        )
    has_found = any(len(keys) for keys, _ in channels.values())
    if has_found and plan.reranker is not None:
        return "the reranker dropped every passage: use another one, or reranker=False"
    least = plan.gate.min_score
    nearest = float(query.by_vector("chunks", 1)[1].max(initial=0)) if "vector" in channels else least
    if nearest < least:
        return (
            f"no passage has the similarity {least:.2f} that min_score asks for, "
            f"the nearest has {nearest:.2f}: lower min_score, or ask in other words"
        )
    return (
        "no ranking that the fusion weighs found a passage: give vector or keyword search a weight"
        if has_found
        else "no passage has a word of the question: ask in other words, or use the hybrid method"
    )


def _joined(advise: partial[str], before: str, *after: str) -> str:
    return "; ".join(filter(None, (before, advise(), *after)))
