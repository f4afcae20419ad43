"""Options that several commands share."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from graphrag_core.loading.values import typed


class Method(str, Enum):
    """How to search."""

    agentic = "agentic"
    vector = "vector"
    graph = "graph"
    keyword = "keyword"
    hybrid = "hybrid"


class Style(str, Enum):
    """What the context for a language model looks like."""

    graph = "graph"
    passages = "passages"
    narrative = "narrative"


Kb = Annotated[
    Path, typer.Option("--kb", envvar="HYBRID_GRAPHRAG_KB", help="The folder of the index.", show_default=True)
]
EmbedderName = Annotated[
    str | None,
    typer.Option(
        "--embedder",
        metavar="NAME",
        help="wordllama, or onnx:FOLDER with model.onnx and tokenizer.json. "
        "By default the one the index was made with, wordllama for a new one.",
    ),
]
MethodName = Annotated[Method, typer.Option("--method", "-m", help="How to search; agentic chooses by the question.")]
Count = Annotated[int, typer.Option("--k", "-k", min=1, help="How many passages.")]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        "-w",
        metavar="KEY=VALUE",
        help="Only documents whose metadata fit: team=identity, year>=2020, draft!=true. "
        "Quotes make a text of a number. Repeat for more.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but problems.")]

_COMPARISONS = (("!=", "ne"), (">=", "gte"), ("<=", "lte"), (">", "gt"), ("<", "lt"), ("=", "eq"))


def to_where(conditions: list[str] | None) -> dict[str, Any] | None:
    """Return conditions as a filter, all of which must hold.

    >>> to_where(["team=identity", "year>=2020", "year<2024"])
    {'and': [{'team': {'eq': 'identity'}}, {'year': {'gte': 2020}}, {'year': {'lt': 2024}}]}
    """
    if not conditions:
        return None
    return {"and": [_condition(condition) for condition in conditions]}


def _condition(condition: str) -> dict[str, Any]:
    found = [(condition.find(sign), -len(sign), sign, word) for sign, word in _COMPARISONS if sign in condition]
    if not found or min(found)[0] == 0:
        raise typer.BadParameter(f"{condition!r} is no condition: write key=value", param_hint="--where")
    at, _, sign, word = min(found)
    return {condition[:at].strip(): {word: typed(condition[at + len(sign) :])}}


def to_metadata(pairs: list[str] | None) -> dict[str, Any]:
    """Return ``key=value`` pairs as metadata.

    >>> to_metadata(["team=identity", "year=2021"])
    {'team': 'identity', 'year': 2021}
    """
    metadata = {}
    for pair in pairs or ():
        key, sign, value = pair.partition("=")
        if not sign or not key.strip():
            raise typer.BadParameter(f"{pair!r} is no pair: write key=value", param_hint="--metadata")
        metadata[key.strip()] = typed(value)
    return metadata
