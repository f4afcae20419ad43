"""What an index costs as it grows: ``make bench-growth``, or ``python benchmarks/growth.py 10000 100000 1000000``.

For each size, in a separate process: the CPU time to build the index in a folder, the time to open it and to answer the
first question; the time of a question, in all and by stage, and as a ratio to one exact search of the same vectors
(FAISS flat, one thread) in turn with it; memory and disk; and what one more document costs: adding, deleting, and
refreshing a reader, each with the question that follows. Passages, names and vectors are synthetic.

Writes docs/growth.md. ``--keep FOLDER`` keeps the indexes there and uses them again, in which
case the time of a build is that of the first run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np
from synthetic import DIM, RandomVectors, documents, questions

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.engine.engine import IndexEngine
from graphrag_core.ports import Matrix

SIZES = 10_000, 100_000
QUESTIONS, CHANGES = 60, 15
DOCS = Path(__file__).parents[1] / "docs"
MARKS = "<!-- growth -->\n", "<!-- end of growth -->\n"
STAGES = ("search", "recognise", "expand", "rerank", "explain")


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def resident() -> int:
    """Return the bytes of memory that this process has now."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024)


def measure(size: int, folder: Path) -> dict[str, Any]:
    """Measure one size. The index is built if the folder has none."""
    found: dict[str, Any] = {"size": size}
    note = folder.with_suffix(".build.json")
    if not KnowledgeIndex.exists(folder):
        with KnowledgeIndex.open(folder, RandomVectors(), progress=False) as index:
            start = time.process_time()
            index.add(documents(size))
            note.write_text(json.dumps(time.process_time() - start), encoding="utf-8")
    found["build"] = json.loads(note.read_text(encoding="utf-8")) if note.exists() else None
    faiss.omp_set_num_threads(1)
    before = resident()
    start = time.perf_counter()
    index = KnowledgeIndex.open(folder, RandomVectors(), progress=False)
    retriever = GraphRetriever(index, cache=None, k=10)
    found["open"] = (time.perf_counter() - start) * 1000
    numbers = np.random.default_rng(5).integers(0, size, QUESTIONS)
    asked = questions(index, size, QUESTIONS)
    assert isinstance(index.engine, IndexEngine)
    with index.engine.reading() as (view, _):
        stored = view.vectors
    near = stored.take(numbers)
    queries = near + 0.5 * np.random.default_rng(6).standard_normal(near.shape, np.float32) / DIM**0.5
    found["first question"] = milliseconds(lambda: retriever.retrieve(asked[0], embedding=queries[0]))
    for at in range(1, 10):
        retriever.retrieve(asked[at], embedding=queries[at])
    found["memory"] = resident() - before
    found["disk"] = index.stats().bytes_on_disk
    flat = faiss.IndexFlatIP(DIM)
    for at in range(0, size, 50_000):
        flat.add(stored.take(np.arange(at, min(at + 50_000, size))))
    ours, theirs, stages = [], [], []
    for question, query in zip(asked, queries, strict=True):
        start = time.perf_counter()
        result = retriever.retrieve(question, embedding=query)
        ours.append((time.perf_counter() - start) * 1000)
        stages.append(result.trace.stages)
        start = time.perf_counter()
        flat.search(query[None, :], 10)
        theirs.append((time.perf_counter() - start) * 1000)
    flat.reset()
    found["question"], found["question p95"] = statistics.median(ours), float(np.percentile(ours, 95))
    found["flat search"] = statistics.median(theirs)
    found |= _filters(retriever, asked, queries)
    found["stages"] = {name: statistics.median(one.get(name, 0) for one in stages) for name in STAGES}
    costs = _changes(folder, retriever, asked, queries)
    found["change"] = {name: statistics.median(times[1:]) for name, times in costs.items()}
    found["first change"] = costs["add"][0] + costs["question after add"][0]
    index.close()
    return found


def _filters(retriever: GraphRetriever, asked: list[str], queries: Matrix) -> dict[str, float]:
    """Return the times of questions with a filter that keeps a tenth of the passages, in milliseconds."""
    times: dict[str, list[float]] = {"filter": [], "new filter": []}
    for at, (question, query) in enumerate(zip(asked, queries, strict=True)):
        new = {"part": {"$gte": at % 9 + at / 1000, "$lt": at % 9 + at / 1000 + 1}}
        for name, where in (("filter", {"part": 3}), ("new filter", new)):
            ask = partial(retriever.retrieve, question, embedding=query, where=where)
            times[name].append(milliseconds(ask))
    return {"first filter": times["filter"][0], **{name: statistics.median(own[1:]) for name, own in times.items()}}


