"""The document that a question names: by its file, by its id, or by a name that hardly any other document mentions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from graphrag_core.ports import Keys
from graphrag_core.query.query import Query
from graphrag_core.text.names import file_address

_FILE = re.compile(r"[\w-][\w.-]*\.[A-Za-z]{1,8}\b")
_ID = re.compile(r"(?<![\w./:-])(?=[\w./:-]*\d)(?=\d*[^\W\d]|\d+[./:-]\d)\w[\w./:-]*\w")  # with more than digits
_FEWEST = 3  # passages that mention the name
_MOST = 1_000  # beyond, a name is the topic of the collection
_SHARE = 0.8  # of these passages are of one document
_MOST_WORDS = 20


class NamedDocument(NamedTuple):
    """The name, and the number of the document.

    See :meth:`Snapshot.documents_of <graphrag_core.ports.Snapshot.documents_of>`.
    """

    name: str
    number: int

    def among(self, query: Query, chunks: Keys) -> Keys:
        """Return the chunks that are of the document."""
        inside: Keys = chunks[query.snapshot.documents_of(chunks) == self.number]
        return inside


def named_document(query: Query) -> NamedDocument | None:
    """Return the document that a question names; None if it names none, or one that cannot be told from others."""
    return next(_by_file_or_id(query), None) or next(_by_entity(query), None)


def _by_file_or_id(query: Query) -> Iterator[NamedDocument]:
    """Yield the document whose file or id the question has as a word."""
    snapshot = query.snapshot
    files = {file_address(name): name for name in _FILE.findall(query.text)[:_MOST_WORDS]}
    for address, entity in snapshot.find_entities(files).items() if files else ():
        chunks = snapshot.walk(np.array([entity])).targets
        if len(numbers := np.unique(snapshot.documents_of(chunks))) == 1:
            yield NamedDocument(files[address], int(numbers[0]))
    ids = {chunk: word for word in _ID.findall(query.text)[:_MOST_WORDS] for chunk in (word, f"{word}#0")}
    for chunk_id, chunk in snapshot.find_chunks(list(ids)).items() if ids else ():
        yield NamedDocument(ids[chunk_id], int(snapshot.documents_of(np.array([chunk]))[0]))


def _by_entity(query: Query) -> Iterator[NamedDocument]:
    """Yield the documents of the entities that the question writes as names and that one document mentions."""
    snapshot = query.snapshot
    counts = snapshot.entity_counts(query.entities)
    for entity in query.entities[(counts >= _FEWEST) & (counts <= _MOST)]:
        chunks: Keys = snapshot.walk(np.array([entity])).targets
        if len(chunks) > _MOST:  # in a scope not more than some are counted
            continue
        numbers, of_each = np.unique(snapshot.documents_of(chunks), return_counts=True)
        if of_each.max() < _SHARE * len(chunks):
            continue
        (known,) = snapshot.entities(np.array([entity]))
        if any(_is_written_as_name(query.text, name) for name in (known.name, *known.aliases)):
            yield NamedDocument(known.name, int(numbers[of_each.argmax()]))


def _is_written_as_name(question: str, name: str) -> bool:
    """Return whether a question writes a name with a capital letter, with a digit in a word, or in quotation marks.

    >>> _is_written_as_name("What does Fiverr store?", "Fiverr"), _is_written_as_name("Which form?", "Form")
    (True, False)
    """
    if not re.search(r"[^\W\d_]", name):
        return False
    for found in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", question, re.IGNORECASE):
        written, before = found.group(), question[: found.start()].rstrip(" ")
        words = re.sub(r"\b\d+\b", "", written[0 if before else 1 :])  # a number or a year is not a name
        if any(letter.isupper() or letter.isdigit() for letter in words) or before.endswith(('"', "“", "`", "«")):
            return True
    return False
