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

_PAGE = 1_000  # documents in a request to a store
_log = logging.getLogger(__name__)

Row = tuple[str, str | None, Mapping[str, Any] | None, Sequence[float] | None]
"""Id, text, metadata and vector of a stored document. One without text is skipped, one without a vector embedded."""

ReadRows = Callable[[Any], Iterable[Row]]
"""Reads the rows of a store."""


def store_rows(store: VectorStore, read: ReadRows | None) -> Iterable[Row]:
    """Return the rows of a vector store, which is not changed; documents that are deleted meanwhile are left out."""
    # By class name, so that no store has to be imported.
    read = read or by_class_name(store, _READERS)
    if read is None:
        raise InputError(
            f"{type(store).__qualname__} cannot be read: pass read=function, which gets the store and yields "
            "(id, text, metadata, vector) for each document"
        )
    return read(store)


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


def _pages(ids: Iterable[Any]) -> Iterator[list[Any]]:
    listed = list(ids)
    return (listed[start : start + _PAGE] for start in range(0, len(listed), _PAGE))


def _read_chroma(store: Any) -> Iterator[Row]:
    """Chroma and PGVectorStore: both have ``get``."""
    for ids in _pages(store.get(include=[])["ids"]):
        page = store.get(ids=ids, include=["documents", "metadatas", "embeddings"])
        for name, text, metadata, vector in chroma_rows(page):
            yield name, text, metadata, json.loads(vector) if isinstance(vector, str) else vector  # "[1,0]"


def _read_in_memory(store: Any) -> Iterator[Row]:
    for entry in list(store.store.values()):
        yield entry["id"], entry["text"], entry["metadata"], entry["vector"]


def _read_faiss(store: Any) -> Iterator[Row]:
    for page in _pages(store.index_to_docstore_id.items()):
        try:
            vectors = store.index.reconstruct_batch(np.array([position for position, _ in page], np.int64))
        except RuntimeError as error:
            raise InputError(
                f"{type(store.index).__name__} does not return its vectors ({str(error).splitlines()[-1].strip()}). If "
                "it is an IVF index, call faiss.extract_index_ivf(store.index).make_direct_map() first. Otherwise "
                "pass documents=[...], which are embedded again"
            ) from error
        for (_, name), vector in zip(page, vectors, strict=True):
            document = store.docstore.search(name)
            yield name, document.page_content, document.metadata, vector


def _read_qdrant(store: Any) -> Iterator[Row]:
    options = {"limit": _PAGE, "with_payload": True, "with_vectors": True}
    for point in qdrant_points(store.client, store.collection_name, **options):
        payload, vector = point.payload or {}, point.vector
        vector = vector.get(store.vector_name or "") if isinstance(vector, Mapping) else vector
        yield str(point.id), payload.get(store.content_payload_key), payload.get(store.metadata_payload_key), vector


def _read_pgvector(store: Any) -> Iterator[Row]:
    if store.async_mode:
        raise InputError("the PGVector store has async_mode=True: open the same collection without it to read it")
    stored, last, page = store.EmbeddingStore, "", None
    while page is None or len(page) == _PAGE:
        with store.session_maker() as session:
            collection = store.get_collection(session)
            if collection is None:
                raise InputError(f"there is no collection {store.collection_name!r} in the database")
            found = session.query(stored).filter(stored.collection_id == collection.uuid, stored.id > last)
            page = found.order_by(stored.id).limit(_PAGE).all()
            for row in page:
                yield row.id, row.document, row.cmetadata, row.embedding
                last = row.id


_READERS: Mapping[str, ReadRows] = {
    "Chroma": _read_chroma,
    "FAISS": _read_faiss,
    "InMemoryVectorStore": _read_in_memory,
    "PGVector": _read_pgvector,
    "PGVectorStore": _read_chroma,
    "QdrantVectorStore": _read_qdrant,
}
