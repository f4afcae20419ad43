"""What commands print: results on stdout, messages on stderr; nothing in a text of a document acts on the terminal."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from graphrag_core.context.escape import for_terminal, json_for_terminal
from graphrag_core.errors import FileError


class _SafeConsole(Console):
    """A console that removes control characters from all it shows, and reads no markup."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, markup=False, highlight=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield segments without control characters; styles are added to them later."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(for_terminal(segment.text), segment.style)


def stdout() -> Console:
    """Return the console of results."""
    return _SafeConsole()


def stderr() -> Console:
    """Return the console of messages."""
    return _SafeConsole(stderr=True)


def line(*parts: str | tuple[str, str]) -> None:
    """Print a line that is not wrapped, so that ids stay whole. A part may have a style."""
    stdout().print(Text.assemble(*parts), soft_wrap=True)


def wrapped(text: Text | str, indent: int = 4) -> None:
    """Print a text in indented lines that fit the terminal."""
    console = stdout()
    text = Text(text) if isinstance(text, str) else text
    for one in text.wrap(console, max(console.width - indent, 20)):
        one.rstrip()
        console.print(Text(" " * indent) + one, soft_wrap=True)


def rows(pairs: Iterable[tuple[str, str]]) -> None:
    """Print labels and values."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for label, value in pairs:
        table.add_row(Text(label, "bold"), value)
    stdout().print(table)


def table(columns: Sequence[str], lines: Iterable[Sequence[str | Text]]) -> None:
    """Print a table with right-aligned numbers."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for at, name in enumerate(columns):
        shown.add_column(name, justify="left" if at == 0 else "right")
    for cells in lines:
        shown.add_row(*cells)
    stdout().print(shown)


def as_json(value: Any) -> None:
    """Print JSON: one line if it is piped."""
    text = json.dumps(value, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None)
    sys.stdout.write(f"{json_for_terminal(text)}\n")


def listing(values: Sequence[Any], show: Callable[[Any], str], *, json: bool, none: str = "") -> None:
    """Print dataclasses as lines or as JSON; without any a message on stderr."""
    if json:
        as_json([asdict(value) for value in values])
    elif not values and none:
        error(none)
    else:
        for value in values:
            line(show(value))


def error(text: str, *, mark: str = "✗ ") -> None:
    """Print a message on stderr, in one line."""
    stderr().print(Text.assemble((mark, "bold red"), " ".join(text.splitlines())), soft_wrap=True)


class LogHandler(logging.Handler):
    """Prints warnings of the library as messages."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record."""
        error(record.getMessage(), mark="! ")


@contextmanager
def working(what: str) -> Iterator[None]:
    """Show on a terminal what takes long."""
    with stderr().status(f"{what} ..."):
        yield


def write(path: Path, text: str) -> None:
    """Write a page."""
    try:
        path.write_text(text, "utf-8")
    except OSError as problem:
        raise FileError(f"{path}: cannot be written ({problem.strerror or problem})") from problem
    line(f"{path} written")
