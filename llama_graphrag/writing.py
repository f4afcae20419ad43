"""Writing: nodes into the core's index, and out of it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from llama_index.core.schema import BaseNode, IndexNode, MetadataMode
from typing_extensions import Self

from graphrag_core import Document, KnowledgeIndex
from graphrag_core.handed import Ready, at_hand
from graphrag_core.ingest.chunk import title_of
from graphrag_core.text import chunk_text
from llama_graphrag.embedding import LlamaEmbedder
from llama_graphrag.events import GraphRAGInsertEvent, dispatcher
from llama_graphrag.knowledge import carries_knowledge
from llama_graphrag.nodes import SOURCE, embedding_text, is_node, to_documents

_log = logging.getLogger(__name__)


class Writing:
    """The half of :class:`~llama_graphrag.GraphRAGRetriever` that takes nodes in and lets them go."""

    index: KnowledgeIndex
    object_map: dict[str, Any]

    def insert_nodes(self, nodes: Iterable[BaseNode]) -> GraphRAGInsertEvent:
        """Add nodes, and replace those whose id is there; unchanged ones cost nothing. Say what was done."""
        done = _write(self.index, _prepare(self.index, self._without_objects(nodes)), None)
        dispatcher.event(done)
        return done

    async def ainsert_nodes(self, nodes: Iterable[BaseNode]) -> GraphRAGInsertEvent:
        """Do what :meth:`insert_nodes` does, embedding with the model's coroutines."""
        taken = await asyncio.to_thread(_prepare, self.index, self._without_objects(nodes))
        ready = None
        embedder = self.index.embedding.embedder if self.index.embedding else None
        if isinstance(embedder, LlamaEmbedder) and embedder.reads_on_the_loop:
            ready = await embedder.read(await asyncio.to_thread(_texts, self.index, taken))
        done = await asyncio.to_thread(_write, self.index, taken, ready)
        dispatcher.event(done)
        return done

    def delete_nodes(self, node_ids: Iterable[str]) -> int:
        """Delete nodes with everything that was read in them; return how many were there."""
        return self.index.delete(list(node_ids))

    async def adelete_nodes(self, node_ids: Iterable[str]) -> int:
        """Do what :meth:`delete_nodes` does."""
        return await asyncio.to_thread(self.delete_nodes, list(node_ids))

    def delete_ref_doc(self, ref_doc_id: str) -> int:
        """Delete the nodes made from a source document; return how many there were."""
        return self.index.delete(nodes_of(self.index, ref_doc_id))

    async def adelete_ref_doc(self, ref_doc_id: str) -> int:
        """Do what :meth:`delete_ref_doc` does."""
        return await asyncio.to_thread(self.delete_ref_doc, ref_doc_id)

    def drop_stale(self, nodes: Sequence[BaseNode]) -> int:
        """Delete what is left of the nodes' source documents from an earlier time; return how many nodes."""
        kept = {node.node_id for node in nodes}
        sources = {node.ref_doc_id for node in nodes if node.ref_doc_id}
        stale = [one for source in sources for one in nodes_of(self.index, source) if one not in kept]
        return self.index.delete(stale) if stale else 0

    def close(self) -> None:
        """Save and give back locks and files."""
        self.index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _without_objects(self, nodes: Iterable[BaseNode]) -> list[BaseNode]:
        """Return the nodes; what an ``IndexNode`` stands for is remembered for retrieval, as LlamaIndex does."""
        nodes = list(nodes)
        for node in nodes:
            if isinstance(node, IndexNode) and node.obj is not None:
                self.object_map[node.index_id] = node.obj
        return nodes


@dataclass(frozen=True)
class _Taken:
    """Nodes as documents, the vectors they carry, and what is embedded for those that show metadata too."""

    nodes: list[BaseNode]
    documents: list[Document]
    vectors: dict[str, list[float]]
    worded: dict[str, str]


def _prepare(index: KnowledgeIndex, nodes: list[BaseNode]) -> _Taken:
    """Take nodes apart. Where LlamaIndex embeds more than title and text, so is done here."""
    full = [node for node in nodes if node.get_content(MetadataMode.EMBED).strip()]
    if len(full) < len(nodes):
        _log.warning("%d nodes without content were passed over", len(nodes) - len(full))
    documents = to_documents(full)
    worded: dict[str, str] = {}
    for node, document in zip(full, documents, strict=True):
        text = embedding_text(node, document)
        is_usual = text == chunk_text(title_of(document), document.text)
        if node.embedding is None and not is_usual and index.get(document.id) != document:
            worded[document.id] = text
    return _Taken(full, documents, {n.node_id: n.embedding for n in full if n.embedding is not None}, worded)


def _texts(index: KnowledgeIndex, taken: _Taken) -> list[str]:
    """Return every text that writing will have embedded."""
    given = taken.vectors.keys() | taken.worded.keys()
    usual = {chunk_text(title_of(d), d.text) for d in taken.documents if d.id in given}
    return list(
        dict.fromkeys([*taken.worded.values(), *(t for t in index.to_embed(taken.documents) if t not in usual)])
    )


def _write(index: KnowledgeIndex, taken: _Taken, ready: Ready | None) -> GraphRAGInsertEvent:
    """Add nodes, replace those whose id is there; say what was done. A node's own embedding is taken."""
    vectors = dict(taken.vectors)
    with at_hand(ready):
        if taken.worded and index.embedding is not None:
            made = index.embedding.copy().documents(list(taken.worded.values()), list(taken.worded))
            vectors.update(zip(taken.worded, made.tolist(), strict=True))
        added = index.add(taken.documents, vectors=vectors)
    reused, count = len(taken.vectors), len(taken.nodes)
    _log.info("%d nodes: %d with their own embedding, %d to be embedded", count, reused, count - reused)
    return GraphRAGInsertEvent.of(added, reused, sum(map(carries_knowledge, taken.nodes)))


def nodes_of(index: KnowledgeIndex, ref_doc_id: str) -> list[str]:
    """Return the ids of the nodes that were made from a source document."""
    with index.reading():
        keys = index.scope({"and": [{SOURCE: {"exists": True}}, {SOURCE: ref_doc_id}]})
        ids = [] if keys is None else [chunk.document_id for chunk in index.records.chunks(keys)]
        document = index.get(ref_doc_id)
    if document is not None and not is_node(document):  # of an index that was filled without LlamaIndex
        ids.append(ref_doc_id)
    return ids
