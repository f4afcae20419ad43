"""Read reStructuredText with docutils, including what Sphinx and its extensions add to it.

docutils parses; this module answers for every directive and role, so that none is unknown. What
they mean is decided in :mod:`~graphrag_core.documents.rst_text`, which writes the tree. No file is opened
and no raw HTML is read.
"""

from __future__ import annotations

import functools
import gc
import re
import threading
from collections.abc import Callable
from typing import Any

from graphrag_core.documents.content import Content, decode_lines
from graphrag_core.documents.rst_text import ADMONITIONS, CODE, SKIPPED, write_rst
from graphrag_core.documents.writer import Writer
from graphrag_core.errors import optional_import

_LONGEST_LINE = 10_000  # characters
_BLOCK = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*+|:]|\d{1,4}[.)]|\.\.)[ \t\w])")
_NESTED_ITEMS = re.compile(r"^[ \t]*(?:(?:[-*+•‣⁃]|\(?\w{1,4}[.)])[ \t]+){12}", re.MULTILINE)  # on one line
_MOST_STEPS = 300, 5_000_000  # for each character of a text, and beside; see _is_parsable
_UNDERLINED = re.compile(r"^(?=\S)(.{2,})\n([=\-~^\"'`*+#.:_])\2{2,}[ \t]*$", re.MULTILINE)
_DIRECTIVE_OR_ROLE = re.compile(
    r"^[ \t]*\.\. (?:[\w:+-]+::|_[^\n:]+:)|(?<![\w`]):[a-z][\w:-]{0,60}:`[^`\n]+`", re.MULTILINE
)

_OPTION = re.compile(r":[A-Za-z_][\w -]*:(?:\s|$)")
_BUILT_IN = set("table csv-table list-table replace unicode date".split())
"""Directives that docutils runs itself."""


def is_rst(text: str) -> bool:
    r"""Whether a text without a telling extension is reStructuredText: underlined headings and markup.

    >>> is_rst("Usage\n=====\n\nRead :ref:`this <that>`.\n"), is_rst("Usage\n=====\n\nJust run it.\n")
    (True, False)
    """
    sample = text[:100_000]
    return _UNDERLINED.search(sample) is not None and _DIRECTIVE_OR_ROLE.search(sample) is not None


def read_rst(data: bytes) -> Content:
    """Read reStructuredText. Links, labels and defined names become marks."""
    return rst_content(decode_lines(data))


def rst_content(text: str) -> Content:
    """Parse a text as reStructuredText. A text that docutils cannot parse is kept as it is.

    So is one for which its time would be quadratic: with lines of more than 10,000 characters, with many items nested
    on one line, or with long paragraphs that are full of inline markup.
    """
    with optional_import("docutils", "files", "Reading reStructuredText"):
        parse = _parser()
    if not _is_parsable(text):
        return _as_it_is(text)
    writer = Writer()
    collects = gc.isenabled()
    gc.disable()  # a tree has many objects, and they live until it is written
    try:
        document = parse(text)
        title = write_rst(document, writer, parse)
    except (RecursionError, ValueError, TypeError, AttributeError, AssertionError, IndexError, KeyError):
        return _as_it_is(text)  # docutils is not free of defects on malformed input
    finally:
        if collects:
            gc.enable()
    body, marks = writer.finish()
    return Content(body, title, marks=marks)


def _is_parsable(text: str) -> bool:
    """Return whether docutils takes about linear time: it looks for the end of inline markup to the end of a block."""
    if max(map(len, text.splitlines()), default=0) > _LONGEST_LINE or _NESTED_ITEMS.search(text):
        return False
    steps = sum(len(block) * (block.count("`") + block.count("*")) for block in _BLOCK.split(text))
    return steps <= _MOST_STEPS[0] * len(text) + _MOST_STEPS[1]


def _as_it_is(text: str) -> Content:
    """Return the source, which is better than nothing."""
    heading = _UNDERLINED.search(text)
    return Content(text, heading[1].strip() if heading else "")


