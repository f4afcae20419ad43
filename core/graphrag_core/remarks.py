"""What a result says about itself: what decided, what was missing, what to do. Written when it is read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from graphrag_core.query.fusion import how_to_raise
from graphrag_core.query.rerank import ScoreReranker
from graphrag_core.query.settings import ResolvedSettings
from graphrag_core.result import CONFIDENCE_WITHOUT_GRAPH, SIGNALS, Remarks, Signal

EMBEDDER_FAILED = "the embedder failed, so this is not the full answer: ask again when it works"

_MAX_NAMES = 3  # that are said to have decided
_LITTLE = 0.01  # of a question


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was seen while a question was answered.

    Attributes
    ----------
    question, settings
        As in the plan.
    is_restricted
        Whether the caller gave a filter.
    unknown_keys
        Its keys that no document has.
    names
        The names of the entities that the question names.
    carried, follows
        The names that a follow-up question takes over, and whether it refers to passages that were shown.
    found
        How many passages each search found.
    has_vector, similarity, nearest
        Whether the question has a vector, the score of the first passage of plain search, and the largest cosine.
    why, confidence, graph_ran
        What the gate decided, and why if the graph did not run.
    graph_found, graph_kept, graph_nothing
        How many passages the strategy found, how many the gate kept, and why the strategy found none.
    trust, share, named, document
        What the second stage decided by (:class:`~graphrag_core.query.reranker.Reranked`).
    has_chunks, has_entities, has_vectors
        What the index has, within the scope.
    missing
        What was unavailable.
    failed
        Whether the embedder failed.
    moved, hits, best_score
        Of the hits: the signals that moved some, their number, and the best score before ``score_threshold``.
    """

    question: str
    settings: ResolvedSettings
    is_restricted: bool = False
    unknown_keys: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()
    follows: bool = False
    found: Mapping[str, int] = field(default_factory=dict)
    has_vector: bool = False
    similarity: float = 0.0
    nearest: float | None = None
    why: str = ""
    confidence: float | None = None
    graph_ran: bool = False
    graph_found: int = 0
    graph_kept: int = 0
    graph_nothing: str = ""
    trust: float = 0.0
    share: float = 0.0
    named: Sequence[int] | None = None
    document: str = ""
    has_candidates: bool = False
    has_chunks: bool = True
    has_entities: bool = True
    has_vectors: bool = True
    missing: tuple[str, ...] = ()
    failed: bool = False
    moved: Collection[Signal] = ()
    hits: int = 0
    best_score: float | None = None

    def remarks(self) -> Remarks:
        """Write the sentences."""
        skipped = _skipped(self)
        advice = _advice(self) if self.hits else _advice_on_nothing(self, skipped)
        notes = (EMBEDDER_FAILED if self.failed else "", advice, _unknown_keys(self.unknown_keys))
        return Remarks(
            decided=_conversation(self) + (_decided(self) if self.hits else "no passage was found"),
            gate=_gate(self),
            expansion_skipped=skipped,
            fallback="; ".join(filter(None, self.missing)),
            advice="; ".join(filter(None, notes)),
        )


# -- what decided


def _conversation(seen: Evidence) -> str:
    """Return what a follow-up question refers to; empty for a question that stands alone."""
    if seen.carried:
        return f"the conversation names {_listed(seen.carried)}; "
    return "the question refers to passages that were shown; " if seen.follows else ""


def _decided(seen: Evidence) -> str:
    """Return what decided the order of the hits, in one sentence."""
    settings, by_graph = seen.settings, seen.graph_kept > 0
    if settings.method == "graph" and by_graph:
        return f"the graph alone{_because(_names(seen, range(len(seen.names))))}"
    if settings.is_reranked:
        is_unknown = seen.graph_ran and seen.named is None  # a reranker of the caller's own
        if is_unknown or isinstance(settings.reranker, ScoreReranker):
            sources = [*(f"{name} search" for name in seen.found), *(["the graph"] if by_graph else [])]
            return f"the reranker ordered what {_listed(sources)} found"
    if not by_graph and not seen.moved:
        return _decided_alone(seen)
    return _decided_by_fusion(seen) if seen.named is None else _decided_by_signals(seen)


def _decided_by_signals(seen: Evidence) -> str:
    """Return what the second stage decided by."""
    named = _names(seen, seen.named or ())
    moved = [name for name in SIGNALS if name in seen.moved]
    if seen.trust >= 0.5 and seen.graph_kept:
        others = _signals(name for name in moved if name != "graph")
        also = f"; {others} moved passages, too" if others else ""
        return f"the graph led{_because(named)}{also}"
    why = "the question names nothing rare that the graph knows"
    if named and seen.share >= _LITTLE:
        why = f"{named}, rare names are only {seen.share:.0%} of it"
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


def _gate(seen: Evidence) -> str:
    """Return the numbers behind what decided."""
    if not seen.has_candidates:
        return ""
    document = f"; it names the document {seen.document}" if seen.document else ""
    share = f"{seen.share:.0%} of the question consists of rare names that the graph knows"
    return f"trust {seen.trust:.2f}: {share}{document}"


