"""What the HTTP servers share: a middleware that guards requests, errors as JSON, events, graceful shutdown."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import socket
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import uvicorn
from starlette.datastructures import Headers
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Match, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from graphrag_apps.config import LOCAL
from graphrag_apps.serve import errors
from graphrag_apps.serve.gateway import Gateway
from graphrag_apps.serve.limits import Limits
from graphrag_core.errors import GraphRAGError

_log = logging.getLogger(__name__)
_MOST_DISCARDED = 10  # times the limit of a body
_PIECE = 65_536  # bytes of a file that are sent at once
KEY = "graphrag_core.key"
"""In a scope: the key of a request that was authenticated, perhaps before its body was read."""
_DEADLINE = "graphrag_core.deadline"  # in a scope: when the request must have arrived, by the event loop's clock
_BaseConnection: Any = AutoHTTPProtocol  # which of two, uvicorn decides when it is imported
_T = TypeVar("_T")
_KEEP_ALIVE = 15.0  # seconds without an event until a comment is sent, so that proxies keep the connection


def secret_of(headers: Mapping[str, str]) -> str | None:
    """Return the API key of a request: ``Authorization: Bearer KEY``, or ``X-API-Key: KEY``.

    >>> secret_of({"authorization": "Bearer abc"}), secret_of({})
    ('abc', None)
    """
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else headers.get("x-api-key")


def address_of(scope: Scope) -> str:
    """Return the address that a request came from."""
    return scope["client"][0] if scope.get("client") else ""


class ClientGone(Exception):
    """The client closed its connection."""


async def while_connected(receive: Receive, work: Awaitable[_T]) -> _T:
    """Return the result of some work; cancel it if the client goes away."""

    async def disconnected() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(disconnected())
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


def error_response(error: GraphRAGError, *, restricted: bool) -> Response:
    """Return an error of the library as a response."""
    status = errors.status_of(error)
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    wait = getattr(error, "retry_after", None) or (5 if status in (502, 503) else None)
    if wait is not None:
        headers["Retry-After"] = str(max(1, math.ceil(wait)))
    return JSONResponse(errors.reported(error, restricted=restricted), status, headers)


# -- requests


class _Body:
    """The body of a request: whether it has arrived, and until when it may."""

    def __init__(self, scope: Scope, receive: Receive, seconds: float) -> None:
        headers = Headers(scope=scope)
        length = headers.get("content-length", "")
        self.length = int(length) if length.isdecimal() else 0
        self.ended = not self.length and "transfer-encoding" not in headers
        self._receive = receive
        self._until = scope.get(_DEADLINE) or asyncio.get_running_loop().time() + seconds

    @property
    def seconds(self) -> float:
        """How long the rest may take."""
        return max(0.0, float(self._until) - asyncio.get_running_loop().time())

    async def receive(self) -> Message:
        """Receive the next part of a request."""
        message = await self._receive()
        self.ended = not message.get("more_body", False)
        return message

    async def discard(self, most: int) -> None:
        """Receive the rest, within the time limit and ``most`` bytes: a client that still sends reads no answer."""
        while not self.ended and most > 0 and self.seconds:
            with suppress(TimeoutError, asyncio.TimeoutError):
                most -= len((await asyncio.wait_for(self.receive(), self.seconds)).get("body", b""))


class _Bodies:
    """The bodies that arrive. All together they hold no more than a number of bytes.

    If they would hold more, the largest is refused: those who send much do not keep out those who send little.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._most = max(limits.unread_bytes, limits.body_bytes)
        self._held: dict[asyncio.Future[bytes], bytearray] = {}

    async def read(self, body: _Body) -> bytes:
        """Return a body when it has arrived whole.

        Raises if it is too large or too late, if too much arrives at once, or if the client went away.
        """
        self._check_size(body.length)
        data = bytearray()
        reading = asyncio.ensure_future(self._collect(body, data))
        self._held[reading] = data
        try:
            await asyncio.wait({reading}, timeout=body.seconds)
            if not reading.done():
                raise errors.LateBody(f"the request did not arrive within {self._limits.receive_seconds:g} seconds")
            if reading.cancelled():
                raise errors.Unavailable("too many large requests arrive at once: try again in a moment", retry_after=1)
            return reading.result()
        finally:
            self._held.pop(reading, None)
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _collect(self, body: _Body, data: bytearray) -> bytes:
        while not body.ended:
            message = await body.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            data += message.get("body", b"")
            self._check_size(len(data))
            while sum(map(len, self._held.values())) > self._most:
                largest = max(self._held, key=lambda reading: len(self._held[reading]))
                self._held.pop(largest).clear()
                largest.cancel()
        return bytes(data)

    def _check_size(self, size: int) -> None:
        if size > self._limits.body_bytes:
            raise errors.TooLarge(f"the body has more than {self._limits.body_bytes:,} bytes")


