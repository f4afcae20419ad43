"""Write the entities and facts of an index to files, a page at a time."""

import csv
import json
import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TextIO, get_args
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from typing_extensions import Self

from graphrag_core.errors import FileError, InputError, MissingDependency
from graphrag_core.filters import Where
from graphrag_core.index import KnowledgeIndex
from graphrag_core.model import Entity, Fact
from graphrag_core.text import fingerprint

Format = Literal["graphml", "csv", "jsonld", "parquet"]
"""``graphml`` and ``jsonld`` are a file, ``csv`` and ``parquet`` a folder with the files entities and facts."""

MENTIONED_WITH = "MENTIONED_WITH"
"""The type of an edge between two entities of one sentence, which is no relation."""

_SUFFIXES: Mapping[str, Format] = {".graphml": "graphml", ".xml": "graphml", ".jsonld": "jsonld", ".json": "jsonld"}
BATCH = 5_000  # rows in a batch of Parquet
_INVALID = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # what XML 1.0 has no place for
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_URN = "urn:hybrid-graphrag:"

_EDGE_FIELDS = {
    "relation": "string", "text": "string", "weight": "double", "confidence": "double", "source": "string",
    "status": "string", "fact": "string", "passage": "string", "created": "double", "valid_from": "double",
    "valid_to": "double",
}  # fmt: skip
_NODE_FIELDS = {
    "label": "string", "name": "string", "kind": "string", "type": "string", "description": "string",
    "aliases": "string", "mentions": "int",
}  # fmt: skip
_CONTEXT = {
    "@vocab": f"{_URN}vocabulary:",
    "Fact": "http://www.w3.org/1999/02/22-rdf-syntax-ns#Statement",
    "subject": {"@id": "http://www.w3.org/1999/02/22-rdf-syntax-ns#subject", "@type": "@id"},
    "object": {"@id": "http://www.w3.org/1999/02/22-rdf-syntax-ns#object", "@type": "@id"},
    "entities": {"@id": f"{_URN}vocabulary:entities", "@type": "@id", "@container": "@list"},
    "name": "http://schema.org/name",
    "description": "http://schema.org/description",
    "aliases": "http://schema.org/alternateName",
}


@dataclass(frozen=True, slots=True)
class Exported:
    """What :func:`export_graph` wrote. In GraphML and CSV a sentence has several ``edges``.

    ``entities`` are those that ``KnowledgeIndex.entities`` lists. ``other_nodes`` are numbers, such as years, and
    documents: only facts hold them.
    """

    path: Path
    entities: int
    facts: int
    edges: int
    other_nodes: int = 0


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
        The file of ``graphml`` and ``jsonld``; the folder of ``csv`` and ``parquet``. Existing files are replaced when
        the new ones are complete.
    format
        By default by the ending of the path: ``.graphml`` or ``.jsonld``.
    where
        A filter: what other documents say is not exported.
    sentences
        False leaves out sentences, which link the entities in them, and keeps relations.
    spreadsheet
        In ``csv``, put an apostrophe before texts that a spreadsheet would run as a formula. Use it for files that
        people open in Excel, not for those that programs read.

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
    kind = format_of(target, format)
    writers: Mapping[Format, Callable[[], Any]] = {
        "graphml": partial(_GraphML, target),
        "csv": partial(_Csv, target, spreadsheet=spreadsheet),
        "jsonld": partial(_JsonLd, target),
        "parquet": partial(_Parquet, target),
    }
    counts = {"facts": 0, "edges": 0}
    try:
        with writers[kind]() as writer:
            with closing(index.iter_entities(where=where)) as entities:
                for entity in entities:
                    writer.entity(entity)
            listed = writer.entities
            for fact in _facts(index, where, sentences=sentences):
                for name in fact.entities:
                    if not writer.has(name):  # such as a year, which only facts hold
                        writer.entity(index.entity(name, where=where) or Entity(name, name))
                written = writer.fact(fact)
                counts["edges"] += written
                counts["facts"] += written > 0
    except OSError as error:
        raise FileError(f"{target}: cannot be written ({error.strerror or error})") from error
    return Exported(target, listed, **counts, other_nodes=writer.entities - listed)


