"""``write_context``: render a result in a style and fit it into a token budget."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

from typing_extensions import Self

from graphrag_core.context.styles import ContextSource, Draft, Item, Material, graph_block, narrative, passages
from graphrag_core.context.tokens import token_counter
from graphrag_core.errors import InputError
from graphrag_core.ports import TokenCounter

Style = Literal["graph", "passages", "narrative"]


class Context(str):
    """Prompt text, with its token count, the sources it is based on and its style."""

    __slots__ = ("sources", "style", "tokens")

    tokens: int
    sources: tuple[ContextSource, ...]
    style: Style

    def __new__(cls, text: str, tokens: int, sources: tuple[ContextSource, ...], style: Style) -> Self:
        """Create a context from its text and attributes."""
        context = super().__new__(cls, text)
        context.tokens = tokens
        context.sources = sources
        context.style = style
        return context

    def __getnewargs__(self) -> tuple[str, int, tuple[ContextSource, ...], Style]:  # type: ignore[override]
        return str(self), self.tokens, self.sources, self.style


def write_context(
    material: Material, *, max_tokens: int, style: Style, count: TokenCounter | None, organise: bool
) -> Context:
    """Render a result in a style within a token budget.

    Falls back to the ``"passages"`` style if the result has no facts (for ``"graph"``: neither
    facts nor descriptions). ``Context.style`` is the style that was used.

    Parameters
    ----------
    material
        The parts of the result.
    max_tokens
        The budget, at least 1. It is never exceeded.
    style
        ``"graph"``, ``"passages"`` or ``"narrative"``.
    count
        Counts the tokens of a text; None uses :func:`token_counter`.
    organise
        True orders passages along a spanning tree of their facts, as KG2RAG does.

    Raises
    ------
    InputError
        The style is unknown or the budget is not a positive integer.
    """
    if style not in get_args(Style):
        raise InputError(f"unknown style {style!r}: use one of {', '.join(get_args(Style))}")
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or max_tokens < 1:
        raise InputError(f"max_tokens is {max_tokens!r}: it must be a positive integer")
    count = count or token_counter()
    described = style == "graph" and any(entity.description for entity in material.entities)
    if not material.facts and not described:
        style = "passages"
    if style == "graph":
        draft = graph_block(material)
    elif style == "narrative":
        draft = narrative(material)
    else:
        draft = passages(material, organise=organise)
    text, items = _fill(draft, max_tokens, count)
    sources = dict.fromkeys(source for item in items for source in item.sources)
    return Context(text, count(text) if text else 0, tuple(sources), style)


def _fill(draft: Draft, max_tokens: int, count: TokenCounter) -> tuple[str, list[Item]]:
    """Select items greedily, most useful first, and return the rendered text with the selected items.

    The whole text is counted after each item, separators included. An item that does not fit is
    skipped; smaller ones after it may still fit. If none fits, the first item that can be truncated is.
    """
    chosen: list[Item] = []
    text = ""
    for item in draft.items:
        longer = draft.render([*chosen, item])
        if count(longer) <= max_tokens:
            chosen, text = [*chosen, item], longer
        elif item.required:
            return "", []
    if not chosen:
        for item in draft.items:
            if (shorter := _truncate(draft, item, max_tokens, count)) is not None:
                return draft.render([shorter]), [shorter]
    return text, chosen


def _truncate(draft: Draft, item: Item, max_tokens: int, count: TokenCounter) -> Item | None:
    """Return the longest truncation of an item that fits, by binary search over its cut points."""
    if item.truncate is None:
        return None
    best: Item | None = None
    low, high = 0, len(item.cut_points)
    while low < high:
        middle = (low + high) // 2
        shorter = replace(item, text=item.truncate(item.cut_points[middle]))
        if count(draft.render([shorter])) <= max_tokens:
            best, low = shorter, middle + 1
        else:
            high = middle
    return best
