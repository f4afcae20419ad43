"""The database under the records: opening, transactions, settings and the journal of changes."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from graphrag_core.errors import DiskError, NotAnIndex, UnsupportedFormat
from graphrag_core.stores.change import Change, Span
from graphrag_core.stores.schema import APPLICATION_ID, FORMAT, TABLES

_PAGE = 500
_BUSY = 10_000  # milliseconds to wait for another process


class Database:
    """One SQLite database, in a file or in memory. Safe to share by threads.

    Opened for reading, it stays on the generation it first saw until :meth:`refresh`.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self.lock = threading.RLock()
        self._looking = threading.Lock()
        self._aside: sqlite3.Connection | None = None  # to look while another thread writes
        try:
            try:
                self._db = self._connect("ro" if read_only else "rwc")
                self._prepare()
            except sqlite3.OperationalError:
                if not read_only or path is None or Path(f"{path}-wal").exists():
                    raise
                # SQLite wants to write beside the file, and this folder cannot be written.
                self._db = self._connect("ro&immutable=1")
                self._prepare()
        except sqlite3.DatabaseError as error:
            raise _explained(error, path) from error

    def _connect(self, mode: str) -> sqlite3.Connection:
        name = ":memory:" if self.path is None else f"{self.path.resolve().as_uri()}?mode={mode}"
        return sqlite3.connect(name, uri=self.path is not None, check_same_thread=False, isolation_level=None)

    def _prepare(self) -> None:
        run = self._db.execute
        run("PRAGMA foreign_keys = ON")
        run(f"PRAGMA busy_timeout = {_BUSY}")
        run("PRAGMA cache_size = -8000")
        empty = run("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if empty and not self.read_only:
            run("PRAGMA journal_mode = WAL")
            self._db.executescript(
                f"BEGIN; {TABLES} PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {FORMAT}; COMMIT;"
            )
        elif run("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise NotAnIndex(f"{self.path} is an SQLite file, but no index: choose another folder")
        found = run("PRAGMA user_version").fetchone()[0]
        if found != FORMAT:
            raise UnsupportedFormat(
                f"{self.path} has format {found}, this release reads {FORMAT}: "
                "upgrade hybrid-graphrag, or index the documents anew into another folder"
            )
        if not self.read_only:
            run("PRAGMA synchronous = FULL")
            run("PRAGMA secure_delete = ON")
        else:
            self.refresh()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Do everything inside, or nothing of it."""
        with self.lock:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                yield self._db
                self._db.execute("COMMIT")
            except BaseException as error:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                if isinstance(error, sqlite3.DatabaseError):
                    raise _explained(error, self.path) from error
                raise

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise _explained(error, self.path) from error

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Run statements that change nothing."""
        with self.lock, self._explaining():
            yield self._db

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""
        with self.lock, self._explaining():
            return self._db.execute(sql, parameters).fetchall()

    def rows_meanwhile(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query as of the last commit, without waiting for who is writing, where that can be."""
        if self.path is None or self.read_only:
            return self.rows(sql, parameters)
        with self._looking, self._explaining():
            self._aside = self._aside or self._connect("ro")
            return self._aside.execute(sql, parameters).fetchall()

    def value(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Return the one value of a query."""
        return self.rows(sql, parameters)[0][0]

    def pages(self, sql: str, column: str, span: Span) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query whose first column lies in a span, ascending, a page at a time."""
        start, stop = span
        while True:
            page = self.rows(
                f"{sql} WHERE {column} >= ? AND {column} < ? ORDER BY {column} LIMIT {_PAGE}", (start, stop)
            )
            yield from page
            if len(page) < _PAGE:
                return
            start = page[-1][0] + 1

    def refresh(self) -> None:
        """Let a reader see the newest generation."""
        if self.read_only:
            with self.lock:
                if self._db.in_transaction:
                    self._db.execute("COMMIT")
                self._db.execute("BEGIN")
                self._db.execute("SELECT count(*) FROM meta").fetchone()

    def close(self) -> None:
        """Close the database; a writer folds its log into the file."""
        with self.lock:
            if self._aside is not None:
                self._aside.close()
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            if not self.read_only and self.path is not None:
                self.truncate_log()
            self._db.close()

    def truncate_log(self) -> None:
        """Fold the log into the file, so that deleted text is in neither; readers may prevent it."""
        self.rows("PRAGMA busy_timeout = 0")
        try:
            self.rows("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self.rows(f"PRAGMA busy_timeout = {_BUSY}")

    # -- what the index knows of itself

    @property
    def generation(self) -> int:
        """How many times the records have changed."""
        return int(self.meta("generation", "0"))

    def meta(self, name: str, default: str = "") -> str:
        """Return a setting of the index."""
        found = self.rows("SELECT value FROM meta WHERE name = ?", (name,))
        return str(found[0][0]) if found else default

    def set_meta(self, **values: str) -> None:
        """Keep settings of the index; inside :meth:`writing` as part of it."""
        with self.lock, self._explaining():
            several = ", ".join(["(?, ?)"] * len(values))
            self._db.execute(f"INSERT OR REPLACE INTO meta VALUES {several}", [*chain.from_iterable(values.items())])

    def since(self, generation: int) -> Change | None:
        """Return what changed since a generation, or None if that is no longer known."""
        rows = self.rows("SELECT * FROM journal WHERE generation > ? ORDER BY generation", (generation,))
        if not rows:
            return Change(generation) if generation == self.generation else None
        return Change.joined(rows) if rows[0][0] == generation + 1 else None

    def everything(self) -> Change:
        """Return the change from nothing to now."""
        chunks, facts, names = (int(self.meta(f"next_{what}", "0")) for what in ("chunk", "fact", "name"))
        return Change(self.generation, (0, chunks), (0, facts), (0, names))

    def forget_journal(self, generation: int) -> None:
        """Drop what led up to a generation."""
        with self.writing() as db:
            db.execute("DELETE FROM journal WHERE generation <= ?", (generation,))


def _explained(error: sqlite3.DatabaseError, path: Path | None) -> Exception:
    text = str(error)
    if "not a database" in text or "malformed" in text:
        return NotAnIndex(
            f"{path} is no index, or is damaged ({text}): restore it from a backup or choose another folder"
        )
    if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
        return error
    return DiskError(
        f"{path}: {text}; nothing was changed: free space, or check the folder's permissions, and try again"
    )
