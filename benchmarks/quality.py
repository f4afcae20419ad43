"""Recall of the default retriever compared with plain search: ``make bench-quality``.

Reads datasets from ``../shared/data`` (or ``SHARED``): folders with ``corpus.jsonl`` and ``questions.jsonl``, and
``docs_dev`` and ``docs_dev2``, real documentation in its original markup, with evidence quotes in place of gold
passages. The settings are the same for all datasets. "untitled" is a set without its titles. The last tables use
keyword search alone for facts (``embed_facts=False``), the default for embedders that may cost money.

Beside every number is its 95 % bootstrap interval. Below the hybrid method is its difference to vector+BM25 on the same
questions, with a paired interval: if it contains 0, the difference may be chance.

``quality.py wordllama musique_train:untitled,docs_dev`` measures the given embedders and sets.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt

from graphrag_core import (
    Chunk,
    Combined,
    Document,
    GraphRetriever,
    KnowledgeExtractor,
    KnowledgeIndex,
    SentenceExtractor,
)
from graphrag_core.documents import load_documents
from graphrag_core.embedders import Onnx, WordLlama
from graphrag_core.evaluation import bootstrap_interval

SHARED = Path(os.environ.get("SHARED", Path(__file__).parents[2] / "shared"))
MULTI_HOP = ("musique_train", "hotpotqa_train", "2wiki_train", "scifact_train")
SETS = (*MULTI_HOP, *(f"{name}:untitled" for name in MULTI_HOP), "docs_dev", "docs_dev2", "xquad_en", "xquad_zh")
PLAIN = "vector+BM25"
METHODS: dict[str, dict[str, Any]] = {
    "vector": {"method": "vector"},
    "BM25": {"method": "keyword"},
    PLAIN: {"use_graph": False},
    "graph": {"method": "graph"},
    "hybrid": {},
}
DEPTH = 10
COLUMNS = ("recall@2", "recall@5", "recall@10", "all@5")
Recalls = npt.NDArray[np.float64]
"""One row for each question, one column for each of ``COLUMNS``."""


@dataclass(frozen=True)
class Dataset:
    """Documents, questions, and a function that returns the rank of each gold passage or quote of a question."""

    name: str
    documents: Sequence[Document]
    questions: Sequence[Mapping[str, Any]]
    ranks: Callable[[Mapping[str, Any], Sequence[Chunk]], list[int]]

    def recall(self, question: Mapping[str, Any], chunks: Sequence[Chunk]) -> list[float]:
        """Return the ``COLUMNS`` of one question for the passages that were retrieved, best first."""
        ranks = np.array(self.ranks(question, chunks))
        return [*(float(np.mean(ranks < k)) for k in (2, 5, DEPTH)), float(np.all(ranks < 5))]


def load(name: str, *, triples: bool = False) -> Dataset:
    """Read a set; "name:untitled" is the set without its titles."""
    folder = SHARED / "data" / name.removesuffix(":untitled")
    questions = lines(folder / "questions.jsonl")
    if (folder / "corpus.tar.gz").exists():
        with TemporaryDirectory() as unpacked:
            with tarfile.open(folder / "corpus.tar.gz") as archive:
                archive.extractall(unpacked, filter="data")
            documents = list(load_documents([Path(unpacked, "corpus")]))
        return Dataset(name, documents, questions, ranks_of_quotes(SHARED / "data" / "docs_dev" / "match.py"))
    rows = lines(folder / "corpus.jsonl")
    titled = not name.endswith(":untitled")
    documents = [
        Document(
            row["id"],
            row["text"],
            row.get("title", "") if titled else "",
            {"triples": row.get("triples", [])} if triples else {},
        )
        for row in rows
    ]
    return Dataset(name, documents, questions, ranks_of_documents)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def ranks_of_documents(question: Mapping[str, Any], chunks: Sequence[Chunk]) -> list[int]:
    found = list(dict.fromkeys(chunk.document_id for chunk in chunks))
    return [found.index(gold) if gold in found else DEPTH for gold in dict.fromkeys(question["gold"])]


def ranks_of_quotes(path: Path) -> Callable[[Mapping[str, Any], Sequence[Chunk]], list[int]]:
    """Return a function that ranks evidence, with the rule of docs_dev for what contains a quote."""
    spec = importlib.util.spec_from_file_location("match", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    contains = cache(module.found)

    def ranks(question: Mapping[str, Any], chunks: Sequence[Chunk]) -> list[int]:
        quotes = [evidence["quote"] for evidence in question["evidence"]]
        return [next((at for at, c in enumerate(chunks) if contains(quote, c.text)), DEPTH) for quote in quotes]

    return ranks


def model_of(embedder: str) -> WordLlama | Onnx:
    return WordLlama() if embedder == "wordllama" else Onnx(SHARED / "models" / "minilm")


def measure(name: str, embedder: str, *, triples: bool = False, embed_facts: bool | None = None) -> None:
    """Index a set, ask its questions with every method, and print the recall."""
    dataset = load(name, triples=triples)
    extractor = Combined(SentenceExtractor(), KnowledgeExtractor(key="triples")) if triples else SentenceExtractor()
    with KnowledgeIndex(model_of(embedder), extractor=extractor, embed_facts=embed_facts, progress=False) as index:
        index.add(dataset.documents)
        retriever = GraphRetriever(index, k=DEPTH, cache=False)
        recalls = {
            label: np.array(
                [
                    dataset.recall(row, [hit.chunk for hit in retriever.retrieve(row["question"], **settings).hits])
                    for row in dataset.questions
                ]
            )
            for label, settings in METHODS.items()
        }
    shown = name.replace(":", ", ") + (" + triples" if triples else "")
    shown += f", {embedder}" + (", keyword facts" if embed_facts is False else "")
    show(shown, recalls)
    if name.startswith("docs_"):
        kinds = np.array([row["type"] for row in dataset.questions])
        for kind in dict.fromkeys(kinds.tolist()):
            show(f"{shown}: {kind}", {label: recall[kinds == kind] for label, recall in recalls.items()})


def show(title: str, recalls: Mapping[str, Recalls]) -> None:
    """Print a table: a row for each method, the mean of each column in percent, and its interval."""
    print(f"\n{title}, {len(recalls[PLAIN])} questions")
    print(f"{'':<18}" + "".join(f"{column:<22}" for column in COLUMNS).rstrip())
    for label, recall in recalls.items():
        print(f"{label:<18}" + "".join(f"{cell(column):<22}" for column in recall.T).rstrip())
    difference = recalls["hybrid"] - recalls[PLAIN]
    print(f"{'  to ' + PLAIN:<18}" + "".join(f"{cell(c, '+'):<22}" for c in difference.T).rstrip(), flush=True)


def cell(values: Recalls, sign: str = "") -> str:
    """Return a mean and its interval, in percent; "+" for a difference."""
    low, high = bootstrap_interval(values)
    mean, low, high = (100 * float(value) + 0.0 for value in (values.mean(), low, high))
    return f"{mean:{sign}5.1f} [{low:{sign}.1f}, {high:{sign}.1f}]"


def main() -> None:
    embedders = sys.argv[1].split(",") if len(sys.argv) > 1 else ["wordllama", "minilm"]
    everything = len(sys.argv) <= 2
    for embedder in embedders:
        for name in SETS if everything else sys.argv[2].split(","):
            measure(name, embedder)
    if everything and "minilm" in embedders:
        measure("musique_train", "minilm", triples=True)
        for name in MULTI_HOP:
            measure(name, "minilm", embed_facts=False)


if __name__ == "__main__":
    main()
