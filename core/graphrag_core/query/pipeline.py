"""The query pipeline: embed → search → recognise → expand → rerank or fuse → explain."""

import logging
import re
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from weakref import WeakSet

import numpy as np

from graphrag_core.communities import State
from graphrag_core.errors import DatabaseError, EmbedderError
from graphrag_core.filters import Filter
from graphrag_core.ingest.edges import shared_fields
from graphrag_core.ingest.embedding import CheckedEmbedder, question_error
from graphrag_core.ingest.pipeline import NO_EMBEDDER
from graphrag_core.key_sets import among, distinct, without
from graphrag_core.model import Chunk, Entity, Fact
from graphrag_core.ports import Engine, Keys, Matrix, Ranking, Snapshot
from graphrag_core.query import global_search
from graphrag_core.query.calibration import signals_of
from graphrag_core.query.fusion import Additive, Gate, Lead, OwnScores, channel_fusion, confidence, how_to_raise
from graphrag_core.query.paths import EntityPath, choose_facts, find_paths, paths_from_passages, stated_strengths
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.reasons import Reason, Reasons
from graphrag_core.query.rerank import ScoreReranker
from graphrag_core.query.routing import with_bare_ids
from graphrag_core.query.settings import Plan
from graphrag_core.query.steering import seed_keys, without_documents, without_entities
from graphrag_core.result import CONFIDENCE_WITHOUT_GRAPH, Channel, Hit, Link, Origin, Result, Step, Trace
from graphrag_core.text import label, normalise

_log = logging.getLogger(__name__)
_WORD = re.compile(r"\w")
_LOGGED: WeakSet[Engine] = WeakSet()  # engines whose graph was reported to have little to follow
_MAX_COPIES = 100  # listed for a hit
_ATTEMPTS = 3  # at a question whose connection to a database is lost
_MAX_UNNAMED = 5  # names of ``exclude`` that are listed
_EMBEDDER_FAILED = "the embedder failed, so this is not the full answer: ask again when it works"
_GRAPH_CHANNELS = frozenset(("graph", "links"))
_FOUND_BY_PLAIN = 10  # a passage that plain search ranks so high can be the start of a path


@dataclass(frozen=True)
class Expanded:
    """What the graph contributed.

    ``lead`` is the gate's decision, ``skipped`` why the graph does not lead or did not run, ``gate`` why it leads,
    ``trust`` how far it decided a reranker's order.
    """

    expansion: Expansion = field(default_factory=Expansion)
    lead: Lead = "graph"
    confidence: float = CONFIDENCE_WITHOUT_GRAPH
    skipped: str = ""
    ran: bool = False
    linked: Ranking = field(default_factory=lambda: (np.empty(0, np.int64), np.empty(0, np.float32)))
    gate: str = ""
    reasons: Reasons | None = None
    trust: float = 0.0


