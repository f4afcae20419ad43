"""``SearchSettings``: every setting of a question, in one frozen value.

The retriever, the adapters, the command line, HTTP and MCP have no list of settings of their own. A surface that
offers settings as options lists them with :func:`options_of` and passes what a caller gave on as keywords::

    for option in options_of("cli"):
        add_option("--" + option.name.replace("_", "-"), option.type, help=option.help, min=option.minimum)
    retriever = GraphRetriever(index, settings.replace(**given))  # None in ``given`` counts as not given
    result = retriever.retrieve(question, **given)  # or for one question

A new setting is a field of :class:`SearchSettings` with ``metadata=offered(...)``, and a line in
:class:`SearchFields` for type checkers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from functools import cached_property
from operator import index as as_integer
from typing import Any, Literal, TypedDict, get_args

from graphrag_core.errors import InputError, unknown_name
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

Surface = Literal["cli", "http", "mcp"]
"""Where settings are offered as options."""

_EVERYWHERE: tuple[Surface, ...] = get_args(Surface)
_METHODS: tuple[str, ...] = get_args(Method)
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
    on
        Where it is offered.
    """

    name: str
    default: Any
    type: type
    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    on: tuple[Surface, ...] = _EVERYWHERE


def offered(
    kind: type,
    help: str,  # noqa: A002 - the word of argparse and typer
    *,
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    on: tuple[Surface, ...] = _EVERYWHERE,
) -> dict[str, Any]:
    """Return the metadata of a field that is offered as an option; see :class:`Option`."""
    return {"type": kind, "help": help, "minimum": minimum, "maximum": maximum, "choices": choices, "on": on}


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
        PageRank is :class:`~graphrag_core.Anchored`.
    reranker
        Orders the passages of the hybrid method. True uses :class:`~graphrag_core.Coverage` where both the
        strategy and the fusion are the default; False orders them by the fusion alone. A function that scores
        passages, such as a :class:`~graphrag_core.CrossEncoder`, orders the best of them
        (:class:`~graphrag_core.ScoreReranker`).
    gate, recogniser
        When the graph is trusted, and how entities are found in a question. None is the strategy's own, as
        :class:`~graphrag_core.RelatedEntities` has them, or else the default.
    router
        Chooses a method for ``"agentic"``.
    candidates
        How many passages each channel is asked for, at least ``k``.
    vector_weight, text_weight
        The weights of vector and keyword search in plain search, of which the sum is taken as 1. A channel with
        weight 0 is not searched.
    inverses
        Names of relations seen from their object, such as ``{"feeds": "fed_by"}``, for the context of a result.
        Each pair holds in both directions.
    calibration
        How the scores of the hybrid method are computed where a ranking says nothing but the order, as that of
        ``Coverage`` and ``Anchored``: by default the probability that a passage belongs to the answer
        (:class:`~graphrag_core.Calibration`). False for 1 / rank.
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
        metadata=offered(
            str,
            "How to search; global is for questions about the whole collection, agentic selects one.",
            choices=_METHODS,
        ),
    )
    k: int = field(default=5, metadata=offered(int, "Number of passages to return.", minimum=1))
    graph: GraphStrategy = _PAGE_RANK
    use_graph: bool = field(default=True, metadata=offered(bool, "Whether hybrid search uses the graph."))
    fusion: Fusion | None = None
    reranker: Reranker | PassageScores | bool = True
    gate: Gate | None = None
    recogniser: Recogniser | None = None
    router: Router = _ROUTER
    candidates: int = 100
    vector_weight: float = VECTOR_WEIGHT
    text_weight: float = TEXT_WEIGHT
    inverses: Mapping[str, str] = field(default_factory=dict, hash=False)
    calibration: Calibration | bool = True
    score_threshold: float | None = field(
        default=None,
        metadata=offered(
            float,
            "Leave out hits with a lower score, from 0 to 1.",
            minimum=0,
        ),
    )
    min_score: float | None = None
    min_confidence: float | None = None
    min_graph_score: float | None = None
    on_embedder_error: OnEmbedderError = "raise"

    def __post_init__(self) -> None:
        if self.method not in _METHODS:
            raise InputError(f"unknown method {self.method!r}: use one of {', '.join(_METHODS)}")
        if self.on_embedder_error not in get_args(OnEmbedderError):
            raise InputError(f'on_embedder_error is {self.on_embedder_error!r}: use "raise" or "keyword"')
        reranker = self.reranker
        if callable(reranker) and not isinstance(reranker, type) and not isinstance(reranker, Reranker):
            reranker = ScoreReranker(reranker)
        checked = {
            "k": positive(self.k, "k"),
            "candidates": positive(self.candidates, "candidates"),
            "use_graph": bool(self.use_graph),
            "reranker": reranker,
            "vector_weight": _number(self.vector_weight, "vector_weight"),
            "text_weight": _number(self.text_weight, "text_weight"),
            "inverses": dict(self.inverses),
            "score_threshold": None
            if self.score_threshold is None
            else _number(self.score_threshold, "score_threshold"),
        }
        for name in ("min_score", "min_confidence", "min_graph_score"):
            value = getattr(self, name)
            checked[name] = None if value is None else _number(value, name, most=1)
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
        names = [one.name for one in fields(self)]
        for name in given:
            if name not in names:
                raise InputError(unknown_name(name, names, "search setting"))
        changed = {name: value for name, value in given.items() if value is not None}
        return replace(self, **changed) if changed else self

    @cached_property
    def plan(self) -> Plan:
        """The settings with all defaults that depend on others."""
        reranker = self.reranker
        if reranker is True:
            reranker = self.graph.reranker if self.fusion is None and self.graph.reranker is not None else False
        gate = self.gate or self.graph.gate or Gate()
        limits = {name: getattr(self, name) for name in ("min_score", "min_confidence", "min_graph_score")}
        limits = {name: value for name, value in limits.items() if value is not None}
        return Plan(
            k=self.k,
            method=self.method,
            use_graph=self.use_graph,
            candidates=self.candidates,
            recogniser=self.recogniser or self.graph.recogniser or Recogniser(),
            graph=self.graph,
            fusion=self.fusion or self.graph.fusion,
            reranker=reranker or None,  # type: ignore[arg-type]
            gate=replace(gate, **limits) if limits else gate,
            vector_weight=self.vector_weight,
            text_weight=self.text_weight,
            inverses=tuple(sorted(self.inverses.items())),
            calibration=Calibration() if self.calibration is True else self.calibration or None,
            score_threshold=self.score_threshold,
            on_embedder_error=self.on_embedder_error,
        )


