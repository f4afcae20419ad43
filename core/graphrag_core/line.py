"""Batches on their way in: one is written while the next is read."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain
from types import TracebackType

from typing_extensions import Self

from graphrag_core.derived import Derived
from graphrag_core.guard import Guard
from graphrag_core.ports import Matrix
from graphrag_core.stores.batch import Written
from graphrag_core.stores.entry import Entry
from graphrag_core.stores.records import Records
from graphrag_core.stores.writer import write

_TOGETHER = 4  # batches that are made searchable at once


class Line:
    """Writes batches that only add, and makes them searchable, beside the thread that reads the next.

    The records are written in one thread and the keywords in others; both leave Python to
    the reader most of the time. Batches are committed in order, one at a time. What was
    written is handed on in memory. Whatever is missed here, for whatever reason, the index
    finds in the records when it next catches up. Leaving it publishes the rest.
    """

    def __init__(self, records: Records, derived: Callable[[], Derived], guard: Guard) -> None:
        self._records = records
        self._derived = derived
        self._guard = guard
        self._threads: ThreadPoolExecutor | None = None
        self._ids: frozenset[str] = frozenset()
        self._writing: Future[Written] | None = None
        self._written: list[Written] = []
        self._publishing: Future[None] | None = None

    def holds(self, document_id: str) -> bool:
        """Say whether a document is being written."""
        return document_id in self._ids

    def put(self, entries: Sequence[Entry], names: Mapping[str, Matrix]) -> None:
        """Begin to write a batch; the one before must have arrived.

        From here on whoever reads the records waits for the batch.
        """
        self._threads = self._threads or ThreadPoolExecutor(2, "graphrag-add")
        self._ids = frozenset(entry.document.id for entry in entries)
        begun = threading.Event()
        self._writing = self._threads.submit(self._write, entries, names, begun)
        begun.wait()

    def put_last(self, entries: Sequence[Entry], names: Mapping[str, Matrix]) -> None:
        """Write a batch with nothing to do beside it."""
        self._written.append(write(self._records, entries, (), names))

    def arrive(self) -> None:
        """Wait for the batch that is being written, or raise what stopped it."""
        if self._writing is not None:
            writing, self._writing = self._writing, None
            self._written.append(writing.result())
            self._ids = frozenset()
        if len(self._written) >= _TOGETHER:
            self._publish()

    def finish(self) -> None:
        """Wait until everything can be searched."""
        self.arrive()
        if self._written:
            self._publish()
        self._settle()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.finish()
        finally:
            if self._threads is not None:
                self._threads.shutdown()

    def _write(self, entries: Sequence[Entry], names: Mapping[str, Matrix], begun: threading.Event) -> Written:
        with self._records.lock:
            begun.set()
            return write(self._records, entries, (), names)

    def _publish(self) -> None:
        self._settle()
        written, self._written = self._written, []
        derived = self._derived()
        changes = written[0].change.generation - 1, written[-1].change.generation
        texts: dict[str, Iterable[tuple[int, str]]] = {
            kind: chain.from_iterable([part.texts[kind] for part in written]) for kind in derived.keywords
        }
        leave = self._guard.take()
        try:
            if self._threads is not None:  # a few texts are sooner caught up with, both keyword indexes at once
                self._publishing = self._threads.submit(derived.postings.follow, *changes, texts)
            for part in written:
                derived.follow(part)
        finally:  # queries wait for both
            if self._publishing is not None:
                self._publishing.add_done_callback(lambda _: leave())
            else:
                leave()

    def _settle(self) -> None:
        if self._publishing is not None:
            publishing, self._publishing = self._publishing, None
            publishing.result()
