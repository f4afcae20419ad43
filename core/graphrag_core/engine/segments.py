"""What a batch of documents adds to an index: its rows, and the arrays of its segment.

:class:`Batch` does everything that needs no database, with names numbered within the batch. When the database has
assigned keys, :meth:`Batch.rows` and :meth:`Batch.segment` return what is stored. A segment is a mapping of arrays; its
passages, facts and names are numbered from 0 on, in the order of their keys.
"""

from __future__ import annotations

import json
import struct
import time
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_core.engine import analysis
from graphrag_core.engine.arrays import Array, Arrays, Numbers, Part
from graphrag_core.engine.codes import decode, encode
from graphrag_core.engine.counters import AGAIN, IN_TITLE, SUBJECT
from graphrag_core.engine.postings import quantised, term_key
from graphrag_core.engine.rows import ADDRESS, FIELDS, LETTERS, Row, keyword_fields, statement_number, without_markup
from graphrag_core.filters import attributes
from graphrag_core.model import Chunk, Extraction, Fact
from graphrag_core.ports import Matrix, ParsedDocument
from graphrag_core.text import hash64, label, normalise, title_names
from graphrag_core.text.markup import plain

FACT_BITS = 20
"""The key of a fact is that of its passage, shifted by these bits, and its number in the passage."""

LABEL, PASSAGE, LAST_FACT = 1 << 0, 1 << 31, 30
"""Bits of a mask of sentences: the title and the nearest heading, and the passage. Facts have bits 1 to 30."""

LENGTHS = struct.Struct(f"<{len(FIELDS)}I")
"""The tokens of the fields of a passage."""

_MOST_COUNTED = 255  # occurrences of a term in a field

Segment = Arrays


class Name(NamedTuple):
    """A name that a document writes, and the id of the entity that it means there."""

    surface: str
    entity: int


class Assigned(NamedTuple):
    """Keys of the database: the first of the documents and passages, and one for each name of the batch."""

    document: int
    passage: int
    names: Numbers
    is_new: npt.NDArray[np.bool_]


