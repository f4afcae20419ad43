"""JSON and JSON Lines: a document for each object."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from graphrag_core.errors import FileError
from graphrag_core.loading.content import Content, Fault
from graphrag_core.loading.decode import decode, detect
from graphrag_core.loading.rows import row_content
from graphrag_core.research import is_findings, research_documents

_SAMPLE = 1 << 16
_LISTS = ("documents", "docs", "data", "items", "records", "rows", "results", "entries", "pages", "articles")


def read_json(data: bytes) -> Iterator[Content | Fault]:
    """Read a list of objects, an object that holds one, an object, or research findings."""
    value = _parse(decode(data))
    if is_findings(value):
        for document in research_documents(value):
            yield Content(document.text, document.title, document.metadata, document.id)
        return
    if isinstance(value, dict):
        held = next((value[key] for key in _LISTS if _objects(value.get(key))), None)
        if held is None:
            content = row_content(value, 1)
            yield Content(content.text, content.title, content.metadata)
            return
        value = held
    if not isinstance(value, list):
        value = [value]
    for number, item in enumerate(value, 1):
        yield from _item(item, number)


def read_lines(path: Path) -> Iterator[Content | Fault]:
    """Read one object a line, as the lines come."""
    with path.open("rb") as file:
        encoding = detect(file.read(_SAMPLE))
    with path.open(encoding=encoding) as file:
        try:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    yield from _item(_parse(line), number)
                except FileError as error:
                    yield Fault(str(number), str(error))
        except UnicodeDecodeError as error:
            raise FileError(f"is not {encoding} throughout: save it as UTF-8") from error


def _item(item: Any, number: int) -> Iterator[Content | Fault]:
    if isinstance(item, dict):
        yield row_content(item, number)
    elif isinstance(item, str):
        yield Content(item, key=str(number))
    elif item is not None:
        yield Fault(str(number), f"is {type(item).__name__}, not an object or a text")


def _objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _parse(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except (json.JSONDecodeError, RecursionError) as error:
        raise FileError(f"is broken JSON ({error})") from error
