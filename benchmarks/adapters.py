"""Overhead of the adapters, and whether their rankings equal the core's: ``make bench-adapters``.

The overhead is the adapter's CPU time beyond the core's for the same question, as a share of the core's, at 10,000
chunks, with precomputed vectors and no result cache. Core and adapter alternate; the median of the pairs is
printed. Rankings are compared on every question of ``../shared/data/2wiki_train``, if it is there. Importing an adapter
is compared with importing what it needs of its framework, in fresh processes that alternate; the CPU time of
``hybrid-graphrag query`` on the index of ``docs`` is that of the whole process.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from synthetic import ReadyVectors, documents

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.embedders import WordLlama
from langchain_graphrag import GraphRAGRetriever as LangChainRetriever
from llama_graphrag import GraphRAGRetriever as LlamaRetriever

COUNT = int(os.environ.get("CHUNKS", "10000"))
REPEATS = int(os.environ.get("REPEATS", "300"))
SHARED = Path(os.environ.get("SHARED", Path(__file__).parents[2] / "shared"))
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""Of child processes: modules are compiled once, like those of an installed package."""
Ask = Callable[[str], list[str]]
"""From a question to the ids of the hits."""


def langchain(index: KnowledgeIndex) -> dict[str, Ask]:
    retriever = LangChainRetriever(index=index, cache=None)
    loop = asyncio.new_event_loop()
    return {
        "LangChain invoke": lambda question: [str(d.id) for d in retriever.invoke(question)],
        "LangChain ainvoke": lambda question: [str(d.id) for d in loop.run_until_complete(retriever.ainvoke(question))],
    }


def llama(index: KnowledgeIndex) -> dict[str, Ask]:
    retriever = LlamaRetriever(index, cache=None)
    loop = asyncio.new_event_loop()
    return {
        "LlamaIndex retrieve": lambda question: [n.node_id for n in retriever.retrieve(question)],
        "LlamaIndex aretrieve": lambda q: [n.node_id for n in loop.run_until_complete(retriever.aretrieve(q))],
    }


ADAPTERS: list[Callable[[KnowledgeIndex], dict[str, Ask]]] = [langchain, llama]
"""From an index to retrievers of an adapter; each must return what the core returns."""


def core(index: KnowledgeIndex) -> Ask:
    retriever = GraphRetriever(index, cache=None)
    return lambda question: [hit.chunk.id for hit in retriever.retrieve(question).hits]


def overhead() -> None:
    with KnowledgeIndex(ReadyVectors(), chunker=None, progress=False) as index:
        index.add(documents(COUNT))
        questions = [f"What is said of {d.title} and {d.text.split('.')[0][-40:]}?" for d in documents(REPEATS)]
        plain = core(index)
        for make in ADAPTERS:
            for name, ask in make(index).items():
                alone, through = _alternating(plain, ask, questions)
                more = statistics.median(t - a for a, t in zip(alone, through, strict=True))
                usual = statistics.median(alone)
                print(
                    f"{name:<22}{100 * more / usual:>6.1f} % beyond the core's {1e3 * usual:.2f} ms "
                    f"({1e3 * more:.2f} ms; at most 15 %)",
                    flush=True,
                )


def _alternating(first: Ask, second: Ask, questions: list[str]) -> tuple[list[float], list[float]]:
    times: tuple[list[float], list[float]] = ([], [])
    for question in questions[:20]:
        assert first(question) == second(question), question
    gc.disable()
    try:
        for number, question in enumerate(questions):
            pair = [(0, first), (1, second)]
            for which, ask in pair if number % 2 else pair[::-1]:
                start = time.process_time()
                ask(question)
                times[which].append(time.process_time() - start)
            gc.collect(0)
    finally:
        gc.enable()
    return times


def imports() -> None:
    """Print how much longer importing an adapter takes than importing what it needs of its framework."""
    pairs = {"langchain_graphrag": "langchain_core.retrievers", "llama_graphrag": "llama_index.core"}
    times: dict[str, list[tuple[float, ...]]] = {}
    for _ in range(11):
        for name in (*pairs, *pairs.values()):
            start = "import time; wall, cpu = time.perf_counter(), time.process_time(); "
            code = f"{start}import {name}; print(time.perf_counter() - wall, time.process_time() - cpu)"
            child = [sys.executable, "-c", code]
            out = subprocess.run(child, env=ENVIRONMENT, check=True, capture_output=True, text=True)  # noqa: S603
            times.setdefault(name, []).append(tuple(map(float, out.stdout.split())))
    for adapter, framework in pairs.items():
        wall, cpu = (
            statistics.median(run[at] for run in times[adapter])
            - statistics.median(run[at] for run in times[framework])
            for at in (0, 1)
        )
        print(f"import {adapter:<20}{wall:>6.2f} s, {cpu:.2f} s of CPU time, beyond {framework} (at most 0.30)")


def command_line() -> None:
    """Print the CPU time of a query on the command line, of a small index."""
    docs = Path(__file__).parents[1] / "docs"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "graphrag_apps"]
        subprocess.run([*command, "index", docs, "--kb", folder, "--quiet"], env=ENVIRONMENT, check=True)  # noqa: S603
        times = []
        for _ in range(11):
            before = os.times()
            query = [*command, "query", "how does the graph work", "--kb", folder]
            subprocess.run(query, env=ENVIRONMENT, check=True, capture_output=True)  # noqa: S603
            after = os.times()
            times.append(after.children_user + after.children_system - before.children_user - before.children_system)
    print(f"hybrid-graphrag query {statistics.median(times):>10.2f} s of CPU time (at most 0.80)", flush=True)


def recall() -> None:
    folder = SHARED / "data" / "2wiki_train"
    if not folder.is_dir():
        print(f"{folder} is missing: recall was not compared")
        return
    corpus, questions = _lines(folder / "corpus.jsonl"), _lines(folder / "questions.jsonl")
    with KnowledgeIndex(WordLlama(), chunker=None, progress=False) as index:
        index.add(Document(row["id"], row["text"], metadata={"title": row["title"]}) for row in corpus)
        ways = {"core": core(index)}
        for make in ADAPTERS:
            ways |= make(index)
        found = {name: [ask(row["question"]) for row in questions] for name, ask in ways.items()}
    for name, answers in found.items():
        share = [
            len(set(row["gold"]) & set(ids[:5])) / len(row["gold"]) for row, ids in zip(questions, answers, strict=True)
        ]
        same = sum(a == b for a, b in zip(answers, found["core"], strict=True))
        print(
            f"{name:<22}recall@5 {100 * statistics.mean(share):.2f}, {same} of {len(questions)} rankings as the core's"
        )


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


if __name__ == "__main__":
    imports()
    command_line()
    overhead()
    recall()
