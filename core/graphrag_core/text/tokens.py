"""An estimate of how many tokens a text costs, for when no tokenizer is at hand."""

from __future__ import annotations

import re

from graphrag_core.text.segment import CJK

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
