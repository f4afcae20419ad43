"""What questions have read of one generation and one scope of an index in PostgreSQL.

The rows of a generation never change: the questions of a process that see the same share what they have read until the
next write.
"""

from __future__ import annotations

import threading

import numpy as np

from graphrag_core.engine.graph.sparse import Array, Flags, Growing, Numbers, Pairs
from graphrag_core.engine.rows import Name
from graphrag_core.errors import DatabaseError
from graphrag_core.key_sets import distinct, ranges
from graphrag_core.ports import Keys, Matrix, Scores

MOST_NUMBERED = 1 << 22
"""Chunks that can be numbered. A query that reaches more is refused."""

_MOST_NODES = 300_000  # that are numbered,
_MOST_EDGES = 3_000_000  # and edges that are kept; with more, the next question starts with an empty cache
_NONE: Keys = np.empty(0, np.int64)


class Numbering:
    """Gives nodes small numbers, in the order in which they are seen; the nodes of one read by key.

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

    def of_entities(self, ids: Keys) -> Keys:
        """Return the numbers of entities, given by id."""
        with self._lock:
            return self.first_entity + self._entities.of(ids)

    def entities(self, numbers: Keys) -> Keys:
        """Return the ids of entities, given by number."""
        return self._entities.keys[np.asarray(numbers, np.int64) - self.first_entity]


class _Numbers:
    """Numbers from 0 for keys; ``keys`` has the key of each number."""

    def __init__(self) -> None:
        self.keys = self._sorted = self._places = _NONE

    def __len__(self) -> int:
        return len(self.keys)

    def of(self, keys: Keys) -> Keys:
        """Return the numbers of keys. New ones are numbered in ascending order: the order of rows may vary."""
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


class Edges:
    """The mentions of nodes that were read: targets and weights, and the total weight of each node.

    Threads share it. A node is there once its row is complete.
    """

    def __init__(self) -> None:
        self._place = Growing(np.zeros(0, np.int32))  # of the row of a node, counted from 1; 0 if it was not read
        self._starts, self._counts = Growing(np.zeros(1, np.int64)), Growing(np.zeros(1, np.int64))
        self._totals = Growing(np.zeros(1, np.float32))
        self._targets, self._weights = Growing(_NONE), Growing(np.empty(0, np.float32))
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._targets.values)

    def missing(self, nodes: Keys) -> Keys:
        """Return the nodes that were not read, each once and in order."""
        place = self._place.values
        known = nodes < len(place)
        known[known] = place[nodes[known]] > 0
        return distinct(nodes[~known])

    def add(self, nodes: Keys, owner: Numbers, targets: Keys, weights: Array, totals: Array) -> None:
        """Add the rows of nodes; ``owner`` are places of nodes, in order."""
        if len(nodes) == 0:
            return
        with self._lock:
            counts = np.bincount(owner, minlength=len(nodes))
            first = len(self._counts.values)
            self._starts.append(len(self._targets.values) + counts.cumsum() - counts)
            self._counts.append(counts)
            self._totals.append(totals)
            self._targets.append(targets)
            self._weights.append(weights)
            self._place.extend(max(int(nodes.max()) + 1 - len(self._place.values), 0))
            self._place.values[nodes] = np.arange(first, first + len(nodes))

    def gather(self, nodes: Keys) -> tuple[Keys, Keys, Scores, Scores]:
        """Return the rows of nodes, all of which were read: their lengths, targets, weights and totals."""
        place = self._place.values[nodes]
        counts = self._counts.values[place]
        at = ranges(self._starts.values[place], counts)
        return counts, self._targets.values[at], self._weights.values[at], self._totals.values[place]


class Values:
    """A number for each node, -1 if it is not known."""

    def __init__(self) -> None:
        self._values = np.empty(0, np.float32)
        self._lock = threading.Lock()

    def set(self, nodes: Keys, values: Array) -> None:
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


class Lists:
    """A list of keys for each key."""

    def __init__(self) -> None:
        self._rows: dict[int, Keys] = {}

    def missing(self, keys: Keys) -> Keys:
        """Return the keys whose lists were not read, each once and in order."""
        return np.array([key for key in distinct(keys).tolist() if key not in self._rows], np.int64)

    def add(self, keys: Keys, owners: Keys, values: Keys) -> None:
        """Keep the lists of keys, which are in ascending order; ``owners`` have the key of each value."""
        order = np.argsort(owners, kind="stable")
        owners, values = owners[order], values[order]
        first, last = owners.searchsorted(keys), owners.searchsorted(keys, "right")
        self._rows.update(
            (key, values[start:end])
            for key, start, end in zip(keys.tolist(), first.tolist(), last.tolist(), strict=True)
        )

    def get(self, keys: Keys) -> Pairs:
        """Return the lists of keys: how long each is, and all values."""
        rows = [self._rows[key] for key in keys.tolist()]
        return np.array([len(row) for row in rows], np.int64), np.concatenate([_NONE, *rows])


class Cache:
    """Rows that were read. ``chunk_count`` is the number of chunks that can be seen.

    Threads share it: whatever is in a mapping is complete. Nodes are known by their number in :attr:`numbering`, chunks
    besides by key where that is said; facts and names are known by key.
    """

    def __init__(self, chunk_count: int) -> None:
        self.numbering = Numbering(chunk_count)
        # Of chunks, by key.
        self.ids: dict[int, str] = {}
        self.documents: dict[int, int] = {}
        self.terms: dict[int, tuple[bytes, bytes, bytes]] = {}
        self.vectors: dict[int, Matrix] = {}
        self.facts_in: dict[int, Keys] = {}
        # Of nodes.
        self.edges = Edges()
        self.degrees, self.passages = Values(), Values()  # known mentions, and passages that mention an entity
        self.is_subject, self.is_address, self.exists = Values(), Values(), Values()  # 0 or 1
        self.names, self.facts_of = Lists(), Lists()
        self.found: dict[int, list[int]] = {}  # the entities that have an id as a name
        # Of names.
        self.name_rows: dict[int, Name] = {}
        self.claims: dict[int, list[tuple[int, str, str]]] = {}  # types and descriptions, with the name
        # Of facts.
        self.columns: dict[int, tuple[float, int]] = {}  # weight and statement
        self.fact_entities = Lists()
        self.fact_vectors: dict[int, Matrix] = {}

    def keep_entities(self, ids: Keys, passages: Keys, subject: Flags, is_address: Flags, exists: Flags) -> None:
        """Keep what was read of entities."""
        numbers = self.numbering.of_entities(ids)
        for values, column in (
            (self.passages, passages), (self.is_subject, subject), (self.is_address, is_address), (self.exists, exists),
        ):  # fmt: skip
            values.set(numbers, column)

    @property
    def is_full(self) -> bool:
        """Whether so much was read that its memory is released."""
        return self.numbering.node_count > _MOST_NODES or len(self.edges) > _MOST_EDGES
