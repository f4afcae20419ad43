"""What the runners of LangChain share: an embedding class over the given vectors."""

from __future__ import annotations

from collections.abc import Callable

from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever

from peers.protocol import Embedding, Input


class GivenEmbeddings(Embeddings):
    """The given embeddings as an embedding model of LangChain."""

    def __init__(self, given: Input) -> None:
        self._embedding = Embedding(given)
        for text in [*(passage.text for passage in given.passages), *given.questions]:
            self._embedding.as_list(text)  # converting the given vectors is no part of any time

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [self._embedding.as_list(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return self._embedding.as_list(text)


def ids(retriever: BaseRetriever) -> Callable[[str], list[str]]:
    """Return a function that retrieves the ids of passages, which are in the metadata of the documents."""
    return lambda question: [document.metadata["passage"] for document in retriever.invoke(question)]
