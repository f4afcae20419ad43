"""The way of a question through an index: search, recognise, expand, rank, on one snapshot; then the result.

:func:`search` is the whole way; each of its steps is a function below it. What it returns is read no more from the
index: a reranker that calls a model scores passages that are values, while no snapshot is open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.embedding import DEFAULT_VECTOR_WEIGHT
from graphrag_core.ingest.remembered import visible_by
from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Keys, Ranking
from graphrag_core.query.conversation import with_conversation
from graphrag_core.query.evidence import NOTHING, Evidence, GraphSearch, PlainSearch
from graphrag_core.query.explanation import explain
from graphrag_core.query.fusion import confidence
from graphrag_core.query.plan import Embedded, Plan
from graphrag_core.query.query import Query
from graphrag_core.query.rerank import SCORED, Reranked
from graphrag_core.query.settings import ResolvedSettings
from graphrag_core.query.strategies.strategy import stated_strengths
from graphrag_core.remarks import remarks
from graphrag_core.result import CONFIDENCE_WITHOUT_GRAPH, Channel, Explanation, Hit, Lazy, Result, Step, Trace
from graphrag_core.telemetry import Stages
from graphrag_core.text.names import with_arxiv_ids
from graphrag_core.text.words import WORD_OR_IDENTIFIER

if TYPE_CHECKING:
    from graphrag_core.engine.engine import IndexEngine

_MAX_UNKNOWN = 5  # keys of a filter that are named
_NO_NAME_VECTORS = (
    "entities are not found by similarity, as the index has no vectors of names: build it with embed_names=True"
)
_NO_WORDS = "the question has no words: the order of the passages is arbitrary"


def search(index: KnowledgeIndex, plan: Plan, vector: Embedded, stages: Stages) -> Evidence:
    """Search, recognise, expand and rank, on one generation of the index and within the scope of the plan."""
    settings = plan.settings
    with index.engine.snapshot(partial(visible_by, scope=plan.scope, at=plan.at)) as snapshot:
        query = Query(
            plan.text, snapshot, vector.vector, embedder=index.embedding, k=settings.k,
            is_hybrid=settings.method == "hybrid", min_graph_score=settings.gate.min_graph_score,
            on_embedder_error=settings.on_embedder_error, counts_access=plan.counts_access,
            failures=[vector.problem] if vector.failed else [],
        )  # fmt: skip
        plain = search_plain(query, settings)
        stages.end("search")
        if settings.searches_graph:
            query = replace(query, entities=settings.recogniser.recognise(plan.text, query.vector, snapshot))
        if plan.turns:
            query = with_conversation(query, plan.turns, settings.recogniser)
        stages.end("recognise")
        graph = expand(query, plain, settings)
        stages.end("expand")
        ranked = rank(query, plain, graph, settings)
        stages.end("rerank" if settings.second_stage is not None and graph.ran else "fuse")
        return read(query, plan, vector, plain, graph, ranked)


# -- search


def search_plain(query: Query, settings: ResolvedSettings) -> PlainSearch:
    """Run vector and keyword search.

    A reranker gets the same candidates whatever ``k`` is, so that a larger ``k`` adds hits and leaves the first ones as
    they are. Further ones are appended by their plain score.
    """
    plain = _searched(query, settings, settings.ranked)
    if settings.k <= settings.ranked:
        return plain
    (keys, scores), every = plain.ranking, _searched(query, settings, settings.k)
    is_further = ~among(every.ranking[0], np.sort(keys))
    below = np.minimum(every.ranking[1][is_further], scores.min(initial=np.inf))
    return every._replace(ranking=(np.append(keys, every.ranking[0][is_further]), np.append(scores, below)))


def _searched(query: Query, settings: ResolvedSettings, count: int) -> PlainSearch:
    """Return the best passages of each channel, and of both."""
    snapshot, vector, method, fusion = query.snapshot, query.vector, settings.method, settings.fusion
    weight = settings.vector_weight
    if weight is None:
        weight = DEFAULT_VECTOR_WEIGHT if query.embedder is None else query.embedder.vector_weight
    by_vector = vector is not None and (method == "vector" or (method != "keyword" and weight > 0))
    by_vector_alone = by_vector and (method == "vector" or not fusion.uses_keywords)
    channels: dict[str, Ranking] = {}
    nearest = None
    if vector is not None and by_vector:
        ((keys, scores),) = snapshot.nearest(vector[None, :], count)
        nearest = float(scores.max(initial=0))
        if (least := settings.gate.min_score) > 0:
            similar = np.round(scores, 6) >= least
            keys, scores = keys[similar], scores[similar]
        order = query.order(keys, scores)
        channels["vector"] = keys[order], scores[order]
    if not by_vector or (not by_vector_alone and weight < 1):
        keys, scores = snapshot.keywords(with_arxiv_ids(query.text), count)
        order = query.order(keys, scores)
        channels["keyword"] = keys[order], scores[order]
    ranking = next(iter(channels.values()))
    if method == "hybrid" and not by_vector and not fusion.uses_keywords:
        ranking = ranking[0], ranking[1] / (1 + ranking[1])  # in place of a cosine
    elif len(channels) > 1 or not (method in ("vector", "keyword") or by_vector_alone):
        ranking = _blend(query, channels, weight, relative=fusion.relative_scores)
    best = channels.get("vector", NOTHING) if by_vector else ranking
    return PlainSearch(channels, ranking, float(best[1].max(initial=0)), nearest)


def _blend(query: Query, channels: Mapping[str, Ranking], weight: float, *, relative: bool) -> Ranking:
    """Return the weighted mean of cosine and BM25, each divided by its best score; cosines only if ``relative``."""
    (vectors, _), (keys, words) = (channels.get(name, NOTHING) for name in ("vector", "keyword"))
    criteria = [words / max(float(words.max(initial=0)), 1e-9)]
    if query.vector is not None and len(vectors):
        both = distinct(vectors, keys)
        similarity = cosine = query.snapshot.cosines(both, query.vector)
        if relative:
            cosine = np.maximum(cosine, 0)
            cosine /= max(float(cosine.max(initial=0)), 1e-9)
        shares = np.zeros(len(both), np.float32)
        shares[np.searchsorted(both, keys)] = criteria[0]
        # Negative cosines keep their order.
        keys, criteria = both, [weight * cosine + (1 - weight) * shares, similarity]
    order = query.order(keys, *criteria)
    return keys[order], criteria[0][order].astype(np.float32)


# -- the graph


def expand(query: Query, plain: PlainSearch, settings: ResolvedSettings) -> GraphSearch:
    """Run the graph strategy, unless the gate or the call forbids it.

    Passages that are too weak for the gate are left out. The strength of the relation that leads to a passage counts,
    and the strategy's own where none was stated.
    """
    gate, trust = settings.gate, None
    uses_confidence = gate.min_confidence > 0 or gate.weigh_by_confidence
    if not settings.searches_graph:
        trust = CONFIDENCE_WITHOUT_GRAPH if uses_confidence else None
        return GraphSearch(why="" if settings.use_graph else "the graph was not used", confidence=trust)
    if uses_confidence:
        trust = confidence(query.text, len(query.entities), plain.similarity)
    if why := gate.skipped(trust, len(query.entities)):
        return GraphSearch(why=why, confidence=trust)
    expansion = settings.graph.expand(query, plain.ranking, settings.ranked)
    found = len(expansion.keys)
    if gate.min_graph_score > 0 and found and not settings.graph.applies_min_graph_score:
        stated = stated_strengths(query, expansion.keys)
        strengths = np.where(np.isnan(stated), expansion.strengths, stated)
        expansion = expansion.only(np.round(strengths, 6) >= round(gate.min_graph_score, 6))
    # The graph method shows the strategy's own scores, unless they say nothing but the order.
    shows_scores = settings.method == "graph" and expansion.strength is not None
    scores = expansion.scores if shows_scores else expansion.strengths
    if gate.weigh_by_confidence:
        scores = scores * np.float32(trust)
    return GraphSearch(expansion, "", trust, True, (expansion.keys, scores), found)


# -- the ranking


def rank(query: Query, plain: PlainSearch, graph: GraphSearch, settings: ResolvedSettings) -> Reranked:
    """Return the ranking. A function that scores passages orders the first of them when the snapshot is closed."""
    if settings.method != "hybrid":
        return Reranked(*(graph.ranking if graph.ran else plain.ranking))
    if settings.second_stage is not None:
        if graph.ran:
            return settings.second_stage.rerank(query, plain.ranking, graph.ranking)
        return Reranked(*settings.second_stage.rerank_plain(query, plain.ranking))
    if not settings.use_graph and not settings.fusion.weighed:
        return Reranked(*plain.ranking)
    keys, scores = map(np.asarray, settings.fusion.fuse_query(query, plain.channels, plain.ranking, graph.ranking))
    order = query.order(keys, scores)
    return Reranked(keys[order], scores[order])


# -- what may be shown


def read(
    query: Query, plan: Plan, vector: Embedded, plain: PlainSearch, graph: GraphSearch, ranked: Reranked
) -> Evidence:
    """Read the passages and entities that may be shown, and what the remarks need, while the snapshot is open."""
    snapshot, settings, kept = query.snapshot, plan.settings, None
    if settings.method == "hybrid":
        kept = settings.fusion.kept(query, plain.ranking, graph.ranking if graph.ran else None)
    shown = ranked.keys[: settings.k] if kept is None else ranked.keys[np.isin(ranked.keys, kept)]
    wanted = shown if settings.scorer is None else distinct(shown, ranked.keys[: max(SCORED, settings.k)])
    via = [graph.expansion.via[key][0] for key in wanted.tolist() if key in graph.expansion.via]
    keys = distinct(query.entities, np.array(via, np.int64)) if via else query.entities
    return Evidence(
        plan=plan, settings=settings, plain=plain, graph=graph, ranked=ranked, kept=kept,
        passages=dict(zip(wanted.tolist(), snapshot.chunks(wanted), strict=True)),
        entities=dict(zip(keys.tolist(), snapshot.entities(keys), strict=True)),
        named=query.entities, carried=query.carried,
        state=(snapshot.generation, snapshot.token, snapshot.numbering),
        unknown_keys=snapshot.unknown_keys[:_MAX_UNKNOWN], has_vector=query.vector is not None,
        has_chunks=snapshot.chunk_count > 0, has_entities=snapshot.has_entities, has_vectors=snapshot.has_vectors,
        missing=_missing(query, settings, vector, graph), failed=bool(query.failures),
    )  # fmt: skip


def _missing(query: Query, settings: ResolvedSettings, vector: Embedded, graph: GraphSearch) -> tuple[str, ...]:
    """Return a sentence for each part of the search that was not available."""
    snapshot = query.snapshot
    lacks_names = settings.recogniser.needs_name_vectors and snapshot.has_entities and not snapshot.has_name_vectors
    has_no_words = bool(query.text.strip()) and not WORD_OR_IDENTIFIER.search(query.text)
    found = _NO_WORDS if has_no_words else "", _NO_NAME_VECTORS if lacks_names else "", graph.expansion.remark
    return tuple(filter(None, (vector.problem, *found, *query.remarks)))


# -- the result


def to_result(engine: IndexEngine, seen: Evidence, stages: Stages) -> Result:
    """Return the hits with what explains them."""
    plan, settings, ranked = seen.plan, seen.settings, seen.ranked
    wanted = slice(settings.k) if seen.kept is None else np.isin(ranked.keys, seen.kept)
    keys, scores = ranked.keys[wanted], ranked.scores[wanted]
    best_score = float(scores.max()) if len(scores) else None
    if settings.score_threshold is not None:
        above = int((np.round(scores, 6) >= round(settings.score_threshold, 6)).sum())
        keys, scores = keys[:above], scores[:above]
    explanation: Lazy[Explanation] = Lazy(Explanation)
    hits = _hits(seen, keys, scores.tolist(), explanation)
    plain, graph = seen.plain, seen.graph
    seen = replace(  # what a stored result needs: no passages besides its hits, and of each ranking whether it is empty
        seen,
        passages={},
        plain=plain._replace(
            channels={name: _first(own) for name, own in plain.channels.items()}, ranking=_first(plain.ranking)
        ),
        graph=graph._replace(
            ranking=_first(graph.ranking),
            expansion=replace(graph.expansion, keys=NOTHING[0], scores=NOTHING[1], strength=None, queries={}, via={}),
        ),
        entities={key: seen.entities[key] for key in seen.named.tolist()},
        ranked=replace(ranked, keys=keys, scores=scores, choice=None),
        reasons=None if ranked.choice is None else ranked.choice.reasons(keys),
        hits=len(hits),
        best_score=best_score,
    )
    explanation.compute = partial(explain, engine, seen, hits)
    if plan.explain:
        _ = explanation.value
    stages.end("explain" if plan.explain else "hits")
    asked = {"method": settings.method, "k": settings.k, "filtered": plan.scope is not None}
    stages.emit("retrieve", {**asked, "hits": len(hits), "entities": len(seen.entities), "graph_used": seen.graph.ran})
    return Result(
        question=plan.text,
        method=settings.method,
        hits=hits,
        entities=tuple(seen.entities.values()),
        confidence=seen.graph.confidence,
        route=plan.route,
        trace=Trace(stages.milliseconds()),
        graph_ran=seen.graph.ran,
        scores_are_probabilities=settings.scorer is None and getattr(settings.second_stage, "has_probabilities", False),
        embedder_failed=seen.failed,
        is_complete=not seen.missing,
        generation=seen.state[0],
        context_format=settings.context,
        remarks=Lazy(lambda: remarks(seen)),
        explanation=explanation,
    )


def _first(ranking: Ranking) -> Ranking:
    """Return the first of a ranking, which shares no memory with it."""
    return ranking[0][:1].copy(), ranking[1][:1].copy()


def _hits(seen: Evidence, keys: Keys, scores: list[float], explanation: Lazy[Explanation]) -> tuple[Hit, ...]:
    graph, expansion, is_graph = seen.graph, seen.graph.expansion, seen.settings.method == "graph"
    rankings = {} if graph.ran and is_graph else dict(seen.plain.channels)
    if graph.ran:
        rankings["graph"] = expansion.keys, expansion.scores
    channels: list[dict[str, Channel]] = [{} for _ in scores]
    for name, (places, own) in rankings.items():
        rows, ranks = (keys[:, None] == places).nonzero()
        for row, rank_, score in zip(rows.tolist(), ranks.tolist(), own[ranks].tolist(), strict=True):
            channels[row][name] = Channel(rank_ + 1, score)
    # Plain search alone would have returned these.
    plain = () if is_graph else seen.plain.ranking[0][: seen.settings.k].tolist()
    hits = []
    for key, score, ranked in zip(keys.tolist(), scores, channels, strict=True):
        by_graph, via = key in expansion.queries or ("graph" in ranked and key not in plain), None
        if by_graph and key in expansion.via:
            entity, hop = expansion.via[key]
            via = Step("entity", seen.entities[entity].id, seen.entities[entity].name), hop
        origin, query = "graph" if by_graph else "plain", expansion.queries.get(key, "")
        hits.append(Hit(seen.passages[key], score, ranked, origin, query, via, explanation))  # type: ignore[arg-type]
    return tuple(hits)
