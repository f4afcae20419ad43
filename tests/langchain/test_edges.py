"""Explicit edges through LangChain's retriever."""

from __future__ import annotations

from langchain_core.documents import Document

from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever

DOCUMENTS = [
    Document(id="k", page_content="Kestrels hover.", metadata={"author": "Mara Lindqvist", "links": ["f"]}),
    Document(id="l", page_content="Lupins grow.", metadata={"author": "Mara Lindqvist"}),
    Document(id="f", page_content="Ferns spread by spores.", metadata={}),
]


def test_edges_are_a_setting_that_is_kept(tmp_path):
    edges = [("author", "author"), ("links", "$id")]
    retriever = GraphRAGRetriever.from_documents(DOCUMENTS, None, path=tmp_path, edges=edges, method="graph")
    found = retriever.invoke("What did Mara Lindqvist write?")
    assert {document.id for document in found} >= {"k", "l"}
    retriever.close()
    retriever = GraphRAGRetriever.load(tmp_path, None)
    assert retriever.index.edges == tuple(edges)
    links = {hit.chunk.id: hit.path for hit in retriever.search("kestrels")}
    assert any(step.text == "Kestrels hover links: Ferns spread by spores" for step in links["f"])
    retriever.close()


def test_other_edges_replace_them(tmp_path):
    GraphRAGRetriever.from_documents(DOCUMENTS, HashEmbedder(), path=tmp_path, edges=["author"]).close()
    with GraphRAGRetriever.load(tmp_path, HashEmbedder(), edges=[("links", "id")]).index as index:
        assert index.graph.entity("Mara Lindqvist") is None
        assert index.verify()
