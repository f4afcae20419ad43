"""Building arrays from rows, and comparing both: what ``verify`` and ``rebuild`` do."""

from __future__ import annotations

import io
import json
import struct
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from graphrag_core.engine.arrays import BaseWriter, map_base
from graphrag_core.engine.codes import are_damaged
from graphrag_core.engine.records import Records
from graphrag_core.engine.rows import checksum, damaged, unpack_names
from graphrag_core.engine.schema import LISTED
from graphrag_core.engine.segments import FACT_BITS, Assigned, Batch, name_of, names_arrays
from graphrag_core.engine.view import Removal, View
from graphrag_core.filters import attributes

WRONG_VALUES = (ValueError, LookupError, ArithmeticError, TypeError, AttributeError, struct.error, zlib.error)


def rebuilt(records: Records) -> View:
    """Return the view of the rows, from the rows alone."""
    generation, token = records.generation()
    rows = records.rows("SELECT key, surface, entity FROM names ORDER BY key")
    none = np.empty(0, np.int64)
    names = Batch([]).segment(Assigned(none, none, none, none > 0))
    names = {**names, **names_arrays([(key, name_of(surface), entity) for key, surface, entity in rows])}
    view = View.empty().after(generation, token, names, None, Removal.none())
    known = {(surface, entity): key for key, surface, entity in rows}
    for page in records.document_pages("key"):
        found = records.parsed_where(f"d.key {LISTED}", [row[0] for row in page], accesses=True)
        batch = Batch([parsed for _, _, parsed in found])
        keys, first = (np.array([row[at] for row in found], np.int64) for at in (0, 1))
        own = np.array([known[name] for name in batch.names], np.int64)
        segment = batch.segment(Assigned(keys, first, own, np.zeros(len(own), np.bool_)))
        view = view.after(generation, token, segment, batch.vectors, Removal.none())
    return view


def report_damage(records: Records, error: Exception) -> None:
    """Raise ``DamagedIndex`` for an unexpected error, if the rows that were read are damaged."""
    if (problem := next(_problems_of_rows(records), None)) is not None:
        raise damaged(problem) from error


def problems(records: Records, view: View, base: Path | None) -> Iterator[str]:
    """Yield what is damaged or inconsistent in the rows, in the base, and between rows and arrays."""

    def of_arrays(records: Records) -> Iterator[str]:
        if base is not None:
            map_base(base)
        in_order = records.keys_in_order()
        own, expected = _checksums(view, in_order), _checksums(rebuilt(records), in_order)
        yield from (f"the arrays {name!r} differ from the rows" for name in expected if own.get(name) != expected[name])

    yield from _problems_of_rows(records)
    yield from _found(of_arrays, records, "arrays" if base is None else f"arrays ({base.name})")


def _problems_of_rows(records: Records) -> Iterator[str]:
    for check in (_settings, _documents, _attributes, _names, _segments):
        yield from _found(check, records, "records")


def _found(check: Callable[[Records], Iterator[str]], records: Records, what: str) -> Iterator[str]:
    """Yield the problems that a check finds. What it raises is a problem, too: damaged rows raise anything."""
    try:
        yield from (f"{what}: {problem}" for problem in check(records))
    except Exception as error:  # noqa: BLE001
        yield f"{what}: cannot be read ({type(error).__name__}: {error})"


def _checksums(view: View, in_order: Any) -> dict[str, Any]:
    """Return the checksums of the base that a view would write, which depend on the rows alone."""

    class Nowhere(io.RawIOBase):
        def write(self, data: Any) -> int:
            return len(data)

    writer = BaseWriter(Nowhere())  # type: ignore[arg-type]
    view.write(writer, in_order, with_lists=False)
    return {**writer.checksums, "totals": view.totals.tolist()}


# -- rows


def check_settings(records: Records) -> None:
    """Raise ``DamagedIndex`` if the settings differ from their checksum."""
    meta = records.meta()
    if "generation" in meta and meta.get("checksum") != records.meta_checksum(meta):
        raise damaged("the settings of the index differ from their checksum")


def _settings(records: Records) -> Iterator[str]:
    yield from (str(row[0]) for row in records.problems())
    check_settings(records)


def _documents(records: Records) -> Iterator[str]:
    count, rows = 0, records.rows
    for documents in records.document_pages("*"):
        for *row, _, _, expected in documents:
            span = row[7], row[7] + row[8]
            passages = rows("SELECT * FROM passages WHERE key >= ? AND key < ? ORDER BY key", *span)
            count += len(passages)
            of_facts = span[0] << FACT_BITS, span[1] << FACT_BITS
            of = defaultdict[int, list[tuple[object, ...]]](list)
            for fact in rows("SELECT * FROM facts WHERE key >= ? AND key < ? ORDER BY key", *of_facts):
                of[fact[0] >> FACT_BITS].append(fact[:-2])
            sql = (
                "SELECT passage, name, type, description FROM claims WHERE passage >= ? AND passage < ? ORDER BY rowid"
            )
            for claim in rows(sql, *span):
                of[claim[0]].append(claim)
            wrong = checksum((tuple(row), [own for key in range(*span) for own in of[key]])) != expected
            wrong |= any(checksum(passage[:-1]) != passage[-1] for passage in passages)
            if wrong or [passage[0] for passage in passages] != [*range(*span)]:
                yield f"document {row[1]!r} is damaged: its rows differ from their checksum"
    if count != records.count("passages"):
        yield "passages without a document"


def _attributes(records: Records) -> Iterator[str]:
    stored = defaultdict[int, set[tuple[object, ...]]](set)
    for name, kind, value, document in records.rows("SELECT name, kind, value, document FROM attributes"):
        stored[document].add((name, kind, value))
    for key, document_id, metadata in records.rows("SELECT key, id, metadata FROM documents"):
        if stored.pop(key, set()) != {(name, *value) for name, value in attributes(json.loads(metadata))}:
            yield f"the metadata of document {document_id!r} is damaged"
    if stored:
        yield f"attributes of {len(stored)} documents that do not exist"


def _names(records: Records) -> Iterator[str]:
    used = Counter[int]()
    for (names,) in records.rows("SELECT names FROM passages"):
        used.update(unpack_names(names))
    stored = records.rows("SELECT key, surface, spelling, uses FROM names")
    counted = {key: uses for key, _, _, uses in stored}
    if wrong := [key for key in used.keys() | counted.keys() if used[key] != counted.get(key, 0)]:
        yield f"{len(wrong)} names are counted wrongly, such as key {min(wrong)}"
    if wrong := [key for key, surface, spelling, _ in stored if name_of(surface).name_id != spelling]:
        yield f"{len(wrong)} names are damaged, such as key {min(wrong)}"
    for key, vector in records.rows("SELECT key, vector FROM name_vectors"):
        if key not in counted or are_damaged(np.frombuffer(vector, np.uint8)[None, :]).any():
            yield f"the vector of name {key} is damaged, or the name does not exist"


def _segments(records: Records) -> Iterator[str]:
    records.segments(-1)  # raises an error if one is damaged
    yield from ()
