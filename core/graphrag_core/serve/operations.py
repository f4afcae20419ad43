"""The parameters of an operation of the gateway, from which HTTP routes and MCP tools are made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from graphrag_core.serve.gateway import Gateway

_SETTINGS: dict[str, Any] = {
    "k": Annotated[int | None, Field(ge=1, description="The number of passages. Default: the server's setting.")],
    "method": Annotated[
        Literal["hybrid", "vector", "keyword", "graph", "agentic", "global"] | None,
        Field(
            description="hybrid is best for most questions, keyword for exact ids and error codes, global for "
            "overviews; agentic chooses."
        ),
    ],
    "use_graph": Annotated[bool | None, Field(description="False restricts hybrid to vector and keyword search.")],
    "score_threshold": Annotated[float | None, Field(ge=0, description="Leave out hits with a lower score.")],
}


def parameters(operation: Callable[..., Any], *, omit: Collection[str] = ()) -> list[inspect.Parameter]:
    """Return the parameters of an operation, by keyword and without the key.

    The keywords of :meth:`Gateway.retrieve` are the search settings; those of other operations are what it takes.
    """
    found = inspect.signature(operation, eval_str=True).parameters.values()
    kept = [one for one in found if one.name not in ("self", "key", *omit) and one.kind is not one.VAR_KEYWORD]
    listed = [one.replace(kind=one.KEYWORD_ONLY) for one in kept]
    if any(one.kind is one.VAR_KEYWORD for one in found):
        listed += [one for one in _SEARCH if one.name not in (*omit, *(known.name for known in listed))]
    return listed


def request_model(name: str, listed: Iterable[inspect.Parameter]) -> type[BaseModel]:
    """Return a model of a request's body. Unknown fields are refused: a misspelled filter must not open the scope."""
    fields: dict[str, Any] = {
        one.name: (one.annotation, ... if one.default is one.empty else one.default) for one in listed
    }
    return create_model(f"{name.title()}Request", __config__=ConfigDict(extra="forbid"), **fields)


def parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """Return a parameter that is given by keyword."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_SEARCH: list[inspect.Parameter] = []  # what Gateway.retrieve takes besides the question
_SEARCH += parameters(Gateway.retrieve, omit=["question"])
_SEARCH += [parameter(name, kind, None) for name, kind in _SETTINGS.items()]
