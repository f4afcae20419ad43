"""The search indexes of the embedded engine: vectors, keywords and graph of one generation."""

import logging
import shutil
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import numpy as np

from graphrag_core.engine.embedded.arrays import load_arrays, save_arrays
from graphrag_core.engine.embedded.attributes import AttributeColumns
from graphrag_core.engine.embedded.background import Task, run_together
from graphrag_core.engine.embedded.files import Folder, release_memory
from graphrag_core.engine.embedded.graph_rows import graph_rows
from graphrag_core.engine.embedded.keywords import TantivyKeywords, is_damage, stored_generation
from graphrag_core.engine.embedded.recent import Recent
from graphrag_core.engine.embedded.records import Records, reported
from graphrag_core.engine.embedded.schema import Change
from graphrag_core.engine.embedded.vectors import FaissVectors
from graphrag_core.engine.embedded.writer import Batch
from graphrag_core.engine.graph.memory import MemoryGraph
from graphrag_core.engine.rows import FIELDS, Texts
from graphrag_core.errors import DiskError, GraphRAGError
from graphrag_core.ports import Keys, Matrix

_log = logging.getLogger(__name__)

_MANY = 1_000  # chunks, after which it is worth releasing memory
_SMALL = 2_000  # texts: smaller keyword indexes are purged of tombstones at once
_MAX_TOMBSTONES = 0.05  # of all texts: from this share on larger ones are purged
PATIENCE = 10.0
"""Seconds a reader waits for a running writer to finish its change."""
_GRAPH = "graph.arrays"
_ORDER = "order.arrays"  # the keys of chunks in the order of ids
_ATTEMPTS = 3  # of a reader to map files that a writer replaces
_FEW_CHANGES = 1_000  # chunks for each that changed: closing does not save then
_CHECKED_AT_ONCE = 128_000_000  # bytes of saved files up to which opening reads all of them
_MOST_SPARSE = 8  # times the number of keys: up to this largest key a lookup table is worth its memory

_KEYWORD_FIELDS = {"chunks": len(FIELDS), "facts": 1}


