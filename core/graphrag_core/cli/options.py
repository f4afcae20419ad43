"""Options that several commands share, and functions that turn them into an index, an embedder or a filter."""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typing_extensions import Self

from graphrag_core import (
    Additive,
    Chunker,
    CitationGraph,
    Combined,
    CrossEncoder,
    ExpansionQueries,
    KnowledgeIndex,
    Neighbourhood,
    OwnScores,
    PageRank,
    ReciprocalRank,
    Recogniser,
    RelatedEntities,
    Router,
    SentenceExtractor,
    SpreadingActivation,
)
from graphrag_core.cli.render import program
from graphrag_core.documents import Catalogue, parse_value, read_setting
from graphrag_core.embedders import Onnx, WordLlama
from graphrag_core.engine.address import shown
from graphrag_core.errors import FileError, InputError, MissingDependency, NotAnIndex
from graphrag_core.ingest.edges import Edge, parse_edges
from graphrag_core.ports import Embedder, Extractor
from graphrag_core.query.query import OnEmbedderError
from graphrag_core.retriever import Method
from graphrag_core.testing import HashEmbedder

Strategy = Literal["pagerank", "neighbourhood", "expansion", "activation", "related", "citations"]
_STRATEGIES = {
    "pagerank": PageRank,
    "neighbourhood": Neighbourhood,
    "expansion": ExpansionQueries,
    "activation": SpreadingActivation,
    "related": RelatedEntities,
    "citations": CitationGraph,
}
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
        help="wordllama, onnx:FOLDER with model.onnx and tokenizer.json, hash (hashed words, not for production), "
        "or none: no vectors, keyword and graph search only, no model needed. "
        "Default: the embedder of the index; wordllama for a new one.",
    ),
]
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
    Method, typer.Option("--method", "-m", help="Retrieval method; agentic selects one for each question.")
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
        help="Filter by metadata: team=identity, year>=2020, draft!=true. "
        "Put a number in quotes to compare it as text. Can be repeated; all conditions must match.",
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
KB = "kb"
"""The default folder."""

_OPERATORS = {"!=": "ne", ">=": "gte", "<=": "lte", ">": "gt", "<": "lt", "=": "eq"}
_CONDITION = re.compile(r"(?!!=|[<>=])(.+?)(!=|>=|<=|>|<|=)(.*)", re.DOTALL)


def parse_where(conditions: list[str] | None) -> dict[str, Any] | None:
    """Convert conditions to a filter; all of them must match.

    >>> parse_where(["team=identity", "year>=2020", "year<2024"])
    {'and': [{'team': {'eq': 'identity'}}, {'year': {'gte': 2020}}, {'year': {'lt': 2024}}]}
    """
    parsed = []
    for condition in conditions or ():
        if (found := _CONDITION.fullmatch(condition)) is None:
            message = f"{condition!r} is not a condition: use KEY=VALUE, KEY!=VALUE or KEY>=VALUE"
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
    """Settings of an index, stored with it. ``llm`` is a base URL and a model, never an API key."""

    embedder: str = "wordllama"
    chunk_size: int = 256
    llm: tuple[str, str] | None = None

    @classmethod
    def load(cls, kb: str) -> Self:
        """Return the settings of an index, or the defaults."""
        stored = read_setting(kb, "settings") or {}
        known = {name: stored[name] for name in ("embedder", "chunk_size") if name in stored}
        return cls(**known, llm=tuple(stored["llm"]) if stored.get("llm") else None)

    def save(self, catalogue: Catalogue) -> None:
        """Store the settings for later runs."""
        catalogue.write_setting("settings", asdict(self))
        catalogue.commit()

    @property
    def chunker(self) -> Chunker:
        """The chunker for ``chunk_size``."""
        size = self.chunk_size
        return Chunker(max_tokens=size, overlap=size // 8, whole_until=2 * size)


def make_embedder(name: str) -> Embedder | None:
    """Create the embedder that ``--embedder`` names; None for an index without vectors."""
    kind, _, folder = name.partition(":")
    if name == "none":
        return None
    if name == "hash":
        return HashEmbedder()
    if kind == "wordllama" and not folder:
        try:
            return WordLlama()
        except MissingDependency as error:
            raise InputError(f"{error}, or use --embedder none for keyword and graph search") from error
    if kind == "onnx" and folder:
        return Onnx(folder)
    raise InputError(f"unknown embedder {name!r}: use wordllama, onnx:FOLDER, hash or none")


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
    """Return the settings of a retriever for the options of a query.

    ``--as-published`` includes what belongs to the design besides its strategy: how names are recognised, and
    which plain search the graph is joined with.
    """
    settings: dict[str, Any] = {"vector_weight": vector_weight}
    if strategy is not None:
        kind: Any = _STRATEGIES[strategy]
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
    settings["inverses"] = _parse_inverses(inverses or [])
    return settings


def make_extractor(*others: Extractor) -> Combined:
    """Combine the extractors that need no LLM with others."""
    return Combined(SentenceExtractor(), *others)


def open_index(
    kb: str, embedder: str | None = None, *, findings: Path | None = None, embeds: bool = True, read_only: bool = True
) -> KnowledgeIndex:
    """Open the index of a command; with ``findings``, index those in memory instead.

    ``embeds=False`` saves loading the embedder for commands that run no query.
    """
    if findings:
        value = read_json(findings)
        index = KnowledgeIndex(make_embedder(embedder or Settings.embedder), extractor=make_extractor(), progress=False)
        try:
            index.add_research_findings(value)
        except InputError as error:
            raise FileError(f"{findings}: {error}") from error
        return index
    if not KnowledgeIndex.exists(kb):
        raise NotAnIndex(f"no index in {shown(kb)}: create one with {program()} index FOLDER --out {shown(kb)}")
    model = make_embedder(embedder or Settings.load(kb).embedder) if embeds else None
    return KnowledgeIndex.open(kb, model, read_only=read_only)


def read_json(path: Path) -> object:
    """Read a JSON file."""
    try:
        value: object = json.loads(path.read_text("utf-8-sig"), parse_constant=lambda _: None)
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: invalid JSON ({error})") from error
    return value
