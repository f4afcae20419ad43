"""The graph explorer of the HTTP server: its page, its files, and the requests that it sends.

The page asks for an API key if the server needs one, and sends it with each request. Answers in words come from
``/v1/ask``.
"""

from __future__ import annotations

import inspect
import json
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict, Field

from graphrag_core.explore import Explorer, server_page
from graphrag_core.explore.explorer import MAX_DRAWN, MAX_PAGE
from graphrag_core.explore.page import POLICY
from graphrag_core.serve.gateway import Gateway
from graphrag_core.serve.http import while_connected
from graphrag_core.serve.routes import Caller

_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
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
    answer: Literal[False] = Field(False, description="Answers in words come from /v1/ask.")


_Kind = Literal[
    "overview", "search", "entity", "neighbours", "passages", "facts", "between", "community", "question"
]  # fmt: skip


def add_explorer(app: FastAPI, gateway: Gateway) -> None:
    """Add the routes under ``/explore``."""
    explorer = Explorer(gateway.retriever)
    page = server_page()
    app.mount("/explore/assets", StaticFiles(packages=[("graphrag_core.explore", "assets")]))

    @app.get("/explore", include_in_schema=False)
    async def address() -> Response:
        return RedirectResponse("explore/", 308)  # relative, for a server behind a prefix

    @app.get("/explore/", include_in_schema=False)
    async def html() -> Response:
        return HTMLResponse(page, headers=_HEADERS)

    @app.post("/explore/api/{kind}", include_in_schema=False)
    async def answer(request: Request, kind: _Kind, body: ExploreRequest, key: Caller) -> Response:
        gateway.check_question(body.text)
        method = getattr(explorer, kind)
        given = {name: getattr(body, name) for name in inspect.signature(method).parameters if hasattr(body, name)}

        def work() -> str:
            return json.dumps(method(**given | {"where": gateway.scope(key, body.where)}))

        text = await while_connected(request.receive, gateway.run(key, work))
        return Response(text, media_type="application/json", headers={"Cache-Control": "no-store"})
