"""The graph is legible: nothing overlaps, the paths do not cross, and it is always the same."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from answers import ALL, CROWD, PORTAL, TONGUES, entity, explained, hit, passage

from graphrag_apps.page.layout import layout
from graphrag_apps.page.network import build_network
from graphrag_core import Result


def test_only_paths_are_drawn():
    """Facts that support the result and lead to no passage are listed below the graph."""
    nodes = build_network(PORTAL).nodes
    assert {"entity keyring", "entity tallinn", "entity mars"}.isdisjoint(nodes)
    assert all(node.hits for node in nodes.values())
    unused = explained("?", "graph", (hit(passage("p"), rank=1),), (entity("B"),))
    assert "entity b" not in build_network(unused).nodes


def test_paths_are_drawn_however_many_they_are():
    many = Result("?", "graph", tuple(hit(passage(f"p{n}"), "A", f"B{n}", rank=n) for n in range(1, 61)))
    assert len(build_network(many).nodes) == 1 + 1 + 60 + 60 + 60


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


@pytest.mark.parametrize("answer", ALL.values(), ids=ALL)
def test_a_line_that_passes_a_column_runs_between_its_boxes(answer):
    placed = layout(build_network(answer))
    for line in placed.lines:
        for x, y in line.points[1:-1]:
            over = [b for b in placed.boxes if abs(b.x - x) < b.width / 2 and abs(b.y - y) < b.height / 2]
            assert not over


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


def test_paths_that_meet_again_are_drawn_without_overlap():
    """Not a tree: two paths lead to one entity, and a later path reaches it in fewer steps."""
    answer = Result(
        "?",
        "graph",
        (
            hit(passage("p"), "A", "B", "C", "X"),
            hit(passage("q"), "D", "X", rank=2),
            hit(passage("r"), "C", "E", rank=3),
            hit(passage("s"), "B", "A", "E", rank=4),
        ),
    )
    placed = layout(build_network(answer))
    for a, b in combinations(placed.boxes, 2):
        assert abs(a.x - b.x) >= (a.width + b.width) / 2 or abs(a.y - b.y) >= (a.height + b.height) / 2
    assert len(placed.lines) == len(build_network(answer).edges)


def test_the_same_answer_is_drawn_the_same():
    first, second = (layout(build_network(CROWD)) for _ in range(2))
    assert first.lines == second.lines
    assert [(box.x, box.y, box.lines) for box in first.boxes] == [(box.x, box.y, box.lines) for box in second.boxes]


def test_labels_keep_their_own_direction():
    lines = {line for box in layout(build_network(TONGUES)).boxes for line in box.lines if box.node.kind == "passage"}
    anchors = {text.strip("\u2067\u2069"): (text[0], anchor) for text, _, _, anchor in lines}
    assert anchors["בתל אביב"] == ("\u2067", "end")
    assert anchors["认证服务的登录流程与密钥"] == ("认", "start")