def answer(
    engine: Engine,
    embedder: CheckedEmbedder | None,
    question: str,
    plan: Plan,
    scope: Filter | None = None,
    given: Matrix | Exception | None = None,
    uncounted: list[Keys] | None = None,
) -> tuple[Result, int]:
    """Run the query pipeline; return the result and the generation of the index it comes from.

    ``given`` is the question's vector or the error that embedding it raised, if it was embedded before.
    ``uncounted`` collects the facts that are read, instead of counting accesses. If the connection to a database is
    lost, the question is asked again.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _answer(engine, embedder, question, plan, scope, given, uncounted)
        except DatabaseError as error:
            if not error.lost:
                raise
            _log.info("the question is asked again: %s", error)
            if uncounted is not None:
                uncounted.clear()
    return _answer(engine, embedder, question, plan, scope, given, uncounted)


def _answer(
    engine: Engine,
    embedder: CheckedEmbedder | None,
    question: str,
    plan: Plan,
    scope: Filter | None,
    given: Matrix | Exception | None,
    uncounted: list[Keys] | None,
) -> tuple[Result, int]:
    """Run the query pipeline once."""
    stages: dict[str, float] = {}
    with _timed(stages, "embed"):
        settings = engine.settings()
        has_vectors = embedder is not None or settings.get("embedder", NO_EMBEDDER) != NO_EMBEDDER
        vector, problem, failures = _embed(embedder, question, plan, given, has_vectors=has_vectors)
    inside, excluded = without_documents(engine, scope, plan.exclude)
    with engine.snapshot(inside) as whole:
        snapshot, unnamed = without_entities(whole, plan.exclude, excluded) if plan.exclude else (whole, [])
        unrestricted = partial(engine.snapshot, scope) if plan.exclude else None
        seeds, left_out = seed_keys(snapshot, plan.seeds, unrestricted)
        query = Query(
            question,
            snapshot,
            vector,
            embedder=embedder,
            k=plan.k,
            method=plan.method,
            vector_weight=plan.vector_weight,
            text_weight=plan.text_weight,
            uncounted=uncounted,
            on_embedder_error=plan.on_embedder_error,
            failures=failures,
        )
        with _timed(stages, "search"):
            channels, plain = _search(query, plan)
            firsts = [keys[:2] for keys, _ in channels.values()]
            agreed = [firsts[0][np.isin(firsts[0], firsts[1])]] if len(firsts) > 1 else []
            best = np.concatenate([*(keys[:1] for keys in firsts), *agreed])
        with _timed(stages, "recognise"):
            entities = plan.recogniser.recognise(question, vector, snapshot, plain[0])
            entities = np.concatenate([seeds, entities[~among(entities, np.sort(seeds))]])
            query = replace(query, entities=entities, best=best)
            if scope is None and plan.use_graph and plan.method in ("hybrid", "graph"):
                _log_unlinked(engine, snapshot, plan)
        with _timed(stages, "expand"):
            expanded = _expand(query, plan, channels, plain)
        with _timed(stages, "rerank" if _is_reranked(plan, expanded) else "fuse"):
            ranking, expanded, remark = _fuse(query, plan, channels, plain, expanded)
        with _timed(stages, "explain"):
            everything = ranking[0]
            ranking, copies = _shown(query, plan, plain, expanded.expansion, ranking)
            reasons, uncovered = _reasons(query, ranking[0], expanded)
            paths = _paths(query, ranking[0], channels if plan.method != "graph" else {}, expanded)
            ranking = _calibrate(query, plan, everything, ranking, expanded, reasons, paths)
            best_score = float(ranking[1].max(initial=0))
            if plan.score_threshold is not None:
                kept = int((np.round(ranking[1], 6) >= round(plan.score_threshold, 6)).sum())
                ranking, copies, paths = (ranking[0][:kept], ranking[1][:kept]), copies[:kept], paths[:kept]
                reasons, uncovered = _reasons(query, ranking[0], expanded)
            hits, facts, known = _explain(
                query, plan, plain, ranking, copies, channels, expanded, reasons, paths, shared_fields(settings)
            )
        advice = (
            _advice(query, plan, channels, expanded)
            if hits
            else _advice_on_nothing(query, plan, channels, best_score, scoped=scope is not None)
        )
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
            graph_ran=expanded.ran,
            inverses=dict(plan.inverses),
            advice="; ".join(
                filter(
                    None, (_EMBEDDER_FAILED if failures else "", advice, _not_excluded(unnamed), _not_used(left_out))
                )
            ),
            embedder_failed=bool(failures),
        )
        return result, snapshot.generation


def answer_globally(
    engine: Engine,
    embedder: CheckedEmbedder | None,
    question: str,
    plan: Plan,
    state: State,
    scope: Filter | None = None,
    given: Matrix | Exception | None = None,
) -> tuple[Result, int]:
    """Answer a question about the whole collection with its communities; return the result and its generation.

    ``state`` are the communities of the scope. The result has no hits if there are none.
    """
    stages: dict[str, float] = {}
    with _timed(stages, "embed"):
        has_vectors = embedder is not None or engine.settings().get("embedder", NO_EMBEDDER) != NO_EMBEDDER
        vector, problem, failures = _embed(embedder, question, plan, given, has_vectors=has_vectors)
    inside, excluded = without_documents(engine, scope, plan.exclude)
    with engine.snapshot(inside) as whole:
        snapshot, unnamed = without_entities(whole, plan.exclude, excluded) if plan.exclude else (whole, [])
        query = Query(question, snapshot, vector, embedder=embedder, k=plan.k, method=plan.method)
        with _timed(stages, "search"):
            found: Ranking = np.empty(0, np.int64), np.empty(0, np.float32)
            unrestricted = partial(engine.snapshot, scope) if plan.exclude else None
            seeds, left_out = seed_keys(snapshot, plan.seeds, unrestricted)
            if len(seeds):
                edges = snapshot.neighbours(seeds, to="chunks", limit=plan.candidates)
                found = edges.targets, edges.weights
            elif global_search.is_specific(query):
                _, found = _search(query, plan)
        with _timed(stages, "communities"):
            chosen, matching, why = global_search.choose(query, found[0], found[1].tolist(), state)
        generation = snapshot.generation
    with _timed(stages, "explain"):
        passages = global_search.passages(engine, inside, state, chosen, matching, plan.k)
    hits = global_search.to_hits(passages)
    advice = "" if hits else "the documents name too few entities for themes: use the hybrid method"
    result = Result(
        question=question,
        method=plan.method,
        hits=hits,
        route=plan.route,
        gate=why,
        fallback=problem,
        trace=Trace(stages),
        graph_ran=False,
        inverses=dict(plan.inverses),
        advice="; ".join(
            filter(None, (_EMBEDDER_FAILED if failures else "", advice, _not_excluded(unnamed), _not_used(left_out)))
        ),
        embedder_failed=bool(failures),
        communities=tuple(chosen) if hits else (),
    )
    return result, generation


def _not_excluded(names: Sequence[str]) -> str:
    """Return which names of ``exclude`` name nothing."""
    shown = ", ".join(map(repr, names[:_MAX_UNNAMED]))
    return f"exclude: no entity or document is named {shown}" if names else ""


def _not_used(names: Sequence[str]) -> str:
    """Return which names of ``seed_entities`` are excluded."""
    shown = ", ".join(map(repr, names[:_MAX_UNNAMED]))
    return f"seed_entities: {shown} left out, since exclude names it or all documents that mention it" if names else ""


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
    embedder: CheckedEmbedder | None,
    question: str,
    plan: Plan,
    given: Matrix | Exception | None,
    *,
    has_vectors: bool,
) -> tuple[Matrix | None, str, list[str]]:
    """Return the question's vector, or None and why there is none, and how the embedder failed if it did."""
    vector: Matrix | None = None
    failure: Exception | None = given if isinstance(given, Exception) and plan.method != "keyword" else None
    problem = ""
    problems: list[str] = []
    if plan.method == "keyword" or isinstance(given, Exception):
        pass
    elif given is not None:
        vector = given
    elif not has_vectors:
        problems = ["the index has no vectors: keyword search answers"] if plan.method == "vector" else []
    elif embedder is None:
        problem = "the index was opened without its embedder"
    else:
        try:
            vector = embedder.query(question)
        except EmbedderError as error:
            failure = error
    if failure is not None:
        problem = _why(failure, embedder)
        if plan.on_embedder_error == "raise":
            raised = question_error(problem, failure)
            raise raised from raised.__cause__
    if problem:
        problems.append(f"the question could not be embedded, keyword search only: {problem}")
    failures = [] if failure is None else problems[:]
    if question.strip() and not _WORD.search(question):
        problems.append("the question has no words: the order of the passages is arbitrary")
    return vector, "; ".join(problems), failures


