"""The hits, one card each: what was found, who found it, and along which path."""

from __future__ import annotations

from collections.abc import Mapping

from graphrag_core.query.drawing.answer import Answer
from graphrag_core.query.drawing.markup import Markup, tag, together
from graphrag_core.query.drawing.network import passage_name
from graphrag_core.query.drawing.words import marked, names_of, way
from graphrag_core.query.hit import Channel, Hit

_LONGEST_PASSAGE = 1_500
_COLOURED = frozenset({"vector", "keyword", "graph"})


def cards(answer: Answer) -> Markup:
    """Return the hits of an answer, best first, or a word that there is none."""
    if not answer.hits:
        return tag("p", "No passage was found.", cls="empty")
    names = names_of(answer)
    return tag("ol", *(_card(rank, hit, names) for rank, hit in enumerate(answer.hits, 1)), cls="hits")


def legend(answer: Answer) -> Markup:
    """Return the colour of each channel that found something."""
    found = dict.fromkeys(name for hit in answer.hits for name in hit.channels)
    return tag("p", *(tag("span", tag("i", cls=_colour(name)), name) for name in found), cls="legend")


def _card(rank: int, hit: Hit, names: list[str]) -> Markup:
    alone = tag("span", "only the graph found it", cls="alone") if hit.origin == "graph" else ""
    asked = tag("p", "Found by asking ", tag("q", hit.graph_expansion, dir="auto")) if hit.graph_expansion else ""
    return tag(
        "li",
        tag(
            "button",
            tag("span", str(rank), cls="rank"),
            tag("span", passage_name(hit), cls="name", dir="auto"),
            tag("span", f"{hit.score:.3g}", cls="score", title="score"),
            type="button",
            cls="pick",
            aria_pressed="false",
            title="Show the way to it",
        ),
        alone,
        way(hit),
        asked,
        tag("p", marked(_body(hit), names), cls="text", dir="auto"),
        _shares(hit.channels),
        tag("p", *(_channel(name, channel) for name, channel in hit.channels.items()), cls="channels"),
        tag("p", hit.chunk.id, cls="source", title="the passage's id", dir="auto") if _told(hit) else "",
        cls="hit",
        data_hits=rank,
    )


def _told(hit: Hit) -> bool:
    return passage_name(hit) != hit.chunk.id


def _body(hit: Hit) -> str:
    """Return a passage without the heading that repeats its title."""
    first, _, rest = hit.chunk.text.strip().partition("\n")
    text = rest.strip() if rest.strip() and first.strip("# \t\r") == hit.chunk.title.strip() else hit.chunk.text.strip()
    return text if len(text) <= _LONGEST_PASSAGE else text[:_LONGEST_PASSAGE].rstrip() + " …"


def _shares(channels: Mapping[str, Channel]) -> Markup:
    """Return a bar as wide as the card, divided as the channels share a hit's place."""
    shares = [(name, max(0.0, channel.share)) for name, channel in channels.items()]
    total = sum(share for _, share in shares)
    if not total > 0:
        return Markup()
    bars, at = [], 0.0
    for name, share in shares:
        part = 100 * share / total
        bars.append(tag("rect", x=at, y="0", width=part, height="6", cls=_colour(name)))
        at += part
    said = ", ".join(f"{name} {100 * share / total:.0f} %" for name, share in shares)
    return tag(
        "svg",
        *bars,
        cls="shares",
        viewBox="0 0 100 6",
        preserveAspectRatio="none",
        role="img",
        aria_label=f"Shares: {said}",
    )


def _channel(name: str, channel: Channel) -> Markup:
    share = f" · {100 * channel.share:.0f} %" if channel.share > 0 else ""
    detail = tag("span", f" {channel.score:.3g}{share}", cls="detail")
    return tag("span", tag("i", cls=_colour(name)), together([name, " ", tag("b", f"#{channel.rank}"), detail]))


def _colour(name: str) -> str:
    return f"channel {name if name in _COLOURED else 'other'}"
