"""Selects what the graph shows: the question, entities, passages, and the edges between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from graphrag_core.context.display import (
    covered_words,
    how_found,
    link_pieces,
    passage_name,
    path_starts_at_link,
    shown_path,
)
from graphrag_core.model import Entity, Fact

if TYPE_CHECKING:
    from graphrag_core.result import Hit, Result, Step

NodeKind = Literal["question", "named", "linked", "passage"]
EdgeKind = Literal["names", "fact", "mention", "match", "link", "hidden"]

MAX_NODES = 40
MAX_RELATED = 12
"""Limits for nodes that are on no hit's path. Nodes on a path are always drawn."""

QUESTION = "question"


@dataclass(slots=True)
class Node:
    """A box. ``hits`` are the ranks of the hits whose paths contain it.

    ``linked`` are the ranks of the hits that a passage leads to, and ``note`` is what links it to a better one.
    """

    key: str
    kind: NodeKind
    text: str
    tooltip: str
    column: int
    hits: set[int] = field(default_factory=set)
    linked: set[int] = field(default_factory=set)
    note: str = ""
    entity_id: str | None = None


@dataclass(slots=True)
class Edge:
    """A line. The question names an entity or matches a passage, a fact links two entities, a passage mentions one.

    A link leads from a passage to another. A hidden edge only gives a passage its place.
    """

    source: str
    target: str
    kind: EdgeKind
    hits: set[int] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Network:
    """Nodes and edges in insertion order. ``undrawn`` counts the facts without an edge."""

    known: Mapping[str, Entity]
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: dict[tuple[str, str], Edge] = field(default_factory=dict)
    undrawn: int = 0

    @property
    def related(self) -> int:
        """Number of linked entities that are on no hit's path."""
        return sum(node.kind == "linked" and not node.hits for node in self.nodes.values())

    @property
    def columns(self) -> int:
        """Number of columns, from the question to the passages."""
        return 1 + max(node.column for node in self.nodes.values())

    def connect(self, source: str, target: str, kind: EdgeKind, rank: int | None = None, text: str = "") -> None:
        """Add an edge, or add a hit and a text to the edge that joins these nodes already."""
        ends = (target, source) if (target, source) in self.edges else (source, target)
        edge = self.edges.setdefault(ends, Edge(*ends, kind))
        if rank is not None:
            edge.hits.add(rank)
        if text and text not in edge.texts:
            edge.texts.append(text)

    def add_entity(self, entity_id: str, column: int, kind: NodeKind = "linked", name: str = "") -> Node:
        """Return an entity's node, in the leftmost column that it was reached in."""
        key = _entity_key(entity_id)
        if key not in self.nodes:
            entity = self.known.get(entity_id) or Entity(entity_id, name or entity_id)
            self.nodes[key] = Node(key, kind, entity.name, _describe(entity), column, entity_id=entity_id)
        node = self.nodes[key]
        node.column = min(node.column, column)
        return node


def build_network(result: Result) -> Network:
    """Return what to draw: every hit with its path, then facts that touch a drawn entity, until no more fit."""
    network = Network({**result.known, **{entity.id: entity for entity in result.entities}})
    network.nodes[QUESTION] = Node(QUESTION, "question", result.question, result.question, 0)
    for entity in result.entities:
        network.connect(QUESTION, network.add_entity(entity.id, 1, "named").key, "names")
    places = {hit.chunk.id: rank for rank, hit in reversed(list(enumerate(result.hits, 1)))}
    for rank, hit in enumerate(result.hits, 1):
        _add_path(network, rank, hit, shown_path(result, hit), places)
        _add_link(network, rank, hit)
    deepest = max(2, network.columns - 1)
    waiting = [fact for fact in result.facts if len(fact.entities) > 1]
    while remaining := [fact for fact in waiting if not _add_fact(network, fact, deepest)]:
        if len(remaining) == len(waiting):
            break
        waiting = remaining
    network.undrawn = len(remaining)
    last = network.columns
    for node in network.nodes.values():
        if node.kind == "passage":
            node.column = last
    return network


