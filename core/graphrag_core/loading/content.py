"""What a reader makes of a file: contents, and rows it could not read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Content:
    """A text with what the file says of it; ``key`` tells the rows of one file apart."""

    text: str
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """A row that cannot be read, and why."""

    key: str
    reason: str
