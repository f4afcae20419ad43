"""The rankings and rows of an embedded index, for :class:`~graphrag_core.engine.graph.snapshot.StoreSnapshot`."""

import json
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.embedded.keywords import TantivyKeywords
from graphrag_core.engine.embedded.records import CHUNK, FACT, LISTED, NEAR, Records
from graphrag_core.engine.embedded.schema import NAME_BYTES, pack, unpack
from graphrag_core.engine.embedded.vectors import FaissVectors
from graphrag_core.engine.graph.edits import GraphEdits
from graphrag_core.engine.graph.live import LiveGraph, LiveUses
from graphrag_core.engine.graph.scoped import ScopedGraph
from graphrag_core.engine.graph.snapshot import GraphReads, Name, fact_copies
from graphrag_core.engine.rows import Accesses, chunk_of, fact_of
from graphrag_core.model import Chunk, Fact
from graphrag_core.ports import Keys, Kind, Matrix, Ranking, Scores
from graphrag_core.text import EDGE, normalise, plain_runs

Flags = npt.NDArray[np.bool_]

_KINDS = {"chunks": "chunks", "facts": "facts", "entities": "names"}


class EmbeddedReads:
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
        self.graph: GraphReads = graph
        if visible is not None:
            self.chunk_count = int(visible.sum())
            uses = LiveUses(graph, visible)
            self.graph = ScopedGraph(uses, graph.linked_share, edits, has_edits=graph.has_edits)
        self._all = graph
        self._records = records
        self._vectors = vectors
        self._keywords = keywords
        self._visible = visible
        self._id_places = id_places
        self._accesses = accesses

    # -- rankings

    @cached_property
    def _allowed(self) -> dict[str, Keys | None]:
        """The record keys in scope by kind; None for all."""
        if self._visible is None:
            return dict.fromkeys(("chunks", "facts", "names"))
        chunks, facts = self._all.chunk_keys, self._all.fact_keys
        inside = self._visible[chunks]
        names = self._all.names_in(np.flatnonzero(inside)) if len(self._vectors["names"].keys) else facts[:0]
        of_facts = inside[self._all.chunks_of_facts(np.arange(len(facts)))]
        return {"chunks": chunks[inside], "facts": facts[of_facts], "names": names}

    def has(self, kind: Kind, *, vectors: bool = False) -> bool:
        """Return whether there are any chunks, facts or entities, or any vectors of them."""
        if vectors:
            return len(self._vectors[_KINDS[kind]].keys) > 0
        keys = {"chunks": self._all.chunk_keys, "facts": self._all.fact_keys, "entities": self._all.name_keys}[kind]
        return self.chunk_count > 0 and len(keys) > 0

    def nearest(self, kind: str, vectors: Matrix, k: int) -> list[Ranking]:
        """Return for each vector the best ``k`` chunks, facts or names, and what ties with the last."""
        found = self._vectors[kind].search(vectors, k, self._allowed[kind])
        return found if kind == "names" else [self._numbered(kind, *ranking) for ranking in found]

    def keywords(self, kind: str, text: str, k: int) -> Ranking:
        """Return the best ``k`` chunks or facts by BM25, and what ties with the last."""
        return self._numbered(kind, *self._keywords[kind].search(text, k, self._allowed[kind]))

    def _numbered(self, kind: str, keys: Keys, scores: Scores) -> Ranking:
        """Return the numbers of record keys. The keyword index may have some that are gone."""
        known = self._all.chunk_keys if kind == "chunks" else self._all.fact_keys
        if len(known) == 0:
            return keys[:0], scores[:0]
        numbers = np.searchsorted(known, keys)
        there = known[np.minimum(numbers, len(known) - 1)] == keys
        return numbers[there], scores[there]

    def term_counts(self, terms: Sequence[str]) -> Keys:
        """Return how many chunks, of all documents, have each term."""
        return self._keywords["chunks"].counts(terms)

    def similarities(self, kind: str, keys: Keys, vector: Matrix) -> Scores:
        """Return the cosine similarity of chunks or facts to a vector."""
        known = self._all.chunk_keys if kind == "chunks" else self._all.fact_keys
        # Row by row: a matrix product rounds a row differently by its position.
        found: Scores = np.vecdot(self._vectors[kind].get(known[keys]), vector)
        return found

    def id_places(self, chunks: Keys) -> Keys:
        """Return the places of chunks in the order of ids."""
        return self._id_places[chunks]

    # -- rows

    def chunk_terms(self, chunks: Keys) -> list[tuple[bytes, bytes]]:
        """Return the packed terms of chunks and of their facts."""
        keys = self._all.chunk_keys[chunks].tolist()
        found = self._records.chunk_terms(keys)
        return [found[key] for key in keys]

    def signatures(self, chunks: Keys) -> list[tuple[int, Sequence[int]]]:
        """Return the signatures of chunks, and of all in scope that have one in common with them."""
        rows = self._records.rows(NEAR, (json.dumps(self._all.chunk_keys[chunks].tolist()),))
        keys = np.array([row[0] for row in rows], np.int64)
        seen = np.ones(len(keys), np.bool_) if self._visible is None else self._visible[keys]
        numbers = np.searchsorted(self._all.chunk_keys, keys).tolist()
        return [(number, row[1:]) for number, row, inside in zip(numbers, rows, seen.tolist(), strict=True) if inside]

    def chunks(self, keys: Keys) -> list[Chunk]:
        """Return chunks in the order given."""
        if len(keys) == 0:
            return []
        wanted = self._all.chunk_keys[keys].tolist()
        rows = {row[0]: row for row in self._records.rows(f"{CHUNK} WHERE c.key {LISTED}", (json.dumps(wanted),))}
        return [chunk_of(rows[key]) for key in wanted]

    def texts(self, chunks: Keys, length: int | None = None) -> list[str]:
        """Return the texts of chunks, or their beginnings."""
        keys = self._all.chunk_keys[chunks].tolist()
        text = "inflate(text)" if length is None else f"substr(inflate(text), 1, {length})"
        rows: dict[int, str] = dict(
            self._records.rows(f"SELECT key, {text} FROM chunks WHERE key {LISTED}", (json.dumps(keys),))
        )
        return [rows[key] for key in keys]

    def fact_places(self, facts: Keys) -> tuple[Keys, Keys]:
        """Return the chunks of facts, and their places in them."""
        return self._all.fact_places(facts)

    def fact_columns(self, facts: Keys) -> tuple[Scores, Keys]:
        """Return the weights of facts, and numbers that are the same for those that say the same."""
        return self._all.fact_weight[facts], self._all.fact_statement[facts]

    def fact_copies(self, facts: Keys) -> list[Keys]:
        """Return for each fact the others that say the same."""
        return fact_copies(self, facts)

    def facts(self, keys: Keys) -> list[tuple[list[int], Fact]]:
        """Return the names that facts hold, and the facts without entities."""
        wanted = self._all.fact_keys[keys].tolist()
        rows = {row[0]: row for row in self._records.rows(f"{FACT} WHERE f.key {LISTED}", (json.dumps(wanted),))}
        facts = []
        for key in wanted:
            _, names, text, fact_id, chunk_id, *columns = rows[key]
            pending = self._accesses.pending.get(key)
            facts.append((unpack(names).tolist(), fact_of((), text, columns, pending=pending, ids=(fact_id, chunk_id))))
        return facts

    def with_relations(self, facts: Keys, relations: Sequence[str]) -> Keys:
        """Return the facts that are triples of some relations."""
        keys = self._all.fact_keys[facts]
        related = self._records.rows(
            f"SELECT key FROM facts WHERE key {LISTED} AND relation {LISTED}",
            (json.dumps(keys.tolist()), json.dumps(relations)),
        )
        return facts[np.isin(keys, [row[0] for row in related])]

    def outgoing(self, facts: Keys, names: Keys) -> tuple[Keys, Scores, npt.NDArray[np.float64]]:
        """Return the facts whose subject is an entity, given by its names, with confidence and last access time."""
        marks = ", ".join("?" * len(names))
        both_ways = self._records.name_keys([EDGE]).values() if self.graph.has_edits else ()
        rows = self._records.rows(
            "SELECT f.key, f.confidence, coalesce(f.last_accessed, f.created, d.added) FROM facts f "
            "JOIN chunks c ON c.key = f.chunk JOIN documents d ON d.key = c.document "
            f"WHERE f.key {LISTED} AND (f.relation IS NULL OR substr(f.names, 1, {NAME_BYTES}) IN ({marks}) "
            f"OR substr(f.names, -{NAME_BYTES}) = ?)",
            (
                json.dumps(self._all.fact_keys[facts].tolist()),
                *(pack([name]) for name in names.tolist()),
                pack(list(both_ways)),
            ),
        )
        pending = self._accesses.pending
        accessed = [pending[row[0]][1] if row[0] in pending else row[2] for row in rows]
        keys = np.searchsorted(self._all.fact_keys, np.array([row[0] for row in rows], np.int64))
        return keys, np.array([row[1] for row in rows], np.float32), np.array(accessed, np.float64)

    def names(self, names: Sequence[int]) -> dict[int, Name]:
        """Return names by key."""
        return self._records.names(names)

    def claims(self, names: Sequence[int]) -> list[tuple[int, str, str]]:
        """Return the types and descriptions that chunks in scope give to names."""
        rows = self._records.rows(
            f"SELECT name, type, description, chunk FROM claims WHERE name {LISTED}", (json.dumps(names),)
        )
        return [row[:3] for row in rows if self._visible is None or self._visible[row[3]]]

    def digits(self, spellings: Keys) -> Keys:
        """Return the spellings, given by hash, that are numbers."""
        rows = self._records.rows(
            f"SELECT entity FROM names WHERE entity {LISTED} AND surface NOT GLOB '*[^0-9]*'",
            (json.dumps(spellings.tolist()),),
        )
        return np.array([row[0] for row in rows], np.int64)

    def names_like(self, start: str, inside: str) -> Keys:
        """Return the names whose normalised form begins with one text and contains another."""
        runs = plain_runs(f"{start} {inside}")
        plain = "0" if runs is None else " AND ".join(["instr(lower(surface), ?)"] * len(runs)) or "1"
        rows = self._records.rows(
            f"SELECT key, surface FROM names WHERE ({plain}) OR length(surface) < length(CAST(surface AS BLOB))",
            tuple(runs or ()),
        )
        keys = [key for key, surface in rows if (name := normalise(surface)).startswith(start) and inside in name]
        return np.array(sorted(keys), np.int64)

    def find_chunks(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the chunks with some ids."""
        rows = self._records.rows(f"SELECT key, id FROM chunks WHERE id {LISTED}", (json.dumps(list(ids)),))
        numbers = np.searchsorted(self._all.chunk_keys, np.array([key for key, _ in rows], np.int64)).tolist()
        found = zip(rows, numbers, strict=True)
        return {row[1]: number for row, number in found if self._visible is None or self._visible[row[0]]}

    def record_access(self, facts: Keys, now: float) -> None:
        """Count an access of each fact."""
        self._accesses.note(self._all.fact_keys[facts].tolist(), now)
