"""Which names are entities: decided by how the documents of the moment use them.

The rows hold every name that an extractor found. Some are no names: "See" is capitalised because it
starts a sentence, "Parameters" is the heading of every page, and an address may lead nowhere. The
decision is part of the view, so it does not depend on the order of additions, and a deletion or a
scope changes it as if the other documents had never been added.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from graphrag_core.engine.graph.sparse import Flags, Numbers, Pairs
from graphrag_core.key_sets import distinct
from graphrag_core.text.lowercase_names import WORD_BITS

OTHER, WORD, CAPITALS, ADDRESS = 0, 1, 2, 3
"""Forms of a name: a word as any text may have it ("Session", "session"), a word in capitals, the address of a
section, and all others."""

NEVER, AS_SUBJECT, ALWAYS = 0, 1, 2
"""Whether a name is an entity's: not at all, only where it is a chunk's subject, or in every mention."""

_MOST_TITLES = 4  # a heading under so many titles is generic, unless the text speaks of it
_CAPITALS_FACTOR = 3  # a word in capitals is a name unless it is so many times as frequent in lower case


def name_form(surface: str, norm: str) -> int:
    """Return the form of a name.

    >>> [name_form(name, name.lower()) for name in ("Session", "session", "SELECT", "GraphView", "→a#b", "A B")]
    [1, 1, 2, 0, 3, 0]
    """
    if surface[:1] == "→":
        return ADDRESS
    if not (surface.isalpha() and norm.isalpha()):
        return OTHER
    return WORD if surface[1:].islower() else CAPITALS if surface.isupper() else OTHER


def decided(
    form: npt.NDArray[np.int8],
    spelling: Numbers,
    in_triple: Flags,
    counts: Mapping[str, Numbers],
    under: Numbers,
    lower: Numbers,
) -> tuple[npt.NDArray[np.int8], Flags]:
    """Return for each name whether it is an entity's, and for each spelling whether it is a common word.

    - An address is a name if some chunk has it.
    - A word is none if more chunks have it in lower case inside a sentence than mention it as a name,
      unless it is a title, or a triple holds it. As a heading or defined term it is one in that chunk alone.
    - A heading is none, in any form, if it stands under many titles and the text hardly speaks of it.

    Parameters
    ----------
    form, spelling, in_triple
        Of each name; the spelling by place.
    counts, under, lower
        Of each spelling: how many chunks use it in which way (see :class:`~graphrag_core.engine.graph.change.Uses`),
        under how many titles it is a heading, and how many chunks have it as a word in lower case.
    """
    common = np.zeros(len(lower), np.bool_)
    rare_in_capitals = common
    titled = counts["titled"] > 0
    spoken = np.where(
        rare_in_capitals, counts["spoken_others"], np.where(common, counts["spoken_names"], counts["spoken"])
    )
    generic = (under >= _MOST_TITLES) & (spoken < under)
    named = np.full(len(form), ALWAYS, np.int8)
    of_word = np.where(form == WORD, common[spelling], (form == CAPITALS) & rare_in_capitals[spelling])
    named[of_word & ~titled[spelling]] = AS_SUBJECT
    named[generic[spelling]] = NEVER
    named[in_triple] = ALWAYS
    address = form == ADDRESS
    named[address] = np.where(counts["subjects"][spelling[address]] > 0, ALWAYS, NEVER)
    return named, common & ~titled


def word_pairs(gram: Numbers) -> Flags:
    """Return which grams of facts are pairs of words."""
    found: Flags = (gram & ((1 << WORD_BITS) - 1) != 0) & (gram > 1 << WORD_BITS)
    return found


def words_of(pairs: Numbers) -> Pairs:
    """Return the words of pairs, by hash: of the first few bits are left (see ``graph_tables``), of the second all."""
    return pairs >> WORD_BITS, pairs & ((1 << WORD_BITS) - 1)


def is_word(gram: Numbers) -> Flags:
    """Return which grams of names are single words."""
    found: Flags = gram < 1 << WORD_BITS
    return found


def titles(chunk: Numbers, spelling: Numbers, subject: Flags, form: npt.NDArray[np.int8], chunks: int) -> Numbers:
    """Return the first subject of each chunk that is no address: its title, or its heading; -1 if it has none.

    ``chunk``, ``spelling``, ``subject`` and ``form`` are the mentions, those of a chunk in the order in which the
    extractor found them.
    """
    rows = np.flatnonzero(subject & (form != ADDRESS))
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
