"""Parts of rows, accesses of facts, and checks before a write."""

import threading
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, get_args

from graphrag_core.errors import ChangedMeanwhile, DamagedIndex, IdTaken
from graphrag_core.model import FactSource, FactStatus
from graphrag_core.text import chunk_text
from graphrag_core.text.markup import plain

Row = tuple[Any, ...]
ADDRESS = "→"
"""Starts the names of places that links lead to."""

LETTERS = {word: word[0] for word in (*get_args(FactSource), *get_args(FactStatus))}
"""How the sources and statuses of facts are stored."""

Texts = tuple[str, ...]
"""The texts of the fields, body first; missing fields are empty."""

FIELDS = {"body": 1.0, "title": 0.4, "headings": 0.2, "terms": 0.5}
"""The fields of a text and the weight of a term's BM25 score in each.

The body has title and headings too: a term's score in the other fields comes on top. Measured on documentation and on
passages with titles, where 0.3 to 0.6 for the title is best.
"""


class Unstorable(ValueError):
    """A database cannot store a value."""


def damaged(problem: str) -> DamagedIndex:
    """Return the error that stored rows are damaged."""
    return DamagedIndex(
        f"the records are damaged ({problem}): restore a backup, or index the documents again into another folder"
    )


class Name(NamedTuple):
    """A name as documents write it, its normalised form, and the hash of that."""

    surface: str
    norm: str
    name_id: int


def without_markup(text: str, start: int, stop: int) -> str:
    """Return a slice of a text as one line of prose."""
    return " ".join(plain(text[start:stop]).split())


def keyword_fields(title: str, headings: Sequence[str], subjects: Iterable[str], text: str) -> Texts:
    """Return the fields by which keyword search finds a chunk: body, title, headings and what the chunk defines.

    ``text`` is the text of the chunk without markup. A chunk defines its subjects besides title and headings, without
    the addresses of sections.
    """
    path = " - ".join(filter(None, (title, *headings)))
    terms = [name for name in subjects if name not in path and not name.startswith(ADDRESS)]
    return chunk_text(path, text), title, " - ".join(headings), "\n".join(terms)


# -- writing


def check_expected(stored: Mapping[str, str], expected: Mapping[str, str]) -> None:
    """Raise if a setting has not the value that a writer expects."""
    for name, value in expected.items():
        if stored.get(name, "") != value:
            raise ChangedMeanwhile(
                f"another process has changed the setting {name!r} meanwhile: read it again and retry"
            )


def check_unique(ids: Sequence[str], stored: Iterable[str], *, of_chunks: bool = False) -> None:
    """Raise if an id of a document or a chunk comes twice in a batch, or is stored already."""
    seen = set(stored)
    for one in ids:
        if one in seen:
            if of_chunks:
                raise IdTaken(one, "another document has a chunk of this id: change one of the two ids")
            raise IdTaken(one, "is already stored: remove it in the same write")
        seen.add(one)


class Accesses:
    """Access counts of facts, kept in memory until the next write, so that no query writes to disk.

    A process that crashes loses the counts it has not written; a read-only engine never writes them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.pending: dict[int, tuple[int, float]] = {}  # count and last access by fact

    def note(self, facts: Iterable[int], now: float) -> None:
        """Count an access of each fact, given by key."""
        with self._lock:
            for fact in facts:
                count, last = self.pending.get(fact, (0, now))
                self.pending[fact] = (count + 1, max(last, now))

    def forget(self, stored: Mapping[int, tuple[int, float]]) -> None:
        """Remove accesses that were stored, but not those that were noted since."""
        with self._lock:
            for fact, (count, _) in stored.items():
                more, last = self.pending.get(fact, (0, 0.0))
                if more <= count:
                    self.pending.pop(fact, None)
                else:
                    self.pending[fact] = (more - count, last)


def statement_number(text: str, relation: str | None, names: bytes) -> int:
    """Return a number that is the same for facts that say the same. ``names`` are the keys of their names."""
    words = zlib.crc32(" ".join(text.lower().split()).encode("utf-8", "surrogatepass"))
    return (
        words if relation is None else zlib.crc32(names, zlib.crc32(relation.encode("utf-8", "surrogatepass"), words))
    )
