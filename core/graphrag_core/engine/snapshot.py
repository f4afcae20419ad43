"""``Snapshot``: what a query reads of an index, in one generation and scope, with the edits of the graph applied."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.adjacency import Graph, kept_rows
from graphrag_core.engine.analysis import content_terms, matched, terms_of_names
from graphrag_core.engine.arrays import Flags
from graphrag_core.engine.edits import SUBJECT_WEIGHT, EditedGraph, renamed
from graphrag_core.engine.reads import Reads, fact_bits
from graphrag_core.engine.rows import Name
from graphrag_core.engine.segments import FACT_BITS, PASSAGE
from graphrag_core.key_sets import among, distinct, ranges
from graphrag_core.model import Chunk, Entity, Fact, Stats
from graphrag_core.ports import Adjacency, FactRows, Keys, Kind, Matrix, Ranking, Scores, Sentences
from graphrag_core.text import EDGE, REFERS_TO, hash64, label, normalise
from graphrag_core.text.markup import plain

T = TypeVar("T")

MOST_COUNTED = 200
"""Passages of an entity that are counted in a scope. With more it is frequent."""

_OPENING = 200  # characters at the beginning of a chunk, which may open with the name of what it is about
_OPENING_WORDS = 8  # of a chunk, among which the name that it opens with is looked up
_HASH = re.compile(r"~[0-9a-f]{8}$")  # of a value in an address
_TOP = 5  # entities in the statistics
_MOST_ROWS = 10_000  # that are kept; with more, the next read starts with none
_MAX_DESCRIPTIONS = 8  # of one entity
_TOP_CANDIDATES = 3  # for each entity wanted, since numbers are left out
_NAMES_PER_ENTITY = 4  # searched for each entity wanted, since several names may be one entity
_MOST_LINKED = 64  # entities of a fact that are linked with each other
_NONE: Keys = np.empty(0, np.int64)


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


class Snapshot:
    """One generation of an index, restricted to a scope. All reads of a query go through it.

    Chunks and entities are the nodes of the graph. An edge from a chunk to an entity weighs 1 for a mention and 5 more
    if the entity is the chunk's subject. An edge between two entities weighs the sum of ``weight / 10`` over the facts
    that hold both. Chunks, facts, mentions and counts outside the scope do not exist for a snapshot.

    Attributes
    ----------
    generation, numbering
        The number of changes the index has seen. Snapshots of a generation with one numbering have the same keys.
    chunk_count, statistics_count
        The number of chunks, and of those of all documents.
    first_entity
        Keys of chunks are below this number, keys of entities are not.
    unknown_keys
        The metadata keys of the scope that no document of the index has.
    """

    def __init__(self, reads: Reads) -> None:
        self._reads, view = reads, reads.view
        self._graph: Graph | EditedGraph = reads.graph
        self._edited: EditedGraph | None = None
        edits = reads.meta.get("edits", "")
        if edits or reads.graph.has_edges:
            self._graph = self._edited = EditedGraph(reads.graph, edits, self._named_facts)
        self.generation, self.numbering = view.generation, view.numbering
        self.unknown_keys = reads.scope.unknown_keys
        self.chunk_count, self.statistics_count = reads.scope.size, view.size
        self.first_entity = reads.graph.first_entity
        self.metadata_keys, self.has = reads.records.metadata_keys, reads.has
        self.walk, self.degrees = self._graph.walk, self._graph.degrees
        self.chunks, self.find_chunks, self.tokens = reads.chunks, reads.find, reads.tokens
        # Rows that were read: the stages of a query ask for the same again.
        self._entities: RecentRows[Entity] = reads.scope.rows.setdefault("entities", RecentRows[Entity]())
        self._counts: dict[str, int] = {}  # chunks that have a term
        self._searched: tuple[Matrix, Keys, Scores] | None = None  # the last vector, its chunks in order, their scores

    @property
    def node_limit(self) -> int:
        """All node keys seen so far are below this number, so that algorithms can use arrays."""
        return self._reads.graph.node_limit

    # -- search

    def search_vectors(self, kind: Kind, vectors: Matrix, k: int) -> list[Ranking]:
        """Return for each vector the nearest ``k`` chunks or entities by cosine, and what ties with the last."""
        if kind == "entities":
            rankings = self._reads.nearest_names(vectors, k * _NAMES_PER_ENTITY)
            return [self._entities_of_names(*ranking, k) for ranking in rankings]
        rankings = self._reads.nearest(vectors, k)
        if len(vectors) == 1:
            ((keys, scores),) = rankings
            order = np.argsort(keys)
            self._searched = vectors[0], keys[order], scores[order]
        return rankings

    def _entities_of_names(self, names: Keys, scores: Scores, k: int) -> Ranking:
        entities = self._of_names(names)
        entities, scores = entities[entities >= 0], scores[entities >= 0]
        things = ~self._graph.are_addresses(entities)
        entities, scores = entities[things], scores[things]
        order = np.lexsort((self._graph.ids(entities), -scores))
        _, first = np.unique(entities[order], return_index=True)
        order = order[np.sort(first)][:k]
        return entities[order], scores[order]

    def search_keywords(self, text: str, k: int) -> Ranking:
        """Return the best ``k`` chunks by BM25 with a positive score, and what ties with the last.

        Phrases in quotation marks count as phrases.
        """
        return self._reads.keywords(text, k)

    def terms(self, text: str) -> list[str]:
        """Return the terms of a text as keyword search sees them: stemmed, without stop words, each once.

        An identifier has a term for each part and one for the whole.
        """
        return [*content_terms(text)]

    def term_counts(self, terms: Sequence[str]) -> Keys:
        """Return how many chunks of all documents contain each term in their title, headings or text.

        0 for a term that no chunk in scope contains: a score must not tell whether other documents contain a word.
        """
        if missing := [term for term in terms if term not in self._counts]:
            self._counts.update(zip(missing, self._reads.counts(missing).tolist(), strict=True))
        return np.array([self._counts[term] for term in terms], np.int64)

    def terms_in(self, kind: Kind, keys: Keys, terms: Sequence[str]) -> Flags:
        """Return which terms chunks or the names of entities contain: one row for each key, one column for each term.

        A chunk's title and headings belong to its text; the title and headings of a chunk do not belong to its facts.
        """
        if len(keys) == 0:
            return np.zeros((0, len(terms)), np.bool_)
        if kind == "entities":
            in_names = np.zeros((len(keys), len(terms)), np.bool_)
            in_names[self._matched_names(keys, terms)] = True
            for row, columns in self._matched_new_names(keys, terms):
                in_names[row, columns[columns >= 0]] = True
            return in_names
        in_chunks: Flags = self._reads.sentences(keys, terms) & PASSAGE > 0
        return in_chunks

    def sentences(self, chunks: Keys, terms: Sequence[str]) -> Sentences:
        """Return which terms chunks and each of their facts contain."""
        counts, facts, numbers = self._reads.facts_of(chunks)
        owners = np.arange(len(chunks)).repeat(counts)
        if self._edited is not None:
            seen = ~self._edited.hidden(facts)
            facts, numbers, owners = facts[seen], numbers[seen], owners[seen]
        masks = self._reads.sentences(chunks, terms)
        of_facts = masks[owners] >> fact_bits(numbers)[:, None] & 1
        return Sentences(masks & PASSAGE > 0, facts, owners, of_facts.astype(np.bool_))

    def documents_of(self, chunks: Keys) -> Keys:
        """Return a number for each chunk, which chunks of the same document share."""
        return self._reads.view["passage_document"].take(chunks).astype(np.int64)

    def record_access(self, facts: Keys, now: float) -> None:
        """Count an access of each fact. May be written later, with the next change of the index."""
        self._reads.accesses.note(self._reads.fact_keys(facts).tolist(), now)

    def _matched_names(self, entities: Keys, terms: Sequence[str]) -> tuple[Keys, Keys]:
        """Return pairs of the position of an entity and a term that one of its names has."""
        counts, names = self._graph.names(entities)
        sizes, numbers = self._reads.name_terms(names)
        term = matched(numbers, terms)
        return np.arange(len(entities)).repeat(counts).repeat(sizes)[term >= 0], term[term >= 0]

    def _matched_new_names(self, entities: Keys, terms: Sequence[str]) -> list[tuple[int, Keys]]:
        """Return the positions of entities that edits have renamed, and the terms that their new names match."""
        if self._edited is None:
            return []
        new_names = self._edited.new_names[0]
        names = ((row, new_names.get(entity)) for row, entity in enumerate(entities.tolist()))
        return [(row, matched(terms_of_names([normalise(name)])[1], terms)) for row, name in names if name]

    def _names_of(self, entities: Keys) -> list[dict[int, Name]]:
        """Return the names of each entity that documents write, by key and in the order of keys."""
        counts, names = self._graph.names(entities)
        keys = names.tolist()
        known = self._reads.records.names(keys)
        ends = zip(counts.cumsum().tolist(), counts.tolist(), strict=True)
        return [{key: known[key] for key in keys[end - count : end]} for end, count in ends]

    def similarities(self, kind: Kind, keys: Keys, vector: Matrix | None) -> Scores:
        """Return the cosine similarity of chunks or facts to a vector; 0 where one of the two has no vector."""
        found = np.zeros(len(keys), np.float32)
        if vector is None or len(keys) == 0 or not self.has(kind, vectors=True):
            return found
        known = np.zeros(len(keys), np.bool_)
        if kind == "chunks" and self._searched is not None and np.array_equal(self._searched[0], vector):
            _, searched, scores = self._searched
            known = among(keys, searched)
            found[known] = scores[searched.searchsorted(keys[known])]
        if not known.all():
            found[~known] = self._cosines(kind, keys[~known], vector)
        return found

    def _cosines(self, kind: Kind, keys: Keys, vector: Matrix) -> Scores:
        return self._reads.cosines_of_facts(keys, vector) if kind == "facts" else self._reads.cosines(keys, vector)

    def id_order(self, kind: Kind, keys: Keys) -> Keys:
        """Return numbers that sort chunks by id, or facts by chunk id and position in the chunk."""
        if kind == "chunks":
            return self._reads.view.id_order(keys)
        chunks, numbers = self._reads.fact_places(keys)
        _, places = np.unique(self._reads.view.id_order(chunks), return_inverse=True)
        return places << FACT_BITS | numbers

    # -- the graph

    def statistics(self) -> Stats:
        """Return the size of the index and its most frequent entities."""
        records, meta = self._reads.records, self._reads.meta
        hidden = self.hidden_facts()
        relations = records.relations(hidden)
        on_disk, in_memory = records.session.sizes()
        top = self.entities(self.top_entities(_TOP))
        return Stats(
            documents=records.count("documents"),
            chunks=records.count("passages"),
            entities=len(self.top_entities(self.node_limit)),
            facts=records.count("facts") - len(hidden),
            relations={name: count for name, count in relations.items() if name != REFERS_TO},
            vectors={
                "chunks": records.count("passages", "vector IS NOT NULL"),
                "names": records.count("name_vectors"),
            },
            dim=int(meta.get("dim", "0")),
            embedder=meta.get("embedder", ""),
            generation=self.generation,
            bytes_on_disk=on_disk,
            bytes_in_memory=self._reads.view.nbytes + in_memory,
            top_entities=tuple((entity.name, entity.mentions) for entity in top),
            references=relations.get(REFERS_TO, 0),
        )

    def hidden_facts(self) -> Keys:
        """Return the keys of all facts that no question may see."""
        return self._reads.fact_keys(_NONE if self._edited is None else self._edited.every_hidden())

    def find_entities(self, names: Iterable[str]) -> dict[str, int]:
        """Return the entities of normalised names; unknown names are left out."""
        # A question names no address but that of a file.
        by_id = {hash64(name): name for name in names if name[:1] != "→" or name[1:2] == "/"}
        if not by_id:
            return {}
        found = {
            by_id[name_id]: entities[0] if len(entities) == 1 else self._most_mentioned(entities)
            for name_id, entities in self._graph.find([*by_id]).items()
        }
        introduced = {} if self._edited is None else self._edited.new_names[1]
        return found | {by_id[name_id]: entity for name_id, entity in introduced.items() if name_id in by_id}

    def _most_mentioned(self, entities: Sequence[int]) -> int:
        """Return one of the entities of a name. Of equal ones an alias counts more than the name itself, the first."""
        counts = self._graph.counts(np.array(entities, np.int64))[0].tolist()
        ranked = ((count, at > 0, -entity) for at, (count, entity) in enumerate(zip(counts, entities, strict=True)))
        return -max(ranked)[2]

    def entity_counts(self, entities: Keys) -> Keys:
        """Return how many chunks mention each entity, in a scope at most 200."""
        counts = self._graph.passages(entities, MOST_COUNTED)
        return np.minimum(counts, MOST_COUNTED) if self.chunk_count < self.statistics_count else counts

    def are_subjects(self, entities: Keys) -> Flags:
        """Return whether some chunk is about each entity."""
        return self._graph.counts(entities)[1]

    def spellings(self, entity: int) -> list[str]:
        """Return the normalised names of an entity that documents write, the one that represents it first."""
        (names,) = self._names_of(np.array([entity]))
        entity_id = self._graph.ids(np.array([entity]))[0]
        norms = sorted({name.norm for name in names.values()}, key=lambda norm: (hash64(norm) != entity_id, norm))
        return [norm for norm in norms if norm[:1] != "→"]

    def mentions(self, chunks: Keys) -> Adjacency:
        """Return the entities that chunks mention, in the order in which they were found.

        An entity that a chunk is about weighs 6. A chunk that is about none is about the one with the longest name that
        it opens with.
        """
        edges = self._graph.walk(chunks)
        counts, targets, weights, _ = edges
        owners = np.arange(len(chunks)).repeat(counts)
        has_subject = np.zeros(len(chunks), np.bool_)
        has_subject[owners[weights == SUBJECT_WEIGHT]] = True
        without = np.flatnonzero(~has_subject & (counts > 0))
        if len(without):
            ids, ends, weights = self._graph.ids(targets), counts.cumsum(), weights.copy()
            for chunk, text in zip(without.tolist(), self._openings(chunks[without]), strict=True):
                start, end = ends[chunk] - counts[chunk], ends[chunk]
                if (opened := _opened(text, ids[start:end].tolist())) is not None:
                    weights[start + opened] = SUBJECT_WEIGHT
        return edges._replace(weights=weights)

    def _openings(self, chunks: Keys) -> list[str]:
        return [chunk.text[:_OPENING] for chunk in self.chunks(chunks)]

    def neighbours(self, nodes: Keys, to: Kind | None = None, limit: int | None = None) -> Adjacency:
        """Return the edges of nodes, restricted to chunks or entities as targets if ``to`` is given.

        With ``limit`` the strongest edges of each node, strongest first, ties by key.
        """
        is_entity = nodes >= self.first_entity
        walked = ~is_entity if to == "entities" else is_entity if to == "chunks" else nodes >= 0
        places = np.flatnonzero(walked)
        counts, targets, weights, _ = self._graph.walk(nodes[walked])
        owner = places.repeat(counts)
        if to != "chunks" and is_entity.any():
            of, others, sums = self._links(nodes[is_entity])
            owner = np.concatenate([owner, np.flatnonzero(is_entity)[of]])
            targets, weights = np.concatenate([targets, others]), np.concatenate([weights, sums])
        # Strongest first; of equal ones chunks by key, then entities by id.
        to_entity = targets >= self.first_entity
        keys = np.empty(len(targets), np.int64)
        keys[~to_entity] = self._reads.view["passage"].take(targets[~to_entity])
        keys[to_entity] = self._graph.ids(targets[to_entity])
        order = np.lexsort((keys, to_entity, np.zeros(len(owner)) if limit is None else -weights, owner))
        owner, targets, weights = owner[order], targets[order], weights[order]
        counts = np.bincount(owner, minlength=len(nodes))
        if limit is not None:
            first = np.arange(len(owner)) - (counts.cumsum() - counts).repeat(counts) < limit
            owner, targets, weights, counts = owner[first], targets[first], weights[first], np.minimum(counts, limit)
        totals = np.bincount(owner, weights, len(nodes)).astype(np.float32)
        return Adjacency(counts, targets, weights, totals)

    def _links(self, entities: Keys) -> tuple[Keys, Keys, Scores]:
        """Return the entities that share a fact with each: the position of the entity, the other one, and the weight.

        The weight is the sum of a tenth of the weights of these facts. A fact of many entities is a list, which does
        not relate each to each.
        """
        counts, facts = self._graph.facts_of(entities)
        owner, every = np.arange(len(entities)).repeat(counts), distinct(facts)
        sizes, held = self._graph.entities_of(every)
        at = every.searchsorted(facts)
        wanted = np.where(sizes[at] > _MOST_LINKED, 0, sizes[at])
        owner, other = owner.repeat(wanted), held[ranges((sizes.cumsum() - sizes)[at], wanted)]
        strength = (self._reads.fact_columns(facts)[0] / 10).astype(np.float32).astype(np.float64).repeat(wanted)
        related = other != entities[owner]
        bits = self.node_limit.bit_length()
        codes, place = np.unique(owner[related] << bits | other[related], return_inverse=True)
        sums = np.round(np.bincount(place, strength[related], len(codes)), 6).astype(np.float32)
        codes, sums = codes[sums != 0], sums[sums != 0]
        return codes >> bits, codes & ((1 << bits) - 1), sums

    def facts_of(
        self,
        entities: Keys,
        *,
        joint: bool = False,
        relations: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> Keys:
        """Return the facts that hold any of some entities, or with ``joint`` all of them, in order of key.

        ``relations`` restricts them to triples of these relations, ``limit`` restricts their number per entity.
        """
        wanted = distinct(entities)
        if joint and len(wanted) > 1:
            facts = _in_all(*self._graph.facts_of(wanted, limit))
        else:
            facts = self._graph.facts_of(wanted, limit)[1]
            facts = distinct(facts) if len(wanted) > 1 else facts
        return facts if relations is None or len(facts) == 0 else self._reads.with_relations(facts, relations)

    def facts_in(self, chunks: Keys) -> Keys:
        """Return the facts of chunks in the order of ids; of those that say the same the first."""
        _, facts, _ = self._reads.facts_of(chunks)
        if self._edited is not None:
            facts = facts[~self._edited.hidden(facts)]
        facts = facts[np.argsort(self.id_order("facts", facts))]
        _, first = np.unique(self._reads.fact_columns(facts)[1], return_index=True)
        return facts[np.sort(first)]

    def outgoing_facts(self, entity: int, facts: Keys) -> tuple[Keys, Scores, npt.NDArray[np.float64]]:
        """Return which of an entity's facts start at it: sentences, and triples whose subject it is.

        With each fact's confidence and the time of its last access, or of its creation if it was never accessed.
        """
        return self._reads.outgoing(facts, self._graph.names(np.array([entity]))[1])

    def are_triples(self, facts: Keys) -> Flags:
        """Return which facts have a relation."""
        return self._graph.are_triples(facts)

    def fact_rows(self, facts: Keys) -> FactRows:
        """Return facts as columns, in the order given."""
        counts, entities = self._graph.entities_of(facts)
        return FactRows(facts, self._reads.fact_places(facts)[0], self._reads.fact_columns(facts)[0], counts, entities)

    # -- records

    def facts(self, keys: Keys) -> list[Fact]:
        """Return facts in the order given, with entity ids in place of names."""
        if len(keys) == 0:
            return []
        rows, known = self._read_facts(keys)
        meant = self._meant(keys, [names for names, _ in rows], known)
        ends_of = self._ends_of({pair for pairs in meant for pair in pairs}, known)
        facts = []
        for (names, fact), pairs in zip(rows, meant, strict=True):
            ends, text = [ends_of[pair] for pair in pairs], fact.text
            is_edge = fact.relation not in ("", REFERS_TO) and known[names[-1]].surface == EDGE and len(ends) > 1
            if is_edge:
                text = _edge_text(fact.relation, list(dict.fromkeys(name for _, name in ends)))
            entities = [entity_id for entity_id, _ in ends]
            if is_edge or fact.relation in ("", REFERS_TO):
                entities = list(dict.fromkeys(entities))
            facts.append(_changed(fact, tuple(entities), text))
        return facts

    def _read_facts(self, keys: Keys) -> tuple[list[tuple[list[int], Fact]], dict[int, Name]]:
        rows = self._reads.facts(keys)
        return rows, self._reads.records.names(sorted({name for names, _ in rows for name in names}))

    def _named_facts(self, keys: Keys) -> list[tuple[list[int], Fact]]:
        """Return the ids of the entities that facts name, and the facts."""
        rows, known = self._read_facts(keys)
        return [([known[name].name_id for name in names], fact) for names, fact in rows]

    def _meant(
        self, facts: Keys, names: Sequence[Sequence[int]], known: Mapping[int, Name]
    ) -> list[list[tuple[int, int]]]:
        """Return the names of facts with their entities. Names without an entity are left out.

        A name that is an alias in some documents has several. The one that the fact holds is meant.
        """
        found = self._graph.find(sorted({name.name_id for name in known.values()}))
        entities = {key: found[name.name_id] for key, name in known.items() if name.name_id in found}
        held: Sequence[Keys] = [_NONE] * len(names)
        if any(len(candidates) > 1 for candidates in entities.values()):
            counts, all_held = self._graph.entities_of(facts)
            held = np.split(all_held, counts.cumsum()[:-1])
        return [
            [
                (name, next((entity for entity in entities[name] if entity in inside), entities[name][0]))
                for name in keys
                if name in entities
            ]
            for keys, inside in zip(names, held, strict=True)
        ]

    def _of_names(self, names: Keys) -> Keys:
        """Return the entities of names, given by key; -1 for a name without one in scope."""
        known = self._reads.records.names(names.tolist())
        ids = [known[name].name_id for name in names.tolist()]
        found = self._graph.find([*dict.fromkeys(ids)]) if ids else {}
        return np.array([self._most_mentioned(found[number]) if number in found else -1 for number in ids], np.int64)

    def _ends_of(
        self, pairs: AbstractSet[tuple[int, int]], names: Mapping[int, Name]
    ) -> dict[tuple[int, int], tuple[str, str]]:
        """Return the id and the name of entities, given with the name that a fact has for each.

        Edits, aliases and the labels of sections are taken into account.
        """
        entities = distinct(np.array([entity for _, entity in pairs], np.int64))
        addresses = self._graph.are_addresses(entities)
        labels = self._section_labels(entities[addresses]) if addresses.any() else {}
        ids = dict(zip(entities.tolist(), self._graph.ids(entities).tolist(), strict=True))
        new_names = {} if self._edited is None else self._edited.new_names[0]
        ends = {}
        for key, entity in pairs:
            name, other = names[key], labels.get(entity) or new_names.get(entity)
            if not other and ids[entity] != name.name_id:  # an alias, or merged
                other = self.entities(np.array([entity]))[0].name
            ends[key, entity] = (normalise(other) or other, other) if other else (name.norm, name.surface)
        return ends

    def entities(self, keys: Keys) -> list[Entity]:
        """Return entities in the order given, described by the chunks in scope alone."""
        return self._entities.read(keys.tolist(), self._edited_entities)

    def _edited_entities(self, entities: Sequence[int]) -> list[Entity]:
        new_names = {} if self._edited is None else self._edited.new_names[0]
        read = self._read_entities(np.array(entities, np.int64))
        return [renamed(one, new_names.get(key)) for key, one in zip(entities, read, strict=True)]

    def _read_entities(self, keys: Keys) -> list[Entity]:
        """Return entities as documents describe them, addresses as the sections that they lead to."""
        groups = self._names_of(keys)
        claims: dict[int, list[tuple[str, str]]] = {}
        for name, kind, description in self._reads.claims([key for group in groups for key in group]):
            claims.setdefault(name, []).append((kind, description))
        addresses = self._graph.are_addresses(keys)
        labels = self._section_labels(keys[addresses]) if addresses.any() else {}
        things = self._things(labels) if labels else {}
        ids, mentions = self._graph.ids(keys).tolist(), self._graph.counts(keys)[0].tolist()
        entities = []
        for entity, entity_id, names, count in zip(keys.tolist(), ids, self._by_use(groups), mentions, strict=True):
            if entity in labels:
                title = labels[entity]
                entities.append(things.get(title) or Entity(normalise(title) or title, title, mentions=count))
            else:
                stated = [claim for key in names for claim in claims.get(key, ())]
                entities.append(_described(entity_id, [*names.values()], stated, count))
        return entities

    def _by_use(self, groups: Sequence[dict[int, Name]]) -> list[dict[int, Name]]:
        """Return the names of entities, the most used name of each first."""
        several = [key for names in groups if len(names) > 1 for key in names]
        if not several:
            return [*groups]
        uses = dict(zip(several, self._graph.uses(np.array(several, np.int64)).tolist(), strict=True))
        return [
            dict(sorted(names.items(), key=lambda pair: (-uses.get(pair[0], 0), pair[1].surface))) for names in groups
        ]

    def top_entities(self, count: int) -> Keys:
        """Return the entities that the most chunks mention, most first."""
        return self._without_numbers(self._graph.top(_TOP_CANDIDATES * count))[:count]

    def _without_numbers(self, entities: Keys) -> Keys:
        """Remove entities that are numbers, such as years."""
        ids = self._graph.ids(entities)
        return entities[~np.isin(ids, self._reads.records.numbers_among(ids))]

    def search_names(self, start: str, inside: str) -> Keys:
        """Return the entities of which a normalised name begins with one text and contains another.

        In the order of :meth:`top_entities`. It may return more: callers check them.
        """
        entities = self._of_names(self._reads.records.names_like(start, inside))
        new_names = {} if self._edited is None else self._edited.new_names[0]
        entities = distinct(entities[entities >= 0], np.array([*new_names], np.int64))
        entities = entities[~self._graph.are_addresses(entities)]
        order = np.lexsort((self._graph.ids(entities), -self._graph.counts(entities)[0]))
        return self._without_numbers(entities[order])

    def _section_labels(self, addresses: Keys) -> dict[int, str]:
        """Return the labels of the sections that addresses lead to."""
        counts, chunks, weights, _ = self._graph.walk(addresses)
        counts, chunks = kept_rows(counts, weights == SUBJECT_WEIGHT), chunks[weights == SUBJECT_WEIGHT]
        addresses, counts = addresses[counts > 0], counts[counts > 0]
        # The first in the order of ids, whatever the order in which documents were added.
        order = np.lexsort((self.id_order("chunks", chunks), np.repeat(np.arange(len(addresses)), counts)))
        ends = np.cumsum(counts)
        first = self.chunks(chunks[order[ends - counts]])
        titles = (label(chunk.title, chunk.headings) or chunk.document_id for chunk in first)
        labels = dict(zip(addresses.tolist(), titles, strict=True))
        if self._graph.has_edges:
            last = self.chunks(chunks[order[ends - 1]])
            for entity, names, chunk, other in zip(labels, self._names_of(addresses), first, last, strict=True):
                if (surface := next(iter(names.values())).surface).startswith(EDGE):
                    labels[entity] = _edge_label(surface, chunk, other)
        return labels

    def _things(self, labels: Mapping[int, str]) -> dict[str, Entity]:
        """Return the entities that sections are about, by the label of the section."""
        norms = {called: normalise(called) for called in labels.values()}
        known = self.find_entities(set(norms.values()))
        named = [called for called, norm in norms.items() if norm in known]
        found = self.entities(np.array([known[norms[called]] for called in named], np.int64)) if named else []
        return dict(zip(named, found, strict=True))


def _opened(text: str, ids: list[int]) -> int | None:
    """Return the position of the entity with the longest name that a text opens with; None for none."""
    words = text.split()[:_OPENING_WORDS]
    openings = (normalise(" ".join(words[:count])) for count in range(len(words), 0, -1))
    return next((ids.index(name_id) for name in openings if name and (name_id := hash64(name)) in ids), None)


def _in_all(counts: Keys, values: Keys) -> Keys:
    """Return the values that all rows have, given the lengths of the rows, which are in order."""
    rows = sorted(np.split(values, np.cumsum(counts)[:-1]), key=len)
    found = rows[0]
    for row in rows[1:]:  # look the few up in the many
        found = found[among(found, row)]
    return found


def _described(entity_id: int, names: Sequence[Name], claims: Sequence[tuple[str, str]], mentions: int) -> Entity:
    """Return an entity from its names, the most used first, and from the types and descriptions that chunks state."""
    own = next((name for name in names if len(names) == 1 or name.name_id == entity_id), None)
    if own is None:
        raise LookupError(f"no name has the id {entity_id} of its entity")
    types = Counter(kind for kind, _ in claims if kind)
    descriptions = sorted({description for _, description in claims if description})
    return Entity(
        id=own.norm,
        name=own.surface,
        type=min((-count, kind) for kind, count in types.items())[1] if types else "",
        description=" ".join(descriptions[:_MAX_DESCRIPTIONS]),
        aliases=tuple(sorted({name.surface for name in names} - {own.surface})),
        mentions=mentions,
    )


def _edge_text(relation: str, names: Sequence[str]) -> str:
    """Return the text of an explicit edge between what it starts from, the first name, and the others."""
    others = [name.removeprefix(f"{relation}: ") for name in names[1:] or names]
    return f"{names[0]} {relation}: {', '.join(others)}"


def _edge_label(surface: str, first: Chunk, last: Chunk) -> str:
    """Return the name of the address of an explicit edge, given the first and the last passage that has it.

    The title of the document, or the start of its text; the value if several documents have it.
    """
    field, _, value = surface.removeprefix(EDGE).partition("=")
    is_id = field.startswith(("$", "__"))  # of the document, or of the document from which a node was cut
    if not is_id and first.document_id != last.document_id:
        return _HASH.sub("", value)
    words = plain(first.text).split()
    opening = " ".join(words[:_OPENING_WORDS]) + ("…" if len(words) > _OPENING_WORDS else "")
    return first.title or opening[:_OPENING].rstrip(".")


def _changed(fact: Fact, entities: tuple[str, ...], text: str) -> Fact:
    """Return a fact with other entities and another text; faster than ``dataclasses.replace``."""
    return Fact(
        entities, text, fact.relation, fact.weight, fact.confidence, fact.source, fact.status, fact.value, fact.created,
        fact.last_accessed, fact.access_count, fact.span, fact.id, fact.chunk_id, fact.valid_from, fact.valid_to,
    )  # fmt: skip
