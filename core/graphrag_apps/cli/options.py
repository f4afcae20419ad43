"""Options that commands share, and what they name: an index, its embedder, a filter, search settings, a model.

The command line comes first, then the environment, then the settings file, then the index, then the defaults.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer
from typer import Option

from graphrag_apps.cli import output
from graphrag_apps.config import NAME, Config, load
from graphrag_core import embedders
from graphrag_core.engine.address import shown
from graphrag_core.errors import ConfigError, InputError, MissingDependency, NotAnIndex
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ports import Embedder, Extractor
from graphrag_core.query.settings import Method, SearchSettings

if TYPE_CHECKING:
    from graphrag_core.llm import OpenAIChat

Kb = Annotated[str | None, Option("--kb", help="The folder of the index, or postgresql://user@host/database.")]
Json = Annotated[bool, Option("--json", help="Print JSON.")]
Filter = Annotated[
    list[str] | None,
    Option(
        "--filter", metavar="KEY=VALUE", help="Only documents with this metadata; repeatable. Also != < <= > >=, KEY?"
    ),
]  # fmt: skip
K = Annotated[int | None, Option("--k", "-k", min=1, help="Number of passages.")]
HowToSearch = Annotated[Method | None, Option("--method", help="How to search; agentic selects one for the question.")]
Design = Annotated[str | None, Option("--design", help="A design: hybrid, confident, kg2rag, memory or research.")]
Set = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Any search setting, such as gate.min_score=0.3; repeatable."),
]
Llm = Annotated[str | None, Option("--llm", help="A language model: gpt-4o-mini, or http://host:port/v1/model.")]

_KB, _LLM, _CONFIG = "HYBRID_GRAPHRAG_KB", "HYBRID_GRAPHRAG_LLM", "HYBRID_GRAPHRAG_CONFIG"
_URL = "OPENAI_BASE_URL"
_SETTING = "command_line"  # of an index
_CONDITION = re.compile(r"(?P<key>[^=<>!?]+)(?:(?P<exists>\?)|(?P<operator>!=|<=|>=|=|<|>)(?P<value>.*))", re.DOTALL)
_OPERATORS = {"!=": "ne", "<": "lt", "<=": "lte", ">": "gt", ">=": "gte", "=": "eq"}
_LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass
class Given:
    """What is given before the command."""

    kb: str | None = None
    config_file: str | None = None

    @cached_property
    def config(self) -> Config:
        """The settings file. It is named if it is above the working directory and leads to another machine."""
        name = self.config_file or os.environ.get(_CONFIG)
        if name == "none":
            return Config()
        if name and not Path(name).is_file():
            raise ConfigError(f"{name}: no such file")
        config = load(name)
        if not name and config.path is not None and config.path.parent != Path.cwd():
            places = {"kb": config.kb, "embedder-url": config.embedder_url, "llm": config.llm}
            if named := [key for key, value in places.items() if value and "://" in value]:
                output.error(f"{config.path} sets {', '.join(named)}", mark="! ")
        return config


GIVEN: ContextVar[Given] = ContextVar("given")
"""What is given before the command that runs."""


def index_place(kb: str | None) -> tuple[str, str]:
    """Return the folder or address of the index, and where it is set."""
    config = GIVEN.get().config
    if (place := kb or GIVEN.get().kb) is not None:
        return place, "command line"
    if place := os.environ.get(_KB):
        return place, f"environment {_KB}"
    return (config.kb, NAME) if config.kb else ("kb", "default")


def parse_filter(conditions: Sequence[str] | None) -> dict[str, Any] | None:
    """Return the filter of ``--filter``.

    >>> parse_filter(["team=identity", "year>=2020", "draft?"])
    {'and': [{'team': {'eq': 'identity'}}, {'year': {'gte': 2020}}, {'draft': {'exists': True}}]}
    """
    parts = []
    for condition in conditions or ():
        if (found := _CONDITION.fullmatch(condition)) is None:
            advice = "write KEY=VALUE, KEY!=VALUE, KEY<VALUE, KEY<=VALUE, KEY>VALUE, KEY>=VALUE or KEY?"
            raise typer.BadParameter(f"{condition!r}: {advice}", param_hint="--filter")
        test = {"exists": True} if found["exists"] else {_OPERATORS[found["operator"]]: _value(found["value"])}
        parts.append({found["key"].strip(): test})
    return {"and": parts} if parts else None


def parse_pairs(pairs: Sequence[str] | None, option: str) -> dict[str, Any]:
    """Return the values of an option that is repeated.

    >>> parse_pairs(["year=2024", "team=identity"], "--metadata")
    {'year': 2024, 'team': 'identity'}
    """
    values = {}
    for pair in pairs or ():
        key, sign, value = pair.partition("=")
        if not sign or not key.strip():
            raise typer.BadParameter(f"{pair!r} is not KEY=VALUE", param_hint=option)
        values[key.strip()] = _value(value)
    return values


def _value(text: str) -> Any:
    """Return a number, true, false or null as such, and anything else as a text."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return value if value is None or isinstance(value, (bool, int, float)) else text


