"""What stands before both applications: keys, the size and time of bodies, the log; and uvicorn with few connections.

:class:`Guard` is ASGI middleware. It finds the key before a body is read, and reads a body whole before the application
runs. :class:`Connection` closes connections that keep the server waiting, so that others are accepted.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import Mapping
from contextlib import suppress

import anyio
import anyio.to_thread
import uvicorn
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from graphrag_apps.serve.errors import Refused, kind_of, message_of, status_of
from graphrag_apps.serve.gateway import Gateway, Limits
from graphrag_apps.serve.keys import Key
from graphrag_core.deadline import deadline
from graphrag_core.errors import GraphRAGError

_SMALL = 65_536  # bytes of a body that is read however many others arrive
_BACKLOG = 128  # connections that are accepted at once
_HEADERS: Mapping[int, Mapping[str, str]] = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}
_log = logging.getLogger("graphrag_apps.serve")


def error_response(error: GraphRAGError, key: Key | None) -> JSONResponse:
    """Return an error as JSON, for a caller with a key."""
    status = status_of(error)
    message = message_of(error, restricted=key is None or key.restricted)
    if status >= 500:
        _log.warning("%s: %s", kind_of(error), error)
    return JSONResponse(
        {"error": {"type": kind_of(error), "message": message}}, status, headers=dict(_HEADERS.get(status, {}))
    )


def key_of(scope: Scope) -> Key:
    """Return the key of a request that passed :class:`Guard`; raise ``Refused`` if it has none."""
    key = scope["state"].get("key")
    if not isinstance(key, Key):
        raise Refused(401, "send a key in the header 'Authorization: Bearer KEY'")
    return key


def limit_threads(workers: int) -> None:
    """Let an event loop run at most so many plain functions at once, of routes and of tools."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = workers


class Guard:
    """ASGI middleware: finds the key of a request, reads its body within the limits of a gateway, and logs it."""

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self.app = app
        self.gateway = gateway
        self._unread = 0  # bytes of bodies that have not arrived whole

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.monotonic(), 499

        async def watched(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        state = scope.setdefault("state", {})
        state["key"] = None  # whatever an outer application says
        try:
            try:
                state["key"] = self.gateway.authenticate(_secret(Headers(scope=scope)))
            except Refused:
                if scope["method"] not in ("GET", "HEAD"):
                    raise
            if scope["method"] not in ("GET", "HEAD"):
                receive = await self._read(scope, receive)
            with deadline(start + self.gateway.limits.seconds):
                await self.app(scope, receive, watched)
        except GraphRAGError as error:
            await error_response(error, state["key"])(scope, receive, watched)
        finally:
            took, name = (time.monotonic() - start) * 1000, state["key"].name if state["key"] else "-"
            route = getattr(scope.get("route"), "path", "other")  # without ids and names of documents
            _log.info("%s %s %s %.0f ms %s", scope["method"], route, status, took, name)

    async def _read(self, scope: Scope, receive: Receive) -> Receive:
        """Return a body that has arrived whole."""
        limits, body, declared = self.gateway.limits, bytearray(), Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared) > limits.body_bytes:
            raise _too_large(limits)
        try:
            with anyio.fail_after(limits.receive_seconds):
                while (message := await receive()).get("more_body"):
                    piece = message["body"]
                    body += piece
                    self._unread += len(piece)
                    if len(body) > limits.body_bytes:
                        raise _too_large(limits)
                    if self._unread > limits.unread_bytes and len(body) > _SMALL:
                        raise Refused(503, "too many large bodies arrive at once: send this one again")
        except TimeoutError as error:
            seconds = f"{limits.receive_seconds:g} seconds"
            raise Refused(408, f"the body did not arrive within {seconds}: send it faster, or in parts") from error
        finally:
            self._unread -= len(body)
        body += message.get("body", b"")
        if len(body) > limits.body_bytes:
            raise _too_large(limits)
        whole: list[Message] = [{**message, "body": bytes(body)}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        return replay


def _too_large(limits: Limits) -> Refused:
    return Refused(413, f"the body has more than {limits.body_bytes:,} bytes: send less at once")


def _secret(headers: Headers) -> str | None:
    """Return the key in the headers, or None."""
    kind, _, secret = headers.get("authorization", "").partition(" ")
    return secret.strip() if kind.lower() == "bearer" else headers.get("x-api-key")


class Connection(H11Protocol):
    """An HTTP connection with timeouts for receiving a request and for sending the response.

    At the connection limit a new connection replaces the one that has been idle or receiving for the longest time.
    """

    limits = Limits()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Close another connection if there are too many."""
        super().connection_made(transport)
        self.since = self.loop.time()
        self._timer = self.loop.call_later(self.limits.receive_seconds, self._check)
        if len(self.connections) > self.limits.connections:
            waiting = [one for one in self.connections if isinstance(one, Connection) and one.waits(body=True)]
            min(waiting, key=lambda one: one.since).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the time limit."""
        self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Wait for the next request from now on."""
        self.since = self.loop.time()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Wait for the client from now on to take a part of its answer."""
        self.since = self.loop.time()
        super().pause_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP. The application does not answer the request that it is a part of."""
        if self.cycle is None or self.cycle.response_complete:
            super().send_400_response(msg)
            return
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        self.transport.close()

    def waits(self, *, body: bool = False) -> bool:
        """Return whether the server waits for the client; ``body`` counts one whose body arrives."""
        if self.cycle is None or self.cycle.response_complete or self.flow.write_paused:
            return True
        return body and self.cycle.more_body

    def _check(self) -> None:
        """Close the connection if its time is up."""
        left = self.since + self.limits.receive_seconds - self.loop.time() if self.waits() else 0.0
        if self.waits() and left <= 0:
            self.transport.abort()
        else:
            self._timer = self.loop.call_later(max(left, 0.1), self._check)


def serve(app: ASGIApp, limits: Limits, host: str, port: int) -> None:
    """Serve an application with limits of connections, until SIGTERM or Ctrl-C. uvicorn's log says where it runs."""
    protocol = type("LimitedConnection", (Connection,), {"limits": limits})
    config = uvicorn.Config(
        app, host, port, http=protocol, ws="none", access_log=False, log_level="info", server_header=False,
        backlog=_BACKLOG, log_config=None, timeout_graceful_shutdown=int(limits.seconds) + 1,
    )  # fmt: skip
    gc.freeze()  # what is there now stays: it is not looked through again
    with suppress(KeyboardInterrupt):  # uvicorn raises it again when it has ended
        uvicorn.Server(config).run()
