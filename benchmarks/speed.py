"""Query time compared with one exact vector search: ``make bench-speed``.

The baseline is a single-threaded FAISS flat search (top 10) of the same chunk vectors in the same run. Queries and
searches alternate, and medians are compared. The question's embedding is given, and results are not cached.
The second stage is timed on its own as well. Passages, names and vectors are synthetic, with a Zipf distribution of
names; facts are found by keyword. The first ten passages of local PageRank are compared with those of exact PageRank.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np
from synthetic import documents

from graphrag_core import Document, GraphRetriever, KnowledgeIndex, Result
from graphrag_core.engine.engine import IndexEngine
from graphrag_core.ports import Matrix
from graphrag_core.strategies import PageRank

TARGETS = {10_000: 8.0, 100_000: 1.0, 1_000_000: 0.3}
RERANK = 3.0  # milliseconds
DIM = 384
QUESTIONS = 60
COMPARED = 10  # questions on which local and exact PageRank are compared
EXACT = 1e-9  # tolerance: residuals below are lost in rounding


class RandomVectors:
    """An embedder that returns a random vector for every text."""

    identity = "random"

    def __init__(self) -> None:
        self._random = np.random.default_rng(7)

    def embed_documents(self, texts: list[str]) -> Matrix:
        vectors: Matrix = self._random.standard_normal((len(texts), DIM), np.float32)
        return vectors

    def embed_query(self, text: str) -> Matrix:
        vector: Matrix = self.embed_documents([text])[0]
        return vector


def questions(index: KnowledgeIndex, size: int, count: int) -> list[str]:
    """Ask about the subjects of passages and words in them, as multi-hop questions do."""
    numbers = np.random.default_rng(3).choice(size, count, replace=False).tolist()
    documents = [index.get(f"d{number}") or Document("", "") for number in numbers]
    words = [document.text.split() for document in documents]
    return [f"Which {w[3]} of {d.title} was {w[5]} to the {w[2]}?" for d, w in zip(documents, words, strict=True)]


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def stored_vectors(index: KnowledgeIndex) -> Matrix:
    """Return the vectors of all passages, in the order in which they were added."""
    assert isinstance(index.engine, IndexEngine)
    with index.engine.reading() as (view, _):
        return view.vectors.take(np.arange(len(view.vectors)))


def measure(size: int) -> None:
    with tempfile.TemporaryDirectory() as folder, KnowledgeIndex.open(Path(folder) / "kb", RandomVectors()) as index:
        start = time.perf_counter()
        index.add(documents(size))
        built = time.perf_counter() - start
        with index.engine.snapshot() as snapshot:
            nodes = snapshot.node_limit
            links = int(snapshot.degrees(np.arange(nodes)).sum())
        vectors = stored_vectors(index)
        flat = faiss.IndexFlatIP(DIM)
        flat.add(vectors)
        asked = questions(index, size, QUESTIONS)
        at = np.random.default_rng(5).integers(0, size, QUESTIONS)
        queries = vectors[at] + 0.5 * np.random.default_rng(6).standard_normal((QUESTIONS, DIM), np.float32) / DIM**0.5
        del vectors
        retriever = GraphRetriever(index, cache=None, k=10)
        faiss.omp_set_num_threads(1)
        retriever.retrieve(asked[0], embedding=queries[0])  # builds the graph
        ours, theirs = [], []
        stages: list[Result] = []
        for question, query in zip(asked, queries, strict=True):
            ours.append(milliseconds(lambda q=question, v=query: stages.append(retriever.retrieve(q, embedding=v))))  # type: ignore[misc]
            theirs.append(milliseconds(lambda v=query: flat.search(v[None, :], 10)))  # type: ignore[misc]
        ratio = statistics.median(ours) / statistics.median(theirs)
        print(
            f"{size:>9,} passages, {nodes:,} nodes, {links:,} links (built in {built:,.0f} s): "
            f"query {statistics.median(ours):.1f} ms, flat search {statistics.median(theirs):.2f} ms, "
            f"ratio {ratio:.2f} (target {TARGETS.get(size, float('nan'))})"
        )
        names = stages[0].trace.stages
        parts = {name: statistics.median(r.trace.stages[name] for r in stages) for name in names}
        print("          " + ", ".join(f"{name} {value:.2f}" for name, value in parts.items()) + " ms")
        reranks = [result.trace.stages["rerank"] for result in stages]
        print(
            f"          rerank: median {statistics.median(reranks):.2f} ms, "
            f"95th percentile {np.percentile(reranks, 95):.2f} ms (target {RERANK})"
        )
        print(f"          top-10 overlap with exact PageRank: {overlap(retriever, asked, queries):.3f}")


def overlap(retriever: GraphRetriever, asked: list[str], queries: Matrix) -> float:
    """Return the mean share of exact PageRank's first ten passages that local PageRank returns."""
    exact = GraphRetriever(retriever.index, graph=PageRank(tolerance=EXACT), method="graph", cache=None)
    local = GraphRetriever(retriever.index, method="graph", cache=None)
    shares = []
    for question, query in zip(asked[:COMPARED], queries[:COMPARED], strict=True):
        first, second = (
            {hit.chunk.id for hit in r.retrieve(question, k=10, embedding=query).hits} for r in (exact, local)
        )
        shares.append(len(first & second) / max(len(first), 1))
    return statistics.fmean(shares)


def main() -> None:
    for size in [int(argument) for argument in sys.argv[1:]] or list(TARGETS):
        measure(size)


if __name__ == "__main__":
    main()
