"""``EmbeddedSnapshot``: the reads of a query on SQLite, FAISS, tantivy and the graph.

Keys of chunks and facts are positions in the graph view; entities are numbered after the chunks. They
become record keys only here.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.analysis import contained, contained_in_facts, content_terms, name_terms
from graphrag_core.engine.copies import find_copies
from graphrag_core.engine.embedded.keywords import TantivyKeywords
from graphrag_core.engine.embedded.records import CHUNK, FACT, LISTED, NAMED, NEAR, Name, Records
from graphrag_core.engine.embedded.schema import NAME_BYTES, pack, unpack
from graphrag_core.engine.embedded.vectors import FaissVectors
from graphrag_core.engine.graph.build import GraphView
from graphrag_core.engine.graph.edits import Shown
from graphrag_core.engine.graph.live import LiveView
from graphrag_core.engine.rows import SOURCES, STATUSES, Accesses, chunk_of
from graphrag_core.key_sets import among, distinct
from graphrag_core.model import Chunk, Entity, Fact
from graphrag_core.ports import Adjacency, FactRows, Keys, Kind, Matrix, Ranking, Scores
from graphrag_core.text import EDGE, REFERS_TO, hash64, label, normalise, plain_runs
from graphrag_core.text.markup import plain

_OPENING = 200  # characters of a chunk in which the name that it opens with is looked for
_OPENING_WORDS = 8
_HASH = re.compile(r"~[0-9a-f]{8}$")  # of a value in an address
_MAX_DESCRIPTIONS = 8  # of one entity
_TOP_CANDIDATES = 3  # for each entity wanted, since numbers are left out
_MOST_SEARCHED = 5_000  # facts, to find enough that are not equal
_AHEAD = 4  # times as many facts are compared at once, as a second search would take as long as the first
_AS_IS = Shown()
_NONE: Keys = np.empty(0, np.int64)
_NAMES_PER_ENTITY = 4  # searched for each entity wanted, since several names may be one entity


class EmbeddedSnapshot:
    """One generation of an embedded index, restricted to a scope. See :class:`graphrag_core.ports.Snapshot`.

    ``view`` is the graph of the chunks in scope, ``allowed`` their record keys (None for all), and
    ``id_places`` the place of each among all chunks in the order of ids. ``keywords_filtered`` says that ``keywords``
    has other chunks too.
    """

    def __init__(
        self,
        *,
        view: GraphView | LiveView,
        records: Records,
        vectors: Mapping[str, FaissVectors],
        keywords: Mapping[str, TantivyKeywords],
        keywords_filtered: bool,
        allowed: Keys | None,
        id_places: Keys,
        accesses: Accesses,
        generation: int,
    ) -> None:
        self.generation = generation
        self.chunk_count = self.first_entity = len(view.chunk_keys)
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
        self._keywords_filtered = keywords_filtered
        self._names: dict[int, Name] = {}  # read so far
        self._terms: dict[int, tuple[bytes, bytes]] = {}
        self._entities: dict[int, Entity] = {}
        self._analysed: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}  # chunks that have a term
        self._copies: dict[int, Keys] = {}  # of chunks
        self._searched: tuple[Matrix, Keys, Scores] | None = None  # the last vector, its chunks in order, their scores

    # -- search

    def has(self, kind: Kind, *, vectors: bool = False) -> bool:
        return len(self._vectors[kind].keys if vectors else self._record_keys[kind]) > 0

    def search_vectors(self, kind: Kind, vectors: Matrix, k: int) -> list[Ranking]:
        known = self._record_keys[kind]
        allowed, store = known if self._scoped else None, self._vectors[kind]
        if kind == "facts":
            return [self._once(partial(_search_one, store, vector, allowed), k, ahead=_AHEAD) for vector in vectors]
        count = k * _NAMES_PER_ENTITY if kind == "entities" else k
        found = [(np.searchsorted(known, keys), scores) for keys, scores in store.search(vectors, count, allowed)]
        if kind == "entities":
            return [self._entities_of(*ranking, k) for ranking in found]
        if len(vectors) == 1:
            ((keys, scores),) = found
            order = np.argsort(keys)
            self._searched = vectors[0], keys[order], scores[order]
        return found

    def _entities_of(self, names: Keys, scores: Scores, k: int) -> Ranking:
        """Return the best ``k`` entities of names, given by position."""
        entities = self._view.entities_of_names(names)
        shown = entities >= 0
        shown[shown] = ~self._view.are_addresses(entities[shown])
        entities, scores = entities[shown], scores[shown]
        order = np.lexsort((entities, -scores))
        _, first = np.unique(entities[order], return_index=True)
        order = order[np.sort(first)][:k]
        return self.first_entity + entities[order], scores[order]

    def _once(self, search: Callable[[int], Ranking], k: int, ahead: int = 1) -> Ranking:
        """Return a ranking of facts in which each statement is there once, in its best place.

        ``ahead`` times as many are searched as are asked for, in case some are not enough.
        """
        count, everything = k, search(ahead * k)
        while True:
            found, scores = _first(everything, count)
            keys = np.searchsorted(self._view.fact_keys, found)
            keys, scores = _known(self._view.fact_keys, keys, found, scores)
            if self._view.hidden is not None:
                keys, scores = keys[~self._view.hidden[keys]], scores[~self._view.hidden[keys]]
            order = np.lexsort((self.id_order("facts", keys), -scores))
            statements = self._view.fact_statement[keys[order]]
            first = np.sort(np.unique(statements, return_index=True)[1])  # of each statement
            if len(first) >= k or len(found) < count or count >= _MOST_SEARCHED:
                return keys[order[first]], scores[order[first]]
            count *= 4
            if count > ahead * k:
                everything = search(count)

    def search_keywords(self, kind: Kind, text: str, k: int) -> Ranking:
        known = self._record_keys[kind]
        if kind == "facts":
            allowed, store = known if self._keywords_filtered else None, self._keywords[kind]
            return self._once(lambda count: store.search(text, count, allowed), k)
        found, scores = self._keywords[kind].search(text, k, known if self._keywords_filtered else None)
        return _known(known, np.searchsorted(known, found), found, scores)

    def terms(self, text: str) -> list[str]:
        if text not in self._analysed:  # each stage of a query asks for the question's
            self._analysed[text] = content_terms(text)
        return [*self._analysed[text]]

    def term_counts(self, terms: Sequence[str]) -> Keys:
        if missing := [term for term in terms if term not in self._counts]:
            inside = self._view.chunk_keys if self._keywords_filtered else None
            self._counts.update(zip(missing, self._keywords["chunks"].counts(missing, inside).tolist(), strict=True))
        return np.array([self._counts[term] for term in terms], np.int64)

    def terms_in(self, kind: Kind, keys: Keys, terms: Sequence[str]) -> npt.NDArray[np.bool_]:
        if kind == "entities":
            return self._terms_in_names(keys - self.first_entity, terms)
        view = self._view
        if len(keys) == 0:
            return np.zeros((0, len(terms)), np.bool_)
        if kind == "chunks":
            return contained([terms for terms, _ in self._packed_terms(view.chunk_keys[keys])], terms)
        # A chunk's facts have consecutive keys.
        chunks, place = np.unique(view.chunks_of_facts(keys), return_inverse=True)
        ordinals = view.fact_keys[keys] - view.first_facts(chunks)[place]
        return contained_in_facts(self._packed_terms(view.chunk_keys[chunks]), place, ordinals, terms)

    def _packed_terms(self, keys: Keys) -> list[tuple[bytes, bytes]]:
        """Return the packed terms of chunks and of their facts. Each row is read once in a query."""
        wanted = keys.tolist()
        if missing := [key for key in wanted if key not in self._terms]:
            self._terms.update(self._records.chunk_terms(missing))
        return [self._terms[key] for key in wanted]

    def _terms_in_names(self, positions: Keys, terms: Sequence[str]) -> npt.NDArray[np.bool_]:
        groups = self._names_of(positions)
        held = self._records.name_terms([key for group in groups for key in group])
        column = {term: at for at, term in enumerate(terms)}
        found = np.zeros((len(groups), len(terms)), np.bool_)
        for row, group in enumerate(groups):
            for key in group:
                for term in held[key]:
                    if term in column:
                        found[row, column[term]] = True
        for row, position in enumerate(positions.tolist() if self._view.shown else ()):
            if name := self._view.shown.get(position, _AS_IS).name:
                found[row, [column[term] for term in name_terms(normalise(name)) if term in column]] = True
        return found

    def _names_of(self, positions: Keys) -> list[list[int]]:
        """Return the record keys of the names of entities."""
        counts, names = self._view.names_of(positions)
        keys = self._view.name_keys[names].tolist()
        return [keys[end - count : end] for end, count in zip(counts.cumsum().tolist(), counts.tolist(), strict=True)]

    def copies(self, kind: Kind, keys: Keys) -> list[Keys]:
        if kind == "chunks":
            wanted, known = keys.tolist(), self._copies
            if missing := [key for key in wanted if key not in known]:
                pairs = self._chunk_copies(np.array(missing, np.int64))
                known.update((key, self._in_order(kind, pairs[key]) if key in pairs else _NONE) for key in missing)
            return [known[key] for key in wanted]
        pairs = self._fact_copies(keys)
        return [self._in_order(kind, pairs[key]) for key in keys.tolist()]

    def _in_order(self, kind: Kind, keys: Iterable[int]) -> Keys:
        """Return keys in the order of their ids."""
        found = np.array(sorted(keys), np.int64)
        return found[np.argsort(self.id_order(kind, found))] if len(found) > 1 else found

    def _chunk_copies(self, chunks: Keys) -> dict[int, set[int]]:
        keys = self._view.chunk_keys[chunks].tolist()
        near = self._records.rows(NEAR, (json.dumps(keys),))
        if self._scoped:
            inside = np.isin([row[0] for row in near], self._view.chunk_keys).tolist()
            near = [row for row, kept in zip(near, inside, strict=True) if kept]
        if all(len({row[band] for row in near}) == len(near) for band in (1, 2, 3)):
            return {}
        texts: dict[int, str] = dict(
            self._records.rows(
                f"SELECT key, inflate(text) FROM chunks WHERE key {LISTED}", (json.dumps([row[0] for row in near]),)
            )
        )
        found = find_copies(keys, {row[0]: row[1:] for row in near}, texts)
        position = dict(zip(texts, np.searchsorted(self._view.chunk_keys, [*texts]).tolist(), strict=True))
        return {position[key]: {position[other] for other in others} for key, others in found.items()}

    def _fact_copies(self, facts: Keys) -> dict[int, set[int]]:
        """Facts that say the same hold the same entities; so the facts of each one's rarest entity are compared."""
        view = self._view
        copies: dict[int, set[int]] = {}
        for fact in facts.tolist():
            counts, found = view.facts_of(view.entities_of(np.array([fact]))[1])
            near = min(np.split(found, counts.cumsum()[:-1]), key=len)
            same = self._view.fact_statement[near] == self._view.fact_statement[fact]
            copies[fact] = set(near[same].tolist()) - {fact}
        return copies

    def similarities(self, kind: Kind, keys: Keys, vector: Matrix | None) -> Scores:
        vectors = self._vectors[kind]
        if vector is None or len(keys) == 0 or len(vectors.keys) == 0:
            return np.zeros(len(keys), np.float32)
        similarity = np.empty(len(keys), np.float32)
        known = np.zeros(len(keys), np.bool_)
        if kind == "chunks" and self._searched is not None and np.array_equal(self._searched[0], vector):
            _, found, scores = self._searched
            known = among(keys, found)
            similarity[known] = scores[found.searchsorted(keys[known])]
        # Row by row: a matrix product rounds a row differently by its position.
        similarity[~known] = np.vecdot(vectors.get(self._record_keys[kind][keys[~known]]), vector)
        return similarity

    def id_order(self, kind: Kind, keys: Keys) -> Keys:
        if kind == "chunks":
            return self._id_places[keys]
        return self._id_places[self._view.chunks_of_facts(keys)] << 32 | keys

    # -- the graph

    def find_entities(self, names: Iterable[str]) -> dict[str, int]:
        by_number = {hash64(name): name for name in names if name[:1] != "→"}  # no question names an address
        rows = self._records.rows(
            f"SELECT entity, key FROM names WHERE entity {LISTED}",
            (json.dumps(list(by_number)),),
        )
        found: dict[str, int] = {}
        known = self._view.name_keys
        for number, key in rows:
            position = int(np.searchsorted(known, key))
            in_scope = position < len(known) and known[position] == key
            if in_scope and (entity := int(self._view.entities_of_names(np.array([position]))[0])) >= 0:
                found[by_number[number]] = self.first_entity + entity
        for number, position in self._view.new_names.items():
            if number in by_number:
                found[by_number[number]] = self.first_entity + position
        return found

    def spellings(self, entity: int) -> list[str]:
        """Return the normalised names of an entity that documents write, the one that represents it first."""
        position = entity - self.first_entity
        names = self._records.names(self._names_of(np.array([position]))[0]).values()
        own = self._view.entity_ids[position]
        norms = sorted({name.norm for name in names}, key=lambda norm: (hash64(norm) != own, norm))
        return [norm for norm in norms if norm[:1] != "→"]

    def entity_counts(self, entities: Keys) -> tuple[Keys, npt.NDArray[np.bool_]]:
        positions = entities - self.first_entity
        return self._view.chunk_counts(positions), self._view.are_subjects(positions)

    def subjects(self, chunks: Keys) -> Adjacency:
        view = self._view
        counts, targets = view.subjects_of(chunks)
        without = np.flatnonzero(counts == 0)
        if len(without):
            keys = view.chunk_keys[chunks[without]].tolist()
            rows: dict[int, str] = dict(
                self._records.rows(
                    f"SELECT key, substr(inflate(text), 1, {_OPENING}) FROM chunks WHERE key {LISTED}",
                    (json.dumps(keys),),
                )
            )
            opened = [openings(rows[key]) for key in keys]
            known = self.find_entities({name for names in opened for name in names})
            rows_, columns = np.repeat(np.arange(len(chunks)), counts).tolist(), targets.tolist()
            for at, names in zip(without.tolist(), opened, strict=True):
                if found := next((known[name] for name in names if name in known), 0):
                    rows_.append(at)
                    columns.append(found - self.first_entity)
            order = np.argsort(rows_, kind="stable")
            counts = np.bincount(rows_, minlength=len(chunks))
            targets = np.array(columns, np.int64)[order]
        targets = targets + self.first_entity
        ones = np.ones(len(targets), np.float32)
        return Adjacency(counts, targets, ones, view.totals_of(chunks), view.degrees_of(targets))

    def neighbours(self, nodes: Keys, to: Kind | None = None, limit: int | None = None) -> Adjacency:
        view = self._view
        counts, targets, weights = view.neighbours(nodes)
        counts, targets, weights = strongest(counts, targets, weights, self.first_entity, to, limit)
        return Adjacency(counts, targets, weights, view.totals_of(nodes), view.degrees_of(targets))

    def facts_of(
        self,
        entities: Keys,
        *,
        joint: bool = False,
        relations: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Keys:
        counts, found = self._view.facts_of(entities - self.first_entity, limit)
        facts: Keys = found
        if joint:
            ends = zip(counts.cumsum().tolist(), counts.tolist(), strict=True)
            rows = sorted((found[end - count : end] for end, count in ends), key=len)
            facts = rows[0] if rows else found
            for row in rows[1:]:  # look the few up in the many
                facts = facts[among(facts, row)]
        elif len(entities) > 1:
            facts = distinct(found)
        if relations is not None:
            keys = self._view.fact_keys[facts]
            related = self._records.rows(
                f"SELECT key FROM facts WHERE key {LISTED} AND relation {LISTED}",
                (json.dumps(keys.tolist()), json.dumps(relations)),
            )
            facts = facts[np.isin(keys, [row[0] for row in related])]
        return facts

    def outgoing_facts(self, entity: int, limit: int) -> tuple[Keys, Scores, npt.NDArray[np.float64]]:
        view = self._view
        facts = self.facts_of(np.array([entity]))
        if len(facts) > limit:
            facts = facts[np.lexsort((self.id_order("facts", facts), -view.fact_weight[facts]))[:limit]]
        (names,) = self._names_of(np.array([entity - self.first_entity]))
        marks = ", ".join("?" * len(names))
        both_ways = self._records.name_keys([EDGE]).values() if view.hidden is not None else ()
        rows = self._records.rows(
            "SELECT f.key, f.confidence, coalesce(f.last_accessed, f.created, d.added) FROM facts f "
            "JOIN chunks c ON c.key = f.chunk JOIN documents d ON d.key = c.document "
            f"WHERE f.key {LISTED} AND (f.relation IS NULL OR substr(f.names, 1, {NAME_BYTES}) IN ({marks}) "
            f"OR substr(f.names, -{NAME_BYTES}) = ?)",
            (json.dumps(view.fact_keys[facts].tolist()), *(pack([name]) for name in names), pack(list(both_ways))),
        )
        pending = self._accesses.pending
        accessed = [pending[row[0]][1] if row[0] in pending else row[2] for row in rows]
        keys = np.searchsorted(view.fact_keys, np.array([row[0] for row in rows], np.int64))
        return keys, np.array([row[1] for row in rows], np.float32), np.array(accessed, np.float64)

    def fact_rows(self, facts: Keys) -> FactRows:
        view = self._view
        counts, entities = view.entities_of(facts)
        chunks = view.chunks_of_facts(facts)
        return FactRows(facts, chunks, view.fact_weight[facts], counts, self.first_entity + entities)

    def record_access(self, facts: Keys, now: float) -> None:
        self._accesses.note(self._view.fact_keys[facts].tolist(), now)

    # -- records

    def find_chunks(self, ids: Sequence[str]) -> dict[str, int]:
        rows = self._records.rows(f"SELECT key, id FROM chunks WHERE id {LISTED}", (json.dumps(list(ids)),))
        known = self._view.chunk_keys
        keys = np.array([key for key, _ in rows], np.int64)
        inside = among(keys, known).tolist()
        places = np.searchsorted(known, keys).tolist()
        return {row[1]: place for row, place, is_inside in zip(rows, places, inside, strict=True) if is_inside}

    def chunks(self, keys: Keys) -> list[Chunk]:
        if len(keys) == 0:
            return []
        wanted = self._view.chunk_keys[keys].tolist()
        rows = {row[0]: row for row in self._records.rows(f"{CHUNK} WHERE c.key {LISTED}", (json.dumps(wanted),))}
        return [chunk_of(rows[key]) for key in wanted]

    def facts(self, keys: Keys) -> list[Fact]:
        wanted = self._view.fact_keys[keys].tolist()
        rows = {row[0]: row for row in self._records.rows(f"{FACT} WHERE f.key {LISTED}", (json.dumps(wanted),))}
        held = {key: unpack(row[1]).tolist() for key, row in rows.items()}
        all_held = {name for names in held.values() for name in names}
        if missing := all_held - self._names.keys():
            self._names.update(self._records.names(sorted(missing)))
        positions = np.searchsorted(self._view.name_keys, sorted(all_held))
        entities_of = self._view.entities_of_names(positions)
        positions, entities_of = positions[entities_of >= 0], entities_of[entities_of >= 0]
        shown = {key: self._names[key].norm for key in self._view.name_keys[positions].tolist()}
        named = {key: self._names[key].surface for key in shown}
        for position, entity in zip(positions.tolist(), entities_of.tolist(), strict=True) if self._view.shown else ():
            if name := self._view.shown.get(entity, _AS_IS).name:
                named[int(self._view.name_keys[position])] = name
                shown[int(self._view.name_keys[position])] = normalise(name)
        is_address = self._view.are_addresses(entities_of)
        sections = self._section_labels(entities_of[is_address])
        for position, entity in zip(positions[is_address].tolist(), entities_of[is_address].tolist(), strict=True):
            called = sections[entity]
            shown[int(self._view.name_keys[position])] = normalise(called) or called
            named[int(self._view.name_keys[position])] = called
        facts = []
        for key in wanted:
            text, relation, weight, confidence, source, status, value, created, last, count, *place = rows[key][2:]
            start, stop, *own = place
            if key in self._accesses.pending:
                more, last = self._accesses.pending[key]
                count += more
            entities = [shown[name] for name in held[key] if name in shown]
            if relation in ("", REFERS_TO):
                entities = list(dict.fromkeys(entities))
            elif self._names[held[key][-1]].surface == EDGE and len(entities) > 1:
                ends = list(dict.fromkeys(named[name] for name in held[key] if name in shown))
                others = [end.removeprefix(f"{relation}: ") for end in ends[1:] or ends[:1]]
                text = f"{ends[0]} {relation}: {', '.join(others)}"
                entities = list(dict.fromkeys(entities))
            facts.append(
                Fact(
                    tuple(entities), text, relation, weight, confidence,
                    cast("Any", SOURCES.get(source, source)), cast("Any", STATUSES.get(status, status)), value,
                    created, last, count, None if start is None else (start, stop), *own,
                )
            )  # fmt: skip
        return facts

    def entities(self, keys: Keys) -> list[Entity]:
        positions = keys - self.first_entity
        missing = [position for position in dict.fromkeys(positions.tolist()) if position not in self._entities]
        if missing:
            shown = self._view.shown
            for at, entity in zip(missing, self._read_entities(np.array(missing, np.int64)), strict=True):
                self._entities[at] = shown[at].applied(entity) if at in shown else entity
        return [self._entities[position] for position in positions.tolist()]

    def _read_entities(self, positions: Keys) -> list[Entity]:
        view = self._view
        groups = self._names_of(positions)
        wanted = [key for group in groups for key in group]
        claims: dict[int, list[tuple[str, str]]] = {}
        for name, surface, entity, uses, chunk, kind, description in self._records.rows(NAMED, (json.dumps(wanted),)):
            if name not in self._names:
                self._names[name] = Name(surface, normalise(surface), entity, uses)
            if chunk is not None:
                position = np.searchsorted(view.chunk_keys, chunk)
                if position < self.first_entity and view.chunk_keys[position] == chunk:
                    claims.setdefault(name, []).append((kind, description))
        labels = self._section_labels(positions[view.are_addresses(positions)])
        things = self._things(labels)
        entities = []
        of_entities = zip(groups, positions.tolist(), view.chunk_counts(positions).tolist(), strict=True)
        for group, position, mentions in of_entities:
            own = self._names[group[0]]
            if position in labels:
                called = labels[position]
                entities.append(things.get(called) or Entity(normalise(called) or called, called, mentions=mentions))
                continue
            said = [claim for key in group for claim in claims.get(key, ())]
            if len(group) == 1 and not said:
                entities.append(Entity(own.norm, own.surface, mentions=mentions))
                continue
            uses = self._uses_of(group)
            names = sorted((-uses[key], self._names[key].surface, self._names[key]) for key in group)
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

    def _uses_of(self, names: Sequence[int]) -> dict[int, int]:
        """Return how many chunks in scope mention each name, given by record key."""
        if not self._scoped or self._view.name_uses is None:
            return {key: self._names[key].uses for key in names}
        found = self._view.name_uses[np.searchsorted(self._view.name_keys, names)]
        return dict(zip(names, found.tolist(), strict=True))

    def top_entities(self, count: int) -> Keys:
        things = np.flatnonzero(~self._view.are_addresses(np.arange(len(self._view.entity_ids))))
        order = np.lexsort((self._view.entity_ids[things], -self._view.chunk_counts(things)))
        found = things[order[: _TOP_CANDIDATES * count]]
        return self.first_entity + self._without_numbers(found, is_all=len(found) == len(things))[:count]

    def _without_numbers(self, positions: Keys, *, is_all: bool = False) -> Keys:
        """Return entities without numbers such as years, which are in every text."""
        listed = "" if is_all else f"entity {LISTED} AND"
        rows = self._records.rows(
            f"SELECT entity, key FROM names WHERE {listed} surface NOT GLOB '*[^0-9]*'",
            () if is_all else (json.dumps(self._view.entity_ids[positions].tolist()),),
        )
        numbers = np.array([row[0] for row in rows], np.int64)
        numbers = numbers[self._are_in_scope(np.array([row[1] for row in rows], np.int64))]
        return positions[~np.isin(self._view.entity_ids[positions], numbers)]

    def _are_in_scope(self, names: Keys) -> npt.NDArray[np.bool_]:
        """Return which names, given by record key, are in documents in scope."""
        known = self._view.name_keys
        if len(known) == 0:
            return np.zeros(len(names), np.bool_)
        found: npt.NDArray[np.bool_] = known[np.minimum(np.searchsorted(known, names), len(known) - 1)] == names
        return found

    def search_names(self, start: str, inside: str) -> Keys:
        view, runs = self._view, plain_runs(f"{start} {inside}")
        plain = "0" if runs is None else " AND ".join(["instr(lower(surface), ?)"] * len(runs)) or "1"
        rows = self._records.rows(
            f"SELECT key, surface FROM names WHERE ({plain}) OR length(surface) < length(CAST(surface AS BLOB))",
            tuple(runs or ()),
        )
        keys = [key for key, surface in rows if (name := normalise(surface)).startswith(start) and inside in name]
        wanted = np.array(sorted(keys), np.int64)
        wanted = wanted[self._are_in_scope(wanted)]
        entities = view.entities_of_names(np.searchsorted(view.name_keys, wanted))
        renamed = [position for position, shown in view.shown.items() if shown.name is not None]
        found = np.unique(np.concatenate([entities[entities >= 0], np.array(renamed, np.int64)]))
        found = found[~view.are_addresses(found)]
        order = np.lexsort((view.entity_ids[found], -view.chunk_counts(found)))
        return self.first_entity + self._without_numbers(found[order])

    def _section_labels(self, addresses: Keys) -> dict[int, str]:
        """Return the labels of the sections that addresses lead to, by the position of the entity."""
        if len(addresses) == 0:
            return {}
        counts, owned = self._view.chunks_about(addresses)
        # The first in the order of ids, whatever the order in which documents were added.
        order = np.lexsort((self._id_places[owned], np.repeat(np.arange(len(addresses)), counts)))
        ends = np.cumsum(counts)
        chunks = self.chunks(owned[order[ends - counts]])
        named = zip(addresses.tolist(), chunks, strict=True)
        labels = {position: label(chunk.title, chunk.headings) or chunk.document_id for position, chunk in named}
        if self._view.hidden is not None:  # there are explicit edges
            last = self.chunks(owned[order[ends - 1]])
            groups = self._names_of(addresses)
            names = self._records.names([group[0] for group in groups])  # in the order of keys
            for position, chunk, other, group in zip(labels, chunks, last, groups, strict=True):
                if (surface := names[group[0]].surface).startswith(EDGE):
                    labels[position] = edge_label(surface, chunk, other)
        return labels

    def _things(self, labels: Mapping[int, str]) -> dict[str, Entity]:
        """Return the entities that sections are about, by the label of the section; none for many sections."""
        norms = {called: normalise(called) for called in labels.values()}
        known = self.find_entities(set(norms.values())) if norms else {}
        named = [called for called, norm in norms.items() if norm in known]
        found = self.entities(np.array([known[norms[called]] for called in named], np.int64)) if named else []
        return dict(zip(named, found, strict=True))


def strongest(
    counts: Keys, targets: Keys, weights: Scores, first_entity: int, to: Kind | None, limit: int | None
) -> tuple[Keys, Keys, Scores]:
    """Return edges of nodes restricted to chunks or entities, and with ``limit`` the strongest of each node."""
    if to is not None and not (kept := (targets < first_entity) == (to == "chunks")).all():
        owners = np.repeat(np.arange(len(counts)), counts)[kept]
        counts, targets, weights = np.bincount(owners, minlength=len(counts)), targets[kept], weights[kept]
    if limit is not None and len(counts) and counts.max() > 0:
        owners = np.repeat(np.arange(len(counts)), counts)
        order = np.lexsort((targets, -weights, owners))
        place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        order = order[place < limit]
        counts, targets, weights = np.minimum(counts, limit), targets[order], weights[order]
    return counts, targets, weights


def edge_label(surface: str, first: Chunk, last: Chunk) -> str:
    """Return what the address of an explicit edge is called, given the first and the last passage that has it.

    The title of the document, or the start of its text; the value if several documents have it.
    """
    field, _, value = surface.removeprefix(EDGE).partition("=")
    is_id = field.startswith(("$", "__"))  # the document's own, or that of the document a node was cut from
    if not is_id and first.document_id != last.document_id:
        return _HASH.sub("", value)
    words = plain(first.text).split()
    opening = " ".join(words[:_OPENING_WORDS]) + ("…" if len(words) > _OPENING_WORDS else "")
    return first.title or opening[:_OPENING].rstrip(".")


def openings(text: str) -> list[str]:
    """Return the normalised names that a text may open with, longest first."""
    words = text.split()[:_OPENING_WORDS]
    return [name for count in range(len(words), 0, -1) if (name := normalise(" ".join(words[:count])))]


def _first(ranking: Ranking, count: int) -> Ranking:
    """Return the first of a ranking, and what ties with the last of them."""
    keys, scores = ranking
    if len(keys) <= count:
        return ranking
    kept = scores >= scores[count - 1]
    return keys[kept], scores[kept]


def _search_one(store: FaissVectors, vector: Matrix, allowed: Keys | None, count: int) -> Ranking:
    return store.search(vector[None, :], count, allowed)[0]


def _known(known: Keys, positions: Keys, found: Keys, scores: Scores) -> Ranking:
    """Return the positions and scores of the keys found that are known."""
    if len(known) == 0:
        return np.empty(0, np.int64), np.empty(0, np.float32)
    there = known[np.minimum(positions, len(known) - 1)] == found
    return positions[there], scores[there]
