"""``EmbeddedSnapshot``: the reads of a query on SQLite, FAISS, tantivy and the graph.

Keys of chunks and facts are positions in the graph view; entities are numbered after the chunks. They
become record keys only here.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from graphrag_core.engine.embedded.graph import GraphView
from graphrag_core.engine.embedded.keywords import TantivyKeywords
from graphrag_core.engine.embedded.records import Accesses, Name, Records
from graphrag_core.engine.embedded.schema import pack
from graphrag_core.engine.embedded.vectors import FaissVectors
from graphrag_core.model import Chunk, Entity, Fact
from graphrag_core.ports import Adjacency, FactRows, Keys, Kind, Matrix, Ranking, Scores
from graphrag_core.text import hash64

_MAX_DESCRIPTIONS = 8  # of one entity
_NAMES_PER_ENTITY = 4  # searched for each entity wanted, since several names may be one entity


class EmbeddedSnapshot:
    """One generation of an embedded index, restricted to a scope. See :class:`graphrag_core.ports.Snapshot`.

    Parameters
    ----------
    view
        The graph of the chunks in scope.
    records, vectors, keywords
        Where records, vectors (of chunks, facts and names) and keywords (of chunks and facts) are.
    allowed
        The record keys of the chunks in scope, None for all.
    id_places
        From record keys of chunks to their places among all chunks in the order of ids.
    accesses
        Counts accesses of facts until they are written.
    generation
        The generation of all of these.
    """

    def __init__(
        self,
        *,
        view: GraphView,
        records: Records,
        vectors: Mapping[str, FaissVectors],
        keywords: Mapping[str, TantivyKeywords],
        allowed: Keys | None,
        id_places: Callable[[Keys], Keys],
        accesses: Accesses,
        generation: int,
    ) -> None:
        self.generation = generation
        self.first_entity = len(view.chunk_keys)
        self.node_limit = len(view.chunk_keys) + len(view.entity_ids)
        self.linked_share = view.bridged
        self._view = view
        self._records = records
        self._vectors = {"chunks": vectors["chunks"], "facts": vectors["facts"], "entities": vectors["names"]}
        self._keywords = keywords
        self._id_places = id_places
        self._accesses = accesses
        self._record_keys = {"chunks": view.chunk_keys, "facts": view.fact_keys, "entities": view.name_keys}
        self._scoped = allowed is not None
        self._names: dict[int, Name] = {}  # read so far

    # -- search

    def has(self, kind: Kind, *, vectors: bool = False) -> bool:
        """Return whether there are any chunks, facts or entities, or any vectors of them."""
        return len(self._vectors[kind].keys if vectors else self._record_keys[kind]) > 0

    def search_vectors(self, kind: Kind, vectors: Matrix, k: int) -> list[Ranking]:
        """Return for each vector the best ``k`` by cosine similarity, and what ties with the last."""
        known = self._record_keys[kind]
        count = k * _NAMES_PER_ENTITY if kind == "entities" else k
        rankings: list[Ranking] = []
        for found, scores in self._vectors[kind].search(vectors, count, known if self._scoped else None):
            keys = np.searchsorted(known, found)
            if kind == "entities":
                entities = self._view.name_entity[keys]
                order = np.lexsort((entities, -scores))
                _, first = np.unique(entities[order], return_index=True)
                order = order[np.sort(first)][:k]
                rankings.append((self.first_entity + entities[order], scores[order]))
            else:
                rankings.append((keys, scores))
        return rankings

    def search_keywords(self, kind: Kind, text: str, k: int) -> Ranking:
        """Return the best ``k`` chunks or facts by BM25, and what ties with the last."""
        known = self._record_keys[kind]
        found, scores = self._keywords[kind].search(text, k, known if self._scoped else None)
        if len(known) == 0:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        keys = np.searchsorted(known, found)
        is_known = known[np.minimum(keys, len(known) - 1)] == found
        return keys[is_known], scores[is_known]

    def similarities(self, kind: Kind, keys: Keys, vector: Matrix | None) -> Scores:
        """Return the cosine similarity of chunks or facts to a vector; 0 where one of the two has no vector."""
        vectors = self._vectors[kind]
        if vector is None or len(keys) == 0 or len(vectors.keys) == 0:
            return np.zeros(len(keys), np.float32)
        similarity: Scores = vectors.get(self._record_keys[kind][keys]) @ vector
        return similarity

    def id_order(self, kind: Kind, keys: Keys) -> Keys:
        """Return numbers that sort chunks by id, or facts by chunk id and position in the chunk."""
        if kind == "chunks":
            return self._id_places(self._view.chunk_keys[keys])
        return self._id_places(self._view.chunk_keys[self._view.fact_chunk[keys]]) << 32 | keys

    # -- the graph

    def find_entities(self, names: Iterable[str]) -> dict[str, int]:
        """Return the entities of normalised names; unknown names are left out."""
        by_number = {hash64(name): name for name in names}
        rows = self._records.rows(
            "SELECT entity, key FROM names WHERE entity IN (SELECT value FROM json_each(?))",
            (json.dumps(list(by_number)),),
        )
        found: dict[str, int] = {}
        known = self._view.name_keys
        for number, key in rows:
            position = int(np.searchsorted(known, key))
            if position < len(known) and known[position] == key:
                found[by_number[number]] = self.first_entity + int(self._view.name_entity[position])
        return found

    def entity_counts(self, entities: Keys) -> tuple[Keys, npt.NDArray[np.bool_]]:
        """Return how many chunks mention each entity, and whether it is the subject of any."""
        positions = entities - self.first_entity
        return self._view.entity_chunks[positions], self._view.is_subject[positions]

    def neighbours(self, nodes: Keys, to: Kind | None = None, limit: int | None = None) -> Adjacency:
        """Return the edges of nodes, restricted to chunks or entities as targets if ``to`` is given."""
        view = self._view
        counts, targets, weights = _rows(view.adjacency, nodes)
        if to is not None:
            kept = (targets < self.first_entity) == (to == "chunks")
            owners = np.repeat(np.arange(len(nodes)), counts)[kept]
            counts, targets, weights = np.bincount(owners, minlength=len(nodes)), targets[kept], weights[kept]
        if limit is not None and len(counts) and counts.max() > 0:
            owners = np.repeat(np.arange(len(nodes)), counts)
            order = np.lexsort((targets, -weights, owners))
            place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
            order = order[place < limit]
            counts, targets, weights = np.minimum(counts, limit), targets[order], weights[order]
        return Adjacency(counts, targets, weights, view.totals[nodes], view.degrees[targets])

    def facts_of(
        self,
        entities: Keys,
        *,
        joint: bool = False,
        relations: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Keys:
        """Return the facts that hold any of some entities, or with ``joint`` all of them, in order of key."""
        by_entity = self._view.facts_by_entity
        positions = entities - self.first_entity
        starts, stops = by_entity.indptr[positions], by_entity.indptr[positions + 1]
        if limit is not None:
            stops = np.minimum(stops, starts + limit)
        rows = [by_entity.indices[a:b] for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]
        rows.sort(key=len)
        facts: Keys = (rows[0] if rows else np.empty(0)).astype(np.int64)
        if joint:
            for row in rows[1:]:  # sorted: look the few up in the many
                facts = facts[row[np.minimum(np.searchsorted(row, facts), len(row) - 1)] == facts]
        elif len(rows) > 1:
            facts = np.unique(np.concatenate(rows)).astype(np.int64)
        if relations is not None:
            keys = self._view.fact_keys[facts]
            found = self._records.rows(
                "SELECT key FROM facts WHERE key IN (SELECT value FROM json_each(?)) "
                "AND relation IN (SELECT value FROM json_each(?))",
                (json.dumps(keys.tolist()), json.dumps(relations)),
            )
            facts = facts[np.isin(keys, [row[0] for row in found])]
        return facts

    def outgoing_facts(self, entity: int, limit: int) -> tuple[Keys, Scores, npt.NDArray[np.float64]]:
        """Return the facts that start at an entity, with their confidence and the time of their last access."""
        view = self._view
        facts = self.facts_of(np.array([entity]))
        if len(facts) > limit:
            facts = facts[np.lexsort((self.id_order("facts", facts), -view.fact_weight[facts]))[:limit]]
        order, starts = view.names_by_entity
        position = entity - self.first_entity
        names = view.name_keys[order[starts[position] : starts[position + 1]]].tolist()
        marks = ", ".join("?" * len(names))
        rows = self._records.rows(
            "SELECT f.key, f.confidence, coalesce(f.last_accessed, f.created, d.added) FROM facts f "
            "JOIN chunks c ON c.key = f.chunk JOIN documents d ON d.key = c.document "
            "WHERE f.key IN (SELECT value FROM json_each(?)) AND f.status IN ('staged', 'confirmed') "
            f"AND (f.relation IS NULL OR substr(f.names, 1, 8) IN ({marks}))",
            (json.dumps(view.fact_keys[facts].tolist()), *(pack([name]) for name in names)),
        )
        pending = self._accesses.pending
        accessed = [pending[row[0]][1] if row[0] in pending else row[2] for row in rows]
        keys = np.searchsorted(view.fact_keys, np.array([row[0] for row in rows], np.int64))
        return keys, np.array([row[1] for row in rows], np.float32), np.array(accessed, np.float64)

    def fact_rows(self, facts: Keys) -> FactRows:
        """Return facts as columns, in the order given."""
        counts, entities, _ = _rows(self._view.incidence, facts)
        view = self._view
        return FactRows(facts, view.fact_chunk[facts], view.fact_weight[facts], counts, self.first_entity + entities)

    def record_access(self, facts: Keys, now: float) -> None:
        """Count an access of each fact; written with the next change of the index."""
        self._accesses.note(self._view.fact_keys[facts].tolist(), now)

    # -- records

    def chunks(self, keys: Keys) -> list[Chunk]:
        """Return chunks in the order given."""
        return self._records.chunks(self._view.chunk_keys[keys])

    def facts(self, keys: Keys) -> list[Fact]:
        """Return facts in the order given, with entity ids in place of names."""
        if len(keys) == 0:
            return []
        record_keys = self._view.fact_keys[keys]
        facts = []
        for key, fact in zip(record_keys.tolist(), self._records.facts(record_keys, self._names), strict=True):
            if key in self._accesses.pending:
                count, last = self._accesses.pending[key]
                fact = replace(fact, access_count=fact.access_count + count, last_accessed=last)  # noqa: PLW2901
            facts.append(fact)
        return facts

    def entities(self, keys: Keys) -> list[Entity]:
        """Return entities: the most frequent spelling and type, the descriptions of the chunks in scope."""
        view = self._view
        positions = keys - self.first_entity
        order, starts = view.names_by_entity
        groups = [view.name_keys[order[starts[p] : starts[p + 1]]].tolist() for p in positions.tolist()]
        wanted = [key for group in groups for key in group]
        self._names.update(self._records.names(wanted))
        claims: dict[int, list[tuple[str, str]]] = {}
        for name, chunk, kind, description in self._records.rows(
            "SELECT name, chunk, type, description FROM claims WHERE name IN (SELECT value FROM json_each(?)) "
            "ORDER BY description",
            (json.dumps(wanted),),
        ):
            position = np.searchsorted(view.chunk_keys, chunk)
            if position < self.first_entity and view.chunk_keys[position] == chunk:
                claims.setdefault(name, []).append((kind, description))
        entities = []
        for group, position in zip(groups, positions.tolist(), strict=True):
            mentions = int(view.entity_chunks[position])
            own = self._names[group[0]]
            said = [claim for key in group for claim in claims.get(key, ())]
            if len(group) == 1 and not said:
                entities.append(Entity(own.norm, own.surface, mentions=mentions))
                continue
            names = sorted((-name.uses, name.surface, name) for name in map(self._names.__getitem__, group))
            own = next(name for _, _, name in names if name.entity == view.entity_ids[position])
            types = Counter(kind for kind, _ in said if kind)
            descriptions = sorted({description for _, description in said if description})
            entities.append(
                Entity(
                    id=own.norm,
                    name=own.surface,
                    type=min((-count, kind) for kind, count in types.items())[1] if types else "",
                    description=" ".join(descriptions[:_MAX_DESCRIPTIONS]),
                    aliases=tuple(sorted({surface for _, surface, _ in names} - {own.surface})),
                    mentions=mentions,
                )
            )
        return entities

    def top_entities(self, count: int) -> Keys:
        """Return the entities that the most chunks mention, most first."""
        order = np.lexsort((self._view.entity_ids, -self._view.entity_chunks))
        return self.first_entity + order[:count]


def _rows(matrix: csr_array, rows: Keys) -> tuple[Keys, Keys, npt.NDArray[Any]]:
    """Return some rows of a sparse matrix, one after the other: their lengths, columns and values."""
    starts = matrix.indptr[rows].astype(np.int64)
    counts = matrix.indptr[rows + 1] - starts
    ends = counts.cumsum()
    at = np.arange(ends[-1] if len(ends) else 0)
    at += (starts - ends + counts).repeat(counts)
    return counts, matrix.indices[at].astype(np.int64), matrix.data[at]  # NumPy indexes with 64 bits
