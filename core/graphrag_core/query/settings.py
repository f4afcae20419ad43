"""``SearchSettings``: every setting of a question, in one frozen value.

The retriever, the adapters, the command line, HTTP and MCP take their options from its fields
(:func:`search_options`) and pass on what a caller gave as keywords::

    retriever = GraphRetriever(index, settings.replace(**given))  # None in ``given`` counts as not given
    result = retriever.retrieve(question, **given)  # or for one question

A number of a part is set by its path: ``settings.replace(**{"gate.min_score": 0.3})``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, Literal, get_args, get_origin, get_type_hints

from graphrag_core.context.expanded import Around
from graphrag_core.context.settings import ContextFormat
from graphrag_core.errors import InputError, check_integer, check_number, unknown_name
from graphrag_core.query.fusion import CHANNELS, Fusion, Gate
from graphrag_core.query.query import OnEmbedderError
from graphrag_core.query.recognise import Recogniser
from graphrag_core.query.rerank import ScoreReranker, ScoreTexts
from graphrag_core.query.reranker import Reranker
from graphrag_core.query.routing import Router
from graphrag_core.query.strategies.pagerank import PageRank
from graphrag_core.query.strategies.strategy import GraphStrategy

Method = Literal["hybrid", "vector", "keyword", "graph", "agentic"]
"""How a question is searched."""

_METHODS: tuple[str, ...] = get_args(Method)
_MAX_REPLACED = 256  # settings that are kept for the changes that come with a question
_PAGE_RANK, _ROUTER, _CONTEXT = PageRank(), Router(), ContextFormat()
_PARTS: tuple[tuple[str, type, tuple[type, ...]], ...] = (  # fields, their classes, and what else is allowed
    ("graph", GraphStrategy, ()),
    ("fusion", Fusion, (type(None),)),
    ("reranker", Reranker, (bool,)),
    ("gate", Gate, (type(None),)),
    ("recogniser", Recogniser, (type(None),)),
    ("router", Router, ()),
    ("context", ContextFormat, ()),
)
PARTS = tuple(name for name, _, _ in _PARTS)
"""The fields of :class:`SearchSettings` that are objects with settings."""


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


@dataclass(frozen=True, kw_only=True, repr=False)
class SearchSettings:
    """Every setting of a question. Immutable; :meth:`replace` returns a changed copy.

    Parameters
    ----------
    method
        ``"hybrid"`` uses all three channels; ``"vector"``, ``"keyword"`` and ``"graph"`` use one, of
        which the last two may find fewer than ``k``; ``"agentic"`` lets ``router`` choose a method for each question.
    k
        How many passages to return.
    graph
        The graph strategy.
    use_graph
        False restricts the hybrid method to vector and keyword search.
    fusion
        How plain search and graph become one ranking. None is the strategy's own, which for
        PageRank is :class:`~graphrag_core.strategies.ReciprocalRank`.
    reranker
        Orders the passages of the hybrid method. True uses :class:`~graphrag_core.strategies.Linear` where both the
        strategy and the fusion are the default; False orders them by the fusion alone. A function of the question and a
        list of texts that returns one score for each, or a coroutine function, orders the best 50 of them.
    gate, recogniser
        When the graph is trusted and how similar passages must be, and how entities are found in a question. None is
        the strategy's own, as :class:`~graphrag_core.strategies.RelatedEntities` has them, or else the default.
    router
        Chooses a method for ``"agentic"``.
    candidates
        How many passages each channel is asked for, at least ``k``.
    vector_weight
        The weight of vector search in plain search, from 0 to 1; keyword search has the rest. A channel with weight 0
        is not searched. None is the weight that suits the embedder: its attribute ``vector_weight``, or else 0.5.
    score_threshold
        Hits with a lower score are left out, so that a result can be empty. It applies to
        :attr:`Hit.score <graphrag_core.Hit>`, whatever the score of the method and the fusion is.
    on_embedder_error
        What a query does if the embedder fails or returns a vector that cannot be used. ``"raise"`` raises
        :class:`~graphrag_core.errors.EmbedderError`, which is also of the type that the embedder raised, and whose
        ``__cause__`` is that exception. ``"keyword"`` searches by keyword and graph, logs a warning, and says so in
        ``fallback``, ``advice`` and ``embedder_failed`` of the result, which is not cached.
    context
        How :meth:`Result.context <graphrag_core.Result.context>` writes results
        (:class:`~graphrag_core.strategies.ContextFormat`).
    expand
        What is read around each hit: ``"section"`` or ``"neighbours"``, the passages before and after it
        (:meth:`Result.expand <graphrag_core.Result.expand>`). The hits stay the same.

    Raises
    ------
    InputError
        A value cannot be used.

    Examples
    --------
    >>> SearchSettings(k=10).replace(method="keyword", k=None)
    SearchSettings(method='keyword', k=10)
    >>> SearchSettings().replace(**{"gate.min_score": 0.3}).gate.min_score
    0.3
    >>> SearchSettings().replace(vector_wight=1)
    Traceback (most recent call last):
        ...
    graphrag_core.errors.InputError: unknown search setting 'vector_wight': did you mean 'vector_weight'?
    >>> SearchSettings().replace(min_score=0.3)
    Traceback (most recent call last):
        ...
    graphrag_core.errors.InputError: unknown search setting 'min_score': did you mean 'gate.min_score'?
    """

    method: Method = field(
        default="hybrid",
        metadata={
            "type": str,
            "help": "How to search; agentic selects a method for the question.",
            "choices": _METHODS,
        },
    )
    k: int = field(default=5, metadata={"type": int, "help": "Number of passages to return.", "minimum": 1})
    graph: GraphStrategy = _PAGE_RANK
    use_graph: bool = field(default=True, metadata={"type": bool, "help": "Whether hybrid search uses the graph."})
    fusion: Fusion | None = None
    reranker: Reranker | ScoreTexts | bool = True
    gate: Gate | None = None
    recogniser: Recogniser | None = None
    router: Router = _ROUTER
    candidates: int = 50
    vector_weight: float | None = None
    score_threshold: float | None = field(
        default=None,
        metadata={"type": float, "help": "Leave out hits with a lower score, from 0 to 1.", "minimum": 0},
    )
    on_embedder_error: OnEmbedderError = "raise"
    context: ContextFormat = _CONTEXT
    expand: Around | None = field(
        default=None,
        metadata={
            "type": str,
            "help": "Read around each passage: its section, or the passages before and after it.",
            "choices": get_args(Around),
        },
    )

    def __post_init__(self) -> None:
        named: tuple[tuple[str, tuple[str, ...]], ...] = (
            ("method", _METHODS),
            ("on_embedder_error", get_args(OnEmbedderError)),
            ("expand", get_args(Around)),
        )
        for name, allowed in named:
            value = getattr(self, name)
            if value not in allowed and (name, value) != ("expand", None):
                raise InputError(f"unknown {name} {value!r}: use one of {', '.join(allowed)}")
        scores = callable(self.reranker) and not isinstance(self.reranker, (type, Reranker))
        checked: dict[str, Any] = {
            "k": check_integer(self.k, "k"),
            "candidates": check_integer(self.candidates, "candidates"),
            "use_graph": bool(self.use_graph),
            "reranker": ScoreReranker(self.reranker) if scores else self.reranker,  # type: ignore[arg-type]
        }
        if self.vector_weight is not None:
            checked["vector_weight"] = check_number(self.vector_weight, "vector_weight", 1)
        if self.score_threshold is not None:
            checked["score_threshold"] = check_number(self.score_threshold, "score_threshold")
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        for name, kind, others in _PARTS:
            if not isinstance(value := getattr(self, name), (kind, *others)):
                word = "graph strategy" if kind is GraphStrategy else name
                raise InputError(
                    f"{value!r:.80} is not a {word}: use an object of a subclass of {kind.__name__}, no class or name"
                )
        if unknown := set((self.fusion or self.graph.fusion).weighed) - CHANNELS:
            raise InputError(f"no ranking is named {min(unknown)!r}: weights are for {', '.join(sorted(CHANNELS))}")

    def __repr__(self) -> str:
        """Return the fields that are not the default."""
        changed = (one.name for one in fields(self) if getattr(self, one.name) != one.default)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in changed)})"

    def replace(self, **given: Any) -> SearchSettings:
        """Return the settings with some fields replaced; None counts as not given.

        A name with dots replaces a field of a part: ``"gate.min_score"`` replaces ``min_score`` of the gate. A part
        that the settings do not have is the strategy's own.

        Raises
        ------
        InputError
            A name is unknown, or a value cannot be used.
        """
        for name in given:
            if name.partition(".")[0] not in self.__dataclass_fields__:
                parts = ((part, getattr(self.resolved, part)) for part, _, _ in _PARTS)
                paths = [f"{part}.{name}" for part, value in parts if hasattr(value, name)]
                raise InputError(unknown_name(name, paths or [*self.__dataclass_fields__], "search setting"))
        changed = {name: value for name, value in given.items() if value is not None}
        if not changed:
            return self
        # The same few changes come with every question: the settings that they give are checked once.
        try:
            key = frozenset((name, type(value), value) for name, value in changed.items())
        except TypeError:  # a value that cannot be hashed
            return self._changed(changed)
        settings = self._replaced.get(key)
        if settings is None:
            if len(self._replaced) >= _MAX_REPLACED:
                self._replaced.clear()
            settings = self._replaced[key] = self._changed(changed)
        return settings

    def _changed(self, changed: dict[str, Any]) -> SearchSettings:
        settings = replace(self, **{name: value for name, value in changed.items() if "." not in name})
        for name, value in changed.items():
            part, dot, path = name.partition(".")
            if dot:
                settings = replace(settings, **{part: _with_field(getattr(settings.resolved, part), path, value, name)})
        return settings

    @cached_property
    def _replaced(self) -> dict[Any, SearchSettings]:
        return {}

    def __getstate__(self) -> dict[str, Any]:  # without what is computed from the fields
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def resolved(self) -> ResolvedSettings:
        """The settings with all defaults that depend on others."""
        graph, reranker = self.graph, self.reranker
        if reranker is True:
            reranker = graph.reranker if self.fusion is None and graph.reranker is not None else False
        parts = {
            "fusion": self.fusion or graph.fusion,
            "reranker": reranker,
            "gate": self.gate or graph.gate or Gate(),
            "recogniser": self.recogniser or graph.recogniser or Recogniser(),
        }
        return ResolvedSettings(**{one.name: getattr(self, one.name) for one in fields(self)} | parts)


@dataclass(frozen=True, kw_only=True, repr=False)
class ResolvedSettings(SearchSettings):
    """Settings in which no part is None. A part of the key of the cache."""

    fusion: Fusion
    reranker: Reranker | Literal[False]
    gate: Gate
    recogniser: Recogniser
    on_embedder_error: OnEmbedderError = field(default="raise", compare=False)  # an answer is the same with both

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """The hash of the fields that are compared; a cache asks for it with every question."""
        return hash(tuple(getattr(self, one.name) for one in fields(self) if one.compare))

    @property
    def is_reranked(self) -> bool:
        """Whether a reranker orders the passages."""
        return self.method == "hybrid" and bool(self.reranker)

    @property
    def scorer(self) -> ScoreReranker | None:
        """The reranker that orders the first passages by the scores of a function, if it does."""
        return self.reranker if self.is_reranked and isinstance(self.reranker, ScoreReranker) else None

    @property
    def ranked(self) -> int:
        """How many passages each channel is asked for, before those that are only appended."""
        return self.candidates if self.is_reranked else max(self.candidates, self.k)

    @property
    def searches_graph(self) -> bool:
        """Whether the graph is searched, unless the gate skips it."""
        return self.use_graph and self.method in ("hybrid", "graph")


def _with_field(part: Any, path: str, value: Any, name: str) -> Any:
    """Return a part of the settings with the field at a path replaced. ``name`` is the whole path, for errors.

    A part is a dataclass, or numbers by name: a mapping, or a tuple of pairs.
    """
    first, _, rest = path.partition(".")
    if isinstance(part, (Mapping, tuple)):
        numbers: dict[str, Any] = dict(part)
        _check_known(first, numbers, path, name)
        _check_type(value, [float], name)
        return type(part)((numbers | {first: value}).items())  # type: ignore[call-arg]
    if not is_dataclass(part) or isinstance(part, type):
        raise InputError(f"{name} cannot be set: {part!r:.80} has no settings")
    _check_known(first, [one.name for one in fields(part)], path, name)
    if rest:
        value = _with_field(getattr(part, first), rest, value, name)
    else:
        hint = get_type_hints(type(part))[first]
        if any(get_origin(kind) is tuple and str in get_args(kind) for kind in (hint, *get_args(hint))):
            return replace(part, **{first: _names(value, name)})
        kinds = [str if get_origin(kind) is Literal else kind for kind in (hint, *get_args(hint))]
        _check_type(value, [kind for kind in kinds if isinstance(kind, type) and kind is not type(None)], name)
    return replace(part, **{first: value})


def _names(value: Any, name: str) -> tuple[str, ...]:
    names = tuple(value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else ())
    if not names or not all(isinstance(one, str) and one.strip() for one in names):
        raise InputError(f"{name} is {value!r:.80}: use names, such as 'uses' or 'uses,owns'")
    return tuple(one.strip() for one in names)


def _check_known(first: str, known: Iterable[str], path: str, name: str) -> None:
    if first not in known:
        above = name[: len(name) - len(path)]
        raise InputError(unknown_name(name, [above + one for one in known], "search setting"))


def _check_type(value: Any, kinds: Sequence[type], name: str) -> None:
    if not any(_fits(value, kind) for kind in kinds):
        words = " or ".join(_WORDS.get(kind, f"a {kind.__name__}") for kind in kinds)
        raise InputError(f"{name} is {value!r:.80}: use {words}")


_WORDS: dict[type, str] = {bool: "true or false", int: "an integer", float: "a number", str: "a text"}


def _fits(value: Any, kind: type) -> bool:
    """Return whether a value is of the type of a field. An integer is a number too, true and false are not."""
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def search_options() -> list[Option]:
    """Return the settings that are offered as options, in the order of the fields."""
    return [Option(one.name, one.default, **one.metadata) for one in fields(SearchSettings) if one.metadata]
