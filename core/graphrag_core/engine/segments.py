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
_TYPES: dict[str, npt.DTypeLike] = {
    "mention_count": np.int32, "mention_flags": np.uint8, "fact_count": np.int32, "fact_weight": np.float32,
    "fact_triple": np.bool_, "fact_statement": np.uint32, "fact_entity_count": np.int32, "term_count": np.int32,
    "term": np.uint32, "term_sentences": np.uint32, "token_count": np.int32, "part_count": np.int32,
    "id_count": np.int32,
}  # fmt: skip

Segment = Arrays
Stated = tuple[str, str, str, str]
"""What a fact states: document, text, relation and value."""
Accessed = Mapping[Stated, list[tuple[float | None, int]]]
"""Last access and access count of facts that state the same."""


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


class _Fact(NamedTuple):
    """A fact as it is stored: without a text if that is a slice of the passage, with newlines as spaces or plain."""

    fact: Fact
    text: str | None
    is_plain: bool
    names: list[int]


class _Passage(NamedTuple):
    """A passage of a document of the batch. ``places`` are those of its names, subjects first."""

    chunk: Chunk
    extraction: Extraction
    places: Mapping[str, int]
    subjects: int
    facts: Sequence[_Fact]
    lengths: Sequence[int]
    tokens: bytes | None
    token_counts: bytes | None