def _facts(index: KnowledgeIndex, where: Where | None, *, sentences: bool) -> Generator[Fact, None, None]:
    with closing(index.iter_facts(where=where)) as found:
        for fact in found:
            if fact.relation or sentences:
                yield fact


def _edges(fact: Fact) -> Iterator[tuple[str, str]]:
    """Yield the ids of the nodes that a fact links: subject and object of a triple, each pair of a sentence."""
    if fact.value and fact.entities:
        yield _node_id(fact.entities[0]), _node_id(fact.value, "v")
    elif fact.relation and len(fact.entities) > 1:
        yield _node_id(fact.entities[0]), _node_id(fact.entities[1])
    else:
        for one, other in combinations(dict.fromkeys(fact.entities), 2):
            yield _node_id(one), _node_id(other)


def _node_id(text: str, kind: str = "e") -> str:
    """Return the id of an entity's node (``e``), or of a value's (``v``): a name token, as XML asks for."""
    return kind + fingerprint([text])[:16]


def _edge_values(fact: Fact) -> dict[str, Any]:
    return {
        "relation": fact.relation, "text": fact.text, "weight": fact.weight, "confidence": fact.confidence,
        "source": fact.source, "status": fact.status, "fact": fact.id, "passage": fact.chunk_id,
        "created": fact.created, "valid_from": fact.valid_from, "valid_to": fact.valid_to,
    }  # fmt: skip


def format_of(path: Path, given: str | None) -> Format:
    """Return the format that is given, or that the ending of a path names."""
    formats = get_args(Format)
    if given is not None and given not in formats:
        raise InputError(f"unknown format {given!r}: use one of {', '.join(formats)}")
    found: Any = given or _SUFFIXES.get(path.suffix.lower())
    if found is None:
        raise InputError(f"{path}: its ending names no format: use .graphml or .jsonld, or give the format")
    known: Format = found
    return known


@contextmanager
def _replaced(path: Path, **options: Any) -> Iterator[TextIO]:
    """Open a new file that takes the place of another one when it is complete."""
    temporary = path.with_name(f"{path.name}.tmp{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8", errors="replace", newline="", **options) as file:
            yield file
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


class _Writer:
    """Writes entities and facts, and nodes for literal values. A context manager.

    An entity is written before the first fact that holds it.
    """

    def __init__(self) -> None:
        self._open = ExitStack()
        self._nodes: set[tuple[str, int]] = set()
        self.entities = 0

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self.start(opened)
            self._open = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.end()
        except BaseException as own:
            self._open.__exit__(type(own), own, own.__traceback__)
            raise
        self._open.__exit__(kind, error, trace)

    def has(self, text: str, kind: str = "e") -> bool:
        """Return whether the node of an entity, or of a value, is written."""
        return (kind, int(_node_id(text, kind)[1:], 16)) in self._nodes

    def mark(self, text: str, kind: str = "e") -> None:
        """Note that a node is written."""
        self._nodes.add((kind, int(_node_id(text, kind)[1:], 16)))

    def entity(self, entity: Entity) -> None:
        """Write an entity."""
        self.entities += 1
        self.mark(entity.id)
        self.write_entity(entity)

    def write_entity(self, entity: Entity) -> None:
        """Write an entity in the writer's format."""
        raise NotImplementedError

    def fact(self, fact: Fact) -> int:
        """Write a fact; return the number of its edges."""
        raise NotImplementedError

    def start(self, opened: ExitStack) -> None:
        """Open the files."""

    def end(self) -> None:
        """Write what comes last."""


