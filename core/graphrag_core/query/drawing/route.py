"""How a line runs from box to box."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from graphrag_core.query.drawing.network import Edge

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Line:
    """An edge in its place: where it starts, passes (in and out of a column) and ends."""

    edge: Edge
    points: tuple[Point, ...]
    bow: bool = False
    """Whether it joins two boxes of one column."""


def curve(line: Line) -> str:
    """Return a line as the data of an SVG path, level where it leaves and arrives."""
    (x, y), *rest = line.points
    if line.bow:
        (other_x, other_y) = rest[0]
        out = max(x, other_x) + 18 + min(40.0, abs(other_y - y) / 6)
        return f"M{x:.1f} {y:.1f}C{out:.1f} {y:.1f} {out:.1f} {other_y:.1f} {other_x:.1f} {other_y:.1f}"
    drawn = [f"M{x:.1f} {y:.1f}"]
    for (x, y), (next_x, next_y) in pairwise(line.points):
        middle = (x + next_x) / 2
        drawn.append(
            f"L{next_x:.1f} {next_y:.1f}"
            if y == next_y
            else f"C{middle:.1f} {y:.1f} {middle:.1f} {next_y:.1f} {next_x:.1f} {next_y:.1f}"
        )
    return "".join(drawn)


def halfway(line: Line) -> Point:
    """Return where a line's mark stands: the middle of its first piece."""
    (x, y), (next_x, next_y) = line.points[:2]
    if line.bow:
        out = max(x, next_x) + 18 + min(40.0, abs(next_y - y) / 6)
        return (x + 6 * out + next_x) / 8, (y + next_y) / 2
    return (x + next_x) / 2, (y + next_y) / 2
