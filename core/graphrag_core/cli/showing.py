"""Hits as a person reads them."""

from __future__ import annotations

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from graphrag_core import Hit, Result, Step
from graphrag_core.cli.terminal import print_indented
from graphrag_core.text import unwrap

CHANNELS = ("graph", "vector", "keyword")
_SHOWN = 320  # characters of a passage


def show_result(result: Result, console: Console) -> None:
    """Print the hits: title, passage, who found it, and the way through the graph."""
    for remark in (result.route, result.fallback):
        if remark:
            console.print(Text(remark, "quiet"))
            console.print()
    for rank, hit in enumerate(result.hits, 1):
        if rank > 1:
            console.print()
        console.print(_heading(rank, hit))
        print_indented(console, Text(body(hit)))
        print_indented(console, _found_by(hit))
        if way := route(hit.path):
            print_indented(console, way)


def _heading(rank: int, hit: Hit) -> RenderableType:
    line = Table.grid(expand=True, padding=(0, 1, 0, 0))
    line.add_column(width=3, justify="right")
    line.add_column(ratio=1, overflow="ellipsis", no_wrap=True)
    line.add_column(justify="right", overflow="ellipsis", no_wrap=True, max_width=40)
    title = hit.chunk.title or hit.chunk.id
    line.add_row(Text(str(rank), "quiet"), Text(title, "name"), Text(hit.chunk.id, "quiet"))
    return line


def body(hit: Hit, longest: int = _SHOWN) -> str:
    """Return a passage in one paragraph, without the title it begins with."""
    text = hit.chunk.text.strip()
    first, _, rest = text.partition("\n")
    if rest.strip() and first.strip("#=*_ \t") == hit.chunk.title:
        text = rest.lstrip("=-~^*\n ")
    text = " ".join(unwrap(text).split())
    return text if len(text) <= longest else text[:longest].rsplit(" ", 1)[0] + " …"


def _found_by(hit: Hit) -> Text:
    found = Text()
    for name in CHANNELS:
        if (channel := hit.channels.get(name)) is not None:
            found.append(" · " if found else "")
            found.append(name, name)
            found.append(f" #{channel.rank}", "quiet")
    return found


def route(path: tuple[Step, ...]) -> Text | None:
    """Return a path in one line: what is named, what is said, what is reached."""
    steps = path[1:-1]
    if len(steps) < 2:
        return None
    line = Text()
    for step in steps:
        if step.kind == "fact":
            line.append(f" — {' '.join(step.text.split())} → ", "quiet")
        else:
            line.append(step.text, "graph")
    return line
