"""``ask`` and ``aask`` of the LangChain adapter, with LangChain's fake models."""

from __future__ import annotations

import pytest
from langchain_core.language_models import FakeListChatModel, FakeListLLM
from langchain_core.output_parsers import StrOutputParser

from graphrag_core.testing import HashEmbedder
from langchain_graphrag import GraphRAGRetriever

QUESTION = "What does the Auth Service call?"


@pytest.fixture
def retriever():
    with GraphRAGRetriever.from_texts(
        ["The Auth Service calls the Keyring.", "The Keyring is sold by Solheim.", "The Auth Service of B is secret."],
        HashEmbedder(),
        metadatas=[{"tenant": "a"}, {"tenant": "a"}, {"tenant": "b"}],
        ids=["auth", "key", "secret"],
        k=3,
    ) as retriever:
        yield retriever


@pytest.mark.parametrize(
    "model",
    [
        FakeListChatModel(responses=["The Keyring [1]."]),
        FakeListLLM(responses=["The Keyring [1]."]),
        FakeListChatModel(responses=["The Keyring [1]."]) | StrOutputParser(),
    ],
    ids=["chat model", "llm", "chain"],
)
async def test_every_kind_of_model_answers(retriever, model):
    answer = retriever.ask(QUESTION, model)
    assert (answer.text, answer.kind) == ("The Keyring [1].", "llm")
    assert [citation.document_id for citation in answer.citations] == ["auth"]
    assert (await retriever.aask(QUESTION, model)).text == "The Keyring [1]."


def test_the_graph_is_steered_by_search_kwargs(retriever):
    retriever = retriever.model_copy(update={"search_kwargs": {"exclude": ["key"]}})
    assert "key" not in [document.id for document in retriever.invoke(QUESTION)]
