"""Write the elements of a web page as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from graphrag_core.errors import FileError, optional_import
from graphrag_core.text import markdown
from graphrag_core.text.markup import plain
from graphrag_core.text.scanner import slug

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode

_BLOCKS = frozenset(
    "address article aside blockquote body caption center details dd dir div dl dt fieldset figcaption figure h1 h2 h3 "
    "h4 h5 h6 header hgroup hr legend li main menu ol p section summary table tbody td tfoot th thead tr ul".split()
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LISTS = frozenset(("ul", "ol", "menu", "dir"))
_CODE = frozenset(("code", "tt", "kbd", "samp"))
_ANCHORED = frozenset("h1 h2 h3 h4 h5 h6 a section div dl dt dd span p li article".split())
_BOXES = frozenset(
    "figure example table sidebar note tip hint warning caution danger important attention admonition callout".split()
)
"""Words in the class of an element whose title is no heading: the text after the box belongs to the section."""
_BOX_DEPTH = 4  # elements between a box and its title, at most
_GENERATED = re.compile(r"(?:id[mp]?[-_]?\d[\d.\-_]*|index-.*)")  # an anchor that a program made for its own use
_INLINE = frozenset("a dd li p span".split())
_PERMALINKS = frozenset(("", "¶", "#", "§", "🔗", "∞", "link", "permalink", "[top]", "top", "^", "↑"))
_NO_TARGETS = ("javascript:", "mailto:", "data:", "tel:")
_LANGUAGE = re.compile(r"(?:language|lang|highlight|brush|sourceCode)[-: ]+([A-Za-z0-9+#_-]+)")
_NOT_LANGUAGES = frozenset("default text none notranslate source highlight plaintext".split())
_TERM = re.compile(r"((?:<a id=[^<>]*></a>)*)(.+)")
_CJK = "\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef"
_CJK_BREAK = re.compile(rf"(?<=[{_CJK}])[ \t]*\n\s*(?=[{_CJK}])")
_DEEPEST_INDENT = 64  # characters; else a text would grow with the square of its depth


def html_to_markdown(source: str) -> str:
    """Return HTML that has no boilerplate as Markdown."""
    with optional_import("selectolax", "files", "Reading reStructuredText"):
        from selectolax.lexbor import LexborHTMLParser
    body = LexborHTMLParser(source).body
    return to_markdown(body) if body is not None else ""


def to_markdown(root: LexborNode) -> str:
    """Return an element and all below as Markdown."""
    page = _Markdown()
    page.write(root)
    page.end()
    return "\n".join(page.lines)


class _Markdown:
    """The Markdown of a page, written line by line. In a cell all is one line, without blocks."""

    def __init__(self, *, in_cell: bool = False) -> None:
        self.lines: list[str] = []
        self.in_cell = in_cell
        self.size = 0
        self.line: list[str] = []  # the pieces of the line that is being written
        self.anchors: list[str] = []  # of the text that comes next
        self.indent = self.marker = ""  # what a line starts with: in an item, and the first line of one
        self.gap = False  # whether a blank line comes next
        self.numbers: list[int] = []  # of the next items of the open lists; 0 for bullets
        self.level = 1  # of the last heading

    def write(self, root: LexborNode) -> None:
        """Write an element and all below; with a stack, since pages nest deeper than functions can."""
        stack: list[LexborNode | Callable[[], None]] = [root]
        while stack:
            node = stack.pop()
            if callable(node):
                node()
                continue
            tag = node.tag or ""
            if tag == "-text":
                self.text(markdown.escape(node.text_content or ""))
            elif not tag.startswith(("-", "!")):
                if tag in _ANCHORED:
                    names = (node.attributes.get("id"), node.attributes.get("name") if tag == "a" else None)
                    inline = tag in _INLINE
                    self.anchors += (name for name in names if name and not (inline and _GENERATED.fullmatch(name)))
                if not self.whole(node, tag):
                    stack.append(self.open(node, tag))
                    stack.extend(reversed(list(node.iter(include_text=True))))

    def text(self, text: str) -> None:
        """Add to the line; anchors stand before the first word."""
        if self.anchors and text.strip():
            names, self.anchors = dict.fromkeys(self.anchors), []
            self.line += ["" if text[:1].strip() else " ", *map(markdown.anchor, names)]
            text = text.lstrip()
        self.line.append(text)

    def end(self, *, gap: bool = True) -> None:
        """End the line, and with ``gap`` the block."""
        if self.in_cell:
            self.line.append(" ")
            return
        text = " ".join(_CJK_BREAK.sub("", "".join(self.line)).split())
        self.line = []
        if text:
            self.block([markdown.line(text)])
        self.gap = self.gap or (gap and not self.marker)

    def block(self, lines: list[str]) -> None:
        """Write lines, behind the marker of their item."""
        if self.gap and self.lines:
            self.lines.append("")
        for line in lines:
            self.lines.append(
                f"{self.indent[: len(self.indent) - len(self.marker)]}{self.marker}{line}" if line else ""
            )
            self.marker = ""
            self.size += len(self.lines[-1])
        self.gap = False
        if self.size > markdown.MAX_TEXT:
            raise FileError(f"has more than {markdown.MAX_TEXT:,} characters of text: split it")

    # -- elements that are written at once

    def whole(self, node: LexborNode, tag: str) -> bool:
        """Write an element without looking at those inside, if possible."""
        if tag == "br":
            self.end(gap=False)
        elif tag == "hr":
            self.end()
        elif tag == "pre":
            parts = node.css("code")
            for part in parts if len(parts) > 1 and node.text(strip=True) else [node]:
                self.code(part.text(), _language(node))
        elif tag in _CODE and not _is_placeholder(node):
            self.literal(node)
        elif tag == "table" and _is_data(node):
            self.table(node)
        elif tag == "p" and not self.numbers and _is_bold_heading(node, is_anchored=bool(self.anchors)):
            self.bold_heading(node, is_heading=not _is_in_box(node))
        elif tag == "sup" and node.text(strip=True).isdigit() and node.css_first("a") is None:
            self.text(f"^{node.text(strip=True)}")
        else:
            return tag == "img" or (tag == "a" and _is_permalink(node))
        return True

    def literal(self, node: LexborNode) -> None:
        code = markdown.literal(node.text())
        if code and "".join(self.line).endswith("`"):
            self.line.append(" ")
        self.text(markdown.link(code, _target(node.css_first("a[href]"))))

    def code(self, code: str, language: str) -> None:
        if self.in_cell:
            self.text(markdown.literal(code))
            return
        self.end()
        if self.anchors:
            self.block(["".join(map(markdown.anchor, dict.fromkeys(self.anchors)))])
            self.anchors, self.gap = [], True
        if lines := markdown.fenced(code, language):
            if self.marker == ": ":  # Markdown knows no code after this marker
                self.marker, self.gap = "", True
                self.lines[-1:] = [_TERM.sub(r"\1<dfn>\2</dfn>", line) for line in self.lines[-1:]]
            self.block(lines)
            self.gap = True

    def table(self, node: LexborNode) -> None:
        self.end()
        for caption in node.css("caption"):
            self.write(caption)
            self.end()
        rows = [_cells(row) for row in node.css("tr")]
        rows = [cells for cells in rows if any(cell.text(strip=True) for cell in cells)]
        has_header = bool(rows) and _is_header(rows[0])
        lines = list(markdown.table(([self.cell(cell) for cell in cells] for cells in rows), header=has_header))
        if self.in_cell:
            self.text(" ".join(lines))
        elif lines:
            self.block(lines)
        self.gap = True

    def cell(self, node: LexborNode) -> str:
        cell = _Markdown(in_cell=True)
        cell.anchors, self.anchors = self.anchors, []
        cell.write(node)
        return " ".join("".join(cell.line).split())

    def bold_heading(self, node: LexborNode, *, is_heading: bool) -> None:
        """Write the first line as a heading, or in bold, and the others below."""
        self.end()
        self.anchors += (
            inner.attributes.get("id") or inner.attributes.get("name") or "" for inner in node.css("a[name], [id]")
        )
        parts = [part for part in node.traverse(include_text=True) if part.tag in ("br", "-text")]
        text = "".join("\0" if part.tag == "br" else part.text_content or "" for part in parts)
        first, *rest = (line for line in (" ".join(line.split()) for line in text.split("\0")) if line)
        if is_heading:
            self.marker = "#" * (min(self.level, 5) + 1) + " "
        self.text(first if is_heading else f"**{first}**")
        self.end()
        for line in rest:
            self.text(line)
            self.end(gap=False)
        self.gap = True

    # -- elements that others are inside of

    def open(self, node: LexborNode, tag: str) -> Callable[[], None]:
        """Start an element; return what ends it."""
        close: Callable[[], None] = self.end if tag in _BLOCKS else lambda: None
        if tag == "a":
            close = self.link(_target(node))
        elif tag == "dfn":
            self.text("<dfn>")
            close = partial(self.text, "</dfn>")
        elif self.in_cell or tag not in _BLOCKS:
            close()
        elif tag in _HEADINGS:
            close = self.box_title() if _is_in_box(node) else self.heading(_HEADINGS[tag])
        elif tag in _LISTS:
            close = self.list(node)
        elif tag in ("li", "dd"):
            close = self.item(": " if tag == "dd" else self.bullet())
        elif tag == "dt":
            above = next((one for one in before(node) if one.tag != "-text"), None)
            self.end(gap=above is None or above.tag != "dt")
            close = partial(self.end, gap=False)
        else:
            self.end()
        return close

    def link(self, target: str) -> Callable[[], None]:
        self.text("")
        start, row = len(self.line), len(self.lines)

        def close() -> None:
            label = "".join(self.line[start:])
            if target and row == len(self.lines) and label.strip():
                words = label.strip()
                before, after = label[: len(label) - len(label.lstrip())], label[len(label.rstrip()) :]
                self.line[start:] = [before, markdown.link(words, target), after]

        return close

    def heading(self, level: int) -> Callable[[], None]:
        """Start a heading. Inside an item it is an ordinary line, since it starts no section."""
        self.end()
        self.level = level
        if not self.indent:
            self.marker = "#" * level + " "

        def close() -> None:
            text = "".join(self.line)
            own = slug(plain(text))
            self.line = [piece for piece in self.line if piece != markdown.anchor(own)]  # it has this one anyway
            self.end()
            if not self.indent:
                self.marker = ""  # an empty heading

        return close

    def box_title(self) -> Callable[[], None]:
        """Start the title of a box, which is a line in bold."""
        self.end()

        def close() -> None:
            title = "".join(self.line).strip()
            self.line = [f"**{title}**"] if title else []
            self.end()

        return close

    def list(self, node: LexborNode) -> Callable[[], None]:
        self.end(gap=not self.indent)
        start = node.attributes.get("start") or "1"
        first = int(start) if start.isdecimal() and len(start) <= 9 else 1
        self.numbers.append(first if node.tag == "ol" else 0)

        def close() -> None:
            self.numbers.pop()
            self.end(gap=not self.indent)

        return close

    def bullet(self) -> str:
        number = self.numbers[-1] if self.numbers else 0
        if number:
            self.numbers[-1] += 1
        return f"{number}. " if number else "- "

    def item(self, marker: str) -> Callable[[], None]:
        self.end(gap=False)
        if marker == ": ":
            self.gap = False
        outer, outer_marker = self.indent, self.marker
        if len(outer) < _DEEPEST_INDENT:
            self.marker = outer_marker + marker
            self.indent = outer + " " * len(marker)

        def close() -> None:
            self.end(gap=False)
            self.indent, self.marker, self.gap = outer, "", False

        return close


def _target(node: LexborNode | None) -> str:
    """Return where a link leads; empty for one to itself, such as that around a heading's text."""
    target = ((node.attributes.get("href") or "") if node else "").strip()
    if target.startswith(_NO_TARGETS):
        return ""
    for _ in range(3):
        if node is not None and target in ("#", f"#{node.attributes.get('id')}"):
            return ""
        node = node.parent if node is not None else None
    return target


