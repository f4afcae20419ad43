"""What an error of a PostgreSQL server means, and what to do."""

from __future__ import annotations

import re

from graphrag_core.errors import (
    DatabaseError,
    DiskError,
    GraphRAGError,
    InputError,
    MissingDependency,
    NotAnIndex,
    ReadOnlyIndex,
)

try:
    import psycopg
    from psycopg import errors as sql_errors
    from psycopg_pool import PoolClosed, PoolTimeout, TooManyRequests
except ImportError as error:  # pragma: no cover - without the extra
    raise MissingDependency("psycopg", "postgres", "an index in PostgreSQL") from error

NO_TABLES = "open the index once for writing, with a role that may create tables"
PATIENCE = 30.0
"""Seconds to wait for a connection of the pool."""

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
    (sql_errors.InsufficientPrivilege,): f"{{where}}: the role lacks a privilege ({{text}}): grant it, or {NO_TABLES}",
    (sql_errors.UndefinedTable, sql_errors.InvalidSchemaName): "{where} lacks tables of hybrid-graphrag ({text}): "
    + NO_TABLES,
    (sql_errors.TooManyConnections, sql_errors.ConfigurationLimitExceeded): "{where}: the server accepts no more "
    "connections ({text}): raise max_connections, use a pooler, or set a smaller pool=... in the addresses",
    (sql_errors.InvalidCatalogName,): _NO_DATABASE,
    (sql_errors.ProgramLimitExceeded,): "{where}: {text}: an id, or the path of a file, is too long for an index of "
    "the server: shorten it to 2,500 bytes",
    (psycopg.DataError,): "{where}: {text}: a text has a character that the server cannot store: remove it",
    # A standby removes rows that the question reads.
    (sql_errors.SerializationFailure,): "{where}: {text}; nothing was changed: retry, and if a standby does this "
    "often, set its hot_standby_feedback to on, or raise its max_standby_streaming_delay",
    (sql_errors.DeadlockDetected,): "{where}: {text}; nothing was changed: retry",
    (sql_errors.InvalidPassword, sql_errors.InvalidAuthorizationSpecification): _NO_ACCESS,
    (sql_errors.AdminShutdown, sql_errors.CrashShutdown, sql_errors.CannotConnectNow,
     sql_errors.IdleInTransactionSessionTimeout): _UNREACHABLE,
}  # fmt: skip
"""What an error of psycopg means and what to do. The first entry that fits counts."""

_KINDS: dict[tuple[type[Exception], ...], type[GraphRAGError]] = {
    (sql_errors.DiskFull, sql_errors.IoError): DiskError,
    (sql_errors.ReadOnlySqlTransaction,): ReadOnlyIndex,
    (sql_errors.UndefinedTable, sql_errors.InvalidSchemaName): NotAnIndex,
    (sql_errors.ProgramLimitExceeded, psycopg.DataError): InputError,
}


def explained(error: Exception, where: str, pool: int) -> GraphRAGError:
    """Return the library's error for one of psycopg. A transaction was rolled back, or never committed."""
    text = str(error).strip().partition("\n")[0]
    message = next((message for types, message in _MESSAGES.items() if isinstance(error, types)), "")
    if not message and isinstance(error, psycopg.OperationalError) and getattr(error, "sqlstate", None) is None:
        # Of a connection that was refused there is only a text, in the server's language.
        message = next((advice for pattern, advice in _REFUSED.items() if re.search(pattern, text)), _UNREACHABLE)
    kind = next((kind for types, kind in _KINDS.items() if isinstance(error, types)), DatabaseError)
    result = kind(
        (message or "{where}: {text}").format(where=where, text=text, seconds=PATIENCE, pool=pool, larger=4 * pool)
    )
    if isinstance(result, DatabaseError):
        result.lost = message is _UNREACHABLE or isinstance(error, _CONFLICTS)
    return result
