"""Errors of the servers, and the HTTP status of every error of the library.

::

    GraphRAGError
    └── ServeError
        ├── NotAuthenticated    401  no key, or an unknown one
        ├── NotAllowed          403  the key may not do this
        ├── NotFound            404  there is no such thing within the scope of the key
        ├── Conflict            409  the id is taken
        ├── TooLarge            413  the request exceeds a limit
        ├── TooManyRequests     429  the rate limit of the key
        ├── Unavailable         503  too many requests at once, or the server is closing
        └── TimeLimit           504  the request took too long
"""

from __future__ import annotations

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

    status = 500

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class NotAuthenticated(ServeError):
    """The request has no API key, or an unknown one."""

    status = 401


class NotAllowed(ServeError):
    """The API key may not do this."""

    status = 403


class NotFound(ServeError):
    """There is no such thing within the scope of the API key."""

    status = 404


class Conflict(ServeError):
    """The id of a document cannot be used."""

    status = 409


class TooLarge(ServeError):
    """The request exceeds a limit of the server."""

    status = 413


class TooManyRequests(ServeError):
    """The API key exceeds its rate limit."""

    status = 429


class Unavailable(ServeError):
    """Too many requests run at once, or the server is closing."""

    status = 503


class TimeLimit(ServeError):
    """The request took longer than the server allows."""

    status = 504


_STATUS = (
    (LLMError, 502),
    (ReadOnlyIndex, 403),
    (IndexLocked, 503),
    (DatabaseError, 503),
    (StorageError, 503),
    (EmbedderError, 503),
    (InputError, 400),
)
_UNSPECIFIC = {
    502: "the language model did not answer: try again later, or use /v1/query, which needs none",
    503: "the index or the embedding model cannot be reached now: try again later",
}


def status_of(error: GraphRAGError) -> int:
    """Return the HTTP status of an error.

    >>> status_of(InputError("the question is empty")), status_of(NotFound("no such document"))
    (400, 404)
    """
    if isinstance(error, ServeError):
        return error.status
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def message_of(error: GraphRAGError, *, restricted: bool) -> str:
    """Return what a client is told.

    Errors of the index, of the embedder and of the language model name hosts, paths and documents of other scopes. The
    client of a restricted key is told what to do instead; the log has the message.
    """
    status = status_of(error)
    if not restricted or isinstance(error, ServeError) or status < 500:
        return str(error)
    return _UNSPECIFIC.get(status, "the server failed: see its log")
