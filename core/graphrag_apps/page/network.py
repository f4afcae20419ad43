"""Selects what the graph shows: the question, and for each passage the path of names and facts that leads to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from graphrag_core.context.display import (
    covered_words,
    how_found,
    link_pieces,
    passage_name,
    shown_path,
)
from graphrag_core.model import Entity

if TYPE_CHECKING:
    from graphrag_core.context.retrieved import Hit, Retrieved, Step

NodeKind = Literal["question", "named", "fact", "linked", "passage"]
EdgeKind = Literal["names", "fact", "mention", "match", "link", "hidden"]

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
    """A line of a path: the question names an entity or matches a passage, a fact has names, a passage mentions one.

    A link leads from a passage to another. A hidden edge only gives a passage its place.
    """

    source: str
    target: str
    kind: EdgeKind
    hits: set[int] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Network:
    """Nodes from left to right, and edges. ``named`` are the ids of the entities that the question names."""

    known: Mapping[str, Entity]
    named: frozenset[str]
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: dict[tuple[str, str], Edge] = field(default_factory=dict)

    @property
    def columns(self) -> int:
        """Number of columns, from the question to the passages."""
        return 1 + max(node.column for node in self.nodes.values())

    def connect(self, source: str, target: str, kind: EdgeKind, rank: int, text: str = "") -> None:
        """Add an edge, or add a hit and a text to the edge that joins these nodes already."""
        ends = (target, source) if (target, source) in self.edges else (source, target)
        edge = self.edges.setdefault(ends, Edge(*ends, kind))
        edge.hits.add(rank)
        if text and text not in edge.texts:
            edge.texts.append(text)

    def add_step(self, step: Step, column: int) -> Node:
        """Return the node of an entity or a fact of a path, in the leftmost column that it was reached in."""
        key = f"fact {step.text}" if step.kind == "fact" else f"entity {step.id}"
        if key not in self.nodes:
            if step.kind == "fact":
                self.nodes[key] = Node(key, "fact", f"“{step.text}”", step.text, column)
            else:
                entity = self.known.get(step.id) or Entity(step.id, step.text or step.id)
                kind: NodeKind = "named" if step.id in self.named else "linked"
                self.nodes[key] = Node(key, kind, entity.name, _describe(entity), column, entity_id=entity.id)
        node = self.nodes[key]
        node.column = min(node.column, column)
        return node


def build_network(result: Retrieved) -> Network:
    """Return what to draw: every hit with its path."""
    known = {**result.known, **{entity.id: entity for entity in result.entities}}
    network = Network(known, frozenset(entity.id for entity in result.entities))
    network.nodes[QUESTION] = Node(QUESTION, "question", "Question", result.question, 0)
    places = {hit.chunk.id: rank for rank, hit in reversed(list(enumerate(result.hits, 1)))}
    for rank, hit in enumerate(result.hits, 1):
        _add_path(network, rank, hit, shown_path(result, hit), places)
        _add_link(network, rank, hit)
    last = network.columns
    for node in network.nodes.values():
        if node.kind == "passage":
            node.column = last
    network.nodes = dict(sorted(network.nodes.items(), key=lambda item: item[1].column))  # as they are read
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
    at, column = QUESTION, 0
    for step in steps:
        if step.kind in ("entity", "fact"):
            node = network.add_step(step, column + 1)
            node.hits.add(rank)
            network.connect(at, node.key, "names" if at == QUESTION else "fact", rank)
            at, column = node.key, node.column
    network.connect(at, key, "match" if at == QUESTION else "mention", rank)


def _add_link(network: Network, rank: int, hit: Hit) -> None:
    """Connect a hit with the better one that it is linked to, unless its path shows the link."""
    if hit.link is None or {hit.link.entity_id, hit.link.chunk_id} & {step.id for step in hit.path[:-1]}:
        return
    if f"passage {hit.link.rank}" in network.nodes:
        _connect_passages(network, hit.link.rank, rank, hit.link.entity, "".join(link_pieces(hit)))


def _connect_passages(network: Network, better: int, rank: int, name: str, text: str) -> None:
    node = network.nodes[f"passage {rank}"]
    node.note = " · ".join(dict.fromkeys(filter(None, (node.note, name))))
    network.nodes[f"passage {better}"].linked.add(rank)
    network.connect(f"passage {better}", node.key, "link", rank, text)


def _describe(entity: Entity) -> str:
    """Return an entity's tooltip: name, type, description, aliases and number of mentions."""
    name = f"{entity.name} ({entity.type})" if entity.type else entity.name
    aliases = f"also {', '.join(entity.aliases)}" if entity.aliases else ""
    mentions = f"mentioned in {entity.mentions:,} passage{'' if entity.mentions == 1 else 's'}"
    return "\n".join(filter(None, (name, entity.description, aliases, mentions if entity.mentions else "")))
