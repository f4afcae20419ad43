"""SQLite: the rows of an index in a folder or in memory, connections and transactions; and the base beside them.

A folder has ``records.sqlite`` (with a write-ahead log beside it while it is open), the base that the rows name, and
``writer.lock``. The writer has a connection for its transactions. Each read borrows another one and sees one state.
In memory there is one connection, which one thread at a time uses.
"""

from __future__ import annotations

import io
import json
import logging
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO, TypeVar

from filelock import FileLock, Timeout

from graphrag_core import forks
from graphrag_core.engine import files
from graphrag_core.engine.arrays import Arrays, map_base
from graphrag_core.engine.records import Records
from graphrag_core.engine.rows import Row, RowCache, Unstorable
from graphrag_core.engine.schema import FORMAT, SCHEMA, parameters
from graphrag_core.errors import (
    DamagedIndex,
    DiskError,
    GraphRAGError,
    IndexClosed,
    IndexLocked,
    InputError,
    NotAnIndex,
    UnsupportedFormat,
)

_T = TypeVar("_T")
_log = logging.getLogger(__name__)

_APPLICATION_ID = 0x48475247  # "HGRG": identifies an index among SQLite files
_PAGE_BYTES = 8_192  # most rows are about a thousand bytes long, and small pages would be filled badly
_BUSY_TIMEOUT = 10_000  # milliseconds to wait for another process
_LOCK_TIMEOUT = 0.2  # seconds to wait for the writer's lock
_MAX_PARAMETERS = 999  # of a statement, in every SQLite
_SIGNS_OF_DAMAGE = (
    "malformed", "no such table", "no such column", "no such collation", "has no column", "Could not decode",
    "unsupported file format", "values were supplied", "datatype mismatch",
)  # fmt: skip
_UNSTORABLE = (
    sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError, OverflowError, UnicodeEncodeError
)  # fmt: skip
_ERRORS = (sqlite3.DatabaseError, UnicodeDecodeError)  # the latter if a message of SQLite quotes damaged text


class Session(Records):
    """A connection, which sees one state of the database during a transaction."""

    def __init__(self, database: Sqlite) -> None:
        self._database, self.lock, self.cache = database, threading.RLock(), database.cache
        file = database.file
        name = ":memory:" if file is None else f"{file.resolve().as_uri()}?mode={database.mode}"
        try:
            with forks.fork_waits:  # SQLite has a lock for all files
                self.connection = sqlite3.connect(
                    name, uri=file is not None, check_same_thread=False, isolation_level=None
                )
        except sqlite3.Error as error:
            raise database.translated(error) from error

    @contextmanager
    def calling(self) -> Iterator[sqlite3.Connection]:
        """Lock the connection, hold off forks, and translate errors of SQLite."""
        try:
            with self.lock, forks.fork_waits:
                yield self.connection
        except _ERRORS as error:
            raise self._database.translated(error, self.connection) from error

    def restart(self, begin: str = "BEGIN") -> None:
        """Roll back a transaction, if there is one, and begin another one, which sees the last commit."""
        self.cache, self._meta = self._database.cache, None
        with self.calling() as connection:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if begin:
                connection.execute(begin)

    def rows(self, sql: str, *values: Any) -> list[Row]:
        with self.calling() as connection:
            found = [json.dumps(one) if isinstance(one, list) else one for one in parameters(values)]
            return connection.execute(sql, found).fetchall()

    def many(self, sql: str, rows: Sequence[Row]) -> None:
        with self.calling() as connection:
            connection.executemany(sql, rows)

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Insert rows, many in one statement: Python's sqlite3 releases and takes the GIL once per statement."""
        size = _MAX_PARAMETERS // len(rows[0]) if rows else 1
        for start in range(0, len(rows), size):
            page = rows[start : start + size]
            marks = ", ".join([f"({', '.join('?' * len(page[0]))})"] * len(page))
            with self.calling() as connection:
                try:
                    connection.execute(f"INSERT INTO {table} VALUES {marks}", [value for row in page for value in row])
                except _UNSTORABLE as error:
                    raise Unstorable(str(error)) from error

    def problems(self) -> list[Row]:
        return [row for row in self.rows("PRAGMA integrity_check") if row[0] != "ok"]

    def base(self, name: str) -> tuple[Path | None, dict[str, Any], Arrays]:
        if self._database.folder is None:
            raise LookupError("there is no base in memory")
        path = files.base_file(self._database.folder, name)
        return path, *map_base(path)

    def sizes(self) -> tuple[int, int]:
        if self._database.folder is None:
            (pages,), (size,) = self.rows("PRAGMA page_count")[0], self.rows("PRAGMA page_size")[0]
            return 0, pages * size
        return sum(path.stat().st_size for path in self._database.folder.iterdir() if path.exists()), 0