class _GraphML(_Writer):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def start(self, opened: ExitStack) -> None:
        self._write = opened.enter_context(_replaced(self.path)).write
        self._write('<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n')
        for kind, fields in (("node", _NODE_FIELDS), ("edge", _EDGE_FIELDS)):
            for name, type_ in fields.items():
                self._write(f'<key id="{kind}_{name}" for="{kind}" attr.name="{name}" attr.type="{type_}"/>\n')
        self._write('<graph id="G" edgedefault="directed">\n')

    def write_entity(self, entity: Entity) -> None:
        self._node(
            _node_id(entity.id),
            label=entity.name, name=entity.name, kind="entity", type=entity.type, description=entity.description,
            aliases="\n".join(entity.aliases), mentions=entity.mentions,
        )  # fmt: skip

    def _value(self, value: str) -> None:
        if value and not self.has(value, "v"):
            self.mark(value, "v")
            self._node(_node_id(value, "v"), label=value, name=value, kind="value")

    def _node(self, node_id: str, **values: Any) -> None:
        self._write(f'<node id="{node_id}">{_xml_data("node", values)}</node>\n')

    def fact(self, fact: Fact) -> int:
        self._value(fact.value)
        edges = list(_edges(fact))
        data = _xml_data("edge", _edge_values(fact)) if edges else ""
        for source, target in edges:
            self._write(f'<edge source="{source}" target="{target}">{data}</edge>\n')
        return len(edges)

    def end(self) -> None:
        self._write("</graph>\n</graphml>\n")


def _xml_data(kind: str, values: Mapping[str, Any]) -> str:
    return "".join(
        f"<data key={quoteattr(f'{kind}_{name}')}>{escape(_INVALID.sub('', str(value)))}</data>"
        for name, value in values.items()
        if value is not None and value != ""
    )


class _Csv(_Writer):
    """Two files that ``neo4j-admin database import`` reads."""

    def __init__(self, folder: Path, *, spreadsheet: bool) -> None:
        super().__init__()
        self.folder, self.spreadsheet = folder, spreadsheet

    def start(self, opened: ExitStack) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        files = [opened.enter_context(_replaced(self.folder / f"{name}.csv")) for name in ("entities", "facts")]
        self._entities, self._facts = (csv.writer(file, lineterminator="\n") for file in files)
        header = ":ID", "name", ":LABEL", "type", "description", "aliases:string[]", "mentions:int"
        self._entities.writerow(header)
        types = {"weight": "float", "confidence": "float", "created": "double", "valid_from": "double",
                 "valid_to": "double"}  # fmt: skip
        fields = [f"{name}:{types[name]}" if name in types else name for name in _EDGE_FIELDS]
        self._facts.writerow([":START_ID", ":END_ID", ":TYPE", *fields])

    def write_entity(self, entity: Entity) -> None:
        kind = re.sub(r"[;\s]+", " ", entity.type).strip()
        aliases = ";".join(alias.replace(";", ",") for alias in entity.aliases)
        row = [entity.name, ";".join(filter(None, ("Entity", kind))), entity.type, entity.description, aliases]
        self._entities.writerow([_node_id(entity.id), *map(self._cell, row), entity.mentions])

    def _value(self, value: str) -> None:
        if value and not self.has(value, "v"):
            self.mark(value, "v")
            self._entities.writerow([_node_id(value, "v"), self._cell(value), "Value", "", "", "", 0])

    def fact(self, fact: Fact) -> int:
        self._value(fact.value)
        edges = list(_edges(fact))
        values = [self._cell(value) for value in _edge_values(fact).values()]
        for source, target in edges:
            self._facts.writerow([source, target, self._cell(fact.relation or MENTIONED_WITH), *values])
        return len(edges)

    def _cell(self, value: Any) -> Any:
        if not isinstance(value, str):
            return "" if value is None else value
        text = value.replace("\x00", "")
        return f"'{text}" if self.spreadsheet and text.startswith(_FORMULA) else text


