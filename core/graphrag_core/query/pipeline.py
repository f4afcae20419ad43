"""The query pipeline: embed → search → recognise → expand → rank → hits. Explanations are computed later.

:func:`search_steps` is the whole way of a question on one page; each step is a function below it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

import numpy as np

from graphrag_core.errors import DatabaseError, did_you_mean
from graphrag_core.filters import Filter
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest.embedding import question_error
from graphrag_core.ingest.pipeline import NO_EMBEDDER
from graphrag_core.ingest.remembered import visible
from graphrag_core.key_sets import among
from graphrag_core.model import Chunk, Entity
from graphrag_core.ports import Keys, Matrix, Ranking, Scores, Snapshot
from graphrag_core.query.conversation import with_conversation
from graphrag_core.query.explanation import Explainer
from graphrag_core.query.fusion import Lead, confidence, first, how_to_raise
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.related_entities import stated_strengths
from graphrag_core.query.requests import Request, Steps
from graphrag_core.query.rerank import ScoreReranker
from graphrag_core.query.reranker import Reranked
from graphrag_core.query.settings import Plan
from graphrag_core.result import (
    CONFIDENCE_WITHOUT_GRAPH,
    SIGNALS,
    Channel,
    Explanation,
    Hit,
    LazyExplanation,
    Reason,
    Result,
    Step,
    Trace,
)
from graphrag_core.telemetry import Stages
from graphrag_core.text.names import with_arxiv_ids
from graphrag_core.text.words import WORD_OR_IDENTIFIER

if TYPE_CHECKING:
    from graphrag_core.engine.engine import IndexEngine as Engine

EMBEDDER_FAILED = "the embedder failed, so this is not the full answer: ask again when it works"

_log = logging.getLogger(__name__)
_LOGGED: WeakSet[Engine] = WeakSet()  # engines whose graph was reported to have little to follow
_MAX_UNKNOWN = 5  # keys of a filter that are named
_MAX_NAMES = 3  # that are said to have decided
_LITTLE = 0.01  # of a question
_ATTEMPTS = 3  # at a question whose connection to a database is lost
_NOT_EMBEDDED = "the question could not be embedded, keyword search only"
_NOTHING: Ranking = (np.empty(0, np.int64), np.empty(0, np.float32))
_NO_EXPANSION = Expansion()


class Embedded(NamedTuple):
    """The vector of a question; or None, what the result says about that, and how the embedder failed if it did."""

    vector: Matrix | None
    problem: str
    failures: list[str]


class Opened(NamedTuple):
    """A snapshot for a question, and its scope. ``remarks`` say which keys of the filter match nothing."""

    snapshot: Snapshot
    scope: Filter | None
    remarks: tuple[str, ...]


class TextSearch(NamedTuple):
    """The rankings of vector and keyword search, and their weighted mean.

    ``similarity`` is the score of the first hit: its cosine, or 1 for the best of keyword search in place of vectors.
    """

    channels: dict[str, Ranking]
    ranking: Ranking
    similarity: float


@dataclass(frozen=True)
class GraphDecision:
    """What the graph found, and whether it leads.

    ``lead`` is the gate's decision, ``why`` the reason if the graph does not lead, ``skipped`` a sentence if it did not
    run or found nothing, ``ranking`` the chunks of the expansion with strengths from 0 to 1, or with the strategy's own
    scores for the graph method.
    """

    expansion: Expansion = _NO_EXPANSION
    lead: Lead = "graph"
    why: str = ""
    confidence: float | None = None
    skipped: str = ""
    ran: bool = False
    ranking: Ranking = _NOTHING


class Found(NamedTuple):
    """What the stages of a question found. ``scorer`` still has to order the ranking, unless it is None."""

    query: Query
    text: TextSearch
    graph: GraphDecision
    ranked: Reranked
    scorer: ScoreReranker | None


def search_steps(index: KnowledgeIndex, plan: Plan, at: float, *, warns: bool = True) -> Steps:
    """Run the query pipeline.

    Scores of passages are requested while no snapshot is open. Keys are valid in one snapshot: if the next one has
    others, because the index has changed meanwhile or the connection to a database was lost, the passages are ranked
    again. What is embedded besides the question, such as expansion queries, is embedded on the open snapshot.

    Parameters
    ----------
    index, plan
        What is asked of which index.
    at
        The time at which facts must be valid.
    warns
        Whether a filter with an unknown key is logged: not by another method for the same question.
    """
    start = time.perf_counter()
    embedded = yield from embed(index, plan)
    stages = Stages(start)
    stages.end("embed")
    found: Found | None = None
    scores: dict[Any, list[float | None]] = {}
    attempts = _ATTEMPTS
    while True:
        try:
            with open_snapshot(index.engine, plan, at, warns=warns) as opened:
                if found is None or not _has_same_keys(found.query.snapshot, opened.snapshot):
                    if plan.uncounted is not None:
                        plan.uncounted.clear()
                    found = _find(index, plan, embedded, opened, stages)
                found, request = _scored(found, opened.snapshot, scores)
                if request is None:
                    return _result(index.engine, plan, found, opened, embedded, stages)
        except DatabaseError as error:
            attempts -= 1
            if not error.lost or attempts == 0:
                raise
            _log.info("the question is asked again: %s", error)
            found = None
            continue
        scores[request.key] = yield request
        stages.end("score")
        warns = False


def _has_same_keys(snapshot: Snapshot, other: Snapshot) -> bool:
    return snapshot.generation == other.generation and snapshot.numbering is other.numbering


def _find(index: KnowledgeIndex, plan: Plan, embedded: Embedded, opened: Opened, stages: Stages) -> Found:
    """Search, recognise entities, expand and rank, on one snapshot."""
    settings, snapshot = plan.settings, opened.snapshot
    query = Query(
        plan.text,
        snapshot,
        embedded.vector,
        embedder=index.embedding,
        settings=settings,
        uncounted=plan.uncounted,
        failures=embedded.failures,
    )
    text = search(query)
    stages.end("search")
    if settings.searches_graph:
        query = replace(query, entities=settings.recogniser.recognise(plan.text, query.vector, snapshot))
    if plan.turns:
        query = with_conversation(query, plan.turns)
    stages.end("recognise")
    graph = _expand(query, text, index.engine if opened.scope is None else None)
    stages.end("expand")
    ranked, scorer = _rank(query, text, graph)
    stages.end("rerank" if settings.reranker and settings.method == "hybrid" and graph.ran else "fuse")
    return Found(query, text, graph, ranked, scorer)


def _scored(found: Found, snapshot: Snapshot, scores: Mapping[Any, list[float | None]]) -> tuple[Found, Request | None]:
    """Return the ranking in the order of the scores if they are known, else the request for them."""
    if found.query.snapshot is not snapshot:
        found = found._replace(query=replace(found.query, snapshot=snapshot))
    if found.scorer is None:
        return found, None
    shown, request = found.scorer.candidates(found.query, found.ranked)
    if request.key not in scores:
        return found, request
    return found._replace(ranked=found.scorer.order(found.ranked, shown, scores[request.key]), scorer=None), None


def _result(engine: Engine, plan: Plan, found: Found, opened: Opened, embedded: Embedded, stages: Stages) -> Result:
    """Return the hits with what explains them."""
    query, settings, graph, ranked = found.query, plan.settings, found.graph, found.ranked
    explanation = LazyExplanation(Explanation)
    hits, reasons, best_score = _hits(found, explanation)
    named = tuple(query.snapshot.entities(query.entities))
    advice = _advice(found) if hits else _advice_on_nothing(found, best_score, is_restricted=plan.scope is not None)
    notes = (EMBEDDER_FAILED if query.failures else "", advice, *opened.remarks)
    missing = (embedded.problem, _missing_names(query), graph.expansion.remark, *query.remarks)
    explanation.compute = explainer = Explainer(
        engine=engine,
        scope=opened.scope,
        generation=query.snapshot.generation,
        numbering=query.snapshot.numbering,
        question=plan.text,
        method=settings.method,
        expansion=graph.expansion if graph.ran else None,
        hits=hits,
        reasons=reasons,
        entities=named,
        terms=ranked.evidence.terms if ranked.evidence else None,
        advice="; ".join(filter(None, notes)),
    )
    at_once = plan.explain or not hits
    explanation.computed = explainer.explain(query.snapshot) if at_once else None
    stages.end("explain" if at_once else "hits")
    counts = {"hits": len(hits), "entities": len(named), "graph_used": graph.ran}
    asked = {"method": settings.method, "k": settings.k, "filtered": opened.scope is not None}
    stages.emit("retrieve", {**asked, **counts})
    return Result(
        question=plan.text,
        method=settings.method,
        hits=tuple(hits),
        entities=named,
        confidence=graph.confidence,
        route=plan.route,
        decided=_conversation(query) + (_decided(found, named, reasons) if hits else "no passage was found"),
        expansion_skipped=graph.skipped,
        gate=_numbers(ranked),
        fallback="; ".join(filter(None, missing)),
        trace=Trace(stages.milliseconds()),
        graph_ran=graph.ran,
        scores_are_probabilities=settings.is_reranked and getattr(settings.reranker, "has_probabilities", False),
        embedder_failed=bool(query.failures),
        generation=query.snapshot.generation,
        context_format=settings.context,
        explanation=explanation,
    )


# -- the steps


def embed(index: KnowledgeIndex, plan: Plan) -> Generator[Request, Any, Embedded]:
    """Request the question's vector, unless the method or the index needs none."""
    vector, problems, failures = None, list[str](), list[str]()
    if plan.settings.method != "keyword":
        if plan.embed is not None:
            try:
                vector = yield plan.embed
            except Exception as error:  # noqa: BLE001 - raised below, unless keyword search answers
                failures = [f"{_NOT_EMBEDDED}: {_failure(index, plan, error)}"]
                problems = [*failures]
        elif index.engine.settings().get("embedder", NO_EMBEDDER) != NO_EMBEDDER:
            problems = [f"{_NOT_EMBEDDED}: the index was opened without its embedder"]
        elif plan.settings.method == "vector":
            problems = ["the index has no vectors: keyword search answers"]
    if plan.text.strip() and not WORD_OR_IDENTIFIER.search(plan.text):
        problems.append("the question has no words: the order of the passages is arbitrary")
    return Embedded(vector, "; ".join(problems), failures)


