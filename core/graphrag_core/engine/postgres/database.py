"""The connections to a PostgreSQL database: a pool, transactions, and errors that say what to do.

An address is ``postgresql://user@host:port/database?index=NAME``. This library reads the parameters ``index`` (the name
of the index, ``default`` without it), ``schema`` (of the tables, ``graphrag``) and ``pool`` (the maximum number of
connections of this process, 16). libpq reads all others, such as ``sslmode``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.address import is_address, shown
from graphrag_core.engine.postgres import schema
from graphrag_core.errors import (
    DatabaseError,
    DiskError,
    GraphRAGError,
    InputError,
    MissingDependency,
    NotAnIndex,
    ReadOnlyIndex,
    UnsupportedFormat,
)
from graphrag_core.ports import Matrix

try:
    import psycopg
    from psycopg import errors as sql_errors
    from psycopg.adapt import Dumper, Loader, PyFormat
    from psycopg.pq import Format
    from psycopg.types import TypeInfo
    from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout, TooManyRequests
except ImportError as error:  # pragma: no cover - without the extra
    raise MissingDependency("psycopg", "postgres", "an index in PostgreSQL") from error

if TYPE_CHECKING:
    from psycopg.abc import Buffer

DriverError = psycopg.Error
"""What psycopg raises. :meth:`Database.translated` returns the library's error for it."""

Row = tuple[Any, ...]
Cursor = psycopg.Cursor[Row]
RawCursor = psycopg.RawCursor
"""A cursor whose statements have the server's own marks of parameters: ``$1``, ``$2``."""
Connection = psycopg.Connection[Row]

LOCK = 0x48475247
"""The first number of the advisory locks; the second is the index."""

_T = TypeVar("_T")

_HOSTS = re.compile(r"(?:(?:\[[0-9A-Fa-f:.%]+\]|[^:,@/\[\]]*)(?::\d*)?(?:,|\Z))+\Z")  # hosts, each with a port
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")
_LONGEST_NAME = 200  # characters of an index's name
_MOST_CONNECTIONS = 16
_PATIENCE = 30.0  # seconds to wait for a connection of the pool,
_SHORT_PATIENCE = 10.0  # and after which it is checked whether there is a server at all
_ATTEMPTS = 6  # of what may be repeated after a lost connection
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds between them; a server needs some to restart
# Every statement looks rows up by key. Without statistics of a new index the planner believes that it has hardly any
# rows, and reads all of them for each key.
_PLANNER = ("jit", "enable_seqscan", "enable_hashjoin", "enable_mergejoin", "enable_material")
_INIT = "open the index once for writing, with a role that may create tables"

_CONFLICTS = (sql_errors.SerializationFailure, sql_errors.DeadlockDetected)
_UNREACHABLE = "{where}: the server cannot be reached or closed the connection ({text}): check that it runs, and retry"
_NO_DATABASE = "{where}: {text}: create the database first"
_NO_ACCESS = "{where}: {text}: check the user and the password"
_REFUSED = {
    r'FATAL:\s+database "[^"]*" does not exist': _NO_DATABASE,
    r'FATAL:\s+(?:password authentication failed|role "[^"]*" does not exist|no pg_hba)': _NO_ACCESS,
}
_MESSAGES: dict[tuple[type[Exception], ...], str] = {
    (PoolTimeout, TooManyRequests): "{where}: no connection was free within {seconds:.0f} seconds ({text}): the server "
    "cannot be reached, or all {pool} connections are in use; check the server, use fewer threads, or add "
    "pool={larger} to the address",
    (PoolClosed,): "{where}: the index was closed meanwhile: open it again",
    (sql_errors.QueryCanceled,): "{where}: a statement was cancelled ({text}): raise statement_timeout for this role, "
    "or ask for less (a smaller k, a narrower filter)",
    (sql_errors.DiskFull, sql_errors.IoError): "{where}: {text}; nothing was changed: free disk space on the server "
    "and retry",
    (sql_errors.ReadOnlySqlTransaction,): "{where} accepts no changes ({text}): it is a standby, or its default is "
    "read-only; write to the primary server, or open it with read_only=True",
    (sql_errors.InsufficientPrivilege,): f"{{where}}: the role lacks a privilege ({{text}}): grant it, or {_INIT}",
    (sql_errors.UndefinedTable, sql_errors.InvalidSchemaName): "{where} lacks tables of hybrid-graphrag ({text}): "
    + _INIT,
    (sql_errors.TooManyConnections, sql_errors.ConfigurationLimitExceeded): "{where}: the server accepts no more "
    "connections ({text}): raise max_connections, use a pooler, or set a smaller pool=... in the addresses",
    (sql_errors.InvalidCatalogName,): _NO_DATABASE,
    # A standby removes rows that the question reads.
    (sql_errors.SerializationFailure,): "{where}: {text}; nothing was changed: retry, and if a standby does this "
    "often, set its hot_standby_feedback to on, or raise its max_standby_streaming_delay",
    (sql_errors.DeadlockDetected,): "{where}: {text}; nothing was changed: retry",
    (sql_errors.InvalidPassword, sql_errors.InvalidAuthorizationSpecification): _NO_ACCESS,
    (sql_errors.AdminShutdown, sql_errors.CrashShutdown, sql_errors.CannotConnectNow,
     sql_errors.IdleInTransactionSessionTimeout): _UNREACHABLE,
}  # fmt: skip
"""What an error of psycopg means and what to do. The first entry that fits counts."""
_KINDS: dict[type[Exception], type[GraphRAGError]] = {
    sql_errors.DiskFull: DiskError,
    sql_errors.IoError: DiskError,
    sql_errors.ReadOnlySqlTransaction: ReadOnlyIndex,
    sql_errors.UndefinedTable: NotAnIndex,
    sql_errors.InvalidSchemaName: NotAnIndex,
}


