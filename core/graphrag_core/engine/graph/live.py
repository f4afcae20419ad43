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
from collections.abc import Mapping
from typing import Any

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
from graphrag_core.ports import Keys

Flags = npt.NDArray[np.bool_]

_NONE: Index = np.empty(0, np.int64)
_MENTION = np.float32(1)
_SUBJECT = np.float32(1 + SUBJECT_WEIGHT)
_SHORT_WORD = 1 << 9  # the first words of pairs are stored with so many values


class LiveView:
    """The graph of all chunks, as a :class:`GraphView`, which follows the tables.

    The tables must be in the order of their keys, and have no explicit edges. Not safe to read while it changes.
    """

    def __init__(self, tables: Tables, view: GraphView, made: Decisions) -> None:
        self.hidden: Flags | None = None
        self.name_uses: Index | None = None  # a view of some chunks has them
        self.shown: Mapping[int, Shown] = {}
        self.new_names: Mapping[int, int] = {}
        self._tables = tables
        chunks, facts, names, spellings = (
            len(each) for each in (view.chunk_keys, view.fact_keys, view.name_keys, made.spellings)
        )
        self._sizes = {table: len(next(iter(columns.values()))) for table, columns in tables.items()}
        self._known, self._new_spellings = made.spellings, dict[int, int]()
        self._hash = Growing(made.spellings.copy())
        # of names
        self._spelling = Growing(made.name_spelling.astype(np.int64))
        self._named, self._name_there = Growing(made.named.copy()), Growing(np.ones(names, np.bool_))
        held_fact, held_name = (self._at(t, tables["fact_names"][c]) for t, c in (("facts", "fact"), ("names", "name")))
        in_triples = held_name[tables["facts"]["triple"][held_fact]]
        self._in_triples = Growing(np.bincount(in_triples, minlength=names).astype(np.int32))
        self._name_entity = Growing(np.where(view.name_entity >= 0, made.entity[made.name_spelling], -1))
        # of spellings
        self._common, self._word_chunks = Growing(made.common.copy()), Growing(made.word_chunks.copy())
        self._entity = Growing(made.entity.astype(np.int64))
        gram_name = self._at("names", tables["name_grams"]["name"])
        spelling, gram = _unique_pairs(made.name_spelling[gram_name], tables["name_grams"]["gram"])
        self._gram_spelling, self._gram = Growing(spelling), Growing(gram)
        self._grams = Growing(np.bincount(spelling, minlength=spellings))
        self._is_word = Growing(np.zeros(spellings, np.bool_))
        self._is_word.values[spelling[is_word(gram)]] = True
        self._by_name_gram = HashIndex(gram, np.arange(len(gram)))
        # of chunks and facts
        self._title = Growing(made.title.copy())
        self._chunk_there, self._fact_there = Growing(np.ones(chunks, np.bool_)), Growing(np.ones(facts, np.bool_))
        grams = tables["fact_grams"]["gram"]
        pairs = np.flatnonzero(word_pairs(grams))
        self._by_fact_gram = HashIndex(grams, np.arange(len(grams)))
        self._by_word = HashIndex(words_of(grams[pairs])[1], pairs)
        self._index_uses(made)
        self._index_rows(view, made)
        self._number()

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
        self.bridged = float(self._leads.values[chunks].mean()) if len(self.chunk_keys) else 0.0

    # -- what a query reads; the same as in a GraphView

    def chunks_of_facts(self, facts: Keys) -> Index:
        """Return the chunk of each fact."""
        rows = facts if self._facts is None else self._facts[facts]
        return np.searchsorted(self.chunk_keys, self._tables["facts"]["chunk"][rows])

    def first_facts(self, chunks: Keys) -> Keys:
        """Return the key of the first fact of each chunk."""
        keys = self.chunk_keys[chunks].astype(np.int32)
        first: Keys = self._tables["facts"]["key"][np.searchsorted(self._tables["facts"]["chunk"], keys)]
        return first

    def entities_of_names(self, names: Keys) -> Index:
        """Return the entity of each name; -1 for none."""
        entity = self._name_entity.values[names]
        return np.where(entity >= 0, self._rank.values[entity], -1)

    def are_addresses(self, entities: Keys) -> Flags:
        """Return whether each entity is the address of a section."""
        return self._is_address.values[self._entities[entities]]

    def are_subjects(self, entities: Keys) -> Flags:
        """Return whether each entity is the subject of a chunk."""
        found: Flags = self._subject_chunks.values[self._entities[entities]] > 0
        return found

    def chunk_counts(self, entities: Keys) -> Index:
        """Return how many chunks mention each entity."""
        return self._entity_chunks.counts[self._entities[entities]]

    def subjects_of(self, chunks: Keys) -> Pairs:
        """Return the entities that chunks are about, one chunk after the other: how many, and which."""
        counts, entities, weights = self._chunk_entities.gather(self._chunk_rows(chunks))
        subject = weights == _SUBJECT
        return _counted(counts, subject), self._rank.values[entities[subject]]

    def chunks_about(self, entities: Keys) -> Pairs:
        """Return the chunks whose subject each entity is: how many, and which."""
        counts, chunks, weights = self._entity_chunks.gather(self._entities[entities])
        subject = weights == _SUBJECT
        return _counted(counts, subject), self._chunk_positions(chunks[subject])

    def entities_of(self, facts: Keys) -> Pairs:
        """Return the entities that facts hold: how many, and which."""
        counts, entities, _ = self._fact_entities.gather(facts if self._facts is None else self._facts[facts])
        return counts, self._rank.values[entities]

    def facts_of(self, entities: Keys, limit: int | None = None) -> Pairs:
        """Return the facts that hold each entity, in order of key, so many at most: how many, and which."""
        counts, facts, _ = self._entity_facts.gather(self._entities[entities], limit)
        return counts, facts if self._fact_position is None else self._fact_position[facts]

    def names_of(self, entities: Keys) -> Pairs:
        """Return the names of each entity: how many, and which."""
        return self._entity_names.gather(self._entities[entities])[:2]

    def neighbours(self, nodes: Keys) -> tuple[Index, Index, npt.NDArray[np.float32]]:
        """Return the edges of nodes of the adjacency matrix: how many, their targets and their weights."""
        first = len(self.chunk_keys)
        is_chunk = nodes < first
        entities = self._entities[nodes[~is_chunk] - first]
        parts = (
            (is_chunk, self._chunk_entities.gather(self._chunk_rows(nodes[is_chunk]))),
            (~is_chunk, self._entity_chunks.gather(entities)),
            (~is_chunk, self._links.gather(entities)),
        )
        targets = (
            first + self._rank.values[parts[0][1][1]],
            self._chunk_positions(parts[1][1][1]),
            first + self._rank.values[parts[2][1][1]],
        )
        weights = parts[0][1][2], parts[1][1][2], _rounded(parts[2][1][2])
        if is_chunk.all():
            return parts[0][1][0], targets[0], weights[0]
        counts = np.zeros(len(nodes), np.int64)
        owners = []
        for which, (of_rows, _, _) in parts:
            counts[which] += of_rows
            owners.append(np.repeat(np.flatnonzero(which), of_rows))
        order = np.argsort(np.concatenate(owners), kind="stable")
        return counts, np.concatenate(targets)[order], np.concatenate(weights)[order]

    def totals_of(self, nodes: Keys) -> npt.NDArray[np.float32]:
        """Return the sum of the weights of each node's edges."""
        first = len(self.chunk_keys)
        totals, is_chunk = np.empty(len(nodes)), nodes < first
        counts, _, weights = self._chunk_entities.gather(self._chunk_rows(nodes[is_chunk]))
        totals[is_chunk] = np.bincount(np.repeat(np.arange(len(counts)), counts), weights, len(counts))
        entities = self._entities[nodes[~is_chunk] - first]
        totals[~is_chunk] = self._chunk_total.values[entities] + self._link_total.values[entities]
        return np.round(totals, 6).astype(np.float32)

    def degrees_of(self, nodes: Keys) -> npt.NDArray[np.float32]:
        """Return the number of neighbours of each node."""
        first = len(self.chunk_keys)
        degrees, is_chunk = np.empty(len(nodes), np.float32), nodes < first
        degrees[is_chunk] = self._chunk_entities.counts[self._chunk_rows(nodes[is_chunk])]
        entities = self._entities[nodes[~is_chunk] - first]
        degrees[~is_chunk] = self._entity_chunks.counts[entities] + self._links.counts[entities]
        return degrees

    def _chunk_rows(self, chunks: Keys) -> Index:
        return chunks if self._chunks is None else self._chunks[chunks]

    def _chunk_positions(self, rows: Index) -> Index:
        return rows if self._chunk_position is None else self._chunk_position[rows]

    def view(self) -> GraphView:
        """Return a view of the rows that are there, as one that is built from them."""
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
        return GraphView(
            self.chunk_keys, self.fact_keys, self.chunks_of_facts(np.arange(len(facts))), self.fact_weight,
            self.fact_statement, self.entity_ids, self._is_address.values[self._entities], self.name_keys[names],
            self.entities_of_names(names), mentions, subjects, incidence,
        )  # fmt: skip

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the view of the rows that are there as plain arrays, see :meth:`GraphView.arrays`."""
        return self.view().arrays()

    @property
    def nbytes(self) -> int:
        """Bytes held in memory, without the tables."""
        parts = [part for part in vars(self).values() if isinstance(part, Growing | Rows | HashIndex)]
        return sum(part.nbytes for part in parts)

    # -- following the tables

    def update(self, removed_chunks: Keys, removed_names: Keys) -> None:
        """Follow the tables, to which rows were appended, and of which the rows of some chunks and names are void."""
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
        chunk, word = _unique_pairs(np.concatenate([chunk[pairs]] * 2), np.concatenate(words))
        at, found = self._with_gram(self._by_name_gram, self._gram.values, word)
        spelling = self._gram_spelling.values[found]
        single = self._is_word.values[spelling]
        _, spelling = _unique_pairs(chunk[at[single]], spelling[single])
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
            self._link_total, self._subject_chunks, self._is_address,
        ):  # fmt: skip
            part.extend(size - len(part))
        self._entity.extend(size - start, -1)
        self._rank.extend(size - start, -1)
        for matrix in (
            self._names_of, self._mentions_of, self._held_of, self._lower_facts, self._entity_chunks,
            self._entity_facts, self._entity_names, self._links,
        ):  # fmt: skip
            matrix.extend(size)
        self._names_of.append(
            self._spelling.values[before["names"] :], np.arange(before["names"], self._sizes["names"])
        )

        name = self._at("names", tables["name_grams"]["name"][before["name_grams"] :])
        spelling, gram = self._spelling.values[name], tables["name_grams"]["gram"][before["name_grams"] :]
        spelling, gram = _unique_pairs(spelling[spelling >= start], gram[spelling >= start])
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
        at = int(np.searchsorted(self._known, number))
        if at < len(self._known) and self._known[at] == number:
            return at
        if number not in self._new_spellings:
            self._new_spellings[number] = len(self._hash)
            self._hash.append([number])
        return self._new_spellings[number]

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
        once, _ = _unique_pairs(spelling * width + fact, gram)
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
        """Return the entities that facts have in lower case: the place of the fact, and the entity."""
        counts, spelling, _ = self._fact_lower.gather(facts)
        entity = self._entity.values[spelling]
        told = (entity >= 0) & ~self._common.values[spelling]
        return np.repeat(np.arange(len(facts)), counts)[told], entity[told]

    def _rows_of_chunks(self, chunks: Index) -> tuple[Index, Index, npt.NDArray[np.float32]]:
        """Return chunk, entity and weight of the entries of chunks, in order."""
        keys = self._tables["chunks"]["key"][chunks]
        rows, counts = spans(self._tables["mentions"]["chunk"], keys)
        subject = self._tables["mentions"]["subject"][rows]
        names = self._at("names", self._tables["mentions"]["name"][rows])
        kept = self._is_kept(names, subject)
        owner = np.repeat(np.arange(len(chunks)), counts)[kept]
        entity = self._entity.values[self._spelling.values[names[kept]]]
        facts, counts = spans(self._tables["facts"]["chunk"], keys)
        of_fact, lower = self._lower_of(facts)
        size = len(self._hash)
        codes = np.concatenate([owner, np.repeat(np.arange(len(chunks)), counts)[of_fact]]) * size
        codes += np.concatenate([entity, lower])
        once = distinct(codes)
        about = np.isin(once, codes[: len(owner)][subject[kept]])
        owner, entity = np.divmod(once, size)
        order = np.lexsort((self._hash.values[entity], owner))
        return chunks[owner[order]], entity[order], np.where(about, _SUBJECT, _MENTION)[order]

    def _rows_of_facts(self, facts: Index) -> Pairs:
        """Return fact and entity of the entries of facts, in order."""
        rows, counts = spans(self._tables["fact_names"]["fact"], self._tables["facts"]["key"][facts])
        owner = np.repeat(np.arange(len(facts)), counts)
        names = self._at("names", self._tables["fact_names"]["name"][rows])
        spelling = self._spelling.values[names]
        size = len(self._hash)
        chunk = self._tables["facts"]["chunk"][facts].astype(np.int64)
        keys = distinct(chunk)
        of_chunks, counts = spans(self._tables["mentions"]["chunk"], keys)
        about = np.repeat(keys, counts) * size
        about += self._spelling.values[self._at("names", self._tables["mentions"]["name"][of_chunks])]
        about = about[self._tables["mentions"]["subject"][of_chunks]]
        kept = self._is_kept(names, np.isin(chunk[owner] * size + spelling, about))
        of_fact, lower = self._lower_of(facts)
        codes = np.concatenate([owner[kept], of_fact]) * size
        codes += np.concatenate([self._entity.values[spelling[kept]], lower])
        owner, entity = np.divmod(distinct(codes), size)
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


def _entries(matrix: csr_array) -> Pairs:
    """Return the rows and columns of the entries of a sparse matrix."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr)), matrix.indices.astype(np.int64)


def _matrix(counts: Index, columns: Index, width: int) -> csr_array:
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    data = np.ones(len(columns), np.int8)
    return csr_array((data, columns.astype(np.int32), indptr), shape=(len(counts), width))


def _unique_pairs(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> Pairs:
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