def search_settings(
    k: int | None = None, method: Method | None = None, design: str | None = None, numbers: Sequence[str] | None = None
) -> SearchSettings:
    """Return the settings of a question: those of the file with the options of the command line."""
    return GIVEN.get().config.settings(design, **{"k": k, "method": method, **parse_pairs(numbers, "--set")})


# -- indexes and models


@dataclass(frozen=True)
class IndexSettings:
    """Settings of an index that are stored with it. ``llm`` is a base URL and a model, and never an API key."""

    embedder: str = "wordllama"
    embedder_url: str | None = None
    chunk_size: int = 256
    graph: bool = True
    llm: Sequence[str] | None = None

    @classmethod
    def load(cls, kb: str, **changes: Any) -> IndexSettings:
        """Return the stored settings of an index, or the defaults, changed by the settings file and by options.

        A server that only the index names must be on this machine: it gets the question and the API key.
        """
        from graphrag_core.engine.connect import stored_settings

        stored, config = cls(**json.loads(stored_settings(kb).get(_SETTING, "{}"))), GIVEN.get().config
        name = changes.pop("embedder", None) or config.embedder or stored.embedder
        url = changes.pop("embedder_url", None) or config.embedder_url
        if url is None and name.partition(":")[0] == stored.embedder.partition(":")[0]:
            url = stored.embedder_url
            if url is not None and urlsplit(url).hostname not in _LOCAL and url != os.environ.get(_URL):
                raise InputError(
                    f"the index names {url} as the server of its embedder, which would get your questions and your "
                    f"API key: allow it with embedder-url = {url!r} in {NAME}, or with {_URL}"
                )
        changed = {key: value for key, value in changes.items() if value is not None}
        return replace(stored, embedder=name, embedder_url=url, **changed)

    def save(self, index: KnowledgeIndex) -> None:
        """Store the settings with an index, for later commands."""
        text = json.dumps(asdict(self))
        if index.engine.settings().get(_SETTING) != text:
            index.engine.write(settings={_SETTING: text})

    @staticmethod
    def is_stored(index: KnowledgeIndex) -> bool:
        """Return whether commands have written an index: one of a program has no settings of commands."""
        return _SETTING in index.engine.settings()

    def parts(self, *others: Extractor) -> dict[str, Any]:
        """Return how documents are cut, and how entities and facts are found; without a graph by none."""
        from graphrag_core import extract
        from graphrag_core.ingest.chunker import Chunker

        size = self.chunk_size
        found = (extract.SentenceExtractor(), *others) if self.graph else (extract.KnowledgeExtractor(knowledge={}),)
        chunker = Chunker(max_tokens=size, overlap=size // 8, whole_until=2 * size)
        return {"chunker": chunker, "extractor": extract.Combined(*found)}


def open_index(
    kb: str | None, embedder: str | None = None, *, embeds: bool = True, write: bool = False
) -> KnowledgeIndex:
    """Open the index of a command. Commands that embed nothing save the time to load the embedder."""
    place, _ = index_place(kb)
    check_exists(place)
    settings = IndexSettings.load(place, embedder=embedder)
    model = make_embedder(settings.embedder, settings.embedder_url) if embeds else None
    return KnowledgeIndex.open(place, model, read_only=not write, progress=False, **(settings.parts() if write else {}))


def check_exists(place: str) -> None:
    """Raise :class:`NotAnIndex` if there is no index."""
    if not KnowledgeIndex.exists(place):
        raise NotAnIndex(
            f"no index in {shown(place)}: create one with 'hybrid-graphrag index FOLDER --kb {shown(place)}'"
        )


def make_embedder(name: str, url: str | None = None) -> Embedder | None:
    """Return the embedder of a name; None for an index without vectors. ``url`` is the address of its server."""
    kind, _, model = name.partition(":")
    if model and kind in ("openai", "ollama"):
        return (embedders.OpenAIEmbedder if kind == "openai" else embedders.OllamaEmbedder)(model, base_url=url)
    if url is not None:
        raise InputError(f"--embedder-url is for openai:MODEL and ollama:MODEL, not for {name}")
    if model and kind == "onnx":
        return embedders.Onnx(model)
    if name == "hash":
        from graphrag_core.testing import HashEmbedder

        return HashEmbedder()
    if name not in ("wordllama", "none"):
        known = "wordllama, openai:MODEL, ollama:MODEL, onnx:FOLDER, hash or none"
        raise InputError(f"unknown embedder {name!r}: use {known}")
    try:
        return embedders.WordLlama() if name == "wordllama" else None
    except MissingDependency as error:
        raise InputError(f"{error}, or use --embedder none for keyword and graph search") from error


def make_llm(name: str | None, *, timeout: float = 120.0) -> OpenAIChat | None:
    """Return the model of ``--llm``, of the environment or of the settings file; None for none."""
    from graphrag_core.llm import open_llm

    name = name or os.environ.get(_LLM) or GIVEN.get().config.llm
    return None if name in (None, "", "none") else open_llm(str(name), os.environ.get(_URL), timeout=timeout)
