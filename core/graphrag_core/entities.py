"""Entities, put together from what the living passages say of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

import numpy as np

from graphrag_core.model import Entity
from graphrag_core.stores.records import Records
from graphrag_core.stores.view import GraphView
from graphrag_core.text import hash64, normalise

_MOST_DESCRIPTIONS = 8


def find_entity(view: GraphView, records: Records, name: str) -> int | None:
    """Return the position of the entity that a name stands for, or None."""
    rows = records.rows("SELECT key FROM names WHERE entity = ? LIMIT 1", (hash64(normalise(name)),))
    if not rows:
        return None
    position = int(np.searchsorted(view.name_keys, rows[0][0]))
    found = position < len(view.name_keys) and view.name_keys[position] == rows[0][0]
    return int(view.name_entity[position]) if found else None


def read_entities(view: GraphView, records: Records, positions: Iterable[int]) -> list[Entity]:
    """Return entities by position: the commonest spelling, the commonest type, all descriptions.

    Only what the view's chunks say is read.
    """
    wanted = list(positions)
    order, starts = view.names_by_entity
    keys = [view.name_keys[order[starts[p] : starts[p + 1]]].tolist() for p in wanted]
    packed = json.dumps([key for group in keys for key in group])
    inside = "IN (SELECT value FROM json_each(?))"
    names = {
        row[0]: row[1:]
        for row in records.rows(f"SELECT key, surface, norm, entity, uses FROM names WHERE key {inside}", (packed,))
    }
    claims: dict[int, list[tuple[str, str]]] = {}
    for name, chunk, kind, description in records.rows(
        f"SELECT name, chunk, type, description FROM claims WHERE name {inside} ORDER BY description", (packed,)
    ):
        position = np.searchsorted(view.chunk_keys, chunk)
        if position < len(view.chunk_keys) and view.chunk_keys[position] == chunk:
            claims.setdefault(name, []).append((kind, description))
    counts = view.entity_chunks[wanted] if wanted else ()
    return [
        _entity([names[key] for key in group], [c for key in group for c in claims.get(key, ())],
                int(view.entity_ids[position]), int(count))
        for position, group, count in zip(wanted, keys, counts, strict=True)
    ]  # fmt: skip


def top_entities(view: GraphView, records: Records, count: int) -> list[Entity]:
    """Return the entities that the most passages mention."""
    best = np.lexsort((view.entity_ids, -view.entity_chunks))[:count]
    return read_entities(view, records, best.tolist())


def _entity(
    names: list[tuple[str, str, int, int]], claims: list[tuple[str, str]], number: int, mentions: int
) -> Entity:
    if len(names) == 1 and not claims:
        return Entity(names[0][1], names[0][0], mentions=mentions)
    names.sort(key=lambda name: (-name[3], name[0]))
    own = [name for name in names if name[2] == number]
    kinds = Counter(kind for kind, _ in claims if kind)
    kind = min(kinds, key=lambda k: (-kinds[k], k)) if kinds else ""
    descriptions = list(dict.fromkeys(description for _, description in claims if description))
    return Entity(
        id=own[0][1],
        name=own[0][0],
        type=kind,
        description=" ".join(sorted(descriptions)[:_MOST_DESCRIPTIONS]),
        aliases=tuple(sorted({name[0] for name in names} - {own[0][0]})),
        mentions=mentions,
    )
