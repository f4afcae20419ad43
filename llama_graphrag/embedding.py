"""Embeddings, both ways: LlamaIndex's for the core, the core's for LlamaIndex."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, TypeVar

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.embeddings.utils import resolve_embed_model
from llama_index.core.settings import Settings

from graphrag_core.embedders import WordLlama
from graphrag_core.embedding import identity_of
from graphrag_core.ports import Embedder

T = TypeVar("T")

_loop: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar("_loop", default=None)


async def on_thread(work: Callable[..., T], *arguments: Any, **settings: Any) -> T:
    """Do the core's work on a thread; what it embeds meanwhile is awaited on this event loop.

    The thread is the call's own. One of the loop's pool might be the last that an embedding's
    coroutine, for which the thread waits, needs for itself.
    """
    loop = asyncio.get_running_loop()
    context = copy_context()
    context.run(_loop.set, loop)
    pool = ThreadPoolExecutor(1, thread_name_prefix="graphrag")
    try:
        return await loop.run_in_executor(pool, partial(context.run, work, *arguments, **settings))
    finally:
        pool.shutdown(wait=False)


class LlamaEmbedder:
    """A LlamaIndex embedding in the shape that the core asks for.

    On a thread of :func:`on_thread` the embedding's own coroutines are used, on the event
    loop that waits for the thread.
    """

    def __init__(self, model: BaseEmbedding) -> None:
        self.model = model
        self.identity = identity_of(model)  # type: ignore[arg-type]  # reads names alone

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector for each text."""
        if (loop := _loop.get()) is None:
            return self.model.get_text_embedding_batch(texts)
        return _on(loop, self.model.aget_text_embedding_batch(texts))

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        if (loop := _loop.get()) is None:
            return self.model.get_query_embedding(text)
        return _on(loop, self.model.aget_query_embedding(text))


def _on(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(coroutine, loop).result()


class LocalEmbedding(BaseEmbedding):
    """An embedder of the core, for LlamaIndex: no key, no download, no network.

    Parameters
    ----------
    embedder
        The embedded 16 MB :class:`~graphrag_core.embedders.WordLlama` unless given.
    """

    _embedder: Embedder = PrivateAttr()

    def __init__(self, embedder: Embedder | None = None, **settings: Any) -> None:
        embedder = embedder or WordLlama()
        super().__init__(**{"model_name": identity_of(embedder), **settings})
        self._embedder = embedder

    @property
    def embedder(self) -> Embedder:
        """What embeds."""
        return self._embedder

    @classmethod
    def class_name(cls) -> str:
        """Return the name LlamaIndex knows the class by."""
        return "LocalEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return _listed([self._embedder.embed_query(query)])[0]

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return _listed(self._embedder.embed_documents(texts))

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)


def _listed(vectors: Any) -> list[list[float]]:
    listed: list[list[float]] = np.asarray(vectors, np.float32).tolist()
    return listed


EmbedModel = BaseEmbedding | Embedder | str


def to_embedder(model: EmbedModel | None) -> Embedder:
    """Return what the core embeds with; None stands for ``Settings.embed_model``."""
    if model is None:
        model = Settings.embed_model
    if isinstance(model, str):
        model = resolve_embed_model(model)
    if isinstance(model, LocalEmbedding):
        return model.embedder
    return LlamaEmbedder(model) if isinstance(model, BaseEmbedding) else model


async def embed_question(embedder: Embedder | None, texts: Sequence[str]) -> list[float] | None:
    """Return a question's vector, got on this event loop, or None where the core is to see to it.

    A failure is such a case: the core asks once more and then says that it did without.
    """
    if not isinstance(embedder, LlamaEmbedder):
        return None
    try:
        return await embedder.model.aget_agg_embedding_from_queries(list(texts))
    except Exception:  # noqa: BLE001 - a client may raise anything
        return None
