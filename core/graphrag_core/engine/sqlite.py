"""SQLite: the rows of an index in a folder or in memory, connections, transactions and locks; and the base beside them.

The database has a write-ahead log, and a commit is synced. A writer has a connection for its transactions, and lends
others for reading, each with a transaction of its own. A reader of a folder reads one state until :meth:`Sqlite.renew`.
In memory there is one connection.
"""

from __future__ import annotations

import io
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from graphrag_core import forks
from graphrag_core.engine.arrays import Arrays, map_base
from graphrag_core.engine.files import Folder
from graphrag_core.engine.rows import Row, Unstorable
from graphrag_core.engine.schema import FORMAT, SCHEMA
from graphrag_core.errors import (
    DamagedIndex,
    DiskError,
    FilterError,
    GraphRAGError,
    InputError,
    NotAnIndex,
    UnsupportedFormat,
)

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

APPLICATION_ID = 0x48475247  # "HGRG": identifies an index among SQLite files

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
_LONG_LOG = 4_000_000  # bytes of the write-ahead log, from which on it is emptied after a change
_CREATION = 5.0  # seconds that a reader waits for a process that is creating the index
_UNSTORABLE = (
    sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError, OverflowError, UnicodeEncodeError
)  # fmt: skip
ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)  # the latter if a message of SQLite quotes damaged text


