"""``write_context``: render a result in a style and fit it into a token budget."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, get_args

from typing_extensions import Self

from graphrag_core.context.styles import ContextSource, Item, Render, graph_block, narrative, passages
from graphrag_core.errors import InputError, check_integer
from graphrag_core.text import Tokenizer, token_counter

if TYPE_CHECKING:
    from graphrag_core.result import Result

Style = Literal["graph", "passages", "narrative", "both"]

_MAX_BLOCK = 500  # tokens of the graph block of the style "both"


class Context(str):
    """Prompt text, with its token count, the sources it is based on and its style."""

    __slots__ = ("sources", "style", "tokens")

    tokens: int
    sources: tuple[ContextSource, ...]
    style: Style

    def __new__(cls, text: str, tokens: int, sources: tuple[ContextSource, ...], style: Style) -> Self:
        """Create a context from its text and attributes."""
        context = super().__new__(cls, text)
        context.tokens, context.sources, context.style = tokens, sources, style
        return context

    def __getnewargs__(self) -> tuple[str, int, tuple[ContextSource, ...], Style]:  # type: ignore[override]
        return str(self), self.tokens, self.sources, self.style


def write_context(
    result: Result,
    *,
    max_tokens: int,
    style: Style,
    tokenizer: Tokenizer | None,
    organise: bool,
    include_relationships: bool | None = None,
    include_sources: bool = True,
    numbered: bool = False,
) -> Context:
    """Render a result in a style within a token budget.

    Falls back to the ``"passages"`` style if the result has no facts (for ``"graph"`` and ``"both"``: neither
    facts nor descriptions) or the graph was not used; for ``"both"`` also if it found none of the hits, in
    the published format.
    ``Context.style`` is the style that was used. The parameters are those of
    :meth:`graphrag_core.Result.context`. Raises ``InputError`` if the style is unknown or the budget is not a
    positive integer.
    """
    if style not in get_args(Style):
        raise InputError(f"unknown style {style!r}: use one of {', '.join(get_args(Style))}")
    check_integer(max_tokens, "max_tokens")
    count = token_counter(tokenizer)
    described = style in ("graph", "both") and any(entity.description for entity in result.entities)
    if style == "both" and result.context_format.published and not any("graph" in hit.channels for hit in result.hits):
        style = "passages"
    if not result.graph_ran or (not result.facts and not described):
        style = "passages"
    in_block = include_relationships is not False
    if style == "both":
        return _write_both(
            result, max_tokens, count, organise, relationships=in_block, cited=include_sources, numbered=numbered
        )
    if style == "graph":
        items, render = graph_block(result, relationships=in_block, cited=include_sources)
    elif style == "narrative":
        items, render = narrative(result)
    else:
        listed = include_relationships is True and result.graph_ran
        items, render = passages(
            result, organise=organise, relationships=listed, cited=include_sources, numbered=numbered
        )
    text, chosen = _fill(items, render, max_tokens, count)
    return Context(text, count(text) if text else 0, _sources(chosen, cited=include_sources), style)


def _sources(chosen: Sequence[Item], *, cited: bool) -> tuple[ContextSource, ...]:
    """Return the sources of items, each once; entities alone if passages and facts are not cited."""
    sources = dict.fromkeys(source for item in chosen for source in item.sources)
    return tuple(source for source in sources if cited or source.kind == "entity")


def _write_both(
    result: Result,
    max_tokens: int,
    count: Callable[[str], int],
    organise: bool,
    *,
    relationships: bool,
    cited: bool,
    numbered: bool,
) -> Context:
    """Return the passages, followed by the graph block.

    The block takes at most 500 tokens and at most half of the budget; the passages take the rest.
    """
    graph = graph_block(result, with_passages=False, relationships=relationships)
    block, block_items = _fill(*graph, min(_MAX_BLOCK, max_tokens // 2), count)
    items, render = passages(result, organise=organise, with_entities=False, cited=cited, numbered=numbered)
    room = max_tokens - (count(f"\n\n{block}") if block else 0)
    while True:  # a token more may be needed where the two meet
        text, chosen = _fill(items, render, room, count)
        both = "\n\n".join(part for part in (text, block) if part)
        if not text or count(both) <= max_tokens:
            break
        room -= 1
    sources = _sources([*chosen, *block_items], cited=cited)
    return Context(both, count(both) if both else 0, sources, "both")


def _fill(items: list[Item], render: Render, max_tokens: int, count: Callable[[str], int]) -> tuple[str, list[Item]]:
    """Select items greedily, most useful first, and return the rendered text with the selected items.

    The whole text is counted after each item, separators included. An item that does not fit is
    skipped; smaller ones after it may still fit. An item with a size replaces a smaller one in its slot.
    If none fits, the first item that can be truncated is.
    """
    chosen: list[Item] = []
    text = ""
    for item in items:
        rivals = [other for other in chosen if item.size and other.slot == item.slot]
        if any(other.size >= item.size for other in rivals):
            continue
        tried = [*(other for other in chosen if other not in rivals), item]
        longer = render(tried)
        if count(longer) <= max_tokens:
            chosen, text = tried, longer
        elif item.required:
            return "", []
        elif item.ordered and count(render([item])) <= max_tokens:
            break
    if not chosen:
        for item in items:
            if (shorter := _truncate(item, render, max_tokens, count)) is not None:
                return render([shorter]), [shorter]
    return text, chosen


def _truncate(item: Item, render: Render, max_tokens: int, count: Callable[[str], int]) -> Item | None:
    """Return the longest truncation of an item that fits, by binary search over its cut points."""
    shorten = item.truncate
    if shorten is None:
        return None
    fitting = bisect_right(
        item.cut_points, max_tokens, key=lambda end: count(render([replace(item, text=shorten(end))]))
    )
    return replace(item, text=shorten(item.cut_points[fitting - 1])) if fitting else None
