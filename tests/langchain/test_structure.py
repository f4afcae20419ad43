"""Titles, headings and pages of LangChain documents, in Markdown and HTML."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document

from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever

HTML = """<!DOCTYPE html><html><head><title>Pools | Docs</title><script>var hidden = 1</script></head>
<body><h1>Pools</h1><p>The <a href="workers.html#prefork">prefork</a> pool forks.</p><ul><li>It is fast.</li></ul>
</body></html>"""


def details_of(document: Document, question: str = "pool", **settings):
    with GraphRAGRetriever.from_documents(
        [document], HashEmbedder(), add_metadata=("section", "graphrag"), **settings
    ) as retriever:
        return retriever.invoke(question)


def test_headers_of_a_splitter_are_title_and_headings():
    metadata = {"Header 1": "Workers", "Header 2": "Pools", "page": 0, "total_pages": 9}
    (found,) = details_of(Document(id="a", page_content="The pool forks.", metadata=metadata))
    assert found.metadata["graphrag"]["title"] == "Workers"
    assert found.metadata["graphrag"]["headings"] == ["Pools"]
    assert found.metadata["graphrag"]["page"] == 1
    assert found.metadata["section"] == "Pools"
    assert {key: found.metadata[key] for key in metadata} == metadata


def test_raw_html_is_searched_and_returned_as_markdown():
    pytest.importorskip("selectolax")
    (found,) = details_of(Document(page_content=HTML, metadata={"source": "https://example.org/pools.html"}))
    assert found.metadata["graphrag"]["title"] == "Pools"
    assert "The [prefork](workers.html#prefork) pool forks." in found.page_content
    assert "<" not in found.page_content
    assert "hidden" not in found.page_content
