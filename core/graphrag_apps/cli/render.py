"""Print results to stdout and messages to stderr, as text or as JSON."""

import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any

import typer
from rich.console import Console
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text
from rich.theme import Theme
from rich.tree import Tree

from graphrag_core import Hit, Result
from graphrag_core.context import display
from graphrag_core.context.display import Highlighter, HitText
from graphrag_core.context.escape import for_terminal, json_for_terminal, one_line
from graphrag_core.errors import FileError
from graphrag_core.model import Community
from graphrag_core.result import Step

_CHANNELS = {"graph": "magenta", "vector": "cyan", "keyword": "yellow"}
_STYLES = {"title": "bold", "match": "bold", "quiet": "dim", "good": "green", "bad": "red", "partial": "yellow"}
_THEME = Theme({**_STYLES, **_CHANNELS})
_MAX_PASSAGE = 400  # characters
_MAX_FACTS = 8
_PATIENCE = 2.0  # seconds without a sign of life
_SHOWN: list[Console] = []  # the console on which :func:`working` shows something
_UNLIMITED = 100_000  # columns
_STEP_LABELS = {"entity": "", "fact": "fact: ", "chunk": "passage: "}


class SafeConsole(Console):
    """A console that neutralises control characters in text from documents and file names. Strings are not markup."""

    def render(self, renderable: Any, options: Any = None) -> Iterable[Segment]:
        """Yield what is written: everything that is printed passes through here."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(for_terminal(segment.text), segment.style)


stdout = partial(SafeConsole, theme=_THEME, highlight=False, markup=False, emoji=False)  # for results
stderr = partial(stdout, stderr=True)  # for messages


class LogHandler(logging.Handler):
    """Prints the messages of the library's loggers like errors."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message in one line. What a retriever logs is printed with its result."""
        if record.levelno >= logging.WARNING and record.name != "graphrag_core.retriever":
            print_error(record.getMessage())


@contextmanager
def working(what: str, *, show: bool = True) -> Iterator[None]:
    """Show on a terminal what the program does, and for how long, once it has taken two seconds.

    Nothing but errors may be printed meanwhile.
    """
    if not (show and sys.stderr.isatty()) or _SHOWN:
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # slow to import

    columns = SpinnerColumn("line"), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    progress = Progress(*columns, console=stderr(), transient=True, redirect_stdout=False, redirect_stderr=False)
    progress.add_task(what)
    timer = Timer(_PATIENCE, progress.start)
    timer.start()
    _SHOWN.append(progress.console)
    try:
        yield
    finally:
        _SHOWN.clear()
        timer.cancel()
        timer.join()  # it may just be starting
        progress.stop()


def print_error(text: str) -> None:
    """Print an error in one line, above any progress bar."""
    from tqdm import tqdm  # slow to import

    with tqdm.external_write_mode(sys.stderr):
        console = _SHOWN[0] if _SHOWN else stderr()
        console.print(Text.assemble(("✗ ", "bad"), " ".join(text.split())), soft_wrap=True)


def print_errors(texts: Iterable[str]) -> None:
    """Print errors, each in one line, and end the command with the exit code 1 if there are any."""
    errors = list(texts)
    for text in errors:
        print_error(text)
    if errors:
        raise typer.Exit(1)


def print_indented(text: Text | str, indent: int = 4, *, label: Text | None = None) -> None:
    """Print a wrapped and indented text without trailing spaces; a label fills the first line's indent."""
    console = stdout()
    text = Text(text) if isinstance(text, str) else text
    for line in text.wrap(console, max(console.width - indent, 20)):
        line.rstrip()
        prefix = label or Text()
        label = None
        console.print(Text.assemble(prefix, " " * (indent - prefix.cell_len), line))


def print_rows(rows: Sequence[tuple[str, str | Text]]) -> None:
    """Print labels and values in two columns."""
    indent = max(len(label) for label, _ in rows) + 2
    for label, value in rows:
        print_indented(value, indent, label=Text(label, "quiet"))


def print_line(*parts: str | tuple[str, str]) -> None:
    """Print a line, which the terminal wraps: its text can be copied whole. A part may have a style."""
    stdout().print(Text.assemble(*parts), soft_wrap=True)


