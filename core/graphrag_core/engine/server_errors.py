"""What an error of a PostgreSQL server means, and what to do."""

from __future__ import annotations

import re

from graphrag_core.engine.rows import Unstorable
from graphrag_core.errors import (
    DatabaseError,
    DiskError,
    GraphRAGError,
    MissingDependency,
    NotAnIndex,
    ReadOnlyIndex,
)

try:
    import psycopg
    from psycopg import errors as sql
    from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests
except ImportError as error:  # pragma: no cover - without the extra
    raise MissingDependency("psycopg", "postgres", "an index in PostgreSQL") from error

ERRORS = (psycopg.Error, PoolTimeout, PoolClosed, TooManyRequests)
NO_TABLES = "open the index once for writing, with a role that may create tables"

_UNREACHABLE = "the server cannot be reached or closed the connection ({text}): check that it runs, and retry"
_NO_DATABASE = "{text}: create the database first"
_NO_ACCESS = "{text}: check the user and the password"
_REFUSED = {
    r'FATAL:\s+database "[^"]*" does not exist': _NO_DATABASE,
    r'FATAL:\s+(?:password authentication failed|role "[^"]*" does not exist|no pg_hba)': _NO_ACCESS,
}
"""Of a connection that was refused there is only a text."""

_MEANINGS: tuple[tuple[tuple[type[Exception], ...], type[GraphRAGError], str], ...] = (
    ((PoolTimeout, TooManyRequests), DatabaseError, ("no connection was free in time ({text}): use fewer threads, or "
     "add a larger pool=... to the address")),
    ((PoolClosed,), DatabaseError, "the index was closed meanwhile: open it again"),
    ((sql.QueryCanceled,), DatabaseError, ("a statement was cancelled ({text}): raise statement_timeout for this role, "
     "or ask for less (a smaller k, a narrower filter)")),
    ((sql.DiskFull, sql.IoError), DiskError, "{text}; nothing was changed: free disk space on the server and retry"),
    ((sql.ReadOnlySqlTransaction,), ReadOnlyIndex, ("it accepts no changes ({text}): write to the primary server, or "
     "open it with read_only=True")),
    ((sql.InsufficientPrivilege,), DatabaseError, f"the role lacks a privilege ({{text}}): grant it, or {NO_TABLES}"),
    ((sql.UndefinedTable, sql.InvalidSchemaName), NotAnIndex, (f"it lacks tables of hybrid-graphrag ({{text}}): "
     f"{NO_TABLES}")),
    ((sql.TooManyConnections,), DatabaseError, ("the server accepts no more connections ({text}): raise "
     "max_connections, use a pooler, or set a smaller pool=... in the addresses")),
    ((sql.InvalidCatalogName,), DatabaseError, _NO_DATABASE),
    ((sql.InvalidPassword, sql.InvalidAuthorizationSpecification), DatabaseError, _NO_ACCESS),
    ((sql.ProgramLimitExceeded,), Unstorable, "{text}: shorten the id, or the path of the file, to 2,500 bytes"),
    ((psycopg.DataError,), Unstorable, "{text}: a text has a character that the server cannot store: remove it"),
    # A standby removes rows that the question reads.
    ((sql.SerializationFailure, sql.DeadlockDetected), DatabaseError, ("{text}; nothing was changed: retry, and if a "
     "standby does this often, set its hot_standby_feedback to on, or raise its max_standby_streaming_delay")),
    ((sql.AdminShutdown, sql.CrashShutdown, sql.CannotConnectNow, sql.IdleInTransactionSessionTimeout), DatabaseError,
     _UNREACHABLE),
)  # fmt: skip
"""Errors of psycopg, what they are here, and what to do. The first entry that fits counts."""


def explained(error: Exception, where: str) -> GraphRAGError:
    """Return the library's error for one of psycopg. A transaction was rolled back, or never committed."""
    text = str(error).strip().partition("\n")[0]
    fits = ((kind, message) for types, kind, message in _MEANINGS if isinstance(error, types))
    kind, message = next(fits, (DatabaseError, "{text}"))
    if message == "{text}" and isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        message = next((advice for pattern, advice in _REFUSED.items() if re.search(pattern, text)), _UNREACHABLE)
    result = kind(f"{where}: {message.format(text=text)}")
    if isinstance(result, DatabaseError):
        result.lost = message is _UNREACHABLE or isinstance(error, sql.SerializationFailure | sql.DeadlockDetected)
    return result