class _Gate:
    """Lets a write to the only state of an index in memory wait for the reads of other threads.

    A thread that reads may read again inside, and a thread that writes may read. One thread at a time writes. A read
    may end in another thread than it began, as that of a generator.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._readers = Counter[int]()  # by thread
        self._writer: int | None = None

    @contextmanager
    def reading(self) -> Iterator[None]:
        me = threading.get_ident()
        with self._changed:
            self._changed.wait_for(lambda: self._writer in (None, me) or self._readers[me] > 0)
            self._readers[me] += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers[me] -= 1
                self._changed.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        me = threading.get_ident()
        if self._readers[me]:
            raise RuntimeError(
                "an index in memory cannot be changed while the same thread reads it: leave the snapshot first. If a "
                "query of this thread was interrupted, close the index and open it again"
            )
        try:
            with self._changed:
                self._writer = me
                self._changed.wait_for(lambda: not any(self._readers.values()))
            yield
        finally:
            with self._changed:
                self._writer = None
                self._changed.notify_all()


class Sqlite:
    """The database of an index in a folder, or in memory if that is None. Safe to use from many threads."""

    shared = False

    def __init__(self, folder: Path | None, *, read_only: bool) -> None:
        self.folder, self.read_only = folder, read_only
        self.file = None if folder is None else folder / "records.sqlite"
        self.mode = "ro" if read_only else "rwc"
        self.cache = RowCache()
        self._gate = _Gate()  # of an index in memory
        self._idle: list[Session] = []
        self._sessions: list[Session] = []
        self._lock: FileLock | None = None
        self._has_old_text = True  # whether the log may have deleted text: a crash may have left some
        forks.watch(self)
        try:
            self._open()
        except BaseException:
            self._release()
            raise

    # -- opening

    def _open(self) -> None:
        file = self.file
        if file is None or self.folder is None:
            self._main = self._connect()
            return
        if not self.read_only:
            self._lock = self._acquired(self.folder)
        elif not file.is_file():
            raise NotAnIndex(f"{self.folder} holds no index: check the path, or open it for writing first")
        if file.exists() and file.stat().st_size == 0 and files.bases(self.folder):
            raise DamagedIndex(
                f"{file} is empty, but was the database of an index: restore a backup, or delete the folder "
                f"{self.folder} and index the documents again"
            )
        self._identity = self._found()
        try:
            self._main = self._connect()
        except DiskError:
            if not self.read_only or Path(f"{file}-wal").exists():
                raise
            self.mode = "ro&immutable=1"  # SQLite makes files beside the database, which this folder does not allow
            self._main = self._connect()

    @staticmethod
    def _acquired(folder: Path) -> FileLock:
        """Create the folder, or check that it holds an index or nothing; return the writer's lock."""
        lock = FileLock(folder / "writer.lock", timeout=_LOCK_TIMEOUT, thread_local=False, is_singleton=False)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            own = {Path(lock.lock_file), *files.bases(folder)}
            if not (folder / "records.sqlite").exists() and {*folder.iterdir()} - own:
                raise NotAnIndex(f"{folder} is not empty and holds no index: choose another folder")
            lock.acquire(poll_interval=_LOCK_TIMEOUT / 10)
        except Timeout as error:
            raise IndexLocked(
                f"{folder} is being written by another process: close the index there, or open it here with "
                "read_only=True"
            ) from error
        except OSError as error:
            raise DiskError(
                f"{folder} cannot be used as a folder that is written ({error}): choose another path, or open it with "
                "read_only=True"
            ) from error
        return lock

    def _found(self) -> tuple[int, int] | None:
        """Return the identity (device and inode) of the database file at the path; None if there is none."""
        try:
            stat = Path(str(self.file)).stat()
        except OSError:
            return None
        return stat.st_dev, stat.st_ino

    def _connect(self) -> Session:
        """Return a new connection to an index of this format, which a writer creates if it is absent."""
        session = Session(self)
        self._sessions.append(session)
        run = session.rows
        run(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT}")
        run("PRAGMA cache_size = -8000")
        if run("SELECT count(*) FROM sqlite_master")[0][0] == 0:
            if self.read_only:
                raise NotAnIndex(
                    f"creating the index in {self.folder} was interrupted: nothing was stored yet. Repeat the call "
                    "or the command that created it; if a process is creating it now, try again"
                )
            run(f"PRAGMA page_size = {_PAGE_BYTES}")
            run("PRAGMA auto_vacuum = INCREMENTAL")
            run("PRAGMA journal_mode = WAL")
            numbers = f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {FORMAT};"
            with session.calling() as connection:
                connection.executescript(f"BEGIN; {SCHEMA} {numbers} COMMIT;")
        elif run("PRAGMA application_id")[0][0] != _APPLICATION_ID:
            raise NotAnIndex(f"{self.file} is an SQLite file, but not an index: choose another folder")
        if (version := run("PRAGMA user_version")[0][0]) != FORMAT:
            advice = (
                "upgrade hybrid-graphrag" if version > FORMAT else
                "index the documents again into another folder, with add() on KnowledgeIndex.open(another folder, "
                "embedder) or with the command index. The release that wrote it can still read it"
            )  # fmt: skip
            raise UnsupportedFormat(f"{self.folder} has format {version}, this release reads format {FORMAT}: {advice}")
        if not self.read_only:
            run("PRAGMA synchronous = FULL")
            run("PRAGMA secure_delete = ON")
        session.definitions = run("SELECT name, sql FROM sqlite_master ORDER BY name")
        return session

    # -- reading and writing

    @contextmanager
    def reading(self, begin: str = "BEGIN") -> Iterator[Session]:
        """Open a read transaction: a session that sees the last commit and no later one."""
        if self.file is None:
            with self._gate.reading():
                yield self._main
            return
        if self.read_only and (found := self._found()) not in (None, self._identity):
            self._idle, self._identity = [], found  # the path leads to another index now
        idle = self._idle
        try:
            session = idle.pop()
        except IndexError:
            session = self._connect()
        try:
            session.restart(begin)
            yield session
        finally:
            with suppress(IndexClosed):
                if begin:
                    session.restart("")
                idle.append(session)

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Run statements in one transaction: all or nothing."""
        main = self._main
        alone: AbstractContextManager[Any] = main.lock if self.file is not None else self._gate.writing()
        with forks.fork_waits, alone:
            main.restart("BEGIN IMMEDIATE")  # after what an interrupt left open
            try:
                yield main
                main.rows("COMMIT")
            finally:
                main.restart("")

    def write(self, function: Callable[[Session], _T]) -> _T:
        """Return what a function returns for a transaction."""
        with self.transaction() as session:
            return function(session)

    def settings(self) -> dict[str, str]:
        """Return the settings of the index. One statement sees one state: it needs no transaction."""
        with self.reading(begin="") as session:
            return session.meta()

    # -- files

    def tidy(self, *, has_deleted: bool) -> None:
        """Empty the write-ahead log after a change if it has deleted text."""
        if self.file is not None and (has_deleted or self._has_old_text):
            self._has_old_text = True
            try:
                self._has_old_text = not self._truncate_log()
            except GraphRAGError as error:
                _log.warning("the write-ahead log could not be emptied: %s", error)

    def _truncate_log(self) -> bool:
        """Move the write-ahead log into the file and empty it; return whether no reader kept it."""
        if self.file is None:
            return True
        main = self._main
        with main.lock:
            main.rows("PRAGMA busy_timeout = 0")
            try:
                return not main.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0][0]
            finally:
                main.rows(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT}")

    def release(self, keep: Path | None) -> None:
        """Give the pages back that nothing uses any more, and delete all bases but one."""
        with self._main.calling() as connection:
            connection.executescript("PRAGMA incremental_vacuum")  # execute would free a single page
        if self.folder is not None:
            files.drop_bases(self.folder, keep)

    def vacuum(self) -> bool:
        """Write the file again without free pages, and empty the log; return False if a reader keeps some of it."""
        if not self._truncate_log():  # it would grow by the whole database
            return False
        self._main.rows("VACUUM")
        self._truncate_log()
        return True

    def copy_to(self, path: str | Path) -> None:
        """Copy the last committed state into a new folder, beside readers and writers. SQLite copies all or nothing."""
        folder = Path(path)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(f"{path} exists and is not empty: choose a new folder for the backup")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with self.reading() as session, closing(sqlite3.connect(folder / "records.sqlite")) as target:
                session.connection.backup(target)
                target.execute("PRAGMA journal_mode = WAL")
                found = target.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(f"malformed: {found}")
        except (OSError, *_ERRORS) as error:
            with suppress(OSError):
                (folder / "records.sqlite").unlink(missing_ok=True)
            if isinstance(error, OSError):
                raise DiskError(f"{path} cannot be written ({error}): choose another path") from error
            raise self.translated(error) from error

    def close(self) -> None:
        """Close the database; a writer empties its log first."""
        try:
            if self._sessions and not self.read_only:
                self._main.restart("")
                self._truncate_log()
        finally:
            self._release()

    def _release(self) -> None:
        try:
            for session in self._sessions:
                with session.lock:
                    session.connection.close()
            self._sessions, self._idle = [], []
        finally:
            if self._lock is not None:
                self._lock.release()

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
            name = f"{generation} {token_hex(6)}"
            path = files.base_file(self.folder, name)
            files.write_synced(path, write)
            yield name, path, self.transaction()

    # -- forks

    def after_fork_in_child(self) -> None:
        """Become a reader. The connections to the file are the parent's: close the copies, which stay open there.

        A database in memory is the child's own copy.
        """
        if self.file is None:
            self._main.lock, self._gate = threading.RLock(), _Gate()
            return
        self.read_only, self.mode = True, "ro"
        if self._lock is not None:
            forks.close_copies(self._lock.lock_file)
            forks.leak(self._lock)  # which would release the parent's lock
            self._lock = None
        for session in self._sessions:
            if forks.is_at_rest():
                with suppress(sqlite3.Error):
                    session.connection.close()
            forks.leak(session.connection)
        self._sessions, self._idle = [], []

    # -- errors

    def translated(self, error: BaseException, connection: sqlite3.Connection | None = None) -> BaseException:
        """Return the library's error for an error of SQLite. The transaction of a write is rolled back."""
        text = str(error)
        if isinstance(error, GraphRAGError):
            return error
        if isinstance(error, sqlite3.ProgrammingError) and "closed" in text:
            return IndexClosed(f"{self.folder or 'the index in memory'} was closed meanwhile: open it again")
        if "not a database" in text:
            return NotAnIndex(
                f"{self.file} is not an index, or is damaged ({text}): restore a backup or choose another folder"
            )
        if isinstance(error, UnicodeError) or any(sign in text for sign in _SIGNS_OF_DAMAGE):
            return DamagedIndex(
                f"{self.file} is damaged ({text}): restore a backup, or index the documents again into another folder"
            )
        unchanged = "; nothing was changed" if connection is not None and connection.in_transaction else ""
        return DiskError(
            f"{self.file}: {text}{unchanged}: free disk space, or check the folder's permissions, and retry"
        )
