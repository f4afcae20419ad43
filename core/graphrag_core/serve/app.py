"""The HTTP API: routes, errors as JSON, Server-Sent Events, and a server that ends gracefully."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Annotated, Any, Concatenate, Literal

from typing_extensions import ParamSpec

from graphrag_core import __version__
from graphrag_core.errors import FilterError, GraphRAGError, MissingDependency
from graphrag_core.serve import models as api
from graphrag_core.serve.docs_page import docs_page
from graphrag_core.serve.gateway import Gateway
from graphrag_core.serve.http import (
    LOCAL,
    EventStream,
    Guard,
    error_body,
    error_of,
    error_response,
    event,
    secret_of,
    while_connected,
)
from graphrag_core.serve.keys import Key

try:
    from fastapi import Depends, FastAPI, Query, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
    from starlette.exceptions import HTTPException
except ImportError as _error:
    raise MissingDependency("fastapi and uvicorn", "serve", "The HTTP server") from _error

_log = logging.getLogger(__name__)
_P = ParamSpec("_P")
_PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
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
    hosts = allowed_hosts if allowed_hosts is not None else ("*",) if gateway.keys is not None else LOCAL
    app.add_middleware(Guard, gateway=gateway, hosts=hosts, log_questions=log_questions)
    app.add_exception_handler(GraphRAGError, _library_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    _add_pages(app, gateway)
    _add_questions(app, gateway)
    _add_documents(app, gateway)
    _add_graph(app, gateway)
    has_explorer = importlib.util.find_spec("graphrag_core.serve.explorer") is not None
    if has_explorer:
        app.include_router(importlib.import_module("graphrag_core.serve.explorer").explorer_router(gateway))

    @app.get("/", include_in_schema=False)
    async def start() -> Response:
        return RedirectResponse("explore/" if has_explorer else "docs")  # relative, for a server behind a prefix

    return app


# -- what every route uses


async def authenticated(request: Request) -> Key:
    """Return the key of a request, as a dependency of a route."""
    gateway: Gateway = request.app.state.gateway
    key = gateway.authenticate(secret_of(request.headers))
    request.state.key = key
    return key


Caller = Annotated[Key, Depends(authenticated)]


async def json_response(
    request: Request,
    gateway: Gateway,
    key: Key,
    function: Callable[Concatenate[Key, _P], Any],
    *args: _P.args,
    **kwargs: _P.kwargs,
) -> Response:
    """Run a method of the gateway in a thread, and return the model that it returns as JSON."""

    def work() -> str:
        return str(function(key, *args, **kwargs).model_dump_json())

    text = await while_connected(request.receive, gateway.run(key, work))
    return Response(text, media_type="application/json")


def _where(text: str | None) -> dict[str, Any] | None:
    """Return the filter of a query parameter, which is JSON."""
    if text is None:
        return None
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FilterError(f"where is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise FilterError('where must be a JSON object such as {"team": "identity"}')
    return parsed


WhereParameter = Annotated[
    str | None,
    Query(description="A filter on metadata, as JSON. It narrows that of the key.", examples=['{"team": "identity"}']),
]
_Name = Annotated[str, Query(min_length=1, max_length=1_000, description="A name, in any spelling or case.")]


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
        said = f"the Content-Type is {kind!r:.100}" if kind else "the header Content-Type is missing"
        message = f"{said}: send the body as JSON with 'Content-Type: application/json'"
        return JSONResponse(error_of("UnsupportedMediaType", message), 415)
    problems = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
    return JSONResponse(error_of("ValidationError", problems), 422)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for it
    names = {404: "NotFound", 405: "MethodNotAllowed"}
    message = "there is no such address: see /docs" if error.status_code == 404 else str(error.detail)
    body = error_of(names.get(error.status_code, "BadRequest"), message)
    return JSONResponse(body, error.status_code, dict(error.headers or {}))


# -- routes


def _add_pages(app: FastAPI, gateway: Gateway) -> None:
    @app.get("/health", tags=["server"], response_model=api.HealthResponse)
    async def health() -> Response:
        """Whether the server takes requests. Needs no key."""
        state: Literal["ok", "closing"] = "closing" if gateway.closing else "ok"
        body = api.HealthResponse(status=state, version=__version__)
        return JSONResponse(body.model_dump(), 503 if gateway.closing else 200)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        headers = {"Content-Security-Policy": _PAGE_POLICY}
        return HTMLResponse(docs_page(app.openapi()), headers=headers)

    @app.get("/v1/stats", tags=["server"], response_model=api.StatsResponse)
    async def stats(request: Request, key: Caller, where: WhereParameter = None) -> Response:
        """Return the size of what the key sees."""
        return await json_response(request, gateway, key, gateway.stats, where=_where(where))


def _add_questions(app: FastAPI, gateway: Gateway) -> None:
    @app.post("/v1/query", tags=["questions"], response_model=api.QueryResponse)
    async def query(request: Request, body: api.QueryRequest, key: Caller) -> Response:
        """Return the passages for a question, best first, with the reason for each."""
        return await json_response(request, gateway, key, gateway.query, body)

    @app.post(
        "/v1/explain",
        tags=["questions"],
        response_model=api.ExplainResponse,
        responses={200: {"content": {"text/html": {}}, "description": "The result, or a page."}},
    )
    async def explain(
        request: Request,
        body: api.QueryRequest,
        key: Caller,
        format: Annotated[Literal["json", "html"], Query(description="html returns a page for a browser.")] = "json",  # noqa: A002
    ) -> Response:
        """Return the passages for a question, and a report for a person; or an HTML page that works offline."""
        if format == "json":
            return await json_response(request, gateway, key, gateway.explain, body)
        page = await while_connected(request.receive, gateway.run(key, gateway.explain_page, key, body))
        return HTMLResponse(page)

    @app.post(
        "/v1/ask",
        tags=["questions"],
        response_model=api.AskResponse,
        responses={200: {"content": {"text/event-stream": {}}, "description": "The answer, or its events."}},
    )
    async def ask(request: Request, body: api.AskRequest, key: Caller) -> Response:
        """Answer a question with numbered citations.

        With `stream` the answer is sent as Server-Sent Events: `piece` with `{"text"}` for each piece of text, then
        `answer` with the whole answer and its citations, or `error`. Close the connection to stop the language model.
        """
        pieces = gateway.answer(key, body)
        try:
            first = await while_connected(request.receive, _next(pieces))
            if body.stream:
                return EventStream(_events(pieces, first, key), gateway.limits.answer_seconds)
            while not isinstance(first, api.AskResponse):
                first = await while_connected(request.receive, _next(pieces))
            return Response(first.model_dump_json(), media_type="application/json")
        finally:
            if not body.stream:
                await pieces.aclose()


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


def _add_documents(app: FastAPI, gateway: Gateway) -> None:
    async def written(key: Key, function: Callable[..., Any], *args: Any) -> Response:
        # A change is not cancelled: its client may have gone, and the change was asked for.
        value = await gateway.run_write(key, function, key, *args)
        return Response(value.model_dump_json(), media_type="application/json")

    @app.get("/v1/documents", tags=["documents"], response_model=api.DocumentPage)
    async def documents(
        request: Request,
        key: Caller,
        where: WhereParameter = None,
        after: Annotated[str | None, Query(description="The field next of the page before.")] = None,
        limit: Annotated[int, Query(ge=1)] = 100,
    ) -> Response:
        """List documents in order of id, without their texts."""
        return await json_response(
            request, gateway, key, gateway.documents, where=_where(where), after=after, limit=limit
        )

    @app.get("/v1/documents/{document_id:path}", tags=["documents"], response_model=api.DocumentValue)
    async def document(request: Request, document_id: str, key: Caller) -> Response:
        """Return a document as it was added."""
        return await json_response(request, gateway, key, gateway.document, document_id)

    @app.post("/v1/documents", tags=["documents"], response_model=api.AddResponse)
    async def add(body: api.AddRequest, key: Caller) -> Response:
        """Add documents, all or none; replace those whose id exists. Needs --write and a key that may write.

        A document gets the fields that the filter of the key demands, and is refused if its metadata contradicts them.
        """
        return await written(key, gateway.add, body.documents)

    @app.delete("/v1/documents/{document_id:path}", tags=["documents"], response_model=api.DeleteResponse)
    async def delete(document_id: str, key: Caller) -> Response:
        """Delete a document with its passages, entities and facts. Needs --write and a key that may write."""
        return await written(key, gateway.delete, document_id)

    @app.post("/v1/facts", tags=["documents"], response_model=api.FactValue)
    async def remember(body: api.FactRequest, key: Caller) -> Response:
        """Remember a fact. Needs --write and a key that may write."""
        return await written(key, gateway.remember, body)


def _add_graph(app: FastAPI, gateway: Gateway) -> None:
    @app.get("/v1/entities", tags=["graph"], response_model=api.EntityList)
    async def entities(
        request: Request,
        key: Caller,
        prefix: Annotated[str, Query(max_length=1_000, description="What a name begins with, in any case.")] = "",
        type: Annotated[str | None, Query(description="Only entities of this type.")] = None,  # noqa: A002
        limit: Annotated[int, Query(ge=1)] = 100,
        where: WhereParameter = None,
    ) -> Response:
        """List entities, the most mentioned first."""
        return await json_response(
            request, gateway, key, gateway.entities, prefix, type=type, limit=limit, where=_where(where)
        )

    @app.get("/v1/entity", tags=["graph"], response_model=api.EntityResponse)
    async def entity(request: Request, name: _Name, key: Caller, where: WhereParameter = None) -> Response:
        """Return an entity with its strongest facts and some passages."""
        return await json_response(request, gateway, key, gateway.entity, name, where=_where(where))

    @app.get("/v1/neighbours", tags=["graph"], response_model=api.NeighboursResponse)
    async def neighbours(
        request: Request,
        name: _Name,
        key: Caller,
        offset: Annotated[int, Query(ge=0)] = 0,
        limit: Annotated[int, Query(ge=1)] = 50,
        where: WhereParameter = None,
    ) -> Response:
        """Return the entities that share facts with an entity, strongest first."""
        return await json_response(
            request, gateway, key, gateway.neighbours, name, offset=offset, limit=limit, where=_where(where)
        )

    @app.get("/v1/path", tags=["graph"], response_model=api.PathResponse)
    async def path(
        request: Request,
        start: _Name,
        end: _Name,
        key: Caller,
        max_hops: Annotated[int, Query(ge=1, le=10)] = 4,
        where: WhereParameter = None,
    ) -> Response:
        """Return the shortest path between two entities, by the facts that join them."""
        return await json_response(
            request, gateway, key, gateway.path, start, end, max_hops=max_hops, where=_where(where)
        )

    @app.get("/v1/communities", tags=["graph"], response_model=api.CommunityList)
    async def communities(
        request: Request,
        key: Caller,
        level: Annotated[int | None, Query(ge=0, description="0 has the largest communities.")] = None,
        limit: Annotated[int, Query(ge=1)] = 50,
        where: WhereParameter = None,
    ) -> Response:
        """Return the themes of the collection, the largest first."""
        return await json_response(
            request, gateway, key, gateway.communities, level=level, limit=limit, where=_where(where)
        )