def print_list(values: Sequence[Any], line: Callable[[Any], str], *, as_json: bool, none: str = "") -> None:
    """Print values, each in a line, or all as JSON. ``none`` is the message if there are none."""
    if as_json:
        print_json(values)
        return
    for value in values:
        print_line(line(value))
    if none and not values:
        print_error(none)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, bold: str | None = None) -> None:
    """Print a table with one column of names and columns of numbers. The row whose name is ``bold`` is bold.

    Its width is limited on a terminal only, so that a file or a pipe gets every cell whole.
    """
    name, *numbers = columns
    right = (Column(number, justify="right", no_wrap=True) for number in numbers)
    table = Table(Column(name, overflow="fold"), *right, box=None, pad_edge=False, header_style="quiet")
    for row in rows:
        table.add_row(*row, style="bold" if row[0] == bold else "")
    console = stdout() if sys.stdout.isatty() else stdout(width=_UNLIMITED)
    console.print(table)


def print_json(value: Any) -> None:
    """Print a value as JSON: indented on a terminal, in one line otherwise. Dataclasses are objects."""

    def plain(value: Any) -> Any:
        return asdict(value) if is_dataclass(value) and not isinstance(value, type) else str(value)

    indent = 2 if sys.stdout.isatty() else None
    text = json_for_terminal(json.dumps(value, ensure_ascii=False, indent=indent, default=plain))
    sys.stdout.write(for_terminal(encodable(text) + "\n"))


def encodable(text: str) -> str:
    """Return a text with question marks for what stdout cannot encode."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "replace").decode(encoding)


def write_page(path: Path, page: str) -> None:
    """Write an HTML page and say so."""
    try:
        path.write_text(page, "utf-8")
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror or error})") from error
    print_line(f"{path} written: open it in a browser")


def program() -> str:
    """Return the command that runs this program."""
    if shutil.which("hybrid-graphrag"):
        return "hybrid-graphrag"
    script = Path(sys.argv[0])
    return relative(str(script.absolute())) if script.stem == "hybrid-graphrag" else "python -m graphrag_apps"


def relative(path: str) -> str:
    """Return a path relative to the working directory if it is inside, otherwise unchanged."""
    return path.removeprefix(os.getcwd() + os.sep)


# -- results


def show_result(result: Result) -> None:
    """Print the hits: section, best sentences, rank in each channel, the path, the link and new words."""
    for note in filter(None, (result.route, result.decided if result.hits else "", result.fallback)):
        print_line((one_line(note), "quiet"))
        print_line()
    if result.hits and result.advice:
        print_line((one_line(result.advice), "partial"))
        print_line()
    for shown in _print_hits(result):
        hit = shown.hit
        print_indented(_ranks(hit) or Text(shown.found, "quiet"))
        if len(hit.path) > 3:
            print_indented(_path_line(shown.path))
        link = "".join(shown.link if len(hit.path) > 3 else display.link_pieces(hit))
        if reason := "; ".join(filter(None, (link, shown.covers))):
            print_indented(Text(one_line(reason), "quiet"))
        if shown.rank < len(result.hits):
            print_line()


def show_explanation(result: Result) -> None:
    """Print the recognised entities, the method, each hit's scores, path, link and new words, and the facts."""
    print_line((result.question, "title"))
    entities = (f"{entity.name} ({entity.type})" if entity.type else entity.name for entity in result.entities)
    rows = [
        ("entities", ", ".join(entities) or "none recognised"),
        ("method", result.method),
        ("route", result.route),
        ("decided", one_line(result.decided)),
        ("gate", result.gate),
        ("graph", one_line(result.expansion_skipped)),
        ("confidence", "" if result.confidence is None else f"{result.confidence:.2f}"),
        ("fallback", result.fallback),
        ("words", one_line(display.uncovered_words(result))),
        ("advice", result.advice if result.hits else ""),
    ]
    print_rows([row for row in rows if row[1]])
    print_line()
    for shown in _print_hits(result, position=True):
        _print_reasons(shown)
    if result.facts:
        print_line(("Supporting facts", "title"))
        for fact in result.facts[:_MAX_FACTS]:
            print_indented(Text(one_line(display.fact_words(result, fact))), label=Text("  ·", "graph"))
        print_line()
    stages = ", ".join(f"{name} {ms:.1f}" for name, ms in result.trace.stages.items())
    print_line((f"{result.trace.total:.1f} ms: {stages}", "quiet"))


