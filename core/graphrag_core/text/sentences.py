"""Sentence boundaries in European, Chinese and Japanese text."""

import re

# A line break inside a paragraph: the next line is not a list item, heading, quote or table row.
_WRAP = re.compile(r"(?<=\S)[ \t\r]*\n([ \t]*)(?=[^\s\-*+#>|=~\d•])")
_INDENT = re.compile(r"[ \t]*(?:(?:[-*+•:]|\d{1,3}[.)])[ \t]+)?")
_SHORTEST_WRAPPED_LINE = 50

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
