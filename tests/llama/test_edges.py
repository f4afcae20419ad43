"""Explicit edges through LlamaIndex's retriever."""

from __future__ import annotations

from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import Document

from llama_graphrag import GraphRAGRetriever


def test_a_link_to_a_document_leads_to_its_nodes():
    long = " ".join(f"Sentence {i} is about spores and fronds." for i in range(60))
    documents = [
        Document(id_="guide", text="Kestrels hover.", metadata={"title": "Kestrels", "links": ["ferns.md"]}),
        Document(id_="ferns.md", text=long, metadata={"title": "Ferns"}),
    ]
    splitter = SentenceSplitter(chunk_size=128, chunk_overlap=0)
    retriever = GraphRAGRetriever.from_documents(
        documents, False, transformations=[splitter], edges=[("links", "id")], similarity_top_k=3
    )
    assert "ferns.md#1" in retriever.index.document_ids()
    texts = [fact.text for fact in retriever.index.graph.facts("Kestrels") if fact.relation == "links"]
    assert texts == ["Kestrels links: Ferns"]
    found = [node.node.ref_doc_id for node in retriever.retrieve("kestrels hover")]
    assert found[0] == "guide"
    assert "ferns.md" in found
