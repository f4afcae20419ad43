"""Memory of the whole graph as an igraph graph and as sparse matrices: ``make bench-graph``.

The embedded engine keeps the graph in sparse matrices. igraph graphs are built for the surroundings of a question
only: for paths, the order of a context and the layout of the page. This measures what a whole igraph graph of the
same edges would cost. Sizes are numbers of synthetic passages.
"""

from __future__ import annotations

import gc
import sys
import time
from pathlib import Path

import igraph
import numpy as np
from scipy.sparse import csr_array
from synthetic import ReadyVectors, documents

from graphrag_core import GraphRetriever, KnowledgeIndex
from graphrag_core.engine.embedded import EmbeddedEngine

SIZES = [10_000, 100_000]


def resident() -> int:
    """Return the bytes of anonymous memory of this process."""
    status = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


def measure(size: int) -> None:
    engine = EmbeddedEngine()
    with KnowledgeIndex(ReadyVectors(), engine=engine, progress=False) as index:
        index.add(documents(size))
        with engine.snapshot() as snapshot:
            nodes = np.arange(snapshot.node_limit)
            edges_of = snapshot.neighbours(nodes)
        starts = np.concatenate([[0], np.cumsum(edges_of.counts)])
        adjacency = csr_array(
            (edges_of.weights, edges_of.targets.astype(np.int32), starts), shape=(len(nodes), len(nodes))
        )
        matrices = adjacency.data.nbytes + adjacency.indices.nbytes + adjacency.indptr.nbytes
        rows = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
        upper = rows < adjacency.indices
        edges = np.column_stack([rows[upper], adjacency.indices[upper]])
        weights = adjacency.data[upper]
        del rows, upper
        gc.collect()
        before, start = resident(), time.perf_counter()
        graph = igraph.Graph(adjacency.shape[0], edges)
        graph.es["weight"] = weights
        seconds = time.perf_counter() - start
        whole = resident() - before
        del graph
        print(
            f"{size:>9,} passages, {len(edges):,} edges: sparse matrix {matrices / 1e6:,.0f} MB, "
            f"whole igraph graph {whole / 1e6:,.0f} MB, built in {seconds:.1f} s; "
            f"around a question {around(index):,.0f} edges"
        )


def around(index: KnowledgeIndex) -> float:
    """Return the mean number of edges in the igraph graphs that queries build for their paths."""
    counts: list[int] = []

    class Counting(igraph.Graph):  # type: ignore[misc]
        def __init__(self, *arguments: object, **settings: object) -> None:
            super().__init__(*arguments, **settings)
            counts.append(self.ecount())

    original = igraph.Graph
    igraph.Graph = Counting
    try:
        retriever = GraphRetriever(index, cache=None)
        for document in documents(50):
            retriever.retrieve(f"What is said of {document.title}?")
    finally:
        igraph.Graph = original
    return float(np.mean(counts)) if counts else 0.0


def main() -> None:
    for size in [int(argument) for argument in sys.argv[1:]] or SIZES:
        measure(size)


if __name__ == "__main__":
    main()
