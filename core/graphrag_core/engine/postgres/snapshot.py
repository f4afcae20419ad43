"""The rankings and rows of an index in PostgreSQL, for :class:`~graphrag_core.engine.graph.snapshot.StoreSnapshot`.

Numbers of chunks and entities are given as a snapshot sees them (see
:class:`~graphrag_core.engine.postgres.reads.Numbering`); facts have the keys of their rows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphrag_core.deadline import check_deadline
from graphrag_core.engine.graph.memory import MemoryGraph
from graphrag_core.engine.graph.snapshot import GraphReads, fact_copies
from graphrag_core.engine.postgres.database import Halfvec, matrix
from graphrag_core.engine.postgres.keywords import Keywords
from graphrag_core.engine.postgres.reads import SEES, VECTORS, Transaction, one_row, rows_of
from graphrag_core.engine.postgres.schema import FACT_BITS
from graphrag_core.engine.postgres.walk import ScopeGraph, TableGraph
from graphrag_core.engine.rows import Accesses, Row
from graphrag_core.engine.tables import TableReads, chunk_of
from graphrag_core.key_sets import best
from graphrag_core.model import Chunk
from graphrag_core.ports import Keys, Kind, Matrix, Ranking, Scores

_MORE = 16  # vectors read besides those wanted
_ROUNDING = 6e-4  # more than a cosine changes if the query is rounded to half precision: at most 2**-11
_FEW = 4  # times as many chunks as are in scope: from which on their vectors are looked up one by one
_MOST_COUNTED = 100_000  # facts of an entity
_KINDS = {"chunks": "chunks", "facts": "facts", "entities": "names"}


class PostgresReads(TableReads):
    """Reads of one generation on PostgreSQL, restricted to a scope.

    Parameters
    ----------
    transaction
        The transaction, with the scope.
    approximate
        The kinds whose vectors are searched with an HNSW index.
    scope
        The graph of a small scope; None if the tables are walked.
    """

    def __init__(
        self, transaction: Transaction, accesses: Accesses, approximate: Sequence[str], scope: MemoryGraph | None
    ) -> None:
        self.transaction = self._tables = transaction
        self._accesses = accesses
        self.names = transaction.names
        self.rows = transaction.rows
        self._index = transaction.index
        self.graph: GraphReads
        if scope is None:
            numbering = transaction.cache.numbering
            self.graph = TableGraph(transaction)
            self._chunk_keys, self._chunk_numbers = numbering.chunks, numbering.of_chunks
        else:
            self.graph = ScopeGraph(transaction, scope)
            self._chunk_keys, self._chunk_numbers = scope["chunks.key"].__getitem__, scope["chunks.key"].searchsorted
        self._small = scope
        self._fact_keys = self._fact_numbers = np.asarray
        self._sees = None if transaction.scope.is_everything else transaction.scope.sees
        self._approximate = approximate
        self._keywords = Keywords(transaction)
        self.term_counts = self._keywords.counts
        self.generation, self.unknown_keys = transaction.generation, transaction.unknown_keys
        self.chunk_count = transaction.chunk_count
        self.statistics_count = transaction.statistics_count
        self._cache, self.edits = transaction.cache, transaction.edits
        self._near_facts: Keys = np.empty(0, np.int64)  # facts of the best chunks
        self._chunk_rows: dict[int, Row] = {}

    # -- rankings

    def has(self, kind: Kind, *, vectors: bool = False) -> bool:
        if vectors:
            return self.transaction.has_vectors[_KINDS[kind]]
        if kind == "chunks" or self.chunk_count == 0:
            return bool(self.chunk_count)
        if kind == "facts":
            return bool(self.transaction.fact_count)
        return bool(self.rows("SELECT EXISTS (SELECT FROM mentions WHERE index = %s)", (self._index,))[0][0])

    def nearest(self, kind: str, vectors: Matrix, k: int) -> list[Ranking]:
        vectors = np.ascontiguousarray(np.atleast_2d(vectors), np.float32)
        if k < 1 or not self.transaction.has_vectors[kind]:
            return [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in vectors]
        found = self._nearest(kind, vectors, k)
        if kind != "chunks":
            return found
        return [(self._chunk_numbers(keys), scores) for keys, scores in found]

    def _nearest(self, kind: str, queries: Matrix, k: int) -> list[Ranking]:
        """Return for each query the best ``k`` keys and scores, best first, and what ties with the last."""
        found = self._candidates(kind, queries, k + _MORE)
        if kind in self._approximate and self._sees is not None and any(len(keys) < k for keys, _ in found):
            found = self._candidates(kind, queries, k + _MORE, exact=True)  # too few of those it visited are in scope
        rankings = []
        for query, (keys, vectors) in zip(queries, found, strict=True):
            wanted = k + _MORE
            scores: Scores = np.vecdot(vectors, query) if len(keys) else np.empty(0, np.float32)
            # Ties are cut off, or what would be one if the server rounded as we do.
            while len(keys) >= wanted and scores[-1] >= np.sort(scores)[len(scores) - k] - _ROUNDING:
                check_deadline()
                wanted *= 4
                ((keys, vectors),) = self._candidates(kind, query[None, :], wanted)  # noqa: PLW2901
                scores = np.vecdot(vectors, query)
            if kind == "chunks":
                self._cache.vectors.update(zip(keys.tolist(), vectors, strict=True))
            rankings.append(best(keys, scores, k))
        return rankings

    def _candidates(self, kind: str, queries: Matrix, count: int, *, exact: bool = False) -> list[tuple[Keys, Matrix]]:
        """Return for each query the keys and vectors of the nearest, nearest first, in one statement.

        In a large scope, an HNSW index visits so many vectors that enough of them are in scope.
        """
        table, scope = VECTORS[kind], self.transaction.scope
        parameters: dict[str, Any] = {"index": self._index, "count": count, "queries": Halfvec.rows(queries)}
        column, index, settings, where, given = "v.vector", "%(index)s", dict[str, str](), "", ""
        chunk = f"(v.key >> {FACT_BITS})" if kind == "facts" else "v.key"
        chunks = scope.chunks
        if kind == "names" and chunks is not None:
            parameters["inside"] = self._names_in(chunks) if self._small is None else self._small["names.key"]
            given, where = (
                "unnest(%(inside)s) c(key) CROSS JOIN LATERAL (SELECT * FROM ",
                " AND v.key = c.key OFFSET 0) v",
            )
        elif kind == "names" and not scope.is_everything:
            parameters["hidden"] = self._names_in(scope.hidden, alone=True)
            where = " AND v.key <> ALL(%(hidden)s)"
        elif chunks is not None and _FEW * len(chunks) < self.statistics_count:
            parameters["inside"] = chunks
            given = "unnest(%(inside)s) c(key) CROSS JOIN LATERAL (SELECT * FROM "
            held = f"v.key >= c.key << {FACT_BITS} AND v.key < (c.key + 1) << {FACT_BITS}"
            where = f" AND {held if kind == 'facts' else 'v.key = c.key'} OFFSET 0) v"
        elif not scope.is_everything:
            parameters |= scope.mask
            where = f" AND {SEES.format(chunk)}"
        if kind in self._approximate and not given and not exact:
            # Literals, which the planner compares with the condition and the expression of the index.
            column, index = f"(v.vector::halfvec({queries.shape[1]}))", str(self._index)
            visited = min(max(2 * count * self.statistics_count // max(self.chunk_count, 1), 100), 1000)
            settings = {"hnsw.ef_search": str(visited)}
        sql = (
            f"SELECT q.number, near.key, near.vector FROM unnest(%(queries)b) WITH ORDINALITY AS q(vector, number), "
            f"LATERAL (SELECT v.key, v.vector, {column} <#> q.vector AS distance FROM {given}{table} v "
            f"WHERE v.index = {index}{where} ORDER BY {column} <#> q.vector LIMIT %(count)s) AS near "
            "ORDER BY q.number, near.distance"
        )
        rows = self.transaction.rows_unsorted(settings, sql, parameters)
        found: list[list[Row]] = [[] for _ in queries]
        for row in rows:
            found[row[0] - 1].append(row)
        return [(np.array([row[1] for row in own], np.int64), matrix([row[2] for row in own])) for own in found]

    def _names_in(self, chunks: Keys, *, alone: bool = False) -> Keys:
        """Return the names that chunks, given by key, mention; ``alone``: that no other chunk mentions."""
        others = (
            "WHERE NOT EXISTS (SELECT FROM mentions o WHERE o.index = %(index)s AND o.entity = m.entity "
            "AND o.name = m.name AND o.chunk <> ALL(%(chunks)s))"
        )
        (names,) = self.transaction.columns(
            f"SELECT DISTINCT m.name FROM {rows_of('mentions', 'm', 'chunk', 'chunks')} {others if alone else ''}",
            np.int64,
            chunks=chunks,
        )
        return names  # type: ignore[no-any-return]

    def keywords(self, kind: str, text: str, k: int) -> Ranking:
        keys, scores = self._keywords.search(kind, text, k)
        if kind == "facts":
            self.transaction.see_facts(np.concatenate([keys, self._near_facts]))
            return keys, scores
        return self._chunk_numbers(keys), scores

    def similarities(self, kind: str, keys: Keys, vector: Matrix) -> Scores:
        found = np.zeros(len(keys), np.float32)
        wanted = self._chunk_keys(keys) if kind == "chunks" else keys
        if kind == "chunks":
            self.transaction.see_chunks(wanted)
            vectors = self._cache.vectors
        else:
            self.transaction.see_facts(wanted)
            vectors = self._cache.fact_vectors
        known = [at for at, key in enumerate(wanted.tolist()) if len(vectors.get(key, ()))]
        if known:
            # Row by row: a matrix product rounds a row differently by its position.
            found[known] = np.vecdot(np.stack([vectors[key] for key in wanted[known].tolist()]), vector)
        return found

    def id_places(self, chunks: Keys) -> Keys:
        """Return numbers that sort these chunks; those of another call are not comparable."""
        distinct, place = np.unique(self._chunk_keys(chunks), return_inverse=True)
        wanted, ids = distinct.tolist(), self._cache.ids
        if missing := [key for key in wanted if key not in ids]:
            rows = self.rows(
                f"SELECT n.key, n.id FROM {rows_of('chunks', 'n', 'key', 'keys')}",
                {"index": self._index, "keys": np.array(missing, np.int64)},
            )
            ids.update(rows)
        order = sorted(range(len(wanted)), key=[ids[key] for key in wanted].__getitem__)
        ranks = np.empty(len(wanted), np.int64)
        ranks[order] = np.arange(len(wanted))
        places: Keys = ranks[place]
        return places

    # -- rows

    def signatures(self, chunks: Keys) -> list[tuple[int, Sequence[int]]]:
        """Return the signatures of chunks, and of all in scope that have one in common with them.

        The given chunks are read with them, since the chunks of a result are asked for next.
        """
        # The index of signatures alone: the planner would also read the keys of all chunks.
        near = f"SELECT array_agg(DISTINCT n) FROM {rows_of('chunks', 'o', 'key', 'keys')}, unnest(o.near) AS n"
        chunk = (
            f"SELECT {self.transaction.chunk_columns} FROM documents d "
            "WHERE c.key = ANY(%(keys)s) AND d.index = %(index)s AND d.key = c.document"
        )
        rows = self.rows(
            f"SELECT c.key, c.near, w.* FROM (SELECT * FROM chunks WHERE near && ({near}) OFFSET 0) c "
            f"LEFT JOIN LATERAL ({chunk}) w ON true WHERE c.index = %(index)s",
            {"index": self._index, "keys": self._chunk_keys(chunks)},
        )
        self._chunk_rows.update((row[0], row[2:]) for row in rows if row[2] is not None)
        return [(number, rows[at][1]) for at, number in self._in_scope(rows)]

    def chunks(self, chunks: Keys) -> list[Chunk]:
        """Return chunks in the order given."""
        keys, rows = self._chunk_keys(chunks).tolist(), self._chunk_rows
        if missing := [key for key in keys if key not in rows]:
            found = self.transaction.chunk_rows("c.key = ANY(%s)", np.array(missing, np.int64))
            rows.update((row[0], row) for row in found)
        self._cache.ids.update((key, rows[key][1]) for key in keys)
        return [chunk_of(rows[key]) for key in keys]

    def chunk_terms(self, chunks: Keys) -> list[tuple[bytes, bytes]]:
        keys, terms = self._chunk_keys(chunks).tolist(), self._cache.terms
        if missing := [key for key in dict.fromkeys(keys) if key not in terms]:
            rows = self.rows(
                f"SELECT n.key, n.id, n.terms, n.fact_terms FROM {rows_of('chunks', 'n', 'key', 'keys')}",
                {"index": self._index, "keys": np.array(missing, np.int64)},
            )
            terms.update((row[0], (row[2], row[3] or b"")) for row in rows)
            self._cache.ids.update((row[0], row[1]) for row in rows)
        return [terms[key] for key in keys]

    def facts_in(self, chunks: Keys) -> Keys:
        keys = self._chunk_keys(chunks)
        self.transaction.see_chunks(keys)
        self._near_facts = np.concatenate(
            [np.empty(0, np.int64), *(self._cache.facts_in[key] for key in keys.tolist())]
        )
        return self._near_facts

    def fact_places(self, facts: Keys) -> tuple[Keys, Keys]:
        return self._chunk_numbers(facts >> FACT_BITS), facts & ((1 << FACT_BITS) - 1)

    def fact_columns(self, facts: Keys) -> tuple[Scores, Keys]:
        columns = self._cache.columns
        if missing := [fact for fact in dict.fromkeys(facts.tolist()) if fact not in columns]:
            rows = self.rows(
                f"SELECT f.key, f.weight, f.statement FROM {rows_of('facts', 'f', 'key', 'keys')}",
                {"index": self._index, "keys": np.array(missing, np.int64)},
            )
            columns.update((row[0], (row[1], row[2])) for row in rows)
        found = [columns[fact] for fact in facts.tolist()]
        return np.array([row[0] for row in found], np.float32), np.array([row[1] for row in found], np.int64)

    def claims(self, names: Sequence[int]) -> list[tuple[int, str, str]]:
        claims = self._cache.claims
        if all(name in claims for name in names):
            return [claim for name in names for claim in claims[name]]
        return super().claims(names)

    def fact_copies(self, facts: Keys) -> list[Keys]:
        """Return the others that say the same. Only facts about the rarest entity of a fact are compared with it."""
        if not self.transaction.scope.is_everything:
            return fact_copies(self, facts)
        fact, other = self.transaction.columns(
            "SELECT w.fact, o.key FROM unnest(%(facts)s::bigint[]) w(fact) "
            f"{one_row('facts', 'f', 'f.key = w.fact')} CROSS JOIN LATERAL (SELECT x.entity, "
            "(SELECT count(*) FROM (SELECT FROM fact_entities y WHERE y.index = x.index AND y.entity = x.entity "
            "LIMIT %(most)s) c) AS uses FROM fact_entities x WHERE x.index = %(index)s AND x.fact = w.fact "
            "ORDER BY uses, x.entity LIMIT 1) r CROSS JOIN LATERAL (SELECT fact FROM fact_entities "
            f"WHERE index = %(index)s AND entity = r.entity OFFSET 0) y {one_row('facts', 'o', 'o.key = y.fact')} "
            "WHERE o.statement = f.statement AND o.key <> f.key ORDER BY 1, 2",
            np.int64, np.int64, facts=np.unique(facts), most=_MOST_COUNTED,
        )  # fmt: skip
        return [other[fact == one] for one in facts.tolist()]

    def count_entities(self) -> int:
        """Return the number of entities that are neither addresses nor numbers, for the statistics of the index."""
        rows = self.rows(
            "SELECT count(*) FROM entities e WHERE e.index = %(index)s AND NOT e.is_address AND NOT EXISTS ("
            "SELECT FROM names n WHERE n.index = e.index AND n.spelling = e.id AND n.surface !~ '[^0-9]')",
            {"index": self._index},
        )
        return int(rows[0][0]) - len(self.transaction.generic)
