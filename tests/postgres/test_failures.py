"""Processes and servers that are killed, lost connections, and writers that want the same: nothing is half written."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context

import psycopg
import pytest
from postgres_server import running_server

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.engine.address import Address
from graphrag_core.errors import (
    DatabaseError,
    ReadOnlyIndex,
    UnsupportedFormat,
)
from graphrag_core.strategies import PageRank
from graphrag_core.testing import HashEmbedder

TEXTS = [
    "The Auth Service issues tokens to Ada Lovelace.",
    "Redis keeps every session of the Auth Service.",
    "International Business Machines (IBM) met Ada Lovelace.",
]


def documents(count: int, mark: str = "") -> list[Document]:
    return [Document(f"d{at}", f"{TEXTS[at % 3]} Number {at} {mark}.") for at in range(count)]


def opened(url: str, **options) -> KnowledgeIndex:
    return KnowledgeIndex.open(url, HashEmbedder(), progress=False, **options)


@pytest.mark.parametrize(("version", "advice"), [(6, "index the documents again"), (999, "upgrade hybrid-graphrag")])
def test_tables_of_another_version_are_refused(url, version, advice):
    schema = f"version_{version}"
    address = f"{url}&schema={schema}"
    opened(address).close()
    with psycopg.connect(Address.parse(address).conninfo, autocommit=True) as connection:
        connection.execute(f"UPDATE {schema}.meta SET value = %s WHERE name = 'version'", (str(version),))
    with pytest.raises(UnsupportedFormat, match=f"tables of version {version}, .*{advice}"):
        opened(address)


# -- many writers


def test_two_writers_on_the_same_document(url):
    with opened(url) as one, opened(url) as other:
        failures: list[BaseException] = []

        def write(index: KnowledgeIndex, mark: str) -> None:
            try:
                for at in range(6):
                    index.add(documents(3, f"{mark}{at}"))
            except Exception as error:  # noqa: BLE001 - of a thread
                failures.append(error)

        threads = [threading.Thread(target=write, args=(index, mark)) for index, mark in ((one, "x"), (other, "y"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert one.document_ids() == ["d0", "d1", "d2"]
        assert one.verify(), str(one.verify())
        with opened(url, read_only=True) as reader, KnowledgeIndex(HashEmbedder()) as alone:
            alone.add(reader.documents())
            assert reader.graph.entities() == alone.graph.entities()


def _add_many(url: str, mark: int, count: int) -> None:
    with opened(url) as index:
        for at in range(count):
            index.add([Document(f"{mark}-{at}", f"{TEXTS[at % 3]} Written by {mark}.")])


def test_many_writing_processes_lose_nothing(url):
    opened(url).close()
    context = get_context("spawn")
    processes = [context.Process(target=_add_many, args=(url, mark, 5)) for mark in range(3)]
    for process in processes:
        process.start()
    with opened(url, read_only=True) as reader:
        while any(process.is_alive() for process in processes):
            found = GraphRetriever(reader, method="keyword", cache=None).retrieve("Written", k=50)
            assert all("Written by" in hit.chunk.text for hit in found)
        for process in processes:
            process.join()
            assert process.exitcode == 0
        assert len(reader) == 15
        assert reader.verify(), str(reader.verify())


def test_edits_of_two_processes_are_both_kept(url):
    with opened(url) as one, opened(url) as other:
        one.add(documents(3))
        one.graph.rename("Ada Lovelace", "Countess Lovelace")
        other.graph.rename("Auth Service", "Login Service")
        assert [edit.number for edit in one.graph.edits()] == [1, 2]


# -- what is killed

_WRITER = """
import sys
from graphrag_core import Document, KnowledgeIndex
from graphrag_core.testing import HashEmbedder
with KnowledgeIndex.open(sys.argv[1], HashEmbedder(), batch_size=1, progress=False) as index:
    print("ready", flush=True)
    for turn in range(1000):
        index.add([Document(f"d{at}", f"The Auth Service issues token {turn} to Ada Lovelace.") for at in range(5)])
