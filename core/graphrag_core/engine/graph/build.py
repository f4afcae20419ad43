"""The graph that queries run on: sparse matrices over chunks, facts and entities, by position."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from graphrag_core.engine.graph.edits import GraphEdits, Shown, edited, entity_of
from graphrag_core.engine.graph.names import (
    ADDRESS,
    ALWAYS,
    AS_SUBJECT,
    NEVER,
    NameUses,
    chunks_in_lower_case,
    entity_names,
    is_word,
    titles,
    word_pairs,
)
from graphrag_core.key_sets import among, distinct
from graphrag_core.ports import Keys
from graphrag_core.text import EDGE, hash64

Index = npt.NDArray[np.int64]
Pairs = tuple[Index, Index]
Tables = Mapping[str, Mapping[str, npt.NDArray[Any]]]
"""Arrays by table and column; see :class:`~graphrag_core.engine.embedded.graph_tables.GraphTables`."""

Positions = Callable[[npt.NDArray[Any]], Index]
"""From keys to positions."""

SUBJECT_WEIGHT = 5.0

_EDGE = hash64(EDGE)
_NONE: Index = np.empty(0, np.int64)
_NO_EDITS = GraphEdits()

_MATRICES = ("mentions", "subjects", "incidence")
_VECTORS = (
    "chunk_keys", "fact_keys", "fact_chunk", "fact_weight", "fact_statement", "entity_ids", "is_address", "name_keys",
    "name_entity",
)  # fmt: skip
MOST_LINKED = 64  # a fact of more entities is a list, which does not relate each to each
_MOST_SPARSE = 8  # times the number of keys: up to this largest key a lookup table is worth its memory
_BUCKETS = (1 << 20) - 3  # of the Bloom filter for grams; a prime


@dataclass(frozen=True)
class GraphView:
    """Chunks, facts and entities by position, and the matrices between them.

    Attributes
    ----------
    chunk_keys, fact_keys, name_keys
        Keys of the records in ascending order; the position is the index into the array.
    entity_ids
        The number of each entity: the hash of the normalised name that represents it.
    is_address
        Whether each entity is the address of a section, to which links lead, and not a thing of the text.
    name_entity
        The entity of each name; -1 if the documents show that it is no name (see
        :mod:`~graphrag_core.engine.graph.names`).
    fact_statement
        A number that is the same for facts that say the same.
    fact_chunk, fact_weight
        The chunk (a position) and the weight (1 to 10) of each fact.
    mentions, subjects
        Chunk × entity: 1 if the chunk mentions the entity, or if the entity is its subject.
    incidence
        Fact × entity: 1 if the fact holds the entity.
    hidden
        Which facts no query may see: those of an explicit edge to a document that is not there, and of deleted
        relations. None without any.
    shown, new_names
        What edits show of entities, and the entities of names that no document writes, by the name's number. These
        and ``hidden`` are not saved but found again, see :func:`with_edits`.
    """

    chunk_keys: Keys
    fact_keys: Keys
    fact_chunk: Index
    fact_weight: npt.NDArray[np.float32]
    fact_statement: npt.NDArray[np.uint32]
    entity_ids: Index
    is_address: npt.NDArray[np.bool_]
    name_keys: Keys
    name_entity: Index
    mentions: csr_array
    subjects: csr_array
    incidence: csr_array
    hidden: npt.NDArray[np.bool_] | None = None
    shown: Mapping[int, Shown] = field(default_factory=dict)
    new_names: Mapping[int, int] = field(default_factory=dict)

    @property
    def exact_links(self) -> csr_array:
        """Entity × entity, symmetric: the sum of weight / 10 over the facts that hold both, in double precision.

        Those that round to 0 are left out.
        """
        return _links(self.incidence, self.fact_weight)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything as plain arrays, to be saved."""
        arrays = {f"view.{name}": getattr(self, name) for name in _VECTORS}
        for name in _MATRICES:
            matrix: csr_array = getattr(self, name)
            arrays |= {f"view.{name}.{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> GraphView:
        """Return the view whose :meth:`arrays` these are."""
        vectors = {name: arrays[f"view.{name}"] for name in _VECTORS}
        chunks, facts, entities = (len(vectors[name]) for name in ("chunk_keys", "fact_keys", "entity_ids"))
        rows = {"mentions": chunks, "subjects": chunks, "incidence": facts}
        matrices = {
            name: csr_array(
                tuple(arrays[f"view.{name}.{part}"] for part in ("data", "indices", "indptr")),
                shape=(rows[name], entities),
            )
            for name in _MATRICES
        }
        return cls(**vectors, **matrices)  # type: ignore[arg-type]


class Decisions(NamedTuple):
    """How a view was made from the rows, by position: what a live graph starts from.

    Attributes
    ----------
    spellings, name_spelling
        The numbers of all spellings, ascending, and the spelling of each name.
    named, common
        Whether each name is an entity's, and whether each spelling is a common word
        (see :mod:`~graphrag_core.engine.graph.names`).
    word_chunks, title
        How many chunks have each spelling of one word in lower case, and the title of each chunk (a spelling).
    lower_spelling, lower_fact
        The mentions in lower case, those of words that are no names too.
    linked_fact, linked_spelling
        The facts of explicit edges, and the titles of the documents that they lead to.
    entity
        The spelling that represents the entity of each spelling; -1 for one that is no name.
    similar
        Pairs of spellings whose vectors are so similar that they are one entity.
    """

    spellings: Index
    name_spelling: Index
    named: npt.NDArray[np.int8]
    common: npt.NDArray[np.bool_]
    word_chunks: Index
    title: Index
    lower_spelling: Index
    lower_fact: Index
    linked_fact: Index
    linked_spelling: Index
    entity: Index
    similar: Pairs = (_NONE, _NONE)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything as plain arrays, to be saved."""
        first, second = self.similar
        own = {f"made.{name}": value for name, value in self._asdict().items() if name != "similar"}
        return {**own, "made.similar.first": first, "made.similar.second": second}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]]) -> Decisions:
        """Return the decisions whose :meth:`arrays` these are."""
        own = {name: arrays[f"made.{name}"] for name in cls._fields if name != "similar"}
        return cls(**own, similar=(arrays["made.similar.first"], arrays["made.similar.second"]))


def build(  # noqa: PLR0915 - one step after the other
    tables: Tables, similar: Pairs, edits: GraphEdits = _NO_EDITS
) -> tuple[GraphView, Decisions]:
    """Return the view of a graph's rows, which does not depend on their order, and how it was made.

    ``similar`` are pairs of name keys that are one entity.
    """
    chunks, facts, names = (np.sort(tables[t]["key"]).astype(np.int64) for t in ("chunks", "facts", "names"))
    name_order, fact_order = (np.argsort(tables[t]["key"], kind="stable") for t in ("names", "facts"))
    spellings, name_spelling = np.unique(tables["names"]["entity"][name_order], return_inverse=True)
    form = tables["names"]["form"][name_order]
    chunk_at, fact_at, name_at = map(positions, (chunks, facts, names))
    fact_chunk, weight = chunk_at(tables["facts"]["chunk"][fact_order]), tables["facts"]["weight"][fact_order]

    mention_chunk, mention_name = chunk_at(tables["mentions"]["chunk"]), name_at(tables["mentions"]["name"])
    subject = tables["mentions"]["subject"]
    held_fact, held_name = fact_at(tables["fact_names"]["fact"]), name_at(tables["fact_names"]["name"])
    gram_name, gram = name_at(tables["name_grams"]["name"]), tables["name_grams"]["gram"]
    lower_spelling, lower_fact = _lowercase_mentions(tables, len(facts), fact_at, name_spelling[gram_name], gram)
    are_words, word_chunks = _words(tables, name_spelling[gram_name], gram, fact_chunk, fact_at, len(spellings))
    title = titles(mention_chunk, name_spelling[mention_name], subject, form[mention_name], len(chunks))
    in_triple = _flags(len(names), held_name[tables["facts"]["triple"][fact_order][held_fact]])
    named, common = entity_names(
        NameUses(
            form, name_spelling, mention_chunk, mention_name, subject, title[mention_chunk], in_triple,
            fact_chunk[lower_fact], lower_spelling, are_words, word_chunks,
        )
    )  # fmt: skip
    all_lower = lower_spelling, lower_fact

    # A name that is one only as a subject is left out of the other mentions, and of the facts of other chunks.
    mention_spelling, held_spelling = name_spelling[mention_name], name_spelling[held_name]
    mentioned = (named[mention_name] == ALWAYS) | ((named[mention_name] == AS_SUBJECT) & subject)
    subject_of = distinct(mention_chunk[subject] * len(spellings) + mention_spelling[subject])
    own = among(fact_chunk[held_fact] * len(spellings) + held_spelling, subject_of)
    held = (named[held_name] == ALWAYS) | ((named[held_name] == AS_SUBJECT) & own)
    alive = np.zeros(len(spellings), np.bool_)
    alive[mention_spelling[mentioned]] = alive[name_spelling[named == ALWAYS]] = True
    is_name = (named > NEVER) & alive[name_spelling]
    mention_chunk, mention_spelling, subject = mention_chunk[mentioned], mention_spelling[mentioned], subject[mentioned]
    held_fact, held_spelling = held_fact[held], held_spelling[held]
    linked_fact = linked_spelling = _NONE
    if len(of_edges := edge_facts(tables)):
        is_place = _flags(len(spellings), name_spelling[form == ADDRESS])
        of_place = _titles_of_addresses(mention_chunk, mention_spelling, subject, is_place, len(chunks))[held_spelling]
        linked = is_place[held_spelling] & np.isin(facts[held_fact], of_edges) & (of_place >= 0)
        linked_fact, linked_spelling = held_fact[linked], of_place[linked]
        held_fact, held_spelling = np.append(held_fact, linked_fact), np.append(held_spelling, linked_spelling)
    lower_spelling, lower_fact = (pair[(alive & ~common)[all_lower[0]]] for pair in all_lower)

    def pairs(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> Pairs:
        ends = name_at(first), name_at(second)
        both = is_name[ends[0]] & is_name[ends[1]]
        return name_spelling[ends[0][both]], name_spelling[ends[1][both]]

    similar = pairs(*similar)
    representative, kept_alive = _resolve_edited(
        pairs(tables["aliases"]["short"], tables["aliases"]["long"]),
        similar,
        np.bincount(mention_spelling, minlength=len(spellings)),
        spellings,
        alive,
        edits,
    )
    if kept_alive is not alive:  # an entity was deleted
        alive, is_name = kept_alive, is_name & kept_alive[name_spelling]
        rows = alive[mention_spelling], alive[held_spelling], alive[lower_spelling]
        mention_chunk, mention_spelling, subject = (c[rows[0]] for c in (mention_chunk, mention_spelling, subject))
        held_fact, held_spelling = held_fact[rows[1]], held_spelling[rows[1]]
        lower_fact, lower_spelling = lower_fact[rows[2]], lower_spelling[rows[2]]
    entity = np.full(len(spellings), -1, np.int64)
    kept, entity[alive] = np.unique(representative[alive], return_inverse=True)
    is_address = _flags(len(kept), entity[name_spelling[is_name & (form == ADDRESS)]])

    mentions = _binary(
        np.concatenate([mention_chunk, fact_chunk[lower_fact]]),
        entity[np.concatenate([mention_spelling, lower_spelling])],
        (len(chunks), len(kept)),
    )
    subjects = _binary(mention_chunk[subject], entity[mention_spelling[subject]], mentions.shape)
    incidence = _binary(
        np.concatenate([held_fact, lower_fact]),
        entity[np.concatenate([held_spelling, lower_spelling])],
        (len(facts), len(kept)),
    )
    view = GraphView(
        chunks, facts, fact_chunk, weight, tables["facts"]["statement"][fact_order], spellings[kept], is_address, names,
        np.where(is_name, entity[name_spelling], -1), mentions, subjects, incidence,
    )  # fmt: skip
    return with_edits(view, tables, edits), Decisions(
        spellings, name_spelling, named, common, word_chunks, title, *all_lower, linked_fact, linked_spelling,
        np.where(alive, representative, -1), similar,
    )  # fmt: skip


def _words(
    tables: Tables, spelling: Index, gram: Index, fact_chunk: Index, fact_at: Positions, spellings: int
) -> tuple[npt.NDArray[np.bool_], Index]:
    """Return whether each spelling is one word, and how many chunks have this word in lower case.

    ``spelling`` and ``gram`` are the grams of names.
    """
    pairs, single = word_pairs(tables["fact_grams"]["gram"]), is_word(gram)
    chunk = fact_chunk[fact_at(tables["fact_grams"]["fact"][pairs])]
    counts = chunks_in_lower_case(spelling[single], gram[single], chunk, tables["fact_grams"]["gram"][pairs], spellings)
    return _flags(spellings, spelling[single]), counts


def _flags(size: int, positions: Index) -> npt.NDArray[np.bool_]:
    """Return an array that is true at some positions."""
    flags = np.zeros(size, np.bool_)
    flags[positions] = True
    return flags


def _known_spellings(numbers: Sequence[int], spellings: Index, alive: npt.NDArray[np.bool_]) -> Index:
    """Return the positions of those spellings that are names."""
    wanted = np.array(numbers, np.int64)
    if len(spellings) == 0:
        return np.empty(0, np.int64)
    place = np.minimum(np.searchsorted(spellings, wanted), len(spellings) - 1)
    found: Index = place[(spellings[place] == wanted) & alive[place]]
    return found


def edge_facts(tables: Tables) -> Keys:
    """Return the keys of the facts that explicit edges state."""
    marks = tables["names"]["key"][tables["names"]["entity"] == _EDGE]
    if len(marks) == 0:
        return np.empty(0, np.int64)
    return np.unique(tables["fact_names"]["fact"][np.isin(tables["fact_names"]["name"], marks)]).astype(np.int64)


def _titles_of_addresses(
    chunk: Index, spelling: Index, subject: npt.NDArray[np.bool_], is_address: npt.NDArray[np.bool_], chunks: int
) -> Index:
    """Return for each address the spelling that is the title of its chunks and of no others; -1 if there is none.

    ``chunk``, ``spelling`` and ``subject`` are the mentions, those of a chunk in their order.
    """
    rows = np.flatnonzero(subject & ~is_address[spelling])
    titled, first = np.unique(chunk[rows], return_index=True)
    title = np.full(chunks, -1, np.int64)
    title[titled] = spelling[rows[first]]
    size = len(is_address)
    uses = np.bincount(title[titled], minlength=size)
    rows = np.flatnonzero(subject & is_address[spelling])
    lowest, highest = np.full(size, size), np.full(size, -1)
    np.minimum.at(lowest, spelling[rows], title[chunk[rows]])
    np.maximum.at(highest, spelling[rows], title[chunk[rows]])
    count = np.bincount(spelling[rows], minlength=size)
    alone = (lowest == highest) & (highest >= 0)
    alone[alone] = uses[highest[alone]] == count[alone]
    found: Index = np.where(alone, highest, -1)
    return found


def with_edits(view: GraphView, tables: Tables, edits: GraphEdits = _NO_EDITS) -> GraphView:
    """Return a view without deleted relations and edges whose other end is not there, and with what edits show."""
    if edits.text:
        order = np.argsort(tables["names"]["key"], kind="stable")
        spelling = tables["names"]["entity"][order]

        def find(numbers: Sequence[int]) -> dict[int, int]:
            found = {number: entity_of(number, spelling, view.name_entity) for number in numbers}
            return {number: entity for number, entity in found.items() if entity >= 0}

        shown, new_names = edited(edits, find)
        view = replace(view, shown=shown, new_names=new_names)
    of_edges = edge_facts(tables)
    gone = np.empty(0, np.int64)
    if edits.text:
        names = tables["names"]["key"][np.isin(tables["names"]["entity"], np.array(edits.deleted(), np.int64))]
        of_deleted = tables["fact_names"]["fact"][np.isin(tables["fact_names"]["name"], names)]
        gone = np.union1d(
            edits.hidden(view.name_keys, view.name_entity, spelling, view.fact_keys, view.incidence),
            np.intersect1d(tables["facts"]["key"][tables["facts"]["triple"]], of_deleted),  # they lack an end
        )
    if len(of_edges) + len(gone) == 0:
        return view
    sizes = np.diff(view.incidence.indptr)
    hidden = np.isin(view.fact_keys, of_edges) & (sizes < 2) | np.isin(view.fact_keys, gone)
    kept = ~np.repeat(hidden, sizes)
    indptr = np.concatenate([[0], np.cumsum(np.where(hidden, 0, sizes))]).astype(view.incidence.indptr.dtype)
    parts = view.incidence.data[kept], view.incidence.indices[kept], indptr
    return replace(view, hidden=hidden, incidence=csr_array(parts, shape=view.incidence.shape))


def _resolve_edited(
    aliases: Pairs,
    similar: Pairs,
    mentions: Index,
    spellings: Index,
    alive: npt.NDArray[np.bool_],
    edits: GraphEdits,
) -> tuple[Index, npt.NDArray[np.bool_]]:
    """Return for each spelling the one that represents its entity, as :func:`resolve`, and which are names.

    Spellings that were merged are one entity; those of a deleted entity are no names.
    """
    if not edits.text:
        return resolve(aliases, similar, mentions, spellings), alive
    merged = [_known_spellings(group, spellings, alive) for group in edits.groups()]
    pairs = [similar, *((group[:-1], group[1:]) for group in merged)]
    first, second = (np.concatenate(ends) for ends in zip(*pairs, strict=True))
    representative = resolve(aliases, (first, second), mentions, spellings)
    for group in merged:
        if len(group) > 1:
            representative[representative == representative[group[0]]] = group[0]
    if len(deleted := _known_spellings(edits.deleted(), spellings, alive)):
        alive = alive & ~np.isin(representative, representative[deleted])
    return representative, alive


def resolve(aliases: Pairs, similar: Pairs, mentions: Index, ids: Index) -> Index:
    """Return for each spelling the one that represents its entity.

    Nothing is merged for good: this is computed from the rows of the moment. A short name is
    an alias of its long name unless another chunk gives it another long name: "AMA", the medical
    and the marketing association, stays on its own. A group is represented by its long name; by
    the one with the most mentions, then with the smallest id, if it has several or none.
    """
    size = len(ids)
    short, long = aliases[0][aliases[0] != aliases[1]], aliases[1][aliases[0] != aliases[1]]
    if size:
        short, long = np.divmod(distinct(short * size + long), size)
        unambiguous = np.bincount(short, minlength=size)[short] == 1
        short, long = short[unambiguous], long[unambiguous]
    if len(short) + len(similar[0]) == 0:
        return np.arange(size)
    ends = np.concatenate([short, similar[0]]), np.concatenate([long, similar[1]])
    graph = coo_array((np.ones(len(ends[0])), ends), shape=(size, size))
    count, group = connected_components(graph, directed=False)
    is_short = np.zeros(size, np.bool_)
    is_short[short] = True
    order = np.lexsort((ids, -mentions, is_short, group))
    first = np.flatnonzero(np.r_[True, np.diff(group[order]) > 0])
    representative = np.empty(count, np.int64)
    representative[group[order[first]]] = order[first]
    found: Index = representative[group]
    return found


def positions(keys: Keys) -> Positions:
    """Return a function from existing keys to their positions."""
    if len(keys) == 0 or keys[0] < 0 or keys[-1] >= _MOST_SPARSE * len(keys):
        return lambda wanted: np.searchsorted(keys, wanted)
    table = np.zeros(int(keys[-1]) + 1, np.int64)
    table[keys] = np.arange(len(keys))
    return lambda wanted: table[wanted]


def _binary(rows: Index, columns: Index, shape: tuple[int, int]) -> csr_array:
    # 32-bit indices and 8-bit data: a third of the memory of SciPy's defaults.
    matrix = csr_array((np.ones(len(rows), np.int8), (rows.astype(np.int32), columns.astype(np.int32))), shape=shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


def _links(incidence: csr_array, weight: npt.NDArray[np.float32]) -> csr_array:
    sizes = np.diff(incidence.indptr)
    few = np.flatnonzero(sizes <= MOST_LINKED)  # a long line without an end would link all its names
    incidence, sizes, strength = incidence[few], sizes[few], (weight[few] / 10).astype(np.float32)
    weighted = incidence.copy()
    weighted.data = weighted.data * np.repeat(strength, sizes)
    # Rounded sums in double precision do not depend on the order of the terms.
    links = (incidence.astype(np.float64).T @ weighted.astype(np.float64)).tocsr()
    links.setdiag(0)
    links.data[np.round(links.data, 6) == 0] = 0
    links.eliminate_zeros()
    links.sort_indices()
    return links


def _lowercase_mentions(
    tables: Tables, facts: int, fact_at: Positions, gram_spelling: Index, name_gram: Index
) -> Pairs:
    """Return pairs of a spelling and a fact whose text has every gram of the spelling."""
    # The grams of a spelling, once: its names have the same.
    order = np.lexsort((name_gram, gram_spelling))
    owner, wanted = gram_spelling[order], name_gram[order]
    first = np.r_[True, (np.diff(owner) != 0) | (np.diff(wanted) != 0)][: len(owner)]
    owner, wanted = owner[first], wanted[first]

    # A Bloom filter drops most grams of facts, as few are part of any name.
    may_match = np.zeros(_BUCKETS, np.bool_)
    may_match[wanted % _BUCKETS] = True
    rows = np.flatnonzero(may_match[tables["fact_grams"]["gram"] % _BUCKETS])
    grams = tables["fact_grams"]["gram"][rows]
    order = np.argsort(grams, kind="stable")
    grams, fact = grams[order], tables["fact_grams"]["fact"][rows[order]]

    start = np.searchsorted(grams, wanted, "left")
    count = np.searchsorted(grams, wanted, "right") - start
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    fact = fact_at(fact[np.repeat(start, count) + within])
    hits = distinct(np.repeat(np.arange(len(wanted)), count) * max(facts, 1) + fact)  # a fact may repeat a gram
    gram, fact = np.divmod(hits, max(facts, 1))
    pairs, found = np.unique(owner[gram] * max(facts, 1) + fact, return_counts=True)
    name, fact = np.divmod(pairs, max(facts, 1))
    needed = np.bincount(owner)
    complete = found == needed[name] if len(name) else np.empty(0, np.bool_)
    return name[complete], fact[complete]
