"""An index in PostgreSQL beside one in a folder: ``make bench-postgres``, or ``python benchmarks/postgres.py 10000``.

An index in PostgreSQL grows to each size, of synthetic passages, and up to 100,000 one in a folder, too. Then questions
are asked in turn: of the folder, of PostgreSQL with exact scans, from 100,000 on with an HNSW index as well, and one
vector search of pgvector alone. Printed are what a passage takes to build, bytes, p50 and p95, the statements and rows
of a question, and what one more document takes. Times are also given as CPU time, which other programs on the machine
change less: that of this process and, if the server runs on the same machine with Linux, of its processes for our
connections. Last comes what a filter costs that was never used before, as a multiple of questions without one: in CPU
time, in elapsed time and in statements. ``filters ADDRESS SIZE`` prints that alone, for an index of such passages that
is there. ``load SECONDS`` runs 1 and then 8 writers beside 16 readers, in processes of their own: nothing may be lost,
and every answer must be of one generation. ``bulk SIZE`` builds an index in one process and one with two workers of
Ray, compares both, and prints how much of the time the reader, the embedder and the database took, and how much of it
inside the lock of the index, where only one worker writes.

The server is that of ``DATABASE_URL``, or one that is started for the run, with fsync off. In your own server the index
of the growing passages stays, so that a run of hours can be continued.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import psycopg
from synthetic import ReadyVectors, documents
from write_parts import Measured, Seconds, cpu_of_server, total

from graphrag_apps import bulk
from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.embedders import WordLlama
from graphrag_core.engine.postgres.database import Database, Halfvec
from graphrag_core.engine.postgres.engine import APPROXIMATE_FROM, PostgresEngine
from graphrag_core.errors import DatabaseError

SIZES = 10_000, 100_000
QUESTIONS, WARM_UP = 60, 12  # the first ones load what is cached, and the server plans statements ten times
READERS, WRITERS = 16, 8
SECONDS = 60.0
PAIRS = 20
FILTERED = 10  # questions with each new filter, the first 2 of which are not counted
FILTER = 3.0  # the most that a filter may cost that was never used before, in questions without one
ADDED = 12  # single documents, the first 2 of which are not counted
FOLDER = 100_000  # passages up to which there is a folder, too
SCHEMA = "bench_growth"
WORKERS = 2  # of Ray
GROWTH = 3.0  # the most that a question may take longer with ten times the passages


@contextmanager
def server() -> Iterator[str]:
    if url := os.environ.get("DATABASE_URL"):
        yield url
        return
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    with import_module("postgres_server").server() as url:  # of the tests
        yield url.replace("+psycopg", "")


def address(url: str, schema: str, index: str = "default") -> str:
    return f"{url}{'&' if '?' in url else '?'}schema={schema}&index={index}"


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def spread(times: list[float]) -> tuple[float, float]:
    """Return median and 95th percentile in milliseconds."""
    return 1000 * statistics.median(times), 1000 * float(np.percentile(times, 95))


class Counted:
    """Counts the statements that this process sends, the rows and bytes that it gets, and CPU time on both sides."""

    def __init__(self) -> None:
        self.statements = self.rows = self.bytes = 0
        self._servers: dict[int, float] = {}  # CPU seconds by process
        execute, fetchall = psycopg.Cursor.execute, psycopg.Cursor.fetchall

        def counted_execute(cursor: Any, *arguments: Any, **settings: Any) -> Any:
            self.statements += 1
            self._servers.setdefault(cursor.connection.info.backend_pid, 0.0)
            return execute(cursor, *arguments, **settings)

        def counted_fetchall(cursor: Any) -> Any:
            rows = fetchall(cursor)
            self.rows += len(rows)
            self.bytes += sum(len(value) for row in rows for value in row if isinstance(value, bytes | str))
            return rows

        cursor: Any = psycopg.Cursor
        cursor.execute, cursor.fetchall = counted_execute, counted_fetchall

    def cpu(self) -> float:
        """Return the CPU seconds of this process and of the server's processes that it has talked to."""
        for process in self._servers:
            with suppress(OSError):  # ended, or on another machine
                self._servers[process] = int(Path(f"/proc/{process}/schedstat").read_text().split()[0]) / 1e9
        return time.process_time() + sum(self._servers.values())

    def seconds(self, work: Callable[[], object]) -> tuple[float, float]:
        """Return the time and the CPU time of some work."""
        start, first = time.perf_counter(), self.cpu()
        work()
        return time.perf_counter() - start, self.cpu() - first


