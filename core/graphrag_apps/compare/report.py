"""The report of a comparison: measures, paired differences, a verdict, JSON and an HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from graphrag_apps.compare.measures import Interval, Measure, bootstrap_interval, permutation_p
from graphrag_apps.compare.questions import Question
from graphrag_core.errors import InputError

WITHOUT_GRAPH = "vector+keyword"
_SIGNIFICANCE = 0.05
_NO_DIFFERENCE = 0.3  # a p-value above it says nothing of a direction
_FEW = 5  # questions below which an interval says nothing
_MAX_SHOWN = 20  # questions that were won, and that were lost, on the page


@dataclass(frozen=True, slots=True)
class Answered:
    """What each method retrieved for a question.

    ``found`` are for each method document ids, best first, or ids of passages if the question has evidence quotes;
    ``judged`` the positions of the gold items at each rank, by default by these ids. ``gold`` are the gold items in the
    index, by default all; ``missing`` ones are not measured. ``milliseconds`` are without embedding the question.
    """

    question: Question
    found: Mapping[str, tuple[str, ...]]
    judged: Mapping[str, Sequence[Sequence[int]]] = field(default_factory=dict)
    gold: tuple[str, ...] | None = None
    missing: tuple[str, ...] = ()
    milliseconds: Mapping[str, float] = field(default_factory=dict)
    titles: Mapping[str, str] = field(default_factory=dict)

    @property
    def items(self) -> tuple[str, ...]:
        """The gold items that are measured."""
        return self.question.gold if self.gold is None else self.gold

    def ranked(self, method: str) -> list[tuple[str, Sequence[int]]]:
        """Return what a method retrieved: ids, and the positions of the gold items that each has."""
        by_id = [[self.items.index(key)] if key in self.items else [] for key in self.found[method]]
        return list(zip(self.found[method], self.judged.get(method) or by_id, strict=True))

    def value(self, method: str, measure: Measure) -> float:
        """Return a measure of one method."""
        first: dict[int, int] = {}
        for rank, (_, items) in enumerate(self.ranked(method), 1):
            for item in items:
                first.setdefault(item, rank)
        return measure([*first.values()], len(self.items))

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible values."""
        return {
            **self.question.to_dict(),
            "gold": list(self.items),
            "missing": list(self.missing),
            "found": {method: list(ids) for method, ids in self.found.items()},
            "milliseconds": {method: round(ms, 3) for method, ms in self.milliseconds.items()},
        }