@functools.cache
def _parser() -> Callable[[str], Any]:  # noqa: C901 - classes of docutils, which may not be installed
    """Return a function that parses a text into a docutils tree. Settings are made once: they are slow."""
    from docutils import nodes
    from docutils.frontend import get_default_settings
    from docutils.parsers import rst
    from docutils.parsers.rst import directives, states
    from docutils.utils import new_document

    class Directive(rst.Directive):  # type: ignore[misc]
        """Handles every directive name with any arguments and options, so that unknown directives do not fail."""

        has_content = True

        def run(self) -> list[nodes.Node]:
            node = nodes.container(directive=self.name.lower())
            argument, content = self._split()
            node["argument"] = argument
            name = self.name.lower().rpartition(":")[2]
            if name in SKIPPED:
                return []
            if name in CODE:
                node["code"] = "\n".join(content)
            elif name == "glossary":
                self._parse_glossary(content, node)
            elif content:
                self._parse(content, node)
            return [node]

        def _parse_glossary(self, content: Any, node: Any) -> None:
            """Parse terms, which may share a definition, and their definitions, which are indented."""
            glossary = nodes.definition_list()
            start = 0
            while start < len(content):
                end = next((i for i in range(start, len(content)) if content[i][:1].isspace()), len(content))
                after = next((i for i in range(end, len(content)) if content[i][:1].strip()), len(content))
                item = nodes.definition_list_item()
                terms = (line.partition(" : ")[0] for line in content[start:end] if line.strip()[:3] not in ("", ".. "))
                item += [nodes.term("", "", *self.state.inline_text(line, self.lineno)[0]) for line in terms]
                definition = nodes.definition()
                block = content[end:after]
                block.trim_left(min((len(line) - len(line.lstrip()) for line in block if line.strip()), default=0))
                self._parse(block, definition)
                item += definition
                glossary += item
                start = after
            node += glossary

        def _parse(self, content: Any, node: Any) -> None:
            """Parse nested lines. They may contain headings, as in Sphinx."""
            memo = self.state.memo
            styles, level = memo.title_styles, memo.section_level
            memo.title_styles, memo.section_level = [], 0
            offset = self.content_offset + len(self.content) - len(content)
            try:
                self.state.nested_parse(content, offset, node, match_titles=True)
            finally:
                memo.title_styles, memo.section_level = styles, level

        def _split(self) -> tuple[list[str], Any]:
            """Split the lines into the argument and the content. Options are dropped."""
            name = self.name.lower().rpartition(":")[2]
            lines = self.content
            has_argument = bool(self.block_text.partition("\n")[0].partition("::")[2].strip())
            end = next((i for i, line in enumerate(lines) if not line.strip()), len(lines))
            options = next((i for i in range(end) if _OPTION.match(lines[i].lstrip())), end)
            if name in ADMONITIONS or (not has_argument and options == end):
                return [], lines[:options] + lines[end:]
            return [line.strip() for line in lines[:options]] if has_argument else [], lines[end:]

    def read_role(rawsource: str, text: str, role: str, _: int) -> tuple[list[nodes.Node], list[Any]]:
        """Turn a role into a node that the renderer understands."""
        inner = rawsource[rawsource.find("`") + 1 : rawsource.rfind("`")] if "`" in rawsource else text
        return [nodes.inline(rawsource, inner.replace("\\ ", "").replace("\\", ""), role=role or "")], []

    def find_directive(name: str, language: Any, document: Any) -> tuple[Any, list[Any]]:
        is_ours = hasattr(document.settings, "is_graphrag_reader") and name.lower() not in _BUILT_IN
        return (Directive, []) if is_ours else built_in(name, language, document)

    defaults = get_default_settings(rst.Parser)
    defaults.is_graphrag_reader = True
    defaults.file_insertion_enabled = defaults.raw_enabled = defaults.warning_stream = False
    defaults.report_level, defaults.halt_level = 5, 6
    built_in = directives.directive
    lock = threading.Lock()

    def parse(text: str) -> Any:
        document = new_document("", defaults.copy())
        inliner = states.Inliner()
        inliner.interpreted = read_role
        with lock:
            # docutils looks directives up in a function of a module; Sphinx replaces it in the same way.
            directives.directive = find_directive
            try:
                rst.Parser(inliner=inliner).parse(text, document)
            finally:
                directives.directive = built_in
        return document

    return parse
