"""Nodes and an embedding that the LlamaIndex adapter's tests use."""

from __future__ import annotations

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

from graphrag_core.testing import HashEmbedder

CHAIN = [
    ("auth", "Auth Service", "The Auth Service delegates sign-in to the OAuth Provider.", "acme", 2019),
    ("oauth", "OAuth Provider", "The OAuth Provider is a thin layer in front of Keyring.", "acme", 2021),
    ("keyring", "Keyring", "Keyring is a company from Tallinn.", "acme", 2023),
    ("lunch", "Lunch", "Lunch is served at noon in the old hall.", "acme", 2023),
    ("secret", "Umbrella", "The OAuth Provider of Umbrella is run by Albert Wesker.", "umbrella", 2023),
]
QUESTION = "Where does the vendor behind the Auth Service sit?"


class Hashed(BaseEmbedding):
    """A LlamaIndex embedding over hashed words that remembers what it was asked, and how."""

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
            id_=name,
            text=text,
            metadata={"title": title, "tenant": tenant, "year": year},
            excluded_embed_metadata_keys=["tenant", "year"],
            relationships={NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"{tenant}.md")},
        )
        for name, title, text, tenant, year in CHAIN
    ]


def ids(found) -> list[str]:
    return [one.node_id for one in found]
