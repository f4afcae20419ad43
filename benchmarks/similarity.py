"""Cosine similarities of right passages and of foreign questions, by embedder: ``make bench-similarity``.

For the thresholds of the published designs: ``gate.min_score`` of document 001, and ``recogniser.least_similarity`` of
document 000. Each question is asked by vector search. A threshold should let most right passages through, and stop most
of the questions that the collection does not answer, which are those of another set.
"""

from __future__ import annotations

import sys

import numpy as np
from quality import index_of, is_answer, load

from graphrag_core import GraphRetriever

SETS = ("emanual_qa", "privacy_qa", "hotpotqa_train", "musique_train")
EMBEDDERS = ("wordllama", "minilm")
HITS, FOREIGN = 10, 100


def main(embedders: list[str]) -> None:
    print("| embedder | set | best right passage: 10 %, median, 90 % | best of a foreign question: median, 90 % |")
    print("|---|---|---|---|")
    for embedder in embedders:
        every_right, every_foreign = list[float](), list[float]()
        for name, other in zip(SETS, (*SETS[2:], *SETS[:2]), strict=True):
            dataset = load(name)
            with index_of(dataset, embedder) as index:
                retriever = GraphRetriever(index, method="vector", k=HITS, cache=None)
                found = ((question, retriever.retrieve(question["question"]).hits) for question in dataset.questions)
                right = [[hit.score for hit in hits if is_answer(question, hit.chunk)] for question, hits in found]
                best = [max(scores) for scores in right if scores]
                foreign = [
                    retriever.retrieve(question["question"]).hits[0].score
                    for question in load(other).questions[:FOREIGN]
                ]
            show(embedder, name, best, foreign)
            every_right += best
            every_foreign += foreign
        show(embedder, "all", every_right, every_foreign)


def show(embedder: str, name: str, right: list[float], foreign: list[float]) -> None:
    low, middle, high = np.quantile(right, (0.1, 0.5, 0.9))
    print(f"| {embedder} | {name} | {low:.2f}, {middle:.2f}, {high:.2f} | "
          f"{np.median(foreign):.2f}, {np.quantile(foreign, 0.9):.2f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:] or list(EMBEDDERS))