def _failure(index: KnowledgeIndex, plan: Plan, error: Exception) -> str:
    """Return how the embedder failed, or raise it if the settings say so."""
    problem, embedder = str(error), index.embedding
    if embedder is not None and embedder.identity not in problem:
        problem = f"{embedder.identity} raised {type(error).__name__} on a question: {error}"
    if plan.settings.on_embedder_error == "raise":
        raised = question_error(problem, error)
        raise raised from raised.__cause__
    return problem


@contextmanager
def open_snapshot(engine: Engine, plan: Plan, at: float, *, warns: bool) -> Iterator[Opened]:
    """Open a snapshot without facts that are not valid at a time."""
    scope = visible(engine, plan.scope, at)
    with engine.snapshot(scope) as snapshot:
        keys = snapshot.unknown_keys[:_MAX_UNKNOWN]
        yield Opened(snapshot, scope, (_unknown_keys(snapshot, keys, warns=warns),) if keys else ())


def search(query: Query) -> TextSearch:
    """Run vector and keyword search.

    A reranker gets the same candidates whatever ``k`` is, so that a larger ``k`` adds hits and leaves the first ones as
    they are. Further ones are appended by their plain score.
    """
    settings = query.settings
    if not settings.is_reranked or settings.k <= settings.candidates:
        return _search(query, settings.ranked)
    (keys, scores), every = _search(query, settings.candidates).ranking, _search(query, settings.k)
    is_further = ~among(every.ranking[0], np.sort(keys))
    further, below = (column[is_further] for column in every.ranking)
    below = np.minimum(below, scores.min(initial=np.inf))
    return every._replace(ranking=(np.append(keys, further), np.append(scores, below)))