def _why(failure: Exception, embedder: CheckedEmbedder | None) -> str:
    """Return how embedding a question failed, with the name of the embedder."""
    if embedder is None or embedder.identity in str(failure):
        return str(failure)
    return f"{embedder.identity} raised {type(failure).__name__} on a question: {failure}"


def _search(query: Query, plan: Plan) -> tuple[dict[str, Ranking], Ranking]:
    """Run vector and keyword search; return the ranking of each, and their weighted mean."""
    count = max(plan.candidates, plan.k)
    found: dict[str, Ranking] = {}
    by_vector = query.vector is not None and (plan.vector_weight > 0 or plan.method == "vector")
    if plan.method != "keyword" and by_vector:
        keys, scores = query.by_vector("chunks", count)
        similar = np.round(scores, 6) >= plan.gate.min_score if plan.gate.min_score > 0 else slice(None)
        found["vector"] = keys[similar], scores[similar]
    by_vector_alone = plan.method == "vector" or isinstance(plan.fusion, OwnScores)
    if plan.method == "keyword" or not by_vector or (not by_vector_alone and plan.text_weight > 0):
        found["keyword"] = query.snapshot.search_keywords("chunks", with_bare_ids(query.text), count)
    channels = {}
    for name, (keys, scores) in found.items():
        order = query.order("chunks", keys, scores)
        channels[name] = keys[order], scores[order]
    if len(channels) == 1 and (plan.method in ("vector", "keyword") or (by_vector and by_vector_alone)):
        return channels, next(iter(channels.values()))
    nothing = np.empty(0, np.int64), np.empty(0, np.float32)
    return channels, query.blend("chunks", channels.get("vector", nothing), channels.get("keyword", nothing))


