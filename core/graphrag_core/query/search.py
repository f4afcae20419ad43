"""The way of a question through an index: embed; search, recognise, expand, rank on one snapshot; then the result.

:func:`search` is the whole way; each of its steps is a function below it, which returns the evidence with what it
found. Evidence is not read from the index any more: a reranker that calls a model scores passages that are values,
while no snapshot is open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.embedding import DEFAULT_VECTOR_WEIGHT, question_error
from graphrag_core.ingest.pipeline import NO_EMBEDDER
from graphrag_core.ingest.remembered import visible_by
from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Keys, Matrix, Ranking
from graphrag_core.query.conversation import with_conversation
from graphrag_core.query.evidence import NOTHING, Evidence
from graphrag_core.query.explanation import explain
from graphrag_core.query.fusion import confidence
from graphrag_core.query.plan import Plan
from graphrag_core.query.query import Query
from graphrag_core.query.rerank import SCORED, Reranked
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
_NOT_EMBEDDED = "the question could not be embedded, keyword search only"
_NO_WORDS = "the question has no words: the order of the passages is arbitrary"


# -- embed


def embed(index: KnowledgeIndex, plan: Plan) -> tuple[Matrix | None, Evidence]:
    """Return the question's vector, unless the method or the index needs none, and what was unavailable."""
    if plan.vector is not None or plan.settings.method == "keyword":
        return (plan.vector if plan.settings.method != "keyword" else None), Evidence(plan=plan)
    if (embedder := index.embedding) is None:
        problem = "the index has no vectors: keyword search answers" if plan.settings.method == "vector" else ""
        if index.engine.settings().get("embedder", NO_EMBEDDER) != NO_EMBEDDER:
            problem = f"{_NOT_EMBEDDED}: the index was opened without its embedder"
        return None, Evidence(plan=plan, missing=(problem,) if problem else ())
    try:
        return (embedder.query(plan.text) if plan.embed is None else plan.embed()), Evidence(plan=plan)
    except Exception as error:  # noqa: BLE001 - raised, unless keyword search answers
        return None, _not_embedded(index, plan, error)


async def aembed(index: KnowledgeIndex, plan: Plan) -> tuple[Matrix | None, Evidence]:
    """Return what :func:`embed` does, with a vector that is awaited on the event loop."""
    import asyncio  # noqa: PLC0415 - slow to import

    if plan.aembed is None or plan.settings.method == "keyword":
        return await asyncio.to_thread(embed, index, plan)
    try:
        return await plan.aembed(), Evidence(plan=plan)
    except Exception as error:  # noqa: BLE001 - raised, unless keyword search answers
        return None, _not_embedded(index, plan, error)


def _not_embedded(index: KnowledgeIndex, plan: Plan, error: Exception) -> Evidence:
    """Return how the embedder failed, or raise it if the settings say so."""
    problem, embedder = str(error), index.embedding
    if embedder is not None and embedder.identity not in problem:
        problem = f"{embedder.identity} raised {type(error).__name__} on a question: {error}"
    if plan.settings.on_embedder_error == "raise":
        raised = question_error(problem, error)
        raise raised from raised.__cause__
    return Evidence(plan=plan, missing=(f"{_NOT_EMBEDDED}: {problem}",), failed=True)


# -- search


def search(index: KnowledgeIndex, vector: Matrix | None, seen: Evidence, stages: Stages) -> Evidence:
    """Search, recognise, expand and rank, on one generation of the index and within the scope of the plan."""
    plan, settings = seen.plan, seen.settings
    with index.engine.snapshot(partial(visible_by, scope=plan.scope, at=plan.at)) as snapshot:
        query = Query(
            plan.text, snapshot, vector, embedder=index.embedding, k=settings.k,
            is_hybrid=settings.method == "hybrid", min_graph_score=settings.gate.min_graph_score,
            on_embedder_error=settings.on_embedder_error, counts_access=plan.counts_access,
        )  # fmt: skip
        seen = search_plain(query, seen)
        stages.end("search")
        if settings.searches_graph:
            query = replace(query, entities=settings.recogniser.recognise(plan.text, vector, snapshot))
        if plan.turns:
            query = with_conversation(query, plan.turns, settings.recogniser)
        stages.end("recognise")
        seen = expand(query, seen)
        stages.end("expand")
        ranked = rank(query, seen)
        stages.end("rerank" if settings.second_stage is not None and seen.graph_ran else "fuse")
        return read(query, seen, ranked)


