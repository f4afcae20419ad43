"""``SearchSettings``: every setting of a question, in one frozen value.

The retriever, the adapters, the command line, HTTP and MCP have no list of settings of their own. Those that are
offered as options have metadata (:func:`search_options`); what a caller gave is passed on as keywords::

    retriever = GraphRetriever(index, settings.replace(**given))  # None in ``given`` counts as not given
    result = retriever.retrieve(question, **given)  # or for one question

A new setting is a field of :class:`SearchSettings`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, get_args

from graphrag_core.errors import InputError, check_integer, check_number, unknown_name
from graphrag_core.query.calibration import Calibration
from graphrag_core.query.coverage import Reranker
from graphrag_core.query.fusion import CHANNELS, Fusion, Gate
from graphrag_core.query.query import TEXT_WEIGHT, VECTOR_WEIGHT, OnEmbedderError
from graphrag_core.query.recognise import Recogniser
from graphrag_core.query.rerank import PassageScores, ScoreReranker
from graphrag_core.query.routing import Router
from graphrag_core.query.strategies.pagerank import PageRank
from graphrag_core.query.strategies.strategy import GraphStrategy

Method = Literal["hybrid", "vector", "keyword", "graph", "global", "agentic"]
"""How a question is searched."""

_METHODS: tuple[str, ...] = get_args(Method)
_LIMITS = ("min_score", "min_confidence", "min_graph_score")  # fields of the gate, too
_MOST_REPLACED = 256  # settings that are kept for the changes that come with a question
_PAGE_RANK = PageRank()
_ROUTER = Router()
_OBJECTS: tuple[tuple[str, type, tuple[type, ...]], ...] = (  # fields, their classes, and what else is allowed
    ("graph", GraphStrategy, ()),
    ("fusion", Fusion, (type(None),)),
    ("reranker", Reranker, (bool,)),
    ("gate", Gate, (type(None),)),
    ("recogniser", Recogniser, (type(None),)),
    ("router", Router, ()),
    ("calibration", Calibration, (bool,)),
)


@dataclass(frozen=True)
class Option:
    """A setting as an option of the command line, HTTP or MCP.

    Attributes
    ----------
    name, default
        Those of the field of :class:`SearchSettings`.
    type
        ``int``, ``float``, ``bool`` or ``str``.
    help
        One sentence for a user.
    minimum, maximum
        The bounds of a number; None for none.
    choices
        The values of a text; empty if any is allowed.
    """

    name: str
    default: Any
    type: type
    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """Every setting of a question. Immutable; :meth:`replace` returns others.

    Parameters
    ----------
    method
        ``"hybrid"`` uses all three channels; ``"vector"``, ``"keyword"`` and ``"graph"`` use one, of
        which the last two may find fewer than ``k``; ``"global"`` answers questions about the whole collection
        with its communities and their central passages; ``"agentic"`` lets ``router`` choose a method for each
        question.
    k
        How many passages to return.
    graph
        The graph strategy.
    use_graph
        False restricts the hybrid method to vector and keyword search.
    fusion
        How plain search and graph become one ranking. None is the strategy's own, which for
        PageRank is :class:`~graphrag_core.strategies.Anchored`.
    reranker
        Orders the passages of the hybrid method. True uses :class:`~graphrag_core.strategies.Coverage` where both the
        strategy and the fusion are the default; False orders them by the fusion alone. A function that scores
        passages, such as a :class:`~graphrag_core.CrossEncoder`, orders the best of them
        (:class:`~graphrag_core.strategies.ScoreReranker`).
    gate, recogniser
        When the graph is trusted, and how entities are found in a question. None is the strategy's own, as
        :class:`~graphrag_core.strategies.RelatedEntities` has them, or else the default.
    router
        Chooses a method for ``"agentic"``.
    candidates
        How many passages each channel is asked for, at least ``k``.
    vector_weight, text_weight
        The weights of vector and keyword search in plain search, of which the sum is taken as 1. A channel with
        weight 0 is not searched.
    relative_scores
        Whether cosine similarities are divided by the best one of the question before they are weighted with those of
        keyword search. False keeps them, so that a weak best hit has a low score.
    inverses
        Names of relations seen from their object, such as ``{"feeds": "fed_by"}``, for the context of a result.
        Each pair holds in both directions.
    calibration
        How the scores of the hybrid method are computed where a ranking says nothing but the order, as that of
        ``Coverage`` and ``Anchored``: by default the probability that a passage belongs to the answer
        (:class:`~graphrag_core.strategies.Calibration`). False for 1 / rank.
    score_threshold
        Hits with a lower score are left out, so that a result can be empty. It applies to
        :attr:`Hit.score <graphrag_core.Hit>`, whatever the score of the method and the fusion is.
    min_score
        Vector hits with a lower cosine similarity are left out. This and the next two replace those of the gate.
    min_confidence
        The graph does not run below this confidence.
    min_graph_score
        Passages that the graph finds with a lower strength (0 to 1) are left to plain search. The strength of a
        relation from 1 to 10 counts, divided by 10.
    on_embedder_error
        What a query does if the embedder fails or returns a vector that cannot be used. ``"raise"`` raises
        :class:`~graphrag_core.errors.EmbedderError`, which is also of the type that the embedder raised, and whose
        ``__cause__`` is that exception. ``"keyword"`` searches by keyword and graph, logs a warning, and says so in
        ``fallback``, ``advice`` and ``embedder_failed`` of the result, which is not cached.
    needs_name_vectors
        True if the index should have vectors of names (``embed_names=True``). ``fallback`` says so if it has none.
    context_tokens
        The token budget of :meth:`Result.context <graphrag_core.Result.context>`, unless a call has another. None for
        500, and 1,000 in the memory tools.
    published_format
        True formats :meth:`Result.context <graphrag_core.Result.context>` exactly as the documents of the five designs
        do, and leaves passages that are nothing but navigation or an index in their places. By default they rank
        behind others, passages are cited by name, what documents say about an entity called "User" is not
        shown as what the user said, and the style ``"both"`` has a graph block even if the graph found no hit.

    Raises
    ------
    InputError
        A value cannot be used.

    Examples
    --------
    >>> SearchSettings(k=10).replace(method="keyword", k=None).k
    10
    >>> SearchSettings().replace(vector_wight=1)
    Traceback (most recent call last):
        ...
    graphrag_core.errors.InputError: unknown search setting 'vector_wight': did you mean 'vector_weight'?
    """

    method: Method = field(
        default="hybrid",
        metadata={
            "type": str,
            "help": "How to search; global is for questions about the whole collection, agentic selects one.",
            "choices": _METHODS,
        },
    )
    k: int = field(default=5, metadata={"type": int, "help": "Number of passages to return.", "minimum": 1})
    graph: GraphStrategy = _PAGE_RANK
    use_graph: bool = field(default=True, metadata={"type": bool, "help": "Whether hybrid search uses the graph."})
    fusion: Fusion | None = None
    reranker: Reranker | PassageScores | bool = True
    gate: Gate | None = None
    recogniser: Recogniser | None = None
    router: Router = _ROUTER
    candidates: int = 100
    vector_weight: float = VECTOR_WEIGHT
    text_weight: float = TEXT_WEIGHT
    relative_scores: bool = True
    inverses: Mapping[str, str] = field(default_factory=dict, hash=False)
    calibration: Calibration | bool = True
    score_threshold: float | None = field(
        default=None,
        metadata={"type": float, "help": "Leave out hits with a lower score, from 0 to 1.", "minimum": 0},
    )
    min_score: float | None = None
    min_confidence: float | None = None
    min_graph_score: float | None = None
    on_embedder_error: OnEmbedderError = "raise"
    needs_name_vectors: bool = False
    context_tokens: int | None = None
    published_format: bool = False

    def __post_init__(self) -> None:
        for name, allowed in (("method", _METHODS), ("on_embedder_error", get_args(OnEmbedderError))):
            if getattr(self, name) not in allowed:
                raise InputError(f"unknown {name} {getattr(self, name)!r}: use one of {', '.join(allowed)}")
        scores = callable(self.reranker) and not isinstance(self.reranker, (type, Reranker))
        checked: dict[str, Any] = {
            "k": check_integer(self.k, "k"),
            "candidates": check_integer(self.candidates, "candidates"),
            "use_graph": bool(self.use_graph),
            "reranker": ScoreReranker(self.reranker) if scores else self.reranker,  # type: ignore[arg-type]
            "inverses": dict(self.inverses),
            "context_tokens": self.context_tokens and check_integer(self.context_tokens, "context_tokens"),
        }
        for name in ("vector_weight", "text_weight"):
            checked[name] = check_number(getattr(self, name), name)
        for name in ("score_threshold", *_LIMITS):
            most = 1 if name in _LIMITS else math.inf
            checked[name] = None if getattr(self, name) is None else check_number(getattr(self, name), name, most)
        if checked["vector_weight"] == checked["text_weight"] == 0:
            raise InputError("vector_weight and text_weight are both 0: one of them must be positive")
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        for name, kind, others in _OBJECTS:
            if not isinstance(value := getattr(self, name), (kind, *others)):
                word = "graph strategy" if kind is GraphStrategy else name
                raise InputError(
                    f"{value!r:.80} is not a {word}: use an object of a subclass of {kind.__name__}, no class or name"
                )
        if unknown := set(self.plan.fusion.weighed) - CHANNELS:
            raise InputError(f"no ranking is named {min(unknown)!r}: weights are for {', '.join(sorted(CHANNELS))}")

    def replace(self, **given: Any) -> SearchSettings:
        """Return the settings with some fields replaced; None counts as not given.

        Raises
        ------
        InputError
            A name is no field, or a value cannot be used.
        """
        for name in given:
            if name not in self.__dataclass_fields__:
                raise InputError(unknown_name(name, [*self.__dataclass_fields__], "search setting"))
        changed = {name: value for name, value in given.items() if value is not None}
        if not changed:
            return self
        # The same few changes come with every question: the settings that they give are checked once.
        try:
            key = frozenset((name, type(value), value) for name, value in changed.items())
        except TypeError:  # a value that cannot be hashed
            return replace(self, **changed)
        found = self._replaced.get(key)
        if found is None:
            if len(self._replaced) >= _MOST_REPLACED:
                self._replaced.clear()
            found = self._replaced[key] = replace(self, **changed)
        return found

    @cached_property
    def _replaced(self) -> dict[Any, SearchSettings]:
        return {}

    def __getstate__(self) -> dict[str, Any]:  # without what is computed from the fields
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def plan(self) -> Plan:
        """The settings with all defaults that depend on others."""
        graph, reranker = self.graph, self.reranker
        if reranker is True:
            reranker = graph.reranker if self.fusion is None and graph.reranker is not None else False
        limits = {name: value for name in _LIMITS if (value := getattr(self, name)) is not None}
        resolved = {
            "fusion": self.fusion or graph.fusion,
            "reranker": reranker,
            "gate": replace(self.gate or graph.gate or Gate(), **limits),
            "recogniser": self.recogniser or graph.recogniser or Recogniser(),
            "calibration": Calibration() if self.calibration is True else self.calibration,
        }
        return Plan(**{one.name: getattr(self, one.name) for one in fields(self)} | resolved)


@dataclass(frozen=True, kw_only=True)
class Plan(SearchSettings):
    """The settings of one query with all defaults resolved, and what the call adds. Part of the key of a cache."""

    fusion: Fusion
    reranker: Reranker | Literal[False]
    gate: Gate
    recogniser: Recogniser
    calibration: Calibration | Literal[False]
    on_embedder_error: OnEmbedderError = field(default="raise", compare=False)  # an answer is the same with both
    route: str = ""
    seeds: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check nothing: the settings were checked."""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """The hash of the fields that are compared; a cache asks for it with every question."""
        return hash(tuple(getattr(self, one.name) for one in fields(self) if one.compare and one.hash is not False))


def search_options() -> list[Option]:
    """Return the settings that are offered as options, in the order of the fields."""
    return [Option(one.name, one.default, **one.metadata) for one in fields(SearchSettings) if one.metadata]
