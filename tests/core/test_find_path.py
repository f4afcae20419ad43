"""``find_path`` against breadth-first search in igraph, on random graphs, and within a scope."""

from __future__ import annotations

import random
from itertools import pairwise

import igraph
import pytest

from graphrag_core import Document, Fact, KnowledgeIndex
from graphrag_core.errors import InputError
from graphrag_core.testing import FixedExtractor


def index_of(edges, metadata=lambda at: {}):
    """An index with one document for each edge between two numbers, and a strength from 1 to 10."""
    facts = {
        str(at): [Fact((f"node {a}", f"node {b}"), f"node {a} joins node {b}", "joins", weight=weight)]
        for at, (a, b, weight) in enumerate(edges)
    }
    index = KnowledgeIndex(extractor=FixedExtractor(facts))
    index.add([Document(str(at), f"edge {at}", metadata=metadata(at)) for at in range(len(edges))])
    return index


@pytest.mark.parametrize("seed", range(3))
def test_the_path_is_a_shortest_one(seed):
    chance = random.Random(seed)
    count = chance.randrange(4, 14)
    pairs = {tuple(sorted(chance.sample(range(count), 2))) for _ in range(chance.randrange(3, 2 * count))}
    graph = igraph.Graph(count, list(pairs))
    distances = graph.distances()
    with index_of([(a, b, 5) for a, b in sorted(pairs)]) as index:
        for a in range(count):
            for b in range(count):
                for most in (1, 2, 4):
                    path = index.graph.find_path(f"Node {a}", f"node {b}", max_hops=most)
                    reached = distances[a][b] <= most and graph.degree(a) and graph.degree(b)
                    assert (path is not None) == bool(reached), (a, b, most)
                    if path is None:
                        continue
                    assert path.hops == len(path.entities) - 1 == distances[a][b]
                    names = [entity.id for entity in path.entities]
                    assert (names[0], names[-1]) == (f"node {a}", f"node {b}")
                    for fact, ends in zip(path.facts, pairwise(names), strict=True):
                        assert set(fact.entities) == set(ends)


def test_of_equally_short_paths_the_strongest_is_returned():
    with index_of([(0, 1, 2), (1, 3, 2), (0, 2, 9), (2, 3, 9), (2, 3, 3)]) as index:
        path = index.graph.find_path("node 0", "node 3")
        assert [entity.name for entity in path.entities] == ["node 0", "node 2", "node 3"]
        assert [fact.weight for fact in path.facts] == [9, 9]
        assert str(path).startswith("node 0 → node 0 joins node 2 → node 2 → ")


def test_a_scope_restricts_the_whole_path():
    edges = [(0, 1, 5), (1, 2, 5), (0, 3, 5), (3, 4, 5), (4, 2, 5)]
    with index_of(edges, lambda at: {"tenant": "b" if at == 1 else "a"}) as index:
        assert index.graph.find_path("node 0", "node 2").hops == 2
        assert index.graph.find_path("node 0", "node 2", where={"tenant": "a"}).hops == 3
        assert index.graph.find_path("node 0", "node 2", where={"tenant": "a"}, max_hops=2) is None
        assert index.graph.find_path("node 0", "node 1", where={"tenant": "b"}) is None


def test_the_ends_of_a_path():
    with index_of([(0, 1, 5), (2, 3, 5)]) as index:
        assert index.graph.find_path("node 0", "NODE 0").hops == 0
        assert index.graph.find_path("node 0", "node 2") is None
        assert index.graph.find_path("node 0", "nobody") is None
        for hops in (0, -1, True, 1.5):
            with pytest.raises(InputError, match="max_hops"):
                index.graph.find_path("node 0", "node 1", max_hops=hops)
