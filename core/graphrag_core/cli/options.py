"""Options that several commands share, and functions that turn them into an index, a retriever or a filter."""

import inspect
import json
import os
import re
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

import typer
from typing_extensions import Self

from graphrag_core import (
    Chunker,
    Combined,
    GraphRetriever,
    KnowledgeExtractor,
    KnowledgeIndex,
    Recogniser,
    Router,
    SentenceExtractor,
)
from graphrag_core.cli.render import program
from graphrag_core.config import NAME, STRATEGIES, Config, unknown
from graphrag_core.documents import Catalogue, open_catalogue, parse_value, read_setting
from graphrag_core.embedders import FastEmbed, OllamaEmbedder, Onnx, OpenAIEmbedder, WordLlama
from graphrag_core.engine.address import shown
from graphrag_core.errors import FileError, InputError, MissingDependency, NotAnIndex
from graphrag_core.ingest.edges import Edge, parse_edges
from graphrag_core.llm import OpenAIChat, open_llm
from graphrag_core.ports import Embedder, Extractor
from graphrag_core.query.settings import Option, options_of
from graphrag_core.testing import HashEmbedder

Command = TypeVar("Command", bound=Callable[..., None])
Kb = Annotated[
    str,
    typer.Option(
        "--kb",
        metavar="PLACE",
        envvar="HYBRID_GRAPHRAG_KB",
        help="Folder of the index, or the address of its database.",
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
EmbedderUrl = Annotated[
    str | None,
    typer.Option(
        "--embedder-url",
        metavar="URL",
        help="Server of openai:MODEL or ollama:MODEL, such as http://localhost:1234/v1. Stored with the index. "
        "Default: OPENAI_BASE_URL or OLLAMA_HOST, else OpenAI or Ollama on this machine.",
        show_default=False,
    ),
]
LLM = Annotated[
    str | None,
    typer.Option(
        "--llm",
        metavar="MODEL",
        envvar="HYBRID_GRAPHRAG_LLM",
        help="A model of OpenAI, or http://host:port/v1/MODEL for any compatible server (Ollama, vLLM, LM Studio). "
        "The key is read from OPENAI_API_KEY. none for no language model.",
        show_default=False,
    ),
]
Graph = Annotated[
    bool | None,
    typer.Option(
        "--graph/--no-graph",
        help="Whether entities and facts are extracted; without them, search is by vector and keyword. "
        "Stored with the index. Default: as it was built; a new one has a graph.",
        show_default=False,
    ),
]
Metadata = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Add metadata to every document. Can be repeated.")
]
ChunkSize = Annotated[int | None, typer.Option(min=16, help="Tokens per passage. 256 in a new index.")]
KeepMissing = Annotated[bool, typer.Option("--keep-missing", help="Keep the documents of files that no longer exist.")]
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
Seeds = Annotated[
    list[str] | None,
    typer.Option("--seed", metavar="NAME", help="Start the graph from this entity, too.", show_default=False),
]
Excluded = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="NAME", help="Leave out an entity, or a document by its id.", show_default=False),
]
AsOf = Annotated[str | None, typer.Option("--as-of", metavar="DATE", help="Use remembered facts that were valid then.")]
StrategyName = Annotated[
    str | None,
    typer.Option(
        "--strategy", metavar="NAME", help=f"How the graph is searched: {', '.join(STRATEGIES)}.", show_default=False
    ),
]
AsPublished = Annotated[bool, typer.Option("--as-published", help="Use the published settings of --strategy.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
LOCAL = ("127.0.0.1", "localhost", "::1")
"""The names of this machine."""
BASE_URL = "OPENAI_BASE_URL"
"""The environment variable with the server of a model that is named without one."""
KB = "kb"
"""The default folder."""
CONFIG: ContextVar[Config] = ContextVar("config", default=Config())  # noqa: B039 - it is frozen
"""The settings file of the running command."""

_OPERATORS = {"!=": "ne", ">=": "gte", "<=": "lte", ">": "gt", "<": "lt", "=": "eq"}
_CONDITION = re.compile(r"(?!!=|[<>=])(.+?)(!=|>=|<=|>|<|=)(.*)", re.DOTALL)


def parse_where(conditions: list[str] | None) -> dict[str, Any] | None:
    """Convert conditions to a filter; all of them must match.

    >>> parse_where(["team=identity", "year>=2020", "year<2024"])
    {'and': [{'team': {'eq': 'identity'}}, {'year': {'gte': 2020}}, {'year': {'lt': 2024}}]}
    >>> parse_where(["team?"])
    {'and': [{'team': {'exists': True}}]}
    """
    parsed: list[dict[str, Any]] = []
    for condition in conditions or ():
        if (found := _CONDITION.fullmatch(condition)) is None:
            if key := condition.removesuffix("?").strip() * condition.endswith("?"):
                parsed.append({key: {"exists": True}})
                continue
            message = f"{condition!r} is not a condition: use KEY=VALUE, KEY!=VALUE, KEY>=VALUE or KEY?"
            raise typer.BadParameter(message, param_hint="--where")
        key, sign, value = found.groups()
        parsed.append({key.strip(): {_OPERATORS[sign]: parse_value(value)}})
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


@dataclass(frozen=True)
class IndexSettings:
    """Settings of an index, stored with it. ``llm`` is a base URL and a model, never an API key.

    ``graph`` is False if no entities and facts are extracted.
    """

    embedder: str = "wordllama"
    chunk_size: int = 256
    llm: tuple[str, str] | None = None
    embedder_url: str | None = None
    graph: bool = True

    @classmethod
    def load(cls, kb: str) -> Self:
        """Return the settings of an index, or the defaults."""
        stored = read_setting(kb, "settings") or {}
        known = {name: stored[name] for name in ("embedder", "chunk_size", "embedder_url", "graph") if name in stored}
        return cls(**known, llm=tuple(stored["llm"]) if stored.get("llm") else None)

    def save(self, catalogue: Catalogue) -> None:
        """Store the settings for later runs."""
        catalogue.write_setting("settings", asdict(self))
        catalogue.commit()

    def changed(
        self,
        embedder: str | None,
        embedder_url: str | None,
        chunk_size: int | None = None,
        graph: bool | None = None,
    ) -> Self:
        """Return the settings with what the options say.

        A server that only the index names must be on this machine: it gets the question and the API key.
        """
        name = embedder or self.embedder
        same = name.partition(":")[0] == self.embedder.partition(":")[0]
        stored = self.embedder_url if same and embedder_url is None else None
        if stored is not None and urlsplit(stored).hostname not in LOCAL and stored != os.environ.get(BASE_URL):
            raise InputError(
                f"the index names {stored} as the server of its embedder, which would get your questions and your API "
                f"key: allow it with embedder-url = {stored!r} in {NAME}, or with {BASE_URL}"
            )
        return replace(
            self,
            embedder=name,
            embedder_url=embedder_url or stored,
            chunk_size=chunk_size or self.chunk_size,
            graph=self.graph if graph is None else graph,
        )

    @property
    def chunker(self) -> Chunker:
        """The chunker for ``chunk_size``."""
        size = self.chunk_size
        return Chunker(max_tokens=size, overlap=size // 8, whole_until=2 * size)


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


def parse_edge_options(edges: list[str] | None) -> list[Edge] | None:
    """Return the edges that ``--edge`` names; None without the option, no edges for ``none``."""
    if edges is None:
        return None
    if edges == ["none"]:
        return []
    pairs = [tuple(edge.split(":")) if ":" in edge else (edge, edge) for edge in edges]
    try:
        return list(parse_edges(pairs))
    except InputError as error:
        raise typer.BadParameter(f"{error} (here as FIELD:FIELD)", param_hint="--edge") from error


# -- search settings


def with_search_options(command: Command) -> Command:
    """Give a command the search settings that the command line offers, in place of its ``**given``."""
    signature = inspect.signature(command)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    added = [
        inspect.Parameter(option.name, own[-1].kind, default=None, annotation=_annotation(option))
        for option in options_of("cli")
    ]
    at = 1 + [one.name for one in own].index("kb")
    parameters = [*own[:at], *added, *own[at:]]
    command.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _annotation(option: Option) -> Any:
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
    return Annotated[kind | None, typer.Option(*names, help=option.help + default, show_default=False, **bounds)]


def make_retriever(index: KnowledgeIndex, given: dict[str, Any], **defaults: Any) -> GraphRetriever:
    """Return a retriever with defaults of a command, settings of the file, and options, of which the last win."""
    options = {name: value for name, value in given.items() if value is not None}
    configured = CONFIG.get().retriever_arguments()
    if "graph" in options:
        configured.pop("fusion", None)  # it belongs to the strategy of the file
    return GraphRetriever(index, **{**defaults, **configured, **options})


def strategy_settings(strategy: str | None, *, as_published: bool) -> dict[str, Any]:
    """Return the settings for ``--strategy``.

    ``--as-published`` includes what belongs to the design besides its strategy: how names are recognised, how the
    method is chosen, and which plain search the graph is joined with.
    """
    if strategy is None:
        if as_published:
            raise typer.BadParameter("name the design with --strategy", param_hint="--as-published")
        return {}
    if strategy not in STRATEGIES:
        raise typer.BadParameter(unknown(strategy, STRATEGIES, "strategy"), param_hint="--strategy")
    kind: Any = STRATEGIES[strategy]
    if not as_published:
        return {"graph": kind()}
    if strategy == "pagerank":
        raise typer.BadParameter(f"{strategy} has its published settings already", param_hint="--as-published")
    others: dict[str, dict[str, Any]] = {
        "neighbourhood": {"recogniser": Recogniser.as_published()},
        "citations": {"router": Router.as_published()},
        "expansion": {"text_weight": 0.0},
    }
    return {"graph": getattr(kind, "as_published", kind)(), **others.get(strategy, {})}


# -- indexes


def make_extractor(*others: Extractor, graph: bool = True) -> Combined:
    """Combine the extractors that need no LLM with others; without a graph, one that finds nothing."""
    return Combined(SentenceExtractor(), *others) if graph else Combined(KnowledgeExtractor(knowledge={}))


def open_index(kb: str, embedder: str | None = None, *, embeds: bool = True, read_only: bool = True) -> KnowledgeIndex:
    """Open the index of a command. ``embeds=False`` saves loading the embedder for commands that run no query."""
    if not KnowledgeIndex.exists(kb):
        raise NotAnIndex(f"no index in {shown(kb)}: create one with {program()} index FOLDER --kb {shown(kb)}")
    settings = stored_settings(kb, embedder)
    model = make_embedder(settings.embedder, settings.embedder_url) if embeds else None
    return KnowledgeIndex.open(kb, model, read_only=read_only)


def open_for_writing(kb: str, embedder: str | None) -> KnowledgeIndex:
    """Open the index of a command for writing. A new one is created, with its settings."""
    is_new = not KnowledgeIndex.exists(kb)
    settings = stored_settings(kb, embedder)
    index = KnowledgeIndex.open(kb, make_embedder(settings.embedder, settings.embedder_url), progress=False)
    if is_new:
        with open_catalogue(kb) as catalogue:
            settings.save(catalogue)
    return index


def stored_settings(kb: str, embedder: str | None = None) -> IndexSettings:
    """Return the settings of an index; the embedder may be named by an option or by the settings file."""
    config = CONFIG.get()
    return IndexSettings.load(kb).changed(embedder or config.relative(config.embedder), config.embedder_url)


def make_llm(llm: str | None, *, timeout: float = 120.0) -> OpenAIChat | None:
    """Return the model that ``--llm`` names; None for none."""
    return None if llm in (None, "", "none") else open_llm(str(llm), os.environ.get(BASE_URL), timeout=timeout)


def read_json(path: Path) -> object:
    """Read a JSON file."""
    try:
        value: object = json.loads(path.read_text("utf-8-sig"), parse_constant=lambda _: None)
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: invalid JSON ({error})") from error
    return value
