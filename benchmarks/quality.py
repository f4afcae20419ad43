"""Recall of the default retriever compared with plain search: ``make bench-quality``.

Reads datasets from ``../shared/data`` (or ``SHARED``): folders with ``corpus.jsonl`` and ``questions.jsonl``. The
settings are the same for all datasets. The last rows use keyword search alone for facts (``embed_facts=False``),
the default for embedders that may cost money.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from graphrag_core import Combined, Document, GraphRetriever, KnowledgeExtractor, KnowledgeIndex, SentenceExtractor
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


def measure(name: str, embedder: str, *, triples: bool = False, embed_facts: bool | None = None) -> None:
    folder = SHARED / "data" / name
    model = WordLlama() if embedder == "wordllama" else Onnx(SHARED / "models" / "minilm")
    extractor = Combined(SentenceExtractor(), KnowledgeExtractor(key="triples")) if triples else SentenceExtractor()
    with KnowledgeIndex(model, extractor=extractor, embed_facts=embed_facts) as index:
        index.add(
            Document(row["id"], row["text"], row["title"], {"triples": row.get("triples", [])} if triples else {})
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
            print(f"{name + (' + triples' if triples else ''):<26}{shown:<22}{label:<13}{row_}", flush=True)


def main() -> None:
    embedders = sys.argv[1].split(",") if len(sys.argv) > 1 else ["wordllama", "minilm"]
    sets = sys.argv[2].split(",") if len(sys.argv) > 2 else list(SETS)
    print(f"{'set':<26}{'embedder':<22}{'method':<13}    R@2     R@5    R@10  all@5")
    for embedder in embedders:
        for name in sets:
            measure(name, embedder)
        if len(sys.argv) <= 2 and embedder == "minilm":
            measure("musique_train", embedder, triples=True)
            for name in sets:
                measure(name, embedder, embed_facts=False)
    if len(sys.argv) <= 2:
        chinese()


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
