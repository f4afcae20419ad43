"""The graph of an index that changes: a view that is brought up to date, not built again.

A change touches some spellings: those that its chunks mention, in any case. What is decided about a spelling (whether
it is a name, which entity it is) depends on its own uses alone, so it is decided again for these, by the functions that
build a view from all rows (:mod:`~graphrag_core.engine.graph.build`). Chunks and facts that are new, or that use a
spelling of which the decision changed, get new rows; entities and links follow from the difference. So the cost of a
change is that of its own rows and of the uses of the names in them, whatever the size of the index.

Chunks, facts and names are numbered by their row in the tables, spellings as they come; an entity has the number of the
spelling that represents it. Queries see positions without gaps: chunks and facts in the order of keys, entities in that
of their ids, as in a view that is built from the rows. They are the same numbers, so that results are the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from graphrag_core.engine.graph.build import (
    MOST_LINKED,
    SUBJECT_WEIGHT,
    Decisions,
    GraphView,
    Index,
    Pairs,
    Tables,
    edge_facts,
    positions,
    resolve,
)
from graphrag_core.engine.graph.edits import Shown
from graphrag_core.engine.graph.names import (
    ADDRESS,
    ALWAYS,
    AS_SUBJECT,
    MOST_TITLES,
    NEVER,
    NameUses,
    entity_names,
    is_word,
    titles,
    word_pairs,
    words_of,
)
from graphrag_core.engine.graph.sparse import Growing, HashIndex, Rows, ranges, spans
from graphrag_core.key_sets import among, distinct, without
from graphrag_core.ports import Adjacency, Keys, Kind

Flags = npt.NDArray[np.bool_]

_NONE: Index = np.empty(0, np.int64)
_MENTION = np.float32(1)
_SUBJECT = np.float32(1 + SUBJECT_WEIGHT)
_SHORT_WORD = 1 << 9  # the first words of pairs are stored with so many values


class LiveGraph:
    """The graph of all chunks, which follows the tables.

    Queries see numbers: chunks and facts have those of their keys in ascending order, entities those that follow the
    chunks, in the order of their ids. The tables must be in the order of their keys. Not safe to read while it changes.

    Attributes
    ----------
    chunk_keys, fact_keys, name_keys
        The keys of chunks and facts by number, and of all names.
    fact_weight, fact_statement
        Of facts, by number.
    entity_ids
        The hashes of the spellings that represent entities, in the order of their numbers.
    linked_share
        See the port.
    """

    def __init__(self, tables: Tables, view: GraphView, made: Decisions) -> None:
        self.similar = made.similar
        self._hidden = view.hidden
        first = len(view.chunk_keys)
        self._shown = {first + at: shown for at, shown in view.shown.items()}
        self._new_names = {name: first + at for name, at in view.new_names.items()}
        self._tables = tables
        chunks, facts, names, spellings = (
            len(each) for each in (view.chunk_keys, view.fact_keys, view.name_keys, made.spellings)
        )
        self._sizes = {table: len(next(iter(columns.values()))) for table, columns in tables.items()}
        self._known, self._new_spellings = made.spellings, dict[int, int]()
        self._hash = Growing(made.spellings.copy())
        self._ordered, self._spelling_place = np.arange(spellings), _NONE  # see spelling_order
        # Of names:
        self._spelling = Growing(made.name_spelling.astype(np.int64))
        self._named, self._name_there = Growing(made.named.copy()), Growing(np.ones(names, np.bool_))
        held_fact, held_name = (self._at(t, tables["fact_names"][c]) for t, c in (("facts", "fact"), ("names", "name")))
        in_triples = held_name[tables["facts"]["triple"][held_fact]]
        self._in_triples = Growing(np.bincount(in_triples, minlength=names).astype(np.int32))
        self._name_entity = Growing(np.where(view.name_entity >= 0, made.entity[made.name_spelling], -1))
        # Of spellings:
        self._common, self._word_chunks = Growing(made.common.copy()), Growing(made.word_chunks.copy())
        self._entity = Growing(made.entity.astype(np.int64))
        # Of chunks and facts:
        self._title = Growing(made.title.copy())
        self._chunk_there, self._fact_there = Growing(np.ones(chunks, np.bool_)), Growing(np.ones(facts, np.bool_))
        self._edge_facts = edge_facts(tables)
        self._follows_changes = False  # whether there is what only a change needs
        self._is_place = Growing(np.zeros(spellings, np.bool_))  # whether a spelling is an address
        self._is_place.values[made.name_spelling[tables["names"]["form"] == ADDRESS]] = True
        self._index_uses(made)
        self._index_rows(view, made)
        self._number()

    def attach(self, tables: Tables) -> None:
        """Follow tables to which rows were appended since."""
        self._tables = tables

    def _index_grams(self) -> None:
        """Index the grams of names and facts, before the first change."""
        tables, spellings = self._tables, len(self._hash)
        gram_name = self._at("names", tables["name_grams"]["name"][: self._sizes["name_grams"]])
        spelling, gram = unique_pairs(
            self._spelling.values[gram_name], tables["name_grams"]["gram"][: self._sizes["name_grams"]]
        )
        self._gram_spelling, self._gram = Growing(spelling), Growing(gram)
        self._grams = Growing(np.bincount(spelling, minlength=spellings))
        self._is_word = Growing(np.zeros(spellings, np.bool_))
        self._is_word.values[spelling[is_word(gram)]] = True
        self._by_name_gram = HashIndex(gram, np.arange(len(gram)))
        grams = tables["fact_grams"]["gram"][: self._sizes["fact_grams"]]
        pairs = np.flatnonzero(word_pairs(grams))
        self._by_word = HashIndex(words_of(grams[pairs])[1], pairs)
        self._by_fact_gram = HashIndex(grams, np.arange(len(grams)))
        self._follows_changes = True

    def _index_uses(self, made: Decisions) -> None:
        """Find which rows use each spelling."""
        tables, spellings = self._tables, len(made.spellings)
        names, facts = (self._sizes[table] for table in ("names", "facts"))
        mention_name, held_name = (self._at("names", tables[table]["name"]) for table in ("mentions", "fact_names"))
        self._names_of = Rows(made.name_spelling, np.arange(names), spellings)
        self._mentions_of = Rows(made.name_spelling[mention_name], np.arange(len(mention_name)), spellings)
        self._held_of = Rows(made.name_spelling[held_name], np.arange(len(held_name)), spellings)
        self._lower_facts = Rows(made.lower_spelling, made.lower_fact, spellings)
        self._fact_lower = Rows(made.lower_fact, made.lower_spelling, facts)
        self._linked_facts = Rows(made.linked_spelling, made.linked_fact, spellings)
        self._fact_linked = Rows(made.linked_fact, made.linked_spelling, facts)
        self._aliases_of: defaultdict[int, list[int]] = defaultdict(list)
        self._add_aliases(0)
        self._mention_count = Growing(np.zeros(spellings, np.int64))
        kept = self._is_kept(mention_name, tables["mentions"]["subject"])
        self._mention_count.values[:] = np.bincount(made.name_spelling[mention_name[kept]], minlength=spellings)
        self._group: defaultdict[int, list[int]] = defaultdict(list)  # the spellings of an entity of several
        moved = np.flatnonzero((made.entity >= 0) & (made.entity != np.arange(spellings)))
        for one, other in zip(moved.tolist(), made.entity[moved].tolist(), strict=True):
            self._group[other] = [*(self._group[other] or [other]), one]

    def _index_rows(self, view: GraphView, made: Decisions) -> None:
        """Take over the matrices, with the numbers of spellings for entities, which are in the order of ids here."""
        chunks, facts, spellings = len(view.chunk_keys), len(view.fact_keys), len(made.spellings)
        of_entity = np.searchsorted(made.spellings, view.entity_ids)
        rows, columns = _entries(view.mentions)
        about, subject = _entries(view.subjects)
        is_subject = among(rows * spellings + columns, np.sort(about * spellings + subject))
        weight = np.where(is_subject, _SUBJECT, _MENTION)
        columns = columns_of_mentions = of_entity[columns]
        self._chunk_entities = Rows(rows, columns, chunks, weight)
        self._entity_chunks = Rows(columns, rows, spellings, weight)
        rows, columns = _entries(view.incidence)
        columns = of_entity[columns]
        self._fact_entities = Rows(rows, columns, facts)
        self._entity_facts = Rows(columns, rows, spellings)
        named = np.flatnonzero(self._name_entity.values >= 0)
        self._entity_names = Rows(self._name_entity.values[named], named, spellings)
        links = view.exact_links
        rows, columns = _entries(links)
        self._links = Rows(of_entity[rows], of_entity[columns], spellings, links.data)
        # of entities
        self._chunk_total, self._link_total = (Growing(np.zeros(spellings)) for _ in range(2))
        self._chunk_total.values[:] = np.bincount(columns_of_mentions, weight, spellings)
        self._link_total.values[:] = np.bincount(of_entity[rows], _rounded(links.data), spellings)
        self._subject_chunks = Growing(np.zeros(spellings, np.int64))
        np.add.at(self._subject_chunks.values, of_entity, np.bincount(view.subjects.indices, minlength=len(of_entity)))
        self._is_address = Growing(np.zeros(spellings, np.bool_))
        self._is_address.values[of_entity] = view.is_address
        self._rank = Growing(np.full(spellings, -1, np.int64))
        self._entities = of_entity
        self._leads = Growing(self._leading(np.arange(chunks)))

    def _number(self) -> None:
        """Compute the positions of chunks, facts and entities that queries see."""
        chunks, facts = (
            slice(None) if there.values.all() else np.flatnonzero(there.values)
            for there in (self._chunk_there, self._fact_there)
        )
        self._chunks, self._facts = (None if isinstance(rows, slice) else rows for rows in (chunks, facts))
        self._chunk_position = None if self._chunks is None else np.cumsum(self._chunk_there.values) - 1
        self._fact_position = None if self._facts is None else np.cumsum(self._fact_there.values) - 1
        self.chunk_keys: Keys = self._tables["chunks"]["key"][chunks]
        self.fact_keys: Keys = self._tables["facts"]["key"][facts]
        self.fact_weight = self._tables["facts"]["weight"][facts]
        self.fact_statement = self._tables["facts"]["statement"][facts]
        self.name_keys: Keys = self._tables["names"]["key"]
        self.entity_ids: Index = self._hash.values[self._entities]
        self._rank.values[self._entities] = np.arange(len(self._entities))
        self.linked_share = float(self._leads.values[chunks].mean()) if len(self.chunk_keys) else 0.0

    # -- what a query reads: see GraphReads

    @property
    def first_entity(self) -> int:
        """The number of the first entity."""
        return len(self.chunk_keys)

    @property
    def node_limit(self) -> int:
        """All numbers of chunks and entities are below this one."""
        return len(self.chunk_keys) + len(self._entities)

    @property
    def key_limit(self) -> int:
        """The keys of all chunks, also of removed ones that the tables still have, are below this number."""
        keys = self._tables["chunks"]["key"]
        return int(keys[-1]) + 1 if len(keys) else 0

    @property
    def has_edits(self) -> bool:
        """Whether there are explicit edges or deleted relations."""
        return self._hidden is not None

    @property
    def edits(self) -> tuple[Mapping[int, Shown], Mapping[int, int]]:
        """What is shown of edited entities, and the entities of names that no document writes, by hash."""
        return self._shown, self._new_names

    def hidden(self, facts: Keys) -> Flags:
        """Return which facts no query may see."""
        return np.zeros(len(facts), np.bool_) if self._hidden is None else self._hidden[facts]

    def find(self, spellings: Sequence[int]) -> dict[int, int]:
        """Return the entities of spellings, given by hash; those that are no names are left out."""
        slots = {number: slot for number in spellings if (slot := self.slot(number)) >= 0}
        entities = self._rank.values[self._entity.values[np.array([*slots.values()], np.int64)]]
        found = zip(slots, slots.values(), entities.tolist(), strict=True)
        return {number: self.first_entity + at for number, slot, at in found if self._entity.values[slot] >= 0}

    def slot(self, number: int) -> int:
        """Return the number of the spelling with a hash; -1 if there is none."""
        at = int(np.searchsorted(self._known, number))
        if at < len(self._known) and self._known[at] == number:
            return at
        return self._new_spellings.get(number, -1)

    def of_names(self, names: Keys) -> Keys:
        """Return the entities of names, given by key; -1 for one that is no name."""
        if len(self.name_keys) == 0 or len(names) == 0:
            return np.full(len(names), -1, np.int64)
        at = np.minimum(np.searchsorted(self.name_keys, names), len(self.name_keys) - 1)
        entity = self._name_entity.values[at]
        return np.where(
            (self.name_keys[at] == names) & (entity >= 0), self.first_entity + self._rank.values[entity], -1
        )

    def names(self, entities: Keys) -> Pairs:
        """Return the names of entities: how many each has, and their keys."""
        counts, rows, _ = self._entity_names.gather(self._slots(entities))
        return counts, self.name_keys[rows]

    def ids(self, entities: Keys) -> Keys:
        """Return the hash of the spelling that represents each entity."""
        return self.entity_ids[entities - self.first_entity]

    def are_addresses(self, entities: Keys) -> Flags:
        """Return whether each entity is the address of a section."""
        return self._is_address.values[self._slots(entities)]

    def counts(self, entities: Keys) -> tuple[Keys, Flags]:
        """Return how many chunks mention each entity, and whether it is the subject of any."""
        slots = self._slots(entities)
        return self._entity_chunks.counts[slots], self._subject_chunks.values[slots] > 0

    def subjects(self, chunks: Keys) -> Pairs:
        """Return the entities that chunks are about: how many each has, and which."""
        counts, entities, weights = self._chunk_entities.gather(self._chunk_rows(chunks))
        subject = weights == _SUBJECT
        return _counted(counts, subject), self.first_entity + self._rank.values[entities[subject]]

    def about(self, entities: Keys) -> Pairs:
        """Return the chunks whose subject each entity is: how many, and which."""
        counts, chunks, weights = self._entity_chunks.gather(self._slots(entities))
        subject = weights == _SUBJECT
        return _counted(counts, subject), self._chunk_positions(chunks[subject])

    def chunks_of_facts(self, facts: Keys) -> Keys:
        """Return the chunk of each fact."""
        rows = facts if self._facts is None else self._facts[facts]
        return np.searchsorted(self.chunk_keys, self._tables["facts"]["chunk"][rows])

    def fact_places(self, facts: Keys) -> Pairs:
        """Return the chunk of each fact, and its place in the chunk. The facts of a chunk have consecutive keys."""
        rows = facts if self._facts is None else self._facts[facts]
        table = self._tables["facts"]
        chunks = table["chunk"][rows]
        first = table["key"][np.searchsorted(table["chunk"], chunks)]
        return np.searchsorted(self.chunk_keys, chunks), table["key"][rows] - first

    def names_in(self, chunks: Keys) -> Keys:
        """Return the keys of the names that chunks mention, ascending."""
        rows, _ = spans(self._tables["mentions"]["chunk"], self.chunk_keys[chunks])
        return distinct(self._tables["mentions"]["name"][rows].astype(np.int64))

    def entities_of(self, facts: Keys) -> Pairs:
        """Return the entities that facts hold: how many each has, and which."""
        counts, entities, _ = self._fact_entities.gather(facts if self._facts is None else self._facts[facts])
        return counts, self.first_entity + self._rank.values[entities]

    def facts_of(self, entities: Keys, limit: int | None = None) -> Pairs:
        """Return the facts that hold each entity, in order, so many at most: how many, and which."""
        counts, facts, _ = self._entity_facts.gather(self._slots(entities), limit)
        return counts, facts if self._fact_position is None else self._fact_position[facts]

    def joint_facts(self, entities: Keys, limit: int | None = None) -> Keys:
        """Return the facts that hold all entities, in order."""
        return in_all(*self.facts_of(entities, limit))

    def edges(self, nodes: Keys, to: Kind | None = None, limit: int | None = None) -> Adjacency:
        """Return the edges of nodes."""
        return strongest(self._all_edges(nodes), self.first_entity, to, limit)

    def _all_edges(self, nodes: Keys) -> Adjacency:
        first = self.first_entity
        is_chunk = nodes < first
        totals = np.empty(len(nodes))
        of_chunks, targets, weights = self._chunk_entities.gather(self._chunk_rows(nodes[is_chunk]))
        totals[is_chunk] = np.bincount(np.repeat(np.arange(len(of_chunks)), of_chunks), weights, len(of_chunks))
        targets = first + self._rank.values[targets]
        if is_chunk.all():
            return Adjacency(of_chunks, targets, weights, np.round(totals, 6).astype(np.float32))
        entities = self._slots(nodes[~is_chunk])
        totals[~is_chunk] = self._chunk_total.values[entities] + self._link_total.values[entities]
        to_chunks, links = self._entity_chunks.gather(entities), self._links.gather(entities)
        parts = (
            (is_chunk, of_chunks, targets, weights),
            (~is_chunk, to_chunks[0], self._chunk_positions(to_chunks[1]), to_chunks[2]),
            (~is_chunk, links[0], first + self._rank.values[links[1]], _rounded(links[2])),
        )
        counts = np.zeros(len(nodes), np.int64)
        for which, of_rows, _, _ in parts:
            counts[which] += of_rows
        owners = [np.repeat(np.flatnonzero(which), of_rows) for which, of_rows, _, _ in parts]
        order = np.argsort(np.concatenate(owners), kind="stable")
        targets, weights = (np.concatenate([part[at] for part in parts])[order] for at in (2, 3))
        return Adjacency(counts, targets, weights, np.round(totals, 6).astype(np.float32))

    def degrees(self, nodes: Keys) -> npt.NDArray[np.float32]:
        """Return the number of neighbours of each node."""
        degrees, is_chunk = np.empty(len(nodes), np.float32), nodes < self.first_entity
        degrees[is_chunk] = self._chunk_entities.counts[self._chunk_rows(nodes[is_chunk])]
        entities = self._slots(nodes[~is_chunk])
        degrees[~is_chunk] = self._entity_chunks.counts[entities] + self._links.counts[entities]
        return degrees

    def spelling_order(self) -> tuple[Index, Index]:
        """Return all spellings in the order of their hashes, and the place of each in this order."""
        order, known = self._ordered, len(self._ordered)
        if known < len(self._hash) or len(self._spelling_place) != len(self._hash):
            new = np.arange(known, len(self._hash))
            new = new[np.argsort(self._hash.values[new])]
            places = np.searchsorted(self._hash.values[order], self._hash.values[new])
            order = np.insert(order, places, new)
            place = np.empty(len(order), np.int64)
            place[order] = np.arange(len(order))
            self._ordered, self._spelling_place = order, place  # another reader may do the same
            return order, place
        return order, self._spelling_place

    def walk(self, nodes: Keys, masses: npt.NDArray[np.float64], damping: float, least: float) -> Adjacency:  # noqa: ARG002
        """Return the edges of nodes, for a walk that goes on from them."""
        return self._all_edges(nodes)

    def uses(self, names: Keys) -> Keys:
        """Return how many chunks mention each name, given by key."""
        rows = self._at("names", names)
        counts, mentions, _ = self._mentions_of.gather(self._spelling.values[rows])
        there = self._chunk_there.values[self._at("chunks", self._tables["mentions"]["chunk"][mentions])]
        own = self._tables["mentions"]["name"][mentions] == np.repeat(names, counts)
        return _counted(counts, own & there)

    def top(self, count: int) -> Keys:
        """Return the entities that the most chunks mention, most first, without addresses."""
        return most_mentioned(self, np.arange(self.first_entity, self.node_limit), count)

    def _slots(self, entities: Keys) -> Index:
        return self._entities[entities - self.first_entity]

    def _chunk_rows(self, chunks: Keys) -> Index:
        return chunks if self._chunks is None else self._chunks[chunks]

    def _chunk_positions(self, rows: Index) -> Index:
        return rows if self._chunk_position is None else self._chunk_position[rows]

    def state(self) -> tuple[GraphView, Decisions]:
        """Return the rows that are there and how they were made, as :func:`~graphrag_core.engine.graph.build.build`."""
        chunks, facts, names = (
            np.flatnonzero(there.values) for there in (self._chunk_there, self._fact_there, self._name_there)
        )
        entities = len(self._entities)
        counts, columns, weights = self._chunk_entities.gather(chunks)
        mentions = _matrix(counts, self._rank.values[columns], entities)
        subject = weights == _SUBJECT
        subjects = _matrix(_counted(counts, subject), self._rank.values[columns[subject]], entities)
        counts, columns, _ = self._fact_entities.gather(facts)
        incidence = _matrix(counts, self._rank.values[columns], entities)
        name_entity = self._name_entity.values[names]
        view = GraphView(
            self.chunk_keys, self.fact_keys, self.chunks_of_facts(np.arange(len(facts))), self.fact_weight,
            self.fact_statement, self.entity_ids, self._is_address.values[self._entities], self.name_keys[names],
            np.where(name_entity >= 0, self._rank.values[name_entity], -1), mentions, subjects, incidence,
        )  # fmt: skip
        slots = distinct(self._spelling.values[names])
        slots = slots[np.argsort(self._hash.values[slots])]
        place = np.full(len(self._hash) + 1, -1, np.int64)  # the last for none
        place[slots] = np.arange(len(slots))

        def pairs(rows: Rows) -> Pairs:
            counts, spelling, _ = rows.gather(facts)
            spelling, fact = place[spelling], np.repeat(np.arange(len(facts)), counts)
            order = np.lexsort((fact, spelling))
            return spelling[order][spelling[order] >= 0], fact[order][spelling[order] >= 0]

        lower, linked = pairs(self._fact_lower), pairs(self._fact_linked)
        return view, Decisions(
            self._hash.values[slots], place[self._spelling.values[names]], self._named.values[names],
            self._common.values[slots], self._word_chunks.values[slots], place[self._title.values[chunks]],
            *lower, linked[1], linked[0], place[self._entity.values[slots]], self.similar,
        )  # fmt: skip

    @property
    def nbytes(self) -> int:
        """Bytes held in memory, without the tables."""
        parts = [part for part in vars(self).values() if isinstance(part, Growing | Rows | HashIndex)]
        return sum(part.nbytes for part in parts)

    # -- following the tables

    def update(self, removed_chunks: Keys, removed_names: Keys) -> None:
        """Follow the tables, to which rows were appended, and of which the rows of some chunks and names are void."""
        if not self._follows_changes:
            self._index_grams()
        tables, before = self._tables, self._sizes
        self._sizes = {table: len(next(iter(columns.values()))) for table, columns in tables.items()}
        gone, gone_facts = self._remove(removed_chunks, removed_names, before)
        touched = [self._uses(gone, gone_facts), self._count_words(gone_facts, -1)]
        new_spellings = self._add_names(before)
        new = before["chunks"] + np.flatnonzero(self._chunk_there.values[before["chunks"] :])
        new_facts = before["facts"] + np.flatnonzero(self._fact_there.values[before["facts"] :])
        self._add_uses(before)
        self._match(before)
        touched += [new_spellings, self._count_words(new_facts, 1), self._uses(new, new_facts)]
        touched.append(self._spelling.values[self._at("names", removed_names)])
        spellings = distinct(*touched)
        spellings = distinct(spellings, self._held(np.concatenate([gone_facts, new_facts])))

        changed = self._decide(spellings)
        chunks, facts = self._users(changed)
        chunks, facts = distinct(chunks, new), distinct(facts, new_facts)
        self._rename(distinct(spellings, changed))
        self._relate(np.concatenate([gone_facts, facts]), *self._rows_of_facts(facts))
        self._mention(np.concatenate([gone, chunks]), *self._rows_of_chunks(chunks))
        self._number()

    def _remove(self, chunks: Keys, names: Keys, before: Mapping[str, int]) -> Pairs:
        """Forget chunks and names; return the rows of the chunks and facts that were known before."""
        for there, table in ((self._chunk_there, "chunks"), (self._fact_there, "facts"), (self._name_there, "names")):
            there.extend(self._sizes[table] - len(there), fill=True)
        rows = np.sort(self._at("chunks", chunks))
        facts, _ = spans(self._tables["facts"]["chunk"], np.sort(chunks))
        self._chunk_there.values[rows] = False
        self._fact_there.values[facts] = False
        self._name_there.values[self._at("names", names)] = False
        gone_facts = facts[facts < before["facts"]]
        held, counts = spans(self._tables["fact_names"]["fact"], self._tables["facts"]["key"][gone_facts])
        held = held[np.repeat(self._tables["facts"]["triple"][gone_facts], counts)]
        np.subtract.at(self._in_triples.values, self._at("names", self._tables["fact_names"]["name"][held]), 1)
        return rows[rows < before["chunks"]], gone_facts

    def _uses(self, chunks: Index, facts: Index) -> Index:
        """Return the spellings that chunks mention, in any case."""
        rows, _ = spans(self._tables["mentions"]["chunk"], self._tables["chunks"]["key"][chunks])
        mentioned = self._spelling.values[self._at("names", self._tables["mentions"]["name"][rows])]
        return distinct(mentioned, self._fact_lower.gather(facts)[1])

    def _held(self, facts: Index) -> Index:
        """Return the spellings that facts hold."""
        rows, _ = spans(self._tables["fact_names"]["fact"], self._tables["facts"]["key"][np.sort(facts)])
        return self._spelling.values[self._at("names", self._tables["fact_names"]["name"][rows])]

    def _count_words(self, facts: Index, step: int) -> Index:
        """Count the chunks of some facts, all of theirs, for the words in them; return the spellings of the words."""
        rows, counts = spans(self._tables["fact_grams"]["fact"], self._tables["facts"]["key"][facts])
        gram = self._tables["fact_grams"]["gram"][rows]
        chunk = np.repeat(self._tables["facts"]["chunk"][facts].astype(np.int64), counts)
        pairs = word_pairs(gram)
        words = words_of(gram[pairs])
        chunk, word = unique_pairs(np.concatenate([chunk[pairs]] * 2), np.concatenate(words))
        at, found = self._with_gram(self._by_name_gram, self._gram.values, word)
        spelling = self._gram_spelling.values[found]
        single = self._is_word.values[spelling]
        _, spelling = unique_pairs(chunk[at[single]], spelling[single])
        np.add.at(self._word_chunks.values, spelling, step)
        return distinct(spelling)

    def _add_names(self, before: Mapping[str, int]) -> Index:
        """Add the new names; return the new spellings, of which the uses in facts of before are found."""
        tables, start = self._tables, len(self._hash)
        numbers = tables["names"]["entity"][before["names"] :]
        of_names = [self._slot(number) for number in numbers.tolist()]
        self._spelling.append(np.array(of_names, np.int64))
        count = self._sizes["names"] - before["names"]
        self._named.extend(count)
        self._in_triples.extend(count)
        self._name_entity.extend(count, -1)
        size = len(self._hash)
        for part in (
            self._common, self._word_chunks, self._grams, self._is_word, self._mention_count, self._chunk_total,
            self._link_total, self._subject_chunks, self._is_address, self._is_place,
        ):  # fmt: skip
            part.extend(size - len(part))
        self._entity.extend(size - start, -1)
        self._rank.extend(size - start, -1)
        for matrix in (
            self._names_of, self._mentions_of, self._held_of, self._lower_facts, self._linked_facts,
            self._entity_chunks, self._entity_facts, self._entity_names, self._links,
        ):  # fmt: skip
            matrix.extend(size)
        self._names_of.append(
            self._spelling.values[before["names"] :], np.arange(before["names"], self._sizes["names"])
        )
        new_forms = tables["names"]["form"][before["names"] :]
        self._is_place.values[self._spelling.values[before["names"] :][new_forms == ADDRESS]] = True

        name = self._at("names", tables["name_grams"]["name"][before["name_grams"] :])
        spelling, gram = self._spelling.values[name], tables["name_grams"]["gram"][before["name_grams"] :]
        spelling, gram = unique_pairs(spelling[spelling >= start], gram[spelling >= start])
        np.add.at(self._grams.values, spelling, 1)
        single = is_word(gram)
        self._is_word.values[spelling[single]] = True
        at, rows = self._with_gram(self._by_fact_gram, tables["fact_grams"]["gram"], gram)
        fact = self._at("facts", tables["fact_grams"]["fact"][rows])
        self._add_lower(spelling[at], gram[at], fact)
        for one, word in zip(spelling[single].tolist(), gram[single].tolist(), strict=True):
            self._word_chunks.values[one] = self._chunks_with(word, before["fact_grams"])
        self._by_name_gram.add(gram, np.arange(len(self._gram), len(self._gram) + len(gram)))
        self._gram_spelling.append(spelling)
        self._gram.append(gram)
        return np.arange(start, size)

    def _slot(self, number: int) -> int:
        """Return the number of the spelling with a hash; a new one gets the next."""
        if (slot := self.slot(number)) < 0:
            slot = self._new_spellings[number] = len(self._hash)
            self._hash.append([number])
        return slot

    def _chunks_with(self, word: int, known: int) -> int:
        """Return how many chunks have a word in lower case, in the grams that are known so far."""
        grams = self._tables["fact_grams"]["gram"]
        _, rows = self._by_word.candidates(np.array([word]))
        rows = rows[words_of(grams[rows])[1] == word]
        if word < _SHORT_WORD:
            rows = distinct(rows, np.flatnonzero(word_pairs(grams[:known]) & (words_of(grams[:known])[0] == word)))
        facts = self._at("facts", self._tables["fact_grams"]["fact"][rows])
        return len(distinct(self._tables["facts"]["chunk"][facts[self._fact_there.values[facts]]]))

    def _add_uses(self, before: Mapping[str, int]) -> None:
        """Add the mentions, held names and aliases of new chunks."""
        tables = self._tables
        self._chunk_entities.extend(self._sizes["chunks"])
        self._fact_entities.extend(self._sizes["facts"])
        self._fact_lower.extend(self._sizes["facts"])
        self._fact_linked.extend(self._sizes["facts"])
        self._leads.extend(self._sizes["chunks"] - len(self._leads))
        rows = np.arange(before["mentions"], self._sizes["mentions"])
        chunk = self._at("chunks", tables["mentions"]["chunk"][rows])
        rows, chunk = rows[self._chunk_there.values[chunk]], chunk[self._chunk_there.values[chunk]]
        name = self._at("names", tables["mentions"]["name"][rows])
        spelling = self._spelling.values[name]
        self._mentions_of.append(spelling, rows)
        form, start = tables["names"]["form"][name], before["chunks"]
        self._title.append(
            titles(chunk - start, spelling, tables["mentions"]["subject"][rows], form, self._sizes["chunks"] - start)
        )
        rows = np.arange(before["fact_names"], self._sizes["fact_names"])
        fact = self._at("facts", tables["fact_names"]["fact"][rows])
        rows, fact = rows[self._fact_there.values[fact]], fact[self._fact_there.values[fact]]
        name = self._at("names", tables["fact_names"]["name"][rows])
        self._held_of.append(self._spelling.values[name], rows)
        np.add.at(self._in_triples.values, name[tables["facts"]["triple"][fact]], 1)
        self._add_aliases(before["aliases"])

    def _add_aliases(self, start: int) -> None:
        for row in range(start, self._sizes["aliases"]):
            for spelling in set(self._alias(row)[:2]):
                self._aliases_of[spelling].append(row)

    def _alias(self, row: int) -> tuple[int, int, int, int]:
        """Return the spellings and the names of an alias: short and long each."""
        short, long = (
            int(self._at("names", self._tables["aliases"][end][row : row + 1])[0]) for end in ("short", "long")
        )
        return int(self._spelling.values[short]), int(self._spelling.values[long]), short, long

    def _match(self, before: Mapping[str, int]) -> None:
        """Find the names that new facts have in lower case, and keep the grams of the facts."""
        rows = np.arange(before["fact_grams"], self._sizes["fact_grams"])
        fact = self._at("facts", self._tables["fact_grams"]["fact"][rows])
        rows, fact = rows[self._fact_there.values[fact]], fact[self._fact_there.values[fact]]
        gram = self._tables["fact_grams"]["gram"][rows]
        at, found = self._with_gram(self._by_name_gram, self._gram.values, gram)
        self._add_lower(self._gram_spelling.values[found], gram[at], fact[at])
        self._by_fact_gram.add(gram, rows)
        pairs = word_pairs(gram)
        self._by_word.add(words_of(gram[pairs])[1], rows[pairs])

    def _add_lower(self, spelling: Index, gram: Index, fact: Index) -> None:
        """Add mentions in lower case: pairs of a spelling and a fact that has all its grams."""
        there = self._fact_there.values[fact]
        spelling, gram, fact = spelling[there], gram[there], fact[there]
        if len(spelling) == 0:
            return
        width = self._sizes["facts"]
        once, _ = unique_pairs(spelling * width + fact, gram)
        pairs, count = np.unique(once, return_counts=True)
        spelling, fact = np.divmod(pairs, width)
        whole = count == self._grams.values[spelling]
        self._lower_facts.append(spelling[whole], fact[whole])
        self._fact_lower.extend(self._sizes["facts"])
        self._fact_lower.append(fact[whole], spelling[whole])

    @staticmethod
    def _with_gram(index: HashIndex, column: npt.NDArray[Any], grams: Index) -> Pairs:
        """Return pairs of a position in ``grams`` and a row of a column that has this gram."""
        at, rows = index.candidates(grams)
        same = column[rows] == grams[at]
        return at[same], rows[same]

    # -- decisions about spellings

    def _decide(self, spellings: Index) -> Index:
        """Decide about spellings again; return those of which the uses mean something else now."""
        if len(spellings) == 0:
            return spellings
        tables = self._tables
        owner, names = self._of_spellings(self._names_of, spellings)
        there = self._name_there.values[names]
        order = np.argsort(names[there])
        owner, names = owner[there][order], names[there][order]
        mentioned, rows = self._of_spellings(self._mentions_of, spellings)
        chunk = self._at("chunks", tables["mentions"]["chunk"][rows])
        there = self._chunk_there.values[chunk]
        mentioned, rows, chunk = mentioned[there], rows[there], chunk[there]
        subject = tables["mentions"]["subject"][rows]
        name = np.searchsorted(names, self._at("names", tables["mentions"]["name"][rows]))
        title = self._title.values[chunk]
        place = np.minimum(np.searchsorted(spellings, title), len(spellings) - 1)
        title = np.where(spellings[place] == title, place, np.where(title >= 0, len(spellings) + title, -1))
        headings = np.flatnonzero(np.bincount(mentioned[subject], minlength=len(spellings)) >= MOST_TITLES)
        of_heading, lower = self._of_spellings(self._lower_facts, spellings[headings])
        of_heading, lower = of_heading[self._fact_there.values[lower]], lower[self._fact_there.values[lower]]
        named, common = entity_names(
            NameUses(
                tables["names"]["form"][names], owner, chunk, name, subject, title,
                self._in_triples.values[names] > 0, tables["facts"]["chunk"][lower].astype(np.int64),
                headings[of_heading], self._is_word.values[spellings], self._word_chunks.values[spellings],
            )
        )  # fmt: skip
        kept = (named[name] == ALWAYS) | ((named[name] == AS_SUBJECT) & subject)
        alive = np.zeros(len(spellings), np.bool_)
        alive[mentioned[kept]] = alive[owner[named == ALWAYS]] = True
        other = np.zeros(len(spellings), np.bool_)
        other[owner[self._named.values[names] != named]] = True
        other |= self._common.values[spellings] != common
        self._named.values[names] = named
        self._common.values[spellings] = common
        self._mention_count.values[spellings] = np.bincount(mentioned[kept], minlength=len(spellings))
        return distinct(spellings[other], self._resolve(spellings, alive))

    def _of_spellings(self, rows: Rows, spellings: Index) -> Pairs:
        """Return the uses of spellings: for each the position of its spelling, and its row."""
        counts, found, _ = rows.gather(spellings)
        return np.repeat(np.arange(len(spellings)), counts), found

    def _resolve(self, spellings: Index, alive: Flags) -> Index:
        """Find the entities of spellings, and of those that are one with them; return those that have another now."""
        near = {one for one in spellings.tolist() if one in self._aliases_of or self._entity.values[one] in self._group}
        before = self._entity.values.copy() if near else self._entity.values
        if not near:
            changed: Index = spellings[alive != (before[spellings] >= 0)]
            self._entity.values[spellings] = np.where(alive, spellings, -1)
            return changed
        self._entity.values[spellings] = np.where(alive, np.maximum(before[spellings], 0), -1)
        for _ in range(2):  # an alias is ambiguous because of another, whose other end may be elsewhere
            near |= {
                end for one in near.copy() for row in self._aliases_of.get(one, ()) for end in self._alias(row)[:2]
            }
        for one in near.copy():
            near.update(self._group.get(int(before[one]), ()))
        ahead, pairs = [*near], set[tuple[int, int]]()
        while ahead:
            one = ahead.pop()
            for pair in self._pairs(one):
                pairs.add(pair)
                ahead += {*pair} - near
                near.update(pair)
            more = {*self._group.get(int(before[one]), ())} - near
            near |= more
            ahead += more
        found = np.array(sorted(near), np.int64)
        short, long = (np.searchsorted(found, [pair[end] for pair in pairs]).astype(np.int64) for end in (0, 1))
        none = np.empty(0, np.int64)
        ids, mentions = self._hash.values[found], self._mention_count.values[found]
        representative = found[resolve((short, long), (none, none), mentions, ids)]
        for one in found.tolist():
            self._group.pop(one, None)
        there = self._entity.values[found] >= 0
        for one, other in zip(found[there].tolist(), representative[there].tolist(), strict=True):
            if one != other:
                self._group[other] = [*(self._group[other] or [other]), one]
        alone = without(spellings[alive], found)
        self._entity.values[alone] = alone
        self._entity.values[found[there]] = representative[there]
        every = distinct(spellings, found)
        others: Index = every[self._entity.values[every] != before[every]]
        return others

    def _pairs(self, spelling: int) -> set[tuple[int, int]]:
        """Return the aliases of a spelling that hold: short and long spelling each."""
        stated = {pair for row in self._aliases_of.get(spelling, ()) if (pair := self._stated(row)) is not None}
        found = set()
        for short, long in stated:
            rows = self._aliases_of[short]
            if len({other for row in rows if (other := self._stated(row)) is not None and other[0] == short}) == 1:
                found.add((short, long))
        return found

    def _stated(self, row: int) -> tuple[int, int] | None:
        """Return the spellings of an alias if its chunk is there and both are names."""
        chunk = self._at("chunks", self._tables["aliases"]["chunk"][row : row + 1])
        if not self._chunk_there.values[chunk[0]]:
            return None
        short, long, *names = self._alias(row)
        alive = self._entity.values[short] >= 0 and self._entity.values[long] >= 0
        named = all(self._named.values[name] > NEVER and self._name_there.values[name] for name in names)
        return (short, long) if alive and named and short != long else None

    def _users(self, spellings: Index) -> Pairs:
        """Return the rows of the chunks and facts that use spellings."""
        rows = self._mentions_of.gather(spellings)[1]
        chunks = self._at("chunks", self._tables["mentions"]["chunk"][rows])
        held = self._at("facts", self._tables["fact_names"]["fact"][self._held_of.gather(spellings)[1]])
        lower = self._lower_facts.gather(spellings)[1]
        of_lower = self._at("chunks", self._tables["facts"]["chunk"][lower])
        chunks, facts = distinct(chunks, of_lower), distinct(held, lower)
        return chunks[self._chunk_there.values[chunks]], facts[self._fact_there.values[facts]]

    # -- rows of chunks, facts and entities

    def _is_kept(self, names: Index, subject: Flags) -> Flags:
        """Return which uses of names are those of an entity. ``subject`` says whether it is the chunk's subject."""
        named = self._named.values[names]
        kept: Flags = (named == ALWAYS) | ((named == AS_SUBJECT) & subject)
        return kept

    def _lower_of(self, facts: Index) -> Pairs:
        """Return the names that facts have in lower case: the place of the fact, and the spelling."""
        counts, spelling, _ = self._fact_lower.gather(facts)
        kept = (self._entity.values[spelling] >= 0) & ~self._common.values[spelling]
        return np.repeat(np.arange(len(facts)), counts)[kept], spelling[kept]

    def _mentioned(self, chunks: Index) -> tuple[Index, Index, Flags]:
        """Return what chunks mention as a name: the place of the chunk, the spelling, and whether it is a subject."""
        rows, counts = spans(self._tables["mentions"]["chunk"], self._tables["chunks"]["key"][chunks])
        subject = self._tables["mentions"]["subject"][rows]
        names = self._at("names", self._tables["mentions"]["name"][rows])
        kept = self._is_kept(names, subject)
        owner = np.repeat(np.arange(len(chunks)), counts)
        return owner[kept], self._spelling.values[names[kept]], subject[kept]

    def _facts_in(self, chunks: Index) -> Pairs:
        """Return the facts of chunks: how many each has, and which."""
        facts, counts = spans(self._tables["facts"]["chunk"], self._tables["chunks"]["key"][chunks])
        return counts, facts

    def _stated_in(self, facts: Index) -> Pairs:
        """Return the names that facts hold: the place of the fact, and the spelling."""
        rows, counts = spans(self._tables["fact_names"]["fact"], self._tables["facts"]["key"][facts])
        owner = np.repeat(np.arange(len(facts)), counts)
        names = self._at("names", self._tables["fact_names"]["name"][rows])
        kept = self._is_held(names, self._tables["facts"]["chunk"][facts][owner])
        linked, linked_spelling, _ = self._fact_linked.gather(facts)
        return (
            np.concatenate([owner[kept], np.repeat(np.arange(len(facts)), linked)]),
            np.concatenate([self._spelling.values[names[kept]], linked_spelling]),
        )

    def _is_held(self, names: Index, chunks: Keys) -> Flags:
        """Return which names of facts are those of an entity. ``chunks`` are the keys of the facts' chunks."""
        kept: Flags = self._named.values[names] == ALWAYS
        maybe = np.flatnonzero(self._named.values[names] == AS_SUBJECT)
        if len(maybe):  # where the chunk is about it
            keys = distinct(chunks[maybe].astype(np.int64))
            rows, counts = spans(self._tables["mentions"]["chunk"], keys)
            about = np.repeat(keys, counts) * len(self._hash)
            about += self._spelling.values[self._at("names", self._tables["mentions"]["name"][rows])]
            about = about[self._tables["mentions"]["subject"][rows]]
            own = chunks[maybe].astype(np.int64) * len(self._hash) + self._spelling.values[names[maybe]]
            kept[maybe] = np.isin(own, about)
        return kept

    def _rows_of_chunks(self, chunks: Index) -> tuple[Index, Index, npt.NDArray[np.float32]]:
        """Return chunk, entity and weight of the entries of chunks, in order."""
        owner, spelling, subject = self._mentioned(chunks)
        counts, facts = self._facts_in(chunks)
        of_fact, lower = self._lower_of(facts)
        size = len(self._hash)
        codes = np.concatenate([owner, np.repeat(np.arange(len(chunks)), counts)[of_fact]]) * size
        codes += self._entity.values[np.concatenate([spelling, lower])]
        once = distinct(codes)
        about = np.isin(once, codes[: len(owner)][subject])
        owner, entity = np.divmod(once, size)
        order = np.lexsort((self._hash.values[entity], owner))
        return chunks[owner[order]], entity[order], np.where(about, _SUBJECT, _MENTION)[order]

    def _rows_of_facts(self, facts: Index) -> Pairs:
        """Return fact and entity of the entries of facts, in order."""
        owner, spelling = (
            np.concatenate(ends) for ends in zip(self._stated_in(facts), self._lower_of(facts), strict=True)
        )
        size = len(self._hash)
        owner, entity = np.divmod(distinct(owner * size + self._entity.values[spelling]), size)
        order = np.lexsort((self._hash.values[entity], owner))
        return facts[owner[order]], entity[order]

    def _rename(self, spellings: Index) -> None:
        """Give the names of spellings the entities that were decided."""
        owner, names = self._of_spellings(self._names_of, spellings)
        entity = self._entity.values[spellings[owner]]
        entity = np.where((self._named.values[names] > NEVER) & self._name_there.values[names], entity, -1)
        before = self._name_entity.values[names]
        other = entity != before
        names, entity, before = names[other], entity[other], before[other]
        self._name_entity.values[names] = entity
        left, came = before >= 0, entity >= 0
        self._entity_names.splice((before[left], names[left]), (entity[came], names[came]))
        entities = distinct(before[left], entity[came])
        counts, of_entity, _ = self._entity_names.gather(entities)
        address = self._tables["names"]["form"][of_entity] == ADDRESS
        self._is_address.values[entities] = _counted(counts, address) > 0
        there = counts > 0
        was = self._rank.values[entities] >= 0
        self._insert(entities[there & ~was], entities[was & ~there])

    def _insert(self, new: Index, old: Index) -> None:
        """Add entities to those in the order of ids, and take others out."""
        hashes = self._hash.values
        if len(old):
            places = self._rank.values[old]
            self._entities = np.delete(self._entities, places)
            self._rank.values[old] = -1
        if len(new):
            new = new[np.argsort(hashes[new])]
            places = np.searchsorted(hashes[self._entities], hashes[new])
            self._entities = np.insert(self._entities, places, new)

    def _relate(self, facts: Index, rows: Index, entities: Index) -> None:
        """Give facts other entities, of which ``rows`` are the facts, in order; change the links accordingly."""
        counts, before, _ = self._fact_entities.gather(facts)
        removed, added = _difference(np.repeat(facts, counts), before, rows, entities, len(self._hash))
        changed = distinct(np.repeat(facts, counts)[removed], rows[added])
        self._link(np.repeat(facts, counts), before, changed, -1)
        self._link(rows, entities, changed, 1)
        self._entity_facts.splice((before[removed], np.repeat(facts, counts)[removed]), (entities[added], rows[added]))
        order = np.argsort(facts)
        self._fact_entities.replace(facts[order], _lengths(facts[order], rows), entities)

    def _link(self, facts: Index, entities: Index, changed: Index, sign: int) -> None:
        """Add the links of changed facts, or subtract them."""
        inside = np.isin(facts, changed)
        facts, entities = facts[inside], entities[inside]
        if len(facts) == 0:
            return
        starts = np.flatnonzero(np.r_[True, np.diff(facts) != 0])
        counts = np.diff(np.r_[starts, len(facts)])
        of_row = np.repeat(np.arange(len(starts)), counts)
        wanted = counts[of_row]
        first = np.repeat(entities, wanted)
        second = entities[ranges(starts[of_row], wanted)]
        weight = (self._tables["facts"]["weight"][facts] / 10).astype(np.float32).astype(np.float64)
        related = (first != second) & np.repeat(wanted <= MOST_LINKED, wanted)
        first, second, weight = first[related], second[related], sign * np.repeat(weight, wanted)[related]
        owners = distinct(first)
        counts, targets, sums = self._links.gather(owners)
        size = len(self._hash)
        codes = np.concatenate([np.repeat(np.arange(len(owners)), counts), np.searchsorted(owners, first)]) * size
        codes += np.concatenate([targets, second])
        codes, place = np.unique(codes, return_inverse=True)
        # Weights are multiples of a small power of two: sums and differences of them are exact.
        sums = np.bincount(place, np.concatenate([sums, weight]), len(codes))
        kept = np.round(sums, 6) != 0
        (row, targets), sums = np.divmod(codes[kept], size), sums[kept]
        order = np.lexsort((self._hash.values[targets], row))
        self._links.replace(owners, np.bincount(row, minlength=len(owners)), targets[order], sums[order])
        self._link_total.values[owners] = np.bincount(row, _rounded(sums), len(owners))

    def _mention(self, chunks: Index, rows: Index, entities: Index, weights: npt.NDArray[np.float32]) -> None:
        """Give chunks other entities, of which ``rows`` are the chunks, in order."""
        counts, before, old = self._chunk_entities.gather(chunks)
        owners = np.repeat(chunks, counts)
        size = len(self._hash)
        removed, added = _difference(
            owners, 2 * before + (old == _SUBJECT), rows, 2 * entities + (weights == _SUBJECT), 2 * size
        )
        np.subtract.at(self._chunk_total.values, before[removed], old[removed])
        np.add.at(self._chunk_total.values, entities[added], weights[added])
        affected = distinct(before[removed], entities[added])
        was_subject = self._subject_chunks.values[affected] > 0
        np.subtract.at(self._subject_chunks.values, before[removed], (old[removed] == _SUBJECT).astype(np.int64))
        np.add.at(self._subject_chunks.values, entities[added], (weights[added] == _SUBJECT).astype(np.int64))
        self._entity_chunks.splice((before[removed], owners[removed]), (entities[added], rows[added]), weights[added])
        order = np.argsort(chunks)
        self._chunk_entities.replace(chunks[order], _lengths(chunks[order], rows), entities, weights)
        turned = affected[was_subject != (self._subject_chunks.values[affected] > 0)]
        again = distinct(chunks, self._entity_chunks.gather(turned)[1])
        self._leads.values[again] = self._leading(again)

    def _leading(self, chunks: Index) -> Flags:
        """Return whether each chunk mentions the subject of another."""
        counts, entities, weights = self._chunk_entities.gather(chunks)
        foreign = (weights == _MENTION) & (self._subject_chunks.values[entities] > 0)
        return _counted(counts, foreign) > 0

    def _at(self, table: str, keys: npt.NDArray[Any]) -> Index:
        """Return the rows of the chunks, facts or names with some keys."""
        column = self._tables[table]["key"]
        if len(keys) > len(column):
            return positions(column)(keys)
        return np.searchsorted(column, keys.astype(column.dtype))


