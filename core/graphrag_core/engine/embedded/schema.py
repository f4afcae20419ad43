"""The tables of the records, and changes of them.

Rows of chunks, facts and names are written once and never changed, but for the counters ``uses``,
``access_count`` and ``last_accessed``. Their keys count upwards and are never reused. So a search index
can tell by keys alone which rows it lacks and which it must drop, and a deletion removes exactly the
rows that an addition wrote.

A name is a spelling ("Auth Service"). Names with the same ``entity`` number (a hash of the
normalised spelling) are one entity. ``uses`` counts the chunks that mention a name; a name is
deleted with its last use. ``chunks.names`` and ``facts.names`` are packed 64-bit name keys; the
first ``chunks.subjects`` names of a chunk are its subjects. A fact without ``text`` is the
slice of its chunk from ``start`` to ``stop`` with newlines replaced by spaces.

``documents.heading`` is the title that was found for a document without one. ``attributes`` are the
metadata values that filters test, ``claims`` the types and descriptions that chunks give entities, and
``journal`` the keys that each generation added and removed.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphrag_core.ports import Keys

FORMAT = 1
APPLICATION_ID = 0x48475247  # "HGRG": identifies an index among SQLite files

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, title TEXT NOT NULL, heading TEXT NOT NULL,
    metadata TEXT NOT NULL, digest TEXT NOT NULL, generation INTEGER NOT NULL, added REAL NOT NULL
);
CREATE TABLE attributes (
    name TEXT NOT NULL, kind TEXT NOT NULL, value NOT NULL,
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    PRIMARY KEY (name, kind, value, document)
) WITHOUT ROWID;
CREATE INDEX attributes_document ON attributes (document);
CREATE TABLE chunks (
    key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,
    document INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, start INTEGER NOT NULL, text TEXT NOT NULL,
    subjects INTEGER NOT NULL, names BLOB NOT NULL
);
CREATE INDEX chunks_document ON chunks (document);
CREATE TABLE names (
    key INTEGER PRIMARY KEY, surface TEXT NOT NULL UNIQUE, norm TEXT NOT NULL,
    entity INTEGER NOT NULL, uses INTEGER NOT NULL
);
CREATE INDEX names_entity ON names (entity);
CREATE TABLE claims (
    chunk INTEGER NOT NULL REFERENCES chunks ON DELETE CASCADE, name INTEGER NOT NULL,
    type TEXT NOT NULL, description TEXT NOT NULL
);
CREATE INDEX claims_chunk ON claims (chunk);
CREATE INDEX claims_name ON claims (name);
CREATE TABLE aliases (
    chunk INTEGER NOT NULL REFERENCES chunks ON DELETE CASCADE,
    short INTEGER NOT NULL, long INTEGER NOT NULL
);
CREATE INDEX aliases_chunk ON aliases (chunk);
CREATE TABLE facts (
    key INTEGER PRIMARY KEY, chunk INTEGER NOT NULL REFERENCES chunks ON DELETE CASCADE,
    ordinal INTEGER NOT NULL, start INTEGER, stop INTEGER, text TEXT,
    names BLOB NOT NULL, relation TEXT, weight REAL NOT NULL, confidence REAL NOT NULL,
    source TEXT NOT NULL, status TEXT NOT NULL, value TEXT, created REAL,
    last_accessed REAL, access_count INTEGER NOT NULL
);
CREATE INDEX facts_chunk ON facts (chunk);
CREATE TABLE chunk_vectors (
    chunk INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE, vector BLOB NOT NULL
);
CREATE TABLE fact_vectors (
    chunk INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE, vectors BLOB NOT NULL
);
CREATE TABLE name_vectors (
    name INTEGER PRIMARY KEY REFERENCES names ON DELETE CASCADE, vector BLOB NOT NULL
);
CREATE TABLE journal (
    generation INTEGER PRIMARY KEY,
    chunks_from INTEGER NOT NULL, chunks_to INTEGER NOT NULL,
    facts_from INTEGER NOT NULL, facts_to INTEGER NOT NULL,
    names_from INTEGER NOT NULL, names_to INTEGER NOT NULL,
    chunks_gone BLOB NOT NULL, facts_gone BLOB NOT NULL, names_gone BLOB NOT NULL
);
"""

Row = tuple[Any, ...]
Span = tuple[int, int]
"""Keys from the first up to, but not including, the second."""

KINDS = ("chunks", "facts", "names")


def pack(keys: Sequence[int] | Keys) -> bytes:
    """Return keys as bytes."""
    return struct.pack(f"<{len(keys)}q", *keys)


def unpack(data: bytes) -> Keys:
    """Return the keys that :func:`pack` packed."""
    return np.frombuffer(data, dtype="<i8").astype(np.int64)


class Change(NamedTuple):
    """The difference between two generations of the records.

    ``added`` has the spans of the new keys, some of which may have been removed again.
    """

    before: int
    generation: int
    added: Mapping[str, Span]
    removed: Mapping[str, Keys]
