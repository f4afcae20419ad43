"""The rows of a batch of documents, gathered table by table."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from graphrag_core.model import Chunk, Extraction, Fact
from graphrag_core.ports import Keys, Matrix
from graphrag_core.stores.change import Change, Span, no_keys, pack
from graphrag_core.stores.entry import Entry, clean_name, storable
from graphrag_core.stores.statements import Row
from graphrag_core.text import chunk_text, fact_text, hash64, normalise
from graphrag_core.where import attributes

_BLANK = -1


@dataclass(frozen=True)
class Written:
    """What a generation added, kept at hand so that it need not be read back.

    ``rows`` are those that a graph is made of, by table and in its columns; ``texts`` and
    ``vectors`` those to search by, of chunks, facts and names.
    """

    change: Change
    rows: Mapping[str, Sequence[Row]]
    texts: Mapping[str, Sequence[tuple[int, str]]]
    vectors: Mapping[str, tuple[Keys, Matrix]]


class _NameKeys(dict[str, int]):
    """From names to their keys: as they are stored, and as extractors wrote them."""

    def __missing__(self, name: str) -> int:
        key = self[name] = self.get(clean_name(name), _BLANK)
        return key


class Batch:
    """Gathers rows, with keys counted on from where the records stand."""

    def __init__(
        self,
        entries: Sequence[Entry],
        first: Mapping[str, int],
        generation: int,
        name_vectors: Mapping[str, Matrix],
    ) -> None:
        self._entries = entries
        self._first = first
        self._next = dict(first)
        self._generation = generation
        self._name_vectors = name_vectors
        self._now = time.time()
        self._keys = _NameKeys()
        self.uses = Counter(chain.from_iterable(names for entry in entries for names in entry.names))
        self.rows: defaultdict[str, list[Row]] = defaultdict(list)
        self.texts: dict[str, list[tuple[int, str]]] = {"chunks": [], "facts": []}

    @property
    def next(self) -> Mapping[str, int]:
        """The first key of each kind that is still free."""
        return self._next

    def span(self, what: str) -> Span:
        """Return the keys given out of a kind."""
        return self._first[what], self._next[what]

    def gather(self, known: Mapping[str, int]) -> None:
        """Make the rows, given the keys of the names that the records have."""
        self._keys = _NameKeys(known)
        for name, count in self.uses.items():
            if name not in known:
                key = self._keys[name] = self._key("name")
                norm = normalise(name)
                self._row("names", (key, name, norm, hash64(norm), count))
                if name in self._name_vectors:
                    self._row("name_vectors", (key, _blob(self._name_vectors[name])))
        for entry in self._entries:
            self._document(entry)

    @property
    def graph_rows(self) -> dict[str, list[Row]]:
        """The rows of the tables that a graph is made of."""
        return {table: self.rows[table] for table in ("names", "chunks", "facts", "aliases") if table in self.rows}

    @property
    def vectors(self) -> dict[str, tuple[Keys, Matrix]]:
        """The vectors of what was gathered, by kind."""
        chunks = [entry.chunk_vectors for entry in self._entries if entry.chunk_vectors is not None]
        facts = [entry.fact_vectors for entry in self._entries if entry.fact_vectors is not None]
        names = [(row[0], self._name_vectors[row[1]]) for row in self.rows.get("names", ())
                 if row[1] in self._name_vectors]  # fmt: skip
        found = {
            "chunks": (_range(self.span("chunk")), np.concatenate(chunks)) if chunks else None,
            "facts": (_range(self.span("fact")), np.concatenate(facts)) if facts else None,
            "names": (np.array([key for key, _ in names]), np.array([v for _, v in names])) if names else None,
        }
        return {kind: vectors or (no_keys(), np.empty((0, 0), np.float32)) for kind, vectors in found.items()}

    def _document(self, entry: Entry) -> None:
        document = entry.document
        key = self._key("document")
        heading = entry.chunks[0].title
        about = (document.title, heading, entry.metadata, entry.digest)
        self._row("documents", (key, document.id, *about, self._generation, self._now))
        for name, kind, value in dict.fromkeys(attributes(document.metadata)):
            self._row("attributes", (name, kind, value, key))
        at = 0
        for i, (chunk, extraction, names) in enumerate(zip(entry.chunks, entry.extractions, entry.names, strict=True)):
            number = self._chunk(key, heading, chunk, extraction, names)
            if entry.chunk_vectors is not None:
                self._row("chunk_vectors", (number, _blob(entry.chunk_vectors[i])))
            if entry.fact_vectors is not None and extraction.facts:
                self._row("fact_vectors", (number, _blob(entry.fact_vectors[at : at + len(extraction.facts)])))
                at += len(extraction.facts)

    def _chunk(
        self, document: int, heading: str, chunk: Chunk, extraction: Extraction, names: Mapping[str, bool]
    ) -> int:
        key = self._key("chunk")
        packed = pack([self._keys[name] for name in names])
        subjects = sum(names.values())
        self._row("chunks", (key, chunk.id, document, chunk.ordinal, chunk.start, chunk.text, subjects, packed))
        self.texts["chunks"].append((key, chunk_text(heading, chunk.text)))
        for mention in extraction.mentions:
            if mention.type or mention.description or mention.aliases:
                name = self._keys[mention.name]
                if name != _BLANK and (mention.type or mention.description):
                    self._row("claims", (key, name, storable(mention.type), storable(mention.description)))
                for short in map(self._keys.__getitem__, mention.aliases):
                    if _BLANK not in (name, short):
                        self._row("aliases", (key, short, name))
        self._facts(key, heading, chunk.text, extraction.facts)
        return key

    def _facts(self, chunk: int, heading: str, chunk_text: str, facts: Sequence[Fact]) -> None:
        rows, texts = self.rows["facts"], self.texts["facts"]
        for ordinal, fact in enumerate(facts):
            key = self._key("fact")
            names = [*map(self._keys.__getitem__, fact.entities)]
            if _BLANK in names:
                names = [name for name in names if name != _BLANK]
            if not fact.relation:  # of a triple, both ends are kept even if they are one
                names = [*dict.fromkeys(names)]
            start, stop = fact.span or (None, None)
            # A sentence is not stored twice: the schema says how it is read from its chunk.
            is_piece = start is not None and chunk_text[start:stop].replace("\n", " ") == fact.text
            text = fact.text if is_piece else storable(fact.text)
            relation = value = ""
            ends: tuple[str, ...] = ()
            if fact.relation or fact.value:
                relation, value = storable(fact.relation), storable(fact.value)
                ends = (*filter(None, map(clean_name, fact.entities)), value) if relation else ()
            rows.append((
                key, chunk, ordinal, start, stop, None if is_piece else text, pack(names), relation or None,
                fact.weight, fact.confidence, fact.source, fact.status, value or None, fact.created,
                fact.last_accessed, fact.access_count,
            ))  # fmt: skip
            texts.append((key, fact_text(heading, text, relation, ends)))

    def _key(self, what: str) -> int:
        key = self._next[what]
        self._next[what] = key + 1
        return key

    def _row(self, table: str, values: tuple[Any, ...]) -> None:
        self.rows[table].append(values)


def _range(span: Span) -> Keys:
    return np.arange(*span, dtype=np.int64)


def _blob(vector: Matrix) -> bytes:
    return np.ascontiguousarray(vector, dtype="<f4").tobytes()
