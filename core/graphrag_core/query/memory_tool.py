"""The memory tools for agents: names, descriptions, arguments and filters. An adapter or a server wraps them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from graphrag_core.context.escape import one_line
from graphrag_core.context.settings import Style
from graphrag_core.errors import InputError
from graphrag_core.filters import Condition, Filter, Group, Not, Where, conditions, parse, parse_all
from graphrag_core.query.settings import SearchSettings
from graphrag_core.query.strategies.related import RelatedEntities
from graphrag_core.result import Result
from graphrag_core.text import Tokenizer

if TYPE_CHECKING:
    from pydantic import BaseModel


class Option(NamedTuple):
    """An argument of a tool, with one sentence for a model; a number may have bounds."""

    name: str
    default: Any
    type: type
    help: str
    minimum: float | None = None
    maximum: float | None = None


NAME = "memory_search"
DESCRIPTION = (
    "Search memory and the knowledge graph for relevant information. "
    "Returns the best passages, including those that only the graph leads to."
)
NOTHING_FOUND = "Nothing was found."
MAX_TOKENS = 1_000
REQUIRED: Any = ...
"""The default of an argument that must be given."""

SEARCH_ARGUMENTS = (
    Option("query", REQUIRED, str, "What to look for, in words; names help."),
    Option("max_results", 10, int, "The number of passages to return. A design may add some from the graph.", 1, 100),
    Option("use_graph", True, bool, "Whether to follow the knowledge graph."),
    Option("min_graph_score", None, float,
           "Leave out passages to which the graph leads by a weaker relation: its strength, from 0 to 1. "
           "By default the setting of the retriever.", 0, 1),
)  # fmt: skip


def search_arguments() -> type[BaseModel]:
    """Return the arguments of the search tool as a Pydantic model, which both frameworks take."""
    from pydantic import Field, create_model  # noqa: PLC0415 - a dependency of the frameworks, not of the core

    fields: dict[str, Any] = {
        one.name: (
            one.type if one.default is not None else one.type | None,
            Field(one.default, description=one.help, ge=one.minimum, le=one.maximum),
        )
        for one in SEARCH_ARGUMENTS
    }
    return create_model(NAME, **fields)


def search_settings(arguments: Mapping[str, Any], settings: SearchSettings) -> dict[str, Any]:
    """Return the settings of the search that a model asks for by the arguments of the tool, without the query.

    In design 001 ``max_results`` is the number of hits without the graph, which then have no threshold.
    """
    count, use_graph, least = (arguments.get(one.name, one.default) for one in SEARCH_ARGUMENTS[1:])
    given = {"k": count, "use_graph": use_graph, "gate.min_graph_score": least}
    if isinstance(settings.graph, RelatedEntities):
        given |= {"k": None} if use_graph else {"gate.min_score": 0.0}
    return given


class ContextArguments(TypedDict, total=False):
    """What :meth:`Result.context <graphrag_core.Result.context>` takes.

    ``max_tokens`` and ``style`` are those of ``context`` of the settings, or 1,000 and ``"passages"``.
    """

    max_tokens: int
    style: Style
    include_relationships: bool | None
    include_sources: bool
    tokenizer: Tokenizer | None


def to_content(result: Result, settings: ContextArguments) -> str:
    """Return what the agent reads: the context, and what to do if there is none or the graph was skipped."""
    if not result.hits:
        return f"{NOTHING_FOUND} {one_line(result.advice[:1].upper() + result.advice[1:])}."
    given: dict[str, Any] = {
        "max_tokens": result.context_format.max_tokens or MAX_TOKENS,
        "style": result.context_format.style or "passages",
        **settings,
    }
    context = str(result.context(**given))
    is_noted = result.advice and (not result.graph_ran or result.embedder_failed)
    return f"{context}\n\nNote: {one_line(result.advice)}." if is_noted else context


# -- filters of agents: values, or functions of the request if one agent serves all users

OfRequest = Callable[[Any], Where]
"""Returns the filter of a request. What a request is, the adapter says."""

_ADVICE = "it has to return a mapping that names the user, such as {'user': 'ada'}; pass the user with the request"


def per_request(where: Where | OfRequest | None, name: str) -> Callable[[Any], Filter | None]:
    """Return a function from a request to its filter; ``name`` is what is given, for errors.

    A filter is read once, now; an :data:`OfRequest` is called for each request. The function that is returned raises
    :class:`InputError` if that fails because the request lacks something, or if it returns nothing or a filter with a
    value that is None, blank or empty.

    >>> of_user = per_request(lambda request: {"user": request.get("user")}, "filter of the agent")
    >>> of_user({"user": "ada"})
    Condition(key='user', operator='eq', values=(('text', 'ada'),))
    """
    if not callable(where):
        value = parse_all(where)
        return lambda _: value

    def of_request(request: Any) -> Filter | None:
        try:
            found = where(request)
        except (AttributeError, LookupError, TypeError) as error:
            raise InputError(f"the function for {name} failed with {error!r:.80}: {_ADVICE}") from error
        if not _names_user(found):
            raise InputError(f"the function for {name} returned {found!r:.80}: {_ADVICE}")
        return parse(found)

    return of_request


def _names_user(found: Any) -> bool:
    """Return whether neither a filter nor any value in it is empty."""
    if isinstance(found, (Condition, Not, Group)):
        return all(value != "" for condition in conditions(found) for _, value in condition.values)  # "" is null, too
    return isinstance(found, Mapping) and not _is_empty(found)


def _is_empty(value: Any) -> bool:
    if value is None or isinstance(value, str):
        return not (value or "").strip()
    if isinstance(value, Sized) and len(value) == 0:
        return True
    parts = value.values() if isinstance(value, Mapping) else value
    return isinstance(value, (Mapping, list, tuple, set, frozenset)) and any(map(_is_empty, parts))
