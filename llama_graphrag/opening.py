"""The core's index as LlamaIndex needs it: nodes stay whole, and bring knowledge of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from llama_index.core.llms import LLM

from graphrag_core import Combined, KnowledgeExtractor, KnowledgeIndex, LLMExtractor, SentenceExtractor
from graphrag_core.errors import NotAnIndex
from graphrag_core.folder import Folder
from graphrag_core.ports import Embedder, Extractor
from llama_graphrag.nodes import known_in


def open_index(
    embedder: Embedder,
    path: str | Path | None,
    *,
    llm: LLM | None = None,
    extractor: Extractor | None = None,
    must_exist: bool = False,
    progress: bool = False,
    **settings: Any,
) -> KnowledgeIndex:
    """Return an index in memory, or the one in a folder."""
    parts: list[Extractor] = [extractor or SentenceExtractor(), KnowledgeExtractor(knowledge=known_in)]
    if llm is not None:
        parts.append(_asking(llm, progress=progress))
    settings = {"chunker": None, "extractor": Combined(*parts), "progress": progress, **settings}
    if path is None:
        return KnowledgeIndex(embedder, **settings)
    if must_exist and not Folder(Path(path)).records.is_file():
        raise NotAnIndex(f"{path} holds no index: make one with from_documents(..., path={str(path)!r})")
    return KnowledgeIndex.open(path, embedder, **settings)


def _asking(llm: LLM, *, progress: bool) -> LLMExtractor:
    def complete(prompt: str) -> str:
        return llm.complete(prompt).text

    return LLMExtractor(complete, model=llm.metadata.model_name, progress=progress)