class LiveUses:
    """How the chunks in a scope use spellings: see :class:`~graphrag_core.engine.graph.scoped.Uses`.

    Parameters
    ----------
    graph
        The graph of all chunks.
    visible
        Whether each chunk is in scope, by key.
    """

    def __init__(self, graph: LiveGraph, visible: Flags) -> None:
        self._graph = graph
        self._tables = graph._tables  # noqa: SLF001 - of this module
        self._visible = visible
        self._order, self._place = graph.spelling_order()
        self.first_entity = graph.first_entity
        self.node_limit = graph.first_entity + len(self._order)

    def _slots(self, nodes: Keys) -> Index:
        return self._order[nodes - self.first_entity]

    def _nodes(self, slots: Index) -> Keys:
        return self.first_entity + self._place[slots]

    def find(self, hashes: Sequence[int]) -> dict[int, int]:
        """Return the spellings with some hashes."""
        slots = {number: slot for number in hashes if (slot := self._graph.slot(number)) >= 0}
        return dict(zip(slots, self._nodes(np.array([*slots.values()], np.int64)).tolist(), strict=True))

    def hashes(self, spellings: Keys) -> Keys:
        """Return the hashes of spellings."""
        return self._graph._hash.values[self._slots(spellings)]  # noqa: SLF001

    def places(self, nodes: Keys) -> Keys:
        """Return numbers that sort chunks by key, then spellings by hash."""
        return nodes

    def of_names(self, names: Keys) -> Keys:
        """Return the spelling of each name, given by key; -1 for one that is no name."""
        graph, keys = self._graph, self._graph.name_keys
        at = np.minimum(np.searchsorted(keys, names), max(len(keys) - 1, 0))
        if len(keys) == 0 or len(names) == 0:
            return np.full(len(names), -1, np.int64)
        is_name = (keys[at] == names) & (graph._named.values[at] > NEVER)  # noqa: SLF001
        return np.where(is_name, self._nodes(graph._spelling.values[at]), -1)  # noqa: SLF001

    def chunks_of(self, spellings: Keys) -> tuple[Index, Keys, Keys, Flags]:
        """Return the mentions of spellings as a name: the place of the spelling, chunk, name and whether a subject."""
        graph, table = self._graph, self._tables["mentions"]
        owner, rows = graph._of_spellings(graph._mentions_of, self._slots(spellings))  # noqa: SLF001
        seen = self._visible[table["chunk"][rows]]
        owner, rows = owner[seen], rows[seen]
        subject = table["subject"][rows]
        kept = graph._is_kept(graph._at("names", table["name"][rows]), subject)  # noqa: SLF001
        owner, rows = owner[kept], rows[kept]
        chunks = np.searchsorted(graph.chunk_keys, table["chunk"][rows])
        return owner, chunks, table["name"][rows].astype(np.int64), subject[kept]

    def facts_of(self, spellings: Keys) -> tuple[Index, Keys, Flags]:
        """Return the facts that hold spellings: the place of the spelling, the fact, and whether in lower case."""
        graph, slots = self._graph, self._slots(spellings)
        owner, rows = graph._of_spellings(graph._held_of, slots)  # noqa: SLF001
        facts = graph._at("facts", self._tables["fact_names"]["fact"][rows])  # noqa: SLF001
        seen = self._visible[self._tables["facts"]["chunk"][facts]]
        owner, rows, facts = owner[seen], rows[seen], facts[seen]
        names = graph._at("names", self._tables["fact_names"]["name"][rows])  # noqa: SLF001
        kept = graph._is_held(names, self._tables["facts"]["chunk"][facts])  # noqa: SLF001
        linked = graph._of_spellings(graph._linked_facts, slots)  # noqa: SLF001
        lower = graph._of_spellings(graph._lower_facts, slots)  # noqa: SLF001
        common = graph._common.values[slots][lower[0]]  # noqa: SLF001
        owners = np.concatenate([owner[kept], linked[0], lower[0][~common]])
        facts = np.concatenate([facts[kept], linked[1], lower[1][~common]])
        in_lower = np.arange(len(owners)) >= len(owners) - int((~common).sum())
        seen = self._visible[self._tables["facts"]["chunk"][facts]]
        position = graph._fact_position  # noqa: SLF001
        facts = facts[seen]
        return owners[seen], facts if position is None else position[facts], in_lower[seen]

    def in_chunks(self, chunks: Keys) -> tuple[Index, Keys, Flags, Flags]:
        """Return the spellings in chunks: the place of the chunk, spelling, whether a subject, and whether doubtful."""
        graph, rows = self._graph, self._graph._chunk_rows(chunks)  # noqa: SLF001
        owner, spelling, subject = graph._mentioned(rows)  # noqa: SLF001
        counts, facts = graph._facts_in(rows)  # noqa: SLF001
        of_fact, lower = graph._lower_of(facts)  # noqa: SLF001
        owners = np.concatenate([owner, np.repeat(np.arange(len(rows)), counts)[of_fact]])
        spelling = np.concatenate([spelling, lower])
        doubtful = graph._is_place.values[spelling]  # noqa: SLF001
        doubtful[len(owner) :] = True
        return owners, self._nodes(spelling), np.concatenate([subject, np.zeros(len(lower), np.bool_)]), doubtful

    def in_facts(self, facts: Keys) -> tuple[Index, Keys, Flags]:
        """Return the spellings that facts hold: the place of the fact, spelling, and whether it may not exist."""
        graph = self._graph
        rows = facts if graph._facts is None else graph._facts[facts]  # noqa: SLF001
        stated, lower = graph._stated_in(rows), graph._lower_of(rows)  # noqa: SLF001
        owners, spellings = (np.concatenate(ends) for ends in zip(stated, lower, strict=True))
        doubtful = graph._is_place.values[spellings]  # noqa: SLF001
        doubtful[len(stated[0]) :] = True
        if graph.has_edits:  # the title of what an edge leads to
            doubtful[:] = True
        return owners, self._nodes(spellings), doubtful

    def aliases(self) -> Pairs:
        """Return the short and the long spellings of aliases that chunks in scope state."""
        graph, table = self._graph, self._tables["aliases"]
        rows = np.flatnonzero(self._visible[table["chunk"]])
        ends = [graph._at("names", table[end][rows]) for end in ("short", "long")]  # noqa: SLF001
        named = [graph._named.values[end] > NEVER for end in ends]  # noqa: SLF001
        both = named[0] & named[1]
        short, long = (self._nodes(graph._spelling.values[end[both]]) for end in ends)  # noqa: SLF001
        return short, long

    def similar(self) -> Pairs:
        """Return the spellings whose vectors are so similar that they are one entity."""
        first, second = self._graph.similar
        return self._nodes(first), self._nodes(second)

    def are_addresses(self, spellings: Keys) -> Flags:
        """Return which spellings are addresses of sections."""
        return self._graph._is_place.values[self._slots(spellings)]  # noqa: SLF001

    def hidden(self, facts: Keys) -> Flags:
        """Return which facts no query may see in any scope."""
        return self._graph.hidden(facts)

    def are_edges(self, facts: Keys) -> Flags:
        """Return which facts are explicit edges."""
        return among(self._graph.fact_keys[facts], self._graph._edge_facts)  # noqa: SLF001

    def every_spelling(self) -> Keys:
        """Return all spellings in the chunks of the scope."""
        chunks = np.flatnonzero(self._visible[self._graph.chunk_keys])
        _, spellings, _, _ = self.in_chunks(chunks)
        return distinct(spellings)

    def chunks_of_facts(self, facts: Keys) -> Keys:
        """Return the chunk of each fact."""
        return self._graph.chunks_of_facts(facts)

    def weights(self, facts: Keys) -> npt.NDArray[np.float32]:
        """Return the weight of each fact."""
        return self._graph.fact_weight[facts]


