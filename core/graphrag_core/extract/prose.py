"""The prose of a chunk: its text with everything else masked, so that what is found in it has the same offsets.

Headings, code and tables become line breaks, markup becomes spaces. Inline code and URLs become a control character: no
name contains it, and no name reaches across it.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from graphrag_core.model import Chunk, Mark
from graphrag_core.text.sentences import SHORTEST_WRAPPED_LINE, sentences, unwrap

MASK = "\x01"

_PROSE_BLOCKS = frozenset({"paragraph", "item", "definition"})
# Space is matched from its start only: a search inside a run of n spaces would take n steps for each of them.
_LINE_BREAK = re.compile(r"(?:(?<![ \t\r])[ \t\r]+)?\n[ \t>]*")
_DEFINITION_BREAK = re.compile(r"(?:(?<![ \t\r])[ \t\r]+)?\n[ \t>]*(?::[ \t]+)?")
_FIELD = re.compile(r"[A-Z][\w-]{2,20}: ")  # "License: MIT"
_MARKUP = re.compile(
    r"\](?:\((?:[^()\n]|\([^()\n]*\)){0,1000}\)|\[[^\[\]\n]{0,200}\])"  # the target of a link
    r"|!?\[(?=[^\[\]\n]{1,400}\s{5,}|[^\[\]\n]{1,400}\][(\[])"
    r"|(?:\{[\w:+-]+\})?`+|<!--.{0,4000}?-->|</?[A-Za-z][^<>\n]{0,1000}>"
    r"|(?<![\w\\])(?!__[a-z]\w*__(?!\w))[*_]{1,3}(?=[^\s*_])|(?<=[^\s*_\\])(?:\*{1,3}|(?<!\w)_{1,3})(?!\w)"
    r"|\\(?=[*_`\[\]<>#|\\~])|&(?:[a-z]{2,8}|#\d{1,6});|¶",
    re.DOTALL,
)
_LABEL = re.compile(r"[a-z0-9]+(?:[_:.-][a-z0-9]+)+")


class Sentence(NamedTuple):
    """A sentence: its place in the chunk, and the block it is part of (None for a chunk without structure)."""

    start: int
    end: int
    block: Mark | None


class Prose(NamedTuple):
    """What is prose in a chunk.

    Attributes
    ----------
    text
        The chunk's text, masked.
    sentences
        In order.
    is_plain
        The text has no markup, so that a sentence is a slice of it.
    """

    text: str
    sentences: list[Sentence]
    is_plain: bool


def read_prose(chunk: Chunk) -> Prose:
    """Return the prose of a chunk. A chunk without marks is prose throughout."""
    if all(mark.kind == "paragraph" for mark in chunk.marks):
        text = unwrap(chunk.text)
        return Prose(text, [Sentence(start, end, None) for start, end in sentences(text)], is_plain=True)
    blocks = [mark for mark in chunk.marks if mark.kind in _PROSE_BLOCKS]
    pieces: list[str] = []
    at = 0
    for block in blocks:
        start = max(block.start, at)
        pieces += "\n" * (start - at), _joined(chunk.text[start : block.end], block.kind)
        at = max(block.end, start)
    pieces.append("\n" * (len(chunk.text) - at))
    text = "".join(pieces)
    hidden = [(mark.start, mark.end) for mark in chunk.marks if _is_hidden(chunk.text, mark)]
    if hidden:
        pieces, at = [], 0
        for start, end in sorted(hidden):
            if start >= at and text[start : start + 1] != "\n":  # in a heading or table all is masked already
                pieces += text[at:start], MASK * (end - start)
                at = end
        text = "".join((*pieces, text[at:]))
    text = _MARKUP.sub(_blank, text)
    return Prose(text, list(_sentences(text, blocks)), is_plain=False)


def _sentences(text: str, blocks: list[Mark]) -> Iterator[Sentence]:
    at = 0
    for start, end in sentences(text) if blocks else ():
        while at < len(blocks) - 1 and blocks[at].end <= start:
            at += 1
        yield Sentence(start, end, blocks[at])


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
        is_wrapped = line >= SHORTEST_WRAPPED_LINE or following.islower() or following in "`*_[("
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
    label = _LABEL.fullmatch(mark.value) is not None and text[mark.start : mark.end] == mark.value
    return label or text.startswith(("http://", "https://"), mark.start)


def _blank(match: re.Match[str]) -> str:
    found = match.group()
    return (MASK if found[-1] == "`" else " ") * len(found)
