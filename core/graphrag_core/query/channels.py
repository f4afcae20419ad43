"""What each channel brings to a question, and how far the gate lets the graph in."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphrag_core.query.fuse import Lead
from graphrag_core.query.gate import VECTOR_ONLY, confidence
from graphrag_core.query.ground import Ground, Ranking
from graphrag_core.query.plan import Plan
from graphrag_core.query.route import Channelled
from graphrag_core.query.strategy import Expansion


@dataclass(frozen=True)
class Found:
    """What the channels brought: plain search as one ranking, each channel's own, the graph's whole."""

    plain: Ranking
    channels: dict[str, Ranking]
    expansion: Expansion
    lead: Lead = "graph"
    confidence: float = VECTOR_ONLY
    skipped: str = ""

    @property
    def graph(self) -> Ranking:
        """The graph's chunks with strengths from 0 to 1, as fusions want them."""
        return self.expansion.keys, self.expansion.strengths


def search(ground: Ground, method: Channelled, count: int) -> tuple[dict[str, Ranking], Ranking]:
    """Return each plain channel's ranking and the one they make together."""
    channels: dict[str, Ranking] = {}
    if method != "keyword" and ground.vector is not None:
        channels["vector"] = ground.near("chunks", count)
    if method != "vector" or ground.vector is None:
        channels["keyword"] = ground.matching("chunks", count)
    if len(channels) == 1 and method in ("vector", "keyword"):
        return channels, next(iter(channels.values()))
    nothing = (np.empty(0, np.int64), np.empty(0, np.float32))
    return channels, ground.blended("chunks", channels.get("vector", nothing), channels.get("keyword", nothing))


def expand(ground: Ground, plan: Plan, channels: dict[str, Ranking], plain: Ranking, count: int) -> Found:
    """Ask the graph, if it is to be asked, and decide how far to follow it."""
    if not plan.wants_graph:
        return Found(plain, channels, Expansion(), skipped="" if plan.use_graph else "the graph was not asked")
    nearest = channels["vector"][1] if "vector" in channels else np.empty(0, np.float32)
    trust = confidence(ground.question, len(ground.entities), float(nearest.max(initial=0)))
    if skipped := plan.gate.skipped(trust, len(ground.entities)):
        return Found(plain, channels, Expansion(), "plain", trust, skipped)
    expansion = plan.strategy.expand(ground, plain, count)
    strong = expansion.at_least(plan.gate.min_graph_score) if plan.gate.min_graph_score > 0 else expansion
    lead, why = _lead(ground, plan)
    if len(expansion.keys) and not len(strong.keys):
        why = f"the graph was skipped: all it brought is weaker than {plan.gate.min_graph_score:g}"
    return Found(plain, {**channels, "graph": strong.ranking}, strong, lead, trust, why)


def _lead(ground: Ground, plan: Plan) -> tuple[Lead, str]:
    if plan.method != "hybrid" or not getattr(plan.fusion, "heeds_lead", False):
        return "graph", ""
    names_subject = bool(ground.view.is_subject[list(ground.entities)].any())
    lead, why = plan.gate.lead(names_subject=names_subject, bridged=ground.view.bridged)
    if not ground.entities and len(ground.view.entity_ids) and not len(ground.derived.vectors["names"].keys):
        why += " (names are not embedded, so near ones could not be looked for: embed_names=True)"
    return lead, why
