"""The graph in PostgreSQL: tables that are derived from the rows of chunks, facts and names, and kept up to date.

A change is applied by :mod:`~graphrag_core.engine.graph.change`, for which :class:`_Tables` reads and writes. With
edits, merged names or explicit edges a decision depends on more than the uses of one spelling: then, as after a large
change, the graph is built in memory from all rows, and the tables are written again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.graph.change import (
    COUNTS,
    MENTION,
    NONE,
    SUBJECT,
    EntityCounts,
    GraphRows,
    Members,
    Names,
    Spellings,
    apply,
    rounded,
)
from graphrag_core.engine.graph.edits import GraphEdits
from graphrag_core.engine.graph.live import LiveGraph, derived_counts
from graphrag_core.engine.graph.sparse import Flags, Numbers, Pairs, Tables
from graphrag_core.engine.postgres.database import copy_rows, matrix
from graphrag_core.engine.postgres.reads import PostgresTables, columns, one_row, rows_of
from graphrag_core.engine.postgres.schema import DERIVED, FACT_BITS
from graphrag_core.key_sets import distinct
from graphrag_core.ports import Keys
from graphrag_core.text import EDGE, hash64

Cursor = Any  # of psycopg, which is an optional package

_EDGE = hash64(EDGE)
EDITS, SIMILAR = "edits", "merge_similar"
"""The settings of an index that change its whole graph."""

_PAGE = 10_000  # chunks whose rows are read in one go
_NAMES_PAGE, _NEAREST = 1_000, 8  # names whose similarities are computed in one go, and how many count
_FEW = 200  # chunks, whose change is always applied to the tables
_MOST = 4  # times the number of chunks that are there: from which on it is cheaper to build the tables again


def read_rows(cursor: Cursor, index: int, chunks: Keys | None = None) -> GraphRows:
    """Return the rows of chunks, or of all."""
    if chunks is None:
        (chunks,) = _fetch(cursor, "SELECT key FROM chunks WHERE index = %s ORDER BY key", (index,), np.int64)
    chunks = np.sort(chunks)
    pages = [_read_page(cursor, index, chunks[start : start + _PAGE]) for start in range(0, max(len(chunks), 1), _PAGE)]
    if len(pages) == 1:
        return pages[0]
    parts = (
        tuple(np.concatenate(columns_) for columns_ in zip(*tables, strict=True))
        for tables in list(zip(*pages, strict=True))[1:]
    )
    return GraphRows(chunks, *parts)  # type: ignore[arg-type]


def _read_page(cursor: Cursor, index: int, chunks: Keys) -> GraphRows:
    """Return the rows of not too many chunks, in order."""

    def fetch(values: str, table: str, rest: str, *types: npt.DTypeLike) -> tuple[Any, ...]:
        """Return columns of the rows of the chunks. ``table`` has an alias of one letter."""
        column = {"facts f": "key", "fact_names h": "fact"}.get(table, "chunk")
        bits = f" << {FACT_BITS}"
        inside = "chunk = w.chunk"
        if column != "chunk":
            inside = f"{column} >= w.chunk{bits} AND {column} < (w.chunk + 1){bits}"
        return _fetch(
            cursor,
            f"SELECT {values} FROM unnest(%(chunks)s::bigint[]) w(chunk) CROSS JOIN LATERAL "
            f"(SELECT * FROM {table[:-2]} WHERE index = %(index)s AND {inside} OFFSET 0) {table[-1]} {rest}",
            {"chunks": chunks, "index": index},
            *types,
        )

    key, name = np.int64, np.int64
    fact, weight, triple = fetch(
        "f.key, f.weight, f.relation IS NOT NULL", "facts f", "ORDER BY f.key", key, np.float32, np.bool_
    )
    return GraphRows(
        chunks,
        fetch(
            "m.chunk, m.name, m.spelling, n.is_address, m.subject", "mentions m",
            f"{one_row('names', 'n', 'n.key = m.name')} ORDER BY m.chunk, m.position",
            key, name, name, np.bool_, np.bool_,
        ),
        (fact, fact >> FACT_BITS, weight, triple),
        fetch("h.fact, h.name, h.spelling", "fact_names h", "ORDER BY h.fact, h.position", key, name, name),
        fetch("a.short, a.long, a.short_spelling, a.long_spelling", "aliases a", "", name, name, name, name),
    )  # fmt: skip


def graph_tables(rows: GraphRows) -> Tables:
    """Return rows as the tables of a :class:`~graphrag_core.engine.graph.live.LiveGraph`."""
    chunk, name, spelling, is_address, subject = rows.mentions
    keys, first = np.unique(name, return_index=True)
    key, fact_chunk, weight, triple = rows.facts
    there = np.isin(rows.held[1], keys)
    both = np.isin(rows.aliases[0], keys) & np.isin(rows.aliases[1], keys)
    return {
        "chunks": {"key": rows.chunks},
        "names": {"key": keys, "entity": spelling[first], "is_address": is_address[first]},
        "mentions": {"chunk": chunk, "name": name, "subject": subject},
        "facts": {
            "key": key,
            "chunk": fact_chunk,
            "weight": weight,
            "triple": triple,
            "statement": np.zeros(len(key), np.uint32),
        },
        "fact_names": {"fact": rows.held[0][there], "name": rows.held[1][there]},
        "aliases": {
            "chunk": np.repeat(rows.chunks[:1], both.sum()),
            "short": rows.aliases[0][both],
            "long": rows.aliases[1][both],
        },
    }


def publish(cursor: Cursor, index: int, added: Keys, removed: GraphRows, *, edited: bool = False) -> None:
    """Bring the derived tables up to date. The raw rows of added chunks are there, those of removed ones are not.

    Called by one writer of an index at a time, in its transaction.

    Parameters
    ----------
    cursor, index
        A cursor of the transaction, and the number of the index.
    added
        The keys of chunks.
    removed
        What :func:`read_rows` returned for the removed chunks before their rows were deleted.
    edited
        Whether one of the settings ``EDITS`` and ``SIMILAR`` changed.
    """
    state = cursor.execute(
        "SELECT s.chunks, s.is_plain, EXISTS (SELECT FROM names n WHERE n.index = s.index AND n.spelling = %s) "
        "FROM graph_state s WHERE s.index = %s",
        (_EDGE, index),
    ).fetchone()
    changed = len(added) + len(removed.chunks)
    if changed == 0 and not edited:
        return
    if state is None or edited or not state[1] or state[2] or changed > max(_FEW, _MOST * state[0]):
        rebuild(cursor, index)
        return
    apply(_Tables(cursor, index), read_rows(cursor, index, added), removed)


def rebuild(cursor: Cursor, index: int) -> None:
    """Write the derived tables again from the raw rows. Called as :func:`publish` is."""
    for table in DERIVED:
        cursor.execute(f"DELETE FROM {table} WHERE index = %s", (index,))
    for table, values in _built(cursor, index).items():
        copy_rows(cursor, table, ((index, *row) for row in zip(*values, strict=True)))


def _built(cursor: Cursor, index: int) -> dict[str, list[list[Any]]]:
    """Return the columns of all derived tables but the index, built from all raw rows."""
    rows = read_rows(cursor, index)
    edits, similar = graph_settings(cursor, index)
    pairs = (NONE, NONE) if similar is None else similar_names(cursor, index, similar)
    tables = graph_tables(rows)
    graph = LiveGraph.build(tables, pairs, edits)
    found = _derived(tables, graph)
    is_plain = not edits.text and similar is None and not (tables["names"]["entity"] == _EDGE).any()
    found["graph_state"] = [len(rows.chunks)], [int((found["chunk_nodes"][3] > 0).sum())], [is_plain]
    return {
        table: [values if isinstance(values, list) else values.tolist() for values in given]
        for table, given in found.items()
    }


def _derived(tables: Tables, graph: LiveGraph) -> dict[str, tuple[Any, ...]]:
    """Return the columns of the derived tables of a graph that was built from tables."""
    made = graph.arrays()
    chunks, facts, names = (tables[table]["key"] for table in ("chunks", "facts", "names"))
    spellings, name_spelling = np.unique(tables["names"]["entity"], return_inverse=True)
    numbers = spellings.tolist()
    long = dict(made["aliases"].T.tolist())
    (chunk, entity, weight), (of_fact, held) = made["chunk_entities"], made["fact_entities"]
    links, (degrees, totals, foreign), entities = derived_counts(made, tables["facts"]["weight"], len(chunks))
    there = np.flatnonzero(made["entity"] == np.arange(len(spellings)))
    return {
        "spellings": (
            spellings, *made["counts"].T, made["titles"], made["mentions"],
            [numbers[long[at]] if at in long else None for at in range(len(numbers))],
            [None if at < 0 else numbers[at] for at in made["entity"].tolist()],
        ),
        "name_uses": (
            spellings[name_spelling], names, tables["names"]["is_address"], *made["name_counts"].T, made["named"]
        ),
        "headings": (spellings[made["headings"][0]], spellings[made["headings"][1]], made["headings"][2]),
        "chunk_entities": (chunks[chunk], spellings[entity], weight),
        "chunk_nodes": (chunks, degrees, totals, foreign),
        "fact_entities": (facts[of_fact], spellings[held]),
        "links": (spellings[links[0]], spellings[links[1]], links[2], rounded(links[2])),
        "entities": (
            spellings[there], entities.chunks[there], entities.subjects[there],
            graph.are_addresses(graph.first_entity + np.arange(len(there))),
        ),
        "hidden_facts": (facts[made["hidden"]],),
    }  # fmt: skip


def graph_settings(cursor: Cursor, index: int) -> tuple[GraphEdits, float | None]:
    """Return the edits of the graph, and the cosine similarity from which on names are one entity."""
    cursor.execute("SELECT name, value FROM settings WHERE index = %s AND name = ANY(%s)", (index, [EDITS, SIMILAR]))
    found = dict(cursor.fetchall())

    text = found.get(EDITS, "")
    edits = GraphEdits(
        text if text and json.loads(text)["edits"] else "", PostgresTables.of(cursor, index).facts_to_hide
    )
    return edits, float(found[SIMILAR]) if found.get(SIMILAR) else None


def problems(cursor: Cursor, index: int) -> list[str]:
    """Return what differs between the derived tables and those that the raw rows would give."""
    found = []
    for table, values in _built(cursor, index).items():
        want = set(zip(*values, strict=True))
        cursor.execute(f"SELECT * FROM {table} WHERE index = %s", (index,))
        have = {tuple(row[1:]) for row in cursor.fetchall()}
        if have != want and (table != "graph_state" or have):  # an index to which nothing was added has no state
            example = next(iter(have ^ want))
            found.append(f"{table}: {len(have - want)} rows too much, {len(want - have)} missing, such as {example}")
    return found


class _Tables:
    """The derived tables of an index: a :class:`~graphrag_core.engine.graph.change.GraphStore`.

    Spellings and entities have the hashes of spellings as numbers; chunks, facts and names have their keys.
    """

    def __init__(self, cursor: Cursor, index: int) -> None:
        self._cursor = cursor
        self._index = index

    def run(self, sql: str, **parameters: Any) -> None:
        """Execute a statement with arrays of the same length, unless they are empty."""
        values = {name: _plain(value) for name, value in parameters.items()}
        if any(len(value) for value in values.values()):
            self._cursor.execute(sql, {"index": self._index, **values})

    def _fetch(self, sql: str, *types: npt.DTypeLike, **parameters: Any) -> tuple[Any, ...]:
        """Return the columns of a query."""
        values = {name: _plain(value) for name, value in parameters.items()}
        return _fetch(self._cursor, sql, {"index": self._index, **values}, *types)

    def headings(self, spelling: Numbers, title: Numbers) -> Numbers:
        (found,) = self._placed(
            len(spelling), "SELECT t.at - 1, h.chunks FROM unnest(%(spellings)s::bigint[], %(titles)s::bigint[]) "
            "WITH ORDINALITY t(spelling, title, at) "
            f"{one_row('headings', 'h', 'h.spelling = t.spelling AND h.title = t.title')}",
            np.int64, spellings=spelling, titles=title,
        )  # fmt: skip
        chunks: Numbers = found
        return chunks

    def set_headings(self, spelling: Numbers, title: Numbers, chunks: Numbers) -> None:
        kept = chunks > 0
        self.run(
            "INSERT INTO headings SELECT %(index)s, t.* "
            "FROM unnest(%(spellings)s::bigint[], %(titles)s::bigint[], %(chunks)s::int[]) t "
            "ON CONFLICT (index, spelling, title) DO UPDATE SET chunks = excluded.chunks",
            spellings=spelling[kept], titles=title[kept], chunks=chunks[kept],
        )  # fmt: skip
        self._delete("headings", ("spelling", "title"), spelling[~kept], title[~kept])

    def _placed(self, size: int, sql: str, *types: npt.DTypeLike, **parameters: Any) -> tuple[Any, ...]:
        """Return the columns of a query after the first, which says where to put each row; zeros elsewhere."""
        at, *found = self._fetch(sql, np.int64, *types, **parameters)
        spread = tuple(np.zeros(size, column.dtype) for column in found)
        for target, column in zip(spread, found, strict=True):
            target[at] = column
        return spread

    def _delete(self, table: str, names: tuple[str, str], first: Numbers, second: Numbers) -> None:
        """Delete the rows of a table that have pairs of values, of which the first have an index."""
        one, other = names
        self.run(
            f"DELETE FROM {table} WHERE index = %(index)s AND {one} = ANY(%(ones)s) AND ({one}, {other}) IN "
            "(SELECT * FROM unnest(%(ones)s::bigint[], %(others)s::bigint[]))",
            ones=first, others=second,
        )  # fmt: skip

    def spellings(self, spellings: Numbers) -> Spellings:
        number, alive, entity, alias, under, *counts = self._fetch(
            "SELECT number, entity IS NOT NULL, coalesce(entity, 0), alias_of, titles, "
            f"{', '.join(COUNTS)} FROM {rows_of('spellings', 's', 'number', 'spellings')}",
            np.int64, np.bool_, np.int64, object, *[np.int64] * (1 + len(COUNTS)), spellings=spellings,
        )  # fmt: skip
        place = np.searchsorted(spellings, number)

        def spread(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
            found = np.zeros(len(spellings), values.dtype)
            found[place] = values
            return found

        longs = {one: long for one, long in zip(number.tolist(), alias, strict=True) if long is not None}
        table = np.array([spread(column) for column in counts], np.int64)
        return Spellings(table, spread(under), spread(alive), spread(entity), longs)

    def set_spellings(
        self, spellings: Numbers, found: Spellings, mentions: Numbers, there: Flags, others: Members
    ) -> None:
        numbers, alive = spellings[there].tolist(), found.alive[there].tolist()
        integers = ("titles", *COUNTS, "mentions")
        names = ("number", "alias_of", "entity", *integers)
        types = (*["bigint"] * 3, *["int"] * len(integers))
        values: dict[str, Any] = {
            "number": numbers,
            "alias_of": [found.alias_of.get(one) for one in numbers],
            "entity": [
                one if is_name else None for one, is_name in zip(found.entity[there].tolist(), alive, strict=True)
            ],
            "titles": found.titles[there],
            "mentions": mentions[there],
            **{name: column[there] for name, column in zip(COUNTS, found.counts, strict=True)},
        }
        given = ", ".join(f"%({name})s::{kind}[]" for name, kind in zip(names, types, strict=True))
        changes = names[1:]
        own, new = (", ".join(f"{table}.{name}" for name in changes) for table in ("spellings", "excluded"))
        self.run(
            f"INSERT INTO spellings (index, {', '.join(names)}) SELECT %(index)s, t.* FROM unnest({given}) t "
            f"ON CONFLICT (index, number) DO UPDATE SET ({', '.join(changes)}) = ({new}) "
            f"WHERE ({own}) IS DISTINCT FROM ({new})",
            **values,
        )
        self.run(
            "UPDATE spellings s SET entity = t.entity, alias_of = t.alias_of FROM "
            "unnest(%(numbers)s::bigint[], %(entities)s::bigint[], %(longs)s::bigint[]) t(number, entity, alias_of) "
            "WHERE s.index = %(index)s AND s.number = t.number",
            numbers=others.spelling, entities=others.entity, longs=others.alias_of,
        )  # fmt: skip
        self.run("DELETE FROM spellings WHERE index = %(index)s AND number = ANY(%(gone)s)", gone=spellings[~there])

    def hashes(self, spellings: Numbers) -> Numbers:
        return spellings

    def names_of(self, spellings: Numbers) -> Names:
        name, spelling, is_address, named, *counts = self._fetch(
            "SELECT name, spelling, is_address, named, mentions, triples "
            f"FROM {rows_of('name_uses', 'u', 'spelling', 'spellings')}",
            np.int64, np.int64, np.bool_, np.bool_, np.int64, np.int64, spellings=spellings,
        )  # fmt: skip
        return Names(name, spelling, is_address, np.array(counts, np.int64), named)

    def set_names(self, names: Names, unused: Names) -> None:
        self._delete("name_uses", ("spelling", "name"), unused.spelling, unused.name)
        self.run(
            "INSERT INTO name_uses SELECT %(index)s, t.* FROM unnest(%(spellings)s::bigint[], %(names)s::bigint[], "
            "%(addresses)s::boolean[], %(mentions)s::int[], %(triples)s::int[], %(named)s::boolean[]) t "
            "ON CONFLICT (index, spelling, name) DO UPDATE SET mentions = excluded.mentions, "
            "triples = excluded.triples, named = excluded.named "
            "WHERE (name_uses.mentions, name_uses.triples, name_uses.named) IS DISTINCT FROM "
            "(excluded.mentions, excluded.triples, excluded.named)",
            spellings=names.spelling, names=names.name, addresses=names.is_address, mentions=names.counts[0],
            triples=names.counts[1], named=names.named,
        )  # fmt: skip

    def aliases(self, ends: Numbers, shorts: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        short, long, of_short, of_long = self._fetch(
            "WITH shorts(key) AS MATERIALIZED (SELECT unnest(%(shorts)s::bigint[]) "
            f"UNION SELECT a.short_spelling FROM {rows_of('aliases', 'a', 'long_spelling', 'ends')} "
            "UNION SELECT unnest(%(ends)s::bigint[])) "
            "SELECT DISTINCT a.short, a.long, a.short_spelling, a.long_spelling FROM shorts s CROSS JOIN LATERAL "
            "(SELECT * FROM aliases WHERE index = %(index)s AND short_spelling = s.key OFFSET 0) a",
            np.int64, np.int64, np.int64, np.int64, ends=ends, shorts=shorts,
        )  # fmt: skip
        return short, long, of_short, of_long

    def valid(self, names: Numbers, spellings: Numbers) -> tuple[Flags, Flags]:
        named, there = self._placed(
            len(names), "SELECT t.at - 1, n.named, s.entity IS NOT NULL "
            "FROM unnest(%(spellings)s::bigint[], %(names)s::bigint[]) WITH ORDINALITY t(spelling, name, at) "
            f"{one_row('name_uses', 'n', 'n.spelling = t.spelling AND n.name = t.name')} "
            "LEFT JOIN LATERAL (SELECT entity FROM spellings WHERE index = %(index)s AND number = t.spelling LIMIT 1) "
            "s ON true",
            np.bool_, np.bool_, spellings=spellings, names=names,
        )  # fmt: skip
        return named, there

    def members(self, ahead: Sequence[int], longs: Sequence[int]) -> Members:
        found = self._fetch(
            " UNION ".join(
                f"SELECT s.number, s.alias_of, s.mentions, s.entity FROM {rows_of('spellings', 's', column, keys)}"
                for column, keys in (("number", "ahead"), ("alias_of", "longs"))
            ),
            object, object, object, object, ahead=ahead, longs=longs,
        )  # fmt: skip
        return Members(*found)

    def users(self, spellings: Numbers) -> Pairs:
        kind, key = self._fetch(
            f"SELECT 0, m.chunk FROM {rows_of('mentions', 'm', 'spelling', 'spellings')} "
            f"UNION ALL SELECT 1, h.fact FROM {rows_of('fact_names', 'h', 'spelling', 'spellings')}",
            np.int64, np.int64, spellings=spellings,
        )  # fmt: skip
        return distinct(key[kind == 0]), distinct(key[kind == 1])

    def fact_uses(self, facts: Numbers) -> Pairs:
        fact, entity = self._fetch(
            f"""
            SELECT DISTINCT h.fact, s.entity FROM {rows_of("fact_names", "h", "fact", "facts")}
            {one_row("name_uses", "u", "u.spelling = h.spelling AND u.name = h.name")}
            {one_row("spellings", "s", "s.number = h.spelling")} WHERE s.entity IS NOT NULL AND u.named
            """,
            np.int64, np.int64, facts=facts,
        )  # fmt: skip
        return fact, entity

    def chunk_uses(self, chunks: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        chunk, entity, weight = self._fetch(
            f"""
            SELECT m.chunk, s.entity, CASE WHEN bool_or(m.subject) THEN {SUBJECT} ELSE {MENTION} END
            FROM {rows_of("mentions", "m", "chunk", "chunks")}
            {one_row("name_uses", "u", "u.spelling = m.spelling AND u.name = m.name")}
            {one_row("spellings", "s", "s.number = m.spelling")}
            WHERE s.entity IS NOT NULL AND u.named GROUP BY m.chunk, s.entity
            """,
            np.int64, np.int64, np.int64, chunks=chunks,
        )  # fmt: skip
        return chunk, entity, weight

    def fact_entities(self, facts: Numbers) -> Pairs:
        fact, entity = self._fetch(
            f"SELECT x.fact, x.entity FROM {rows_of('fact_entities', 'x', 'fact', 'facts')}",
            np.int64, np.int64, facts=facts,
        )  # fmt: skip
        return fact, entity

    def set_fact_entities(self, gone: Pairs, came: Pairs) -> None:
        self._delete("fact_entities", ("fact", "entity"), *gone)
        self.run(
            "INSERT INTO fact_entities SELECT %(index)s, t.* "
            "FROM unnest(%(facts)s::bigint[], %(entities)s::bigint[]) t",
            facts=came[0], entities=came[1],
        )  # fmt: skip

    def weights(self, facts: Numbers) -> npt.NDArray[np.float32]:
        (found,) = self._placed(
            len(facts), "SELECT t.at - 1, f.weight FROM unnest(%(facts)s::bigint[]) WITH ORDINALITY t(fact, at) "
            f"{one_row('facts', 'f', 'f.key = t.fact')}",
            np.float32, facts=facts,
        )  # fmt: skip
        weights: npt.NDArray[np.float32] = found
        return weights

    def links(self, entities: Numbers, others: Numbers) -> npt.NDArray[np.float64]:
        (found,) = self._placed(
            len(entities), "SELECT t.at - 1, l.sum FROM unnest(%(ones)s::bigint[], %(others)s::bigint[]) "
            "WITH ORDINALITY t(entity, other, at) "
            f"{one_row('links', 'l', 'l.entity = t.entity AND l.other = t.other')}",
            np.float64, ones=entities, others=others,
        )  # fmt: skip
        sums: npt.NDArray[np.float64] = found
        return sums

    def set_links(self, entities: Numbers, others: Numbers, sums: npt.NDArray[np.float64]) -> None:
        weights = rounded(sums)
        kept = weights != 0
        self.run(
            "INSERT INTO links SELECT %(index)s, t.* FROM unnest(%(ones)s::bigint[], %(others)s::bigint[], "
            "%(sums)s::double precision[], %(weights)s::real[]) t "
            "ON CONFLICT (index, entity, other) DO UPDATE SET sum = excluded.sum, weight = excluded.weight",
            ones=entities[kept], others=others[kept], sums=sums[kept], weights=weights[kept],
        )  # fmt: skip
        self._delete("links", ("entity", "other"), entities[~kept], others[~kept])

    def chunk_entities(self, chunks: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        chunk, entity, weight = self._fetch(
            f"SELECT x.chunk, x.entity, x.weight FROM {rows_of('chunk_entities', 'x', 'chunk', 'chunks')}",
            np.int64, np.int64, np.int64, chunks=chunks,
        )  # fmt: skip
        return chunk, entity, weight

    def set_chunk_entities(
        self, gone: tuple[Numbers, Numbers, Numbers], came: tuple[Numbers, Numbers, Numbers]
    ) -> None:
        self._delete("chunk_entities", ("chunk", "entity"), *gone[:2])
        self.run(
            "INSERT INTO chunk_entities SELECT %(index)s, t.* "
            "FROM unnest(%(chunks)s::bigint[], %(entities)s::bigint[], %(weights)s::smallint[]) t",
            chunks=came[0], entities=came[1], weights=came[2],
        )  # fmt: skip

    def entities(self, entities: Numbers) -> tuple[Flags, EntityCounts]:
        known, *counts = self._placed(
            len(entities), "SELECT t.at - 1, true, e.chunks, e.subjects "
            "FROM unnest(%(entities)s::bigint[]) WITH ORDINALITY t(number, at) "
            f"{one_row('entities', 'e', 'e.number = t.number')}",
            np.bool_, np.int64, np.int64, entities=entities,
        )  # fmt: skip
        return known, EntityCounts(*counts)

    def set_entities(self, entities: Numbers, counts: EntityCounts) -> None:
        there, is_address = self._placed(
            len(entities),
            f"""
            SELECT t.at - 1, true, EXISTS (
                SELECT FROM spellings o CROSS JOIN LATERAL (
                    SELECT FROM name_uses n WHERE n.index = %(index)s AND n.spelling = o.number
                    AND n.is_address AND n.named LIMIT 1
                ) n WHERE o.index = %(index)s AND o.entity = s.number
            ) FROM unnest(%(entities)s::bigint[]) WITH ORDINALITY t(number, at)
            {one_row("spellings", "s", "s.number = t.number AND s.entity = s.number")}
            """,
            np.bool_, np.bool_, entities=entities,
        )  # fmt: skip
        self.run(
            "INSERT INTO entities SELECT %(index)s, t.* FROM unnest(%(numbers)s::bigint[], %(chunks)s::int[], "
            "%(subjects)s::int[], %(addresses)s::boolean[]) t ON CONFLICT (index, number) DO UPDATE SET "
            "chunks = excluded.chunks, subjects = excluded.subjects, is_address = excluded.is_address",
            numbers=entities[there], chunks=counts.chunks[there], subjects=counts.subjects[there],
            addresses=is_address[there],
        )  # fmt: skip
        self.run("DELETE FROM entities WHERE index = %(index)s AND number = ANY(%(gone)s)", gone=entities[~there])

    def mentioning(self, entities: Numbers) -> Pairs:
        at, chunk = self._fetch(
            "SELECT t.at - 1, c.chunk FROM unnest(%(entities)s::bigint[]) WITH ORDINALITY t(entity, at) "
            "CROSS JOIN LATERAL (SELECT chunk FROM chunk_entities WHERE index = %(index)s "
            f"AND entity = t.entity AND weight = {MENTION} OFFSET 0) c",
            np.int64, np.int64, entities=entities,
        )  # fmt: skip
        return at, chunk

    def set_nodes(self, chunks: Numbers, nodes: tuple[Numbers, Numbers, Numbers], removed: Numbers) -> None:
        (before,) = self._fetch(
            f"SELECT n.foreign_subjects FROM {rows_of('chunk_nodes', 'n', 'chunk', 'chunks')}",
            np.int64, chunks=distinct(chunks, removed),
        )  # fmt: skip
        self.run(
            "INSERT INTO chunk_nodes SELECT %(index)s, t.* FROM unnest(%(chunks)s::bigint[], %(degrees)s::int[], "
            "%(totals)s::int[], %(foreign)s::int[]) t ON CONFLICT (index, chunk) DO UPDATE SET "
            "degree = excluded.degree, total = excluded.total, foreign_subjects = excluded.foreign_subjects",
            chunks=chunks, degrees=nodes[0], totals=nodes[1], foreign=nodes[2],
        )  # fmt: skip
        self.run("DELETE FROM chunk_nodes WHERE index = %(index)s AND chunk = ANY(%(removed)s)", removed=removed)
        self._count_leading(nodes[2], before)

    def add_foreign(self, chunks: Numbers, change: Numbers) -> None:
        # Not UPDATE: without statistics of a new index the planner would compare each chunk with each change.
        self.run(
            "INSERT INTO chunk_nodes SELECT n.index, n.chunk, n.degree, n.total, n.foreign_subjects + t.change "
            "FROM unnest(%(chunks)s::bigint[], %(changes)s::int[]) t(chunk, change) "
            f"{one_row('chunk_nodes', 'n', 'n.chunk = t.chunk')} "
            "ON CONFLICT (index, chunk) DO UPDATE SET foreign_subjects = excluded.foreign_subjects",
            chunks=chunks, changes=change,
        )  # fmt: skip
        (count,) = self._placed(
            len(chunks), "SELECT t.at - 1, n.foreign_subjects FROM unnest(%(chunks)s::bigint[]) "
            f"WITH ORDINALITY t(chunk, at) {one_row('chunk_nodes', 'n', 'n.chunk = t.chunk')}",
            np.int64, chunks=chunks,
        )  # fmt: skip
        self._count_leading(count, count - change)

    def _count_leading(self, now: Numbers, before: Numbers) -> None:
        """Count chunks as nodes, and those of them that lead to others, from their numbers of foreign subjects."""
        self._cursor.execute(
            "UPDATE graph_state SET chunks = chunks + %s, leading_chunks = leading_chunks + %s WHERE index = %s",
            (len(now) - len(before), int((now > 0).sum()) - int((before > 0).sum()), self._index),
        )


def similar_names(cursor: Cursor, index: int, least: float, names: Keys | None = None) -> Pairs:
    """Return pairs of names, of all or of some, whose vectors have at least this cosine similarity.

    Each name is compared with its eight nearest, as in the embedded engine.
    """
    chosen = "" if names is None else " AND key = ANY(%s)"
    cursor.execute(
        f"SELECT key, vector FROM name_vectors WHERE index = %s{chosen} ORDER BY key",
        (index,) if names is None else (index, names),
    )
    rows = cursor.fetchall()
    if not rows:
        return NONE, NONE
    keys, vectors = np.array([row[0] for row in rows], np.int64), matrix([row[1] for row in rows])
    first, second = [NONE], [NONE]
    for start in range(0, len(keys), _NAMES_PAGE):
        scores = vectors[start : start + _NAMES_PAGE] @ vectors.T
        scores[np.arange(len(scores)), start + np.arange(len(scores))] = -np.inf
        nearest = np.argpartition(-scores, min(_NEAREST, len(keys) - 1), axis=1)[:, :_NEAREST]
        one, place = np.nonzero(np.take_along_axis(scores, nearest, 1) >= least)
        ends = keys[start + one], keys[nearest[one, place]]
        first.append(np.minimum(*ends))
        second.append(np.maximum(*ends))
    return np.concatenate(first), np.concatenate(second)


def _plain(value: Any) -> Any:
    """Return a value as a database driver takes it; numbers stay an array, see ``database``."""
    return value.tolist() if isinstance(value, np.ndarray) and value.dtype.kind not in "ifb" else value


def _fetch(cursor: Cursor, sql: str, parameters: Any, *types: npt.DTypeLike) -> tuple[Any, ...]:
    """Return the columns of a query's rows as arrays."""

    def rows(sql: str, parameters: Any) -> Any:
        return cursor.execute(sql, parameters).fetchall()

    if object not in types:
        return columns(rows, sql, parameters, *types)
    found = [*zip(*rows(sql, parameters), strict=True)] or [()] * len(types)
    return tuple(_array(column, kind) for column, kind in zip(found, types, strict=True))


def _array(values: Sequence[Any], kind: npt.DTypeLike) -> npt.NDArray[Any]:
    if kind is object:
        found = np.empty(len(values), object)
        found[:] = values
        return found
    return np.array(values, kind)
