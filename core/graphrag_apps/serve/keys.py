"""API keys, each bound to a filter. A key is stored as a hash."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator

from graphrag_apps.config import read_toml
from graphrag_apps.serve.errors import NotAllowed, NotAuthenticated
from graphrag_core import filters
from graphrag_core.errors import ConfigError, FileError, InputError
from graphrag_core.filters import DOCUMENT_ID, Condition, Filter, Internal, Where

_PREFIX = "hgr_"


@dataclass(frozen=True)
class Key:
    """What a client may do.

    Parameters
    ----------
    name
        For logs and rate limits.
    where
        The filter that narrows every request. None if the key sees everything.
    write
        Whether documents and facts may be written.
    requests_per_minute
        The rate limit of the key; None for the limit of the server.
    sha256
        The hash of the secret, in hexadecimal; empty for a client that needs none.
    """

    name: str
    where: Filter | None = None
    write: bool = False
    requests_per_minute: float | None = None
    sha256: str = field(default="", repr=False)

    @property
    def restricted(self) -> bool:
        """Whether the key sees a part of the index only."""
        return self.where is not None

    def stamp(self, metadata: Mapping[str, Any], document_id: str = "") -> dict[str, Any]:
        """Return the metadata of a document that is written with the key, with the fields that its filter demands.

        Raises :class:`NotAllowed` if the metadata contradicts the filter, or has a list where the filter has one value.
        """
        stamped: dict[str, Any] = json.loads(json.dumps(dict(metadata)))
        if self.where is None:
            return stamped
        for part in filters.conjuncts(self.where):
            if isinstance(part, Condition) and part.operator == "eq" and part.key != DOCUMENT_ID:
                _fill(stamped, part)
        names = sorted({condition.key for condition in filters.conditions(self.where)})
        counts = Counter(name for name, _ in filters.attributes(stamped))
        for name in names:
            if counts[name] > 1:
                raise NotAllowed(f"{name!r} must have a single value: the API key is restricted by it")
        if not filters.matches(self.where, stamped, document_id):
            listed = ", ".join(map(repr, names))
            raise NotAllowed(f"the metadata contradicts the filter of the API key on {listed}: leave these fields out")
        return stamped


class ApiKeys:
    """The keys of a server.

    Examples
    --------
    >>> key, secret = ApiKeys.generate("team-a", {"tenant": "a"})
    >>> ApiKeys([key]).authenticate(secret).name
    'team-a'
    """

    def __init__(self, keys: Iterable[Key]) -> None:
        self.keys = _checked(keys)

    def __len__(self) -> int:
        return len(self.keys)

    @staticmethod
    def generate(
        name: str, where: Where | None = None, *, write: bool = False, requests_per_minute: float | None = None
    ) -> tuple[Key, str]:
        """Return a new key and its secret, which is stored nowhere."""
        secret = _PREFIX + secrets.token_urlsafe(32)
        return make_key(
            name, where, write=write, requests_per_minute=requests_per_minute, sha256=digest(secret)
        ), secret

    @classmethod
    def load(cls, path: str | Path) -> ApiKeys:
        """Read keys from a TOML file, as ``hybrid-graphrag key new`` writes it. Raises ``ConfigError``."""
        return cls(_read(Path(path)))

    @staticmethod
    def append(path: str | Path, key: Key, where: Where | None) -> None:
        """Add a key to a file, which is created for its owner alone."""
        path = Path(path)
        known = _read(path) if path.exists() else []
        if any(other.name == key.name for other in known):
            raise InputError(f"{path} has a key named {key.name!r}: choose another name, or delete its entry")
        lines = ["[[key]]", f"name = {_quoted(key.name)}", f"sha256 = {_quoted(key.sha256)}"]
        if where:
            lines.append(f"where = {_quoted(json.dumps(where))}")
        lines.append(f"write = {str(key.write).lower()}")
        if key.requests_per_minute is not None:
            lines.append(f"requests_per_minute = {key.requests_per_minute:g}")
        before = path.read_text("utf-8").rstrip("\n") + "\n\n" if known else ""
        temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(before + "\n".join(lines) + "\n")
            temporary.replace(path)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise FileError(f"{path} cannot be written ({error.strerror or error})") from error

    def authenticate(self, secret: str | None) -> Key:
        """Return the key of a secret. Every stored hash is compared, each in constant time.

        Raises :class:`NotAuthenticated` if there is no secret, or if no key has it.
        """
        given = digest(secret or "")
        matching = [key for key in self.keys if hmac.compare_digest(key.sha256, given)]
        if not secret or not matching:
            what = "the API key is unknown" if secret else "an API key is needed"
            raise NotAuthenticated(f"{what}: send the header 'Authorization: Bearer KEY'")
        return matching[0]


def make_key(
    name: str,
    where: Where | None = None,
    *,
    write: bool = False,
    requests_per_minute: float | None = None,
    sha256: str = "",
) -> Key:
    """Return a key. Callers are not told if no document has a field that its filter demands."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise InputError(f"the name of a key must be a printable text, not {name!r:.80}")
    if requests_per_minute is not None and not requests_per_minute > 0:
        raise InputError(f"requests_per_minute of {name!r} is {requests_per_minute!r}: use a positive number")
    parts = () if where is None else tuple(filters.conjuncts(filters.parse(where)))
    demanded = (Internal(one.key, one.operator, one.values) if isinstance(one, Condition) else one for one in parts)
    return Key(name, filters.parse_all(*demanded), write, requests_per_minute, sha256)


def digest(secret: str) -> str:
    """Return the hash of a secret. Secrets are random, so that a slow hash would add nothing."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _fill(metadata: dict[str, Any], condition: Condition) -> None:
    """Set a field that a filter demands, unless it is there."""
    ((kind, value),) = condition.values
    if any(name == condition.key for name, _ in filters.attributes(metadata)):
        return
    *outer, last = condition.key.split(".")
    inside: Any = metadata
    for name in outer:
        inside = inside.setdefault(name, {}) if isinstance(inside, dict) else None
    if isinstance(inside, dict) and last not in inside:
        inside[last] = None if kind == "null" else value


def _checked(keys: Iterable[Key]) -> tuple[Key, ...]:
    checked = tuple(keys)
    if len({key.name for key in checked}) < len(checked):
        raise InputError("two keys have the same name: names are needed for logs and rate limits")
    for key in checked:
        if not re.fullmatch("[0-9a-f]{64}", key.sha256):
            raise InputError(f"sha256 of the key {key.name!r} is not a hash: create keys with hybrid-graphrag key new")
    return checked


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    sha256: str
    where: dict[str, Any] | None = None
    write: bool = False
    requests_per_minute: float | None = None

    @field_validator("where", mode="before")
    @classmethod
    def _from_json(cls, value: Any) -> Any:
        where = json.loads(value) if isinstance(value, str) else value
        if not where:  # a scope that was lost must not open the index
            raise ValueError("an empty filter: leave it out for a key that sees everything")
        return where


class _KeyFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    key: list[_Entry] = []


def _read(path: Path) -> list[Key]:
    keys = []
    for entry in read_toml(path, _KeyFile).key:
        try:
            keys.append(make_key(**dict(entry)))
        except InputError as error:
            raise ConfigError(f"{path}: the key {entry.name!r}: {error}") from error
    return keys


def _quoted(text: str) -> str:
    """Return a text as a TOML string, which is written as in JSON."""
    return json.dumps(text).replace("\x7f", "\\u007f")
