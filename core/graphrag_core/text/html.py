"""Read web pages with selectolax, without the boilerplate that the site puts around the text."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from graphrag_core.errors import MissingDependency, optional_import
from graphrag_core.model import Document
from graphrag_core.text.content import Content, decode
from graphrag_core.text.html_text import one_line, write_html
from graphrag_core.text.markup import plain
from graphrag_core.text.writer import Writer

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

_REMOVED = (
    "script, style, template, noscript, svg, math, iframe, object, nav, aside, footer, form, button, select, input, "
    "textarea, dialog, [hidden], [aria-hidden=true], [role=navigation], [role=search], [role=banner], "
    "[role=contentinfo], [role=complementary], [role=dialog], [style*='display:none'], [style*='display: none']"
)
_FURNITURE = set(
    "nav navbar navigation menu mainmenu submenu searchmenu breadcrumb breadcrumbs crumbs sidebar sidebars toc "
    "tableofcontents toctree footer pagination pager prevnext related search searchbox cookie cookies consent banner "
    "skip permalink headerlink anchorlink editlink feedback share social tagline copyright newsletter advert ads "
    "nosearch masthead topbar toolbar switcher docnav topnav subnav sidenav navheader navfooter navlinks".split()
)
"""Words in the class or id of an element that mark it as boilerplate, not a part of the page's text."""
_CONTENT_WORDS = set("content main body article document page wrapper container layout section with has no".split())
_KEPT_TAGS = {"html", "body", "main", "article", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "code", "dt", "dd", "li"}
_CLASS_WORD = re.compile(r"[a-z]+|[A-Z][a-z]*")
_MAX_FURNITURE_SHARE = 0.3  # of the page's text; an element with more is not furniture, unless it is all links
_MAX_ELEMENTS = 3_000_000  # of a page; each takes about 300 bytes
_MAX_DEPTH = 256  # of nested elements
_MAX_ATTRIBUTES = 2_000  # spaces in a tag
_MOST_SIBLINGS = 500  # before an element that are looked at
_MIN_MAIN_SHARE = 0.4  # of the page's text that <main> or <article> must hold to replace <body>

_CONTENTS_HEADING = re.compile(
    r"(?:table of )?contents:?|on this page|in this (?:article|page|chapter|section):?|toc", re.IGNORECASE
)
_STEP_LINKS = re.compile(
    r"\W*(?:(?:previous|prev|next|up|home|contents|index|top|back|back to top)\b\W*)+", re.IGNORECASE
)
_LAST_LINES = re.compile(
    r"(?:this page (?:was )?last|last (?:updated|modified|changed)|copyright\b|©|\(c\) \d|created using|built with|"
    r"powered by|(?:this document was )?generated (?:by|on|with)|all rights reserved|edit (?:this page|on github)|"
    r"page source)",
    re.IGNORECASE,
)
_STEP_LINK = re.compile(r"\W*(?:[Pp]rev(?:ious)?|[Nn]ext|Up|Home)(?![a-z])\W*")
_STEP_NAMES = re.compile(rf"\W+|{_STEP_LINKS.pattern}", re.IGNORECASE)
_STEP_LABEL = re.compile(r"\b(?:next|prev|previous|up):", re.IGNORECASE)
_STEPS = {"prev", "previous", "next", "up", "contents", "index"}
_CRUMB_SEPARATOR = re.compile(r"\s*[»›→>]")
_CRUMBS = re.compile(r"\0(?:\s*[»›→>]\s*\0)*(?:\s*[»›→>]\s*[^\0.!?]{0,100})?")
_AROUND_STEPS = set("b center div li ol p span strong table tbody td th tr ul".split())
_MOST_STEP_LINKS = 10  # at the start of a page, and at its end, around which more is removed
_LONGEST_STEPS = 400  # characters of links to the pages before and after
_TITLE_SEPARATOR = re.compile(r"\s+[|·•»:—–-]+\s+|\s*[»—|]\s*")
_NUMBER = re.compile(r"^\s*(?:\d+\.)+\d*\s+|^\s*\d+\.\s+")
_LEADING_NUMBER = re.compile(
    r"^(?:(?:chapter|section|part|appendix)\s+)?(?:\d+|[A-Z](?=\.))(?:\.\d+)*[.:]?\s+(?:[–—-]\s+)?", re.IGNORECASE
)
_PARENTHESIS = re.compile(r"(?<!\s)\s+\([^()]+\)$")
_SECTION_NUMBER = re.compile(r"\s*(?:[0-9A-Z]+\.)*[0-9A-Z]*\.?\s*")
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)([^<>]*)")
_FORMATTING = frozenset("b big code em font i nobr s small strike strong tt u".split())
"""Elements that HTML opens again in every block that follows, until they are closed."""
_UNNESTED = frozenset(
    "area base br col embed hr img input link meta param source track wbr p li td th tr dt dd a option optgroup thead "
    "tbody tfoot colgroup rt rp html head body frame h1 h2 h3 h4 h5 h6".split()
)
"""Elements that have no content, or that the next one of their kind closes."""

