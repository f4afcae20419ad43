"""An estimate of how many tokens a text costs, for when no tokenizer is at hand."""

from __future__ import annotations

import re
from string import ascii_lowercase, ascii_uppercase

from graphrag_core.text.segment import CJK

_LETTERS = (ascii_uppercase + ascii_lowercase).encode()
_SPACES = b" \t\n\r\x0b\x0c"

_ASCII_PIECE = re.compile(r"[A-Za-z]{1,7}|[0-9]{1,3}|[^\sA-Za-z0-9]")
_PIECE = re.compile(rf"[{CJK}]|[A-Za-z]{{1,7}}|[0-9]{{1,3}}|(?:(?![{CJK}A-Za-z0-9])[^\W_]){{1,2}}|[^\w\s]|_")


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a language model would count.

    Words of up to seven letters count one, longer ones one for every seven letters; up to three
    digits count one, as do two letters of other alphabets, punctuation marks and Chinese or
    Japanese characters. On English prose this lies a few percent above what byte-pair
    encodings give.

    >>> estimate_tokens("Retrieval that follows the graph."), estimate_tokens("東京 tower")
    (7, 3)
    """
    return len((_ASCII_PIECE if text.isascii() else _PIECE).findall(text))


def most_tokens(text: str) -> int:
    """Return a number that :func:`estimate_tokens` does not exceed, at a fraction of its cost.

    >>> most_tokens("Retrieval that follows the graph."), most_tokens("東京 tower")
    (11, 6)
    """
    data = text.encode("ascii", "replace")
    others = data.translate(None, _LETTERS)
    marks = len(others.translate(None, _SPACES))
    # A mark is a token, and ends a word, as a space does; a word is one token, and one for every seven letters.
    return 2 * marks + (len(others) - marks) + 1 + (len(data) - len(others)) // 7