class Mean(NamedTuple):
    """The mean of a measure over questions, and its 95 % bootstrap interval."""

    value: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better one method is than another on the same questions: the mean, and its 95 % interval.

    The interval is of a paired bootstrap, ``p_value`` of a permutation test (:func:`permutation_p`). ``better``,
    ``worse`` and ``same`` are numbers of questions.
    """

    value: float
    interval: Interval
    p_value: float
    better: int
    worse: int
    same: int

    @property
    def cells(self) -> tuple[str, str, str]:
        """The difference in points, its interval and its p-value as texts, for tables."""
        low, high = map(as_points, self.interval)
        interval = "too few questions" if self.better + self.worse + self.same < _FEW else f"{low} to {high}"
        return as_points(self.value), interval, "< 0.001" if self.p_value < 0.001 else f"{self.p_value:.3f}"


def as_points(value: float) -> str:
    """Return a difference in percentage points, with its sign.

    >>> as_points(0.0125), as_points(-0.0)
    ('+1.2', '+0.0')
    """
    return f"{100 * value + 0.0:+.1f}"


@dataclass(frozen=True, slots=True)
class Report:
    """The results of several methods on the same questions, of which the first ``k`` documents or passages count.

    ``verdict`` compares the hybrid method with vector and keyword search without the graph by the first measure;
    ``difference`` does so by any measure.
    """

    k: int
    answered: tuple[Answered, ...] = ()
    methods: tuple[str, ...] = ("vector", "keyword", WITHOUT_GRAPH, "graph", "hybrid")
    measures: tuple[Measure, ...] = ()

    def __post_init__(self) -> None:
        measures = self.measures or tuple(Measure(name, self.k) for name in ("recall", "all", "ndcg", "mrr"))
        object.__setattr__(self, "measures", measures)

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

    def difference(
        self, measure: Measure | str | None = None, method: str = "hybrid", other: str = WITHOUT_GRAPH
    ) -> Difference:
        """Return how much better a method is than another by a measure, by default the first of the report."""
        measure = measure or self.measures[0]
        gains = np.subtract(self.values(method, measure), self.values(other, measure))
        better, worse = int((gains > 0).sum()), int((gains < 0).sum())
        same = len(gains) - better - worse
        return Difference(float(gains.mean()), bootstrap_interval(gains), permutation_p(gains), better, worse, same)

    def changed(self, method: str = "hybrid", other: str = WITHOUT_GRAPH) -> list[tuple[Answered, float]]:
        """Return the questions on which two methods differ by the first measure, the largest gains first."""
        gains = np.subtract(self.values(method, self.measures[0]), self.values(other, self.measures[0])).tolist()
        pairs = zip(self.judged, gains, strict=True)
        return sorted((pair for pair in pairs if pair[1]), key=lambda pair: -pair[1])

    def milliseconds(self, method: str) -> float | None:
        """Return the median time of a method without embedding the question; None if it was not measured."""
        times = [answer.milliseconds[method] for answer in self.answered if method in answer.milliseconds]
        return median(times) if times else None

    @property
    def verdict(self) -> str:
        """A sentence that says whether the graph helps on these questions, and whether it is significant."""
        if not self.answered:
            return "There are no questions."
        if self.judged:
            return _verdict(self.measures[0], self.difference(), len(self.judged))
        changed = sum({*one.found["hybrid"]} != {*one.found[WITHOUT_GRAPH]} for one in self.answered)
        advice = "Give gold documents to see whether these are better."
        advice = "The gold of these questions is not in the index." if self.missing else advice
        return f"The graph changes the first {self.k} of {changed} of {len(self.answered)} answers. {advice}"

    # -- output

    def to_dict(self) -> dict[str, Any]:
        """Return the whole report as JSON-compatible values."""
        return {
            "k": self.k,
            "questions": len(self.answered),
            "missing": list(self.missing),
            "measures": [str(measure) for measure in self.measures],
            **self._numbers(),
            "types": {kind: part._numbers() for kind, part in self.by_type().items()},  # noqa: SLF001
            "verdict": self.verdict,
            "answers": [answer.to_dict() for answer in self.answered],
        }

    def _numbers(self) -> dict[str, Any]:
        """Return the measures and times of the methods, and the differences of hybrid search to the others."""
        measures = [str(measure) for measure in self.measures] if self.judged else []
        methods: dict[str, dict[str, Any]] = {}
        for method in self.methods:
            means = {measure: self.mean(method, measure) for measure in measures}
            shown = {measure: {"mean": mean.value, "interval": list(mean.interval)} for measure, mean in means.items()}
            methods[method] = {"measures": shown, "milliseconds": self.milliseconds(method)}
        differences = {
            other: {measure: asdict(self.difference(measure, other=other)) for measure in measures}
            for other in self.methods
            if other != "hybrid"
        }
        return {"judged": len(self.judged), "methods": methods, "differences": differences}

    def html(self) -> str:
        """Return the report as one HTML page for light and dark mode, which loads nothing and has no script."""
        from graphrag_apps.page.templates import asset, policy, render  # noqa: PLC0415 - imports a template engine

        css = asset("graphrag_apps.compare", "colours.css", "base.css", "report.css")
        changed = self.changed() if self.judged else []
        return render(
            "graphrag_apps.compare",
            "report.html",
            title=f"Does the graph help? {len(self.answered)} questions",
            css=css,
            policy=policy(css),
            report=self,
            plain=WITHOUT_GRAPH,
            wins=[pair for pair in changed if pair[1] > 0][:_MAX_SHOWN],
            losses=[pair for pair in reversed(changed) if pair[1] < 0][:_MAX_SHOWN],
            points=as_points,
            percent=lambda value: f"{100 * value:.1f}",
        )

    def save(self, path: str | Path) -> None:
        """Write the HTML page."""
        Path(path).write_text(self.html(), "utf-8")


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
