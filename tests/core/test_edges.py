"""Explicit edges from metadata: what they link, how they are named, and that they are exact."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support import snapshot

from graphrag_core import Chunker, Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import InputError, ReadOnlyIndex
from graphrag_core.ingest.edges import parse_edges, value_name, values
from graphrag_core.strategies import ExpansionQueries, Neighbourhood, PageRank, RelatedEntities, SpreadingActivation
from graphrag_core.testing import CountingEmbedder, HashEmbedder

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


def test_edges_are_pairs_a_field_alone_or_ids_in_any_of_their_names():
    class Id:
        """As langchain-graph-retriever writes it."""

    wanted = (("author", "author"), ("links", "$id"), ("parent", "$id"))
    assert parse_edges(["author", ("links", "id"), ["parent", "$id"]]) == wanted
    assert parse_edges([("author", "author"), ("links", Id()), (Id(), "parent")]) == wanted


@pytest.mark.parametrize("wrong", ["author", {"a": "b"}, [("a", "b", "c")], [("id", "$id")], [("", "a")], [3], 5])
def test_what_is_no_edge_is_refused_with_the_right_form(wrong):
    with pytest.raises(InputError, match="edge"):
        KnowledgeIndex(edges=wrong)


def test_values_are_scalars_lists_or_nested():
    document = Document("d", "…", metadata={"a": {"b": ["x", 2, 2.0, True, None, {"c": 1}]}, "a.c": "dotted"})
    assert values(document, "a.b") == ["x", "2", "true"]
    assert values(document, "a.c") == ["dotted"]
    assert values(document, "$id") == ["d"]
    assert values(Document("rows.csv#7", "…", metadata={"id": 7}), "$id") == ["rows.csv#7", "7"]
    assert values(document, "missing.field") == values(document, "a") == []


def test_only_a_value_that_is_written_like_a_name_becomes_one():
    assert value_name("author", "Ada Lovelace") == "Ada Lovelace"
    assert value_name("城市", "東京") == "東京"
    for value in ("jungle", "2020", "a1B2c3d4-5e6f-7a8b-9c0d", "https://Example.org/x", "Ada@example.org"):
        assert value_name("field", value) == f"field: {value}"


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


def test_documents_without_a_title_are_called_by_their_first_words():
    documents = [
        Document("1", "Otters swim well and they like cold rivers a lot.", metadata={"links": "2"}),
        Document("2", "Herons wait."),
    ]
    index = make(documents, [("links", "$id")])
    with index.engine.snapshot() as read:
        assert [fact.text for fact in read.facts(read.facts_of(read.top_entities(0)))] == []
    result = GraphRetriever(index).retrieve("otters rivers")
    assert "Otters swim well and they like cold rivers… links: Herons wait" in result.explain()


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


def test_a_shared_value_meets_the_same_name_in_the_text():
    documents = [
        Document("1", "First text.", "One", {"author": "Mara Lindqvist"}),
        Document("2", "The prize went to Mara Lindqvist.", "Prize"),
    ]
    assert make(documents).graph.entity("Mara Lindqvist").mentions == 2


# -- exactness and storage


def test_without_edges_nothing_changes():
    assert snapshot(make(edges=None)) == snapshot(make(edges=[]))
    assert "edges" not in make(edges=[]).engine.settings()


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


def test_addresses_of_edges_and_of_sections_are_not_confused():
    documents = [
        Document(f"d{at}", f"# Top\n\nOne thing is said.\n\n## Part {at}\n\nIt is told here.", f"Title {at}",
                 {"links": [f"d{at - 1}"]})
        for at in range(6)
    ]  # fmt: skip
    index = make(documents, chunker=Chunker(max_tokens=12, overlap=0, whole_until=12))
    with index.engine.snapshot() as read:
        every = np.arange(read.first_entity, read.node_limit)
        every = every[read._graph.are_addresses(every)]
        names = [name.surface for own in read._names_of(every) for name in own.values()]
        called = dict(zip(names, (entity.name for entity in read.entities(every)), strict=True))
    assert called["→=$id=d2"] == "Title 2"
    assert called["→d2#part-2"] == "Title 2 - Part 2"
    assert all(("Part" not in name) == ("#part" not in address) for address, name in called.items())


def test_the_setting_is_stored_before_anything_is_added(tmp_path):
    KnowledgeIndex.open(tmp_path, HashEmbedder(), edges=["author"]).close()
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as index:
        index.add([Document("a", "Kestrels hover.", metadata={"author": "Mara Lindqvist"})])
        assert index.graph.entity("Mara Lindqvist").type == "author"
        assert index.verify()
    KnowledgeIndex.open(tmp_path / "other", HashEmbedder(), edges=["author"]).close()
    KnowledgeIndex.open(tmp_path / "other", HashEmbedder(), edges=[]).close()
    with KnowledgeIndex.open(tmp_path / "other", HashEmbedder(), read_only=True) as reader:
        assert reader.edges == ()


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


@pytest.mark.parametrize("edges", [["author"], [("links", "id")], [("author", "links"), "author"], []])
def test_other_edges_are_derived_again_without_embedding_a_passage_again(tmp_path, edges):
    with KnowledgeIndex.open(tmp_path, HashEmbedder(), edges=EDGES) as index:
        index.add(DOCUMENTS)
    embedder = CountingEmbedder()
    with KnowledgeIndex.open(tmp_path, embedder, edges=edges, progress=False) as index:
        assert not any(document.text in text for document in DOCUMENTS for text in embedder.texts)
        fresh = make(edges=edges, embedder=HashEmbedder())
        assert snapshot(index) == snapshot(fresh)
        assert index.verify()
        assert index.add(DOCUMENTS).unchanged == len(DOCUMENTS)
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as index:
        assert set(index.edges) == set(parse_edges(edges))


def test_other_edges_keep_the_knowledge_that_an_extractor_found_once(tmp_path):
    class Once:
        identity = "once"
        calls = 0

        def extract(self, chunks):
            from graphrag_core import Extraction, Fact, Mention

            type(self).calls += 1
            mention = Mention("Acme", "company", "Makes things.", ("ACME Corp",), subject=True)
            return [Extraction((mention,), (Fact(("Acme", "Oslo"), "Acme sits in Oslo", "in"),)) for _ in chunks]

    document = Document("1", "Some text.", "One", {"author": "Acme", "year": 2020})
    with KnowledgeIndex.open(tmp_path, extractor=Once(), edges=["author"]) as index:
        index.add([document])
        before = snapshot(index)
    with KnowledgeIndex.open(tmp_path, edges=["author", "year"], progress=False) as index:
        assert index.graph.entity("year: 2020").type == "year"
        assert index.graph.entity("ACME Corp").description == "Makes things."
    with KnowledgeIndex.open(tmp_path, edges=["author"], progress=False) as index:
        assert snapshot(index) == before
    assert Once.calls == 1


def test_a_reader_with_other_edges_is_told_what_to_do(tmp_path):
    with KnowledgeIndex.open(tmp_path, edges=EDGES) as index:
        index.add(DOCUMENTS)
    with pytest.raises(ReadOnlyIndex, match="open it once for writing"):
        KnowledgeIndex.open(tmp_path, edges=["links"], read_only=True)
    KnowledgeIndex.open(tmp_path, edges=[("links", "id"), "author"], read_only=True).close()  # the same edges


def test_deriving_that_was_interrupted_is_done_again(tmp_path, monkeypatch):
    with KnowledgeIndex.open(tmp_path, edges=EDGES) as index:
        index.add(DOCUMENTS)
        read, calls = index.engine.parsed, []

        def failing(ids):
            calls.append(ids)
            if len(calls) > 1:
                raise OSError("no more disk")
            return read(ids)

        monkeypatch.setattr(index.engine, "parsed", failing, raising=False)
        index.pipeline.batch_size, index.pipeline.progress = 2, False
        with pytest.raises(OSError, match="no more disk"):
            index._set_edges((("links", "$id"),))
    with KnowledgeIndex.open(tmp_path, progress=False) as index:
        assert snapshot(index) == snapshot(make(edges=[("links", "id")]))


def test_every_chunk_of_a_document_has_its_edges():
    text = "\n\n".join(f"Paragraph {i} tells of otters and rivers at some length." * 12 for i in range(6))
    index = make([Document("1", text, "Otters", {"author": "Ada Byron"}), DOCUMENTS[1]], ["author"])
    assert len(index.chunks("1")) > 1
    assert index.graph.entity("Ada Byron").mentions == len(index.chunks("1"))
    assert facts(index, "Ada Byron") == ["Otters author: Ada Byron"]
