"""LangChain's embeddings as the core calls them: from a thread, also on behalf of an event loop."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.embeddings import Embeddings

from graphrag_core.embedding import identity_of
from graphrag_core.errors import InputError
from graphrag_core.handed import Handed, Ready
from graphrag_core.ports import Embedder


class LoopEmbedder(Handed):
    """LangChain's embeddings for the core: awaited on the loop where they have coroutines of their own."""

    def __init__(self, embeddings: Embedder) -> None:
        super().__init__(embeddings)
        for method in ("embed_documents", "embed_query"):
            if not callable(getattr(embeddings, method, None)):
                kind = type(embeddings).__qualname__
                raise InputError(f"{kind} is no embedding: it needs embed_documents and embed_query, as Embeddings has")
        # What only keeps vectors of another does not make others.
        source = getattr(embeddings, "underlying_embeddings", embeddings)
        self.identity = identity_of(source)
        self.embedded = bool(getattr(source, "embedded", False))
        self.local = bool(getattr(source, "local", False))

    @property
    def embeddings(self) -> Embedder:
        """What embeds."""
        return self.source

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