def _is_permalink(node: LexborNode) -> bool:
    text = one_line(node)
    is_self_link = bool(node.attributes.get("href")) and not _target(node)
    return text.lower() in _PERMALINKS or (text[:1] == "[" and is_self_link)


def _is_placeholder(node: LexborNode) -> bool:
    """Whether inline code is a placeholder that the reader has to fill in, as DocBook marks it, and not a name."""
    around = (node, node.parent, node.first_child if one_line(node.first_child) == one_line(node) else None)
    return any("replaceable" in (part.attributes.get("class") or "") for part in around if part is not None)


def _is_data(table: LexborNode) -> bool:
    """Whether a table holds data. A table that holds headings, tables, or blocks without column labels is a layout."""
    rows = [_cells(row) for row in table.css("tr")]
    if table.css_first("h1, h2, h3, h4, h5, h6, table table") is not None or not any(len(cells) > 1 for cells in rows):
        return False
    return table.css_first("pre, ul, ol, dl") is None or _is_header(rows[0])


def _is_header(cells: list[LexborNode]) -> bool:
    return len(cells) > 1 and all(cell.tag == "th" for cell in cells)


def _cells(row: LexborNode) -> list[LexborNode]:
    return [cell for cell in row.iter() if cell.tag in ("td", "th")]


