"""PostgreSQL: the rows of an index in a database, which many processes on many machines read and write.

Several indexes share the tables: each row has the number of its index. A write holds an advisory lock of its index from
its first statement on, so that keys ascend in the order of commits. A base is stored in pieces, in a transaction that
has an advisory lock for that and takes the one of writes at its end. A host keeps it as a file for all its processes.
"""

from __future__ import annotations

import json
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from secrets import token_hex
from typing import Any, BinaryIO, NoReturn, TypeVar

from filelock import FileLock

from graphrag_core import forks
from graphrag_core.engine import files
from graphrag_core.engine.address import Address, shown
from graphrag_core.engine.arrays import Arrays, map_base
from graphrag_core.engine.records import Records
from graphrag_core.engine.rows import Row, RowCache
from graphrag_core.engine.schema import FORMAT, parameters
from graphrag_core.engine.server_errors import ERRORS, NO_TABLES, explained
from graphrag_core.engine.statements import COLUMNS, KINDS, creation, of_many, translated
from graphrag_core.errors import (
    DatabaseError,
    DiskError,
    GraphRAGError,
    InputError,
    MissingDependency,
    NotAnIndex,
    UnsupportedFormat,
)

try:
    import psycopg
    from psycopg_pool import ConnectionPool, PoolTimeout
except ImportError as error:  # pragma: no cover - without the extra
    raise MissingDependency("psycopg", "postgres", "an index in PostgreSQL") from error

Connection = psycopg.Connection[Row]
Statement = tuple[str, Sequence[Any]]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_LOCK = 0x48475248  # the first number of the advisory locks of writes; the second is the index
_REPLACING = _LOCK + 1  # of the locks for replacing the base
_SETTINGS = "SELECT name, value FROM settings WHERE index = %s"
_PIECE = 8 << 20  # bytes of a base in a row
_PATIENCE = 10.0  # seconds to wait for a connection of the pool, before it is checked whether there is a server
_PAUSES = (0.1, 0.3, 0.9, 2.7, 5.0)  # seconds between attempts after a lost connection; a server needs some to restart
_CONNECTING: dict[str, Any] = {"autocommit": True, "application_name": "hybrid-graphrag", "connect_timeout": 10}
# Every statement looks rows up by key. Without statistics of a new index the planner believes that it has hardly any
# rows, and reads all of them for each key.
_PLANNER = ["jit", "enable_seqscan", "enable_hashjoin", "enable_mergejoin", "enable_material"]


