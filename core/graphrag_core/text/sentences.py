"""Sentences: where they begin and end, which of them say something, and the prose of a chunk."""

import re
from typing import NamedTuple

from graphrag_core.model import Chunk, Mark
from graphrag_core.text.cjk import CJK
from graphrag_core.text.words import AUXILIARIES, FUNCTION, PROSE_WORD

# Space is matched from its start only: a search inside a run of n spaces would take n steps for each of them.
_LINE_BREAK = re.compile(
    r"(?:(?<![ \t\r])[ \t\r]+)?\n[ \t>]*(?P<definition>:[ \t]+)?(?![#>|=~•]|[-*+]\s|\d{1,3}[.)]\s)(?=(?P<next>\S))"
)
_FIELD = re.compile(r"[A-Z][\w-]{2,20}: ")  # "License: MIT"
_WRAPPED_LINE = 50  # characters of a line that an editor may have wrapped

# The pattern starts with a character class, not with an alternation: the regex engine can skip ahead to it.
_BREAK = re.compile(
    r"[.!?…。！？\n](?:"
    r"(?<=[.!?…])[\"'”’)\]]*(?:\s+(?=[\"'“‘(\[¿¡]*[^\W_a-zß-öø-ÿ])|[ \t]*\n\s*)"  # "… end. Next", "… end.\n"
    r"|(?<=[。！？])[”’」』）]*\s*"
    r"|(?<=\n)\s*)"
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|Mt|Ft|Gen|Col|Lt|Sgt|Capt|Rev|Hon|Gov|Sen|Rep|Pres|Bros"
    r"|No|Nos|Vol|vs|v|cf|al|ca|c|approx|Fig|Eq|Sec|Ch|pp|p|ed|eds|e\.g|i\.e|Jan|Feb|Mar|Apr|Jun"
    r"|Jul|Aug|Sep|Sept|Oct|Nov|Dec)|(?:^|[\s(.])[A-Z])\.$"
)


_CJK = re.compile(f"[{CJK}]")
_TAGS = re.compile(r"^(?:\s*\[[^\[\]\n]{1,30}\])+:?\s*")
_END = re.compile(r"[.!?…。！？][\"'”’)\]»」』）*`]*$")
_WHOLE_WORD = re.compile(r"(?<![^\s\"'“‘«(\[{*])[^\W\d_]+(?=[\"'”’»)\]}.,;:!?…*]{0,9}(?:\s|$))")
_VERSION = r"v?\d[\d.]*(?![\d.])\w*(?!\w)"
_BOILERPLATE = re.compile(
    r"(?:(?:new|added|changed|deprecated|removed|available|introduced|modified|updated)[ :]+(?:in|since)\s+"
    rf"(?:version\s+|release\s+)?{_VERSION}|(?:version(?:added|changed)|since|version|release)\s*(?!\s):?\s*{_VERSION})"
    r"[\s.:)]*$|copyright\b|©|\(c\)\s|all rights reserved|spdx-|last (?:updated|modified|changed|edited)\b"
    r"|(?:click|tap) here\b|(?:edit|view|show|improve) (?:this page|source|on github)\b|(?:release[ -]?)?date\s*:"
    r"|(?:get|post|put|patch|delete|head) /|(?:author|maintainer|home\s?page|url)\s*:",
    re.IGNORECASE,
)
_POINTER = re.compile(
    r"\W*(?:please\s+|also\s+)*"
    r"(?:see(?: also)?|cf\.?|refer to|consult|read|visit|check(?: out)?|siehe|voir|véase|vedi|zie)\b"
    r"|for (?:more|further|additional|full|complete|general|detailed) (?:information|details|documentation|examples?)\b"
    r"|more (?:information|details|examples)\b|参见|详见|请參閱|请参阅",
    re.IGNORECASE,
)
_DISCLAIMER = re.compile(r"\bMERCHANTABILITY\b|\bWITHOUT (?:ANY )?WARRANT|\bAS IS\b")
_LEADERS = ("....", ". . . .", "____", "----", "====", "~~~~", "····")
_INDEX_ENTRY = re.compile(r"[^\s,]+, \d{1,4}(?:[-–]\d{1,4})?(?:, \d{1,4}(?:[-–]\d{1,4})?)*(?=\s|$)")


