"""Does the graph help on my questions? Recall of each method, and a verdict.

>>> from graphrag_core import Document, KnowledgeIndex
>>> from graphrag_core.testing import HashEmbedder
>>> index = KnowledgeIndex(HashEmbedder())
>>> _ = index.add([Document("auth", "The Auth Service trusts the OAuth Provider.", "Auth Service"),
...                Document("oauth", "It speaks to Keyring.", "OAuth Provider")])
>>> report = compare(GraphRetriever(index), [Question("Who is behind the Auth Service?", ("auth", "oauth"))], k=2)
>>> report.score("hybrid").recall
1.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import comb
from typing import Any

from graphrag_core.errors import InputError
from graphrag_core.retriever import GraphRetriever

WITHOUT_GRAPH = "vector+keyword"
METHODS: Mapping[str, Mapping[str, Any]] = {
    "vector": {"method": "vector"},
    "keyword": {"method": "keyword"},
    WITHOUT_GRAPH: {"method": "hybrid", "use_graph": False},
    "graph": {"method": "graph"},
    "hybrid": {"method": "hybrid"},
}
"""The methods that are compared, by name, with how the retriever is asked for them."""

_CHANCE = 0.05


@dataclass(frozen=True, slots=True)
class Question:
    """A question and, if they are known, the ids of the documents that answer it."""

    text: str
    gold: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """What each method found for a question: document ids, best first."""

    question: Question
    found: Mapping[str, tuple[str, ...]]

    def recall(self, method: str) -> float:
        """Return the share of the gold documents that a method found."""
        gold = set(self.question.gold)
        return len(gold & set(self.found[method])) / len(gold)

    def brought(self, method: str, other: str) -> tuple[str, ...]:
        """Return what one method found and another did not."""
        return tuple(document for document in self.found[method] if document not in self.found[other])


@dataclass(frozen=True, slots=True)
class Score:
    """A method's mean recall, and the share of questions whose gold documents it found all."""

    recall: float
    complete: float


@dataclass(frozen=True, slots=True)
class Report:
    """How methods did on questions.

    ``better`` and ``worse`` count the questions with gold documents on which the hybrid
    method's recall lies above or below that of vectors and keywords without the graph.
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
        return Score(sum(recalls) / len(recalls), sum(recall == 1 for recall in recalls) / len(recalls))

    @property
    def better(self) -> int:
        """On how many questions the graph found more."""
        return sum(answer.recall("hybrid") > answer.recall(WITHOUT_GRAPH) for answer in self.judged)

    @property
    def worse(self) -> int:
        """On how many questions the graph found less."""
        return sum(answer.recall("hybrid") < answer.recall(WITHOUT_GRAPH) for answer in self.judged)

    @property
    def chance(self) -> float:
        """How likely a coin would part the questions that differ as unevenly (two-sided sign test)."""
        differing = self.better + self.worse
        fewer = sum(comb(differing, i) for i in range(min(self.better, self.worse) + 1))
        return float(min(1.0, 2 * fewer / 2**differing))

    @property
    def verdict(self) -> str:
        """Whether the graph helps on these questions, in words."""
        if not self.judged:
            return self._difference()
        gain = self.score("hybrid").recall - self.score(WITHOUT_GRAPH).recall
        counts = f"more found on {self.better} of {len(self.judged)} questions, less on {self.worse}"
        if self.better + self.worse == 0:
            return f"The graph makes no difference to vectors and keywords on these {len(self.judged)} questions."
        points = f"recall@{self.k} {gain * 100:+.0f} points, {counts}"
        if self.chance > _CHANCE:
            leaning = "looks better" if gain > 0 else "looks worse" if gain < 0 else "looks no different"
            return f"The graph {leaning}, which may be chance: {points}. Ask more questions."
        return f"The graph {'helps' if gain > 0 else 'does not help'}: {points}."

    def _difference(self) -> str:
        if not self.answered:
            return "There are no questions."
        new = [len(answer.brought("hybrid", WITHOUT_GRAPH)) for answer in self.answered]
        return (
            f"The graph changes {sum(map(bool, new))} of {len(new)} answers and brings {sum(new) / len(new):.1f} "
            f"other documents into the first {self.k}, on average. Whether these are better only gold documents tell."
        )


def compare(
    retriever: GraphRetriever,
    questions: Iterable[Question],
    *,
    k: int = 5,
    methods: Sequence[str] = tuple(METHODS),
    on_question: Callable[[Question], None] = lambda _: None,
) -> Report:
    """Ask questions by several methods and return what each found.

    Parameters
    ----------
    retriever
        Whose settings are compared.
    questions
        With gold documents recall can be told; without, only how the answers differ.
    k
        How many documents count. Passages of one document count once.
    methods
        Names from :data:`METHODS`; the verdict needs ``hybrid`` and ``vector+keyword``.
    on_question
        Called before each question.
    """
    answered = []
    for question in questions:
        on_question(question)
        found = {method: _documents(retriever, question.text, k, METHODS[method]) for method in methods}
        answered.append(Answered(question, found))
    return Report(k, tuple(answered), tuple(methods))


def _documents(retriever: GraphRetriever, text: str, k: int, settings: Mapping[str, Any]) -> tuple[str, ...]:
    # Several passages may be of one document: ask for some more, count documents.
    hits = retriever.retrieve(text, k=4 * k, **settings).hits
    return tuple(dict.fromkeys(hit.chunk.document_id for hit in hits))[:k]