def _search(query: Query, count: int) -> TextSearch:
    settings = query.settings
    method, weight = settings.method, query.vector_weight
    by_vector = query.vector is not None and (method == "vector" or (method != "keyword" and weight > 0))
    by_vector_alone = by_vector and (method == "vector" or not settings.fusion.uses_keywords)
    channels: dict[str, Ranking] = {}
    if by_vector:
        keys, scores = query.by_vector("chunks", count)
        if (least := settings.gate.min_score) > 0:
            similar = np.round(scores, 6) >= least
            keys, scores = keys[similar], scores[similar]
        channels["vector"] = keys, scores
    if not by_vector or (not by_vector_alone and weight < 1):
        channels["keyword"] = query.snapshot.search_keywords("chunks", with_arxiv_ids(query.text), count)
    for name, (keys, scores) in channels.items():
        order = query.order("chunks", keys, scores)
        channels[name] = keys[order], scores[order]
    vectors = channels.get("vector", _NOTHING)
    ranking = next(iter(channels.values()))
    if method == "hybrid" and not by_vector and not settings.fusion.uses_keywords:
        ranking = ranking[0], ranking[1] / (1 + ranking[1])  # in place of a cosine
    elif len(channels) > 1 or not (method in ("vector", "keyword") or by_vector_alone):
        ranking = query.blend("chunks", vectors, channels.get("keyword", _NOTHING))
    return TextSearch(channels, ranking, float((vectors if by_vector else ranking)[1].max(initial=0)))


