"""Convert LangChain documents to core documents, and search hits back to LangChain documents."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

import graphrag_core
from graphrag_core import Chunk, Chunker, Result
from graphrag_core.adapter import added_metadata, metadata_of, to_core
from graphrag_core.errors import DocumentError, InputError
from graphrag_core.model import ADAPTER_KEY
from graphrag_core.result import joined_hits
from graphrag_core.text import fingerprint

Knowledge = Mapping[str, Any]
"""Entities and relations of one document, in the form :class:`graphrag_core.KnowledgeExtractor` takes."""


@dataclass(frozen=True, kw_only=True)
class LongDocumentChunker(Chunker):
    """The core's chunker for long documents; a short one, and one with stored knowledge, stays whole."""

    long_only: bool = True

    def keeps_whole(self, document: graphrag_core.Document) -> bool:
        """Return whether a document is not split."""
        return ADAPTER_KEY in document.metadata or super().keeps_whole(document)


def to_core_document(document: Document) -> graphrag_core.Document:
    """Convert a document for the core. One without an id gets the hash of its content as id.

    Titles, headings and pages are taken from what loaders and splitters write to the metadata:
    ``title``, ``Header 1``, ``source``, ``page``.
    """
    if not isinstance(document, Document):
        raise InputError(f"expected a LangChain Document, got {document!r:.80}")
    core, serialised = to_core(document.id or "", document.page_content, document.metadata), ""
    if document.id:
        return core
    with suppress(TypeError, ValueError, RecursionError):  # the core reports what is wrong with it
        serialised = json.dumps(core.metadata, sort_keys=True, ensure_ascii=False)
    return replace(core, id=fingerprint([document.page_content, serialised]))


def to_core_documents(documents: Iterable[Document]) -> list[graphrag_core.Document]:
    """Convert documents for the core; identical documents without ids are deduplicated."""
    converted: dict[str, graphrag_core.Document] = {}
    for document in documents:
        core = to_core_document(document)
        if document.id and core.id in converted:
            raise DocumentError(core.id, "this id occurs twice in one call: give each document its own id")
        converted[core.id] = core
    return list(converted.values())


def with_vectors(
    documents: Iterable[Document], ids: Iterable[str | None] | None, embeddings: Iterable[Any] | None
) -> tuple[list[graphrag_core.Document], dict[str, Any]]:
    """Return documents with other ids for an index, and by id the vectors that came with them."""
    rows = _rows(documents=documents, ids=ids, embeddings=embeddings)
    named = [
        one if name is None or not isinstance(one, Document) else one.model_copy(update={"id": str(name)})
        for one, name, _ in rows
    ]
    vectors = {to_core_document(one).id: row[2] for one, row in zip(named, rows, strict=True) if row[2] is not None}
    return to_core_documents(named), vectors


def from_texts(
    texts: Iterable[str], metadatas: Iterable[Mapping[str, Any]] | None, ids: Iterable[str] | None
) -> list[Document]:
    """Return texts as documents."""
    rows = _rows(texts=texts, metadatas=metadatas, ids=ids)
    return [Document(id=name, page_content=text, metadata=dict(metadata or {})) for text, metadata, name in rows]


def _rows(**columns: Iterable[Any] | None) -> list[tuple[Any, ...]]:
    """Return the rows of columns, with None for the values of a column that is None."""
    lists = {name: list(column) for name, column in columns.items() if column is not None}
    counts = {name: len(column) for name, column in lists.items()}
    if len(set(counts.values())) > 1:
        raise InputError(f"got {' and '.join(f'{counts[name]} {name}' for name in counts)}: pass equally many")
    nothing = [None] * max(counts.values())
    return list(zip(*(lists.get(name, nothing) for name in columns), strict=True))


def to_document(stored: graphrag_core.Document | Chunk) -> Document:
    """Return a stored document, or a passage of it, as it was added; raw HTML as its readable text."""
    return Document(id=stored.id, page_content=stored.text, metadata=metadata_of(stored))


class Documents(list[Document]):
    """The documents of a search, and the core's result that they are from."""

    result: Result


def result_of(documents: list[Document]) -> Result:
    """Return the core's result that the documents of a retriever are from."""
    return cast("Documents", documents).result


def to_documents(result: Result, add_metadata: tuple[str, ...]) -> Documents:
    """Return the documents of a result. What is added to the metadata replaces nothing of the document's own."""
    hits = joined_hits(result.hits)
    documents = Documents(to_document(hit.chunk) for hit in hits)
    documents.result = result
    for document, hit in zip(documents, hits, strict=True):
        own = document.metadata
        document.metadata = {**own, **added_metadata(result, hit, add_metadata), **own}
    return documents


def with_knowledge(document: graphrag_core.Document, knowledge: Knowledge) -> graphrag_core.Document:
    """Return a document that stores knowledge in its metadata, so that both are deleted together."""
    # Metadata values inside nested lists are not indexed for filters, so the JSON text costs no index entry.
    stored = [[json.dumps(knowledge, ensure_ascii=False)]]
    return replace(document, metadata={**document.metadata, ADAPTER_KEY: stored})


def knowledge_of(chunk: Chunk) -> Knowledge | None:
    """Return the knowledge stored with a chunk's document; it belongs to the first chunk."""
    stored = chunk.metadata.get(ADAPTER_KEY) if chunk.ordinal == 0 else None
    # The LlamaIndex adapter stores a mapping under the same key.
    return dict(json.loads(stored[0][0])) if isinstance(stored, list) else None


def message_text(message: BaseMessage) -> str:
    """Return what the user or the assistant said in a message; an empty text for other messages."""
    return str(message.text).strip() if isinstance(message, (HumanMessage, AIMessage)) else ""
