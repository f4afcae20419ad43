"""Compare retrieval methods on a set of questions: measures, paired intervals, wins and losses, time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from graphrag_apps.compare.measures import Interval, Measure, bootstrap_interval, permutation_p
from graphrag_apps.compare.questions import GoldFinder, Question
from graphrag_core.errors import EmbedderError, FileError, InputError
from graphrag_core.model import Chunk
from graphrag_core.retriever import GraphRetriever

WITHOUT_GRAPH = "vector+keyword"
METHODS: Mapping[str, Mapping[str, Any]] = {
    "vector": {"method": "vector"},
    "keyword": {"method": "keyword"},
    WITHOUT_GRAPH: {"method": "hybrid", "use_graph": False},
    "graph": {"method": "graph", "use_graph": True},
    "hybrid": {"method": "hybrid", "use_graph": True},
}
"""The methods to compare: name to arguments of ``GraphRetriever.retrieve``."""

OtherRetriever = Callable[[str], Iterable["str | Chunk"]]
"""Another retriever to compare with: returns document ids or chunks for a question, best first."""

_SIGNIFICANCE = 0.05
_NO_DIFFERENCE = 0.3  # a p-value above it says nothing of a direction
_FEW = 5  # questions below which an interval says nothing
_PER_DOCUMENT = 4  # passages that are retrieved for each document that counts


@dataclass(frozen=True, slots=True)
class Answered:
    """What each method retrieved for a question.

    Attributes
    ----------
    found
        For each method document ids, best first; ids of passages if the question has evidence quotes.
    judged
        For each method the positions of the gold items at each rank; by default by the ids in ``found``.
    gold, missing
        The gold items in the index, by default all, and the missing ones, which are not measured.
    milliseconds
        For each method how long it took, without embedding the question.
    titles
        The titles of the results, by id.
    decided
        Which ranking decided the order of the hybrid method, and how far; empty if it did not run.
    """

    question: Question
    found: Mapping[str, tuple[str, ...]]
    judged: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)
    gold: tuple[str, ...] | None = None
    missing: tuple[str, ...] = ()
    milliseconds: Mapping[str, float] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)
    decided: str = ""

    @property
    def items(self) -> tuple[str, ...]:
        """The gold items that are measured."""
        return self.question.gold if self.gold is None else self.gold

    def _judged(self, method: str) -> Sequence[Sequence[int]]:
        by_id = ([self.items.index(one)] if one in self.items else () for one in self.found[method])
        return self.judged.get(method) or list(by_id)

    def value(self, method: str, measure: Measure) -> float:
        """Return a measure of one method."""
        first: dict[int, int] = {}
        for rank, items in enumerate(self._judged(method), 1):
            for item in items:
                first.setdefault(item, rank)
        return measure([*first.values()], len(self.items))

    def ranked(self, method: str) -> list[tuple[str, str, bool]]:
        """Return what a method retrieved: titles, ids, and whether each is gold."""
        results = zip_longest(self.found[method], self._judged(method)[: len(self.found[method])])
        return [(self.titles.get(result, ""), result, bool(gold)) for result, gold in results]

    def brought(self, method: str, other: str) -> tuple[str, ...]:
        """Return what one method retrieved and another did not."""
        return tuple(document for document in self.found[method] if document not in self.found[other])

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible values."""
        return {
            **self.question.to_dict(),
            "gold": list(self.items),
            "missing": list(self.missing),
            "found": {method: list(ids) for method, ids in self.found.items()},
            "milliseconds": {method: round(ms, 3) for method, ms in self.milliseconds.items()},
            "decided": self.decided,
        }


