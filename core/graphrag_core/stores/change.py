"""What one or more generations did to the records, in keys."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from graphrag_core.ports import Keys

Span = tuple[int, int]
"""Keys from the first up to, but not with, the second."""


def no_keys() -> Keys:
    """Return an empty array of keys."""
    return np.empty(0, np.int64)


def pack(keys: Sequence[int] | Keys) -> bytes:
    """Return keys as bytes."""
    return _layout(len(keys)).pack(*keys)


@lru_cache(maxsize=256)
def _layout(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}q")


def unpack(data: bytes) -> Keys:
    """Return the keys that :func:`pack` packed."""
    return np.frombuffer(data, dtype="<i8").astype(np.int64)


@dataclass(frozen=True, slots=True)
class Change:
    """The way from one generation to a later one.

    New rows lie in spans of keys; some of them may be gone again already.
    """

    generation: int
    chunks: Span = (0, 0)
    facts: Span = (0, 0)
    names: Span = (0, 0)
    chunks_gone: Keys = field(default_factory=no_keys)
    facts_gone: Keys = field(default_factory=no_keys)
    names_gone: Keys = field(default_factory=no_keys)

    def row(self) -> tuple[Any, ...]:
        """Return the change as a row of the journal."""
        gone = (pack(self.chunks_gone), pack(self.facts_gone), pack(self.names_gone))
        return (self.generation, *self.chunks, *self.facts, *self.names, *gone)

    @classmethod
    def joined(cls, rows: Sequence[Sequence[Any]]) -> Change:
        """Return several rows of the journal, in order, as one change."""
        first, last = rows[0], rows[-1]
        return cls(
            last[0],
            chunks=(first[1], last[2]),
            facts=(first[3], last[4]),
            names=(first[5], last[6]),
            chunks_gone=unpack(b"".join(row[7] for row in rows)),
            facts_gone=unpack(b"".join(row[8] for row in rows)),
            names_gone=unpack(b"".join(row[9] for row in rows)),
        )
