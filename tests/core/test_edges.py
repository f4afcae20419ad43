"""Explicit edges from metadata: what they link, how they are named, and that they are exact."""

from __future__ import annotations

import itertools

import pytest
from support import snapshot

from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import InputError
from graphrag_core.strategies import ExpansionQueries, Neighbourhood, PageRank, RelatedEntities, SpreadingActivation
from graphrag_core.testing import HashEmbedder

EDGES = [("author", "author"), ("links", "id")]
DOCUMENTS = [
    Document("k-77f0", "Kestrels hover above meadows.", "Kestrels", {"author": "Mara Lindqvist", "links": ["f-01aa"]}),
    Document("l-90bc", "Lupins grow in acid soil.", "Lupins", {"author": ["Tomas Vael", "Mara Lindqvist"]}),
    Document("f-01aa", "Spores are how these plants spread.", "Ferns", {"author": "Rosa Millan"}),
    Document("g-5d5d", "Granite forms slowly.", "Granite", {"links": ["b-0001"]}),
]


def make(documents=DOCUMENTS, edges=EDGES, embedder=None, **settings):
    index = KnowledgeIndex(embedder, edges=edges, progress=False, **settings)
    index.add(documents)
    return index


def facts(index, name):
    return sorted(fact.text for fact in index.graph.facts(name) if fact.relation)


# -- what an edge is


@pytest.mark.parametrize("wrong", ["author", {"a": "b"}, [("a", "b", "c")], [("id", "$id")], [("", "a")], [3], 5])
def test_what_is_no_edge_is_refused_with_the_right_form(wrong):
    with pytest.raises(InputError, match="edge"):
        KnowledgeIndex(edges=wrong)


# -- what it links, worked out by hand


def test_a_shared_value_is_an_entity_of_the_type_of_its_field():
    index = make()
    mara = index.graph.entity("mara lindqvist")
    assert (mara.name, mara.type, mara.mentions) == ("Mara Lindqvist", "author", 2)
    assert facts(index, "Mara Lindqvist") == ["Kestrels author: Mara Lindqvist", "Lupins author: Mara Lindqvist"]
    # Each fact weighs 10: the edge between the two ends weighs 10 / 10.
    assert [(entity.name, weight) for entity, weight in index.graph.neighbours("Mara Lindqvist")] == [
        ("Kestrels", 1.0),
        ("Lupins", 1.0),
    ]


def test_an_id_leads_to_the_document_and_is_no_name():
    index = make()
    assert facts(index, "Kestrels") == ["Kestrels author: Mara Lindqvist", "Kestrels links: Ferns"]
    assert [entity.name for entity, _ in index.graph.neighbours("Kestrels")] == ["Ferns", "Mara Lindqvist"]
    assert facts(index, "Ferns") == ["Ferns author: Rosa Millan", "Kestrels links: Ferns"]
    assert index.graph.entity("f-01aa") is None
    result = GraphRetriever(index).retrieve("f-01aa Kestrels")
    assert [entity.name for entity in result.entities] == ["Kestrels"]
    assert "f-01aa" not in result.context(500).replace("f-01aa Kestrels", "")


def test_a_link_to_a_document_that_is_missing_becomes_an_edge_when_it_arrives():
    index = make()
    assert facts(index, "Granite") == []
    assert not any("Granite links" in fact.text for fact in GraphRetriever(index).retrieve("Granite links").facts)
    index.add([Document("b-0001", "Basalt is dark.", "Basalt")])
    assert facts(index, "Granite") == ["Granite links: Basalt"]
    index.delete("b-0001")
    assert facts(index, "Granite") == []
    assert index.verify()


def test_other_target_fields_name_the_document_or_the_value_that_several_share():
    documents = [
        Document("1", "First text.", "One", {"cites": ["10.1/A", "x"], "doi": "10.1/B"}),
        Document("2", "Second text.", "Two", {"doi": "10.1/A", "topic": "x"}),
        Document("3", "Third text.", "Three", {"doi": "10.1/a", "topic": "x"}),
    ]
    index = make(documents, [("cites", "doi"), ("cites", "topic")])
    assert facts(index, "One") == ["One cites: Two", "One cites: x"]  # upper and lower case differ


@pytest.mark.parametrize(
    "strategy", [PageRank(), Neighbourhood(), SpreadingActivation(), ExpansionQueries(), RelatedEntities()]
)
def test_every_strategy_follows_them(strategy):
    found, without = (
        {
            hit.chunk.title
            for hit in GraphRetriever(make(edges=edges), graph=strategy, method="graph").retrieve("About Kestrels")
        }
        for edges in (EDGES, None)
    )
    assert found >= {"Kestrels", "Ferns", "Lupins"}
    assert without <= {"Kestrels"}


def test_reasons_and_the_context_name_the_field():
    result = GraphRetriever(make(), k=4).retrieve("kestrels hover above meadows lupins")
    linked = {hit.chunk.title: hit.link.entity for hit in result if hit.link}
    assert linked["Lupins"] == "author: Mara Lindqvist"
    context = GraphRetriever(make(), k=4).retrieve("What did Mara Lindqvist write?").context(500)
    assert "- Kestrels author: Mara Lindqvist" in context
    assert "- Mara Lindqvist (author)" in context


def test_a_scope_hides_the_other_end():
    documents = [
        Document("1", "First text.", "One", {"tenant": "a", "links": "2", "author": "Ada Byron"}),
        Document("2", "Second text.", "Two", {"tenant": "b", "author": "Ada Byron"}),
    ]
    result = GraphRetriever(make(documents)).retrieve("One", where={"tenant": "a"})
    assert [hit.chunk.id for hit in result] == ["1"]
    assert "Two" not in result.context(500)
    assert not any("Two" in fact.text for fact in result.facts)


# -- exactness and storage


def test_the_graph_does_not_depend_on_the_order_of_additions_and_deletions():
    wanted = snapshot(make(embedder=HashEmbedder()))
    for order in itertools.islice(itertools.permutations(DOCUMENTS), 0, None, 7):
        index = KnowledgeIndex(HashEmbedder(), edges=EDGES, progress=False)
        for document in order:
            index.add([document])
        index.add([Document("gone", "Gone.", "Gone", {"author": "Mara Lindqvist", "links": ["f-01aa"]})])
        index.delete("gone")
        assert snapshot(index) == wanted
        assert index.verify()


def test_the_setting_is_stored_and_kept(tmp_path):
    with KnowledgeIndex.open(tmp_path, HashEmbedder(), edges=EDGES) as index:
        index.add(DOCUMENTS[:2])
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as index:
        assert index.edges == (("author", "author"), ("links", "$id"))
        index.add(DOCUMENTS[2:])
        assert snapshot(index) == snapshot(make(embedder=HashEmbedder()))
        assert index.verify()
    with KnowledgeIndex.open(tmp_path, HashEmbedder(), read_only=True) as index:
        assert facts(index, "Kestrels") == ["Kestrels author: Mara Lindqvist", "Kestrels links: Ferns"]


@pytest.mark.parametrize("edges", [["author"], [("links", "id")], []])
def test_other_edges_are_refused_for_a_filled_index(tmp_path, edges):
    with KnowledgeIndex.open(tmp_path, edges=EDGES) as index:
        index.add(DOCUMENTS)
    for read_only in (False, True):
        with pytest.raises(InputError, match="leave edges out"):
            KnowledgeIndex.open(tmp_path, edges=edges, read_only=read_only)
        same = [("links", "id"), "author"]
        KnowledgeIndex.open(tmp_path, edges=same, read_only=read_only).close()
