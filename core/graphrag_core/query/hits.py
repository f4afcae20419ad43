"""What a question found, as values that need the index no more; and the hits that are made of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graphrag_core.errors import did_you_mean
from graphrag_core.filters import Filter
from graphrag_core.key_sets import distinct
from graphrag_core.model import Chunk, Entity
from graphrag_core.ports import Keys, Ranking, Scores
from graphrag_core.query.explanation import Explainer
from graphrag_core.query.fusion import first
from graphrag_core.query.plan import Embedded, Plan
from graphrag_core.query.query import Expansion, Query
from graphrag_core.query.rerank import ScoreReranker
from graphrag_core.query.reranker import Reranked
from graphrag_core.remarks import Evidence
from graphrag_core.result import Channel, Explanation, Hit, Lazy, Reason, Result, Step, Trace
from graphrag_core.telemetry import Stages
from graphrag_core.text.words import WORD_OR_IDENTIFIER

if TYPE_CHECKING:
    from graphrag_core.engine.engine import IndexEngine
    from graphrag_core.engine.snapshot import Snapshot

_log = logging.getLogger(__name__)
_MAX_UNKNOWN = 5  # keys of a filter that are named
_NO_NAME_VECTORS = (
    "entities are not found by similarity, as the index has no vectors of names: build it with embed_names=True"
)
_NO_WORDS = "the question has no words: the order of the passages is arbitrary"
NO_EXPANSION = Expansion()
NOTHING: Ranking = (np.empty(0, np.int64), np.empty(0, np.float32))


@dataclass(frozen=True)
class PlainSearch:
    """The rankings of vector and keyword search, and their weighted mean.

    ``similarity`` is the score of the first passage: its cosine, or 1 for the best of keyword search in place of
    vectors. ``nearest`` is the largest cosine, also of a passage that ``min_score`` leaves out.
    """

    channels: Mapping[str, Ranking]
    ranking: Ranking
    similarity: float
    nearest: float | None


@dataclass(frozen=True)
class GraphSearch:
    """What the graph found.

    ``why`` says why it did not run. ``ranking`` has the
    passages of the expansion with strengths from 0 to 1, or with the strategy's own scores for the graph method.
    ``found`` is their number before the gate left weak ones out.
    """

    expansion: Expansion = NO_EXPANSION
    why: str = ""
    confidence: float | None = None
    ran: bool = False
    ranking: Ranking = NOTHING
    found: int = 0


class Searched(NamedTuple):
    """What the steps of a search returned. ``scorer`` still has to order the ranking, unless it is None."""

    vector: Embedded
    plain: PlainSearch
    graph: GraphSearch
    ranked: Reranked
    scorer: ScoreReranker | None


@dataclass(frozen=True)
class Found:
    """What an index has for a question, as values.

    Attributes
    ----------
    searched
        What the steps of the search returned.
    kept
        The passages that may be shown; None for the first ``k`` of the ranking.
    passages, entities
        By key: the passages that may be shown, and every entity that is named with them.
    named
        The entities that the question names.
    evidence
        What the remarks of the result are written from.
    scope, generation, numbering
        What the question saw of the index.
    """

    searched: Searched
    kept: Keys | None
    passages: Mapping[int, Chunk]
    entities: Mapping[int, Entity]
    named: Keys
    evidence: Evidence
    scope: Filter | None
    generation: int
    numbering: object

    @property
    def scorer(self) -> ScoreReranker | None:
        """What still has to order the first passages of the ranking."""
        return self.searched.scorer

    @property
    def to_score(self) -> list[Chunk]:
        """The passages that the scorer has to order."""
        first = self.searched.ranked.keys[: ScoreReranker.depth(self.evidence.settings.k)]
        return [self.passages[key] for key in first.tolist()]

    def scored(self, scorer: ScoreReranker, scores: Sequence[float | None]) -> Found:
        """Return what was found in the order of the scores of the passages to score."""
        ranked = scorer.order(self.searched.ranked, scores)
        return replace(self, searched=self.searched._replace(ranked=ranked, scorer=None))


def read_found(query: Query, plan: Plan, scope: Filter | None, searched: Searched) -> Found:
    """Read the passages and entities that may be shown, while the snapshot is open."""
    snapshot, settings = query.snapshot, plan.settings
    _, plain, graph, ranked, scorer = searched
    kept = None
    if settings.method == "hybrid":
        kept = settings.fusion.kept(query, plain.ranking, graph.ranking if graph.ran else None)
    shown = _shown(ranked, kept, settings.k)[0]
    if scorer is not None:
        shown = distinct(shown, ranked.keys[: ScoreReranker.depth(settings.k)])
    linking = ranked.candidates.linking(shown) if ranked.candidates is not None else NOTHING[0]
    via = [graph.expansion.via[key][0] for key in shown.tolist() if key in graph.expansion.via]
    keys = distinct(query.entities, linking, np.array(via, np.int64))
    entities = dict(zip(keys.tolist(), snapshot.entities(keys), strict=True))
    return Found(
        searched=searched,
        kept=kept,
        passages=dict(zip(shown.tolist(), snapshot.chunks(shown), strict=True)),
        entities=entities,
        named=query.entities,
        evidence=_evidence(query, plan, searched, [entities[key].name for key in query.entities.tolist()]),
        scope=scope,
        generation=snapshot.generation,
        numbering=snapshot.numbering,
    )


def _evidence(query: Query, plan: Plan, searched: Searched, names: Sequence[str]) -> Evidence:
    vector, plain, graph, ranked, _ = searched
    settings, snapshot = plan.settings, query.snapshot
    own = len(names) - len(query.carried.entities)
    has_entities = snapshot.has_entities
    lacks_names = settings.recogniser.needs_name_vectors and has_entities and not snapshot.has_name_vectors
    has_no_words = bool(plan.text.strip()) and not WORD_OR_IDENTIFIER.search(plan.text)
    return Evidence(
        question=plan.text,
        settings=settings,
        is_restricted=plan.scope is not None,
        unknown_keys=_unknown_keys(snapshot, logs=not plan.instead),
        names=tuple(names[:own]),
        carried=query.carried.names,
        follows=len(query.carried.passages) > 0,
        found={name: len(keys) for name, (keys, _) in plain.channels.items()},
        has_vector=query.vector is not None,
        similarity=plain.similarity,
        nearest=plain.nearest,
        why=graph.why,
        confidence=graph.confidence,
        graph_ran=graph.ran,
        graph_found=graph.found,
        graph_kept=len(graph.ranking[0]),
        graph_nothing=graph.expansion.nothing,
        trust=ranked.trust,
        share=ranked.share,
        named=ranked.named,
        document=ranked.document,
        has_candidates=ranked.candidates is not None,
        has_chunks=snapshot.chunk_count > 0,
        has_entities=has_entities,
        has_vectors=query.vector is not None or snapshot.has_vectors,
        missing=(
            plan.instead, vector.problem, _NO_WORDS if has_no_words else "", _NO_NAME_VECTORS if lacks_names else "",
            graph.expansion.remark, *query.remarks,
        ),
        failed=bool(query.failures),
    )  # fmt: skip


def _unknown_keys(snapshot: Snapshot, *, logs: bool) -> tuple[str, ...]:
    """Return keys of the filter that no document has; log them for the operator.

    Only the log suggests other keys: they may belong to another tenant.
    """
    keys = snapshot.unknown_keys[:_MAX_UNKNOWN]
    if keys and logs:
        known = snapshot.records.metadata_keys()
        near = [did_you_mean(get_close_matches(key, known)) for key in keys]
        told = ", ".join(f"{key!r}{f' ({hint})' if hint else ''}" for key, hint in zip(keys, near, strict=True))
        _log.warning("no document has the metadata key %s: comparisons with it match nothing", told)
    return keys


# -- the result


def to_result(engine: IndexEngine, plan: Plan, found: Found, stages: Stages) -> Result:
    """Return the hits with what explains them."""
    settings, graph, ranked = plan.settings, found.searched.graph, found.searched.ranked
    keys, scores = _shown(ranked, found.kept, settings.k)
    best_score = float(scores.max()) if len(scores) else None
    if settings.score_threshold is not None:
        above = int((np.round(scores, 6) >= round(settings.score_threshold, 6)).sum())
        keys, scores = keys[:above], scores[:above]
    reasons = [Reason()] * len(keys)
    if ranked.candidates is not None:
        ids = [found.passages[key].id for key in keys.tolist()]
        links, moved = ranked.candidates.links_of(keys, ids, found.entities), ranked.candidates.moved(keys)
        reasons = [Reason(link=link, moved=names) for link, names in zip(links, moved, strict=True)]
    explanation: Lazy[Explanation] = Lazy(Explanation)
    hits = _hits(found, keys, scores, explanation)
    named = tuple(found.entities[key] for key in found.named.tolist())
    evidence = replace(
        found.evidence,
        moved={name for reason in reasons for name in reason.moved},
        hits=len(hits),
        best_score=best_score,
    )
    explanation.compute = Explainer(
        engine=engine,
        scope=found.scope,
        generation=found.generation,
        numbering=found.numbering,
        question=plan.text,
        method=settings.method,
        followed=graph.expansion.facts if graph.ran else None,
        ranked_facts=graph.expansion.ranked_facts,
        hits=hits,
        reasons=reasons,
        entities=named,
        terms=ranked.candidates.terms if ranked.candidates else None,
    )
    if plan.explain:
        _ = explanation.value
    stages.end("explain" if plan.explain else "hits")
    counts = {"hits": len(hits), "entities": len(named), "graph_used": graph.ran}
    asked = {"method": settings.method, "k": settings.k, "filtered": found.scope is not None}
    stages.emit("retrieve", {**asked, **counts})
    return Result(
        question=plan.text,
        method=settings.method,
        hits=hits,
        entities=named,
        confidence=graph.confidence,
        route=plan.route,
        trace=Trace(stages.milliseconds()),
        graph_ran=graph.ran,
        scores_are_probabilities=settings.is_reranked and getattr(settings.reranker, "has_probabilities", False),
        embedder_failed=evidence.failed,
        is_complete=not any(evidence.missing),
        generation=found.generation,
        context_format=settings.context,
        remarks=Lazy(evidence.remarks),
        explanation=explanation,
    )


def _shown(ranked: Reranked, kept: Keys | None, k: int) -> Ranking:
    ranking = ranked.keys, ranked.scores
    if kept is None:
        return first(ranking, k)
    wanted = np.isin(ranked.keys, kept)
    return ranked.keys[wanted], ranked.scores[wanted]


def _hits(found: Found, keys: Keys, scores: Scores, explanation: Lazy[Explanation]) -> tuple[Hit, ...]:
    expansion, settings = found.searched.graph.expansion, found.evidence.settings
    channels = _channels(keys, _rankings(found))
    by_graph = {key for key, names in zip(keys.tolist(), channels, strict=True) if "graph" in names}
    if settings.method != "graph":  # plain search alone would have returned these
        by_graph -= set(found.searched.plain.ranking[0][: settings.k].tolist())
    by_graph |= expansion.queries.keys()
    shown = by_graph.intersection(keys.tolist())
    via = {key: found.entities[entity] for key, (entity, _) in expansion.via.items() if key in shown}
    return tuple(
        Hit(
            found.passages[key],
            float(score),
            ranked,
            "graph" if key in by_graph else "plain",
            expansion.queries.get(key, ""),
            (Step("entity", via[key].id, via[key].name), expansion.via[key][1]) if key in via else None,
            explanation=explanation,
        )
        for key, score, ranked in zip(keys.tolist(), scores.tolist(), channels, strict=True)
    )


def _rankings(found: Found) -> Mapping[str, Ranking]:
    """Return the rankings that are listed for each hit."""
    graph, channels = found.searched.graph, found.searched.plain.channels
    if not graph.ran:
        return channels
    by_graph = {"graph": (graph.expansion.keys, graph.expansion.scores)}
    return by_graph if found.evidence.settings.method == "graph" else {**channels, **by_graph}


def _channels(keys: Keys, rankings: Mapping[str, Ranking]) -> list[dict[str, Channel]]:
    """Return how each of some passages was ranked."""
    ranked: list[dict[str, Channel]] = [{} for _ in keys]
    for name, (places, scores) in rankings.items():
        hits, ranks = (keys[:, None] == places).nonzero()
        for hit, rank, score in zip(hits.tolist(), ranks.tolist(), scores[ranks].tolist(), strict=True):
            ranked[hit][name] = Channel(rank + 1, score)
    return ranked