class SearchIndexes:
    """Vectors of chunks, facts and names, keywords of chunks and facts, and the graph.

    They are derived from the records. The graph, and vectors if they are many, are saved to disk now and then, and
    mapped into memory from there. Fewer vectors are read from the records when they are first needed. The keyword
    indexes commit each change and have their own generation.

    Opening checks the sizes of all saved files, and the contents of small ones. Those of large ones are checked in the
    background; if one is damaged, the next read builds the index again from the records.

    ``generation`` is the generation of vectors and graph. ``complete`` is False while a change is being applied, and
    after one that failed; :meth:`sync` repairs it.
    """

    def __init__(self, records: Records, folder: Folder | None) -> None:
        self._records = records
        self._folder = folder
        self._building = threading.Lock()
        self._id_places: Keys | None = None  # see current_graph
        self._recent = Recent()
        self._by_id: Keys | None = None  # the keys of the chunks in the order of ids
        self._id_changes: list[Change] = []  # which are not part of it yet
        self._saved, self._saved_to = -1, Path()
        self._unsaved = 0
        self._lost: list[str] = []  # signs that the records lack writes that the other files have
        self._in_memory: set[str] = set()  # keyword indexes that a reader could not take from disk
        self.complete = False
        self._running: list[Task] = []  # of the last change
        self._use_files = True  # False if the files of vectors and graph are damaged
        self._unchecked: Path | None = None  # the folder of mapped files that are being checked
        self._closed = threading.Event()
        self._reset()
        self.keywords = {kind: self._open_keywords(kind) for kind in _KEYWORD_FIELDS}

    def is_current(self) -> bool:
        """Return whether all indexes are complete and have the generation of the records."""
        generations = {self.generation, *(store.generation for store in self.keywords.values())}
        return self.complete and not self._broken and generations == {self._records.generation}

    def discard(self) -> None:
        """Let the next :meth:`sync` build everything again from the records."""
        self._distrust_files()
        for store in self.keywords.values():
            store.discard()

    def _reset(self) -> None:
        self.generation = 0
        self._by_id, self._id_changes = None, []
        self._broken = False  # whether vectors and graph may have half a change
        self.vectors = self._unread_vectors()
        self.graph, self._is_mapped = MemoryGraph(), False  # and whether it is mapped from a file
        self.attributes = AttributeColumns(self._records)

    def _unread_vectors(self) -> dict[str, FaissVectors]:
        def read(kind: str) -> Iterator[tuple[Keys, Matrix]]:
            return self._records.vectors(kind, self._records.everything().added[kind])

        # Facts are compared with a question, but never searched: their vectors need no inverted lists.
        facts = FaissVectors(partial(read, "facts"), approximate_from=sys.maxsize)
        return {"facts": facts} | {kind: FaissVectors(partial(read, kind)) for kind in ("chunks", "names")}

    @property
    def nbytes(self) -> int:
        """Bytes held in memory, without files that are mapped."""
        return sum(store.nbytes for store in self.vectors.values()) + self.graph.nbytes

    # -- views

    def current_graph(self) -> tuple[MemoryGraph, Keys, Recent]:
        """Return the graph, the places of its chunks in the order of ids, and what questions have read of them."""
        with self._building:
            if self._id_places is None:
                self._recent = Recent()
                with self._all_or_broken():
                    self._id_places = _places(self._keys_by_id(), self.graph["chunks.key"])
            return self.graph, self._id_places, self._recent

    def _keys_by_id(self) -> Keys:
        """Return the keys of all chunks in the order of ids. New ones are put before their successors."""
        changes, self._id_changes = self._id_changes, []
        by_id, self._by_id = self._by_id, None
        spans = [change.added["chunks"] for change in changes]
        if by_id is None or sum(last - first for first, last in spans) > _MANY:
            by_id = self._records.keys("SELECT key FROM chunks ORDER BY id")
        else:
            gone = np.concatenate([np.empty(0, np.int64), *(change.removed["chunks"] for change in changes)])
            if len(gone):
                by_id = by_id[~np.isin(by_id, gone)]
            if new := self._records.successors(spans):
                following = _places(by_id, np.array([max(after, 0) for _, after in new], np.int64))
                following[[after < 0 for _, after in new]] = len(by_id)
                by_id = np.insert(by_id, following, [key for key, _ in new])
        self._by_id = by_id
        return by_id

    @contextmanager
    def _all_or_broken(self) -> Iterator[None]:
        """Mark vectors and graph as broken if what is done here does not end: the next read builds them again."""
        try:
            yield
        except BaseException:
            self._broken = True
            raise

    # -- following the records

    def sync(self, batches: Sequence[Batch] = ()) -> None:
        """Sync the indexes with the records, incrementally if possible.

        ``batches`` are the last ones written; their content need not be read back from the records.
        """
        self.complete = False
        if self._records.read_only:
            self._await_writer()
        self._id_places = None
        unsaved = self._unsaved
        keywords = [partial(self._sync_keywords, kind, batches) for kind in self.keywords]  # releases the GIL
        run_together([*keywords, partial(self._sync_vectors_and_graph, batches)], self._running)
        self.complete = True
        if self._unsaved - unsaved >= _MANY and not batches:
            release_memory()

    def _sync_vectors_and_graph(self, batches: Sequence[Batch]) -> None:
        follows = not self._broken and _follow(batches, self.generation)
        with self._all_or_broken():
            change = None if self._broken or follows else self._records.since(self.generation)
            if change is None and not follows:
                self._reset()
                self.load()
                change = self._records.since(self.generation) or self._records.everything()
            for batch in batches if follows else ():
                self._apply(batch.change, batch)
            if change is not None and change.generation != self.generation:
                self._apply(change, None)
            if self.graph.is_worth_packing:
                self.graph = self.graph.packed()

    def _apply(self, change: Change, batch: Batch | None) -> None:
        """Apply a change to vectors and graph; its content comes from a batch or from the records."""
        for kind, store in self.vectors.items():
            if not store.loaded:
                continue
            if len(change.removed[kind]):
                store.remove(change.removed[kind])
            added = [batch.vectors[kind]] if batch else self._records.vectors(kind, change.added[kind])
            for keys, vectors in added:
                store.add(keys, vectors)
        # Of a change of several transactions, what came in one and went in a later one was never in the graph.
        self.graph.remove(change.removed["chunks"][change.removed["chunks"] < change.added["chunks"][0]])
        for rows in [batch.rows] if batch else self._records.graph_rows(change):
            self.graph.add(graph_rows(rows))
        if self._by_id is not None:
            self._id_changes.append(change)
        first, last = change.added["chunks"]
        self._unsaved += last - first + len(change.removed["chunks"])
        self.generation = change.generation

    def _sync_keywords(self, kind: str, batches: Sequence[Batch]) -> None:
        store = self.keywords[kind]
        try:
            if not _follow(batches, store.generation):
                self._apply_to_keywords(kind, self._records.since(store.generation))
            else:
                removed = np.concatenate([batch.change.removed[kind] for batch in batches])
                gone = set(removed.tolist())
                added = [text for batch in batches for text in batch.texts[kind] if text[0] not in gone]
                if _needs_purge(store.tombstones + len(gone), store.size + len(added) - len(gone)):
                    self._replace_keywords(kind)  # in one commit, so that no reader sees tombstones
                else:
                    store.apply(batches[-1].change.generation, removed, added)
            if not self._records.read_only and _needs_purge(store.tombstones, store.size):
                self._replace_keywords(kind)
        except BaseException as error:
            if not is_damage(error):
                raise
            self._move_to_memory(kind, error)

    def _apply_to_keywords(self, kind: str, change: Change | None) -> None:
        """Apply a change of the records to a keyword index; None replaces all texts. A reader does so in memory."""
        store, read_only = self.keywords[kind], self._records.read_only
        if change is not None and change.generation == store.generation:
            return
        if read_only:  # the writer crashed before it wrote the keywords
            self._in_memory.add(kind)
            self.keywords[kind] = self._keywords_in_memory(kind)
        if read_only or change is None:
            self._replace_keywords(kind)
        else:
            texts = self._records.texts_of(kind, change.added["chunks"])
            store.apply(change.generation, change.removed[kind], texts)

    def _move_to_memory(self, kind: str, error: BaseException) -> None:
        """Build a keyword index in memory, since its files cannot be used."""
        _log.warning("the keyword index of %s cannot be read or written (%s); it is kept in memory, the records "
                     "are safe, and the next opening writes it", kind, error)  # fmt: skip
        self.keywords[kind].discard()
        self.keywords[kind] = self._keywords_in_memory(kind)
        self._replace_keywords(kind)

    def _rewrite_keywords(self, kinds: Iterable[str]) -> None:
        """Replace all texts of keyword indexes. Raises ``DiskError`` if one cannot be written; it is kept in memory."""
        problem: BaseException | None = None
        for kind in kinds:
            try:
                self._replace_keywords(kind)
            except BaseException as error:
                if not is_damage(error):
                    raise
                self._move_to_memory(kind, error)
                problem = error
        if problem is not None:
            raise DiskError(
                f"the keyword indexes could not be written ({problem}): they are kept in memory and nothing is lost; "
                "free disk space, and repeat the call"
            ) from problem

    def _all_texts(self, kind: str) -> Iterator[tuple[int, Texts]]:
        return self._records.texts_of(kind, self._records.everything().added["chunks"])

    def _replace_keywords(self, kind: str) -> None:
        self.keywords[kind].apply(self._records.generation, None, self._all_texts(kind))

    def _open_keywords(self, kind: str) -> TantivyKeywords:
        """Open a keyword index. What is damaged at first sight is built again from the records by :meth:`sync`."""
        read_only, generation = self._records.read_only, self._records.generation
        path = None if self._folder is None else self._folder.keywords / kind
        if self._folder is None or path is None or (read_only and not path.is_dir()):
            return self._keywords_in_memory(kind)
        try:
            is_quiet = not (read_only and self._folder.has_writer())
            store = TantivyKeywords(
                path, _KEYWORD_FIELDS[kind], partial(self._all_texts, kind), is_quiet=is_quiet, read_only=read_only
            )
        except GraphRAGError as error:
            if generation:  # else creating the index was interrupted
                _log.warning("%s is damaged and is built again from the records: %s", path, error)
            return self._new_keywords(kind)
        if store.generation > generation:
            lost = f"{path} has generation {store.generation}, the records {generation}"
            _log.warning("%s: the last writes are missing from the records, or an older copy was restored", lost)
            self._lost.append(f"records: {lost}: the last writes are missing, or an older copy was restored")
        return store

    def _new_keywords(self, kind: str) -> TantivyKeywords:
        """Return an empty keyword index in place of a damaged one: on disk, or in memory if that is not possible."""
        if self._folder is None or self._records.read_only:
            return self._keywords_in_memory(kind)
        path = self._folder.keywords / kind
        shutil.rmtree(path, ignore_errors=True)
        try:
            return TantivyKeywords(path, _KEYWORD_FIELDS[kind], partial(self._all_texts, kind))
        except GraphRAGError as error:
            _log.warning("%s cannot be written (%s): the keyword index is kept in memory", path, error)
            return self._keywords_in_memory(kind)

    def _keywords_in_memory(self, kind: str) -> TantivyKeywords:
        return TantivyKeywords(None, _KEYWORD_FIELDS[kind], partial(self._all_texts, kind))

    def can_follow(self) -> bool:
        """Return whether records and keywords are of one generation on disk, or no other process writes them."""
        if self._folder is None or not self._records.read_only:
            return True
        newest = self._records.newest()
        same = all(stored_generation(self._folder.keywords / kind) == newest for kind in self.keywords)
        return same or not self._folder.has_writer()

    def _await_writer(self) -> None:
        """Let a reader find records and keywords of one generation; a running writer may be between the two."""
        for kind in self._in_memory:
            self.keywords[kind] = self._open_keywords(kind)
        self._in_memory.clear()
        deadline = time.monotonic() + PATIENCE
        while True:
            for kind, store in self.keywords.items():
                try:
                    store.refresh()
                except BaseException as error:
                    if not is_damage(error):
                        raise
                    _log.warning("the keyword index of %s is damaged and is built again in memory: %s", kind, error)
                    self.keywords[kind] = self._keywords_in_memory(kind)
            self._records.refresh()
            differ = {store.generation for store in self.keywords.values()} != {self._records.generation}
            if not differ or self._folder is None or not self._folder.has_writer() or time.monotonic() > deadline:
                return
            time.sleep(0.02)

    def rebuild(self) -> None:
        """Build all indexes again from the records; nothing is embedded."""
        self.complete = False
        self._distrust_files()
        self._sync_vectors_and_graph(())
        for kind, store in self.keywords.items():
            if store.folder is None or any(store.problems()):
                store.discard()
                self.keywords[kind] = self._new_keywords(kind)
        self._rewrite_keywords(self.keywords)
        self.complete = True

    def purge_tombstones(self) -> None:
        """Remove all traces of deleted texts from the keyword indexes."""
        self._rewrite_keywords([kind for kind, store in self.keywords.items() if store.tombstones])

    # -- files

    def load(self) -> None:
        """Map vectors and graph of the newest intact generation on disk, if there is one."""
        if self._folder is None or not self._use_files:
            return
        if not self._records.read_only:
            self._folder.tidy()
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._records.refresh()
            saved = self._folder.generations()
            for generation, path in saved:
                if generation <= self._records.generation and self._map(generation, path):
                    return
            if not self._records.read_only or saved == self._folder.generations():
                return  # else a writer has replaced them meanwhile

    def _map(self, generation: int, path: Path) -> bool:
        """Map vectors and graph of a generation; return whether they are intact as far as they were checked."""
        folder = self._folder
        if folder is None or not folder.is_complete(path):
            return False
        is_small = sum(file.stat().st_size for file in path.rglob("*.arrays")) <= _CHECKED_AT_ONCE
        if is_small and not folder.is_intact(path):
            return False
        vectors = self._unread_vectors()
        try:
            for kind, store in vectors.items():
                store.load(path / kind)
            graph = MemoryGraph.load(load_arrays(path / _GRAPH))
            by_id = load_arrays(path / _ORDER)["chunks"].values
        except (OSError, ValueError, LookupError) as error:
            _log.warning("%s is damaged and will be rebuilt from the records: %s", path, error)
            return False
        self.graph, self.vectors, self._is_mapped = graph, vectors, True
        self._by_id, self._id_changes, self._id_places = by_id, [], None
        self.generation = self._saved = generation
        self._unchecked = None if is_small else path
        if not is_small:
            checking = threading.Thread(
                target=self._check_files, args=(folder, path), name="graphrag-check", daemon=True
            )
            with suppress(RuntimeError):  # the process has no more threads: verify checks them, too
                checking.start()
        return True

    def _check_files(self, folder: Folder, path: Path) -> None:
        """Read the files of a generation. If one is damaged, let the next read build vectors and graph again."""
        if not folder.is_intact(path, self._closed.is_set):
            _log.warning("%s is damaged: vectors and graph are built again from the records", path)
            self._distrust_files()
        if self._unchecked == path:
            self._unchecked = None

    def _distrust_files(self) -> None:
        """Let the next read build vectors and graph from the records, and the next save write them."""
        self._broken, self._use_files, self._saved = True, False, -1

    def damaged_file(self) -> Path | None:
        """Return the folder of the mapped files if they are damaged and :meth:`_check_files` has not ended."""
        path = self._unchecked
        if path is None or self._folder is None or self._folder.is_intact(path):
            return None
        self._distrust_files()
        return path

    def save(self) -> None:
        """Save vectors and graph; if that fails, log it and keep the old files, which stay valid."""
        if self._folder is None or self._saved == self.generation or not self._records.meta.get("dim"):
            return

        def write(folder: Path) -> None:
            self.current_graph()  # with chunks in the order of ids
            save_arrays(folder / _ORDER, {"chunks": self._keys_by_id() if self._by_id is None else self._by_id})
            for kind, span in self._records.everything().added.items():
                (folder / kind).mkdir()
                self.vectors[kind].save(folder / kind, most=span[1])
            save_arrays(folder / _GRAPH, self.graph.packed().arrays())

        try:
            path = self._folder.replace_derived(self.generation, write)
            written = [store.generation for store in self.keywords.values()]
            self._records.trim_journal(min(self.generation, *written))
        except (OSError, RuntimeError, DiskError) as error:
            _log.warning("the search indexes could not be saved (%s); the records are safe, and the next opening "
                         "rebuilds them", error)  # fmt: skip
            return
        self._saved, self._unsaved, self._saved_to = self.generation, 0, path
        self._use_files = True

    def save_if_worthwhile(self) -> None:
        """Save if a fifth of the chunks changed since the last time, so that saving costs little overall."""
        if self._unsaved * 5 >= _MANY and self._unsaved * 5 >= self._records.value("SELECT count(*) FROM chunks"):
            self.save()
            if self._saved == self.generation:
                with self._building:
                    self._map(self.generation, self._saved_to)  # instead of what is in memory
            self.close()
            self._records.rows("PRAGMA shrink_memory")
            release_memory()

    def save_at_end(self) -> None:
        """Save, unless a large index has so few changes that the next opening applies them again in a moment."""
        if not self._is_mapped or self._unsaved * _FEW_CHANGES >= len(self.graph):
            self.save()

    def close(self) -> None:
        """Release the locks and the memory of the keyword writers; a later change opens them again."""
        for store in self.keywords.values():
            store.close()

    def release(self) -> None:
        """Close, and let go of the files that are mapped."""
        self._closed.set()
        try:
            self.close()
        finally:
            self._id_places = None
            self._reset()

    # -- verification

    def problems(self) -> Iterator[str]:
        """Yield what differs from the records, and which files are damaged. Raises nothing."""
        yield from self._lost
        if self.generation != self._records.generation:
            yield f"the indexes have generation {self.generation}, the records {self._records.generation}"
        for kind in self.keywords:
            yield from reported(f"keywords of {kind}", partial(self._keyword_problems, kind))
        for kind in self.vectors:
            yield from reported(f"vectors of {kind}", partial(self._vector_problems, kind))
        yield from reported("graph", self._graph_problems)
        yield from reported("attributes", self.attributes.problems)
        if self._folder is not None:
            for generation, path in self._folder.generations():
                if generation == self._saved and not self._folder.is_intact(path):
                    yield f"{path}: a file is damaged; rebuild() writes it again"

    def _keyword_problems(self, kind: str) -> Iterator[str]:
        keys, store = self._records.keys(f"SELECT key FROM {kind} ORDER BY key"), self.keywords[kind]
        yield from (f"keywords of {kind}: {problem}; rebuild() writes it again" for problem in store.problems())
        yield from _difference(f"keywords of {kind}", store.keys, keys)

    def _vector_problems(self, kind: str) -> Iterator[str]:
        vectors = self.vectors[kind]
        stored = list(self._records.vectors(kind, self._records.everything().added[kind]))
        keys = np.concatenate([k for k, _ in stored] or [np.empty(0, np.int64)])
        yield from _difference(f"vectors of {kind}", vectors.keys, keys)
        if np.array_equal(vectors.keys, keys):
            wrong = sum(int((vectors.get(k) != v.astype(np.float16)).any(axis=1).sum()) for k, v in stored)
            if wrong:
                yield f"vectors of {kind}: {wrong} differ from the records"

    def _graph_problems(self) -> Iterator[str]:
        fresh = MemoryGraph()
        for rows in self._records.graph_rows(self._records.everything()):
            fresh.add(graph_rows(rows))
        mine = self.graph.packed().arrays()
        for name, array in fresh.packed().arrays().items():
            if not np.array_equal(mine[name], array):
                yield f"graph: {name} differs from the records"


