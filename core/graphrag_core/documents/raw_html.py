"""Texts that are raw HTML, as web loaders of frameworks hand them over: the readable text takes their place."""

import re
from dataclasses import replace

from graphrag_core.errors import MissingDependency
from graphrag_core.model import Document
from graphrag_core.text.markup import plain

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
_TITLE = re.compile(r"<title[^<>]*>(.{0,1000}?)</title\s*>", re.IGNORECASE | re.DOTALL)
_TAG_DENSITY = 400  # characters for each closing tag of a block, at most


def is_html(text: str) -> bool:
    """Return whether a text is a web page, or consists of HTML elements. Markdown with some HTML is not.

    >>> is_html("<!DOCTYPE html><title>A</title>"), is_html("<p>One.</p><p>Two.</p>"), is_html("a < b, <em>c</em>")
    (True, True, False)
    """
    if _PAGE.match(text):
        return True
    start = text.lstrip()
    if not start.startswith("<") or _MARKDOWN.search(text):
        return False
    return len(_BLOCK_TAG.findall(text)) * _TAG_DENSITY >= len(start)


def without_tags(source: str) -> tuple[str, str]:
    """Return the text of a page without its tags, and its title."""
    found = _TITLE.search(source)
    title = " ".join(plain(found[1]).split()) if found else ""
    return plain(_TITLE.sub("", _HIDDEN.sub("", source))).strip(), title


def readable(document: Document) -> Document:
    """Return a document with the readable text of its HTML, its title, links and anchors; others as they are.

    Without the ``files`` extra, the tags are removed and nothing else is known of the page.
    """
    if not is_html(document.text):
        return document
    from graphrag_core.documents.html import html_content

    try:
        content = html_content(document.text)
        text, title, marks = content.text, content.title, content.marks
    except MissingDependency:
        (text, title), marks = without_tags(document.text), ()
    return replace(document, text=text, title=document.title or title, marks=marks) if text.strip() else document
