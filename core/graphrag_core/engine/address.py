"""Where an index is: a folder, or the address of a PostgreSQL database. Needs no driver of a database.

An address is ``postgresql://user@host:port/database?index=NAME``. It may contain a password, which :func:`shown` leaves
out. Errors, logs and representations show addresses in that form only.
"""

import os
import re

_POSTGRES = re.compile(r"postgres(?:ql)?(?:\+\w+)?://", re.IGNORECASE)  # also as SQLAlchemy writes it
_URL = re.compile(r"[A-Za-z][\w+.-]+://")
_SECRET = re.compile(r"((?:^|[?&])(?:ssl)?password=)[^&]*", re.IGNORECASE)


def is_address(path: object) -> bool:
    """Return whether a path is the address of a PostgreSQL database.

    >>> is_address("postgresql://localhost/kb"), is_address("postgresql")
    (True, False)
    """
    return isinstance(path, str) and _POSTGRES.match(path) is not None


def is_url(path: object) -> bool:
    """Return whether a path is an address of any kind."""
    return isinstance(path, str) and _URL.match(path) is not None


def shown(path: str | os.PathLike[str]) -> str:
    """Return a path or an address as it may be shown: without a password.

    >>> shown("postgresql://ada:secret@localhost:5432/kb?index=team&sslpassword=more")
    'postgresql://ada@localhost:5432/kb?index=team&sslpassword=…'
    >>> shown("postgresql://ada:a@b/c?d@localhost/kb")  # a password that should have been encoded
    'postgresql://ada@localhost/kb'
    """
    if not is_url(path):
        return os.fspath(path)
    scheme, _, rest = str(path).partition("://")
    user_info, at, place = rest.rpartition("@")
    head, _, query = rest.partition("?")
    if "@" in query and "@" not in head and ":" not in head.partition("/")[0]:  # such as ?user=ada@company
        user_info, at, place = "", "", rest
    user = user_info.partition(":")[0]
    place, mark, query = place.partition("?")
    return f"{scheme}://{user}{at}{place}{mark}" + _SECRET.sub(r"\1…", query)
