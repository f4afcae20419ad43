"""Choose settings of a retriever on one's own questions, by cross-validation, and say whether the gain is real."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphrag_core.config import retriever_arguments, write_retriever
from graphrag_core.errors import InputError
from graphrag_core.evaluation.bootstrap import bootstrap_interval
from graphrag_core.evaluation.compare import Difference, Mean, embedded, wanted
from graphrag_core.evaluation.measures import Measure, Recall
from graphrag_core.evaluation.questions import Gold, GoldFinder, Question
from graphrag_core.index import KnowledgeIndex
from graphrag_core.retriever import GraphRetriever

LEAST_QUESTIONS = 10
"""With fewer questions that have gold, nothing is tuned."""

LEAST_GAIN = 0.01
"""A smaller held-out gain is not worth another setting."""

_REPEATS = 5  # assignments of questions to folds


@dataclass(frozen=True, slots=True)
class Setting:
    """Arguments of a retriever that differ from the default, as a configuration file holds them.

    ``name`` says what is different; ``arguments`` is what :func:`graphrag_core.config.retriever_arguments` takes.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def _settings() -> tuple[Setting, ...]:
    kinds: dict[str, dict[str, Any]] = {
        "": {},
        "no graph": {"use_graph": False},
        "no reranker": {"reranker": False},
        "graph neighbourhood": {"graph": "neighbourhood"},
    }
    weights: dict[str, dict[str, Any]] = {
        "": {},
        "more vector": {"vector_weight": 0.8, "text_weight": 0.2},
        "more keyword": {"vector_weight": 0.4, "text_weight": 0.6},
        "vector only": {"vector_weight": 1.0, "text_weight": 0.0},
        "keyword only": {"vector_weight": 0.0, "text_weight": 1.0},
    }
    every = [
        Setting(", ".join(filter(None, (kind, weight))) or "default", {**kinds[kind], **weights[weight]})
        for kind in kinds
        for weight in weights
    ]
    return tuple(sorted(every, key=lambda setting: setting.name.count(",") + (setting.name != "default")))


SETTINGS = _settings()
"""What :func:`tune` tries, the default first, then one change at a time, then two.

With and without the graph, with and without the reranker, another graph strategy, and the weights of vector and keyword
search.
"""


