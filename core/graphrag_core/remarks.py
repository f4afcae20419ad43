"""What a result says about itself: what decided, what was missing, what to do. Written when it is read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphrag_core.query.evidence import Evidence
from graphrag_core.query.fusion import how_to_raise
from graphrag_core.result import CONFIDENCE_WITHOUT_GRAPH, SIGNALS, Remarks, Signal

EMBEDDER_FAILED = "the embedder failed, so this is not the full answer: ask again when it works"

_MAX_NAMES = 3  # that are said to have decided
_LITTLE = 0.01  # of a question


def remarks(seen: Evidence) -> Remarks:
    """Write the sentences."""
    skipped = _skipped(seen)
    advice = _advice(seen) if seen.hits else _advice_on_nothing(seen, skipped)
    keys = ", ".join(f"{key!r:.80}" for key in seen.unknown_keys)
    spelling = "check its spelling and case, and write nested keys with dots ('author.name')"
    unknown = f"no document has the metadata key {keys}: {spelling}" if keys else ""
    notes = (EMBEDDER_FAILED if seen.failed else "", advice, unknown)
    return Remarks(
        decided=_conversation(seen) + (_decided(seen) if seen.hits else "no passage was found"),
        trust=_trust(seen),
        expansion_skipped=skipped,
        fallback="; ".join(filter(None, seen.missing)),
        advice="; ".join(filter(None, notes)),
    )


# -- what decided


def _conversation(seen: Evidence) -> str:
    """Return what a follow-up question refers to; empty for a question that stands alone."""
    if seen.carried.names:
        return f"the conversation names {_listed(seen.carried.names)}; "
    return "the question refers to passages that were shown; " if len(seen.carried.passages) else ""


def _decided(seen: Evidence) -> str:
    """Return what decided the order of the hits, in one sentence."""
    settings, by_graph = seen.settings, len(seen.graph[0]) > 0
    if settings.method == "graph" and by_graph:
        return f"the graph alone{_because(_names(seen, range(len(seen.names))))}"
    if settings.second_stage is not None:
        is_unknown = seen.graph_ran and seen.ranked.named is None  # a reranker of the caller's own
        if is_unknown or settings.scorer is not None:
            sources = [*(f"{name} search" for name in seen.channels), *(["the graph"] if by_graph else [])]
            return f"the reranker ordered what {_listed(sources)} found"
    if not by_graph and not any(seen.moved):
        return _decided_alone(seen)
    return _decided_by_fusion(seen) if seen.ranked.named is None else _decided_by_signals(seen)


def _decided_by_signals(seen: Evidence) -> str:
    """Return what the second stage decided by."""
    ranked = seen.ranked
    named = _names(seen, ranked.named or ())
    moved = [name for name in SIGNALS if any(name in own for own in seen.moved)]
    if ranked.trust >= 0.5 and len(seen.graph[0]):
        others = _signals(name for name in moved if name != "graph")
        also = f"; {others} moved passages, too" if others else ""
        return f"the graph led{_because(named)}{also}"
    why = "the question names nothing rare that the graph knows"
    if named and ranked.share >= _LITTLE:
        why = f"{named}, rare names are only {ranked.share:.0%} of it"
    how = f"led, {_signals(moved)} moved passages" if moved else "decided alone"
    return f"{_searches(seen)} {how}: {_why_not_graph(seen) or why}"


def _signals(names: Iterable[Signal]) -> str:
    """Return signals in words; empty for none."""
    return _listed([SIGNALS[name] for name in names])


def _decided_alone(seen: Evidence) -> str:
    """Return which searches decided without the graph, and why."""
    settings = seen.settings
    of_graph = _why_not_graph(seen) if settings.method in ("hybrid", "graph") else ""
    weighed = settings.fusion.weighed if settings.method == "hybrid" and not settings.reranker else ()
    return f"{_searches(seen, weighed)} alone{_because(', '.join(filter(None, (_without_vector(seen), of_graph))))}"


def _decided_by_fusion(seen: Evidence) -> str:
    """Return how a fusion joined the rankings."""
    fusion = seen.settings.fusion
    if fusion.weighed and "graph" not in fusion.weighed:
        return f"{_searches(seen, fusion.weighed)} alone: the fusion gives the graph no weight"
    all_names = _names(seen, range(len(seen.names)))
    return f"{type(fusion).__name__} joined {_searches(seen, fusion.weighed)} with the graph{_because(all_names)}"


def _trust(seen: Evidence) -> str:
    """Return the numbers behind what decided."""
    if seen.ranked.terms is None or seen.ranked.named is None:
        return ""
    ranked = seen.ranked
    document = f"; it names the document {ranked.document}" if ranked.document else ""
    share = f"{ranked.share:.0%} of the question consists of rare names that the graph knows"
    return f"trust {ranked.trust:.2f}: {share}{document}"


def _searches(seen: Evidence, weighed: Sequence[str] = ()) -> str:
    """Return the searches that found passages besides the graph, only those that a fusion weighs if there are any."""
    channels = seen.channels
    names = [name for name, (keys, _) in channels.items() if len(keys)] or [*channels]
    return f"{' and '.join([name for name in names if name in weighed] or names)} search"


def _because(why: str) -> str:
    return f": {why}" if why else ""


def _names(seen: Evidence, places: Sequence[int]) -> str:
    """Return that the question names some entities, given by their places; those of the conversation do not count."""
    names = seen.names
    if not (places := [place for place in places if place < len(names)]):
        return ""
    shown = [names[place] for place in places[:_MAX_NAMES]]
    more = [f"{len(places) - _MAX_NAMES:,} more"] if len(places) > _MAX_NAMES else []
    return f"the question names {_listed([*shown, *more])}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _without_vector(seen: Evidence) -> str:
    """Return why vector search is missing; empty if it is not, or if the settings leave it out."""
    if "vector" in seen.channels or seen.has_vector or seen.settings.method == "keyword":
        return ""
    if seen.failed:
        return "the embedder failed"
    return "the index was opened without its embedder" if seen.has_vectors else "the index has no vectors"


# -- the graph


def _skipped(seen: Evidence) -> str:
    """Return why the graph did not run or found nothing; empty if it found something."""
    if seen.graph_ran:
        if len(seen.graph[0]):
            return ""
        return f"the graph {'was skipped' if seen.found else 'adds nothing'}: {_why_nothing(seen)}"
    return f"the graph was skipped: {seen.skipped}" if seen.settings.searches_graph else seen.skipped


def _why_not_graph(seen: Evidence) -> str:
    """Return why the graph does not lead, did not run or adds nothing; empty if it leads."""
    return _why_nothing(seen) if seen.graph_ran and not len(seen.graph[0]) else seen.skipped


def _why_nothing(seen: Evidence) -> str:
    """Return why the graph adds no passage."""
    if seen.found:
        least = seen.settings.gate.min_graph_score
        return f"all its passages are weaker than {least:g}: lower min_graph_score to see them"
    if not seen.has_entities:
        return "no passage mentions a name, the graph is empty"
    if seen.expansion.nothing:
        return seen.expansion.nothing
    names = ", ".join((*seen.names, *seen.carried.names))
    return f"no link leads from {names} to a passage" if names else "the question names no known entity"


# -- what to do


def _advice(seen: Evidence) -> str:
    """Return what to know of hits that have no word of the question, and what to do about a low confidence."""
    trust, least = seen.confidence, seen.settings.gate.min_confidence
    channels = seen.channels
    if len(channels) > 1 and not len(channels["keyword"][0]) and not len(seen.named):
        return "no word of the question occurs in the documents searched: these are only the nearest passages by vector"
    if trust is None or not seen.settings.searches_graph or trust >= max(least, CONFIDENCE_WITHOUT_GRAPH):
        return ""
    actions = how_to_raise(seen.plan.text, len(seen.named), seen.similarity)
    return f"the confidence is low, {trust:.2f}: {actions}{', or lower min_confidence' if trust < least else ''}"


def _advice_on_nothing(seen: Evidence, skipped: str) -> str:
    """Return what the caller can do about an empty result."""
    settings, least = seen.settings, seen.settings.gate.min_score
    if not seen.has_chunks:
        no_match = "" if seen.unknown_keys else "no document matches the filter: check its keys and values"
        return "the index is empty: add documents" if seen.plan.scope is None else no_match
    if settings.score_threshold is not None and seen.best_score is not None:
        return (
            f"no passage has the score {settings.score_threshold:.2f} that score_threshold asks for, "
            f"the best has {seen.best_score:.2f}: lower score_threshold, or ask in other words"
        )
    if settings.method == "graph" and skipped:
        return f"{skipped}; the hybrid method searches by vector and keyword, too"
    has_found = any(len(keys) for keys, _ in seen.channels.values())
    if has_found and settings.reranker:
        return "the reranker dropped every passage: use another one, or reranker=False"
    nearest = seen.nearest
    if nearest is not None and nearest < least:
        return (
            f"no passage has the similarity {least:.2f} that min_score asks for, "
            f"the nearest has {nearest:.2f}: lower min_score, or ask in other words"
        )
    unweighed = "no ranking that the fusion weighs found a passage: give vector or keyword search a weight"
    no_word = "no passage has a word of the question: ask in other words, or use the hybrid method"
    return unweighed if has_found else no_word