class Batch:
    """Documents that are about to be written.

    ``names`` has the place of each name in the batch, ``norms`` the normalised forms, ``uses`` how many passages write
    each.
    """

    def __init__(self, parsed: Sequence[ParsedDocument]) -> None:
        self.parsed = parsed
        self.ids = [one.document.id for one in parsed]
        self.passage_ids = [chunk.id for one in parsed for chunk in one.chunks]
        self.names: dict[Name, int] = {}
        self.norms: list[str] = []
        self.uses = Counter[int]()
        self._norm_of: dict[str, str] = {}
        self._passages: list[_Passage] = []
        self._columns: defaultdict[str, list[Any]] = defaultdict(list)
        for one in parsed:
            self._add_document(one)

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

    def _add_document(self, parsed: ParsedDocument) -> None:
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
            facts = [self._fact(fact, chunk, written, meant) for fact in extraction.facts]
            self._add_mentions(places, names, in_title)
            lengths = self._add_texts(title, chunk, names, facts)
            self._columns["token_count"].append(len(own or b"") // 2)
            self._columns["part_count"].append(len(of_parts or b"") // 2)
            self._columns["id_count"].append(len(_encoded(chunk.id)))
            self._columns["fact_count"].append(len(facts))
            subjects = sum(names.values())
            self._passages.append(_Passage(chunk, extraction, places, subjects, facts, lengths, own, of_parts))

    def _place(self, surface: str, meant: Mapping[str, int]) -> int:
        """Return the place of a name in the batch."""
        norm = self._norm_of.get(surface)
        if norm is None:
            norm = self._norm_of[surface] = normalise(surface)
        name = Name(surface, meant.get(surface) or _name_id(norm))
        place = self.names.setdefault(name, len(self.names))
        if place == len(self.norms):
            self.norms.append(norm)
            self._columns["entity"].append(name.entity)
        return place

    def _add_mentions(self, places: Mapping[str, int], names: Mapping[str, bool], in_title: set[int]) -> None:
        columns, seen = self._columns, set[int]()
        columns["mention_count"].append(len(places))
        for surface, place in places.items():
            entity = columns["entity"][place]
            flags = AGAIN if entity in seen else names[surface] * SUBJECT | (entity in in_title) * IN_TITLE
            seen.add(entity)
            columns["mention"].append(place)
            columns["mention_flags"].append(flags)
        self.uses.update(places.values())

    def _fact(self, fact: Fact, chunk: Chunk, written: set[str], meant: Mapping[str, int]) -> _Fact:
        """Add a fact; return it as it is stored, with the names that its document writes."""
        columns = self._columns
        # A triple may have the same entity at both ends.
        names = [name for name in (fact.entities if fact.relation else dict.fromkeys(fact.entities)) if name in written]
        places = [self._place(name, meant) for name in names]
        by_entity = {columns["entity"][place]: place for place in reversed(places)}
        columns["fact_entity_count"].append(len(by_entity))
        columns["fact_entity"] += [by_entity[entity] for entity in sorted(by_entity)]
        columns["fact_weight"].append(fact.weight)
        columns["fact_triple"].append(bool(fact.relation))
        columns["fact_statement"].append(statement_number(fact.text, fact.relation or None, _encoded("\n".join(names))))
        is_slice = fact.span is not None and chunk.text[slice(*fact.span)].replace("\n", " ") == fact.text
        is_plain = fact.span is not None and not is_slice and without_markup(chunk.text, *fact.span) == fact.text
        return _Fact(fact, None if is_slice or is_plain else fact.text, is_plain, places)

    def _add_texts(self, title: str, chunk: Chunk, names: Mapping[str, bool], facts: Sequence[_Fact]) -> list[int]:
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
            columns["posting_passage"] += [len(self._passages)] * len(counts)
        masks = dict.fromkeys(analysis.hashes(fields[0]), PASSAGE)
        sentences = [(1 << min(at + 1, LAST_FACT), one.fact.text) for at, one in enumerate(facts)]
        for bit, text in [(LABEL, label(title, chunk.headings)), *sentences]:
            for term in analysis.hashes(text):
                masks[term] = masks.get(term, 0) | bit
        columns["term_count"].append(len(masks))
        columns["term"] += masks.keys()
        columns["term_sentences"] += masks.values()
        return lengths

    # -- what is stored

    def rows(self, keys: Assigned, accesses: Accessed) -> dict[str, list[Row]]:
        """Return the rows to insert, by table. Facts that were stated before keep their accesses."""
        tables: dict[str, list[Row]] = defaultdict(list)
        now, passage, names = time.time(), 0, keys.names.tolist()
        for key, parsed in enumerate(self.parsed, keys.document):
            document, heading, count = parsed.document, parsed.chunks[0].title, len(parsed.chunks)
            row = (
                key, document.id, document.title, None if heading == document.title else heading, parsed.metadata,
                parsed.digest, now, keys.passage + passage, count,
            )  # fmt: skip
            others = [
                self._passage_rows(passage + at, keys.passage, key, names, tables, accesses) for at in range(count)
            ]
            checksum = document_checksum(row, chain.from_iterable(others))
            tables["documents"].append((*row, *(document.file or (None, None)), checksum))
            values = dict.fromkeys(attributes(document.metadata)) if document.metadata else ()
            tables["attributes"] += [(name, *value, key) for name, value in values]
            passage += count
        every = zip(self.names, self.norms, names, keys.is_new.tolist(), strict=True)
        tables["names"] = [
            (key, name.surface, _name_id(norm), name.entity, self.uses[place])
            for place, (name, norm, key, is_new) in enumerate(every)
            if is_new
        ]
        return tables

    def _passage_rows(
        self, number: int, first: int, document: int, names: Sequence[int], tables: dict[str, list[Row]],
        accesses: Accessed,
    ) -> list[Row]:  # fmt: skip
        """Add the rows of a passage; return those of its facts and claims."""
        one, key = self._passages[number], first + number
        chunk, mentions = one.chunk, one.extraction.mentions
        headings = json.dumps(chunk.headings, ensure_ascii=False, separators=(",", ":")) if chunk.headings else None
        aliases = [[alias, m.name] for m in mentions for alias in m.aliases if alias in one.places]
        row = (
            key, chunk.id, document, chunk.ordinal, chunk.start, packed(_encoded(chunk.text)), headings, chunk.page,
            one.subjects, _packed_keys(names, one.places.values()),
            json.dumps(aliases, ensure_ascii=False) if aliases else None, LENGTHS.pack(*one.lengths),
            None if self._codes is None else self._codes[number].tobytes(),
            None if one.tokens is None else packed(one.tokens), one.token_counts,
        )  # fmt: skip
        tables["passages"].append((*row, passage_checksum(row)))
        claims = [
            (key, names[one.places[mention.name]], mention.type, mention.description)
            for mention in mentions
            if (mention.type or mention.description) and mention.name in one.places
        ]
        facts = []
        for at, (fact, text, is_plain, places) in enumerate(one.facts):
            start, stop = fact.span or (None, None)
            facts.append((
                key << FACT_BITS | at, start, stop, text, int(is_plain), _packed_keys(names, places),
                fact.relation or None, fact.weight, fact.confidence, LETTERS.get(fact.source, fact.source),
                LETTERS.get(fact.status, fact.status), fact.value or None, fact.created, fact.valid_from, fact.valid_to,
            ))  # fmt: skip
            stated = chunk.document_id, fact.text, fact.relation, fact.value
            before = accesses.get(stated)
            tables["facts"].append(
                (*facts[-1], *(before.pop(0) if before else (fact.last_accessed, fact.access_count)))
            )
        tables["claims"] += claims
        return [*facts, *claims]

    def segment(self, keys: Assigned) -> Segment:
        """Return the arrays of the batch."""
        columns, new = self._columns, np.flatnonzero(keys.is_new).tolist()
        names = [*self.names]
        lengths = np.array([one.lengths for one in self._passages], np.int64).reshape(-1, len(FIELDS))
        counts = np.array([len(one.chunks) for one in self.parsed], np.int64)
        return {
            **{name: np.array(columns[name], dtype) for name, dtype in _TYPES.items()},
            **names_arrays([(int(keys.names[at]), *names[at]) for at in new], [self.norms[at] for at in new]),
            "passage": np.arange(keys.passage, keys.passage + len(self)),
            "passage_document": np.arange(keys.document, keys.document + len(counts), dtype=np.int32).repeat(counts),
            "id": np.frombuffer(b"".join(map(_encoded, self.passage_ids)), np.uint8),
            "mention": keys.names[np.array(columns["mention"], np.int64)].astype(np.int32),
            "fact_entity": keys.names[np.array(columns["fact_entity"], np.int64)].astype(np.int32),
            "token": np.frombuffer(b"".join(one.tokens or b"" for one in self._passages), "<u2"),
            "part": np.frombuffer(b"".join(one.token_counts or b"" for one in self._passages), "<u2"),
            "lengths": lengths.sum(axis=0),
            "passage_length": quantised(lengths),
            **_posting_arrays(
                np.array(columns["posting"], np.int64), np.array(columns["posting_passage"], np.int32),
                np.minimum(np.array(columns["posting_number"], np.int64), _MOST_COUNTED).astype(np.uint8),
            ),
        }  # fmt: skip


def names_arrays(names: Sequence[tuple[int, str, int]], norms: Sequence[str]) -> dict[str, Array]:
    """Return the arrays of names, given their keys, surfaces and entities."""
    places, terms = analysis.terms_of_names(norms)
    return {
        "name": np.array([key for key, _, _ in names], np.int32),
        "name_entity": np.array([entity for _, _, entity in names], np.int64),
        "name_spelling": np.array([_name_id(norm) for norm in norms], np.int64),
        "name_address": np.array([surface.startswith(ADDRESS) for _, surface, _ in names], np.bool_),
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
    pairs = {
        (alias, mention.name)
        for extraction in extractions
        for mention in extraction.mentions
        for alias in mention.aliases
        if alias in known and mention.name in known
    }
    ids = {name: _name_id(normalise(name)) for pair in pairs for name in pair}
    longs: defaultdict[str, set[int]] = defaultdict(set)
    for short, long in pairs:
        if ids[short] != ids[long]:
            longs[short].add(ids[long])
    single = {short: found.pop() for short, found in longs.items() if len(found) == 1}
    moved = {ids[short] for short in single}
    return {short: entity for short, entity in single.items() if entity not in moved}


# -- how values are stored


@lru_cache(maxsize=65_536)
def _name_id(norm: str) -> int:
    return hash64(norm)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _packed_keys(keys: Sequence[int], places: Iterable[int]) -> bytes:
    own = [keys[place] for place in places]
    return struct.pack(f"<{len(own)}i", *own)


def inflate(stored: bytes) -> str:
    """Return a stored text."""
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
    return zlib.crc32(_encoded(repr(row)))


def document_checksum(row: Row, others: Iterable[Row]) -> int:
    """Return the checksum of a document: of its row without that column, and of its facts and claims."""
    return zlib.crc32(_encoded(repr((row, [*others]))))
