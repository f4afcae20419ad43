"""Many rows in one statement.

Python's sqlite3 gives up the interpreter at every step and asks for it again after it. A
statement of many rows is one step: other threads go on while SQLite works, and are not
asked for the interpreter once a row.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

Row = tuple[Any, ...]

_MODERN = sqlite3.sqlite_version_info >= (3, 33)  # of 2020: more than 999 values, UPDATE FROM
_MOST_VALUES = 2_000  # a prepared statement takes about half a kilobyte for each
_FEW = 16  # rows, which are sooner written one by one than prepared for

_ADD_USES = "UPDATE names SET uses = uses + ? WHERE key = ?"
_NAME_KEYS = """
SELECT json_group_array((SELECT key FROM names WHERE surface = wanted.value)) FROM json_each(?) AS wanted
"""


def insert(db: sqlite3.Connection, table: str, rows: Sequence[Row]) -> None:
    """Insert rows whose first value is never None.

    Where most columns have one value throughout, as ten of the sixteen of sentences' facts
    do, that value is handed over once.
    """
    width = len(rows[0])
    if len(rows) <= _FEW or not _MODERN:
        db.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * width)})", rows)
        return
    columns = list(zip(*rows, strict=True))
    varied = tuple(at for at, column in enumerate(columns) if at == 0 or not _is_constant(column))
    if 2 * len(varied) > width:
        varied = tuple(range(width))
    else:
        rows = list(zip(*[columns[at] for at in varied], strict=True))
    constants = [column[0] for at, column in enumerate(columns) if at not in varied]
    size = _MOST_VALUES // len(varied)
    statement = _insertion(table, width, varied, size)
    for start in range(0, len(rows), size):
        page = rows[start : start + size]
        # Filled up to the full size, so that one statement serves, prepared once.
        filling = [None] * (len(varied) * (size - len(page)))
        db.execute(statement, [*constants, *chain.from_iterable(page), *filling])


def add_uses(db: sqlite3.Connection, uses: Sequence[tuple[int, int]]) -> None:
    """Add to how many chunks use names: pairs of a count and a name's key."""
    if len(uses) <= _FEW or not _MODERN:
        db.executemany(_ADD_USES, uses)
        return
    db.execute(
        "UPDATE names SET uses = uses + json_extract(more.value, '$[0]') "
        "FROM json_each(?) AS more WHERE names.key = json_extract(more.value, '$[1]')",
        (json.dumps(uses),),
    )


def name_keys(db: sqlite3.Connection, names: Iterable[str]) -> dict[str, int]:
    """Return the keys of the names that there are."""
    wanted = list(names)
    (found,) = db.execute(_NAME_KEYS, (json.dumps(wanted),)).fetchone()
    return {name: key for name, key in zip(wanted, json.loads(found), strict=True) if key is not None}


def _is_constant(column: Row) -> bool:
    first = column[0]
    return column[-1] is first and column.count(first) == len(column) and len(set(map(type, column))) == 1


@lru_cache(maxsize=32)
def _insertion(table: str, width: int, varied: tuple[int, ...], size: int) -> str:
    """Return the statement for ``size`` rows of the varied columns; the others come first, one value each."""
    constant = (f"?{number}" for number in range(1, width - len(varied) + 1))
    names = [f"column{varied.index(at) + 1}" if at in varied else next(constant) for at in range(width)]
    row = f"({', '.join('?' * len(varied))})"
    rows = f"(VALUES {', '.join([row] * size)})"
    return f"INSERT INTO {table} SELECT {', '.join(names)} FROM {rows} WHERE column1 IS NOT NULL"
