"""How values are stored in rows and read back: texts, names, vectors, passages, facts and documents."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np

from graphrag_core.engine.codes import decode
from graphrag_core.errors import DamagedIndex, InputError
from graphrag_core.model import Chunk, Document, Fact, FactSource, FactStatus, FileMark
from graphrag_core.ports import Matrix
from graphrag_core.text import chunk_text
from graphrag_core.text.markup import plain

Row = tuple[Any, ...]
ADDRESS = "→"
"""Starts the names of places that links lead to."""

LETTERS = {word: word[0] for word in (*get_args(FactSource), *get_args(FactStatus))}
"""How the sources and statuses of facts are stored."""

_SOURCES: dict[str, Any] = {LETTERS[word]: word for word in get_args(FactSource)}
_STATUSES: dict[str, Any] = {LETTERS[word]: word for word in get_args(FactStatus)}

Texts = tuple[str, ...]
"""The texts of the fields, body first; missing fields are empty."""

FIELDS = {"body": 1.0, "title": 0.4, "headings": 0.2, "terms": 0.5}
"""The fields of a text and the weight of a term's BM25 score in each.

The body has title and headings too: a term's score in the other fields comes on top. Measured on documentation and on
passages with titles, where 0.3 to 0.6 for the title is best.
"""


class Unstorable(InputError):
    """A database cannot store a value."""


def damaged(problem: str) -> DamagedIndex:
    """Return the error that stored rows are damaged."""
    return DamagedIndex(
        f"the records are damaged ({problem}): restore a backup, or index the documents again into another folder"
    )


class Name(NamedTuple):
    """A name as documents write it, its normalised form, and the hash of that."""

    surface: str
    norm: str
    name_id: int


class RowCache:
    """Rows that were read, by key: they never change."""

    def __init__(self) -> None:
        self.names: dict[int, Name] = {}
        self.chunks: dict[int, Chunk] = {}


class Accesses:
    """Access counts of facts, kept in memory until the next write, so that no query writes to disk.

    A process that crashes loses the counts it has not written; a read-only engine never writes them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.pending: dict[int, tuple[int, float]] = {}  # count and last access by fact

    def note(self, facts: Iterable[int], now: float) -> None:
        """Count an access of each fact, given by key."""
        with self._lock:
            for fact in facts:
                count, last = self.pending.get(fact, (0, now))
                self.pending[fact] = (count + 1, max(last, now))

    def forget(self, stored: Mapping[int, tuple[int, float]]) -> None:
        """Remove accesses that were stored, but not those that were noted since."""
        with self._lock:
            for fact, (count, _) in stored.items():
                more, last = self.pending.get(fact, (0, 0.0))
                if more <= count:
                    self.pending.pop(fact, None)
                else:
                    self.pending[fact] = (more - count, last)


# -- texts


def without_markup(text: str, start: int, stop: int) -> str:
    """Return a slice of a text as one line of prose."""
    return " ".join(plain(text[start:stop]).split())


def keyword_fields(title: str, headings: Sequence[str], subjects: Iterable[str], text: str) -> Texts:
    """Return the fields by which keyword search finds a chunk: body, title, headings and what the chunk defines.

    ``text`` is the text of the chunk without markup. A chunk defines its subjects besides title and headings, without
    the addresses of sections.
    """
    path = " - ".join(filter(None, (title, *headings)))
    terms = [name for name in subjects if name not in path and not name.startswith(ADDRESS)]
    return chunk_text(path, text), title, " - ".join(headings), "\n".join(terms)


def storable(texts: Iterable[str]) -> list[str]:
    """Return the texts that a database can store."""
    return [text for text in texts if "\x00" not in text and text.encode("utf-8", "replace").decode() == text]


def packed(data: bytes) -> bytes:
    """Return bytes compressed, if that makes them shorter. The first byte says so."""
    short = zlib.compress(data, 6, -15)
    return b"\x01" + short if len(short) < len(data) else b"\x00" + data


def unpacked(stored: bytes) -> bytes:
    """Return the bytes that :func:`packed` stored."""
    return zlib.decompress(stored[1:], -15) if stored[:1] == b"\x01" else stored[1:]


def checksum(values: object) -> int:
    """Return the checksum of rows."""
    return zlib.crc32(repr(values).encode())


# -- rows


def from_json(text: str | bytes) -> Any:
    """Return a stored value."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise damaged(f"a value cannot be decoded: {error}") from error


def unpack_names(data: bytes) -> list[int]:
    """Return the packed keys of names."""
    if len(data) % 4:
        raise damaged("the names of a passage or a fact have another length")
    keys: list[int] = np.frombuffer(data, "<i4").tolist()
    return keys


def decoded(kind: str, codes: Sequence[bytes]) -> Matrix | None:
    """Return the vectors of codes, one row each; None for none."""
    if not codes:
        return None
    if len({*map(len, codes)}) > 1:
        raise damaged("a vector has another length")
    return decode(kind, np.frombuffer(b"".join(codes), np.uint8).reshape(len(codes), -1))


def chunk_of(row: Row) -> Chunk:
    """Return a passage from the columns that are selected for it."""
    _, chunk_id, document_id, stored, title, ordinal, start, metadata, headings, page = row
    try:
        text = unpacked(stored).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise damaged(f"the text of {chunk_id!r} cannot be decoded: {error}") from error
    above = tuple(from_json(headings or "[]"))
    return Chunk(chunk_id, document_id, text, title, ordinal, start, from_json(metadata), above, page)


def fact_of(
    row: Row,
    passage: str,
    entities: Iterable[str] = (),
    *,
    fact_id: str = "",
    chunk_id: str = "",
    accesses: bool = True,
) -> Fact:
    """Return a fact of a passage, whose whole text is given; without ``accesses`` as if it was never used."""
    source: Any
    status: Any
    _, start, stop, text, is_plain, _, relation, weight, confidence, source, status, value, *times, last, count = row
    if text is None:
        text = without_markup(passage, start, stop) if is_plain else passage[start:stop].replace("\n", " ")
    if count and not accesses:
        last, count = None, 0
    created, valid_from, valid_to = times
    return Fact(
        tuple(entities), text, relation or "", weight, confidence, _SOURCES.get(source, source),
        _STATUSES.get(status, status), value or "", created, last, count, None if start is None else (start, stop),
        fact_id, chunk_id, valid_from, valid_to,
    )  # fmt: skip


def document_of(row: Sequence[Any], chunks: Iterable[Chunk], file: FileMark | None = None) -> Document:
    """Return a document from its id, title and metadata, and from its passages in order, which may overlap."""
    document_id, title, metadata = row
    pieces, end = [], 0
    for chunk in chunks:
        pieces.append(chunk.text[end - chunk.start :])
        end += len(pieces[-1])
    return Document(document_id, "".join(pieces), title, from_json(metadata), file)
