"""Write a document's text and its marks together, so that every offset is right by construction.

Readers of formats other than Markdown say what they found (a heading, an item, a link), and the
writer renders it as light Markdown. Targets, anchors and terms go into marks, not into the text.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from graphrag_core.errors import FileError
from graphrag_core.model import Mark, MarkKind
from graphrag_core.text.content import Content

_SPACES = re.compile(r"\s+")
_CJK = "\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef"
_CJK_LINE_BREAK = re.compile(rf"(?<=[{_CJK}])[ \t]*\n\s*(?=[{_CJK}])")
_BACKTICKS = re.compile(r"`+")
_OPTION = re.compile(r"(--?[A-Za-z0-9][\w.-]*)(?=$|[\s=,<\[])")
_CALL = re.compile(r"([A-Za-z_][\w.:]*)\s*\(.*\)")
_MAX_TEXT = 100_000_000  # characters of one document
_LONGEST_LINE = 10_000  # characters in which the name of a term is looked for
_MAX_DEPTH = 64  # of nested items whose lines are indented
_Cell = TypeVar("_Cell")
_LOOKS_LIKE_A_BLOCK = re.compile(r"(?=#{1,6}(?:\s|$)|```|~~~)")


def defined_name(term: str) -> str:
    """Return the name in what a definition defines: an option without its values, a function without its arguments.

    >>> defined_name("abs(X)"), defined_name("--log-level=<level> [default: info]"), defined_name("visibility timeout")
    ('abs', '--log-level', 'visibility timeout')
    """
    match = _OPTION.match(term) or _CALL.fullmatch(term)
    return match[1] if match else term


def fence_of(code: str) -> str:
    """Return the line before and after a code block: more backticks than the code has in a row."""
    return "`" * max([3, *(len(run) + 1 for run in _BACKTICKS.findall(code))])


@dataclass
class _Span:
    """A mark whose end is not written yet. ``start`` is set by the first character inside."""

    kind: MarkKind
    value: str
    start: int = -1


@dataclass
class _Indent:
    """What the lines of an item start with. ``first`` is empty once it is written."""

    first: str
    rest: str
    is_written: bool = False


class Writer:
    r"""Builds light Markdown and its marks.

    >>> writer = Writer()
    >>> with writer.heading(1):
    ...     writer.write("Broker settings")
    >>> writer.anchor("broker_url")
    >>> with writer.item("- "):
    ...     writer.write("See  the\n")
    ...     with writer.span("link", "guide.html#url"):
    ...         writer.write(" guide")
    ...     writer.write(".")
    >>> content = writer.finish()
    >>> content.text
    '# Broker settings\n\n- See the guide.'
    >>> [(mark.kind, mark.value, content.text[mark.start : mark.end]) for mark in content.marks]
    [('anchor', 'broker_url', ''), ('link', 'guide.html#url', 'guide')]
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._marks: list[Mark] = []
        self._breaks = 0  # line breaks due before the next character
        self._space = False  # a space is due before the next character
        self._line_is_empty = True
        self._indents: list[_Indent] = []
        self._spans: list[_Span] = []
        self._points: dict[tuple[MarkKind, str], None] = {}  # pages and anchors that start with the next character
        self._terms: list[str] = []
        self._terms_of_lines: list[tuple[int, str]] = []
        self._page = 0
        self._one_line = 0  # inside a heading or a table cell
        self._in_cell = False

    # -- inline

    def write(self, text: str) -> None:
        """Write inline text; white space becomes single spaces."""
        if not text.isascii():
            text = _CJK_LINE_BREAK.sub("", text)
        words = _SPACES.sub(" ", text)
        if words[:1] == " ":
            self._space = True
            words = words[1:]
        if not words:
            return
        trailing = words[-1] == " "
        words = words.rstrip(" ")
        if self._in_cell:
            words = words.replace("|", "\\|")
        elif self._line_is_empty and not self._one_line:
            words = _LOOKS_LIKE_A_BLOCK.sub(r"\\", words, count=1) if words[0] in "#`~" else words
        self._put(words)
        self._space = trailing

    def literal(self, text: str) -> None:
        """Write inline code."""
        code = _SPACES.sub(" ", text).strip()
        if not code:
            return
        if self._in_cell:
            code = code.replace("|", "\\|")
        if self._pieces and not self._line_is_empty and self._pieces[-1].endswith("`"):
            self._space = True
        runs = {len(run) for run in _BACKTICKS.findall(code)}
        ticks = "`" * next(count for count in range(1, len(runs) + 2) if count not in runs)
        edge = " " if code[0] == "`" or code[-1] == "`" else ""
        self._put(f"{ticks}{edge}{code}{edge}{ticks}")

    @contextmanager
    def span(self, kind: MarkKind, value: str) -> Iterator[None]:
        """Mark what is written inside, without spaces around it; nothing if nothing is."""
        span = _Span(kind, value)
        self._spans.append(span)
        yield
        self._spans.pop()
        if 0 <= span.start < self._length:
            self._marks.append(Mark(span.kind, span.start, self._length, span.value))

    def anchor(self, name: str) -> None:
        """Let links lead to what is written next. At the start of a line, that is the line."""
        if name:
            self._points.setdefault(("anchor", name))

    def define(self, name: str) -> None:
        """Say that the line written next names what is defined there."""
        self._terms.append(name)

    def page(self, number: int) -> None:
        """Continue on a page. What is written next starts it; a page without text has no mark."""
        if number != self._page:
            self._page = number
            self._points = {point: None for point in self._points if point[0] != "page"}
            self._points["page", str(number)] = None

    # -- blocks

    def block(self) -> None:
        """End the line; a blank line precedes what is written next."""
        self._break(2)

    def line(self) -> None:
        """End the line."""
        self._break(1)

    @contextmanager
    def paragraph(self) -> Iterator[None]:
        """Separate what is written inside from what surrounds it."""
        self.block()
        yield
        self.block()

    @contextmanager
    def heading(self, level: int) -> Iterator[None]:
        """Write a heading. Inside an item or a cell it is an ordinary line, since it starts no section."""
        prefix = "" if self._indents or self._one_line else "#" * min(max(level, 1), 6) + " "
        with self.paragraph():
            self._indents.append(_Indent(prefix, ""))
            self._one_line += 1
            yield
            self._one_line -= 1
            self._indents.pop()

    @contextmanager
    def item(self, marker: str) -> Iterator[None]:
        """Write an item of a list, or with the marker ``": "`` a definition. More lines are indented."""
        self.line()
        if marker == ": ":
            self._breaks = min(self._breaks, 1)  # a definition stands below its term
        is_shallow = len(self._indents) < _MAX_DEPTH  # else the text would grow with the square of the depth
        self._indents.append(_Indent(marker, " " * len(marker)) if is_shallow else _Indent("", ""))
        yield
        self._indents.pop()
        self.line()
        self._breaks = min(self._breaks, 1)  # items follow each other without blank lines

    @contextmanager
    def items(self) -> Iterator[None]:
        """Separate a list from what surrounds it; a list inside an item follows without a blank line."""
        separate = self.line if self._indents else self.block
        separate()
        yield
        separate()

    def row(self, cells: Iterable[_Cell], write: Callable[[_Cell], object]) -> None:
        """Write a row of a table. ``write`` writes a cell; blocks inside are joined by spaces."""
        self.line()
        outer, self._in_cell = self._in_cell, True
        self._one_line += 1
        for cell in cells:
            self._put("|")
            self._space = True
            write(cell)
            self._space = True
        self._one_line -= 1
        self._in_cell = outer
        self._put("|")
        self.line()

    def rule(self, columns: int) -> None:
        """Write the line between the header of a table and its rows."""
        self.line()
        self._put("|" + "---|" * columns)
        self.line()

    def code(self, text: str, language: str = "") -> None:
        """Write a code block, with its indentation."""
        lines = text.expandtabs(4).rstrip().split("\n")
        while lines and not lines[0].strip():
            del lines[0]
        if not lines:
            return
        if self._one_line:
            self.literal(" ".join(lines))
            return
        if self._indents and self._indents[-1].first == ": ":  # Markdown knows no code after this marker
            self._indents[-1].is_written = True
        fence = fence_of(text)
        with self.paragraph():
            self._put(fence + language)
            for line in lines:
                self._breaks += 1
                if stripped := line.rstrip():
                    self._put(stripped)
            self.line()
            self._put(fence)

    def finish(self, title: str = "", metadata: Mapping[str, Any] | None = None, key: str = "") -> Content:
        """Return the text and its marks, in order, with what else is known of it."""
        text = "".join(self._pieces)
        self._points = {point: None for point in self._points if point[0] != "page"}
        self._mark_points()
        ends: dict[int, int] = {}
        for start, name in self._terms_of_lines:
            if start not in ends:
                ends[start] = text.find("\n", start) % (len(text) + 1)
            end = ends[start]
            offset = text.find(name, start, min(end, start + _LONGEST_LINE))
            place = (offset, offset + len(name)) if offset >= 0 else (start, end)
            self._marks.append(Mark("term", *place, name))
        kept = dict.fromkeys(mark for mark in self._marks if mark.start <= len(text))
        marks = tuple(sorted(kept, key=lambda mark: (mark.start, mark.end)))
        return Content(text, title, metadata or {}, key, marks=marks)

    # -- characters

    def _break(self, count: int) -> None:
        if self._one_line:
            self._space = True
            return
        self._space = False
        if self._indents and not self._indents[-1].is_written:
            return  # what follows belongs on the line of its marker
        if self._length:
            self._breaks = max(self._breaks, count)
        self._line_is_empty = True

    def _put(self, text: str) -> None:
        """Append characters, after the line breaks, indentation or space that are due."""
        if self._breaks and self._length:
            self._append("\n" * self._breaks)
            self._line_is_empty = True
        self._breaks = 0
        if self._space and not self._line_is_empty:
            self._append(" ")
        self._mark_points()
        if self._line_is_empty:
            for indent in self._indents:
                self._append(indent.rest if indent.is_written else indent.first)
                indent.is_written = True
            self._terms_of_lines.extend((self._length, name) for name in self._terms)
            self._terms.clear()
        self._space = False
        for span in self._spans:
            if span.start < 0:
                span.start = self._length
        self._append(text)
        self._line_is_empty = False

    def _mark_points(self) -> None:
        self._marks.extend(Mark(kind, self._length, self._length, value) for kind, value in self._points)
        self._points.clear()

    def _append(self, text: str) -> None:
        if text:
            self._pieces.append(text)
            self._length += len(text)
            if self._length > _MAX_TEXT:
                raise FileError(f"has more than {_MAX_TEXT:,} characters of text: split it")
