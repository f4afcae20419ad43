"""``EmbeddedSnapshot``: the reads of a query on SQLite, FAISS, tantivy and the graph.

Keys of chunks and facts are positions in the graph view; entities are numbered after the chunks. They
become record keys only here.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from graphrag_core.engine.embedded.graph import GraphView
from graphrag_core.engine.embedded.keywords import TantivyKeywords
from graphrag_core.engine.embedded.records import CHUNK, FACT, LISTED, Accesses, Name, Records
from graphrag_core.engine.embedded.schema import pack
from graphrag_core.engine.embedded.vectors import FaissVectors
from graphrag_core.model import Chunk, Entity, Fact
from graphrag_core.ports import Adjacency, FactRows, Keys, Kind, Matrix, Ranking, Scores
from graphrag_core.text import hash64

_MAX_DESCRIPTIONS = 8  # of one entity
_NAMES_PER_ENTITY = 4  # searched for each entity wanted, since several names may be one entity


class EmbeddedSnapshot:
    """One generation of an embedded index, restricted to a scope. See :class:`graphrag_core.ports.Snapshot`.

    ``view`` is the graph of the chunks in scope, ``allowed`` their record keys (None for all), and
    ``id_places`` the place of each among all chunks in the order of ids.
    """

    def __init__(
        self,
        *,
        view: GraphView,
        records: Records,
        vectors: Mapping[str, FaissVectors],
        keywords: Mapping[str, TantivyKeywords],
        allowed: Keys | None,
        id_places: Keys,
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
        return len(self._vectors[kind].keys if vectors else self._record_keys[kind]) > 0

    def search_vectors(self, kind: Kind, vectors: Matrix, k: int) -> list[Ranking]:
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
        known = self._record_keys[kind]
        found, scores = self._keywords[kind].search(text, k, known if self._scoped else None)
        if len(known) == 0:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        keys = np.searchsorted(known, found)
        is_known = known[np.minimum(keys, len(known) - 1)] == found
        return keys[is_known], scores[is_known]

    def similarities(self, kind: Kind, keys: Keys, vector: Matrix | None) -> Scores:
        vectors = self._vectors[kind]
        if vector is None or len(keys) == 0 or len(vectors.keys) == 0:
            return np.zeros(len(keys), np.float32)
        similarity: Scores = vectors.get(self._record_keys[kind][keys]) @ vector
        return similarity

    def id_order(self, kind: Kind, keys: Keys) -> Keys:
        if kind == "chunks":
            return self._id_places[keys]
        return self._id_places[self._view.fact_chunk[keys]] << 32 | keys

    # -- the graph

    def find_entities(self, names: Iterable[str]) -> dict[str, int]:
        by_number = {hash64(name): name for name in names}
        rows = self._records.rows(
            f"SELECT entity, key FROM names WHERE entity {LISTED}",
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
        positions = entities - self.first_entity
        return self._view.entity_chunks[positions], self._view.is_subject[positions]

    def neighbours(self, nodes: Keys, to: Kind | None = None, limit: int | None = None) -> Adjacency:
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
                f"SELECT key FROM facts WHERE key {LISTED} AND relation {LISTED}",
                (json.dumps(keys.tolist()), json.dumps(relations)),
            )
            facts = facts[np.isin(keys, [row[0] for row in found])]
        return facts

    def outgoing_facts(self, entity: int, limit: int) -> tuple[Keys, Scores, npt.NDArray[np.float64]]:
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
            f"WHERE f.key {LISTED} AND (f.relation IS NULL OR substr(f.names, 1, 8) IN ({marks}))",
            (json.dumps(view.fact_keys[facts].tolist()), *(pack([name]) for name in names)),
        )
        pending = self._accesses.pending
        accessed = [pending[row[0]][1] if row[0] in pending else row[2] for row in rows]
        keys = np.searchsorted(view.fact_keys, np.array([row[0] for row in rows], np.int64))
        return keys, np.array([row[1] for row in rows], np.float32), np.array(accessed, np.float64)

    def fact_rows(self, facts: Keys) -> FactRows:
        counts, entities, _ = _rows(self._view.incidence, facts)
        view = self._view
        return FactRows(facts, view.fact_chunk[facts], view.fact_weight[facts], counts, self.first_entity + entities)

    def record_access(self, facts: Keys, now: float) -> None:
        self._accesses.note(self._view.fact_keys[facts].tolist(), now)

    # -- records

    def chunks(self, keys: Keys) -> list[Chunk]:
        wanted = self._view.chunk_keys[keys].tolist()
        rows = {row[0]: row for row in self._records.rows(f"{CHUNK} WHERE c.key {LISTED}", (json.dumps(wanted),))}
        ordered = [rows[key] for key in wanted]
        return [Chunk(r[1], r[2], r[3], r[4], r[5], r[6], json.loads(r[7])) for r in ordered]

    def facts(self, keys: Keys) -> list[Fact]:
        wanted = self._view.fact_keys[keys].tolist()
        rows = {row[0]: row for row in self._records.rows(f"{FACT} WHERE f.key {LISTED}", (json.dumps(wanted),))}
        held = {key: np.frombuffer(row[1], "<i8").tolist() for key, row in rows.items()}
        if missing := {name for names in held.values() for name in names} - self._names.keys():
            self._names.update(self._records.names(sorted(missing)))
        facts = []
        for key in wanted:
            text, relation, weight, confidence, source, status, value, created, last, count, *place = rows[key][2:]
            start, stop, fact_id, chunk_id = place
            if key in self._accesses.pending:
                more, last = self._accesses.pending[key]
                count += more
            entities = [self._names[name].norm for name in held[key]]
            facts.append(
                Fact(
                    tuple(entities if relation else dict.fromkeys(entities)), text, relation, weight, confidence,
                    source, status, value, created, last, count, None if start is None else (start, stop),
                    fact_id, chunk_id,
                )
            )  # fmt: skip
        return facts

    def entities(self, keys: Keys) -> list[Entity]:
        view = self._view
        positions = keys - self.first_entity
        order, starts = view.names_by_entity
        groups = [view.name_keys[order[starts[p] : starts[p + 1]]].tolist() for p in positions.tolist()]
        wanted = [key for group in groups for key in group]
        self._names.update(self._records.names(wanted))
        claims: dict[int, list[tuple[str, str]]] = {}
        for name, chunk, kind, description in self._records.rows(
            f"SELECT name, chunk, type, description FROM claims WHERE name {LISTED} ORDER BY description",
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
