"""What each ``score_threshold`` keeps of right and wrong hits: ``make bench-cutoffs``.

Every question of a set is asked with the default settings, on an index with all its answers. A line for each embedder
and each set has the hits among the first five of each question and the share of right ones, then the share of the
right hits and the share of the wrong hits that each cutoff keeps. The last lines are the means of documents and of
Wikipedia.

``cutoffs.py minilm emanual_qa,hotpotqa_train`` measures the given embedder and sets. Without arguments WordLlama has
the documents and the Wikipedia sets, MiniLM the small ones among them: this model takes one text at a time.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from quality import GROUPS, WIKIPEDIA, index_of, is_answer, load

from graphrag_core import GraphRetriever

SETS = {
    "wordllama": (*GROUPS["documents"], *WIKIPEDIA),
    "minilm": ("emanual_qa", "privacy_qa", "hotpotqa_train"),
}
CUTOFFS = tuple(round(tenth / 10, 1) for tenth in range(1, 9))
K = 5


def judged(name: str, embedder: str) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
    """Return the scores of the hits of all questions of a set, and which are right."""
    dataset = load(name)
    scores: list[float] = []
    labels: list[bool] = []
    with index_of(dataset, embedder) as index:
        retriever = GraphRetriever(index, k=K, cache=None)
        for row in dataset.questions:
            for hit in retriever.retrieve(row["question"]):
                scores.append(hit.score)
                labels.append(is_answer(row, hit.chunk))
    return np.array(scores), np.array(labels, np.bool_)


def kept(scores: npt.NDArray[np.float64], labels: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
    """Return the shares of the right and of the wrong hits that each cutoff keeps: one row for each cutoff."""
    passes = scores[:, None] >= np.array(CUTOFFS)
    return np.stack([passes[labels].mean(axis=0), passes[~labels].mean(axis=0)], axis=1)


def show(title: str, shares: npt.NDArray[np.float64], counts: str = "") -> None:
    cells = "".join(f"{f'{right:.0%} / {wrong:.0%}':>13}" for right, wrong in shares)
    print(f"{title:<28}{counts:>14}{cells}", flush=True)


def measure(embedder: str, names: Sequence[str]) -> None:
    """Print what each cutoff keeps, for each set and on average."""
    print(f"\n{embedder + ', right / wrong kept':<28}{'hits, right':>14}" + "".join(f"{one:>13}" for one in CUTOFFS))
    measured = {}
    for name in names:
        scores, labels = judged(name, embedder)
        measured[name] = kept(scores, labels)
        show(name, measured[name], f"{len(scores):,}, {labels.mean():.0%}")
    for title, group in (("documents", GROUPS["documents"]), ("Wikipedia", WIKIPEDIA)):
        if shares := [measured[name] for name in group if name in measured]:
            show(f"mean of {title}", np.mean(shares, axis=0))


def main() -> None:
    """Measure the embedders and sets of the command line, or all."""
    embedders = sys.argv[1].split(",") if len(sys.argv) > 1 else [*SETS]
    for embedder in embedders:
        measure(embedder, sys.argv[2].split(",") if len(sys.argv) > 2 else SETS[embedder])


if __name__ == "__main__":
    main()
