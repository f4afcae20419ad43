"""Export the graph of an index for other tools: GraphML, or JSON Lines.

>>> from tempfile import TemporaryDirectory
>>> from graphrag_core import KnowledgeIndex
>>> index = KnowledgeIndex()
>>> _ = index.memory.remember("Harbour Team", "owns", "Keyring")
>>> with TemporaryDirectory() as folder:
...     exported = export_graph(index, f"{folder}/graph.graphml")
>>> exported.entities, exported.facts
(2, 1)
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple, TextIO
from xml.sax.saxutils import escape

from graphrag_core.errors import FileError, InputError
from graphrag_core.filters import Where
from graphrag_core.index import KnowledgeIndex
from graphrag_core.model import SENTENCE_WEIGHT, Entity, Fact

_ENTITY, _VALUE = "entity", "value"  # kinds of nodes
_INVALID = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML 1.0 has no place for

_EDGE_FIELDS = {
    "relation": "string", "text": "string", "weight": "double", "confidence": "double", "source": "string",
    "status": "string", "fact": "string", "passage": "string", "created": "double", "valid_from": "double",
    "valid_to": "double",
}  # fmt: skip
_NODE_FIELDS = {
    "label": "string", "name": "string", "kind": "string", "type": "string", "description": "string",
    "aliases": "string", "mentions": "int",
}  # fmt: skip
_DEFAULTS: Mapping[str, Any] = {
    "kind": _ENTITY, "weight": SENTENCE_WEIGHT, "confidence": 1.0, "source": "file", "status": "staged",
}  # fmt: skip
"""What GraphML states once for all nodes and edges that have it."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What :func:`export_graph` wrote. In GraphML a sentence has several ``edges``.

    ``entities`` are counted as ``index.graph.entities`` lists them. ``other_nodes`` are numbers, such as years, and
    documents: only facts hold them.
    """

    path: Path
    entities: int
    facts: int
    edges: int
    other_nodes: int = 0


class _Writer(NamedTuple):
    """The functions of a format: one writes an entity or a value as a node, the other a fact, and counts its edges."""

    node: Callable[[str, Entity], Any]
    fact: Callable[[Fact], int]


def export_graph(
    index: KnowledgeIndex, path: str | Path, *, where: Where | None = None, sentences: bool = True
) -> Exported:
    """Write the entities and facts of an index to a file. Nothing but a page of them is in memory at a time.

    Parameters
    ----------
    index
        What to export.
    path
        A file that ends in ``.graphml`` or ``.jsonl``. An existing one is replaced when the new one is complete.
    where
        A filter: what other documents say is not exported.
    sentences
        False leaves out sentences, which link the entities in them, and keeps relations.

    Raises
    ------
    InputError
        The path has another ending.
    FileError
        The file cannot be written.
    """
    target = Path(path)
    write = {".graphml": _graphml, ".jsonl": _json_lines}.get(target.suffix.lower())
    if write is None:
        raise InputError(f"{path}: its ending names no format: use .graphml or .jsonl")
    nodes: set[tuple[str, str]] = set()
    ids: dict[str, str] = {}  # of entities that facts hold by another name
    listed = facts = edges = others = 0
    try:
        with _replaced(target) as file, write(file) as writer:
            with closing(index.graph.iter_entities(where=where)) as entities:
                for entity in entities:
                    listed += _write_once(nodes, writer, _ENTITY, entity)
            with closing(index.graph.iter_facts(where=where)) as found:
                for fact in found:
                    if not fact.relation and not sentences:
                        continue
                    for name in fact.entities:
                        if name not in ids and (_ENTITY, name) not in nodes:
                            # Such as a year, which only facts hold, or a section, an entity of another id.
                            entity = index.graph.entity(name, where=where) or Entity(name, name)
                            ids[name] = entity.id
                            others += _write_once(nodes, writer, _ENTITY, entity)
                    if fact.value:
                        _write_once(nodes, writer, _VALUE, Entity(fact.value, fact.value))
                    written = writer.fact(replace(fact, entities=tuple(ids.get(name, name) for name in fact.entities)))
                    edges += written
                    facts += written > 0
    except OSError as error:
        raise FileError(f"{target}: cannot be written ({error.strerror or error})") from error
    return Exported(target, listed, facts, edges, others)


def _write_once(nodes: set[tuple[str, str]], writer: _Writer, kind: str, entity: Entity) -> bool:
    """Write a node unless it was written; return whether it was not."""
    is_new = (kind, entity.id) not in nodes
    if is_new:
        nodes.add((kind, entity.id))
        writer.node(kind, entity)
    return is_new


@contextmanager
def _replaced(path: Path) -> Iterator[TextIO]:
    """Yield a file; what was written there takes the place of the one at a path when it is complete."""
    temporary = path.with_name(f"{path.name}.tmp{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8", errors="replace", newline="") as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _json_lines(file: TextIO) -> Iterator[_Writer]:
    def write_row(kind: str, value: Entity | Fact) -> int:
        if kind != _VALUE:  # a value is a field of its fact
            file.write(json.dumps({"kind": kind, **asdict(value)}) + "\n")
        return 1

    yield _Writer(write_row, partial(write_row, "fact"))


@contextmanager
def _graphml(file: TextIO) -> Iterator[_Writer]:
    file.write('<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n')
    for kind, fields in (("node", _NODE_FIELDS), ("edge", _EDGE_FIELDS)):
        for name, type_ in fields.items():
            default = f"<default>{_DEFAULTS[name]}</default>" if name in _DEFAULTS else ""
            key = f'id="{_key(kind, name)}" for="{kind}" attr.name="{name}" attr.type="{type_}"'
            file.write(f"<key {key}>{default}</key>\n")
    file.write('<graph id="G" edgedefault="directed">\n')

    numbers: dict[tuple[str, str], int] = {}

    def write_node(kind: str, entity: Entity) -> None:
        number = numbers[kind, entity.id] = len(numbers)
        values = {name: getattr(entity, name) for name in _NODE_FIELDS if name not in ("label", "kind")}
        values |= {"label": entity.name, "kind": kind, "aliases": "\n".join(entity.aliases)}
        file.write(f'<node id="n{number}">{_xml_data("node", values)}</node>\n')

    def write_fact(fact: Fact) -> int:
        edges = _edges(fact)
        attributes = {"fact": "id", "passage": "chunk_id"}
        values = {name: getattr(fact, attributes.get(name, name)) for name in _EDGE_FIELDS}
        data = _xml_data("edge", values) if edges else ""
        for source, target in edges:
            file.write(f'<edge source="n{numbers[source]}" target="n{numbers[target]}">{data}</edge>\n')
            data = _xml_data("edge", {"weight": values["weight"]})  # the text is written once
        return len(edges)

    yield _Writer(write_node, write_fact)
    file.write("</graph>\n</graphml>\n")


def _edges(fact: Fact) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """Return the nodes that a fact links: subject and object of a triple, each pair of a sentence."""
    nodes = [(_ENTITY, entity) for entity in fact.entities]
    if fact.value and nodes:
        return [(nodes[0], (_VALUE, fact.value))]
    if fact.relation and len(nodes) > 1:
        return [(nodes[0], nodes[1])]
    return list(combinations(dict.fromkeys(nodes), 2))


def _xml_data(kind: str, values: Mapping[str, Any]) -> str:
    return "".join(
        f'<data key="{_key(kind, name)}">{escape(_INVALID.sub("", str(value)))}</data>'
        for name, value in values.items()
        if value is not None and value != "" and value != _DEFAULTS.get(name)
    )


def _key(kind: str, name: str) -> str:
    """Return the id of a field of nodes or edges."""
    return kind[0] + str(list(_NODE_FIELDS if kind == "node" else _EDGE_FIELDS).index(name))
