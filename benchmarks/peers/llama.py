"""What the runners of LlamaIndex share: nodes, and an embedding class over the given vectors."""

from __future__ import annotations

from collections.abc import Callable

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.schema import TextNode
from pydantic import PrivateAttr

from peers.protocol import Embedding, Input


class GivenEmbedding(BaseEmbedding):
    """The given embeddings as an embedding model of LlamaIndex."""

    _embedding: Embedding = PrivateAttr()

    def __init__(self, given: Input) -> None:
        super().__init__(model_name="given", embed_batch_size=2048)
        self._embedding = Embedding(given)
        for text in [*(passage.text for passage in given.passages), *given.questions]:
            self._embedding.as_list(text)  # converting the given vectors is no part of any time

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._embedding.as_list(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._embedding.as_list(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._embedding.as_list(text)

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        self._embedding(texts)  # those that are not given are embedded together
        return [self._embedding.as_list(text) for text in texts]


def nodes(given: Input) -> list[TextNode]:
    """Return the passages as nodes."""
    return [TextNode(id_=passage.id, text=passage.text) for passage in given.passages]


def ids(retriever: BaseRetriever) -> Callable[[str], list[str]]:
    """Return a function that retrieves the ids of passages."""
    return lambda question: [hit.node.node_id for hit in retriever.retrieve(question)]
