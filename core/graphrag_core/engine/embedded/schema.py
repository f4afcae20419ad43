"""The tables of the records, and changes of them.

Rows of chunks, facts and names are written once and never changed, but for the counters ``uses``, ``access_count`` and
``last_accessed``. Their keys count upwards and are never reused. So a search index can tell by keys alone which rows it
lacks and which it must drop.

A name is what a document writes ("Auth Service"). Names with the same ``spelling`` (a hash of the normalised name) are
one entity. ``uses`` counts the chunks that mention a name; a name is deleted with its last use. ``chunks.names`` and
``facts.names`` are packed 32-bit name keys; the first ``chunks.subjects`` names of a chunk are its subjects. A fact
without ``text`` is the slice of its chunk from ``start`` to ``stop`` with newlines replaced by spaces, or with
``is_plain`` that slice without markup. Its ``source`` and ``status`` are the first letters of the words.

``documents.heading`` is the title that was found for a document without one (NULL: the same as ``title``), ``marks``
are its marks (compressed JSON), ``file`` and ``version`` its :class:`~graphrag_core.model.FileMark`, which may change
without the document, and ``chunks.headings`` the headings above a chunk (JSON). ``chunks.terms`` are the
hashes of the terms that keyword search finds a chunk by, ``fact_terms`` which of them each of its facts has
(:func:`~graphrag_core.engine.analysis.pack_terms`), and ``tokens`` the distinct ids of its tokens (packed 16-bit
numbers, NULL if the embedder has none). A chunk's text is compressed if that makes it shorter; the SQL function
``inflate`` returns it. ``attributes`` are the metadata values that filters test, ``claims`` the types and descriptions
that chunks give entities, and ``journal`` the keys that each generation added and removed. ``fact_vectors`` has the
vectors of all facts of a chunk in one row.

``checksums`` has for each document a checksum of its rows in all tables (:func:`document_checksums`), and ``meta`` one
of the settings and of the tables' definitions.
"""

import re
import struct
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple
from zlib import crc32

import numpy as np

from graphrag_core.engine.rows import Row, damaged
from graphrag_core.engine.tables import Span
from graphrag_core.ports import Keys

