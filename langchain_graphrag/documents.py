"""LangChain's documents to the core's, and what was found back again."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from langchain_core.documents import Document

import graphrag_core
from graphrag_core import Chunk, Hit, Result
from graphrag_core.errors import DocumentError, InputError
from graphrag_core.query.account import account
from graphrag_core.text import fingerprint

SCORE, DETAILS = "score", "graphrag"
_OWN, _KNOWN = "own", "knowledge"
_OURS = "__graphrag__"
_MARKS = {"document_id", "channels", "method"}

Knowledge = Mapping[str, Any]
"""Entities and relations that came with a document, as :class:`graphrag_core.KnowledgeExtractor` reads them."""


class Found(list[Document]):
    """The documents of an answer, best first, and the core's ``result`` that they come from.

    ``found.result.context(max_tokens=500)`` is the text to hand to a language model,
    ``found.result.explain()`` the reason for each document, for a person.
    """

    def __init__(self, result: Result) -> None:
        super().__init__(_found(result, hit) for hit in result.hits)
        self.result = result


def to_core(documents: Iterable[Document]) -> list[graphrag_core.Document]:
    """Return documents as the core takes them, without what an earlier answer wrote into them.

    A document without an id gets one from its content, so that it is the same document the
    next time; documents that are the same to the last letter are then one. Knowledge that
    an earlier answer says it came with stays with it.
    """
    taken: dict[str, graphrag_core.Document] = {}
    for document in documents:
        if not isinstance(document, Document):
            raise InputError(f"a LangChain Document is needed, not {type(document).__qualname__}")
        metadata = _own(document.metadata)
        name = document.id or _content_id(document.page_content, metadata)
        if document.id and name in taken:
            raise DocumentError(name, "this id comes twice in one call: keep one, or give them ids of their own")
        taken[name] = graphrag_core.Document(name, document.page_content, metadata=metadata)
        if known := _details(document.metadata).get(_KNOWN):
            taken[name] = knowing(taken[name], known)
    return list(taken.values())


def knowing(document: graphrag_core.Document, knowledge: Knowledge) -> graphrag_core.Document:
    """Return a document with knowledge of it, which is stored, and goes, with it."""
    # Filters look into mappings and lists but not into lists of lists: what is kept costs no index.
    kept = [[json.dumps(knowledge, ensure_ascii=False)]]
    return replace(document, metadata={**document.metadata, _OURS: kept})


def known_in(chunk: Chunk) -> Knowledge | None:
    """Return the knowledge that came with a chunk's document; the first chunk has it."""
    kept = chunk.metadata.get(_OURS) if chunk.ordinal == 0 else None
    return None if kept is None else dict(json.loads(kept[0][0]))


def from_texts(
    texts: Iterable[str], metadatas: Iterable[Mapping[str, Any]] | None, ids: Iterable[str] | None
) -> list[Document]:
    """Return texts as documents."""
    contents = list(texts)
    own = [{}] * len(contents) if metadatas is None else list(metadatas)
    names = [None] * len(contents) if ids is None else list(ids)
    if not len(contents) == len(own) == len(names):
        raise InputError(f"{len(contents)} texts came with {len(own)} metadatas and {len(names)} ids: give as many")
    return [
        Document(id=name, page_content=text, metadata=dict(metadata))
        for text, metadata, name in zip(contents, own, names, strict=True)
    ]


def as_added(document: graphrag_core.Document) -> Document:
    """Return a document of the index as it was put in."""
    return Document(id=document.id, page_content=document.text, metadata=_shown(document.metadata))


def _found(result: Result, hit: Hit) -> Document:
    metadata = _shown(hit.chunk.metadata)
    details = account(result, hit)
    if known := known_in(hit.chunk):
        details[_KNOWN] = known
    if own := {key: metadata[key] for key in (SCORE, DETAILS) if key in metadata}:
        details[_OWN] = own
    metadata[SCORE] = hit.score
    metadata[DETAILS] = details
    return Document(id=hit.chunk.id, page_content=hit.chunk.text, metadata=metadata)


def _shown(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: copy.deepcopy(value) for key, value in metadata.items() if key != _OURS}


def _details(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what an answer wrote into metadata, if one did."""
    details = metadata.get(DETAILS)
    return details if isinstance(details, Mapping) and details.keys() >= _MARKS else {}


def _own(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata as its owner wrote it, in the same order."""
    details = _details(metadata)
    if not details:
        return dict(metadata)
    own = details.get(_OWN, {})
    kept = {key: own.get(key, value) for key, value in metadata.items()}
    return {key: value for key, value in kept.items() if key not in (SCORE, DETAILS) or key in own}


def _content_id(text: str, metadata: Mapping[str, Any]) -> str:
    try:
        written = json.dumps(metadata, sort_keys=True, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        written = ""  # the core says what is wrong with it
    return fingerprint([text, written])
