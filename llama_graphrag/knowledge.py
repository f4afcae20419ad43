"""Entities and relations that a LlamaIndex extractor left in a node's metadata."""

from __future__ import annotations

from typing import Any

from llama_index.core.graph_stores.types import KG_NODES_KEY, KG_RELATIONS_KEY, EntityNode, LabelledNode, Relation
from llama_index.core.schema import BaseNode

KNOWLEDGE_KEYS = (KG_NODES_KEY, KG_RELATIONS_KEY)

_NO_TYPE = {"entity", "node", "__entity__"}  # what LlamaIndex and its stores call what has no type
_DESCRIPTIONS = ("description", "entity_description", "relationship_description")


def carries_knowledge(node: BaseNode) -> bool:
    """Tell whether an extractor was here; metadata of the same names that is the user's own is none of its."""
    entities, relations = (node.metadata.get(key) for key in KNOWLEDGE_KEYS)
    there = _only(entities, LabelledNode) and _only(relations, Relation)
    return there and (bool(entities or relations) or (entities is not None and relations is not None))


def read_knowledge(node: BaseNode) -> dict[str, Any]:
    """Return what an extractor read in a node, in the core's words.

    Names, types and descriptions are taken, no other property: extractors copy the node's
    metadata there. Relations between nodes themselves (next, previous, source) are no
    knowledge and are left out.
    """
    entities = [entity for entity in node.metadata.get(KG_NODES_KEY) or () if isinstance(entity, EntityNode)]
    relations = [relation for relation in node.metadata.get(KG_RELATIONS_KEY) or () if isinstance(relation, Relation)]
    names = {entity.id: entity.name for entity in entities}
    return {
        "entities": [
            {"name": entity.name, "type": type_of(entity), "description": description_of(entity)} for entity in entities
        ],
        "relations": [
            {
                "source": names.get(relation.source_id, relation.source_id),
                "type": relation.label,
                "target": names.get(relation.target_id, relation.target_id),
                "description": description_of(relation),
            }
            for relation in relations
            if node.node_id not in (relation.source_id, relation.target_id)
        ],
    }


def type_of(entity: LabelledNode) -> str:
    """Return an entity's type, empty where its label says nothing."""
    return "" if entity.label.lower() in _NO_TYPE else entity.label


def description_of(thing: LabelledNode | Relation) -> str:
    """Return how an entity or a relation is described, if it is."""
    found = (thing.properties.get(key) for key in _DESCRIPTIONS)
    return next((text for text in found if isinstance(text, str) and text.strip()), "")


def _only(values: Any, kind: type) -> bool:
    return values is None or (isinstance(values, list) and all(isinstance(value, kind) for value in values))
