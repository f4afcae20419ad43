"""Readers for CSV, JSON and JSON Lines: one document per row or object."""

import csv
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from graphrag_core.documents.content import SAMPLE_SIZE, Content, decode, detect_encoding
from graphrag_core.errors import FileError
from graphrag_core.research import is_findings, research_documents

_TEXT_FIELDS = ("text", "content", "page_content", "body", "passage", "abstract", "description", "summary")
_TITLE_FIELDS = ("title", "name", "heading", "subject", "label")
_ID_FIELDS = ("id", "_id", "doc_id", "document_id", "uid", "uuid", "key", "slug")
_LIST_FIELDS = ("documents", "docs", "data", "items", "records", "rows", "results", "entries", "pages", "articles")
_MIN_PROSE = 40  # characters from which an "abstract", "description" or "summary" is a text, not a value
_MAX_CSV_FIELD = 10_000_000
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
            yield from _table_rows(csv.reader(file, delimiter=delimiter))
        except csv.Error as error:
            raise FileError(f"invalid CSV ({error})") from error


def _table_rows(rows: Iterator[list[str]]) -> Iterator[Content]:
    filled = (row for row in rows if any(cell.strip() for cell in row))
    names = [cell.strip() or f"column {i}" for i, cell in enumerate(next(filled, ()), 1)]
    if any("\x00" in name for name in names):
        raise FileError("binary file, not text")
    for number, row in enumerate(filled, 1):
        if len(row) > len(names):
            problem = f"{len(row)} fields in the row, {len(names)} in the header"
            yield Content("", key=str(number), problem=problem)
        else:
            yield row_content({name: parse_value(cell) for name, cell in zip(names, row, strict=False)}, number)


def read_json(data: bytes) -> Iterator[Content]:
    """Read a list of objects, an object that contains such a list, a single object, or research findings."""
    value = _parse_json(decode(data))
    if is_findings(value):
        for document in research_documents(value):
            yield Content(document.text, document.title, document.metadata, document.id)
        return
    if isinstance(value, dict):
        objects = next((value[key] for key in _LIST_FIELDS if _is_object_list(value.get(key))), None)
        if objects is None:
            yield replace(row_content(value, 1), key="")
            return
        value = objects
    for number, item in enumerate(value if isinstance(value, list) else [value], 1):
        yield from _json_item(item, number)


def read_jsonl(path: Path) -> Iterator[Content]:
    """Stream a file with one object per line."""
    with _open_text(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                try:
                    yield from _json_item(_parse_json(line), number)
                except FileError as error:
                    yield Content("", key=str(number), problem=str(error))


def row_content(fields: Mapping[str, Any], number: int) -> Content:
    r"""Convert a row to a text with title, metadata and key.

    If a field such as ``text`` or ``description`` holds prose, it is the text and the other
    fields are metadata. Otherwise the text has one line per field: ``team: Identity.``

    >>> row_content({"name": "Ada", "team": "Identity", "since": 2019}, 1).text
    'name: Ada.\nteam: Identity.\nsince: 2019.'
    """
    by_lower = {key.lower(): key for key in reversed(list(fields))}
    nested = fields.get("metadata")
    metadata = dict(nested) if isinstance(nested, Mapping) else {}
    prose = next((by_lower[name] for name in _TEXT_FIELDS if _is_prose(fields.get(by_lower.get(name, "")), name)), None)
    if prose is None:
        text = "\n".join(_field_lines({key: value for key, value in fields.items() if key != "metadata"}))
    else:
        text = str(fields[prose])
    metadata.update((key, value) for key, value in fields.items() if key not in (prose, "metadata"))
    title = _first_value(fields, by_lower, _TITLE_FIELDS) or str(metadata.get("title", "") or "")
    return Content(text, title, metadata, _first_value(fields, by_lower, _ID_FIELDS) or str(number))


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
    if _DECIMAL.fullmatch(text):
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


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except (json.JSONDecodeError, RecursionError) as error:
        raise FileError(f"invalid JSON ({error})") from error


def _json_item(item: Any, number: int) -> Iterator[Content]:
    if isinstance(item, dict):
        yield row_content(item, number)
    elif isinstance(item, str):
        yield Content(item, key=str(number))
    elif item is not None:
        yield Content("", key=str(number), problem=f"expected an object or a string, got {type(item).__name__}")


def _is_object_list(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _first_value(fields: Mapping[str, Any], by_lower: Mapping[str, str], names: tuple[str, ...]) -> str:
    for name in names:
        value = fields.get(by_lower.get(name, ""))
        if isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip():
            return " ".join(str(value).split())[:200]
    return ""


def _is_prose(value: Any, name: str) -> bool:
    # A field named "text" or the like is a text at any length; a "description" may be a single word.
    return isinstance(value, str) and (bool(value.strip()) if name in _TEXT_FIELDS[:5] else len(value) >= _MIN_PROSE)


def _field_lines(fields: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in fields.items():
        if value is None or value == "":
            continue
        if isinstance(value, Mapping):
            yield from _field_lines(value, f"{prefix}{key} ")
            continue
        if isinstance(value, list):
            flat = all(not isinstance(item, (Mapping, list)) for item in value)
            value = ", ".join(map(str, value)) if flat else json.dumps(value, ensure_ascii=False)  # noqa: PLW2901
        end = "" if str(value).rstrip().endswith((".", "!", "?", "。")) else "."
        yield f"{prefix}{key}: {str(value).strip()}{end}"
