"""Checking, erasing, moving documents, copies of an engine."""

from __future__ import annotations

import pickle

import numpy as np
import psycopg

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
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


def test_verify_finds_what_is_damaged(url):
    plain, _, query = url.partition("?")
    schema = query.partition("schema=")[2].partition("&")[0]
    with opened(url) as index:
        index.add(documents(4))
        for statement, problem in (
            ("UPDATE {}.passages SET ordinal = ordinal + 1 WHERE index = {} AND id = 'd001'", "'d001' is damaged"),
            ("UPDATE {}.names SET uses = uses + 1 WHERE index = {}", "names are counted wrongly"),
            ("DELETE FROM {}.attributes WHERE index = {}", "metadata"),
            ("UPDATE {}.segments SET arrays = '' WHERE index = {}", "segment"),
            ("UPDATE {}.settings SET value = '[]' WHERE index = {} AND name = 'embeds'", "settings"),
        ):
            with psycopg.connect(plain, autocommit=True) as connection:
                name = query.partition("index=")[2]
                sql = f"SELECT id FROM {schema}.indexes WHERE name = %s"
                ((number,),) = connection.execute(sql, (name,)).fetchall()
                connection.execute(statement.format(schema, number))
            assert problem in str(index.verify()), statement


def test_erasing_removes_what_was_deleted(url):
    plain, _, query = url.partition("?")
    schema = query.partition("schema=")[2].partition("&")[0]
    with opened(url) as index:
        index.add(documents(4))
        index.delete("d001")
        assert index.erase()
        assert index.verify(), str(index.verify())
    with psycopg.connect(plain) as connection:
        sql = f"SELECT count(*) FROM {schema}.segments s JOIN {schema}.indexes i ON i.id = s.index WHERE i.name = %s"
        assert connection.execute(sql, (query.partition("index=")[2],)).fetchone() == (0,)


def test_a_pickled_index_reads_and_writes(url):
    with opened(url) as index:
        index.add(documents(3))
        with pickle.loads(pickle.dumps(index)) as copy:
            copy.add([Document("copied", "Written by a copy.")])
        assert "copied" in index
        assert GraphRetriever(index).retrieve("written copy").hits[0].chunk.id == "copied"
        assert index.refresh()
        assert not index.refresh()
