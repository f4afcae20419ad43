"""The counters of entities in PostgreSQL: changed with each write, and counted again to verify them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from graphrag_core.engine.graph.counters import COUNTERS, Mentions, count
from graphrag_core.engine.graph.sparse import Flags, Numbers
from graphrag_core.engine.postgres.reads import GIVEN, IN_CHUNK, Columns, PostgresTables, Statement, rows_in
from graphrag_core.key_sets import distinct
from graphrag_core.ports import Keys

Cursor = Any  # of psycopg, which is an optional package

_PAGE = 5_000  # chunks whose rows are counted together
_CHUNK: Columns = {"key": np.int64, "document": np.int64}
_MENTION: Columns = {
    "chunk": np.int64, "position": np.int64, "entity": np.int64, "weight": np.int16, "in_title": np.bool_,
    "is_address": np.bool_,
}  # fmt: skip
_ROWS: Statement = {
    **GIVEN,
    "c": (rows_in("w", "chunks", "key = w.key", _CHUNK), _CHUNK),
    "m": (rows_in("w", "mentions", "chunk = w.key AND weight > 0", _MENTION), _MENTION),
    "f": (rows_in("w", "facts", f"{IN_CHUNK} AND relation IS NOT NULL", ("key",)), {}),
    "x": (rows_in("f", "fact_entities", "fact = f.key", ("entity",)), {"entity": np.int64}),
}
"""What is counted of some chunks."""


class Counts:
    """How documents use entities.

    Attributes
    ----------
    ids, counters
        The ids of entities in ascending order, and a row of ``COUNTERS`` for each.
    addresses
        The ids of those that are addresses, in ascending order.
    """

    def __init__(self, mentions: Mentions, in_triples: Numbers) -> None:
        self.ids, self.counters = count(mentions, in_triples)
        self.addresses = distinct(mentions.entity[mentions.is_address])

    def add(self, other: Counts, sign: int = 1) -> None:
        """Add the counts of other documents, or subtract them."""
        ids = distinct(self.ids, other.ids)
        counters = np.zeros((len(ids), len(COUNTERS)), np.int64)
        counters[np.searchsorted(ids, self.ids)] += self.counters
        counters[np.searchsorted(ids, other.ids)] += sign * other.counters
        self.ids, self.counters = ids, counters
        self.addresses = distinct(self.addresses, other.addresses)

    @property
    def are_addresses(self) -> Flags:
        """Which of the entities are addresses."""
        return np.isin(self.ids, self.addresses)


def read_counts(cursor: Cursor, index: int, chunks: Keys) -> Counts:
    """Count how documents, given by all their chunks, use entities."""
    rows = PostgresTables.of(cursor, index).read(_ROWS, keys=chunks)
    chunk, document = rows["c"].values()
    of, position, entity, weight, in_title, is_address = rows["m"].values()
    order = np.argsort(chunk)
    chunk, document = chunk[order], document[order]
    order = np.lexsort((position, of))
    of, entity, weight, in_title, is_address = (column[order] for column in (of, entity, weight, in_title, is_address))
    documents = np.unique(document, return_inverse=True)[1][chunk.searchsorted(of)] if len(of) else of
    return Counts(Mentions(documents, of, entity, weight > 1, in_title, is_address), rows["x"]["entity"])


def store_counts(cursor: Cursor, index: int, counts: Counts) -> None:
    """Add counts to those that are stored. Entities that no chunk mentions any more are removed."""
    if len(counts.ids) == 0:
        return
    changes = ", ".join(f"{name} = e.{name} + excluded.{name}" for name in COUNTERS)
    given = ", ".join(["%s::int[]"] * len(COUNTERS))
    cursor.execute(
        f"INSERT INTO entities AS e SELECT %s, t.* FROM unnest(%s::bigint[], %s::boolean[], {given}) t "
        f"ON CONFLICT (index, id) DO UPDATE SET {changes}",
        (index, counts.ids, counts.are_addresses, *counts.counters.T.astype(np.int32)),
    )
    if len(fewer := counts.ids[counts.counters[:, 0] < 0]):
        cursor.execute("DELETE FROM entities WHERE index = %s AND id = ANY(%s) AND passages <= 0", (index, fewer))


def _pages(cursor: Cursor, index: int) -> Iterator[Keys]:
    """Yield the chunks of all documents in pages of whole documents."""
    rows = cursor.execute("SELECT document, key FROM chunks WHERE index = %s ORDER BY document, key", (index,))
    document, chunk = np.array(rows.fetchall(), np.int64).reshape(-1, 2).T
    start = 0
    while start < len(chunk):
        end = min(start + _PAGE, len(chunk))
        end = int(np.searchsorted(document, document[end - 1], "right"))
        yield np.sort(chunk[start:end])
        start = end


def count_again(cursor: Cursor, index: int) -> Counts:
    """Count the mentions of all chunks."""
    counts = read_counts(cursor, index, np.empty(0, np.int64))
    for chunks in _pages(cursor, index):
        counts.add(read_counts(cursor, index, chunks))
    return counts


def problems(cursor: Cursor, index: int) -> Iterator[str]:
    """Yield what differs between the stored counters and the mentions of all chunks."""
    wanted = count_again(cursor, index)
    rows = zip(wanted.ids.tolist(), wanted.are_addresses.tolist(), *wanted.counters.T.tolist(), strict=True)
    expected = set(rows)
    stored = set(cursor.execute(
        f"SELECT id, is_address, {', '.join(COUNTERS)} FROM entities WHERE index = %s", (index,)
    ).fetchall())  # fmt: skip
    if wrong := {row[0] for row in expected ^ stored}:
        yield f"graph: {len(wrong)} entities are counted wrongly, such as {min(wrong)}; rebuild() counts them again"
    for what, sql in _PROBLEMS.items():
        found = cursor.execute(f"SELECT count(*) {sql}", {"i": index}).fetchone()[0]
        if found:
            yield f"graph: {found} {what}"


_PROBLEMS = {
    "mentions have another entity than their name": "FROM mentions m LEFT JOIN names n ON n.index = m.index "
    "AND n.key = m.name WHERE m.index = %(i)s AND NOT m.is_alias AND n.spelling IS DISTINCT FROM m.entity",
    "facts hold other entities than they name": "FROM facts f WHERE f.index = %(i)s AND (SELECT count(*) FROM "
    "fact_entities x WHERE x.index = f.index AND x.fact = f.key) <> (SELECT count(DISTINCT coalesce(a.entity, "
    "n.spelling)) FROM unnest(f.names) u(name) JOIN names n ON n.index = f.index AND n.key = u.name LEFT JOIN LATERAL "
    "(SELECT m.entity FROM mentions m WHERE m.index = f.index AND m.chunk = f.chunk AND m.name = u.name AND m.is_alias "
    "LIMIT 1) a ON true)",
}
