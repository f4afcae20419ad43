"""``expanded_passages``: what surrounds passages: their sections, or the passages before and after them.

The pieces of a source that an application cut are neighbours like the passages of one document. They are in the order
of their pages and of their positions in the source, and where these are unknown in the order in which they were added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrag_core.context.expanded import Around, ExpandedPassage, Part
from graphrag_core.extract import source_and_rest, source_of
from graphrag_core.filters import Filter, Group, Internal, attributes, parse_all
from graphrag_core.ingest.remembered import visible
from graphrag_core.model import ADAPTER_KEY, Chunk
from graphrag_core.ports import Keys
from graphrag_core.text import token_counter

if TYPE_CHECKING:
    from graphrag_core.engine.engine import IndexEngine as Engine
    from graphrag_core.engine.snapshot import Snapshot

EXPANDED_TOKENS = 1_000
"""The tokens up to which a passage is expanded. A longer passage is returned as it is."""

_REACH: Mapping[Around, int] = {"section": 16, "neighbours": 1}  # passages on each side
_MOST_PIECES = 10_000  # of a source
_MOST_PASSAGES = 256  # of a piece that was split again
_MOST_CONDITIONS = 50


def expanded_passages(
    engine: Engine, chunks: Sequence[Chunk], around: Around, scope: Filter | None, at: float
) -> list[ExpandedPassage]:
    """Return the expanded passage of each chunk within the scope of a question; the chunk alone if it has changed."""
    scope, reach = visible(engine, scope, at), _REACH[around]
    sources = {source_of(chunk.document_id, chunk.metadata): chunk for chunk in reversed(chunks)}
    pieces = {source: _pieces(engine, chunk, source, scope) for source, chunk in sources.items()}
    expanded = []
    with engine.snapshot(scope) as snapshot:
        found = snapshot.find_chunks([chunk.id for chunk in chunks])
        firsts = {source: _in_order(snapshot, ids, source) for source, ids in pieces.items()}
        for chunk in chunks:
            own = np.array([found[chunk.id]] if chunk.id in found else [], np.int64)
            keys = _keys_around(snapshot, own, firsts[source_of(chunk.document_id, chunk.metadata)], reach)
            expanded.append(_expanded(chunk, snapshot.chunks(keys), around))
    return expanded


def _pieces(engine: Engine, chunk: Chunk, source: str, scope: Filter | None) -> list[str]:
    """Return the ids of the documents that may be pieces of the same source; none if they are too many."""
    if source == chunk.document_id:
        return []
    named, rest = source_and_rest(chunk.metadata) or ("", {})
    is_node = isinstance(chunk.metadata.get(ADAPTER_KEY), Mapping)
    known = {**({ADAPTER_KEY: {"source": named}} if is_node else {}), **rest}
    equal = (Internal(key, "in", (value,)) for key, value in attributes(known))
    same = Group(all=True, parts=tuple(islice(equal, _MOST_CONDITIONS)))
    ids = list(islice(engine.document_ids(parse_all(scope, same)), _MOST_PIECES + 1))
    return ids if len(ids) <= _MOST_PIECES else []


def _in_order(snapshot: Snapshot, ids: Sequence[str], source: str) -> Keys:
    """Return the first passages of the documents that are pieces of a source, in its order."""
    if len(ids) < 2:
        return np.empty(0, np.int64)
    keys = sorted(snapshot.find_chunks([name for piece in ids for name in (piece, f"{piece}#0")]).values())

    def position(piece: tuple[int, Chunk]) -> tuple[float, float, int, int]:
        """Return the page of a piece, its offset in the source, and the number in its id; 0 for what is unknown."""
        key, chunk = piece
        number, page = chunk.document_id.removeprefix(f"{source}#"), chunk.metadata.get("page")
        page = page if isinstance(page, (int, float)) else 0
        # Keys are in the order in which passages were added.
        return page, start_in_source(chunk.metadata) or 0, int(number) if number.isdecimal() else 0, key

    first = zip(keys, snapshot.chunks(np.array(keys, np.int64)), strict=True)
    pieces = [(key, chunk) for key, chunk in first if source_of(chunk.document_id, chunk.metadata) == source]
    return np.array([key for key, _ in sorted(pieces, key=position)], np.int64)


def start_in_source(metadata: Mapping[str, Any]) -> int | None:
    """Return where a piece starts in its source: LangChain's ``start_index``, or that of a LlamaIndex node."""
    match metadata.get(ADAPTER_KEY), metadata.get("start_index"):
        case ({"start": [[int(start)]]}, _) | (_, int(start)):
            return start
    return None


