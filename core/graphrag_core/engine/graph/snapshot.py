"""``StoreSnapshot``: the reads of a query, once for all engines.

An engine brings :class:`Reads`, which knows SQL and its search indexes, and :class:`GraphReads`, which knows edges.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from graphrag_core.deadline import check_deadline
from graphrag_core.engine.analysis import contained, contained_in_facts, content_terms, matched, terms_of_names
from graphrag_core.engine.copies import find_copies
from graphrag_core.engine.graph.counters import SUBJECT
from graphrag_core.engine.graph.edits import EditedGraph, GraphEdits, Shown
from graphrag_core.engine.graph.sparse import Pairs, kept_rows, ranges
from graphrag_core.key_sets import among, distinct, ordered
from graphrag_core.model import Chunk, Entity, Fact
from graphrag_core.ports import Adjacency, FactRows, Keys, Kind, Matrix, Ranking, Scores
from graphrag_core.text import EDGE, REFERS_TO, hash64, label, normalise
from graphrag_core.text.markup import plain

Flags = npt.NDArray[np.bool_]

MOST_COUNTED = 200
"""Passages of an entity that are counted in a scope: above, it is frequent."""

OPENING = 200
"""Characters of a chunk in which the name that it opens with is looked for."""

_OPENING_WORDS = 8
_HASH = re.compile(r"~[0-9a-f]{8}$")  # of a value in an address
_MAX_DESCRIPTIONS = 8  # of one entity
_TOP_CANDIDATES = 3  # for each entity wanted, since numbers are left out
_MOST_SEARCHED = 5_000  # facts, to find enough that are not equal
_NAMES_PER_ENTITY = 4  # searched for each entity wanted, since several names may be one entity
_MOST_LINKED = 64  # entities of a fact that are linked with each other
_AS_IS = Shown()
_NONE: Keys = np.empty(0, np.int64)


class Name(NamedTuple):
    """A name as documents write it, its normalised form, and the hash of that."""

    surface: str
    norm: str
    spelling: int


class GraphReads(Protocol):
    """The rows of a graph, of all chunks or of those in a scope. Entities that do not exist there are left out.

    Chunks have numbers below ``first_entity``, entities from there on. Pairs are how many each has, and which. The
    mentions of a chunk are in the order in which the extractor found them.
    """

    first_entity: int
    has_edges: bool  # whether there are explicit edges

    @property
    def linked_share(self) -> float: ...
    @property
    def node_limit(self) -> int: ...
    def find(self, ids: Sequence[int]) -> dict[int, list[int]]: ...
    def ids(self, entities: Keys) -> Keys: ...
    def are_addresses(self, entities: Keys) -> Flags: ...
    def counts(self, entities: Keys) -> tuple[Keys, Flags]: ...
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


class Reads(Protocol):
    """The rankings and rows of one generation, restricted to a scope. Facts and names have the engine's keys."""

    generation: int
    chunk_count: int
    statistics_count: int
    unknown_keys: tuple[str, ...]
    edits: str
    graph: GraphReads

    def metadata_keys(self) -> list[str]: ...
    def has(self, kind: Kind, *, vectors: bool = False) -> bool: ...
    def nearest(self, kind: str, vectors: Matrix, k: int) -> list[Ranking]: ...
    def keywords(self, kind: str, text: str, k: int) -> Ranking: ...
    def term_counts(self, terms: Sequence[str]) -> Keys: ...
    def chunk_terms(self, chunks: Keys) -> list[tuple[bytes, bytes]]: ...
    def similarities(self, kind: str, keys: Keys, vector: Matrix) -> Scores: ...
    def id_places(self, chunks: Keys) -> Keys: ...
    def signatures(self, chunks: Keys) -> list[tuple[int, Sequence[int]]]: ...
    def chunks(self, chunks: Keys) -> list[Chunk]: ...
    def texts(self, chunks: Keys, length: int | None = None) -> list[str]: ...
    def facts_in(self, chunks: Keys) -> Keys: ...
    def fact_places(self, facts: Keys) -> tuple[Keys, Keys]: ...
    def fact_columns(self, facts: Keys) -> tuple[Scores, Keys]: ...
    def fact_copies(self, facts: Keys) -> list[Keys]: ...
    def facts(self, facts: Keys) -> list[tuple[list[int], Fact]]: ...
    def with_relations(self, facts: Keys, relations: Sequence[str]) -> Keys: ...
    def outgoing(self, facts: Keys, names: Keys) -> tuple[Keys, Scores, npt.NDArray[np.float64]]: ...
    def names(self, names: Sequence[int]) -> dict[int, Name]: ...
    def name_terms(self, names: Keys) -> tuple[Keys, npt.NDArray[np.uint32]]: ...
    def claims(self, names: Sequence[int]) -> list[tuple[int, str, str]]: ...
    def digits(self, spellings: Keys) -> Keys: ...
    def names_like(self, start: str, inside: str) -> Keys: ...
    def find_chunks(self, ids: Sequence[str]) -> dict[str, int]: ...
    def chunk_keys(self, chunks: Keys) -> Keys: ...
    def fact_keys(self, facts: Keys) -> Keys: ...
    def record_access(self, facts: Keys, now: float) -> None: ...


