"""Vectors with an HNSW index, rebuilding, erasing, moving documents, copies of an engine."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.engine.folder import FolderEngine
from graphrag_core.engine.postgres import PostgresEngine, engine
from graphrag_core.filters import parse
from graphrag_core.testing import HashEmbedder

WORDS = "token session ledger harbour quay planner tariff gateway keyring billing cedar nordic".split()


def documents(count: int) -> list[Document]:
    chance = np.random.default_rng(7)
    return [
        Document(f"d{at:03}", f"Ada Lovelace {' '.join(chance.choice(WORDS, 6))} number {at}.", metadata={"n": at % 3})
        for at in range(count)
    ]


def opened(url: str, **options) -> KnowledgeIndex:
    return KnowledgeIndex.open(url, HashEmbedder(), progress=False, **options)


def test_many_vectors_are_searched_with_an_hnsw_index(url, monkeypatch):
    monkeypatch.setattr(engine, "APPROXIMATE_FROM", 100)
    with opened(url) as index:
        index.add(documents(150))
        assert "chunks" in index.engine._indexed_kinds()
        exact = PostgresEngine(url, exact=True)
        query = HashEmbedder().embed_query("session ledger harbour")[None, :]
        with index.engine.snapshot() as near, exact.snapshot() as all_of_them:
            assert near._store._approximate
            asked: list[tuple] = []
            rows_unsorted = near._store.tables.rows_unsorted
            near._store.tables.rows_unsorted = lambda *statement: asked.append(statement) or rows_unsorted(*statement)
            (found,), (expected,) = (one.search_vectors("chunks", query, 10) for one in (near, all_of_them))
            shared = {chunk.id for chunk in near.chunks(found[0])} & {
                chunk.id for chunk in all_of_them.chunks(expected[0])
            }
            assert len(shared) >= 9
            settings, sql, parameters = asked[0]
            plan = rows_unsorted(settings, f"EXPLAIN {sql}", parameters)
            assert any("hnsw" in line for (line,) in plan), plan
        for scope, is_large in (({"n": {"in": [0, 1]}}, True), ({"__id__": {"in": ["d001", "d002"]}}, False)):
            with index.engine.snapshot(parse(scope)) as near, exact.snapshot(parse(scope)) as all_of_them:
                asked = []
                rows_unsorted = near._store.tables.rows_unsorted
                near._store.tables.rows_unsorted = lambda *statement: (
                    asked.append(statement) or rows_unsorted(*statement)  # noqa: B023
                )
                (found,), (expected,) = (one.search_vectors("chunks", query, 10) for one in (near, all_of_them))
                assert ("::halfvec(" in asked[0][1]) == is_large
                ids = [
                    {chunk.id for chunk in one.chunks(keys)}
                    for one, (keys, _) in ((near, found), (all_of_them, expected))
                ]
                assert len(ids[0] & ids[1]) >= len(ids[1]) - 1
                assert len(ids[0]) == (10 if is_large else 2)
        with index.engine.snapshot(None) as whole:
            assert whole.chunk_count == 150
        exact.close()
        index.delete([f"d{at:03}" for at in range(40)])
        assert index.verify(), str(index.verify())


def test_erasing_purges_postings(url):
    with opened(url) as index:
        index.add(documents(4))
        index.delete("d001")
        assert index.erase()
        (dead,) = index.engine.database.rows("SELECT dead FROM indexes WHERE id = %s", (index.engine.index,))[0]
        assert dead == 0


def test_verify_finds_what_is_damaged(url):
    with opened(url) as index:
        index.add(documents(4))
        number = index.engine.index
        for statement, problem in (
            ("UPDATE chunks SET text = text || ' more' WHERE index = %s AND id = 'd001'", "postings"),
            ("UPDATE names SET uses = uses + 1 WHERE index = %s", "names are counted wrongly"),
            ("DELETE FROM attributes WHERE index = %s", "metadata"),
            ("UPDATE entities SET subjects = subjects + 1 WHERE index = %s", "entities are counted wrongly"),
        ):
            with index.engine.database.transaction() as cursor:
                cursor.execute(statement, (number,))
            assert problem in str(index.verify()), statement


def test_documents_move_between_the_engines_without_embedding(url):
    with opened(url) as index, KnowledgeIndex(HashEmbedder()) as other:
        other.add(documents(12))
        parsed = other.engine.parsed(other.document_ids())
        names = {name: HashEmbedder().embed_query(name) for one in parsed for own in one.names for name in own}
        index.engine.write(parsed, name_vectors=names, settings=other.engine.settings())
        again = index.engine.parsed(index.document_ids())
        for one, two in zip(parsed, again, strict=True):
            assert (one.document, one.chunks, one.names, one.digest) == (
                two.document,
                two.chunks,
                two.names,
                two.digest,
            )
            assert one.extractions == two.extractions
            np.testing.assert_allclose(one.chunk_vectors, two.chunk_vectors, atol=1e-3)
        back = FolderEngine()
        back.write(again, name_vectors=names, settings=index.engine.settings())
        back.flush()
        with KnowledgeIndex(HashEmbedder(), engine=back) as returned:
            assert returned.graph.entities() == other.graph.entities()
            assert returned.verify()


def test_the_same_fact_of_two_writers_is_one_document(url):
    """The first of them makes the salt of the ids."""
    with KnowledgeIndex.open(url) as one, KnowledgeIndex.open(url) as other:
        indexes = [one, other] * 4
        with ThreadPoolExecutor(len(indexes)) as threads:
            told = [*threads.map(lambda index: index.memory.remember("Ada", "likes", "tea").id, indexes)]
        assert len(set(told)) == 1
        assert len(one) == 1


def test_a_pickled_index_reads_and_writes(url):
    with opened(url) as index:
        index.add(documents(3))
        with pickle.loads(pickle.dumps(index)) as copy:
            copy.add([Document("copied", "Written by a copy.")])
        assert "copied" in index
        assert GraphRetriever(index).retrieve("written copy").hits[0].chunk.id == "copied"
        assert index.refresh()
        assert not index.refresh()
