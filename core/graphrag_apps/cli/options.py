"""Options that several commands share, and functions that turn them into an index, a retriever or a filter."""

import inspect
import json
import os
import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import typer
from typer import Option
from typing_extensions import Self

from graphrag_apps.cli.render import program, working
from graphrag_apps.config import LOCAL, NAME, STRATEGIES, Config
from graphrag_apps.documents.rows import parse_value
from graphrag_core import Chunker, GraphRetriever, KnowledgeIndex, extract
from graphrag_core.designs import DESIGNS
from graphrag_core.embedders import OllamaEmbedder, Onnx, OpenAIEmbedder, WordLlama
from graphrag_core.engine.address import shown
from graphrag_core.errors import InputError, MissingDependency, NotAnIndex, unknown_name
from graphrag_core.index import stored_settings
from graphrag_core.llm import OpenAIChat, open_llm
from graphrag_core.ports import Embedder, Extractor
from graphrag_core.query.settings import PARTS, SearchSettings, search_options
from graphrag_core.query.settings import Option as Setting

Kb = Annotated[
    str,
    Option(metavar="PLACE", envvar="HYBRID_GRAPHRAG_KB", help="Folder of the index, or the address of its database."),
]
EmbedderName = Annotated[
    str | None,
    Option(
        "--embedder",
        metavar="NAME",
        help="wordllama, openai:MODEL (any OpenAI-compatible server; the key is read from OPENAI_API_KEY), "
        "ollama:MODEL, onnx:FOLDER with model.onnx and tokenizer.json, hash (hashed words, not for "
        "production), or none: no vectors, keyword and graph search only, no model needed. "
        "Default: the embedder of the index; wordllama for a new one.",
    ),
]
LLM = Annotated[
    str | None,
    Option(
        metavar="MODEL",
        envvar="HYBRID_GRAPHRAG_LLM",
        help="A model of OpenAI, or http://host:port/v1/MODEL for any compatible server (Ollama, vLLM, LM Studio). "
        "The key is read from OPENAI_API_KEY. none for no language model.",
    ),
]
Where = Annotated[
    list[str] | None,
    Option(
        "--where",
        "-w",
        metavar="KEY=VALUE",
        help="Filter: team=identity, year>=2020, draft!=true, team? (has the key). Can be repeated.",
    ),
]
Limit = Annotated[int, Option("--limit", "-n", min=0, help="At most this number; 0 for all.")]
AsOf = Annotated[str | None, Option(metavar="DATE", help="Use remembered facts that were valid then.")]
Json = Annotated[bool, Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print errors only.")]
KB = "kb"  # the default folder
BASE_URL = "OPENAI_BASE_URL"  # the environment variable with the server of a model that is named without one
CONFIG: ContextVar[Config] = ContextVar("config", default=Config())  # noqa: B039 - frozen; the settings file in use

_SETTING = "command_line"  # what the command line stores with an index
_OPERATORS = {"!=": "ne", ">=": "gte", "<=": "lte", ">": "gt", "<": "lt", "=": "eq"}
_CONDITION = re.compile(r"(?!!=|[<>=])(.+?)(?:(!=|>=|<=|>|<|=)(.*)|\?)", re.DOTALL)


def parse_where(conditions: list[str] | None) -> dict[str, Any] | None:
    """Convert conditions to a filter; all of them must match.

    >>> parse_where(["team=identity", "year>=2020", "year<2024"])
    {'and': [{'team': {'eq': 'identity'}}, {'year': {'gte': 2020}}, {'year': {'lt': 2024}}]}
    >>> parse_where(["team?"])
    {'and': [{'team': {'exists': True}}]}
    """
    parsed: list[dict[str, Any]] = []
    for condition in conditions or ():
        match = _CONDITION.fullmatch(condition)
        if match is None or not (key := match[1].strip()):
            message = f"{condition!r} is not a condition: use KEY=VALUE, KEY!=VALUE, KEY>=VALUE or KEY?"
            raise typer.BadParameter(message, param_hint="--where")
        parsed.append({key: {_OPERATORS[match[2]]: parse_value(match[3])} if match[2] else {"exists": True}})
    return {"and": parsed} if parsed else None


def parse_pairs(pairs: list[str] | None, option: str) -> dict[str, Any]:
    """Convert ``key=value`` pairs of an option to a dict.

    >>> parse_pairs(["team=identity", "year=2021"], "--metadata")
    {'team': 'identity', 'year': 2021}
    """
    values = {}
    for pair in pairs or ():
        key, sign, value = pair.partition("=")
        if not sign or not key.strip():
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=option)
        values[key.strip()] = parse_value(value)
    return values


