"""The tables of an index, and what a database brings for :mod:`~graphrag_core.engine.records`.

Statements are written for SQLite. :mod:`~graphrag_core.engine.statements` has them for PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from graphrag_core.engine.arrays import Arrays
from graphrag_core.engine.rows import Row

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
"""A condition on a column; its parameter is made by :func:`listed`."""

WANTED = "json_each(?) AS wanted CROSS JOIN"
"""Joins a table with a list of keys; faster than ``LISTED`` where all of them exist."""


def listed(values: Iterable[Any]) -> list[Any]:
    """Return values as the parameter of ``LISTED``."""
    found: list[Any] = values.tolist() if hasattr(values, "tolist") else [*values]
    return found


class Session(Protocol):
    """A transaction of a database: what :mod:`~graphrag_core.engine.sqlite` and ``postgres`` bring."""

    shared: bool
    """Whether other processes may write."""

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]: ...
    def insert(self, table: str, rows: Sequence[Row]) -> None: ...
    def many(self, sql: str, parameters: Sequence[Row]) -> None: ...
    def settings(self) -> dict[str, str]: ...
    def put(self, settings: Mapping[str, str]) -> None: ...
    def flush(self) -> None: ...
    def restart(self) -> None: ...
    def definitions(self) -> list[Row]: ...
    def problems(self) -> list[Row]: ...
    def base(self, name: str) -> tuple[Path | None, dict[str, Any], Arrays]: ...
    def sizes(self) -> tuple[int, int]: ...
