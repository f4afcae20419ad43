"""Read web pages as Markdown: the boilerplate of the site is removed, then the elements are written."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from graphrag_core.errors import MissingDependency, optional_import
from graphrag_core.model import Document
from graphrag_core.text import markdown
from graphrag_core.text.content import Content, decode
from graphrag_core.text.markup import plain
from graphrag_core.text.scanner import slug

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_PAGE = re.compile(
    r"\s*(?:<\?xml[^<>]*>\s*)?(?:<!--(?:(?!-->).){0,2000}-->\s*)*<(?:!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_BLOCK_END = re.compile(
    r"</(?:p|div|li|td|th|tr|h[1-6]|ul|ol|dl|dd|dt|table|section|article|main|pre|blockquote)\s*>", re.IGNORECASE
)
_TAG_DENSITY = 400  # characters for each closing tag of a block, at most
_MARKDOWN = re.compile(r"^(?:#{1,6} |```|~~~)", re.MULTILINE)
_HIDDEN = re.compile(
    r"<![^<>]*>|<(script|style|noscript|template)\b(?:(?!<\1\b).)*?</\1\s*>", re.IGNORECASE | re.DOTALL
)
_TITLE = re.compile(r"<title[^<>]*>(.{0,1000}?)</title\s*>", re.IGNORECASE | re.DOTALL)


def read_html(data: bytes) -> Content:
    """Read a web page."""
    return html_content(decode(data))


def html_content(source: str) -> Content:
    """Return the text of a page as Markdown, without navigation, tables of contents and footers.

    A page with millions of elements, or with elements nested more than 256 deep, is read without its structure.
    """
    page = _parsed(source, "Reading HTML")
    if page is None:
        return _without_tags(source)
    stated = one_line(page.css_first("title"))
    if page.body is None:
        return Content("", stated)
    _remove_boilerplate(page)
    root = _main(page)
    title = _title(root, stated)
    _remove_edges(root)
    return Content(_written(root), title)


def html_to_markdown(source: str) -> str:
    """Return HTML as Markdown that a program wrote: it has no boilerplate, and its elements are closed."""
    with optional_import("selectolax", "files", "Reading reStructuredText"):
        from selectolax.lexbor import LexborHTMLParser
    body = LexborHTMLParser(source).body
    return _written(body) if body is not None else ""


def readable(document: Document) -> Document:
    """Return a document with the Markdown of its HTML and its title; others as they are.

    Without the ``files`` extra, the tags are removed and nothing else is known of the page.
    """
    if not is_html(document.text):
        return document
    try:
        page = html_content(document.text)
    except MissingDependency:
        page = _without_tags(document.text)
    if not page.text.strip():
        return document
    return replace(document, text=page.text, title=document.title or page.title)


def is_page(text: str) -> bool:
    """Return whether a text starts as a web page does."""
    return _PAGE.match(text) is not None


def is_html(text: str) -> bool:
    """Return whether a text is a web page, or consists of HTML elements. Markdown with some HTML is not.

    >>> is_html("<!DOCTYPE html><title>A</title>"), is_html("<p>One.</p><p>Two.</p>"), is_html("a < b, <em>c</em>")
    (True, True, False)
    """
    start = text.lstrip()
    if is_page(text) or not start.startswith("<") or _MARKDOWN.search(text):
        return is_page(text)
    return len(_BLOCK_END.findall(text)) * _TAG_DENSITY >= len(start)


def _without_tags(source: str) -> Content:
    match = _TITLE.search(source)
    title = " ".join(plain(match[1]).split()) if match else ""
    return Content(plain(_TITLE.sub("", _HIDDEN.sub("", source))).strip(), title)


# -- parsing, unless a page costs more than its size

_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)([^<>]*)")
_MAX_ELEMENTS, _MAX_DEPTH, _MAX_ATTRIBUTES = 3_000_000, 256, 2_000
_FORMATTING = frozenset("b big code em font i nobr s small strike strong tt u".split())
"""Elements that HTML opens again in every block that follows, until they are closed."""
_UNNESTED = frozenset(
    "area base br col embed hr img input link meta param source track wbr p li td th tr dt dd a option optgroup thead "
    "tbody tfoot colgroup rt rp html head body frame h1 h2 h3 h4 h5 h6".split()
)
"""Elements that have no content, or that the next one of their kind closes."""
_BOUNDARIES = frozenset("applet button caption foreignobject marquee object select table template math svg".split())
"""Elements whose content closes nothing outside of them."""
_STAY_OPEN = _FORMATTING | {"math", "svg"}  # blocks inside stay open when one of these is closed


def _parsed(source: str, purpose: str) -> LexborHTMLParser | None:
    """Return a page; None if the parser would take more time and memory than in proportion to the page.

    It looks through all open elements for many a tag. And a formatting element that is not closed is opened again in
    every block, at most three times with the same attributes: n bytes can become n**2 elements.
    """
    with optional_import("selectolax", "files", purpose):
        from selectolax.lexbor import LexborHTMLParser
    elements = active = 0
    opened: dict[str, list[str]] = {}
    nested: list[str] = []
    for closing, name, attributes in _TAG.findall(source):
        tag = name.lower()
        if closing:
            _close(nested, tag)
            active -= bool(opened.get(tag) and opened[tag].pop() is not None)
            continue
        elements += 1 + active
        if tag not in _UNNESTED and attributes[-1:] != "/":
            nested.append(tag)
        if elements > _MAX_ELEMENTS or len(nested) > _MAX_DEPTH or attributes.count(" ") > _MAX_ATTRIBUTES:
            return None
        if tag in _FORMATTING and opened.setdefault(tag, [])[-3:] != [attributes] * 3:
            opened[tag].append(attributes)
            active += 1
    return LexborHTMLParser(source)


def _close(nested: list[str], tag: str) -> None:
    """Remove from open elements what an end tag closes, or less. One of an element that is not open does nothing."""
    for position in range(len(nested) - 1, -1, -1):
        if nested[position] == tag:
            del nested[position : position + 1 if tag in _STAY_OPEN else None]
            return
        if nested[position] in _BOUNDARIES:
            return


# -- boilerplate: what the site puts around the text of a page

_REMOVED = (
    "script, style, template, noscript, svg, math, iframe, object, nav, aside, footer, form, button, select, input, "
    "textarea, dialog, [hidden], [aria-hidden=true], [role=navigation], [role=search], [role=banner], "
    "[role=contentinfo], [role=complementary], [role=dialog], [style*='display:none'], [style*='display: none']"
)
_BOILERPLATE = frozenset(
    "nav navbar navigation menu mainmenu submenu searchmenu breadcrumb breadcrumbs crumbs sidebar sidebars toc "
    "tableofcontents toctree footer pagination pager prevnext related search searchbox cookie cookies consent banner "
    "skip permalink headerlink anchorlink editlink feedback share social tagline copyright newsletter advert ads "
    "nosearch masthead topbar toolbar switcher docnav topnav subnav sidenav navheader navfooter navlinks".split()
)
"""Words in the class or id of an element that mark it as boilerplate."""
_CONTENT_WORDS = frozenset(
    "content main body article document page wrapper container layout section with has no".split()
)
_ALWAYS_TEXT = frozenset("html body main article h1 h2 h3 h4 h5 h6 pre code dt dd li".split())
_CLASS_WORD = re.compile(r"[a-z]+|[A-Z][a-z]*")
_MOST_BOILERPLATE = 0.3  # of the page's text; an element with more is none, unless it is all links
_LEAST_MAIN = 0.4  # of the page's text that <main> or <article> must hold to replace <body>
_STEP_RELATIONS = frozenset({"prev", "previous", "next", "up", "contents", "index"})
_STEP_WORDS = r"(?:previous|prev|next|up|home|(?:table of )?contents|index|top|back to top|back)\b"
_ONLY_STEPS = re.compile(rf"\W+|\W*(?:{_STEP_WORDS}\W*)+", re.IGNORECASE)
_STEP_START = re.compile(r"\W*(?:[Pp]rev(?:ious)?|[Nn]ext|Up|Home)(?![a-z])")
_CRUMBS = re.compile(
    r"\0(?:\s*[»›→>]\s*\0)+(?:\s*[»›→>]\s*[^\0.!?]{0,100})?|\0\s*[»›→>]\s*[^\0.!?]{0,100}"
)  # \0: a link
_LONGEST_BAR = 400  # characters
_LAST_LINES = re.compile(
    r"(?:this page (?:was )?last|last (?:updated|modified|changed)|copyright\b|©|\(c\) \d|created using|built with|"
    r"powered by|(?:this document was )?generated (?:by|on|with)|all rights reserved|edit (?:this page|on github)|"
    r"page source|report (?:a|an) (?:bug|error|issue|problem)\b)",
    re.IGNORECASE,
)


def _remove_boilerplate(page: LexborHTMLParser) -> None:
    for node in page.css(_REMOVED):
        node.decompose()
    inner = {node.mem_id for node in page.css("main header, article header")}
    for node in page.css("header"):
        if node.css_first("h1") is None and node.mem_id not in inner:
            node.decompose()
    total = len(page.body.text()) if page.body else 0
    for node in page.css("[class], [id]"):
        if node.tag not in _ALWAYS_TEXT and _is_boilerplate(node) and node.css_first(".titlepage") is None:
            text, linked = len(node.text()), sum(len(link.text()) for link in node.css("a"))
            if text <= total * _MOST_BOILERPLATE or linked > text * 0.6:
                node.decompose()
    _remove_links(page)


def _remove_links(page: LexborHTMLParser) -> None:
    """Remove links to neighbouring pages, paths to the page, and lists that only link to places on the page."""
    for node in page.css("a[class*='prev'], a[class*='next'], a[class*='toc']"):
        if _is_step(node):
            node.decompose()  # it may be in the middle of the page's text
    for node in reversed(page.css("p, ul, ol, table, div, center")):  # from the innermost outwards
        if node.css_first("a") is not None and _is_bar(node):
            node.decompose()
    anchors = {node.attributes.get("id") for node in page.css("[id]")}
    anchors |= {node.attributes.get("name") for node in page.css("a[name]")}
    for node in page.css("ul, ol"):
        if _is_contents(node, anchors):
            node.decompose()


def _is_boilerplate(node: LexborNode) -> bool:
    for value in [*(node.attributes.get("class") or "").split(), node.attributes.get("id") or ""]:
        words = {word.lower() for word in _CLASS_WORD.findall(value)} | {re.sub(r"[^a-z]", "", value.lower())}
        if words & _BOILERPLATE and not words & _CONTENT_WORDS:
            return True
    return False


def _is_step(link: LexborNode) -> bool:
    """Whether a link leads to the page before, after or above, or to the contents or the index."""
    text = one_line(link)
    is_named = link.attributes.get("rel") in _STEP_RELATIONS or _ONLY_STEPS.fullmatch(text) is not None
    return is_named or _STEP_START.match(text) is not None


def _is_bar(block: LexborNode) -> bool:
    """Whether a block holds nothing but steps ("Next: Tides, [Index]"), or the path to the page ("Home » Tides")."""
    whole, between, end = one_line(block), "", 0
    if len(whole) > _LONGEST_BAR:
        return False
    links = block.css("a[href]")
    for text in map(one_line, links):
        start = whole.find(text, end)
        between, end = f"{between}{whole[end:start]}\0", start + len(text)
    between += whole[end:]
    are_steps = bool(links) and all(map(_is_step, links))
    return (are_steps and _ONLY_STEPS.fullmatch(between) is not None) or _CRUMBS.fullmatch(between) is not None


def _is_contents(node: LexborNode, anchors: set[str | None]) -> bool:
    """Whether a list only links to places on the page."""
    links = node.css("a")
    targets = [(link.attributes.get("href") or "").partition("#") for link in links]
    if len(links) < 3 or len({path for path, *_ in targets}) > 1 or any(part not in anchors for *_, part in targets):
        return False
    linked = sum(len(link.text(strip=True)) for link in links)
    return linked >= 0.9 * len(one_line(node)) - 2 * len(links)


def _remove_edges(root: LexborNode) -> None:
    """Remove the numbers of sections, and last lines that say when a page was changed or whose it is."""
    for node in root.css("h1 > span:first-child, h2 > span:first-child, h3 > span:first-child, h4 > span:first-child"):
        if _SECTION_NUMBER.fullmatch(node.text()):
            node.decompose()
    blocks = [node for node in root.css("p, div, small, center, address") if node.text(strip=True)]
    for node in reversed(blocks[-4:]):
        text = one_line(node)
        if len(text) < 250 and _LAST_LINES.match(text):
            node.decompose()


def _main(page: LexborHTMLParser) -> LexborNode:
    body = page.body
    assert body is not None  # noqa: S101 - the caller has seen it
    for selector in ("main", "[role=main]", "article"):
        nodes = page.css(selector)
        if len(nodes) == 1 and len(nodes[0].text()) > len(body.text()) * _LEAST_MAIN:
            return nodes[0]
    return body


# -- titles

_TITLE_SEPARATOR = re.compile(r"\s+[|·•»:—–-]+\s+|\s*[»—|]\s*")
_SECTION_NUMBER = re.compile(r"\s*(?:[0-9A-Z]+\.)*[0-9A-Z]*\.?\s*")
_NUMBER = re.compile(
    r"\s*(?:(?:\d+\.)+\d*\s+|(?:chapter|section|part|appendix)\s+(?:\d+|[A-Z](?=\.))(?:\.\d+)*[.:]?\s+(?:[–—-]\s+)?)",
    re.IGNORECASE,
)


def _title(root: LexborNode, stated: str) -> str:
    """Return the title of a page: a heading that the <title> names, the only <h1>, or the <title> without the site."""
    parts = [part.strip() for part in _TITLE_SEPARATOR.split(stated) if part.strip()]
    names = {_without_number(name) for name in (stated, *(parts[:-1] or parts))}
    names |= {re.sub(r"(?<!\s)\s+\([^()]+\)$", "", name) for name in names}  # "Quoting (Shell Manual)"
    banners = root.css("h1")
    headings = [one_line(node).rstrip("¶#🔗 ") for node in banners]
    for node in (*banners, *root.css("h2, h3, h4")):
        text = one_line(node).rstrip("¶#🔗 ")
        named = {_without_number(text), re.sub(r"^(?:\d+|[A-Z]\.)(?:\.\d+)*[.:]?\s+", "", text)} & names
        if any(named):
            if node.tag != "h1" and len(banners) == 1:
                banners[0].decompose()  # a heading that all pages of the site have
            return max(named)
    headings = [text for text in headings if _without_number(text)]
    is_section = bool(stated and headings and _NUMBER.match(headings[0]))  # "1. Overview"
    if len(headings) == 1 and not is_section and headings[0] not in parts[1:][-1:]:
        return headings[0]
    if len(parts) < 2:
        return _without_number(parts[0] if parts else one_line(root.css_first("h1, h2, h3")).rstrip("¶#🔗 "))
    return _without_number(stated[: stated.rfind(parts[-1])].rstrip(" |·•»:—–-"))


def _without_number(heading: str) -> str:
    found = _NUMBER.match(heading)
    return heading[found.end() :] if found else heading


# -- elements

_BLOCKS = frozenset(
    "address article aside blockquote body caption center details dd dir div dl dt fieldset figcaption figure h1 h2 h3 "
    "h4 h5 h6 header hgroup hr legend li main menu ol p section summary table tbody td tfoot th thead tr ul".split()
)
_ANCHORED = frozenset("h1 h2 h3 h4 h5 h6 a section div dl dt dd span p li article".split())
_NOTES = frozenset("note tip hint warning caution danger important attention example".split())
_GENERATED = re.compile(r"id[mp]?[-_]?\d[\d.\-_]*|index-.*")  # an anchor that a program made for its own use
_PERMALINKS = frozenset(("", "¶", "#", "§", "🔗", "∞", "link", "permalink", "[top]", "top", "^", "↑"))
_LANGUAGE = re.compile(r"(?:language|lang|highlight|brush|sourceCode)[-: ]+([A-Za-z0-9+#_-]+)")
_NO_LANGUAGES = frozenset("default text none notranslate source highlight plaintext".split())
_CJK = "\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef"
_CJK_BREAK = re.compile(rf"(?<=[{_CJK}])[ \t]*\n\s*(?=[{_CJK}])")
_DEEPEST_INDENT = 64  # characters; else a text would grow with the square of its depth


def _written(root: LexborNode) -> str:
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
        self.line: list[str] = []  # the pieces of the line that is being written
        self.anchors: list[str] = []  # of the text that comes next
        self.indent = self.marker = ""  # what a line starts with: in an item, and the first line of one
        self.gap = False  # whether a blank line comes next
        self.numbers: list[int] = []  # of the next items of the open lists; 0 for bullets
        self.level = 1  # of the last heading

    def write(self, node: LexborNode) -> None:
        """Write an element and all below."""
        tag = node.tag or ""
        if tag == "-text":
            self.text(markdown.escape(node.text_content or ""))
        elif not tag.startswith(("-", "!")):
            if tag in _ANCHORED:
                names = (node.attributes.get("id"), node.attributes.get("name") if tag == "a" else None)
                self.anchors += (name for name in names if name and not _GENERATED.fullmatch(name))
            in_line = _IN_LINE.get(tag)
            if in_line is not None:
                in_line(self, node)
            elif tag not in _BLOCKS:
                self.children(node)
            elif self.in_cell and tag != "table":
                self.block_of(node)
            else:
                _IN_BLOCKS.get(tag, _Markdown.block_of)(self, node)

    def children(self, node: LexborNode) -> None:
        for child in node.iter(include_text=True):
            self.write(child)

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
            self.add([markdown.line(text)])
        self.gap = self.gap or (gap and not self.marker)

    def add(self, lines: Sequence[str]) -> None:
        """Add lines, behind the marker of their item."""
        if self.gap and self.lines:
            self.lines.append("")
        for line in lines:
            start = f"{self.indent[: len(self.indent) - len(self.marker)]}{self.marker}"
            self.lines.append(f"{start}{line}" if line else "")
            self.marker = ""
        self.gap = False

    # -- in lines

    def skip(self, node: LexborNode) -> None:
        """Write nothing."""

    def line_break(self, _: LexborNode) -> None:
        self.end(gap=False)

    def superscript(self, node: LexborNode) -> None:
        if node.text(strip=True).isdigit() and node.css_first("a") is None:
            self.text("^")
        self.children(node)

    def link(self, node: LexborNode) -> None:
        text, target = one_line(node), _target(node)
        is_self_link = bool(node.attributes.get("href")) and not target
        if text.lower() in _PERMALINKS or (text[:1] == "[" and is_self_link):
            return
        self.text("")
        start, row = len(self.line), len(self.lines)
        self.children(node)
        label = "".join(self.line[start:])
        if target and row == len(self.lines) and (words := label.strip()):
            before, after = label[: len(label) - len(label.lstrip())], label[len(label.rstrip()) :]
            self.line[start:] = [before, markdown.link(words, target), after]

    def literal(self, node: LexborNode) -> None:
        inner = node.first_child if one_line(node.first_child) == one_line(node) else None
        if any("replaceable" in (one.attributes.get("class") or "") for one in (node, node.parent, inner) if one):
            self.children(node)  # a placeholder that the reader has to fill in, as DocBook marks it
            return
        code = markdown.literal(node.text())
        if code and "".join(self.line[-1:]).endswith("`"):
            self.line.append(" ")
        self.text(markdown.link(code, _target(node.css_first("a[href]"))))

    def code(self, node: LexborNode) -> None:
        if self.in_cell:
            self.text(markdown.literal(node.text()))
            return
        self.end()
        if lines := markdown.fenced(node.text(), _language(node)):
            if self.marker == ": ":  # Markdown knows no code after this marker
                self.marker, self.gap = "", True
            self.add(lines)
            self.gap = True

    # -- blocks

    def block_of(self, node: LexborNode) -> None:
        self.end()
        self.children(node)
        self.end()

    def table(self, node: LexborNode) -> None:
        """Write a table of data; one that holds headings, tables, or blocks without column labels is a layout."""
        rows = [[cell for cell in row.iter() if cell.tag in ("td", "th")] for row in node.css("tr")]
        has_header = bool(rows) and len(rows[0]) > 1 and all(cell.tag == "th" for cell in rows[0])
        inside = "h1, h2, h3, h4, h5, h6, table table" + ("" if has_header else ", pre, ul, ol, dl")
        if max(map(len, rows), default=0) < 2 or node.css_first(inside) is not None:
            self.block_of(node)
            return
        self.end()
        for caption in node.css("caption"):
            self.write(caption)
            self.end()
        rows = [cells for cells in rows if any(cell.text(strip=True) for cell in cells)]
        lines = list(markdown.table((list(map(self.cell, cells)) for cells in rows), header=has_header))
        if self.in_cell:
            self.text(" ".join(lines))
        elif lines:
            self.add(lines)
        self.gap = True

    def cell(self, node: LexborNode) -> str:
        cell = _Markdown(in_cell=True)
        cell.anchors, self.anchors = self.anchors, []
        cell.write(node)
        return " ".join("".join(cell.line).split())

    def heading(self, node: LexborNode) -> None:
        """Write a heading. Inside an item it is an ordinary line, since it starts no section; so is that of a note."""
        self.end()
        if one_line(node).rstrip(".:").lower() in _NOTES:
            self.line = [f"**{one_line(node)}**"]
            self.end()
            return
        self.level = int((node.tag or "h1")[1])
        if not self.indent:
            self.marker = "#" * self.level + " "
        self.children(node)
        own = markdown.anchor(slug(plain("".join(self.line))))  # Markdown gives it this one anyway
        self.line = [piece for piece in self.line if piece != own]
        self.end()
        if not self.indent:
            self.marker = ""  # an empty heading

    def paragraph(self, node: LexborNode) -> None:
        """Write a paragraph. In old-style markup one that is bold throughout and has an anchor is a heading."""
        text = one_line(node)
        bold = "".join(part.text() for part in node.iter() if part.tag in ("b", "strong", "i", "em", "var"))
        is_bold = node.css_first("b, strong") is not None and len("".join(bold.split())) >= len("".join(text.split()))
        is_named = bool(self.anchors) or node.css_first("a[name], [id]") is not None
        is_title = "title" in (node.attributes.get("class") or "").split()  # of a table or an example
        self.end()
        if is_bold and is_named and 0 < len(text) <= 200 and not (is_title or self.numbers or text[-1] in ":,"):
            self.marker = "#" * (min(self.level, 5) + 1) + " "
        self.children(node)
        self.end()

    def list(self, node: LexborNode) -> None:
        self.end(gap=not self.indent)
        start = node.attributes.get("start") or "1"
        first = int(start) if start.isdecimal() and len(start) <= 9 else 1
        self.numbers.append(first if node.tag == "ol" else 0)
        self.children(node)
        self.numbers.pop()
        self.end(gap=not self.indent)

    def item(self, node: LexborNode) -> None:
        self.end(gap=False)
        marker = ": " if node.tag == "dd" else "- "
        if node.tag == "dd":
            self.gap = False
        elif self.numbers and self.numbers[-1]:
            marker = f"{self.numbers[-1]}. "
            self.numbers[-1] += 1
        outer = self.indent
        if len(outer) < _DEEPEST_INDENT:
            self.marker += marker
            self.indent += " " * len(marker)
        self.children(node)
        self.end(gap=False)
        self.indent, self.marker, self.gap = outer, "", False

    def defined(self, node: LexborNode) -> None:
        above = node.prev.prev if node.prev is not None and node.prev.tag == "-text" else node.prev
        self.end(gap=above is None or above.tag != "dt")
        self.children(node)
        self.end(gap=False)


_Writer = Callable[[_Markdown, "LexborNode"], None]
_IN_LINE: dict[str, _Writer] = {
    "a": _Markdown.link, "br": _Markdown.line_break, "code": _Markdown.literal,
    "img": _Markdown.skip, "kbd": _Markdown.literal, "pre": _Markdown.code, "samp": _Markdown.literal,
    "sup": _Markdown.superscript, "tt": _Markdown.literal,
}  # fmt: skip
_IN_BLOCKS: dict[str, _Writer] = {
    "dd": _Markdown.item, "dir": _Markdown.list, "dt": _Markdown.defined, "li": _Markdown.item, "menu": _Markdown.list,
    "ol": _Markdown.list, "p": _Markdown.paragraph, "table": _Markdown.table, "ul": _Markdown.list,
    **{f"h{level}": _Markdown.heading for level in range(1, 7)},
}  # fmt: skip


def _target(node: LexborNode | None) -> str:
    """Return where a link leads; empty for one to itself, such as that around a heading's text."""
    target = ((node.attributes.get("href") or "") if node else "").strip()
    if target.startswith(("javascript:", "mailto:", "data:", "tel:")):
        return ""
    for _ in range(3):
        if node is not None and target in ("#", f"#{node.attributes.get('id')}"):
            return ""
        node = node.parent if node is not None else None
    return target


def _language(node: LexborNode) -> str:
    parent = node.parent
    for element in (node, node.css_first("code"), parent, parent.parent if parent else None):
        if element is not None and (language := _LANGUAGE.search(element.attributes.get("class") or "")):
            return "" if language[1].lower() in _NO_LANGUAGES else language[1]
    return ""


def one_line(node: LexborNode | None) -> str:
    """Return the text of a node, in one line."""
    return " ".join(node.text().split()) if node else ""
