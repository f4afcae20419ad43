"""Fit the scores of the hybrid method and measure how reliable they are: ``make bench-calibration``.

The sets are those of ``make bench-quality``. Every fourth question of a set loses its answer before indexing: its gold
documents, or its quotes where few documents answer all questions. 40 questions of another set are asked as well, so
that some questions have no answer in the index. All are asked with and without the graph. The table has a row for each
set, scored with weights that were fitted on the other sets alone, without variants of the same questions:

- error: how far the scores are from the share of right hits, on average over ten bins (expected calibration error);
- bins: the largest difference between score and share in one bin, neighbouring bins joined to 100 hits or more;
- first: the mean score of the first hit, and how often it is right;
- AUC: how often a right hit has a higher score than a wrong one, of all hits and of first hits;
- foreign: of 20 questions of the other set, asked with the graph, how many have a first score below 0.15.

The curve over all sets, each scored without its own weights, is written to ``docs/scores.png``.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields, replace
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from quality import GROUPS, SHARED, Dataset, family, index_of, is_answer, lines, load

from graphrag_apps.compare import Judged, Question, fit_calibration, judge_hits, reliability, scores_of
from graphrag_core import Chunk, GraphRetriever
from graphrag_core.strategies import Calibration

SETS = (*GROUPS["documents"], *GROUPS["passages"])
OTHER = {  # by family; docs_dev for the others
    "musique": "scifact_train",
    "scifact": "xquad_en",
    "docs_dev": "hotpotqa_train",
    "docs_dev2": "hotpotqa_train",
}
FOREIGN = 40
DOCUMENTS = GROUPS["documents"]
HIGH, LOW = 0.7, 0.15
FEWEST = 100  # hits of a bin
PICTURE = Path(__file__).parents[1] / "docs" / "scores.png"


def without_answers(dataset: Dataset) -> Dataset:
    """Return a set without the documents, or the spans of documents, that answer every fourth question."""
    gone: set[str] = set()
    spans: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for question in dataset.questions[3::4]:
        gone.update(question.get("gold", ()))
        for evidence in question.get("evidence", ()):
            if "span" in evidence:
                spans[evidence["file"]].append(evidence["span"])
            else:
                gone.add(evidence["file"])
    kept = [document for document in dataset.documents if document.id not in gone]
    return replace(dataset, documents=[replace(one, text=without_spans(one.text, spans[one.id])) for one in kept])


def without_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return a text without some spans, which may overlap."""
    kept = np.ones(len(text), np.bool_)
    for start, end in spans:
        kept[start:end] = False
    return "".join(compress(text, kept))


class Hits(NamedTuple):
    """The hits of a set, and which belong to questions of the other set that were asked with the graph."""

    judged: Judged
    foreign: npt.NDArray[np.bool_]


def hits_of(name: str, embedder: str) -> Hits:
    """Index a set, ask its questions and those of another, with and without the graph, and return all hits."""
    dataset = load(name)
    own = {row["question"]: row for row in dataset.questions}

    def is_right(question: Question, chunk: Chunk) -> bool:
        return question.text in own and is_answer(own[question.text], chunk)

    other = OTHER.get(family(name), "docs_dev")
    foreign = [row["question"] for row in lines(SHARED / "data" / other / "questions.jsonl")[:FOREIGN]]
    with index_of(without_answers(dataset), embedder) as index:
        retriever = GraphRetriever(index)
        parts, flags = [], []
        for texts, graph in ((own, True), (own, False), (foreign, True), (foreign, False)):
            part = judge_hits(retriever, map(Question, texts), is_answer=is_right, use_graph=graph)
            parts.append(part)
            flags.append(np.full(len(part.labels), texts is foreign and graph))
    return Hits(Judged(*(np.concatenate(columns) for columns in zip(*parts, strict=True))), np.concatenate(flags))


def auc(scores: npt.NDArray[Any], labels: npt.NDArray[np.bool_]) -> float:
    """Return the probability that a right hit has a higher score than a wrong one."""
    ranks = np.argsort(np.argsort(scores))
    right, wrong = int(labels.sum()), int((~labels).sum())
    return float(ranks[labels].sum() - right * (right - 1) / 2) / max(right * wrong, 1)


