"""What questions have read of one generation of an index in PostgreSQL.

The rows of a generation never change: the questions of a process share what they have read until the next write, unless
they have a scope.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np

from graphrag_core.engine.graph.snapshot import Flags, Name
from graphrag_core.errors import DatabaseError
from graphrag_core.key_sets import distinct
from graphrag_core.ports import Keys, Matrix, Scores

MOST_NUMBERED = 1 << 22
"""Chunks that can be numbered. A query that reaches more is refused."""

Edges = tuple[Keys, Scores, np.float32]
"""The neighbours of a node, the weights of the edges, and their total."""

_MOST_NODES = 300_000  # that are numbered,
_MOST_EDGES = 3_000_000  # and edges that are kept: from which on the next question begins anew
_NONE: Keys = np.empty(0, np.int64)


def groups(owners: Keys) -> Iterator[tuple[int, int, int]]:
    """Yield each owner, and where its rows begin and end. Those of an owner are next to each other.

    >>> list(groups(np.array([7, 7, 3])))
    [(7, 0, 2), (3, 2, 3)]
    """
    if len(owners) == 0:
        return iter(())
    starts = np.flatnonzero(np.concatenate([[True], owners[1:] != owners[:-1]]))
    ends = [*starts[1:].tolist(), len(owners)]
    return zip(owners[starts].tolist(), starts.tolist(), ends, strict=True)


class Numbering:
    """Gives nodes small numbers, in the order in which they are seen, those of one read by key.

    Chunks are numbered from 0, entities from ``first_entity``. Facts keep their keys.
    """

    def __init__(self, chunk_count: int) -> None:
        self.first_entity = min(chunk_count, MOST_NUMBERED)
        self._chunks, self._entities = _Numbers(), _Numbers()
        self._lock = threading.Lock()

    @property
    def node_limit(self) -> int:
        """All numbers given so far are below this one."""
        return self.first_entity + len(self._entities)

    @property
    def node_count(self) -> int:
        """How many nodes have a number."""
        return len(self._chunks) + len(self._entities)

    def of_chunks(self, keys: Keys) -> Keys:
        """Return the numbers of chunks, given by key."""
        with self._lock:
            numbers = self._chunks.of(keys)
        if len(self._chunks) > self.first_entity:
            raise DatabaseError(
                f"the query reached more than {self.first_entity:,} passages: ask for less, or narrow it with a filter"
            )
        return numbers

    def chunks(self, numbers: Keys) -> Keys:
        """Return the keys of chunks, given by number."""
        return self._chunks.keys[numbers]

    def of_entities(self, spellings: Keys) -> Keys:
        """Return the numbers of entities, given by the spelling that represents each."""
        with self._lock:
            return self.first_entity + self._entities.of(spellings)

    def of_nodes(self, keys: Keys, are_chunks: Flags) -> Keys:
        """Return the numbers of chunks and entities, given by key and by what they are."""
        numbers = np.empty(len(keys), np.int64)
        numbers[are_chunks], numbers[~are_chunks] = (
            self.of_chunks(keys[are_chunks]),
            self.of_entities(keys[~are_chunks]),
        )
        return numbers

    def entities(self, numbers: Keys) -> Keys:
        """Return the spellings that represent entities, given by number."""
        return self._entities.keys[np.asarray(numbers, np.int64) - self.first_entity]


class _Numbers:
    """Numbers from 0 for keys; ``keys`` has the key of each number."""

    def __init__(self) -> None:
        self.keys = self._sorted = self._places = _NONE

    def __len__(self) -> int:
        return len(self.keys)

    def of(self, keys: Keys) -> Keys:
        """Return the numbers of keys. New ones get the next in their order: that of a statement's rows may vary."""
        place = self._sorted.searchsorted(keys)
        new = np.ones(len(keys), np.bool_)
        inside = place < len(self._sorted)
        new[inside] = self._sorted[place[inside]] != keys[inside]
        if new.any():
            added = distinct(keys[new])
            at = self._sorted.searchsorted(added)
            self._sorted = np.insert(self._sorted, at, added)
            self._places = np.insert(self._places, at, np.arange(len(self), len(self) + len(added)))
            self.keys = np.concatenate([self.keys, added])
            place = self._sorted.searchsorted(keys)
        return self._places[place]


class _Values:
    """A number for each node, -1 if it is not known."""

    def __init__(self) -> None:
        self._values = np.empty(0, np.float32)
        self._lock = threading.Lock()

    def set(self, nodes: Keys, values: Keys) -> None:
        """Set the values of nodes."""
        if len(nodes) == 0:
            return
        with self._lock:
            if (last := int(nodes.max())) >= len(self._values):
                room = np.full(last + 1 + last // 2 - len(self._values), -1, np.float32)
                self._values = np.concatenate([self._values, room])
            self._values[nodes] = values

    def of(self, nodes: Keys) -> Scores:
        """Return the values of nodes."""
        found, values = np.full(len(nodes), -1, np.float32), self._values
        known = nodes < len(values)
        found[known] = values[nodes[known]]
        return found


class Seen:
    """Rows that were read. ``chunk_count`` is the number of chunks that can be seen.

    Threads share it: whatever is in a mapping is complete.
    Nodes are known by their number in :attr:`numbering`, chunks besides by key where that is said; facts, names and
    spellings are known by key.
    """

    def __init__(self, chunk_count: int) -> None:
        self.numbering = Numbering(chunk_count)
        self.edge_count = 0
        # Of chunks, by key.
        self.ids: dict[int, str] = {}
        self.terms: dict[int, tuple[bytes, bytes]] = {}
        self.vectors: dict[int, Matrix] = {}
        self.facts_in: dict[int, Keys] = {}
        # Of nodes.
        self.chunk_edges: dict[int, Edges] = {}
        self.walked: dict[int, Edges] = {}
        self.degrees = _Values()
        self.counts: dict[int, tuple[int, bool]] = {}  # chunks that mention an entity, and whether one is about it
        self.addresses: dict[int, bool] = {}
        self.names: dict[int, Keys] = {}
        self.facts_of: dict[int, Keys] = {}
        self.spelt: dict[int, int] = {}  # the entities of spellings, -1 for none
        # Of names.
        self.name_rows: dict[int, Name] = {}
        self.claims: dict[int, list[tuple[int, str, str]]] = {}  # types and descriptions, with the name
        # Of facts.
        self.columns: dict[int, tuple[float, int]] = {}  # weight and statement
        self.fact_entities: dict[int, Keys] = {}
        self.fact_vectors: dict[int, Matrix] = {}

    def keep_entities(self, entities: Keys, chunks: Keys, subject: Flags, address: Flags) -> None:
        """Keep rows of entities."""
        numbers = self.numbering.of_entities(entities)
        self.degrees.set(numbers, chunks)
        listed = numbers.tolist()
        self.counts.update(zip(listed, zip(chunks.tolist(), subject.tolist(), strict=True), strict=True))
        self.addresses.update(zip(listed, address.tolist(), strict=True))

    @property
    def is_full(self) -> bool:
        """Whether so much was read that its memory is released."""
        return self.numbering.node_count > _MOST_NODES or self.edge_count > _MOST_EDGES
