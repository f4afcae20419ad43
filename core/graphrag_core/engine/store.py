"""``Store``: what an engine brings for the reads of a query. ``StoreSnapshot`` answers every query from it.

It has the rows of :class:`~graphrag_core.engine.tables.Tables`, which both engines read with the same SQL, rankings,
which each engine adds, and a :class:`StoreGraph`, which knows edges.
"""

from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.analysis import terms_of_names
from graphrag_core.engine.graph.sparse import Flags, Pairs
from graphrag_core.engine.rows import Accesses, Name, Row, damaged
from graphrag_core.engine.tables import FACT_COLUMNS, Tables, fact_of, storable, text_of_fact
from graphrag_core.model import Chunk, Entity, Fact
from graphrag_core.ports import Adjacency, Keys, Kind, Matrix, Ranking, Scores
from graphrag_core.text import EDGE, normalise, plain_runs

T = TypeVar("T")

OPENING = 200
"""Characters at the beginning of a chunk, which may open with the name of what it is about."""

_MOST_ROWS = 10_000  # that are kept; with more, the next read starts with none


class RecentRows(Generic[T]):
    """Rows that were read, by key.

    >>> rows = RecentRows[str]()
    >>> rows.read([7, 3], lambda keys: [f"chunk {key}" for key in keys])
    ['chunk 7', 'chunk 3']
    >>> rows.read([3], lambda keys: [])
    ['chunk 3']
    """

    def __init__(self) -> None:
        self._rows: dict[int, T] = {}

    def read(self, keys: Sequence[int], fetch: Callable[[Sequence[int]], Sequence[T]]) -> list[T]:
        """Return rows; ``fetch`` returns those that were not read before, in the order of its keys."""
        rows = self._rows  # another thread may start with an empty one
        if missing := [key for key in dict.fromkeys(keys) if key not in rows]:
            if len(rows) + len(missing) > _MOST_ROWS:
                known = {key: rows[key] for key in keys if key in rows}
                self._rows = rows = known
            rows.update(zip(missing, fetch(missing), strict=True))
        return [rows[key] for key in keys]


class StoreGraph(Protocol):
    """The graph of all chunks or of those in a scope. Entities that do not exist there are left out.

    Chunks have numbers below ``first_entity``, entities from there on. Pairs are the number of values of each row, and
    the values. The mentions of a chunk are in the order in which the extractor found them.
    """

    first_entity: int
    has_edges: bool  # whether there are explicit edges

    @property
    def node_limit(self) -> int: ...
    def find(self, ids: Sequence[int]) -> dict[int, list[int]]: ...
    def ids(self, entities: Keys) -> Keys: ...
    def are_addresses(self, entities: Keys) -> Flags: ...
    def counts(self, entities: Keys) -> tuple[Keys, Flags]: ...
    def passages(self, entities: Keys, most: int) -> Keys: ...
    def names(self, entities: Keys) -> Pairs: ...
    def uses(self, names: Keys) -> Keys: ...
    def top(self, count: int) -> Keys: ...
    def walk(self, nodes: Keys) -> Adjacency: ...
    def degrees(self, nodes: Keys, most: npt.NDArray[np.float64] | None = None) -> Scores: ...
    def entities_of(self, facts: Keys) -> Pairs: ...
    def facts_of(self, entities: Keys, limit: int | None = None) -> Pairs: ...
    def are_edges(self, facts: Keys) -> Flags: ...
    def are_triples(self, facts: Keys) -> Flags: ...
    def every_edge(self) -> Keys: ...


