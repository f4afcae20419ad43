"""Vectors that were made before the core asks for them, such as on an event loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from graphrag_core.ports import Embedder


@dataclass(frozen=True)
class Ready:
    """What was embedded before the core runs in a thread, or why it could not be."""

    question: str = ""
    vector: Any = None
    texts: Mapping[str, Any] = field(default_factory=dict)
    error: Exception | None = None


_ready: ContextVar[Ready | None] = ContextVar("ready", default=None)


@contextmanager
def at_hand(ready: Ready | None) -> Iterator[None]:
    """Let the core's calls inside find what was embedded before; other calls see nothing of it."""
    token = _ready.set(ready)
    try:
        yield
    finally:
        _ready.reset(token)


class Handed:
    """An embedder for frameworks that await their vectors.

    A call of the core inside :func:`at_hand` gets the vectors that were awaited before, or
    the error that awaiting raised, so that the core treats both as it does in a plain call;
    for anything else ``source`` is asked. Waiting on a loop from inside the core's thread is
    not done: what the thread holds meanwhile, the loop might be waiting for.
    """

    def __init__(self, source: Embedder) -> None:
        self.source = source

    def embed_documents(self, texts: list[str]) -> Any:
        """Return one vector for each text."""
        ready = _ready.get()
        if ready is None:
            return self.source.embed_documents(texts)
        if ready.error:
            raise ready.error
        missing = [text for text in texts if text not in ready.texts]
        fresh = dict(zip(missing, self.source.embed_documents(missing), strict=True)) if missing else {}
        return [fresh[text] if text in fresh else ready.texts[text] for text in texts]

    def embed_query(self, text: str) -> Any:
        """Return the vector of a question."""
        ready = _ready.get()
        if ready is None or text != ready.question:
            return self.source.embed_query(text)
        if ready.error:
            raise ready.error
        return ready.vector
