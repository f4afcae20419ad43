"""What the HTTP servers share: a middleware that guards requests, errors as JSON, events, graceful shutdown."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from graphrag_core.errors import GraphRAGError
from graphrag_core.serve.errors import (
    HostNotAllowed,
    LateBody,
    OriginNotAllowed,
    ServeError,
    TooLarge,
    message_of,
    status_of,
)
from graphrag_core.serve.gateway import Gateway

_log = logging.getLogger(__name__)
_MOST_DISCARDED = 10  # times the limit of a body
_BaseConnection: Any = AutoHTTPProtocol  # which of two, uvicorn decides when it is imported
_T = TypeVar("_T")
_KEEP_ALIVE = 15.0  # seconds without an event until a comment is sent, so that proxies keep the connection
LOCAL = ("localhost", "127.0.0.1", "::1")
"""The names of this machine."""


def secret_of(headers: Mapping[str, str]) -> str | None:
    """Return the API key of a request: ``Authorization: Bearer KEY``, or ``X-API-Key: KEY``.

    >>> secret_of({"authorization": "Bearer abc"}), secret_of({})
    ('abc', None)
    """
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else headers.get("x-api-key")


class ClientGone(Exception):
    """The client closed its connection."""


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def while_connected(receive: Receive, work: Awaitable[_T]) -> _T:
    """Return the result of some work; cancel it if the client goes away."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    finally:
        for one in (task, gone):
            one.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


# -- errors


def error_body(kind: str, message: str) -> dict[str, Any]:
    """Return an error as the API sends it."""
    return {"error": {"type": kind, "message": message}}


def reported(error: GraphRAGError, *, restricted: bool) -> dict[str, Any]:
    """Return an error of the library as the API sends it. What a restricted client is not told is logged."""
    if status_of(error) >= 500 and not isinstance(error, ServeError):
        _log.error("%s: %s", type(error).__name__, error)
    kind = next(one.__name__ for one in type(error).__mro__ if not one.__name__.startswith("_"))  # a public class
    return error_body(kind, message_of(error, restricted=restricted))


def error_response(error: GraphRAGError, *, restricted: bool) -> Response:
    """Return an error of the library as a response."""
    status = status_of(error)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    wait = getattr(error, "retry_after", None) or (5 if status in (502, 503) else None)
    if wait is not None:
        headers["Retry-After"] = str(max(1, math.ceil(wait)))
    return JSONResponse(reported(error, restricted=restricted), status, headers)


# -- requests


class Guard:
    """ASGI middleware: limits bodies, checks hosts, logs requests without their words, answers failures with JSON."""

    def __init__(
        self,
        app: ASGIApp,
        gateway: Gateway,
        hosts: Sequence[str] | None,
        *,
        log_questions: bool = False,
        count: Callable[[str, str | None, int, float], None] | None = None,
    ) -> None:
        self.app = app
        self.count = count
        self.gateway = gateway
        self.hosts = hosts if hosts is not None else ("*",) if gateway.keys is not None else LOCAL
        self.log_questions = log_questions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message.setdefault("headers", []).append((b"x-content-type-options", b"nosniff"))
                if scope["path"].startswith("/v1"):
                    message["headers"].append((b"cache-control", b"no-store"))
            await send(message)

        try:
            self._check_host(Headers(scope=scope))
            body = await self._read(scope, receive)
            await self.app(scope, _replayed(body, receive), sending)
        except ClientGone:
            status = status or 499
        except Exception as error:  # noqa: BLE001 - logged, and answered
            if (response := _failure(error, started=bool(status))) is not None:
                await response(scope, receive, sending)
        finally:
            seconds = time.perf_counter() - start
            self._log(scope, status, seconds)
            if self.count is not None:
                self.count(scope["method"], getattr(scope.get("route"), "path", None), status, seconds)

    def _check_host(self, headers: Headers) -> None:
        if "*" in self.hosts:
            return
        host, origin = headers.get("host", ""), headers.get("origin")
        if _parts(f"//{host}")[0] not in self.hosts:
            raise HostNotAllowed(f"this server does not answer for {host!r:.100}")
        if origin is not None and _parts(origin)[1] != host:
            raise OriginNotAllowed("pages of other origins may not use this server")

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body of a request."""
        limits = self.gateway.limits
        too_large = TooLarge(f"the body has more than {limits.body_bytes:,} bytes")
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit() and int(value) > limits.body_bytes:
                await self._discard(receive)
                raise too_large
        body, more = bytearray(), True
        while more:
            try:
                message = await asyncio.wait_for(receive(), limits.seconds)
            except (TimeoutError, asyncio.TimeoutError) as error:
                raise LateBody(f"the body did not arrive within {limits.seconds:g} seconds") from error
            if message["type"] == "http.disconnect":
                raise ClientGone
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > limits.body_bytes:
                body.clear()
                if more:
                    await self._discard(receive)
                raise too_large
        return bytes(body)

    async def _discard(self, receive: Receive) -> None:
        """Read the rest of a body that is too large, for a time: a client that still sends does not read the answer."""
        left = _MOST_DISCARDED * self.gateway.limits.body_bytes
        end = time.monotonic() + self.gateway.limits.header_seconds
        while left > 0 and time.monotonic() < end:
            with suppress(TimeoutError, asyncio.TimeoutError):
                message = await asyncio.wait_for(receive(), max(0.0, end - time.monotonic()))
                left -= len(message.get("body", b""))
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        key = getattr(scope.get("state"), "key", None) or scope.get("state", {}).get("key")
        path = scope["path"]
        if self.log_questions and scope["query_string"]:
            path += "?" + scope["query_string"].decode("latin-1")
        elif path.startswith("/v1/documents/"):
            path = "/v1/documents/…"
        who = key.name if key is not None else "-"
        _log.info("%s %s %d %.0f ms %s", scope["method"], _printable(path), status, seconds * 1000, _printable(who))


def _failure(error: Exception, *, started: bool) -> Response | None:
    """Return the response to a request that was refused or failed; None if another one was started."""
    if isinstance(error, ServeError):
        response = error_response(error, restricted=True)
        if isinstance(error, (LateBody, TooLarge)):
            response.headers["Connection"] = "close"  # the rest of the body is not read
        return response
    is_gone = isinstance(error, OSError) or "the handler is closed" in str(error)  # uvloop raises RuntimeError
    if not (is_gone and started):  # a client may go away while it is written to
        _log.error("a request failed", exc_info=error)
    return None if started else JSONResponse(error_body("InternalError", "the server failed: see its log"), 500)


def _parts(url: str) -> tuple[str | None, str | None]:
    """Return the name and the address of the host in a URL; None for what is no URL."""
    try:
        found = urlsplit(url)
    except ValueError:  # such as an unclosed bracket
        return None, None
    return found.hostname, found.netloc


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text[:500])


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a function that receives a body that was read, then what comes after it."""
    sent = False

    async def replay() -> Message:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


