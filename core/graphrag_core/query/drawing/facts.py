"""The facts that speak for an answer, as a list that can be unfolded."""

from __future__ import annotations

from graphrag_core.model import Fact
from graphrag_core.query.drawing.answer import Answer
from graphrag_core.query.drawing.markup import Markup, tag, together

_MOST = 60


def facts(answer: Answer, left_out: int) -> Markup:
    """Return the facts of an answer, the most telling first, or nothing; ``left_out`` of them are not drawn."""
    if not answer.facts:
        return Markup()
    more = len(answer.facts) - _MOST
    rest = tag("li", f"and {more:,} more") if more > 0 else Markup()
    count = len(answer.facts)
    spoken = "1 fact speaks" if count == 1 else f"{count:,} facts speak"
    undrawn = f" ({left_out:,} of them not drawn)" if left_out else ""
    return tag(
        "details",
        tag("summary", f"{spoken} for this answer{undrawn}"),
        tag("ul", *(_fact(fact, answer) for fact in answer.facts[:_MOST]), rest),
        cls="facts",
    )


def _fact(fact: Fact, answer: Answer) -> Markup:
    names = [answer.known[one].name if one in answer.known else one for one in fact.entities]
    ends = " — ".join([*names, fact.value] if fact.value else names)
    return tag("li", tag("b", ends, dir="auto"), together([" ", tag("span", fact.text, dir="auto")]))
