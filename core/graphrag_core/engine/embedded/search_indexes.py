"""The search indexes of the embedded engine: vectors, keywords and graph of one generation."""

import hashlib
import logging
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from graphrag_core.engine.embedded.files import Folder, release_memory
from graphrag_core.engine.embedded.graph import GraphView, Pairs
from graphrag_core.engine.embedded.graph_edits import GraphEdits
from graphrag_core.engine.embedded.graph_tables import GraphTables
from graphrag_core.engine.embedded.keywords import FIELDS, TantivyKeywords
from graphrag_core.engine.embedded.records import Records
from graphrag_core.engine.embedded.schema import KINDS, Change
from graphrag_core.engine.embedded.vectors import FaissVectors
from graphrag_core.engine.embedded.writer import Batch
from graphrag_core.errors import DiskError, GraphRAGError
from graphrag_core.ports import Keys, Matrix
from graphrag_core.text import fingerprint

_log = logging.getLogger(__name__)

_MANY = 1_000  # chunks, after which it is worth releasing memory
_MOST_SCOPES = 16  # restricted views to cache
_SMALL = 2_000  # texts: smaller keyword indexes are purged of tombstones at once
_MAX_TOMBSTONES = 0.05  # of all texts: from this share on larger ones are purged
_PATIENCE = 10.0  # seconds a reader waits for a running writer to finish its change
_NEIGHBOURS = 8  # nearest names that each name is compared with
_PAGE = 1_000

_KEYWORD_FIELDS = {"chunks": len(FIELDS), "facts": 1}


