"""The catalogue of indexed files, stored beside the index, so that a later run reads only what changed.

:func:`open_catalogue` opens the one of an index: a file in its folder, or tables in its database
(:mod:`~graphrag_core.documents.shared_catalogue`).
"""

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from typing_extensions import Self

from graphrag_core.documents.walk import File
from graphrag_core.engine.address import is_address
from graphrag_core.errors import DiskError

CATALOGUE = "files.sqlite"
"""The name of the catalogue in the folder of an index."""

_PAGE = 5_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS settings (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS files (
    key INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE,
    digest TEXT NOT NULL DEFAULT '', run INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS documents (id TEXT PRIMARY KEY, file INTEGER NOT NULL, run INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS documents_by_file ON documents (file);
"""


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A file in the catalogue. ``digest`` is empty until the whole file is in the index."""

    key: int
    name: str
    digest: str


class CatalogueRows(NamedTuple):
    """Some rows of a catalogue: settings, files (path, name, digest) and documents (id, name of the file)."""

    settings: Mapping[str, Any]
    files: Sequence[tuple[str, str, str]]
    documents: Sequence[tuple[str, str]]


class Catalogue:
    """Files and the documents read from them, in a small SQLite database.

    A document is recorded before it is indexed, and a file is marked as indexed afterwards.
    If a run is interrupted, the next one knows every document that may be in the index.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        try:
            self._db = sqlite3.connect(f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}", uri=True)
            if not read_only:
                self._db.executescript(_SCHEMA)
            self.run: int = self._db.execute("SELECT coalesce(max(run), 0) + 1 FROM files").fetchone()[0]
        except sqlite3.Error as error:
            raise DiskError(
                f"{path}, the catalogue of indexed files, cannot be used ({error}): delete it, and the next run "
                "reads all files again"
            ) from error

    # -- files

    def register(self, file: File) -> CatalogueEntry:
        """Return the entry of a file that was found in this run; create it for a new file.

        The entry's name is the prefix of its documents' ids and never changes. It is the path
        relative to the given folder, or a longer path if another file has that name already.
        """
        path = str(file.path)
        row = self._db.execute("SELECT key FROM files WHERE path = ?", (path,)).fetchone()
        key = row[0] if row else self._key_of_new_path(file)
        sql = "UPDATE files SET path = ?, run = ? WHERE key = ? RETURNING key, name, digest"
        return CatalogueEntry(*self._db.execute(sql, (path, self.run, key)).fetchone())

    def _key_of_new_path(self, file: File) -> int:
        """Return the key of a new entry, or of the entry of a file that was moved here."""
        parent = file.path.as_posix().removesuffix(f"/{file.name}").rpartition("/")[2]
        for name in (file.name, f"{parent}/{file.name}", file.path.as_posix()):
            row = self._db.execute("SELECT key, path FROM files WHERE name = ?", (name,)).fetchone()
            if row is None:
                sql = "INSERT INTO files (path, name, run) VALUES (?, ?, ?) RETURNING key"
                return int(self._db.execute(sql, (str(file.path), name, self.run)).fetchone()[0])
            if not Path(row[1]).exists():
                break
        return int(row[0])

    def set_digest(self, entry: CatalogueEntry, digest: str) -> None:
        """Mark a file as indexed; an empty digest marks it as not, or not completely, indexed."""
        self._db.execute("UPDATE files SET digest = ? WHERE key = ?", (digest, entry.key))

    def missing_files(self, folder: str) -> Iterator[tuple[CatalogueEntry, str]]:
        """Yield the files in a folder that were not found in this run, with their paths."""
        prefix = folder.rstrip("/\\")
        sql = (
            "SELECT key, name, digest, path FROM files WHERE run < ? AND substr(path, 1, ?) = ? "
            "AND substr(path, ?, 1) IN ('/', '\\') ORDER BY key"
        )
        for *entry, path in self._db.execute(sql, (self.run, len(prefix), prefix, len(prefix) + 1)).fetchall():
            yield CatalogueEntry(*entry), path

    def files(self) -> Iterator[tuple[CatalogueEntry, str]]:
        """Yield all files with their paths, in the order in which they were found first."""
        last = -1
        sql = f"SELECT key, name, digest, path FROM files WHERE key > ? ORDER BY key LIMIT {_PAGE}"
        while page := self._db.execute(sql, (last,)).fetchall():
            for *entry, path in page:
                yield CatalogueEntry(*entry), path
            last = page[-1][0]

    def remove_file(self, entry: CatalogueEntry) -> None:
        """Remove a file and its documents."""
        self._db.execute("DELETE FROM documents WHERE file = ?", (entry.key,))
        self._db.execute("DELETE FROM files WHERE key = ?", (entry.key,))

    # -- documents

    def add_document(self, entry: CatalogueEntry, document_id: str) -> None:
        """Record a document before it is indexed."""
        self._db.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", (document_id, entry.key, self.run))

    def documents(self, entry: CatalogueEntry, *, stale: bool = False) -> list[str]:
        """Return the ids of a file's documents; with ``stale``, only of those that were not found in this run."""
        sql = "SELECT id FROM documents WHERE file = ? AND (run < ? OR NOT ?) ORDER BY id"
        return [row[0] for row in self._db.execute(sql, (entry.key, self.run, stale))]

    def remove_documents(self, document_ids: list[str]) -> None:
        """Remove documents that were deleted from the index; the next run reads their files again."""
        rows = [(document_id,) for document_id in document_ids]
        sql = "UPDATE files SET digest = '' WHERE key = (SELECT file FROM documents WHERE id = ?)"
        self._db.executemany(sql, rows)
        self._db.executemany("DELETE FROM documents WHERE id = ?", rows)

    # -- settings

    def get_setting(self, key: str) -> Any:
        """Return a stored value, or None."""
        row = self._db.execute("SELECT value FROM settings WHERE key = ?", (key,)).fetchone()
        return None if row is None else json.loads(row[0])

    @staticmethod
    def copy(path: Path, target: Path) -> None:
        """Copy a catalogue as it was last committed to a new file."""
        try:
            with (
                closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source,
                closing(sqlite3.connect(target)) as copy,
            ):
                source.backup(copy)
        except sqlite3.Error as error:
            raise DiskError(f"{path}, the catalogue of indexed files, cannot be copied ({error})") from error

    def write_setting(self, key: str, value: Any) -> None:
        """Store a value for later runs."""
        self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (key, json.dumps(value)))

    # -- all of it

    def rows(self) -> Iterator[CatalogueRows]:
        """Yield all rows, files before their documents."""
        settings = self._db.execute("SELECT key, value FROM settings").fetchall()
        yield CatalogueRows({key: json.loads(value) for key, value in settings}, [], [])
        files = self._db.execute("SELECT path, name, digest FROM files ORDER BY key")
        while page := files.fetchmany(_PAGE):
            yield CatalogueRows({}, page, [])
        documents = self._db.execute("SELECT d.id, f.name FROM documents d JOIN files f ON f.key = d.file")
        while page := documents.fetchmany(_PAGE):
            yield CatalogueRows({}, [], page)

    def clear(self) -> None:
        """Remove all rows."""
        for table in ("settings", "files", "documents"):
            self._db.execute(f"DELETE FROM {table}")

    def add_rows(self, rows: CatalogueRows) -> None:
        """Add rows of another catalogue, files before their documents."""
        for key, value in rows.settings.items():
            self.write_setting(key, value)
        self._db.executemany(
            "INSERT INTO files (path, name, digest, run) VALUES (?, ?, ?, 0) "
            "ON CONFLICT (path) DO UPDATE SET name = excluded.name, digest = excluded.digest",
            rows.files,
        )
        self._db.executemany(
            "INSERT OR REPLACE INTO documents SELECT ?, key, 0 FROM files WHERE name = ?", rows.documents
        )

    def commit(self) -> None:
        """Commit the changes so far."""
        self._db.commit()

    def close(self) -> None:
        """Close the catalogue. What was not committed is lost."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.commit()
        finally:
            self.close()


def open_catalogue(path: str | Path, *, read_only: bool = False) -> Catalogue:
    """Open the catalogue of an index. It is created if it is missing, unless ``read_only``.

    ``path`` is the folder of the index, which must exist, or the address of its database.
    """
    if is_address(path):
        from graphrag_core.documents.shared_catalogue import SharedCatalogue

        return SharedCatalogue(str(path), read_only=read_only)
    return Catalogue(Path(path) / CATALOGUE, read_only=read_only)


def has_catalogue(path: str | Path) -> bool:
    """Return whether an index that exists has a catalogue."""
    return is_address(path) or (Path(path) / CATALOGUE).is_file()


def read_setting(path: str | Path, key: str) -> Any:
    """Return a stored value of an index, or None. Never writes, so it works on read-only disks and standby servers.

    ``path`` is the folder of the index or the address of its database; there need not be an index yet.
    """
    if is_address(path):
        from graphrag_core.documents.shared_catalogue import read_setting as read_shared_setting

        return read_shared_setting(str(path), key)
    file = Path(path) / CATALOGUE
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as db:
            row = db.execute("SELECT value FROM settings WHERE key = ?", (key,)).fetchone()
    except sqlite3.Error:
        return None
    return None if row is None else json.loads(row[0])
