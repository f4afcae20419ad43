"""The method ``"global"``: questions about the whole collection, answered with its communities.

A question without specific words ("What are the main themes?") gets the largest communities of the broadest level. Any
other is searched by vector and keyword, and gets the communities that hold most of the passages found.
"""

from __future__ import annotations

import math
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice, pairwise

import numpy as np

from graphrag_core.communities import State
from graphrag_core.index import KnowledgeIndex
from graphrag_core.model import Chunk, Community
from graphrag_core.ports import Keys, Snapshot
from graphrag_core.query.pipeline import EMBEDDER_FAILED, embed, open_snapshot, search
from graphrag_core.query.query import Query
from graphrag_core.query.requests import Steps
from graphrag_core.query.routing import specific_words
from graphrag_core.query.settings import Plan
from graphrag_core.result import Channel, Explanation, Hit, LazyExplanation, Result, Trace

_MOST = 8  # communities of a result
_FOUND = 100  # passages that are searched for
_LEAST_SHARE = 0.04  # of what was found, in a community that matters
_LEAST_OF_LARGEST = 0.02  # documents of a theme, as a share of the largest theme
_PRIOR = 8.0  # documents that are added to a community's size, so that the smallest do not always win
_PER_DOCUMENT = 2  # passages of one document


Place = tuple[str, str]
"""A passage: the id of its document, and its own."""


def global_steps(index: KnowledgeIndex, plan: Plan, at: float) -> Steps:
    """Answer a question about the whole collection with its communities.

    Facts must be valid at the time ``at``. The result has no hits if there are no communities.
    """
    state = index.graph.community_store.state(plan.scope)
    settings = plan.settings
    ended = [("", time.perf_counter())]
    vector, problem, failures = yield from embed(index, plan)
    ended.append(("embed", time.perf_counter()))
    with open_snapshot(index.engine, plan, at, warns=True) as (snapshot, _, seeds, remarks):
        query = Query(
            plan.text, snapshot, vector, embedder=index.embedding, settings=settings, uncounted=plan.uncounted
        )
        found, scores = seeds, np.empty(0, np.float32)
        terms = snapshot.terms(specific_words(query.text))  # none if the question just asks for an overview
        if len(seeds):
            edges = snapshot.neighbours(seeds, to="chunks", limit=settings.candidates)
            found, scores = edges.targets, edges.weights
        elif terms and (snapshot.term_counts(terms) > 0).any():
            found, scores = search(query).ranking
        ended.append(("search", time.perf_counter()))
        chosen, matching, why, numbers = _choose(query, found, scores.tolist(), state)
        ended.append(("communities", time.perf_counter()))
        hits = tuple(
            Hit(chunk, 1 / rank, {"global": Channel(rank, 1 / rank)}, community=community)
            for rank, (chunk, community) in enumerate(_passages(snapshot, state, chosen, matching, settings.k), 1)
        )
    ended.append(("hits", time.perf_counter()))
    advice = "" if hits else "the documents name too few entities for themes: use the hybrid method"
    notes = (EMBEDDER_FAILED if failures else "", advice, *remarks)
    return Result(
        question=plan.text,
        method=settings.method,
        hits=hits,
        route=plan.route,
        decided=why if hits else "no passage was found",
        gate=numbers,
        fallback=problem,
        trace=Trace({stage: (end - start) * 1000 for (_, start), (stage, end) in pairwise(ended)}),
        graph_ran=False,
        embedder_failed=bool(failures),
        communities=tuple(chosen) if hits else (),
        generation=snapshot.generation,
        context_format=settings.context,
        explanation=LazyExplanation.of(Explanation(advice="; ".join(filter(None, notes)))),
    )


def _choose(
    query: Query, found: Keys, scores: Sequence[float], state: State
) -> tuple[list[Community], dict[Place, str], str, str]:
    """Return the communities that matter, the passages found with the community of each, why, and the numbers.

    ``found`` are passages that match the question, best first; empty for a question about everything.
    """
    largest = state.of_level(0)
    most = max((community.documents for community in largest), default=0)
    largest = [community for community in largest if community.documents >= _LEAST_OF_LARGEST * most]
    count = min(query.settings.k, _MOST)
    if not len(found):
        numbers = f"the {min(count, len(largest))} largest of {len(largest):,} themes"
        return largest[:count], {}, "the largest themes decided: the question asks for nothing in particular", numbers
    shares, homes = _shares(query, found[:_FOUND], scores[:_FOUND], state)
    chosen = _best_communities(shares, state)[:count]
    if not chosen:
        return largest[:count], {}, "the largest themes decided: none stands out for the question", ""
    of_chunk = {
        chunk: next(home for home in path if home in chosen)
        for chunk, path in homes.items()
        if any(home in chosen for home in path)
    }
    named = ", ".join(f"{key} {shares[key]:.0%}" for key in chosen)
    numbers = f"themes by their share of the passages that match the question: {named}"
    why = "the themes with the most passages that match the question decided"
    return [state.communities[key] for key in chosen], of_chunk, why, numbers


