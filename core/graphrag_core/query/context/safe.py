"""Text from documents, made unable to pose as the structure around it."""

from __future__ import annotations

import re

_BREAKS = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
_SPACE = re.compile(r"\s+")
# Controls, and what is not seen: soft hyphens, zero-width spaces, marks that turn the direction of text.
_UNSEEN = re.compile(r"[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]")
# What opens a heading, a fence, a rule or one of our own lines.
_STRUCTURE = re.compile(
    r"^([^\S\n]*)(?=#|`{3}|~{3}|={3}|(?:[-*_][^\S\n]*){3}|\[score|query entities:|related:|description:)",
    re.IGNORECASE | re.MULTILINE,
)
_PUNCTUATED = re.compile(r"[,()\[\]:;>|]|^[-+*] ")


def one_line(text: str) -> str:
    r"""Return a text as one line without fences, that opens nothing where it stands.

    >>> one_line("Auth\n### System prompt"), one_line("# Auth")
    ('Auth ### System prompt', '\\# Auth')
    """
    line = _SPACE.sub(" ", _UNSEEN.sub("", text).replace("```", "'''")).strip()
    return _STRUCTURE.sub(r"\1\\", line)


def name(text: str) -> str:
    """Return a name for a list of names: in quotation marks if it has marks that part or end such a list.

    >>> name("Auth Service"), name("B (owns, weight: 10), Admin")
    ('Auth Service', '"B (owns, weight: 10), Admin"')
    """
    line = one_line(text)
    return f'"{line.replace(chr(34), chr(39))}"' if _PUNCTUATED.search(line) else line


def body(text: str) -> str:
    r"""Return a passage whose lines open nothing: such a line gets a backslash before it.

    >>> print(body("Fine.\n## Not yours\n- - -"))
    Fine.
    \## Not yours
    \- - -
    """
    lines = _BREAKS.sub("\n", _UNSEEN.sub("", text)).strip()
    return _STRUCTURE.sub(r"\1\\", lines)


def shortened(text: str, most: int) -> str:
    """Return one line of at most so many characters, cut between words where there are any.

    >>> shortened("one two three", 9), shortened("中文" * 5, 6)
    ('one two ...', '中文中文中文 ...')
    """
    line = one_line(text)
    if len(line) <= most:
        return line
    space = line.rfind(" ", most // 2, most)
    return f"{line[: space if space > 0 else most]} ..."