def _expand(query: Query, plan: Plan, channels: dict[str, Ranking], plain: Ranking) -> Expanded:
    """Run the graph strategy, unless the gate or the call forbids it, and decide which ranking leads."""
    if not plan.use_graph or plan.method not in ("hybrid", "graph"):
        return Expanded(skipped="" if plan.use_graph else "the graph was not used")
    trust = confidence(query.text, len(query.entities), _best_similarity(channels))
    if skipped := plan.gate.skipped(trust, len(query.entities)):
        return Expanded(lead="plain", confidence=trust, skipped=skipped)
    expansion = plan.graph.expand(query, plain, max(plan.candidates, plan.k))
    strong = _strong_enough(query, plan.gate, expansion)
    if plan.gate.weigh_by_confidence:
        strong = replace(strong, strength=strong.strengths * np.float32(trust))
    lead: Lead = "graph"
    why = ""
    if plan.method == "hybrid" and plan.reranker is None and getattr(plan.fusion, "heeds_lead", False):
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
    return Expanded(strong, lead, trust, why, ran=True)


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


def _best_similarity(channels: dict[str, Ranking]) -> float:
    return float(channels["vector"][1].max(initial=0)) if "vector" in channels else 0.0


def _strong_enough(query: Query, gate: Gate, expansion: Expansion) -> Expansion:
    """Return the expansion without the chunks that are weaker than the gate allows.

    The strength is that of the relation that leads to a chunk, and the strategy's own where none was stated.
    """
    if gate.min_graph_score <= 0 or not len(expansion.keys):
        return expansion
    stated = stated_strengths(query, expansion.keys)
    strengths = np.where(np.isnan(stated), expansion.strengths, stated)
    return expansion.only(np.round(strengths, 6) >= round(gate.min_graph_score, 6))


def _advice(query: Query, plan: Plan, channels: dict[str, Ranking], expanded: Expanded) -> str:
    """Return what the caller can do about a low confidence in the graph; empty if it is not low or does not matter."""
    least = max(plan.gate.min_confidence, CONFIDENCE_WITHOUT_GRAPH)
    if not plan.use_graph or plan.method not in ("hybrid", "graph") or expanded.confidence >= least:
        return ""
    actions = how_to_raise(query.text, len(query.entities), _best_similarity(channels))
    lower = ", or lower min_confidence" if expanded.confidence < plan.gate.min_confidence else ""
    return f"the confidence is low, {expanded.confidence:.2f}: {actions}{lower}"


