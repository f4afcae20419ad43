"""Memory of the whole graph as an igraph graph and as sparse matrices: ``make bench-graph``.

The embedded engine keeps the graph in sparse matrices. igraph graphs are built for the surroundings of a question
only. This measures what a whole igraph graph of the same edges would cost, what the surroundings cost, and how long
PageRank on the arrays and the strategies of the five designs take. Sizes are numbers of synthetic passages.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import igraph
import numpy as np
from scipy.sparse import csr_array
from synthetic import ReadyVectors, documents

from graphrag_core import KnowledgeIndex
from graphrag_core.designs import DESIGNS
from graphrag_core.engine.engine import IndexEngine
from graphrag_core.query.query import Query
from graphrag_core.strategies import PageRank
from graphrag_core.text import normalise

SIZES = [10_000, 100_000]


def resident() -> int:
    """Return the bytes of anonymous memory of this process."""
    status = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) * 1024 for line in status if line.startswith("RssAnon"))


def measure(size: int) -> None:
    engine = IndexEngine()
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
            f"{surroundings(index)}"
        )


def surroundings(index: KnowledgeIndex) -> str:
    """Return what the graph around a question costs: as igraph, ranked by ``PageRank``, and followed by each design."""
    times: dict[str, list[float]] = {}
    edges = []

    def timed(name: str, run: Callable[[], Any]) -> Any:
        start = time.process_time()
        value = run()
        times.setdefault(name, []).append(time.process_time() - start)
        return value

    for document in documents(30):
        with index.engine.snapshot() as snapshot:
            keys = np.array([*snapshot.find_entities([normalise(document.title)]).values()], np.int64)
            vector = index.embedding.query(document.title) if index.embedding else None
            query = Query(document.title, snapshot, vector, keys, index.embedding)
            edges.append(timed("igraph", partial(query.surroundings, hops=3)).ecount())
            plain = query.nearest(10)
            for name, strategy in {
                "PageRank": PageRank(),
                **{name: one.graph for name, one in DESIGNS.items()},
            }.items():
                timed(name, partial(strategy.expand, query, plain, 100))
    medians = {name: 1000 * statistics.median(values) for name, values in times.items()}
    built = f"surroundings of a question {statistics.median(edges):,.0f} edges in {medians.pop('igraph'):.1f} ms"
    return f"{built}; " + ", ".join(f"{name} {median:.1f} ms" for name, median in medians.items())


def main() -> None:
    for size in [int(argument) for argument in sys.argv[1:]] or SIZES:
        measure(size)


if __name__ == "__main__":
    main()
