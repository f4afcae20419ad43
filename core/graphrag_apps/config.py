"""The settings file ``hybrid-graphrag.toml``, for the command line, the servers and Python.

::

    kb = "kb"                                       # the folder of the index, or the address of its database
    embedder = "openai:text-embedding-3-small"

    [index]                                         # how files are indexed
    chunk-size = 512

    [serve]                                         # the servers
    port = 9000

    [retriever]                                     # arguments of GraphRetriever: fields of SearchSettings
    k = 8
    graph = {name = "neighbourhood", hops = 2}

``GraphRetriever(index, **load().retriever_arguments())`` uses the last section in Python.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from graphrag_core import strategies
from graphrag_core.engine.address import is_address
from graphrag_core.errors import ConfigError, InputError, optional_import, unknown_name
from graphrag_core.query.settings import SearchSettings
from graphrag_core.retriever import Cache

if TYPE_CHECKING:
    from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

NAME = "hybrid-graphrag.toml"
"""The name of the file that :func:`find` looks for."""
LOCAL = ("localhost", "127.0.0.1", "::1")
"""The names of this machine."""

STRATEGIES: Mapping[str, type] = {
    "pagerank": strategies.PageRank,
    "neighbourhood": strategies.Neighbourhood,
    "expansion": strategies.ExpansionQueries,
    "activation": strategies.SpreadingActivation,
    "related": strategies.RelatedEntities,
    "citations": strategies.CitationGraph,
}
FUSIONS: Mapping[str, type] = {
    "anchored": strategies.Anchored,
    "weighted": strategies.Weighted,
    "reciprocal_rank": strategies.ReciprocalRank,
    "additive": strategies.Additive,
    "own_scores": strategies.OwnScores,
}
_NAMED: Mapping[Any, Mapping[str, type]] = {
    strategies.GraphStrategy: STRATEGIES,
    strategies.Fusion: FUSIONS,
    strategies.Reranker: {"linear": strategies.Linear},
}
_NO_SETTINGS = ("cache", "refresh_every")  # arguments of a retriever that are not settings of a question
_Model = TypeVar("_Model", bound="BaseModel")
_KINDS: Mapping[str, Any] = {**get_type_hints(SearchSettings), "cache": Cache}
_STRICT: ConfigDict = {"strict": True, "allow_inf_nan": False, "arbitrary_types_allowed": True}


@dataclass(frozen=True)
class IndexTable:
    """The table ``[index]``: how ``index`` reads files. Options of a command replace its values.

    ``max_size`` is in megabytes; ``llm`` extracts facts.
    """

    chunk_size: int | None = field(default=None, metadata={"ge": 16})
    graph: bool | None = None
    edge: list[str] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    max_size: int = field(default=100, metadata={"ge": 1})
    llm: str | None = None


@dataclass(frozen=True)
class ServeTable:
    """The table ``[serve]``: settings of ``serve`` and ``mcp --http``.

    ``limits`` are fields of :class:`graphrag_apps.serve.Limits`; the times are in seconds.
    """

    host: str | None = None
    port: int | None = field(default=None, metadata={"ge": 0, "le": 65_535})
    keys: str | None = None
    allowed_hosts: list[str] | None = None
    refresh_every: float = field(default=1.0, metadata={"ge": 0})
    llm_timeout: float = field(default=60.0, metadata={"ge": 1})
    log_questions: bool = False
    limits: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Config:
    """What a settings file contains. Without a file it is empty.

    ``path`` is the file, and ``given`` the keys that it sets.
    """

    kb: str | None = None
    embedder: str | None = None
    embedder_url: str | None = None
    llm: str | None = None
    index: IndexTable = IndexTable()
    serve: ServeTable = ServeTable()
    retriever: dict[str, Any] = field(default_factory=dict)
    path: Path | None = field(default=None, kw_only=True)
    given: Mapping[str, Any] = field(default_factory=dict, kw_only=True)

    def retriever_arguments(self) -> dict[str, Any]:
        """Return keyword arguments for :class:`~graphrag_core.GraphRetriever`. A cross-encoder is loaded here."""
        return retriever_arguments(self.retriever)

    @property
    def addresses(self) -> list[str]:
        """The names of the settings that lead to another machine: an index, an embedder, a language model."""
        values = {"kb": self.kb, "embedder-url": self.embedder_url, "llm": self.llm}
        return [name for name, value in values.items() if value and "://" in value]

    def relative(self, place: str) -> str:
        """Return a folder or file that the settings file names, relative to the working directory."""
        if self.path is None or self.path.parent == Path.cwd() or is_address(place):
            return place
        return os.path.relpath(self.path.parent / Path(place).expanduser())

    @property
    def embedder_name(self) -> str | None:
        """The embedder. The folder of ``onnx:FOLDER`` is relative to the working directory."""
        kind, _, folder = (self.embedder or "").partition(":")
        return f"onnx:{self.relative(folder)}" if kind == "onnx" and folder else self.embedder


def find() -> Path | None:
    """Return the nearest ``hybrid-graphrag.toml`` in the working directory or above it.

    The search ends at the home folder, and before a folder of another owner: whoever may write there could send the
    documents and keys of other users to a server.
    """
    here = Path.cwd()
    owner = _owner(here)
    for parent in (here, *here.parents):
        if _owner(parent) != owner:
            return None
        with suppress(OSError):  # a folder that must not be read
            if (parent / NAME).is_file():
                return parent / NAME
        if parent == Path.home():
            return None
    return None


def _owner(folder: Path) -> int | None:
    try:
        return folder.stat().st_uid
    except OSError:
        return None


def load(path: str | Path | None = None) -> Config:
    r"""Read a settings file.

    Parameters
    ----------
    path
        The file. By default the nearest one (:func:`find`); if there is none, the result is empty.

    Raises
    ------
    ConfigError
        The file cannot be read, is not TOML, or has an unknown key or a value that cannot be used.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "hybrid-graphrag.toml"
    ...     _ = file.write_text('[retriever]\nk = 8\ngraph = {name = "neighbourhood", hops = 2}\n')
    ...     load(file).retriever_arguments()["graph"].hops
    2
    """
    file = find() if path is None else Path(path)
    if file is None:
        return Config()
    given = read_toml(file, _model(Config)).model_dump(by_alias=True, exclude_unset=True)
    config: Config = replace(_table(Config, given), path=file.absolute(), given=given)
    try:
        retriever_arguments(config.retriever)
    except ConfigError as error:
        raise ConfigError(f"{file}, [retriever]: {error}") from error
    return config


def _model(table: Any) -> type[BaseModel]:
    """Return the pydantic model that checks a table of the file. Its keys are written with hyphens."""
    with optional_import("pydantic", "cli", "Reading a settings file"):
        from pydantic import ConfigDict, Field, create_model  # noqa: PLC0415 - slow to import
    config = ConfigDict(
        **_STRICT, extra="forbid", populate_by_name=True, alias_generator=lambda name: name.replace("_", "-")
    )
    hints = get_type_hints(table)
    kinds = {name: _model(hint) if is_dataclass(hint) else hint for name, hint in hints.items()}
    keys: dict[str, Any] = {
        one.name: (kinds[one.name], Field(None, **one.metadata)) for one in fields(table) if not one.kw_only
    }
    model: type[BaseModel] = create_model(table.__name__, __config__=config, **keys)
    return model


def _table(table: Any, given: Mapping[str, Any]) -> Any:
    """Return a table with the values that the file gives."""
    hints = get_type_hints(table)
    values = {key.replace("-", "_"): value for key, value in given.items()}
    return table(**{name: _table(hints[name], value) if is_dataclass(hints[name]) else value
                    for name, value in values.items()})  # fmt: skip


def retriever_arguments(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return keyword arguments for :class:`~graphrag_core.GraphRetriever` from values that TOML and JSON can hold.

    Parameters
    ----------
    settings
        Fields of :class:`~graphrag_core.SearchSettings`, ``cache`` and ``refresh_every``. ``graph`` and ``fusion`` are
        a name, or a table with the name and fields: ``{"name": "pagerank", "damping": 0.8}``. ``reranker`` is true,
        false, "linear" or such a table. A table without a name changes fields of a part, which keeps its others:
        ``{"gate": {"min_score": 0.3}}``.

    Raises
    ------
    ConfigError
        A key is unknown, or a value cannot be used.

    Examples
    --------
    >>> retriever_arguments({"k": 8, "fusion": {"name": "weighted", "alpha": 0.5}})
    {'k': 8, 'fusion': Weighted(alpha=0.5, beta=0.3, relative_scores=True)}
    """
    arguments: dict[str, Any] = {}
    for name, value in settings.items():
        if name != "cache" and isinstance(value, Mapping) and "name" not in value:
            arguments |= _paths(name, value)
        else:
            arguments[name] = _object(_KINDS.get(name), value, name)
    try:
        SearchSettings().replace(**{name: value for name, value in arguments.items() if name not in _NO_SETTINGS})
    except InputError as error:
        raise ConfigError(str(error)) from error
    return arguments