def filterable(size: int) -> Iterator[Document]:
    """Yield passages with a tenant, a year and three groups."""
    random = np.random.default_rng(11)
    for at, one in enumerate(documents(size)):
        groups = [f"g{number}" for number in random.choice(30, 3, replace=False).tolist()]
        metadata = {"tenant": f"t{at % 20}", "year": 1900 + at % 200, "groups": groups}
        yield Document(one.id, one.text, one.title, metadata)


def growth(url: str, folder: Path, chosen: list[int]) -> None:
    """Let one index grow to each size, and ask it. With a server of your own, it goes on with what is there."""
    counted, place = Counted(), address(url, SCHEMA)
    before: dict[str, float] = {}
    embedded = KnowledgeIndex.open(folder, ReadyVectors(), progress=False)
    exact = KnowledgeIndex(ReadyVectors(), engine=PostgresEngine(place, exact=True), progress=False)
    for size in chosen:
        compared = {"folder": embedded, "exact": exact} if size <= FOLDER else {"exact": exact}
        print(f"{size:>9,} passages", flush=True)
        for name, index in compared.items():
            _grow(counted, name, index, size)
        if size >= APPROXIMATE_FROM:
            compared["HNSW"] = KnowledgeIndex.open(place, ReadyVectors(), progress=False)
            elapsed, _ = counted.seconds(compared["HNSW"].engine.flush)
            print(f"  HNSW        created in {elapsed:,.0f} s; {as_size(_bytes(place))} in all", flush=True)
        before = _asked(counted, compared, size, before)
        _one_more(counted, compared)
        _filtered(counted, compared.get("HNSW", exact), size, compared.get("folder"))
        if "HNSW" in compared:
            compared["HNSW"].close()
            _drop_hnsw(exact)  # with it, growing to the next size would take longer
    embedded.close()
    exact.close()
    if "DATABASE_URL" not in os.environ:
        drop(url, SCHEMA)


def _grow(counted: Counted, name: str, index: KnowledgeIndex, size: int) -> None:
    """Add passages until there are so many, and print what one takes."""
    if (present := len(index)) < size:
        elapsed, cpu = counted.seconds(lambda: index.add(islice(filterable(size), present, None)))
        each = [1000 * seconds / (size - present) for seconds in (cpu, elapsed)]
        print(f"  {name:11} grew by {size - present:,} in {elapsed:,.0f} s: {each[0]:.1f} ms of CPU for a passage, "
              f"{each[1]:.1f} ms elapsed", flush=True)  # fmt: skip
    data = index.stats().bytes_on_disk if name == "folder" else _bytes(str(index.engine.url))  # type: ignore[attr-defined]
    print(f"  {name:11} {as_size(data)}, {as_size(data // size)} for a passage", flush=True)


def _bytes(place: str) -> int:
    with Database(place, read_only=True).connect() as connection:
        tables = "SELECT oid FROM pg_class WHERE relkind = 'r' AND relnamespace = %s::regnamespace"
        ((size,),) = connection.execute(
            f"SELECT sum(pg_total_relation_size(oid)) FROM ({tables}) t", (SCHEMA,)
        ).fetchall()
    return int(size)


def as_size(count: int) -> str:
    """Return a number of bytes as text."""
    return f"{count / 1e6:,.1f} MB"


def _drop_hnsw(index: KnowledgeIndex) -> None:
    engine: Any = index.engine
    with engine.database.connection() as connection:
        for (name,) in connection.execute(
            "SELECT indexrelid::regclass::text FROM pg_index WHERE indexrelid::regclass::text LIKE '%hnsw%'"
        ).fetchall():
            connection.execute(f"DROP INDEX {name}")


