"""What people meet first: the keywords, a setting in capitals, a document of another library, no embedding model."""

from __future__ import annotations

import pydoc

import pytest
from langchain_core.documents import Document as LangChainDocument
from llama_index.core import Settings
from llama_index.core.schema import Document as LlamaDocument

import langchain_graphrag
import llama_graphrag
from graphrag_core import Document, GraphRetriever, KnowledgeIndex
from graphrag_core.errors import InputError
from graphrag_core.testing import CHAIN, HashEmbedder


def test_a_setting_in_capitals_names_the_right_one(framework):
    with framework.build(CHAIN, HashEmbedder()) as retriever, pytest.raises(InputError, match="did you mean 'k'"):
        framework.retrieve(retriever, "Keyring", K=3)
    with KnowledgeIndex(HashEmbedder()) as index, pytest.raises(InputError, match="did you mean 'k'"):
        GraphRetriever(index, K=3)


@pytest.mark.parametrize("document", [LangChainDocument("Keyring keeps secrets."), LlamaDocument(text="Keyring.")])
def test_a_document_of_a_framework_given_to_the_core_names_the_adapters(document):
    advice = "GraphRAGRetriever.from_documents of langchain_graphrag or llama_graphrag"
    with KnowledgeIndex(HashEmbedder()) as index, pytest.raises(InputError, match=advice):
        index.add([document])


def test_a_document_of_the_core_given_to_langchain_is_shown():
    with pytest.raises(InputError, match="expected a LangChain Document, got Document"):
        langchain_graphrag.GraphRAGRetriever.from_documents([Document("a", "Keyring.")], HashEmbedder())


def test_llama_index_without_an_embedding_model_names_one(monkeypatch):
    monkeypatch.setattr(Settings, "_embed_model", None)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("IS_TESTING", raising=False)
    with pytest.raises(InputError, match=r"LocalEmbedding\(\)"):
        llama_graphrag.GraphRAGRetriever.from_documents([LlamaDocument(text="Keyring keeps secrets.")])


@pytest.mark.parametrize("name", ["from_documents", "search"])
def test_help_shows_the_keywords_with_their_types(framework, name):
    shown = pydoc.render_doc(getattr(framework.GraphRAGRetriever, name), renderer=pydoc.plaintext)
    for keyword in ("k: int | None = 5", "use_graph: bool | None = True", "score_threshold: float | None"):
        assert keyword in shown
    assert ("path: str | pathlib." in shown) == (name == "from_documents")
