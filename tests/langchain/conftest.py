"""Fixtures of the LangChain adapter's tests."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document

from graphrag_core.testing import CHAIN, HashEmbedder
from langchain_graphrag import GraphRAGRetriever


@pytest.fixture
def documents() -> list[Document]:
    return [Document(id=one.id, page_content=one.text, metadata={**one.metadata, "title": one.title}) for one in CHAIN]


@pytest.fixture
def retriever(documents):
    with GraphRAGRetriever.from_documents(documents, HashEmbedder()) as retriever:
        yield retriever
