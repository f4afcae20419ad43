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
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from graphrag_core.engine import analysis
from graphrag_core.engine.arrays import Array, Arrays, Flags, Numbers, Part
from graphrag_core.engine.codes import decode, encode
from graphrag_core.engine.counters import AGAIN, IN_TITLE, SUBJECT
from graphrag_core.engine.postings import quantised, term_key
from graphrag_core.engine.rows import (
    ADDRESS,
    FIELDS,
    LETTERS,
    Name,
    Row,
    checksum,
    keyword_fields,
    packed,
    without_markup,
)
from graphrag_core.filters import attributes
from graphrag_core.key_sets import ranges
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
_TYPES: dict[str, npt.DTypeLike] = {
    "mention_count": np.int32, "mention_flags": np.uint8, "fact_count": np.int32, "fact_weight": np.float32,
    "fact_triple": np.bool_, "fact_statement": np.uint32, "fact_entity_count": np.int32, "term_count": np.int32,
    "term": np.uint32, "term_sentences": np.uint32, "token_count": np.int32, "part_count": np.int32,
    "id_count": np.int32,
}  # fmt: skip

Segment = Arrays
Accessed = Mapping[tuple[str, str, str, str], list[tuple[float | None, int]]]
"""Last access and access count of facts, by what they state: document, text, relation and value."""


class Assigned(NamedTuple):
    """Keys of the database: of each document and its first passage, and of each name of the batch."""

    documents: Numbers
    first: Numbers
    names: Numbers
    is_new: Flags


class _Passage(NamedTuple):
    """A passage of the batch: the places of its names, subjects first, and its facts.

    A fact has the places of the names that its document writes, its text, and whether that is without markup. The text
    is None if it is a slice of the passage, with newlines as spaces or without markup.
    """

    chunk: Chunk
    extraction: Extraction
    places: dict[str, int]
    subjects: int
    facts: list[tuple[list[int], str | None, bool]]
    lengths: list[int]
    tokens: bytes | None
    token_counts: bytes | None