class Store:
    """One generation of an index, restricted to a scope.

    Chunks and facts are given by the numbers that the snapshot has for them, names by key.

    Attributes
    ----------
    numbering
        Two stores of one generation with the same object here have the same numbers of chunks and entities.
    chunk_count, statistics_count
        The number of chunks in scope, and of all chunks.
    unknown_keys
        The keys of the scope's filter that no document has.
    edits
        The edits of the graph, as they are stored.
    linked_share
        Returns the share of all chunks that mention the subject of another chunk.
    names
        Returns names by key.
    id_places
        Returns numbers that sort chunks by id.
    fact_places
        Returns the chunk of each fact, and its position in the chunk.
    chunk_keys, chunk_numbers, fact_keys, fact_numbers
        Return the keys of rows for numbers, and the numbers for keys.
    sees
        Returns which chunks, given by key, are in scope; None if all are.
    entities
        The entities that were read, by number.
    """

    generation: int
    numbering: object
    chunk_count: int
    statistics_count: int
    unknown_keys: tuple[str, ...] = ()
    edits: str
    tables: Tables
    graph: StoreGraph
    accesses: Accesses
    linked_share: Callable[[], float]
    names: Callable[[Sequence[int]], dict[int, Name]]
    id_places: Callable[[Keys], Keys]
    fact_places: Callable[[Keys], tuple[Keys, Keys]]
    chunk_keys: Callable[[Keys], Keys]
    chunk_numbers: Callable[[Keys], Keys]
    fact_keys: Callable[[Keys], Keys]
    fact_numbers: Callable[[Keys], Keys]
    sees: Callable[[Keys], Flags] | None
    entities: RecentRows[Entity]

    # -- of each engine

    def has(self, kind: Kind, *, vectors: bool = False) -> bool:
        """Return whether there are any chunks, facts or entities, or any vectors of them."""
        raise NotImplementedError

    def nearest(self, kind: str, vectors: Matrix, k: int) -> list[Ranking]:
        """Return for each vector the best ``k`` chunks or names, and what ties with the last."""
        raise NotImplementedError

    def keywords(self, kind: str, text: str, k: int) -> Ranking:
        """Return the best ``k`` chunks or facts by BM25, and what ties with the last."""
        raise NotImplementedError

    def term_counts(self, terms: Sequence[str]) -> Keys:
        """Return the number of chunks of all documents that have each term, 0 for a term that none in scope has."""
        raise NotImplementedError

    def similarities(self, kind: str, keys: Keys, vector: Matrix) -> Scores:
        """Return the cosine similarity of chunks or facts to a vector."""
        raise NotImplementedError

    def fact_columns(self, facts: Keys) -> tuple[Scores, Keys]:
        """Return the weights of facts, and numbers that are equal for facts that say the same."""
        raise NotImplementedError

    def facts_of_chunks(self, chunks: Keys) -> tuple[Keys, Keys, Keys]:
        """Return how many facts chunks have, the facts chunk by chunk, and the number of each in its chunk."""
        raise NotImplementedError

    def openings(self, chunks: Keys) -> list[str]:
        """Return the first words of chunks."""
        return self.texts(chunks, OPENING)

    def chunk_terms(self, chunks: Keys) -> list[tuple[bytes, bytes, bytes]]:
        """Return the packed terms of chunks, those of their facts, and token ids, which may be empty."""
        raise NotImplementedError

    def documents_of(self, chunks: Keys) -> Keys:
        """Return a number for each chunk, which chunks of the same document share."""
        raise NotImplementedError

    def chunks(self, chunks: Keys) -> list[Chunk]:
        """Return chunks in the order given."""
        raise NotImplementedError

    # -- rows

    def texts(self, chunks: Keys, length: int | None = None) -> list[str]:
        """Return the texts of chunks, or their first ``length`` characters."""
        text = self.tables.text if length is None else f"substr({self.tables.text}, 1, {length})"
        return [text for _, text in self._by_key(text, "chunks c", chunks)]

    def facts(self, facts: Keys) -> list[tuple[list[int], Fact]]:
        """Return the names that facts hold, and the facts without entities."""
        tables, found = self.tables, []
        columns = f"f.names, f.text, f.is_plain, {tables.text}, c.id, {tables.ordinal}, {FACT_COLUMNS}"
        joined = f"JOIN chunks c ON {tables.own['c']}c.key = f.chunk"
        rows = self._by_key(columns, "facts f", facts, joined)
        for key, names, stored, is_plain, whole, chunk_id, ordinal, *fields in rows:
            text = text_of_fact(stored, is_plain, whole, fields[0], fields[1])
            ids, pending = (f"{chunk_id}/{ordinal}", chunk_id), self.accesses.pending.get(key)
            found.append((tables.unpack_names(names), fact_of((), text, fields, pending=pending, ids=ids)))
        return found

    def _by_key(self, columns: str, table: str, numbers: Keys, joined: str = "") -> list[Row]:
        """Return key and columns of chunks or facts, in the order given."""
        key_of = self.chunk_keys if table[-1] == "c" else self.fact_keys
        return self._rows_of(columns, table, key_of(numbers).tolist(), joined)

    def _rows_of(self, columns: str, table: str, keys: Sequence[int], joined: str = "") -> list[Row]:
        """Return key and columns of chunks or facts, given by key, in the order given."""
        tables, alias = self.tables, table[-1]
        of_key = f"{tables.wanted} {table} ON {tables.own[alias]}{alias}.key = wanted.value {joined}"
        rows = tables.rows(f"SELECT {alias}.key, {columns} FROM {of_key}", (tables.array(keys),))
        by_key = {row[0]: row for row in rows}
        if not by_key.keys() >= {*keys}:
            raise damaged("a row is missing")
        return [by_key[key] for key in keys]

    def with_relations(self, facts: Keys, relations: Sequence[str]) -> Keys:
        """Return the facts that are triples of some relations."""
        tables, keys = self.tables, self.fact_keys(facts)
        related = tables.keys(
            f"SELECT f.key FROM facts f WHERE {tables.own['f']}f.key {tables.listed} "
            f"AND f.relation {tables.listed_texts}",
            (tables.array(keys), tables.array(relations)),
        )
        return facts[np.isin(keys, related)]

    def outgoing(self, facts: Keys, names: Keys) -> tuple[Keys, Scores, npt.NDArray[np.float64]]:
        """Return the facts whose subject is an entity, given by its names, with confidence and last access time."""
        tables, pending, subjects = self.tables, self.accesses.pending, set(names.tolist())
        both_ways = tables.name_keys([EDGE]).get(EDGE) if self.graph.has_edges else None
        rows = []
        for key, relation, packed, confidence, last in tables.rows(
            "SELECT f.key, f.relation, f.names, f.confidence, coalesce(f.last_accessed, f.created, d.added) "
            "FROM facts f JOIN chunks c ON c.key = f.chunk JOIN documents d ON d.key = c.document "
            f"WHERE {tables.own['f']}{tables.own['c']}{tables.own['d']}f.key {tables.listed} ORDER BY f.key",
            (tables.array(self.fact_keys(facts)),),
        ):
            ends = tables.unpack_names(packed) or [-1]
            if relation is None or ends[0] in subjects or ends[-1] == both_ways:
                rows.append((key, confidence, pending[key][1] if key in pending else last))
        keys, confidences, times = [*zip(*rows, strict=True)] or ((), (), ())
        numbers = self.fact_numbers(np.array(keys, np.int64))
        return numbers, np.array(confidences, np.float32), np.array(times, np.float64)

    def name_terms(self, names: Keys) -> tuple[Keys, npt.NDArray[np.uint32]]:
        """Return the terms of names as hashes: the number of terms of each name, and the terms."""
        known = self.names(names.tolist())
        owners, numbers = terms_of_names([known[name].norm for name in names.tolist()])
        return np.bincount(owners, minlength=len(names)), numbers

    def claims(self, names: Sequence[int]) -> list[tuple[int, str, str]]:
        """Return the types and descriptions that chunks in scope give to names."""
        tables = self.tables
        rows = tables.rows(
            "SELECT t.chunk, t.name, t.type, t.description FROM claims t "
            f"WHERE {tables.own['t']}t.name {tables.listed}",
            (tables.array(names),),
        )
        return [row[1:] for row in self._in_scope(rows)]

    def digits(self, name_ids: Keys) -> Keys:
        """Return the ids of names that are numbers."""
        tables = self.tables
        sql = f"SELECT n.spelling, n.surface FROM names n WHERE {tables.own['n']}n.spelling {tables.listed}"
        rows = tables.rows(sql, (tables.array(name_ids),))
        return np.array([name_id for name_id, name in rows if name.isascii() and name.isdigit()], np.int64)

    def names_like(self, start: str, inside: str) -> Keys:
        """Return the names whose normalised form begins with one text and contains another."""
        runs, tables = plain_runs(f"{start} {inside}"), self.tables
        has_runs = " AND ".join([f"lower(n.surface) LIKE {tables.mark}"] * len(runs or ())) or "1 = 1"
        rows = tables.rows(
            f"SELECT n.key, n.surface FROM names n WHERE {tables.own['n']}"
            f"(({'1 = 0' if runs is None else has_runs}) OR {tables.wide})",
            [f"%{run}%" for run in runs or ()],
        )
        keys = [key for key, surface in rows if (name := normalise(surface)).startswith(start) and inside in name]
        return np.array(sorted(keys), np.int64)

    def find_chunks(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the chunks in scope with some ids."""
        tables = self.tables
        sql = f"SELECT c.key, c.id FROM chunks c WHERE {tables.own['c']}c.id {tables.listed_texts}"
        rows = self._in_scope(tables.rows(sql, (tables.array(storable(ids)),)))
        numbers = self.chunk_numbers(np.array([row[0] for row in rows], np.int64))
        return dict(zip((row[1] for row in rows), numbers.tolist(), strict=True))

    def _in_scope(self, rows: list[Row]) -> list[Row]:
        """Return the rows in scope. Their first column is the key of a chunk."""
        if self.sees is None:
            return rows
        seen = self.sees(np.array([row[0] for row in rows], np.int64))
        return [row for row, is_seen in zip(rows, seen.tolist(), strict=True) if is_seen]

    def record_access(self, facts: Keys, now: float) -> None:
        """Count an access of each fact."""
        self.accesses.note(self.fact_keys(facts).tolist(), now)
