"""Recall of the default retriever compared with plain search: ``make bench-quality``.

Reads datasets from ``../shared/data`` (or ``SHARED``): folders with ``corpus.jsonl`` and ``questions.jsonl``, and
``docs_dev``, real documentation in its original markup. The settings are the same for all datasets. "untitled" is a set
without its titles. The last rows use keyword search alone for facts (``embed_facts=False``), the default for embedders
that may cost money.

``quality.py wordllama musique_train:untitled,docs_dev`` measures the given embedders and sets.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tarfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from graphrag_core import Combined, Document, GraphRetriever, KnowledgeExtractor, KnowledgeIndex, SentenceExtractor
from graphrag_core.documents import load_documents
from graphrag_core.embedders import Onnx, WordLlama

SHARED = Path(os.environ.get("SHARED", Path(__file__).parents[2] / "shared"))
SETS = ("musique_train", "hotpotqa_train", "2wiki_train", "scifact_train")
METHODS: dict[str, dict[str, Any]] = {
    "vector": {"method": "vector"},
    "BM25": {"method": "keyword"},
    "vector+BM25": {"use_graph": False},
    "graph": {"method": "graph"},
    "hybrid": {},
}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def model_of(embedder: str) -> WordLlama | Onnx:
    return WordLlama() if embedder == "wordllama" else Onnx(SHARED / "models" / "minilm")


def measure(
    name: str, embedder: str, *, triples: bool = False, embed_facts: bool | None = None, titled: bool = True
) -> None:
    folder = SHARED / "data" / name
    model = model_of(embedder)
    extractor = Combined(SentenceExtractor(), KnowledgeExtractor(key="triples")) if triples else SentenceExtractor()
    with KnowledgeIndex(model, extractor=extractor, embed_facts=embed_facts) as index:
        index.add(
            Document(
                row["id"],
                row["text"],
                row["title"] if titled else "",
                {"triples": row.get("triples", [])} if triples else {},
            )
            for row in lines(folder / "corpus.jsonl")
        )
        retriever = GraphRetriever(index, k=10)
        questions = lines(folder / "questions.jsonl")
        shown = embedder if embed_facts is None else f"{embedder}, keyword facts"
        for label, settings in METHODS.items():
            found = []
            for row in questions:
                hits = retriever.retrieve(row["question"], **settings).hits
                ranked = list(dict.fromkeys(hit.chunk.document_id for hit in hits))
                gold = set(row["gold"])
                share = [len(gold & set(ranked[:k])) / len(gold) for k in (2, 5, 10)]
                found.append([*share, float(gold <= set(ranked[:5]))])
            row_ = " ".join(f"{value:7.1f}" for value in 100 * np.mean(found, axis=0))
            shown_name = name + (" + triples" if triples else "") + ("" if titled else ", untitled")
            print(f"{shown_name:<26}{shown:<22}{label:<13}{row_}", flush=True)


def main() -> None:
    embedders = sys.argv[1].split(",") if len(sys.argv) > 1 else ["wordllama", "minilm"]
    everything = len(sys.argv) <= 2
    sets = [*SETS, *(f"{name}:untitled" for name in SETS), "docs_dev"] if everything else sys.argv[2].split(",")
    print(f"{'set':<26}{'embedder':<22}{'method':<13}    R@2     R@5    R@10  all@5")
    for embedder in embedders:
        for name in sets:
            if name.startswith("docs_"):
                documentation(name, embedder)
            else:
                measure(name.removesuffix(":untitled"), embedder, titled=not name.endswith(":untitled"))
    if everything and "minilm" in embedders:
        measure("musique_train", "minilm", triples=True)
        for name in SETS:
            measure(name, "minilm", embed_facts=False)
    if everything:
        chinese()


def documentation(name: str, embedder: str) -> None:
    """Print the share of evidence quotes found among the first 5 and 10 passages, by type of question."""
    folder = SHARED / "data" / name
    found_in = matcher(folder / "match.py")
    questions = lines(folder / "questions.jsonl")
    types = [*dict.fromkeys(row["type"] for row in questions), "all"]
    print(f"{'set':<12}{'embedder':<12}{'method':<13}" + "".join(f"{f'{kind} @5/@10':>18}" for kind in types))
    with TemporaryDirectory() as unpacked:
        with tarfile.open(folder / "corpus.tar.gz") as archive:
            archive.extractall(unpacked, filter="data")
        with KnowledgeIndex(model_of(embedder)) as index:
            index.add(load_documents([Path(unpacked, "corpus")]))
            retriever = GraphRetriever(index, k=10)
            for label, settings in METHODS.items():
                recalls = defaultdict(list)
                for row in questions:
                    texts = [hit.chunk.text for hit in retriever.retrieve(row["question"], **settings).hits]
                    ranks = [
                        next((i for i, text in enumerate(texts) if found_in(evidence["quote"], text)), len(texts))
                        for evidence in row["evidence"]
                    ]
                    recall = [np.mean([rank < k for rank in ranks]) for k in (5, 10)]
                    recalls[row["type"]].append(recall)
                    recalls["all"].append(recall)
                cells = ("/".join(f"{value:.1f}" for value in 100 * np.mean(recalls[kind], axis=0)) for kind in types)
                print(f"{name:<12}{embedder:<12}{label:<13}" + "".join(f"{cell:>18}" for cell in cells), flush=True)


def matcher(path: Path) -> Callable[[str, str], bool]:
    """Return the function that says whether a text contains a quote, from a set's own file."""
    spec = importlib.util.spec_from_file_location("match", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda quote, text: bool(module.found(quote, text))


def chinese() -> None:
    """Print the keyword recall of Chinese questions."""
    folder = SHARED / "data" / "xquad_zh"
    with KnowledgeIndex(WordLlama()) as index:
        index.add(Document(row["id"], row["text"], row.get("title", "")) for row in lines(folder / "corpus.jsonl"))
        retriever = GraphRetriever(index, k=5)
        questions = lines(folder / "questions.jsonl")
        for label in ("keyword", "hybrid"):
            found = [
                len(
                    set(row["gold"])
                    & {h.chunk.document_id for h in retriever.retrieve(row["question"], method=label).hits}
                )
                / len(row["gold"])
                for row in questions
            ]
            print(f"{'xquad_zh':<26}{'wordllama':<22}{label:<13}{'':7} {100 * np.mean(found):7.1f}")


if __name__ == "__main__":
    main()
