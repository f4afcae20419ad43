"""HTML: the words a reader of the page sees, without menus and scripts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphrag_core.errors import MissingDependency
from graphrag_core.loading.content import Content
from graphrag_core.loading.decode import decode

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_UNSEEN = "script style template noscript svg math iframe object head nav aside footer form button select [hidden]"
_BLOCKS = set(
    "address article blockquote body br caption dd div dl dt figcaption figure footer h1 h2 h3 h4 h5 h6 header hr "
    "li main ol p pre section table tbody td tfoot th thead tr ul".split()
)
_AROUND = {
    **{f"h{level}": (f"\n\n{'#' * level} ", "\n\n") for level in range(1, 7)},
    **dict.fromkeys(("p", "table", "ul", "ol", "pre", "blockquote"), ("\n\n", "\n\n")),
    "li": ("\n- ", ""),
    "td": ("", " | "),
    "th": ("", " | "),
    "tr": ("\n", ""),
    "br": ("\n", ""),
}
"""What stands before and after a block, by its tag; a line break unless said."""
_BODY_SHARE = 0.4  # of the page's words that <main> or <article> must hold to stand for it


def read_html(data: bytes) -> Content:
    """Read a web page."""
    try:
        from selectolax.lexbor import LexborHTMLParser
    except ImportError as error:
        raise MissingDependency("selectolax", "files", "Reading HTML") from error
    page = LexborHTMLParser(decode(data))
    title = page.css_first("title")
    name = _squeeze(title.text()) if title else ""
    for node in page.css(", ".join(_UNSEEN.split())):
        node.decompose()
    heading = page.css_first("h1")
    body = page.body
    if body is None:
        return Content("", name)
    text = _text(body)
    inner = page.css_first("main") or page.css_first("article")
    if inner is not None and len(part := _text(inner)) > len(text) * _BODY_SHARE:
        text = part
    return Content(text, (_squeeze(heading.text()) if heading else "") or name)


def _text(node: LexborNode) -> str:
    pieces: list[str] = []
    # An explicit stack: pages can be nested deeper than Python recurses.
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
        if tag in _BLOCKS:
            before, after = _AROUND.get(tag, ("\n", "\n"))
            pieces.append(before)
            stack.append(after)
        stack.extend(reversed(list(item.iter(include_text=True))))
    lines = (line.strip(" |") for line in "".join(pieces).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line for line in lines if line != "-")).strip()


def _squeeze(text: str) -> str:
    return " ".join(text.split())
