"""The query pipeline: embed → search → recognise → expand → rerank or fuse → hits. Explanations are computed later."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import NamedTuple
from weakref import WeakSet

import numpy as np

from graphrag_core.errors import DatabaseError, EmbedderError
from graphrag_core.filters import Filter
from graphrag_core.ingest.embedding import CheckedEmbedder, question_error
from graphrag_core.ingest.pipeline import NO_EMBEDDER
from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Engine, Keys, Matrix, Ranking, Snapshot
from graphrag_core.query.calibration import signals_of
from graphrag_core.query.coverage import Reranked
from graphrag_core.query.explanation import GRAPH_CHANNELS, Explainer
from graphrag_core.query.fusion import Lead, confidence, how_to_raise
from graphrag_core.query.paths import stated_strengths
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.settings import Plan
from graphrag_core.query.steering import did_you_mean, steer, without_documents
from graphrag_core.result import (
    CONFIDENCE_WITHOUT_GRAPH,
    Channel,
    Explanation,
    Hit,
    LazyExplanation,
    Link,
    Result,
    Step,
    Trace,
)
from graphrag_core.telemetry import Stages
from graphrag_core.text.names import with_arxiv_ids
from graphrag_core.text.navigation import is_navigation
from graphrag_core.text.words import WORD_OR_IDENTIFIER

EMBEDDER_FAILED = "the embedder failed, so this is not the full answer: ask again when it works"

_log = logging.getLogger(__name__)
_LOGGED: WeakSet[Engine] = WeakSet()  # engines whose graph was reported to have little to follow
_MAX_COPIES = 100  # listed for a hit
_MAX_UNKNOWN = 5  # keys of a filter that are named
_READ = 5  # passages read for each hit, if some hits are no text
_ATTEMPTS = 3  # at a question whose connection to a database is lost
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
    warns
        Whether a filter with an unknown key is logged: not by another method for the same question.
    """

    engine: Engine
    embedder: CheckedEmbedder | None
    text: str
    plan: Plan
    scope: Filter | None = None
    embedding: Matrix | Exception | None = None
    uncounted: list[Keys] | None = None
    explain: bool = False
    warns: bool = True

    def query_on(self, snapshot: Snapshot, vector: Matrix | None, failures: list[str]) -> Query:
        """Return the question as strategies and searches see it, on a snapshot."""
        plan = self.plan
        return Query(
            self.text,
            snapshot,
            vector,
            embedder=self.embedder,
            k=plan.k,
            method=plan.method,
            vector_weight=plan.vector_weight,
            text_weight=plan.text_weight,
            relative_scores=plan.relative_scores,
            min_graph_score=plan.gate.min_graph_score,
            uncounted=self.uncounted,
            on_embedder_error=plan.on_embedder_error,
            failures=failures,
        )


