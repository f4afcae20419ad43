"""Split documents into nodes, and insert nodes into an index with the embeddings that they have."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.ingestion import run_transformations
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import BaseNode, Document, MetadataMode, TransformComponent
from llama_index.core.settings import Settings

import graphrag_core
from graphrag_core import KnowledgeIndex
from llama_graphrag.embedding import LlamaEmbedder
from llama_graphrag.events import GraphRAGInsertEvent
from llama_graphrag.nodes import (
    default_embedding_text,
    embedding_text,
    has_knowledge,
    to_documents,
    with_document_hashes,
    with_stable_ids,
)

_log = logging.getLogger(__name__)


def split(
    documents: Sequence[Document], transformations: Sequence[TransformComponent] | None, *, show_progress: bool
) -> list[BaseNode]:
    """Return the nodes of documents, with ids that are the same next time. The documents are not changed."""
    steps = Settings.transformations if transformations is None else transformations
    nodes = run_transformations(_copies(documents), steps, show_progress=show_progress)
    return with_document_hashes(with_stable_ids(nodes), documents)


async def asplit(
    documents: Sequence[Document], transformations: Sequence[TransformComponent] | None, *, show_progress: bool
) -> list[BaseNode]:
    """Async version of :func:`split`: a step without a coroutine of its own runs in a thread."""
    nodes: Sequence[BaseNode] = _copies(documents)
    for step in Settings.transformations if transformations is None else transformations:
        if _has_coroutine(step):
            nodes = await step.acall(nodes, show_progress=show_progress)
        else:
            nodes = await asyncio.to_thread(run_transformations, nodes, [step], show_progress=show_progress)
    return with_document_hashes(with_stable_ids(nodes), documents)


def _has_coroutine(step: TransformComponent) -> bool:
    """Return whether a transformation awaits something; LlamaIndex's default coroutines block the event loop."""
    if isinstance(step, BaseEmbedding):
        return LlamaEmbedder(step).has_coroutines
    if isinstance(step, NodeParser) and type(step).acall is NodeParser.acall:
        return type(step)._aparse_nodes is not NodeParser._aparse_nodes  # noqa: SLF001 - it has no public name
    return type(step).acall is not TransformComponent.acall


def _copies(documents: Sequence[Document]) -> list[Document]:
    return [document.model_copy(update={"metadata": dict(document.metadata)}) for document in documents]


@dataclass(frozen=True)
class Batch:
    """Nodes to insert, as documents.

    Attributes
    ----------
    nodes, documents
        The nodes with content, and a document for each.
    vectors
        Embeddings that came with nodes, by node id.
    custom
        By node id, texts to embed that are more than title and text.
    blank
        The ids of nodes without content.
    """

    nodes: list[BaseNode]
    documents: list[graphrag_core.Document]
    vectors: dict[str, Any]
    custom: dict[str, str]
    blank: list[str]


def prepare(index: KnowledgeIndex, nodes: list[BaseNode]) -> Batch:
    """Convert nodes; skip empty ones."""
    filled = [node for node in nodes if node.get_content(MetadataMode.EMBED).strip()]
    blank = [node.node_id for node in nodes if not node.get_content(MetadataMode.EMBED).strip()]
    documents = to_documents(filled)
    vectors: dict[str, Any] = {}
    if index.embedding is not None:  # otherwise the index has no vectors
        vectors = {node.node_id: node.embedding for node in filled if node.embedding is not None}
    custom: dict[str, str] = {}
    for node, document in zip(filled, documents, strict=True):
        text = embedding_text(node, document)
        if document.id in vectors or text == default_embedding_text(document):
            continue
        if index.get(document.id) != document:
            custom[document.id] = text
    return Batch(filled, documents, vectors, custom, blank)


def embed(index: KnowledgeIndex, batch: Batch) -> dict[str, Any]:
    """Return the vectors of the custom texts of a batch, by text. The index embeds the others."""
    texts = _custom_texts(batch)
    if not texts or index.embedding is None:
        return {}
    return dict(zip(texts, index.embedding.documents(texts, list(batch.custom)), strict=True))


async def aembed(index: KnowledgeIndex, batch: Batch, *, show_progress: bool) -> dict[str, Any]:
    """Return the vectors of all texts of a batch, by text, if the model embeds them on the event loop."""
    embedder = index.embedding.embedder if index.embedding else None
    if index.embedding is None or not isinstance(embedder, LlamaEmbedder) or not embedder.has_coroutines:
        return await asyncio.to_thread(embed, index, batch)
    texts = await asyncio.to_thread(_texts_to_embed, index, batch)
    if not texts:
        return {}
    vectors = embedder.model.aget_text_embedding_batch(texts, show_progress=show_progress)
    return await index.embedding.awaited_documents(texts, vectors)


def _custom_texts(batch: Batch) -> list[str]:
    return list(dict.fromkeys(batch.custom.values()))


def _texts_to_embed(index: KnowledgeIndex, batch: Batch) -> list[str]:
    """Return every text that inserting a batch embeds, once."""
    has_vector = batch.vectors.keys() | batch.custom.keys()
    unused = {default_embedding_text(document) for document in batch.documents if document.id in has_vector}
    unused -= {default_embedding_text(document) for document in batch.documents if document.id not in has_vector}
    others = [text for text in index.to_embed(batch.documents) if text not in unused]
    return list(dict.fromkeys([*_custom_texts(batch), *others]))


def insert(
    index: KnowledgeIndex, batch: Batch, embeddings: Mapping[str, Any], show_progress: bool | None = None
) -> GraphRAGInsertEvent:
    """Add a batch to the index, with the vectors of its nodes and those in ``embeddings`` (by text)."""
    custom = {node_id: embeddings[text] for node_id, text in batch.custom.items() if text in embeddings}
    embedded = _count_to_embed(index, batch)
    vectors = {**batch.vectors, **custom}
    added = index.add(batch.documents, vectors=vectors, embeddings=embeddings, progress=show_progress)
    reused, count = len(batch.vectors), len(batch.nodes)
    unchanged = f", {added.unchanged} unchanged" if added.unchanged else ""
    _log.info("%d nodes: %d with their own embedding, %d to be embedded%s", count, reused, embedded, unchanged)
    return GraphRAGInsertEvent.from_added(added, reused, embedded, sum(map(has_knowledge, batch.nodes)))


def _count_to_embed(index: KnowledgeIndex, batch: Batch) -> int:
    """Return how many nodes of a batch are new or changed and have no embedding of their own."""
    if index.embedding is None:
        return 0
    rest = [document for document in batch.documents if document.id not in batch.vectors]
    stored = index.engine.stored([document.id for document in rest])
    return sum(document.id not in stored or index.get(document.id) != document for document in rest)