def body_route(routes: Sequence[BaseRoute], scope: Scope) -> BaseRoute | None:
    """Return the route that takes a request with a body; None if there is none, or if it reads no body."""
    if scope["method"] in ("GET", "HEAD"):
        return None
    match = next((route for route in routes if route.matches(scope)[0] is Match.FULL), None)
    return None if isinstance(match, Mount) else match


class Guard:
    """ASGI middleware: limits bodies, checks hosts, logs requests without their words, answers failures with JSON.

    ``hosts`` are the names of the server; None for the default ones. ``admit`` is called before the body of a request
    is read: it refuses the request by an error, or returns whether to read the body; ``app`` gets the request in either
    case. ``count`` is called with the method, the route, the status and the seconds of each request.
    """

    def __init__(
        self,
        app: ASGIApp,
        gateway: Gateway,
        hosts: Sequence[str] | None,
        admit: Callable[[Scope], Awaitable[bool]],
        *,
        log_questions: bool = False,
        count: Callable[[str, str | None, int, float], None] | None = None,
    ) -> None:
        self.app = app
        self.admit = admit
        self.count = count
        self.gateway = gateway
        self.hosts = hosts if hosts is not None else ("*",) if gateway.keys is not None else LOCAL
        self.log_questions = log_questions
        self._bodies = _Bodies(gateway.limits)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0
        body = _Body(scope, receive, self.gateway.limits.receive_seconds)

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message.setdefault("headers", []).extend(_added_headers(scope, body))
            elif not message.get("more_body", False) and not body.ended:  # the client may still send
                await send({**message, "more_body": True})
                await body.discard(_MOST_DISCARDED * self.gateway.limits.body_bytes)
                message = {"type": "http.response.body"}
            await send(message)

        try:
            self._check_headers(Headers(scope=scope))
            is_read = await self.admit(scope)
            receiving = _replayed(await self._bodies.read(body), body.receive) if is_read else body.receive
            await self.app(scope, receiving, sending)
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

    def _check_headers(self, headers: Headers) -> None:
        encoding = headers.get("content-encoding", "")
        if encoding.lower() not in ("", "identity"):
            raise errors.Compressed(f"the Content-Encoding is {encoding!r:.100}: send the body uncompressed")
        if "*" in self.hosts:
            return
        host, origin = headers.get("host", ""), headers.get("origin")
        if _parts(f"//{host}")[0] not in self.hosts:
            raise errors.HostNotAllowed(f"this server does not answer for {host!r:.100}")
        if origin is not None and _parts(origin)[1] != host:
            raise errors.OriginNotAllowed("pages of other origins may not use this server")

    def _log(self, scope: Scope, status: int, seconds: float) -> None:
        key = scope.get(KEY)
        path = scope["path"]
        if self.log_questions and scope["query_string"]:
            path += "?" + scope["query_string"].decode("latin-1")
        elif path.startswith("/v1/documents/"):
            path = "/v1/documents/…"
        who = key.name if key is not None else "-"
        _log.info("%s %s %d %.0f ms %s", scope["method"], _printable(path), status, seconds * 1000, _printable(who))


def _added_headers(scope: Scope, body: _Body) -> Iterator[tuple[bytes, bytes]]:
    yield b"x-content-type-options", b"nosniff"
    if scope["path"].startswith("/v1"):
        yield b"cache-control", b"no-store"
    if not body.ended:
        yield b"connection", b"close"  # the rest of the body is not waited for


def _failure(error: Exception, *, started: bool) -> Response | None:
    """Return the response to a request that was refused or failed; None if another one was started."""
    if isinstance(error, errors.ServeError):
        return error_response(error, restricted=True)
    is_gone = isinstance(error, OSError) or "the handler is closed" in str(error)  # uvloop raises RuntimeError
    if not (is_gone and started):  # a client may go away while it is written to
        _log.error("a request failed", exc_info=error)
    return None if started else JSONResponse(errors.error_body(), 500)


def _parts(url: str) -> tuple[str | None, str | None]:
    """Return the name and the address of the host in a URL; None for an invalid URL."""
    try:
        parts = urlsplit(url)
    except ValueError:  # such as an unclosed bracket
        return None, None
    return parts.hostname, parts.netloc


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text[:500])


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Return a function that receives a body that was read, then the messages after it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return messages.pop() if messages else await receive()

    return replay


# -- files


