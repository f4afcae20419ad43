"""Rows as values: passages, documents, facts and vectors, and the rows that were read."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from graphrag_core.engine.codes import decode
from graphrag_core.engine.rows import LETTERS, Name, Row, damaged, without_markup
from graphrag_core.engine.segments import inflate
from graphrag_core.model import Chunk, Document, Fact, FactSource, FactStatus, FileMark
from graphrag_core.ports import Matrix

_SOURCES: dict[str, Any] = {LETTERS[word]: word for word in get_args(FactSource)}
_STATUSES: dict[str, Any] = {LETTERS[word]: word for word in get_args(FactStatus)}


class RowCache:
    """Rows that were read, by key: they never change."""

    def __init__(self) -> None:
        self.names: dict[int, Name] = {}
        self.chunks: dict[int, Chunk] = {}

    def keep(self, kind: str, rows: dict[int, Any], most: int = 50_000) -> None:
        known = getattr(self, kind)
        if len(known) > most:
            known.clear()
        known.update(rows)


def storable(texts: Iterable[str]) -> list[str]:
    """Return the texts that a database can store."""
    return [text for text in texts if "\x00" not in text and text.encode("utf-8", "replace").decode() == text]


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
    matrix = np.frombuffer(b"".join(codes), np.uint8).reshape(len(codes), -1)
    return decode(kind, matrix)


def chunk_of(row: Row) -> Chunk:
    """Return a passage from the columns that are selected for it."""
    _, chunk_id, document_id, text, title, ordinal, start, metadata, headings, page = row
    try:
        plain = inflate(text)
    except (zlib.error, UnicodeDecodeError) as error:
        raise damaged(f"the text of {chunk_id!r} cannot be decoded: {error}") from error
    above = tuple(from_json(headings)) if headings else ()
    return Chunk(chunk_id, document_id, plain, title, ordinal, start, from_json(metadata), above, page)


def fact_of(row: Row, passage: str) -> tuple[Fact, list[int]]:
    """Return a fact with its key as id and no entities, and the keys of its names. ``passage`` is the whole text."""
    key, start, stop, text, is_plain, names, relation, weight, confidence, source, status, value, *more = row
    created, valid_from, valid_to, last, count = more
    if text is None:
        text = without_markup(passage, start, stop) if is_plain else passage[start:stop].replace("\n", " ")
    fact = Fact(
        (), text, relation or "", weight, confidence, known(_SOURCES, source), known(_STATUSES, status),
        value or "", created, last, count, None if start is None else (start, stop), str(key), "", valid_from, valid_to,
    )  # fmt: skip
    return fact, unpack_names(names)


def known(words: Mapping[str, Any], letter: str) -> Any:
    """Return the word that a letter stands for; the letter itself if it is none."""
    return words.get(letter, letter)


def document_of(row: Sequence[Any], chunks: Iterable[Chunk], file: FileMark | None = None) -> Document:
    """Return a document from its id, title and metadata, and from its passages in order, which may overlap."""
    document_id, title, metadata = row
    pieces, end = [], 0
    for chunk in chunks:
        pieces.append(chunk.text[end - chunk.start :])
        end += len(pieces[-1])
    return Document(document_id, "".join(pieces), title, from_json(metadata), file)


def from_json(text: str | bytes) -> Any:
    """Return a stored value."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise damaged(f"a value cannot be decoded: {error}") from error


def as_written(fact: Fact, names: Iterable[str], accesses: bool) -> Fact:
    """Return a fact as it was written; without ``accesses`` as if it was never used."""
    last, count = fact.last_accessed, fact.access_count
    last, count = (last if accesses or not count else None), (count if accesses else 0)
    return replace(fact, entities=tuple(names), id="", chunk_id="", last_accessed=last, access_count=count)


def with_ids(fact: Fact, fact_id: str, chunk_id: str) -> Fact:
    """Return a fact with the id that callers see, and that of its passage."""
    return replace(fact, id=fact_id, chunk_id=chunk_id)