def _one_more(counted: Counted, compared: Mapping[str, KnowledgeIndex]) -> None:
    """Print what one more document takes, and remove it again."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in compared}
    for number, one in enumerate(islice(documents(1_000, seed=9), ADDED)):
        for name, index in compared.items():
            added = Document(f"extra-{name}-{number}", one.text, one.title)
            taken[name].append(counted.seconds(partial(index.add, [added])))
    for name, index in compared.items():
        index.delete([f"extra-{name}-{number}" for number in range(ADDED)])
        elapsed, cpu = (statistics.median(own) for own in zip(*taken[name][2:], strict=True))
        print(f"  one more    {name}: {1000 * cpu:.0f} ms of CPU, {1000 * elapsed:.0f} ms elapsed", flush=True)


def _asked(
    counted: Counted, compared: Mapping[str, KnowledgeIndex], size: int, before: dict[str, float]
) -> dict[str, float]:
    """Ask questions in turn and print what they took; return the median CPU times. ``before`` are those of less."""
    texts = _questions(compared["exact"], size)
    times, numbers, equal = _ask_in_turn(counted, compared, texts)
    elapsed, cpu = ({name: spread([pair[at] for pair in pairs]) for name, pairs in times.items()} for at in (0, 1))
    for name, (median, late) in cpu.items():
        others = {"the folder": cpu.get("folder", (0.0,))[0], "the size before": before.get(name, 0.0)}
        others = {} if name == "folder" else others
        more = ", ".join(f"{median / other:.1f}× {what}" for what, other in others.items() if other)
        print(f"  {name:11} p50 {median:.1f} ms of CPU, p95 {late:.1f} ms ({elapsed[name][0]:.0f} and "
              f"{elapsed[name][1]:.0f} ms elapsed){more and f': {more}'}")  # fmt: skip
        if name in compared and name in before and median > GROWTH * before[name]:
            print(f"  NOT MET: the median grew by more than {GROWTH}×")
        if name in compared and name != "folder":
            statements, rows, size_of = np.median(np.array(numbers[name]), axis=0)
            print(f"  {'':11} {statements:.0f} statements, {rows:,.0f} rows, {as_size(int(size_of))}; "
                  f"the same top 10 as {next(iter(compared))}: {equal[name]} of {len(texts)}")  # fmt: skip
    sys.stdout.flush()
    return {name: median for name, (median, _) in cpu.items()}


def _ask_in_turn(
    counted: Counted, compared: Mapping[str, KnowledgeIndex], texts: list[str]
) -> tuple[dict[str, list[tuple[float, float]]], dict[str, list[list[int]]], dict[str, int]]:
    """Return for each index its times, what the server was asked for, and how often the results are the first's."""
    retrievers = {name: GraphRetriever(index, cache=None) for name, index in compared.items()}
    engine: Any = compared["exact"].engine
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in (*compared, "pgvector")}
    numbers: dict[str, list[list[int]]] = {name: [] for name in compared}
    equal = dict.fromkeys(compared, 0)
    nearest = "SELECT key FROM chunk_vectors WHERE index = %s ORDER BY vector <#> %s LIMIT 10"
    for number, text in enumerate(texts):
        results: list[list[str]] = []
        vector = Halfvec.rows(ReadyVectors().embed_query(text)[None, :])[0]

        def ask(retriever: GraphRetriever, text: str = text, results: list[list[str]] = results) -> None:
            results.append([hit.chunk.id for hit in retriever.retrieve(text, k=10).hits])

        for name, retriever in retrievers.items():
            first = counted.statements, counted.rows, counted.bytes
            taken = counted.seconds(partial(ask, retriever))
            last = counted.statements, counted.rows, counted.bytes
            equal[name] += results[0] == results[-1]
            if number >= WARM_UP:
                times[name].append(taken)
                numbers[name].append([after - before for before, after in zip(first, last, strict=True)])
        taken = counted.seconds(partial(engine.database.rows, nearest, (engine.index, vector)))
        if number >= WARM_UP:
            times["pgvector"].append(taken)
    return times, numbers, equal


def _questions(index: KnowledgeIndex, size: int, seed: int = 3) -> list[str]:
    found = [index.get(f"d{at}") for at in np.random.default_rng(seed).integers(0, size, QUESTIONS).tolist()]
    return [f"Which {d.text.split()[3]} of {d.title} was it?" for d in found if d is not None]