_FOREIGN = frozenset(("math", "svg"))
_BOUNDARIES = frozenset("applet button caption foreignobject marquee object select table template".split()) | _FOREIGN
"""Elements whose content closes nothing outside of them."""

# -- texts that are raw HTML, as web loaders of frameworks hand them over

_PAGE = re.compile(
    r"\s*(?:<\?xml[^<>]*>\s*)?(?:<!--(?:(?!-->).){0,2000}-->\s*)*<(?:!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_BLOCK_TAG = re.compile(
    r"</(?:p|div|li|td|th|tr|h[1-6]|ul|ol|dl|dd|dt|table|section|article|main|pre|blockquote)\s*>", re.IGNORECASE
)
_MARKDOWN = re.compile(r"^(?:#{1,6} |```|~~~)", re.MULTILINE)
_HIDDEN = re.compile(
    r"<![^<>]*>|<(script|style|noscript|template)\b(?:(?!<\1\b).)*?</\1\s*>", re.IGNORECASE | re.DOTALL
)
_TITLE_TAG = re.compile(r"<title[^<>]*>(.{0,1000}?)</title\s*>", re.IGNORECASE | re.DOTALL)
_TITLE_BYTES = re.compile(rb"<title[^<>]*>(.{0,1000}?)</title\s*>", re.IGNORECASE | re.DOTALL)
_TAG_DENSITY = 400  # characters for each closing tag of a block, at most


def read_html(data: bytes) -> Content:
    """Read a web page. Links, anchors and defined terms become marks."""
    return html_content(decode(data))


def html_content(source: str) -> Content:
    """Read the text of a page, without navigation, tables of contents and footers.

    A page with millions of elements, or with elements nested more than 256 deep, is read without its structure.
    """
    with optional_import("selectolax", "files", "Reading HTML"):
        from selectolax.lexbor import LexborHTMLParser
    if not _is_parsable(source):
        return _without_tags(source)
    page = LexborHTMLParser(source)
    site_title = one_line(page.css_first("title"))
    if page.body is None:
        return Content("", site_title)
    _remove_furniture(page)
    root = _main(page)
    title = _title(page, root, site_title)
    heading = _first_heading(root, site_title)
    for node in root.css("h1 > span:first-child, h2 > span:first-child, h3 > span:first-child, h4 > span:first-child"):
        if _SECTION_NUMBER.fullmatch(node.text()):
            node.decompose()
    _remove_last_lines(root)
    writer = Writer()
    write_html(root, writer)
    return replace(writer.finish(title), heading=heading)


def title_element(data: bytes) -> bytes:
    """Return what a web page has in its ``<title>``, undecoded, to compare the titles of many pages."""
    title = _TITLE_BYTES.search(data)
    return b" ".join(title[1].split()) if title else b""