def _entries(matrix: csr_array) -> Pairs:
    """Return the rows and columns of the entries of a sparse matrix."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices.astype(np.int64)


def _matrix(counts: Index, columns: Index, width: int) -> csr_array:
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    data = np.ones(len(columns), np.int8)
    return csr_array((data, columns.astype(np.int32), indptr), shape=(len(counts), width))


def unique_pairs(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> Pairs:
    """Return different pairs once, in order."""
    order = np.lexsort((second, first))
    first, second = first[order].astype(np.int64), second[order].astype(np.int64)
    new = np.r_[True, (np.diff(first) != 0) | (np.diff(second) != 0)][: len(first)]
    return first[new], second[new]


def _difference(rows: Index, columns: Index, new_rows: Index, new_columns: Index, width: int) -> tuple[Flags, Flags]:
    """Return which of the entries are not among the new ones, and which of the new ones not among them."""
    old, new = rows * width + columns, new_rows * width + new_columns
    return ~np.isin(old, new), ~np.isin(new, old)


def _lengths(rows: Index, owners: Index) -> Index:
    """Return how many of the owners each row is. Both ascend."""
    return np.searchsorted(owners, rows, "right") - np.searchsorted(owners, rows, "left")


def _counted(counts: Index, which: Flags) -> Index:
    """Return how many entries of each row are some that are wanted, given the lengths of the rows."""
    return np.bincount(np.repeat(np.arange(len(counts)), counts)[which], minlength=len(counts))


def _rounded(sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return the weights of links, see :attr:`GraphView.links`."""
    return np.round(sums, 6).astype(np.float32)


