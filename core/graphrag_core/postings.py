"""The keyword indexes of chunks and facts, which keep their own generation on disk."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from graphrag_core.errors import GraphRAGError
from graphrag_core.folder import Folder
from graphrag_core.ports import Keys, KeywordStore
from graphrag_core.stores.change import Span, no_keys
from graphrag_core.stores.records import Records

_log = logging.getLogger(__name__)

_SMALL = 2_000  # texts: up to here ghosts are cleared at once
_MOST_GHOSTS = 0.05  # of all texts, from there on
_PATIENCE = 10.0  # seconds a reader waits for a living writer to finish a commit

Texts = Iterable[tuple[int, str]]


class Postings:
    """Keeps the two keyword indexes at the generation of the records."""

    def __init__(self, records: Records, folder: Folder | None, engine: Callable[[Path | None], KeywordStore]) -> None:
        self._records = records
        self._folder = folder
        self._engine = engine
        self._in_memory: set[str] = set()  # kinds that a reader could not take from disk
        self.stores: dict[str, KeywordStore] = {kind: self._open(kind) for kind in ("chunks", "facts")}

    @property
    def generation(self) -> int:
        """The generation that all of them have reached."""
        return min(store.generation for store in self.stores.values())

    def follow(self, before: int, generation: int, texts: Mapping[str, Texts]) -> None:
        """Add texts that were just written, where an index stands at the generation before them."""
        for kind, store in list(self.stores.items()):
            if store.generation == before:
                self._apply(kind, generation, no_keys(), texts[kind])

    def catch_up(self, kind: str, target: int) -> None:
        """Bring one index to a generation, from the records."""
        store = self.stores[kind]
        if store.generation == target:
            return
        if self._records.read_only:  # and its writer died before it wrote the keywords
            self._in_memory.add(kind)
            self.stores[kind] = self._engine(None)
            self.replace(kind)
            return
        change = self._records.since(store.generation) if store.generation >= 0 else None
        if change is None:
            self.replace(kind)
            return
        texts = self._texts(kind, getattr(change, kind))
        self._apply(kind, change.generation, getattr(change, f"{kind}_gone"), texts)

    def replace(self, kind: str) -> None:
        """Write one index anew."""
        everything = self._records.everything()
        try:
            self.stores[kind].replace(everything.generation, self._texts(kind, getattr(everything, kind)))
        except (OSError, ValueError) as error:
            self._keep_in_memory(kind, error)

    def clear_ghosts(self, *, all_of_them: bool = False) -> None:
        """Write indexes anew in which removed texts still count too much."""
        for kind, store in self.stores.items():
            if not store.ghosts:
                continue
            size = self._records.value(f"SELECT count(*) FROM {kind}") + store.ghosts
            if all_of_them or size <= _SMALL or store.ghosts > _MOST_GHOSTS * size:
                self.replace(kind)

    def await_writer(self) -> None:
        """Find records and keywords of one generation; a living writer may be between the two."""
        self._reopen()
        until = time.monotonic() + _PATIENCE
        while True:
            for store in self.stores.values():
                store.refresh()
            self._records.refresh()
            apart = {store.generation for store in self.stores.values()} - {self._records.generation}
            if not apart or self._folder is None or not self._folder.being_written() or time.monotonic() > until:
                return
            time.sleep(0.02)

    def rest(self) -> None:
        """Have stores that can give back what they hold for writing alone."""
        for store in self.stores.values():
            if rest := getattr(store, "rest", None):
                rest()

    def close(self) -> None:
        """Give back locks and files."""
        for store in self.stores.values():
            store.close()

    def _open(self, kind: str) -> KeywordStore:
        if self._folder is None:
            return self._engine(None)
        path = self._folder.keywords / kind
        if self._records.read_only and not path.is_dir():
            return self._engine(None)
        try:
            return self._engine(path)
        except GraphRAGError as error:
            if self._records.read_only:
                return self._engine(None)
            _log.warning("%s is damaged and will be rebuilt from the records: %s", path, error)
            shutil.rmtree(path, ignore_errors=True)
            return self._engine(path)

    def _reopen(self) -> None:
        """Go back to the files where a reader had to keep keywords in memory."""
        for kind, store in self.stores.items():
            if kind in self._in_memory:
                store.close()
                self._in_memory.discard(kind)
                self.stores[kind] = self._open(kind)

    def _apply(self, kind: str, generation: int, removed: Keys, texts: Texts) -> None:
        try:
            self.stores[kind].apply(generation, removed, texts)
        except (OSError, ValueError) as error:
            self._keep_in_memory(kind, error)

    def _keep_in_memory(self, kind: str, error: Exception) -> None:
        _log.warning("the keyword index of %s cannot be written (%s); it is kept in memory, the records are safe, "
                     "and the next opening will write it", kind, error)  # fmt: skip
        everything = self._records.everything()
        store = self._engine(None)
        store.replace(everything.generation, self._texts(kind, getattr(everything, kind)))
        self.stores[kind] = store

    def _texts(self, kind: str, span: Span) -> Iterator[tuple[int, str]]:
        return self._records.chunk_texts(span) if kind == "chunks" else self._records.fact_texts(span)
