"""``create_app``: the HTTP API as a FastAPI application. Its routes are in ``/docs`` of a running server."""

from __future__ import annotations

import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import cache
from importlib import resources
from itertools import islice
from typing import Annotated, Any, Literal

from graphrag_core import __version__
from graphrag_core.errors import FilterError, GraphRAGError, IdTaken, optional_import

with optional_import("fastapi", "serve", "The HTTP server"):
    import anyio
    from fastapi import APIRouter, Depends, FastAPI, Query, Request
    from fastapi.exceptions import RequestValidationError
    from fastapi.openapi.docs import get_swagger_ui_html
    from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
    from starlette.exceptions import HTTPException
    from starlette.middleware.trustedhost import TrustedHostMiddleware

from graphrag_apps.ask import AnswerStream
from graphrag_apps.explore import Explorer, server_page
from graphrag_apps.explore.page import POLICY as EXPLORE_POLICY
from graphrag_apps.explore.page import SCRIPTS, STYLES
from graphrag_apps.page.templates import asset
from graphrag_apps.serve import operations
from graphrag_apps.serve.errors import Refused
from graphrag_apps.serve.gateway import Gateway
from graphrag_apps.serve.http import Guard, error_response, key_of, limit_threads
from graphrag_apps.serve.keys import Key
from graphrag_apps.serve.models import AddRequest, AskRequest, ExploreRequest, FactRequest, QueryRequest, Search
from graphrag_core.filters import DOCUMENT_ID, Filter, parse_all
from graphrag_core.ingest.remembered import visible
from graphrag_core.model import Document

