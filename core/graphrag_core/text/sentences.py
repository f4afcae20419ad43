"""Where sentences begin and end, in English-like and in Chinese or Japanese text."""

from __future__ import annotations

import re

# A line that continues its paragraph: the break after a long line, with more text below
# that is no list item, heading, quote or table row.
_WRAP = re.compile(r"(?<=\S)[ \t]*\n(?=[^\s\-*+#>|=~\d•])")
_LINE_WORTH_WRAPPING = 50

# Begins with the character that may end a sentence: the scan stops only at those.
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


def unwrap(text: str) -> str:
    r"""Return the text with hard-wrapped lines joined, every character at its old offset.

    >>> unwrap("A paragraph whose lines were wrapped by an editor at the Auth\nService. End")[57:]
    'Auth Service. End'
    """
    if "\n" not in text:
        return text

    def join(match: re.Match[str]) -> str:
        start = text.rfind("\n", 0, match.start()) + 1
        long_enough = match.start() - start >= _LINE_WORTH_WRAPPING
        return " " * len(match.group()) if long_enough else match.group()

    return _WRAP.sub(join, text)


def sentences(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each sentence; white space between them is left out.

    >>> text = "Dr. Ada Lovelace wrote it. J. K. Rowling did not!  東京です。大阪"
    >>> [text[start:end] for start, end in sentences(text)]
    ['Dr. Ada Lovelace wrote it.', 'J. K. Rowling did not!', '東京です。', '大阪']
    """
    spans = []
    start = 0
    for match in _BREAK.finditer(text):
        mark = match.group()
        stop = match.start() + len(mark.rstrip())
        if mark[0] == "." and "\n" not in mark and _ABBREVIATION.search(text, max(0, stop - 12), stop):
            continue
        if text[start:stop].strip():
            spans.append((start, start + len(text[start:stop].rstrip()) if mark[0] == "\n" else stop))
        start = match.end()
    last = len(text.rstrip())
    if last > start:
        spans.append((start, last))
    return spans if not text[:1].isspace() else [(a + len(text[a:b]) - len(text[a:b].lstrip()), b) for a, b in spans]
