"""Titles, headings and pages of LlamaIndex nodes."""

from __future__ import annotations

import pytest
from llama_index.core import Document
from llama_index.core.node_parser import MarkdownNodeParser
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

from llama_graphrag import GraphRAGRetriever

PAGE = "# Workers\n\nThey run tasks.\n\n## Pools\n\nA pool forks.\n\n### Prefork\n\nIt is the default.\n"


@pytest.fixture
def structure(model):
    """Return a function from nodes to the title and the headings of each."""

    def read(nodes):
        settings = {"add_metadata": ["graphrag"], "similarity_top_k": 99}
        with GraphRAGRetriever.from_nodes(nodes, model, **settings) as retriever:
            found = {one.node_id: one.metadata["graphrag"] for one in retriever.retrieve("workers")}
        return [(found[node.node_id]["title"], found[node.node_id]["headings"]) for node in nodes]

    return read


def test_nodes_of_the_markdown_parser_have_their_path(structure):
    nodes = MarkdownNodeParser().get_nodes_from_documents([Document(text=PAGE, metadata={"file_name": "w.md"})])
    assert structure(nodes) == [("Workers", []), ("Workers", ["Pools"]), ("Workers", ["Pools", "Prefork"])]


def test_the_file_of_the_source_is_a_title(structure):
    source = RelatedNodeInfo(node_id="s", metadata={"file_name": "worker_pools.txt", "page_label": "3"})
    node = TextNode(id_="n", text="They fork.", relationships={NodeRelationship.SOURCE: source})
    assert structure([node]) == [("worker pools", [])]


def test_a_page_label_is_the_page(model):
    node = TextNode(id_="n", text="They fork.", metadata={"page_label": "3", "file_name": "pools.pdf"})
    (found,) = GraphRAGRetriever.from_nodes([node], model).retrieve("fork")
    assert found.node.metadata["page"] == 3
    assert found.node.metadata["page_label"] == "3"


def test_raw_html_is_searched_as_text_and_returned_as_it_was(model):
    pytest.importorskip("selectolax")
    html = "<html><head><title>Pools</title></head><body><h1>Pools</h1><p>They <b>fork</b>.</p></body></html>"
    retriever = GraphRAGRetriever.from_nodes([TextNode(id_="n", text=html)], model)
    assert model.texts == ["Pools\nPools\n\nThey fork."]
    (found,) = retriever.retrieve("fork")
    assert found.node.get_content() == html
