"""The graph explorer of the HTTP server: its page, its files, and the requests that it sends.

The page asks for an API key if the server needs one, and sends it with each request. Answers in words come from
``/v1/ask``.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from graphrag_core.explore import Explorer, asset, server_page
from graphrag_core.explore.explorer import MAX_DRAWN, MAX_PAGE
from graphrag_core.explore.page import POLICY
from graphrag_core.filters import Where
from graphrag_core.serve.errors import TooLarge
from graphrag_core.serve.gateway import Gateway
from graphrag_core.serve.http import while_connected
from graphrag_core.serve.keys import Key
from graphrag_core.serve.routes import Caller

_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
_YEAR = 31_536_000  # seconds
_Name = Annotated[str, Field(max_length=1_000)]


class ExploreRequest(BaseModel):
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


_Answer = Callable[[Explorer, ExploreRequest, Where | None], dict[str, Any]]
_ANSWERS: dict[str, _Answer] = {
    "overview": lambda explorer, _, where: explorer.overview(where),
    "search": lambda explorer, asked, where: explorer.search(asked.text, where, type=asked.type),
    "entity": lambda explorer, asked, where: explorer.entity(asked.name, where),
    "neighbours": lambda explorer, asked, where: explorer.neighbours(
        asked.name, where, asked.offset, asked.limit, drawn=asked.drawn
    ),
    "passages": lambda explorer, asked, where: explorer.passages(asked.name, where, asked.offset, asked.limit),
    "facts": lambda explorer, asked, where: explorer.facts(asked.name, where, asked.offset, asked.limit),
    "between": lambda explorer, asked, where: explorer.between(asked.source, asked.target, where),
    "community": lambda explorer, asked, where: explorer.community(asked.id, where),
    "question": lambda explorer, asked, where: explorer.question(asked.text, where, answer=False),
}
_Kind = Literal[
    "overview", "search", "entity", "neighbours", "passages", "facts", "between", "community", "question"
]  # fmt: skip


def explorer_router(gateway: Gateway) -> APIRouter:
    """Return the routes under ``/explore``."""
    router = APIRouter(prefix="/explore", include_in_schema=False)
    explorer = Explorer(gateway.retriever)
    page = server_page()

    @router.get("")
    async def address() -> Response:
        return RedirectResponse("explore/", 308)  # relative, for a server behind a prefix

    @router.get("/")
    async def html() -> Response:
        return HTMLResponse(page, headers=_HEADERS)

    @router.get("/assets/{name}")
    async def file(name: Annotated[str, Path(max_length=100)]) -> Response:
        found = asset(name)
        if found is None:
            raise HTTPException(404)
        headers = {"Cache-Control": f"public, max-age={_YEAR}, immutable", "ETag": f'"{found.tag}"'}
        return Response(found.content, media_type=found.media_type, headers=headers)

    @router.post("/api/{kind}")
    async def answer(request: Request, kind: _Kind, body: ExploreRequest, key: Caller) -> Response:
        if len(body.text) > gateway.limits.question:
            raise TooLarge(f"the question has {len(body.text):,} characters: at most {gateway.limits.question:,}")
        text = await while_connected(request.receive, gateway.run(key, _json, gateway, explorer, key, kind, body))
        return Response(text, media_type="application/json", headers={"Cache-Control": "no-store"})

    return router


def _json(gateway: Gateway, explorer: Explorer, key: Key, kind: str, asked: ExploreRequest) -> str:
    """Return an answer within the scope of a key, as JSON."""
    return json.dumps(_ANSWERS[kind](explorer, asked, gateway.scope(key, asked.where)))
