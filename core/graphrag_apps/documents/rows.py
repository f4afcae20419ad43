"""Readers for CSV, JSON and JSON Lines: one document per row or object."""

import csv
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from graphrag_core.errors import FileError
from graphrag_core.research import is_findings, research_documents
from graphrag_core.text.content import SAMPLE_SIZE, Content, decode, detect_encoding

_TEXT_FIELDS = ("text", "content", "page_content", "body", "passage", "abstract", "description", "summary")
_TITLE_FIELDS = ("title", "name", "heading", "subject", "label")
_ID_FIELDS = ("id", "_id", "doc_id", "document_id", "uid", "uuid", "key", "slug")
_LIST_FIELDS = ("documents", "docs", "data", "items", "records", "rows", "results", "entries", "pages", "articles")
_NOT_A_TITLE = re.compile(r"\w+://|www\.|\S+@\S+\.\S+$|[\d\W]+$|[0-9a-f-]{16,}$|\d{4}-\d\d-\d\d", re.IGNORECASE)
_MAX_TITLE = 100
_MIN_PROSE = 40  # characters from which an "abstract", "description" or "summary" is a text, not a value
_MAX_CSV_FIELD = 10_000_000
_MAX_COLUMNS = 10_000  # each is a field of the metadata of every row
_MAX_LINE = 100_000_000  # characters of a line of CSV or JSON Lines
_MAX_NESTED, _MAX_VALUES = 3_000_000, 20_000_000  # in one JSON text; an empty list takes 64 bytes, an object more
_LONGEST_NUMBER = 300  # characters; a longer one is infinite as a float
_MAX_DEPTH = 50  # of nested values in metadata
_LONGEST_PATH = 400  # characters of the names of the fields above a nested value
_DELIMITERS = ",;\t|"
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,17})")
_DECIMAL = re.compile(r"-?(?:0|[1-9]\d*)\.\d+")


def read_csv(path: Path) -> Iterator[Content]:
    """Stream a table whose first row names the columns."""
    csv.field_size_limit(max(csv.field_size_limit(), _MAX_CSV_FIELD))
    with _open_text(path, newline="") as file:
        delimiter = "\t"
        if path.suffix.lower() != ".tsv":
            header = file.read(SAMPLE_SIZE).split("\n", 1)[0]
            file.seek(0)
            delimiter = max(_DELIMITERS, key=header.count)
        try:
            yield from table_rows(csv.reader(_lines(file), delimiter=delimiter))
        except csv.Error as error:
            raise FileError(f"invalid CSV ({error})") from error


def table_rows(rows: Iterator[list[str]]) -> Iterator[Content]:
    """Convert the rows of a table, the first of which names the columns."""
    filled = (row for row in rows if any(cell.strip() for cell in row))
    header = next(filled, [])
    if len(header) > _MAX_COLUMNS:
        raise FileError(f"has {len(header):,} columns, at most {_MAX_COLUMNS:,} are possible: leave some out")
    names = _column_names(header)
    if any("\x00" in name for name in names):
        raise FileError("binary file, not text")
    for number, row in enumerate(filled, 1):
        if len(row) > len(names):
            problem = f"{len(row)} fields in the row, {len(names)} in the header"
            yield Content("", key=str(number), problem=problem)
        else:
            fields = {name: parse_value(cell) for name, cell in zip(names, row, strict=False)}
            yield row_content(fields, number)


def _column_names(header: list[str]) -> list[str]:
    """Return the names of columns: an empty one gets a number, a repeated one too, so that no column is lost."""
    names: dict[str, None] = {}
    for number, cell in enumerate(header, 1):
        name = cell.strip() or f"column {number}"
        names[f"{name} ({number})" if name in names else name] = None
    return list(names)


def read_json(data: bytes) -> Iterator[Content]:
    """Read a list of objects, an object that contains such a list, a single object, or research findings."""
    value = parse_json(decode(data))
    if is_findings(value):
        for document in research_documents(value):
            yield Content(document.text, document.title, document.metadata, document.id, is_id=True)
        return
    if isinstance(value, dict):
        key = next((key for key in _LIST_FIELDS if _is_table(value.get(key))), None)
        if key is None:
            yield replace(row_content(value, 1), key="")
            return
        rest = {name: field for name, field in value.items() if name != key}
        if any(isinstance(field, (dict, list)) or _is_name(field) for field in rest.values()):
            yield replace(row_content(rest, 1), key="")
        value = value[key]
    yield from _json_rows(enumerate(value if isinstance(value, list) else [value], 1))


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def read_jsonl(path: Path) -> Iterator[Content]:
    """Stream a file with one object per line."""
    with _open_text(path) as file:
        yield from _json_rows(_json_lines(file))


def _json_rows(values: Iterator[tuple[int, Any]]) -> Iterator[Content]:
    """Convert numbered values; values other than objects and strings become problems."""
    for number, value in values:
        if isinstance(value, dict):
            yield row_content(value, number)
        elif isinstance(value, str):
            yield Content(value, key=str(number))
        elif value is not None:
            expected = f"expected an object or a string, got {type(value).__name__}"
            yield Content("", key=str(number), problem=str(value) if isinstance(value, FileError) else expected)


def _lines(file: TextIO) -> Iterator[str]:
    while line := file.readline(_MAX_LINE):
        if len(line) == _MAX_LINE and line[-1] not in "\r\n":
            raise FileError(f"has a line of more than {_MAX_LINE:,} characters: split it")
        yield line


def _json_lines(file: TextIO) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(_lines(file), 1):
        if line.strip():
            try:
                yield number, parse_json(line)
            except FileError as error:
                yield number, error


