"""What is particular to LangChain's embedding models on the event loop; tests/adapters has the rest."""

from __future__ import annotations

import threading

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from graphrag_core.errors import DocumentError
from graphrag_core.testing import CHAIN_QUESTION as QUESTION
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever


class OnTheLoop(Embeddings):
    """Embeddings with real coroutines; the sync methods must not be called."""

    def __init__(self):
        self.batches = []

    def embed_documents(self, texts):
        raise AssertionError("the plain method was called")

    embed_query = embed_documents

    async def aembed_documents(self, texts):
        self.batches.append(list(texts))
        return HashEmbedder().embed_documents(texts).tolist()


async def test_texts_come_in_the_indexs_batches():
    embedding = OnTheLoop()
    documents = [Document(id=str(i), page_content=f"Text number {i}.") for i in range(25)]
    with GraphRAGRetriever.from_documents([], embedding, batch_size=10) as retriever:
        await retriever.aadd_documents(documents)
        assert [len(batch) for batch in embedding.batches] == [10, 10, 5]
        assert len(retriever.index) == 25
        with pytest.raises(DocumentError, match="twice"):
            await retriever.aadd_documents([*documents, documents[0]])


async def test_an_embedder_without_coroutines_runs_in_a_thread(documents):
    seen = set()

    class InThread(HashEmbedder):
        def embed_query(self, text):
            seen.add(threading.get_ident())
            return super().embed_query(text)

        def embed_documents(self, texts):
            seen.add(threading.get_ident())
            return super().embed_documents(texts)

    with GraphRAGRetriever.from_documents([], InThread()) as retriever:
        await retriever.aadd_documents(documents)
        await retriever.ainvoke(QUESTION)
    assert seen
    assert threading.get_ident() not in seen