def expand(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameter that is a dataclass of options by the fields of the class.

    The field ``settings`` is replaced by the search settings that are offered as options.
    """
    parameters = inspect.signature(command).parameters.values()
    (group,) = (parameter for parameter in parameters if is_dataclass(parameter.annotation))
    fields = inspect.signature(group.annotation).parameters
    settings = {option.name: _setting_parameter(option) for option in search_options()} if "settings" in fields else {}
    expanded: list[inspect.Parameter] = []
    for parameter in parameters:
        for option in fields.values() if parameter is group else [parameter]:
            expanded += settings.values() if option.name == "settings" else [option]
    expanded = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in expanded]

    def run(**given: Any) -> None:
        values = {name: given.pop(name) for name in fields if name != "settings"}
        if settings:
            values["settings"] = {name: given.pop(name) for name in settings}
        command(**given, **{group.name: group.annotation(**values)})

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(expanded)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in expanded}
    return run


# -- searching


def _setting_parameter(option: Setting) -> inspect.Parameter:
    """Return a search setting as an option of a command."""
    kind: Any = Literal[option.choices] if option.choices else option.type
    name = option.name.replace("_", "-")
    names = [f"--{name}/--no-{name}" if option.type is bool else f"--{name}", *([f"-{name}"] if len(name) == 1 else [])]
    numeric = option.type in (int, float)
    bounds: dict[str, Any] = {"min": option.minimum, "max": option.maximum, "metavar": "N"} if numeric else {}
    default = "" if option.default is None else f" Default: {str(option.default).lower()}."
    annotation = Annotated[kind | None, Option(*names, help=option.help + default, **bounds)]
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


@dataclass(frozen=True)
class Search:
    """Options of commands that search: the index, the search settings, and the scope."""

    kb: Kb = KB
    settings: dict[str, Any] = field(default_factory=dict)
    changes: Annotated[
        list[str] | None,
        Option("--set", metavar="NAME=VALUE", help="Change a search setting: gate.min_score=0.3, vector_weight=0.4."),
    ] = None
    where: Where = None
    as_of: AsOf = None

    def retriever(self, index: KnowledgeIndex, **defaults: Any) -> GraphRetriever:
        """Return a retriever with the settings of the options."""
        return make_retriever(index, self.given, **defaults)

    @property
    def given(self) -> dict[str, Any]:
        """The search settings of all options."""
        return {**self.settings, **parse_pairs(self.changes, "--set")}

    @property
    def scope(self) -> dict[str, Any]:
        """The arguments of a question."""
        return {"where": parse_where(self.where), "as_of": self.as_of}


@dataclass(frozen=True)
class StrategySearch(Search):
    """Options of commands that search with a strategy."""

    strategy: Annotated[
        str | None, Option(metavar="NAME", help=f"How the graph is searched: {', '.join(STRATEGIES)}.")
    ] = None
    design: Annotated[
        str | None, Option(metavar="NAME", help=f"All settings of a published design: {', '.join(DESIGNS)}.")
    ] = None

    def retriever(self, index: KnowledgeIndex, **defaults: Any) -> GraphRetriever:
        """Return a retriever with the settings of the options.

        A design replaces the settings of the command, and the method, strategy and other parts that the settings file
        names. Numbers of the file and other options change its fields.
        """
        for option, name, known in (("strategy", self.strategy, STRATEGIES), ("design", self.design, DESIGNS)):
            if name is not None and name not in known:
                raise typer.BadParameter(unknown_name(name, known, option), param_hint=f"--{option}")
        strategy = {} if self.strategy is None else {"graph": STRATEGIES[self.strategy]()}
        if self.design is None:
            return make_retriever(index, {**strategy, **self.given}, **defaults)
        if strategy:
            raise typer.BadParameter("a design has its strategy: leave one of them out", param_hint="--design")
        return make_retriever(index, self.given, DESIGNS[self.design])


def make_retriever(
    index: KnowledgeIndex, given: dict[str, Any], design: SearchSettings | None = None, **defaults: Any
) -> GraphRetriever:
    """Return a retriever. Options replace the settings of the file, which replace the defaults of a command.

    A design keeps its method and its parts; of these the file may change numbers.
    """
    options = {name: value for name, value in given.items() if value is not None}
    configured = CONFIG.get().retriever_arguments()
    if design is not None:
        configured = {name: value for name, value in configured.items() if name not in ("method", *PARTS)}
    elif "graph" in options:
        configured.pop("fusion", None)  # it belongs to the strategy of the file
    return GraphRetriever(index, design or SearchSettings(), **{**defaults, **configured, **options})


# -- indexes and models


@dataclass(frozen=True)
class IndexSettings:
    """Settings of an index, stored with it. ``llm`` is a base URL and a model, never an API key.

    ``graph`` is False if no entities and facts are extracted.
    """

    embedder: str = "wordllama"
    chunk_size: int = 256
    llm: Sequence[str] | None = None
    embedder_url: str | None = None
    graph: bool = True

    @classmethod
    def load(cls, kb: str, embedder: str | None = None, embedder_url: str | None = None, **changes: Any) -> Self:
        """Return the stored settings of an index, or the defaults, changed by options and the settings file.

        A server that only the index names must be on this machine: it gets the question and the API key.
        """
        stored = cls(**json.loads(stored_settings(kb).get(_SETTING, "{}")))
        config = CONFIG.get()
        name = embedder or config.embedder_name or stored.embedder
        url = embedder_url or config.embedder_url
        if url is None and name.partition(":")[0] == stored.embedder.partition(":")[0]:
            url = stored.embedder_url
            if url is not None and urlsplit(url).hostname not in LOCAL and url != os.environ.get(BASE_URL):
                raise InputError(
                    f"the index names {url} as the server of its embedder, which would get your questions and your "
                    f"API key: allow it with embedder-url = {url!r} in {NAME}, or with {BASE_URL}"
                )
        given = {key: value for key, value in changes.items() if value is not None}
        return replace(stored, embedder=name, embedder_url=url, **given)

    def save(self, index: KnowledgeIndex, *, only_if_stored: bool = False) -> None:
        """Store the settings with the index, for later runs. The index of a program has none."""
        before, text = index.engine.settings().get(_SETTING), json.dumps(asdict(self))
        if before != text and not (only_if_stored and before is None):
            index.engine.write(settings={_SETTING: text})
            index.engine.flush()

    @property
    def chunker(self) -> Chunker:
        """The chunker for ``chunk_size``."""
        size = self.chunk_size
        return Chunker(max_tokens=size, overlap=size // 8, whole_until=2 * size)

    def extractor(self, *others: Extractor) -> "extract.Combined":
        """Combine the extractors that need no LLM with others; without a graph, one that finds nothing."""
        parts = (extract.SentenceExtractor(), *others) if self.graph else (extract.KnowledgeExtractor(knowledge={}),)
        return extract.Combined(*parts)


def check_exists(kb: str) -> None:
    """Raise :class:`NotAnIndex` if there is no index."""
    if not KnowledgeIndex.exists(kb):
        raise NotAnIndex(f"no index in {shown(kb)}: create one with {program()} index FOLDER --kb {shown(kb)}")


def open_index(kb: str, embedder: str | None = None, *, embeds: bool = True, write: bool = False) -> KnowledgeIndex:
    """Open the index of a command. ``embeds=False`` saves loading the embedder for commands that embed nothing."""
    check_exists(kb)
    settings = IndexSettings.load(kb, embedder)
    with working("opening the index"):
        model = make_embedder(settings.embedder, settings.embedder_url) if embeds else None
        extractor = settings.extractor() if write else None
        return KnowledgeIndex.open(
            kb, model, read_only=not write, chunker=settings.chunker, extractor=extractor, progress=False
        )


def make_embedder(name: str, url: str | None = None) -> Embedder | None:
    """Create the embedder that ``--embedder`` names; None for an index without vectors.

    ``url`` is the address of the server of ``openai:MODEL`` and ``ollama:MODEL``.
    """
    kind, _, model = name.partition(":")
    servers = {"openai": OpenAIEmbedder, "ollama": OllamaEmbedder} if model else {}
    if kind in servers:
        return servers[kind](model, base_url=url)
    if url is not None:
        raise InputError(f"--embedder-url is for openai:MODEL and ollama:MODEL, not for {name}")
    if name == "none":
        return None
    if name == "hash":
        from graphrag_core.testing import HashEmbedder  # slow to import

        return HashEmbedder()
    if model and kind == "onnx":
        return Onnx(model)
    if kind != "wordllama" or model:
        known = "wordllama, openai:MODEL, ollama:MODEL, onnx:FOLDER, hash or none"
        raise InputError(f"unknown embedder {name!r}: use {known}")
    try:
        return WordLlama()
    except MissingDependency as error:
        raise InputError(f"{error}, or use --embedder none for keyword and graph search") from error


def make_llm(llm: str | None, *, timeout: float = 120.0) -> OpenAIChat | None:
    """Return the model that ``--llm`` names; None for none."""
    return None if llm in (None, "", "none") else open_llm(str(llm), os.environ.get(BASE_URL), timeout=timeout)
