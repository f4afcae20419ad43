"""The graph is legible: nothing overlaps, the paths do not cross, and it is always the same."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from answers import ALL, CROWD, PORTAL, TONGUES, entity, explained, hit, passage

from graphrag_apps.page.layout import layout
from graphrag_apps.page.network import build_network
from graphrag_core import Result


def edges(drawn) -> dict[tuple[str, str], tuple[str, set[int]]]:
    return {ends: (edge.kind, edge.hits) for ends, edge in drawn.edges.items()}


def test_a_path_becomes_edges_with_the_ranks_of_their_hits():
    drawn = edges(build_network(PORTAL))
    assert drawn["question", "entity partner portal"] == ("names", {1, 2, 3})
    assert drawn["entity partner portal", "passage 1"] == ("mention", {1})
    fact = "fact Partner Portal needs Oauth."
    assert drawn["entity partner portal", fact] == drawn[fact, "entity oauth"] == ("fact", {2, 3})
    assert drawn["entity oauth", "passage 3"] == ("mention", {3})
    assert drawn["question", "passage 4"] == ("match", {4})


def test_columns_run_from_the_question_to_the_passages():
    columns = {key: node.column for key, node in build_network(PORTAL).nodes.items()}
    assert columns["question"] == 0
    assert columns["entity partner portal"] == 1
    assert columns["fact Partner Portal needs Oauth."] == 2
    assert columns["entity oauth"] == 3
    assert {columns[f"passage {rank}"] for rank in (1, 2, 3, 4)} == {4}


def test_only_paths_are_drawn():
    """Facts that support the result and lead to no passage are listed below the graph."""
    nodes = build_network(PORTAL).nodes
    assert {"entity keyring", "entity tallinn", "entity mars"}.isdisjoint(nodes)
    assert all(node.hits for node in nodes.values())
    unused = explained("?", "graph", (hit(passage("p"), rank=1),), (entity("B"),))
    assert "entity b" not in build_network(unused).nodes


def test_a_longer_path_gets_more_columns_and_a_shorter_one_decides():
    long = hit(passage("d"), "A", "B", "C")
    assert [n.column for n in build_network(Result("?", "graph", (long,))).nodes.values()] == [0, 1, 2, 3, 4, 5, 6]
    both = Result("?", "graph", (long, hit(passage("e"), "A", "C", rank=2)))
    assert build_network(both).nodes["entity c"].column == 3


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


@pytest.mark.parametrize("answer", ALL.values(), ids=ALL)
def test_columns_stand_from_left_to_right(answer):
    placed = layout(build_network(answer))
    for a, b in combinations(placed.boxes, 2):
        if a.node.column < b.node.column:
            assert a.x + a.width / 2 < b.x - b.width / 2
        elif a.node.column == b.node.column:
            assert a.x == b.x


def branches(drawn) -> dict[str, list[int]]:
    """The ranks of the passages that hang on each box, from above."""
    found: dict[str, list[int]] = {}
    paths = [edge for edge in drawn.edges.values() if edge.kind != "link"]
    for box in sorted(layout(drawn).boxes, key=lambda box: box.y):
        if box.node.kind == "passage":
            (source,) = (edge.source for edge in paths if edge.target == box.node.key)
            found.setdefault(source, []).extend(box.node.hits)
    return found


@pytest.mark.parametrize("answer", ALL.values(), ids=ALL)
def test_passages_of_a_branch_stand_together_in_the_order_of_their_ranks(answer):
    assert all(ranks == sorted(ranks) for ranks in branches(build_network(answer)).values())


def test_the_branch_of_the_best_passage_comes_first():
    stations = ["B", "A", "B", "C", "A", "D", "E", "F", "G", "H", "C", "I"]
    answer = Result("?", "graph", tuple(hit(passage(f"p{n}"), name, rank=n) for n, name in enumerate(stations, 1)))
    found = branches(build_network(answer))
    assert list(found) == [f"entity {name}" for name in "bacdefghi"]
    assert found["entity c"] == [4, 11]


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


def test_entities_stand_in_the_order_of_the_passages_that_they_lead_to():
    letters = "ABCD"
    answer = Result(
        "?",
        "graph",
        tuple(hit(passage(name), name, f"{name}2", rank=rank) for rank, name in enumerate(letters, 1)),
        tuple(entity(name) for name in "CADB"),
    )
    placed = layout(build_network(answer))
    assert crossings(placed) == 0
    named = sorted((box for box in placed.boxes if box.node.kind == "named"), key=lambda box: box.y)
    assert [box.node.text for box in named] == list(letters)


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