def other_version(version: int) -> str:
    """Return what to do about tables of another version."""
    if version > schema.VERSION:
        return "upgrade hybrid-graphrag on this machine"
    return "index the documents again into another schema (`schema=` in the address)"


class Address(NamedTuple):
    """Where an index is: what libpq connects to, the name of the index, the schema of the tables."""

    conninfo: str
    name: str
    schema: str
    pool: int

    @classmethod
    def parse(cls, url: str) -> Address:
        """Return the parts of an address."""
        if not is_address(url):
            raise InputError(
                f"{shown(url)!r} is not an address of PostgreSQL: write postgresql://user@host/database?index=NAME"
            )
        try:
            parts = urlsplit(url)
        except ValueError:  # a bracket that is not closed
            parts = None
        if parts is None or not _HOSTS.match(
            parts.netloc.rpartition("@")[2]
        ):  # libpq would repeat parts of the password
            raise InputError(
                "the address of the database cannot be read: encode the special characters of its password, "
                "such as '/' as %2F, '?' as %3F, '#' as %23, '[' as %5B and '@' as %40"
            )
        own = {"index": "default", "schema": "graphrag", "pool": str(_MOST_CONNECTIONS)}
        others = []
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            if name in own:
                own[name] = value
            else:
                others.append((name, value))
        if not own["index"].strip() or len(own["index"]) > _LONGEST_NAME or "\x00" in own["index"]:
            raise InputError(f"the name of an index has 1 to {_LONGEST_NAME} characters, not {own['index']!r:.80}")
        if not _NAME.match(own["schema"]):
            raise InputError(f"the schema {own['schema']!r:.80} must be lower-case letters, digits and underscores")
        if not own["pool"].isdecimal() or not 2 <= int(own["pool"]) <= 1000:
            raise InputError(f"pool={own['pool']!r:.80} must be a number of connections from 2 to 1000")
        query = urlencode(others, quote_via=quote)
        conninfo = urlunsplit(("postgresql", parts.netloc, parts.path, query, ""))
        return cls(conninfo, own["index"], own["schema"], int(own["pool"]))


