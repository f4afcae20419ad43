"""Fit the scores of the hybrid method to your questions, and measure how reliable scores are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_apps.compare.questions import Question, contains
from graphrag_core.errors import InputError
from graphrag_core.model import Chunk
from graphrag_core.ports import Scores
from graphrag_core.query.calibration import HIGHEST, Calibration, Signals
from graphrag_core.retriever import GraphRetriever

_RIDGE = 0.01  # keeps the weights finite if the labels can be separated
_STEPS = 50


class Judged(NamedTuple):
    """What the hits of some questions were scored by, and whether each belongs to the answer.

    ``ranks`` counts from 0 within each question.
    """

    signals: Signals
    labels: npt.NDArray[np.bool_]
    ranks: npt.NDArray[np.int64]


class Bin(NamedTuple):
    """Hits with a score from ``low`` to ``high``: how many, their mean score, and the share of right ones."""

    low: float
    high: float
    hits: int
    score: float
    share: float


def judge_hits(
    retriever: GraphRetriever,
    questions: Iterable[Question],
    *,
    k: int = 10,
    is_answer: Callable[[Question, Chunk], bool] | None = None,
    **settings: Any,
) -> Judged:
    """Ask questions and return what is known about every hit, and whether it is right.

    Parameters
    ----------
    retriever
        Its method must be ``"hybrid"``, with the default fusion or reranker.
    questions
        A question without gold documents counts as one that the index cannot answer: all its hits are wrong. Include
        some; without them the scores of such questions are too high.
    k
        How many hits of each are judged.
    is_answer
        Whether a passage belongs to the answer; by default a passage of a gold document does, or one that contains an
        evidence quote.
    settings
        Further arguments of :meth:`GraphRetriever.retrieve <graphrag_core.GraphRetriever.retrieve>`.
    """
    recorder = _Recorder()
    part = "reranker" if retriever.settings.resolved.reranker else "fusion"
    recording = replace(retriever.settings, score_threshold=None)
    if getattr(recording.resolved, part).calibration is not None:
        recording = recording.replace(**{f"{part}.calibration": recorder})
    asked = GraphRetriever(retriever.index, recording, cache=None)
    right = is_answer or _is_gold
    signals: list[Signals] = [np.empty((0, len(fields(Calibration))))]
    labels: list[bool] = []
    ranks: list[int] = []
    for question in questions:
        recorder.seen.clear()
        hits = asked.retrieve(question.text, k=k, count_access=False, **settings).hits
        if hits and not recorder.seen:
            raise InputError("the scores of this retriever are those of its fusion or reranker: use the default ones")
        signals += recorder.seen
        labels += [bool(right(question, hit.chunk)) for hit in hits]
        ranks += range(len(hits))
    return Judged(np.concatenate(signals), np.array(labels, np.bool_), np.array(ranks, np.int64))


def _is_gold(question: Question, chunk: Chunk) -> bool:
    return chunk.document_id in question.gold or any(contains(quote, chunk.text) for quote in question.evidence)


def fit_calibration(judged: Judged | Sequence[Judged]) -> Calibration:
    """Return the calibration that fits judged hits best, by logistic regression.

    Parameters
    ----------
    judged
        From :func:`judge_hits`. Of several sets of questions each counts alike, however many questions it has.

    Raises
    ------
    InputError
        All hits are right, or none is.

    Examples
    --------
    >>> from graphrag_core import Document, GraphRetriever, KnowledgeIndex
    >>> from graphrag_core.strategies import Coverage
    >>> from graphrag_core.testing import HashEmbedder
    >>> index = KnowledgeIndex(HashEmbedder())
    >>> _ = index.add([Document("auth", "The Auth Service trusts the OAuth Provider.", "Auth Service"),
    ...                Document("menu", "Soup is served on Monday.", "Menu")])
    >>> questions = [Question("Whom does the Auth Service trust?", ("auth",)), Question("Who won the cup?")]
    >>> calibration = fit_calibration(judge_hits(GraphRetriever(index), questions))
    >>> fitted = GraphRetriever(index, reranker=Coverage(calibration=calibration))
    >>> len(fitted.retrieve("Whom does the Auth Service trust?", score_threshold=0.5))
    1
    """
    sets = [judged] if isinstance(judged, Judged) else list(judged)
    signals = np.concatenate([part.signals for part in sets])
    labels = np.concatenate([part.labels for part in sets])
    if labels.all() or not labels.any():
        raise InputError("all hits are right, or none is: give questions with gold documents, and some without answer")
    counts = np.concatenate([np.full(len(part.labels), 1000 / max(len(part.labels), 1)) for part in sets])
    weights = np.zeros(signals.shape[1])
    for _ in range(_STEPS):  # Fisher scoring
        share = 1 / (1 + np.exp(-signals @ weights))
        probability, slope = HIGHEST * share, HIGHEST * share * (1 - share)
        certainty = counts * slope / np.maximum(probability * (1 - probability), 1e-12)
        gradient = signals.T @ (certainty * (probability - labels)) + _RIDGE * weights
        curvature = (signals * (certainty * slope)[:, None]).T @ signals
        step = np.linalg.solve(curvature + _RIDGE * np.eye(len(weights)), gradient)
        weights = weights - step
        if np.abs(step).max() < 1e-8:
            break
    return Calibration(**dict(zip((one.name for one in fields(Calibration)), weights.tolist(), strict=True)))


def scores_of(calibration: Calibration, judged: Judged) -> Scores:
    """Return the score of each judged hit."""
    starts = np.append(np.flatnonzero(judged.ranks == 0), len(judged.ranks))
    parts = [calibration.scores(judged.signals[a:b]) for a, b in pairwise(starts)]
    return np.concatenate([np.empty(0, np.float32), *parts])


def reliability(scores: npt.ArrayLike, labels: npt.ArrayLike, *, bins: int = 10) -> list[Bin]:
    """Return how often hits were right, by score: reliable scores are as high as the share of right hits.

    >>> [(bin.low, bin.hits, bin.share) for bin in reliability([0.1, 0.15, 0.9], [False, False, True], bins=2)]
    [(0.0, 2, 0.0), (0.5, 1, 1.0)]
    """
    values, right = np.asarray(scores, np.float64), np.asarray(labels, np.bool_)
    bin_of_score = np.minimum((values * bins).astype(int), bins - 1)
    filled = []
    for number in range(bins):
        inside = bin_of_score == number
        if count := int(inside.sum()):
            share = float(right[inside].mean())
            filled.append(Bin(number / bins, (number + 1) / bins, count, float(values[inside].mean()), share))
    return filled


@dataclass(frozen=True, kw_only=True)
class _Recorder(Calibration):
    """A calibration that keeps what it is given."""

    seen: list[Signals] = field(default_factory=list, compare=False)

    def scores(self, signals: Signals) -> Scores:
        self.seen.append(signals)
        return np.linspace(1, 0, len(signals), dtype=np.float32)
