"""API keys, each bound to a filter. A key is stored as a hash."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import os
import secrets
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphrag_core.errors import FileError, GraphRAGError, InputError, MissingDependency
from graphrag_core.filters import DOCUMENT_ID, Condition, Filter, Group, Where, attributes, matches, optional, parse
from graphrag_core.serve.errors import NotAllowed, NotAuthenticated

_log = logging.getLogger(__name__)
_PREFIX = "hgr_"
_FIELDS = {"name", "sha256", "where", "write", "requests_per_minute"}


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
        The rate limit of the key; None for that of the server.
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

        Raises
        ------
        NotAllowed
            The metadata contradicts the filter, or has a list of values where the filter has one.
        """
        stamped = json.loads(json.dumps(dict(metadata)))
        if self.where is None:
            return dict(stamped)
        for condition in _demanded(self.where):
            _fill(stamped, condition)
        found: dict[str, int] = {}
        for name, _ in attributes(stamped):
            found[name] = found.get(name, 0) + 1
        for name in {condition.key for condition in _conditions(self.where)}:
            if found.get(name, 0) > 1:
                raise NotAllowed(f"{name!r} must have a single value: the API key is restricted by it")
        if not matches(self.where, stamped, document_id):
            names = ", ".join(sorted({repr(condition.key) for condition in _conditions(self.where)}))
            raise NotAllowed(f"the metadata contradicts the filter of the API key on {names}: leave these fields out")
        return dict(stamped)


class ApiKeys:
    """The keys of a server. Those in a file are read again when the file changes, so that a key can be revoked.

    Parameters
    ----------
    keys
        The keys.
    path
        The file that they were read from.

    Examples
    --------
    >>> key, secret = ApiKeys.generate("team-a", {"tenant": "a"})
    >>> keys = ApiKeys([key])
    >>> keys.find(secret).name, keys.find("guessed")
    ('team-a', None)
    """

    def __init__(self, keys: Iterable[Key], path: Path | None = None) -> None:
        self._keys = _checked(keys)
        self.path = path
        self._seen = _version(path)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys."""
        return self._keys

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
        """Read keys from a TOML file, as ``hybrid-graphrag key new`` writes it.

        Raises
        ------
        FileError
            The file cannot be read, or an entry has an unknown field.
        """
        path = Path(path)
        seen = _version(path)
        keys = cls(_read(path), path)
        keys._seen = seen
        return keys

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

    def find(self, secret: str) -> Key | None:
        """Return the key of a secret. Every stored hash is compared, each in constant time."""
        self._reload()
        given, found = digest(secret), None
        for key in self._keys:
            if hmac.compare_digest(key.sha256, given):
                found = key
        return found

    def authenticate(self, secret: str | None) -> Key:
        """Return the key of a secret.

        Raises
        ------
        NotAuthenticated
            There is no secret, or no key has it.
        """
        key = self.find(secret) if secret else None
        if key is None:
            what = "the API key is unknown" if secret else "an API key is needed"
            raise NotAuthenticated(f"{what}: send the header 'Authorization: Bearer KEY'")
        return key

    def _reload(self) -> None:
        if self.path is None or (seen := _version(self.path)) == self._seen:
            return
        with self._lock:
            self._seen = seen
            try:
                self._keys = _checked(_read(self.path))
            except GraphRAGError as error:
                _log.error("the keys are not read again, those before stay valid: %s", error)


def make_key(
    name: str,
    where: Where | None = None,
    *,
    write: bool = False,
    requests_per_minute: float | None = None,
    sha256: str = "",
) -> Key:
    """Return a key. Its filter matches nothing, instead of raising, while no document has one of its fields."""
    if not isinstance(name, str) or not name.strip() or not name.isprintable():
        raise InputError(f"the name of a key must be a printable text, not {name!r:.80}")
    if requests_per_minute is not None and not requests_per_minute > 0:
        raise InputError(f"requests_per_minute of {name!r} is {requests_per_minute!r}: use a positive number")
    scope = None if where is None else parse(where)
    if isinstance(scope, Group) and scope.all and not scope.parts:
        scope = None
    return Key(name, None if scope is None else optional(scope), write, requests_per_minute, sha256)


def digest(secret: str) -> str:
    """Return the hash of a secret. Secrets are random, so that a slow hash would add nothing."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _demanded(parsed: Filter) -> Iterable[Condition]:
    """Yield the equalities that every document inside a filter has."""
    if isinstance(parsed, Group) and parsed.all:
        for part in parsed.parts:
            yield from _demanded(part)
    elif isinstance(parsed, Condition) and parsed.operator == "eq" and parsed.key != DOCUMENT_ID:
        yield parsed


