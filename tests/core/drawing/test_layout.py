"""The drawing is legible: nothing overlaps, few lines cross, and it is always the same."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest
from answers import ALL, CROWD, PORTAL, entity, hit, passage
from hypothesis import given
from hypothesis import strategies as st

from graphrag_core import Fact, Result
from graphrag_core.query.drawing.layers import crossings, layers
from graphrag_core.query.drawing.layout import layout, spread
from graphrag_core.query.drawing.network import MOST_AROUND, MOST_NODES, network


def edges(drawn) -> dict[tuple[str, str], tuple[str, set[int]]]:
    return {ends: (edge.kind, edge.hits) for ends, edge in drawn.edges.items()}


def test_a_path_becomes_lines_that_know_their_hits():
    drawn = edges(network(PORTAL))
    assert drawn["question", "entity partner portal"] == ("names", {1, 2, 3})
    assert drawn["entity partner portal", "passage 1"] == ("mention", {1})
    assert drawn["entity partner portal", "entity oauth"] == ("fact", {2, 3})
    assert drawn["entity oauth", "passage 3"] == ("mention", {3})
    assert drawn["question", "passage 4"] == ("words", {4})


def test_facts_around_the_paths_are_drawn_from_what_is_there():
    drawn = network(PORTAL)
    assert edges(drawn)["entity oauth", "entity keyring"] == ("fact", set())
    assert edges(drawn)["entity keyring", "entity tallinn"] == ("fact", set())
    assert "entity mars" not in drawn.nodes
    assert drawn.left_out == 1
    assert drawn.edges["entity partner portal", "entity oauth"].texts == ["Partner Portal needs Oauth."]


def test_the_order_of_facts_does_not_hide_one_that_another_leads_to():
    backwards = replace(PORTAL, facts=PORTAL.facts[::-1])
    assert network(backwards).nodes.keys() == network(PORTAL).nodes.keys()


def test_columns_run_from_the_question_to_the_passages():
    columns = {key: node.column for key, node in network(PORTAL).nodes.items()}
    assert columns["question"] == 0
    assert columns["entity partner portal"] == 1
    assert columns["entity oauth"] == columns["entity keyring"] == 2
    assert {columns[f"passage {rank}"] for rank in (1, 2, 3, 4)} == {3}


def test_a_longer_path_gets_more_columns_and_a_shorter_one_decides():
    long = hit(passage("d"), "A", "B", "C")
    assert [n.column for n in network(Result("?", "graph", (long,))).nodes.values()] == [0, 4, 1, 2, 3]
    both = Result("?", "graph", (long, hit(passage("e"), "A", "C", rank=2)))
    assert network(both).nodes["entity c"].column == 2


def test_the_surroundings_are_kept_small_and_say_what_is_missing():
    drawn = network(CROWD)
    assert drawn.around <= MOST_AROUND
    assert len(drawn.nodes) <= MOST_NODES
    assert drawn.left_out == 200 - drawn.around


def test_paths_are_drawn_however_many_they_are():
    many = Result("?", "graph", tuple(hit(passage(f"p{n}"), "A", f"B{n}", rank=n) for n in range(1, 61)))
    assert len(network(many).nodes) == 1 + 1 + 60 + 60


def test_a_fact_of_three_is_drawn_from_the_one_that_is_there():
    answer = Result("?", "graph", entities=(entity("B"),), facts=(Fact(("a", "b", "c"), "A gave B to C."),))
    assert {ends for ends, (kind, _) in edges(network(answer)).items() if kind == "fact"} == {
        ("entity b", "entity a"),
        ("entity b", "entity c"),
    }


@pytest.mark.parametrize("answer", ALL.values(), ids=ALL)
def test_boxes_never_overlap_and_stay_inside(answer):
    placed = layout(network(answer))
    for box in placed.boxes:
        assert box.x - box.width / 2 >= 0
        assert box.x + box.width / 2 <= placed.width
        assert box.y - box.height / 2 >= 0
        assert box.y + box.height / 2 <= placed.height
    for a, b in combinations(placed.boxes, 2):
        assert abs(a.x - b.x) >= (a.width + b.width) / 2 or abs(a.y - b.y) >= (a.height + b.height) / 2


@pytest.mark.parametrize("answer", ALL.values(), ids=ALL)
def test_a_line_that_passes_a_column_runs_between_its_boxes(answer):
    placed = layout(network(answer))
    for line in placed.lines:
        for x, y in line.points[1:-1]:
            over = [b for b in placed.boxes if abs(b.x - x) < b.width / 2 and abs(b.y - y) < b.height / 2]
            assert not over


def test_passages_stand_in_the_order_of_their_ranks():
    placed = layout(network(CROWD))
    heights = [box.y for box in placed.boxes if box.node.kind == "passage"]
    assert heights == sorted(heights)


def test_what_is_on_no_path_stands_below_what_is():
    placed = layout(network(PORTAL))
    linked = {box.node.text: box.y for box in placed.boxes if box.node.kind == "linked"}
    assert linked["Oauth"] < min(linked["Keyring"], linked["Tallinn"])


def test_what_weighs_little_gives_way():
    assert spread([10, 10], [20, 20], 0, [1, 0]) == [10, 30]


def test_a_path_stays_straight_however_much_stands_around_it():
    around = tuple(Fact(("a", f"n{n}"), "Near.") for n in range(8))
    answer = Result("?", "graph", (hit(passage("p"), "A", "B"),), (entity("A"),), facts=around)
    heights = [box.y for box in layout(network(answer)).boxes if box.node.hits]
    assert heights == pytest.approx([heights[0]] * 4, abs=2)


def test_lines_that_need_not_cross_do_not():
    letters = "ABCD"
    answer = Result(
        "?",
        "graph",
        tuple(hit(passage(name), name, f"{name}2", rank=rank) for rank, name in enumerate(letters, 1)),
        tuple(entity(name) for name in "CADB"),
    )
    ordered = layers(network(answer))
    assert crossings(ordered, ordered.columns) == 0
    assert ordered.columns[1] == [f"entity {name.lower()}" for name in letters]


def test_the_same_answer_is_drawn_the_same():
    assert layout(network(CROWD)) == layout(network(CROWD))


@given(st.lists(st.tuples(st.floats(-500, 500), st.floats(1, 60)), min_size=1, max_size=12))
def test_spread_keeps_order_and_distance_and_moves_nothing_that_has_room(items):
    wanted, heights = [want for want, _ in items], [height for _, height in items]
    placed = spread(wanted, heights, 5, [1.0] * len(items))
    for (y, height), (below, other) in zip(
        zip(placed, heights, strict=True), list(zip(placed, heights, strict=True))[1:], strict=False
    ):
        assert below - y >= (height + other) / 2 + 5 - 1e-6
    assert sum(placed) == pytest.approx(sum(wanted), abs=1e-6)
    far = [2000.0 * at for at in range(len(items))]
    assert spread(far, heights, 5, [1.0] * len(items)) == pytest.approx(far)