class TextSearch(NamedTuple):
    """The rankings of vector and keyword search, and their weighted mean.

    ``best`` are the best chunks (:attr:`Query.best <graphrag_core.query.query.Query.best>`), ``similarity`` that of
    the first vector hit.
    """

    channels: dict[str, Ranking]
    ranking: Ranking
    best: Keys
    similarity: float


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
    plan, engine, scope = question.plan, question.engine, question.scope
    excluded: set[str] = set()
    seeds, remarks = _NOTHING[0], tuple[str, ...]()
    stages = Stages()
    vector, problem, failures = embed(question)
    stages.end("embed")
    if plan.exclude:
        scope, excluded = without_documents(engine, scope, plan.exclude)
    with engine.snapshot(scope) as snapshot:
        if plan.exclude or plan.seeds:
            whole = partial(engine.snapshot, question.scope)
            snapshot, seeds, remarks = steer(snapshot, whole, plan.exclude, excluded, plan.seeds)  # noqa: PLW2901
        remarks = (*remarks, *unknown_key_remarks(question, snapshot))
        query = question.query_on(snapshot, vector, failures)
        found = search(query, plan)
        stages.end("search")
        entities = seeds
        if plan.use_graph and plan.method in ("hybrid", "graph"):
            others = plan.recogniser.recognise(question.text, vector, snapshot, found.ranking[0])
            entities = np.concatenate([seeds, others[~among(others, np.sort(seeds))]]) if len(seeds) else others
        query = replace(query, entities=entities, best=found.best)
        stages.end("recognise")
        graph = _expand(question, query, found)
        stages.end("expand")
        ranked = _rank(query, plan, found, graph)
        reranks = plan.reranker and plan.method == "hybrid" and graph.ran
        stages.end("rerank" if reranks else "fuse")
        explanation = LazyExplanation(Explanation)
        hits, links, best_score = _hits(query, plan, found, graph, ranked, explanation)
        named = tuple(snapshot.entities(entities))
        advice = _advice(query, plan, found, graph) if hits else _advice_on_nothing(question, query, found, best_score)
        explanation.compute = explainer = Explainer(
            engine=engine,
            scope=scope,
            exclude=plan.exclude,
            generation=snapshot.generation,
            question=question.text,
            method=plan.method,
            expansion=graph.expansion if graph.ran else None,
            hits=hits,
            links=links,
            entities=named,
            terms=ranked.reasons.terms if ranked.reasons else None,
            advice="; ".join(filter(None, (EMBEDDER_FAILED if failures else "", advice, *remarks))),
        )
        at_once = question.explain or not hits
        explanation.computed = explainer.explain(snapshot) if at_once else None
        stages.end("explain" if at_once else "hits")
        counts = {"hits": len(hits), "entities": len(named), "graph_used": graph.ran}
        stages.emit("retrieve", {"method": plan.method, "k": plan.k, "filtered": scope is not None, **counts})
        skipped = graph.skipped or (ranked.remark + _unmatched_names(query) if ranked.remark else "")
        return Result(
            question=question.text,
            method=plan.method,
            hits=tuple(hits),
            entities=named,
            confidence=graph.confidence,
            route=plan.route,
            expansion_skipped=skipped,
            gate="" if skipped else ranked.gate,
            fallback="; ".join(filter(None, (problem, _missing_names(query, plan), graph.expansion.remark))),
            trace=Trace(stages.milliseconds()),
            graph_ran=graph.ran,
            inverses=dict(plan.inverses),
            embedder_failed=bool(failures),
            generation=snapshot.generation,
            context_tokens=plan.context_tokens,
            published_format=plan.published_format,
            explanation=explanation,
        )


# -- the steps


def embed(question: Question) -> tuple[Matrix | None, str, list[str]]:
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
        failure, vector = vector, None
        problem, embedder = str(failure), question.embedder
        if embedder is not None and embedder.identity not in problem:
            problem = f"{embedder.identity} raised {type(failure).__name__} on a question: {failure}"
        if question.plan.on_embedder_error == "raise":
            raised = question_error(problem, failure)
            raise raised from raised.__cause__
        problems = failures = [f"{_NOT_EMBEDDED}: {problem}"]
    if question.text.strip() and not WORD_OR_IDENTIFIER.search(question.text):
        problems = [*problems, "the question has no words: the order of the passages is arbitrary"]
    return vector, "; ".join(problems), failures


def search(query: Query, plan: Plan) -> TextSearch:
    """Run vector and keyword search."""
    count = max(plan.candidates, plan.k)
    channels: dict[str, Ranking] = {}
    by_vector = plan.method != "keyword" and query.vector is not None
    by_vector = by_vector and (plan.vector_weight > 0 or plan.method == "vector")
    by_vector_alone = by_vector and (plan.method == "vector" or not plan.fusion.uses_keywords)
    if by_vector:
        keys, scores = query.by_vector("chunks", count)
        similar = np.round(scores, 6) >= plan.gate.min_score if plan.gate.min_score > 0 else slice(None)
        channels["vector"] = keys[similar], scores[similar]
    if not by_vector or (not by_vector_alone and plan.text_weight > 0):
        channels["keyword"] = query.snapshot.search_keywords("chunks", with_arxiv_ids(query.text), count)
    for name, (keys, scores) in channels.items():
        order = query.order("chunks", keys, scores)
        channels[name] = keys[order], scores[order]
    vectors, words = channels.get("vector", _NOTHING), channels.get("keyword", _NOTHING)
    ranking = next(iter(channels.values()))
    if len(channels) > 1 or not (plan.method in ("vector", "keyword") or by_vector_alone):
        ranking = query.blend("chunks", vectors, words)
    firsts = [keys[:2] for keys, _ in channels.values()]
    agreed = [firsts[0][np.isin(firsts[0], firsts[1])]] if len(firsts) > 1 else []
    best = np.concatenate([*(keys[:1] for keys in firsts), *agreed])
    return TextSearch(channels, ranking, best, float(vectors[1].max(initial=0)))


