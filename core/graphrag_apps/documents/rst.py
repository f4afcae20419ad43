"""Read reStructuredText as Markdown: docutils parses it and writes HTML, which the reader of web pages reads.

Every directive and role is known, what Sphinx adds too. No file is opened and no raw HTML is read.
"""

from __future__ import annotations

import re

from graphrag_core.errors import optional_import
from graphrag_core.text.content import Content, decode_lines

_LONGEST_LINE = 10_000  # characters
_BLOCK = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*+|:]|\d{1,4}[.)]|\.\.)[ \t\w])")
_NESTED_ITEMS = re.compile(r"^[ \t]*(?:(?:[-*+•‣⁃]|\(?\w{1,4}[.)])[ \t]+){12}", re.MULTILINE)  # on one line
_WIDE_TABLE = re.compile(r"^[ \t]*(?:(?:=+ +){100}|(?:\+[-=]+){100})", re.MULTILINE)
_MOST_STEPS = 300, 5_000_000  # for each character of a text, and beside; see _is_parsable
_UNDERLINED = re.compile(r"^(?=\S)(.{2,})\n([=\-~^\"'`*+#.:_])\2{2,}[ \t]*$", re.MULTILINE)
_DIRECTIVE_OR_ROLE = re.compile(
    r"^[ \t]*\.\. (?:[\w:+-]+::|_[^\n:]+:)|(?<![\w`]):[a-z][\w:-]{0,60}:`[^`\n]+`", re.MULTILINE
)


def is_rst(text: str) -> bool:
    r"""Whether a text without a telling extension is reStructuredText: underlined headings and markup.

    >>> is_rst("Usage\n=====\n\nRead :ref:`this <that>`.\n"), is_rst("Usage\n=====\n\nJust run it.\n")
    (True, False)
    """
    sample = text[:100_000]
    return _UNDERLINED.search(sample) is not None and _DIRECTIVE_OR_ROLE.search(sample) is not None


def read_rst(data: bytes) -> Content:
    """Read reStructuredText."""
    return rst_content(decode_lines(data))


def rst_content(text: str) -> Content:
    """Parse a text as reStructuredText. A text that docutils cannot parse is kept as it is.

    So is one for which its time would be quadratic: with lines of more than 10,000 characters, with many items nested
    on one line, with tables of more than 100 columns, or with long paragraphs that are full of inline markup.
    """
    with optional_import("docutils", "files", "Reading reStructuredText"):
        from graphrag_apps.documents.rst_nodes import rst_to_markdown
    if _is_parsable(text):
        try:
            return Content(*rst_to_markdown(text))
        except (RecursionError, ValueError, TypeError, AttributeError, AssertionError, LookupError):
            pass  # docutils is not free of defects on malformed input
    heading = _UNDERLINED.search(text)
    return Content(text, heading[1].strip() if heading else "")


def _is_parsable(text: str) -> bool:
    """Return whether docutils takes about linear time: it looks for the end of inline markup to the end of a block."""
    if max(map(len, text.splitlines()), default=0) > _LONGEST_LINE or _NESTED_ITEMS.search(text):
        return False
    if _WIDE_TABLE.search(text):
        return False
    steps = sum(len(block) * (block.count("`") + block.count("*")) for block in _BLOCK.split(text))
    return steps <= _MOST_STEPS[0] * len(text) + _MOST_STEPS[1]
