"""Sentences: where they begin and end, which of them say something, and the prose of a chunk."""

import re
from collections.abc import Iterable
from typing import NamedTuple

from graphrag_core.model import Chunk, Mark
from graphrag_core.text.cjk import CJK
from graphrag_core.text.words import AUXILIARIES, BOILERPLATE_STARTS, FUNCTION, NEVER_LAST, PROSE_WORD

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
_LONG = 40  # characters: a sentence of this length that ends with a full stop needs no closer look
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
    r"|more (?:information|details|examples)\b|参见|详见|請參閱|请参阅"
)
_SUSPECT = re.compile(rf"(?P<boilerplate>{_BOILERPLATE})|(?P<pointer>{_POINTER})", re.IGNORECASE)
_LEADERS = re.compile(r"(?:\. ?){4}|·{4}|_{4}|-{4}|={4}|~{4}")
_INDEX_ENTRY = re.compile(r"[^\s,]+, \d{1,4}(?:[-–]\d{1,4})?(?:, \d{1,4}(?:[-–]\d{1,4})?)*(?=\s|$)")
_WORDS_OF_ENTRY = 4  # of an index at the end of a book, on average
_DISCLAIMER = re.compile(r"\bMERCHANTABILITY\b|\bWITHOUT (?:ANY )?WARRANT|\bAS IS\b")
_DOUBTFUL = FUNCTION.union(*((word, word.capitalize(), word.upper()) for word in BOILERPLATE_STARTS))
_REASON = re.compile(r"\b(?:because|if|when|unless|so that|which|must|should|cannot|will|can)\b", re.IGNORECASE)
_LONGEST_POINTER = 12  # words: a longer one may say something besides


def unwrap(text: str) -> str:
    r"""Join hard-wrapped lines. Line breaks become spaces, so offsets do not change.

    A line belongs to the one before if that is long and both are indented alike; in a list item, its words.

    >>> unwrap("A paragraph whose lines were wrapped by an editor at the Auth\nService. End")[57:]
    'Auth Service. End'
    """
    if "\n" not in text:
        return text

    def join(match: re.Match[str]) -> str:
        start = text.rfind("\n", 0, match.start()) + 1
        is_wrapped = match.start() - start >= _SHORTEST_WRAPPED_LINE
        if is_wrapped and match[1]:
            indent = _INDENT.match(text, start, match.start())
            is_wrapped = indent is not None and len(indent.group().expandtabs()) == len(match[1].expandtabs())
        return " " * len(match.group()) if is_wrapped else match.group()

    return _WRAP.sub(join, text)


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


def is_statement(text: str, names: Iterable[str] = (), *, whole: bool = True) -> bool:
    """Return whether a sentence, without markup, says something about its names.

    Parameters
    ----------
    names
        The names in it, which say nothing by themselves.
    whole
        False for a list item, which may be a fragment.

    >>> is_statement("The worker acknowledges a task after it was executed.")
    True
    >>> [is_statement(text) for text in ("- orm", "[orm] [bug]", "Added in version 3.1.", "See the tutorial.")]
    [False, False, False, False]
    """
    if len(text) > _LONG and (text[-1] == "." or text[-2] == "."):
        first = text.split(" ", 1)[0].strip(_PUNCTUATION)
        if first.isalpha() and first not in _DOUBTFUL and text[0] not in "([":
            return True
    text = _TAGS.sub("", text)
    words = PROSE_WORD.findall(text)
    if not text.isascii() and len(_CJK.findall(text)) >= max(_LEAST_CJK, len(words)):
        return True
    if len(words) < _LEAST_WORDS or _is_suspect(text, words) or _is_fragment(text, words):
        return False
    named = {part.lower() for name in names for part in PROSE_WORD.findall(name)}
    content = [word for word in words if word[0].islower() and word.lower() not in named and word not in FUNCTION]
    if _END.search(text) or not AUXILIARIES.isdisjoint(map(str.lower, words)):
        return bool(content) or (whole and any(map(str.islower, words)))
    return len(content) >= _LEAST_CONTENT and len(words) >= _LEAST_WORDS_OF_FRAGMENT


def is_boilerplate(text: str) -> bool:
    """Return whether the names in a sentence mean nothing: a copyright line, a disclaimer, a sentence in capitals.

    >>> [is_boilerplate(text) for text in ("Copyright 1998 Ada", "THE SOFTWARE IS PROVIDED AS IS BY THE AUTHORS.")]
    [True, True]
    """
    suspect = _SUSPECT.match(text)
    if (suspect and suspect["boilerplate"]) or _DISCLAIMER.search(text) or _LEADERS.search(text) or is_index(text):
        return True
    capitals = sum(map(str.isupper, text))
    letters = sum(map(str.isalpha, text)) if capitals > _SHOUTED * _LEAST_SHOUTED else 0
    return letters >= _LEAST_SHOUTED and capitals > _SHOUTED * letters


def is_index(text: str) -> bool:
    """Return whether a text is of entries of an index, with their pages.

    >>> is_index("setNames, 1814 setOldClass, 1209"), is_index("In May, 1814 he left, and in June, 1815 he came back.")
    (True, False)
    """
    entries = len(_INDEX_ENTRY.findall(text)) if ", " in text else 0
    return entries > 1 and text.count(" ") <= _WORDS_OF_ENTRY * entries


