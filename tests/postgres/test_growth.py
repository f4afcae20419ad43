"""What a question costs on PostgreSQL: statements are planned once, and edges are read that the walk needs."""

from __future__ import annotations

import random

import numpy as np
import pytest

from graphrag_core import Document, KnowledgeIndex, PageRank
from graphrag_core.engine.postgres import PostgresEngine

PLACES = [f"Place Number{at}" for at in range(120)]


@pytest.fixture
def both(url):
    """The same passages in memory and in PostgreSQL. Many name one of two hubs."""
    chance = random.Random(5)
    hubs = chance.choices(["Ada Lovelace", "Grace Hopper", *PLACES], [20, 20, *[1] * len(PLACES)], k=400)
    documents = [
        Document(
            f"d{at}", f"{hub} met {chance.choice(PLACES)}. It was in {chance.choice(PLACES)}.", chance.choice(PLACES)
        )
        for at, hub in enumerate(hubs)
    ]
    engine = PostgresEngine(url, exact=True)
    with KnowledgeIndex(progress=False) as memory, KnowledgeIndex(progress=False, engine=engine) as remote:
        for index in (memory, remote):
            index.add(documents)
        yield memory.engine, engine


def walked(engine, count=None):
    """Return the ids of the passages that forward push reaches from two names, with their ranks, and the rounds."""
    asked = []
    with engine.snapshot() as snapshot:
        seeds = np.array([*snapshot.find_entities(["grace hopper", "place number7"]).values()], np.int64)
        for name in ("surroundings", "neighbours"):
            if hasattr(snapshot, name):
                setattr(snapshot, name, noted(getattr(snapshot, name), asked))
        push = PageRank()._push if count is None else PageRank()._push_in_rounds
        chunks, ranks = push(snapshot, seeds, np.full(len(seeds), 1 / len(seeds)))
        return {one.id: rank for one, rank in zip(snapshot.chunks(chunks), ranks.tolist(), strict=True)}, asked


def noted(method, asked):
    def call(*arguments, **settings):
        found = method(*arguments, **settings)
        asked.append(found)
        return found

    return call


def test_forward_push_reaches_what_it_reaches_in_memory_and_reads_little_more(both):
    memory, remote = both
    expected, visits = walked(memory)
    found, asked = walked(remote, 4)
    assert found.keys() == expected.keys()
    assert all(found[one] == pytest.approx(rank, rel=1e-6) for one, rank in expected.items())
    first = asked[0][1]
    assert len(first.counts) > 2  # more than the two nodes that were asked for
    read = sum(len(one.targets if hasattr(one, "targets") else one[1].targets) for one in asked)
    assert read <= sum(len(one.targets) for one in visits)


def test_nodes_that_little_flows_to_are_not_read(both):
    _, remote = both
    with remote.snapshot() as snapshot:
        seeds = np.array([*snapshot.find_entities(["grace hopper"]).values()], np.int64)
        masses = np.ones(1)
        every = snapshot.surroundings(seeds, masses, damping=0.85, least=0.0)[0]
        some = snapshot.surroundings(seeds, masses, damping=0.85, least=1e-3)[0]
        none, edges = snapshot.surroundings(seeds, masses, damping=0.85, least=1.0)
        alone = snapshot.neighbours(seeds)
    assert len(every) > len(some) > len(none) == 1
    assert sorted(edges.targets.tolist()) == sorted(alone.targets.tolist())
    assert edges.totals.tolist() == alone.totals.tolist()


def test_statements_of_questions_are_planned_once(both):
    _, remote = both
    for _ in range(7):
        with remote.snapshot() as snapshot:
            snapshot.find_entities(["grace hopper"])
    with remote.database.connection() as connection:
        prepared = connection.execute("SELECT statement FROM pg_prepared_statements").fetchall()
    assert any("FROM spellings" in statement for (statement,) in prepared)


@pytest.mark.parametrize(
    ("table", "column", "wanted"),
    [
        ("mentions", "chunk", "mentions_pkey"),
        ("chunk_entities", "chunk", "chunk_entities_pkey"),
        ("chunk_entities", "entity", "chunk_entities_entity"),
        ("fact_entities", "entity", "fact_entities_entity"),
    ],
)
def test_rows_of_an_index_that_is_newer_than_the_statistics_are_found_by_key(both, table, column, wanted):
    """Else each write of a new tenant would read all its rows again for each of its passages."""
    _, remote = both
    with remote.database.connection() as connection:
        connection.execute(f"ANALYZE {table}")
        plan = connection.execute(
            f"EXPLAIN SELECT x.* FROM unnest('{{1,2,3}}'::bigint[]) w(key) CROSS JOIN LATERAL "
            f"(SELECT * FROM {table} WHERE index = 999 AND {column} = w.key OFFSET 0) x"
        ).fetchall()
    assert any(f"using {wanted} " in line for (line,) in plan), plan
