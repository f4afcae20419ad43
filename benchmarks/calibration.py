"""Fit the scores of the default second stage and measure how reliable they are: ``make bench-calibration``.

The sets are those of ``make bench-quality``. Every fourth question of a set loses its answer before indexing: its gold
documents, or its quotes where few documents answer all questions. 40 questions of another set are asked as well, so
that some questions have no answer in the index. All are asked with and without the graph. The table has a row for each
set, scored with numbers that were fitted on the other sets alone, without variants of the same questions:

- log loss, and how far the scores are from the share of right hits, on average over ten bins (error);
- first: the mean score of the first hit, and how often it is right; the same without the graph;
- foreign: of 20 questions of the other set, asked with the graph, how many have a first score below 0.15.

Then the reliability over all sets, each scored without its own numbers, and the numbers that are fitted on all sets,
beside the defaults.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from oracles_record import lines
from quality import GROUPS, SHARED, Dataset, family, index_of, is_answer, load

from graphrag_core import GraphRetriever
from graphrag_core.strategies import Linear

SETS = (*GROUPS["documents"], *GROUPS["passages"])
OTHER = {  # by family; docs_dev for the others
    "musique": "scifact_train",
    "scifact": "xquad_en",
    "docs_dev": "hotpotqa_train",
    "docs_dev2": "hotpotqa_train",
}
FOREIGN = 40
LOW = 0.15
HITS = 10  # of each question
RIDGE, STEPS = 0.01, 30
Values = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


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


@dataclass(frozen=True, kw_only=True)
class Recording(Linear):
    """The second stage, which keeps what its scores are computed from."""

    signals: list[Values] = field(default_factory=list, compare=False)

    def probabilities(self, scores: Values, trust: float, contained: float, count: int) -> npt.NDArray[np.float32]:
        rows = np.ones((min(count, len(scores)), 5))
        rows[:, 1], rows[:, 2] = scores[: len(rows)], np.log(np.arange(1, len(rows) + 1))
        rows[:, 3:] = trust, contained
        self.signals.append(rows)
        return super().probabilities(scores, trust, contained, count)


STAGE = Recording()


class Hits(NamedTuple):
    """The hits of a set: their signals, and whether each is right, is first, had the graph, and is foreign."""

    signals: Values
    right: Flags
    first: Flags
    with_graph: Flags
    foreign: Flags


def hits_of(name: str, embedder: str) -> Hits:
    """Index a set, ask its questions and those of another, with and without the graph, and return all hits."""
    dataset = load(name)
    own = {row["question"]: row for row in dataset.questions}
    other = OTHER.get(family(name), "docs_dev")
    foreign = [row["question"] for row in lines(SHARED / "data" / other / "questions.jsonl")[:FOREIGN]]
    signals: list[Values] = []
    flags: list[tuple[bool, ...]] = []
    with index_of(without_answers(dataset), embedder) as index:
        for graph in (True, False):
            for question in (*own, *foreign):
                STAGE.signals.clear()
                found = GraphRetriever(index, reranker=STAGE, k=HITS, use_graph=graph, cache=None).retrieve(question)
                rows = STAGE.signals[0][: len(found.hits)] if STAGE.signals else np.empty((0, 5))
                signals.append(rows)
                flags += [
                    (question in own and is_answer(own[question], hit.chunk), rank == 0, graph, question not in own)
                    for rank, hit in enumerate(found.hits[: len(rows)])
                ]
    return Hits(np.concatenate(signals), *np.array(flags, np.bool_).T)


def fitted(sets: Sequence[Hits]) -> Values:
    """Return the numbers of the logistic function that fit best; each set counts alike."""
    signals, right = (np.concatenate(column) for column in list(zip(*sets, strict=True))[:2])
    counts = np.concatenate([np.full(len(one.right), 1000 / len(one.right)) for one in sets])
    numbers = np.zeros(signals.shape[1])
    for _ in range(STEPS):  # Newton's method
        probability = scored(numbers, signals)
        gradient = signals.T @ (counts * (probability - right)) + RIDGE * numbers
        curvature = (signals * (counts * probability * (1 - probability))[:, None]).T @ signals
        numbers = numbers - np.linalg.solve(curvature + RIDGE * np.eye(len(numbers)), gradient)
    return numbers


def scored(numbers: Sequence[float] | Values, signals: Values) -> Values:
    probability: Values = 1 / (1 + np.exp(-signals @ np.asarray(numbers)))
    return probability


def log_loss(scores: Values, right: Flags) -> float:
    return float(-np.log(np.where(right, scores, 1 - scores).clip(1e-9)).mean())


def reliability(scores: npt.NDArray[Any], labels: npt.NDArray[np.bool_]) -> list[tuple[float, int, float, float]]:
    """Return for each tenth of the scores that has hits: where it starts, hits, their mean score, the right share."""
    tenth = np.minimum((scores * 10).astype(int), 9)
    parts = [(number / 10, tenth == number) for number in range(10) if (tenth == number).any()]
    return [(low, int(part.sum()), float(scores[part].mean()), float(labels[part].mean())) for low, part in parts]


def error(scores: npt.NDArray[Any], labels: npt.NDArray[np.bool_]) -> float:
    """Return the expected calibration error."""
    return sum(hits * abs(score - share) for _, hits, score, share in reliability(scores, labels)) / len(labels)


def main(embedders: Sequence[str]) -> None:
    sets = {(name, embedder): hits_of(name, embedder) for embedder in embedders for name in SETS}
    print(f"{'':<36}{'log loss':>9}{'error':>7}{'first':>14}{'without graph':>15}{'foreign':>9}")
    found = []
    for (name, embedder), hits in sets.items():
        others = [part for (other, _), part in sets.items() if family(other) != family(name)]
        scores, first = scored(fitted(others), hits.signals), hits.first
        found.append((scores, hits.right, first))
        own = first & ~hits.foreign
        cells = [
            f"{scores[chosen].mean():.2f} / {hits.right[chosen].mean():.2f}"
            for chosen in (own & hits.with_graph, own & ~hits.with_graph)
        ]
        low = 20 * (scores[first & hits.foreign & hits.with_graph] < LOW).mean()
        print(
            f"{name + ', ' + embedder:<36}{log_loss(scores, hits.right):>9.3f}{error(scores, hits.right):>7.3f}"
            f"{cells[0]:>14}{cells[1]:>15}{low:>9.1f}"
        )
    scores, right, first = (np.concatenate(column) for column in zip(*found, strict=True))
    print(f"\nall sets: log loss {log_loss(scores, right):.3f}, error {error(scores, right):.3f}, "
          f"of first hits {error(scores[first], right[first]):.3f}")  # fmt: skip
    for title, chosen in (("all hits", slice(None)), ("first hits", first)):
        print(f"\n{title:<14}{'hits':>8}{'score':>8}{'right':>8}")
        for low, hits_of_part, score, share in reliability(scores[chosen], right[chosen]):
            print(f"{low:.1f} to {low + 0.1:.1f}{hits_of_part:>12}{score:>8.2f}{share:>8.2f}")
    print("\nfitted on all sets: " + ", ".join(f"{number:.2f}" for number in fitted([*sets.values()])))
    print("default:            " + ", ".join(f"{number:.2f}" for number in Linear().probability))


if __name__ == "__main__":
    main(sys.argv[1].split(",") if len(sys.argv) > 1 else ["wordllama"])
