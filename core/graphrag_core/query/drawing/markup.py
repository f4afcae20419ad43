"""HTML and SVG put together so that a text can never become markup.

A plain ``str`` is always escaped; only :class:`Markup`, which nothing but this module makes
of other people's words, is taken as it is. Gluing the two with ``+`` or in an f-string gives a
plain ``str`` again, so that a mistake shows as a visible tag and never as a live one.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

_UNSPEAKABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_VOID = frozenset({"br", "hr", "img", "link", "meta"})

Value = str | int | float | None


class Markup(str):
    """A piece of a page, escaped where it had to be."""

    __slots__ = ()


def escape(text: str) -> Markup:
    """Return a text as it must stand in a page, between tags as well as in a quoted attribute.

    Control characters and half surrogate pairs, which no page may hold and no file can be
    written with, are shown as U+FFFD.

    >>> escape("</script><b title='x'>")
    '&lt;/script&gt;&lt;b title=&#x27;x&#x27;&gt;'
    """
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(_UNSPEAKABLE.sub("\ufffd", text), quote=True))


def tag(name: str, *children: str, **attributes: Value) -> Markup:
    """Return an element.

    An underscore in an attribute's name stands for a hyphen and ``cls`` for ``class``; an
    attribute that is None is left out. Numbers are written with one decimal at most.

    >>> tag("text", "R&D", cls="label", x=1.25, aria_label=None)
    '<text class="label" x="1.2">R&amp;D</text>'
    """
    written = "".join(
        f' {"class" if key == "cls" else key.replace("_", "-")}="{_value(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{together(children)}</{name}>")


def together(parts: Iterable[str], between: str = "") -> Markup:
    """Return pieces joined, the plain ones escaped."""
    return Markup(escape(between).join(escape(part) for part in parts))


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return escape(value)
    return f"{round(value, 1) + 0.0:g}"
