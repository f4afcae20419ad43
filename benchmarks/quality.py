"""Recall of the default retriever compared with plain search: ``make bench-quality``.

Reads datasets from ``../shared/data`` (or ``SHARED``): questions with gold passages, or with evidence quotes from real
documents. A quote counts if one passage holds three quarters of its word pairs, a long one by the share of its word
pairs that the passages hold together. The settings are the same for all datasets. The word behind a colon in a name:

- ``untitled``: without titles;
- ``triples``: the graph has the triples of the set too;
- ``cut``: LangChain's ``RecursiveCharacterTextSplitter`` cuts documents into 1,000 characters before they are added;
- ``nodes``: LlamaIndex's ``SentenceSplitter`` does.

Beside every number is its 95 % bootstrap interval. Below the hybrid method is its difference to vector+BM25 on the same
questions, with a paired interval: if it contains 0, the difference may be chance. A run of several sets ends with the
means of groups of sets.

``quality.py wordllama musique_train:untitled,docs_dev:cut`` measures the given embedders and sets.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from oracles_record import documents_of, lines

from graphrag_apps.compare import bootstrap_interval
from graphrag_core import (
    Chunk,
    Combined,
    Document,
    GraphRetriever,
    KnowledgeExtractor,
    KnowledgeIndex,
    SentenceExtractor,
)
from graphrag_core.embedders import Onnx, WordLlama
from graphrag_core.ports import Embedder

SHARED = Path(os.environ.get("SHARED", Path(__file__).parents[2] / "shared"))
WIKIPEDIA = ("musique_train", "hotpotqa_train", "2wiki_train")
GROUPS = {
    "documents": ("docs_dev", "docs_dev2", "chroma_chunking", "emanual_qa", "privacy_qa"),
    "cut by LangChain": ("docs_dev:cut", "docs_dev2:cut"),
    "cut by LlamaIndex": ("docs_dev:nodes", "docs_dev2:nodes"),
    "passages": (*WIKIPEDIA, *(f"{name}:untitled" for name in WIKIPEDIA), "scifact_train", "xquad_en", "xquad_zh"),
}
SETS = (*chain(*GROUPS.values()), "scifact_train:untitled", "musique_train:triples")
VARIANTS = ("", "untitled", "triples", "cut", "nodes")
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
ENOUGH = 0.75  # of the word pairs of a quote
LONG = 60  # word pairs; a passage may end within a quote of so many
Pairs = frozenset[tuple[str, str]]
Recalls = npt.NDArray[np.float64]
"""One row for each question, one column for each of ``COLUMNS``."""


@dataclass(frozen=True)
class Dataset:
    """Documents, and questions with gold documents or evidence quotes."""

    name: str
    documents: Sequence[Document]
    questions: Sequence[Mapping[str, Any]]

    @property
    def variant(self) -> str:
        """The word behind the colon in the name."""
        return self.name.partition(":")[2]


def load(name: str) -> Dataset:
    """Read a set; the word behind a colon in the name is one of ``VARIANTS``."""
    base, _, variant = name.partition(":")
    if variant not in VARIANTS:
        sys.exit(f"{name}: behind the colon use one of {', '.join(VARIANTS[1:])}")
    folder = SHARED / "data" / base
    return Dataset(name, documents_of(folder, variant), lines(folder / "questions.jsonl"))


def family(name: str) -> str:
    """Return what variants of the same questions have in common."""
    base = name.partition(":")[0].partition("@")[0]
    return base if base.startswith("docs_") else base.partition("_")[0]


# -- what a question finds


def recall(question: Mapping[str, Any], chunks: Sequence[Chunk]) -> list[float]:
    """Return the ``COLUMNS`` of one question for the passages that were retrieved, best first."""
    at = {k: np.array(shares(question, chunks, k)) for k in (2, 5, DEPTH)}
    return [*(float(np.mean(found)) for found in at.values()), float(np.all(at[5] >= ENOUGH))]


def shares(question: Mapping[str, Any], chunks: Sequence[Chunk], k: int) -> list[float]:
    """Return how much of each gold document or quote the first ``k`` documents or passages hold."""
    if "gold" in question:
        first = list(dict.fromkeys(chunk.document_id for chunk in chunks))[:k]
        return [float(gold in first) for gold in dict.fromkeys(question["gold"])]
    texts = [pairs_of(chunk.text) for chunk in chunks[:k]]
    return [share_of_quote(pairs_of(evidence["quote"]), texts) for evidence in question["evidence"]]


def is_answer(question: Mapping[str, Any], chunk: Chunk) -> bool:
    """Return whether a passage belongs to the answer; of a long quote it needs to hold a part."""
    if "gold" in question:
        return chunk.document_id in question["gold"]
    text = pairs_of(chunk.text)
    quotes = [pairs_of(evidence["quote"]) for evidence in question["evidence"]]
    return any(len(quote & text) >= ENOUGH * min(len(quote), LONG) for quote in quotes)


def share_of_quote(quote: Pairs, texts: Sequence[Pairs]) -> float:
    """Return 1 if a text holds enough of a quote, else 0; of a long quote the share that the texts hold together."""
    if len(quote) >= LONG:
        return len(quote.intersection(chain(*texts))) / len(quote)
    return float(any(len(quote & text) >= ENOUGH * len(quote) for text in texts))


@cache
def pairs_of(text: str) -> Pairs:
    """Return the adjacent words of a text without markup, by the rule of docs_dev."""
    return frozenset(matching().pairs(text))


@cache
def matching() -> Any:
    spec = importlib.util.spec_from_file_location("match", SHARED / "data" / "docs_dev" / "match.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- how a set is indexed


def index_of(dataset: Dataset, embedder: str) -> KnowledgeIndex:
    """Return an index in memory with the documents of a set, added as its variant says."""
    model = model_of(embedder)
    if dataset.variant == "cut":
        return cut_by_langchain(dataset.documents, model)
    if dataset.variant == "nodes":
        return cut_by_llama_index(dataset.documents, model)
    triples = dataset.variant == "triples"
    extractor = Combined(SentenceExtractor(), KnowledgeExtractor(key="triples")) if triples else SentenceExtractor()
    index = KnowledgeIndex(model, extractor=extractor, progress=False)
    index.add(dataset.documents)
    return index


def cut_by_langchain(documents: Sequence[Document], model: Embedder) -> KnowledgeIndex:
    from langchain_core.documents import Document as Page  # noqa: PLC0415 - other sets need no framework
    from langchain_text_splitters import RecursiveCharacterTextSplitter  # noqa: PLC0415

    from langchain_graphrag import GraphRAGRetriever  # noqa: PLC0415

    pages = [Page(document.text, metadata={"source": document.id}) for document in documents]
    pieces = RecursiveCharacterTextSplitter(chunk_size=1000, chunk_overlap=0).split_documents(pages)
    return GraphRAGRetriever.from_documents(pieces, model).index


def cut_by_llama_index(documents: Sequence[Document], model: Embedder) -> KnowledgeIndex:
    from llama_index.core import Document as Page  # noqa: PLC0415 - other sets need no framework
    from llama_index.core.node_parser import SentenceSplitter  # noqa: PLC0415

    from llama_graphrag import GraphRAGRetriever, LocalEmbedding  # noqa: PLC0415

    nodes = SentenceSplitter().get_nodes_from_documents([Page(text=one.text, doc_id=one.id) for one in documents])
    return GraphRAGRetriever.from_nodes(nodes, LocalEmbedding(model)).index


def model_of(embedder: str) -> WordLlama | Onnx:
    return WordLlama() if embedder == "wordllama" else Onnx(SHARED / "models" / "minilm")


def measure(name: str, embedder: str) -> dict[str, Recalls]:
    """Index a set, ask its questions with every method, print the recall and return it by method."""
    dataset = load(name)
    with index_of(dataset, embedder) as index:
        retriever = GraphRetriever(index, k=DEPTH, cache=False)
        recalls = {
            label: np.array(
                [
                    recall(row, [hit.chunk for hit in retriever.retrieve(row["question"], **settings).hits])
                    for row in dataset.questions
                ]
            )
            for label, settings in METHODS.items()
        }
    shown = f"{name.replace(':', ', ')}, {embedder}"
    show(shown, recalls)
    if name.startswith("docs_"):
        kinds = np.array([row["type"] for row in dataset.questions])
        for kind in dict.fromkeys(kinds.tolist()):
            show(f"{shown}: {kind}", {label: recall[kinds == kind] for label, recall in recalls.items()})
    return recalls


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


def show_groups(embedder: str, measured: Mapping[str, Mapping[str, Recalls]]) -> None:
    """Print for each group and method the mean of the sets that were measured."""
    print(f"\nmeans of sets, recall@5 / recall@10, {embedder}")
    print(f"{'':<28}" + "".join(f"{label:<16}" for label in METHODS).rstrip())
    for group, names in GROUPS.items():
        sets = [measured[name] for name in names if name in measured]
        if sets:
            means = [100 * np.mean([recalls[label].mean(axis=0) for recalls in sets], axis=0) for label in METHODS]
            cells = "".join(f"{f'{mean[1]:.1f} / {mean[2]:.1f}':<16}" for mean in means)
            print(f"{f'{group} ({len(sets)} of {len(names)})':<28}{cells.rstrip()}", flush=True)


def main() -> None:
    embedders = sys.argv[1].split(",") if len(sys.argv) > 1 else ["wordllama", "minilm"]
    everything = len(sys.argv) <= 2
    for embedder in embedders:
        measured = {name: measure(name, embedder) for name in (SETS if everything else sys.argv[2].split(","))}
        show_groups(embedder, measured)


if __name__ == "__main__":
    main()
