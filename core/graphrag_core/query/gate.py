"""How far the graph can be trusted with a question."""

from __future__ import annotations

from dataclasses import dataclass

from graphrag_core.query.fuse import Lead

VECTOR_ONLY = 0.5
"""The confidence of a result that the graph had no part in."""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Decides whether the graph runs, whether it leads, and how weak its passages may be.

    By default it changes the mixture only: as many passages come back as were asked for.

    Parameters
    ----------
    min_confidence
        Below this the graph does not run at all. 0 lets it always run; :meth:`strict` takes 0.5.
    min_graph_score
        What the graph brings with less strength (0 to 1) is left to plain search; :meth:`strict`
        takes 0.3. A strategy's own threshold comes on top.
    needs_entity
        True keeps the graph from running when the question names nothing that is known.
    least_bridged
        The share of passages that must mention what another is about for the graph to add
        to the first results where it does not lead. Passages whose titles nothing else
        mentions, such as abstracts of papers, give it nothing to follow.
    """

    min_confidence: float = 0.0
    min_graph_score: float = 0.0
    needs_entity: bool = False
    least_bridged: float = 0.1

    @classmethod
    def strict(cls) -> Gate:
        """Return a gate that would rather leave the graph out than let noise in."""
        return cls(min_confidence=0.5, min_graph_score=0.3, needs_entity=True)

    def skipped(self, confidence: float, entities: int) -> str:
        """Return why the graph must not run, or nothing."""
        if confidence < self.min_confidence:
            return f"the graph was skipped: confidence {confidence:.2f} is below {self.min_confidence:.2f}"
        if self.needs_entity and not entities:
            return "the graph was skipped: the question names nothing that is known"
        return ""

    def lead(self, *, names_subject: bool, bridged: float) -> tuple[Lead, str]:
        """Return which ranking leads, and why if it is not the graph's."""
        if names_subject:
            return "graph", ""
        if bridged >= self.least_bridged:
            return "both", "plain search leads: the question names nothing that a passage is about"
        return "plain", "plain search leads: hardly any passage mentions what another is about"


def confidence(question: str, entities: int, best_similarity: float) -> float:
    """Return 0.3 · specificity + 0.3 · recognition + 0.4 · quality of the best vector hit.

    Specificity is the length in characters over 100, at most 1; recognition is 1 when the
    question names an entity and 0.5 when not.

    >>> round(confidence("x" * 50, 1, 0.8), 2)
    0.77
    """
    specificity = min(len(question) / 100, 1.0)
    recognition = 1.0 if entities else 0.5
    return 0.3 * specificity + 0.3 * recognition + 0.4 * max(0.0, min(best_similarity, 1.0))
