"""What metadata and headings say of a document: its title, the headings above it, its page."""

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from graphrag_core.model import Document, Mark
from graphrag_core.text import normalise
from graphrag_core.text.markup import BLOCKS, plain, scan

LONGEST_PAGE = 9
"""The most digits of the number of a page."""

_LONGEST_TITLE = 200
_MOST_HEADINGS = 64  # in ``header_path``
_HEAD = 4_000  # characters in which a document's own heading is looked for
_HEADING_HINT = re.compile(r"(?:\A|\n)(?:[ \t]{0,3}#{1,6}[ \t]|[=\-]{3,}[ \t\r]*(?:\n|\Z))")
_FRONT_TITLE = re.compile(r"\A---[ \t]*\r?\n(?:[^\r\n]*\r?\n){0,50}?title:[ \t]*([^\r\n]+)")
_PERCENT = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_MANUAL_PAGE = re.compile(r"\s*([\w.+:-]+)\((\d\w*)\)[ \t].{0,200}\1\(\2\)[ \t\r]*\n", re.IGNORECASE)
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

    The first of: its own title; ``title`` or ``name`` in the metadata; the outermost heading in the
    metadata (``Header 1``, ``header_path``); a heading of level 1 that the text starts with; the name of
    its file or the last part of its URL, if that says something; any heading that the text starts with.

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
    for key in _NAME_KEYS:
        name = document.metadata.get(key)
        if isinstance(name, str) and (title := _readable_name(name)):
            return title
    return own


def stated_title(metadata: Mapping[str, Any]) -> str:
    """Return the title that metadata gives a text, not counting the name of a file."""
    for title in (metadata.get("title"), metadata.get("name")):
        if isinstance(title, str) and title.strip():
            return title.strip()
    return next(iter(headings_of(metadata)), "")


def headings_of(metadata: Mapping[str, Any], title: str = "") -> tuple[str, ...]:
    """Return the headings that splitters write to metadata, without a title that is the first of them.

    They are under the keys ``Header 1``, ``Header 2`` and so on, or under ``header_path``.
    """
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
        if isinstance(page, str) and page.isdecimal() and len(page) <= LONGEST_PAGE:
            page = int(page)
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
    if scheme.lower() != "file":
        path = path.partition("/")[2]
    return _PERCENT.sub(lambda codes: bytes.fromhex(codes.group().replace("%", "")).decode("utf-8", "replace"), path)


def _own_heading(document: Document, marks: Sequence[Mark] | None) -> tuple[str, bool]:
    """Return the heading that a text starts with, or its only outermost heading, and whether it has level 1."""
    text = document.text
    if marks is None:
        text = text[:_HEAD]
        if not _HEADING_HINT.search(text) and not _MANUAL_PAGE.match(text):
            return "", False
        marks = scan(text, (), is_markdown(document.metadata))
    if text.startswith("---") and (front := _FRONT_TITLE.match(text[:_HEAD])):
        return front[1].strip().strip("\"'")[:_LONGEST_TITLE], True
    if manual := _MANUAL_PAGE.match(text):
        return f"{manual[1].lower()}({manual[2]})", True
    blocks = [mark for mark in marks if mark.kind in BLOCKS]
    first = next((mark for mark in blocks if mark.kind == "heading"), None)
    if first is None:
        return "", False
    before = plain(text[: first.start]) if blocks[0] is not first else ""
    is_only = sum(mark.kind == "heading" and mark.value == first.value for mark in blocks) == 1
    is_outermost, is_first = first.value == "1", len(before.strip(" \t\r\n#")) < 80
    if (is_outermost or is_only) and (is_first or (is_outermost and is_only)):
        return heading_text(text, first), is_outermost
    return "", False


def _readable_name(name: str) -> str:
    """Return the stem of a file's name or the last part of a URL in words; empty if it says nothing.

    >>> _readable_name("https://docs.example.org/guide/getting-started.html"), _readable_name("/tmp/tmpx8_3kq1z.pdf")
    ('getting started', '')
    """
    parts = [part for part in _path_of(name).split("/") if part]
    if not parts:
        return ""
    stem = PurePosixPath(parts[-1]).stem
    if _FOLDER_PAGE.fullmatch(stem) and len(parts) > 1:
        stem = parts[-2]
    if _MEANINGLESS.fullmatch(stem):
        return ""
    return " ".join(re.sub(r"[_\s+-]+", " ", stem).split())[:_LONGEST_TITLE]
