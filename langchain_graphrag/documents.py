"""Convert LangChain documents to core documents, and search hits back to LangChain documents."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.documents import Document

import graphrag_core
from graphrag_core import Chunk, Chunker, Result
from graphrag_core.adapter import added_metadata
from graphrag_core.documents.html import readable
from graphrag_core.errors import DocumentError, InputError
from graphrag_core.filters import json_value
from graphrag_core.ingest.chunker import stated_title
from graphrag_core.text import fingerprint

Knowledge = Mapping[str, Any]
"""Entities and relations of one document, in the form :class:`graphrag_core.KnowledgeExtractor` takes."""

_STORED_KNOWLEDGE = "__graphrag__"  # the metadata key of the stored knowledge; written to existing indexes


@dataclass(frozen=True, kw_only=True)
class LongDocumentChunker(Chunker):
    """The core's chunker for long documents; a short one, and one with stored knowledge, stays whole."""

    long_only: bool = True

    def keeps_whole(self, document: graphrag_core.Document) -> bool:
        """Return whether a document is not split."""
        return _STORED_KNOWLEDGE in document.metadata or super().keeps_whole(document)


def to_core_documents(documents: Iterable[Document]) -> list[graphrag_core.Document]:
    """Convert documents for the core.

    A document without an id gets the hash of its content as id; identical documents without
    ids are deduplicated.

    Markdown stays as it is. Raw HTML is replaced by its readable text: that is what is searched and returned.
    Titles, headings and pages are taken from what loaders and splitters write to the metadata:
    ``title``, ``Header 1``, ``source``, ``page``.

    Raises
    ------
    DocumentError
        Two documents have the same id.
    """
    converted: dict[str, graphrag_core.Document] = {}
    for document in documents:
        if not isinstance(document, Document):
            raise InputError(f"expected a LangChain Document, got {type(document).__qualname__}")
        metadata = _stored(document.metadata)
        document_id = document.id or _content_id(document.page_content, metadata)
        if document.id and document_id in converted:
            raise DocumentError(document_id, "this id occurs twice in one call: give each document its own id")
        core = readable(graphrag_core.Document(document_id, document.page_content, metadata=metadata))
        if core.title and stated_title(metadata):
            core = replace(core, title="")  # the loader's title comes before the page's
        converted[document_id] = core
    return list(converted.values())


def to_document(stored: graphrag_core.Document | Chunk) -> Document:
    """Return a stored document, or a passage of it, as it was added; raw HTML as its readable text."""
    metadata = copy.deepcopy({key: value for key, value in stored.metadata.items() if key != _STORED_KNOWLEDGE})
    return Document(id=stored.id, page_content=stored.text, metadata=metadata)


def to_documents(result: Result, add_metadata: tuple[str, ...]) -> list[Document]:
    """Return the documents of a result. What is added to the metadata replaces nothing of the document's own."""
    documents = [to_document(hit.chunk) for hit in result.hits]
    for document, hit in zip(documents, result.hits, strict=True):
        added = added_metadata(result, hit, add_metadata)
        document.metadata |= {name: value for name, value in added.items() if name not in document.metadata}
    return documents


def from_texts(
    texts: Iterable[str], metadatas: Iterable[Mapping[str, Any]] | None, ids: Iterable[str] | None
) -> list[Document]:
    """Return texts as documents."""
    contents = list(texts)
    metadata = [{}] * len(contents) if metadatas is None else list(metadatas)
    names = [None] * len(contents) if ids is None else list(ids)
    if not len(contents) == len(metadata) == len(names):
        raise InputError(
            f"got {len(contents)} texts, {len(metadata)} metadatas and {len(names)} ids: pass equally many"
        )
    return [
        Document(id=name, page_content=text, metadata=dict(one or {}))
        for text, one, name in zip(contents, metadata, names, strict=True)
    ]


def with_knowledge(document: graphrag_core.Document, knowledge: Knowledge) -> graphrag_core.Document:
    """Return a document that stores knowledge in its metadata, so that both are deleted together."""
    # Metadata values inside nested lists are not indexed for filters, so the JSON text costs no index entry.
    stored = [[json.dumps(knowledge, ensure_ascii=False)]]
    return replace(document, metadata={**document.metadata, _STORED_KNOWLEDGE: stored})


def knowledge_of(chunk: Chunk) -> Knowledge | None:
    """Return the knowledge stored with a chunk's document; it belongs to the first chunk."""
    stored = chunk.metadata.get(_STORED_KNOWLEDGE) if chunk.ordinal == 0 else None
    # The LlamaIndex adapter stores a mapping under the same key.
    return dict(json.loads(stored[0][0])) if isinstance(stored, list) else None


def _stored(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return metadata as the core stores it, so that ids made from it are those of the stored document."""
    try:
        stored: dict[str, Any] = json_value(metadata, "metadata")
    except (ValueError, RecursionError):
        return metadata  # the core reports what is wrong with it
    return stored


def _content_id(text: str, metadata: Mapping[str, Any]) -> str:
    try:
        serialised = json.dumps(metadata, sort_keys=True, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        serialised = ""  # the core reports what is wrong with the metadata
    return fingerprint([text, serialised])