def row_content(fields: Mapping[str, Any], number: int) -> Content:
    r"""Convert a row to a text with title, metadata and key.

    The text has one line per field: ``team: Identity.`` If a field such as ``text`` or
    ``description`` holds prose, the text begins with it, and the lines of the other fields
    follow; the title and the id are not repeated. The title is a field named "title" or the like.

    >>> row_content({"name": "Ada", "team": "Identity", "since": 2019}, 1).text
    'name: Ada.\nteam: Identity.\nsince: 2019.'
    >>> row_content({"id": 7, "title": "Sea", "text": "Rosa likes the sea.", "team": "Harbour"}, 1).text
    'Rosa likes the sea.\n\nteam: Harbour.'
    """
    names = {key.lower(): key for key in reversed(list(fields))}
    nested = fields.get("metadata")
    metadata = dict(nested) if isinstance(nested, Mapping) else {}
    others = {key: value for key, value in fields.items() if key != "metadata" or not metadata}
    id_field, row_id = _first_value(fields, names, _ID_FIELDS)
    title_key, row_title = _first_value(fields, names, _TITLE_FIELDS)
    row_title = row_title or str(metadata.get("title") or "")
    prose_field = _prose_field(fields, names)
    prose = others.pop(prose_field) if prose_field else ""
    hidden = (id_field, title_key) if prose else ()
    lines = _field_lines({key: value for key, value in others.items() if key not in hidden})
    text = "\n\n".join(filter(None, (prose, "\n".join(lines))))
    metadata = {key: value for key, value in {**metadata, **others}.items() if _is_shallow(value)}
    return Content(text, row_title, metadata, row_id or str(number))


def _prose_field(fields: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Return the field that holds prose, empty if none does. ``names`` has the fields by their names in lower case."""
    for name in _TEXT_FIELDS:
        value = fields[names[name]] if name in names else None
        # A field named "text" or the like is a text at any length; a "description" may be a single word.
        if isinstance(value, str) and (value.strip() if name in _TEXT_FIELDS[:5] else len(value) >= _MIN_PROSE):
            return names[name]
    return ""


def _is_shallow(value: Any) -> bool:
    """Return whether a value is nested less deep than metadata may be; deeper ones are in the text only."""
    level = [value]
    for _ in range(_MAX_DEPTH):
        nested = (item for item in level if isinstance(item, (Mapping, list)))
        level = [inner for item in nested for inner in (item.values() if isinstance(item, Mapping) else item)]
        if not level:
            return True
    return False


def _is_name(value: Any) -> bool:
    """Whether a value can name something: a short text with a letter; no address, date or hash."""
    return isinstance(value, str) and 1 < len(value.strip()) <= _MAX_TITLE and not _NOT_A_TITLE.match(value.strip())


def parse_value(text: str) -> str | int | float | bool:
    """Parse a number or boolean from a table or the command line, if that loses nothing; else return the text.

    >>> parse_value("2021"), parse_value("3.5"), parse_value("true"), parse_value("007"), parse_value('"2021"')
    (2021, 3.5, True, '007', '2021')
    """
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if _INTEGER.fullmatch(text):
        return int(text)
    if len(text) <= _LONGEST_NUMBER and _DECIMAL.fullmatch(text):
        return float(text)
    return {"true": True, "false": False}.get(text.lower(), text)


@contextmanager
def _open_text(path: Path, newline: str | None = None) -> Iterator[TextIO]:
    with path.open("rb") as binary:
        encoding = detect_encoding(binary.read(SAMPLE_SIZE))
    try:
        with path.open(encoding=encoding, newline=newline) as file:
            yield file
    except UnicodeDecodeError as error:
        raise FileError(f"not valid {encoding} throughout: save it as UTF-8") from error


def parse_json(text: str) -> Any:
    """Parse JSON. Raises :class:`FileError` if it is invalid, or has so many values that they take gigabytes."""
    if text.count("[") + text.count("{") > _MAX_NESTED or text.count(",") > _MAX_VALUES:
        raise FileError(f"has more than {_MAX_NESTED:,} lists and objects, or {_MAX_VALUES:,} values: use JSON Lines")
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise FileError(f"invalid JSON ({error})") from error


def _first_value(fields: Mapping[str, Any], names: Mapping[str, str], wanted: tuple[str, ...]) -> tuple[str, str]:
    """Return the first of the wanted fields that has a value, and the value."""
    for field in (names[name] for name in wanted if name in names):
        value = fields[field]
        if isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip():
            return field, " ".join(str(value).split())[:200]
    return "", ""


def _field_lines(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line per value. The line of a nested value begins with the names of all fields above it."""
    pending = list(reversed([(str(key), value) for key, value in fields.items()]))
    while pending:  # a stack: JSON nests deeper than Python's recursion limit allows
        path, value = pending.pop()
        path = path if len(path) <= _LONGEST_PATH else f"…{path[-_LONGEST_PATH:]}"
        if value is None or value in ("", [], {}):
            continue
        if isinstance(value, Mapping):
            pending.extend(reversed([(f"{path} {key}", item) for key, item in value.items()]))
        elif isinstance(value, list) and any(isinstance(item, (Mapping, list)) for item in value):
            pending.extend(reversed([(f"{path} {_item_name(item, i)}", item) for i, item in enumerate(value, 1)]))
        else:
            text = ", ".join(map(str, value)) if isinstance(value, list) else str(value).strip()
            yield f"{path}: {text}" if text.endswith((".", "!", "?", "。")) else f"{path}: {text}."


def _item_name(item: Any, number: int) -> str:
    """Return the name of an object in a list, or its number."""
    if isinstance(item, Mapping):
        names = {str(key).lower(): key for key in reversed(list(item))}
        name = _first_value(item, names, (*_TITLE_FIELDS, *_ID_FIELDS))[1]
        if 0 < len(name) <= 60:
            return name
    return str(number)
