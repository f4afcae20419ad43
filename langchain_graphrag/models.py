"""LangChain's embedding models and language models, in the form that the core takes."""

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
    """Embeddings with a cache (``CacheBackedEmbeddings``) under the identity of the cached model.

    An index built with a model can be opened with a cached version of it, and the other way round.
    """

    def __init__(self, embeddings: Any) -> None:
        model = embeddings.underlying_embeddings
        self.embeddings = embeddings
        self.embed_documents = embeddings.embed_documents
        self.embed_query = embeddings.embed_query
        self.identity = identity_of(model)
        self.embedded = bool(getattr(model, "embedded", False))
        self.local = bool(getattr(model, "local", False))
        for optional in ("vector_weight", "token_ids", "token_vectors", "embed_tokens"):
            if hasattr(model, optional):
                setattr(self, optional, getattr(model, optional))


def model_name(llm: Any) -> str:
    """Return the name of the model behind a chat model, or an empty text."""
    names = (getattr(llm, attribute, None) for attribute in ("model_name", "model", "model_id"))
    return next((name for name in names if isinstance(name, str)), "")


def message_text(message: BaseMessage) -> str:
    """Return what the user or the assistant said in a message; an empty text for other messages."""
    return str(message.text).strip() if isinstance(message, (HumanMessage, AIMessage)) else ""


def text_of(piece: Any) -> str:
    """Return the text of an answer or of a piece of it, which is a text or a message."""
    return piece if isinstance(piece, str) else str(piece.text)
