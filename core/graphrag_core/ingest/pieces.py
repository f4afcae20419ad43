"""Pieces of one source that an application cut before adding them: they get the title and headings of those before.

A splitter cuts a text wherever a piece is full, so that most pieces have no heading. Those that are added in one call
still tell: their order, and the headings inside earlier pieces.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from graphrag_core.extract.source_names import source_and_rest, sources
from graphrag_core.ingest.chunker import heading_text, stated_title
from graphrag_core.model import Chunk, Document, Mark
from graphrag_core.text import normalise
from graphrag_core.text.markup import BLOCKS

_DEEPEST = 7  # below every heading


def is_same_source(one: Document, other: Document) -> bool:
    """Return whether two documents, which may be invalid, are pieces of one source."""
    given = [document.metadata for document in (one, other) if isinstance(document, Document)]
    if len(given) < 2 or not all(isinstance(metadata, Mapping) for metadata in given):
        return False
    sources = [source_and_rest(metadata) for metadata in given]
    return sources[0] is not None and sources[0] == sources[1]


def continue_sections(documents: Sequence[Document], chunked: Sequence[Sequence[Chunk]]) -> list[Sequence[Chunk]]:
    """Return the chunks of documents, those of pieces with the title and headings that apply where they start.

    The order is that of ``start_index`` in the metadata, which LangChain's splitters write, else the order given.
    Documents of one source that have different titles are no pieces: the rows of a table, the messages of a mailbox.
    """
    continued = list(chunked)
    for places in sources([chunks[0] for chunks in chunked]):
        titles = {documents[place].title or stated_title(documents[place].metadata) for place in places}
        if len(places) > 1 and len(titles) == 1:
            ordered = sorted(places, key=lambda place: _start(documents[place]))
            for place, chunks in zip(ordered, _continued([chunked[place] for place in ordered]), strict=True):
                continued[place] = chunks
    return continued


def _start(piece: Document) -> int:
    start = piece.metadata.get("start_index")
    return start if isinstance(start, int) else 0


def _continued(pieces: Sequence[Sequence[Chunk]]) -> list[Sequence[Chunk]]:
    """Return the chunks of the pieces of one source, in their order."""
    title = pieces[0][0].title
    above: list[tuple[int, str]] = []  # level and text of the headings that apply
    found: list[Sequence[Chunk]] = []
    for piece in pieces:
        own = []
        for chunk in piece:
            first = next((mark for mark in chunk.marks if mark.kind in BLOCKS), None)
            level = _level(first) if first is not None and first.kind == "heading" else _DEEPEST
            path = dict.fromkeys((*(name for depth, name in above if depth < level), *chunk.headings))
            headings = tuple(name for name in path if normalise(name) != normalise(title))
            own.append(replace(chunk, title=title, headings=headings))
            for mark in chunk.marks:
                if mark.kind == "heading":
                    above = [(depth, name) for depth, name in above if depth < _level(mark)]
                    above.append((_level(mark), heading_text(chunk.text, mark)))
        found.append(own)
    return found


def _level(heading: Mark) -> int:
    return int(heading.value or 1)
