"""Retrieval measures as values: ``Recall(5)``, ``NDCG(10)``. Each is checked against ``ir-measures`` in the tests."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from graphrag_core.errors import InputError

_FORM = re.compile(r"([a-z]+)@(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Judgement:
    """Which ranks of a result are relevant: the input of a measure.

    Parameters
    ----------
    found
        For each rank, best first, the positions of the gold items that are found there. A document is at most one gold
        item; a passage may contain several evidence quotes.
    grades
        The relevance of each gold item. Only :class:`NDCG` uses it.
    """

    found: tuple[tuple[int, ...], ...]
    grades: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.grades:
            raise InputError("a question without gold cannot be measured: give gold documents or evidence")

    @classmethod
    def of(cls, ranked: Iterable[str], gold: Sequence[str] | Mapping[str, float]) -> Judgement:
        """Judge a ranking of ids. An id that is repeated counts at its first rank.

        >>> Judgement.of(["a", "x", "b"], ["b", "c"]).found
        ((), (), (0,))
        """
        grades = gold if isinstance(gold, Mapping) else dict.fromkeys(gold, 1.0)
        places = {item: place for place, item in enumerate(grades)}
        return cls(
            tuple((places[item],) if item in places else () for item in dict.fromkeys(ranked)),
            tuple(map(float, grades.values())),
        )

    def ranks(self, k: int) -> dict[int, int]:
        """Return the rank, from 1, at which each gold item is found first, of those among the first ``k``."""
        first: dict[int, int] = {}
        for rank, items in enumerate(self.found[:k], 1):
            for item in items:
                first.setdefault(item, rank)
        return first


@dataclass(frozen=True)
class Measure(ABC):
    """A number from 0 to 1 for the first ``k`` items of a ranking; higher is better. Call it with a judgement.

    >>> str(Recall(5)), Measure.parse("nDCG@10")
    ('recall@5', NDCG(k=10))
    """

    k: int
    name: ClassVar[str]
    title: ClassVar[str]
    """What it is, for a reader who does not know the name."""

    def __post_init__(self) -> None:
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise InputError(f"{self.name}@{self.k}: use an integer of at least 1")

    def __str__(self) -> str:
        return f"{self.name}@{self.k}"

    def __call__(self, judgement: Judgement) -> float:
        """Return the measure of one question."""
        return self._value(judgement, judgement.ranks(self.k))

    @abstractmethod
    def _value(self, judgement: Judgement, ranks: Mapping[int, int]) -> float:
        """Return the measure; ``ranks`` has the ranks of the gold items that are found."""

    @staticmethod
    def parse(text: str | Measure) -> Measure:
        """Return the measure that a text such as "recall@5" names; a measure is returned as it is.

        Raises
        ------
        InputError
            No measure has this name.
        """
        if isinstance(text, Measure):
            return text
        form = _FORM.fullmatch(text) if isinstance(text, str) else None
        kind = next(
            (measure for measure in MEASURES if form is not None and measure.name == form.group(1).lower()), None
        )
        if form is None or kind is None:
            names = ", ".join(f"{measure.name}@K" for measure in MEASURES)
            raise InputError(f"no measure is named {text!r}: use one of {names}, such as recall@5")
        return kind(int(form.group(2)))


class Recall(Measure):
    """The share of the gold items that are found."""

    name = "recall"
    title = "share of the gold items that are found"

    def _value(self, judgement: Judgement, ranks: Mapping[int, int]) -> float:
        return len(ranks) / len(judgement.grades)


class Precision(Measure):
    """The share of the first ``k`` that are gold. Fewer than ``k`` results count as ``k``."""

    name = "precision"
    title = "share of the first k that are gold"

    def _value(self, judgement: Judgement, _ranks: Mapping[int, int]) -> float:
        return sum(map(bool, judgement.found[: self.k])) / self.k


class NDCG(Measure):
    """Normalised discounted cumulative gain: a gold item found at rank ``r`` counts ``grade / log2(r + 1)``.

    The sum is divided by the sum of the best possible ranking, in which each gold item has a separate rank. It is at
    most 1, also where one passage has several evidence quotes.
    """

    name = "ndcg"
    title = "like recall, with less for lower ranks"

    def _value(self, judgement: Judgement, ranks: Mapping[int, int]) -> float:
        gain = sum(judgement.grades[item] / math.log2(rank + 1) for item, rank in ranks.items())
        best = sorted(judgement.grades, reverse=True)[: self.k]
        return min(1.0, gain / sum(grade / math.log2(rank + 1) for rank, grade in enumerate(best, 1)))


class MRR(Measure):
    """The reciprocal rank: 1 / rank of the first gold item, 0 if none is found."""

    name = "mrr"
    title = "1 / rank of the first gold item"

    def _value(self, _judgement: Judgement, ranks: Mapping[int, int]) -> float:
        return 1 / min(ranks.values(), default=math.inf)


class Success(Measure):
    """1 if any gold item is found. Also called hit rate."""

    name = "success"
    title = "share of questions with any gold item found"

    def _value(self, _judgement: Judgement, ranks: Mapping[int, int]) -> float:
        return float(bool(ranks))


class AllGold(Measure):
    """1 if every gold item is found: what a multi-hop answer needs."""

    name = "all"
    title = "share of questions with every gold item found"

    def _value(self, judgement: Judgement, ranks: Mapping[int, int]) -> float:
        return float(len(ranks) == len(judgement.grades))


MEASURES: tuple[type[Measure], ...] = (Recall, AllGold, NDCG, MRR, Precision, Success)
"""The measures that :meth:`Measure.parse` knows."""