def _expand(query: Query, text: TextSearch, logged: Engine | None) -> GraphDecision:
    """Run the graph strategy, unless the gate or the call forbids it, and decide which ranking leads.

    ``logged`` is the engine whose graph is reported if it has little to follow.
    """
    settings, gate, snapshot = query.settings, query.settings.gate, query.snapshot
    if not settings.searches_graph:
        why = "" if settings.use_graph else "the graph was not used"
        trust = CONFIDENCE_WITHOUT_GRAPH if gate.uses_confidence else None
        return GraphDecision(why=why, confidence=trust, skipped=why)
    if logged is not None and snapshot.linked_share < gate.least_bridged:
        _log_unlinked(logged, query)
    trust = confidence(query.text, len(query.entities), text.similarity) if gate.uses_confidence else None
    if why := gate.skipped(trust, len(query.entities)):
        return GraphDecision(lead="plain", why=why, confidence=trust, skipped=f"the graph was skipped: {why}")
    expansion = settings.graph.expand(query, text.ranking, settings.ranked)
    strong = _strong(query, expansion)
    # The graph method shows the strategy's own scores, unless they say nothing but the order.
    shows_scores = settings.method == "graph" and expansion.strength is not None
    scores = strong.scores if shows_scores else strong.strengths
    if gate.weigh_by_confidence:
        scores = scores * np.float32(trust)
    lead: Lead = "graph"
    skipped = ""
    if settings.method == "hybrid" and not settings.reranker and settings.fusion.uses_lead:
        is_subject = snapshot.are_subjects(query.entities)
        lead, why = gate.lead(names_subject=bool(is_subject.any()), bridged=snapshot.linked_share)
    if not len(strong.keys):
        why = _why_nothing(query, expansion)
        verb = "was skipped" if len(expansion.keys) else "adds nothing"
        skipped = f"the graph {verb}: {why}"
    return GraphDecision(strong, lead, why, trust, skipped, ran=True, ranking=(strong.keys, scores))


