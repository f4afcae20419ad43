"""``write_context``: render a result in a style and fit it into a token budget."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce

from typing_extensions import Self

from graphrag_core.context.retrieved import Retrieved
from graphrag_core.context.settings import Style, check_style
from graphrag_core.context.styles import ContextSource, Item, Render, graph_block, narrative, passages
from graphrag_core.errors import check_integer
from graphrag_core.text import Tokenizer, token_counter

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
    result: Retrieved,
    *,
    ranks: Mapping[str, int],
    max_tokens: int,
    style: Style,
    tokenizer: Tokenizer | None,
    include_relationships: bool | None = None,
    include_sources: bool = True,
    numbered: bool = False,
) -> Context:
    """Render a result in a style within a token budget.

    Falls back to the ``"passages"`` style if the result has no facts (for ``"graph"`` and ``"both"``: neither
    facts nor descriptions) or the graph was not used; for ``"both"`` in the published format also if the graph found
    none of the hits. ``Context.style`` is the style that was used. ``ranks`` are the numbers of the passages, by id.
    See :meth:`graphrag_core.Result.context` for the other parameters and errors.
    """
    check_style(style)
    check_integer(max_tokens, "max_tokens")
    count = token_counter(tokenizer)
    asked, style = style, _usable_style(result, style)
    numbered = numbered or (asked == "graph" and not result.context_format.published)
    block = partial(graph_block, result, ranks, relationships=include_relationships is not False, cited=include_sources)
    texts = partial(passages, result, ranks, cited=include_sources, numbered=numbered)
    if style == "both":
        text, chosen = _fill_both(texts(with_entities=False), block(with_passages=False), max_tokens, count)
    elif style == "graph":
        text, chosen = _fill(*block(), max_tokens, count)
    elif style == "narrative":
        text, chosen = _fill(*narrative(result), max_tokens, count)
    else:
        listed = include_relationships is True and result.graph_ran
        text, chosen = _fill(*texts(relationships=listed), max_tokens, count)
    return Context(text, count(text) if text else 0, _sources(chosen, with_passages=include_sources), style)


def _sources(items: Sequence[Item], *, with_passages: bool) -> tuple[ContextSource, ...]:
    """Return the sources of items, each once; without passages and facts the entities alone."""
    sources = dict.fromkeys(source for item in items for source in item.sources)
    return tuple(source for source in sources if with_passages or source.kind == "entity")


def _usable_style(result: Retrieved, style: Style) -> Style:
    """Return the style, or ``"passages"`` if the graph has nothing for it."""
    described = style in ("graph", "both") and any(entity.description for entity in result.entities)
    if not result.graph_ran or (not result.facts and not described):
        return "passages"
    if style == "both" and result.context_format.published and not any("graph" in hit.channels for hit in result.hits):
        return "passages"
    return style


def _fill_both(
    texts: tuple[list[Item], Render], graph: tuple[list[Item], Render], max_tokens: int, count: Callable[[str], int]
) -> tuple[str, list[Item]]:
    """Return the passages, followed by the graph block, with the selected items.

    The block takes at most 500 tokens and at most half of the budget; the passages take the rest.
    """
    block, block_items = _fill(*graph, min(_MAX_BLOCK, max_tokens // 2), count)
    room = max_tokens - (count(f"\n\n{block}") if block else 0)
    while True:  # joining the two may take one more token
        text, chosen = _fill(*texts, room, count)
        both = "\n\n".join(part for part in (text, block) if part)
        if not text or count(both) <= max_tokens:
            return both, [*chosen, *block_items]
        room -= 1


def _fill(items: list[Item], render: Render, max_tokens: int, count: Callable[[str], int]) -> tuple[str, list[Item]]:
    """Select items greedily, most useful first, and return the rendered text with the selected items.

    If there is no room for all, the whole text is counted after each item, separators included. An item that does not
    fit is skipped; smaller ones after it may still fit. If none fits, the first item that can be truncated is.
    """
    chosen = reduce(lambda chosen, item: _with(chosen, item) or chosen, items, list[Item]())
    if count(text := render(chosen)) <= max_tokens:
        return text, chosen
    chosen, text = [], ""
    for item in items:
        tried = _with(chosen, item)
        if tried is None:
            continue
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


def _with(chosen: list[Item], item: Item) -> list[Item] | None:
    """Add an item to a selection in place of smaller ones in its slot; None if the slot has a larger one."""
    if not item.size:
        return [*chosen, item]
    if any(other.slot == item.slot and other.size >= item.size for other in chosen):
        return None
    return [*(other for other in chosen if other.slot != item.slot), item]


def _truncate(item: Item, render: Render, max_tokens: int, count: Callable[[str], int]) -> Item | None:
    """Return the longest truncation of an item that fits, by binary search over its cut points."""
    shorten = item.truncate
    if shorten is None:
        return None
    fitting = bisect_right(
        item.cut_points, max_tokens, key=lambda end: count(render([replace(item, text=shorten(end))]))
    )
    return replace(item, text=shorten(item.cut_points[fitting - 1])) if fitting else None
