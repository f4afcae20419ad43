"""As much of a draft as a budget holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from graphrag_core.ports import TokenCounter
from graphrag_core.query.context.item import Draft, Item


def fill(draft: Draft, max_tokens: int, count: TokenCounter) -> tuple[str, list[Item]]:
    """Return the text and the items of it that fit, whole ones only, the most useful first.

    An item that does not fit is tried in its shorter forms and else left out; smaller ones
    after it may still find room. The count is always that of the whole text.
    """
    chosen: list[Item] = []
    text = ""
    for item in draft.items:
        for form in (item, *(replace(item, text=shorter) for shorter in item.shorter)):
            longer = draft.render([*chosen, form])
            if count(longer) <= max_tokens:
                chosen, text = [*chosen, form], longer
                break
        if not chosen:  # not even the head fits
            return "", []
    return text, chosen


def by_slot(items: Sequence[Item]) -> dict[tuple[int, ...], list[Item]]:
    """Return items grouped by their slot, in the order of the slots."""
    groups: dict[tuple[int, ...], list[Item]] = {}
    for item in items:
        groups.setdefault(item.slot, []).append(item)
    return dict(sorted(groups.items()))