def _strong(query: Query, expansion: Expansion) -> Expansion:
    """Return the chunks of an expansion that are strong enough for the gate.

    The strength of the relation that leads to a chunk counts, and the strategy's own where none was stated.
    """
    least = query.settings.gate.min_graph_score
    if least == 0 or not len(expansion.keys) or query.settings.graph.applies_min_graph_score:
        return expansion
    stated = stated_strengths(query, expansion.keys)
    strengths = np.where(np.isnan(stated), expansion.strengths, stated)
    return expansion.only(np.round(strengths, 6) >= round(least, 6))


def _rank(query: Query, text: TextSearch, graph: GraphDecision) -> tuple[Reranked, ScoreReranker | None]:
    """Return the ranking, and the reranker that still has to order its first passages by scores."""
    settings, plain = query.settings, Reranked(*text.ranking)
    if settings.method != "hybrid":
        return (Reranked(*graph.ranking) if graph.ran else plain), None
    if reranker := settings.reranker:
        scorer = reranker if isinstance(reranker, ScoreReranker) else None
        first = reranker if scorer is None else scorer.first
        if graph.ran:
            return first.rerank(query, text.ranking, graph.ranking), scorer
        return Reranked(*first.rerank_plain(query, text.ranking)), scorer
    if not settings.use_graph and not settings.fusion.weighed:
        return plain, None
    keys, scores = settings.fusion.fuse_query(query, text.channels, text.ranking, graph.ranking, lead=graph.lead)
    keys, scores = np.asarray(keys, np.int64), np.asarray(scores)
    order = query.order("chunks", keys, scores)
    return Reranked(keys[order], scores[order]), None


# -- hits


class _Shown(NamedTuple):
    """The chunks of the result and their scores."""

    keys: Keys
    scores: Scores
    chunks: list[Chunk]


def _hits(found: Found, explanation: LazyExplanation) -> tuple[list[Hit], list[Reason], float | None]:
    """Return the hits, their links and what moved them, and the best score before a limit, None without passages."""
    query = found.query
    settings = query.settings
    shown = _select(found)
    reasons = [Reason()] * len(shown.keys)
    if (evidence := found.ranked.evidence) is not None:
        links = evidence.links_of(query, shown.keys, [chunk.id for chunk in shown.chunks])
        moved = evidence.moved(shown.keys)
        reasons = [Reason(link=link, moved=names) for link, names in zip(links, moved, strict=True)]
    scores = shown.scores
    count = len(scores)
    if settings.score_threshold is not None:
        count = int((np.round(scores, 6) >= round(settings.score_threshold, 6)).sum())
    keys = shown.keys[:count]
    channels = _channels(keys, _rankings(found))
    by_graph = _found_by_graph(found, keys, channels)
    via = _entities_between(found, by_graph)
    hits = [
        Hit(
            shown.chunks[place],
            float(scores[place]),
            channels[place],
            "graph" if key in by_graph else "plain",
            found.graph.expansion.queries.get(key, ""),
            via.get(key),
            explanation=explanation,
        )
        for place, key in enumerate(keys.tolist())
    ]
    return hits, reasons[:count], float(scores.max()) if len(scores) else None


def _select(found: Found) -> _Shown:
    """Return the first chunks of the ranking."""
    query, ranking = found.query, (found.ranked.keys, found.ranked.scores)
    if query.settings.method == "hybrid":
        graph = found.graph.ranking if found.graph.ran else None
        keys, scores = query.settings.fusion.select(query, found.text.ranking, graph, ranking)
    else:
        keys, scores = first(ranking, query.settings.k)
    return _Shown(keys, scores, query.snapshot.chunks(keys))


