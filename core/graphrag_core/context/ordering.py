"""KG2RAG's order of passages: along a maximum spanning tree of their facts.

Zhu et al. 2025, "Knowledge Graph-Guided Retrieval Augmented Generation",
https://arxiv.org/abs/2502.06864, section "KG-based context organization".
"""

from collections.abc import Sequence
from typing import NamedTuple


class Edge(NamedTuple):
    """A fact between two entities, and the chunk it was extracted from."""

    source: str
    target: str
    weight: float
    chunk_id: str


def spanning_tree_order(chunk_ids: Sequence[str], edges: Sequence[Edge], roots: Sequence[str]) -> list[str]:
    """Reorder chunks, given best first, so that chunks connected by facts are adjacent.

    Each connected component of the edges is reduced to a maximum spanning tree; of equal edges the earlier one is
    preferred. A tree is traversed depth first, strong edges first, from one of ``roots``, the entities of the
    question, or else from the source of an edge of its best chunk. Trees are ordered by their best chunk. Chunks on
    no tree follow. KG2RAG weights edges with a reranker and starts at the strongest edge; here facts have weights.

    >>> edges = [Edge("a", "b", 9, "1"), Edge("b", "c", 8, "2"), Edge("a", "c", 1, "3")]
    >>> spanning_tree_order(["3", "2", "1"], edges, ["a"])
    ['1', '2', '3']
    """
    rank = {chunk_id: i for i, chunk_id in enumerate(chunk_ids)}
    edges = [edge for edge in edges if edge.chunk_id in rank]
    tree = _maximum_spanning_tree(edges)
    starts = [*roots, *(edge.source for edge in sorted(edges, key=lambda edge: rank[edge.chunk_id]))]
    visited: set[str] = set()
    parts = [_depth_first(tree, start, visited) for start in starts if start in tree and start not in visited]
    parts.sort(key=lambda part: min(rank[chunk_id] for chunk_id in part))
    return list(dict.fromkeys([*(chunk_id for part in parts for chunk_id in part), *chunk_ids]))


Tree = dict[str, list[tuple[str, str]]]
"""The neighbours of each entity, strongest edge first, with the chunk of the edge."""


def _maximum_spanning_tree(edges: Sequence[Edge]) -> Tree:
    import igraph  # noqa: PLC0415 - imports matplotlib if that is installed, which takes long

    edges = sorted((edge for edge in edges if edge.source != edge.target), key=lambda edge: -edge.weight)
    graph = igraph.Graph.TupleList(((edge.source, edge.target) for edge in edges), directed=False)
    # The rank of an edge as its weight breaks ties: the minimum spanning tree by rank is a maximum one by weight.
    kept = graph.spanning_tree(weights=range(len(edges)), return_tree=False)
    tree: Tree = {}
    for edge in (edges[i] for i in sorted(kept)):
        tree.setdefault(edge.source, []).append((edge.target, edge.chunk_id))
        tree.setdefault(edge.target, []).append((edge.source, edge.chunk_id))
    return tree


def _depth_first(tree: Tree, start: str, visited: set[str]) -> list[str]:
    """Return the chunks of a tree's edges in depth-first order."""
    chunk_ids: list[str] = []
    stack = [(start, "")]
    while stack:
        entity, chunk_id = stack.pop()
        if entity in visited:
            continue
        visited.add(entity)
        if entity != start:
            chunk_ids.append(chunk_id)
        stack.extend(reversed(tree[entity]))
    return chunk_ids