def search_plain(query: Query, seen: Evidence) -> Evidence:
    """Run vector and keyword search.

    A reranker gets the same candidates whatever ``k`` is, so that a larger ``k`` adds hits and leaves the first ones as
    they are. Further ones are appended by their plain score.
    """
    first = _searched(query, seen, seen.settings.ranked)
    if seen.settings.k <= seen.settings.ranked:
        return first
    (keys, scores), every = first.plain, _searched(query, seen, seen.settings.k)
    is_further = ~among(every.plain[0], np.sort(keys))
    below = np.minimum(every.plain[1][is_further], scores.min(initial=np.inf))
    return replace(every, plain=(np.append(keys, every.plain[0][is_further]), np.append(scores, below)))


def _searched(query: Query, seen: Evidence, count: int) -> Evidence:
    """Return the best passages of each channel, and of both."""
    settings, vector, snapshot = seen.settings, query.vector, query.snapshot
    method, fusion, weight = settings.method, settings.fusion, _vector_weight(query, settings.vector_weight)
    by_vector = vector is not None and (method == "vector" or (method != "keyword" and weight > 0))
    by_vector_alone = by_vector and (method == "vector" or not fusion.uses_keywords)
    channels: dict[str, Ranking] = {}
    nearest = None
    if vector is not None and by_vector:
        ((keys, scores),) = snapshot.nearest(vector[None, :], count)
        nearest, similar = float(scores.max(initial=0)), np.round(scores, 6) >= (settings.gate.min_score or -np.inf)
        channels["vector"] = query.in_order(keys[similar], scores[similar])
    if not by_vector or (not by_vector_alone and weight < 1):
        channels["keyword"] = query.in_order(*snapshot.keywords(with_arxiv_ids(query.text), count))
    ranking = next(iter(channels.values()))
    if method == "hybrid" and not by_vector and not fusion.uses_keywords:
        ranking = ranking[0], ranking[1] / (1 + ranking[1])  # in place of a cosine
    elif len(channels) > 1 or not (method in ("vector", "keyword") or by_vector_alone):
        ranking = _blend(query, channels, weight, relative=fusion.relative_scores)
    similarity = float(channels.get("vector", ranking)[1].max(initial=0))
    return replace(seen, channels=channels, plain=ranking, similarity=similarity, nearest=nearest)


def _vector_weight(query: Query, given: float | None) -> float:
    """Return the weight of vector search in plain search: by default that of the embedder."""
    own = DEFAULT_VECTOR_WEIGHT if query.embedder is None else query.embedder.vector_weight
    return own if given is None else given


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
    keys, scores = query.in_order(keys, *criteria)
    return keys, scores.astype(np.float32)


# -- the graph


def expand(query: Query, seen: Evidence) -> Evidence:
    """Run the graph strategy, unless the gate or the call forbids it.

    Passages that are too weak for the gate are left out. The strength of the relation that leads to a passage counts,
    and the strategy's own where none was stated.
    """
    settings, gate, trust = seen.settings, seen.settings.gate, None
    uses_confidence = gate.min_confidence > 0 or gate.weigh_by_confidence
    if not settings.searches_graph:
        trust = CONFIDENCE_WITHOUT_GRAPH if uses_confidence else None
        return replace(seen, skipped="" if settings.use_graph else "the graph was not used", confidence=trust)
    if uses_confidence:
        trust = confidence(query.text, len(query.entities), seen.similarity)
    if why := gate.skipped(trust, len(query.entities)):
        return replace(seen, skipped=why, confidence=trust)
    expansion = settings.graph.expand(query, seen.plain, settings.ranked)
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
    graph = expansion.keys, scores
    return replace(seen, graph_ran=True, confidence=trust, expansion=expansion, graph=graph, found=found)


# -- the ranking


def rank(query: Query, seen: Evidence) -> Reranked:
    """Return the ranking. A function that scores passages orders the first of them when the snapshot is closed."""
    settings = seen.settings
    if settings.method != "hybrid":
        return Reranked(*(seen.graph if seen.graph_ran else seen.plain))
    if settings.second_stage is not None:
        if seen.graph_ran:
            return settings.second_stage.rerank(query, seen.plain, seen.graph)
        return settings.second_stage.rerank_plain(query, seen.plain)
    if not settings.use_graph and not settings.fusion.weighed:
        return Reranked(*seen.plain)
    keys, scores = map(np.asarray, settings.fusion.fuse_query(query, seen.channels, seen.plain, seen.graph))
    return Reranked(*query.in_order(keys, scores))


# -- what may be shown


