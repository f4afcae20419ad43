"""The rankings and rows of an index in PostgreSQL, for :class:`~graphrag_core.engine.graph.snapshot.StoreSnapshot`.

Numbers of chunks and entities are given as a snapshot sees them (see
:class:`~graphrag_core.engine.postgres.reads.Numbering`); facts have the keys of their rows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.graph.edits import GraphEdits
from graphrag_core.engine.graph.scoped import ScopedGraph
from graphrag_core.engine.graph.snapshot import GraphReads, Name, fact_copies
from graphrag_core.engine.postgres.database import Halfvec, Row, matrix
from graphrag_core.engine.postgres.graph import graph_settings, one_row
from graphrag_core.engine.postgres.graph_reads import SpellingUses, TableGraph
from graphrag_core.engine.postgres.keywords import Keywords
from graphrag_core.engine.postgres.reads import Transaction
from graphrag_core.engine.postgres.schema import FACT_BITS
from graphrag_core.engine.rows import FACT_COLUMNS, chunk_of, fact_of, text_of_fact
from graphrag_core.model import Chunk, Fact
from graphrag_core.ports import Keys, Kind, Matrix, Ranking, Scores
from graphrag_core.text import EDGE, hash64, normalise, plain_runs

_MORE = 16  # vectors read besides those wanted
_ROUNDING = 6e-4  # more than a cosine changes if the query is rounded to half precision: at most 2**-11
_MOST_IDS = 500  # of chunks, read besides those that are asked for
_MOST_COUNTED = 100_000  # facts of an entity
_EDGE = hash64(EDGE)
_TABLES = {"chunks": "chunk_vectors", "facts": "fact_vectors", "names": "name_vectors"}

CHUNK = """
SELECT c.key, c.id, d.id, c.text, coalesce(d.heading, d.title), c.ordinal, c.start, d.metadata, c.headings, c.page
FROM chunks c JOIN documents d ON d.index = c.index AND d.key = c.document
"""
FACT = f"""
SELECT f.key, f.names, f.text, f.is_plain, c.text, c.id, {FACT_COLUMNS}
FROM facts f JOIN chunks c ON c.index = f.index AND c.key = f.chunk
"""


class PostgresReads:
    """Reads of one generation on PostgreSQL, restricted to a scope.

    Parameters
    ----------
    transaction
        The transaction, with the scope.
    approximate
        The kinds whose vectors are searched with an HNSW index.
    """

    def __init__(self, transaction: Transaction, approximate: Sequence[str] = ()) -> None:
        self._transaction = transaction
        self.rows = transaction.rows
        self._index = transaction.index
        self._numbering = transaction.numbering
        self._approximate = approximate
        self._keywords = Keywords(transaction)
        self.term_counts = self._keywords.counts
        self.generation = transaction.generation
        self.chunk_count = transaction.chunk_count
        self.statistics_count = transaction.statistics_count
        self._ids: dict[int, str] = {}  # of chunks, by key
        self._columns: dict[int, tuple[float, int]] = {}  # weight and statement of facts
        rows = self.rows("SELECT chunks, leading_chunks, is_plain FROM graph_state WHERE index = %s", (self._index,))
        chunks, leading, is_plain = rows[0] if rows else (0, 0, True)
        linked_share = leading / chunks if chunks else 0.0
        edits, similar = GraphEdits(), None
        if not is_plain:
            with transaction.cursor() as cursor:
                edits, similar = graph_settings(cursor, self._index)
        self.graph: GraphReads
        if transaction.scope.is_everything:
            self.graph = TableGraph(transaction, linked_share, edits, has_edits=not is_plain)
        else:
            uses = SpellingUses(transaction, similar, has_edits=not is_plain)
            self.graph = ScopedGraph(uses, linked_share, edits, has_edits=not is_plain)

    # -- rankings

    def has(self, kind: Kind, *, vectors: bool = False) -> bool:
        if vectors:
            return self._transaction.vectors[kind]
        if kind == "chunks" or self.chunk_count == 0:
            return self.chunk_count > 0
        if kind == "facts":
            return self._transaction.fact_count > 0
        return bool(self.rows("SELECT EXISTS (SELECT FROM mentions WHERE index = %s)", (self._index,))[0][0])

    def nearest(self, kind: str, vectors: Matrix, k: int) -> list[Ranking]:
        vectors = np.ascontiguousarray(np.atleast_2d(vectors), np.float32)
        if k < 1 or not self._transaction.vectors["entities" if kind == "names" else kind]:
            return [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in vectors]
        found = self._nearest(kind, vectors, k)
        if kind != "chunks":
            return found
        return [(self._numbering.of_chunks(keys), scores) for keys, scores in found]

    def _nearest(self, kind: str, queries: Matrix, k: int) -> list[Ranking]:
        """Return for each query the best ``k`` keys and scores, best first, and what ties with the last."""
        found = self._candidates(kind, queries, k + _MORE)
        rankings = []
        for query, (keys, vectors) in zip(queries, found, strict=True):
            wanted = k + _MORE
            scores: Scores = np.vecdot(vectors, query) if len(keys) else np.empty(0, np.float32)
            # Ties are cut off, or what would be one if the server rounded as we do.
            while len(keys) >= wanted and scores[-1] >= np.sort(scores)[len(scores) - k] - _ROUNDING:
                wanted *= 4
                ((keys, vectors),) = self._candidates(kind, query[None, :], wanted)  # noqa: PLW2901
                scores = np.vecdot(vectors, query)
            rankings.append(_best(keys, scores, k))
        return rankings

    def _candidates(self, kind: str, queries: Matrix, count: int) -> list[tuple[Keys, Matrix]]:
        """Return for each query the keys and vectors of the nearest, nearest first, in one statement."""
        table, scope = _TABLES[kind], self._transaction.scope
        chunk = f"v.key >> {FACT_BITS}" if kind == "facts" else "v.key"
        parameters: dict[str, Any] = {"index": self._index, "count": count, "queries": Halfvec.rows(queries)}
        where = ""
        chunks = scope.chunks
        if kind == "names" and not scope.is_everything:
            parameters["names"] = self._names_in_scope()
            where = " AND v.key = ANY(%(names)s)"
        elif chunks is not None and kind == "facts":
            parameters["inside"] = self._facts_in_scope(chunks)
            where = " AND v.key = ANY(%(inside)s)"
        elif chunks is not None:
            parameters["inside"] = chunks
            where = f" AND {chunk} = ANY(%(inside)s)"
        elif len(scope.hidden):
            parameters["hidden"] = scope.hidden
            where = f" AND {chunk} <> ALL(%(hidden)s)"
        column, index, planned = "v.vector", "%(index)s", dict[str, str]()
        if kind in self._approximate and not where:
            # Literals, which the planner compares with the condition and the expression of the index.
            column, index = f"(v.vector::halfvec({queries.shape[1]}))", str(self._index)
            # Without statistics of a new index the planner would rather sort all vectors.
            planned = {"hnsw.ef_search": str(min(max(2 * count, 100), 1000)), "enable_sort": "off"}
        sql = (
            f"SELECT q.number, near.key, near.vector FROM unnest(%(queries)b) WITH ORDINALITY AS q(vector, number), "
            f"LATERAL (SELECT v.key, v.vector, {column} <#> q.vector AS distance FROM {table} v "
            f"WHERE v.index = {index}{where} ORDER BY {column} <#> q.vector LIMIT %(count)s) AS near "
            "ORDER BY q.number, near.distance"
        )
        rows = (
            self._transaction.rows_with(planned, sql, parameters)
            if planned
            else self._transaction.rows(sql, parameters)
        )
        found: list[list[Row]] = [[] for _ in queries]
        for row in rows:
            found[row[0] - 1].append(row)
        return [(np.array([row[1] for row in own], np.int64), matrix([row[2] for row in own])) for own in found]

    def _facts_in_scope(self, chunks: Keys) -> Keys:
        rows = self._transaction.rows(
            "SELECT key, facts FROM chunks WHERE index = %s AND key = ANY(%s)", (self._index, chunks)
        )
        keys, counts = (np.array([row[at] for row in rows], np.int64) for at in (0, 1))
        ordinals = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        facts: Keys = np.repeat(keys << FACT_BITS, counts) + ordinals
        return facts

    def _names_in_scope(self) -> Keys:
        chunks, hidden = self._transaction.scope.chunks, self._transaction.scope.hidden
        condition, keys = ("= ANY(%s)", chunks) if chunks is not None else ("<> ALL(%s)", hidden)
        rows = self._transaction.rows(
            f"SELECT DISTINCT name FROM mentions WHERE index = %s AND chunk {condition}", (self._index, keys)
        )
        return np.array([row[0] for row in rows], np.int64)

    def keywords(self, kind: str, text: str, k: int) -> Ranking:
        keys, scores = self._keywords.search(kind, text, k)
        return (keys if kind == "facts" else self._numbering.of_chunks(keys)), scores

    def similarities(self, kind: str, keys: Keys, vector: Matrix) -> Scores:
        found = np.zeros(len(keys), np.float32)
        wanted = self._numbering.chunks(keys) if kind == "chunks" else keys
        rows = self.rows(
            f"SELECT key, vector FROM {_TABLES[kind]} WHERE index = %s AND key = ANY(%s)",
            (self._index, np.unique(wanted)),
        )
        if not rows:
            return found
        own = np.array([row[0] for row in rows], np.int64)
        order = np.argsort(own)
        # Row by row: a matrix product rounds a row differently by its position.
        values: Scores = np.vecdot(matrix([row[1] for row in rows]), vector)[order]
        own = own[order]
        place = np.minimum(np.searchsorted(own, wanted), len(own) - 1)
        return np.where(own[place] == wanted, values[place], np.float32(0))

    def id_places(self, chunks: Keys) -> Keys:
        """Return numbers that sort these chunks; those of another call are not comparable."""
        distinct, place = np.unique(self._numbering.chunks(chunks), return_inverse=True)
        wanted = distinct.tolist()
        if missing := [key for key in wanted if key not in self._ids]:
            seen = self._numbering.seen_chunks(_MOST_IDS)  # which will be asked for, too: one statement for all
            missing += [key for key in seen.tolist() if key not in self._ids]
            rows = self.rows(
                "SELECT key, id FROM chunks WHERE index = %s AND key = ANY(%s)",
                (self._index, np.unique(np.array(missing, np.int64))),
            )
            self._ids.update((row[0], row[1]) for row in rows)
        order = sorted(range(len(wanted)), key=lambda at: self._ids[wanted[at]])
        ranks = np.empty(len(wanted), np.int64)
        ranks[order] = np.arange(len(wanted))
        places: Keys = ranks[place]
        return places

    # -- rows

    def chunk_terms(self, chunks: Keys) -> list[tuple[bytes, bytes]]:
        keys = self._numbering.chunks(chunks)
        rows = self.rows(
            "SELECT key, terms, coalesce(fact_terms, ''::bytea) FROM chunks WHERE index = %s AND key = ANY(%s)",
            (self._index, keys),
        )
        found = {row[0]: (row[1], row[2]) for row in rows}
        return [found[key] for key in keys.tolist()]

    def signatures(self, chunks: Keys) -> list[tuple[int, Sequence[int]]]:
        rows = self.rows(
            "SELECT c.key, c.near FROM chunks c WHERE c.index = %(index)s AND c.near && "
            "(SELECT array_agg(DISTINCT n) FROM chunks o, unnest(o.near) AS n "
            "WHERE o.index = %(index)s AND o.key = ANY(%(keys)s))",
            {"index": self._index, "keys": self._numbering.chunks(chunks)},
        )
        keys = np.array([row[0] for row in rows], np.int64)
        seen = self._transaction.scope.sees(keys)
        numbers = self._numbering.of_chunks(keys[seen]).tolist()
        return [
            (number, row[1])
            for number, row in zip(
                numbers, (row for row, is_seen in zip(rows, seen, strict=True) if is_seen), strict=True
            )
        ]

    def chunks(self, chunks: Keys) -> list[Chunk]:
        if len(chunks) == 0:
            return []
        wanted = self._numbering.chunks(chunks)
        found = self.rows(f"{CHUNK} WHERE c.index = %s AND c.key = ANY(%s)", (self._index, np.unique(wanted)))
        rows = {row[0]: row for row in found}
        self._ids.update((row[0], row[1]) for row in found)
        return [chunk_of(rows[key]) for key in wanted.tolist()]

    def texts(self, chunks: Keys, length: int | None = None) -> list[str]:
        keys = self._numbering.chunks(chunks)
        text = "text" if length is None else f"left(text, {length})"
        rows = self.rows(
            f"SELECT key, {text} FROM chunks WHERE index = %s AND key = ANY(%s)", (self._index, np.unique(keys))
        )
        found: dict[int, str] = {row[0]: row[1] for row in rows}
        return [found[key] for key in keys.tolist()]

    def fact_places(self, facts: Keys) -> tuple[Keys, Keys]:
        return self._numbering.of_chunks(facts >> FACT_BITS), facts & ((1 << FACT_BITS) - 1)

    def fact_columns(self, facts: Keys) -> tuple[Scores, Keys]:
        if missing := [fact for fact in dict.fromkeys(facts.tolist()) if fact not in self._columns]:
            rows = self.rows(
                "SELECT f.key, f.weight, f.statement, c.key, c.id FROM facts f "
                "JOIN chunks c ON c.index = f.index AND c.key = f.chunk WHERE f.index = %s AND f.key = ANY(%s)",
                (self._index, np.array(missing, np.int64)),
            )
            self._columns.update((row[0], (row[1], row[2])) for row in rows)
            self._ids.update((row[3], row[4]) for row in rows)
        found = [self._columns[fact] for fact in facts.tolist()]
        return np.array([row[0] for row in found], np.float32), np.array([row[1] for row in found], np.int64)

    def fact_copies(self, facts: Keys) -> list[Keys]:
        """Return the others that say the same. Only facts about the rarest entity of a fact are compared with it."""
        if not self._transaction.scope.is_everything:
            return fact_copies(self, facts)
        fact, other = self._transaction.columns(
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

    def facts(self, facts: Keys) -> list[tuple[list[int], Fact]]:
        found = self.rows(f"{FACT} WHERE f.index = %s AND f.key = ANY(%s)", (self._index, np.unique(facts)))
        rows = {row[0]: row for row in found}
        read = []
        for key in facts.tolist():
            _, names, own, is_plain, chunk_text, chunk_id, *columns = rows[key]
            text = text_of_fact(own, is_plain, chunk_text, columns[0], columns[1])
            ids = f"{chunk_id}/{key & ((1 << FACT_BITS) - 1)}", chunk_id
            pending = self._transaction.accesses.pending.get(key)
            read.append((list(names), fact_of((), text, columns, pending=pending, ids=ids)))
        return read

    def with_relations(self, facts: Keys, relations: Sequence[str]) -> Keys:
        rows = self.rows(
            "SELECT key FROM facts WHERE index = %s AND key = ANY(%s) AND relation = ANY(%s) ORDER BY key",
            (self._index, facts, list(relations)),
        )
        return np.array([row[0] for row in rows], np.int64)

    def outgoing(self, facts: Keys, names: Keys) -> tuple[Keys, Scores, npt.NDArray[np.float64]]:
        rows = self.rows(
            "SELECT f.key, f.confidence, coalesce(f.last_accessed, f.created, d.added) FROM facts f "
            "JOIN chunks c ON c.index = f.index AND c.key = f.chunk "
            "JOIN documents d ON d.index = c.index AND d.key = c.document WHERE f.index = %s AND f.key = ANY(%s) "
            "AND (f.relation IS NULL OR f.names[1] = ANY(%s) OR f.names[array_length(f.names, 1)] = %s) ORDER BY f.key",
            (self._index, facts, names, _EDGE),
        )
        pending = self._transaction.accesses.pending
        accessed = [pending[row[0]][1] if row[0] in pending else row[2] for row in rows]
        keys = np.array([row[0] for row in rows], np.int64)
        return keys, np.array([row[1] for row in rows], np.float32), np.array(accessed, np.float64)

    def names(self, names: Sequence[int]) -> dict[int, Name]:
        rows = self.rows(
            "SELECT key, surface, spelling FROM names WHERE index = %s AND key = ANY(%s)",
            (self._index, np.array(names, np.int64)),
        )
        return {key: Name(surface, normalise(surface), spelling) for key, surface, spelling in rows}

    def claims(self, names: Sequence[int]) -> list[tuple[int, str, str]]:
        rows = self.rows(
            "SELECT n.key, c.type, c.description, c.chunk FROM names n "
            "JOIN claims c ON c.index = n.index AND c.spelling = n.spelling AND c.name = n.key "
            "WHERE n.index = %s AND n.key = ANY(%s) ORDER BY n.key, c.chunk, c.position",
            (self._index, np.array(names, np.int64)),
        )
        seen = self._transaction.scope.sees(np.array([row[3] for row in rows], np.int64)).tolist()
        return [row[:3] for row, is_seen in zip(rows, seen, strict=True) if is_seen]

    def digits(self, spellings: Keys) -> Keys:
        rows = self.rows(
            "SELECT spelling FROM names WHERE index = %s AND spelling = ANY(%s) AND surface !~ '[^0-9]'",
            (self._index, spellings),
        )
        return np.array([row[0] for row in rows], np.int64)

    def names_like(self, start: str, inside: str) -> Keys:
        runs = plain_runs(f"{start} {inside}")
        plain = "false" if runs is None else " AND ".join(["position(%s in lower(surface)) > 0"] * len(runs)) or "true"
        rows = self.rows(
            f"SELECT key, surface FROM names WHERE index = %s AND (({plain}) OR surface ~ '^[^→].*[^ -~]')",
            (self._index, *(runs or ())),
        )
        keys = [key for key, surface in rows if (name := normalise(surface)).startswith(start) and inside in name]
        return np.array(sorted(keys), np.int64)

    def find_chunks(self, ids: Sequence[str]) -> dict[str, int]:
        rows = self.rows("SELECT key, id FROM chunks WHERE index = %s AND id = ANY(%s)", (self._index, list(ids)))
        keys = np.array([row[0] for row in rows], np.int64)
        seen = self._transaction.scope.sees(keys)
        found = [row[1] for row, is_seen in zip(rows, seen.tolist(), strict=True) if is_seen]
        return dict(zip(found, self._numbering.of_chunks(keys[seen]).tolist(), strict=True))

    def record_access(self, facts: Keys, now: float) -> None:
        self._transaction.accesses.note(facts.tolist(), now)

    def count_entities(self) -> int:
        """Return the number of entities that are neither addresses nor numbers, for the statistics of the index."""
        rows = self.rows(
            "SELECT (SELECT count(*) FROM entities WHERE index = %(index)s AND NOT is_address) - "
            "(SELECT count(*) FROM entities e WHERE e.index = %(index)s AND NOT e.is_address AND EXISTS ("
            "SELECT FROM names n WHERE n.index = e.index AND n.spelling = e.number AND n.surface !~ '[^0-9]'))",
            {"index": self._index},
        )
        return int(rows[0][0])


def _best(keys: Keys, scores: Scores, k: int) -> Ranking:
    """Return the best ``k`` keys, best first, and what ties with the last."""
    if len(scores) > k:
        kept = scores >= np.partition(scores, len(scores) - k)[len(scores) - k]
        keys, scores = keys[kept], scores[kept]
    order = np.lexsort((keys, -scores))
    return keys[order], scores[order]
