"""What an attack reports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Row(NamedTuple):
    """The result of one attack: how often it was tried, how often it failed, and how the other runs ended."""

    attack: str
    runs: int
    failures: int
    outcomes: str


def table(rows: Iterable[Row]) -> str:
    """Return results as a Markdown table."""
    lines = ["| attack | runs | failures | outcomes |", "|---|---|---|---|"]
    lines += [f"| {row.attack} | {row.runs:,} | {row.failures} | {row.outcomes} |" for row in rows]
    return "\n".join(lines) + "\n"
