"""A web application that opens an index when it is imported, for WSGI and ASGI servers.

``KB`` is the folder. ``KB_WRITES=1`` opens it for writing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import ReadOnlyIndex
from graphrag_core.testing import HashEmbedder

INDEX = KnowledgeIndex.open(os.environ["KB"], HashEmbedder(), read_only=os.environ.get("KB_WRITES") != "1")
RETRIEVER = GraphRetriever(INDEX, k=3)


def answer(path: str, query: str) -> tuple[int, bytes]:
    """Return status and body: the passages of a question, or what happens to a write."""
    if path == "/add":
        try:
            INDEX.add([Document("new", "Something new.")])
        except ReadOnlyIndex as error:
            return 409, str(error).encode()
        return 201, b""
    hits = RETRIEVER.retrieve(parse_qs(query)["q"][0]).hits
    return 200, json.dumps({"pid": os.getpid(), "hits": [[h.chunk.id, h.score] for h in hits]}).encode()


def wsgi(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Serve with gunicorn."""
    status, body = answer(environ["PATH_INFO"], environ["QUERY_STRING"])
    start_response(f"{status} -", [("Content-Length", str(len(body)))])
    return [body]


async def asgi(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
    """Serve with uvicorn."""
    if scope["type"] != "http":
        return
    status, body = answer(scope["path"], scope["query_string"].decode())
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": body})