def _is_in_box(node: LexborNode) -> bool:
    """Whether a title belongs to a figure, a table, an example, or a box such as a note, and not to a section."""
    above = node.parent
    for _ in range(_BOX_DEPTH):
        if above is None or above.tag == "body":
            return False
        is_named = not _BOXES.isdisjoint((above.attributes.get("class") or "").lower().split())
        if above.tag == "figure" or (is_named and above.tag in ("div", "aside", "blockquote")):
            return True
        above = above.parent
    return False


def _is_bold_heading(node: LexborNode, *, is_anchored: bool) -> bool:
    """Whether a paragraph is a heading in old-style markup: bold throughout, and links lead to it."""
    text = one_line(node)
    in_term = node.parent is not None and node.parent.tag == "dt"
    if in_term or not 0 < len(text) <= 200 or text.endswith((":", ",")):
        return False
    bold = "".join(part.text() for part in node.iter() if part.tag in ("b", "strong", "i", "em", "var"))
    is_bold = any(part.tag in ("b", "strong") for part in node.iter())
    if not is_bold or len("".join(bold.split())) < len("".join(text.split())):
        return False
    return is_anchored or node.css_first("a[name], [id]") is not None


def _language(node: LexborNode) -> str:
    parent = node.parent
    for element in (node, node.css_first("code"), parent, parent.parent if parent else None):
        if element is not None and (language := _LANGUAGE.search(element.attributes.get("class") or "")):
            return "" if language[1].lower() in _NOT_LANGUAGES else language[1]
    return ""


def before(node: LexborNode) -> Iterator[LexborNode]:
    """Yield the siblings before a node, nearest first; at most 500, since a page may have a million."""
    sibling = node.prev
    for _ in range(500):
        if sibling is None:
            return
        yield sibling
        sibling = sibling.prev


def one_line(node: LexborNode | None) -> str:
    """Return the text of a node, in one line."""
    return " ".join(node.text().split()) if node else ""
