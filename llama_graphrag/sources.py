"""Read the nodes of an existing ``VectorStoreIndex`` or property graph."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypeVar

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
from llama_index.core.schema import BaseNode, ObjectType, TextNode
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.utils import legacy_metadata_dict_to_node, metadata_dict_to_node

from graphrag_core.adapter import by_class_name, chroma_rows, qdrant_points
from graphrag_core.errors import InputError
from llama_graphrag.nodes import description_of

_PAGE = 1_000  # nodes or ids in a request to a store

_log = logging.getLogger(__name__)
_Item = TypeVar("_Item", EntityNode, Relation)

ReadNodes = Callable[[VectorStoreIndex], Iterable[BaseNode]]
"""Returns the nodes of an index, with their embeddings as far as it has them."""


def read_vector_index(index: VectorStoreIndex, read: ReadNodes | None = None) -> list[BaseNode]:
    """Return the nodes of an index, with the embeddings that its vector store has. The index is not changed.

    ``read`` reads the nodes; by default a function for the store (``_READERS``).
    """
    if not isinstance(index, VectorStoreIndex):
        raise InputError(
            f"from_index takes a VectorStoreIndex, not {type(index).__qualname__}: pass a vector store as "
            "VectorStoreIndex.from_vector_store(store, embed_model=...), a property graph to from_property_graph, "
            "nodes to from_nodes, documents to from_documents"
        )
    name = type(index.vector_store).__qualname__
    read = read or by_class_name(index.vector_store, _READERS)
    if read is None:
        raise InputError(
            f"{name} cannot be read: pass from_index(index, read=function), which gets the index and returns its nodes "
            "with their embeddings, or pass the nodes to from_nodes"
        )
    by_id: dict[str, BaseNode] = {}  # a store may have a node twice: the last one counts
    for node in read(index):
        # a list of floats takes 32 bytes a number, too much for a large store
        vector = None if node.embedding is None else np.asarray(node.embedding, np.float32)
        by_id[node.node_id] = _with_embedding(node, vector)
    _log_missing(name, by_id.values())
    # Image and index nodes are read from the docstore, as in LlamaIndex's own retriever.
    ids = [node_id for node_id, node in by_id.items() if node.get_type() != ObjectType.TEXT]
    for node in index.docstore.get_nodes(ids, raise_error=False) if ids else ():
        by_id[node.node_id] = _with_embedding(node, by_id[node.node_id].embedding)
    return list(by_id.values())


def _log_missing(name: str, nodes: Collection[BaseNode]) -> None:
    """Log if a store gave no nodes, or nodes without embeddings."""
    if not nodes:
        _log.warning("%s has no nodes: check the name of its collection or table, and its path", name)
    if without := sum(node.embedding is None for node in nodes):
        _log.warning("%s gave no embedding for %d of %d nodes: they have to be embedded again, unless a function read= "
                     "returns nodes with embeddings", name, without, len(nodes))  # fmt: skip


def _with_embedding(node: BaseNode, embedding: Any) -> BaseNode:
    return node.model_copy(update={"embedding": embedding})


# -- vector stores


def _read_simple(index: VectorStoreIndex) -> Iterator[BaseNode]:
    """Yield the nodes of a docstore whose vectors are in memory. A node without a vector was deleted."""
    store: Any = index.vector_store
    ids = index.index_struct.nodes_dict  # ids in the vector store to ids in the docstore
    vectors = {ids[key]: vector for key, vector in store.data.embedding_dict.items() if key in ids}
    if store.data.embedding_dict and not vectors:
        raise InputError(
            f"{type(store).__qualname__} has embeddings, but stores no text, and the index has no docstore: load it "
            "with load_index_from_storage, or pass the nodes to from_nodes"
        )
    return _from_docstore(index, vectors)


def _read_faiss(index: VectorStoreIndex) -> Iterator[BaseNode]:
    """Yield the nodes of a docstore whose vectors are in a FAISS index, if that can return them."""
    vectors: dict[str, Any] = {}
    for key, node_id in index.index_struct.nodes_dict.items():
        try:
            vectors[node_id] = index.vector_store.client.reconstruct(int(key))
        except (AttributeError, RuntimeError, ValueError):  # an index without stored vectors, or with other ids
            vectors[node_id] = None
    return _from_docstore(index, vectors)


def _from_docstore(index: VectorStoreIndex, vectors: Mapping[str, Any]) -> Iterator[BaseNode]:
    for node in index.docstore.get_nodes(list(vectors), raise_error=False):
        yield _with_embedding(node, vectors[node.node_id])


def _read_chroma(index: VectorStoreIndex) -> Iterator[BaseNode]:
    start, count = 0, _PAGE
    while count == _PAGE:
        included = ["documents", "embeddings", "metadatas"]
        page = index.vector_store.client.get(include=included, limit=_PAGE, offset=start)
        for node_id, text, metadata, vector in chroma_rows(page):
            yield _stored_node(node_id, text, metadata, vector)
        count = len(page["ids"])
        start += count


def _read_qdrant(index: VectorStoreIndex) -> Iterator[BaseNode]:
    store: Any = index.vector_store
    if not store.client.collection_exists(store.collection_name):
        return
    options = {"limit": _PAGE, "with_payload": True, "with_vectors": True}
    for point in qdrant_points(store.client, store.collection_name, **options):
        (node,) = store.parse_to_query_result([point]).nodes
        vectors = point.vector if isinstance(point.vector, dict) else {"": point.vector}
        dense = [vector for vector in vectors.values() if isinstance(vector, list)]  # a sparse one is an object
        yield _with_embedding(node, dense[0]) if node.embedding is None and len(dense) == 1 else node


def _read_pgvector(index: VectorStoreIndex) -> Iterator[BaseNode]:
    store: Any = index.vector_store
    store._initialize()  # noqa: SLF001 - its get_nodes asks for ids or filters
    table, last = store._table_class, 0  # noqa: SLF001
    page = None
    while page is None or len(page) == _PAGE:
        with store._session() as session:  # noqa: SLF001
            page = session.query(table).filter(table.id > last).order_by(table.id).limit(_PAGE).all()
            for row in page:
                yield _stored_node(row.node_id, row.text, row.metadata_, row.embedding)
                last = row.id


_READERS: dict[str, ReadNodes] = {
    "ChromaVectorStore": _read_chroma,
    "FaissVectorStore": _read_faiss,
    "PGVectorStore": _read_pgvector,
    "QdrantVectorStore": _read_qdrant,
    "SimpleVectorStore": _read_simple,
}


def _stored_node(node_id: Any, text: str | None, metadata: Mapping[str, Any] | None, vector: Any) -> BaseNode:
    """Return the node that a vector store keeps as text and metadata; a new one if LlamaIndex did not write it."""
    metadata, text = dict(metadata or {}), text or ""
    if "_node_content" in metadata:
        return _with_embedding(metadata_dict_to_node(metadata, text=text), vector)
    metadata, info, relationships = legacy_metadata_dict_to_node(metadata)
    node = TextNode(
        id_=str(node_id), text=text, metadata=metadata, relationships=relationships,
        start_char_idx=info.get("start"), end_char_idx=info.get("end"),
    )  # fmt: skip
    return _with_embedding(node, vector)  # may be an array, which a new node would refuse


# -- property graphs


def read_property_graph(graph: PropertyGraphStore | PropertyGraphIndex) -> list[BaseNode]:
    """Return the text nodes of a graph, each with the entities and relations extracted from it.

    A text node has the embedding of its chunk, or the one in the vector store of the index. Embeddings of
    entities are not used: LlamaIndex embeds an entity's name with all its properties.

    A relation belongs to the node in its ``triplet_source_id``. An entity belongs to the nodes of its relations and to
    the node in its own ``triplet_source_id``, which alone gets its description. Relations and described entities
    without such a node are written as sentences into new nodes, one for each subject.
    """
    store = graph.property_graph_store if isinstance(graph, PropertyGraphIndex) else graph
    if not isinstance(store, PropertyGraphStore):
        raise InputError(f"pass a PropertyGraphStore or a PropertyGraphIndex, not {type(graph).__qualname__}")
    everything = store.get()
    chunks = {item.id: item for item in everything if isinstance(item, ChunkNode)}
    entities = {item.id: item for item in everything if isinstance(item, EntityNode) and item.id not in chunks}
    relations = _relations(store, entities)
    relations_of_chunk, without_chunk = _by_chunk(relations, chunks, lambda relation: relation.source_id)
    entities_of_chunk, others = _by_chunk(entities.values(), chunks, lambda entity: entity.id)
    for key in others:
        if description_of(entities[key]):
            without_chunk.setdefault(key, [])
    nodes = [
        _with_knowledge(node, entities_of_chunk[node.node_id], relations_of_chunk[node.node_id], entities)
        for node in _text_nodes(store, chunks, getattr(graph, "vector_store", None))
    ]
    return nodes + [_write_out(entities[key], relations, entities) for key, relations in without_chunk.items()]


def _text_nodes(store: PropertyGraphStore, chunks: Mapping[str, ChunkNode], vector_store: Any) -> Iterator[BaseNode]:
    """Yield the text node of each chunk, with its embedding, or the one in a vector store."""
    vectors = vector_store.data.embedding_dict if isinstance(vector_store, SimpleVectorStore) else {}
    known = {node.node_id: node for node in store.get_llama_nodes(list(chunks))} if chunks else {}
    for key, chunk in chunks.items():
        node = known.get(key) or TextNode(id_=key, text=chunk.text, metadata=dict(chunk.properties))
        yield _with_embedding(node, vectors.get(key) if chunk.embedding is None else chunk.embedding)


def _by_chunk(
    items: Iterable[_Item], chunks: Mapping[str, ChunkNode], key_of: Callable[[_Item], str]
) -> tuple[dict[str, list[_Item]], dict[str, list[_Item]]]:
    """Return entities or relations by the chunk that they were read in, and the others by another key."""
    by_chunk, others = defaultdict[str, list[_Item]](list), defaultdict[str, list[_Item]](list)
    for item in items:
        source = item.properties.get(TRIPLET_SOURCE_KEY)
        if source is not None and source in chunks:
            by_chunk[source].append(item)
        else:
            others[key_of(item)].append(item)
    return by_chunk, others


def _relations(store: PropertyGraphStore, entities: Mapping[str, EntityNode]) -> Iterable[Relation]:
    """Return every relation between two entities once."""
    triplets: Iterable[Any]
    if isinstance(store, SimplePropertyGraphStore):  # its get_triplets compares every triplet with every id
        triplets = sorted(store.graph.get_triplets(), key=lambda t: (t[1].source_id, t[1].label, t[1].target_id))
    else:
        ids = list(entities)
        pages = (ids[start : start + _PAGE] for start in range(0, len(ids), _PAGE))
        triplets = (triplet for page in pages for triplet in store.get_triplets(ids=page))
    relations: dict[tuple[str, ...], Relation] = {}
    for _, relation, _ in triplets:
        if relation.source_id in entities and relation.target_id in entities:
            source = str(relation.properties.get(TRIPLET_SOURCE_KEY))
            relations.setdefault((relation.source_id, relation.label, relation.target_id, source), relation)
    return relations.values()


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
