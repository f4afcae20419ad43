"""An existing property graph as nodes that carry its knowledge."""

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
from llama_index.core.schema import BaseNode, TextNode

from llama_graphrag.knowledge import description_of

_AT_ONCE = 1_000


def read_graph(store: PropertyGraphStore) -> list[BaseNode]:
    """Return the store's text nodes, each with the entities and relations that were read in it.

    A relation belongs to the node its own ``triplet_source_id`` names; an entity to the nodes
    of its relations and the one it names itself, which alone has its description. What names
    no node of the store gets one for each subject, in which its facts stand as sentences.
    """
    everything = store.get()
    chunks = {thing.id: thing for thing in everything if isinstance(thing, ChunkNode)}
    entities = {thing.id: thing for thing in everything if isinstance(thing, EntityNode) and thing.id not in chunks}
    by_chunk: dict[str, list[Relation]] = defaultdict(list)
    loose: dict[str, list[Relation]] = defaultdict(list)
    for relation in _relations(store, entities):
        source = relation.properties.get(TRIPLET_SOURCE_KEY)
        if source in chunks:
            by_chunk[source].append(relation)
        else:
            loose[relation.source_id].append(relation)
    homes: dict[str, list[EntityNode]] = defaultdict(list)
    for entity in entities.values():
        source = entity.properties.get(TRIPLET_SOURCE_KEY)
        if source in chunks:
            homes[source].append(entity)
        elif description_of(entity):
            loose.setdefault(entity.id, [])
    texts = [_with(node, homes[node.node_id], by_chunk[node.node_id], entities) for node in _text_nodes(store, chunks)]
    return [*texts, *(_spelt_out(entities[key], relations, entities) for key, relations in loose.items())]


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
    if isinstance(store, SimplePropertyGraphStore):  # its own query compares every triplet with every id
        yield from sorted(store.graph.get_triplets(), key=lambda t: (t[1].source_id, t[1].label, t[1].target_id))
        return
    for start in range(0, len(ids), _AT_ONCE):
        yield from store.get_triplets(ids=ids[start : start + _AT_ONCE])


def _text_nodes(store: PropertyGraphStore, chunks: Mapping[str, ChunkNode]) -> Iterator[BaseNode]:
    """Yield each chunk as the LlamaIndex node it was, or as a text node if it was none."""
    known = {node.node_id: node for node in store.get_llama_nodes(list(chunks))} if chunks else {}
    for key, chunk in chunks.items():
        node = known.get(key) or TextNode(id_=key, text=chunk.text, metadata=dict(chunk.properties))
        yield node.model_copy(update={"embedding": chunk.embedding})


def _with(
    node: BaseNode, at_home: list[EntityNode], relations: list[Relation], entities: Mapping[str, EntityNode]
) -> BaseNode:
    named = {end: entities[end] for relation in relations for end in (relation.source_id, relation.target_id)}
    guests = [_undescribed(entity) for key, entity in named.items() if key not in {home.id for home in at_home}]
    knowledge = {KG_NODES_KEY: [*at_home, *guests], KG_RELATIONS_KEY: relations}
    return node.model_copy(update={"metadata": {**node.metadata, **knowledge}})


def _undescribed(entity: EntityNode) -> EntityNode:
    """Return an entity as another node than its own knows it: a description belongs to where it was read."""
    return EntityNode(name=entity.name, label=entity.label)


def _spelt_out(subject: EntityNode, relations: list[Relation], entities: Mapping[str, EntityNode]) -> BaseNode:
    told = description_of(subject)
    sentences = [f"{subject.name}: {told}"] if told else []
    for relation in relations:
        words = f"{subject.name} {relation.label.replace('_', ' ').lower()} {entities[relation.target_id].name}."
        sentences.append(description_of(relation) or words)
    node = TextNode(id_=f"entity:{subject.id}", text="\n".join(sentences), metadata={"title": subject.name})
    return _with(node, [subject], relations, entities)