def _changes(folder: Path, retriever: GraphRetriever, asked: list[str], queries: Matrix) -> dict[str, list[float]]:
    """Return the times of single changes, in milliseconds."""
    index = retriever.index
    reader = GraphRetriever(KnowledgeIndex.open(folder, RandomVectors(), read_only=True, progress=False), cache=None)
    reader.retrieve(asked[0], embedding=queries[0])
    costs: dict[str, list[float]] = {"add": [], "question after add": [], "refresh": [], "delete": []}
    for at, new in enumerate(documents(CHANGES, seed=9)):
        document = Document(f"n{at}", new.text, new.title, new.metadata)

        def ask(by: GraphRetriever, at: int = at) -> None:
            by.retrieve(asked[at], embedding=queries[at])

        def refresh(at: int = at) -> None:
            reader.refresh()
            ask(reader, at)

        costs["add"].append(milliseconds(lambda document=document: index.add([document])))  # type: ignore[misc]
        costs["question after add"].append(milliseconds(lambda: ask(retriever)))
        costs["refresh"].append(milliseconds(refresh))
        costs["delete"].append(milliseconds(lambda document=document: index.delete(document.id)))  # type: ignore[misc]
    reader.index.close()
    return costs


# -- the report


def report(rows: list[dict[str, Any]]) -> str:
    """Return the tables in Markdown."""
    machine = f"{platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    tables: list[dict[str, Callable[[Any], str]]] = [
        {
            "build (CPU)": lambda row: "–" if row["build"] is None else f"{row['build']:,.0f} s",
            "open": lambda row: f"{row['open']:,.0f} ms",
            "first question": lambda row: f"{row['first question']:,.0f} ms",
            "memory": lambda row: f"{row['memory'] / 1e6:,.0f} MB",
            "disk": lambda row: f"{row['disk'] / 1e6:,.0f} MB",
        },
        {
            "question p50": lambda row: f"{row['question']:.1f} ms",
            "p95": lambda row: f"{row['question p95']:.1f} ms",
            **{name: lambda row, name=name: f"{row['stages'][name]:.1f}" for name in STAGES},  # type: ignore[misc]
            "FAISS flat": lambda row: f"{row['flat search']:.1f} ms",
            "ratio": lambda row: f"{row['question'] / row['flat search']:.2f}",
        },
        {
            "first filter": lambda row: f"{row['first filter']:,.0f} ms",
            "the same filter": lambda row: f"{row['filter']:,.0f} ms",
            "a new filter": lambda row: f"{row['new filter']:,.0f} ms",
            "ratio to a question without one": lambda row: ", ".join(
                f"{row[name] / row['question']:.2f}" for name in ("filter", "new filter")
            ),
        },
        {
            "add one": lambda row: f"{row['change']['add']:,.0f} ms",
            "question after it": lambda row: f"{row['change']['question after add']:,.0f} ms",
            "refresh a reader and ask": lambda row: f"{row['change']['refresh']:,.0f} ms",
            "delete one": lambda row: f"{row['change']['delete']:,.0f} ms",
            "first change": lambda row: f"{row['first change']:,.0f} ms",
        },
    ]
    shown = [
        _table(
            ("passages", *columns), [(f"{row['size']:,}", *(show(row) for show in columns.values())) for row in rows]
        )
        for columns in tables
    ]
    day = datetime.now(tz=timezone.utc).date().isoformat()
    return "\n".join([f"{day}, {machine}.\n", *shown])


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, ("---:",) * len(header), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    """Measure all sizes, each in a new process, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sizes", nargs="*", type=int, default=SIZES)
    parser.add_argument("--keep", type=Path, help="folder for the indexes")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.sizes[0], options.keep / str(options.sizes[0]))))
        return
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for size in options.sizes:
            command = [sys.executable, __file__, "--one", "--keep", str(folder), str(size)]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)  # noqa: S603 - this file
            rows.append(json.loads(done.stdout.splitlines()[-1]))
            print(report(rows[-1:]), flush=True)
    page = DOCS / "growth.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(MARKS[0])
    after = rest.partition(MARKS[1])[2]
    page.write_text(f"{before}{MARKS[0]}{report(rows)}{MARKS[1]}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
