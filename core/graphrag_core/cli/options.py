"""Options that several commands share, and functions that turn them into an index, a retriever or a filter."""

import inspect
import os
import re
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import typer
from typing_extensions import Self

from graphrag_core import (
    Chunker,
    Combined,
    GraphRetriever,
    KnowledgeExtractor,
    KnowledgeIndex,
    SentenceExtractor,
)
from graphrag_core.cli.render import program
from graphrag_core.config import NAME, STRATEGIES, Config
from graphrag_core.designs import DESIGNS
from graphrag_core.documents.catalogue import Catalogue, open_catalogue, read_setting
from graphrag_core.documents.rows import parse_value
from graphrag_core.embedders import FastEmbed, OllamaEmbedder, Onnx, OpenAIEmbedder, WordLlama
from graphrag_core.engine.address import shown
from graphrag_core.errors import InputError, MissingDependency, NotAnIndex, unknown_name
from graphrag_core.llm import OpenAIChat, open_llm
from graphrag_core.ports import Embedder, Extractor
from graphrag_core.query.settings import Option, search_options
from graphrag_core.testing import HashEmbedder

Kb = Annotated[
    str,
    typer.Option(
        metavar="PLACE", envvar="HYBRID_GRAPHRAG_KB", help="Folder of the index, or the address of its database."
    ),
]
EmbedderName = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        metavar="NAME",
        help="wordllama, openai:MODEL (any OpenAI-compatible server; the key is read from OPENAI_API_KEY), "
        "ollama:MODEL, fastembed:MODEL, onnx:FOLDER with model.onnx and tokenizer.json, hash (hashed words, not for "
        "production), or none: no vectors, keyword and graph search only, no model needed. "
        "Default: the embedder of the index; wordllama for a new one.",
    ),
]
LLM = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        envvar="HYBRID_GRAPHRAG_LLM",
        help="A model of OpenAI, or http://host:port/v1/MODEL for any compatible server (Ollama, vLLM, LM Studio). "
        "The key is read from OPENAI_API_KEY. none for no language model.",
    ),
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        "-w",
        metavar="KEY=VALUE",
        help="Filter: team=identity, year>=2020, draft!=true, team? (has the key). Can be repeated.",
    ),
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=0, help="At most so many; 0 for all.")]
AsOf = Annotated[str | None, typer.Option(metavar="DATE", help="Use remembered facts that were valid then.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
KB = "kb"
"""The default folder."""
LOCAL = ("127.0.0.1", "localhost", "::1")
"""The names of this machine."""
BASE_URL = "OPENAI_BASE_URL"
"""The environment variable with the server of a model that is named without one."""
CONFIG: ContextVar[Config] = ContextVar("config", default=Config())  # noqa: B039 - it is frozen
"""The settings file of the running command."""

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
        found = _CONDITION.fullmatch(condition)
        if found is None or not (key := found[1].strip()):
            message = f"{condition!r} is not a condition: use KEY=VALUE, KEY!=VALUE, KEY>=VALUE or KEY?"
            raise typer.BadParameter(message, param_hint="--where")
        parsed.append({key: {_OPERATORS[found[2]]: parse_value(found[3])} if found[2] else {"exists": True}})
    return {"and": parsed} if parsed else None


def parse_metadata(pairs: list[str] | None) -> dict[str, Any]:
    """Convert ``key=value`` pairs to metadata.

    >>> parse_metadata(["team=identity", "year=2021"])
    {'team': 'identity', 'year': 2021}
    """
    metadata = {}
    for pair in pairs or ():
        key, sign, value = pair.partition("=")
        if not sign or not key.strip():
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint="--metadata")
        metadata[key.strip()] = parse_value(value)
    return metadata


def expand(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's parameter that is a dataclass of options by the fields of the class."""
    own_parameters = inspect.signature(command).parameters.values()
    (group,) = (one for one in own_parameters if is_dataclass(one.annotation))
    fields = inspect.signature(group.annotation).parameters
    offered = search_options() if "settings" in fields else []
    parameters: list[inspect.Parameter] = []
    for one in own_parameters:
        for own in fields.values() if one is group else [one]:
            parameters += [_setting_parameter(option) for option in offered] if own.name == "settings" else [own]

    def run(**given: Any) -> None:
        settings = {"settings": {option.name: given.pop(option.name) for option in offered}} if offered else {}
        own = {name: given.pop(name) for name in fields if name not in settings}
        command(**given, **{group.name: group.annotation(**own, **settings)})

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    keywords = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in parameters]
    run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in keywords}
    return run


# -- searching


def _setting_parameter(option: Option) -> inspect.Parameter:
    """Return a setting of a question as an option."""
    kind: Any = Literal[option.choices] if option.choices else option.type
    names = [f"--{option.name.replace('_', '-')}"]
    if option.type is bool:
        names = [f"{names[0]}/--no-{names[0][2:]}"]
    elif len(option.name) == 1:
        names.append(f"-{option.name}")
    bounds: dict[str, Any] = {}
    if option.type in (int, float):
        bounds = {"min": option.minimum, "max": option.maximum, "metavar": "N"}
    default = "" if option.default is None else f" Default: {str(option.default).lower()}."
    annotation = Annotated[kind | None, typer.Option(*names, help=option.help + default, **bounds)]
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


