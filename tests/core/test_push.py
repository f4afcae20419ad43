"""Forward push on an engine that may be asked only a few times reaches what it reaches on one in memory."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from graphrag_core import Document, KnowledgeIndex, PageRank

NAMES = ["Ada Lovelace", "Auth Service", "Redis", "Uppsala", "Bergen", "Keyring", "Solheim Systems", "Mara Lindqvist"]


class Remote:
    """A snapshot that counts how often it is asked for edges."""

    def __init__(self, snapshot, rounds, degree=None) -> None:
        self._snapshot = snapshot
        self.push_rounds, self.push_degree = rounds, degree
        self.asked: list[int] = []

    def __getattr__(self, name):
        return getattr(self._snapshot, name)

    def neighbours(self, nodes, to=None, limit=None):
        edges = self._snapshot.neighbours(nodes, to, limit)
        self.asked.append(int(edges.counts.max()))
        return edges


@pytest.fixture(scope="module")
def index():
    chance = random.Random(3)
    more = [f"Place Number{at}" for at in range(150)]
    with KnowledgeIndex(progress=False) as made:
        made.add(
            Document(f"d{at}", f"{chance.choice(more)} met {chance.choice(NAMES)} in {chance.choice(more)}.", one)
            for at, one in enumerate(chance.choices(more, k=300))
        )
        yield made


def seeds_of(snapshot):
    seeds = np.array([*snapshot.find_entities(["ada lovelace", "redis", "place number7"]).values(), 0, 5], np.int64)
    return seeds, np.full(len(seeds), 1 / len(seeds))


def test_enough_rounds_give_the_same_ranks(index):
    with index.engine.snapshot() as snapshot:
        seeds, weights = seeds_of(snapshot)
        chunks, ranks = PageRank()._push(snapshot, seeds, weights)
        remote = Remote(snapshot, 100)
        found, others = PageRank()._push_in_rounds(remote, seeds, weights)
    order = np.argsort(chunks)
    assert np.array_equal(found, chunks[order])
    assert np.allclose(others, ranks[order], rtol=1e-12)
    assert len(remote.asked) < PageRank().iterations


def test_four_rounds_leave_the_best_passages_where_they_are(index):
    with index.engine.snapshot() as snapshot:
        seeds, weights = seeds_of(snapshot)
        chunks, ranks = PageRank()._push(snapshot, seeds, weights)
        remote = Remote(snapshot, 4)
        found, others = PageRank()._push_in_rounds(remote, seeds, weights)
    assert 0 < len(remote.asked) <= 4
    best = chunks[np.lexsort((chunks, -ranks))][:10]
    assert found[np.lexsort((found, -others))][:10].tolist() == best.tolist()


def test_a_node_with_many_edges_gives_its_strongest(index):
    with index.engine.snapshot() as snapshot:
        remote = Remote(snapshot, 4, degree=3)
        found, ranks = PageRank()._push_in_rounds(remote, *seeds_of(snapshot))
    assert max(remote.asked) == 3
    assert len(found)
    assert (ranks > 0).all()


def test_a_walk_leaves_nothing_behind_for_the_next(index):
    with index.engine.snapshot() as snapshot:
        seeds, weights = seeds_of(snapshot)
        first = PageRank()._push(snapshot, seeds, weights)
        PageRank()._push(snapshot, seeds[:1], weights[:1])
        broken = Remote(snapshot, 4)
        broken.neighbours = lambda _: pytest.fail("asked")
        with pytest.raises(pytest.fail.Exception):
            PageRank()._push(broken, seeds, weights)
        again = PageRank()._push(snapshot, seeds, weights)
    assert np.array_equal(first[0], again[0])
    assert np.array_equal(first[1], again[1])


def test_walks_in_several_threads_do_not_mix(index):
    with index.engine.snapshot() as snapshot:
        seeds, weights = seeds_of(snapshot)
        alone = [PageRank()._push(snapshot, seeds[at:], weights[at:])[1].tolist() for at in range(4)]
        with ThreadPoolExecutor(4) as pool:
            asked = [at % 4 for at in range(200)]
            found = [*pool.map(lambda at: PageRank()._push(snapshot, seeds[at:], weights[at:])[1].tolist(), asked)]
    assert found == [alone[at] for at in asked]
