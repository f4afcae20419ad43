"""What the parts of a write cost, in this process or in each worker of Ray: for ``benchmarks/postgres.py bulk``."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from graphrag_core.embedders import WordLlama
from graphrag_core.engine.postgres import PostgresEngine, writer
from graphrag_core.ingest.pipeline import Pipeline
from graphrag_core.ports import Matrix

PARTS = ("reader", "embedder", "database", "wait", "lock", "lock, server", "HNSW", "process")
"""Chunking and extraction; embedding; writing, which has the next three in it; waiting for the lock of the index; what
follows until the commit, on the client and on the server; HNSW indexes; all of the process since it was measured."""

Seconds = dict[str, tuple[float, float]]
"""CPU and elapsed seconds by part."""


class Measured(WordLlama):
    """An embedder that measures the process that uses it. Ray passes it to its workers.

    Each process writes its sums into a file of the folder after each write.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.sums: Seconds = dict.fromkeys(PARTS, (0.0, 0.0))
        self._start = time.process_time(), time.perf_counter()
        self._locked: tuple[float, float, float, int] | None = None
        self._wrap(Pipeline, "parse", "reader")
        self._wrap(PostgresEngine, "_index_vectors", "HNSW")
        self._wrap(writer, "write", "database")
        self._wrap(writer, "lock", "wait")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.folder,)

    def embed_documents(self, texts: list[str]) -> Matrix:
        with self._measured("embedder"):
            return super().embed_documents(texts)

    def _wrap(self, owner: Any, name: str, part: str) -> None:
        """Let a function be measured."""
        original = getattr(owner, name)
        ended = {"wait": self._begin_lock, "database": self._end_lock, "HNSW": self._store}.get(part)

        def measured(*arguments: Any, **settings: Any) -> Any:
            with self._measured(part):
                result = original(*arguments, **settings)
            if ended is not None:
                ended(*arguments)
            return result

        setattr(owner, name, measured)

    @contextmanager
    def _measured(self, part: str) -> Iterator[None]:
        cpu, start = time.process_time(), time.perf_counter()
        try:
            yield
        finally:
            self._add(part, time.process_time() - cpu, time.perf_counter() - start)

    def _add(self, part: str, cpu: float, elapsed: float) -> None:
        before = self.sums[part]
        self.sums[part] = before[0] + cpu, before[1] + elapsed

    def _begin_lock(self, cursor: Any, *_: Any) -> None:
        server = cursor.connection.info.backend_pid
        self._locked = time.process_time(), time.perf_counter(), cpu_of(server), server

    def _end_lock(self, *_: Any) -> None:
        """Count what a write did since it got the lock: it is committed now."""
        if self._locked is not None:
            cpu, start, of_server, server = self._locked
            elapsed = time.perf_counter() - start
            self._add("lock", time.process_time() - cpu, elapsed)
            self._add("lock, server", cpu_of(server) - of_server, elapsed)
            self._locked = None
        self._store()

    def _store(self, *_: Any) -> None:
        cpu, start = self._start
        self.sums["process"] = time.process_time() - cpu, time.perf_counter() - start
        (self.folder / f"{os.getpid()}.json").write_text(json.dumps(self.sums), encoding="utf-8")


def total(folder: Path) -> Seconds:
    """Return the sums of all processes."""
    reports = [json.loads(file.read_text(encoding="utf-8")) for file in folder.glob("*.json")]
    return {part: (sum(one[part][0] for one in reports), sum(one[part][1] for one in reports)) for part in PARTS}


def cpu_of(process: int) -> float:
    """Return the CPU seconds of a process of this machine; 0 if there is none."""
    with suppress(OSError):
        return int(Path(f"/proc/{process}/schedstat").read_text(encoding="utf-8").split()[0]) / 1e9
    return 0.0


def cpu_of_server(url: str) -> float:
    """Return the CPU seconds of all processes of a server, those that ended too; 0 if it is on another machine."""
    with psycopg.connect(url) as connection, suppress(OSError):
        parent = _stat(connection.info.backend_pid)[1]
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="utf-8").split()
        ended = sum(_stat(parent)[13:15]) / os.sysconf("SC_CLK_TCK")
        return ended + sum(cpu_of(process) for process in (parent, *map(int, children)))
    return 0.0


def _stat(process: int) -> list[int]:
    """Return the numbers of a process that follow its name, beginning with its state, which is given as 0."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return [0, *map(int, fields[1:])]
