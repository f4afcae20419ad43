"""``GraphRAGVectorStore``: the index of a retriever as a vector store of LlamaIndex."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from llama_index.core.schema import BaseNode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from pydantic import PrivateAttr
from typing_extensions import override

from graphrag_core.errors import InputError
from llama_graphrag.filters import take_scope
from llama_graphrag.nodes import stored_node

_METHODS = {  # of a query's mode; the default one is that of the retriever
    VectorStoreQueryMode.DEFAULT: None,
    VectorStoreQueryMode.HYBRID: "hybrid",
    VectorStoreQueryMode.TEXT_SEARCH: "keyword",
}


class GraphRAGVectorStore(BasePydanticVectorStore):
    """A LlamaIndex vector store over the index of a retriever, such as for ``IngestionPipeline(vector_store=...)``.

    A query finds what the retriever finds. ``retriever`` is a :class:`~llama_graphrag.GraphRAGRetriever`, whose
    ``as_vector_store()`` returns one.
    """

    stores_text: bool = True
    is_embedding_query: bool = True

    _retriever: Any = PrivateAttr()

    def __init__(self, retriever: Any) -> None:
        super().__init__(stores_text=True)
        self._retriever = retriever

    @classmethod
    @override
    def class_name(cls) -> str:
        return "GraphRAGVectorStore"

    @property
    @override
    def client(self) -> Any:
        """The retriever."""
        return self._retriever

    @override
    def add(self, nodes: Sequence[BaseNode], **_: Any) -> list[str]:
        """Add nodes, or replace those with a known id; return their ids. Their embeddings are used."""
        self._retriever.insert_nodes(nodes)
        return [node.node_id for node in nodes]

    @override
    async def async_add(self, nodes: Sequence[BaseNode], **_: Any) -> list[str]:
        await self._retriever.ainsert_nodes(nodes)
        return [node.node_id for node in nodes]

    @override
    def delete(self, ref_doc_id: str, **_: Any) -> None:
        """Delete the nodes of a source document."""
        self._retriever.delete_ref_doc(ref_doc_id)

    @override
    def delete_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **_: Any) -> None:
        """Delete nodes by their ids, by filters, or by both."""
        if node_ids is None and filters is None:
            raise InputError("pass node_ids or filters: delete_nodes deletes nothing without them; clear() deletes all")
        self._retriever.delete_nodes(self._ids(node_ids, filters))

    @override
    async def adelete_nodes(self, *given: Any, **named: Any) -> None:
        await asyncio.to_thread(self.delete_nodes, *given, **named)

    @override
    def clear(self) -> None:
        """Delete all nodes within the retriever's filters."""
        self._retriever.delete_nodes(self._ids(None, None))

    @override
    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """Return nodes as they were added: by id, by filters, or all within the retriever's own filter."""
        chunks = (chunk for node_id in self._ids(node_ids, filters) for chunk in self._retriever.index.chunks(node_id))
        return [stored_node(chunk) for chunk in chunks]

    @override
    def query(self, query: VectorStoreQuery, **settings: Any) -> VectorStoreQueryResult:
        """Return the nodes for a query, which needs the text of the question, unless the method is ``"vector"``.

        The mode ``HYBRID`` stands for the method ``"hybrid"``, ``TEXT_SEARCH`` for ``"keyword"``; there are no others.
        ``settings`` as for :meth:`GraphRAGRetriever.search <llama_graphrag.GraphRAGRetriever.search>`.
        """
        bundle, given = self._read(query)
        return _to_result(self._retriever.retrieve(bundle, **{**given, **settings}))

    @override
    async def aquery(self, query: VectorStoreQuery, **settings: Any) -> VectorStoreQueryResult:
        bundle, given = self._read(query)
        return _to_result(await self._retriever.aretrieve(bundle, **{**given, **settings}))

    def _ids(self, node_ids: Sequence[str] | None, filters: MetadataFilters | None) -> list[str]:
        where = take_scope({"where": self._retriever.scope, "filters": filters, "node_ids": node_ids})
        return list(self._retriever.index.document_ids(where))

    def _read(self, query: VectorStoreQuery) -> tuple[QueryBundle, dict[str, Any]]:
        """Return the question and the settings of a query."""
        if query.mode not in _METHODS:
            raise InputError(
                f"the query mode {query.mode} is not supported: use one of {', '.join(mode.name for mode in _METHODS)}"
            )
        given = {"method": _METHODS[query.mode] or self._retriever.settings.method, "k": query.similarity_top_k}
        if not (query.query_str or "").strip() and given["method"] != "vector":
            raise InputError(
                "the query has no query_str, which keyword and graph search need: pass it, or use a retriever with "
                "method='vector'"
            )
        ids = {"node_ids": query.node_ids or None, "doc_ids": query.doc_ids or None}  # LlamaIndex may pass empty lists
        bundle = QueryBundle(query.query_str or "the vector", embedding=query.query_embedding)
        return bundle, {**given, "filters": query.filters, **ids}


def _to_result(found: Sequence[NodeWithScore]) -> VectorStoreQueryResult:
    nodes, scores = [hit.node for hit in found], [hit.score or 0.0 for hit in found]
    return VectorStoreQueryResult(nodes=nodes, similarities=scores, ids=[node.node_id for node in nodes])
