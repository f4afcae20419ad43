"""Read plain text and Markdown: the source is the text, without front matter."""

import re
from typing import Any

from graphrag_apps.documents.rows import parse_value
from graphrag_apps.documents.rst import is_rst, rst_content
from graphrag_core.text.content import Content, decode_lines
from graphrag_core.text.html import html_content, is_page
from graphrag_core.text.markup import plain
from graphrag_core.text.names import is_version
from graphrag_core.text.scanner import BLOCKS, scan

_FRONT_MATTER = re.compile(r"\A\s*(---|\+\+\+)[ \t]*\n(.*?)\n(?:\1|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"^([A-Za-z_][\w-]*)[ \t]*[:=][ \t]*(.*(?:\n[ \t]*-[ \t]+.*)*)$", re.MULTILINE)
_IMAGE = re.compile(r"!\[[^\]]{0,400}\](?:\([^)]{0,1000}\)|\[[^\]]{0,400}\])")
_H1 = re.compile(r"<h1[^>]{0,1000}>(.{,500}?)</h1>", re.IGNORECASE | re.DOTALL)
_INCLUDE = re.compile(r"\{\{#(?:\w+_)?(?:include|playground|title)\b[^{}\n]{0,1000}\}\}")  # of another file, by mdBook
_LONGEST_TITLE = 1_000  # characters


def read_text(data: bytes) -> Content:
    """Read plain text, as it is. If it is reStructuredText, read it as such; a Markdown heading is the title."""
    text = decode_lines(data)
    if is_rst(text):
        return rst_content(text)
    return Content(text, markdown_title(text[:2000]) if text.lstrip()[:1] == "#" else "")


def read_markdown(data: bytes) -> Content:
    """Read Markdown. The text is its source without includes of mdBook; front matter fields become metadata."""
    text = _INCLUDE.sub("", decode_lines(data))
    fields: dict[str, Any] = {}
    if front_matter := _FRONT_MATTER.match(text):
        fields = _fields(front_matter[2])
        text = text[front_matter.end() :]
    title = str(fields.pop("title", "") or "")
    if is_page(text):
        page = html_content(text)
        return Content(page.text, title or page.title, fields)
    return Content(text, title or markdown_title(text), fields)


def markdown_title(text: str) -> str:
    r"""Return the first heading of level 1 outside code; without one, a heading that opens the text.

    >>> markdown_title("```\n# comment\n```\n# The [Tide](t.md) `Feed` {#tide}\n")
    'The Tide Feed'
    >>> markdown_title("Text.\n\n## Basics\n")
    ''
    """
    marks = [mark for mark in scan(text, markdown=True) if mark.kind in BLOCKS]
    found = [(mark.start, text[mark.start : mark.end]) for mark in marks if (mark.kind, mark.value) == ("heading", "1")]
    found += [(html.start(), html[1]) for html in _H1.finditer(text)]
    titles = [words for _, heading in sorted(found) if (words := _words(heading))]
    if titles:
        return "" if len(titles) > 1 and is_version(titles[0]) else titles[0]
    return _words(text[marks[0].start : marks[0].end]) if marks and marks[0].kind == "heading" else ""


def _words(heading: str) -> str:
    return " ".join(plain(_IMAGE.sub("", heading[:_LONGEST_TITLE])).split()).strip("*_ ")


def _fields(source: str) -> dict[str, Any]:
    """Read the simple fields of front matter: values and lists, no nested objects."""
    fields: dict[str, Any] = {}
    for key, value in _FIELD.findall(source):
        first, *rest = value.split("\n")
        if rest and not first.strip():
            fields[key] = [parse_value(line.strip()[1:]) for line in rest]
        elif first.strip().startswith("[") and first.strip().endswith("]"):
            fields[key] = [parse_value(item) for item in first.strip()[1:-1].split(",") if item.strip()]
        elif first.strip() not in ("", "|", ">", "|-", ">-"):
            fields[key] = parse_value(first)
    return fields
