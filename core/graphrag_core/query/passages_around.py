"""``SurroundingReader``: reads what surrounds passages: their sections, or the passages before and after them.

The pieces of a source that an application cut are neighbours like the passages of one document. They are in the order
of their pages and of their positions in the source, and where these are unknown in the order in which they were added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

import numpy as np

from graphrag_core.context.expanded import Around, ExpandedPassage, Part
from graphrag_core.errors import IndexClosed
from graphrag_core.extract import source_and_rest, source_of
from graphrag_core.filters import Filter, Group, Internal, attributes, parse_all
from graphrag_core.ingest.remembered import visible
from graphrag_core.model import ADAPTER_KEY, Chunk
from graphrag_core.ports import Snapshot
from graphrag_core.text import token_counter

if TYPE_CHECKING:
    from graphrag_core.engine.engine import IndexEngine as Engine

EXPANDED_TOKENS = 1_000
"""The tokens up to which a passage is expanded. A longer passage is returned as it is."""

_REACH: Mapping[Around, int] = {"section": 16, "neighbours": 1}  # passages on each side
_MOST_PIECES = 10_000  # of a source
_MOST_PASSAGES = 256  # of a piece that was split again
_MOST_CONDITIONS = 50


@dataclass(frozen=True, eq=False, kw_only=True)
class SurroundingReader:
    """Reads what surrounds passages, within the scope of a question.

    Parameters
    ----------
    engine, scope, at
        The index, and what the question saw of it.
    """

    engine: Engine
    scope: Filter | None
    at: float

    def __reduce__(self) -> tuple[Any, ...]:  # a pickled result has no index
        return type(None), ()

    def __deepcopy__(self, memo: Any) -> SurroundingReader:  # immutable
        return self

    def __call__(self, chunks: Sequence[Chunk], around: Around) -> list[ExpandedPassage]:
        """Return the expanded passage of each chunk; the chunk alone if it is gone or has changed since."""
        try:
            return self._read(chunks, around)
        except IndexClosed as error:
            raise IndexClosed(f"{error}. retrieve(..., expand={around!r}) reads the passages before") from error

    def _read(self, chunks: Sequence[Chunk], around: Around) -> list[ExpandedPassage]:
        scope, reach = visible(self.engine, self.scope, self.at), _REACH[around]
        pieces: dict[str, list[str]] = {}  # by source
        for chunk in chunks:
            source = source_of(chunk.document_id, chunk.metadata)
            if source not in pieces:
                pieces[source] = self._pieces(chunk, source, scope)
        with self.engine.snapshot(scope) as snapshot:
            ordered = {source: _in_order(snapshot, ids, source) for source, ids in pieces.items() if len(ids) > 1}
            sequences = []
            for chunk in chunks:
                documents = ordered.get(source_of(chunk.document_id, chunk.metadata), [])
                sequences.append(_ids_around(snapshot, chunk, documents, reach))
            keys = snapshot.find_chunks([chunk_id for ids in sequences for chunk_id in ids])
            read = snapshot.chunks(np.array(sorted(keys.values()), np.int64))
        by_id = {chunk.id: chunk for chunk in read}
        return [
            _expanded(chunk, [by_id[chunk_id] for chunk_id in ids if chunk_id in by_id], around)
            for chunk, ids in zip(chunks, sequences, strict=True)
        ]

    def _pieces(self, chunk: Chunk, source: str, scope: Filter | None) -> list[str]:
        """Return the ids of the documents that may be pieces of the same source; none if they are too many."""
        if source == chunk.document_id:
            return []
        named, rest = source_and_rest(chunk.metadata) or ("", {})
        is_node = isinstance(chunk.metadata.get(ADAPTER_KEY), Mapping)
        known = {**({ADAPTER_KEY: {"source": named}} if is_node else {}), **rest}
        equal = (Internal(key, "in", (value,)) for key, value in attributes(known))
        same = Group(all=True, parts=tuple(islice(equal, _MOST_CONDITIONS)))
        ids = list(islice(self.engine.document_ids(parse_all(scope, same)), _MOST_PIECES + 1))
        return ids if len(ids) <= _MOST_PIECES else []


def _in_order(snapshot: Snapshot, ids: Sequence[str], source: str) -> list[str]:
    """Return the ids of the documents that are pieces of a source, in its order."""
    keys = snapshot.find_chunks([name for piece in ids for name in (piece, f"{piece}#0")])
    order = sorted(keys.values())
    first = zip(order, snapshot.chunks(np.array(order, np.int64)), strict=True)
    pieces = [(key, chunk) for key, chunk in first if source_of(chunk.document_id, chunk.metadata) == source]
    pieces.sort(key=lambda piece: (*_position(piece[1]), piece[0]))  # keys are in the order in which they were added
    return [chunk.document_id for _, chunk in pieces]


def _position(chunk: Chunk) -> tuple[float, float, int]:
    """Return the page of a piece, its offset in the source, and the number in its id; 0 for what is unknown."""
    source, _ = source_and_rest(chunk.metadata) or ("", {})
    number = chunk.document_id.removeprefix(f"{source}#")
    page = chunk.metadata.get("page")
    return _number(page), _number(start_in_source(chunk.metadata)), int(number) if number.isdecimal() else 0


def start_in_source(metadata: Mapping[str, Any]) -> int | None:
    """Return where a piece starts in its source: LangChain's ``start_index``, or that of a LlamaIndex node."""
    match metadata.get(ADAPTER_KEY), metadata.get("start_index"):
        case ({"start": [[int(start)]]}, _) | (_, int(start)):
            return start
    return None


def _number(value: Any) -> float:
    return value if isinstance(value, (int, float)) else 0


def _ids_around(snapshot: Snapshot, chunk: Chunk, pieces: Sequence[str], reach: int) -> list[str]:
    """Return the ids of a chunk and of those that may be around it, in order."""
    if chunk.document_id in pieces:
        at = pieces.index(chunk.document_id)
        passages = _passages_of(snapshot, pieces[max(0, at - reach) : at + reach + 1])
        if chunk.id in passages:
            place = passages.index(chunk.id)
            return passages[max(0, place - reach) : place + reach + 1]
    if chunk.id == chunk.document_id:
        return [chunk.id]
    ordinals = range(max(0, chunk.ordinal - reach), chunk.ordinal + reach + 1)
    return [f"{chunk.document_id}#{ordinal}" for ordinal in ordinals]


def _passages_of(snapshot: Snapshot, documents: Sequence[str]) -> list[str]:
    """Return the ids of the chunks of documents, in order."""
    whole = snapshot.find_chunks(documents)
    split = [document for document in documents if document not in whole]
    names = {document: [f"{document}#{ordinal}" for ordinal in range(_MOST_PASSAGES)] for document in split}
    found = snapshot.find_chunks([name for listed in names.values() for name in listed])
    passages = list[str]()
    for document in documents:
        passages += takewhile(found.__contains__, names[document]) if document in names else [document]
    return passages


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