def _expand(question: Question, query: Query, found: TextSearch) -> GraphDecision:
    """Run the graph strategy, unless the gate or the call forbids it, and decide which ranking leads."""
    plan, gate, snapshot = question.plan, question.plan.gate, query.snapshot
    if not plan.use_graph or plan.method not in ("hybrid", "graph"):
        return GraphDecision(skipped="" if plan.use_graph else "the graph was not used")
    if question.scope is None and snapshot.linked_share < gate.least_bridged:
        _log_unlinked(question, query)
    trust = confidence(query.text, len(query.entities), found.similarity)
    if skipped := gate.skipped(trust, len(query.entities)):
        return GraphDecision(lead="plain", confidence=trust, skipped=skipped)
    expansion = strong = plan.graph.expand(query, found.ranking, max(plan.candidates, plan.k))
    if gate.min_graph_score > 0 and len(expansion.keys) and not plan.graph.heeds_min_graph_score:
        # The strength of the relation that leads to a chunk counts, and the strategy's own where none was stated.
        stated = stated_strengths(query, expansion.keys)
        strengths = np.where(np.isnan(stated), expansion.strengths, stated)
        strong = expansion.only(np.round(strengths, 6) >= round(gate.min_graph_score, 6))
    if gate.weigh_by_confidence:
        strong = replace(strong, strength=strong.strengths * np.float32(trust))
    lead: Lead = "graph"
    why = ""
    if plan.method == "hybrid" and not plan.reranker and plan.fusion.heeds_lead:
        _, is_subject = snapshot.entity_counts(query.entities)
        lead, why = gate.lead(names_subject=bool(is_subject.any()), bridged=snapshot.linked_share)
        why += _unmatched_names(query)
    if not len(expansion.keys):
        why = _why_nothing(query, expansion)
    elif not len(strong.keys):
        why = (
            f"the graph was skipped: all its passages are weaker than {gate.min_graph_score:g}: "
            "lower min_graph_score to see them"
        )
    if plan.method == "graph" and not len(strong.keys):
        remarks = (strong.remark, "the graph leads to no passage: plain search answers")
        strong = replace(strong, remark="; ".join(filter(None, remarks)))
    return GraphDecision(strong, lead, trust, why, ran=True, ranking=(strong.keys, strong.strengths))


def _rank(query: Query, plan: Plan, found: TextSearch, graph: GraphDecision) -> Reranked:
    """Return the final ranking."""
    if plan.method != "hybrid":
        return Reranked(*(graph.ranking if len(graph.expansion.keys) else found.ranking), trust=0.0)
    if plan.reranker and graph.ran:
        return plan.reranker.rerank(query, found.ranking, graph.ranking)
    if plan.reranker:
        return Reranked(*plan.reranker.rerank_plain(query, found.ranking), trust=0.0)
    if not plan.use_graph and not plan.fusion.weighed:
        return Reranked(*found.ranking, trust=0.0)
    keys, scores = plan.fusion.fuse_query(query, found.channels, found.ranking, graph.ranking, lead=graph.lead)
    keys, scores = np.asarray(keys, np.int64), np.asarray(scores)
    order = query.order("chunks", keys, scores)
    return Reranked(keys[order], scores[order], trust=0.0)


