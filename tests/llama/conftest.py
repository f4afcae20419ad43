"""Fixtures of the LlamaIndex adapter's tests."""

from __future__ import annotations

from pathlib import Path

import llama_index.core
import nltk
import pytest
from llama_index.core.schema import TextNode
from llama_support import Hashed, make_nodes

from llama_graphrag import GraphRAGRetriever

# LlamaIndex 0.13 has the data its splitter needs in its own folder, but does not look there.
nltk.data.path.append(str(Path(llama_index.core.__path__[0], "_static", "nltk_cache")))


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
