"""The document that a question names: by its file, or by a name that hardly any other document mentions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from graphrag_core.ports import Keys
from graphrag_core.query.query import Query
from graphrag_core.text.names import file_address

_FILE = re.compile(r"[\w-][\w.-]*\.[A-Za-z]{1,8}\b")
_FEWEST, _MOST = 3, 1_000  # passages that mention the name; beyond, it is the topic of the collection
_SHARE = 0.8  # of these passages are of one document
_MOST_WORDS = 20


class NamedDocument(NamedTuple):
    """The name, and the number of the document (:meth:`Snapshot.documents_of`)."""

    name: str
    number: int


def named_document(query: Query) -> NamedDocument | None:
    """Return the document that a question names; None if it names none, or one that cannot be told from others."""
    return next(_by_file(query), None) or next(_by_entity(query), None)


def _by_file(query: Query) -> Iterator[NamedDocument]:
    snapshot = query.snapshot
    files = {file_address(name): name for name in _FILE.findall(query.text)[:_MOST_WORDS]}
    for address, entity in snapshot.find_entities(files).items() if files else ():
        chunks = snapshot.walk(np.array([entity])).targets
        if len(numbers := np.unique(snapshot.documents_of(chunks))) == 1:
            yield NamedDocument(files[address], int(numbers[0]))


def _by_entity(query: Query) -> Iterator[NamedDocument]:
    snapshot = query.snapshot
    counts = snapshot.entity_counts(query.entities)
    for entity in query.entities[(counts >= _FEWEST) & (counts <= _MOST)]:
        chunks: Keys = snapshot.walk(np.array([entity])).targets
        numbers, of_each = np.unique(snapshot.documents_of(chunks[: _MOST + 1]), return_counts=True)
        if len(chunks) > _MOST or of_each.max() < _SHARE * len(chunks):  # in a scope not more than some are counted
            continue
        (known,) = snapshot.entities(np.array([entity]))
        if any(_is_written_as_name(query.text, name) for name in (known.name, *known.aliases)):
            yield NamedDocument(known.name, int(numbers[of_each.argmax()]))


def _is_written_as_name(question: str, name: str) -> bool:
    """Return whether a question writes a name with a capital letter, with a digit in a word, or in quotation marks.

    >>> [_is_written_as_name("What does Fiverr store in 2018?", name) for name in ("Fiverr", "store", "2018")]
    [True, False, False]
    """
    for found in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", question, re.IGNORECASE):
        written, before = found.group(), question[: found.start()].rstrip(" ")
        words = re.sub(r"\b\d+\b", "", written[0 if before else 1 :])  # a number or a year is not a name
        is_name = any(letter.isupper() or letter.isdigit() for letter in words) or before.endswith(('"', "“", "`", "«"))
        if is_name and any(map(str.isalpha, name)):
            return True
    return False
