"""The search structures as one: brought up to date, saved, loaded and checked together."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from graphrag_core.errors import DiskError
from graphrag_core.folder import Folder
from graphrag_core.memory import give_back
from graphrag_core.parts import graph_part, graph_parts
from graphrag_core.ports import GraphStore, Keys, KeywordStore, Matrix, VectorStore
from graphrag_core.postings import Postings
from graphrag_core.similar import similar_names
from graphrag_core.stores.batch import Written
from graphrag_core.stores.change import Change, no_keys
from graphrag_core.stores.graph import GraphPart, IgraphGraph
from graphrag_core.stores.keywords import TantivyKeywords
from graphrag_core.stores.records import Records
from graphrag_core.stores.vectors import FaissVectors
from graphrag_core.stores.view import GraphView
from graphrag_core.text import fingerprint

_log = logging.getLogger(__name__)

_MANY = 1_000  # chunks at once, after which it is worth giving memory back
_MOST_SCOPES = 16  # graphs of scopes to remember

Vectors = Iterable[tuple[Keys, Matrix]]


@dataclass(frozen=True)
class Engines:
    """What makes the search structures; put another engine's maker in the place of one.

    ``vectors`` takes the dimension, ``keywords`` a folder (None for memory), ``graph``
    nothing. Each returns something that fulfils its port.
    """

    vectors: Callable[[int], VectorStore] = FaissVectors
    keywords: Callable[[Path | None], KeywordStore] = TantivyKeywords
    graph: Callable[[], GraphStore] = IgraphGraph


class Derived:
    """Vectors, keywords and graph, all of one generation of the records.

    ``vectors`` are those of chunks, facts and names; ``keywords`` those of chunks and facts.
    """

    def __init__(
        self, records: Records, folder: Folder | None, dim: int, engines: Engines, merge_similar: float | None
    ) -> None:
        self.dim = dim
        self._records = records
        self._folder = folder
        self._engines = engines
        self._merge_similar = merge_similar
        self._building = threading.Lock()
        self._scoped: dict[tuple[int, str], GraphView] = {}
        self._places: tuple[Keys, Keys] | None = None
        self._saved = -1
        self._unsaved = 0
        self.whole = True  # false after a change that something stopped half-way
        self._reset()
        self.postings = Postings(records, folder, engines.keywords)

    @property
    def keywords(self) -> Mapping[str, KeywordStore]:
        """The keyword indexes."""
        return self.postings.stores

    @property
    def nbytes(self) -> int:
        """Bytes held in memory, but for tantivy's, which maps its files."""
        return sum(store.nbytes for store in self.vectors.values()) + self.graph.nbytes

    @property
    def view(self) -> GraphView:
        """The graph of this generation, names merged that are to be merged."""
        with self._building:
            if self.graph.stale and self._merge_similar is not None:
                self.graph.join_similar(similar_names(self.vectors["names"], self._merge_similar))
            view: GraphView = self.graph.view
            return view

    def view_of(self, chunks: Keys | None) -> GraphView:
        """Return the graph of some chunks alone; of all for None. The last few are remembered."""
        if chunks is None:
            return self.view
        of = (self.generation, fingerprint([chunks.tobytes().hex()]))
        _ = self.view  # so that names that are to be merged are known
        with self._building:
            if of not in self._scoped:
                if len(self._scoped) >= _MOST_SCOPES:
                    self._scoped.pop(next(iter(self._scoped)))
                self._scoped[of] = self.graph.restricted(chunks)
            return self._scoped[of]

    def places(self, chunks: Keys) -> Keys:
        """Return the places of chunks among all, in the order of their ids, by which ties break."""
        with self._building:
            if self._places is None:
                by_id = self._records.chunk_keys_by_id()
                order = np.argsort(by_id, kind="stable")
                self._places = (by_id[order], order)
        keys, places = self._places
        return places[np.searchsorted(keys, chunks)]

    def catch_up(self) -> None:
        """Become what the records are now, by the shortest way there is."""
        if self._records.read_only:
            self.postings.await_writer()
        change = self._records.since(self.generation)
        if change is None:
            self._reset()
            change = self._records.everything()
        # Keywords keep their own generation, and index in threads of their own.
        with ThreadPoolExecutor(2) as pool:
            keywords = [pool.submit(self.postings.catch_up, kind, change.generation) for kind in ("chunks", "facts")]
            if change.generation != self.generation:
                self._advance(change)
            for done in keywords:
                done.result()
        if change.chunks[1] - change.chunks[0] >= _MANY:
            give_back()

    def follow(self, written: Written) -> bool:
        """Become what was just written, without reading it back; return whether that could be.

        Only vectors and graph; what holds for the keywords is in :class:`Postings`.
        """
        change = written.change
        if change.generation != self.generation + 1 or not self.whole or len(change.chunks_gone):
            return False
        vectors = {kind: [written.vectors[kind]] for kind in self.vectors}
        self._apply(change, vectors, map(graph_part, [written.rows]))
        return True

    def rebuild(self) -> None:
        """Make everything anew from the records; nothing is embedded again."""
        self._reset()
        self._saved = -1
        self._advance(self._records.everything())
        for kind in ("chunks", "facts"):
            self.postings.replace(kind)

    def load(self) -> None:
        """Take the newest sound generation from disk, if there is one."""
        if self._folder is None:
            return
        for generation, path in self._folder.generations():
            if generation > self._records.generation or not self._folder.sound(path):
                continue
            try:
                for kind, store in self.vectors.items():
                    store.load(path / kind)
                self.graph.load(path / "graph")
                if self._records.meta("merge_similar", "None") != str(self._merge_similar):
                    self.graph.join_similar((no_keys(), no_keys()))
            except (OSError, ValueError) as error:
                _log.warning("%s is damaged and will be rebuilt from the records: %s", path, error)
                self._reset()
                continue
            self.generation = self._saved = generation
            return

    def save(self) -> None:
        """Replace the files on disk; on failure say so and leave the old ones, which stay valid."""
        if self._folder is None or self._saved == self.generation or not self._records.meta("dim"):
            return

        def write(new: Path) -> None:
            stores: dict[str, VectorStore | GraphStore] = {**self.vectors, "graph": self.graph}
            _ = self.view  # built, with names merged, before it is written
            for kind, store in stores.items():
                (new / kind).mkdir()
                store.save(new / kind)

        try:
            self._folder.replace_derived(self.generation, write)
            self._records.set_meta(merge_similar=str(self._merge_similar))
            self._records.forget_journal(min(self.generation, self.postings.generation))
        except (OSError, RuntimeError, DiskError) as error:
            _log.warning("the search structures could not be saved (%s); the records are safe, and the next "
                         "opening will derive them anew", error)  # fmt: skip
            return
        self._saved, self._unsaved = self.generation, 0

    def save_if_worthwhile(self) -> None:
        """Save when a fifth has changed since the last time, so that saving costs little over all."""
        if self._unsaved * 5 >= max(len(self.vectors["chunks"].keys), _MANY):
            self.save()
            self.postings.rest()
            self._records.rows("PRAGMA shrink_memory")
            give_back()

    def problems(self) -> Iterator[str]:
        """Yield in words whatever differs from the records."""
        everything = self._records.everything()
        chunks, facts = self._records.chunk_keys(everything.chunks), self._records.fact_keys(everything.facts)
        expected = {"chunks": chunks, "facts": facts}
        for kind, store in self.keywords.items():
            yield from _difference(f"keywords of {kind}", store.keys, expected[kind])
        for kind, vectors in self.vectors.items():
            fresh = list(self._records.vectors(kind, getattr(everything, kind), self.dim))
            keys = np.concatenate([k for k, _ in fresh] or [np.empty(0, np.int64)])
            yield from _difference(f"vectors of {kind}", vectors.keys, keys)
            if np.array_equal(vectors.keys, keys) and len(keys):
                wrong = sum(int((vectors.get(k) != v).any(axis=1).sum()) for k, v in fresh)
                if wrong:
                    yield f"vectors of {kind}: {wrong} differ from the records"
        yield from self._graph_problems(everything)

    def close(self) -> None:
        """Give back locks and files."""
        self.postings.close()

    def _reset(self) -> None:
        self.generation = 0
        self.vectors: dict[str, VectorStore] = {
            k: self._engines.vectors(self.dim) for k in ("chunks", "facts", "names")
        }
        self.graph: GraphStore = self._engines.graph()

    def _advance(self, change: Change) -> None:
        self.whole = False
        vectors = {kind: self._records.vectors(kind, getattr(change, kind), self.dim) for kind in self.vectors}
        self._apply(change, vectors, graph_parts(self._records, change.names, change.chunks))

    def _apply(self, change: Change, vectors: Mapping[str, Vectors], parts: Iterable[GraphPart]) -> None:
        self.whole = False
        self._scoped.clear()
        self._places = None
        gone = {"chunks": change.chunks_gone, "facts": change.facts_gone, "names": change.names_gone}
        try:
            for kind, store in self.vectors.items():
                store.remove(gone[kind])
                for keys, matrix in vectors[kind]:
                    store.add(keys, matrix)
            self.graph.remove(change.chunks_gone, change.names_gone)
            for part in parts:
                self.graph.add(part)
        except BaseException:
            self._reset()  # rather nothing than half; the next catching up starts from the records
            raise
        self._unsaved += change.chunks[1] - change.chunks[0] + len(change.chunks_gone)
        self.generation = change.generation
        self.whole = True

    def _graph_problems(self, everything: Change) -> Iterator[str]:
        fresh = self._engines.graph()
        for part in graph_parts(self._records, everything.names, everything.chunks):
            fresh.add(part)
        if self._merge_similar is not None:
            fresh.join_similar(similar_names(self.vectors["names"], self._merge_similar))
        mine, theirs = self.view.arrays(), fresh.view.arrays()
        for name, array in theirs.items():
            if not np.array_equal(mine[name], array):
                yield f"graph: {name.removeprefix('view.')} differs from the records"


def _difference(what: str, have: Keys, want: Keys) -> Iterator[str]:
    if np.array_equal(have, want):
        return
    for kind, keys in (("missing", np.setdiff1d(want, have)), ("too much", np.setdiff1d(have, want))):
        if len(keys):
            yield f"{what}: {len(keys)} {kind}, such as key {int(keys[0])}"
    if len(np.unique(have)) < len(have):
        yield f"{what}: {len(have) - len(np.unique(have))} are there twice"
