"""What is particular to LangChain's embedding models on the event loop; tests/adapters has the rest."""

from __future__ import annotations

import threading

from graphrag_core.testing import CHAIN_QUESTION as QUESTION
from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever


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