# -- events


def event(name: str, value: Any) -> bytes:
    """Return a Server-Sent Event."""
    return f"event: {name}\ndata: {json.dumps(value, ensure_ascii=True)}\n\n".encode()


class EventStream(Response):
    """Sends Server-Sent Events until they end, the client goes away, or the time is up."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None], seconds: float) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self.events = events
        self.seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - the interface
        """Send the events."""
        try:
            # A client that does not read holds this coroutine and no thread, and not for ever.
            with suppress(asyncio.TimeoutError, TimeoutError):
                await asyncio.wait_for(while_connected(receive, self._send(send)), self.seconds)
        finally:
            await self.events.aclose()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        event: asyncio.Future[bytes | None] | None = None
        try:
            while True:
                event = event or asyncio.ensure_future(anext(self.events, None))
                done, _ = await asyncio.wait({event}, timeout=_KEEP_ALIVE)
                data = event.result() if done else b": waiting\n\n"
                if done:
                    event = None
                await send({"type": "http.response.body", "body": data or b"", "more_body": data is not None})
                if data is None:
                    return
        finally:
            if event is not None:
                event.cancel()
                await asyncio.gather(event, return_exceptions=True)


# -- a process


class _Waiting:
    """The connections that wait for the headers of a request. One is closed after some seconds.

    uvicorn waits for headers without end. If there are too many connections, the one that has waited longest is closed.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self._most, self._seconds = most, seconds
        self._timers: dict[Any, asyncio.TimerHandle] = {}

    def follow(self, connection: Any) -> None:
        """Note that something happened on a connection."""
        is_answering = connection.cycle is not None and not connection.cycle.response_complete
        if is_answering or connection.transport.is_closing():
            self.forget(connection)
        elif connection not in self._timers:
            self._timers[connection] = connection.loop.call_later(self._seconds, self._close, connection)
            if len(self._timers) > self._most:
                self._close(next(iter(self._timers)))

    def forget(self, connection: Any) -> None:
        """Wait for a connection no more."""
        if (timer := self._timers.pop(connection, None)) is not None:
            timer.cancel()

    def _close(self, connection: Any) -> None:
        self.forget(connection)
        connection.transport.close()


class _Connection(_BaseConnection):  # type: ignore[misc]
    """A connection of uvicorn, which a server's :class:`_Waiting` follows."""

    waiting: _Waiting

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.waiting.follow(self)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.waiting.follow(self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.waiting.follow(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.waiting.forget(self)


class Server(uvicorn.Server):
    """A uvicorn server that refuses new requests and ends answers before it waits for what runs."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway) -> None:
        super().__init__(config)
        self.gateway = gateway

    async def shutdown(self, sockets: Any = None) -> None:
        """Shut down."""
        self.gateway.begin_shutdown()
        await super().shutdown(sockets)


def make_server(app: ASGIApp, gateway: Gateway, host: str, port: int, **settings: Any) -> Server:
    """Return a server for an application. ``run()`` serves until SIGINT or SIGTERM; then running requests end."""
    limits = gateway.limits
    config = uvicorn.Config(
        app, host=host, port=port, access_log=False, log_config=None, lifespan="on", server_header=False,
        timeout_graceful_shutdown=math.ceil(max(limits.seconds, limits.write_seconds)),
        http=type("Connection", (_Connection,), {"waiting": _Waiting(limits.connections, limits.header_seconds)}),
        **settings,
    )  # fmt: skip
    return Server(config, gateway)
