"""Options that several commands share, and functions that turn them into an index, an embedder or a filter."""

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typing_extensions import Self

from graphrag_core import Chunker, Combined, CrossEncoder, KnowledgeIndex, SentenceExtractor
from graphrag_core.cli.render import program
from graphrag_core.documents import Catalogue, parse_value
from graphrag_core.embedders import Onnx, WordLlama
from graphrag_core.errors import FileError, InputError, NotAnIndex
from graphrag_core.ports import Embedder, Extractor
from graphrag_core.research import FindingsExtractor, research_documents
from graphrag_core.retriever import Method

CATALOGUE = "files.sqlite"
"""The catalogue of indexed files, inside the folder of an index."""

Kb = Annotated[Path, typer.Option("--kb", envvar="HYBRID_GRAPHRAG_KB", help="Folder of the index.")]
EmbedderName = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        metavar="NAME",
        help="wordllama, or onnx:FOLDER with model.onnx and tokenizer.json. "
        "Default: the embedder of the index; wordllama for a new one.",
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
MethodName = Annotated[
    Method, typer.Option("--method", "-m", help="Retrieval method; agentic selects one for each question.")
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
Findings = Annotated[
    Path | None,
    typer.Option("--load", metavar="FILE", help="Query research findings (JSON), indexed in memory, instead of --kb."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
KB = Path("kb")
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
    def load(cls, kb: Path) -> Self:
        """Return the settings of an index, or the defaults."""
        stored = Catalogue.read_setting(kb / CATALOGUE, "settings") or {}
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


def make_embedder(name: str) -> Embedder:
    """Create the embedder that ``--embedder`` names."""
    kind, _, folder = name.partition(":")
    if kind == "wordllama" and not folder:
        return WordLlama()
    if kind == "onnx" and folder:
        return Onnx(folder)
    raise InputError(f"unknown embedder {name!r}: use wordllama or onnx:FOLDER")


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


def make_extractor(*others: Extractor) -> Combined:
    """Combine the extractors that need no LLM with others."""
    return Combined(SentenceExtractor(), FindingsExtractor(), *others)


def open_index(
    kb: Path, embedder: str | None = None, *, findings: Path | None = None, embeds: bool = True, read_only: bool = True
) -> KnowledgeIndex:
    """Open the index of a command; with ``findings``, index those in memory instead.

    ``embeds=False`` saves loading the embedder for commands that run no query.
    """
    if findings:
        value = read_json(findings)
        try:
            documents = research_documents(value)
        except InputError as error:
            raise FileError(f"{findings}: {error}") from error
        index = KnowledgeIndex(make_embedder(embedder or Settings.embedder), extractor=make_extractor(), progress=False)
        index.add(documents)
        return index
    if not KnowledgeIndex.exists(kb):
        raise NotAnIndex(f"no index in {kb}: create one with {program()} index FOLDER --out {kb}")
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
