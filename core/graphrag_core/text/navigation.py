"""Boilerplate passages: navigation bars, lists of links, tables of contents, and the index at the end of a book.

Navigation is removed, and a passage is nothing else if hardly a letter is left.
"""

import re
from functools import lru_cache
from itertools import pairwise

from graphrag_core.model import Chunk
from graphrag_core.text.markup import visible

_MOST_LEFT, _MOST_LEFT_IN_INDEX = 0.15, 0.5  # of the letters and digits outside headings
_LEAST_LINKS, _LEAST_LETTERS, _LEAST_LINES, _LEAST_TERMS = 2, 3, 3, 5
_LEAST_SORTED = 0.8  # of the neighbours in an index
_LONGEST_TERM = 8  # words

_HEADING = re.compile(r"^#{1,6}[ \t].*$", re.MULTILINE)
_LETTER = re.compile(r"^(?:#{1,6}[ \t]+|\|[ \t]*)[^\W\d_][^\w\n]*$", re.MULTILINE)  # above the terms that start with it
_MARKDOWN_LINK = re.compile(r"\[[^\[\]\n]{0,100}(?<![.?!])\]\((?!\w+:)[^()\s]{1,500}\)|\{(?:ref|doc)\}`[^`\n]{1,200}`")
_BAR = re.compile(
    r"^[^\w\n]*(?:next|prev(?:ious)?|up)[ \t]*:[^\n]{0,300}"
    r"(?:\b(?:prev(?:ious)?|up)[ \t]*:|\[(?:contents|index)\])[^\n]*$"
    r"|(?:\[[ \t]*(?:<<?|>>?|\?|up|top|contents|index|next|prev(?:ious)?)[ \t]*\][ \t|]*){2,}"
    r"|^[^\w\n]*jump to:[^\n]*$"
    r"|^\|[ \t]*\|[^|\n]+:[ \t]*\|[ \t]*\|[^|\n]+\|[ \t]*$"  # a row of an index that Texinfo made
    r"|^([`:]{3,})\{toctree\}[^`]{0,4000}?^\1[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_PAGES = re.compile(  # after a comma, or dots that lead to them
    r"(?P<leader>,|(?<!\.)(?<!\.[ \t])\.(?:[ \t]?\.)+)[ \t]*"
    r"(?P<pages>\d{1,4}(?:[-–]\d{1,4})?(?:,\s\d{1,4}(?:[-–]\d{1,4})?)*),?(?![ \t]*[\d%]|[\w.])"
)
_FILLER = re.compile(
    r"\b(?:see also|next|previous|prev|up|home|top|index entry|section)\b|^[ \t>*+|-]*\d+(?:\.\d+)*\.?(?=[ \t])",
    re.MULTILINE | re.IGNORECASE,
)
_INDEX_TITLE = re.compile(
    r"(?:(?:[\w.&,:’'-]+ ){0,5}?(?:index|indexes|indices)|index of [\w ]{1,40}|(?:table of|brief|short) contents"
    r"|stichwortverzeichnis|inhaltsverzeichnis|table des matières|索引|目次|目录)(?:$| \()",
    re.IGNORECASE,
)
_POINTERS_TITLE = re.compile(
    r"see also|related (?:topics|pages|links|commands|documents)|indices and tables|siehe auch|voir aussi|véase también"
    r"|参见|关联项目|関連項目",
    re.IGNORECASE,
)
_HINTS = ("{ref}", "{doc}", "{toctree}", "[Contents]", "[ Up ]", "Up:", "Previous:", "Prev:", "| | ", ". . ", "....")
_PAGE_HINT = re.compile(r",[ \n]\d{1,4}(?:,[ \n]\d|[-–]\d|\n)|# [A-Z]\n")
_SENTENCE_END = re.compile(r"[.!?;。！？]\W*$")


def is_navigation(chunk: Chunk) -> bool:
    """Return whether a passage is only navigation, a table of contents or an index.

    >>> is_navigation(Chunk("1", "1", "Next: Pools, Previous: Engines, Up: Manual [Contents][Index]"))
    True
    >>> is_navigation(Chunk("1", "1", "- Keyring: vendor of the OAuth Provider"))
    False
    """
    return _is_navigation(chunk.title, chunk.headings, chunk.text)