class Halfvec:
    """Vectors of half-precision numbers, one for each row of a matrix, as values of the type ``halfvec``."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    @classmethod
    def rows(cls, vectors: Matrix) -> list[Halfvec]:
        """Return one value for each row of a matrix."""
        header = int(vectors.shape[1]).to_bytes(2, "big") + b"\0\0"
        return [cls(header + row.tobytes()) for row in vectors.astype(">f2")]


def matrix(values: Sequence[bytes]) -> Matrix:
    """Return the vectors of columns of the type ``halfvec``, as they are loaded."""
    if not values:
        return np.empty((0, 0), np.float32)
    return np.frombuffer(b"".join(values), ">f2").astype(np.float32).reshape(len(values), -1)


class _HalfvecDumper(Dumper):
    format = Format.BINARY

    def dump(self, obj: Halfvec) -> Buffer:
        return obj.data


class _HalfvecLoader(Loader):
    format = Format.BINARY

    def load(self, data: Buffer) -> bytes:
        return bytes(data)[4:]


class _ArrayDumper(Dumper):
    """Passes an array without a Python object for each element.

    Integers are ``bigint[]``, floats ``double precision[]`` and truth values ``boolean[]``.
    """

    format = Format.BINARY
    _element, _layout = 0, np.dtype("?")

    def get_key(self, obj: npt.NDArray[Any], format: PyFormat) -> Any:  # noqa: A002, ARG002 - psycopg's name
        return (np.ndarray, obj.dtype.kind)

    def upgrade(self, obj: npt.NDArray[Any], format: PyFormat) -> Dumper:  # noqa: A002, ARG002 - psycopg's name
        return _ARRAYS[obj.dtype.kind](np.ndarray)

    def dump(self, obj: npt.NDArray[Any]) -> Buffer:
        header = np.array([1, 0, self._element, len(obj), 1] if len(obj) else [0, 0, self._element], ">i4").tobytes()
        elements = np.empty(len(obj), [("size", ">i4"), ("value", self._layout)])
        elements["size"], elements["value"] = self._layout.itemsize, obj
        return header + elements.tobytes()


def _array_dumper(array: int, element: int, layout: str) -> type[_ArrayDumper]:
    return type("_ArrayDumper", (_ArrayDumper,), {"oid": array, "_element": element, "_layout": np.dtype(layout)})


# By the kind of the array: PostgreSQL's numbers of the types of array and element, and the layout of an element.
_ARRAYS = {"i": _array_dumper(1016, 20, ">i8"), "f": _array_dumper(1022, 701, ">f8"), "b": _array_dumper(1000, 16, "?")}


class Database:
    """A pool of connections to one database. Safe to use from many threads.

    Parameters
    ----------
    url
        The address, see the module.
    read_only
        Never create tables nor an index.
    """

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        self.address = Address.parse(url)
        self.read_only = read_only
        self.shown = shown(url)
        self.pool: ConnectionPool[Connection] = ConnectionPool(
            self.address.conninfo,
            min_size=0,
            max_size=self.address.pool,
            timeout=_PATIENCE,
            max_idle=60.0,
            reconnect_timeout=5.0,
            kwargs={"autocommit": True, "application_name": "hybrid-graphrag", "connect_timeout": 10},
            configure=self._configure,
            open=False,
        )

    def _configure(self, connection: Connection) -> None:
        path = f"{self.address.schema}, "
        connection.execute(
            "SELECT set_config('search_path', %s || current_setting('search_path'), false), "
            "set_config(name, 'off', false) FROM unnest(%s::text[]) AS name",
            (path, list(_PLANNER)),
        )
        connection.adapters.register_dumper(np.ndarray, _ArrayDumper)
        # Asked of each connection: a database that was restored from a backup has another number of the type.
        if (info := TypeInfo.fetch(connection, "halfvec")) is not None:
            info.register(connection)
            dumper = type("_Dumper", (_HalfvecDumper,), {"oid": info.oid})
            connection.adapters.register_dumper(Halfvec, dumper)
            connection.adapters.register_loader(info.oid, _HalfvecLoader)

    # -- opening

    def open(self) -> int:
        """Connect, create tables and the index if they are missing, and return the number of the index."""
        try:
            with self.connect() as connection:
                self._check(connection)
                self._configure(connection)
                number = self._index(connection)
        except psycopg.Error as error:
            raise self.translated(error) from error
        self.pool.open()
        return number

    def connect(self) -> Connection:
        """Return a connection that is not one of the pool."""
        try:
            return psycopg.connect(
                self.address.conninfo, autocommit=True, connect_timeout=10, application_name="hybrid-graphrag"
            )
        except psycopg.Error as error:
            raise self.translated(error) from error

    def _check(self, connection: Connection) -> None:
        """Check the extension and the version of the tables; create them if they are missing."""
        version = self.version(connection)
        if version is None:
            standby = connection.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)
            if self.read_only or standby:
                where = ", on the primary server: this one is a standby" if standby else ""
                raise NotAnIndex(f"{self.shown} has no tables of hybrid-graphrag: {_INIT}{where}")
            create(connection, self.address.schema)
            version = self.version(connection) or 0
        if version != schema.VERSION:
            raise UnsupportedFormat(
                f"{self.shown} has tables of version {version}, this release knows version {schema.VERSION}: "
                + other_version(version)
            )

    def version(self, connection: Connection) -> int | None:
        """Return the version of the tables; None if there are none."""
        found = connection.execute("SELECT to_regclass(%s)", (f"{self.address.schema}.meta",)).fetchone()
        return None if found == (None,) else int(self.meta(connection, "version"))

    def meta(self, connection: Connection, name: str) -> str:
        """Return a property of the tables, such as ``version``."""
        sql = f"SELECT value FROM {self.address.schema}.meta WHERE name = %s"
        row = connection.execute(sql, (name,)).fetchone()
        if row is None:
            raise DatabaseError(f"{self.shown}: the table meta lacks {name!r}: restore a backup")
        return str(row[0])

    def _index(self, connection: Connection) -> int:
        name = (self.address.name,)
        found = connection.execute("SELECT id FROM indexes WHERE name = %s", name).fetchone()
        if found is None and self.read_only:
            known = [row[0] for row in connection.execute("SELECT name FROM indexes ORDER BY name LIMIT 10").fetchall()]
            listed = f"it has {', '.join(map(repr, known))}" if known else "it has none"
            raise NotAnIndex(
                f"{self.shown} has no index {self.address.name!r} ({listed}): check index=..., or open it for writing "
                "first"
            )
        if found is None:
            connection.execute("INSERT INTO indexes (name) VALUES (%s) ON CONFLICT DO NOTHING", name)
            found = connection.execute("SELECT id FROM indexes WHERE name = %s", name).fetchone()
        if found is None:
            raise DatabaseError(f"{self.shown}: the index {name[0]!r} was deleted while it was opened: retry")
        return int(found[0])

    def close(self) -> None:
        """Close all connections. Closing twice does nothing."""
        self.pool.close(timeout=5.0)

    # -- statements and transactions

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """Borrow a connection of the pool, outside of a transaction. Errors are translated."""
        try:
            connection = self.borrow()
            try:
                with connection:
                    yield connection
            finally:
                self.pool.putconn(connection)
        except (psycopg.Error, PoolTimeout, PoolClosed, TooManyRequests) as error:
            raise self.translated(error) from error

    def borrow(self) -> Connection:
        """Take a connection out of the pool, which must get it back. Errors are not translated.

        Raises
        ------
        DatabaseError
            There is no server. The pool itself reports that only after a long time.
        """
        try:
            return self.pool.getconn(_SHORT_PATIENCE)
        except PoolTimeout:
            try:
                psycopg.connect(self.address.conninfo, connect_timeout=5, application_name="hybrid-graphrag").close()
            except psycopg.OperationalError as error:
                text = str(error).strip().partition("\n")[0]
                raise DatabaseError(
                    f"{self.shown}: the server cannot be reached ({text}): check that it runs, and retry"
                ) from error
        return self.pool.getconn(_PATIENCE - _SHORT_PATIENCE)

    @contextmanager
    def transaction(self, mode: str = "") -> Iterator[Cursor]:
        """Run statements in one transaction: all or nothing. ``mode`` follows BEGIN."""
        with self.connection() as connection, connection.cursor(binary=True) as cursor:
            cursor.execute(f"BEGIN {mode}")
            try:
                yield cursor
            except BaseException:
                with suppress(psycopg.Error):
                    connection.rollback()
                raise
            cursor.execute("COMMIT")

    def snapshot(self) -> AbstractContextManager[Cursor]:
        """Run statements in a transaction that sees one state of the database and changes nothing."""
        return self.transaction("ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def rows(self, sql: str, parameters: Sequence[Any] | Mapping[str, Any] = ()) -> list[Row]:
        """Return the rows of a statement that only reads. It is repeated if the connection was lost."""

        def read() -> list[Row]:
            with self.connection() as connection, connection.cursor(binary=True) as cursor:
                return cursor.execute(sql, parameters).fetchall()

        return self.repeated(read)

    def value(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        """Return the first value of the first row."""
        return self.rows(sql, parameters)[0][0]

    def repeated(self, action: Callable[[], _T]) -> _T:
        """Run an action that may be repeated; do so if the connection was lost or a transaction conflicted."""
        pause = _FIRST_PAUSE
        for attempt in range(_ATTEMPTS):
            try:
                return action()
            except GraphRAGError as error:
                if attempt == _ATTEMPTS - 1 or not may_repeat(error):
                    raise
                with suppress(Exception):
                    self.pool.check()  # drops all connections that a restart of the server has closed
            time.sleep(pause)
            pause = min(3 * pause, _LONGEST_PAUSE)
        raise AssertionError

    def translated(self, error: Exception) -> Exception:
        """Return the library's error for one of psycopg. A transaction was rolled back, or never committed."""
        text = str(error).strip().partition("\n")[0]
        message = next((message for types, message in _MESSAGES.items() if isinstance(error, types)), "")
        if not message and isinstance(error, psycopg.OperationalError) and getattr(error, "sqlstate", None) is None:
            # Of a connection that was refused there is only a text, in the server's language.
            message = next((advice for pattern, advice in _REFUSED.items() if re.search(pattern, text)), _UNREACHABLE)
        result = _KINDS.get(type(error), DatabaseError)(
            (message or "{where}: {text}").format(
                where=self.shown, text=text, seconds=_PATIENCE, pool=self.address.pool, larger=4 * self.address.pool
            )
        )
        if isinstance(result, DatabaseError):
            result.lost = message is _UNREACHABLE or isinstance(error, _CONFLICTS)
        return result