def _filtered(counted: Counted, shared: KnowledgeIndex, size: int, embedded: KnowledgeIndex | None = None) -> None:
    """Ask questions without and with filters that were never used before, in turn, and print what a filter costs."""
    random = np.random.default_rng(4)
    retriever = GraphRetriever(shared, cache=None)
    folder = None if embedded is None else GraphRetriever(embedded, cache=None)
    filters: dict[str, Callable[[int], dict[str, Any] | None]] = {
        "no filter": lambda _: None,
        "equality": lambda number: {"tenant": f"t{number}"},
        "range": lambda _: {"year": {"gte": 1900 + 100 * random.random()}},
        "narrow range": lambda _: {"year": {"gte": (start := 1900 + 180 * random.random()), "lt": start + 10}},
        "list": lambda _: {"groups": {"in": [f"g{group}" for group in random.choice(30, 3, replace=False).tolist()]}},
        "ids": lambda _: {"__id__": {"in": [f"d{at}" for at in random.integers(0, size, 500).tolist()]}},
    }
    taken: dict[str, list[tuple[float, float, int]]] = {name: [] for name in filters}
    equal = dict.fromkeys(filters, 0)
    # Other questions than before, and each with one kind of filter: what was read for one question serves the next.
    texts = iter(_questions(shared, size, seed=5))
    for number in range(FILTERED):
        for name, make in filters.items():
            text = next(texts)
            where, statements = make(number), counted.statements
            start, first = time.perf_counter(), counted.cpu()
            result = retriever.retrieve(text, k=10, where=where)
            cost = counted.cpu() - first, time.perf_counter() - start, counted.statements - statements
            if folder is not None:
                other = folder.retrieve(text, k=10, where=where)
                equal[name] += [hit.chunk.id for hit in result.hits] == [hit.chunk.id for hit in other.hits]
            if number >= 2:
                taken[name].append(cost)
    without = np.median(taken["no filter"], axis=0)
    for name, costs in taken.items():
        cpu, elapsed, statements = np.median(costs, axis=0)
        ratios = cpu / without[0], elapsed / without[1]
        same = "" if folder is None else f"; same top 10 as in the folder {equal[name]} of {FILTERED}"
        print(
            f"  {name:12} {1000 * cpu:.0f} ms of CPU ({ratios[0]:.1f}×), "
            f"{1000 * elapsed:.0f} ms ({ratios[1]:.1f}×), {statements:.0f} statements{same}"
            + (f"; NOT MET: above {FILTER}×" if max(ratios) > FILTER else ""),
            flush=True,
        )


