"""Rows of tables and objects of JSON files: which field is the text, the title, the id."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from graphrag_core.loading.content import Content

_TEXT = ("text", "content", "page_content", "body", "passage", "abstract", "description", "summary")
_TITLE = ("title", "name", "heading", "subject", "label")
_ID = ("id", "_id", "doc_id", "document_id", "uid", "uuid", "key", "slug")
_LEAST = 40  # characters from which a field is prose rather than a value


def row_content(fields: Mapping[str, Any], number: int) -> Content:
    r"""Return a row as a text with metadata.

    A field such as ``text`` or ``description`` that holds prose is the text and the others
    are metadata; without one, every field is said in a line of its own: ``team: Identity.``

    >>> row_content({"name": "Ada", "team": "Identity", "since": 2019}, 1).text
    'name: Ada.\nteam: Identity.\nsince: 2019.'
    """
    lowered = {key.lower(): key for key in reversed(list(fields))}
    own = _first(fields, lowered, _ID)
    inner = fields.get("metadata")
    metadata = dict(inner) if isinstance(inner, Mapping) else {}
    prose = next((lowered[name] for name in _TEXT if _is_prose(fields.get(lowered.get(name, "")), name)), None)
    if prose is None:
        text = "\n".join(_lines({key: value for key, value in fields.items() if key != "metadata"}))
    else:
        text = str(fields[prose])
    metadata.update((key, value) for key, value in fields.items() if key not in (prose, "metadata"))
    title = _first(fields, lowered, _TITLE) or str(metadata.get("title", "") or "")
    return Content(text, title, metadata, own or str(number))


def _first(fields: Mapping[str, Any], lowered: Mapping[str, str], names: tuple[str, ...]) -> str:
    for name in names:
        value = fields.get(lowered.get(name, ""))
        if isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip():
            return " ".join(str(value).split())[:200]
    return ""


def _is_prose(value: Any, name: str) -> bool:
    # "text" and its like say what they hold; a description may also be one word of several fields.
    return isinstance(value, str) and (bool(value.strip()) if name in _TEXT[:5] else len(value) >= _LEAST)


def _lines(fields: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for key, value in fields.items():
        if value is None or value == "":
            continue
        if isinstance(value, Mapping):
            yield from _lines(value, f"{prefix}{key} ")
            continue
        if isinstance(value, list):
            plain = all(not isinstance(item, (Mapping, list)) for item in value)
            value = ", ".join(map(str, value)) if plain else json.dumps(value, ensure_ascii=False)  # noqa: PLW2901
        end = "" if str(value).rstrip().endswith((".", "!", "?", "。")) else "."
        yield f"{prefix}{key}: {str(value).strip()}{end}"
