"""What is drawn: the question, entities and passages, and what joins them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from graphrag_core.model import Entity, Fact
from graphrag_core.query.drawing.answer import Answer
from graphrag_core.query.hit import Hit

NodeKind = Literal["question", "named", "linked", "passage"]
EdgeKind = Literal["names", "fact", "mention", "words"]

MOST_NODES = 40
MOST_AROUND = 12
"""No more boxes in all, and no more beside the hits' own paths, than a person can read. Paths are always drawn."""

QUESTION = "question"


@dataclass(slots=True)
class Node:
    """A box of the drawing. ``hits`` are the ranks of the hits whose paths lead through it."""

    key: str
    kind: NodeKind
    text: str
    tip: str
    column: int
    hits: set[int] = field(default_factory=set)


@dataclass(slots=True)
class Edge:
    """A line of the drawing: the question names, a fact joins, a passage mentions, or words match."""

    source: str
    target: str
    kind: EdgeKind
    hits: set[int] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Network:
    """All boxes and lines, in the order in which they were met. ``left_out`` counts the facts without a line."""

    nodes: dict[str, Node] = field(default_factory=dict)
    edges: dict[tuple[str, str], Edge] = field(default_factory=dict)
    left_out: int = 0

    @property
    def around(self) -> int:
        """How many boxes stand on no path to a hit."""
        return sum(node.kind == "linked" and not node.hits for node in self.nodes.values())

    @property
    def columns(self) -> int:
        """How many columns there are, from the question to the passages."""
        return 1 + max(node.column for node in self.nodes.values())


def network(answer: Answer) -> Network:
    """Return what is to be drawn of an answer: every hit and its path, then facts around them while there is room."""
    drawn = Network()
    drawn.nodes[QUESTION] = Node(QUESTION, "question", answer.question, answer.question, 0)
    entities = _Entities(answer, drawn)
    for entity in answer.entities:
        entities.reach(entity.id, 1)
        _join(drawn, QUESTION, _of(entity.id), "names")
    for rank, hit in enumerate(answer.hits, 1):
        _passage(drawn, rank, hit)
        _path(drawn, entities, rank, hit)
    _surroundings(drawn, entities, answer.facts)
    last = 1 + max((node.column for node in drawn.nodes.values() if node.kind != "passage"), default=0)
    for node in drawn.nodes.values():
        if node.kind == "passage":
            node.column = last
    return drawn


def passage_key(rank: int) -> str:
    """Return the key of a hit's box."""
    return f"passage {rank}"


def passage_name(hit: Hit) -> str:
    """Return what a passage is called: its title, with its number where a document has several."""
    chunk = hit.chunk
    part = f" · {chunk.ordinal + 1}" if chunk.id != chunk.document_id else ""
    return f"{chunk.title}{part}" if chunk.title.strip() else chunk.id


class _Entities:
    """Draws an entity when it is first reached, in the column of its distance from the question."""

    def __init__(self, answer: Answer, drawn: Network) -> None:
        self.named = {entity.id: entity for entity in answer.entities}
        self.known = {**answer.known, **self.named}
        self.drawn = drawn

    def reach(self, entity_id: str, column: int, name: str = "") -> Node:
        node = self.drawn.nodes.get(_of(entity_id))
        if node is None:
            entity = self.known.get(entity_id) or Entity(entity_id, name or entity_id)
            kind: NodeKind = "named" if entity_id in self.named else "linked"
            node = Node(_of(entity_id), kind, entity.name, _about(entity), column)
            self.drawn.nodes[node.key] = node
        node.column = min(node.column, column)
        return node


def _passage(drawn: Network, rank: int, hit: Hit) -> None:
    name = passage_name(hit)
    drawn.nodes[passage_key(rank)] = Node(passage_key(rank), "passage", name, f"{rank}. {name}", 1, {rank})


def _path(drawn: Network, entities: _Entities, rank: int, hit: Hit) -> None:
    """Draw the way to a hit; one that has none was found by its words alone."""
    at, column, fact = QUESTION, 0, ""
    drawn.nodes[QUESTION].hits.add(rank)
    for step in hit.path:
        if step.kind == "fact":
            fact = step.text
        elif step.kind == "entity":
            column += 1
            node = entities.reach(step.id, column, step.text)
            column = node.column
            node.hits.add(rank)
            _join(drawn, at, node.key, "fact" if fact or at != QUESTION else "names", rank, fact)
            at, fact = node.key, ""
    _join(drawn, at, passage_key(rank), "words" if at == QUESTION else "mention", rank, fact)


def _surroundings(drawn: Network, entities: _Entities, facts: Sequence[Fact]) -> None:
    """Draw facts that touch what is drawn already, with what they lead to, while there is room."""
    deepest = max(2, *(node.column for node in drawn.nodes.values()))
    waiting = [fact for fact in facts if len(fact.entities) > 1]
    grown = True
    while waiting and grown:
        later = [fact for fact in waiting if not _surround(drawn, entities, fact, deepest)]
        grown, waiting = len(later) < len(waiting), later
    drawn.left_out = len(waiting)


def _surround(drawn: Network, entities: _Entities, fact: Fact, deepest: int) -> bool:
    """Return whether a fact could be drawn: from its subject, or else from what is there, to the others."""
    there = [entity for entity in fact.entities if _of(entity) in drawn.nodes]
    fresh = [entity for entity in dict.fromkeys(fact.entities) if _of(entity) not in drawn.nodes]
    room = min(MOST_NODES - len(drawn.nodes), MOST_AROUND - drawn.around)
    if not there or len(fresh) > max(room, 0):
        return False
    hub = there[0]
    column = min(drawn.nodes[_of(hub)].column + 1, deepest)
    for entity in fresh:
        entities.reach(entity, column)
    for entity in dict.fromkeys(fact.entities):
        if entity != hub:
            _join(drawn, _of(hub), _of(entity), "fact", text=fact.text)
    return True


def _join(drawn: Network, source: str, target: str, kind: EdgeKind, rank: int | None = None, text: str = "") -> None:
    ends = (target, source) if (target, source) in drawn.edges else (source, target)
    edge = drawn.edges.setdefault(ends, Edge(*ends, kind))
    if rank is not None:
        edge.hits.add(rank)
    if text and text not in edge.texts:
        edge.texts.append(text)


def _of(entity_id: str) -> str:
    return f"entity {entity_id}"


def _about(entity: Entity) -> str:
    first = f"{entity.name} ({entity.type})" if entity.type else entity.name
    also = f"also {', '.join(entity.aliases)}" if entity.aliases else ""
    said = {0: "", 1: "mentioned in 1 passage"}.get(entity.mentions, f"mentioned in {entity.mentions:,} passages")
    return "\n".join(line for line in (first, entity.description, also, said) if line)
