"""``PostgresStore``: the rankings and rows of an index in PostgreSQL."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphrag_core.deadline import check_deadline
from graphrag_core.engine.graph.memory import GraphView, MemoryGraph
from graphrag_core.engine.postgres.database import Halfvec, matrix
from graphrag_core.engine.postgres.keywords import Keywords
from graphrag_core.engine.postgres.reads import SEES, VECTORS, Transaction, rows_of
from graphrag_core.engine.postgres.schema import FACT_BITS
from graphrag_core.engine.postgres.walk import TableGraph
from graphrag_core.engine.rows import Accesses, Row
from graphrag_core.engine.store import RecentRows, Store
from graphrag_core.engine.tables import chunk_of
from graphrag_core.key_sets import best
from graphrag_core.model import Chunk, Entity
from graphrag_core.ports import Keys, Kind, Matrix, Ranking, Scores

_MORE = 16  # vectors read besides those wanted
_ROUNDING = 6e-4  # more than a cosine changes if the query is rounded to half precision: at most 2**-11
_FEW = 4  # the share of chunks in scope, as a divisor, below which their vectors are looked up one by one
_MOST_COUNTED = 100_000  # facts of an entity
_KINDS = {"chunks": "chunks", "facts": "facts", "entities": "names"}
_NONE: Keys = np.empty(0, np.int64)


class PostgresStore(Store):
    """One generation of an index in PostgreSQL, restricted to a scope.

    Parameters
    ----------
    transaction
        The transaction, with the scope.
    approximate
        The kinds whose vectors are searched with an HNSW index.
    graph
        The graph of a small scope; None if the tables are walked. Then facts have the keys of their rows as numbers.
    """

    def __init__(
        self, transaction: Transaction, accesses: Accesses, approximate: Sequence[str], graph: MemoryGraph | None
    ) -> None:
        self.tables = self._transaction = transaction
        self.accesses = accesses
        self.names, self.rows = transaction.names, transaction.rows
        self._cache, self._small, self._approximate = transaction.cache, graph, approximate
        if graph is None:
            self.numbering = numbering = transaction.cache.numbering
            self.graph = TableGraph(transaction)
            self.chunk_keys, self.chunk_numbers = numbering.chunks, numbering.of_chunks
            self.fact_keys = self.fact_numbers = np.asarray
        else:
            self.numbering, self.graph = graph, GraphView(graph, None)
            self.chunk_keys, self.chunk_numbers = graph["chunks.key"].__getitem__, graph["chunks.key"].searchsorted
            self.fact_keys, self.fact_numbers = graph["facts.key"].__getitem__, graph["facts.key"].searchsorted
        self.linked_share = transaction.linked_share
        self.sees = None if transaction.scope.is_everything else transaction.scope.sees
        self._keywords = Keywords(transaction)
        self.generation, self.unknown_keys = transaction.generation, transaction.unknown_keys
        self.chunk_count, self.statistics_count = transaction.chunk_count, transaction.statistics_count
        self.edits = transaction.edits
        self._near_facts = _NONE  # keys of the facts of the best chunks
        self._chunk_rows: dict[int, Row] = {}
        self.entities = RecentRows[Entity]()

    # -- rankings

    def has(self, kind: Kind, *, vectors: bool = False) -> bool:
        if vectors:
            return self._transaction.has_vectors[_KINDS[kind]]
        if kind == "chunks" or self.chunk_count == 0:
            return bool(self.chunk_count)
        if kind == "facts":
            return bool(self._transaction.fact_count)
        sql = f"SELECT EXISTS (SELECT FROM mentions WHERE index = {self._transaction.index})"
        return bool(self.rows(sql)[0][0])

    def nearest(self, kind: str, vectors: Matrix, k: int) -> list[Ranking]:
        queries = np.ascontiguousarray(np.atleast_2d(vectors), np.float32)
        if k < 1 or not self._transaction.has_vectors[kind]:
            return [(_NONE, np.empty(0, np.float32)) for _ in queries]
        candidates = self._candidates(kind, queries, k + _MORE)
        if kind in self._approximate and self.sees is not None and any(len(keys) < k for keys, _ in candidates):
            candidates = self._candidates(kind, queries, k + _MORE, exact=True)  # too few of those visited are in scope
        rankings = []
        for query, (keys, near) in zip(queries, candidates, strict=True):
            wanted = k + _MORE
            scores: Scores = np.vecdot(near, query) if len(keys) else np.empty(0, np.float32)
            # Ties are cut off, or what would be one if the server rounded as we do.
            while len(keys) >= wanted and scores[-1] >= np.sort(scores)[len(scores) - k] - _ROUNDING:
                check_deadline()
                wanted *= 4
                ((keys, near),) = self._candidates(kind, query[None, :], wanted)  # noqa: PLW2901
                scores = np.vecdot(near, query)
            if kind == "chunks":
                self._cache.vectors.update(zip(keys.tolist(), near, strict=True))
            keys, scores = best(keys, scores, k)  # noqa: PLW2901
            rankings.append((self.chunk_numbers(keys) if kind == "chunks" else keys, scores))
        return rankings

    def _candidates(self, kind: str, queries: Matrix, count: int, *, exact: bool = False) -> list[tuple[Keys, Matrix]]:
        """Return for each query the keys and vectors of the nearest, nearest first, in one statement.

        In a large scope, an HNSW index visits so many vectors that enough of them are in scope.
        """
        given, where, parameters = self._restriction(kind)
        column, index, settings = "v.vector", "%(index)s", dict[str, str]()
        if kind in self._approximate and not given and not exact:
            # Literals, which the planner compares with the condition and the expression of the index.
            column, index = f"(v.vector::halfvec({queries.shape[1]}))", str(self._transaction.index)
            visited = min(max(2 * count * self.statistics_count // max(self.chunk_count, 1), 100), 1000)
            settings = {"hnsw.ef_search": str(visited)}
        sql = (
            f"SELECT q.number, near.key, near.vector FROM unnest(%(queries)b) WITH ORDINALITY AS q(vector, number), "
            f"LATERAL (SELECT v.key, v.vector, {column} <#> q.vector AS distance FROM {given}{VECTORS[kind]} v "
            f"WHERE v.index = {index}{where} ORDER BY {column} <#> q.vector LIMIT %(count)s) AS near "
            "ORDER BY q.number, near.distance"
        )
        parameters = {
            "index": self._transaction.index, "count": count, "queries": Halfvec.rows(queries), **parameters,
        }  # fmt: skip
        rows_of_query: list[list[Row]] = [[] for _ in queries]
        for row in self._transaction.rows_unsorted(settings, sql, parameters):
            rows_of_query[row[0] - 1].append(row)
        return [
            (np.array([row[1] for row in rows], np.int64), matrix([row[2] for row in rows])) for rows in rows_of_query
        ]

    def _restriction(self, kind: str) -> tuple[str, str, dict[str, Any]]:
        """Return how a search of vectors is restricted to the scope: SQL before the table, a condition, and parameters.

        The vectors of a few chunks or names are looked up one by one.
        """
        scope = self._transaction.scope
        chunks = scope.chunks
        each = "unnest(%(inside)s) c(key) CROSS JOIN LATERAL (SELECT * FROM "
        if scope.is_everything:
            return "", "", {}
        if kind == "names":
            if chunks is None:
                return "", " AND v.key <> ALL(%(hidden)s)", {"hidden": self._names_in(scope.hidden, alone=True)}
            inside = self._names_in(chunks) if self._small is None else self._small["names.key"]
            return each, " AND v.key = c.key OFFSET 0) v", {"inside": inside}
        if chunks is not None and _FEW * len(chunks) < self.statistics_count:
            return each, " AND v.key = c.key OFFSET 0) v", {"inside": chunks}
        return "", f" AND {SEES.format('v.key')}", scope.mask

    def _names_in(self, chunks: Keys, *, alone: bool = False) -> Keys:
        """Return the names that chunks, given by key, mention; ``alone``: that no other chunk mentions."""
        others = (
            "WHERE NOT EXISTS (SELECT FROM mentions o WHERE o.index = %(index)s AND o.entity = m.entity "
            "AND o.name = m.name AND o.chunk <> ALL(%(chunks)s))"
        )
        (names,) = self._transaction.columns(
            f"SELECT DISTINCT m.name FROM {rows_of('mentions', 'm', 'chunk', 'chunks')} {others if alone else ''}",
            np.int64,
            chunks=chunks,
        )
        return names  # type: ignore[no-any-return]

    def keywords(self, kind: str, text: str, k: int) -> Ranking:
        keys, scores = self._keywords.search(kind, text, k)
        if kind != "facts":
            return self.chunk_numbers(keys), scores
        self._transaction.see_facts(np.concatenate([keys, self._near_facts]))
        return self.fact_numbers(keys), scores

    def term_counts(self, terms: Sequence[str]) -> Keys:
        return self._keywords.counts(terms)

    def similarities(self, kind: str, keys: Keys, vector: Matrix) -> Scores:
        if kind == "chunks":
            wanted, vectors = self.chunk_keys(keys), self._cache.vectors
            self._transaction.see_chunks(wanted)
        else:
            wanted, vectors = self.fact_keys(keys), self._cache.fact_vectors
            self._transaction.see_facts(wanted)
        scores = np.zeros(len(keys), np.float32)
        known = [at for at, key in enumerate(wanted.tolist()) if len(vectors.get(key, ()))]
        if known:
            # Row by row: a matrix product rounds a row differently by its position.
            scores[known] = np.vecdot(np.stack([vectors[key] for key in wanted[known].tolist()]), vector)
        return scores

    def id_places(self, chunks: Keys) -> Keys:
        """Return numbers that sort these chunks. Numbers of two calls cannot be compared."""
        distinct, place = np.unique(self.chunk_keys(chunks), return_inverse=True)
        wanted, ids = distinct.tolist(), self._cache.ids
        ids.update(self._read_missing("n.id", "chunks", [key for key in wanted if key not in ids]))
        order = sorted(range(len(wanted)), key=[ids[key] for key in wanted].__getitem__)
        ranks = np.empty(len(wanted), np.int64)
        ranks[order] = np.arange(len(wanted))
        places: Keys = ranks[place]
        return places

    # -- rows

    def _read_missing(self, columns: str, table: str, keys: Sequence[int]) -> list[Row]:
        """Return key and columns of the rows of a table with some keys; no statement is sent for none."""
        if not keys:
            return []
        return self.rows(
            f"SELECT n.key, {columns} FROM {rows_of(table, 'n', 'key', 'keys')}",
            {"index": self._transaction.index, "keys": np.array(keys, np.int64)},
        )

    def chunks(self, chunks: Keys) -> list[Chunk]:
        keys, rows = self.chunk_keys(chunks).tolist(), self._chunk_rows
        if missing := [key for key in keys if key not in rows]:
            read = self.tables.chunk_rows("c.key = ANY(%s)", np.array(missing, np.int64))
            rows.update((row[0], row) for row in read)
        self._cache.ids.update((key, rows[key][1]) for key in keys)
        return [chunk_of(rows[key]) for key in keys]

    def chunk_terms(self, chunks: Keys) -> list[tuple[bytes, bytes, bytes]]:
        keys, cache = self.chunk_keys(chunks).tolist(), self._cache  # ids and documents are read with them
        missing = [key for key in dict.fromkeys(keys) if key not in cache.terms]
        columns = "n.id, n.document, n.tokens, n.terms, n.fact_terms"
        for key, chunk_id, document, tokens, terms, of_facts in self._read_missing(columns, "chunks", missing):
            cache.ids[key], cache.documents[key] = chunk_id, document
            cache.terms[key] = terms, of_facts or b"", tokens or b""
        return [cache.terms[key] for key in keys]

    def documents_of(self, chunks: Keys) -> Keys:
        if self._small is not None:
            return self._small["chunks.document"][chunks].astype(np.int64)
        keys, documents = self.chunk_keys(chunks).tolist(), self._cache.documents
        documents.update(self._read_missing("n.document", "chunks", [key for key in keys if key not in documents]))
        return np.array([documents[key] for key in keys], np.int64)

    def facts_of_chunks(self, chunks: Keys) -> tuple[Keys, Keys, Keys]:
        keys = self.chunk_keys(chunks)
        self._transaction.see_chunks(keys)
        facts = [self._cache.facts_in[key] for key in keys.tolist()]
        self._near_facts = np.concatenate([_NONE, *facts])
        counts = np.array([len(of_chunk) for of_chunk in facts], np.int64)
        return counts, self.fact_numbers(self._near_facts), self._near_facts & ((1 << FACT_BITS) - 1)

    def fact_places(self, facts: Keys) -> tuple[Keys, Keys]:
        keys = self.fact_keys(facts)
        return self.chunk_numbers(keys >> FACT_BITS), keys & ((1 << FACT_BITS) - 1)

    def fact_columns(self, facts: Keys) -> tuple[Scores, Keys]:
        keys, columns = self.fact_keys(facts).tolist(), self._cache.columns
        missing = [key for key in dict.fromkeys(keys) if key not in columns]
        for key, weight, statement in self._read_missing("n.weight, n.statement", "facts", missing):
            columns[key] = weight, statement
        rows = [columns[key] for key in keys]
        return np.array([row[0] for row in rows], np.float32), np.array([row[1] for row in rows], np.int64)

    def claims(self, names: Sequence[int]) -> list[tuple[int, str, str]]:
        claims = self._cache.claims
        if all(name in claims for name in names):
            return [claim for name in names for claim in claims[name]]
        return super().claims(names)

    def count_entities(self) -> int:
        """Return the number of entities that are neither addresses nor numbers, for the statistics of the index."""
        rows = self.rows(
            f"SELECT count(*) FROM entities e WHERE e.index = {self._transaction.index} AND NOT e.is_address AND NOT "
            "EXISTS (SELECT FROM names n WHERE n.index = e.index AND n.spelling = e.id AND n.surface !~ '[^0-9]')"
        )
        return int(rows[0][0]) - len(self._transaction.generic)
