"""Read the nodes of an existing ``VectorStoreIndex`` or property graph."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from llama_index.core.graph_stores.simple_labelled import SimplePropertyGraphStore
from llama_index.core.graph_stores.types import (
    KG_NODES_KEY,
    KG_RELATIONS_KEY,
    TRIPLET_SOURCE_KEY,
    ChunkNode,
    EntityNode,
    PropertyGraphStore,
    Relation,
)
from llama_index.core.indices.property_graph import PropertyGraphIndex
from llama_index.core.indices.vector_store.base import VectorStoreIndex
from llama_index.core.schema import BaseNode, NodeRelationship, ObjectType, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore
from llama_index.core.vector_stores.utils import legacy_metadata_dict_to_node, metadata_dict_to_node

from graphrag_core.errors import InputError
from llama_graphrag.nodes import description_of

_IDS_PER_REQUEST = 1_000
_NODES_PER_PAGE = 1_000

_log = logging.getLogger(__name__)

ReadNodes = Callable[[VectorStoreIndex], Iterable[BaseNode]]
"""Returns the nodes of an index, with their embeddings as far as it has them."""


def read_vector_index(
    index: VectorStoreIndex,
    *,
    read: ReadNodes | None = None,
    nodes: Iterable[BaseNode] | None = None,
    node_ids: Iterable[str] | None = None,
) -> list[BaseNode]:
    """Return the nodes of an index, with the embeddings that its vector store has. The index is not changed.

    Parameters
    ----------
    index
        An index over any vector store. Its docstore may be empty, as after ``VectorStoreIndex.from_vector_store``.
    read
        Reads the nodes. By default a function for the store (``_READERS``), else the store's ``get_nodes``.
    nodes
        The nodes, if the store cannot list them. Nothing is read, except embeddings from a ``SimpleVectorStore``.
    node_ids
        Only these nodes. A store that finds nodes by id need not be able to list them.
    """
    if not isinstance(index, VectorStoreIndex):
        raise InputError(_not_an_index(index))
    if nodes is not None and (read is not None or node_ids is not None):
        raise InputError("nodes were passed beside read or node_ids: pass the nodes alone, or one of the others")
    wanted = None if node_ids is None else list(dict.fromkeys(node_ids))
    store = index.vector_store
    if nodes is not None:
        vectors = store.data.embedding_dict if isinstance(store, SimpleVectorStore) else {}
        found: Iterable[BaseNode] = (
            node if node.embedding is not None else _with_embedding(node, vectors.get(node.node_id)) for node in nodes
        )
    elif reader := read or next(
        (_READERS[kind.__name__] for kind in type(store).__mro__ if kind.__name__ in _READERS), None
    ):
        among = None if wanted is None else set(wanted)
        found = (node for node in reader(index) if among is None or node.node_id in among)
    else:
        found = _read_with_get_nodes(index, wanted)
    by_id: dict[str, BaseNode] = {}  # a store may have a node twice: the last one counts
    for node in found:  # a list of floats takes 32 bytes a number, too much for a large store
        vector = None if node.embedding is None else np.asarray(node.embedding, np.float32)
        by_id[node.node_id] = _with_embedding(node, vector)
    name, missing = type(store).__qualname__, sum(node_id not in by_id for node_id in wanted or ())
    without = sum(node.embedding is None for node in by_id.values())
    if not by_id:
        _log.warning("%s has no nodes: check the name of its collection or table, and its path", name)
    if missing:
        _log.warning("%s has no nodes for %d of the node_ids", name, missing)
    if without:
        _log.warning(
            "%s gave no embedding for %d of %d nodes: they have to be embedded again. "
            "To reuse embeddings, pass from_index(index, read=function that returns nodes with embeddings)",
            name, without, len(by_id),
        )  # fmt: skip
    # Image and index nodes are those of the docstore, as in LlamaIndex's own retriever.
    ids = [node_id for node_id, node in by_id.items() if node.get_type() != ObjectType.TEXT]
    for node in index.docstore.get_nodes(ids, raise_error=False) if ids else ():
        by_id[node.node_id] = _with_embedding(node, by_id[node.node_id].embedding)
    return list(by_id.values())


def _with_embedding(node: BaseNode, embedding: Any) -> BaseNode:
    return node.model_copy(update={"embedding": embedding})


def _not_an_index(index: object) -> str:
    name = type(index).__qualname__
    if isinstance(index, BasePydanticVectorStore):
        return f"from_index takes a VectorStoreIndex: VectorStoreIndex.from_vector_store(<the {name}>, embed_model=...)"
    if isinstance(index, (PropertyGraphIndex, PropertyGraphStore)):
        return f"from_index takes a VectorStoreIndex: pass the {name} to from_property_graph"
    return f"from_index takes a VectorStoreIndex, not {name}: pass nodes to from_nodes, documents to from_documents"


# -- vector stores


def _read_simple(index: VectorStoreIndex) -> Iterator[BaseNode]:
    """Yield the nodes of a docstore whose vectors are in memory. A node without a vector was deleted."""
    ids = index.index_struct.nodes_dict  # ids in the vector store to ids in the docstore
    vectors = {ids[key]: vector for key, vector in index.vector_store.data.embedding_dict.items() if key in ids}  # type: ignore[attr-defined]
    yield from _from_docstore(index, vectors)


def _read_faiss(index: VectorStoreIndex) -> Iterator[BaseNode]:
    """Yield the nodes of a docstore whose vectors are in a FAISS index, if that can return them."""
    vectors: dict[str, Any] = {}
    for key, node_id in index.index_struct.nodes_dict.items():
        try:
            vectors[node_id] = index.vector_store.client.reconstruct(int(key))
        except (AttributeError, RuntimeError, ValueError):  # an index without stored vectors, or with other ids
            vectors[node_id] = None
    yield from _from_docstore(index, vectors)


def _from_docstore(index: VectorStoreIndex, vectors: Mapping[str, Any]) -> Iterator[BaseNode]:
    count = len(getattr(getattr(index.vector_store, "data", None), "embedding_dict", ()))
    if not vectors and count:
        raise InputError(
            f"{type(index.vector_store).__qualname__} has {count} embeddings, but stores no text, and the index has no "
            "docstore: load it with load_index_from_storage, or pass the nodes with from_index(index, nodes=[...])"
        )
    for node in index.docstore.get_nodes(list(vectors), raise_error=False):
        yield _with_embedding(node, vectors[node.node_id])


def _read_chroma(index: VectorStoreIndex) -> Iterator[BaseNode]:
    collection = index.vector_store.client
    start = 0
    while True:
        page = collection.get(include=["documents", "embeddings", "metadatas"], limit=_NODES_PER_PAGE, offset=start)
        count = len(page["ids"])
        nothing = [None] * count
        columns = [
            nothing if (column := page[name]) is None else column for name in ("documents", "metadatas", "embeddings")
        ]
        for node_id, text, metadata, vector in zip(page["ids"], *columns, strict=True):
            yield _with_embedding(_stored_node(node_id, text or "", metadata or {}), vector)
        if count < _NODES_PER_PAGE:
            return
        start += count


def _read_qdrant(index: VectorStoreIndex) -> Iterator[BaseNode]:
    store: Any = index.vector_store
    if not store.client.collection_exists(store.collection_name):
        return
    start = None
    while True:
        points, start = store.client.scroll(
            store.collection_name, limit=_NODES_PER_PAGE, offset=start, with_payload=True, with_vectors=True
        )
        for point, node in zip(points, store.parse_to_query_result(points).nodes, strict=True):
            vectors = point.vector if isinstance(point.vector, dict) else {"": point.vector}
            dense = [vector for vector in vectors.values() if isinstance(vector, list)]  # a sparse one is an object
            yield _with_embedding(node, dense[0]) if node.embedding is None and len(dense) == 1 else node
        if start is None:
            return


def _read_lancedb(index: VectorStoreIndex) -> Iterator[BaseNode]:
    store: Any = index.vector_store
    if store._table is None:  # noqa: SLF001 - the public name raises
        return
    for batch in store.table.to_arrow().to_batches(max_chunksize=_NODES_PER_PAGE):
        for row in batch.to_pylist():
            node = _stored_node(row["id"], row[store.text_key] or "", row.get("metadata") or {})
            if node.ref_doc_id is None and row.get(store.doc_id_key):
                node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=row[store.doc_id_key])
            yield _with_embedding(node, row[store.vector_column_name])


def _read_milvus(index: VectorStoreIndex) -> Iterator[BaseNode]:
    store: Any = index.vector_store
    rows = store.client.query_iterator(store.collection_name, batch_size=_NODES_PER_PAGE, output_fields=["*"])
    try:
        while page := rows.next():
            for row in page:
                text, vector = row.pop(store.text_key, "") or "", row.pop(store.embedding_field, None)
                yield _with_embedding(_stored_node(row["id"], text, row), vector)
    finally:
        rows.close()


def _read_pgvector(index: VectorStoreIndex) -> Iterator[BaseNode]:
    store: Any = index.vector_store
    store._initialize()  # noqa: SLF001 - its get_nodes asks for ids or filters
    table, last = store._table_class, 0  # noqa: SLF001
    while True:
        with store._session() as session:  # noqa: SLF001
            page = session.query(table).filter(table.id > last).order_by(table.id).limit(_NODES_PER_PAGE).all()
            for row in page:
                yield _with_embedding(
                    _stored_node(row.node_id, row.text or "", dict(row.metadata_ or {})), row.embedding
                )
        if len(page) < _NODES_PER_PAGE:
            return
        last = page[-1].id


_READERS: dict[str, ReadNodes] = {
    "ChromaVectorStore": _read_chroma,
    "FaissVectorStore": _read_faiss,
    "LanceDBVectorStore": _read_lancedb,
    "MilvusVectorStore": _read_milvus,
    "PGVectorStore": _read_pgvector,
    "QdrantVectorStore": _read_qdrant,
    "SimpleVectorStore": _read_simple,
}


def _stored_node(node_id: str, text: str, metadata: dict[str, Any]) -> BaseNode:
    """Return the node that a vector store keeps as text and metadata; a new one if LlamaIndex did not write it."""
    if "_node_content" in metadata:
        return metadata_dict_to_node(metadata, text=text)
    metadata, info, relationships = legacy_metadata_dict_to_node(metadata)
    return TextNode(
        id_=str(node_id), text=text, metadata=metadata, relationships=relationships,
        start_char_idx=info.get("start"), end_char_idx=info.get("end"),
    )  # fmt: skip


def _read_with_get_nodes(index: VectorStoreIndex, node_ids: list[str] | None) -> Iterable[BaseNode]:
    """Return the nodes of a store that has no reader here: by its ``get_nodes``, else from the docstore."""
    store = index.vector_store
    among = set(index.index_struct.nodes_dict.values() if node_ids is None else node_ids)
    in_docstore = [node_id for node_id in index.index_struct.nodes_dict.values() if node_id in among]
    if not store.stores_text:
        return index.docstore.get_nodes(in_docstore, raise_error=False)
    pages: list[list[str] | None] = [None]
    if node_ids is not None:
        pages = [node_ids[start : start + _IDS_PER_REQUEST] for start in range(0, len(node_ids), _IDS_PER_REQUEST)]
    try:
        return [node for page in pages for node in store.get_nodes(node_ids=page, filters=None)]
    except (AssertionError, AttributeError, NotImplementedError, TypeError, ValueError) as error:
        if index._store_nodes_override:  # noqa: SLF001 - it has no public name
            return index.docstore.get_nodes(in_docstore, raise_error=False)
        way = "node_ids=[...] or nodes=[...]" if node_ids is None else "nodes=[...]"
        raise InputError(
            f"{type(store).__qualname__}.get_nodes raised {type(error).__name__}: {error}. Nodes cannot be read "
            f"that way: pass from_index(index, {way}), or from_index(index, read=function that returns the nodes), "
            "or pass the nodes to from_nodes"
        ) from error


# -- property graphs


def read_property_graph(graph: PropertyGraphStore | PropertyGraphIndex) -> list[BaseNode]:
    """Return the text nodes of a graph, each with the entities and relations extracted from it.

    The embedding of a text node is that of its chunk, or the one in the vector store of the index. Embeddings of
    entities are not used: LlamaIndex embeds an entity's name with all its properties, which is no node's text.

    A relation belongs to the node in its ``triplet_source_id``. An entity belongs to the nodes
    of its relations and to the node in its own ``triplet_source_id``, which alone gets its
    description. Relations and described entities without such a node are written as sentences
    into new nodes, one for each subject.
    """
    store = graph.property_graph_store if isinstance(graph, PropertyGraphIndex) else graph
    if not isinstance(store, PropertyGraphStore):
        raise InputError(f"{type(graph).__qualname__} is no PropertyGraphStore or PropertyGraphIndex: pass one of them")
    vectors = getattr(graph, "vector_store", None)
    vectors = vectors.data.embedding_dict if isinstance(vectors, SimpleVectorStore) else {}
    everything = store.get()
    chunks = {item.id: item for item in everything if isinstance(item, ChunkNode)}
    entities = {item.id: item for item in everything if isinstance(item, EntityNode) and item.id not in chunks}
    relations_of_chunk: dict[str, list[Relation]] = defaultdict(list)
    without_chunk: dict[str, list[Relation]] = defaultdict(list)
    for relation in _relations(store, entities):
        source = relation.properties.get(TRIPLET_SOURCE_KEY)
        if source in chunks:
            relations_of_chunk[source].append(relation)
        else:
            without_chunk[relation.source_id].append(relation)
    entities_of_chunk: dict[str, list[EntityNode]] = defaultdict(list)
    for entity in entities.values():
        source = entity.properties.get(TRIPLET_SOURCE_KEY)
        if source in chunks:
            entities_of_chunk[source].append(entity)
        elif description_of(entity):
            without_chunk.setdefault(entity.id, [])
    known = {node.node_id: node for node in store.get_llama_nodes(list(chunks))} if chunks else {}
    nodes = []
    for key, chunk in chunks.items():
        node = known.get(key) or TextNode(id_=key, text=chunk.text, metadata=dict(chunk.properties))
        node = _with_embedding(node, vectors.get(key) if chunk.embedding is None else chunk.embedding)
        nodes.append(_with_knowledge(node, entities_of_chunk[key], relations_of_chunk[key], entities))
    return nodes + [_write_out(entities[key], relations, entities) for key, relations in without_chunk.items()]


def _relations(store: PropertyGraphStore, entities: Mapping[str, EntityNode]) -> Iterable[Relation]:
    """Return every relation between two entities once."""
    triplets: Iterable[Any]
    if isinstance(store, SimplePropertyGraphStore):  # its get_triplets compares every triplet with every id
        triplets = sorted(store.graph.get_triplets(), key=lambda t: (t[1].source_id, t[1].label, t[1].target_id))
    else:
        ids, size = list(entities), _IDS_PER_REQUEST
        triplets = (one for at in range(0, len(ids), size) for one in store.get_triplets(ids=ids[at : at + size]))
    found: dict[tuple[str, ...], Relation] = {}
    for _, relation, _ in triplets:
        if relation.source_id in entities and relation.target_id in entities:
            source = str(relation.properties.get(TRIPLET_SOURCE_KEY))
            found.setdefault((relation.source_id, relation.label, relation.target_id, source), relation)
    return found.values()


def _with_knowledge(
    node: BaseNode, own: list[EntityNode], relations: list[Relation], entities: Mapping[str, EntityNode]
) -> BaseNode:
    own_ids = {entity.id for entity in own}
    ends = dict.fromkeys(end for relation in relations for end in (relation.source_id, relation.target_id))
    # Entities of other nodes come without their description, which belongs to the node it was read in.
    others = [EntityNode(name=entities[end].name, label=entities[end].label) for end in ends if end not in own_ids]
    knowledge = {KG_NODES_KEY: [*own, *others], KG_RELATIONS_KEY: relations}
    return node.model_copy(update={"metadata": {**node.metadata, **knowledge}})


def _write_out(subject: EntityNode, relations: list[Relation], entities: Mapping[str, EntityNode]) -> BaseNode:
    """Return a new node that states an entity's description and relations as sentences."""
    description = description_of(subject)
    sentences = [f"{subject.name}: {description}"] if description else []
    for relation in relations:
        words = f"{subject.name} {relation.label.replace('_', ' ').lower()} {entities[relation.target_id].name}."
        sentences.append(description_of(relation) or words)
    node = TextNode(id_=f"entity:{subject.id}", text="\n".join(sentences), metadata={"title": subject.name})
    return _with_knowledge(node, [subject], relations, entities)
