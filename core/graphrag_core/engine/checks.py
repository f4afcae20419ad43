"""Building arrays from rows, and comparing both: what ``verify`` and ``rebuild`` do."""

from __future__ import annotations

import json
import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from graphrag_core.engine.analysis import terms_of_names
from graphrag_core.engine.arrays import Array, Inverse, map_base
from graphrag_core.engine.codes import are_damaged
from graphrag_core.engine.counters import NAME_BITS, PASSAGE_BITS
from graphrag_core.engine.records import Records
from graphrag_core.engine.rows import ADDRESS, damaged
from graphrag_core.engine.segments import (
    FACT_BITS,
    Assigned,
    Batch,
    Segment,
    document_checksum,
    passage_checksum,
    together,
)
from graphrag_core.engine.values import unpack_names
from graphrag_core.engine.view import Removal, View
from graphrag_core.errors import GraphRAGError
from graphrag_core.filters import attributes
from graphrag_core.text import hash64, normalise

_WRONG_VALUES = (ValueError, LookupError, ArithmeticError, TypeError, AttributeError, struct.error, zlib.error)
_NOTHING = Removal(np.empty(0, np.int64), np.zeros(4, np.int64))


def rebuilt(records: Records) -> View:
    """Return the view of the rows, from the rows alone."""
    generation, token = records.generation()
    rows = records.rows("SELECT key, surface, spelling, entity FROM names ORDER BY key")
    view = View.empty().after(generation, token, _names(rows), None, _NOTHING)
    known = {(surface, entity): key for key, surface, _, entity in rows}
    for page in records.every_document():
        segments = list[Segment]()
        vectors = list[Any]()
        for key, first, parsed in page:
            batch = Batch([parsed])
            names = np.array([known[name] for name in batch.names], np.int64)
            segments.append(batch.segment(Assigned(key, first, names, np.zeros(len(names), np.bool_))))
            vectors.append(parsed.chunk_vectors)
        matrix = None if any(own is None for own in vectors) else np.concatenate(vectors)
        view = view.after(generation, token, together(segments), matrix, _NOTHING)
    return view


def _names(rows: list[tuple[int, str, int, int]]) -> Segment:
    """Return a segment of names alone."""
    keys, surfaces, spellings, entities = zip(*rows, strict=True) if rows else ((), (), (), ())
    places, terms = terms_of_names([normalise(surface) for surface in surfaces])
    nothing = Batch([]).segment(Assigned(0, 0, np.empty(0, np.int64), np.empty(0, np.bool_)))
    return {
        **nothing,
        "name": np.array(keys, np.int32), "name_entity": np.array(entities, np.int64),
        "name_spelling": np.array(spellings, np.int64),
        "name_address": np.array([surface.startswith(ADDRESS) for surface in surfaces], np.bool_),
        "name_term_count": np.bincount(places, minlength=len(rows)).astype(np.int32), "name_term": terms,
    }  # fmt: skip


# -- rows


def problems(records: Records) -> Iterator[str]:
    """Yield what is damaged or inconsistent within the rows. Raises nothing."""
    for check in (_structure, _documents, _attributes, _names_used, _segments):
        yield from _reported(check, records)


@contextmanager
def damage_reported(records: Records) -> Iterator[None]:
    """Raise ``DamagedIndex`` for an unexpected error, if the rows that were read are damaged."""
    try:
        yield
    except GraphRAGError:
        raise
    except _WRONG_VALUES as error:  # not what a database raises, which its session names
        if (problem := next(problems(records), None)) is not None:
            raise damaged(problem) from error
        raise


def _reported(check: Callable[[Records], Iterator[str]], records: Records) -> Iterator[str]:
    """Yield the problems that a check finds. What it raises is a problem, too: damaged rows raise anything."""
    try:
        yield from check(records)
    except Exception as error:  # noqa: BLE001
        yield f"records: cannot be read ({type(error).__name__}: {error})"


def _structure(records: Records) -> Iterator[str]:
    yield from (f"records: {row[0]}" for row in records.session.problems())
    meta = records.meta()
    if "generation" in meta and meta.get("checksum") != records.meta_checksum(meta):
        yield "records: the settings differ from their checksum"


def _documents(records: Records) -> Iterator[str]:
    count = 0
    for documents in records.document_pages("*"):
        for *row, _, _, checksum in documents:
            first, number = row[7], row[8]
            span = first, first + number
            passages = records.rows("SELECT * FROM passages WHERE key >= ? AND key < ? ORDER BY key", span)
            count += len(passages)
            facts = records.rows(
                "SELECT * FROM facts WHERE key >= ? AND key < ? ORDER BY key",
                (span[0] << FACT_BITS, span[1] << FACT_BITS),
            )
            claims = records.rows(
                "SELECT passage, name, type, description FROM claims WHERE passage >= ? AND passage < ? ORDER BY rowid",
                span,
            )
            of: defaultdict[int, list[tuple[object, ...]]] = defaultdict(list)
            for fact in facts:
                of[fact[0] >> FACT_BITS].append(fact[:-2])
            for claim in claims:
                of[claim[0]].append(claim)
            others = [own for key in range(*span) for own in of[key]]
            wrong = document_checksum(tuple(row), others) != checksum
            wrong |= any(passage_checksum(passage[:-1]) != passage[-1] for passage in passages)
            if wrong or [passage[0] for passage in passages] != [*range(*span)]:
                yield f"records: document {row[1]!r} is damaged: its rows differ from their checksum"
    if count != records.count("passages"):
        yield "records: passages without a document"