def lock(cursor: Cursor, index: int) -> None:
    """Wait until no other writer of an index is in the part that only one may run. The commit releases the lock."""
    cursor.execute("SELECT pg_advisory_xact_lock(%s, %s)", (LOCK, index))


_secured: WeakKeyDictionary[Connection, bool] = WeakKeyDictionary()


def copy_rows(cursor: Cursor, table: str, rows: Iterable[Row], types: Sequence[str] | None = None) -> None:
    """Add rows to a table: with COPY, or with INSERT for a role under row-level security, which may not COPY.

    With ``types``, the types of the columns, the rows are sent in binary form.
    """
    connection = cursor.connection
    if connection not in _secured:
        _secured[connection] = cursor.execute("SELECT row_security_active('chunks')").fetchone() == (True,)
    if _secured[connection]:
        if rows := list(rows):
            values = ", ".join([f"%s::{kind}" for kind in types] if types else ["%s"] * len(rows[0]))
            cursor.executemany(f"INSERT INTO {table} VALUES ({values})", rows)
        return
    with cursor.copy(f"COPY {table} FROM STDIN" + (" (FORMAT BINARY)" if types else "")) as writing:
        if types:
            writing.set_types(types)
        for row in rows:
            writing.write_row(row)


def may_repeat(error: Exception) -> bool:
    """Return whether an error says that a connection was lost or a transaction conflicted."""
    return isinstance(error, DatabaseError) and error.lost


