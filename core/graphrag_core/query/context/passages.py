"""Passages with scores and sources, after what is known of the entities that the question names."""

from __future__ import annotations

import re
from collections.abc import Sequence

from graphrag_core.model import Chunk
from graphrag_core.query.context.budget import by_slot
from graphrag_core.query.context.item import Draft, Item, Material, Source
from graphrag_core.query.context.organise import organised
from graphrag_core.query.context.safe import body, one_line
from graphrag_core.query.hit import Hit
from graphrag_core.text import sentences

_ENTITIES, _PASSAGES = 0, 1
_WORD = re.compile(r"\S{1,16}")


def passages(material: Material, *, organise: bool) -> Draft:
    """Return the passages in order, and before them the entities that have a type or a description."""
    hits = organised(material) if organise else list(material.hits)
    best = {hit.chunk.id: rank for rank, hit in enumerate(material.hits)}
    items = [_passage(hit, place) for place, hit in enumerate(hits)]
    items.sort(key=lambda item: best[item.sources[0].id])
    return Draft([*items[:1], *_entities(material), *items[1:]], _render)


def _render(items: Sequence[Item]) -> str:
    groups = by_slot(items)
    parts = (
        ["## Related Entities\n\n" + "\n\n".join(item.text for item in groups.pop((_ENTITIES,)))]
        if (_ENTITIES,) in groups
        else []
    )
    parts += [item.text for group in groups.values() for item in group]
    return "\n\n---\n\n".join(parts)


def _entities(material: Material) -> list[Item]:
    told = [entity for entity in material.entities if entity.type or entity.description]
    return [
        Item(
            (_ENTITIES,),
            f"**{one_line(e.name)}**"
            + (f" ({one_line(e.type)})" if e.type else "")
            + (f"\n{one_line(e.description)}" if e.description else ""),
            (Source("entity", e.id, e.name),),
        )
        for e in told
    ]


def _passage(hit: Hit, place: int) -> Item:
    chunk = hit.chunk
    title = one_line(chunk.title)
    head = f"[Score: {hit.score:.2f}] " + (
        f"{title} ({one_line(chunk.id)})" if title and title != chunk.id else one_line(chunk.id)
    )
    text = _without_heading(chunk)
    return Item(
        (_PASSAGES, place),
        f"{head}\n{body(text)}",
        (Source("chunk", chunk.id, chunk.title),),
        cuts=_cuts(text),
        cut=lambda end: f"{head}\n{body(text[:end])} ...",
    )


def _cuts(text: str) -> tuple[int, ...]:
    """Return where a passage can be cut: after a sentence; in the first one after a word, or anywhere in long runs."""
    ends = [end for _, end in sentences(text)][:-1]
    first = ends[0] if ends else len(text)
    words = [match.end() for match in _WORD.finditer(text, 0, first)]
    return tuple(sorted({*ends, *words} - {len(text)}))


def _without_heading(chunk: Chunk) -> str:
    """Return the text without a first line that says the title again."""
    first, _, rest = chunk.text.partition("\n")
    return rest if rest.strip() and first.strip("#= \t") == chunk.title else chunk.text
