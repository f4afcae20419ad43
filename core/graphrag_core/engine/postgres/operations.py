"""What an administrator does with a database: create its tables, check the server, measure sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import psycopg

from graphrag_core.engine.postgres import schema
from graphrag_core.engine.postgres.database import Connection, Database, Row, create, other_version
from graphrag_core.errors import GraphRAGError, InputError, NotAnIndex

MOST_PARTITIONS = 1_024
"""Partitions of each large table, at most."""

_LEAST_SERVER = 13
_LEAST_VECTOR = (0, 7)
_PRIVILEGES = ("SELECT", "INSERT", "UPDATE", "DELETE")


class Check(NamedTuple):
    """One line of :func:`check`: whether something is as it should be, what was found, and what to do about it.

    ``advice`` of a check that is ok is a recommendation; empty if there is none.
    """

    name: str
    ok: bool
    found: str
    advice: str = ""


class Size(NamedTuple):
    """How large a table is: its rows, as the server estimates them, and the bytes of its rows and of its indexes."""

    table: str
    rows: int
    data: int
    indexes: int


class IndexSize(NamedTuple):
    """What one index has in the tables that all share."""

    name: str
    generation: int
    documents: int
    chunks: int
    facts: int


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


def init(url: str, *, partitions: int = 1) -> tuple[bool, int]:
    """Create the extension, the schema, all tables and the index of an address, as far as they are missing.

    Parameters
    ----------
    url
        The address, with a role that may create tables.
    partitions
        Parts of each large table, see docs/scale.md. It cannot be changed later.

    Returns
    -------
    tuple of bool and int
        Whether the tables were created, and how many partitions they have.

    Raises
    ------
    InputError
        The tables exist and have another number of partitions.
    """
    if not 1 <= partitions <= MOST_PARTITIONS:
        raise InputError(f"partitions={partitions}: it must be from 1 to {MOST_PARTITIONS}")
    database = Database(url)
    try:
        with database.connect() as connection:
            version = database.version(connection)
            if version is None:
                create(connection, database.address.schema, partitions)
            found = int(database.meta(connection, "partitions"))
        if partitions not in (1, found):
            raise InputError(
                f"the tables of {database.shown} have {found} partitions, which cannot be changed: use another schema "
                "(schema=... in the address) and copy the index into it with `hybrid-graphrag copy`"
            )
        database.open()
    except psycopg.Error as error:
        raise database.translated(error) from error
    finally:
        database.close()
    return version is None, found


def check(url: str) -> list[Check]:
    """Check a server: one line for each thing that an index needs, or that makes it slow. Changes nothing."""
    database = Database(url, read_only=True)
    try:
        with database.connect() as connection:
            return [Check("connection", True, database.shown), *_checks(connection, database)]
    except GraphRAGError as error:
        return [Check("connection", False, str(error), "")]
    finally:
        database.close()


def _needed(name: str, ok: bool, found: str, advice: str) -> Check:
    """Return a check whose advice counts only if it failed."""
    return Check(name, ok, found, "" if ok else advice)


def _checks(connection: Connection, database: Database) -> Iterator[Check]:
    number, standby = _row(connection, "SELECT current_setting('server_version_num')::int, pg_is_in_recovery()")
    major, minor = divmod(number, 10_000)
    advice = f"PostgreSQL {_LEAST_SERVER} or newer is needed: upgrade the server"
    yield _needed("server", major >= _LEAST_SERVER, f"PostgreSQL {major}.{minor}", advice)
    yield _check_vector(connection)
    name = database.address.schema
    advice = "open indexes with read_only=True here, and write to the primary" if standby else ""
    yield Check("role", True, "standby, reads only" if standby else "primary", advice)
    usable = connection.execute(
        "SELECT has_schema_privilege(oid, 'USAGE') AND coalesce(has_table_privilege((SELECT c.oid FROM pg_class c "
        "WHERE c.relnamespace = n.oid AND c.relname = 'meta'), 'SELECT'), true) FROM pg_namespace n WHERE nspname = %s",
        (name,),
    ).fetchone()
    if usable == (False,):
        yield Check("privileges", False, f"the role may not read the schema {name}", _grants(connection, name))
        yield from _check_settings(connection)
        return
    version = database.version(connection)
    if version is None:
        may = connection.execute("SELECT has_database_privilege(current_database(), 'CREATE')").fetchone() == (True,)
        advice = "run `hybrid-graphrag db init URL`" + ("" if may else " with a role that may create schemas")
        yield Check("tables", False, f"the schema {name} has none", advice)
    else:
        partitions = database.meta(connection, "partitions")
        known = f"version {version}, {partitions} partition{'s' * (partitions != '1')}, schema {name}"
        yield _needed("tables", version == schema.VERSION, known, other_version(version))
        yield _check_privileges(connection, name, reads_only=standby)
        yield _check_bypass(connection, name)
    yield from _check_settings(connection)


def _check_vector(connection: Connection) -> Check:
    row = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    if row is not None:
        parts = tuple(int(part) for part in row[0].split(".")[:2] if part.isdecimal())
        advice = "0.7 or newer is needed (halfvec): upgrade the package, then run ALTER EXTENSION vector UPDATE"
        return _needed("vector", parts >= _LEAST_VECTOR, f"pgvector {row[0]}", advice)
    row = connection.execute("SELECT default_version FROM pg_available_extensions WHERE name = 'vector'").fetchone()
    if row is None:
        advice = "install it (such as postgresql-16-pgvector), or use the image pgvector/pgvector:pg16"
        return Check("vector", False, "pgvector is not installed", advice)
    advice = "run `hybrid-graphrag db init URL`, or let an administrator run CREATE EXTENSION vector"
    return Check("vector", False, f"pgvector {row[0]} is available, and not created in this database", advice)


def _check_privileges(connection: Connection, name: str, *, reads_only: bool) -> Check:
    wanted = _PRIVILEGES[:1] if reads_only else _PRIVILEGES
    tables = [*schema.TABLES, "meta", "indexes", "settings", "segments", "dead_chunks", "commits"]
    lacking = connection.execute(
        "SELECT t || ' ' || p FROM unnest(%s::text[]) AS t, unnest(%s::text[]) AS p "
        "WHERE to_regclass(%s || '.' || t) IS NOT NULL AND NOT has_table_privilege(%s || '.' || t, p) LIMIT 3",
        (tables, list(wanted), name, name),
    ).fetchall()
    found = "reads" if reads_only else "reads and writes"
    if lacking:
        found = "the role lacks " + ", ".join(row[0] for row in lacking)
    return _needed("privileges", not lacking, found, _grants(connection, name))


def _grants(connection: Connection, name: str) -> str:
    (role,) = _row(connection, "SELECT quote_ident(current_user)")
    return (
        f"let the owner run GRANT USAGE ON SCHEMA {name} TO {role}; GRANT {', '.join(_PRIVILEGES)} ON ALL TABLES IN "
        f"SCHEMA {name} TO {role}; GRANT USAGE ON ALL SEQUENCES IN SCHEMA {name} TO {role} (SELECT alone to read)"
    )


def _check_bypass(connection: Connection, name: str) -> Check:
    protected, owns, bypasses = _row(
        connection,
        "SELECT count(*) FILTER (WHERE relrowsecurity), bool_or(pg_has_role(relowner, 'USAGE') AND relrowsecurity "
        "AND NOT relforcerowsecurity), (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user) "
        "FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'p')",
        (name,),
    )
    if not protected:
        return Check("row security", True, "off")
    ignored = bool(owns or bypasses)
    state = f"on for {protected} tables" + (", and this role is not bound by it" * ignored)
    advice = "connect with a role that neither owns the tables nor is a superuser, nor has BYPASSRLS"
    return _needed("row security", not ignored, state, advice)


def _check_settings(connection: Connection) -> Iterator[Check]:
    """Yield the settings that decide whether an index is fast, or whether it works at all."""
    rows = connection.execute(
        "SELECT name, setting, unit FROM pg_settings WHERE name IN ('shared_buffers', 'work_mem', "
        "'maintenance_work_mem', 'max_connections', 'statement_timeout', 'idle_in_transaction_session_timeout', 'jit')"
    ).fetchall()
    scale = {"8kB": 8 << 10, "kB": 1 << 10, "MB": 1 << 20}
    values = {name: int(value) * scale.get(unit, 1) for name, value, unit in rows if value.lstrip("-").isdecimal()}
    texts = {name: value for name, value, _ in rows}
    for name, least, reason in (
        ("shared_buffers", 1 << 30, "vectors and postings are read from memory; a quarter of the server's memory"),
        ("work_mem", 16 << 20, "sorting many candidates"),
        ("maintenance_work_mem", 256 << 20, "building HNSW indexes; 2 GB and more for millions of vectors"),
    ):
        enough = values[name] >= least
        advice = "" if enough else f"set it to {as_size(least)} or more: {reason}"
        yield Check(name, True, as_size(values[name]), advice)
    connections = values["max_connections"]
    advice = "" if connections >= 64 else "each process uses up to pool=16 of them: raise it, or use a pooler"
    yield Check("max_connections", True, str(connections), advice)
    for name in ("statement_timeout", "idle_in_transaction_session_timeout"):
        short = 0 < values[name] < 30_000
        advice = "short: large writes and rebuilds may be cancelled; raise it for the role that writes" if short else ""
        yield Check(name, True, f"{values[name]} ms" if values[name] else "none", advice)
    jit = texts.get("jit", "off")
    advice = "off is faster for short statements: ALTER ROLE … SET jit = off" if jit == "on" else ""
    yield Check("jit", True, jit, advice)


def sizes(url: str) -> tuple[list[Size], list[IndexSize]]:
    """Return the sizes of all tables, largest first, and what each index has in them."""
    database = Database(url, read_only=True)
    try:
        with database.connect() as connection:
            if database.version(connection) is None:
                raise NotAnIndex(f"{database.shown} has no tables of hybrid-graphrag: run `hybrid-graphrag db init`")
            name = database.address.schema
            tables = connection.execute(
                "SELECT coalesce(parent.relname, c.relname), sum(greatest(c.reltuples, 0))::bigint, "
                "sum(pg_table_size(c.oid))::bigint, sum(pg_indexes_size(c.oid))::bigint FROM pg_class c "
                "LEFT JOIN pg_inherits i ON i.inhrelid = c.oid LEFT JOIN pg_class parent ON parent.oid = i.inhparent "
                "WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'r' GROUP BY 1 ORDER BY 3 DESC, 1",
                (name,),
            ).fetchall()
            indexes = connection.execute(
                f"SELECT name, generation, documents, chunks, facts FROM {name}.indexes ORDER BY name"
            ).fetchall()
    except psycopg.Error as error:
        raise database.translated(error) from error
    finally:
        database.close()
    return [Size(*row) for row in tables], [IndexSize(*row) for row in indexes]


def as_size(count: int) -> str:
    """Return a number of bytes as text.

    >>> as_size(300), as_size(134_217_728)
    ('300 B', '128 MB')
    """
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1_024:
            return f"{amount:.0f} {unit}" if amount >= 10 or amount == int(amount) else f"{amount:.1f} {unit}"
        amount /= 1_024
    return f"{amount:.1f} TB"


def _row(connection: Connection, sql: str, parameters: Sequence[object] = ()) -> Row:
    (row,) = connection.execute(sql, parameters).fetchall()
    return row
