"""SQLite: connections, transactions and locks of the rows of an index in a folder or in memory.

The database has a write-ahead log, and a commit is synced. A writer has a connection for its transactions, and lends
others for reading, each with a transaction of its own. A reader of a folder reads one state until :meth:`Sqlite.renew`.
In memory there is one connection.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from graphrag_core import forks
from graphrag_core.engine.rows import Row
from graphrag_core.errors import DamagedIndex, DiskError, FilterError, GraphRAGError, NotAnIndex

APPLICATION_ID = 0x48475247  # "HGRG": identifies an index among SQLite files
LISTED = "IN (SELECT value FROM json_each(?))"
"""A condition on a column; its parameter is made by :func:`listed`."""

_PAGE_BYTES = 8_192  # most rows are about a thousand bytes long, and small pages would be filled badly
_BUSY_TIMEOUT = 10_000  # milliseconds to wait for another process
_MAX_PARAMETERS = 999  # of a statement, in every SQLite
_SIGNS_OF_DAMAGE = (
    "malformed", "no such table", "no such column", "no such collation", "has no column", "Could not decode",
    "unsupported file format", "values were supplied", "datatype mismatch",
)  # fmt: skip
_SIGNS_OF_SIZE = (
    "parser stack overflow", "too many terms in compound SELECT", "too many SQL variables", "Expression tree is too",
    "too many columns",
)  # fmt: skip
ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)  # the latter if a message of SQLite quotes damaged text


def listed(values: Iterable[Any]) -> str:
    """Return values as the parameter of ``LISTED``."""
    return json.dumps(values.tolist() if hasattr(values, "tolist") else [*values])


class Session:
    """A connection of one thread at a time."""

    def __init__(self, database: Sqlite, mode: str) -> None:
        self._database, self.lock = database, threading.RLock()
        path = database.path
        name = ":memory:" if path is None else f"{path.resolve().as_uri()}?mode={mode}"
        self.connection = sqlite3.connect(name, uri=path is not None, check_same_thread=False, isolation_level=None)
        self.users = 0  # snapshots that read with it
        self.run(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT}")
        self.run("PRAGMA cache_size = -8000")

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Return the rows of a statement."""
        try:
            with self.lock:
                return self.connection.execute(sql, parameters).fetchall()
        except ERRORS as error:
            raise self._database.translated(error) from error

    run = rows

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Insert rows, many in one statement: Python's sqlite3 releases and takes the GIL once per statement."""
        size = _MAX_PARAMETERS // len(rows[0]) if rows else 1
        with self.lock:
            for start in range(0, len(rows), size):
                page = rows[start : start + size]
                marks = ", ".join([f"({', '.join('?' * len(page[0]))})"] * len(page))
                self.connection.execute(f"INSERT INTO {table} VALUES {marks}", [v for row in page for v in row])

    def many(self, sql: str, parameters: Sequence[Row]) -> None:
        """Run a statement for each row of parameters."""
        with self.lock:
            self.connection.executemany(sql, parameters)

    def begin(self) -> None:
        """Begin a transaction that sees the last commit before its first read, and nothing after it."""
        self.roll_back()
        self.run("BEGIN")

    def roll_back(self) -> None:
        """End a transaction, if there is one."""
        with self.lock:
            if self.connection.in_transaction:
                self.run("ROLLBACK")

    def close(self) -> None:
        with self.lock:
            self.connection.close()


