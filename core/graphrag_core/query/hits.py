"""The hits of a result, as values made of what a question found."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from graphrag_core.ports import Keys, Scores
from graphrag_core.query.evidence import Evidence
from graphrag_core.query.explanation import Explainer
from graphrag_core.remarks import remarks
from graphrag_core.result import Channel, Explanation, Hit, Lazy, Origin, Reason, Result, Step, Trace
from graphrag_core.telemetry import Stages

if TYPE_CHECKING:
    from graphrag_core.engine.engine import IndexEngine


def to_result(engine: IndexEngine, seen: Evidence, stages: Stages) -> Result:
    """Return the hits with what explains them."""
    plan, settings, ranked = seen.plan, seen.settings, seen.ranked
    keys, scores = seen.shown()
    best_score = float(scores.max()) if len(scores) else None
    if settings.score_threshold is not None:
        above = int((np.round(scores, 6) >= round(settings.score_threshold, 6)).sum())
        keys, scores = keys[:above], scores[:above]
    reasons = [Reason()] * len(keys)
    if ranked.candidates is not None:
        ids = [seen.passages[key].id for key in keys.tolist()]
        links, moved = ranked.candidates.links_of(keys, ids, seen.entities), ranked.candidates.moved(keys)
        reasons = [Reason(link=link, moved=names) for link, names in zip(links, moved, strict=True)]
    explanation: Lazy[Explanation] = Lazy(Explanation)
    hits = _hits(seen, keys, scores, explanation)
    seen = replace(  # what a stored result needs: no passages besides its hits
        seen,
        passages={},
        entities={key: seen.entities[key] for key in seen.named.tolist()},
        ranked=replace(ranked, keys=keys, scores=scores, candidates=None),
        moved={name for reason in reasons for name in reason.moved},
        hits=len(hits),
        best_score=best_score,
    )
    explanation.compute = Explainer(engine, seen, hits, reasons)
    if plan.explain:
        _ = explanation.value
    stages.end("explain" if plan.explain else "hits")
    asked = {"method": settings.method, "k": settings.k, "filtered": seen.scope is not None}
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
        scores_are_probabilities=settings.is_reranked and getattr(settings.reranker, "has_probabilities", False),
        embedder_failed=seen.failed,
        is_complete=not any(seen.missing),
        generation=seen.generation,
        context_format=settings.context,
        remarks=Lazy(lambda: remarks(seen)),
        explanation=explanation,
    )


def _hits(seen: Evidence, keys: Keys, scores: Scores, explanation: Lazy[Explanation]) -> tuple[Hit, ...]:
    graph, expansion, is_graph = seen.graph, seen.graph.expansion, seen.settings.method == "graph"
    rankings = {} if graph.ran and is_graph else dict(seen.plain.channels)
    if graph.ran:
        rankings["graph"] = expansion.keys, expansion.scores
    channels: list[dict[str, Channel]] = [{} for _ in keys]
    for name, (places, own) in rankings.items():
        rows, ranks = (keys[:, None] == places).nonzero()
        for row, rank, score in zip(rows.tolist(), ranks.tolist(), own[ranks].tolist(), strict=True):
            channels[row][name] = Channel(rank + 1, score)
    # Plain search alone would have returned these.
    plain = () if is_graph else seen.plain.ranking[0][: seen.settings.k].tolist()
    hits = []
    for key, score, ranked in zip(keys.tolist(), scores.tolist(), channels, strict=True):
        by_graph = key in expansion.queries or ("graph" in ranked and key not in plain)
        via = None
        if by_graph and key in expansion.via:
            entity, hop = expansion.via[key]
            via = Step("entity", seen.entities[entity].id, seen.entities[entity].name), hop
        origin: Origin = "graph" if by_graph else "plain"
        hits.append(Hit(seen.passages[key], score, ranked, origin, expansion.queries.get(key, ""), via, explanation))
    return tuple(hits)