def _add_path(network: Network, rank: int, hit: Hit, steps: Sequence[Step], places: Mapping[str, int]) -> None:
    """Add a hit and its path from the question or a better hit. A hit without a path is connected to the question.

    ``places`` are the ranks of passages by id.
    """
    name, key = passage_name(hit.chunk), f"passage {rank}"
    tooltip = "\n".join(
        filter(None, (f"{rank}. {name}", how_found(hit), "".join(link_pieces(hit)), covered_words(hit)))
    )
    # A box has room for a few words: the heading tells passages of one document apart.
    heading = hit.chunk.headings[-1] if hit.chunk.headings else ""
    text = f"{heading} - {hit.chunk.title}" if heading and hit.chunk.title.strip() else name
    network.nodes[key] = Node(key, "passage", text, tooltip, 0, {rank})
    network.nodes[QUESTION].hits.add(rank)
    if steps and steps[0].kind == "chunk" and places.get(steps[0].id, rank) < rank:
        network.connect(QUESTION, key, "hidden", rank)
        facts = "\n".join(step.text for step in steps if step.kind == "fact")
        _connect_passages(network, places[steps[0].id], rank, steps[-1].text, facts)
        return
    at, column, fact = QUESTION, 0, ""
    for step in steps:
        if step.kind == "fact":
            fact = step.text
        elif step.kind == "entity":
            node = network.add_entity(step.id, column + 1, name=step.text)
            node.hits.add(rank)
            network.connect(at, node.key, "fact" if fact or at != QUESTION else "names", rank, fact)
            at, column, fact = node.key, node.column, ""
    network.connect(at, key, "match" if at == QUESTION else "mention", rank, fact)


def _add_link(network: Network, rank: int, hit: Hit) -> None:
    """Connect a hit with the better one that it is linked to, unless its path starts there."""
    if hit.link and f"passage {hit.link.rank}" in network.nodes and not path_starts_at_link(hit):
        _connect_passages(network, hit.link.rank, rank, hit.link.entity, "".join(link_pieces(hit)))


def _connect_passages(network: Network, better: int, rank: int, name: str, text: str) -> None:
    node = network.nodes[f"passage {rank}"]
    node.note = " · ".join(dict.fromkeys(filter(None, (node.note, name))))
    network.nodes[f"passage {better}"].linked.add(rank)
    network.connect(f"passage {better}", node.key, "link", rank, text)


def _add_fact(network: Network, fact: Fact, deepest: int) -> bool:
    """Draw a fact as edges from its first drawn entity. Return False if none is drawn or the rest do not fit."""
    entities = list(dict.fromkeys(fact.entities))
    drawn = [entity for entity in entities if _entity_key(entity) in network.nodes]
    free = max(0, min(MAX_NODES - len(network.nodes), MAX_RELATED - network.related))
    if not drawn or len(entities) - len(drawn) > free:
        return False
    hub = network.nodes[_entity_key(drawn[0])]
    for entity in entities:
        key = _entity_key(entity)
        if key not in network.nodes:
            network.add_entity(entity, min(hub.column + 1, deepest))
        if key != hub.key:
            network.connect(hub.key, key, "fact", text=fact.text)
    return True


def _entity_key(entity_id: str) -> str:
    return f"entity {entity_id}"


def _describe(entity: Entity) -> str:
    """Return an entity's tooltip: name, type, description, aliases and number of mentions."""
    name = f"{entity.name} ({entity.type})" if entity.type else entity.name
    aliases = f"also {', '.join(entity.aliases)}" if entity.aliases else ""
    mentions = f"mentioned in {entity.mentions:,} passage{'' if entity.mentions == 1 else 's'}"
    return "\n".join(filter(None, (name, entity.description, aliases, mentions if entity.mentions else "")))
