"""Fits label text into boxes.

Widths are conservative estimates, because the reader's font is unknown when the page is written.
"""

import unicodedata

_NARROW = frozenset("iIljtfr.,:;'|!()[]{}/\\-` ")
_WIDE = frozenset("mwMWQO@%—…&<>=+")


def width(text: str) -> float:
    """Return the estimated width of a text in ems."""
    return sum(map(_advance, text))


def shorten(text: str, room: float) -> str:
    """Return the text if it fits into ``room`` ems, else as much of it as fits and an ellipsis.

    >>> shorten("Notification Hub", 6)
    'Notificati…'
    """
    text = " ".join(text.split())
    if width(text) <= room:
        return text
    return text[: _fitting(text, room - width("…"))].rstrip() + "…"


def wrap(text: str, room: float, max_lines: int) -> list[str]:
    """Return the text in at most ``max_lines`` lines of ``room`` ems, the last one shortened.

    Lines break between words where possible, and anywhere in scripts without spaces.

    >>> wrap("The Identity Team owns it", 8, 2)
    ['The Identity', 'Team owns it']
    """
    rest = " ".join(text.split())
    lines: list[str] = []
    while len(lines) < max_lines - 1 and width(rest) > room:
        end = max(1, _fitting(rest, room))
        word = max(rest.rfind(mark, 0, end) for mark in " -/") + 1
        if rest[end] != " " and word > 1 and all(_advance(character) != 1.0 for character in rest[word:end]):
            end = word
        lines.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    return [*lines, shorten(rest, room)]


def _fitting(text: str, room: float) -> int:
    """Return how many characters of a text that is too wide fit; combining marks stay with their letter."""
    used, end = 0.0, 0
    while (used := used + _advance(text[end])) <= room:
        end += 1
    while end > 0 and unicodedata.combining(text[end]):
        end -= 1
    return end


def _advance(character: str) -> float:
    if unicodedata.combining(character):
        return 0.0
    if character >= "\U0001f000":
        return 1.4
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if character in _NARROW:
        return 0.38
    if character in _WIDE:
        return 0.95
    return 0.72 if character.isupper() else 0.6
