"""Read documents and their vectors out of LangChain vector stores, so that nothing is embedded again."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

import graphrag_core
from graphrag_core import KnowledgeIndex
from graphrag_core.adapter import by_class_name, chroma_rows, qdrant_points
from graphrag_core.errors import InputError
from graphrag_core.ingest import remembered
from langchain_graphrag.documents import to_core_document

_log = logging.getLogger(__name__)

Row = tuple[str, str | None, Mapping[str, Any] | None, Sequence[float] | None]
"""Id, text, metadata and vector of a stored document. One without text is skipped, one without a vector embedded."""

ReadRows = Callable[[Any], Iterable[Row]]
"""Reads the rows of a store."""

_Access = tuple[Callable[[Any], Iterable[Any]], Callable[[Sequence[Any]], Iterable[Row]]]
"""How a store is read: the ids that match a filter of the store, and the rows of some ids."""


def store_rows(
    store: VectorStore, where: Any, ids: Iterable[Any] | None, read: ReadRows | None, batch_size: int
) -> Iterable[Row]:
    """Return the rows of a vector store, which is not changed; documents that are deleted meanwhile are left out."""
    if sum(given is not None for given in (where, ids, read)) > 1:
        raise InputError("pass one of where, ids and read")
    if read is not None:
        return read(store)
    access = by_class_name(store, _ACCESS)
    if access is None:
        raise InputError(
            f"{type(store).__qualname__} cannot be read: pass read=function, which gets the store and yields "
            "(id, text, metadata, vector) for each document"
        )
    list_ids, rows = access(store)
    names = list(list_ids(where) if ids is None else ids)
    return (row for start in range(0, len(names), batch_size) for row in rows(names[start : start + batch_size]))


def embedding_of(store: VectorStore) -> Any:
    """Return the embedding model of a store."""
    if store.embeddings is None:
        kind = type(store).__qualname__
        raise InputError(f"{kind} has no embedding model: pass embedding=..., the one that computed its vectors")
    return store.embeddings


def copy_store(index: KnowledgeIndex, rows: Iterable[Row], *, remove_missing: bool) -> None:
    """Add the rows of a store to an index; with ``remove_missing`` delete documents that are not among them.

    Rows without text are left out. Vectors are kept for one batch, so that memory does not grow with the store.
    """
    vectors: dict[str, Any] = {}
    ids: set[str] = set()
    missing: Counter[str] = Counter()

    def documents() -> Iterator[graphrag_core.Document]:
        for row_id, text, metadata, vector in rows:
            if not text or not text.strip():
                missing["have no text and were skipped"] += 1
                continue
            ordered = dict(sorted((metadata or {}).items()))  # Chroma returns the keys in any order
            document = to_core_document(Document(id=str(row_id), page_content=text, metadata=ordered))
            if vector is None:
                missing["came without a vector and were embedded"] += 1
            else:
                if len(vectors) >= index.batch_size:
                    del vectors[next(iter(vectors))]
                vectors[document.id] = vector
            ids.add(document.id)
            yield document

    index.add(documents(), vectors=vectors)
    for problem, count in missing.items():
        _log.warning("%d documents of the store %s", count, problem)
    if not remove_missing:
        return
    stored = (index.get(document_id) for document_id in index.document_ids() if document_id not in ids)
    gone = [document.id for document in stored if document and remembered.FACT_KEY not in document.metadata]
    if gone and not ids:
        raise InputError(
            "nothing was read from the store, and remove_missing=True would empty the index: "
            "check the name of the collection, or remove the folder of the index"
        )
    index.delete(gone)


# -- stores


def _chroma(store: Any) -> _Access:
    """Chroma and PGVectorStore: both have ``get``."""

    def rows(ids: Sequence[Any]) -> Iterator[Row]:
        page = store.get(ids=list(ids), include=["documents", "metadatas", "embeddings"])
        for name, text, metadata, vector in chroma_rows(page):
            yield name, text, metadata, json.loads(vector) if isinstance(vector, str) else vector  # "[1,0]"

    return lambda where: store.get(where=where, include=[])["ids"], rows


def _in_memory(store: Any) -> _Access:
    def to_document(entry: Mapping[str, Any]) -> Document:
        return Document(id=entry["id"], page_content=entry["text"], metadata=entry["metadata"])

    def ids(where: Any) -> list[str]:
        return [name for name, entry in store.store.items() if where is None or where(to_document(entry))]

    def rows(ids: Sequence[Any]) -> Iterator[Row]:
        for entry in (store.store[name] for name in ids if name in store.store):
            yield entry["id"], entry["text"], entry["metadata"], entry["vector"]

    return ids, rows


def _faiss(store: Any) -> _Access:
    positions = {name: position for position, name in store.index_to_docstore_id.items()}

    def ids(where: Any) -> list[str]:
        if where is None:
            return list(positions)
        matches = where if callable(where) else store._create_filter_func(where)  # noqa: SLF001 - its filter language
        return [name for name in positions if matches(store.docstore.search(name).metadata)]

    def rows(ids: Sequence[Any]) -> Iterator[Row]:
        known = [name for name in ids if name in positions]
        try:
            vectors = store.index.reconstruct_batch(np.array([positions[name] for name in known], np.int64))
        except RuntimeError as error:
            raise InputError(
                f"{type(store.index).__name__} does not return its vectors ({str(error).splitlines()[-1].strip()}). If "
                "it is an IVF index, call faiss.extract_index_ivf(store.index).make_direct_map() first. Otherwise "
                "pass documents=[...], which are embedded again"
            ) from error
        for name, vector in zip(known, vectors, strict=True):
            document = store.docstore.search(name)
            yield name, document.page_content, document.metadata, vector

    return ids, rows


def _qdrant(store: Any) -> _Access:
    client, collection, name = store.client, store.collection_name, store.vector_name

    def ids(where: Any) -> Iterator[Any]:
        options = {"scroll_filter": where, "limit": 10_000, "with_payload": False, "with_vectors": False}
        return (point.id for point in qdrant_points(client, collection, **options))

    def rows(ids: Sequence[Any]) -> Iterator[Row]:
        for point in client.retrieve(collection, list(ids), with_payload=True, with_vectors=True):
            payload = point.payload or {}
            vector = point.vector.get(name or "") if isinstance(point.vector, Mapping) else point.vector
            text, metadata = payload.get(store.content_payload_key), payload.get(store.metadata_payload_key)
            yield str(point.id), text, metadata, vector

    return ids, rows


def _pgvector(store: Any) -> _Access:
    if store.async_mode:
        raise InputError("the PGVector store has async_mode=True: open the same collection without it to read it")
    stored = store.EmbeddingStore

    def query(*columns: Any, where: Any = None, ids: Sequence[Any] | None = None) -> Any:
        with store.session_maker() as session:
            collection = store.get_collection(session)
            if collection is None:
                raise InputError(f"there is no collection {store.collection_name!r} in the database")
            found = session.query(*columns).filter(stored.collection_id == collection.uuid)
            if where is not None:
                found = found.filter(store._create_filter_clause(where))  # noqa: SLF001 - its filter language
            return (found if ids is None else found.filter(stored.id.in_(ids))).order_by(stored.id).all()

    def rows(ids: Sequence[Any]) -> Iterator[Row]:
        for row in query(stored.id, stored.document, stored.cmetadata, stored.embedding, ids=ids):
            yield row.id, row.document, row.cmetadata, row.embedding

    return lambda where: [row.id for row in query(stored.id, where=where)], rows


# By class name, so that no store has to be imported; subclasses are found by their parents' names.
_ACCESS: Mapping[str, Callable[[Any], _Access]] = {
    "Chroma": _chroma,
    "FAISS": _faiss,
    "InMemoryVectorStore": _in_memory,
    "PGVector": _pgvector,
    "PGVectorStore": _chroma,
    "QdrantVectorStore": _qdrant,
}
