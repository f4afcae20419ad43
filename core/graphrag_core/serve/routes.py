"""HTTP routes whose parameters, documentation and responses are those of an operation of the gateway."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any, Literal

from fastapi import Depends, FastAPI, Query, Request, Security
from fastapi.responses import Response
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from pydantic_core import to_json

from graphrag_core.errors import FilterError
from graphrag_core.serve.gateway import Gateway
from graphrag_core.serve.http import secret_of, while_connected
from graphrag_core.serve.keys import Key
from graphrag_core.serve.operations import parameter, parameters, request_model


async def authenticated(request: Request) -> Key:
    """Return the key of a request, as a dependency of a route."""
    gateway: Gateway = request.app.state.gateway
    key = gateway.authenticate(secret_of(request.headers))
    request.state.key = key
    return key


Caller = Annotated[Key, Depends(authenticated)]


def _where(
    where: Annotated[
        str | None,
        Query(
            description="A filter on metadata, as JSON. It narrows that of the key.", examples=['{"team": "identity"}']
        ),
    ] = None,
) -> dict[str, Any] | None:
    """Return the filter of a query parameter, which is JSON."""
    if where is None:
        return None
    try:
        parsed = json.loads(where)
    except (ValueError, RecursionError) as error:
        raise FilterError(f"where is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise FilterError('where must be a JSON object such as {"team": "identity"}')
    return parsed


def add_route(
    app: FastAPI,
    verb: str,
    path: str,
    endpoint: Callable[..., Any],
    listed: Sequence[inspect.Parameter],
    **settings: Any,
) -> None:
    """Add an endpoint that takes a request, a key and further parameters."""
    common = [parameter("request", Request), parameter("key", Caller)]
    endpoint.__signature__ = inspect.Signature([*common, *listed])  # type: ignore[attr-defined]
    app.add_api_route(path, endpoint, methods=[verb], dependencies=[Security(HTTPBearer(auto_error=False))], **settings)


def add_operation(
    app: FastAPI,
    verb: Literal["GET", "POST", "DELETE"],
    path: str,
    tag: str,
    operation: Callable[..., Any],
    *,
    writes: bool = False,
    omit: Collection[str] = (),
) -> None:
    """Add a route whose parameters, documentation and response are those of an operation of the gateway."""
    name, listed = operation.__name__, parameters(operation, "http", omit=omit)
    if verb == "POST":
        listed = [parameter("body", request_model(name, listed))]
    listed = [parameter("where", Annotated[Any, Depends(_where)]) if one.name == "where" else one for one in listed]

    async def endpoint(request: Request, key: Key, **arguments: Any) -> Response:
        given = given_fields(arguments["body"]) if verb == "POST" else arguments
        return await respond(request, key, operation, given, writes=writes)

    add_route(
        app, verb, path, endpoint, listed, name=name, tags=[tag], description=described(operation),
        response_model=inspect.signature(operation, eval_str=True).return_annotation or None,
    )  # fmt: skip


async def respond(
    request: Request, key: Key, operation: Callable[..., Any], given: dict[str, Any], *, writes: bool = False
) -> Response:
    """Run an operation in a thread, and return what it returns as JSON."""
    gateway: Gateway = request.app.state.gateway

    def work() -> bytes:
        return to_json(operation(key, **given), inf_nan_mode="null")

    if writes:  # not cancelled if the client goes away: the change was asked for
        text = await gateway.run_write(key, work)
    else:
        text = await while_connected(request.receive, gateway.run(key, work))
    return Response(text, media_type="application/json")


def given_fields(body: BaseModel) -> dict[str, Any]:
    """Return the fields that a body has."""
    return {name: getattr(body, name) for name in body.model_fields_set}


def described(operation: Callable[..., Any]) -> str:
    """Return the docstring of an operation, without what is for callers in Python."""
    return (inspect.getdoc(operation) or "").partition("\n\nRaises\n")[0]