def _rankings(found: Found) -> Mapping[str, Ranking]:
    """Return the rankings that are listed for each hit."""
    expansion, channels = found.graph.expansion, found.text.channels
    if not found.graph.ran:
        return channels
    by_graph = {"graph": (expansion.keys, expansion.scores)}
    return by_graph if found.query.settings.method == "graph" else {**channels, **by_graph}


def _channels(keys: Keys, rankings: Mapping[str, Ranking]) -> list[dict[str, Channel]]:
    """Return how each of some chunks was ranked."""
    ranked: list[dict[str, Channel]] = [{} for _ in keys]
    for name, (places, scores) in rankings.items():
        hits, ranks = (keys[:, None] == places).nonzero()
        for hit, rank, score in zip(hits.tolist(), ranks.tolist(), scores[ranks].tolist(), strict=True):
            ranked[hit][name] = Channel(rank + 1, score)
    return ranked


def _found_by_graph(found: Found, keys: Keys, channels: list[dict[str, Channel]]) -> set[int]:
    """Return the chunks that the graph found and that plain search alone would not have returned."""
    settings, ranking = found.query.settings, found.text.ranking
    by_graph = {key for key, names in zip(keys.tolist(), channels, strict=True) if "graph" in names}
    if settings.method != "graph":
        by_graph -= set(ranking[0][: settings.k].tolist())
    return by_graph.union(found.graph.expansion.queries)


def _entities_between(found: Found, by_graph: set[int]) -> dict[int, tuple[Step, int]]:
    """Return by chunk the entity through which the strategy found it and its hop, where the strategy tells."""
    via = {key: place for key, place in found.graph.expansion.via.items() if key in by_graph}
    if not via:
        return {}
    keys = np.array(sorted({entity for entity, _ in via.values()}), np.int64)
    entities = dict(zip(keys.tolist(), found.query.snapshot.entities(keys), strict=True))
    steps = {key: Step("entity", entity.id, entity.name) for key, entity in entities.items()}
    return {key: (steps[entity], hop) for key, (entity, hop) in via.items()}


# -- remarks


def _conversation(query: Query) -> str:
    """Return what a follow-up question refers to; empty for a question that stands alone."""
    if query.carried.names:
        return f"the conversation names {_listed(query.carried.names)}; "
    return "the question refers to passages that were shown; " if len(query.carried.passages) else ""


def _decided(found: Found, entities: Sequence[Entity], reasons: Sequence[Reason]) -> str:
    """Return what decided the order of the hits, in one sentence.

    ``entities`` are those of the query, ``reasons`` those of the hits.
    """
    settings, ranked, by_graph = found.query.settings, found.ranked, len(found.graph.ranking[0]) > 0
    names = partial(_names, entities[: len(entities) - len(found.query.carried.entities)])
    all_names = names(range(len(entities)))
    if settings.method == "graph" and by_graph:
        return f"the graph alone{_because(all_names)}"
    if settings.method == "hybrid" and settings.reranker:
        is_unknown = found.graph.ran and ranked.named is None  # a reranker of the caller's own
        if is_unknown or isinstance(settings.reranker, ScoreReranker):
            sources = [*(f"{name} search" for name in found.text.channels), *(["the graph"] if by_graph else [])]
            return f"the reranker ordered what {_listed(sources)} found"
    moved = [name for name in SIGNALS if any(name in reason.moved for reason in reasons)]
    if not by_graph and not moved:
        return _decided_alone(found)
    if ranked.named is None:
        return _decided_by_fusion(found, names, all_names)
    if ranked.trust >= 0.5 and by_graph:
        others = [SIGNALS[name] for name in moved if name != "graph"]
        also = f"; {_listed(others)} moved passages, too" if others else ""
        return f"the graph led{_because(names(ranked.named))}{also}"
    why = found.graph.why or _why_not_graph(names(ranked.named), ranked)
    how = f"led, {_listed([SIGNALS[name] for name in moved])} moved passages" if moved else "decided alone"
    return f"{_searches(found)} {how}: {why}"


