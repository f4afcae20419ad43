"""The catalogue of indexed files, stored with the index, so that a later run reads only what changed.

:func:`open_catalogue` opens the one of an index: a SQLite file in its folder, or tables in its PostgreSQL database,
where several machines may sync files into one index. A file is known by its path, so machines that sync the same
files must see them under the same path.
"""

from __future__ import annotations

import json
import platform
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from typing_extensions import Self

from graphrag_apps.documents.walk import File
from graphrag_core.engine.address import is_address
from graphrag_core.errors import DiskError, NotAnIndex

CATALOGUE = "files.sqlite"
"""The name of the catalogue in the folder of an index."""

_PAGE = 5_000  # documents that are written at once
_RUN = "run"  # the setting that counts runs
_ENTRY = "key, name, digest, path"
_HERE = '"index" = %(index)s'
_SIGNS_OF_FULL_DISK = ("disk is full", "disk I/O error")
_PLACEHOLDER = re.compile(r"%\((\w+)\)s")
_SCHEMA = """
CREATE TABLE IF NOT EXISTS catalogue_settings (
    "index" INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL, PRIMARY KEY ("index", key)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS catalogue_files (
    key INTEGER PRIMARY KEY, "index" INTEGER NOT NULL, path TEXT NOT NULL, name TEXT NOT NULL,
    digest TEXT NOT NULL DEFAULT '', machine TEXT NOT NULL, run INTEGER NOT NULL,
    UNIQUE ("index", path), UNIQUE ("index", name)
);
CREATE TABLE IF NOT EXISTS catalogue_documents (
    "index" INTEGER NOT NULL, id TEXT NOT NULL, file INTEGER NOT NULL, run INTEGER NOT NULL,
    PRIMARY KEY ("index", id, file)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS catalogue_documents_file ON catalogue_documents ("index", file);
"""


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """A file in the catalogue. ``digest`` is empty until the whole file is in the index."""

    key: int
    name: str = ""
    digest: str = ""
    path: str = ""


