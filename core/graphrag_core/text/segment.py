"""Chinese and Japanese have no spaces: overlapping pairs of characters stand in for words."""

from __future__ import annotations

import re

CJK = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
_RUN = re.compile(f"[{CJK}]+")


def has_cjk(text: str) -> bool:
    """Say whether a text has Chinese or Japanese characters.

    >>> has_cjk("Tokyo"), has_cjk("東京")
    (False, True)
    """
    return not text.isascii() and _RUN.search(text) is not None


def segment(text: str) -> str:
    """Return the text with every run of Chinese or Japanese as pairs of characters.

    >>> segment("NFL 橄榄球联盟")
    'NFL  橄榄 榄球 球联 联盟 '
    """
    return _RUN.sub(_pairs, text) if has_cjk(text) else text


def _pairs(match: re.Match[str]) -> str:
    run = match.group()
    pairs = [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]
    return f" {' '.join(pairs)} "
