"""Which names are entities, and which names are one entity.

What is a name was decided inside its source, by the extractor. Two things only all documents of the moment can say: an
address may lead nowhere, and "Parameters" is the heading of every page. That is part of the view, so it does not depend
on the order of additions, and a deletion or a scope changes it as if the other documents had never been added.
"""

import numpy as np

from graphrag_core.engine.graph.sparse import Flags, Numbers, Pairs
from graphrag_core.key_sets import distinct

_MOST_TITLES = 4  # a heading under so many titles is generic, unless the text speaks of it


def decided(is_address: Flags, spelling: Numbers, in_triple: Flags, counts: Numbers, under: Numbers) -> Flags:
    """Return which names are those of an entity.

    - An address is one if some chunk has it as its subject.
    - A heading is none if it stands under many titles and the text hardly speaks of it, unless a triple holds it.

    Parameters
    ----------
    is_address, spelling, in_triple
        Of each name; the spelling by place.
    counts, under
        Of each spelling: how many chunks use it in each of the ways
        :data:`~graphrag_core.engine.graph.change.COUNTS`, and under how many titles it is a heading.
    """
    subjects, spoken = counts
    generic = (under >= _MOST_TITLES) & (spoken < under)
    named: Flags = ~generic[spelling] | in_triple
    named[is_address] = subjects[spelling[is_address]] > 0
    return named


def titles(chunk: Numbers, spelling: Numbers, subject: Flags, is_address: Flags, chunks: int) -> Numbers:
    """Return the first subject of each chunk that is no address: its title, or its heading; -1 if it has none.

    ``chunk``, ``spelling``, ``subject`` and ``is_address`` are the mentions, those of a chunk in the order in which the
    extractor found them.
    """
    rows = np.flatnonzero(subject & ~is_address)
    _, first = np.unique(chunk[rows], return_index=True)
    title = np.full(chunks, -1, np.int64)
    title[chunk[rows[first]]] = spelling[rows[first]]
    return title


def unambiguous(short: Numbers, long: Numbers) -> Pairs:
    """Return the short names that stand for exactly one long name, and these.

    A short name is an alias of its long name unless another chunk gives it another long name: "AMA", the medical and
    the marketing association, stays on its own.
    """
    other = short != long
    numbers, place = np.unique(np.concatenate([short[other], long[other]]), return_inverse=True)
    ends = place.reshape(2, -1)
    size = max(len(numbers), 1)
    once = distinct(ends[0] * size + ends[1])
    alone = np.bincount(once // size, minlength=size)[once // size] == 1
    return numbers[once[alone] // size], numbers[once[alone] % size]


def resolve(aliases: Pairs, similar: Pairs, mentions: Numbers, ids: Numbers) -> Numbers:
    """Return for each spelling the one that represents its entity.

    Nothing is merged for good: this is computed from the rows of the moment. ``aliases`` are :func:`unambiguous`. A
    group is represented by its long name; by the one with the most mentions, then with the smallest id, if it has
    several or none.
    """
    size, (short, long) = len(ids), aliases
    if len(short) + len(similar[0]) == 0:
        return np.arange(size)
    ends = np.concatenate([short, similar[0]]), np.concatenate([long, similar[1]])
    group = _groups(ends, size)
    is_short = np.zeros(size, np.bool_)
    is_short[short] = True
    order = np.lexsort((ids, -mentions, is_short, group))
    first = np.flatnonzero(np.r_[True, np.diff(group[order]) > 0])
    representative = np.empty(size, np.int64)
    representative[group[order[first]]] = order[first]
    found: Numbers = representative[group]
    return found


def _groups(ends: Pairs, size: int) -> Numbers:
    """Return for each of ``size`` nodes the smallest one of its connected component. ``ends`` are those of the links.

    Of two linked groups the smaller number is passed to the other, in whole arrays, until nothing changes. scipy's
    function does the same; importing it takes longer than opening an index.
    """
    group = np.arange(size)
    while True:
        roots = group[ends[0]], group[ends[1]]
        smaller = group.copy()
        for root in roots:
            np.minimum.at(smaller, root, np.minimum(*roots))
        smaller = smaller[smaller]
        if np.array_equal(smaller, group):
            return group
        group = smaller
