"""Renders a Result as a page, as a picture, and in a notebook.

The page loads nothing from the network, and its Content-Security-Policy allows only its own style and script.
"""

from __future__ import annotations

import base64
import sys
import tempfile
import webbrowser
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from graphrag_apps.page.labels import shorten
from graphrag_apps.page.layout import FONT, layout
from graphrag_apps.page.network import Network, build_network
from graphrag_apps.page.templates import asset, policy, render, valid
from graphrag_core.context.display import Highlighter, HitText, body_text, hit_texts, marked_words, passage_name
from graphrag_core.context.escape import for_terminal

if TYPE_CHECKING:
    from graphrag_core.context.retrieved import Hit, Retrieved

_PACKAGE = "graphrag_apps.page"
_MAX_TITLE = 60
_MAX_SNIPPET = 420
_MAX_PASSAGE = 6_000
_MAX_WORDS = 24
_KINDS = {
    "question": "Question",
    "named": "Name in the question",
    "fact": "Fact",
    "linked": "Name in a fact",
    "passage": "Passage",
}
_HEADINGS = {"question": "", "named": "Names", "fact": "Facts", "linked": "Names", "passage": "Passages"}
_KEY = {
    "path": "path to a passage",
    "match": "text match, no path",
    "link": "linked passages",
}


def page(result: Retrieved) -> str:
    """Return a result as one HTML page: the question, the graph, and a card for each hit.

    Texts of documents, entities and the question are escaped and cannot run. The same result gives
    the same page.
    """
    network = build_network(result)
    css = asset(_PACKAGE, "colours.css", "graph.css", "base.css", "page.css")
    script = asset(_PACKAGE, "page.js")
    edges = [edge for edge in network.edges.values() if edge.kind != "hidden"]
    kinds = {edge.kind if edge.kind in ("match", "link") else "path" for edge in edges}
    notes = {"Route": result.route, "Fallback": result.fallback}
    return _render(
        "page.html", result, network, css=css, script=script, policy=policy(css, script), style=None,
        title=f"Why: {shorten(result.question, _MAX_TITLE)}",
        texts=Highlighter(result),
        decided=_decided(result),
        notes=[(heading, _sentence(text)) for heading, text in notes.items() if text.strip()],
        key=[(kind, text) for kind, text in _KEY.items() if kind in kinds],
        channels=list(dict.fromkeys(name for hit in result.hits for name in hit.channels)),
        shown=hit_texts(result),
        covering=[(rank, hit.covers) for rank, hit in enumerate(result.hits, 1) if hit.covers],
        passage_name=passage_name, whole_text=_whole_text, source=_source, sentence=_sentence, words=marked_words,
        snippet_length=_MAX_SNIPPET, max_words=_MAX_WORDS,
    )  # fmt: skip


def svg(result: Retrieved) -> str:
    """Return the graph alone, as an SVG picture that needs neither the page nor a script."""
    return _render("graph.svg", result, build_network(result), style=asset(_PACKAGE, "colours.css", "graph.css"))


def frame(result: Retrieved, text: str) -> str:
    """Return the page in a sandboxed iframe for a notebook.

    Viewers that remove iframes and styles, such as GitHub's, show the graph as a picture and ``text``
    instead, which are hidden elsewhere.
    """
    picture = base64.b64encode(svg(result).encode()).decode()
    framed = Markup(
        "<style>.hybrid-graphrag-still{{display:none}}</style>"
        '<div class="hybrid-graphrag-still">'
        '<img alt="Graph of the result" src="data:image/svg+xml;base64,{}" width="800"><pre>{}</pre></div>'
        '<iframe srcdoc="{}" sandbox="allow-scripts" title="{}" width="100%" height="680" frameborder="0"'
        ' loading="lazy"></iframe>'
    ).format(picture, valid(text), page(result), valid(f"Why: {result.question}"))
    return str(framed)  # a Markup would escape the text that it is joined with


def show(result: Retrieved, path: str | Path | None, *, browser: bool) -> Path | None:
    """Display the result in a running notebook unless a path is given, else write the page and return its path."""
    ipython = sys.modules.get("IPython")
    if path is None and ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None:
        ipython.display.display(result)
        return None
    if path is None:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="why-", suffix=".html", delete=False) as file:
            file.write(page(result))
        written = Path(file.name)
        sys.stderr.write(for_terminal(f"written to {written}\n"))
    else:
        written = Path(path)
        written.write_text(page(result), "utf-8")
    if browser:
        webbrowser.open(written.resolve().as_uri())
    return written


def _render(template: str, result: Retrieved, network: Network, **values: object) -> str:
    """Render a template that contains the graph."""
    placed = layout(network)
    kinds = {node.column: node.kind for node in reversed(network.nodes.values())}
    columns = [(_HEADINGS[kinds.get(column, "question")], x) for column, x in enumerate(placed.centres)]
    # Paths are drawn over text matches.
    lines = [line for line in placed.lines if line.edge.kind != "hidden"]
    lines.sort(key=lambda line: line.edge.kind != "match")
    return render(
        _PACKAGE, template, result=result, network=network, layout=placed, lines=lines, kinds=_KINDS, font=FONT,
        shorten=shorten, numbers={key: number for number, key in enumerate(network.nodes)},
        headings=[next(group) for heading, group in groupby(columns, key=lambda column: column[0]) if heading],
        **values,
    )  # fmt: skip


def _decided(result: Retrieved) -> str:
    """Return what decided the order of the hits, and how many of them the graph contributed."""
    by_graph = result.counts["graph"]
    were = "was" if by_graph == 1 else "were"
    moved = f"{by_graph} of {len(result.hits)} passages {were} added or moved up by the graph" if by_graph else ""
    return _sentence("; ".join(filter(None, (result.decided, moved))) or "no passage was found")


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def _whole_text(hit: Hit) -> str:
    """Return the text of a passage that is longer than its snippet, cut if it is very long."""
    text = body_text(hit.chunk)
    if len(text) <= _MAX_SNIPPET:
        return ""
    return text if len(text) <= _MAX_PASSAGE else text[:_MAX_PASSAGE].rstrip() + " …"


def _source(shown: HitText) -> str:
    chunk = shown.hit.chunk
    return " · ".join([*([chunk.id] if passage_name(chunk) != chunk.id else []), *shown.place()])
