"""Convert LangChain documents to core documents, and search hits back to LangChain documents."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.documents import Document

import graphrag_core
from graphrag_core import Chunk, Chunker, Hit, Result
from graphrag_core.documents.html import readable
from graphrag_core.errors import DocumentError, InputError
from graphrag_core.filters import json_value
from graphrag_core.ingest.titles import stated_title
from graphrag_core.text import fingerprint

Knowledge = Mapping[str, Any]
"""Entities and relations of one document, in the form :class:`graphrag_core.KnowledgeExtractor` takes."""

SCORE, DETAILS = "score", "graphrag"  # the metadata keys that a retrieved document has in addition
_ORIGINAL, _KNOWLEDGE = "own", "knowledge"  # keys inside the details
_DETAILS_KEYS = {"document_id", "channels", "method"}  # by these we recognise details that we wrote
_STORED_KNOWLEDGE = "__graphrag__"  # the metadata key of the stored knowledge; written to existing indexes


@dataclass(frozen=True, kw_only=True)
class LongDocumentChunker(Chunker):
    """The core's chunker for long documents; a short one, and one with stored knowledge, stays whole."""

    long_only: bool = True

    def keeps_whole(self, document: graphrag_core.Document) -> bool:
        """Return whether a document is not split."""
        return _STORED_KNOWLEDGE in document.metadata or super().keeps_whole(document)


class FoundMetadata(dict[str, Any]):
    """The metadata of a retrieved document: its own, and how it was found.

    ``metadata["score"]`` and ``metadata["graphrag"]`` belong to the query and not to the passage. They are reached by
    key (``[]``, ``get``, ``in``); comparison, iteration and JSON show the document's own metadata alone. So documents
    of the same passage are equal, whichever queries found them and whichever retriever returned them, in all the ways
    by which LangChain and its users deduplicate: ``==``, ``dumps`` of ``langchain_core.load``, ``json.dumps``, and the
    hashes of ``langchain_core.indexing.index``. Pickles, deep copies and ``model_copy`` keep both. A new document made
    from the metadata, as ``EmbeddingsFilter`` makes them, does not have them.
    """

    def _everything(self) -> dict[str, Any]:
        return {key: self[key] for key in dict.__iter__(self)}

    def __iter__(self) -> Iterator[str]:
        # Without our keys even if the document has them too: ``dict(metadata)`` looks keys up, and would get ours.
        return (key for key in dict(self.items()) if key not in (SCORE, DETAILS))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def keys(self) -> Any:
        """Return the keys of the document's own metadata."""
        return dict.fromkeys(self).keys()

    def values(self) -> Any:
        """Return the values of the document's own metadata."""
        return dict(self.items()).values()

    def items(self) -> Any:
        """Return the document's own metadata."""
        everything = self._everything()
        return _original_metadata(everything, _details(everything)).items()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, dict):
            return NotImplemented
        own = other if isinstance(other, FoundMetadata) else _original_metadata(other, _details(other))
        return dict(self.items()) == dict(own.items())

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # as for every dict

    def __repr__(self) -> str:
        return repr(self._everything())

    def copy(self) -> FoundMetadata:
        """Return a copy of the same type."""
        return FoundMetadata(self._everything())

    def __reduce__(self) -> tuple[Any, ...]:
        return FoundMetadata, (self._everything(),)


class RetrievedDocuments(list[Document]):
    """The documents found for a query, best first, with the core's ``result``.

    ``documents.result.context(max_tokens=500)`` returns text for a prompt and
    ``documents.result.explain()`` the reason for each document.
    """

    def __init__(self, result: Result) -> None:
        super().__init__(_from_hit(result, hit) for hit in result.hits)
        self.result = result


def to_core_documents(documents: Iterable[Document]) -> list[graphrag_core.Document]:
    """Convert documents for the core.

    A document without an id gets the hash of its content as id; identical documents without
    ids are deduplicated. What an earlier search added to the metadata is removed, except
    knowledge (entities and relations), which stays with the document.

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
        details = _details(document.metadata)
        metadata = _stored(_original_metadata(document.metadata, details))
        document_id = document.id or _content_id(document.page_content, metadata)
        if document.id and document_id in converted:
            raise DocumentError(document_id, "this id occurs twice in one call: give each document its own id")
        core = readable(graphrag_core.Document(document_id, document.page_content, metadata=metadata))
        if core.title and stated_title(metadata):
            core = replace(core, title="")  # the loader's title comes before the page's
        knowledge = details.get(_KNOWLEDGE)
        converted[document_id] = with_knowledge(core, knowledge) if knowledge else core
    return list(converted.values())


def from_core_document(document: graphrag_core.Document) -> Document:
    """Return a stored document as it was added; raw HTML as its readable text."""
    metadata = copy.deepcopy(dict(document.metadata))
    metadata.pop(_STORED_KNOWLEDGE, None)
    return Document(id=document.id, page_content=document.text, metadata=metadata)


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


def candidate(chunk: Chunk, score: float) -> Document:
    """Return a chunk as a document for a reranker: as it was added, with its id also in the metadata."""
    metadata = copy.deepcopy(dict(chunk.metadata))
    metadata.pop(_STORED_KNOWLEDGE, None)
    details = {"id": chunk.id, "document_id": chunk.document_id, "title": chunk.title, "headings": list(chunk.headings)}
    return Document(id=chunk.id, page_content=chunk.text, metadata={**metadata, SCORE: score, DETAILS: details})


def _from_hit(result: Result, hit: Hit) -> Document:
    metadata = copy.deepcopy(dict(hit.chunk.metadata))
    details = {**result.details(hit), "start_index": hit.chunk.start}
    if metadata.pop(_STORED_KNOWLEDGE, None) and (knowledge := knowledge_of(hit.chunk)):
        details[_KNOWLEDGE] = knowledge
    if original := {key: metadata[key] for key in (SCORE, DETAILS) if key in metadata}:
        details[_ORIGINAL] = original
    metadata[SCORE] = hit.score
    metadata[DETAILS] = details
    document = Document(id=hit.chunk.id, page_content=hit.chunk.text)
    document.metadata = FoundMetadata(metadata)  # the constructor would copy it into an ordinary dict
    return document


def details_of(document: Document) -> Mapping[str, Any]:
    """Return the details that a search added to a document, or an empty mapping."""
    return _details(document.metadata)


def _details(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the details that a search added to metadata, or an empty mapping."""
    details = metadata.get(DETAILS)
    return details if isinstance(details, Mapping) and details.keys() >= _DETAILS_KEYS else {}


def _stored(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return metadata as the core stores it, so that ids made from it are those of the stored document."""
    try:
        stored: dict[str, Any] = json_value(metadata, "metadata")
    except (ValueError, RecursionError):
        return metadata  # the core reports what is wrong with it
    return stored


def _original_metadata(metadata: Mapping[str, Any], details: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata as it was before a search added ``details``, in the same order."""
    if not details:
        return dict(metadata)
    given = details.get(_ORIGINAL)
    # Nothing but our two keys: metadata that comes in may say anything, and must not replace the application's.
    original = {key: given[key] for key in (SCORE, DETAILS) if key in given} if isinstance(given, Mapping) else {}
    return {
        key: original.get(key, value)
        for key, value in metadata.items()
        if key not in (SCORE, DETAILS) or key in original
    }


def _content_id(text: str, metadata: Mapping[str, Any]) -> str:
    try:
        serialised = json.dumps(metadata, sort_keys=True, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        serialised = ""  # the core reports what is wrong with the metadata
    return fingerprint([text, serialised])
