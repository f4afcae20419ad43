"""The parameters of an operation of the gateway, from which HTTP routes and MCP tools are made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from graphrag_apps.serve.gateway import Gateway
from graphrag_core.query.memory_tool import FACT_ARGUMENTS, REQUIRED
from graphrag_core.query.settings import Option, search_options


def parameters(operation: Callable[..., Any], *, omit: Collection[str] = ()) -> list[inspect.Parameter]:
    """Return the parameters of an operation, by keyword and without the key.

    ``**keywords`` are replaced: in :meth:`Gateway.retrieve` by the search settings that are offered, in
    :meth:`Gateway.remember` by the arguments of a fact, in other operations by the parameters of ``retrieve``.
    """
    name = getattr(operation, "func", operation).__name__
    signature = inspect.signature(operation, eval_str=True).parameters.values()
    listed = [one.replace(kind=one.KEYWORD_ONLY) for one in signature if one.kind is not one.VAR_KEYWORD]
    if len(listed) < len(signature):
        if name == "retrieve":
            settings = (replace(one, default=None, help=f"{one.help} Default: the server's setting.")
                        for one in search_options())  # fmt: skip
            listed += map(_option, settings)
        elif name == "remember":
            listed += map(_option, FACT_ARGUMENTS)
        else:
            listed += parameters(Gateway.retrieve)
    return list({one.name: one for one in listed if one.name not in ("self", "key", *omit)}.values())


def _option(option: Option) -> inspect.Parameter:
    kind: Any = Literal[option.choices] if option.choices else option.type
    kind = Annotated[
        kind | None if option.default is None else kind,
        Field(ge=option.minimum, le=option.maximum, description=option.help),
    ]
    return parameter(option.name, kind, inspect.Parameter.empty if option.default is REQUIRED else option.default)


def parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    """Return a parameter that is given by keyword."""
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def request_model(name: str, listed: Iterable[inspect.Parameter]) -> type[BaseModel]:
    """Return a model of a request's body. Unknown fields are refused: a misspelled filter must not open the scope."""
    fields: dict[str, Any] = {
        one.name: (one.annotation, ... if one.default is one.empty else one.default) for one in listed
    }
    return create_model(f"{name.title()}Request", __config__=ConfigDict(extra="forbid"), **fields)
