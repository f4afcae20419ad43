"""This project, with its defaults: ``GraphRetriever(KnowledgeIndex.open(folder, WordLlama()))``.

It gets the documents before splitting, as users add them, and splits them into the same passages that the peers get.
The index is in a folder. "hybrid" is the default; "vector + BM25" is the same index without its graph
(``use_graph=False``). Results are not cached.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from graphrag_core import Combined, Document, GraphRetriever, KnowledgeExtractor, KnowledgeIndex, SentenceExtractor
from graphrag_core.embedders import WordLlama
from graphrag_core.ports import Matrix
from peers.protocol import DEPTH, Bench, Embedding, Input, main, read_lines, size_of

VARIANTS: dict[str, dict[str, Any]] = {"hybrid": {}, "vector + BM25": {"use_graph": False}}


class GivenWordLlama(WordLlama):
    """WordLlama, except that passages and questions have the given embeddings."""

    def __init__(self, given: Input) -> None:
        super().__init__()
        self._given = Embedding(given)
        self._known = {passage.text for passage in given.passages} | set(given.questions)

    def embed_documents(self, texts: list[str]) -> Matrix:
        vectors: Matrix = np.empty((len(texts), self.dim), np.float32)
        is_known = np.array([text in self._known for text in texts], np.bool_)
        known, other = [[texts[at] for at in np.flatnonzero(mask)] for mask in (is_known, ~is_known)]
        if known:
            vectors[is_known] = self._given(known)
        if other:
            vectors[~is_known] = super().embed_documents(other)
        return vectors


def documents(given: Input) -> list[Document]:
    return [
        Document(row["id"], row["text"], row["title"], row["metadata"])
        for row in read_lines(given.folder / "documents.jsonl")
    ]


def runner(bench: Bench, folder: Path) -> None:
    embedder, added = GivenWordLlama(bench.given), documents(bench.given)
    given_triples = any("triples" in document.metadata for document in added)
    extractor = Combined(SentenceExtractor(), KnowledgeExtractor(key="triples")) if given_triples else None

    def build() -> KnowledgeIndex:
        index = KnowledgeIndex.open(folder / "kb", embedder, extractor=extractor, progress=False)
        index.add(added)
        return index

    index, seconds = bench.build(build)
    with index:
        retriever = GraphRetriever(index, k=DEPTH, cache=False)
        for name, setting in VARIANTS.items():

            def retrieve(question: str, setting: dict[str, Any] = setting) -> list[str]:
                return [hit.chunk.id for hit in retriever.retrieve(question, **setting).hits]

            bench.run(name, retrieve, built=seconds, disk_bytes=size_of(folder))


if __name__ == "__main__":
    main(runner, "faiss-cpu", "tantivy", "wordllama")
