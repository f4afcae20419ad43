"""Pieces of one source that an application cut before adding them: they get the title and headings of those before.

A splitter cuts a text wherever a piece is full, so that most pieces have no heading. Those that are added in one call
still tell: their order, and the headings inside earlier pieces.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from graphrag_core.extract.source_names import sources
from graphrag_core.ingest.chunker import heading_text, stated_title
from graphrag_core.model import Chunk
from graphrag_core.text import normalise
from graphrag_core.text.markup import BLOCKS

_MOST_HEADINGS = 6


def continue_sections(documents: Sequence[Sequence[Chunk]]) -> list[Sequence[Chunk]]:
    """Return the chunks of documents, those of pieces with the title and headings that apply where they start.

    The order is that of ``start_index`` in the metadata, which LangChain's splitters write, else the order given.
    """
    continued = list(documents)
    for places in sources([chunks[0] for chunks in documents]):
        if len(places) > 1:
            ordered = sorted(places, key=lambda place: _start(documents[place][0]))
            for place, chunks in zip(ordered, _continued([documents[place] for place in ordered]), strict=True):
                continued[place] = chunks
    return continued


def _start(piece: Chunk) -> Any:
    start = piece.metadata.get("start_index")
    return start if isinstance(start, int) else 0


def _continued(pieces: Sequence[Sequence[Chunk]]) -> list[Sequence[Chunk]]:
    """Return the chunks of the pieces of one source, in their order."""
    title = pieces[0][0].title
    stack: list[tuple[int, str]] = []  # level and text of the headings that apply
    found = []
    for piece in pieces:
        if stated_title(piece[0].metadata):  # the splitter knows better
            found.append(piece)
            continue
        own = []
        for chunk in piece:
            first = next((mark for mark in chunk.marks if mark.kind in BLOCKS), None)
            level = int(first.value or 1) if first is not None and first.kind == "heading" else _MOST_HEADINGS + 1
            above = [name for depth, name in stack if depth < level]
            known = {normalise(title), *map(normalise, chunk.headings)}
            path = (*(name for name in above if normalise(name) not in known), *chunk.headings)
            own.append(
                replace(
                    chunk, title=title, headings=tuple(name for name in path if normalise(name) != normalise(title))
                )
            )
            for mark in chunk.marks:
                if mark.kind == "heading":
                    while stack and stack[-1][0] >= int(mark.value or 1):
                        stack.pop()
                    stack.append((int(mark.value or 1), heading_text(chunk.text, mark)))
        found.append(own)
    return found