def _searches(seen: Evidence, weighed: Sequence[str] = ()) -> str:
    """Return the searches that found passages besides the graph, only those that a fusion weighs if there are any."""
    names = [name for name, count in seen.found.items() if count] or [*seen.found]
    return f"{' and '.join([name for name in names if name in weighed] or names)} search"


def _because(why: str) -> str:
    return f": {why}" if why else ""


def _names(seen: Evidence, places: Sequence[int]) -> str:
    """Return that the question names some entities, given by their places; those of the conversation do not count."""
    if not (places := [place for place in places if place < len(seen.names)]):
        return ""
    shown = [seen.names[place] for place in places[:_MAX_NAMES]]
    more = [f"{len(places) - _MAX_NAMES:,} more"] if len(places) > _MAX_NAMES else []
    return f"the question names {_listed([*shown, *more])}"


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def _without_vector(seen: Evidence) -> str:
    """Return why vector search is missing; empty if it is not, or if the settings leave it out."""
    if "vector" in seen.found or seen.has_vector or seen.settings.method == "keyword":
        return ""
    if seen.failed:
        return "the embedder failed"
    return "the index was opened without its embedder" if seen.has_vectors else "the index has no vectors"


# -- the graph


def _skipped(seen: Evidence) -> str:
    """Return why the graph did not run or found nothing; empty if it found something."""
    if seen.graph_ran:
        if seen.graph_kept:
            return ""
        return f"the graph {'was skipped' if seen.graph_found else 'adds nothing'}: {_why_nothing(seen)}"
    if not seen.settings.searches_graph:
        return seen.why
    return f"the graph was skipped: {seen.why}"


def _why_not_graph(seen: Evidence) -> str:
    """Return why the graph does not lead, did not run or adds nothing; empty if it leads."""
    return _why_nothing(seen) if seen.graph_ran and not seen.graph_kept else seen.why


def _why_nothing(seen: Evidence) -> str:
    """Return why the graph adds no passage."""
    if seen.graph_found:
        least = seen.settings.gate.min_graph_score
        return f"all its passages are weaker than {least:g}: lower min_graph_score to see them"
    if not seen.has_entities:
        return "no passage mentions a name, the graph is empty"
    if seen.graph_nothing:
        return seen.graph_nothing
    names = ", ".join((*seen.names, *seen.carried))
    return f"no link leads from {names} to a passage" if names else "the question names no known entity"


# -- what to do


def _unknown_keys(keys: Sequence[str]) -> str:
    """Return what the caller can do about keys of the filter that no document has."""
    if not keys:
        return ""
    how = "check its spelling and case, and write nested keys with dots ('author.name')"
    return f"no document has the metadata key {', '.join(map(repr, keys))}: {how}"


def _advice(seen: Evidence) -> str:
    """Return what to know of hits that have no word of the question, and what to do about a low confidence."""
    trust, least = seen.confidence, seen.settings.gate.min_confidence
    if len(seen.found) > 1 and not seen.found["keyword"] and not seen.names and not seen.carried:
        return "no word of the question occurs in the documents searched: these are only the nearest passages by vector"
    if trust is None or not seen.settings.searches_graph or trust >= max(least, CONFIDENCE_WITHOUT_GRAPH):
        return ""
    actions = how_to_raise(seen.question, len(seen.names) + len(seen.carried), seen.similarity)
    return f"the confidence is low, {trust:.2f}: {actions}{', or lower min_confidence' if trust < least else ''}"


def _advice_on_nothing(seen: Evidence, skipped: str) -> str:
    """Return what the caller can do about an empty result."""
    settings, least = seen.settings, seen.settings.gate.min_score
    if not seen.has_chunks:
        return _advice_on_no_documents(seen)
    if settings.score_threshold is not None and seen.best_score is not None:
        return (
            f"no passage has the score {settings.score_threshold:.2f} that score_threshold asks for, "
            f"the best has {seen.best_score:.2f}: lower score_threshold, or ask in other words"
        )
    if settings.method == "graph" and skipped:
        return f"{skipped}; the hybrid method searches by vector and keyword, too"
    has_found = any(seen.found.values())
    if has_found and settings.reranker:
        return "the reranker dropped every passage: use another one, or reranker=False"
    if seen.nearest is not None and seen.nearest < least:
        return (
            f"no passage has the similarity {least:.2f} that min_score asks for, "
            f"the nearest has {seen.nearest:.2f}: lower min_score, or ask in other words"
        )
    unweighed = "no ranking that the fusion weighs found a passage: give vector or keyword search a weight"
    no_word = "no passage has a word of the question: ask in other words, or use the hybrid method"
    return unweighed if has_found else no_word


def _advice_on_no_documents(seen: Evidence) -> str:
    if not seen.is_restricted:
        return "the index is empty: add documents"
    return "" if seen.unknown_keys else "no document matches the filter: check its keys and values"
