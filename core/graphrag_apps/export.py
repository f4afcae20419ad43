"""Export the graph of an index for other tools: GraphML, CSV for Neo4j, or Parquet.

>>> from tempfile import TemporaryDirectory
>>> from graphrag_core import KnowledgeIndex
>>> index = KnowledgeIndex()
>>> _ = index.memory.remember("Harbour Team", "owns", "Keyring")
>>> with TemporaryDirectory() as folder:
...     exported = export_graph(index, f"{folder}/graph.graphml")
>>> exported.entities, exported.facts
(2, 1)
"""

import csv
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO, get_args
from xml.sax.saxutils import escape

from graphrag_core.errors import FileError, InputError, optional_import
from graphrag_core.filters import Where
from graphrag_core.index import KnowledgeIndex
from graphrag_core.model import SENTENCE_WEIGHT, Entity, Fact
from graphrag_core.text import fingerprint

Format = Literal["graphml", "csv", "parquet"]
"""``graphml`` is a file, ``csv`` and ``parquet`` a folder with the files entities and facts."""

_ENTITY, _VALUE = "entity", "value"  # kinds of nodes
_MENTIONED_WITH = "MENTIONED_WITH"  # the type of an edge between two entities of one sentence, which is not a relation
_BATCH = 5_000  # rows in a batch of Parquet
_INVALID = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML 1.0 has no place for
_BREAKS = re.compile("[\t\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")  # at which some reader ends a cell or a line
# What a spreadsheet may run, after spaces, quotes and invisible characters. Where numbers have a decimal comma, a
# semicolon ends a cell.
_FORMULA = re.compile(r"(^|;)([^\w!#-~]*[-=+@\uff1d\uff0b\uff0d\uff20])")

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
    "kind": _ENTITY, "weight": SENTENCE_WEIGHT, "confidence": 1.0, "source": "file", "status": "confirmed",
}  # fmt: skip
"""What GraphML states once for all nodes and edges that have it."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What :func:`export_graph` wrote. In GraphML and CSV a sentence has several ``edges``.

    ``entities`` are counted as ``index.graph.entities`` lists them. ``other_nodes`` are numbers, such as years, and
    documents: only facts hold them.
    """

    path: Path
    entities: int
    facts: int
    edges: int
    other_nodes: int = 0


class _Writer(NamedTuple):
    """How one format writes a node, which is an entity or a literal value, and a fact, which is some edges."""

    node: Callable[[str, Entity], Any]
    fact: Callable[[Fact], int]


def export_graph(
    index: KnowledgeIndex,
    path: str | Path,
    format: Format | None = None,  # noqa: A002 - the usual word
    *,
    where: Where | None = None,
    sentences: bool = True,
    spreadsheet: bool = False,
) -> Exported:
    """Write the entities and facts of an index to files. Nothing but a page of them is in memory at a time.

    Parameters
    ----------
    index
        What to export.
    path
        The file of ``graphml``; the folder of ``csv`` and ``parquet``. Existing files are replaced when the new ones
        are complete.
    format
        By default ``graphml`` if the path ends in ``.graphml``.
    where
        A filter: what other documents say is not exported.
    sentences
        False leaves out sentences, which link the entities in them, and keeps relations.
    spreadsheet
        In ``csv``, put an apostrophe before texts that a spreadsheet would run as a formula, also after a semicolon,
        which is the separator in some countries. Use it for files that people open in Excel, not for those that
        programs read.

    Raises
    ------
    InputError
        The format is unknown.
    FileError
        The files cannot be written.
    MissingDependency
        ``parquet`` needs pyarrow.
    """
    target = Path(path)
    nodes: set[str] = set()
    ids: dict[str, str] = {}  # of entities that facts hold by another name
    listed = facts = edges = others = 0
    try:
        with _open_writer(target, format, spreadsheet=spreadsheet) as writer:
            with closing(index.graph.iter_entities(where=where)) as entities:
                for entity in entities:
                    nodes.add(_node_id(entity.id))
                    writer.node(_ENTITY, entity)
                    listed += 1
            with closing(index.graph.iter_facts(where=where)) as found:
                for fact in found:
                    if not fact.relation and not sentences:
                        continue
                    for name in fact.entities:
                        if name in ids or _node_id(name) in nodes:
                            continue
                        # Such as a year, which only facts hold, or a section, which may be an entity of another id.
                        entity = index.graph.entity(name, where=where) or Entity(name, name)
                        ids[name] = entity.id
                        if (node := _node_id(entity.id)) not in nodes:
                            nodes.add(node)
                            writer.node(_ENTITY, entity)
                            others += 1
                    if fact.value and (node := _node_id(fact.value, _VALUE)) not in nodes:
                        nodes.add(node)
                        writer.node(_VALUE, Entity(fact.value, fact.value))
                    written = writer.fact(replace(fact, entities=tuple(ids.get(name, name) for name in fact.entities)))
                    edges += written
                    facts += written > 0
    except OSError as error:
        raise FileError(f"{target}: cannot be written ({error.strerror or error})") from error
    return Exported(target, listed, facts, edges, others)