def read(query: Query, seen: Evidence, ranked: Reranked) -> Evidence:
    """Read the passages and entities that may be shown, and what the remarks need, while the snapshot is open."""
    snapshot, settings, kept, text = query.snapshot, seen.settings, None, query.text
    if settings.method == "hybrid":
        kept = settings.fusion.kept(query, seen.plain, seen.graph if seen.graph_ran else None)
    shown = ranked.keys[: settings.k] if kept is None else ranked.keys[np.isin(ranked.keys, kept)]
    wanted = shown if settings.scorer is None else distinct(shown, ranked.keys[: max(SCORED, settings.k)])
    via = [seen.expansion.via[key][0] for key in wanted.tolist() if key in seen.expansion.via]
    keys = distinct(query.entities, np.array(via, np.int64)) if via else query.entities
    lacks_names = settings.recogniser.needs_name_vectors and snapshot.has_entities and not snapshot.has_name_vectors
    has_no_words = bool(text.strip()) and not WORD_OR_IDENTIFIER.search(text)
    found = _NO_WORDS if has_no_words else "", _NO_NAME_VECTORS if lacks_names else "", seen.expansion.remark
    return replace(
        seen, ranked=ranked, kept=kept, named=query.entities, carried=query.carried,
        passages=dict(zip(wanted.tolist(), snapshot.chunks(wanted), strict=True)),
        entities=dict(zip(keys.tolist(), snapshot.entities(keys), strict=True)),
        state=(snapshot.generation, snapshot.token, snapshot.numbering),
        unknown_keys=snapshot.unknown_keys[:_MAX_UNKNOWN], has_vector=query.vector is not None,
        has_chunks=snapshot.chunk_count > 0, has_entities=snapshot.has_entities, has_vectors=snapshot.has_vectors,
        missing=tuple(filter(None, (*seen.missing, *found, *query.remarks))),
        failed=seen.failed or bool(query.failures),
    )  # fmt: skip


# -- the result


def to_result(engine: IndexEngine, seen: Evidence, stages: Stages) -> Result:
    """Return the hits with what explains them."""
    plan, settings, ranked = seen.plan, seen.settings, seen.ranked
    wanted = slice(settings.k) if seen.kept is None else np.isin(ranked.keys, seen.kept)
    keys, scores = ranked.keys[wanted], ranked.scores[wanted]
    best_score, choice = float(scores.max()) if len(scores) else None, ranked.choice
    if settings.score_threshold is not None:
        above = int((np.round(scores, 6) >= round(settings.score_threshold, 6)).sum())
        keys, scores = keys[:above], scores[:above]
    explanation: Lazy[Explanation] = Lazy(Explanation)
    hits = _hits(seen, keys, scores.tolist(), explanation)
    seen = replace(  # what a stored result needs: no passages besides its hits, and of each ranking whether it is empty
        seen,
        passages={},
        channels={name: _first(own) for name, own in seen.channels.items()},
        plain=_first(seen.plain),
        graph=_first(seen.graph),
        expansion=replace(seen.expansion, keys=NOTHING[0], scores=NOTHING[1], strength=None, queries={}, via={}),
        entities={key: seen.entities[key] for key in seen.named.tolist()},
        ranked=replace(ranked, keys=keys, scores=scores, choice=None),
        reasons=None if choice is None else choice.reasons(keys, reordered=settings.scorer is not None),
        hits=len(hits),
        best_score=best_score,
    )
    explanation.compute = partial(explain, engine, seen, hits)
    if plan.explain:
        _ = explanation.value
    stages.end("explain" if plan.explain else "hits")
    asked = {"method": settings.method, "k": settings.k, "filtered": plan.scope is not None}
    stages.emit("retrieve", {**asked, "hits": len(hits), "entities": len(seen.entities), "graph_used": seen.graph_ran})
    return Result(
        question=plan.text,
        method=settings.method,
        hits=hits,
        entities=tuple(seen.entities.values()),
        confidence=seen.confidence,
        route=plan.route,
        trace=Trace(stages.milliseconds()),
        graph_ran=seen.graph_ran,
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
    expansion, is_graph = seen.expansion, seen.settings.method == "graph"
    rankings = {} if seen.graph_ran and is_graph else dict(seen.channels)
    if seen.graph_ran:
        rankings["graph"] = expansion.keys, expansion.scores
    channels: list[dict[str, Channel]] = [{} for _ in scores]
    for name, (places, own) in rankings.items():
        rows, ranks = (keys[:, None] == places).nonzero()
        for row, rank_, score in zip(rows.tolist(), ranks.tolist(), own[ranks].tolist(), strict=True):
            channels[row][name] = Channel(rank_ + 1, score)
    # Plain search alone would have returned these.
    plain = () if is_graph else seen.plain[0][: seen.settings.k].tolist()
    hits = []
    for key, score, ranked in zip(keys.tolist(), scores, channels, strict=True):
        by_graph, via = key in expansion.queries or ("graph" in ranked and key not in plain), None
        if by_graph and key in expansion.via:
            entity, hop = expansion.via[key]
            via = Step("entity", seen.entities[entity].id, seen.entities[entity].name), hop
        origin, query = "graph" if by_graph else "plain", expansion.queries.get(key, "")
        hits.append(Hit(seen.passages[key], score, ranked, origin, query, via, explanation))  # type: ignore[arg-type]
    return tuple(hits)
