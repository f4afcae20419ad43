"""The counters of an entity, and what follows from them.

Each is a sum over documents: a document that comes adds what it says, one that goes subtracts the same. Whether an
entity exists for questions is a function of its counters, evaluated when it is read. So a change of one document never
changes what is stored of another.
"""

from typing import NamedTuple

import numpy as np

from graphrag_core.engine.graph.sparse import Array, Flags, Numbers, once
from graphrag_core.key_sets import distinct

MENTION, SUBJECT = 1, 6
"""The weights of the edges between a chunk and what it mentions, or what it is about."""

COUNTERS = ("passages", "subjects", "titled", "headings", "triples")
"""The passages that mention an entity, and those that are about it; the documents that have it in their title; under
how many titles of documents it is a heading; and the triples that hold it."""

MOST_TITLES = 4
"""A heading under this many titles is generic, unless the text mentions it."""


class Mentions(NamedTuple):
    """The entities that chunks mention: chunk by chunk, each once, subjects first.

    ``subject``: the chunk is about the entity. ``in_title``: the title of its document names it.
    """

    document: Numbers
    chunk: Numbers
    entity: Numbers
    subject: Flags
    in_title: Flags
    is_address: Flags


def count(mentions: Mentions, in_triples: Numbers) -> tuple[Numbers, Numbers]:
    """Count how documents use entities. All mentions of the documents are given.

    ``in_triples`` are the entities of their triples, each once for each triple. Returns the entities in ascending
    order, and a row of ``COUNTERS`` for each. The title of a chunk is its first subject that is not an address.
    """
    ids = distinct(mentions.entity, in_triples)
    at, size = np.searchsorted(ids, mentions.entity), len(ids)
    titled = np.flatnonzero(mentions.in_title)
    headed = np.flatnonzero(mentions.subject & ~mentions.is_address)
    heading, chunk, document = at[headed], mentions.chunk[headed], mentions.document[headed]
    opens = np.ones(len(headed), np.bool_)
    opens[1:] = chunk[1:] != chunk[:-1]
    title = heading[opens][opens.cumsum() - 1] if len(headed) else heading
    below = (heading != title) & ~mentions.in_title[headed]
    _, pair = np.unique(heading[below] * size + title[below], return_inverse=True)
    counts = (
        at, at[mentions.subject], at[titled[once(mentions.document[titled], at[titled])]],
        heading[below][once(document[below], pair)], np.searchsorted(ids, in_triples),
    )  # fmt: skip
    return ids, np.array([np.bincount(each, minlength=size) for each in counts], np.int64).T


def exist(counters: Array, is_address: Flags) -> Flags:
    """Return which entities exist for questions, given a row of counters for each.

    - An address exists if some chunk has it as its subject.
    - A heading does not if it stands under many titles and the text hardly speaks of it, unless a triple holds it.
    """
    passages, subjects, titled, headings, triples = counters.T
    under = headings + (titled > 0)
    generic = (under >= MOST_TITLES) & (passages - subjects < under) & (triples == 0)
    found: Flags = np.where(is_address, subjects > 0, (passages > 0) & ~generic)
    return found
