"""LlamaIndex ``QueryFusionRetriever`` over vectors (FAISS) and BM25, without generated queries.

``num_queries=1`` disables the queries that an LLM would write. ``reciprocal_rerank``, ``relative_score`` and
``dist_based_score`` are the documented modes of fusion. BM25 is ``BM25Retriever``, which stems and removes stop words
by default. ``similarity_top_k`` of the fused retrievers is 10, and 50 for the modes that use scores.
"""

from __future__ import annotations

from pathlib import Path

import faiss
from llama_index.core import Settings, StorageContext, VectorStoreIndex
from llama_index.core.llms import MockLLM
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.retrievers.fusion_retriever import FUSION_MODES
from llama_index.retrievers.bm25 import BM25Retriever
from llama_index.vector_stores.faiss import FaissVectorStore

from peers.llama import GivenEmbedding, ids, nodes
from peers.protocol import DEPTH, Bench, main, size_of

MODES = {FUSION_MODES.RECIPROCAL_RANK: DEPTH, FUSION_MODES.RELATIVE_SCORE: 50, FUSION_MODES.DIST_BASED_SCORE: 50}


def runner(bench: Bench, folder: Path) -> None:
    embedding = GivenEmbedding(bench.given)
    Settings.llm, Settings.embed_model = MockLLM(), embedding

    def build() -> tuple[VectorStoreIndex, BM25Retriever]:
        store = FaissVectorStore(faiss_index=faiss.IndexFlatIP(bench.given.vectors.shape[1]))
        context = StorageContext.from_defaults(vector_store=store)
        index = VectorStoreIndex(nodes(bench.given), embed_model=embedding, storage_context=context)
        return index, BM25Retriever.from_defaults(nodes=nodes(bench.given), similarity_top_k=DEPTH)

    (index, keywords), seconds = bench.build(build)
    index.storage_context.persist(str(folder / "vectors"))
    keywords.persist(str(folder / "keywords"))
    for mode, depth in MODES.items():
        keywords.similarity_top_k = depth
        retriever = QueryFusionRetriever(
            [index.as_retriever(similarity_top_k=depth), keywords],
            mode=mode, num_queries=1, similarity_top_k=DEPTH, use_async=False,
        )  # fmt: skip
        bench.run(f"QueryFusionRetriever, {mode.value}", ids(retriever), built=seconds, disk_bytes=size_of(folder))


if __name__ == "__main__":
    main(runner, "llama-index-core", "llama-index-retrievers-bm25", "llama-index-vector-stores-faiss")
