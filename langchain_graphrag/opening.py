"""The core's index, opened with LangChain's embeddings and chat models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from graphrag_core import KnowledgeIndex, SentenceExtractor
from graphrag_core.errors import InputError
from graphrag_core.ports import Embedder
from langchain_graphrag.embedder import LoopEmbedder
from langchain_graphrag.extraction import Reader, llm_extractor


def open_index(
    embedding: Embedder, path: str | Path | None, llm: Any = None, settings: Mapping[str, Any] | None = None
) -> KnowledgeIndex:
    """Open an index in a folder, or make one in memory; documents stay whole unless told otherwise.

    Parameters
    ----------
    embedding
        LangChain's, or one of the core.
    path
        The folder; None for memory.
    llm
        A chat model that reads entities and relations.
    settings
        As for :class:`graphrag_core.KnowledgeIndex`.
    """
    others = {"chunker": None, **(settings or {})}
    extractor = others.pop("extractor", None)
    if llm is not None and extractor is not None:
        raise InputError("llm and extractor exclude each other: give extractor=llm_extractor(llm, ...)")
    if llm is not None:
        extractor = llm_extractor(llm)
    others["extractor"] = Reader(extractor or SentenceExtractor())
    embedder = LoopEmbedder(embedding)
    return KnowledgeIndex(embedder, **others) if path is None else KnowledgeIndex.open(path, embedder, **others)
