"""Where output goes: results to stdout, everything else to stderr."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text
from rich.theme import Theme

_THEME = Theme(
    {
        "name": "bold",
        "quiet": "dim",
        "good": "green",
        "bad": "red",
        "graph": "magenta",
        "vector": "cyan",
        "keyword": "yellow",
        "vector.title": "bold cyan",
        "graph.title": "bold magenta",
        "partly": "yellow",
        "question": "bold not dim",
    }
)


def results() -> Console:
    """Return the console for results."""
    return Console(theme=_THEME, highlight=False)


def messages() -> Console:
    """Return the console for progress and problems."""
    return Console(theme=_THEME, highlight=False, stderr=True)


def program() -> str:
    """Return how this program can be run from here."""
    if shutil.which("hybrid-graphrag"):
        return "hybrid-graphrag"
    name = Path(sys.argv[0])
    return shown(str(name.absolute())) if name.stem == "hybrid-graphrag" else "python -m graphrag_core"


def is_watched() -> bool:
    """Say whether somebody sees progress: forced colors do not make a terminal of a file."""
    return sys.stderr.isatty()


def shown(path: str) -> str:
    """Return a path from here if it lies below here, else as it is."""
    here = os.getcwd() + os.sep
    return path.removeprefix(here)


def print_indented(console: Console, text: Text, by: int = 4, first: int | None = None) -> None:
    """Print a text to the right, the first line by ``first`` alone, without spaces at the ends of its lines."""
    for number, line in enumerate(text.wrap(console, max(console.width - by, 20))):
        line.rstrip()
        indent = by if number or first is None else first
        console.print(Text.assemble(" " * indent, line))


def complain(text: str) -> None:
    """Say in one line what went wrong."""
    messages().print(Text.assemble(("✗ ", "bad"), " ".join(text.split())), soft_wrap=True)
