"""The configuration file ``hybrid-graphrag.toml``: options of commands, and settings of the retriever.

::

    kb = "kb"                       # options of every command that has them
    embedder = "openai:text-embedding-3-small"

    [query]                         # options of one command, by their long names
    k = 8

    [retriever]                     # keyword arguments of GraphRetriever
    graph = "neighbourhood"
    vector_weight = 0.5

``GraphRetriever(index, **load().retriever)`` uses the last section in Python. The command line checks the others.
"""

import math
import os
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from graphrag_core.errors import ConfigError, MissingDependency
from graphrag_core.query.calibration import Calibration
from graphrag_core.query.coverage import Coverage
from graphrag_core.query.cross_encoder import CrossEncoder
from graphrag_core.query.fusion import Additive, Anchored, Fusion, Gate, OwnScores, ReciprocalRank, Weighted
from graphrag_core.query.query import OnEmbedderError
from graphrag_core.query.recognise import Recogniser
from graphrag_core.query.settings import Method
from graphrag_core.query.strategies import (
    CitationGraph,
    ExpansionQueries,
    Neighbourhood,
    PageRank,
    RelatedEntities,
    SpreadingActivation,
)
from graphrag_core.retriever import Cache

NAME = "hybrid-graphrag.toml"
"""The name of the file that :func:`find` looks for."""

STRATEGIES: Mapping[str, type] = {
    "pagerank": PageRank,
    "neighbourhood": Neighbourhood,
    "expansion": ExpansionQueries,
    "activation": SpreadingActivation,
    "related": RelatedEntities,
    "citations": CitationGraph,
}
FUSIONS: Mapping[str, type] = {
    "anchored": Anchored,
    "weighted": Weighted,
    "reciprocal_rank": ReciprocalRank,
    "additive": Additive,
    "own_scores": OwnScores,
}
RERANKERS: Mapping[str, type] = {"coverage": Coverage}

_SECTION = "retriever"


@dataclass(frozen=True)
class Config:
    """What a configuration file says. Without a file it is empty.

    Parameters
    ----------
    path
        The file; None if there is none.
    options
        The keys above the first section: options of every command that has them.
    sections
        Options by command.
    retriever_settings
        The section ``[retriever]`` as it is written. It is checked when the file is loaded.
    """

    path: Path | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    sections: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    retriever_settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def retriever(self) -> dict[str, Any]:
        """Keyword arguments for :class:`~graphrag_core.GraphRetriever`. A cross-encoder is loaded here."""
        return retriever_arguments(self.retriever_settings, folder=self.folder)

    @property
    def folder(self) -> Path:
        """The folder of the file, to which relative paths in it refer."""
        return Path() if self.path is None else self.path.parent


def find(folder: str | Path | None = None) -> Path | None:
    """Return the nearest ``hybrid-graphrag.toml`` in a folder (by default the working directory) or above it."""
    start = Path(folder or os.getcwd()).absolute()  # noqa: PTH109 - Path.cwd() has no default
    for parent in (start, *start.parents):
        file = parent / NAME
        try:
            if file.is_file():
                return file
        except OSError:  # a folder that must not be read
            continue
    return None


def load(path: str | Path | None = None) -> Config:
    r"""Read a configuration file.

    Parameters
    ----------
    path
        The file. By default the nearest one (:func:`find`); if there is none, the result is empty.

    Raises
    ------
    ConfigError
        The file cannot be read, is not TOML, or has a section ``[retriever]`` with unknown keys or unusable values.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "hybrid-graphrag.toml"
    ...     _ = file.write_text('[retriever]\nk = 8\ngraph = {name = "neighbourhood", hops = 2}\n')
    ...     load(file).retriever["graph"].hops
    2
    """
    file = find() if path is None else Path(path)
    if file is None:
        return Config()
    content = _read(file)
    tables = {name: value for name, value in content.items() if isinstance(value, dict)}
    options = {name: value for name, value in content.items() if not isinstance(value, dict)}
    settings = tables.pop(_SECTION, options.pop(_SECTION, {}))
    try:
        retriever_arguments(settings, folder=file.parent, load_models=False)
    except ConfigError as error:
        raise ConfigError(f"{file}, [{_SECTION}]: {error}") from error
    return Config(file.absolute(), options, tables, settings)


