"""What a drawing says in words."""

from __future__ import annotations

import re
from collections.abc import Iterable

from graphrag_core.query.drawing.answer import Answer
from graphrag_core.query.drawing.label import width
from graphrag_core.query.drawing.markup import Markup, tag, together
from graphrag_core.query.hit import Hit

_LONGEST_MARKED = 200


def names_of(answer: Answer) -> list[str]:
    """Return the names under which a question's entities may stand in a text, the longest first."""
    names = {name.strip() for entity in answer.entities for name in (entity.name, *entity.aliases)}
    return sorted((name for name in names if 1 < len(name) <= _LONGEST_MARKED), key=lambda name: (-len(name), name))


def marked(text: str, names: Iterable[str]) -> Markup:
    """Return a text with every name in it marked.

    >>> marked("Does R&D own it?", ["R&D"])
    'Does <mark>R&amp;D</mark> own it?'
    """
    pattern = "|".join(_whole(name) for name in names)
    if not pattern:
        return together([text])
    pieces = re.split(f"({pattern})", text, flags=re.IGNORECASE)
    return together(tag("mark", piece) if at % 2 else piece for at, piece in enumerate(pieces))


def verdict(answer: Answer) -> str:
    """Return what part the graph had in an answer."""
    if answer.expansion_skipped:
        return _sentence(answer.expansion_skipped)
    if not any("graph" in hit.channels or hit.path for hit in answer.hits):
        return "The graph had no part in this answer."
    alone = sum(hit.origin == "graph" for hit in answer.hits)
    if alone:
        return f"The graph led; {alone} of {len(answer.hits)} passages {_was(alone)} found by it alone."
    return "The graph led."


def remarks(answer: Answer) -> list[tuple[str, str]]:
    """Return what else is to be known, each with a heading."""
    said = [("Route", answer.route), ("Done without", answer.fallback)]
    return [(heading, _sentence(text)) for heading, text in said if text.strip()]


def way(hit: Hit) -> Markup:
    """Return the path to a hit: names, the sentences that join them, and the passage."""
    if not hit.path:
        found = "Found by its words" if {"vector", "keyword"} & hit.channels.keys() else "Found"
        further = "; no single path through the graph leads here" if "graph" in hit.channels else ""
        return tag("p", f"{found}{further}.", cls="way none")
    steps = [
        tag("q", step.text, dir="auto") if step.kind == "fact" else tag("b", step.text, dir="auto", cls="entity")
        for step in hit.path
        if step.kind in ("entity", "fact")
    ]
    return tag("p", together([*steps, tag("b", "this passage")], Markup(' <i aria-hidden="true">→</i> ')), cls="way")


def found_by(hit: Hit) -> str:
    """Return the channels that found a hit, each with its rank."""
    return ", ".join(f"{name} #{channel.rank}" for name, channel in hit.channels.items())


def _whole(name: str) -> str:
    """Return a pattern for a name that is no part of a longer word, in scripts that part words."""
    before, after = (r"" if width(name[at]) >= 1 else edge for at, edge in ((0, r"(?<!\w)"), (-1, r"(?!\w)")))
    return f"{before}{re.escape(name)}{after}"


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _was(count: int) -> str:
    return "was" if count == 1 else "were"
