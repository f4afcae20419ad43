"""``PostgresSnapshot``: the reads of a query on PostgreSQL.

Numbers of chunks and entities are given as a snapshot sees them (see
:class:`~graphrag_core.engine.postgres.reads.Numbering`); facts have the keys of their rows.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.analysis import contained, contained_in_facts, content_terms, name_terms
from graphrag_core.engine.copies import find_copies
from graphrag_core.engine.postgres.database import Halfvec, Row, matrix
from graphrag_core.engine.postgres.graph_reads import GraphReads, Walk
from graphrag_core.engine.postgres.keywords import Keywords
from graphrag_core.engine.postgres.reads import Reads
from graphrag_core.engine.postgres.schema import FACT_BITS
from graphrag_core.engine.rows import SOURCES, STATUSES, unpack_headings, without_markup
from graphrag_core.model import Chunk, Entity, Fact
from graphrag_core.ports import Adjacency, FactRows, Keys, Kind, Matrix, Ranking, Scores
from graphrag_core.text import EDGE, REFERS_TO, hash64, normalise

PUSH_ROUNDS, PUSH_DEGREE = 4, 5_000
"""How often forward push may ask for edges, and the number of edges of one node that it gets, the strongest."""

_MOST_SEARCHED = 5_000  # facts, to find enough that are not equal
_NAMES_PER_ENTITY = 4  # searched for each entity wanted, since several names may be one entity
_MORE = 16  # vectors read besides those wanted
_ROUNDING = 6e-4  # more than a cosine changes if the query is rounded to half precision: at most 2**-11
_MOST_IDS = 500  # of chunks, read besides those that are asked for
_EDGE = hash64(EDGE)
_TABLES = {"chunks": "chunk_vectors", "facts": "fact_vectors", "entities": "name_vectors"}

CHUNK = """
SELECT c.key, c.id, d.id, c.text, coalesce(d.heading, d.title), c.ordinal, c.start, d.metadata, c.headings, c.page
FROM chunks c JOIN documents d ON d.index = c.index AND d.key = c.document
"""
FACT = """
SELECT f.key, f.names, f.text, f.is_plain, c.text, coalesce(f.relation, ''), f.weight, f.confidence, f.source,
       f.status, coalesce(f.value, ''), f.created, f.last_accessed, f.access_count, f.start, f.stop, c.id, f.valid_from,
       f.valid_to
FROM facts f JOIN chunks c ON c.index = f.index AND c.key = f.chunk
"""


def chunk_of(row: Row) -> Chunk:
    """Return the chunk of a row that ``CHUNK`` selects."""
    _, chunk_id, document_id, text, title, ordinal, start, metadata, headings, page = row
    return Chunk(
        chunk_id, document_id, text, title, ordinal, start, json.loads(metadata), unpack_headings(headings), page
    )


def said(own: str | None, is_plain: bool, text: str, start: int, stop: int) -> str:
    """Return the text of a fact from its row and its chunk's text."""
    if is_plain:
        return without_markup(text, start, stop)
    return text[start:stop].replace("\n", " ") if own is None else own


