"""An index in PostgreSQL beside one in a folder: ``make bench-postgres``, or ``postgres.py 30000``.

For each size both indexes are built of synthetic passages. Printed are what a write costs beside reading and
extracting, a question, its statements, a filter that was never used before, one more document beside a second process
that writes, the start of a host that has no arrays and of one that has them, and bytes. CPU time is that of this
process and of the server's processes for its connections.

The server is that of ``DATABASE_URL``, or one that is started for the run.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib import import_module
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import psycopg
from synthetic import ReadyVectors, documents

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.engine.address import Address
from graphrag_core.engine.engine import IndexEngine

SIZES = 30_000, 100_000
SCHEMA = "bench_postgres"
QUESTIONS, WARM_UP = 40, 10
ADDED = 15


@contextmanager
def server() -> Iterator[str]:
    if url := os.environ.get("DATABASE_URL"):
        yield url
        return
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    with import_module("postgres_server").server() as url:  # of the tests
        yield url.replace("+psycopg", "")


class Counted:
    """Counts the statements that this process sends, and CPU time on both sides."""

    def __init__(self) -> None:
        self.statements = 0
        self._servers: dict[int, float] = {}  # CPU seconds by process
        execute = psycopg.Cursor.execute

        def counted(cursor: Any, sql: Any, *arguments: Any, **named: Any) -> Any:
            self.statements += not str(sql).startswith(("BEGIN", "COMMIT"))
            self._servers.setdefault(cursor.connection.info.backend_pid, 0.0)
            return execute(cursor, sql, *arguments, **named)

        cursor: Any = psycopg.Cursor
        cursor.execute = counted

    def cpu(self) -> float:
        for process in self._servers:
            with suppress(OSError):  # ended, or on another machine
                self._servers[process] = int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9
        return time.process_time() + sum(self._servers.values())

    def ms(self, work: Callable[[], object]) -> float:
        """Return the milliseconds of CPU of some work."""
        first = self.cpu()
        work()
        return 1_000 * (self.cpu() - first)


def filterable(size: int) -> Iterator[Document]:
    for at, one in enumerate(documents(size)):
        yield replace(one, metadata={"tenant": f"t{at % 20}", "year": 1900 + at % 200})


def grow(counted: Counted, name: str, index: KnowledgeIndex, size: int) -> None:
    """Add passages until there are so many; print what the writes cost."""
    spent, write = list[float](), index.engine.write
    engine: Any = index.engine
    engine.write = lambda *given, **named: spent.append(counted.ms(lambda: write(*given, **named)))
    present = len(index)
    total = counted.ms(lambda: index.add(islice(filterable(size), present, None)))
    engine.write = write
    each = size - present
    print(f"  {name:9} built with {total / each:.2f} ms of CPU a passage, {sum(spent) / each:.2f} ms of them to write")


def median(counted: Counted, ask: Callable[[str], object], questions: list[str]) -> tuple[float, float]:
    """Return the median CPU time and the median statements of questions."""
    times, statements = [], []
    for question in questions:
        before = counted.statements
        times.append(counted.ms(lambda question=question: ask(question)))  # type: ignore[misc]
        statements.append(counted.statements - before)
    return statistics.median(times[WARM_UP:]), statistics.median(statements[WARM_UP:])


class Asked:
    """Asks a retriever, each time with a filter that was never used before if wanted."""

    def __init__(self, retriever: GraphRetriever, *, filters: bool = False) -> None:
        self._retriever, self._years = retriever, count(1_901) if filters else None

    def __call__(self, question: str) -> object:
        where: Any = None if self._years is None else {"year": {"gt": next(self._years)}}
        return self._retriever.retrieve(question, k=10, where=where)


def asked(counted: Counted, folder: KnowledgeIndex, remote: KnowledgeIndex, size: int) -> None:
    random = np.random.default_rng(5)
    texts = [one.text for one in documents(size)]
    words = (texts[at].split() for at in random.choice(len(texts), QUESTIONS))
    questions = [" ".join(random.choice(own, 8)) for own in words]
    by_folder, by_remote = (GraphRetriever(one, cache=None) for one in (folder, remote))
    equal = 0
    for question in questions:
        one, other = by_folder.retrieve(question, k=10), by_remote.retrieve(question, k=10)
        equal += [(hit.chunk.id, hit.score) for hit in one.hits] == [(hit.chunk.id, hit.score) for hit in other.hits]
    for name, retriever in (("folder", by_folder), ("postgres", by_remote)):
        plain, statements = median(counted, Asked(retriever), questions)
        filtered, _ = median(counted, Asked(retriever, filters=True), questions)
        print(
            f"  {name:9} a question {plain:.1f} ms of CPU, {statements:.0f} statements; a new filter "
            f"{filtered / plain:.2f} times that"
        )
    print(f"  equal rankings and scores: {equal} of {len(questions)} questions")


def write_beside(url: str, stop: Any) -> None:
    """Add one document after the other until told to stop."""
    with KnowledgeIndex.open(url, ReadyVectors(), progress=False) as index:
        for at, one in enumerate(documents(100_000, seed=7)):
            if stop.is_set():
                return
            index.add([replace(one, id=f"beside-{at}")])


def one_more(counted: Counted, url: str, remote: KnowledgeIndex) -> None:
    context = multiprocessing.get_context("spawn")
    for writers in (1, 2):
        stop = context.Event()
        other = context.Process(target=write_beside, args=(url, stop))
        if writers == 2:
            other.start()
            before = len(remote)
            while len(remote) < before + 3:
                time.sleep(0.1)
        elapsed, cpu = [], []
        for at, one in enumerate(islice(documents(1_000, seed=9), ADDED)):
            start = time.perf_counter()
            cpu.append(counted.ms(lambda: remote.add([replace(one, id=f"extra-{writers}-{at}")])))  # noqa: B023
            elapsed.append(1_000 * (time.perf_counter() - start))
        stop.set()
        if writers == 2:
            other.join()
        print(f"  one more document, {writers} writers: {statistics.median(cpu[3:]):.1f} ms of CPU, "
              f"{statistics.median(elapsed[3:]):.1f} ms elapsed")  # fmt: skip


def start(url: str) -> None:
    """Open the index on a host without its arrays, then with them."""
    with TemporaryDirectory() as cache:
        for name in ("without arrays", "with them"):
            first, cpu = time.perf_counter(), time.process_time()
            engine = IndexEngine(f"{url}&cache={cache}", read_only=True)
            print(f"  start of a host {name}: {1_000 * (time.perf_counter() - first):.0f} ms elapsed, "
                  f"{1_000 * (time.process_time() - cpu):.0f} ms of CPU")  # fmt: skip
            engine.close()
        (base,) = Path(cache).rglob("*.base")
        print(f"  arrays on a host: {base.stat().st_size / 1e6:,.0f} MB")


def main() -> None:
    sizes = [int(size) for size in sys.argv[1:]] or [*SIZES]
    counted = Counted()
    with server() as database, TemporaryDirectory() as folder:
        mark = "&" if "?" in database else "?"
        url = f"{database}{mark}schema={SCHEMA}"
        with (
            KnowledgeIndex.open(Path(folder) / "kb", ReadyVectors(), progress=False) as local,
            KnowledgeIndex.open(f"{url}&cache={folder}/cache", ReadyVectors(), progress=False) as remote,
        ):
            for size in sizes:
                print(f"{size:,} passages", flush=True)
                grow(counted, "folder", local, size)
                grow(counted, "postgres", remote, size)
                remote.rebuild() if size == sizes[0] else remote.engine.flush()
                own, other = remote.stats(), local.stats()
                print(
                    f"  bytes: folder {other.bytes_on_disk / 1e6:,.0f} MB, database {own.bytes_on_disk / 1e6:,.0f} MB"
                )
                start(url)
                asked(counted, local, remote, size)
                one_more(counted, f"{url}&cache={folder}/cache", remote)
                remote.delete([one for one in remote.document_ids() if one.startswith(("extra", "beside"))])
        with psycopg.connect(Address.parse(url).conninfo, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE")


if __name__ == "__main__":
    main()
