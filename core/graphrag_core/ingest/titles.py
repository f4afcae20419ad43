"""What a document is called: titles, headings and pages that metadata, headings and the names of files state."""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote

from graphrag_core.model import Document, Mark
from graphrag_core.text import normalise
from graphrag_core.text.markup import plain
from graphrag_core.text.scanner import scan

_LONGEST_TITLE = 200
_SHORT_START = 80  # characters before the heading that is the title
_MOST_HEADINGS = 64  # in ``header_path``
_HEAD = 4_000  # characters in which a document's own heading is looked for
_FRONT_TITLE = re.compile(r"\A---[ \t]*\r?\n(?:[^\r\n]*\r?\n){0,50}?title:[ \t]*([^\r\n]+)")
_MANUAL_PAGE = re.compile(r"\s*([\w.+:-]+)\((\d\w*)\)[ \t].{0,200}\1\(\2\)[ \t\r]*\n", re.IGNORECASE)
_FILE_ID = re.compile(r"\w\.(?:txt|md|rst|html?|pdf|docx)$", re.IGNORECASE)  # a document's id that is a file's name
_HEADER_KEY = re.compile(r"(?:header|heading|h)[ _-]?([1-6])", re.IGNORECASE)
_NAME_KEYS = ("file_name", "filename", "file_path", "source", "url")
# Names of files that say nothing: hashes, numbers, temporary files, names that programs make up.
_MEANINGLESS = re.compile(
    r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}|[0-9a-f]{16,}|[\d\W_]*|tmp\w*|temp\w*"
    r"|(?:page|document|doc|file|untitled|unnamed|scan|img|image|download|output|part|chunk|text|content|new|noname"
    r"|copy|item|data)[\W_\d]*",
    re.IGNORECASE,
)
_FOLDER_PAGE = re.compile(r"index|readme|default|__init__|main|home", re.IGNORECASE)
_MARKDOWN_SUFFIXES = frozenset({".md", ".markdown", ".mdx", ".mkd", ".myst"})


def title_of(document: Document, marks: Sequence[Mark] | None = None) -> str:
    r"""Return a document's title; empty if it has none.

    The first of: its own title; ``title``, ``name`` or the outermost heading in the metadata; a heading of level 1
    that the text starts with; the name of its file, if that says something; any heading that the text starts with.

    >>> title_of(Document("1", "# Auth Service\n\nIssues tokens.", metadata={"file_name": "x.md"}))
    'Auth Service'
    >>> title_of(Document("2", "Issues tokens.", metadata={"file_name": "docs/auth_service.md"}))
    'auth service'
    """
    if title := document.title.strip() or stated_title(document.metadata):
        return title
    own, is_outermost = _own_heading(document, marks)
    if own and is_outermost:
        return own
    file_id = document.id if _FILE_ID.search(document.id) else None
    for name in (*map(document.metadata.get, _NAME_KEYS), file_id):
        if isinstance(name, str) and (title := _readable_name(name)):
            return title
    return own


def stated_title(metadata: Mapping[str, Any]) -> str:
    """Return the title that metadata gives a text, not counting the name of a file."""
    titles = (metadata.get("title"), metadata.get("name"), *headings_of(metadata)[:1])
    return next((title.strip() for title in titles if isinstance(title, str) and title.strip()), "")


def headings_of(metadata: Mapping[str, Any], title: str = "") -> tuple[str, ...]:
    """Return the headings in metadata (``Header 1``, ``header_path``), without a title that is the first of them."""
    levels = {}
    for key, value in metadata.items():
        if key[:1] in "hH" and isinstance(value, str) and (found := _HEADER_KEY.fullmatch(key)) and value.strip():
            levels[int(found[1])] = " ".join(plain(value).split())
    if levels:
        headings = tuple(levels[level] for level in sorted(levels))
    elif isinstance(path := metadata.get("header_path"), str):
        parts = path.split("/", _MOST_HEADINGS)[:_MOST_HEADINGS]
        headings = tuple(" ".join(plain(part).split()) for part in parts if part.strip())
    else:
        return ()
    return headings[1:] if title and headings and normalise(headings[0]) == normalise(title) else headings


def heading_text(text: str, heading: Mark) -> str:
    """Return the words of a heading."""
    return " ".join(plain(text[heading.start : heading.end]).split())[:_LONGEST_TITLE]


def page_of(metadata: Mapping[str, Any]) -> int | None:
    """Return the page that metadata names, counted from 1.

    LangChain's PDF loaders count ``page`` from 0 and add ``total_pages``; ``page_label`` is what the page shows.
    """
    for key in ("page_label", "page_number", "page"):
        page = metadata.get(key)
        if isinstance(page, str):
            page = page_number(page)
        if isinstance(page, int) and not isinstance(page, bool) and page >= 0:
            return page + 1 if key == "page" and "total_pages" in metadata else page
    return None


def is_markdown(metadata: Mapping[str, Any]) -> bool | None:
    """Return whether metadata says that a text is Markdown; None if it says nothing."""
    for key in _NAME_KEYS:
        name = metadata.get(key)
        if isinstance(name, str) and name and (suffix := PurePosixPath(_path_of(name)).suffix.lower()):
            return suffix in _MARKDOWN_SUFFIXES
    return None


def _path_of(name: str) -> str:
    """Return the path of a URL, or a file's path with forward slashes."""
    scheme, separator, rest = name.partition("://")
    if not separator:
        return name.replace("\\", "/")
    path = re.split(r"[?#]", rest, maxsplit=1)[0]
    return unquote(path if scheme.lower() == "file" else path.partition("/")[2], errors="replace")


def _own_heading(document: Document, marks: Sequence[Mark] | None) -> tuple[str, bool]:
    """Return the heading that a text starts with, or its only outermost heading, and whether it has level 1."""
    text = document.text
    if marks is None:
        text = text[:_HEAD]
        marks = scan(text, is_markdown(document.metadata))
    if text.startswith("---") and (front := _FRONT_TITLE.match(text[:_HEAD])):
        return front[1].strip().strip("\"'")[:_LONGEST_TITLE], True
    if manual := _MANUAL_PAGE.match(text):
        return f"{manual[1].lower()}({manual[2]})", True
    headings = [mark for mark in marks if mark.kind == "heading"]
    if not headings:
        return "", False
    first, is_outermost = headings[0], headings[0].value == "1"
    is_only = sum(mark.value == first.value for mark in headings) == 1
    starts = (is_outermost or is_only) and len(plain(text[: first.start]).strip(" \t\r\n#")) < _SHORT_START
    return (heading_text(text, first), is_outermost) if starts or (is_outermost and is_only) else ("", False)


def _readable_name(name: str) -> str:
    """Return the stem of a file's name or the last part of a URL in words; empty if it says nothing.

    >>> _readable_name("https://docs.example.org/guide/getting-started.html"), _readable_name("/tmp/tmpx8_3kq1z.pdf")
    ('getting started', '')
    """
    parts = [part for part in _path_of(name).split("/") if part] or [""]
    stem = PurePosixPath(parts[-1]).stem
    if _FOLDER_PAGE.fullmatch(stem) and len(parts) > 1:
        stem = parts[-2]
    if _MEANINGLESS.fullmatch(stem):
        return ""
    return " ".join(re.sub(r"[_\s+-]+", " ", stem).split())[:_LONGEST_TITLE]


def page_number(text: str) -> int | None:
    """Return the number of a page; None if a text is none."""
    return int(text[:9]) if text.isdecimal() else None