FORMAT = 5
APPLICATION_ID = 0x48475247  # "HGRG": identifies an index among SQLite files

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, title TEXT NOT NULL, heading TEXT,
    metadata TEXT NOT NULL, digest TEXT NOT NULL, generation INTEGER NOT NULL, added REAL NOT NULL,
    marks BLOB, file TEXT, version TEXT
);
CREATE INDEX documents_file ON documents (file) WHERE file IS NOT NULL;
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
    subjects INTEGER NOT NULL, names BLOB NOT NULL,
    headings TEXT, page INTEGER, terms BLOB, fact_terms BLOB, tokens BLOB
);
CREATE INDEX chunks_document ON chunks (document);
CREATE TABLE names (
    key INTEGER PRIMARY KEY, surface TEXT NOT NULL, spelling INTEGER NOT NULL, uses INTEGER NOT NULL
);
CREATE INDEX names_spelling ON names (spelling);
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
    last_accessed REAL, access_count INTEGER NOT NULL, valid_from REAL, valid_to REAL, is_plain INTEGER NOT NULL
);
CREATE INDEX facts_chunk ON facts (chunk);
CREATE TABLE chunk_vectors (key INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE, vector BLOB NOT NULL);
CREATE TABLE fact_vectors (key INTEGER PRIMARY KEY REFERENCES chunks ON DELETE CASCADE, vector BLOB NOT NULL);
CREATE TABLE name_vectors (key INTEGER PRIMARY KEY REFERENCES names ON DELETE CASCADE, vector BLOB NOT NULL);
CREATE TABLE journal (
    generation INTEGER PRIMARY KEY,
    chunks_from INTEGER NOT NULL, chunks_to INTEGER NOT NULL,
    facts_from INTEGER NOT NULL, facts_to INTEGER NOT NULL,
    names_from INTEGER NOT NULL, names_to INTEGER NOT NULL,
    chunks_gone BLOB NOT NULL, facts_gone BLOB NOT NULL, names_gone BLOB NOT NULL
);
CREATE TABLE checksums (
    document INTEGER PRIMARY KEY REFERENCES documents ON DELETE CASCADE, value INTEGER NOT NULL
);
"""

KINDS = ("chunks", "facts", "names")
NAME_BYTES = 4  # of a packed name key


def column_types() -> dict[str, frozenset[type]]:
    """Return by the name of a column the types that its values have, in all tables that have a column of this name."""
    types: dict[str, set[type]] = defaultdict(set)
    values: dict[str, set[type]] = {"INTEGER": {int}, "REAL": {float}, "TEXT": {str}, "BLOB": {bytes}}
    for name, declared, rest in re.findall(r"(\w+) (INTEGER|REAL|TEXT|BLOB)( NOT NULL| PRIMARY KEY)?", TABLES):
        types[name] |= values[declared] | (set() if rest else {type(None)})
    types["value"].add(float)  # of an attribute
    return {name: frozenset(own) for name, own in types.items()}


def pack(keys: Sequence[int] | Keys) -> bytes:
    """Return the keys of names as bytes."""
    return struct.pack(f"<{len(keys)}i", *keys)


def unpack(data: bytes) -> Keys:
    """Return the keys that :func:`pack` packed."""
    if len(data) % NAME_BYTES:
        raise damaged("the names of a chunk or a fact have another length")
    return np.frombuffer(data, dtype="<i4").astype(np.int64)


def deflate(text: str) -> str | bytes:
    """Return a text as it is stored: compressed, if that makes it shorter."""
    plain = text.encode("utf-8", "surrogatepass")
    packed = zlib.compress(plain, 6, -15)
    return packed if len(packed) < len(plain) else text


@lru_cache(maxsize=64)
def inflate(stored: str | bytes) -> str:
    """Return the text that :func:`deflate` stored. The last few are cached: a chunk's facts are read one by one."""
    return stored if isinstance(stored, str) else zlib.decompress(stored, -15).decode("utf-8", "surrogatepass")


def document_checksums(
    documents: Iterable[Row],
    chunks: Iterable[tuple[Row, Sequence[str]]],
    facts: Iterable[Row],
    others: Iterable[Row],
    vectors: Iterable[tuple[int, bytes]],
) -> dict[int, int]:
    """Return a checksum of the rows of each document, by its key.

    Parameters
    ----------
    documents, facts
        Rows as they are stored. The files of documents and the counters of facts, which change, do not count.
    chunks
        Rows of chunks, each with the names that it mentions.
    others, vectors
        Rows that start with the key of a chunk: claims and aliases; vectors of the chunk, then of its facts.
    """
    sums = {row[0]: crc32(repr(row[:9]).encode("utf-8", "surrogatepass")) for row in documents}
    owner: dict[int, int] = {}
    for row, names in chunks:
        document = owner[row[0]] = row[2]
        sums[document] = crc32(repr((row, *names)).encode("utf-8", "surrogatepass"), sums[document])
    for row in facts:
        document = owner[row[1]]
        sums[document] = crc32(repr((row[:14], row[16:])).encode("utf-8", "surrogatepass"), sums[document])
    for row in others:
        document = owner[row[0]]
        sums[document] = crc32(repr(row).encode("utf-8", "surrogatepass"), sums[document])
    for chunk, vector in vectors:
        document = owner[chunk]
        sums[document] = crc32(vector, sums[document])
    return sums


class Change(NamedTuple):
    """The difference between two generations of the records.

    ``added`` has the spans of the new keys, some of which may have been removed again.
    """

    before: int
    generation: int
    added: Mapping[str, Span]
    removed: Mapping[str, Keys]
