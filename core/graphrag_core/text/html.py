"""Read web pages as Markdown with selectolax, without the boilerplate that a site puts around its texts."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from graphrag_core.errors import MissingDependency, optional_import
from graphrag_core.model import Document
from graphrag_core.text.content import Content, decode
from graphrag_core.text.elements import before, one_line, to_markdown
from graphrag_core.text.markup import plain

if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser, LexborNode

# -- texts that are HTML

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

# -- pages that cost more than their size

_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*)([^<>]*)")
_MAX_ELEMENTS, _MAX_DEPTH, _MAX_ATTRIBUTES = 3_000_000, 256, 2_000
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


def read_html(data: bytes) -> Content:
    """Read a web page."""
    return html_content(decode(data))


def html_content(source: str) -> Content:
    """Return the text of a page as Markdown, without navigation, tables of contents and footers.

    A page with millions of elements, or with elements nested more than 256 deep, is read without its structure.
    """
    with optional_import("selectolax", "files", "Reading HTML"):
        from selectolax.lexbor import LexborHTMLParser
    if not _is_parsable(source):
        return _without_tags(source)
    page = LexborHTMLParser(source)
    stated = one_line(page.css_first("title"))
    if page.body is None:
        return Content("", stated)
    _remove_boilerplate(page)
    root = _main(page)
    title, heading = _title(page, root, stated), _first_heading(root, stated)
    _remove_edges(root)
    return Content(to_markdown(root), title, heading=heading)


def title_element(data: bytes) -> bytes:
    """Return what a web page has in its ``<title>``, undecoded, to compare the titles of many pages."""
    title = re.search(_TITLE.pattern.encode(), data, re.IGNORECASE | re.DOTALL)
    return b" ".join(title[1].split()) if title else b""


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
    if is_page(text):
        return True
    start = text.lstrip()
    if not start.startswith("<") or _MARKDOWN.search(text):
        return False
    return len(_BLOCK_END.findall(text)) * _TAG_DENSITY >= len(start)


def _without_tags(source: str) -> Content:
    match = _TITLE.search(source)
    title = " ".join(plain(match[1]).split()) if match else ""
    return Content(plain(_TITLE.sub("", _HIDDEN.sub("", source))).strip(), title)


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

_REMOVED = (
    "script, style, template, noscript, svg, math, iframe, object, nav, aside, footer, form, button, select, input, "
    "textarea, dialog, [hidden], [aria-hidden=true], [role=navigation], [role=search], [role=banner], "
    "[role=contentinfo], [role=complementary], [role=dialog], [style*='display:none'], [style*='display: none']"
)
_FURNITURE = frozenset(
    "nav navbar navigation menu mainmenu submenu searchmenu breadcrumb breadcrumbs crumbs sidebar sidebars toc "
    "tableofcontents toctree footer pagination pager prevnext related search searchbox cookie cookies consent banner "
    "skip permalink headerlink anchorlink editlink feedback share social tagline copyright newsletter advert ads "
    "nosearch masthead topbar toolbar switcher docnav topnav subnav sidenav navheader navfooter navlinks".split()
)
"""Words in the class or id of an element that mark it as boilerplate."""
_CONTENT_WORDS = frozenset(
    "content main body article document page wrapper container layout section with has no".split()
)
_NEVER_FURNITURE = frozenset("html body main article h1 h2 h3 h4 h5 h6 pre code dt dd li".split())
_CLASS_WORD = re.compile(r"[a-z]+|[A-Z][a-z]*")
_MAX_FURNITURE = 0.3  # of the page's text; an element with more is no boilerplate, unless it is all links
_MIN_MAIN = 0.4  # of the page's text that <main> or <article> must hold to replace <body>
_STEPS = frozenset({"prev", "previous", "next", "up", "contents", "index"})
_STEP_WORDS = r"(?:previous|prev|next|up|home|contents|index|top|back to top|back)\b"
_ONLY_STEPS = re.compile(rf"\W+|\W*(?:{_STEP_WORDS}\W*)+", re.IGNORECASE)
_STEP_START = re.compile(r"\W*(?:[Pp]rev(?:ious)?|[Nn]ext|Up|Home)(?![a-z])\W*")
_STEP_LABEL = re.compile(r"\b(?:next|prev|previous|up):", re.IGNORECASE)
_CRUMBS = re.compile(r"\0(?:\s*[»›→>]\s*\0)*(?:\s*[»›→>]\s*[^\0.!?]{0,100})?")  # each \0 is a link
_AROUND_STEPS = frozenset("b center div li ol p span strong table tbody td th tr ul".split())
_LONGEST_STEPS = 400  # characters of links to the pages before and after
_MOST_STEP_LINKS = 10  # at the start of a page, and at its end, around which more is removed
_CONTENTS = re.compile(
    r"(?:table of )?contents:?|on this page|in this (?:article|page|chapter|section):?|toc", re.IGNORECASE
)
_LAST_LINES = re.compile(
    r"(?:this page (?:was )?last|last (?:updated|modified|changed)|copyright\b|©|\(c\) \d|created using|built with|"
    r"powered by|(?:this document was )?generated (?:by|on|with)|all rights reserved|edit (?:this page|on github)|"
    r"page source)",
    re.IGNORECASE,
)
_SECTION_NUMBER = re.compile(r"\s*(?:[0-9A-Z]+\.)*[0-9A-Z]*\.?\s*")


def _remove_boilerplate(page: LexborHTMLParser) -> None:
    for node in page.css(_REMOVED):
        node.decompose()
    inner = {node.mem_id for node in page.css("main header, article header")}
    for node in page.css("header"):
        if node.css_first("h1") is None and node.mem_id not in inner:
            node.decompose()
    total = len(page.body.text()) if page.body else 0
    for node in page.css("[class], [id]"):
        if node.tag not in _NEVER_FURNITURE and _is_furniture(node) and node.css_first(".titlepage") is None:
            text, linked = len(node.text()), sum(len(link.text()) for link in node.css("a"))
            if text <= total * _MAX_FURNITURE or linked > text * 0.6:
                node.decompose()
    _remove_steps(page)
    _remove_contents(page)


def _is_furniture(node: LexborNode) -> bool:
    for value in [*(node.attributes.get("class") or "").split(), node.attributes.get("id") or ""]:
        words = {word.lower() for word in _CLASS_WORD.findall(value)} | {re.sub(r"[^a-z]", "", value.lower())}
        if words & _FURNITURE and not words & _CONTENT_WORDS:
            return True
    return False


def _remove_steps(page: LexborHTMLParser) -> None:
    """Remove navigation bars, and at the start and the end blocks with little but links to neighbouring pages."""
    for link in page.css("a[class*='prev'], a[class*='next'], a[class*='toc']"):
        if _is_step(link) or _CONTENTS.fullmatch(one_line(link)):
            link.decompose()  # it may be in the middle of the page's text
    links = [link for link in page.css("a") if _is_step(link) or _is_crumb(link)]
    removed: set[int] = set()
    too_long: set[int] = set()
    for number, link in enumerate(links):
        is_inner = _MOST_STEP_LINKS <= number < len(links) - _MOST_STEP_LINKS
        bar = None if link.mem_id in removed else _bar_around(link, too_long, is_inner=is_inner)
        if bar is not None:
            removed.update(inside.mem_id for inside in bar.css("a"))
            bar.decompose()


def _bar_around(link: LexborNode, too_long: set[int], *, is_inner: bool) -> LexborNode | None:
    """Return the outermost navigation bar around a link. Blocks that are too long for one are looked at once."""
    outermost, block = None, link.parent
    while block is not None and block.tag in _AROUND_STEPS and block.mem_id not in too_long:
        if len(one_line(block)) > _LONGEST_STEPS:
            too_long.add(block.mem_id)
        elif _is_navigation(block, is_inner=is_inner):
            outermost = block
        block = block.parent
    return outermost


def _is_step(link: LexborNode) -> bool:
    """Whether a link leads to the page before, after or above, or to the contents or the index."""
    text = one_line(link)
    is_named = link.attributes.get("rel") in _STEPS or _ONLY_STEPS.fullmatch(text) is not None
    return is_named or _STEP_START.match(text) is not None


def _is_crumb(link: LexborNode) -> bool:
    after = link.next
    return after is not None and after.tag == "-text" and after.text().lstrip()[:1] in tuple("»›→>")


def _is_navigation(block: LexborNode, *, is_inner: bool) -> bool:
    """Whether a block holds little but steps ("Next: Tides, [Index]"), or the path to the page ("Home » Tides")."""
    links = block.css("a[href]")
    steps = sum(map(_is_step, links))
    texts = list(map(one_line, links))
    whole, between, end = one_line(block), "", 0
    for text in texts:
        start = whole.find(text, end)
        between, end = f"{between}{whole[end:start]}\0", start + len(text)
    between += whole[end:]
    if _CRUMBS.fullmatch(between):
        return len(links) > 1 or steps > 0
    if not is_inner and steps > 1:  # titles of the pages before and after
        return 2 * sum(len(_STEP_START.sub("", text)) for text in texts) >= len(_STEP_START.sub("", whole))
    is_bar = len(links) > 1 and steps + len(_STEP_LABEL.findall(between)) >= len(links)
    return is_bar and _ONLY_STEPS.fullmatch(between) is not None


def _remove_contents(page: LexborHTMLParser) -> None:
    """Remove lists that only link to places on the page, and cells of a layout that are menus."""
    anchors = {node.attributes.get("id") for node in page.css("[id]")}
    anchors |= {node.attributes.get("name") for node in page.css("a[name]")}
    for node in page.css("ul, ol"):
        if _is_contents(node, anchors):
            above = next((one for one in before(node) if one.text(strip=True)), None)
            if above is not None and _CONTENTS.fullmatch(one_line(above)):
                above.decompose()
            node.decompose()
    for cell in page.css("td"):
        links = cell.css("a")
        if len(links) >= 6 and cell.css_first("ul"):
            text, linked = len(one_line(cell)), sum(len(one_line(link)) for link in links)
            if linked > 0.7 * text and len(one_line(page.body)) > text + 200:
                cell.decompose()


def _is_contents(node: LexborNode, anchors: set[str | None]) -> bool:
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
    texts = [(node, one_line(node)) for node in blocks[:4] + blocks[4:][-4:]]
    gone: set[int] = set()  # blocks are nested
    for number, (node, text) in enumerate(texts):
        is_last = number >= len(texts) - 4 and len(text) < 250 and _LAST_LINES.match(text) is not None
        if node.mem_id not in gone and (is_last or _ONLY_STEPS.fullmatch(text)):
            gone.update(inside.mem_id for inside in node.traverse())
            node.decompose()


def _main(page: LexborHTMLParser) -> LexborNode:
    body = page.body
    assert body is not None  # noqa: S101 - the caller has seen it
    for selector in ("main", "[role=main]", "article"):
        nodes = page.css(selector)
        if len(nodes) == 1 and len(nodes[0].text()) > len(body.text()) * _MIN_MAIN:
            return nodes[0]
    return body


# -- titles

_TITLE_SEPARATOR = re.compile(r"\s+[|·•»:—–-]+\s+|\s*[»—|]\s*")
_NUMBER = re.compile(r"^\s*(?:\d+\.)+\d*\s+|^\s*\d+\.\s+")
_LEADING_NUMBER = re.compile(
    r"^(?:(?:chapter|section|part|appendix)\s+)?(?:\d+|[A-Z](?=\.))(?:\.\d+)*[.:]?\s+(?:[–—-]\s+)?", re.IGNORECASE
)
_PARENTHESIS = re.compile(r"(?<!\s)\s+\([^()]+\)$")


def _title(page: LexborHTMLParser, root: LexborNode, stated: str) -> str:
    """Return the title of a page: a heading, or the <title> without the name of the site."""
    parts = [part.strip() for part in _TITLE_SEPARATOR.split(stated) if part.strip()]
    if heading := _heading_in_title(root, {stated, *(parts[:-1] or parts)}):
        return heading
    site_name = page.css_first("meta[property='og:site_name']")
    site = (site_name.attributes.get("content") or "").strip() if site_name else ""
    headings = [text for text in map(_heading_text, root.css("h1")) if _NUMBER.sub("", text)]
    is_section = bool(stated and headings and _NUMBER.match(headings[0]))  # "1. Overview"
    if len(headings) == 1 and not is_section and headings[0] not in (site, *parts[1:][-1:]):
        return _NUMBER.sub("", headings[0])
    parts = [part for part in parts if part != site] or parts
    if len(parts) < 2:
        return _NUMBER.sub("", parts[0] if parts else _heading_text(root.css_first("h1, h2, h3")))
    if parts[-1] not in headings and parts[-1].casefold() in one_line(root)[:200].casefold():
        return parts[-1]  # "Mail manual - local(8)"
    return _NUMBER.sub("", stated[: stated.rfind(parts[-1])].rstrip(" |·•»:—–-"))


def _heading_in_title(root: LexborNode, names: set[str]) -> str:
    """Return the first heading that is a name in the <title>, without its number."""
    names = {_NUMBER.sub("", name) for name in names}
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


def _first_heading(root: LexborNode, stated: str) -> str:
    """Return the first heading that is not the <title>."""
    headings = (_NUMBER.sub("", _heading_text(node)) for node in root.css("h1, h2, h3, h4, h5, h6"))
    return next((heading for heading in headings if heading and heading != stated), "")


def _heading_text(node: LexborNode | None) -> str:
    """Return the words of a heading without the link to itself."""
    return one_line(node).rstrip("¶#🔗 ")
