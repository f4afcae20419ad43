"""A change of the graph: from the rows of the chunks that came and went to what differs in the derived tables.

What is decided about a spelling (whether it is a name, which entity it is) depends on how many chunks use it in which
way. The derived tables hold these numbers. Each is a sum over chunks, so a change adds what its new chunks say and
subtracts what the removed ones said, and only the spellings in them are decided again. Chunks and facts that are new,
or that use a spelling of which the decision changed, get other entities; links, entities and nodes follow from the
difference. So the cost of a change is that of its own rows and of the rows whose entities it changes. A graph that is
built from all rows is a change of an empty one.

The functions here know no storage: :class:`GraphStore` is what one has to bring. All numbers of chunks, facts, names
and spellings are those of the store; an entity has the number of the spelling that represents it. The weights of links
are sums of single precision numbers of at least 0.0625. In double precision such sums and differences are exact, so
nothing drifts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from graphrag_core.engine.graph.names import decided, resolve, titles, unambiguous
from graphrag_core.engine.graph.sparse import Flags, Numbers, Pairs
from graphrag_core.key_sets import among, distinct

MENTION, SUBJECT = 1, 6
"""The weights of the edges between a chunk and what it mentions, or what it is about."""

MOST_LINKED = 64
"""A fact of more entities is a list, which does not relate each to each."""

COUNTS = ("subjects", "spoken")
"""How chunks use a spelling: as a subject, and as a name that is none."""

NONE: Numbers = np.empty(0, np.int64)


class GraphRows(NamedTuple):
    """The rows of some chunks from which the graph is derived.

    Attributes
    ----------
    chunks
        Ascending.
    mentions
        Chunk, name, spelling, whether it is an address and whether a subject, in the order of chunks and positions.
    facts
        Number, chunk, weight and whether it is a triple, in the order of numbers.
    held
        Fact, name and spelling.
    aliases
        Short and long name, short and long spelling.
    """

    chunks: Numbers = NONE
    mentions: tuple[Numbers, Numbers, Numbers, Flags, Flags] = (
        NONE, NONE, NONE, NONE.astype(np.bool_), NONE.astype(np.bool_),
    )  # fmt: skip
    facts: tuple[Numbers, Numbers, npt.NDArray[np.float32], Flags] = (
        NONE, NONE, NONE.astype(np.float32), NONE.astype(np.bool_),
    )  # fmt: skip
    held: tuple[Numbers, Numbers, Numbers] = (NONE, NONE, NONE)
    aliases: tuple[Numbers, Numbers, Numbers, Numbers] = (NONE, NONE, NONE, NONE)


class Spellings(NamedTuple):
    """What is stored of some spellings; zeros for unknown ones.

    Attributes
    ----------
    counts, titles
        How many chunks use it in each of the ways ``COUNTS``, and under how many titles it is a heading.
    alive, entity
        Whether it is a name, and then of which entity.
    alias_of
        The long names that short ones stand for.
    """

    counts: Numbers
    titles: Numbers
    alive: Flags
    entity: Numbers
    alias_of: Mapping[int, int]


class Names(NamedTuple):
    """Names: how often each is mentioned and is in a triple (rows of ``counts``), and whether it is an entity's."""

    name: Numbers
    spelling: Numbers
    is_address: Flags
    counts: Numbers
    named: Flags


class Members(NamedTuple):
    """Spellings that may be one entity with others: the long name of each, mentions, and the entity."""

    spelling: Sequence[int]
    alias_of: Sequence[int | None]
    mentions: Sequence[int]
    entity: Sequence[int | None]


class Merges(NamedTuple):
    """What makes spellings one entity besides aliases, in a graph that is built from all rows.

    Attributes
    ----------
    similar
        Pairs of names and of their spellings, as in :attr:`GraphRows.aliases`.
    groups
        Spellings that an edit merged; the first one that is a name represents them.
    deleted
        Spellings of entities that an edit deleted.
    """

    similar: tuple[Numbers, Numbers, Numbers, Numbers] = (NONE, NONE, NONE, NONE)
    groups: Sequence[Sequence[int]] = ()
    deleted: Sequence[int] = ()


class EntityCounts(NamedTuple):
    """How many chunks mention entities and are about them."""

    chunks: Numbers
    subjects: Numbers