def _best_communities(shares: Mapping[str, float], state: State) -> list[str]:
    """Return the communities that have the largest shares for their size, none within another."""
    values = {
        key: share / math.sqrt(state.communities[key].documents + _PRIOR)
        for key, share in shares.items()
        if share >= _LEAST_SHARE
    }
    chosen: list[str] = []
    for key in sorted(values, key=lambda key: (-round(values[key], 9), key)):
        if not any(other in _ancestors(state, key) or key in _ancestors(state, other) for other in chosen):
            chosen.append(key)
    return chosen


def _shares(
    query: Query, found: Keys, scores: Sequence[float], state: State
) -> tuple[dict[str, float], dict[Place, tuple[str, ...]]]:
    """Return for each community its share of the passages found, and for each passage its communities.

    A passage is in the communities of most of its entities.
    """
    edges = query.snapshot.neighbours(found, to="entities")
    targets = np.unique(edges.targets)
    entities = query.snapshot.entities(targets)
    paths = dict(zip(targets.tolist(), state.paths_of(entity.id for entity in entities), strict=True))
    rarity = {key: 1 / math.log2(2 + entity.mentions) for key, entity in zip(targets.tolist(), entities, strict=True)}
    mentions = zip(edges.targets.tolist(), edges.weights.tolist(), strict=True)
    total = max(float(sum(scores)), 1e-9)
    shares: defaultdict[str, float] = defaultdict(float)
    homes: dict[Place, tuple[str, ...]] = {}
    for chunk, score, count in zip(query.snapshot.chunks(found), scores, edges.counts.tolist(), strict=True):
        votes: Counter[tuple[str, ...]] = Counter()
        for target, weight in islice(mentions, count):
            for depth in range(len(paths[target])):
                votes[paths[target][: depth + 1]] += min(weight, 3.0) * rarity[target]
        path = _path(votes)
        homes[chunk.document_id, chunk.id] = path
        for home in path:
            shares[home] += score / total
    return dict(shares), homes


def _path(votes: Mapping[tuple[str, ...], float]) -> tuple[str, ...]:
    """Return the communities of most votes, from the broadest down; none after a group that is no community."""
    path: tuple[str, ...] = ()
    while True:
        below = {key: vote for key, vote in votes.items() if len(key) == len(path) + 1 and key[:-1] == path and key[-1]}
        if not below:
            return path
        path = min(below, key=lambda key: (-round(below[key], 9), key))


def _ancestors(state: State, key: str) -> list[str]:
    """Return a community and the communities that contain it."""
    keys = [key]
    while (parent := state.communities[keys[-1]].parent) in state.communities:
        keys.append(parent)
    return keys


def _passages(
    snapshot: Snapshot, state: State, chosen: Sequence[Community], of_chunk: Mapping[Place, str], k: int
) -> list[tuple[Chunk, str]]:
    """Return ``k`` passages, spread over the communities and over documents, each with the id of its community.

    First those that match the question, then the central ones. What is not in the scope any more is left out.
    """
    wanted: dict[str, list[Place]] = {community.id: [] for community in chosen}
    for place, home in of_chunk.items():
        wanted[home].append(place)
    for community in chosen:
        wanted[community.id] += state.passages[community.id]
    keys = snapshot.find_chunks([chunk for places in wanted.values() for _, chunk in places])
    taken: Counter[str] = Counter()
    found: dict[str, str] = {}
    for most in range(1, _PER_DOCUMENT + 1):  # of one document
        before = -1
        while before < len(found) < k:
            before = len(found)
            for community in chosen[: k - len(found)]:
                left = ((document, chunk) for document, chunk in wanted[community.id] if chunk not in found)
                for document, chunk in left:
                    if chunk in keys and taken[document] < most:
                        taken[document] += 1
                        found[chunk] = community.id
                        break
    chunks = snapshot.chunks(np.array([keys[chunk] for chunk in found], np.int64))
    return list(zip(chunks, found.values(), strict=True))
