"""LangChain's embeddings as the core calls them: from a thread, also on behalf of an event loop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from langchain_core.embeddings import Embeddings

from graphrag_core.embedding import identity_of
from graphrag_core.ports import Embedder


@dataclass(frozen=True)
class Ready:
    """What was embedded on the loop before the core runs in a thread, or why it could not be."""

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


class LoopEmbedder:
    """Embeds for the core.

    A call of the core inside :func:`at_hand` gets the vectors that were awaited before, or
    the error that awaiting raised, so that the core treats both as it does in a plain call.
    Waiting on the loop from inside the core's thread is not done: what the thread holds
    meanwhile, the loop might be waiting for.
    """

    def __init__(self, embeddings: Embedder) -> None:
        self.embeddings = embeddings
        # What only keeps vectors of another does not make others.
        source = getattr(embeddings, "underlying_embeddings", embeddings)
        self.identity = identity_of(source)
        self.embedded = bool(getattr(source, "embedded", False))
        self.local = bool(getattr(source, "local", False))

    def embed_documents(self, texts: list[str]) -> Any:
        """Return one vector for each text."""
        ready = _ready.get()
        if ready is None:
            return self.embeddings.embed_documents(texts)
        if ready.error:
            raise ready.error
        missing = [text for text in texts if text not in ready.texts]
        fresh = dict(zip(missing, self.embeddings.embed_documents(missing), strict=True)) if missing else {}
        return [fresh[text] if text in fresh else ready.texts[text] for text in texts]

    def embed_query(self, text: str) -> Any:
        """Return the vector of a question."""
        ready = _ready.get()
        if ready is None or text != ready.question:
            return self.embeddings.embed_query(text)
        if ready.error:
            raise ready.error
        return ready.vector

    async def ask(self, question: str) -> Ready | None:
        """Embed a question on the loop; None if the embeddings have nothing for that."""
        if not self._has_own("aembed_query"):
            return None
        try:
            return Ready(question, await self.embeddings.aembed_query(question))  # type: ignore[attr-defined]
        except Exception as error:  # noqa: BLE001 - the core decides what a failing embedder means
            return Ready(question, error=error)

    async def read(self, texts: Sequence[str]) -> Ready:
        """Embed texts on the loop."""
        try:
            vectors = await self.embeddings.aembed_documents(list(texts)) if texts else []  # type: ignore[attr-defined]
            return Ready(texts=dict(zip(texts, vectors, strict=True)))
        except Exception as error:  # noqa: BLE001 - as above
            return Ready(error=error)

    @property
    def reads_on_the_loop(self) -> bool:
        """Whether texts can be embedded on the loop without a thread."""
        return self._has_own("aembed_documents")

    def _has_own(self, method: str) -> bool:
        """Tell a true coroutine from LangChain's default, which calls the plain method in a thread."""
        own = getattr(type(self.embeddings), method, None)
        return own is not None and own is not getattr(Embeddings, method)
