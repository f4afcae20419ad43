"""What the elements of a web page become: light Markdown and marks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING

from graphrag_core.text.writer import Writer, defined_name

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_PERMALINKS = {"", "¶", "#", "§", "🔗", "∞", "link", "permalink", "[top]", "top", "^", "↑"}
_LANGUAGE = re.compile(r"(?:language|lang|highlight|brush|sourceCode)[-: ]+([A-Za-z0-9+#_-]+)")
_NOT_LANGUAGES = {"default", "text", "none", "notranslate", "source", "highlight", "plaintext"}
_BLOCKS = set(
    "address article blockquote body caption center details div dd dl dt fieldset figcaption figure header hgroup hr "
    "legend li main ol p pre section summary table tbody td tfoot th thead tr ul".split()
)
_HEADINGS = {f"h{level}": level for level in range(10)}
_CODE_TAGS = {"code", "tt", "kbd", "samp", "var-code"}
_MAX_TERM = 100
_MOST_SIBLINGS = 500  # before an element that are looked at


def write_html(root: LexborNode, writer: Writer) -> None:
    """Write a node and all below, with an explicit stack: pages nest deeper than Python's recursion limit."""
    levels: dict[int, int] = {}  # of the headings above nodes
    lists: list[int] = []  # numbers of the open lists' next items; 0 for bullets
    stack: list[LexborNode | AbstractContextManager[None]] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, AbstractContextManager):
            node.__exit__(None, None, None)
            continue
        tag = node.tag or ""
        if tag == "-text":
            writer.write(node.text_content or "")
            continue
        if tag.startswith(("-", "!")):
            continue
        attributes = node.attributes
        for name in (attributes.get("id"), attributes.get("name") if tag == "a" else None):
            if name:
                writer.anchor(name)
        if not _write_whole(node, tag, writer, None if lists else levels):
            context = _context(node, tag, writer, lists)
            context.__enter__()
            stack.append(context)
            stack.extend(reversed(list(node.iter(include_text=True))))


def _write_whole(node: LexborNode, tag: str, writer: Writer, levels: dict[int, int] | None) -> bool:
    """Write a node without visiting its children, if possible; return False if the children must be visited.

    ``levels`` has the levels of the headings above nodes; None inside a list.
    """
    if tag == "br":
        writer.line()
    elif tag == "hr":
        writer.block()
    elif tag == "pre":
        _write_code(node, writer)
    elif tag in _CODE_TAGS and not _is_placeholder(node):
        with _link(node.css_first("a[href]"), writer):
            writer.literal(node.text())
    elif tag == "table" and _is_data_table(node):
        _write_table(node, writer)
    elif tag == "p" and levels is not None and _is_bold_heading(node):
        _write_bold_heading(node, writer, levels)
    elif tag == "sup" and _is_power(node):
        writer.write(f"^{node.text(strip=True)}")
    else:
        return tag == "img" or (tag == "a" and _is_permalink(node))
    return True


def _write_code(node: LexborNode, writer: Writer) -> None:
    """Write preformatted text; several ``<code>`` elements inside are blocks by themselves."""
    parts = node.css("code")
    for part in parts if len(parts) > 1 and node.text(strip=True) else [node]:
        writer.code(part.text(), _language(node))


def _is_power(node: LexborNode) -> bool:
    """Whether a superscript is a number, not the link of a footnote."""
    return node.text(strip=True).isdigit() and node.css_first("a") is None


def _is_placeholder(node: LexborNode) -> bool:
    """Whether inline code is a placeholder that the reader has to fill in, as DocBook marks it, and not a name."""
    around = (node, node.parent, node.first_child if one_line(node.first_child) == one_line(node) else None)
    return any("replaceable" in (part.attributes.get("class") or "") for part in around if part is not None)


def _is_permalink(node: LexborNode) -> bool:
    text = one_line(node)
    href = node.attributes.get("href") or ""
    return text.lower() in _PERMALINKS or (text[:1] == "[" and href.startswith("#") and _is_self_link(node, href))


def _context(node: LexborNode, tag: str, writer: Writer, lists: list[int]) -> AbstractContextManager[None]:  # noqa: PLR0911
    """Return the context in which the children of a node are written."""
    if tag == "a":
        return _link(node, writer)
    if tag in _HEADINGS:
        return writer.heading(_HEADINGS[tag])
    if tag in ("ul", "ol", "menu", "dir"):
        return _list(node, writer, lists)
    if tag == "li":
        return writer.item(_item_marker(lists))
    if tag == "dt":
        return _term(node, writer)
    if tag == "dd":
        return writer.item(": ")
    if tag == "dfn":
        return writer.span("term", one_line(node))
    return writer.paragraph() if tag in _BLOCKS else nullcontext()


@contextmanager
def _list(node: LexborNode, writer: Writer, lists: list[int]) -> Iterator[None]:
    start = node.attributes.get("start") or "1"
    first = int(start) if start.isdecimal() and len(start) <= 9 else 1
    lists.append(first if node.tag == "ol" else 0)
    with writer.items():
        yield
    lists.pop()


def _item_marker(lists: list[int]) -> str:
    number = lists[-1] if lists else 0
    if number:
        lists[-1] += 1
    return f"{number}. " if number else "- "


@contextmanager
def _term(node: LexborNode, writer: Writer) -> Iterator[None]:
    text = one_line(node).rstrip("¶#")
    name = node.attributes.get("id") or ""
    if not name or name.rpartition(".")[2].lower() not in text.lower():
        name = defined_name(text)
    writer.block()
    with writer.span("term", name) if 0 < len(name) <= _MAX_TERM else nullcontext():
        yield
    writer.line()


