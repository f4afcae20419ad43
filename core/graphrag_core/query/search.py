"""The way of a question through an index: search, recognise, expand, rank, on one snapshot.

:func:`search` is the whole way; each of its steps is a function below it. What it returns is read no more from the
index: a reranker that calls a model scores passages that are values, while no snapshot is open.
"""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

import numpy as np

from graphrag_core.errors import did_you_mean
from graphrag_core.filters import Filter
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.embedding import DEFAULT_VECTOR_WEIGHT, CheckedEmbedder
from graphrag_core.ingest.remembered import visible
from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Ranking
from graphrag_core.query.conversation import with_conversation
from graphrag_core.query.evidence import NOTHING, Evidence, GraphSearch, PlainSearch
from graphrag_core.query.fusion import confidence
from graphrag_core.query.plan import Embedded, Plan
from graphrag_core.query.query import Query
from graphrag_core.query.related_entities import stated_strengths
from graphrag_core.query.rerank import ScoreReranker
from graphrag_core.query.reranker import Reranked
from graphrag_core.query.settings import ResolvedSettings
from graphrag_core.result import CONFIDENCE_WITHOUT_GRAPH
from graphrag_core.telemetry import Stages
from graphrag_core.text.names import with_arxiv_ids
from graphrag_core.text.words import WORD_OR_IDENTIFIER

if TYPE_CHECKING:
    from graphrag_core.engine.snapshot import Snapshot

_MAX_UNKNOWN = 5  # keys of a filter that are named
_NO_NAME_VECTORS = (
    "entities are not found by similarity, as the index has no vectors of names: build it with embed_names=True"
)
_NO_WORDS = "the question has no words: the order of the passages is arbitrary"


def search(index: KnowledgeIndex, plan: Plan, vector: Embedded, stages: Stages) -> Evidence:
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
        ranked = rank(query, plain, graph, settings)
        stages.end("rerank" if settings.is_reranked and graph.ran else "fuse")
        return read(query, plan, scope, vector, plain, graph, ranked)


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
    keys, scores = _search(query, settings, settings.candidates).ranking
    every = _search(query, settings, settings.k)
    is_further = ~among(every.ranking[0], np.sort(keys))
    further, below = (column[is_further] for column in every.ranking)
    below = np.minimum(below, scores.min(initial=np.inf))
    return every._replace(ranking=(np.append(keys, further), np.append(scores, below)))


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
        channels["vector"] = query.in_order(keys, scores)
    if not by_vector or (not by_vector_alone and weight < 1):
        channels["keyword"] = query.in_order(*query.snapshot.keywords(with_arxiv_ids(query.text), count))
    vectors = channels.get("vector", NOTHING)
    ranking = next(iter(channels.values()))
    if method == "hybrid" and not by_vector and not settings.fusion.uses_keywords:
        ranking = ranking[0], ranking[1] / (1 + ranking[1])  # in place of a cosine
    elif len(channels) > 1 or not (method in ("vector", "keyword") or by_vector_alone):
        ranking = query.blend(vectors, channels.get("keyword", NOTHING))
    return PlainSearch(channels, ranking, float((vectors if by_vector else ranking)[1].max(initial=0)), nearest)


# -- the graph


def expand(query: Query, plain: PlainSearch, settings: ResolvedSettings) -> GraphSearch:
    """Run the graph strategy, unless the gate or the call forbids it.

    Passages that are too weak for the gate are left out. The strength of the relation that leads to a passage counts,
    and the strategy's own where none was stated.
    """
    gate = settings.gate
    if not settings.searches_graph:
        trust = CONFIDENCE_WITHOUT_GRAPH if gate.uses_confidence else None
        return GraphSearch(why="" if settings.use_graph else "the graph was not used", confidence=trust)
    trust = confidence(query.text, len(query.entities), plain.similarity) if gate.uses_confidence else None
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
    """Return the ranking. A :class:`ScoreReranker` scores its first passages later, when the snapshot is closed."""
    reranker = settings.reranker
    if settings.method != "hybrid":
        return Reranked(*(graph.ranking if graph.ran else plain.ranking))
    if reranker:
        first = reranker.first if isinstance(reranker, ScoreReranker) else reranker
        if graph.ran:
            return first.rerank(query, plain.ranking, graph.ranking)
        return Reranked(*first.rerank_plain(query, plain.ranking))
    if not settings.use_graph and not settings.fusion.weighed:
        return Reranked(*plain.ranking)
    keys, scores = settings.fusion.fuse_query(query, plain.channels, plain.ranking, graph.ranking)
    return Reranked(*query.in_order(np.asarray(keys, np.int64), np.asarray(scores)))


# -- what may be shown


def read(
    query: Query, plan: Plan, scope: Filter | None, vector: Embedded, plain: PlainSearch, graph: GraphSearch,
    ranked: Reranked,
) -> Evidence:  # fmt: skip
    """Read the passages and entities that may be shown, and what the remarks need, while the snapshot is open."""
    snapshot, settings, candidates = query.snapshot, plan.settings, ranked.candidates
    kept = None
    if settings.method == "hybrid":
        kept = settings.fusion.kept(query, plain.ranking, graph.ranking if graph.ran else None)
    has_entities = snapshot.has_entities
    lacks_names = settings.recogniser.needs_name_vectors and has_entities and not snapshot.has_name_vectors
    has_no_words = bool(plan.text.strip()) and not WORD_OR_IDENTIFIER.search(plan.text)
    seen = Evidence(
        plan=plan, plain=plain, graph=graph, ranked=ranked, kept=kept, passages={}, entities={}, named=query.entities,
        carried=query.carried, terms=None if candidates is None else candidates.terms,
        scope=scope, generation=snapshot.generation, numbering=snapshot.numbering,
        unknown_keys=snapshot.unknown_keys[:_MAX_UNKNOWN], warning=_told(snapshot),
        has_vector=query.vector is not None, has_chunks=snapshot.chunk_count > 0, has_entities=has_entities,
        has_vectors=query.vector is not None or snapshot.has_vectors,
        missing=(
            plan.instead, vector.problem, _NO_WORDS if has_no_words else "", _NO_NAME_VECTORS if lacks_names else "",
            graph.expansion.remark, *query.remarks,
        ),
        failed=bool(query.failures),
    )  # fmt: skip
    shown, _ = seen.shown()
    if settings.scorer is not None:
        shown = distinct(shown, ranked.keys[: ScoreReranker.depth(settings.k)])
    linking = shown[:0] if candidates is None else candidates.linking(shown)
    via = [graph.expansion.via[key][0] for key in shown.tolist() if key in graph.expansion.via]
    keys = distinct(query.entities, linking, np.array(via, np.int64))
    return replace(
        seen,
        passages=dict(zip(shown.tolist(), snapshot.chunks(shown), strict=True)),
        entities=dict(zip(keys.tolist(), snapshot.entities(keys), strict=True)),
    )


def _told(snapshot: Snapshot) -> str:
    """Return for the operator which keys of the filter no document has, and similar ones; empty if all are known.

    Only the log suggests other keys: they may belong to another tenant.
    """
    keys = snapshot.unknown_keys[:_MAX_UNKNOWN]
    if not keys:
        return ""
    known = snapshot.records.metadata_keys()
    near = [did_you_mean(get_close_matches(key, known)) for key in keys]
    told = ", ".join(f"{key!r}{f' ({hint})' if hint else ''}" for key, hint in zip(keys, near, strict=True))
    return f"no document has the metadata key {told}: comparisons with it match nothing"
