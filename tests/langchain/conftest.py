"""What the LangChain adapter's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from langchain_core.documents import Document

from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever

SHARED = Path(__file__).parents[3] / "shared"

CHAIN = [
    ("auth", "Auth Service", "The Auth Service delegates sign-in to the OAuth Provider.", "acme", 2019),
    ("oauth", "OAuth Provider", "The OAuth Provider is a thin layer in front of Keyring.", "acme", 2021),
    ("keyring", "Keyring", "Keyring is a company from Tallinn.", "acme", 2023),
    ("lunch", "Lunch", "Lunch is served at noon in the old hall.", "acme", 2023),
    ("secret", "Umbrella", "The OAuth Provider of Umbrella is run by Albert Wesker.", "umbrella", 2023),
]


@pytest.fixture
def documents() -> list[Document]:
    return [
        Document(id=name, page_content=text, metadata={"tenant": tenant, "year": year, "title": title})
        for name, title, text, tenant, year in CHAIN
    ]


@pytest.fixture
def retriever(documents):
    with GraphRAGRetriever.from_documents(documents, HashEmbedder()) as retriever:
        yield retriever


@pytest.fixture
def shared() -> Path:
    """The retrieval sets that lie beside the repository, where they do."""
    if not (SHARED / "data").is_dir():
        pytest.skip("the retrieval sets are not beside the repository")
    return SHARED
