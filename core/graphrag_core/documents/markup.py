"""Readers for plain text, Markdown, reStructuredText and HTML."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphrag_core.documents.content import Content, decode
from graphrag_core.documents.rows import parse_value
from graphrag_core.errors import MissingDependency

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_FRONT_MATTER = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"^([A-Za-z_][\w-]*):[ \t]*(.*)$", re.MULTILINE)
_ATX_HEADING = re.compile(r"^#{1,6}[ \t]+(\S.*?)[ \t]*#*$", re.MULTILINE)
_SETEXT_HEADING = re.compile(r"^(\S.*)\n(?:={3,}|-{3,})[ \t]*$", re.MULTILINE)
_FENCED_CODE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)

_ADORNMENT = r"([=\-`:.'\"~^_*+#])"
_RST_HEADING = re.compile(rf"^(?:{_ADORNMENT}\1{{2,}}\n)?(\S.*)\n{_ADORNMENT}\3{{2,}}[ \t]*$", re.MULTILINE)
_RST_ROLE = re.compile(r":[\w:.+-]+:`~?([^`<]+?)(?:\s*<[^`>]+>)?`")
_RST_LINK = re.compile(r"`([^`<]+?)\s*<[^`>]+>`__?")
_RST_DIRECTIVE = re.compile(r"^\.\. (?:_[^\n]*:|\w[\w-]*::)[^\n]*\n?|^[ \t]+:[\w-]+:[^\n]*\n?", re.MULTILINE)

_REMOVED_TAGS = (
    "script style template noscript svg math iframe object head nav aside footer form button select [hidden]"
)
_BLOCK_TAGS = set(
    "address article blockquote body br caption dd div dl dt figcaption figure footer h1 h2 h3 h4 h5 h6 header hr "
    "li main ol p pre section table tbody td tfoot th thead tr ul".split()
)
_BLOCK_EDGES = {
    **{f"h{level}": (f"\n\n{'#' * level} ", "\n\n") for level in range(1, 7)},
    **dict.fromkeys(("p", "table", "ul", "ol", "pre", "blockquote"), ("\n\n", "\n\n")),
    "li": ("\n- ", ""),
    "td": ("", " | "),
    "th": ("", " | "),
    "tr": ("\n", ""),
    "br": ("\n", ""),
}
"""Text before and after a block, by tag; a line break by default."""
_MIN_MAIN_SHARE = 0.4  # of the page's text that <main> or <article> must hold to replace <body>


def read_text(data: bytes) -> Content:
    """Read plain text. A Markdown heading at the start becomes the title."""
    text = _unix_lines(decode(data))
    return Content(text, _first_heading(text[:2000]) if text.lstrip()[:1] == "#" else "")


def read_markdown(data: bytes) -> Content:
    """Read Markdown. Front matter fields become metadata."""
    text = _unix_lines(decode(data))
    fields: dict[str, object] = {}
    if front_matter := _FRONT_MATTER.match(text):
        fields = {key: parse_value(value) for key, value in _FIELD.findall(front_matter[1]) if value.strip()}
        text = text[front_matter.end() :]
    title = fields.pop("title", "") or _first_heading(_FENCED_CODE.sub("", text))
    return Content(text, str(title), fields)


def read_rst(data: bytes) -> Content:
    """Read reStructuredText. Markup of roles, links and directives is removed, their text is kept."""
    text = _unix_lines(decode(data))
    heading = _RST_HEADING.search(text)
    text = _RST_DIRECTIVE.sub("", _RST_LINK.sub(r"\1", _RST_ROLE.sub(r"\1", text))).replace("``", "")
    return Content(text, heading[2].strip() if heading else "")


def read_html(data: bytes) -> Content:
    """Read the visible text of a web page, without navigation and scripts."""
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError as error:
        raise MissingDependency("selectolax", "files", "Reading HTML") from error
    page = LexborHTMLParser(decode(data))
    title = _one_line(page.css_first("title"))
    for node in page.css(", ".join(_REMOVED_TAGS.split())):
        node.decompose()
    if page.body is None:
        return Content("", title)
    text = _node_text(page.body)
    main = page.css_first("main") or page.css_first("article")
    if main is not None and len(main_text := _node_text(main)) > len(text) * _MIN_MAIN_SHARE:
        text = main_text
    return Content(text, _one_line(page.css_first("h1")) or title)


def _node_text(node: LexborNode) -> str:
    pieces: list[str] = []
    # An explicit stack: pages can be nested deeper than Python's recursion limit.
    stack: list[LexborNode | str] = [node]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            pieces.append(item)
            continue
        tag = item.tag or ""
        if tag == "-text":
            pieces.append(re.sub(r"\s+", " ", item.text_content or ""))
            continue
        if tag in _BLOCK_TAGS:
            before, after = _BLOCK_EDGES.get(tag, ("\n", "\n"))
            pieces.append(before)
            stack.append(after)
        stack.extend(reversed(list(item.iter(include_text=True))))
    lines = (line.strip(" |") for line in "".join(pieces).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line for line in lines if line != "-")).strip()


def _first_heading(text: str) -> str:
    found = [match for match in (_ATX_HEADING.search(text), _SETEXT_HEADING.search(text)) if match]
    first = min(found, key=lambda match: match.start(), default=None)
    return first[1].strip() if first else ""


def _unix_lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _one_line(node: LexborNode | None) -> str:
    return " ".join(node.text().split()) if node else ""
