"""Errors of the servers, and the HTTP status of every error of the library."""

from __future__ import annotations

import logging
from typing import Any

from graphrag_core.errors import (
    DatabaseError,
    EmbedderError,
    GraphRAGError,
    IndexLocked,
    InputError,
    LLMError,
    ReadOnlyIndex,
    StorageError,
)


class ServeError(GraphRAGError):
    """A request that the server refuses. ``retry_after`` is the number of seconds to wait, if that helps."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotAuthenticated(ServeError):
    """The API key is missing or unknown."""


class NotAllowed(ServeError):
    """The API key may not do this."""


class OriginNotAllowed(NotAllowed):
    """Pages of other origins may not use the server."""


class NotFound(ServeError):
    """There is no such thing within the scope of the API key."""


class LateBody(ServeError):
    """The body did not arrive in time."""


class Conflict(ServeError):
    """The id of a document cannot be used."""


class TooLarge(ServeError):
    """The request exceeds a limit."""


class Compressed(ServeError):
    """The body is compressed, or not sent as JSON."""


class HostNotAllowed(ServeError):
    """The server does not answer for this host."""


class TooManyRequests(ServeError):
    """The API key sends too many requests, or its address too many unknown keys."""


class Unavailable(ServeError):
    """The server is busy or closing, or the index or the embedding model cannot be reached."""


class TimeLimit(ServeError):
    """The request took too long."""


STATUS: dict[type[GraphRAGError], int] = {
    InputError: 400,
    NotAuthenticated: 401,
    NotAllowed: 403,
    ReadOnlyIndex: 403,
    NotFound: 404,
    LateBody: 408,
    Conflict: 409,
    TooLarge: 413,
    Compressed: 415,
    HostNotAllowed: 421,
    TooManyRequests: 429,
    LLMError: 502,
    Unavailable: 503,
    IndexLocked: 503,
    DatabaseError: 503,
    StorageError: 503,
    EmbedderError: 503,
    TimeLimit: 504,
}
"""The HTTP status of each class of errors. The first class that an error has counts; all others are 500."""

_UNSPECIFIC = {
    502: "the language model did not answer: try again later, or use /v1/query, which needs none",
    503: "the index or the embedding model cannot be reached now: try again later",
}
_FAILED = "the server failed: see its log"
_log = logging.getLogger(__name__)


def status_of(error: GraphRAGError) -> int:
    """Return the HTTP status of an error.

    >>> status_of(InputError("the question is empty")), status_of(NotFound("no such document"))
    (400, 404)
    """
    return next((status for kind, status in STATUS.items() if isinstance(error, kind)), 500)


def error_body(kind: str = "InternalError", message: str = _FAILED) -> dict[str, Any]:
    """Return an error as the API sends it."""
    return {"error": {"type": kind, "message": message}}


def reported(error: GraphRAGError, *, restricted: bool) -> dict[str, Any]:
    """Return an error of the library as the API sends it.

    Errors of the index, of the embedder and of the language model name hosts, paths and documents of other scopes. The
    client of a restricted key is told what to do instead; the log has the message.
    """
    status, message = status_of(error), str(error)
    if status >= 500 and not isinstance(error, ServeError):
        _log.error("%s: %s", type(error).__name__, error)
        if restricted:
            message = _UNSPECIFIC.get(status, _FAILED)
    kind = next(base.__name__ for base in type(error).__mro__ if not base.__name__.startswith("_"))  # a public class
    return error_body(kind, message)
