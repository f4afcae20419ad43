"""Boilerplate passages: navigation bars, lists of links, tables of contents, and the index at the end of a book."""

import re
from itertools import pairwise

from graphrag_core.model import Chunk
from graphrag_core.text.markup import visible

_MOST_LEFT, _MOST_LEFT_IN_INDEX = 0.15, 0.5  # of the letters and digits outside headings
_LEAST_TERMS, _LEAST_LINES = 5, 3
_LEAST_SORTED = 0.8  # of the neighbours in an index
_LONGEST_TERM = 8  # words
_ENDS = (".", "!", "?", ";", "。")  # of sentences

_HEADING = re.compile(r"^(?:#{1,6}[ \t].*|(?:\|[ \t]*)?[^\W\d_][^\w\n]*)$", re.MULTILINE)  # or the letter above terms
_LINK = re.compile(r"\[[^\[\]\n]{0,100}(?<![.?!])\]\((?!\w+:)[^()\s]{1,500}\)|\{(?:ref|doc)\}`[^`\n]{1,200}`")
_BAR = re.compile(
    r"^[^\w\n]*(?:next|prev(?:ious)?|up)[ \t]*:[^\n]{0,300}"
    r"(?:\b(?:prev(?:ious)?|up)[ \t]*:|\[(?:contents|index)\])[^\n]*$"
    r"|(?:\[[ \t]*(?:<<?|>>?|\?|up|top|contents|index|next|prev(?:ious)?)[ \t]*\][ \t|]*){2,}"
    r"|^\|[ \t]*\|[^|\n]+:[ \t]*\|[ \t]*\|[^|\n]+\|[ \t]*$"  # a row of an index that Texinfo made
    r"|^([`:]{3,})\{toctree\}[^`]{0,4000}?^\1[ \t]*$",
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
    in_index = any(map(_INDEX_TITLE.match, (chunk.title, *chunk.headings)))
    text, links = _LINK.subn("", chunk.text)
    text, bars = _BAR.subn("", _HEADING.sub("", visible(text)))
    entries = [*_ENTRY.finditer(text)] if _PAGES_HINT.search(text) else []
    if _are_index([one["term"].strip().casefold() for one in entries], entries):
        text = _ENTRY.sub("", text)
        bars += 1
    if links + 2 * bars >= (1 if in_index else 2):
        size = sum(map(str.isalnum, _FILLER.sub("", text)))
        most = _MOST_LEFT_IN_INDEX if in_index else _MOST_LEFT
        return size <= most * sum(map(str.isalnum, _HEADING.sub("", visible(chunk.text))))
    terms = [line for line in map(str.casefold, text.split("\n")) if line.strip(" \t|*+-`")]
    are_terms = all(line.count(" ") <= _LONGEST_TERM and not line.rstrip().endswith(_ENDS) for line in terms)
    return in_index and are_terms and len(terms) >= _LEAST_TERMS and _share_sorted(terms) >= _LEAST_SORTED


def _are_index(terms: list[str], entries: list[re.Match[str]]) -> bool:
    """Return whether entries are those of an index, and not data: terms are sorted, and some have several pages."""
    if len(terms) >= _LEAST_LINES and all(entry["leader"] != "," for entry in entries):
        return True
    has_several = len({entry["more"] is None for entry in entries}) > 1
    return len(terms) >= _LEAST_TERMS and has_several and _share_sorted(terms) >= _LEAST_SORTED


def _share_sorted(terms: list[str]) -> float:
    return sum(term <= following for term, following in pairwise(terms)) / max(len(terms) - 1, 1)