def _is_fragment(text: str, words: list[str]) -> bool:
    """Return whether a sentence starts or stops in the middle, or has more paths and code than words."""
    if text[0] in "),;" or (text[0].islower() and words[0].lower() in FUNCTION):
        return True
    if text[-1] == "," or (text[-1].isalpha() and words[-1].lower() in NEVER_LAST):
        return True
    if sum(map(len, words)) < _LEAST_LETTERS * (len(text) - text.count(" ")):
        return True
    return sum(part.strip(_PUNCTUATION).isalpha() for part in text.split()) < _LEAST_WORDS


def _is_suspect(text: str, words: list[str]) -> bool:
    """Return whether a sentence only introduces, refers, or is found on every page."""
    if text[-1] == ":" and len(words) < _LEAST_WORDS_BEFORE_COLON:
        return True
    if suspect := _SUSPECT.match(text):
        return suspect["pointer"] is None or len(words) <= _LONGEST_POINTER or not _REASON.search(text)
    return _LEADERS.search(text) is not None or is_index(text)


# -- the prose of a chunk: its text with everything else masked, so that offsets stay valid

_MASK = "\x01"  # stands for inline code and URLs: no name contains it, and no name reaches across it
_PROSE_BLOCKS = frozenset({"paragraph", "item", "definition"})
# Space is matched from its start only: a search inside a run of n spaces would take n steps for each of them.
_LINE_BREAK = re.compile(r"(?:(?<![ \t\r])[ \t\r]+)?\n[ \t>]*")
_DEFINITION_BREAK = re.compile(r"(?:(?<![ \t\r])[ \t\r]+)?\n[ \t>]*(?::[ \t]+)?")
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
    """The prose of a chunk.

    Attributes
    ----------
    text
        The chunk's text. Headings, code and tables are masked with line breaks, markup with spaces.
    is_plain
        The text has no markup, so that a sentence is a slice of it.
    starts
        The offsets at which sentences start.
    """

    text: str
    sentences: list[Sentence]
    is_plain: bool
    starts: frozenset[int]


def read_prose(chunk: Chunk) -> Prose:
    """Return the prose of a chunk. A chunk without marks is prose throughout."""
    if all(mark.kind == "paragraph" for mark in chunk.marks):
        text = unwrap(chunk.text)
        spans = sentences(text)
        found = [Sentence(start, end, None) for start, end in spans]
        return Prose(text, found, True, frozenset(start for start, _ in spans))
    blocks = [mark for mark in chunk.marks if mark.kind in _PROSE_BLOCKS]
    text = _masked(chunk, blocks)
    spans, found, at = sentences(text) if blocks else [], [], 0
    for start, end in spans:
        while at < len(blocks) - 1 and blocks[at].end <= start:
            at += 1
        found.append(Sentence(start, end, blocks[at]))
    return Prose(text, found, False, frozenset(start for start, _ in spans))


def _masked(chunk: Chunk, blocks: list[Mark]) -> str:
    """Return the text of a chunk with everything but the prose in its blocks masked."""
    pieces: list[str] = []
    at = 0
    for block in blocks:
        start = max(block.start, at)
        pieces += "\n" * (start - at), _joined(chunk.text[start : block.end], block.kind)
        at = max(block.end, start)
    pieces.append("\n" * (len(chunk.text) - at))
    text = "".join(pieces)
    pieces, at = [], 0
    for start, end in sorted((mark.start, mark.end) for mark in chunk.marks if _is_hidden(chunk.text, mark)):
        if start >= at and text[start : start + 1] != "\n":  # headings and tables are masked already
            pieces += text[at:start], _MASK * (end - start)
            at = end
    return _MARKUP.sub(_blank, "".join((*pieces, text[at:])))


def _joined(text: str, kind: str) -> str:
    """Return the text of a block with spaces for the line breaks inside its sentences."""
    if "\n" not in text:
        return text
    if kind == "definition":  # the line of the term, then its definitions
        return _DEFINITION_BREAK.sub(_definition_break, text)
    if kind == "item":
        return _LINE_BREAK.sub(_blank, text)

    def join(match: re.Match[str]) -> str:
        line = match.start() - (text.rfind("\n", 0, match.start()) + 1)
        following = text[match.end() : match.end() + 1]
        is_wrapped = line >= _SHORTEST_WRAPPED_LINE or following.islower() or following in "`*_[("
        is_wrapped = is_wrapped and not _FIELD.match(text, match.end())
        return " " * len(match.group()) if is_wrapped else match.group()

    return _LINE_BREAK.sub(join, text)


def _definition_break(match: re.Match[str]) -> str:
    size = len(match.group())
    return "\n" + " " * (size - 1) if ":" in match.group() else " " * size


def _is_hidden(text: str, mark: Mark) -> bool:
    if mark.kind == "literal":
        return True
    if mark.kind != "link":
        return False
    # A URL, or a label that stands for the title of the section.
    label = _LINK_LABEL.fullmatch(mark.value) is not None and text[mark.start : mark.end] == mark.value
    return label or text.startswith(("http://", "https://"), mark.start)


def _blank(match: re.Match[str]) -> str:
    found = match.group()
    return (_MASK if found[-1] == "`" else " ") * len(found)