def _open_writer(path: Path, format: str | None, *, spreadsheet: bool) -> AbstractContextManager[_Writer]:  # noqa: A002
    match format or path.suffix.lower():
        case "graphml" | ".graphml":
            return _graphml(path)
        case "csv":
            return _neo4j_csv(path, spreadsheet=spreadsheet)
        case "parquet":
            return _parquet(path)
        case _ if format is not None:
            raise InputError(f"unknown format {format!r}: use one of {', '.join(get_args(Format))}")
        case _:
            raise InputError(f"{path}: its ending names no format: use .graphml, or give the format")


def _node_id(text: str, kind: str = _ENTITY) -> str:
    """Return the id of a node: a name token, as XML asks for."""
    return kind[0] + fingerprint([text])[:16]


def _edges(fact: Fact) -> list[tuple[str, str]]:
    """Return the ids of the nodes that a fact links: subject and object of a triple, each pair of a sentence."""
    ids = [_node_id(entity) for entity in fact.entities]
    if fact.value and ids:
        return [(ids[0], _node_id(fact.value, _VALUE))]
    if fact.relation and len(ids) > 1:
        return [(ids[0], ids[1])]
    return list(combinations(dict.fromkeys(ids), 2))


def _edge_values(fact: Fact) -> dict[str, Any]:
    attributes = {"fact": "id", "passage": "chunk_id"}
    return {name: getattr(fact, attributes.get(name, name)) for name in _EDGE_FIELDS}


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    """Yield a temporary path; what was written there takes the place of a file when it is complete."""
    temporary = path.with_name(f"{path.name}.tmp{os.getpid()}")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _text_file(path: Path) -> Iterator[TextIO]:
    with _replaced(path) as temporary, temporary.open("w", encoding="utf-8", errors="replace", newline="") as file:
        yield file


@contextmanager
def _graphml(path: Path) -> Iterator[_Writer]:
    with _text_file(path) as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n')
        for kind, fields in (("node", _NODE_FIELDS), ("edge", _EDGE_FIELDS)):
            for name, type_ in fields.items():
                default = f"<default>{_DEFAULTS[name]}</default>" if name in _DEFAULTS else ""
                key = f'id="{_key(kind, name)}" for="{kind}" attr.name="{name}" attr.type="{type_}"'
                file.write(f"<key {key}>{default}</key>\n")
        file.write('<graph id="G" edgedefault="directed">\n')

        numbers: dict[str, int] = {}

        def write_node(kind: str, entity: Entity) -> None:
            number = numbers[_node_id(entity.id, kind)] = len(numbers)
            values = {name: getattr(entity, name) for name in _NODE_FIELDS if name not in ("label", "kind")}
            values |= {"label": entity.name, "kind": kind, "aliases": "\n".join(entity.aliases)}
            file.write(f'<node id="n{number}">{_xml_data("node", values)}</node>\n')

        def write_fact(fact: Fact) -> int:
            edges, values = _edges(fact), _edge_values(fact)
            data = _xml_data("edge", values) if edges else ""
            for source, target in edges:
                file.write(f'<edge source="n{numbers[source]}" target="n{numbers[target]}">{data}</edge>\n')
                data = _xml_data("edge", {"weight": values["weight"]})  # the text is written once
            return len(edges)

        yield _Writer(write_node, write_fact)
        file.write("</graph>\n</graphml>\n")


