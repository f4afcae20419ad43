"""The page in a notebook, where it must neither disturb nor trust its surroundings."""

from __future__ import annotations

import base64
import sys
import tempfile
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Any

from graphrag_core.query.drawing.answer import Answer
from graphrag_core.query.drawing.markup import Markup, tag, together
from graphrag_core.query.drawing.page import page, svg

_HEIGHT = 680


def frame(answer: Answer, plain: str) -> str:
    """Return the page in a sandboxed frame of its own.

    Viewers that show no frames and strip styles, as GitHub's does, show what is hidden
    elsewhere: the drawing as a still picture and ``plain``, the answer in words.
    """
    picture = base64.b64encode(svg(answer).encode()).decode()
    still = tag(
        "div",
        tag("img", alt="The graph around the answer", src=f"data:image/svg+xml;base64,{picture}", width="800"),
        tag("pre", plain),
        cls="hybrid-graphrag-still",
    )
    framed = tag(
        "iframe",
        srcdoc=page(answer),
        sandbox="allow-scripts",
        title=f"Why: {answer.question}",
        width="100%",
        height=str(_HEIGHT),
        frameborder="0",
        loading="lazy",
    )
    return together([tag("style", Markup(".hybrid-graphrag-still{display:none}")), still, framed])


def show(answer: Answer, path: str | Path | None, *, browser: bool) -> Path | None:
    """Display a page in a running notebook, or write it to a file and return where."""
    display = _display()
    if display is not None and path is None:
        display(answer)
        return None
    if path is None:
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="why-", suffix=".html", delete=False) as file:
            file.write(page(answer))
        written = Path(file.name)
        sys.stderr.write(f"written to {written}\n")
    else:
        written = Path(path)
        written.write_text(page(answer), "utf-8")
    if browser:
        webbrowser.open(written.resolve().as_uri())
    return written


def _display() -> Callable[[Any], object] | None:
    """Return what displays a value, if this runs in a notebook (and not in a terminal's IPython)."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if ipython is None or getattr(shell, "kernel", None) is None:
        return None
    display: Callable[[Any], object] = ipython.display.display
    return display