def _attributes(records: Records) -> Iterator[str]:
    stored: defaultdict[int, set[tuple[object, ...]]] = defaultdict(set)
    for name, kind, value, document in records.rows("SELECT name, kind, value, document FROM attributes"):
        stored[document].add((name, kind, value))
    for key, document_id, metadata in records.rows("SELECT key, id, metadata FROM documents"):
        if stored.pop(key, set()) != {(name, *value) for name, value in attributes(json.loads(metadata))}:
            yield f"records: the metadata of document {document_id!r} is damaged"
    if stored:
        yield f"records: attributes of {len(stored)} documents that do not exist"


def _names_used(records: Records) -> Iterator[str]:
    used = Counter[int]()
    for (names,) in records.rows("SELECT names FROM passages"):
        used.update(unpack_names(names))
    stored = records.rows("SELECT key, surface, spelling, uses FROM names")
    counted = {key: uses for key, _, _, uses in stored}
    if wrong := [key for key in used.keys() | counted.keys() if used[key] != counted.get(key, 0)]:
        yield f"records: {len(wrong)} names are counted wrongly, such as key {min(wrong)}"
    if wrong := [key for key, surface, spelling, _ in stored if hash64(normalise(surface)) != spelling]:
        yield f"records: {len(wrong)} names are damaged, such as key {min(wrong)}"
    vectors = records.rows("SELECT key, vector FROM name_vectors ORDER BY key")
    if vectors:
        codes = np.frombuffer(b"".join(row[1] for row in vectors), np.uint8).reshape(len(vectors), -1)
        if wrong := [vectors[at][0] for at in np.flatnonzero(are_damaged(codes)).tolist()]:
            yield f"records: {len(wrong)} vectors of names are damaged, such as key {min(wrong)}"
    if orphans := [key for key, _ in vectors if key not in counted]:
        yield f"records: {len(orphans)} vectors of names that do not exist"


def _segments(records: Records) -> Iterator[str]:
    rows = records.rows("SELECT generation, arrays, removed, checksum FROM segments")
    for generation, arrays, removed, checksum in rows:
        if zlib.crc32(removed, zlib.crc32(arrays)) != checksum:
            yield f"records: the segment of generation {generation} is damaged"


# -- arrays


def base_problems(path: Path | None, view: View, records: Records) -> Iterator[str]:
    """Yield what is wrong with the base, and where the arrays differ from the rows."""
    if path is not None:
        try:
            map_base(path)
        except (OSError, ValueError) as error:
            yield f"the base {path.name} is damaged: {error}"
    yield from _reported(lambda own: _differences(view, own), records)


def _differences(view: View, records: Records) -> Iterator[str]:
    own, expected = _contents(view), _contents(rebuilt(records))
    yield from (f"arrays: {name!r} differ from the rows" for name in expected if own[name] != expected[name])


def _contents(view: View) -> dict[str, int]:
    """Return a checksum of each table, which does not depend on numbers, parts, or what was deleted."""
    passages = np.flatnonzero(view.alive)
    keys, names = view["passage"].all(), view["name"].all()
    facts = np.flatnonzero(view.alive[view["fact_passage"].all()])
    entities = np.flatnonzero(view.exists)
    entities = entities[np.argsort(view["entity"].take(entities))]
    ids = view["entity"].all()
    counts, mentions = view.forward["mention"].gather(passages)
    held, fact_entities = view.forward["fact_entity"].gather(facts)
    found: dict[str, tuple[Array, ...]] = {
        "passages": (keys[passages], *(view[name].take(passages) for name in ("passage_document", "passage_length"))),
        "mentions": (counts, names[mentions >> NAME_BITS], mentions & ((1 << NAME_BITS) - 1)),
        "facts": tuple(view[name].take(facts) for name in ("fact_weight", "fact_triple", "fact_statement")),
        "facts of passages": (keys[view["fact_passage"].take(facts)],),
        "entities of facts": (held, ids[fact_entities]),
        "entities": (ids[entities], view.counters.take(entities)),
        "totals": (view.totals,),
    }
    for name, columns in (("id", 1), ("term", 2), ("token", 1), ("part", 1)):
        table = [view.forward[name].gather(passages, column) for column in range(columns)]
        found[name] = (table[0][0], *(values for _, values in table))
    found["postings"] = _pairs(view.inverse["postings"], lambda own: view.alive[own], lambda own: keys[own])
    found["passages of entities"] = _pairs(
        view.inverse["entity_passages"], lambda own: view.alive[own >> PASSAGE_BITS],
        lambda own: keys[own >> PASSAGE_BITS] << PASSAGE_BITS | (own & ((1 << PASSAGE_BITS) - 1)), ids,
    )  # fmt: skip
    if view.vectors.dim:
        found["vectors"] = (view.vectors.codes(passages),)
    return {name: _checksum(arrays) for name, arrays in found.items()}


def _pairs(
    table: Inverse, keep: Callable[[Array], Array], shown: Callable[[Array], Array], owners: Array | None = None
) -> tuple[Array, ...]:
    """Return the entries of an inverse table in the order of owners and values."""
    every, values = [], []
    for part in table.parts:
        keys = part.row_keys()
        every.append((keys if owners is None else owners[keys]).repeat(np.diff(part.starts)))
        values.append(part.values)
    owner = np.concatenate(every)
    columns = [np.concatenate(own) for own in zip(*values, strict=True)]
    kept = keep(columns[0])
    owner, columns = owner[kept], [shown(columns[0][kept]), *(own[kept] for own in columns[1:])]
    order = np.lexsort((columns[0], owner))
    return owner[order], *(own[order] for own in columns)


def _checksum(arrays: tuple[Array, ...]) -> int:
    checksum = 0
    for array in arrays:
        checksum = zlib.crc32(np.ascontiguousarray(array).tobytes(), checksum)
    return checksum
