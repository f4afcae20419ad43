"""The knowledge graph: what mentions what, and which facts join which entities."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from graphrag_core.ports import Keys
from graphrag_core.stores.build import build_view
from graphrag_core.stores.columns import Columns
from graphrag_core.stores.resolve import Pairs
from graphrag_core.stores.view import GraphView

Numbers = npt.NDArray[np.int64]
_KEY = np.int32
_FILE = "graph.npz"
_OF_CHUNK = {"chunks": "key", "mentions": "chunk", "facts": "chunk", "aliases": "chunk"}


@dataclass(frozen=True, slots=True)
class GraphPart:
    """Rows to add to a graph, in the keys of the records.

    ``name_entity`` numbers the entity of each name; ``name_gram`` and ``fact_gram`` are
    the hashes by which a fact's text is found to mention a name in lower case.
    ``alias`` holds chunk, short name and long name.
    """

    chunks: Keys
    names: Keys
    name_entity: Numbers
    name_gram: tuple[Keys, Numbers]
    mention: tuple[Keys, Keys, npt.NDArray[np.bool_]]
    facts: Keys
    fact_chunk: Keys
    fact_weight: npt.NDArray[np.float32]
    fact_name: tuple[Keys, Keys]
    fact_gram: tuple[Keys, Numbers]
    alias: tuple[Keys, Keys, Keys]


class IgraphGraph:
    """Keeps the graph's rows; builds the view that queries use when it is next asked for.

    Rows are added and taken out exactly, so the view after any sequence of changes is the
    view of a graph built from the surviving rows alone.
    """

    def __init__(self) -> None:
        self._chunks = Columns(key=_KEY)
        self._names = Columns(key=_KEY, entity=np.int64)
        self._name_grams = Columns(name=_KEY, gram=np.int64)
        self._mentions = Columns(chunk=_KEY, name=_KEY, subject=np.bool_)
        self._facts = Columns(key=_KEY, chunk=_KEY, weight=np.float32)
        self._fact_names = Columns(fact=_KEY, name=_KEY)
        self._fact_grams = Columns(fact=_KEY, gram=np.int64)
        self._aliases = Columns(chunk=_KEY, short=_KEY, long=_KEY)
        self._similar: Pairs = (np.empty(0, np.int64), np.empty(0, np.int64))
        self._view: GraphView | None = None

    @property
    def _tables(self) -> dict[str, Columns]:
        return {
            "chunks": self._chunks,
            "names": self._names,
            "name_grams": self._name_grams,
            "mentions": self._mentions,
            "facts": self._facts,
            "fact_names": self._fact_names,
            "fact_grams": self._fact_grams,
            "aliases": self._aliases,
        }

    @property
    def nbytes(self) -> int:
        """Bytes held in memory."""
        return sum(table.nbytes for table in self._tables.values()) + (self._view.nbytes if self._view else 0)

    @property
    def name_keys(self) -> Keys:
        """The keys of all names, ascending."""
        return self._names["key"].astype(np.int64)

    def add(self, part: GraphPart) -> None:
        """Add rows under new keys."""
        self._chunks.append(key=part.chunks)
        self._names.append(key=part.names, entity=part.name_entity)
        self._name_grams.append(name=part.name_gram[0], gram=part.name_gram[1])
        self._mentions.append(chunk=part.mention[0], name=part.mention[1], subject=part.mention[2])
        self._facts.append(key=part.facts, chunk=part.fact_chunk, weight=part.fact_weight)
        self._fact_names.append(fact=part.fact_name[0], name=part.fact_name[1])
        self._fact_grams.append(fact=part.fact_gram[0], gram=part.fact_gram[1])
        self._aliases.append(chunk=part.alias[0], short=part.alias[1], long=part.alias[2])
        self._view = None

    def remove(self, chunks: Keys, names: Keys) -> None:
        """Remove chunks with their facts and mentions, and names that nothing mentions now."""
        if len(chunks) == 0 and len(names) == 0:
            return
        facts = self._facts["key"][np.isin(self._facts["chunk"], chunks)]
        self._chunks.drop(np.isin(self._chunks["key"], chunks))
        self._mentions.drop(np.isin(self._mentions["chunk"], chunks))
        self._aliases.drop(np.isin(self._aliases["chunk"], chunks))
        self._facts.drop(np.isin(self._facts["chunk"], chunks))
        self._fact_names.drop(np.isin(self._fact_names["fact"], facts))
        self._fact_grams.drop(np.isin(self._fact_grams["fact"], facts))
        self._names.drop(np.isin(self._names["key"], names))
        self._name_grams.drop(np.isin(self._name_grams["name"], names))
        self._view = None

    def join_similar(self, pairs: Pairs) -> None:
        """Take pairs of names for the same entity, in place of all pairs taken so before."""
        self._similar = pairs
        self._view = None

    @property
    def stale(self) -> bool:
        """Whether the view has to be built anew."""
        return self._view is None

    @property
    def view(self) -> GraphView:
        """The graph to traverse and rank on."""
        if self._view is None:
            self._view = build_view(self._tables, self._similar)
        return self._view

    def restricted(self, chunks: Keys) -> GraphView:
        """Return the view of some chunks alone, as if there were no others.

        Names, aliases and lower-case mentions count only as far as these chunks give them.
        """
        inside = {name: np.isin(self._tables[name][column], chunks) for name, column in _OF_CHUNK.items()}
        facts = self._facts["key"][inside["facts"]]
        names = np.unique(self._mentions["name"][inside["mentions"]])
        inside |= {name: np.isin(self._tables[name]["fact"], facts) for name in ("fact_names", "fact_grams")}
        inside["names"] = np.isin(self._names["key"], names)
        inside["name_grams"] = np.isin(self._name_grams["name"], names)
        similar = np.isin(self._similar[0], names) & np.isin(self._similar[1], names)
        tables = {name: table.where(inside[name]) for name, table in self._tables.items()}
        return build_view(tables, (self._similar[0][similar], self._similar[1][similar]))

    def save(self, folder: Path) -> None:
        """Write everything into an empty folder."""
        arrays = self.view.arrays()
        for name, table in self._tables.items():
            arrays.update(table.arrays(name))
        np.savez(folder / _FILE, **arrays)  # type: ignore[arg-type]

    def load(self, folder: Path) -> None:
        """Take back what :meth:`save` wrote; raise ``OSError`` or ``ValueError`` if damaged."""
        try:
            with np.load(folder / _FILE, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            for name, table in self._tables.items():
                table.take(name, arrays)
            self._view = GraphView.from_arrays(arrays)
        except (KeyError, zipfile.BadZipFile) as error:
            raise ValueError(f"{folder / _FILE} is damaged: {error}") from error
