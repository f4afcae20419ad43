"""Split documents into nodes, and insert nodes into an index with the embeddings that they have."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.ingestion import run_transformations
from llama_index.core.node_parser import NodeParser
from llama_index.core.schema import BaseNode, Document, MetadataMode, TransformComponent
from llama_index.core.settings import Settings

import graphrag_core
from graphrag_core import KnowledgeIndex
from graphrag_core.adapter import overrides
from graphrag_core.errors import InputError
from graphrag_core.model import Added
from llama_graphrag.models import LlamaEmbedder
from llama_graphrag.nodes import (
    default_embedding_text,
    embedding_text,
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
    """Async version of :func:`split`: a step without its own coroutine runs in a thread."""
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
    if isinstance(step, NodeParser):
        return overrides(step, NodeParser, "acall", "_aparse_nodes")
    return overrides(step, TransformComponent, "acall")


def _copies(documents: Sequence[Document]) -> list[Document]:
    for document in documents:
        if not isinstance(document, BaseNode):
            raise InputError(
                f"expected a LlamaIndex Document, got {type(document).__qualname__}: wrap a text as Document(text=...)"
            )
    return [document.model_copy(update={"metadata": dict(document.metadata)}) for document in documents]


@dataclass(frozen=True)
class Batch:
    """Nodes to insert.

    Attributes
    ----------
    nodes, documents
        The nodes with content, and a document for each.
    blank
        The ids of nodes without content.
    vectors
        Embeddings that came with nodes, by node id.
    new
        The ids of nodes without an embedding that are new or changed.
    custom
        By node id, texts to embed that are more than title and text.
    """

    nodes: list[BaseNode]
    documents: list[graphrag_core.Document]
    blank: list[str]
    vectors: dict[str, Any] = field(default_factory=dict)
    new: set[str] = field(default_factory=set)
    custom: dict[str, str] = field(default_factory=dict)


def prepare(index: KnowledgeIndex, nodes: Iterable[BaseNode]) -> Batch:
    """Convert nodes; skip empty ones."""
    filled, blank = list[BaseNode](), list[str]()
    for node in nodes:
        if node.get_content(MetadataMode.EMBED).strip():
            filled.append(node)
        else:
            blank.append(node.node_id)
    batch = Batch(filled, to_documents(filled), blank)
    if index.embedding is not None:
        _choose_vectors(index, batch)
    return batch


def _choose_vectors(index: KnowledgeIndex, batch: Batch) -> None:
    """Fill in which nodes have an embedding, which need one, and for which the core would embed another text."""
    batch.vectors.update((node.node_id, node.embedding) for node in batch.nodes if node.embedding is not None)
    stored = index.engine.stored([document.id for document in batch.documents if document.id not in batch.vectors])
    for node, document in zip(batch.nodes, batch.documents, strict=True):
        name = document.id
        if name in batch.vectors or (name in stored and index.get(name) == document):
            continue
        batch.new.add(name)
        if (text := embedding_text(node, document)) != default_embedding_text(document):
            batch.custom[name] = text


def embed(index: KnowledgeIndex, batch: Batch) -> dict[str, Any]:
    """Return the vectors of the custom texts of a batch, by text. The index embeds the others."""
    texts = list(dict.fromkeys(batch.custom.values()))
    if not texts or index.embedding is None:
        return {}
    return dict(zip(texts, index.embedding.documents(texts, list(batch.custom)), strict=True))


async def aembed(index: KnowledgeIndex, batch: Batch, *, show_progress: bool) -> dict[str, Any]:
    """Return the vectors of all texts of a batch, by text, if the model embeds them on the event loop."""
    embedder = index.embedding.embedder if index.embedding else None
    if index.embedding is None or not isinstance(embedder, LlamaEmbedder) or not embedder.has_coroutines:
        return await asyncio.to_thread(embed, index, batch)
    others = await asyncio.to_thread(index.to_embed, batch.documents, batch.vectors.keys() | batch.custom.keys())
    texts = list(dict.fromkeys([*batch.custom.values(), *others]))
    if not texts:
        return {}
    vectors = embedder.model.aget_text_embedding_batch(texts, show_progress=show_progress)
    return await index.embedding.awaited_documents(texts, vectors)


def insert(
    index: KnowledgeIndex, batch: Batch, embeddings: Mapping[str, Any], show_progress: bool | None = None
) -> Added:
    """Add a batch to the index, with the vectors of its nodes and those in ``embeddings`` (by text)."""
    custom = {node_id: embeddings[text] for node_id, text in batch.custom.items() if text in embeddings}
    vectors = {**batch.vectors, **custom}
    added = index.add(batch.documents, vectors=vectors, embeddings=embeddings, progress=show_progress)
    reused, embedded, count = len(batch.vectors), len(batch.new), len(batch.nodes)
    unchanged = f", {added.unchanged} unchanged" if added.unchanged else ""
    _log.info("%d nodes: %d with their own embedding, %d to be embedded%s", count, reused, embedded, unchanged)
    return added
