"""Answers that were paid for, kept by the content of the question."""

from __future__ import annotations

import logging
import sqlite3
import threading
from pathlib import Path

from graphrag_core.errors import DiskError

_log = logging.getLogger(__name__)


class AnswerCache:
    """Keeps answers in a file, or in memory when no path is given. Safe to share by threads."""

    def __init__(self, path: str | Path | None = None) -> None:
        self._lock = threading.Lock()
        try:
            if path is not None:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(str(path or ":memory:"), check_same_thread=False, isolation_level=None)
            self._db.execute("CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL)")
        except (OSError, sqlite3.Error) as error:
            raise DiskError(f"the answer cache {path} cannot be opened ({error}): give another path") from error

    def get(self, key: str) -> str | None:
        """Return the answer kept under a key."""
        with self._lock:
            row = self._db.execute("SELECT answer FROM answers WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def put(self, key: str, answer: str) -> None:
        """Keep an answer."""
        try:
            with self._lock:
                self._db.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, answer))
        except sqlite3.Error as error:
            _log.warning("an answer could not be kept (%s) and will be paid for again", error)

    def close(self) -> None:
        """Close the file."""
        self._db.close()
