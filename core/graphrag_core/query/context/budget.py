"""As much of a draft as a budget holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphrag_core.ports import TokenCounter
from graphrag_core.query.context.item import Draft, Item


def fill(draft: Draft, max_tokens: int, count: TokenCounter) -> tuple[str, list[Item]]:
    """Return the text and the items of it that fit, whole ones only, the most useful first.

    An item that does not fit is left out; smaller ones after it may still find room. If
    nothing at all was found room for, the first item that can be cut is cut. The count is
    always that of the whole text.
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
            if (cut := _cut(draft, item, max_tokens, count)) is not None:
                return draft.render([cut]), [cut]
    return text, chosen


def _cut(draft: Draft, item: Item, max_tokens: int, count: TokenCounter) -> Item | None:
    """Return the longest form of an item that fits, by halving."""
    if item.cut is None:
        return None
    best: Item | None = None
    low, high = 0, len(item.cuts)
    while low < high:
        middle = (low + high) // 2
        shorter = replace(item, text=item.cut(item.cuts[middle]))
        if count(draft.render([shorter])) <= max_tokens:
            best, low = shorter, middle + 1
        else:
            high = middle
    return best


def by_slot(items: Sequence[Item]) -> dict[tuple[int, ...], list[Item]]:
    """Return items grouped by their slot, in the order of the slots."""
    groups: dict[tuple[int, ...], list[Item]] = {}
    for item in items:
        groups.setdefault(item.slot, []).append(item)
    return dict(sorted(groups.items()))
