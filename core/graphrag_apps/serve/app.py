"""The HTTP API of a gateway: its routes, errors as JSON, Server-Sent Events, and the pages.

A route takes its parameters, its documentation and its response from an operation of the gateway.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Annotated, Any, Literal

from graphrag_apps.explore import Explorer, server_page
from graphrag_apps.explore.explorer import MAX_DRAWN, MAX_PAGE
from graphrag_apps.explore.page import POLICY
from graphrag_apps.page.templates import digest
from graphrag_apps.serve import models as api
from graphrag_apps.serve.errors import STATUS, NotAllowed, error_body, reported
from graphrag_apps.serve.gateway import Gateway
from graphrag_apps.serve.keys import Key
from graphrag_apps.serve.limits import ThreadPool
from graphrag_apps.serve.operations import parameter, parameters, request_model
from graphrag_core import __version__
from graphrag_core.errors import FilterError, GraphRAGError, MissingDependency

try:
    from fastapi import Depends, FastAPI, Query, Request, Security
    from fastapi.exceptions import RequestValidationError
    from fastapi.openapi.docs import get_swagger_ui_html
    from fastapi.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
    from fastapi.routing import APIRoute
    from fastapi.security import HTTPBearer
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
    from prometheus_client.exposition import CONTENT_TYPE_LATEST
    from pydantic import BaseModel, ConfigDict, Field
    from pydantic_core import to_json
    from starlette.exceptions import HTTPException
    from starlette.types import Scope

    from graphrag_apps.serve import http
    from graphrag_apps.serve.http import Assets, while_connected
except ImportError as _error:
    raise MissingDependency("fastapi, prometheus-client and uvicorn", "serve", "The HTTP server") from _error

_log = logging.getLogger(__name__)
_DESCRIPTION = (
    "Passages, answers, entities and paths from an index of documents. "
    'Send an API key as `Authorization: Bearer KEY`. Errors are `{"error": {"type", "message"}}`.'
)
_MEANINGS = {status: (kind.__doc__ or "").partition("\n")[0] for kind, status in reversed(STATUS.items())}
_MEANINGS |= {422: "The request does not match the schema."}
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": api.ErrorResponse, "description": text} for status, text in sorted(_MEANINGS.items())
}


def create_app(gateway: Gateway, *, allowed_hosts: Sequence[str] | None = None, log_questions: bool = False) -> FastAPI:
    """Return the HTTP API of a gateway as an ASGI application.

    Parameters
    ----------
    gateway
        Answers the requests. It is closed, with its index, when the application shuts down.
    allowed_hosts
        The names in the ``Host`` header that are accepted, ``["*"]`` for all. By default all if API keys are needed,
        else this machine's, so that no web page can reach a server without keys by DNS rebinding.
    log_questions
        Whether the log has the paths with their parameters. By default it has neither questions nor names.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        gc.collect()
        gc.freeze()  # existing objects are left out of full collections, during which no request is served
        try:
            yield
        finally:
            await asyncio.to_thread(gateway.close)

    app = FastAPI(
        title="hybrid-graphrag", version=__version__, description=_DESCRIPTION, docs_url=None, redoc_url=None,
        lifespan=lifespan, responses=_ERRORS,
    )  # fmt: skip
    app.state.gateway = gateway
    metrics = _Metrics(gateway.pools)
    app.add_middleware(
        http.Guard, gateway=gateway, hosts=allowed_hosts, admit=partial(_admit, app), log_questions=log_questions,
        count=metrics.count,
    )  # fmt: skip
    app.add_exception_handler(GraphRAGError, _library_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    _add_pages(app, gateway)
    _add_metrics(app, metrics)
    _add_operation(app, "POST", "/v1/query", "questions", gateway.query)
    _add_explain(app, gateway)
    _add_ask(app, gateway)
    _add_operation(app, "GET", "/v1/documents", "documents", gateway.documents)
    _add_operation(app, "GET", "/v1/documents/{document_id:path}", "documents", gateway.document)
    _add_operation(app, "POST", "/v1/documents", "documents", gateway.add, writes=True)
    _add_operation(app, "DELETE", "/v1/documents/{document_id:path}", "documents", gateway.delete, writes=True)
    _add_operation(app, "POST", "/v1/facts", "documents", gateway.remember, writes=True, omit=["source"])
    _add_operation(app, "GET", "/v1/entities", "graph", gateway.entities)
    _add_operation(app, "GET", "/v1/entity", "graph", gateway.entity)
    _add_operation(app, "GET", "/v1/neighbours", "graph", gateway.neighbours)
    _add_operation(app, "GET", "/v1/path", "graph", gateway.path)
    _add_operation(app, "GET", "/v1/communities", "graph", gateway.communities)
    _add_operation(app, "GET", "/v1/stats", "server", gateway.stats)
    _add_explorer(app, gateway)
    return app


# -- errors


async def _library_error(request: Request, error: Any) -> Response:
    key: Key | None = request.scope.get(http.KEY)
    return http.error_response(error, restricted=key is None or key.restricted)


async def _validation_error(request: Request, error: Any) -> Response:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_json = kind == "application/json" or kind.endswith("+json")
    if not is_json and any(problem["loc"][0] == "body" for problem in error.errors()):
        sent = f"the Content-Type is {kind!r:.100}" if kind else "the header Content-Type is missing"
        message = f"{sent}: send the body as JSON with 'Content-Type: application/json'"
        return JSONResponse(error_body("UnsupportedMediaType", message), 415)
    problems = "; ".join(f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}" for problem in error.errors())
    return JSONResponse(error_body("ValidationError", problems), 422)


async def _http_error(_: Request, error: Any) -> Response:
    names = {404: "NotFound", 405: "MethodNotAllowed"}
    message = "there is no such address: see /docs" if error.status_code == 404 else str(error.detail)
    body = error_body(names.get(error.status_code, "BadRequest"), message)
    return JSONResponse(body, error.status_code, dict(error.headers or {}))


# -- routes of operations


async def _authenticated(request: Request) -> Key:
    if http.KEY not in request.scope:
        request.scope[http.KEY] = request.app.state.gateway.authenticate(
            http.secret_of(request.headers), http.address_of(request.scope)
        )
    key: Key = request.scope[http.KEY]
    return key


async def _admit(app: FastAPI, scope: Scope) -> bool:
    """Check the key of a request with a body, before FastAPI reads it; return whether a route takes the body."""
    route = http.body_route(app.routes, scope)
    if route is None:
        return False
    scope["route"] = route  # for the metrics of refused requests
    if isinstance(route, APIRoute) and any(needed.call is _authenticated for needed in route.dependant.dependencies):
        await _authenticated(Request(scope))
    return True


_Caller = Annotated[Key, Depends(_authenticated)]


def _where(
    where: Annotated[
        str | None,
        Query(
            description="A filter on metadata, as JSON. It narrows the filter of the key.",
            examples=['{"team": "identity"}'],
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


def _add_route(
    app: FastAPI, verb: str, path: str, endpoint: Callable[..., Any], listed: list[inspect.Parameter], **settings: Any
) -> None:
    """Add an endpoint that takes a request, a key and further parameters."""
    common = [parameter("request", Request), parameter("key", _Caller)]
    endpoint.__signature__ = inspect.Signature([*common, *listed])  # type: ignore[attr-defined]
    app.add_api_route(path, endpoint, methods=[verb], dependencies=[Security(HTTPBearer(auto_error=False))], **settings)


def _add_operation(
    app: FastAPI,
    verb: Literal["GET", "POST", "DELETE"],
    path: str,
    tag: str,
    operation: Callable[..., Any],
    *,
    writes: bool = False,
    omit: Collection[str] = (),
) -> None:
    """Add a route with the parameters, documentation and response of an operation of the gateway."""
    name, listed = operation.__name__, parameters(operation, omit=omit)
    if verb == "POST":
        listed = [parameter("body", request_model(name, listed))]
    listed = [parameter("where", Annotated[Any, Depends(_where)]) if one.name == "where" else one for one in listed]

    async def endpoint(request: Request, key: Key, **arguments: Any) -> Response:
        given = dict(arguments["body"]) if verb == "POST" else arguments
        return await _respond(request, key, operation, given, writes=writes)

    _add_route(
        app, verb, path, endpoint, listed, name=name, tags=[tag], **_described(operation),
        response_model=inspect.signature(operation, eval_str=True).return_annotation or None,
    )  # fmt: skip


async def _respond(
    request: Request, key: Key, operation: Callable[..., Any], given: dict[str, Any], *, writes: bool = False
) -> Response:
    """Run an operation in a thread, and return what it returns as JSON."""
    gateway: Gateway = request.app.state.gateway

    def work() -> bytes:
        return to_json(operation(key, **given), inf_nan_mode="null")

    if writes:  # not cancelled if the client goes away: the change was asked for
        text = await gateway.run_write(key, work)
    else:
        text = await while_connected(request.receive, gateway.run(work))
    return Response(text, media_type="application/json")


def _described(operation: Callable[..., Any]) -> dict[str, str]:
    """Return the summary and the description of a route: a docstring without the paragraphs for callers in Python."""
    paragraphs = [text for text in (inspect.getdoc(operation) or "").split("\n\n") if "``" not in text]
    return {"summary": paragraphs[0].rstrip("."), "description": "\n\n".join(paragraphs)}


# -- other routes


def _add_pages(app: FastAPI, gateway: Gateway) -> None:
    page = get_swagger_ui_html(
        openapi_url="openapi.json", title="hybrid-graphrag API", swagger_js_url="docs/assets/swagger-ui-bundle.js",
        swagger_css_url="docs/assets/swagger-ui.css", swagger_favicon_url="data:,",
    )  # fmt: skip
    script = bytes(page.body).decode().rpartition("<script>")[2].partition("</script>")[0]
    page.headers["Content-Security-Policy"] = (
        f"default-src 'none'; script-src 'self' {digest(script)}; style-src 'self' 'unsafe-inline'; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'"
    )
    app.mount("/docs/assets", Assets(packages=[("graphrag_apps.serve", "assets")]))

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return page

    @app.get("/", include_in_schema=False)
    async def start() -> Response:
        return RedirectResponse("explore/")  # relative, for a server behind a prefix

    @app.get("/health", tags=["server"], response_model=api.HealthResponse)
    async def health() -> Response:
        """Whether the server takes requests. Needs no key."""
        state = "closing" if gateway.closing else "ok"
        return JSONResponse({"status": state, "version": __version__}, 503 if gateway.closing else 200)


class _Metrics:
    """Requests by route and status, their duration, and the work that runs or waits, for Prometheus.

    Labels have neither questions nor names of keys: those who read the metrics may not see them.
    """

    def __init__(self, pools: dict[str, ThreadPool]) -> None:
        registry = self.registry = CollectorRegistry()
        labels = ["method", "route", "status"]
        self._requests = Counter("graphrag_requests", "Requests by route and status", labels, registry=registry)
        self._seconds = Histogram(
            "graphrag_request_seconds", "Duration of requests by route", ["route"], registry=registry
        )
        jobs = Gauge("graphrag_jobs", "Requests that run or wait for a thread", ["pool"], registry=registry)
        for name, pool in pools.items():
            jobs.labels(name).set_function(partial(getattr, pool, "jobs"))

    def count(self, method: str, route: str | None, status: int, seconds: float) -> None:
        """Count a request. A request that no route takes counts as other."""
        self._requests.labels(method if route else "other", route or "other", status).inc()
        self._seconds.labels(route or "other").observe(seconds)


def _add_metrics(app: FastAPI, metrics: _Metrics) -> None:
    @app.get("/metrics", tags=["server"], response_class=PlainTextResponse)
    async def prometheus(key: _Caller) -> Response:
        """Return counts of requests for Prometheus. Not for a key that is restricted by a filter."""
        if key.restricted:
            raise NotAllowed("this API key is restricted: use one without a filter to read the metrics")
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)


def _add_explain(app: FastAPI, gateway: Gateway) -> None:
    async def explain(request: Request, key: Key, body: BaseModel, format: str) -> Response:  # noqa: A002
        given = dict(body)
        if format == "json":
            return await _respond(request, key, gateway.explain, given)
        del given["context_tokens"]
        work = gateway.run(lambda: gateway.retrieve(key, **given).html())
        return HTMLResponse(await while_connected(request.receive, work))

    formats = Annotated[Literal["json", "html"], Query(description="html returns a page that works offline.")]
    asked = request_model("explain", parameters(gateway.explain))
    _add_route(
        app, "POST", "/v1/explain", explain, [parameter("body", asked), parameter("format", formats, "json")],
        tags=["questions"], response_model=api.ExplainResponse, **_described(gateway.explain),
        responses={200: {"content": {"text/html": {}}, "description": "The result, or a page."}},
    )  # fmt: skip


def _add_ask(app: FastAPI, gateway: Gateway) -> None:
    async def ask(request: Request, key: Key, body: BaseModel) -> Response:
        """Answer a question with numbered citations.

        With `stream` the answer is sent as Server-Sent Events: `piece` with `{"text"}` for each piece of text, then
        `answer` with the whole answer and its citations, or `error`. Close the connection to stop the language model.
        """
        arguments = dict(body)
        if not arguments.pop("stream"):
            answer = await while_connected(request.receive, gateway.ask(key, **arguments))
            return Response(answer.model_dump_json(), media_type="application/json")
        pieces = gateway.answer(key, **arguments)
        first = await while_connected(request.receive, anext(pieces))  # an error before it has a status
        return http.EventStream(_events(pieces, first, key), gateway.limits.answer_seconds)

    streams = Annotated[bool, Field(description="True answers with Server-Sent Events: piece, then answer, or error.")]
    asked = request_model("ask", [*parameters(gateway.ask), parameter("stream", streams, default=False)])
    _add_route(
        app, "POST", "/v1/ask", ask, [parameter("body", asked)],
        tags=["questions"], response_model=api.AskResponse, **_described(ask),
        responses={200: {"content": {"text/event-stream": {}}, "description": "The answer, or its events."}},
    )  # fmt: skip


async def _events(
    pieces: AsyncGenerator[str | api.AskResponse, None], first: str | api.AskResponse, key: Key
) -> AsyncGenerator[bytes, None]:
    """Yield the pieces of an answer as Server-Sent Events."""
    try:
        piece = first
        while isinstance(piece, str):
            yield http.event("piece", {"text": piece})
            piece = await anext(pieces)
        yield http.event("answer", piece.model_dump(mode="json"))
    except GraphRAGError as error:
        yield http.event("error", reported(error, restricted=key.restricted))
    except Exception:  # noqa: BLE001 - the status was sent: the client is told in an event
        _log.exception("an answer failed")
        yield http.event("error", error_body())
    finally:
        await pieces.aclose()


# -- the explorer: its page asks for an API key if the server needs one, and sends it with each request

_EXPLORER_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_Name = Annotated[str, Field(max_length=1_000)]
_Asked = Literal["overview", "search", "entity", "neighbours", "passages", "facts", "between", "community", "question"]


class _ExploreRequest(BaseModel):
    """What the page asks for; each request uses some of the fields."""

    model_config = ConfigDict(extra="forbid")

    where: dict[str, Any] | None = None
    text: str = ""
    name: _Name = ""
    id: _Name = ""
    source: _Name = ""
    target: _Name = ""
    type: _Name | None = None
    offset: int = Field(0, ge=0, le=10_000_000)
    limit: int = Field(24, ge=1, le=MAX_PAGE)
    drawn: list[_Name] = Field([], max_length=MAX_DRAWN)
    answer: Literal[False] = Field(False, description="Answers in words come from /v1/ask.")


def _add_explorer(app: FastAPI, gateway: Gateway) -> None:
    explorer, page = Explorer(gateway.retriever), server_page()
    packages = ("graphrag_apps.explore", "graphrag_apps.page")
    app.mount("/explore/assets", Assets(packages=[(package, "assets") for package in packages]))

    @app.get("/explore", include_in_schema=False)
    async def address() -> Response:
        return RedirectResponse("explore/", 308)  # relative, for a server behind a prefix

    @app.get("/explore/", include_in_schema=False)
    async def html() -> Response:
        return HTMLResponse(page, headers=_EXPLORER_HEADERS)

    @app.post("/explore/api/{kind}", include_in_schema=False)
    async def answer(request: Request, kind: _Asked, body: _ExploreRequest, key: _Caller) -> Response:
        gateway.check_question(body.text)
        method = getattr(explorer, kind)
        given = {name: value for name, value in body if name in inspect.signature(method).parameters}

        def work() -> str:
            return json.dumps(method(**given | {"where": gateway.scope(key, body.where)}))

        text = await while_connected(request.receive, gateway.run(work))
        return Response(text, media_type="application/json", headers={"Cache-Control": "no-store"})