def drop(url: str, schema: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


# -- writers and readers


def pair(number: int, revision: int) -> list[Document]:
    """Two documents that are always written together: an answer that has both shows one revision of them."""
    return [Document(f"pair{number}-{side}", f"Zetapair{number} was left at revision {revision}.") for side in "ab"]


def write(url: str, number: int, until: float, results: Any) -> None:
    """Add batches until the time is over, each with a pair of documents that all writers replace."""
    written, times, conflicts, failed = list[str](), list[float](), 0, ""
    stream = documents(1_000_000, seed=100 + number)
    try:
        with KnowledgeIndex.open(url, ReadyVectors(), progress=False) as index:
            while time.time() < until:
                batch = [
                    Document(f"w{number}-{len(written) + at}", one.text, one.title, one.metadata)
                    for at, one in enumerate(islice(stream, 20))
                ]
                start = time.perf_counter()
                index.add(batch)
                times.append(time.perf_counter() - start)
                written += [one.id for one in batch]
                try:
                    index.add(pair((len(written) // 20) % PAIRS, 1_000_000 * number + len(written)))
                except DatabaseError:  # another writer replaced the same pair at the same time
                    conflicts += 1
    except Exception as error:  # noqa: BLE001 - reported
        failed = f"{type(error).__name__}: {error}"
    results.put(("writer", written, times, conflicts, failed))


def read(url: str, number: int, until: float, results: Any) -> None:
    """Ask questions until the time is over; count answers that mix two revisions of a pair."""
    times, mixed, failed = [], 0, ""
    try:
        with KnowledgeIndex.open(url, ReadyVectors(), read_only=True, progress=False) as index:
            retriever = GraphRetriever(index, cache=None)
            while time.time() < until:
                number = (number + 1) % PAIRS
                start = time.perf_counter()
                hits = retriever.retrieve(f"Where was Zetapair{number} left?", k=10).hits
                times.append(time.perf_counter() - start)
                own = [hit.chunk for hit in hits if hit.chunk.document_id.startswith(f"pair{number}-")]
                mixed += len({re.sub(r"\D+(\d+)\D+", r"\1", one.text.partition("revision")[2]) for one in own}) > 1
    except Exception as error:  # noqa: BLE001 - reported
        failed = f"{type(error).__name__}: {error}"
    results.put(("reader", mixed, times, 0, failed))


def _run_processes(place: str, writers: int, duration: float) -> tuple[list[Any], list[Any]]:
    """Write and read with several processes for some seconds; return the reports of writers and readers."""
    context = multiprocessing.get_context("spawn")
    results: Any = context.Queue()
    until = time.time() + 15 + duration  # processes need some time to start
    roles = [(write, number) for number in range(writers)] + [(read, number) for number in range(READERS)]
    processes = [context.Process(target=role, args=(place, number, until, results)) for role, number in roles]
    for process in processes:
        process.start()
    reports = [results.get() for _ in processes]
    for process in processes:
        process.join()
    return [one for one in reports if one[0] == "writer"], [one for one in reports if one[0] == "reader"]


def load(url: str, writers: int, duration: float) -> dict[str, float]:
    schema = f"bench_{uuid.uuid4().hex[:8]}"
    place = address(url, schema)
    with KnowledgeIndex.open(place, ReadyVectors(), progress=False) as index:
        index.add(documents(2_000))
        index.add([one for number in range(PAIRS) for one in pair(number, 0)])
    of_writers, of_readers = _run_processes(place, writers, duration)
    failures = [report[4] for report in (*of_writers, *of_readers) if report[4]]
    written = list(chain.from_iterable(report[1] for report in of_writers))
    adds = list(chain.from_iterable(report[2] for report in of_writers))
    asked = list(chain.from_iterable(report[2] for report in of_readers))
    mixed = sum(report[1] for report in of_readers)
    conflicts = sum(report[3] for report in of_writers)
    with KnowledgeIndex.open(place, ReadyVectors(), read_only=True) as index:
        lost = len(written) - len(index.engine.stored(written))
        sound = index.verify()
    median, late = spread(asked)
    added, answered = len(written) / duration, len(asked) / duration
    print(f"{writers} writers, {READERS} readers: {added:,.0f} documents/s, p95 of a batch {spread(adds)[1]:,.0f} ms; "
          f"{answered:,.0f} questions/s, p50 {median:,.0f} ms, p95 {late:,.0f} ms")  # fmt: skip
    print(f"  lost {lost}, answers of two generations {mixed}, pairs that two writers replaced at once {conflicts}, "
          f"failures {len(failures)} {failures[:2]}; {sound}", flush=True)  # fmt: skip
    assert not lost
    assert not mixed
    assert not failures
    assert sound
    drop(url, schema)
    return {"documents/s": added, "questions/s": answered, "p95": late}


# -- bulk indexing


def fill(place: str, size: int, workers: int, folder: Path) -> None:
    """Index passages with workers of Ray, or in this process with none of them; store the seconds in the folder."""
    passages = list(documents(size))
    start = time.perf_counter()
    if workers:
        bulk.index_documents(iter(passages), place, Measured(folder), workers=workers, progress=False)
    else:
        with KnowledgeIndex.open(place, Measured(folder), progress=False) as index:
            index.add(iter(passages))
    (folder / "elapsed").write_text(str(time.perf_counter() - start), encoding="utf-8")


def fill_measured(url: str, place: str, size: int, workers: int) -> float:
    """Index passages in another process, print what the parts took, and return the seconds."""
    with tempfile.TemporaryDirectory() as name:
        folder, before = Path(name), cpu_of_server(url)
        process = multiprocessing.get_context("spawn").Process(target=fill, args=(place, size, workers, folder))
        process.start()
        process.join()
        assert process.exitcode == 0
        elapsed, sums = float((folder / "elapsed").read_text(encoding="utf-8")), total(folder)
    print(f"  {f'{workers} workers of Ray' if workers else 'one process'}: {elapsed:,.0f} s", flush=True)
    _print_parts(sums, cpu_of_server(url) - before, size)
    return elapsed


def _print_parts(sums: Seconds, served: float, size: int) -> None:
    reader, embedder, database, wait, lock, of_server, hnsw, process = (sums[part] for part in sums)
    rest = process[0] - reader[0] - embedder[0] - database[0] - hnsw[0]
    all_of_it = process[0] + served
    rows = {
        "reader: chunks, names, facts": reader,
        "embedder": embedder,
        "writer, before the lock": (database[0] - wait[0] - lock[0], database[1] - wait[1] - lock[1]),
        "writer, inside the lock": lock,
        "server, inside the lock": (of_server[0], None),
        "server, the rest": (served - of_server[0], None),
        "waiting for the lock": (wait[0], wait[1]),
        "HNSW index": hnsw,
        "the rest of the process": (rest, None),
    }
    for name, (cpu, elapsed) in rows.items():
        waited = "" if elapsed is None else f"; {elapsed:,.1f} s elapsed"
        print(f"    {name:29} {cpu:8,.1f} s of CPU, {cpu / all_of_it:4.0%}{waited}")
    stored = (database[0] + hnsw[0] + served) / all_of_it
    print(
        f"    {'all':29} {all_of_it:8,.1f} s of CPU, {1000 * all_of_it / size:.2f} ms for a passage: "
        f"reader {reader[0] / all_of_it:.0%}, embedder {embedder[0] / all_of_it:.0%}, database {stored:.0%}"
    )
    limit = size / (lock[0] + of_server[0])
    print(f"    at most {limit:,.0f} passages/s with any number of workers: so many pass the lock, by CPU", flush=True)


def compare_bulk(url: str, size: int) -> None:
    """Build an index in one process and with Ray, and compare what they have and answer."""
    os.environ.setdefault("RAY_worker_niceness", "0")
    print(f"{size:>9,} passages")
    schemas = [f"bench_{uuid.uuid4().hex[:8]}" for _ in range(2)]
    places = [address(url, schema) for schema in schemas]
    taken = [fill_measured(url, place, size, workers) for place, workers in zip(places, (0, WORKERS), strict=True)]
    print(f"  {WORKERS} workers of Ray take {taken[1] / taken[0]:.2f}× the time of one process")
    answers, counts = [], []
    for place in places:
        engine = PostgresEngine(place, read_only=True, exact=True)  # HNSW indexes depend on the order of passages
        with KnowledgeIndex(WordLlama(), engine=engine) as index:
            retriever, texts = GraphRetriever(index, cache=None), _questions(index, size)
            answers.append([[hit.chunk.id for hit in retriever.retrieve(text, k=10).hits] for text in texts])
            stats = index.stats()
            counts.append((stats.documents, stats.chunks, stats.facts, stats.entities, stats.vectors))
            sound = index.verify()
    equal = sum(one == other for one, other in zip(*answers, strict=True))
    print(f"  same top 10 {equal} of {len(answers[0])}; counts {counts[0]} {counts[1]}; {sound}", flush=True)
    assert counts[0] == counts[1]
    assert sound
    for schema in schemas:
        drop(url, schema)


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["filters"]:
        with KnowledgeIndex.open(arguments[1], ReadyVectors(), read_only=True, progress=False) as index:
            _filtered(Counted(), index, int(arguments[2]))
        return
    with server() as url, tempfile.TemporaryDirectory() as folder:
        if arguments[:1] == ["load"]:
            duration = float(arguments[1]) if len(arguments) > 1 else SECONDS
            one, many = (load(url, writers, duration) for writers in (1, WRITERS))
            print(", ".join(f"{name} {many[name] / one[name]:.1f}×" for name in one), f"with {WRITERS} writers for 1")
        elif arguments[:1] == ["bulk"]:
            compare_bulk(url, int(arguments[1].replace("_", "")) if len(arguments) > 1 else SIZES[0])
        else:
            growth(url, Path(folder), [int(size.replace("_", "")) for size in arguments] or list(SIZES))


if __name__ == "__main__":
    main(sys.argv[1:])
