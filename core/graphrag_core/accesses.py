"""Which facts queries have read, kept in memory until something is written anyway."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable

from graphrag_core.errors import GraphRAGError
from graphrag_core.stores.records import Records

_log = logging.getLogger(__name__)


class Accesses:
    """Counts accesses of facts without touching the records, so that no query waits for a disk.

    The counts are written with the next change of the index or when it is closed; a process
    that dies before loses those it had not written, and a reader keeps its own to itself.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: dict[int, tuple[int, float]] = {}

    def note(self, facts: Iterable[int], now: float) -> None:
        """Count one access of each fact (by key)."""
        with self._lock:
            for fact in facts:
                count, last = self._pending.get(fact, (0, now))
                self._pending[fact] = (count + 1, max(last, now))

    def of(self, fact: int) -> tuple[int, float | None]:
        """Return how often a fact was read since the last writing, and when last."""
        return self._pending.get(fact, (0, None))

    def write(self, records: Records) -> None:
        """Add what was counted to the records; facts that are gone are passed over."""
        with self._lock:
            pending, self._pending = self._pending, {}
        if not pending:
            return
        rows = [(count, last, fact) for fact, (count, last) in pending.items()]
        try:
            with records.writing() as db:
                db.executemany(
                    "UPDATE facts SET access_count = access_count + ?, "
                    "last_accessed = max(coalesce(last_accessed, 0), ?) WHERE key = ?",
                    rows,
                )
        except GraphRAGError as error:  # counts are a help, and no reason to fail what was done
            _log.warning("how often facts were read could not be written: %s", error)