def retriever_arguments(
    settings: Mapping[str, Any], *, folder: str | Path = "", load_models: bool = True
) -> dict[str, Any]:
    """Return keyword arguments for :class:`~graphrag_core.GraphRetriever` from values that TOML and JSON can hold.

    Parameters
    ----------
    settings
        ``method``, ``k``, ``candidates``, ``use_graph``, ``vector_weight``, ``text_weight``, ``score_threshold``,
        ``refresh_every``, ``on_embedder_error`` and ``inverses`` as the retriever takes them. ``graph`` and
        ``fusion`` are a name, or a table with the name and fields: ``{"name": "pagerank", "damping": 0.8}``.
        ``reranker`` is true, false, "coverage", such a table, "onnx:FOLDER" or "fastembed:MODEL". ``gate`` and
        ``recogniser`` are tables of fields; ``calibration`` and ``cache`` true, false or a table.
    folder
        To which a relative folder of an ONNX model refers.
    load_models
        False checks the settings without loading a cross-encoder.

    Raises
    ------
    ConfigError
        A key is unknown, or a value cannot be used.

    Examples
    --------
    >>> retriever_arguments({"k": 8, "fusion": {"name": "weighted", "alpha": 0.5}})
    {'k': 8, 'fusion': Weighted(alpha=0.5, beta=0.3)}
    """
    if not isinstance(settings, Mapping):
        raise ConfigError(f"{settings!r:.80} must be a table of settings")
    arguments: dict[str, Any] = {}
    for name, value in settings.items():
        if name not in _ARGUMENTS:
            raise ConfigError(unknown(name, _ARGUMENTS, "setting"))
        if name == "reranker" and isinstance(value, str) and value not in RERANKERS:
            _check_model(value)
            arguments[name] = _cross_encoder(value, Path(folder)) if load_models else True
        else:
            arguments[name] = _ARGUMENTS[name](value, name)
    weights = [arguments.get(name) for name in ("vector_weight", "text_weight")]
    if weights == [0, 0]:
        raise ConfigError("vector_weight and text_weight are both 0: one of them must be positive")
    return arguments


def unknown(name: str, known: Iterable[str], kind: str) -> str:
    """Return the message for an unknown name: the nearest known one, or all of them.

    >>> unknown("vector_wight", ["vector_weight", "k"], "setting")
    "unknown setting 'vector_wight': did you mean 'vector_weight'?"
    """
    names = sorted(known)
    if near := get_close_matches(name, names, 1):
        return f"unknown {kind} {name!r}: did you mean {near[0]!r}?"
    return f"unknown {kind} {name!r}: use {', '.join(names)}"


# -- values


def _value(hint: Any) -> Callable[[Any, str], Any]:
    return lambda value, name: _convert(value, hint, name)


def _number(least: float, *, whole: bool = False) -> Callable[[Any, str], float]:
    def check(value: Any, name: str) -> float:
        number: float = _convert(value, int if whole else float, name)
        if not least <= number < (1 << 31 if whole else math.inf):
            raise ConfigError(f"{name} is {value!r:.80}: use a number of at least {least:g}{', below 2^31' * whole}")
        return number

    return check


def _object(kinds: Mapping[str, type], *, default: str = "") -> Callable[[Any, str], Any]:
    """Return a function that makes an object of a name or a table; with ``default`` the table needs no name."""

    def make(value: Any, name: str) -> Any:
        table = {"name": value} if isinstance(value, str) else value
        if not isinstance(table, Mapping) or not isinstance(kind := table.get("name", default), str):
            raise ConfigError(f"{name} is {value!r:.80}: use one of {', '.join(kinds)}, or a table with a name")
        if kind not in kinds:
            raise ConfigError(f"{name}: {unknown(kind, kinds, 'name')}")
        return _make(kinds[kind], {key: one for key, one in table.items() if key != "name"}, name)

    return make


def _switch(kind: type) -> Callable[[Any, str], Any]:
    """Return a function that takes true, false or a table of fields."""
    return lambda value, name: value if isinstance(value, bool) else _make(kind, value, name)


def _reranker(value: Any, name: str) -> Any:
    return value if isinstance(value, bool) else _object(RERANKERS, default="coverage")(value, name)


def _cache(value: Any, name: str) -> Any:
    if isinstance(value, bool):
        return value
    table = _convert(value, Mapping[str, float], name)
    if extra := table.keys() - {"seconds", "entries"}:
        raise ConfigError(f"{name}: {unknown(min(extra), ('seconds', 'entries'), 'field')}")
    try:
        return Cache(seconds=table.get("seconds", 60.0), entries=int(table.get("entries", 1_024)))
    except (ValueError, OverflowError) as error:  # InputError is a ValueError; infinity is no whole number
        raise ConfigError(f"{name}: {error}") from error


