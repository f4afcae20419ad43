"""Pieces of one source that an application cut before adding them: all get the title of the source.

The headings above a piece are not carried over from earlier pieces: that was measured to cost a point of recall.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from graphrag_core.extract.source_names import source_and_rest, sources
from graphrag_core.ingest.chunker import stated_title
from graphrag_core.model import Chunk, Document
from graphrag_core.text import normalise


def is_same_source(one: Document, other: Document) -> bool:
    """Return whether two documents, which may be invalid, are pieces of one source."""
    given = [document.metadata for document in (one, other) if isinstance(document, Document)]
    if len(given) < 2 or not all(isinstance(metadata, Mapping) for metadata in given):
        return False
    found = [source_and_rest(metadata) for metadata in given]
    return found[0] is not None and found[0] == found[1]


def with_source_titles(documents: Sequence[Document], chunked: Sequence[Sequence[Chunk]]) -> list[Sequence[Chunk]]:
    """Return the chunks of documents, those of the pieces of a source with the title of its first piece.

    The first piece is that with the smallest ``start_index`` in its metadata, which LangChain's splitters write, else
    the first one given. Documents of one source that have titles are no pieces: the rows of a table, the messages of a
    mailbox.
    """
    titled = list(chunked)
    for places in sources([chunks[0] for chunks in chunked]):
        if len(places) < 2 or any(documents[at].title or stated_title(documents[at].metadata) for at in places):
            continue
        title = chunked[min(places, key=lambda at: _start(documents[at]))][0].title
        for at in places:
            titled[at] = [_with_title(chunk, title) for chunk in chunked[at]]
    return titled


def _start(piece: Document) -> int:
    start = piece.metadata.get("start_index")
    return start if isinstance(start, int) else 0


def _with_title(chunk: Chunk, title: str) -> Chunk:
    own = chunk.title if chunk.title in chunk.text else ""  # a heading of the piece, not the name of its file
    headings = tuple(name for name in (own, *chunk.headings) if name and normalise(name) != normalise(title))
    return replace(chunk, title=title, headings=headings)
