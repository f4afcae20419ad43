"""How the chunks in a scope use spellings, from the tables of an index in PostgreSQL.

Uses are read from the derived tables ``chunk_entities`` and ``fact_entities``, as far as the scope sees their chunks:
the row of an entity that has one spelling is a use of that spelling. Entities of several spellings may fall apart in a
scope. Their uses are read from the records: mentions and names of facts. So are all uses if the graph was edited.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.graph.change import NONE
from graphrag_core.engine.graph.live import unique_pairs
from graphrag_core.engine.graph.scoped import ScopedGraph
from graphrag_core.engine.graph.sparse import Flags, Numbers, Pairs, ranges
from graphrag_core.engine.postgres.graph import similar_names
from graphrag_core.engine.postgres.reads import SEES, Transaction, one_row
from graphrag_core.engine.postgres.schema import FACT_BITS
from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Keys, Scores
from graphrag_core.text import EDGE, hash64

_EDGE = hash64(EDGE)
_UNLIMITED = 1 << 40
_MERGED_READS = 4  # times the keys of a read: an earlier one of so many at most is merged with it
_NONE = "SELECT unnest('{}'::bigint[])"
_SEES_CHUNK, _SEES_FACT = SEES.format("chunk"), SEES.format(f"(fact >> {FACT_BITS})")
_MERGED = "IN (SELECT unnest(%(merged)s::bigint[]))"  # hashed by the server, unless it is a condition of its own


def _joined(given: str, table: str, condition: str) -> str:
    """Return a join of some rows, ``w``, with those of a table, which are looked up for each of them."""
    rows = f"SELECT * FROM {table} WHERE index = %(index)s AND {condition} OFFSET 0"
    return f"({given} OFFSET 0) w CROSS JOIN LATERAL ({rows})"


def _named(given: str, table: str, condition: str) -> str:
    """Return a join with mentions, or with names that facts hold, ``m``, that are those of an entity."""
    used = one_row("name_uses", "u", "u.spelling = m.spelling AND u.name = m.name AND u.named")
    return f"{_joined(given, table, condition)} m {used}"


_COLUMNS: dict[str, dict[str, npt.DTypeLike]] = {
    "in_chunks": {"chunk": np.int64, "spelling": np.int64, "subject": np.bool_},
    "facts_of": {"spelling": np.int64, "fact": np.int64},
    "weights": {"fact": np.int64, "weight": np.float64},
    "in_facts": {"fact": np.int64, "spelling": np.int64},
    "addresses": {"spelling": np.int64},
    "o": {"spelling": np.int64},
    "counts": {"spelling": np.int64, "chunks": np.int64, "subject": np.bool_},
    "chunks_of": {"spelling": np.int64, "chunk": np.int64, "subject": np.bool_},
}
"""What :func:`_uses_sql` returns."""


@cache
def _uses_sql(*, from_records: bool, has_addresses: bool) -> str:
    """Return the tables of :data:`_COLUMNS`: what chunks, spellings and facts use, and what uses them.

    Chunks are read for those of ``spellings`` that fewer than ``most`` chunks use. Facts are read by chunk: all facts
    of ``fact_chunks``, and of the chunks that have facts of ``related`` spellings and are not known yet. Chunks are
    counted for ``counted``, and for addresses, which may not exist in scope.
    """
    of_chunk, of_spelling, of_entity = "chunk = w.chunk", "spelling = w.spelling", "entity = w.spelling"
    in_chunk = f"fact >= w.chunk << {FACT_BITS} AND fact < (w.chunk + 1) << {FACT_BITS}"
    chunks, facts, related = "SELECT chunk FROM c", "SELECT chunk FROM f", "SELECT spelling FROM r"
    wanted = "SELECT spelling FROM o UNION SELECT spelling FROM d"
    uncertain, counts = ["counted", "addresses"], "SELECT 0, 0, false WHERE false"
    derived = {
        "derived_chunks(chunk, spelling, subject, merged)": "SELECT w.chunk, x.entity, x.weight > 1, "
        f"x.entity {_MERGED} FROM {_joined(chunks, 'chunk_entities', of_chunk)} x",
        "derived_facts(fact, spelling, merged)": f"SELECT x.fact, x.entity, x.entity {_MERGED} "
        f"FROM {_joined(facts, 'fact_entities', in_chunk)} x",
    }
    if from_records:
        in_chunks = f"SELECT m.chunk, m.spelling, m.subject FROM {_named(chunks, 'mentions', of_chunk)}"
        # The ends of explicit edges are in the derived table alone.
        linked = _joined(related, "fact_entities", f"{of_entity} AND {_SEES_FACT}")
        in_facts = (
            f"SELECT x.fact, x.entity FROM {_joined(facts, 'fact_entities', in_chunk)} x "
            f"UNION ALL SELECT m.fact, m.spelling FROM {_named(facts, 'fact_names', in_chunk)}"
        )
        uncertain.append("in_facts")
        chunks_of = ""
    else:
        is_merged, single = f"(spelling {_MERGED}) IS TRUE", f"(spelling {_MERGED}) IS FALSE"
        of_merged = "SELECT DISTINCT chunk FROM derived_chunks WHERE merged"
        in_chunks = (
            "SELECT chunk, spelling, subject FROM derived_chunks WHERE NOT merged "
            "UNION ALL SELECT m.chunk, m.spelling, m.subject "
            f"FROM {_named(of_merged, 'mentions', f'{of_chunk} AND {is_merged}')}"
        )
        of_merged = "SELECT DISTINCT fact FROM derived_facts WHERE merged"
        held = _named(of_merged, "fact_names", f"fact = w.fact AND {is_merged}")
        in_facts = (
            f"SELECT fact, spelling FROM derived_facts WHERE NOT merged UNION ALL SELECT m.fact, m.spelling FROM {held}"
        )
        linked = _joined(f"{related} WHERE {single}", "fact_entities", f"{of_entity} AND {_SEES_FACT}")
        uses = f"index = %(index)s AND {of_entity} AND {_SEES_CHUNK}"
        counts = (
            f"SELECT w.spelling, x.* FROM (SELECT spelling FROM d WHERE {single} OFFSET 0) w CROSS JOIN LATERAL "
            f"(SELECT count(*), coalesce(bool_or(weight > 1), false) FROM chunk_entities WHERE {uses}) x"
        )
        used = _joined(f"SELECT spelling FROM o WHERE {single}", "chunk_entities", f"{of_entity} AND {_SEES_CHUNK}")
        chunks_of = f"SELECT w.spelling, x.chunk, x.weight > 1 FROM {used} x UNION ALL "
        related, wanted = f"{related} WHERE {is_merged}", f"SELECT * FROM ({wanted}) e WHERE {is_merged}"
    held = _named(related, "fact_names", f"{of_spelling} AND {_SEES_FACT}")
    mentioned = _named(f"SELECT * FROM ({wanted}) e", "mentions", f"{of_spelling} AND {_SEES_CHUNK}")
    every = " UNION ".join(f"SELECT spelling FROM {name}" for name in ("o", "counted", "in_chunks", "in_facts"))
    many = f"index = %(index)s AND entity = s.spelling AND {_SEES_CHUNK} LIMIT s.most"
    weighted = _joined(facts, "facts", in_chunk.replace("fact", "key"))
    address = one_row("name_uses", "a", "a.spelling = w.spelling AND a.is_address")
    tables = {
        "c(chunk)": "SELECT unnest(%(chunks)s::bigint[])",
        "s(spelling, most)": "SELECT * FROM unnest(%(spellings)s::bigint[], %(most)s::bigint[])",
        "o(spelling)": f"SELECT spelling FROM s WHERE most = {_UNLIMITED} "
        f"OR (SELECT count(*) FROM (SELECT FROM chunk_entities WHERE {many}) few) < most",
        "r(spelling)": "SELECT unnest(%(related)s::bigint[])",
        "counted(spelling)": "SELECT unnest(%(counted)s::bigint[])",
        "facts_of(spelling, fact)": f"SELECT w.spelling, x.fact FROM {linked} x "
        f"UNION ALL SELECT w.spelling, m.fact FROM {held}",
        "f(chunk)": f"SELECT unnest(%(fact_chunks)s::bigint[]) UNION SELECT fact >> {FACT_BITS} FROM facts_of "
        f"WHERE ((fact >> {FACT_BITS}) IN (SELECT unnest(%(known_chunks)s::bigint[]))) IS FALSE",
        **({} if from_records else derived),
        "in_chunks(chunk, spelling, subject)": in_chunks,
        "in_facts(fact, spelling)": in_facts,
        "weights(fact, weight)": f"SELECT x.key, x.weight FROM {weighted} x",
        "addresses(spelling)": f"SELECT w.spelling FROM ({every}) w {address}" if has_addresses else _NONE,
        "d(spelling)": " UNION ".join(f"SELECT spelling FROM {name}" for name in uncertain),
        "chunks_of(spelling, chunk, subject)": f"{chunks_of}SELECT w.spelling, m.chunk, m.subject FROM {mentioned}",
        "counts(spelling, chunks, subject)": counts,
    }
    return ", ".join(f"{name} AS ({sql})" for name, sql in tables.items())


class _Rows:
    """Rows of several reads, by the key that they belong to."""

    def __init__(self, *types: npt.DTypeLike) -> None:
        self._types = types
        self._reads: list[tuple[Keys, Keys, Keys, list[npt.NDArray[Any]]]] = []  # keys, first rows, counts, columns

    def missing(self, keys: Keys) -> Keys:
        """Return the keys that were not read yet, in ascending order."""
        left = distinct(keys)
        for known, *_ in self._reads:
            left = left[~among(left, known)]
        return left

    def have(self, keys: Keys) -> Flags:
        """Return which keys were read."""
        found = np.zeros(len(keys), np.bool_)
        for known, *_ in self._reads:
            found |= among(keys, known)
        return found

    def add(self, keys: Keys, owners: Keys, *columns: npt.NDArray[Any]) -> None:
        """Keep the rows of keys, which are in ascending order."""
        if len(keys) == 0:
            return
        inside = among(owners, keys)
        if not inside.all():
            owners, columns = owners[inside], tuple(column[inside] for column in columns)
        place = keys.searchsorted(owners)
        order = np.argsort(place, kind="stable")
        counts, rows = np.bincount(place, minlength=len(keys)), [column[order] for column in columns]
        first = counts.cumsum() - counts
        while self._reads and len(self._reads[-1][0]) <= _MERGED_READS * len(keys):  # so that there are few of them
            known, own_first, own_counts, own_rows = self._reads.pop()
            order = np.argsort(np.concatenate([known, keys]))
            starts = np.concatenate([own_first, first + len(own_rows[0])])[order]
            keys, counts = np.concatenate([known, keys])[order], np.concatenate([own_counts, counts])[order]
            wanted = ranges(starts, counts)
            rows = [np.concatenate(both)[wanted] for both in zip(own_rows, rows, strict=True)]
            first = counts.cumsum() - counts
        self._reads.append((keys, first, counts, rows))

    def get(self, keys: Keys) -> tuple[Any, ...]:
        """Return the rows of keys: the place of the key, and the columns."""
        left, places, parts = np.arange(len(keys)), list[Numbers](), list[list[npt.NDArray[Any]]]()
        for known, first, counts, columns in reversed(self._reads):
            at = np.minimum(known.searchsorted(keys[left]), len(known) - 1)
            found = known[at] == keys[left]
            if found.all() and not parts and len(left) == len(known) and np.array_equal(known, keys):
                return np.repeat(left, counts), *columns
            at = at[found]
            rows = ranges(first[at], counts[at])
            places.append(np.repeat(left[found], counts[at]))
            parts.append([column[rows] for column in columns])
            left = left[~found]
            if len(left) == 0:
                break
        if len(parts) == 1:
            return places[0], *parts[0]
        if not parts:
            return NONE, *(np.empty(0, kind) for kind in self._types)
        return np.concatenate(places), *(np.concatenate(columns) for columns in zip(*parts, strict=True))


class TableScope(ScopedGraph):
    """The graph of the chunks in a scope. Edges are read in one statement, and chunks are counted by the server."""

    _uses: SpellingUses

    def counts(self, entities: Keys) -> tuple[Keys, Flags]:
        """Return how many chunks mention each entity, and whether it is the subject of any."""
        members, _ = self._merged
        counted = self._uses.can_count(entities) & ~among(entities, members)
        counts, subjects = np.zeros(len(entities), np.int64), np.zeros(len(entities), np.bool_)
        counts[counted], subjects[counted] = self._uses.counts(entities[counted])
        counts[~counted], subjects[~counted] = super().counts(entities[~counted])
        return counts, subjects

    def names(self, entities: Keys) -> Pairs:
        """Return the names of entities that chunks in scope write: how many each has, and their keys."""
        member_of, spellings = self._members(entities)
        owner, names = self._uses.written(spellings)
        owner, names = unique_pairs(member_of[owner], names)
        return np.bincount(owner, minlength=len(entities)), names

    def _read_mentions(self, nodes: Keys) -> None:
        missing = self._mentions.missing(nodes, self.node_limit)
        if len(missing):
            first = missing.searchsorted(self.first_entity)
            self._uses.prepare(missing[:first], self._members(missing[first:])[1])
        super()._read_mentions(nodes)

    def degrees(self, nodes: Keys, most: npt.NDArray[np.float64] | None = None) -> Scores:
        """Return the number of mentions of each node. An entity that so many chunks use is looked at no further."""
        found = np.zeros(len(nodes), np.float32)
        if most is not None:
            unread = np.flatnonzero(~self._mentions.have(nodes, self.node_limit))
            is_chunk = nodes[unread] < self.first_entity
            member_of, spellings = self._members(nodes[unread[~is_chunk]])
            places = unread[~is_chunk][member_of]
            many = places[self._uses.prepare(nodes[unread[is_chunk]], spellings, most[places])]
            found[many] = most[many]
        few = found == 0
        found[few] = super().degrees(nodes[few])
        return found


class SpellingUses:
    """How the chunks in a scope use spellings: see :class:`~graphrag_core.engine.graph.scoped.Uses`.

    What was read is kept: the stages of a query ask for the same again.
    """

    def __init__(self, transaction: Transaction, similar: float | None, *, has_edits: bool) -> None:
        self._transaction = transaction
        self._numbering = transaction.numbering
        self._scope = transaction.scope
        self._similar = similar
        self._has_edits = has_edits
        self._from_records = has_edits or transaction.scope.mask["mask"] is None
        self._in_chunks, self._chunks_of = _Rows(np.int64, np.bool_, np.bool_), _Rows(np.int64, np.bool_)
        self._facts_of, self._in_facts, self._weights = _Rows(np.int64), _Rows(np.int64, np.bool_), _Rows(np.float32)
        self._counts = _Rows(np.int64, np.bool_)
        self._fact_chunks = NONE  # keys of chunks whose facts were read
        self._known = self._addresses = NONE  # spellings of which it is known whether they are addresses, and those
        self.first_entity = transaction.numbering.first_entity

    @property
    def node_limit(self) -> int:
        return self._numbering.node_limit

    def _columns(self, sql: str, *types: npt.DTypeLike, **parameters: Any) -> tuple[Any, ...]:
        return self._transaction.columns(sql, *types, **self._scope.mask, **parameters)

    # -- names

    def find(self, hashes: Sequence[int]) -> dict[int, int]:
        (known,) = self._columns(
            f"SELECT w.number FROM unnest(%(hashes)s::bigint[]) w(number) "
            f"{one_row('spellings', 's', 's.number = w.number')}",
            np.int64, hashes=np.array(hashes, np.int64),
        )  # fmt: skip
        return dict(zip(known.tolist(), self._numbering.of_entities(known).tolist(), strict=True))

    def hashes(self, spellings: Keys) -> Keys:
        return self._numbering.entities(spellings)

    def places(self, nodes: Keys) -> Keys:
        is_chunk = nodes < self.first_entity
        keys = np.empty(len(nodes), np.int64)
        keys[is_chunk] = self._numbering.chunks(nodes[is_chunk])
        keys[~is_chunk] = self._numbering.entities(nodes[~is_chunk])
        found = np.empty(len(nodes), np.int64)
        found[np.lexsort((keys, ~is_chunk))] = np.arange(len(nodes))
        return found

    def of_names(self, names: Keys) -> Keys:
        found = np.full(len(names), -1, np.int64)
        name, spelling = self._columns(
            "SELECT n.key, n.spelling FROM names n "
            f"{one_row('name_uses', 'u', 'u.spelling = n.spelling AND u.name = n.key')} "
            "WHERE n.index = %(index)s AND n.key = ANY(%(names)s) AND u.named ORDER BY n.key",
            np.int64, np.int64, names=names,
        )  # fmt: skip
        known = among(names, name)
        found[known] = self._numbering.of_entities(spelling[np.searchsorted(name, names[known])])
        return found

    def names_of(self, spellings: Keys) -> tuple[Numbers, Keys, Keys]:
        given = "SELECT * FROM unnest(%(spellings)s::bigint[]) WITH ORDINALITY t(spelling, at)"
        mentions = _named(given, "mentions", f"spelling = w.spelling AND {_SEES_CHUNK}")
        at, chunk, name = self._columns(
            f"SELECT w.at - 1, m.chunk, m.name FROM {mentions}",
            np.int64, np.int64, np.int64, spellings=self._numbering.entities(spellings),
        )  # fmt: skip
        seen = self._scope.sees(chunk)
        return at[seen], self._numbering.of_chunks(chunk[seen]), name[seen]

    def written(self, spellings: Keys) -> tuple[Numbers, Keys]:
        """Return the names that chunks in scope write in these spellings: the place of the spelling, and the name."""
        if self._scope.mask["mask"] is None:
            owner, _, names = self.names_of(spellings)
            return owner, names
        at, name = self._columns(
            "SELECT w.at - 1, u.name FROM unnest(%(spellings)s::bigint[]) WITH ORDINALITY w(spelling, at) CROSS JOIN "
            "LATERAL (SELECT name FROM name_uses WHERE index = %(index)s AND spelling = w.spelling AND named OFFSET 0) "
            "u WHERE EXISTS (SELECT FROM mentions WHERE index = %(index)s "
            f"AND spelling = w.spelling AND name = u.name AND {_SEES_CHUNK})",
            np.int64, np.int64, spellings=self._numbering.entities(spellings),
        )  # fmt: skip
        return at, name

    @cached_property
    def _aliases(self) -> tuple[Keys, Keys, Keys, bool]:
        """The short and the long spellings of aliases in scope, all spellings that are one entity with others.

        And whether there are addresses.
        """
        named = "a.{0}_spelling AND {1}.name = a.{0} AND {1}.named"
        short, long, chunk = self._columns(
            "SELECT a.short_spelling, a.long_spelling, a.chunk FROM aliases a "
            f"{one_row('name_uses', 'u', 'u.spelling = ' + named.format('short', 'u'))} "
            f"{one_row('name_uses', 'v', 'v.spelling = ' + named.format('long', 'v'))} "
            f"WHERE a.index = %(index)s AND {SEES.format('a.chunk')} "
            "UNION ALL SELECT number, entity, -1 FROM spellings WHERE index = %(index)s AND entity <> number "
            "UNION ALL (SELECT 0, 0, -2 FROM name_uses WHERE index = %(index)s AND is_address LIMIT 1)",
            np.int64, np.int64, np.int64,
        )  # fmt: skip
        merged = chunk == -1
        seen = (chunk >= 0) & self._scope.sees(chunk)
        return short[seen], long[seen], distinct(short[merged], long[merged]), bool((chunk == -2).any())

    @cached_property
    def _merged(self) -> Keys:
        """The spellings that are one entity with others, in ascending order of their numbers."""
        return np.sort(self._numbering.of_entities(self._aliases[2]))

    def aliases(self) -> Pairs:
        short, long, *_ = self._aliases
        return self._numbering.of_entities(short), self._numbering.of_entities(long)

    def similar(self) -> Pairs:
        if self._similar is None:
            return NONE, NONE
        with self._transaction.cursor() as cursor:
            ends = similar_names(cursor, self._transaction.index, self._similar)
        first, second = (self.of_names(end) for end in ends)
        both = (first >= 0) & (second >= 0)
        return first[both], second[both]

    def every_spelling(self) -> Keys:
        spelling, chunk = self._columns(
            f"SELECT DISTINCT spelling, chunk FROM mentions WHERE index = %(index)s AND {_SEES_CHUNK}",
            np.int64, np.int64,
        )  # fmt: skip
        return self._numbering.of_entities(distinct(spelling[self._scope.sees(chunk)]))

    # -- uses

    def prepare(self, chunks: Keys, spellings: Keys, most: npt.NDArray[np.float64] | None = None) -> Flags:
        """Read the mentions of chunks and spellings in one statement.

        Spellings that at least ``most`` chunks use are left out; return which.
        """
        chunks, wanted = self._in_chunks.missing(chunks), self._chunks_of.missing(spellings)
        if len(chunks) or len(wanted):
            limits = None
            if most is not None and not self._from_records:
                order = np.argsort(spellings)
                of_wanted = most[order[spellings[order].searchsorted(wanted)]]
                limits = np.where(among(wanted, self._merged), _UNLIMITED, np.ceil(of_wanted.clip(max=_UNLIMITED)))
            self._read(chunks=chunks, spellings=wanted, most=limits)
        return ~self._chunks_of.have(spellings)

    def chunks_of(self, spellings: Keys) -> tuple[Numbers, Keys, Flags]:
        if len(missing := self._chunks_of.missing(spellings)):
            self._read(spellings=missing)
        return self._chunks_of.get(spellings)

    def can_count(self, spellings: Keys) -> Flags:
        """Return which spellings :meth:`counts` takes: their chunks were not read, and they are entities of one."""
        return ~(among(spellings, self._merged) | self._chunks_of.have(spellings) | self._from_records)

    def counts(self, spellings: Keys) -> tuple[Keys, Flags]:
        """Return how many chunks use each spelling, and whether it is the subject of any; 0 if it does not exist."""
        if len(missing := self._counts.missing(spellings)):
            self._read(counted=missing)
        place, count, subject = self._counts.get(spellings)
        counts, subjects = np.zeros(len(spellings), np.int64), np.zeros(len(spellings), np.bool_)
        counts[place], subjects[place] = count, subject
        return counts, subjects

    def facts_of(self, spellings: Keys) -> Pairs:
        if len(missing := self._facts_of.missing(spellings)):
            self._read(related=missing)
        return self._facts_of.get(spellings)

    def in_chunks(self, chunks: Keys) -> tuple[Numbers, Keys, Flags, Flags]:
        if len(missing := self._in_chunks.missing(chunks)):
            self._read(chunks=missing)
        return self._in_chunks.get(chunks)

    def in_facts(self, facts: Keys) -> tuple[Numbers, Keys, Flags]:
        self._read_facts(facts)
        return self._in_facts.get(facts)

    def weights(self, facts: Keys) -> npt.NDArray[np.float32]:
        self._read_facts(facts)
        place, weight = self._weights.get(facts)
        found = np.empty(len(facts), np.float32)
        found[place] = weight
        return found

    def _read_facts(self, facts: Keys) -> None:
        chunks = distinct(facts >> FACT_BITS)
        if len(missing := chunks[~among(chunks, self._fact_chunks)]):
            self._read(fact_chunks=missing)

    def are_addresses(self, spellings: Keys) -> Flags:
        missing = distinct(spellings)
        if len(missing := missing[~among(missing, self._known)]):
            (found,) = self._columns(
                "SELECT DISTINCT spelling FROM name_uses WHERE index = %(index)s AND spelling = ANY(%(spellings)s) "
                "AND is_address",
                np.int64, spellings=self._numbering.entities(missing),
            )  # fmt: skip
            self._note_addresses(missing, self._numbering.of_entities(found))
        return among(spellings, self._addresses)

    def _note_addresses(self, known: Keys, addresses: Keys) -> None:
        self._known = distinct(self._known, known)
        self._addresses = distinct(self._addresses, addresses)

    def _read(
        self,
        *,
        chunks: Keys = NONE,
        spellings: Keys = NONE,
        most: npt.NDArray[Any] | None = None,
        related: Keys = NONE,
        fact_chunks: Keys = NONE,
        counted: Keys = NONE,
    ) -> None:
        """Read what uses spellings, and what chunks and facts use, all given in ascending order and not read yet.

        Facts are given by the keys of their chunks, or as those of ``related`` spellings. Of ``counted`` spellings only
        the number of chunks is read.
        """
        numbering, from_records = self._numbering, self._from_records
        read = self._transaction.arrays(
            _uses_sql(from_records=from_records, has_addresses=self._aliases[3]),
            _COLUMNS,
            chunks=numbering.chunks(chunks),
            spellings=numbering.entities(spellings),
            most=np.full(len(spellings), _UNLIMITED) if most is None else most.astype(np.int64),
            fact_chunks=fact_chunks,
            known_chunks=self._fact_chunks,
            related=numbering.entities(related),
            counted=numbering.entities(counted),
            merged=self._aliases[2],
            **self._scope.mask,
        )
        spelt = [name for name, columns in _COLUMNS.items() if "spelling" in columns]
        numbers = numbering.of_entities(np.concatenate([read[name]["spelling"] for name in spelt]))
        ends = np.cumsum([len(read[name]["spelling"]) for name in spelt])[:-1]
        of = dict(zip(spelt, np.split(numbers, ends), strict=True))
        addresses = distinct(of["addresses"])
        self._note_addresses(distinct(counted, numbers), addresses)

        fact = read["facts_of"]["fact"]
        seen = self._scope.sees(fact >> FACT_BITS)
        self._facts_of.add(related, of["facts_of"][seen], fact[seen])
        new_facts = np.sort(read["weights"]["fact"])
        self._fact_chunks = distinct(self._fact_chunks, new_facts >> FACT_BITS)
        self._weights.add(new_facts, read["weights"]["fact"], read["weights"]["weight"].astype(np.float32))
        doubtful = np.full(len(of["in_facts"]), True) if self._has_edits else among(of["in_facts"], addresses)
        self._in_facts.add(new_facts, read["in_facts"]["fact"], of["in_facts"], doubtful)
        columns = read["in_chunks"]
        doubtful = among(of["in_chunks"], addresses)
        self._in_chunks.add(
            chunks, numbering.of_chunks(columns["chunk"]), of["in_chunks"], columns["subject"], doubtful
        )

        uncertain = distinct(counted, addresses, *([of["in_facts"]] if from_records else []))
        has_rows = np.full(len(uncertain), True) if from_records else among(uncertain, self._merged)
        columns = read["chunks_of"]
        seen = self._scope.sees(columns["chunk"])
        self._chunks_of.add(
            self._chunks_of.missing(distinct(of["o"], uncertain[has_rows])),
            of["chunks_of"][seen],
            numbering.of_chunks(columns["chunk"][seen]),
            columns["subject"][seen],
        )
        columns = read["counts"]
        self._counts.add(
            self._counts.missing(uncertain[~has_rows]), of["counts"], columns["chunks"], columns["subject"]
        )

    # -- facts

    def chunks_of_facts(self, facts: Keys) -> Keys:
        return self._numbering.of_chunks(facts >> FACT_BITS)

    def hidden(self, facts: Keys) -> Flags:
        (found,) = self._columns(
            "SELECT fact FROM hidden_facts WHERE index = %(index)s AND fact = ANY(%(facts)s)", np.int64, facts=facts
        )
        return np.isin(facts, found)

    def are_edges(self, facts: Keys) -> Flags:
        (found,) = self._columns(
            "SELECT fact FROM fact_names WHERE index = %(index)s AND spelling = %(edge)s AND fact = ANY(%(facts)s)",
            np.int64, facts=facts, edge=_EDGE,
        )  # fmt: skip
        return np.isin(facts, found)
