"""Read a graph from files and add it to an index as told facts."""

import csv
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any
from xml.parsers import expat

from graphrag_core.errors import DocumentError, FileError, GraphRAGError, InputError, MissingDependency
from graphrag_core.export.write import BATCH, MENTIONED_WITH, Format, format_of
from graphrag_core.index import KnowledgeIndex
from graphrag_core.ingest import told_facts
from graphrag_core.ingest.pipeline import validate
from graphrag_core.model import Document, Mention
from graphrag_core.text import REFERS_TO

_XML_PIECE = 1 << 16
_MOST_PROBLEMS = 100
_COLUMNS = {"entities": {"id", "name"}, "facts": {"entities"}}  # that Parquet files must have
_OF_DOCUMENTS = {"", MENTIONED_WITH, REFERS_TO}  # sentences, and links between sections


@dataclass(frozen=True, slots=True)
class Imported:
    """What :func:`import_graph` read: entities and facts that it stored, and what it left out.

    ``unchanged`` were there already. ``sentences`` are edges of sentences and
    of links between sections, which only documents can state. ``left_out`` are entities of which nothing but such edges
    is known: their documents bring them.
    ``problems`` says, for at most 100 entries, what was wrong with them; ``skipped`` counts them all.
    """

    entities: int
    facts: int
    unchanged: int
    sentences: int
    skipped: int
    problems: tuple[str, ...] = ()
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class _Node:
    """A node of a file; ``is_value`` if it is a literal."""

    name: str
    type: str = ""
    description: str = ""
    aliases: tuple[str, ...] = ()
    is_value: bool = False


@dataclass(frozen=True, slots=True)
class _Edge:
    """An edge of a file between two nodes, by id, or to a literal ``value``."""

    source: str
    target: str
    relation: str
    values: Mapping[str, Any]
    value: str = ""
    others: tuple[str, ...] = ()  # further nodes of a sentence