def _xml_data(kind: str, values: Mapping[str, Any]) -> str:
    return "".join(
        f'<data key="{_key(kind, name)}">{escape(_INVALID.sub("", str(value)))}</data>'
        for name, value in values.items()
        if value is not None and value != "" and value != _DEFAULTS.get(name)
    )


def _key(kind: str, name: str) -> str:
    """Return the id of a field of nodes or edges."""
    return kind[0] + str(list(_NODE_FIELDS if kind == "node" else _EDGE_FIELDS).index(name))


@contextmanager
def _neo4j_csv(folder: Path, *, spreadsheet: bool) -> Iterator[_Writer]:
    """Write two files that ``neo4j-admin database import`` reads."""
    folder.mkdir(parents=True, exist_ok=True)
    with _text_file(folder / "entities.csv") as entities_file, _text_file(folder / "facts.csv") as facts_file:
        entities, facts = (csv.writer(file, lineterminator="\n") for file in (entities_file, facts_file))
        entities.writerow([":ID", "name", ":LABEL", "type", "description", "aliases:string[]", "mentions:int"])
        numbers = {"weight": "float", "confidence": "float"}
        types = {name: numbers.get(name, "double") for name, type_ in _EDGE_FIELDS.items() if type_ == "double"}
        fields = [f"{name}:{types[name]}" if name in types else name for name in _EDGE_FIELDS]
        facts.writerow([":START_ID", ":END_ID", ":TYPE", *fields])

        def cell(value: Any) -> Any:
            if isinstance(value, str):
                return _csv_text(value, spreadsheet=spreadsheet)
            return "" if value is None else value

        def write_node(kind: str, entity: Entity) -> None:
            labels = [kind.capitalize(), re.sub(r"[;\s]+", " ", entity.type).strip()]
            aliases = ";".join(alias.replace(";", ",") for alias in entity.aliases)
            row = [entity.name, ";".join(filter(None, labels)), entity.type, entity.description, aliases]
            entities.writerow([_node_id(entity.id, kind), *map(cell, row), entity.mentions])

        def write_fact(fact: Fact) -> int:
            edges = _edges(fact)
            values = [cell(value) for value in (fact.relation or _MENTIONED_WITH, *_edge_values(fact).values())]
            facts.writerows([*edge, *values] for edge in edges)
            return len(edges)

        yield _Writer(write_node, write_fact)


def _csv_text(text: str, *, spreadsheet: bool) -> str:
    """Return a text without line breaks: some readers end a row at a quoted line break."""
    text = _INVALID.sub("", _BREAKS.sub(" ", text))
    return _FORMULA.sub(r"\1'\2", text) if spreadsheet else text


@contextmanager
def _parquet(folder: Path) -> Iterator[_Writer]:
    with optional_import("pyarrow", "parquet", "Parquet"):
        import pyarrow as pa  # noqa: PLC0415 - optional
        from pyarrow.parquet import ParquetWriter  # noqa: PLC0415
    text, texts = pa.string(), pa.list_(pa.string())
    types = {"string": text, "double": pa.float64()}
    columns: dict[str, dict[str, Any]] = {
        "entities": {
            "id": text, "name": text, "type": text, "description": text, "aliases": texts, "mentions": pa.int64(),
        },
        "facts": {"entities": texts, "value": text, **{name: types[kind] for name, kind in _EDGE_FIELDS.items()}},
    }  # fmt: skip
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in columns}
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as opened:
        writers = {}
        for name, types_of in columns.items():
            file = opened.enter_context(_replaced(folder / f"{name}.parquet"))
            writers[name] = opened.enter_context(ParquetWriter(file, pa.schema(list(types_of.items()))))

        def add(name: str, row: dict[str, Any]) -> int:
            rows[name].append(row)
            if len(rows[name]) == _BATCH:
                flush(name)
            return 1

        def flush(name: str) -> None:
            writers[name].write_table(pa.Table.from_pylist(rows[name], writers[name].schema))
            rows[name].clear()

        def write_node(kind: str, entity: Entity) -> None:
            if kind == _ENTITY:  # a value is a column of its fact
                add("entities", {name: getattr(entity, name) for name in columns["entities"]})

        def write_fact(fact: Fact) -> int:
            return add("facts", {"entities": fact.entities, "value": fact.value, **_edge_values(fact)})

        yield _Writer(write_node, write_fact)
        for name in columns:
            flush(name)