class StoreSnapshot:
    """One generation of an index, restricted to a scope. See :class:`graphrag_core.ports.Snapshot`."""

    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._graph: GraphReads = reads.graph
        self._edited: EditedGraph | None = None
        if reads.edits or reads.graph.has_edges:
            self._graph = self._edited = EditedGraph(reads.graph, GraphEdits(reads.edits), self._named_facts)
        self.generation, self.unknown_keys = reads.generation, reads.unknown_keys
        self.metadata_keys = reads.metadata_keys
        self.chunk_count = reads.chunk_count
        self.statistics_count = reads.statistics_count
        self.first_entity = reads.graph.first_entity
        self.has = reads.has
        self.walk = self._graph.walk
        self.degrees = self._graph.degrees
        self.chunks = reads.chunks
        self.find_chunks = reads.find_chunks
        self.record_access = reads.record_access
        # What was read so far: the stages of a query ask for the same again.
        self._terms: dict[int, tuple[bytes, bytes]] = {}
        self._entities: dict[int, Entity] = {}
        self._counts: dict[str, int] = {}  # chunks that have a term
        self._copies: dict[int, Keys] = {}  # of chunks
        self._searched: tuple[Matrix, Keys, Scores] | None = None  # the last vector, its chunks in order, their scores

    @property
    def node_limit(self) -> int:
        return self._graph.node_limit

    @property
    def linked_share(self) -> float:
        return self._graph.linked_share

    # -- search

    def search_vectors(self, kind: Kind, vectors: Matrix, k: int) -> list[Ranking]:
        if kind == "entities":
            found = self._reads.nearest("names", vectors, k * _NAMES_PER_ENTITY)
            return [self._entities_of_names(*ranking, k) for ranking in found]
        found = self._reads.nearest("chunks", vectors, k)
        if len(vectors) == 1:
            ((keys, scores),) = found
            order = np.argsort(keys)
            self._searched = vectors[0], keys[order], scores[order]
        return found

    def _entities_of_names(self, names: Keys, scores: Scores, k: int) -> Ranking:
        """Return the best ``k`` entities of names."""
        entities = self._of_names(self._reads.names(names.tolist()), names)
        entities, scores = entities[entities >= 0], scores[entities >= 0]
        things = ~self._graph.are_addresses(entities)
        entities, scores = entities[things], scores[things]
        order = np.lexsort((self._graph.ids(entities), -scores))
        _, first = np.unique(entities[order], return_index=True)
        order = order[np.sort(first)][:k]
        return entities[order], scores[order]

    def _search_facts(self, text: str, k: int) -> Ranking:
        """Return the best facts for a text, each statement once, in its best place."""
        count = k
        while True:
            check_deadline()
            found, scores = self._reads.keywords("facts", text, count)
            is_all = len(found) < count
            seen = ~self._hidden(found)
            found, scores = found[seen], scores[seen]
            order = ordered(found, [scores], partial(self.id_order, "facts"))
            statements = self._reads.fact_columns(found)[1][order]
            first = np.sort(np.unique(statements, return_index=True)[1])
            if len(first) >= k or is_all or count >= _MOST_SEARCHED:
                return found[order[first]], scores[order[first]]
            count *= 4

    def search_keywords(self, kind: Kind, text: str, k: int) -> Ranking:
        if kind == "facts":
            return self._search_facts(text, k)
        return self._reads.keywords(kind, text, k)

    def terms(self, text: str) -> list[str]:
        return [*content_terms(text)]

    def term_counts(self, terms: Sequence[str]) -> Keys:
        if missing := [term for term in terms if term not in self._counts]:
            self._counts.update(zip(missing, self._reads.term_counts(missing).tolist(), strict=True))
        return np.array([self._counts[term] for term in terms], np.int64)

    def terms_in(self, kind: Kind, keys: Keys, terms: Sequence[str]) -> Flags:
        if len(keys) == 0:
            return np.zeros((0, len(terms)), np.bool_)
        if kind == "entities":
            return self._terms_in_names(keys, terms)
        if kind == "chunks":
            return contained([own for own, _ in self._packed_terms(keys)], terms)
        chunks, ordinals = self._reads.fact_places(keys)
        chunks, place = np.unique(chunks, return_inverse=True)
        return contained_in_facts(self._packed_terms(chunks), place, ordinals, terms)

    def _packed_terms(self, chunks: Keys) -> list[tuple[bytes, bytes]]:
        """Return the packed terms of chunks and of their facts."""
        wanted = chunks.tolist()
        if missing := [key for key in wanted if key not in self._terms]:
            read = self._reads.chunk_terms(np.array(missing, np.int64))
            self._terms.update(zip(missing, read, strict=True))
        return [self._terms[key] for key in wanted]

    def _terms_in_names(self, entities: Keys, terms: Sequence[str]) -> Flags:
        found = np.zeros((len(entities), len(terms)), np.bool_)
        owner, name, column, _ = self._matched_names(entities, terms)
        found[owner[name], column] = True
        for row, shown in self._renamed(entities):
            column = matched(terms_of_names([shown])[1], terms)
            found[row, column[column >= 0]] = True
        return found

    def names_within(self, entities: Keys, terms: Sequence[str]) -> list[tuple[int, list[int]]]:
        owner, name, column, sizes = self._matched_names(entities, terms)
        whole = np.flatnonzero((np.bincount(name, minlength=len(sizes)) == sizes) & (sizes > 0))
        found = [(int(owner[at]), sorted(column[name == at].tolist())) for at in whole.tolist()]
        for row, shown in self._renamed(entities):
            own = matched(terms_of_names([shown])[1], terms)
            found += [(row, sorted(own.tolist()))] if len(own) and own.min() >= 0 else []
        if not found:
            return []
        places = np.array([row for row, _ in found])
        ids, addresses = self._graph.ids(entities[places]).tolist(), self._graph.are_addresses(entities[places])
        order = sorted(
            (-len(at), at, own, row)
            for (row, at), own, is_address in zip(found, ids, addresses.tolist(), strict=True)
            if not is_address
        )
        return [(int(entities[row]), at) for _, at, _, row in order]

    def _matched_names(self, entities: Keys, terms: Sequence[str]) -> tuple[Keys, Keys, Keys, Keys]:
        """Return the place of the entity of each name, pairs of a name and a term that it has, and the sizes of names.

        Sizes are the numbers of terms, without stop words.
        """
        counts, names = self._graph.names(entities)
        sizes, numbers = self._reads.name_terms(names)
        term = matched(numbers, terms)
        has = term >= 0
        return np.arange(len(entities)).repeat(counts), np.arange(len(names)).repeat(sizes)[has], term[has], sizes

    def _renamed(self, entities: Keys) -> list[tuple[int, str]]:
        """Return the places of entities that edits have given a name, and this name in its normalised form."""
        shown = self._shown
        if not shown:
            return []
        names = ((row, shown.get(entity, _AS_IS).name) for row, entity in enumerate(entities.tolist()))
        return [(row, normalise(name)) for row, name in names if name]

    def _names_of(self, entities: Keys) -> list[dict[int, Name]]:
        """Return the names of each entity that documents write, by key and in the order of keys."""
        counts, names = self._graph.names(entities)
        keys = names.tolist()
        known = self._reads.names(keys)
        ends = zip(counts.cumsum().tolist(), counts.tolist(), strict=True)
        return [{key: known[key] for key in keys[end - count : end]} for end, count in ends]

    def copies(self, kind: Kind, keys: Keys) -> list[Keys]:
        if kind == "facts":
            return [own[np.argsort(self.id_order(kind, own))] for own in self._reads.fact_copies(keys)]
        wanted, known = keys.tolist(), self._copies
        if missing := [key for key in wanted if key not in known]:
            pairs = self._chunk_copies(missing)
            for key in missing:
                found = np.array(sorted(pairs.get(key, ())), np.int64)
                known[key] = found[np.argsort(self.id_order(kind, found))] if len(found) > 1 else found
        return [known[key] for key in wanted]

    def _chunk_copies(self, chunks: Sequence[int]) -> dict[int, set[int]]:
        """Return the copies of chunks. Those with a signature in common are compared."""
        near = self._reads.signatures(np.array(chunks, np.int64))
        if all(len({own[band] for _, own in near}) == len(near) for band in range(3)):
            return {}
        keys = [key for key, _ in near]
        texts = dict(zip(keys, self._reads.texts(np.array(keys, np.int64)), strict=True))
        return find_copies(chunks, dict(near), texts)

    def similarities(self, kind: Kind, keys: Keys, vector: Matrix | None) -> Scores:
        found = np.zeros(len(keys), np.float32)
        if vector is None or len(keys) == 0 or not self.has(kind, vectors=True):
            return found
        known = np.zeros(len(keys), np.bool_)
        if kind == "chunks" and self._searched is not None and np.array_equal(self._searched[0], vector):
            _, searched, scores = self._searched
            known = among(keys, searched)
            found[known] = scores[searched.searchsorted(keys[known])]
        if not known.all():
            found[~known] = self._reads.similarities(kind, keys[~known], vector)
        return found

    def id_order(self, kind: Kind, keys: Keys) -> Keys:
        if kind == "chunks":
            return self._reads.id_places(keys)
        chunks, ordinals = self._reads.fact_places(keys)
        return self._reads.id_places(chunks) << 32 | ordinals

    # -- the graph

    @property
    def _shown(self) -> Mapping[int, Shown]:
        """What is shown of edited entities."""
        return {} if self._edited is None else self._edited.edits[0]

    def _hidden(self, facts: Keys) -> Flags:
        """Return which facts no question may see."""
        return np.zeros(len(facts), np.bool_) if self._edited is None else self._edited.hidden(facts)

    def hidden_facts(self) -> Keys:
        """Return the keys of all facts that no question may see."""
        return self._reads.fact_keys(_NONE if self._edited is None else self._edited.every_hidden())

    def find_entities(self, names: Iterable[str]) -> dict[str, int]:
        by_hash = {hash64(name): name for name in names if name[:1] != "→"}  # no question names an address
        if not by_hash:
            return {}
        found = {by_hash[number]: self._most_mentioned(own) for number, own in self._graph.find([*by_hash]).items()}
        renamed = {} if self._edited is None else self._edited.edits[1]
        return found | {by_hash[number]: entity for number, entity in renamed.items() if number in by_hash}

    def _most_mentioned(self, entities: Sequence[int]) -> int:
        """Return one of the entities of a name; of equal ones what it stands for: the name's own is the first."""
        if len(entities) == 1:
            return entities[0]
        counts = self._graph.counts(np.array(entities, np.int64))[0].tolist()
        return max((count, at > 0, -one) for at, (count, one) in enumerate(zip(counts, entities, strict=True)))[2] * -1

    def entity_counts(self, entities: Keys) -> tuple[Keys, Flags]:
        counts, is_subject = self._graph.counts(entities)
        is_scope = self.chunk_count < self.statistics_count
        return (np.minimum(counts, MOST_COUNTED) if is_scope else counts), is_subject

    def spellings(self, entity: int) -> list[str]:
        """Return the normalised names of an entity that documents write, the one that represents it first."""
        (names,) = self._names_of(np.array([entity]))
        own = self._graph.ids(np.array([entity]))[0]
        norms = sorted({name.norm for name in names.values()}, key=lambda norm: (hash64(norm) != own, norm))
        return [norm for norm in norms if norm[:1] != "→"]

    def subjects(self, chunks: Keys) -> Adjacency:
        counts, targets, weights, _ = self._graph.walk(chunks)
        about = weights == SUBJECT
        owners, found = np.arange(len(chunks)).repeat(counts), targets[about]
        sizes = np.bincount(owners[about], minlength=len(chunks))
        without = np.flatnonzero(sizes == 0)
        if len(without):
            opened = self._opened(chunks[without], counts[without], targets[sizes.repeat(counts) == 0])
            at = without[opened >= 0]
            order = np.argsort(np.concatenate([owners[about], at]), kind="stable")
            found = np.concatenate([found, opened[opened >= 0]])[order]
            sizes[at] = 1
        return Adjacency(sizes, found, np.ones(len(found), np.float32), sizes.astype(np.float32))

    def _opened(self, chunks: Keys, counts: Keys, mentioned: Keys) -> Keys:
        """Return for each chunk the entity that it mentions with the longest name that it opens with; -1 for none."""
        found = np.full(len(chunks), -1, np.int64)
        of_chunk = np.split(mentioned, counts.cumsum()[:-1])
        ids = np.split(self._graph.ids(mentioned), counts.cumsum()[:-1])
        for at, text in enumerate(self._reads.texts(chunks, OPENING)):
            own = dict(zip(ids[at].tolist(), of_chunk[at].tolist(), strict=True))
            found[at] = next((own[number] for name in openings(text) if (number := hash64(name)) in own), -1)
        return found

    def neighbours(self, nodes: Keys, to: Kind | None = None, limit: int | None = None) -> Adjacency:
        is_entity = nodes >= self.first_entity
        walked = nodes[~is_entity] if to == "entities" else nodes[is_entity] if to == "chunks" else nodes
        places = np.flatnonzero(~is_entity if to == "entities" else is_entity if to == "chunks" else nodes >= 0)
        counts, targets, weights, _ = self._graph.walk(walked)
        owner = places.repeat(counts)
        if to != "chunks" and is_entity.any():
            of, others, sums = self._links(nodes[is_entity])
            owner = np.concatenate([owner, np.flatnonzero(is_entity)[of]])
            targets, weights = np.concatenate([targets, others]), np.concatenate([weights, sums])
        strength = np.zeros(len(owner)) if limit is None else -weights
        order = np.lexsort((*self._by_key(targets), strength, owner))
        owner, targets, weights = owner[order], targets[order], weights[order]
        counts = np.bincount(owner, minlength=len(nodes))
        if limit is not None:
            first = np.arange(len(owner)) - (counts.cumsum() - counts).repeat(counts) < limit
            owner, targets, weights, counts = owner[first], targets[first], weights[first], np.minimum(counts, limit)
        totals = np.bincount(owner, weights, len(nodes)).astype(np.float32)
        return Adjacency(counts, targets, weights, totals)

    def _by_key(self, nodes: Keys) -> tuple[Keys, Flags]:
        """Return what sorts nodes, the most important last: chunks by key, then entities by id."""
        is_entity = nodes >= self.first_entity
        keys = np.empty(len(nodes), np.int64)
        keys[~is_entity], keys[is_entity] = self._reads.chunk_keys(nodes[~is_entity]), self._graph.ids(nodes[is_entity])
        return keys, is_entity

    def _links(self, entities: Keys) -> tuple[Keys, Keys, Scores]:
        """Return the entities that share a fact with each: the place of the entity, the other one, and the weight.

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
        wanted = distinct(entities)
        if joint and len(wanted) > 1:
            facts = _in_all(*self._graph.facts_of(wanted, limit))
        else:
            facts = self._graph.facts_of(wanted, limit)[1]
            facts = distinct(facts) if len(wanted) > 1 else facts
        return facts if relations is None or len(facts) == 0 else self._reads.with_relations(facts, relations)

    def facts_in(self, chunks: Keys) -> Keys:
        facts = self._reads.facts_in(chunks)
        facts = facts[~self._hidden(facts)]
        facts = facts[np.argsort(self.id_order("facts", facts))]
        _, first = np.unique(self._reads.fact_columns(facts)[1], return_index=True)
        return facts[np.sort(first)]

    def outgoing_facts(self, entity: int, limit: int) -> tuple[Keys, Scores, npt.NDArray[np.float64]]:
        facts = self.facts_of(np.array([entity]))
        if len(facts) > limit:
            weights, _ = self._reads.fact_columns(facts)
            facts = facts[np.lexsort((self.id_order("facts", facts), -weights))[:limit]]
        return self._reads.outgoing(facts, self._graph.names(np.array([entity]))[1])

    def fact_rows(self, facts: Keys) -> FactRows:
        counts, entities = self._graph.entities_of(facts)
        return FactRows(facts, self._reads.fact_places(facts)[0], self._reads.fact_columns(facts)[0], counts, entities)

    # -- records

    def facts(self, keys: Keys) -> list[Fact]:
        if len(keys) == 0:
            return []
        rows = self._reads.facts(keys)
        known = self._reads.names(sorted({name for names, _ in rows for name in names}))
        meant = self._meant(keys, [names for names, _ in rows], known)
        called = self._called({pair for own in meant for pair in own}, known)
        facts = []
        for (names, fact), own in zip(rows, meant, strict=True):
            ends = [called[pair] for pair in own]
            entities, text = [one for one, _ in ends], fact.text
            if fact.relation in ("", REFERS_TO):
                entities = list(dict.fromkeys(entities))
            elif known[names[-1]].surface == EDGE and len(entities) > 1:
                shown = list(dict.fromkeys(name for _, name in ends))
                others = [end.removeprefix(f"{fact.relation}: ") for end in shown[1:] or shown[:1]]
                text = f"{shown[0]} {fact.relation}: {', '.join(others)}"
                entities = list(dict.fromkeys(entities))
            facts.append(_changed(fact, tuple(entities), text))
        return facts

    def _meant(
        self, facts: Keys, names: Sequence[Sequence[int]], known: Mapping[int, Name]
    ) -> list[list[tuple[int, int]]]:
        """Return the names of facts with their entities. Names that are no entity's are left out."""
        found = self._graph.find(sorted({known[name].spelling for own in names for name in own}))
        one = {name: found[known[name].spelling] for name in known if known[name].spelling in found}
        if any(len(entities) > 1 for entities in one.values()):  # an alias in some documents: those of the fact
            counts, held = self._graph.entities_of(facts)
            of_fact = [set(own.tolist()) for own in np.split(held, counts.cumsum()[:-1])]
            return [
                [(name, next((own for own in one[name] if own in inside), one[name][0])) for name in own if name in one]
                for own, inside in zip(names, of_fact, strict=True)
            ]
        return [[(name, one[name][0]) for name in own if name in one] for own in names]

    def _named_facts(self, keys: Keys) -> list[tuple[list[int], Fact]]:
        """Return the ids of the entities that facts name, and the facts."""
        rows = self._reads.facts(keys)
        known = self._reads.names(sorted({name for names, _ in rows for name in names}))
        return [([known[name].spelling for name in names], fact) for names, fact in rows]

    def _of_names(self, known: Mapping[int, Name], names: Keys) -> Keys:
        """Return the entities of names, given by key; -1 for one of which there is none in scope."""
        ids = [known[name].spelling for name in names.tolist()]
        found = self._graph.find([*dict.fromkeys(ids)]) if ids else {}
        return np.array([self._most_mentioned(found[number]) if number in found else -1 for number in ids], np.int64)

    def _called(
        self, pairs: AbstractSet[tuple[int, int]], names: Mapping[int, Name]
    ) -> dict[tuple[int, int], tuple[str, str]]:
        """Return the id and the name of entities, given with the name that a fact has for each.

        Edits, aliases and the labels of sections are taken into account.
        """
        entities = distinct(np.array([entity for _, entity in pairs], np.int64))
        addresses = self._graph.are_addresses(entities)
        labels = self._section_labels(entities[addresses]) if addresses.any() else {}
        ids = dict(zip(entities.tolist(), self._graph.ids(entities).tolist(), strict=True))
        shown, found = self._shown, {}
        for name, entity in pairs:
            other = labels.get(entity) or shown.get(entity, _AS_IS).name
            if not other and ids[entity] != names[name].spelling:  # an alias, or merged
                other = self.entities(np.array([entity]))[0].name
            own = (names[name].norm, names[name].surface)
            found[name, entity] = (normalise(other) or other, other) if other else own
        return found

    def entities(self, keys: Keys) -> list[Entity]:
        wanted = keys.tolist()
        if missing := [entity for entity in dict.fromkeys(wanted) if entity not in self._entities]:
            shown = self._shown
            for entity, read in zip(missing, self._read_entities(np.array(missing, np.int64)), strict=True):
                self._entities[entity] = shown[entity].applied(read) if entity in shown else read
        return [self._entities[entity] for entity in wanted]

    def _read_entities(self, keys: Keys) -> list[Entity]:
        groups = self._names_of(keys)
        claims: dict[int, list[tuple[str, str]]] = {}
        for name, kind, description in self._reads.claims([key for group in groups for key in group]):
            claims.setdefault(name, []).append((kind, description))
        addresses = self._graph.are_addresses(keys)
        labels = self._section_labels(keys[addresses]) if addresses.any() else {}
        things = self._things(labels) if labels else {}
        ids, mentions = self._graph.ids(keys).tolist(), self._graph.counts(keys)[0].tolist()
        several = [key for group in groups if len(group) > 1 for key in group]
        uses = (
            dict(zip(several, self._graph.uses(np.array(several, np.int64)).tolist(), strict=True)) if several else {}
        )
        entities = []
        for entity, own, group, count in zip(keys.tolist(), ids, groups, mentions, strict=True):
            if entity in labels:
                called = labels[entity]
                entities.append(things.get(called) or Entity(normalise(called) or called, called, mentions=count))
                continue
            stated = [claim for key in group for claim in claims.get(key, ())]
            names = sorted((-uses.get(key, 0), name.surface, name) for key, name in group.items())
            own_names = [name for _, _, name in names if len(names) == 1 or name.spelling == own]
            if not own_names:
                raise LookupError(f"no name has the spelling {own} that represents an entity")
            representative = own_names[0]
            types = Counter(kind for kind, _ in stated if kind)
            descriptions = sorted({description for _, description in stated if description})
            entities.append(
                Entity(
                    id=representative.norm,
                    name=representative.surface,
                    type=min((-count, kind) for kind, count in types.items())[1] if types else "",
                    description=" ".join(descriptions[:_MAX_DESCRIPTIONS]),
                    aliases=tuple(sorted({surface for _, surface, _ in names} - {representative.surface})),
                    mentions=count,
                )
            )
        return entities

    def top_entities(self, count: int) -> Keys:
        return self._without_numbers(self._graph.top(_TOP_CANDIDATES * count))[:count]

    def _without_numbers(self, entities: Keys) -> Keys:
        """Return entities without numbers such as years, which are in every text."""
        ids = self._graph.ids(entities)
        return entities[~np.isin(ids, self._reads.digits(ids))]

    def search_names(self, start: str, inside: str) -> Keys:
        names = self._reads.names_like(start, inside)
        found = self._of_names(self._reads.names(names.tolist()), names)
        renamed = [entity for entity, shown in self._shown.items() if shown.name is not None]
        found = distinct(found[found >= 0], np.array(renamed, np.int64))
        found = found[~self._graph.are_addresses(found)]
        order = np.lexsort((self._graph.ids(found), -self._graph.counts(found)[0]))
        return self._without_numbers(found[order])

    def _section_labels(self, addresses: Keys) -> dict[int, str]:
        """Return the labels of the sections that addresses lead to."""
        counts, chunks, weights, _ = self._graph.walk(addresses)
        counts, chunks = kept_rows(counts, weights == SUBJECT), chunks[weights == SUBJECT]
        addresses, counts = addresses[counts > 0], counts[counts > 0]
        # The first in the order of ids, whatever the order in which documents were added.
        order = np.lexsort((self.id_order("chunks", chunks), np.repeat(np.arange(len(addresses)), counts)))
        ends = np.cumsum(counts)
        first = self.chunks(chunks[order[ends - counts]])
        titles = (label(chunk.title, chunk.headings) or chunk.document_id for chunk in first)
        labels = dict(zip(addresses.tolist(), titles, strict=True))
        if self._graph.has_edges:
            last = self.chunks(chunks[order[ends - 1]])
            for entity, names, one, other in zip(labels, self._names_of(addresses), first, last, strict=True):
                if (surface := next(iter(names.values())).surface).startswith(EDGE):
                    labels[entity] = edge_label(surface, one, other)
        return labels

    def _things(self, labels: Mapping[int, str]) -> dict[str, Entity]:
        """Return the entities that sections are about, by the label of the section."""
        norms = {called: normalise(called) for called in labels.values()}
        known = self.find_entities(set(norms.values()))
        named = [called for called, norm in norms.items() if norm in known]
        found = self.entities(np.array([known[norms[called]] for called in named], np.int64)) if named else []
        return dict(zip(named, found, strict=True))


