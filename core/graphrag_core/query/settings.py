"""``SearchSettings``: every setting of a question, in one frozen value.

The retriever, the adapters, the command line, HTTP and MCP pass on what a caller gave as keywords::

    retriever = GraphRetriever(index, settings.replace(**given))  # None in ``given`` counts as not given
    result = retriever.retrieve(question, **given)  # or for one question

A number of a part is set by its path: ``settings.replace(**{"gate.min_score": 0.3})``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from graphrag_core.context.expanded import Around
from graphrag_core.context.settings import ContextFormat
from graphrag_core.errors import InputError, check_integer, check_number, unknown_name
from graphrag_core.query.fusion import CHANNELS, Fusion, Gate
from graphrag_core.query.linear import Linear
from graphrag_core.query.query import OnEmbedderError
from graphrag_core.query.recognise import Recogniser
from graphrag_core.query.rerank import Reranker, ScoreTexts
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


@dataclass(frozen=True, kw_only=True, repr=False)
class SearchSettings:
    """Every setting of a question. Immutable; :meth:`replace` returns a changed copy.

    Parameters
    ----------
    method
        ``"hybrid"`` uses all three channels; ``"vector"``, ``"keyword"`` and ``"graph"`` use one, of
        which the last two may find fewer than ``k``; ``"agentic"`` lets ``router`` choose a method for each question.
    k, candidates
        How many passages to return, and how many each channel is asked for, at least ``k``.
    graph, use_graph
        The graph strategy. Without ``use_graph`` the hybrid method is vector and keyword search.
    fusion
        How plain search and graph become one ranking. None is the strategy's own, which for
        PageRank is :class:`~graphrag_core.strategies.ReciprocalRank`.
    reranker
        Orders the passages of the hybrid method. True uses :class:`~graphrag_core.strategies.Linear` where both the
        strategy and the fusion are the default; False orders them by the fusion alone. A function of the question and a
        list of texts that returns one score for each, or a coroutine function, orders the best 50 of them.
    gate, recogniser, router
        When the graph is trusted and how similar passages must be, how entities are found in a question, and what
        chooses a method for ``"agentic"``. None is the strategy's own, or else the default.
    vector_weight
        The weight of vector search in plain search, from 0 to 1; keyword search has the rest. A channel with weight 0
        is not searched. None is the weight that suits the embedder: its attribute ``vector_weight``, or else 0.5.
    score_threshold
        Hits with a lower :attr:`Hit.score <graphrag_core.Hit>` are left out, so that a result can be empty.
    on_embedder_error
        What a query does if the embedder fails or returns a vector that cannot be used. ``"raise"`` raises
        :class:`~graphrag_core.errors.EmbedderError`, which is also of the type that the embedder raised.
        ``"keyword"`` searches by keyword and graph, logs a warning, and says so in ``fallback``, ``advice`` and
        ``embedder_failed`` of the result, which is not cached.
    context, expand
        How :meth:`Result.context <graphrag_core.Result.context>` writes results, and what is read around each hit:
        its ``"section"``, or its ``"neighbours"``.

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
    >>> SearchSettings().replace(min_score=0.3)
    Traceback (most recent call last):
        ...
    graphrag_core.errors.InputError: unknown search setting 'min_score': did you mean 'gate.min_score'?
    """

    method: Method = field(default="hybrid", metadata={"type": str})
    k: int = field(default=5, metadata={"type": int})
    graph: GraphStrategy = _PAGE_RANK
    use_graph: bool = field(default=True, metadata={"type": bool})
    fusion: Fusion | None = None
    reranker: Reranker | ScoreTexts | bool = True
    gate: Gate | None = None
    recogniser: Recogniser | None = None
    router: Router = _ROUTER
    candidates: int = 50
    vector_weight: float | None = None
    score_threshold: float | None = field(default=None, metadata={"type": float})
    on_embedder_error: OnEmbedderError = "raise"
    context: ContextFormat = _CONTEXT
    expand: Around | None = field(default=None, metadata={"type": str})

    def __post_init__(self) -> None:
        for name, allowed in (("method", _METHODS), ("on_embedder_error", get_args(OnEmbedderError)),
                              ("expand", (*get_args(Around), None))):  # fmt: skip
            if getattr(self, name) not in allowed:
                known = ", ".join(filter(None, allowed))
                raise InputError(f"unknown {name} {getattr(self, name)!r}: use one of {known}")
        checked: dict[str, Any] = {name: check_integer(getattr(self, name), name) for name in ("k", "candidates")}
        for name, most in (("vector_weight", 1), ("score_threshold", math.inf)):
            if (number := getattr(self, name)) is not None:
                checked[name] = check_number(number, name, most)
        vars(self).update(checked, use_graph=bool(self.use_graph))
        for name, kind, others in _PARTS:
            value = getattr(self, name)
            is_function = name == "reranker" and callable(value) and not isinstance(value, type)
            if not is_function and not isinstance(value, (kind, *others)):
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
        """
        for name in given:
            if name.partition(".")[0] not in self.__dataclass_fields__:
                parts = ((part, getattr(self.resolved, part)) for part, _, _ in _PARTS)
                paths = [f"{part}.{name}" for part, value in parts if hasattr(value, name)]
                raise InputError(unknown_name(name, paths or [*self.__dataclass_fields__], "search setting"))
        changed = {name: value for name, value in given.items() if value is not None}
        # The same few changes come with every question: the settings that they give are checked once.
        known = vars(self).setdefault("_replaced", {})
        key = tuple((name, type(value), value) for name, value in changed.items())
        try:
            if key in known:
                return known[key]  # type: ignore[no-any-return]
        except TypeError:  # a value that cannot be hashed
            known, key = {}, ()
        settings = replace(self, **{name: value for name, value in changed.items() if "." not in name})
        for name, value in changed.items():
            part, dot, path = name.partition(".")
            if dot:
                settings = replace(settings, **{part: _with_field(getattr(settings.resolved, part), path, value, name)})
        if len(known) >= _MAX_REPLACED:
            known.clear()
        known[key] = settings
        return settings

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
    """Settings in which no part is None, and what follows from them. A part of the key of the cache.

    Attributes
    ----------
    second_stage, scorer
        What orders the passages of the hybrid method, and the function that orders the first of them then, if any.
    searches_graph
        Whether the graph is searched, unless the gate skips it.
    ranked
        How many passages each channel is asked for, before those that are only appended.
    """

    fusion: Fusion
    reranker: Reranker | ScoreTexts | Literal[False]
    gate: Gate
    recogniser: Recogniser
    on_embedder_error: OnEmbedderError = field(default="raise", compare=False)  # an answer is the same with both
    second_stage: ClassVar[Reranker | None]  # these are no fields, but attributes of each value
    scorer: ClassVar[Any]  # ScoreTexts or None: a function would be taken for a method
    searches_graph: ClassVar[bool]
    ranked: ClassVar[int]
    _hash: ClassVar[int]

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.reranker if self.method == "hybrid" and self.reranker else None
        scorer = None if isinstance(given, Reranker) else given
        vars(self).update(
            second_stage=Linear() if scorer else given,
            scorer=scorer,
            searches_graph=self.use_graph and self.method in ("hybrid", "graph"),
            ranked=self.candidates if given else max(self.candidates, self.k),
        )

    def __hash__(self) -> int:
        if "_hash" not in vars(self):  # a cache asks for it with every question
            vars(self)["_hash"] = hash(tuple(getattr(self, one.name) for one in fields(self) if one.compare))
        return self._hash