class SearchIndexes:
    """Vectors of chunks, facts and names, keywords of chunks and facts, and the graph.

    They are derived from the records. Vectors are in the records alone, and read from there when they are first
    needed. The graph, and the inverted lists of many vectors, are saved to disk now and then; the keyword indexes
    commit each change and have their own generation.

    Attributes
    ----------
    generation
        The generation of the records that vectors and graph have.
    complete
        Whether all indexes have the same generation. False while a change is being applied, and
        after one that failed; :meth:`sync` repairs it.
    """

    def __init__(self, records: Records, folder: Folder | None, merge_similar: float | None) -> None:
        self._records = records
        self._folder = folder
        self._merge_similar = merge_similar
        self._building = threading.Lock()
        self._views: dict[bytes | None, tuple[GraphView, Keys]] = {}  # by scope
        self._id_order: tuple[Keys, Keys] | None = None
        self._saved = -1
        self._unsaved = 0
        self._in_memory: set[str] = set()  # keyword indexes that a reader could not take from disk
        self.complete = False
        self._reset()
        self.keywords = {kind: self._open_keywords(kind) for kind in _KEYWORD_FIELDS}

    def _reset(self) -> None:
        self.generation = 0
        self.vectors = {kind: FaissVectors(partial(self._stored_vectors, kind)) for kind in KINDS}
        self.graph = GraphTables()

    def _stored_vectors(self, kind: str) -> Iterator[tuple[Keys, Matrix]]:
        return self._records.vectors(kind, self._records.everything().added[kind])

    @property
    def nbytes(self) -> int:
        """Bytes held in memory, without the files that tantivy maps."""
        return sum(store.nbytes for store in self.vectors.values()) + self.graph.nbytes

    # -- views

    @property
    def chunk_keys(self) -> Keys:
        """The keys of all chunks, in ascending order."""
        with self._building:
            return self.graph.chunk_keys

    @property
    def view(self) -> GraphView:
        """The graph of all chunks."""
        return self.view_of(None)[0]

    def view_of(self, chunks: Keys | None) -> tuple[GraphView, Keys]:
        """Return the graph of some chunks, or of all for None, and the places of its chunks in the order of ids.

        The last few are cached.
        """
        scope = None if chunks is None else hashlib.blake2b(chunks.tobytes(), digest_size=16).digest()
        with self._building:
            if scope in self._views:
                return self._views[scope]
            if self.graph.stale and self._merge_similar is not None:
                self.graph.merge(_similar_names(self.vectors["names"], self._merge_similar))
            view = self.graph.view if chunks is None else self.graph.restricted(chunks)
            if self._id_order is None:
                by_id = self._records.chunk_keys_by_id()
                order = np.argsort(by_id, kind="stable")
                self._id_order = (by_id[order], order)
            keys, places = self._id_order
            if len(self._views) > _MOST_SCOPES:
                self._views.pop(next(other for other in self._views if other is not None))
            self._views[scope] = view, places[np.searchsorted(keys, view.chunk_keys)]
            return self._views[scope]

    # -- following the records

    def sync(self, batches: Sequence[Batch] = ()) -> None:
        """Sync the indexes with the records, incrementally if possible.

        ``batches`` are the last ones written; their content need not be read back from the records.
        """
        if self._records.read_only:
            self._await_writer()
        self.complete = False
        self._views.clear()
        self._id_order = None
        unsaved = self._unsaved
        with ThreadPoolExecutor(len(self.keywords)) as pool:  # tantivy releases the GIL
            keywords = [pool.submit(self._sync_keywords, kind, batches) for kind in self.keywords]
            self._sync_vectors_and_graph(batches)
            self.graph.edit(self._edits())
            for done in keywords:
                done.result()
        self.complete = True
        if self._unsaved - unsaved >= _MANY and not batches:
            release_memory()

    def _sync_vectors_and_graph(self, batches: Sequence[Batch]) -> None:
        if batches and batches[0].change.before == self.generation:
            for batch in batches:
                self._apply(batch.change, batch)
            return
        change = self._records.since(self.generation)
        if change is None:
            self._reset()
            change = self._records.everything()
        if change.generation != self.generation:
            self._apply(change, None)

    def _edits(self) -> GraphEdits:
        return GraphEdits(self._records.meta("edits"), self._records.facts_to_hide)

    def _apply(self, change: Change, batch: Batch | None) -> None:
        """Apply a change to vectors and graph; its content comes from a batch or from the records."""
        try:
            for kind, store in self.vectors.items():
                if not store.loaded:
                    continue
                if len(change.removed[kind]):
                    store.remove(change.removed[kind])
                added = [batch.vectors[kind]] if batch else self._records.vectors(kind, change.added[kind])
                for keys, vectors in added:
                    store.add(keys, vectors)
            if len(change.removed["chunks"]):
                self.graph.remove(change.removed["chunks"], change.removed["names"])
            for rows in [batch.rows] if batch else self._records.graph_rows(change):
                self.graph.add(rows)
        except BaseException:
            self._reset()  # the next sync builds them from the records
            raise
        first, last = change.added["chunks"]
        self._unsaved += last - first + len(change.removed["chunks"])
        self.generation = change.generation

    def _sync_keywords(self, kind: str, batches: Sequence[Batch]) -> None:
        store = self.keywords[kind]
        try:
            if batches and batches[0].change.before == store.generation:
                removed = np.concatenate([batch.change.removed[kind] for batch in batches])
                gone = set(removed.tolist())
                added = (text for batch in batches for text in batch.texts[kind] if text[0] not in gone)
                store.apply(batches[-1].change.generation, removed, added)
            elif (change := self._records.since(store.generation)) is None or (
                self._records.read_only and change.generation != store.generation
            ):
                if self._records.read_only:  # the writer crashed before it wrote the keywords
                    self._in_memory.add(kind)
                    self.keywords[kind] = TantivyKeywords(fields=_KEYWORD_FIELDS[kind])
                self._replace_keywords(kind)
            elif change.generation != store.generation:
                texts = self._records.keyword_texts(kind, change.added[kind])
                store.apply(change.generation, change.removed[kind], texts)
            tombstones = 0 if self._records.read_only else store.tombstones
            if tombstones and (store.size <= _SMALL or tombstones > _MAX_TOMBSTONES * store.size):
                self._replace_keywords(kind)
        except (OSError, ValueError) as error:
            _log.warning("the keyword index of %s cannot be written (%s); it is kept in memory, the records are "
                         "safe, and the next opening writes it", kind, error)  # fmt: skip
            self.keywords[kind] = TantivyKeywords(fields=_KEYWORD_FIELDS[kind])
            self._replace_keywords(kind)

    def _replace_keywords(self, kind: str) -> None:
        everything = self._records.everything()
        self.keywords[kind].apply(
            everything.generation, None, self._records.keyword_texts(kind, everything.added[kind])
        )

    def _open_keywords(self, kind: str) -> TantivyKeywords:
        fields = _KEYWORD_FIELDS[kind]
        if self._folder is None:
            return TantivyKeywords(fields=fields)
        path = self._folder.keywords / kind
        read_only = self._records.read_only
        if read_only and not path.is_dir():
            return TantivyKeywords(fields=fields)
        try:
            return TantivyKeywords(path, fields)
        except GraphRAGError as error:
            if read_only:
                return TantivyKeywords(fields=fields)
            _log.warning("%s is damaged and will be rebuilt from the records: %s", path, error)
            shutil.rmtree(path, ignore_errors=True)
            return TantivyKeywords(path, fields)

    def _await_writer(self) -> None:
        """Let a reader find records and keywords of one generation; a running writer may be between the two."""
        for kind in self._in_memory:
            self.keywords[kind] = self._open_keywords(kind)
        self._in_memory.clear()
        deadline = time.monotonic() + _PATIENCE
        while True:
            for store in self.keywords.values():
                store.refresh()
            self._records.refresh()
            differ = {store.generation for store in self.keywords.values()} != {self._records.generation}
            if not differ or self._folder is None or not self._folder.has_writer() or time.monotonic() > deadline:
                return
            time.sleep(0.02)

    def rebuild(self) -> None:
        """Build all indexes again from the records; nothing is embedded."""
        self.complete = False
        self.generation, self._saved = -1, -1  # a generation that the journal cannot reach
        self._sync_vectors_and_graph(())
        self.graph.edit(self._edits())
        for kind in self.keywords:
            self._replace_keywords(kind)
        self.complete = True

    def purge_tombstones(self) -> None:
        """Remove all traces of deleted texts from the keyword indexes."""
        for kind, store in self.keywords.items():
            if store.tombstones:
                self._replace_keywords(kind)

    # -- files

    def load(self) -> None:
        """Load vectors and graph of the newest intact generation on disk, if there is one."""
        if self._folder is None:
            return
        if not self._records.read_only:
            self._folder.tidy()
        for generation, path in self._folder.generations():
            if generation > self._records.generation or not self._folder.is_intact(path):
                continue
            try:
                for kind, store in self.vectors.items():
                    store.load(path / kind)
                self.graph.load(path / "graph")
            except (OSError, ValueError) as error:
                _log.warning("%s is damaged and will be rebuilt from the records: %s", path, error)
                self._reset()
                continue
            if self._records.meta("merge_similar", "None") != str(self._merge_similar):
                self.graph.merge((np.empty(0, np.int64), np.empty(0, np.int64)))
            saved = self._records.meta("edits_saved", fingerprint([""]))
            self.graph.edit(self._edits(), applied=saved == fingerprint([self._records.meta("edits")]))
            self.generation = self._saved = generation
            return

    def save(self) -> None:
        """Save vectors and graph; if that fails, log it and keep the old files, which stay valid."""
        if self._folder is None or self._saved == self.generation or not self._records.meta("dim"):
            return

        def write(folder: Path) -> None:
            _ = self.view  # builds it, with similar names merged
            for kind, span in self._records.everything().added.items():
                (folder / kind).mkdir()
                self.vectors[kind].save(folder / kind, most=span[1])
            (folder / "graph").mkdir()
            self.graph.save(folder / "graph")

        try:
            self._folder.replace_derived(self.generation, write)
            edits = fingerprint([self._records.meta("edits")])
            self._records.set_meta({"merge_similar": str(self._merge_similar), "edits_saved": edits})
            written = [store.generation for store in self.keywords.values()]
            self._records.trim_journal(min(self.generation, *written))
        except (OSError, RuntimeError, DiskError) as error:
            _log.warning("the search indexes could not be saved (%s); the records are safe, and the next opening "
                         "rebuilds them", error)  # fmt: skip
            return
        self._saved, self._unsaved = self.generation, 0

    def save_if_worthwhile(self) -> None:
        """Save if a fifth of the chunks changed since the last time, so that saving costs little overall."""
        if self._unsaved * 5 >= max(self._records.value("SELECT count(*) FROM chunks"), _MANY):
            self.save()
            self.close()
            self._records.rows("PRAGMA shrink_memory")
            release_memory()

    def close(self) -> None:
        """Release the locks and the memory of the keyword writers; a later change opens them again."""
        for store in self.keywords.values():
            store.close()

    # -- verification

    def problems(self) -> Iterator[str]:
        """Yield what differs from the records."""
        if self.generation != self._records.generation:
            yield f"the indexes have generation {self.generation}, the records {self._records.generation}"
        everything = self._records.everything()
        expected = {
            "chunks": self._records.chunk_keys(everything.added["chunks"]),
            "facts": self._records.fact_keys(everything.added["facts"]),
        }
        for kind, keywords in self.keywords.items():
            yield from _difference(f"keywords of {kind}", keywords.keys, expected[kind])
        for kind, vectors in self.vectors.items():
            stored = list(self._records.vectors(kind, everything.added[kind]))
            keys = np.concatenate([k for k, _ in stored] or [np.empty(0, np.int64)])
            yield from _difference(f"vectors of {kind}", vectors.keys, keys)
            if np.array_equal(vectors.keys, keys):
                wrong = sum(int((vectors.get(k) != v.astype(np.float16)).any(axis=1).sum()) for k, v in stored)
                if wrong:
                    yield f"vectors of {kind}: {wrong} differ from the records"
        fresh = GraphTables()
        fresh.edit(self._edits())
        for rows in self._records.graph_rows(everything):
            fresh.add(rows)
        if self._merge_similar is not None:
            fresh.merge(_similar_names(self.vectors["names"], self._merge_similar))
        mine = self.view.arrays()
        for name, array in fresh.view.arrays().items():
            if not np.array_equal(mine[name], array):
                yield f"graph: {name.removeprefix('view.')} differs from the records"


def _similar_names(vectors: FaissVectors, least: float) -> Pairs:
    """Return pairs of name keys whose cosine is at least ``least``, the smaller key first.

    Each name is compared with its eight nearest.
    """
    keys = vectors.keys
    first: list[Keys] = [np.empty(0, np.int64)]
    second: list[Keys] = [np.empty(0, np.int64)]
    for start in range(0, len(keys), _PAGE):
        page = keys[start : start + _PAGE]
        for key, (near, scores) in zip(page, vectors.search(vectors.get(page), _NEIGHBOURS + 1), strict=True):
            close = near[(scores >= least) & (near != key)]
            first.append(np.minimum(key, close))
            second.append(np.maximum(key, close))
    return np.concatenate(first), np.concatenate(second)


def _difference(what: str, have: Keys, want: Keys) -> Iterator[str]:
    if np.array_equal(have, want):
        return
    for problem, keys in (("missing", np.setdiff1d(want, have)), ("too much", np.setdiff1d(have, want))):
        if len(keys):
            yield f"{what}: {len(keys)} {problem}, such as key {int(keys[0])}"
    if len(np.unique(have)) < len(have):
        yield f"{what}: {len(have) - len(np.unique(have))} are there twice"
