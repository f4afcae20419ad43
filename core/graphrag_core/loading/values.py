"""Values as they are written in tables and on the command line."""

from __future__ import annotations

import re

_WHOLE = re.compile(r"-?(?:0|[1-9]\d{0,17})")
_DECIMAL = re.compile(r"-?(?:0|[1-9]\d*)\.\d+")
_WORDS = {"true": True, "false": False}


def typed(text: str) -> str | int | float | bool:
    """Return a number or truth value where a text is one and nothing of it would be lost.

    >>> typed("2021"), typed("3.5"), typed("true"), typed("007"), typed('"2021"')
    (2021, 3.5, True, '007', '2021')
    """
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if _WHOLE.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    return _WORDS.get(text.lower(), text)
