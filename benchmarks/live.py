"""What a change costs as the index grows: ``make bench-live``, or ``python benchmarks/live.py 1000 50000 500000``.

For each size an index is built in a folder. Then a document is added, or deleted, and a question asked, in turn on all
sizes, and the medians are compared with those of the smallest size in the same run. Before that, one change and one
question on each. Then single documents are added to a new index, one call for each;
and readers ask questions while a writer adds and deletes. Passages, names and vectors are synthetic.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import numpy as np
from synthetic import ReadyVectors, documents

from graphrag_core import Document, GraphRetriever, KnowledgeIndex

SIZES = 1_000, 10_000, 50_000
REPEATS = 25
SINGLE_ADDS = 10_000
READERS = 64
CHANGES = 20
TARGET = 2.0


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


class Subject:
    """An index, a retriever of it, and questions about its documents."""

    def __init__(self, folder: Path, size: int, new: list[Document]) -> None:
        start = time.perf_counter()
        self.size = size
        self.index = KnowledgeIndex.open(folder / str(size), ReadyVectors(), progress=False)
        self.index.add(documents(size))
        self.retriever = GraphRetriever(self.index, cache=None)
        found = [self.index.get(f"d{at}") for at in np.random.default_rng(3).integers(0, size, 20).tolist()]
        self.questions = cycle([f"Which {d.text.split()[3]} of {d.title} was it?" for d in found if d is not None])
        self.new, self.old = iter(new), iter(np.random.default_rng(4).permutation(size).tolist())
        self.times: dict[str, list[float]] = {"query": [], "add": [], "add + query": [], "delete + query": []}
        print(f"{size:>9,} documents: built in {time.perf_counter() - start:,.0f} s", flush=True)

    def ask(self) -> None:
        self.retriever.retrieve(next(self.questions))

    def add(self) -> None:
        self.index.add([next(self.new)])

    def delete(self) -> None:
        assert self.index.delete(f"d{next(self.old)}") == 1

    def turn(self) -> None:
        """Time each change with the query that follows it, and a query that follows none."""
        add = milliseconds(self.add)
        self.times["add"].append(add)
        self.times["add + query"].append(add + milliseconds(self.ask))
        self.times["query"].append(milliseconds(self.ask))
        self.times["delete + query"].append(milliseconds(self.delete) + milliseconds(self.ask))


def changes(folder: Path, sizes: list[int], new: list[Document]) -> None:
    subjects = [Subject(folder, size, new) for size in sizes]
    for subject in subjects:
        first = milliseconds(subject.ask), milliseconds(subject.add), milliseconds(subject.ask)
        print(f"{subject.size:>9,} documents: first query {first[0]:,.0f} ms, first change {sum(first[1:]):,.0f} ms")
    for _ in range(REPEATS):
        for subject in subjects:
            subject.turn()
    smallest = {what: statistics.median(times) for what, times in subjects[0].times.items()}
    print(f"\n{'documents':>10}" + "".join(f"{what:>24}" for what in smallest))
    for subject in subjects:
        medians = {what: statistics.median(times) for what, times in subject.times.items()}
        parts = [f"{median:,.0f} ms ({median / smallest[what]:.2f})" for what, median in medians.items()]
        print(f"{subject.size:>10,}" + "".join(f"{part:>24}" for part in parts), flush=True)
        subject.index.close()
    print(f"in brackets: ratio to {sizes[0]:,} documents; target for a change with its query: {TARGET:g} at 50,000\n")


def single_adds(folder: Path, new: list[Document]) -> None:
    with KnowledgeIndex.open(folder / "single", ReadyVectors(), progress=False) as index:
        start = time.perf_counter()
        for document in new:
            index.add([document])
        took = time.perf_counter() - start
    print(f"{len(new):,} single adds: {took / 60:.1f} minutes, {took / len(new) * 1000:.1f} ms each\n", flush=True)


def readers_and_a_writer(folder: Path, size: int, new: list[Document]) -> None:
    subject = Subject(folder / "shared", size, new)
    for _ in range(2):
        subject.ask()
        subject.add()
    questions = [next(subject.questions) for _ in range(20)]
    latencies: dict[bool, list[float]] = {False: [], True: []}
    is_writing, stop = threading.Event(), threading.Event()

    def read(number: int) -> None:
        for question in cycle(questions[number % 20 :] + questions[: number % 20]):
            if stop.is_set():
                return
            took = milliseconds(lambda q=question: subject.retriever.retrieve(q))  # type: ignore[misc]
            latencies[is_writing.is_set()].append(took)

    threads = [threading.Thread(target=read, args=(number,)) for number in range(READERS)]
    for thread in threads:
        thread.start()
    time.sleep(5)
    is_writing.set()
    waits = [milliseconds(subject.add if turn % 2 else subject.delete) for turn in range(CHANGES)]
    is_writing.clear()
    stop.set()
    for thread in threads:
        thread.join()
    for writing, found in latencies.items():
        p50, p99 = np.percentile(found, [50, 99])
        print(
            f"{READERS} readers at {size:,} documents, {'one writer' if writing else 'no writer'}: "
            f"p50 {p50:,.0f} ms, p99 {p99:,.0f} ms, {len(found):,} queries"
        )
    print(f"the writer: p50 {statistics.median(waits):,.0f} ms for a change, {max(waits):,.0f} ms at most")
    subject.index.close()


def main() -> None:
    sizes = [int(argument) for argument in sys.argv[1:]] or list(SIZES)
    extra = documents(max(SINGLE_ADDS, REPEATS + 1, CHANGES + 2), seed=9)
    new = [Document(f"n{at}", one.text, one.title, one.metadata) for at, one in enumerate(extra)]
    with tempfile.TemporaryDirectory() as folder:
        changes(Path(folder), sizes, new)
        readers_and_a_writer(Path(folder), sizes[0], new)
        single_adds(Path(folder), new[:SINGLE_ADDS])


if __name__ == "__main__":
    main()
