"""Opening the index that a command works on, with what it was made with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from graphrag_core import Chunker, Combined, KnowledgeIndex, SentenceExtractor
from graphrag_core.embedders import Onnx, WordLlama
from graphrag_core.errors import FileError, InputError, NotAnIndex
from graphrag_core.loading import Catalogue
from graphrag_core.ports import Embedder, Extractor
from graphrag_core.research import FindingsExtractor, research_documents

FILES = "files.sqlite"
ANSWERS = "answers.sqlite"
_DEFAULT_EMBEDDER = "wordllama"


@dataclass(frozen=True)
class Settings:
    """How an index is made, kept with it for later runs. ``llm`` is an address and a model, never a key."""

    embedder: str = _DEFAULT_EMBEDDER
    chunk_size: int = 256
    llm: tuple[str, str] | None = None

    @property
    def chunker(self) -> Chunker:
        """How documents are cut."""
        size = self.chunk_size
        return Chunker(max_tokens=size, overlap=size // 8, whole_until=2 * size)

    def keep(self, catalogue: Catalogue) -> None:
        """Keep them for later runs."""
        catalogue.keep("settings", asdict(self))


def remembered(kb: Path) -> Settings:
    """Return what an index was made with, the defaults where there is none."""
    kept = Catalogue.kept(kb / FILES, "settings") or {}
    known = {name: kept[name] for name in ("embedder", "chunk_size") if name in kept}
    return Settings(**known, llm=tuple(kept["llm"]) if kept.get("llm") else None)


def make_embedder(name: str) -> Embedder:
    """Return the embedder of a name."""
    kind, _, folder = name.partition(":")
    if kind == "wordllama" and not folder:
        return WordLlama()
    if kind == "onnx" and folder:
        return Onnx(folder)
    raise InputError(f"unknown embedder {name!r}: use wordllama or onnx:FOLDER")


def free_extractor(*others: Extractor) -> Combined:
    """Return what reads entities and facts without a model, with others beside it."""
    return Combined(SentenceExtractor(), FindingsExtractor(), *others)


@contextmanager
def reading(kb: Path, embedder: str | None = None, *, embeds: bool = True) -> Iterator[KnowledgeIndex]:
    """Open an index to be asked; ``embeds=False`` if only looked at."""
    if not (kb / "records.sqlite").is_file():
        raise NotAnIndex(f"there is no index in {kb}: make one with hybrid-graphrag index FOLDER --out {kb}")
    model = make_embedder(embedder or remembered(kb).embedder) if embeds else None
    with KnowledgeIndex.open(kb, model, read_only=True) as index:
        yield index


@contextmanager
def loaded(findings: Path, embedder: str | None = None) -> Iterator[KnowledgeIndex]:
    """Index research findings in memory."""
    try:
        documents = research_documents(read_json(findings))
    except FileError:
        raise
    except InputError as error:
        raise FileError(f"{findings}: {error}") from error
    model = make_embedder(embedder or _DEFAULT_EMBEDDER)
    with KnowledgeIndex(model, extractor=free_extractor(), progress=False) as index:
        index.add(documents)
        yield index


def read_json(path: Path) -> object:
    """Return what a JSON file holds."""
    try:
        value: object = json.loads(path.read_text("utf-8-sig"), parse_constant=lambda _: None)
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: is no JSON ({error})") from error
    return value
