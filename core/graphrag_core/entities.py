"""Entities, put together from what the living passages say of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable

import numpy as np

from graphrag_core.model import Entity
from graphrag_core.stores.records import Name, Records
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
    return read_names_and_entities(view, records, positions)[1]


def read_names_and_entities(
    view: GraphView, records: Records, positions: Iterable[int]
) -> tuple[dict[int, Name], list[Entity]]:
    """Return entities by position, and all their names by key."""
    wanted = list(positions)
    order, starts = view.names_by_entity
    keys = [view.name_keys[order[starts[p] : starts[p + 1]]].tolist() for p in wanted]
    flat = [key for group in keys for key in group]
    names, claims = records.names(flat), _claims(view, records, flat)
    counts = view.entity_chunks[wanted].tolist() if wanted else ()
    numbers = view.entity_ids[wanted].tolist() if wanted else ()
    entities = [
        _entity([names[key] for key in group], [c for key in group for c in claims.get(key, ())], number, count)
        for number, group, count in zip(numbers, keys, counts, strict=True)
    ]
    return names, entities


def top_entities(view: GraphView, records: Records, count: int) -> list[Entity]:
    """Return the entities that the most passages mention."""
    best = np.lexsort((view.entity_ids, -view.entity_chunks))[:count]
    return read_entities(view, records, best.tolist())


def _claims(view: GraphView, records: Records, names: list[int]) -> dict[int, list[tuple[str, str]]]:
    """Return what the view's chunks say of names, by key: types and descriptions."""
    claims: dict[int, list[tuple[str, str]]] = {}
    for name, chunk, kind, description in records.rows(
        "SELECT name, chunk, type, description FROM claims WHERE name IN (SELECT value FROM json_each(?)) "
        "ORDER BY description",
        (json.dumps(names),),
    ):
        position = np.searchsorted(view.chunk_keys, chunk)
        if position < len(view.chunk_keys) and view.chunk_keys[position] == chunk:
            claims.setdefault(name, []).append((kind, description))
    return claims


def _entity(names: list[Name], claims: list[tuple[str, str]], number: int, mentions: int) -> Entity:
    if len(names) == 1 and not claims:
        return Entity(names[0].norm, names[0].surface, mentions=mentions)
    names.sort(key=lambda name: (-name.uses, name.surface))
    own = [name for name in names if name.entity == number]
    kinds = Counter(kind for kind, _ in claims if kind)
    kind = min(kinds, key=lambda k: (-kinds[k], k)) if kinds else ""
    descriptions = list(dict.fromkeys(description for _, description in claims if description))
    return Entity(
        id=own[0].norm,
        name=own[0].surface,
        type=kind,
        description=" ".join(sorted(descriptions)[:_MOST_DESCRIPTIONS]),
        aliases=tuple(sorted({name.surface for name in names} - {own[0].surface})),
        mentions=mentions,
    )
