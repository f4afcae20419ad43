"""Titles, headings and pages of LlamaIndex nodes."""

from __future__ import annotations

import pytest
from llama_index.core import Document
from llama_index.core.node_parser import MarkdownNodeParser, SentenceSplitter
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode

from graphrag_core.ingest.chunker import whole_document
from graphrag_core.text import chunk_text, label
from graphrag_core.text.markup import plain
from llama_graphrag import GraphRAGRetriever
from llama_graphrag.nodes import default_embedding_text, embedding_text, to_documents

PAGE = "# Workers\n\nThey run tasks.\n\n## Pools\n\nA pool forks.\n\n### Prefork\n\nIt is the default.\n"


def labels(nodes):
    return [label(chunk.title, chunk.headings) for chunk in map(whole_document, to_documents(nodes))]


def test_nodes_of_the_markdown_parser_have_their_path():
    nodes = MarkdownNodeParser().get_nodes_from_documents([Document(text=PAGE, metadata={"file_name": "w.md"})])
    assert labels(nodes) == ["Workers", "Workers - Pools", "Workers - Prefork"]
    assert whole_document(to_documents(nodes)[2]).headings == ("Pools", "Prefork")


def test_later_nodes_have_the_title_of_their_document():
    splitter = SentenceSplitter(chunk_size=40, chunk_overlap=0)
    text = "# Workers\n\n" + "A worker runs tasks until it is told to stop. " * 12
    nodes = splitter.get_nodes_from_documents([Document(text=text, metadata={"file_name": "x/guide.md"})])
    assert len(nodes) > 2
    assert set(labels(nodes)) == {"Workers"}


def test_the_file_of_the_source_is_a_title():
    source = RelatedNodeInfo(node_id="s", metadata={"file_name": "worker_pools.txt", "page_label": "3"})
    node = TextNode(id_="n", text="They fork.", relationships={NodeRelationship.SOURCE: source})
    assert labels([node]) == ["worker pools"]


def test_a_page_label_is_the_page(model):
    node = TextNode(id_="n", text="They fork.", metadata={"page_label": "3", "file_name": "pools.pdf"})
    (found,) = GraphRAGRetriever.from_nodes([node], model).retrieve("fork")
    assert found.node.metadata["page"] == 3
    assert found.node.metadata["page_label"] == "3"


def test_raw_html_is_searched_as_text_and_returned_as_it_was(model):
    pytest.importorskip("selectolax")
    html = "<html><head><title>Pools</title></head><body><h1>Pools</h1><p>They <b>fork</b>.</p></body></html>"
    node = TextNode(id_="n", text=html)
    (document,) = to_documents([node])
    assert "They fork." in plain(document.text)
    assert "<" not in document.text
    (found,) = GraphRAGRetriever.from_nodes([node], model).retrieve("fork")
    assert found.node.get_content() == html


def test_what_is_embedded_has_no_markup():
    node = TextNode(id_="n", text="## Pools\n\nThey **fork**.", metadata={"header_path": "/Workers/"})
    (document,) = to_documents([node])
    assert embedding_text(node, document) == chunk_text("Workers - Pools", "Pools\n\nThey fork.")
    assert embedding_text(node, document) == default_embedding_text(document)
    assert node.text == "## Pools\n\nThey **fork**."
