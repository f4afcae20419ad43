"""A real standby: it lags behind, cancels questions, has no tables yet, and takes over."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from postgres_server import Server, running_server

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import NotAnIndex, ReadOnlyIndex
from graphrag_core.strategies import PageRank
from graphrag_core.testing import HashEmbedder

COUNT = 6


def revision(number: int) -> list[Document]:
    """Documents that are always written together."""
    return [Document(f"d{at}", f"Ada Lovelace left note {at} at revision {number}.") for at in range(COUNT)]


def revisions(retriever: GraphRetriever) -> set[str]:
    """Return the revisions of the passages of an answer."""
    hits = retriever.retrieve("Which revision did Ada Lovelace leave?", k=COUNT).hits
    assert len(hits) == COUNT
    return {hit.chunk.text.rpartition(" ")[2] for hit in hits}


def opened(url: str, **options) -> KnowledgeIndex:
    return KnowledgeIndex.open(url, HashEmbedder(), progress=False, **options)


def run(server: Server, sql: str) -> object:
    with psycopg.connect(server.url, autocommit=True) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchone()[0] if cursor.description else None


def wait_until(server: Server, sql: str) -> None:
    """Wait until a statement returns true."""
    while not run(server, f"SELECT {sql}"):
        time.sleep(0.02)


def replayed(primary: Server, standby: Server) -> None:
    """Wait until a standby has replayed all that was written."""
    wait_until(standby, f"pg_last_wal_replay_lsn() >= '{run(primary, 'SELECT pg_current_wal_lsn()')}'")


@pytest.fixture(scope="module")
def primary() -> Iterator[Server]:
    with running_server() as found:
        yield found


@pytest.fixture(scope="module")
def standby(primary) -> Iterator[Server]:
    with primary.standby() as found:
        yield found


@pytest.fixture(scope="module")
def hasty(primary) -> Iterator[Server]:
    """A standby that cancels at once whatever reads rows that the primary has removed."""
    with primary.standby("max_standby_streaming_delay=0") as found:
        yield found


def test_a_reader_of_a_standby_without_tables_is_told_where_to_create_them(primary, standby):
    for read_only in (True, False):
        with pytest.raises(NotAnIndex, match=r"open the index once for writing.*on the primary server"):
            KnowledgeIndex.open(f"{standby.url}?schema=elsewhere", read_only=read_only)
    opened(f"{primary.url}?index=there").close()
    replayed(primary, standby)
    with pytest.raises(NotAnIndex, match="has no index 'missing'"):
        KnowledgeIndex.open(f"{standby.url}?index=missing", read_only=True)
    with pytest.raises(ReadOnlyIndex, match="primary server"):
        KnowledgeIndex.open(f"{standby.url}?index=missing")


def test_a_lagging_standby_answers_from_one_older_generation(primary, standby):
    with opened(f"{primary.url}?index=lag") as index:
        index.add(revision(1))
        replayed(primary, standby)
        with opened(f"{standby.url}?index=lag", read_only=True) as reader:
            retriever = GraphRetriever(reader)
            assert revisions(retriever) == {"1."}
            run(standby, "SELECT pg_wal_replay_pause()")
            wait_until(standby, "pg_get_wal_replay_pause_state() = 'paused'")
            try:
                index.add(revision(2))
                index.add([Document("new", "Redis keeps every session.")])
                assert not reader.refresh()
                assert len(reader) == COUNT
                assert revisions(retriever) == {"1."}
                assert reader.verify(), str(reader.verify())
            finally:
                run(standby, "SELECT pg_wal_replay_resume()")
            replayed(primary, standby)
            assert reader.refresh()
            assert revisions(retriever) == {"2."}
            assert retriever.retrieve("redis session").hits[0].chunk.id == "new"


def test_a_standby_that_replays_writes_never_shows_half_of_one(primary, standby):
    stop = threading.Event()
    with opened(f"{primary.url}?index=half") as index:
        index.add(revision(0))
        replayed(primary, standby)

        def write() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                index.add(revision(number))

        thread = threading.Thread(target=write)
        thread.start()
        seen: set[str] = set()
        try:
            with opened(f"{standby.url}?index=half", read_only=True) as reader:
                retriever = GraphRetriever(reader, cache=None)
                while len(seen) < 8:
                    found = revisions(retriever)
                    assert len(found) == 1
                    seen |= found
        finally:
            stop.set()
            thread.join()


def _remove_rows(primary: Server, index: KnowledgeIndex, number: int) -> None:
    """Let the primary remove rows that a question on the standby may still read."""
    index.add(revision(number))
    for table in ("passages", "facts", "settings", "segments"):
        run(primary, f"VACUUM graphrag.{table}")


def test_a_question_that_a_standby_cancels_is_asked_again(primary, hasty):
    with opened(f"{primary.url}?index=cancelled") as index:
        index.add(revision(1))
        replayed(primary, hasty)
        with opened(f"{hasty.url}?index=cancelled", read_only=True) as reader:
            conflicts = "SELECT sum(confl_snapshot) FROM pg_stat_database_conflicts"
            before, cancelled = run(hasty, conflicts), list[int]()

            class Cancelled(PageRank):
                """Walks in a snapshot that the standby cancels."""

                def expand(self, *arguments, **named):
                    if not cancelled:
                        cancelled.append(1)
                        _remove_rows(primary, index, 2)
                        wait_until(hasty, f"({conflicts}) > {before}")
                    return super().expand(*arguments, **named)

            retriever = GraphRetriever(reader, cache=None, graph=Cancelled(), method="graph")
            assert revisions(retriever) == {"2."}
            assert cancelled


def test_a_promoted_standby_takes_over_and_lost_writes_are_not_shown(primary):
    with primary.standby() as standby:
        both = f"{primary.url.rpartition('/')[0]},127.0.0.1:{standby.port}/postgres"
        url = f"{both}?target_session_attrs=read-write&index=promoted"
        with opened(url) as index:
            index.add(revision(1))
            replayed(primary, standby)
            standby.stop()
            index.add(revision(2))  # which the standby does not get
            retriever = GraphRetriever(index)
            assert revisions(retriever) == {"2."}
            primary.kill()
            standby.start()
            run(standby, "SELECT pg_promote()")
            assert revisions(retriever) == {"1."}
            with opened(f"{standby.url}?index=promoted") as other:
                other.add(revision(3))
            assert revisions(retriever) == {"3."}, "not what was cached of the write that was lost"
            index.add(revision(4))
            assert revisions(retriever) == {"4."}
            assert index.verify(), str(index.verify())
        primary.start()
