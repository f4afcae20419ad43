"""One page that explains an answer, and needs nothing beside itself."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from string import Template

from graphrag_core.query.drawing.answer import Answer
from graphrag_core.query.drawing.cards import cards, legend
from graphrag_core.query.drawing.facts import facts
from graphrag_core.query.drawing.graph import graph, key
from graphrag_core.query.drawing.header import footer, header
from graphrag_core.query.drawing.label import shorten
from graphrag_core.query.drawing.markup import Markup, escape, tag
from graphrag_core.query.drawing.network import network

_TITLE = 60


def page(answer: Answer) -> str:
    """Return an answer as an HTML page: the question, the graph around the answer, and the hits.

    The page asks the network for nothing, and its content security policy forbids that it
    could. Only its own style and script run, by their hashes; whatever documents, entities
    or the question hold is text. The same answer gives the same page.
    """
    style, script = asset("colours.css") + asset("graph.css") + asset("page.css"), asset("page.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    count, drawn = len(answer.hits), network(answer)
    return Template(asset("page.html")).substitute(
        policy=policy,
        title=escape(f"Why: {shorten(answer.question, _TITLE)}"),
        style=style,
        script=script,
        header=header(answer),
        graph=graph(answer, drawn),
        key=key(drawn),
        hint=_hint(answer),
        counted=escape(f"{count or 'No'} passage{'' if count == 1 else 's'}"),
        legend=legend(answer),
        cards=cards(answer),
        facts=facts(answer, drawn.left_out),
        footer=footer(answer),
    )


def svg(answer: Answer) -> str:
    """Return the graph alone, as an SVG picture that needs neither page nor script."""
    return graph(answer, network(answer), tag("style", Markup(asset("colours.css") + asset("graph.css"))))


@cache
def asset(name: str) -> str:
    """Return a file that lies beside this one."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _hint(answer: Answer) -> str:
    if not answer.hits:
        return "There is nothing to show the way to."
    return "Point at anything to see what it is. Choose a passage to see the way to it."