def _keys_around(snapshot: Snapshot, own: Keys, firsts: Keys, reach: int) -> Keys:
    """Return a passage, if it is there, and those that may be around it, in order."""
    document = snapshot.documents_of(own)
    for at in np.flatnonzero(snapshot.documents_of(firsts) == document).tolist() if len(own) else ():
        near = firsts[max(0, at - reach) : at + reach + 1].tolist()
        keys = np.concatenate([_of_document(snapshot, first, first + _MOST_PASSAGES) for first in near])
        for place in np.flatnonzero(keys == own).tolist():
            return keys[max(0, place - reach) : place + reach + 1]
    return _of_document(snapshot, int(own[0]), int(own[0]) + reach, reach) if len(own) else own


def _of_document(snapshot: Snapshot, key: int, last: int, before: int = 0) -> Keys:
    """Return the passages of the document of a passage, from ``before`` it to the last: they have successive keys."""
    keys = np.arange(max(0, key - before), min(last + 1, snapshot.first_entity))
    documents = snapshot.documents_of(keys)
    found: Keys = keys[documents == documents[keys == key]]
    return found


def _expanded(chunk: Chunk, sequence: Sequence[Chunk], around: Around) -> ExpandedPassage:
    """Return a chunk with those around it, as far as the tokens last."""
    at = next((place for place, one in enumerate(sequence) if one.id == chunk.id and one.text == chunk.text), None)
    if at is None:
        return ExpandedPassage((_part(chunk),))
    allowed = range(at - 1, at + 2) if around == "neighbours" else _section(sequence, at)
    count = token_counter()
    room, ends = EXPANDED_TOKENS - count(chunk.text), {1: at, -1: at}
    growing = [1, -1]
    while growing:
        for step in tuple(growing):
            place = ends[step] + step
            tokens = count(sequence[place].text) if place in allowed and 0 <= place < len(sequence) else room + 1
            if tokens > room:
                growing.remove(step)
            else:
                ends[step], room = place, room - tokens
    return ExpandedPassage(tuple(map(_part, sequence[ends[-1] : ends[1] + 1])))


def _section(sequence: Sequence[Chunk], at: int) -> range:
    """Return the places of the chunks with the same headings, next to each other.

    A piece of a source without a heading belongs to the section that an earlier piece began.
    """
    are_pieces = len({chunk.document_id for chunk in sequence}) > 1
    headings: list[tuple[str, ...]] = []
    for chunk in sequence:
        is_continued = are_pieces and not chunk.headings and headings
        headings.append(headings[-1] if is_continued else chunk.headings)
    first, last = at, at
    while first > 0 and headings[first - 1] == headings[at]:
        first -= 1
    while last + 1 < len(headings) and headings[last + 1] == headings[at]:
        last += 1
    return range(first, last + 1)


def _part(chunk: Chunk) -> Part:
    """Return a chunk as a part, with its offset in the source if that is known, else in its document."""
    start, page = start_in_source(chunk.metadata), chunk.metadata.get("page", "")
    if start is None:
        return Part(chunk.id, chunk.text, chunk.document_id, chunk.start)
    source = source_of(chunk.document_id, chunk.metadata)
    return Part(chunk.id, chunk.text, f"{source} {page}", start + chunk.start)