class Batch:
    """Documents that are about to be written.

    Attributes
    ----------
    names
        The place of each surface with the id of the entity that it means.
    forms
        The names, in the same order.
    uses
        How many passages write each name, by place.
    vectors
        The vectors of the passages as they will be read back; None without.
    """

    def __init__(self, parsed: Sequence[ParsedDocument]) -> None:
        self.parsed = parsed
        self.names: dict[tuple[str, int], int] = {}
        self.forms: list[Name] = []
        self.uses = Counter[int]()
        self.passages: list[_Passage] = []
        self._columns: defaultdict[str, list[Any]] = defaultdict(list)
        for one in parsed:
            self._add_document(one)
        matrices = [one.chunk_vectors for one in parsed if one.chunk_vectors is not None]
        has_vectors = 0 < len(matrices) == len(parsed)
        self._codes = encode("chunks", np.concatenate(matrices)) if has_vectors else None
        self.vectors = None if self._codes is None else decode("chunks", self._codes)

    # -- preparation

    def _add_document(self, parsed: ParsedDocument) -> None:
        """Add the names, mentions, facts and terms of the passages of a document."""
        columns = self._columns
        written = {name for names in parsed.names for name in names}
        meant = _aliases(parsed.extractions, written)
        title = parsed.chunks[0].title
        in_title = {hash64(normalise(name)) for name in title_names(title)}
        nothing = [None] * len(parsed.chunks)
        tokens, counts = parsed.chunk_tokens or nothing, parsed.token_counts or nothing
        parts = zip(parsed.chunks, parsed.extractions, parsed.names, tokens, counts, strict=True)
        for chunk, extraction, names, own_tokens, own_counts in parts:
            places, seen = {name: self._place(name, meant) for name in names}, set[int]()
            for name, place in places.items():
                entity = columns["entity"][place]
                flags = AGAIN if entity in seen else names[name] * SUBJECT | (entity in in_title) * IN_TITLE
                seen.add(entity)
                columns["mention_flags"].append(flags)
            columns["mention"] += places.values()
            columns["mention_count"].append(len(places))
            columns["fact_count"].append(len(extraction.facts))
            columns["token_count"].append(len(own_tokens or b"") // 2)
            columns["part_count"].append(len(own_counts or b"") // 2)
            columns["id_count"].append(len(chunk.id.encode()))
            self.uses.update(places.values())
            facts = [self._add_fact(fact, chunk, written, meant) for fact in extraction.facts]
            lengths, subjects = self._add_terms(title, chunk, names, extraction.facts), sum(names.values())
            own = _Passage(chunk, extraction, places, subjects, facts, lengths, own_tokens, own_counts)
            self.passages.append(own)

    def _place(self, surface: str, meant: Mapping[str, int]) -> int:
        """Return the place of a name in the batch."""
        form = name_of(surface)
        entity = meant.get(surface, form.name_id)
        place = self.names.setdefault((surface, entity), len(self.names))
        if place == len(self.forms):
            self.forms.append(form)
            self._columns["entity"].append(entity)
        return place

    def _add_fact(
        self, fact: Fact, chunk: Chunk, written: set[str], meant: Mapping[str, int]
    ) -> tuple[list[int], str | None, bool]:
        """Add a fact; return what ``_Passage`` has of it."""
        columns = self._columns
        # A triple may have the same entity at both ends.
        names = [name for name in (fact.entities if fact.relation else dict.fromkeys(fact.entities)) if name in written]
        places = [self._place(name, meant) for name in names]
        by_entity = {columns["entity"][place]: place for place in reversed(places)}
        columns["fact_entity_count"].append(len(by_entity))
        columns["fact_entity"] += [by_entity[entity] for entity in sorted(by_entity)]
        columns["fact_weight"].append(fact.weight)
        columns["fact_triple"].append(bool(fact.relation))
        statement = zlib.crc32(" ".join(fact.text.lower().split()).encode())  # equal for facts that say the same
        if fact.relation:
            statement = zlib.crc32("\n".join(names).encode(), zlib.crc32(fact.relation.encode(), statement))
        columns["fact_statement"].append(statement)
        is_slice = fact.span is not None and chunk.text[slice(*fact.span)].replace("\n", " ") == fact.text
        is_plain = fact.span is not None and not is_slice and without_markup(chunk.text, *fact.span) == fact.text
        return places, None if is_slice or is_plain else fact.text, is_plain

    def _add_terms(self, title: str, chunk: Chunk, names: Mapping[str, bool], facts: Sequence[Fact]) -> list[int]:
        """Add what keyword search and the terms by sentence need; return the tokens of each field."""
        columns, lengths = self._columns, list[int]()
        subjects = [name for name, is_subject in names.items() if is_subject]
        fields = keyword_fields(title, chunk.headings, subjects, plain(chunk.text))
        for field, text in enumerate(fields):
            tokens = analysis.tokens(text) if text else []
            lengths.append(len(tokens))
            counts = Counter(tokens)
            columns["posting"] += [term_key(term) | field for term in counts]
            columns["posting_number"] += counts.values()
            columns["posting_passage"] += [len(self.passages)] * len(counts)
        masks = dict.fromkeys(analysis.hashes(fields[0]), PASSAGE)
        sentences = [(1 << min(at + 1, LAST_FACT), fact.text) for at, fact in enumerate(facts)]
        for bit, text in [(LABEL, label(title, chunk.headings)), *sentences]:
            for term in analysis.hashes(text):
                masks[term] = masks.get(term, 0) | bit
        columns["term_count"].append(len(masks))
        columns["term"] += masks.keys()
        columns["term_sentences"] += masks.values()
        return lengths

    # -- what is stored

    def rows(self, keys: Assigned, accesses: Accessed, name_vectors: Mapping[str, Matrix]) -> dict[str, list[Row]]:
        """Return the rows to insert, by table. Facts that were stated before keep their accesses."""
        tables: dict[str, list[Row]] = defaultdict(list)
        now, number = time.time(), 0
        for key, first, parsed in zip(keys.documents.tolist(), keys.first.tolist(), self.parsed, strict=True):
            document, heading, count = parsed.document, parsed.chunks[0].title, len(parsed.chunks)
            row = (
                key, document.id, document.title, None if heading == document.title else heading, parsed.metadata,
                parsed.digest, now, first, count,
            )  # fmt: skip
            others = list[Row]()
            for at in range(count):
                others += self._passage_rows(number + at, first + at, key, keys.names, tables, accesses)
            tables["documents"].append((*row, *(document.file or (None, None)), checksum((row, others))))
            values = dict.fromkeys(attributes(document.metadata)) if document.metadata else ()
            tables["attributes"] += [(name, *value, key) for name, value in values]
            number += count
        every = zip(keys.names.tolist(), self.forms, self.names, keys.is_new.tolist(), strict=True)
        new = [(key, form, entity) for key, form, (_, entity), is_new in every if is_new]
        tables["names"] = [
            (key, form.surface, form.name_id, entity, self.uses[self.names[form.surface, entity]])
            for key, form, entity in new
        ]
        if embedded := {key: form.surface for key, form, _ in new if form.surface in name_vectors}:
            codes = encode("names", np.array([name_vectors[name] for name in embedded.values()], np.float32))
            tables["name_vectors"] = [(key, code.tobytes()) for key, code in zip(embedded, codes, strict=True)]
        return tables

    def _passage_rows(
        self, number: int, key: int, document: int, keys: Numbers, tables: dict[str, list[Row]], accesses: Accessed
    ) -> list[Row]:
        """Add the rows of a passage; return those of its facts and claims."""
        one = self.passages[number]
        chunk, mentions = one.chunk, one.extraction.mentions
        headings = json.dumps(chunk.headings, ensure_ascii=False, separators=(",", ":"))
        aliases = [[alias, m.name] for m in mentions for alias in m.aliases if alias in one.places]
        row = (
            key, chunk.id, document, chunk.ordinal, chunk.start, packed(chunk.text.encode()), headings, chunk.page,
            one.subjects, keys[[*one.places.values()]].astype("<i4").tobytes(),
            json.dumps(aliases, ensure_ascii=False), LENGTHS.pack(*one.lengths),
            None if self._codes is None else self._codes[number].tobytes(),
            one.tokens and packed(one.tokens), one.token_counts,
        )  # fmt: skip
        tables["passages"].append((*row, checksum(row)))
        others: list[Row] = []
        for at, (fact, (places, text, is_plain)) in enumerate(zip(one.extraction.facts, one.facts, strict=True)):
            others.append((
                key << FACT_BITS | at, *(fact.span or (None, None)), text, int(is_plain),
                keys[places].astype("<i4").tobytes(), fact.relation or None, fact.weight, fact.confidence,
                LETTERS.get(fact.source, fact.source), LETTERS.get(fact.status, fact.status), fact.value or None,
                fact.created, fact.valid_from, fact.valid_to,
            ))  # fmt: skip
            before = accesses.get((chunk.document_id, fact.text, fact.relation, fact.value))
            accessed = before.pop(0) if before else (fact.last_accessed, fact.access_count)
            tables["facts"].append((*others[-1], *accessed))
        claims = [
            (key, int(keys[one.places[mention.name]]), mention.type, mention.description)
            for mention in mentions
            if (mention.type or mention.description) and mention.name in one.places
        ]
        tables["claims"] += claims
        return [*others, *claims]

    def segment(self, keys: Assigned) -> Segment:
        """Return the arrays of the batch."""
        new = np.flatnonzero(keys.is_new).tolist()
        columns, entities = self._columns, self._columns["entity"]
        lengths = np.array([one.lengths for one in self.passages], np.int64).reshape(-1, len(FIELDS))
        counts = np.array([len(one.chunks) for one in self.parsed], np.int64)
        return {
            **{name: np.array(columns[name], dtype) for name, dtype in _TYPES.items()},
            **names_arrays([(int(keys.names[at]), self.forms[at], entities[at]) for at in new]),
            "passage": ranges(keys.first, counts),
            "passage_document": keys.documents.astype(np.int32).repeat(counts),
            "id": np.frombuffer(b"".join(one.chunk.id.encode() for one in self.passages), "u1"),
            "mention": keys.names[np.array(columns["mention"], np.int64)].astype(np.int32),
            "fact_entity": keys.names[np.array(columns["fact_entity"], np.int64)].astype(np.int32),
            "token": np.frombuffer(b"".join(one.tokens or b"" for one in self.passages), "<u2"),
            "part": np.frombuffer(b"".join(one.token_counts or b"" for one in self.passages), "<u2"),
            "lengths": lengths.sum(axis=0),
            "passage_length": quantised(lengths),
            **_posting_arrays(
                np.array(columns["posting"], np.int64), np.array(columns["posting_passage"], np.int32),
                np.minimum(np.array(columns["posting_number"], np.int64), _MOST_COUNTED).astype(np.uint8),
            ),
        }  # fmt: skip


def names_arrays(names: Sequence[tuple[int, Name, int]]) -> dict[str, Array]:
    """Return the arrays of names, given their keys and entities."""
    places, terms = analysis.terms_of_names([form.norm for _, form, _ in names])
    return {
        "name": np.array([key for key, _, _ in names], np.int32),
        "name_entity": np.array([entity for _, _, entity in names], np.int64),
        "name_spelling": np.array([form.name_id for _, form, _ in names], np.int64),
        "name_address": np.array([form.surface.startswith(ADDRESS) for _, form, _ in names], np.bool_),
        "name_term_count": np.bincount(places, minlength=len(names)).astype(np.int32),
        "name_term": terms,
    }


def _posting_arrays(keys: Array, passages: Array, counts: Array) -> dict[str, Array]:
    part = Part.of(keys, passages, counts)
    return {
        "posting": part.row_keys(), "posting_start": part.starts, "posting_passage": part.values[0],
        "posting_number": part.values[1],
    }  # fmt: skip


def together(segments: Sequence[Segment]) -> Segment:
    """Return one segment of several, in their order."""
    if len(segments) == 1:
        return segments[0]
    first = np.cumsum([0, *(len(one["passage"]) for one in segments)]).astype(np.int32)
    return {
        **{
            name: np.concatenate([one[name] for one in segments])
            for name in segments[0]
            if not name.startswith("posting") and name != "lengths"
        },
        "lengths": np.sum([one["lengths"] for one in segments], axis=0),
        **_posting_arrays(
            np.concatenate([one["posting"].repeat(np.diff(one["posting_start"])) for one in segments]),
            np.concatenate([one["posting_passage"] + at for one, at in zip(segments, first, strict=False)]),
            np.concatenate([one["posting_number"] for one in segments]),
        ),
    }


def _aliases(extractions: Sequence[Extraction], known: set[str]) -> dict[str, int]:
    """Return by the short names of a document the ids of the entities that they mean in it.

    A short name with several long ones means none of them. A name that is itself short for another one is not a long
    name.
    """
    longs: defaultdict[str, set[int]] = defaultdict(set)
    for mention in (mention for extraction in extractions for mention in extraction.mentions):
        for alias in mention.aliases if mention.name in known else ():
            if alias in known and name_of(alias).name_id != (long := name_of(mention.name).name_id):
                longs[alias].add(long)
    single = {short: found.pop() for short, found in longs.items() if len(found) == 1}
    moved = {name_of(short).name_id for short in single}
    return {short: entity for short, entity in single.items() if entity not in moved}


@lru_cache(maxsize=65_536)
def name_of(surface: str) -> Name:
    """Return a name as a document writes it, with its normalised form and the hash of that."""
    norm = normalise(surface)
    return Name(surface, norm, hash64(norm))
