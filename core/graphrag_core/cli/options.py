"""Options that several commands share, and functions that turn them into an index, an embedder or a filter."""

import json
import os
import re
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import typer
from typing_extensions import Self

from graphrag_core import (
    Additive,
    Chunker,
    Combined,
    CrossEncoder,
    KnowledgeExtractor,
    KnowledgeIndex,
    OwnScores,
    PageRank,
    ReciprocalRank,
    Recogniser,
    Router,
    SentenceExtractor,
)
from graphrag_core.cli.render import program
from graphrag_core.config import NAME, STRATEGIES, Config
from graphrag_core.documents import Catalogue, open_catalogue, parse_value, read_setting
from graphrag_core.embedders import FastEmbed, OllamaEmbedder, Onnx, OpenAIEmbedder, WordLlama
from graphrag_core.engine.address import shown
from graphrag_core.errors import FileError, InputError, MissingDependency, NotAnIndex
from graphrag_core.ingest.edges import Edge, parse_edges
from graphrag_core.ports import Embedder, Extractor
from graphrag_core.query.query import OnEmbedderError
from graphrag_core.query.settings import Method
from graphrag_core.testing import HashEmbedder

RETRIEVER_OPTIONS = {
    "method": "method",
    "k": "k",
    "vector_weight": "vector_weight",
    "text_weight": "text_weight",
    "score_threshold": "score_threshold",
    "on_embedder_error": "on_embedder_error",
}
"""Arguments of a retriever that are options of the commands that query, with the names of their parameters."""

