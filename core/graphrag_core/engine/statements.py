"""The tables and the statements of :mod:`~graphrag_core.engine.records` as PostgreSQL has them.

All indexes are in the same tables: each row has the number of its index. The table ``meta`` is called ``settings``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from graphrag_core.engine.schema import LISTED, SCHEMA

_TYPES = {
    "INTEGER": "bigint",
    "REAL": "double precision",
    "TEXT": 'text COLLATE "C"',
    "BLOB": "bytea",
    "": "jsonb",
}
KINDS: dict[type, str] = {int: "bigint", float: "double precision", str: "text"}
_COLUMN = re.compile(r"(\w+)(?: (INTEGER|REAL|TEXT|BLOB))?( PRIMARY KEY)?( NOT NULL)?( UNIQUE)?\s*(?:,|\Z)")
_KEY = re.compile(r",\s*PRIMARY KEY \(.*?\)", re.DOTALL)
_TABLE = re.compile(r"CREATE TABLE (\w+) \((.*)\)", re.DOTALL)
_OTHERS = """
CREATE TABLE meta (name text PRIMARY KEY, value text NOT NULL);
CREATE TABLE indexes (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text COLLATE "C" NOT NULL UNIQUE,
    identity text NOT NULL);
CREATE TABLE pieces (index integer NOT NULL, token text NOT NULL, number integer NOT NULL, data bytea NOT NULL,
    PRIMARY KEY (index, token, number));
ALTER TABLE pieces ALTER data SET STORAGE EXTERNAL;
ALTER TABLE segments ALTER arrays SET STORAGE EXTERNAL;
ALTER TABLE claims ADD rowid bigint GENERATED ALWAYS AS IDENTITY;
CREATE INDEX attributes_name ON attributes (index, name)
"""


def _own(table: str) -> str:
    return "settings" if table == "meta" else table


_TABLES = {
    match[1]: _COLUMN.findall(_KEY.sub("", match[2])) for match in map(_TABLE.search, SCHEMA.split(";")) if match
}
COLUMNS = {_own(name): {own[0]: _TYPES[own[1]] for own in columns} for name, columns in _TABLES.items()}
"""The columns of each table, and their types."""

_ALL = "|".join(["meta", *COLUMNS])
_CHANGE = re.compile(r"\A((?:UPDATE|DELETE FROM) .*? WHERE)", re.DOTALL)
_LISTED = re.compile(rf"FROM ({_ALL})\b( [a-z]\b)?([^?]*?) WHERE (?:[a-z]\.)?(\w+) {re.escape(LISTED)}")
_JOINED = re.compile(rf"(?:CROSS )?JOIN ({_ALL}) ([a-z]) ON (.*?)(?= JOIN| CROSS| WHERE| ORDER|\Z)", re.DOTALL)
_READ = re.compile(rf"(?<!DELETE )FROM ({_ALL})\b( [a-z]\b)?(?! AS)")


def creation(version: int) -> Iterator[str]:
    """Yield the statements that create all tables."""
    for name, columns in _TABLES.items():
        own = ["index integer NOT NULL"]
        for column, kind, is_key, not_null, is_unique in columns:
            own.append(f"{column} {_TYPES[kind]}{not_null}")
            own += [f"PRIMARY KEY (index, {column})"] if is_key else []
            own += [f"UNIQUE (index, {column})"] if is_unique else []
        yield f"CREATE TABLE {_own(name)} ({', '.join(own)})"
        # Else the server would believe that an index which is newer than its statistics has no rows.
        yield f"ALTER TABLE {_own(name)} ALTER COLUMN index SET STATISTICS 0"
    for statement in SCHEMA.split(";"):
        if "CREATE INDEX" in statement:
            yield re.sub(r" \((\w+)\)", r" (index, \1)", statement, count=1)
    yield from _OTHERS.split(";")
    yield f"INSERT INTO meta VALUES ('version', '{version}')"


@lru_cache(maxsize=4_096)
def translated(sql: str, index: int) -> str:
    """Return a statement of :mod:`~graphrag_core.engine.records` for the rows of one index.

    Rows that a list names are looked up one by one, and so are those of a join (``OFFSET 0`` keeps the planner from
    another order): it knows neither how long the list is nor how many rows the index has.
    """

    def rows(table: str, alias: str, condition: str = "") -> str:
        own = _own(table)
        columns = ", ".join([*COLUMNS[own], *(["rowid"] if own == "claims" else [])])
        return f"(SELECT {columns} FROM {own} AS {alias} WHERE index = {index}{condition}) AS {alias}"

    def of_list(match: re.Match[str]) -> str:
        table, alias, joined, column = match.groups()
        kind = COLUMNS[_own(table)][column].partition(" ")[0]
        condition = f" AND {column} = listed.value OFFSET 0"
        looked_up = rows(table, (alias or table).strip(), condition)
        return f"FROM unnest(?::{kind}[]) AS listed(value) CROSS JOIN LATERAL {looked_up}{joined} WHERE true"

    def of_join(match: re.Match[str]) -> str:
        return f"CROSS JOIN LATERAL {rows(match[1], match[2], f' AND {match[3]} OFFSET 0')}"

    sql = _LISTED.sub(of_list, sql)
    sql = _JOINED.sub(of_join, sql)
    sql = _READ.sub(lambda match: f"FROM {rows(match[1], (match[2] or match[1]).strip())}", sql)
    sql = _CHANGE.sub(rf"\1 index = {index} AND", sql)
    sql = sql.replace(LISTED, "= ANY(?)").replace(
        "json_each(?) AS wanted WHERE", "unnest(?::text[]) AS wanted(value) WHERE"
    )
    sql = sql.replace("json_each(?) AS wanted", "unnest(?::bigint[]) AS wanted(value)")
    sql = sql.replace("length(CAST(surface AS BLOB))", "octet_length(surface)").replace("+name = ?", "name = ?")
    return re.sub(r"group_concat\((\w+)\)", r"string_agg(\1::text, ',')", sql).replace("?", "%s")


@lru_cache(maxsize=256)
def of_many(sql: str, index: int, kinds: tuple[str, ...]) -> str:
    """Return a change with lists of parameters of some types. Rows are looked up one by one, as in ``translated``."""
    if sql.startswith("INSERT OR REPLACE INTO meta"):
        values = f"SELECT {index}, * FROM unnest(%b::text[], %b::text[])"
        return f"INSERT INTO settings {values} ON CONFLICT (index, name) DO UPDATE SET value = excluded.value"
    for number in range(len(kinds)):
        sql = sql.replace("?", f"v.v{number}", 1)
    change, _, condition = sql.partition(" WHERE ")
    table = change.removeprefix("DELETE FROM ").removeprefix("UPDATE ").partition(" ")[0]
    values = ", ".join(f"%b::{kind}[]" for kind in kinds)
    names = ", ".join(f"v{number}" for number in range(len(kinds)))
    return (
        f"{change} {'USING' if change.startswith('DELETE') else 'FROM'} (SELECT own.ctid AS place, v.* "
        f"FROM unnest({values}) AS v({names}) CROSS JOIN LATERAL "
        f"(SELECT ctid FROM {table} WHERE index = {index} AND {condition} OFFSET 0) AS own) AS v "
        f"WHERE {table}.ctid = v.place"
    )
