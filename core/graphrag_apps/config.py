"""The settings file ``hybrid-graphrag.toml``, for the command line, the servers and Python.

::

    kb = "kb"                                       # the folder of the index, or the address of its database
    embedder = "openai:text-embedding-3-small"
    embedder-url = "http://localhost:8000/v1"       # of an OpenAI-compatible server
    llm = "gpt-4o-mini"                             # writes answers
    design = "kg2rag"                               # a published design

    [set]                                           # fields of SearchSettings, and numbers of parts by their path
    k = 8
    gate.min_score = 0.3
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from graphrag_core.designs import DESIGNS
from graphrag_core.engine.address import is_address
from graphrag_core.errors import ConfigError, InputError, optional_import, unknown_name
from graphrag_core.query.settings import SearchSettings

NAME = "hybrid-graphrag.toml"
"""The name of the file that :func:`find` looks for."""

KEYS = ("kb", "embedder", "embedder-url", "llm", "design", "set")
"""What a file may set."""


@dataclass(frozen=True)
class Config:
    """What a settings file contains; without a file it is empty. ``numbers`` are those of ``set``, by their path.

    Folders are relative to the working directory.
    """

    kb: str | None = None
    embedder: str | None = None
    embedder_url: str | None = None
    llm: str | None = None
    design: str | None = None
    numbers: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None

    def settings(self, design: str | None = None, **given: Any) -> SearchSettings:
        """Return the settings of a question: those of the design, then of the file, then the given ones."""
        given = {name: value for name, value in given.items() if value is not None}
        return search_settings(design or self.design, {**self.numbers, **given})


def search_settings(design: str | None = None, given: Mapping[str, Any] | None = None) -> SearchSettings:
    """Return the settings of a design, by default the default ones, with some fields replaced.

    >>> search_settings("kg2rag", {"k": 3, "gate.min_score": 0.3}).gate.min_score
    0.3
    """
    if design is not None and design not in DESIGNS:
        raise InputError(unknown_name(design, DESIGNS, "design"))
    settings = SearchSettings() if design is None else DESIGNS[design]
    return settings.replace(**given or {})


def find() -> Path | None:
    """Return the nearest ``hybrid-graphrag.toml`` in the working directory or above it.

    The search ends at the home folder, and before a folder of another owner: whoever may write there could send the
    documents and keys of other users to a server.
    """
    here = Path.cwd()
    for parent in (here, *here.parents):
        try:
            if parent.stat().st_uid != here.stat().st_uid:
                return None
            if (parent / NAME).is_file():
                return parent / NAME
        except OSError:  # a folder that must not be read
            return None
        if parent == Path.home():
            return None
    return None


def load(path: str | Path | None = None) -> Config:
    """Read a settings file, by default the nearest one (:func:`find`); without one the result is empty.

    Raises
    ------
    ConfigError
        The file cannot be read, is not TOML, or has an unknown key or a value that cannot be used.
    """
    file = find() if path is None else Path(path)
    if file is None:
        return Config()
    given = load_toml(file)
    if unknown := given.keys() - {*KEYS}:
        raise ConfigError(f"{file}: {unknown_name(min(unknown), KEYS, 'key')}")
    numbers = given.pop("set", {})
    if not isinstance(numbers, dict):
        raise ConfigError(f"{file}: set is {numbers!r:.80}: write a table [set]")
    if wrong := next((name for name, value in given.items() if not isinstance(value, str)), None):
        raise ConfigError(f"{file}: {wrong} is {given[wrong]!r:.80}: use a text")
    values = {name.replace("-", "_"): value for name, value in given.items()}
    if "kb" in values and not is_address(values["kb"]):
        values["kb"] = _relative(file, values["kb"])
    if values.get("embedder", "").startswith("onnx:"):
        values["embedder"] = f"onnx:{_relative(file, values['embedder'].removeprefix('onnx:'))}"
    config = Config(**values, numbers=_paths(numbers), path=file.absolute())
    try:
        config.settings()
    except InputError as error:
        raise ConfigError(f"{file}: {error}") from error
    return config


def _relative(file: Path, place: str) -> str:
    """Return a folder that a settings file names, relative to the working directory."""
    return os.path.relpath(file.absolute().parent / Path(place).expanduser())


def _paths(table: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return the values of nested tables by their paths.

    >>> _paths({"k": 8, "gate": {"min_score": 0.3}})
    {'k': 8, 'gate.min_score': 0.3}
    """
    paths: dict[str, Any] = {}
    for key, value in table.items():
        paths |= _paths(value, f"{above}{key}.") if isinstance(value, Mapping) else {f"{above}{key}": value}
    return paths


def load_toml(file: Path) -> dict[str, Any]:
    """Read a TOML file; raise ``ConfigError`` if it cannot be read."""
    try:
        import tomllib as toml  # noqa: PLC0415 - Python 3.10 has none
    except ModuleNotFoundError:
        with optional_import("tomli", "cli", f"Reading {file.name} with Python 3.10"):
            import tomli as toml  # type: ignore[import-not-found, no-redef, unused-ignore]  # noqa: PLC0415
    try:
        content: dict[str, Any] = toml.loads(file.read_text("utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror or error})") from error
    except ValueError as error:  # also of UTF-8
        raise ConfigError(f"{file}: is not TOML ({error})") from error
    return content
