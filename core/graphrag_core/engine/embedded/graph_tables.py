"""The rows of the graph as columns in memory: what a :class:`LiveGraph` is built from."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from graphrag_core.engine import analysis
from graphrag_core.engine.embedded.arrays import load_arrays, save_arrays
from graphrag_core.engine.embedded.schema import NAME_BYTES
from graphrag_core.engine.graph.edits import GraphEdits
from graphrag_core.engine.graph.live import LiveGraph
from graphrag_core.engine.graph.sparse import Growing, Pairs, Tables
from graphrag_core.engine.rows import ADDRESS, Row, statement_number
from graphrag_core.ports import Keys
from graphrag_core.text import EDGE, hash64, unwrap

Column = npt.NDArray[Any]

_FILE = "graph.arrays"
_STATE = "graph."  # starts the names of the arrays of the view
_EDGE = hash64(EDGE)
_KEY = np.int32
_TABLES: dict[str, dict[str, npt.DTypeLike]] = {
    "chunks": {"key": np.int64},
    "names": {"key": np.int64, "entity": np.int64, "is_address": np.bool_},
    "name_terms": {"name": _KEY, "term": np.uint32},
    "mentions": {"chunk": _KEY, "name": _KEY, "subject": np.bool_},
    "facts": {"key": np.int64, "chunk": _KEY, "weight": np.float32, "triple": np.bool_, "statement": np.uint32},
    "fact_names": {"fact": _KEY, "name": _KEY},
    "aliases": {"chunk": _KEY, "short": _KEY, "long": _KEY},
}
_BY_CHUNK = {"chunks": "key", "mentions": "chunk", "facts": "chunk", "aliases": "chunk"}
_FEW = 50  # chunks, whose change is always applied to the view
_SMALL = 0.05  # of all chunks: the share from which on it is cheaper to build the view again
_MOST_VOID = 0.25  # of all chunks: the share of removed ones from which on their rows are dropped


class GraphTables:
    """The rows of the graph, and the view of all or some of them.

    Rows are added and removed exactly, so the view after any sequence of changes is the view
    of a graph built from the remaining rows alone. ``name_terms`` are the hashes of the terms of names.
    """

    def __init__(self) -> None:
        self._tables = {
            table: _Table({name: Growing(np.empty(0, dtype)) for name, dtype in columns.items()})
            for table, columns in _TABLES.items()
        }
        self._similar: Pairs = (np.empty(0, np.int64), np.empty(0, np.int64))
        self._graph: LiveGraph | None = None
        self._loaded: Mapping[str, Growing] | None = None  # of the file, until the graph is first needed
        self._is_stale = True
        self._pending: list[tuple[Keys, Keys]] = []  # chunks and names that were removed since the view
        self._void: list[tuple[Keys, Keys]] = []  # all that were removed and of which the tables still have rows
        self._changed = 0  # chunks since the view
        self._edits = GraphEdits()
        self.mapped = False  # whether the view is one of a file, to which changes may have been applied

    def add(self, rows: Mapping[str, Sequence[Row]]) -> None:
        """Add rows of the database tables names, chunks, facts and aliases to the graph."""
        widths = {"names": 5, "chunks": 8, "facts": 18, "aliases": 3}
        columns_of = {table: tuple(zip(*rows.get(table, ()), strict=True)) or ((),) * n for table, n in widths.items()}
        name_keys, surfaces, norms, entities, _ = columns_of["names"]
        chunk_keys, _, _, _, _, texts, subjects, chunk_names = columns_of["chunks"]
        fact_keys, fact_chunks, _, starts, stops, own_texts, fact_names, relations, weights, *_ = columns_of["facts"]
        alias_chunk, short, long = columns_of["aliases"]
        chunks, facts, names = (np.array(keys, np.int64) for keys in (chunk_keys, fact_keys, name_keys))
        of_terms, name_term = analysis.terms_of_names(norms)
        mentioned, mention_chunk, place = _unpacked(chunk_names)
        fact_named, fact_at, _ = _unpacked(fact_names)
        unwrapped = dict(zip(chunk_keys, map(unwrap, texts), strict=True))
        fact_texts = [
            text or (unwrapped[chunk][start:stop] if start is not None else "")
            for text, chunk, start, stop in zip(own_texts, fact_chunks, starts, stops, strict=True)
        ]
        added: dict[str, tuple[Column | Sequence[Any], ...]] = {
            "chunks": (chunks,),
            "names": (names, entities, [surface.startswith(ADDRESS) for surface in surfaces]),
            "name_terms": (names[of_terms], name_term),
            "mentions": (chunks[mention_chunk], mentioned, place < np.array(subjects, np.int64)[mention_chunk]),
            "facts": (
                facts,
                fact_chunks,
                weights,
                [relation is not None for relation in relations],
                [*map(statement_number, fact_texts, relations, fact_names)],
            ),
            "fact_names": (facts[fact_at], fact_named),
            "aliases": (alias_chunk, short, long),
        }
        for table, columns in _TABLES.items():
            for (column, dtype), values in zip(columns.items(), added[table], strict=True):
                self._tables[table].columns[column].append(np.asarray(values, dtype))
        self._changed += len(chunks)
        self._is_stale = True

    def remove(self, chunks: Keys, names: Keys) -> None:
        """Remove chunks with their facts, mentions and aliases, and names that no chunk mentions."""
        self._pending.append((chunks, names))
        self._void.append((chunks, names))
        self._changed += len(chunks)
        self._is_stale = True

    def merge(self, pairs: Pairs) -> None:
        """Treat pairs of names, given by key, as one entity. Replaces all earlier pairs."""
        self._similar = pairs
        self._drop()

    def edit(self, edits: GraphEdits, *, applied: bool = False) -> None:
        """Replace all edits. ``applied`` says that the saved graph already includes them."""
        if edits.text == self._edits.text:
            return
        self._edits = edits
        if not applied or self._loaded is None:
            self._drop()

    def _drop(self) -> None:
        """Let the graph be built again."""
        self._graph, self._loaded, self._is_stale, self.mapped = None, None, True, False

    def __len__(self) -> int:
        """Return the number of chunks, removed ones included as long as there are rows of them."""
        return len(self._tables["chunks"]["key"])

    @property
    def chunk_keys(self) -> Keys:
        """The keys of all chunks, in ascending order."""
        return np.sort(self._there()["chunks"]["key"])

    @property
    def stale(self) -> bool:
        """Whether the view does not have all changes yet."""
        return self._is_stale

    @property
    def graph(self) -> LiveGraph:
        """The graph of all rows. A small change is applied to the one before, if there are no edits and the like."""
        if not self._is_stale and self._graph is not None:
            return self._graph
        graph, self._graph = self._graph, None  # lost if anything fails, and built again
        size = len(self)
        void = sum(len(chunks) for chunks, _ in self._void)
        may_live = not (self._edits.text or len(self._similar[0]) or (self._tables["names"]["entity"] == _EDGE).any())
        may_live &= self._changed <= max(_FEW, _SMALL * size) and void <= max(_FEW, _MOST_VOID * size)
        if graph is None and self._loaded is not None and (may_live or not self._is_stale):
            sizes, loaded = self._loaded_sizes, self._loaded
            graph = LiveGraph.load({name: table.first(sizes[name]) for name, table in self._tables.items()}, loaded)
            graph.attach(self._tables)
            graph.show(self._edits)
        if not self._is_stale and graph is not None:
            self._graph = graph
        elif graph is not None and may_live:
            removed = [np.concatenate(keys) for keys in zip(*self._pending, strict=True)] or [np.empty(0, np.int64)] * 2
            graph.update(*removed)
            self._graph = graph
        else:
            self._drop_void()
            self.mapped = False
            self._graph = LiveGraph.build(self._tables, self._similar, self._edits)
        self._pending, self._changed, self._is_stale, self._loaded = [], 0, False, None
        return self._graph

    def _kept(self) -> dict[str, Keys | None]:
        """Return the rows of each table that are not those of removed chunks and names; None for all."""
        if not self._void:
            return dict.fromkeys(self._tables)
        chunks, names = (np.concatenate(keys) for keys in zip(*self._void, strict=True))
        tables = self._tables
        facts = tables["facts"]["key"][np.isin(tables["facts"]["chunk"], chunks)]
        removed = {table: np.isin(tables[table][column], chunks) for table, column in _BY_CHUNK.items()}
        removed["fact_names"] = np.isin(tables["fact_names"]["fact"], facts)
        removed["names"] = np.isin(tables["names"]["key"], names)
        removed["name_terms"] = np.isin(tables["name_terms"]["name"], names)
        return {table: np.flatnonzero(~removed[table]) for table in tables}

    def _there(self) -> Tables:
        """Return the tables without the rows of removed chunks and names."""
        kept = self._kept()
        return {
            table: {name: array if (rows := kept[table]) is None else array[rows] for name, array in columns.items()}
            for table, columns in self._tables.items()
        }

    def _drop_void(self) -> None:
        """Remove the rows of removed chunks and names from the tables."""
        if self._void:
            for table, columns in self._there().items():
                self._tables[table].columns = {name: Growing(array) for name, array in columns.items()}
        self._void = []

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        rows = sum(column.nbytes for table in self._tables.values() for column in table.columns.values())
        return rows + (self._graph.nbytes if self._graph else 0)

    def save(self, folder: Path) -> None:
        """Write the rows and the view into an empty folder."""
        graph = self.graph  # which may drop rows of the tables
        rows = {
            f"{table}.{column}": array for table, columns in self._there().items() for column, array in columns.items()
        }
        state = {f"{_STATE}{name}": array for name, array in graph.state(self._kept()).items()}
        save_arrays(folder / _FILE, {**rows, **state})

    def load(self, folder: Path) -> None:
        """Map what :meth:`save` wrote; raise ``OSError`` or ``ValueError`` if it is damaged."""
        arrays = load_arrays(folder / _FILE)
        try:
            tables = {
                table: _Table({column: arrays[f"{table}.{column}"] for column in columns})
                for table, columns in _TABLES.items()
            }
        except KeyError as error:
            raise ValueError(f"{folder / _FILE} is damaged: {error}") from error
        for name, table in tables.items():
            if len({len(column) for column in table.columns.values()}) > 1:
                raise ValueError(f"{folder / _FILE} is damaged: the columns of {name!r} differ in length")
        self._tables = tables
        self._pending, self._void, self._changed = [], [], 0
        self._graph, self._is_stale, self.mapped = None, False, True
        self._loaded = {name[len(_STATE) :]: array for name, array in arrays.items() if name.startswith(_STATE)}
        self._loaded_sizes = {name: len(next(iter(table.columns.values()))) for name, table in tables.items()}


class _Table(Mapping[str, Column]):
    """The columns of a table, which grow."""

    def __init__(self, columns: dict[str, Growing]) -> None:
        self.columns = columns

    def __getitem__(self, name: str) -> Column:
        return self.columns[name].values

    def first(self, rows: int) -> dict[str, Column]:
        """Return the first rows."""
        return {name: column.values[:rows] for name, column in self.columns.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)


def _unpacked(lists: Sequence[bytes]) -> tuple[Keys, Keys, Keys]:
    """Return the keys of packed lists, and for each the list and the place in it."""
    sizes = np.fromiter(map(len, lists), np.int64, len(lists)) // NAME_BYTES
    owner = np.repeat(np.arange(len(lists)), sizes)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.frombuffer(b"".join(lists), "<i4").astype(np.int64), owner, place