_PAGE_POLICY = (
    "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_FILES = {"explore": (*SCRIPTS, *STYLES), "docs": ("swagger-ui-bundle.js", "swagger-ui.css")}
_PART = 65_536  # bytes
_ALL = 1 << 40
_PASSAGE_ID = re.compile(r"#\d+$")


def served(request: Request) -> Gateway:
    """Return what the application serves."""
    gateway: Gateway = request.app.state.gateway
    return gateway


async def caller(request: Request) -> Key:
    """Return the key of the request, which :class:`Guard` found; it is refused without one."""
    return key_of(request.scope)


def filter_in_url(
    gateway: Served,
    key: Caller,
    where: Annotated[str | None, Query(description="A filter on document metadata, as JSON.")] = None,
) -> Filter | None:
    """Return the filter of a request that has it in its URL."""
    try:
        asked = None if where is None else json.loads(where)
    except (ValueError, RecursionError) as error:
        raise FilterError(f"where is {where!r:.80}: write a filter as a JSON object ({error})") from error
    return gateway.scope(key, asked)


Served = Annotated[Gateway, Depends(served)]
Caller = Annotated[Key, Depends(caller)]
Scope = Annotated[Filter | None, Depends(filter_in_url)]
EntityName = Annotated[str, Query(description="The name of an entity, in any spelling or case.", max_length=1_000)]
Limit = Annotated[int, Query(description="The maximum number.", ge=1, le=1_000)]

api = APIRouter(prefix="/v1")


# -- questions


@api.post("/query")
def query(asked: QueryRequest, gateway: Served, key: Caller) -> Response:
    """Return passages for a question, with scores, channels and paths, and the entities and facts of the question."""
    result = operations.retrieve(gateway, gateway.scope(key, asked.where), asked.question, **asked.options())
    context = {} if asked.context_tokens is None else {"context": result.context(asked.context_tokens)}
    return JSONResponse(operations.as_json(result) | context)


@api.post("/explain")
def explain(
    asked: Search, gateway: Served, key: Caller, format: Literal["json", "html"] = "json"  # noqa: A002 - of the URL
) -> Response:  # fmt: skip
    """Return the result of a question with a report for people, or as a page."""
    result = operations.retrieve(gateway, gateway.scope(key, asked.where), asked.question, **asked.options())
    if format == "html":
        return HTMLResponse(result.html())
    return JSONResponse(operations.as_json(result) | {"explanation": result.explain()})


@api.post("/ask")
async def ask(asked: AskRequest, gateway: Served, key: Caller, request: Request) -> Response:
    """Return an answer with numbered citations; with ``stream`` as Server-Sent Events: pieces, then the answer."""

    def start() -> AnswerStream:
        scope = gateway.scope(key, asked.where)
        return operations.ask(
            gateway, scope, asked.question, answer_threshold=asked.answer_threshold, **asked.options()
        )

    stream = await anyio.to_thread.run_sync(start)
    pieces = _pieces(stream, request.app.state.answers, time.monotonic() + gateway.limits.answer_seconds)
    if asked.stream:
        first = await anext(pieces, "")  # a model that does not answer is an error with a status
        return StreamingResponse(_events(first, pieces, stream, key), media_type="text/event-stream")
    async for _ in pieces:
        pass
    return JSONResponse(stream.answer.to_dict())


async def _pieces(stream: AnswerStream, limiter: anyio.CapacityLimiter, until: float) -> AsyncIterator[str]:
    """Yield the pieces of an answer. A thread waits for each, one of those that are for answers alone."""
    with stream:
        while (piece := await anyio.to_thread.run_sync(next, stream, None, limiter=limiter)) is not None:
            if time.monotonic() > until:
                raise Refused(504, "the time limit of an answer has passed: ask for less, or allow more time")
            yield piece


async def _events(first: str, pieces: AsyncIterator[str], stream: AnswerStream, key: Key) -> AsyncIterator[str]:
    """Yield an answer as Server-Sent Events."""
    try:
        yield _event("piece", {"text": first})
        async for piece in pieces:
            yield _event("piece", {"text": piece})
        yield _event("answer", stream.answer.to_dict())
    except GraphRAGError as error:
        yield _event("error", json.loads(bytes(error_response(error, key).body)))


def _event(name: str, value: dict[str, Any]) -> str:
    return f"event: {name}\ndata: {json.dumps(value)}\n\n"


# -- documents


@api.get("/documents")
def documents(gateway: Served, scope: Scope, after: str = "", limit: Limit = 100) -> Response:
    """Return documents in order of id, a page at a time: ``next`` is ``after`` of the next page."""
    later = parse_all(scope, {DOCUMENT_ID: {"gt": after}}) if after else scope
    found = list(islice(gateway.index.documents(where=later), limit + 1))
    following = found[limit - 1].id if len(found) > limit else None
    return JSONResponse({"documents": [_document_json(one) for one in found[:limit]], "next": following})


@api.get("/documents/{document_id:path}")
def document(document_id: str, gateway: Served, scope: Scope) -> Response:
    """Return a document."""
    found = gateway.index.get(document_id) if _inside(gateway, scope, [document_id]) else None
    if found is None:
        raise Refused(404, f"there is no document {document_id!r}")
    return JSONResponse(_document_json(found))


@api.post("/documents")
def add(body: AddRequest, gateway: Served, key: Caller) -> Response:
    """Add or replace documents, all or none. The server and the key must allow writing."""
    gateway.check_write(key)
    new = [Document(one.id, one.text, one.title, key.stamp(one.metadata, one.id)) for one in body.documents]
    own = _inside(gateway, key.where, [one.id for one in new]) if key.restricted else {one.id for one in new}
    for one in new:
        if one.id not in own and (_PASSAGE_ID.search(one.id) or one.id in gateway.index):
            raise _taken(one.id)
    try:
        report = gateway.index.add(new)
    except IdTaken as error:  # it names the document, or one of its passages
        taken = str(error.document_id)
        raise _taken(next((one.id for one in new if taken.startswith(f"{one.id}#")), taken)) from error
    return JSONResponse({**asdict(report), "problems": dict(report.problems)})


@api.delete("/documents/{document_id:path}")
def delete(document_id: str, gateway: Served, key: Caller) -> Response:
    """Delete a document. The server and the key must allow writing."""
    gateway.check_write(key)
    if not (_inside(gateway, key.where, [document_id]) and gateway.index.delete(document_id)):
        raise Refused(404, f"there is no document {document_id!r}")
    return JSONResponse({"deleted": 1})


def _inside(gateway: Gateway, scope: Filter | None, document_ids: list[str]) -> set[str]:
    return set(gateway.index.document_ids(parse_all(scope, {DOCUMENT_ID: {"in": document_ids}})))


def _taken(document_id: str) -> Refused:
    return Refused(
        409, f"the id {document_id!r} cannot be used: choose another, such as one that begins with your name"
    )


def _document_json(one: Document) -> dict[str, Any]:
    return {"id": one.id, "title": one.title, "text": one.text, "metadata": dict(one.metadata)}


@api.post("/facts")
def remember(body: FactRequest, gateway: Served, key: Caller) -> Response:
    """Remember a fact. The server and the key must allow writing."""
    gateway.check_write(key)
    return JSONResponse(operations.remember(gateway.index, key, **dict(body)))


# -- the graph


@api.get("/entities")
def entities(gateway: Served, scope: Scope, prefix: str = "", limit: Limit = 100) -> Response:
    """Return entities, the most mentioned first."""
    found = gateway.index.graph.entities(prefix, limit=limit, where=scope)
    return JSONResponse({"entities": [operations.entity_json(one) for one in found]})


@api.get("/entity")
def entity(gateway: Served, scope: Scope, name: EntityName, limit: Limit = 20) -> Response:
    """Return an entity with its strongest facts and the passages that state them."""
    return JSONResponse(operations.entity(gateway.index, scope, name, limit=limit))


@api.get("/neighbours")
def neighbours(
    gateway: Served, scope: Scope, name: EntityName, offset: Annotated[int, Query(ge=0)] = 0, limit: Limit = 24
) -> Response:
    """Return the entities that share a fact with an entity, the strongest link first."""
    return JSONResponse(operations.neighbours(gateway.index, scope, name, offset=offset, limit=limit))


@api.get("/path")
def path(
    gateway: Served, scope: Scope, start: EntityName, end: EntityName, max_hops: Annotated[int, Query(ge=1, le=10)] = 4
) -> Response:
    """Return the shortest chain of facts between two entities."""
    return JSONResponse(operations.path(gateway.index, scope, start, end, max_hops=max_hops))


@api.get("/communities")
def communities(gateway: Served, scope: Scope) -> Response:
    """Return the themes of the collection, the largest first."""
    return JSONResponse({"communities": [asdict(one) for one in gateway.index.graph.communities(where=scope)]})


@api.get("/stats")
def stats(gateway: Served, scope: Scope) -> Response:
    """Return counts of what the key may see; a key without a filter also gets those of the whole index."""
    index = gateway.index
    if scope is None:
        return JSONResponse(asdict(index.stats()))
    documents_inside = sum(1 for _ in index.document_ids(scope))
    with index.engine.snapshot(visible(index.engine, scope, time.time())) as snapshot:
        keys = snapshot.top_entities(_ALL)
        counts = snapshot.chunk_count, len(keys), len(snapshot.facts_of(keys))
    return JSONResponse(
        {"documents": documents_inside, **dict(zip(("chunks", "entities", "facts"), counts, strict=True))}
    )


# -- pages and the server itself

pages = APIRouter(include_in_schema=False)

_PAGE = ("name", "offset", "limit")
EXPLORED = {
    "overview": (), "search": ("text",), "entity": ("name",), "neighbours": (*_PAGE, "drawn"), "passages": _PAGE,
    "facts": _PAGE, "between": ("source", "target"), "community": ("id",), "question": ("text",),
}  # fmt: skip
"""The methods of the explorer that its page calls, with their parameters."""


@pages.post("/explore/api/{asked}")
def explore(asked: str, body: ExploreRequest, gateway: Served, key: Caller, request: Request) -> Response:
    """Answer a request of the explorer's page."""
    if asked not in EXPLORED:
        raise HTTPException(404)
    given = body.model_dump(include={*EXPLORED[asked]})
    if asked == "question":
        gateway.check_question(body.text)
        given["answer"] = False  # the page asks for it by itself
    method = getattr(request.app.state.explorer, asked)
    return JSONResponse(method(**given, where=gateway.scope(key, body.where)))


@pages.get("/explore/")
async def explorer_page() -> Response:
    """Return the page of the explorer, which asks for a key if one is needed."""
    return HTMLResponse(_explorer_page(), headers={"Content-Security-Policy": EXPLORE_POLICY})


@pages.get("/{page}/assets/{name}")
async def file_of_page(page: str, name: str) -> Response:
    """Return a file of a page, in parts: a client that does not take it holds little memory."""
    if name not in _FILES.get(page, ()):
        raise HTTPException(404)
    content, kind = _content(page, name), "text/javascript" if name.endswith(".js") else "text/css"

    async def parts() -> AsyncIterator[bytes]:
        for start in range(0, len(content), _PART):
            yield content[start : start + _PART]

    return StreamingResponse(parts(), media_type=kind, headers={"Content-Length": str(len(content))})


@cache
def _content(page: str, name: str) -> bytes:
    if page == "explore":
        return asset("graphrag_apps.explore", name).encode()
    return (resources.files("graphrag_apps.serve") / "assets" / name).read_bytes()


_explorer_page = cache(server_page)


@pages.get("/")
@pages.get("/explore")
async def root() -> Response:
    """Lead to the explorer."""
    return RedirectResponse("explore/")


@pages.get("/docs")
async def schema_page() -> Response:
    """Return the page of the API, with its files from this server."""
    page = get_swagger_ui_html(
        openapi_url="openapi.json", title="hybrid-graphrag", swagger_favicon_url="data:,",
        swagger_js_url="docs/assets/swagger-ui-bundle.js", swagger_css_url="docs/assets/swagger-ui.css",
    )  # fmt: skip
    page.headers["Content-Security-Policy"] = _PAGE_POLICY
    return page


@pages.get("/health")
async def health() -> Response:
    """Return that the server takes requests."""
    return JSONResponse({"status": "ok", "version": __version__})


# -- the application


def create_app(gateway: Gateway) -> FastAPI:
    """Return the HTTP API as an ASGI application, which closes the index when it ends.

    Limits of connections hold where :func:`graphrag_apps.serve.serve` runs it, and not with another server.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        limit_threads(gateway.limits.workers)
        yield
        gateway.close()

    app = FastAPI(title="hybrid-graphrag", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.state.gateway = gateway
    app.state.explorer = Explorer(gateway.retriever)
    app.state.answers = anyio.CapacityLimiter(gateway.limits.answers)
    app.include_router(api)
    app.include_router(pages)
    app.add_middleware(Guard, gateway=gateway)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(gateway.hosts), www_redirect=False)
    handlers: dict[type[Exception], Any] = {
        GraphRAGError: _refuse, HTTPException: _refuse_by_status, RequestValidationError: _refuse_body,
        Exception: _fail,
    }  # fmt: skip
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, handler)
    return app


async def _refuse(request: Request, error: GraphRAGError) -> Response:
    return error_response(error, request.scope["state"].get("key"))


async def _refuse_by_status(_: Request, error: HTTPException) -> Response:
    name = {404: "NotFound", 405: "MethodNotAllowed"}.get(error.status_code, "BadRequest")
    return _problem(error.status_code, name, str(error.detail), error.headers)


async def _refuse_body(request: Request, error: RequestValidationError) -> Response:
    """Say what is wrong with the first parameter that cannot be used."""
    problem, kind = error.errors()[0], request.headers.get("content-type", "")
    if request.method == "POST" and "json" not in kind:
        advice = "send the body as JSON with 'Content-Type: application/json'"
        return _problem(415, "ValidationError", f"the body has the type {kind!r:.80}: {advice}")
    place = ".".join(str(part) for part in problem["loc"] if part not in ("body", "query", "path"))
    message = f"{place}: {problem['msg'][:1].lower()}{problem['msg'][1:]}".removeprefix(": ")
    return _problem(422, "ValidationError", message)


async def _fail(_request: Request, _error: Exception) -> Response:
    return _problem(500, "InternalError", "the server failed: its log says why")


def _problem(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": {"type": kind, "message": message}}, status, headers=headers)
