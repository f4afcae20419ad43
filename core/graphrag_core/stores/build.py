"""From the rows of a graph to the matrices that queries run on, in one go."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from graphrag_core.ports import Keys
from graphrag_core.stores.columns import Columns
from graphrag_core.stores.resolve import Pairs, resolve
from graphrag_core.stores.view import GraphView, Index

Places = Callable[[npt.NDArray[Any]], Index]
"""From keys to positions."""

_MOST_JOINED = 64  # a fact of more entities than this is a list, no evidence that they belong together
_MOST_SPARSE = 8  # keys there ever were for each that is left: beyond, a table of all would waste memory
_BUCKETS = (1 << 20) - 3  # of grams, to tell most that no name has; a prime


def build_view(tables: Mapping[str, Columns], similar: Pairs) -> GraphView:
    """Return the view of a graph's rows: a function of the rows alone, whatever their order."""
    chunks, facts, names = (np.sort(tables[t]["key"]).astype(np.int64) for t in ("chunks", "facts", "names"))
    name_order = np.argsort(tables["names"]["key"], kind="stable")
    spellings, name_spelling = np.unique(tables["names"]["entity"][name_order], return_inverse=True)
    chunk_place, fact_place, name_place = map(_places, (chunks, facts, names))
    fact_order = np.argsort(tables["facts"]["key"], kind="stable")
    fact_chunk = chunk_place(tables["facts"]["chunk"][fact_order])
    weight = tables["facts"]["weight"][fact_order]

    def spelling(keys: npt.NDArray[Any]) -> Index:
        return name_spelling[name_place(keys)]

    mention_chunk = chunk_place(tables["mentions"]["chunk"])
    mention_spelling = spelling(tables["mentions"]["name"])
    standing = resolve(
        len(spellings),
        (spelling(tables["aliases"]["short"]), spelling(tables["aliases"]["long"])),
        (spelling(similar[0]), spelling(similar[1])),
        np.bincount(mention_spelling, minlength=len(spellings)),
        spellings,
    )
    kept, entity = np.unique(standing, return_inverse=True)
    echo_spelling, echo_fact = _echoes(tables, len(facts), fact_place, spelling)

    subject = tables["mentions"]["subject"]
    mentions = _binary(
        np.concatenate([mention_chunk, fact_chunk[echo_fact]]),
        entity[np.concatenate([mention_spelling, echo_spelling])],
        (len(chunks), len(kept)),
    )
    subjects = _binary(mention_chunk[subject], entity[mention_spelling[subject]], mentions.shape)
    incidence = _binary(
        np.concatenate([fact_place(tables["fact_names"]["fact"]), echo_fact]),
        entity[np.concatenate([spelling(tables["fact_names"]["name"]), echo_spelling])],
        (len(facts), len(kept)),
    )
    return GraphView(
        chunks, facts, fact_chunk, weight, spellings[kept], names, entity[name_spelling],
        mentions, subjects, incidence, _links(incidence, weight),
    )  # fmt: skip


def _places(keys: Keys) -> Places:
    """Return a function from keys, all of which are there, to their places among all."""
    if len(keys) == 0 or keys[-1] >= _MOST_SPARSE * len(keys):
        return lambda wanted: np.searchsorted(keys, wanted)
    table = np.zeros(int(keys[-1]) + 1, np.int64)
    table[keys] = np.arange(len(keys))
    return lambda wanted: table[wanted]


def _binary(rows: Index, columns: Index, shape: tuple[int, int]) -> csr_array:
    # In a third of the memory that NumPy's own choice of types would take.
    places = rows.astype(np.int32), columns.astype(np.int32)
    matrix = csr_array((np.ones(len(rows), np.int8), places), shape=shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


def _links(incidence: csr_array, weight: npt.NDArray[np.float32]) -> csr_array:
    sizes = np.diff(incidence.indptr)
    strength = np.where(sizes <= _MOST_JOINED, weight / 10, 0).astype(np.float32)
    weighted = incidence.copy()
    weighted.data = weighted.data * np.repeat(strength, sizes)
    # In double precision sums of the same terms are the same whatever their order, once rounded.
    links = (incidence.astype(np.float64).T @ weighted.astype(np.float64)).tocsr()
    links.setdiag(0)
    links.data = np.round(links.data, 6).astype(np.float32)
    links = links.astype(np.float32)
    links.eliminate_zeros()
    links.sort_indices()
    return links


def _echoes(tables: Mapping[str, Columns], facts: int, fact_place: Places, spelling: Places) -> Pairs:
    """Return pairs of a spelling and a fact whose words have every gram of the spelling."""
    names = np.sort(tables["names"]["key"])
    _, first = np.unique(spelling(names), return_index=True)  # names of one spelling have the same grams
    one_each = np.isin(tables["name_grams"]["name"], names[first])
    grams = np.column_stack([spelling(tables["name_grams"]["name"][one_each]), tables["name_grams"]["gram"][one_each]])
    fact, sorted_grams = _sorted_grams(tables["fact_grams"], grams[:, 1])
    first = np.searchsorted(sorted_grams, grams[:, 1], "left")
    count = np.searchsorted(sorted_grams, grams[:, 1], "right") - first
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    fact = fact_place(fact[np.repeat(first, count) + within])
    hits = np.unique(np.repeat(np.arange(len(grams)), count) * max(facts, 1) + fact)  # a gram may come twice
    gram, fact = np.divmod(hits, max(facts, 1))
    pairs, found = np.unique(grams[gram, 0] * max(facts, 1) + fact, return_counts=True)
    name, fact = np.divmod(pairs, max(facts, 1))
    needed = np.bincount(grams[:, 0])
    whole = found == needed[name] if len(name) else np.empty(0, np.bool_)
    return name[whole], fact[whole]


def _sorted_grams(table: Columns, wanted: Index) -> tuple[npt.NDArray[Any], Index]:
    """Return fact and gram of the rows that may have a wanted gram, ascending by gram; most rows have none."""
    may_be = np.zeros(_BUCKETS, np.bool_)
    may_be[wanted % _BUCKETS] = True
    rows = np.flatnonzero(may_be[table["gram"] % _BUCKETS])
    grams = table["gram"][rows]
    order = np.argsort(grams, kind="stable")
    return table["fact"][rows[order]], grams[order]