def _make(kind: type, table: Any, name: str) -> Any:
    """Return an object of a dataclass with fields of a table, checked against the types of the class."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"{name} is {table!r:.80}: use a table of fields")
    known = {one.name: one for one in fields(kind) if one.init}
    hints = get_type_hints(kind)
    given = {}
    for key, value in table.items():
        if key not in known:
            raise ConfigError(f"{name}: {unknown(str(key), known, 'field')}")
        given[key] = _convert(value, hints[key], f"{name}.{key}")
    missing = [one.name for one in known.values() if one.default is MISSING and one.default_factory is MISSING]
    if absent := [one for one in missing if one not in given]:
        raise ConfigError(f"{name} needs {', '.join(absent)}")
    try:
        return kind(**given)
    except (ValueError, TypeError) as error:  # InputError is a ValueError
        raise ConfigError(f"{name}: {error}") from error


def _convert(value: Any, hint: Any, name: str) -> Any:  # noqa: PLR0911 - one return for each kind of type
    """Return a value of TOML as a type; raise if it is another one."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Fusion:
        return _object(FUSIONS)(value, name)
    if is_dataclass(hint):
        return _make(hint, value, name)  # type: ignore[arg-type]
    if origin in (Union, types.UnionType):
        return _convert(value, next(one for one in inner if one is not type(None)), name)
    if origin is Literal:
        if value in inner:
            return value
        raise ConfigError(f"{name} is {value!r:.80}: use {' or '.join(map(repr, inner))}")
    if origin is tuple and isinstance(value, list):
        return tuple(_convert(one, inner[0], name) for one in value)
    if origin is not None and issubclass(origin, Mapping) and isinstance(value, Mapping):
        return {key: _convert(one, inner[1], f"{name}.{key}") for key, one in value.items()}
    accepted = {float: (int, float), int: (int,), bool: (bool,), str: (str,)}.get(hint, ())
    is_number = not isinstance(value, float) or not math.isnan(value)
    if isinstance(value, accepted) and (hint is bool or not isinstance(value, bool)) and is_number:
        return float(value) if hint is float else value
    wanted = {float: "a number", int: "a whole number", bool: "true or false", str: "a text", tuple: "a list"}
    raise ConfigError(f"{name} is {value!r:.80}: use {wanted.get(origin or hint, 'a table')}")


_ARGUMENTS: Mapping[str, Callable[[Any, str], Any]] = {
    "method": _value(Method),
    "k": _number(1, whole=True),
    "candidates": _number(1, whole=True),
    "use_graph": _value(bool),
    "graph": _object(STRATEGIES),
    "fusion": _object(FUSIONS),
    "reranker": _reranker,
    "gate": _object({"gate": Gate}, default="gate"),
    "recogniser": _object({"recogniser": Recogniser}, default="recogniser"),
    "calibration": _switch(Calibration),
    "cache": _cache,
    "vector_weight": _number(0),
    "text_weight": _number(0),
    "score_threshold": _number(0),
    "refresh_every": _number(0),
    "inverses": _value(Mapping[str, str]),
    "on_embedder_error": _value(OnEmbedderError),
}


def _check_model(name: str) -> None:
    kind, _, model = name.partition(":")
    if kind not in ("onnx", "fastembed") or not model:
        raise ConfigError(f"reranker is {name!r}: use true, false, 'coverage', 'onnx:FOLDER' or 'fastembed:MODEL'")


def _cross_encoder(name: str, folder: Path) -> CrossEncoder:
    kind, _, model = name.partition(":")
    return CrossEncoder(folder / model) if kind == "onnx" else CrossEncoder.fastembed(model)


# -- TOML


def _read(file: Path) -> dict[str, Any]:
    try:
        text = file.read_text("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not UTF-8 ({error.reason})") from error
    try:
        import tomllib as toml  # noqa: PLC0415 - Python 3.10 has none
    except ModuleNotFoundError:
        try:
            import tomli as toml  # type: ignore[import-not-found, no-redef, unused-ignore]  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise MissingDependency("tomli", "cli", f"Reading {NAME} with Python 3.10") from error
    try:
        return toml.loads(text)
    except toml.TOMLDecodeError as error:
        raise ConfigError(f"{file}: is not TOML ({error})") from error
