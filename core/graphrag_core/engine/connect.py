"""Opening the database of an index: that of a folder, one in memory, or a PostgreSQL server."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from graphrag_core.engine.address import is_address
from graphrag_core.engine.records import INTERNAL
from graphrag_core.engine.sqlite import Sqlite
from graphrag_core.errors import NotAnIndex, UnsupportedFormat

if TYPE_CHECKING:
    from graphrag_core.engine.postgres import Postgres

Database: TypeAlias = "Sqlite | Postgres"


def connect(path: str | Path | None, *, read_only: bool) -> Database:
    """Open the database of an index: of a folder, in memory, or of an address."""
    if is_address(path):
        from graphrag_core.engine.postgres import Postgres  # noqa: PLC0415 - needs the extra postgres

        return Postgres(str(path), read_only=read_only)
    return Sqlite(None if path is None else Path(path), read_only=read_only)


def stored_settings(path: str | Path) -> dict[str, str]:
    """Return the settings that are stored with an index, none if there is none. No array is read."""
    try:
        with closing(connect(path, read_only=True)) as database, database.reading() as records:
            return {name: value for name, value in records.meta().items() if name not in INTERNAL}
    except (NotAnIndex, UnsupportedFormat):
        return {}


def exists(path: str | Path) -> bool:
    """Return whether a folder or an address has an index. Raises if a server cannot be reached."""
    if not is_address(path):
        return (Path(path) / "records.sqlite").is_file()
    try:
        connect(path, read_only=True).close()
    except NotAnIndex:
        return False
    return True