class _FileTables:
    """Tables in a SQLite file. Changes are written together, by ``commit``.

    Parameters of statements are written ``%(name)s``; ``index`` is given.
    """

    machine = ""  # whose paths these are: the folder may move to another machine

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self._path = path
        with self._errors():
            self._db = sqlite3.connect(f"{path.absolute().as_uri()}?mode={'ro' if read_only else 'rwc'}", uri=True)
            if not read_only:
                self._db.executescript(_SCHEMA)
            self._db.execute("SELECT 1 FROM catalogue_settings LIMIT 1")
        self._db.create_function("greatest", 2, max, deterministic=True)
        self._db.create_function("starts_with", 2, str.startswith, deterministic=True)
        self.close = self._db.close

    def execute(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
        statement = _PLACEHOLDER.sub(r":\1", sql)
        with self._errors():
            return [found for row in rows for found in self._db.execute(statement, {"index": 0, **row})]

    def commit(self) -> None:
        with self._errors():
            self._db.commit()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise an error of SQLite as a DiskError that says what to do."""
        try:
            yield
        except sqlite3.Error as error:
            is_full = any(sign in str(error) for sign in _SIGNS_OF_FULL_DISK)
            advice = "free disk space, and repeat the command"
            advice = advice if is_full else "delete it, and the next run reads all files again"
            message = f"{self._path}, the catalogue of indexed files, cannot be used ({error}): {advice}"
            raise DiskError(message) from error


class _DatabaseTables:
    """Tables in PostgreSQL. Each call is a transaction and may be repeated, so that two runs never wait for long."""

    def __init__(self, url: str, *, read_only: bool) -> None:
        from graphrag_core.engine.postgres.database import Database

        self.machine = platform.node()
        self._database = Database(url, read_only=read_only)
        self.close = self._database.close
        try:
            self._index = self._database.open()
        except BaseException:
            self.close()
            raise

    def execute(self, sql: str, rows: Sequence[Mapping[str, Any]]) -> list[tuple[Any, ...]]:
        parameters = [{"index": self._index, **row} for row in rows]

        def attempt() -> list[tuple[Any, ...]]:
            with self._database.connection() as connection, connection.cursor() as cursor:
                if len(parameters) == 1:
                    cursor.execute(sql, parameters[0])
                    return cursor.fetchall() if cursor.description else []
                with connection.transaction():
                    cursor.executemany(sql, parameters)
                return []

        return self._database.repeated(attempt) if parameters else []

    def commit(self) -> None:
        """Do nothing: each call has committed its changes."""


class Catalogue:
    """Files and the documents read from them.

    A document is recorded before it is indexed, and a file is marked as indexed afterwards.
    If a run is interrupted, the next one knows every document that may be in the index.
    """

    def __init__(self, tables: _FileTables | _DatabaseTables, run: int | None) -> None:
        self._tables = tables
        self._unwritten: set[tuple[str, int]] = set()  # documents that were added, and the keys of their files
        self.run = 0 if run is None else run
        if run is None:  # begin a run with a higher number than every run before
            rows = self._rows(
                "INSERT INTO catalogue_settings (\"index\", key, value) VALUES (%(index)s, %(name)s, '1') "
                'ON CONFLICT ("index", key) DO UPDATE '
                "SET value = CAST(CAST(catalogue_settings.value AS bigint) + 1 AS text) RETURNING value",
                name=_RUN,
            )
            self.run = int(rows[0][0])

    def _rows(self, sql: str, **parameters: Any) -> list[tuple[Any, ...]]:
        return self._tables.execute(sql, [{"run": self.run, **parameters}])

    # -- files

    def register(self, file: File) -> CatalogueEntry:
        """Return the entry of a file that was found in this run; create it for a new file.

        The entry's name is the prefix of its documents' ids and never changes. It is the path
        relative to the given folder, or a longer path if another file has that name already.
        """
        rows: list[tuple[Any, ...]] = []
        while not rows:  # another machine may register the file, or its name, at the same time
            rows = self._rows(
                f"UPDATE catalogue_files SET run = greatest(run, %(run)s) WHERE {_HERE} AND path = %(path)s "
                f"RETURNING {_ENTRY}",
                path=str(file.path),
            ) or self._register_new(file)
        return CatalogueEntry(*rows[0])

    def _register_new(self, file: File) -> list[tuple[Any, ...]]:
        """Create the entry of a new file, or reuse the entry of a file that was moved here."""
        parent = file.path.as_posix().removesuffix(f"/{file.name}").rpartition("/")[2]
        values = {"path": str(file.path), "machine": self._tables.machine}
        for name in (file.name, f"{parent}/{file.name}", file.path.as_posix()):
            sql = f"SELECT key, path, machine FROM catalogue_files WHERE {_HERE} AND name = %(name)s"
            known = self._rows(sql, name=name)
            if not known:
                return self._rows(
                    'INSERT INTO catalogue_files ("index", path, name, machine, run) '
                    "VALUES (%(index)s, %(path)s, %(name)s, %(machine)s, %(run)s) "
                    f"ON CONFLICT DO NOTHING RETURNING {_ENTRY}",
                    name=name,
                    **values,
                )
            key, path, machine = known[0]
            if machine == self._tables.machine and not Path(path).exists():
                break
        return self._rows(
            "UPDATE catalogue_files SET path = %(path)s, machine = %(machine)s, run = greatest(run, %(run)s) "
            f"WHERE {_HERE} AND key = %(key)s RETURNING {_ENTRY}",
            key=key,
            **values,
        )

    def set_digest(self, entry: CatalogueEntry, digest: str) -> None:
        """Mark a file as indexed; an empty digest marks it as not, or not completely, indexed."""
        sql = f"UPDATE catalogue_files SET digest = %(digest)s WHERE {_HERE} AND key = %(key)s"
        self._rows(sql, key=entry.key, digest=digest)

    def missing_files(self, folder: str) -> list[CatalogueEntry]:
        """Return the files in a folder that were not found in this run."""
        prefix = folder.rstrip("/\\")
        is_inside = "starts_with(path, %(prefix)s) AND substr(path, %(after)s, 1) IN ('/', '\\')"
        return self._entries(f"{_HERE} AND run < %(run)s AND {is_inside}", prefix=prefix, after=len(prefix) + 1)

    def files(self) -> list[CatalogueEntry]:
        """Return all files, in the order in which they were first found."""
        return self._entries(_HERE)

    def _entries(self, condition: str, **parameters: Any) -> list[CatalogueEntry]:
        sql = f"SELECT {_ENTRY} FROM catalogue_files WHERE {condition} ORDER BY key"
        return [CatalogueEntry(*row) for row in self._rows(sql, **parameters)]

    def remove_file(self, entry: CatalogueEntry) -> None:
        """Remove a file and its documents."""
        self._rows(f"DELETE FROM catalogue_files WHERE {_HERE} AND key = %(key)s", key=entry.key)
        self._rows(f"DELETE FROM catalogue_documents WHERE {_HERE} AND file = %(key)s", key=entry.key)

    # -- documents

    def add_document(self, entry: CatalogueEntry, document_id: str) -> None:
        """Record a document before it is indexed."""
        self._unwritten.add((document_id, entry.key))
        if len(self._unwritten) >= _PAGE:
            self._write_documents()

    def _write_documents(self) -> None:
        # In order of id, so that two runs that record the same documents cannot deadlock.
        self._tables.execute(
            'INSERT INTO catalogue_documents ("index", id, file, run) VALUES (%(index)s, %(id)s, %(file)s, %(run)s) '
            'ON CONFLICT ("index", id, file) DO UPDATE SET run = greatest(catalogue_documents.run, excluded.run)',
            [{"id": document, "file": file, "run": self.run} for document, file in sorted(self._unwritten)],
        )
        self._unwritten.clear()

    def documents(self, entry: CatalogueEntry, *, stale: bool = False) -> list[str]:
        """Return the ids of a file's documents; with ``stale``, only those that were not found in this run."""
        self._write_documents()
        condition = f"{_HERE} AND file = %(key)s AND (run < %(run)s OR NOT %(stale)s)"
        sql = f"SELECT id FROM catalogue_documents WHERE {condition} ORDER BY id"
        return [row[0] for row in self._rows(sql, key=entry.key, stale=stale)]

    def shared_documents(self) -> dict[str, set[int]]:
        """Return the documents that several files have, such as a paper, and the keys of these files."""
        self._write_documents()
        shared = f"SELECT id FROM catalogue_documents WHERE {_HERE} GROUP BY id HAVING count(*) > 1"
        files: dict[str, set[int]] = {}
        for document, file in self._rows(
            f"SELECT id, file FROM catalogue_documents WHERE {_HERE} AND id IN ({shared})"
        ):
            files.setdefault(document, set()).add(file)
        return files

    def remove_from_file(self, entry: CatalogueEntry, document_ids: list[str]) -> None:
        """Remove documents that a file no longer has."""
        self._tables.execute(
            f"DELETE FROM catalogue_documents WHERE {_HERE} AND id = %(id)s AND file = %(key)s",
            [{"id": document_id, "key": entry.key} for document_id in sorted(document_ids)],
        )

    def remove_documents(self, document_ids: list[str]) -> None:
        """Remove documents that were deleted from the index; the next run reads their files again."""
        self._write_documents()
        rows = [{"id": document_id} for document_id in sorted(document_ids)]
        files = f"SELECT file FROM catalogue_documents WHERE {_HERE} AND id = %(id)s"
        self._tables.execute(f"UPDATE catalogue_files SET digest = '' WHERE {_HERE} AND key IN ({files})", rows)
        self._tables.execute(f"DELETE FROM catalogue_documents WHERE {_HERE} AND id = %(id)s", rows)

    # -- settings

    def get_setting(self, key: str) -> Any:
        """Return a stored value, or None."""
        rows = self._rows(f"SELECT value FROM catalogue_settings WHERE {_HERE} AND key = %(name)s", name=key)
        return json.loads(rows[0][0]) if rows else None

    def write_setting(self, key: str, value: Any) -> None:
        """Store a value for later runs."""
        self._rows(
            'INSERT INTO catalogue_settings ("index", key, value) VALUES (%(index)s, %(name)s, %(value)s) '
            'ON CONFLICT ("index", key) DO UPDATE SET value = excluded.value',
            name=key,
            value=json.dumps(value),
        )

    # -- the whole catalogue

    def copy_from(self, other: Catalogue) -> None:
        """Replace everything by the settings, files and documents of another catalogue."""
        self._unwritten.clear()
        self._rows(f"DELETE FROM catalogue_documents WHERE {_HERE}")
        self._rows(f"DELETE FROM catalogue_files WHERE {_HERE}")
        self._rows(f"DELETE FROM catalogue_settings WHERE {_HERE} AND key <> %(name)s", name=_RUN)
        # What an engine keeps as "extra:..." it can compute again.
        copied = f"{_HERE} AND key <> %(name)s AND NOT starts_with(key, 'extra:')"
        for key, value in other._rows(f"SELECT key, value FROM catalogue_settings WHERE {copied}", name=_RUN):
            self.write_setting(key, json.loads(value))
        for entry in other.files():
            ((key,),) = self._rows(
                'INSERT INTO catalogue_files ("index", path, name, digest, machine, run) '
                "VALUES (%(index)s, %(path)s, %(name)s, %(digest)s, %(machine)s, 0) RETURNING key",
                **{**asdict(entry), "machine": self._tables.machine},
            )
            for document_id in other.documents(entry):
                self.add_document(CatalogueEntry(key), document_id)

    def commit(self) -> None:
        """Commit the changes so far."""
        self._write_documents()
        self._tables.commit()

    def close(self) -> None:
        """Close the catalogue. Changes that were not committed are lost."""
        self._tables.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.commit()
        finally:
            self.close()


def open_catalogue(path: str | Path, *, read_only: bool = False, run: int | None = None) -> Catalogue:
    """Open the catalogue of an index.

    Parameters
    ----------
    path
        The folder of the index, which must exist, or the address of its database.
    read_only
        Never write. By default a catalogue that is missing is created.
    run
        The number of a run that another process began; None begins a new run.

    Raises
    ------
    DiskError
        The file cannot be read, or with ``read_only`` there is none.
    NotAnIndex
        With ``read_only``, there is no such index in the database.
    """
    tables: _FileTables | _DatabaseTables
    if is_address(path):
        tables = _DatabaseTables(str(path), read_only=read_only)
    else:
        tables = _FileTables(Path(path) / CATALOGUE, read_only=read_only)
    try:
        return Catalogue(tables, 0 if read_only else run)
    except BaseException:
        tables.close()
        raise


def has_catalogue(path: str | Path) -> bool:
    """Return whether an index that exists has a catalogue."""
    return is_address(path) or (Path(path) / CATALOGUE).is_file()


def read_setting(path: str | Path, key: str) -> Any:
    """Return a stored value of an index, or None. Never writes, so it works on read-only disks and standby servers.

    ``path`` is the folder of the index or the address of its database; there need not be an index yet.
    """
    try:
        catalogue = open_catalogue(path, read_only=True)
    except (NotAnIndex, DiskError):
        return None
    with catalogue:
        return catalogue.get_setting(key)
