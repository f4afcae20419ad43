"""API keys: each has a name, a filter that narrows every request, and the right to write or none.

A file of keys stores the SHA-256 of each secret, and no secret::

    [[key]]
    name = "team-a"
    sha256 = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
    where = '{"tenant": "a"}'
    write = true
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphrag_apps.config import load_toml
from graphrag_apps.serve.errors import Refused
from graphrag_core.errors import ConfigError, FilterError, InputError, unknown_name
from graphrag_core.filters import (
    DOCUMENT_ID,
    Condition,
    Filter,
    Where,
    attributes,
    conditions,
    conjuncts,
    matches,
    parse,
)

_FIELDS = ("name", "sha256", "where", "write")
_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Key:
    """An API key. ``where`` is the filter of its requests, None for no filter."""

    name: str
    where: Filter | None = None
    write: bool = False
    sha256: str = field(default="", repr=False)

    @property
    def restricted(self) -> bool:
        """Whether it has a filter."""
        return self.where is not None

    def stamp(self, metadata: Mapping[str, Any], document_id: str = "") -> dict[str, Any]:
        """Return the metadata of a document that is written with this key: with the fields that its filter demands.

        Raises
        ------
        Refused
            The document would be outside of the filter, or visible to others because a field has other values, too.
        """
        stamped = copy.deepcopy(dict(metadata))
        if self.where is None:
            return stamped
        for part in conjuncts(self.where):
            is_field = isinstance(part, Condition) and part.operator in ("eq", "in") and part.key != DOCUMENT_ID
            if isinstance(part, Condition) and is_field and len(part.values) == 1:
                _set_missing(stamped, part.key, part.values[0])
        if not _is_inside(self.where, stamped, document_id):
            raise Refused(403, f"the metadata is outside of the filter of the key {self.name!r}: leave its fields out")
        return stamped


def _is_inside(where: Filter, metadata: Mapping[str, Any], document_id: str) -> bool:
    """Return whether metadata matches a filter, also with each value of a field alone."""
    values: dict[str, list[Any]] = {}
    for name, (kind, value) in attributes(metadata):
        values.setdefault(name, []).append(None if kind == "null" else value)
    named = {condition.key for condition in conditions(where)} & values.keys()
    alone = [{**values, name: value} for name in named for value in values[name]]
    return all(matches(where, one, document_id) for one in (metadata, *alone))


def _set_missing(metadata: dict[str, Any], key: str, value: tuple[str, Any]) -> None:
    """Set a field, of nested mappings if its name has dots, unless it is there."""
    *above, last = key.split(".")
    inner: Any = {} if key in metadata else metadata
    for name in above:
        inner = inner.setdefault(name, {}) if isinstance(inner, dict) else inner
    if isinstance(inner, dict):
        inner.setdefault(last, None if value[0] == "null" else value[1])


def make_key(name: Any, where: Where | None = None, *, write: bool = False, sha256: str = "") -> Key:
    """Return a key after checking its name and filter."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise InputError(f"the name of a key is {name!r:.80}: use printable characters")
    try:
        parsed = None if where is None else parse(where)
    except FilterError as error:
        raise FilterError(f"the filter of the key {name!r}: {error}") from error
    return Key(name, parsed, write, sha256)


class ApiKeys:
    """The keys that a server accepts, found by their secrets.

    Examples
    --------
    >>> key, secret = ApiKeys.generate("team-a", {"tenant": "a"})
    >>> ApiKeys([key]).authenticate(secret).name
    'team-a'
    """

    def __init__(self, keys: Iterable[Key]) -> None:
        self._keys = {key.sha256: key for key in keys}

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, name: str) -> bool:
        return any(key.name == name for key in self._keys.values())

    def authenticate(self, secret: str | None) -> Key:
        """Return the key of a secret. Raise ``Refused`` if there is none."""
        key = self._keys.get(_digest(secret)) if secret else None
        if key is None:
            raise Refused(401, "send a valid key in the header 'Authorization: Bearer KEY'")
        return key

    @staticmethod
    def generate(name: str, where: Where | None = None, *, write: bool = False) -> tuple[Key, str]:
        """Return a new key and its secret, which is stored nowhere."""
        secret = f"hgr_{secrets.token_urlsafe(32)}"
        return make_key(name, where, write=write, sha256=_digest(secret)), secret

    @classmethod
    def load(cls, path: str | Path) -> ApiKeys:
        """Read a file of keys.

        Raises
        ------
        ConfigError
            The file cannot be read, or has an entry that cannot be used, such as one with an empty filter.
        """
        content = load_toml(Path(path))
        if others := content.keys() - {"key"}:
            raise ConfigError(f"{path}: {unknown_name(min(others), ['key'], 'key')}")
        entries = content.get("key", [])
        if not isinstance(entries, list):
            raise ConfigError(f"{path}: write each key as a table [[key]]")
        try:
            return cls([_read(f"key.{number}", entry) for number, entry in enumerate(entries)])
        except InputError as error:
            raise ConfigError(f"{path}: {error}") from error

    @classmethod
    def append(cls, path: str | Path, key: Key, where: Where | None) -> None:
        """Add a key to a file, which is created if it is missing, readable for its owner only."""
        path = Path(path)
        if path.exists() and key.name in cls.load(path):
            raise InputError(f"{path} has a key named {key.name!r}: choose another name")
        lines = ["[[key]]", f"name = {_toml(key.name)}", f"sha256 = {_toml(key.sha256)}"]
        lines += [] if where is None else [f"where = {_toml(json.dumps(where))}"]
        lines += ["write = true"] if key.write else []
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n\n")
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written ({error.strerror or error})") from error


def _read(place: str, entry: Any) -> Key:
    """Return the key of an entry of a file. An empty filter, which matches everything, is refused."""
    if not isinstance(entry, dict):
        raise InputError(f"{place} is {entry!r:.80}: use a table")
    if others := entry.keys() - {*_FIELDS}:
        raise InputError(f"[{place}]: {unknown_name(min(others), _FIELDS, 'key')}")
    sha256, write, where = entry.get("sha256"), entry.get("write", False), entry.get("where")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise InputError(f"{place}.sha256 is missing, or not a hash: make a key with 'hybrid-graphrag key new'")
    if not isinstance(write, bool):
        raise InputError(f"{place}.write is {write!r}: use true or false")
    if isinstance(where, str):
        try:
            where = json.loads(where)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{place}.where is {where!r:.80}: it is not JSON ({error})") from error
    if "where" in entry and not (isinstance(where, dict) and where):
        raise InputError(f"{place}.where is an empty filter: leave it out if the key may see everything")
    return make_key(entry.get("name"), where, write=write, sha256=sha256)


def _toml(text: str) -> str:
    """Return a text as a basic string of TOML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
