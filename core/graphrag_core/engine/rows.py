"""Rows from documents, and documents, chunks and facts from rows: what both engines store in the same way."""

import json
import threading
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, get_args

from graphrag_core.engine.analysis import pack_terms
from graphrag_core.engine.copies import signatures
from graphrag_core.model import Chunk, FactSource, FactStatus, Mark
from graphrag_core.text import chunk_text
from graphrag_core.text.markup import plain

Row = tuple[Any, ...]
ADDRESS = "→"
"""Starts the names of places that links lead to."""

LETTERS = {word: word[0] for word in (*get_args(FactSource), *get_args(FactStatus))}
"""How the sources and statuses of facts are stored."""
SOURCES: dict[str, Any] = {LETTERS[word]: word for word in get_args(FactSource)}
STATUSES: dict[str, Any] = {LETTERS[word]: word for word in get_args(FactStatus)}

Texts = tuple[str, ...]
"""The texts of the fields, body first; missing fields are empty."""

FIELDS = {"body": 1.0, "title": 0.4, "headings": 0.2, "terms": 0.5}
"""The fields of a text and the weight of a term's BM25 score in each.

The body has title and headings too: a term's score in the other fields comes on top. Measured on documentation and on
passages with titles, where 0.3 to 0.6 for the title is best.
"""


def without_markup(text: str, start: int, stop: int) -> str:
    """Return a slice of a text as one line of prose."""
    return " ".join(plain(text[start:stop]).split())


def pack_marks(marks: Sequence[Mark]) -> bytes | None:
    """Return the marks of a document as bytes."""
    if not marks:
        return None
    rows = [(mark.kind, mark.start, mark.end, mark.value) for mark in marks]
    return zlib.compress(json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode("utf-8"))


def unpack_marks(data: bytes | None) -> tuple[Mark, ...]:
    """Return the marks that :func:`pack_marks` packed."""
    return () if data is None else tuple(Mark(*row) for row in json.loads(zlib.decompress(data)))


def pack_headings(headings: Sequence[str]) -> str | None:
    """Return the headings above a chunk as text."""
    return json.dumps(headings, ensure_ascii=False, separators=(",", ":")) if headings else None


def unpack_headings(text: str | None) -> tuple[str, ...]:
    """Return the headings that :func:`pack_headings` packed."""
    return () if text is None else tuple(json.loads(text))


def keyword_fields(title: str, headings: Sequence[str], subjects: Iterable[str], text: str) -> Texts:
    """Return the fields by which keyword search finds a chunk: body, title, headings and what the chunk defines.

    What a chunk defines are its subjects besides title and headings. The addresses of sections are left out.
    """
    path = " - ".join(filter(None, (title, *headings)))
    terms = [name for name in subjects if name not in path and not name.startswith(ADDRESS)]
    return chunk_text(path, plain(text)), title, " - ".join(headings), "\n".join(terms)


def derived_columns(called: str, text: str, body: str, facts: Sequence[str]) -> Row:
    """Return the last columns of a chunk: its terms, its signatures, and the terms of its facts.

    ``called`` is the label of the chunk, ``body`` its body for keyword search, ``facts`` the texts of its facts.
    """
    terms, fact_terms = pack_terms(body, facts)
    return terms, *signatures(called, plain(text)), fact_terms


def chunk_of(row: Row) -> Chunk:
    """Return the chunk of a row that ``CHUNK`` selects."""
    _, chunk_id, document_id, text, title, ordinal, start, metadata, headings, page = row
    return Chunk(
        chunk_id, document_id, text, title, ordinal, start, json.loads(metadata), unpack_headings(headings), page
    )


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

    def take(self) -> dict[int, tuple[int, float]]:
        """Return the counts that were not written yet, and forget them."""
        with self._lock:
            pending, self.pending = self.pending, {}
        return pending
