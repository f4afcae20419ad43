"""Where an index is: a folder, or the address of a PostgreSQL database. Needs no driver of a database.

An address is ``postgresql://user@host:port/database?index=NAME``. Errors, logs and representations show it without a
password. This library reads the parameters ``index``, ``schema`` (of the tables), ``pool`` (the maximum number of
connections of this process) and ``cache`` (the folder of this host for bases). libpq reads all others.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from graphrag_core.errors import InputError

_POSTGRES = re.compile(r"postgres(?:ql)?(?:\+\w+)?://", re.IGNORECASE)  # also as SQLAlchemy writes it
_URL = re.compile(r"[A-Za-z][\w+.-]+://")
_HOSTS = re.compile(r"(?:(?:\[[0-9A-Fa-f:.%]+\]|[^:,@/\[\]]*)(?::\d*)?(?:,|\Z))+\Z")  # hosts, each with a port
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}\Z")
_LONGEST_NAME = 200  # characters of an index's name
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


class Address(NamedTuple):
    """Where an index is: what libpq connects to, the name of the index, the schema of the tables, the host's cache."""

    conninfo: str
    name: str
    schema: str
    pool: int
    cache: str

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
        own = {"index": "default", "schema": "graphrag", "pool": "16", "cache": ""}
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
        return cls(conninfo, own["index"], own["schema"], int(own["pool"]), own["cache"])