@dataclass(frozen=True)
class Search:
    """Options of commands that search: the index, settings of a question, and its scope."""

    kb: Kb = KB
    settings: dict[str, Any] = field(default_factory=dict)
    where: Where = None
    seed: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Start the graph from this entity, too.")] = (
        None
    )
    exclude: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Leave out an entity, or a document by its id.")
    ] = None
    as_of: AsOf = None

    def retriever(self, index: KnowledgeIndex, **defaults: Any) -> GraphRetriever:
        """Return a retriever with the settings of the options."""
        return make_retriever(index, self.settings, **defaults)

    @property
    def scope(self) -> dict[str, Any]:
        """The arguments of a question."""
        where = parse_where(self.where)
        return {"where": where, "as_of": self.as_of, "seed_entities": self.seed, "exclude": self.exclude}


@dataclass(frozen=True)
class StrategySearch(Search):
    """Options of commands that search with a strategy."""

    strategy: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"How the graph is searched: {', '.join(STRATEGIES)}.")
    ] = None
    design: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"All settings of a published design: {', '.join(DESIGNS)}.")
    ] = None

    def retriever(self, index: KnowledgeIndex, **defaults: Any) -> GraphRetriever:
        """Return a retriever with the settings of the options.

        A design replaces the settings of the command and of the settings file; other options change its fields.
        """
        for option, name, known in (("strategy", self.strategy, STRATEGIES), ("design", self.design, DESIGNS)):
            if name is not None and name not in known:
                raise typer.BadParameter(unknown_name(name, known, option), param_hint=f"--{option}")
        if self.design is not None:
            if self.strategy is not None:
                raise typer.BadParameter("a design has its strategy: leave one of them out", param_hint="--design")
            return GraphRetriever(index, DESIGNS[self.design], **self.settings)
        if self.strategy is None:
            return super().retriever(index, **defaults)
        return make_retriever(index, {"graph": STRATEGIES[self.strategy](), **self.settings}, **defaults)


def make_retriever(index: KnowledgeIndex, given: dict[str, Any], **defaults: Any) -> GraphRetriever:
    """Return a retriever with defaults of a command, settings of the file, and options, of which the last win."""
    options = {name: value for name, value in given.items() if value is not None}
    configured = CONFIG.get().retriever_arguments()
    if "graph" in options:
        configured.pop("fusion", None)  # it belongs to the strategy of the file
    return GraphRetriever(index, **{**defaults, **configured, **options})


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
    def load(
        cls,
        kb: str,
        embedder: str | None = None,
        embedder_url: str | None = None,
        chunk_size: int | None = None,
        graph: bool | None = None,
    ) -> Self:
        """Return the settings of an index, or the defaults, with what options and the settings file say.

        A server that only the index names must be on this machine: it gets the question and the API key.
        """
        stored = cls(**(read_setting(kb, "settings") or {}))
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
        return replace(
            stored,
            embedder=name,
            embedder_url=url,
            chunk_size=chunk_size or stored.chunk_size,
            graph=stored.graph if graph is None else graph,
        )

    def save(self, catalogue: Catalogue) -> None:
        """Store the settings for later runs."""
        catalogue.write_setting("settings", asdict(self))
        catalogue.commit()

    @property
    def chunker(self) -> Chunker:
        """The chunker for ``chunk_size``."""
        size = self.chunk_size
        return Chunker(max_tokens=size, overlap=size // 8, whole_until=2 * size)

    def extractor(self, *others: Extractor) -> Combined:
        """Combine the extractors that need no LLM with others; without a graph, one that finds nothing."""
        return Combined(SentenceExtractor(), *others) if self.graph else Combined(KnowledgeExtractor(knowledge={}))


def open_index(
    kb: str, embedder: str | None = None, *, embeds: bool = True, write: bool = False, create: bool = False
) -> KnowledgeIndex:
    """Open the index of a command. ``embeds=False`` saves loading the embedder for commands that embed nothing."""
    if not create and not KnowledgeIndex.exists(kb):
        raise NotAnIndex(f"no index in {shown(kb)}: create one with {program()} index FOLDER --kb {shown(kb)}")
    settings = IndexSettings.load(kb, embedder)
    model = make_embedder(settings.embedder, settings.embedder_url) if embeds else None
    index = KnowledgeIndex.open(
        kb, model, read_only=not write, chunker=settings.chunker, extractor=settings.extractor(), progress=False
    )
    if create and read_setting(kb, "settings") is None:  # also if creating the index was interrupted
        with open_catalogue(kb) as catalogue:
            settings.save(catalogue)
    return index


def make_embedder(name: str, url: str | None = None) -> Embedder | None:
    """Create the embedder that ``--embedder`` names; None for an index without vectors.

    ``url`` is the address of the server of ``openai:MODEL`` and ``ollama:MODEL``.
    """
    kind, _, model = name.partition(":")
    if kind in ("openai", "ollama") and model:
        server = OpenAIEmbedder if kind == "openai" else OllamaEmbedder
        return server(model, base_url=url)
    if url is not None:
        raise InputError(f"--embedder-url is for openai:MODEL and ollama:MODEL, not for {name}")
    if name == "none":
        return None
    if name == "hash":
        return HashEmbedder()
    if kind == "wordllama" and not model:
        try:
            return WordLlama()
        except MissingDependency as error:
            raise InputError(f"{error}, or use --embedder none for keyword and graph search") from error
    if kind == "onnx" and model:
        return Onnx(model)
    if kind == "fastembed" and model:
        return FastEmbed(model)
    known = "wordllama, openai:MODEL, ollama:MODEL, fastembed:MODEL, onnx:FOLDER, hash or none"
    raise InputError(f"unknown embedder {name!r}: use {known}")


def make_llm(llm: str | None, *, timeout: float = 120.0) -> OpenAIChat | None:
    """Return the model that ``--llm`` names; None for none."""
    return None if llm in (None, "", "none") else open_llm(str(llm), os.environ.get(BASE_URL), timeout=timeout)