class Session:
    """A connection of one thread at a time."""

    shared = False

    def __init__(self, database: Sqlite, mode: str) -> None:
        self._database, self.lock = database, threading.RLock()
        path = database.file
        name = ":memory:" if path is None else f"{path.resolve().as_uri()}?mode={mode}"
        self.connection = sqlite3.connect(name, uri=path is not None, check_same_thread=False, isolation_level=None)
        self.users = 0  # snapshots that read with it
        self.run(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT}")
        self.run("PRAGMA cache_size = -8000")

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Return the rows of a statement."""
        try:
            with self.lock:
                return self.connection.execute(sql, [_parameter(one) for one in parameters]).fetchall()
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
                try:
                    self.connection.execute(f"INSERT INTO {table} VALUES {marks}", [v for row in page for v in row])
                except _UNSTORABLE as error:
                    raise Unstorable(str(error)) from error

    def flush(self) -> None:
        """Do nothing: rows were inserted before."""

    def settings(self) -> dict[str, str]:
        """Return the settings."""
        return dict(self.rows("SELECT name, value FROM meta"))

    def put(self, settings: Mapping[str, str]) -> None:
        """Store settings."""
        self.many("INSERT OR REPLACE INTO meta VALUES (?, ?)", [*settings.items()])

    def definitions(self) -> list[Row]:
        """Return the definitions of the tables."""
        return self.rows("SELECT name, sql FROM sqlite_master ORDER BY name")

    def problems(self) -> list[Row]:
        """Return what SQLite finds damaged."""
        return [row for row in self.rows("PRAGMA integrity_check") if row[0] != "ok"]

    def many(self, sql: str, parameters: Sequence[Row]) -> None:
        """Run a statement for each row of parameters."""
        with self.lock:
            self.connection.executemany(sql, parameters)

    def base(self, name: str) -> tuple[Path | None, dict[str, Any], Arrays]:
        """Return the file of a base, its properties and its arrays."""
        if (folder := self._database.folder) is None:
            raise LookupError("there is no base in memory")
        path = folder.base(name)
        return path, *map_base(path)

    def sizes(self) -> tuple[int, int]:
        """Return the bytes on disk and of rows in memory."""
        if (folder := self._database.folder) is not None:
            return folder.size(), 0
        (pages,), (size,) = self.rows("PRAGMA page_count")[0], self.rows("PRAGMA page_size")[0]
        return 0, pages * size

    def restart(self) -> None:
        """Begin again and see the last commit, unless others read with this connection."""
        if self._database.file is not None and not self._database.read_only:
            self.begin()

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


def _parameter(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list) else value


class Sqlite:
    """The database of an index. Safe to use from many threads.

    Parameters
    ----------
    path
        The folder; None for one in memory.
    """

    shared = False

    def __init__(self, path: Path | None, *, read_only: bool) -> None:
        self.path, self.read_only = path, read_only
        self.folder = None if path is None else Folder(path)
        self.file = None if self.folder is None else self.folder.records
        self._lock = threading.RLock()  # of transactions
        self._pool = threading.Lock()
        self._held: list[Any] = []  # locks, by a thread that forks
        self._idle: list[Session] = []
        self._sessions: list[Session] = []
        self._mode = "ro" if read_only else "rwc"
        self._seen = 0  # when the file was last changed, as of the last look
        self._file_lock: Any = None
        self._has_old_text = True  # whether the log may have deleted text: a crash may have left some
        forks.watch(self)
        try:
            self._open()
        except BaseException as error:
            self._close_all()
            if isinstance(error, ERRORS):
                raise self.translated(error) from error
            raise

    def _open(self) -> None:
        """Open the rows. A reader waits for a process that is creating the index."""
        folder, end = self.folder, time.monotonic() + _CREATION
        if folder is not None and self.read_only:
            if not folder.records.is_file():
                raise NotAnIndex(f"{self.path} holds no index: check the path, or open it for writing first")
        elif folder is not None:
            folder.create()
            self._file_lock = folder.lock()
        if folder is not None and folder.records.exists() and folder.records.stat().st_size == 0 and folder.has_base:
            raise DamagedIndex(
                f"{folder.records} is empty, but was the database of an index: restore a backup, or delete the folder "
                f"{folder.path} and index the documents again"
            )
        while True:
            try:
                self._main = self._connected()
                break
            except NotAnIndex as error:
                if not self.read_only or folder is None or not folder.has_writer():
                    raise
                if time.monotonic() > end:
                    raise NotAnIndex(f"{self.path} is being created by another process: try again") from error
                self._close_sessions()
                time.sleep(_CREATION / 100)
        self._identity = folder.identity() if folder else None
        if self.version != FORMAT:
            advice = (
                "upgrade hybrid-graphrag" if self.version > FORMAT else
                "index the documents again into another folder, with add() on KnowledgeIndex.open(another folder, "
                "embedder) or with the command index. The release that wrote it can still read it"
            )  # fmt: skip
            raise UnsupportedFormat(
                f"{self.path} has format {self.version}, this release reads format {FORMAT}: {advice}"
            )

    def _connected(self) -> Session:
        try:
            return self._prepared(SCHEMA, FORMAT)
        except DiskError:
            if not self.read_only or self.file is None or Path(f"{self.file}-wal").exists():
                raise
            self._close_sessions()
            self._mode = "ro&immutable=1"  # SQLite makes files beside the database, which this folder does not allow
            return self._prepared(SCHEMA, FORMAT)

    def _prepared(self, schema: str, version: int) -> Session:
        session = self._connect()
        run = session.run
        if run("SELECT count(*) FROM sqlite_master")[0][0] == 0:
            if self.read_only:
                raise NotAnIndex(
                    f"creating the index in {self.path} was interrupted: nothing was stored yet. Repeat the call "
                    "or the command that created it"
                )
            run(f"PRAGMA page_size = {_PAGE_BYTES}")
            run("PRAGMA auto_vacuum = INCREMENTAL")
            run("PRAGMA journal_mode = WAL")
            numbers = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version};"
            session.connection.executescript(f"BEGIN; {schema} {numbers} COMMIT;")
        elif run("PRAGMA application_id")[0][0] != APPLICATION_ID:
            raise NotAnIndex(f"{self.file} is an SQLite file, but not an index: choose another folder")
        self.version = run("PRAGMA user_version")[0][0]
        if not self.read_only:
            run("PRAGMA synchronous = FULL")
            run("PRAGMA secure_delete = ON")
        elif self.version == version:
            self._seen = self._file_time()
            session.begin()
            run("SELECT count(*) FROM meta")
        return session

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

    def repeated(self, action: Callable[[], _T]) -> _T:
        """Run an action."""
        return action()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Lend a session in which nothing changes until the end. In memory and for a reader, all share one."""
        if self.file is None:
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

    def settings(self) -> dict[str, str]:
        """Return the settings of the index."""
        with self.reading() as session:
            return session.settings()

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
        if self.file is None or "immutable" in self._mode:
            return self._main.rows(sql)
        with self._pool:
            session = self._idle.pop() if self._idle else self._connect()
        try:
            return session.rows(sql)
        finally:
            with self._pool:
                self._idle.append(session)

    @property
    def has_moved(self) -> bool:
        """Whether another database is at the path now."""
        return self.folder is not None and self.folder.identity() not in (None, self._identity)

    def advance(self, generation: int, token: str) -> bool:
        """Let a reader see the last commit; return whether it has another generation than the one given."""
        sql = "SELECT value FROM meta WHERE name IN ('generation', 'token') ORDER BY name"
        newest = tuple(row[0] for row in self.newest(sql))
        is_newer = newest not in ((), (str(generation), token))
        if is_newer or self._file_time() != self._seen:  # a writer cannot empty a log that a reader keeps
            self.renew()
        return is_newer

    def _file_time(self) -> int:
        try:
            return 0 if self.file is None else self.file.stat().st_mtime_ns
        except OSError:
            return 0

    # -- files

    @property
    def log_bytes(self) -> int:
        """The length of the write-ahead log."""
        try:
            return 0 if self.file is None else Path(f"{self.file}-wal").stat().st_size
        except OSError:
            return 0

    def tidy(self, *, has_deleted: bool) -> None:
        """Empty the write-ahead log after a change if it has deleted text, or is long."""
        if self.file is not None and (has_deleted or self._has_old_text or self.log_bytes > _LONG_LOG):
            self._has_old_text = True
            try:
                self._has_old_text = not self.truncate_log()
            except GraphRAGError as error:
                _log.warning("the write-ahead log could not be emptied: %s", error)

    def truncate_log(self) -> bool:
        """Move the write-ahead log into the file and empty it; return whether no reader kept it."""
        if self.file is None:
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

    def copy_to(self, path: str | Path) -> None:
        """Copy the last committed state into a new folder, without waiting for a transaction in a file."""
        folder = Folder(Path(path))
        if folder.path.exists() and (not folder.path.is_dir() or any(folder.path.iterdir())):
            raise InputError(f"{path} exists and is not empty: choose a new folder for the backup")
        folder.replace_whole(lambda new: self._copy(new.records))

    def _copy(self, path: Path) -> None:
        target = sqlite3.connect(path, isolation_level=None)
        try:
            if self.file is None or "immutable" in self._mode:
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
                raise DamagedIndex(f"{self.file} is damaged ({found}): the backup was not written")
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
        try:
            self._close_sessions()
        finally:
            if self._file_lock is not None:
                self._file_lock.release()

    def _close_sessions(self) -> None:
        for session in self._sessions:
            session.close()
        self._sessions, self._idle = [], []

    # -- the base

    @contextmanager
    def new_base(
        self,
        generation: int,
        write: Callable[[BinaryIO], None],
        *,
        wait: bool,  # noqa: ARG002 - there is one writer
    ) -> Iterator[tuple[str, Path | bytes, AbstractContextManager[Session]]]:
        """Store a base: its name, its file, and the transaction that names it."""
        if self.folder is None:
            buffer = io.BytesIO()
            write(buffer)
            yield "", buffer.getvalue(), self.transaction()
        else:
            name = self.folder.write_base(generation, write)
            yield name, self.folder.base(name), self.transaction()

    def drop_bases(self, keep: Path | None) -> None:
        """Delete all bases but one."""
        if self.folder is not None:
            self.folder.drop_bases(keep)

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
        if self._file_lock is not None:
            forks.close_copies(self._file_lock.lock_file)
            forks.leak(self._file_lock)  # which would release the parent's lock
            self._file_lock = None
        if self.file is None:
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
                f"{self.file} is not an index, or is damaged ({text}): restore a backup or choose another folder"
            )
        if isinstance(error, UnicodeError) or any(sign in text for sign in _SIGNS_OF_DAMAGE):
            return DamagedIndex(f"{self.file} is damaged ({text}): {index_again}")
        if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError):
            return error
        if any(sign in text for sign in _SIGNS_OF_SIZE):
            return FilterError(
                f"the filter is nested too deeply or has too many parts ({text}): combine values with in"
            )
        unchanged = "; nothing was changed" if in_transaction else ""
        return DiskError(
            f"{self.file}: {text}{unchanged}: free disk space, or check the folder's permissions, and retry"
        )