class Mean(NamedTuple):
    """The mean of a measure over questions, and its 95 % bootstrap interval."""

    value: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better one method is than another on the same questions.

    Attributes
    ----------
    value, interval
        The mean difference and its 95 % interval, by a paired bootstrap: questions are resampled, not methods.
    p_value
        By a permutation test (:func:`~graphrag_apps.compare.permutation_p`).
    better, worse, same
        The number of questions with a higher, a lower and the same value.
    """

    value: float
    interval: Interval
    p_value: float
    better: int
    worse: int
    same: int

    @classmethod
    def of(cls, differences: Sequence[float]) -> Difference:
        """Summarise the differences of questions."""
        values = np.asarray(differences, np.float64)
        better, worse = int((values > 0).sum()), int((values < 0).sum())
        same = len(values) - better - worse
        return cls(float(values.mean()), bootstrap_interval(values), permutation_p(values), better, worse, same)

    @property
    def cells(self) -> tuple[str, str, str]:
        """The difference in points, its interval and its p-value as texts, for tables."""
        low, high = map(as_points, self.interval)
        too_few = self.better + self.worse + self.same < _FEW
        interval = "too few questions" if too_few else f"{low} to {high}"
        return as_points(self.value), interval, "< 0.001" if self.p_value < 0.001 else f"{self.p_value:.3f}"

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible values."""
        return {**asdict(self), "interval": list(self.interval)}


def as_points(value: float) -> str:
    """Return a difference in percentage points, with its sign.

    >>> as_points(0.0125), as_points(-0.0)
    ('+1.2', '+0.0')
    """
    return f"{100 * value + 0.0:+.1f}"


