"""What the servers refuse, and the HTTP status of every error."""

from __future__ import annotations

from graphrag_core.errors import (
    DatabaseError,
    DeadlineExceeded,
    EmbedderError,
    GraphRAGError,
    InputError,
    LLMError,
    StorageError,
)


class ServeError(GraphRAGError):
    """A request is refused, with an HTTP status."""

    status = 400


class NotAuthenticated(ServeError):
    """The request has no key, or an unknown one."""

    status = 401


class NotAllowed(ServeError):
    """The key may not do this."""

    status = 403


class NotFound(ServeError):
    """There is no such document or entity, or it is outside the key's filter."""

    status = 404


class TimedOut(ServeError):
    """The body did not arrive in time."""

    status = 408


class Conflict(ServeError):
    """The id belongs to a document outside the key's filter."""

    status = 409


class TooLarge(ServeError):
    """The body or the question is too long."""

    status = 413


class Unavailable(ServeError):
    """The server is busy."""

    status = 503


class TimeLimit(ServeError):
    """The answer took too long."""

    status = 504


_STATUSES: tuple[tuple[type[GraphRAGError], int], ...] = (
    (InputError, 400),
    (LLMError, 502),
    (EmbedderError, 503),
    (DatabaseError, 503),
    (StorageError, 500),
)
_OUTAGES = {
    500: "the index cannot be read: its operator finds the reason in the log",
    502: "the language model failed: try again later",
    503: "the index or its embedding model cannot be reached: try again later",
}


def status_of(error: GraphRAGError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, ServeError):
        return error.status
    if isinstance(error, DeadlineExceeded):
        return TimeLimit.status
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def kind_of(error: GraphRAGError) -> str:
    """Return the name of an error, for programs."""
    if isinstance(error, DeadlineExceeded):
        return TimeLimit.__name__
    return type(error).__name__


def message_of(error: GraphRAGError, *, restricted: bool) -> str:
    """Return the message of an error. A restricted key is not told addresses of databases and models."""
    status = status_of(error)
    hidden = restricted and not isinstance(error, (ServeError, DeadlineExceeded))
    return _OUTAGES[status] if hidden and status in _OUTAGES else str(error)