def _why_not_graph(names: str, ranked: Reranked) -> str:
    """Return why the graph did not lead."""
    if not names or ranked.share < _LITTLE:
        return "the question names nothing rare that the graph knows"
    return f"{names}, rare names are only {ranked.share:.0%} of it"


def _numbers(ranked: Reranked) -> str:
    """Return the numbers behind what decided."""
    if ranked.evidence is None:
        return ""
    document = f"; it names the document {ranked.document}" if ranked.document else ""
    share = f"{ranked.share:.0%} of the question consists of rare names that the graph knows"
    return f"trust {ranked.trust:.2f}: {share}{document}"


def _decided_alone(found: Found) -> str:
    """Return which searches decided without the graph, and why."""
    settings = found.query.settings
    of_graph = found.graph.why if settings.method in ("hybrid", "graph") else ""
    whys = (_without_vector(found.query, found.text.channels), of_graph)
    weighed = settings.fusion.weighed if settings.method == "hybrid" and not settings.reranker else ()
    return f"{_searches(found, weighed)} alone{_because(', '.join(filter(None, whys)))}"


def _decided_by_fusion(found: Found, names: Callable[[Sequence[int]], str], all_names: str) -> str:
    """Return how a fusion joined the rankings."""
    fusion, graph, query = found.query.settings.fusion, found.graph, found.query
    if fusion.uses_lead and graph.lead == "graph":
        is_subject = query.snapshot.are_subjects(query.entities)
        return f"the graph led{_because(names(np.flatnonzero(is_subject).tolist()))}"
    if fusion.uses_lead:
        added = ", the graph added to them" if graph.lead == "both" else ""
        return f"{_searches(found)} led{added}: {graph.why}"
    if fusion.weighed and "graph" not in fusion.weighed:
        return f"{_searches(found, fusion.weighed)} alone: the fusion gives the graph no weight"
    return f"{type(fusion).__name__} joined {_searches(found, fusion.weighed)} with the graph{_because(all_names)}"


def _searches(found: Found, weighed: Sequence[str] = ()) -> str:
    """Return the searches that found passages besides the graph, only those that a fusion weighs if there are any."""
    searches = found.text.channels
    channels = [name for name, (keys, _) in searches.items() if len(keys)] or [*searches]
    return f"{' and '.join([name for name in channels if name in weighed] or channels)} search"


def _because(why: str) -> str:
    return f": {why}" if why else ""


def _names(entities: Sequence[Entity], places: Sequence[int]) -> str:
    """Return that the question names some of the entities, given by their positions; empty if there are none.

    Positions beyond are entities of the conversation.
    """
    if not (places := [place for place in places if place < len(entities)]):
        return ""
    shown = [entities[place].name for place in places[:_MAX_NAMES]]
    more = [f"{len(places) - _MAX_NAMES:,} more"] if len(places) > _MAX_NAMES else []
    return f"the question names {_listed([*shown, *more])}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _without_vector(query: Query, channels: Mapping[str, Ranking]) -> str:
    """Return why vector search is missing; empty if it is not, or if the settings leave it out."""
    if "vector" in channels or query.vector is not None or query.settings.method == "keyword":
        return ""
    if query.failures:
        return "the embedder failed"
    has_vectors = query.snapshot.has("chunks", vectors=True)
    return "the index was opened without its embedder" if has_vectors else "the index has no vectors"


def _log_unlinked(engine: Engine, query: Query) -> None:
    """Log once for each engine that its passages give the graph little to follow."""
    if engine not in _LOGGED and query.snapshot.has("chunks"):
        _LOGGED.add(engine)
        _log.info(
            "the passages of this index hardly mention each other's subjects (linked share %.2f, below %.2f): "
            "the graph has little to follow; titles, headings and links give it more",
            query.snapshot.linked_share,
            query.settings.gate.least_bridged,
        )