class _JsonLd(_Writer):
    """One object in a line, so that a file can be read a line at a time."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def start(self, opened: ExitStack) -> None:
        self._write = opened.enter_context(_replaced(self.path)).write
        self._write(f'{{"@context": {json.dumps(_CONTEXT)}, "@graph": [')
        self._separator = "\n"

    def write_entity(self, entity: Entity) -> None:
        values = {"name": entity.name, "type": entity.type, "description": entity.description,
                  "aliases": list(entity.aliases), "mentions": entity.mentions}  # fmt: skip
        self._object("entity", entity.id, "Entity", values)

    def fact(self, fact: Fact) -> int:
        values = {name: value for name, value in _edge_values(fact).items() if name != "fact"}
        ids = [_urn("entity", entity) for entity in fact.entities]
        if fact.value:
            ends: dict[str, Any] = {"subject": ids[0], "value": fact.value} if ids else {"value": fact.value}
        elif fact.relation and len(ids) > 1:
            ends = {"subject": ids[0], "object": ids[1]}
        else:
            ends = {"entities": ids}
        self._object("fact", fact.id, "Fact", {**ends, **values})
        return 1

    def _object(self, kind: str, name: str, type_: str, values: Mapping[str, Any]) -> None:
        kept = {key: value for key, value in values.items() if value not in (None, "", [])}
        line = json.dumps({"@id": _urn(kind, name), "@type": type_, **kept}, ensure_ascii=False)
        self._write(self._separator + line)
        self._separator = ",\n"

    def end(self) -> None:
        self._write("\n]}\n")


def _urn(kind: str, name: str) -> str:
    return f"{_URN}{kind}:{quote(name.encode('utf-8', 'replace'), safe='')}"


class _Parquet(_Writer):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        try:
            import pyarrow as pa  # noqa: PLC0415 - optional
            import pyarrow.parquet  # noqa: PLC0415
        except ImportError as error:
            raise MissingDependency("pyarrow", "parquet", "Parquet") from error
        self._pa: Any = pa
        text, texts, number = pa.string(), pa.list_(pa.string()), pa.float64()
        entity = {"id": text, "name": text, "type": text, "description": text, "aliases": texts, "mentions": pa.int64()}
        types = {"string": text, "double": number}
        fact = {"entities": texts, "value": text, **{name: types[kind] for name, kind in _EDGE_FIELDS.items()}}
        self._schemas = {"entities": pa.schema(list(entity.items())), "facts": pa.schema(list(fact.items()))}
        self._rows: dict[str, list[dict[str, Any]]] = {name: [] for name in self._schemas}

    def start(self, opened: ExitStack) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._files = {}
        for name, schema in self._schemas.items():
            final = self.folder / f"{name}.parquet"
            temporary = final.with_name(f"{final.name}.tmp{os.getpid()}")
            opened.callback(temporary.unlink, missing_ok=True)
            self._files[name] = (
                final,
                temporary,
                opened.enter_context(self._pa.parquet.ParquetWriter(temporary, schema)),
            )

    def write_entity(self, entity: Entity) -> None:
        values = {"id": entity.id, "name": entity.name, "type": entity.type, "description": entity.description}
        self._add("entities", {**values, "aliases": list(entity.aliases), "mentions": entity.mentions})

    def fact(self, fact: Fact) -> int:
        self._add("facts", {"entities": list(fact.entities), "value": fact.value, **_edge_values(fact)})
        return 1

    def _add(self, name: str, row: dict[str, Any]) -> None:
        self._rows[name].append(row)
        if len(self._rows[name]) == BATCH:
            self._flush(name)

    def _flush(self, name: str) -> None:
        rows = self._rows[name]
        if rows:
            self._files[name][2].write_table(self._pa.Table.from_pylist(rows, self._schemas[name]))
            rows.clear()

    def end(self) -> None:
        for name, (final, temporary, writer) in self._files.items():
            self._flush(name)
            writer.close()
            temporary.replace(final)