def in_all(counts: Keys, values: Keys) -> Keys:
    """Return the values that all rows have, given the lengths of the rows, which are in order."""
    rows = sorted(np.split(values, np.cumsum(counts)[:-1]), key=len)
    found = rows[0]
    for row in rows[1:]:  # look the few up in the many
        found = found[among(found, row)]
    return found


def strongest(
    edges: Adjacency, first_entity: int, to: Kind | None, limit: int | None, places: Keys | None = None
) -> Adjacency:
    """Return edges restricted to chunks or entities, and with ``limit`` the strongest of each node.

    Of equal ones the first by ``places``, which are those of the targets, or by number.
    """
    counts, targets, weights, totals = edges
    places = targets if places is None else places
    if to is not None and not (kept := (targets < first_entity) == (to == "chunks")).all():
        owners = np.repeat(np.arange(len(counts)), counts)[kept]
        counts, targets, weights = np.bincount(owners, minlength=len(counts)), targets[kept], weights[kept]
        places = places[kept]
    if limit is not None and len(counts) and counts.max() > 0:
        owners = np.repeat(np.arange(len(counts)), counts)
        order = np.lexsort((places, -weights, owners))
        place = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
        order = order[place < limit]
        counts, targets, weights = np.minimum(counts, limit), targets[order], weights[order]
    return Adjacency(counts, targets, weights, totals)


class _Counted(Protocol):
    def counts(self, entities: Keys) -> tuple[Keys, Flags]: ...
    def ids(self, entities: Keys) -> Keys: ...
    def are_addresses(self, entities: Keys) -> Flags: ...


def most_mentioned(graph: _Counted, entities: Keys, count: int) -> Keys:
    """Return the entities that the most chunks mention, most first, without addresses."""
    things = entities[~graph.are_addresses(entities)]
    return things[np.lexsort((graph.ids(things), -graph.counts(things)[0]))[:count]]