def _conditions(parsed: Filter) -> Iterable[Condition]:
    if isinstance(parsed, Condition):
        yield parsed
    else:
        for part in parsed.parts if isinstance(parsed, Group) else (parsed.part,):
            yield from _conditions(part)


def _fill(metadata: dict[str, Any], condition: Condition) -> None:
    """Set a field that a filter demands, unless it is there."""
    ((kind, value),) = condition.values
    if any(name == condition.key for name, _ in attributes(metadata)):
        return
    *outer, last = condition.key.split(".")
    inside: Any = metadata
    for name in outer:
        inside = inside.setdefault(name, {}) if isinstance(inside, dict) else None
    if isinstance(inside, dict) and last not in inside:
        inside[last] = None if kind == "null" else value


def _checked(keys: Iterable[Key]) -> tuple[Key, ...]:
    checked = tuple(keys)
    names = [key.name for key in checked]
    if len(set(names)) < len(names):
        raise InputError("two keys have the same name: names are needed for logs and rate limits")
    for key in checked:
        if len(key.sha256) != 64 or not set(key.sha256) <= set("0123456789abcdef"):
            raise InputError(f"sha256 of the key {key.name!r} is no hash: create keys with hybrid-graphrag key new")
    return checked


def _version(path: Path | None) -> tuple[int, int, int] | None:
    try:
        found = None if path is None else path.stat()
    except OSError:
        return None
    return None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)


def _read(path: Path) -> list[Key]:
    try:
        import tomllib  # noqa: PLC0415 - new in Python 3.11
    except ImportError:
        try:
            import tomli as tomllib  # type: ignore[import-not-found, no-redef, unused-ignore]  # noqa: PLC0415
        except ImportError as error:
            raise MissingDependency("tomli", "serve", "A file of API keys") from error
    try:
        stored = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise FileError(f"{path} cannot be read ({error.strerror or error})") from error
    except ValueError as error:
        raise FileError(f"{path} is not TOML ({error})") from error
    entries = stored.get("key", [])
    if set(stored) - {"key"} or not isinstance(entries, list):
        raise FileError(f"{path} must have [[key]] entries only, as hybrid-graphrag key new writes them")
    return [_entry(path, entry) for entry in entries]


def _entry(path: Path, entry: Any) -> Key:
    name = entry.get("name", "?") if isinstance(entry, dict) else "?"
    if not isinstance(entry, dict) or set(entry) - _FIELDS or not {"name", "sha256"} <= set(entry):
        raise FileError(f"{path}: the key {name!r} must have name and sha256, and may have where, write and "
                        "requests_per_minute")  # fmt: skip
    where, write, rate = entry.get("where"), entry.get("write", False), entry.get("requests_per_minute")
    try:
        where = json.loads(where) if isinstance(where, str) else where
    except ValueError as error:
        raise FileError(f"{path}: where of the key {name!r} is not JSON ({error})") from error
    if "where" in entry and not where:  # a scope that was lost must not open the index
        raise FileError(f"{path}: where of the key {name!r} is empty: leave it out for a key that sees everything")
    if not isinstance(write, bool) or isinstance(rate, bool) or not isinstance(rate, int | float | None):
        raise FileError(f"{path}: write of the key {name!r} must be true or false, requests_per_minute a number")
    try:
        return make_key(name, where, write=write, requests_per_minute=rate, sha256=str(entry["sha256"]))
    except InputError as error:
        raise FileError(f"{path}: the key {name!r}: {error}") from error


def _quoted(text: str) -> str:
    """Return a text as a TOML string, which is written as in JSON."""
    return json.dumps(text).replace("\x7f", "\\u007f")
