"""The graph, built from rows of the records.

The graph of these tests: chunk 0 has the subject entity 100 (names 0 and 1) and mentions 200
(name 2); chunk 1 mentions 200 and 300 (name 3). Each chunk has one fact of all it mentions.
"""

from __future__ import annotations

import numpy as np
import pytest

from graphrag_core.engine.embedded.graph_tables import GraphTables
from graphrag_core.engine.embedded.schema import pack
from graphrag_core.engine.graph.edits import GraphEdits
from graphrag_core.engine.graph.masked import LiveUses, MaskedGraph
from graphrag_core.engine.graph.scoped import ScopedGraph

NONE = np.empty(0, np.int64)
NAMES = {0: ("Auth Service", 100), 1: ("auth_service", 100), 2: ("Mara", 200), 3: ("Uppsala", 300)}
CHUNKS = {0: ("No word.", 1, [0, 1, 2]), 1: ("Nor here.", 0, [2, 3])}
REST = (1.0, "file", "confirmed", None, None, None, 0)
FACTS = {0: (0, [0, 2], 3.0), 1: (1, [2, 3], 8.0)}


def rows(*, aliases=()):
    chunks = [
        (key, str(key), key, 0, 0, text, subjects, pack(names)) for key, (text, subjects, names) in CHUNKS.items()
    ]
    facts = [
        (key, chunk, 0, 0, len(CHUNKS[chunk][0]), None, pack(names), None, weight, *REST)
        for key, (chunk, names, weight) in FACTS.items()
    ]
    names = [(key, name, name.lower().replace("_", " "), entity, 1) for key, (name, entity) in NAMES.items()]
    return {"names": names, "chunks": chunks, "facts": facts, "aliases": aliases}


def entity_ids(graph):
    return graph.graph.entity_ids.tolist()


def edges_to(graph, kind):
    """Return the weights of the edges of all nodes to chunks or entities, as a matrix."""
    live = graph.graph
    found = live.edges(np.arange(live.node_limit), kind)
    matrix = np.zeros((live.node_limit, live.node_limit))
    matrix[np.repeat(np.arange(live.node_limit), found.counts), found.targets] = found.weights
    return matrix[:, live.first_entity :] if kind == "entities" else matrix[:, : live.first_entity]


def filled(**changed):
    graph = GraphTables()
    graph.add(rows(**changed))
    return graph


def test_an_empty_graph():
    graph = GraphTables().graph
    assert len(graph.entity_ids) == len(graph.chunk_keys) == len(graph.fact_keys) == 0
    assert graph.linked_share == 0


def test_names_of_one_entity_are_one():
    assert entity_ids(filled()) == [100, 200, 300]
    assert filled().graph.of_names(np.arange(4)).tolist() == [2, 2, 3, 4]


def test_mentions_and_subjects():
    assert edges_to(filled(), "entities")[:2].tolist() == [[6, 1, 0], [0, 1, 1]]


def test_edges_weigh_the_sum_of_their_facts():
    # 0.3 from the fact of weight 3, 0.8 from the fact of weight 8, nothing to itself
    assert np.allclose(edges_to(filled(), "entities")[2:], [[0, 0.3, 0], [0.3, 0, 0.8], [0, 0.8, 0]])


def test_edges_lead_to_mentions_subjects_and_linked_entities():
    graph = filled().graph
    edges = graph.edges(np.arange(5))
    assert edges.counts.tolist() == [2, 2, 2, 4, 2]
    assert edges.targets.tolist() == [2, 3, 3, 4, 0, 3, 0, 1, 2, 4, 1, 3]
    assert np.allclose(edges.weights, [6, 1, 1, 1, 6, 0.3, 1, 1, 0.3, 0.8, 1, 0.8])


@pytest.mark.parametrize("is_masked", [True, False])
def test_a_walk_goes_over_mentions_alone(is_masked):
    live = filled().graph
    graph = MaskedGraph(live, np.array([True, True])) if is_masked else live
    edges = graph.walk(np.arange(5))
    assert edges.counts.tolist() == graph.degrees(np.arange(5)).tolist() == [2, 2, 1, 2, 1]
    assert edges.targets.tolist() == [2, 3, 3, 4, 0, 0, 1, 1]
    assert edges.weights.tolist() == [6, 1, 1, 1, 6, 1, 1, 1]
    assert edges.totals.tolist() == [7, 2, 6, 2, 1]


def test_an_alias_is_the_same_entity_while_its_chunk_exists():
    graph = filled(aliases=[(0, 2, 0)])  # chunk 0: 200 is short for 100
    assert entity_ids(graph) == [100, 300]
    graph.remove(np.array([0]), np.array([0, 1]))
    assert entity_ids(graph) == [200, 300]


def test_an_ambiguous_short_name_stays_on_its_own():
    assert entity_ids(filled(aliases=[(0, 3, 0), (1, 3, 2)])) == [100, 200, 300]


def test_similar_names_are_merged_until_they_are_not():
    graph = filled()
    graph.merge((np.array([2]), np.array([3])))
    assert entity_ids(graph) == [100, 200]
    graph.merge((NONE, NONE))
    assert entity_ids(graph) == [100, 200, 300]


def test_removal_removes_what_addition_added():
    graph = filled()
    graph.remove(np.array([1]), np.array([3]))
    assert entity_ids(graph) == [100, 200]
    assert graph.graph.fact_keys.tolist() == [0]
    assert np.allclose(edges_to(graph, "entities")[1:], [[0, 0.3], [0.3, 0]])


@pytest.mark.parametrize("is_masked", [True, False])
def test_a_scope_has_nothing_else(is_masked):
    graph = filled(aliases=[(0, 3, 2)]).graph  # the alias is chunk 0's
    visible = np.array([False, True])
    uses = LiveUses(graph, visible)
    scoped = MaskedGraph(graph, visible) if is_masked else ScopedGraph(uses, 0.0, GraphEdits(), has_edits=False)
    found = scoped.find([100, 200, 300])
    assert [*found] == [200, 300]
    entities = np.array([*found.values()])
    assert scoped.facts_of(entities)[1].tolist() == [1, 1]
    edges = scoped.edges(entities)
    assert edges.targets.tolist() == [1, entities[1], 1, entities[0]]
    assert np.allclose(edges.weights, [1, 0.8, 1, 0.8])


def test_comes_back_from_disk(tmp_path):
    graph = filled()
    graph.save(tmp_path)
    again = GraphTables()
    again.load(tmp_path)
    for name, array in graph.graph.arrays().items():
        assert np.array_equal(again.graph.arrays()[name], array), name
    again.remove(np.array([0]), np.array([0, 1]))
    assert entity_ids(again) == [200, 300]
