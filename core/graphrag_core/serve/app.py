"""The HTTP API of a gateway: its routes, errors as JSON, Server-Sent Events, and the page of the API."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from graphrag_core import __version__
from graphrag_core.errors import GraphRAGError, MissingDependency
from graphrag_core.explain.templates import digest
from graphrag_core.serve import models as api
from graphrag_core.serve.gateway import Gateway
from graphrag_core.serve.http import EventStream, Guard, error_body, error_of, error_response, event, while_connected
from graphrag_core.serve.keys import Key
from graphrag_core.serve.operations import parameter, parameters, request_model

try:
    from fastapi import FastAPI, Query, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.openapi.docs import get_swagger_ui_html
    from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
    from fastapi.staticfiles import StaticFiles
    from pydantic import BaseModel, Field
    from starlette.exceptions import HTTPException

    from graphrag_core.serve.explorer import add_explorer
    from graphrag_core.serve.routes import add_operation, add_route, described, given_fields, respond
except ImportError as _error:
    raise MissingDependency("fastapi and uvicorn", "serve", "The HTTP server") from _error

_log = logging.getLogger(__name__)
_DESCRIPTION = (
    "Passages, answers, entities and paths from an index of documents. "
    'Send an API key as `Authorization: Bearer KEY`. Errors are `{"error": {"type", "message"}}`.'
)
_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": api.ErrorResponse, "description": text}
    for status, text in {
        400: "A filter or an argument cannot be used.",
        401: "The API key is missing or unknown.",
        403: "The API key may not do this.",
        404: "There is no such thing within the scope of the API key.",
        413: "The request exceeds a limit.",
        415: "The body is not sent as JSON.",
        422: "The request does not match the schema.",
        429: "The API key sends too many requests.",
        502: "The language model failed.",
        503: "The server is busy or closing, or the index or the embedding model cannot be reached.",
        504: "The request took too long.",
    }.items()
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

    Raises
    ------
    MissingDependency
        FastAPI is not installed.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await asyncio.to_thread(gateway.close)

    app = FastAPI(
        title="hybrid-graphrag", version=__version__, description=_DESCRIPTION, docs_url=None, redoc_url=None,
        lifespan=lifespan, responses=_ERRORS,
    )  # fmt: skip
    app.state.gateway = gateway
    app.add_middleware(Guard, gateway=gateway, hosts=allowed_hosts, log_questions=log_questions)
    app.add_exception_handler(GraphRAGError, _library_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    _add_pages(app, gateway)
    _add_questions(app, gateway)
    add_operation(app, "GET", "/v1/documents", "documents", gateway.documents)
    add_operation(app, "GET", "/v1/documents/{document_id:path}", "documents", gateway.document)
    add_operation(app, "POST", "/v1/documents", "documents", gateway.add, writes=True)
    add_operation(app, "DELETE", "/v1/documents/{document_id:path}", "documents", gateway.delete, writes=True)
    add_operation(app, "POST", "/v1/facts", "documents", gateway.remember, writes=True, omit=["source"])
    add_operation(app, "GET", "/v1/entities", "graph", gateway.entities)
    add_operation(app, "GET", "/v1/entity", "graph", gateway.entity)
    add_operation(app, "GET", "/v1/neighbours", "graph", gateway.neighbours)
    add_operation(app, "GET", "/v1/path", "graph", gateway.path)
    add_operation(app, "GET", "/v1/communities", "graph", gateway.communities)
    add_operation(app, "GET", "/v1/stats", "server", gateway.stats)
    add_explorer(app, gateway)
    return app


# -- errors


async def _library_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, GraphRAGError)  # noqa: S101 - registered for it
    key: Key | None = getattr(request.state, "key", None)
    return error_response(error, restricted=key is None or key.restricted)


async def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for it
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_json = kind == "application/json" or kind.endswith("+json")
    if not is_json and any(one["loc"][0] == "body" for one in error.errors()):
        problem = f"the Content-Type is {kind!r:.100}" if kind else "the header Content-Type is missing"
        message = f"{problem}: send the body as JSON with 'Content-Type: application/json'"
        return JSONResponse(error_of("UnsupportedMediaType", message), 415)
    problems = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    return JSONResponse(error_of("ValidationError", problems), 422)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    names = {404: "NotFound", 405: "MethodNotAllowed"}
    message = "there is no such address: see /docs" if error.status_code == 404 else str(error.detail)
    body = error_of(names.get(error.status_code, "BadRequest"), message)
    return JSONResponse(body, error.status_code, dict(error.headers or {}))


# -- routes of their own


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
    app.mount("/docs/assets", StaticFiles(packages=[("graphrag_core.serve", "assets")]))

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return page

    @app.get("/", include_in_schema=False)
    async def start() -> Response:
        return RedirectResponse("explore/")  # relative, for a server behind a prefix

    @app.get("/health", tags=["server"], response_model=api.HealthResponse)
    async def health() -> Response:
        """Whether the server takes requests. Needs no key."""
        state: Literal["ok", "closing"] = "closing" if gateway.closing else "ok"
        body = api.HealthResponse(status=state, version=__version__)
        return JSONResponse(body.model_dump(), 503 if gateway.closing else 200)


def _add_questions(app: FastAPI, gateway: Gateway) -> None:
    add_operation(app, "POST", "/v1/query", "questions", gateway.query)

    async def explain(request: Request, key: Key, body: BaseModel, format: str) -> Response:  # noqa: A002
        if format == "json":
            return await respond(request, key, gateway.explain, given_fields(body))
        page = await while_connected(request.receive, gateway.run(key, gateway.explain_page, key, **given_fields(body)))
        return HTMLResponse(page)

    formats = Annotated[Literal["json", "html"], Query(description="html returns a page that works offline.")]
    add_route(
        app, "POST", "/v1/explain", explain,
        [
            parameter("body", request_model("explain", parameters(gateway.explain, "http"))),
            parameter("format", formats, "json"),
        ],
        tags=["questions"], response_model=api.ExplainResponse, description=described(gateway.explain),
        responses={200: {"content": {"text/html": {}}, "description": "The result, or a page."}},
    )  # fmt: skip

    async def ask(request: Request, key: Key, body: BaseModel) -> Response:
        """Answer a question with numbered citations.

        With `stream` the answer is sent as Server-Sent Events: `piece` with `{"text"}` for each piece of text, then
        `answer` with the whole answer and its citations, or `error`. Close the connection to stop the language model.
        """
        arguments = given_fields(body)
        stream = arguments.pop("stream", False)
        pieces = gateway.answer(key, **arguments)
        try:
            first = await while_connected(request.receive, _next(pieces))
            if stream:
                return EventStream(_events(pieces, first, key), gateway.limits.answer_seconds)
            while not isinstance(first, api.AskResponse):
                first = await while_connected(request.receive, _next(pieces))
            return Response(first.model_dump_json(), media_type="application/json")
        finally:
            if not stream:
                await pieces.aclose()

    streams = Annotated[bool, Field(description="True answers with Server-Sent Events: piece, then answer, or error.")]
    asked = request_model("ask", [*parameters(gateway.answer, "http"), parameter("stream", streams, False)])
    add_route(
        app, "POST", "/v1/ask", ask, [parameter("body", asked)],
        tags=["questions"], response_model=api.AskResponse,
        responses={200: {"content": {"text/event-stream": {}}, "description": "The answer, or its events."}},
    )  # fmt: skip


async def _next(pieces: AsyncGenerator[str | api.AskResponse, None]) -> str | api.AskResponse:
    return await pieces.__anext__()


async def _events(
    pieces: AsyncGenerator[str | api.AskResponse, None], first: str | api.AskResponse, key: Key
) -> AsyncGenerator[bytes, None]:
    """Yield the pieces of an answer as Server-Sent Events."""
    try:
        piece = first
        while isinstance(piece, str):
            yield event("piece", {"text": piece})
            piece = await pieces.__anext__()
        yield event("answer", piece.model_dump(mode="json"))
    except GraphRAGError as error:
        _log.error("%s: %s", type(error).__name__, error)
        yield event("error", error_body(error, restricted=key.restricted))
    except Exception:  # noqa: BLE001 - the status was sent: the client is told in an event
        _log.exception("an answer failed")
        yield event("error", error_of("InternalError", "the server failed: see its log"))
    finally:
        await pieces.aclose()
