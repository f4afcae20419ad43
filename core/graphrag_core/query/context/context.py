"""``Context``: text for a prompt, with what it cost and what it rests on."""

from __future__ import annotations

from typing import Literal, get_args

from typing_extensions import Self

from graphrag_core.errors import InputError
from graphrag_core.ports import TokenCounter
from graphrag_core.query.context.block import block
from graphrag_core.query.context.budget import fill
from graphrag_core.query.context.counting import token_counter
from graphrag_core.query.context.item import Draft, Material, Source
from graphrag_core.query.context.narrative import narrative
from graphrag_core.query.context.passages import passages

Style = Literal["graph", "passages", "narrative"]


class Context(str):
    """A text that knows its ``tokens``, its ``sources`` and the ``style`` it is written in."""

    __slots__ = ("sources", "style", "tokens")

    tokens: int
    sources: tuple[Source, ...]
    style: Style

    def __new__(cls, text: str, tokens: int, sources: tuple[Source, ...], style: Style) -> Self:
        """Make one."""
        made = super().__new__(cls, text)
        made.tokens = tokens
        made.sources = sources
        made.style = style
        return made

    def __getnewargs__(self) -> tuple[str, int, tuple[Source, ...], Style]:  # type: ignore[override]
        return str(self), self.tokens, self.sources, self.style


def write_context(
    material: Material, *, max_tokens: int, style: Style, count: TokenCounter | None, organise: bool
) -> Context:
    """Return a result's material in a style, never above a budget."""
    if style not in get_args(Style):
        raise InputError(f"unknown style {style!r}: use one of {', '.join(get_args(Style))}")
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:
        raise InputError(f"max_tokens is {max_tokens!r}: give the context at least one token")
    count = count or token_counter()
    told = material.facts or (style == "graph" and any(entity.description for entity in material.entities))
    if not told:
        style = "passages"  # the graph has nothing to say
    draft = _draft(material, style, organise=organise)
    text, items = fill(draft, max_tokens, count)
    sources = dict.fromkeys(source for item in items for source in item.sources)
    return Context(text, count(text) if text else 0, tuple(sources), style)


def _draft(material: Material, style: Style, *, organise: bool) -> Draft:
    if style == "graph":
        return block(material)
    return narrative(material) if style == "narrative" else passages(material, organise=organise)