def _hits(
    query: Query,
    plan: Plan,
    found: TextSearch,
    graph: GraphDecision,
    ranked: Reranked,
    explanation: LazyExplanation,
) -> tuple[list[Hit], list[Link | None], float]:
    """Return the hits, their links to better ones, and the best score before a limit."""
    snapshot, expansion = query.snapshot, graph.expansion
    if graph.ran:  # those of plain search decide the origin of hits: one read for both
        snapshot.copies("chunks", distinct(ranked.keys[: plan.k], found.ranking[0][: plan.k]))
    (keys, scores), copies = _select(query, plan, found, graph, ranked)
    chunks = snapshot.chunks(keys)
    if not plan.published_format and any(map(is_navigation, chunks)):
        found, ranked = _text_first(query, plan, found, ranked)
        (keys, scores), copies = _select(query, plan, found, graph, ranked)
        chunks = snapshot.chunks(keys)
    links: list[Link | None] = [None] * len(keys)
    if ranked.reasons is not None:
        links = ranked.reasons.links_of(query, keys, [chunk.id for chunk in chunks])
    if plan.calibration and plan.method == "hybrid" and (plan.reranker or plan.fusion).scores_are_ranks and len(keys):
        linked = [link is not None for link in links]
        trust = ranked.trust if graph.ran else None
        scores = plan.calibration.scores(signals_of(query, ranked.keys, keys, trust=trust, linked=linked))
    best_score = float(scores.max(initial=0))
    if plan.score_threshold is not None:
        keys = keys[: int((np.round(scores, 6) >= round(plan.score_threshold, 6)).sum())]

    rankings = found.channels
    if graph.ran:
        by_graph = {"graph": (expansion.keys, expansion.scores), "links": ranked.linked}
        rankings = by_graph if plan.method == "graph" and len(expansion.keys) else {**rankings, **by_graph}
    channels = _channels(keys, rankings)
    by_graph_too = {
        key for key, names in zip(keys.tolist(), channels, strict=True) if not GRAPH_CHANNELS.isdisjoint(names)
    }
    # What plain search alone would have returned; without copies it gets further down.
    plain = set(found.ranking[0][: plan.k].tolist()) if plan.method != "graph" else set()
    if plan.method != "graph" and not by_graph_too <= plain:
        plain = set(query.without_copies(found.ranking, plan.k)[0][0].tolist())
    of_graph = (by_graph_too - plain).union(expansion.queries)
    via = {key: expansion.via[key] for key in keys.tolist() if key in of_graph and key in expansion.via}
    entities = np.array(sorted({entity for entity, _ in via.values()}), np.int64)
    steps = {
        entity: Step("entity", one.id, one.name)
        for entity, one in zip(entities.tolist(), snapshot.entities(entities) if via else (), strict=True)
    }
    hits = []
    for place, key in enumerate(keys.tolist()):
        others = snapshot.chunks(copies[place][:_MAX_COPIES]) if len(copies[place]) else ()
        hits.append(
            Hit(
                chunks[place],
                float(scores[place]),
                channels[place],
                "graph" if key in of_graph else "plain",
                expansion.queries.get(key, ""),
                tuple(copy.id for copy in others),
                (steps[via[key][0]], via[key][1]) if key in via else None,
                explanation=explanation,
            )
        )
    return hits, links[: len(hits)], best_score


def _select(
    query: Query, plan: Plan, found: TextSearch, graph: GraphDecision, ranked: Reranked
) -> tuple[Ranking, list[Keys]]:
    """Return the chunks of the result, and the copies of each."""
    ranking = ranked.keys, ranked.scores
    if plan.method == "hybrid":
        return plan.fusion.select(query, found.ranking, graph.ranking, ranking)
    return query.without_copies(ranking, plan.k)


def _text_first(query: Query, plan: Plan, found: TextSearch, ranked: Reranked) -> tuple[TextSearch, Reranked]:
    """Move the passages that are nothing but navigation, contents or an index behind the others of both rankings.

    Only as many are read as may take the places of the hits.
    """
    read = distinct(ranked.keys[: _READ * plan.k], found.ranking[0][: _READ * plan.k])
    behind = read[[is_navigation(chunk) for chunk in query.snapshot.chunks(read)]]
    keys, scores = _moved_behind((ranked.keys, ranked.scores), behind)
    if plan.method == "hybrid" and (plan.reranker or plan.fusion).scores_are_ranks:
        scores = ranked.scores
    return found._replace(ranking=_moved_behind(found.ranking, behind)), replace(ranked, keys=keys, scores=scores)


def _moved_behind(ranking: Ranking, behind: Keys) -> Ranking:
    """Return a ranking with some chunks at its end, with the lowest score."""
    keys, scores = ranking
    last = np.isin(keys, behind)
    lowest = np.full(last.sum(), scores[-1:].min(initial=np.inf), scores.dtype)
    return np.concatenate([keys[~last], keys[last]]), np.concatenate([scores[~last], lowest])