class PostgresSnapshot:
    """One generation of an index in PostgreSQL, restricted to a scope. See :class:`graphrag_core.ports.Snapshot`.

    Parameters
    ----------
    reads
        The transaction, with the scope.
    approximate
        The kinds whose vectors are searched with an HNSW index.
    """

    def __init__(self, reads: Reads, approximate: Sequence[str] = ()) -> None:
        self._reads = reads
        self._rows = reads.rows
        self._index = reads.index
        self._numbering = reads.numbering
        self._approximate = approximate
        self._keywords = Keywords(reads)
        self._graph = GraphReads(reads)
        self.generation = reads.generation
        self.first_entity = reads.numbering.first_entity
        self.chunk_count = reads.chunk_count
        # In a scope the graph is in memory, and there are no round trips to save.
        self.push_rounds = PUSH_ROUNDS if reads.scope.is_everything else None
        self.push_degree = PUSH_DEGREE
        self._analysed: dict[str, list[str]] = {}
        self._terms: dict[int, tuple[bytes, bytes]] = {}
        self._ids: dict[int, str] = {}  # of chunks, by key
        self._statements: dict[int, int] = {}  # of facts, by key

    @property
    def node_limit(self) -> int:
        return self._numbering.node_limit

    # -- search

    def has(self, kind: Kind, *, vectors: bool = False) -> bool:
        if vectors:
            return self._reads.vectors[kind]
        if kind == "chunks":
            return self.chunk_count > 0
        chunks = self._reads.scope.chunks
        if kind == "facts" and chunks is None:
            return self._reads.fact_count > 0
        table = "facts" if kind == "facts" else "mentions"
        inside = "" if chunks is None else " AND chunk = ANY(%s)"
        return bool(
            self._rows(
                f"SELECT EXISTS (SELECT FROM {table} WHERE index = %s{inside})",
                (self._index,) if chunks is None else (self._index, chunks),
            )[0][0]
        )

    def search_vectors(self, kind: Kind, vectors: Matrix, k: int) -> list[Ranking]:
        vectors = np.ascontiguousarray(np.atleast_2d(vectors), np.float32)
        if k < 1 or not self._reads.vectors[kind]:
            return [(np.empty(0, np.int64), np.empty(0, np.float32)) for _ in vectors]
        if kind == "facts":
            return [self._once(partial(self._nearest_facts, vector), k) for vector in vectors]
        if kind == "entities":
            found = self._nearest(kind, vectors, k * _NAMES_PER_ENTITY)
            return [self._entities_of(*ranking, k) for ranking in found]
        return [(self._numbering.of_chunks(keys), scores) for keys, scores in self._nearest(kind, vectors, k)]

    def _nearest_facts(self, vector: Matrix, count: int) -> Ranking:
        return self._nearest("facts", vector[None, :], count)[0]

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
        table, scope = _TABLES[kind], self._reads.scope
        chunk = f"v.key >> {FACT_BITS}" if kind == "facts" else "v.key"
        parameters: dict[str, Any] = {"index": self._index, "count": count, "queries": Halfvec.rows(queries)}
        where = ""
        chunks = scope.chunks
        if kind == "entities" and not scope.is_everything:
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
        rows = self._reads.rows_with(planned, sql, parameters) if planned else self._rows(sql, parameters)
        found: list[list[Row]] = [[] for _ in queries]
        for row in rows:
            found[row[0] - 1].append(row)
        return [(np.array([row[1] for row in own], np.int64), matrix([row[2] for row in own])) for own in found]

    def _facts_in_scope(self, chunks: Keys) -> Keys:
        rows = self._rows("SELECT key, facts FROM chunks WHERE index = %s AND key = ANY(%s)", (self._index, chunks))
        keys, counts = (np.array([row[at] for row in rows], np.int64) for at in (0, 1))
        ordinals = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        facts: Keys = np.repeat(keys << FACT_BITS, counts) + ordinals
        return facts

    def _names_in_scope(self) -> Keys:
        chunks, hidden = self._reads.scope.chunks, self._reads.scope.hidden
        condition, keys = ("= ANY(%s)", chunks) if chunks is not None else ("<> ALL(%s)", hidden)
        rows = self._rows(
            f"SELECT DISTINCT name FROM mentions WHERE index = %s AND chunk {condition}", (self._index, keys)
        )
        return np.array([row[0] for row in rows], np.int64)

    def _entities_of(self, names: Keys, scores: Scores, k: int) -> Ranking:
        """Return the best ``k`` entities of names, given by key."""
        entities = self._graph.entities_of_names(names)
        entities, scores = entities[entities >= 0], scores[entities >= 0]
        order = np.lexsort((self._numbering.entities(entities), -scores))
        _, first = np.unique(entities[order], return_index=True)
        order = order[np.sort(first)][:k]
        return entities[order], scores[order]

    def _once(self, search: Callable[[int], Ranking], k: int) -> Ranking:
        """Return a ranking of facts in which each statement is there once, in its best place."""
        count = k
        while True:
            keys, scores = search(count)
            is_all = len(keys) < count
            self._read_statements(keys)
            hidden = self._graph.hidden(keys)
            keys, scores = keys[~hidden], scores[~hidden]
            order = np.lexsort((self.id_order("facts", keys), -scores))
            statements = np.array([self._statements[key] for key in keys[order].tolist()], np.int64)
            first = np.unique(np.unique(statements, return_index=True)[1])  # of each statement
            if len(first) >= k or is_all or count >= _MOST_SEARCHED:
                return keys[order[first]], scores[order[first]]
            count *= 4

    def _read_statements(self, facts: Keys) -> None:
        """Read the statements of facts and the ids of their chunks."""
        if missing := [key for key in facts.tolist() if key not in self._statements]:
            rows = self._rows(
                "SELECT f.key, f.statement, c.key, c.id FROM facts f "
                "JOIN chunks c ON c.index = f.index AND c.key = f.chunk WHERE f.index = %s AND f.key = ANY(%s)",
                (self._index, np.array(missing, np.int64)),
            )
            self._statements.update((row[0], row[1]) for row in rows)
            self._ids.update((row[2], row[3]) for row in rows)

    def search_keywords(self, kind: Kind, text: str, k: int) -> Ranking:
        if kind == "facts":
            return self._once(lambda count: self._keywords.search("facts", text, count), k)
        keys, scores = self._keywords.search("chunks", text, k)
        return self._numbering.of_chunks(keys), scores

    def terms(self, text: str) -> list[str]:
        if text not in self._analysed:  # each stage of a query asks for the question's
            self._analysed[text] = content_terms(text)
        return [*self._analysed[text]]

    def term_counts(self, terms: Sequence[str]) -> Keys:
        return self._keywords.counts(terms)

    def terms_in(self, kind: Kind, keys: Keys, terms: Sequence[str]) -> npt.NDArray[np.bool_]:
        if kind == "entities":
            return self._terms_in_names(keys, terms)
        if len(keys) == 0:
            return np.zeros((0, len(terms)), np.bool_)
        if kind == "chunks":
            return contained([own for own, _ in self._packed_terms(self._numbering.chunks(keys))], terms)
        chunks, place = np.unique(keys >> FACT_BITS, return_inverse=True)
        ordinals = keys & ((1 << FACT_BITS) - 1)
        return contained_in_facts(self._packed_terms(chunks), place, ordinals, terms)

    def _packed_terms(self, keys: Keys) -> list[tuple[bytes, bytes]]:
        """Return the packed terms of chunks and of their facts. Each row is read once in a query."""
        wanted = keys.tolist()
        if missing := [key for key in wanted if key not in self._terms]:
            rows = self._rows(
                "SELECT key, terms, coalesce(fact_terms, ''::bytea) FROM chunks WHERE index = %s AND key = ANY(%s)",
                (self._index, np.array(missing, np.int64)),
            )
            self._terms.update((row[0], (row[1], row[2])) for row in rows)
        return [self._terms[key] for key in wanted]

    def _terms_in_names(self, entities: Keys, terms: Sequence[str]) -> npt.NDArray[np.bool_]:
        column = {term: at for at, term in enumerate(terms)}
        found = np.zeros((len(entities), len(terms)), np.bool_)
        if len(entities) == 0:
            return found
        renamed = self._graph.shown_names(entities)
        for row, (group, name) in enumerate(zip(self._graph.names_of(entities), renamed, strict=True)):
            for surface in (*(surface for _, surface in group), *((name,) if name else ())):
                found[row, [column[term] for term in name_terms(normalise(surface)) if term in column]] = True
        return found

    def copies(self, kind: Kind, keys: Keys) -> list[Keys]:
        if kind == "facts":
            found = self._graph.fact_copies(keys)
        else:
            pairs = self._chunk_copies(self._numbering.chunks(keys))
            found = [
                self._numbering.of_chunks(np.array(sorted(pairs.get(key, ())), np.int64))
                for key in self._numbering.chunks(keys).tolist()
            ]
        return [own[np.argsort(self.id_order(kind, own), kind="stable")] for own in found]

    def _chunk_copies(self, keys: Keys) -> dict[int, set[int]]:
        """Return the copies of chunks, all by key. Chunks with a signature in common are compared."""
        near = self._rows(
            "SELECT c.key, c.near, c.key = ANY(%(keys)s) FROM chunks c WHERE c.index = %(index)s AND c.near && "
            "(SELECT array_agg(DISTINCT n) FROM chunks o, unnest(o.near) AS n "
            "WHERE o.index = %(index)s AND o.key = ANY(%(keys)s))",
            {"index": self._index, "keys": keys},
        )
        seen = self._reads.scope.sees(np.array([row[0] for row in near], np.int64)).tolist()
        near = [row for row, kept in zip(near, seen, strict=True) if kept]
        if all(len({row[1][band] for row in near}) == len(near) for band in range(3)):
            return {}
        found_texts = self._rows(
            "SELECT key, text FROM chunks WHERE index = %s AND key = ANY(%s)",
            (self._index, np.array([row[0] for row in near], np.int64)),
        )
        texts: dict[int, str] = {row[0]: row[1] for row in found_texts}
        return find_copies([row[0] for row in near if row[2]], {row[0]: row[1] for row in near}, texts)

    def similarities(self, kind: Kind, keys: Keys, vector: Matrix | None) -> Scores:
        found = np.zeros(len(keys), np.float32)
        if vector is None or len(keys) == 0 or not self._reads.vectors[kind]:
            return found
        wanted = self._numbering.chunks(keys) if kind == "chunks" else keys
        rows = self._rows(
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

    def id_order(self, kind: Kind, keys: Keys) -> Keys:
        """Return numbers that sort these chunks or facts; those of another call are not comparable."""
        chunks = self._numbering.chunks(keys) if kind == "chunks" else keys >> FACT_BITS
        distinct, place = np.unique(chunks, return_inverse=True)
        wanted = distinct.tolist()
        if missing := [key for key in wanted if key not in self._ids]:
            seen = self._numbering.seen_chunks(_MOST_IDS)  # which will be asked for, too: one statement for all
            missing += [key for key in seen.tolist() if key not in self._ids]
            rows = self._rows(
                "SELECT key, id FROM chunks WHERE index = %s AND key = ANY(%s)",
                (self._index, np.unique(np.array(missing, np.int64))),
            )
            self._ids.update((row[0], row[1]) for row in rows)
        order = sorted(range(len(wanted)), key=lambda at: self._ids[wanted[at]])
        ranks = np.empty(len(wanted), np.int64)
        ranks[order] = np.arange(len(wanted))
        places: Keys = ranks[place]
        return places if kind == "chunks" else places << FACT_BITS | (keys & ((1 << FACT_BITS) - 1))

    # -- the graph

    @property
    def linked_share(self) -> float:
        return self._graph.linked_share

    def find_entities(self, names: Iterable[str]) -> dict[str, int]:
        return self._graph.find_entities(names)

    def spellings(self, entity: int) -> list[str]:
        """Return the normalised names of an entity that documents write, the one that represents it first."""
        return self._graph.spellings(entity)

    def entity_counts(self, entities: Keys) -> tuple[Keys, npt.NDArray[np.bool_]]:
        return self._graph.entity_counts(entities)

    def subjects(self, chunks: Keys) -> Adjacency:
        return self._graph.subjects(chunks)

    def neighbours(self, nodes: Keys, to: Kind | None = None, limit: int | None = None) -> Adjacency:
        return self._graph.neighbours(nodes, to, limit)

    def surroundings(
        self, nodes: Keys, masses: npt.NDArray[np.float64], *, damping: float, least: float, limit: int | None = None
    ) -> tuple[Keys, Adjacency]:
        """Return nodes and those that forward push is likely to reach from them, and the edges of all of them."""
        return self._graph.surroundings(nodes, Walk(masses, damping, least), limit)

    def facts_of(
        self,
        entities: Keys,
        *,
        joint: bool = False,
        relations: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Keys:
        return self._graph.facts_of(entities, joint=joint, relations=relations, limit=limit)

    def outgoing_facts(self, entity: int, limit: int) -> tuple[Keys, Scores, npt.NDArray[np.float64]]:
        return self._graph.outgoing_facts(entity, limit)

    def fact_rows(self, facts: Keys) -> FactRows:
        return self._graph.fact_rows(facts)

    def entities(self, keys: Keys) -> list[Entity]:
        return self._graph.entities(keys)

    def top_entities(self, count: int) -> Keys:
        return self._graph.top_entities(count)

    def search_names(self, start: str, inside: str) -> Keys:
        return self._graph.search_names(start, inside)

    # -- records

    def record_access(self, facts: Keys, now: float) -> None:
        self._reads.accesses.note(facts.tolist(), now)

    def find_chunks(self, ids: Sequence[str]) -> dict[str, int]:
        rows = self._rows("SELECT key, id FROM chunks WHERE index = %s AND id = ANY(%s)", (self._index, list(ids)))
        keys = np.array([row[0] for row in rows], np.int64)
        seen = self._reads.scope.sees(keys)
        found = [row[1] for row, is_seen in zip(rows, seen.tolist(), strict=True) if is_seen]
        return dict(zip(found, self._numbering.of_chunks(keys[seen]).tolist(), strict=True))

    def chunks(self, keys: Keys) -> list[Chunk]:
        if len(keys) == 0:
            return []
        wanted = self._numbering.chunks(keys)
        found = self._rows(f"{CHUNK} WHERE c.index = %s AND c.key = ANY(%s)", (self._index, np.unique(wanted)))
        rows = {row[0]: row for row in found}
        self._ids.update((row[0], row[1]) for row in found)
        return [chunk_of(rows[key]) for key in wanted.tolist()]

    def facts(self, keys: Keys) -> list[Fact]:
        if len(keys) == 0:
            return []
        found = self._rows(f"{FACT} WHERE f.index = %s AND f.key = ANY(%s)", (self._index, np.unique(keys)))
        rows = {row[0]: row for row in found}
        called = self._graph.called(np.array(sorted({name for row in found for name in row[1]}), np.int64))
        pending = self._reads.accesses.pending
        facts = []
        for key in keys.tolist():
            (
                _, names, own, is_plain, chunk_text, relation, weight, confidence, source, status, value, created, last,
                count, start, stop, chunk_id, valid_from, valid_to,
            ) = rows[key]  # fmt: skip
            text = said(own, is_plain, chunk_text, start, stop)
            if key in pending:
                more, last = pending[key]
                count += more
            named = [called[name] for name in names if name in called]
            entities = [entity for entity, _ in named]
            if relation in ("", REFERS_TO):
                entities = list(dict.fromkeys(entities))
            elif names and names[-1] == _EDGE and len(entities) > 1:
                ends = list(dict.fromkeys(name for _, name in named))
                others = [end.removeprefix(f"{relation}: ") for end in ends[1:] or ends[:1]]
                text = f"{ends[0]} {relation}: {', '.join(others)}"
                entities = list(dict.fromkeys(entities))
            facts.append(
                Fact(
                    tuple(entities), text, relation, weight, confidence,
                    cast("Any", SOURCES.get(source, source)), cast("Any", STATUSES.get(status, status)), value,
                    created, last, count, None if start is None else (start, stop),
                    f"{chunk_id}/{key & ((1 << FACT_BITS) - 1)}", chunk_id, valid_from, valid_to,
                )
            )  # fmt: skip
        return facts


def _best(keys: Keys, scores: Scores, k: int) -> Ranking:
    """Return the best ``k`` keys, best first, and what ties with the last."""
    if len(scores) > k:
        kept = scores >= np.partition(scores, len(scores) - k)[len(scores) - k]
        keys, scores = keys[kept], scores[kept]
    order = np.lexsort((keys, -scores))
    return keys[order], scores[order]
