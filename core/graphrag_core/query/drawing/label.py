"""How much room a text takes, and how it is made to fit.

Widths are estimates on the safe side: the page is drawn before it is known which font a
reader has.
"""

from __future__ import annotations

import unicodedata

_NARROW = frozenset("iIljtfr.,:;'|!()[]{}/\\-` ")
_BROAD = frozenset("mwMWQO@%—…&")
_JOINERS = frozenset("\u200d\ufe0e\ufe0f")


def width(text: str) -> float:
    """Return about how wide a text is, in ems."""
    return sum(_advance(character) for character in text)


def one_line(text: str) -> str:
    """Return a text with every run of white space made a single space."""
    return " ".join(text.split())


def shorten(text: str, room: float) -> str:
    """Return as much of a text as fits into ``room`` ems, with an ellipsis if that is not all.

    >>> shorten("Notification Hub", 6)
    'Notificati…'
    """
    text = one_line(text)
    if width(text) <= room:
        return text
    used, end = width("…"), 0
    for end, character in enumerate(text):  # noqa: B007 - where the loop stopped is what is wanted
        used += _advance(character)
        if used > room:
            break
    while end > 0 and _joined(text, end):
        end -= 1
    return text[:end].rstrip() + "…"


def wrap(text: str, room: float, most: int) -> list[str]:
    """Return a text in at most ``most`` lines of ``room`` ems each, the last one shortened.

    Words stay whole where they can; scripts without spaces break anywhere.

    >>> wrap("The Identity Team owns it", 8, 2)
    ['The Identity', 'Team owns it']
    """
    rest = one_line(text)
    lines: list[str] = []
    while rest and len(lines) < most - 1 and width(rest) > room:
        end = _break(rest, room)
        lines.append(rest[:end].rstrip())
        rest = rest[end:].lstrip()
    return [*lines, shorten(rest, room)]


def right_to_left(line: str) -> bool:
    """Return whether the first letter of a line belongs to a script that runs from right to left."""
    strong = (unicodedata.bidirectional(character) for character in line)
    return next((kind for kind in strong if kind in ("L", "R", "AL")), "L") != "L"


def directed(line: str) -> str:
    """Return a line that keeps its own direction wherever it stands."""
    return f"\u2067{line}\u2069" if right_to_left(line) else line


def _break(text: str, room: float) -> int:
    """Return where a line that is too long is broken: after the last piece that fits whole, if one does."""
    used, end = 0.0, 0
    for end, character in enumerate(text):  # noqa: B007 - where the loop stopped is what is wanted
        used += _advance(character)
        if used > room:
            break
    if text[end] != " ":
        before = max(text.rfind(mark, 0, end) for mark in " -/")
        if before > 0 and not any(_advance(character) == 1.0 for character in text[before + 1 : end]):
            return before + 1
    while end > 1 and _joined(text, end):
        end -= 1
    return max(end, 1)


def _joined(text: str, at: int) -> bool:
    """Return whether what stands before and after a place make one sign."""
    after = text[at]
    return (
        after in _JOINERS
        or text[at - 1] == "\u200d"
        or bool(unicodedata.combining(after))
        or "\U0001f3fb" <= after <= "\U0001f3ff"
    )


def _advance(character: str) -> float:
    if unicodedata.combining(character) or character in _JOINERS:
        return 0.0
    if character >= "\U0001f000":
        return 1.4
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    if character in _NARROW:
        return 0.38
    if character in _BROAD:
        return 0.95
    return 0.72 if character.isupper() else 0.6
