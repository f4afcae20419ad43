"""Embeddings, both ways: LlamaIndex's for the core, the core's for LlamaIndex."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.embeddings.utils import resolve_embed_model
from llama_index.core.schema import QueryBundle
from llama_index.core.settings import Settings

from graphrag_core.embedders import WordLlama
from graphrag_core.embedding import identity_of
from graphrag_core.handed import Handed, Ready
from graphrag_core.ports import Embedder

_COROUTINES = ("_aget_text_embedding", "_aget_text_embeddings")


class LlamaEmbedder(Handed):
    """A LlamaIndex embedding in the shape that the core asks for.

    Its coroutines are awaited on the event loop before the core begins, where it has any of
    its own; LlamaIndex's default ones are the plain methods, which would hold up the loop.
    """

    def __init__(self, model: BaseEmbedding) -> None:
        super().__init__(_Plain(model))
        self.model = model
        self.identity = identity_of(model)  # type: ignore[arg-type]  # reads names alone

    @property
    def reads_on_the_loop(self) -> bool:
        """Whether texts can be embedded on the loop without holding it up."""
        own = (getattr(type(self.model), name) for name in _COROUTINES)
        return any(mine is not getattr(BaseEmbedding, name) for mine, name in zip(own, _COROUTINES, strict=True))

    async def ask(self, bundle: QueryBundle) -> Ready:
        """Embed a question on the loop."""
        try:
            vector = await self.model.aget_agg_embedding_from_queries(list(bundle.embedding_strs))
            return Ready(bundle.query_str, vector)
        except Exception as error:  # noqa: BLE001 - the core decides what a failing embedder means
            return Ready(bundle.query_str, error=error)

    async def read(self, texts: list[str]) -> Ready:
        """Embed texts on the loop."""
        try:
            vectors = await self.model.aget_text_embedding_batch(texts) if texts else []
            return Ready(texts=dict(zip(texts, vectors, strict=True)))
        except Exception as error:  # noqa: BLE001 - as above
            return Ready(error=error)

    def blend(self, bundle: QueryBundle) -> Ready:
        """Embed a question by the texts that its bundle gives in its place."""
        try:
            vector = self.model.get_agg_embedding_from_queries(list(bundle.embedding_strs))
            return Ready(bundle.query_str, vector)
        except Exception as error:  # noqa: BLE001 - as above
            return Ready(bundle.query_str, error=error)


class _Plain:
    """The plain methods of a LlamaIndex embedding under the core's names."""

    def __init__(self, model: BaseEmbedding) -> None:
        self._model = model

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector for each text."""
        return self._model.get_text_embedding_batch(texts)

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a question."""
        return self._model.get_query_embedding(text)


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
