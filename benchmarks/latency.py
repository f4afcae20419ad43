"""CPU time of one question through LangChain at 5,000 documents: ``make bench-latency``.

The baseline is a bare lookup: embed the question, search FAISS flat, return five documents. A question is a multiple of
it; a question with a filter is a multiple of a hybrid question without one. All kinds take turns, and medians are
compared. Documents and questions are those of MuSiQue and 2Wiki in ``../shared/data``. Other sizes take synthetic
documents: ``make bench-latency SIZES="20000 100000"``.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import faiss
import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from quality import load
from synthetic import documents as synthetic_documents

from graphrag_core.embedders import WordLlama
from langchain_graphrag import GraphRAGRetriever

SIZE, K, ROUNDS = 5_000, 5, 3
GROUPS = [f"g{number}" for number in range(30)]
QUESTIONS: dict[str, tuple[dict[str, Any], float]] = {  # settings, and the most times a bare lookup
    "vector": ({"method": "vector"}, 2.0),
    "vector + BM25": ({"use_graph": False}, 3.5),
    "hybrid": ({}, 10.0),
}
NEW_TARGET, REPEATED_TARGET = 1.5, 1.2  # times a hybrid question without a filter

_random = random.Random(1)
_model = WordLlama()


class AsEmbeddings(Embeddings):
    """WordLlama as LangChain has it: lists of floats."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [list(map(float, vector)) for vector in _model.embed_documents(texts)]

    def embed_query(self, text: str) -> list[float]:
        return list(map(float, _model.embed_query(text)))


FILTERS: dict[str, Callable[[], dict[str, Any]]] = {
    "equality": lambda: {"year": _random.randrange(1900, 2100)},
    "range": lambda: {"year": {"$gte": 1900 + _random.random() * 100}},
    "a tenth": lambda: {"year": {"$gte": (start := 1900 + _random.random() * 180), "$lt": start + 20}},
    "list": lambda: {"groups": {"$in": _random.sample(GROUPS, 3)}},
    "ids": lambda: {"__id__": {"$in": [str(_random.randrange(SIZE)) for _ in range(50)]}},
}


def documents(size: int) -> tuple[list[Document], list[str]]:
    """Return documents and questions: real ones, or synthetic ones of another number."""
    if size == SIZE:
        rows = [*load("musique_train").documents, *load("2wiki_train").documents][:SIZE]
        questions = [question["question"] for question in load("musique_train").questions]
    else:
        rows = [*synthetic_documents(size)]
        asked = _random.sample(rows, 100)
        questions = [f"Which {w[3]} of {row.title} was {w[5]}?" for row in asked for w in [row.text.split()]]
    own = [
        Document(
            id=str(at),
            page_content=row.text,
            metadata={"title": row.title, "year": 1900 + at % 200, "groups": _random.sample(GROUPS, 3)},
        )
        for at, row in enumerate(rows)
    ]
    return own, questions


def work(own: list[Document], retriever: GraphRAGRetriever) -> dict[str, Callable[[str], object]]:
    """Return what is measured, by name. No question is asked twice, so that nothing comes from the cache."""
    embedding, flat, number = AsEmbeddings(), faiss.IndexFlatIP(_model.dim), count()
    flat.add(np.asarray(_model.embed_documents([document.page_content for document in own]), np.float32))

    def lookup(question: str) -> list[Document]:
        _, found = flat.search(np.asarray([embedding.embed_query(question)], np.float32), K)
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


def measured(kinds: dict[str, Callable[[str], object]], questions: list[str]) -> Iterator[tuple[str, float]]:
    """Yield the median CPU time of each kind, in milliseconds."""
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for question in questions[:K]:  # the first ones load what all need
        for run in kinds.values():
            run(question)
    for question in questions * ROUNDS:
        for name, run in kinds.items():
            start = time.process_time()
            run(question)
            times[name].append(1000 * (time.process_time() - start))
    return ((name, statistics.median(own)) for name, own in times.items())


def measure(size: int) -> None:
    """Print the times at one size."""
    own, questions = documents(size)
    retriever = GraphRAGRetriever.from_documents(own, AsEmbeddings(), k=K)
    found = dict(measured(work(own, retriever), questions))
    print(f"{len(own):,} documents, CPU time of one question, medians")
    base, hybrid = found["bare lookup"], found["hybrid"]
    for name, took in found.items():
        if name in QUESTIONS:
            print(f"{name:<22}{took:6.2f} ms, {took / base:5.1f} times a bare lookup (at most {QUESTIONS[name][1]:g})")
        elif name == "bare lookup":
            print(f"{name:<22}{took:6.2f} ms")
        else:
            target = NEW_TARGET if name.startswith("new") else REPEATED_TARGET
            print(f"{name:<22}{took:6.2f} ms, {took / hybrid:5.1f} times hybrid without a filter (at most {target:g})")


def main() -> None:
    faiss.omp_set_num_threads(1)
    for size in [int(size) for size in sys.argv[1:]] or [SIZE]:
        measure(size)


if __name__ == "__main__":
    main()
