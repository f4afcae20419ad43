"""Walks share memory with the next walk and nothing else."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from graphrag_core import Document, KnowledgeIndex
from graphrag_core.strategies import PageRank

NAMES = ["Ada Lovelace", "Auth Service", "Redis", "Uppsala", "Bergen", "Keyring", "Solheim Systems", "Mara Lindqvist"]


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


def test_a_walk_leaves_nothing_behind_for_the_next(index):
    with index.engine.snapshot() as snapshot:
        seeds, weights = seeds_of(snapshot)
        first = PageRank()._push(snapshot, seeds, weights)
        PageRank()._push(snapshot, seeds[:1], weights[:1])
        walk, snapshot.walk = snapshot.walk, lambda *_: pytest.fail("asked")
        with pytest.raises(pytest.fail.Exception):
            PageRank()._push(snapshot, seeds, weights)
        snapshot.walk = walk
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
