"""The way of a question through an index: search, recognise, expand, rank, on one snapshot; then the hits as values.

:func:`search` is the whole way; each of its steps is a function below it. What it returns is read no more from the
index: a reranker that calls a model scores passages that are values, while no snapshot is open.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.embedding import DEFAULT_VECTOR_WEIGHT, CheckedEmbedder
from graphrag_core.ingest.remembered import visible
from graphrag_core.key_sets import among
from graphrag_core.ports import Keys, Ranking, Scores
from graphrag_core.query.conversation import with_conversation
from graphrag_core.query.fusion import confidence
from graphrag_core.query.hits import NOTHING, Found, GraphSearch, PlainSearch, Searched, read_found
from graphrag_core.query.plan import Embedded, Plan
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.related_entities import stated_strengths
from graphrag_core.query.rerank import ScoreReranker
from graphrag_core.query.reranker import Reranked
from graphrag_core.query.settings import ResolvedSettings
from graphrag_core.result import CONFIDENCE_WITHOUT_GRAPH
from graphrag_core.telemetry import Stages
from graphrag_core.text.names import with_arxiv_ids

if TYPE_CHECKING:
    from graphrag_core.engine.snapshot import Snapshot


def search(index: KnowledgeIndex, plan: Plan, vector: Embedded, stages: Stages) -> Found:
    """Search, recognise, expand and rank, on one generation of the index and within the scope of the plan."""
    settings, scope = plan.settings, visible(index.engine, plan.scope, plan.at)
    with index.engine.snapshot(scope) as snapshot:
        query = ask(snapshot, plan, vector, index.embedding)
        plain = search_plain(query, settings)
        stages.end("search")
        if settings.searches_graph:
            query = replace(query, entities=settings.recogniser.recognise(plan.text, query.vector, snapshot))
        if plan.turns:
            query = with_conversation(query, plan.turns, settings.recogniser)
        stages.end("recognise")
        graph = expand(query, plain, settings)
        stages.end("expand")
        ranked, scorer = rank(query, plain, graph, settings)
        stages.end("rerank" if settings.is_reranked and graph.ran else "fuse")
        return read_found(query, plan, scope, Searched(vector, plain, graph, ranked, scorer))


def ask(snapshot: Snapshot, plan: Plan, vector: Embedded, embedder: CheckedEmbedder | None) -> Query:
    """Return the question on a snapshot."""
    settings, weight = plan.settings, plan.settings.vector_weight
    if weight is None:
        weight = DEFAULT_VECTOR_WEIGHT if embedder is None else embedder.vector_weight
    return Query(
        plan.text, snapshot, vector.vector, embedder=embedder, k=settings.k, is_hybrid=settings.method == "hybrid",
        vector_weight=weight, relative_scores=settings.fusion.relative_scores,
        min_graph_score=settings.gate.min_graph_score, on_embedder_error=settings.on_embedder_error,
        counts_access=plan.counts_access, failures=[vector.problem] if vector.failed else [],
    )  # fmt: skip


# -- search


def search_plain(query: Query, settings: ResolvedSettings) -> PlainSearch:
    """Run vector and keyword search.

    A reranker gets the same candidates whatever ``k`` is, so that a larger ``k`` adds hits and leaves the first ones as
    they are. Further ones are appended by their plain score.
    """
    if not settings.is_reranked or settings.k <= settings.candidates:
        return _search(query, settings, settings.ranked)
    (keys, scores) = _search(query, settings, settings.candidates).ranking
    every = _search(query, settings, settings.k)
    is_further = ~among(every.ranking[0], np.sort(keys))
    further, below = (column[is_further] for column in every.ranking)
    below = np.minimum(below, scores.min(initial=np.inf))
    return replace(every, ranking=(np.append(keys, further), np.append(scores, below)))


def _search(query: Query, settings: ResolvedSettings, count: int) -> PlainSearch:
    method, weight = settings.method, query.vector_weight
    by_vector = query.vector is not None and (method == "vector" or (method != "keyword" and weight > 0))
    by_vector_alone = by_vector and (method == "vector" or not settings.fusion.uses_keywords)
    channels: dict[str, Ranking] = {}
    nearest = None
    if by_vector:
        keys, scores = query.nearest(count)
        nearest = float(scores.max(initial=0))
        if (least := settings.gate.min_score) > 0:
            similar = np.round(scores, 6) >= least
            keys, scores = keys[similar], scores[similar]
        channels["vector"] = _ordered(query, keys, scores)
    if not by_vector or (not by_vector_alone and weight < 1):
        found = query.snapshot.keywords(with_arxiv_ids(query.text), count)
        channels["keyword"] = _ordered(query, *found)
    vectors = channels.get("vector", NOTHING)
    ranking = next(iter(channels.values()))
    if method == "hybrid" and not by_vector and not settings.fusion.uses_keywords:
        ranking = ranking[0], ranking[1] / (1 + ranking[1])  # in place of a cosine
    elif len(channels) > 1 or not (method in ("vector", "keyword") or by_vector_alone):
        ranking = query.blend(vectors, channels.get("keyword", NOTHING))
    return PlainSearch(channels, ranking, float((vectors if by_vector else ranking)[1].max(initial=0)), nearest)


def _ordered(query: Query, keys: Keys, scores: Scores) -> Ranking:
    order = query.order(keys, scores)
    return keys[order], scores[order]


# -- the graph


def expand(query: Query, plain: PlainSearch, settings: ResolvedSettings) -> GraphSearch:
    """Run the graph strategy, unless the gate or the call forbids it."""
    gate = settings.gate
    if not settings.searches_graph:
        trust = CONFIDENCE_WITHOUT_GRAPH if gate.uses_confidence else None
        return GraphSearch(why="" if settings.use_graph else "the graph was not used", confidence=trust)
    trust = confidence(query.text, len(query.entities), plain.similarity) if gate.uses_confidence else None
    if why := gate.skipped(trust, len(query.entities)):
        return GraphSearch(why=why, confidence=trust)
    expansion = settings.graph.expand(query, plain.ranking, settings.ranked)
    strong = _strong(query, expansion, settings)
    # The graph method shows the strategy's own scores, unless they say nothing but the order.
    shows_scores = settings.method == "graph" and expansion.strength is not None
    scores = strong.scores if shows_scores else strong.strengths
    if gate.weigh_by_confidence:
        scores = scores * np.float32(trust)
    return GraphSearch(strong, "", trust, True, (strong.keys, scores), len(expansion.keys))


def _strong(query: Query, expansion: Expansion, settings: ResolvedSettings) -> Expansion:
    """Return the passages of an expansion that are strong enough for the gate.

    The strength of the relation that leads to a passage counts, and the strategy's own where none was stated.
    """
    least = settings.gate.min_graph_score
    if least == 0 or not len(expansion.keys) or settings.graph.applies_min_graph_score:
        return expansion
    stated = stated_strengths(query, expansion.keys)
    strengths = np.where(np.isnan(stated), expansion.strengths, stated)
    return expansion.only(np.round(strengths, 6) >= round(least, 6))


# -- the ranking


def rank(
    query: Query, plain: PlainSearch, graph: GraphSearch, settings: ResolvedSettings
) -> tuple[Reranked, ScoreReranker | None]:
    """Return the ranking, and the reranker that still has to order its first passages by scores."""
    reranker = settings.reranker
    if settings.method != "hybrid":
        return Reranked(*(graph.ranking if graph.ran else plain.ranking)), None
    if reranker:
        scorer = reranker if isinstance(reranker, ScoreReranker) else None
        first = reranker if scorer is None else scorer.first
        if graph.ran:
            return first.rerank(query, plain.ranking, graph.ranking), scorer
        return Reranked(*first.rerank_plain(query, plain.ranking)), scorer
    if not settings.use_graph and not settings.fusion.weighed:
        return Reranked(*plain.ranking), None
    keys, scores = settings.fusion.fuse_query(query, plain.channels, plain.ranking, graph.ranking)
    return Reranked(*_ordered(query, np.asarray(keys, np.int64), np.asarray(scores))), None
