"""A document ready to be written, and the names in it as they are stored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from operator import attrgetter

from graphrag_core.model import Chunk, Document, Extraction
from graphrag_core.ports import Matrix
from graphrag_core.text import normalise

to_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode
"""Return metadata as it is stored; raise ``ValueError`` or ``TypeError`` if JSON cannot hold it."""

_LONGEST_NAME = 300
_ENTITIES = attrgetter("entities")
_MOST_NAMES = 8_192  # remembered


@dataclass(frozen=True, slots=True)
class Entry:
    """A document with everything that was made of it.

    ``metadata`` are the document's as JSON. ``names`` are those of each chunk, as :func:`names_of`
    gives them; fact vectors lie in the order of the facts.
    """

    document: Document
    metadata: str
    digest: str
    chunks: Sequence[Chunk]
    extractions: Sequence[Extraction]
    names: Sequence[Mapping[str, bool]]
    chunk_vectors: Matrix | None
    fact_vectors: Matrix | None


def storable(text: str) -> str:
    """Return a text that an extractor made up without what SQLite cannot hold."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.encode("utf-8", "ignore").decode("utf-8").replace("\x00", "")


@lru_cache(maxsize=_MOST_NAMES)
def clean_name(name: str) -> str:
    r"""Return a name as it is stored, or nothing if it has no letter or digit.

    >>> clean_name("  Auth\n Service "), clean_name("--")
    ('Auth Service', '')
    """
    name = " ".join(storable(name).split())[:_LONGEST_NAME].rstrip()
    is_plain = name.isascii() and name[:1].isalnum()  # as most are
    return name if is_plain or normalise(name) else ""


def names_of(extraction: Extraction) -> dict[str, bool]:
    """Return the names an extraction speaks of, subjects first and marked true."""
    names: dict[str, bool] = {}
    others: dict[str, None] = {}
    for mention in extraction.mentions:
        if mention.subject and (name := clean_name(mention.name)):
            names[name] = True
        others[mention.name] = None
        if mention.aliases:
            others.update(dict.fromkeys(mention.aliases))
    others.update(dict.fromkeys(chain.from_iterable(map(_ENTITIES, extraction.facts))))
    for other in others:
        if other not in names and (name := clean_name(other)):
            names.setdefault(name, False)
    return names
