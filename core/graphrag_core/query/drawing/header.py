"""What stands above and below the drawing: the question, how it was answered, and how long that took."""

from __future__ import annotations

from graphrag_core.query.drawing.answer import Answer
from graphrag_core.query.drawing.markup import Markup, tag, together
from graphrag_core.query.drawing.words import marked, names_of, remarks, verdict

_MOST_CHIPS = 12


def header(answer: Answer) -> Markup:
    """Return the question, what it names, the method, the confidence and what the graph did."""
    facing = tag(
        "div",
        tag("p", *_named(answer)),
        tag("p", "Method", tag("strong", answer.method)),
        _confidence(answer),
        tag("p", verdict(answer)),
        cls="facing",
    )
    said = [
        tag("p", tag("strong", f"{heading}: "), text, cls="remark", dir="auto") for heading, text in remarks(answer)
    ]
    return together([tag("h1", marked(answer.question, names_of(answer)), dir="auto"), facing, *said])


def footer(answer: Answer) -> Markup:
    """Return how long each stage took."""
    stages = answer.trace.stages
    if not stages:
        return Markup()
    each = " · ".join(f"{name} {spent:.1f}" for name, spent in stages.items())
    return together([f"{answer.trace.total:.1f} ms: {each}"])


def _named(answer: Answer) -> list[Markup]:
    if not answer.entities:
        return [together(["It names nothing that the index knows"])]
    chips = [tag("span", e.name, cls="chip", title=e.type or None, dir="auto") for e in answer.entities[:_MOST_CHIPS]]
    more = len(answer.entities) - len(chips)
    return [together(["It names"]), *chips, *([together([f"and {more} more"])] if more > 0 else [])]


def _confidence(answer: Answer) -> Markup:
    width = 100 * max(0.0, min(answer.confidence, 1.0))
    bar = tag(
        "svg",
        tag("rect", x="0", y="0", width=width, height="6"),
        viewBox="0 0 100 6",
        preserveAspectRatio="none",
        aria_hidden="true",
    )
    says = "How far the graph can be trusted with this question, from 0 to 1"
    return tag("p", "Confidence", bar, tag("strong", f"{answer.confidence:.2f}"), cls="meter", title=says)