@dataclass(frozen=True, slots=True)
class Tuning:
    """What was tried, what was chosen, and what it gained on questions that did not choose it.

    Attributes
    ----------
    measure
        What the settings were chosen by.
    settings
        What was tried, the default first.
    values
        The measure for each setting (row) and question (column).
    choices
        How often each setting was chosen by the questions outside a fold, by name.
    held_out
        How much better than the default the chosen settings are on the questions of the fold that did not choose them.
    best
        The setting with the best mean over all questions; the default where nothing is better.
    not_tried
        Settings for which the time did not suffice.
    folds
        The number of folds.
    base
        The arguments that all settings share.
    """

    measure: Measure
    settings: tuple[Setting, ...]
    values: npt.NDArray[np.float64] = field(repr=False)
    choices: Mapping[str, int]
    held_out: Difference
    best: Setting
    not_tried: tuple[Setting, ...] = ()
    folds: int = 5
    base: Mapping[str, Any] = field(default_factory=dict)

    @property
    def recommended(self) -> Setting | None:
        """The setting to use instead of the first one; None if the gain may be noise or is below one point."""
        worth = self.held_out.value >= LEAST_GAIN and self.held_out.interval.low > 0
        return self.best if worth and self.best is not self.settings[0] else None

    @property
    def verdict(self) -> str:
        """A sentence that says whether to change the settings, and why."""
        low, high = self.held_out.interval
        count, first = self.values.shape[1], self.settings[0].name
        gain = (
            f"held-out gain {100 * self.held_out.value + 0.0:+.1f} points {self.measure} "
            f"(95 % interval {100 * low + 0.0:+.1f} to {100 * high + 0.0:+.1f}, {count} questions, {self.folds} folds)"
        )
        if self.best is self.settings[0]:
            return f"Keep the {first} settings: none of {len(self.settings) - 1} others is better on these questions."
        if self.recommended is not None:
            return f"Use {self.best.name}: {gain}."
        if low <= 0:
            return f"Keep the {first} settings: what {self.best.name} gains may be chance, {gain}. Ask more questions."
        return f"Keep the {first} settings: what {self.best.name} gains is below one point, {gain}."

    def mean(self, setting: Setting) -> Mean:
        """Return the mean of the measure over all questions, and its interval."""
        values = self.values[self.settings.index(setting)]
        return Mean(float(values.mean()), bootstrap_interval(values))

    def difference(self, setting: Setting) -> Difference:
        """Return how much better a setting is than the default on all questions, also on those that chose it."""
        return Difference.of((self.values[self.settings.index(setting)] - self.values[0]).tolist())

    def write(self, path: str | Path) -> bool:
        """Write the recommended setting, and what all settings share, to ``[retriever]`` of a configuration file.

        Returns
        -------
        bool
            False, and nothing is written, if no setting is recommended.
        """
        if self.recommended is None:
            return False
        write_retriever(path, {**self.base, **self.recommended.arguments})
        return True

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-compatible values."""
        rows = []
        for setting in self.settings:
            mean, difference = self.mean(setting), self.difference(setting)
            rows.append(
                {
                    "name": setting.name,
                    "arguments": dict(setting.arguments),
                    "mean": mean.value,
                    "interval": list(mean.interval),
                    "difference": difference.to_dict(),
                    "chosen": self.choices.get(setting.name, 0),
                }
            )
        return {
            "measure": str(self.measure),
            "questions": self.values.shape[1],
            "folds": self.folds,
            "settings": rows,
            "not_tried": [setting.name for setting in self.not_tried],
            "held_out": self.held_out.to_dict(),
            "best": self.best.name,
            "recommended": None if self.recommended is None else dict(self.recommended.arguments),
            "verdict": self.verdict,
        }


def tune(
    index: KnowledgeIndex,
    questions: Iterable[Question],
    *,
    measure: Measure | str | None = None,
    settings: Sequence[Setting] = SETTINGS,
    base: Mapping[str, Any] | None = None,
    folds: int = 5,
    seconds: float | None = 600.0,
    seed: int = 0,
    on_query: Callable[[Setting, Question], None] = lambda *_: None,
) -> Tuning:
    """Try settings on questions with gold, choose one by cross-validation, and estimate its gain on other questions.

    The questions are divided into folds. For each fold the other questions choose the setting with the best mean, and
    the fold shows what this choice gains over the default. So no question judges a setting that it chose. This is
    repeated with five random divisions, and the gain of a question is the mean of the five.

    Every question is embedded once, and asked once with each setting.

    Parameters
    ----------
    index
        The index to search.
    questions
        At least ten with gold in the index; a hundred are better.
    measure
        By default ``Recall(5)``.
    settings
        What to try, the default first.
    base
        The arguments in use, as a configuration file holds them. All settings share those that ``settings`` do not
        change. If it has others, it is tried too, and is what the gain is measured from instead of the default.
    folds
        The number of parts.
    seconds
        How long to try settings. When the time is over, the setting that is running is left out with those that follow.
        None for no limit. The default setting is always run.
    seed
        For the division into folds.
    on_query
        Called before each query.

    Raises
    ------
    InputError
        There are too few questions with gold in the index.
    """
    chosen = Measure.parse(measure) if measure is not None else Recall(5)
    if folds < 2 or not settings:
        raise InputError("tuning needs at least one setting and two folds")
    tuned = {name for setting in settings for name in setting.arguments}
    shared = {name: value for name, value in (base or {}).items() if name not in tuned}
    if current := {name: value for name, value in (base or {}).items() if name in tuned}:
        settings = (Setting("current", current), *settings)
    finder = GoldFinder(index)
    judged = [(question, gold) for question in questions if (gold := finder.find(question)).items]
    if len(judged) < max(LEAST_QUESTIONS, folds):
        raise InputError(
            f"{len(judged)} questions have gold in the index: tuning needs at least {max(LEAST_QUESTIONS, folds)}, and "
            "100 to tell small gains from chance"
        )
    vectors = [embedded(index, question.text) for question, _ in judged]
    deadline = None if seconds is None else time.monotonic() + seconds
    rows: list[npt.NDArray[np.float64]] = []
    for setting in settings:
        arguments = retriever_arguments({**shared, **setting.arguments})
        retriever = GraphRetriever(index, **{**arguments, "cache": None, "score_threshold": None})
        row = _measure(retriever, setting, judged, vectors, chosen, None if not rows else deadline, on_query)
        if row is None:
            break
        rows.append(row)
    tried = tuple(settings[: len(rows)])
    values = np.array(rows)
    gains, choices = _held_out(values, [question.type for question, _ in judged], folds, seed)
    return Tuning(
        chosen,
        tried,
        values,
        {tried[place].name: count for place, count in choices.most_common()},
        Difference.of(gains.tolist()),
        tried[_best(values)],
        tuple(settings[len(rows) :]),
        folds,
        shared,
    )


def _measure(
    retriever: GraphRetriever,
    setting: Setting,
    judged: Sequence[tuple[Question, Gold]],
    vectors: Sequence[Any],
    measure: Measure,
    deadline: float | None,
    on_query: Callable[[Setting, Question], None],
) -> npt.NDArray[np.float64] | None:
    """Return the measure of each question; None if the time is over."""
    found = []
    for (question, gold), vector in zip(judged, vectors, strict=True):
        if deadline is not None and time.monotonic() > deadline:
            return None
        on_query(setting, question)
        count = wanted(gold, measure.k)
        hits = retriever.retrieve(question.text, k=count, embedding=vector, count_access=False).hits
        found.append(measure(gold.judgement(gold.rank((hit.chunk for hit in hits), measure.k))))
    return np.array(found)


def _best(values: npt.NDArray[np.float64]) -> int:
    """Return the row with the highest mean; of equal ones the first, which is nearer to the default."""
    means = values.mean(axis=1)
    return int(np.argmax(means >= means.max() - 1e-9))


def _held_out(
    values: npt.NDArray[np.float64], types: Sequence[str], folds: int, seed: int
) -> tuple[npt.NDArray[np.float64], Counter[int]]:
    """Return the gain of each question by the choice of questions in other folds, and how often each row was chosen."""
    shuffle = random.Random(seed)  # noqa: S311 - a division, no secret
    gains = np.zeros(values.shape[1])
    choices: Counter[int] = Counter()
    for _ in range(_REPEATS):
        order = sorted(range(len(types)), key=lambda place: (types[place], shuffle.random()))
        fold = np.empty(len(types), np.int64)
        fold[order] = np.arange(len(types)) % folds  # every type is spread over all folds
        for number in range(folds):
            inside = fold == number
            best = _best(values[:, ~inside])
            choices[best] += 1
            gains[inside] += values[best, inside] - values[0, inside]
    return gains / _REPEATS, choices