def _in_all(counts: Keys, values: Keys) -> Keys:
    """Return the values that all rows have, given the lengths of the rows, which are in order."""
    rows = sorted(np.split(values, np.cumsum(counts)[:-1]), key=len)
    found = rows[0]
    for row in rows[1:]:  # look the few up in the many
        found = found[among(found, row)]
    return found


def fact_copies(reads: Reads, facts: Keys) -> list[Keys]:
    """Return for each fact the others that say the same. They hold the same entities: the rarest one's are compared."""
    copies = []
    for fact in facts.tolist():
        counts, found = reads.graph.facts_of(reads.graph.entities_of(np.array([fact]))[1])
        near = min(np.split(found, counts.cumsum()[:-1]), key=len)
        statements = reads.fact_columns(np.append(near, fact))[1]
        copies.append(near[(statements[:-1] == statements[-1]) & (near != fact)])
    return copies


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
    return first.title or opening[:OPENING].rstrip(".")


def openings(text: str) -> list[str]:
    """Return the normalised names that a text may open with, longest first."""
    words = text.split()[:_OPENING_WORDS]
    return [name for count in range(len(words), 0, -1) if (name := normalise(" ".join(words[:count])))]


def _changed(fact: Fact, entities: tuple[str, ...], text: str) -> Fact:
    """Return a fact with other entities and another text; faster than ``dataclasses.replace``."""
    return Fact(
        entities, text, fact.relation, fact.weight, fact.confidence, fact.source, fact.status, fact.value, fact.created,
        fact.last_accessed, fact.access_count, fact.span, fact.id, fact.chunk_id, fact.valid_from, fact.valid_to,
    )  # fmt: skip