@lru_cache(maxsize=4_096)  # the same passages answer many questions
def _is_navigation(title: str, headings: tuple[str, ...], text: str) -> bool:
    in_index = any(map(_is_index_title, (title, *headings)))
    in_pointers = bool(headings) and _POINTERS_TITLE.fullmatch(headings[-1]) is not None
    if not in_index and not in_pointers and not _has_hint(text):
        return False
    rest, links = _without_navigation(text)
    lines = [line for line in map(str.strip, rest.split("\n")) if line != title and not _INDEX_TITLE.match(line)]
    if links >= (1 if in_index else _LEAST_LINKS):
        most = _MOST_LEFT_IN_INDEX if in_index else _MOST_LEFT
        return _size(_FILLER.sub("", "\n".join(lines))) <= most * _size(_HEADING.sub("", visible(text)))
    terms = [term for line in lines if (term := line.strip(" \t|*+-`").casefold()) and line[0] != ":"]
    return all(map(_is_term, terms)) and (in_pointers or (in_index and _are_sorted(terms)))


def _is_term(term: str) -> bool:
    return term.count(" ") <= _LONGEST_TERM + 2 * term.count(",") and not _SENTENCE_END.search(term)


def _are_sorted(terms: list[str]) -> bool:
    """Return whether terms are in alphabetical order, as in an index, and none ends in a digit, as data may."""
    is_sorted = len(terms) >= _LEAST_TERMS and _share_sorted(terms) >= _LEAST_SORTED
    return is_sorted and not any(term[-1].isdigit() for term in terms)


def _has_hint(text: str) -> bool:
    return (
        text.count("](") >= _LEAST_LINKS or any(hint in text for hint in _HINTS) or _PAGE_HINT.search(text) is not None
    )


@lru_cache(maxsize=4_096)
def _is_index_title(title: str) -> bool:
    return _INDEX_TITLE.match(title) is not None


def _size(text: str) -> int:
    return sum(map(str.isalnum, text))


def _without_navigation(text: str) -> tuple[str, int]:
    """Return the text without links into the same documents, the terms they explain, bars and entries of an index.

    The number of links is returned too. Bars, entries and the letters of an index count as enough links.
    """
    text, links = _MARKDOWN_LINK.subn("", text)
    text, letters = _LETTER.subn("", visible(text))
    text, bars = _BAR.subn("", _HEADING.sub("", text))
    text, entries = _without_entries(text)
    return text, links + (_LEAST_LINKS if bars or entries or letters >= _LEAST_LETTERS else 0)


def _without_entries(text: str) -> tuple[str, int]:
    """Return a text without the entries of an index and the lines of a table of contents, and their number.

    Data look alike. But the terms of an index are sorted and have different numbers of pages, and the pages of a table
    of contents rise.
    """
    pieces, terms, pages, leaders, at = [], [], [], 0, 0
    for match in _PAGES.finditer(text):
        start = max(at, text.rfind("\n", at, match.start()) + 1)
        term = text[start : match.start()].strip(" \t|*+-")
        if term.count(" ") < _LONGEST_TERM and not term[-1:].isdigit():
            pieces.append(text[at:start])
            terms.append(term.casefold())
            pages.append(match["pages"].split(","))
            leaders += match["leader"] != ","
            at = match.end()
    counts = {len(numbers) for numbers in pages}
    first = [int(re.split("[-–]", numbers[0])[0]) for numbers in pages]
    is_index = len(terms) >= _LEAST_TERMS and len(counts) > 1 and _share_sorted(terms) >= _LEAST_SORTED
    is_contents = leaders == len(terms) >= _LEAST_LINES and (counts != {1} or first == sorted(first))
    if is_index or is_contents or (leaders == len(terms) > 0 and min(counts) > 2):
        return "".join((*pieces, text[at:])), len(terms)
    return text, 0


def _share_sorted(terms: list[str]) -> float:
    return sum(term <= following for term, following in pairwise(terms)) / max(len(terms) - 1, 1)
