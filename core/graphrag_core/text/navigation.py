"""Boilerplate passages: navigation bars, lists of links, tables of contents, and the index at the end of a book."""

import re
from itertools import pairwise

from graphrag_core.model import Chunk
from graphrag_core.text.markup import visible

_HEADING = re.compile(r"^(?:#{1,6}[ \t].*|(?:\|[ \t]*)?[^\W\d_][^\w\n]*)$", re.MULTILINE)  # or the letter above terms
_LINK = re.compile(r"\[[^\[\]\n]{0,100}(?<![.?!])\]\((?!\w+:)[^()\s]{1,500}\)|\{(?:ref|doc)\}`[^`\n]{1,200}`")
_BAR = re.compile(
    r"^\W*(?:next|prev(?:ious)?|up)[ \t]*:[^\n]{0,300}(?:\b(?:prev(?:ious)?|up)[ \t]*:|\[(?:contents|index)\])[^\n]*$",
    re.MULTILINE | re.IGNORECASE,
)
_ENTRY = re.compile(  # a term and its pages, after a comma or dots that lead to them
    r"(?P<term>[^\n,.\d][^\n,.]{0,80})(?P<leader>,|\.(?:[ \t]?\.)+)[ \t]*"
    r"\d{1,4}(?:[-–]\d{1,4})?(?P<more>,\s\d{1,4}(?:[-–]\d{1,4})?)*,?(?![ \t]*[\d%]|[\w.])"
)
_PAGES_HINT = re.compile(r",[ \n]\d{1,4}(?:,[ \n]\d|[-–]\d|\n)|\.[ ]?\.[ ]?\.")
_FILLER = re.compile(
    r"\b(?:see also|next|previous|prev|up|home|top|index entry|section)\b|^[ \t>*+|-]*\d+(?:\.\d+)*\.?(?=[ \t])",
    re.MULTILINE | re.IGNORECASE,
)
_INDEX_TITLE = re.compile(
    r"(?:(?:[\w.&,:’'-]+ ){0,5}?(?:index|indexes|indices)|index of [\w ]{1,40}|(?:table of|brief|short) contents"
    r"|see also|related (?:topics|pages|links|commands|documents)|indices and tables"
    r"|stichwortverzeichnis|inhaltsverzeichnis|table des matières|索引|目次|目录|siehe auch|voir aussi|参见)(?:$| \()",
    re.IGNORECASE,
)


def is_navigation(chunk: Chunk) -> bool:
    """Return whether a passage is only navigation, a table of contents or an index: hardly a letter is left without.

    >>> is_navigation(Chunk("1", "1", "Next: Pools, Previous: Engines, Up: Manual [Contents][Index]"))
    True
    >>> is_navigation(Chunk("1", "1", "- Keyring: vendor of the OAuth Provider"))
    False
    """
    text = chunk.text
    in_index = any(map(_INDEX_TITLE.match, (chunk.title, *chunk.headings)))
    links = _LINK.findall(text) if "](" in text or "}`" in text else []
    bars = _BAR.findall(text) if ":" in text else []
    entries = _index_entries(text)
    if len(links) + 2 * len(bars + entries) < (1 if in_index else 2):
        lines = [line for line in map(str.casefold, _HEADING.sub("", text).split("\n")) if line.strip(" \t|*+-`")]
        is_term = all(line.count(" ") <= 8 and not line.rstrip().endswith((".", "!", "?", ";", "。")) for line in lines)
        return in_index and is_term and _are_sorted(lines)
    if 2 * (sum(map(len, links)) + sum(map(len, bars + entries))) < len(text):
        return False
    whole = _HEADING.sub("", text)
    rest = _LINK.sub("", _BAR.sub("", _ENTRY.sub("", whole) if entries else whole))
    left = sum(map(str.isalnum, _FILLER.sub("", visible(rest))))
    return left <= (0.5 if in_index else 0.15) * sum(map(str.isalnum, visible(whole)))


def _index_entries(text: str) -> list[str]:
    """Return the entries of a table of contents or of an index; none for data."""
    entries = [*_ENTRY.finditer(text)] if _PAGES_HINT.search(text) else []
    has_leaders = len(entries) >= 3 and all(entry["leader"] != "," for entry in entries)
    has_pages = len({entry["more"] is None for entry in entries}) > 1  # some terms have several
    is_index = has_leaders or (has_pages and _are_sorted([entry["term"].strip().casefold() for entry in entries]))
    return [entry.group() for entry in entries] if is_index else []


def _are_sorted(terms: list[str]) -> bool:
    """Return whether at least five terms are nearly all in the order of the alphabet."""
    return len(terms) >= 5 and sum(a <= b for a, b in pairwise(terms)) >= 0.8 * (len(terms) - 1)
