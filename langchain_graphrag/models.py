"""LangChain's embedding models and messages, in the form that the core takes."""

from __future__ import annotations

from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

from graphrag_core import KnowledgeIndex
from graphrag_core.errors import InputError
from graphrag_core.ingest.embedding import identity_of
from graphrag_core.ports import Embedder


def to_embedder(embedding: Any) -> Embedder | None:
    """Return an embedding model for the core; None for an index without vectors."""
    if embedding is None:
        return None
    if not isinstance(embedding, Embedder):
        kind = type(embedding).__qualname__
        raise InputError(f"{kind} is not an embedding model: it needs embed_documents and embed_query")
    return _CachedEmbeddings(embedding) if hasattr(embedding, "underlying_embeddings") else embedding


def embeddings_of(index: KnowledgeIndex) -> Any:
    """Return the embedding model of an index as the user passed it, or None."""
    embedder = index.embedding.embedder if index.embedding else None
    return embedder.embeddings if isinstance(embedder, _CachedEmbeddings) else embedder


class _CachedEmbeddings:
    """``CacheBackedEmbeddings`` under the identity of the model: an index can be opened with and without the cache."""

    def __init__(self, embeddings: Any) -> None:
        self.embeddings = embeddings
        self.embed_documents, self.embed_query = embeddings.embed_documents, embeddings.embed_query
        self.identity = identity_of(embeddings.underlying_embeddings)


def message_text(message: BaseMessage) -> str:
    """Return what the user or the assistant said in a message; an empty text for other messages."""
    return str(message.text).strip() if isinstance(message, (HumanMessage, AIMessage)) else ""
