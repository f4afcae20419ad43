"""What a question costs on PostgreSQL: statements are planned once, and edges are read that the walk needs."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psycopg
import pytest

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.engine.postgres import PostgresEngine
from graphrag_core.strategies import PageRank

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


def walked(engine):
    """Return the ids of the passages that forward push reaches from two names, with their ranks, and the edges read."""
    asked = []
    with engine.snapshot() as snapshot:
        seeds = np.array([*snapshot.find_entities(["grace hopper", "place number7"]).values()], np.int64)
        snapshot.walk = noted(snapshot.walk, asked)
        chunks, ranks = PageRank()._push(snapshot, seeds, np.full(len(seeds), 1 / len(seeds)))
        return {one.id: rank for one, rank in zip(snapshot.chunks(chunks), ranks.tolist(), strict=True)}, asked


def noted(method, asked):
    def call(*arguments, **settings):
        found = method(*arguments, **settings)
        asked.append(found)
        return found

    return call


def test_forward_push_reaches_what_it_reaches_in_memory_with_a_statement_for_each_round(both, statements):
    memory, remote = both
    expected, _ = walked(memory)
    statements.clear()
    found, rounds = walked(remote)
    assert found.keys() == expected.keys()
    assert all(found[one] == pytest.approx(rank, rel=1e-6) for one, rank in expected.items())
    edges = [sql for sql in statements if b"AS x_" in (sql if isinstance(sql, bytes) else sql.encode())]
    assert 1 < len(edges) <= len(rounds)


def test_edges_of_nodes_with_many_neighbours_are_not_read(both):
    _, remote = both
    with remote.snapshot() as snapshot:
        seeds = np.array([*snapshot.find_entities(["grace hopper", "place number7"]).values()], np.int64)
        most = np.array([1.0, np.inf])
        degrees = snapshot.degrees(seeds, most)
        assert remote._caches.popitem()[1][0].edges.missing(seeds).tolist() == seeds[:1].tolist()
        assert degrees.tolist() == snapshot.neighbours(seeds, to="chunks").counts.tolist()
        edges, alone = snapshot.walk(seeds), snapshot.neighbours(seeds, to="chunks")
    assert sorted(edges.targets.tolist()) == sorted(alone.targets.tolist())
    assert edges.totals.tolist() == alone.totals.tolist()


def test_statements_of_questions_are_planned_once(both):
    _, remote = both
    for at in range(7):
        with remote.snapshot() as snapshot:
            snapshot.find_entities([f"place number{at}"])
    with remote.database.connection() as connection:
        prepared = connection.execute("SELECT statement FROM pg_prepared_statements").fetchall()
    assert any("FROM entities" in statement for (statement,) in prepared)


@pytest.fixture
def statements(monkeypatch):
    """The statements that were sent since it was last cleared."""
    sent = []
    execute = psycopg.Cursor.execute
    monkeypatch.setattr(
        psycopg.Cursor,
        "execute",
        lambda cursor, sql, *rest, **more: sent.append(sql) or execute(cursor, sql, *rest, **more),
    )
    return sent


def test_a_question_takes_few_statements_and_the_next_one_fewer(both, statements):
    _, remote = both
    index = KnowledgeIndex(engine=remote, progress=False)
    retriever = GraphRetriever(index, cache=None)
    statements.clear()
    first = retriever.retrieve("Who met Grace Hopper in Place Number7?")
    assert len(statements) <= 24  # two of them once for a generation
    statements.clear()
    again = retriever.retrieve("Who met Grace Hopper in Place Number7?")
    assert len(statements) <= 10
    assert [hit.chunk.id for hit in again.hits] == [hit.chunk.id for hit in first.hits]
    index.add([Document("new", "Zelda Zork met Grace Hopper in Place Number7.", "Place Number7")])
    assert "new" in [hit.chunk.id for hit in retriever.retrieve("Who is Zelda Zork?").hits]


def test_threads_share_what_was_read(both):
    memory, remote = both
    questions = [f"Who met Grace Hopper or Ada Lovelace in Place Number{at}?" for at in range(24)]
    expected, found = (
        GraphRetriever(KnowledgeIndex(engine=engine, progress=False), cache=None) for engine in (memory, remote)
    )
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(found.retrieve, questions * 2))
    for question, answer in zip(questions * 2, answers, strict=True):
        assert [hit.chunk.id for hit in answer.hits] == [hit.chunk.id for hit in expected.retrieve(question).hits]


def test_a_rebuilt_graph_is_read_again(both):
    _, remote = both
    with remote.snapshot() as snapshot:
        (entity,) = snapshot.find_entities(["grace hopper"]).values()
        count = snapshot.entity_counts(np.array([entity]))
    remote._caches.clear()
    with remote.database.transaction() as cursor:
        cursor.execute("UPDATE entities SET passages = 1 WHERE index = %s", (remote.index,))
    with remote.snapshot() as snapshot:
        (entity,) = snapshot.find_entities(["grace hopper"]).values()
        assert snapshot.entity_counts(np.array([entity])) == 1 < count
    remote.rebuild()
    with remote.snapshot() as snapshot:
        (entity,) = snapshot.find_entities(["grace hopper"]).values()
        assert snapshot.entity_counts(np.array([entity])) == count


def test_what_was_read_is_released_when_it_is_much(both, monkeypatch):
    _, remote = both
    monkeypatch.setattr("graphrag_core.engine.postgres.cache._MOST_NODES", 10)
    kept = []
    for _ in range(2):
        with remote.snapshot() as snapshot:
            snapshot.neighbours(snapshot.search_keywords("chunks", "Grace Hopper", 5)[0], to="entities")
            kept.append(snapshot._store.tables.cache)
    assert kept[0] is not kept[1]


@pytest.mark.parametrize(
    ("table", "column", "wanted"),
    [
        ("mentions", "chunk", "mentions_pkey"),
        ("mentions", "entity", "mentions_entity"),
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
