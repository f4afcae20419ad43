"""The parameters of an operation of the gateway, from which HTTP routes and MCP tools are made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from graphrag_core.query.settings import Option, Surface, options_of
from graphrag_core.serve.gateway import Gateway


def parameters(
    operation: Callable[..., Any], surface: Surface, *, omit: Collection[str] = ()
) -> list[inspect.Parameter]:
    """Return the parameters of an operation, by keyword and without the key.

    The keywords of :meth:`Gateway.retrieve` are the search settings that ``surface`` offers; those of other operations
    are what it takes besides a question.
    """
    found = inspect.signature(operation, eval_str=True).parameters.values()
    named = [one for one in found if one.kind is not one.VAR_KEYWORD and one.name not in ("self", "key")]
    listed = {one.name: one.replace(kind=one.KEYWORD_ONLY) for one in named}
    if operation is Gateway.retrieve:
        listed |= {option.name: _setting(option) for option in options_of(surface)}
    elif any(one.kind is one.VAR_KEYWORD for one in found):
        listed |= {one.name: one for one in parameters(Gateway.retrieve, surface)}
    return [one for one in listed.values() if one.name not in omit]


def _setting(option: Option) -> inspect.Parameter:
    kind: Any = Literal[option.choices] if option.choices else option.type
    text = f"{option.help} Default: the server's setting."
    bounds = Field(ge=option.minimum, le=option.maximum, description=text)
    return parameter(option.name, Annotated[kind | None, bounds], None)


def parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """Return a parameter that is given by keyword."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def request_model(name: str, listed: Iterable[inspect.Parameter]) -> type[BaseModel]:
    """Return a model of a request's body. Unknown fields are refused: a misspelled filter must not open the scope."""
    fields: dict[str, Any] = {
        one.name: (one.annotation, ... if one.default is one.empty else one.default) for one in listed
    }
    return create_model(f"{name.title()}Request", __config__=ConfigDict(extra="forbid"), **fields)
