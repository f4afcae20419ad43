"""Nodes come back as they were inserted; results are those of the core."""

from __future__ import annotations

import json

import pytest
from llama_index.core import Document, MockEmbedding, Settings
from llama_index.core.callbacks import CallbackManager, CBEventType, LlamaDebugHandler
from llama_index.core.schema import (
    ImageNode,
    IndexNode,
    MetadataMode,
    NodeRelationship,
    QueryBundle,
    RelatedNodeInfo,
    TextNode,
)
from llama_support import QUESTION, ids

import graphrag_core
from graphrag_core import KnowledgeIndex
from graphrag_core.errors import InputError
from graphrag_core.testing import CHAIN, HashEmbedder
from llama_graphrag import GraphRAGRetriever


def rich_nodes():
    related = {
        NodeRelationship.SOURCE: RelatedNodeInfo(node_id="book", metadata={"shelf": 3}, hash="h"),
        NodeRelationship.NEXT: RelatedNodeInfo(node_id="image"),
        NodeRelationship.CHILD: [RelatedNodeInfo(node_id="x"), RelatedNodeInfo(node_id="y")],
    }
    return [
        TextNode(
            id_="text",
            text="  Ada Lovelace wrote notes.\n",
            metadata={"tags": ["a", 1], "author": {"name": "Ada"}, "draft": None},
            relationships=related,
            excluded_embed_metadata_keys=["tags"],
            excluded_llm_metadata_keys=["author"],
            metadata_template="{key}={value}",
            metadata_separator=" | ",
            text_template="{content} // {metadata_str}",
            start_char_idx=4,
            end_char_idx=30,
            mimetype="text/markdown",
        ),
        ImageNode(id_="image", text="A portrait of Ada Lovelace.", image_path="ada.png", image_mimetype="image/png"),
        ImageNode(id_="mute", text="", metadata={"caption": "Charles Babbage"}, image_url="http://example.org/b.png"),
        IndexNode(id_="chapter", text="A summary of chapter one.", index_id="chapter-1"),
        Document(id_="whole", text="A document about Ada Lovelace.", metadata={"title": "Ada Lovelace"}),
    ]


def test_what_comes_out_is_what_was_put_in(model, tmp_path):
    before = {node.node_id: node for node in rich_nodes()}
    with GraphRAGRetriever.from_nodes(rich_nodes(), model, path=tmp_path / "kb"):
        pass
    with GraphRAGRetriever.from_persist_dir(tmp_path / "kb", model, similarity_top_k=10) as retriever:
        answer = retriever.retrieve("Ada Lovelace and Charles Babbage, chapter one")
    assert set(ids(answer)) == before.keys()
    for one in answer:
        node, original = one.node, before[one.node_id]
        assert node.hash == original.hash or isinstance(node, Document)
        assert type(node) is type(original)
        assert node == original


def test_citations_are_shown_to_models_and_scores_are_not(model):
    source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id="book")}
    node = TextNode(id_="n", text="They fork.", metadata={"Header_1": "Pools", "Header_2": "Forks", "page": 7},
                    relationships=source)  # fmt: skip
    retriever = GraphRAGRetriever.from_nodes([node], model)
    assert retriever.retrieve("fork")[0].metadata == {**node.metadata, "section": "Forks"}
    names = ["section", "page", "document_id", "score", "channels"]
    (found,) = GraphRAGRetriever(retriever.index, add_metadata=names).retrieve("fork")
    assert found.metadata.keys() == {*node.metadata, *names}
    assert (found.metadata["document_id"], found.metadata["score"], found.metadata["page"]) == ("book", found.score, 7)
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        shown = found.node.get_content(mode)
        assert "section: Forks" in shown
        assert "document_id: book" in shown
        assert "score" not in shown
        assert "channels" not in shown


def test_a_node_says_how_it_was_found_to_people_and_not_to_models(retriever):
    retriever = GraphRAGRetriever(retriever.index, add_metadata=["graphrag"])
    node = next(one.node for one in retriever.retrieve(QUESTION) if one.node_id == "oauth")
    report = node.metadata["graphrag"]
    assert json.loads(json.dumps(report)) == report
    assert (report["method"], report["entities"]) == ("hybrid", ["Auth Service"])
    assert ": the question names Auth Service" in report["decided"]
    assert {"origin", "route", "trust", "expansion_skipped", "fallback"} <= report.keys()
    assert [step["text"] for step in report["path"][1::2]] == ["Auth Service", "OAuth Provider"]
    assert "graphrag" not in node.get_content(MetadataMode.LLM) + node.get_content(MetadataMode.EMBED)


