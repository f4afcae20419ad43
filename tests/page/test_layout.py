"""The graph is legible: nothing overlaps, the paths do not cross, and it is always the same."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from answers import ALL

from graphrag_apps.page.layout import layout
from graphrag_apps.page.network import build_network


@pytest.mark.parametrize("answer", ALL.values(), ids=ALL)
def test_boxes_never_overlap_and_stay_inside(answer):
    placed = layout(build_network(answer))
    for box in placed.boxes:
        assert box.x - box.width / 2 >= 0
        assert box.x + box.width / 2 <= placed.width
        assert box.y - box.height / 2 >= 0
        assert box.y + box.height / 2 <= placed.height
    for a, b in combinations(placed.boxes, 2):
        assert abs(a.x - b.x) >= (a.width + b.width) / 2 or abs(a.y - b.y) >= (a.height + b.height) / 2


def crossings(placed) -> int:
    """How many pairs of lines on paths cross, between the same two columns."""
    segments = [
        ((x, y), (next_x, next_y))
        for line in placed.lines
        if not line.same_column
        for (x, y), (next_x, next_y) in pairwise(
            [line.points[0], *((placed.centres[column], y) for column, y in passed(line, placed)), line.points[-1]]
        )
    ]
    return sum(
        (a[1] - c[1]) * (b[1] - d[1]) < 0
        for (a, b), (c, d) in combinations(segments, 2)
        if max(a[0], c[0]) < min(b[0], d[0])
    )


def passed(line, placed) -> list[tuple[int, float]]:
    middles = [
        ((x + right) / 2, y) for (x, y), (right, _) in zip(line.points[1:-1:2], line.points[2:-1:2], strict=True)
    ]
    return [(min(range(len(placed.centres)), key=lambda at: abs(placed.centres[at] - x)), y) for x, y in middles]


@pytest.mark.parametrize("answer", ALL.values(), ids=ALL)
def test_paths_do_not_cross(answer):
    assert crossings(layout(build_network(answer))) == 0