@dataclass(frozen=True, slots=True)
class Report:
    """The results of several methods on the same questions.

    ``verdict`` compares the hybrid method with vector and keyword search without the graph by the first measure, on
    the questions that have gold documents; ``difference`` does so by any measure. ``k`` is the number of documents or
    passages that count. ``measures`` are by default recall, all gold, nDCG and MRR at ``k``.
    """

    k: int
    answered: tuple[Answered, ...] = ()
    methods: tuple[str, ...] = field(default=tuple(METHODS))
    measures: tuple[Measure, ...] = ()

    def __post_init__(self) -> None:
        if not self.measures:
            object.__setattr__(
                self, "measures", tuple(Measure(name, self.k) for name in ("recall", "all", "ndcg", "mrr"))
            )

    @property
    def depth(self) -> int:
        """How many results of a method are kept: enough for every measure."""
        return max(self.k, *(measure.k for measure in self.measures))

    @property
    def judged(self) -> tuple[Answered, ...]:
        """The questions that have gold in the index."""
        return tuple(answer for answer in self.answered if answer.items)

    @property
    def missing(self) -> tuple[str, ...]:
        """The gold documents and quotes that are not in the index. They are not measured."""
        return tuple(dict.fromkeys(item for answer in self.answered for item in answer.missing))

    @property
    def is_paired(self) -> bool:
        """Whether hybrid search can be compared with search without the graph."""
        return bool(self.judged) and {"hybrid", WITHOUT_GRAPH} <= {*self.methods}

    def by_type(self) -> dict[str, Report]:
        """Return a report for each type of question, in order of appearance; empty if no question has a type."""
        parts: dict[str, list[Answered]] = {}
        for answer in self.judged:
            parts.setdefault(answer.question.type, []).append(answer)
        if not any(parts):
            return {}
        return {kind or "other": replace(self, answered=tuple(answered)) for kind, answered in parts.items()}

    # -- measures

    def mean(self, method: str, measure: Measure | str) -> Mean:
        """Return the mean of a measure over the questions that have gold, and its interval."""
        values = self.values(method, measure)
        return Mean(sum(values) / len(values), bootstrap_interval(values))

    def values(self, method: str, measure: Measure | str) -> list[float]:
        """Return a measure of each question that has gold."""
        measure = Measure.parse(measure)
        if method not in self.methods:
            raise InputError(f"{method!r} was not asked: use one of {', '.join(self.methods)}")
        if not self.judged:
            raise InputError("no question has gold documents: give them as 'gold', a list of document ids")
        if measure.k > self.depth:
            raise InputError(f"{measure} needs more results than were retrieved: give it to compare as a measure")
        return [answer.value(method, measure) for answer in self.judged]

    def _gains(self, measure: Measure | str, method: str, other: str) -> list[float]:
        pairs = zip(self.values(method, measure), self.values(other, measure), strict=True)
        return [value - other_value for value, other_value in pairs]

    def difference(
        self, measure: Measure | str | None = None, method: str = "hybrid", other: str = WITHOUT_GRAPH
    ) -> Difference:
        """Return how much better a method is than another by a measure, by default the first of the report."""
        return Difference.of(self._gains(measure or self.measures[0], method, other))

    def changed(self, method: str = "hybrid", other: str = WITHOUT_GRAPH) -> list[tuple[Answered, float]]:
        """Return the questions on which two methods differ by the first measure, the largest gains first."""
        gains = zip(self.judged, self._gains(self.measures[0], method, other), strict=True)
        return sorted((pair for pair in gains if pair[1]), key=lambda pair: -pair[1])

    def milliseconds(self, method: str) -> float | None:
        """Return the median time of a method without embedding the question; None if it was not measured."""
        times = [answer.milliseconds[method] for answer in self.answered if method in answer.milliseconds]
        return median(times) if times else None

    @property
    def decided(self) -> str:
        """On how many questions the graph led the hybrid method, and on how many plain search; empty if not asked."""
        leads = [answer.decided.partition(":")[0] for answer in self.answered]
        leads = [lead for lead in leads if " led" in lead or lead.endswith(" alone")]
        by_graph = leads.count("the graph led")
        alone = sum(lead.endswith(" alone") for lead in leads)
        plain = f"plain search on {len(leads) - by_graph}, on {alone} of them alone"
        return f"The graph led on {by_graph} of {len(leads)} questions, {plain}." if leads else ""

    @property
    def verdict(self) -> str:
        """A sentence that says whether the graph helps on these questions, and whether it is significant."""
        if not self.answered:
            return "There are no questions."
        if not {"hybrid", WITHOUT_GRAPH} <= {*self.methods}:
            return f"No verdict: it needs the methods hybrid and {WITHOUT_GRAPH}."
        if self.judged:
            return _verdict(self.measures[0], self.difference(), len(self.judged))
        new = [len(answer.brought("hybrid", WITHOUT_GRAPH)) for answer in self.answered]
        changed = f"{sum(map(bool, new))} of {len(new)} answers and brings {sum(new) / len(new):.1f}"
        advice = "Give gold documents to see whether these are better."
        advice = "The gold of these questions is not in the index." if self.missing else advice
        return f"The graph changes {changed} other documents into the first {self.k}, on average. {advice}"

    # -- output

    def to_dict(self) -> dict[str, Any]:
        """Return the whole report as JSON-compatible values."""
        return {
            "k": self.k,
            "questions": len(self.answered),
            "judged": len(self.judged),
            "missing": list(self.missing),
            "measures": [str(measure) for measure in self.measures],
            **self._numbers(),
            "types": {kind: {"judged": len(part.judged), **part._numbers()} for kind, part in self.by_type().items()},  # noqa: SLF001
            "verdict": self.verdict,
            "decided": self.decided,
            "answers": [answer.to_dict() for answer in self.answered],
        }

    def _numbers(self) -> dict[str, Any]:
        """Return the measures and times of the methods, and the differences of hybrid search to the others."""
        measures = self.measures if self.judged else ()
        methods: dict[str, dict[str, Any]] = {method: {"measures": {}} for method in self.methods}
        for method, numbers in methods.items():
            numbers["milliseconds"] = self.milliseconds(method)
            for measure in measures:
                value, interval = self.mean(method, measure)
                numbers["measures"][str(measure)] = {"mean": value, "interval": list(interval)}
        differences = {
            other: {str(measure): self.difference(measure, other=other).to_dict() for measure in measures}
            for other in (self.methods if "hybrid" in self.methods else ())
            if other != "hybrid"
        }
        return {"methods": methods, "differences": differences}

    def html(self) -> str:
        """Return the report as one self-contained HTML page, for light and dark mode."""
        from graphrag_apps.compare.page import page  # noqa: PLC0415 - imports a template engine

        return page(self)

    def save(self, path: str | Path) -> None:
        """Write the HTML page."""
        page = self.html()
        try:
            Path(path).write_text(page, "utf-8")
        except OSError as error:
            raise FileError(f"{path}: cannot be written ({error.strerror or error})") from error


