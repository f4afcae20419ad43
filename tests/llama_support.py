"""Nodes and an embedding that the LlamaIndex adapter's tests use."""

from __future__ import annotations

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

from graphrag_core.testing import CHAIN, CHAIN_QUESTION, HashEmbedder

QUESTION = CHAIN_QUESTION


class Hashed(BaseEmbedding):
    """A LlamaIndex embedding over hashed words that records each call: the method and the text."""

    _inner: HashEmbedder = PrivateAttr(default_factory=HashEmbedder)
    _asked: list[tuple[str, str]] = PrivateAttr(default_factory=list)

    @property
    def asked(self) -> list[tuple[str, str]]:
        return self._asked

    @property
    def texts(self) -> list[str]:
        return [text for way, text in self._asked if way.endswith("text")]

    def _vector(self, way: str, text: str) -> list[float]:
        self._asked.append((way, text))
        return self._inner.embed_query(text).tolist()

    def _get_query_embedding(self, query):
        return self._vector("query", query)

    def _get_text_embedding(self, text):
        return self._vector("text", text)

    async def _aget_query_embedding(self, query):
        return self._vector("async query", query)

    async def _aget_text_embedding(self, text):
        return self._vector("async text", text)


def make_nodes() -> list[TextNode]:
    return [
        TextNode(
            id_=one.id,
            text=one.text,
            metadata={"title": one.title, **one.metadata},
            excluded_embed_metadata_keys=["tenant", "year"],
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"{one.metadata['tenant']}.md")},
        )
        for one in CHAIN
    ]


def ids(found) -> list[str]:
    return [one.node_id for one in found]