def _with_field(part: Any, path: str, value: Any, name: str) -> Any:
    """Return a part of the settings with the field at a path replaced. ``name`` is the whole path, for errors.

    A part is a dataclass, or numbers by name: a mapping, or a tuple of pairs.
    """
    first, _, rest = path.partition(".")
    are_numbers = isinstance(part, (Mapping, tuple))
    if not are_numbers and (not is_dataclass(part) or isinstance(part, type)):
        raise InputError(f"{name} cannot be set: {part!r:.80} has no settings")
    known = [*dict(part)] if are_numbers else [one.name for one in fields(part)]
    if first not in known:
        above = name[: len(name) - len(path)]
        raise InputError(unknown_name(name, [above + one for one in known], "search setting"))
    if rest:
        return replace(part, **{first: _with_field(getattr(part, first), rest, value, name)})
    if are_numbers:
        return type(part)({**dict(part), first: _checked(value, float, name)}.items())
    return replace(part, **{first: _checked(value, get_type_hints(type(part))[first], name)})


def _checked(value: Any, hint: Any, name: str) -> Any:
    """Return a value for a field with a type; names, of which there may be several, from a text with commas."""
    hints = (hint, *get_args(hint))
    if any(get_origin(kind) is tuple and str in get_args(kind) for kind in hints):
        names = value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else ()
        if not names or not all(isinstance(one, str) and one.strip() for one in names):
            raise InputError(f"{name} is {value!r:.80}: use names, such as 'uses' or 'uses,owns'")
        return tuple(one.strip() for one in names)
    kinds = [str if get_origin(kind) is Literal else kind for kind in hints]
    kinds = [kind for kind in kinds if isinstance(kind, type) and kind is not type(None)]
    if not any(_fits(value, kind) for kind in kinds):
        words = " or ".join(_WORDS.get(kind, f"a {kind.__name__}") for kind in kinds)
        raise InputError(f"{name} is {value!r:.80}: use {words}")
    return value


_WORDS: dict[type, str] = {bool: "true or false", int: "an integer", float: "a number", str: "a text"}


def _fits(value: Any, kind: type) -> bool:
    """Return whether a value is of the type of a field. An integer is a number too, true and false are not."""
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
