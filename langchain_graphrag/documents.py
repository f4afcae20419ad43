"""Convert LangChain documents to core documents, and results back to LangChain documents."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage

import graphrag_core
from graphrag_core import Chunk, Result
from graphrag_core.adapter import added_metadata, to_core
from graphrag_core.errors import DocumentError, InputError
from graphrag_core.model import ADAPTER_KEY
from graphrag_core.result import joined_hits
from graphrag_core.text import fingerprint


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


def to_core_documents(
    documents: Iterable[Document], embeddings: Iterable[Any] | None = None
) -> tuple[list[graphrag_core.Document], dict[str, Any]]:
    """Convert documents for the core, equal ones without ids once; and return by id the vectors that came with them."""
    given = list(documents)
    vectors = [None] * len(given) if embeddings is None else list(embeddings)
    if len(given) != len(vectors):
        raise InputError(f"got {len(given)} documents and {len(vectors)} embeddings: pass equally many")
    converted: dict[str, graphrag_core.Document] = {}
    by_id = {}
    for document, vector in zip(given, vectors, strict=True):
        core = to_core_document(document)
        if document.id and core.id in converted:
            raise DocumentError(core.id, "this id occurs twice in one call: give each document its own id")
        converted[core.id] = core
        if vector is not None:
            by_id[core.id] = vector
    return list(converted.values()), by_id


def to_document(stored: graphrag_core.Document | Chunk) -> Document:
    """Return a stored document, or a passage of it, as it was added; raw HTML as its readable text."""
    metadata = {key: value for key, value in stored.metadata.items() if key != ADAPTER_KEY}
    return Document(id=stored.id, page_content=stored.text, metadata=metadata)


class Documents(list[Document]):
    """The documents of a search, and the core's result that they are from."""

    result: Result


def to_documents(result: Result, add_metadata: tuple[str, ...]) -> Documents:
    """Return the documents of a result. What is added to the metadata replaces nothing of the document's own."""
    documents = Documents()
    documents.result = result
    for hit in joined_hits(result.hits):
        document = to_document(hit.chunk)
        own = document.metadata
        document.metadata = {**own, **added_metadata(result, hit, add_metadata), **own}
        documents.append(document)
    return documents


def message_text(message: BaseMessage) -> str:
    """Return what the user or the assistant said in a message; an empty text for other messages."""
    return str(message.text).strip() if isinstance(message, (HumanMessage, AIMessage)) else ""