def _follow(batches: Sequence[Batch], generation: int) -> bool:
    """Return whether batches follow a generation without a gap, which an interrupt after a commit leaves."""
    befores = [batch.change.before for batch in batches]
    afters = [batch.change.generation for batch in batches]
    return bool(batches) and befores == [generation, *afters[:-1]]


def _needs_purge(tombstones: int, size: int) -> bool:
    """Return whether a keyword index of this size is to be written again without its removed texts."""
    return tombstones > 0 and (size <= _SMALL or tombstones > _MAX_TOMBSTONES * size)


def _places(keys: Keys, wanted: Keys) -> Keys:
    """Return the places of some keys among others. Those that are not among them have any place."""
    if len(keys) == 0 or (largest := int(keys.max())) >= _MOST_SPARSE * len(keys):
        order = np.argsort(keys, kind="stable")
        at = np.minimum(np.searchsorted(keys[order], wanted), max(len(keys) - 1, 0))
        return order[at] if len(keys) else np.zeros(len(wanted), np.int64)
    table = np.zeros(largest + 1, np.int64)
    table[keys] = np.arange(len(keys))
    places: Keys = table[np.minimum(wanted, largest)]
    return places


def _difference(what: str, have: Keys, want: Keys) -> Iterator[str]:
    if np.array_equal(have, want):
        return
    for problem, keys in (("missing", np.setdiff1d(want, have)), ("too much", np.setdiff1d(have, want))):
        if len(keys):
            yield f"{what}: {len(keys)} {problem}, such as key {int(keys[0])}"
    if len(np.unique(have)) < len(have):
        yield f"{what}: {len(have) - len(np.unique(have))} are there twice"
