"""What is counted of an entity, and whether it exists.

What is counted is a sum over documents, so a document that comes or goes never changes what is stored of another.
Whether an entity exists is decided when it is read.
"""

from __future__ import annotations

import numpy as np

from graphrag_core.engine.arrays import Array, Flags, Numbers
from graphrag_core.key_sets import distinct
from graphrag_core.text import EDGE, hash64

Pairs = tuple[Numbers, Numbers]
"""The number of values of each row, and the values."""

EDGE_ID = hash64(EDGE)
"""The id of the entity that every explicit edge holds."""

COUNTERS = ("passages", "subjects", "titled", "headings", "triples")
"""The passages that mention an entity, and those that are about it; the documents that have it in their title; under
how many titles of documents it is a heading; and the triples that hold it."""

_MOST_TITLES = 4  # a heading under this many titles is generic, unless the text mentions it

SUBJECT, IN_TITLE, AGAIN = 1, 2, 4
"""Flags of a mention: the passage is about it; the title of its document names it; an earlier name has its entity."""

NAME_BITS, PASSAGE_BITS = 3, 2
"""Bits of the flags in a mention of a passage, and in a passage of an entity, which has no ``AGAIN``."""


def usage(
    document: Numbers, passage: Numbers, entity: Numbers, flags: Array, is_address: Flags, in_triples: Numbers
) -> tuple[Numbers, Numbers]:
    """Count how documents use entities, given all their mentions, each entity once in a passage.

    ``in_triples`` are the entities of their triples, each once for each triple. Returns the entities, ascending, and a
    row of ``COUNTERS`` for each. The title of a passage is its first subject that is not an address.
    """
    ids = distinct(entity, in_triples)
    at, size = ids.searchsorted(entity), len(ids)
    subject, in_title = flags & SUBJECT > 0, flags & IN_TITLE > 0
    titled = np.flatnonzero(in_title)
    headed = np.flatnonzero(subject & ~is_address)
    heading, owner = at[headed], passage[headed]
    opens = np.ones(len(headed), np.bool_)
    opens[1:] = owner[1:] != owner[:-1]
    title = heading[opens][opens.cumsum() - 1] if len(headed) else heading
    below = (heading != title) & ~in_title[headed]
    _, pair = np.unique(heading[below] * size + title[below], return_inverse=True)
    counts = (
        at, at[subject], at[titled[once(document[titled], at[titled])]],
        heading[below][once(document[headed][below], pair)], ids.searchsorted(in_triples),
    )  # fmt: skip
    return ids, np.array([np.bincount(own, minlength=size) for own in counts], np.int64).reshape(len(counts), size).T


def exist(counters: Array, is_address: Flags) -> Flags:
    """Return which entities exist for questions, given a row of counters for each.

    - An address exists if some passage has it as its subject.
    - A heading does not if it stands under many titles and the text hardly speaks of it, unless a triple holds it.
    """
    passages, subjects, titled, headings, triples = counters.T
    under = headings + (titled > 0)
    generic = (under >= _MOST_TITLES) & (passages - subjects < under) & (triples == 0)
    found: Flags = np.where(is_address, subjects > 0, (passages > 0) & ~generic)
    return found


def once(owners: Numbers, values: Numbers) -> Flags:
    """Return which pairs of an owner and a value are the first of their kind.

    >>> once(np.array([0, 0, 1, 0]), np.array([5, 6, 5, 5])).tolist()
    [True, True, True, False]
    """
    width = int(values.max(initial=0)) + 1
    first = np.zeros(len(owners), np.bool_)
    first[np.unique(owners * width + values, return_index=True)[1]] = True
    return first


def kept_rows(counts: Numbers, kept: Flags) -> Numbers:
    """Return the lengths of rows of which only some entries are kept."""
    return np.bincount(np.arange(len(counts)).repeat(counts)[kept], minlength=len(counts))
