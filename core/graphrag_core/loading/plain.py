"""Text, Markdown and reStructuredText."""

from __future__ import annotations

import re

from graphrag_core.loading.content import Content
from graphrag_core.loading.decode import decode
from graphrag_core.loading.values import typed

_FRONT = re.compile(r"\A---[ \t]*\n(.*?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD = re.compile(r"^([A-Za-z_][\w-]*):[ \t]*(.*)$", re.MULTILINE)
_ATX = re.compile(r"^#{1,6}[ \t]+(\S.*?)[ \t]*#*$", re.MULTILINE)
_SETEXT = re.compile(r"^(\S.*)\n(?:={3,}|-{3,})[ \t]*$", re.MULTILINE)
_RULE = r"([=\-`:.'\"~^_*+#])"
_UNDERLINED = re.compile(rf"^(?:{_RULE}\1{{2,}}\n)?(\S.*)\n{_RULE}\3{{2,}}[ \t]*$", re.MULTILINE)
_ROLE = re.compile(r":[\w:.+-]+:`~?([^`<]+?)(?:\s*<[^`>]+>)?`")
_REFERENCE = re.compile(r"`([^`<]+?)\s*<[^`>]+>`__?")
_DIRECTIVE = re.compile(r"^\.\. (?:_[^\n]*:|\w[\w-]*::)[^\n]*\n?|^[ \t]+:[\w-]+:[^\n]*\n?", re.MULTILINE)
_FENCE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)


def read_text(data: bytes) -> Content:
    """Read a plain text; a heading in Markdown's way counts."""
    text = _lines(decode(data))
    return Content(text, _heading(text[:2000]) if text.lstrip()[:1] == "#" else "")


def read_markdown(data: bytes) -> Content:
    """Read Markdown; the fields of a front matter become metadata."""
    text = _lines(decode(data))
    fields: dict[str, object] = {}
    if front := _FRONT.match(text):
        fields = {key: typed(value) for key, value in _FIELD.findall(front[1]) if value.strip()}
        text = text[front.end() :]
    title = fields.pop("title", "") or _heading(_FENCE.sub("", text))
    return Content(text, str(title), fields)


def read_rst(data: bytes) -> Content:
    """Read reStructuredText: marks of roles, links and directives are taken off, their words stay."""
    text = _lines(decode(data))
    heading = _UNDERLINED.search(text)
    text = _DIRECTIVE.sub("", _REFERENCE.sub(r"\1", _ROLE.sub(r"\1", text))).replace("``", "")
    return Content(text, heading[2].strip() if heading else "")


def _heading(text: str) -> str:
    found = [match for match in (_ATX.search(text), _SETEXT.search(text)) if match]
    first = min(found, key=lambda match: match.start(), default=None)
    return first[1].strip() if first else ""


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
