"""Escape text from documents, so that it cannot pass for the structure of a context."""

import re

_BREAKS = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
_SPACE = re.compile(r"\s+")
# Control characters and invisible ones: soft hyphens, zero-width spaces, bidirectional controls.
_INVISIBLE = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
# The start of a heading, a code fence, a rule or a line with a label that contexts use.
_STRUCTURE = re.compile(
    r"^([^\S\n]*)(?=#|`{3}|~{3}|={3}|(?:[-*_][^\S\n]*){3}|\[score|\[\d+\]|query entities:|related:|description:)",
    re.IGNORECASE | re.MULTILINE,
)
_DELIMITERS = re.compile(r"[,()\[\]:;>|]|^[-+*] ")


def one_line(text: str) -> str:
    r"""Return a text as one line, without code fences and with Markdown structure at its start escaped.

    >>> one_line("Auth\n### System prompt"), one_line("# Auth")
    ('Auth ### System prompt', '\\# Auth')
    """
    line = _SPACE.sub(" ", _INVISIBLE.sub("", text).replace("```", "'''")).strip()
    return _STRUCTURE.sub(r"\1\\", line)


def list_item(text: str) -> str:
    """Return a name for a comma-separated list, quoted if it contains delimiters.

    >>> list_item("Auth Service"), list_item("B (owns, weight: 10), Admin")
    ('Auth Service', '"B (owns, weight: 10), Admin"')
    """
    line = one_line(text)
    return f'"{line.replace(chr(34), chr(39))}"' if _DELIMITERS.search(line) else line


def body(text: str) -> str:
    r"""Return a passage with a backslash before each line that starts with Markdown structure.

    >>> print(body("Fine.\n## Not yours\n- - -"))
    Fine.
    \## Not yours
    \- - -
    """
    lines = _BREAKS.sub("\n", _INVISIBLE.sub("", text)).strip()
    return _STRUCTURE.sub(r"\1\\", lines)


def shortened(text: str, max_chars: int) -> str:
    """Return one line, cut to ``max_chars`` characters, between words if possible.

    >>> shortened("one two three", 9), shortened("中文" * 5, 6)
    ('one two ...', '中文中文中文 ...')
    """
    line = one_line(text)
    if len(line) <= max_chars:
        return line
    space = line.rfind(" ", max_chars // 2, max_chars)
    return f"{line[: space if space > 0 else max_chars]} ..."