class _Reader:
    """Collects the nodes of a file, and yields its edges. Entries that cannot be used are counted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.nodes: dict[str, _Node] = {}
        self.sentences = self.skipped = self.left_out = 0
        self.problems: list[str] = []

    def skip(self, problem: str) -> None:
        self.skipped += 1
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(f"{self.path.name}: {problem}")


def import_graph(
    index: KnowledgeIndex,
    path: str | Path,
    format: Format | None = None,  # noqa: A002 - the usual word
    *,
    metadata: Mapping[str, Any] | None = None,
) -> Imported:
    """Add the entities and relations of a file as told facts (:meth:`KnowledgeIndex.remember`).

    Files that :func:`export_graph` wrote, and others of the same form: GraphML whose nodes have a ``name`` or
    ``label`` and whose edges a ``relation``, ``label`` or ``type``; CSV files with Neo4j's headers (``:ID``,
    ``:START_ID``, ``:END_ID``, ``:TYPE``). A fact that is imported again with the same metadata is the same fact.
    Types, descriptions and aliases of entities are stored with their facts. An entity without a relation is stored as
    a fact that says what it is. Sentences and links between sections are not imported, nor are entities of which
    nothing else is known: they come from documents. The result counts both.

    Parameters
    ----------
    index
        What to add to. It must be open for writing.
    path
        A file, or a folder of CSV or Parquet files.
    format
        By default by the ending of the path; for a folder by the files in it.
    metadata
        The scope of all facts, such as ``{"tenant": "a"}``, for ``where``.

    Raises
    ------
    FileError
        The file cannot be read, or is not of its format. Batches that were added before stay.
    """
    source = Path(path)
    kind = format or (_folder_format(source) if source.is_dir() else None)
    kind = format_of(source, kind)
    if not source.exists():
        raise FileError(f"{source}: no such file or folder")
    readers: Mapping[Format, Callable[[_Reader], Iterator[_Edge]]] = {
        "graphml": _read_graphml, "csv": _read_csv, "jsonld": _read_jsonld, "parquet": _read_parquet,
    }  # fmt: skip
    scope = told_facts.check_scope(metadata or {})
    reader = _Reader(source)
    try:
        added = index.add(_documents(reader, readers[kind](reader), scope))
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{source}: cannot be read ({getattr(error, 'strerror', None) or error})") from error
    entities = sum(not node.is_value for node in reader.nodes.values()) - reader.left_out
    return Imported(
        entities, added.added + added.replaced, added.unchanged, reader.sentences, reader.skipped,
        tuple(reader.problems), reader.left_out,
    )  # fmt: skip


def _folder_format(folder: Path) -> Format:
    for kind in ("csv", "parquet"):
        if any(folder.glob(f"*.{kind}")):
            return kind
    raise FileError(f"{folder}: has no CSV and no Parquet files")


def _documents(reader: _Reader, edges: Iterator[_Edge], scope: dict[str, Any]) -> Iterator[Document]:
    """Yield told facts as documents, each once: relations, then entities that have none."""
    seen: set[str] = set()
    used: set[str] = set()  # nodes with a relation
    linked: set[str] = set()  # nodes with a sentence
    for edge in edges:
        if edge.relation in _OF_DOCUMENTS:
            reader.sentences += 1
            linked |= {edge.source, edge.target, *edge.others}
            continue
        source, target = reader.nodes.get(edge.source), reader.nodes.get(edge.target)
        if source is None or (target is None and not edge.value):
            reader.skip(f"an edge leads from {edge.source!r:.60} to {edge.target!r:.60}, of which one is no node")
        elif document := _told(reader, source, edge, target, scope):
            used |= {edge.source, edge.target}
            if document.id not in seen:
                seen.add(document.id)
                yield document
    for key, node in reader.nodes.items():
        if key in used or node.is_value:
            continue
        if key in linked and not (node.type or node.description):
            reader.left_out += 1
        else:
            said = ": ".join(filter(None, (node.type, node.description))) or "entity"
            edge = _Edge(key, "", "is_a" if node.type or not node.description else "is", {}, said)
            if document := _told(reader, node, edge, None, scope):
                yield document


def _told(reader: _Reader, source: _Node, edge: _Edge, target: _Node | None, scope: dict[str, Any]) -> Document | None:
    given = edge.values
    is_literal = bool(edge.value) or (target is not None and target.is_value)
    try:
        fact = told_facts.make_fact(
            source.name, edge.relation, edge.value or (target.name if target else ""), literal=is_literal,
            confidence=_number(given.get("confidence"), 1.0, 0, 1), source=given.get("source") or "file",
            status=given.get("status") or "confirmed", valid_from=_time(given.get("valid_from")),
            valid_to=_time(given.get("valid_to")), created=_time(given.get("created")),
        )  # fmt: skip
    except InputError as error:
        reader.skip(f"{source.name!r:.60} {edge.relation!r:.60}: {error}")
        return None
    fact = replace(fact, weight=_number(given.get("weight"), 10.0, 1, 10))
    nodes = [source] if is_literal or target is None else [source, target]
    described = [Mention(node.name, node.type, node.description, node.aliases) for node in nodes]
    document = told_facts.to_document(fact, scope, described)
    try:
        validate([document])
    except DocumentError as error:  # such as half a surrogate pair
        reader.skip(f"{source.name!r:.60} {edge.relation!r:.60}: {error}")
        return None
    return document


def _number(value: Any, default: float, least: float, most: float) -> float:
    with suppress(TypeError, ValueError):
        number = float(value)
        return number if least <= number <= most else default
    return default


def _time(value: Any) -> float | None:
    with suppress(TypeError, ValueError):
        return float(value)
    return None


def _read_csv(reader: _Reader) -> Iterator[_Edge]:
    files = sorted(reader.path.glob("*.csv")) if reader.path.is_dir() else [reader.path]
    headers = {file: next(_rows(file), []) for file in files}
    nodes = [file for file, header in headers.items() if _column(header, "ID") is not None]
    edges = [file for file, header in headers.items() if _column(header, "START_ID") is not None]
    if not nodes:
        raise FileError(f"{reader.path}: no CSV file has a column :ID")
    for file in nodes:
        for row in _named_rows(file, headers[file]):
            labels = [label for label in row.get(":LABEL", "").split(";") if label not in ("", "Entity")]
            is_value = labels == ["Value"]
            kind = row.get("type") or ("" if is_value else " ".join(labels))
            aliases = tuple(filter(None, row.get("aliases", "").split(";")))
            name = row.get("name") or row[":ID"]
            reader.nodes[row[":ID"]] = _Node(name, kind, row.get("description", ""), aliases, is_value)
    for file in edges:
        for row in _named_rows(file, headers[file]):
            relation = row.get("relation") or row.get(":TYPE", "")
            yield _Edge(row[":START_ID"], row.get(":END_ID", ""), relation, row)


def _column(header: list[str], kind: str) -> int | None:
    found = re.compile(rf".*:{kind}(\(.*\))?")
    return next((i for i, name in enumerate(header) if found.fullmatch(name)), None)


def _named_rows(file: Path, header: list[str]) -> Iterator[dict[str, str]]:
    """Yield the rows of a file by column: ``:ID`` for ``id:ID(Person)``, ``weight`` for ``weight:float``."""
    names = []
    for name in header:
        plain, _, kind = name.partition(":")
        kind = kind.partition("(")[0]
        names.append(f":{kind}" if kind in ("ID", "LABEL", "START_ID", "END_ID", "TYPE") else plain)
    for row in islice(_rows(file), 1, None):
        if row:
            yield dict(zip(names, row, strict=False))


def _rows(file: Path) -> Iterator[list[str]]:
    csv.field_size_limit(1 << 24)
    with file.open(encoding="utf-8-sig", newline="") as opened:
        try:
            yield from csv.reader(opened)
        except csv.Error as error:
            raise FileError(f"{file}: is not CSV ({error})") from error


def _read_jsonld(reader: _Reader) -> Iterator[_Edge]:
    waiting: list[dict[str, Any]] = []
    for entry in _json_objects(reader.path):
        if entry.get("@type") == "Entity":
            aliases = entry.get("aliases", [])
            listed = [aliases] if isinstance(aliases, str) else aliases if isinstance(aliases, list) else []
            texts = [str(entry.get(name, "")) for name in ("name", "type", "description")]
            reader.nodes[str(entry.get("@id"))] = _Node(texts[0], texts[1], texts[2], tuple(map(str, listed)))
        elif (
            entry.get("@type") == "Fact"
            and str(entry.get("subject", "")) not in reader.nodes
            and "entities" not in entry
        ):
            waiting.append(entry)  # its entity may come later
        elif entry.get("@type") == "Fact":
            yield _jsonld_edge(entry)
    yield from map(_jsonld_edge, waiting)


def _jsonld_edge(entry: Mapping[str, Any]) -> _Edge:
    if "entities" in entry:
        ends = [*map(str, entry["entities"] if isinstance(entry["entities"], list) else []), "", ""]
        return _Edge(ends[0], ends[1], str(entry.get("relation", "")), entry, others=tuple(ends[2:]))
    ends = [str(entry.get(name, "")) for name in ("subject", "object")]
    return _Edge(ends[0], ends[1], str(entry.get("relation", "")), entry, str(entry.get("value", "")))


def _json_objects(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of ``@graph``: a line at a time if they were written so."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            if file.readline().rstrip().endswith('"@graph": ['):
                for line in file:
                    if (text := line.strip().removesuffix(",")) not in ("", "]}"):
                        entry = json.loads(text)
                        if isinstance(entry, dict):
                            yield entry
                return
        content = json.loads(path.read_text("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise
        raise FileError(f"{path}: is not JSON ({error})") from error
    graph = content.get("@graph") if isinstance(content, dict) else content
    if not isinstance(graph, list):
        raise FileError(f"{path}: has no list @graph of objects of the types Entity and Fact")
    yield from (entry for entry in graph if isinstance(entry, dict))


def _read_parquet(reader: _Reader) -> Iterator[_Edge]:
    try:
        from pyarrow import parquet  # noqa: PLC0415 - optional
    except ImportError as error:
        raise MissingDependency("pyarrow", "parquet", "Parquet") from error

    def rows(name: str) -> Iterator[dict[str, Any]]:
        try:
            with parquet.ParquetFile(reader.path / f"{name}.parquet") as file:
                if lost := _COLUMNS[name] - set(file.schema_arrow.names):
                    raise FileError(f"{reader.path}: {name}.parquet has no column {min(lost)}")
                for batch in file.iter_batches(BATCH):
                    yield from batch.to_pylist()
        except (ValueError, KeyError) as error:
            if isinstance(error, GraphRAGError):
                raise
            raise FileError(f"{reader.path}: {name}.parquet cannot be read ({error})") from error

    for row in rows("entities"):
        texts = [str(row.get(name) or "") for name in ("name", "type", "description")]
        reader.nodes[str(row["id"])] = _Node(texts[0], texts[1], texts[2], _texts(row.get("aliases")))
    for row in rows("facts"):
        ends = [*_texts(row["entities"]), "", ""]
        relation, value = (str(row.get(name) or "") for name in ("relation", "value"))
        yield _Edge(ends[0], ends[1], relation, row, value, tuple(ends[2:]))


def _texts(values: Any) -> tuple[str, ...]:
    """Return the items of a list as texts; none of what is no list."""
    return tuple(map(str, values)) if isinstance(values, list) else ()


class _GraphMLParser:
    """Reads GraphML with expat, a piece at a time. A DOCTYPE is refused: it could define entities without end."""

    def __init__(self, reader: _Reader) -> None:
        self.reader = reader
        self.edges: list[_Edge] = []
        self._names: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self._ids = ("", "")
        self._key: str | None = None
        self._text: list[str] = []
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.StartDoctypeDeclHandler = self._doctype

    def _doctype(self, *_: object) -> None:
        raise FileError(f"{self.reader.path}: has a DOCTYPE, which is not read: remove it")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        tag = tag.rpartition(":")[2]
        if tag == "key":
            self._names[attributes.get("id", "")] = attributes.get("attr.name", attributes.get("id", ""))
        elif tag == "node":
            self._values, self._ids = {}, (attributes.get("id", ""), "")
        elif tag == "edge":
            self._values, self._ids = {}, (attributes.get("source", ""), attributes.get("target", ""))
        elif tag == "data":
            self._key, self._text = attributes.get("key", ""), []

    def _characters(self, text: str) -> None:
        if self._key is not None:
            self._text.append(text)

    def _end(self, tag: str) -> None:
        tag = tag.rpartition(":")[2]
        values = self._values
        if tag == "data" and self._key is not None:
            values[self._names.get(self._key, self._key)] = "".join(self._text)
            self._key = None
        elif tag == "node":
            name = values.get("name") or values.get("label") or self._ids[0]
            aliases = tuple(filter(None, values.get("aliases", "").split("\n")))
            kind, description = values.get("type", ""), values.get("description", "")
            self.reader.nodes[self._ids[0]] = _Node(name, kind, description, aliases, values.get("kind") == "value")
        elif tag == "edge":
            own = "fact" in values and "relation" not in values  # a sentence of our own form
            relation = "" if own else values.get("relation") or values.get("label") or values.get("type") or ""
            self.edges.append(_Edge(self._ids[0], self._ids[1], relation, values))


def _read_graphml(reader: _Reader) -> Iterator[_Edge]:
    """Yield the edges after all nodes that come before them; an edge before its nodes waits for the end."""
    found = _GraphMLParser(reader)
    waiting: list[_Edge] = []
    try:
        with reader.path.open("rb") as file:
            while piece := file.read(_XML_PIECE):
                found.parser.Parse(piece, False)
                for edge in found.edges:
                    if edge.source in reader.nodes and edge.target in reader.nodes:
                        yield edge
                    else:
                        waiting.append(edge)
                found.edges.clear()
            found.parser.Parse(b"", True)
    except (expat.ExpatError, ValueError, LookupError) as error:  # the latter two for an encoding
        if isinstance(error, GraphRAGError):
            raise
        raise FileError(f"{reader.path}: is not GraphML ({error})") from error
    yield from waiting