def _paths(name: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a table by their paths.

    >>> _paths("gate", {"min_score": 0.3})
    {'gate.min_score': 0.3}
    """
    paths: dict[str, Any] = {}
    for key, value in table.items():
        paths |= _paths(f"{name}.{key}", value) if isinstance(value, Mapping) else {f"{name}.{key}": value}
    return paths


def load_toml(file: Path) -> dict[str, Any]:
    """Return the content of a TOML file; raise ``ConfigError`` if it cannot be read."""
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


def read_toml(file: Path, model: type[_Model]) -> _Model:
    """Read a TOML file into a model; raise ``ConfigError`` if it cannot be read or does not fit."""
    from pydantic import ValidationError  # noqa: PLC0415 - slow to import

    try:
        return model.model_validate(load_toml(file))
    except ValidationError as error:
        raise ConfigError(f"{file}: {_first_problem(error, model)}") from error


def _first_problem(error: ValidationError, model: Any) -> str:
    """Return the first problem in one line: the key, its value, and what it should be."""
    problem = error.errors()[0]
    *tables, key = map(str, problem["loc"])
    if problem["type"] == "missing":
        return f"{'.'.join([*tables, key])} is missing"
    if problem["type"] != "extra_forbidden":
        return _wrong_value(".".join([*tables, key]), error)
    for table in problem["loc"][:-1]:  # a number for an entry of a list of tables
        model = get_args(model)[0] if isinstance(table, int) else model.model_fields[table].annotation
    where = f"[{'.'.join(tables)}]: " if tables else ""
    return where + unknown_name(key, (field.alias or name for name, field in model.model_fields.items()), "key")


def _wrong_value(name: str, error: ValidationError) -> str:
    problem = error.errors()[0]
    return f"{name} is {problem['input']!r:.80}: {problem['msg'][:1].lower()}{problem['msg'][1:]}"


# -- objects of the section [retriever]


def _object(hint: Any, value: Any, name: str) -> Any:
    """Return the object that a name or a table describes; other values unchanged."""
    for kind in (hint, *get_args(hint)):
        if kind in _NAMED and not isinstance(value, bool):
            return _named(_NAMED[kind], value, name)
        if (is_dataclass(kind) or kind is Cache) and isinstance(value, Mapping):
            return _build(kind, value, name)
    return value


def _named(kinds: Mapping[str, type], value: Any, name: str) -> Any:
    """Return an object by its name, or by a table with the name and fields."""
    table = {"name": value} if isinstance(value, str) else value
    only = next(iter(kinds)) if len(kinds) == 1 else None
    if not isinstance(table, Mapping) or not isinstance(kind := table.get("name", only), str):
        raise ConfigError(f"{name} is {value!r:.80}: use one of {', '.join(kinds)}, or a table with a name")
    if kind not in kinds:
        raise ConfigError(f"{name}: {unknown_name(kind, kinds, 'name')}")
    return _build(kinds[kind], {key: field for key, field in table.items() if key != "name"}, name)


def _build(kind: Any, table: Mapping[str, Any], name: str) -> Any:
    """Return an object with the arguments of a table, checked against the types of the class."""
    from pydantic import ValidationError  # noqa: PLC0415 - slow to import

    parameters = inspect.signature(kind, eval_str=True).parameters.values()
    hints = {one.name: one.annotation for one in parameters if get_origin(one.annotation) is not Callable}
    arguments = {}
    for key, value in table.items():
        if key not in hints:
            raise ConfigError(f"{name}: {unknown_name(key, hints, 'key')}")
        arguments[key] = _object(hints[key], value, f"{name}.{key}")
        if arguments[key] is value:
            try:
                arguments[key] = _checker(hints[key]).validate_python(value)
            except ValidationError as error:
                raise ConfigError(_wrong_value(f"{name}.{key}", error)) from error
    try:
        return kind(**arguments)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{name}: {error}") from error


def _checker(hint: Any) -> TypeAdapter[Any]:
    """Return the validator of a type. A tuple is a list in a file."""
    from pydantic import ConfigDict, TypeAdapter  # noqa: PLC0415 - slow to import

    if is_dataclass(hint):
        return TypeAdapter(hint)
    is_tuple = any(get_origin(one) is tuple for one in (hint, *get_args(hint)))
    return TypeAdapter(hint, config=ConfigDict(**{**_STRICT, "strict": not is_tuple}))
