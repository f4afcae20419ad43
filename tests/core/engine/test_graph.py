"""The graph, built from rows of the records.

The graph of these tests: chunk 0 has the subject entity 100 (names 0 and 1) and mentions 200
(name 2); chunk 1 mentions 200 and 300 (name 3). Each chunk has one fact of all it mentions.
"""

from __future__ import annotations

import numpy as np

from graphrag_core.engine.embedded.graph_tables import GraphTables
from graphrag_core.engine.embedded.schema import pack
from graphrag_core.engine.graph.edits import GraphEdits
from graphrag_core.engine.graph.live import LiveUses
from graphrag_core.engine.graph.scoped import ScopedGraph

NONE = np.empty(0, np.int64)
NAMES = {0: ("Auth Service", 100), 1: ("auth_service", 100), 2: ("Mara", 200), 3: ("Uppsala", 300)}
CHUNKS = {0: ("No word.", 1, [0, 1, 2]), 1: ("Nor here.", 0, [2, 3])}
REST = (1.0, "file", "confirmed", None, None, None, 0)
FACTS = {0: (0, [0, 2], 3.0), 1: (1, [2, 3], 8.0)}


def rows(*, texts=None, aliases=()):
    texts = texts or {}
    chunks = [
        (key, str(key), key, 0, 0, texts.get(key, text), subjects, pack(names))
        for key, (text, subjects, names) in CHUNKS.items()
    ]
    facts = [
        (key, chunk, 0, 0, len(texts.get(chunk, CHUNKS[chunk][0])), None, pack(names), None, weight, *REST)
        for key, (chunk, names, weight) in FACTS.items()
    ]
    names = [(key, name, name.lower().replace("_", " "), entity, 1) for key, (name, entity) in NAMES.items()]
    return {"names": names, "chunks": chunks, "facts": facts, "aliases": aliases}


def view_of(graph):
    return graph.graph.state()[0]


def filled(**changed):
    graph = GraphTables()
    graph.add(rows(**changed))
    return graph


def test_an_empty_graph_has_a_view():
    view = view_of(GraphTables())
    assert len(view.entity_ids) == len(view.chunk_keys) == len(view.fact_keys) == 0
    assert GraphTables().graph.linked_share == 0


def test_names_of_one_entity_are_one():
    view = view_of(filled())
    assert view.entity_ids.tolist() == [100, 200, 300]
    assert view.name_entity.tolist() == [0, 0, 1, 2]


def test_mentions_and_subjects():
    view = view_of(filled())
    assert view.mentions.toarray().tolist() == [[1, 1, 0], [0, 1, 1]]
    assert view.subjects.toarray().tolist() == [[1, 0, 0], [0, 0, 0]]


def test_edges_weigh_the_sum_of_their_facts():
    # 0.3 from the fact of weight 3, 0.8 from the fact of weight 8, nothing to itself
    assert np.allclose(view_of(filled()).exact_links.toarray(), [[0, 0.3, 0], [0.3, 0, 0.8], [0, 0.8, 0]])


def test_edges_lead_to_mentions_subjects_and_linked_entities():
    graph = filled().graph
    edges = graph.edges(np.arange(5))
    assert edges.counts.tolist() == [2, 2, 2, 4, 2]
    assert edges.targets.tolist() == [2, 3, 3, 4, 0, 3, 0, 1, 2, 4, 1, 3]
    assert np.allclose(edges.weights, [6, 1, 1, 1, 6, 0.3, 1, 1, 0.3, 0.8, 1, 0.8])
    assert graph.degrees(np.arange(5)).tolist() == [2, 2, 2, 4, 2]


def test_a_lower_case_name_is_a_mention():
    graph = filled(texts={1: "ask the auth service there"})
    view = view_of(graph)
    assert view.mentions.toarray().tolist() == [[1, 1, 0], [1, 1, 1]]
    assert np.allclose(view.exact_links.toarray()[0], [0, 1.1, 0.8])
    assert graph.graph.linked_share == 0.5


def test_an_alias_is_the_same_entity_while_its_chunk_exists():
    graph = filled(aliases=[(1, 3, 2)])  # chunk 1: 300 is short for 200
    assert view_of(graph).entity_ids.tolist() == [100, 200]
    graph.remove(np.array([1]), NONE)
    assert view_of(graph).entity_ids.tolist() == [100, 200, 300]


def test_an_ambiguous_short_name_stays_on_its_own():
    assert view_of(filled(aliases=[(0, 3, 0), (1, 3, 2)])).entity_ids.tolist() == [100, 200, 300]


def test_similar_names_are_merged_until_they_are_not():
    graph = filled()
    graph.merge((np.array([2]), np.array([3])))
    assert view_of(graph).entity_ids.tolist() == [100, 200]
    graph.merge((NONE, NONE))
    assert view_of(graph).entity_ids.tolist() == [100, 200, 300]


def test_removal_removes_what_addition_added():
    graph = filled()
    graph.remove(np.array([1]), np.array([3]))
    assert view_of(graph).entity_ids.tolist() == [100, 200]
    assert view_of(graph).fact_keys.tolist() == [0]
    assert np.allclose(view_of(graph).exact_links.toarray(), [[0, 0.3], [0.3, 0]])


def test_a_scope_has_nothing_else():
    graph = filled(aliases=[(0, 3, 2)]).graph  # the alias is chunk 0's
    scoped = ScopedGraph(LiveUses(graph, np.array([False, True])), 0.0, GraphEdits(), has_edits=False)
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
    for name, array in view_of(graph).arrays().items():
        assert np.array_equal(view_of(again).arrays()[name], array), name
    again.remove(np.array([0]), np.array([0, 1]))
    assert view_of(again).entity_ids.tolist() == [200, 300]
