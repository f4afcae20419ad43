"""What the LlamaIndex adapter's tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from llama_index.core.schema import TextNode
from llama_support import Hashed, make_nodes

from llama_graphrag import GraphRAGRetriever

SHARED = Path(__file__).parents[3] / "shared"


@pytest.fixture
def nodes() -> list[TextNode]:
    return make_nodes()


@pytest.fixture
def model() -> Hashed:
    return Hashed()


@pytest.fixture
def retriever(nodes, model):
    with GraphRAGRetriever.from_nodes(nodes, model) as retriever:
        yield retriever


@pytest.fixture
def shared() -> Path:
    """The retrieval sets that lie beside the repository, where they do."""
    if not (SHARED / "data").is_dir():
        pytest.skip("the retrieval sets are not beside the repository")
    return SHARED
