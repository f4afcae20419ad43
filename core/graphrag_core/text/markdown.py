"""Write Markdown: what the readers of files make of links, anchors, code, tables and pages."""

import re
from collections.abc import Iterable, Iterator, Sequence

MAX_TEXT = 100_000_000
"""Characters of one document."""

_BACKTICKS = re.compile(r"`+")
_SPACES = re.compile(r"\s+")
_MARKUP = re.compile(r"`|<(?=/?[A-Za-z]|!--)|\[(?=[^\[\]]{0,400}\][(\[]|\s*$)")
_BLOCK = re.compile(r"(?=#{1,6}(?:\s|$)|```|~~~)")
_PLAIN_TARGET = re.compile(r"(?=\S*[^\W_]{2}|[#<])[^\s()<>\\]{1,1000}")


def escape(text: str) -> str:
    r"""Return text in which nothing is inline markup: code, tags and links are escaped.

    >>> escape("Run <command> with [x](y) as `root`, a < b")
    'Run \\<command> with \\[x](y) as \\`root\\`, a < b'
    """
    return _MARKUP.sub(r"\\\g<0>", text)


def line(text: str) -> str:
    """Return a line of text that is not read as a heading or as the start of code."""
    return _BLOCK.sub(r"\\", text, count=1) if text[:1] in ("#", "`", "~") else text


def literal(code: str) -> str:
    """Return inline code in one line; empty for none.

    >>> literal("a ` b"), literal(" x ")
    ('``a ` b``', '`x`')
    """
    code = _SPACES.sub(" ", code).strip()
    runs = {len(run) for run in _BACKTICKS.findall(code)}
    ticks = "`" * next(count for count in range(1, len(runs) + 2) if count not in runs)
    edge = " " if "`" in (code[:1], code[-1:]) else ""
    return f"{ticks}{edge}{code}{edge}{ticks}" if code else ""


def fenced(code: str, language: str = "") -> list[str]:
    """Return the lines of a block of code; none for empty code."""
    lines = [row.rstrip() for row in code.expandtabs(4).rstrip().split("\n")]
    while lines and not lines[0]:
        del lines[0]
    fence = "`" * max([3, *(len(run) + 1 for run in _BACKTICKS.findall(code))])
    return [fence + language, *lines, fence] if lines else []


def link(label: str, target: str) -> str:
    """Return a link; its label alone if nothing can be linked to.

    >>> link("the guide", "guide.html#url"), link("a book", "a book.pdf")
    ('[the guide](guide.html#url)', '[a book](<a book.pdf>)')
    """
    target = _SPACES.sub(" ", target).strip()
    if not label.strip() or not target or len(target) > 1_000 or "<" in target or ">" in target:
        return label
    return f"[{label}]({target if _PLAIN_TARGET.fullmatch(target) else f'<{target}>'})"


def anchor(name: str) -> str:
    """Return the place to which links with ``#name`` lead; empty for a name that cannot be one."""
    return "" if not name or any(char in name for char in "\"'<> \n\t") else f'<a id="{name}"></a>'


def page_break(number: int) -> str:
    """Return the comment before the text of a page."""
    return f"<!-- page {number} -->"


def table(rows: Iterable[Sequence[str]], *, header: bool = True) -> Iterator[str]:
    """Yield the lines of a table; with ``header``, the first row has the labels of the columns."""
    for number, cells in enumerate(rows):
        yield "| " + " | ".join(_SPACES.sub(" ", cell.replace("|", "\\|")).strip() for cell in cells) + " |"
        if number == 0 and header:
            yield "|" + "---|" * len(cells)