class GraphStore(Protocol):
    """Where the derived tables are. What is read for several things is in their order, zeros for unknown ones."""

    def headings(self, spelling: Numbers, title: Numbers) -> Numbers: ...
    def set_headings(self, spelling: Numbers, title: Numbers, chunks: Numbers) -> None: ...
    def spellings(self, spellings: Numbers) -> Spellings: ...
    def set_spellings(
        self, spellings: Numbers, found: Spellings, mentions: Numbers, there: Flags, others: Members
    ) -> None:
        """Store spellings, of which some have no names any more, and the entities of ``others``."""

    def hashes(self, spellings: Numbers) -> Numbers: ...
    def names_of(self, spellings: Numbers) -> Names:
        """Return all names of spellings."""

    def set_names(self, names: Names, unused: Names) -> None: ...
    def aliases(self, ends: Numbers, shorts: Numbers) -> tuple[Numbers, Numbers, Numbers, Numbers]:
        """Return the aliases of short spellings: of those given, and of those that have an end among ``ends``."""

    def valid(self, names: Numbers, spellings: Numbers) -> tuple[Flags, Flags]:
        """Return which names are an entity's, and which of their spellings are names so far."""

    def members(self, ahead: Sequence[int], longs: Sequence[int]) -> Members:
        """Return what is stored of spellings, and of those that stand for one of the long names."""

    def users(self, spellings: Numbers) -> Pairs:
        """Return the chunks and facts that use spellings."""

    def fact_uses(self, facts: Numbers) -> Pairs:
        """Return facts and the entities they hold by what is decided now, each pair once."""

    def chunk_uses(self, chunks: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Return chunks, the entities they mention by what is decided now, and the weights, each pair once."""

    def fact_entities(self, facts: Numbers) -> Pairs: ...
    def set_fact_entities(self, gone: Pairs, came: Pairs) -> None: ...
    def weights(self, facts: Numbers) -> npt.NDArray[np.float32]: ...
    def links(self, entities: Numbers, others: Numbers) -> npt.NDArray[np.float64]: ...
    def set_links(self, entities: Numbers, others: Numbers, sums: npt.NDArray[np.float64]) -> None:
        """Store the weights of links; one of 0 is removed."""

    def chunk_entities(self, chunks: Numbers) -> tuple[Numbers, Numbers, Numbers]: ...
    def set_chunk_entities(
        self, gone: tuple[Numbers, Numbers, Numbers], came: tuple[Numbers, Numbers, Numbers]
    ) -> None: ...
    def entities(self, entities: Numbers) -> tuple[Flags, EntityCounts]:
        """Return whether entities are stored, and what was counted."""

    def set_entities(self, entities: Numbers, counts: EntityCounts) -> None:
        """Store entities. Those that represent no spelling any more are removed."""

    def mentioning(self, entities: Numbers) -> Pairs:
        """Return the places of entities, and the chunks that mention them and are not about them."""

    def set_nodes(self, chunks: Numbers, nodes: tuple[Numbers, Numbers, Numbers], removed: Numbers) -> None:
        """Store for chunks the number of entities, their weight, and how many are subjects of other chunks only."""

    def add_foreign(self, chunks: Numbers, change: Numbers) -> None: ...


def apply(store: GraphStore, rows: GraphRows, removed: GraphRows | None = None, merges: Merges | None = None) -> None:
    """Change the derived tables by the rows of added and of removed chunks.

    Without ``removed`` the rows are all there are, and the tables are empty; only then something may be merged.
    """
    gone = GraphRows() if removed is None else removed
    changed, entities = _decide(store, rows, gone, (merges or Merges()) if removed is None else None)
    chunks, facts = rows.chunks, rows.facts[0]
    if removed is not None:
        other_chunks, other_facts = store.users(changed)
        chunks, facts = distinct(chunks, other_chunks), distinct(facts, other_facts)
    _relate(store, facts, gone)
    _mention(store, chunks, gone.chunks, entities)


def relate(store: GraphStore, facts: Numbers) -> None:
    """Give facts the entities that the store says they hold now."""
    _relate(store, facts, GraphRows())


# -- counting


class Uses(NamedTuple):
    """What some chunks say about spellings and names.

    Attributes
    ----------
    spelling, counts
        Spellings, and how many of the chunks use them in each of the ways ``COUNTS``.
    headings
        Spelling, title, and how many chunks under the title have the spelling as a heading.
    names
        The names, with what was counted.
    """

    spelling: Numbers
    counts: Numbers
    headings: tuple[Numbers, Numbers, Numbers]
    names: Names


def count_uses(rows: GraphRows) -> Uses:
    """Count how chunks use spellings."""
    chunk, name, spelling, is_address, subject = rows.mentions
    spellings, own = np.unique(spelling, return_inverse=True)
    count, width = max(len(spellings), 1), max(len(rows.chunks), 1)
    at = np.searchsorted(rows.chunks, chunk)
    title = titles(at, own, subject, is_address, len(rows.chunks))
    used = own * width + at
    counts = [np.bincount(distinct(used[way]) // width, minlength=len(spellings)) for way in (subject, ~subject)]
    heading, where = np.divmod(distinct(used[subject & ~is_address]), width)
    under, under_count = np.unique(heading * count + title[where], return_counts=True)
    headed, of_title = np.divmod(under, count)

    triple = rows.facts[3][np.searchsorted(rows.facts[0], rows.held[0])] if len(rows.held[0]) else rows.facts[3][:0]
    names, first, of_name = np.unique(
        np.concatenate([name, rows.held[1][triple]]), return_index=True, return_inverse=True
    )
    mentioned, in_triple = of_name[: len(name)], of_name[len(name) :]
    name_counts = np.array([np.bincount(each, minlength=len(names)) for each in (mentioned, in_triple)], np.int64)
    of_address = np.concatenate([is_address, np.zeros(len(in_triple), np.bool_)])[first]
    name_spelling = np.concatenate([spelling, rows.held[2][triple]])[first]
    return Uses(
        spellings, np.array(counts, np.int64), (spellings[headed], spellings[of_title], under_count),
        Names(names, name_spelling, of_address, name_counts, np.zeros(len(names), np.bool_)),
    )  # fmt: skip


# -- deciding


def _decide(store: GraphStore, rows: GraphRows, removed: GraphRows, merges: Merges | None) -> Pairs:
    """Count the uses again, decide about the spellings in question, and store it.

    Returns the spellings whose uses mean something else now, and the entities, of now and of before, of all in
    question.
    """
    new, old = count_uses(rows), count_uses(removed)
    spellings = distinct(new.spelling, old.spelling, new.names.spelling, old.names.spelling).astype(np.int64)
    before = store.spellings(spellings)
    counts = before.counts.copy()
    for uses, sign in ((new, 1), (old, -1)):
        counts[:, np.searchsorted(spellings, uses.spelling)] += sign * uses.counts
    under = before.titles + _count_headings(store, spellings, new.headings, old.headings)
    names, is_new, unused = _count_names(store, spellings, new.names, old.names)
    owner = np.searchsorted(spellings, names.spelling)
    named = decided(names.is_address, owner, names.counts[1] > 0, counts, under)
    kept = np.where(named, names.counts[0], 0)
    mentions = np.bincount(owner, kept, len(spellings)).astype(np.int64)
    there, alive, renamed, grown = np.zeros((4, len(spellings)), np.bool_)
    there[owner] = True
    alive[owner[kept > 0]] = True
    renamed[owner[~is_new & (names.named != named)]] = True
    grown[owner[is_new]] = True
    store.set_names(names._replace(named=named), unused)

    stated = distinct(rows.aliases[2], removed.aliases[2])
    redecided = spellings[renamed | grown | ~there | (alive != before.alive)]
    found = before._replace(counts=counts, titles=under, alive=alive)
    found, others, old_entities = _resolve(store, spellings, found, before, mentions, (redecided, stated), merges)
    store.set_spellings(spellings, found, mentions, there, others)
    differs = renamed | (found.alive != before.alive) | (found.alive & (found.entity != before.entity))
    moved = [one for one, now, was in zip(others.spelling, others.entity, old_entities, strict=True) if now != was]
    ends = [*{*others.entity, *old_entities} - {None}]
    return (
        distinct(spellings[differs], np.array(moved, np.int64)),
        distinct(found.entity[found.alive], before.entity[before.alive], np.array(ends, np.int64)),
    )


def _count_headings(
    store: GraphStore,
    spellings: Numbers,
    new: tuple[Numbers, Numbers, Numbers],
    old: tuple[Numbers, Numbers, Numbers],
) -> Numbers:
    """Count the chunks of headings under titles; return by how many titles each spelling has more."""
    more = np.zeros(len(spellings), np.int64)
    at, title = (np.searchsorted(spellings, np.concatenate([new[end], old[end]])) for end in (0, 1))
    if len(at) == 0:
        return more
    codes, change = _summed(at * len(spellings) + title, np.concatenate([new[2], -old[2]]))
    at, title = np.divmod(codes[change != 0], len(spellings))
    before = store.headings(spellings[at], spellings[title])
    after = before + change[change != 0]
    store.set_headings(spellings[at], spellings[title], after)
    np.add.at(more, at, (after > 0) * 1 - (before > 0) * 1)
    return more


def _count_names(store: GraphStore, spellings: Numbers, new: Names, old: Names) -> tuple[Names, Flags, Names]:
    """Return the names of spellings with their uses after the change, which of them are new, and unused ones."""
    known = store.names_of(spellings)
    every = [np.concatenate(columns, axis=-1) for columns in zip(*map(list[Any], (known, new, old)), strict=True)]
    name, first, place = np.unique(every[0], return_index=True, return_inverse=True)
    sign = np.repeat([1, 1, -1], [len(each.name) for each in (known, new, old)])
    counts = np.array([np.bincount(place, sign * row, len(name)) for row in every[3]], np.int64)
    is_new = np.ones(len(name), np.bool_)
    is_new[place[: len(known.name)]] = False
    names = Names(name, every[1][first], every[2][first], counts, every[4][first])
    there = counts[0] > 0
    columns: list[Any] = [*names]
    used, unused = (Names(*(column[..., which] for column in columns)) for which in (there, ~there & ~is_new))
    return used, is_new[there], unused


def _resolve(
    store: GraphStore,
    spellings: Numbers,
    found: Spellings,
    before: Spellings,
    mentions: Numbers,
    asked: Pairs,
    merges: Merges | None,
) -> tuple[Spellings, Members, list[int | None]]:
    """Find the entities of spellings, and of those that are one with them.

    Each short name has at most one long name that it stands for, so names and their aliases are small trees.

    Parameters
    ----------
    spellings, found, before, mentions
        The spellings in question, what they are now and what they were, and how often they are mentioned as names.
    asked
        Spellings of which an alias may have become a name, or is none any more, and short ones whose aliases were
        stated or taken back.
    merges
        Of a graph that is built from all rows.

    Returns
    -------
    tuple
        ``found`` with entities and aliases, other spellings with another entity or alias, and their entities before.
    """
    aliases = store.aliases(*asked)
    shorts = {*aliases[2].tolist(), *asked[1].tolist()}
    valid = _valid(store, spellings, found.alive, *aliases)
    alone = unambiguous(aliases[2][valid], aliases[3][valid])
    longs = dict(zip(alone[0].tolist(), alone[1].tolist(), strict=True))
    stored: dict[int, tuple[int | None, int, int | None]] = {}
    similar: Pairs = (NONE, NONE)
    groups, deleted = list[list[int]](), list[int]()
    if merges is None:
        members, stored = _alias_groups(store, spellings, before.alias_of, shorts, longs)
    else:
        valid = _valid(store, spellings, found.alive, *merges.similar)
        names = {*spellings[found.alive].tolist()} if merges.groups or merges.deleted else set()
        groups = [[one for one in group if one in names] for group in merges.groups]
        deleted = [one for one in merges.deleted if one in names]
        merged = [pair for group in groups for pair in pairwise(group)]
        first, second = (np.array([pair[end] for pair in merged], np.int64) for end in (0, 1))
        similar = np.append(merges.similar[2][valid], first), np.append(merges.similar[3][valid], second)
        ends = [*longs, *longs.values(), *deleted, *(one for group in groups for one in group)]
        members = distinct(np.array(ends, np.int64), *similar)
    stands_for = {
        one: long
        for one in members.tolist()
        if (long := longs.get(one) if one in shorts else stored.get(one, (before.alias_of.get(one),))[0]) is not None
    }
    inside = among(members, spellings)
    at = np.searchsorted(spellings, members[inside])
    uses = np.zeros(len(members), np.int64)
    uses[inside] = mentions[at]
    uses[~inside] = [stored[one][1] for one in members[~inside].tolist()]

    def places(numbers: Iterable[int]) -> Numbers:
        return np.searchsorted(members, np.array([*numbers], np.int64))

    pairs = places(stands_for), places(stands_for.values())
    representative = resolve(pairs, (places(similar[0]), places(similar[1])), uses, store.hashes(members))
    for group in groups:
        if len(group) > 1:
            (one,) = places(group[:1])
            representative[representative == representative[one]] = one
    alive, entity = found.alive.copy(), np.where(found.alive, spellings, 0)
    entity[at] = members[representative[inside]]
    alive[at[np.isin(representative, representative[places(deleted)])[inside]]] = False
    entity[~alive] = 0
    others = members[~inside].tolist()
    of_others = members[representative[~inside]].tolist()
    return (
        found._replace(
            alive=alive, entity=entity, alias_of={one: long for one, long in stands_for.items() if one not in stored}
        ),
        Members(
            others, [stands_for.get(one) for one in others], [stored[one][1] for one in others],
            [None if stored[one][2] is None else now for one, now in zip(others, of_others, strict=True)],
        ),
        [stored[one][2] for one in others],
    )  # fmt: skip


def _alias_groups(
    store: GraphStore,
    spellings: Numbers,
    alias_of: Mapping[int, int],
    shorts: AbstractSet[int],
    longs: Mapping[int, int],
) -> tuple[Numbers, dict[int, tuple[int | None, int, int | None]]]:
    """Return all spellings that are one with others, before or after the change, and what is stored of them.

    ``alias_of`` are the stored long names of ``spellings``, ``longs`` those that ``shorts`` have now. What is stored is
    the long name, the number of mentions and the entity, of other spellings only.
    """
    own, stored = {*spellings.tolist()}, dict[int, tuple[int | None, int, int | None]]()
    ahead = {*shorts, *alias_of}
    searched, group = ahead | own, set[int]()
    while searched:
        for number, long, mentions, entity in zip(*store.members(sorted(ahead - own), sorted(searched)), strict=True):
            if number not in own:
                stored[number] = long, mentions, entity
            if long is not None and long in searched:  # an alias of a spelling in question
                ahead |= {number, long}
        group |= ahead
        near = {one for one, long in longs.items() if long in group}
        for one in group:
            ends = longs.get(one), alias_of.get(one), stored.get(one, (None,))[0]
            near.update(end for end in ends if end is not None)
        ahead = searched = near - group
    return np.array(sorted(group & (own | stored.keys())), np.int64), stored


def _valid(
    store: GraphStore, spellings: Numbers, alive: Flags, first: Numbers, second: Numbers, one: Numbers, other: Numbers
) -> Flags:
    """Return of which pairs of names, with their spellings, both are an entity's."""
    named, there = store.valid(np.concatenate([first, second]), ends := np.concatenate([one, other]))
    inside = among(ends, spellings)
    there[inside] = alive[np.searchsorted(spellings, ends[inside])]
    both = named & there
    found: Flags = both[: len(first)] & both[len(first) :]
    return found


# -- entities of facts and chunks


def _relate(store: GraphStore, facts: Numbers, removed: GraphRows) -> None:
    """Give facts their entities and take those of removed facts."""
    old, new = store.fact_entities(distinct(facts, removed.facts[0])), store.fact_uses(facts)
    gone, came = _difference(old, new)
    store.set_fact_entities(gone, came)
    changed = distinct(gone[0], came[0])
    is_gone = among(changed, removed.facts[0])
    weights = np.empty(len(changed), np.float32)
    weights[~is_gone] = store.weights(changed[~is_gone])
    weights[is_gone] = removed.facts[2][np.searchsorted(removed.facts[0], changed[is_gone])]
    entities, first, second, change = link_weights(changed, weights, new, old)
    ends = entities[first], entities[second]
    store.set_links(*ends, store.links(*ends) + change)


def link_weights(
    facts: Numbers, weights: npt.NDArray[np.float32], held: Pairs, before: Pairs = (NONE, NONE)
) -> tuple[Numbers, Numbers, Numbers, npt.NDArray[np.float64]]:
    """Return how much weight facts give to the links between their entities.

    Parameters
    ----------
    facts, weights
        Facts, ascending, and their weights.
    held, before
        Facts, also others, and the entities they hold and held before, whose weight is subtracted.

    Returns
    -------
    tuple
        Entities, and between which of them links have which weight, by place and in order.
    """
    parts = [(fact[inside], entity[inside]) for fact, entity in (held, before) for inside in (among(fact, facts),)]
    entities = distinct(*(entity for _, entity in parts)).astype(np.int64)
    strength = (weights / 10).astype(np.float32).astype(np.float64)
    shape = len(facts), len(entities)
    links = csr_array((len(entities), len(entities)), dtype=np.float64)
    for sign, (fact, entity) in zip((1, -1), parts, strict=True):
        row = np.searchsorted(facts, fact)
        few = np.bincount(row, minlength=len(facts))[row] <= MOST_LINKED  # a long line would link all its names
        row, column = row[few], np.searchsorted(entities, entity[few])
        if len(row):
            ones = csr_array((np.ones(len(row)), (row, column)), shape=shape)
            links = links + ones.T.tocsr() @ csr_array((sign * strength[row], (row, column)), shape=shape)
    links.sort_indices()
    first, second = np.repeat(np.arange(len(entities)), np.diff(links.indptr)), links.indices.astype(np.int64)
    other = (first != second) & (links.data != 0)
    return entities, first[other], second[other], links.data[other]


def rounded(sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    """Return the weights of links from their sums."""
    return np.round(sums, 6).astype(np.float32)


def _mention(store: GraphStore, chunks: Numbers, removed: Numbers, decided_again: Numbers) -> None:
    """Give chunks their entities, and count for entities what that changes."""
    old, new = store.chunk_entities(distinct(chunks, removed)), store.chunk_uses(chunks)
    gone, came = _difference(old, new)
    store.set_chunk_entities(gone, came)
    entities, is_subject, was_subject = _count_entities(store, gone, came, new[1], decided_again)
    owner = np.searchsorted(chunks, new[0])
    foreign = (new[2] == MENTION) & is_subject[np.searchsorted(entities, new[1])]
    nodes = (
        np.bincount(owner, minlength=len(chunks)),
        np.bincount(owner, new[2], len(chunks)).astype(np.int64),
        np.bincount(owner[foreign], minlength=len(chunks)),
    )
    store.set_nodes(chunks, nodes, removed)
    turned = np.flatnonzero(is_subject != was_subject)
    if len(turned):
        at, mentioning = store.mentioning(entities[turned])
        others = ~among(mentioning, chunks)
        affected, change = _summed(mentioning[others], np.where(is_subject[turned[at[others]]], 1, -1))
        store.add_foreign(affected[change != 0], change[change != 0])


def _count_entities(
    store: GraphStore,
    gone: tuple[Numbers, Numbers, Numbers],
    came: tuple[Numbers, Numbers, Numbers],
    used: Numbers,
    decided_again: Numbers,
) -> tuple[Numbers, Flags, Flags]:
    """Update entities; return those that may have changed or are used, and whether they are and were subjects."""
    entities = distinct(gone[1], came[1], used, decided_again)
    known, before = store.entities(entities)
    chunks, subjects = before.chunks.copy(), before.subjects.copy()
    for rows, sign in ((gone, -1), (came, 1)):
        at = np.searchsorted(entities, rows[1])
        np.add.at(chunks, at, sign)
        np.add.at(subjects, at, sign * (rows[2] == SUBJECT))
    changed = ~known | among(entities, decided_again) | (chunks != before.chunks) | (subjects != before.subjects)
    store.set_entities(entities[changed], EntityCounts(chunks[changed], subjects[changed]))
    return entities, subjects > 0, before.subjects > 0


def _summed(keys: Numbers, values: Numbers) -> Pairs:
    """Return different keys in order, and the sum of the values of each."""
    found, place = np.unique(keys, return_inverse=True)
    return found, np.bincount(place, values, len(found)).astype(np.int64)


def _difference(old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return the rows, each there once, that only ``old`` has, and those that only ``new`` has."""
    if len(old[0]) == 0:
        return old, new
    columns = [np.concatenate(pair) for pair in zip(old, new, strict=True)]
    order = np.lexsort(columns[::-1])
    differs = np.zeros(len(order) - 1, np.bool_)
    for column in columns:
        differs |= np.diff(column[order]) != 0
    alone = np.r_[True, differs] & np.r_[differs, True]
    kept = np.sort(order[alone])
    of_old = kept < len(old[0])
    return tuple(column[kept[of_old]] for column in columns), tuple(column[kept[~of_old]] for column in columns)
