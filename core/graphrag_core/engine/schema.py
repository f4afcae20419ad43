"""The tables of an index, as SQLite has them."""

from collections.abc import Sequence
from typing import Any

FORMAT = 7
SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (
    key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, title TEXT NOT NULL, heading TEXT, metadata TEXT NOT NULL,
    digest TEXT NOT NULL, added REAL NOT NULL, first INTEGER NOT NULL, passages INTEGER NOT NULL,
    file TEXT, version TEXT, checksum INTEGER NOT NULL
);
CREATE INDEX documents_file ON documents (file) WHERE file IS NOT NULL;
CREATE TABLE attributes (
    name TEXT NOT NULL, kind TEXT NOT NULL, value NOT NULL, document INTEGER NOT NULL,
    PRIMARY KEY (name, kind, value, document)
) WITHOUT ROWID;
CREATE INDEX attributes_document ON attributes (document);
CREATE TABLE passages (
    key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, document INTEGER NOT NULL, ordinal INTEGER NOT NULL,
    start INTEGER NOT NULL, text BLOB NOT NULL, headings TEXT, page INTEGER, subjects INTEGER NOT NULL,
    names BLOB NOT NULL, aliases TEXT, lengths BLOB NOT NULL, vector BLOB, tokens BLOB, token_counts BLOB,
    checksum INTEGER NOT NULL
);
CREATE TABLE names (
    key INTEGER PRIMARY KEY, surface TEXT NOT NULL, spelling INTEGER NOT NULL, entity INTEGER NOT NULL,
    uses INTEGER NOT NULL
);
CREATE INDEX names_spelling ON names (spelling);
CREATE TABLE facts (
    key INTEGER PRIMARY KEY, start INTEGER, stop INTEGER, text TEXT, is_plain INTEGER NOT NULL, names BLOB NOT NULL,
    relation TEXT, weight REAL NOT NULL, confidence REAL NOT NULL, source TEXT NOT NULL, status TEXT NOT NULL,
    value TEXT, created REAL, valid_from REAL, valid_to REAL, last_accessed REAL, access_count INTEGER NOT NULL
);
CREATE TABLE claims (
    passage INTEGER NOT NULL, name INTEGER NOT NULL, type TEXT NOT NULL, description TEXT NOT NULL
);
CREATE INDEX claims_passage ON claims (passage);
CREATE INDEX claims_name ON claims (name);
CREATE TABLE name_vectors (key INTEGER PRIMARY KEY, vector BLOB NOT NULL);
CREATE TABLE segments (
    generation INTEGER PRIMARY KEY, previous TEXT NOT NULL, token TEXT NOT NULL, arrays BLOB NOT NULL,
    removed BLOB NOT NULL, checksum INTEGER NOT NULL
);
"""

LISTED = "IN (SELECT value FROM json_each(?))"
"""A condition on a column; its parameter is a list."""

WANTED = "json_each(?) AS wanted CROSS JOIN"
"""Joins a table with a list of keys; faster than ``LISTED`` where all of them exist."""


def parameters(values: Sequence[Any]) -> list[Any]:
    """Return the parameters of a statement: collections as lists, in which each value comes once."""
    return [
        value if value is None or isinstance(value, str | bytes | int | float) else
        [*dict.fromkeys(value.tolist() if hasattr(value, "tolist") else value)]
        for value in values
    ]  # fmt: skip
