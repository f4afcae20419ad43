"""LlamaIndex ``VectorStoreIndex``, with its default store and with its FAISS store.

Its documentation presents the default store as one for experiments, and FAISS as one of the others.
"""

from __future__ import annotations

from pathlib import Path

import faiss
from llama_index.core import Settings, StorageContext, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.vector_stores.faiss import FaissVectorStore

from peers.llama import GivenEmbedding, ids, nodes
from peers.protocol import DEPTH, Bench, main, size_of


def runner(bench: Bench, folder: Path) -> None:
    embedding = GivenEmbedding(bench.given)
    Settings.llm, Settings.embed_model = MockLLM(), embedding
    dim = bench.given.vectors.shape[1]
    for name in ("VectorStoreIndex, FAISS", "VectorStoreIndex, default store"):

        def build(name: str = name) -> VectorStoreIndex:
            store = FaissVectorStore(faiss_index=faiss.IndexFlatIP(dim)) if "FAISS" in name else None
            context = StorageContext.from_defaults(vector_store=store)
            return VectorStoreIndex(nodes(bench.given), embed_model=embedding, storage_context=context)

        index, seconds = bench.build(build)
        saved = folder / str(len(bench.variants))
        index.storage_context.persist(str(saved))
        retriever = index.as_retriever(similarity_top_k=DEPTH)
        bench.run(
            name,
            ids(retriever),
            built=seconds,
            disk_bytes=size_of(saved),
        )


if __name__ == "__main__":
    main(runner, "llama-index-core", "llama-index-vector-stores-faiss")