def _link(node: LexborNode | None, writer: Writer) -> AbstractContextManager[None]:
    href = ((node.attributes.get("href") or "") if node else "").strip()
    if not href or href.startswith(("javascript:", "mailto:", "data:", "tel:")) or _is_self_link(node, href):
        return nullcontext()
    return writer.span("link", href)


def _is_self_link(node: LexborNode | None, href: str) -> bool:
    """Whether a link leads to where it stands, such as the link around a heading's text."""
    for _ in range(3):
        if node is not None and href in ("#", f"#{node.attributes.get('id')}"):
            return True
        node = node.parent if node is not None else None
    return False


def _is_data_table(node: LexborNode) -> bool:
    """Whether a table holds data. A table that holds headings, tables, or blocks without column labels is a layout."""
    rows = [_cells(row) for row in node.css("tr")]
    if node.css_first("h1, h2, h3, h4, h5, h6, table table") is not None or not any(len(cells) > 1 for cells in rows):
        return False
    return node.css_first("pre, ul, ol, dl") is None or _is_header(rows[0])


def _write_table(node: LexborNode, writer: Writer) -> None:
    writer.block()
    for caption in node.css("caption"):
        write_html(caption, writer)
        writer.block()
    rows = [_cells(row) for row in node.css("tr")]
    rows = [cells for cells in rows if any(cell.text(strip=True) for cell in cells)]
    labels = [one_line(cell) for cell in rows[0]] if rows and _is_header(rows[0]) else []
    for number, cells in enumerate(rows):
        for label, cell in zip(labels, cells, strict=False) if number else ():
            _remove_label(cell, label)
        writer.row(cells, lambda cell: write_html(cell, writer))
        if number == 0 and labels:
            writer.rule(len(cells))
    writer.block()


def _is_header(cells: list[LexborNode]) -> bool:
    return len(cells) > 1 and all(cell.tag == "th" for cell in cells)


def _remove_label(cell: LexborNode, label: str) -> None:
    """Remove the label of its column from a cell, which narrow screens show in each row."""
    first = next((part for part in cell.iter(include_text=True) if part.text(strip=True)), None)
    if first is None or first.tag == "-text" or one_line(first) == one_line(cell):
        return
    if one_line(first).rstrip(" :") == label.rstrip(" :"):
        first.decompose()


def _cells(row: LexborNode) -> list[LexborNode]:
    return [cell for cell in row.iter() if cell.tag in ("td", "th")]


def _is_bold_heading(node: LexborNode) -> bool:
    """Whether a paragraph is a heading in old-style markup: bold throughout, and links lead to it."""
    text = one_line(node)
    if not 0 < len(text) <= 200 or text.endswith((":", ",")):
        return False
    bold = "".join(part.text() for part in node.iter() if part.tag in ("b", "strong", "i", "em", "var"))
    is_bold = any(part.tag in ("b", "strong") for part in node.iter())
    if not is_bold or len("".join(bold.split())) < len("".join(text.split())):
        return False
    return bool(node.attributes.get("id") or node.css_first("a[name]") or _is_preceded_by_anchor(node))


def _is_preceded_by_anchor(node: LexborNode) -> bool:
    """Whether an empty ``<a name=...>`` stands before a node, or at the end of an unclosed paragraph before it."""
    before, steps = node.prev, 0
    while before is not None and steps < _MOST_SIBLINGS:
        if before.tag == "a" and before.attributes.get("name") and not before.text(strip=True):
            return True
        if before.tag != "p" and before.text(strip=True):
            return False
        before, steps = (before.last_child if before.tag == "p" else None) or before.prev, steps + 1
    return False


def _write_bold_heading(node: LexborNode, writer: Writer, levels: dict[int, int]) -> None:
    """Write the first line as a heading and the others below."""
    for inner in node.css("a[name], [id]"):
        writer.anchor(inner.attributes.get("id") or inner.attributes.get("name") or "")
    lines = _one_line_per_break(node)
    with writer.heading(_level_above(node, levels) + 1):
        writer.write(lines[0])
    for line in lines[1:]:
        writer.line()
        writer.write(line)
    writer.block()


def _one_line_per_break(node: LexborNode) -> list[str]:
    parts = [part for part in node.traverse(include_text=True) if part.tag in ("br", "-text")]
    pieces = ["\n" if part.tag == "br" else re.sub(r"\s+", " ", part.text_content or "") for part in parts]
    return [line for line in (" ".join(line.split()) for line in "".join(pieces).split("\n")) if line]


def _level_above(node: LexborNode, levels: dict[int, int]) -> int:
    """Return the level of the heading above a node, by default 1. ``levels`` caches the levels of earlier nodes."""
    level, before = 1, node.prev
    while before is not None:
        known = levels.get(before.mem_id, _HEADINGS.get(before.tag or ""))
        if known is not None:
            level = min(known, 5)
            break
        before = before.prev
    levels[node.mem_id] = level
    return level


def _language(node: LexborNode) -> str:
    code = node.css_first("code")
    parent = node.parent
    for element in (node, code, parent, parent.parent if parent else None):
        if element is not None and (language := _LANGUAGE.search(element.attributes.get("class") or "")):
            return "" if language[1].lower() in _NOT_LANGUAGES else language[1]
    return ""


def one_line(node: LexborNode | None) -> str:
    """Return the text of a node, in one line."""
    return " ".join(node.text().split()) if node else ""