def _print_reasons(shown: HitText) -> None:
    """Print the rank and the score of each channel, the path, the link and the new words of a hit."""
    print_indented(_ranks(shown.hit, with_scores=True))
    if shown.path:
        stdout().print(Padding(path_tree((*shown.path, shown.hit.path[-1])), (0, 0, 0, 4)))
    else:
        print_indented(Text(shown.found, "quiet"))
    for note in filter(None, ("".join(shown.link), shown.covers)):
        print_indented(Text(one_line(note), "quiet"))
    print_line()


def _print_hits(result: Result, *, position: bool = False) -> Iterator[HitText]:
    """Print the heading and the best sentences of each hit, then yield the hit in words."""
    texts = Highlighter(result)
    for shown in display.hit_texts(result):
        chunk = shown.hit.chunk
        name = one_line(display.section(chunk))
        label, title = (f"{shown.rank:>2}  ", "quiet"), (f"{name}  " if name else "", "title")
        print_line(label, title, (", ".join([one_line(chunk.id), *shown.place(offset=position)]), "quiet"))
        print_indented(snippet(texts, shown.hit))
        yield shown


def _ranks(hit: Hit, *, with_scores: bool = False) -> Text:
    """Return the rank of a hit in each channel."""
    ranks = []
    for name, channel in ((name, hit.channels[name]) for name in _CHANNELS if name in hit.channels):
        rank = display.rank_text(channel) if with_scores else f"#{channel.rank}"
        ranks.append(Text.assemble((name, name), (f" {rank}", "quiet")))
    return Text(" · ").join(ranks)


def print_communities(communities: Sequence[Community]) -> None:
    """Print communities: name, size and further names."""
    for community in communities:
        title = Text.assemble((one_line(community.name), "title"), (f"  {community.entities:,} entities", "quiet"))
        print_indented(title, 0)
        if more := one_line(", ".join(community.names[3:])):
            print_indented(Text(more, "graph"), 2)


def snippet(texts: Highlighter, hit: Hit) -> Text:
    """Return the sentences of a passage that match the question best, with names and words of the question marked."""
    pieces = texts.pieces(texts.snippet(hit, _MAX_PASSAGE))
    return Text.assemble(*((piece, "match" if marked else "") for piece, marked in pieces))


def path_tree(path: tuple[Step, ...], *leaves: Text) -> Tree:
    """Return steps as a tree, each below the previous one, and ``leaves`` below the last."""
    branch = tree = Tree(_step_text(path[0]), guide_style="quiet")
    for step in path[1:]:
        branch = branch.add(_step_text(step))
    for leaf in leaves:
        branch.add(leaf)
    return tree


def result_to_dict(result: Result) -> dict[str, Any]:
    """Return a result for :func:`print_json`."""
    texts = Highlighter(result)
    names = ("question", "method", "route", "decided", "gate", "expansion_skipped", "fallback", "uncovered", "counts")
    return {
        **{name: getattr(result, name) for name in (*names, "advice", "entities")},
        **({} if result.confidence is None else {"confidence": round(result.confidence, 4)}),
        "hits": [
            {"rank": rank, "snippet": texts.snippet(hit, _MAX_PASSAGE), **hit.to_dict()}
            for rank, hit in enumerate(result.hits, 1)
        ],
        "facts": [
            {"entities": f.entities, "relation": f.relation, "text": f.text, "weight": f.weight, "chunk": f.chunk_id}
            for f in result.facts
        ],
        "milliseconds": {name: round(ms, 3) for name, ms in result.trace.stages.items()},
    }


def _path_line(steps: tuple[Step, ...]) -> Text:
    line = Text()
    for step in steps:
        if step.kind == "fact":
            line.append(f" — {' '.join(step.text.split())} → ", "quiet")
        else:
            line.append(step.text, "graph")
    return line


def _step_text(step: Step) -> Text:
    text = " ".join(step.text.split())
    return Text.assemble((_STEP_LABELS.get(step.kind, ""), "quiet"), (text, "graph" if step.kind == "entity" else ""))
