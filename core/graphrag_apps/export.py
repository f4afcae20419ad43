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
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from graphrag_core.errors import FileError, InputError
from graphrag_core.filters import Where
from graphrag_core.index import KnowledgeIndex
from graphrag_core.model import Entity, Fact

_INVALID = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML 1.0 has no place for


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


def export_graph(
    index: KnowledgeIndex, path: str | Path, *, where: Where | None = None, sentences: bool = True
) -> Exported:
    """Write the entities and facts of an index to a file.

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
    write = {".graphml": _write_graphml, ".jsonl": _write_json_lines}.get(target.suffix.lower())
    if write is None:
        raise InputError(f"{path}: its ending names no format: use .graphml or .jsonl")
    with closing(index.graph.iter_entities(where=where)) as entities:
        nodes = {entity.id: entity for entity in entities}
    listed, ids, facts = len(nodes), dict[str, str](), list[Fact]()
    with closing(index.graph.iter_facts(where=where)) as found:
        for fact in found:
            if not fact.relation and not sentences:
                continue
            for name in fact.entities:
                if name not in ids:  # others are a year, which only facts hold, or a section, an entity of another id
                    entity = nodes.get(name) or index.graph.entity(name, where=where) or Entity(name, name)
                    ids[name] = nodes.setdefault(entity.id, entity).id
            facts.append(replace(fact, entities=tuple(ids[name] for name in fact.entities)))
    temporary = target.with_name(f"{target.name}.tmp{os.getpid()}")
    try:
        written, edges = write(temporary, nodes, facts)
        temporary.replace(target)
    except OSError as error:
        raise FileError(f"{target}: cannot be written ({error.strerror or error})") from error
    finally:
        temporary.unlink(missing_ok=True)
    return Exported(target, listed, written, edges, len(nodes) - listed)


def _write_json_lines(path: Path, nodes: Mapping[str, Entity], facts: Sequence[Fact]) -> tuple[int, int]:
    with path.open("w", encoding="utf-8", newline="") as file:
        for kind, values in (("entity", nodes.values()), ("fact", facts)):
            file.writelines(json.dumps({"kind": kind, **asdict(value)}) + "\n" for value in values)
    return len(facts), len(facts)


def _write_graphml(path: Path, nodes: Mapping[str, Entity], facts: Sequence[Fact]) -> tuple[int, int]:
    """Write with igraph. Return how many facts have an edge, and the number of edges."""
    import igraph  # noqa: PLC0415 - imports matplotlib if that is installed, which takes long

    values = dict.fromkeys(fact.value for fact in facts if fact.value and fact.entities)
    numbers = {key: number for number, key in enumerate([*nodes, *((value,) for value in values)])}
    drawn = [*nodes.values(), *(Entity(value, value) for value in values)]
    ends = [_ends(fact) for fact in facts]
    stated = list(chain.from_iterable([fact] * len(own) for fact, own in zip(facts, ends, strict=True)))
    vertices = _columns(drawn, ("name", "type", "description"), _xml) | _columns(drawn, ("mentions",), int)
    vertices |= _columns(drawn, ("aliases",), lambda names: _xml("\n".join(names)))
    vertices |= {"label": vertices["name"], "kind": ["entity"] * len(nodes) + ["value"] * len(values)}
    edges = _columns(stated, ("relation", "source", "status", "id", "chunk_id", "text"), _xml)
    edges |= _columns(stated, ("weight", "confidence", "created", "valid_from", "valid_to"), _number)
    edges |= {"fact": edges.pop("id"), "passage": edges.pop("chunk_id")}
    pairs = [(numbers[start], numbers[end]) for start, end in chain.from_iterable(ends)]
    graph = igraph.Graph(len(drawn), pairs, directed=True, vertex_attrs=vertices, edge_attrs=edges)
    graph.write_graphml(str(path))
    return sum(map(bool, ends)), len(pairs)


def _columns(rows: Sequence[Any], names: Sequence[str], convert: Callable[[Any], Any]) -> dict[str, list[Any]]:
    return {name: [convert(getattr(row, name)) for row in rows] for name in names}


def _ends(fact: Fact) -> list[tuple[Any, Any]]:
    """Return what a fact links: subject and object of a triple, each pair of a sentence; a value is a tuple of one."""
    if fact.value and fact.entities:
        return [(fact.entities[0], (fact.value,))]
    if fact.relation and len(fact.entities) > 1:
        return [(fact.entities[0], fact.entities[1])]
    return list(combinations(dict.fromkeys(fact.entities), 2))


def _xml(text: str | None) -> str:
    return _INVALID.sub("", text or "")


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
