"""Read the nodes of an existing ``VectorStoreIndex`` or property graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

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
from llama_index.core.indices.vector_store.base import VectorStoreIndex
from llama_index.core.schema import BaseNode, TextNode
from llama_index.core.vector_stores.simple import SimpleVectorStore

from graphrag_core.errors import InputError
from llama_graphrag.nodes import description_of

_IDS_PER_REQUEST = 1_000


def read_vector_index(index: VectorStoreIndex) -> list[BaseNode]:
    """Return the nodes of an index, with their embeddings if the vector store returns them."""
    store = index.vector_store
    ids = index.index_struct.nodes_dict  # ids in the vector store to ids in the docstore
    if isinstance(store, SimpleVectorStore):  # has every embedding; a node without one was deleted
        vectors = {ids[key]: vector for key, vector in store.data.embedding_dict.items() if key in ids}
        nodes = index.docstore.get_nodes(list(vectors), raise_error=False)
        return [node.model_copy(update={"embedding": vectors[node.node_id]}) for node in nodes]
    nodes = index.docstore.get_nodes(list(ids.values()), raise_error=False)
    if not store.stores_text:
        return list(nodes)
    try:
        stored = store.get_nodes()
    except (NotImplementedError, TypeError, ValueError) as error:
        name = type(store).__qualname__
        raise InputError(f"{name} does not return its nodes ({error}): pass them to from_nodes") from error
    by_id = {node.node_id: node for node in stored}
    return [*by_id.values(), *(node for node in nodes if node.node_id not in by_id)]


def read_property_graph(store: PropertyGraphStore) -> list[BaseNode]:
    """Return the text nodes of a graph, each with the entities and relations extracted from it.

    A relation belongs to the node in its ``triplet_source_id``. An entity belongs to the nodes
    of its relations and to the node in its own ``triplet_source_id``, which alone gets its
    description. Relations and described entities without such a node are written as sentences
    into new nodes, one for each subject.
    """
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
    texts = [
        _with_knowledge(node, entities_of_chunk[node.node_id], relations_of_chunk[node.node_id], entities)
        for node in _text_nodes(store, chunks)
    ]
    return [*texts, *(_write_out(entities[key], relations, entities) for key, relations in without_chunk.items())]


def _relations(store: PropertyGraphStore, entities: Mapping[str, EntityNode]) -> Iterator[Relation]:
    """Yield every relation between two entities once."""
    seen: set[tuple[str, str, str, str]] = set()
    for _, relation, _ in _triplets(store, list(entities)):
        if relation.source_id in entities and relation.target_id in entities:
            source = str(relation.properties.get(TRIPLET_SOURCE_KEY))
            key = (relation.source_id, relation.label, relation.target_id, source)
            if key not in seen:
                seen.add(key)
                yield relation


def _triplets(store: PropertyGraphStore, ids: list[str]) -> Iterable[tuple[object, Relation, object]]:
    if isinstance(store, SimplePropertyGraphStore):  # its get_triplets compares every triplet with every id
        yield from sorted(store.graph.get_triplets(), key=lambda t: (t[1].source_id, t[1].label, t[1].target_id))
        return
    for start in range(0, len(ids), _IDS_PER_REQUEST):
        yield from store.get_triplets(ids=ids[start : start + _IDS_PER_REQUEST])


def _text_nodes(store: PropertyGraphStore, chunks: Mapping[str, ChunkNode]) -> Iterator[BaseNode]:
    """Yield each chunk as the LlamaIndex node it was made from, or as a new text node."""
    known = {node.node_id: node for node in store.get_llama_nodes(list(chunks))} if chunks else {}
    for key, chunk in chunks.items():
        node = known.get(key) or TextNode(id_=key, text=chunk.text, metadata=dict(chunk.properties))
        yield node.model_copy(update={"embedding": chunk.embedding})


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