class Sqlite:
    """The database of an index. Safe to use from many threads.

    Parameters
    ----------
    path
        The file; None for one in memory.
    schema
        The statements that create the tables.
    version
        The number of their format.
    """

    def __init__(self, path: Path | None, schema: str, version: int, *, read_only: bool) -> None:
        self.path, self.read_only = path, read_only
        self._lock = threading.RLock()  # of transactions
        self._pool = threading.Lock()
        self._held: list[Any] = []  # locks, by a thread that forks
        self._idle: list[Session] = []
        self._sessions: list[Session] = []
        self._mode = "ro" if read_only else "rwc"
        self._seen = 0  # when the file was last changed, as of the last look
        forks.watch(self)
        try:
            self._main = self._opened(schema, version)
        except BaseException as error:
            self._close_all()
            if isinstance(error, ERRORS):
                raise self.translated(error) from error
            raise

    def _opened(self, schema: str, version: int) -> Session:
        try:
            return self._prepared(schema, version)
        except DiskError:
            if not self.read_only or self.path is None or Path(f"{self.path}-wal").exists():
                raise
            self._close_all()
            self._mode = "ro&immutable=1"  # SQLite makes files beside the database, which this folder does not allow
            return self._prepared(schema, version)

    def _prepared(self, schema: str, version: int) -> Session:
        session = self._connect()
        run = session.run
        if run("SELECT count(*) FROM sqlite_master")[0][0] == 0:
            if self.read_only:
                raise NotAnIndex(
                    f"creating the index in {self._folder} was interrupted: nothing was stored yet. Repeat the call "
                    "or the command that created it"
                )
            run(f"PRAGMA page_size = {_PAGE_BYTES}")
            run("PRAGMA auto_vacuum = INCREMENTAL")
            run("PRAGMA journal_mode = WAL")
            numbers = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version};"
            session.connection.executescript(f"BEGIN; {schema} {numbers} COMMIT;")
        elif run("PRAGMA application_id")[0][0] != APPLICATION_ID:
            raise NotAnIndex(f"{self.path} is an SQLite file, but not an index: choose another folder")
        self.version = run("PRAGMA user_version")[0][0]
        if not self.read_only:
            run("PRAGMA synchronous = FULL")
            run("PRAGMA secure_delete = ON")
        elif self.version == version:
            self._seen = self._file_time()
            session.begin()
            run("SELECT count(*) FROM meta")
        return session

    @property
    def _folder(self) -> Path | None:
        return None if self.path is None else self.path.parent

    def _connect(self) -> Session:
        session = Session(self, self._mode)
        self._sessions.append(session)
        return session

    # -- reading and writing

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Run statements in one transaction: all or nothing."""
        main = self._main
        with self._lock, main.lock:
            try:
                try:
                    main.roll_back()  # what an interrupt left open
                    main.run("BEGIN IMMEDIATE")
                    yield main
                    main.run("COMMIT")
                finally:
                    if main.connection.in_transaction:
                        main.connection.execute("ROLLBACK")
            except BaseException as error:
                if main.connection.in_transaction:  # the interrupt came before the first rollback
                    main.connection.execute("ROLLBACK")
                if isinstance(error, ERRORS):
                    raise self.translated(error, in_transaction=True) from error
                if isinstance(error, DiskError) and "nothing was changed" not in str(error):
                    raise self.translated(error.__cause__ or error, in_transaction=True) from error
                raise

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Lend a session in which nothing changes until the end. In memory and for a reader, all share one."""
        if self.path is None:
            yield self._main
            return
        if self.read_only:
            with self._pool:
                session = self._main
                session.users += 1
            try:
                yield session
            finally:
                with self._pool:
                    session.users -= 1
                    self._free(session)
            return
        with self._pool:
            session = self._idle.pop() if self._idle else self._connect()
        try:
            session.begin()
            yield session
        finally:
            session.roll_back()
            with self._pool:
                self._idle.append(session)

    def _free(self, session: Session) -> None:
        """Let a session of an older state be used again."""
        if session is not self._main and session.users == 0 and session not in self._idle:
            session.roll_back()
            self._idle.append(session)

    def renew(self) -> None:
        """Let a reader see the last commit. Snapshots that are open keep what they see."""
        with self._pool:
            self._seen = self._file_time()
            session = self._idle.pop() if self._idle else self._connect()
            session.begin()
            session.run("SELECT count(*) FROM meta")
            before, self._main = self._main, session
            self._free(before)

    def newest(self, sql: str) -> list[Row]:
        """Return the rows of a statement as of the last commit of any process. A reader leaves an old log, too."""
        if self.path is None or "immutable" in self._mode:
            return self._main.rows(sql)
        with self._pool:
            session = self._idle.pop() if self._idle else self._connect()
        try:
            return session.rows(sql)
        finally:
            with self._pool:
                self._idle.append(session)

    @property
    def has_old_log(self) -> bool:
        """Whether a writer has moved its log into the file since this reader looked, and cannot empty it."""
        return self.read_only and self._file_time() != self._seen

    def _file_time(self) -> int:
        try:
            return 0 if self.path is None else self.path.stat().st_mtime_ns
        except OSError:
            return 0

    # -- files

    @property
    def log_bytes(self) -> int:
        """The length of the write-ahead log."""
        try:
            return 0 if self.path is None else Path(f"{self.path}-wal").stat().st_size
        except OSError:
            return 0

    def truncate_log(self) -> bool:
        """Move the write-ahead log into the file and empty it; return whether no reader kept it."""
        if self.path is None:
            return True
        main = self._main
        with self._lock, main.lock:
            main.run("PRAGMA busy_timeout = 0")
            try:
                return not main.run("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
            finally:
                main.run(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT}")

    def release(self) -> None:
        """Give the pages back that nothing uses any more."""
        with self._lock, self._main.lock:
            try:
                self._main.connection.executescript("PRAGMA incremental_vacuum")  # execute would free a single page
            except ERRORS as error:
                raise self.translated(error) from error

    def vacuum(self) -> None:
        """Write the file again without free pages."""
        with self._lock:
            self._main.run("VACUUM")

    def copy_to(self, path: Path) -> None:
        """Copy the last committed state to a new file, without waiting for a transaction in a file."""
        target = sqlite3.connect(path, isolation_level=None)
        try:
            if self.path is None or "immutable" in self._mode:
                with self._main.lock:
                    self._main.connection.backup(target)
            else:
                source = Session(self, "ro")
                try:
                    source.connection.backup(target)
                finally:
                    source.close()
            target.execute("PRAGMA journal_mode = WAL")
            found = target.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise DamagedIndex(f"{self.path} is damaged ({found}): the backup was not written")
        except ERRORS as error:
            raise self.translated(error) from error
        finally:
            target.close()

    def close(self) -> None:
        """Close the database; a writer empties its log first."""
        try:
            if not self.read_only:
                self._main.roll_back()
                self.truncate_log()
        except sqlite3.ProgrammingError:
            pass  # closed before
        finally:
            self._close_all()

    def _close_all(self) -> None:
        for session in self._sessions:
            session.close()
        self._sessions, self._idle = [], []

    # -- forks

    def before_fork(self) -> None:
        """Wait until no thread uses the database, so that a child inherits no lock of SQLite."""
        self._held = []
        locks: list[Any] = [self._lock, self._pool, *(session.lock for session in self._sessions)]
        for lock in locks:
            if not lock.acquire(timeout=forks.PATIENCE):
                self.after_fork_in_parent()
                return
            self._held.append(lock)

    def after_fork_in_parent(self) -> None:
        """Let other threads go on."""
        for lock in reversed(self._held):
            lock.release()
        self._held = []

    def after_fork_in_child(self) -> None:
        """Close the connections to the file, which are the parent's; the parent's stay open.

        Connections that may be in use are not touched. A database in memory is the child's own copy.
        """
        held, self._held = self._held, []
        self._lock, self._pool = threading.RLock(), threading.Lock()
        if self.path is None:
            self._main.lock = threading.RLock()
            return
        for session in self._sessions:
            session.lock = threading.RLock()
            if held:
                with suppress(sqlite3.Error):
                    session.connection.close()
            forks.leak(session.connection)
        self._sessions, self._idle = [], []

    # -- errors

    def translated(self, error: BaseException, *, in_transaction: bool = False) -> BaseException:
        """Return the library's error for an error of SQLite. A transaction was rolled back."""
        text, index_again = str(error), "restore a backup, or index the documents again into another folder"
        if isinstance(error, GraphRAGError):
            return error
        if "not a database" in text:
            return NotAnIndex(
                f"{self.path} is not an index, or is damaged ({text}): restore a backup or choose another folder"
            )
        if isinstance(error, UnicodeError) or any(sign in text for sign in _SIGNS_OF_DAMAGE):
            return DamagedIndex(f"{self.path} is damaged ({text}): {index_again}")
        if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
            return error
        if any(sign in text for sign in _SIGNS_OF_SIZE):
            return FilterError(
                f"the filter is nested too deeply or has too many parts ({text}): combine values with in"
            )
        unchanged = "; nothing was changed" if in_transaction else ""
        return DiskError(
            f"{self.path}: {text}{unchanged}: free disk space, or check the folder's permissions, and retry"
        )
