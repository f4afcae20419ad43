"""Which entities the first view of the explorer shows: those that many facts join, without titles and menu words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from graphrag_core.model import Entity
from graphrag_core.text import FUNCTION, normalise

if TYPE_CHECKING:
    from graphrag_core.engine.snapshot import Snapshot

_MOST_RANKED = 2_000  # of the most mentioned entities, for the start page
_FIRST_RANKED = 400  # of these, for which it is looked up whether they are sections
_FACTS_RANKED = 1_000  # of an entity


def joined_most(snapshot: Snapshot) -> list[Entity]:
    """Return entities by the number of facts that join them to others, without sections.

    Only facts of passages that are about something else count: a title or a menu word joins whatever stands below it.
    What is said again, as in the footers of pages, counts once.
    """
    keys = snapshot.top_entities(_MOST_RANKED)
    counts, facts = snapshot.graph.facts_of(keys, _FACTS_RANKED)
    every = np.unique(facts)
    rows, said = snapshot.fact_rows(every), np.zeros(len(every), np.bool_)
    said[snapshot.first_said(every)] = True
    at, owner = every.searchsorted(facts), np.arange(len(keys)).repeat(counts)
    passages = snapshot.neighbours(keys, to="chunks")
    about = passages.weights > 1
    pairs = np.arange(len(keys)).repeat(passages.counts)[about] << 40 | passages.targets[about]
    joins = said[at] & (rows.counts[at] > 1) & ~np.isin(owner << 40 | rows.chunks[at], pairs)
    order = np.argsort(-np.bincount(owner[joins], minlength=len(keys)), kind="stable")
    entities = snapshot.entities(keys[order])
    sections = sections_among(snapshot, entities[:_FIRST_RANKED])
    return [entity for entity in entities if entity.id not in sections]


def sections_among(snapshot: Snapshot, entities: Sequence[Entity]) -> set[str]:
    """Return the ids of the entities that are sections: most of their passages are about them, as their headings.

    An entity that is no heading is one too if its name reads as a heading.
    """
    sections = {entity.id for entity in entities if entity.id.startswith("→")}
    things = {entity.id: entity for entity in entities if entity.id not in sections}
    found = snapshot.find_entities(list(things))
    edges = snapshot.neighbours(np.array(list(found.values()), np.int64), to="chunks")
    owners = np.repeat(np.arange(len(found)), edges.counts)[edges.weights > 1]
    mostly = 2 * np.bincount(owners, minlength=len(found)) > edges.counts
    firsts = dict(zip(owners[::-1].tolist(), edges.targets[edges.weights > 1][::-1].tolist(), strict=True))
    read = [(entity_id, firsts[at]) for at, entity_id in enumerate(found) if mostly[at]]
    chunks = snapshot.chunks(np.array([chunk for _, chunk in read], np.int64))
    for (entity_id, _), chunk in zip(read, chunks, strict=True):
        headings = set(map(normalise, chunk.headings)) - {normalise(chunk.title)}
        if entity_id in headings or _reads_as_heading(things[entity_id].name):
            sections.add(entity_id)
    return sections


def _reads_as_heading(name: str) -> bool:
    """Return whether a name of several words has a word that a title would capitalise, in lower case.

    >>> [_reads_as_heading(name) for name in ("Gone with the Wind", "Maintenance note of 3 February", "keyring")]
    [False, True, False]
    """
    words = name.partition(" (")[0].split()
    return len(words) > 1 and any(word.islower() and word not in FUNCTION for word in words)