class Assets(StaticFiles):
    """Files of packages, sent from memory: an answer that a client does not take holds no open file."""

    def file_response(self, full_path: Any, stat_result: os.stat_result, *arguments: Any) -> Response:
        """Return the response with a file."""
        response = super().file_response(full_path, stat_result, *arguments)
        if not isinstance(response, FileResponse):  # the client has the file
            return response
        data = _read(full_path, stat_result.st_mtime_ns)
        return StreamingResponse(_pieces(data), response.status_code, response.headers)


@lru_cache(maxsize=100)
def _read(path: str, _: int) -> bytes:
    return Path(path).read_bytes()


async def _pieces(data: bytes) -> AsyncGenerator[bytes, None]:
    for start in range(0, len(data), _PIECE):
        yield data[start : start + _PIECE]


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
        while True:
            event = asyncio.ensure_future(anext(self.events, None))
            try:
                while not (await asyncio.wait({event}, timeout=_KEEP_ALIVE))[0]:
                    await send({"type": "http.response.body", "body": b": waiting\n\n", "more_body": True})
                data = event.result()
            finally:
                event.cancel()
                await asyncio.gather(event, return_exceptions=True)
            await send({"type": "http.response.body", "body": data or b"", "more_body": data is not None})
            if data is None:
                return


# -- a process


class _Waiting:
    """The connections that wait for their client: until a request has arrived whole, or until an answer is taken.

    Headers and body of a request have one time limit, and so has an answer of which nothing is taken. uvicorn waits
    without end. If there are too many such connections, of one address or of all, the one that has waited longest is
    closed.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._timers: dict[Any, asyncio.TimerHandle] = {}
        self._by_address: defaultdict[str, dict[Any, None]] = defaultdict(dict)

    def follow(self, connection: Any) -> None:
        """Note that something happened on a connection."""
        if connection.flow.write_paused:
            self._add(connection)
            return
        cycle = connection.cycle
        is_idle = cycle is None or cycle.response_complete
        # While others are answered that arrived before it, uvicorn does not read the request.
        is_arriving = is_idle or (cycle.more_body and not getattr(connection, "pipeline", None))
        if not is_arriving or connection.transport.is_closing():
            self.forget(connection)
            return
        self._add(connection)
        if not is_idle and connection in self._timers:
            cycle.scope.setdefault(_DEADLINE, self._timers[connection].when())

    def restart(self, connection: Any) -> None:
        """Note that a connection waits for something else, or again."""
        self.forget(connection)
        self.follow(connection)

    def _add(self, connection: Any) -> None:
        if connection in self._timers:
            return
        limits, neighbours = self._limits, self._by_address[_address(connection)]
        unsent = connection.transport.get_write_buffer_size()
        self._timers[connection] = connection.loop.call_later(limits.receive_seconds, self._expire, connection, unsent)
        neighbours[connection] = None
        if len(neighbours) > limits.connections_per_address:
            self._close(next(iter(neighbours)))
        if len(self._timers) > limits.connections:
            self._close(next(iter(self._timers)))

    def forget(self, connection: Any) -> None:
        """Wait for a connection no more."""
        if (timer := self._timers.pop(connection, None)) is not None:
            timer.cancel()
            address = _address(connection)
            del self._by_address[address][connection]
            if not self._by_address[address]:
                del self._by_address[address]

    def _expire(self, connection: Any, unsent: int) -> None:
        cycle, is_taking = connection.cycle, connection.flow.write_paused
        if is_taking and connection.transport.get_write_buffer_size() < unsent:
            self.restart(connection)
        elif is_taking or cycle is None or cycle.response_started:  # else the application answers it
            self._close(connection)

    def _close(self, connection: Any) -> None:
        self.forget(connection)
        connection.transport.abort()  # close() would wait until the client takes all that is written


def _address(connection: Any) -> str:
    return connection.client[0] if connection.client else ""


class _Connection(_BaseConnection):  # type: ignore[misc]
    """A connection of uvicorn, which a server's :class:`_Waiting` follows."""

    waiting: _Waiting

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)  # writing is paused until the client has taken all
        # Else the system buffers megabytes, and takes the next piece only when a slow client has read much of them.
        with suppress(AttributeError, OSError):  # the option is not there, or the client is gone
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _PIECE)
        self.waiting.follow(self)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.waiting.follow(self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.waiting.follow(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.waiting.restart(self)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.waiting.restart(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.waiting.forget(self)


class Server(uvicorn.Server):
    """A uvicorn server that refuses new requests and ends answers before it waits for running requests."""

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
        http=type("Connection", (_Connection,), {"waiting": _Waiting(limits)}),
        **settings,
    )  # fmt: skip
    return Server(config, gateway)