def _channels(keys: Keys, rankings: Mapping[str, Ranking]) -> list[dict[str, Channel]]:
    """Return how each of some chunks was ranked."""
    found: list[dict[str, tuple[int, float]]] = [{} for _ in keys]
    for name, (places, scores) in rankings.items():
        hits, ranks = (keys[:, None] == places).nonzero()
        for hit, rank, score in zip(hits.tolist(), ranks.tolist(), scores[ranks].tolist(), strict=True):
            found[hit][name] = rank + 1, score
    totals = (sum(1 / rank for rank, _ in own.values()) for own in found)
    return [
        {name: Channel(rank, score, 1 / rank / total) for name, (rank, score) in own.items()}
        for own, total in zip(found, totals, strict=True)
    ]


# -- remarks


def _log_unlinked(question: Question, query: Query) -> None:
    """Log once for each engine that its passages give the graph little to follow."""
    if question.engine not in _LOGGED and query.snapshot.has("chunks"):
        _LOGGED.add(question.engine)
        _log.info(
            "the passages of this index hardly mention each other's subjects (linked share %.2f, below %.2f): "
            "the graph has little to follow; titles, headings and links give it more",
            query.snapshot.linked_share,
            question.plan.gate.least_bridged,
        )


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


def _missing_names(query: Query, plan: Plan) -> str:
    """Return a remark if the settings need vectors of names and the index has none."""
    has = query.snapshot.has
    if not plan.needs_name_vectors or not has("entities") or has("entities", vectors=True):
        return ""
    return "entities are not found by similarity, as the index has no vectors of names: build it with embed_names=True"


def _unmatched_names(query: Query) -> str:
    """Return a hint if names could not be matched by similarity."""
    has = query.snapshot.has
    if len(query.entities) or query.vector is None or not has("entities") or has("entities", vectors=True):
        return ""
    return " (names are not embedded and could not be matched by similarity: embed_names=True)"


def unknown_key_remarks(question: Question, snapshot: Snapshot) -> list[str]:
    """Return what the caller can do about keys of the filter that no document has; log it for the operator.

    Only the log suggests other keys: they may be those of another tenant.
    """
    keys = snapshot.unknown_keys[:_MAX_UNKNOWN]
    if not keys:
        return []
    if question.warns:
        known = snapshot.metadata_keys()
        near = [did_you_mean(get_close_matches(key, known)) for key in keys]
        told = ", ".join(f"{key!r}{f' ({hint})' if hint else ''}" for key, hint in zip(keys, near, strict=True))
        _log.warning("no document has the metadata key %s: comparisons with it match nothing", told)
    names = ", ".join(map(repr, keys))
    how = "check its spelling and case, and write nested keys with dots ('author.name')"
    return [f"no document has the metadata key {names}: {how}"]


def _advice(query: Query, plan: Plan, found: TextSearch, graph: GraphDecision) -> str:
    """Return what the caller can do about a low confidence in the graph; empty if it is not low or does not matter."""
    least, trust = plan.gate.min_confidence, graph.confidence
    if not plan.use_graph or plan.method not in ("hybrid", "graph") or trust >= max(least, CONFIDENCE_WITHOUT_GRAPH):
        return ""
    actions = how_to_raise(query.text, len(query.entities), found.similarity)
    return f"the confidence is low, {trust:.2f}: {actions}{', or lower min_confidence' if trust < least else ''}"


def _advice_on_nothing(question: Question, query: Query, found: TextSearch, best_score: float) -> str:
    """Return what the caller can do about an empty result."""
    plan, least = question.plan, question.plan.gate.min_score
    if not query.snapshot.has("chunks"):
        is_told = query.snapshot.unknown_keys  # by a remark
        no_match = "" if is_told else "no document matches the filter: check its keys and values"
        return no_match if question.scope is not None else "the index is empty: add documents"
    if plan.score_threshold is not None and best_score > 0:
        return (
            f"no passage has the score {plan.score_threshold:.2f} that score_threshold asks for, "
            f"the best has {best_score:.2f}: lower score_threshold, or ask in other words"
        )
    has_found = any(len(keys) for keys, _ in found.channels.values())
    if has_found and plan.reranker:
        return "the reranker dropped every passage: use another one, or reranker=False"
    nearest = float(query.by_vector("chunks", 1)[1].max(initial=0)) if "vector" in found.channels else least
    if nearest < least:
        return (
            f"no passage has the similarity {least:.2f} that min_score asks for, "
            f"the nearest has {nearest:.2f}: lower min_score, or ask in other words"
        )
    if has_found:
        return "no ranking that the fusion weighs found a passage: give vector or keyword search a weight"
    return "no passage has a word of the question: ask in other words, or use the hybrid method"
