"""Compare retrieval methods on a set of questions: intervals, and a sign test for the effect of the graph."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb
from typing import Any

from graphrag_core.errors import InputError
from graphrag_core.evaluation.bootstrap import Interval, bootstrap_interval
from graphrag_core.retriever import GraphRetriever

WITHOUT_GRAPH = "vector+keyword"
METHODS: Mapping[str, Mapping[str, Any]] = {
    "vector": {"method": "vector"},
    "keyword": {"method": "keyword"},
    WITHOUT_GRAPH: {"method": "hybrid", "use_graph": False},
    "graph": {"method": "graph"},
    "hybrid": {"method": "hybrid"},
}
"""The methods to compare: name to arguments of ``GraphRetriever.retrieve``."""

_SIGNIFICANCE = 0.05


@dataclass(frozen=True, slots=True)
class Question:
    """A question and, if known, the ids of the documents that answer it (gold documents)."""

    text: str
    gold: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """The document ids that each method retrieved for a question, best first."""

    question: Question
    found: Mapping[str, tuple[str, ...]]

    def recall(self, method: str) -> float:
        """Return the fraction of the gold documents that a method retrieved."""
        gold = set(self.question.gold)
        return len(gold & set(self.found[method])) / len(gold)

    def brought(self, method: str, other: str) -> tuple[str, ...]:
        """Return the documents that one method retrieved and another did not."""
        return tuple(document for document in self.found[method] if document not in self.found[other])


@dataclass(frozen=True, slots=True)
class Score:
    """A method's mean recall, the fraction of questions for which it retrieved every gold document, and an interval.

    ``interval`` is the 95 % bootstrap interval of ``recall``.
    """

    recall: float
    complete: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Report:
    """The results of several methods on the same questions.

    ``gain``, ``better``, ``worse``, ``p_value`` and ``verdict`` compare the hybrid method with vector and
    keyword search without the graph, on the questions that have gold documents.
    """

    k: int
    answered: tuple[Answered, ...] = ()
    methods: tuple[str, ...] = field(default=tuple(METHODS))

    @property
    def judged(self) -> tuple[Answered, ...]:
        """The questions that have gold documents."""
        return tuple(answer for answer in self.answered if answer.question.gold)

    def score(self, method: str) -> Score:
        """Return a method's score over the questions that have gold documents."""
        recalls = [answer.recall(method) for answer in self.judged]
        if not recalls:
            raise InputError("no question has gold documents: give them as 'gold', a list of document ids")
        complete = sum(recall == 1 for recall in recalls) / len(recalls)
        return Score(sum(recalls) / len(recalls), complete, bootstrap_interval(recalls))

    @property
    def gain(self) -> float:
        """The mean recall with the graph minus that without."""
        return self.score("hybrid").recall - self.score(WITHOUT_GRAPH).recall

    @property
    def gain_interval(self) -> Interval:
        """The 95 % interval of ``gain``, by a paired bootstrap: questions are resampled, not methods."""
        return bootstrap_interval([answer.recall("hybrid") - answer.recall(WITHOUT_GRAPH) for answer in self.judged])

    @property
    def better(self) -> int:
        """The number of questions with higher recall with the graph than without."""
        return sum(answer.recall("hybrid") > answer.recall(WITHOUT_GRAPH) for answer in self.judged)

    @property
    def worse(self) -> int:
        """The number of questions with lower recall with the graph than without."""
        return sum(answer.recall("hybrid") < answer.recall(WITHOUT_GRAPH) for answer in self.judged)

    @property
    def p_value(self) -> float:
        """The p-value of a two-sided sign test of ``better`` against ``worse``; ties are dropped."""
        better, worse = self.better, self.worse
        tail = sum(comb(better + worse, i) for i in range(min(better, worse) + 1))  # scipy.stats takes 1 s to import
        return min(1.0, 2 * tail / (1 << better + worse))

    @property
    def verdict(self) -> str:
        """A sentence that says whether the graph helps on these questions, and whether it is significant."""
        if not self.answered:
            return "There are no questions."
        if not self.judged:
            new = [len(answer.brought("hybrid", WITHOUT_GRAPH)) for answer in self.answered]
            return (
                f"The graph changes {sum(map(bool, new))} of {len(new)} answers and brings {sum(new) / len(new):.1f} "
                f"other documents into the first {self.k}, on average. "
                "Give gold documents to see whether these are better."
            )
        gain, (low, high) = self.gain, self.gain_interval
        if self.better + self.worse == 0:
            return f"The graph makes no difference to vectors and keywords on these {len(self.judged)} questions."
        counts = f"more found on {self.better} of {len(self.judged)} questions, less on {self.worse}"
        interval = f"95 % interval {low * 100:+.0f} to {high * 100:+.0f}"
        points = f"recall@{self.k} {gain * 100:+.0f} points ({interval}), {counts}"
        if self.p_value > _SIGNIFICANCE:
            leaning = "looks better" if gain > 0 else "looks worse" if gain < 0 else "looks no different"
            return f"The graph {leaning}, which may be chance: {points}. Ask more questions."
        return f"The graph {'helps' if gain > 0 else 'does not help'}: {points}."


def compare(
    retriever: GraphRetriever,
    questions: Iterable[Question],
    *,
    k: int = 5,
    methods: Sequence[str] = tuple(METHODS),
    on_question: Callable[[Question], None] = lambda _: None,
) -> Report:
    """Run each question with several methods and report what each retrieved.

    Parameters
    ----------
    retriever
        The retriever whose settings are used.
    questions
        With gold documents the report has recall; without, only the differences between methods.
    k
        The number of documents that count. Passages of the same document count once.
    methods
        Names from :data:`METHODS`; the verdict needs ``hybrid`` and ``vector+keyword``.
    on_question
        Called before each question.
    """
    answered = []
    for question in questions:
        on_question(question)
        found = {}
        for method in methods:
            # Several passages may come from one document: retrieve more and count documents.
            hits = retriever.retrieve(question.text, k=4 * k, **METHODS[method]).hits
            found[method] = tuple(dict.fromkeys(hit.chunk.document_id for hit in hits))[:k]
        answered.append(Answered(question, found))
    return Report(k, tuple(answered), tuple(methods))
