"""CPU time of one question through LangChain at 5,000 documents: ``make bench-latency``.

The baseline is a bare lookup: embed the question, search FAISS flat, return five documents. A question is a multiple of
it; a question with a filter is a multiple of a hybrid question without one. Documents and questions are those of
MuSiQue and 2Wiki in ``../shared/data``. Other sizes take synthetic documents:
``make bench-latency SIZES="20000 100000"``.

An older commit, which is unpacked into ``.oracles``, answers the same questions in a process of its own: both take
turns with every question, the kinds take turns in both, and medians are compared. BLAS has one thread.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

BEFORE = "d43a432"
ROOT = Path(__file__).parents[1]
SIZE, K = 5_000, 5
GROUPS = [f"g{number}" for number in range(30)]
QUESTIONS: dict[str, tuple[dict[str, Any], float]] = {  # settings, and the most part of the time at the older commit
    "vector": ({"method": "vector"}, 0.7),
    "vector + BM25": ({"use_graph": False}, 0.7),
    "hybrid": ({}, 0.65),
}
MOST_FILTERED = 1.2  # times a hybrid question without a filter

_random = random.Random(1)

FILTERS: dict[str, Callable[[], dict[str, Any]]] = {
    "equality": lambda: {"year": _random.randrange(1900, 2100)},
    "range": lambda: {"year": {"$gte": 1900 + _random.random() * 100}},
    "a tenth": lambda: {"year": {"$gte": (start := 1900 + _random.random() * 180), "$lt": start + 20}},
    "list": lambda: {"groups": {"$in": _random.sample(GROUPS, 3)}},
    "ids": lambda: {"__id__": {"$in": [str(_random.randrange(SIZE)) for _ in range(50)]}},
}


def texts_and_questions(size: int) -> tuple[list[dict[str, Any]], list[str]]:
    """Return documents and questions: real ones, or synthetic ones of another number."""
    from quality import load  # noqa: PLC0415 - the older commit gets the documents from this one
    from synthetic import documents as synthetic_documents  # noqa: PLC0415

    if size == SIZE:
        rows = [*load("musique_train").documents, *load("2wiki_train").documents][:SIZE]
        questions = [question["question"] for question in load("musique_train").questions]
    else:
        rows = [*synthetic_documents(size)]
        asked = _random.sample(rows, 100)
        questions = [f"Which {w[3]} of {row.title} was {w[5]}?" for row in asked for w in [row.text.split()]]
    return [{"title": row.title, "text": row.text} for row in rows], questions


# -- the process of one commit: reads documents and then questions, writes the CPU time of each kind of question


def answer() -> None:
    import faiss  # noqa: PLC0415 - the process that compares needs none of them
    from langchain_core.documents import Document  # noqa: PLC0415

    from graphrag_core.embedders import WordLlama  # noqa: PLC0415
    from langchain_graphrag import GraphRAGRetriever  # noqa: PLC0415

    faiss.omp_set_num_threads(1)
    own = [
        Document(
            id=str(at),
            page_content=row["text"],
            metadata={"title": row["title"], "year": 1900 + at % 200, "groups": _random.sample(GROUPS, 3)},
        )
        for at, row in enumerate(json.loads(sys.stdin.readline()))
    ]
    kinds = work(own, GraphRAGRetriever.from_documents(own, WordLlama(), k=K), WordLlama())
    for line in sys.stdin:
        question, times = json.loads(line), {}
        for name, run in kinds.items():
            start = time.process_time()
            run(question)
            times[name] = 1000 * (time.process_time() - start)
        print(json.dumps(times), flush=True)


def work(own: list[Any], retriever: Any, model: Any) -> dict[str, Callable[[str], object]]:
    """Return what is measured, by name. No question is asked twice, so that nothing comes from the cache."""
    import faiss  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415

    flat, number = faiss.IndexFlatIP(model.dim), count()
    flat.add(np.asarray(model.embed_documents([document.page_content for document in own]), np.float32))

    def lookup(question: str) -> list[Any]:
        _, found = flat.search(np.asarray([model.embed_query(question)], np.float32), K)
        return [own[at] for at in found[0].tolist()]

    def ask(question: str, **settings: Any) -> object:
        return retriever.invoke(f"{question} ({next(number)})", **settings)

    kinds: dict[str, Callable[[str], object]] = {"bare lookup": lookup}
    for name, (settings, _) in QUESTIONS.items():
        kinds[name] = lambda question, settings=settings: ask(question, **settings)  # type: ignore[misc]
    for name, make in FILTERS.items():
        kinds[f"new filter, {name}"] = lambda question, make=make: ask(question, filter=make())  # type: ignore[misc]
    kinds["the same filter"] = lambda question: ask(question, filter={"year": {"$gte": 1950, "$lt": 1970}})
    return kinds


# -- the process that compares


def unpacked(commit: str) -> Path:
    """Return a folder with the files of a commit."""
    folder = ROOT / ".oracles" / commit
    if not folder.exists():
        folder.mkdir(parents=True)
        command = f"git archive {commit} | tar --extract --directory {shlex.quote(str(folder))}"
        subprocess.run(command, cwd=ROOT, check=True, shell=True)  # noqa: S602 - names of this file
    return folder


class Process:
    """The process that answers questions with the package of a folder."""

    def __init__(self, folder: Path, rows: list[dict[str, Any]]) -> None:
        path = os.pathsep.join([str(folder / "core"), str(folder)])
        self._run = subprocess.Popen(  # noqa: S603 - this file
            [sys.executable, __file__, "--answer"],
            env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._send(rows)

    def _send(self, value: object) -> None:
        assert self._run.stdin is not None
        self._run.stdin.write(f"{json.dumps(value)}\n")
        self._run.stdin.flush()

    def ask(self, question: str) -> dict[str, float]:
        """Return the CPU time of each kind of question."""
        assert self._run.stdout is not None
        self._send(question)
        times: dict[str, float] = json.loads(self._run.stdout.readline())
        return times


def medians(questions: list[str], processes: list[Process]) -> Iterator[dict[str, float]]:
    """Yield for each process the median CPU time of each kind, in milliseconds."""
    for question in questions[:K]:  # the first ones load what all need
        for process in processes:
            process.ask(question)
    times = [[process.ask(question) for process in processes] for question in questions]
    for own in zip(*times, strict=True):
        yield {name: statistics.median(one[name] for one in own) for name in own[0]}


def measure(size: int) -> None:
    """Print the times at one size."""
    rows, questions = texts_and_questions(size)
    found, before = medians(questions, [Process(ROOT, rows), Process(unpacked(BEFORE), rows)])
    print(f"{len(rows):,} documents, CPU time of one question, medians, and at {BEFORE}")
    base, hybrid = found["bare lookup"], found["hybrid"]
    for name, took in found.items():
        shown = f"{name:<22}{took:6.2f} ms{before[name]:8.2f} ms"
        if name in QUESTIONS:
            part = f"{took / before[name]:.2f} of the time before (at most {QUESTIONS[name][1]:g})"
            print(f"{shown}, {part}, {took / base:.1f} times a bare lookup")
        elif name == "bare lookup":
            print(shown)
        else:
            print(f"{shown}, {took / hybrid:.2f} times hybrid without a filter (at most {MOST_FILTERED:g})")


def main() -> None:
    for size in [int(size) for size in sys.argv[1:]] or [SIZE]:
        measure(size)


if __name__ == "__main__":
    answer() if sys.argv[1:] == ["--answer"] else main()