class SearchFields(TypedDict, total=False):
    """The fields of :class:`SearchSettings` as keywords, for type checkers. None counts as not given."""

    method: Method | None
    k: int | None
    graph: GraphStrategy | None
    use_graph: bool | None
    fusion: Fusion | None
    reranker: Reranker | PassageScores | bool | None
    gate: Gate | None
    recogniser: Recogniser | None
    router: Router | None
    candidates: int | None
    vector_weight: float | None
    text_weight: float | None
    inverses: Mapping[str, str] | None
    calibration: Calibration | bool | None
    score_threshold: float | None
    min_score: float | None
    min_confidence: float | None
    min_graph_score: float | None
    on_embedder_error: OnEmbedderError | None


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The settings of one query with all defaults resolved, and what the call adds. Part of the key of a cache."""

    k: int
    method: Method
    use_graph: bool
    candidates: int
    recogniser: Recogniser
    graph: GraphStrategy
    fusion: Fusion
    reranker: Reranker | None
    gate: Gate
    route: str = ""
    vector_weight: float = VECTOR_WEIGHT
    text_weight: float = TEXT_WEIGHT
    inverses: tuple[tuple[str, str], ...] = ()
    calibration: Calibration | None = None
    score_threshold: float | None = None
    seeds: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    on_embedder_error: OnEmbedderError = field(default="raise", compare=False)  # an answer is the same with both


def options_of(surface: Surface) -> list[Option]:
    """Return the settings that a surface offers as options, in the order of the fields."""
    return [
        Option(one.name, _default(one), **one.metadata)
        for one in fields(SearchSettings)
        if surface in one.metadata.get("on", ())
    ]


def positive(number: Any, name: str) -> int:
    """Return a positive integer; raise ``InputError`` for any other value."""
    try:
        integer = as_integer(number)
    except TypeError:
        integer = 0
    if isinstance(number, bool) or not 1 <= integer < 1 << 31:  # search indexes count with 32 bits
        raise InputError(f"{name} is {number!r:.80}: use an integer of at least 1, below 2^31")
    return integer


def _number(number: Any, name: str, most: float = math.inf) -> float:
    is_number = isinstance(number, (int, float)) and not isinstance(number, bool)
    if not is_number or not 0 <= number <= most or number == math.inf:
        wanted = "a number of at least 0" if most == math.inf else f"a number from 0 to {most:g}"
        raise InputError(f"{name} is {number!r}: use {wanted}")
    return float(number)


def _default(one: Field[Any]) -> Any:
    return one.default if one.default is not MISSING else None