"""


def test_a_killed_writer_leaves_complete_batches(url):
    for pause in (0.1, 0.25, 0.4):
        process = subprocess.Popen([sys.executable, "-c", _WRITER, url], stdout=subprocess.PIPE)
        process.stdout.readline()
        time.sleep(pause)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        with opened(url) as index:
            assert index.verify(), str(index.verify())
            index.add([Document("after", "Redis keeps every session.")])
            assert GraphRetriever(index).retrieve("redis session").hits[0].chunk.id == "after"


@pytest.fixture(scope="module")
def own_server():
    with running_server() as found:
        yield found


def test_a_killed_server_loses_nothing_that_was_confirmed(own_server):
    url = f"{own_server.url}?index=killed"
    confirmed: list[str] = []
    failures: list[BaseException] = []
    stop = threading.Event()
    with opened(url) as index:

        def write() -> None:
            at = 0
            while not stop.is_set():
                try:
                    index.add([Document(f"d{at}", f"{TEXTS[at % 3]} Number {at}.")])
                    confirmed.append(f"d{at}")
                except DatabaseError as error:  # the server was away for longer than the writer waits
                    failures.append(error)
                at += 1

        thread = threading.Thread(target=write)
        thread.start()
        for _ in range(2):
            before = len(confirmed)
            while len(confirmed) < before + 5:
                assert thread.is_alive()
                time.sleep(0.01)
            own_server.kill()
            own_server.start()
        before = len(confirmed)
        while len(confirmed) < before + 3:
            assert thread.is_alive()
            time.sleep(0.01)
        stop.set()
        thread.join()
        stored = set(index.document_ids())
        assert stored >= set(confirmed)
        assert all("cannot be reached" in str(error) for error in failures), failures  # a slow start of the server
        assert index.verify(), str(index.verify())


def _end_connections(url: str, state: str) -> int:
    with psycopg.connect(Address.parse(url).conninfo, autocommit=True) as connection:
        found = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'hybrid-graphrag' "
            f"AND pid <> pg_backend_pid() AND state LIKE '{state}'"
        ).fetchall()
        return len(found)


@pytest.mark.parametrize("where", [None, {"parity": 0}])
def test_a_question_whose_connection_is_lost_is_asked_again(own_server, where):
    url = f"{own_server.url}?index=asked-{where is None}"
    with opened(url) as index:
        index.add(
            [Document(f"d{n}", f"Ada Lovelace wrote note {n} on tokens.", metadata={"parity": n % 2}) for n in range(6)]
        )
        wanted = [hit.chunk.id for hit in GraphRetriever(index).retrieve("Ada Lovelace tokens", where=where).hits]
        lost: list[int] = []

        class Losing(PageRank):
            """Walks while the connection is cut."""

            def expand(self, *arguments, **named):
                if not lost:
                    lost.append(_end_connections(url, "idle in transaction%"))
                return super().expand(*arguments, **named)

    with opened(url, read_only=True) as index:  # which has read no row yet
        found = GraphRetriever(index, graph=Losing()).retrieve("Ada Lovelace tokens", where=where)
        assert lost == [1]
        assert [hit.chunk.id for hit in found.hits] == wanted


@pytest.mark.parametrize("table", ["settings", "segments"])
def test_a_connection_lost_in_the_middle_of_a_write(own_server, table):
    """While it waits for the first table that it reads, or the last one that it changes."""
    url = f"{own_server.url}?index=write-{table}"
    with opened(url) as index:
        index.add(documents(2))
        before = _segments(url)
        with psycopg.connect(own_server.url) as other, ThreadPoolExecutor(1) as threads:
            other.execute(f"LOCK TABLE graphrag.{table} IN ACCESS EXCLUSIVE MODE")
            added = threads.submit(index.add, [Document("new", "Redis keeps sessions.")])
            while not _end_connections(url, "active"):
                time.sleep(0.01)
            other.rollback()
            assert added.result().added == 1
        assert _segments(url) == before + 1, "written exactly once"
        assert index.verify(), str(index.verify())


def test_a_connection_lost_after_the_commit(own_server, monkeypatch):
    url = f"{own_server.url}?index=committed"
    with opened(url) as index:
        index.add(documents(2))
        before, lost, execute = _segments(url), list[int](), psycopg.Connection.execute

        def execute_and_lose(self, query, *arguments, **named):
            result = execute(self, query, *arguments, **named)
            if query == "COMMIT" and not lost:
                lost.append(self.info.backend_pid)
                with psycopg.connect(own_server.url, autocommit=True) as other:
                    execute(other, f"SELECT pg_terminate_backend({self.info.backend_pid})")
                execute(self, "SELECT 1")
            return result

        monkeypatch.setattr(psycopg.Connection, "execute", execute_and_lose)
        index.add([Document("new", "Redis keeps sessions.")])
        monkeypatch.undo()
        assert len(lost) == 1
        assert _segments(url) == before + 1, "written exactly once"
        assert index.verify(), str(index.verify())


def _segments(url: str) -> int:
    """Return how many writes were committed since the base."""
    address = Address.parse(url)
    with psycopg.connect(address.conninfo) as connection:
        sql = "SELECT count(*) FROM graphrag.segments s JOIN graphrag.indexes i ON i.id = s.index WHERE i.name = %s"
        return connection.execute(sql, (address.name,)).fetchone()[0]


def test_an_error_in_a_batch_changes_nothing(own_server):
    with opened(f"{own_server.url}?index=failing") as index:
        index.add(documents(2))
        before = index.engine.generation
        with psycopg.connect(own_server.url, autocommit=True) as connection:
            connection.execute(
                "CREATE FUNCTION fail() RETURNS trigger AS 'BEGIN RAISE ''failed''; END' LANGUAGE plpgsql"
            )
            connection.execute("CREATE TRIGGER fails BEFORE INSERT ON graphrag.segments EXECUTE FUNCTION fail()")
            try:
                with pytest.raises(DatabaseError, match="failed"):
                    index.add([Document("new", "Redis keeps sessions.")])
            finally:
                connection.execute("DROP FUNCTION fail CASCADE")
        assert index.engine.generation == before
        assert "new" not in index
        assert index.verify(), str(index.verify())
        index.add([Document("new", "Redis keeps sessions.")])


# -- errors that say what to do


def test_a_statement_timeout_in_the_middle_of_a_question(url):
    with opened(url) as index:
        index.add(documents(3))
    with opened(f"{url}&options=-c%20statement_timeout%3D300", read_only=True) as index:
        address, retriever = Address.parse(url), GraphRetriever(index, cache=None)
        with psycopg.connect(address.conninfo) as other:
            other.execute(f"LOCK TABLE {address.schema}.passages IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(DatabaseError, match="statement_timeout"):
                retriever.retrieve("Ada Lovelace")
        assert retriever.retrieve("Ada Lovelace").hits, "the next question is answered"


def test_a_server_that_only_reads_refuses_writes_and_answers_questions(url):
    with opened(url) as index:
        index.add(documents(3))
    standby = f"{url}&options=-c%20default_transaction_read_only%3Don"
    with opened(standby) as index:
        assert GraphRetriever(index).retrieve("Ada Lovelace").hits
        with pytest.raises(ReadOnlyIndex, match="primary"):
            index.add(documents(1, "changed"))
    with opened(standby, read_only=True) as index:
        assert len(index) == 3
        with pytest.raises(ReadOnlyIndex, match="read_only=True"):
            index.delete("d0")


def test_two_processes_create_the_first_tables_of_a_database_at_once(own_server):
    """Both create the extension; the one that is second must not fail."""
    with psycopg.connect(own_server.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE first_tables")
    address = own_server.url.rpartition("/")[0] + "/first_tables"
    start = threading.Barrier(4)

    def create(number):
        start.wait()
        KnowledgeIndex.open(f"{address}?schema=tables{number}").close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(create, range(4)))
