"""Fit the scores of the hybrid method and measure how reliable they are: ``make bench-calibration``.

The sets are those of ``make bench-quality``. Every fourth question of a set loses its answer before indexing: its gold
documents, or its quotes where few documents answer all questions. 40 questions of another set are asked as well, so
that some questions have no answer in the index. All are asked with and without the graph. The table has a row for each
set, scored with weights that were fitted on the other sets alone, without variants of the same questions:

- error: how far the scores are from the share of right hits, on average over ten bins (expected calibration error);
- first: the mean score of the first hit, and how often it is right;
- AUC: how often a right hit has a higher score than a wrong one, of all hits and of first hits.

The curve over all sets, each scored without its own weights, is written to ``docs/scores.png``.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields, replace
from itertools import chain, compress
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from quality import GROUPS, SHARED, Dataset, family, index_of, is_answer, lines, load

from graphrag_core import Chunk, GraphRetriever
from graphrag_core.evaluation import Judged, Question, fit_calibration, judge_hits, reliability, scores_of
from graphrag_core.strategies import Calibration

SETS = tuple(chain(*GROUPS.values()))
OTHER = {  # by family; docs_dev for the others
    "musique": "scifact_train",
    "scifact": "xquad_en",
    "docs_dev": "hotpotqa_train",
    "docs_dev2": "hotpotqa_train",
}
FOREIGN = 40
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


def judged(name: str, embedder: str) -> Judged:
    """Index a set, ask its questions and those of another, and return all hits."""
    dataset = load(name)
    own = {row["question"]: row for row in dataset.questions}

    def is_right(question: Question, chunk: Chunk) -> bool:
        return question.text in own and is_answer(own[question.text], chunk)

    other = OTHER.get(family(name), "docs_dev")
    foreign = [row["question"] for row in lines(SHARED / "data" / other / "questions.jsonl")[:FOREIGN]]
    questions = [Question(text) for text in (*own, *foreign)]
    with index_of(without_answers(dataset), embedder) as index:
        retriever = GraphRetriever(index)
        parts = [judge_hits(retriever, questions, is_answer=is_right, use_graph=graph) for graph in (True, False)]
    return Judged(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def auc(scores: npt.NDArray[Any], labels: npt.NDArray[np.bool_]) -> float:
    """Return the probability that a right hit has a higher score than a wrong one."""
    ranks = np.argsort(np.argsort(scores))
    right, wrong = int(labels.sum()), int((~labels).sum())
    return float(ranks[labels].sum() - right * (right - 1) / 2) / max(right * wrong, 1)


def error(scores: npt.NDArray[Any], labels: npt.NDArray[np.bool_]) -> float:
    """Return the expected calibration error."""
    return sum(part.hits * abs(part.score - part.share) for part in reliability(scores, labels)) / len(labels)


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
    sets = {(name, embedder): judged(name, embedder) for embedder in embedders for name in SETS}
    print(f"{'':<36}{'error':>7}{'first':>14}{'AUC':>8}{'first':>8}")
    found = []
    for (name, embedder), hits in sets.items():
        calibration = fit_calibration([part for (other, _), part in sets.items() if family(other) != family(name)])
        scores, first = scores_of(calibration, hits), hits.ranks == 0
        found.append((scores, hits.labels, first))
        shown = f"{scores[first].mean():.2f} / {hits.labels[first].mean():.2f}"
        areas = auc(scores, hits.labels), auc(scores[first], hits.labels[first])
        print(
            f"{name + ', ' + embedder:<36}{error(scores, hits.labels):>7.3f}{shown:>14}{areas[0]:>8.2f}{areas[1]:>8.2f}"
        )
    scores, labels, first = (np.concatenate(column) for column in zip(*found, strict=True))
    print(f"\nall sets: error {error(scores, labels):.3f}, of first hits {error(scores[first], labels[first]):.3f}")
    for title, chosen in (("all hits", slice(None)), ("first hits", first)):
        print(f"\n{title:<14}{'hits':>8}{'score':>8}{'right':>8}")
        for part in reliability(scores[chosen], labels[chosen]):
            print(f"{part.low:.1f} to {part.high:.1f}{part.hits:>12}{part.score:>8.2f}{part.share:>8.2f}")
    fitted = fit_calibration(list(sets.values()))
    print("\nfitted on all sets:")
    for one, value, default in zip(fields(Calibration), astuple(fitted), astuple(Calibration()), strict=True):
        print(f"  {one.name:<10}{value:>8.2f}   default {default:.2f}")
    draw(scores, labels, first)


if __name__ == "__main__":
    main(sys.argv[1].split(",") if len(sys.argv) > 1 else ["wordllama"])