def _verdict(measure: Measure, difference: Difference, questions: int) -> str:
    """Return what a difference says."""
    if difference.better + difference.worse == 0:
        return f"The graph makes no difference to vectors and keywords on these {questions} questions."
    low, high = difference.interval
    more, less = ("more found", "less") if measure.name == "recall" else ("better", "worse")
    counts = f"{more} on {difference.better} of {questions} questions, {less} on {difference.worse}"
    interval = f"95 % interval {low * 100:+.0f} to {high * 100:+.0f}"
    points = f"{measure} {difference.value * 100:+.0f} points ({interval}), {counts}"
    if difference.p_value > _NO_DIFFERENCE or difference.value == 0:
        return f"These questions show no difference: {points}."
    if difference.p_value > _SIGNIFICANCE:
        leaning = "better" if difference.value > 0 else "worse"
        return f"The graph looks {leaning}, which may be chance: {points}. Ask more questions."
    return f"The graph {'helps' if difference.value > 0 else 'does not help'}: {points}."


def compare(
    retriever: GraphRetriever,
    questions: Iterable[Question],
    *,
    k: int = 5,
    methods: Sequence[str] = tuple(METHODS),
    measures: Iterable[Measure | str] = (),
    others: Mapping[str, OtherRetriever] | None = None,
) -> Report:
    """Run each question with several methods and report what each retrieved.

    Every question is embedded once. Its methods run one after the other in random order, so that their times can be
    compared. The cache of the retriever is not used, and access counts stay as they are.

    Parameters
    ----------
    retriever
        The retriever whose settings are used.
    questions
        With gold the report has measures; without, only the differences between methods.
    k
        The number of documents that count. Passages of the same document count once. For questions with evidence quotes
        in place of document ids, the number of passages.
    methods
        Names from :data:`METHODS`; the verdict needs ``hybrid`` and ``vector+keyword``.
    measures
        What to measure, such as "ndcg@10"; by default recall, all, ndcg and mrr at ``k``.
    others
        Other retrievers by name: functions that return document ids, or chunks for questions with evidence.
    """
    others = others or {}
    if unknown := [name for name in methods if name not in METHODS] or [name for name in others if name in METHODS]:
        raise InputError(f"{unknown[0]!r}: methods are {', '.join(METHODS)}; other retrievers need other names")
    report = Report(k, (), (*methods, *others), tuple(map(Measure.parse, measures)))
    settings = replace(retriever.settings, score_threshold=None)
    searched = GraphRetriever(retriever.index, settings, cache=None)
    finder, order = GoldFinder(retriever.index), random.Random(0)  # noqa: S311 - an order, not a secret

    def run(name: str, text: str, vector: Any, count: int) -> tuple[list[Chunk], str]:
        if name in others:
            return [one if isinstance(one, Chunk) else Chunk(one, one, "") for one in others[name](text)], ""
        result = searched.retrieve(text, k=count, embedding=vector, count_access=False, **METHODS[name])
        return [hit.chunk for hit in result.hits], result.decided

    def answer(question: Question, vector: Any) -> Answered:
        gold = finder.find(question)
        count = report.depth if gold.by_passage else _PER_DOCUMENT * report.depth
        ranked: dict[str, list[Chunk]] = {name: [] for name in report.methods}  # in the order of the report
        times, decided = {}, ""
        for name in order.sample(report.methods, len(report.methods)):
            start = time.perf_counter()
            chunks, reason = run(name, question.text, vector, count)
            times[name] = (time.perf_counter() - start) * 1000
            decided = reason if name == "hybrid" else decided
            best = {gold.id_of(chunk): chunk for chunk in reversed(chunks)}  # the best passage of each document
            ranked[name] = [best[key] for key in dict.fromkeys(map(gold.id_of, chunks))][: report.depth]
        return Answered(
            question,
            {name: tuple(map(gold.id_of, chunks)) for name, chunks in ranked.items()},
            {name: list(map(gold.judge, chunks)) for name, chunks in ranked.items()},
            gold.items,
            gold.missing,
            times,
            {gold.id_of(chunk): chunk.title for chunks in ranked.values() for chunk in chunks if chunk.title},
            decided,
        )

    asked = [(question, _embed(searched, question.text)) for question in questions]
    for name in report.methods if asked else ():  # load indexes and graph before anything is timed
        run(name, asked[0][0].text, asked[0][1], report.depth)
    return replace(report, answered=tuple(answer(*pair) for pair in asked))


def _embed(retriever: GraphRetriever, text: str) -> Any:
    """Return the vector of a question, None without an embedder, or the error that embedding it raised."""
    embedding = retriever.index.embedding
    try:
        return None if embedding is None else embedding.query(text)
    except EmbedderError as error:
        return error
