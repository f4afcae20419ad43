"""What the servers refuse, and the HTTP status of every error."""

from __future__ import annotations

from graphrag_core.errors import (
    DatabaseError,
    DeadlineExceeded,
    EmbedderError,
    GraphRAGError,
    InputError,
    LLMError,
)

_KINDS = {401: "NotAuthenticated", 403: "NotAllowed", 404: "NotFound", 408: "TimedOut", 409: "Conflict",
          413: "TooLarge", 503: "Unavailable", 504: "TimeLimit"}  # fmt: skip
_STATUSES: tuple[tuple[type[GraphRAGError], int], ...] = (
    (InputError, 400),
    (LLMError, 502),
    (EmbedderError, 503),
    (DatabaseError, 503),
    (DeadlineExceeded, 504),
)
_OUTAGES = {
    500: "the index cannot be read: its operator finds the reason in the log",
    502: "the language model failed: try again later",
    503: "the index or its embedding model cannot be reached: try again later",
}


class Refused(GraphRAGError):
    """A request is refused, with an HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def status_of(error: GraphRAGError) -> int:
    """Return the HTTP status of an error."""
    if isinstance(error, Refused):
        return error.status
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def kind_of(error: GraphRAGError) -> str:
    """Return the name of an error, for programs."""
    is_ours = isinstance(error, (Refused, DeadlineExceeded))
    return _KINDS[status_of(error)] if is_ours else type(error).__name__


def message_of(error: GraphRAGError, *, restricted: bool) -> str:
    """Return the message of an error. A restricted key is not told addresses of databases and models."""
    hidden = restricted and not isinstance(error, Refused)
    return _OUTAGES.get(status_of(error), str(error)) if hidden else str(error)
