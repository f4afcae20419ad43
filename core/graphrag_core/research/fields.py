"""Fields as findings have them: under several names, as lists, texts, numbers or objects, or not at all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_AND = re.compile(r"\s*[;,]\s*(?:and\s+)?|\s+and\s+")
_NAMES = ("name", "title", "full_name", "arxiv_id", "id", "label")
_YEAR = re.compile(r"(?:19|20)\d\d")


def text(entry: Mapping[str, Any], *keys: str) -> str:
    """Return the first of some fields that holds a text or a number.

    >>> text({"title": " ", "name": "MAGMA"}, "title", "name")
    'MAGMA'
    """
    for key in keys:
        value = entry.get(key)
        if isinstance(value, (str, int, float)) and not isinstance(value, bool) and str(value).strip():
            return " ".join(str(value).split())
    return ""


def number(entry: Mapping[str, Any], *keys: str) -> int | None:
    """Return the first of some fields that holds a whole number, also one written as ``"12,300"``."""
    for key in keys:
        value = entry.get(key)
        digits = str(value).replace(",", "").strip()
        if not isinstance(value, (bool, list, Mapping)) and digits.isdecimal() and len(digits) < 19:
            return int(digits)
    return None


def year(entry: Mapping[str, Any]) -> int | None:
    """Return the year of a date field."""
    found = _YEAR.search(text(entry, "year", "published", "published_date", "date", "publication_date", "updated"))
    return int(found[0]) if found else None


def names(entry: Mapping[str, Any], *keys: str) -> list[str]:
    """Return the names that some fields list: texts, objects with a name, or one text with commas.

    >>> names({"authors": [{"name": "Ada Lovelace"}, "C. Babbage"], "author": "Ada Lovelace"}, "authors", "author")
    ['Ada Lovelace', 'C. Babbage']
    >>> names({"citations": 12}, "citations")
    []
    """
    found: dict[str, None] = {}
    for key in keys:
        value = entry.get(key)
        items = _AND.split(value) if isinstance(value, str) else value
        if isinstance(items, Mapping):
            items = list(items)
        for item in items if isinstance(items, list) else ():
            name = text(item, *_NAMES) if isinstance(item, Mapping) else text({"": item}, "")
            if name:
                found[name] = None
    return list(found)
