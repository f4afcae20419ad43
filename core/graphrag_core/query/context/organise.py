"""Passages in the order in which their facts hang together, as KG2RAG arranges them."""

from __future__ import annotations

from graphrag_core.model import Fact
from graphrag_core.query.context.item import Material
from graphrag_core.query.hit import Hit


def organised(material: Material) -> list[Hit]:
    """Return the hits along a maximum spanning tree of the facts.

    The result's facts that stand in its passages, as edges between entities, are thinned to
    the strongest tree (one for each connected part). Each tree is walked from the entity the
    question names, or else from the one its best passage speaks of first, and passages
    come as the walk meets their facts; a tree with a better passage comes before others.
    Passages without a fact keep their order at the end.
    """
    hits = {hit.chunk.id: hit for hit in material.hits}
    rank = {chunk: place for place, chunk in enumerate(hits)}
    facts = [fact for fact in material.facts if fact.chunk_id in hits and len(fact.entities) > 1]
    tree = _spanning_tree(facts, material)
    seen: set[str] = set()
    starts = [entity.id for entity in material.entities]
    starts += [material.entity_id(f.entities[0]) for f in sorted(facts, key=lambda fact: rank[fact.chunk_id])]
    walks = [_walk(tree, start, seen) for start in starts if start in tree and start not in seen]
    walks.sort(key=lambda walk: min(rank[chunk] for chunk in walk))
    order = dict.fromkeys([*(chunk for walk in walks for chunk in walk), *hits])
    return [hits[chunk] for chunk in order]


Tree = dict[str, list[tuple[str, str]]]
"""For each entity, its neighbours and the chunks of the facts that join them."""


def _spanning_tree(facts: list[Fact], material: Material) -> Tree:
    """Return the edges that join the most weight without a circle; stronger facts first, ties in their order."""
    root: dict[str, str] = {}

    def find(entity: str) -> str:
        """Return what stands for an entity's tree."""
        while root.setdefault(entity, entity) != entity:
            entity = root[entity]
        return entity

    tree: Tree = {}
    for fact in sorted(facts, key=lambda fact: -fact.weight):
        ends = [material.entity_id(name) for name in fact.entities]
        for other in ends[1:]:
            here, there = find(ends[0]), find(other)
            if here != there:
                root[there] = here
                tree.setdefault(ends[0], []).append((other, fact.chunk_id))
                tree.setdefault(other, []).append((ends[0], fact.chunk_id))
    return tree


def _walk(tree: Tree, start: str, seen: set[str]) -> list[str]:
    """Return the chunks of a tree, depth first."""
    chunks: list[str] = []
    stack = [(start, "")]
    while stack:
        entity, chunk = stack.pop()
        if entity in seen:
            continue
        seen.add(entity)
        chunks.extend([chunk] if chunk else [])
        stack.extend(reversed(tree[entity]))
    return chunks
