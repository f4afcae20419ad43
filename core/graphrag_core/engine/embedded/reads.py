"""The rankings and rows of an embedded index, for :class:`~graphrag_core.engine.graph.snapshot.StoreSnapshot`."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.embedded.keywords import TantivyKeywords
from graphrag_core.engine.embedded.records import LISTED, Records
from graphrag_core.engine.embedded.vectors import FaissVectors
from graphrag_core.engine.graph.edits import GraphEdits
from graphrag_core.engine.graph.live import LiveGraph, LiveUses
from graphrag_core.engine.graph.scoped import ScopedGraph
from graphrag_core.engine.graph.snapshot import GraphReads, fact_copies
from graphrag_core.engine.rows import Accesses
from graphrag_core.engine.tables import TableReads
from graphrag_core.ports import Keys, Kind, Matrix, Ranking, Scores

Flags = npt.NDArray[np.bool_]

_NEAR = f"""
WITH own AS (SELECT near_1, near_2, near_3 FROM chunks WHERE key {LISTED})
SELECT key, near_1, near_2, near_3 FROM chunks WHERE near_1 IN (SELECT near_1 FROM own)
OR near_2 IN (SELECT near_2 FROM own) OR near_3 IN (SELECT near_3 FROM own)
"""
_KINDS = {"chunks": "chunks", "facts": "facts", "entities": "names"}


class EmbeddedReads(TableReads):
    """Reads of one generation on SQLite, FAISS, tantivy and the graph in memory.

    Chunks and facts have the numbers of the graph, which become record keys only here. ``visible`` says by key which
    chunks are in scope; None for all.
    """

    def __init__(
        self,
        *,
        graph: LiveGraph,
        records: Records,
        vectors: Mapping[str, FaissVectors],
        keywords: Mapping[str, TantivyKeywords],
        visible: Flags | None,
        id_places: Keys,
        accesses: Accesses,
        edits: GraphEdits,
        generation: int,
    ) -> None:
        self.generation = generation
        self.statistics_count = self.chunk_count = len(graph.chunk_keys)
        in_scope: GraphReads = graph
        if visible is not None:
            self.chunk_count = int(visible.sum())
            uses = LiveUses(graph, visible)
            in_scope = ScopedGraph(uses, graph.linked_share, edits, has_edits=graph.has_edits)
        super().__init__(
            records,
            in_scope,
            accesses,
            chunk_keys=graph.chunk_keys.__getitem__,
            chunk_numbers=graph.chunk_keys.searchsorted,
            fact_keys=graph.fact_keys.__getitem__,
            fact_numbers=graph.fact_keys.searchsorted,
            sees=None if visible is None else visible.__getitem__,
        )
        self.id_places = id_places.__getitem__
        self.fact_places = graph.fact_places
        self.term_counts = keywords["chunks"].counts
        self._all = graph
        self._vectors = vectors
        self._keywords = keywords
        self._visible = visible
        self._allowed: dict[str, Keys] = {}

    # -- rankings

    def _inside(self, kind: str) -> Keys | None:
        """Return the record keys in scope of chunks, facts or names; None for all."""
        if self._visible is None:
            return None
        if kind not in self._allowed:
            chunks, facts = self._all.chunk_keys, self._all.fact_keys
            inside = self._visible[chunks]
            if kind == "chunks":
                self._allowed[kind] = chunks[inside]
            elif kind == "facts":
                self._allowed[kind] = facts[inside[self._all.chunks_of_facts(np.arange(len(facts)))]]
            else:
                self._allowed[kind] = self._all.names_in(np.flatnonzero(inside))
        return self._allowed[kind]

    def has(self, kind: Kind, *, vectors: bool = False) -> bool:
        """Return whether there are any chunks, facts or entities, or any vectors of them."""
        if vectors:
            return len(self._vectors[_KINDS[kind]].keys) > 0
        keys = {"chunks": self._all.chunk_keys, "facts": self._all.fact_keys, "entities": self._all.name_keys}[kind]
        return self.chunk_count > 0 and len(keys) > 0

    def nearest(self, kind: str, vectors: Matrix, k: int) -> list[Ranking]:
        """Return for each vector the best ``k`` chunks, facts or names, and what ties with the last."""
        found = self._vectors[kind].search(vectors, k, self._inside(kind))
        return found if kind == "names" else [self._numbered(kind, *ranking) for ranking in found]

    def keywords(self, kind: str, text: str, k: int) -> Ranking:
        """Return the best ``k`` chunks or facts by BM25, and what ties with the last."""
        return self._numbered(kind, *self._keywords[kind].search(text, k, self._inside(kind)))

    def _numbered(self, kind: str, keys: Keys, scores: Scores) -> Ranking:
        """Return the numbers of record keys. The keyword index may have some that are gone."""
        known = self._all.chunk_keys if kind == "chunks" else self._all.fact_keys
        if len(known) == 0:
            return keys[:0], scores[:0]
        numbers = np.searchsorted(known, keys)
        there = known[np.minimum(numbers, len(known) - 1)] == keys
        return numbers[there], scores[there]

    def similarities(self, kind: str, keys: Keys, vector: Matrix) -> Scores:
        """Return the cosine similarity of chunks or facts to a vector."""
        known = self._all.chunk_keys if kind == "chunks" else self._all.fact_keys
        # Row by row: a matrix product rounds a row differently by its position.
        found: Scores = np.vecdot(self._vectors[kind].get(known[keys]), vector)
        return found

    # -- rows

    def signatures(self, chunks: Keys) -> list[tuple[int, Sequence[int]]]:
        """Return the signatures of chunks, and of all in scope that have one in common with them."""
        rows = self._tables.rows(_NEAR, (self._tables.array(self._chunk_keys(chunks)),))
        return [(number, rows[at][1:]) for at, number in self._in_scope(rows)]

    def fact_columns(self, facts: Keys) -> tuple[Scores, Keys]:
        """Return the weights of facts, and numbers that are the same for those that say the same."""
        return self._all.fact_weight[facts], self._all.fact_statement[facts]

    def fact_copies(self, facts: Keys) -> list[Keys]:
        """Return for each fact the others that say the same."""
        return fact_copies(self, facts)
