"""Sentences: where they begin and end, which of them say something, and the prose of a chunk."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from graphrag_core.model import Chunk, Mark
from graphrag_core.text.cjk import CJK
from graphrag_core.text.words import AUXILIARIES, FUNCTION, PROSE_WORD

# A line break inside a paragraph: the next line is not a list item, heading, quote or table row.
_WRAP = re.compile(r"(?<=\S)[ \t\r]*\n([ \t]*)(?=[^\s\-*+#>|=~\d•])")
_INDENT = re.compile(r"[ \t]*(?:(?:[-*+•:]|\d{1,3}[.)])[ \t]+)?")
_SHORTEST_WRAPPED_LINE = 50  # characters of a line that an editor may have wrapped

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
_LEAST_WORDS, _LEAST_WORDS_OF_FRAGMENT, _LEAST_CONTENT, _LEAST_WORDS_BEFORE_COLON, _LEAST_CJK = 3, 6, 3, 12, 5
_LEAST_LETTERS = 0.6  # of all characters but spaces
_LEAST_SHOUTED, _SHOUTED = 30, 0.7  # letters of a sentence, and the share of capitals among them
_PUNCTUATION = "\"'“”‘’«»()[]{},.;:!?…*"
_TAGS = re.compile(r"^(?:\s*\[[^\[\]\n]{1,30}\])+:?\s*")
_END = re.compile(r"[.!?…。！？][\"'”’)\]»」』）*`]*$")
_VERSION = r"v?\d[\d.]*(?![\d.])\w*(?!\w)"
_BOILERPLATE = (
    r"(?:(?:new|added|changed|deprecated|removed|available|introduced|modified|updated)[ :]+(?:in|since)\s+"
    rf"(?:version\s+|release\s+)?{_VERSION}|(?:version(?:added|changed)|since|version|release)\s*(?!\s):?\s*{_VERSION})"
    r"[\s.:)]*$|copyright\b|©|\(c\)\s|all rights reserved|spdx-|last (?:updated|modified|changed|edited)\b"
    r"|(?:click|tap) here\b|(?:edit|view|show|improve) (?:this page|source|on github)\b|(?:release[ -]?)?date\s*:"
    r"|(?:get|post|put|patch|delete|head) /|(?:author|maintainer|home\s?page|url)\s*:"
)
_POINTER = (
    r"\W*(?:please\s+|also\s+)*"
    r"(?:see(?: also)?|cf\.?|refer to|consult|read|visit|check(?: out)?|siehe|voir|véase|vedi|zie)\b"
    r"|for (?:more|further|additional|full|complete|general|detailed) (?:information|details|documentation|examples?)\b"
    r"|more (?:information|details|examples)\b|参见|详见|请參閱|请参阅"
)
_SUSPECT = re.compile(rf"(?P<boilerplate>{_BOILERPLATE})|(?P<pointer>{_POINTER})", re.IGNORECASE)
_LONGEST_POINTER = 12  # words: a longer one may say something besides
_LEADERS = re.compile(r"(?:\. ?){4}|·{4}|_{4}|-{4}|={4}|~{4}")
_INDEX_ENTRY = re.compile(r"[^\s,]+, \d{1,4}(?:[-–]\d{1,4})?(?:, \d{1,4}(?:[-–]\d{1,4})?)*(?=\s|$)")
_WORDS_OF_ENTRY = 4  # of an index at the end of a book, on average
_DISCLAIMER = re.compile(r"\bMERCHANTABILITY\b|\bWITHOUT (?:ANY )?WARRANT|\bAS IS\b")


def unwrap(text: str) -> str:
    r"""Join hard-wrapped lines. Line breaks become spaces, so offsets do not change.

    A line belongs to the one before if that is long and both are indented alike; in a list item, its words.

    >>> unwrap("A paragraph whose lines were wrapped by an editor at the Auth\nService. End")[57:]
    'Auth Service. End'
    """

    def join(match: re.Match[str]) -> str:
        start = text.rfind("\n", 0, match.start()) + 1
        is_wrapped = match.start() - start >= _SHORTEST_WRAPPED_LINE
        if is_wrapped and match[1]:
            indent = _INDENT.match(text, start, match.start())
            is_wrapped = indent is not None and len(indent.group().expandtabs()) == len(match[1].expandtabs())
        return " " * len(match.group()) if is_wrapped else match.group()

    return _WRAP.sub(join, text) if "\n" in text else text


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


def is_statement(text: str, names: Iterable[str] = ()) -> bool:
    """Return whether a sentence, without markup, says something about the names in it.

    >>> is_statement("The worker acknowledges a task after it was executed.")
    True
    >>> [is_statement(text) for text in ("- orm", "[orm] [bug]", "Added in version 3.1.", "See the tutorial.")]
    [False, False, False, False]
    """
    text = _TAGS.sub("", text)
    words = PROSE_WORD.findall(text)
    if not text.isascii() and len(_CJK.findall(text)) >= max(_LEAST_CJK, len(words)):
        return True
    if len(words) < _LEAST_WORDS or _is_listing(text) or text[0] in "),;" or text[-1] == ",":
        return False
    suspect = _SUSPECT.match(text)
    if suspect and (suspect["boilerplate"] is not None or len(words) <= _LONGEST_POINTER):
        return False
    is_code = sum(map(len, words)) < _LEAST_LETTERS * (len(text) - text.count(" "))  # or paths
    is_code = is_code or sum(part.strip(_PUNCTUATION).isalpha() for part in text.split()) < _LEAST_WORDS
    if is_code or (text[-1] == ":" and len(words) < _LEAST_WORDS_BEFORE_COLON):
        return False
    if _END.search(text) or not AUXILIARIES.isdisjoint(map(str.lower, words)):
        return any(map(str.islower, words))
    named = {part.lower() for name in names for part in PROSE_WORD.findall(name)}
    content = [word for word in words if word[0].islower() and word.lower() not in named and word not in FUNCTION]
    return len(content) >= _LEAST_CONTENT and len(words) >= _LEAST_WORDS_OF_FRAGMENT


def is_boilerplate(text: str) -> bool:
    """Return whether the names in a sentence mean nothing: a copyright line, a disclaimer, a sentence in capitals.

    >>> [is_boilerplate(text) for text in ("Copyright 1998 Ada", "THE SOFTWARE IS PROVIDED AS IS BY THE AUTHORS.")]
    [True, True]
    """
    suspect = _SUSPECT.match(text)
    if (suspect and suspect["boilerplate"]) or _DISCLAIMER.search(text) or _is_listing(text):
        return True
    capitals, letters = sum(map(str.isupper, text)), sum(map(str.isalpha, text))
    return letters >= _LEAST_SHOUTED and capitals > _SHOUTED * letters


def _is_listing(text: str) -> bool:
    """Return whether a text is of lines of a table of contents, or of entries of an index with their pages."""
    entries = len(_INDEX_ENTRY.findall(text)) if ", " in text else 0
    is_index = entries > 1 and text.count(" ") <= _WORDS_OF_ENTRY * entries
    return is_index or _LEADERS.search(text) is not None


# -- the prose of a chunk: its text with everything else masked, so that offsets stay valid

_MASK = "\x01"  # stands for inline code and URLs: no name contains it, and no name reaches across it
_PROSE_BLOCKS = frozenset({"paragraph", "item", "definition"})
# Space is matched from its start only: a search inside a run of n spaces would take n steps for each of them.
_LINE_BREAK = re.compile(r"(?:(?<![ \t\r])[ \t\r]+)?\n[ \t>]*(?P<definition>:[ \t]+)?")
_FIELD = re.compile(r"[A-Z][\w-]{2,20}: ")  # "License: MIT"
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
    """A sentence of a chunk, and the block it is part of (None for a chunk without structure)."""

    start: int
    end: int
    block: Mark | None


class Prose(NamedTuple):
    """The text of a chunk, of which headings, code and tables are masked with line breaks, and markup with spaces."""

    text: str
    sentences: list[Sentence]
    starts: frozenset[int]


def read_prose(chunk: Chunk) -> Prose:
    """Return the prose of a chunk. A chunk without marks is prose throughout."""
    blocks = [mark for mark in chunk.marks if mark.kind in _PROSE_BLOCKS]
    is_plain = all(mark.kind == "paragraph" for mark in chunk.marks)
    text = unwrap(chunk.text) if is_plain else _masked(chunk, blocks)
    found: list[Sentence] = []
    at = 0
    for start, end in sentences(text) if blocks or is_plain else ():
        while at < len(blocks) - 1 and blocks[at].end <= start:
            at += 1
        found.append(Sentence(start, end, None if is_plain else blocks[at]))
    return Prose(text, found, frozenset(sentence.start for sentence in found))


def _masked(chunk: Chunk, blocks: list[Mark]) -> str:
    """Return the text of a chunk with everything but the prose in its blocks masked."""
    pieces: list[str] = []
    at = 0
    for block in blocks:
        start = max(block.start, at)
        pieces += "\n" * (start - at), _joined(chunk.text[start : block.end], block.kind)
        at = max(block.end, start)
    text = "".join((*pieces, "\n" * (len(chunk.text) - at)))
    pieces, at = [], 0
    for start, end in sorted((mark.start, mark.end) for mark in chunk.marks if _is_hidden(chunk.text, mark)):
        if start >= at and text[start : start + 1] != "\n":  # headings and tables are masked already
            pieces += text[at:start], _MASK * (end - start)
            at = end
    markup = "".join((*pieces, text[at:]))
    return _MARKUP.sub(lambda match: (_MASK if match.group()[-1] == "`" else " ") * len(match.group()), markup)


def _joined(text: str, kind: str) -> str:
    """Return the text of a block with spaces for the line breaks inside its sentences."""

    def join(match: re.Match[str]) -> str:
        line = match.start() - (text.rfind("\n", 0, match.start()) + 1)
        following = text[match.end() : match.end() + 1]
        is_wrapped = kind != "paragraph" or line >= _SHORTEST_WRAPPED_LINE
        is_wrapped = is_wrapped or following.islower() or following in "`*_[("
        if match["definition"] or (kind == "paragraph" and _FIELD.match(text, match.end())):
            is_wrapped = False
        return " " * len(match.group()) if is_wrapped else "\n" + " " * (len(match.group()) - 1)

    return _LINE_BREAK.sub(join, text) if "\n" in text else text


def _is_hidden(text: str, mark: Mark) -> bool:
    """Return whether a mark is inline code, a URL, or a label that stands for the title of a section."""
    if mark.kind != "link":
        return mark.kind == "literal"
    is_label = _LINK_LABEL.fullmatch(mark.value) is not None and text[mark.start : mark.end] == mark.value
    return is_label or text.startswith(("http://", "https://"), mark.start)