def _advice_on_nothing(
    query: Query, plan: Plan, channels: dict[str, Ranking], best_score: float, *, scoped: bool
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


def _unmatched_names(query: Query) -> str:
    """Return a hint if names could not be matched by similarity."""
    has = query.snapshot.has
    if len(query.entities) or query.vector is None or not has("entities") or has("entities", vectors=True):
        return ""
    return " (names are not embedded and could not be matched by similarity: embed_names=True)"


def _is_reranked(plan: Plan, expanded: Expanded) -> bool:
    return plan.reranker is not None and plan.method == "hybrid" and expanded.ran


def _fuse(
    query: Query, plan: Plan, channels: dict[str, Ranking], plain: Ranking, expanded: Expanded
) -> tuple[Ranking, Expanded, str]:
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
        if not len(expansion.keys):
            why = expanded.skipped or why
        expanded = replace(
            expanded,
            lead=lead,
            skipped=why,
            linked=reranked.linked,
            gate="" if why else reranked.gate,
            reasons=reranked.reasons,
            trust=reranked.trust,
        )
    elif plan.method == "hybrid" and not plan.reranker and (by_channel := channel_fusion(plan.fusion)) is not None:
        keys, scores = by_channel.fuse_channels({**channels, "graph": (expansion.keys, expansion.strengths)})
        if isinstance(plan.fusion, Additive):  # a result of plain search is kept if its channel has no weight
            others = without(plain[0], keys)
            keys, scores = np.concatenate([keys, others]), np.append(scores, np.zeros(len(others), np.float32))
        order = query.order("chunks", keys, scores)
        keys, scores = keys[order], scores[order]
    elif len(expansion.keys):
        first = query.without_copies(plain, plan.k)[0] if isinstance(plan.fusion, OwnScores) else plain
        fused = plan.fusion.fuse(first, (expansion.keys, expansion.strengths), lead=expanded.lead)
        keys, scores = np.asarray(fused[0], np.int64), np.asarray(fused[1])
        order = query.order("chunks", keys, scores)
        keys, scores = keys[order], scores[order]
    elif plan.method == "graph" and expanded.ran:
        remark = "the graph leads to no passage: plain search answers"
    elif isinstance(plan.reranker, ScoreReranker) and plan.method == "hybrid":
        keys, scores = plan.reranker.rerank_plain(query, plain)
    return (keys, scores), expanded, remark


def _shown(
    query: Query, plan: Plan, plain: Ranking, expansion: Expansion, ranking: Ranking
) -> tuple[Ranking, list[Keys]]:
    """Return the chunks of the result and the copies of each: the first ``k``.

    With :class:`Additive` or :class:`OwnScores`, the first ``k`` of plain search and those that the graph adds.
    """
    adds = isinstance(plan.fusion, Additive) or (isinstance(plan.fusion, OwnScores) and len(expansion.keys))
    if plan.method != "hybrid" or not adds:
        return query.without_copies(ranking, plan.k)
    (kept, _), copies = query.without_copies(plain, plan.k)
    new = ~np.isin(expansion.keys, np.concatenate([kept, *copies]))
    limit = getattr(plan.fusion, "max_chunks", None)
    most = int(new.sum()) if limit is None else limit
    (added, _), _ = query.without_copies((expansion.keys[new], expansion.scores[new]), most)
    shown = np.concatenate([kept, added])
    if isinstance(plan.fusion, OwnScores) and plan.fusion.same_start > 0:
        starts: dict[str, int] = {}
        for key, chunk in zip(shown.tolist(), query.snapshot.chunks(shown), strict=True):
            starts.setdefault(chunk.text[: plan.fusion.same_start], key)
        shown = np.array(list(starts.values()), np.int64)
    keys, scores = ranking
    wanted = np.isin(keys, shown)
    return query.without_copies((keys[wanted], scores[wanted]), plan.k + len(added))


def _paths(query: Query, keys: Keys, channels: dict[str, Ranking], expanded: Expanded) -> list[EntityPath]:
    """Return the path to each passage; none where plain search ranks a passage higher than the graph does.

    A passage that mentions an entity of the question always has its path. One that the graph found without
    a path from the question may have one from a passage that plain search found.
    """
    if not expanded.ran:
        return [()] * len(keys)
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


def _calibrate(
    query: Query,
    plan: Plan,
    everything: Keys,
    ranking: Ranking,
    expanded: Expanded,
    reasons: Sequence[Reason],
    paths: Sequence[EntityPath],
) -> Ranking:
    """Return a ranking with calibrated scores, if its own say nothing but the rank."""
    if plan.calibration is None or plan.method != "hybrid" or not len(ranking[0]):
        return ranking
    if not getattr(plan.reranker or plan.fusion, "scores_are_ranks", False):
        return ranking
    linked, has_path = [reason.link is not None for reason in reasons], [bool(path) for path in paths]
    trust = expanded.trust if expanded.ran else None
    signals = signals_of(query, everything, ranking[0], trust=trust, linked=linked, has_path=has_path)
    return ranking[0], plan.calibration.scores(signals)


def _explain(
    query: Query,
    plan: Plan,
    plain: Ranking,
    ranking: Ranking,
    copies: list[Keys],
    channels: dict[str, Ranking],
    expanded: Expanded,
    reasons: list[Reason],
    paths: list[EntityPath],
    fields: frozenset[str],
) -> tuple[tuple[Hit, ...], tuple[Fact, ...], dict[int, Entity]]:
    """Return the hits with channels, paths and links, the supporting facts, and all entities in them by key.

    ``fields`` are the types of entities that are shared values of metadata.
    """
    snapshot, expansion = query.snapshot, expanded.expansion
    keys, scores = ranking
    fact_keys = choose_facts(query, paths, keys, expansion.facts) if expanded.ran else expansion.facts
    if expansion.ranks_facts:
        fact_keys = np.array([*dict.fromkeys([*expansion.facts.tolist(), *fact_keys.tolist()])], np.int64)
    on_paths = [key for path in paths for key in path[::2] if key >= snapshot.first_entity]
    entity_keys = distinct(
        snapshot.fact_rows(fact_keys).entities, query.entities, np.array(on_paths, np.int64),
        np.array([reason.link.entity for reason in reasons if reason.link], np.int64),
        np.array([expansion.via[key][0] for key in keys.tolist() if key in expansion.via], np.int64),
    )  # fmt: skip
    known = dict(zip(entity_keys.tolist(), snapshot.entities(entity_keys), strict=True))
    facts = dict(zip(fact_keys.tolist(), snapshot.facts(fact_keys), strict=True))
    if expanded.ran:
        graph = {"graph": (expansion.keys, expansion.scores), "links": expanded.linked}
        channels = graph if plan.method == "graph" and len(expansion.keys) else {**channels, **graph}
    found_by: list[dict[str, tuple[int, float]]] = [{} for _ in keys]
    for name, (found, own) in channels.items():
        for hit, place in np.argwhere(keys[:, None] == found[None, :]).tolist():
            found_by[hit][name] = (place + 1, float(own[place]))
    by_plain = _returned_by_plain(query, plan, plain, keys, found_by)
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
        by_graph = bool(generated) or (not _GRAPH_CHANNELS.isdisjoint(shares) and chunk_key not in by_plain)
        origin: Origin = "graph" if by_graph else "plain"
        same = tuple(copy.id for copy in snapshot.chunks(others[:_MAX_COPIES]))
        link = None
        if reason.link:
            place, entity, kind, followed = reason.link
            called = _with_field(known[entity], fields)
            link = Link(place + 1, ids[place], known[entity].id, called, kind, followed)
        via = None
        if by_graph and chunk_key in expansion.via:
            entity, hop = expansion.via[chunk_key]
            via = Step("entity", known[entity].id, known[entity].name), hop
        said = reason.words, reason.covers
        hits.append(Hit(chunk, score, shares, tuple(steps), origin, generated, same, *said, link, via))
    return tuple(hits), tuple(facts.values()), known


def _with_field(entity: Entity, fields: frozenset[str]) -> str:
    """Return the name of an entity, with the field before it if it is a shared value of metadata."""
    prefix = f"{entity.type}: " if entity.type in fields else ""
    return entity.name if entity.name.startswith(prefix) else prefix + entity.name


def _returned_by_plain(
    query: Query, plan: Plan, plain: Ranking, keys: Keys, found_by: Sequence[Collection[str]]
) -> set[int]:
    """Return the chunks that plain search alone would have returned, as far as the graph found them too."""
    if plan.method == "graph":
        return set()
    first = set(plain[0][: plan.k].tolist())
    by_graph = {
        key for key, names in zip(keys.tolist(), found_by, strict=True) if not _GRAPH_CHANNELS.isdisjoint(names)
    }
    if not by_graph <= first:  # without copies plain search gets further down its ranking
        first = set(query.without_copies(plain, plan.k)[0][0].tolist())
    return first


def _chunk_step(chunk: Chunk) -> Step:
    return Step("chunk", chunk.id, label(chunk.title, chunk.headings) or chunk.id)