class Session(Records):
    """A transaction. Changes are sent together with the next statement that reads, or with the end."""

    shared = True

    def __init__(self, database: Postgres, connection: Connection, *first: Statement) -> None:
        self._database, self.connection, self._first, self.cache = database, connection, first, database.cache
        self._begin()

    def _begin(self) -> None:
        self._queue: list[Statement] = [*self._first]
        self._meta = dict(self._send(_SETTINGS, (self._database.index,)))

    def restart(self) -> None:
        with self._database.errors():
            self.connection.commit()
        self._begin()

    def _send(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Send what waits and a statement in one round trip; return the rows of the statement."""
        queue, self._queue = self._queue, []
        connection, cursor = self.connection, self.connection.cursor(binary=True)
        with self._database.errors():
            with connection.pipeline() if queue else nullcontext():
                for waiting in queue:
                    connection.execute(*waiting)
                cursor.execute(sql, parameters)
            return cursor.fetchall() if cursor.description else []

    def rows(self, sql: str, *values: Any) -> list[Row]:
        return self._send(translated(sql, self._database.index), parameters(values))

    def insert(self, table: str, rows: Sequence[Row]) -> None:
        """Insert rows, all in one statement."""
        if rows:
            marks, values = list[str](), list[list[Any]]()
            columns = dict(zip(COLUMNS[table], zip(*rows, strict=True), strict=False))
            for name, own in columns.items():
                kind = COLUMNS[table][name].partition(" COLLATE")[0]
                marks.append(f"%b::{'text[]::' if kind == 'jsonb' else ''}{kind}[]")
                convert = json.dumps if kind == "jsonb" else float if kind == "double precision" else None
                values.append([one if one is None or convert is None else convert(one) for one in own])
            sql = f"INSERT INTO {table} (index, {', '.join(columns)}) SELECT %s, * FROM unnest({', '.join(marks)})"
            self._queue.append((sql, (self._database.index, *values)))

    def many(self, sql: str, rows: Sequence[Row]) -> None:
        """Run a statement for each row of parameters: as one, so that no two rows may change the same."""
        if rows:
            columns = [[*own] for own in zip(*rows, strict=True)]
            kinds = tuple(KINDS[type(own[0])] for own in columns)
            self._queue.append((of_many(sql, self._database.index, kinds), columns))

    def end(self) -> str | None:
        """Send the changes that wait; return the number of the transaction, if it has changed anything."""
        found: str | None = self._send("SELECT pg_current_xact_id_if_assigned()::text")[0][0]
        return found

    def sizes(self) -> tuple[int, int]:
        """Return the bytes of all tables, of all indexes together, and of rows in memory."""
        sql = (
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ? AND c.relkind = 'r'"
        )
        return int(self.rows(sql, (self._database.address.schema,))[0][0]), 0

    def base(self, name: str) -> tuple[Path, dict[str, Any], Arrays]:
        """Return the file of a base, its properties and its arrays. It is downloaded if this host lacks it."""
        path = files.base_file(self._database.cache_folder(), name)
        with FileLock(path.parent / "download.lock", thread_local=False):
            try:
                return path, *map_base(path, check=False)
            except FileNotFoundError:
                pass
            except ValueError as error:
                _log.warning("%s is damaged (%s): it is downloaded again", path, error)
            new = path.with_suffix(".new")
            files.write_synced(new, lambda file: self._download(name, file))
            map_base(new)
            new.replace(path)
        return path, *map_base(path, check=False)

    def _download(self, name: str, file: BinaryIO) -> None:
        sql = "SELECT data FROM pieces WHERE index = %s AND token = %s ORDER BY number"
        with self._database.errors(), self.connection.cursor(binary=True) as cursor:
            file.writelines(data for (data,) in cursor.stream(sql, (self._database.index, name)))


class Postgres:
    """The database of an index. Safe to use from many threads.

    Tables and index are created by the first opening for writing, if the role may. A reader's server may be a standby.
    """

    def __init__(self, url: str, *, read_only: bool) -> None:
        self.address, self.shown, self.read_only = Address.parse(url), shown(url), read_only
        self.cache = RowCache()
        with self.errors(), psycopg.connect(self.address.conninfo, **_CONNECTING) as connection:
            self._check_tables(connection)
            self._configure(connection)
            self.index, self._identity = self._found(connection)
        self._make_pool()
        forks.watch(self)

    def _make_pool(self) -> None:
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            self.address.conninfo, min_size=0, max_size=self.address.pool, max_idle=60.0, reconnect_timeout=5.0,
            configure=self._configure, open=True, kwargs=_CONNECTING,
        )  # fmt: skip

    def after_fork_in_child(self) -> None:
        """Leave the connections to the parent, and open others when they are needed."""
        forks.leak(self._pool)
        self._make_pool()

    def _configure(self, connection: Connection) -> None:
        connection.execute(
            "SELECT set_config('search_path', %s || current_setting('search_path'), false), "
            "set_config(name, 'off', false) FROM unnest(%s::text[]) AS name",
            (f"{self.address.schema}, ", _PLANNER),
        )

    def close(self) -> None:
        """Close all connections. Closing twice does nothing."""
        self._pool.close(timeout=5.0)

    # -- opening

    def _check_tables(self, connection: Connection) -> None:
        """Check the version of the tables; create them if they are missing."""
        version = self._version(connection)
        if version is None:
            standby = connection.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)
            if self.read_only or standby:
                where = ", on the primary server: this one is a standby" if standby else ""
                raise NotAnIndex(f"{self.shown} has no tables of hybrid-graphrag: {NO_TABLES}{where}")
            with connection.transaction():
                connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"create {self.address.schema}",))
                version = self._version(connection)
                if version is None:
                    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {self.address.schema}")
                    connection.execute(f"SET LOCAL search_path = {self.address.schema}")
                    for statement in creation(FORMAT):
                        connection.execute(statement)
                    version = FORMAT
        if version != FORMAT:
            advice = (
                "upgrade hybrid-graphrag on this machine" if version > FORMAT else
                "index the documents again into another schema (`schema=` in the address)"
            )  # fmt: skip
            raise UnsupportedFormat(
                f"{self.shown} has tables of version {version}, this release knows version {FORMAT}: {advice}"
            )

    def _version(self, connection: Connection) -> int | None:
        """Return the version of the tables; None if there are none."""
        schema = self.address.schema
        if connection.execute("SELECT to_regclass(%s)", (f"{schema}.meta",)).fetchone() == (None,):
            return None
        row = connection.execute(f"SELECT value FROM {schema}.meta WHERE name = 'version'").fetchone()
        return 0 if row is None else int(row[0])

    def _found(self, connection: Connection) -> tuple[int, str]:
        """Return the number and the identity of the index, which is created if it is absent."""
        name = self.address.name
        sql = "SELECT id, identity FROM indexes WHERE name = %s"
        found = connection.execute(sql, (name,)).fetchone()
        if found is None and not self.read_only:
            insert = "INSERT INTO indexes (name, identity) VALUES (%s, %s) ON CONFLICT DO NOTHING"
            connection.execute(insert, (name, token_hex(8)))
            found = connection.execute(sql, (name,)).fetchone()
        if found is None:
            known = [row[0] for row in connection.execute("SELECT name FROM indexes ORDER BY name LIMIT 10").fetchall()]
            listed = f"it has {', '.join(map(repr, known))}" if known else "it has none"
            raise NotAnIndex(
                f"{self.shown} has no index {name!r} ({listed}): check index=..., or open it for writing first"
            )
        return int(found[0]), str(found[1])

    # -- connections and errors

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise the library's errors for those of the driver."""
        try:
            yield
        except ERRORS as error:
            raise explained(error, self.shown) from error

    @contextmanager
    def _lent(self) -> Iterator[Connection]:
        """Lend a connection. What is not committed at the end is rolled back."""
        connection = self._borrowed()
        try:
            with self.errors():
                yield connection
        finally:
            with suppress(psycopg.Error):
                connection.rollback()
            self._pool.putconn(connection)

    def _borrowed(self) -> Connection:
        with self.errors():
            try:
                return self._pool.getconn(_PATIENCE)
            except PoolTimeout:
                psycopg.connect(self.address.conninfo, **_CONNECTING).close()  # raises if there is no server
                return self._pool.getconn(20.0)

    def repeated(self, action: Callable[[], _T]) -> _T:
        """Run an action; repeat it if the connection was lost or a transaction conflicted."""
        for pause in _PAUSES:
            try:
                return action()
            except DatabaseError as error:
                if not error.lost:
                    raise
                with suppress(Exception):
                    self._pool.check()  # drops all connections that a restart of the server has closed
            time.sleep(pause)
        return action()

    # -- transactions

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Lend a transaction that sees one state of the database and changes nothing."""
        session, lent = self.repeated(self._begun)
        with lent:
            yield session
            with suppress(psycopg.Error):
                session.connection.commit()  # after a rollback the driver would forget all prepared statements

    def _begun(self) -> tuple[Session, ExitStack]:
        with ExitStack() as stack:
            connection = stack.enter_context(self._lent())
            session = Session(self, connection, ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", ()))
            return session, stack.pop_all()

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """Run statements in one transaction that has the lock of writers: all or nothing."""
        with self._lent() as connection, self._locked(connection, ("BEGIN", ())) as session:
            yield session

    @contextmanager
    def _locked(self, connection: Connection, *first: Statement) -> Iterator[Session]:
        """Take the lock of writers in a transaction, and commit at the end."""
        session = Session(self, connection, *first, ("SELECT pg_advisory_xact_lock(%s, %s)", (_LOCK, self.index)))
        yield session
        number = session.end()
        try:
            connection.execute("COMMIT")
        except psycopg.OperationalError as error:
            if not number or not self.repeated(lambda: self._has_committed(number)):
                raise explained(error, self.shown) from error

    def _has_committed(self, number: str) -> bool:
        """Return whether a transaction was committed: the answer to the commit was lost."""
        # A server that crashed before it wrote anything of the transaction calls its number one of the future.
        with self._lent() as connection, suppress(psycopg.errors.InvalidParameterValue):
            for pause in _PAUSES:
                (status,) = connection.execute("SELECT pg_xact_status(%s::xid8)", (number,)).fetchone() or ("",)
                if status != "in progress":
                    return bool(status == "committed")
                time.sleep(pause)
        return False

    def write(self, function: Callable[[Session], _T]) -> _T:
        """Return what a function returns for a transaction, which is repeated if the connection was lost."""

        def attempt() -> _T:
            with self.transaction() as session:
                return function(session)

        return self.repeated(attempt)

    def settings(self) -> dict[str, str]:
        """Return the settings that the index has now."""

        def read() -> dict[str, str]:
            with self._lent() as connection:
                return dict(connection.execute(_SETTINGS, (self.index,)).fetchall())

        return self.repeated(read)

    # -- the base

    def cache_folder(self) -> Path:
        """Return the folder in which this host keeps bases of the index."""
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "hybrid-graphrag"
        user = os.getuid() if hasattr(os, "getuid") else 0
        last = Path(tempfile.gettempdir()) / f"hybrid-graphrag-{user}"
        for folder in [Path(self.address.cache)] if self.address.cache else [home, last]:
            own = folder / self._identity
            with suppress(OSError):
                own.mkdir(mode=0o700, parents=True, exist_ok=True)
                if os.access(own, os.W_OK) and (not user or own.stat().st_uid == user):
                    return own
        raise DiskError(f"{self.shown}: no folder for the cache can be written: add cache=FOLDER to the address")

    @contextmanager
    def new_base(
        self, generation: int, write: Callable[[BinaryIO], None], *, wait: bool
    ) -> Iterator[tuple[str, Path, AbstractContextManager[Session]] | None]:
        """Store a base: its name, its file, and the transaction that names it. None if another process stores one."""
        name = f"{generation} {token_hex(6)}"
        path = files.base_file(self.cache_folder(), name)
        lock = "pg_advisory_xact_lock" if wait else "pg_try_advisory_xact_lock"
        with self._lent() as connection:
            connection.execute("BEGIN")
            if connection.execute(f"SELECT {lock}(%s, %s)", (_REPLACING, self.index)).fetchone() == (False,):
                yield None
                return
            files.write_synced(path, write)
            with path.open("rb") as file:
                for number, data in enumerate(iter(lambda: file.read(_PIECE), b"")):
                    row = self.index, name, number, data
                    connection.execute("INSERT INTO pieces VALUES (%s, %s, %s, %b)", row)
            connection.execute("DELETE FROM pieces WHERE index = %s AND token <> %s", (self.index, name))
            yield name, path, self._locked(connection)

    def release(self, keep: Path | None) -> None:
        """Delete the files of all bases but one. The server gives pages back itself."""
        if keep is not None:
            files.drop_bases(keep.parent, keep)

    # -- what only some databases do

    def tidy(self, *, has_deleted: bool) -> None:
        """Do nothing: there is no log of ours."""

    def vacuum(self) -> bool:
        """Let the server release the space of deleted rows, if the role owns the tables; else it does so later."""
        try:
            with self._lent() as connection:
                for table in (*COLUMNS, "pieces"):
                    connection.execute(f"VACUUM (ANALYZE) {self.address.schema}.{table}")
        except GraphRAGError as error:
            _log.warning("the tables could not be vacuumed: %s", error)
        return True

    def copy_to(self, path: str | Path) -> NoReturn:
        """Raise an error: a database is backed up with its own programs."""
        raise InputError(
            f"an index in PostgreSQL is not copied to {path}: use pg_dump --schema={self.address.schema}, the "
            "snapshots of your provider, or `hybrid-graphrag copy` into a folder"
        )
