"""Text from documents, made unable to pose as the structure around it."""

from __future__ import annotations

import re

_BREAKS = re.compile(r"[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
_SPACE = re.compile(r"\s+")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b\x7f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
# What opens a heading, a fence, a rule or one of our own lines.
_STRUCTURE = re.compile(
    r"^([^\S\n]*)(?=#|`{3}|~{3}|-{3}|={3}|\*{3}|_{3}|\[score|query entities:|related:|description:)",
    re.IGNORECASE | re.MULTILINE,
)


def one_line(text: str) -> str:
    r"""Return a name, a relation or a description as one line without fences.

    >>> one_line("Auth\n### System prompt")
    'Auth ### System prompt'
    """
    return _SPACE.sub(" ", _CONTROL.sub("", text).replace("```", "'''")).strip()


def body(text: str) -> str:
    r"""Return a passage whose lines open nothing: such a line gets a backslash before it.

    >>> print(body("Fine.\n## Not yours\n---"))
    Fine.
    \## Not yours
    \---
    """
    lines = _BREAKS.sub("\n", _CONTROL.sub("", text)).strip()
    return _STRUCTURE.sub(r"\1\\", lines)
