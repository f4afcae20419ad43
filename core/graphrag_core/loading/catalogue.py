"""Which files an index was made from, kept beside it, so that a later run reads only what changed."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from typing_extensions import Self

from graphrag_core.errors import DiskError
from graphrag_core.loading.walk import File

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
class Entry:
    """A file as the catalogue knows it; ``digest`` is empty until all of it is in the index."""

    key: int
    name: str
    digest: str


class Catalogue:
    """Files and the documents read from them, in a small database.

    What is about to be indexed is noted before, and a file counts as done after: whatever
    stops a run, the next one finds everything that is in the index.
    """

    def __init__(self, path: Path) -> None:
        try:
            self._db = sqlite3.connect(path)
            self._db.executescript(_SCHEMA)
            self.run: int = self._db.execute("SELECT coalesce(max(run), 0) + 1 FROM files").fetchone()[0]
        except sqlite3.Error as error:
            raise DiskError(
                f"{path}, which lists the indexed files, cannot be used ({error}): remove it, and the next run "
                "reads all files again"
            ) from error

    def claim(self, file: File) -> Entry:
        """Return the entry of a file that was met, made if it is new.

        Its name, with which its documents' ids begin, is given once: its path under the given
        folder or, where a file of another folder has that already, one that says more.
        """
        path = str(file.path)
        row = self._db.execute("SELECT key FROM files WHERE path = ?", (path,)).fetchone()
        key = row[0] if row else self._named(file)
        sql = "UPDATE files SET path = ?, run = ? WHERE key = ? RETURNING key, name, digest"
        return Entry(*self._db.execute(sql, (path, self.run, key)).fetchone())

    def _named(self, file: File) -> int:
        """Return the key of a new file's entry: one of its own, or that of the file it was before it moved."""
        above = file.path.as_posix().removesuffix(f"/{file.name}").rpartition("/")[2]
        for name in (file.name, f"{above}/{file.name}", file.path.as_posix()):
            row = self._db.execute("SELECT key, path FROM files WHERE name = ?", (name,)).fetchone()
            if row is None:
                sql = "INSERT INTO files (path, name, run) VALUES (?, ?, ?) RETURNING key"
                return int(self._db.execute(sql, (str(file.path), name, self.run)).fetchone()[0])
            if not Path(row[1]).exists():
                break
        return int(row[0])

    def expect(self, entry: Entry, document_id: str) -> None:
        """Note a document before it is indexed."""
        self._db.execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?)", (document_id, entry.key, self.run))

    def begin(self, entry: Entry) -> None:
        """Note that a file is being read anew."""
        self._db.execute("UPDATE files SET digest = '' WHERE key = ?", (entry.key,))

    def done(self, entry: Entry, digest: str) -> None:
        """Note that all of a file is in the index."""
        self._db.execute("UPDATE files SET digest = ? WHERE key = ?", (digest, entry.key))

    def documents(self, entry: Entry) -> list[str]:
        """Return the ids of a file's documents."""
        rows = self._db.execute("SELECT id FROM documents WHERE file = ? ORDER BY id", (entry.key,))
        return [row[0] for row in rows]

    def leftover(self, entry: Entry) -> list[str]:
        """Return the documents that a file had and that were not met in this run."""
        rows = self._db.execute("SELECT id FROM documents WHERE file = ? AND run < ?", (entry.key, self.run))
        return [row[0] for row in rows]

    def unmet(self, folder: str) -> Iterator[tuple[Entry, str]]:
        """Yield the files in a folder that this run did not meet, with their paths."""
        prefix = folder.rstrip("/\\")
        sql = (
            "SELECT key, name, digest, path FROM files WHERE run < ? AND substr(path, 1, ?) = ? "
            "AND substr(path, ?, 1) IN ('/', '\\') ORDER BY key"
        )
        rows = self._db.execute(sql, (self.run, len(prefix), prefix, len(prefix) + 1)).fetchall()
        for key, name, digest, path in rows:
            yield Entry(key, name, digest), path

    def forget(self, document_ids: list[str]) -> None:
        """Drop documents that are no longer in the index; their files are read again when met."""
        for document_id in document_ids:
            self._db.execute(
                "UPDATE files SET digest = '' WHERE key = (SELECT file FROM documents WHERE id = ?)", (document_id,)
            )
            self._db.execute("DELETE FROM documents WHERE id = ?", (document_id,))

    def remove(self, entry: Entry) -> None:
        """Drop a file with its documents."""
        self._db.execute("DELETE FROM documents WHERE file = ?", (entry.key,))
        self._db.execute("DELETE FROM files WHERE key = ?", (entry.key,))

    @staticmethod
    def kept(path: Path, key: str) -> Any:
        """Return what was kept under a key, or None; nothing is written, so that it works on read-only disks."""
        try:
            with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
                row = db.execute("SELECT value FROM settings WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error:
            return None
        return None if row is None else json.loads(row[0])

    def keep(self, key: str, value: Any) -> None:
        """Keep a value for later runs."""
        self._db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (key, json.dumps(value)))

    def commit(self) -> None:
        """Make everything noted so far last."""
        self._db.commit()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._db.commit()
        self._db.close()