def unwrap(text: str, kind: str = "") -> str:
    r"""Join hard-wrapped lines. Line breaks become spaces, so offsets do not change.

    A line belongs to the one before if that is long; in a paragraph, also if it goes on in lower case; in a block of
    another kind, in any case. Items, definitions and fields ("License: MIT") start a line.

    >>> unwrap("A paragraph whose lines were wrapped by an editor at the Auth\nService. End")[57:]
    'Auth Service. End'
    """

    def join(match: re.Match[str]) -> str:
        length = match.start() - (text.rfind("\n", 0, match.start()) + 1)
        is_wrapped = length >= _WRAPPED_LINE or kind not in ("", "paragraph")
        if kind == "paragraph":
            is_wrapped = is_wrapped or match["next"].islower() or match["next"] in "`*_[("
            is_wrapped = is_wrapped and not _FIELD.match(text, match.end())
        if match["definition"] or not is_wrapped:
            return "\n" + " " * (len(match.group()) - 1)
        return " " * len(match.group())

    return _LINE_BREAK.sub(join, text) if "\n" in text else text


def sentences(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each sentence, without the white space between sentences.

    >>> text = "Dr. Ada Lovelace wrote it. J. K. Rowling did not!  東京です。大阪"
    >>> [text[start:end] for start, end in sentences(text)]
    ['Dr. Ada Lovelace wrote it.', 'J. K. Rowling did not!', '東京です。', '大阪']
    """
    spans = []
    start = len(text) - len(text.lstrip())
    for match in _BREAK.finditer(text):
        mark = match.group()
        stop = match.start() + len(mark.rstrip())
        if mark[0] == "." and "\n" not in mark and _ABBREVIATION.search(text, max(0, stop - 12), stop):
            continue
        if sentence := text[start:stop].rstrip():
            spans.append((start, start + len(sentence)))
        start = match.end()
    last = len(text.rstrip())
    if last > start:
        spans.append((start, last))
    return spans


def is_boilerplate(text: str) -> bool:
    """Return whether a sentence says nothing and names nothing: a copyright line, a line of an index.

    >>> [is_boilerplate(text) for text in ("Copyright 1998 Ada", "1. Introduction ........ 5")]
    [True, True]
    """
    entries = len(_INDEX_ENTRY.findall(text)) if ", " in text else 0
    is_index = entries > 1 and text.count(" ") <= 4 * entries  # words of an entry and its pages, on average
    return is_index or any(map(text.__contains__, _LEADERS)) or _BOILERPLATE.match(_TAGS.sub("", text)) is not None


def is_disclaimer(text: str) -> bool:
    """Return whether the names in a sentence mean nothing: it is a disclaimer, or in capitals.

    >>> is_disclaimer("THE SOFTWARE IS PROVIDED BY THE AUTHORS AND CONTRIBUTORS.")
    True
    """
    if text[1:12].islower() or len(text) < 30:
        return False
    return _DISCLAIMER.search(text) is not None or sum(map(str.isupper, text)) > 0.7 * sum(map(str.isalpha, text))


def is_statement(text: str) -> bool:
    """Return whether a sentence, without markup, says something.

    >>> is_statement("The worker acknowledges a task after it was executed.")
    True
    >>> [is_statement(text) for text in ("- orm", "[orm] [bug]", "Redis, RabbitMQ", "See the tutorial.")]
    [False, False, False, False]
    """
    text = _TAGS.sub("", text)
    words = PROSE_WORD.findall(text)
    if len(_CJK.findall(text)) >= max(5, len(words)):
        return True
    if len(words) < 3 or text[0] in "),;" or text[-1] == "," or (len(words) <= 12 and _POINTER.match(text)):
        return False
    if _is_code(text, words) or (text[-1] == ":" and len(words) < 12):
        return False
    if _END.search(text) or not AUXILIARIES.isdisjoint(map(str.lower, words)):
        return any(map(str.islower, words))
    return len(words) >= 6 and sum(word[0].islower() and word not in FUNCTION for word in words) >= 3


def _is_code(text: str, words: list[str]) -> bool:
    return sum(map(len, words)) < 0.6 * (len(text) - text.count(" ")) or len(_WHOLE_WORD.findall(text)) < 3


# -- the prose of a chunk: its text with everything else masked, so that offsets stay valid

_MASK = "\x01"  # stands for inline code and URLs: no name contains it, and no name reaches across it
_PROSE_BLOCKS = frozenset({"paragraph", "item", "definition"})
# As in _BREAK, a character class stands first.
_MARKUP = re.compile(
    r"[\]!\[{`<*_\\&¶](?:"
    r"(?<=\])(?:\((?:[^()\n]|\([^()\n]*\)){0,1000}\)|\[[^\[\]\n]{0,200}\])"  # the target of a link
    r"|(?:(?<=!)\[|(?<=\[))(?=[^\[\]\n]{1,400}\s{5,}|[^\[\]\n]{1,400}\][(\[])"
    r"|(?<=\{)[\w:+-]+\}`+|(?<=`)`*|(?<=<)(?:!--.{0,4000}?-->|/?[A-Za-z][^<>\n]{0,1000}>)"
    r"|(?<=[*_])(?<![\w\\].)(?!(?<=_)_[a-z]\w*__(?!\w))[*_]{0,2}(?=[^\s*_])"
    r"|(?<=[^\s*_\\]\*)\*{0,2}(?!\w)|(?<=[^\s*_\\]_)(?<!\w_)_{0,2}(?!\w)"
    r"|(?<=\\)(?=[*_`\[\]<>#|\\~])|(?<=&)(?:[a-z]{2,8}|#\d{1,6});|(?<=¶))",
    re.DOTALL,
)
_LINK_LABEL = re.compile(r"[a-z0-9]+(?:[_:.-][a-z0-9]+)+")


class Sentence(NamedTuple):
    """A sentence of a chunk, and the block it is part of."""

    start: int
    end: int
    block: Mark


class Prose(NamedTuple):
    """The text of a chunk, of which headings, code and tables are masked with line breaks, and markup with spaces."""

    text: str
    sentences: list[Sentence]
    starts: frozenset[int]


def read_prose(chunk: Chunk) -> Prose:
    """Return the prose of a chunk. A chunk without marks is prose throughout."""
    source, is_plain = chunk.text, all(mark.kind == "paragraph" for mark in chunk.marks)
    blocks = [mark for mark in chunk.marks if mark.kind in _PROSE_BLOCKS]
    if not chunk.marks:
        blocks = [Mark("paragraph", 0, len(source))]
    pieces: list[str] = []
    at = 0
    for block in blocks:
        start = max(block.start, at)
        pieces += "\n" * (start - at), unwrap(source[start : block.end], "" if is_plain else block.kind)
        at = max(block.end, start)
    text = "".join((*pieces, "\n" * (len(source) - at)))
    if not is_plain:
        text = _without_code(chunk, text)
        text = _MARKUP.sub(lambda match: (_MASK if match.group()[-1] == "`" else " ") * len(match.group()), text)
    found: list[Sentence] = []
    at = 0
    for start, end in sentences(text) if blocks else ():
        while at < len(blocks) - 1 and blocks[at].end <= start:
            at += 1
        found.append(Sentence(start, end, blocks[at]))
    return Prose(text, found, frozenset(sentence.start for sentence in found))


def _without_code(chunk: Chunk, text: str) -> str:
    """Return the prose of a chunk with masks for code, URLs, and labels that stand for the title of a section."""
    pieces: list[str] = []
    at = 0
    for mark in chunk.marks:
        if mark.kind in {"literal", "link"} and mark.start >= at and text[mark.start : mark.start + 1] != "\n":
            is_label = chunk.text[mark.start : mark.end] == mark.value and _LINK_LABEL.fullmatch(mark.value)
            if mark.kind == "literal" or is_label or chunk.text.startswith(("http://", "https://"), mark.start):
                pieces += text[at : mark.start], _MASK * (mark.end - mark.start)
                at = mark.end
    return "".join((*pieces, text[at:]))