def error(scores: npt.NDArray[Any], labels: npt.NDArray[np.bool_]) -> float:
    """Return the expected calibration error."""
    return sum(part.hits * abs(part.score - part.share) for part in reliability(scores, labels)) / len(labels)


def largest_difference(scores: npt.NDArray[Any], labels: npt.NDArray[np.bool_]) -> float:
    """Return the largest difference between score and share of a bin; bins of few hits are joined with the next."""
    bins: list[list[float]] = []  # hits, sum of scores, right hits
    for part in reliability(scores, labels):
        sums = [part.hits, part.hits * part.score, part.hits * part.share]
        if bins and bins[-1][0] < FEWEST:
            bins[-1] = [a + b for a, b in zip(bins[-1], sums, strict=True)]
        else:
            bins.append(sums)
    if len(bins) > 1 and bins[-1][0] < FEWEST:
        last = bins.pop()
        bins[-1] = [a + b for a, b in zip(bins[-1], last, strict=True)]
    return max(abs(score - right) / hits for hits, score, right in bins)


def draw(scores: npt.NDArray[Any], labels: npt.NDArray[np.bool_], first: npt.NDArray[np.bool_]) -> None:
    """Write the reliability curve."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415 - after the choice of the backend

    figure, axes = plt.subplots(figsize=(5.2, 4.4), dpi=130, layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.7", linestyle="--", linewidth=1, label="perfectly reliable")
    for label, marker, chosen in (("all hits", "o", slice(None)), ("first hits", "s", first)):
        bins = reliability(scores[chosen], labels[chosen])
        axes.plot([part.score for part in bins], [part.share for part in bins], marker=marker, label=label)
    axes.set(xlabel="score of a hit", ylabel="share of hits that belong to the answer", xlim=(0, 1), ylim=(0, 1))
    axes.set_aspect("equal")
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(PICTURE)


def main(embedders: Sequence[str]) -> None:
    sets = {(name, embedder): hits_of(name, embedder) for embedder in embedders for name in SETS}
    print(f"{'':<36}{'error':>7}{'bins':>7}{'first':>14}{'AUC':>8}{'first':>8}{'foreign':>9}")
    found, high = [], []
    for (name, embedder), (hits, foreign) in sets.items():
        others = [part.judged for (other, _), part in sets.items() if family(other) != family(name)]
        scores, first = scores_of(fit_calibration(others), hits), hits.ranks == 0
        found.append((scores, hits.labels, first))
        shown = f"{scores[first].mean():.2f} / {hits.labels[first].mean():.2f}"
        areas = auc(scores, hits.labels), auc(scores[first], hits.labels[first])
        low = 20 * (scores[first & foreign] < LOW).mean()
        bins = largest_difference(scores, hits.labels)
        print(
            f"{name + ', ' + embedder:<36}{error(scores, hits.labels):>7.3f}{bins:>7.2f}{shown:>14}{areas[0]:>8.2f}"
            f"{areas[1]:>8.2f}{low:>9.1f}"
        )
        if name in DOCUMENTS:
            high.append(hits.labels[scores >= HIGH])
    scores, labels, first = (np.concatenate(column) for column in zip(*found, strict=True))
    print(f"\nall sets: error {error(scores, labels):.3f}, of first hits {error(scores[first], labels[first]):.3f}")
    right = np.concatenate(high)
    print(f"hits of documents with a score of {HIGH} or more: {len(right):,}, of which {right.mean():.0%} are right")
    for title, chosen in (("all hits", slice(None)), ("first hits", first)):
        print(f"\n{title:<14}{'hits':>8}{'score':>8}{'right':>8}")
        for part in reliability(scores[chosen], labels[chosen]):
            print(f"{part.low:.1f} to {part.high:.1f}{part.hits:>12}{part.score:>8.2f}{part.share:>8.2f}")
    fitted = fit_calibration([hits.judged for hits in sets.values()])
    print("\nfitted on all sets:")
    for one, value, default in zip(fields(Calibration), astuple(fitted), astuple(Calibration()), strict=True):
        print(f"  {one.name:<10}{value:>8.2f}   default {default:.2f}")
    draw(scores, labels, first)


if __name__ == "__main__":
    main(sys.argv[1].split(",") if len(sys.argv) > 1 else ["wordllama"])