def test_what_is_embedded_is_the_title_once_and_what_metadata_shows(model):
    nodes = [
        TextNode(id_="plain", text="Nothing but text."),
        TextNode(id_="titled", text="Issues tokens.", metadata={"title": "Auth Service"}),
        TextNode(id_="named", text="Issues tokens.", metadata={"file_name": "docs/auth.md", "file_size": 7},
                 excluded_embed_metadata_keys=["file_name", "file_size"]),
        TextNode(id_="shown", text="Issues tokens.", metadata={"title": "Auth Service", "team": "identity"}),
    ]  # fmt: skip
    retriever = GraphRAGRetriever.from_nodes(nodes, model)
    assert sorted(model.texts) == [
        "Auth Service\nIssues tokens.",
        "Auth Service\nteam: identity\n\nIssues tokens.",
        "Nothing but text.",
        "auth\nIssues tokens.",
    ]
    assert retriever.index.graph.entity("identity") is None, "metadata is not read for entities"
    model.asked.clear()
    retriever.insert_nodes(nodes)
    assert model.texts == [], "unchanged nodes cost nothing"
    changed = nodes[3].model_copy(update={"metadata": {"title": "Auth Service", "team": "sre"}})
    retriever.insert_nodes([changed])
    assert model.texts == ["Auth Service\nteam: sre\n\nIssues tokens."]


def test_the_strings_of_a_query_bundle_are_embedded_in_place_of_the_question(retriever, model):
    only_vectors = GraphRAGRetriever(retriever.index, method="vector")
    bundle = QueryBundle("Auth Service", custom_embedding_strs=["Lunch is served", "noon in the old hall"])
    assert ids(only_vectors.retrieve(bundle))[0] == "lunch"
    assert [text for way, text in model.asked if way == "query"] == bundle.embedding_strs


def test_settings_embed_model_is_the_convention_and_settings_llm_is_left_alone(monkeypatch, nodes):
    def refuse(self):
        raise AssertionError("no language model was asked for")

    monkeypatch.setattr(type(Settings), "llm", property(refuse))
    monkeypatch.setattr(Settings, "_embed_model", MockEmbedding(embed_dim=3))
    retriever = GraphRAGRetriever.from_nodes(nodes)
    assert retriever.index.stats().dim == 3
    assert len(retriever.retrieve("Auth Service")) == 5
    documents = GraphRAGRetriever.from_documents([Document(text="A red fox.")])
    assert documents.retrieve("fox")[0].text == "A red fox."


def test_an_index_filled_without_llama_index_is_served(tmp_path):
    long = "Ada Lovelace wrote notes on the Analytical Engine of Charles Babbage. " * 60
    with KnowledgeIndex.open(tmp_path, HashEmbedder()) as index:
        index.add([graphrag_core.Document("notes", long, metadata={"year": 1843}), *CHAIN])
    with GraphRAGRetriever.from_persist_dir(tmp_path, HashEmbedder()) as retriever:
        found = retriever.retrieve("Ada Lovelace")[0].node
        assert found.node_id.startswith("notes#")
        assert found.ref_doc_id == "notes"
        assert found.metadata["year"] == 1843
        assert long[found.start_char_idx : found.end_char_idx] == found.text
        assert retriever.delete_ref_doc("notes") == 1
        assert len(retriever.index) == 5


def test_a_source_document_goes_with_all_its_nodes(retriever):
    retriever.insert_nodes([TextNode(id_="alone", text="A node without a source.")])
    assert retriever.delete_ref_doc("acme.md") == 4
    assert set(ids(retriever.retrieve("Auth Service, Keyring, Lunch"))) == {"alone", "secret"}
    assert retriever.delete_ref_doc("acme.md") == 0
    assert retriever.delete_ref_doc("secret") == 0, "that is a node's id, and the node has a source"
    assert retriever.delete_ref_doc("alone") == 1, "a node without a source is its own"
    assert retriever.delete_ref_doc("umbrella.md") == 1
    assert retriever.delete_ref_doc("umbrella.md") == 0
    assert retriever.index.verify()


def test_an_index_node_leads_to_what_it_stands_for(model):
    target = TextNode(id_="target", text="The whole chapter.")
    inner = GraphRAGRetriever.from_nodes([TextNode(id_="inner", text="Chapter two, in full.")], model)
    outer = GraphRAGRetriever.from_nodes(
        [
            IndexNode(id_="one", text="Summary of chapter one.", index_id="c1", obj=target),
            IndexNode(id_="two", text="Summary of chapter two.", index_id="c2", obj=inner),
        ],
        model,
    )
    assert set(ids(outer.retrieve("chapter"))) == {"target", "inner"}


def test_the_callback_manager_hears_of_retrieval(retriever):
    handler = LlamaDebugHandler(print_trace_on_end=False)
    GraphRAGRetriever(retriever.index, callback_manager=CallbackManager([handler])).retrieve(QUESTION)
    assert len(handler.get_event_pairs(CBEventType.RETRIEVE)) == 1


async def test_a_call_takes_the_settings_of_the_constructor(retriever):
    two = ids(GraphRAGRetriever(retriever.index, similarity_top_k=2).retrieve(QUESTION))
    assert len(two) == 2
    assert ids(retriever.retrieve(QUESTION, similarity_top_k=2)) == two
    assert ids(await retriever.aretrieve(QUESTION, similarity_top_k=2)) == two
    assert [hit.chunk.id for hit in retriever.search(QUESTION, similarity_top_k=2)] == two
    assert len(retriever.retrieve(QUESTION)) > 2, "for that call alone"
    for call in (retriever.retrieve, retriever.search):
        with pytest.raises(InputError, match="pass one of them"):
            call(QUESTION, similarity_top_k=2, k=3)