class Batch:
    """Documents that are about to be written.

    Attributes
    ----------
    names
        The names of the batch, each with its place and its normalised form.
    uses
        How many passages write each name.
    ids, passage_ids
        The ids of the documents and of the passages.
    """

    def __init__(self, parsed: Sequence[ParsedDocument]) -> None:
        self.parsed = parsed
        self.ids = [one.document.id for one in parsed]
        self.passage_ids = [chunk.id for one in parsed for chunk in one.chunks]
        self.names: dict[Name, int] = {}
        self.norms: list[str] = []
        self._entities: list[int] = []
        self.uses = Counter[int]()
        self._norm_of: dict[str, str] = {}
        self._passages: list[_Passage] = []
        self._columns: defaultdict[str, list[Any]] = defaultdict(list)
        self._postings = _Postings()
        for number, one in enumerate(parsed):
            self._add_document(number, one)

    @cached_property
    def _codes(self) -> Any:
        """The vectors of the passages as they are stored; None without."""
        matrices = [one.chunk_vectors for one in self.parsed]
        if not matrices or any(matrix is None for matrix in matrices):
            return None
        return encode("chunks", np.concatenate(matrices))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._passages)

    def vectors(self) -> Matrix | None:
        """Return the vectors of the passages as they will be read back."""
        return None if self._codes is None else decode("chunks", self._codes)

    # -- preparation

    def _add_document(self, number: int, parsed: ParsedDocument) -> None:
        written = {name for names in parsed.names for name in names}
        meant = _aliases(parsed.extractions, written)
        title = parsed.chunks[0].title
        in_title = {hash64(normalise(name)) for name in title_names(title)}
        nothing = [None] * len(parsed.chunks)
        tokens: Sequence[bytes | None] = parsed.chunk_tokens or nothing
        counts: Sequence[bytes | None] = parsed.token_counts or nothing
        parts = zip(parsed.chunks, parsed.extractions, parsed.names, tokens, counts, strict=True)
        for chunk, extraction, names, own, of_parts in parts:
            places = {name: self._place(name, meant) for name in names}
            facts = [_FactParts.of(fact, chunk, written) for fact in extraction.facts]
            held = [[self._place(name, meant) for name in fact.names] for fact in facts]
            self._passages.append(_Passage(number, chunk, extraction, names, places, facts, held, own, of_parts))
            self._add_mentions(names, places, in_title)
            self._add_facts(facts, held)
            self._add_texts(title, chunk, names, facts)
            self._columns["token_count"].append(len(own or b"") // 2)
            self._columns["part_count"].append(len(of_parts or b"") // 2)

    def _place(self, surface: str, meant: Mapping[str, int]) -> int:
        """Return the place of a name in the batch."""
        norm = self._norm_of.get(surface)
        if norm is None:
            norm = self._norm_of[surface] = normalise(surface)
        name = Name(surface, meant.get(surface) or _name_id(norm))
        place = self.names.setdefault(name, len(self.names))
        if place == len(self.norms):
            self.norms.append(norm)
            self._entities.append(name.entity)
        return place

    def _add_mentions(self, names: Mapping[str, bool], places: Mapping[str, int], in_title: set[int]) -> None:
        columns, entities, seen = self._columns, self._entities, set[int]()
        columns["mention_count"].append(len(places))
        for surface, place in places.items():
            entity = entities[place]
            flags = AGAIN if entity in seen else names[surface] * SUBJECT | (entity in in_title) * IN_TITLE
            seen.add(entity)
            columns["mention"].append(place)
            columns["mention_flags"].append(flags)
        self.uses.update(places.values())

    def _add_facts(self, facts: Sequence[_FactParts], held: Sequence[Sequence[int]]) -> None:
        columns, entities = self._columns, self._entities
        columns["fact_count"].append(len(facts))
        for fact, places in zip(facts, held, strict=True):
            by_entity = {entities[place]: place for place in reversed(places)}
            columns["fact_entity_count"].append(len(by_entity))
            columns["fact_entity"] += [by_entity[entity] for entity in sorted(by_entity)]
            columns["fact_weight"].append(fact.fact.weight)
            columns["fact_triple"].append(bool(fact.fact.relation))
            stated = "\n".join(fact.names).encode("utf-8", "surrogatepass")
            columns["fact_statement"].append(statement_number(fact.fact.text, fact.fact.relation or None, stated))

    def _add_texts(self, title: str, chunk: Chunk, names: Mapping[str, bool], facts: Sequence[_FactParts]) -> None:
        """Add what keyword search and the terms by sentence need."""
        subjects = [name for name, is_subject in names.items() if is_subject]
        fields = keyword_fields(title, chunk.headings, subjects, plain(chunk.text))
        self._postings.add(len(self._passages) - 1, fields)
        masks = dict.fromkeys(analysis.hashes(fields[0]), PASSAGE)
        for bit, text in [(LABEL, label(title, chunk.headings)), *_sentence_bits(facts)]:
            for term in analysis.hashes(text):
                masks[term] = masks.get(term, 0) | bit
        self._columns["term_count"].append(len(masks))
        self._columns["term"] += masks.keys()
        self._columns["term_sentences"] += masks.values()

    # -- what is stored

    def rows(self, keys: Assigned) -> dict[str, list[Row]]:
        """Return the rows to insert, by table."""
        tables: dict[str, list[Row]] = defaultdict(list)
        now, first, number = time.time(), keys.passage, 0
        name_keys = keys.names.tolist()
        for place, parsed in enumerate(self.parsed):
            key = keys.document + place
            stored = [
                self._passage_rows(number + at, first + number + at, key, name_keys, tables)
                for at in range(len(parsed.chunks))
            ]
            values = dict.fromkeys(attributes(parsed.document.metadata)) if parsed.document.metadata else ()
            tables["attributes"] += [(name, *value, key) for name, value in values]
            row = _document_row(key, parsed, now, first + number)
            checksum = document_checksum(row, chain.from_iterable(stored))
            tables["documents"].append((*row, *(parsed.document.file or (None, None)), checksum))
            number += len(parsed.chunks)
        names = zip(self.names, self.norms, name_keys, keys.is_new.tolist(), strict=True)
        tables["names"] = [
            (key, name.surface, _name_id(norm), name.entity, self.uses[place])
            for place, (name, norm, key, is_new) in enumerate(names)
            if is_new
        ]
        return tables

    def _passage_rows(
        self, number: int, key: int, document: int, names: Sequence[int], tables: dict[str, list[Row]]
    ) -> list[Row]:
        """Add the rows of a passage; return those of its facts and claims."""
        one = self._passages[number]
        chunk = one.chunk
        headings = json.dumps(chunk.headings, ensure_ascii=False, separators=(",", ":")) if chunk.headings else None
        aliases = [[alias, m.name] for m in one.extraction.mentions for alias in m.aliases if alias in one.places]
        row = (
            key, chunk.id, document, chunk.ordinal, chunk.start, deflate(chunk.text), headings, chunk.page,
            sum(one.names.values()), pack_names([names[place] for place in one.places.values()]),
            json.dumps(aliases, ensure_ascii=False) if aliases else None, self._postings.packed_lengths(number),
            None if self._codes is None else self._codes[number].tobytes(),
            None if one.tokens is None else packed(one.tokens), one.token_counts,
        )  # fmt: skip
        tables["passages"].append((*row, passage_checksum(row)))
        claims = [
            (key, names[one.places[mention.name]], mention.type, mention.description)
            for mention in one.extraction.mentions
            if (mention.type or mention.description) and mention.name in one.places
        ]
        facts = [
            fact.row(key << FACT_BITS | at, pack_names([names[place] for place in held]))
            for at, (fact, held) in enumerate(zip(one.facts, one.held, strict=True))
        ]
        tables["claims"] += claims
        tables["facts"] += [(*fact, own.fact.last_accessed, own.fact.access_count)
                            for fact, own in zip(facts, one.facts, strict=True)]  # fmt: skip
        return [*facts, *claims]

    def segment(self, keys: Assigned) -> Segment:
        """Return the arrays of the batch."""
        columns, new = self._columns, np.flatnonzero(keys.is_new)
        names, norms = [*self.names], self.norms
        ids = [passage_id.encode("utf-8", "surrogatepass") for passage_id in self.passage_ids]
        places, terms = analysis.terms_of_names([norms[at] for at in new.tolist()])
        documents = np.array([one.document for one in self._passages], np.int32)
        return {
            "name": keys.names[new].astype(np.int32),
            "name_entity": np.array([names[at].entity for at in new], np.int64),
            "name_spelling": np.array([_name_id(norms[at]) for at in new], np.int64),
            "name_address": np.array([names[at].surface.startswith(ADDRESS) for at in new], np.bool_),
            "name_term_count": np.bincount(places, minlength=len(new)).astype(np.int32),
            "name_term": terms,
            "passage": np.arange(keys.passage, keys.passage + len(ids)),
            "passage_document": documents + np.int32(keys.document),
            "id_count": np.array([*map(len, ids)], np.int32),
            "id": np.frombuffer(b"".join(ids), np.uint8),
            "mention_count": np.array(columns["mention_count"], np.int32),
            "mention": keys.names[np.array(columns["mention"], np.int64)].astype(np.int32),
            "mention_flags": np.array(columns["mention_flags"], np.uint8),
            "fact_count": np.array(columns["fact_count"], np.int32),
            "fact_weight": np.array(columns["fact_weight"], np.float32),
            "fact_triple": np.array(columns["fact_triple"], np.bool_),
            "fact_statement": np.array(columns["fact_statement"], np.uint32),
            "fact_entity_count": np.array(columns["fact_entity_count"], np.int32),
            "fact_entity": keys.names[np.array(columns["fact_entity"], np.int64)].astype(np.int32),
            "term_count": np.array(columns["term_count"], np.int32),
            "term": np.array(columns["term"], np.uint32),
            "term_sentences": np.array(columns["term_sentences"], np.uint32),
            "token_count": np.array(columns["token_count"], np.int32),
            "token": np.frombuffer(b"".join(one.tokens or b"" for one in self._passages), "<u2"),
            "part_count": np.array(columns["part_count"], np.int32),
            "part": np.frombuffer(b"".join(one.token_counts or b"" for one in self._passages), "<u2"),
            **self._postings.arrays(),
        }


class _Postings:
    """The terms of the fields of some passages."""

    def __init__(self) -> None:
        self._keys: list[int] = []
        self._passages: list[int] = []
        self._counts: list[int] = []
        self._lengths: list[list[int]] = []

    def add(self, passage: int, fields: Sequence[str]) -> None:
        lengths = []
        for field, text in enumerate(fields):
            tokens = analysis.tokens(text) if text else []
            lengths.append(len(tokens))
            counts = Counter(tokens)
            self._keys += [term_key(term) | field for term in counts]
            self._counts += counts.values()
            self._passages += [passage] * len(counts)
        self._lengths.append(lengths)

    def packed_lengths(self, passage: int) -> bytes:
        """Return the tokens of a passage's fields."""
        return LENGTHS.pack(*self._lengths[passage])

    def arrays(self) -> dict[str, Array]:
        lengths = np.array(self._lengths, np.int64).reshape(-1, len(FIELDS))
        counts = np.minimum(np.array(self._counts, np.int64), _MOST_COUNTED).astype(np.uint8)
        part = Part.of(np.array(self._keys, np.int64), np.array(self._passages, np.int32), counts)
        return {
            "lengths": lengths.sum(axis=0), "passage_length": quantised(lengths), "posting": part.row_keys(),
            "posting_start": part.starts, "posting_passage": part.values[0], "posting_number": part.values[1],
        }  # fmt: skip


class _FactParts(NamedTuple):
    """A fact as it is stored: without a text if that is a slice of the passage, with newlines as spaces or plain."""

    fact: Fact
    start: int | None
    stop: int | None
    text: str | None
    is_plain: bool
    names: list[str]

    @classmethod
    def of(cls, fact: Fact, chunk: Chunk, known: set[str]) -> _FactParts:
        # A triple may have the same entity at both ends.
        names = [name for name in (fact.entities if fact.relation else dict.fromkeys(fact.entities)) if name in known]
        start, stop = fact.span or (None, None)
        is_slice = fact.span is not None and chunk.text[start:stop].replace("\n", " ") == fact.text
        is_plain = fact.span is not None and not is_slice and without_markup(chunk.text, *fact.span) == fact.text
        return cls(fact, start, stop, None if is_slice or is_plain else fact.text, is_plain, names)

    def row(self, key: int, names: bytes) -> Row:
        fact = self.fact
        return (
            key, self.start, self.stop, self.text, int(self.is_plain), names, fact.relation or None, fact.weight,
            fact.confidence, LETTERS.get(fact.source, fact.source), LETTERS.get(fact.status, fact.status),
            fact.value or None, fact.created, fact.valid_from, fact.valid_to,
        )  # fmt: skip


class _Passage(NamedTuple):
    """A passage of a batch. ``places`` are those of its names, ``held`` of the names of each fact."""

    document: int
    chunk: Chunk
    extraction: Extraction
    names: Mapping[str, bool]
    places: Mapping[str, int]
    facts: Sequence[_FactParts]
    held: Sequence[Sequence[int]]
    tokens: bytes | None
    token_counts: bytes | None


def _sentence_bits(facts: Sequence[_FactParts]) -> Iterable[tuple[int, str]]:
    return [(1 << min(at + 1, LAST_FACT), one.fact.text) for at, one in enumerate(facts)]


def _aliases(extractions: Sequence[Extraction], known: set[str]) -> dict[str, int]:
    """Return by the short names of a document the ids of the entities that they mean in it.

    A short name with several long ones means none of them. A name that is itself short for another one is not a long
    name.
    """
    pairs = {
        (alias, mention.name)
        for extraction in extractions
        for mention in extraction.mentions
        for alias in mention.aliases
        if alias in known and mention.name in known
    }
    if not pairs:
        return {}
    ids = {name: _name_id(normalise(name)) for pair in pairs for name in pair}
    longs: defaultdict[str, set[int]] = defaultdict(set)
    for short, long in pairs:
        if ids[short] != ids[long]:
            longs[short].add(ids[long])
    single = {short: found.pop() for short, found in longs.items() if len(found) == 1}
    moved = {ids[short] for short in single}
    return {short: entity for short, entity in single.items() if entity not in moved}


def _document_row(key: int, parsed: ParsedDocument, now: float, first: int) -> Row:
    document, heading = parsed.document, parsed.chunks[0].title
    own = None if heading == document.title else heading
    return key, document.id, document.title, own, parsed.metadata, parsed.digest, now, first, len(parsed.chunks)


@lru_cache(maxsize=65_536)
def _name_id(norm: str) -> int:
    return hash64(norm)


# -- how values are stored


def pack_names(keys: Sequence[int]) -> bytes:
    """Return the keys of names as bytes."""
    return struct.pack(f"<{len(keys)}i", *keys)


def deflate(text: str) -> bytes:
    """Return a text as it is stored."""
    return packed(text.encode("utf-8", "surrogatepass"))


def inflate(stored: bytes) -> str:
    """Return the text that :func:`deflate` stored."""
    return unpacked(stored).decode("utf-8", "surrogatepass")


def packed(data: bytes) -> bytes:
    """Return bytes compressed, if that makes them shorter. The first byte says so."""
    short = zlib.compress(data, 6, -15)
    return b"\x01" + short if len(short) < len(data) else b"\x00" + data


def unpacked(stored: bytes) -> bytes:
    """Return the bytes that :func:`packed` stored."""
    return zlib.decompress(stored[1:], -15) if stored[:1] == b"\x01" else stored[1:]


def passage_checksum(row: Row) -> int:
    """Return the checksum of the row of a passage, without that column."""
    return zlib.crc32(repr(row).encode("utf-8", "surrogatepass"))


def document_checksum(row: Row, others: Iterable[Row]) -> int:
    """Return the checksum of a document: of its row without that column, and of its facts and claims."""
    return zlib.crc32(repr((row, [*others])).encode("utf-8", "surrogatepass"))


# -- several segments


def together(segments: Sequence[Segment]) -> Segment:
    """Return one segment of several, in their order."""
    if len(segments) == 1:
        return segments[0]
    found: dict[str, Array] = {
        name: np.concatenate([one[name] for one in segments])
        for name in segments[0]
        if not name.startswith("posting") and name != "lengths"
    }
    found["lengths"] = np.sum([one["lengths"] for one in segments], axis=0)
    counts = [len(one["passage"]) for one in segments]
    first = np.cumsum([0, *counts])[:-1].astype(np.int32)
    part = Part.of(
        np.concatenate([one["posting"].repeat(np.diff(one["posting_start"])) for one in segments]),
        np.concatenate([one["posting_passage"] + at for one, at in zip(segments, first, strict=True)]),
        np.concatenate([one["posting_number"] for one in segments]),
    )
    found |= {
        "posting": part.row_keys(), "posting_start": part.starts, "posting_passage": part.values[0],
        "posting_number": part.values[1],
    }  # fmt: skip
    return found