def readable(document: Document) -> Document:
    """Return a document with the readable text of its HTML, its title, links and anchors; others as they are.

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
    return replace(document, text=page.text, title=document.title or page.title, marks=page.marks)


def is_page(text: str) -> bool:
    """Return whether a text starts as a web page does."""
    return _PAGE.match(text) is not None


def is_html(text: str) -> bool:
    """Return whether a text is a web page, or consists of HTML elements. Markdown with some HTML is not.

    >>> is_html("<!DOCTYPE html><title>A</title>"), is_html("<p>One.</p><p>Two.</p>"), is_html("a < b, <em>c</em>")
    (True, True, False)
    """
    if is_page(text):
        return True
    start = text.lstrip()
    if not start.startswith("<") or _MARKDOWN.search(text):
        return False
    return len(_BLOCK_TAG.findall(text)) * _TAG_DENSITY >= len(start)


def _without_tags(source: str) -> Content:
    """Return the text of a page without its tags, and its title."""
    match = _TITLE_TAG.search(source)
    title = " ".join(plain(match[1]).split()) if match else ""
    return Content(plain(_TITLE_TAG.sub("", _HIDDEN.sub("", source))).strip(), title)


def _is_parsable(source: str) -> bool:
    """Return whether the parser takes time and memory in proportion to the page.

    It looks through all open elements for many a tag. And a formatting element that is not closed is opened again in
    every block, at most three times with the same attributes: n bytes can become n**2 elements.
    """
    elements = active = 0
    opened: dict[str, list[str]] = {}
    nested: list[str] = []
    for closing, name, attributes in _TAG.findall(source):
        tag = name.lower()
        if closing:
            _close(nested, tag)
            if opened.get(tag):
                opened[tag].pop()
                active -= 1
            continue
        elements += 1 + active
        if tag not in _UNNESTED and attributes[-1:] != "/":
            nested.append(tag)
        if elements > _MAX_ELEMENTS or len(nested) > _MAX_DEPTH or attributes.count(" ") > _MAX_ATTRIBUTES:
            return False
        if tag in _FORMATTING and opened.setdefault(tag, [])[-3:] != [attributes] * 3:
            opened[tag].append(attributes)
            active += 1
    return True


def _close(nested: list[str], tag: str) -> None:
    """Remove from open elements what an end tag closes, or less. One of an element that is not open does nothing."""
    for position in range(len(nested) - 1, -1, -1):
        if nested[position] == tag:
            stays = tag in _FORMATTING or tag in _FOREIGN  # blocks in these stay open
            del nested[position : position + 1 if stays else None]
            return
        if nested[position] in _BOUNDARIES:
            return


# -- boilerplate: what the site puts around the text of a page


def _remove_furniture(page: LexborHTMLParser) -> None:
    for node in page.css(_REMOVED):
        node.decompose()
    inner = {node.mem_id for node in page.css("main header, article header")}
    for node in page.css("header"):
        if node.css_first("h1") is None and node.mem_id not in inner:
            node.decompose()
    total = len(page.body.text()) if page.body else 0
    for node in page.css("[class], [id]"):
        if node.tag in _KEPT_TAGS or not _is_furniture(node):
            continue
        text = len(node.text())
        linked = sum(len(link.text()) for link in node.css("a"))
        if text <= total * _MAX_FURNITURE_SHARE or linked > text * 0.6:
            node.decompose()
    _remove_step_links(page)
    _remove_contents(page)


def _remove_step_links(page: LexborHTMLParser) -> None:
    """Remove navigation bars, and the first and last blocks with little but links to the previous and next pages."""
    for link in page.css("a[class*='prev'], a[class*='next'], a[class*='toc']"):
        if _is_step_link(link) or _CONTENTS_HEADING.fullmatch(one_line(link)):
            link.decompose()  # it may be in the middle of the page's text
    links = [link for link in page.css("a") if _is_step_link(link) or _is_crumb(link)]
    steps = {link.mem_id for link in links if _is_step_link(link)}
    removed: set[int] = set()
    too_long: set[int] = set()
    for number, link in enumerate(links):
        is_inner = _MOST_STEP_LINKS <= number < len(links) - _MOST_STEP_LINKS
        if link.mem_id not in removed:
            block = _step_block(link, set() if is_inner else steps, too_long)
            if block is not None:
                removed.update(inner.mem_id for inner in block.css("a"))
                block.decompose()


def _step_block(link: LexborNode, steps: set[int], too_long: set[int]) -> LexborNode | None:
    """Return the outermost navigation bar around a link, or block that is mostly links of ``steps``.

    Blocks whose text is too long for a navigation bar are added to ``too_long``, so that each is read once.
    """
    outermost, block = None, link.parent
    while block is not None and block.tag in _AROUND_STEPS and block.mem_id not in too_long:
        if len(text := one_line(block)) > _LONGEST_STEPS:
            too_long.add(block.mem_id)
        elif _is_navigation_bar(block) or _is_mostly_steps(block, text, steps):
            outermost = block
        block = block.parent
    return outermost


def _is_step_link(link: LexborNode) -> bool:
    text = one_line(link)
    return _is_step(link, text) or _STEP_LINK.match(text) is not None


def _is_step(link: LexborNode, text: str) -> bool:
    """Whether a link leads to the page before, after or above, or to the contents or the index."""
    return link.attributes.get("rel") in _STEPS or _STEP_NAMES.fullmatch(text) is not None


def _is_crumb(link: LexborNode) -> bool:
    after = link.next
    return after is not None and after.tag == "-text" and _CRUMB_SEPARATOR.match(after.text()) is not None


def _is_mostly_steps(block: LexborNode, text: str, steps: set[int]) -> bool:
    links = block.css("a")
    linked = sum(len(_STEP_LINK.sub("", one_line(link))) for link in links)
    return sum(link.mem_id in steps for link in links) > 1 and 2 * linked >= len(_STEP_LINK.sub("", text))


def _is_navigation_bar(block: LexborNode) -> bool:
    """Whether a block holds nothing but steps ("Next: Tides, [Index]") or the path to the page ("Home » Tides")."""
    links = block.css("a[href]")
    texts = [one_line(link) for link in links]
    whole, end, between = one_line(block), 0, ""  # with a null character for each link
    for text in texts:
        start = whole.find(text, end)
        between, end = f"{between}{whole[end:start]}\0", start + len(text)
    between += whole[end:]
    steps = sum(map(_is_step, links, texts))
    if _CRUMBS.fullmatch(between):
        return len(links) > 1 or steps > 0
    labels = len(_STEP_LABEL.findall(between))
    return len(links) > 1 and steps + labels >= len(links) and _STEP_NAMES.fullmatch(between) is not None


def _remove_contents(page: LexborHTMLParser) -> None:
    """Remove lists that only link to places on the page."""
    anchors = {node.attributes.get("id") for node in page.css("[id]")}
    anchors |= {node.attributes.get("name") for node in page.css("a[name]")}
    for node in page.css("ul, ol"):
        if _is_table_of_contents(node, anchors):
            before, steps = node.prev, 0
            while before is not None and not before.text(strip=True) and steps < _MOST_SIBLINGS:
                before, steps = before.prev, steps + 1
            if before is not None and _CONTENTS_HEADING.fullmatch(one_line(before)):
                before.decompose()
            node.decompose()
    for node in page.css("td"):
        if _is_menu(node, page):
            node.decompose()


def _is_menu(cell: LexborNode, page: LexborHTMLParser) -> bool:
    """Whether a cell of a table that lays out the page only holds links, and the page has text besides."""
    links = cell.css("a")
    if len(links) < 6 or cell.css_first("ul") is None:
        return False
    text, linked = len(one_line(cell)), sum(len(one_line(link)) for link in links)
    return linked > 0.7 * text and len(one_line(page.body)) > text + 200


def _remove_last_lines(root: LexborNode) -> None:
    """Remove short blocks at the end that say when a page was changed or whose it is, and links to its neighbours."""
    blocks = [node for node in root.css("p, div, small, center, address") if node.text(strip=True)]
    removed = [node for node in blocks[:4] if _STEP_LINKS.fullmatch(one_line(node))]
    last = [(node, one_line(node)) for node in blocks[-4:]]
    removed += [
        node for node, text in last if len(text) < 250 and (_LAST_LINES.match(text) or _STEP_LINKS.fullmatch(text))
    ]
    removed_ids: set[int] = set()  # blocks are nested
    for node in removed:
        if node.mem_id not in removed_ids:
            removed_ids.update(inner.mem_id for inner in node.traverse())
            node.decompose()


def _is_furniture(node: LexborNode) -> bool:
    attributes = node.attributes
    for value in [*(attributes.get("class") or "").split(), attributes.get("id") or ""]:
        words = {word.lower() for word in _CLASS_WORD.findall(value)} | {re.sub(r"[^a-z]", "", value.lower())}
        if words & _FURNITURE and not words & _CONTENT_WORDS:
            return True
    return False


def _is_table_of_contents(node: LexborNode, anchors: set[str | None]) -> bool:
    """Whether a list only links to places on the same page."""
    links = node.css("a")
    targets = [(link.attributes.get("href") or "").partition("#") for link in links]
    if len(links) < 3 or len({path for path, _, _ in targets}) > 1 or any(part not in anchors for *_, part in targets):
        return False
    linked = sum(len(link.text(strip=True)) for link in links)
    return linked >= 0.9 * len(one_line(node)) - 2 * len(links)


def _main(page: LexborHTMLParser) -> LexborNode:
    body = page.body
    assert body is not None  # noqa: S101 - the caller has seen it
    for selector in ("main", "[role=main]", "article"):
        nodes = page.css(selector)
        if len(nodes) == 1 and len(nodes[0].text()) > len(body.text()) * _MIN_MAIN_SHARE:
            return nodes[0]
    return body


def _title(page: LexborHTMLParser, root: LexborNode, site_title: str) -> str:
    """Return the title of a page: a heading, or the <title> without the name of the site."""
    parts = [part.strip() for part in _TITLE_SEPARATOR.split(site_title) if part.strip()]
    if heading := _heading_in_title(root, site_title, parts):
        return heading
    site_name = page.css_first("meta[property='og:site_name']")
    site = (site_name.attributes.get("content") or "").strip() if site_name else ""
    heading = _only_heading(root, site_title)
    if heading and heading not in (site, *parts[1:][-1:]):
        return heading
    parts = [part for part in parts if part != site] or parts
    if len(parts) > 1:
        title = site_title[: site_title.rfind(parts[-1])].rstrip(" |·•»:—–-")
    else:
        title = parts[0] if parts else _heading_text(root.css_first("h1, h2, h3"))
    return _NUMBER.sub("", title)


def _heading_in_title(root: LexborNode, site_title: str, parts: list[str]) -> str:
    """Return the first heading that the <title> contains, without its number. ``parts`` are the parts of the title."""
    names = {_NUMBER.sub("", name) for name in (site_title, *parts[: max(1, len(parts) - 1)])}
    names |= {_PARENTHESIS.sub("", name) for name in names}  # "Quoting (Shell Manual)"
    banners = root.css("h1")
    for node in (*banners, *root.css("h2, h3, h4")):
        text = _heading_text(node)
        for heading in (_NUMBER.sub("", text), _LEADING_NUMBER.sub("", text)):
            if heading and heading in names:
                if node.tag != "h1" and len(banners) == 1:
                    banners[0].decompose()  # a heading that all pages of the site have
                return heading
    return ""


def _only_heading(root: LexborNode, site_title: str) -> str:
    """Return the heading of a page with one <h1>, unless it is the heading of a section, as "1. Overview"."""
    texts = [_heading_text(node) for node in root.css("h1")]
    headings = [heading for text in texts if (heading := _NUMBER.sub("", text))]
    is_title = len(headings) == 1 and not (site_title and _NUMBER.match(texts[0]))
    return headings[0] if is_title else ""


def _first_heading(root: LexborNode, site_title: str) -> str:
    """Return the first heading that is not the <title>."""
    headings = (_NUMBER.sub("", _heading_text(node)) for node in root.css("h1, h2, h3, h4, h5, h6"))
    return next((heading for heading in headings if heading and heading != site_title), "")


def _heading_text(node: LexborNode | None) -> str:
    """Return the words of a heading without the link to itself."""
    return one_line(node).rstrip("¶#🔗 ")