def exists(url: str) -> bool:
    """Return whether there is an index at an address. Raises if the server cannot be reached."""
    database = Database(url, read_only=True)
    try:
        database.open()
    except NotAnIndex:
        return False
    finally:
        database.close()
    return True


def create(connection: Connection, name: str) -> None:
    """Create the extension, the schema of a name and all tables, in one transaction, unless they are there."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (f"create {name}",))
        if connection.execute("SELECT to_regclass(%s)", (f"{name}.meta",)).fetchone() != (None,):
            return
        found = (
            "SELECT n.nspname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE typname = 'halfvec'"
        )
        vector = connection.execute(found).fetchone()
        if vector is None:
            _create_extension(connection)
            vector = connection.execute(found).fetchone()
        if vector is None:
            raise DatabaseError("the extension vector is older than 0.7: run ALTER EXTENSION vector UPDATE")
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {name}")
        before = connection.execute("SHOW search_path").fetchall()[0]
        connection.execute(f"SET LOCAL search_path = {name}")
        for statement in schema.statements(f'"{vector[0]}".halfvec'):
            connection.execute(statement)
        connection.execute("SELECT set_config('search_path', %s, true)", before)


def _create_extension(connection: Connection) -> None:
    try:
        with connection.transaction():
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except sql_errors.UniqueViolation:  # another process has just created it, for another schema
        return
    except (sql_errors.FeatureNotSupported, sql_errors.UndefinedFile) as error:
        raise DatabaseError(
            "the server has no extension vector (pgvector 0.7 or newer): install the package of your system, such as "
            "postgresql-16-pgvector, or use an image such as pgvector/pgvector:pg16"
        ) from error
    except sql_errors.InsufficientPrivilege as error:
        raise DatabaseError(
            "the role may not create the extension vector: let an administrator run CREATE EXTENSION vector in this "
            "database"
        ) from error
