"""Read plain text and Markdown: the source is the text, without front matter."""

import re
from itertools import islice
from typing import Any

from graphrag_apps.documents.rows import parse_value
from graphrag_apps.documents.rst import is_rst, rst_content
from graphrag_core.text.content import Content, decode_lines
from graphrag_core.text.html import html_content, is_page
from graphrag_core.text.numbering import is_version

_FRONT_MATTER = re.compile(r"\A\s*(---|\+\+\+)[ \t]*\n(.*?)\n(?:\1|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"^([A-Za-z_][\w-]*)[ \t]*[:=][ \t]*(.*(?:\n[ \t]*-[ \t]+.*)*)$", re.MULTILINE)
_FENCED_CODE = re.compile(r"^[ \t]*(`{3,}|~{3,}).*?(?:^[ \t]*\1[`~]*[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(
    r"^ {0,3}#(?P<atx>[ \t]+\S.*)$|^(?P<setext>\S.*)\n=+[ \t]*$|<h1[^>]{0,1000}>(?P<html>(?s:.{,500}?))</h1>",
    re.MULTILINE | re.IGNORECASE,
)
_ATX_ONLY = re.compile(r"\A\s*(?:\([\w-]+\)=\s*)?#{1,6}[ \t]+(\S.*)$", re.MULTILINE)
_UNDERLINED_FIRST = re.compile(r"\A\s*(?:\([\w-]+\)=\s*)?(\S.*)\n-{3,}[ \t]*$", re.MULTILINE)
_IMAGE = re.compile(r"!\[[^\]]{0,400}\](?:\([^)]{0,1000}\)|\[[^\]]{0,400}\])")
_LINK = re.compile(r"\[([^\]]{0,400})\](?:\([^)]{0,1000}\)|\[[^\]]{0,400}\])")
_ROLE = re.compile(r"\{[\w:-]+\}(?=`)")
_ATTRIBUTES = re.compile(r"(?<!\s)\s*\{[#.:][^{}]*\}\s*$")
_LONGEST_HEADING = 1_000  # characters of a heading that are read
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")


def read_text(data: bytes) -> Content:
    """Read plain text, as it is. If it is reStructuredText, read it as such; a Markdown heading is the title."""
    text = decode_lines(data)
    if is_rst(text):
        return rst_content(text)
    return Content(text, markdown_title(text[:2000]) if text.lstrip()[:1] == "#" else "")


def read_markdown(data: bytes) -> Content:
    """Read Markdown. The text is its source; front matter fields become metadata."""
    text = decode_lines(data)
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
    text = _without_comments(_FENCED_CODE.sub("", text))
    headings = (
        _plain(_without_hashes(match["atx"]) if match["atx"] else match["setext"] or match["html"])
        for match in _HEADING.finditer(text)
    )
    titles = list(islice((title for title in headings if title), 2))
    if titles:
        return "" if len(titles) > 1 and is_version(titles[0]) else titles[0]
    if first := _ATX_ONLY.match(text):
        return _plain(_without_hashes(first[1]))
    first = _UNDERLINED_FIRST.match(text)
    return _plain(first[1]) if first else ""


def _without_comments(text: str) -> str:
    """Return a text without HTML comments. One that is not closed stays."""
    parts, position = [], 0
    while (start := text.find("<!--", position)) >= 0 and (end := text.find("-->", start + 4)) >= 0:
        parts.append(text[position:start])
        position = end + 3
    return "".join((*parts, text[position:]))


def _without_hashes(heading: str) -> str:
    """Return the words of a heading without the hashes that close it."""
    heading = heading.rstrip(" \t")
    words = heading.rstrip("#")
    return words if words[-1:] in (" ", "\t") and words.strip() else heading


def _plain(heading: str) -> str:
    heading = heading[:_LONGEST_HEADING]
    heading = _LINK.sub(r"\1", _IMAGE.sub("", _ATTRIBUTES.sub("", _TAG.sub("", heading))))
    heading = _ROLE.sub("", heading).replace("`", "").replace("**", "").replace("\\", "")
    return " ".join(heading.split()).strip("*_ ") if heading.strip(" *_#=-") else ""


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
