"""LlamaIndex's embedding models for the core, and core embedders for LlamaIndex."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import numpy as np
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.base.llms.types import ChatMessage, MessageRole
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.embeddings.utils import resolve_embed_model
from llama_index.core.settings import Settings

from graphrag_core.adapter import overrides
from graphrag_core.embedders import WordLlama
from graphrag_core.errors import InputError
from graphrag_core.ingest.embedding import identity_of
from graphrag_core.ports import Embedder

EmbedModel = BaseEmbedding | Embedder | str | Literal[False]
"""An embedding model, the name of one, or False for none: an index without vectors."""


def to_embedder(model: EmbedModel | None) -> Embedder | None:
    """Return an embedder for the core; None stands for ``Settings.embed_model``, False for no embedder."""
    if model is False:
        return None
    if model is None:
        try:
            model = Settings.embed_model
        except (ImportError, ValueError) as error:  # no model is set, and that of OpenAI is not installed or has no key
            raise InputError(
                "no embedding model: pass embed_model, such as LocalEmbedding() of llama_graphrag, or set "
                f"Settings.embed_model ({' '.join(str(error).split())[:200]})"
            ) from error
    if isinstance(model, str):
        model = resolve_embed_model(model)
    if type(model) is LocalEmbedding:  # a subclass may embed in another way
        return model.embedder
    return LlamaEmbedder(model) if isinstance(model, BaseEmbedding) else model


class LlamaEmbedder:
    """A LlamaIndex embedding model with the methods that the core calls."""

    def __init__(self, model: BaseEmbedding) -> None:
        self.model = model
        self.identity = identity_of(model)  # type: ignore[arg-type]  # only reads attributes

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector for each text."""
        return self.model.get_text_embedding_batch(texts)

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query."""
        return self.model.get_query_embedding(text)

    @property
    def has_coroutines(self) -> bool:
        """Whether texts can be embedded on the event loop; LlamaIndex's default coroutines would block it."""
        return overrides(self.model, BaseEmbedding, "_aget_text_embedding", "_aget_text_embeddings")


class LocalEmbedding(BaseEmbedding):
    """A core embedder for LlamaIndex: no API key, no download, no network.

    A subclass may override how texts and queries are embedded, for instance to put an instruction before a query: the
    retriever then calls these methods. An index recognises it as another model, by the name of the class.

    Parameters
    ----------
    embedder
        By default :class:`~graphrag_core.embedders.WordLlama`, a 16 MB model (extra ``wordllama``).
    """

    _embedder: Embedder = PrivateAttr()

    def __init__(self, embedder: Embedder | None = None, **settings: Any) -> None:
        embedder = embedder or WordLlama()
        super().__init__(**{"model_name": identity_of(embedder), **settings})
        self._embedder = embedder

    @property
    def embedder(self) -> Embedder:
        """The core embedder."""
        return self._embedder

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex uses for the class."""
        return "LocalEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        return _to_lists([self._embedder.embed_query(query)])[0]

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return _to_lists(self._embedder.embed_documents(texts))

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return await asyncio.to_thread(self._get_query_embedding, query)

    async def _aget_text_embedding(self, text: str) -> list[float]:
        return await asyncio.to_thread(self._get_text_embedding, text)

    async def _aget_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return await asyncio.to_thread(self._get_text_embeddings, texts)


def _to_lists(vectors: Any) -> list[list[float]]:
    lists: list[list[float]] = np.asarray(vectors, np.float32).tolist()
    return lists


# -- messages and tokens


def message_text(message: ChatMessage) -> str:
    """Return what the user or the assistant said in a message; an empty text for other messages."""
    is_spoken = message.role in (MessageRole.USER, MessageRole.ASSISTANT)
    return (message.content or "").strip() if is_spoken else ""