def _why_nothing(query: Query, expansion: Expansion) -> str:
    """Return why the graph adds no passage."""
    if len(expansion.keys):
        least = query.settings.gate.min_graph_score
        return f"all its passages are weaker than {least:g}: lower min_graph_score to see them"
    if not query.snapshot.has("entities"):
        return "no passage mentions a name, the graph is empty"
    if expansion.nothing:
        return expansion.nothing
    if not len(query.entities):
        return "the question names no known entity"
    names = ", ".join(entity.name for entity in query.snapshot.entities(query.entities))
    return f"no link leads from {names} to a passage"


def _missing_names(query: Query) -> str:
    """Return a remark if the settings need vectors of names and the index has none."""
    has = query.snapshot.has
    if not query.settings.recogniser.needs_name_vectors or not has("entities") or has("entities", vectors=True):
        return ""
    return "entities are not found by similarity, as the index has no vectors of names: build it with embed_names=True"


def _unknown_keys(snapshot: Snapshot, keys: tuple[str, ...], *, warns: bool) -> str:
    """Return what the caller can do about keys of the filter that no document has; log it for the operator.

    Only the log suggests other keys: they may belong to another tenant.
    """
    if warns:
        known = snapshot.metadata_keys()
        near = [did_you_mean(get_close_matches(key, known)) for key in keys]
        told = ", ".join(f"{key!r}{f' ({hint})' if hint else ''}" for key, hint in zip(keys, near, strict=True))
        _log.warning("no document has the metadata key %s: comparisons with it match nothing", told)
    names = ", ".join(map(repr, keys))
    how = "check its spelling and case, and write nested keys with dots ('author.name')"
    return f"no document has the metadata key {names}: {how}"


def _advice(found: Found) -> str:
    """Return what to know of hits that have no word of the question, and what to do about a low confidence."""
    query, trust = found.query, found.graph.confidence
    least = query.settings.gate.min_confidence
    if len(found.text.channels) > 1 and not len(found.text.channels["keyword"][0]) and not len(query.entities):
        return "no word of the question occurs in the documents searched: these are only the nearest passages by vector"
    if trust is None or not query.settings.searches_graph or trust >= max(least, CONFIDENCE_WITHOUT_GRAPH):
        return ""
    actions = how_to_raise(query.text, len(query.entities), found.text.similarity)
    return f"the confidence is low, {trust:.2f}: {actions}{', or lower min_confidence' if trust < least else ''}"


def _advice_on_nothing(found: Found, best_score: float | None, *, is_restricted: bool) -> str:
    """Return what the caller can do about an empty result."""
    query, settings, channels = found.query, found.query.settings, found.text.channels
    least = settings.gate.min_score
    if not query.snapshot.has("chunks"):
        is_told = query.snapshot.unknown_keys  # by a remark
        no_match = "" if is_told else "no document matches the filter: check its keys and values"
        return no_match if is_restricted else "the index is empty: add documents"
    if settings.score_threshold is not None and best_score is not None:
        return (
            f"no passage has the score {settings.score_threshold:.2f} that score_threshold asks for, "
            f"the best has {best_score:.2f}: lower score_threshold, or ask in other words"
        )
    if settings.method == "graph" and found.graph.skipped:
        return f"{found.graph.skipped}; the hybrid method searches by vector and keyword, too"
    has_found = any(len(keys) for keys, _ in channels.values())
    if has_found and settings.reranker:
        return "the reranker dropped every passage: use another one, or reranker=False"
    nearest = float(query.by_vector("chunks", 1)[1].max(initial=0)) if "vector" in channels else least
    if nearest < least:
        return (
            f"no passage has the similarity {least:.2f} that min_score asks for, "
            f"the nearest has {nearest:.2f}: lower min_score, or ask in other words"
        )
    unweighed = "no ranking that the fusion weighs found a passage: give vector or keyword search a weight"
    no_word = "no passage has a word of the question: ask in other words, or use the hybrid method"
    return unweighed if has_found else no_word