Strategy = Literal["pagerank", "neighbourhood", "expansion", "activation", "related", "citations"]
Kb = Annotated[
    str,
    typer.Option(
        "--kb",
        envvar="HYBRID_GRAPHRAG_KB",
        show_envvar=True,
        help="Folder of the index, or its database: postgresql://user@host/database?index=NAME.",
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
        help="Server of openai:MODEL or ollama:MODEL, such as http://localhost:1234/v1. Stored with the index by the "
        "command index. Default: OPENAI_BASE_URL or OLLAMA_HOST, else OpenAI or Ollama on this machine.",
        show_default=False,
    ),
]
Out = Annotated[
    str,
    typer.Option(
        "--out",
        "--kb",
        "-o",
        envvar="HYBRID_GRAPHRAG_KB",
        help="Folder of the index, or its database: postgresql://user@host/database?index=NAME.",
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
EmbedFacts = Annotated[
    bool | None,
    typer.Option(
        "--embed-facts/--no-embed-facts",
        help="Whether facts get vectors too, which finds paraphrases better and costs about three times as much. "
        "Fixed when an index is created. Default: for embedders that run in this process.",
        show_default=False,
    ),
]
Metadata = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Add metadata to every document. Can be repeated.")
]
ChunkSize = Annotated[int | None, typer.Option(min=16, help="Tokens per passage. 256 in a new index.")]
MaxSize = Annotated[int, typer.Option(metavar="N", min=1, help="Skip files larger than N MB.")]
KeepMissing = Annotated[bool, typer.Option("--keep-missing", help="Keep the documents of files that no longer exist.")]
OnError = Annotated[
    OnEmbedderError,
    typer.Option(
        "--on-embedder-error",
        help="What to do if the question cannot be embedded: stop with an error, or search by keyword and graph.",
    ),
]
RerankerName = Annotated[
    str | None,
    typer.Option(
        "--rerank",
        metavar="NAME",
        help="Order the best passages of the hybrid method with a cross-encoder: onnx:FOLDER with model.onnx and "
        "tokenizer.json, or fastembed:MODEL, which must be in fastembed's cache.",
    ),
]
Weights = Annotated[
    list[str] | None,
    typer.Option(
        "--weight",
        metavar="NAME=NUMBER",
        help="Fuse the rankings of vector, keyword and graph by reciprocal rank, each with a weight: vector=0.5. "
        "Can be repeated; a ranking without a weight does not count.",
    ),
]
MethodName = Annotated[
    Method,
    typer.Option(
        "--method",
        "-m",
        help="Retrieval method; global is for questions about the whole collection, agentic selects one.",
    ),
]
ScoreThreshold = Annotated[
    float | None,
    typer.Option(
        "--score-threshold",
        min=0,
        help="Leave out hits with a lower score. With the default settings it is the probability that a passage "
        "belongs to the answer, from 0 to 1.",
    ),
]
MinScore = Annotated[
    float | None,
    typer.Option("--min-score", min=0, max=1, help="Leave out vector hits with a lower cosine similarity."),
]
MinGraphScore = Annotated[
    float | None,
    typer.Option(
        "--min-graph-score",
        min=0,
        max=1,
        help="Leave out passages to which the graph leads by a weaker relation: its strength (1 to 10) divided by 10.",
    ),
]
MinConfidence = Annotated[
    float | None, typer.Option("--min-confidence", min=0, max=1, help="Skip the graph below this confidence.")
]
Relationships = Annotated[
    bool | None,
    typer.Option(
        "--relationships/--no-relationships",
        help="Whether --context lists relationships. Default: in the graph block, not among passages.",
        show_default=False,
    ),
]
Sources = Annotated[
    bool, typer.Option("--sources/--no-sources", help="Whether --context names the source of each passage.")
]
Count = Annotated[int, typer.Option("--k", "-k", min=1, help="Number of passages to return.")]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        "-w",
        metavar="KEY=VALUE",
        help="Filter by metadata: team=identity, year>=2020, draft!=true, team? (has the key). "
        "Put a number in quotes to compare it as text. Can be repeated; all conditions must match.",
    ),
]
Limit = Annotated[int, typer.Option("--limit", "-n", min=0, help="At most so many; 0 for all.")]
Seeds = Annotated[
    list[str] | None,
    typer.Option(
        "--seed", metavar="NAME", help="Start the graph from this entity, too. Can be repeated.", show_default=False
    ),
]
Excluded = Annotated[
    list[str] | None,
    typer.Option(
        "--exclude",
        metavar="NAME",
        help="An entity that the graph does not walk through, or the id of a document that is not searched. "
        "Can be repeated.",
        show_default=False,
    ),
]
AsOf = Annotated[
    str | None,
    typer.Option("--as-of", metavar="DATE", help="Use the remembered facts that were valid then, such as 2024-05-01."),
]
Findings = Annotated[
    Path | None,
    typer.Option("--load", metavar="FILE", help="Query research findings (JSON), indexed in memory, instead of --kb."),
]
StrategyName = Annotated[
    Strategy | None,
    typer.Option("--strategy", help="How the graph is searched. Default: pagerank.", show_default=False),
]
AsPublished = Annotated[
    bool,
    typer.Option("--as-published", help="Use the settings of the design that --strategy comes from."),
]
Added = Annotated[
    int | None,
    typer.Option(
        "--additive",
        metavar="N",
        min=0,
        help="Return all --k passages of vector and keyword search and up to N more that the graph adds.",
    ),
]
NoGraph = Annotated[bool, typer.Option("--no-graph", help="Search by vector and keyword only.")]
VectorWeight = Annotated[float, typer.Option("--vector-weight", min=0, help="Weight of vector search.")]
TextWeight = Annotated[
    float | None, typer.Option("--text-weight", min=0, help="Weight of keyword search. Default: 0.4.")
]
Inverses = Annotated[
    list[str] | None,
    typer.Option(
        "--inverse",
        metavar="RELATION=INVERSE",
        help="The name of a relation seen from its object, for --context: feeds=fed_by. Can be repeated.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
LOCAL = ("127.0.0.1", "localhost", "::1")
"""The names of this machine."""
KB = "kb"
"""The default folder."""
CONFIG: ContextVar[Config] = ContextVar("config", default=Config())  # noqa: B039 - it is frozen
"""The configuration file of the running command."""

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
class Settings:
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
        self, embedder: str | None, embedder_url: str | None, chunk_size: int | None, graph: bool | None
    ) -> Self:
        """Return the settings with what the options say.

        A server that only the index names must be on this machine: it gets the question and the API key.
        """
        name = embedder or self.embedder
        same = name.partition(":")[0] == self.embedder.partition(":")[0]
        stored = self.embedder_url if same and embedder_url is None else None
        if (
            stored is not None
            and urlsplit(stored).hostname not in LOCAL
            and stored != os.environ.get("OPENAI_BASE_URL")
        ):
            raise InputError(
                f"the index names {stored} as the server of its embedder, which would get your questions and your API "
                f"key: allow it with --embedder-url {stored}, or with embedder-url in {NAME}"
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


def make_reranker(name: str | None) -> CrossEncoder | bool:
    """Create the cross-encoder that ``--rerank`` names; True for the default reranker."""
    if name is None:
        return True
    kind, _, model = name.partition(":")
    if kind == "onnx" and model:
        return CrossEncoder(model)
    if kind == "fastembed" and model:
        return CrossEncoder.fastembed(model)
    raise InputError(f"unknown cross-encoder {name!r}: use onnx:FOLDER or fastembed:MODEL")


def rerank_settings(name: str | None) -> dict[str, Any]:
    """Return the setting of a retriever for ``--rerank``; without the option the configuration file decides."""
    return {} if name is None else {"reranker": make_reranker(name)}


def _parse_weights(weights: list[str]) -> dict[str, float]:
    try:
        return {name.strip(): float(number) for name, _, number in (weight.partition("=") for weight in weights)}
    except ValueError as error:
        message = f"{' '.join(weights)}: use NAME=NUMBER, such as vector=0.5"
        raise typer.BadParameter(message, param_hint="--weight") from error


def _parse_inverses(inverses: list[str]) -> dict[str, str]:
    pairs = [pair.partition("=") for pair in inverses]
    for relation, sign, other in pairs:
        if not sign or not relation.strip() or not other.strip():
            raise typer.BadParameter(f"{relation + sign + other!r} is not RELATION=INVERSE", param_hint="--inverse")
    return {relation.strip(): other.strip() for relation, _, other in pairs}


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


def search_settings(
    strategy: Strategy | None,
    as_published: bool,
    additive: int | None,
    vector_weight: float,
    text_weight: float | None,
    inverses: list[str] | None,
    weights: list[str] | None,
) -> dict[str, Any]:
    """Return the settings of a retriever for the options of a query, on top of those of the configuration file.

    ``--as-published`` includes what belongs to the design besides its strategy: how names are recognised, and
    which plain search the graph is joined with.
    """
    settings: dict[str, Any] = {**configured_retriever(), "vector_weight": vector_weight}
    if strategy is not None:
        settings.pop("fusion", None)  # it belongs to the strategy of the file
        kind: Any = STRATEGIES[strategy]
        if as_published and strategy == "pagerank":
            raise typer.BadParameter(f"{strategy} has its published settings already", param_hint="--as-published")
        settings["graph"] = getattr(kind, "as_published", kind)() if as_published else kind()
    elif as_published:
        raise typer.BadParameter("name the design with --strategy", param_hint="--as-published")
    if as_published and strategy == "neighbourhood":
        settings["recogniser"] = Recogniser.as_published()
    if as_published and strategy == "citations":
        settings["router"] = Router.as_published()
    if as_published and strategy == "expansion":
        settings["text_weight"] = 0.0
    if text_weight is not None:
        settings["text_weight"] = text_weight
    if weights:
        settings["fusion"] = ReciprocalRank(weights=_parse_weights(weights))
    if additive is not None:
        own = settings.get("fusion", settings.get("graph", PageRank()).fusion)
        own = own.fusion if isinstance(own, Additive) else own
        adds = isinstance(own, OwnScores)
        settings["fusion"] = OwnScores(max_chunks=additive) if adds else Additive(max_chunks=additive, fusion=own)
    settings["inverses"] = {**settings.get("inverses", {}), **_parse_inverses(inverses or [])}
    return settings


def configured_retriever() -> dict[str, Any]:
    """Return the section ``[retriever]`` as arguments of a retriever. Those with an option are the option's default."""
    return {name: value for name, value in CONFIG.get().retriever.items() if name not in RETRIEVER_OPTIONS}


def make_extractor(*others: Extractor, graph: bool = True) -> Combined:
    """Combine the extractors that need no LLM with others; without a graph, one that finds nothing."""
    return Combined(SentenceExtractor(), *others) if graph else Combined(KnowledgeExtractor(knowledge={}))


def open_index(
    kb: str,
    embedder: str | None = None,
    *,
    embedder_url: str | None = None,
    findings: Path | None = None,
    embeds: bool = True,
    read_only: bool = True,
) -> KnowledgeIndex:
    """Open the index of a command; with ``findings``, index those in memory instead.

    ``embeds=False`` saves loading the embedder for commands that run no query.
    """
    if findings:
        value = read_json(findings)
        model = make_embedder(embedder or Settings.embedder, embedder_url)
        index = KnowledgeIndex(model, extractor=make_extractor(), progress=False)
        try:
            index.add_research_findings(value)
        except InputError as error:
            raise FileError(f"{findings}: {error}") from error
        return index
    if not KnowledgeIndex.exists(kb):
        raise NotAnIndex(f"no index in {shown(kb)}: create one with {program()} index FOLDER --out {shown(kb)}")
    return KnowledgeIndex.open(kb, stored_embedder(kb, embedder, embedder_url) if embeds else None, read_only=read_only)


def open_for_writing(kb: str, embedder: str | None, embedder_url: str | None = None) -> KnowledgeIndex:
    """Open the index of a command for writing. A new one is created, with its settings."""
    is_new = not KnowledgeIndex.exists(kb)
    settings = Settings.load(kb).changed(embedder, embedder_url, None, None)
    model = make_embedder(settings.embedder, settings.embedder_url)
    index = KnowledgeIndex.open(kb, model, progress=False)
    if is_new:
        with open_catalogue(kb) as catalogue:
            settings.save(catalogue)
    return index


def stored_embedder(kb: str, embedder: str | None, embedder_url: str | None) -> Embedder | None:
    """Create the embedder of an index, or another one that is named; its server is the one that is stored."""
    settings = Settings.load(kb).changed(embedder, embedder_url, None, None)
    return make_embedder(settings.embedder, settings.embedder_url)


def read_json(path: Path) -> object:
    """Read a JSON file."""
    try:
        value: object = json.loads(path.read_text("utf-8-sig"), parse_constant=lambda _: None)
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: invalid JSON ({error})") from error
    return value
